#include "io/inbox.h"

#include "base/assert.h"

#include <stdatomic.h>

void inbox_init(struct inbox *in, void (*wake)(void *context), void *wake_context)
{
    in->first = NULL;
    in->last = &in->first;
    in->wake = wake;
    in->wake_context = wake_context;
    atomic_init(&in->posted, NULL);
}

void inbox_post(struct inbox *in, struct event *e)
{
    assert(!e->queued);
    assert(e->run);

    e->queued = true;
    e->next = atomic_load_explicit(&in->posted, memory_order_relaxed);
    /* After the exchange the event may already be gone: keep what it replaced in a local. */
    struct event *before = e->next;
    while (!atomic_compare_exchange_weak_explicit(&in->posted, &before, e, memory_order_release,
                                                  memory_order_relaxed))
        e->next = before;

    /* Only the first post since the last drain wakes: the others would find the consumer on its
     * way, and a wake costs a system call. */
    if (!before && in->wake)
        in->wake(in->wake_context);
}

void inbox_put(struct inbox *in, struct event *e)
{
    assert(!e->queued);
    assert(e->run);

    e->queued = true;
    e->next = NULL;
    *in->last = e;
    in->last = &e->next;
}

/* Moves what other threads posted behind our own queue, oldest first. */
static void take_posted(struct inbox *in)
{
    struct event *newest = atomic_exchange_explicit(&in->posted, NULL, memory_order_acquire);
    struct event *oldest = NULL;

    if (!newest)
        return;
    struct event **last = &newest->next;
    for (struct event *e = newest, *older; e; e = older) {
        older = e->next;
        e->next = oldest;
        oldest = e;
    }
    *in->last = oldest;
    in->last = last;
}

size_t inbox_drain(struct inbox *in, size_t max)
{
    size_t count = 0;

    take_posted(in); /* once: threads that go on posting are heard again in the next drain */
    while (count < max && in->first) {
        struct event *e = in->first;
        in->first = e->next;
        if (!in->first)
            in->last = &in->first;
        /* Off the queue before it runs: it may put itself in again, or free itself. */
        e->next = NULL;
        e->queued = false;
        e->run(e);
        count++;
    }
    return count;
}

bool inbox_is_empty(const struct inbox *in)
{
    return !in->first && !atomic_load_explicit(&in->posted, memory_order_relaxed);
}
