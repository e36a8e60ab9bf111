/*
 * digest: the replicated state of a member in a few numbers.
 *
 * Two members that have applied the same entries have the same state, and so has one that has
 * applied them twice, before a crash and after it. The simulator takes digests of members and holds
 * those of the same applied index against each other (sim/cluster_check.h).
 *
 *     keys      HashKV at the newest revision: all history since the last compaction, whatever of
 *               it the compaction has not removed yet
 *     leases    ids, granted TTLs and the keys attached, as memory has them: a revoke deletes these
 *     alarms    as memory has them
 *     cluster   members, removed ids, version, downgrade, as memory has them
 *     records   of all but the keys, as the store has them: what a restart will find
 *
 * Left out is what does not follow from the entries applied alone: how much of a lease's time is
 * left (the leader's clock; what a checkpoint has said of it counts with the lease's record, if it
 * is kept there); how far a compaction or a large delete has come; of the bucket meta notes on
 * those, the storage version, and the confState, which a boot makes anew from the members.
 *
 * Members that have the same --election-timeout are meant: the shortest TTL follows from it, and a
 * restart with another raises the TTLs in memory, as etcd's does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct state;

#define DIGEST_PART_LIST(X)                                                                        \
    X(DIGEST_KEYS, "keys")                                                                         \
    X(DIGEST_LEASES, "leases")                                                                     \
    X(DIGEST_ALARMS, "alarms")                                                                     \
    X(DIGEST_CLUSTER, "cluster")                                                                   \
    X(DIGEST_RECORDS, "records")

#define DIGEST_PART_ENUM(name, text) name,
enum digest_part { DIGEST_PART_LIST(DIGEST_PART_ENUM) DIGEST_PARTS };
#undef DIGEST_PART_ENUM

const char *digest_part_name(enum digest_part part); /* "keys" */

struct digest {
    uint64_t applied; /* the index it is of */
    int64_t revision, compact_revision;
    uint32_t parts[DIGEST_PARTS];
};

/* All of it in one go, which takes as long as there is history. False: an entry is half applied, or
 * a large delete is not settled, so some of it is of no entry at all; later it is. */
bool digest_take(const struct state *state, struct digest *out);
