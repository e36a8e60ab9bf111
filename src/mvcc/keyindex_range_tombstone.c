#include "mvcc/keyindex_int.h"

#include "base/limits.h"

/*
 * A range tombstone takes a path down either side of its range. What lies between the two is not
 * touched: the bit of such a child in its parent's `whole` says that all below it is covered, and
 * is handed down a level at a time, where somebody has to know. So the counts of the living are
 * right at once, and those of the covered tell each its place among them, and with it the revision
 * of its tombstone.
 *
 * That place must never change, whatever is settled first: a put into the range settles its own key
 * early, and the others keep the revisions they were given when the delete was applied. Therefore
 * one that is settled early still counts as covered, until the settling comes by in the order of
 * keys; and nobody that was counted leaves the tree before (no compaction meanwhile).
 */

bool keyindex_is_unsettled(const struct keyindex *ix)
{
    return ix->range_tombstone.on;
}

const struct key_range *keyindex_unsettled_range(const struct keyindex *ix)
{
    assert(ix->range_tombstone.on);
    return &ix->range_tombstone.range;
}

struct revision keyindex_unsettled_first(const struct keyindex *ix)
{
    assert(ix->range_tombstone.on);
    return ix->range_tombstone.first;
}

bool keyindex_is_covered(const struct keyindex *ix, struct bytes key, struct revision mod)
{
    return revision_compare(mod, ix->range_tombstone.first) < 0 &&
           key_range_has(&ix->range_tombstone.range, key);
}

/* --- covering ----------------------------------------------------------------------------- */

/* Below a node, from one key on and up to another; NULL: from its first, up to its last. */
static uint32_t leaf_cover(struct keyindex *ix, struct leaf *l, const struct bytes *from,
                           const struct bytes *to)
{
    unsigned low = from ? keyindex_tree_place(l, *from) : 0;
    unsigned high = to ? keyindex_tree_place(l, *to) : l->count;
    uint64_t covering = l->alive & bits_below(high) & ~bits_below(low);

    leaf_touch(ix, l);
    l->covered = covering;
    l->alive &= ~covering;
    return (uint32_t)__builtin_popcountll(covering);
}

static uint32_t node_cover(struct keyindex *ix, void *node, unsigned level,
                           const struct bytes *from, const struct bytes *to)
{
    struct inner *n = node;
    uint32_t total = 0;

    if (level == 0)
        return leaf_cover(ix, node, from, to);
    inner_touch(ix, n);
    unsigned first = from ? keyindex_tree_child(n, *from) : 0;
    unsigned last = to ? keyindex_tree_child(n, *to) : n->count - 1;
    for (unsigned i = first; i <= last; i++) {
        const struct bytes *low = i == first ? from : NULL, *high = i == last ? to : NULL;
        uint32_t covered = n->living[i];
        if (low || high)
            covered = node_cover(ix, n->children[i], level - 1, low, high);
        else if (covered > 0)
            n->whole |= 1ull << i;
        n->covered[i] = covered;
        n->living[i] -= covered;
        total += covered;
    }
    return total;
}

static void remember_range(struct range_tombstone *f, const struct key_range *range)
{
    buf_clear(&f->from);
    buf_append(&f->from, range->from);
    buf_clear(&f->to);
    buf_append(&f->to, range->to);
    f->range = (struct key_range){.from = buf_bytes(&f->from)};
    if (range->to.at)
        f->range.to = buf_bytes(&f->to);
}

static uint64_t cover_range(struct keyindex *ix, const struct key_range *range, struct revision at)
{
    const struct bytes *to = range->to.at ? &range->to : NULL;

    if (to && bytes_compare(range->from, *to) >= 0)
        return 0;
    uint64_t covered = node_cover(ix, ix->root, ix->height, &range->from, to);
    ix->memo->shape = 0;
    if (covered == 0)
        return 0;
    ix->range_tombstone.on = true;
    ix->range_tombstone.first = at;
    ix->range_tombstone.epoch = ix->epoch;
    ix->range_tombstone.settled = 0;
    ix->range_tombstone.left = covered;
    remember_range(&ix->range_tombstone, range);
    return covered;
}

int64_t keyindex_range_tombstone(struct keyindex *ix, const struct key_range *range,
                                 struct revision at)
{
    assert(!ix->range_tombstone.on);
    assert(!range->one);

    int64_t count = keyindex_count(ix, range, false);
    if (count == 0)
        return 0;
    assert(count <= REVISION_SUB_MAX - at.sub);
    keyindex_begin(ix, at);
    uint64_t covered = cover_range(ix, range, at);
    assert((int64_t)covered == count);
    ix->newest = (struct revision){at.main, at.sub + count - 1};
    return count;
}

/* --- letting nodes know ------------------------------------------------------------------- */

static void leaf_lower(struct keyindex *ix, struct leaf *l)
{
    /* For those who ask for what is published, nothing is covered yet. */
    if (ix->range_tombstone.epoch == ix->epoch)
        leaf_touch(ix, l);
    l->covered = l->alive;
    l->alive = 0;
}

/* A child in which nobody lives is not in `whole`: the settling passes by whom it has nothing to
 * store for, and nobody else would ever take the bit away. */
static void inner_lower(struct keyindex *ix, struct inner *n)
{
    assert(n->whole == 0);

    if (ix->range_tombstone.epoch == ix->epoch)
        inner_touch(ix, n);
    memcpy(n->covered, n->living, n->count * sizeof(n->living[0]));
    memset(n->living, 0, n->count * sizeof(n->living[0]));
    for (unsigned i = 0; i < n->count; i++)
        n->whole |= (uint64_t)(n->covered[i] > 0) << i;
}

/* The child is at this level. */
static void lower_child(struct keyindex *ix, struct inner *n, unsigned child, unsigned level)
{
    if (!(n->whole >> child & 1))
        return;
    if (level == 0)
        leaf_lower(ix, n->children[child]);
    else
        inner_lower(ix, n->children[child]);
    n->whole &= ~(1ull << child);
}

void keyindex_push_down(struct keyindex *ix, const struct path *p)
{
    for (unsigned level = p->height; level > 0; level--)
        lower_child(ix, p->steps[level - 1].node, p->steps[level - 1].child, level - 1);
}

/* --- what is unsettled -------------------------------------------------------------------- */

/* How many were covered before the path's place and are not settled. Its nodes know. */
static uint64_t covered_before(const struct path *p)
{
    uint64_t before = (unsigned)__builtin_popcountll(p->leaf->covered & bits_below(p->place));

    for (unsigned level = 0; level < p->height; level++)
        for (unsigned i = 0; i < p->steps[level].child; i++)
            before += p->steps[level].node->covered[i];
    return before;
}

bool keyindex_key_is_unsettled(struct keyindex *ix, struct bytes key, struct revision *at)
{
    struct path p;

    if (!ix->range_tombstone.on)
        return false;
    keyindex_tree_path(ix, key, &p);
    if (!p.found || !keyindex_record_is_covered(ix, p.leaf->records[p.place]))
        return false;
    keyindex_push_down(ix, &p);
    *at = ix->range_tombstone.first;
    at->sub += (int64_t)(ix->range_tombstone.settled + covered_before(&p));
    return true;
}

static void note_tombstone(struct keyindex *ix, struct record *r, struct revision at,
                           uint32_t length)
{
    struct change tombstone = {.main = at.main,
                               .sub = (uint32_t)at.sub & REVISION_SUB_MAX,
                               .tombstone = 1,
                               .length = length};

    keyindex_record_note(&ix->slabs, r, tombstone, r->created, r->version);
    if (revision_compare(ix->newest, at) < 0) /* after a load */
        ix->newest = at;
}

void keyindex_settle_key(struct keyindex *ix, struct bytes key, struct revision at, uint32_t length)
{
    unsigned place;
    bool found;
    struct leaf *l = keyindex_tree_find(ix, key, &place, &found);

    assert(found);
    assert(l->covered >> place & 1);
    assert(keyindex_record_is_covered(ix, l->records[place]));
    note_tombstone(ix, l->records[place], at, length);
}

/* --- the settling ------------------------------------------------------------------------- */

/* The way to the first leaf with some that are covered. There is one. */
static void path_to_covered(struct keyindex *ix, struct path *p)
{
    void *node = ix->root;

    p->height = ix->height;
    for (unsigned level = ix->height; level > 0; level--) {
        struct inner *n = node;
        unsigned child = 0;
        while (n->covered[child] == 0)
            child++;
        assert(child < n->count);
        lower_child(ix, n, child, level - 1);
        p->steps[level - 1].node = n;
        p->steps[level - 1].child = child;
        node = n->children[child];
    }
    p->leaf = node;
    assert(p->leaf->covered != 0);
}

/* Records are met in order, so the memory can be asked for those to come. */
static void prefetch(const struct leaf *l, uint64_t covered)
{
    for (; covered; covered &= covered - 1)
        __builtin_prefetch(l->records[__builtin_ctzll(covered)]);
}

static void settle_leaf(struct keyindex *ix, struct path *p, unsigned *steps,
                        keyindex_store_tombstone *store, void *context)
{
    struct leaf *l = p->leaf;
    unsigned settled = 0;

    prefetch(l, l->covered);
    for (; l->covered && *steps > 0; settled++) {
        uint32_t length = 0;
        struct record *r = l->records[__builtin_ctzll(l->covered)];
        struct revision at = ix->range_tombstone.first;
        at.sub += (int64_t)(ix->range_tombstone.settled + settled);
        if (keyindex_record_is_covered(ix, r)) { /* else a put has settled it early; it counts on */
            length = store(context, record_key(r), at);
            note_tombstone(ix, r, at, length);
        }
        l->covered &= l->covered - 1;
        unsigned cost = 1 + length / MVCC_TOMBSTONE_STEP_BYTES;
        *steps -= cost < *steps ? cost : *steps;
    }
    for (unsigned level = 0; level < p->height; level++)
        p->steps[level].node->covered[p->steps[level].child] -= settled;
    ix->range_tombstone.settled += settled;
    ix->range_tombstone.left -= settled;
}

bool keyindex_settle_some(struct keyindex *ix, unsigned steps, keyindex_store_tombstone *store,
                          void *context)
{
    struct path p;

    while (ix->range_tombstone.on && steps > 0) {
        path_to_covered(ix, &p);
        settle_leaf(ix, &p, &steps, store, context);
        if (ix->range_tombstone.left == 0)
            ix->range_tombstone.on = false;
    }
    return !ix->range_tombstone.on;
}

/* --- loading ------------------------------------------------------------------------------ */

bool keyindex_load_range_tombstone(struct keyindex *ix, const struct key_range *range,
                                   struct revision at)
{
    assert(!ix->working);
    assert(!ix->range_tombstone.on);

    if (range->one || revision_compare(ix->newest, at) >= 0)
        return false;
    int64_t count = keyindex_count(ix, range, false);
    if (count == 0 || count > REVISION_SUB_MAX - at.sub)
        return false;
    cover_range(ix, range, at);
    ix->range_tombstone.epoch--; /* of a write that is over: what is loaded counts as published */
    return true;
}

bool keyindex_range_tombstone_allows(struct keyindex *ix, struct bytes key, struct revision at,
                                     bool tombstone)
{
    const struct range_tombstone *f = &ix->range_tombstone;
    struct revision is_open;

    if (!f->on)
        return true;
    bool unsettled = keyindex_key_is_unsettled(ix, key, &is_open);
    bool belongs = at.main == f->first.main && at.sub >= f->first.sub &&
                   at.sub < f->first.sub + (int64_t)(f->settled + f->left);
    if (!belongs)
        return !unsettled;
    return unsettled && tombstone && revision_compare(is_open, at) == 0;
}
