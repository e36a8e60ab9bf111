/* Snapshots between two members on a fake wire, and whatever somebody posts as one. */
#include "base/limits.h"
#include "peer/peer_int.h"
#include "peer/peer_rig_test.h"

#include <stdio.h>

static void respond(struct peer_rig *r, unsigned who, unsigned status, const char *text)
{
    peers_respond(r->at[who].peers, r->at[who].snapshot.id,
                  &(struct peer_response){.status = status,
                                          .content_type = text ? "text/plain; charset=utf-8" : NULL,
                                          .body = text ? bytes_of_str(text) : bytes_of(NULL, 0),
                                          .with_cluster_id = true});
}

static void check_ends(struct peer_rig *r, unsigned who, size_t sent, size_t failed)
{
    peer_rig_run_ms(r, 2000);
    CHECK_EQ(r->at[who].snapshot_sent, sent);
    CHECK_EQ(r->at[who].snapshot_failed, failed);
    CHECK_EQ(peers_snapshot_credit(r->at[who].peers, r->at[who].snapshot.to), 0);
}

/* --- whole --- */

TEST(an_image_arrives_whole_and_both_ends_know)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct rig_member *from = &r->at[1], *to = &r->at[2];
    uint64_t sent_before = peer_rig_status(r, 1, 2).sent_bytes;
    uint64_t received_before = peer_rig_status(r, 2, 1).received_bytes;

    to->snapshot.window = MIB;
    peer_rig_snapshot(r, 1, 2, 7, 3 * MIB + 1);
    peer_rig_until(r, &to->snapshot.ended, 1);
    CHECK_EQ(from->snapshot_sent, 0);
    CHECK_EQ(peer_rig_status(r, 1, 2).snapshots_sending, 1);
    CHECK_EQ(peer_rig_status(r, 2, 1).snapshots_receiving, 1);
    respond(r, 2, 204, NULL);
    peer_rig_until(r, &from->snapshot_sent, 1);

    CHECK_STR(buf_str(&to->snapshot.story),
              "begin from 11 index=7 data={} bytes=3145729\nend after 3145729\n");
    CHECK_BYTES(buf_bytes(&to->snapshot.image), buf_bytes(&from->snapshot.source));
    struct peer_status s = peer_rig_status(r, 1, 2);
    CHECK_EQ(s.snapshots_sending, 0);
    CHECK_EQ(s.snapshots_sent, 1);
    CHECK_EQ(s.snapshot_send_failures, 0);
    CHECK(s.sent_bytes >= sent_before + 3 * MIB);
    s = peer_rig_status(r, 2, 1);
    CHECK_EQ(s.snapshots_receiving, 0);
    CHECK_EQ(s.snapshots_received, 1);
    CHECK_EQ(s.snapshot_receive_failures, 0);
    CHECK(s.received_bytes >= received_before + 3 * MIB);
    CHECK(peer_rig_has_logged(r, 1,
                              "\"sending database snapshot\",\"snapshot-index\":7,"
                              "\"remote-peer-id\":\"22\",\"bytes\":31457"));
    CHECK(peer_rig_has_logged(r, 1, "\"size\":\"3.1 MB\"}"));
    CHECK(peer_rig_has_logged(r, 1, "\"sent database snapshot\""));
    CHECK(peer_rig_has_logged(r, 2,
                              "\"receiving database snapshot\",\"local-member-id\":\"22\","
                              "\"remote-snapshot-sender-id\":\"11\","
                              "\"incoming-snapshot-index\":7,"));
    check_ends(r, 1, 1, 0);
    CHECK_EQ(from->unreachable, 0);
    peer_rig_close(r);
}

TEST(sizes_and_credits_of_all_kinds)
{
    static const struct {
        size_t bytes, piece, window;
    } cases[] = {
        {0, 0, 1},
        {1, 0, 1},
        {100, 7, 3},
        {PEER_SNAPSHOT_CREDIT_BYTES, 0, MIB},
        {PEER_SNAPSHOT_CREDIT_BYTES + 1, 0, 100000},
        {PEER_SNAPSHOT_TURN_BYTES, 0, 64 * KIB},
        {PEER_SNAPSHOT_TURN_BYTES + 1, 4096, 4096},
        {2 * MIB, 12345, 64 * KIB - 1},
        {2 * MIB, 0, 64 * MIB},
    };
    struct peer_rig *r = peer_rig_connected(2);
    struct rig_member *from = &r->at[1], *to = &r->at[2];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        to->snapshot.window = cases[i].window;
        from->snapshot.piece = cases[i].piece;
        peer_rig_snapshot(r, 1, 2, i + 1, cases[i].bytes);
        peer_rig_until(r, &to->snapshot.ended, i + 1);
        CHECK_BYTES(buf_bytes(&to->snapshot.image), buf_bytes(&from->snapshot.source));
        respond(r, 2, 204, NULL);
        peer_rig_until(r, &from->snapshot_sent, i + 1);
    }
    check_ends(r, 1, ARRAY_LEN(cases), 0);
    peer_rig_close(r);
}

/* --- back-pressure --- */

TEST(without_credit_nothing_is_handed_on_and_the_sender_waits)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct rig_member *from = &r->at[1], *to = &r->at[2];

    peer_rig_snapshot(r, 1, 2, 7, 64 * MIB);
    peer_rig_until(r, &to->snapshot.begun, 1);
    peer_rig_run_ms(r, 20000); /* longer than a sender may be silent: it has no credit */
    CHECK_EQ(to->snapshot.events, 0);
    CHECK_EQ(to->snapshot.gone, 0);
    CHECK_EQ(peers_snapshot_credit(from->peers, peer_rig_id(2)), 0);
    CHECK(from->snapshot.handed_in < 8 * MIB);
    uint64_t handed_in = from->snapshot.handed_in;

    /* Heartbeats and appends have not waited. */
    CHECK_EQ(peer_rig_status(r, 1, 2).streams, 4);
    peer_rig_append(r, 1, 2, 3, 0, 1, 8);
    peer_rig_until(r, &to->append_count, 1);

    to->snapshot.window = 100;
    peer_rig_run_ms(r, 10);
    CHECK(to->snapshot.events > 0);
    CHECK(from->snapshot.handed_in - handed_in <= 2 * MIB);

    to->snapshot.window = 4 * MIB;
    to->is_silent = true;
    peer_rig_until(r, &to->snapshot.ended, 1);
    CHECK_EQ(to->snapshot.received, 64 * MIB);
    respond(r, 2, 204, NULL);
    peer_rig_until(r, &from->snapshot_sent, 1);
    peer_rig_close(r);
}

/* As fast as the fake wire is, a turn hands in its share and no more. */
TEST(a_turn_hands_in_a_share)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct peers *p = r->at[1].peers;
    size_t handed_in = 0;

    r->at[1].snapshot.stops_at = 1; /* the rest by hand */
    r->at[2].snapshot.window = 64 * MIB;
    peer_rig_snapshot(r, 1, 2, 7, 16 * MIB);
    peer_rig_until(r, &r->at[2].snapshot.begun, 1);
    for (size_t credit; (credit = peers_snapshot_credit(p, peer_rig_id(2))) > 0;) {
        peers_snapshot_write(p, peer_rig_id(2), bytes_of(r->at[1].snapshot.source.at, credit));
        handed_in += credit;
    }
    CHECK(handed_in > 0);
    CHECK(handed_in <= PEER_SNAPSHOT_TURN_BYTES);
    peers_snapshot_cancel(p, peer_rig_id(2));
    check_ends(r, 1, 0, 1);
    peer_rig_close(r);
}

TEST(a_receiver_that_does_not_read_is_given_up)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct rig_member *from = &r->at[1], *to = &r->at[2];

    peer_rig_snapshot(r, 1, 2, 7, 64 * MIB);
    peer_rig_until(r, &to->snapshot.begun, 1);
    peer_rig_run_ms(r, PEER_SNAPSHOT_STALL_MS - 5000);
    CHECK_EQ(from->snapshot_failed, 0);
    peer_rig_run_ms(r, 2 * PEER_SNAPSHOT_LOOK_MS + 5000);
    CHECK(peer_rig_has_logged(r, 1, "\"failed to send database snapshot\",\"snapshot-index\":7,"));
    CHECK(peer_rig_has_logged(r, 1, "\"error\":\"i/o timeout\""));
    CHECK_EQ(from->unreachable, 1);
    check_ends(r, 1, 0, 1);

    /* It hears of that when it reads on. */
    to->snapshot.window = 64 * MIB;
    peer_rig_until(r, &to->snapshot.gone, 1);
    CHECK_EQ(peer_rig_status(r, 2, 1).snapshots_receiving, 0);
    CHECK_EQ(peer_rig_status(r, 2, 1).snapshot_receive_failures, 1);
    peer_rig_close(r);
}

TEST(a_receiver_may_check_for_minutes_but_not_for_ever)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct rig_member *from = &r->at[1], *to = &r->at[2];

    to->snapshot.window = MIB;
    peer_rig_snapshot(r, 1, 2, 7, 1000);
    peer_rig_until(r, &to->snapshot.ended, 1);
    peer_rig_run_ms(r, PEER_SNAPSHOT_RESULT_MS / 2);
    CHECK_EQ(from->snapshot_failed, 0);
    CHECK_EQ(to->snapshot.gone, 0);
    peer_rig_run_ms(r, PEER_SNAPSHOT_RESULT_MS / 2 + 2 * PEER_SNAPSHOT_LOOK_MS);
    CHECK(peer_rig_has_logged(r, 1, "\"error\":\"no response\""));
    check_ends(r, 1, 0, 1);
    respond(r, 2, 204, NULL); /* to nobody */
    check_ends(r, 1, 0, 1);
    CHECK_EQ(to->snapshot.gone, 0);
    peer_rig_close(r);
}

TEST(a_sender_that_stalls_with_credit_is_gone)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct rig_member *from = &r->at[1], *to = &r->at[2];

    to->snapshot.window = MIB;
    from->snapshot.stops_at = 1000;
    peer_rig_snapshot(r, 1, 2, 7, 5000);
    peer_rig_until(r, &to->snapshot.begun, 1);
    peer_rig_run_ms(r, PEER_SNAPSHOT_SILENCE_MS - 500);
    CHECK_EQ(to->snapshot.gone, 0);
    peer_rig_until(r, &to->snapshot.gone, 1);
    CHECK_STR(buf_str(&to->snapshot.story),
              "begin from 11 index=7 data={} bytes=5000\ngone after 1000: i/o timeout\n");
    check_ends(r, 1, 0, 1);
    respond(r, 2, 500, "too late\n");
    peer_rig_run_ms(r, 100);
    CHECK_EQ(to->snapshot.gone, 1);
    peer_rig_close(r);
}

/* --- ends --- */

TEST(responses_mean_what_they_mean_to_etcd)
{
    static const struct {
        unsigned status;
        const char *text, *logged;
    } cases[] = {
        {500, "failed to save KV snapshot (no space left on device)\n",
         "unexpected http status while posting"},
        {400, "wrong raft message type\n", "unexpected http status while posting"},
        {200, "ok", "unexpected http status while posting"},
        {412, "incompatible version\n", "request sent was ignored by peer"},
        {412, "cluster ID mismatch\n", "request sent was ignored due to cluster ID mismatch"},
        {412, "what\n", "unhandled error when precondition failed"},
        {403, "not yours\n", "the message was for somebody else"},
        {403, "cannot process message from removed member\n",
         "the member has been permanently removed from the cluster"},
    };
    struct peer_rig *r = peer_rig_connected(2);
    struct rig_member *from = &r->at[1], *to = &r->at[2];

    to->snapshot.window = MIB;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        buf_clear(&from->log);
        peer_rig_snapshot(r, 1, 2, 7, 1000);
        peer_rig_until(r, &to->snapshot.ended, i + 1);
        respond(r, 2, cases[i].status, cases[i].text);
        peer_rig_until(r, &from->snapshot_failed, i + 1);
        CHECK(peer_rig_has_logged(r, 1, cases[i].logged));
        CHECK_EQ(from->unreachable, i + 1);
        CHECK_EQ(from->removed, i == ARRAY_LEN(cases) - 1);
    }
    CHECK_EQ(peer_rig_status(r, 1, 2).snapshot_send_failures, ARRAY_LEN(cases));
    CHECK_EQ(peer_rig_status(r, 2, 1).snapshot_receive_failures, ARRAY_LEN(cases));
    check_ends(r, 1, 0, ARRAY_LEN(cases));
    peer_rig_close(r);
}

TEST(a_snapshot_is_refused_in_the_middle)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct rig_member *from = &r->at[1], *to = &r->at[2];

    peer_rig_snapshot(r, 1, 2, 7, 64 * MIB);
    peer_rig_until(r, &to->snapshot.begun, 1);
    to->snapshot.window = 100;
    peer_rig_run_ms(r, 100);
    respond(r, 2, 500, "failed to save KV snapshot (no space left on device)\n");
    size_t events = to->snapshot.events;
    peer_rig_until(r, &from->snapshot_failed, 1);
    check_ends(r, 1, 0, 1);
    CHECK(from->snapshot.handed_in < 16 * MIB); /* the rest was not sent for nothing */
    CHECK_EQ(to->snapshot.events, events);
    CHECK_EQ(to->snapshot.gone, 0);
    CHECK_EQ(to->snapshot.ended, 0);
    CHECK_EQ(to->peers->conn_count, 2); /* the streams */
    peer_rig_close(r);
}

TEST(a_response_before_the_first_byte_is_taken)
{
    struct peer_rig *r = peer_rig_connected(2);

    peer_rig_snapshot(r, 1, 2, 7, 64 * MIB);
    peer_rig_until(r, &r->at[2].snapshot.begun, 1);
    respond(r, 2, 204, NULL); /* it has it already */
    peer_rig_until(r, &r->at[1].snapshot_sent, 1);
    check_ends(r, 1, 1, 0);
    peer_rig_close(r);
}

TEST(a_cancelled_snapshot_fails_once)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct rig_member *from = &r->at[1], *to = &r->at[2];

    to->snapshot.window = MIB;
    from->snapshot.stops_at = 1000;
    peer_rig_snapshot(r, 1, 2, 7, 5000);
    peer_rig_until(r, &to->snapshot.events, 1);
    peers_snapshot_cancel(from->peers, peer_rig_id(2));
    peers_snapshot_cancel(from->peers, peer_rig_id(2));
    peer_rig_until(r, &to->snapshot.gone, 1);
    check_ends(r, 1, 0, 1);

    /* Before there is a connection. */
    peer_rig_snapshot(r, 1, 2, 8, 5000);
    peers_snapshot_cancel(from->peers, peer_rig_id(2));
    check_ends(r, 1, 0, 2);
    CHECK_EQ(to->snapshot.begun, 1);
    peer_rig_close(r);
}

TEST(a_snapshot_to_nobody_fails)
{
    struct peer_rig *r = peer_rig_connected(2);

    peer_rig_snapshot(r, 1, 3, 7, 1000); /* no such member */
    check_ends(r, 1, 0, 1);
    peer_rig_crash(r, 2);
    peer_rig_snapshot(r, 1, 2, 7, 1000);
    check_ends(r, 1, 0, 2);
    fake_wire_power_off(r->at[2].io.net); /* not even a refusal */
    peer_rig_snapshot(r, 1, 2, 7, 1000);
    peer_rig_run_ms(r, 5000);
    check_ends(r, 1, 0, 3);
    fake_wire_power_on(r->at[2].io.net);
    peer_rig_close(r);
}

TEST(a_receiver_that_crashes_fails_it)
{
    struct peer_rig *r = peer_rig_connected(2);

    r->at[2].snapshot.window = MIB;
    peer_rig_snapshot(r, 1, 2, 7, 64 * MIB);
    peer_rig_until(r, &r->at[2].snapshot.events, 3);
    peer_rig_crash(r, 2);
    peer_rig_until(r, &r->at[1].snapshot_failed, 1);
    check_ends(r, 1, 0, 1);
    peer_rig_close(r);
}

TEST(a_sender_that_crashes_is_gone)
{
    struct peer_rig *r = peer_rig_connected(2);

    r->at[2].snapshot.window = MIB;
    peer_rig_snapshot(r, 1, 2, 7, 64 * MIB);
    peer_rig_until(r, &r->at[2].snapshot.events, 3);
    peer_rig_crash(r, 1);
    peer_rig_until(r, &r->at[2].snapshot.gone, 1);
    CHECK_EQ(r->at[2].snapshot.ended, 0);
    peer_rig_close(r);
}

TEST(a_member_that_is_removed_fails_its_snapshot)
{
    struct peer_rig *r = peer_rig_connected(2);

    r->at[2].snapshot.window = MIB;
    peer_rig_snapshot(r, 1, 2, 7, 64 * MIB);
    peer_rig_until(r, &r->at[2].snapshot.events, 3);
    peers_remove(r->at[1].peers, peer_rig_id(2));
    check_ends(r, 1, 0, 1);
    peer_rig_until(r, &r->at[2].snapshot.gone, 1);

    /* It may not send one either: that is said before the image is. */
    r->at[1].snapshot.window = MIB;
    peer_rig_snapshot(r, 2, 1, 9, 64 * MIB);
    check_ends(r, 2, 0, 1);
    CHECK_EQ(r->at[1].snapshot.begun, 0);
    CHECK(peer_rig_has_logged(r, 1, "rejected Raft message from removed member"));
    peer_rig_close(r);
}

TEST(stopping_ends_snapshots_both_ways)
{
    struct peer_rig *r = peer_rig_connected(2);

    r->at[1].snapshot.window = r->at[2].snapshot.window = MIB;
    peer_rig_snapshot(r, 1, 2, 7, 64 * MIB);
    peer_rig_snapshot(r, 2, 1, 7, 64 * MIB);
    peer_rig_until(r, &r->at[2].snapshot.events, 3);
    peer_rig_until(r, &r->at[1].snapshot.events, 3);
    peer_rig_stop(r, 1);
    CHECK_EQ(r->at[1].snapshot_failed, 1);
    CHECK_EQ(r->at[1].snapshot.gone, 1);
    peer_rig_until(r, &r->at[2].snapshot_failed, 1);
    peer_rig_until(r, &r->at[2].snapshot.gone, 1);
    peer_rig_close(r);
}

/* The next of its URLs is tried by the next snapshot. */
TEST(a_url_that_fails_is_not_the_next_one)
{
    struct peer_rig *r = peer_rig_open(2);
    const char *const urls[] = {"http://10.0.0.77:2380", "http://10.0.0.2:2380"};

    r->at[2].snapshot.window = MIB;
    peer_rig_until_streams(r, 1, 2, 4);
    peers_add(r->at[1].peers, peer_rig_id(2), urls, 2);
    peer_rig_snapshot(r, 1, 2, 7, 1000);
    peer_rig_until(r, &r->at[1].snapshot_failed, 1);
    peer_rig_snapshot(r, 1, 2, 7, 1000);
    peer_rig_until(r, &r->at[2].snapshot.ended, 1);
    peer_rig_close(r);
}
