/*
 * auto_compaction: history is compacted without anybody's asking, as far as the operator's flags
 * let it.
 *
 * By time: the store's revision is sampled ten times in the retention, or every six minutes if that
 * is less. What is as old as the retention is the oldest sample kept: it is compacted at, once per
 * retention or hour, but not before the first retention is over; and if that fails, at each further
 * sample. By revisions: every five minutes all but the newest, as many as the retention says.
 *
 * Every member samples, so that one that begins to lead knows what is old; only who leads compacts.
 * Samples are in memory alone: a restart begins anew.
 *
 *     timer --> auto_compaction_work --> _take_proposal --> pending --> ... --> _applied --> work
 *
 * A sample is taken when a timer has gone off, and the next timer is set after it: a member that
 * stood still has fewer samples, never several of one moment. So nothing is compacted that is
 * younger than the retention, by this member's monotonic clock. The wall clock is not asked.
 *
 * Promises   1. Periodic: a revision that is compacted at was the store's a whole retention ago.
 *            2. One compaction is under way at a time; one that is not applied within the time
 *               limit of a proposal has failed.
 *            3. A revision is compacted at no more than once.
 * Not here   Compacting (mvcc), and when what was compacted is removed (housekeeping.h).
 * Leans on   a clock; api for its facts, apply for results.
 */
#pragma once

#include "api/api.h"
#include "io/clock.h"

struct logger;

struct auto_compaction_options {
    struct clock *clock;
    const struct logger *logger;
    const struct api_facts *facts; /* kept up to date by the server */
    bool counts_revisions;
    int64_t retention; /* revisions, or else nanoseconds; 0: there is no such compaction */
    uint64_t limit_ms; /* of a proposal */
};

enum auto_compaction_step {
    AUTO_COMPACTION_OFF,
    AUTO_COMPACTION_WAITING, /* for the timer */
    AUTO_COMPACTION_DUE,     /* the timer has gone off */
    AUTO_COMPACTION_WANTED,  /* to be proposed */
    AUTO_COMPACTION_ASKED,   /* proposed */
    AUTO_COMPACTION_OVER,    /* applied, with this result */
};

struct auto_compaction {
    struct auto_compaction_options o;
    struct timer timer;
    enum auto_compaction_step step;
    uint64_t interval_ns;

    /* The store's revisions, oldest first, from `oldest` on and around. They grow with time, up to
     * sample_max: after ten years of a retention that is longer, 7 MB. */
    int64_t *samples;
    size_t oldest, sample_count, sample_cap, sample_max;

    int64_t compacted;     /* the last one at which it succeeded */
    uint64_t succeeded_ns; /* when; before that, when this member began */
    uint64_t pause_ns;     /* from then until the next */

    struct pb_compaction_request request; /* the one under way */
    uint64_t id, began_ns;
    enum result result;
};

/* The store's revision is the first sample. */
void auto_compaction_init(struct auto_compaction *a, const struct auto_compaction_options *options,
                          int64_t revision);
void auto_compaction_stop(struct auto_compaction *a); /* its timer; also one that is all zeroes */
void auto_compaction_free(struct auto_compaction *a); /* likewise */

/* A turn has come, and this is the store's revision. */
void auto_compaction_work(struct auto_compaction *a, int64_t revision);

/* A compaction to be put through the log by a leader; it has been given this id, and was applied.
 * Other ids change nothing. */
bool auto_compaction_take_proposal(struct auto_compaction *a, struct pb_internal_raft_request *out);
void auto_compaction_proposed(struct auto_compaction *a, uint64_t id);
void auto_compaction_applied(struct auto_compaction *a, uint64_t id, enum result result);

/* All invariants, asserted. */
void auto_compaction_check(const struct auto_compaction *a);
