#include "raft/confchange.h"

#include "base/assert.h"
#include "harness/test.h"
#include "raft/describe.h"

#include <stdio.h>

/* "v1 l2 r3 u4" as changes. */
static size_t parse(const char *text, struct raft_conf_change_single *out)
{
    size_t count = 0;

    while (*text) {
        char letter = *text++;
        uint64_t id = 0;
        while (*text >= '0' && *text <= '9')
            id = id * 10 + (uint64_t)(*text++ - '0');
        out[count++] = (struct raft_conf_change_single){
            .type = letter == 'v'   ? RAFT_ADD_NODE
                    : letter == 'l' ? RAFT_ADD_LEARNER_NODE
                    : letter == 'r' ? RAFT_REMOVE_NODE
                                    : RAFT_UPDATE_NODE,
            .node_id = id,
        };
        while (*text == ' ')
            text++;
    }
    return count;
}

static const char *change(struct tracker *t, const char *kind, const char *text)
{
    struct raft_conf_change_single changes[RAFT_CHANGES_MAX];
    size_t count = parse(text, changes);
    struct tracker next;
    const char *problem = *kind == 's' ? confchange_simple(t, 5, changes, count, &next)
                          : *kind == 'e'
                              ? confchange_enter_joint(t, 5, kind[1] == '+', changes, count, &next)
                              : confchange_leave_joint(t, &next);

    if (!problem) {
        confchange_switch(t, &next);
        tracker_check(t);
    }
    return problem;
}

static void check_conf(const struct tracker *t, const char *want)
{
    struct buf text = {0};

    raft_describe_conf(&text, &t->conf);
    CHECK_STR(buf_str(&text), want);
    buf_free(&text);
}

TEST(simple_changes_alter_one_voter_at_a_time)
{
    struct tracker t = {.max_inflight_messages = 10};

    CHECK(!change(&t, "simple", "v1"));
    CHECK(!change(&t, "simple", "v2 l3 l4"));
    check_conf(&t, "voters=(1 2) learners=(3 4)");
    CHECK_STR(change(&t, "simple", "v5 v6"),
              "more than one voter changed without entering joint config");
    CHECK_STR(change(&t, "simple", "r1 r2"), "removed all voters");
    CHECK(!change(&t, "simple", "l2"));
    check_conf(&t, "voters=(1) learners=(2 3 4)");
    CHECK_STR(change(&t, "leave", ""), "can't leave a non-joint config");
    tracker_free(&t);
}

TEST(a_demoted_voter_waits_until_the_joint_configuration_is_left)
{
    struct tracker t = {.max_inflight_messages = 10};

    CHECK_STR(change(&t, "e", ""), "can't make a zero-voter config joint");
    CHECK(!change(&t, "simple", "v1"));
    CHECK(!change(&t, "simple", "v2"));
    CHECK(!change(&t, "e+", "l2 v3 l4"));
    check_conf(&t, "voters=(1 3)&&(1 2) learners=(4) learners_next=(2) autoleave");
    CHECK_STR(change(&t, "e", "v7"), "config is already joint");
    CHECK_STR(change(&t, "simple", "v7"), "can't apply simple config change in joint config");
    CHECK(!change(&t, "leave", ""));
    check_conf(&t, "voters=(1 3) learners=(2 4)");
    tracker_free(&t);
}

TEST(a_removed_voter_keeps_its_progress_while_it_counts)
{
    struct tracker t = {.max_inflight_messages = 10};
    CHECK(!change(&t, "simple", "v1"));
    CHECK(!change(&t, "simple", "v2"));
    tracker_find(&t, 2)->match = 4;
    progress_become_replicate(tracker_find(&t, 2));
    inflights_add(&tracker_find(&t, 2)->inflights, 4, 1);

    CHECK(!change(&t, "e", "r2 v3"));
    CHECK_EQ(tracker_find(&t, 2)->match, 4);
    CHECK_EQ(tracker_find(&t, 2)->inflights.count, 1);
    CHECK(!change(&t, "leave", ""));
    CHECK(!tracker_find(&t, 2));
    tracker_free(&t);
}

TEST(id_zero_changes_nothing)
{
    struct tracker t = {.max_inflight_messages = 10};
    CHECK(!change(&t, "simple", "v1"));

    CHECK(!change(&t, "simple", "v0 l0 r0 u9"));
    check_conf(&t, "voters=(1)");
    tracker_free(&t);
}

TEST(a_configuration_has_a_largest_size)
{
    struct tracker t = {.max_inflight_messages = 10};
    char text[16];

    for (int id = 1; id <= RAFT_MEMBERS_MAX; id++) {
        snprintf(text, sizeof(text), "v%d", id);
        CHECK(!change(&t, "simple", text));
    }
    CHECK_STR(change(&t, "simple", "l1000"), "too many members");
    CHECK_EQ(t.count, RAFT_MEMBERS_MAX);
    tracker_free(&t);
}

/* --- restoring --- */

static struct raft_ids list(const char *text)
{
    struct raft_conf_change_single changes[RAFT_CHANGES_MAX];
    struct raft_ids out = {.count = parse(text, changes)};

    for (size_t i = 0; i < out.count; i++)
        out.at[i] = changes[i].node_id;
    return out;
}

static const char *restore(const struct raft_conf_state *conf, struct tracker *out)
{
    struct tracker limits = {.max_inflight_messages = 10};
    const char *problem = confchange_restore(&limits, 5, conf, out);

    if (!problem)
        tracker_check(out);
    return problem;
}

TEST(a_joint_configuration_is_restored_whole)
{
    struct tracker t;
    struct raft_conf_state conf = {.voters = list("v3 v2 v1"),
                                   .learners = list("v5"),
                                   .voters_outgoing = list("v1 v2 v4 v6"),
                                   .learners_next = list("v4"),
                                   .auto_leave = true};

    CHECK(!restore(&conf, &t));
    check_conf(&t, "voters=(1 2 3)&&(1 2 4 6) learners=(5) learners_next=(4) autoleave");
    tracker_free(&t);
}

TEST(an_empty_configuration_is_restored_empty)
{
    struct tracker t;

    CHECK(!restore(&(struct raft_conf_state){0}, &t));
    CHECK_EQ(t.count, 0);
}

TEST(configurations_that_contradict_themselves_are_refused)
{
    struct tracker t;
    struct raft_conf_state bad[] = {
        {.voters = list("v1 v2"), .learners = list("v2")},
        {.learners = list("v2")},
        {.voters = list("v1 v0")},
        {.voters = list("v1"), .auto_leave = true},
        {.voters = list("v1"), .learners_next = list("v2")},
        {.voters = list("v1"), .voters_outgoing = list("v1 v2"), .learners_next = list("v3")},
        {.voters = list("v1"), .voters_outgoing = list("v2"), .learners = list("v2")},
        {.voters_outgoing = list("v1 v2")},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(restore(&bad[i], &t) != NULL);
}

/* Whatever random changes lead to, the configuration holds together, and a conf state made of it
 * leads back to it. */
TEST(random_changes_keep_configurations_sound)
{
    struct rng rng;
    struct tracker t = {.max_inflight_messages = 10};
    rng_seed(&rng, test_seed());
    CHECK(!change(&t, "simple", "v1"));

    for (uint64_t round = 0; round < 20000 * test_effort(); round++) {
        struct raft_conf_change_v2 cc = {.change_count = rng_below(&rng, 4)};
        cc.transition = (enum raft_transition)rng_below(&rng, 3);
        for (size_t i = 0; i < cc.change_count; i++) {
            cc.changes[i].type = (enum raft_conf_change_type)rng_below(&rng, 4);
            cc.changes[i].node_id = rng_below(&rng, 7);
        }
        struct tracker next, again;
        if (confchange_apply(&t, 5, &cc, &next))
            continue;
        confchange_switch(&t, &next);
        tracker_check(&t);
        CHECK(t.conf.voters.count > 0);
        CHECK(!restore(&t.conf, &again));
        CHECK(memcmp(&again.conf.voters.at, &t.conf.voters.at,
                     t.conf.voters.count * sizeof(uint64_t)) == 0);
        CHECK_EQ(again.count, t.count);
    }
    tracker_free(&t);
}
