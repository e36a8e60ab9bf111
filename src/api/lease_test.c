#include "api/api_rig_test.h"

#include <stdio.h>

#define GRANT        "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema
#define REVOKE       "/etcdserverpb.Lease/LeaseRevoke", &pb_lease_revoke_request_schema
#define TIME_TO_LIVE "/etcdserverpb.Lease/LeaseTimeToLive", &pb_lease_time_to_live_request_schema
#define LEASES       "/etcdserverpb.Lease/LeaseLeases", &pb_lease_leases_request_schema
#define KEEP_ALIVE   "/etcdserverpb.Lease/LeaseKeepAlive"

static int64_t grant(struct api_rig *k, int64_t id, int64_t ttl)
{
    struct arena arena = {0};
    struct pb_lease_grant_response response;

    api_rig_get(k, GRANT, &(struct pb_lease_grant_request){.id = id, .ttl = ttl},
                &pb_lease_grant_response_schema, &arena, &response);
    CHECK(response.header);
    CHECK_EQ(response.error.len, 0);
    id = response.id;
    arena_free(&arena);
    return id;
}

static struct pb_lease_time_to_live_response time_to_live(struct api_rig *k, int64_t id, bool keys,
                                                          struct arena *arena)
{
    struct pb_lease_time_to_live_response response;

    api_rig_get(k, TIME_TO_LIVE, &(struct pb_lease_time_to_live_request){.id = id, .keys = keys},
                &pb_lease_time_to_live_response_schema, arena, &response);
    CHECK_EQ(response.id, id);
    return response;
}

static void say_id(struct visit *v, int64_t id)
{
    api_rig_say(v, &pb_lease_keep_alive_request_schema, &(struct pb_lease_id){.id = id});
}

/* What the nth answer says. */
static int64_t renewed_ttl(const struct visit *v, size_t nth, int64_t id, int64_t *revision)
{
    struct arena arena = {0};
    struct pb_lease_keep_alive_response response;

    visit_decode(v, nth, &pb_lease_keep_alive_response_schema, &arena, &response);
    CHECK_EQ(response.id, id);
    if (revision)
        *revision = response.header->revision;
    int64_t ttl = response.ttl;
    arena_free(&arena);
    return ttl;
}

/* ---- Grant and revoke ---- */

TEST(a_lease_without_an_id_gets_one_that_is_free)
{
    struct api_rig k;
    api_rig_open(&k);

    int64_t first = grant(&k, 0, 10);
    int64_t second = grant(&k, 0, 10);
    CHECK(first > 0);
    CHECK(second > 0);
    CHECK(first != second);
    CHECK_EQ(first >> 48, APPLY_RIG_OWN_ID); /* members choose from places of their own */
    grant(&k, second + 1, 10);
    CHECK_EQ(grant(&k, 0, 10), second + 2);
    CHECK_EQ(grant(&k, -5, 10), -5);

    api_rig_close(&k);
}

TEST(a_lease_is_refused_in_etcds_words)
{
    struct api_rig k;
    api_rig_open(&k);
    grant(&k, 7, 10);

    api_rig_refused(&k, GRANT, &(struct pb_lease_grant_request){.id = 7, .ttl = 10},
                    RPC_FAILED_PRECONDITION, "etcdserver: lease already exists");
    api_rig_refused(&k, GRANT, &(struct pb_lease_grant_request){.id = 8, .ttl = 9000000001},
                    RPC_OUT_OF_RANGE, "etcdserver: too large lease TTL");
    api_rig_refused(&k, REVOKE, &(struct pb_lease_id){.id = 8}, RPC_NOT_FOUND,
                    "etcdserver: requested lease not found");

    api_rig_close(&k);
}

TEST(a_revoked_lease_takes_its_keys_along)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_header_response response;
    api_rig_open(&k);
    grant(&k, 7, 10);
    struct pb_put_request put = {.key = BYTES("a"), .lease = 7};
    api_rig_apply(&k, &(struct pb_internal_raft_request){.put = &put});

    api_rig_get(&k, REVOKE, &(struct pb_lease_id){.id = 7}, &pb_lease_revoke_response_schema,
                &arena, &response);
    CHECK_EQ(response.header->revision, 3);

    arena_free(&arena);
    api_rig_close(&k);
}

/* ---- Asking ---- */

TEST(time_to_live_shows_what_is_left_and_the_keys)
{
    struct api_rig k;
    struct arena arena = {0};
    api_rig_open(&k);
    grant(&k, 7, 100);
    for (unsigned i = 0; i < 300; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key%03u", i);
        struct pb_put_request put = {.key = bytes_of_str(key), .lease = 7};
        api_rig_apply(&k, &(struct pb_internal_raft_request){.put = &put});
    }
    api_rig_for_ms(&k, 10000);
    k.api_steps = 50; /* so that listing them takes several slices */

    struct pb_lease_time_to_live_response r = time_to_live(&k, 7, true, &arena);
    CHECK_EQ(r.granted_ttl, 100);
    CHECK(r.ttl <= 90);
    CHECK(r.ttl >= 85);
    CHECK_EQ(r.header->revision, 301);
    CHECK_EQ(r.keys.count, 300);
    CHECK_BYTES(r.keys.at[299], BYTES("key299"));
    r = time_to_live(&k, 7, false, &arena);
    CHECK_EQ(r.keys.count, 0);
    r = time_to_live(&k, 8, true, &arena);
    CHECK_EQ(r.ttl, -1);
    CHECK_EQ(r.granted_ttl, 0);
    CHECK_EQ(r.header->revision, 301);

    arena_free(&arena);
    api_rig_close(&k);
}

/* Known or not: a leader that was replaced counts a time that nobody else does. */
TEST(time_to_live_is_told_when_a_quorum_says_that_we_lead)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    grant(&k, 7, 30);
    k.is_slow = true;

    for (int64_t id = 7; id <= 8; id++) {
        api_rig_ask(&k, &v, TIME_TO_LIVE, &(struct pb_lease_time_to_live_request){.id = id});
        api_rig_for_ms(&k, 500);
        CHECK(!v.is_over);
        api_rig_fulfil(&k);
        api_rig_expect(&k, &v, RPC_OK, "");
        visit_free(&v);
    }
    CHECK_EQ(k.confirmed, 2);

    api_rig_ask(&k, &v, TIME_TO_LIVE, &(struct pb_lease_time_to_live_request){.id = 7});
    api_rig_for_ms(&k, 300);
    k.failure = RESULT_TIMEOUT; /* there was no quorum */
    api_rig_fulfil(&k);
    api_rig_expect(&k, &v, RPC_UNAVAILABLE, "etcdserver: request timed out");
    visit_free(&v);
    k.failure = RESULT_OK;

    api_rig_ask(&k, &v, TIME_TO_LIVE, &(struct pb_lease_time_to_live_request){.id = 7});
    api_rig_for_ms(&k, 300);
    k.facts.is_leader = false; /* since the quorum said so */
    lease_demote(k.apply_rig.leases);
    api_rig_fulfil(&k);
    api_rig_expect(&k, &v, RPC_UNAVAILABLE, "etcdserver: leader changed");
    visit_free(&v);
    k.is_slow = false;
    api_rig_refused(&k, TIME_TO_LIVE, &(struct pb_lease_time_to_live_request){.id = 7},
                    RPC_UNAVAILABLE, "etcdserver: no leader");

    api_rig_close(&k);
}

/* --- at a follower --- */

static void follow(struct api_rig *k)
{
    k->facts.is_leader = false;
    k->facts.leader = 0x99;
    lease_demote(k->apply_rig.leases);
}

TEST(a_follower_has_leases_renewed_by_the_leader)
{
    struct api_rig k;
    struct visit v;
    struct pb_lease_time_to_live_response told = {.id = 7, .ttl = 40};
    api_rig_open(&k);
    grant(&k, 7, 50);
    follow(&k);

    k.leader_says = &(struct api_forwarded){.response = &told};
    api_rig_stream(&k, &v, KEEP_ALIVE);
    say_id(&v, 7);
    api_rig_until_messages(&k, &v, 1);
    CHECK_EQ(renewed_ttl(&v, 0, 7, NULL), 40);
    CHECK_EQ(k.forward.lease, 7);
    CHECK_EQ(k.forward.kind, API_FORWARD_RENEW);
    k.leader_says = &(struct api_forwarded){0}; /* it knows no such lease */
    say_id(&v, 8);
    api_rig_until_messages(&k, &v, 2);
    CHECK_EQ(renewed_ttl(&v, 1, 8, NULL), 0);
    k.leader_says = &(struct api_forwarded){.is_here = true};
    k.is_slow = true;
    say_id(&v, 7);
    api_rig_for_ms(&k, 300);
    k.facts.is_leader = true; /* by the time that it was asked */
    lease_promote(k.apply_rig.leases, k.facts.now_ms, 1000);
    api_rig_fulfil(&k);
    k.is_slow = false;
    api_rig_until_messages(&k, &v, 3);
    CHECK_EQ(renewed_ttl(&v, 2, 7, NULL), 50);
    CHECK_EQ(k.confirmed, 1);
    visit_free(&v);

    api_rig_close(&k);
}

TEST(a_follower_asks_the_leader_how_long_a_lease_has_to_live)
{
    struct api_rig k;
    struct bytes keys[] = {BYTES("a"), BYTES("b")};
    struct pb_lease_time_to_live_response told = {
        .id = 7, .ttl = 40, .granted_ttl = 50, .keys = {keys, 2}};
    struct arena arena = {0};
    api_rig_open(&k);
    follow(&k);

    k.leader_says = &(struct api_forwarded){.response = &told};
    struct pb_lease_time_to_live_response got = time_to_live(&k, 7, true, &arena);
    CHECK_EQ(k.forward.kind, API_FORWARD_TIME_TO_LIVE);
    CHECK(k.forward.with_keys);
    CHECK_EQ(got.ttl, 40);
    CHECK_EQ(got.granted_ttl, 50);
    CHECK_EQ(got.keys.count, 2);
    CHECK_EQ(got.header->member_id, k.facts.member_id);
    k.leader_says = &(struct api_forwarded){0}; /* it knows no such lease */
    CHECK_EQ(time_to_live(&k, 8, false, &arena).ttl, -1);
    arena_free(&arena);

    api_rig_close(&k);
}

TEST(leases_lists_them_all)
{
    struct api_rig k;
    struct arena arena = {0};
    struct pb_lease_leases_response response;
    api_rig_open(&k);

    api_rig_get(&k, LEASES, &(struct pb_empty){0}, &pb_lease_leases_response_schema, &arena,
                &response);
    CHECK_EQ(response.leases.count, 0);
    grant(&k, 7, 100);
    grant(&k, -3, 50);
    api_rig_get(&k, LEASES, &(struct pb_empty){0}, &pb_lease_leases_response_schema, &arena,
                &response);
    CHECK_EQ(response.leases.count, 2);
    CHECK_EQ(response.leases.at[0].id, -3); /* the one with less time first */
    CHECK_EQ(response.leases.at[1].id, 7);

    arena_free(&arena);
    api_rig_close(&k);
}

enum { MANY = 100000 };

/* So many at once, past apply, whose rig looks at all of them after each entry. */
static void grant_many(struct api_rig *k, int64_t first, int64_t count, int64_t ttl)
{
    struct backend *b = k->apply_rig.backend_rig.b;
    int64_t granted_ttl;

    backend_entry_begin(b);
    for (int64_t id = first; id < first + count; id++)
        CHECK_EQ(lease_grant(k->apply_rig.leases, id, ttl, k->facts.now_ms, &granted_ttl),
                 LEASE_OK);
    backend_entry_end(b, (struct backend_position){backend_applied(b).index + 1, 1},
                      (struct bytes){0});
}

static void revoke_many(struct api_rig *k, int64_t first, int64_t count)
{
    struct backend *b = k->apply_rig.backend_rig.b;

    backend_entry_begin(b);
    for (int64_t id = first; id < first + count; id++) {
        CHECK_EQ(lease_revoke_begin(k->apply_rig.leases, id), LEASE_OK);
        lease_revoke_end(k->apply_rig.leases, id);
    }
    backend_entry_end(b, (struct backend_position){backend_applied(b).index + 1, 1},
                      (struct bytes){0});
}

static unsigned turns_until_over(struct api_rig *k, struct visit *v)
{
    unsigned turns = 0;

    for (; !v->is_over; turns++) {
        CHECK(turns < 10000);
        fake_world_step(k->world);
        api_rig_turn(k);
    }
    return turns;
}

/* A turn of the rig's has 50 slices of so many steps. */
TEST(a_hundred_thousand_leases_are_listed_in_slices)
{
    enum { STEPS = 20, TURN_STEPS = 50 * STEPS };
    struct api_rig k;
    struct visit v;
    struct arena arena = {0};
    struct pb_lease_leases_response response;
    struct buf naive = {0};
    api_rig_open(&k);
    grant_many(&k, 1000, MANY / 2, 100);
    grant_many(&k, 1000 + MANY, MANY / 2, 50);
    k.api_steps = STEPS;

    api_rig_ask(&k, &v, LEASES, &(struct pb_empty){0});
    CHECK(turns_until_over(&k, &v) >= 2 * MANY / TURN_STEPS); /* each is gathered, and written */
    visit_decode(&v, 0, &pb_lease_leases_response_schema, &arena, &response);
    lease_list(k.apply_rig.leases, &naive);
    CHECK_EQ(naive.len, MANY * sizeof(int64_t));
    CHECK_EQ(response.leases.count, MANY);
    CHECK_BYTES(bytes_of(response.leases.at, MANY * sizeof(int64_t)), buf_bytes(&naive));
    CHECK_EQ(response.leases.at[0].id, 1000 + MANY); /* the ones with less time first */
    CHECK_EQ(response.leases.at[MANY - 1].id, 1000 + MANY / 2 - 1);

    visit_free(&v);
    buf_free(&naive);
    arena_free(&arena);
    api_rig_close(&k);
}

TEST(leases_come_and_go_while_they_are_listed)
{
    struct api_rig k;
    struct visit v;
    struct arena arena = {0};
    struct pb_lease_leases_response response;
    static bool is_listed[4 * MANY];
    int64_t first_late = 2 * MANY; /* granted when it had begun */
    api_rig_open(&k);
    grant_many(&k, 1, MANY, 100);
    k.api_steps = 20;

    api_rig_ask(&k, &v, LEASES, &(struct pb_empty){0});
    for (int64_t turn = 0; turn < 150; turn++) {
        fake_world_step(k.world);
        api_rig_turn(&k);
        CHECK(!v.is_over);
        if (api_status(k.api).reads == 0) /* what it takes is not set aside yet */
            first_late = 2 * MANY + (turn + 1) * 100;
        revoke_many(&k, 1 + turn * 100, 100);
        grant_many(&k, 2 * MANY + turn * 100, 100, 10);
    }
    turns_until_over(&k, &v);
    CHECK_EQ(v.code, RPC_OK);
    visit_decode(&v, 0, &pb_lease_leases_response_schema, &arena, &response);
    memset(is_listed, 0, sizeof(is_listed));
    for (size_t i = 0; i < response.leases.count; i++) {
        CHECK(!is_listed[response.leases.at[i].id]);
        is_listed[response.leases.at[i].id] = true;
        CHECK(response.leases.at[i].id < first_late);
    }
    for (int64_t id = 15001; id <= MANY; id++)
        CHECK(is_listed[id]);

    visit_free(&v);
    arena_free(&arena);
    api_rig_close(&k);
}

/* The leases that it had gathered so far are another state's. */
TEST(a_list_of_leases_begins_anew_when_the_state_is_replaced)
{
    struct api_rig k;
    struct visit v;
    struct arena arena = {0};
    struct buf why = {0};
    struct lease_set *other;
    struct pb_lease_leases_response response;
    api_rig_open(&k);
    struct apply_rig *r = &k.apply_rig;
    struct api_state state = {.apply = r->apply,
                              .auth = r->auth,
                              .mvcc = r->mvcc,
                              .leases = r->leases,
                              .cluster = r->cluster,
                              .backend = r->backend_rig.b};
    grant_many(&k, 1, MANY, 100);
    k.api_steps = 20;

    api_rig_ask(&k, &v, LEASES, &(struct pb_empty){0});
    for (unsigned turn = 0; turn < 50; turn++) {
        fake_world_step(k.world);
        api_rig_turn(&k);
    }
    CHECK_EQ(api_status(k.api).reads, 1);
    revoke_many(&k, 1, MANY - 10);
    grant_many(&k, 2 * MANY, MANY, 100);
    CHECK_EQ(lease_open(&(struct lease_options){.backend = state.backend, .hash_seed = 5}, &why,
                        &state.leases),
             ERR_OK);
    other = state.leases;
    api_state_replaced(k.api, &state);
    turns_until_over(&k, &v);
    visit_decode(&v, 0, &pb_lease_leases_response_schema, &arena, &response);
    CHECK_EQ(response.leases.count, MANY + 10);
    CHECK_EQ(lease_count(other), MANY + 10);

    state.leases = r->leases;
    api_state_replaced(k.api, &state);
    lease_close(other);
    visit_free(&v);
    arena_free(&arena);
    api_rig_close(&k);
}

TEST(a_list_of_leases_may_be_left_at_any_moment)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    grant_many(&k, 1, MANY, 100);
    k.api_steps = 20;

    for (unsigned turns = 1; turns <= 160; turns += 53) { /* gathering, and writing */
        api_rig_ask(&k, &v, LEASES, &(struct pb_empty){0});
        for (unsigned turn = 0; turn < turns; turn++) {
            fake_world_step(k.world);
            api_rig_turn(&k);
        }
        CHECK(!v.is_over);
        CHECK(turns == 1 || api_status(k.api).reads == 1);
        client_cancel(v.call);
        v.call = NULL;
        visit_free(&v);
        api_rig_for_ms(&k, 10);
        CHECK_EQ(api_status(k.api).calls, 0);
    }

    api_rig_close(&k);
}

/* ---- Keeping alive ---- */

TEST(keep_alive_answers_each_request_in_order)
{
    struct api_rig k;
    struct visit v;
    struct arena arena = {0};
    int64_t revision;
    api_rig_open(&k);
    grant(&k, 7, 100);
    api_rig_put(&k, "a", "one");
    api_rig_for_ms(&k, 20000);

    api_rig_stream(&k, &v, KEEP_ALIVE);
    say_id(&v, 7);
    say_id(&v, 8);
    say_id(&v, 7);
    api_rig_until_messages(&k, &v, 3);
    CHECK_EQ(renewed_ttl(&v, 0, 7, &revision), 100);
    CHECK_EQ(revision, 2);
    CHECK_EQ(renewed_ttl(&v, 1, 8, NULL), 0);
    CHECK_EQ(renewed_ttl(&v, 2, 7, NULL), 100);
    CHECK(time_to_live(&k, 7, false, &arena).ttl >= 98);
    client_end(v.call);
    api_rig_expect(&k, &v, RPC_OK, "");

    visit_free(&v);
    arena_free(&arena);
    api_rig_close(&k);
}

TEST(keep_alive_without_a_message_ends_well)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);

    api_rig_stream(&k, &v, KEEP_ALIVE);
    client_end(v.call);
    api_rig_expect(&k, &v, RPC_OK, "");

    visit_free(&v);
    api_rig_close(&k);
}

/* Only who leads can keep what a renewal promises, and say that there is no such lease. */
TEST(keep_alive_is_answered_when_a_quorum_says_that_we_lead)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    grant(&k, 7, 20);
    k.is_slow = true;

    api_rig_stream(&k, &v, KEEP_ALIVE);
    say_id(&v, 7);
    api_rig_for_ms(&k, 300);
    CHECK_EQ(v.message_count, 0);
    api_rig_fulfil(&k);
    api_rig_until_messages(&k, &v, 1);
    CHECK_EQ(renewed_ttl(&v, 0, 7, NULL), 20);
    say_id(&v, 8);
    api_rig_for_ms(&k, 300);
    CHECK_EQ(v.message_count, 1);
    api_rig_fulfil(&k);
    api_rig_until_messages(&k, &v, 2);
    CHECK_EQ(renewed_ttl(&v, 1, 8, NULL), 0);
    CHECK_EQ(k.confirmed, 2);
    k.failure = RESULT_TIMEOUT; /* there was no quorum */
    say_id(&v, 7);
    api_rig_for_ms(&k, 300);
    api_rig_fulfil(&k);
    api_rig_expect(&k, &v, RPC_UNKNOWN, "not a primary lessor");
    visit_free(&v);

    api_rig_close(&k);
}

/* By the time that the quorum says so, or cannot any more. */
TEST(keep_alive_goes_to_the_next_leader_when_we_lead_no_more)
{
    struct api_rig k;
    struct pb_lease_time_to_live_response told = {.id = 7, .ttl = 40};
    api_rig_open(&k);
    grant(&k, 7, 50);

    for (unsigned i = 0; i < 2; i++) {
        struct visit v;
        k.facts.is_leader = k.is_slow = true;
        lease_promote(k.apply_rig.leases, k.facts.now_ms, 1000);
        api_rig_stream(&k, &v, KEEP_ALIVE);
        say_id(&v, 7);
        api_rig_for_ms(&k, 300);
        CHECK_EQ(k.confirmed, i + 1);
        follow(&k);
        k.failure = i == 0 ? RESULT_OK : RESULT_LEADER_CHANGED;
        api_rig_fulfil(&k);
        k.failure = RESULT_OK;
        k.is_slow = false;
        k.leader_says = &(struct api_forwarded){.response = &told};
        api_rig_until_messages(&k, &v, 1);
        CHECK_EQ(renewed_ttl(&v, 0, 7, NULL), 40);
        visit_free(&v);
    }

    api_rig_close(&k);
}

TEST(keep_alive_of_an_expired_lease_waits_for_its_revoke)
{
    struct api_rig k;
    struct visit v;
    struct pb_lease_id revoke = {.id = 7};
    api_rig_open(&k);
    grant(&k, 7, 2);
    api_rig_for_ms(&k, 2500);

    api_rig_stream(&k, &v, KEEP_ALIVE);
    say_id(&v, 7);
    say_id(&v, 7);
    api_rig_for_ms(&k, 3000);
    CHECK_EQ(v.message_count, 0);
    api_rig_apply(&k, &(struct pb_internal_raft_request){.lease_revoke = &revoke});
    api_rig_until_messages(&k, &v, 2);
    CHECK_EQ(renewed_ttl(&v, 0, 7, NULL), 0);
    CHECK_EQ(renewed_ttl(&v, 1, 7, NULL), 0);
    CHECK(!v.is_over);

    visit_free(&v);
    api_rig_close(&k);
}

/* A leader that has installed a state counts no time until what it had proposed is applied. */
TEST(keep_alive_waits_where_we_lead_and_leases_do_not_run_yet)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    grant(&k, 7, 100);
    lease_demote(k.apply_rig.leases);
    k.is_slow = true;

    api_rig_stream(&k, &v, KEEP_ALIVE);
    say_id(&v, 7);
    for (unsigned i = 0; i < 5; i++) {
        api_rig_for_ms(&k, 300);
        api_rig_fulfil(&k);
    }
    CHECK_EQ(k.confirmed, 1); /* and it is not asked again and again */
    CHECK_EQ(v.message_count, 0);
    lease_promote(k.apply_rig.leases, k.facts.now_ms, 0);
    api_rig_for_ms(&k, 300);
    api_rig_fulfil(&k);
    api_rig_until_messages(&k, &v, 1);
    CHECK_EQ(k.confirmed, 2);
    CHECK_EQ(renewed_ttl(&v, 0, 7, NULL), 100);

    visit_free(&v);
    api_rig_close(&k);
}

static void write_x(struct api_rig *k)
{
    struct pb_put_request put = {.key = BYTES("x")};

    api_rig_apply(k, &(struct pb_internal_raft_request){.put = &put});
}

/* They renew a lease that has expired, and wait for its revoke. */
static void begin_waits(struct api_rig *k, struct visit *v, unsigned count)
{
    grant(k, 7, 2);
    api_rig_for_ms(k, 2500);
    for (unsigned i = 0; i < count; i++) {
        api_rig_stream(k, &v[i], KEEP_ALIVE);
        say_id(&v[i], 7);
    }
    api_rig_for_ms(k, 500);
}

/*
 * With each entry all who wait are looked at again, and so many are more than a turn has steps for.
 * Yet a read that takes several slices comes to its end, and so does everybody's wait.
 */
TEST(many_who_wait_leave_steps_for_long_reads)
{
    enum { WAITS = 600, KEYS = 300, TURNS_MAX = 500 };
    static struct visit waits[WAITS];
    struct api_rig k;
    struct visit read;
    struct pb_lease_id revoke = {.id = 7};
    char key[16];
    api_rig_open(&k);
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "k%03u", i);
        api_rig_put(&k, key, "v");
    }
    begin_waits(&k, waits, WAITS);
    k.api_steps = 10; /* 50 times in each of the rig's turns: less than there are waits */

    api_rig_ask(&k, &read, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                &(struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    for (unsigned turns = 0; !read.is_over; turns++) {
        CHECK(turns < TURNS_MAX);
        write_x(&k);
        fake_world_step(k.world);
        api_rig_turn(&k);
    }
    CHECK_EQ(read.code, RPC_OK);
    api_rig_apply(&k, &(struct pb_internal_raft_request){.lease_revoke = &revoke});
    for (unsigned i = 0; i < WAITS; i++) {
        write_x(&k);
        api_rig_until_messages(&k, &waits[i], 1);
        CHECK_EQ(renewed_ttl(&waits[i], 0, 7, NULL), 0);
        visit_free(&waits[i]);
    }

    visit_free(&read);
    api_rig_close(&k);
}

TEST(keep_alive_ends_when_we_do_not_lead)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    grant(&k, 7, 2);
    api_rig_for_ms(&k, 2500);
    api_rig_stream(&k, &v, KEEP_ALIVE);
    say_id(&v, 7);
    api_rig_for_ms(&k, 300);

    k.facts.is_leader = false;
    lease_demote(k.apply_rig.leases);
    api_rig_expect(&k, &v, RPC_UNAVAILABLE, "etcdserver: no leader");
    visit_free(&v);
    api_rig_stream(&k, &v, KEEP_ALIVE);
    say_id(&v, 7);
    api_rig_expect(&k, &v, RPC_UNAVAILABLE, "etcdserver: no leader");
    visit_free(&v);

    api_rig_close(&k);
}

/* The remaining time that others know of must be taken back before the client is told. */
TEST(keep_alive_clears_a_checkpoint_through_the_log)
{
    struct api_rig k;
    struct visit v;
    struct pb_lease_checkpoint point = {.id = 7, .remaining_ttl = 11};
    struct pb_lease_checkpoint_request request = {.checkpoints = {.at = &point, .count = 1}};
    api_rig_open(&k);
    grant(&k, 7, 20);
    api_rig_apply(&k, &(struct pb_internal_raft_request){.lease_checkpoint = &request});
    unsigned before = k.proposed;

    api_rig_stream(&k, &v, KEEP_ALIVE);
    say_id(&v, 7);
    say_id(&v, 7);
    api_rig_until_messages(&k, &v, 2);
    CHECK_EQ(k.proposed, before + 1);
    CHECK_EQ(renewed_ttl(&v, 0, 7, NULL), 20);

    visit_free(&v);
    api_rig_close(&k);
}

/* Each answer is small, but they are as many as requests: without reading there is an end to it. */
TEST(keep_alive_stops_reading_a_client_that_does_not_read)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    grant(&k, 7, 100);
    api_rig_stream(&k, &v, KEEP_ALIVE);
    api_rig_client_reads(&k, false);

    for (unsigned i = 0; i < 60000; i++)
        say_id(&v, 7);
    api_rig_for_ms(&k, 2000);
    CHECK(client_queued(v.call) > 0);
    api_rig_client_reads(&k, true);
    client_end(v.call);
    api_rig_expect(&k, &v, RPC_OK, "");
    CHECK_EQ(v.message_count, 60000);

    visit_free(&v);
    api_rig_close(&k);
}
