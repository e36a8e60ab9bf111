/* The client, and a server that ends in the midst of a word. */
#include "harness/test.h"
#include "io/fake_world.h"
#include "io/net.h"
#include "rpc/client.h"

/* Says what it was given to who comes and asks, and hangs up. */
struct cut_server {
    struct bytes says;
    struct conn_write write;
    struct conn *conn;
    size_t heard;
    bool has_spoken;
};

enum { QUESTION_BYTES = 120 /* no less than a connection's beginning and a call */ };

static void on_said(struct conn_write *w, enum err e)
{
    CHECK_EQ(e, ERR_OK);
    conn_close(container_of(w, struct cut_server, write)->conn, ERR_END);
}

static void on_data(struct conn *c, struct bytes data)
{
    struct cut_server *s = c->context;

    s->heard += data.len;
    if (s->has_spoken || s->heard < QUESTION_BYTES)
        return;
    s->has_spoken = true;
    s->write = (struct conn_write){.pieces = &s->says, .piece_count = 1, .on_done = on_said};
    conn_write(c, &s->write);
}

static void on_end(struct conn *c)
{
    (void)c;
}

static void on_closed(struct conn *c, enum err reason)
{
    (void)c;
    (void)reason;
}

static void on_accept(struct listener *l, struct conn *c)
{
    static const struct conn_handlers handlers = {
        .on_data = on_data, .on_end = on_end, .on_closed = on_closed};
    struct cut_server *s = l->options.context;

    s->conn = c;
    conn_accept(c, &handlers, s);
}

/* SETTINGS, and the headers of stream 1: a status, and behind it its text. */
static const char settings[] = "\0\0\0\4\0\0\0\0\0";
static const char headers[] = "\0\0\x31\1\5\0\0\0\1\x88\0\x0bgrpc-status\1"
                              "9\0\x0cgrpc-message\x12not leader, not me";
enum { STATUS_END = 9 + 1 + 2 + 11 + 2, HEADERS_BYTES = sizeof(headers) - 1 };

static void check_status(size_t header_bytes, enum rpc_code code, const char *text)
{
    struct fake_world *w = fake_world_new(test_seed());
    const struct io *io = fake_world_io(w);
    struct buf says = {0};
    struct cut_server server = {0};
    struct net_address address;
    struct listener *l;
    struct client_event e = {0};

    buf_append(&says, bytes_of(settings, sizeof(settings) - 1));
    buf_append(&says, bytes_of(headers, header_bytes));
    server.says = buf_bytes(&says);
    CHECK_EQ(net_address_parse("10.0.0.1:2379", &address), ERR_OK);
    CHECK_EQ(net_listen(io->net, &address,
                        &(struct listener_options){.on_accept = on_accept, .context = &server}, &l),
             ERR_OK);
    struct client *c = client_open(&(struct client_options){.io = io, .address = address});
    client_ask(c, &(struct client_request){.path = "/test.Echo/Say"}, BYTES(""));
    while (e.kind != CLIENT_STATUS) {
        client_flush(c);
        CHECK(client_take(c, &e) || fake_world_step(w));
    }
    CHECK_EQ(e.code, code);
    CHECK_BYTES(e.text, bytes_of_str(text));

    client_close(c);
    listener_close(l);
    while (fake_world_step(w))
        continue;
    buf_free(&says);
    fake_world_free(w);
}

TEST(a_status_without_the_end_of_its_headers_is_none)
{
    check_status(HEADERS_BYTES, RPC_FAILED_PRECONDITION, "not leader, not me");
    for (size_t bytes = STATUS_END; bytes < HEADERS_BYTES; bytes++)
        check_status(bytes, RPC_UNAVAILABLE, "end of data");
}
