/* One end of a connection against a scripted other one; streams.c has both ends on a network. */
#include "http/http.h"

#include "base/limits.h"
#include "base/mem.h"
#include "harness/test.h"
#include "io/fake_world.h"

/* An end whose socket is a pair of buffers, and which notes what it is told. */
struct http_rig {
    struct conn conn;
    struct fake_world *world;
    struct wire_pool pool;
    struct wire wire;
    struct http_conn http;
    struct buf sent; /* to the other end */
    struct buf told;
    bool paused, is_blocked;
    bool responds_head, responds_end; /* "200 ok" from inside the callback */
    bool keeps_body;                  /* does not consume what it is shown */
    bool switches;                    /* to another protocol */
    struct conn_write *waiting;
};

static struct http_rig *rig_of(const struct conn *c)
{
    return (struct http_rig *)(void *)c;
}

static size_t socket_try_write(struct conn *c, struct bytes what)
{
    struct http_rig *r = rig_of(c);

    if (r->is_blocked)
        return 0;
    buf_append(&r->sent, what);
    return what.len;
}

static void socket_write(struct conn *c, struct conn_write *w)
{
    struct http_rig *r = rig_of(c);

    CHECK(r->is_blocked);
    CHECK(!r->waiting);
    r->waiting = w;
}

static size_t socket_write_room(const struct conn *c)
{
    return rig_of(c)->is_blocked ? 0 : 1 * MIB;
}

static void socket_pause(struct conn *c)
{
    CHECK(!rig_of(c)->paused);
    rig_of(c)->paused = true;
}

static void socket_resume(struct conn *c)
{
    CHECK(rig_of(c)->paused);
    rig_of(c)->paused = false;
}

static const struct conn_ops socket_ops = {
    .try_write = socket_try_write,
    .write = socket_write,
    .write_credit = socket_write_room,
    .pause = socket_pause,
    .resume = socket_resume,
};

static void respond(struct http_conn *c, const char *text)
{
    http_respond(c, 200, &(struct http_message_options){.length = strlen(text)});
    http_send(c, bytes_of_str(text));
    http_finish(c);
}

static void on_head(struct http_conn *c)
{
    struct http_rig *r = c->context;

    if (c->reader.kind == HTTP1_REQUEST)
        buf_printf(&r->told, "[%.*s %.*s]", (int)c->reader.verb.len, c->reader.verb.at,
                   (int)c->reader.target.len, c->reader.target.at);
    else
        buf_printf(&r->told, "[%u]", c->reader.status);
    if (r->responds_head)
        respond(c, "ok");
}

static void on_body(struct http_conn *c, struct bytes piece)
{
    struct http_rig *r = c->context;

    buf_append(&r->told, piece);
    if (!r->keeps_body)
        http_consumed(c, piece.len);
}

static void on_end(struct http_conn *c)
{
    struct http_rig *r = c->context;

    buf_append_str(&r->told, "<end>");
    if (r->responds_end)
        respond(c, "ok");
    if (r->switches)
        http_switch(c, "talk", NULL, 0);
}

static void on_credit(struct http_conn *c)
{
    buf_append_str(&((struct http_rig *)c->context)->told, "<credit>");
}

static void on_over(struct http_conn *c, bool kept)
{
    buf_append_str(&((struct http_rig *)c->context)->told, kept ? "<over>" : "<last>");
}

static void on_broken(struct http_conn *c, const char *why)
{
    buf_printf(&((struct http_rig *)c->context)->told, "<broken: %s>", why);
}

static const struct http_events events = {.on_head = on_head,
                                          .on_body = on_body,
                                          .on_end = on_end,
                                          .on_credit = on_credit,
                                          .on_over = on_over,
                                          .on_broken = on_broken};

static void on_wire_sent(struct wire *w, size_t bytes)
{
    (void)bytes;
    http_sent(&container_of(w, struct http_rig, wire)->http);
}

static struct http_rig *rig_open(enum http1_kind reads)
{
    struct http_rig *r = mem_new(struct http_rig);

    r->conn.ops = &socket_ops;
    r->world = fake_world_new(1);
    wire_pool_init(&r->pool);
    r->wire = (struct wire){.pool = &r->pool, .conn = &r->conn, .on_sent = on_wire_sent};
    http_open(&r->http, &(struct http_conn_options){.reads = reads,
                                                    .conn = &r->conn,
                                                    .wire = &r->wire,
                                                    .clock = fake_world_io(r->world)->clock,
                                                    .on = &events,
                                                    .context = r});
    return r;
}

/* Closing twice is part of every test. */
static void rig_close(struct http_rig *r)
{
    http_check(&r->http);
    http_close(&r->http);
    http_close(&r->http);
    wire_drop(&r->wire);
    http_check(&r->http);
    buf_free(&r->sent);
    buf_free(&r->told);
    wire_pool_free(&r->pool);
    fake_world_free(r->world);
    mem_free(r);
}

static void hear(struct http_rig *r, const char *text)
{
    http_data(&r->http, bytes_of_str(text));
    wire_send(&r->wire);
    http_check(&r->http);
}

/* The same, a byte at a time: nothing may depend on how the bytes are cut. */
static void hear_slowly(struct http_rig *r, const char *text)
{
    for (const char *at = text; *at; at++)
        http_data(&r->http, bytes_of(at, 1));
    http_check(&r->http);
}

/* What was said or told since the last time. */
static void check_text(struct buf *b, const char *want)
{
    CHECK_STR(buf_str(b), want);
    buf_clear(b);
}

/* The date is taken out of what was sent. */
static void check_sent(struct http_rig *r, const char *want)
{
    char *date;

    wire_send(&r->wire);
    while ((date = strstr(buf_str(&r->sent), "Date: "))) {
        char *end = strstr(date, "\r\n") + 2;
        size_t gone = (size_t)(end - date);
        memmove(date, end, (size_t)((char *)r->sent.at + r->sent.len - end));
        r->sent.len -= gone;
    }
    check_text(&r->sent, want);
}

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define OK_LAST  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"

/* --- serving --- */

TEST(a_request_is_told_in_order_and_answered)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    hear_slowly(r, "POST /raft?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    check_text(&r->told, "[POST /raft?a=b]hello<end>");
    CHECK_BYTES(http_path(&r->http), BYTES("/raft"));
    CHECK_BYTES(http_query(&r->http), BYTES("a=b"));
    respond(&r->http, "ok");

    check_sent(r, OK_REPLY);
    check_text(&r->told, "<over>");
    rig_close(r);
}

TEST(pipelined_requests_are_served_one_after_the_other)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    hear(r, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\nGET /3 HT");
    check_text(&r->told, "[GET /1]<end>");
    respond(&r->http, "ok");
    check_text(&r->told, "<over>[GET /2]<end>");
    respond(&r->http, "ok");
    check_text(&r->told, "<over>");
    hear(r, "TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    check_text(&r->told, "[GET /3]<end>");
    respond(&r->http, "ok");

    check_text(&r->told, "<last>");
    check_sent(r, OK_REPLY OK_REPLY OK_LAST);
    rig_close(r);
}

TEST(whoever_answers_from_within_is_given_the_next_request_on_the_same_stack)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);
    struct buf many = {0};

    r->responds_end = true;
    for (unsigned i = 0; i < 10000; i++)
        buf_append_str(&many, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n.");
    http_data(&r->http, buf_bytes(&many));

    CHECK_EQ(r->told.len, 10000 * strlen("[POST /].<end><over>"));
    buf_free(&many);
    rig_close(r);
}

#define SWITCHED "HTTP/1.1 101 Switching Protocols\r\nUpgrade: talk\r\nConnection: Upgrade\r\n\r\n"

TEST(after_a_switch_bytes_are_shown_and_sent_as_they_are)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);
    r->switches = true;

    hear(r, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nsome");
    hear(r, "thing");
    check_text(&r->told, "[GET /1]<end>something");
    http_send(&r->http, BYTES("answer"));
    check_sent(r, SWITCHED "answer");

    r->keeps_body = true;
    http_set_window(&r->http, 2);
    hear(r, "abc");
    CHECK(r->paused);
    hear(r, "def"); /* was on its way */
    check_text(&r->told, "abc");
    http_consumed(&r->http, 3);
    check_text(&r->told, "def");
    http_consumed(&r->http, 3);
    CHECK(!r->paused);

    http_finish(&r->http);
    hear(r, "nobody hears that");
    check_text(&r->told, "<last>");
    rig_close(r);
}

TEST(a_switched_connection_ends_with_the_clients)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);
    r->switches = true;

    hear_slowly(r, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nx");
    http_ended(&r->http);

    check_text(&r->told, "[GET /1]<end>x<last>");
    rig_close(r);
}

TEST(of_requests_that_come_too_early_few_are_taken_in)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);
    struct buf much = {0};

    hear(r, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
    memset(buf_extend(&much, HTTP_AHEAD_BYTES - 1), 'G', HTTP_AHEAD_BYTES - 1);
    http_data(&r->http, buf_bytes(&much));
    CHECK(!r->paused);
    hear(r, "GG");
    CHECK(r->paused);

    respond(&r->http, "ok"); /* and the rest turns out not to be HTTP */
    CHECK(!r->paused);
    check_text(&r->told, "[GET /1]<end><over><broken: not HTTP>");
    buf_free(&much);
    rig_close(r);
}

TEST(what_is_not_http_is_answered_and_broken)
{
    static const struct {
        const char *text, *status, *told;
    } cases[] = {
        {"\x16\x03\x01 tls", "400", "<broken: not HTTP>"},
        {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", "505", "<broken: unsupported protocol version>"},
        {"GET / HTTP/1.1\r\n\r\n", "400", "<broken: missing required Host header>"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         "400", "<broken: more than one length>"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_rig *r = rig_open(HTTP1_REQUEST);
        hear(r, cases[i].text);
        check_text(&r->told, cases[i].told);
        CHECK(strncmp(buf_str(&r->sent) + 9, cases[i].status, 3) == 0);
        CHECK(strstr(buf_str(&r->sent), "Connection: close\r\n"));
        hear(r, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); /* nothing more is heard */
        check_text(&r->told, "");
        rig_close(r);
    }
}

/* Byte for byte as Go's server says it. */
TEST(a_refusal_says_why_where_go_does)
{
    static const struct {
        const char *text, *sent;
    } cases[] = {
        {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
         "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
         "Connection: close\r\n\r\n400 Bad Request"},
        {"GET / HTTP/1.1\r\nHost: x y\r\n\r\n",
         "HTTP/1.1 400 Bad Request: malformed Host header\r\n"
         "Content-Type: text/plain; charset=utf-8\r\n"
         "Connection: close\r\n\r\n400 Bad Request: malformed Host header"},
        {"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
         "HTTP/1.1 501 Not Implemented\r\nContent-Type: text/plain; charset=utf-8\r\n"
         "Connection: close\r\n\r\nUnsupported transfer encoding"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_rig *r = rig_open(HTTP1_REQUEST);
        hear(r, cases[i].text);
        wire_send(&r->wire);
        CHECK_STR(buf_str(&r->sent), cases[i].sent);
        rig_close(r);
    }
}

/* A large head is charged while its request is dealt with, and no longer; the usual is nobody's. */
TEST(large_heads_share_a_budget)
{
    struct http_heads heads = {0};
    struct http_rig *first = rig_open(HTTP1_REQUEST), *second = rig_open(HTTP1_REQUEST);
    struct buf most = {0};
    first->http.heads = second->http.heads = &heads;
    buf_append_str(&most, "GET /1 HTTP/1.1\r\nHost: x\r\nA: ");
    size_t len = HTTP1_HEAD_BYTES_MAX - most.len - 200;
    memset(buf_extend(&most, len), 'a', len);

    http_data(&first->http, buf_bytes(&most));
    CHECK_EQ(heads.charged, most.len - HTTP_HEAD_USUAL_BYTES);
    hear(first, "\r\n\r\n");
    CHECK(heads.charged > most.len - HTTP_HEAD_USUAL_BYTES);
    check_text(&first->told, "[GET /1]<end>");
    heads.charged += HTTP_HEADS_BYTES_MAX; /* so many others have one */
    hear(second, "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
    check_text(&second->told, "[GET /2]<end>");
    respond(&second->http, "ok");
    http_data(&second->http, buf_bytes(&most));
    check_text(&second->told, "<over><broken: the head is too large>");
    heads.charged -= HTTP_HEADS_BYTES_MAX;

    respond(&first->http, "ok");
    rig_close(second);
    CHECK_EQ(heads.charged, 0);
    http_data(&first->http, buf_bytes(&most));
    CHECK(heads.charged > 0);
    rig_close(first);
    CHECK_EQ(heads.charged, 0);
    buf_free(&most);
}

#define UNEXPECTED                                                                                 \
    "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

TEST(whoever_expects_what_nobody_knows_is_told_so_and_nobody_else)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    hear(r, "GET / HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\n\r\nGET / HTTP/1.1\r\n");
    check_text(&r->told, "<last>");
    check_sent(r, UNEXPECTED);
    rig_close(r);

    r = rig_open(HTTP1_REQUEST); /* a body that is not sent is not waited for */
    hear(r, "PUT / HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\nContent-Length: 3\r\n\r\n");
    check_text(&r->told, "<last>");
    check_sent(r, UNEXPECTED);
    rig_close(r);
}

TEST(garbage_behind_a_response_that_has_begun_cannot_be_answered)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    hear(r, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    http_respond(&r->http, 200, &(struct http_message_options){.length = HTTP_CHUNKED});
    http_send(&r->http, BYTES("part"));
    wire_send(&r->wire);
    hear(r, "zz\r\n");
    check_text(&r->told, "[POST /]<broken: malformed chunk size>");
    http_send(&r->http, BYTES("more")); /* goes nowhere */
    http_finish(&r->http);

    check_sent(r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n");
    rig_close(r);
}

TEST(continue_is_said_unless_the_answer_comes_first)
{
    const char *head = "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                       "Content-Length: 3\r\n\r\n";
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    hear(r, head);
    check_sent(r, "HTTP/1.1 100 Continue\r\n\r\n");
    hear(r, "abc");
    respond(&r->http, "ok");
    check_text(&r->told, "[POST /]abc<end><over>");
    check_sent(r, OK_REPLY);

    r->responds_head = true;
    hear(r, head);
    check_text(&r->told, "[POST /]<last>"); /* the body may or may not come */
    check_sent(r, OK_LAST);
    rig_close(r);
}

TEST(a_request_answered_before_it_was_read_is_let_pass)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    r->responds_head = true;
    hear(r, "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
    hear(r, "cdePOST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    check_text(&r->told, "[POST /1]<over>[POST /2]<over>");
    check_sent(r, OK_REPLY OK_REPLY);

    hear(r, "POST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n");
    check_text(&r->told, "[POST /3]<last>");
    check_sent(r, OK_LAST);
    rig_close(r);
}

TEST(only_so_much_is_let_pass)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);
    struct buf chunk = {0};

    r->responds_head = true;
    hear(r, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    check_text(&r->told, "[POST /]");
    buf_printf(&chunk, "%x\r\n", HTTP_DISCARD_BYTES + 1);
    memset(buf_extend(&chunk, HTTP_DISCARD_BYTES + 1), 'x', HTTP_DISCARD_BYTES + 1);
    http_data(&r->http, buf_bytes(&chunk));

    check_text(&r->told, "<last>");
    buf_free(&chunk);
    rig_close(r);
}

TEST(who_shuts_down_behind_his_request_is_answered)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    hear(r, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    http_ended(&r->http);
    check_text(&r->told, "[GET /]<end>");
    respond(&r->http, "ok");

    check_text(&r->told, "<last>");
    check_sent(r, OK_LAST);
    rig_close(r);
}

TEST(an_end_between_requests_is_no_failure_and_one_within_is)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);
    http_ended(&r->http);
    check_text(&r->told, "<last>");
    check_sent(r, "");
    rig_close(r);

    r = rig_open(HTTP1_REQUEST);
    hear(r, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab");
    http_ended(&r->http);
    check_text(&r->told, "[POST /]ab<broken: the connection ended within a request>");
    wire_send(&r->wire);
    CHECK(strncmp(buf_str(&r->sent), "HTTP/1.1 400", 12) == 0);
    rig_close(r);
}

TEST(bodies_go_out_as_the_client_can_read_them)
{
    struct http_message_options chunked = {.length = HTTP_CHUNKED};
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    hear(r, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    http_respond(&r->http, 200, &chunked);
    http_send(&r->http, BYTES("one"));
    http_send(&r->http, BYTES("")); /* would be the end */
    http_send(&r->http, BYTES("two"));
    http_finish(&r->http);
    check_sent(r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");

    hear(r, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
    respond(&r->http, "ok");
    check_sent(r, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");

    hear(r, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    http_respond(&r->http, 204, &(struct http_message_options){0});
    http_finish(&r->http);
    check_sent(r, "HTTP/1.1 204 No Content\r\n\r\n");

    hear(r, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    http_respond(&r->http, 200, &chunked);
    http_send(&r->http, BYTES("old"));
    http_finish(&r->http);
    check_sent(r, "HTTP/1.0 200 OK\r\n\r\nold"); /* an end is usual in 1.0 */
    check_text(&r->told, "[GET /]<end><over>[HEAD /]<end><over>[POST /]<end><over>"
                         "[GET /]<end><last>");
    rig_close(r);

    r = rig_open(HTTP1_REQUEST);
    hear(r, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    respond(&r->http, "ok");
    check_sent(r, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok");
    rig_close(r);
}

TEST(a_body_that_nobody_consumes_stops_the_reading)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);
    struct buf body = {0};

    r->keeps_body = true;
    hear(r, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    memset(buf_extend(&body, 64 * KIB), 'b', 64 * KIB);
    for (unsigned i = 0; i < HTTP_BODY_WINDOW_BYTES / (64 * KIB); i++) {
        CHECK(!r->paused);
        http_data(&r->http, buf_bytes(&body));
    }
    CHECK(r->paused);
    size_t told = r->told.len;
    http_data(&r->http, BYTES("late")); /* was on its way */
    CHECK_EQ(r->told.len, told);

    http_consumed(&r->http, 64 * KIB);
    CHECK(!r->paused);
    CHECK_EQ(r->told.len, told + 4);
    buf_free(&body);
    rig_close(r);
}

/* One piece at a time, in either framing; and the next request has the usual window again. */
TEST(a_narrow_window_shows_a_piece_at_a_time)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    r->keeps_body = true;
    hear(r, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    http_set_window(&r->http, 1);
    hear(r, "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
    check_text(&r->told, "[POST /]one");
    CHECK(r->paused);
    http_consumed(&r->http, 2);
    check_text(&r->told, "");
    http_consumed(&r->http, 1);
    check_text(&r->told, "two");
    CHECK(r->paused);
    http_consumed(&r->http, 3);
    check_text(&r->told, "<end>");
    respond(&r->http, "ok");
    check_text(&r->told, "<over>");
    CHECK(!r->paused);

    hear(r, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            "3\r\none\r\n3\r\ntwo\r\n");
    check_text(&r->told, "[POST /]onetwo");
    CHECK(!r->paused);
    rig_close(r);
}

/* Whoever responds in the middle has dealt with what it was shown. */
TEST(a_response_consumes_what_was_shown)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    r->keeps_body = true;
    hear(r, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n");
    http_set_window(&r->http, 1);
    hear(r, "one");
    CHECK(r->paused);
    respond(&r->http, "enough");
    http_check(&r->http);
    CHECK(!r->paused);
    hear(r, "two");
    check_text(&r->told, "[POST /]one<over>");
    rig_close(r);
}

/* --- asking --- */

static void ask(struct http_rig *r, const char *verb, uint64_t length)
{
    const struct http1_field host = {BYTES("Host"), BYTES("x")};

    http_request(&r->http, verb, BYTES("/t"),
                 &(struct http_message_options){.fields = &host,
                                                .field_count = 1,
                                                .length = length,
                                                .no_length = strcmp(verb, "POST") != 0});
}

TEST(a_client_asks_and_asks_again)
{
    struct http_rig *r = rig_open(HTTP1_RESPONSE);

    ask(r, "GET", 0);
    http_finish(&r->http);
    check_sent(r, "GET /t HTTP/1.1\r\nHost: x\r\n\r\n");
    hear_slowly(r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    check_text(&r->told, "[200]abc<end><over>");

    ask(r, "POST", 4);
    http_send(&r->http, BYTES("body"));
    http_finish(&r->http);
    check_sent(r, "POST /t HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody");
    hear(r, "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    check_text(&r->told, "[204]<end><over>");

    ask(r, "HEAD", 0);
    http_finish(&r->http);
    hear(r, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n");
    check_text(&r->told, "[200]<end><last>");
    rig_close(r);
}

TEST(a_response_without_a_length_ends_with_the_connection)
{
    struct http_rig *r = rig_open(HTTP1_RESPONSE);

    ask(r, "GET", 0);
    http_finish(&r->http);
    hear(r, "HTTP/1.0 200 OK\r\n\r\nall of");
    hear(r, " it");
    http_ended(&r->http);

    check_text(&r->told, "[200]all of it<end><last>");
    rig_close(r);
}

TEST(a_response_that_is_cut_off_is_broken)
{
    struct http_rig *r = rig_open(HTTP1_RESPONSE);

    ask(r, "GET", 0);
    http_finish(&r->http);
    hear(r, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc");
    http_ended(&r->http);

    check_text(&r->told, "[200]abc<broken: the connection ended before a response did>");
    rig_close(r);
}

TEST(what_nobody_asked_for_is_not_taken_for_an_answer)
{
    struct http_rig *r = rig_open(HTTP1_RESPONSE);
    hear(r, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    check_text(&r->told, "<broken: a response that nobody asked for>");
    rig_close(r);

    r = rig_open(HTTP1_RESPONSE);
    ask(r, "GET", 0);
    http_finish(&r->http);
    hear(r, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n");
    check_text(&r->told, "[200]<end><last>");
    rig_close(r);
}

TEST(an_answer_before_the_request_was_sent_ends_it)
{
    struct http_rig *r = rig_open(HTTP1_RESPONSE);

    ask(r, "POST", HTTP_CHUNKED);
    http_send(&r->http, BYTES("begin"));
    wire_send(&r->wire);
    hear(r, "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n");
    check_text(&r->told, "[412]<end><last>");
    buf_clear(&r->sent);
    http_send(&r->http, BYTES("nobody reads this"));
    http_finish(&r->http);

    check_sent(r, "");
    rig_close(r);
}

TEST(a_body_that_was_announced_waits_for_continue)
{
    const struct http1_field host = {BYTES("Host"), BYTES("x")};
    struct http_message_options options = {
        .fields = &host, .field_count = 1, .length = 3, .is_expected = true};
    struct http_rig *r = rig_open(HTTP1_RESPONSE);

    http_request(&r->http, "POST", BYTES("/"), &options);
    wire_send(&r->wire);
    CHECK_EQ(http_credit(&r->http), 0);
    hear(r, "HTTP/1.1 100 Continue\r\n\r\n");
    check_text(&r->told, "<credit>");
    CHECK(http_credit(&r->http) > 0);
    http_send(&r->http, BYTES("abc"));
    http_finish(&r->http);
    hear(r, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    check_text(&r->told, "[200]<end><over>");

    http_request(&r->http, "POST", BYTES("/"), &options); /* refused: nothing of it is sent */
    CHECK_EQ(http_credit(&r->http), 0);
    hear(r, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    check_text(&r->told, "[403]<end><last>");
    rig_close(r);
}

TEST(a_server_of_interim_responses_is_given_up)
{
    struct http_rig *r = rig_open(HTTP1_RESPONSE);

    ask(r, "GET", 0);
    http_finish(&r->http);
    for (unsigned i = 0; i < HTTP_INTERIM_MAX; i++)
        hear(r, "HTTP/1.1 102 Processing\r\n\r\n");
    check_text(&r->told, "");
    hear(r, "HTTP/1.1 102 Processing\r\n\r\n");
    check_text(&r->told, "<broken: too many interim responses>");
    rig_close(r);
}

TEST(credit_ends_with_a_socket_that_takes_nothing)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);
    struct buf piece = {0};
    unsigned sent = 0;

    hear(r, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    buf_clear(&r->told);
    http_respond(&r->http, 200, &(struct http_message_options){.length = HTTP_CHUNKED});
    r->is_blocked = true;
    memset(buf_extend(&piece, 8 * KIB), 'p', 8 * KIB);
    for (; http_credit(&r->http) > 0; sent++) {
        http_send(&r->http, buf_bytes(&piece));
        wire_send(&r->wire);
    }
    CHECK_EQ(sent, 1); /* what the kernel does not take is all that is held */

    r->is_blocked = false;
    struct conn_write *w = r->waiting;
    r->waiting = NULL;
    w->on_done(w, ERR_OK);
    check_text(&r->told, "<credit>");
    CHECK(http_credit(&r->http) > 0);
    buf_free(&piece);
    rig_close(r);
}

TEST(whoever_reads_no_answer_is_not_listened_to)
{
    const char *request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    r->responds_end = true;
    r->is_blocked = true;
    hear(r, request);
    for (unsigned i = 0; i < 10; i++)
        hear(r, request);
    check_text(&r->told, "[GET /]<end><over>");

    r->is_blocked = false;
    struct conn_write *w = r->waiting;
    r->waiting = NULL;
    w->on_done(w, ERR_OK);
    CHECK_EQ(r->told.len, 10 * strlen("[GET /]<end><over>"));
    rig_close(r);
}

TEST(a_socket_that_has_failed_gives_no_credit)
{
    struct http_rig *r = rig_open(HTTP1_REQUEST);

    hear(r, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    buf_clear(&r->told);
    http_respond(&r->http, 200, &(struct http_message_options){.length = HTTP_CHUNKED});
    r->is_blocked = true;
    wire_send(&r->wire);
    CHECK_EQ(http_credit(&r->http), 0);
    struct conn_write *w = r->waiting;
    r->waiting = NULL;
    w->on_done(w, ERR_CANCELED);

    check_text(&r->told, "");
    CHECK_EQ(http_credit(&r->http), 0);
    rig_close(r);
}
