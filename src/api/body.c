/*
 * Replies that are too long to be held in memory: rpc is told their size, and gets their bytes as
 * it wants them. A call that is finished stays alive in rpc until its body is complete, so a body
 * outlives the call that it is the reply to.
 */
#include "api/api_int.h"

/* Either a reply whose bulk is in the store, or the events of one huge revision. */
struct body {
    struct list link;    /* a->bodies, oldest first */
    struct list stalled; /* a->stalled, if nothing could be read when rpc wanted some of it, */
    size_t wanted;       /* and how much that was */
    uint64_t call;       /* its number on the line */
    struct body *next;   /* of the same call */
    uint64_t left;

    struct reply reply;
    uint64_t started_ms; /* its scans hold their pins since then */
    bool given_up;

    struct watch_long *events; /* NULL: it is a reply */
    size_t credit;             /* of the stream, to be given back when all of it was given */
    struct buf rest; /* what came from there and did not fit; at first the message's prefix */
    size_t rest_at;
};

static struct body *body_new(struct call *c, uint64_t total_bytes)
{
    struct api *a = api_of(c);
    struct body *b = mem_new(struct body);

    struct body **at = &api_slot_of(a, c->base.rpc)->bodies;

    while (*at)
        at = &(*at)->next;
    *at = b;
    b->left = total_bytes;
    b->call = c->base.rpc;
    b->started_ms = a->facts->now_ms;
    list_init(&b->link);
    list_init(&b->stalled);
    list_push_back(&a->bodies, &b->link);
    if (c->is_stream)
        api_count_sent(c, total_bytes);
    else
        a->stats.sent_bytes += total_bytes;
    rpc_line_announce(api_line_of(a, c->base.rpc), c->base.rpc, total_bytes);
    return b;
}

/* The oldest of its call. */
static void body_end(struct api_slot *slot)
{
    struct body *b = slot->bodies;

    slot->bodies = b->next;
    list_remove(&b->link);
    list_remove(&b->stalled);
    reply_free(&b->reply);
    watch_long_end(b->events);
    buf_free(&b->rest);
    mem_free(b);
}

void api_body_send_reply(struct call *c, struct reply *r)
{
    reply_move(r, &body_new(c, r->total)->reply);
}

/*
 * As long as it is being read nothing is queued behind it but the fragments that follow it: its
 * stream has no credit. What a message without bytes costs comes back when it has left, as for all
 * messages; `credit`, which the events cost, has never been in a queue and is ours to give back.
 */
void api_body_send_long(struct call *c, struct buf *prefix, struct watch_long *events,
                        size_t credit)
{
    struct body *b = body_new(c, prefix->len + watch_long_bytes(events));

    assert(credit > 0);
    b->events = events;
    b->credit = credit;
    b->rest = *prefix;
    *prefix = (struct buf){0};
}

/* --- reading --- */

static enum err read_long(struct body *b, size_t max, struct buf *out)
{
    if (b->rest_at == b->rest.len) {
        bool done; /* as its size says */
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

static enum err read_some(struct body *b, size_t max, struct buf *out)
{
    if (b->given_up)
        return ERR_CANCELED;
    if (b->events)
        return read_long(b, max, out);
    reply_read(&b->reply, max, out); /* its end is known from its size */
    return ERR_OK;
}

/* The size was promised, so there is no other way to end it. */
static void break_off(struct api *a, struct api_slot *slot, enum err why)
{
    log_warn(a->o.logger, "cannot read the reply to a call", LOG_STR("error", err_text(why)));
    rpc_line_break(api_line_of(a, slot->id), slot->id);
    api_body_drop(slot);
    if (slot->call)
        api_call_end(slot->call);
}

size_t api_body_wanted(struct api *a, struct api_slot *slot, size_t max)
{
    struct body *b = slot->bodies;
    struct buf chunk = {0};

    if (!b)
        return 0; /* it was broken off when this was on its way */
    assert(max <= b->left);
    buf_reserve(&chunk, max);
    enum err e = read_some(b, max, &chunk);
    if (e != ERR_OK) {
        buf_free(&chunk);
        break_off(a, slot, e);
        return 0;
    }
    assert(chunk.len <= max);
    if (chunk.len == 0 && b->left > 0) {
        buf_free(&chunk);
        b->wanted = max;
        list_push_back(&a->stalled, &b->stalled);
        return 0;
    }
    size_t given = chunk.len;
    b->left -= given;
    size_t credit = b->left == 0 ? b->credit : 0;
    if (b->left == 0)
        body_end(slot);
    rpc_line_chunk(api_line_of(a, slot->id), slot->id, &chunk);
    if (credit > 0 && slot->call)
        slot->call->on->sent(slot->call, credit);
    return given;
}

/* A look at one that is still stalled costs little, unless it looks ahead to what it needs next;
 * what is read is bounded in each turn. */
bool api_body_go_on(struct api *a)
{
    size_t bytes = 0;

    for (unsigned looks = API_STALLED_LOOKS; looks > 0 && bytes < API_STALLED_BYTES; looks--) {
        struct list *link = api_can_reply(a) ? list_pop_front(&a->stalled) : NULL;
        if (!link)
            break;
        const struct body *b = container_of(link, struct body, stalled);
        bytes += api_body_wanted(a, api_slot_of(a, b->call), b->wanted);
        if (!mvcc_has_time(a->o.mvcc))
            break;
    }
    return list_empty(&a->stalled);
}

void api_body_drop(struct api_slot *slot)
{
    while (slot->bodies)
        body_end(slot);
}

/* --- pins --- */

/*
 * The call was finished long ago, so there is nobody to be told; closing the scans frees the pins
 * at once, and the stream is reset when its turn to send comes.
 */
static void give_up(struct body *b)
{
    reply_free(&b->reply);
    b->given_up = true;
}

void api_body_end_pins(struct api *a)
{
    if (list_empty(&a->bodies))
        a->has_old_bodies = false;
    if (list_empty(&a->bodies) || (!a->has_old_bodies && !mvcc_pin_in_the_way(a->o.mvcc)))
        return;
    LIST_FOREACH (link, &a->bodies) {
        struct body *b = container_of(link, struct body, link);
        if (a->facts->now_ms - b->started_ms < API_PIN_MS_MAX)
            return; /* the rest is younger */
        if (b->events || b->given_up || !reply_in_the_way(&b->reply))
            continue; /* another one's revision is waited for */
        log_warn(a->o.logger, "gave up a reply whose reader holds up compaction or an old state",
                 LOG_U64("bytes-left", b->left));
        give_up(b);
    }
}
