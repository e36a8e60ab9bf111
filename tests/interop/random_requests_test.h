/*
 * random_requests: what clients may ask of keys and leases, sensible, odd and hostile, from a seed.
 *
 * Alarms are few and soon lifted, or nothing would ever be written.
 *
 * A few dozen keys that are prefixes and neighbours of each other, few values so that many are
 * equal, leases that do not expire, revisions around the present one, the compacted one and far
 * away, every option and every enum, and beside them empty keys, reversed ranges, numbers at both
 * ends and enums that nobody has named. Everything lies in the arena.
 */
#pragma once

#include "base/rng.h"
#include "pb/codec.h"

enum request_kind {
    REQUEST_OF_RANGE,
    REQUEST_OF_RANGE_STREAM,
    REQUEST_OF_PUT,
    REQUEST_OF_DELETE,
    REQUEST_OF_TXN,
    REQUEST_OF_COMPACT,
    REQUEST_OF_GRANT,
    REQUEST_OF_REVOKE,
    REQUEST_OF_TIME_TO_LIVE,
    REQUEST_OF_LEASES,
    REQUEST_OF_ALARM,
    REQUEST_OF_HASH_KV,
    REQUEST_OF_LOCK,
    REQUEST_OF_UNLOCK,
    REQUEST_OF_CAMPAIGN,
    REQUEST_OF_PROCLAIM,
    REQUEST_OF_LEADER,
    REQUEST_OF_RESIGN,
    REQUEST_KINDS,
};

struct random_request {
    enum request_kind kind;
    const void *message; /* of the kind's request schema */
    bool may_put_again;  /* a transaction that may delete a key and put it again */
};

/* More revisions than there are between a compaction and the present. */
enum { RANDOM_REVISIONS_MAX = 4096 };

/*
 * Two things are left out, since real etcd does not survive them: a key that a transaction deletes
 * from-key and puts with the value or the lease that it had; and a compaction at the revision of
 * one that deletes a key and puts it again, after which the value is lost and a range that meets
 * the key ends the process. So is a third: an alarm of a type that nobody has named.
 *
 * Of locks and elections each name has a lease of its own, so that nobody ever waits.
 */
struct random_requests {
    struct rng rng;
    struct arena *arena;
    int64_t revision; /* of the store, as far as the test knows */
    int64_t compacted;
    bool is_compacted_at_0;                /* that was once possible */
    bool puts_again[RANDOM_REVISIONS_MAX]; /* of each revision, by its remainder */
    struct pb_alarm_member alarms[16];     /* that are active; each keeps others from writing */
    size_t alarm_count;
    int64_t led; /* since this revision, by whoever was elected last */
};

struct random_request random_request(struct random_requests *r);

/* A compaction, of which requests have few. */
struct random_request random_compaction_of(struct random_requests *r);

/* A watcher of some keys from some revision on, which is not to come: then a stream would not tell
 * of its progress. */
struct pb_watch_create_request random_watcher(struct random_requests *r);

/* The newest at or before that revision at which etcd can be compacted. */
int64_t random_compaction(const struct random_requests *r, int64_t revision);

/* What came of one that succeeded: the revision in its header. */
void random_request_done(struct random_requests *r, const struct random_request *q,
                         int64_t revision);
