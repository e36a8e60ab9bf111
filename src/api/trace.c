/*
 * Lines about calls that took long. Names and fields are etcd's: people search for them.
 *
 *     request stats                a unary call: longer than --warning-unary-request-duration
 *     apply request took too long  one that only reads: longer than --warning-apply-duration
 *     trace[N] range               a request on keys, with its stages: longer than LOG_TRACE_MS
 *
 * In all of them a value is a number of bytes.
 */
#include "api/api_int.h"

#include "base/log_trace.h"
#include "io/clock.h"

/* --- request stats --- */

/* How many operations it has; -1: it is not about keys, and etcd says nothing of it. */
static int64_t operation_count(const struct call *c)
{
    const struct pb_txn_request *txn = c->request;

    if (!c->request)
        return -1;
    switch (c->method) {
    case API_KV_RANGE:
    case API_KV_DELETE_RANGE:
        return 0;
    case API_KV_PUT:
        return 1;
    case API_KV_TXN:
        return (int64_t)(txn->success.count + txn->failure.count);
    default:
        return -1;
    }
}

static void describe_content(const struct call *c, struct buf *out)
{
    const struct pb_txn_request *txn = c->request;

    if (c->method == API_KV_TXN)
        buf_printf(out, "compare_count:%zu success_count:%zu failure_count:%zu", txn->compare.count,
                   txn->success.count, txn->failure.count);
    else
        pb_describe(c->on->schema, c->request, out);
}

static void tell_stats(const struct call *c, uint64_t took_ns, uint64_t bytes)
{
    struct buf type = {0}, content = {0};
    int64_t count = operation_count(c);

    buf_printf(&type, "/%s/%s", c->base.method->service, c->base.method->name);
    if (count >= 0)
        describe_content(c, &content);
    LOG_LINE(api_of(c)->o.logger, LOG_WARN, "request stats", LOG_NS("time spent", (int64_t)took_ns),
             LOG_BYTES("remote", rpc_event_bytes(&c->first, c->first.remote)),
             LOG_BYTES("response type", buf_bytes(&type)), LOG_I64("request count", count),
             LOG_I64("request size", count < 0 ? -1 : (int64_t)c->first.message.len),
             LOG_I64("response count", count < 0 ? -1 : 0),
             LOG_I64("response size", count < 0 ? -1 : (int64_t)bytes),
             LOG_BYTES("request content", buf_bytes(&content)));
    buf_free(&type);
    buf_free(&content);
}

/* --- reads --- */

static void tell_of_read(struct call *c, uint64_t took_ns, uint64_t bytes)
{
    struct api *a = api_of(c);
    struct buf request = {0}, response = {0};

    pb_describe(c->on->schema, c->request, &request);
    if (!c->error)
        buf_printf(&response, "size:%llu", (unsigned long long)bytes);
    struct log_field fields[] = {
        LOG_NS("took", (int64_t)took_ns),
        LOG_NS("expected-duration", a->o.warning_apply_ns),
        LOG_STR("prefix", c->read.txn ? "read-only txn " : "read-only range "),
        LOG_BYTES("request", buf_bytes(&request)),
        LOG_BYTES("response", buf_bytes(&response)),
        LOG_STR("error", c->error ? c->error : ""),
    };
    log_write(a->o.logger, LOG_WARN, LOG_CALLER, "apply request took too long", fields,
              ARRAY_LEN(fields) - (c->error ? 0 : 1));
    buf_free(&request);
    buf_free(&response);
}

/* --- traces --- */

static uint64_t between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* Of what a leader commits before its own disk has it, the log took none of the time. A moment that
 * nobody knows is left out: its time is the next part's. */
static void trace_proposal(const struct call *c, struct log_trace *t)
{
    const struct api_stages *s = &c->base.stages;
    const struct {
        const char *name;
        uint64_t at_ns;
    } parts[] = {{"queue", s->proposed_ns},
                 {"log", s->logged_ns},
                 {"agreement", s->committed_ns},
                 {"apply queue", s->apply_ns}};
    uint64_t from_ns = t->began_ns;

    log_trace_step(t, "process raft request", s->apply_ns);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (parts[i].at_ns == 0)
            continue;
        log_trace_part(t, parts[i].name, between(from_ns, parts[i].at_ns));
        from_ns = parts[i].at_ns > from_ns ? parts[i].at_ns : from_ns;
    }
    log_trace_step(t, "apply", s->applied_ns);
    if (c->method == API_KV_COMPACT)
        log_trace_step(t, "physically toApply compaction", api_of(c)->facts->now_ns);
    log_trace_detail_number(t, "response_revision", s->revision);
}

static void trace_read(const struct call *c, struct log_trace *t)
{
    const struct api_round *r = &c->base.round;
    uint64_t now_ns = api_of(c)->facts->now_ns, read_ns = c->is_reading ? c->read_ns : now_ns;

    if (r->asked_ns != 0 || !c->is_reading) {
        log_trace_step(t, "agreement among raft nodes before linearized reading", read_ns);
        if (r->asked_ns != 0) {
            log_trace_part(t, "queue", between(t->began_ns, r->asked_ns));
            log_trace_part(t, "read index", between(r->asked_ns, r->confirmed_ns));
            log_trace_part(t, "applied index", between(r->confirmed_ns, read_ns));
        }
    }
    if (!c->is_reading)
        return;
    log_trace_step(t,
                   c->read.range && c->read.range->count_only
                       ? "count revisions from in-memory index tree"
                       : "range keys from in-memory index tree",
                   now_ns);
    log_trace_detail_number(t, "response_revision", c->read.revision);
}

static void trace_range(struct log_trace *t, struct bytes key, struct bytes end, const char *name)
{
    log_trace_detail(t, name, key);
    log_trace_detail(t, "range_end", end);
}

/* False: etcd has no trace of such a request. */
static bool name_trace(const struct call *c, struct log_trace *t)
{
    const struct pb_range_request *range = c->request;
    const struct pb_put_request *put = c->request;
    const struct pb_delete_range_request *gone = c->request;
    const struct pb_compaction_request *compaction = c->request;

    switch (c->method) {
    case API_KV_RANGE:
        t->operation = "range";
        trace_range(t, range->key, range->range_end, "range_begin");
        return true;
    case API_KV_PUT:
        t->operation = "put";
        log_trace_detail(t, "key", put->key);
        log_trace_detail_number(t, "req_size", (int64_t)c->first.message.len);
        return true;
    case API_KV_DELETE_RANGE:
        t->operation = "delete_range";
        trace_range(t, gone->key, gone->range_end, "key");
        return true;
    case API_KV_TXN:
        t->operation = "transaction";
        log_trace_detail(t, "read_only", c->read.txn ? BYTES("true") : BYTES("false"));
        return true;
    case API_KV_COMPACT:
        t->operation = "compact";
        log_trace_detail_number(t, "revision", compaction->revision);
        return true;
    default:
        return false;
    }
}

/* One that came to nothing before it was applied is told of by its error. */
static void trace_call(struct call *c)
{
    struct api *a = api_of(c);
    struct log_trace t = {.began_ns = c->started_ns};
    bool is_read = c->read.range || c->read.txn;

    if (!c->request || (!is_read && c->base.stages.apply_ns == 0) || !name_trace(c, &t))
        return;
    if (is_read)
        trace_read(c, &t);
    else
        trace_proposal(c, &t);
    log_trace_write(&t, a->o.logger, ++a->traces, a->facts->now_ns);
}

void api_tell_of_slow(struct call *c, uint64_t took_ns, uint64_t bytes)
{
    struct api *a = api_of(c);
    int64_t took = (int64_t)took_ns;

    if (c->request && (c->read.range || c->read.txn) && a->o.warning_apply_ns > 0 &&
        took > a->o.warning_apply_ns) {
        a->stats.slow_reads++;
        if (log_takes(a->o.logger, LOG_WARN, LOG_CALLER))
            tell_of_read(c, took_ns, bytes);
    }
    if (took_ns > LOG_TRACE_MS * NS_PER_MS && log_takes(a->o.logger, LOG_INFO, LOG_CALLER))
        trace_call(c);
    if (a->o.warning_unary_ns > 0 && took > a->o.warning_unary_ns &&
        log_takes(a->o.logger, LOG_WARN, LOG_CALLER))
        tell_stats(c, took_ns, bytes);
}
