#include "base/crc32c.h"
#include "mvcc/mvcc_int.h"

/* --- HashKV ------------------------------------------------------------------------------- */

/* 0 is the newest, also where somebody has compacted at 0. (etcd gives that one's from then on.) */
static bool recall(const struct mvcc *m, struct mvcc_hash *h)
{
    for (size_t i = 0; i < m->hash_count; i++) {
        const struct compaction_hash *known = &m->hashes[i];
        if (known->revision != h->revision || h->revision == 0)
            continue;
        h->hash = known->hash;
        h->other = known->other;
        h->compact_revision = known->compact_revision;
        return true;
    }
    return false;
}

static void begin_hash(struct mvcc *m, struct mvcc_hash *h)
{
    struct key_range all = key_range(BYTES(""), BYTES("\0")); /* a bump counts, too */

    h->hash = h->other = crc32c(0, BYTES("key"));
    h->next = (struct revision){0, 0};
    keyindex_cursor_open(m->index, &all, revision_whole(h->revision), false, &h->pin.cursor);
    h->pin.walking = true;
    h->has_keep = false;
}

static void end_hash(struct mvcc_hash *h)
{
    if (h->pin.walking)
        keyindex_cursor_close(&h->pin.cursor);
    h->pin.walking = false;
    h->open = false;
}

/*
 * The pin stands at the compact revision, not at the hash's own: a later compaction, although it
 * keeps whatever can be read at its revision, would remove some of what is yet to be hashed.
 */
enum mvcc_result mvcc_hash_open(struct mvcc *m, struct mvcc_hash *h)
{
    assert(!h->open);

    h->is_known = recall(m, h);
    h->open = h->is_known;
    if (h->is_known)
        return MVCC_OK;
    if (h->revision > 0 && h->revision < m->compact_revision)
        return MVCC_COMPACTED;
    if (h->revision > m->revision)
        return MVCC_FUTURE;
    if (h->revision == 0)
        h->revision = m->revision;
    h->compact_revision = m->compact_revision;
    h->pin = (struct mvcc_scan){.question.at = revision_whole(m->compact_revision)};
    mvcc_pin(m, &h->pin);
    begin_hash(m, h);
    h->open = true;
    return MVCC_OK;
}

void mvcc_hash_close(struct mvcc *m, struct mvcc_hash *h)
{
    if (!h->open)
        return;
    mvcc_stop_waiting(&h->waiter);
    if (!h->is_known)
        mvcc_unpin(m, &h->pin);
    end_hash(h);
}

/* Is there a change of this revision? */
static bool has_change_at(struct mvcc *m, int64_t main)
{
    struct revision_key space;
    struct revision at = {0};
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value;
    bool tombstone;

    backend_view_open(m->backend, &v);
    backend_cursor_open(&v, BUCKET_KEY, revision_encode((struct revision){main, 0}, false, &space),
                        &c);
    bool found = backend_cursor_next(&c, &key, &value) == ERR_OK &&
                 revision_decode(key, &at, &tombstone) && at.main == main;
    backend_cursor_close(&c);
    backend_view_close(&v);
    return found;
}

/*
 * Of what lies at or below the compact revision, etcd hashes what a compaction at the hash's
 * revision would keep; but if that would keep nothing at all, because no key was alive then, it
 * hashes whatever is still there. When the compaction is through, that is what it has kept itself.
 * So we take its own revision for the rule then, and need not wait for it.
 *
 * To a compaction that hashes, tombstones at its very revision are kept too, and make the
 * difference between something and nothing. Where no key is alive, its changes are tombstones.
 */
static bool find_keep(struct mvcc *m, struct mvcc_hash *h, unsigned *steps)
{
    struct keyindex_found found;

    bool any = false;
    while (!any && keyindex_cursor_next(&h->pin.cursor, steps, &found))
        any = keyindex_keeps(m->index, found.key, found.mod, h->revision);
    if (!any && *steps == 0)
        return false;
    bool is_emptied = !any && has_change_at(m, h->revision);
    h->keep = any || (is_emptied && h->of_compaction) ? h->revision : h->compact_revision;
    h->keep_of_other = any || (is_emptied && !h->of_compaction) ? h->revision : h->compact_revision;
    h->has_keep = true;
    keyindex_cursor_close(&h->pin.cursor);
    h->pin.walking = false;
    return true;
}

/* False: the end, or damage. */
static bool hash_entry(struct mvcc *m, struct mvcc_hash *h, struct bytes key, struct bytes value)
{
    struct revision at;
    bool tombstone;
    struct pb_key_value kv = {0};

    if (!revision_decode(key, &at, &tombstone) ||
        (!kv_is_bump(value, tombstone) && !kv_decode(value, &kv))) {
        mvcc_damage(m, "bucket key: an entry is not a KeyValue under a revision");
        return false;
    }
    if (at.main > h->revision)
        return false;
    h->next = (struct revision){at.main, at.sub + 1};
    bool is_newer = at.main > h->compact_revision;
    if (is_newer || keyindex_keeps(m->index, kv.key, at, h->keep))
        h->hash = crc32c(crc32c(h->hash, key), value);
    if (h->keep_of_other != h->keep &&
        (is_newer || keyindex_keeps(m->index, kv.key, at, h->keep_of_other)))
        h->other = crc32c(crc32c(h->other, key), value);
    return true;
}

static bool hash_walk(struct mvcc *m, struct mvcc_hash *h, struct mvcc_history *from,
                      unsigned steps)
{
    struct bytes key, value;
    bool ended = false;

    while (steps > 0 && !ended) {
        enum err e = mvcc_history_next(from, &key, &value);
        if (e == ERR_NOT_FOUND)
            return false; /* of the copies: the next call asks for more of them */
        if (e == ERR_CORRUPT)
            mvcc_walk_damage(m, &from->view);
        ended = e != ERR_OK || !hash_entry(m, h, key, value);
        mvcc_spend(&steps, 1 + (ended ? 0 : mvcc_read_cost(value.len)));
        if (mvcc_is_late(m))
            steps = 0;
    }
    return ended;
}

static bool hash_some(struct mvcc *m, struct mvcc_hash *h, unsigned steps)
{
    struct mvcc_history from;

    if (!h->has_keep && !find_keep(m, h, &steps))
        return false;
    if (!mvcc_history_open(m, h->next, h->at_once, &from))
        return false;
    bool ended = hash_walk(m, h, &from, steps);
    mvcc_history_close(&from);
    if (h->keep_of_other == h->keep)
        h->other = h->hash;
    return ended;
}

bool mvcc_hash_some(struct mvcc *m, struct mvcc_hash *h, unsigned steps)
{
    assert(h->open);

    if (h->is_known)
        return true;
    return mvcc_when_settled(m, &h->waiter, h->revision) && hash_some(m, h, steps);
}

/* --- of compactions ----------------------------------------------------------------------- */

/* It needs no pin: no other compaction begins before this one has ended. */
void mvcc_compaction_hash_begin(struct mvcc *m)
{
    assert(!m->hashing.open);

    m->hashing = (struct mvcc_hash){.revision = m->now.revision,
                                    .compact_revision = m->now.before,
                                    .of_compaction = true,
                                    .open = true};
    begin_hash(m, &m->hashing);
}

bool mvcc_compaction_hash_some(struct mvcc *m, unsigned steps)
{
    assert(m->hashing.open);
    assert(mvcc_is_settled(m, INT64_MAX));

    return hash_some(m, &m->hashing, steps);
}

void mvcc_compaction_hash_end(struct mvcc *m)
{
    end_hash(&m->hashing);
}

bool mvcc_compaction_hash(const struct mvcc *m, size_t nth, struct mvcc_hash *out)
{
    if (nth >= m->hash_count)
        return false;
    const struct compaction_hash *h = &m->hashes[m->hash_count - 1 - nth];

    *out = (struct mvcc_hash){.revision = h->revision,
                              .hash = h->hash,
                              .other = h->other,
                              .compact_revision = h->compact_revision};
    return true;
}

/* --- Hash --------------------------------------------------------------------------------- */

/* These differ between members that hold the same data. */
static bool is_left_out(enum bucket bucket, struct bytes key)
{
    return bucket == BUCKET_META &&
           (bytes_equal(key, BYTES("consistent_index")) || bytes_equal(key, BYTES("term")) ||
            bytes_equal(key, BYTES("storageVersion")));
}

static enum err hash_bucket(struct backend_view *v, enum bucket bucket, uint32_t *hash)
{
    struct backend_cursor c;
    struct bytes key, value;
    enum err e;

    *hash = crc32c(*hash, bytes_of_str(bucket_name(bucket)));
    backend_cursor_open(v, bucket, (struct bytes){0}, &c);
    while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK)
        if (!is_left_out(bucket, key))
            *hash = crc32c(crc32c(*hash, key), value);
    backend_cursor_close(&c);
    return e == ERR_END ? ERR_OK : e;
}

enum err mvcc_hash_store(struct backend_view *v, uint32_t *out)
{
    uint32_t hash = 0;
    enum err e = ERR_OK;

    for (int bucket = 0; bucket < BUCKET_COUNT && e == ERR_OK; bucket++)
        e = hash_bucket(v, (enum bucket)bucket, &hash);
    if (e == ERR_OK)
        *out = hash;
    return e;
}
