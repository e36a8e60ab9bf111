/* Clusters that lie: each check of cluster_check.h refuses the story that breaks it. */
#include "base/assert.h"
#include "base/mem.h"
#include "harness/test.h"
#include "sim/cluster_check.h"

#include <stdio.h>
#include <string.h>

enum { MEMBERS = 3 };

/* A member as it shows itself: the terms of its log, one digit each, from index 1 on. */
struct fake_member {
    const char *log;
    struct cluster_view view;
};

static bool term_at(const void *context, uint64_t index, uint64_t *out)
{
    const struct fake_member *m = context;

    if (index == 0 || index > strlen(m->log))
        return false;
    *out = (uint64_t)(m->log[index - 1] - '0');
    return true;
}

struct cluster_check_rig {
    struct cluster_check *check;
    struct fake_member members[MEMBERS];
};

/* Three founders, whose logs begin with their own names, committed. */
static void rig_open(struct cluster_check_rig *r)
{
    *r = (struct cluster_check_rig){.check = cluster_check_new(MEMBERS, MEMBERS)};
    for (size_t i = 0; i < MEMBERS; i++) {
        struct fake_member *m = &r->members[i];
        m->log = "111";
        m->view = (struct cluster_view){.id = i + 1, .term = 1, .commit = 3, .revision = 1};
    }
}

/* Shows the member with this log, durable up to `stable`. */
static void show(struct cluster_check_rig *r, size_t member, const char *log, uint64_t stable)
{
    struct fake_member *m = &r->members[member];

    m->log = log;
    m->view.last = strlen(log);
    m->view.stable = stable;
    m->view.term_at = term_at;
    m->view.context = m;
    cluster_check_turned(r->check, member, &m->view);
}

/* Without anything else happening. */
static void vote(struct cluster_check_rig *r, size_t member, uint64_t term, size_t candidate)
{
    struct fake_member *m = &r->members[member];

    m->view.term = term;
    m->view.vote = candidate + 1;
    m->view.lead = 0;
    m->view.is_leader = false;
    show(r, member, m->log, m->view.stable > 0 ? m->view.stable : strlen(m->log));
}

/* By the votes of itself and the next one. */
static void lead(struct cluster_check_rig *r, size_t member, uint64_t term)
{
    for (size_t i = 0; i < MEMBERS; i++)
        if (i != member)
            r->members[i].view.is_leader = false;
    vote(r, member, term, member);
    vote(r, (member + 1) % MEMBERS, term, member);
    r->members[member].view.lead = member + 1;
    r->members[member].view.is_leader = true;
}

static void follow(struct cluster_check_rig *r, size_t member, uint64_t term, size_t leader)
{
    r->members[member].view.term = term;
    r->members[member].view.lead = leader + 1;
    r->members[member].view.is_leader = false;
}

/* Entry 4, of term 2, is committed: the leader is the first, the second has it, too. */
static void commit_fourth(struct cluster_check_rig *r)
{
    lead(r, 0, 2);
    show(r, 0, "1112", 4);
    follow(r, 1, 2, 0);
    show(r, 1, "1112", 4);
    r->members[0].view.commit = 4;
    show(r, 0, "1112", 4);
    CHECK(!cluster_check_problem(r->check));
}

static void is_refused(struct cluster_check_rig *r, const char *text)
{
    const char *problem = cluster_check_problem(r->check);

    if (!problem || !strstr(problem, text))
        test_fail(__FILE__, __LINE__, "wanted \"%s\", got: %s", text,
                  problem ? problem : "nothing");
    cluster_check_free(r->check);
}

static void is_fine(struct cluster_check_rig *r)
{
    const char *problem = cluster_check_problem(r->check);

    CHECK_STR(problem ? problem : "", "");
    cluster_check_free(r->check);
}

TEST(cluster_check_lets_an_honest_cluster_be)
{
    struct cluster_check_rig r;
    uint64_t term = 0;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 2, 2, 0);
    show(&r, 2, "1112", 2);
    cluster_check_down(r.check, 0); /* the leader's last entry was seen by nobody */
    lead(&r, 1, 3);
    show(&r, 1, "11123", 4);
    follow(&r, 2, 3, 1);
    show(&r, 2, "11123", 5);
    show(&r, 1, "11123", 5);
    r.members[1].view.commit = 5;
    show(&r, 1, "11123", 5);
    r.members[1].view.applied = 5;
    r.members[1].view.revision = 2;
    show(&r, 1, "11123", 5);
    follow(&r, 0, 2, 0);
    r.members[0].view.lead = 0;
    show(&r, 0, "11122", 5); /* back, with what it had */
    follow(&r, 0, 3, 1);
    show(&r, 0, "11123", 4);

    CHECK_EQ(cluster_check_leader(r.check, &term), 1);
    CHECK_EQ(term, 3);
    is_fine(&r);
}

/* Check 1. */
TEST(cluster_check_finds_two_leaders_of_one_term)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 0, 3, 2); /* long ago: the first has gone on since */
    show(&r, 0, "1112", 4);
    lead(&r, 1, 2);
    show(&r, 1, "1112", 4);

    is_refused(&r, "term 2 has two leaders");
}

/* Check 1. */
TEST(cluster_check_finds_a_follower_of_somebody_else)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 2, 2, 1);
    show(&r, 2, "111", 3);

    is_refused(&r, "term 2 has two leaders");
}

/* Check 1. */
TEST(cluster_check_finds_a_leader_without_a_quorum_of_votes)
{
    struct cluster_check_rig r;

    rig_open(&r);
    vote(&r, 0, 2, 0);
    vote(&r, 1, 2, 1);
    vote(&r, 2, 2, 1);
    r.members[0].view.lead = 1;
    r.members[0].view.is_leader = true;
    show(&r, 0, "111", 3);

    is_refused(&r, "member 0 leads term 2 by 1 votes, and needs 2");
}

/* Check 1: somebody else may have voted and gone on in the same turn. */
TEST(cluster_check_does_not_miss_votes_that_it_cannot_have_seen)
{
    struct cluster_check_rig r;

    rig_open(&r);
    vote(&r, 0, 2, 0);
    vote(&r, 1, 3, 1);
    r.members[0].view.lead = 1;
    r.members[0].view.is_leader = true;
    show(&r, 0, "111", 3);

    is_fine(&r);
}

/* Check 1. */
TEST(cluster_check_finds_a_vote_that_is_forgotten)
{
    struct cluster_check_rig r;

    rig_open(&r);
    lead(&r, 0, 2);
    show(&r, 0, "1112", 4);
    cluster_check_down(r.check, 1);
    r.members[1].view.vote = 0;
    show(&r, 1, "111", 3);

    is_refused(&r, "member 1 has voted for 1 in term 2, and after a restart for 0 in term 2");
}

/* Its disk hung, say: nobody heard of it. */
TEST(cluster_check_lets_a_vote_be_forgotten_that_came_too_late_to_count)
{
    struct cluster_check_rig r;

    rig_open(&r);
    lead(&r, 0, 2);
    show(&r, 0, "1112", 4);
    vote(&r, 2, 2, 0);
    cluster_check_down(r.check, 2);
    r.members[2].view.term = 1;
    r.members[2].view.vote = 0;
    show(&r, 2, "111", 3);

    is_fine(&r);
}

/* Check 1. */
TEST(cluster_check_finds_a_term_that_is_forgotten)
{
    struct cluster_check_rig r;

    rig_open(&r);
    lead(&r, 0, 2);
    show(&r, 0, "1112", 4);
    cluster_check_down(r.check, 1);
    r.members[1].view.term = 1;
    r.members[1].view.vote = 0;
    show(&r, 1, "111", 3);

    is_refused(&r, "member 1 has voted for 1 in term 2, and after a restart for 0 in term 1");
}

/* Check 1: nobody has counted it, so it need not have been on disk. */
TEST(cluster_check_lets_a_vote_be_forgotten_that_nobody_needed)
{
    struct cluster_check_rig r;

    rig_open(&r);
    vote(&r, 2, 2, 0);
    lead(&r, 0, 2);
    show(&r, 0, "1112", 4);
    cluster_check_down(r.check, 2);
    r.members[2].view.vote = 0;
    show(&r, 2, "111", 3);

    is_fine(&r);
}

/* Check 2: the third never saw entry 4, and agrees with itself on another one. */
TEST(cluster_check_finds_two_entries_committed_at_one_index)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 2, 3, 2);
    r.members[2].view.commit = 4;
    show(&r, 2, "1113", 4);

    is_refused(&r, "entry 4 was committed with term 2, and on member 2 with term 3");
}

/* Check 2: what a member has committed, it takes back. */
TEST(cluster_check_finds_a_log_cut_below_its_commit_index)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 0, 3, 2);
    show(&r, 0, "1113", 4);

    is_refused(&r, "member 0 has changed entry 4, which is committed");
}

/* Check 2: and then it has nothing in its place. */
TEST(cluster_check_finds_a_log_that_ends_below_its_commit_index)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    show(&r, 0, "111", 3);

    is_refused(&r, "member 0 has committed 4 and its log ends at 3");
}

/* Check 3: both end with entry 5 of term 3, and differ before it. */
TEST(cluster_check_finds_logs_that_do_not_match)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 1, 3, 2);
    show(&r, 1, "11123", 5);
    follow(&r, 2, 3, 2);
    show(&r, 2, "11113", 5);

    is_refused(&r, "logs do not match");
}

/* Check 3: the newest entry is as it was, the one below it is not. */
TEST(cluster_check_finds_a_log_that_changed_in_its_middle)
{
    struct cluster_check_rig r;

    rig_open(&r);
    follow(&r, 1, 3, 2);
    show(&r, 1, "11113", 5);
    follow(&r, 1, 4, 2);
    show(&r, 1, "11123", 5);

    is_refused(&r, "logs do not match");
}

/* Check 4: the followers have it in memory only. */
TEST(cluster_check_finds_what_is_committed_by_a_minority)
{
    struct cluster_check_rig r;

    rig_open(&r);
    lead(&r, 0, 2);
    show(&r, 0, "1112", 4);
    follow(&r, 1, 2, 0);
    show(&r, 1, "1112", 3);
    r.members[0].view.commit = 4;
    show(&r, 0, "1112", 4);

    is_refused(&r, "entry 4 of term 2 is committed, and it is not durable on a quorum");
}

/* Check 4: the thesis' figure 3.7. Everybody has entry 4, and still somebody else may overwrite it:
 * only with one of its own term behind it is it safe. */
TEST(cluster_check_finds_an_older_term_committed_by_itself)
{
    struct cluster_check_rig r;

    rig_open(&r);
    lead(&r, 0, 2);
    show(&r, 0, "1112", 4);
    follow(&r, 1, 2, 0);
    show(&r, 1, "1112", 4);
    lead(&r, 0, 3);
    show(&r, 0, "11123", 4);
    r.members[0].view.commit = 4;
    show(&r, 0, "11123", 4);

    is_refused(&r, "member 0 leads term 3, and has committed up to 4, of term 2");
}

/* Check 4: so many entries, but of another term. */
TEST(cluster_check_counts_only_those_who_have_this_entry)
{
    struct cluster_check_rig r;

    rig_open(&r);
    follow(&r, 1, 2, 1);
    show(&r, 1, "1112", 4);
    follow(&r, 2, 2, 1);
    show(&r, 2, "1112", 4);
    lead(&r, 0, 3);
    show(&r, 0, "1113", 4);
    r.members[0].view.commit = 4;
    show(&r, 0, "1113", 4);

    is_refused(&r, "entry 4 of term 3 is committed, and it is not durable on a quorum");
}

/* Check 4: one that is down still has what it had made durable. */
TEST(cluster_check_counts_those_who_are_down)
{
    struct cluster_check_rig r;

    rig_open(&r);
    lead(&r, 0, 2);
    show(&r, 0, "1112", 4);
    follow(&r, 1, 2, 0);
    show(&r, 1, "1112", 4);
    cluster_check_down(r.check, 1);
    r.members[0].view.commit = 4;
    show(&r, 0, "1112", 4);

    is_fine(&r);
}

/* Check 4. */
TEST(cluster_check_finds_what_is_applied_before_it_is_durable_here)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 2, 2, 0);
    r.members[2].view.commit = 4;
    r.members[2].view.applied = 4;
    show(&r, 2, "1112", 3);

    is_refused(&r, "member 2 has applied 4, and only 3 is durable");
}

/* Check 4. */
TEST(cluster_check_finds_what_is_applied_before_it_is_committed)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 2, 2, 0);
    r.members[2].view.applied = 4;
    show(&r, 2, "1112", 4);

    is_refused(&r, "member 2 has applied 4 and committed 3");
}

/* Check 5. */
TEST(cluster_check_finds_a_leader_that_lacks_what_was_committed)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    lead(&r, 2, 3);
    show(&r, 2, "1113", 3);

    is_refused(&r, "member 2 leads term 3 without entry 4, which was committed in term 2");
}

/* Check 5: elected by votes that were long under way. */
TEST(cluster_check_lets_a_leader_of_an_old_term_lack_what_is_newer)
{
    struct cluster_check_rig r;

    rig_open(&r);
    vote(&r, 0, 2, 2);
    vote(&r, 2, 2, 2);
    lead(&r, 0, 3);
    show(&r, 0, "1113", 4);
    follow(&r, 1, 3, 0);
    show(&r, 1, "1113", 4);
    r.members[0].view.commit = 4;
    show(&r, 0, "1113", 4);
    r.members[2].view.lead = 3;
    r.members[2].view.is_leader = true;
    show(&r, 2, "1112", 3);

    is_fine(&r);
}

/* Check 6. */
TEST(cluster_check_finds_another_revision_after_the_same_entry)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    r.members[0].view.applied = 4;
    r.members[0].view.revision = 2;
    show(&r, 0, "1112", 4);
    r.members[1].view.commit = 4;
    r.members[1].view.applied = 4;
    r.members[1].view.revision = 3;
    show(&r, 1, "1112", 4);

    is_refused(&r, "after entry 4 member 1 is at revision 3, another was at 2");
}

static const struct digest fourth = {
    .applied = 4, .revision = 2, .compact_revision = -1, .parts = {1, 2, 3, 4, 5}};

/* Check 6. */
TEST(cluster_check_finds_another_state_after_the_same_entry)
{
    for (int part = 0; part < DIGEST_PARTS; part++) {
        struct cluster_check_rig r;
        struct digest other = fourth;
        char text[128];

        rig_open(&r);
        cluster_check_digest(r.check, 2, &fourth);
        cluster_check_digest(r.check, 1, &fourth);
        CHECK(!cluster_check_problem(r.check));
        other.parts[part] = 0x1f;
        cluster_check_digest(r.check, 0, &other);
        snprintf(text, sizeof(text),
                 "after entry 4, at revision 2, member 0 has another state than member 2 had: "
                 "%s 1f, not %x",
                 digest_part_name((enum digest_part)part), fourth.parts[part]);
        is_refused(&r, text);
    }
}

/* Check 6: the same after a restart. */
TEST(cluster_check_finds_another_state_of_a_member_that_was_down)
{
    struct cluster_check_rig r;
    struct digest other = fourth;

    rig_open(&r);
    commit_fourth(&r);
    cluster_check_digest(r.check, 0, &fourth);
    cluster_check_down(r.check, 0);
    other.compact_revision = 2;
    cluster_check_digest(r.check, 0, &other);

    is_refused(&r, "member 0 has another state than member 0 had: compact revision 2, not f");
}

TEST(cluster_check_lets_states_differ_after_different_entries)
{
    struct cluster_check_rig r;
    struct digest fifth = fourth;

    rig_open(&r);
    fifth.applied = 5;
    fifth.parts[DIGEST_KEYS] = 9;
    CHECK(!cluster_check_has_digest(r.check, 4));
    cluster_check_digest(r.check, 0, &fourth);
    CHECK(cluster_check_has_digest(r.check, 4));
    CHECK(!cluster_check_has_digest(r.check, 5));
    cluster_check_digest(r.check, 1, &fifth);
    cluster_check_digest(r.check, 2, &fourth);

    is_fine(&r);
}

/* Check 7. */
TEST(cluster_check_finds_a_durable_entry_that_is_lost)
{
    struct cluster_check_rig r;

    rig_open(&r);
    follow(&r, 1, 2, 0);
    show(&r, 1, "11122", 4); /* the fifth may go */
    cluster_check_down(r.check, 1);
    show(&r, 1, "1112", 4);
    CHECK(!cluster_check_problem(r.check));
    cluster_check_down(r.check, 1);
    show(&r, 1, "111", 3);

    is_refused(&r, "member 1 had 4 entries durable, and after a restart 3");
}

/* Check 7. */
TEST(cluster_check_finds_a_durable_entry_that_is_another)
{
    struct cluster_check_rig r;

    rig_open(&r);
    follow(&r, 1, 3, 0);
    show(&r, 1, "1113", 4);
    cluster_check_down(r.check, 1);
    show(&r, 1, "1112", 4);

    is_refused(&r,
               "member 1 had entry 4 of term 3 durable, and after a restart it is one of term 2");
}

/* Check 7. */
TEST(cluster_check_finds_a_member_that_is_founded_again)
{
    struct cluster_check_rig r;
    struct cluster_view founding = {0};

    rig_open(&r);
    cluster_check_turned(r.check, 1, &founding);
    follow(&r, 1, 1, 1);
    show(&r, 1, "111", 2); /* and then power went: two of three founders are durable */
    cluster_check_down(r.check, 1);
    cluster_check_turned(r.check, 1, &founding);
    follow(&r, 1, 2, 1);
    show(&r, 1, "1112", 4);
    cluster_check_down(r.check, 1);
    CHECK(!cluster_check_problem(r.check));
    cluster_check_turned(r.check, 1, &founding);

    is_refused(&r, "member 1 had 4 entries durable, and is founded again");
}

/* Check 7: three that only grow. */
TEST(cluster_check_finds_a_term_that_decreases)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 0, 1, 2);
    show(&r, 0, "1112", 4);

    is_refused(&r, "member 0 went back from term 2 to 1");
}

TEST(cluster_check_finds_a_commit_index_that_decreases)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    r.members[0].view.commit = 3;
    show(&r, 0, "1112", 4);

    is_refused(&r, "member 0 went back from commit index 4 to 3");
}

TEST(cluster_check_finds_an_applied_index_that_decreases)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    r.members[0].view.applied = 4;
    show(&r, 0, "1112", 4);
    r.members[0].view.applied = 3;
    show(&r, 0, "1112", 4);

    is_refused(&r, "member 0 went back from applied index 4 to 3");
}

/* Check 3: a snapshot takes the place of a log that was empty, or another. */
TEST(cluster_check_lets_a_member_jump_to_a_snapshot)
{
    struct cluster_check_rig r;

    rig_open(&r);
    show(&r, 2, "1111", 4);
    commit_fourth(&r);
    follow(&r, 2, 2, 0);
    r.members[2].view.base = 4;
    r.members[2].view.commit = 4;
    show(&r, 2, "1112", 4);
    r.members[2].view.applied = 4;
    show(&r, 2, "11122", 5);

    is_fine(&r);
}

TEST(cluster_check_finds_a_snapshot_of_what_was_never_committed)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 2, 2, 0);
    r.members[2].view.base = 5;
    r.members[2].view.commit = 5;
    show(&r, 2, "11122", 5);

    is_refused(&r, "the log of member 2 begins after entry 5 of term 2, which was committed with "
                   "term 0");
}

TEST(cluster_check_finds_a_snapshot_of_another_term)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 2, 2, 0);
    r.members[2].view.base = 4;
    r.members[2].view.commit = 4;
    show(&r, 2, "1111", 4);

    is_refused(&r, "the log of member 2 begins after entry 4 of term 1, which was committed with "
                   "term 2");
}

TEST(cluster_check_finds_a_log_that_begins_above_its_commit_index)
{
    struct cluster_check_rig r;

    rig_open(&r);
    commit_fourth(&r);
    follow(&r, 2, 2, 0);
    r.members[2].view.base = 4;
    show(&r, 2, "1112", 4);

    is_refused(&r, "the log of member 2 begins after 4, and only 3 is committed");
}

/* Check 8. */
TEST(cluster_check_finds_a_queue_that_is_too_long)
{
    struct cluster_check_rig r;
    struct cluster_bound bounds[] = {{"calls", 3, 3}, {"bytes for its log", 11, 10}};

    rig_open(&r);
    r.members[1].view.bounds = bounds;
    r.members[1].view.bound_count = ARRAY_LEN(bounds);
    show(&r, 1, "111", 3);

    is_refused(&r, "member 1 has 11 bytes for its log, and may have 10");
}

/* Check 9. */
TEST(cluster_check_demands_progress_of_a_majority_that_is_well)
{
    struct cluster_check_rig r;

    rig_open(&r);
    cluster_check_time(r.check, 9000000000); /* nobody is well yet */
    cluster_check_healed(r.check, 10000000000, 2000000000);
    cluster_check_time(r.check, 11000000000);
    commit_fourth(&r);
    cluster_check_time(r.check, 11500000000);
    cluster_check_time(r.check, 13500000000);
    CHECK(!cluster_check_problem(r.check));
    cluster_check_time(r.check, 13500000001);

    is_refused(&r, "a majority has been well for 2000 ms, and nothing was committed above 4");
}

TEST(cluster_check_demands_nothing_in_a_storm)
{
    struct cluster_check_rig r;

    rig_open(&r);
    cluster_check_healed(r.check, 1000000000, 2000000000);
    cluster_check_healed(r.check, 2000000000, 0);
    cluster_check_time(r.check, 90000000000);

    is_fine(&r);
}

/* --- members that come and go --- */

/* The first `voters` of them vote, and the next `learners` learn, as far as this member knows. */
static void configure(struct cluster_check_rig *r, size_t member, struct raft_conf_state *conf,
                      size_t voters, size_t learners)
{
    *conf = (struct raft_conf_state){.voters.count = voters, .learners.count = learners};
    for (size_t i = 0; i < voters; i++)
        conf->voters.at[i] = i + 1;
    for (size_t i = 0; i < learners; i++)
        conf->learners.at[i] = voters + i + 1;
    r->members[member].view.conf = conf;
    r->members[member].view.applied = 3;
}

static void configure_all(struct cluster_check_rig *r, struct raft_conf_state *conf, size_t voters,
                          size_t learners)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        configure(r, i, conf, voters, learners);
        show(r, i, "111", 3);
    }
}

TEST(cluster_check_counts_no_learner_for_a_commit)
{
    struct cluster_check_rig r;
    struct raft_conf_state conf;

    rig_open(&r);
    configure_all(&r, &conf, 2, 1);
    lead(&r, 0, 2);
    show(&r, 0, "1112", 4);
    follow(&r, 2, 2, 0);
    show(&r, 2, "1112", 4);
    r.members[0].view.commit = 4;
    show(&r, 0, "1112", 4);
    is_refused(&r, "not durable on a quorum");
}

TEST(cluster_check_lets_two_voters_commit_beside_a_learner)
{
    struct cluster_check_rig r;
    struct raft_conf_state conf;

    rig_open(&r);
    configure_all(&r, &conf, 2, 1);
    commit_fourth(&r);
    CHECK_EQ(cluster_check_voter_count(r.check), 2);
    CHECK_EQ(cluster_check_size(r.check), 3);
    CHECK(!cluster_check_is_voter(r.check, 2));
    CHECK(cluster_check_is_up_to_date(r.check, 2));
    is_fine(&r);
}

TEST(cluster_check_refuses_a_learner_that_leads)
{
    struct cluster_check_rig r;
    struct raft_conf_state conf;

    rig_open(&r);
    configure_all(&r, &conf, 2, 1);
    vote(&r, 0, 2, 2);
    vote(&r, 1, 2, 2);
    r.members[2].view = (struct cluster_view){.id = 3,
                                              .term = 2,
                                              .vote = 3,
                                              .lead = 3,
                                              .is_leader = true,
                                              .commit = 3,
                                              .applied = 3,
                                              .revision = 1,
                                              .conf = &conf};
    show(&r, 2, "111", 3);
    is_refused(&r, "is no voter");
}

TEST(cluster_check_counts_no_vote_of_one_that_is_no_member)
{
    struct cluster_check_rig r;
    struct raft_conf_state conf;

    rig_open(&r);
    configure_all(&r, &conf, 2, 0);
    vote(&r, 2, 2, 0);
    vote(&r, 0, 2, 0);
    r.members[0].view.lead = 1;
    r.members[0].view.is_leader = true;
    show(&r, 0, "111", 3);
    is_refused(&r, "by 1 votes, and needs 2");
}

TEST(cluster_check_wants_the_same_members_after_the_same_entry)
{
    struct cluster_check_rig r;
    struct raft_conf_state conf, other;

    rig_open(&r);
    configure_all(&r, &conf, 3, 0);
    commit_fourth(&r);
    r.members[0].view.applied = r.members[1].view.applied = r.members[1].view.commit = 4;
    show(&r, 0, "1112", 4);
    configure(&r, 1, &other, 2, 1);
    r.members[1].view.applied = 4;
    show(&r, 1, "1112", 4);
    is_refused(&r, "after entry 4 member 1 has 2 voters and 1 learners");
}

TEST(cluster_check_lets_nobody_listen_to_whom_it_knows_to_be_removed)
{
    for (int follows = 0; follows < 2; follows++) {
        struct cluster_check_rig r;
        struct raft_conf_state conf;
        uint64_t removed = 3;

        rig_open(&r);
        configure_all(&r, &conf, 2, 0);
        r.members[0].view.removed = &removed;
        r.members[0].view.removed_count = 1;
        show(&r, 0, "111", 3);
        CHECK(cluster_check_is_removed(r.check, 2));
        CHECK(!cluster_check_is_removed(r.check, 1));
        if (follows) {
            follow(&r, 0, 2, 2);
            show(&r, 0, "111", 3);
        } else
            vote(&r, 0, 2, 2);
        is_refused(&r, follows ? "follows member 2" : "votes in term 2 for member 2");
    }
}
