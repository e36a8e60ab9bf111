/*
 * clock: how late it is, and being told when it is later.
 *
 * Four things: monotonic time, which only moves forward and measures; busy time, which stands still
 * while this thread waits, for work or for a processor; wall time, which names a moment to people
 * and may jump; timers, embedded in whoever waits. The timers of a clock live in
 * one heap, here, and an implementation supplies only the time and a single alarm for the earliest
 * of them. So the real and the virtual clock order timers by the same code.
 *
 *     timer_start --> heap --> alarm at the earliest --> inbox --> timers that are due, in order
 *
 * Promises   1. on_time runs in the turn, never before the deadline, and in order of deadline;
 *               equal deadlines in the order they were started.
 *            2. After timer_stop, on_time does not run.
 */
#pragma once

#include "base/heap.h"
#include "io/inbox.h"

#include <stdint.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

struct clock;

struct clock_ops {
    uint64_t (*now_ns)(struct clock *c); /* from any thread */
    uint64_t (*busy_ns)(struct clock *c);
    uint64_t (*wall_ns)(struct clock *c);
    uint64_t (*faults)(struct clock *c);

    /* Call clock_alarmed at this time or a little later. Replaces the alarm set before. */
    void (*set_alarm)(struct clock *c, uint64_t at_ns);
};

struct clock {
    const struct clock_ops *ops;
    struct inbox *inbox;
    struct heap timers;
    uint64_t started;  /* timers so far: breaks ties */
    uint64_t alarm_ns; /* when the alarm goes off; UINT64_MAX when none is set */
    struct event due;
};

/* All zeroes, with on_time filled in, is a timer that is not set. */
struct timer {
    void (*on_time)(struct timer *t);
    struct heap_node node;
    uint64_t deadline_ns;
    uint64_t number;
};

/* Since some moment before the process began. */
static inline uint64_t clock_now_ns(struct clock *c)
{
    return c->ops->now_ns(c);
}

/* Of the thread that asks. It costs a system call. */
static inline uint64_t clock_busy_ns(struct clock *c)
{
    return c->ops->busy_ns(c);
}

/* How often the thread that asks has waited for a page to be read from a disk: its major faults. It
 * costs a system call. */
static inline uint64_t clock_faults(struct clock *c)
{
    return c->ops->faults(c);
}

/* Since 1970 began, in UTC. */
static inline uint64_t clock_wall_ns(struct clock *c)
{
    return c->ops->wall_ns(c);
}

/* Sets the timer, once; a timer that is already set is moved. Never fails. */
void timer_start(struct clock *c, struct timer *t, uint64_t after_ns);

/* The same with a deadline on this clock; one in the past fires at once. */
void timer_start_at(struct clock *c, struct timer *t, uint64_t deadline_ns);

/* A timer that is not set is fine. */
void timer_stop(struct clock *c, struct timer *t);

static inline bool timer_is_set(const struct timer *t)
{
    return heap_has(&t->node);
}

/* For implementations: the part they share. No timer may be set when it ends (asserted). */
void clock_init(struct clock *c, const struct clock_ops *ops, struct inbox *inbox);
void clock_free(struct clock *c);
void clock_alarmed(struct clock *c);
