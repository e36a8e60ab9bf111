/*
 * wire: the outgoing half of a connection, for both ends of it.
 *
 * What is to be sent in a turn gathers in one buffer, and leaves in one write when the turn ends.
 * Buffers come from a pool that all connections share: an idle connection has none.
 *
 *     wire_buf, append, append ... wire_send --> conn_write --> on_sent
 */
#pragma once

#include "base/buf.h"
#include "io/net.h"

enum {
    WIRE_BYTES_MAX = 32 * 1024, /* gathered and on their way, past which nothing more is made */
};

struct wire_pool {
    struct list spare, sent; /* sent: not yet reported */
    size_t spare_count;
};

struct wire_parcel;

struct wire {
    struct wire_pool *pool;
    struct conn *conn;
    struct wire_parcel *filling;                   /* or NULL */
    size_t on_its_way;                             /* bytes the kernel has not taken */
    void (*on_sent)(struct wire *w, size_t bytes); /* in the turn; there may be room again */
};

void wire_pool_init(struct wire_pool *p);
/* What was sent and not reported is forgotten: the connections must be gone, or abandoned. */
void wire_pool_free(struct wire_pool *p);

/* Where the bytes of this turn go. */
struct buf *wire_buf(struct wire *w);

/* Hands over what was gathered. Returns how many bytes that is. */
size_t wire_send(struct wire *w);

/* Drops what was gathered and not sent. */
void wire_drop(struct wire *w);

size_t wire_bytes(const struct wire *w);

static inline bool wire_is_full(const struct wire *w)
{
    return wire_bytes(w) >= WIRE_BYTES_MAX;
}
