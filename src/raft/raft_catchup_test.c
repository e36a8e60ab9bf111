/*
 * Followers that are far behind: snapshots, and entries that must be read from disk.
 */
#include "harness/test.h"
#include "raft/group_test.h"
#include "raft/tracker.h"

/* --- snapshots --- */

/* Three members, of which 3 has missed entries that 1 has compacted. */
static void open_with_laggard(struct group *g)
{
    group_open(g, 3, NULL);
    g->offer_snapshots = true;
    group_elect(g, 1);
    g->member[3].cut = true;
    for (int i = 0; i < 5; i++)
        group_propose(g, 1, "c");
    group_settle(g);
    raft_compact(group_raft(g, 1), group_status(g, 1).applied);
    g->member[3].cut = false;
}

TEST(a_follower_beyond_the_log_gets_a_snapshot)
{
    struct group g;
    open_with_laggard(&g);

    group_tick(&g, 1, 1);
    group_settle(&g);
    CHECK_EQ(g.member[3].snapshot.index, 6);
    CHECK_STR(group_machine(&g, 3), "c c c c c ");
    CHECK_EQ(group_progress(&g, 1, 3)->state, PROGRESS_REPLICATE);
    group_propose(&g, 1, "d");
    group_settle(&g);
    CHECK_STR(group_machine(&g, 3), "c c c c c d ");
    group_restart(&g, 3);
    CHECK_EQ(group_status(&g, 3).applied, 7);
    group_close(&g);
}

TEST(a_failed_snapshot_is_sent_again)
{
    struct group g;
    open_with_laggard(&g);
    group_tick(&g, 1, 1);
    for (int round = 0; group_progress(&g, 1, 3)->state != PROGRESS_SNAPSHOT; round++) {
        CHECK(round < 10);
        group_deliver(&g);
        for (uint64_t id = 1; id <= 3; id++)
            group_take(&g, id);
    }
    CHECK_EQ(group_progress(&g, 1, 3)->next, 7);
    CHECK_EQ(group_lose(&g, RAFT_MSG_SNAP), 1);

    raft_report_snapshot(group_raft(&g, 1), 3, false);
    CHECK_EQ(group_progress(&g, 1, 3)->state, PROGRESS_PROBE);
    CHECK_EQ(group_progress(&g, 1, 3)->next, group_progress(&g, 1, 3)->match + 1);
    group_tick(&g, 1, 1);
    group_settle(&g);
    CHECK_EQ(g.member[3].snapshot.index, 6);
    group_close(&g);
}

TEST(without_a_snapshot_at_hand_the_peer_waits)
{
    struct group g;
    open_with_laggard(&g);
    raft_set_snapshot(group_raft(&g, 1), NULL);
    g.offer_snapshots = false;

    group_tick(&g, 1, 1);
    group_settle(&g);
    CHECK(group_logged(
        &g, 1, "1 failed to send snapshot to 3 because snapshot is temporarily unavailable"));
    CHECK_EQ(g.member[3].snapshot.index, 0);
    group_close(&g);
}

TEST(a_snapshot_of_what_the_log_has_only_moves_the_commit)
{
    struct group g;
    struct raft_entry e = {.index = 1, .term = 1};
    struct raft_snapshot s = {
        .index = 1, .term = 1, .conf_state = {.voters = {.count = 3, .at = {1, 2, 3}}}};
    group_open(&g, 3, NULL);
    group_step(
        &g,
        (struct raft_message){
            .type = RAFT_MSG_APP, .from = 2, .to = 1, .term = 1, .entries = &e, .entry_count = 1});
    group_take(&g, 1);

    group_step(&g, (struct raft_message){
                       .type = RAFT_MSG_SNAP, .from = 2, .to = 1, .term = 1, .snapshot = &s});
    CHECK_STR(group_sent(&g, 1), "1->2 MsgAppResp Term:1 Log:0/1\n");
    CHECK_EQ(group_status(&g, 1).hard_state.commit, 1);
    CHECK_EQ(group_status(&g, 1).base_index, 0);
    group_close(&g);
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
    struct group g;
    group_open(&g, 3, little_memory);
    group_elect(&g, 1);
    g.member[3].cut = true;
    for (int i = 0; i < 50; i++) {
        group_propose(&g, 1, "c");
        group_settle(&g);
    }
    CHECK_EQ(group_status(&g, 1).last_index, 51);
    CHECK_EQ(group_status(&g, 1).resident_index, 48);

    g.member[3].cut = false;
    group_tick(&g, 1, 1);
    group_settle(&g);
    CHECK_STR(group_machine(&g, 3), group_machine(&g, 1));
    CHECK(g.member[1].fetch_count > 0);
    CHECK_EQ(g.member[2].fetch_count, 0);
    group_close(&g);
}

/* Brings member 1 to the point where it waits for its disk on behalf of 3. */
static void open_fetching(struct group *g)
{
    group_open(g, 3, little_memory);
    group_elect(g, 1);
    g->member[3].cut = true;
    for (int i = 0; i < 20; i++)
        group_propose(g, 1, "c");
    group_settle(g);
    g->member[3].cut = false;
    g->member[1].lose_fetches = true;
    group_tick(g, 1, 1);
    group_settle(g);
    CHECK_EQ(g->member[1].fetch_count, 1);
    CHECK_EQ(g->member[1].last_fetch.peer, 3);
    CHECK(progress_is_paused(group_progress(g, 1, 3)));
}

TEST(a_peer_waiting_for_the_disk_is_paused_and_others_are_not)
{
    struct group g;
    open_fetching(&g);

    group_propose(&g, 1, "d");
    group_tick(&g, 1, 1);
    CHECK(strstr(group_sent(&g, 1), "1->3 MsgApp ") == NULL);
    group_settle(&g);
    CHECK_EQ(g.member[1].fetch_count, 1); /* it is asked for once */
    CHECK_EQ(group_progress(&g, 1, 2)->match, 22);
    group_close(&g);
}

TEST(stale_and_unasked_deliveries_are_ignored)
{
    struct group g;
    open_fetching(&g);
    uint64_t token = g.member[1].last_fetch.token;
    struct raft_entry *disk = g.member[1].disk;
    uint64_t low = g.member[1].last_fetch.low;

    raft_fetched(group_raft(&g, 1), token + 1, disk + low - 1, 1);
    raft_fetched(group_raft(&g, 1), 0, disk + low - 1, 1);
    CHECK(!raft_has_output(group_raft(&g, 1)));

    /* The follower's answer moves the place, and with it the need. */
    group_step(&g, (struct raft_message){
                       .type = RAFT_MSG_APP_RESP, .from = 3, .to = 1, .term = 1, .index = 10});
    CHECK_EQ(group_progress(&g, 1, 3)->next, 11);
    raft_fetched(group_raft(&g, 1), token, disk + low - 1, 1);
    CHECK_EQ(group_progress(&g, 1, 3)->next, 11);

    /* And so does the end of leadership. */
    group_step(&g,
               (struct raft_message){.type = RAFT_MSG_HEARTBEAT, .from = 2, .to = 1, .term = 9});
    raft_fetched(group_raft(&g, 1), token + 1, disk + low - 1, 1);
    CHECK_EQ(group_role(&g, 1), RAFT_FOLLOWER);
    group_close(&g);
}

TEST(a_failed_read_is_tried_again_after_a_heartbeat)
{
    struct group g;
    open_fetching(&g);

    raft_fetched(group_raft(&g, 1), g.member[1].last_fetch.token, NULL, 0);
    raft_check(group_raft(&g, 1));
    group_settle(&g);
    CHECK_EQ(g.member[1].fetch_count, 1);
    g.member[1].lose_fetches = false;
    group_tick(&g, 1, 1);
    group_settle(&g);
    CHECK_STR(group_machine(&g, 3), group_machine(&g, 1));
    group_close(&g);
}

TEST(what_was_compacted_while_it_was_read_becomes_a_snapshot)
{
    struct group g;
    open_fetching(&g);
    struct raft_fetch f = g.member[1].last_fetch;
    struct raft_snapshot s = {.index = 21,
                              .term = 1,
                              .conf_state = g.member[1].conf_state,
                              .data = buf_bytes(&g.member[1].machine)};
    raft_set_snapshot(group_raft(&g, 1), &s);
    raft_compact(group_raft(&g, 1), 20);

    raft_fetched(group_raft(&g, 1), f.token, g.member[1].disk + f.low - 1, f.high - f.low);
    raft_check(group_raft(&g, 1));
    group_settle(&g);
    CHECK_EQ(g.member[3].snapshot.index, 21);
    group_close(&g);
}
