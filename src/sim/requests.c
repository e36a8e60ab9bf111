/* What can be asked of the store. */
#include "sim/actor_int.h"

#include <stdio.h>

enum {
    VALUE_BYTES_MAX = 2000,
    BRANCH_MAX = 4, /* operations of a transaction */
};

struct bytes request_key(struct actor *a, unsigned key)
{
    char text[HISTORY_KEY_BYTES];

    return arena_copy(&a->arena, bytes_of_str(history_key(key, text)));
}

/* The number of the operation about to begin, and something behind it. */
static struct bytes value_of_size(struct actor *a, size_t padding)
{
    char *text = arena_alloc(&a->arena, 24 + padding);
    int len = snprintf(text, 24, "%zu ", a->h->op_count);

    memset(text + len, 'x', padding);
    return bytes_of(text, (size_t)len + padding);
}

static struct bytes some_value(struct actor *a)
{
    return value_of_size(a, rng_chance(&a->rng, 1, 10) ? rng_below(&a->rng, VALUE_BYTES_MAX) : 3);
}

static unsigned any_key(struct actor *a)
{
    return (unsigned)rng_below(&a->rng, HISTORY_KEYS);
}

/* Some of the herd that lie together, or all of it. */
static void some_herd(struct actor *a, struct bytes *key, struct bytes *end)
{
    bool all = rng_chance(&a->rng, 1, 2);
    unsigned from = all ? 0 : (unsigned)rng_below(&a->rng, HERD_KEYS);
    unsigned to = all ? HERD_KEYS : from + 1 + (unsigned)rng_below(&a->rng, HERD_KEYS);

    *key = request_key(a, HISTORY_KEYS + from);
    *end = to < HERD_KEYS ? request_key(a, HISTORY_KEYS + to) : BYTES("{");
}

/* One key, some that lie together, all of ours, or the herd. */
static void some_range(struct actor *a, struct bytes *key, struct bytes *end)
{
    uint64_t dice = rng_below(&a->rng, a->o.has_herd ? 10 : 8);

    *end = (struct bytes){0};
    if (dice < 4)
        *key = request_key(a, any_key(a));
    else if (dice < 6) {
        unsigned from = any_key(a);
        unsigned to = from + 1 + (unsigned)rng_below(&a->rng, 6);
        *key = request_key(a, from);
        *end = to < HISTORY_KEYS ? request_key(a, to) : BYTES("l");
    } else if (dice < 8) {
        *key = BYTES("k");
        *end = BYTES("l");
    } else
        some_herd(a, key, end);
}

static struct pb_put_request put_of(struct actor *a, unsigned key)
{
    struct pb_put_request put = {.key = request_key(a, key), .value = some_value(a)};

    unsigned leased_of_4 = a->o.kind == ACTOR_KEEPER ? 4 : a->o.kind == ACTOR_LESSEE ? 2 : 1;
    if (rng_chance(&a->rng, leased_of_4, 4))
        put.lease = a->lease;
    put.prev_kv = rng_chance(&a->rng, 1, 3);
    return put;
}

struct pb_put_request request_put(struct actor *a)
{
    return put_of(a, any_key(a));
}

struct pb_put_request request_small_put(struct actor *a)
{
    struct pb_put_request put = {.key = request_key(a, any_key(a))};

    put.value = value_of_size(a, 0);
    return put;
}

struct pb_delete_range_request request_delete(struct actor *a)
{
    struct pb_delete_range_request d = {.prev_kv = rng_chance(&a->rng, 1, 3)};

    some_range(a, &d.key, &d.range_end);
    return d;
}

struct pb_delete_range_request request_herd_delete(struct actor *a)
{
    struct pb_delete_range_request d = {0};

    some_herd(a, &d.key, &d.range_end);
    return d;
}

/* --- ranges --- */

/* Near the newest one; now and then above it. */
static int64_t some_bound(struct actor *a)
{
    return a->h->told + 2 - (int64_t)rng_below(&a->rng, 60);
}

/* etcd sorts what has a target but no order only after it has cut it at the limit: we do not ask
 * for that here. */
static void add_options(struct actor *a, struct pb_range_request *r)
{
    r->sort_order = (int32_t)rng_below(&a->rng, 3);
    if (r->sort_order != PB_SORT_NONE)
        r->sort_target = (int32_t)rng_below(&a->rng, PB_SORT_BY_VALUE);
    if (rng_chance(&a->rng, 1, 6))
        r->min_mod_revision = some_bound(a);
    if (rng_chance(&a->rng, 1, 6))
        r->max_mod_revision = some_bound(a);
    if (rng_chance(&a->rng, 1, 6))
        r->min_create_revision = some_bound(a);
    if (rng_chance(&a->rng, 1, 6))
        r->max_create_revision = some_bound(a);
}

static int64_t some_old_revision(struct actor *a)
{
    int64_t newest = a->h->told;
    int64_t oldest = newest > 40 ? newest - 40 : 1;

    if (a->o.kind == ACTOR_READER && oldest > a->h->compacted)
        oldest = a->h->compacted > 1 ? a->h->compacted - 1 : 1;
    return (int64_t)rng_between(&a->rng, (uint64_t)oldest, (uint64_t)newest);
}

struct pb_range_request request_read(struct actor *a)
{
    struct pb_range_request r = {.serializable = rng_chance(&a->rng, 1, 6)};
    bool is_reader = a->o.kind == ACTOR_READER;

    if (a->o.kind == ACTOR_POLLER)
        return (struct pb_range_request){.key = request_key(a, any_key(a))};
    some_range(a, &r.key, &r.range_end);
    if (rng_chance(&a->rng, 1, 4))
        r.limit = (int64_t)rng_between(&a->rng, 1, 5);
    r.keys_only = rng_chance(&a->rng, 1, 8);
    r.count_only = rng_chance(&a->rng, 1, 8);
    if (a->h->told > 1 && rng_chance(&a->rng, is_reader ? 3 : 1, 4))
        r.revision = some_old_revision(a);
    if (is_reader)
        add_options(a, &r);
    return r;
}

/* --- transactions --- */

static struct pb_compare some_compare(struct actor *a)
{
    struct pb_compare c = {.key = request_key(a, any_key(a))};

    c.result = (int32_t)rng_below(&a->rng, 4);
    int64_t near = a->h->told - (int64_t)rng_below(&a->rng, 8) + 1;
    switch (rng_below(&a->rng, 4)) {
    case 0:
        c.target = PB_TARGET_VERSION;
        c.which = PB_OPERAND_VERSION;
        c.version = (int64_t)rng_below(&a->rng, 3);
        break;
    case 1:
        c.target = PB_TARGET_CREATE;
        c.which = PB_OPERAND_CREATE_REVISION;
        c.create_revision = rng_chance(&a->rng, 1, 2) ? 0 : near;
        break;
    case 2:
        c.target = PB_TARGET_LEASE;
        c.which = PB_OPERAND_LEASE;
        c.lease = rng_chance(&a->rng, 1, 2) ? 0 : a->lease;
        break;
    default:
        c.target = PB_TARGET_MOD;
        c.which = PB_OPERAND_MOD_REVISION;
        c.mod_revision = near;
        break;
    }
    return c;
}

static struct pb_txn_request some_txn(struct actor *a, unsigned *used, bool inner);

/* A key that this branch does not write yet. */
static unsigned unused_key(struct actor *a, unsigned *used)
{
    unsigned key = any_key(a);

    while (*used & 1u << key)
        key = (key + 1) % HISTORY_KEYS;
    *used |= 1u << key;
    return key;
}

/* NOLINTNEXTLINE(misc-no-recursion): two levels, see some_txn */
static struct pb_request_op some_op(struct actor *a, unsigned *used, bool inner)
{
    uint64_t dice = rng_below(&a->rng, inner ? 8 : 9);

    if (dice < 4) {
        struct pb_put_request *put = arena_new(&a->arena, struct pb_put_request);
        *put = put_of(a, unused_key(a, used));
        return (struct pb_request_op){.which = PB_OP_PUT, .put = put};
    }
    if (dice < 6) {
        struct pb_delete_range_request *d = arena_new(&a->arena, struct pb_delete_range_request);
        d->key = request_key(a, unused_key(a, used));
        d->prev_kv = rng_chance(&a->rng, 1, 2);
        return (struct pb_request_op){.which = PB_OP_DELETE_RANGE, .delete_range = d};
    }
    if (dice < 8) {
        struct pb_range_request *r = arena_new(&a->arena, struct pb_range_request);
        *r = request_read(a);
        if (!rng_chance(&a->past, 1, 4)) /* a compacted one fails the whole */
            r->revision = 0;
        if (r->revision > 0 && (a->oldest_in_txn == 0 || r->revision < a->oldest_in_txn))
            a->oldest_in_txn = r->revision;
        return (struct pb_request_op){.which = PB_OP_RANGE, .range = r};
    }
    struct pb_txn_request *txn = arena_new(&a->arena, struct pb_txn_request);
    *txn = some_txn(a, used, true);
    return (struct pb_request_op){.which = PB_OP_TXN, .txn = txn};
}

/* NOLINTNEXTLINE(misc-no-recursion): an inner one has no inner one */
static struct pb_txn_request some_txn(struct actor *a, unsigned *used, bool inner)
{
    struct pb_txn_request txn = {0};
    struct pb_compare *compare = arena_alloc(&a->arena, 2 * sizeof(*compare));
    struct pb_request_op *ops[2];
    size_t counts[2];

    txn.compare.count = rng_below(&a->rng, 3);
    for (size_t i = 0; i < txn.compare.count; i++)
        compare[i] = some_compare(a);
    txn.compare.at = compare;
    for (unsigned branch = 0; branch < 2; branch++) {
        unsigned mine = *used; /* the other branch will not happen */
        ops[branch] = arena_alloc(&a->arena, BRANCH_MAX * sizeof(struct pb_request_op));
        counts[branch] = rng_below(&a->rng, inner ? 3 : BRANCH_MAX);
        for (size_t i = 0; i < counts[branch]; i++)
            ops[branch][i] = some_op(a, inner ? used : &mine, inner);
    }
    txn.success.at = ops[0];
    txn.success.count = counts[0];
    txn.failure.at = ops[1];
    txn.failure.count = counts[1];
    return txn;
}

struct pb_txn_request request_txn(struct actor *a)
{
    unsigned used = 0;

    a->oldest_in_txn = 0;
    return some_txn(a, &used, false);
}

struct pb_txn_request request_herd(struct actor *a, int64_t lease)
{
    struct pb_put_request *puts = arena_alloc(&a->arena, HERD_CHUNK * sizeof(*puts));
    struct pb_request_op *ops = arena_alloc(&a->arena, HERD_CHUNK * sizeof(*ops));
    unsigned first = (unsigned)rng_below(&a->rng, HERD_KEYS / HERD_CHUNK) * HERD_CHUNK;
    struct bytes value = some_value(a);

    for (unsigned i = 0; i < HERD_CHUNK; i++) {
        puts[i] = (struct pb_put_request){
            .key = request_key(a, HISTORY_KEYS + first + i), .value = value, .lease = lease};
        ops[i] = (struct pb_request_op){.which = PB_OP_PUT, .put = &puts[i]};
    }
    return (struct pb_txn_request){.success = {ops, HERD_CHUNK}};
}
