#include "io/net_rig_test.h"

#include "base/mem.h"

#include <stdio.h>

struct send {
    struct conn_write write;
    struct bytes piece;
    struct end *end;
};

struct end end_server;
unsigned end_accepted, end_accept_failures;

static void on_sent(struct conn_write *w, enum err e)
{
    struct send *s = container_of(w, struct send, write);

    CHECK_EQ(s->end->closed, 0); /* net promise 3 */
    CHECK(e == ERR_OK || e == ERR_CANCELED);
    if (e == ERR_OK)
        CHECK_EQ(s->end->canceled, 0);
    *(e == ERR_OK ? &s->end->written : &s->end->canceled) += 1;
    mem_free(s);
}

void end_send_pieces(struct end *e, const struct bytes *pieces, size_t count)
{
    struct send *s = mem_new(struct send);

    s->end = e;
    s->write = (struct conn_write){.pieces = pieces, .piece_count = count, .on_done = on_sent};
    conn_write(e->conn, &s->write);
}

void end_send(struct end *e, struct bytes data)
{
    struct send *s = mem_new(struct send);

    s->end = e;
    s->piece = data;
    s->write = (struct conn_write){.pieces = &s->piece, .piece_count = 1, .on_done = on_sent};
    conn_write(e->conn, &s->write);
}

struct echo {
    struct conn_write write;
    struct bytes piece;
    uint8_t data[];
};

static void on_echoed(struct conn_write *w, enum err e)
{
    (void)e;
    mem_free(container_of(w, struct echo, write));
}

static void echo_back(struct conn *c, struct bytes data)
{
    struct echo *e = mem_alloc(sizeof(*e) + data.len);

    memcpy(e->data, data.at, data.len);
    e->piece = bytes_of(e->data, data.len);
    e->write = (struct conn_write){.pieces = &e->piece, .piece_count = 1, .on_done = on_echoed};
    conn_write(c, &e->write);
}

static void on_open(struct conn *c)
{
    struct end *e = c->context;

    CHECK_EQ(e->opened + e->data_calls + e->closed, 0);
    e->opened++;
}

void end_on_data(struct conn *c, struct bytes data)
{
    struct end *e = c->context;

    CHECK(data.len > 0);
    CHECK_EQ(e->ended + e->closed, 0);
    e->data_calls++;
    e->got_bytes += data.len;
    if (!e->only_count)
        buf_append(&e->got, data);
    if (e->echo)
        echo_back(c, data);
    if (e->pause_on_data)
        conn_pause(c);
    if (e->close_on_data)
        conn_close(c, ERR_CANCELED);
}

void end_on_end(struct conn *c)
{
    struct end *e = c->context;

    CHECK_EQ(e->ended + e->closed, 0);
    e->ended++;
    if (e->shut_on_end)
        conn_shutdown(c);
}

void end_on_closed(struct conn *c, enum err reason)
{
    struct end *e = c->context;

    CHECK_EQ(e->closed, 0);
    e->closed++;
    e->reason = reason;
    if (c->info.failure)
        snprintf(e->failure, sizeof(e->failure), "%s", c->info.failure);
    buf_free(&e->got);
}

const struct conn_handlers end_handlers = {on_open, end_on_data, end_on_end, end_on_closed};

void end_keep(struct conn *c)
{
    conn_prove(c, 0);
    conn_set_busy(c);
}

void end_accept(struct listener *l, struct conn *c)
{
    (void)l;
    end_keep(c);
    end_server.conn = c;
    end_accepted++;
    conn_accept(c, &end_handlers, &end_server);
}

static void count_failure(struct listener *l, enum err e)
{
    (void)l;
    (void)e;
    end_accept_failures++;
}

struct listener *end_listen(struct rig *rig, struct listener_options options)
{
    struct net_address a;
    struct listener *l = NULL;

    CHECK_EQ(net_address_parse("127.0.0.1:0", &a), ERR_OK);
    if (!options.on_accept)
        options.on_accept = end_accept;
    options.on_failed = count_failure;
    CHECK_EQ(net_listen(rig->io->net, &a, &options, &l), ERR_OK);
    CHECK(l->address.port != 0);
    return l;
}

void end_connect(struct rig *rig, const struct net_address *a, struct end *e)
{
    e->conn = net_connect(rig->io->net, a, &end_handlers, e);
}

struct listener *end_connect_pair(struct rig *rig, struct end *client)
{
    struct listener *l = end_listen(rig, (struct listener_options){0});

    end_connect(rig, &l->address, client);
    rig_until(rig, &client->opened, 1);
    rig_until(rig, &end_accepted, 1);
    return l;
}

void end_close(struct rig *rig, struct end *e)
{
    if (!e->closed)
        conn_close(e->conn, ERR_OK);
    rig_until(rig, &e->closed, 1);
}

void end_close_pair(struct rig *rig, struct listener *l, struct end *client)
{
    end_close(rig, client);
    end_close(rig, &end_server);
    listener_close(l);
}

void end_until_bytes(struct rig *rig, struct end *e, size_t want)
{
    while (e->got_bytes < want) {
        unsigned calls = e->data_calls;
        rig_until(rig, &e->data_calls, calls + 1);
    }
    CHECK_EQ(e->got_bytes, want);
}

void end_refuse(struct listener *l, struct conn *c)
{
    (void)l;
    end_accepted++;
    conn_close(c, ERR_OK);
}
