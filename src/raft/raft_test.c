/*
 * What a member does beyond the paper: both ways of writing, quorum checks, proposals, flow.
 */
#include "harness/test.h"
#include "raft/raft_rig_test.h"
#include "raft/tracker.h"

/* --- settings --- */

TEST(settings_that_cannot_work_are_named)
{
    struct raft_config c = raft_group_config(1);
    CHECK(raft_config_problem(&c) == NULL);

    c.id = RAFT_NONE;
    CHECK_STR(raft_config_problem(&c), "cannot use none as id");
    c.id = RAFT_APPLY_THREAD;
    CHECK_STR(raft_config_problem(&c), "cannot use local target as id");
    c = raft_group_config(1);
    c.election_ticks = 1;
    CHECK_STR(raft_config_problem(&c), "election tick must be greater than heartbeat tick");
    c = raft_group_config(1);
    c.max_message_bytes = 10;
    c.max_inflight_bytes = 9;
    CHECK_STR(raft_config_problem(&c), "max inflight bytes must be >= max message size");
    c = raft_group_config(1);
    c.read_mode = RAFT_READ_LEASE;
    CHECK(raft_config_problem(&c) != NULL);
}

/* --- both ways of writing --- */

static void async(struct raft_config *c)
{
    c->async_storage_writes = true;
}

static void run_a_while(void (*tweak)(struct raft_config *))
{
    struct raft_rig g;
    raft_group_open(&g, 3, tweak);
    raft_group_elect(&g, 1);

    for (int i = 0; i < 100; i++) {
        CHECK_EQ(raft_group_propose(&g, i % 3 ? 1 : 2, "c"), RAFT_OK);
        if (i % 7 == 0)
            raft_group_settle(&g);
    }
    raft_group_settle(&g);
    for (uint64_t id = 1; id <= 3; id++) {
        CHECK_EQ(g.member[id].machine.len, 200);
        CHECK_EQ(g.member[id].applied, 101);
        CHECK_EQ(raft_group_status(&g, id).stable_index, 101);
    }
    raft_group_close(&g);
}

TEST(proposals_are_applied_everywhere_in_plain_mode)
{
    run_a_while(NULL);
}

TEST(proposals_are_applied_everywhere_in_async_mode)
{
    run_a_while(async);
}

TEST(an_async_append_names_its_answers)
{
    struct raft_rig g;
    struct raft_output out;
    struct buf text = {0};
    raft_group_open(&g, 3, async);
    raft_group_elect(&g, 1);

    raft_group_propose(&g, 1, "x");
    CHECK(raft_take_output(raft_group_raft(&g, 1), &out));
    CHECK_EQ(out.send_count, 2);
    CHECK_EQ(out.message_count, 3);
    CHECK(out.append == &out.messages[2]);
    CHECK(out.apply == NULL);
    raft_describe_message(&text, out.append, NULL);
    CHECK_STR(buf_str(&text),
              "1->AppendThread MsgStorageAppend Term:0 Log:0/0 Entries:[1/2 EntryNormal \"x\"] "
              "Responses:[\n"
              "  1->1 MsgAppResp Term:1 Log:0/2\n"
              "  AppendThread->1 MsgStorageAppendResp Term:1 Log:1/2\n"
              "]");
    buf_free(&text);
    raft_group_close(&g);
}

/* What a candidate says of its term and log has to be true of its next life, too: a vote may come
 * that late. The question whether it would be voted for promises nothing. */
TEST(votes_are_asked_for_when_the_term_is_durable)
{
    struct raft_rig g;
    struct raft_output out;
    raft_group_open(&g, 3, async);
    struct raft *r = raft_group_raft(&g, 1);

    raft_campaign(r);
    CHECK(raft_take_output(r, &out));
    CHECK_EQ(out.send_count, 0);
    CHECK_EQ(out.append->term, 1);
    unsigned asked = 0;
    for (size_t i = 0; i < out.append->response_count; i++)
        asked += out.append->responses[i].type == RAFT_MSG_VOTE;
    CHECK_EQ(asked, 2);
    raft_group_close(&g);
}

/* Its disk takes longer than its patience lasts. It begins no other term before it has this one. */
TEST(a_candidate_waits_for_its_own_vote)
{
    struct raft_rig g;
    struct raft_output out;
    raft_group_open(&g, 1, async);
    struct raft *r = raft_group_raft(&g, 1);

    raft_campaign(r);
    CHECK(raft_take_output(r, &out));
    struct raft_message *work = raft_message_clone(out.append);
    for (unsigned i = 0; i < 100; i++)
        raft_tick(r);
    CHECK_EQ(raft_status(r).hard_state.term, 1);
    for (size_t i = 0; i < work->response_count; i++)
        CHECK_EQ(raft_step_own(r, &work->responses[i]), RAFT_OK);
    CHECK_EQ(raft_status(r).soft_state.role, RAFT_LEADER);
    raft_message_free(work);
    raft_group_close(&g);
}

/* A message to be applied may take long; of what is done already the log can be compacted. */
TEST(applying_is_told_in_parts)
{
    struct raft_rig g;
    struct raft_output out;
    raft_group_open(&g, 1, async);
    raft_group_elect(&g, 1);
    struct raft *r = raft_group_raft(&g, 1);
    struct raft_message *work = NULL;

    for (unsigned i = 0; i < 4; i++)
        raft_group_propose(&g, 1, "four");
    while (!work) {
        CHECK(raft_take_output(r, &out));
        if (out.apply)
            work = raft_message_clone(out.apply);
        else
            for (size_t i = 0; i < out.append->response_count; i++)
                CHECK_EQ(raft_step_own(r, &out.append->responses[i]), RAFT_OK);
    }
    CHECK_EQ(work->entry_count, 4);
    uint64_t first = work->entries[0].index;
    uint64_t waiting = raft_status(r).uncommitted_bytes;
    raft_step_applied(r, work, 0, 1);
    CHECK_EQ(raft_status(r).applied, first);
    raft_step_applied(r, work, 1, 3);
    CHECK_EQ(raft_status(r).applied, first + 2);
    CHECK_EQ(raft_status(r).applying, first + 3);
    CHECK_EQ(raft_status(r).uncommitted_bytes, waiting - 12);
    raft_compact(r, first + 2);
    raft_check(r);
    raft_step_applied(r, work, 3, 4);
    CHECK_EQ(raft_status(r).applied, first + 3);
    CHECK_EQ(raft_status(r).uncommitted_bytes, 0);
    raft_check(r);

    raft_message_free(work);
    raft_group_close(&g);
}

/* Writes of entries 2, then of its replacement, then of the original again may be under way at
 * once. The first one's completion must not be taken for the third's. */
TEST(a_completed_write_of_an_older_term_proves_nothing)
{
    struct raft_rig g;
    struct raft_output out;
    struct raft_message *first;
    raft_group_open(&g, 5, async);
    struct raft_entry old[] = {{.index = 1, .term = 1}};
    struct raft_entry new[] = {{.index = 1, .term = 2}};
    struct raft_message append = {.type = RAFT_MSG_APP, .to = 1, .entry_count = 1};

    append.from = 2, append.term = 1, append.entries = old;
    raft_group_step(&g, append);
    CHECK(raft_take_output(raft_group_raft(&g, 1), &out));
    first = raft_message_clone(out.append);
    append.from = 3, append.term = 2, append.entries = new;
    raft_group_step(&g, append);
    CHECK(raft_take_output(raft_group_raft(&g, 1), &out));
    append.from = 2, append.term = 3, append.entries = old;
    raft_group_step(&g, append);
    CHECK(raft_take_output(raft_group_raft(&g, 1), &out));
    struct raft_message *third = raft_message_clone(out.append);

    for (size_t i = 0; i < first->response_count; i++)
        if (first->responses[i].to == 1)
            raft_step_own(raft_group_raft(&g, 1), &first->responses[i]);
    CHECK_EQ(raft_group_status(&g, 1).stable_index, 0);
    for (size_t i = 0; i < third->response_count; i++)
        if (third->responses[i].to == 1)
            raft_step_own(raft_group_raft(&g, 1), &third->responses[i]);
    CHECK_EQ(raft_group_status(&g, 1).stable_index, 1);
    raft_message_free(first);
    raft_message_free(third);
    raft_group_close(&g);
}

TEST(async_mode_applies_only_what_is_durable)
{
    struct raft_rig g;
    struct raft_output out;
    struct raft_entry e = {.index = 1, .term = 1};
    raft_group_open(&g, 3, async);

    raft_group_step(&g, (struct raft_message){.type = RAFT_MSG_APP,
                                              .from = 2,
                                              .to = 1,
                                              .term = 1,
                                              .entries = &e,
                                              .entry_count = 1,
                                              .commit = 1});
    CHECK(raft_take_output(raft_group_raft(&g, 1), &out));
    CHECK_EQ(out.hard_state.commit, 1);
    CHECK_EQ(out.committed_count, 0);
    struct raft_message *work = raft_message_clone(out.append);
    CHECK(!raft_has_output(raft_group_raft(&g, 1)));
    raft_step_own(raft_group_raft(&g, 1), &work->responses[work->response_count - 1]);
    CHECK(raft_take_output(raft_group_raft(&g, 1), &out));
    CHECK_EQ(out.committed_count, 1);
    raft_message_free(work);
    raft_group_close(&g);
}

TEST(two_plain_outputs_without_an_advance_are_a_bug)
{
    struct raft_rig g;
    struct raft_output out;
    raft_group_open(&g, 1, NULL);
    raft_campaign(raft_group_raft(&g, 1));
    CHECK(raft_take_output(raft_group_raft(&g, 1), &out));
    CHECK(!raft_take_output(raft_group_raft(&g, 1), &out)); /* nothing new is no second output */

    raft_transfer_leader(raft_group_raft(&g, 1), 1);
    raft_campaign(raft_group_raft(&g, 1));
    CHECK_DIES(raft_take_output(raft_group_raft(&g, 1), &out), "awaiting_advance");
    raft_group_close(&g);
}

TEST(an_output_stays_readable_while_the_log_under_it_changes)
{
    struct raft_rig g;
    struct raft_output out;
    struct raft_entry e = {.index = 1, .term = 1, .data = BYTES("first")};
    raft_group_open(&g, 3, async);
    struct raft_message m = {
        .type = RAFT_MSG_APP, .from = 2, .to = 1, .term = 1, .entries = &e, .entry_count = 1};
    raft_group_step(&g, m);
    CHECK(raft_take_output(raft_group_raft(&g, 1), &out));

    e.term = 2, e.data = BYTES("second");
    m.from = 3, m.term = 2;
    raft_group_step(&g, m);
    CHECK_BYTES(out.entries[0].data, BYTES("first"));
    CHECK_BYTES(out.append->entries[0].data, BYTES("first"));
    raft_group_close(&g);
}

/* --- messages that own themselves --- */

TEST(a_clone_outlives_its_lender)
{
    struct blob *data = text_blob("data"), *state = text_blob("state");
    struct raft_entry entries[] = {
        {.index = 1, .term = 1, .data = blob_bytes(data), .blob = data},
        {.index = 2, .term = 1},
    };
    struct raft_snapshot snapshot = {
        .index = 5, .term = 1, .data = blob_bytes(state), .blob = state};
    struct raft_message response = {.type = RAFT_MSG_STORAGE_APPLY_RESP,
                                    .entries = entries,
                                    .entry_count = 2,
                                    .context = BYTES("inner")};
    struct raft_message m = {.type = RAFT_MSG_STORAGE_APPLY,
                             .entries = entries,
                             .entry_count = 2,
                             .snapshot = &snapshot,
                             .context = BYTES("outer"),
                             .responses = &response,
                             .response_count = 1};

    struct raft_message *clone = raft_message_clone(&m);
    CHECK_EQ(blob_ref_count(data), 2); /* the response shows the message's entries */
    CHECK(clone->responses[0].entries == clone->entries);
    memset(entries, 0xee, sizeof(entries));
    memset(&snapshot, 0xee, sizeof(snapshot));
    memset(&response, 0xee, sizeof(response));
    CHECK_BYTES(clone->entries[0].data, BYTES("data"));
    CHECK_BYTES(clone->snapshot->data, BYTES("state"));
    CHECK_BYTES(clone->context, BYTES("outer"));
    CHECK_BYTES(clone->responses[0].context, BYTES("inner"));
    raft_message_free(clone);
    CHECK_EQ(blob_ref_count(data), 1);
    CHECK_EQ(blob_ref_count(state), 1);
    blob_unref(data);
    blob_unref(state);
}

/* --- quorum checks and leases --- */

static void check_quorum(struct raft_config *c)
{
    c->check_quorum = true;
}

TEST(a_leader_without_a_quorum_steps_down)
{
    struct raft_rig g;
    raft_group_open(&g, 3, check_quorum);
    raft_group_elect(&g, 1);

    raft_group_tick(&g, 1, 10); /* they answered lately */
    CHECK_EQ(raft_group_role(&g, 1), RAFT_LEADER);
    raft_group_take(&g, 1);
    raft_group_lose(&g, -1);
    raft_group_tick(&g, 1, 10);
    CHECK_EQ(raft_group_role(&g, 1), RAFT_FOLLOWER);
    CHECK(raft_group_logged(&g, 1, "1 stepped down to follower since quorum is not active"));
    raft_group_close(&g);
}

TEST(a_follower_with_a_live_leader_ignores_candidates)
{
    struct raft_rig g;
    raft_group_open(&g, 3, check_quorum);
    raft_group_elect(&g, 1);

    raft_campaign(raft_group_raft(&g, 3));
    raft_group_settle(&g);
    CHECK(raft_group_logged(&g, 2, "ignored MsgVote from 3"));
    CHECK_EQ(raft_group_status(&g, 2).hard_state.term, 1);

    raft_group_tick(&g, 2, 10); /* the lease runs out */
    raft_campaign(raft_group_raft(&g, 3));
    raft_group_take(&g, 3);
    raft_group_lose(&g, -1);
    struct raft_message vote = {.type = RAFT_MSG_VOTE,
                                .from = 3,
                                .to = 2,
                                .term = raft_group_status(&g, 3).hard_state.term,
                                .log_term = 1,
                                .index = raft_group_status(&g, 3).last_index};
    raft_group_step(&g, vote);
    CHECK(raft_group_logged(&g, 2, "cast MsgVote for 3"));
    raft_group_close(&g);
}

TEST(a_member_stuck_in_a_higher_term_frees_itself)
{
    struct raft_rig g;
    raft_group_open(&g, 3, check_quorum);
    raft_group_elect(&g, 1);
    g.member[3].cut = true;
    raft_campaign(raft_group_raft(&g, 3));
    raft_group_settle(&g);
    g.member[3].cut = false;

    raft_group_tick(&g, 1, 1); /* its answer to a heartbeat of the old term ends that term */
    raft_group_settle(&g);
    CHECK_EQ(raft_group_role(&g, 1), RAFT_FOLLOWER);
    CHECK_EQ(raft_group_status(&g, 1).hard_state.term, 2);
    raft_group_elect(&g, 1);
    CHECK_EQ(raft_group_status(&g, 3).soft_state.lead, 1);
    raft_group_close(&g);
}

static void pre_vote(struct raft_config *c)
{
    c->pre_vote = true;
}

TEST(a_pre_candidate_that_is_refused_keeps_its_term)
{
    struct raft_rig g;
    raft_group_open(&g, 3, pre_vote);
    raft_group_elect(&g, 1);
    g.member[3].cut = true;
    raft_group_propose(&g, 1, "x");
    raft_group_settle(&g);
    g.member[3].cut = false;

    raft_campaign(raft_group_raft(&g, 3));
    raft_group_settle(&g);
    CHECK_EQ(raft_group_role(&g, 3), RAFT_FOLLOWER);
    CHECK_EQ(raft_group_status(&g, 3).hard_state.term, 1);
    CHECK_EQ(raft_group_role(&g, 1), RAFT_LEADER);
    raft_group_close(&g);
}

TEST(a_follower_can_be_told_to_forget_its_leader)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);

    CHECK_EQ(raft_forget_leader(raft_group_raft(&g, 2)), RAFT_OK);
    CHECK_EQ(raft_group_status(&g, 2).soft_state.lead, RAFT_NONE);
    CHECK_EQ(raft_group_propose(&g, 2, "x"), RAFT_PROPOSAL_DROPPED);
    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_EQ(raft_group_status(&g, 2).soft_state.lead, 1);
    raft_group_close(&g);
}

/* --- proposals --- */

static void no_forwarding(struct raft_config *c)
{
    c->disable_proposal_forwarding = true;
}

TEST(followers_forward_proposals_unless_told_not_to)
{
    struct raft_rig g;
    raft_group_open(&g, 2, NULL);
    CHECK_EQ(raft_group_propose(&g, 2, "early"), RAFT_PROPOSAL_DROPPED);
    raft_group_elect(&g, 1);
    CHECK_EQ(raft_group_propose(&g, 2, "x"), RAFT_OK);
    CHECK_STR(raft_group_sent(&g, 2),
              "2->1 MsgProp Term:0 Log:0/0 Entries:[0/0 EntryNormal \"x\"]\n");
    raft_group_settle(&g);
    CHECK_STR(raft_group_machine(&g, 2), "x ");
    raft_group_close(&g);

    raft_group_open(&g, 2, no_forwarding);
    raft_group_elect(&g, 1);
    CHECK_EQ(raft_group_propose(&g, 2, "x"), RAFT_PROPOSAL_DROPPED);
    raft_group_close(&g);
}

static void little_uncommitted(struct raft_config *c)
{
    c->max_uncommitted_bytes = 10;
}

TEST(too_much_uncommitted_drops_proposals)
{
    struct raft_rig g;
    raft_group_open(&g, 3, little_uncommitted);
    raft_group_elect(&g, 1);

    CHECK_EQ(raft_group_propose(&g, 1, "far more than ten bytes"), RAFT_OK); /* or it never could */
    CHECK_EQ(raft_group_propose(&g, 1, "a"), RAFT_PROPOSAL_DROPPED);
    CHECK_EQ(raft_propose(raft_group_raft(&g, 1), NULL), RAFT_OK); /* empty is always welcome */
    raft_group_settle(&g);
    CHECK_EQ(raft_group_status(&g, 1).uncommitted_bytes, 0);
    CHECK_EQ(raft_group_propose(&g, 1, "12345"), RAFT_OK);
    CHECK_EQ(raft_group_propose(&g, 1, "67890"), RAFT_OK);
    CHECK_EQ(raft_group_propose(&g, 1, "1"), RAFT_PROPOSAL_DROPPED);
    raft_group_close(&g);
}

TEST(a_batch_is_proposed_in_one_append)
{
    struct raft_rig g;
    struct blob *data[100];
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    for (size_t i = 0; i < ARRAY_LEN(data); i++)
        data[i] = text_blob("c");

    CHECK_EQ(raft_propose_batch(raft_group_raft(&g, 1), data, ARRAY_LEN(data)), RAFT_OK);
    raft_group_take(&g, 1);
    CHECK_EQ(g.flying_count, 2);
    CHECK(g.flying[0]->entries[5].blob == data[5]);
    raft_group_settle(&g);
    CHECK_EQ(g.member[3].machine.len, 200);
    raft_group_close(&g);
    for (size_t i = 0; i < ARRAY_LEN(data); i++) {
        CHECK_EQ(blob_ref_count(data[i]), 1);
        blob_unref(data[i]);
    }
}

/* --- flow control --- */

static void small_messages(struct raft_config *c)
{
    c->max_message_bytes = 0;
    c->max_inflight_messages = 3;
}

TEST(a_full_window_stops_the_flow_until_it_is_answered)
{
    struct raft_rig g;
    raft_group_open(&g, 2, small_messages);
    raft_group_elect(&g, 1);
    for (int i = 0; i < 6; i++)
        raft_group_propose(&g, 1, "c");

    raft_group_take(&g, 1);
    CHECK_EQ(g.flying_count, 3);
    CHECK(progress_is_paused(raft_group_progress(&g, 1, 2)));
    CHECK_EQ(raft_group_lose(&g, RAFT_MSG_APP), 3);

    raft_group_tick(&g, 1,
                    1); /* a heartbeat's answer brings one empty append, and its rejection all */
    raft_group_settle(&g);
    CHECK_EQ(g.member[2].machine.len, 12);
    CHECK_EQ(raft_group_progress(&g, 1, 2)->match, 7);
    raft_group_close(&g);
}

static void few_bytes(struct raft_config *c)
{
    c->max_message_bytes = 16;
    c->max_inflight_bytes = 16;
}

TEST(a_window_also_counts_bytes)
{
    struct raft_rig g;
    raft_group_open(&g, 2, few_bytes);
    raft_group_elect(&g, 1);

    for (int i = 0; i < 5; i++)
        raft_group_propose(&g, 1, "0123456789");
    raft_group_take(&g, 1);
    CHECK_EQ(g.flying_count, 2); /* ten bytes, then twenty, which is over */
    raft_group_settle(&g);
    CHECK_EQ(g.member[2].machine.len, 55);
    raft_group_close(&g);
}

TEST(an_unreachable_peer_is_probed_again)
{
    struct raft_rig g;
    raft_group_open(&g, 2, NULL);
    raft_group_elect(&g, 1);
    CHECK_EQ(raft_group_progress(&g, 1, 2)->state, PROGRESS_REPLICATE);

    raft_group_propose(&g, 1, "x");
    raft_group_take(&g, 1);
    raft_group_lose(&g, -1);
    raft_report_unreachable(raft_group_raft(&g, 1), 2);
    CHECK_EQ(raft_group_progress(&g, 1, 2)->state, PROGRESS_PROBE);
    CHECK_EQ(raft_group_progress(&g, 1, 2)->next, 2);
    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_EQ(raft_group_progress(&g, 1, 2)->state, PROGRESS_REPLICATE);
    CHECK_STR(raft_group_machine(&g, 2), "x ");
    raft_group_close(&g);
}

/* --- restarts --- */

TEST(a_restarted_group_goes_on)
{
    struct raft_rig g;
    raft_group_open(&g, 3, async);
    raft_group_elect(&g, 1);
    for (int i = 0; i < 5; i++)
        raft_group_propose(&g, 1, "c");
    raft_group_settle(&g);

    for (uint64_t id = 1; id <= 3; id++)
        raft_group_restart(&g, id);
    CHECK_EQ(raft_group_status(&g, 1).hard_state.term, 1);
    CHECK_EQ(raft_group_status(&g, 1).last_index, 6);
    raft_group_elect(&g, 2);
    raft_group_propose(&g, 3, "d");
    raft_group_settle(&g);
    for (uint64_t id = 1; id <= 3; id++)
        CHECK_STR(raft_group_machine(&g, id), "c c c c c d ");
    raft_group_close(&g);
}
