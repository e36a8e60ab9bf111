/*
 * fair: things that wait for clients, taken one connection after the other.
 *
 *     connection 7    a b c      taken: a x p b y c
 *     connection 9    x y
 *     connection 12   p
 *
 * In one queue for all, a client that has much to say would decide how long everybody else waits.
 * Here it waits behind itself: a connection that begins to wait is served after one thing of each
 * other connection at most.
 *
 * Promises   1. Things of one connection are taken in the order in which they were added.
 *            2. Between two things of one connection, each other connection that waits is served
 *               once.
 * Not here   The things: their links are embedded, and they are their owner's. Bounds: what waits
 *            here is in memory for its connection already (rpc.h, promise 3).
 * Leans on   base.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"

struct fair {
    struct map turns; /* connection -> struct fair_turn; only those that wait for something */
    struct list ring; /* the same; the first is served next */
    size_t count;     /* of all things */
};

void fair_init(struct fair *f, uint64_t map_seed);
/* Also one that is all zeroes. What waits is let go of, untouched: it may be gone already. */
void fair_free(struct fair *f);

/* The link is on no list. Connection 0 is of the server itself. */
void fair_add(struct fair *f, uint64_t conn, struct list *link);
/* It was added for this connection, and not taken. */
void fair_remove(struct fair *f, uint64_t conn, struct list *link);
/* The next one, which waits no more; NULL: none does. */
struct list *fair_take(struct fair *f);

void fair_check(const struct fair *f);
