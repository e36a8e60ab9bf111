/*
 * wire: the outgoing half of a connection, for both ends of it.
 *
 * What is to be sent gathers in one buffer and leaves in one system call. What the kernel takes at
 * once is not kept: the buffer serves the next connection. Only of what it does not take a copy is
 * made, of exactly that size, and while that waits nothing more is gathered. One gathering has up
 * to WIRE_BYTES_MAX, and past a frame (WIRE_FRAME_BYTES, the longest that is added at once) no more
 * than the kernel has space for. So a connection that is idle or well read holds
 * nothing here, and one that is not read about a frame.
 *
 *     wire_buf, append, append ... wire_send --> conn_try_write
 *                                            \-> the rest: conn_write --> on_sent
 */
#pragma once

#include "base/buf.h"
#include "base/limits.h"
#include "io/net.h"

struct wire_pool {
    struct list spare;
    size_t spare_count;
    struct list sent; /* not yet reported */
};

struct wire_parcel;
struct wire_gather;

struct wire {
    struct wire_pool *pool;
    struct conn *conn;
    struct wire_gather *filling; /* or NULL */
    size_t waiting;              /* bytes the kernel has not taken */
    size_t bytes_max;            /* of this gathering; 0: the kernel was not asked yet */
    bool failed;                 /* the connection has, which on_closed will say: nothing is sent */
    void (*on_sent)(struct wire *w, size_t bytes); /* in the turn: those that had to wait */
};

void wire_pool_init(struct wire_pool *p);
/* What was sent and not reported is forgotten: the connections must be gone, or abandoned. */
void wire_pool_free(struct wire_pool *p);

/* Where the bytes go. */
struct buf *wire_buf(struct wire *w);

/* Hands over what was gathered. Returns how much of it the kernel took at once. */
size_t wire_send(struct wire *w);

/* Drops what was gathered and not sent. */
void wire_drop(struct wire *w);

/* Does something wait for the kernel, or would it for ever? */
static inline bool wire_is_blocked(const struct wire *w)
{
    return w->waiting > 0 || w->failed;
}

/* Is there no space for another frame now? */
bool wire_is_full(struct wire *w);
