/* Members that crash, stall and are cut off at random while a client writes: what was acknowledged
 * stays, and in the end all members are equal. The simulator does this with far more care; here is
 * what can be run in a second. */
#include "base/rng.h"
#include "server/cluster_rig_test.h"
#include "server/digest.h"

#include <stdio.h>

enum { WRITES_MAX = 400, WRITE_MS = 4000 };

struct storm {
    struct cluster_rig cluster;
    struct rng rng;
    bool cut[CLUSTER_RIG_MAX + 1];
    unsigned writes;
    bool acknowledged[WRITES_MAX];
};

static unsigned pick(struct storm *s, unsigned count)
{
    return (unsigned)rng_below(&s->rng, count);
}

static unsigned pick_member(struct storm *s)
{
    return 1 + pick(s, s->cluster.count);
}

static void disturb(struct storm *s)
{
    struct cluster_rig *r = &s->cluster;
    unsigned n = pick_member(s);
    struct cluster_rig_host *h = r->at[n];

    if (!h->server) {
        cluster_rig_start(r, n);
        return;
    }
    switch (pick(s, 5)) {
    case 0:
        cluster_rig_crash(r, n);
        return;
    case 1:
    case 2:
        cluster_rig_pause(r, n, !h->is_paused);
        return;
    default:
        s->cut[n] = !s->cut[n];
        cluster_rig_cut(r, n, s->cut[n]);
        return;
    }
}

static const char *key_of(unsigned write)
{
    static char key[16];

    snprintf(key, sizeof(key), "k%u", write);
    return key;
}

/* By any member; what is not answered in time may have happened or not. */
static void write_some(struct storm *s)
{
    struct cluster_rig *r = &s->cluster;
    unsigned n = pick_member(s), write = s->writes;
    struct visit v;

    if (!r->at[n]->server || !r->at[n]->client)
        return;
    cluster_rig_ask(
        r, n, &v, "/etcdserverpb.KV/Put", &pb_put_request_schema,
        &(struct pb_put_request){.key = bytes_of_str(key_of(write)), .value = BYTES("v")});
    uint64_t until_ms = cluster_rig_now_ms(r) + 1 + pick(s, WRITE_MS);
    while (!v.is_over && cluster_rig_now_ms(r) < until_ms)
        cluster_rig_step(r);
    s->acknowledged[write] = v.is_over && v.code == RPC_OK;
    s->writes++;
    visit_free(&v);
}

static void heal(struct storm *s)
{
    struct cluster_rig *r = &s->cluster;

    for (unsigned n = 1; n <= r->count; n++) {
        cluster_rig_cut(r, n, false);
        cluster_rig_pause(r, n, false);
        if (!r->at[n]->server)
            cluster_rig_start(r, n);
    }
    uint64_t until_ms = cluster_rig_now_ms(r) + 30000;
    for (unsigned n = 1; n <= r->count; n++)
        while (!r->at[n]->ready) {
            CHECK(cluster_rig_now_ms(r) < until_ms); /* or it never gets well */
            cluster_rig_step(r);
        }
}

static void check_equal(struct cluster_rig *r)
{
    struct digest first, other;

    CHECK(server_digest(r->at[1]->server, &first));
    for (unsigned n = 2; n <= r->count; n++) {
        CHECK(server_digest(r->at[n]->server, &other));
        CHECK_EQ(other.applied, first.applied);
        CHECK_EQ(other.revision, first.revision);
        CHECK_EQ(other.compact_revision, first.compact_revision);
        for (int i = 0; i < DIGEST_PARTS; i++)
            CHECK_EQ(other.parts[i], first.parts[i]);
    }
}

static void check_all(struct storm *s)
{
    struct cluster_rig *r = &s->cluster;
    unsigned count = 0;

    cluster_rig_for_ms(r, 10000); /* writes that were given up are applied by now, or never */
    unsigned leader = cluster_rig_leader(r);
    cluster_rig_put(r, leader, "last", "v");
    cluster_rig_until_equal(r, leader);
    check_equal(r);
    for (unsigned i = 0; i < s->writes; i++) {
        if (!s->acknowledged[i])
            continue;
        CHECK_STR(cluster_rig_get(r, pick_member(s), key_of(i), true), "v");
        count++;
    }
    CHECK(count > 10);
}

static void run_storm(uint64_t seed, unsigned members)
{
    struct storm s = {0};
    rng_seed(&s.rng, seed);
    cluster_rig_open_seeded(&s.cluster, members, NULL, seed);
    cluster_rig_start_all(&s.cluster);

    while (s.writes < 60) {
        if (pick(&s, 3) == 0)
            disturb(&s);
        cluster_rig_for_ms(&s.cluster, 1 + pick(&s, 300));
        if (pick(&s, 4) == 0)
            heal(&s);
        write_some(&s);
    }
    heal(&s);
    check_all(&s);

    cluster_rig_close(&s.cluster);
}

TEST(whatever_happens_to_three_members_acknowledged_writes_stay)
{
    for (unsigned i = 0; i < 5 * test_effort(); i++)
        run_storm(test_seed() + i, 3);
}

TEST(whatever_happens_to_five_members_acknowledged_writes_stay)
{
    for (unsigned i = 0; i < 2 * test_effort(); i++)
        run_storm(test_seed() + 1000 + i, 5);
}
