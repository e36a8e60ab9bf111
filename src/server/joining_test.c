/* A member joins a cluster that exists: as a voter or a learner, in spite of crashes, and what is
 * refused. */
#include "server/membership_rig_test.h"

#include <stdio.h>

static const char *url_of(unsigned n)
{
    static char url[32];

    snprintf(url, sizeof(url), "http://10.0.0.%u:2380", n);
    return url;
}

/* Adds it by member 1, and starts it. */
static unsigned join(struct cluster_rig *r, bool is_learner)
{
    unsigned n = cluster_rig_add_host(r, NULL);

    const char *told = membership_add(r, 1, url_of(n), is_learner, NULL);
    if (told[0] == 'e')
        test_fail(__FILE__, __LINE__, "m%u is not added: %s", n, told);
    cluster_rig_start(r, n);
    cluster_rig_until_ready(r, n);
    return n;
}

TEST(a_member_joins_and_has_what_was_written_before)
{
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    cluster_rig_put(&r, 1, "k", "before");

    unsigned n = join(&r, false);

    CHECK_STR(cluster_rig_get(&r, n, "k", false), "before");
    CHECK_EQ(server_status(r.at[n]->server).cluster_id, server_status(r.at[1]->server).cluster_id);
    cluster_rig_put(&r, n, "k", "after");
    CHECK_STR(cluster_rig_get(&r, 1, "k", false), "after");
    CHECK_STR(membership_list(&r, n, true), "1:m1 2:m2 3:m3 4:m4");
    cluster_rig_close(&r);
}

/* Each of them has to be there before the next, or there would be no quorum. */
TEST(a_cluster_of_one_grows_to_five_and_each_may_be_started_again)
{
    struct cluster_rig r;
    membership_open(&r, 1, NULL);
    for (unsigned n = 2; n <= 5; n++) {
        CHECK_EQ(join(&r, false), n);
        cluster_rig_put(&r, n, "k", "v");
        cluster_rig_for_ms(&r, 6000);
    }
    CHECK_STR(membership_list(&r, 5, true), "1:m1 2:m2 3:m3 4:m4 5:m5");

    for (unsigned n = 1; n <= 5; n++)
        cluster_rig_crash(&r, n);
    cluster_rig_start_all(&r); /* the flags of the first know of nobody else */

    CHECK_STR(membership_list(&r, 1, true), "1:m1 2:m2 3:m3 4:m4 5:m5");
    CHECK_STR(cluster_rig_get(&r, 5, "k", false), "v");
    cluster_rig_close(&r);
}

/* --- learners --- */

#define FOR_LEARNERS "etcdserver: rpc not supported for learner"

static const char *ask_learner(struct cluster_rig *r, unsigned n, bool serializable)
{
    static char text[128];
    struct visit v;

    cluster_rig_ask(r, n, &v, "/etcdserverpb.KV/Range", &pb_range_request_schema,
                    &(struct pb_range_request){.key = BYTES("k"), .serializable = serializable});
    cluster_rig_until_over(r, &v);
    snprintf(text, sizeof(text), "%s", buf_str(&v.text));
    visit_free(&v);
    return text;
}

/* By a follower, which asks the leader for it; or by the leader. */
TEST(a_learner_follows_and_is_promoted_by_whichever_member)
{
    for (unsigned leads = 0; leads < 2; leads++) {
        struct cluster_rig r;
        membership_open(&r, 3, NULL);
        cluster_rig_put(&r, 1, "k", "v");
        unsigned n = join(&r, true);
        uint64_t id = membership_id(&r, n);

        CHECK_STR(membership_list(&r, n, true), FOR_LEARNERS);
        CHECK_STR(membership_change(&r, n, "MemberPromote", id), FOR_LEARNERS);
        CHECK_STR(ask_learner(&r, n, true), "");
        CHECK_STR(ask_learner(&r, n, false), FOR_LEARNERS);
        unsigned by = leads ? cluster_rig_leader(&r) : cluster_rig_follower(&r);
        CHECK_STR(membership_change(&r, by, "MemberPromote", id), "1:m1 2:m2 3:m3 4:m4");
        CHECK_STR(membership_change(&r, by, "MemberPromote", id),
                  "etcdserver: can only promote a learner member");
        CHECK_STR(membership_change(&r, by, "MemberPromote", 7), "etcdserver: member not found");
        CHECK_STR(cluster_rig_get(&r, n, "k", false), "v");
        CHECK_STR(membership_list(&r, n, true), "1:m1 2:m2 3:m3 4:m4");
        cluster_rig_crash(&r, n);
        cluster_rig_start(&r, n);
        cluster_rig_until_ready(&r, n);
        CHECK_STR(membership_list(&r, n, true), "1:m1 2:m2 3:m3 4:m4");
        cluster_rig_close(&r);
    }
}

/* It has no vote, and does not make itself leader when all others are gone. */
TEST(a_learner_is_a_learner_after_a_restart_and_never_leads)
{
    struct cluster_rig r;
    membership_open(&r, 1, NULL);
    unsigned n = join(&r, true);
    cluster_rig_crash(&r, n);
    cluster_rig_start(&r, n);
    cluster_rig_until_ready(&r, n);
    CHECK_STR(membership_list(&r, n, false), FOR_LEARNERS);
    CHECK_STR(membership_list(&r, 1, true), "1:m1 2:m2(learner)");

    cluster_rig_crash(&r, 1);
    cluster_rig_for_ms(&r, 10000);

    CHECK(!server_status(r.at[n]->server).is_leader);
    CHECK_EQ(server_status(r.at[n]->server).vote, 0);
    cluster_rig_close(&r);
}

TEST(a_learner_that_is_behind_is_not_promoted)
{
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    unsigned n = join(&r, true);
    uint64_t id = membership_id(&r, n);
    cluster_rig_pause(&r, n, true);
    for (unsigned i = 0; i < 30; i++)
        cluster_rig_put(&r, 1, "k", "v");

    CHECK_STR(membership_change(&r, cluster_rig_follower(&r), "MemberPromote", id),
              "etcdserver: can only promote a learner member which is in sync with leader");
    cluster_rig_pause(&r, n, false);
    cluster_rig_until_equal(&r, 1);
    cluster_rig_for_ms(&r, 1000);
    CHECK_STR(membership_change(&r, cluster_rig_follower(&r), "MemberPromote", id),
              "1:m1 2:m2 3:m3 4:m4");
    cluster_rig_close(&r);
}

/* It hears of the new leader and of the client in one turn, and takes itself for the leader until
 * its end. etcd's client is never told that it has asked the wrong member: that one asks on. */
TEST(a_leader_that_was_replaced_while_it_stood_has_the_learner_promoted_by_the_next)
{
    struct cluster_rig r;
    struct visit v;
    membership_open(&r, 3, NULL);
    unsigned n = join(&r, true);
    uint64_t id = membership_id(&r, n);
    unsigned before = cluster_rig_leader(&r);

    cluster_rig_freeze(&r, before, true);
    CHECK(cluster_rig_leader(&r) != before);
    cluster_rig_for_ms(&r, 3000);
    cluster_rig_ask(&r, before, &v, "/etcdserverpb.Cluster/MemberPromote",
                    &pb_member_remove_request_schema, &(struct pb_member_id){.id = id});
    cluster_rig_for_ms(&r, 100);
    cluster_rig_freeze(&r, before, false);

    CHECK_STR(membership_told(&r, &v, NULL), "1:m1 2:m2 3:m3 4:m4");
    cluster_rig_close(&r);
}

/* --- crashes --- */

/* At whatever moment its power goes, whoever joins comes to be a member, and founds nothing. */
TEST(a_joining_that_is_cut_short_is_made_good)
{
    for (unsigned steps = 1; steps < 300; steps += 7) {
        struct cluster_rig r;
        membership_open(&r, 1, NULL);
        cluster_rig_put(&r, 1, "k", "v");
        unsigned n = cluster_rig_add_host(&r, NULL);
        CHECK_STR(membership_add(&r, 1, url_of(n), false, NULL), "1:m1 2:-");

        cluster_rig_start(&r, n);
        for (unsigned i = 0; i < steps; i++)
            cluster_rig_step(&r);
        cluster_rig_crash(&r, n);
        cluster_rig_start(&r, n);
        cluster_rig_until_ready(&r, n);

        CHECK_STR(cluster_rig_get(&r, n, "k", false), "v");
        CHECK_STR(membership_list(&r, n, true), "1:m1 2:m2");
        CHECK_EQ(server_status(r.at[n]->server).cluster_id,
                 server_status(r.at[1]->server).cluster_id);
        cluster_rig_close(&r);
    }
}

/* --- growing, shrinking --- */

/* Whoever is left alone leads, whether or not it led before, and the cluster can grow again. */
TEST(a_cluster_shrinks_to_one_and_grows_again)
{
    for (unsigned leader_stays = 0; leader_stays < 2; leader_stays++) {
        struct cluster_rig r;
        membership_open(&r, 3, NULL);
        cluster_rig_put(&r, 1, "k", "v");
        unsigned first = cluster_rig_leader(&r), stays = first;
        for (unsigned n = 1; n <= 3 && !leader_stays; n++)
            stays = n != first ? n : stays;

        for (unsigned n = 1; n <= 3; n++) {
            if (n == stays)
                continue;
            char url[2];
            snprintf(url, sizeof(url), "%u", stays);
            const char *left = membership_change(&r, stays, "MemberRemove", membership_id(&r, n));
            CHECK(strstr(left, url));
            cluster_rig_expel(&r, n);
            cluster_rig_until_stopped(&r, n);
            cluster_rig_leader(&r);
            cluster_rig_for_ms(&r, 6000);
        }
        CHECK_EQ(cluster_rig_leader(&r), stays);
        cluster_rig_put(&r, stays, "k", "alone");
        cluster_rig_crash(&r, stays);
        cluster_rig_start(&r, stays);
        cluster_rig_until_ready(&r, stays);
        CHECK_STR(cluster_rig_get(&r, stays, "k", false), "alone");

        unsigned n = cluster_rig_add_host(&r, NULL);
        CHECK(strstr(membership_add(&r, stays, url_of(n), false, NULL), "4:-"));
        cluster_rig_start(&r, n);
        cluster_rig_until_ready(&r, n);
        CHECK_STR(cluster_rig_get(&r, n, "k", false), "alone");
        cluster_rig_close(&r);
    }
}

/* Members changed while it was away: what counts is the log, not its flags. */
TEST(a_member_that_was_away_learns_who_the_members_are_now)
{
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    cluster_rig_stop(&r, 3);
    cluster_rig_leader(&r);
    cluster_rig_for_ms(&r, 6000);
    r.at[3]->is_out = true; /* nobody waits for it */
    CHECK_STR(membership_update(&r, 1, membership_id(&r, 2), "http://10.0.0.2:2380"),
              "1:m1 2:m2 3:m3");
    r.at[3]->is_out = false;

    cluster_rig_start(&r, 3);
    cluster_rig_until_ready(&r, 3);
    cluster_rig_for_ms(&r, 6000);
    unsigned n = join(&r, false);
    cluster_rig_stop(&r, n);
    cluster_rig_start(&r, n);
    cluster_rig_until_ready(&r, n);

    CHECK_STR(membership_list(&r, 3, true), "1:m1 2:m2 3:m3 4:m4");
    CHECK_STR(membership_list(&r, n, true), "1:m1 2:m2 3:m3 4:m4");
    cluster_rig_close(&r);
}

/* --- by force --- */

/* The majority is lost for good, and an operator says who is to go on. */
TEST(one_of_three_goes_on_by_itself_if_it_is_told_to)
{
    static const char *const force[] = {"--force-new-cluster", NULL};
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    cluster_rig_put(&r, 1, "k", "before");
    cluster_rig_until_equal(&r, 1);
    uint64_t id = membership_id(&r, 1), second = membership_id(&r, 2);
    uint64_t cluster_id = server_status(r.at[1]->server).cluster_id;
    for (unsigned n = 1; n <= 3; n++)
        cluster_rig_crash(&r, n);
    r.at[2]->is_out = r.at[3]->is_out = true;

    cluster_rig_set_flags(&r, 1, force);
    cluster_rig_start(&r, 1);
    cluster_rig_until_ready(&r, 1);
    CHECK_STR(membership_list(&r, 1, true), "1:m1");
    CHECK_EQ(membership_id(&r, 1), id);
    CHECK_EQ(server_status(r.at[1]->server).cluster_id, cluster_id);
    CHECK_STR(cluster_rig_get(&r, 1, "k", false), "before");
    cluster_rig_put(&r, 1, "k", "alone");
    for (unsigned i = 0; i < 2; i++) { /* with the flag once more, then without */
        cluster_rig_crash(&r, 1);
        cluster_rig_set_flags(&r, 1, i == 0 ? force : NULL);
        cluster_rig_start(&r, 1);
        cluster_rig_until_ready(&r, 1);
        CHECK_STR(cluster_rig_get(&r, 1, "k", false), "alone");
    }

    cluster_rig_start(&r, 2); /* and whoever comes back of the others is told */
    cluster_rig_expel(&r, 2);
    cluster_rig_until_stopped(&r, 2);
    CHECK_STR(membership_change(&r, 1, "MemberRemove", second), "etcdserver: member not found");
    unsigned n = join(&r, false);
    CHECK_STR(cluster_rig_get(&r, n, "k", false), "alone");
    cluster_rig_close(&r);
}

/* At whatever moment power goes meanwhile. */
TEST(a_new_cluster_by_force_that_is_cut_short_is_made_good)
{
    static const char *const force[] = {"--force-new-cluster", NULL};

    for (unsigned steps = 1; steps < 60; steps += 3) {
        struct cluster_rig r;
        membership_open(&r, 3, NULL);
        cluster_rig_put(&r, 1, "k", "v");
        cluster_rig_until_equal(&r, 1);
        for (unsigned n = 1; n <= 3; n++)
            cluster_rig_crash(&r, n);
        r.at[2]->is_out = r.at[3]->is_out = true;

        cluster_rig_set_flags(&r, 1, force);
        cluster_rig_start(&r, 1);
        for (unsigned i = 0; i < steps; i++)
            cluster_rig_step(&r);
        cluster_rig_crash(&r, 1);
        cluster_rig_start(&r, 1);
        cluster_rig_until_ready(&r, 1);

        CHECK_STR(membership_list(&r, 1, true), "1:m1");
        CHECK_STR(cluster_rig_get(&r, 1, "k", false), "v");
        cluster_rig_close(&r);
    }
}

/* A cluster of three whose leader has proposed to remove one of the others, and the one alone has
 * it on its disk, when all of them lose power. Returns which that is; it is told to go on. */
static unsigned remove_and_crash(struct cluster_rig *r)
{
    static const char *const lax[] = {"--strict-reconfig-check=false", NULL};
    static const char *const force[] = {"--force-new-cluster", NULL};
    struct visit v;

    membership_open(r, 3, lax);
    cluster_rig_put(r, 1, "k", "v");
    cluster_rig_until_equal(r, 1);
    unsigned leader = cluster_rig_leader(r), left = leader == 1 ? 2 : 1;
    unsigned third = 6 - leader - left;
    cluster_rig_crash(r, third);
    uint64_t before = server_status(r->at[left]->server).log_durable;
    cluster_rig_ask(r, leader, &v, "/etcdserverpb.Cluster/MemberRemove",
                    &pb_member_remove_request_schema,
                    &(struct pb_member_id){.id = membership_id(r, left)});
    while (server_status(r->at[left]->server).log_durable == before)
        cluster_rig_step(r);
    CHECK_EQ(server_status(r->at[left]->server).committed, before);
    visit_free(&v);
    cluster_rig_crash(r, left);
    cluster_rig_crash(r, leader);
    r->at[leader]->is_out = r->at[third]->is_out = true;
    cluster_rig_set_flags(r, left, force);
    return left;
}

/* What the last majority was about to do with it is for the operator to overrule. */
TEST(one_that_was_about_to_be_removed_goes_on_by_itself_if_it_is_told_to)
{
    struct cluster_rig r;
    unsigned n = remove_and_crash(&r);

    cluster_rig_start(&r, n);
    cluster_rig_until_ready(&r, n);
    CHECK(cluster_rig_logged(&r, n, "discarding uncommitted WAL entries"));
    CHECK_STR(cluster_rig_get(&r, n, "k", false), "v");
    cluster_rig_put(&r, n, "k", "alone");
    for (unsigned i = 0; i < 2; i++) { /* with the flag once more, then without */
        cluster_rig_crash(&r, n);
        if (i > 0)
            cluster_rig_set_flags(&r, n, NULL);
        cluster_rig_start(&r, n);
        cluster_rig_until_ready(&r, n);
        CHECK_STR(cluster_rig_get(&r, n, "k", false), "alone");
    }
    cluster_rig_close(&r);
}

/* At whatever moment power goes meanwhile: the removal is in the log until others take its place.
 */
TEST(one_that_was_about_to_be_removed_goes_on_also_if_that_is_cut_short)
{
    for (unsigned steps = 1; steps < 60; steps += 3) {
        struct cluster_rig r;
        unsigned n = remove_and_crash(&r);

        cluster_rig_start(&r, n);
        for (unsigned i = 0; i < steps; i++)
            cluster_rig_step(&r);
        cluster_rig_crash(&r, n);
        cluster_rig_start(&r, n);
        cluster_rig_until_ready(&r, n);

        CHECK_STR(membership_list(&r, n, true), n == 1 ? "1:m1" : "2:m2");
        CHECK_STR(cluster_rig_get(&r, n, "k", false), "v");
        cluster_rig_close(&r);
    }
}

/* Its log has the promotion, and its store does not have it yet. */
TEST(a_learner_whose_promotion_is_in_its_log_goes_on_by_itself_if_it_is_told_to)
{
    static const char *const force[] = {"--force-new-cluster", NULL};
    struct cluster_rig r;
    struct visit v;
    membership_open(&r, 1, NULL);
    unsigned n = join(&r, true);
    cluster_rig_until_equal(&r, 1);
    cluster_rig_for_ms(&r, 6000);
    uint64_t before = server_status(r.at[n]->server).applied;
    cluster_rig_ask(&r, 1, &v, "/etcdserverpb.Cluster/MemberPromote",
                    &pb_member_remove_request_schema,
                    &(struct pb_member_id){.id = membership_id(&r, n)});
    while (server_status(r.at[n]->server).applied == before)
        cluster_rig_step(&r);
    CHECK_EQ(server_status(r.at[n]->server).durable_store, before);
    visit_free(&v);
    cluster_rig_crash(&r, n);
    cluster_rig_crash(&r, 1);
    r.at[1]->is_out = true;

    cluster_rig_set_flags(&r, n, force);
    cluster_rig_start(&r, n);
    cluster_rig_until_ready(&r, n);

    CHECK_STR(membership_list(&r, n, true), "2:m2");
    cluster_rig_put(&r, n, "k", "alone");
    cluster_rig_close(&r);
}

/* --- what is refused --- */

static void check_refused(struct cluster_rig *r, unsigned n, const char *why)
{
    struct cluster_rig_host *h = r->at[n];

    h->may_fail = true;
    if (cluster_rig_try_start(r, n) == ERR_OK) {
        while (!h->failed)
            cluster_rig_step(r);
        struct buf text = h->why;
        h->why = (struct buf){0};
        cluster_rig_crash(r, n);
        h->why = text;
    }
    if (!strstr(buf_str(&h->why), why))
        test_fail(__FILE__, __LINE__, "m%u was refused with:\n%s\nnot with:\n%s", n,
                  buf_str(&h->why), why);
}

static void refuse_flags(struct cluster_rig *r, unsigned n, const char *initial_cluster,
                         const char *why)
{
    const char *const flags[] = {"--initial-cluster-state", "existing", "--initial-cluster",
                                 initial_cluster, NULL};

    cluster_rig_set_flags(r, n, flags);
    check_refused(r, n, why);
}

TEST(who_does_not_know_the_cluster_does_not_join_it)
{
    struct cluster_rig r;
    membership_open(&r, 1, NULL);
    unsigned n = cluster_rig_add_host(&r, NULL);

    check_refused(&r, n, "] RemovedMemberIDs:[]}: member count is unequal"); /* nobody added it */
    CHECK_STR(membership_add(&r, 1, url_of(n), false, NULL), "1:m1 2:-");
    refuse_flags(&r, n, "m2=http://10.0.0.2:2380",
                 "cannot fetch cluster info from peer urls: could not retrieve cluster "
                 "information from the given URLs");
    refuse_flags(&r, n, "m2=http://10.0.0.2:2380,m1=http://10.0.0.9:2380",
                 "could not retrieve cluster information from the given URLs");
    refuse_flags(&r, n, "m3=http://10.0.0.2:2380,m1=http://10.0.0.1:2380",
                 "couldn't find local name \"m2\" in the initial cluster configuration");
    refuse_flags(&r, n, "m2=http://10.0.0.1:2380,m1=http://10.0.0.1:2380", "has duplicate url");
    refuse_flags(&r, n, "m2=http://10.0.0.3:2380,m1=http://10.0.0.1:2380",
                 "PeerURLs: no match found for existing member (");
    refuse_flags(&r, n, "m2=http://10.0.0.3:2380,m1=http://10.0.0.1:2380",
                 ", [http://10.0.0.2:2380]), last resolver error (resolved urls: ");

    const char *const flags[] = {"--initial-cluster-state", "existing", NULL};
    cluster_rig_set_flags(&r, n, flags);
    cluster_rig_start(&r, n); /* nothing of all that is left behind */
    cluster_rig_until_ready(&r, n);
    cluster_rig_close(&r);
}

/* Also while only its log says that it was added as one. */
TEST(a_learner_is_no_cluster_by_itself)
{
    static const char *const force[] = {"--force-new-cluster", NULL};

    for (unsigned is_stored = 0; is_stored < 2; is_stored++) {
        struct cluster_rig r;
        membership_open(&r, 1, NULL);
        unsigned n = cluster_rig_add_host(&r, NULL);
        membership_add(&r, 1, url_of(n), true, NULL);
        fake_workers_hang(&r.at[n]->store_worker, is_stored ? 0 : FAKE_DISK_FOR_EVER);
        cluster_rig_start(&r, n);
        cluster_rig_until_ready(&r, n);
        cluster_rig_until_equal(&r, 1);
        cluster_rig_for_ms(&r, 1000);
        CHECK_EQ(server_status(r.at[n]->server).durable_store > 0, is_stored);
        cluster_rig_crash(&r, n);

        cluster_rig_set_flags(&r, n, force);
        check_refused(&r, n, "this member is a learner, and cannot be a cluster by itself");
        cluster_rig_close(&r);
    }
}

/* Under its old id it would vote twice. */
TEST(a_member_that_lost_its_disks_does_not_come_back_under_its_old_id)
{
    static const char *const existing[] = {"--initial-cluster-state", "existing", NULL};
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    uint64_t third = membership_id(&r, 3);

    cluster_rig_lose_disks(&r, 3);
    check_refused(&r, 3, "has already been bootstrapped");
    cluster_rig_set_flags(&r, 3, existing);
    check_refused(&r, 3, "has already been bootstrapped");
    r.at[3]->may_fail = false;
    cluster_rig_leader(&r);
    CHECK_STR(membership_change(&r, 1, "MemberRemove", third), "1:m1 2:m2");
    cluster_rig_for_ms(&r, 6000);
    CHECK_STR(membership_add(&r, 1, url_of(3), false, NULL), "1:m1 2:m2 3:-");
    cluster_rig_start(&r, 3);
    cluster_rig_until_ready(&r, 3);

    CHECK(membership_id(&r, 3) != third);
    CHECK_STR(membership_list(&r, 3, true), "1:m1 2:m2 3:m3");
    cluster_rig_close(&r);
}

TEST(a_member_can_be_stopped_while_it_asks_who_it_is)
{
    struct cluster_rig r;
    membership_open(&r, 1, NULL);
    unsigned n = cluster_rig_add_host(&r, NULL);
    cluster_rig_pause(&r, 1, true);

    cluster_rig_start(&r, n);
    cluster_rig_for_ms(&r, 2000);
    cluster_rig_stop(&r, n);
    cluster_rig_pause(&r, 1, false);
    cluster_rig_close(&r);
}
