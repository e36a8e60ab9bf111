/*
 * inbox: what has happened since the last turn.
 *
 * Whoever finishes something (a disk thread, a worker, a socket callback) posts an event; the core
 * thread runs the events when its turn comes. An event is embedded in the request it ends, so
 * posting allocates nothing and cannot fail.
 *
 *     threads --post--> [stack, newest first] --taken whole, turned round--> [queue] --drain--> run
 *     core thread --put---------------------------------------------------------^
 *
 * Promises   1. Events of one producer run in the order it posted them.
 *            2. An event is off the queue before it runs, so it may free or post itself.
 *            3. A post into an inbox that lay empty wakes the consumer.
 * Not here   How the consumer sleeps: it gives a wake function (loop.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Something to be run elsewhere, later. All zeroes, with run filled in, is ready to be posted. */
struct event {
    void (*run)(struct event *e);
    struct event *next; /* the queue's */
    bool queued;        /* waits on a queue: neither post it again nor free it */
};

struct inbox {
    _Atomic(struct event *) posted; /* by any thread, newest first */
    struct event *first;            /* the consumer's own, oldest first */
    struct event **last;
    void (*wake)(void *context); /* called by any thread; NULL if nobody sleeps */
    void *wake_context;
};

/* Makes an empty inbox. Doing it again forgets what was waiting, as a crash does. */
void inbox_init(struct inbox *in, void (*wake)(void *context), void *wake_context);

/* From any thread. */
void inbox_post(struct inbox *in, struct event *e);

/* From the consumer's thread, which is awake: no atomics, no wake. */
void inbox_put(struct inbox *in, struct event *e);

/* Runs at most `max` events, those put meanwhile included. Returns how many ran. */
size_t inbox_drain(struct inbox *in, size_t max);

/* For the consumer. */
bool inbox_is_empty(const struct inbox *in);
