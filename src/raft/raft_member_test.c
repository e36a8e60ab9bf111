/*
 * Changing the members, moving the leadership, and reading under a leader.
 */
#include "harness/test.h"
#include "raft/group_test.h"
#include "raft/tracker.h"

static void async(struct raft_config *c)
{
    c->async_storage_writes = true;
}

static void check_quorum(struct raft_config *c)
{
    c->check_quorum = true;
}

/* --- membership --- */

TEST(members_join_as_learners_and_are_promoted)
{
    struct group g;
    group_open(&g, 1, NULL);
    group_elect(&g, 1);
    group_propose(&g, 1, "x");
    group_add(&g, &g.member[1].conf_state, NULL);

    group_change(&g, 1, RAFT_ADD_LEARNER_NODE, 2);
    CHECK_STR(group_machine(&g, 2), "x ");
    CHECK(group_status(&g, 2).is_learner);
    group_tick(&g, 2, 50); /* learners do not campaign */
    CHECK_EQ(group_role(&g, 2), RAFT_FOLLOWER);
    raft_transfer_leader(group_raft(&g, 1), 2);
    CHECK_EQ(group_status(&g, 1).lead_transferee, RAFT_NONE);

    group_change(&g, 1, RAFT_ADD_NODE, 2);
    group_check_conf(&g, 2, "voters=(1 2)");
    CHECK(raft_is_voter(group_raft(&g, 1), 2));
    raft_transfer_leader(group_raft(&g, 1), 2);
    group_settle(&g);
    CHECK_EQ(group_role(&g, 2), RAFT_LEADER);
    group_close(&g);
}

TEST(only_one_conf_change_is_on_its_way_at_a_time)
{
    struct group g;
    group_open(&g, 3, NULL);
    group_elect(&g, 1);
    struct raft_conf_change remove = {.type = RAFT_REMOVE_NODE, .node_id = 3};

    CHECK_EQ(raft_propose_conf_change(group_raft(&g, 1), &remove), RAFT_OK);
    remove.node_id = 2;
    CHECK_EQ(raft_propose_conf_change(group_raft(&g, 1), &remove), RAFT_OK);
    CHECK(group_logged(
        &g, 1,
        "1 ignoring conf change transition:ConfChangeTransitionAuto "
        "changes:{type:ConfChangeRemoveNode node_id:2} at config voters=(1 2 3): possible "
        "unapplied conf change at index 2 (applied to 1)"));
    group_settle(&g);
    group_check_conf(&g, 1, "voters=(1 2)");
    group_close(&g);
}

TEST(a_joint_configuration_is_left_by_itself)
{
    struct group g;
    group_open(&g, 3, async);
    group_elect(&g, 1);
    group_add(&g, &g.member[1].conf_state, async);
    struct raft_conf_change_v2 replace = {.change_count = 2,
                                          .changes = {{RAFT_REMOVE_NODE, 3}, {RAFT_ADD_NODE, 4}}};

    CHECK_EQ(raft_propose_conf_change_v2(group_raft(&g, 1), &replace), RAFT_OK);
    group_settle(&g);
    CHECK(group_logged(&g, 1, "1 switched to configuration voters=(1 2 4)&&(1 2 3) autoleave"));
    group_check_conf(&g, 1, "voters=(1 2 4)");
    group_check_conf(&g, 4, "voters=(1 2 4)");
    group_close(&g);
}

TEST(a_joint_configuration_needs_both_majorities)
{
    struct group g;
    group_open(&g, 3, NULL);
    group_elect(&g, 1);
    for (int i = 0; i < 3; i++)
        group_add(&g, &g.member[1].conf_state, NULL);
    struct raft_conf_change_v2 move = {
        .transition = RAFT_TRANSITION_JOINT_EXPLICIT,
        .change_count = 5,
        .changes = {{RAFT_REMOVE_NODE, 2},
                    {RAFT_REMOVE_NODE, 3},
                    {RAFT_ADD_NODE, 4},
                    {RAFT_ADD_NODE, 5},
                    {RAFT_ADD_NODE, 6}},
    };
    CHECK_EQ(raft_propose_conf_change_v2(group_raft(&g, 1), &move), RAFT_OK);
    group_settle(&g);
    group_check_conf(&g, 1, "voters=(1 4 5 6)&&(1 2 3)");

    g.member[2].cut = g.member[3].cut = true;
    group_propose(&g, 1, "x");
    group_settle(&g);
    CHECK_STR(group_machine(&g, 1), ""); /* the old majority is missing */
    g.member[2].cut = g.member[3].cut = false;
    g.member[4].cut = g.member[5].cut = true;
    group_tick(&g, 1, 1);
    group_settle(&g);
    CHECK_EQ(group_role(&g, 1), RAFT_LEADER);
    group_propose(&g, 1, "y");
    group_settle(&g);
    CHECK_STR(group_machine(&g, 1), "x "); /* x is on 4 and 5; y has only the new minority */
    g.member[4].cut = g.member[5].cut = false;
    group_tick(&g, 1, 1);
    group_settle(&g);
    CHECK_STR(group_machine(&g, 1), "x y ");
    CHECK_EQ(raft_propose_conf_change_v2(group_raft(&g, 1), NULL), RAFT_OK);
    group_settle(&g);
    group_check_conf(&g, 6, "voters=(1 4 5 6)");
    group_close(&g);
}

static void step_down(struct raft_config *c)
{
    c->step_down_on_removal = true;
}

TEST(a_removed_leader_steps_down_if_told_to)
{
    struct group g;
    group_open(&g, 3, NULL);
    group_elect(&g, 1);
    group_change(&g, 1, RAFT_REMOVE_NODE, 1);
    CHECK_EQ(group_role(&g, 1), RAFT_LEADER);
    CHECK_EQ(group_propose(&g, 1, "x"), RAFT_PROPOSAL_DROPPED);
    group_close(&g);

    group_open(&g, 3, step_down);
    group_elect(&g, 1);
    group_change(&g, 1, RAFT_REMOVE_NODE, 1);
    CHECK_EQ(group_role(&g, 1), RAFT_FOLLOWER);
    group_tick(&g, 1, 50);
    CHECK_EQ(group_role(&g, 1), RAFT_FOLLOWER);
    group_close(&g);
}

TEST(nobody_campaigns_with_a_conf_change_unapplied)
{
    struct group g;
    struct raft_conf_change remove = {.type = RAFT_REMOVE_NODE, .node_id = 3};
    group_open(&g, 3, NULL);
    group_elect(&g, 1);
    CHECK_EQ(raft_propose_conf_change(group_raft(&g, 1), &remove), RAFT_OK);
    for (int round = 0; round < 20 && group_status(&g, 2).hard_state.commit < 2; round++) {
        group_take(&g, 1);
        group_deliver(&g);
        if (group_status(&g, 2).hard_state.commit < 2)
            group_take(&g, 2);
    }
    CHECK_EQ(group_status(&g, 2).hard_state.commit, 2);

    raft_campaign(group_raft(&g, 2));
    CHECK_EQ(group_role(&g, 2), RAFT_FOLLOWER);
    CHECK(group_logged(&g, 2,
                       "2 cannot campaign at term 1 since there are still pending "
                       "configuration changes to apply"));
    group_close(&g);
}

TEST(a_conf_change_that_makes_no_sense_changes_nothing)
{
    struct group g;
    struct raft_conf_change_v2 bad[] = {
        {.change_count = 1, .changes = {{(enum raft_conf_change_type)strange_number(9), 2}}},
        {.transition = (enum raft_transition)strange_number(7)},
        {.change_count = 0}, /* leaves a joint configuration that is none */
    };
    group_open(&g, 1, NULL);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(raft_apply_conf_change(group_raft(&g, 1), &bad[i], NULL), RAFT_BAD_CONF_CHANGE);
    group_check_conf(&g, 1, "voters=(1)");
    group_close(&g);
}

TEST(founders_agree_without_talking)
{
    struct group g;
    struct raft_founder founders[] = {{1, BYTES("one")}, {2, BYTES("two")}, {3, BYTES("three")}};
    group_open(&g, 0, NULL);
    for (int i = 0; i < 3; i++) {
        group_add(&g, NULL, NULL);
        raft_bootstrap(group_raft(&g, g.count), founders, 3);
        raft_check(group_raft(&g, g.count));
    }

    group_settle(&g);
    CHECK_EQ(g.member[2].applied, 3);
    group_check_conf(&g, 2, "voters=(1 2 3)");
    CHECK_EQ(group_status(&g, 2).hard_state.term, 1);
    group_elect(&g, 3);
    group_propose(&g, 3, "x");
    group_settle(&g);
    CHECK_STR(group_machine(&g, 1), "x ");
    group_close(&g);
}

/* --- leader transfer --- */

TEST(a_transfer_waits_until_the_target_has_everything)
{
    struct group g;
    group_open(&g, 3, check_quorum);
    group_elect(&g, 1);
    g.member[3].cut = true;
    group_propose(&g, 1, "x");
    group_settle(&g);

    raft_transfer_leader(group_raft(&g, 1), 3);
    group_settle(&g);
    CHECK_EQ(group_status(&g, 1).lead_transferee, 3);
    g.member[3].cut = false;
    group_tick(&g, 1, 1);
    group_settle(&g);
    CHECK_EQ(group_role(&g, 3), RAFT_LEADER); /* no lease stops it */
    group_close(&g);
}

TEST(a_transfer_that_takes_too_long_is_given_up)
{
    struct group g;
    group_open(&g, 3, NULL);
    group_elect(&g, 1);
    g.member[3].cut = true;

    raft_transfer_leader(group_raft(&g, 1), 3);
    group_settle(&g);
    raft_transfer_leader(group_raft(&g, 1), 3);
    CHECK(group_logged(&g, 1, "is in progress, ignores request to same node 3"));
    group_tick(&g, 1, 10);
    CHECK_EQ(group_status(&g, 1).lead_transferee, RAFT_NONE);
    CHECK_EQ(group_propose(&g, 1, "x"), RAFT_OK);
    group_close(&g);
}

TEST(followers_pass_a_transfer_on)
{
    struct group g;
    group_open(&g, 3, NULL);
    group_elect(&g, 1);

    raft_transfer_leader(group_raft(&g, 2), 3);
    group_settle(&g);
    CHECK_EQ(group_role(&g, 3), RAFT_LEADER);
    group_close(&g);
}

/* --- reads --- */

TEST(a_read_is_answered_once_a_quorum_confirms_the_leader)
{
    struct group g;
    group_open(&g, 3, NULL);
    group_elect(&g, 1);
    group_propose(&g, 1, "x");
    group_settle(&g);

    group_read(&g, 1, "a");
    group_take(&g, 1);
    CHECK_STR(group_reads(&g, 1), "");
    group_settle(&g);
    CHECK_STR(group_reads(&g, 1), "a@2 ");
    group_read(&g, 2, "b"); /* through the leader and back */
    group_settle(&g);
    CHECK_STR(group_reads(&g, 2), "b@2 ");
    group_close(&g);
}

TEST(many_reads_ride_on_one_round)
{
    struct group g;
    group_open(&g, 3, NULL);
    group_elect(&g, 1);

    group_read(&g, 1, "a");
    group_read(&g, 1, "b");
    group_read(&g, 3, "c");
    group_take(&g, 3);
    group_deliver(&g);
    group_take(&g, 1);
    group_lose(&g, RAFT_MSG_HEARTBEAT);
    group_tick(&g, 1, 1); /* the next heartbeat confirms all of them */
    group_settle(&g);
    CHECK_STR(group_reads(&g, 1), "a@1 b@1 ");
    CHECK_STR(group_reads(&g, 3), "c@1 ");
    group_close(&g);
}

TEST(a_leader_cut_off_from_the_quorum_answers_no_reads)
{
    struct group g;
    group_open(&g, 3, NULL);
    group_elect(&g, 1);
    g.member[1].cut = true;

    group_read(&g, 1, "a");
    group_settle(&g);
    CHECK_STR(group_reads(&g, 1), "");
    group_close(&g);
}

TEST(reads_wait_for_the_first_commit_of_a_term)
{
    struct group g;
    group_open(&g, 3, NULL);
    group_elect(&g, 1);
    group_propose(&g, 1, "x");
    group_settle(&g);
    raft_transfer_leader(group_raft(&g, 1), 2);
    for (int round = 0; group_role(&g, 2) != RAFT_LEADER; round++) {
        CHECK(round < 20);
        for (uint64_t id = 1; id <= 3; id++)
            group_take(&g, id);
        group_deliver(&g);
    }

    group_read(&g, 2, "a");
    group_take(&g, 2);
    CHECK_STR(group_reads(&g, 2), "");
    group_settle(&g);
    CHECK_STR(group_reads(&g, 2), "a@3 "); /* the new leader's own entry, not the old commit */
    group_close(&g);
}

TEST(a_single_member_reads_after_its_first_commit)
{
    struct group g;
    group_open(&g, 1, NULL);
    raft_campaign(group_raft(&g, 1));
    for (int round = 0; group_role(&g, 1) != RAFT_LEADER; round++) {
        struct raft_output out;
        CHECK(round < 5);
        CHECK(raft_take_output(group_raft(&g, 1), &out));
        raft_advance(group_raft(&g, 1));
    }

    group_read(&g, 1, "a");
    group_settle(&g);
    CHECK_STR(group_reads(&g, 1), "a@1 ");
    group_read(&g, 1, "b");
    group_settle(&g);
    CHECK_STR(group_reads(&g, 1), "a@1 b@1 ");
    group_close(&g);
}

/* A demoted leader that goes on leading has one voter to ask, which may lead by now itself. */
TEST(a_demoted_leader_asks_the_only_voter)
{
    struct group g;
    group_open(&g, 2, NULL);
    group_elect(&g, 1);
    group_change(&g, 1, RAFT_ADD_LEARNER_NODE, 1);
    group_check_conf(&g, 1, "voters=(2) learners=(1)");
    CHECK_EQ(group_role(&g, 1), RAFT_LEADER);

    group_read(&g, 1, "a");
    group_take(&g, 1);
    CHECK_STR(group_reads(&g, 1), "");
    group_settle(&g);
    CHECK_STR(group_reads(&g, 1), "a@2 ");
    group_close(&g);
}

static void lease_reads(struct raft_config *c)
{
    c->check_quorum = true;
    c->read_mode = RAFT_READ_LEASE;
}

TEST(a_lease_answers_reads_at_once)
{
    struct group g;
    group_open(&g, 3, lease_reads);
    group_elect(&g, 1);

    group_read(&g, 1, "a");
    group_take(&g, 1);
    CHECK_STR(group_reads(&g, 1), "a@1 ");
    CHECK_EQ(raft_forget_leader(group_raft(&g, 2)), RAFT_OK);
    CHECK_EQ(group_status(&g, 2).soft_state.lead, 1); /* or the lease would not hold */
    group_close(&g);
}
