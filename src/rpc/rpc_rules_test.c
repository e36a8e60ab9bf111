/* Clients that break HTTP/2's rules for requests and streams, by hand. */
#include "rpc/rpc_rig_test.h"

#include <string.h>

enum { DATA = 0, HEADERS = 1, PRIORITY = 2, RST_STREAM = 3, GOAWAY = 7 };
enum { END_STREAM = 1, END_HEADERS = 4 };

#define PROTOCOL_ERROR BYTES("\0\0\0\1")
#define STREAM_CLOSED  BYTES("\0\0\0\5")

struct rules_rig {
    struct rpc_rig r;
    struct raw raw;
    struct buf sent;
};

static void rules_open(struct rules_rig *g)
{
    memset(g, 0, sizeof(*g));
    rpc_rig_open(&g->r, NULL);
    frame_preface(&g->sent);
}

/* What was gathered is sent on a connection of its own, and what comes back is in raw.got. */
static void rules_send(struct rules_rig *g)
{
    raw_connect(&g->r, &g->raw);
    raw_send(&g->raw, buf_bytes(&g->sent));
    rpc_rig_for_ms(&g->r, 100);
    buf_clear(&g->sent);
    frame_preface(&g->sent);
}

static void rules_drop(struct rules_rig *g)
{
    raw_close(&g->r, &g->raw);
    buf_free(&g->raw.got);
    g->raw = (struct raw){0};
}

static void rules_close(struct rules_rig *g)
{
    buf_free(&g->sent);
    CHECK_EQ(g->r.live, 0);
    rpc_rig_close(&g->r);
}

static void put_request(struct rules_rig *g, bool ends, const char *name, const char *value)
{
    struct buf more = {0};

    field_put(&more, "content-type", "application/grpc");
    if (name)
        field_put(&more, name, value);
    frame_request(&g->sent, 1, "/test.Echo/Say", ends, buf_bytes(&more));
    buf_free(&more);
}

static void put_data(struct rules_rig *g, bool ends, const char *message)
{
    struct buf framed = {0};

    message_put(&framed, bytes_of_str(message));
    frame_put(&g->sent, DATA, ends, 1, buf_bytes(&framed));
    buf_free(&framed);
}

/* The stream is reset, and others on the same connection are served. */
static void check_reset(struct rules_rig *g)
{
    uint32_t stream;
    struct bytes payload;
    struct buf fields = {0}, framed = {0};

    frame_request(&g->sent, 3, "/test.Echo/Say", false, bytes_of(NULL, 0));
    message_put(&framed, BYTES("hello"));
    frame_put(&g->sent, DATA, END_STREAM, 3, buf_bytes(&framed));
    unsigned before = g->r.messages;
    rules_send(g);

    CHECK(frame_find(buf_bytes(&g->raw.got), RST_STREAM, 0, &stream, &payload));
    CHECK_EQ(stream, 1);
    CHECK(bytes_equal(payload, PROTOCOL_ERROR));
    CHECK(!frame_find(buf_bytes(&g->raw.got), GOAWAY, 0, &stream, &payload));
    fields_found(buf_bytes(&g->raw.got), 1, &fields);
    CHECK_STR(buf_str(&fields), "");
    fields_found(buf_bytes(&g->raw.got), 3, &fields);
    CHECK(strstr(buf_str(&fields), "grpc-status: 0\n"));
    CHECK_EQ(g->r.messages, before + 1);
    rules_drop(g);
    buf_free(&fields);
    buf_free(&framed);
}

TEST(a_request_with_malformed_fields_is_reset)
{
    static const struct {
        const char *name, *value;
    } bad[] = {{"Upper", "a"},  {"connection", "close"}, {"te", "gzip"},
               {":path", "/b"}, {":status", "200"},      {"a", "two\nlines"},
               {"", "a"},       {"content-length", "x"}};
    struct rules_rig g;
    rules_open(&g);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        put_request(&g, false, bad[i].name, bad[i].value);
        put_data(&g, true, "never seen");
        check_reset(&g);
    }
    rules_close(&g);
}

TEST(a_request_without_a_pseudo_field_is_reset)
{
    static const char *const names[] = {":method", ":scheme", ":path"};
    static const char *const values[] = {"POST", "http", "/test.Echo/Say"};
    struct rules_rig g;
    rules_open(&g);

    for (size_t missing = 0; missing < ARRAY_LEN(names); missing++) {
        struct buf fields = {0};
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            if (i != missing)
                field_put(&fields, names[i], values[i]);
        field_put(&fields, "content-type", "application/grpc");
        frame_put(&g.sent, HEADERS, END_HEADERS | END_STREAM, 1, buf_bytes(&fields));
        check_reset(&g);
        buf_free(&fields);
    }
    rules_close(&g);
}

TEST(a_body_that_is_not_as_long_as_stated_is_reset)
{
    struct rules_rig g;
    rules_open(&g);

    put_request(&g, false, "content-length", "9"); /* "word" is 9 bytes with its prefix */
    put_data(&g, false, "words");
    check_reset(&g);
    put_request(&g, false, "content-length", "9");
    put_data(&g, true, "wor");
    check_reset(&g);
    put_request(&g, true, "content-length", "9");
    check_reset(&g);

    /* And one that is, is not. */
    struct buf fields = {0};
    put_request(&g, false, "content-length", "9");
    put_data(&g, true, "word");
    rules_send(&g);
    fields_found(buf_bytes(&g.raw.got), 1, &fields);
    CHECK(strstr(buf_str(&fields), "grpc-status: 0\n"));
    rules_drop(&g);
    buf_free(&fields);
    rules_close(&g);
}

/* The core may have heard of the call by then: it hears that it is gone. */
TEST(trailers_that_make_no_sense_reset_the_stream)
{
    static const struct {
        const char *name;
        uint8_t flags;
    } bad[] = {{"grpc-status", END_HEADERS}, {":path", END_HEADERS | END_STREAM}};
    struct rules_rig g;
    rules_open(&g);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct buf fields = {0};
        uint32_t stream;
        struct bytes payload;
        frame_request(&g.sent, 1, "/test.Echo/Chat", false, bytes_of(NULL, 0));
        rules_send(&g);
        field_put(&fields, bad[i].name, "0");
        buf_clear(&g.sent);
        frame_put(&g.sent, HEADERS, bad[i].flags, 1, buf_bytes(&fields));
        raw_send(&g.raw, buf_bytes(&g.sent));
        rpc_rig_for_ms(&g.r, 100);

        CHECK(frame_find(buf_bytes(&g.raw.got), RST_STREAM, 0, &stream, &payload));
        CHECK(bytes_equal(payload, PROTOCOL_ERROR));
        CHECK_EQ(g.r.live, 0);
        rules_drop(&g);
        buf_free(&fields);
        buf_clear(&g.sent);
        frame_preface(&g.sent);
    }
    rules_close(&g);
}

static void check_sent_away(struct rules_rig *g, struct bytes error)
{
    uint32_t stream;
    struct bytes payload;

    rules_send(g);
    CHECK(frame_find(buf_bytes(&g->raw.got), GOAWAY, 0, &stream, &payload));
    CHECK(bytes_equal(bytes_of(payload.at + 4, 4), error));
    raw_until_ended(&g->r, &g->raw);
    rules_drop(g);
}

TEST(a_client_that_breaks_the_order_of_streams_is_sent_away)
{
    struct rules_rig g;
    rules_open(&g);

    frame_request(&g.sent, 5, "/test.Echo/Chat", false, bytes_of(NULL, 0));
    frame_request(&g.sent, 3, "/test.Echo/Chat", false, bytes_of(NULL, 0));
    check_sent_away(&g, PROTOCOL_ERROR);

    frame_put(&g.sent, PRIORITY, 0, 0, BYTES("\0\0\0\0\1"));
    check_sent_away(&g, PROTOCOL_ERROR);

    frame_request(&g.sent, 1, "/test.Echo/Chat", false, bytes_of(NULL, 0));
    frame_put(&g.sent, RST_STREAM, 0, 1, BYTES("\0\0\0\x08"));
    frame_request(&g.sent, 1, "/test.Echo/Chat", false, bytes_of(NULL, 0));
    check_sent_away(&g, STREAM_CLOSED);
    rules_close(&g);
}
