/*
 * conn_queue: the unsent writes of one connection, as every implementation of conn_ops keeps them.
 *
 * A write enters at the back, its bytes leave at the front in whatever amounts the wire takes, and
 * when its last byte has left it is reported through the inbox.
 */
#pragma once

#include "io/net.h"

struct conn_queue {
    struct list writes; /* oldest first */
    size_t bytes;       /* unsent */
    size_t unreported;  /* through or canceled, with on_done still in the inbox */
};

void conn_queue_init(struct conn_queue *q);
void conn_queue_add(struct conn_queue *q, struct conn_write *w);

/* A look at the unsent bytes, at most `max` pieces of them. Returns how many pieces. */
size_t conn_queue_peek(const struct conn_queue *q, struct bytes *out, size_t max);

/* The first `count` unsent bytes are sent; writes that are through are reported. A write without
 * bytes is through as soon as those before it are. */
void conn_queue_sent(struct conn_queue *q, size_t count, struct inbox *inbox);

/* Reports everything unsent as canceled. */
void conn_queue_cancel(struct conn_queue *q, struct inbox *inbox);
