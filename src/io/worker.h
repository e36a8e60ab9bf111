/*
 * worker: long computations, away from the core thread.
 *
 * bcrypt, building a snapshot, hashing a store: a job is embedded in whoever wants it done. It runs
 * once on some worker thread and then reports in the turn. A fixed number run at once; the others
 * wait in the order they came.
 *
 * Promises   1. run sees everything the submitter wrote before job_submit, on_done everything run
 *               wrote.
 *            2. on_done comes exactly once, in the turn, after run has returned.
 * Not here   How many may wait: whoever submits on behalf of clients bounds that.
 */
#pragma once

#include "io/inbox.h"

#include <stdint.h>

struct workers;

/* All zeroes, with run and on_done filled in, is ready to submit. */
struct job {
    void (*run)(struct job *j);     /* on a worker thread: touches only what the job owns */
    void (*on_done)(struct job *j); /* in the turn; may free the job */
    struct workers *workers;
    struct event event;
};

struct workers {
    void (*submit)(struct workers *w, struct job *j);
    uint64_t (*now_ns)(struct workers *w); /* NULL: time stands still */
    uint64_t (*faults)(struct workers *w); /* NULL: there are none */
};

/* For run, which has no clock: how long something takes is the difference of two of these. Of a job
 * that nobody was given, time stands still, too. */
static inline uint64_t job_now_ns(const struct job *j)
{
    return j->workers && j->workers->now_ns ? j->workers->now_ns(j->workers) : 0;
}

/* The same for major faults of the thread it runs on (clock.h). */
static inline uint64_t job_faults(const struct job *j)
{
    return j->workers && j->workers->faults ? j->workers->faults(j->workers) : 0;
}

/* Never fails, never blocks. The job belongs to the workers until on_done. */
static inline void job_submit(struct workers *w, struct job *j)
{
    w->submit(w, j);
}
