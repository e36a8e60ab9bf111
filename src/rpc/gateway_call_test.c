/* Calls in JSON, against a core that says their own messages back. */
#include "base/mem.h"
#include "rpc/rpc_int.h"
#include "rpc/rpc_rig_test.h"

#include <stdio.h>
#include <string.h>

/* Twice that, which a body may have, is more than http takes in before it waits. */
enum { MAX_BYTES = 200 * KIB };

static void open_rig(struct rpc_rig *r, struct raw *raw)
{
    rpc_rig_open(r, &(struct rpc_options){.has_gateway = true, .message_bytes_max = MAX_BYTES});
    raw_connect(r, raw);
}

static void close_rig(struct rpc_rig *r, struct raw *raw)
{
    raw_close(r, raw);
    rpc_rig_for_ms(r, RPC_LINGER_MS + 1);
    CHECK_EQ(r->live, 0);
    rpc_rig_close(r);
}

static const char *say(struct rpc_rig *r, struct raw *raw, const char *text)
{
    buf_clear(&raw->got);
    raw_send(raw, bytes_of_str(text));
    rpc_rig_for_ms(r, 100);
    return buf_str(&raw->got);
}

#define DATE    "Date: Tue, 14 Nov 2023 22:13:20 GMT\r\n"
#define HEAD    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#define GRPC    "Grpc-Metadata-Content-Type: application/grpc\r\n"
#define ECHO    "POST /v3/maintenance/downgrade HTTP/1.1\r\nHost: x\r\n"
#define STREAM  "POST /v3/lease/keepalive HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"
#define NAMED                                                                                      \
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"                      \
    "X-Content-Type-Options: nosniff\r\n" DATE "Content-Length: 96\r\n\r\n"                        \
    "CommonName of client sending a request against gateway will be ignored and not used as "      \
    "expected\n"

TEST(calls_in_json_follow_one_another_on_a_connection)
{
    struct rpc_rig r;
    struct raw raw = {0};
    open_rig(&r, &raw);

    CHECK_STR(say(&r, &raw,
                  ECHO "Content-Length: 15\r\n\r\n{\"version\":\"a\"}" ECHO CHUNKED
                       "5\r\n{\"ver\r\na\r\nsion\":\"b\"}\r\n0\r\n\r\n" ECHO
                       "Content-Length: 1\r\n\r\nx"),
              HEAD GRPC DATE "Content-Length: 15\r\n\r\n{\"version\":\"a\"}" HEAD GRPC DATE
                             "Content-Length: 15\r\n\r\n{\"version\":\"b\"}"
                             "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n" DATE
                             "Content-Length: 75\r\n\r\n{\"code\":3,\"message\":\"invalid "
                             "character 'x' looking for beginning of value\"}");
    CHECK_EQ(r.messages, 2);
    CHECK_EQ(r.http, 0);
    CHECK(!raw.ended);
    close_rig(&r, &raw);
}

/* grpc-go's clients, of which etcd's gateway is one, keep for themselves what gRPC uses. */
TEST(a_call_in_json_cannot_ask_for_what_is_grpcs_own)
{
    struct rpc_rig r;
    struct raw raw = {0};
    open_rig(&r, &raw);

    CHECK_STR(say(&r, &raw,
                  ECHO "Grpc-Metadata-Grpc-Encoding: gzip\r\n"
                       "Content-Length: 15\r\n\r\n{\"version\":\"a\"}" ECHO
                       "Grpc-Metadata-Grpc-Timeout: x\r\n"
                       "Content-Length: 15\r\n\r\n{\"version\":\"b\"}"),
              HEAD GRPC DATE "Content-Length: 15\r\n\r\n{\"version\":\"a\"}" HEAD GRPC DATE
                             "Content-Length: 15\r\n\r\n{\"version\":\"b\"}");
    close_rig(&r, &raw);
}

TEST(a_websocket_is_not_asked_for_with_a_body)
{
    struct rpc_rig r;
    struct raw raw = {0};
    open_rig(&r, &raw);

    say(&r, &raw,
        "GET /v3/watch HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Content-Length: 6\r\n\r\n\x89\x80mask");
    CHECK(bytes_starts_with(buf_bytes(&raw.got), BYTES("HTTP/1.1 400 Bad Request\r\n")));
    close_rig(&r, &raw);
}

TEST(without_a_gateway_such_a_request_is_the_cores)
{
    struct rpc_rig r;
    struct raw raw = {0};
    rpc_rig_open(&r, NULL);
    raw_connect(&r, &raw);

    say(&r, &raw, ECHO "Content-Length: 2\r\n\r\n{}");

    CHECK_EQ(r.http, 1);
    CHECK_EQ(r.messages, 0);
    close_rig(&r, &raw);
}

/* Each is answered while the next has not come. */
TEST(requests_and_responses_of_a_stream_pass_each_other)
{
    struct rpc_rig r;
    struct raw raw = {0};
    open_rig(&r, &raw);

    CHECK_STR(say(&r, &raw, STREAM CHUNKED "2\r\n{}\r\n"),
              HEAD GRPC DATE CHUNKED "e\r\n{\"result\":{}}\n\r\n");
    CHECK_STR(say(&r, &raw, "8\r\n {} {} {\r\n"),
              "e\r\n{\"result\":{}}\n\r\ne\r\n{\"result\":{}}\n\r\n");
    CHECK_EQ(r.ends, 0);
    CHECK_STR(say(&r, &raw, "1\r\n}\r\n0\r\n\r\n"), "e\r\n{\"result\":{}}\n\r\n0\r\n\r\n");
    CHECK_EQ(r.opened, 1);
    CHECK_EQ(r.messages, 4);
    CHECK_EQ(r.ends, 1);
    CHECK_STR(say(&r, &raw, STREAM "Content-Length: 0\r\n\r\n"),
              "HTTP/1.1 200 OK\r\n" DATE CHUNKED "0\r\n\r\n");
    close_rig(&r, &raw);
}

/* The connection is kept; what else is asked on it is not the gateway's business. */
TEST(named_certificates_are_refused_while_names_are_users)
{
    struct rpc_rig r;
    struct raw raw = {0};
    atomic_bool names_are_users = true;
    rpc_rig_open(&r,
                 &(struct rpc_options){.has_gateway = true, .names_are_users = &names_are_users});
    raw_connect(&r, &raw);
    say(&r, &raw, ECHO "Content-Length: 2\r\n\r\n{}");
    CHECK_EQ(r.messages, 1); /* he has no certificate */
    struct rpc_conn *conn = container_of(r.rpc->conns.next, struct rpc_conn, link);
    conn->cn_len = strlen("alice");
    conn->info.cn = memcpy(mem_alloc(sizeof("alice")), "alice", sizeof("alice"));

    CHECK_STR(say(&r, &raw,
                  ECHO "Content-Length: 2\r\n\r\n{}"
                       "GET /v3/watch HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\n"
                       "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"),
              NAMED NAMED);
    CHECK_EQ(r.messages, 1);

    names_are_users = false;
    say(&r, &raw, ECHO "Content-Length: 2\r\n\r\n{}");
    CHECK_EQ(r.messages, 2);
    close_rig(&r, &raw);
}

TEST(who_leaves_while_he_is_served_is_told_of)
{
    struct rpc_rig r;
    struct raw raw = {0};
    open_rig(&r, &raw);

    say(&r, &raw, "POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
    CHECK_EQ(r.messages, 1);
    close_rig(&r, &raw);
    CHECK_EQ(r.gone, 1);

    /* Within a body nobody was called. */
    raw = (struct raw){0};
    open_rig(&r, &raw);
    say(&r, &raw, ECHO "Content-Length: 20\r\n\r\n{\"version\":");
    close_rig(&r, &raw);
    CHECK_EQ(r.messages, 0);
    CHECK_EQ(r.gone, 0);
}

/* The core has taken one request of a watch and not released it: the rest waits in the socket. */
TEST(requests_of_a_stream_wait_for_one_another)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf many = {0};
    rpc_rig_open(&r, &(struct rpc_options){.has_gateway = true});
    raw_connect(&r, &raw);

    say(&r, &raw, "POST /v3/watch HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n");
    for (unsigned i = 0; i < 4000; i++)
        buf_printf(&many, "{\"cancel_request\":{\"watch_id\":\"%u\"}}%900s", i, "");
    raw_send(&raw, buf_bytes(&many));
    rpc_rig_for_ms(&r, 1000);

    CHECK_EQ(r.opened, 1);
    CHECK_EQ(r.messages, 1);
    CHECK_EQ(r.gone, 0);
    CHECK(rpc_status(r.rpc).received_bytes < 1 * MIB);
    CHECK_EQ(raw.got.len, 0);
    buf_free(&many);
    raw_close(&r, &raw); /* which nobody hears who does not read */
    rpc_rig_close(&r);
}

TEST(a_request_in_json_has_its_largest_size)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf body = {0};
    open_rig(&r, &raw);

    /* As a message, and as a text. */
    for (unsigned length = 203 * KIB; length <= 406 * KIB; length *= 2) {
        buf_clear(&body);
        buf_printf(&body, ECHO "Content-Length: %u\r\n\r\n{\"version\":\"", length + 14);
        for (unsigned i = 0; i < length; i++)
            buf_append_byte(&body, 'x');
        buf_append_str(&body, "\"}");
        const char *got = say(&r, &raw, buf_str(&body));
        CHECK(strstr(got, " 429 Too Many Requests\r\n"));
        CHECK(strstr(got, length < 2 * MAX_BYTES
                              ? "{\"code\":8,\"message\":\"grpc: received message larger than max "
                                "(207876 vs. 204800)\"}"
                              : "{\"code\":8,\"message\":\"request body is too large\"}"));
    }
    CHECK_EQ(r.messages, 0);
    buf_free(&body);
    close_rig(&r, &raw);
}

/* A request whose text is long, for what nobody asks for, and says a version at its end. */
static void put_long_request(struct buf *out, size_t bytes)
{
    struct buf text = {0};

    buf_append_str(&text, "{\"x\":[");
    while (text.len < bytes)
        buf_append_str(&text, "{},");
    buf_append_str(&text, "{}],\"version\":\"at the end\"}");
    buf_printf(out, ECHO "Content-Length: %zu\r\n\r\n", text.len);
    buf_append(out, buf_bytes(&text));
    buf_free(&text);
}

TEST(a_long_request_in_json_is_read_in_parts)
{
    enum { BYTES = 390 * KIB, STRING_BYTES = 16 };
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf out = {0};
    uint64_t most = 0;
    open_rig(&r, &raw);

    put_long_request(&out, BYTES);
    raw_send(&raw, buf_bytes(&out));
    while (r.messages == 0) {
        uint64_t before = r.rpc->read_bytes;
        CHECK(rpc_rig_step(&r));
        uint64_t now = r.rpc->read_bytes - before;
        most = now > most ? now : most;
    }
    rpc_rig_for_ms(&r, 100);

    CHECK(most <= GATEWAY_TURN_BYTES + STRING_BYTES);
    CHECK(r.rpc->read_bytes > BYTES);
    CHECK_STR(buf_str(&raw.got),
              HEAD GRPC DATE "Content-Length: 24\r\n\r\n{\"version\":\"at the end\"}");
    buf_free(&out);
    close_rig(&r, &raw);
}

/* Together they are longer than a body may be that waits: the client feels it, and none is refused.
 */
TEST(long_requests_of_a_stream_follow_one_another)
{
    enum { REQUESTS = 20, BYTES = 100 * KIB };
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf text = {0}, out = {0};
    open_rig(&r, &raw);
    buf_append_str(&text, "{\"x\":[");
    while (text.len < BYTES)
        buf_append_str(&text, "{},");
    buf_append_str(&text, "{}]}\n");

    buf_printf(&out, STREAM "Content-Length: %zu\r\n\r\n", REQUESTS * text.len);
    for (unsigned i = 0; i < REQUESTS; i++)
        buf_append(&out, buf_bytes(&text));
    raw_send(&raw, buf_bytes(&out));
    rpc_rig_until(&r, &r.messages, REQUESTS);
    rpc_rig_for_ms(&r, 100);

    CHECK(!strstr(buf_str(&raw.got), "error"));
    buf_free(&text);
    buf_free(&out);
    close_rig(&r, &raw);
}

TEST(a_client_may_leave_while_its_long_request_is_read)
{
    for (unsigned steps = 0; steps < 30; steps++) {
        struct rpc_rig r;
        struct raw raw = {0};
        struct buf out = {0};
        open_rig(&r, &raw);
        put_long_request(&out, 390 * KIB);
        raw_send(&raw, buf_bytes(&out));
        while (r.rpc->read_bytes == 0)
            CHECK(rpc_rig_step(&r));
        for (unsigned i = 0; i < steps; i++)
            rpc_rig_step(&r);
        buf_free(&out);
        close_rig(&r, &raw);
    }
}

TEST(a_deadline_passes_in_json_too)
{
    struct rpc_rig r;
    struct raw raw = {0};
    open_rig(&r, &raw);

    CHECK_STR(say(&r, &raw,
                  "POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nGrpc-Timeout: 50m\r\n"
                  "Content-Length: 2\r\n\r\n{}"),
              "HTTP/1.1 504 Gateway Timeout\r\nContent-Type: application/json\r\n" DATE
              "Content-Length: 48\r\n\r\n{\"code\":4,\"message\":\"context deadline exceeded\"}");
    CHECK_EQ(r.gone, 1);
    close_rig(&r, &raw);
}

/* As grpc-gateway has it; one that has passed already is told so. */
TEST(a_deadline_in_json_of_nothing_is_none)
{
    static const char *const none[] = {"", "0S", "-0n", "2305843009213693952H"};
    struct rpc_rig r;
    struct raw raw = {0};
    struct arena arena = {0};
    open_rig(&r, &raw);

    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        CHECK_STR(say(&r, &raw,
                      arena_printf(&arena,
                                   ECHO "Grpc-Timeout: %s\r\n"
                                        "Content-Length: 15\r\n\r\n{\"version\":\"a\"}",
                                   none[i])),
                  HEAD GRPC DATE "Content-Length: 15\r\n\r\n{\"version\":\"a\"}");
    CHECK(strstr(say(&r, &raw, ECHO "Grpc-Timeout: -1n\r\nContent-Length: 2\r\n\r\n{}"),
                 "{\"code\":4,\"message\":\"context deadline exceeded\"}"));
    arena_free(&arena);
    close_rig(&r, &raw);
}

#define UPGRADE                                                                                    \
    "GET /v3/lease/keepalive HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

/* With a mask of nothing, content is as it was. */
TEST(a_websocket_carries_a_stream)
{
    struct rpc_rig r;
    struct raw raw = {0};
    open_rig(&r, &raw);

    CHECK_STR(say(&r, &raw, UPGRADE KEY "Sec-WebSocket-Version: 13\r\n\r\n"),
              "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
    CHECK_EQ(r.opened, 1);
    buf_clear(&raw.got);
    raw_send(&raw, BYTES("\x81\x86\0\0\0\0{} {} \x89\x82\0\0\0\0hi"));
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.messages, 2);
    CHECK_EQ(raw.got.len, 4 + 2 * 15);
    CHECK(memmem(raw.got.at, raw.got.len, "\x8a\x02hi", 4));
    CHECK(memmem(raw.got.at, raw.got.len, "\x81\x0d{\"result\":{}}", 15));

    /* His leave is taken, and the core hears of it. */
    buf_clear(&raw.got);
    raw_send(&raw, BYTES("\x88\x82\0\0\0\0\x03\xe8"));
    raw_until_ended(&r, &raw);
    CHECK_BYTES(buf_bytes(&raw.got), BYTES("\x88\x02\x03\xe8"));
    CHECK_EQ(r.gone, 1);
    close_rig(&r, &raw);
}

TEST(what_is_no_websocket_is_refused)
{
    static const struct {
        const char *request, *status;
    } pairs[] = {
        {UPGRADE KEY "\r\n", "HTTP/1.1 400 Bad Request\r\n"},
        {UPGRADE "Sec-WebSocket-Version: 13\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
        {"POST /v3/watch HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: "
         "websocket\r\n" KEY "Sec-WebSocket-Version: 13\r\n\r\n",
         "HTTP/1.1 405 Method Not Allowed\r\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct rpc_rig r;
        struct raw raw = {0};
        open_rig(&r, &raw);
        CHECK(bytes_starts_with(bytes_of_str(say(&r, &raw, pairs[i].request)),
                                bytes_of_str(pairs[i].status)));
        CHECK_EQ(r.opened, 0);
        close_rig(&r, &raw);
    }
}

TEST(a_websocket_that_breaks_the_rules_is_told_so)
{
    struct rpc_rig r;
    struct raw raw = {0};
    open_rig(&r, &raw);

    say(&r, &raw, UPGRADE KEY "Sec-WebSocket-Version: 13\r\n\r\n");
    buf_clear(&raw.got);
    raw_send(&raw, BYTES("\x81\x02{} and more"));
    raw_until_ended(&r, &raw);

    CHECK_BYTES(buf_bytes(&raw.got), BYTES("\x88\x02\x03\xea"));
    CHECK_EQ(r.gone, 1);
    CHECK_EQ(r.messages, 0);
    close_rig(&r, &raw);
}
