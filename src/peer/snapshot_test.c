/* Snapshots between two members on a fake wire, and whatever somebody posts as one. */
#include "base/limits.h"
#include "peer/peer_int.h"
#include "peer/peer_rig_test.h"

#include <stdlib.h>

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

static size_t hand_in_all(struct peers *p, uint64_t member)
{
    static const uint8_t zeroes[PEER_SNAPSHOT_CREDIT_BYTES];
    size_t handed_in = 0;

    for (size_t credit; (credit = peers_snapshot_credit(p, member)) > 0; handed_in += credit)
        peers_snapshot_write(p, member, bytes_of(zeroes, credit));
    return handed_in;
}

/* However fast the sockets are, a turn hands in its share and no more, to all members together. */
TEST(a_turn_hands_in_a_share)
{
    enum { MEMBERS = 4 };
    struct peer_rig *r = peer_rig_connected(MEMBERS);
    struct rig_member *m = &r->at[1];
    size_t handed_in = 0;

    m->snapshot.stops_at = 1; /* the rest by hand */
    for (unsigned i = 2; i <= MEMBERS; i++) {
        peer_rig_snapshot(r, 1, i, 7, 16 * MIB);
        peer_rig_until(r, &r->at[i].snapshot.begun, 1);
    }
    for (unsigned i = 2; i <= MEMBERS; i++) {
        size_t now = hand_in_all(m->peers, peer_rig_id(i));
        CHECK(now > PEER_SNAPSHOT_TURN_BYTES / MEMBERS);
        handed_in += now;
    }
    CHECK(handed_in <= PEER_SNAPSHOT_TURN_BYTES);
    for (unsigned i = 2; i <= MEMBERS; i++)
        peers_snapshot_cancel(m->peers, peer_rig_id(i));
    check_ends(r, 1, 0, MEMBERS - 1);
    peer_rig_close(r);
}

/* Else the rest would wait for something else to happen. */
TEST(more_to_do_wakes_the_turn)
{
    enum { OTHERS = 9 };
    struct peer_rig *r = peer_rig_connected(3);
    struct rig_member *from = &r->at[1], *to = &r->at[2];
    const char *const nowhere[] = {"http://10.0.0.3:2380"};

    /* Shares that are smaller than what a socket takes. */
    from->snapshot.stops_at = 1;
    peer_rig_snapshot(r, 1, 2, 7, 16 * MIB);
    peer_rig_until(r, &to->snapshot.begun, 1);
    peer_rig_crash(r, 3);
    fake_wire_power_off(r->at[3].io.net);
    for (uint64_t id = 1; id <= OTHERS; id++) {
        struct raft_snapshot snapshot = {.index = 7, .term = 3};
        peers_add(from->peers, id, nowhere, 1);
        peers_snapshot_begin(
            from->peers,
            &(struct raft_message){
                .type = RAFT_MSG_SNAP, .from = peer_rig_id(1), .to = id, .snapshot = &snapshot},
            MIB);
    }
    to->snapshot.window = MIB;
    peer_rig_run_ms(r, 100);
    while (inbox_drain(&from->inbox, 1) > 0)
        ;
    CHECK(hand_in_all(from->peers, peer_rig_id(2)) > 0);
    peers_flush(from->peers);
    CHECK(!inbox_is_empty(&from->inbox));

    /* What was held for want of credit. */
    to->snapshot.window = 0;
    for (unsigned i = 0; i < 50; i++) {
        (void)hand_in_all(from->peers, peer_rig_id(2));
        peer_rig_run_ms(r, 10);
    }
    while (inbox_drain(&to->inbox, 1) > 0)
        ;
    size_t events = to->snapshot.events;
    to->snapshot.granted += 10;
    peers_snapshot_grant(to->peers, to->snapshot.id, 10);
    CHECK(!inbox_is_empty(&to->inbox));
    peer_rig_run_ms(r, 1);
    CHECK_EQ(to->snapshot.events, events + 1);
    fake_wire_power_on(r->at[3].io.net);
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

/* What the server has not taken yet goes with it. */
TEST(after_a_response_nothing_is_told)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct rig_member *to = &r->at[2];

    peer_rig_snapshot(r, 1, 2, 7, 1000);
    peer_rig_until(r, &to->snapshot.begun, 1);
    to->takes_nothing = true;
    to->snapshot.window = 1000;
    peer_rig_run_ms(r, 100);
    CHECK(!list_empty(&to->peers->told));
    respond(r, 2, 500, "no\n");
    CHECK(list_empty(&to->peers->told));
    peers_check(to->peers);
    to->takes_nothing = false;
    check_ends(r, 1, 0, 1);
    CHECK_EQ(to->snapshot.events + to->snapshot.ended + to->snapshot.gone, 0);
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

/* --- whatever somebody posts --- */

static const char HEAD[] = "POST /raft/snapshot HTTP/1.1\r\nHost: x\r\nX-Server-From: %s\r\n"
                           "X-Server-Version: 3.7.1\r\nX-Min-Cluster-Version: 3.0.0\r\n"
                           "X-Etcd-Cluster-ID: abcd\r\n";

/* The head, chunked or of this length, the length of a message and a MsgSnap from that member to
 * the first with `data` bytes of data in it; cut after `most` of the body. */
static struct bytes raw_snapshot(const char *from, uint64_t length, size_t data, size_t most)
{
    static struct buf all;
    struct buf message = {0}, padding = {0}, body = {0};

    if (data > 0)
        memset(buf_extend(&padding, data), ' ', data);
    struct raft_snapshot snapshot = {.index = 7, .term = 3, .data = buf_bytes(&padding)};
    raft_message_encode(&(struct raft_message){.type = RAFT_MSG_SNAP,
                                               .from = strtoull(from, NULL, 16),
                                               .to = 0x11,
                                               .term = 3,
                                               .snapshot = &snapshot},
                        &message);
    for (int shift = 56; shift >= 0; shift -= 8)
        buf_append_byte(&body, (uint8_t)((uint64_t)message.len >> shift));
    buf_append(&body, buf_bytes(&message));
    if (body.len > most)
        body.len = most;
    buf_clear(&all);
    buf_printf(&all, HEAD, from);
    if (length == HTTP_CHUNKED)
        buf_printf(&all, "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", body.len);
    else
        buf_printf(&all, "Content-Length: %llu\r\n\r\n", (unsigned long long)length);
    buf_append(&all, buf_bytes(&body));
    if (length == HTTP_CHUNKED)
        buf_append_str(&all, "\r\n");
    buf_free(&message);
    buf_free(&padding);
    buf_free(&body);
    return buf_bytes(&all);
}

/* As etcd sends it; by a member that we have not heard of, as it is for whoever was away. */
TEST(a_stranger_may_send_one_in_chunks)
{
    struct peer_rig *r = peer_rig_lonely();
    struct rig_snapshot *s = &r->at[1].snapshot;

    s->window = 10;
    struct rig_raw *raw = peer_rig_raw_open(r, 1, raw_snapshot("99", HTTP_CHUNKED, 100, SIZE_MAX));
    peer_rig_until(r, &s->begun, 1);
    peer_rig_raw_say(raw, BYTES("5\r\nfirst\r\n16\r\nand another that waits\r\n"));
    peer_rig_run_ms(r, 100);
    peer_rig_raw_say(raw, BYTES("0\r\n\r\n"));
    peer_rig_until(r, &s->ended, 1);
    CHECK(strstr(buf_str(&s->story), "begin from 99 index=7 data=  "));
    CHECK(!strstr(buf_str(&s->story), "bytes="));
    CHECK_BYTES(buf_bytes(&s->image), BYTES("firstand another that waits"));
    respond(r, 1, 204, NULL);
    peer_rig_run_ms(r, 100);
    CHECK_EQ(strncmp(buf_str(&raw->got), "HTTP/1.1 204 No Content\r\n", 25), 0);
    CHECK_EQ(raw->closed, 0);

    /* The connection is of use again. */
    peer_rig_raw_say(raw, raw_snapshot("99", 8 + 0, 0, 8));
    peer_rig_run_ms(r, 100);
    CHECK(strstr(buf_str(&raw->got), "failed to decode raft message (EOF)"));
    peer_rig_raw_close(r, raw);
    peer_rig_close(r);
}

/* More is announced than comes, of the message and of the image. */
TEST(a_length_that_lies_is_gone)
{
    struct peer_rig *r = peer_rig_lonely();
    struct rig_snapshot *s = &r->at[1].snapshot;
    bool ended;

    s->window = MIB;
    struct bytes cut = raw_snapshot("22", 100ull << 30, 10000, 5000);
    CHECK_STR(peer_rig_exchange(r, 1, cut, 5500, &ended), "");
    CHECK(ended);
    CHECK_EQ(s->begun, 0);
    CHECK_EQ(r->at[1].peers->receiving, 0);

    struct rig_raw *raw = peer_rig_raw_open(r, 1, raw_snapshot("22", 100ull << 30, 100, SIZE_MAX));
    peer_rig_until(r, &s->begun, 1);
    peer_rig_raw_say(raw, BYTES("a little"));
    peer_rig_until(r, &s->gone, 1);
    CHECK(strstr(buf_str(&s->story), "gone after 8: i/o timeout"));
    peer_rig_raw_close(r, raw);

    raw = peer_rig_raw_open(r, 1, raw_snapshot("22", 100ull << 30, 100, SIZE_MAX));
    peer_rig_until(r, &s->begun, 2);
    peer_rig_raw_close(r, raw);
    peer_rig_until(r, &s->gone, 2);
    CHECK(strstr(buf_str(&s->story), "gone after 0: the connection ended within a request"));
    CHECK_EQ(s->ended, 0);
    peer_rig_run_ms(r, 2000);
    CHECK_EQ(r->at[1].peers->conn_count, 0);
    peer_rig_close(r);
}

/* What is announced costs nothing; what comes is bounded. For whoever knows nobody the sender is a
 * stranger, and nothing but its snapshot helps. */
TEST(a_message_takes_the_memory_that_has_come)
{
    struct peer_rig *r = peer_rig_lonely();
    struct rig_snapshot *s = &r->at[1].snapshot;

    struct rig_raw *raw =
        peer_rig_raw_open(r, 1, raw_snapshot("22", HTTP_CHUNKED, 60 * MIB, 100000));
    peer_rig_run_ms(r, 1000);
    CHECK_EQ(r->at[1].peers->receiving, 100000);
    peer_rig_raw_close(r, raw);
    peer_rig_run_ms(r, 1000);
    CHECK_EQ(r->at[1].peers->receiving, 0);

    raw = peer_rig_raw_open(
        r, 1, raw_snapshot("99", HTTP_CHUNKED, PEER_SNAPSHOT_MESSAGE_BYTES_MAX + 1, 100000));
    peer_rig_run_ms(r, 1000);
    CHECK(strstr(buf_str(&raw->got),
                 "failed to decode raft message (rafthttp: error limit exceeded)"));
    CHECK_EQ(s->begun, 0);
    peer_rig_raw_close(r, raw);
    raw = peer_rig_raw_open(r, 1, raw_snapshot("99", HTTP_CHUNKED, 2 * MIB, SIZE_MAX));
    peer_rig_until(r, &s->begun, 1);
    CHECK_EQ(r->at[1].peers->receiving, 0);
    peer_rig_raw_close(r, raw);
    peer_rig_close(r);
}

/* An event for each of them would cost a hundred times the credit. */
TEST(bytes_in_chunks_of_one_are_handed_on_together)
{
    enum { BYTES_COUNT = 20000 };
    struct peer_rig *r = peer_rig_lonely();
    struct rig_member *m = &r->at[1];
    struct buf chunks = {0};

    for (unsigned i = 0; i < BYTES_COUNT; i++)
        buf_append_str(&chunks, "1\r\nx\r\n");
    struct rig_raw *raw = peer_rig_raw_open(r, 1, raw_snapshot("22", HTTP_CHUNKED, 9, SIZE_MAX));
    peer_rig_until(r, &m->snapshot.begun, 1);
    peer_rig_raw_say(raw, buf_bytes(&chunks));
    peer_rig_run_ms(r, 100);
    CHECK_EQ(m->snapshot.events, 0);
    m->snapshot.window = MIB;
    peer_rig_run_ms(r, 1000);
    CHECK_EQ(m->snapshot.received, BYTES_COUNT);
    CHECK(m->snapshot.events < 20);
    peer_rig_raw_say(raw, BYTES("0\r\n\r\n"));
    peer_rig_until(r, &m->snapshot.ended, 1);
    buf_free(&chunks);
    peer_rig_raw_close(r, raw);
    peer_rig_close(r);
}

/* It lives as long as it says something; the server may think otherwise. */
TEST(a_sender_that_trickles_is_not_silent)
{
    struct peer_rig *r = peer_rig_lonely();
    struct rig_snapshot *s = &r->at[1].snapshot;

    s->window = MIB;
    struct rig_raw *raw = peer_rig_raw_open(r, 1, raw_snapshot("22", HTTP_CHUNKED, 9, SIZE_MAX));
    peer_rig_until(r, &s->begun, 1);
    for (unsigned i = 0; i < 5; i++) {
        peer_rig_run_ms(r, PEER_SNAPSHOT_SILENCE_MS - 1000);
        peer_rig_raw_say(raw, BYTES("1\r\nx\r\n"));
    }
    peer_rig_run_ms(r, 100);
    CHECK_EQ(s->received, 5);
    respond(r, 1, 500, "failed to save KV snapshot (too slow)\n");
    peer_rig_run_ms(r, 100);
    CHECK(strstr(buf_str(&raw->got), "HTTP/1.1 500 "));
    CHECK_EQ(s->gone, 0);
    peer_rig_raw_close(r, raw);
    peer_rig_run_ms(r, 2000);
    CHECK_EQ(s->gone, 0);
    CHECK_EQ(r->at[1].peers->conn_count, 0);
    peer_rig_close(r);
}

/* Both are announced. The server refuses the one that it does not want, and the other goes on. */
TEST(two_at_once_from_one_member_are_two)
{
    struct peer_rig *r = peer_rig_lonely();
    struct rig_snapshot *s = &r->at[1].snapshot;

    struct rig_raw *first = peer_rig_raw_open(r, 1, raw_snapshot("22", HTTP_CHUNKED, 9, SIZE_MAX));
    peer_rig_until(r, &s->begun, 1);
    peers_snapshot_grant(r->at[1].peers, s->id, 1);
    uint64_t first_id = s->id;
    struct rig_raw *second = peer_rig_raw_open(r, 1, raw_snapshot("22", HTTP_CHUNKED, 9, SIZE_MAX));
    peer_rig_until(r, &s->begun, 2);
    CHECK(s->id != first_id);
    peer_rig_raw_say(first, BYTES("2\r\nab\r\n"));
    peer_rig_until(r, &s->of_others, 1);
    peers_respond(r->at[1].peers, first_id, &(struct peer_response){.status = 500});
    peers_snapshot_grant(r->at[1].peers, first_id, 100);
    s->window = MIB;
    peer_rig_raw_say(second, BYTES("2\r\ncd\r\n0\r\n\r\n"));
    peer_rig_until(r, &s->ended, 1);
    respond(r, 1, 204, NULL);
    peer_rig_run_ms(r, 100);
    CHECK_BYTES(buf_bytes(&s->image), BYTES("cd"));
    CHECK_EQ(s->of_others, 1);
    CHECK(strstr(buf_str(&first->got), "HTTP/1.1 500 "));
    CHECK(strstr(buf_str(&second->got), "HTTP/1.1 204 "));
    peer_rig_raw_close(r, first);
    peer_rig_raw_close(r, second);
    peer_rig_close(r);
}

/* Messages that wait to be taken are bounded, whoever sends them. */
TEST(snapshots_that_were_not_taken_are_bounded)
{
    enum { COUNT = 5 };
    struct peer_rig *r = peer_rig_lonely();
    struct rig_member *m = &r->at[1];
    struct rig_raw *raw[COUNT];
    size_t refused = 0;

    m->takes_nothing = true;
    for (unsigned i = 0; i < COUNT; i++)
        raw[i] = peer_rig_raw_open(r, 1, raw_snapshot("22", HTTP_CHUNKED, 10 * MIB, SIZE_MAX));
    peer_rig_run_ms(r, 3000);
    CHECK_EQ(m->peers->announced.count, 3);
    CHECK(m->peers->announced.bytes <= PEER_IN_BYTES_MAX);
    for (unsigned i = 0; i < COUNT; i++)
        refused += strstr(buf_str(&raw[i]->got), "(too many at once)") != NULL;
    CHECK_EQ(refused, COUNT - 3);
    m->takes_nothing = false;
    peer_rig_until(r, &m->snapshot.begun, 3);
    for (unsigned i = 0; i < COUNT; i++)
        peer_rig_raw_close(r, raw[i]);
    peer_rig_close(r);
}
