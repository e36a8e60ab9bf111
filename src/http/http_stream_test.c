/* Both ends on a network: bodies that nobody could hold. */
#include "http/http.h"

#include "base/limits.h"
#include "base/mem.h"
#include "io/io_rig_test.h"

enum {
    PIECE_BYTES = 10000,
    HELD_MAX = 1 * MIB, /* by either end at any time, its socket's queue included */
};

/* One end with its socket. */
struct http_end {
    struct http_conn http;
    struct wire wire;
    struct conn *conn;
    uint64_t to_send, sent, got;
    unsigned status, over, closed;
    bool is_server, sends_when_asked, is_done;
};

static struct wire_pool pool;
static struct clock *rig_clock;
static struct http_end server, client;
static uint8_t piece_bytes[PIECE_BYTES];

/* Where we are in the body decides what the bytes are, so that none is lost or repeated unseen. */
static uint8_t byte_at(uint64_t place)
{
    return (uint8_t)(place * 31 + (place >> 8) * 17);
}

static void check_held(struct http_end *e)
{
    CHECK(e->http.ahead.cap + conn_queued_bytes(e->conn) <= HELD_MAX);
    CHECK(e->http.unconsumed <= HTTP_BODY_WINDOW_BYTES + 64 * KIB);
    http_check(&e->http);
}

static void send_some(struct http_end *e)
{
    while (e->sent < e->to_send && http_credit(&e->http) > 0) {
        size_t now =
            e->to_send - e->sent < PIECE_BYTES ? (size_t)(e->to_send - e->sent) : PIECE_BYTES;
        for (size_t i = 0; i < now; i++)
            piece_bytes[i] = byte_at(e->sent + i);
        http_send(&e->http, bytes_of(piece_bytes, now));
        e->sent += now;
    }
    wire_send(&e->wire);
    check_held(e);
    if (e->sent == e->to_send && !e->is_done) {
        e->is_done = true;
        http_finish(&e->http);
    }
}

static void on_head(struct http_conn *c)
{
    struct http_end *e = c->context;

    e->status = c->reader.status;
    if (!e->is_server || !e->sends_when_asked)
        return;
    http_respond(c, 200, &(struct http_message_options){.length = HTTP_CHUNKED});
    send_some(e);
}

static void on_body(struct http_conn *c, struct bytes piece)
{
    struct http_end *e = c->context;

    for (size_t i = 0; i < piece.len; i++)
        CHECK_EQ(piece.at[i], byte_at(e->got + i));
    e->got += piece.len;
}

static void on_end(struct http_conn *c)
{
    struct http_end *e = c->context;

    if (!e->is_server || e->sends_when_asked)
        return;
    http_respond(c, 204, &(struct http_message_options){0});
    http_finish(c);
}

static void on_credit(struct http_conn *c)
{
    send_some(c->context);
}

static void on_over(struct http_conn *c, bool kept)
{
    struct http_end *e = c->context;

    e->over++;
    if (!kept)
        conn_close(e->conn, ERR_OK);
}

static void on_broken(struct http_conn *c, const char *why)
{
    struct http_end *e = c->context;

    (void)why;
    conn_close(e->conn, ERR_MALFORMED);
}

static const struct http_events events = {.on_head = on_head,
                                          .on_body = on_body,
                                          .on_end = on_end,
                                          .on_credit = on_credit,
                                          .on_over = on_over,
                                          .on_broken = on_broken};

static void on_data(struct conn *c, struct bytes data)
{
    struct http_end *e = c->context;

    http_data(&e->http, data);
    wire_send(&e->wire);
    check_held(e);
}

static void on_socket_end(struct conn *c)
{
    http_ended(&((struct http_end *)c->context)->http);
}

static void on_closed(struct conn *c, enum err reason)
{
    struct http_end *e = c->context;

    (void)reason;
    e->closed++;
    http_close(&e->http);
    wire_drop(&e->wire);
}

static void on_open(struct conn *c)
{
    (void)c;
}

static const struct conn_handlers socket_handlers = {
    .on_open = on_open, .on_data = on_data, .on_end = on_socket_end, .on_closed = on_closed};

static void on_sent(struct wire *w, size_t bytes)
{
    struct http_end *e = container_of(w, struct http_end, wire);

    (void)bytes;
    http_sent(&e->http);
    wire_send(w);
}

static void begin(struct http_end *e, struct conn *c, enum http1_kind reads)
{
    e->conn = c;
    e->is_server = reads == HTTP1_REQUEST;
    e->wire = (struct wire){.pool = &pool, .conn = c, .on_sent = on_sent};
    http_open(&e->http, &(struct http_conn_options){.reads = reads,
                                                    .conn = c,
                                                    .wire = &e->wire,
                                                    .clock = rig_clock,
                                                    .on = &events,
                                                    .context = e});
}

static void on_accept(struct listener *l, struct conn *c)
{
    (void)l;
    begin(&server, c, HTTP1_REQUEST);
    conn_accept(c, &socket_handlers, &server);
}

static struct listener *connect_ends(struct rig *rig)
{
    struct listener_options options = {.on_accept = on_accept};
    struct net_address any, bound;
    struct listener *l;

    wire_pool_init(&pool);
    rig_clock = rig->io->clock;
    CHECK_EQ(net_address_parse("127.0.0.1:0", &any), ERR_OK);
    CHECK_EQ(net_listen(rig->io->net, &any, &options, &l), ERR_OK);
    bound = l->address;
    begin(&client, net_connect(rig->io->net, &bound, &socket_handlers, &client), HTTP1_RESPONSE);
    return l;
}

static void disconnect_ends(struct rig *rig, struct listener *l)
{
    if (!client.closed)
        conn_close(client.conn, ERR_OK);
    rig_until(rig, &client.closed, 1);
    rig_until(rig, &server.closed, 1);
    listener_close(l);
    wire_pool_free(&pool);
}

/* Consumes in large steps, so that reading stops now and then: the sender must feel it. */
static void read_until(struct rig *rig, struct http_end *e, const unsigned *count, uint64_t bytes)
{
    while (*count == 0 && e->got < bytes) {
        for (unsigned i = 0; i < 50 && *count == 0 && !e->http.paused; i++)
            rig_step(rig);
        http_consumed(&e->http, e->http.unconsumed);
        wire_send(&e->wire);
    }
}

static void post(uint64_t length, bool announced)
{
    const struct http1_field host = {BYTES("Host"), BYTES("x")};

    http_request(
        &client.http, "POST", BYTES("/raft/snapshot"),
        &(struct http_message_options){
            .fields = &host, .field_count = 1, .length = length, .is_expected = announced});
    send_some(&client);
}

static uint64_t large_body(void)
{
    return (test_effort() > 1 ? 1024ull : 24ull) * MIB + 12345;
}

CONTRACT(a_body_of_any_length_is_posted_in_bounded_memory)
{
    struct listener *l = connect_ends(rig);

    client.to_send = large_body();
    post(client.to_send, true);
    read_until(rig, &server, &client.over, UINT64_MAX);

    CHECK_EQ(server.got, client.to_send);
    CHECK_EQ(client.status, 204);
    CHECK_EQ(client.closed, 0); /* kept */
    disconnect_ends(rig, l);
}

CONTRACT(a_body_of_unknown_length_is_posted_and_another_one_after_it)
{
    struct listener *l = connect_ends(rig);

    for (unsigned i = 0; i < 2; i++) {
        client.over = 0;
        client.sent = server.got = 0;
        client.is_done = false;
        client.to_send = 3 * MIB + i;
        post(HTTP_CHUNKED, false);
        read_until(rig, &server, &client.over, UINT64_MAX);
        CHECK_EQ(server.got, client.to_send);
        CHECK_EQ(client.status, 204);
    }
    disconnect_ends(rig, l);
}

/* As peers do: a response that goes on for as long as both live. */
CONTRACT(a_response_that_never_ends_is_read_as_it_comes)
{
    const struct http1_field host = {BYTES("Host"), BYTES("x")};
    struct listener *l = connect_ends(rig);

    server.sends_when_asked = true;
    server.to_send = UINT64_MAX;
    http_request(
        &client.http, "GET", BYTES("/raft/stream/msgapp/1"),
        &(struct http_message_options){.fields = &host, .field_count = 1, .no_length = true});
    http_finish(&client.http);
    wire_send(&client.wire);
    read_until(rig, &client, &client.over, 20 * MIB);

    CHECK_EQ(client.over, 0);
    CHECK(client.got >= 20 * MIB);
    disconnect_ends(rig, l);
}
