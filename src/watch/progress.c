#include "watch/watch_int.h"

#include "base/assert.h"

/*
 * A progress message at r says: every event up to r has been sent. It goes through the same queue
 * as the events, so it is true of a watcher as soon as that one is live. Two things are etcd's own:
 * a watcher that asked to start at a revision hears nothing before that revision is there, not even
 * where it is the very next one; and nothing is remembered of a request that cannot be answered.
 */
static bool is_eligible(const struct watcher *w)
{
    return watcher_is_live(w) && w->next <= w->stream->hub->revision;
}

void watch_request_progress(struct watch_stream *s)
{
    int64_t revision = s->hub->revision;
    bool waits = s->early_count > 0 && s->early_revision > revision;

    assert(!s->closed);
    if (s->count == 0 || watch_stream_live_count(s) < s->count || waits ||
        !watch_stream_has_credit(s))
        return;
    watch_stream_queue(s, &(struct watch_message){.watch_id = -1, .revision = revision}, NULL);
}

/* --- by the clock --- */

bool watch_stream_is_first_due(const struct heap_node *a, const struct heap_node *b)
{
    return container_of(a, struct watch_stream, due)->due_ms <
           container_of(b, struct watch_stream, due)->due_ms;
}

/* The stream's clock began with it and never stops; only nobody looks while nobody wants to know.
 */
static void wait_for_next(struct watch_stream *s, uint64_t now_ms)
{
    uint64_t age_ms = now_ms > s->opened_ms ? now_ms - s->opened_ms : 0;

    s->due_ms = s->opened_ms + (age_ms / s->interval_ms + 1) * s->interval_ms;
    heap_push(&s->hub->due, &s->due);
}

void watch_progress_wanted(struct watch_stream *s, uint64_t now_ms)
{
    assert(!heap_has(&s->due));
    assert(list_empty(&s->ticking));

    wait_for_next(s, now_ms);
}

void watch_progress_unwanted(struct watch_stream *s)
{
    if (heap_has(&s->due))
        heap_remove(&s->hub->due, &s->due);
    list_remove(&s->ticking);
}

static void tick(struct watcher *w)
{
    struct watch_stream *s = w->stream;

    if (!w->progress)
        return;
    if (!w->was_sent && is_eligible(w) && watch_stream_has_credit(s)) {
        struct watch_message m = {.watch_id = w->id, .revision = s->hub->revision};
        watch_stream_queue(s, &m, NULL);
    }
    w->was_sent = false;
}

/* True when the stream's last watcher has been looked at. */
static bool tick_some(struct watch_stream *s, unsigned *steps)
{
    while (*steps > 0) {
        struct watcher *w = watcher_of(treap_from(&watcher_order, s->ids, &s->tick_id));
        spend(steps, 1);
        if (!w)
            return true;
        tick(w);
        if (w->id == INT64_MAX)
            return true;
        s->tick_id = w->id + 1;
    }
    return false;
}

void watch_progress_work(struct watch *hub, unsigned *steps, uint64_t now_ms)
{
    struct heap_node *first;

    while ((first = heap_first(&hub->due)) &&
           container_of(first, struct watch_stream, due)->due_ms <= now_ms) {
        struct watch_stream *s = container_of(heap_pop(&hub->due), struct watch_stream, due);
        s->tick_id = INT64_MIN;
        list_push_back(&hub->ticking, &s->ticking);
    }
    while (*steps > 0 && !list_empty(&hub->ticking)) {
        struct watch_stream *s = container_of(hub->ticking.next, struct watch_stream, ticking);
        if (!tick_some(s, steps))
            return;
        list_remove(&s->ticking);
        wait_for_next(s, now_ms);
    }
}
