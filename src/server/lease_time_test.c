/*
 * A leader starts all leases afresh once in its term. Raft writes an empty entry in place of a conf
 * change that comes too early, and such an entry must not look like the one that begins a term.
 *
 *     log   | change, by the leader | change, by a follower: empty | revoke of lease 7 |
 */
#include "harness/test.h"
#include "server/membership_rig_test.h"

#include <stdio.h>

enum { TTL = 8 /* seconds */ };

static void grant(struct cluster_rig *r, unsigned n, int64_t id, int64_t ttl)
{
    struct visit v;

    cluster_rig_ask(r, n, &v, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
                    &(struct pb_lease_grant_request){.id = id, .ttl = ttl});
    cluster_rig_until_over(r, &v);
    CHECK_STR(buf_str(&v.text), "");
    visit_free(&v);
}

/* The time to live that a client is told; 0: the lease is gone. */
static int64_t renew(struct cluster_rig *r, unsigned n, int64_t id)
{
    struct visit v = {0};
    struct arena arena = {0};
    struct buf wire = {0};
    struct pb_lease_keep_alive_response response = {0};
    struct client *c = r->at[n]->client;

    v.call = client_start(
        c, &(struct client_request){.path = "/etcdserverpb.Lease/LeaseKeepAlive", .context = &v});
    pb_encode(&pb_lease_keep_alive_request_schema, &(struct pb_lease_id){.id = id}, &wire);
    client_send(v.call, buf_bytes(&wire));
    client_flush(c);
    buf_free(&wire);
    while (v.message_count == 0 && !v.is_over)
        cluster_rig_step(r);
    CHECK_STR(buf_str(&v.text), "");
    visit_decode(&v, 0, &pb_lease_keep_alive_response_schema, &arena, &response);
    arena_free(&arena);
    visit_free(&v);
    return response.ttl;
}

/* The time that is left of a lease; -1: the lease is gone. */
static int64_t time_left(struct cluster_rig *r, unsigned n, int64_t id)
{
    struct visit v;
    struct arena arena = {0};
    struct pb_lease_time_to_live_response response = {0};

    cluster_rig_ask(r, n, &v, "/etcdserverpb.Lease/LeaseTimeToLive",
                    &pb_lease_time_to_live_request_schema,
                    &(struct pb_lease_time_to_live_request){.id = id});
    cluster_rig_until_over(r, &v);
    CHECK_STR(buf_str(&v.text), "");
    visit_decode(&v, 0, &pb_lease_time_to_live_response_schema, &arena, &response);
    arena_free(&arena);
    visit_free(&v);
    return response.ttl;
}

/* Asks member n to give member m the peer URL that it has, and does not wait. */
static void begin_update(struct cluster_rig *r, unsigned n, unsigned m, struct visit *v)
{
    char text[32];
    struct pb_member_update_request request = {.id = membership_id(r, m)};

    snprintf(text, sizeof(text), "http://10.0.0.%u:2380", m);
    struct bytes url = bytes_of_str(text);
    request.peer_urls.at = &url;
    request.peer_urls.count = 1;
    cluster_rig_ask(r, n, v, "/etcdserverpb.Cluster/MemberUpdate", &pb_member_update_request_schema,
                    &request);
}

/* The leader's disk is fast all the time, or it would hand over. */
static void slow_followers_down(struct cluster_rig *r, unsigned leader, uint64_t ms)
{
    struct fake_delay delay = {ms * NS_PER_MS, ms * NS_PER_MS};

    for (unsigned n = 1; n <= r->count; n++)
        if (n != leader)
            fake_disk_set_delay(r->at[n]->disk, delay);
}

static void hang_followers(struct cluster_rig *r, unsigned leader, bool hang)
{
    for (unsigned n = 1; n <= r->count; n++)
        if (n != leader)
            fake_disk_hang(r->at[n]->disk, hang ? FAKE_DISK_FOR_EVER : 0);
}

static uint64_t log_last(const struct cluster_rig *r, unsigned n)
{
    return server_status(r->at[n]->server).log_last;
}

static void until_logged(struct cluster_rig *r, unsigned n, uint64_t index)
{
    while (log_last(r, n) < index)
        cluster_rig_step(r);
}

static void until_applied(struct cluster_rig *r, unsigned n, uint64_t index)
{
    while (server_status(r->at[n]->server).applied < index)
        cluster_rig_step(r);
}

struct crossing {
    struct cluster_rig r;
    unsigned leader, follower;
    uint64_t empty, revoke; /* their indexes */
    struct visit first, second;
};

/*
 * A leader's log as above, with nothing of it applied behind the first change. A follower writes
 * the empty entry by itself, since its disk hangs while it does so and until the revoke has been
 * sent: so the revoke is committed by another write, 1.5 s later.
 */
static void crossing_open(struct crossing *x)
{
    struct cluster_rig *r = &x->r;
    membership_open(r, 3, NULL);
    x->leader = cluster_rig_leader(r);
    x->follower = cluster_rig_follower(r);
    grant(r, x->leader, 7, TTL);
    grant(r, x->leader, 8, 3 * TTL);
    cluster_rig_until_equal(r, x->leader);
    cluster_rig_for_ms(r, 300); /* no write is under way that the first change would wait for */

    uint64_t before = log_last(r, x->leader);
    slow_followers_down(r, x->leader, 100);
    begin_update(r, x->leader, x->leader, &x->first);
    for (unsigned n = 1; n <= r->count; n++)
        until_logged(r, n, before + 1); /* and the followers' disks work on it */
    begin_update(r, x->follower, x->follower, &x->second);
    until_logged(r, x->leader, x->empty = before + 2);
    CHECK(cluster_rig_logged(r, x->leader, "ignoring conf change"));
    until_applied(r, x->leader, before + 1);
    hang_followers(r, x->leader, true);
    until_logged(r, x->leader, x->revoke = before + 3);
    cluster_rig_for_ms(r, 100);
    CHECK_EQ(server_status(r->at[x->leader]->server).applied, before + 1);
    slow_followers_down(r, x->leader, 1500);
}

static void crossing_close(struct crossing *x)
{
    CHECK_EQ(cluster_rig_leader(&x->r), x->leader);
    slow_followers_down(&x->r, x->leader, 1);
    visit_free(&x->first);
    visit_free(&x->second);
    cluster_rig_close(&x->r);
}

/* The lease has expired, and its revoke is in the log: nobody may be told that it is renewed. */
TEST(an_empty_entry_in_place_of_a_conf_change_renews_no_lease)
{
    struct crossing x = {0};
    crossing_open(&x);

    hang_followers(&x.r, x.leader, false);
    until_applied(&x.r, x.leader, x.empty);
    CHECK(server_status(x.r.at[x.leader]->server).applied < x.revoke);
    int64_t ttl = renew(&x.r, x.leader, 7);

    CHECK_EQ(ttl, 0);
    CHECK_EQ(time_left(&x.r, x.follower, 7), -1);
    CHECK(time_left(&x.r, x.follower, 8) < 3 * TTL - 5); /* nor has any other begun anew */
    crossing_close(&x);
}

/* Leases of a leader that has installed start afresh behind all that it had proposed, not at an
 * empty entry before that; and they end when their time is up. */
TEST(a_leader_that_has_installed_starts_leases_behind_what_it_had_proposed)
{
    struct crossing x = {0};
    crossing_open(&x);
    struct server *leader = x.r.at[x.leader]->server;

    CHECK(server_install_own_image(leader, 0));
    while (server_installed(leader) == 0)
        cluster_rig_step(&x.r);
    CHECK(server_status(leader).applied < x.empty);
    hang_followers(&x.r, x.leader, false);
    until_applied(&x.r, x.leader, x.empty);
    CHECK(server_status(leader).applied < x.revoke);

    CHECK_EQ(renew(&x.r, x.leader, 7), 0);
    CHECK(time_left(&x.r, x.leader, 8) > 3 * TTL - 2); /* afresh */
    slow_followers_down(&x.r, x.leader, 1);
    cluster_rig_for_ms(&x.r, 3 * TTL * 1000 + 6000);
    CHECK_EQ(time_left(&x.r, x.leader, 8), -1);
    crossing_close(&x);
}

/* A client that may change members, and goes on asking, keeps no lease alive: each round takes
 * less time than the lease has, since a change that raft ignores is given up after seven seconds.
 */
TEST(changes_that_raft_ignores_do_not_keep_leases_alive)
{
    struct cluster_rig r;
    struct visit first, second;
    membership_open(&r, 3, NULL);
    unsigned leader = cluster_rig_leader(&r), follower = cluster_rig_follower(&r);
    grant(&r, leader, 7, 10);
    slow_followers_down(&r, leader, 100);

    uint64_t began_ms = cluster_rig_now_ms(&r);
    while (cluster_rig_now_ms(&r) < began_ms + 30000) {
        uint64_t last = log_last(&r, leader);
        begin_update(&r, leader, leader, &first);
        until_logged(&r, leader, last + 1);
        begin_update(&r, follower, follower, &second);
        cluster_rig_until_over(&r, &first);
        cluster_rig_until_over(&r, &second);
        CHECK_EQ(first.code, RPC_OK);
        CHECK_EQ(second.code, RPC_UNAVAILABLE);
        visit_free(&first);
        visit_free(&second);
    }

    CHECK(cluster_rig_logged(&r, leader, "ignoring conf change"));
    CHECK_EQ(time_left(&r, leader, 7), -1);
    CHECK_EQ(cluster_rig_leader(&r), leader);
    slow_followers_down(&r, leader, 1);
    cluster_rig_close(&r);
}

/* A log that is slow gets one revoke for each expired lease, however long that takes: with one
 * every three seconds members of a slow cluster would never catch up. */
TEST(a_revoke_that_is_not_applied_is_not_proposed_again)
{
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    unsigned leader = cluster_rig_leader(&r), follower = cluster_rig_follower(&r);
    grant(&r, leader, 7, TTL);
    cluster_rig_until_equal(&r, leader);

    hang_followers(&r, leader, true);
    uint64_t before = log_last(&r, leader);
    until_logged(&r, leader, before + 1);
    cluster_rig_for_ms(&r, 4 * LEASE_RETRY_MS);
    CHECK_EQ(log_last(&r, leader), before + 1);
    hang_followers(&r, leader, false);
    until_applied(&r, follower, before + 1);

    CHECK_EQ(time_left(&r, follower, 7), -1);
    CHECK_EQ(cluster_rig_leader(&r), leader);
    cluster_rig_close(&r);
}

static void move_leader(struct cluster_rig *r, unsigned from, unsigned to)
{
    struct visit v;

    cluster_rig_ask(r, from, &v, "/etcdserverpb.Maintenance/MoveLeader",
                    &pb_move_leader_request_schema,
                    &(struct pb_move_leader_request){.target_id = membership_id(r, to)});
    cluster_rig_until_over(r, &v);
    CHECK_STR(buf_str(&v.text), "");
    visit_free(&v);
}

/* A leader that was cut off has revokes in its log that another leader replaces by one entry. Once
 * it leads again it must not wait for the index of the last of them, which nobody may ever
 * write. */
TEST(revokes_that_another_leader_replaced_are_proposed_again)
{
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    unsigned leader = cluster_rig_leader(&r);
    for (int64_t id = 7; id < 10; id++)
        grant(&r, leader, id, TTL);
    cluster_rig_until_equal(&r, leader);
    uint64_t before = log_last(&r, leader);

    cluster_rig_for_ms(&r, TTL * 1000 - 400);
    CHECK_EQ(log_last(&r, leader), before);
    cluster_rig_cut(&r, leader, true);
    until_logged(&r, leader, before + 3);
    unsigned other;
    while ((other = cluster_rig_leader(&r)) == leader)
        cluster_rig_step(&r);
    for (unsigned n = 1; n <= r.count; n++)
        if (n != leader)
            until_applied(&r, n, before + 1);
    cluster_rig_cut(&r, leader, false);
    until_applied(&r, leader, before + 1);
    move_leader(&r, other, leader);
    until_applied(&r, leader, before + 2);
    CHECK_EQ(log_last(&r, leader), before + 2);
    cluster_rig_for_ms(&r, TTL * 1000 + 3000);

    CHECK_EQ(cluster_rig_leader(&r), leader);
    CHECK_EQ(log_last(&r, leader), before + 5);
    for (int64_t id = 7; id < 10; id++)
        CHECK_EQ(time_left(&r, leader, id), -1);
    cluster_rig_close(&r);
}
