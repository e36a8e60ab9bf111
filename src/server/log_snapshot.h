/*
 * log_snapshot: a note that the store has everything up to some index, so that the log before it
 * may go.
 *
 * The state itself stays in the store. The note is a small file, written by a worker, and then a
 * record in the log; when that record is durable, the log may be released, but for some entries
 * that followers who are a little behind still want to have.
 *
 * The index of a snapshot is etcd's: that of the first entry which is more than `count` entries
 * after the snapshot before. The content is marked right after that entry is applied, whether the
 * snapshot before is finished or not, and written as soon as the store has the entry.
 *
 *     due: mark ---> [mark] --the store has it: begin--+
 *                                                      v
 *     IDLE ------------------------------------------> WRITING --the worker is done--> WRITTEN
 *          <--could not be written: in a second----------------------------------------+
 *     WRITTEN --take_record, recorded_as--> RECORDING --durable, take_release--> IDLE
 *
 * Promises   1. A snapshot promises what is durable in the store, and no more; and the
 *               configuration in it is the one at its index.
 *            2. Nothing is released before the record is durable, and never what raft does not know
 *               as applied (asserted).
 *            3. Of the files the newest `keep` are left: at the start, and half a minute after one
 *               more was written, which is how often etcd looks.
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
    uint64_t recorded_index; /* of the last one whose record is durable */
    uint64_t wanted_index;   /* one at or above this, however few entries that are */
    uint64_t not_before_ms;
    bool is_again; /* the last one could not be written; of the next ones nothing is said */

    /* the next one, as of the entry that made it due; index 0: none is marked */
    struct raft_snapshot mark;
    struct arena mark_arena;

    /* the one being made */
    struct job job;
    uint64_t took_ns;       /* writing the last file, */
    struct histogram saves; /* and all of them: HISTOGRAM_1MS_14 */
    struct arena arena;
    struct raft_snapshot snapshot;
    uint64_t seq; /* of the record in the log */
    enum err err; /* the worker's */

    struct job purge_job;
    bool is_purging;
    bool has_new_files;      /* since the last purge, */
    uint64_t purge_after_ms; /* which is not before this */
};

/* With the index of the last one recorded. */
void log_snapshot_init(struct log_snapshot *n, const struct log_snapshot_options *options,
                       uint64_t recorded_index);
/* Also one that is all zeroes. The worker has nothing in hand, or has forgotten it. */
void log_snapshot_free(struct log_snapshot *n);

/* --- tell --- */

/* One is wanted as soon as this index is applied: older members can read the log only from there
 * on. */
void log_snapshot_want(struct log_snapshot *n, uint64_t index);

/* The content of a snapshot, as of the entry that was applied last. */
struct log_snapshot_content {
    uint64_t index, term;
    const struct raft_conf_state *conf_state;
    const struct snapfile_membership *membership;
};

/* Marks the next one; the content is copied. It is due (asserted). */
void log_snapshot_mark(struct log_snapshot *n, const struct log_snapshot_content *content);

/* Begins to write the one that is marked. It can begin (asserted). */
void log_snapshot_begin(struct log_snapshot *n, uint64_t durable_index);

/* Lets a worker remove old files, if it is time. */
void log_snapshot_purge_if_due(struct log_snapshot *n, uint64_t now_ms);

/* The state is of an image now whose snapshot, of this index, is recorded and durable (install.h).
 * None is being made (asserted); a mark of the old state is dropped. */
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

/* The index of the last one recorded, or of the one being made. */
static inline uint64_t log_snapshot_last_index(const struct log_snapshot *n)
{
    return n->state == LOG_SNAPSHOT_IDLE ? n->recorded_index : n->snapshot.index;
}

/* Is the next one to be marked, with everything up to this index applied? Asked after every entry,
 * so it costs a put a few instructions. */
static inline bool log_snapshot_is_due(const struct log_snapshot *n, uint64_t applied_index,
                                       uint64_t now_ms)
{
    uint64_t last = log_snapshot_last_index(n);
    bool is_wanted = n->wanted_index > last && applied_index >= n->wanted_index;

    return (applied_index > last + n->o.count || is_wanted) && n->mark.index == 0 &&
           now_ms >= n->not_before_ms;
}

/* Is the one that is marked held up by the store alone, which is durable up to this index? */
static inline bool log_snapshot_awaits_store(const struct log_snapshot *n, uint64_t durable_index)
{
    return n->mark.index > durable_index && n->state == LOG_SNAPSHOT_IDLE;
}

/* Can the one that is marked be written, with the store durable up to this index? */
static inline bool log_snapshot_can_begin(const struct log_snapshot *n, uint64_t durable_index)
{
    return n->mark.index != 0 && n->mark.index <= durable_index && n->state == LOG_SNAPSHOT_IDLE;
}

/* One is being made, or old files are being removed. A mark alone may be dropped at any time and
 * keeps nobody waiting. */
bool log_snapshot_is_busy(const struct log_snapshot *n);
/* The one that was wanted is not recorded yet. */
bool log_snapshot_is_wanted(const struct log_snapshot *n);

/* On a worker, for whoever has made another file: removes the oldest of them until `keep` are left;
 * 0: none. */
void log_snapshot_purge(struct disk *disk, const char *dir, unsigned keep);

/* All invariants, asserted. */
void log_snapshot_check(const struct log_snapshot *n);
