/* Two and three members on a fake wire. */
#include "base/limits.h"
#include "peer/peer_int.h"
#include "peer/peer_rig_test.h"

#include <stdio.h>

static struct raft_message vote(unsigned from, unsigned to, uint64_t term)
{
    return (struct raft_message){
        .type = RAFT_MSG_VOTE, .from = peer_rig_id(from), .to = peer_rig_id(to), .term = term};
}

static struct raft_message heartbeat(unsigned from, unsigned to, uint64_t term)
{
    return (struct raft_message){
        .type = RAFT_MSG_HEARTBEAT, .from = peer_rig_id(from), .to = peer_rig_id(to), .term = term};
}

static void send_vote(struct peer_rig *r, unsigned from, unsigned to, uint64_t term)
{
    struct raft_message m = vote(from, to, term);

    peer_rig_send(r, &m);
}

static struct peer *peer_of(struct peer_rig *r, unsigned who, unsigned whom)
{
    return peers_find(r->at[who].peers, peer_rig_id(whom));
}

/* A stream that somebody asks member 1 for in the name of member 2. */
static struct rig_raw *dial_as_two(struct peer_rig *r, const char *kind)
{
    struct buf text = {0};

    buf_printf(&text,
               "GET /raft/stream/%s/22 HTTP/1.1\r\nHost: x\r\nX-Server-From: 22\r\n"
               "X-Server-Version: 3.7.1\r\nX-Min-Cluster-Version: 3.0.0\r\n"
               "X-Etcd-Cluster-ID: abcd\r\nX-Raft-To: 11\r\n\r\n",
               kind);
    struct rig_raw *raw = peer_rig_raw_open(r, 1, buf_bytes(&text));
    buf_free(&text);
    return raw;
}

/* --- delivery --- */

TEST(members_connect_and_messages_arrive_in_order)
{
    struct peer_rig *r = peer_rig_connected(2);

    for (uint64_t term = 1; term <= 3; term++)
        send_vote(r, 1, 2, term);
    peer_rig_append(r, 1, 2, 5, 0, 2, 4);
    peer_rig_append(r, 1, 2, 5, 2, 1, 4);
    peer_rig_append(r, 1, 2, 5, 3, 0, 0);
    peer_rig_until(r, &r->at[2].heard_count, 3);
    peer_rig_until(r, &r->at[2].append_count, 3);

    CHECK_STR(buf_str(&r->at[2].heard), "vote 11>22 term=1\nvote 11>22 term=2\n"
                                        "vote 11>22 term=3\n");
    CHECK_STR(buf_str(&r->at[2].appends), "app 11>22 term=5 at=0/0 commit=0 5/1:e1.. 5/2:e2..\n"
                                          "app 11>22 term=5 at=5/2 commit=2 5/3:e3..\n"
                                          "app 11>22 term=5 at=5/3 commit=3\n");
    CHECK_EQ(r->at[1].unreachable, 0);
    CHECK(peer_rig_has_logged(r, 1,
                              "\"msg\":\"established TCP streaming connection with remote peer\""));
    CHECK(peer_rig_has_logged(r, 1, "\"msg\":\"peer became active\",\"peer-id\":\"22\""));
    peer_rig_close(r);
}

TEST(a_message_goes_by_post_before_there_are_streams)
{
    struct peer_rig *r = peer_rig_open(2);

    send_vote(r, 1, 2, 7);
    peer_rig_until(r, &r->at[2].heard_count, 1);

    CHECK_STR(buf_str(&r->at[2].heard), "vote 11>22 term=7\n");
    CHECK_EQ(r->at[1].unreachable, 0);
    peer_rig_close(r);
}

TEST(a_large_append_arrives_whole)
{
    struct peer_rig *r = peer_rig_connected(2);

    peer_rig_append(r, 1, 2, 5, 0, 3, 1);
    peer_rig_append(r, 1, 2, 5, 3, 3, 2 * MIB);
    peer_rig_append(r, 1, 2, 5, 6, 2000, 256);
    peer_rig_until(r, &r->at[2].append_count, 3);

    CHECK_EQ(r->at[2].append_bytes, 3 + 3 * 2 * MIB + 2000 * 256);
    peer_rig_close(r);
}

/* Random messages between three members, with connections that are torn now and then, those of
 * posts too. A proposal that arrived twice would be applied twice. */
TEST(whatever_happens_a_message_arrives_once_or_not_at_all)
{
    struct peer_rig *r = peer_rig_connected(3);
    struct rng rng;
    static unsigned times[4000];
    uint64_t term = 0;

    rng_seed(&rng, test_seed());
    for (unsigned round = 0; round < 2000; round++) {
        unsigned from = (unsigned)rng_between(&rng, 1, 3), to = (unsigned)rng_between(&rng, 1, 3);
        if (from == to)
            continue;
        send_vote(r, from, to, ++term);
        LIST_FOREACH (link, &r->at[from].peers->dials) {
            struct dial *d = container_of(link, struct dial, link);
            if (d->state == DIAL_OPEN && rng_chance(&rng, 1, 60)) {
                fake_wire_reset(d->conn);
                break;
            }
        }
        peer_rig_run_ms(r, rng_below(&rng, 20));
    }
    peer_rig_run_ms(r, 2000);

    size_t heard = 0;
    for (unsigned i = 1; i <= 3; i++) {
        struct buf *text = &r->at[i].heard;
        for (const char *line = buf_str(text); *line; line = strchr(line, '\n') + 1) {
            unsigned from, to;
            unsigned long long got;
            CHECK_EQ(sscanf(line, "vote %x>%x term=%llu", &from, &to, &got), 3);
            CHECK_EQ(to, peer_rig_id(i));
            CHECK(got <= term);
            CHECK_EQ(times[got]++, 0);
            heard++;
        }
    }
    CHECK(heard > term * 8 / 10);
    peer_rig_close(r);
}

TEST(entries_for_two_members_are_encoded_once)
{
    struct peer_rig *r = peer_rig_connected(3);
    struct entry_cache *cache = &r->at[1].peers->cache;
    uint8_t *fill;
    struct blob *b = blob_new(100000, &fill);
    memset(fill, 'v', 100000);
    struct raft_entry e = {.term = 2, .index = 1, .data = blob_bytes(b), .blob = b};

    for (unsigned to = 2; to <= 3; to++) /* so that what follows continues it */
        peer_rig_append(r, 1, to, 2, 0, 0, 0);
    for (unsigned to = 2; to <= 3; to++)
        peers_send(r->at[1].peers, &(struct raft_message){.type = RAFT_MSG_APP,
                                                          .from = peer_rig_id(1),
                                                          .to = peer_rig_id(to),
                                                          .term = 2,
                                                          .log_term = 2,
                                                          .entries = &e,
                                                          .entry_count = 1});
    uint64_t encoded = cache->encoded, reused = cache->reused;
    peers_flush(r->at[1].peers);
    peer_rig_until(r, &r->at[2].append_count, 2);
    peer_rig_until(r, &r->at[3].append_count, 2);

    CHECK_EQ(encoded, 1);
    CHECK_EQ(reused, 1);
    CHECK_EQ(r->at[2].append_bytes, 100000);
    CHECK_EQ(r->at[3].append_bytes, 100000);
    blob_unref(b);
    peer_rig_close(r);
}

/* --- connections that end --- */

TEST(a_new_stream_replaces_the_old_one)
{
    struct peer_rig *r = peer_rig_connected(2);

    struct rig_raw *raw = dial_as_two(r, "message");
    peer_rig_run_ms(r, 50);
    CHECK(peer_rig_has_logged(r, 1, "closed TCP streaming connection with remote peer"));
    send_vote(r, 1, 2, 5);
    peer_rig_run_ms(r, 20);
    CHECK(memmem(raw->got.at, raw->got.len, "200 OK", 6));

    /* The one that was replaced dials again, and replaces the other. */
    peer_rig_until(r, &raw->closed, 1);
    peer_rig_until_streams(r, 1, 2, 4);
    peer_rig_until_streams(r, 2, 1, 4);
    peer_rig_raw_close(r, raw);
    peer_rig_close(r);
}

TEST(a_member_that_comes_back_is_found_again)
{
    struct peer_rig *r = peer_rig_connected(3);

    peer_rig_crash(r, 2);
    peer_rig_until_streams(r, 1, 2, 0);
    CHECK(!peer_rig_status(r, 1, 2).is_active);
    CHECK(peer_rig_has_logged(r, 1, "peer became inactive (message send to peer failed)"));
    CHECK(peer_rig_has_logged(r, 1, "lost TCP streaming connection with remote peer"));

    /* It is heard of at once, since it dials us, however long it was away. */
    for (unsigned i = 0; i < 10; i++) {
        peer_rig_run_ms(r, 20000 + 137 * i);
        peer_rig_start(r, 2);
        peer_rig_know(r, 2, 1);
        peer_rig_know(r, 2, 3);
        uint64_t before = r->world->time.now_ns;
        peer_rig_until_streams(r, 1, 2, 4);
        CHECK(r->world->time.now_ns - before < 300 * NS_PER_MS);
        if (i < 9)
            peer_rig_crash(r, 2);
    }
    send_vote(r, 1, 2, 9);
    peer_rig_until(r, &r->at[2].heard_count, 1);
    CHECK_EQ(peer_rig_status(r, 1, 3).streams, 4);
    peer_rig_close(r);
}

TEST(a_member_that_is_down_is_dialled_once_a_second_at_most)
{
    struct peer_rig *r = peer_rig_connected(2);

    peer_rig_crash(r, 2);
    peer_rig_run_ms(r, 20000);
    uint64_t started = r->at[1].clock.base.started;
    peer_rig_run_ms(r, 10000);

    /* Two streams, each dialled 10 to 20 times with two timers; beats and probes. */
    CHECK(r->at[1].clock.base.started - started < 150);
    peer_rig_close(r);
}

TEST(what_does_not_get_through_is_reported)
{
    struct peer_rig *r = peer_rig_connected(2);

    peer_rig_crash(r, 2);
    peer_rig_run_ms(r, 100);
    size_t before = r->at[1].unreachable;
    send_vote(r, 1, 2, 5);
    peer_rig_until(r, &r->at[1].unreachable, before + 1);

    CHECK(peer_rig_status(r, 1, 2).sent_failures > 0);
    peer_rig_close(r);
}

/* A post that was sent while nobody could be reached ends long after there are streams again. */
TEST(a_late_failure_does_not_outlast_what_the_streams_say)
{
    struct peer_rig *r = peer_rig_open(2);

    fake_wire_cut(r->at[2].io.net, true);
    send_vote(r, 1, 2, 5);
    peer_rig_run_ms(r, 3200);
    fake_wire_cut(r->at[2].io.net, false);
    peer_rig_until_streams(r, 1, 2, 4);
    CHECK(peer_rig_status(r, 1, 2).is_active);
    uint64_t failures = peer_rig_status(r, 1, 2).sent_failures;
    peer_rig_until(r, &r->at[1].unreachable, r->at[1].unreachable + 1);
    CHECK_EQ(peer_rig_status(r, 1, 2).sent_failures, failures + 1);
    CHECK_EQ(peer_rig_status(r, 1, 2).streams, 4);

    uint64_t other = peer_rig_id(2);
    peer_rig_run_ms(r, PEER_LINK_HEARTBEAT_MS + 100);
    CHECK(peer_rig_status(r, 1, 2).is_active);
    CHECK_EQ(peers_longest_connected(r->at[1].peers, &other, 1), other);
    peer_rig_close(r);
}

TEST(a_member_that_falls_silent_is_given_up_after_five_seconds)
{
    struct peer_rig *r = peer_rig_connected(2);

    fake_wire_cut(r->at[2].io.net, true);
    peer_rig_run_ms(r, 4500);
    CHECK_EQ(peer_rig_status(r, 1, 2).streams, 4);
    peer_rig_run_ms(r, 2500);
    CHECK(peer_rig_status(r, 1, 2).streams <= 2); /* those it was to read may not know yet */
    fake_wire_cut(r->at[2].io.net, false);
    peer_rig_until_streams(r, 1, 2, 4);
    peer_rig_until_streams(r, 2, 1, 4);
    send_vote(r, 1, 2, 5);
    send_vote(r, 2, 1, 5);
    peer_rig_until(r, &r->at[2].heard_count, 1);
    peer_rig_until(r, &r->at[1].heard_count, 1);
    peer_rig_close(r);
}

/* Link heartbeats alone keep the streams open. */
TEST(streams_that_nobody_uses_stay_open)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct dial *before = peer_of(r, 1, 2)->in[STREAM_APP].dial;

    peer_rig_run_ms(r, 60000);

    CHECK_EQ(peer_rig_status(r, 1, 2).streams, 4);
    CHECK(peer_of(r, 1, 2)->in[STREAM_APP].dial == before);
    CHECK(!peer_rig_has_logged(r, 1, "lost TCP streaming connection"));
    CHECK_EQ(r->at[1].heard_count, 0);
    peer_rig_close(r);
}

TEST(names_are_resolved_again_and_urls_tried_in_turn)
{
    struct peer_rig *r = peer_rig_open(2);
    const char *urls[] = {"http://10.0.0.7:2380", "http://two.example:2380"};

    peers_remove(r->at[1].peers, peer_rig_id(2));
    peer_rig_stop(r, 1);
    peer_rig_start(r, 1);
    fake_resolver_add(&r->at[1].resolver, "two.example", "10.0.0.8"); /* nobody lives there */
    peers_add(r->at[1].peers, peer_rig_id(2), urls, 2);
    peer_rig_run_ms(r, 3000);
    CHECK_EQ(peer_of(r, 1, 2)->in[STREAM_APP].is_open, false);

    CHECK_EQ(net_address_of_host("10.0.0.2", 0, &r->at[1].resolver.known[1].address), ERR_OK);
    peer_rig_until_streams(r, 1, 2, 4);
    peer_rig_close(r);
}

TEST(a_name_may_have_addresses_where_nobody_is)
{
    struct peer_rig *r = peer_rig_open(2);
    const char *url = "http://two.example:2380";

    peer_rig_stop(r, 1);
    peer_rig_start(r, 1);
    fake_resolver_add(&r->at[1].resolver, "two.example", "10.0.0.8");
    fake_resolver_add(&r->at[1].resolver, "two.example", "10.0.0.2");
    peers_add(r->at[1].peers, peer_rig_id(2), &url, 1);
    uint64_t before = r->world->time.now_ns;
    peer_rig_run_ms(r, 1000);

    CHECK(peer_of(r, 1, 2)->in[STREAM_APP].is_open);
    CHECK_EQ(peer_of(r, 1, 2)->in[STREAM_APP].dialled_ns, before); /* the first time */
    peer_rig_close(r);
}

/* --- those who do not read, and those who do not take --- */

TEST(a_peer_that_never_reads_is_cut_off_and_the_others_do_not_notice)
{
    struct peer_rig *r = peer_rig_connected(3);

    peer_rig_crash(r, 2);
    peer_rig_run_ms(r, 1000);
    struct rig_raw *raw = dial_as_two(r, "msgapp");
    peer_rig_run_ms(r, 50);
    CHECK(peer_of(r, 1, 2)->out[STREAM_APP] != NULL);
    conn_pause(raw->conn);
    r->at[3].is_silent = true;
    uint64_t index = 0;
    size_t dropped = 0;
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned k = 0; k < 2; k++) {
            peer_rig_append(r, 1, 2, 5, index, 1, MIB);
            peer_rig_append(r, 1, 3, 5, index, 1, MIB / 4);
            index++;
        }
        struct out_stream *o = peer_of(r, 1, 2)->out[STREAM_APP];
        CHECK(!o || outgoing_queued(o) <= PEER_OUT_BYTES_MAX + 2 * MIB);
        dropped = peer_rig_status(r, 1, 2).dropped_out;
        peer_rig_run_ms(r, 20);
    }
    CHECK(dropped > 50);
    CHECK(r->at[1].unreachable > 0);
    CHECK(peer_rig_has_logged(r, 1,
                              "dropped internal Raft message since sending buffer is full\","
                              "\"message-type\":\"MsgApp\""));
    peer_rig_run_ms(r, 7000);
    CHECK(!peer_of(r, 1, 2)->out[STREAM_APP]);
    peer_rig_until(r, &r->at[3].append_count, 200);
    CHECK_EQ(peer_rig_status(r, 1, 3).dropped_out, 0);
    CHECK_EQ(peer_rig_status(r, 1, 3).streams, 4);
    conn_resume(raw->conn);
    peer_rig_raw_close(r, raw);
    peer_rig_close(r);
}

TEST(a_heartbeat_does_not_wait_behind_appends)
{
    struct peer_rig *r = peer_rig_connected(2);

    for (unsigned i = 0; i < 40; i++)
        peer_rig_append(r, 1, 2, 5, i, 1, MIB);
    struct raft_message m = heartbeat(1, 2, 5);
    peer_rig_send(r, &m);
    peer_rig_until(r, &r->at[2].heard_count, 1);

    CHECK(r->at[2].append_count < 5);
    peer_rig_until(r, &r->at[2].append_count, 40);
    peer_rig_close(r);
}

/* A leader's window may be 512 appends of a megabyte: a follower that is busy holds a few. */
TEST(appends_that_are_not_taken_are_dropped_and_heartbeats_are_not)
{
    struct peer_rig *r = peer_rig_connected(2);

    r->at[2].takes_no_appends = true;
    for (unsigned i = 0; i < 512; i++) {
        struct raft_message m = heartbeat(1, 2, 5);

        peer_rig_append(r, 1, 2, 5, i, 1, MIB);
        peer_rig_send(r, &m);
        peer_rig_run_ms(r, 100);
        CHECK(peer_of(r, 2, 1)->appends.bytes <= PEER_IN_BYTES_MAX);
    }
    peer_rig_until(r, &r->at[2].heard_count, 512);
    CHECK(peer_rig_status(r, 2, 1).dropped_in > 400);
    CHECK_EQ(peer_rig_status(r, 1, 2).streams, 4); /* nobody was cut off for it */
    CHECK(peer_rig_has_logged(
        r, 2,
        "dropped internal Raft message since receiving buffer is full (overloaded "
        "network)"));

    r->at[2].takes_no_appends = false;
    peer_rig_run_ms(r, 100);
    size_t before = r->at[2].append_count;
    peer_rig_append(r, 1, 2, 5, 512, 1, MIB);
    peer_rig_until(r, &r->at[2].append_count, before + 1);
    peer_rig_close(r);
}

/* Larger than all that may wait: it must get through all the same, one at a time. */
TEST(one_entry_of_any_size_arrives)
{
    struct peer_rig *r = peer_rig_connected(2);

    r->at[2].is_silent = true;
    peer_rig_append(r, 1, 2, 5, 0, 1, PEER_IN_BYTES_MAX + MIB);
    peer_rig_until(r, &r->at[2].append_count, 1);

    CHECK_EQ(r->at[2].append_bytes, PEER_IN_BYTES_MAX + MIB);
    peer_rig_close(r);
}

TEST(messages_between_members_are_bounded_in_number)
{
    struct peer_rig *r = peer_rig_connected(2);

    fake_wire_cut(r->at[2].io.net, true);
    for (unsigned i = 0; i < 3 * PEER_OUT_MESSAGES_MAX; i++)
        send_vote(r, 1, 2, i);
    peer_rig_run_ms(r, 10);

    CHECK(peer_rig_status(r, 1, 2).dropped_out > PEER_OUT_MESSAGES_MAX);
    CHECK(r->at[1].unreachable > 0);
    fake_wire_cut(r->at[2].io.net, false);
    r->at[2].is_silent = true;
    peer_rig_run_ms(r, 10000);
    peer_rig_close(r);
}

/* Without the stream that is theirs, appends take the other one, but may not fill it; and what
 * fills it does not silence heartbeats. */
TEST(appends_and_proposals_leave_space_for_heartbeats)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct out_stream *o = peer_of(r, 1, 2)->out[STREAM_APP];
    struct port_conn *conn = o->conn;
    struct raft_message m = heartbeat(1, 2, 5);

    outgoing_detach(o, NULL);
    port_conn_cut(conn, ERR_OK);
    fake_wire_cut(r->at[2].io.net, true);
    for (unsigned i = 0; i < 8; i++)
        peer_rig_append(r, 1, 2, 5, i, 1, MIB / 2);
    o = peer_of(r, 1, 2)->out[STREAM_MESSAGE];
    CHECK(outgoing_queued(o) <= PEER_DETOUR_BYTES_MAX + MIB);
    CHECK(peer_rig_status(r, 1, 2).dropped_out > 0);

    uint8_t *fill;
    struct blob *b = blob_new(MIB, &fill);
    memset(fill, 'p', MIB);
    struct raft_entry e = {.data = blob_bytes(b), .blob = b};
    for (unsigned i = 0; i < 2 * PEER_OUT_BYTES_MAX / MIB; i++)
        peer_rig_send(r, &(struct raft_message){.type = RAFT_MSG_PROP,
                                                .from = peer_rig_id(1),
                                                .to = peer_rig_id(2),
                                                .entries = &e,
                                                .entry_count = 1});
    CHECK(outgoing_queued(o) >= PEER_OUT_BYTES_MAX);
    CHECK(outgoing_queued(o) < PEER_OUT_BYTES_MAX + 2 * MIB);
    uint64_t dropped = peer_rig_status(r, 1, 2).dropped_out;
    peer_rig_send(r, &m);
    CHECK_EQ(peer_rig_status(r, 1, 2).dropped_out, dropped);
    blob_unref(b);
    fake_wire_cut(r->at[2].io.net, false);
    peer_rig_close(r);
}

/* One turn may have more to say than may wait, as long as the socket takes it. */
TEST(a_turn_with_very_many_messages_drops_none)
{
    struct peer_rig *r = peer_rig_connected(2);

    r->at[2].is_silent = true;
    for (unsigned i = 0; i < PEER_OUT_MESSAGES_MAX + 1000; i++) {
        struct raft_message m = heartbeat(1, 2, 0); /* short: the wire takes 64 KiB at once */
        peers_send(r->at[1].peers, &m);
    }
    peers_flush(r->at[1].peers);
    CHECK_EQ(peer_rig_status(r, 1, 2).dropped_out, 0);
    peer_rig_until(r, &r->at[2].heard_count, PEER_OUT_MESSAGES_MAX + 1000);
    peer_rig_close(r);
}

TEST(posts_that_nobody_takes_are_bounded)
{
    struct peer_rig *r = peer_rig_open(2);

    peer_rig_crash(r, 2);
    for (unsigned i = 0; i < 100; i++)
        send_vote(r, 1, 2, i);
    CHECK_EQ(peer_of(r, 1, 2)->posts.waiting_count, PEER_POSTS_MAX);
    CHECK_EQ(peer_rig_status(r, 1, 2).dropped_out, 100 - PEER_POSTS_MAX - PEER_POST_CONNS_MAX);
    peer_rig_run_ms(r, 10000);
    CHECK_EQ(peer_of(r, 1, 2)->posts.waiting_count, 0);
    CHECK(r->at[1].unreachable > 0);
    peer_rig_close(r);
}

/* Two megabytes take fourteen seconds, and then they are there. */
TEST(an_append_is_posted_over_a_slow_link)
{
    struct peer_rig *r = peer_rig_lonely();
    peer_rig_start(r, 2); /* it knows nobody, and refuses streams */
    r->at[2].is_silent = true;
    fake_wire_path(r->at[1].io.net, r->at[2].io.net)->bytes_per_s = 150000;

    peer_rig_append(r, 1, 2, 5, 0, 1, RAFT_MESSAGE_BYTES_MAX);
    peer_rig_append(r, 1, 2, 5, 1, 1, RAFT_MESSAGE_BYTES_MAX);
    peer_rig_run_ms(r, 30000);

    CHECK_EQ(r->at[2].append_count, 2);
    CHECK_EQ(peer_of(r, 1, 2)->posts.busy_bytes, 0);
    peer_rig_close(r);
}

/* A member that takes nothing is given up as soon as ever, if there is little to take. */
TEST(a_post_that_nobody_answers_ends_in_time)
{
    struct peer_rig *r = peer_rig_lonely();
    peer_rig_start(r, 2);
    fake_wire_cut(r->at[2].io.net, true);

    send_vote(r, 1, 2, 3);
    CHECK_EQ(peer_of(r, 1, 2)->posts.busy_count, 1);
    peer_rig_run_ms(r, PEER_POST_TIMEOUT_MS + 100);

    CHECK_EQ(peer_of(r, 1, 2)->posts.busy_count, 0);
    CHECK(r->at[1].unreachable > 0);
    peer_rig_close(r);
}

/* --- what raft must not see, and what the server must --- */

TEST(local_messages_from_the_network_are_not_for_raft)
{
    struct peer_rig *r = peer_rig_connected(2);

    for (int type = 0; type <= RAFT_MSG_FORGET_LEADER + 3; type++)
        if (type != RAFT_MSG_SNAP && type != RAFT_MSG_APP && type != RAFT_MSG_PROP)
            peer_rig_send(r, &(struct raft_message){.type = (enum raft_message_type)type,
                                                    .from = peer_rig_id(1),
                                                    .to = peer_rig_id(2),
                                                    .term = 3});
    peer_rig_run_ms(r, 1000);

    CHECK_EQ(r->at[2].heard_count, 12);
    peer_rig_close(r);
}

TEST(a_message_for_somebody_else_is_dropped)
{
    struct peer_rig *r = peer_rig_connected(2);
    struct raft_message m = vote(1, 2, 3);

    m.to = peer_rig_id(3);
    CHECK(outgoing_put(peer_of(r, 1, 2)->out[STREAM_MESSAGE], &m));
    peer_rig_run_ms(r, 100);

    CHECK(peer_rig_has_logged(r, 2, "rejected Raft message to mismatch member"));
    CHECK_EQ(peer_rig_status(r, 2, 1).streams, 4);
    CHECK_EQ(r->at[2].heard_count, 0);
    peer_rig_close(r);
}

TEST(a_snapshot_without_its_image_fails)
{
    struct peer_rig *r = peer_rig_connected(2);

    peer_rig_send(
        r, &(struct raft_message){
               .type = RAFT_MSG_SNAP, .from = peer_rig_id(1), .to = peer_rig_id(2), .term = 3});
    peer_rig_until(r, &r->at[1].snapshot_failed, 1);
    peer_rig_close(r);
}

TEST(a_removed_member_is_told_so)
{
    struct peer_rig *r = peer_rig_connected(3);

    peers_remove(r->at[1].peers, peer_rig_id(2));
    peer_rig_until(r, &r->at[2].removed, 1);

    peer_rig_run_ms(r, 5000);
    CHECK_EQ(r->at[2].removed, 1);
    CHECK_EQ(r->at[3].removed, 0);
    CHECK_EQ(r->at[1].removed, 0);
    peer_rig_close(r);
}

TEST(what_was_sent_last_arrives_though_the_room_stops)
{
    struct peer_rig *r = peer_rig_connected(2);

    struct raft_message m = vote(1, 2, 77);
    peers_send(r->at[1].peers, &m);
    peer_rig_stop(r, 1);
    peer_rig_run_ms(r, 100);

    CHECK_STR(buf_str(&r->at[2].heard), "vote 11>22 term=77\n");
    peer_rig_close(r);
}

/* A cluster that grew while we were away: we do not know the leader, and can respond to it. */
TEST(somebody_who_is_not_known_yet_gets_responses)
{
    struct peer_rig *r = peer_rig_open(1);
    struct rig_member *m = &r->at[1];

    const char *text = peer_rig_exchange(
        r, 1,
        BYTES("GET /raft/stream/message/77 HTTP/1.1\r\nHost: x\r\nX-Server-From: 77\r\n"
              "X-Server-Version: 3.7.1\r\nX-Min-Cluster-Version: 3.0.0\r\n"
              "X-Etcd-Cluster-ID: abcd\r\nX-Raft-To: 11\r\n"
              "X-PeerURLs: http://10.0.0.1:2380\r\n\r\n"),
        100, NULL);
    CHECK(strstr(text, "error sender not found"));
    peers_send(m->peers, &(struct raft_message){
                             .type = RAFT_MSG_VOTE, .from = peer_rig_id(1), .to = 0x77, .term = 3});
    peer_rig_until(r, &m->heard_count, 0);
    peer_rig_run_ms(r, 100);

    /* The URL is our own, so that the post comes back to us: it is for somebody else. */
    CHECK(peer_rig_has_logged(r, 1, "added new remote peer"));
    CHECK(peer_rig_has_logged(r, 1, "rejected Raft message to mismatch member"));
    CHECK_EQ(m->removed, 0);
    peer_rig_close(r);
}

TEST(those_who_are_not_known_are_remembered_in_bounds)
{
    struct peer_rig *r = peer_rig_open(1);
    struct peers *p = r->at[1].peers;

    for (uint64_t id = 100; id < 100 + 2 * PEER_REMOTES_MAX; id++)
        peers_add_remote(p, id, BYTES("http://10.0.0.7:2380,http://10.0.0.8:2380"));
    CHECK_EQ(p->members.count, PEER_REMOTES_MAX);
    peers_check(p);

    /* One of them turns out to be a member. */
    peers_add(p, 100, (const char *const[]){"http://10.0.0.9:2380"}, 1);
    CHECK_EQ(p->remote_count, PEER_REMOTES_MAX - 1);
    peers_add_remote(p, 500, BYTES("not a URL"));
    peers_add_remote(p, 501, BYTES("http://10.0.0.7:2380,"));
    peers_add_remote(p, peer_rig_id(1), BYTES("http://10.0.0.7:2380"));
    CHECK_EQ(p->remote_count, PEER_REMOTES_MAX - 1);
    peer_rig_close(r);
}

/* A server that does not say its version is one from before there were such streams. */
static void respond_old(struct conn *c, struct bytes data)
{
    static const struct bytes text = BYTES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");

    (void)data;
    CHECK_EQ(conn_try_write(c, text), text.len);
}

static void end_old(struct conn *c)
{
    conn_close(c, ERR_OK);
}

static void forget_old(struct conn *c, enum err reason)
{
    (void)reason;
    *(size_t *)c->context += 1;
}

static void accept_old(struct listener *l, struct conn *c)
{
    static const struct conn_handlers handlers = {
        .on_data = respond_old, .on_end = end_old, .on_closed = forget_old};

    conn_accept(c, &handlers, l->options.context);
}

TEST(a_stream_of_a_server_that_is_too_old_is_not_read)
{
    struct peer_rig *r = peer_rig_open(1);
    struct net *old = fake_wire_add_host(r->world->wire, &r->world->inbox, "10.0.0.7");
    struct listener *l;
    struct net_address where;
    size_t closed = 0;

    CHECK_EQ(net_address_parse("10.0.0.7:2380", &where), ERR_OK);
    CHECK_EQ(net_listen(old, &where,
                        &(struct listener_options){.on_accept = accept_old, .context = &closed},
                        &l),
             ERR_OK);
    peers_add(r->at[1].peers, 0x77, (const char *const[]){"http://10.0.0.7:2380"}, 1);
    peer_rig_until(r, &closed, 6);

    struct peer_status s;
    CHECK(peers_status(r->at[1].peers, 0x77, &s));
    CHECK_EQ(s.streams, 0);
    CHECK(!peer_rig_has_logged(r, 1, "established TCP"));
    peers_remove(r->at[1].peers, 0x77);
    peer_rig_run_ms(r, 100);
    listener_close(l);
    peer_rig_close(r);
}

/* --- requests --- */

static void ask(struct peer_rig *r, uint64_t token, uint64_t member, const char *url,
                uint64_t timeout_ms)
{
    peers_ask(r->at[1].peers, &(struct peer_ask){.token = token,
                                                 .member = member,
                                                 .url = url,
                                                 .verb = "POST",
                                                 .path = "/leases",
                                                 .content_type = "application/protobuf",
                                                 .body = BYTES("hello"),
                                                 .with_cluster_id = true,
                                                 .is_repeatable = true,
                                                 .timeout_ms = timeout_ms});
}

TEST(a_question_to_another_member_has_a_result)
{
    struct peer_rig *r = peer_rig_connected(2);

    for (uint64_t token = 1; token <= 3; token++) {
        ask(r, token, token == 2 ? RAFT_NONE : peer_rig_id(2), "http://10.0.0.2:2380", 1000);
        peer_rig_until(r, &r->at[2].heard_count, token);
        peers_respond(r->at[2].peers, r->at[2].last_request,
                      &(struct peer_response){.status = 200,
                                              .content_type = "application/protobuf",
                                              .body = BYTES("world"),
                                              .with_cluster_id = true});
        peer_rig_run_ms(r, 50);
    }

    CHECK_STR(buf_str(&r->at[2].heard), "request POST /leases body=hello cluster=abcd auth=\n"
                                        "request POST /leases body=hello cluster=abcd auth=\n"
                                        "request POST /leases body=hello cluster=abcd auth=\n");
    CHECK_STR(buf_str(&r->at[1].results), "1 200 world cluster=abcd\n2 200 world cluster=abcd\n"
                                          "3 200 world cluster=abcd\n");
    peer_rig_close(r);
}

TEST(a_question_without_a_response_has_a_result_too)
{
    struct peer_rig *r = peer_rig_connected(2);

    ask(r, 1, peer_rig_id(2), NULL, 300);
    peer_rig_until(r, &r->at[2].heard_count, 1);
    ask(r, 2, 0x99, NULL, 300);
    ask(r, 3, RAFT_NONE, "http://10.0.0.9:2380", 300);
    ask(r, 4, peer_rig_id(2), NULL, 300);
    peers_forget(r->at[1].peers, 4);
    peer_rig_run_ms(r, 1000);
    CHECK_STR(buf_str(&r->at[1].results),
              "2 0 member not found cluster=0\n3 0 connection refused cluster=0\n"
              "1 0 context deadline exceeded cluster=0\n");

    /* The response comes too late for anybody. */
    peers_respond(r->at[2].peers, r->at[2].last_request, &(struct peer_response){.status = 200});
    ask(r, 5, peer_rig_id(2), NULL, 3000);
    peers_remove(r->at[1].peers, peer_rig_id(2));
    peer_rig_run_ms(r, 100);
    CHECK(strstr(buf_str(&r->at[1].results), "5 0 member not found cluster=0\n"));
    peer_rig_close(r);
}

static void respond_with(struct peer_rig *r, size_t bytes)
{
    struct buf body = {0};

    memset(buf_extend(&body, bytes), 'x', bytes);
    peers_respond(r->at[2].peers, r->at[2].last_request,
                  &(struct peer_response){.status = 200, .body = buf_bytes(&body)});
    buf_free(&body);
}

TEST(a_response_that_is_too_large_is_none)
{
    struct peer_rig *r = peer_rig_connected(2);

    ask(r, 1, peer_rig_id(2), NULL, 5000);
    peer_rig_until(r, &r->at[2].heard_count, 1);
    respond_with(r, PEER_RESULT_BYTES_MAX + 1);
    peer_rig_run_ms(r, 4000);

    CHECK_STR(buf_str(&r->at[1].results), "1 0 the response is too large cluster=0 too-large\n");
    peer_rig_close(r);
}

TEST(who_expects_a_large_response_says_how_large)
{
    enum { LARGE = PEER_RESULT_BYTES_MAX + MIB };
    struct peer_rig *r = peer_rig_connected(2);

    for (uint64_t token = 1; token <= 2; token++) {
        peers_ask(r->at[1].peers, &(struct peer_ask){.token = token,
                                                     .member = peer_rig_id(2),
                                                     .verb = "GET",
                                                     .path = "/large",
                                                     .timeout_ms = 5000,
                                                     .result_max = LARGE});
        peer_rig_until(r, &r->at[2].heard_count, token);
        respond_with(r, token == 1 ? LARGE : LARGE + 1);
        peer_rig_run_ms(r, 4000);
    }

    const char *told = buf_str(&r->at[1].results);
    CHECK_EQ(strncmp(told, "1 200 x", 7), 0);
    CHECK_STR(strchr(told, '\n'), "\n2 0 the response is too large cluster=0 too-large\n");
    peer_rig_close(r);
}

TEST(questions_are_bounded)
{
    struct peer_rig *r = peer_rig_connected(2);

    for (uint64_t token = 1; token <= PEER_ASKS_MAX + 10; token++)
        ask(r, token, peer_rig_id(2), NULL, 60000);
    CHECK_EQ(r->at[1].peers->asks.count, PEER_ASKS_MAX);
    peer_rig_run_ms(r, 10);
    CHECK(strstr(buf_str(&r->at[1].results), "4097 0 too many requests cluster=0\n"));
    peer_rig_close(r);
}

/* The connection of member 1 that is neither of its streams, just when it is used again. */
static void reset_ask(struct peer_rig *r)
{
    const struct peer *peer = peer_of(r, 1, 2);
    size_t found = 0;

    LIST_FOREACH (link, &r->at[1].peers->dials) {
        struct dial *d = container_of(link, struct dial, link);
        if (d == peer->in[0].dial || d == peer->in[1].dial || d->state != DIAL_OPEN)
            continue;
        fake_wire_reset(d->conn);
        found++;
    }
    CHECK_EQ(found, 1);
}

/* etcd ends connections that were idle for five seconds; a request that meets that is sent again.
 */
TEST(a_kept_connection_that_has_ended_is_no_reason_to_fail)
{
    struct peer_rig *r = peer_rig_connected(2);

    for (uint64_t token = 1; token <= 2; token++) {
        ask(r, token, peer_rig_id(2), NULL, 1000);
        if (token == 2)
            reset_ask(r);
        peer_rig_until(r, &r->at[2].heard_count, token);
        peers_respond(r->at[2].peers, r->at[2].last_request,
                      &(struct peer_response){.status = 200, .body = BYTES("ok")});
        peer_rig_run_ms(r, 50);
    }

    CHECK_STR(buf_str(&r->at[1].results), "1 200 ok cluster=0\n2 200 ok cluster=0\n");

    /* What must not be done twice is not. */
    peers_ask(r->at[1].peers, &(struct peer_ask){.token = 3,
                                                 .member = peer_rig_id(2),
                                                 .verb = "POST",
                                                 .path = "/members/promote/7",
                                                 .timeout_ms = 1000});
    reset_ask(r);
    peer_rig_run_ms(r, 500);
    CHECK(strstr(buf_str(&r->at[1].results), "3 0 connection reset cluster=0\n"));
    CHECK_EQ(r->at[2].heard_count, 2);
    peer_rig_close(r);
}

TEST(a_crash_leaves_nothing_behind)
{
    for (unsigned ms = 0; ms < 40; ms++) {
        struct peer_rig *r = peer_rig_open(3);

        ask(r, 1, peer_rig_id(2), NULL, 1000);
        ask(r, 2, RAFT_NONE, "http://10.0.0.3:2380", 1000);
        ask(r, 3, RAFT_NONE, "http://three.example:2380", 1000); /* whose name is looked up */
        peer_rig_append(r, 1, 2, 5, 0, 1, MIB);
        peer_rig_run_ms(r, ms * (ms % 3 == 0 ? 50 : 1));
        peer_rig_append(r, 1, 2, 5, 0, 1, MIB);
        send_vote(r, 1, 3, 4);
        peer_rig_crash(r, 1);
        peer_rig_run_ms(r, 100);
        peer_rig_close(r);
    }
}

/* --- probes --- */

TEST(round_trips_are_measured_and_clocks_compared)
{
    struct peer_rig *r = peer_rig_connected(2);

    r->at[2].clock.wall_offset_ns = 3 * (int64_t)NS_PER_S;
    peer_rig_run_ms(r, 5000);

    CHECK(peer_rig_status(r, 1, 2).round_trip_ns > 0);
    CHECK(peer_rig_status(r, 1, 2).round_trip_ns < 100 * NS_PER_MS);
    CHECK(peer_rig_status(r, 1, 2).clock_drift_ns < -2900 * (int64_t)NS_PER_MS);
    CHECK(peer_rig_has_logged(r, 1, "prober found high clock drift"));
    CHECK(peer_rig_has_logged(r, 2, "prober found high clock drift"));
    peer_rig_crash(r, 2);
    peer_rig_run_ms(r, 9000);
    CHECK(peer_rig_has_logged(r, 1, "prober detected unhealthy status"));
    peer_rig_close(r);
}

TEST(the_member_connected_longest_is_known)
{
    struct peer_rig *r = peer_rig_connected(3);
    const uint64_t both[] = {peer_rig_id(2), peer_rig_id(3), 0x99};

    peer_rig_crash(r, 2);
    peer_rig_until_streams(r, 1, 2, 0);
    peer_rig_start(r, 2);
    peer_rig_know(r, 2, 1);
    peer_rig_until_streams(r, 1, 2, 4);

    CHECK_EQ(peers_longest_connected(r->at[1].peers, both, 3), peer_rig_id(3));
    CHECK_EQ(peers_longest_connected(r->at[1].peers, both, 1), peer_rig_id(2));
    CHECK_EQ(peers_longest_connected(r->at[1].peers, both, 0), RAFT_NONE);
    peer_rig_close(r);
}
