/*
 * lease: time to live, and the keys that die with it.
 *
 * A lease is granted through the log, so all members know it; how much of its time has passed is
 * known to the leader alone, in its memory. Renewing touches nothing else. When time is up the
 * leader's server proposes to revoke it, and only the revoke, coming back through the log, ends it.
 *
 *     grant --> follower: no deadline --promote--> leader: expires at
 *                                    <--demote---
 *     leader: time is up --> lease_take_expired --> server proposes revoke --> apply:
 *             lease_revoke_begin, the keys in order are deleted in slices, lease_revoke_end
 *
 * The record {ID, TTL, RemainingTTL} lies in the backend's lease bucket, written as etcd writes it;
 * which key belongs to which lease is rebuilt from the keys at boot (lease_attach).
 *
 * Inside, leases stand in a table by id and in a list by grant, their keys in a tree for each lease
 * (keys.h). A leader also has them on a heap by the time they are due. Becoming leader with a
 * million leases would take a second, so it is done in slices (lease_settle): until a lease's turn
 * has come it is on no heap and has the deadline that follows from the promotion; and nothing
 * expires before all are in place, which is long before the shortest of them could.
 *
 * Life       lease_open loads the bucket; mvcc_open then shows the keys, to be attached;
 *            lease_close.
 * Promises   1. A lease never expires before its TTL has passed since the grant or the last
 *               renewal, or its remaining TTL since the promotion (plus the extension given there),
 *               on this member's clock.
 *            2. A key belongs to at most one lease.
 *            3. Expired leases come out in order of expiry, at most LEASE_REVOKES_MAX at a time and
 *               each again only after LEASE_RETRY_MS, in case the revoke was lost.
 *            4. No call takes longer with more leases, or more keys on one, than O(log n), except
 *               where it says.
 *            5. Everything that is written to the backend depends only on what was applied and on
 *               the options, never on the clock: members stay equal.
 * Not here   Deleting keys (apply). Proposing (server). Whether we lead (server tells).
 * Leans on   backend for the bucket, pb for the record. Time comes in as now_ms, monotonic.
 */
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "base/histogram.h"
#include "base/limits.h"

struct backend;
struct buf;
struct lease_set; /* opaque */

#define LEASE_TTL_MAX 9000000000ll /* seconds */

/* What a client may get. */
enum lease_result {
    LEASE_OK,
    LEASE_NOT_FOUND,
    LEASE_EXISTS,
    LEASE_TTL_TOO_LARGE,
    LEASE_NOT_PRIMARY, /* we do not lead: nobody here knows how much time has passed */
    LEASE_EXPIRED,     /* its revoke is under way: wait for it, then it is not found */
};

struct lease_options {
    struct backend *backend;
    int64_t min_ttl;                 /* seconds; shorter ones are raised to it */
    bool checkpoint;                 /* the leader spreads how much time is left */
    bool checkpoint_persist;         /* and it is kept in the record */
    uint64_t checkpoint_interval_ms; /* 0: LEASE_CHECKPOINT_INTERVAL_MS */
    uint64_t hash_seed;
};

/* Takes as long as the bucket is long. ERR_CORRUPT: a record that cannot be read; `why` gets a
 * sentence that names it. The caller owns *out and ends it with lease_close. */
MUST_CHECK enum err lease_open(const struct lease_options *options, struct buf *why,
                               struct lease_set **out);

/* Also takes its time. NULL is fine. */
void lease_close(struct lease_set *s);

/* Since cluster version 3.6 remaining times are always kept in the record: the server says so when
 * the version is reached, in the entry that does it. */
void lease_persist_checkpoints(struct lease_set *s, bool persist);

/* --- through the log, on every member --- */

/* A ttl below the minimum is raised to it; *granted_ttl says to what. Id 0 is nobody's: NOT_FOUND,
 * as etcd has it; api has chosen one before that. */
enum lease_result lease_grant(struct lease_set *s, int64_t id, int64_t ttl, uint64_t now_ms,
                              int64_t *granted_ttl);

/* Between begin and end the lease is still there; its keys, in ascending order, leave it by
 * lease_detach as they are deleted. Nothing is attached to it meanwhile (asserted). */
enum lease_result lease_revoke_begin(struct lease_set *s, int64_t id);
/* The first key still attached, lent until the next change; false if there is none. */
bool lease_first_key(const struct lease_set *s, int64_t id, struct bytes *key);
/* The lease is gone, and its record. No key is attached any more (asserted). */
void lease_revoke_end(struct lease_set *s, int64_t id);

/* A put has happened: the key now belongs to this lease, or (0) to none. A lease that does not
 * exist: LEASE_NOT_FOUND, nothing changes; apply has looked before, and who loads only logs it. */
enum lease_result lease_attach(struct lease_set *s, int64_t id, struct bytes key);
/* A delete has happened. A key without a lease is fine. `key` may be what lease_first_key lent. */
void lease_detach(struct lease_set *s, struct bytes key);

/* A delete has ended all keys of a range (to.at NULL: there is no end) that are attached now, and
 * has them detached later, one by one, if they are not attached again before. The same number of
 * keys as before, but lease_living_key knows. Those of an earlier one are all detached. */
void lease_end_range(struct lease_set *s, struct bytes from, struct bytes to);

/* How much time is left, told by the leader. Unknown leases are no news. */
void lease_checkpoint(struct lease_set *s, int64_t id, int64_t remaining_ttl);

/* --- leading --- */

/*
 * We lead from now on: every lease gets its remaining or full time again, and extend_ms on top. A
 * new leader cannot know how much the old one had used up; longer is safe, shorter breaks locks.
 * With LEASE_SPREAD_FROM leases or more, no more than LEASE_SPREAD_PER_S of them expire in one
 * second: those of a pile that are too many come later, as in etcd.
 *
 * The first LEASE_SETTLE_STEPS steps are done at once, so a few hundred leases are settled then.
 */
void lease_promote(struct lease_set *s, uint64_t now_ms, uint64_t extend_ms);
void lease_demote(struct lease_set *s);
bool lease_is_primary(const struct lease_set *s);

/* Goes on with what lease_promote began; two steps for each lease, O(log n) each. True when there
 * is nothing left to do. lease_take_expired does some, too, but it is called seldom. */
bool lease_settle(struct lease_set *s, unsigned steps);

/* Its time starts anew. *needs_checkpoint: a remaining ttl was recorded, or is about to be, and
 * the server must have it cleared through the log (a checkpoint of 0) before it answers. Both are
 * set with LEASE_OK. */
enum lease_result lease_renew(struct lease_set *s, int64_t id, uint64_t now_ms, int64_t *ttl,
                              bool *needs_checkpoint);

/* Up to `max` leases to be revoked now. Returns how many. */
size_t lease_take_expired(struct lease_set *s, uint64_t now_ms, int64_t ids[], size_t max);

/* Up to `max` checkpoints to propose now, LEASE_CHECKPOINTS_MAX at most. */
struct lease_remaining {
    int64_t id, remaining_ttl;
};
size_t lease_take_checkpoints(struct lease_set *s, uint64_t now_ms, struct lease_remaining out[],
                              size_t max);

/* --- asking --- */

struct lease_info {
    int64_t id, granted_ttl;
    int64_t remaining; /* seconds, cut towards 0, negative when overdue; granted_ttl when we do not
                          lead */
    size_t key_count;
    uint64_t key_bytes; /* of all of them */
    bool expired;       /* its time is up, or its revoke has begun */
};
bool lease_look(const struct lease_set *s, int64_t id, uint64_t now_ms, struct lease_info *out);
int64_t lease_of_key(const struct lease_set *s, struct bytes key); /* 0: none */
size_t lease_count(const struct lease_set *s);

/* What has happened since it was opened. Whoever opens another set in its place assigns them. */
struct lease_stats {
    uint64_t granted, revoked, renewed;
    struct histogram ttl; /* as granted, in HISTOGRAM_1S_24 */
};
struct lease_stats *lease_stats(struct lease_set *s);

/* The first key of a lease behind `after`, or of all (NULL bytes); false if there is none. Lent
 * until the next change. So a walk stands on what it has been given, whatever changes. */
bool lease_next_key(const struct lease_set *s, int64_t id, struct bytes after, struct bytes *key);

/* The first key of a lease at `from` or behind it that no lease_end_range has ended. Lent, too. */
bool lease_living_key(const struct lease_set *s, int64_t id, struct bytes from, struct bytes *key);

/*
 * All ids, in slices: by time left where we lead, by grant order elsewhere.
 *
 *     begin --> gather, until it is true --> next, until it is false --> end, at any time
 *
 * Between slices anything may happen. A lease that is there from begin until all are gathered is
 * listed exactly once, one that is granted after begin is not, one that is revoked before all are
 * gathered may be. Its place is by the time it had left when it was gathered: renewals come later,
 * and where leadership comes or goes meanwhile the order means nothing.
 */
struct lease_listing; /* opaque */

/* Memory that a listing of as many leases as there are now takes. */
size_t lease_listing_bytes(const struct lease_set *s);
/* The set outlives gathering. The caller ends the result with lease_listing_end. */
struct lease_listing *lease_listing_begin(const struct lease_set *s);
/* *steps: at most so many, and how many are left; a lease is one, O(log n). True: all are. */
bool lease_listing_gather(struct lease_listing *l, unsigned *steps);
/* When all are gathered: the next of them, in order. O(log n). */
bool lease_listing_next(struct lease_listing *l, int64_t *id);
void lease_listing_end(struct lease_listing *l); /* NULL is fine */

/* The same in one go, for tests and digests. Appends int64_t's. */
void lease_list(const struct lease_set *s, struct buf *ids);

/* All invariants, asserted; walks everything. */
void lease_check(const struct lease_set *s);
