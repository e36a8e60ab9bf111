/* Members come and go: what clients may ask for, what is refused, and what becomes of those who
 * were removed. */
#include "cluster/cluster.h"
#include "server/membership_rig_test.h"

#include <stdio.h>

#define NOT_ENOUGH_STARTED "etcdserver: re-configuration failed due to not enough started members"
#define UNHEALTHY          "etcdserver: unhealthy cluster"

/* --- changes --- */

TEST(members_are_added_updated_and_removed_by_whichever_member)
{
    struct cluster_rig r;
    uint64_t fourth;
    membership_open(&r, 3, NULL);

    for (unsigned n = 1; n <= 3; n++) {
        CHECK_STR(membership_add(&r, n, "http://10.0.0.4:2380", false, &fourth),
                  "1:m1 2:m2 3:m3 4:-");
        CHECK_STR(membership_list(&r, 1, true), "1:m1 2:m2 3:m3 4:-");
        CHECK_STR(membership_update(&r, n, fourth, "http://10.0.0.5:2380"), "1:m1 2:m2 3:m3 5:-");
        CHECK_STR(membership_list(&r, 2, true), "1:m1 2:m2 3:m3 5:-");
        CHECK_STR(membership_change(&r, n, "MemberRemove", fourth), "1:m1 2:m2 3:m3");
        CHECK_STR(membership_list(&r, 3, true), "1:m1 2:m2 3:m3");
        cluster_rig_for_ms(&r, 1000); /* ids are made of seconds, and never come back */
    }

    cluster_rig_close(&r);
}

/* etcd's formula, over the URLs in order and the seconds of the wall clock. */
TEST(the_id_of_a_new_member_is_made_of_its_urls_and_the_time)
{
    struct cluster_rig r;
    struct bytes urls[] = {BYTES("http://10.0.0.4:2380")};
    uint64_t id;
    membership_open(&r, 1, NULL);
    int64_t seconds = (int64_t)(clock_wall_ns(&r.at[1]->clock.base) / (1000 * NS_PER_MS));

    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4:2380", true, &id), "1:m1 4:-(learner)");

    struct url_list list = {urls, 1};
    CHECK(id == cluster_new_member_id(list, seconds) ||
          id == cluster_new_member_id(list, seconds + 1));
    cluster_rig_close(&r);
}

TEST(two_changes_at_once_are_made_one_after_the_other)
{
    struct cluster_rig r;
    struct visit first, second;
    uint64_t id;
    membership_open(&r, 3, NULL);
    unsigned leader = cluster_rig_leader(&r);

    membership_begin_add(&r, leader, "http://10.0.0.4:2380", true, &first);
    cluster_rig_ask(&r, leader, &second, "/etcdserverpb.Cluster/MemberRemove",
                    &pb_member_remove_request_schema, &(struct pb_member_id){.id = 7});

    CHECK_STR(membership_told(&r, &first, &id), "1:m1 2:m2 3:m3 4:-(learner)");
    CHECK_STR(membership_told(&r, &second, NULL), "etcdserver: member not found");
    cluster_rig_close(&r);
}

/* --- what is refused --- */

TEST(a_change_that_makes_no_sense_is_refused_in_etcds_words)
{
    struct cluster_rig r;
    membership_open(&r, 1, NULL);
    uint64_t self = membership_id(&r, 1), learner;

    CHECK_STR(membership_add(&r, 1, "", false, NULL), "etcdserver: given member URLs are invalid");
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4", false, NULL),
              "etcdserver: given member URLs are invalid");
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.1:2380", false, NULL),
              "etcdserver: Peer URLs already exists");
    CHECK_STR(membership_change(&r, 1, "MemberRemove", 7), "etcdserver: member not found");
    CHECK_STR(membership_update(&r, 1, 7, "http://10.0.0.4:2380"), "etcdserver: member not found");
    CHECK_STR(membership_update(&r, 1, self, "nonsense"),
              "etcdserver: given member URLs are invalid");
    CHECK_STR(membership_change(&r, 1, "MemberPromote", 7), "etcdserver: member not found");
    CHECK_STR(membership_change(&r, 1, "MemberPromote", self),
              "etcdserver: can only promote a learner member");
    CHECK_STR(membership_change(&r, 1, "MemberRemove", self), NOT_ENOUGH_STARTED);

    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4:2380", true, &learner), "1:m1 4:-(learner)");
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.5:2380", true, NULL),
              "etcdserver: too many learner members in cluster");
    CHECK_STR(membership_update(&r, 1, self, "http://10.0.0.4:2380"),
              "etcdserver: Peer URLs already exists");
    CHECK_STR(membership_change(&r, 1, "MemberPromote", learner),
              "etcdserver: can only promote a learner member which is in sync with leader");
    CHECK_STR(membership_change(&r, 1, "MemberRemove", learner), "1:m1");
    CHECK_STR(membership_change(&r, 1, "MemberRemove", learner), "etcdserver: member not found");
    CHECK_STR(membership_update(&r, 1, learner, "http://10.0.0.4:2380"),
              "etcdserver: member not found");
    cluster_rig_close(&r);
}

TEST(so_many_learners_as_the_operator_allows)
{
    static const char *const flags[] = {"--max-learners", "2", NULL};
    struct cluster_rig r;
    membership_open(&r, 1, flags);

    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4:2380", true, NULL), "1:m1 4:-(learner)");
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.5:2380", true, NULL),
              "1:m1 4:-(learner) 5:-(learner)");
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.6:2380", true, NULL),
              "etcdserver: too many learner members in cluster");
    cluster_rig_close(&r);
}

TEST(a_member_does_not_start_with_more_learners_than_the_operator_allows)
{
    static const char *const two[] = {"--max-learners", "2", NULL};
    struct cluster_rig r;
    membership_open(&r, 1, two);
    membership_add(&r, 1, "http://10.0.0.4:2380", true, NULL);
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.5:2380", true, NULL),
              "1:m1 4:-(learner) 5:-(learner)");

    cluster_rig_stop(&r, 1);
    cluster_rig_set_flags(&r, 1, NULL);
    CHECK_EQ(cluster_rig_try_start(&r, 1), ERR_UNSUPPORTED);
    CHECK_STR(buf_str(&r.at[1]->why), "membership: too many learner members in cluster");

    cluster_rig_set_flags(&r, 1, two);
    cluster_rig_start_all(&r);
    cluster_rig_close(&r);
}

/* A second member that has not started must not cost the first its quorum. */
TEST(nobody_is_added_while_too_few_have_started)
{
    struct cluster_rig r;
    membership_open(&r, 3, NULL);

    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4:2380", false, NULL), "1:m1 2:m2 3:m3 4:-");
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.5:2380", false, NULL), "1:m1 2:m2 3:m3 4:- 5:-");
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.6:2380", false, NULL), NOT_ENOUGH_STARTED);
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.6:2380", true, NULL), UNHEALTHY);
    CHECK_STR(membership_change(&r, 1, "MemberRemove", membership_id(&r, 2)), NOT_ENOUGH_STARTED);
    cluster_rig_close(&r);
}

TEST(a_cluster_that_is_not_whole_is_not_changed)
{
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    uint64_t second = membership_id(&r, 2), third = membership_id(&r, 3);
    cluster_rig_crash(&r, 3);
    cluster_rig_leader(&r);
    cluster_rig_for_ms(&r, 6000);

    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4:2380", false, NULL), UNHEALTHY);
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4:2380", true, NULL), UNHEALTHY);
    CHECK_STR(membership_change(&r, 1, "MemberRemove", second), UNHEALTHY);
    CHECK_STR(membership_change(&r, 1, "MemberRemove", third),
              "1:m1 2:m2"); /* it is down: no loss */
    cluster_rig_close(&r);
}

TEST(a_cluster_is_healthy_when_it_was_together_for_five_seconds)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, NULL);
    cluster_rig_start_all(&r);

    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4:2380", true, NULL), UNHEALTHY);
    cluster_rig_for_ms(&r, 6000);
    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4:2380", true, NULL),
              "1:m1 2:m2 3:m3 4:-(learner)");
    cluster_rig_close(&r);
}

TEST(an_operator_may_do_without_the_checks_but_not_remove_the_last_voter)
{
    static const char *const flags[] = {"--strict-reconfig-check=false", NULL};
    struct cluster_rig r;
    cluster_rig_open(&r, 3, flags);
    cluster_rig_start_all(&r);
    uint64_t third = membership_id(&r, 3), second = membership_id(&r, 2);

    CHECK_STR(membership_add(&r, 1, "http://10.0.0.4:2380", true, NULL),
              "1:m1 2:m2 3:m3 4:-(learner)");
    CHECK_STR(membership_change(&r, 1, "MemberRemove", third), "1:m1 2:m2 4:-(learner)");
    cluster_rig_expel(&r, 3);
    cluster_rig_for_ms(&r, 3000); /* another leads perhaps, and has applied all of it */
    CHECK_STR(membership_change(&r, 1, "MemberRemove", second), "1:m1 4:-(learner)");
    cluster_rig_expel(&r, 2);
    CHECK_STR(membership_change(&r, 1, "MemberRemove", membership_id(&r, 1)), NOT_ENOUGH_STARTED);
    cluster_rig_close(&r);
}

/* A minority answers what it knows, and not what must be certain. */
TEST(a_linearizable_list_needs_a_quorum)
{
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    cluster_rig_crash(&r, 2);
    cluster_rig_crash(&r, 3);
    cluster_rig_for_ms(&r, 3000);

    CHECK_STR(membership_list(&r, 1, false), "1:m1 2:m2 3:m3");
    CHECK_STR(membership_list(&r, 1, true), "etcdserver: request timed out");
    cluster_rig_close(&r);
}

/* --- those who were removed --- */

/* Whoever was asked for it answers, and stops a second later. */
TEST(a_member_that_removes_itself_answers_and_stops)
{
    for (unsigned leads = 0; leads < 2; leads++) {
        struct cluster_rig r;
        membership_open(&r, 3, NULL);
        unsigned gone = leads ? cluster_rig_leader(&r) : cluster_rig_follower(&r);
        uint64_t began_ms = cluster_rig_now_ms(&r);

        CHECK(membership_change(&r, gone, "MemberRemove", membership_id(&r, gone))[0] != 'e');
        cluster_rig_expel(&r, gone);
        cluster_rig_until_stopped(&r, gone);
        CHECK(cluster_rig_now_ms(&r) - began_ms >= 1000);

        CHECK(cluster_rig_logged(&r, gone,
                                 "the member has been permanently removed from the cluster"));
        CHECK(cluster_rig_logged(&r, gone, "data-dir used by this member must be removed"));
        unsigned leader = cluster_rig_leader(&r);
        cluster_rig_put(&r, leader, "k", "v");
        CHECK_STR(cluster_rig_get(&r, cluster_rig_follower(&r), "k", false), "v");
        CHECK(cluster_rig_try_start(&r, gone) != ERR_OK);
        CHECK(strstr(buf_str(&r.at[gone]->why), "permanently removed from the cluster"));
        cluster_rig_close(&r);
    }
}

/* Nobody waits for an election timeout, nor sends anything to a leader that is gone. */
TEST(a_leader_that_is_removed_is_followed_by_another_at_once)
{
    struct cluster_rig r;
    membership_open(&r, 3, NULL);
    unsigned first = cluster_rig_leader(&r), other = cluster_rig_follower(&r);
    uint64_t began_ms = cluster_rig_now_ms(&r);

    CHECK(membership_change(&r, other, "MemberRemove", membership_id(&r, first))[0] != 'e');
    cluster_rig_expel(&r, first);
    cluster_rig_put(&r, other, "k", "v");

    CHECK(cluster_rig_now_ms(&r) - began_ms < 500);
    CHECK(cluster_rig_leader(&r) != first);
    cluster_rig_close(&r);
}

static void tell_removed(const char *const *flags)
{
    struct cluster_rig r;
    membership_open(&r, 3, flags);
    unsigned gone = cluster_rig_follower(&r);
    uint64_t id = membership_id(&r, gone);
    cluster_rig_crash(&r, gone);
    cluster_rig_for_ms(&r, 6000);
    CHECK(membership_change(&r, cluster_rig_leader(&r), "MemberRemove", id)[0] != 'e');

    cluster_rig_start(&r, gone);
    cluster_rig_expel(&r, gone);
    cluster_rig_until_stopped(&r, gone);

    CHECK(cluster_rig_logged(&r, gone, "the member has been permanently removed"));
    cluster_rig_put(&r, cluster_rig_leader(&r), "k", "v");
    cluster_rig_close(&r);
}

/* It was away while it was removed: the others tell it so when it comes back. */
TEST(a_removed_member_that_does_not_know_it_is_told)
{
    tell_removed(NULL);
}

/* Once, and it may be before it serves. */
TEST(a_removed_member_may_be_told_while_it_is_compared)
{
    tell_removed((const char *const[]){"--feature-gates=InitialCorruptCheck=true", NULL});
}
