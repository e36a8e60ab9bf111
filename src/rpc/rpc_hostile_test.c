#include "rpc/rpc_rig_test.h"

#include "base/rng.h"
#include "rpc/rpc_int.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

/* Whatever a client sends, only its own connection suffers (rpc promise 4), and memory stays within
 * its bounds (promise 3). A good client asks in between and must be answered. */

enum {
    DATA = 0,
    HEADERS = 1,
    PRIORITY = 2,
    RST_STREAM = 3,
    SETTINGS = 4,
    PING = 6,
    GOAWAY = 7,
    WINDOW_UPDATE = 8,
    CONTINUATION = 9,
};

enum { PROTOCOL_ERROR = 1, FRAME_SIZE_ERROR = 6, REFUSED_STREAM = 7, ENHANCE_YOUR_CALM = 11 };

static void check_others_are_served(struct rpc_rig *r)
{
    struct answer a;

    if (!r->client)
        rpc_rig_connect(r);
    rpc_rig_ask(r, &a, "Say", BYTES("still there?"));
    CHECK_EQ(a.code, RPC_OK);
    answer_free(&a);
}

static uint32_t goaway_code(const struct raw *raw, struct bytes *why)
{
    uint32_t stream;
    struct bytes p;

    CHECK(frame_find(buf_bytes(&raw->got), GOAWAY, 0, &stream, &p));
    CHECK(p.len >= 8);
    *why = bytes_of(p.at + 8, p.len - 8);
    return (uint32_t)p.at[4] << 24 | (uint32_t)p.at[5] << 16 | (uint32_t)p.at[6] << 8 | p.at[7];
}

/* Sends, waits until nothing more comes, and hands back the fields of stream 1. */
static void exchange(struct rpc_rig *r, struct bytes sent, struct buf *fields)
{
    struct raw raw = {0};
    struct buf all = {0};

    frame_preface(&all);
    buf_append(&all, sent);
    raw_connect(r, &raw);
    raw_send(&raw, buf_bytes(&all));
    rpc_rig_for_ms(r, 300);
    fields_found(buf_bytes(&raw.got), 1, fields);
    raw_close(r, &raw);
    buf_free(&all);
}

static void check_refused(struct rpc_rig *r, struct bytes sent, const char *want)
{
    struct buf fields = {0};

    exchange(r, sent, &fields);
    CHECK_STR(buf_str(&fields), want);
    buf_free(&fields);
}

static void request_with(struct buf *out, const char *name, const char *value)
{
    struct buf more = {0};

    if (strcmp(name, "content-type") != 0)
        field_put(&more, "content-type", "application/grpc");
    field_put(&more, name, value);
    frame_request(out, 1, "/test.Echo/Say", false, buf_bytes(&more));
    buf_free(&more);
}

TEST(requests_that_are_not_grpc_are_refused_in_its_words)
{
    struct rpc_rig r;
    struct buf out = {0};
    rpc_rig_open(&r, NULL);

    request_with(&out, "content-type", "application/json");
    check_refused(&r, buf_bytes(&out),
                  ":status: 415\ncontent-type: application/grpc\ngrpc-status: 3\n"
                  "grpc-message: invalid gRPC request content-type \"application/json\"\n");
    buf_clear(&out);
    request_with(&out, "content-type", "application/grpcx");
    check_refused(&r, buf_bytes(&out),
                  ":status: 415\ncontent-type: application/grpc\ngrpc-status: 3\n"
                  "grpc-message: invalid gRPC request content-type \"application/grpcx\"\n");
    buf_clear(&out);
    request_with(&out, "grpc-timeout", "10x");
    check_refused(&r, buf_bytes(&out),
                  ":status: 400\ncontent-type: application/grpc\ngrpc-status: 13\n"
                  "grpc-message: malformed grpc-timeout: transport: timeout unit is not "
                  "recognized: \"10x\"\n");
    buf_clear(&out);
    request_with(&out, "grpc-timeout", "0S");
    check_refused(&r, buf_bytes(&out),
                  ":status: 200\ncontent-type: application/grpc\ngrpc-status: 4\n"
                  "grpc-message: context deadline exceeded\n");
    buf_clear(&out);
    request_with(&out, "grpc-encoding", "snappy");
    check_refused(&r, buf_bytes(&out),
                  ":status: 200\ncontent-type: application/grpc\ngrpc-status: 12\n"
                  "grpc-message: grpc: Decompressor is not installed for grpc-encoding "
                  "\"snappy\"\n");
    CHECK_EQ(r.messages, 0);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

TEST(a_get_is_not_a_call)
{
    struct rpc_rig r;
    struct buf fields = {0}, out = {0};
    rpc_rig_open(&r, NULL);

    field_put(&fields, ":method", "GET");
    field_put(&fields, ":scheme", "http");
    field_put(&fields, ":path", "/test.Echo/Say");
    field_put(&fields, ":authority", "test");
    field_put(&fields, "content-type", "application/grpc");
    frame_put(&out, HEADERS, 5, 1, buf_bytes(&fields));
    check_refused(&r, buf_bytes(&out),
                  ":status: 405\ncontent-type: application/grpc\ngrpc-status: 13\n"
                  "grpc-message: Received a HEADERS frame with :method \"GET\" which should be "
                  "POST\n");
    buf_free(&fields);
    buf_free(&out);
    rpc_rig_close(&r);
}

static void check_message_refused(struct rpc_rig *r, const char *method, struct bytes data,
                                  bool ends, const char *status)
{
    struct buf out = {0}, want = {0};
    char path[64];

    snprintf(path, sizeof(path), "/test.Echo/%s", method);
    frame_request(&out, 1, path, false, bytes_of(NULL, 0));
    frame_put(&out, DATA, ends, 1, data);
    buf_printf(&want, ":status: 200\ncontent-type: application/grpc\n%s\n", status);
    check_refused(r, buf_bytes(&out), buf_str(&want));
    buf_free(&out);
    buf_free(&want);
}

TEST(messages_that_make_no_sense_are_refused)
{
    struct rpc_rig r;
    rpc_rig_open(&r, NULL);

    check_message_refused(&r, "Say", BYTES("\0\xff\xff\xff\xff"), false,
                          "grpc-status: 8\ngrpc-message: grpc: received message larger than max "
                          "(4294967295 vs. 2097152)");
    check_message_refused(&r, "Chat", BYTES("\0\xff\xff\xff\xff"), false,
                          "grpc-status: 8\ngrpc-message: grpc: received message larger than max "
                          "(4294967295 vs. 2097152)");
    check_message_refused(&r, "Say", BYTES("\2\0\0\0\1x"), true,
                          "grpc-status: 13\ngrpc-message: grpc: received unexpected payload "
                          "format 2");
    check_message_refused(&r, "Say", BYTES("\1\0\0\0\1x"), true,
                          "grpc-status: 13\ngrpc-message: grpc: compressed flag set with "
                          "identity or empty encoding");
    check_message_refused(&r, "Say", BYTES(""), true, "grpc-status: 2\ngrpc-message: EOF");
    check_message_refused(&r, "Say", BYTES("\0\0\0\0\5abc"), true,
                          "grpc-status: 2\ngrpc-message: unexpected EOF");
    check_message_refused(&r, "Chat", BYTES("\0\0\0\0\5abc"), true,
                          "grpc-status: 13\ngrpc-message: unexpected EOF");
    check_message_refused(&r, "Chat", BYTES("\0\0\0"), true, "grpc-status: 0");
    CHECK_EQ(r.messages, 0);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

TEST(a_header_list_that_is_too_large_is_refused)
{
    struct rpc_rig r;
    struct buf fields = {0}, out = {0};
    rpc_rig_open(&r, NULL);

    frame_request(&fields, 1, "/test.Echo/Say", false, bytes_of(NULL, 0));
    buf_drop_front(&fields, 9);
    frame_put(&out, HEADERS, 0, 1, buf_bytes(&fields));
    for (unsigned i = 0; i < 18; i++) {
        buf_clear(&fields);
        while (fields.len < 15000)
            field_put(&fields, "x-filler", "0123456789012345678901234567890123456789");
        frame_put(&out, CONTINUATION, i == 17 ? 4 : 0, 1, buf_bytes(&fields));
    }
    check_refused(&r, buf_bytes(&out),
                  ":status: 431\ncontent-type: application/grpc\ngrpc-status: 8\n"
                  "grpc-message: header list larger than max 262144\n");
    buf_free(&fields);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

TEST(continuations_without_end_are_cut_off)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    frame_preface(&out);
    frame_put(&out, HEADERS, 0, 1, bytes_of(NULL, 0));
    for (unsigned i = 0; i < 1000; i++)
        frame_put(&out, CONTINUATION, 0, 1, bytes_of(NULL, 0));
    raw_send(&raw, buf_bytes(&out));
    raw_until_ended(&r, &raw);

    raw_close(&r, &raw);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

TEST(rapid_resets_end_the_connection)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct bytes why;
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);
    struct buf out = {0};

    frame_preface(&out);
    for (uint32_t id = 1; id < 80000 && !raw.ended && !raw.closed; id += 2) {
        frame_request(&out, id, "/test.Echo/Chat", false, bytes_of(NULL, 0));
        frame_put(&out, RST_STREAM, 0, id, BYTES("\0\0\0\x8"));
        if (out.len < 50000)
            continue;
        raw_send(&raw, buf_bytes(&out));
        buf_clear(&out);
        rpc_rig_step(&r);
    }
    raw_until_ended(&r, &raw);

    CHECK_EQ(goaway_code(&raw, &why), ENHANCE_YOUR_CALM);
    CHECK_BYTES(why, BYTES("too many resets"));
    raw_close(&r, &raw);
    buf_free(&out);
    check_others_are_served(&r);
    CHECK_EQ(r.live, 0);
    rpc_rig_close(&r);
}

/* A client that gives up a few thousand calls at once is not an enemy. */
TEST(a_burst_of_cancelled_calls_is_fine)
{
    struct rpc_rig r;
    struct answer a[3000];
    rpc_rig_open(&r, NULL);
    rpc_rig_connect(&r);

    for (unsigned i = 0; i < ARRAY_LEN(a); i++) {
        rpc_rig_start(&r, &a[i], "Hold", NULL);
        client_send(a[i].call, BYTES("x"));
    }
    rpc_rig_until(&r, &r.messages, ARRAY_LEN(a));
    for (unsigned i = 0; i < ARRAY_LEN(a); i++)
        client_cancel(a[i].call);
    rpc_rig_until(&r, &r.gone, ARRAY_LEN(a));

    check_others_are_served(&r);
    CHECK_EQ(r.client_gone, 0);
    rpc_rig_close(&r);
}

static void check_flood(uint8_t type, uint32_t stream, struct bytes payload)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    frame_preface(&out);
    frame_request(&out, 1, "/test.Echo/Chat", false, bytes_of(NULL, 0));
    for (unsigned i = 0; i < 60000 && !raw.ended && !raw.closed; i++) {
        frame_put(&out, type, 0, stream, payload);
        if (out.len < 50000)
            continue;
        raw_send(&raw, buf_bytes(&out));
        buf_clear(&out);
        rpc_rig_step(&r);
    }
    raw_until_ended(&r, &raw);

    raw_close(&r, &raw);
    buf_free(&out);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

TEST(floods_of_frames_without_use_end_the_connection)
{
    check_flood(SETTINGS, 0, bytes_of(NULL, 0));
    check_flood(PRIORITY, 1, BYTES("\0\0\0\0\x10"));
    check_flood(DATA, 1, bytes_of(NULL, 0));
    check_flood(PING, 0, BYTES("12345678"));
}

TEST(pings_more_often_than_agreed_end_the_connection)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0};
    struct bytes why;
    rpc_rig_open(&r, &(struct rpc_options){.keepalive_min_ms = 5000});
    raw_connect(&r, &raw);
    frame_preface(&out);
    frame_request(&out, 1, "/test.Echo/Chat", false, bytes_of(NULL, 0));
    raw_send(&raw, buf_bytes(&out));
    buf_clear(&out);
    frame_put(&out, PING, 0, 0, BYTES("12345678"));

    for (unsigned i = 0; i < 5; i++) { /* politely */
        raw_send(&raw, buf_bytes(&out));
        rpc_rig_for_ms(&r, 5100);
    }
    CHECK_EQ(raw.ended + raw.closed, 0);
    for (unsigned i = 0; i < 4; i++) {
        raw_send(&raw, buf_bytes(&out));
        rpc_rig_for_ms(&r, 1000);
    }
    raw_until_ended(&r, &raw);

    CHECK_EQ(goaway_code(&raw, &why), ENHANCE_YOUR_CALM);
    CHECK_BYTES(why, BYTES("too_many_pings"));
    raw_close(&r, &raw);
    buf_free(&out);
    rpc_rig_close(&r);
}

/* rpc promise 3: it asks for 100 gigabytes and reads nothing. */
TEST(a_client_that_never_reads_costs_little)
{
    struct rpc_rig r;
    struct raw raw = {.ignores_input = true};
    struct buf out = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);
    size_t before = mallinfo2().uordblks;

    frame_preface(&out);
    frame_put(&out, WINDOW_UPDATE, 0, 0, BYTES("\x7f\0\0\0"));
    frame_put(&out, SETTINGS, 0, 0, BYTES("\0\4\x7f\0\0\0")); /* windows of 2 GB */
    for (uint32_t id = 1; id < 2000; id += 2) {
        struct buf message = {0};
        message_put(&message, BYTES("100000000"));
        frame_request(&out, id, "/test.Echo/Body", false, bytes_of(NULL, 0));
        frame_put(&out, DATA, 1, id, buf_bytes(&message));
        buf_free(&message);
    }
    raw_send(&raw, buf_bytes(&out));
    rpc_rig_for_ms(&r, 5000);

    size_t used = mallinfo2().uordblks - before;
    CHECK(used < 10 * MIB);
    CHECK(r.messages > 100);
    check_others_are_served(&r);
    raw_close(&r, &raw);
    buf_free(&out);
    rpc_rig_close(&r);
}

/* However fast it was asked for: nghttp2 makes one DATA frame after the other if it is let. */
TEST(a_reply_that_is_not_read_leaves_little_behind)
{
    struct rpc_rig r;
    struct raw raw = {.ignores_input = true};
    struct buf out = {0}, message = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    frame_preface(&out);
    frame_put(&out, WINDOW_UPDATE, 0, 0, BYTES("\x7f\0\0\0"));
    frame_put(&out, SETTINGS, 0, 0, BYTES("\0\4\x7f\0\0\0"));
    message_put(&message, BYTES("100000000"));
    frame_request(&out, 1, "/test.Echo/Body", false, bytes_of(NULL, 0));
    frame_put(&out, DATA, 1, 1, buf_bytes(&message));
    raw_send(&raw, buf_bytes(&out));
    rpc_rig_for_ms(&r, 1000);

    const struct rpc_conn *conn = container_of(r.rpc->conns.next, struct rpc_conn, link);
    CHECK_EQ(r.rpc->conn_count, 1);
    CHECK(wire_is_blocked(&conn->wire));
    CHECK(conn->wire.waiting < 2 * WIRE_FRAME_BYTES);
    CHECK(conn->paused);
    raw_close(&r, &raw);
    buf_free(&out);
    buf_free(&message);
    rpc_rig_close(&r);
}

/* The window of the connection stays shut: replies wait in the calls, and then streams are refused.
 */
TEST(a_client_with_a_closed_window_is_refused_more_streams)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0}, message = {0};
    uint8_t content[60000] = {0};
    uint32_t stream;
    struct bytes payload;
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);
    message_put(&message, bytes_of(content, sizeof(content)));

    frame_preface(&out);
    raw_send(&raw, buf_bytes(&out));
    for (uint32_t id = 1; id < 600; id += 2) {
        buf_clear(&out);
        frame_request(&out, id, "/test.Echo/Say", false, bytes_of(NULL, 0));
        for (size_t at = 0; at < message.len; at += 16384)
            frame_put(
                &out, DATA, message.len - at <= 16384, id,
                bytes_of(message.at + at, message.len - at < 16384 ? message.len - at : 16384));
        raw_send(&raw, buf_bytes(&out));
        rpc_rig_for_ms(&r, 20);
    }

    CHECK(frame_find(buf_bytes(&raw.got), RST_STREAM, 0, &stream, &payload));
    CHECK_BYTES(payload, BYTES("\0\0\0\x7"));
    CHECK(stream > 2 * 8 * MIB / 61000);
    check_others_are_served(&r);
    raw_close(&r, &raw);
    buf_free(&out);
    buf_free(&message);
    rpc_rig_close(&r);
}

TEST(garbage_gets_an_answer_and_the_end)
{
    struct rpc_rig r;
    struct rng rng;
    rpc_rig_open(&r, NULL);
    rng_seed(&rng, test_seed());

    for (unsigned round = 0; round < 100; round++) {
        struct raw raw = {0};
        uint8_t garbage[200];
        for (size_t i = 0; i < sizeof(garbage); i++)
            garbage[i] = (uint8_t)rng_next(&rng);
        garbage[0] |= 0x80; /* no word of HTTP's */
        raw_connect(&r, &raw);
        raw_send(&raw, bytes_of(garbage, sizeof(garbage)));
        raw_until_ended(&r, &raw);
        CHECK(bytes_starts_with(buf_bytes(&raw.got), BYTES("HTTP/1.1 400 Bad Request\r\n")));
        raw_close(&r, &raw);
    }
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

TEST(who_says_nothing_is_let_go)
{
    static const char *const starts[] = {"", "P", "PRI * HTTP/2.0\r\n\r\nSM", "GET / HT",
                                         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"};
    struct rpc_rig r;
    rpc_rig_open(&r, NULL);

    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        struct raw raw = {0};
        raw_connect(&r, &raw);
        raw_send(&raw, bytes_of_str(starts[i]));
        rpc_rig_for_ms(&r, 4 * 60 * 1000);
        CHECK_EQ(raw.ended + raw.closed, 0);
        rpc_rig_for_ms(&r, 61 * 1000);
        CHECK(raw.ended + raw.closed > 0);
        raw_close(&r, &raw);
    }
    rpc_rig_for_ms(&r, 1100);
    CHECK_EQ(rpc_status(r.rpc).conns, 0);
    rpc_rig_close(&r);
}

/* Two streams: the first may send what it likes, the second nothing, and is over in a second. */
static void open_two_streams(struct rpc_rig *r, struct raw *raw)
{
    struct buf out = {0}, more = {0};

    buf_append_str(&out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frame_put(&out, SETTINGS, 0, 0, BYTES("\0\4\0\0\0\0")); /* INITIAL_WINDOW_SIZE */
    frame_put(&out, WINDOW_UPDATE, 0, 0, BYTES("\0\xff\xff\xff"));
    frame_request(&out, 1, "/test.Echo/Deaf", false, bytes_of(NULL, 0));
    frame_put(&out, WINDOW_UPDATE, 0, 1, BYTES("\0\xff\xff\xff"));
    field_put(&more, "content-type", "application/grpc");
    field_put(&more, "grpc-timeout", "1S");
    frame_request(&out, 3, "/test.Echo/Deaf", false, buf_bytes(&more));
    raw_send(raw, buf_bytes(&out));
    rpc_rig_until(r, &r->opened, 2);
    buf_free(&out);
    buf_free(&more);
}

static void send_messages(struct rpc_rig *r, uint64_t call, unsigned count, size_t bytes)
{
    for (unsigned i = 0; i < count; i++) {
        struct buf message = {0};
        memset(buf_extend(&message, bytes), 'x', bytes);
        rpc_line_send(r->line, call, &message);
        rpc_rig_serve(r);
    }
}

/* So much is queued that credit is withheld; and while it is, the core breaks the stream off, which
 * the client, who does not read, cannot be told. */
/* --- half requests, and the place that a connection has --- */

enum { PROVED = ADMISSION_PROVED, BUSY = ADMISSION_PROVED | ADMISSION_BUSY };

static struct rpc_conn *newest_conn(struct rpc_rig *r)
{
    return container_of(r->rpc->conns.prev, struct rpc_conn, link);
}

/* Sends, and empties `out`. What is known of the newest connection then. */
static unsigned state_after(struct rpc_rig *r, struct raw *raw, struct buf *out)
{
    raw_send(raw, buf_bytes(out));
    rpc_rig_for_ms(r, 100);
    buf_clear(out);
    return newest_conn(r)->conn->admission->state;
}

static void put_call_head(struct buf *out, uint32_t stream, const char *path)
{
    struct buf fields = {0};

    field_put(&fields, "content-type", "application/grpc");
    frame_request(out, stream, path, false, buf_bytes(&fields));
    buf_free(&fields);
}

TEST(half_a_call_proves_nothing_and_keeps_no_place)
{
    static const char *const paths[] = {"/test.Echo/Hold", "/test.Echo/Chat"};
    struct rpc_rig r;
    struct buf out = {0};
    rpc_rig_open(&r, NULL);

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct raw raw = {0};
        raw_connect(&r, &raw);
        frame_preface(&out);
        put_call_head(&out, 1, paths[i]);
        CHECK_EQ(state_after(&r, &raw, &out), 0);
        frame_put(&out, DATA, 0, 1, BYTES("\0\0\0\0\5hel"));
        CHECK_EQ(state_after(&r, &raw, &out), 0);
        frame_put(&out, DATA, 0, 1, BYTES("lo"));
        CHECK_EQ(state_after(&r, &raw, &out), BUSY);

        /* Another one, of which the first half is all, does not keep the place of the first. */
        put_call_head(&out, 3, paths[i]);
        CHECK_EQ(state_after(&r, &raw, &out), BUSY);
        frame_put(&out, RST_STREAM, 0, 1, BYTES("\0\0\0\x08"));
        CHECK_EQ(state_after(&r, &raw, &out), PROVED);
        raw_close(&r, &raw);
    }
    buf_free(&out);
    rpc_rig_close(&r);
}

/* Plain requests, on HTTP/2 and in HTTP/1.1, and one that the gateway reads as it comes. */
TEST(half_a_plain_request_keeps_no_place)
{
    struct rpc_rig r;
    struct raw secure = {0}, plain = {0};
    struct buf out = {0}, fields = {0};
    rpc_rig_open(&r, &(struct rpc_options){.has_gateway = true});

    raw_connect(&r, &secure);
    newest_conn(&r)->info.tls = true;
    frame_preface(&out);
    field_put(&fields, ":method", "POST");
    field_put(&fields, ":scheme", "https");
    field_put(&fields, ":path", "/hold");
    frame_put_block(&out, 0, 1, buf_bytes(&fields));
    CHECK_EQ(state_after(&r, &secure, &out), 0);
    frame_put(&out, DATA, 1, 1, BYTES("all"));
    CHECK_EQ(state_after(&r, &secure, &out), BUSY);
    frame_put_block(&out, 0, 3, buf_bytes(&fields));
    frame_put(&out, RST_STREAM, 0, 1, BYTES("\0\0\0\x08"));
    CHECK_EQ(state_after(&r, &secure, &out), PROVED);
    raw_close(&r, &secure);

    raw_connect(&r, &plain);
    buf_append_str(
        &out, "POST /v3/maintenance/downgrade HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n{");
    CHECK_EQ(state_after(&r, &plain, &out), 0);
    buf_append_str(&out, "}");
    CHECK_EQ(state_after(&r, &plain, &out), 0);
    buf_append_str(&out, " GET /version HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK_EQ(state_after(&r, &plain, &out), PROVED);
    buf_append_str(&out, "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n");
    CHECK_EQ(state_after(&r, &plain, &out), PROVED);
    buf_append_str(&out, "x");
    CHECK_EQ(state_after(&r, &plain, &out), BUSY);
    raw_close(&r, &plain);
    buf_free(&out);
    buf_free(&fields);
    rpc_rig_close(&r);
}

/* A HEADERS frame of a unary call, without a body or a deadline, in the only place there is. */
TEST(a_call_without_a_body_leaves_its_place_to_a_newcomer)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0};
    rpc_rig_open(&r, &(struct rpc_options){.conns_max = 1});
    raw_connect(&r, &raw);
    frame_preface(&out);
    put_call_head(&out, 1, "/test.Echo/Say");
    raw_send(&raw, buf_bytes(&out));
    rpc_rig_for_ms(&r, 100);
    uint64_t began_ns = clock_now_ns(r.io->clock);

    check_others_are_served(&r);

    CHECK(clock_now_ns(r.io->clock) - began_ns < 4 * NET_PATIENCE_MS * NS_PER_MS);
    CHECK(raw.ended + raw.closed > 0);
    raw_close(&r, &raw);
    buf_free(&out);
    rpc_rig_close(&r);
}

TEST(a_stream_that_is_broken_off_gets_no_credit_back)
{
    struct rpc_rig r;
    struct raw raw = {.ignores_input = true};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);
    struct rpc_conn *c = container_of(r.rpc->conns.next, struct rpc_conn, link);
    open_two_streams(&r, &raw);
    uint64_t broken = container_of(c->calls.next, struct call, link)->id;
    uint64_t silent = container_of(c->calls.prev, struct call, link)->id;
    send_messages(&r, silent, RPC_CONN_BYTES_MAX / MIB, MIB);
    send_messages(&r, broken, 20, 10 * KIB);
    CHECK(!list_empty(&c->withheld));
    CHECK(wire_is_blocked(&c->wire));

    rpc_line_break(r.line, broken);
    r.live--; /* for the core that is its end */
    rpc_rig_serve(&r);
    CHECK_EQ(c->call_count, 2);
    rpc_rig_for_ms(&r, 1100); /* the other's deadline passes, and less is queued */

    CHECK(c->queued < RPC_CONN_BYTES_MAX);
    CHECK_EQ(r.gone, 1);
    check_others_are_served(&r);
    raw_close(&r, &raw);
    rpc_rig_close(&r);
}

/* A unary call, a stream, a long reply and some settings. */
static void a_conversation(struct buf *out)
{
    struct buf message = {0};

    frame_preface(out);
    message_put(&message, BYTES("hello"));
    frame_request(out, 1, "/test.Echo/Say", false, bytes_of(NULL, 0));
    frame_put(out, DATA, 1, 1, buf_bytes(&message));
    frame_request(out, 3, "/test.Echo/Chat", false, bytes_of(NULL, 0));
    frame_put(out, DATA, 0, 3, buf_bytes(&message));
    frame_put(out, DATA, 0, 3, buf_bytes(&message));
    buf_clear(&message);
    message_put(&message, BYTES("200000"));
    frame_request(out, 5, "/test.Echo/Body", false, bytes_of(NULL, 0));
    frame_put(out, DATA, 1, 5, buf_bytes(&message));
    frame_put(out, WINDOW_UPDATE, 0, 0, BYTES("\0\0\xff\xff"));
    frame_request(out, 7, "/test.Echo/Pull", true, bytes_of(NULL, 0));
    frame_put(out, DATA, 1, 3, bytes_of(NULL, 0));
    buf_free(&message);
}

static void cut_after(struct rpc_rig *r, struct bytes all, size_t len, uint64_t wait_ms)
{
    struct raw raw = {0};

    raw_connect(r, &raw);
    raw_send(&raw, bytes_of(all.at, len));
    rpc_rig_for_ms(r, wait_ms);
    if (raw.conn && len % 2)
        fake_wire_reset(raw.conn);
    raw_close(r, &raw);
    rpc_rig_for_ms(r, 1100); /* a plain client may have shut down its side alone */
    CHECK_EQ(r->live, 0);
    CHECK_EQ(r->bodies_open, 0);
    CHECK_EQ(rpc_status(r->rpc).conns, 0);
    CHECK_EQ(rpc_status(r->rpc).calls, 0);
}

TEST(a_client_may_leave_after_any_byte)
{
    struct rpc_rig r;
    struct buf all = {0};
    rpc_rig_open(&r, NULL);
    a_conversation(&all);

    for (size_t len = 0; len <= all.len; len++)
        cut_after(&r, buf_bytes(&all), len, len % 5 * 8);

    CHECK(r.finished > 0);
    CHECK(r.gone > 0);
    check_others_are_served(&r);
    buf_free(&all);
    rpc_rig_close(&r);
}

TEST(a_plain_client_may_leave_after_any_byte)
{
    struct rpc_rig r;
    struct bytes all = BYTES("POST /put HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
                             "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
                             "GET /never HTTP/1.1\r\n");
    rpc_rig_open(&r, NULL);

    for (size_t len = 0; len <= all.len; len++)
        cut_after(&r, all, len, len % 5 * 8);

    CHECK(r.http > 0);
    check_others_are_served(&r);
    rpc_rig_close(&r);
}

TEST(ten_thousand_idle_connections_cost_what_they_must)
{
    enum { CONNS = 10000 };
    struct rpc_rig r;
    struct buf out = {0};
    unsigned closed = 0;
    rpc_rig_open(&r, NULL);
    r.unchecked = true; /* a check looks at all of them */
    frame_preface(&out);
    struct raw *raw = mem_new_array(CONNS, struct raw);
    size_t before = mallinfo2().uordblks;

    for (unsigned i = 0; i < CONNS; i++) {
        raw_connect_soon(&r, &raw[i]);
        raw_send(&raw[i], buf_bytes(&out));
    }
    rpc_rig_for_ms(&r, 1000);
    CHECK_EQ(rpc_status(r.rpc).conns, CONNS);
    CHECK((mallinfo2().uordblks - before) / CONNS < 40 * KIB); /* both ends, and the wire */
    rpc_check(r.rpc);
    check_others_are_served(&r);
    for (unsigned i = 0; i < CONNS; i++)
        conn_close(raw[i].conn, ERR_OK);
    rpc_rig_for_ms(&r, 1000);

    CHECK_EQ(rpc_status(r.rpc).conns, 1);
    for (unsigned i = 0; i < CONNS; i++) {
        closed += raw[i].closed;
        buf_free(&raw[i].got);
    }
    CHECK_EQ(closed, CONNS);
    mem_free(raw);
    buf_free(&out);
    rpc_rig_close(&r);
}
