/*
 * fake_world: the whole of io.h in memory, on virtual time, for unit tests.
 *
 * One process on one host with one disk; the same parts, put together differently, make a cluster.
 *
 *     struct fake_world *w = fake_world_new(seed);
 *     const struct io *io = fake_world_io(w);
 *     ...
 *     while (!done && fake_world_step(w))
 *         ;
 */
#pragma once

#include "base/list.h"
#include "io/clock.h"
#include "io/entropy.h"
#include "io/fake_disk.h"
#include "io/fake_net.h"
#include "io/fake_time.h"
#include "io/io.h"
#include "io/resolve.h"
#include "io/worker.h"

enum { FAKE_CLOCK_RATE = 1000000 }; /* of a clock that keeps the world's time */

/*
 * A process's clock. It may run slower or faster than the world, or stand still, and its wall time
 * may jump; its monotonic time never goes back. If a look at it takes a while, work takes time: the
 * world does not wait meanwhile, so the process is ahead of it, and busy until the world is there.
 */
struct fake_clock {
    struct clock base;
    struct fake_time *time;
    struct fake_task alarm;
    int64_t wall_offset_ns; /* how far the wall clock is off; tests move it */
    uint64_t look_ns;       /* how long a look at it takes; 0: nothing does */
    uint64_t busy_until_ns; /* in the world's time */
    uint64_t rate;
    uint64_t world_ns, own_ns; /* it showed this when the world's time was that */
};

/* A timer that is still set when the clock ends is a bug (asserted). */
void fake_clock_init(struct fake_clock *c, struct fake_time *time, struct inbox *inbox);
void fake_clock_free(struct fake_clock *c);

/* From now on it makes so many millionths of a second in a second of the world; 0: it stands. */
void fake_clock_set_rate(struct fake_clock *c, uint64_t rate);

/* The machine has started again: its monotonic time is this, whatever it was. No timer is set. */
void fake_clock_restart(struct fake_clock *c, uint64_t now_ns);

bool fake_clock_is_busy(const struct fake_clock *c);

/* The process dies: its timers are forgotten. */
void fake_clock_crash(struct fake_clock *c);

struct fake_entropy {
    struct entropy base;
    struct rng rng;
};

void fake_entropy_init(struct fake_entropy *e, uint64_t seed);

struct fake_workers {
    struct workers base;
    struct fake_time *time;
    struct inbox *inbox;
    struct fake_delay delay;
    struct list jobs; /* that have not run yet */
    uint64_t hung_until_ns;
};

void fake_workers_init(struct fake_workers *w, struct fake_time *time, struct inbox *inbox);

/* They hang, as whoever waits for a disk does: no job runs before then, in the world's time.
 * FAKE_DISK_FOR_EVER: until the next call of this, 0 for now, or a crash. */
void fake_workers_hang(struct fake_workers *w, uint64_t until_ns);

/* The process dies: jobs that have not run never will, and nobody hears of them. */
void fake_workers_crash(struct fake_workers *w);

/* Runs at once what has not run yet; the reports are in the inbox. */
void fake_workers_finish(struct fake_workers *w);

enum { FAKE_HOSTS_MAX = 16 };

/* Knows what it is told, and numbers. */
struct fake_resolver {
    struct resolver base;
    struct fake_time *time;
    struct inbox *inbox;
    struct fake_delay delay;
    struct list lookups; /* that were not answered yet */
    struct fake_known_host {
        const char *name;
        struct net_address address;
    } known[FAKE_HOSTS_MAX];
    size_t known_count;
};

void fake_resolver_init(struct fake_resolver *r, struct fake_time *time, struct inbox *inbox);

/* The process dies: nobody hears of what it has asked. */
void fake_resolver_crash(struct fake_resolver *r);

/* Another address, "10.0.0.1", for the name. Both are lent. */
void fake_resolver_add(struct fake_resolver *r, const char *name, const char *ip);

struct fake_world {
    struct fake_time time;
    struct inbox inbox;
    struct fake_clock clock;
    struct fake_entropy entropy;
    struct fake_fds fds; /* without a limit, until a test sets one */
    struct fake_disk *disk;
    struct fake_wire *wire;
    struct fake_workers workers, store_worker;
    struct fake_resolver resolver;
    struct io io;
};

struct fake_world *fake_world_new(uint64_t seed);
void fake_world_free(struct fake_world *w);

const struct io *fake_world_io(struct fake_world *w);

/* Runs the next event of the inbox or, if it is empty, lets time pass until something happens.
 * False if nothing ever will. */
bool fake_world_step(struct fake_world *w);
