#include "mvcc/keyindex.h"

#include "base/mem.h"
#include "mvcc/keyindex_int.h"

struct keyindex *keyindex_new(void)
{
    struct keyindex *ix = mem_new(struct keyindex);

    slabs_init(&ix->slabs);
    keyindex_tree_init(ix);
    ix->newest = (struct revision){-1, 0};
    ix->memo = mem_new(struct memo);
    return ix;
}

void keyindex_free(struct keyindex *ix)
{
    if (!ix)
        return;
    slabs_free(&ix->slabs);
    buf_free(&ix->range_tombstone.from);
    buf_free(&ix->range_tombstone.to);
    mem_free(ix->memo);
    mem_free(ix);
}

size_t keyindex_size(const struct keyindex *ix)
{
    return ix->size;
}

size_t keyindex_bytes(const struct keyindex *ix)
{
    return sizeof(*ix) + sizeof(*ix->memo) + ix->slabs.bytes;
}

/* --- looking ------------------------------------------------------------------------------ */

bool keyindex_find(const struct keyindex *ix, struct bytes key, struct revision at,
                   struct keyindex_found *out)
{
    unsigned place;
    bool found;
    const struct leaf *l = keyindex_tree_find(ix, key, &place, &found);

    return found && keyindex_look(ix, l->records[place], at, out);
}

bool keyindex_find_newest(const struct keyindex *ix, struct bytes key, struct keyindex_found *out)
{
    struct memo *m = ix->memo;

    keyindex_tree_path(ix, key, &m->path);
    m->shape = 0;
    if (key.len > 0 && key.len <= sizeof(m->key)) {
        m->shape = ix->shape;
        m->key_len = (uint32_t)key.len;
        memcpy(m->key, key.at, key.len);
    }
    if (!m->path.found)
        return false;
    const struct record *r = m->path.leaf->records[m->path.place];
    return keyindex_record_find_newest(r, out) && !keyindex_record_is_covered(ix, r);
}

/* The way to a key that is about to change, good until the next find_newest. */
static struct path *way_to(struct keyindex *ix, struct bytes key)
{
    struct memo *m = ix->memo;

    if (m->shape != ix->shape || !bytes_equal(key, bytes_of(m->key, m->key_len)))
        keyindex_tree_path(ix, key, &m->path);
    m->shape = 0; /* a change of the tree makes use of the path and may move it */
    return &m->path;
}

/* --- changing ----------------------------------------------------------------------------- */

static bool revision_is_sane(struct revision r)
{
    return r.main >= 0 && r.sub >= 0 && r.sub <= REVISION_SUB_MAX;
}

static struct change change_of(struct revision at, bool tombstone, uint32_t length)
{
    return (struct change){.main = at.main,
                           .sub = (uint32_t)at.sub & REVISION_SUB_MAX,
                           .tombstone = tombstone,
                           .length = length};
}

void keyindex_begin(struct keyindex *ix, struct revision at)
{
    assert(revision_is_sane(at));
    assert(revision_compare(ix->newest, at) < 0);

    if (!ix->working)
        ix->working_from = at;
    ix->working = true;
}

/* Where the path leads there is a key with this change, its newest, in a life like this. */
static void note(struct keyindex *ix, struct path *p, struct bytes key, struct change c,
                 int64_t created, int64_t version)
{
    /* Before anything changes below: afterwards it could not be told from what was covered. */
    if (ix->range_tombstone.on)
        keyindex_push_down(ix, p);
    if (p->found) {
        keyindex_record_note(&ix->slabs, p->leaf->records[p->place], c, created, version);
        if (leaf_is_alive(p->leaf, p->place) == c.tombstone)
            keyindex_tree_set_alive(ix, p, !c.tombstone);
    } else {
        struct record *r = keyindex_record_new(&ix->slabs, key);
        r->newest = c;
        r->created = created;
        r->version = version;
        keyindex_tree_insert(ix, p, r, !c.tombstone);
    }
    ix->newest = change_revision(&c);
}

/* What is known of the key the path leads to; NULL if nothing. */
static const struct record *path_record(const struct path *p)
{
    return p->found ? p->leaf->records[p->place] : NULL;
}

void keyindex_put(struct keyindex *ix, struct bytes key, struct revision at, uint32_t length)
{
    struct path *p = way_to(ix, key);
    const struct record *r = path_record(p);
    bool alive = r && !r->newest.tombstone;
    assert(!r || !keyindex_record_is_covered(ix, r)); /* that is settled first */

    keyindex_begin(ix, at);
    note(ix, p, key, change_of(at, false, length), alive ? r->created : at.main,
         alive ? r->version + 1 : 1);
}

bool keyindex_tombstone(struct keyindex *ix, struct bytes key, struct revision at, uint32_t length)
{
    struct path *p = way_to(ix, key);
    const struct record *r = path_record(p);

    if (!r || r->newest.tombstone || keyindex_record_is_covered(ix, r))
        return false;
    keyindex_begin(ix, at);
    note(ix, p, key, change_of(at, true, length), r->created, r->version);
    return true;
}

/* Every node that the write has touched bears its epoch, and its `before` counts for as long. With
 * the next epoch none of them does, without one being visited. */
void keyindex_publish(struct keyindex *ix)
{
    ix->working = false;
    ix->epoch++;
}

/* --- loading ------------------------------------------------------------------------------ */

/* No store was ever written to this often; far from where counting further would overflow. */
#define LOADED_VERSION_MAX (INT64_MAX / 2)

static bool can_load(const struct keyindex *ix, struct revision at)
{
    assert(!ix->working);

    return revision_is_sane(at) && revision_compare(ix->newest, at) < 0;
}

/* Does a put with this created and version follow from what is known? */
static bool follows(const struct record *r, struct revision at, int64_t created, int64_t version)
{
    if (!r || (r->newest.tombstone && !r->older))
        return created >= 0 && created <= at.main && version >= 1 && version <= LOADED_VERSION_MAX;
    if (r->newest.tombstone)
        return created == at.main && version == 1;
    return created == r->created && version == r->version + 1;
}

bool keyindex_load_put(struct keyindex *ix, struct bytes key, struct revision at, int64_t created,
                       int64_t version, uint32_t length)
{
    struct path *p = way_to(ix, key);

    if (!can_load(ix, at) || !follows(path_record(p), at, created, version) ||
        !keyindex_range_tombstone_allows(ix, key, at, false))
        return false;
    note(ix, p, key, change_of(at, false, length), created, version);
    return true;
}

bool keyindex_load_tombstone(struct keyindex *ix, struct bytes key, struct revision at,
                             uint32_t length)
{
    struct path *p = way_to(ix, key);
    const struct record *r = path_record(p);
    bool alive = r && !r->newest.tombstone;

    if (!can_load(ix, at) || !keyindex_range_tombstone_allows(ix, key, at, true))
        return false;
    note(ix, p, key, change_of(at, true, length), alive ? r->created : at.main,
         alive ? r->version : 0);
    return true;
}
