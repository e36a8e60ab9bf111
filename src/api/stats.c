/*
 * What is counted of calls.
 *
 * etcd's interceptors see a unary call when its message was decoded, and a stream when it is
 * opened; what fails before that is counted by nobody. A unary call has one message either way,
 * also if it fails; of a stream every message counts, and the attempt to read behind the client's
 * last one.
 */
#include "api/api_int.h"

#include "io/clock.h"

#include <stdio.h>

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
    api_tell_of_slow(c, took_ns, bytes);
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
