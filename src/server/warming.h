/*
 * warming: the core thread does not wait for the page store's disk.
 *
 * The store is read through a map of its file. As long as memory lasts its pages are there, and
 * looking at one costs nothing. Under memory pressure the kernel drops pages, and a thread that
 * looks at one waits for the disk: a major fault. Key order and the order of writing differ, so a
 * range over many keys can be a fault for each.
 *
 *     warm --the core thread has had a major fault--> cold --none for WARMING_COLD_MS--> warm
 *
 * While the store is cold, mvcc's slices name what they are about to look at (mvcc.h, "a cold
 * store"), and workers read it first: the faults are theirs, and count as above. One of the workers
 * serves only those who need a few entries, so that a get does not wait for somebody's list of
 * everything. The others take turns between these, history, and lists. A warm store costs nothing
 * but a look at the clock for every few entries read.
 *
 * That look also ends a slice when the turn has taken long, whatever the reason: steps bound what a
 * slice does, not how long the machine takes for it.
 *
 * Promises   1. Each warm-up that mvcc has given out is told to it again, also after another state
 *               has taken the place of its own.
 *            2. Nothing that a slice reads depends on it: it decides when, never what.
 * Not here   Which entries are read (mvcc).
 * Leans on   mvcc, io for the clock and workers.
 */
#pragma once

#include "base/limits.h"
#include "io/clock.h"
#include "io/worker.h"
#include "mvcc/mvcc.h"

struct warming_job {
    struct mvcc_warmup warmup;
    struct warming *warming;
    struct job job;
    uint64_t faults; /* the worker's, while it has read */
    bool is_busy;
};

struct warming {
    struct clock *clock;
    struct workers *workers;
    struct mvcc *mvcc;
    struct warming_job jobs[WARMING_THREADS];
    struct timer timer; /* slices that wait look again */
    bool is_cold;
    uint64_t cold_until_ns;
    uint64_t faults;        /* the core thread's, as last seen */
    uint64_t looked_ns;     /* when a slice looked at the clock last */
    uint64_t turn_began_ns; /* 0: there was none yet */
    uint64_t times_cold, warmups;
};

void warming_init(struct warming *w, struct clock *clock, struct workers *workers);
/* Also one that is all zeroes. Its workers have nothing in hand, or have forgotten it. */
void warming_free(struct warming *w);
void warming_stop(struct warming *w); /* before it, on a clock that goes on */

/* The state is this one, or another one than before. */
void warming_set_state(struct warming *w, struct mvcc *mvcc);

/* A turn begins; it is over, and took so long. */
void warming_turn(struct warming *w, uint64_t now_ns);
void warming_turn_ended(struct warming *w, uint64_t took_ns);

/* Has the turn taken so long, or has the core thread just had a fault? Costs a look at the clock.
 */
bool warming_is_late(struct warming *w, unsigned us);

/* At the end of a turn, when slices have named what they want. */
void warming_some(struct warming *w);

/* Has a worker something in hand? */
bool warming_is_busy(const struct warming *w);

/* Brings the next turn about, a little later: for slices of a cold store. Most of them wait for a
 * worker, whose completion comes sooner; some for a commit, and some for nothing. */
void warming_come_back(struct warming *w);

/* The store is cold, as if a fault had told. */
void warming_chill(struct warming *w);
