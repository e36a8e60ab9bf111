/* Calls in JSON on streams of HTTP/2, by hand, against a core that says their messages back. */
#include "rpc/rpc_rig_test.h"

#include "rpc/rpc_int.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, WINDOW_UPDATE = 8 };
enum { END_STREAM = 1 };

#define DATE   "date: Tue, 14 Nov 2023 22:13:20 GMT\n"
#define ECHO   "/v3/maintenance/downgrade"
#define STREAM "/v3/lease/keepalive"
#define VALUE  "/v3/kv/deleterange"

static struct rpc_conn *connect_by(struct rpc_rig *r, struct raw *raw, bool tls,
                                   enum rpc_serves serves)
{
    raw_connect(r, raw);
    struct rpc_conn *c = container_of(r->rpc->conns.prev, struct rpc_conn, link);
    c->info.tls = tls; /* the fake net has none: it is told */
    c->serves = serves;
    return c;
}

static struct rpc_conn *open_rig(struct rpc_rig *r, struct raw *raw)
{
    rpc_rig_open(r, &(struct rpc_options){.has_gateway = true});
    return connect_by(r, raw, true, RPC_SERVES_ALL);
}

static void close_rig(struct rpc_rig *r, struct raw *raw)
{
    raw_close(r, raw);
    rpc_rig_for_ms(r, RPC_LINGER_MS + 1);
    CHECK_EQ(r->live, 0);
    rpc_rig_close(r);
}

static void put_request(struct buf *out, uint32_t stream, const char *verb, const char *path,
                        const char *name, const char *value)
{
    struct buf fields = {0};

    field_put(&fields, ":method", verb);
    field_put(&fields, ":scheme", "https");
    field_put(&fields, ":authority", "a.example");
    field_put(&fields, ":path", path);
    field_put(&fields, "token", "of the stream alone");
    if (name)
        field_put(&fields, name, value);
    frame_put(out, HEADERS, 4, stream, buf_bytes(&fields));
    buf_free(&fields);
}

static void put_data(struct buf *out, uint32_t stream, const char *text, bool ends)
{
    frame_put(out, DATA, ends, stream, bytes_of_str(text));
}

/* What the stream's response is so far: its fields, and its body. */
static const char *response(const struct raw *raw, uint32_t stream, struct buf *out)
{
    struct bytes piece;
    uint32_t of;

    buf_clear(out);
    fields_found(buf_bytes(&raw->got), stream, out);
    for (unsigned i = 0; frame_find(buf_bytes(&raw->got), DATA, i, &of, &piece); i++)
        if (of == stream)
            buf_append(out, piece);
    return buf_str(out);
}

static void send_for(struct rpc_rig *r, struct raw *raw, struct buf *sent)
{
    raw_send(raw, buf_bytes(sent));
    buf_clear(sent);
    rpc_rig_for_ms(r, 100);
    rpc_check(r->rpc);
}

TEST(calls_in_json_share_a_connection_of_http2)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf sent = {0}, got = {0};
    open_rig(&r, &raw);

    frame_preface(&sent);
    put_request(&sent, 1, "POST", ECHO, NULL, NULL);
    put_request(&sent, 3, "POST", ECHO "?x=y", NULL, NULL);
    put_data(&sent, 3, "{\"version\":\"b\"}", true);
    put_data(&sent, 1, "{\"ver", false);
    put_request(&sent, 5, "POST", ECHO, NULL, NULL);
    put_data(&sent, 5, "x", true);
    put_data(&sent, 1, "sion\":\"a\"}", true);
    put_request(&sent, 7, "GET", ECHO, NULL, NULL);
    put_data(&sent, 7, "", true);
    put_request(&sent, 9, "POST", "/v3/nowhere", NULL, NULL);
    put_data(&sent, 9, "{}", true);
    send_for(&r, &raw, &sent);

    CHECK_STR(response(&raw, 1, &got),
              ":status: 200\ncontent-length: 15\ncontent-type: application/json\n"
              "grpc-metadata-content-type: application/grpc\n" DATE "{\"version\":\"a\"}");
    CHECK(strstr(response(&raw, 3, &got), "\n{\"version\":\"b\"}"));
    CHECK_STR(response(&raw, 5, &got),
              ":status: 400\ncontent-length: 75\ncontent-type: application/json\n" DATE
              "{\"code\":3,\"message\":\"invalid character 'x' looking for beginning of value\"}");
    CHECK(strstr(response(&raw, 7, &got), "\n{\"code\":12,\"message\":\"Method Not Allowed\"}"));
    CHECK(strstr(response(&raw, 9, &got), "\n{\"code\":5,\"message\":\"Not Found\"}"));
    CHECK_EQ(r.messages, 2);
    CHECK_EQ(r.http, 0);
    buf_free(&sent);
    buf_free(&got);
    close_rig(&r, &raw);
}

/* Each is answered while the next has not come; and when the client has said all, we have. */
TEST(a_stream_of_http2_carries_a_stream_in_json)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf sent = {0}, got = {0};
    open_rig(&r, &raw);

    frame_preface(&sent);
    put_request(&sent, 1, "POST", STREAM, NULL, NULL);
    put_data(&sent, 1, "{}", false);
    send_for(&r, &raw, &sent);
    CHECK_STR(response(&raw, 1, &got),
              ":status: 200\ncontent-type: application/json\n"
              "grpc-metadata-content-type: application/grpc\n" DATE "{\"result\":{}}\n");
    put_data(&sent, 1, " {} {} {", false);
    send_for(&r, &raw, &sent);
    CHECK(strstr(response(&raw, 1, &got), "{\"result\":{}}\n{\"result\":{}}\n{\"result\":{}}\n"));
    CHECK_EQ(r.ends, 0);
    put_data(&sent, 1, "}", true);
    send_for(&r, &raw, &sent);

    CHECK_EQ(r.opened, 1);
    CHECK_EQ(r.messages, 4);
    CHECK_EQ(r.ends, 1);
    CHECK_EQ(rpc_status(r.rpc).calls, 0);
    buf_free(&sent);
    buf_free(&got);
    close_rig(&r, &raw);
}

/* What is a call's comes from the fields that the gateway knows, and from no other. */
TEST(a_deadline_passes_in_json_on_http2)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf sent = {0}, got = {0};
    open_rig(&r, &raw);

    frame_preface(&sent);
    put_request(&sent, 1, "POST", "/v3/kv/range", "grpc-timeout", "50m");
    put_data(&sent, 1, "{}", true);
    put_request(&sent, 3, "POST", ECHO, "grpc-timeout", "never");
    put_data(&sent, 3, "{}", true);
    send_for(&r, &raw, &sent);

    CHECK(strstr(response(&raw, 1, &got), ":status: 504\n"));
    CHECK(strstr(buf_str(&got), "{\"code\":4,\"message\":\"context deadline exceeded\"}"));
    CHECK(strstr(response(&raw, 3, &got),
                 "{\"code\":3,\"message\":\"invalid grpc-timeout: never\"}"));
    CHECK_EQ(r.gone, 1);
    buf_free(&sent);
    buf_free(&got);
    close_rig(&r, &raw);
}

/* A client with a small window gets what fits, and what is left when it opens. */
TEST(a_response_in_json_waits_for_the_window)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf sent = {0}, got = {0};
    open_rig(&r, &raw);

    buf_append_str(&sent, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frame_put(&sent, SETTINGS, 0, 0, BYTES("\0\4\0\0\0\5")); /* INITIAL_WINDOW_SIZE */
    put_request(&sent, 1, "POST", STREAM, NULL, NULL);
    put_data(&sent, 1, "{}{}", true);
    send_for(&r, &raw, &sent);
    response(&raw, 1, &got);
    CHECK(strstr(buf_str(&got), DATE "{\"res"));
    CHECK_EQ(strlen(strstr(buf_str(&got), "{\"res")), 5);

    for (unsigned i = 0; i < 6; i++) {
        frame_put(&sent, WINDOW_UPDATE, 0, 1, BYTES("\0\0\0\5"));
        send_for(&r, &raw, &sent);
    }
    CHECK(strstr(response(&raw, 1, &got), "\n{\"result\":{}}\n{\"result\":{}}\n"));
    CHECK_EQ(rpc_status(r.rpc).calls, 0);
    buf_free(&sent);
    buf_free(&got);
    close_rig(&r, &raw);
}

/* Bodies that are not whole are held, but no more of them than a connection may have. */
TEST(bodies_in_json_share_the_budget_of_a_connection)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf sent = {0}, got = {0};
    uint8_t piece[16000];
    struct rpc_conn *c = open_rig(&r, &raw);
    memset(piece, ' ', sizeof(piece));
    frame_preface(&sent);
    raw_send(&raw, buf_bytes(&sent));
    buf_clear(&sent);

    unsigned refused = 0;
    for (uint32_t stream = 1; stream < 100 && refused == 0; stream += 2) {
        put_request(&sent, stream, "POST", ECHO, NULL, NULL);
        for (unsigned i = 0; i < 60; i++) {
            frame_put(&sent, DATA, 0, stream, bytes_of(piece, sizeof(piece)));
            if (i % 3 == 2)
                send_for(&r, &raw, &sent); /* the windows open again */
        }
        CHECK(c->held <= RPC_CONN_BYTES_MAX);
        response(&raw, stream, &got);
        refused += strstr(buf_str(&got), "request body is too large") != NULL;
    }

    CHECK_EQ(refused, 1);
    CHECK_EQ(r.messages, 0);
    buf_free(&sent);
    buf_free(&got);
    close_rig(&r, &raw);
}

enum { MANY = 400 };

/* Many ask for a long response each, by their heads alone at first: by then nothing is queued. */
static void ask_for_values(struct rpc_rig *r, struct raw *raw)
{
    struct buf sent = {0};

    for (uint32_t i = 0; i < MANY; i++)
        put_request(&sent, 2 * i + 1, "POST", VALUE, NULL, NULL);
    send_for(r, raw, &sent);
    for (uint32_t i = 0; i < MANY; i++)
        put_data(&sent, 2 * i + 1, "{}", true);
    send_for(r, raw, &sent);
    buf_free(&sent);
}

/* All of them come to their end, however many wait for one another meanwhile. */
static void check_values(struct rpc_rig *r, const struct raw *raw)
{
    static const char head[] = "{\"prev_kvs\":[{\"value\":\"", tail[] = "\"}]}";
    size_t text = strlen(head) + (r->value_bytes + 2) / 3 * 4 + strlen(tail);
    size_t body[MANY] = {0};

    for (unsigned steps = 0; rpc_status(r->rpc).calls > 0; steps++) {
        CHECK(steps < 1000 * 1000);
        CHECK(rpc_rig_step(r));
    }
    rpc_rig_for_ms(r, 1000); /* for what is under way */
    for (struct bytes rest = buf_bytes(&raw->got); rest.len >= 9;) {
        size_t len = (size_t)rest.at[0] << 16 | (size_t)rest.at[1] << 8 | rest.at[2];
        size_t stream = (size_t)rest.at[7] << 8 | rest.at[8];
        if (rest.at[3] == DATA)
            body[stream / 2] += len;
        rest = bytes_of(rest.at + 9 + len, rest.len - 9 - len);
    }
    for (unsigned i = 0; i < MANY; i++)
        CHECK_EQ(body[i], text);
}

/* Text that a client has no windows for stays here, but no more than a connection may have; and
 * when they open, each of them goes on. */
TEST(responses_in_json_share_the_budget_of_a_connection)
{
    static const size_t sizes[] = {40 * 1000, 100 * 1000};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct rpc_rig r;
        struct raw raw = {0};
        struct buf sent = {0};
        struct rpc_conn *c = open_rig(&r, &raw);
        r.value_bytes = sizes[i];
        buf_append_str(&sent, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        frame_put(&sent, SETTINGS, 0, 0, BYTES("\0\4\0\0\0\0")); /* INITIAL_WINDOW_SIZE */
        send_for(&r, &raw, &sent);
        size_t before = mallinfo2().uordblks;

        ask_for_values(&r, &raw);
        rpc_rig_for_ms(&r, 5000);
        CHECK(c->queued > RPC_CONN_BYTES_MAX / 2);
        CHECK(c->queued < RPC_CONN_BYTES_MAX + MIB);
        CHECK(mallinfo2().uordblks - before < 2 * RPC_CONN_BYTES_MAX);

        frame_put(&sent, SETTINGS, 0, 0, BYTES("\0\4\x3f\0\0\0"));
        frame_put(&sent, WINDOW_UPDATE, 0, 0, BYTES("\x3f\0\0\0"));
        send_for(&r, &raw, &sent);
        check_values(&r, &raw);
        buf_free(&sent);
        close_rig(&r, &raw);
    }
}

/* Nobody's window is in the way, and short responses are many: what is not whole, and so has no
 * length yet, must not wait for others that do the same. */
TEST(responses_in_json_do_not_wait_for_one_another_for_ever)
{
    struct rpc_rig r;
    struct raw raw = {0};
    struct buf sent = {0};
    open_rig(&r, &raw);
    r.value_bytes = 45 * 1000; /* two chunks, and the text of the first has no head */
    buf_append_str(&sent, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frame_put(&sent, SETTINGS, 0, 0, BYTES("\0\4\x3f\0\0\0"));
    frame_put(&sent, WINDOW_UPDATE, 0, 0, BYTES("\x3f\0\0\0"));
    send_for(&r, &raw, &sent);

    ask_for_values(&r, &raw);

    check_values(&r, &raw);
    buf_free(&sent);
    close_rig(&r, &raw);
}

TEST(a_client_of_json_on_http2_may_leave_after_any_byte)
{
    struct rpc_rig r;
    struct buf sent = {0};
    rpc_rig_open(&r, &(struct rpc_options){.has_gateway = true});
    frame_preface(&sent);
    put_request(&sent, 1, "POST", STREAM, NULL, NULL);
    put_data(&sent, 1, "{} {", false);
    put_request(&sent, 3, "POST", "/v3/kv/range", NULL, NULL);
    put_data(&sent, 3, "{}", true);
    frame_put(&sent, RST_STREAM, 0, 3, BYTES("\0\0\0\x08"));
    put_data(&sent, 1, "}", true);

    for (size_t len = 0; len <= sent.len; len++) {
        struct raw raw = {0};
        connect_by(&r, &raw, true, RPC_SERVES_ALL);
        raw_say_and_leave(&r, &raw, bytes_of(sent.at, len));
    }
    CHECK_EQ(r.live, 0);
    buf_free(&sent);
    rpc_rig_close(&r);
}

/* Where gRPC is not served JSON is, but for the places that are for probes alone. */
TEST(the_gateway_is_served_where_plain_requests_are)
{
    static const char request[] =
        "POST " ECHO " HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{\"version\":\"a\"}";
    struct rpc_rig r;
    struct raw http = {0}, probe = {0};
    rpc_rig_open(&r, &(struct rpc_options){.has_gateway = true});

    connect_by(&r, &http, false, RPC_SERVES_HTTP);
    raw_send(&http, bytes_of_str(request));
    rpc_rig_for_ms(&r, 100);
    CHECK(strstr(buf_str(&http.got), "\r\n\r\n{\"version\":\"a\"}"));
    CHECK_EQ(r.messages, 1);

    connect_by(&r, &probe, false, RPC_SERVES_PROBES);
    raw_send(&probe, BYTES("POST " ECHO " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"));
    rpc_rig_for_ms(&r, 100);
    CHECK_EQ(r.http, 1);
    CHECK_EQ(r.messages, 1);
    raw_close(&r, &http);
    close_rig(&r, &probe);
}
