#include "apply/apply_int.h"

#include "base/mem.h"

/* etcd's estimates of what is stored beside the bytes themselves. */
enum { KEY_OVERHEAD_BYTES = 256, LEASE_OVERHEAD_BYTES = 64 };

static uint64_t put_cost(const struct pb_put_request *p)
{
    return KEY_OVERHEAD_BYTES + p->key.len + p->value.len;
}

/* ---- Transactions: the sum of a branch, the larger of two, at every level ---- */

struct cost_frame {
    const struct pb_txn_request *txn;
    size_t next;     /* over both branches, success first */
    uint64_t sum[2]; /* of each */
};

struct cost_stack {
    struct cost_frame *at;
    size_t depth, cap;
};

static void push(struct cost_stack *s, const struct pb_txn_request *txn)
{
    if (s->depth == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 4;
        s->at = mem_resize(s->at, s->cap, sizeof(*s->at));
    }
    s->at[s->depth++] = (struct cost_frame){.txn = txn};
}

/* The next operation of the innermost transaction and its branch; NULL behind the last. */
static const struct pb_request_op *next_op(struct cost_frame *f, unsigned *branch)
{
    size_t at = f->next++, successes = f->txn->success.count;

    *branch = at >= successes;
    if (at < successes)
        return &f->txn->success.at[at];
    return at - successes < f->txn->failure.count ? &f->txn->failure.at[at - successes] : NULL;
}

static uint64_t larger(const struct cost_frame *f)
{
    return f->sum[0] > f->sum[1] ? f->sum[0] : f->sum[1];
}

/* Which branch of the outer transaction the one just finished belongs to. */
static unsigned branch_under_way(const struct cost_frame *f)
{
    return f->next > f->txn->success.count;
}

uint64_t txn_cost(const struct pb_txn_request *txn)
{
    struct cost_stack s = {0};
    uint64_t cost = 0;

    push(&s, txn);
    while (s.depth > 0) {
        struct cost_frame *f = &s.at[s.depth - 1];
        unsigned branch;
        const struct pb_request_op *op = next_op(f, &branch);
        if (!op) {
            cost = larger(f);
            if (--s.depth > 0)
                f[-1].sum[branch_under_way(f - 1)] += cost;
        } else if (op->which == PB_OP_PUT) {
            f->sum[branch] += put_cost(op->put);
        } else if (op->which == PB_OP_TXN) {
            push(&s, op->txn);
        }
    }
    mem_free(s.at);
    return cost;
}

/* ---- The quota ---- */

static uint64_t request_cost(const struct pb_internal_raft_request *request)
{
    enum request_kind kind = request_kind(request);

    if (kind == REQUEST_PUT)
        return put_cost(request->put);
    if (kind == REQUEST_TXN)
        return txn_cost(request->txn);
    return kind == REQUEST_LEASE_GRANT ? LEASE_OVERHEAD_BYTES : 0;
}

int64_t apply_quota_bytes(const struct apply *a)
{
    return a->o.quota_bytes;
}

/* What a commit of LMDB replaces is free until the one after the next, so its file is never without
 * some free pages. A quota of a few dozen pages would be reached by those alone. */
static uint64_t counted_bytes(struct backend_sizes sizes)
{
    uint64_t counted =
        sizes.file_bytes > APPLY_QUOTA_FREE_BYTES ? sizes.file_bytes - APPLY_QUOTA_FREE_BYTES : 0;

    return counted > sizes.used_bytes ? counted : sizes.used_bytes;
}

bool apply_over_quota(const struct apply *a, const struct pb_internal_raft_request *request)
{
    int64_t quota = a->o.quota_bytes;
    uint64_t cost = quota < 0 ? 0 : request_cost(request);

    if (cost == 0)
        return false;
    return counted_bytes(backend_sizes(a->o.backend)) + cost >= (uint64_t)quota;
}

/* ---- What kind of transaction ---- */

static bool only_ranges(const struct pb_request_op *ops, size_t count, bool serializable)
{
    for (size_t i = 0; i < count; i++)
        if (ops[i].which != PB_OP_RANGE || (serializable && !ops[i].range->serializable))
            return false;
    return true;
}

bool apply_txn_is_read_only(const struct pb_txn_request *txn)
{
    return only_ranges(txn->success.at, txn->success.count, false) &&
           only_ranges(txn->failure.at, txn->failure.count, false);
}

bool apply_txn_is_serializable(const struct pb_txn_request *txn)
{
    return only_ranges(txn->success.at, txn->success.count, true) &&
           only_ranges(txn->failure.at, txn->failure.count, true);
}
