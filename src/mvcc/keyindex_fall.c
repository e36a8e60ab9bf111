#include "mvcc/keyindex_int.h"

/*
 * A fall takes a path down either side of its range. What lies between the two is not touched: the
 * bit of such a child in its parent's `whole` says that all below has fallen, and is handed down a
 * level at a time, where somebody has to know. So the counts of the living are right at once, and
 * those of the fallen tell each its place among them, and with it the revision of its tombstone.
 */

bool keyindex_is_falling(const struct keyindex *ix)
{
    return ix->fall.on;
}

const struct key_range *keyindex_fall_range(const struct keyindex *ix)
{
    assert(ix->fall.on);
    return &ix->fall.range;
}

struct revision keyindex_fall_first(const struct keyindex *ix)
{
    assert(ix->fall.on);
    return ix->fall.first;
}

bool keyindex_fell(const struct keyindex *ix, struct bytes key, struct revision mod)
{
    return revision_compare(mod, ix->fall.first) < 0 && key_range_has(&ix->fall.range, key);
}

/* --- the fall ----------------------------------------------------------------------------- */

/* Below a node, from one key on and up to another; NULL: from its first, up to its last. */
static uint32_t leaf_fall(struct keyindex *ix, struct leaf *l, const struct bytes *from,
                          const struct bytes *to)
{
    unsigned low = from ? keyindex_tree_place(l, *from) : 0;
    unsigned high = to ? keyindex_tree_place(l, *to) : l->count;
    uint64_t falling = l->alive & bits_below(high) & ~bits_below(low);

    leaf_touch(ix, l);
    l->fallen = falling;
    l->alive &= ~falling;
    return (uint32_t)__builtin_popcountll(falling);
}

static uint32_t node_fall(struct keyindex *ix, void *node, unsigned level, const struct bytes *from,
                          const struct bytes *to)
{
    struct inner *n = node;
    uint32_t total = 0;

    if (level == 0)
        return leaf_fall(ix, node, from, to);
    inner_touch(ix, n);
    unsigned first = from ? keyindex_tree_child(n, *from) : 0;
    unsigned last = to ? keyindex_tree_child(n, *to) : n->count - 1;
    for (unsigned i = first; i <= last; i++) {
        const struct bytes *low = i == first ? from : NULL, *high = i == last ? to : NULL;
        uint32_t fell = n->living[i];
        if (low || high)
            fell = node_fall(ix, n->children[i], level - 1, low, high);
        else if (fell > 0)
            n->whole |= 1ull << i;
        n->fallen[i] = fell;
        n->living[i] -= fell;
        total += fell;
    }
    return total;
}

static void remember_range(struct fall *f, const struct key_range *range)
{
    buf_clear(&f->from);
    buf_append(&f->from, range->from);
    buf_clear(&f->to);
    buf_append(&f->to, range->to);
    f->range = (struct key_range){.from = buf_bytes(&f->from)};
    if (range->to.at)
        f->range.to = buf_bytes(&f->to);
}

static uint64_t fall(struct keyindex *ix, const struct key_range *range, struct revision at)
{
    const struct bytes *to = range->to.at ? &range->to : NULL;

    if (to && bytes_compare(range->from, *to) >= 0)
        return 0;
    uint64_t fell = node_fall(ix, ix->root, ix->height, &range->from, to);
    ix->memo->shape = 0;
    if (fell == 0)
        return 0;
    ix->fall.on = true;
    ix->fall.first = at;
    ix->fall.epoch = ix->epoch;
    ix->fall.swept = 0;
    ix->fall.left = fell;
    remember_range(&ix->fall, range);
    return fell;
}

int64_t keyindex_fall(struct keyindex *ix, const struct key_range *range, struct revision at)
{
    assert(!ix->fall.on);
    assert(!range->one);

    int64_t count = keyindex_count(ix, range, false);
    if (count == 0)
        return 0;
    assert(count <= REVISION_SUB_MAX - at.sub);
    keyindex_begin(ix, at);
    uint64_t fell = fall(ix, range, at);
    assert((int64_t)fell == count);
    ix->newest = (struct revision){at.main, at.sub + count - 1};
    return count;
}

/* --- letting nodes know ------------------------------------------------------------------- */

static void leaf_lower(struct keyindex *ix, struct leaf *l)
{
    if (ix->fall.epoch == ix->epoch) /* for those who ask for what is published, nothing fell */
        leaf_touch(ix, l);
    l->fallen = l->alive;
    l->alive = 0;
}

static void inner_lower(struct keyindex *ix, struct inner *n)
{
    if (ix->fall.epoch == ix->epoch)
        inner_touch(ix, n);
    memcpy(n->fallen, n->living, n->count * sizeof(n->living[0]));
    memset(n->living, 0, n->count * sizeof(n->living[0]));
    n->whole = bits_below(n->count);
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

void keyindex_fall_reach(struct keyindex *ix, const struct path *p)
{
    for (unsigned level = p->height; level > 0; level--)
        lower_child(ix, p->steps[level - 1].node, p->steps[level - 1].child, level - 1);
}

/* --- what is owed ------------------------------------------------------------------------- */

/* How many fell before the path's place and are not swept. Its nodes know. */
static uint64_t fallen_before(const struct path *p)
{
    uint64_t before = (unsigned)__builtin_popcountll(p->leaf->fallen & bits_below(p->place));

    for (unsigned level = 0; level < p->height; level++)
        for (unsigned i = 0; i < p->steps[level].child; i++)
            before += p->steps[level].node->fallen[i];
    return before;
}

bool keyindex_owes(struct keyindex *ix, struct bytes key, struct revision *at)
{
    struct path p;

    if (!ix->fall.on)
        return false;
    keyindex_tree_path(ix, key, &p);
    if (!p.found || !keyindex_is_owed(ix, p.leaf->records[p.place]))
        return false;
    keyindex_fall_reach(ix, &p);
    *at = ix->fall.first;
    at->sub += (int64_t)(ix->fall.swept + fallen_before(&p));
    return true;
}

static void pay(struct keyindex *ix, struct record *r, struct revision at, uint32_t length)
{
    struct change tombstone = {.main = at.main,
                               .sub = (uint32_t)at.sub & REVISION_SUB_MAX,
                               .tombstone = 1,
                               .length = length};

    keyindex_record_note(&ix->slabs, r, tombstone, r->created, r->version);
    if (revision_compare(ix->newest, at) < 0) /* after a load */
        ix->newest = at;
}

void keyindex_pay(struct keyindex *ix, struct bytes key, struct revision at, uint32_t length)
{
    unsigned place;
    bool found;
    struct leaf *l = keyindex_tree_find(ix, key, &place, &found);

    assert(found);
    assert(l->fallen >> place & 1);
    assert(keyindex_is_owed(ix, l->records[place]));
    pay(ix, l->records[place], at, length);
}

/* --- the sweep ---------------------------------------------------------------------------- */

/* The way to the first leaf with some that fell. There is one. */
static void path_to_fallen(struct keyindex *ix, struct path *p)
{
    void *node = ix->root;

    p->height = ix->height;
    for (unsigned level = ix->height; level > 0; level--) {
        struct inner *n = node;
        unsigned child = 0;
        while (n->fallen[child] == 0)
            child++;
        assert(child < n->count);
        lower_child(ix, n, child, level - 1);
        p->steps[level - 1].node = n;
        p->steps[level - 1].child = child;
        node = n->children[child];
    }
    p->leaf = node;
    assert(p->leaf->fallen != 0);
}

/* Records are met in order, so the memory can be asked for those to come. */
static void prefetch(const struct leaf *l, uint64_t fallen)
{
    for (; fallen; fallen &= fallen - 1)
        __builtin_prefetch(l->records[__builtin_ctzll(fallen)]);
}

static unsigned sweep_leaf(struct keyindex *ix, struct path *p, unsigned steps, keyindex_bury *bury,
                           void *context)
{
    struct leaf *l = p->leaf;
    unsigned swept = 0;

    prefetch(l, l->fallen);
    for (; l->fallen && swept < steps; swept++) {
        struct record *r = l->records[__builtin_ctzll(l->fallen)];
        struct revision at = ix->fall.first;
        at.sub += (int64_t)(ix->fall.swept + swept);
        if (keyindex_is_owed(ix, r)) /* else somebody has paid already */
            pay(ix, r, at, bury(context, record_key(r), at));
        l->fallen &= l->fallen - 1;
    }
    for (unsigned level = 0; level < p->height; level++)
        p->steps[level].node->fallen[p->steps[level].child] -= swept;
    ix->fall.swept += swept;
    ix->fall.left -= swept;
    return swept;
}

bool keyindex_sweep_some(struct keyindex *ix, unsigned steps, keyindex_bury *bury, void *context)
{
    struct path p;

    while (ix->fall.on && steps > 0) {
        path_to_fallen(ix, &p);
        steps -= sweep_leaf(ix, &p, steps, bury, context);
        if (ix->fall.left == 0)
            ix->fall.on = false;
    }
    return !ix->fall.on;
}

/* --- loading ------------------------------------------------------------------------------ */

bool keyindex_load_fall(struct keyindex *ix, const struct key_range *range, struct revision at)
{
    assert(!ix->working);
    assert(!ix->fall.on);

    if (range->one || revision_compare(ix->newest, at) >= 0)
        return false;
    int64_t count = keyindex_count(ix, range, false);
    if (count == 0 || count > REVISION_SUB_MAX - at.sub)
        return false;
    fall(ix, range, at);
    ix->fall.epoch--; /* it is published */
    return true;
}

bool keyindex_fall_allows(struct keyindex *ix, struct bytes key, struct revision at, bool tombstone)
{
    const struct fall *f = &ix->fall;
    struct revision owed;

    if (!f->on)
        return true;
    bool owes = keyindex_owes(ix, key, &owed);
    bool belongs = at.main == f->first.main && at.sub >= f->first.sub &&
                   at.sub < f->first.sub + (int64_t)(f->swept + f->left);
    if (!belongs)
        return !owes;
    return owes && tombstone && revision_compare(owed, at) == 0;
}
