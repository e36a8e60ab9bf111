/*
 * Changing the members, moving the leadership, and reading under a leader.
 */
#include "harness/test.h"
#include "raft/raft_rig_test.h"
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
    struct raft_rig g;
    raft_group_open(&g, 1, NULL);
    raft_group_elect(&g, 1);
    raft_group_propose(&g, 1, "x");
    raft_group_add(&g, &g.member[1].conf_state, NULL);

    raft_group_change(&g, 1, RAFT_ADD_LEARNER_NODE, 2);
    CHECK_STR(raft_group_machine(&g, 2), "x ");
    CHECK(raft_group_status(&g, 2).is_learner);
    raft_group_tick(&g, 2, 50); /* learners do not campaign */
    CHECK_EQ(raft_group_role(&g, 2), RAFT_FOLLOWER);
    raft_transfer_leader(raft_group_raft(&g, 1), 2);
    CHECK_EQ(raft_group_status(&g, 1).lead_transferee, RAFT_NONE);

    raft_group_change(&g, 1, RAFT_ADD_NODE, 2);
    raft_group_check_conf(&g, 2, "voters=(1 2)");
    CHECK(raft_is_voter(raft_group_raft(&g, 1), 2));
    raft_transfer_leader(raft_group_raft(&g, 1), 2);
    raft_group_settle(&g);
    CHECK_EQ(raft_group_role(&g, 2), RAFT_LEADER);
    raft_group_close(&g);
}

TEST(only_one_conf_change_is_on_its_way_at_a_time)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    struct raft_conf_change remove = {.type = RAFT_REMOVE_NODE, .node_id = 3};

    CHECK_EQ(raft_propose_conf_change(raft_group_raft(&g, 1), &remove), RAFT_OK);
    remove.node_id = 2;
    CHECK_EQ(raft_propose_conf_change(raft_group_raft(&g, 1), &remove), RAFT_OK);
    CHECK(raft_group_logged(
        &g, 1,
        "1 ignoring conf change transition:ConfChangeTransitionAuto "
        "changes:{type:ConfChangeRemoveNode node_id:2} at config voters=(1 2 3): possible "
        "unapplied conf change at index 2 (applied to 1)"));
    raft_group_settle(&g);
    raft_group_check_conf(&g, 1, "voters=(1 2)");
    raft_group_close(&g);
}

/* Two members that are asked to remove each other must not both be heard. */
TEST(the_last_voter_is_not_removed)
{
    struct raft_rig g;
    raft_group_open(&g, 1, NULL);
    raft_group_elect(&g, 1);
    struct raft_conf_change remove = {.type = RAFT_REMOVE_NODE, .node_id = 1};

    CHECK_EQ(raft_propose_conf_change(raft_group_raft(&g, 1), &remove), RAFT_OK);
    CHECK(raft_group_logged(&g, 1,
                            "1 ignoring conf change transition:ConfChangeTransitionAuto "
                            "changes:{type:ConfChangeRemoveNode node_id:1} at config voters=(1): "
                            "removed all voters"));
    raft_group_settle(&g);
    raft_group_check_conf(&g, 1, "voters=(1)");
    raft_group_close(&g);
}

TEST(a_joint_configuration_is_left_by_itself)
{
    struct raft_rig g;
    raft_group_open(&g, 3, async);
    raft_group_elect(&g, 1);
    raft_group_add(&g, &g.member[1].conf_state, async);
    struct raft_conf_change_v2 replace = {.change_count = 2,
                                          .changes = {{RAFT_REMOVE_NODE, 3}, {RAFT_ADD_NODE, 4}}};

    CHECK_EQ(raft_propose_conf_change_v2(raft_group_raft(&g, 1), &replace), RAFT_OK);
    raft_group_settle(&g);
    CHECK(
        raft_group_logged(&g, 1, "1 switched to configuration voters=(1 2 4)&&(1 2 3) autoleave"));
    raft_group_check_conf(&g, 1, "voters=(1 2 4)");
    raft_group_check_conf(&g, 4, "voters=(1 2 4)");
    raft_group_close(&g);
}

TEST(a_joint_configuration_needs_both_majorities)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    for (int i = 0; i < 3; i++)
        raft_group_add(&g, &g.member[1].conf_state, NULL);
    struct raft_conf_change_v2 move = {
        .transition = RAFT_TRANSITION_JOINT_EXPLICIT,
        .change_count = 5,
        .changes = {{RAFT_REMOVE_NODE, 2},
                    {RAFT_REMOVE_NODE, 3},
                    {RAFT_ADD_NODE, 4},
                    {RAFT_ADD_NODE, 5},
                    {RAFT_ADD_NODE, 6}},
    };
    CHECK_EQ(raft_propose_conf_change_v2(raft_group_raft(&g, 1), &move), RAFT_OK);
    raft_group_settle(&g);
    raft_group_check_conf(&g, 1, "voters=(1 4 5 6)&&(1 2 3)");

    g.member[2].cut = g.member[3].cut = true;
    raft_group_propose(&g, 1, "x");
    raft_group_settle(&g);
    CHECK_STR(raft_group_machine(&g, 1), ""); /* the old majority is missing */
    g.member[2].cut = g.member[3].cut = false;
    g.member[4].cut = g.member[5].cut = true;
    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_EQ(raft_group_role(&g, 1), RAFT_LEADER);
    raft_group_propose(&g, 1, "y");
    raft_group_settle(&g);
    CHECK_STR(raft_group_machine(&g, 1), "x "); /* x is on 4 and 5; y has only the new minority */
    g.member[4].cut = g.member[5].cut = false;
    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_STR(raft_group_machine(&g, 1), "x y ");
    CHECK_EQ(raft_propose_conf_change_v2(raft_group_raft(&g, 1), NULL), RAFT_OK);
    raft_group_settle(&g);
    raft_group_check_conf(&g, 6, "voters=(1 4 5 6)");
    raft_group_close(&g);
}

static void step_down(struct raft_config *c)
{
    c->step_down_on_removal = true;
}

TEST(a_removed_leader_steps_down_if_told_to)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    raft_group_change(&g, 1, RAFT_REMOVE_NODE, 1);
    CHECK_EQ(raft_group_role(&g, 1), RAFT_LEADER);
    CHECK_EQ(raft_group_propose(&g, 1, "x"), RAFT_PROPOSAL_DROPPED);
    raft_group_close(&g);

    raft_group_open(&g, 3, step_down);
    raft_group_elect(&g, 1);
    raft_group_change(&g, 1, RAFT_REMOVE_NODE, 1);
    CHECK_EQ(raft_group_role(&g, 1), RAFT_FOLLOWER);
    raft_group_tick(&g, 1, 50);
    CHECK_EQ(raft_group_role(&g, 1), RAFT_FOLLOWER);
    raft_group_close(&g);
}

TEST(nobody_campaigns_with_a_conf_change_unapplied)
{
    struct raft_rig g;
    struct raft_conf_change remove = {.type = RAFT_REMOVE_NODE, .node_id = 3};
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    CHECK_EQ(raft_propose_conf_change(raft_group_raft(&g, 1), &remove), RAFT_OK);
    for (int round = 0; round < 20 && raft_group_status(&g, 2).hard_state.commit < 2; round++) {
        raft_group_take(&g, 1);
        raft_group_deliver(&g);
        if (raft_group_status(&g, 2).hard_state.commit < 2)
            raft_group_take(&g, 2);
    }
    CHECK_EQ(raft_group_status(&g, 2).hard_state.commit, 2);

    raft_campaign(raft_group_raft(&g, 2));
    CHECK_EQ(raft_group_role(&g, 2), RAFT_FOLLOWER);
    CHECK(raft_group_logged(&g, 2,
                            "2 cannot campaign at term 1 since there are still pending "
                            "configuration changes to apply"));
    raft_group_close(&g);
}

TEST(a_conf_change_that_makes_no_sense_changes_nothing)
{
    struct raft_rig g;
    struct raft_conf_change_v2 bad[] = {
        {.change_count = 1, .changes = {{(enum raft_conf_change_type)strange_number(9), 2}}},
        {.transition = (enum raft_transition)strange_number(7)},
        {.change_count = 0}, /* leaves a joint configuration that is none */
    };
    raft_group_open(&g, 1, NULL);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(raft_apply_conf_change(raft_group_raft(&g, 1), &bad[i], NULL),
                 RAFT_BAD_CONF_CHANGE);
    raft_group_check_conf(&g, 1, "voters=(1)");
    raft_group_close(&g);
}

TEST(founders_agree_without_talking)
{
    struct raft_rig g;
    struct raft_founder founders[] = {{1, BYTES("one")}, {2, BYTES("two")}, {3, BYTES("three")}};
    raft_group_open(&g, 0, NULL);
    for (int i = 0; i < 3; i++) {
        raft_group_add(&g, NULL, NULL);
        raft_bootstrap(raft_group_raft(&g, g.count), founders, 3);
        raft_check(raft_group_raft(&g, g.count));
    }

    raft_group_settle(&g);
    CHECK_EQ(g.member[2].applied, 3);
    raft_group_check_conf(&g, 2, "voters=(1 2 3)");
    CHECK_EQ(raft_group_status(&g, 2).hard_state.term, 1);
    raft_group_elect(&g, 3);
    raft_group_propose(&g, 3, "x");
    raft_group_settle(&g);
    CHECK_STR(raft_group_machine(&g, 1), "x ");
    raft_group_close(&g);
}

/* --- leader transfer --- */

TEST(a_transfer_waits_until_the_target_has_everything)
{
    struct raft_rig g;
    raft_group_open(&g, 3, check_quorum);
    raft_group_elect(&g, 1);
    g.member[3].cut = true;
    raft_group_propose(&g, 1, "x");
    raft_group_settle(&g);

    raft_transfer_leader(raft_group_raft(&g, 1), 3);
    raft_group_settle(&g);
    CHECK_EQ(raft_group_status(&g, 1).lead_transferee, 3);
    g.member[3].cut = false;
    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_EQ(raft_group_role(&g, 3), RAFT_LEADER); /* no lease stops it */
    raft_group_close(&g);
}

TEST(a_transfer_that_takes_too_long_is_given_up)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    g.member[3].cut = true;

    raft_transfer_leader(raft_group_raft(&g, 1), 3);
    raft_group_settle(&g);
    raft_transfer_leader(raft_group_raft(&g, 1), 3);
    CHECK(raft_group_logged(&g, 1, "is in progress, ignores request to same node 3"));
    raft_group_tick(&g, 1, 10);
    CHECK_EQ(raft_group_status(&g, 1).lead_transferee, RAFT_NONE);
    CHECK_EQ(raft_group_propose(&g, 1, "x"), RAFT_OK);
    raft_group_close(&g);
}

TEST(followers_pass_a_transfer_on)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);

    raft_transfer_leader(raft_group_raft(&g, 2), 3);
    raft_group_settle(&g);
    CHECK_EQ(raft_group_role(&g, 3), RAFT_LEADER);
    raft_group_close(&g);
}

/* --- reads --- */

TEST(a_read_is_answered_once_a_quorum_confirms_the_leader)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    raft_group_propose(&g, 1, "x");
    raft_group_settle(&g);

    raft_group_read(&g, 1, "a");
    raft_group_take(&g, 1);
    CHECK_STR(raft_group_reads(&g, 1), "");
    raft_group_settle(&g);
    CHECK_STR(raft_group_reads(&g, 1), "a@2 ");
    raft_group_read(&g, 2, "b"); /* through the leader and back */
    raft_group_settle(&g);
    CHECK_STR(raft_group_reads(&g, 2), "b@2 ");
    raft_group_close(&g);
}

/* The first of this type that is on its way, to come a second time. */
static struct raft_message *copy_flying(const struct raft_rig *g, enum raft_message_type type)
{
    for (size_t i = 0; i < g->flying_count; i++)
        if (g->flying[i]->type == type)
            return raft_message_clone(g->flying[i]);
    return NULL;
}

/*
 * Whoever asks again uses the same context, so an echo of the first time would fit the second. A
 * leader that was replaced meanwhile, and gets one late, must not take it for a quorum, least of
 * all for a read that was asked between the two. (etcd's issue 20418.)
 */
TEST(an_echo_of_a_read_that_is_asked_again_confirms_nothing)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    raft_group_read(&g, 1, "context1");
    raft_group_take(&g, 1);
    CHECK(raft_group_deliver(&g)); /* heartbeats */
    raft_group_take(&g, 2);
    struct raft_message *echo = copy_flying(&g, RAFT_MSG_HEARTBEAT_RESP);
    CHECK(echo);
    raft_group_settle(&g);
    CHECK_STR(raft_group_reads(&g, 1), "context1@1 ");

    g.member[1].cut = true;
    raft_group_elect(&g, 2);
    raft_group_read(&g, 1, "context2");
    raft_group_read(&g, 1, "context1");
    raft_group_step(&g, *echo);
    raft_group_take(&g, 1);
    CHECK_EQ(raft_group_role(&g, 1), RAFT_LEADER);
    CHECK_STR(raft_group_reads(&g, 1), "context1@1 ");

    raft_message_free(echo);
    raft_group_close(&g);
}

TEST(many_reads_ride_on_one_round)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);

    raft_group_read(&g, 1, "a");
    raft_group_read(&g, 1, "b");
    raft_group_read(&g, 3, "c");
    raft_group_take(&g, 3);
    raft_group_deliver(&g);
    raft_group_take(&g, 1);
    raft_group_lose(&g, RAFT_MSG_HEARTBEAT);
    raft_group_tick(&g, 1, 1); /* the next heartbeat confirms all of them */
    raft_group_settle(&g);
    CHECK_STR(raft_group_reads(&g, 1), "a@1 b@1 ");
    CHECK_STR(raft_group_reads(&g, 3), "c@1 ");
    raft_group_close(&g);
}

TEST(a_leader_cut_off_from_the_quorum_answers_no_reads)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    g.member[1].cut = true;

    raft_group_read(&g, 1, "a");
    raft_group_settle(&g);
    CHECK_STR(raft_group_reads(&g, 1), "");
    raft_group_close(&g);
}

TEST(reads_wait_for_the_first_commit_of_a_term)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    raft_group_propose(&g, 1, "x");
    raft_group_settle(&g);
    raft_transfer_leader(raft_group_raft(&g, 1), 2);
    for (int round = 0; raft_group_role(&g, 2) != RAFT_LEADER; round++) {
        CHECK(round < 20);
        for (uint64_t id = 1; id <= 3; id++)
            raft_group_take(&g, id);
        raft_group_deliver(&g);
    }

    raft_group_read(&g, 2, "a");
    raft_group_take(&g, 2);
    CHECK_STR(raft_group_reads(&g, 2), "");
    raft_group_settle(&g);
    CHECK_STR(raft_group_reads(&g, 2), "a@3 "); /* the new leader's own entry, not the old commit */
    raft_group_close(&g);
}

TEST(a_single_member_reads_after_its_first_commit)
{
    struct raft_rig g;
    raft_group_open(&g, 1, NULL);
    raft_campaign(raft_group_raft(&g, 1));
    for (int round = 0; raft_group_role(&g, 1) != RAFT_LEADER; round++) {
        struct raft_output out;
        CHECK(round < 5);
        CHECK(raft_take_output(raft_group_raft(&g, 1), &out));
        raft_advance(raft_group_raft(&g, 1));
    }

    raft_group_read(&g, 1, "a");
    raft_group_settle(&g);
    CHECK_STR(raft_group_reads(&g, 1), "a@1 ");
    raft_group_read(&g, 1, "b");
    raft_group_settle(&g);
    CHECK_STR(raft_group_reads(&g, 1), "a@1 b@1 ");
    raft_group_close(&g);
}

/* A demoted leader that goes on leading has one voter to ask, which may lead by now itself. */
TEST(a_demoted_leader_asks_the_only_voter)
{
    struct raft_rig g;
    raft_group_open(&g, 2, NULL);
    raft_group_elect(&g, 1);
    raft_group_change(&g, 1, RAFT_ADD_LEARNER_NODE, 1);
    raft_group_check_conf(&g, 1, "voters=(2) learners=(1)");
    CHECK_EQ(raft_group_role(&g, 1), RAFT_LEADER);

    raft_group_read(&g, 1, "a");
    raft_group_take(&g, 1);
    CHECK_STR(raft_group_reads(&g, 1), "");
    raft_group_settle(&g);
    CHECK_STR(raft_group_reads(&g, 1), "a@2 ");
    raft_group_close(&g);
}

static void lease_reads(struct raft_config *c)
{
    c->check_quorum = true;
    c->read_mode = RAFT_READ_LEASE;
}

TEST(a_lease_answers_reads_at_once)
{
    struct raft_rig g;
    raft_group_open(&g, 3, lease_reads);
    raft_group_elect(&g, 1);

    raft_group_read(&g, 1, "a");
    raft_group_take(&g, 1);
    CHECK_STR(raft_group_reads(&g, 1), "a@1 ");
    CHECK_EQ(raft_forget_leader(raft_group_raft(&g, 2)), RAFT_OK);
    CHECK_EQ(raft_group_status(&g, 2).soft_state.lead, 1); /* or the lease would not hold */
    raft_group_close(&g);
}
