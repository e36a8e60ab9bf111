/* Replies are charged before they are made, and who waits for that, and for how long. */
#include "rpc/rpc_rig_test.h"

#include "rpc/rpc_int.h"

#include <string.h>

enum { DATA = 0, END_STREAM = 1, WINDOW_UPDATE = 8 };

/* The same call on so many streams, from this one on. */
static void ask_many(struct raw *raw, const char *path, const char *message, unsigned from,
                     unsigned count)
{
    struct buf out = {0}, framed = {0};

    message_put(&framed, bytes_of_str(message));
    if (from == 0)
        frame_preface(&out);
    for (unsigned i = from; i < from + count; i++) {
        frame_request(&out, 2 * i + 1, path, false, BYTES(""));
        frame_put(&out, DATA, END_STREAM, 2 * i + 1, buf_bytes(&framed));
    }
    raw_send(raw, buf_bytes(&out));
    buf_free(&out);
    buf_free(&framed);
}

static void open_window(struct raw *raw)
{
    struct buf out = {0};

    frame_put(&out, WINDOW_UPDATE, 0, 0, BYTES("\x3f\x00\x00\x00"));
    raw_send(raw, buf_bytes(&out));
    buf_free(&out);
}

static void leave(struct rpc_rig *r, struct raw *raw)
{
    raw_close(r, raw);
    buf_free(&raw->got);
}

/* All of these have the core's attention at once; more of them wait until it has answered some. */
enum { AT_ONCE = RPC_CONN_BYTES_MAX / RIG_OWED_BYTES };

TEST(calls_that_nobody_answers_let_in_no_more_than_their_replies_may_take)
{
    struct rpc_rig r;
    struct raw raw = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    ask_many(&raw, "/test.Echo/Large", "5000 0", 0, AT_ONCE + 100);
    rpc_rig_for_ms(&r, 100);

    CHECK(r.messages <= AT_ONCE + 100);
    CHECK_EQ(r.reserved, RPC_CONN_BYTES_MAX / 5000);
    CHECK(rpc_status(r.rpc).owed_bytes <= RPC_CONN_BYTES_MAX);
    leave(&r, &raw);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.live, 0);
    CHECK_EQ(rpc_status(r.rpc).owed_bytes, 0);
    rpc_rig_close(&r);
}

TEST(calls_whose_replies_are_not_read_wait_until_they_are)
{
    enum { CALLS = 4000, REPLY_BYTES = 3900 };
    struct rpc_rig r;
    struct raw raw = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    ask_many(&raw, "/test.Echo/Owe", "3900", 0, CALLS);
    rpc_rig_for_ms(&r, 100);

    unsigned heard = r.messages;
    CHECK(heard <= RPC_CONN_BYTES_MAX / REPLY_BYTES + 20); /* the first window is open */
    CHECK(heard >= AT_ONCE / 2);
    CHECK(rpc_status(r.rpc).owed_bytes <= RPC_CONN_BYTES_MAX);
    CHECK_EQ(rpc_status(r.rpc).waiting_conns, 1);
    open_window(&raw);
    rpc_rig_for_ms(&r, 1000);
    CHECK_EQ(r.messages, CALLS);
    CHECK_EQ(rpc_status(r.rpc).waiting_conns, 0);
    CHECK_EQ(rpc_status(r.rpc).owed_bytes, 0);
    CHECK_EQ(r.live, 0);
    CHECK(raw.got_bytes > CALLS * REPLY_BYTES);
    leave(&r, &raw);
    rpc_rig_close(&r);
}

/* The core's part of a body has copies of what it was asked with. */
TEST(a_request_counts_as_long_as_its_body_is_being_sent)
{
    enum { CALLS = 200, REQUEST_BYTES = 60000, FRAME_BYTES = 15000, BODY_BYTES = 60000 };
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf message = {0}, framed = {0}, out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);
    buf_printf(&message, "%u ", BODY_BYTES);
    memset(buf_extend(&message, REQUEST_BYTES - message.len), ' ', REQUEST_BYTES - message.len);
    message_put(&framed, buf_bytes(&message));
    frame_preface(&out);

    for (unsigned i = 0; i < CALLS; i++) {
        frame_request(&out, 2 * i + 1, "/test.Echo/Body", false, BYTES(""));
        for (size_t at = 0; at < framed.len; at += FRAME_BYTES) {
            size_t len = framed.len - at < FRAME_BYTES ? framed.len - at : FRAME_BYTES;
            frame_put(&out, DATA, at + len == framed.len ? END_STREAM : 0, 2 * i + 1,
                      bytes_of(framed.at + at, len));
        }
        raw_send(&raw, buf_bytes(&out));
        buf_clear(&out);
        rpc_rig_for_ms(&r, 5);
    }
    CHECK(r.messages >= RPC_CONN_BYTES_MAX / REQUEST_BYTES);
    CHECK(r.messages <= RPC_CONN_BYTES_MAX / REQUEST_BYTES + 2); /* the first window is open */
    open_window(&raw);
    rpc_rig_for_ms(&r, 1000);
    CHECK_EQ(r.messages, CALLS);
    CHECK_EQ(r.live, 0);
    CHECK(raw.got_bytes > CALLS * BODY_BYTES);

    leave(&r, &raw);
    buf_free(&message);
    buf_free(&framed);
    buf_free(&out);
    rpc_rig_close(&r);
}

/* They end by their deadline and with their connection, as others do. */
TEST(calls_that_wait_for_budget_end_as_others_do)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct answer late;
    struct client_request soon = {.timeout_ns = 50 * NS_PER_MS};
    rpc_rig_open(&r, NULL);
    rpc_rig_connect(&r);
    for (unsigned i = 0; i < 2; i++) {
        raw_connect(&r, &raw);
        ask_many(&raw, "/test.Echo/Large", "4000000 0", 0, 5);
        ask_many(&raw, "/test.Echo/Owe", "10", 5, 100);
        rpc_rig_for_ms(&r, 100);
        leave(&r, &raw);
        raw = (struct raw){0};
        rpc_rig_for_ms(&r, 100);
        CHECK_EQ(r.live, 0);
    }

    struct answer holding[4];
    for (unsigned i = 0; i < ARRAY_LEN(holding); i++) {
        rpc_rig_start(&r, &holding[i], "Large", i < 2 ? NULL : &soon);
        client_send(holding[i].call, BYTES("4100000 0"));
        client_end(holding[i].call);
    }
    rpc_rig_until(&r, &holding[3].ended, 1);
    CHECK_EQ(holding[2].code, RPC_DEADLINE_EXCEEDED);
    CHECK_EQ(holding[3].code, RPC_DEADLINE_EXCEEDED);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.live, 2);
    rpc_rig_start(&r, &late, "Owe", &soon);
    client_send(late.call, BYTES("10"));
    client_end(late.call);
    rpc_rig_until(&r, &late.ended, 1);
    CHECK_EQ(late.code, RPC_OK); /* a small one passes the large ones */

    rpc_rig_close(&r); /* which the others hear of */
    for (unsigned i = 0; i < ARRAY_LEN(holding); i++)
        answer_free(&holding[i]);
    answer_free(&late);
}

/* --- streams --- */

/* 16,384 of them at the least that there was once would have been half a gigabyte. */
TEST(streams_have_credit_within_what_their_connection_may_owe)
{
    enum { STREAMS = 10000 };
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0};
    struct answer a;
    rpc_rig_open(&r, NULL);
    rpc_rig_connect(&r);
    raw_connect(&r, &raw);
    r.unchecked = true;

    frame_preface(&out);
    for (unsigned i = 0; i < STREAMS; i++)
        frame_request(&out, 2 * i + 1, "/test.Echo/Chat", false, BYTES(""));
    raw_send(&raw, buf_bytes(&out));
    rpc_rig_until(&r, &r.opened, STREAMS);
    CHECK(r.rpc->granted <= RPC_CONN_BYTES_MAX + STREAMS * RPC_STREAM_CREDIT_BYTES_LEAST);
    rpc_rig_ask(&r, &a, "Pull", BYTES("1000 5000")); /* others have theirs */
    CHECK_EQ(a.messages, 1000);

    rpc_check(r.rpc);
    leave(&r, &raw);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.rpc->granted, 0);
    answer_free(&a);
    buf_free(&out);
    rpc_rig_close(&r);
}

TEST(streams_with_the_least_credit_come_to_their_end_all_the_same)
{
    enum { STREAMS = 1000 };
    static struct answer a[STREAMS];
    struct rpc_rig r;
    rpc_rig_open(&r, NULL);
    rpc_rig_connect(&r);
    r.unchecked = true;

    for (unsigned i = 0; i < STREAMS; i++) {
        rpc_rig_start(&r, &a[i], "Pull", NULL);
        client_send(a[i].call, i % 2 ? BYTES("50 10") : BYTES("5 5000"));
        client_end(a[i].call);
    }
    for (unsigned i = 0; i < STREAMS; i++)
        rpc_rig_until(&r, &a[i].ended, 1);

    for (unsigned i = 0; i < STREAMS; i++) {
        CHECK_EQ(a[i].messages, i % 2 ? 50 : 5);
        answer_free(&a[i]);
    }
    rpc_rig_close(&r);
}

/* --- many connections --- */

enum { HOGS = 20, PLACES = 2 * HOGS };

#define UNREAD     "4000000 4000000"
#define UNANSWERED "4000000 0"

struct hogs {
    struct rpc_rig r;
    struct raw raws[PLACES];
};

/* Each asks for four megabytes again and again, and reads nothing; or the core does not answer. */
static void open_hogs(struct hogs *h, const char *message)
{
    *h = (struct hogs){0};
    rpc_rig_open(&h->r, NULL);
    rpc_rig_connect(&h->r);
    for (unsigned i = 0; i < HOGS; i++) {
        raw_connect(&h->r, &h->raws[i]);
        ask_many(&h->raws[i], "/test.Echo/Large", message, 0, 10);
    }
    rpc_rig_for_ms(&h->r, 100);
}

static void close_hogs(struct hogs *h)
{
    for (unsigned i = 0; i < HOGS; i++)
        leave(&h->r, &h->raws[i]);
    rpc_rig_for_ms(&h->r, 100);
    CHECK_EQ(rpc_status(h->r.rpc).owed_bytes, 0);
    rpc_rig_close(&h->r);
}

static unsigned cut(const struct hogs *h)
{
    unsigned count = 0;

    for (unsigned i = 0; i < HOGS; i++)
        count += h->raws[i].ended > 0 || h->raws[i].closed > 0;
    return count;
}

TEST(all_connections_together_owe_no_more_than_there_is)
{
    struct hogs h;
    open_hogs(&h, UNREAD);

    CHECK(h.r.reserved >= 12);
    CHECK(rpc_status(h.r.rpc).owed_bytes <= RPC_REPLIES_BYTES_MAX);
    CHECK_EQ(rpc_status(h.r.rpc).waiting_conns, HOGS);
    CHECK_EQ(cut(&h), 0);
    close_hogs(&h);
}

/* What others hold is not theirs for ever, though those who asked before come first; and who asks
 * for little does not notice at all. */
TEST(whoever_reads_is_served_while_others_hold_all_there_is)
{
    struct hogs h;
    struct answer small, large;
    open_hogs(&h, UNREAD);

    for (unsigned i = 0; i < 100; i++) {
        uint64_t before = clock_now_ns(h.r.io->clock);
        rpc_rig_ask(&h.r, &small, "Owe", BYTES("4000"));
        CHECK_EQ(small.got.len, 4000);
        CHECK(clock_now_ns(h.r.io->clock) - before < 100 * NS_PER_MS);
        answer_free(&small);
    }
    CHECK_EQ(cut(&h), 0);
    uint64_t before = clock_now_ns(h.r.io->clock);
    rpc_rig_ask(&h.r, &large, "Large", BYTES("3500000 3500000"));
    CHECK_EQ(large.got.len, 3500000);
    CHECK(clock_now_ns(h.r.io->clock) - before <= 4 * RPC_PATIENCE_MS * NS_PER_MS);
    CHECK(cut(&h) > 0 && cut(&h) < HOGS);
    CHECK(strstr(buf_str(&h.r.logged), "does not read its replies"));

    answer_free(&large);
    close_hogs(&h);
}

/* A connection with a call under way, or a backup, asks for other things meanwhile. */
TEST(a_connection_that_owes_little_has_several_small_calls_while_others_hold_all_there_is)
{
    struct hogs h;
    struct answer held, small[3];
    open_hogs(&h, UNREAD);
    for (unsigned at = HOGS; rpc_budget_left(h.r.rpc) > 0; at++) { /* a reply may be more */
        CHECK(at < PLACES);
        raw_connect(&h.r, &h.raws[at]);
        ask_many(&h.raws[at], "/test.Echo/Owe", "2000000", 0, 1);
        rpc_rig_for_ms(&h.r, 10);
    }

    rpc_rig_start(&h.r, &held, "Large", NULL);
    client_send(held.call, BYTES("5000 0"));
    client_end(held.call);
    rpc_rig_for_ms(&h.r, 100);
    for (unsigned i = 0; i < ARRAY_LEN(small); i++) {
        uint64_t before = clock_now_ns(h.r.io->clock);
        rpc_rig_ask(&h.r, &small[i], "Owe", BYTES("4000"));
        CHECK_EQ(small[i].got.len, 4000);
        CHECK(clock_now_ns(h.r.io->clock) - before < 100 * NS_PER_MS);
        answer_free(&small[i]);
    }

    client_cancel(held.call);
    answer_free(&held);
    for (unsigned i = HOGS; i < PLACES && h.raws[i].conn; i++)
        leave(&h.r, &h.raws[i]);
    close_hogs(&h);
}

/* A client cannot read what was not answered: without a quorum, or while a disk stands still, all
 * clients wait for the core. */
TEST(nobody_is_cut_for_calls_that_the_core_has_not_answered)
{
    struct hogs h;
    struct raw large = {0};
    open_hogs(&h, UNANSWERED);

    raw_connect(&h.r, &large);
    ask_many(&large, "/test.Echo/Large", UNANSWERED, 0, 1);
    rpc_rig_for_ms(&h.r, 4 * RPC_PATIENCE_MS);

    CHECK_EQ(cut(&h), 0);
    CHECK_EQ(rpc_status(h.r.rpc).waiting_conns, HOGS + 1);
    leave(&h.r, &large);
    close_hogs(&h);
}

/* Nobody is cut for those who owe as much, nor for one that waits for itself. */
TEST(nobody_is_cut_while_nobody_waits_who_owes_less)
{
    struct rpc_rig r;
    struct raw raw = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    ask_many(&raw, "/test.Echo/Large", "4000000 0", 0, 10);
    rpc_rig_for_ms(&r, 20 * RPC_PATIENCE_MS);

    CHECK_EQ(r.reserved, 2);
    CHECK_EQ(raw.ended + raw.closed, 0);
    leave(&r, &raw);
    rpc_rig_close(&r);
}

/* --- those that read a little --- */

static void open_window_by(struct raw *raw, uint32_t bytes)
{
    uint8_t size[] = {(uint8_t)(bytes >> 24), (uint8_t)(bytes >> 16), (uint8_t)(bytes >> 8),
                      (uint8_t)bytes};
    struct buf out = {0};

    frame_put(&out, WINDOW_UPDATE, 0, 0, bytes_of(size, sizeof(size)));
    raw_send(raw, buf_bytes(&out));
    buf_free(&out);
}

enum { LITTLE_BYTES = 4500, SMALL_REPLIES = 1000, PERIODS_MAX = RPC_IMPATIENCE_MAX + 2 };

/* The clients that still can read a little for a second. */
static void read_a_little(struct rpc_rig *r, struct raw *raws, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (raws[i].ended + raws[i].closed == 0)
            open_window_by(&raws[i], LITTLE_BYTES);
    rpc_rig_for_ms(r, 1000);
}

/* Connections with so many replies each, until there is no memory for as much as four megabytes.
 * How many connections. */
static unsigned fill(struct hogs *h, const char *path, const char *message, unsigned calls)
{
    unsigned count = 0;

    for (; rpc_budget_left(h->r.rpc) >= 4000000; count++) {
        CHECK(count < HOGS);
        raw_connect(&h->r, &h->raws[count]);
        ask_many(&h->raws[count], path, message, 0, calls);
        rpc_rig_for_ms(&h->r, 10);
    }
    return count;
}

static void close_full(struct hogs *h, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        leave(&h->r, &h->raws[i]);
    rpc_rig_for_ms(&h->r, 100);
    CHECK_EQ(rpc_status(h->r.rpc).owed_bytes, 0);
    rpc_rig_close(&h->r);
}

/* No connection that holds the memory reads; another connection, which needs none of it, waits for
 * a slow reader. */
TEST(a_wait_for_somebody_who_reads_does_not_keep_those_that_do_not)
{
    struct hogs h = {0};
    struct raw slow = {0}, decoy = {0};
    struct answer own, large;
    rpc_rig_open(&h.r, NULL);
    rpc_rig_connect(&h.r);
    raw_connect(&h.r, &slow);
    ask_many(&slow, "/test.Echo/Owe", "3900", 0, SMALL_REPLIES);
    rpc_rig_for_ms(&h.r, 100);
    ask_many(&slow, "/test.Echo/Large", "900000000 0", SMALL_REPLIES, 1);
    rpc_rig_for_ms(&h.r, 100);
    CHECK_EQ(h.r.rpc->beyond, 1);
    raw_connect(&h.r, &decoy);
    ask_many(&decoy, "/test.Echo/Large", "900000000 0", 0, 1);
    rpc_rig_start(&h.r, &own, "Large", NULL); /* so the decoy is poorer than the honest client */
    client_send(own.call, BYTES("5000 0"));
    client_end(own.call);
    unsigned full = fill(&h, "/test.Echo/Large", UNREAD, 1);

    rpc_rig_start(&h.r, &large, "Large", NULL);
    client_send(large.call, BYTES("4000000 4000000"));
    client_end(large.call);
    for (unsigned s = 0; large.ended == 0; s++) {
        CHECK(s <= RPC_PATIENCE_MS / 1000 + 1);
        read_a_little(&h.r, &slow, 1);
    }

    CHECK_EQ(large.got.len, 4000000);
    CHECK(cut(&h) > 0);
    CHECK_EQ(slow.ended + slow.closed, 0);
    client_cancel(own.call);
    leave(&h.r, &slow);
    leave(&h.r, &decoy);
    answer_free(&own);
    answer_free(&large);
    close_full(&h, full);
}

/* The clients read a few kilobytes a second, of four megabytes each. */
TEST(reading_a_little_does_not_keep_memory_from_others_for_ever)
{
    struct hogs h = {0};
    struct raw honest[6] = {0};
    rpc_rig_open(&h.r, NULL);
    h.r.unchecked = true;
    unsigned full = fill(&h, "/test.Echo/Owe", "3900", SMALL_REPLIES);

    for (unsigned i = 0; i < ARRAY_LEN(honest); i++) {
        raw_connect(&h.r, &honest[i]);
        ask_many(&honest[i], "/test.Echo/Large", "4000000 0", 0, 1);
    }
    for (unsigned s = 0; h.r.reserved < ARRAY_LEN(honest); s++) {
        CHECK(s <= PERIODS_MAX * RPC_PATIENCE_MS / 1000);
        read_a_little(&h.r, h.raws, full);
    }

    CHECK(cut(&h) > 0 && cut(&h) < full);
    for (unsigned i = 0; i < ARRAY_LEN(honest); i++)
        leave(&h.r, &honest[i]);
    close_full(&h, full);
}

/* Most of the memory is with clients that read, for now; and what the others have is too little. */
TEST(nobody_is_cut_who_has_too_little_to_help)
{
    struct hogs h = {0};
    struct raw others[2] = {0}, large = {0};
    rpc_rig_open(&h.r, NULL);
    for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
        raw_connect(&h.r, &others[i]);
        ask_many(&others[i], "/test.Echo/Owe", "75000", 0, 1);
    }
    unsigned full = fill(&h, "/test.Echo/Owe", "3900", SMALL_REPLIES);

    raw_connect(&h.r, &large);
    ask_many(&large, "/test.Echo/Large", "4190000 0", 0, 1);
    for (unsigned s = 0; s < RPC_PATIENCE_MS / 1000 + 1; s++)
        read_a_little(&h.r, h.raws, full);

    CHECK(rpc_status(h.r.rpc).waiting_conns >= 1);
    for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
        CHECK_EQ(others[i].ended + others[i].closed, 0);
        leave(&h.r, &others[i]);
    }
    CHECK_EQ(cut(&h), 0);
    leave(&h.r, &large);
    close_full(&h, full);
}

/* A body stays charged until its last byte has left. */
TEST(a_client_that_does_not_read_a_body_is_cut)
{
    struct hogs h = {0};
    struct answer large;
    rpc_rig_open(&h.r, NULL);
    rpc_rig_connect(&h.r);
    unsigned full = fill(&h, "/test.Echo/LargeBody", "4000000", 1);

    CHECK(h.r.bodies_open == full);
    rpc_rig_ask(&h.r, &large, "Large", BYTES(UNREAD));
    CHECK_EQ(large.got.len, 4000000);
    CHECK(cut(&h) > 0 && cut(&h) < full);

    answer_free(&large);
    close_full(&h, full);
}

/* Its client says nothing, so nobody else would look at it. */
TEST(a_stream_has_its_credit_back_when_others_give_back_theirs)
{
    struct hogs h = {0};
    struct raw pull = {0};
    struct buf open = {0};
    rpc_rig_open(&h.r, NULL);
    raw_connect(&h.r, &pull);
    ask_many(&pull, "/test.Echo/Pull", "1000 5000", 0, 1);
    frame_put(&open, WINDOW_UPDATE, 0, 1, BYTES("\x3f\x00\x00\x00")); /* of the stream */
    raw_send(&pull, buf_bytes(&open));
    buf_free(&open);
    rpc_rig_for_ms(&h.r, 100);
    unsigned full = fill(&h, "/test.Echo/Large", UNREAD, 1);
    while (rpc_budget_left(h.r.rpc) > 300000) {
        raw_connect(&h.r, &h.raws[full]);
        ask_many(&h.raws[full++], "/test.Echo/Owe", "300000", 0, 1);
        rpc_rig_for_ms(&h.r, 10);
    }
    unsigned before = h.r.sent;
    open_window_by(&pull, 20000);
    rpc_rig_for_ms(&h.r, 100);
    CHECK_EQ(h.r.sent, before);

    leave(&h.r, &h.raws[0]);
    h.raws[0] = (struct raw){0};
    rpc_rig_for_ms(&h.r, 1000);
    CHECK(h.r.sent > before);

    leave(&h.r, &pull);
    for (unsigned i = 1; i < full; i++)
        leave(&h.r, &h.raws[i]);
    rpc_rig_for_ms(&h.r, 100);
    CHECK_EQ(rpc_status(h.r.rpc).owed_bytes, 0);
    rpc_rig_close(&h.r);
}

enum { MANY = 160 };

static unsigned count_cut(const struct raw *raws)
{
    unsigned count = 0;

    for (unsigned i = 0; i < MANY; i++)
        count += raws[i].ended + raws[i].closed > 0;
    return count;
}

/* A reply may be more than its call was charged, so they may owe twice what there is. */
TEST(enough_are_cut_where_they_owe_more_than_there_is_and_a_few_at_a_time)
{
    static struct raw raws[MANY];
    struct rpc_rig r;
    struct answer large;
    rpc_rig_open(&r, NULL);
    rpc_rig_connect(&r);
    r.unchecked = true;
    memset(raws, 0, sizeof(raws));
    for (unsigned i = 0; i < MANY; i++) {
        raw_connect(&r, &raws[i]);
        ask_many(&raws[i], "/test.Echo/Owe", "800000", 0, 1);
    }
    rpc_rig_for_ms(&r, 100);
    CHECK(rpc_status(r.rpc).owed_bytes > 7 * RPC_REPLIES_BYTES_MAX / 4);

    uint64_t before = clock_now_ns(r.io->clock);
    rpc_rig_start(&r, &large, "Large", NULL);
    client_send(large.call, BYTES(UNREAD));
    client_end(large.call);
    for (unsigned gone = 0; large.ended == 0;) {
        CHECK(rpc_rig_step(&r));
        unsigned now_gone = count_cut(raws);
        CHECK(now_gone - gone <= RPC_CUTS_MAX);
        gone = now_gone;
    }

    CHECK_EQ(large.got.len, 4000000);
    CHECK(clock_now_ns(r.io->clock) - before <= (RPC_PATIENCE_MS + 1000) * NS_PER_MS);
    CHECK(count_cut(raws) > RPC_CUTS_MAX && count_cut(raws) < MANY);
    for (unsigned i = 0; i < MANY; i++)
        leave(&r, &raws[i]);
    answer_free(&large);
    rpc_rig_close(&r);
}

/* Each time that it gives up nobody waits any more; but it has waited. */
TEST(those_that_do_not_read_are_cut_for_a_client_that_gives_up_and_comes_again)
{
    struct hogs h = {0};
    struct answer large = {0};
    struct client_request soon = {.timeout_ns = (RPC_PATIENCE_MS - 1000) * NS_PER_MS};
    unsigned tries = 0;
    rpc_rig_open(&h.r, NULL);
    rpc_rig_connect(&h.r);
    unsigned full = fill(&h, "/test.Echo/Large", UNREAD, 1);
    CHECK_EQ(rpc_status(h.r.rpc).waiting_conns, 0);

    do {
        CHECK(tries++ < 4);
        answer_free(&large);
        rpc_rig_start(&h.r, &large, "Large", &soon);
        client_send(large.call, BYTES("4000000 4000000"));
        client_end(large.call);
        rpc_rig_until(&h.r, &large.ended, 1);
    } while (large.code != RPC_OK);

    CHECK(tries > 1);
    CHECK(cut(&h) > 0);
    answer_free(&large);
    close_full(&h, full);
}

/* However large, it is made; but not while another one is held. */
TEST(replies_beyond_all_measure_are_made_one_at_a_time)
{
    struct rpc_rig r;
    struct answer a[3];
    rpc_rig_open(&r, NULL);
    rpc_rig_connect(&r);

    rpc_rig_ask(&r, &a[0], "Large", BYTES("900000000 30"));
    CHECK_EQ(a[0].got.len, 30);
    for (unsigned i = 1; i < 3; i++) {
        rpc_rig_start(&r, &a[i], "Large", NULL);
        client_send(a[i].call, BYTES("900000000 0"));
        client_end(a[i].call);
    }
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.reserved, 2);
    client_cancel(a[1].call);
    rpc_rig_until(&r, &r.reserved, 3);

    rpc_rig_close(&r); /* which the last one hears of */
    for (unsigned i = 0; i < 3; i++)
        answer_free(&a[i]);
}
