/*
 * log_snapshot: a note that the store has everything up to some index, so that the log before it
 * may go.
 *
 * The state itself stays in the store. The note is a small file, written by a worker, and then a
 * record in the log; when that record is durable, the log may be released, but for some entries
 * that followers who are a little behind still want to have.
 *
 *     IDLE --due, begin--> WRITING --the worker is done--> WRITTEN --take_record, recorded_as-->
 *          <--could not be written: in a second--+
 *     RECORDING --durable, take_release--> IDLE
 *
 * Promises   1. A snapshot promises what is durable in the store, and no more; and the
 *               configuration in it is the one at its index: while a change of it is newer than
 *               what is durable, none is taken.
 *            2. Nothing is released before the record is durable, and never what raft does not know
 *               as applied (asserted).
 *            3. Of the files the newest `keep` are left.
 *            4. One that could not be written is tried again every second: on a full disk the log
 *               may be what fills it, and nothing else makes it shorter. There is one line for all
 *               of these.
 * Not here   The log, and raft's: the server carries values between them. What a snapshot contains
 *            when it is sent to another member.
 * Leans on   snap/snapfile.h, entry.h for a configuration, io for the worker and its disk.
 */
#pragma once

#include "base/arena.h"
#include "base/histogram.h"
#include "entry/entry.h"
#include "io/worker.h"
#include "snap/snapfile.h"

struct log_snapshot_options {
    struct disk *disk;
    struct workers *workers;
    const struct logger *logger;
    const char *dir;   /* of the files; lent */
    unsigned keep;     /* files; 0: all */
    uint64_t count;    /* entries between two snapshots */
    uint64_t catch_up; /* entries that stay in the log */
    uint64_t member_id;
};

enum log_snapshot_state {
    LOG_SNAPSHOT_IDLE,
    LOG_SNAPSHOT_WRITING,
    LOG_SNAPSHOT_WRITTEN,
    LOG_SNAPSHOT_RECORDING,
};

struct log_snapshot {
    struct log_snapshot_options o;
    enum log_snapshot_state state;
    uint64_t recorded_index;   /* of the last one whose record is durable */
    uint64_t wanted_index;     /* one at or above this, however few entries that are */
    uint64_t configured_index; /* of the last change of the configuration */
    uint64_t not_before_ms;
    bool is_again; /* the last one could not be written; of the next ones nothing is said */

    /* the one being made */
    struct job job;
    uint64_t took_ns;       /* writing the last file, */
    struct histogram saves; /* and all of them: HISTOGRAM_1MS_14 */
    struct arena arena;
    struct raft_snapshot snapshot;
    uint64_t seq; /* of the record in the log */
    enum err err; /* the worker's */
};

/* The last one recorded, and the last index at which the configuration may have changed. */
void log_snapshot_init(struct log_snapshot *n, const struct log_snapshot_options *options,
                       uint64_t recorded_index, uint64_t configured_index);
/* Also one that is all zeroes. The worker has nothing in hand, or has forgotten it. */
void log_snapshot_free(struct log_snapshot *n);

/* --- tell --- */

/* The entry at this index has changed the configuration. */
void log_snapshot_configured(struct log_snapshot *n, uint64_t index);

/* One is wanted as soon as the store has this index: older members can read the log only from
 * there on. */
void log_snapshot_want(struct log_snapshot *n, uint64_t index);

/* What a snapshot tells of: all of it as of what is durable in the store. */
struct log_snapshot_content {
    uint64_t index, term;
    uint64_t applied_index; /* here, now: for the log line */
    const struct raft_conf_state *conf_state;
    const struct snapfile_membership *membership;
};

/* Begins one. It is due (asserted). */
void log_snapshot_begin(struct log_snapshot *n, const struct log_snapshot_content *content);

/* The state is of an image now whose snapshot, of this index, is recorded and durable (install.h).
 * None is being made (asserted). */
void log_snapshot_installed(struct log_snapshot *n, uint64_t index);

/* The record has this number in the log. */
void log_snapshot_recorded_as(struct log_snapshot *n, uint64_t seq);

/* --- take --- */

/* A snapshot to be recorded in the log, or NULL; lent until log_snapshot_recorded_as, which must
 * follow. */
const struct raft_snapshot *log_snapshot_take_record(struct log_snapshot *n, uint64_t now_ms);

/* A sync of the file has failed: the member must end. */
bool log_snapshot_is_unsynced(const struct log_snapshot *n);

/* A record has become durable: the log may be released up to *index, which is 0 if nothing of it
 * may be. `applied` is raft's. */
bool log_snapshot_take_release(struct log_snapshot *n, uint64_t durable_seq, uint64_t applied,
                               uint64_t *index);

/* --- ask --- */

/* Is it time, with the store durable up to this index? */
bool log_snapshot_is_due(const struct log_snapshot *n, uint64_t durable_index, uint64_t now_ms);
bool log_snapshot_is_busy(const struct log_snapshot *n);
/* The one that was wanted is not recorded yet. */
bool log_snapshot_is_wanted(const struct log_snapshot *n);

/* On a worker, for whoever has made another file: removes the oldest of them until `keep` are left;
 * 0: none. */
void log_snapshot_purge(struct disk *disk, const char *dir, unsigned keep);

/* All invariants, asserted. */
void log_snapshot_check(const struct log_snapshot *n);
