/*
 * Clients that go at every point of what they do.
 */
#include "api/api_rig_test.h"

#include <stdio.h>
#include <stdlib.h>

enum { VISITS = 15 };

struct group {
    struct visit visits[VISITS];
    struct buf value;
};

static void grow_store(struct api_rig *k, struct group *c)
{
    struct pb_lease_grant_request grant = {.id = 7, .ttl = 2};

    memset(buf_extend(&c->value, 60000), 'v', 60000);
    for (unsigned i = 0; i < 40; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%03u", i);
        struct pb_put_request put = {.key = bytes_of_str(key), .value = buf_bytes(&c->value)};
        api_rig_apply(k, &(struct pb_internal_raft_request){.put = &put});
    }
    api_rig_apply(k, &(struct pb_internal_raft_request){.lease_grant = &grant});
}

/* One of everything that can be under way. */
static void begin_everything(struct api_rig *k, struct group *c)
{
    struct pb_range_request all = {.key = BYTES("k"), .range_end = BYTES("l")};
    struct pb_watch_create_request create = {
        .key = BYTES("k"), .range_end = BYTES("l"), .start_revision = 2};
    struct visit *v = c->visits;

    api_rig_ask(k, v++, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                &(struct pb_put_request){.key = BYTES("k"), .value = BYTES("x")});
    api_rig_ask(k, v++, "/etcdserverpb.KV/Range", &pb_range_request_schema, &all);
    api_rig_ask(k, v++, "/etcdserverpb.KV/RangeStream", &pb_range_request_schema, &all);
    api_rig_ask(k, v++, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
                &(struct pb_compaction_request){.revision = 20, .physical = true});
    api_rig_ask(k, v++, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
                &(struct pb_delete_range_request){
                    .key = BYTES("k01"), .range_end = BYTES("k02"), .prev_kv = true});
    api_rig_ask(k, v++, "/etcdserverpb.Lease/LeaseTimeToLive",
                &pb_lease_time_to_live_request_schema,
                &(struct pb_lease_time_to_live_request){.id = 7, .keys = true});
    api_rig_stream(k, v, "/etcdserverpb.Watch/Watch");
    api_rig_say(v, &pb_watch_request_schema,
                &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    api_rig_say(v++, &pb_watch_request_schema,
                &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    api_rig_stream(k, v, "/etcdserverpb.Lease/LeaseKeepAlive");
    api_rig_say(v, &pb_lease_keep_alive_request_schema, &(struct pb_lease_id){.id = 7});
    api_rig_say(v++, &pb_lease_keep_alive_request_schema, &(struct pb_lease_id){.id = 7});
    api_rig_ask(k, v++, "/grpc.health.v1.Health/Watch", &pb_health_check_request_schema,
                &(struct pb_health_check_request){0});
    api_rig_ask(k, v++, "/etcdserverpb.Cluster/MemberList", &pb_member_list_request_schema,
                &(struct pb_member_list_request){.linearizable = true});
    /* All under one name: one is the first, and the others wait. */
    api_rig_ask(k, v++, "/v3lockpb.Lock/Lock", &pb_lock_request_schema,
                &(struct pb_lock_request){.name = BYTES("n")});
    api_rig_ask(k, v++, "/v3lockpb.Lock/Lock", &pb_lock_request_schema,
                &(struct pb_lock_request){.name = BYTES("n"), .lease = 7});
    api_rig_ask(k, v++, "/v3electionpb.Election/Campaign", &pb_campaign_request_schema,
                &(struct pb_campaign_request){.name = BYTES("n"), .value = buf_bytes(&c->value)});
    api_rig_ask(k, v++, "/v3electionpb.Election/Observe", &pb_leader_request_schema,
                &(struct pb_leader_request){.name = BYTES("n")});
    api_rig_ask(k, v, "/v3electionpb.Election/Leader", &pb_leader_request_schema,
                &(struct pb_leader_request){.name = BYTES("n")});
}

static void some_turns(struct api_rig *k, unsigned count)
{
    api_rig_turn(k);
    for (unsigned i = 0; i < count; i++) {
        fake_world_step(k->world);
        api_rig_turn(k);
        if (i % 7 == 6)
            api_rig_fulfil(k);
    }
}

/* Everything gone, nothing left behind; and the next client is served. */
static void check_all_gone(struct api_rig *k, struct group *c)
{
    for (unsigned i = 0; i < VISITS; i++) {
        c->visits[i].call = NULL; /* went with its connection */
        visit_free(&c->visits[i]);
    }
    client_close(k->client);
    k->client =
        client_open(&(struct client_options){.io = fake_world_io(k->world), .address = k->address});
    api_rig_for_ms(k, 200);
    api_rig_fulfil(k);
    api_rig_for_ms(k, 200);
    CHECK_EQ(api_status(k->api).calls, 0);
    CHECK_EQ(watch_status(k->watch).streams, 0);
    CHECK_EQ(mvcc_status(k->apply_rig.mvcc).pins, 0);
    k->is_slow = false;
    api_rig_put(k, "next", "client");
}

static void cut_after(unsigned turns, bool is_slow)
{
    struct api_rig k;
    struct group c = {0};
    api_rig_open(&k);
    k.is_slow = is_slow;
    k.api_steps = 20; /* so that everything takes several turns */
    grow_store(&k, &c);

    begin_everything(&k, &c);
    some_turns(&k, turns);
    if (client_conn(k.client))
        fake_wire_reset(client_conn(k.client));
    check_all_gone(&k, &c);

    buf_free(&c.value);
    api_rig_close(&k);
}

TEST(a_connection_may_be_lost_at_any_turn)
{
    for (unsigned turns = 0; turns < 120; turns += 2)
        cut_after(turns, false);
}

TEST(a_connection_may_be_lost_at_any_turn_while_the_server_is_slow)
{
    for (unsigned turns = 1; turns < 120; turns += 2)
        cut_after(turns, true);
}

/* Single calls are cancelled at random times while the others go on. */
TEST(calls_may_be_cancelled_at_any_turn)
{
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (unsigned round = 0; round < 20 * test_effort(); round++) {
        struct api_rig k;
        struct group c = {0};
        api_rig_open(&k);
        k.is_slow = rng_chance(&rng, 1, 2);
        k.api_steps = (unsigned)rng_between(&rng, 1, 200);
        grow_store(&k, &c);
        begin_everything(&k, &c);
        for (unsigned left = VISITS; left > 0; left--) {
            some_turns(&k, (unsigned)rng_below(&rng, 20));
            visit_free(&c.visits[rng_below(&rng, VISITS)]); /* one of them, perhaps gone already */
        }
        for (unsigned i = 0; i < VISITS; i++)
            visit_free(&c.visits[i]);
        check_all_gone(&k, &c);
        buf_free(&c.value);
        api_rig_close(&k);
    }
}

TEST(a_crash_with_everything_under_way_leaves_nothing)
{
    for (unsigned turns = 0; turns < 60; turns += 3) {
        struct api_rig k;
        struct group c = {0};
        api_rig_open(&k);
        k.is_slow = turns % 2;
        k.api_steps = 20;
        grow_store(&k, &c);
        begin_everything(&k, &c);
        some_turns(&k, turns);

        api_rig_crash(&k);
        for (unsigned i = 0; i < VISITS; i++) {
            c.visits[i].call = NULL;
            visit_free(&c.visits[i]);
        }
        buf_free(&c.value);
    }
    _Exit(0); /* the worlds still point at what was freed, as they would not after a crash */
}
