/*
 * wires: the connections of clients on threads of their own (--io-threads).
 *
 *     io thread   sockets --> TLS --> rpc --> its end of the line --+  a batch per turn
 *                 ^ dealt out                                       v
 *     core        listening                    the end of all of them --> api --> the turn
 *
 * Each thread (io/thread.h) has a wire: an rpc, its end of the line (rpc/line.h), and where there
 * is TLS a struct tls. All of that is the thread's alone while it runs. The core tells it to stop,
 * or to cut who is left; it tells the core when it is idle. What both look at, they only read: the
 * configuration, the table of methods, the logger (whose sinks take whole lines from anybody).
 *
 * Without such threads rpc runs in the core's turn, and nothing of this is there (clients.c).
 *
 * Peers are not here: the core would copy each message once more, and waits for their sockets no
 * longer than for a thread to wake; what they send comes before clients (turn.c) in either case.
 *
 * Life       wires_open, wires_listen for each place, wires_start; wires_stop when nobody new is
 *            wanted, and when wires_are_gone, or if they were never started, wires_close.
 * Promises   1. A wire that is gone has said all it had to say: its last batch came before.
 *            2. What the core answers to one that is gone is dropped, and nobody waits for it.
 */
#pragma once

#include "rpc/line.h"
#include "server/secure.h"

struct io;
struct net_address;
struct rpc_options;
struct rpc_place;
struct wires; /* opaque */

/* `rpc` is what all of them are opened with, `line` the core's end, for as many as there are
 * threads; both outlive the wires. */
struct wires *wires_open(const struct io *io, const struct rpc_options *rpc, struct rpc_line *line);

/* TLS for each of them, before the first place that needs it. */
MUST_CHECK enum err wires_open_tls(struct wires *w, const struct secure *secure,
                                   const struct secure_options *options, struct buf *why);

/* As rpc_listen; place->net is found here. */
MUST_CHECK enum err wires_listen(struct wires *w, const struct rpc_place *place, bool is_secure,
                                 struct net_address *bound);

MUST_CHECK enum err wires_start(struct wires *w);

/* At the end of the core's turn: its replies leave. */
void wires_flush(struct wires *w);

/* Nobody new; again is fine. Of who hears nobody (the core does not take what they say any more, or
 * not yet) nothing is waited for to be taken. */
void wires_stop(struct wires *w, bool hears_nobody);
void wires_cut(struct wires *w);
bool wires_are_gone(const struct wires *w);

/* They are gone, or were not stopped and there has been no turn yet. NULL is fine. */
void wires_close(struct wires *w);
