#include "rpc/rpc_rig_test.h"

#include "io/inbox.h"
#include "io/io.h"
#include "rpc/rpc_int.h"

#include <stdlib.h>
#include <string.h>

/* What a few bytes of a client may make the server do: it is counted before it is done, and a turn
 * does no more of it than its share (rpc promise 6). Judged by what was counted, never by time. */

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, GOAWAY = 7 };
enum { PROTOCOL_ERROR = 1, REFUSED_STREAM = 7, COMPRESSION_ERROR = 9, ENHANCE_YOUR_CALM = 11 };

enum {
    INDEX_BYTE = 0x80 | 62, /* the newest field of the table */
    LARGE_VALUE_BYTES = 3900,
    LARGE_FIELD_BYTES = 1 + LARGE_VALUE_BYTES + 32,
};

static void check_others_are_served(struct rpc_rig *r)
{
    struct answer a;

    if (!r->client)
        rpc_rig_connect(r);
    rpc_rig_ask(r, &a, "Say", BYTES("still there?"));
    CHECK_EQ(a.code, RPC_OK);
    answer_free(&a);
}

static unsigned count_frames(const struct raw *raw, uint8_t type)
{
    unsigned count = 0;
    uint32_t stream;
    struct bytes p;

    while (frame_find(buf_bytes(&raw->got), type, count, &stream, &p))
        count++;
    return count;
}

/* The code of the first frame of this type: its last word. */
static uint32_t code_of(const struct raw *raw, uint8_t type, size_t at)
{
    uint32_t stream;
    struct bytes p;

    CHECK(frame_find(buf_bytes(&raw->got), type, 0, &stream, &p));
    CHECK(p.len >= at + 4);
    return (uint32_t)p.at[at] << 24 | (uint32_t)p.at[at + 1] << 16 | (uint32_t)p.at[at + 2] << 8 |
           p.at[at + 3];
}

static void check_dismissed(const struct raw *raw, const char *why)
{
    uint32_t stream;
    struct bytes p;

    CHECK_EQ(code_of(raw, GOAWAY, 4), ENHANCE_YOUR_CALM);
    CHECK(frame_find(buf_bytes(&raw->got), GOAWAY, 0, &stream, &p));
    CHECK_BYTES(bytes_of(p.at + 8, p.len - 8), bytes_of_str(why));
}

/* What a long message is packed to that is always the same, and a status for Fail. */
static void pack_long(size_t count, struct buf *packed)
{
    struct gzip *g = gzip_new();
    struct buf plain = {0};

    memset(buf_extend(&plain, count), 'z', count);
    memcpy(plain.at, "5 ", 2);
    gzip_pack(g, buf_bytes(&plain), packed);
    gzip_free(g);
    buf_free(&plain);
}

/* --- header blocks --- */

static void put_request_fields(struct buf *block)
{
    field_put(block, ":method", "POST");
    field_put(block, ":scheme", "http");
    field_put(block, ":path", "/test.Echo/Say");
    field_put(block, ":authority", "test");
    field_put(block, "content-type", "application/grpc");
}

TEST(a_field_that_is_named_without_end_is_not_looked_at_without_end)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf block = {0}, out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    put_request_fields(&block);
    field_put_repeated(&block, LARGE_VALUE_BYTES, 63000);
    frame_preface(&out);
    frame_put_block(&out, 0, 1, buf_bytes(&block));
    raw_send(&raw, buf_bytes(&out));
    raw_until_ended(&r, &raw);

    check_dismissed(&raw, "header list too large");
    CHECK(r.rpc->looked_bytes <= RPC_HEADER_BYTES_MAX);
    CHECK_EQ(r.messages, 0);
    raw_close(&r, &raw);
    buf_free(&block);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

/* The fields of a block whose stream is no more, or was never taken, stand in the table as well. */
TEST(fields_of_trailers_have_the_bound_of_a_header)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf block = {0}, out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    frame_preface(&out);
    frame_request(&out, 1, "/test.Echo/Chat", false, bytes_of(NULL, 0));
    field_put_repeated(&block, LARGE_VALUE_BYTES, RPC_HEADER_BYTES_MAX / LARGE_FIELD_BYTES);
    frame_put_block(&out, 1, 1, buf_bytes(&block));
    raw_send(&raw, buf_bytes(&out));
    rpc_rig_for_ms(&r, 300);

    CHECK_EQ(code_of(&raw, RST_STREAM, 0), PROTOCOL_ERROR);
    CHECK(r.rpc->looked_bytes <= RPC_HEADER_BYTES_MAX);
    raw_close(&r, &raw);
    buf_free(&block);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

/* Requests whose lists are as long as they may be, in a few bytes each. */
static void put_amplified_calls(struct buf *out, unsigned calls)
{
    enum { EACH = RPC_HEADER_BYTES_MAX / LARGE_FIELD_BYTES - 2 };
    struct buf block = {0}, message = {0};

    frame_preface(out);
    message_put(&message, BYTES("hello"));
    for (unsigned i = 0; i < calls; i++) {
        buf_clear(&block);
        put_request_fields(&block);
        if (i == 0)
            field_put_repeated(&block, LARGE_VALUE_BYTES, EACH);
        else
            memset(buf_extend(&block, EACH), INDEX_BYTE, EACH);
        frame_put_block(out, 0, 1 + 2 * i, buf_bytes(&block));
        frame_put(out, DATA, 1, 1 + 2 * i, buf_bytes(&message));
    }
    buf_free(&block);
    buf_free(&message);
}

/* Steps until so many calls were answered. The most bytes of fields that one turn has looked at. */
static uint64_t most_looked_at_in_a_turn(struct rpc_rig *r, unsigned calls)
{
    uint64_t most = 0;

    while (r->finished < calls) {
        uint64_t before = r->rpc->looked_bytes;
        CHECK(rpc_rig_step(r));
        uint64_t now = r->rpc->looked_bytes - before;
        most = now > most ? now : most;
    }
    return most;
}

TEST(a_turn_looks_at_so_many_fields_of_a_connection_and_the_next_at_others)
{
    enum { CALLS = 100 };
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    put_amplified_calls(&out, CALLS);
    CHECK(out.len < NET_READ_BYTES); /* one read */
    raw_send(&raw, buf_bytes(&out));
    uint64_t most = most_looked_at_in_a_turn(&r, CALLS);

    CHECK(most <= RPC_TURN_CONN_FIELD_BYTES + LARGE_FIELD_BYTES);
    CHECK(r.rpc->looked_bytes > (uint64_t)CALLS * RPC_HEADER_BYTES_MAX / 10 * 9); /* all of them */
    CHECK_EQ(r.messages, CALLS);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(count_frames(&raw, HEADERS), 2 * CALLS); /* a header and the trailers */
    raw_close(&r, &raw);
    buf_free(&out);
    rpc_rig_close(&r);
}

TEST(a_turn_looks_at_so_many_fields_whatever_the_number_of_connections)
{
    enum { CONNS = 40, CALLS = 20 };
    static struct raw raws[CONNS];
    struct rpc_rig r;
    struct buf out = {0};
    rpc_rig_open(&r, NULL);
    put_amplified_calls(&out, CALLS);
    for (unsigned i = 0; i < CONNS; i++) {
        raws[i] = (struct raw){0};
        raw_connect(&r, &raws[i]);
    }

    for (unsigned i = 0; i < CONNS; i++)
        raw_send(&raws[i], buf_bytes(&out));
    uint64_t most = most_looked_at_in_a_turn(&r, CONNS * CALLS);

    CHECK(most <= RPC_TURN_FIELD_BYTES +
                      (uint64_t)CONNS * (RPC_TURN_FIELD_BYTES_LEAST + LARGE_FIELD_BYTES));
    CHECK_EQ(r.messages, CONNS * CALLS);
    for (unsigned i = 0; i < CONNS; i++)
        raw_close(&r, &raws[i]);
    buf_free(&out);
    rpc_rig_close(&r);
}

/* GETs of a path that has to be encoded twice, and of which the table keeps it. */
static void put_redirected(struct buf *out, unsigned calls)
{
    struct buf block = {0}, path = {0}, field = {0};

    buf_append_str(&path, "//");
    memset(buf_extend(&path, LARGE_VALUE_BYTES - 2), '"', LARGE_VALUE_BYTES - 2);
    field_put(&field, ":path", buf_str(&path));
    field.at[0] = 0x40; /* to be kept */
    frame_preface(out);
    for (unsigned i = 0; i < calls; i++) {
        buf_clear(&block);
        field_put(&block, ":method", "GET");
        field_put(&block, ":scheme", "https");
        if (i == 0)
            buf_append(&block, buf_bytes(&field));
        else
            buf_append_byte(&block, INDEX_BYTE);
        frame_put_block(out, 1, 1 + 2 * i, buf_bytes(&block));
    }
    buf_free(&block);
    buf_free(&path);
    buf_free(&field);
}

/* And of what the client does not read so much is kept for it. */
TEST(what_a_path_becomes_counts_as_fields_do)
{
    enum { CALLS = 1000 };
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);
    struct rpc_conn *c = container_of(r.rpc->conns.prev, struct rpc_conn, link);
    c->info.tls = true; /* plain requests by HTTP/2 are by TLS only */

    put_redirected(&out, CALLS);
    CHECK(out.len < NET_READ_BYTES);
    raw_send(&raw, buf_bytes(&out));
    size_t most = 0, queued_most = 0;
    while (count_frames(&raw, RST_STREAM) == 0) {
        size_t before = c->queued;
        CHECK(rpc_rig_step(&r));
        most = c->queued > before + most ? c->queued - before : most;
        queued_most = c->queued > queued_most ? c->queued : queued_most;
    }

    CHECK(most > 0);
    CHECK(most <= RPC_TURN_CONN_FIELD_BYTES);
    CHECK(queued_most <= RPC_CONN_FIELDS_BYTES_MAX);
    CHECK_EQ(code_of(&raw, RST_STREAM, 0), REFUSED_STREAM);
    raw_close(&r, &raw);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.rpc->kept, 0);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

/* One field, one step of unpacking in a turn: what comes of the bytes is the same. */
static void got_by_turns_of(const struct turn_work *turn, struct bytes sent, struct buf *got)
{
    struct rpc_rig r;
    struct raw raw = {0};
    rpc_rig_open(&r, NULL);
    if (turn)
        r.rpc->turn = *turn;
    raw_connect(&r, &raw);

    raw_send(&raw, sent);
    rpc_rig_for_ms(&r, 1000);

    for (uint32_t stream = 1; stream < 16; stream += 2) {
        buf_printf(got, "%u\n", stream);
        fields_found(buf_bytes(&raw.got), stream, got);
    }
    raw_close(&r, &raw);
    rpc_rig_close(&r);
}

TEST(however_little_a_turn_looks_at_the_answers_are_the_same)
{
    struct buf out = {0}, block = {0}, filler = {0}, message = {0}, packed = {0};
    struct buf at_once = {0}, by_turns = {0};
    put_request_fields(&block);
    field_put(&block, "grpc-encoding", "gzip");
    memset(buf_extend(&filler, 500), 'f', 500);
    for (unsigned i = 0; i < 60; i++)
        field_put(&block, "x", buf_str(&filler)); /* in two frames */
    pack_long(100000, &packed);
    message_put(&message, buf_bytes(&packed));
    message.at[0] = 1;

    frame_preface(&out);
    frame_put_block(&out, 0, 1, buf_bytes(&block));
    frame_put(&out, DATA, 1, 1, buf_bytes(&message));
    frame_put_block(&out, 1, 3, buf_bytes(&block)); /* no message */
    frame_put_block(&out, 0, 5, buf_bytes(&block));
    frame_put(&out, DATA, 0, 5, buf_bytes(&message));
    frame_put_block(&out, 1, 5, BYTES("\0\7trailer\1x")); /* trailers */
    buf_clear(&block);
    field_put(&block, ":method", "GET");
    frame_put_block(&out, 1, 7, buf_bytes(&block)); /* malformed */
    frame_request(&out, 9, "/test.Echo/Fail", false, bytes_of(NULL, 0));
    frame_put(&out, DATA, 1, 9, BYTES("\0\0\0\0\5 7 no"));
    frame_request(&out, 11, "/nowhere", true, bytes_of(NULL, 0));
    got_by_turns_of(NULL, buf_bytes(&out), &at_once);
    got_by_turns_of(&(struct turn_work){1, 1, 1, 1, 1}, buf_bytes(&out), &by_turns);

    CHECK(strstr(buf_str(&at_once), "1\n:status: 200\n"));
    CHECK_STR(buf_str(&by_turns), buf_str(&at_once));
    buf_free(&out);
    buf_free(&block);
    buf_free(&filler);
    buf_free(&message);
    buf_free(&packed);
    buf_free(&at_once);
    buf_free(&by_turns);
}

TEST(a_client_may_leave_while_its_fields_wait_for_the_next_turn)
{
    struct rpc_rig r;
    struct buf out = {0};
    rpc_rig_open(&r, NULL);

    put_amplified_calls(&out, 100);
    for (unsigned i = 0; i < 20; i++) {
        struct raw raw = {0};
        raw_connect(&r, &raw);
        raw_send(&raw, buf_bytes(&out));
        for (unsigned steps = 0; steps < i; steps++)
            rpc_rig_step(&r);
        raw_close(&r, &raw);
    }

    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

/* --- how long they may be --- */

static void put_call(struct buf *out, unsigned fields, size_t value_bytes)
{
    struct buf block = {0}, value = {0}, message = {0};

    memset(buf_extend(&value, value_bytes), 'v', value_bytes);
    put_request_fields(&block);
    for (unsigned i = 0; i < fields; i++)
        field_put(&block, "token", buf_str(&value));
    message_put(&message, BYTES("hello"));
    frame_preface(out);
    frame_put_block(out, 0, 1, buf_bytes(&block));
    frame_put(out, DATA, 1, 1, buf_bytes(&message));
    buf_free(&block);
    buf_free(&value);
    buf_free(&message);
}

static void check_metadata_taken(struct rpc_rig *r, unsigned fields, size_t value_bytes)
{
    struct raw raw = {0};
    struct buf out = {0};
    unsigned before = r->messages;

    raw_connect(r, &raw);
    put_call(&out, fields, value_bytes);
    raw_send(&raw, buf_bytes(&out));
    rpc_rig_until(r, &r->messages, before + 1);
    raw_close(r, &raw);
    buf_free(&out);
}

TEST(metadata_may_be_long)
{
    struct rpc_rig r;
    rpc_rig_open(&r, NULL);

    check_metadata_taken(&r, 1, 64 * KIB);
    check_metadata_taken(&r, 10, 10 * 1000);
    check_metadata_taken(&r, 5, 50 * 1000);
    check_metadata_taken(&r, 1000, 200);

    check_others_are_served(&r);
    rpc_rig_close(&r);
}

/* nghttp2 unpacks no string that is longer. */
TEST(a_single_value_has_a_bound_of_its_own)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    put_call(&out, 1, 64 * KIB + 1);
    raw_send(&raw, buf_bytes(&out));
    raw_until_ended(&r, &raw);

    CHECK_EQ(code_of(&raw, GOAWAY, 4), COMPRESSION_ERROR);
    raw_close(&r, &raw);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

/* Chats that are never ended, with tokens: for each of them that many bytes stay. */
static void put_chats(struct buf *out, unsigned first, unsigned count, size_t token_bytes)
{
    struct buf fields = {0}, token = {0};

    memset(buf_extend(&token, token_bytes), 't', token_bytes);
    field_put(&fields, "token", buf_str(&token));
    field_put(&fields, "content-type", "application/grpc");
    for (unsigned i = first; i < first + count; i++) {
        struct buf block = {0};
        field_put(&block, ":method", "POST");
        field_put(&block, ":scheme", "http");
        field_put(&block, ":path", "/test.Echo/Chat");
        field_put(&block, ":authority", "test");
        buf_append(&block, buf_bytes(&fields));
        frame_put_block(out, 0, 1 + 2 * i, buf_bytes(&block));
        buf_free(&block);
    }
    buf_free(&fields);
    buf_free(&token);
}

TEST(fields_of_all_connections_share_a_budget_of_which_each_keeps_a_part)
{
    enum {
        TOKEN_BYTES = 60000,
        CALLS = 60,
        CONNS = RPC_FIELDS_BYTES_MAX / TOKEN_BYTES / CALLS + 2
    };
    static struct raw raws[CONNS];
    struct rpc_rig r;
    struct raw modest = {0};
    struct buf many = {0}, few = {0};
    rpc_rig_open(&r, NULL);
    r.unchecked = true;

    frame_preface(&many);
    put_chats(&many, 0, CALLS, TOKEN_BYTES);
    for (unsigned i = 0; i < CONNS; i++) {
        raws[i] = (struct raw){0};
        raw_connect(&r, &raws[i]);
        raw_send(&raws[i], buf_bytes(&many));
        rpc_rig_for_ms(&r, 100);
    }
    unsigned opened = r.opened;
    CHECK(opened < CONNS * CALLS);
    CHECK(r.rpc->kept <=
          RPC_FIELDS_BYTES_MAX + CONNS * (RPC_CONN_FIELDS_BYTES_LEAST + RPC_HEADER_BYTES_MAX));
    CHECK_EQ(code_of(&raws[CONNS - 1], RST_STREAM, 0), REFUSED_STREAM);
    frame_preface(&few);
    put_chats(&few, 0, 50, 500);
    raw_connect(&r, &modest);
    raw_send(&modest, buf_bytes(&few));
    rpc_rig_until(&r, &r.opened, opened + 50);

    for (unsigned i = 0; i < CONNS; i++)
        raw_close(&r, &raws[i]);
    raw_close(&r, &modest);
    check_others_are_served(&r);
    CHECK_EQ(r.rpc->kept, 0);
    buf_free(&many);
    buf_free(&few);
    rpc_rig_close(&r);
}

/* --- settings --- */

/* How many SETTINGS frames came back. With each that says a size nghttp2 goes through the streams.
 */
static unsigned settings_answered(unsigned streams, unsigned frames)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);
    r.unchecked = true;

    frame_preface(&out);
    for (unsigned i = 0; i < streams; i++)
        frame_request(&out, 1 + 2 * i, "/test.Echo/Chat", false, bytes_of(NULL, 0));
    raw_send(&raw, buf_bytes(&out));
    rpc_rig_until(&r, &r.opened, streams);
    buf_clear(&out);
    for (unsigned i = 0; i < frames; i++)
        frame_put(&out, SETTINGS, 0, 0, i % 2 ? BYTES("\0\4\0\1\0\0") : BYTES("\0\4\0\2\0\0"));
    raw_send(&raw, buf_bytes(&out));
    rpc_rig_for_ms(&r, 300);
    if (raw.ended + raw.closed > 0)
        check_dismissed(&raw, "too many resets");
    unsigned answered = count_frames(&raw, SETTINGS);
    raw_close(&r, &raw);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
    return answered;
}

TEST(new_sizes_of_windows_count_by_the_streams_they_are_for)
{
    enum { STREAMS = 8192, OURS = 2 }; /* our own, and the answer to the client's first */
    const unsigned each = 1 + STREAMS / RPC_CONTROL_FRAME_STREAMS;

    CHECK_EQ(settings_answered(10, 900), OURS + 900);
    CHECK_EQ(settings_answered(STREAMS, 100), OURS + 100);
    CHECK(settings_answered(STREAMS, 900) <= OURS + RPC_CONTROL_FRAMES_MAX / each);
}

/* --- packed messages --- */

/* So many calls, each with one packed message. */
static void put_packed_calls(struct buf *out, unsigned calls, const char *path, struct bytes packed)
{
    struct buf message = {0}, block = {0};

    field_put(&block, "content-type", "application/grpc");
    field_put(&block, "grpc-encoding", "gzip");
    message_put(&message, packed);
    message.at[0] = 1;
    frame_preface(out);
    for (unsigned i = 0; i < calls; i++) {
        frame_request(out, 1 + 2 * i, path, false, buf_bytes(&block));
        frame_put(out, DATA, 1, 1 + 2 * i, buf_bytes(&message));
    }
    buf_free(&message);
    buf_free(&block);
}

/* Steps until so many calls were answered; the most that was unpacked in a turn, and held at once.
 */
struct unpacking {
    uint64_t in_turn_most;
    size_t held_most;
};

static struct unpacking unpack_until(struct rpc_rig *r, const unsigned *count, unsigned want)
{
    struct unpacking u = {0};

    while (*count < want) {
        uint64_t before = r->rpc->unpacked_bytes;
        CHECK(rpc_rig_step(r));
        uint64_t now = r->rpc->unpacked_bytes - before;
        u.in_turn_most = now > u.in_turn_most ? now : u.in_turn_most;
        u.held_most = r->rpc->unpacked > u.held_most ? r->rpc->unpacked : u.held_most;
    }
    return u;
}

TEST(bombs_are_unpacked_in_turns_and_within_the_budget_of_their_connection)
{
    enum { CALLS = 60, PLAIN_BYTES = 2000000, SLACK_BYTES = 16 * KIB };
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf packed = {0}, out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    pack_long(PLAIN_BYTES, &packed);
    CHECK(packed.len < 2500);
    put_packed_calls(&out, CALLS, "/test.Echo/Hold", buf_bytes(&packed));
    raw_send(&raw, buf_bytes(&out));
    struct unpacking u = unpack_until(&r, &r.messages, 4);
    rpc_rig_for_ms(&r, 500);

    CHECK(u.in_turn_most <= RPC_TURN_UNPACKED_BYTES + SLACK_BYTES);
    CHECK(u.held_most <= RPC_CONN_BYTES_MAX);
    CHECK_EQ(r.messages, 4); /* the others wait until these are answered */
    CHECK_EQ(r.rpc->unpacked_bytes, 4 * PLAIN_BYTES);
    raw_close(&r, &raw);
    buf_free(&packed);
    buf_free(&out);
    check_others_are_served(&r);
    CHECK_EQ(r.rpc->unpacked, 0);
    rpc_rig_close(&r);
}

TEST(large_packed_messages_all_come_through_one_after_the_other)
{
    enum { CALLS = 40, PLAIN_BYTES = 2000000 };
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf packed = {0}, out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);
    r.unchecked = true;

    pack_long(PLAIN_BYTES, &packed);
    put_packed_calls(&out, CALLS, "/test.Echo/Fail", buf_bytes(&packed));
    raw_send(&raw, buf_bytes(&out));
    struct unpacking u = unpack_until(&r, &r.messages, CALLS);
    rpc_rig_for_ms(&r, 100);

    CHECK(u.held_most <= RPC_CONN_BYTES_MAX);
    CHECK_EQ(count_frames(&raw, HEADERS), CALLS);
    raw_close(&r, &raw);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.rpc->unpacked, 0);
    rpc_check(r.rpc);
    buf_free(&packed);
    buf_free(&out);
    rpc_rig_close(&r);
}

TEST(bombs_of_many_connections_share_a_budget)
{
    enum { CONNS = 12, CALLS = 6, PLAIN_BYTES = 2000000 };
    static struct raw raws[CONNS];
    struct rpc_rig r;
    struct buf packed = {0}, out = {0};
    rpc_rig_open(&r, NULL);

    pack_long(PLAIN_BYTES, &packed);
    put_packed_calls(&out, CALLS, "/test.Echo/Hold", buf_bytes(&packed));
    for (unsigned i = 0; i < CONNS; i++) {
        raws[i] = (struct raw){0};
        raw_connect(&r, &raws[i]);
        raw_send(&raws[i], buf_bytes(&out));
    }
    unsigned fit = RPC_UNPACKED_BYTES_MAX / PLAIN_BYTES - 1;
    struct unpacking u = unpack_until(&r, &r.messages, fit);
    rpc_rig_for_ms(&r, 500);

    CHECK(u.held_most <= RPC_UNPACKED_BYTES_MAX);
    CHECK(r.messages < CONNS * 4);
    raw_close(&r, &raws[0]); /* which leaves room for others */
    unpack_until(&r, &r.messages, fit + 3);
    for (unsigned i = 1; i < CONNS; i++)
        raw_close(&r, &raws[i]);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.rpc->unpacked, 0);
    CHECK(list_empty(&r.rpc->packed));
    buf_free(&packed);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

/* Nobody answers them, nor asks for less of them; but the budget of all is not theirs for ever. */
TEST(messages_that_are_held_for_long_count_for_their_own_connections_alone)
{
    enum { CONNS = 12, CALLS = 6, PLAIN_BYTES = 2000000 };
    static struct raw raws[CONNS];
    struct rpc_rig r;
    struct answer a;
    struct buf packed = {0}, out = {0};
    rpc_rig_open(&r, NULL);
    rpc_rig_connect(&r);
    pack_long(PLAIN_BYTES, &packed);
    put_packed_calls(&out, CALLS, "/test.Echo/Hold", buf_bytes(&packed));
    for (unsigned i = 0; i < CONNS; i++) {
        raws[i] = (struct raw){0};
        raw_connect(&r, &raws[i]);
        raw_send(&raws[i], buf_bytes(&out));
    }
    rpc_rig_for_ms(&r, 500);
    CHECK(r.rpc->unpacked > RPC_UNPACKED_BYTES_MAX - PLAIN_BYTES);

    uint64_t before = clock_now_ns(r.io->clock);
    rpc_rig_start(&r, &a, "Say", &(struct client_request){.gzip = true});
    client_send(a.call, BYTES("a word"));
    client_end(a.call);
    rpc_rig_until(&r, &a.ended, 1);
    CHECK_EQ(a.code, RPC_OK);
    CHECK(clock_now_ns(r.io->clock) - before <= (RPC_PATIENCE_MS + 1000) * NS_PER_MS);
    rpc_rig_for_ms(&r, 3 * RPC_PATIENCE_MS);

    CHECK_EQ(r.messages, CONNS * (RPC_CONN_BYTES_MAX / PLAIN_BYTES) + 1);
    for (unsigned i = 0; i < CONNS; i++)
        raw_close(&r, &raws[i]);
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.rpc->unpacked, 0);
    answer_free(&a);
    buf_free(&packed);
    buf_free(&out);
    rpc_rig_close(&r);
}

TEST(a_client_may_leave_while_its_message_is_being_unpacked)
{
    struct rpc_rig r;
    struct buf packed = {0}, out = {0};
    rpc_rig_open(&r, NULL);

    pack_long(2000000, &packed);
    put_packed_calls(&out, 3, "/test.Echo/Say", buf_bytes(&packed));
    for (unsigned i = 0; i < 20; i++) {
        struct raw raw = {0};
        raw_connect(&r, &raw);
        raw_send(&raw, buf_bytes(&out));
        for (unsigned steps = 0; steps < i; steps++)
            rpc_rig_step(&r);
        raw_close(&r, &raw);
    }

    CHECK(!r.rpc->unpacking);
    buf_free(&packed);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

/* What ends with it must not bring about a turn that nobody is there for. */
TEST(an_abandoned_server_leaves_packed_messages_alone)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf packed = {0}, out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);
    pack_long(2000000, &packed);
    put_packed_calls(&out, 6, "/test.Echo/Hold", buf_bytes(&packed));
    raw_send(&raw, buf_bytes(&out));
    while (!r.rpc->unpacking)
        CHECK(rpc_rig_step(&r));

    fake_wire_crash(r.io->net); /* a crash */
    inbox_init(r.io->inbox, NULL, NULL);
    rpc_abandon(r.rpc);

    CHECK(inbox_is_empty(r.io->inbox));
    _Exit(0); /* the world still points at what was freed, as it should not after a crash */
}
