#include "apply/dice_test.h"

struct bytes dice_key(size_t i)
{
    static const uint8_t names[] = "abcdefghijkl";

    return bytes_of(names + i, 1);
}

uint64_t dice_roll(struct dice *d, uint64_t sides)
{
    return rng_below(&d->rng, sides);
}

static struct bytes any_key(struct dice *d)
{
    return dice_key(dice_roll(d, DICE_KEYS));
}

static struct bytes any_end(struct dice *d)
{
    switch (dice_roll(d, 4)) {
    case 0:
        return BYTES("\0");
    case 1:
        return any_key(d);
    default:
        return (struct bytes){0};
    }
}

/* Now and then one that a reply does not copy. */
static struct bytes any_value(struct dice *d)
{
    size_t len = dice_roll(d, 10) == 0 ? 3000 + dice_roll(d, 4000) : dice_roll(d, 8);
    uint8_t *at = arena_alloc(d->arena, len + 1);

    memset(at, (int)('0' + dice_roll(d, 10)), len);
    return bytes_of(at, len);
}

static int64_t any_revision(struct dice *d)
{
    if (dice_roll(d, 3) > 0)
        return 0;
    return (int64_t)dice_roll(d, (uint64_t)d->revision + 3) - 1;
}

static const struct pb_put_request *any_put(struct dice *d)
{
    struct pb_put_request *p = arena_new(d->arena, struct pb_put_request);

    p->key = any_key(d);
    p->prev_kv = dice_roll(d, 2);
    p->ignore_value = dice_roll(d, 8) == 0;
    p->ignore_lease = dice_roll(d, 8) == 0;
    if (!p->ignore_value)
        p->value = any_value(d);
    if (!p->ignore_lease && dice_roll(d, 3) == 0)
        p->lease = (int64_t)dice_roll(d, DICE_LEASES + 1);
    return p;
}

static const struct pb_delete_range_request *any_delete(struct dice *d)
{
    struct pb_delete_range_request *r = arena_new(d->arena, struct pb_delete_range_request);

    r->key = any_key(d);
    r->range_end = any_end(d);
    r->prev_kv = dice_roll(d, 2);
    return r;
}

const struct pb_range_request *dice_range(struct dice *d)
{
    struct pb_range_request *r = arena_new(d->arena, struct pb_range_request);

    r->key = any_key(d);
    r->range_end = any_end(d);
    r->revision = any_revision(d);
    r->limit = dice_roll(d, 3) == 0 ? (int64_t)dice_roll(d, 5) : 0;
    r->keys_only = dice_roll(d, 4) == 0;
    r->count_only = dice_roll(d, 6) == 0;
    return r;
}

static struct pb_compare any_compare(struct dice *d)
{
    struct pb_compare c = {.target = (int32_t)dice_roll(d, 5)};

    c.result = (int32_t)dice_roll(d, 4);
    c.key = any_key(d);
    c.range_end = any_end(d);
    c.which = (enum pb_compare_operand)(c.target + PB_OPERAND_VERSION);
    if (c.target == PB_TARGET_VALUE)
        c.value = any_value(d);
    else
        c.version = (int64_t)dice_roll(d, dice_roll(d, 2) ? 3 : (uint64_t)d->revision + 1);
    return c;
}

static struct pb_request_op any_op(struct dice *d, unsigned depth, bool reads)
{
    uint64_t which = reads ? 0 : dice_roll(d, depth > 0 ? 6 : 5);

    switch (which) {
    case 0:
        return (struct pb_request_op){.which = PB_OP_RANGE, .range = dice_range(d)};
    case 1:
        return (struct pb_request_op){.which = PB_OP_DELETE_RANGE, .delete_range = any_delete(d)};
    case 5:
        return (struct pb_request_op){.which = PB_OP_TXN, .txn = dice_txn(d, depth - 1, false)};
    default:
        return (struct pb_request_op){.which = PB_OP_PUT, .put = any_put(d)};
    }
}

static size_t any_ops(struct dice *d, unsigned depth, bool reads, struct pb_request_op *ops)
{
    size_t count = dice_roll(d, DICE_OPS);

    for (size_t i = 0; i < count; i++)
        ops[i] = any_op(d, depth, reads);
    return count;
}

const struct pb_txn_request *dice_txn(struct dice *d, unsigned depth, bool reads)
{
    struct pb_txn_request *t = arena_new(d->arena, struct pb_txn_request);
    struct pb_compare *compares = arena_new_array(d->arena, 2, struct pb_compare);
    struct pb_request_op *then = arena_new_array(d->arena, DICE_OPS, struct pb_request_op);
    struct pb_request_op *other = arena_new_array(d->arena, DICE_OPS, struct pb_request_op);

    t->compare.at = compares;
    t->compare.count = dice_roll(d, 3);
    for (size_t i = 0; i < t->compare.count; i++)
        compares[i] = any_compare(d);
    t->success.at = then;
    t->success.count = any_ops(d, depth, reads, then);
    t->failure.at = other;
    t->failure.count = any_ops(d, depth, reads, other);
    return t;
}

struct pb_internal_raft_request dice_request(struct dice *d)
{
    struct pb_lease_grant_request *grant = arena_new(d->arena, struct pb_lease_grant_request);
    struct pb_lease_id *revoke = arena_new(d->arena, struct pb_lease_id);
    struct pb_compaction_request *compact = arena_new(d->arena, struct pb_compaction_request);

    switch (dice_roll(d, 16)) {
    case 0:
        grant->id = 1 + (int64_t)dice_roll(d, DICE_LEASES);
        grant->ttl = (int64_t)dice_roll(d, 100);
        return (struct pb_internal_raft_request){.lease_grant = grant};
    case 1:
        revoke->id = 1 + (int64_t)dice_roll(d, DICE_LEASES);
        return (struct pb_internal_raft_request){.lease_revoke = revoke};
    case 2:
        if (dice_roll(d, 3) > 0)
            break;
        compact->revision = (int64_t)dice_roll(d, (uint64_t)d->revision + 2);
        return (struct pb_internal_raft_request){.compaction = compact};
    case 3:
    case 4:
        return (struct pb_internal_raft_request){.delete_range = any_delete(d)};
    case 5:
        return (struct pb_internal_raft_request){.range = dice_range(d)};
    case 6:
    case 7:
    case 8:
    case 9:
        return (struct pb_internal_raft_request){.txn = dice_txn(d, DICE_DEPTH, false)};
    default:
        break;
    }
    return (struct pb_internal_raft_request){.put = any_put(d)};
}
