/*
 * cluster_rig: several whole members on one fake wire, and a client who can speak to any of them.
 *
 * Member n, from 1 on, lives on a machine of its own at 10.0.0.n, with a disk, a page store and a
 * clock of its own, and is called mn. The client is at 10.0.1.1. A machine can be cut off, crash,
 * and be started again.
 *
 *     struct cluster_rig r;
 *     cluster_rig_open(&r, 3, NULL);
 *     cluster_rig_start_all(&r);
 *     unsigned leader = cluster_rig_leader(&r);
 *     cluster_rig_put(&r, leader, "k", "v");
 *     cluster_rig_close(&r);
 */
#pragma once

#include "api/api_rig_test.h"
#include "backend/backend_memory.h"
#include "config/config.h"
#include "io/fake_world.h"
#include "server/server.h"

enum { CLUSTER_RIG_MAX = 9 };

struct cluster_rig_host {
    struct cluster_rig *rig;
    unsigned number;
    struct inbox inbox;
    struct fake_clock clock;
    struct fake_entropy entropy;
    struct fake_fds fds;
    struct fake_disk *disk;
    struct fake_workers workers, store_worker;
    struct fake_resolver resolver;
    struct memory_disk *memory;
    struct io io;
    struct config config;
    struct arena flags;
    struct logger logger;
    struct buf logged, why;

    struct server *server; /* NULL while it is down */
    struct client *client; /* to this member; NULL while it is down */
    bool failed, ready, is_paused;
    bool may_fail; /* it is part of the test */
    bool is_out;   /* no member: not yet, or no longer */
};

struct cluster_rig {
    struct fake_time time;
    struct fake_wire *wire;
    struct inbox client_inbox;
    struct fake_clock client_clock;
    struct timer heart; /* time passes even when nobody is up */
    struct io client_io;
    unsigned count;
    uint64_t segment_bytes;                           /* of the logs; 0: as wal has it */
    struct cluster_rig_host *at[CLUSTER_RIG_MAX + 1]; /* from 1 */
};

/* The members know of each other by --initial-cluster; `flags` are for all of them, with a NULL at
 * their end, or NULL. Nobody is started yet. The world is the test's, or of another seed. */
void cluster_rig_open(struct cluster_rig *r, unsigned members, const char *const *flags);
void cluster_rig_open_seeded(struct cluster_rig *r, unsigned members, const char *const *flags,
                             uint64_t seed);
void cluster_rig_close(struct cluster_rig *r); /* stops those that are up */
/* A machine for one more member, which is to join: its --initial-cluster has all that are members,
 * and itself. Returns its number. */
unsigned cluster_rig_add_host(struct cluster_rig *r, const char *const *flags);
/* Other flags for one that is down. */
void cluster_rig_set_flags(struct cluster_rig *r, unsigned n, const char *const *flags);

/* Starts it; clients are perhaps not heard yet. */
void cluster_rig_start(struct cluster_rig *r, unsigned n);
void cluster_rig_start_all(struct cluster_rig *r); /* and goes on until all are ready */
/* The same where it may be refused: then *why says why. */
enum err cluster_rig_try_start(struct cluster_rig *r, unsigned n);
void cluster_rig_stop(struct cluster_rig *r, unsigned n);
/* It is no member any more, or about to be none: its client goes, nobody asks who it follows. */
void cluster_rig_expel(struct cluster_rig *r, unsigned n);
void cluster_rig_readmit(struct cluster_rig *r, unsigned n); /* it is one after all */
/* Goes on until it has stopped by itself. */
void cluster_rig_until_stopped(struct cluster_rig *r, unsigned n);
void cluster_rig_crash(struct cluster_rig *r, unsigned n);
/* Crashes it, if it is up, and takes its disks away: it begins with empty ones. */
void cluster_rig_lose_disks(struct cluster_rig *r, unsigned n);
void cluster_rig_cut(struct cluster_rig *r, unsigned n, bool cut);
/* Its process does not run, or goes on. */
void cluster_rig_pause(struct cluster_rig *r, unsigned n, bool pause);
/* The same, and its clock stands still meanwhile: it cannot know that any time has passed. */
void cluster_rig_freeze(struct cluster_rig *r, unsigned n, bool freeze);

/* One turn of each that has something to do, or time passes. */
void cluster_rig_step(struct cluster_rig *r);
void cluster_rig_for_ms(struct cluster_rig *r, uint64_t ms);
uint64_t cluster_rig_now_ms(struct cluster_rig *r);
void cluster_rig_until_ready(struct cluster_rig *r, unsigned n);
/* Who leads, by the word of most of those that are up and run; goes on until there is one. */
unsigned cluster_rig_leader(struct cluster_rig *r);
unsigned cluster_rig_follower(struct cluster_rig *r); /* any that is up and does not lead */
/* Until all that are up have applied what this one has. */
void cluster_rig_until_equal(struct cluster_rig *r, unsigned n);

/* One more connection to member n: client_close. */
struct client *cluster_rig_new_client(struct cluster_rig *r, unsigned n);

/* Asks member n, and waits or not. */
void cluster_rig_ask(struct cluster_rig *r, unsigned n, struct visit *v, const char *path,
                     const struct pb_schema *schema, const void *message);
void cluster_rig_until_over(struct cluster_rig *r, struct visit *v);
void cluster_rig_put(struct cluster_rig *r, unsigned n, const char *key, const char *value);
/* The value at member n, "" if there is none; good until the next. */
const char *cluster_rig_get(struct cluster_rig *r, unsigned n, const char *key, bool serializable);

bool cluster_rig_logged(const struct cluster_rig *r, unsigned n, const char *text);
