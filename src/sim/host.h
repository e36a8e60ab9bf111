/*
 * host: a machine of the simulated world, with one member on it.
 *
 * Its clock, disk, network, workers and page store are fakes on a shared virtual time; the server
 * on it is the real one, unmodified. The machine can lose power, or only the process, at any
 * moment, and be started again with what its disks have kept; and with other flags, as operators
 * do.
 */
#pragma once

#include "backend/backend_memory.h"
#include "config/config.h"
#include "io/fake_world.h"
#include "server/server.h"
#include "sim/climate.h"
#include "sim/store_disk.h"

/* What a clock of the climate's may be off by, either way. */
enum { SIM_CLOCK_RATE_OFF_MAX = FAKE_CLOCK_RATE / 10 };

/* What an operation of its disk takes, while it is well. */
static inline struct fake_delay sim_host_disk_delay(const struct climate *c)
{
    return (struct fake_delay){.min_ns = 20000,
                               .max_ns = c->sync_ms_max > 0 ? c->sync_ms_max * NS_PER_MS : 3000000};
}

struct sim_host {
    unsigned number; /* from 0; its address is 10.0.0.(number + 1) */
    struct fake_time *time;
    struct fake_task wake;
    struct inbox inbox;
    struct fake_clock clock;
    struct fake_entropy entropy;
    struct fake_fds fds;
    struct fake_disk *disk;
    struct fake_workers workers, store_worker;
    struct fake_resolver resolver;
    struct memory_disk *memory;   /* NULL: the climate has a data directory, for LMDB */
    struct store_disk store_disk; /* then */
    uint64_t clock_rate;
    struct io io;
    struct config config;
    struct logger logger;
    const struct climate *climate;
    struct rng rng;        /* for the flags of each start */
    struct rng cold_rng;   /* for when its store is not in memory */
    uint64_t warmups;      /* that were read for that, in all its lives */
    struct arena flags;    /* their text; config looks into it */
    const char *joins;     /* the members of the cluster that it joins; lent. NULL: it founds one */
    struct buf why;        /* what the member said when it could go no further */
    struct server *server; /* NULL while it is down */
    bool failed, is_paused;
};

/* Hosts are added to the wire in the order of their numbers. */
struct sim_host *sim_host_new(struct fake_time *time, struct fake_wire *wire, unsigned number,
                              const struct climate *climate, const struct logger *logger);
void sim_host_free(struct sim_host *h);

/* The member may have so many files and connections open at once, and knows it when it starts. */
void sim_host_limit_files(struct sim_host *h, unsigned max);

/* Boots a member. False, and h->why says what is wrong; power may have gone meanwhile, too. */
bool sim_host_start(struct sim_host *h);

/* Its process, or with clock_stands the whole machine, does not run for a while. What arrives
 * meanwhile waits. Crashing ends it, too. */
void sim_host_pause(struct sim_host *h, bool clock_stands);
void sim_host_resume(struct sim_host *h);

/* Runs the member's turn if something has happened and it is not busy or paused. False if not. */
bool sim_host_turn(struct sim_host *h);

/* The member is no more; what its disks have not kept is lost. If the power went, nobody is told,
 * and the machine is off until sim_host_start. */
void sim_host_crash(struct sim_host *h, enum fake_crash how);

/* The member has stopped by itself, or because it was told to. */
void sim_host_close(struct sim_host *h);

/* Calls of both disks so far. */
uint64_t sim_host_disk_calls(const struct sim_host *h);
