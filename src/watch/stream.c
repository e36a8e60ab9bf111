#include "watch/watch_int.h"

#include "base/assert.h"
#include "base/mem.h"

struct watch_stream *watch_stream_open(struct watch *hub, void *context, size_t credit_bytes,
                                       uint64_t now_ms)
{
    assert(credit_bytes > 0);
    assert(credit_bytes <= INT64_MAX);

    struct watch_stream *s = hub_alloc(hub, sizeof(*s));
    s->hub = hub;
    s->context = context;
    s->credit = (int64_t)credit_bytes;
    s->credit_full = s->credit;
    s->opened_ms = now_ms;
    s->interval_ms = hub->interval_ms + rng_below(&hub->rng, hub->interval_ms / 10);
    list_init(&s->link);
    list_init(&s->queue);
    list_init(&s->ready);
    list_init(&s->parked);
    list_init(&s->waking);
    list_init(&s->ticking);
    list_push_back(&hub->streams, &s->link);
    hub->stream_count++;
    return s;
}

static void message_free(struct watch *hub, struct message *m)
{
    hub->events_queued -= m->m.event_count;
    blob_unref(m->m.events);
    watch_long_end(m->m.long_events);
    mem_free(m->reason);
    hub_free(hub, m, sizeof(*m));
}

void watch_stream_close(struct watch_stream *s)
{
    struct watch *hub = s->hub;
    unsigned steps = WATCH_REAP_AT_ONCE; /* it may have a hundred thousand watchers: watch_work */
    struct list *link;

    assert(!s->closed);
    while ((link = list_pop_front(&s->queue)))
        message_free(hub, container_of(link, struct message, link));
    list_remove(&s->ready);
    s->closed = true;
    s->credit = 0; /* what concerns its watchers parks them */
    watch_stream_settle(s);
    watch_progress_unwanted(s);
    hub->stream_count--;
    list_remove(&s->link);
    list_push_back(&hub->closed, &s->link);
    watch_stream_reap(s, &steps);
}

void watch_stream_reap(struct watch_stream *s, unsigned *steps)
{
    assert(s->closed);

    while (s->ids && *steps > 0) {
        watcher_free(watcher_of(s->ids));
        spend(steps, 1);
    }
    if (s->ids)
        return;
    assert(s->count == 0);
    list_remove(&s->link);
    hub_free(s->hub, s, sizeof(*s));
}

void *watch_stream_context(const struct watch_stream *s)
{
    return s->context;
}

size_t watch_stream_credit(const struct watch_stream *s)
{
    return s->credit > 0 ? (size_t)s->credit : 0;
}

size_t watch_stream_live_count(const struct watch_stream *s)
{
    return s->live_era == s->hub->era ? s->live_count : 0;
}

void watch_stream_settle(struct watch_stream *s)
{
    bool wakes = !s->closed && watch_stream_has_credit(s) && !list_empty(&s->parked);

    if (!wakes)
        list_remove(&s->waking);
    else if (list_empty(&s->waking))
        list_push_back(&s->hub->waking, &s->waking);
}

void watch_stream_queue(struct watch_stream *s, const struct watch_message *m, char *reason)
{
    struct message *message = hub_alloc(s->hub, sizeof(*message));
    size_t bytes = blob_bytes(m->events).len;

    assert(!s->closed);
    message->m = *m;
    message->m.stream = s;
    message->m.cancel_reason = reason;
    message->reason = reason;
    if (m->long_events)
        bytes = watch_long_bytes(m->long_events);
    message->m.bytes = bytes > WATCH_MESSAGE_BYTES_MIN ? bytes : WATCH_MESSAGE_BYTES_MIN;
    /* It may go below zero, by this one message: who waited until all of it fits would wait for
     * ever with a message that is larger than all the credit there is. */
    s->credit -= (int64_t)message->m.bytes;
    s->hub->events_queued += m->event_count;
    list_init(&message->link);
    list_push_back(&s->queue, &message->link);
    if (list_empty(&s->ready))
        list_push_back(&s->hub->ready, &s->ready);
    watch_stream_settle(s);
}

bool watch_take(struct watch *hub, struct watch_message *out)
{
    mem_free(hub->lent_reason);
    hub->lent_reason = NULL;
    if (list_empty(&hub->ready))
        return false;

    struct watch_stream *s = container_of(hub->ready.next, struct watch_stream, ready);
    struct message *message = container_of(list_pop_front(&s->queue), struct message, link);
    list_remove(&s->ready);
    if (!list_empty(&s->queue))
        list_push_back(&hub->ready, &s->ready); /* behind the others: a message each, in turn */
    *out = message->m;
    s->taken += out->bytes;
    hub->events_queued -= out->event_count;
    hub->events_taken += out->event_count;
    hub->lent_reason = message->reason;
    hub_free(hub, message, sizeof(*message));
    return true;
}

void watch_costs_more(struct watch_stream *s, size_t bytes)
{
    s->taken += bytes;
    s->credit -= (int64_t)bytes;
    watch_stream_settle(s);
}

void watch_sent(struct watch_stream *s, size_t bytes)
{
    assert(bytes <= s->taken);

    s->taken -= bytes;
    s->credit += (int64_t)bytes;
    assert(s->credit <= s->credit_full);
    watch_stream_settle(s);
}
