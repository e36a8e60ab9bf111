/* Locks and elections in whole members: leaders change, members stop. */
#include "server/cluster_rig_test.h"
#include "server/server_int.h"
#include "server/server_rig_test.h"
#include "watch/watch.h"

static void grant(struct cluster_rig *r, unsigned n, int64_t id)
{
    struct visit v = {0};

    cluster_rig_ask(r, n, &v, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
                    &(struct pb_lease_grant_request){.id = id, .ttl = 1000});
    cluster_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_OK);
    visit_free(&v);
}

static const struct pb_lock_request *lock_of(int64_t lease)
{
    static struct pb_lock_request request;

    request = (struct pb_lock_request){.name = BYTES("l"), .lease = lease};
    return &request;
}

static size_t watchers(const struct cluster_rig *r, unsigned n)
{
    return watch_status(r->at[n]->server->clients.watch).watchers;
}

/* What waits is a watch at the member that was asked: who leads does not matter to it. */
TEST(who_waits_for_a_lock_outlives_a_leader)
{
    struct cluster_rig r;
    struct visit first = {0}, second = {0}, unlock = {0};
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r), follower = cluster_rig_follower(&r);
    grant(&r, leader, 1);
    grant(&r, leader, 2);
    cluster_rig_ask(&r, follower, &first, "/v3lockpb.Lock/Lock", &pb_lock_request_schema,
                    lock_of(1));
    cluster_rig_until_over(&r, &first);
    CHECK_EQ(first.code, RPC_OK);
    cluster_rig_ask(&r, follower, &second, "/v3lockpb.Lock/Lock", &pb_lock_request_schema,
                    lock_of(2));
    while (watchers(&r, follower) == 0)
        cluster_rig_step(&r);

    cluster_rig_crash(&r, leader);
    (void)cluster_rig_leader(&r);
    CHECK(!second.is_over);
    cluster_rig_ask(&r, follower, &unlock, "/v3lockpb.Lock/Unlock", &pb_unlock_request_schema,
                    &(struct pb_unlock_request){.key = BYTES("l/1")});
    cluster_rig_until_over(&r, &unlock);
    CHECK_EQ(unlock.code, RPC_OK);

    cluster_rig_until_over(&r, &second);
    CHECK_STR(buf_str(&second.text), "");
    CHECK_EQ(second.code, RPC_OK);
    visit_free(&first);
    visit_free(&second);
    visit_free(&unlock);
    cluster_rig_close(&r);
}

/* It is told so, like everybody, and the member comes to its end. */
TEST(a_member_stops_while_somebody_waits_for_a_lock)
{
    struct server_rig r;
    struct visit first = {0}, second = {0}, observer = {0};
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    server_rig_ask(r.client, &first, "/v3lockpb.Lock/Lock", &pb_lock_request_schema, lock_of(0));
    server_rig_until_over(&r, &first);
    CHECK_EQ(first.code, RPC_OK);
    server_rig_ask(r.client, &second, "/v3lockpb.Lock/Lock", &pb_lock_request_schema, lock_of(0));
    server_rig_ask(r.client, &observer, "/v3electionpb.Election/Observe", &pb_leader_request_schema,
                   &(struct pb_leader_request){.name = BYTES("e")});
    server_rig_for_ms(&r, 500);
    CHECK(!second.is_over && !observer.is_over);

    server_rig_stop(&r);

    CHECK(!r.failed);
    second.call = observer.call = NULL;
    visit_free(&first);
    visit_free(&second);
    visit_free(&observer);
    server_rig_close(&r);
}
