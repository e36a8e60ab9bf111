/*
 * fake_net: hosts on a wire in memory.
 *
 * Bytes travel in pieces of random size after random delays, in order within one connection, with a
 * window that makes a sender wait for a reader who is paused. A host can be cut off: then nothing
 * of its traffic arrives until it is back, and connecting takes until then.
 *
 *     conn --queue--> flying (bounded) --a piece after a delay--> arrived (bounded) --> on_data
 */
#pragma once

#include "io/fake_fds.h"
#include "io/fake_time.h"
#include "io/net.h"

struct fake_wire; /* opaque */

struct fake_wire_options {
    struct fake_delay delay; /* of a piece of data, of connecting, of closing */
    size_t window_bytes;     /* flying and not yet read, each way; 0: 64 KiB */
};

struct fake_wire *fake_wire_new(struct fake_time *time, const struct fake_wire_options *options);

/* Every connection and listener must have ended (asserted). The inbox must not be drained after. */
void fake_wire_free(struct fake_wire *w);

/* A new host with this address, "10.0.0.1". It also has 127.0.0.1 and unix sockets to itself. */
struct net *fake_wire_add_host(struct fake_wire *w, struct inbox *inbox, const char *ip);

/* Its process has only these file descriptors, for listeners and connections too; lent. */
void fake_wire_limit(struct net *host, struct fake_fds *fds);

/* Takes the host off the wire, or puts it back. What it says to itself still arrives. */
void fake_wire_cut(struct net *host, bool cut);

/* The process on this host dies: its listeners and connections are gone without a word to it, the
 * other ends are told ERR_RESET. Events it had in the inbox are for the caller to forget
 * (inbox_init). */
void fake_wire_crash(struct net *host);

/* Both ends are told ERR_RESET. */
void fake_wire_reset(struct conn *c);
