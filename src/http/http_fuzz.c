/*
 * Any bytes to either end of a connection. The first byte chooses the end, the second what its
 * owner does, the third how the rest is cut into pieces.
 *
 * Beyond not crashing: events come in the order that http.h promises, whatever is sent is HTTP as
 * our own reader reads it, and a server answers each request that it was told of exactly once.
 */
#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "http/http.h"
#include "io/clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    RESPONDS_HEAD = 1,
    RESPONDS_END = 2,
    RESPONDS_LATER = 4,
    KEEPS_BODY = 8,
    CHUNKED = 16,
    BLOCKS = 32
};

enum phase { BETWEEN, IN_BODY, WHOLE, OVER };

struct fuzz_end {
    struct conn conn;
    struct clock clock;
    struct wire_pool pool;
    struct wire wire;
    struct http_conn http;
    struct buf sent;
    enum phase phase;
    uint8_t habits;
    size_t held;
    unsigned requests, responses;
};

static struct fuzz_end *end_of(const struct conn *c)
{
    return (struct fuzz_end *)(void *)c;
}

static size_t try_write(struct conn *c, struct bytes what)
{
    struct fuzz_end *e = end_of(c);
    size_t now = e->habits & BLOCKS ? what.len / 2 : what.len;

    buf_append(&e->sent, bytes_of(what.at, now));
    return now;
}

static struct list waiting; /* of struct conn_write */

static void write_rest(struct conn *c, struct conn_write *w)
{
    struct fuzz_end *e = end_of(c);

    for (size_t i = 0; i < w->piece_count; i++)
        buf_append(&e->sent, w->pieces[i]);
    list_init(&w->link);
    list_push_back(&waiting, &w->link);
}

static void report_written(void)
{
    for (struct list *link; (link = list_pop_front(&waiting));) {
        struct conn_write *w = container_of(link, struct conn_write, link);
        w->on_done(w, ERR_OK);
    }
}

static size_t write_credit(const struct conn *c)
{
    (void)c;
    return 0;
}

static void nothing(struct conn *c)
{
    (void)c;
}

static void on_sent(struct wire *w, size_t bytes)
{
    (void)bytes;
    http_sent(&container_of(w, struct fuzz_end, wire)->http);
}

static const struct conn_ops ops = {.try_write = try_write,
                                    .write = write_rest,
                                    .write_credit = write_credit,
                                    .pause = nothing,
                                    .resume = nothing};

static uint64_t still(struct clock *c)
{
    (void)c;
    return 0;
}

static const struct clock_ops clock_ops = {.now_ns = still, .wall_ns = still};

static void respond(struct fuzz_end *e)
{
    bool chunked = e->habits & CHUNKED;
    struct http_message_options options = {.length = chunked ? HTTP_CHUNKED : 2};

    if (!(e->http.reader.kind == HTTP1_REQUEST) || http_has_responded(&e->http))
        return;
    http_respond(&e->http, 200, &options);
    http_send(&e->http, BYTES("ok"));
    e->responses++;
    http_finish(&e->http);
}

static void on_head(struct http_conn *c)
{
    struct fuzz_end *e = c->context;

    assert(e->phase == BETWEEN);
    e->phase = IN_BODY;
    e->requests++;
    if (e->habits & RESPONDS_HEAD)
        respond(e);
}

static void on_body(struct http_conn *c, struct bytes piece)
{
    struct fuzz_end *e = c->context;

    assert(e->phase == IN_BODY);
    assert(piece.len > 0);
    if (e->habits & KEEPS_BODY)
        e->held += piece.len;
    else
        http_consumed(c, piece.len);
}

static void on_end(struct http_conn *c)
{
    struct fuzz_end *e = c->context;

    assert(e->phase == IN_BODY);
    e->phase = WHOLE;
    if (e->habits & RESPONDS_END)
        respond(e);
}

static void on_credit(struct http_conn *c)
{
    struct fuzz_end *e = c->context;

    assert(e->phase != OVER);
}

static void on_over(struct http_conn *c, bool kept)
{
    struct fuzz_end *e = c->context;

    assert(e->phase != OVER);
    e->phase = kept ? BETWEEN : OVER;
    e->held = 0;
}

static void on_broken(struct http_conn *c, const char *why)
{
    struct fuzz_end *e = c->context;

    assert(why);
    assert(e->phase != OVER);
    e->phase = OVER;
}

static const struct http_events events = {.on_head = on_head,
                                          .on_body = on_body,
                                          .on_end = on_end,
                                          .on_credit = on_credit,
                                          .on_over = on_over,
                                          .on_broken = on_broken};

static void ask(struct fuzz_end *e)
{
    const struct http1_field host = {BYTES("Host"), BYTES("x")};
    bool with_body = e->habits & RESPONDS_LATER;

    if (e->http.reader.kind == HTTP1_REQUEST || e->phase != BETWEEN || !http_is_idle(&e->http))
        return;
    http_request(&e->http, with_body ? "POST" : "GET", BYTES("/"),
                 &(struct http_message_options){.fields = &host,
                                                .field_count = 1,
                                                .length = with_body ? 3 : 0,
                                                .no_length = !with_body,
                                                .is_expected = e->habits & RESPONDS_HEAD});
    if (http_credit(&e->http) == 0)
        return;
    http_send(&e->http, with_body ? BYTES("abc") : BYTES(""));
    http_finish(&e->http);
}

static void after_each_piece(struct fuzz_end *e)
{
    report_written();
    http_check(&e->http);
    if (e->held > 0 && e->phase != OVER) {
        size_t held = e->held;
        e->held = 0;
        http_consumed(&e->http, held);
    }
    if (e->phase == WHOLE && e->habits & RESPONDS_LATER)
        respond(e);
    ask(e);
    wire_send(&e->wire);
    http_check(&e->http);
}

/* What a server has sent is so many responses, an error at most behind them, and nothing else. */
static void read_responses(struct fuzz_end *e)
{
    struct http1_reader r;
    struct bytes in = buf_bytes(&e->sent), piece;
    enum http1_found found;
    unsigned whole = 0;

    http1_init(&r, HTTP1_RESPONSE);
    while ((found = http1_read(&r, &in, &piece)) != HTTP1_MORE) {
        assert(found != HTTP1_BAD);
        if (found == HTTP1_END) {
            whole += r.status == 200;
            http1_next(&r);
        }
    }
    found = http1_close(&r);
    assert(found != HTTP1_BAD);
    whole += found == HTTP1_END && r.status == 200; /* the error has no length, and ends with all */
    assert(whole == e->responses);
    http1_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    struct fuzz_end e = {.conn.ops = &ops, .clock.ops = &clock_ops, .habits = data[1]};
    enum http1_kind reads = data[0] % 2 ? HTTP1_REQUEST : HTTP1_RESPONSE;
    size_t step = (size_t)data[2] + 1;
    bool has_head_request = memmem(data, size, "HEAD", 4) != NULL; /* answered without its body */

    list_init(&waiting);
    wire_pool_init(&e.pool);
    e.wire = (struct wire){.pool = &e.pool, .conn = &e.conn, .on_sent = on_sent};
    http_open(&e.http, &(struct http_conn_options){.reads = reads,
                                                   .conn = &e.conn,
                                                   .wire = &e.wire,
                                                   .clock = &e.clock,
                                                   .on = &events,
                                                   .context = &e});
    ask(&e);
    wire_send(&e.wire);
    for (size_t at = 3; at < size; at += step) {
        size_t len = step < size - at ? step : size - at;
        report_written();
        http_data(&e.http, bytes_of(data + at, len));
        after_each_piece(&e);
    }
    http_ended(&e.http);
    after_each_piece(&e);
    wire_send(&e.wire);
    report_written();
    if (reads == HTTP1_REQUEST && !has_head_request)
        read_responses(&e);
    assert(e.responses <= e.requests);
    http_close(&e.http);
    wire_drop(&e.wire);
    buf_free(&e.sent);
    wire_pool_free(&e.pool);
    return 0;
}
