#include "api/api_int.h"

/* --- Range --- */

static enum result check_range(struct call *c, const void *request)
{
    (void)c;
    return api_range_check(request);
}

static void read_range(struct call *c)
{
    if (c->read.range->serializable)
        api_call_read(c);
    else
        api_call_read_index(c);
}

static void run_range(struct call *c, const void *request)
{
    c->read.range = request;
    api_call_reserve(c, api_range_bytes_max(api_of(c), request), read_range);
}

const struct handler api_kv_range = {
    .schema = &pb_range_request_schema,
    .check = check_range,
    .run = run_range,
    .confirmed = api_call_read,
};

/* --- Put --- */

/* The quota comes before everything else, as in etcd. */
static enum result check_put(struct call *c, const void *request)
{
    api_call_proposal(c)->put = request;
    enum result a = api_call_check_quota(c);
    return a != RESULT_OK ? a : api_put_check(request);
}

static void run_proposal(struct call *c, const void *request)
{
    (void)request;
    api_call_propose(c);
}

const struct handler api_kv_put = {
    .schema = &pb_put_request_schema,
    .check = check_put,
    .run = run_proposal,
};

/* --- DeleteRange --- */

static enum result check_delete_range(struct call *c, const void *request)
{
    api_call_proposal(c)->delete_range = request;
    return api_delete_range_check(request);
}

const struct handler api_kv_delete_range = {
    .schema = &pb_delete_range_request_schema,
    .check = check_delete_range,
    .run = run_proposal,
};

/* --- Txn --- */

static enum result check_txn(struct call *c, const void *request)
{
    struct api *a = api_of(c);

    api_call_proposal(c)->txn = request;
    enum result result = api_call_check_quota(c);
    if (result != RESULT_OK)
        return result;
    arena_reset(&a->scratch);
    return api_txn_check(request, a->o.txn_ops_max, &a->scratch);
}

/* One that only reads has no business in the log. */
static void execute_txn(struct call *c)
{
    const struct pb_txn_request *txn = c->request;

    if (!apply_txn_is_read_only(txn)) {
        api_call_propose(c);
        return;
    }
    c->read.txn = txn;
    if (apply_txn_is_serializable(txn))
        api_call_read(c);
    else
        api_call_read_index(c);
}

static void run_txn(struct call *c, const void *request)
{
    api_call_reserve(c, api_txn_bytes_max(api_of(c), request), execute_txn);
}

const struct handler api_kv_txn = {
    .schema = &pb_txn_request_schema,
    .check = check_txn,
    .run = run_txn,
    .confirmed = api_call_read,
};

/* --- Compact --- */

static void run_compact(struct call *c, const void *request)
{
    api_call_proposal(c)->compaction = request;
    api_call_propose(c);
}

static void finish_compact(struct call *c)
{
    struct api *a = api_of(c);

    if (c->compaction.result != RESULT_OK) {
        api_call_finish(c, c->compaction.result);
        return;
    }
    struct pb_response_header header = api_header_of(a, mvcc_revision(a->o.mvcc));
    api_call_respond(c, &pb_compaction_response_schema,
                     &(struct pb_header_response){.header = &header});
}

static bool compaction_is_over(struct call *c)
{
    struct mvcc *mvcc = api_of(c)->o.mvcc;

    if (c->compaction.result == RESULT_OK ? mvcc_compact_finished(mvcc) < c->compaction.revision
                                          : mvcc_compact_pending(mvcc))
        return false;
    api_call_stop_working(c);
    finish_compact(c);
    return true;
}

/*
 * One whose revision is compacted already waits as well, for the compaction that is under way: that
 * may be the one it has asked for. Other refusals have nothing to wait for. So it is in etcd.
 */
static void compact_applied(struct call *c, struct apply_effects *e)
{
    const struct pb_compaction_request *request = c->request;
    bool is_refused = e->result != RESULT_OK && e->result != RESULT_COMPACTED;

    c->compaction = (struct compaction){.revision = request->revision, .result = e->result};
    if (!request->physical || is_refused)
        finish_compact(c);
    else
        api_call_wait(c, compaction_is_over);
}

const struct handler api_kv_compact = {
    .schema = &pb_compaction_request_schema,
    .run = run_compact,
    .applied = compact_applied,
};
