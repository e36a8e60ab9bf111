#include "mvcc/keyindex_int.h"

/* One slice. */
struct slice {
    struct keyindex *ix;
    int64_t main;
    unsigned steps; /* left */
    keyindex_drop *drop;
    void *context;
};

static void tell(const struct slice *s, const struct change *c)
{
    s->drop(s->context, change_revision(c), c->tombstone);
}

enum compact_result { KEPT, EMPTIED, UNFINISHED };

/* Looking at a record is a step, and so is each revision that goes. */
static enum compact_result compact_record(struct slice *s, struct record *r)
{
    uint64_t drops = keyindex_record_dropped_by(r, s->main);
    bool all = drops == keyindex_record_changes(r);

    for (uint64_t older = drops - all; older > 0; older--) {
        if (s->steps == 0)
            return UNFINISHED;
        s->steps--;
        tell(s, keyindex_record_change(r, 0));
        keyindex_record_drop_oldest(&s->ix->slabs, r);
    }
    if (s->steps == 0)
        return UNFINISHED;
    s->steps--;
    if (drops > 0)
        keyindex_record_shrink(&s->ix->slabs, r);
    return all ? EMPTIED : KEPT;
}

static void remove_record(struct slice *s, struct bytes key)
{
    struct path p;

    keyindex_tree_path(s->ix, key, &p);
    struct record *r = keyindex_tree_remove(s->ix, &p);
    tell(s, &r->newest);
    keyindex_record_free(&s->ix->slabs, r);
}

/* Where to go on: in this leaf at this place; the tree has this shape. */
struct spot {
    struct leaf *leaf;
    unsigned place;
};

static void remember(struct keyindex_compaction *c, const struct record *r)
{
    buf_clear(&c->next);
    buf_append(&c->next, record_key(r));
    c->started = true;
}

static struct spot spot_of(const struct keyindex *ix, const struct keyindex_compaction *c)
{
    struct spot s = {.leaf = keyindex_tree_edge(ix, false)};
    bool found;

    if (c->started)
        s.leaf = keyindex_tree_find(ix, buf_bytes(&c->next), &s.place, &found);
    return s;
}

/* The records are met in order, so the memory can be asked for those to come, and then for what
 * they point to. */
static void prefetch(const struct leaf *l, unsigned place)
{
    enum { RECORD_AHEAD = 8, HISTORY_AHEAD = 4 };

    if (place + RECORD_AHEAD < l->count)
        __builtin_prefetch(l->records[place + RECORD_AHEAD]);
    if (place + HISTORY_AHEAD < l->count)
        __builtin_prefetch(l->records[place + HISTORY_AHEAD]->older);
}

/* True when the last record is done. */
static bool compact_records(struct slice *s, struct keyindex_compaction *c)
{
    struct spot at = spot_of(s->ix, c);

    for (;;) {
        if (at.place == at.leaf->count) {
            if (!at.leaf->right)
                return true;
            at = (struct spot){.leaf = at.leaf->right};
        }
        prefetch(at.leaf, at.place);
        struct record *r = at.leaf->records[at.place];
        enum compact_result result = compact_record(s, r);
        if (result == KEPT) {
            at.place++;
            continue;
        }
        remember(c, r);
        if (result == UNFINISHED)
            return false;
        remove_record(s, buf_bytes(&c->next));
        at = spot_of(s->ix, c); /* nodes may have been merged */
    }
}

bool keyindex_compact_some(struct keyindex *ix, struct keyindex_compaction *c, int64_t main,
                           unsigned steps, keyindex_drop *drop, void *context)
{
    struct slice s = {.ix = ix, .main = main, .steps = steps, .drop = drop, .context = context};

    assert(main >= 0);
    assert(steps > 0);
    assert(!ix->range_tombstone.on);

    if (!c->walked)
        c->walked = compact_records(&s, c);
    return c->walked && !slabs_release(&ix->slabs);
}

void keyindex_compaction_end(struct keyindex_compaction *c)
{
    buf_free(&c->next);
    *c = (struct keyindex_compaction){0};
}

bool keyindex_keeps(const struct keyindex *ix, struct bytes key, struct revision at, int64_t main)
{
    unsigned place;
    bool found;

    if (at.main > main)
        return true;
    const struct leaf *l = keyindex_tree_find(ix, key, &place, &found);
    if (!found)
        return false;
    const struct record *r = l->records[place];
    uint64_t kept = keyindex_record_dropped_by(r, main);
    if (kept == keyindex_record_changes(r))
        return false;
    const struct change *c = keyindex_record_change(r, kept);
    return !c->tombstone && revision_compare(change_revision(c), at) == 0;
}
