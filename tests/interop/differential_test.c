/*
 * The same random requests to real etcd and to us, one after the other, and every answer compared:
 * the whole message or the error's code and text.
 *
 * Some of them go by gRPC and some in JSON, to both by the same way. Of what comes in JSON the text
 * is compared as well, spaces aside, unless its order is one of the matters below.
 *
 * Left out of the comparison are cluster and member ids and raft's term, which are each server's
 * own; the seconds left of a lease, whose leases do not expire here; and the order of equals in a
 * sorted range of more than twelve keys. From there on Go's sort is not stable, so that equals come
 * in any order, and at a limit any of them may be cut off: they are compared as sets, and those at
 * the cut by what they were sorted by.
 *
 * Beside that watchers come and go on one stream to each. What each of them is told is compared
 * whenever both servers have said that all of it has come, which is before every compaction: how
 * far one that lags has come by then is a matter of time. So is how events are put together into
 * messages, and what revision their headers have.
 */
#include "base/mem.h"
#include "gateway/gateway.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "interop/json_caller_test.h"
#include "interop/random_requests_test.h"
#include "io/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REQUESTS = 4000,
    STABLE_KEYS_MAX = 12, /* Go's sort is an insertion sort up to here */
    FIRST_CHUNK_KEYS = 10,
    STORE_AGE_MAX = 2000, /* revisions, until a compaction is due */
};

static_assert((int)STORE_AGE_MAX < (int)RANDOM_REVISIONS_MAX, "of every revision there is known");

static const struct {
    const char *path;
    const struct pb_schema *request, *answer;
} kinds[REQUEST_KINDS] = {
    [REQUEST_OF_RANGE] = {"/etcdserverpb.KV/Range", &pb_range_request_schema,
                          &pb_range_response_schema},
    [REQUEST_OF_RANGE_STREAM] = {"/etcdserverpb.KV/RangeStream", &pb_range_request_schema,
                                 &pb_range_stream_response_schema},
    [REQUEST_OF_PUT] = {"/etcdserverpb.KV/Put", &pb_put_request_schema, &pb_put_response_schema},
    [REQUEST_OF_DELETE] = {"/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
                           &pb_delete_range_response_schema},
    [REQUEST_OF_TXN] = {"/etcdserverpb.KV/Txn", &pb_txn_request_schema, &pb_txn_response_schema},
    [REQUEST_OF_COMPACT] = {"/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
                            &pb_compaction_response_schema},
    [REQUEST_OF_GRANT] = {"/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
                          &pb_lease_grant_response_schema},
    [REQUEST_OF_REVOKE] = {"/etcdserverpb.Lease/LeaseRevoke", &pb_lease_revoke_request_schema,
                           &pb_lease_revoke_response_schema},
    [REQUEST_OF_TIME_TO_LIVE] = {"/etcdserverpb.Lease/LeaseTimeToLive",
                                 &pb_lease_time_to_live_request_schema,
                                 &pb_lease_time_to_live_response_schema},
    [REQUEST_OF_LEASES] = {"/etcdserverpb.Lease/LeaseLeases", &pb_lease_leases_request_schema,
                           &pb_lease_leases_response_schema},
    [REQUEST_OF_ALARM] = {"/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema,
                          &pb_alarm_response_schema},
    [REQUEST_OF_HASH_KV] = {"/etcdserverpb.Maintenance/HashKV", &pb_hash_kv_request_schema,
                            &pb_hash_kv_response_schema},
    [REQUEST_OF_LOCK] = {"/v3lockpb.Lock/Lock", &pb_lock_request_schema, &pb_lock_response_schema},
    [REQUEST_OF_UNLOCK] = {"/v3lockpb.Lock/Unlock", &pb_unlock_request_schema,
                           &pb_unlock_response_schema},
    [REQUEST_OF_CAMPAIGN] = {"/v3electionpb.Election/Campaign", &pb_campaign_request_schema,
                             &pb_campaign_response_schema},
    [REQUEST_OF_PROCLAIM] = {"/v3electionpb.Election/Proclaim", &pb_proclaim_request_schema,
                             &pb_proclaim_response_schema},
    [REQUEST_OF_LEADER] = {"/v3electionpb.Election/Leader", &pb_leader_request_schema,
                           &pb_leader_response_schema},
    [REQUEST_OF_RESIGN] = {"/v3electionpb.Election/Resign", &pb_resign_request_schema,
                           &pb_resign_response_schema},
};

#define SYNC_KEY "zz" /* that nobody else writes, mostly */

enum {
    WATCHERS_MAX = 16384, /* ids, from 0 on: they go up */
    WATCHERS_ALIVE = 64,  /* one that is older has been canceled, most likely */
    REQUESTS_PER_WATCHER = 80,
    PATIENCE_MS = 30000,
};

/* One of the two. */
struct side {
    struct peer peer;
    struct caller caller;
    struct ask ask;
    struct json_caller json;

    struct ask stream;                    /* of watchers */
    struct buf watched[WATCHERS_MAX + 1]; /* what each was told; the last: those that are none */
    int64_t progress;                     /* the last that was told */
    uint64_t created;                     /* watchers, or refused to be */
    uint64_t cut;                         /* watchers, by a compaction */
    int64_t cut_id;                       /* the last of them */
    bool is_refused;                      /* the last that was to be created */
};

union answer_message {
    struct pb_range_response range;
    struct pb_range_stream_response stream;
    struct pb_put_response put;
    struct pb_delete_range_response deleted;
    struct pb_txn_response txn;
    struct pb_header_response header;
    struct pb_lease_grant_response grant;
    struct pb_lease_time_to_live_response time_to_live;
    struct pb_lease_leases_response leases;
    struct pb_alarm_response alarm;
    struct pb_hash_kv_response hash_kv;
    struct pb_lock_response lock;
    struct pb_campaign_response campaign;
    struct pb_leader_response leader;
};

struct differential {
    struct side etcd, ours;
    struct random_requests requests;
    struct rng ways;    /* by which they go */
    uint64_t in_json;   /* so many of them */
    struct arena arena; /* of one request and its answers */
};

/* ---- Asking ---- */

/* The messages of a stream behind each other are one: protobuf joins what is inside. */
static void join_message(struct ask *a, struct bytes message)
{
    buf_append(&a->answer, message);
}

static void start_asking(struct side *s, enum request_kind kind, const void *message)
{
    s->ask.on_message = kind == REQUEST_OF_RANGE_STREAM ? join_message : NULL;
    ask_start(&s->ask, kinds[kind].path, kinds[kind].request, message);
    caller_turn(&s->caller, 0); /* it is on its way, and both servers work at it */
}

/* NULL: it cannot be asked in JSON, or not in one response. */
static const struct gateway_route *route_of(enum request_kind kind)
{
    for (size_t i = 0; i < gateway_route_count; i++)
        if (strcmp(gateway_routes[i].method, kinds[kind].path) == 0)
            return gateway_routes[i].kind == GATEWAY_UNARY ? &gateway_routes[i] : NULL;
    return NULL;
}

/* The response in JSON as if it had come by gRPC: its message, or the error's text as it is. */
static void wait_for_json(struct side *s, enum request_kind kind)
{
    struct gateway_in in = {0};
    struct buf why = {0};
    struct ask *a = &s->ask;

    json_caller_wait(&s->json);
    buf_clear(&a->answer);
    buf_clear(&a->text);
    a->code = s->json.status == 200 ? RPC_OK : RPC_UNKNOWN;
    if (a->code != RPC_OK) {
        buf_printf(&a->text, "%u %s", s->json.status, buf_str(&s->json.body));
        return;
    }
    gateway_in_add(&in, buf_bytes(&s->json.body));
    gateway_in_end(&in);
    if (gateway_in_next(&in, kinds[kind].answer, &a->answer, &why) != GATEWAY_MESSAGE)
        test_fail(__FILE__, __LINE__, "%s says %s: %s", s->peer.program, buf_str(&s->json.body),
                  buf_str(&why));
    gateway_in_free(&in);
    buf_free(&why);
}

/* One of those at the top of this file. */
static bool may_be_in_another_order(const struct random_request *q)
{
    return q->kind == REQUEST_OF_RANGE || q->kind == REQUEST_OF_TXN ||
           q->kind == REQUEST_OF_TIME_TO_LIVE || q->kind == REQUEST_OF_LEASES ||
           q->kind == REQUEST_OF_ALARM;
}

static bool ask_succeeded(const struct ask *a)
{
    return a->code == RPC_OK;
}

/* ---- Making answers comparable ---- */

static const struct pb_response_header *plain_header(struct arena *arena,
                                                     const struct pb_response_header *h)
{
    if (!h)
        return NULL;
    struct pb_response_header *plain = arena_new(arena, struct pb_response_header);
    plain->revision = h->revision;
    return plain;
}

/* By what the request sorts; the smaller first. */
static int compare_targets(const struct pb_key_value *a, const struct pb_key_value *b,
                           int32_t target)
{
    int64_t one, two;

    switch (target) {
    case PB_SORT_BY_VALUE:
        return bytes_compare(a->value, b->value);
    case PB_SORT_BY_VERSION:
        one = a->version;
        two = b->version;
        break;
    case PB_SORT_BY_CREATE:
        one = a->create_revision;
        two = b->create_revision;
        break;
    default:
        one = a->mod_revision;
        two = b->mod_revision;
        break;
    }
    return (one > two) - (one < two);
}

static int compare_keys(const void *one, const void *two)
{
    const struct pb_key_value *a = one, *b = two;

    return bytes_compare(a->key, b->key);
}

static struct pb_key_value target_alone(const struct pb_key_value *kv, int32_t target)
{
    switch (target) {
    case PB_SORT_BY_VALUE:
        return (struct pb_key_value){.value = kv->value};
    case PB_SORT_BY_VERSION:
        return (struct pb_key_value){.version = kv->version};
    case PB_SORT_BY_CREATE:
        return (struct pb_key_value){.create_revision = kv->create_revision};
    default:
        return (struct pb_key_value){.mod_revision = kv->mod_revision};
    }
}

/* Equals in the order of their keys; of those that the limit cut through, what made them equal. */
static void settle_equals(struct pb_key_value *kvs, size_t count, int32_t target, bool is_cut)
{
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && compare_targets(&kvs[from], &kvs[to], target) == 0;)
            to++;
        qsort(kvs + from, to - from, sizeof(*kvs), compare_keys);
        for (size_t i = from; is_cut && to == count && i < to; i++)
            kvs[i] = target_alone(&kvs[i], target);
    }
}

static void plain_range(struct arena *arena, const struct pb_range_request *q,
                        struct pb_range_response *r)
{
    r->header = plain_header(arena, r->header);
    if (q->sort_target == PB_SORT_BY_KEY || r->count <= STABLE_KEYS_MAX)
        return;
    struct pb_key_value *kvs = arena_new_array(arena, r->kvs.count + 1, struct pb_key_value);
    for (size_t i = 0; i < r->kvs.count; i++)
        kvs[i] = r->kvs.at[i];
    settle_equals(kvs, r->kvs.count, q->sort_target, r->more);
    r->kvs.at = kvs;
}

static void plain_txn(struct arena *arena, const struct pb_txn_request *q,
                      struct pb_txn_response *t);

static struct pb_response_op plain_op(struct arena *arena, const struct pb_request_op *q,
                                      struct pb_response_op op)
{
    if (op.which == PB_OP_RANGE && q->which == PB_OP_RANGE) {
        struct pb_range_response *r = arena_new(arena, struct pb_range_response);
        *r = *op.range;
        plain_range(arena, q->range, r);
        op.range = r;
    } else if (op.which == PB_OP_TXN && q->which == PB_OP_TXN) {
        struct pb_txn_response *t = arena_new(arena, struct pb_txn_response);
        *t = *op.txn;
        plain_txn(arena, q->txn, t);
        op.txn = t;
    }
    return op;
}

static void plain_txn(struct arena *arena, const struct pb_txn_request *q,
                      struct pb_txn_response *t)
{
    size_t asked = t->succeeded ? q->success.count : q->failure.count;
    const struct pb_request_op *ops = t->succeeded ? q->success.at : q->failure.at;
    struct pb_response_op *plain = arena_new_array(arena, asked + 1, struct pb_response_op);

    t->header = plain_header(arena, t->header);
    if (t->responses.count != asked)
        return; /* a difference that is shown as it is */
    for (size_t i = 0; i < asked; i++)
        plain[i] = plain_op(arena, &ops[i], t->responses.at[i]);
    t->responses.at = plain;
}

static int compare_words(const void *one, const void *two)
{
    const struct bytes *a = one, *b = two;

    return bytes_compare(*a, *b);
}

static void plain_time_to_live(struct arena *arena, struct pb_lease_time_to_live_response *t)
{
    struct bytes *keys = arena_new_array(arena, t->keys.count + 1, struct bytes);

    t->header = plain_header(arena, t->header);
    if (t->ttl > 0) /* of a million seconds, and no test takes a tenth of that */
        t->ttl = t->ttl > t->granted_ttl - t->granted_ttl / 10 ? t->granted_ttl : t->ttl;
    for (size_t i = 0; i < t->keys.count; i++)
        keys[i] = t->keys.at[i];
    qsort(keys, t->keys.count, sizeof(*keys), compare_words);
    t->keys.at = keys;
}

static int compare_leases(const void *one, const void *two)
{
    const struct pb_lease_id *a = one, *b = two;

    return (a->id > b->id) - (a->id < b->id);
}

/* etcd sorts them by when they end, and equals in no particular order. */
static void plain_leases(struct arena *arena, struct pb_lease_leases_response *l)
{
    struct pb_lease_id *ids = arena_new_array(arena, l->leases.count + 1, struct pb_lease_id);

    l->header = plain_header(arena, l->header);
    for (size_t i = 0; i < l->leases.count; i++)
        ids[i] = l->leases.at[i];
    qsort(ids, l->leases.count, sizeof(*ids), compare_leases);
    l->leases.at = ids;
}

static int compare_alarms(const void *one, const void *two)
{
    const struct pb_alarm_member *a = one, *b = two;

    if (a->member_id != b->member_id)
        return a->member_id < b->member_id ? -1 : 1;
    return (a->alarm > b->alarm) - (a->alarm < b->alarm);
}

/* etcd's come in the order of a map. */
static void plain_alarms(struct arena *arena, struct pb_alarm_response *m)
{
    struct pb_alarm_member *all =
        arena_new_array(arena, m->alarms.count + 1, struct pb_alarm_member);

    m->header = plain_header(arena, m->header);
    for (size_t i = 0; i < m->alarms.count; i++)
        all[i] = m->alarms.at[i];
    qsort(all, m->alarms.count, sizeof(*all), compare_alarms);
    m->alarms.at = all;
}

static void plain_message(struct arena *arena, const struct random_request *q,
                          union answer_message *m)
{
    switch (q->kind) {
    case REQUEST_OF_RANGE:
        plain_range(arena, q->message, &m->range);
        return;
    case REQUEST_OF_TXN:
        plain_txn(arena, q->message, &m->txn);
        return;
    case REQUEST_OF_TIME_TO_LIVE:
        plain_time_to_live(arena, &m->time_to_live);
        return;
    case REQUEST_OF_LEASES:
        plain_leases(arena, &m->leases);
        return;
    case REQUEST_OF_ALARM:
        plain_alarms(arena, &m->alarm);
        return;
    default: /* the header comes first in all of them */
        m->header.header = plain_header(arena, m->header.header);
        return;
    }
}

/* As text: an error, or the message. */
static const char *result_text(struct arena *arena, const struct random_request *q,
                               struct ask *answered)
{
    union answer_message m;
    struct random_request as = *q;
    struct buf text = {0};

    if (!ask_succeeded(answered))
        return arena_printf(arena, "error %d: %s\n", answered->code, buf_str(&answered->text));
    CHECK_EQ(pb_decode(kinds[q->kind].answer, buf_bytes(&answered->answer), arena, &m), ERR_OK);
    if (as.kind == REQUEST_OF_RANGE_STREAM) {
        m.range = *m.stream.range_response;
        as.kind = REQUEST_OF_RANGE;
    }
    plain_message(arena, &as, &m);
    pb_dump(kinds[as.kind].answer, &m, &text);
    const char *kept = arena_copy_str(arena, buf_bytes(&text));
    buf_free(&text);
    return kept;
}

/* ---- Comparing ---- */

static const char *request_text(struct arena *arena, const struct random_request *q)
{
    struct buf text = {0};

    pb_dump(kinds[q->kind].request, q->message, &text);
    const char *kept = arena_printf(arena, "%s\n%s", kinds[q->kind].path, buf_str(&text));
    buf_free(&text);
    return kept;
}

/* etcd sorts each message of a stream by itself, and goes on behind its last key, or counts from
 * there: where something comes after the first message it is wrong, and what it says to a unary
 * range is right. */
static bool is_wrongly_sorted(struct arena *arena, const struct random_request *q, struct ask *etcd)
{
    const struct pb_range_request *r = q->message;
    struct pb_range_stream_response m;

    if (q->kind != REQUEST_OF_RANGE_STREAM || r->sort_target == PB_SORT_BY_KEY ||
        !ask_succeeded(etcd))
        return false;
    CHECK_EQ(pb_decode_range_stream_response(buf_bytes(&etcd->answer), arena, &m), ERR_OK);
    return m.range_response->kvs.count >= FIRST_CHUNK_KEYS || m.range_response->more;
}

static const char *etcds_text(struct differential *d, const struct random_request *q)
{
    struct random_request unary = {.kind = REQUEST_OF_RANGE, .message = q->message};

    if (!is_wrongly_sorted(&d->arena, q, &d->etcd.ask))
        return result_text(&d->arena, q, &d->etcd.ask);
    start_asking(&d->etcd, unary.kind, unary.message);
    ask_wait(&d->etcd.ask);
    return result_text(&d->arena, &unary, &d->etcd.ask);
}

/* The answer's revision, if it has one: what the next requests are made around. */
static void learn_revision(struct differential *d, const struct random_request *q)
{
    union answer_message m;

    if (!ask_succeeded(&d->ours.ask) || q->kind == REQUEST_OF_RANGE_STREAM)
        return;
    CHECK_EQ(pb_decode(kinds[q->kind].answer, buf_bytes(&d->ours.ask.answer), &d->arena, &m),
             ERR_OK);
    random_request_done(&d->requests, q, m.header.header ? m.header.header->revision : 0);
}

/* A server that is gone has told its log why. */
static void check_alive(struct differential *d, struct side *s, const struct random_request *q)
{
    if (s->ask.line->is_gone)
        test_fail(__FILE__, __LINE__, "%s is gone after\n%s\n%s", s->peer.program,
                  request_text(&d->arena, q),
                  peer_run(&s->peer.arena, "tail -n 40 %s.log | cut -c 1-800", s->peer.dir));
}

static void ask_by_grpc(struct differential *d, const struct random_request *q)
{
    start_asking(&d->etcd, q->kind, q->message);
    start_asking(&d->ours, q->kind, q->message);
    ask_wait(&d->ours.ask);
    ask_wait(&d->etcd.ask);
    check_alive(d, &d->etcd, q);
    check_alive(d, &d->ours, q);
}

static void fail_on_difference(struct differential *d, const struct random_request *q,
                               uint64_t number, const char *theirs, const char *ours)
{
    test_fail(__FILE__, __LINE__,
              "request %llu differs (TEST_SEED=%llu)\n%s\n--- etcd\n%s\n--- ours\n%s",
              (unsigned long long)number, (unsigned long long)test_seed(),
              request_text(&d->arena, q), theirs, ours);
}

/* Where the order of what is in them may be another, what they say is compared behind this. */
static void compare_json(struct differential *d, const struct random_request *q, uint64_t number)
{
    const char *theirs = json_plain(&d->arena, buf_bytes(&d->etcd.json.body));
    const char *ours = json_plain(&d->arena, buf_bytes(&d->ours.json.body));

    if (d->etcd.json.status != d->ours.json.status ||
        (strcmp(theirs, ours) != 0 && !may_be_in_another_order(q)))
        fail_on_difference(d, q, number, theirs, ours);
}

static void ask_in_json(struct differential *d, const struct random_request *q, uint64_t number)
{
    const struct gateway_route *route = route_of(q->kind);

    json_caller_start(&d->etcd.json, route->path, route->request, q->message);
    json_caller_start(&d->ours.json, route->path, route->request, q->message);
    wait_for_json(&d->ours, q->kind);
    wait_for_json(&d->etcd, q->kind);
    compare_json(d, q, number);
    d->in_json++;
}

static void compare_one(struct differential *d, const struct random_request *q, uint64_t number)
{
    if (rng_chance(&d->ways, 1, 3) && route_of(q->kind))
        ask_in_json(d, q, number);
    else
        ask_by_grpc(d, q);
    const char *theirs = etcds_text(d, q);
    const char *ours = result_text(&d->arena, q, &d->ours.ask);
    if (strcmp(theirs, ours) != 0)
        fail_on_difference(d, q, number, theirs, ours);
    learn_revision(d, q);
    arena_reset(&d->arena);
}

/* ---- Watching ---- */

static struct buf *watched_by(struct side *s, int64_t id)
{
    return &s->watched[id >= 0 && id < WATCHERS_MAX ? id : WATCHERS_MAX];
}

static void watch_heard(struct ask *a, struct bytes message)
{
    struct side *s = a->context;
    struct arena arena = {0};
    struct pb_watch_response r;

    CHECK_EQ(pb_decode_watch_response(message, &arena, &r), ERR_OK);
    struct buf *out = watched_by(s, r.watch_id);
    s->created += r.created;
    if (r.created)
        s->is_refused = r.canceled;
    if (r.canceled && r.compact_revision != 0) {
        s->cut++;
        s->cut_id = r.watch_id;
    }
    if (!r.created && !r.canceled && r.events.count == 0) {
        if (r.watch_id == -1) /* one that was asked for; those that come by time say nothing new */
            s->progress = r.header->revision;
    } else if (r.created || r.canceled) {
        buf_printf(out, "%s%s compacted at %lld: %.*s\n", r.created ? "created " : "",
                   r.canceled ? "canceled" : "", (long long)r.compact_revision,
                   (int)r.cancel_reason.len, (const char *)r.cancel_reason.at);
    }
    for (size_t i = 0; i < r.events.count; i++)
        pb_dump(&pb_event_schema, &r.events.at[i], out);
    arena_free(&arena);
}

static void say_to_both(struct differential *d, const struct pb_watch_request *request)
{
    ask_say(&d->etcd.stream, &pb_watch_request_schema, request);
    ask_say(&d->ours.stream, &pb_watch_request_schema, request);
}

/* A write that is asked for on another connection may be faster than what is said here. */
static void create_watcher(struct differential *d, const struct pb_watch_create_request *create)
{
    uint64_t etcds = d->etcd.created + 1, ours = d->ours.created + 1;

    say_to_both(d, &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = create});
    while (d->etcd.created < etcds)
        caller_turn(&d->etcd.caller, 100);
    while (d->ours.created < ours)
        caller_turn(&d->ours.caller, 100);
}

/* One that asks for what is compacted stays the stream's, and is in the way of its progress, until
 * the client cancels it as well. */
static void cancel_if_cut(struct differential *d, const struct pb_watch_create_request *create,
                          uint64_t etcds, uint64_t ours)
{
    if (create->start_revision == 0 || create->start_revision >= d->requests.compacted ||
        d->ours.is_refused)
        return;
    while (d->etcd.cut == etcds)
        caller_turn(&d->etcd.caller, 100);
    while (d->ours.cut == ours)
        caller_turn(&d->ours.caller, 100);
    struct pb_watch_cancel_request cancel = {.watch_id = d->ours.cut_id};
    say_to_both(d, &(struct pb_watch_request){.which = PB_WATCH_CANCEL, .cancel = &cancel});
}

/* Until all has come that is to come. A request for progress is forgotten while a watcher lags. */
static void await_progress(struct differential *d, struct side *s)
{
    struct pb_empty nothing = {0};
    uint64_t until_ns = caller_now_ns(&s->caller) + PATIENCE_MS * NS_PER_MS;

    s->progress = 0;
    while (s->progress < d->requests.revision) {
        ask_say(&s->stream, &pb_watch_request_schema,
                &(struct pb_watch_request){.which = PB_WATCH_PROGRESS, .progress = &nothing});
        caller_turn(&s->caller, 10);
        if (caller_now_ns(&s->caller) > until_ns || ask_is_over(&s->stream))
            test_fail(__FILE__, __LINE__, "%s: no progress of watchers at %lld", s->peer.program,
                      (long long)d->requests.revision);
    }
}

/* A watcher from now on is ahead of the newest revision, and etcd's stream is silent until that has
 * come. */
static void write_something(struct differential *d, uint64_t number)
{
    struct pb_put_request *put = arena_new(&d->arena, struct pb_put_request);

    put->key = BYTES(SYNC_KEY);
    compare_one(d, &(struct random_request){.kind = REQUEST_OF_PUT, .message = put}, number);
}

static void compare_watchers(struct differential *d, uint64_t number)
{
    write_something(d, number);
    await_progress(d, &d->etcd);
    await_progress(d, &d->ours);
    for (size_t i = 0; i <= WATCHERS_MAX; i++) {
        struct buf *theirs = &d->etcd.watched[i], *ours = &d->ours.watched[i];
        if (!bytes_equal(buf_bytes(theirs), buf_bytes(ours)))
            test_fail(__FILE__, __LINE__,
                      "watcher %zu differs by request %llu (TEST_SEED=%llu)\n--- etcd\n%s\n--- "
                      "ours\n%s",
                      i, (unsigned long long)number, (unsigned long long)test_seed(),
                      buf_str(theirs), buf_str(ours));
        buf_clear(theirs);
        buf_clear(ours);
    }
}

/* Another one, and some of the last ones less, or none: the ids that servers choose go up. Of one
 * that is canceled etcd may drop what is on its way, so that is waited for. */
static void change_watchers(struct differential *d, uint64_t number)
{
    compare_watchers(d, number);
    struct pb_watch_create_request create = random_watcher(&d->requests);
    for (unsigned i = 0; i < 3; i++) {
        struct pb_watch_cancel_request cancel = {
            .watch_id =
                (int64_t)d->ours.created - (int64_t)rng_below(&d->requests.rng, WATCHERS_ALIVE)};
        if (cancel.watch_id != 0) /* which watches for progress */
            say_to_both(d, &(struct pb_watch_request){.which = PB_WATCH_CANCEL, .cancel = &cancel});
    }
    uint64_t etcds = d->etcd.cut, ours = d->ours.cut;
    create_watcher(d, &create);
    cancel_if_cut(d, &create, etcds, ours);
    compare_watchers(d, number);
}

/* There is always one, since a stream without any tells of no progress. */
static void watch_for_progress(struct differential *d)
{
    struct pb_watch_create_request create = {.key = BYTES(SYNC_KEY)};

    create_watcher(d, &create);
}

/* An alarm is in the way of writing. */
static void watch_some(struct differential *d, uint64_t number)
{
    if (number % REQUESTS_PER_WATCHER == 0 && d->requests.alarm_count == 0)
        change_watchers(d, number);
}

/* ---- Running ---- */

static void open_side(struct side *s)
{
    peer_start(&s->peer, "--unsafe-no-fsync");
    caller_open(&s->caller, &s->peer);
    s->ask = (struct ask){.line = caller_connect(&s->caller),
                          .timeout_ns = PATIENCE_MS * NS_PER_MS}; /* no response is told of, too */
    s->stream =
        (struct ask){.line = caller_connect(&s->caller), .on_message = watch_heard, .context = s};
    ask_stream(&s->stream, "/etcdserverpb.Watch/Watch");
    json_caller_open(&s->json, &s->peer);
}

static void close_side(struct side *s)
{
    ask_free(&s->ask);
    json_caller_close(&s->json);
    ask_cancel(&s->stream);
    ask_free(&s->stream);
    for (size_t i = 0; i <= WATCHERS_MAX; i++)
        buf_free(&s->watched[i]);
    caller_close(&s->caller);
    peer_stop(&s->peer);
    peer_close(&s->peer);
}

static const char *folder(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s", test_tmp_dir(), name);
    return path;
}

static void open_differential(struct differential *d)
{
    *d = (struct differential){.requests = {.revision = 1}};
    d->requests.arena = &d->arena;
    rng_seed(&d->requests.rng, test_seed());
    rng_seed(&d->ways, test_seed() + 1);
    peer_open(&d->etcd.peer, folder("etcd"));
    peer_open_ours(&d->ours.peer, folder("ours"));
    open_side(&d->etcd);
    open_side(&d->ours);
}

static void close_differential(struct differential *d)
{
    close_side(&d->etcd);
    close_side(&d->ours);
    arena_free(&d->arena);
}

/* Nothing is compacted while watchers may lag, or cannot be waited for. History that grows without
 * end would make both slow. */
static struct random_request next_request(struct differential *d, uint64_t number)
{
    struct random_requests *r = &d->requests;
    struct random_request q;

    if (r->revision - r->compacted < STORE_AGE_MAX || r->alarm_count > 0) {
        do
            q = random_request(r);
        while (q.kind == REQUEST_OF_COMPACT && r->alarm_count > 0);
        if (q.kind != REQUEST_OF_COMPACT)
            return q;
        compare_watchers(d, number);
        return random_compaction_of(r);
    }
    compare_watchers(d, number);
    struct pb_compaction_request *c = arena_new(&d->arena, struct pb_compaction_request);
    c->revision = random_compaction(r, r->revision - STORE_AGE_MAX / 2);
    return (struct random_request){.kind = REQUEST_OF_COMPACT, .message = c};
}

TEST(random_requests_are_answered_as_by_etcd)
{
    struct differential d;
    uint64_t count = REQUESTS * test_effort();
    open_differential(&d);

    watch_for_progress(&d);
    for (uint64_t i = 0; i < count; i++) {
        watch_some(&d, i);
        struct random_request q = next_request(&d, i);
        compare_one(&d, &q, i);
    }
    if (d.requests.alarm_count == 0)
        compare_watchers(&d, count);
    CHECK(d.in_json > count / 5); /* as many as there are to be of them */

    close_differential(&d);
}

/* Small enough for one message of etcd's: here it is right. */
TEST(a_sorted_range_stream_is_etcds_while_that_is_right)
{
    struct differential d;
    open_differential(&d);
    for (unsigned i = 0; i < 13; i++) {
        char key[8], value[8];
        snprintf(key, sizeof(key), "k%u", i * 4 % 9);
        snprintf(value, sizeof(value), "v%u", i * 7 % 9);
        struct pb_put_request put = {.key = bytes_of_str(key), .value = bytes_of_str(value)};
        compare_one(&d, &(struct random_request){.kind = REQUEST_OF_PUT, .message = &put}, i);
    }

    for (int32_t target = PB_SORT_BY_KEY; target <= PB_SORT_BY_VALUE; target++) {
        for (int64_t limit = 0; limit < 12; limit++) {
            struct pb_range_request r = {
                .key = BYTES("k"), .range_end = BYTES("l"), .sort_target = target, .limit = limit};
            compare_one(
                &d, &(struct random_request){.kind = REQUEST_OF_RANGE_STREAM, .message = &r}, 0);
        }
    }

    close_differential(&d);
}
