/*
 * What a peer may not do, and what happens when it does.
 */
#include "harness/test.h"
#include "raft/raft_rig_test.h"
#include "raft/tracker.h"

/* --- what a peer may not do --- */

TEST(local_messages_are_not_taken_from_peers)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);

    for (int type = 0; type <= RAFT_MSG_FORGET_LEADER; type++) {
        struct raft_message m = {
            .type = (enum raft_message_type)type, .from = 2, .to = 1, .term = 1};
        CHECK_EQ(raft_group_step(&g, m) == RAFT_LOCAL_MESSAGE, raft_message_is_local(m.type));
    }
    CHECK_STR(raft_result_text(RAFT_LOCAL_MESSAGE), "raft: cannot step raft local message");
    raft_group_close(&g);
}

TEST(answers_from_strangers_are_refused)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);

    struct raft_message m = {.type = RAFT_MSG_APP_RESP, .from = 77, .to = 1, .term = 1, .index = 1};
    CHECK_EQ(raft_group_step(&g, m), RAFT_PEER_NOT_FOUND);
    raft_group_close(&g);
}

TEST(nobody_speaks_in_our_name)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    raft_group_propose(&g, 1, "x");
    struct raft_message ack = {
        .type = RAFT_MSG_APP_RESP, .from = 1, .to = 1, .term = 1, .index = 2};

    CHECK_EQ(raft_group_step(&g, ack), RAFT_BAD_MESSAGE);
    ack.from = RAFT_APPEND_THREAD;
    CHECK_EQ(raft_group_step(&g, ack), RAFT_BAD_MESSAGE);
    ack.from = RAFT_NONE;
    CHECK_EQ(raft_group_step(&g, ack), RAFT_BAD_MESSAGE);
    raft_group_close(&g);
}

/* A proposal may travel in a circle: to the leader of then, and back to us, who lead by now. */
TEST(our_own_proposal_may_come_back_to_us)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    struct raft_entry e = {.data = BYTES("x")};
    struct raft_message m = {
        .type = RAFT_MSG_PROP, .from = 1, .to = 1, .entries = &e, .entry_count = 1};

    CHECK_EQ(raft_group_step(&g, m), RAFT_OK);
    raft_group_settle(&g);
    CHECK_STR(raft_group_machine(&g, 3), "x ");
    raft_group_close(&g);
}

TEST(impossible_appends_are_dropped)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    struct raft_entry gap[] = {{.index = 1, .term = 1}, {.index = 3, .term = 1}};
    struct raft_entry fall[] = {{.index = 1, .term = 2}, {.index = 2, .term = 1}};
    struct raft_entry future[] = {{.index = 1, .term = 9}, {.index = 2, .term = 9}};
    struct raft_entry no_term[] = {{.index = 1}, {.index = 2}};
    struct raft_entry strange[] = {{.index = 1, .term = 1}, {.index = 2, .term = 1}};
    const uint32_t unknown = 3; /* as a peer may write it */
    memcpy(&strange[1].type, &unknown, sizeof(unknown));
    struct raft_entry empty[] = {{.index = 1, .term = 1},
                                 {.index = 2, .term = 1, .type = RAFT_ENTRY_CONF_CHANGE}};
    struct raft_entry *bad[] = {gap, fall, future, no_term, strange, empty};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct raft_message m = {.type = RAFT_MSG_APP,
                                 .from = 2,
                                 .to = 1,
                                 .term = 2,
                                 .entries = bad[i],
                                 .entry_count = 2};
        CHECK_EQ(raft_group_step(&g, m), RAFT_BAD_MESSAGE);
    }
    struct raft_message huge = {
        .type = RAFT_MSG_APP, .from = 2, .to = 1, .term = UINT64_MAX, .index = 1};
    CHECK_EQ(raft_group_step(&g, huge), RAFT_BAD_MESSAGE);
    huge.term = 1;
    huge.index = UINT64_MAX;
    CHECK_EQ(raft_group_step(&g, huge), RAFT_BAD_MESSAGE);
    huge.index = 0;
    huge.commit = UINT64_MAX;
    CHECK_EQ(raft_group_step(&g, huge), RAFT_BAD_MESSAGE);
    CHECK_EQ(raft_group_status(&g, 1).hard_state.term, 0);
    CHECK_EQ(raft_group_status(&g, 1).last_index, 0);
    raft_group_close(&g);
}

TEST(a_heartbeat_cannot_commit_what_is_not_there)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);

    raft_group_step(&g,
                    (struct raft_message){
                        .type = RAFT_MSG_HEARTBEAT, .from = 2, .to = 1, .term = 1, .commit = 5});
    CHECK_STR(raft_group_sent(&g, 1), "");
    CHECK_EQ(raft_group_status(&g, 1).hard_state.commit, 0);
    CHECK(raft_group_logged(&g, 1, "tocommit(5) is out of range [lastIndex(0)]"));
    raft_group_close(&g);
}

TEST(a_follower_cannot_have_more_than_its_leader)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);

    raft_group_step(&g,
                    (struct raft_message){
                        .type = RAFT_MSG_APP_RESP, .from = 2, .to = 1, .term = 1, .index = 1000});
    CHECK_EQ(raft_group_progress(&g, 1, 2)->match, 1);
    raft_group_close(&g);
}

/* As one does whose disk has lost the end of its log. There is no place left where the logs could
 * match, and the two would ask and deny without a pause. */
TEST(who_denies_what_it_has_confirmed_is_asked_again_after_a_heartbeat)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    raft_group_propose(&g, 1, "x");
    raft_group_settle(&g);
    struct raft_message denial = {.type = RAFT_MSG_APP_RESP,
                                  .from = 3,
                                  .to = 1,
                                  .term = 1,
                                  .index = 2,
                                  .reject = true,
                                  .reject_hint = 1,
                                  .log_term = 1};
    CHECK_EQ(raft_group_progress(&g, 1, 3)->match, 2);
    raft_report_unreachable(raft_group_raft(&g, 1), 3);

    for (unsigned round = 0; round < 3; round++) {
        raft_group_step(&g, denial);
        CHECK_STR(raft_group_sent(&g, 1), "");
        raft_group_step(&g, (struct raft_message){
                                .type = RAFT_MSG_HEARTBEAT_RESP, .from = 3, .to = 1, .term = 1});
        CHECK(strstr(raft_group_sent(&g, 1), "1->3 MsgApp"));
    }
    raft_group_close(&g);
}

TEST(absurd_snapshots_leave_everything_as_it_was)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    struct raft_conf_state fine = {.voters = {.count = 2, .at = {1, 2}}};
    struct raft_conf_state twice = fine, stranger = {.voters = {.count = 1, .at = {2}}};
    twice.learners = (struct raft_ids){.count = 1, .at = {2}};
    struct raft_snapshot bad[] = {
        {.index = 0, .term = 0, .conf_state = fine},
        {.index = 5, .term = 1, .conf_state = twice},
        {.index = 5, .term = 1, .conf_state = stranger},
        {.index = 5, .term = 9, .conf_state = fine},
        {.index = UINT64_MAX, .term = 1, .conf_state = fine},
        {.index = 5, .term = 1, .conf_state = {.voters = {.count = 1000, .at = {1}}}},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        raft_group_step(
            &g, (struct raft_message){
                    .type = RAFT_MSG_SNAP, .from = 2, .to = 1, .term = 1, .snapshot = &bad[i]});
        CHECK_EQ(raft_group_status(&g, 1).last_index, 0);
        raft_group_check_conf(&g, 1, "voters=(1 2 3)");
    }
    raft_group_step(&g,
                    (struct raft_message){.type = RAFT_MSG_SNAP, .from = 2, .to = 1, .term = 1});
    CHECK_EQ(raft_group_status(&g, 1).last_index, 0);
    raft_group_close(&g);
}

TEST(proposals_from_peers_are_looked_at_before_they_are_appended)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    struct raft_entry bad[] = {
        {.type = RAFT_ENTRY_CONF_CHANGE, .data = BYTES("\xff\xff")},
        {.type = RAFT_ENTRY_CONF_CHANGE_V2, .data = BYTES("\x12\x7f")},
        {.type = RAFT_ENTRY_CONF_CHANGE_V2, .data = BYTES("\x08\x09")},
        {.type = RAFT_ENTRY_CONF_CHANGE, .data = BYTES("\x10\x63\x18\x02")},
        {.type = RAFT_ENTRY_CONF_CHANGE},
        {.type = (enum raft_entry_type)strange_number(44)},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct raft_message m = {
            .type = RAFT_MSG_PROP, .from = 2, .to = 1, .entries = &bad[i], .entry_count = 1};
        CHECK(raft_group_step(&g, m) != RAFT_OK);
    }
    struct raft_message nothing = {.type = RAFT_MSG_PROP, .from = 2, .to = 1};
    CHECK_EQ(raft_group_step(&g, nothing), RAFT_BAD_MESSAGE);
    CHECK_EQ(raft_group_status(&g, 1).last_index, 1);
    raft_group_close(&g);
}

TEST(read_confirmations_that_were_never_asked_for_confirm_nothing)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    raft_group_elect(&g, 1);
    raft_group_read(&g, 1, "a");
    raft_group_take(&g, 1);
    raft_group_lose(&g, -1);
    struct raft_message ack = {
        .type = RAFT_MSG_HEARTBEAT_RESP, .from = 2, .to = 1, .term = 1, .context = BYTES("short")};

    CHECK_EQ(raft_group_step(&g, ack), RAFT_BAD_MESSAGE);
    ack.context = BYTES("\x09\0\0\0\0\0\0\0");
    raft_group_step(&g, ack);
    raft_group_take(&g, 1);
    CHECK_STR(raft_group_reads(&g, 1), "");
    ack.context = BYTES("\x01\0\0\0\0\0\0\0");
    raft_group_step(&g, ack);
    raft_group_take(&g, 1);
    CHECK_STR(raft_group_reads(&g, 1), "a@1 ");
    raft_group_close(&g);
}

TEST(unknown_types_are_dropped)
{
    struct raft_rig g;
    raft_group_open(&g, 3, NULL);
    struct raft_message m = {
        .type = (enum raft_message_type)strange_number(99), .from = 2, .to = 1, .term = 7};

    CHECK_EQ(raft_group_step(&g, m), RAFT_BAD_MESSAGE);
    CHECK_EQ(raft_group_status(&g, 1).hard_state.term, 0);
    raft_group_close(&g);
}

/* --- any message at any time --- */

static uint64_t odd_number(struct rng *rng)
{
    static const uint64_t odd[] = {
        0,         1, 2, 3, 5, 10, UINT32_MAX, RAFT_NUMBER_MAX, RAFT_NUMBER_MAX + 1, UINT64_MAX - 1,
        UINT64_MAX};

    return rng_chance(rng, 1, 8) ? odd[rng_below(rng, ARRAY_LEN(odd))] : rng_below(rng, 8);
}

static void random_ids(struct rng *rng, struct raft_ids *ids)
{
    ids->count = rng_below(rng, 4);
    for (size_t i = 0; i < ids->count; i++)
        ids->at[i] = rng_below(rng, 5);
}

/* A message with parts that live beside it. */
struct nonsense {
    struct raft_message message;
    struct raft_entry entries[3];
    struct raft_snapshot snapshot;
};

static void random_entries(struct rng *rng, struct nonsense *n)
{
    struct raft_message *m = &n->message;

    m->entries = n->entries;
    m->entry_count = rng_below(rng, 4);
    for (uint64_t i = 0; i < m->entry_count; i++) {
        n->entries[i] = (struct raft_entry){.data = BYTES("\x18\x02")};
        n->entries[i].type = (enum raft_entry_type)rng_below(rng, 4);
        n->entries[i].index = rng_chance(rng, 7, 8) ? m->index + 1 + i : odd_number(rng);
        n->entries[i].term = rng_chance(rng, 7, 8) ? m->term : odd_number(rng);
    }
}

static void random_snapshot(struct rng *rng, struct nonsense *n)
{
    n->snapshot = (struct raft_snapshot){.data = BYTES("s")};
    n->snapshot.index = odd_number(rng);
    n->snapshot.term = odd_number(rng);
    random_ids(rng, &n->snapshot.conf_state.voters);
    random_ids(rng, &n->snapshot.conf_state.learners);
    if (rng_chance(rng, 1, 4))
        random_ids(rng, &n->snapshot.conf_state.voters_outgoing);
    n->message.snapshot = &n->snapshot;
}

static void random_message(struct rng *rng, struct nonsense *n)
{
    struct raft_message *m = &n->message;

    *m = (struct raft_message){.to = 1};
    m->type = (enum raft_message_type)rng_below(rng, 26);
    m->from = odd_number(rng);
    m->term = odd_number(rng);
    m->log_term = rng_chance(rng, 1, 2) ? m->term : odd_number(rng);
    m->index = odd_number(rng);
    m->commit = odd_number(rng);
    m->reject_hint = odd_number(rng);
    m->reject = rng_chance(rng, 1, 2);
    m->context = rng_chance(rng, 1, 2) ? BYTES("\1\0\0\0\0\0\0\0") : BYTES("abc");
    random_entries(rng, n);
    if (rng_chance(rng, 1, 2))
        random_snapshot(rng, n);
}

/* Takes an output and does some of what it asks for, or none of it. */
static void handle_carelessly(struct raft *r, struct rng *rng, bool plain)
{
    struct raft_output out;

    if (!raft_take_output(r, &out))
        return;
    raft_check(r);
    if (plain) {
        raft_advance(r);
    } else if (out.append && rng_chance(rng, 1, 2)) {
        struct raft_message *work = raft_message_clone(out.append);
        for (size_t i = 0; i < work->response_count; i++)
            if (work->responses[i].to == raft_status(r).id)
                raft_step_own(r, &work->responses[i]);
        raft_message_free(work);
    }
    raft_check(r);
}

static void everything(struct raft_config *c)
{
    c->async_storage_writes = true;
    c->pre_vote = true;
    c->check_quorum = true;
    c->step_down_on_removal = true;
    c->max_message_bytes = 20;
    c->max_inflight_messages = 2;
    c->max_resident_entries = 2;
}

/* Promise 6: nothing a peer can say breaks an invariant. */
TEST(nonsense_breaks_nothing)
{
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (uint64_t life = 0; life < 300 * test_effort(); life++) {
        struct raft_rig g;
        struct nonsense n;
        raft_group_open(&g, 3, life % 2 ? everything : NULL);
        for (int i = 0; i < 300; i++) {
            random_message(&rng, &n);
            raft_group_step(&g, n.message);
            if (rng_chance(&rng, 1, 4))
                raft_group_tick(&g, 1, 1);
            if (rng_chance(&rng, 1, 20))
                raft_campaign(raft_group_raft(&g, 1));
            if (rng_chance(&rng, 1, 4))
                raft_group_propose(&g, 1, "p");
            if (rng_chance(&rng, 1, 2))
                handle_carelessly(raft_group_raft(&g, 1), &rng, life % 2 == 0);
            raft_check(raft_group_raft(&g, 1));
        }
        raft_group_close(&g);
    }
}
