/*
 * state: what the log has made so far, the rooms that hold it, open on one store.
 *
 *     store (backend) <-- mvcc, leases, cluster <-- apply
 *
 * Everything in here follows from the entries applied and from nothing else, so it could be thrown
 * away and built again from another store of the same index. Apply is the only one that changes it;
 * what it tells nobody else (that a key was put with a lease, that a settled key is gone) goes from
 * room to room in here.
 *
 * Promises   1. All of it opens, or none: what is refused says why, and state_close takes what
 *               there is.
 *            2. A store that contradicts itself later, or an entry that cannot be applied, is told
 *               to on_failed, once the rooms can go no further.
 * Not here   The log, raft, whoever waits. Which store (boot.c).
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/logger.h"
#include "cluster/version.h"

struct apply;
struct backend;
struct cluster;
struct lease_set;
struct mvcc;

struct state_options {
    const struct logger *logger;
    uint64_t cluster_id, member_id;
    uint64_t election_ms, map_seed;
    unsigned max_learners;
    int64_t quota_bytes;              /* 0: apply's default; negative: none */
    int64_t range_tombstone_keys_min; /* of mvcc_options; 0: as mvcc has it */

    /* Whatever it is, this member can go no further. */
    void (*on_failed)(void *context, const char *text);
    void *context;
};

struct state {
    struct state_options o;
    struct backend *backend;
    struct lease_set *leases;
    struct mvcc *mvcc;
    struct cluster *cluster;
    struct apply *apply;
    char storage_version[VERSION_TEXT_MAX]; /* as it was found */
};

/* On state->backend, which is open; everything else is zero. */
MUST_CHECK enum err state_open(struct state *state, const struct state_options *options,
                               struct buf *why);
/* The rooms, not the store. Also those of a state that was refused, or is all zeroes. */
void state_close(struct state *state);

/* All rooms' invariants and the store's, asserted. */
void state_check(const struct state *state);
