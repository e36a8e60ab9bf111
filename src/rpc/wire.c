#include "rpc/wire.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

enum {
    SPARE_MAX = 64,
    SPARE_BYTES_MAX = 4 * 1024, /* a bigger buffer is given back, or one full of air might wait for
                                   a client that does not read */
};

struct wire_parcel {
    struct list link; /* among the spare ones, or those that were sent */
    struct wire *wire;
    struct buf content;
    struct bytes piece;
    struct conn_write write;
};

void wire_pool_init(struct wire_pool *p)
{
    *p = (struct wire_pool){0};
    list_init(&p->spare);
    list_init(&p->sent);
}

static void parcel_free(struct wire_parcel *p)
{
    buf_free(&p->content);
    mem_free(p);
}

void wire_pool_free(struct wire_pool *p)
{
    list_append_all(&p->spare, &p->sent);
    for (struct list *link; (link = list_pop_front(&p->spare));)
        parcel_free(container_of(link, struct wire_parcel, link));
}

static struct wire_parcel *parcel_take(struct wire *w)
{
    struct list *link = list_pop_front(&w->pool->spare);
    struct wire_parcel *p =
        link ? container_of(link, struct wire_parcel, link) : mem_new(struct wire_parcel);

    if (link)
        w->pool->spare_count--;
    else
        list_init(&p->link);
    p->wire = w;
    return p;
}

static void parcel_return(struct wire_pool *pool, struct wire_parcel *p)
{
    if (pool->spare_count == SPARE_MAX || p->content.cap > SPARE_BYTES_MAX) {
        parcel_free(p);
        return;
    }
    buf_clear(&p->content);
    list_push_front(&pool->spare, &p->link);
    pool->spare_count++;
}

struct buf *wire_buf(struct wire *w)
{
    if (!w->filling)
        w->filling = parcel_take(w);
    return &w->filling->content;
}

static void on_done(struct conn_write *write, enum err e)
{
    struct wire_parcel *p = container_of(write, struct wire_parcel, write);
    struct wire *w = p->wire;
    size_t bytes = p->piece.len;

    (void)e; /* a connection that failed says so by on_closed */
    assert(w->on_its_way >= bytes);
    w->on_its_way -= bytes;
    list_remove(&p->link);
    parcel_return(w->pool, p);
    w->on_sent(w, bytes);
}

size_t wire_send(struct wire *w)
{
    struct wire_parcel *p = w->filling;

    if (!p || p->content.len == 0)
        return 0;
    w->filling = NULL;
    p->piece = buf_bytes(&p->content);
    p->write = (struct conn_write){.pieces = &p->piece, .piece_count = 1, .on_done = on_done};
    w->on_its_way += p->piece.len;
    list_push_back(&w->pool->sent, &p->link);
    conn_write(w->conn, &p->write);
    return p->piece.len;
}

void wire_drop(struct wire *w)
{
    if (w->filling)
        parcel_return(w->pool, w->filling);
    w->filling = NULL;
}

size_t wire_bytes(const struct wire *w)
{
    return w->on_its_way + (w->filling ? w->filling->content.len : 0);
}
