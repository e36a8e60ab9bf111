/*
 * state: what the log has made so far, the rooms that hold it, open on one store.
 *
 *     store (backend) <-- mvcc, leases, cluster, auth <-- apply
 *
 * Everything in here follows from the entries applied and from nothing else, so it can be thrown
 * away and built again from another store (install.h): a state that is open is a value, which may
 * be assigned, and the server's is the one that counts. Apply is the only one that changes it; what
 * it tells nobody else (that a key was put with a lease, that a settled key is gone) goes from room
 * to room in here.
 *
 * Promises   1. All of it opens, or none: what is refused says why, and state_close takes what
 *               there is.
 *            2. A store that contradicts itself later, or an entry that cannot be applied, is told
 *               to on_failed, once the rooms can go no further.
 * Threads    Whoever has it: one thread at a time, which need not be the core's while it is built
 *            or taken down.
 * Not here   The log, raft, whoever waits. Which store (boot.c, own_image.h).
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/logger.h"
#include "cluster/version.h"
#include "snap/snapfile.h"

struct apply;
struct auth;
struct auth_tokens;
struct backend;
struct cluster;
struct lease_set;
struct mvcc;

struct state_options {
    const struct logger *logger;
    uint64_t cluster_id, member_id;
    uint64_t election_ms, map_seed;
    unsigned max_learners;
    int64_t quota_bytes;                             /* 0: apply's default; negative: none */
    int64_t range_tombstone_keys_min;                /* of mvcc_options; 0: as mvcc has it */
    bool lease_checkpoint, lease_checkpoint_persist; /* of lease_options */
    struct auth_tokens *tokens; /* of apply_options: no state's, they outlive it */

    /* Whatever it is, this member can go no further. */
    void (*on_failed)(void *context, const char *text);
    void *context;
};

struct state_links; /* from room to room; stays where it is when the state is assigned */

struct state {
    struct state_options o;
    struct state_links *links;
    struct backend *backend;
    struct lease_set *leases;
    struct mvcc *mvcc;
    struct cluster *cluster;
    struct auth *auth;
    struct apply *apply;
    char storage_version[VERSION_TEXT_MAX]; /* as it was found */
};

/* On state->backend, which is open; everything else is zero. */
MUST_CHECK enum err state_open(struct state *state, const struct state_options *options,
                               struct buf *why);
/* The rooms, not the store. Also those of a state that was refused, or is all zeroes. */
void state_close(struct state *state);

/* It fails to these from now on, and no longer to whom it was opened for. */
void state_fails_to(struct state *state, void (*on_failed)(void *context, const char *text),
                    void *context);

/* Those who log in are given these from now on; NULL: none. */
void state_gives_out(struct state *state, struct auth_tokens *tokens);

/* Who belongs to the cluster, for a snapshot; lent until an entry is applied. */
struct snapfile_membership state_membership(const struct state *state);

/* What was counted in the state before this one goes on here. */
void state_continue_stats(struct state *state, const struct state *before);

/* Is nobody reading it any more, nor is the store at work? Of one that was replaced. */
bool state_is_unused(const struct state *state);

/* All rooms' invariants and the store's, asserted. */
void state_check(const struct state *state);
