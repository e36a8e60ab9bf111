/*
 * actor: a client in the simulated world, with its own connection and its own habits.
 *
 *     witness   watches everything from the first revision on, for the history
 *     writer    one call after the other: puts, deletes, transactions within transactions, reads of
 *               now and of the past, leases, compactions; and now and then it leaves in between
 *     herder    the same, but a hundred keys at a time, deleted at once; and it compacts behind
 * that group     the same, but small and many at a time reader    ranges of all options, mostly of
 * the past lessee    leases watcher   watches some of it from somewhere, now and then anew, and
 * reads slowly
 *
 * When a connection is lost, it connects again after a while. A write whose answer never came may
 * or may not have happened.
 */
#pragma once

#include "io/fake_world.h"
#include "sim/history.h"

enum actor_kind {
    ACTOR_WITNESS,
    ACTOR_WRITER,
    ACTOR_HERDER,
    ACTOR_CROWD,
    ACTOR_READER,
    ACTOR_LESSEE,
    ACTOR_WATCHER,
};

struct actor; /* opaque */

struct actor_options {
    enum actor_kind kind;
    const struct io *io; /* of the clients' host */
    struct net_address server;
    struct history *history;
    struct rng rng;
    unsigned pause_ms_max; /* between two calls */
    bool has_herd;         /* it also writes, reads and deletes hundreds of keys at once */
    bool has_quota;        /* the member may be full */
};

struct actor *actor_new(const struct actor_options *options);
void actor_free(struct actor *a);

/* Takes what has happened to it, and does what it does next. */
void actor_turn(struct actor *a);

/* It is to begin nothing new. A writer is idle when its last call is over; a witness and watchers
 * when they have seen everything up to this revision. */
void actor_wind_down(struct actor *a);
bool actor_is_idle(const struct actor *a, int64_t revision);

/* A writer's last call: the whole state. */
void actor_read_all(struct actor *a);

/* Its own records against the history, when the witness has seen everything. */
void actor_check(struct actor *a);

/* How many calls it has made; a hundred at once count as one. */
uint64_t actor_calls(const struct actor *a);
