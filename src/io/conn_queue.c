#include "io/conn_queue.h"

#include "base/assert.h"

static void report(struct event *e)
{
    struct conn_write *w = container_of(e, struct conn_write, event);

    w->queue->unreported--;
    w->on_done(w, w->err);
}

/* Through the inbox, and not on the spot: whoever writes is in the middle of something. */
static void finish(struct conn_queue *q, struct conn_write *w, enum err e, struct inbox *inbox)
{
    list_remove(&w->link);
    w->err = e;
    w->event.run = report;
    q->unreported++;
    inbox_put(inbox, &w->event);
}

/* Moves past up to `count` bytes and any empty pieces behind them. Returns what is left of count.
 */
static size_t advance(struct conn_write *w, size_t count)
{
    while (w->piece < w->piece_count) {
        size_t left = w->pieces[w->piece].len - w->sent;

        if (count < left) {
            w->sent += count;
            return 0;
        }
        count -= left;
        w->piece++;
        w->sent = 0;
    }
    return count;
}

void conn_queue_init(struct conn_queue *q)
{
    *q = (struct conn_queue){0};
    list_init(&q->writes);
}

void conn_queue_add(struct conn_queue *q, struct conn_write *w)
{
    w->queue = q;
    w->piece = 0;
    w->sent = 0;
    list_init(&w->link);
    list_push_back(&q->writes, &w->link);
    for (size_t i = 0; i < w->piece_count; i++)
        q->bytes += w->pieces[i].len;
}

size_t conn_queue_peek(const struct conn_queue *q, struct bytes *out, size_t max)
{
    size_t count = 0;

    LIST_FOREACH (link, &q->writes) {
        const struct conn_write *w = container_of(link, struct conn_write, link);
        size_t skip = w->sent;

        for (size_t i = w->piece; i < w->piece_count && count < max; i++, skip = 0)
            if (w->pieces[i].len > skip)
                out[count++] = bytes_of(w->pieces[i].at + skip, w->pieces[i].len - skip);
        if (count == max)
            break;
    }
    return count;
}

void conn_queue_sent(struct conn_queue *q, size_t count, struct inbox *inbox)
{
    assert(count <= q->bytes);

    q->bytes -= count;
    LIST_FOREACH (link, &q->writes) {
        struct conn_write *w = container_of(link, struct conn_write, link);

        count = advance(w, count);
        if (w->piece < w->piece_count)
            break;
        finish(q, w, ERR_OK, inbox);
    }
    assert(count == 0);
    assert(q->bytes > 0 || list_empty(&q->writes));
}

void conn_queue_cancel(struct conn_queue *q, struct inbox *inbox)
{
    q->bytes = 0;
    LIST_FOREACH (link, &q->writes)
        finish(q, container_of(link, struct conn_write, link), ERR_CANCELED, inbox);
}
