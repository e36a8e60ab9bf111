/* What other members are told, byte for byte as etcd tells it; asked of a whole member. */
#include "cluster/version.h"
#include "peer/peer.h"
#include "server/cluster_rig_test.h"
#include "server/server_int.h"

#include <stdio.h>

struct asker {
    struct cluster_rig cluster;
    struct fake_resolver resolver;
    struct io io;
    struct logger logger;
    struct peers *peers;
    uint64_t token;
    struct buf told; /* "200 body" */
};

static void asker_open(struct asker *a, unsigned members)
{
    *a = (struct asker){
        .logger = {.level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none}};
    cluster_rig_open(&a->cluster, members, NULL);
    fake_resolver_init(&a->resolver, &a->cluster.time, &a->cluster.client_inbox);
    a->io = a->cluster.client_io;
    a->io.resolver = &a->resolver.base;
    cluster_rig_start_all(&a->cluster);
    a->peers = peers_open(&(struct peers_options){.io = &a->io,
                                                  .logger = &a->logger,
                                                  .self = 0x99,
                                                  .cluster_id = 0x98,
                                                  .urls = "http://10.0.1.1:2380",
                                                  .version = SERVER_VERSION,
                                                  .seed = test_seed(),
                                                  .heartbeat_ms = 100,
                                                  .election_ms = 1000});
}

static void asker_close(struct asker *a)
{
    peers_stop(a->peers);
    while (!peers_is_idle(a->peers))
        cluster_rig_step(&a->cluster);
    peers_close(a->peers);
    buf_free(&a->told);
    cluster_rig_close(&a->cluster);
}

/* "status body", or "cluster status body" where the answer names its cluster. */
static const char *ask_with(struct asker *a, unsigned n, const char *verb, const char *path,
                            struct bytes body, bool with_cluster_id)
{
    struct peer_event e;
    char url[40];

    snprintf(url, sizeof(url), "http://10.0.0.%u:2380", n);
    peers_ask(a->peers, &(struct peer_ask){.token = ++a->token,
                                           .member = RAFT_NONE,
                                           .url = url,
                                           .verb = verb,
                                           .path = path,
                                           .content_type = body.len > 0 ? "text/plain" : NULL,
                                           .body = body,
                                           .with_cluster_id = with_cluster_id,
                                           .timeout_ms = 10000});
    peers_flush(a->peers);
    while (!peers_take(a->peers, &e)) {
        cluster_rig_step(&a->cluster);
        peers_flush(a->peers);
    }
    CHECK_EQ(e.kind, PEER_RESULT);
    CHECK_EQ(e.id, a->token);
    buf_clear(&a->told);
    buf_printf(&a->told, "%s%u %.*s", e.result_cluster_id != 0 ? "cluster " : "", e.status,
               (int)e.body.len, (const char *)e.body.at);
    peer_event_free(&e);
    return buf_str(&a->told);
}

static const char *ask(struct asker *a, const char *verb, const char *path, struct bytes body)
{
    return ask_with(a, 1, verb, path, body, false);
}

TEST(members_and_versions_are_told)
{
    struct asker a;
    struct buf want = {0};
    asker_open(&a, 1);
    cluster_rig_for_ms(&a.cluster, 1000); /* the version is decided, and the store's follows */

    buf_printf(&want,
               "cluster 200 [{\"id\":%llu,\"peerURLs\":[\"http://10.0.0.1:2380\"],\"name\":\"m1\","
               "\"clientURLs\":[\"http://10.0.0.1:2379\"]}]\n",
               (unsigned long long)server_status(a.cluster.at[1]->server).member_id);
    CHECK_STR(ask(&a, "GET", "/members", BYTES("")), buf_str(&want));
    CHECK_STR(ask(&a, "GET", "/version", BYTES("")),
              "200 {\"etcdserver\":\"3.7.1\",\"etcdcluster\":\"3.7.0\",\"storage\":\"3.7.0\"}");
    CHECK_STR(ask(&a, "GET", "/downgrade/enabled", BYTES("")), "cluster 200 false");
    CHECK_STR(ask(&a, "POST", "/members", BYTES("x")), "405 Method Not Allowed\n");
    CHECK_STR(ask(&a, "GET", "/leases", BYTES("")), "405 Method Not Allowed\n");
    CHECK_STR(ask(&a, "GET", "/nothing", BYTES("")), "404 404 page not found\n");
    CHECK_STR(ask(&a, "POST", "/members/promote/7", BYTES("x")),
              "cluster 404 membership: ID not found\n");
    CHECK_STR(ask(&a, "POST", "/members/promote/me", BYTES("x")),
              "cluster 404 member me not found in cluster\n");
    buf_free(&want);

    asker_close(&a);
}

TEST(hashes_are_told_for_any_revision_there_is)
{
    struct asker a;
    asker_open(&a, 1);
    cluster_rig_put(&a.cluster, 1, "k", "v");
    cluster_rig_put(&a.cluster, 1, "k", "w");

    const char *now = ask(&a, "GET", "/members/hashkv", BYTES("{}"));
    unsigned hash, again;
    CHECK_EQ(sscanf(now,
                    "cluster 200 {\"header\":{\"revision\":3},\"hash\":%u,\"compact_revision\":-1,"
                    "\"hash_revision\":3}",
                    &hash),
             1);
    now = ask(&a, "GET", "/members/hashkv", BYTES("{\"revision\":2}"));
    CHECK_EQ(sscanf(now,
                    "cluster 200 {\"header\":{\"revision\":3},\"hash\":%u,\"compact_revision\":-1,"
                    "\"hash_revision\":2}",
                    &again),
             1);
    CHECK(hash != again);
    CHECK_STR(ask(&a, "GET", "/members/hashkv", BYTES("{\"revision\":4}")),
              "400 mvcc: required revision is a future revision\n");
    CHECK_STR(ask(&a, "GET", "/members/hashkv", BYTES("what")),
              "400 error unmarshalling request\n");
    CHECK_STR(ask_with(&a, 1, "GET", "/members/hashkv", BYTES("{}"), true),
              "412 cluster ID mismatch\n");

    asker_close(&a);
}

enum { HASHES = PEER_ASK_CONNS_MAX, SLICES = 8 };

/* A store that takes this many slices to be hashed. */
static void fill_store(struct asker *a)
{
    enum { AT_ONCE = 100 };
    struct visit puts[AT_ONCE];

    for (unsigned done = 0; done < SLICES * MVCC_SLICE_STEPS; done += AT_ONCE) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            cluster_rig_ask(&a->cluster, 1, &puts[i], "/etcdserverpb.KV/Put",
                            &pb_put_request_schema, &(struct pb_put_request){.key = BYTES("k")});
        for (unsigned i = 0; i < AT_ONCE; i++) {
            cluster_rig_until_over(&a->cluster, &puts[i]);
            visit_free(&puts[i]);
        }
    }
}

static void ask_several(struct asker *a, const char *path, struct bytes body)
{
    for (unsigned i = 0; i < HASHES; i++)
        peers_ask(a->peers, &(struct peer_ask){.token = ++a->token,
                                               .url = "http://10.0.0.1:2380",
                                               .verb = "GET",
                                               .path = path,
                                               .content_type = body.len > 0 ? "text/plain" : NULL,
                                               .body = body,
                                               .timeout_ms = 10000});
    peers_flush(a->peers);
}

static void hear_result(struct asker *a)
{
    struct peer_event e;

    while (!peers_take(a->peers, &e))
        cluster_rig_step(&a->cluster);
    CHECK_EQ(e.status, 200);
    peer_event_free(&e);
}

/* They come in one turn, by connections that are there already. */
static void ask_for_hashes(struct asker *a)
{
    fill_store(a);
    ask_several(a, "/version", BYTES(""));
    for (unsigned i = 0; i < HASHES; i++)
        hear_result(a);
    cluster_rig_pause(&a->cluster, 1, true);
    ask_several(a, "/members/hashkv", BYTES("{}"));
    cluster_rig_for_ms(&a->cluster, 100);
    cluster_rig_pause(&a->cluster, 1, false);
    cluster_rig_step(&a->cluster);
    CHECK_EQ(a->cluster.at[1]->server->peer_requests.count, HASHES);
}

/* Else as many of them as there may be would hold up everybody else. */
TEST(a_turn_computes_a_slice_of_one_hash)
{
    struct asker a;
    unsigned steps = 0;
    asker_open(&a, 1);
    const struct peer_requests *requests = &a.cluster.at[1]->server->peer_requests;

    ask_for_hashes(&a);
    for (; requests->count == HASHES; steps++)
        cluster_rig_step(&a.cluster);

    CHECK(steps >= (HASHES - 1) * SLICES);
    for (unsigned i = 0; i < HASHES; i++)
        hear_result(&a);
    asker_close(&a);
}

TEST(a_hash_that_nobody_waits_for_is_not_computed)
{
    struct asker a;
    asker_open(&a, 1);
    struct cluster_rig_host *h = a.cluster.at[1];

    ask_for_hashes(&a);
    client_close(h->client); /* or it would be in the way of what follows */
    h->client = NULL;
    cluster_rig_pause(&a.cluster, 1, true);
    fake_wire_reset_between(a.io.net, h->io.net);
    cluster_rig_for_ms(&a.cluster, 100);
    cluster_rig_pause(&a.cluster, 1, false);
    cluster_rig_step(&a.cluster);

    CHECK_EQ(h->server->peer_requests.count, HASHES); /* asked for again, by other connections */
    for (unsigned i = 0; i < HASHES; i++)
        hear_result(&a);
    asker_close(&a);
}

TEST(a_state_that_was_replaced_is_not_asked_any_more)
{
    struct asker a;
    asker_open(&a, 1);
    cluster_rig_put(&a.cluster, 1, "k", "v");
    struct server *s = a.cluster.at[1]->server;
    CHECK(server_install_own_image(s, 0));
    while (server_installed(s) == 0)
        cluster_rig_step(&a.cluster);
    cluster_rig_put(&a.cluster, 1, "k", "w");

    const char *now = ask(&a, "GET", "/members/hashkv", BYTES("{}"));
    CHECK(strstr(now, "\"header\":{\"revision\":3}"));
    CHECK(strstr(now, "\"hash_revision\":3}"));
    CHECK(strstr(ask(&a, "GET", "/members", BYTES("")), "cluster 200 [{"));

    asker_close(&a);
}

TEST(leases_are_renewed_for_other_members_by_the_leader_alone)
{
    struct asker a;
    struct visit v;
    asker_open(&a, 3);
    unsigned leader = cluster_rig_leader(&a.cluster), follower = cluster_rig_follower(&a.cluster);
    cluster_rig_ask(&a.cluster, leader, &v, "/etcdserverpb.Lease/LeaseGrant",
                    &pb_lease_grant_request_schema,
                    &(struct pb_lease_grant_request){.id = 7, .ttl = 60});
    cluster_rig_until_over(&a.cluster, &v);
    visit_free(&v);
    cluster_rig_until_equal(&a.cluster, leader);

    static const struct bytes seven = {(const uint8_t *)"\x08\x07", 2},
                              eight = {(const uint8_t *)"\x08\x08", 2},
                              inner = {(const uint8_t *)"\x0a\x02\x08\x07", 4};
    CHECK_STR(ask_with(&a, leader, "POST", "/leases", seven, false), "200 \x10\x07\x18\x3c");
    CHECK_STR(ask_with(&a, leader, "POST", "/leases", eight, false), "404 lease not found\n");
    CHECK_STR(ask_with(&a, leader, "POST", "/leases", BYTES("\xff"), false),
              "400 error unmarshalling request\n");
    CHECK_STR(ask_with(&a, follower, "POST", "/leases", seven, false),
              "400 not a primary lessor\n");
    CHECK_STR(ask_with(&a, follower, "POST", "/leases/internal", inner, false),
              "500 not a primary lessor\n");
    const char *told = ask_with(&a, leader, "POST", "/leases/internal", inner, false);
    CHECK_EQ(memcmp(told, "200 \x0a\x08\x0a", 7), 0); /* an empty header, then the lease */

    asker_close(&a);
}

/* Nobody can answer a linearizable read where there is no leader, for as long as it may take. */
TEST(a_read_for_another_member_fails_without_a_leader)
{
    struct asker a;
    asker_open(&a, 3);
    unsigned alone = cluster_rig_follower(&a.cluster);
    for (unsigned n = 1; n <= 3; n++)
        if (n != alone)
            cluster_rig_crash(&a.cluster, n);
    while (server_status(a.cluster.at[alone]->server).leader != 0)
        cluster_rig_step(&a.cluster);

    CHECK_STR(ask_with(&a, alone, "GET", "/downgrade/enabled", BYTES(""), false),
              "cluster 500 failed linearized read: etcdserver: request timed out\n");

    asker_close(&a);
}
