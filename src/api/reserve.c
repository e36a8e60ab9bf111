/*
 * Memory for replies, asked for before they are made.
 *
 * What is held of a reply until its client has read it is mostly scans, whose bytes are still in
 * the store (apply/reply.h). A range has one of them, or up to REPLY_INLINE_BYTES_MAX of bytes.
 * That is little, and charged for every call (methods.h). Here is what may be more: the keys that a
 * range in another order has to remember, and transactions that show many keys. And a scrape is
 * more than is charged for a plain request.
 */
#include "api/api_int.h"

/* --- waiting --- */

void api_call_reserve(struct call *c, uint64_t bytes, void (*then)(struct call *c))
{
    assert(!c->reserved);

    if ((c->base.method && bytes <= c->base.method->reply_bytes) || bytes <= c->reserved_bytes) {
        then(c);
        return;
    }
    c->reserved = then;
    c->reserved_bytes = bytes;
    rpc_line_reserve(api_line_of(api_of(c), c->base.rpc), c->base.rpc, bytes);
}

void api_call_reserved(struct call *c)
{
    void (*then)(struct call *c) = c->reserved;

    assert(then);
    c->reserved = NULL;
    then(c);
}

/* --- how much --- */

uint64_t api_range_bytes_max(struct api *a, const struct pb_range_request *r)
{
    if (r->sort_target == PB_SORT_BY_KEY || r->count_only)
        return 0;
    struct mvcc_question q = {
        .key = r->key,
        .end = r->range_end,
        .at = revision_whole(r->revision > 0 ? r->revision : mvcc_revision(a->o.mvcc)),
        .limit = r->limit,
        .sort_order = r->sort_order,
        .sort_target = r->sort_target,
        .keys_only = r->keys_only,
        .min_mod_revision = r->min_mod_revision,
        .max_mod_revision = r->max_mod_revision,
        .min_create_revision = r->min_create_revision,
        .max_create_revision = r->max_create_revision};
    return mvcc_scan_bytes_max(a->o.mvcc, &q);
}

/* Of a transaction: how many operations may show keys, and what those in another order remember. */
struct shown {
    uint64_t ops, sorted_bytes;
};

static struct shown shown_by_txn(struct api *a, const struct pb_txn_request *txn);

static struct shown shown_by_op(struct api *a, const struct pb_request_op *op)
{
    switch (op->which) {
    case PB_OP_RANGE:
        return (struct shown){!op->range->count_only, api_range_bytes_max(a, op->range)};
    case PB_OP_PUT:
        return (struct shown){op->put->prev_kv, 0};
    case PB_OP_DELETE_RANGE:
        return (struct shown){op->delete_range->prev_kv, 0};
    case PB_OP_TXN:
        return shown_by_txn(a, op->txn);
    case PB_OP_NONE:
        break;
    }
    return (struct shown){0}; /* refused */
}

static struct shown shown_by_all(struct api *a, const struct pb_request_op *ops, size_t count)
{
    struct shown all = {0};

    for (size_t i = 0; i < count; i++) {
        struct shown one = shown_by_op(a, &ops[i]);
        all.ops += one.ops;
        all.sorted_bytes += one.sorted_bytes;
    }
    return all;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* As deep as the decoder lets it be, PB_DEPTH_MAX at most. */
static struct shown shown_by_txn(struct api *a, const struct pb_txn_request *txn)
{
    struct shown yes = shown_by_all(a, txn->success.at, txn->success.count);
    struct shown no = shown_by_all(a, txn->failure.at, txn->failure.count);

    return (struct shown){larger(yes.ops, no.ops), larger(yes.sorted_bytes, no.sorted_bytes)};
}

uint64_t api_txn_bytes_max(struct api *a, const struct pb_txn_request *txn)
{
    struct shown s = shown_by_txn(a, txn);
    uint64_t text = s.ops * REPLY_INLINE_BYTES_MAX;

    if (text > REPLY_TEXT_BYTES_MAX)
        text = REPLY_TEXT_BYTES_MAX;
    return text + s.ops * sizeof(struct mvcc_scan) + s.sorted_bytes;
}
