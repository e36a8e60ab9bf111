/*
 * corruption: do all members hold the same?
 *
 * Every member applies the same entries, so at the same revision, compacted at the same one, the
 * hash of the keys (HashKV) is the same everywhere. Where it is not, somebody's store is damaged,
 * or a server has a bug. Three checks, which are etcd's and are made where the operator asks for
 * them:
 *
 *     initial      by a member that starts, before it takes part in anything, if it has a log: its
 *                  newest revision. It differs from another member: it does not start
 *     periodic     by the leader: its newest revision, then a read round, so that nobody who is
 *                  ahead of it can be right. Who differs from the leader is named, the first only
 *     compaction   by the leader: the hashes that finished compactions have left (mvcc.h), the
 *                  newest first, down to the last that was compared with all. The majority is
 *                  right, and every other is named; without one nobody is, and it is member 0
 *
 *         HASHING --> ASKING --> CONFIRMING --> HASHING_AGAIN     periodic
 *         HASHING --> ASKING                                      initial
 *                     ASKING --> ASKING ...                       compaction
 *
 * Who is named gets a CORRUPT alarm, through the log; from then on the cluster takes no writes
 * (apply). Nobody is named for not answering, for lacking the revision, or for having compacted
 * somewhere else: that may all be by being slow.
 *
 * Promises   1. One check at a time, of whichever has been due for longest.
 *            2. No call does more than a slice of hashing.
 *            3. An alarm that is lost on its way is raised again by the next check.
 * Not here   Asking (hash_round.h), hashing (mvcc), what an alarm does (apply).
 */
#pragma once

#include "api/api.h"
#include "io/clock.h"
#include "mvcc/mvcc.h"
#include "server/hash_round.h"

struct cluster;
struct state;

struct corruption_options {
    struct peers *peers;
    struct cluster *cluster;
    struct mvcc *mvcc;
    struct clock *clock;
    const struct api_facts *facts; /* kept up to date by the server */
    const struct logger *logger;
    uint64_t limit_ms;                       /* for one URL of a member to respond */
    uint64_t periodic_ms, compact_period_ms; /* between two checks; 0: there are none */
};

enum corruption_step {
    CORRUPTION_IDLE,
    CORRUPTION_HASHING,
    CORRUPTION_ASKING,
    CORRUPTION_CONFIRMING,
    CORRUPTION_HASHING_AGAIN,
};

enum corruption_kind { CORRUPTION_INITIAL, CORRUPTION_PERIODIC, CORRUPTION_COMPACTION };

/* A hash of ours, and what others may say who hold the same (mvcc.h). */
struct own_hash {
    int64_t revision, compact_revision;
    uint32_t hash, other;
};

struct corruption {
    struct corruption_options o;
    enum corruption_step step;
    enum corruption_kind kind; /* of the check under way */
    uint64_t next_periodic_ms, next_compaction_ms;
    struct timer timer; /* for the next of them, while none is under way */

    struct mvcc_hash hashing; /* our own */
    struct own_hash own;      /* that the others are compared with */
    struct hash_round round;
    struct api_call call; /* while pending has it: the read round */
    bool call_is_due;

    struct own_hash compactions[MVCC_HASHES_MAX]; /* to be compared, from `compared` on */
    size_t compaction_count, compared;
    int64_t checked_revision; /* of a compaction, the newest that all members agreed on */

    bool differs;                             /* what the initial check has found */
    uint64_t alarms[CLUSTER_MEMBERS_MAX + 1]; /* members to be named, and perhaps 0 */
    size_t alarm_count;
    struct pb_alarm_request alarm; /* what the proposal that was taken last points to */
};

/* The facts are those of a member that knows who it is. */
void corruption_init(struct corruption *c, const struct corruption_options *options);
void corruption_stop(struct corruption *c); /* its timer; also one that is all zeroes */
/* The store is still there. Also one that is all zeroes. */
void corruption_free(struct corruption *c);

/* --- tell --- */

/* The check before it serves; corruption_work until corruption_is_idle, then corruption_differs. */
void corruption_begin_initial(struct corruption *c);

/* A turn has come. False: there is more to be done at once. */
bool corruption_work(struct corruption *c, unsigned steps);

/* A PEER_RESULT of a hash. */
void corruption_result(struct corruption *c, const struct peer_event *e);

/* The read round that was taken has ended, so or so. */
void corruption_confirmed(struct corruption *c);
void corruption_unconfirmed(struct corruption *c, enum result why);

/* The state is another one (install.h). */
void corruption_state_replaced(struct corruption *c, const struct state *state);

/* --- take --- */

/* A read round is to be made, for &c->call. */
bool corruption_take_need(struct corruption *c, struct api_need *out);

/* An alarm to be put through the log; lives until the next is taken. */
bool corruption_take_proposal(struct corruption *c, struct pb_internal_raft_request *out);

/* --- ask --- */

bool corruption_is_idle(const struct corruption *c);
bool corruption_differs(const struct corruption *c);

/* All invariants, asserted. */
void corruption_check(const struct corruption *c);
