/*
 * txn_check: what etcd asks of a transaction before it goes into the log.
 *
 * First the arguments of everything in it, then that no key is written twice in a way that would
 * depend on the order. A transaction is a tree: lists of operations, some of which are transactions
 * with two lists of their own, of which one will run.
 *
 *     txn --+-- success: put a, txn --+-- success: put b
 *           |                         +-- failure: put b    fine: only one of the two will run
 *           +-- failure: delete [a, c)                      fine, for the same reason
 *
 * Two puts of one key are refused if the lowest thing that both are in is a list, not a
 * transaction. A put is refused for a delete that covers its key, if one of them stands directly in
 * the list that both are in, or if the delete's nested transaction comes before the put's. (etcd
 * accepts the reverse order; and since it takes range_end as it is, a delete of everything from a
 * key on, with range_end "\0", covers nothing here.)
 *
 * Two megabytes hold some hundred thousand operations, so nothing here may be quadratic, nor grow
 * with operations times depth: puts are sorted, and neighbours of the same key compared; deletes
 * are added to and taken from a Fenwick tree over the sorted keys while the tree is walked. Of the
 * two branches of a transaction the one with fewer deletes goes first, so that each delete is taken
 * out again only log n times. Recursion is as deep as the decoder allows, PB_DEPTH_MAX at most.
 */
#include "api/api_int.h"

#include <stdlib.h>

/* --- arguments --- */

enum result api_range_check(const struct pb_range_request *r)
{
    if (r->key.len == 0)
        return RESULT_EMPTY_KEY;
    if (r->sort_order < PB_SORT_NONE || r->sort_order > PB_SORT_DESCEND)
        return RESULT_INVALID_SORT_OPTION;
    if (r->sort_target < PB_SORT_BY_KEY || r->sort_target > PB_SORT_BY_VALUE)
        return RESULT_INVALID_SORT_OPTION;
    return RESULT_OK;
}

enum result api_put_check(const struct pb_put_request *r)
{
    if (r->key.len == 0)
        return RESULT_EMPTY_KEY;
    if (r->ignore_value && r->value.len != 0)
        return RESULT_VALUE_PROVIDED;
    if (r->ignore_lease && r->lease != 0)
        return RESULT_LEASE_PROVIDED;
    return RESULT_OK;
}

enum result api_delete_range_check(const struct pb_delete_range_request *r)
{
    return r->key.len == 0 ? RESULT_EMPTY_KEY : RESULT_OK;
}

static enum result check_arguments(const struct pb_txn_request *txn, size_t ops_max);

static enum result check_op(const struct pb_request_op *op, size_t ops_max)
{
    switch (op->which) {
    case PB_OP_RANGE:
        return api_range_check(op->range);
    case PB_OP_PUT:
        return api_put_check(op->put);
    case PB_OP_DELETE_RANGE:
        return api_delete_range_check(op->delete_range);
    case PB_OP_TXN:
        return check_arguments(op->txn, ops_max);
    case PB_OP_NONE:
        break;
    }
    return RESULT_KEY_NOT_FOUND; /* as strange as it sounds */
}

static enum result check_ops(const struct pb_request_op *ops, size_t count, size_t ops_max)
{
    for (size_t i = 0; i < count; i++) {
        enum result a = check_op(&ops[i], ops_max);
        if (a != RESULT_OK)
            return a;
    }
    return RESULT_OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* What a transaction uses up of ops_max is missing to those inside it. */
static enum result check_arguments(const struct pb_txn_request *txn, size_t ops_max)
{
    size_t used = larger(txn->compare.count, larger(txn->success.count, txn->failure.count));

    if (used > ops_max)
        return RESULT_TOO_MANY_OPS;
    for (size_t i = 0; i < txn->compare.count; i++) {
        if (txn->compare.at[i].key.len == 0)
            return RESULT_EMPTY_KEY;
    }
    enum result a = check_ops(txn->success.at, txn->success.count, ops_max - used);
    if (a == RESULT_OK)
        a = check_ops(txn->failure.at, txn->failure.count, ops_max - used);
    return a;
}

/* --- overlaps --- */

/* A list of operations, which is one branch of its transaction. */
struct branch {
    const struct branch *parent; /* the list that its transaction stands in; NULL: the outermost */
    const struct pb_txn_request *txn;
    unsigned depth;
    size_t first_put, put_count;       /* its own, in tree.puts, until they are sorted */
    size_t first_delete, delete_count; /* its own, in tree.deletes */
    size_t deletes_end;                /* behind those of everything inside it */
    struct branch *children;           /* two for each transaction in it */
    size_t child_count;
};

struct put_place {
    struct bytes key;
    const struct branch *branch;
    size_t number; /* in the order of the walk */
    size_t rank;   /* of its key among all that are put */
};

struct delete_place {
    struct bytes from, to; /* to: exclusive */
    bool one;              /* from alone */
    size_t low, high;      /* ranks of the keys it covers */
};

struct tree {
    struct arena *arena;
    struct put_place *puts;
    struct delete_place *deletes;
    size_t put_count, delete_count;
    size_t *rank_of; /* by a put's number */
    size_t rank_count;
    int32_t *sums; /* the Fenwick tree, over ranks: differences of how many deletes cover each */
};

static void count_ops(const struct pb_txn_request *txn, struct tree *t);

static void count_list(const struct pb_request_op *ops, size_t count, struct tree *t)
{
    for (size_t i = 0; i < count; i++) {
        t->put_count += ops[i].which == PB_OP_PUT;
        t->delete_count += ops[i].which == PB_OP_DELETE_RANGE;
        if (ops[i].which == PB_OP_TXN)
            count_ops(ops[i].txn, t);
    }
}

static void count_ops(const struct pb_txn_request *txn, struct tree *t)
{
    count_list(txn->success.at, txn->success.count, t);
    count_list(txn->failure.at, txn->failure.count, t);
}

static void plant(struct tree *t, const struct pb_txn_request *txn, const struct branch *parent,
                  struct branch pair[2]);

static void plant_own(struct tree *t, struct branch *b, const struct pb_request_op *ops,
                      size_t count)
{
    b->first_put = t->put_count;
    b->first_delete = t->delete_count;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].which == PB_OP_PUT) {
            t->puts[t->put_count] =
                (struct put_place){.key = ops[i].put->key, .branch = b, .number = t->put_count};
            t->put_count++;
        } else if (ops[i].which == PB_OP_DELETE_RANGE) {
            const struct pb_delete_range_request *r = ops[i].delete_range;
            t->deletes[t->delete_count++] = (struct delete_place){
                .from = r->key, .to = r->range_end, .one = r->range_end.len == 0};
        }
        b->child_count += ops[i].which == PB_OP_TXN ? 2 : 0;
    }
    b->put_count = t->put_count - b->first_put;
    b->delete_count = t->delete_count - b->first_delete;
}

static void plant_list(struct tree *t, struct branch *b, const struct pb_request_op *ops,
                       size_t count)
{
    plant_own(t, b, ops, count);
    b->children = arena_new_array(t->arena, b->child_count, struct branch);
    size_t child = 0;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].which != PB_OP_TXN)
            continue;
        plant(t, ops[i].txn, b, &b->children[child]);
        child += 2;
    }
    b->deletes_end = t->delete_count;
}

static void plant(struct tree *t, const struct pb_txn_request *txn, const struct branch *parent,
                  struct branch pair[2])
{
    unsigned depth = parent ? parent->depth + 1 : 0;

    assert(depth <= PB_DEPTH_MAX);
    pair[0] = pair[1] = (struct branch){.parent = parent, .txn = txn, .depth = depth};
    plant_list(t, &pair[0], txn->success.at, txn->success.count);
    plant_list(t, &pair[1], txn->failure.at, txn->failure.count);
}

/* --- puts against puts --- */

static int compare_puts(const void *a, const void *b)
{
    const struct put_place *x = a, *y = b;
    int order = bytes_compare(x->key, y->key);

    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

/* Can both of them run? Not if they are in the two branches of one transaction. */
static bool may_both_run(const struct branch *a, const struct branch *b)
{
    while (a->depth > b->depth)
        a = a->parent;
    while (b->depth > a->depth)
        b = b->parent;
    while (a != b && a->parent != b->parent) {
        a = a->parent;
        b = b->parent;
    }
    return a == b || a->txn != b->txn;
}

/*
 * Sorts the puts and numbers their keys. Comparing neighbours is enough: in the order of the walk
 * the lowest common place of two puts is the highest among those of the neighbours in between.
 */
static bool has_duplicates(struct tree *t)
{
    qsort(t->puts, t->put_count, sizeof(t->puts[0]), compare_puts);
    t->rank_of = arena_new_array(t->arena, t->put_count, size_t);
    for (size_t i = 0; i < t->put_count; i++) {
        bool repeats = i > 0 && bytes_equal(t->puts[i].key, t->puts[i - 1].key);
        if (repeats && may_both_run(t->puts[i].branch, t->puts[i - 1].branch))
            return true;
        t->rank_count += !repeats;
        t->puts[i].rank = t->rank_count - 1;
        t->rank_of[t->puts[i].number] = t->rank_count - 1;
    }
    return false;
}

/* --- puts against deletes --- */

/* The place among the sorted puts of the first whose key is not below this one. */
static size_t find_put(const struct tree *t, struct bytes key)
{
    size_t low = 0, high = t->put_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(t->puts[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t rank_at(const struct tree *t, size_t place)
{
    return place < t->put_count ? t->puts[place].rank : t->rank_count;
}

static void rank_deletes(struct tree *t)
{
    for (size_t i = 0; i < t->delete_count; i++) {
        struct delete_place *d = &t->deletes[i];
        size_t first = find_put(t, d->from);
        d->low = rank_at(t, first);
        if (d->one)
            d->high =
                d->low + (first < t->put_count && bytes_equal(t->puts[first].key, d->from) ? 1 : 0);
        else
            d->high = rank_at(t, find_put(t, d->to));
    }
}

static void add_sum(struct tree *t, size_t rank, int32_t change)
{
    for (size_t i = rank + 1; i <= t->rank_count; i += i & (~i + 1))
        t->sums[i - 1] += change;
}

static void cover(struct tree *t, size_t first, size_t end, int32_t change)
{
    for (size_t i = first; i < end; i++) {
        const struct delete_place *d = &t->deletes[i];
        if (d->low >= d->high)
            continue;
        add_sum(t, d->low, change);
        add_sum(t, d->high, -change);
    }
}

static bool is_covered(const struct tree *t, size_t rank)
{
    int32_t sum = 0;

    for (size_t i = rank + 1; i > 0; i -= i & (~i + 1))
        sum += t->sums[i - 1];
    assert(sum >= 0);
    return sum > 0;
}

static bool pair_collides(struct tree *t, const struct branch pair[2]);

/* With the deletes in force that count for this list. Leaves its own in force, all of them. */
static bool list_collides(struct tree *t, const struct branch *b)
{
    cover(t, b->first_delete, b->first_delete + b->delete_count, 1);
    for (size_t i = 0; i < b->child_count; i += 2) {
        if (pair_collides(t, &b->children[i]))
            return true;
    }
    for (size_t i = b->first_put; i < b->first_put + b->put_count; i++) {
        if (is_covered(t, t->rank_of[i]))
            return true;
    }
    return false;
}

static size_t deletes_inside(const struct branch *b)
{
    return b->deletes_end - b->first_delete;
}

static bool pair_collides(struct tree *t, const struct branch pair[2])
{
    bool swap = deletes_inside(&pair[0]) > deletes_inside(&pair[1]);
    const struct branch *fewer = &pair[swap], *more = &pair[!swap];

    if (list_collides(t, fewer))
        return true;
    cover(t, fewer->first_delete, fewer->deletes_end, -1);
    if (list_collides(t, more))
        return true;
    cover(t, fewer->first_delete, fewer->deletes_end, 1);
    return false;
}

static enum result check_overlaps(const struct pb_txn_request *txn, struct arena *arena)
{
    struct tree t = {.arena = arena};
    struct branch pair[2];

    count_ops(txn, &t);
    if (t.put_count + t.delete_count < 2 || t.put_count == 0)
        return RESULT_OK;
    t.puts = arena_new_array(arena, t.put_count, struct put_place);
    t.deletes = arena_new_array(arena, t.delete_count, struct delete_place);
    t.put_count = t.delete_count = 0;
    plant(&t, txn, NULL, pair);
    if (has_duplicates(&t))
        return RESULT_DUPLICATE_KEY;
    if (t.delete_count == 0)
        return RESULT_OK;
    rank_deletes(&t);
    t.sums = arena_new_array(arena, t.rank_count, int32_t);
    return pair_collides(&t, pair) ? RESULT_DUPLICATE_KEY : RESULT_OK;
}

enum result api_txn_check(const struct pb_txn_request *txn, unsigned ops_max, struct arena *arena)
{
    enum result a = check_arguments(txn, ops_max);

    return a != RESULT_OK ? a : check_overlaps(txn, arena);
}
