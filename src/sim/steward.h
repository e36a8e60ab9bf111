/*
 * steward: an operator who changes members in a simulated world.
 *
 * It asks any member that it knows of, as a client does, for the list of members, and then for some
 * change to it: to add one, as a voter or a learner; to promote a learner, ready or not; to remove
 * one, the leader too; to give one other peer URLs; a replacement, which is two of these; or for
 * what must be refused. It never knows more than it was told: a change that was not answered has
 * happened if the next list says so. It knows its machines, though, and asks any that is a member,
 * also one that has not told yet where clients find it.
 *
 *     list --> machines are started for members that have none --> a change --> list --> ...
 *
 * Members have one name and one machine each, for ever: m3 is at 10.0.0.3, at port 2380 or 2381 or
 * both. Who was removed does not come back; another machine takes its place.
 *
 * It leaves at least two voters, and lets the cluster have seven: where two are left and the
 * one that leads is removed, it may stop before the other has heard, which then waits for ever,
 * in etcd as here.
 *
 * Several operators ask at the same time, each at a member of its own choice, so raft gets changes
 * while others are not applied. They share their machines (struct steward_fleet) and nothing else:
 * no machine is added twice, and a voter is not removed if those whose removal anybody has asked
 * for leave too few. They often agree on a moment to ask for something, so that their changes meet,
 * with pauses in which leases get old. Three of four changes are updates: no check refuses an
 * update, and it leaves the members as they are.
 *
 * Not here   Machines (sim.c). What lists must be like (roster.h).
 */
#pragma once

#include "base/rng.h"
#include "io/fake_world.h"
#include "sim/climate.h"
#include "sim/roster.h"

struct steward; /* opaque */

/* Where clients find members: a bit for each machine. */
struct steward_endpoints {
    uint32_t voters, all;
};

/* What operators know of their machines, mostly a bit for each. All zeroes at first. */
struct steward_fleet {
    unsigned operators;
    uint32_t used;                        /* was asked for, whatever came of it */
    uint32_t adds;                        /* of them, those of which nothing was heard */
    uint32_t listed;                      /* was a member by the list of some operator */
    uint64_t meet_ns;                     /* when all of them ask for their next change */
    unsigned removals[CLIMATE_HOSTS_MAX]; /* asked for, and not refused */
};

/* By the number of the machine. */
struct steward_handlers {
    /* It is a member now, and has no machine, or one that did not get into the cluster: here is
     * what to tell it of the members. */
    void (*start)(void *context, unsigned host, const char *initial_cluster);
    bool (*needs_start)(void *context, unsigned host);
    /* It will be asked to go: a moment for it to be cut off, or to be down. */
    void (*before_removal)(void *context, unsigned host);
    /* Something was asked for. */
    void (*asked)(void *context);
    void (*trace)(void *context, const char *text);
};

struct steward_options {
    const struct io *io;
    unsigned founders, hosts;
    struct rng rng;
    struct roster *roster;
    struct steward_fleet *fleet;         /* lent; of all operators */
    struct steward_endpoints *endpoints; /* lent; as the last list has them */
    const struct steward_handlers *on;
    void *context;
};

struct steward_counts {
    unsigned asked, added, learners, promoted, removed, updated, refused, unknown;
};

struct steward *steward_new(const struct steward_options *options);
void steward_free(struct steward *s); /* NULL is fine */
void steward_turn(struct steward *s);

/* No more changes; it goes on looking after those it has asked for. */
void steward_wind_down(struct steward *s);

/* A machine was not let in: whom it has asked knows other members than it was told of. The refusal
 * names them, and it may be started again with these. */
void steward_refused(struct steward *s, unsigned host, const char *why);

/* At the end: it asks for nothing any more. */
void steward_stop(struct steward *s);
bool steward_is_idle(const struct steward *s);

/* Is it a member, as far as that is known? */
bool steward_knows(const struct steward *s, unsigned host);

/* So often it was told of all members. */
uint64_t steward_lists(const struct steward *s);

struct steward_counts steward_counts(const struct steward *s);

/* The first thing that it was told and should not have been, or NULL. */
const char *steward_problem(const struct steward *s);
