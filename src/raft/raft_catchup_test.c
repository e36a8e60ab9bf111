/*
 * Followers that are far behind: snapshots, and entries that must be read from disk.
 */
#include "harness/test.h"
#include "raft/raft_rig_test.h"
#include "raft/tracker.h"

/* --- snapshots --- */

/* Three members, of which 3 has missed entries that 1 has compacted. */
static void open_with_laggard(struct raft_rig *g)
{
    raft_group_open(g, 3, NULL);
    g->offer_snapshots = true;
    raft_group_elect(g, 1);
    g->member[3].cut = true;
    for (int i = 0; i < 5; i++)
        raft_group_propose(g, 1, "c");
    raft_group_settle(g);
    raft_compact(raft_group_raft(g, 1), raft_group_status(g, 1).applied);
    g->member[3].cut = false;
}

TEST(a_follower_beyond_the_log_gets_a_snapshot)
{
    struct raft_rig g;
    open_with_laggard(&g);

    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_EQ(g.member[3].snapshot.index, 6);
    CHECK_STR(raft_group_machine(&g, 3), "c c c c c ");
    CHECK_EQ(raft_group_progress(&g, 1, 3)->state, PROGRESS_REPLICATE);
    raft_group_propose(&g, 1, "d");
    raft_group_settle(&g);
    CHECK_STR(raft_group_machine(&g, 3), "c c c c c d ");
    raft_group_restart(&g, 3);
    CHECK_EQ(raft_group_status(&g, 3).applied, 7);
    raft_group_close(&g);
}

TEST(a_failed_snapshot_is_sent_again)
{
    struct raft_rig g;
    open_with_laggard(&g);
    raft_group_tick(&g, 1, 1);
    for (int round = 0; raft_group_progress(&g, 1, 3)->state != PROGRESS_SNAPSHOT; round++) {
        CHECK(round < 10);
        raft_group_deliver(&g);
        for (uint64_t id = 1; id <= 3; id++)
            raft_group_take(&g, id);
    }
    CHECK_EQ(raft_group_progress(&g, 1, 3)->next, 7);
    CHECK_EQ(raft_group_lose(&g, RAFT_MSG_SNAP), 1);

    raft_report_snapshot(raft_group_raft(&g, 1), 3, false);
    CHECK_EQ(raft_group_progress(&g, 1, 3)->state, PROGRESS_PROBE);
    CHECK_EQ(raft_group_progress(&g, 1, 3)->next, raft_group_progress(&g, 1, 3)->match + 1);
    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_EQ(g.member[3].snapshot.index, 6);
    raft_group_close(&g);
}

TEST(without_a_snapshot_at_hand_the_peer_waits)
{
    struct raft_rig g;
    open_with_laggard(&g);
    raft_set_snapshot(raft_group_raft(&g, 1), NULL);
    g.offer_snapshots = false;

    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK(raft_group_logged(
        &g, 1, "1 failed to send snapshot to 3 because snapshot is temporarily unavailable"));
    CHECK_EQ(g.member[3].snapshot.index, 0);
    raft_group_close(&g);
}

TEST(a_snapshot_of_what_the_log_has_only_moves_the_commit)
{
    struct raft_rig g;
    struct raft_entry e = {.index = 1, .term = 1};
    struct raft_snapshot s = {
        .index = 1, .term = 1, .conf_state = {.voters = {.count = 3, .at = {1, 2, 3}}}};
    raft_group_open(&g, 3, NULL);
    raft_group_step(
        &g,
        (struct raft_message){
            .type = RAFT_MSG_APP, .from = 2, .to = 1, .term = 1, .entries = &e, .entry_count = 1});
    raft_group_take(&g, 1);

    raft_group_step(&g, (struct raft_message){
                            .type = RAFT_MSG_SNAP, .from = 2, .to = 1, .term = 1, .snapshot = &s});
    CHECK_STR(raft_group_sent(&g, 1), "1->2 MsgAppResp Term:1 Log:0/1\n");
    CHECK_EQ(raft_group_status(&g, 1).hard_state.commit, 1);
    CHECK_EQ(raft_group_status(&g, 1).base_index, 0);
    raft_group_close(&g);
}

/* --- entries that are on disk only --- */

static void little_memory(struct raft_config *c)
{
    c->async_storage_writes = true;
    c->max_resident_entries = 4;
    c->max_message_bytes = 64;
}

TEST(a_laggard_is_served_from_disk)
{
    struct raft_rig g;
    raft_group_open(&g, 3, little_memory);
    raft_group_elect(&g, 1);
    g.member[3].cut = true;
    for (int i = 0; i < 50; i++) {
        raft_group_propose(&g, 1, "c");
        raft_group_settle(&g);
    }
    CHECK_EQ(raft_group_status(&g, 1).last_index, 51);
    CHECK_EQ(raft_group_status(&g, 1).resident_index, 48);

    g.member[3].cut = false;
    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_STR(raft_group_machine(&g, 3), raft_group_machine(&g, 1));
    CHECK(g.member[1].fetch_count > 0);
    CHECK_EQ(g.member[2].fetch_count, 0);
    raft_group_close(&g);
}

/* Brings member 1 to the point where it waits for its disk on behalf of 3. */
static void open_fetching(struct raft_rig *g)
{
    raft_group_open(g, 3, little_memory);
    raft_group_elect(g, 1);
    g->member[3].cut = true;
    for (int i = 0; i < 20; i++)
        raft_group_propose(g, 1, "c");
    raft_group_settle(g);
    g->member[3].cut = false;
    g->member[1].lose_fetches = true;
    raft_group_tick(g, 1, 1);
    raft_group_settle(g);
    CHECK_EQ(g->member[1].fetch_count, 1);
    CHECK_EQ(g->member[1].last_fetch.peer, 3);
    CHECK(progress_is_paused(raft_group_progress(g, 1, 3)));
}

TEST(a_peer_waiting_for_the_disk_is_paused_and_others_are_not)
{
    struct raft_rig g;
    open_fetching(&g);

    raft_group_propose(&g, 1, "d");
    raft_group_tick(&g, 1, 1);
    CHECK(strstr(raft_group_sent(&g, 1), "1->3 MsgApp ") == NULL);
    raft_group_settle(&g);
    CHECK_EQ(g.member[1].fetch_count, 1); /* it is asked for once */
    CHECK_EQ(raft_group_progress(&g, 1, 2)->match, 22);
    raft_group_close(&g);
}

TEST(stale_and_unasked_deliveries_are_ignored)
{
    struct raft_rig g;
    open_fetching(&g);
    uint64_t token = g.member[1].last_fetch.token;
    struct raft_entry *disk = g.member[1].disk;
    uint64_t low = g.member[1].last_fetch.low;

    raft_fetched(raft_group_raft(&g, 1), token + 1, disk + low - 1, 1);
    raft_fetched(raft_group_raft(&g, 1), 0, disk + low - 1, 1);
    CHECK(!raft_has_output(raft_group_raft(&g, 1)));

    /* The follower's answer moves the place, and with it the need. */
    raft_group_step(&g, (struct raft_message){
                            .type = RAFT_MSG_APP_RESP, .from = 3, .to = 1, .term = 1, .index = 10});
    CHECK_EQ(raft_group_progress(&g, 1, 3)->next, 11);
    raft_fetched(raft_group_raft(&g, 1), token, disk + low - 1, 1);
    CHECK_EQ(raft_group_progress(&g, 1, 3)->next, 11);

    /* And so does the end of leadership. */
    raft_group_step(
        &g, (struct raft_message){.type = RAFT_MSG_HEARTBEAT, .from = 2, .to = 1, .term = 9});
    raft_fetched(raft_group_raft(&g, 1), token + 1, disk + low - 1, 1);
    CHECK_EQ(raft_group_role(&g, 1), RAFT_FOLLOWER);
    raft_group_close(&g);
}

TEST(a_failed_read_is_tried_again_after_a_heartbeat)
{
    struct raft_rig g;
    open_fetching(&g);

    raft_fetched(raft_group_raft(&g, 1), g.member[1].last_fetch.token, NULL, 0);
    raft_check(raft_group_raft(&g, 1));
    raft_group_settle(&g);
    CHECK_EQ(g.member[1].fetch_count, 1);
    g.member[1].lose_fetches = false;
    raft_group_tick(&g, 1, 1);
    raft_group_settle(&g);
    CHECK_STR(raft_group_machine(&g, 3), raft_group_machine(&g, 1));
    raft_group_close(&g);
}

TEST(what_was_compacted_while_it_was_read_becomes_a_snapshot)
{
    struct raft_rig g;
    open_fetching(&g);
    struct raft_fetch f = g.member[1].last_fetch;
    struct raft_snapshot s = {.index = 21,
                              .term = 1,
                              .conf_state = g.member[1].conf_state,
                              .data = buf_bytes(&g.member[1].machine)};
    raft_set_snapshot(raft_group_raft(&g, 1), &s);
    raft_compact(raft_group_raft(&g, 1), 20);

    raft_fetched(raft_group_raft(&g, 1), f.token, g.member[1].disk + f.low - 1, f.high - f.low);
    raft_check(raft_group_raft(&g, 1));
    raft_group_settle(&g);
    CHECK_EQ(g.member[3].snapshot.index, 21);
    raft_group_close(&g);
}
