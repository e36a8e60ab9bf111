/*
 * fake_net: hosts on a wire in memory, and what happens to what they say to each other.
 *
 * Bytes travel in pieces of random size after random delays, in order within one connection, with a
 * window that makes a sender wait for a reader who is paused. Connections are independent of each
 * other: what was said first on one may arrive last.
 *
 *     conn --queue--> flying (bounded) --a piece after a delay--> arrived (bounded) --> on_data
 *
 * Between each two hosts there is a path, and another one back, which whoever makes the weather may
 * change at any moment: slow it down, clog it, lose pieces on it, cut it. Programs see that as TCP
 * shows it to them:
 *
 *     loss        A piece that is lost is sent again after a while, twice as long each time; what
 * is behind it on that connection waits. So it looks like a stall. cut         The same, with every
 * piece lost. When it is mended, what waited arrives at its next try, which may be as long again as
 * the cut was. one-way     What is said arrives, but nobody hears that it did: the sender's window
 * fills. connecting  Needs both ways, and is tried again after 1, 2, 4 s. clogged     Nothing is
 * lost; everything that was to arrive meanwhile does so at the end. half-open   An end that went
 * without a word (its machine lost power, or what it said last was lost) is still there for the
 * other, who waits forever, or says something: then it is told ERR_RESET, if the machine is back to
 * say so.
 *
 * A connection never shows bytes twice, whatever the network repeats, so there is no repeating of
 * pieces here. What can be repeated is a request that somebody on the way, a proxy, sends again on
 * a connection of its own, because it did not hear the answer: repeat_percent. Only what begins
 * with "POST /raft" is, and forwards no proposal: raft must bear all other messages twice, but
 * nobody a proposal, or an rpc of a client.
 */
#pragma once

#include "io/fake_fds.h"
#include "io/fake_time.h"
#include "io/net.h"

struct fake_wire; /* opaque */

enum { FAKE_WIRE_HOSTS_MAX = 32 };

enum fake_wire_event {
    FAKE_WIRE_SENT, /* bytes of them, and they have just arrived */
    FAKE_WIRE_LOST, /* a piece; it will be sent again */
    FAKE_WIRE_CONNECTED,
    FAKE_WIRE_REFUSED,
    FAKE_WIRE_RESET,
    FAKE_WIRE_REPEATED,
};

struct fake_wire_options {
    struct fake_delay delay; /* of a piece of data, of connecting, of closing */
    size_t window_bytes;     /* flying and not yet read, each way; 0: 64 KiB */

    /* Told of everything that happens between different hosts, by their numbers in the order they
     * were added. NULL: nobody wants to know. */
    void (*on_event)(void *context, enum fake_wire_event what, unsigned from, unsigned to,
                     uint64_t sent_ns, size_t bytes);
    void *context;
};

struct fake_wire *fake_wire_new(struct fake_time *time, const struct fake_wire_options *options);

/* Every connection and listener must have ended (asserted). The inbox must not be drained after. */
void fake_wire_free(struct fake_wire *w);

/* A new host with this address, "10.0.0.1". It also has 127.0.0.1 and unix sockets to itself. */
struct net *fake_wire_add_host(struct fake_wire *w, struct inbox *inbox, const char *ip);

/* Its process has only these file descriptors, for listeners and connections too; lent. */
void fake_wire_limit(struct net *host, struct fake_fds *fds);

/* --- paths --- */

/* The way from one host to another. All zeroes: undisturbed, with the wire's delay. */
struct fake_path {
    struct fake_delay delay; /* of a piece; max_ns 0: the wire's */
    unsigned tail_percent;   /* how often that is doubled, and again, and again: a long tail */
    unsigned loss_percent;   /* of the pieces */
    unsigned silent_percent; /* of the ends that are never heard of on the other side */
    unsigned repeat_percent; /* of the connections whose first request is sent twice */
    uint64_t bytes_per_s;    /* of all connections together; 0: no limit */
    uint64_t clogged_until_ns;
    bool cut;
    uint64_t busy_until_ns; /* the wire's own */
};

/* For whoever makes the weather, to change at any moment. */
struct fake_path *fake_wire_path(struct net *from, struct net *to);

/* Takes the host off the wire, or puts it back: all its paths but the one to itself. */
void fake_wire_cut(struct net *host, bool cut);

/* The process on this host dies: its listeners and connections are gone without a word to it, the
 * other ends are told ERR_RESET if there is a way to tell them. Events it had in the inbox are for
 * the caller to forget (inbox_init). */
void fake_wire_crash(struct net *host);

/* The same for the whole machine: nobody is told anything, and nothing arrives until the power is
 * back. */
void fake_wire_power_off(struct net *host);
void fake_wire_power_on(struct net *host);

/* Both ends are told ERR_RESET. */
void fake_wire_reset(struct conn *c);

/* All connections between the two. */
void fake_wire_reset_between(struct net *a, struct net *b);
