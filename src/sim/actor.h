/*
 * actor: a client in the simulated world, with its own connection and its own habits.
 *
 *     witness   watches everything from the first revision on, for the history
 *     writer    one call after the other: puts, deletes, transactions within transactions, reads of
 *               now and of the past, leases, compactions; and now and then it leaves in between
 *     herder    the same, but a hundred keys at a time, deleted at once; it compacts behind that
 *     crowd     the same, but small and many at a time
 *     reader    ranges of all options, mostly of the past
 *     lessee    leases, and renews them on a stream that it keeps
 *     poller    linearizable reads of what is newest, a few at a time, and nothing else
 *     keeper    one lease, and renews it shortly before it ends, as long as it lasts; now and then
 *               it stops doing so
 *     operator  hashes members' stores, at revisions of now, of the past and of compactions,
 *               defragments them, moves leadership, and makes backups, fast or slowly, which it
 *               restores; wherever it is connected to
 *     watcher   watches some of it from somewhere, now and then anew, and reads slowly
 *     administrator  where there are users and roles: adds and deletes them, grants and revokes,
 *               switches auth on and off
 *
 * It is connected to one member at a time. When the connection is lost, or does not come about, or
 * a watch is silent, or a call was not answered in time, it goes to another member after a while,
 * as etcd's clients do; and as with them:
 *
 *     reads, grants, revokes, renewals,  are sent again, a few times
 *     hashes, moves of leadership,
 *     backups, from their beginning
 *     puts, deletes, transactions        are not, if they may have been sent: nobody knows whether
 *                                        one without an answer has happened
 *     watches                            go on after the last revision seen, or told of
 *
 * Where members come and go, it learns of that when it looks for another one, or some time later.
 *
 * Most make one call at a time. At a leader that nobody else hears, whoever writes is soon
 * stuck with a write, and only pollers and keepers go on asking it.
 *
 * Where there are users and roles each of them is a user, and logs in when it is told that it must
 * (login.c); what it was told, and what it was let do, is held against permits.h.
 *
 * An error leaves an operation unknown, unless it says for certain that it has not happened.
 */
#pragma once

#include "io/fake_world.h"
#include "sim/history.h"
#include "sim/permits.h"

enum actor_kind {
    ACTOR_WITNESS,
    ACTOR_WRITER,
    ACTOR_HERDER,
    ACTOR_CROWD,
    ACTOR_READER,
    ACTOR_LESSEE,
    ACTOR_POLLER,
    ACTOR_KEEPER,
    ACTOR_OPERATOR,
    ACTOR_WATCHER,
    ACTOR_ADMINISTRATOR,
};

enum { ACTOR_SERVERS_MAX = HISTORY_MEMBERS_MAX };

struct actor; /* opaque */

struct actor_options {
    enum actor_kind kind;
    const struct io *io;                           /* of the clients' host */
    struct net_address servers[ACTOR_SERVERS_MAX]; /* by member */
    size_t server_count;
    /* Which of them are members, a bit for each, as it becomes known; NULL: all are. */
    const uint32_t *endpoints;
    struct history *history;
    struct rng rng;
    unsigned pause_ms_max;   /* between two calls */
    uint64_t standstill_ms;  /* of climate.h: keepers wait for a leader that stands still, with
                                leases  that outlast it; 0: there is none */
    bool renews_late;        /* a keeper: when its lease ends, or has just ended */
    bool has_herd;           /* it also writes, reads and deletes hundreds of keys at once */
    bool has_quota;          /* the member may be full */
    bool disk_may_fail;      /* or its disk, or that may be sick */
    struct permits *permits; /* NULL: there are no users and roles */
    unsigned user;           /* that it is, then */
};

struct actor *actor_new(const struct actor_options *options);
void actor_free(struct actor *a);

/* Takes what has happened to it, and does what it does next. */
void actor_turn(struct actor *a);

/* It is to begin nothing new. A writer is idle when its last call is over; a witness and watchers
 * when they have seen everything up to this revision. */
void actor_wind_down(struct actor *a);
bool actor_is_idle(const struct actor *a, int64_t revision);

/* A writer's last call: the whole state, linearizable, at this member. It is idle when it has it.
 */
void actor_read_all(struct actor *a, size_t server);

/* Its own records against the history, when the witness has seen everything. */
void actor_check(struct actor *a);

/* How many calls it has made; a hundred at once count as one. */
uint64_t actor_calls(const struct actor *a);
