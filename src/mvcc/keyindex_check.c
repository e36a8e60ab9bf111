#include "mvcc/keyindex_int.h"

/* --- text --------------------------------------------------------------------------------- */

void keyindex_describe(const struct keyindex *ix, struct bytes key, struct buf *out)
{
    unsigned place;
    bool found;
    const struct leaf *l = keyindex_tree_find(ix, key, &place, &found);

    buf_append_str(out, "generations=");
    if (!found) {
        buf_append_str(out, "none");
        return;
    }
    const struct record *r = l->records[place];
    uint64_t count = keyindex_record_changes(r);
    const char *joint = "{";
    for (uint64_t i = 0; i < count; i++) {
        const struct change *c = keyindex_record_change(r, i);
        buf_printf(out, "%s%lld", joint, (long long)c->main);
        if (c->sub > 0)
            buf_printf(out, ".%u", (unsigned)c->sub);
        if (c->tombstone)
            buf_append_byte(out, 't');
        joint = c->tombstone ? "} {" : ",";
    }
    buf_append_byte(out, '}');
}

/* --- invariants --------------------------------------------------------------------------- */

/* What a walk over all nodes from left to right has seen. */
struct visit {
    const struct keyindex *ix;
    const struct leaf *last_leaf;
    const struct record *last_record;
    size_t records;
};

struct living {
    uint64_t now, published, covered;
};

/* Before the write under way a record was as it was at the revision before its first. */
static bool was_alive(const struct keyindex *ix, const struct record *r)
{
    struct revision before = ix->working_from;
    struct keyindex_found found;

    if (!ix->working)
        return !r->newest.tombstone && !keyindex_record_is_covered(ix, r);
    before.sub--;
    return keyindex_look(ix, r, before, &found);
}

/* Is the range tombstone? */
static bool is_published(const struct keyindex *ix)
{
    return !ix->working || ix->range_tombstone.epoch != ix->epoch;
}

/* What a leaf says, and what it would say if it knew that it was covered as a whole. */
struct leaf_counts {
    uint64_t alive, published, covered;
};

static struct leaf_counts leaf_counts(const struct keyindex *ix, const struct leaf *l, bool whole)
{
    uint64_t published = leaf_living(ix, l, true);

    if (!whole)
        return (struct leaf_counts){l->alive, published, l->covered};
    assert(l->covered == 0);
    return (struct leaf_counts){0, is_published(ix) ? 0 : published, l->alive};
}

/* Who is covered was alive just before, and is in the range. Whoever is unsettled is covered. */
static void check_covered(const struct keyindex *ix, const struct record *r, bool covered)
{
    struct revision before = ix->range_tombstone.first;
    struct keyindex_found found;

    before.sub--;
    assert(covered || !keyindex_record_is_covered(ix, r));
    if (!covered)
        return;
    assert(ix->range_tombstone.on);
    assert(key_range_has(&ix->range_tombstone.range, record_key(r)));
    bool was_alive = keyindex_record_find(r, before, &found);
    assert(was_alive);
}

static void check_record(struct visit *v, const struct leaf *l, unsigned i,
                         const struct leaf_counts *counts)
{
    const struct record *r = l->records[i];

    keyindex_record_check(r);
    assert(!v->last_record || bytes_compare(record_key(v->last_record), record_key(r)) < 0);
    assert(revision_compare(change_revision(&r->newest), v->ix->newest) <= 0);
    assert(l->heads[i] == keyindex_tree_head(record_key(r), l->skip));
    assert((counts->alive >> i & 1) ==
           (!r->newest.tombstone && !keyindex_record_is_covered(v->ix, r)));
    assert((counts->published >> i & 1) == was_alive(v->ix, r));
    check_covered(v->ix, r, counts->covered >> i & 1);
    v->last_record = r;
    v->records++;
}

static struct living check_leaf(struct visit *v, const struct leaf *l, bool whole, struct bytes low,
                                struct bytes high)
{
    const struct keyindex *ix = v->ix;
    struct leaf_counts counts = leaf_counts(ix, l, whole);

    assert(l->count > 0 || ix->height == 0);
    assert(l->count <= NODE_MAX);
    assert(l->skip == keyindex_tree_common(low, high));
    assert(l->left == v->last_leaf);
    assert(!v->last_leaf || v->last_leaf->right == l);
    v->last_leaf = l;
    for (unsigned i = 0; i < l->count; i++)
        check_record(v, l, i, &counts);
    for (unsigned i = l->count; i < NODE_MAX; i++) {
        assert(l->heads[i] == UINT32_MAX);
        assert(!((l->alive | leaf_living(ix, l, true) | l->covered) >> i & 1));
    }
    if (l->count > 0) {
        assert(!low.at || bytes_compare(low, record_key(l->records[0])) <= 0);
        assert(!high.at || bytes_compare(record_key(l->records[l->count - 1]), high) < 0);
    }
    return (struct living){(unsigned)__builtin_popcountll(counts.alive),
                           (unsigned)__builtin_popcountll(counts.published),
                           (unsigned)__builtin_popcountll(counts.covered)};
}

static void check_inner(const struct keyindex *ix, const struct inner *n, struct bytes low,
                        struct bytes high)
{
    assert(n->count >= 2);
    assert(n->count <= INNER_MAX);
    assert(n->epoch <= ix->epoch);
    assert(n->outer == (!low.at || !high.at));
    if (n->outer) {
        low = separator_bytes(n->separators[1]);
        high = separator_bytes(n->separators[n->count - 1]);
        assert(n->skip <= keyindex_tree_common(low, high)); /* less, where separators have gone */
    } else {
        assert(n->skip == keyindex_tree_common(low, high));
    }
    assert(ix->range_tombstone.on || n->whole == 0);
    assert(!(n->whole & ~bits_below(n->count)));
    assert(!n->separators[0]);
    assert(n->heads[0] == 0);
    for (unsigned i = 1; i < NODE_MAX; i++) {
        uint32_t head = i < n->count
                            ? keyindex_tree_head(separator_bytes(n->separators[i]), n->skip)
                            : UINT32_MAX;
        assert(n->heads[i] == head);
    }
}

/* `whole`: something above it was covered with all below. */
static struct living check_node(struct visit *v, const void *node, unsigned level, bool whole,
                                struct bytes low, struct bytes high)
{
    const struct inner *n = node;
    struct living total = {0};

    if (level == 0)
        return check_leaf(v, node, whole, low, high);
    check_inner(v->ix, n, low, high);
    const uint32_t *published = inner_living(v->ix, n, true);
    for (unsigned i = 0; i < n->count; i++) {
        struct bytes from = i > 0 ? separator_bytes(n->separators[i]) : low;
        struct bytes to = i + 1 < n->count ? separator_bytes(n->separators[i + 1]) : high;
        assert(!from.at || !to.at || bytes_compare(from, to) < 0);
        bool covered = n->whole >> i & 1;
        assert(!covered || n->covered[i] > 0); /* else the settling would never come by */
        assert(!whole || (!covered && n->covered[i] == 0)); /* it does not know yet */
        struct living child = check_node(v, n->children[i], level - 1, whole || covered, from, to);
        assert(child.now == (whole ? 0 : n->living[i]));
        assert(child.covered == (whole ? n->living[i] : n->covered[i]));
        assert(child.published == (whole && is_published(v->ix) ? 0 : published[i]));
        total.now += child.now;
        total.published += child.published;
        total.covered += child.covered;
    }
    return total;
}

void keyindex_check(const struct keyindex *ix)
{
    struct visit v = {.ix = ix};

    assert(ix->height <= HEIGHT_MAX);
    struct living all =
        check_node(&v, ix->root, ix->height, false, (struct bytes){0}, (struct bytes){0});
    assert(all.covered == (ix->range_tombstone.on ? ix->range_tombstone.left : 0));
    assert(!ix->range_tombstone.on || ix->range_tombstone.left > 0);
    assert(v.last_leaf);
    assert(!v.last_leaf->right);
    assert(v.records == ix->size);
    slabs_check(&ix->slabs);
}
