/*
 * conn_limit: how many connections some listeners may have between them, and which of them has to
 * leave when there are that many and another one comes.
 *
 *     accepted ---> unproved, oldest first ---> proved, by owner: who holds how many
 *                       |  the oldest               |  the longest idle of who holds most
 *                       +----------> evicted <------+
 *
 * A connection is unproved until its client has shown a certificate that was verified, or has made
 * a valid request: handshakes under way and half a request prove nothing. It is busy while somebody
 * waits for something on it: a call whose request is whole, a watch, a stream between members; else
 * it is idle since it was used last, be it by half a request, or since it was accepted. What uses a
 * connection says all this (conn_prove, conn_use, conn_set_busy, conn_set_idle in net.h); the
 * thread that accepts looks at it only when there is no place left.
 *
 * Then a newcomer is accepted, one beyond the limit, and
 *     1. the oldest unproved connection is evicted, if it had patience_ms to prove itself, not
 *        counted what it waited for us: a step of its handshake may be queued behind others';
 *     2. if all are proved, or those that are hold more than half of the places while the oldest
 *        unproved one has its time, the connection is evicted that has been idle longest, of the
 *        owner that holds most and has an idle one; where several owners hold as many, of all
 *        theirs. With one place left for all newcomers, each silent one would keep it for its whole
 *        time, and an honest one would wait behind all of them;
 *     3. if nobody can be evicted, newcomers wait in the kernel, as they do during the patience.
 * No newcomer is closed. An honest client whose idle connection was evicted dials again when it has
 * something to ask, as gRPC's do by themselves; one that finds no place is not served at all.
 * Of the places some may be reserved: unproved connections take none of these, and evict each other
 * before the limit is reached.
 *
 * An owner is who a certificate names, or an address; an IPv6 address counts by its first 64 bits,
 * of which one customer has all. Clients behind one translated address, and all on this machine,
 * are one owner: when they fill all places, it is their idle connections that are evicted, for
 * newcomers of their own as for others.
 *
 * Promises   1. A busy connection that was proved is never evicted.
 *            2. At most max + 1 connections are open; the limit is reached again before another is
 *               accepted.
 *            3. The cost is bounded: rule 2 looks at all of them at most once in as many
 *               microseconds as they are.
 * Leans on   base alone. The nets call it, on the thread that accepts; what a connection says of
 *            itself may be said on another one.
 */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"

#include <stdatomic.h>
#include <stdint.h>

struct admission;
struct listener;
struct net_address;

struct conn_limit {
    unsigned max;         /* 0: as many as there are file descriptors */
    unsigned reserved;    /* of them, not for unproved connections; less than max */
    unsigned patience_ms; /* with an unproved one; NET_PATIENCE_MS unless its owner says so */
    unsigned open;        /* accepted and not yet gone, while their listeners live */
    uint64_t evicted;     /* since the beginning */

    struct list waiting;  /* listeners that look for nobody until somebody leaves */
    struct list unproved; /* oldest first; some may have proved themselves since they were looked at
                           */
    unsigned unproved_count;
    struct map owners;         /* of proved ones, by their id */
    struct admission *victim;  /* makes the place for whoever is accepted next */
    struct admission *leaving; /* was evicted, and is not gone yet */
    uint64_t next_look_ns;     /* at proved ones */
};

/* A connection, as its limit knows it. Of the net that accepted it, and freed by that when it has
 * ended; all zeroes is one without a limit. */
struct admission {
    struct conn_limit *limit; /* NULL: there is none, or its listener has closed */
    struct listener *listener;
    struct list link;                   /* limit->unproved, or owner->conns */
    struct conn_owner *owner;           /* NULL: it has proved nothing, as far as was looked */
    uint64_t since_ns;                  /* it was accepted, or was seen to wait for us */
    bool was_unproved;                  /* when it was chosen to be evicted */
    atomic_uint_least64_t id;           /* of its owner */
    atomic_uint_least64_t used_ns;      /* last; 0: never */
    _Atomic unsigned char state;        /* of the three bits below; written by one thread */
    void (*evict)(struct admission *a); /* the net's: closes it, now or from another thread */
};

enum { ADMISSION_PROVED = 1, ADMISSION_BUSY = 2, ADMISSION_WAITS = 4 };

void conn_limit_init(struct conn_limit *l, unsigned max);
/* No listener has it any more. One that is all zeroes is fine. */
void conn_limit_free(struct conn_limit *l);
void conn_limit_check(const struct conn_limit *l);

/* The owner of connections from this address; and of those with a certificate for these names. */
uint64_t conn_owner_of_address(const struct net_address *from);
uint64_t conn_owner_of_names(const char *cn, const char *const *sans, size_t san_count);

/* --- for nets --- */

/* May the listener accept another connection? If not, it is to look for nobody until listener_look,
 * or until *again_ns if that is not 0. */
MUST_CHECK bool listener_may_take(struct listener *l, uint64_t now_ns, uint64_t *again_ns);

/* The listener has accepted a connection, as it was allowed to; evict is set. */
void listener_took(struct listener *l, struct admission *a, uint64_t owner, uint64_t now_ns);

/* Asked by evict on the connection's own thread: may it be closed still? Otherwise it stays, and
 * the limit is told so. */
bool admission_may_be_evicted(const struct admission *a);
void admission_stays(struct admission *a);

/* The connection has gone. */
void admission_end(struct admission *a);

/* The listener closes: its connections are nobody's, and whatever limit it had may go. */
void listener_forget_conns(struct listener *l);
