/*
 * housekeeping: what is due from time to time, whether or not anybody calls.
 *
 *     the store     is committed; history is compacted, large deletes are settled, in slices
 *     leases        that have expired are revoked, by the leader; and if it is to, it tells the
 *                   others how much of their time is left
 *     versions      the cluster's is raised, by the leader that has asked all members for theirs,
 *                   or lowered if a downgrade is enabled, which is ended when all run its target;
 *                   the store's follows it
 *     the quota     exceeded by an entry, it raises the NOSPACE alarm
 *     this member   is made known to its cluster; clients are heard from then on
 *
 * What can be done here is done by housekeeping_work, a slice at a time. What must go through the
 * log is taken by the server as a proposal; if it is lost on the way, the same need shows itself
 * again later, so nobody waits for it.
 *
 *     facts, time --> housekeeping_work --> the rooms' own work
 *                 --> housekeeping_take_proposal --> pending --> ... --> housekeeping_applied
 *
 * Promises   1. No call does more than a slice of each kind of work.
 *            2. An alarm of its own is on its way once per election timeout at most, a publication
 *               once per time limit of a proposal.
 *            3. Only a leader revokes leases, or tells of their time. One that was replaced and has
 *               not heard of it finds nobody who takes that from it.
 *            4. The store's version is not lowered before the log begins with a snapshot of the
 *               lowered version: whoever reads the one can read the other.
 * Not here   Making snapshots of the log (log_snapshot.h). Reading the store's version at boot
 *            (storage_version.h).
 * Leans on   backend, mvcc, lease, cluster, apply, log_snapshot; a clock for one pause, and for how
 *            long compactions take.
 */
#pragma once

#include "api/api.h"
#include "apply/apply.h"
#include "backend/backend.h"
#include "cluster/cluster.h"
#include "io/clock.h"
#include "lease/lease.h"
#include "server/log_snapshot.h"
#include "server/state.h"

struct housekeeping_options {
    struct backend *backend;
    struct mvcc *mvcc;
    struct lease_set *leases;
    struct cluster *cluster;
    const struct apply *apply;
    const struct auth *auth;
    struct clock *clock;
    const struct logger *logger;
    struct log_snapshot *snapshot;
    const struct api_facts *facts;   /* kept up to date by the server */
    struct pb_attributes attributes; /* this member's, to be published; lent */
    uint64_t commit_interval_ms;
    uint64_t publish_retry_ms;
    uint64_t downgrade_check_ms; /* how often to see whether a downgrade is over; 0: never */
    unsigned settle_steps, compact_steps; /* in one slice; 0: MVCC_SLICE_STEPS */
    uint64_t compact_batch; /* steps of a compaction until it pauses; 0: it does not */
    uint64_t compact_pause_ns;
};

/* Compactions, as far as they were carried out here. */
struct housekeeping_stats {
    struct histogram index_pauses; /* HISTOGRAM_500US_14 */
    struct histogram pauses;       /* of the core thread, by each slice: HISTOGRAM_1MS_13 */
    struct histogram totals;       /* HISTOGRAM_100MS_14 */
    int64_t last_unix;             /* when the last one ended; 0: none has */
    uint64_t leases_expired;
};

struct housekeeping {
    struct housekeeping_options o;
    struct housekeeping_stats stats;
    uint64_t compaction_began_ns; /* 0: none is under way */
    uint64_t compactions;         /* of mvcc that were counted */
    uint64_t last_commit_ms;
    uint64_t next_lease_ms, next_checkpoint_ms, next_version_ms, next_downgrade_ms;
    uint64_t next_publish_ms, next_alarm_ms;
    struct timer settle_timer, compact_timer;
    uint64_t batch_left; /* of a compaction, until it pauses */
    char storage_version[VERSION_TEXT_MAX], cluster_version[VERSION_TEXT_MAX];
    bool alarm_is_due;
    int64_t expired[LEASE_REVOKES_MAX]; /* leases to be revoked: those from `revoked` on */
    size_t expired_count, revoked;
    uint64_t revoke_id;                /* of the revoke that was proposed last; 0: of none */
    bool awaits_revokes;               /* it is not applied, and may still be */
    bool is_published;                 /* the cluster knows us */
    uint64_t publish_id, published_to; /* of the last try; and who led then */

    /* what the proposal that was taken last points to */
    struct pb_alarm_request alarm;
    struct pb_lease_id lease;
    struct pb_request_header header;
    struct pb_lease_checkpoint_request checkpoint;
    struct pb_lease_checkpoint checkpoints[LEASE_CHECKPOINTS_MAX];
    struct pb_cluster_member_attr_set_request publication;
    struct pb_cluster_version_set_request version;
    char version_text[VERSION_TEXT_MAX];
    bool version_is_due; /* that one, to be proposed */
    struct pb_downgrade_info_set_request downgrade;
    bool downgrade_is_over; /* to be proposed */
};

/* The store's version is the one that storage_version_read found. The log's snapshots are ready. */
void housekeeping_init(struct housekeeping *h, const struct housekeeping_options *options,
                       const char *storage_version);
void housekeeping_stop(struct housekeeping *h); /* its timer; also one that is all zeroes */

/* --- tell --- */

/* The store has grown beyond its quota: the alarm is raised. */
void housekeeping_quota_exceeded(struct housekeeping *h);
/* A write is refused for the quota, and raises the alarm itself: only the logger hears of it. */
void housekeeping_quota_refused(struct housekeeping *h);

/* What housekeeping_wants_versions wanted to know: what all servers run; NULL: one of them did not
 * tell. */
void housekeeping_versions(struct housekeeping *h, const struct version_range *servers);

/* The proposal that was taken has been given this id. */
void housekeeping_proposed(struct housekeeping *h, const struct pb_internal_raft_request *request,
                           uint64_t id);

/* May the revoke that was proposed last (revoke_id) still be applied? Then no lease is revoked. */
void housekeeping_await_revokes(struct housekeeping *h, bool awaits);
/* Leases start afresh: each revoke that was proposed earlier is applied, or lost. */
void housekeeping_leases_started(struct housekeeping *h);

/* A request has been applied. True if it has made this member known: from now on it is open for
 * business. */
bool housekeeping_applied(struct housekeeping *h, uint64_t id);

/* The state is another one (install.h), whose store is of this version. */
void housekeeping_state_replaced(struct housekeeping *h, const struct state *state);

/* A turn has come: some of what is due. True if there is more to be done at once. */
bool housekeeping_work(struct housekeeping *h);

/* --- take --- */

/* All servers are to be asked for their versions; once per HOUSEKEEPING_VERSION_MS, of a leader,
 * and while a downgrade is enabled as often as it is checked. */
bool housekeeping_wants_versions(struct housekeeping *h);

/* Something to be put through the log, without a header; what it points to lives until the next
 * one is taken. */
bool housekeeping_take_proposal(struct housekeeping *h, struct pb_internal_raft_request *out);

/* --- ask --- */

bool housekeeping_is_published(const struct housekeeping *h);

/* All invariants, asserted. */
void housekeeping_check(const struct housekeeping *h);
