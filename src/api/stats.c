/*
 * What is counted of calls, and the line about those that took long.
 *
 * etcd's interceptors see a unary call when its message was decoded, and a stream when it is
 * opened; what fails before that is counted by nobody. A unary call has one message either way,
 * also if it fails; of a stream every message counts, and the attempt to read behind the client's
 * last one.
 */
#include "api/api_int.h"

#include "io/clock.h"

#include <stdio.h>

enum { SLOW_LINES_EACH = 100 };

const unsigned api_handling_bounds_ms[API_HANDLING_BUCKETS - 1] = {5,   10,   25,   50,   100,  250,
                                                                   500, 1000, 2500, 5000, 10000};

static struct api_method_stats *stats_of(const struct call *c)
{
    return &api_of(c)->stats.methods[c->method];
}

void api_count_started(struct call *c)
{
    assert(!c->is_counted);
    assert(c->base.method);

    c->is_counted = true;
    stats_of(c)->started++;
}

void api_count_received(struct call *c, size_t bytes)
{
    stats_of(c)->received++;
    api_of(c)->stats.received_bytes += bytes;
}

void api_count_sent(struct call *c, uint64_t bytes)
{
    stats_of(c)->sent += c->is_stream;
    api_of(c)->stats.sent_bytes += bytes;
}

/* --- clients --- */

/* A client says what it likes: of many versions only so many are told apart. */
static struct api_client_stats *client_of(struct api_stats *s, struct bytes version)
{
    if (version.len > API_CLIENT_VERSION_BYTES_MAX)
        return NULL;
    for (size_t i = 0; i < s->client_count; i++)
        if (s->clients[i].version[version.len] == 0 &&
            memcmp(s->clients[i].version, version.at, version.len) == 0)
            return &s->clients[i];
    if (s->client_count == API_CLIENT_VERSIONS_MAX || memchr(version.at, 0, version.len))
        return NULL;
    struct api_client_stats *fresh = &s->clients[s->client_count++];
    memcpy(fresh->version, version.at, version.len);
    return fresh;
}

void api_count_client(struct call *c)
{
    struct api_stats *s = &api_of(c)->stats;
    struct bytes version = rpc_event_bytes(&c->first, c->first.client_api_version);
    struct api_client_stats *client = client_of(s, version.len > 0 ? version : BYTES("unknown"));

    *(client         ? c->is_stream ? &client->streams : &client->unary
      : c->is_stream ? &s->other_streams
                     : &s->other_unary) += 1;
}

/* --- the end --- */

static void count_handling(struct api_stats *s, enum api_method method, uint64_t took_ns)
{
    uint64_t *of = &s->handling[(size_t)method * (API_HANDLING_BUCKETS + 1)];
    unsigned bucket = 0;

    while (bucket < API_HANDLING_BUCKETS - 1 &&
           took_ns > api_handling_bounds_ms[bucket] * NS_PER_MS)
        bucket++;
    of[bucket]++;
    of[API_HANDLING_BUCKETS] += took_ns;
}

static void count_timed(struct api_timed *t, bool is_well, struct histogram_shape shape,
                        uint64_t took_ns)
{
    histogram_observe(&t->took[is_well], shape, took_ns);
}

/* What a request is about, without its values. */
static void describe(const struct call *c, struct buf *out, int64_t *count)
{
    const void *r = c->request;

    *count = -1;
    if (!r)
        return;
    switch (c->method) {
    case API_KV_RANGE: {
        const struct pb_range_request *range = r;
        *count = 0;
        buf_printf(out, "key:\"%.*s\" range_end:\"%.*s\"", (int)range->key.len, range->key.at,
                   (int)range->range_end.len, range->range_end.at);
        return;
    }
    case API_KV_PUT: {
        const struct pb_put_request *put = r;
        *count = 1;
        buf_printf(out, "key:\"%.*s\" value_size:%zu", (int)put->key.len, put->key.at,
                   put->value.len);
        return;
    }
    case API_KV_DELETE_RANGE: {
        const struct pb_delete_range_request *gone = r;
        *count = 0;
        buf_printf(out, "key:\"%.*s\" range_end:\"%.*s\"", (int)gone->key.len, gone->key.at,
                   (int)gone->range_end.len, gone->range_end.at);
        return;
    }
    case API_KV_TXN: {
        const struct pb_txn_request *txn = r;
        *count = (int64_t)(txn->success.count + txn->failure.count);
        buf_printf(out, "compare_count:%zu success_count:%zu failure_count:%zu", txn->compare.count,
                   txn->success.count, txn->failure.count);
        return;
    }
    default:
        return;
    }
}

/*
 * A server that is overloaded has thousands of them each second, and writing so many lines would be
 * what it is busy with. As etcd's logger does it: the first hundred of a second, then each
 * hundredth.
 */
static bool is_worth_a_line(struct api *a)
{
    uint64_t second = a->facts->now_ms / 1000;

    a->slow_count = second == a->slow_second ? a->slow_count + 1 : 1;
    a->slow_second = second;
    return a->slow_count <= SLOW_LINES_EACH || a->slow_count % SLOW_LINES_EACH == 0;
}

/* Names and fields are etcd's: people search for them. */
static void tell_of_slow(const struct call *c, uint64_t took_ns, uint64_t bytes)
{
    struct buf type = {0}, content = {0};
    int64_t count;

    buf_printf(&type, "/%s/%s", c->base.method->service, c->base.method->name);
    describe(c, &content, &count);
    log_warn(api_of(c)->o.logger, "request stats", LOG_NS("time spent", (int64_t)took_ns),
             LOG_BYTES("remote", rpc_event_bytes(&c->first, c->first.remote)),
             LOG_BYTES("response type", buf_bytes(&type)), LOG_I64("request count", count),
             LOG_I64("request size", count < 0 ? -1 : (int64_t)c->first.message.len),
             LOG_I64("response count", count < 0 ? -1 : 0),
             LOG_I64("response size", count < 0 ? -1 : (int64_t)bytes),
             LOG_BYTES("request content", buf_bytes(&content)));
    buf_free(&type);
    buf_free(&content);
}

void api_count_handled(struct call *c, enum rpc_code code, uint64_t bytes)
{
    struct api *a = api_of(c);

    if (!c->is_counted)
        return;
    c->is_counted = false;
    uint64_t took_ns = api_since_ns(a, c->started_ns);
    stats_of(c)->handled[code]++;
    stats_of(c)->sent += !c->is_stream;
    if (a->stats.handling)
        count_handling(&a->stats, c->method, took_ns);
    if (c->is_stream)
        return;
    if (c->is_run && c->method == API_KV_RANGE)
        count_timed(&a->stats.range_requests, code == RPC_OK, HISTOGRAM_1MS_14, took_ns);
    if (c->read.txn)
        count_timed(&a->stats.readonly_txns, code == RPC_OK, HISTOGRAM_1MS_14, took_ns);
    if (a->o.warning_unary_ns > 0 && took_ns > (uint64_t)a->o.warning_unary_ns &&
        is_worth_a_line(a))
        tell_of_slow(c, took_ns, bytes);
}

void api_count_range(struct call *c, bool is_well)
{
    struct api *a = api_of(c);

    count_timed(&a->stats.ranges, is_well, HISTOGRAM_100US_20, api_since_ns(a, c->read_ns));
}

void api_count_nothing_read(struct api *a, uint64_t began_ns, bool is_well)
{
    count_timed(&a->stats.range_requests, is_well, HISTOGRAM_1MS_14, api_since_ns(a, began_ns));
    if (!is_well)
        return; /* it was not confirmed, and the store not asked */
    count_timed(&a->stats.ranges, true, HISTOGRAM_100US_20, 0);
    apply_stats(a->o.apply)->ranges++;
}
