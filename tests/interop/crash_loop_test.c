/*
 * The server as a program, killed at random moments while clients write to it.
 *
 * Each writer has two keys of its own and numbers its writes 1, 2, 3 ...; what write n does follows
 * from n alone, so after a crash the store tells which was the last. Every write makes exactly one
 * revision, so a watcher of everything must see the revisions without a gap.
 *
 *     n          key a            key b
 *     any        n                -
 *     7, 14 ..   deleted          -
 *     4, 8 ..    as above         n, in the same transaction
 *
 * A write that was under way when the server died may have happened or not, and counts as whatever
 * the store then says. One that was acknowledged has happened.
 */
#include "base/rng.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    WRITERS = 32,
    LINES = 4,
    ROUNDS = 5,
    WRITES_MAX = 1500, /* of a round, before the kill */
    VALUE_BYTES = 200,
    LEASE_TTL = 100000,
};

struct crash;

struct writer {
    struct crash *crash;
    struct ask ask;
    unsigned number;
    uint64_t sent;     /* the write under way, or the last one */
    uint64_t done;     /* the last one acknowledged, or found done after a crash */
    uint64_t watched;  /* the last one that the watch has shown */
    int64_t revision;  /* of the last one acknowledged */
    char a[16], b[16]; /* its keys */
    bool is_stopped;
};

struct crash {
    struct peer peer;
    struct caller caller;
    struct rng rng;
    struct arena arena;
    struct writer writers[WRITERS];
    struct line *lines[LINES];
    struct ask watch, compact;
    int64_t revision; /* the highest that anybody has heard of */
    int64_t watched;  /* the watch has shown everything up to here */
    int64_t compacted;
    int64_t leases; /* granted and acknowledged: 1 .. this */
    unsigned acknowledged, total, uncertain, happened;
};

/* --- what write n is --- */

static bool deletes(uint64_t n)
{
    return n % 7 == 0;
}

static bool is_pair(uint64_t n)
{
    return n % 4 == 0;
}

static struct bytes value_of(struct crash *c, uint64_t n)
{
    char *text = arena_alloc(&c->arena, VALUE_BYTES);

    memset(text, '.', VALUE_BYTES);
    text[snprintf(text, VALUE_BYTES, "%llu ", (unsigned long long)n)] = '.';
    return bytes_of(text, VALUE_BYTES);
}

static uint64_t number_in(struct bytes value)
{
    CHECK_EQ(value.len, VALUE_BYTES);
    return strtoull((const char *)value.at, NULL, 10);
}

/* --- writing --- */

static void write_next(struct writer *w)
{
    struct crash *c = w->crash;
    uint64_t n = w->sent = w->done + 1;
    struct pb_put_request put_a = {.key = bytes_of_str(w->a), .value = value_of(c, n)};
    struct pb_put_request put_b = {.key = bytes_of_str(w->b), .value = put_a.value};
    struct pb_delete_range_request delete = {.key = put_a.key};
    struct pb_request_op ops[2] = {{.which = PB_OP_PUT, .put = &put_a},
                                   {.which = PB_OP_PUT, .put = &put_b}};
    struct pb_txn_request pair = {.success = {ops, 2}};

    if (deletes(n))
        ops[0] = (struct pb_request_op){.which = PB_OP_DELETE_RANGE, .delete_range = &delete};
    if (is_pair(n))
        ask_start(&w->ask, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &pair);
    else if (deletes(n))
        ask_start(&w->ask, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
                  &delete);
    else
        ask_start(&w->ask, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put_a);
    arena_reset(&c->arena);
}

/* The header is field 1 in all three answers. */
static int64_t revision_in(struct crash *c, struct ask *a)
{
    struct pb_header_response response;

    ask_read(a, &pb_lease_revoke_response_schema, &c->arena, &response);
    return response.header->revision;
}

static void written(struct ask *a)
{
    struct writer *w = a->context;
    struct crash *c = w->crash;

    if (a->code == RPC_UNAVAILABLE) {
        w->is_stopped = true;
        return;
    }
    int64_t revision = revision_in(c, a);
    CHECK(revision > w->revision); /* of its own writes, in order */
    w->revision = revision;
    w->done = w->sent;
    if (revision > c->revision)
        c->revision = revision;
    c->acknowledged++;
    write_next(w);
}

/* --- watching --- */

static void event_seen(struct crash *c, const struct pb_event *e)
{
    const struct pb_key_value *kv = e->kv;
    unsigned number = (unsigned)strtoul((const char *)kv->key.at + 2, NULL, 10);
    bool is_a = kv->key.at[kv->key.len - 1] == 'a';

    CHECK(number < WRITERS);
    struct writer *w = &c->writers[number];
    CHECK(kv->mod_revision == c->watched + 1 || (kv->mod_revision == c->watched && !is_a));
    if (is_a)
        w->watched++; /* every write shows in key a first */
    if (e->type == PB_EVENT_DELETE)
        CHECK(is_a && deletes(w->watched));
    else
        CHECK_EQ(number_in(kv->value), w->watched);
    CHECK(is_a || is_pair(w->watched));
    c->watched = kv->mod_revision;
}

static void watch_says(struct ask *a, struct bytes message)
{
    struct crash *c = a->context;
    struct arena arena = {0};
    struct pb_watch_response response;

    CHECK_EQ(pb_decode_watch_response(message, &arena, &response), ERR_OK);
    CHECK(!response.canceled);
    for (size_t i = 0; i < response.events.count; i++)
        event_seen(c, &response.events.at[i]);
    if (c->watched > c->revision)
        c->revision = c->watched;
    arena_free(&arena);
}

static void watch_on(struct crash *c)
{
    struct pb_watch_create_request create = {
        .key = BYTES("w/"), .range_end = BYTES("w0"), .start_revision = c->watched + 1};

    c->watch = (struct ask){.line = c->lines[0], .on_message = watch_says, .context = c};
    ask_stream(&c->watch, "/etcdserverpb.Watch/Watch");
    ask_say(&c->watch, &pb_watch_request_schema,
            &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
}

/* Behind what the watch has shown, or it could not go on there. */
static void compact_some(struct crash *c)
{
    struct pb_compaction_request request = {.revision = c->watched - 300};

    if (request.revision <= c->compacted || !ask_is_over(&c->compact))
        return;
    c->compacted = request.revision;
    ask_start(&c->compact, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema, &request);
}

/* --- after a crash --- */

static bool find(struct crash *c, const char *key, uint64_t *out)
{
    struct ask a = {.line = c->lines[0]};
    struct pb_range_request request = {.key = bytes_of_str(key)};
    struct pb_range_response response;

    ask_start(&a, "/etcdserverpb.KV/Range", &pb_range_request_schema, &request);
    ask_wait(&a);
    ask_read(&a, &pb_range_response_schema, &c->arena, &response);
    CHECK(response.header->revision >= c->revision); /* it never goes back */
    c->revision = response.header->revision;
    if (response.kvs.count > 0)
        *out = number_in(response.kvs.at[0].value);
    ask_free(&a);
    return response.kvs.count > 0;
}

static bool looks_like(bool has_a, uint64_t a, bool has_b, uint64_t b, uint64_t n)
{
    bool a_fits = deletes(n) || n == 0 ? !has_a : has_a && a == n;
    bool b_fits = n < 4 ? !has_b : has_b && b == n / 4 * 4;

    return a_fits && b_fits;
}

/* Everything acknowledged is there; what was under way is there or is not, as a whole. */
static void look_up(struct writer *w)
{
    struct crash *c = w->crash;
    uint64_t a = 0, b = 0;
    bool has_a = find(c, w->a, &a);
    bool has_b = find(c, w->b, &b);

    if (w->sent > w->done) {
        c->uncertain++;
        if (looks_like(has_a, a, has_b, b, w->sent)) {
            w->done = w->sent;
            c->happened++;
        }
    }
    if (!looks_like(has_a, a, has_b, b, w->done))
        test_fail(__FILE__, __LINE__,
                  "writer %u: write %llu was acknowledged, %llu was sent; the store has a=%llu "
                  "b=%llu",
                  w->number, (unsigned long long)w->done, (unsigned long long)w->sent,
                  (unsigned long long)a, (unsigned long long)b);
}

static void check_lease(struct crash *c, int64_t id)
{
    struct ask a = {.line = c->lines[0]};
    struct pb_lease_time_to_live_request request = {.id = id};
    struct pb_lease_time_to_live_response response;

    ask_start(&a, "/etcdserverpb.Lease/LeaseTimeToLive", &pb_lease_time_to_live_request_schema,
              &request);
    ask_wait(&a);
    ask_read(&a, &pb_lease_time_to_live_response_schema, &c->arena, &response);
    CHECK_EQ(response.granted_ttl, LEASE_TTL);
    ask_free(&a);
}

static void grant_lease(struct crash *c)
{
    struct ask a = {.line = c->lines[0]};
    struct pb_lease_grant_request request = {.id = c->leases + 1, .ttl = LEASE_TTL};

    ask_start(&a, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema, &request);
    ask_wait(&a);
    CHECK_EQ(a.code, RPC_OK);
    c->leases++;
    ask_free(&a);
}

static void check_all(struct crash *c)
{
    for (unsigned i = 0; i < WRITERS; i++)
        look_up(&c->writers[i]);
    for (int64_t id = 1; id <= c->leases; id++)
        check_lease(c, id);
    while (c->watched < c->revision)
        caller_turn(&c->caller, 1000);
    for (unsigned i = 0; i < WRITERS; i++)
        CHECK_EQ(c->writers[i].watched, c->writers[i].done);
    arena_reset(&c->arena);
}

/* --- rounds --- */

static void start_server(struct crash *c)
{
    struct timespec a_while = {.tv_nsec = (long)rng_below(&c->rng, 30000000)};

    peer_launch(&c->peer, "--snapshot-count=700 --log-level=warn");
    if (rng_chance(&c->rng, 1, 4)) { /* now and then it does not get far */
        nanosleep(&a_while, NULL);
        peer_kill(&c->peer);
        peer_launch(&c->peer, "--snapshot-count=700 --log-level=warn");
    }
    peer_await(&c->peer);
}

static void connect_all(struct crash *c)
{
    caller_open(&c->caller, &c->peer);
    for (unsigned i = 0; i < LINES; i++)
        c->lines[i] = caller_connect(&c->caller);
    c->compact = (struct ask){.line = c->lines[1]};
    watch_on(c);
}

static void disconnect_all(struct crash *c)
{
    for (unsigned i = 0; i < LINES; i++)
        while (!c->lines[i]->is_gone)
            caller_turn(&c->caller, 1000);
    for (unsigned i = 0; i < WRITERS; i++)
        CHECK(c->writers[i].is_stopped);
    ask_free(&c->watch);
    ask_free(&c->compact);
    caller_close(&c->caller);
}

static void write_until_killed(struct crash *c)
{
    unsigned enough = (unsigned)rng_below(&c->rng, WRITES_MAX);

    c->acknowledged = 0;
    for (unsigned i = 0; i < WRITERS; i++) {
        c->writers[i].is_stopped = false;
        c->writers[i].ask.line = c->lines[i % LINES];
        write_next(&c->writers[i]);
    }
    while (c->acknowledged < enough) {
        caller_turn(&c->caller, 1000);
        if (rng_chance(&c->rng, 1, 50))
            compact_some(c);
    }
    peer_kill(&c->peer);
    disconnect_all(c);
    c->total += c->acknowledged;
}

static void writers_open(struct crash *c)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        struct writer *w = &c->writers[i];
        *w = (struct writer){.crash = c, .number = i};
        w->ask = (struct ask){.on_over = written, .context = w};
        snprintf(w->a, sizeof(w->a), "w/%02u/a", i);
        snprintf(w->b, sizeof(w->b), "w/%02u/b", i);
    }
}

TEST(nothing_acknowledged_is_lost_when_the_server_is_killed)
{
    struct crash c = {.watched = 1};
    rng_seed(&c.rng, test_seed());
    peer_open_ours(&c.peer, arena_printf(&c.arena, "%s/ours", test_tmp_dir()));
    writers_open(&c);

    for (unsigned round = 0; round < ROUNDS * test_effort(); round++) {
        start_server(&c);
        connect_all(&c);
        check_all(&c);
        grant_lease(&c);
        write_until_killed(&c);
    }
    start_server(&c);
    connect_all(&c);
    check_all(&c);

    printf("%u writes acknowledged, of %u under way at a kill %u had happened\n", c.total,
           c.uncertain, c.happened);
    CHECK(c.total > 0);
    for (unsigned i = 0; i < WRITERS; i++)
        ask_free(&c.writers[i].ask);
    ask_free(&c.watch);
    ask_free(&c.compact);
    caller_close(&c.caller);
    peer_stop(&c.peer);
    peer_close(&c.peer);
    arena_free(&c.arena);
}
