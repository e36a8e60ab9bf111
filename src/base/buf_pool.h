/*
 * buf_pool: small buffers that were used once and may be again.
 *
 * Where values change owner, buffers do: one side fills them, the other has them left over. Each
 * side keeps some for what it sends itself, so that on a busy day nobody allocates: up to
 * BUF_POOL_COUNT_MAX of them, BUF_POOL_ALL_BYTES_MAX together. All zeroes is an empty pool.
 */
#pragma once

#include "base/buf.h"
#include "base/limits.h"

struct buf_pool {
    struct buf *bufs; /* made when first needed */
    size_t count, bytes;
};

/* An empty one, with memory behind it if there was any. */
static inline struct buf buf_pool_take(struct buf_pool *p)
{
    if (p->count == 0)
        return (struct buf){0};
    p->bytes -= p->bufs[--p->count].cap;
    return p->bufs[p->count];
}

/* Takes it over; it is empty afterwards. */
void buf_pool_keep(struct buf_pool *p, struct buf *b);
static inline void buf_pool_give(struct buf_pool *p, struct buf *b)
{
    if (b->cap > 0)
        buf_pool_keep(p, b);
}

void buf_pool_free(struct buf_pool *p);
