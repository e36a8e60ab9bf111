#include "base/buf_pool.h"

#include "base/mem.h"

void buf_pool_keep(struct buf_pool *p, struct buf *b)
{
    if (b->cap > BUF_POOL_BYTES_MAX || p->count == BUF_POOL_COUNT_MAX ||
        p->bytes + b->cap > BUF_POOL_ALL_BYTES_MAX) {
        buf_free(b);
        return;
    }
    if (!p->bufs)
        p->bufs = mem_new_array(BUF_POOL_COUNT_MAX, struct buf);
    buf_clear(b);
    p->bytes += b->cap;
    p->bufs[p->count++] = *b;
    *b = (struct buf){0};
}

void buf_pool_free(struct buf_pool *p)
{
    while (p->count > 0)
        buf_free(&p->bufs[--p->count]);
    mem_free(p->bufs);
    *p = (struct buf_pool){0};
}
