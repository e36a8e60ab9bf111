/* What several members are together: a cluster that is founded, replicates, and outlives some of
 * them. */
#include "server/cluster_rig_test.h"

#include <stdio.h>

TEST(three_members_found_a_cluster_elect_a_leader_and_replicate)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);

    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r);
    cluster_rig_put(&r, leader, "k", "v");
    cluster_rig_until_equal(&r, leader);

    for (unsigned n = 1; n <= 3; n++) {
        struct server_status status = server_status(r.at[n]->server);
        CHECK_EQ(status.revision, 2);
        CHECK_EQ(status.cluster_id, server_status(r.at[leader]->server).cluster_id);
        CHECK_STR(cluster_rig_get(&r, n, "k", true), "v");
        CHECK_STR(cluster_rig_get(&r, n, "k", false), "v");
    }
    cluster_rig_close(&r);
}

/* --- by whichever member --- */

TEST(any_member_takes_writes_and_serves_reads_that_are_not_stale)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);

    for (unsigned n = 1; n <= 3; n++) {
        unsigned other = n % 3 + 1;
        cluster_rig_put(&r, n, "k", n == 1 ? "one" : n == 2 ? "two" : "three");
        CHECK_STR(cluster_rig_get(&r, other, "k", false), n == 1   ? "one"
                                                          : n == 2 ? "two"
                                                                   : "three");
    }

    cluster_rig_close(&r);
}

/* --- losing some --- */

TEST(a_cluster_goes_on_without_its_leader_and_takes_it_back)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned first = cluster_rig_leader(&r);
    cluster_rig_put(&r, first, "k", "before");

    cluster_rig_crash(&r, first);
    uint64_t began_ms = cluster_rig_now_ms(&r);
    unsigned second = cluster_rig_leader(&r);
    CHECK(second != first);
    CHECK_STR(cluster_rig_get(&r, second, "k", false), "before");
    cluster_rig_put(&r, second, "k", "after");
    CHECK(cluster_rig_now_ms(&r) - began_ms < 4000);

    cluster_rig_start(&r, first);
    cluster_rig_until_ready(&r, first);
    CHECK_STR(cluster_rig_get(&r, first, "k", false), "after");
    CHECK_EQ(server_status(r.at[first]->server).cluster_id,
             server_status(r.at[second]->server).cluster_id);
    cluster_rig_close(&r);
}

/* A leader cut off in mid-put must not say yes to a write nobody else has seen. */
TEST(a_leader_that_is_cut_off_acknowledges_nothing)
{
    struct cluster_rig r;
    struct visit put, read;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned first = cluster_rig_leader(&r);
    for (unsigned n = 1; n <= 3; n++)
        if (n != first)
            cluster_rig_pause(&r, n, true); /* to the client the leader is there as ever */

    cluster_rig_ask(&r, first, &put, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                    &(struct pb_put_request){.key = BYTES("k")});
    cluster_rig_ask(&r, first, &read, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                    &(struct pb_range_request){.key = BYTES("k")});
    cluster_rig_until_over(&r, &put);
    cluster_rig_until_over(&r, &read);

    CHECK(put.code != RPC_OK);
    CHECK(read.code != RPC_OK);
    CHECK_EQ(server_status(r.at[first]->server).leader, 0);
    visit_free(&put);
    visit_free(&read);
    cluster_rig_close(&r);
}

TEST(all_of_them_may_lose_power_at_once)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);

    for (unsigned round = 0; round < 3; round++) {
        cluster_rig_put(&r, cluster_rig_leader(&r), "k", round == 0 ? "a" : round == 1 ? "b" : "c");
        for (unsigned n = 1; n <= 3; n++)
            cluster_rig_crash(&r, n);
        cluster_rig_start_all(&r);
        CHECK_STR(cluster_rig_get(&r, 1 + round % 3, "k", false), round == 0   ? "a"
                                                                  : round == 1 ? "b"
                                                                               : "c");
    }

    cluster_rig_close(&r);
}

/* --- founding --- */

/* At whatever moment power goes while three members found a cluster: they found one, and only
 * one. */
TEST(a_founding_of_three_that_is_cut_short_is_made_good)
{
    struct cluster_rig r;

    for (unsigned steps = 1; steps < 400; steps += 13) {
        cluster_rig_open(&r, 3, NULL);
        for (unsigned n = 1; n <= 3; n++)
            cluster_rig_start(&r, n);
        for (unsigned i = 0; i < steps; i++)
            cluster_rig_step(&r);
        for (unsigned n = 1; n <= 3; n++)
            cluster_rig_crash(&r, n);

        cluster_rig_start_all(&r);
        unsigned leader = cluster_rig_leader(&r);
        cluster_rig_put(&r, leader, "k", "v");
        cluster_rig_until_equal(&r, leader);
        for (unsigned n = 1; n <= 3; n++)
            CHECK_STR(cluster_rig_get(&r, n, "k", true), "v");
        cluster_rig_close(&r);
    }
}

/* One of three founders can lead nobody, however long it waits. */
TEST(a_founder_alone_does_not_lead)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);

    cluster_rig_start(&r, 2);
    cluster_rig_for_ms(&r, 20000);
    CHECK_EQ(server_status(r.at[2]->server).leader, 0);
    CHECK(!r.at[2]->ready);
    cluster_rig_crash(&r, 2);
    cluster_rig_start(&r, 2);
    cluster_rig_for_ms(&r, 20000);
    CHECK_EQ(server_status(r.at[2]->server).leader, 0);

    cluster_rig_start(&r, 1);
    cluster_rig_until_ready(&r, 1);
    cluster_rig_until_ready(&r, 2);
    cluster_rig_close(&r);
}

/* Packets to it vanish, so it takes longer to know that it says nothing than to ask anew. */
TEST(two_founders_have_a_version_though_the_third_is_silent)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_start(&r, n);
    cluster_rig_cut(&r, 3, true);
    cluster_rig_until_ready(&r, 1);
    cluster_rig_until_ready(&r, 2);
    char silent[96];
    snprintf(silent, sizeof(silent), "\"failed to get version\",\"remote-member-id\":\"%llx\"",
             (unsigned long long)server_status(r.at[3]->server).member_id);

    uint64_t until_ms = cluster_rig_now_ms(&r) + 20000;
    while (!cluster_rig_logged(&r, 1, "set initial cluster version")) {
        CHECK(cluster_rig_now_ms(&r) < until_ms);
        cluster_rig_step(&r);
    }
    CHECK(cluster_rig_logged(&r, cluster_rig_leader(&r), silent));
    cluster_rig_cut(&r, 3, false);
    while (!cluster_rig_logged(&r, 1, "updated cluster version")) {
        CHECK(cluster_rig_now_ms(&r) < until_ms + 20000);
        cluster_rig_step(&r);
    }
    cluster_rig_close(&r);
}

static bool has_given_up(struct cluster_rig *r, unsigned n, const char *why)
{
    struct cluster_rig_host *h = r->at[n];

    for (unsigned i = 0; i < 10000 && !h->failed; i++)
        cluster_rig_step(r);
    return h->failed && h->why.len > 0 && memmem(h->why.at, h->why.len, why, strlen(why)) != NULL;
}

/* It has promised things that it has forgotten: its id must not speak again. */
TEST(a_member_that_has_lost_its_disks_does_not_begin_anew)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);

    cluster_rig_lose_disks(&r, 2);
    r.at[2]->may_fail = true;
    cluster_rig_start(&r, 2);
    CHECK(has_given_up(&r, 2, " has already been bootstrapped"));
    cluster_rig_crash(&r, 2);

    cluster_rig_close(&r);
}

/* --- stopping --- */

TEST(a_leader_that_stops_hands_over_first)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned first = cluster_rig_leader(&r);
    cluster_rig_put(&r, first, "k", "v");

    cluster_rig_stop(&r, first);
    uint64_t began_ms = cluster_rig_now_ms(&r);
    unsigned second = cluster_rig_leader(&r);
    cluster_rig_put(&r, second, "k", "again");
    CHECK(cluster_rig_now_ms(&r) - began_ms < 500); /* half an election timeout */

    cluster_rig_close(&r);
}

/* Heartbeats need no disk, so nobody would notice. */
TEST(a_leader_whose_disk_stalls_hands_over)
{
    struct cluster_rig r;
    struct visit put;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned first = cluster_rig_leader(&r);

    fake_disk_set_delay(r.at[first]->disk, (struct fake_delay){60 * NS_PER_S, 60 * NS_PER_S});
    cluster_rig_ask(&r, first, &put, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                    &(struct pb_put_request){.key = BYTES("k")});
    uint64_t began_ms = cluster_rig_now_ms(&r);
    while (cluster_rig_leader(&r) == first)
        cluster_rig_step(&r);
    CHECK(cluster_rig_now_ms(&r) - began_ms < 3000);
    unsigned second = cluster_rig_leader(&r);
    cluster_rig_put(&r, second, "k", "v");

    visit_free(&put);
    cluster_rig_crash(&r, first);
    cluster_rig_close(&r);
}

/* Each write takes less than an election timeout, and one that has to wait for another more. */
TEST(a_leader_whose_disk_is_slow_goes_on_leading)
{
    enum { PUTS = 40 };
    struct cluster_rig r;
    struct visit puts[PUTS];
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r);

    for (unsigned n = 1; n <= 3; n++)
        fake_disk_set_delay(r.at[n]->disk, (struct fake_delay){600 * NS_PER_MS, 600 * NS_PER_MS});
    for (unsigned i = 0; i < PUTS; i++) {
        cluster_rig_ask(&r, leader, &puts[i], "/etcdserverpb.KV/Put", &pb_put_request_schema,
                        &(struct pb_put_request){.key = BYTES("k")});
        cluster_rig_for_ms(&r, 300);
    }
    for (unsigned i = 0; i < PUTS; i++) {
        cluster_rig_until_over(&r, &puts[i]);
        CHECK_EQ(puts[i].code, RPC_OK);
        visit_free(&puts[i]);
    }
    CHECK_EQ(cluster_rig_leader(&r), leader);
    CHECK(!cluster_rig_logged(&r, leader, "the log is not written in time"));

    for (unsigned n = 1; n <= 3; n++)
        fake_disk_set_delay(r.at[n]->disk, (struct fake_delay){NS_PER_MS, NS_PER_MS});
    cluster_rig_close(&r);
}

enum { HELD_VALUE_BYTES = 1000000, HELD_PUTS = 150 };
static_assert((uint64_t)HELD_PUTS * HELD_VALUE_BYTES > 2 * RAFT_UNCOMMITTED_BYTES_MAX,
              "more than may be taken in");

/* Nobody waits for them to be answered. Returns how many bytes of entries were in the log and not
 * applied, at most. */
static uint64_t put_and_go(struct cluster_rig *r, unsigned n)
{
    struct visit *visits = mem_new_array(HELD_PUTS, struct visit);
    uint8_t *value = mem_alloc(HELD_VALUE_BYTES);
    struct pb_put_request put = {.key = BYTES("k"), .value = bytes_of(value, HELD_VALUE_BYTES)};
    uint64_t most = 0;

    for (unsigned i = 0; i < HELD_PUTS; i++)
        cluster_rig_ask(r, n, &visits[i], "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
    for (unsigned i = 0; i < HELD_PUTS; i++) {
        while (!visits[i].is_over) {
            cluster_rig_step(r);
            struct server_status s = server_status(r->at[n]->server);
            CHECK(s.is_leader);
            most = s.log_last - s.applied > most ? s.log_last - s.applied : most;
        }
        visit_free(&visits[i]);
    }
    mem_free(visits);
    mem_free(value);
    return most * HELD_VALUE_BYTES;
}

static void check_held(uint64_t bytes)
{
    CHECK(bytes > RAFT_UNCOMMITTED_BYTES_MAX / 2); /* or this test shows nothing */
    CHECK(bytes <= RAFT_UNCOMMITTED_BYTES_MAX + 2 * HELD_VALUE_BYTES);
}

/* Heartbeats need no disk, so it goes on leading, and nothing is committed. */
TEST(a_leader_whose_followers_write_nothing_takes_in_no_more_than_it_may_hold)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r);

    for (unsigned n = 1; n <= 3; n++)
        if (n != leader)
            fake_disk_hang(r.at[n]->disk, FAKE_DISK_FOR_EVER);
    check_held(put_and_go(&r, leader));

    for (unsigned n = 1; n <= 3; n++)
        fake_disk_hang(r.at[n]->disk, 0);
    cluster_rig_put(&r, leader, "k", "v");
    cluster_rig_until_equal(&r, leader);
    cluster_rig_close(&r);
}

TEST(a_leader_whose_store_hangs_takes_in_no_more_than_it_may_hold)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 1, NULL);
    cluster_rig_start_all(&r);

    fake_workers_hang(&r.at[1]->store_worker, FAKE_DISK_FOR_EVER);
    check_held(put_and_go(&r, 1));

    fake_workers_hang(&r.at[1]->store_worker, 0);
    cluster_rig_put(&r, 1, "k", "v");
    cluster_rig_close(&r);
}

/* --- behind --- */

/* After a restart what was applied is on disk alone, and a member that was away wants it. */
TEST(a_member_that_was_away_gets_what_only_the_disk_has)
{
    struct cluster_rig r;
    char key[16];
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned away = cluster_rig_follower(&r);
    cluster_rig_crash(&r, away);
    for (unsigned i = 0; i < 50; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        cluster_rig_put(&r, cluster_rig_leader(&r), key, "v");
    }
    for (unsigned n = 1; n <= 3; n++)
        if (n != away)
            cluster_rig_stop(&r, n);

    cluster_rig_start_all(&r);
    CHECK_EQ(server_status(r.at[away]->server).revision, 51);
    CHECK_STR(cluster_rig_get(&r, away, "k49", true), "v");

    cluster_rig_close(&r);
}

/* What the log keeps behind a snapshot, for those who are slow, a leader has also after a start. */
TEST(a_leader_that_was_restarted_has_what_others_miss_before_its_snapshot)
{
    struct cluster_rig r;
    static const char *const flags[] = {"--snapshot-count", "20", NULL};
    char key[16];
    cluster_rig_open(&r, 3, flags);
    cluster_rig_start_all(&r);
    unsigned away = cluster_rig_follower(&r);
    cluster_rig_crash(&r, away);
    for (unsigned i = 0; i < 60; i++) {
        snprintf(key, sizeof(key), "k%u", i);
        cluster_rig_put(&r, cluster_rig_leader(&r), key, "v");
        cluster_rig_for_ms(&r, 50);
    }
    CHECK(cluster_rig_logged(&r, cluster_rig_leader(&r), "saved snapshot to disk"));
    for (unsigned n = 1; n <= 3; n++)
        if (n != away)
            cluster_rig_stop(&r, n);

    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_start(&r, n);
    cluster_rig_for_ms(&r, 20000);
    CHECK(r.at[away]->ready);
    CHECK_STR(cluster_rig_get(&r, away, "k59", false), "v");
    cluster_rig_close(&r);
}

/* --- names --- */

TEST(names_and_numbers_are_the_same_places_if_they_resolve_to_each_other)
{
    struct cluster_rig r;
    static const char *const flags[] = {
        "--initial-cluster", "m1=http://one:2380,m2=http://two:2380,m3=http://10.0.0.3:2380", NULL};
    cluster_rig_open(&r, 3, flags);
    for (unsigned n = 1; n <= 3; n++) {
        fake_resolver_add(&r.at[n]->resolver, "one", "10.0.0.1");
        fake_resolver_add(&r.at[n]->resolver, "two", "10.0.0.2");
    }

    cluster_rig_start_all(&r);
    cluster_rig_put(&r, cluster_rig_leader(&r), "k", "v");
    CHECK(cluster_rig_logged(&r, 1, "resolved URL Host"));
    CHECK(!cluster_rig_logged(&r, 3, "resolved URL Host"));

    cluster_rig_close(&r);
}

TEST(names_that_lead_elsewhere_are_refused_and_those_unknown_after_half_a_minute)
{
    struct cluster_rig r;
    static const char *const flags[] = {
        "--initial-cluster", "m1=http://one:2380,m2=http://two:2380,m3=http://10.0.0.3:2380", NULL};
    cluster_rig_open(&r, 3, flags);
    fake_resolver_add(&r.at[1]->resolver, "one", "10.0.0.9");

    r.at[1]->may_fail = r.at[2]->may_fail = true;
    cluster_rig_start(&r, 1);
    CHECK(has_given_up(&r, 1,
                       "--initial-cluster has m1=http://one:2380 but missing from "
                       "--initial-advertise-peer-urls=http://10.0.0.1:2380 (resolved urls: "
                       "\"http://10.0.0.1:2380\" != \"http://10.0.0.9:2380\")"));
    cluster_rig_start(&r, 2);
    uint64_t began_ms = cluster_rig_now_ms(&r);
    CHECK(
        has_given_up(&r, 2, "(failed to resolve \"http://two:2380\" (lookup two: no such host))"));
    CHECK(cluster_rig_now_ms(&r) - began_ms >= 30000);
    CHECK(cluster_rig_now_ms(&r) - began_ms < 32000);
    cluster_rig_crash(&r, 1);
    cluster_rig_crash(&r, 2);

    cluster_rig_close(&r);
}

/* Whoever is told to stop while it asks around has nothing to finish. */
TEST(a_founding_can_be_stopped)
{
    struct cluster_rig r;
    static const char *const flags[] = {"--initial-cluster",
                                        "m1=http://one:2380,m2=http://two:2380", NULL};
    cluster_rig_open(&r, 2, flags);
    cluster_rig_cut(&r, 2, true);

    for (unsigned steps = 0; steps < 40; steps += 3) {
        cluster_rig_start(&r, 1);
        for (unsigned i = 0; i < steps; i++)
            cluster_rig_step(&r);
        cluster_rig_stop(&r, 1);
    }

    cluster_rig_close(&r);
}

/* --- five --- */

TEST(five_members_go_on_without_two)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 5, NULL);
    cluster_rig_start_all(&r);
    cluster_rig_put(&r, 1, "k", "v");

    cluster_rig_crash(&r, cluster_rig_leader(&r));
    cluster_rig_crash(&r, cluster_rig_leader(&r));
    unsigned leader = cluster_rig_leader(&r);
    CHECK_STR(cluster_rig_get(&r, leader, "k", false), "v");
    cluster_rig_put(&r, leader, "k", "w");

    cluster_rig_close(&r);
}

/* --- leases --- */

static int64_t ask_time_to_live(struct cluster_rig *r, unsigned n, int64_t lease, size_t *keys)
{
    struct visit v;
    struct arena arena = {0};
    struct pb_lease_time_to_live_response response = {0};

    cluster_rig_ask(r, n, &v, "/etcdserverpb.Lease/LeaseTimeToLive",
                    &pb_lease_time_to_live_request_schema,
                    &(struct pb_lease_time_to_live_request){.id = lease, .keys = true});
    cluster_rig_until_over(r, &v);
    CHECK_STR(buf_str(&v.text), "");
    visit_decode(&v, 0, &pb_lease_time_to_live_response_schema, &arena, &response);
    CHECK_EQ(response.header->member_id, server_status(r->at[n]->server).member_id);
    *keys = response.keys.count;
    int64_t ttl = response.ttl;
    arena_free(&arena);
    visit_free(&v);
    return ttl;
}

static void grant(struct cluster_rig *r, unsigned n, int64_t id, int64_t ttl)
{
    struct visit v;

    cluster_rig_ask(r, n, &v, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema,
                    &(struct pb_lease_grant_request){.id = id, .ttl = ttl});
    cluster_rig_until_over(r, &v);
    CHECK_STR(buf_str(&v.text), "");
    visit_free(&v);
    cluster_rig_ask(r, n, &v, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                    &(struct pb_put_request){.key = BYTES("leased"), .lease = id});
    cluster_rig_until_over(r, &v);
    CHECK_STR(buf_str(&v.text), "");
    visit_free(&v);
}

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
    CHECK_EQ(response.id, id);
    arena_free(&arena);
    visit_free(&v);
    return response.ttl;
}

TEST(leases_are_renewed_and_looked_at_by_any_member)
{
    struct cluster_rig r;
    size_t keys;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned follower = cluster_rig_follower(&r);

    grant(&r, follower, 7, 10);
    cluster_rig_for_ms(&r, 4000);
    int64_t left = ask_time_to_live(&r, follower, 7, &keys);
    CHECK(left >= 4 && left <= 6);
    CHECK_EQ(keys, 1);
    CHECK_EQ(renew(&r, follower, 7), 10);
    CHECK(ask_time_to_live(&r, follower, 7, &keys) >= 9);
    CHECK_EQ(renew(&r, follower, 8), 0);
    CHECK_EQ(ask_time_to_live(&r, follower, 8, &keys), -1);

    cluster_rig_for_ms(&r, 12000); /* nobody renews it */
    for (unsigned n = 1; n <= 3; n++)
        CHECK_STR(cluster_rig_get(&r, n, "leased", true), "");
    CHECK_EQ(ask_time_to_live(&r, follower, 7, &keys), -1);
    cluster_rig_close(&r);
}

/* However many keys it has: etcd's answer is as long as it has to be. */
TEST(a_lease_with_megabytes_of_keys_is_looked_at_by_any_member)
{
    enum { KEYS = 5 };
    struct cluster_rig r;
    struct buf key = {0};
    size_t keys;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r);
    grant(&r, leader, 7, 1000);
    memset(buf_extend(&key, MIB), 'x', MIB);
    for (unsigned i = 0; i < KEYS; i++) {
        struct visit v;
        key.at[0] = (uint8_t)('a' + i);
        cluster_rig_ask(&r, leader, &v, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                        &(struct pb_put_request){.key = buf_bytes(&key), .lease = 7});
        cluster_rig_until_over(&r, &v);
        CHECK_STR(buf_str(&v.text), "");
        visit_free(&v);
    }

    for (unsigned n = 1; n <= 3; n++) {
        CHECK(ask_time_to_live(&r, n, 7, &keys) > 0);
        CHECK_EQ(keys, 1 + KEYS); /* grant has attached one */
    }
    buf_free(&key);
    cluster_rig_close(&r);
}

/* How much of its time was used up is forgotten with the leader: it may live longer, never less. */
TEST(a_lease_outlives_its_leader)
{
    struct cluster_rig r;
    size_t keys;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned first = cluster_rig_leader(&r), follower = cluster_rig_follower(&r);
    grant(&r, first, 7, 10);
    cluster_rig_until_equal(&r, first);
    cluster_rig_for_ms(&r, 8000);

    cluster_rig_crash(&r, first);
    uint64_t began_ms = cluster_rig_now_ms(&r);
    CHECK(ask_time_to_live(&r, follower, 7, &keys) >= 9); /* waits for a leader */
    CHECK(cluster_rig_now_ms(&r) - began_ms < 4000);
    CHECK_EQ(keys, 1);
    cluster_rig_close(&r);
}

/* Unless it has told the others, who then count from there; and remember it over their own end. */
TEST(a_new_leader_goes_on_where_a_checkpoint_says)
{
    struct cluster_rig r;
    size_t keys;
    cluster_rig_open(&r, 3,
                     (const char *const[]){
                         "--feature-gates=LeaseCheckpoint=true,LeaseCheckpointPersist=true", NULL});
    cluster_rig_start_all(&r);
    unsigned first = cluster_rig_leader(&r), follower = cluster_rig_follower(&r);
    grant(&r, first, 7, 1000);
    cluster_rig_for_ms(&r, LEASE_CHECKPOINT_INTERVAL_MS + 5000);
    cluster_rig_until_equal(&r, first);

    cluster_rig_crash(&r, first);
    int64_t left = ask_time_to_live(&r, follower, 7, &keys); /* waits for a leader */
    CHECK(left > 690 && left <= 701);
    for (unsigned n = 1; n <= 3; n++)
        if (n != first)
            cluster_rig_crash(&r, n);
    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_start(&r, n);
    cluster_rig_until_ready(&r, follower);
    left = ask_time_to_live(&r, follower, 7, &keys);
    CHECK(left > 690 && left <= 701);
    CHECK_EQ(renew(&r, follower, 7), 1000); /* and all forget of it */
    cluster_rig_crash(&r, cluster_rig_leader(&r));
    cluster_rig_for_ms(&r, 5000);
    CHECK(ask_time_to_live(&r, cluster_rig_follower(&r), 7, &keys) > 990);
    cluster_rig_close(&r);
}

/*
 * A leader that did not run while another was elected must not say that it has renewed a lease: the
 * other counts its time, and will end it sooner. It hears nothing from the others when it goes on:
 * they have hung up.
 */
TEST(a_leader_that_was_stalled_renews_nothing_before_it_is_sure)
{
    struct cluster_rig r;
    struct visit v = {0};
    struct buf wire = {0};
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned first = cluster_rig_leader(&r);
    grant(&r, first, 7, 60);
    cluster_rig_until_equal(&r, first);

    cluster_rig_pause(&r, first, true);
    cluster_rig_cut(&r, first, true);
    while (cluster_rig_leader(&r) == first)
        cluster_rig_step(&r);
    unsigned second = cluster_rig_leader(&r);
    cluster_rig_for_ms(&r, 10000); /* of the lease's time, as the other counts it */
    cluster_rig_cut(&r, second, true);
    cluster_rig_cut(&r, 6 - first - second, true);
    cluster_rig_cut(&r, first, false);
    cluster_rig_pause(&r, first, false);
    cluster_rig_for_ms(&r, 150); /* a tick has come, on time, after the late one */
    struct client *c = r.at[first]->client;
    v.call = client_start(
        c, &(struct client_request){.path = "/etcdserverpb.Lease/LeaseKeepAlive", .context = &v});
    pb_encode(&pb_lease_keep_alive_request_schema, &(struct pb_lease_id){.id = 7}, &wire);
    client_send(v.call, buf_bytes(&wire));
    client_flush(c);
    cluster_rig_for_ms(&r, 15000);

    CHECK(v.is_over);
    CHECK_EQ(v.message_count, 0);
    cluster_rig_cut(&r, second, false);
    cluster_rig_cut(&r, 6 - first - second, false);
    buf_free(&wire);
    visit_free(&v);
    cluster_rig_close(&r);
}

/* Nobody hears of those any more who do not stand still, nor they of anybody. */
static void cut_all_others(struct cluster_rig *r)
{
    for (unsigned n = 1; n <= r->count; n++)
        if (!r->at[n]->is_paused)
            cluster_rig_cut(r, n, true);
}

static void freeze(struct cluster_rig *r, unsigned n, bool freeze)
{
    cluster_rig_freeze(r, n, freeze);
    cluster_rig_cut(r, n, freeze);
}

/*
 * Five members that all know of lease 6. The leader and `*follower` stand still, their clocks
 * included, while the others elect another leader, and it grants lease 7. Then these are gone, and
 * the two go on: they have not heard of any of it, nor can they know that any time has passed.
 */
static unsigned replace_leader(struct cluster_rig *r, unsigned *follower)
{
    cluster_rig_open(r, 5, NULL);
    cluster_rig_start_all(r);
    unsigned first = cluster_rig_leader(r);
    *follower = cluster_rig_follower(r);
    grant(r, first, 6, 60);
    cluster_rig_until_equal(r, first);

    freeze(r, first, true);
    freeze(r, *follower, true);
    unsigned second = cluster_rig_leader(r);
    while (second == first || second == *follower) {
        cluster_rig_step(r);
        second = cluster_rig_leader(r);
    }
    grant(r, second, 7, 60);
    cut_all_others(r);
    freeze(r, first, false);
    freeze(r, *follower, false);
    return first;
}

/* Neither how much time it has, nor that it is gone. */
static void check_lease_is_not_told_of(struct cluster_rig *r, unsigned n, int64_t lease)
{
    struct visit renewed = {0}, looked = {0};
    struct buf wire = {0};
    struct client *c = r->at[n]->client;

    renewed.call =
        client_start(c, &(struct client_request){.path = "/etcdserverpb.Lease/LeaseKeepAlive",
                                                 .context = &renewed});
    pb_encode(&pb_lease_keep_alive_request_schema, &(struct pb_lease_id){.id = lease}, &wire);
    client_send(renewed.call, buf_bytes(&wire));
    cluster_rig_ask(r, n, &looked, "/etcdserverpb.Lease/LeaseTimeToLive",
                    &pb_lease_time_to_live_request_schema,
                    &(struct pb_lease_time_to_live_request){.id = lease});
    cluster_rig_for_ms(r, 20000);
    CHECK_EQ(renewed.message_count, 0);
    CHECK(renewed.is_over);
    CHECK_EQ(looked.message_count, 0);
    CHECK(looked.is_over);
    buf_free(&wire);
    visit_free(&renewed);
    visit_free(&looked);
}

/* What the replaced leader, or its follower, says of a lease: nothing. */
static void check_replaced_leader(bool at_follower, int64_t lease)
{
    struct cluster_rig r;
    unsigned follower;
    unsigned first = replace_leader(&r, &follower);

    check_lease_is_not_told_of(&r, at_follower ? follower : first, lease);
    for (unsigned n = 1; n <= r.count; n++)
        cluster_rig_cut(&r, n, false);
    cluster_rig_close(&r);
}

/* Whoever is told so gives his lease up, with all that hangs on it. */
TEST(a_replaced_leader_does_not_say_that_a_lease_is_gone)
{
    check_replaced_leader(false, 7);
}

TEST(nor_does_it_tell_a_follower_so)
{
    check_replaced_leader(true, 7);
}

/* The other counts its time, and will end it sooner. */
TEST(a_replaced_leader_whose_clock_stood_renews_nothing)
{
    check_replaced_leader(false, 6);
}

TEST(nor_does_it_renew_for_a_follower)
{
    check_replaced_leader(true, 6);
}

/* So many bytes that its log takes no more until the disk has them. */
static void fill_log(struct cluster_rig *r, unsigned n, struct visit *put)
{
    enum { PUT_BYTES = 34 * MIB };
    struct buf value = {0};

    memset(buf_extend(&value, PUT_BYTES), 'v', PUT_BYTES);
    cluster_rig_ask(r, n, put, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                    &(struct pb_put_request){.key = BYTES("k"), .value = buf_bytes(&value)});
    buf_free(&value);
}

/* A leader finds that a lease has expired, and cannot say so: its disk stalls. By the time that it
 * can, another leads, who has given the lease all its time again. */
TEST(a_leader_that_leads_no_more_revokes_nothing)
{
    struct cluster_rig r;
    static const char *const flags[] = {"--election-timeout", "3000", "--max-request-bytes",
                                        "41943040", NULL};
    struct visit put;
    size_t keys;
    cluster_rig_open(&r, 3, flags);
    cluster_rig_start_all(&r);
    unsigned first = cluster_rig_leader(&r), second = first;
    grant(&r, first, 7, 10);
    cluster_rig_until_equal(&r, first);
    cluster_rig_for_ms(&r, 9000);

    fake_disk_set_delay(r.at[first]->disk, (struct fake_delay){6 * NS_PER_S, 6 * NS_PER_S});
    fill_log(&r, first, &put);
    while (second == first) {
        cluster_rig_step(&r);
        second = cluster_rig_leader(&r);
    }
    CHECK(ask_time_to_live(&r, second, 7, &keys) >= 9);
    fake_disk_set_delay(r.at[first]->disk, (struct fake_delay){NS_PER_MS, NS_PER_MS});
    for (unsigned i = 0; i < 10; i++) {
        cluster_rig_for_ms(&r, 1000);
        CHECK_EQ(renew(&r, second, 7), 10);
    }
    CHECK(ask_time_to_live(&r, second, 7, &keys) >= 9);
    CHECK_EQ(keys, 1);

    visit_free(&put);
    cluster_rig_close(&r);
}

/* It was asked, and is silent; who leads instead can be asked before the time for it is up. */
TEST(a_renewal_does_not_wait_for_a_leader_that_has_gone)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned first = cluster_rig_leader(&r), follower = cluster_rig_follower(&r);
    grant(&r, follower, 7, 20);
    CHECK_EQ(renew(&r, follower, 7), 20);

    cluster_rig_pause(&r, first, true);
    uint64_t began_ms = cluster_rig_now_ms(&r);
    CHECK_EQ(renew(&r, follower, 7), 20);
    CHECK(cluster_rig_now_ms(&r) - began_ms < 4000);
    cluster_rig_close(&r);
}

TEST(without_a_leader_a_renewal_says_so)
{
    struct cluster_rig r;
    struct visit v;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned alone = cluster_rig_follower(&r);
    for (unsigned n = 1; n <= 3; n++)
        if (n != alone)
            cluster_rig_crash(&r, n);
    while (server_status(r.at[alone]->server).leader != 0)
        cluster_rig_step(&r);

    uint64_t began_ms = cluster_rig_now_ms(&r);
    cluster_rig_ask(&r, alone, &v, "/etcdserverpb.Lease/LeaseTimeToLive",
                    &pb_lease_time_to_live_request_schema,
                    &(struct pb_lease_time_to_live_request){.id = 7});
    cluster_rig_until_over(&r, &v);
    CHECK_STR(buf_str(&v.text), "etcdserver: no leader");
    CHECK(cluster_rig_now_ms(&r) - began_ms >= 7000);
    visit_free(&v);
    cluster_rig_close(&r);
}

/* --- no leader --- */

static void ask_for_leader(struct cluster_rig *r, unsigned n, struct visit *v, const char *path,
                           const struct pb_schema *schema, const void *message)
{
    static const struct client_field wants = {.name = "hasleader", .value = BYTES("true")};
    struct client *c = r->at[n]->client;
    struct buf wire = {0};

    *v = (struct visit){0};
    pb_encode(schema, message, &wire);
    v->call =
        client_start(c, &(struct client_request){
                            .path = path, .metadata = &wants, .metadata_count = 1, .context = v});
    client_send(v->call, buf_bytes(&wire));
    client_flush(c);
    buf_free(&wire);
}

/* A watch that asked for it ends after three election timeouts; one that did not goes on. */
TEST(whoever_wants_a_leader_is_told_that_there_is_none)
{
    struct cluster_rig r;
    struct visit watch, other, read;
    struct pb_watch_create_request create = {.key = BYTES("k")};
    struct pb_watch_request request = {.which = PB_WATCH_CREATE, .create = &create};
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned alone = cluster_rig_follower(&r);
    ask_for_leader(&r, alone, &watch, "/etcdserverpb.Watch/Watch", &pb_watch_request_schema,
                   &request);
    cluster_rig_ask(&r, alone, &other, "/etcdserverpb.Watch/Watch", &pb_watch_request_schema,
                    &request);
    while (watch.message_count == 0 || other.message_count == 0)
        cluster_rig_step(&r);
    for (unsigned n = 1; n <= 3; n++)
        if (n != alone)
            cluster_rig_crash(&r, n);

    while (server_status(r.at[alone]->server).leader != 0)
        cluster_rig_step(&r);
    uint64_t began_ms = cluster_rig_now_ms(&r);
    cluster_rig_until_over(&r, &watch);
    CHECK_STR(buf_str(&watch.text), "etcdserver: no leader");
    CHECK(cluster_rig_now_ms(&r) - began_ms >= 3000);
    CHECK(cluster_rig_now_ms(&r) - began_ms < 4000);
    CHECK(!other.is_over);
    ask_for_leader(&r, alone, &read, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                   &(struct pb_range_request){.key = BYTES("k"), .serializable = true});
    client_end(read.call);
    client_flush(r.at[alone]->client);
    cluster_rig_until_over(&r, &read);
    CHECK_STR(buf_str(&read.text), "etcdserver: no leader");
    CHECK_STR(cluster_rig_get(&r, alone, "k", true), ""); /* who does not mind is served */

    visit_free(&watch);
    visit_free(&other);
    visit_free(&read);
    cluster_rig_close(&r);
}

/* Why a write was not answered in time, as far as a member can guess. */
TEST(a_write_that_times_out_says_why)
{
    struct cluster_rig r;
    struct visit put;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    unsigned follower = cluster_rig_follower(&r);

    for (unsigned n = 1; n <= 3; n++)
        if (n != follower)
            cluster_rig_pause(&r, n, true);
    cluster_rig_ask(&r, follower, &put, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                    &(struct pb_put_request){.key = BYTES("k")});
    cluster_rig_until_over(&r, &put);
    CHECK_EQ(put.code, RPC_UNAVAILABLE);
    CHECK_STR(buf_str(&put.text), "etcdserver: request timed out"); /* it went to a leader once */
    visit_free(&put);
    cluster_rig_ask(&r, follower, &put, "/etcdserverpb.KV/Put", &pb_put_request_schema,
                    &(struct pb_put_request){.key = BYTES("k")});
    cluster_rig_until_over(&r, &put);
    CHECK_EQ(put.code, RPC_DEADLINE_EXCEEDED); /* nobody leads: raft never had it */
    CHECK_STR(buf_str(&put.text), "context deadline exceeded");
    visit_free(&put);
    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_pause(&r, n, false);

    cluster_rig_close(&r);
}

/* Two followers send a write to a leader that has just gone. One of them leads by the time that the
 * writes are given up, and only that one knows that the leader before has failed. */
TEST(only_the_next_leader_speaks_of_the_failure_of_the_one_before)
{
    struct cluster_rig r;
    struct visit puts[4];
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);
    cluster_rig_for_ms(&r, 10000);
    unsigned leader = cluster_rig_leader(&r);

    cluster_rig_crash(&r, leader);
    for (unsigned n = 1; n <= 3; n++)
        if (n != leader)
            cluster_rig_ask(&r, n, &puts[n], "/etcdserverpb.KV/Put", &pb_put_request_schema,
                            &(struct pb_put_request){.key = BYTES("k")});
    unsigned next = cluster_rig_leader(&r);

    CHECK(next != leader);
    for (unsigned n = 1; n <= 3; n++) {
        if (n == leader)
            continue;
        cluster_rig_until_over(&r, &puts[n]);
        CHECK_EQ(puts[n].code, RPC_UNAVAILABLE);
        CHECK_STR(buf_str(&puts[n].text),
                  n == next
                      ? "etcdserver: request timed out, possibly due to previous leader failure"
                      : "etcdserver: request timed out");
        visit_free(&puts[n]);
    }

    cluster_rig_close(&r);
}
