/*
 * The rules of the raft paper and thesis, one by one. Section numbers are the thesis's.
 */
#include "harness/test.h"
#include "raft/raft_rig_test.h"

static struct raft_soft_state soft(struct raft_rig *g, uint64_t id)
{
    return raft_status(raft_group_raft(g, id)).soft_state;
}

static uint64_t term(struct raft_rig *g, uint64_t id)
{
    return raft_status(raft_group_raft(g, id)).hard_state.term;
}

static uint64_t commit(struct raft_rig *g, uint64_t id)
{
    return raft_status(raft_group_raft(g, id)).hard_state.commit;
}

/* Steps a message to a member as if it came over the network. */
static enum raft_result step(struct raft_rig *g, struct raft_message m)
{
    enum raft_result result = raft_step(raft_group_raft(g, m.to), &m);

    raft_check(raft_group_raft(g, m.to));
    return result;
}

static void wait_for_timeout(struct raft_rig *g, uint64_t id)
{
    struct raft_status s = raft_status(raft_group_raft(g, id));

    raft_group_tick(g, id, s.randomized_election_timeout - s.election_elapsed);
}

/* Gives member 1 a log with these terms, through a leader (member 2) of a high term. */
static void give_log(struct raft_rig *g, size_t count, const uint64_t *terms)
{
    struct raft_entry entries[32];

    for (size_t i = 0; i < count; i++)
        entries[i] = (struct raft_entry){.index = i + 1, .term = terms[i]};
    step(g, (struct raft_message){.type = RAFT_MSG_APP,
                                  .from = 2,
                                  .to = 1,
                                  .term = terms[count - 1],
                                  .entries = entries,
                                  .entry_count = count});
    raft_group_take(g, 1);
    raft_group_lose(g, -1);
    CHECK_EQ(raft_status(raft_group_raft(g, 1)).last_index, count);
}

#define GIVE_LOG(g, ...)                                                                           \
    give_log((g), sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t),                            \
             (const uint64_t[]){__VA_ARGS__})

/* --- 3.3: terms --- */

TEST(a_member_starts_as_a_follower)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);

    CHECK_EQ(soft(&g, 1).role, RAFT_FOLLOWER);
    CHECK_EQ(soft(&g, 1).lead, RAFT_NONE);
    raft_group_close(&g);
}

TEST(every_role_follows_a_higher_term)
{
    for (int role = RAFT_FOLLOWER; role <= RAFT_LEADER; role++) {
        struct raft_rig g;
        raft_group_open(&g, 3, NULL);
        if (role != RAFT_FOLLOWER)
            raft_campaign(raft_group_raft(&g, 1));
        if (role == RAFT_LEADER)
            raft_group_settle(&g);
        CHECK_EQ((int)soft(&g, 1).role, role);

        step(&g, (struct raft_message){.type = RAFT_MSG_APP, .from = 2, .to = 1, .term = 5});
        CHECK_EQ(soft(&g, 1).role, RAFT_FOLLOWER);
        CHECK_EQ(soft(&g, 1).lead, 2);
        CHECK_EQ(term(&g, 1), 5);
        raft_group_close(&g);
    }
}

TEST(a_message_of_a_lower_term_is_ignored)
{
    struct raft_rig g;
    struct raft_entry e = {.index = 1, .term = 1};
    raft_group_open(&g, 3, NULL);
    step(&g, (struct raft_message){.type = RAFT_MSG_HEARTBEAT, .from = 2, .to = 1, .term = 3});
    raft_group_take(&g, 1);

    step(&g,
         (struct raft_message){
             .type = RAFT_MSG_APP, .from = 3, .to = 1, .term = 1, .entries = &e, .entry_count = 1});
    CHECK_STR(raft_group_sent(&g, 1), "");
    CHECK_EQ(raft_status(raft_group_raft(&g, 1)).last_index, 0);
    CHECK_EQ(soft(&g, 1).lead, 2);
    raft_group_close(&g);
}

/* --- 3.4: elections --- */

TEST(a_leader_sends_heartbeats)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);

    raft_group_tick(&g, 1, 1);
    CHECK_STR(raft_group_sent(&g, 1), "1->2 MsgHeartbeat Term:1 Log:0/0 Commit:1\n"
                                      "1->3 MsgHeartbeat Term:1 Log:0/0 Commit:1\n");
    raft_group_close(&g);
}

TEST(a_follower_without_a_leader_campaigns)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);

    wait_for_timeout(&g, 1);
    CHECK_EQ(soft(&g, 1).role, RAFT_CANDIDATE);
    CHECK_EQ(term(&g, 1), 1);
    CHECK_EQ(raft_status(raft_group_raft(&g, 1)).hard_state.vote, 1);
    CHECK_STR(raft_group_sent(&g, 1), "1->2 MsgVote Term:1 Log:0/0\n"
                                      "1->3 MsgVote Term:1 Log:0/0\n");
    raft_group_close(&g);
}

TEST(a_candidate_without_an_answer_campaigns_again)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);

    wait_for_timeout(&g, 1);
    raft_group_take(&g, 1);
    wait_for_timeout(&g, 1);
    CHECK_EQ(soft(&g, 1).role, RAFT_CANDIDATE);
    CHECK_EQ(term(&g, 1), 2);
    raft_group_close(&g);
}

/* Which answers make a candidate of 1, 3 or 5 members a leader, a follower, or neither? */
TEST(an_election_is_decided_by_a_majority)
{
    static const struct {
        size_t size;
        const char *votes; /* of members 2, 3, ... */
        enum raft_role want;
    } cases[] = {
        {1, "", RAFT_LEADER},      {3, "yy", RAFT_LEADER},    {3, "y", RAFT_LEADER},
        {3, "ny", RAFT_LEADER},    {3, "nn", RAFT_FOLLOWER},  {3, "n", RAFT_CANDIDATE},
        {5, "yy", RAFT_LEADER},    {5, "yn", RAFT_CANDIDATE}, {5, "ynny", RAFT_LEADER},
        {5, "nnn", RAFT_FOLLOWER}, {5, "", RAFT_CANDIDATE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct raft_rig g;
        raft_group_open(&g, cases[i].size, NULL);
        raft_campaign(raft_group_raft(&g, 1));
        raft_group_take(&g, 1);
        for (uint64_t v = 0; cases[i].votes[v]; v++)
            step(&g, (struct raft_message){.type = RAFT_MSG_VOTE_RESP,
                                           .from = v + 2,
                                           .to = 1,
                                           .term = 1,
                                           .reject = cases[i].votes[v] == 'n'});
        CHECK_EQ(soft(&g, 1).role, cases[i].want);
        CHECK_EQ(term(&g, 1), 1);
        raft_group_close(&g);
    }
}

TEST(a_member_votes_once_per_term)
{
    static const struct {
        uint64_t voted, asks;
        bool refused;
    } cases[] = {{0, 2, false}, {0, 3, false}, {2, 2, false}, {3, 3, false}, {2, 3, true}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct raft_rig g;
        raft_group_open(&g, 3, NULL);
        if (cases[i].voted)
            step(&g, (struct raft_message){
                         .type = RAFT_MSG_VOTE, .from = cases[i].voted, .to = 1, .term = 1});
        raft_group_take(&g, 1);

        step(&g, (struct raft_message){
                     .type = RAFT_MSG_VOTE, .from = cases[i].asks, .to = 1, .term = 1});
        CHECK_EQ(strstr(raft_group_sent(&g, 1), "Rejected") != NULL, cases[i].refused);
        raft_group_close(&g);
    }
}

TEST(a_vote_is_durable_before_it_is_sent)
{
    struct raft_rig g;
    struct raft_output out;
    raft_group_open(&g, 3, NULL);

    step(&g, (struct raft_message){.type = RAFT_MSG_VOTE, .from = 2, .to = 1, .term = 4});
    CHECK(raft_take_output(raft_group_raft(&g, 1), &out));
    CHECK(out.has_hard_state);
    CHECK(out.must_sync);
    CHECK_EQ(out.hard_state.term, 4);
    CHECK_EQ(out.hard_state.vote, 2);
    CHECK_EQ(out.message_count, 1);
    raft_advance(raft_group_raft(&g, 1));
    raft_group_close(&g);
}

TEST(a_restarted_member_remembers_its_vote)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    step(&g, (struct raft_message){.type = RAFT_MSG_VOTE, .from = 2, .to = 1, .term = 4});
    raft_group_take(&g, 1);

    raft_group_restart(&g, 1);
    step(&g, (struct raft_message){.type = RAFT_MSG_VOTE, .from = 3, .to = 1, .term = 4});
    CHECK_STR(raft_group_sent(&g, 1), "1->3 MsgVoteResp Term:4 Log:0/0 Rejected (Hint: 0)\n");
    raft_group_close(&g);
}

TEST(a_candidate_follows_a_leader_of_its_term)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_campaign(raft_group_raft(&g, 1));

    step(&g, (struct raft_message){.type = RAFT_MSG_APP, .from = 3, .to = 1, .term = 1});
    CHECK_EQ(soft(&g, 1).role, RAFT_FOLLOWER);
    CHECK_EQ(soft(&g, 1).lead, 3);
    CHECK_EQ(term(&g, 1), 1);
    raft_group_close(&g);
}

TEST(election_timeouts_are_spread_over_their_range)
{
    struct raft_rig g;
    bool seen[20] = {false};
    raft_group_open(&g, 3, NULL);

    for (int round = 0; round < 1000; round++) {
        unsigned timeout = raft_status(raft_group_raft(&g, 1)).randomized_election_timeout;
        CHECK(timeout >= 10 && timeout < 20);
        seen[timeout] = true;
        raft_campaign(raft_group_raft(&g, 1));
        raft_group_take(&g, 1);
        raft_group_lose(&g, -1);
    }
    for (int timeout = 10; timeout < 20; timeout++)
        CHECK(seen[timeout]);
    raft_group_close(&g);
}

/* --- 3.5: replication --- */

TEST(a_leader_replicates_what_is_proposed)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);

    CHECK_EQ(raft_group_propose(&g, 1, "x"), RAFT_OK);
    CHECK_STR(raft_group_sent(&g, 1),
              "1->2 MsgApp Term:1 Log:1/1 Commit:1 Entries:[1/2 EntryNormal \"x\"]\n"
              "1->3 MsgApp Term:1 Log:1/1 Commit:1 Entries:[1/2 EntryNormal \"x\"]\n");
    CHECK_EQ(commit(&g, 1), 1);
    raft_group_close(&g);
}

TEST(an_entry_on_a_majority_is_committed_and_applied_by_all)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    g.member[3].cut = true;

    raft_group_propose(&g, 1, "x");
    raft_group_settle(&g);
    CHECK_EQ(commit(&g, 1), 2);
    CHECK_STR(raft_group_machine(&g, 1), "x ");
    CHECK_STR(raft_group_machine(&g, 2), "x ");
    CHECK_STR(raft_group_machine(&g, 3), "");

    g.member[3].cut = false;
    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_STR(raft_group_machine(&g, 3), "x ");
    raft_group_close(&g);
}

TEST(without_a_majority_nothing_is_committed)
{
    struct raft_rig g;
    raft_group_open(&g, 5, NULL);
    raft_group_elect(&g, 1);
    for (uint64_t id = 3; id <= 5; id++)
        g.member[id].cut = true;

    raft_group_propose(&g, 1, "x");
    raft_group_settle(&g);
    CHECK_EQ(commit(&g, 1), 1);
    CHECK_STR(raft_group_machine(&g, 1), "");
    raft_group_close(&g);
}

TEST(a_follower_commits_no_further_than_it_matches)
{
    static const struct {
        uint64_t count, leader_commit, want;
    } cases[] = {{1, 1, 1}, {2, 2, 2}, {2, 1, 1}, {1, 9, 1}, {0, 9, 0}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct raft_rig g;
        struct raft_entry two[] = {{.index = 1, .term = 1}, {.index = 2, .term = 1}};
        raft_group_open(&g, 3, NULL);
        step(&g, (struct raft_message){.type = RAFT_MSG_APP,
                                       .from = 2,
                                       .to = 1,
                                       .term = 1,
                                       .entries = two,
                                       .entry_count = cases[i].count,
                                       .commit = cases[i].leader_commit});
        CHECK_EQ(commit(&g, 1), cases[i].want);
        raft_group_close(&g);
    }
}

TEST(a_follower_refuses_what_does_not_fit_its_log)
{
    static const struct {
        uint64_t log_term, index;
        const char *want;
    } cases[] = {
        {1, 1, "1->2 MsgAppResp Term:2 Log:0/1\n"},
        {2, 2, "1->2 MsgAppResp Term:2 Log:0/2\n"},
        {1, 2, "1->2 MsgAppResp Term:2 Log:1/2 Rejected (Hint: 1)\n"},
        {2, 3, "1->2 MsgAppResp Term:2 Log:2/3 Rejected (Hint: 2)\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct raft_rig g;
        raft_group_open(&g, 3, NULL);
        GIVE_LOG(&g, 1, 2);
        step(&g, (struct raft_message){.type = RAFT_MSG_APP,
                                       .from = 2,
                                       .to = 1,
                                       .term = 2,
                                       .log_term = cases[i].log_term,
                                       .index = cases[i].index});
        CHECK_STR(raft_group_sent(&g, 1), cases[i].want);
        raft_group_close(&g);
    }
}

/* Figure 3.6: however a follower's log differs, it ends up as the leader's. */
TEST(any_log_is_brought_in_line_with_the_leaders)
{
    static const uint64_t leader_log[] = {1, 1, 1, 4, 4, 5, 5, 6, 6, 6};
    static const struct {
        size_t count;
        uint64_t terms[16];
    } logs[] = {
        {9, {1, 1, 1, 4, 4, 5, 5, 6, 6}},
        {4, {1, 1, 1, 4}},
        {11, {1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6}},
        {12, {1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7}},
        {7, {1, 1, 1, 4, 4, 4, 4}},
        {11, {1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3}},
    };

    for (size_t i = 0; i < ARRAY_LEN(logs); i++) {
        struct raft_rig g;
        struct raft_entry entries[16];
        raft_group_open(&g, 3, NULL);
        for (uint64_t id = 1; id <= 2; id++) {
            const uint64_t *terms = id == 1 ? leader_log : logs[i].terms;
            size_t count = id == 1 ? ARRAY_LEN(leader_log) : logs[i].count;
            for (size_t e = 0; e < count; e++)
                entries[e] = (struct raft_entry){.index = e + 1, .term = terms[e]};
            step(&g, (struct raft_message){.type = RAFT_MSG_APP,
                                           .from = 3,
                                           .to = id,
                                           .term = 8,
                                           .entries = entries,
                                           .entry_count = count});
        }
        for (uint64_t id = 1; id <= 2; id++)
            raft_group_take(&g, id);
        raft_group_lose(&g, -1);

        /* Member 3 with its empty log votes for anyone; 2 may refuse, but then learns better. */
        raft_group_elect(&g, 1);
        raft_group_propose(&g, 1, "new");
        raft_group_settle(&g);
        CHECK_EQ(g.member[2].disk_count, g.member[1].disk_count);
        for (size_t e = 0; e < g.member[1].disk_count; e++)
            CHECK_EQ(g.member[2].disk[e].term, g.member[1].disk[e].term);
        CHECK_STR(raft_group_machine(&g, 2), "new ");
        raft_group_close(&g);
    }
}

/* --- 3.6: safety --- */

TEST(a_vote_request_names_the_end_of_the_log)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    GIVE_LOG(&g, 1, 2, 2);

    wait_for_timeout(&g, 1);
    CHECK_STR(raft_group_sent(&g, 1), "1->2 MsgVote Term:3 Log:2/3\n"
                                      "1->3 MsgVote Term:3 Log:2/3\n");
    raft_group_close(&g);
}

TEST(no_vote_for_a_log_that_lacks_something)
{
    static const struct {
        uint64_t log_term, index;
        bool refused;
    } cases[] = {
        {1, 1, true}, {1, 9, true}, {2, 1, true}, {2, 2, false}, {2, 3, false}, {3, 1, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct raft_rig g;
        raft_group_open(&g, 3, NULL);
        GIVE_LOG(&g, 1, 2);
        step(&g, (struct raft_message){.type = RAFT_MSG_VOTE,
                                       .from = 3,
                                       .to = 1,
                                       .term = 5,
                                       .log_term = cases[i].log_term,
                                       .index = cases[i].index});
        CHECK_EQ(strstr(raft_group_sent(&g, 1), "Rejected") != NULL, cases[i].refused);
        raft_group_close(&g);
    }
}

/* Figure 3.7: an entry of an older term is not committed by being on a majority. */
TEST(only_entries_of_the_own_term_are_committed_by_counting)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    GIVE_LOG(&g, 1, 2);
    raft_campaign(raft_group_raft(&g, 1));
    raft_group_take(&g, 1);
    step(&g, (struct raft_message){.type = RAFT_MSG_VOTE_RESP, .from = 2, .to = 1, .term = 3});
    CHECK_EQ(soft(&g, 1).role, RAFT_LEADER);
    raft_group_take(&g, 1);

    step(&g, (struct raft_message){
                 .type = RAFT_MSG_APP_RESP, .from = 2, .to = 1, .term = 3, .index = 2});
    CHECK_EQ(commit(&g, 1), 0);
    step(&g, (struct raft_message){
                 .type = RAFT_MSG_APP_RESP, .from = 2, .to = 1, .term = 3, .index = 3});
    CHECK_EQ(commit(&g, 1), 3);
    raft_group_close(&g);
}

TEST(a_leader_does_not_count_its_own_copy_before_it_is_durable)
{
    struct raft_rig g;
    struct raft_output out;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    raft_group_propose(&g, 1, "x");
    CHECK(raft_take_output(raft_group_raft(&g, 1), &out)); /* being written, not yet advanced */

    step(&g, (struct raft_message){
                 .type = RAFT_MSG_APP_RESP, .from = 2, .to = 1, .term = 1, .index = 2});
    CHECK_EQ(commit(&g, 1), 1);
    raft_advance(raft_group_raft(&g, 1));
    CHECK_EQ(commit(&g, 1), 2);
    raft_group_close(&g);
}

/* --- 3.10: leadership transfer --- */

TEST(leadership_goes_to_whom_it_is_transferred)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);

    raft_transfer_leader(raft_group_raft(&g, 1), 3);
    CHECK_EQ(raft_group_propose(&g, 1, "x"), RAFT_PROPOSAL_DROPPED);
    raft_group_settle(&g);
    CHECK_EQ(soft(&g, 3).role, RAFT_LEADER);
    CHECK_EQ(soft(&g, 1).lead, 3);
    raft_group_close(&g);
}

/* --- 9.6: pre-vote --- */

static void with_pre_vote(struct raft_config *c)
{
    c->pre_vote = true;
    c->check_quorum = true;
}

TEST(a_member_that_was_cut_off_does_not_disturb_with_its_term)
{
    struct raft_rig g;
    raft_group_open(&g, 3, with_pre_vote);
    raft_group_elect(&g, 1);
    g.member[3].cut = true;
    raft_group_tick(&g, 3, 100);
    raft_group_settle(&g);
    CHECK_EQ(term(&g, 3), 1);
    CHECK_EQ(soft(&g, 3).role, RAFT_PRE_CANDIDATE);

    g.member[3].cut = false;
    raft_group_tick(&g, 3, 20);
    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_EQ(soft(&g, 1).role, RAFT_LEADER);
    CHECK_EQ(term(&g, 1), 1);
    CHECK_EQ(soft(&g, 3).lead, 1);
    raft_group_close(&g);
}
