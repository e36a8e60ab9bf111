#include "http/wire.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

struct wire_gather {
    struct list link; /* among the spare ones */
    struct buf content;
};

/* What the kernel did not take. */
struct wire_parcel {
    struct list link; /* among those that were sent */
    struct wire *wire;
    struct bytes piece;
    struct conn_write write;
    uint8_t content[];
};

void wire_pool_init(struct wire_pool *p)
{
    *p = (struct wire_pool){0};
    list_init(&p->spare);
    list_init(&p->sent);
}

static void gather_free(struct wire_gather *g)
{
    buf_free(&g->content);
    mem_free(g);
}

void wire_pool_free(struct wire_pool *p)
{
    for (struct list *link; (link = list_pop_front(&p->spare));)
        gather_free(container_of(link, struct wire_gather, link));
    for (struct list *link; (link = list_pop_front(&p->sent));)
        mem_free(container_of(link, struct wire_parcel, link));
}

static struct wire_gather *gather_take(struct wire_pool *pool)
{
    struct list *link = list_pop_front(&pool->spare);

    if (link) {
        pool->spare_count--;
        return container_of(link, struct wire_gather, link);
    }
    struct wire_gather *g = mem_new(struct wire_gather);
    list_init(&g->link);
    return g;
}

static void gather_return(struct wire_pool *pool, struct wire_gather *g)
{
    if (pool->spare_count == WIRE_SPARE_MAX || g->content.cap > WIRE_SPARE_BYTES_MAX) {
        gather_free(g);
        return;
    }
    buf_clear(&g->content);
    list_push_front(&pool->spare, &g->link);
    pool->spare_count++;
}

struct buf *wire_buf(struct wire *w)
{
    if (!w->filling)
        w->filling = gather_take(w->pool);
    return &w->filling->content;
}

static void on_done(struct conn_write *write, enum err e)
{
    struct wire_parcel *p = container_of(write, struct wire_parcel, write);
    struct wire *w = p->wire;
    size_t bytes = p->piece.len;

    assert(w->waiting >= bytes);
    w->waiting -= bytes;
    w->failed |= e != ERR_OK;
    list_remove(&p->link);
    mem_free(p);
    w->on_sent(w, bytes);
}

static void send_later(struct wire *w, struct bytes rest)
{
    struct wire_parcel *p = mem_resize(NULL, sizeof(*p) + rest.len, 1);

    memcpy(p->content, rest.at, rest.len);
    p->wire = w;
    p->piece = bytes_of(p->content, rest.len);
    p->write = (struct conn_write){.pieces = &p->piece, .piece_count = 1, .on_done = on_done};
    list_init(&p->link);
    list_push_back(&w->pool->sent, &p->link);
    w->waiting += rest.len;
    conn_write(w->conn, &p->write);
}

size_t wire_send(struct wire *w)
{
    struct wire_gather *g = w->filling;

    if (!g)
        return 0;
    w->filling = NULL;
    w->bytes_max = 0;
    struct bytes all = buf_bytes(&g->content);
    size_t taken = wire_is_blocked(w) ? 0 : conn_try_write(w->conn, all);
    /* Copied, so that the gathering, which is large, serves the next connection at once. */
    if (taken < all.len && !w->failed)
        send_later(w, bytes_of(all.at + taken, all.len - taken));
    gather_return(w->pool, g);
    return taken;
}

void wire_drop(struct wire *w)
{
    if (w->filling)
        gather_return(w->pool, w->filling);
    w->filling = NULL;
    w->bytes_max = 0;
}

/* Large writes cost less than many small ones, but of a large one much may be left over. */
static size_t ask_kernel(const struct wire *w)
{
    size_t credit = conn_write_credit(w->conn);

    if (credit < WIRE_FRAME_BYTES)
        return WIRE_FRAME_BYTES;
    return credit < WIRE_BYTES_MAX ? credit : WIRE_BYTES_MAX;
}

/* Once full it stays so until it is sent, whatever the kernel does meanwhile: whoever has stopped
 * because of it will look again to learn whether there was more. */
bool wire_is_full(struct wire *w)
{
    size_t gathered = w->filling ? w->filling->content.len : 0;

    if (wire_is_blocked(w))
        return true;
    if (gathered < WIRE_FRAME_BYTES)
        return false;
    if (w->bytes_max == 0)
        w->bytes_max = ask_kernel(w);
    return gathered + WIRE_FRAME_BYTES > w->bytes_max;
}
