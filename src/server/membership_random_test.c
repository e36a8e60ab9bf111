/* Members come, go, learn, are promoted, replaced and crash at random while a client writes: what
 * was acknowledged stays, and in the end all of them are equal and know the same members. */
#include "base/rng.h"
#include "server/digest.h"
#include "server/membership_rig_test.h"

#include <stdio.h>

enum { WRITES_MAX = 400, WRITES_AT_ONCE = 3, ROUNDS = 25, HEAL_MS = 60000, HOSTS = 7 };

struct traffic {
    struct cluster_rig cluster;
    struct rng rng;
    uint64_t ids[HOSTS + 1];
    bool learns[HOSTS + 1];
    unsigned changes; /* that were made */
    unsigned writes;
    bool acknowledged[WRITES_MAX];
};

static unsigned pick(struct traffic *t, unsigned count)
{
    return (unsigned)rng_below(&t->rng, count);
}

static bool is_refused(const char *told)
{
    return told[0] == 'e';
}

/* Any that is a member, or is not; but not this one. 0: there is none. */
static unsigned pick_host(struct traffic *t, bool is_member, unsigned but)
{
    unsigned found[HOSTS], count = 0;

    for (unsigned n = 1; n <= t->cluster.count; n++)
        if (n != but && !t->cluster.at[n]->is_out == is_member)
            found[count++] = n;
    return count > 0 ? found[pick(t, count)] : 0;
}

/* Whom to ask: a voter, who answers everything. */
static unsigned pick_voter(struct traffic *t)
{
    unsigned n;

    do
        n = pick_host(t, true, 0);
    while (t->learns[n]);
    return n;
}

/* --- load --- */

static const char *key_of(unsigned write)
{
    static char key[16];

    snprintf(key, sizeof(key), "k%u", write);
    return key;
}

static void begin_writes(struct traffic *t, unsigned n, struct visit *v)
{
    for (unsigned i = 0; i < WRITES_AT_ONCE; i++)
        cluster_rig_ask(&t->cluster, n, &v[i], "/etcdserverpb.KV/Put", &pb_put_request_schema,
                        &(struct pb_put_request){.key = bytes_of_str(key_of(t->writes + i)),
                                                 .value = BYTES("v")});
}

/* What failed may have happened or not. */
static void end_writes(struct traffic *t, struct visit *v)
{
    for (unsigned i = 0; i < WRITES_AT_ONCE; i++) {
        cluster_rig_until_over(&t->cluster, &v[i]);
        t->acknowledged[t->writes++] = v[i].code == RPC_OK;
        visit_free(&v[i]);
    }
}

/* --- changes --- */

static void until_ready(struct traffic *t, unsigned n)
{
    struct cluster_rig *r = &t->cluster;
    uint64_t until_ms = cluster_rig_now_ms(r) + HEAL_MS;

    while (!r->at[n]->ready) {
        CHECK(cluster_rig_now_ms(r) < until_ms); /* or it never gets well */
        cluster_rig_step(r);
    }
}

/* Whoever was not told in time may ask. */
static bool is_member_still(struct traffic *t, unsigned by, unsigned n)
{
    uint64_t until_ms = cluster_rig_now_ms(&t->cluster) + HEAL_MS;
    char text[8];
    const char *list;

    while (is_refused(list = membership_list(&t->cluster, by, true)))
        CHECK(cluster_rig_now_ms(&t->cluster) < until_ms);
    snprintf(text, sizeof(text), "%u:", n);
    return strstr(list, text) != NULL;
}

/* On empty disks. It may crash on its way, or be started only later. */
static void start_new(struct traffic *t, unsigned n)
{
    static const char *const existing[] = {"--initial-cluster-state", "existing", NULL};
    struct cluster_rig *r = &t->cluster;

    cluster_rig_lose_disks(r, n);
    cluster_rig_set_flags(r, n, existing);
    cluster_rig_start(r, n);
    if (pick(t, 3) == 0) {
        for (unsigned steps = pick(t, 200); steps > 0; steps--)
            cluster_rig_step(r);
        cluster_rig_crash(r, n);
        cluster_rig_start(r, n);
    }
    until_ready(t, n);
    t->ids[n] = membership_id(r, n);
}

static void add_one(struct traffic *t, unsigned by)
{
    unsigned n = pick_host(t, false, 0);
    bool is_learner = pick(t, 2) == 0;
    char url[32];

    if (n == 0)
        return;
    snprintf(url, sizeof(url), "http://10.0.0.%u:2380", n);
    if (is_refused(membership_add(&t->cluster, by, url, is_learner, NULL)) &&
        !is_member_still(t, by, n))
        return;
    t->changes++;
    t->cluster.at[n]->is_out = false;
    t->learns[n] = is_learner;
    start_new(t, n);
}

static void promote_one(struct traffic *t, unsigned by)
{
    for (unsigned n = 1; n <= t->cluster.count; n++) {
        if (t->cluster.at[n]->is_out || !t->learns[n])
            continue;
        membership_change(&t->cluster, by, "MemberPromote", t->ids[n]);
        char text[32];
        snprintf(text, sizeof(text), "%u:m%u(learner)", n, n);
        t->learns[n] = strstr(membership_list(&t->cluster, by, true), text) != NULL;
        t->changes += !t->learns[n];
    }
}

/* It stops by itself, also if it is down and comes back without knowing. */
static void remove_one(struct traffic *t, unsigned by)
{
    struct cluster_rig *r = &t->cluster;
    unsigned n = pick_host(t, true, by);

    if (n == 0)
        return;
    bool is_down = pick(t, 3) == 0;
    if (is_down)
        cluster_rig_crash(r, n);
    cluster_rig_expel(r, n);
    bool is_told = !is_refused(membership_change(r, by, "MemberRemove", t->ids[n]));
    if (is_down) {
        cluster_rig_start(r, n);
        cluster_rig_expel(r, n);
    }
    if (!is_told && is_member_still(t, by, n)) {
        cluster_rig_readmit(r, n);
        return;
    }
    cluster_rig_until_stopped(r, n);
    t->changes++;
}

static void crash_one(struct traffic *t, unsigned but)
{
    unsigned n = pick_host(t, true, but);

    if (n == 0)
        return;
    cluster_rig_crash(&t->cluster, n);
    cluster_rig_for_ms(&t->cluster, 1 + pick(t, 3000));
    cluster_rig_start(&t->cluster, n);
}

static void change_something(struct traffic *t, unsigned by)
{
    switch (pick(t, 6)) {
    case 0:
    case 1:
        add_one(t, by);
        return;
    case 2:
        promote_one(t, by);
        return;
    case 3:
        remove_one(t, by);
        return;
    case 4: /* a replacement */
        remove_one(t, by);
        cluster_rig_for_ms(&t->cluster, 6000);
        add_one(t, by);
        return;
    default:
        crash_one(t, by);
        return;
    }
}

/* --- in the end --- */

static void settle(struct traffic *t)
{
    struct cluster_rig *r = &t->cluster;

    for (unsigned n = 1; n <= r->count; n++)
        if (!r->at[n]->is_out)
            until_ready(t, n);
    unsigned leader = cluster_rig_leader(r);
    cluster_rig_put(r, leader, "settled", "v");
    cluster_rig_for_ms(r, 6000); /* healthy, by etcd's measure */
}

static void check_equal(struct cluster_rig *r, unsigned with)
{
    struct digest first, other;

    CHECK(server_digest(r->at[with]->server, &first));
    for (unsigned n = 1; n <= r->count; n++) {
        if (r->at[n]->is_out)
            continue;
        CHECK(server_digest(r->at[n]->server, &other));
        CHECK_EQ(other.applied, first.applied);
        CHECK_EQ(other.revision, first.revision);
        for (int i = 0; i < DIGEST_PARTS; i++)
            CHECK_EQ(other.parts[i], first.parts[i]);
    }
}

static void check_members(struct traffic *t, unsigned by)
{
    struct buf want = {0};

    for (unsigned n = 1; n <= t->cluster.count; n++)
        if (!t->cluster.at[n]->is_out)
            buf_printf(&want, "%s%u:m%u%s", want.len > 0 ? " " : "", n, n,
                       t->learns[n] ? "(learner)" : "");
    CHECK_STR(membership_list(&t->cluster, by, true), buf_str(&want));
    buf_free(&want);
}

static void check_all(struct traffic *t)
{
    struct cluster_rig *r = &t->cluster;
    unsigned by = pick_voter(t);

    cluster_rig_put(r, by, "last", "v");
    cluster_rig_until_equal(r, by);
    check_members(t, by);
    check_equal(r, by);
    for (unsigned i = 0; i < t->writes; i++)
        if (t->acknowledged[i])
            CHECK_STR(cluster_rig_get(r, pick_host(t, true, 0), key_of(i), true), "v");
}

static void run_traffic(uint64_t seed)
{
    struct traffic t = {0};
    struct visit writes[WRITES_AT_ONCE];
    rng_seed(&t.rng, seed);
    cluster_rig_open_seeded(&t.cluster, 3, NULL, seed);
    cluster_rig_start_all(&t.cluster);
    for (unsigned n = 1; n <= 3; n++)
        t.ids[n] = membership_id(&t.cluster, n);
    while (t.cluster.count < HOSTS)
        t.cluster.at[cluster_rig_add_host(&t.cluster, NULL)]->is_out = true;

    for (unsigned round = 0; round < ROUNDS; round++) {
        settle(&t);
        unsigned by = pick_voter(&t);
        begin_writes(&t, by, writes);
        change_something(&t, by);
        end_writes(&t, writes);
    }
    settle(&t);
    check_all(&t);

    CHECK(t.changes > 3);
    cluster_rig_close(&t.cluster);
}

TEST(whoever_comes_and_goes_acknowledged_writes_stay)
{
    for (unsigned i = 0; i < 5 * test_effort(); i++)
        run_traffic(test_seed() + i);
}
