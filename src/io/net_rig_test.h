/*
 * net_rig: ends of connections that note what happens to them, for the tests of net.h.
 *
 * Each callback checks the order that net.h promises, so that every test checks it too.
 */
#pragma once

#include "base/buf.h"
#include "io/io_rig_test.h"

struct end {
    struct conn *conn;
    struct buf got;
    unsigned opened, data_calls, ended, closed, written, canceled;
    size_t got_bytes;
    enum err reason;
    char failure[160]; /* in words, if there were some */
    /* What it does when called back. */
    bool only_count, close_on_data, pause_on_data, echo, shut_on_end;
};

extern struct end end_server; /* of the connection accepted last by end_accept */
extern unsigned end_accepted, end_accept_failures;
extern const struct conn_handlers end_handlers; /* with a struct end as context */

void end_on_data(struct conn *c, struct bytes data);
void end_on_end(struct conn *c);
void end_on_closed(struct conn *c, enum err reason);

/* What is accepted counts as proved and busy, and is not evicted. */
void end_keep(struct conn *c);

/* For on_accept: the connection becomes end_server; or it is closed at once. */
void end_accept(struct listener *l, struct conn *c);
void end_refuse(struct listener *l, struct conn *c);

/* Listens on a free port of 127.0.0.1, with end_accept unless the options say otherwise. */
struct listener *end_listen(struct rig *rig, struct listener_options options);
void end_connect(struct rig *rig, const struct net_address *a, struct end *e);

/* A listener, and a connection to it whose two ends are `client` and end_server. */
struct listener *end_connect_pair(struct rig *rig, struct end *client);

/* Queues bytes that the caller keeps until they are sent. */
void end_send(struct end *e, struct bytes data);
void end_send_pieces(struct end *e, const struct bytes *pieces, size_t count);

/* Lets things happen until so many bytes have come in all. */
void end_until_bytes(struct rig *rig, struct end *e, size_t want);

/* Closes what is still open and waits for on_closed. */
void end_close(struct rig *rig, struct end *e);
void end_close_pair(struct rig *rig, struct listener *l, struct end *client);
