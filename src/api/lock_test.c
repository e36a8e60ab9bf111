/* Lock and Election: who has what, who waits for whom, and what becomes of those who go. */
#include "api/api_rig_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LOCK     "/v3lockpb.Lock/Lock"
#define UNLOCK   "/v3lockpb.Lock/Unlock"
#define CAMPAIGN "/v3electionpb.Election/Campaign"
#define PROCLAIM "/v3electionpb.Election/Proclaim"
#define LEADER   "/v3electionpb.Election/Leader"
#define OBSERVE  "/v3electionpb.Election/Observe"
#define RESIGN   "/v3electionpb.Election/Resign"

/* So long a call is waited for that is to wait itself. */
#define A_WHILE_MS 300

static void grant(struct api_rig *k, int64_t id)
{
    struct pb_lease_grant_request request = {.id = id, .ttl = 100};

    api_rig_apply(k, &(struct pb_internal_raft_request){.lease_grant = &request});
}

static void revoke(struct api_rig *k, int64_t id)
{
    struct pb_lease_id request = {.id = id};

    api_rig_apply(k, &(struct pb_internal_raft_request){.lease_revoke = &request});
}

static void ask_lock(struct api_rig *k, struct visit *v, const char *name, int64_t lease)
{
    api_rig_ask(k, v, LOCK, &pb_lock_request_schema,
                &(struct pb_lock_request){.name = bytes_of_str(name), .lease = lease});
}

/* "key @revision" of a lock that was given. */
static const char *locked(struct api_rig *k, struct visit *v)
{
    static struct buf text;
    struct arena arena = {0};
    struct pb_lock_response r;

    api_rig_expect(k, v, RPC_OK, "");
    visit_decode(v, 0, &pb_lock_response_schema, &arena, &r);
    buf_clear(&text);
    apply_rig_print(r.key, &text);
    buf_printf(&text, " @%" PRId64, r.header->revision);
    CHECK_EQ(r.header->member_id, APPLY_RIG_OWN_ID);
    arena_free(&arena);
    return buf_str(&text);
}

static void unlock(struct api_rig *k, const char *key)
{
    struct arena arena = {0};
    struct pb_header_response r;

    api_rig_get(k, UNLOCK, &pb_unlock_request_schema,
                &(struct pb_unlock_request){.key = bytes_of_str(key)}, &pb_unlock_response_schema,
                &arena, &r);
    CHECK(r.header);
    arena_free(&arena);
}

static int64_t count_keys(struct api_rig *k, const char *from, const char *to)
{
    struct arena arena = {0};
    struct pb_range_response r;

    api_rig_get(k, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                &(struct pb_range_request){
                    .key = bytes_of_str(from), .range_end = bytes_of_str(to), .count_only = true},
                &pb_range_response_schema, &arena, &r);
    int64_t count = r.count;
    arena_free(&arena);
    return count;
}

/* The caller goes. */
static void leave(struct api_rig *k, struct visit *v)
{
    client_cancel(v->call);
    v->call = NULL;
    visit_free(v);
    api_rig_for_ms(k, 10);
}

TEST(a_lock_goes_to_the_first_and_then_to_the_next)
{
    struct api_rig k;
    struct visit first = {0}, second = {0}, third = {0};
    api_rig_open(&k);
    grant(&k, 0x11);
    grant(&k, 0x2a);
    grant(&k, 0x3f);

    ask_lock(&k, &first, "l", 0x11);
    CHECK_STR(locked(&k, &first), "l/11 @2");
    ask_lock(&k, &second, "l", 0x2a);
    api_rig_for_ms(&k, A_WHILE_MS);
    ask_lock(&k, &third, "l", 0x3f);
    api_rig_for_ms(&k, A_WHILE_MS);
    CHECK(!second.is_over && !third.is_over);

    unlock(&k, "l/11");
    CHECK_STR(locked(&k, &second), "l/2a @5");
    api_rig_for_ms(&k, A_WHILE_MS);
    CHECK(!third.is_over);
    revoke(&k, 0x2a);
    CHECK_STR(locked(&k, &third), "l/3f @6");
    visit_free(&first);
    visit_free(&second);
    visit_free(&third);
    api_rig_close(&k);
}

TEST(who_has_the_lock_is_given_it_again)
{
    struct api_rig k;
    struct visit first = {0}, again = {0};
    api_rig_open(&k);
    grant(&k, 7);

    ask_lock(&k, &first, "l", 7);
    CHECK_STR(locked(&k, &first), "l/7 @2");
    ask_lock(&k, &again, "l", 7);

    CHECK_STR(locked(&k, &again), "l/7 @2");
    visit_free(&first);
    visit_free(&again);
    api_rig_close(&k);
}

TEST(a_lock_without_a_lease_gets_one)
{
    struct api_rig k;
    struct visit v = {0};
    struct arena arena = {0};
    struct pb_lock_response r;
    struct pb_lease_leases_response leases;
    api_rig_open(&k);

    ask_lock(&k, &v, "l", 0);
    api_rig_expect(&k, &v, RPC_OK, "");

    visit_decode(&v, 0, &pb_lock_response_schema, &arena, &r);
    api_rig_get(&k, "/etcdserverpb.Lease/LeaseLeases", &pb_lease_leases_request_schema,
                &(struct pb_empty){0}, &pb_lease_leases_response_schema, &arena, &leases);
    CHECK_EQ(leases.leases.count, 1);
    char want[64];
    snprintf(want, sizeof(want), "l/%" PRIx64, (uint64_t)leases.leases.at[0].id);
    CHECK_BYTES(r.key, bytes_of_str(want));
    arena_free(&arena);
    visit_free(&v);
    api_rig_close(&k);
}

TEST(errors_of_a_lock_have_no_code_of_their_own)
{
    struct api_rig k;
    api_rig_open(&k);

    api_rig_refused(&k, LOCK, &pb_lock_request_schema,
                    &(struct pb_lock_request){.name = BYTES("l"), .lease = 99}, RPC_UNKNOWN,
                    "etcdserver: requested lease not found");
    api_rig_refused(&k, UNLOCK, &pb_unlock_request_schema, &(struct pb_unlock_request){0},
                    RPC_UNKNOWN, "etcdserver: key is not provided");
    api_rig_refused(&k, LEADER, &pb_leader_request_schema,
                    &(struct pb_leader_request){.name = BYTES("e")}, RPC_UNKNOWN,
                    "election: no leader");
    api_rig_refused(&k, RESIGN, &pb_resign_request_schema, &(struct pb_resign_request){0},
                    RPC_UNKNOWN, "\"leader\" field must be provided");
    api_rig_refused(&k, PROCLAIM, &pb_proclaim_request_schema, &(struct pb_proclaim_request){0},
                    RPC_UNKNOWN, "\"leader\" field must be provided");
    unlock(&k, "nobody has it");
    api_rig_close(&k);
}

/* Others are not to wait for somebody who has gone. */
TEST(who_goes_while_he_waits_leaves_no_key_behind)
{
    struct api_rig k;
    struct visit first = {0}, second = {0}, third = {0};
    api_rig_open(&k);
    for (int64_t id = 1; id <= 3; id++)
        grant(&k, id);
    ask_lock(&k, &first, "l", 1);
    CHECK_STR(locked(&k, &first), "l/1 @2");
    ask_lock(&k, &second, "l", 2);
    api_rig_for_ms(&k, A_WHILE_MS);
    ask_lock(&k, &third, "l", 3);
    api_rig_for_ms(&k, A_WHILE_MS);
    CHECK_EQ(count_keys(&k, "l/", "l0"), 3);

    leave(&k, &second);

    CHECK_EQ(count_keys(&k, "l/", "l0"), 2);
    unlock(&k, "l/1");
    CHECK_STR(locked(&k, &third), "l/3 @6");
    visit_free(&first);
    visit_free(&third);
    api_rig_close(&k);
}

TEST(whose_lease_ends_while_he_waits_is_told_so)
{
    struct api_rig k;
    struct visit first = {0}, second = {0};
    api_rig_open(&k);
    grant(&k, 1);
    grant(&k, 2);
    ask_lock(&k, &first, "l", 1);
    CHECK_STR(locked(&k, &first), "l/1 @2");
    ask_lock(&k, &second, "l", 2);
    api_rig_for_ms(&k, A_WHILE_MS);

    revoke(&k, 2);
    unlock(&k, "l/1");

    api_rig_expect(&k, &second, RPC_UNKNOWN, "mutex: session is expired");
    visit_free(&first);
    visit_free(&second);
    api_rig_close(&k);
}

/* A waiter whose inner calls fail leaves the queue before he is told. */
TEST(a_lock_that_fails_while_it_waits_leaves_the_queue)
{
    struct api_rig k;
    struct visit first = {0}, second = {0};
    api_rig_open(&k);
    grant(&k, 1);
    grant(&k, 2);
    ask_lock(&k, &first, "l", 1);
    CHECK_STR(locked(&k, &first), "l/1 @2");
    ask_lock(&k, &second, "l", 2);
    api_rig_for_ms(&k, A_WHILE_MS);

    k.failure = RESULT_TIMEOUT;
    struct pb_delete_range_request gone = {.key = BYTES("l/1")};
    api_rig_apply(&k, &(struct pb_internal_raft_request){.delete_range = &gone});

    api_rig_expect(&k, &second, RPC_UNKNOWN, "etcdserver: request timed out");
    visit_free(&first);
    visit_free(&second);
    api_rig_close(&k);
}

/* Go's clients take the code off etcd's own errors, and not off a deadline. */
TEST(a_deadline_that_passes_in_an_inner_call_keeps_its_code)
{
    struct api_rig k;
    struct visit lock = {0};
    api_rig_open(&k);
    grant(&k, 1);

    k.failure = RESULT_CONTEXT_DEADLINE;
    ask_lock(&k, &lock, "l", 1);

    api_rig_expect(&k, &lock, RPC_DEADLINE_EXCEEDED, "context deadline exceeded");
    visit_free(&lock);
    api_rig_close(&k);
}

/* --- elections --- */

static void ask_campaign(struct api_rig *k, struct visit *v, const char *name, int64_t lease,
                         const char *value)
{
    api_rig_ask(k, v, CAMPAIGN, &pb_campaign_request_schema,
                &(struct pb_campaign_request){
                    .name = bytes_of_str(name), .lease = lease, .value = bytes_of_str(value)});
}

/* "name key rev lease @revision" */
static const char *elected(struct api_rig *k, struct visit *v)
{
    static struct buf text;
    struct arena arena = {0};
    struct pb_campaign_response r;

    api_rig_expect(k, v, RPC_OK, "");
    visit_decode(v, 0, &pb_campaign_response_schema, &arena, &r);
    buf_clear(&text);
    apply_rig_print(r.leader->name, &text);
    buf_append_byte(&text, ' ');
    apply_rig_print(r.leader->key, &text);
    buf_printf(&text, " %" PRId64 " %" PRId64 " @%" PRId64, r.leader->rev, r.leader->lease,
               r.header->revision);
    arena_free(&arena);
    return buf_str(&text);
}

static const char *describe_leader(const struct pb_leader_response *r)
{
    static struct buf text;

    buf_clear(&text);
    apply_rig_print(r->kv->key, &text);
    buf_append_byte(&text, '=');
    apply_rig_print(r->kv->value, &text);
    buf_printf(&text, " %" PRId64 " @%" PRId64, r->kv->mod_revision, r->header->revision);
    return buf_str(&text);
}

static const char *leader_of(struct api_rig *k, const char *name)
{
    struct arena arena = {0};
    struct pb_leader_response r;

    api_rig_get(k, LEADER, &pb_leader_request_schema,
                &(struct pb_leader_request){.name = bytes_of_str(name)}, &pb_leader_response_schema,
                &arena, &r);
    const char *text = describe_leader(&r);
    arena_free(&arena);
    return text;
}

static const char *observed(struct api_rig *k, struct visit *v, size_t nth)
{
    struct arena arena = {0};
    struct pb_leader_response r;

    api_rig_until_messages(k, v, nth + 1);
    visit_decode(v, nth, &pb_leader_response_schema, &arena, &r);
    const char *text = describe_leader(&r);
    arena_free(&arena);
    return text;
}

static void observe(struct api_rig *k, struct visit *v, const char *name)
{
    api_rig_ask(k, v, OBSERVE, &pb_leader_request_schema,
                &(struct pb_leader_request){.name = bytes_of_str(name)});
}

TEST(leaders_come_and_go_and_observers_see_it)
{
    struct api_rig k;
    struct visit early = {0}, late = {0}, a = {0}, b = {0};
    api_rig_open(&k);
    grant(&k, 0xa);
    grant(&k, 0xb);
    observe(&k, &early, "e");
    api_rig_for_ms(&k, A_WHILE_MS);
    CHECK_EQ(early.message_count, 0);

    ask_campaign(&k, &a, "e", 0xa, "one");
    CHECK_STR(elected(&k, &a), "e e/a 2 10 @2");
    CHECK_STR(observed(&k, &early, 0), "e/a=one 2 @2");
    CHECK_STR(leader_of(&k, "e"), "e/a=one 2 @2");
    ask_campaign(&k, &b, "e", 0xb, "two");
    api_rig_for_ms(&k, A_WHILE_MS);
    CHECK(!b.is_over);

    struct pb_leader_key leader = {.name = BYTES("e"), .key = BYTES("e/a"), .rev = 2, .lease = 0xa};
    struct arena arena = {0};
    struct pb_header_response r;
    api_rig_get(&k, PROCLAIM, &pb_proclaim_request_schema,
                &(struct pb_proclaim_request){.leader = &leader, .value = BYTES("more")},
                &pb_proclaim_response_schema, &arena, &r);
    CHECK_EQ(r.header->revision, 4);
    CHECK_STR(observed(&k, &early, 1), "e/a=more 4 @4");
    observe(&k, &late, "e");
    CHECK_STR(observed(&k, &late, 0), "e/a=more 4 @4");

    api_rig_get(&k, RESIGN, &pb_resign_request_schema,
                &(struct pb_resign_request){.leader = &leader}, &pb_resign_response_schema, &arena,
                &r);
    CHECK_EQ(r.header->revision, 5);
    CHECK_STR(elected(&k, &b), "e e/b 3 11 @3");
    CHECK_STR(observed(&k, &early, 2), "e/b=two 3 @5");
    CHECK_STR(observed(&k, &late, 1), "e/b=two 3 @5");
    api_rig_refused(&k, PROCLAIM, &pb_proclaim_request_schema,
                    &(struct pb_proclaim_request){.leader = &leader, .value = BYTES("x")},
                    RPC_UNKNOWN, "election: not leader");
    api_rig_get(&k, RESIGN, &pb_resign_request_schema,
                &(struct pb_resign_request){.leader = &leader}, &pb_resign_response_schema, &arena,
                &r); /* again: nothing to do */
    arena_free(&arena);
    leave(&k, &early);
    leave(&k, &late);
    visit_free(&a);
    visit_free(&b);
    api_rig_close(&k);
}

TEST(a_candidate_may_say_something_else)
{
    struct api_rig k;
    struct visit first = {0}, again = {0};
    api_rig_open(&k);
    grant(&k, 5);
    ask_campaign(&k, &first, "e", 5, "one");
    CHECK_STR(elected(&k, &first), "e e/5 2 5 @2");

    ask_campaign(&k, &again, "e", 5, "two");

    CHECK_STR(elected(&k, &again), "e e/5 2 5 @2");
    CHECK_STR(leader_of(&k, "e"), "e/5=two 3 @3");
    visit_free(&first);
    visit_free(&again);
    api_rig_close(&k);
}

TEST(a_candidate_that_goes_withdraws)
{
    struct api_rig k;
    struct visit a = {0}, b = {0};
    api_rig_open(&k);
    grant(&k, 1);
    grant(&k, 2);
    ask_campaign(&k, &a, "e", 1, "one");
    CHECK_STR(elected(&k, &a), "e e/1 2 1 @2");
    ask_campaign(&k, &b, "e", 2, "two");
    api_rig_for_ms(&k, A_WHILE_MS);
    CHECK_EQ(count_keys(&k, "e/", "e0"), 2);

    leave(&k, &b);

    CHECK_EQ(count_keys(&k, "e/", "e0"), 1);
    visit_free(&a);
    api_rig_close(&k);
}

/* Values that are not held in a reply but read in chunks; and a long event. */
TEST(a_leader_may_say_much)
{
    struct api_rig k;
    struct visit watcher = {0}, a = {0};
    struct arena arena = {0};
    struct pb_leader_response r;
    struct buf value = {0};
    api_rig_open(&k);
    grant(&k, 1);
    for (unsigned i = 0; i < 1000000; i++)
        buf_append_byte(&value, (uint8_t)('a' + i % 26));
    observe(&k, &watcher, "e");
    api_rig_for_ms(&k, A_WHILE_MS);

    api_rig_ask(
        &k, &a, CAMPAIGN, &pb_campaign_request_schema,
        &(struct pb_campaign_request){.name = BYTES("e"), .lease = 1, .value = buf_bytes(&value)});
    CHECK_STR(elected(&k, &a), "e e/1 2 1 @2");

    api_rig_get(&k, LEADER, &pb_leader_request_schema,
                &(struct pb_leader_request){.name = BYTES("e")}, &pb_leader_response_schema, &arena,
                &r);
    CHECK(bytes_equal(r.kv->value, buf_bytes(&value)));
    api_rig_until_messages(&k, &watcher, 1);
    visit_decode(&watcher, 0, &pb_leader_response_schema, &arena, &r);
    CHECK(bytes_equal(r.kv->value, buf_bytes(&value)));
    leave(&k, &watcher);
    visit_free(&a);
    buf_free(&value);
    arena_free(&arena);
    api_rig_close(&k);
}

static void put(struct api_rig *k, struct bytes key, struct bytes value)
{
    struct pb_put_request request = {.key = key, .value = value};

    api_rig_apply(k, &(struct pb_internal_raft_request){.put = &request});
}

static void delete_range(struct api_rig *k, struct bytes key, struct bytes end)
{
    struct pb_delete_range_request request = {.key = key, .range_end = end};

    api_rig_apply(k, &(struct pb_internal_raft_request){.delete_range = &request});
}

/* A delete can be of any size, and who waits for a leader has no use for it. */
TEST(who_waits_for_a_leader_is_shown_no_deletes)
{
    struct api_rig k;
    struct visit watcher = {0};
    api_rig_open(&k);
    for (unsigned i = 0; i < 100; i++)
        put(&k, bytes_of((const uint8_t[]){'e', '/', (uint8_t)i}, 3), BYTES("v"));
    delete_range(&k, BYTES("e/"), BYTES("e0"));

    observe(&k, &watcher, "e");
    api_rig_for_ms(&k, A_WHILE_MS);
    CHECK_EQ(watch_stats(k.watch).watchers, 1);
    CHECK_EQ(watch_stats(k.watch).events, 0);

    put(&k, BYTES("e/a"), BYTES("one"));
    CHECK_STR(observed(&k, &watcher, 0), "e/a=one 103 @103");
    leave(&k, &watcher);
    api_rig_close(&k);
}

/* The last that is queued may be larger than the credit that is left; then no more. */
TEST(who_does_not_read_is_not_told_of_all_leaders)
{
    struct api_rig k;
    struct visit watcher = {0};
    struct buf value = {0};
    api_rig_open(&k);
    memset(buf_extend(&value, 100000), 'v', 100000);
    observe(&k, &watcher, "e");
    api_rig_for_ms(&k, A_WHILE_MS);
    uint64_t before = api_stats(k.api)->sent_bytes;

    api_rig_client_reads(&k, false);
    for (unsigned i = 0; i < 100; i++) {
        put(&k, BYTES("e/a"), buf_bytes(&value));
        api_rig_for_ms(&k, 10);
        delete_range(&k, BYTES("e/a"), (struct bytes){0});
        api_rig_for_ms(&k, 10);
    }
    CHECK(api_stats(k.api)->sent_bytes - before < 4000000);

    put(&k, BYTES("e/b"), BYTES("last"));
    api_rig_client_reads(&k, true);
    api_rig_for_ms(&k, A_WHILE_MS);
    CHECK(watcher.message_count > 1);
    CHECK_STR(observed(&k, &watcher, watcher.message_count - 1), "e/b=last 202 @202");
    leave(&k, &watcher);
    buf_free(&value);
    api_rig_close(&k);
}

/* Those who wait may be waiting for just that. */
TEST(where_too_many_wait_a_lock_can_be_let_go)
{
    struct api_rig k;
    struct visit owner = {0};
    struct visit waiting[4] = {0};
    api_rig_options.inner_calls_max = 8;
    api_rig_open(&k);
    grant(&k, 1);
    ask_lock(&k, &owner, "l", 1);
    CHECK_STR(locked(&k, &owner), "l/1 @2");
    k.is_slow = true;
    for (size_t i = 0; i < 4; i++)
        api_rig_ask(&k, &waiting[i], LEADER, &pb_leader_request_schema,
                    &(struct pb_leader_request){.name = BYTES("e")});
    api_rig_for_ms(&k, A_WHILE_MS);
    k.is_slow = false;

    api_rig_refused(&k, LOCK, &pb_lock_request_schema,
                    &(struct pb_lock_request){.name = BYTES("l"), .lease = 1}, RPC_UNKNOWN,
                    "etcdserver: too many requests");
    unlock(&k, "l/1");
    CHECK_EQ(count_keys(&k, "l/", "l0"), 0);

    api_rig_fulfil(&k);
    for (size_t i = 0; i < 4; i++) {
        api_rig_expect(&k, &waiting[i], RPC_UNKNOWN, "election: no leader");
        visit_free(&waiting[i]);
    }
    visit_free(&owner);
    api_rig_close(&k);
    api_rig_options.inner_calls_max = 0;
}

/* Whoever waits when everything ends is told so, or is just gone; nothing is left behind. */
TEST(the_end_finds_those_who_wait)
{
    struct api_rig k;
    struct visit first = {0}, second = {0}, watcher = {0}, candidate = {0};
    api_rig_open(&k);
    grant(&k, 1);
    grant(&k, 2);
    ask_lock(&k, &first, "l", 1);
    CHECK_STR(locked(&k, &first), "l/1 @2");
    ask_lock(&k, &second, "l", 2);
    ask_campaign(&k, &candidate, "l", 2, "x");
    observe(&k, &watcher, "e");
    api_rig_for_ms(&k, A_WHILE_MS);

    api_rig_crash(&k);

    second.call = watcher.call = candidate.call = NULL; /* they went with the client */
    visit_free(&first);
    visit_free(&second);
    visit_free(&watcher);
    visit_free(&candidate);
    _Exit(0); /* the world still points at what was freed, as it would not after a crash */
}

/* --- what waits keeps little --- */

/* Two megabytes in two kilobytes, in a field that nobody knows. */
static void pad(struct buf *message)
{
    enum { PADDING_BYTES = 2000000 };
    static const uint8_t front[] = {15 << 3 | 2, 0x80, 0x89, 0x7a}; /* 2,000,000 */

    buf_append(message, bytes_of(front, sizeof(front)));
    memset(buf_extend(message, PADDING_BYTES), 0, PADDING_BYTES);
}

static void ask_padded(struct api_rig *k, struct visit *v, const char *path,
                       const struct pb_schema *schema, const void *request)
{
    struct client_request r = {.path = path, .gzip = true, .context = v};
    struct buf message = {0};

    *v = (struct visit){0};
    pb_encode(schema, request, &message);
    pad(&message);
    v->call = client_ask(k->client, &r, buf_bytes(&message));
    buf_free(&message);
}

static void check_waiting_keeps_nothing(const char *path, const struct pb_schema *schema,
                                        const void *request)
{
    enum { CALLS = 40 };
    struct visit waiting[CALLS], put;
    struct api_rig k;
    api_rig_open(&k);
    struct clock *clock = fake_world_io(k.world)->clock;

    for (unsigned i = 0; i < CALLS; i++)
        ask_padded(&k, &waiting[i], path, schema, request);
    api_rig_for_ms(&k, 1000);
    uint64_t before = clock_now_ns(clock);
    ask_padded(&k, &put, "/etcdserverpb.KV/Put", &pb_put_request_schema,
               &(struct pb_put_request){.key = BYTES("k")});
    api_rig_expect(&k, &put, RPC_OK, "");

    CHECK(clock_now_ns(clock) - before < NS_PER_S);
    CHECK(!waiting[CALLS - 1].is_over);
    visit_free(&put);
    for (unsigned i = 0; i < CALLS; i++)
        visit_free(&waiting[i]);
    api_rig_close(&k);
}

TEST(calls_that_wait_for_ever_hold_nothing_of_what_their_requests_unpacked_to)
{
    struct pb_campaign_request campaign = {.name = BYTES("n"), .value = BYTES("v")};

    check_waiting_keeps_nothing("/grpc.health.v1.Health/Watch", &pb_health_check_request_schema,
                                &(struct pb_health_check_request){0});
    check_waiting_keeps_nothing("/v3lockpb.Lock/Lock", &pb_lock_request_schema,
                                &(struct pb_lock_request){.name = BYTES("n")});
    check_waiting_keeps_nothing("/v3electionpb.Election/Campaign", &pb_campaign_request_schema,
                                &campaign);
    check_waiting_keeps_nothing("/v3electionpb.Election/Observe", &pb_leader_request_schema,
                                &(struct pb_leader_request){.name = BYTES("n")});
}
