#include "api/api_int.h"

/* --- a reply whose bulk is in the store --- */

struct reply_body {
    struct rpc_body base;
    struct reply reply;
    struct list link;    /* a->bodies */
    uint64_t started_ms; /* its scans hold their pins since then */
    bool given_up;
};

static enum err reply_body_read(struct rpc_body *base, size_t max, struct buf *out)
{
    struct reply_body *b = container_of(base, struct reply_body, base);

    if (b->given_up)
        return ERR_CANCELED;
    reply_read(&b->reply, max, out); /* its end is known from total_bytes */
    return ERR_OK;
}

static void reply_body_end(struct rpc_body *base)
{
    struct reply_body *b = container_of(base, struct reply_body, base);

    list_remove(&b->link);
    reply_free(&b->reply);
    mem_free(b);
}

void api_body_send_reply(struct api *a, struct rpc_call *rpc, struct reply *r)
{
    struct reply_body *b = mem_new(struct reply_body);

    reply_move(r, &b->reply);
    b->base = (struct rpc_body){
        .total_bytes = b->reply.total, .read = reply_body_read, .end = reply_body_end};
    b->started_ms = a->facts->now_ms;
    list_init(&b->link);
    list_push_back(&a->bodies, &b->link);
    rpc_send_body(rpc, &b->base);
}

/*
 * The call was finished long ago, so there is nobody to be told; closing the scans frees the pins
 * at once, and the stream is reset when its turn to send comes.
 */
static void give_up(struct reply_body *b)
{
    reply_free(&b->reply);
    b->given_up = true;
    list_remove(&b->link);
}

void api_body_end_pins(struct api *a)
{
    if (list_empty(&a->bodies) || !mvcc_pin_in_the_way(a->o.mvcc))
        return;
    LIST_FOREACH (link, &a->bodies) {
        struct reply_body *b = container_of(link, struct reply_body, link);
        if (a->facts->now_ms - b->started_ms < API_PIN_MS_MAX)
            return; /* the rest is younger */
        if (!reply_in_the_way(&b->reply))
            continue; /* another one's revision is waited for */
        log_warn(a->o.logger, "gave up a reply whose reader holds up compaction",
                 LOG_U64("bytes-left", b->base.total_bytes - b->reply.taken));
        give_up(b);
    }
}

/* --- the events of one huge revision --- */

struct long_body {
    struct rpc_body base;
    struct watch_long *events;
    struct buf rest; /* what came from there and did not fit; at first the message's prefix */
    size_t rest_at;
};

static enum err long_body_read(struct rpc_body *base, size_t max, struct buf *out)
{
    struct long_body *b = container_of(base, struct long_body, base);

    if (b->rest_at == b->rest.len) {
        bool done; /* as total_bytes says */
        buf_clear(&b->rest);
        b->rest_at = 0;
        enum err e = watch_long_read(b->events, max, &b->rest, &done);
        if (e != ERR_OK)
            return e;
    }
    size_t left = b->rest.len - b->rest_at;
    size_t now = left < max ? left : max;
    buf_append(out, bytes_of(b->rest.at + b->rest_at, now));
    b->rest_at += now;
    return ERR_OK;
}

static void long_body_end(struct rpc_body *base)
{
    struct long_body *b = container_of(base, struct long_body, base);

    watch_long_end(b->events);
    buf_free(&b->rest);
    mem_free(b);
}

void api_body_send_long(struct rpc_call *rpc, struct bytes prefix, struct watch_long *events)
{
    struct long_body *b = mem_new(struct long_body);

    b->base = (struct rpc_body){.total_bytes = prefix.len + watch_long_bytes(events),
                                .read = long_body_read,
                                .end = long_body_end};
    b->events = events;
    buf_append(&b->rest, prefix);
    rpc_send_body(rpc, &b->base);
}
