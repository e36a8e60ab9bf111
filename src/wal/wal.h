/*
 * wal: what raft has promised, on disk before anyone hears of it.
 *
 * Raft's output of one turn is framed into records, appended to the newest segment and made durable
 * by a single sync. While that sync is under way the next turns' records gather, so a thousand puts
 * arriving together wait for one disk flush. Files, names and bytes are etcd's.
 *
 *     wal/      0000000000000000-0000000000000000.wal ... , 0.tmp or 1.tmp: the next one, reserved
 *     segment   | crc | metadata | state | record | record | ... zeros ... |       64,000,000 bytes
 *     record    | length and padding u64 | protobuf {type, crc, data} | 0-7 zeros |       (frame.h)
 *
 *     wal_append --> [gathering] --> write and sync, on the log's thread --> on_durable
 *     wal_read   --> sparse index --> read, on the other thread --> on_done
 *
 * Life       wal_create or wal_open (which replays), then any number of wal_append and wal_read,
 *            then, when wal_is_idle, wal_close.
 *
 * Promises   1. After on_durable(seq), every append numbered <= seq survives a power cut.
 *            2. Replay shows the entries in the order of appending. A last record that a power cut
 *               tore is dropped, by etcd's rule and with a copy of the file put aside; any other
 *               damage is ERR_CORRUPT with file and offset: it may have been promised.
 *            3. A sync that fails, or a write that does for any other reason than want of space,
 *               ends the process, naming the file: nobody can know what the disk has kept. The next
 *               wal_open writes the newest segment again, and syncs it, before anybody can rely on
 *               what it has read there.
 *            4. wal_read never shows an entry that was overwritten, nor bytes whose crc is wrong.
 *            5. A cut needs no file descriptor that was not there before: the next segment and the
 *               directory are open by then. If there was none for the segment after that, the log
 *               tries again (wal_retry) and, should it come to that, waits; it does not fail.
 *            6. Nor does it for want of space. A segment has all of its space before it is written
 *               to, so this is noticed while the one before still has some: wal_space_left says how
 *               much of that is for entries, the rest is kept for votes and terms. Whatever finds
 * no space nevertheless is undone, waits with all that was appended behind it, and is tried again
 * (wal_retry). Nothing of it is durable before its sync.
 *            7. Memory is bounded: for what is not yet durable by those who make it (they stop at
 *               WAL_PENDING_BYTES_MAX), by 48 bytes for every 64 entries or 64 KiB of log for the
 *               index. So are descriptors, by WAL_SEGMENTS_OPEN_MAX and a few.
 *
 * What a damaged byte does. The crc covers the data of records, across segments. Everything else
 * that was written is noticed by its form (frame.h) or by contradicting raft (scan.h), but for:
 *   - zeros that were reserved and not yet written: changing them changes nothing;
 *   - in the newest segment alone, where what looks like a torn write must be taken for one:
 *     (a) a record that has only zeros from the start of some sector of 512 bytes to its end, and
 *         is damaged elsewhere in its data or crc;
 *     (b) a length whose one byte that is not zero becomes zero, in the last 8 bytes of a sector.
 *     The log then ends early. The server notices if the store has applied more than is left;
 *   - there too, a hard state of term 2 that is the last record and becomes an entry.
 * etcd's own rule for torn writes is wider: it also takes parts of sectors for unwritten, and
 * lengths that are too long. What it repairs after a real power cut is repaired here as well.
 *
 * Not here   What an entry means (raft). When history may be dropped (server). Snapshot files.
 * Leans on   io/disk.h, entry, pb and base. No clock, no thread, no global.
 */
#pragma once

#include "base/histogram.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/logger.h"
#include "entry/entry.h"
#include "io/disk.h"
#include "pb/codec.h"

struct wal; /* opaque */

/* An entry, by its place in the log. */
struct wal_place {
    uint64_t index, term;
};

struct wal_options {
    const char *dir; /* lent */
    const struct logger *logger;
    uint64_t segment_bytes; /* 0: WAL_SEGMENT_BYTES */
    bool no_sync;           /* --unsafe-no-fsync */

    /* In the turn: everything numbered up to seq is durable. May be NULL. */
    void (*on_durable)(void *context, uint64_t seq);

    /* NULL: fatal(), as a server wants. A simulator, where one member's death must not be
     * everybody's, gives one; after it only wal_abandon is allowed. */
    void (*on_failed)(void *context, const char *text);
    void *context;
};

/* What replay shows. The entry is lent, without a blob. Any of them may be NULL. */
struct wal_visitor {
    void (*on_entry)(void *context, const struct raft_entry *e);
    void (*on_truncate)(void *context,
                        uint64_t from); /* entries shown, from this index on, are void */
    void *context;
};

/* Where reading ended before its time, and why; what is NULL if it did not. A file without a `what`
 * could not be opened. */
struct wal_fault {
    char file[48];
    uint64_t offset;
    const char *what;
};

/* What replay has found. */
struct wal_found {
    struct pb_wal_metadata metadata;
    struct raft_hard_state state; /* the last one; all zero if there is none */
    uint64_t last_index;          /* of the log; start.index if no entry follows it */
    bool start_found;             /* the snapshot to start from is in the log */
    bool replaced;                /* behind the start a leader's snapshot took the log's place: what
                                     was shown up to there is not what was committed */
    bool torn;                    /* a torn last record was dropped: fault says where */
    struct wal_fault fault;       /* also on ERR_CORRUPT */
};

/* --- opening --- */

/* Is there a segment in the directory? One that does not exist has none. */
MUST_CHECK enum err wal_exists(struct disk *disk, const char *dir, bool *out);

/* Makes a log with this identity, whole or not at all: built in <dir>.tmp, then renamed. ERR_EXISTS
 * if there is one; a directory without segments is replaced. */
MUST_CHECK enum err wal_create(struct disk *disk, const struct wal_options *opt,
                               const struct pb_wal_metadata *metadata, struct wal **out);

/* Opens the log for appending: locks its segments (ERR_BUSY if another process has them), shows
 * what follows the snapshot `start`, drops a torn record. Also fills *found when it fails. */
MUST_CHECK enum err wal_open(struct disk *disk, const struct wal_options *opt,
                             struct wal_place start, const struct wal_visitor *visitor,
                             struct wal_found *found, struct wal **out);

/* As wal_open up to where it would write: every segment is opened for writing and locked, read, and
 * closed as it was. For a caller that has to know first whether wal_open would be refused. */
MUST_CHECK enum err wal_rehearse(struct disk *disk, const struct wal_options *opt,
                                 struct wal_place start, const struct wal_visitor *visitor,
                                 struct wal_found *found);

/* The same for looking only: no locks, nothing is changed, a torn record is merely left out. */
MUST_CHECK enum err wal_replay(struct disk *disk, const struct wal_options *opt,
                               struct wal_place start, const struct wal_visitor *visitor,
                               struct wal_found *found);

/* The snapshots that a log can be opened at: those recorded, in order, that the last hard state
 * calls committed and behind which the log has not gone on from below, without their data. They
 * live in the arena. */
struct wal_snapshots {
    struct raft_snapshot *at;
    size_t count;
};
MUST_CHECK enum err wal_snapshots(struct disk *disk, const struct wal_options *opt,
                                  struct arena *arena, struct wal_snapshots *out);

/* Ends w: writes what lies unsynced (commit indexes), gives up locks and the reserved file. Nothing
 * may be in flight (asserted). What waits for space is forgotten, as in a crash. NULL is fine. */
void wal_close(struct wal *w);

/* Ends w as a crash does: memory is freed, the disk is not touched. The disk must have forgotten
 * what was in flight. */
void wal_abandon(struct wal *w);

/* Nothing is being written, read, reserved or purged. What waits for space is not. */
bool wal_is_idle(const struct wal *w);

/* --- appending --- */

/* One output of raft. */
struct wal_save {
    /* A leader's snapshot that takes the place of the whole log, before the entries. Or NULL. Its
     * data is in its file. */
    const struct raft_snapshot *installed;
    /* Consecutive; they replace what the log has from there on. Data that is long is shared, by a
     * reference to its blob; short data, and data without a blob, is copied. */
    const struct raft_entry *entries;
    size_t entry_count;
    struct raft_hard_state state; /* all zero: unchanged */
};

/* Takes it all and returns the number to wait for, at once. A commit index
 * that changes alone is not worth a sync: it goes with the next one, and the number is an old one.
 */
uint64_t wal_append(struct wal *w, const struct wal_save *save);

/* Records a snapshot made from this log, whose file is durable already. */
uint64_t wal_append_snapshot(struct wal *w, const struct raft_snapshot *snapshot);

/* Everything so far is to be durable, lone commit indexes too. */
uint64_t wal_sync(struct wal *w);

/* Tries again what could not be done for want of file descriptors, which may come back at any tick,
 * or of space, for which once a second is often enough. */
void wal_retry(struct wal *w);

/* There was no space for the next segment, or for a write. */
bool wal_lacks_space(const struct wal *w);

/* And now something that was appended waits for it. */
bool wal_awaits_space(const struct wal *w);

/* For how many bytes of entries there is space; 0: the log is full. UINT64_MAX: for any number. */
uint64_t wal_space_left(const struct wal *w);

/* What has been durable so far. */
uint64_t wal_durable(const struct wal *w);

/* Appended and not yet durable; see WAL_PENDING_BYTES_MAX. */
size_t wal_pending_bytes(const struct wal *w);

/* --- reading old entries back --- */

/* Embedded in whoever waits. All zeroes, with the first five filled in, is ready. */
struct wal_read {
    uint64_t low, high; /* entries [low, high) */
    size_t max_bytes;   /* stop when the data reaches this, but give one */
    void (*on_done)(struct wal_read *r);
    void *context;

    enum err err;
    const struct raft_entry *entries; /* from low on, at least one, unless err; lent to on_done: */
    size_t count;                     /* whoever keeps one takes a reference of its blob */

    struct wal *wal; /* from here on the wal's */
    struct list link;
    struct disk_op op;
    struct wal_segment *segment;
    struct disk_file *file; /* of the segment, if it is not open otherwise */
    char *path;
    bool goes_on;
    struct blob *blob;
    uint32_t crc;
    uint64_t next;
    size_t bytes;
    struct buf found, blobs;
};

/* ERR_NOT_FOUND if the log does not have `low`, or not durably: at once, and on_done will not come,
 * or later through on_done, if it was replaced meanwhile. */
MUST_CHECK enum err wal_read(struct wal *w, struct wal_read *r);

/* --- forgetting --- */

/* Entries up to this one will not be asked for again, a snapshot holds them. Gives up the segments
 * below, but for the newest of those. */
void wal_release(struct wal *w, uint64_t index);

/* Deletes the oldest segments until at most max are left, stopping at one that is not given up.
 * 0: never. One at a time; a call meanwhile is ignored. */
void wal_purge(struct wal *w, unsigned max);

/* --- looking --- */

struct wal_status {
    uint64_t last_index;    /* of the log, durable or not */
    uint64_t segment;       /* number of the newest */
    uint64_t segment_count; /* that we hold */
    uint64_t bytes_written, syncs;
    size_t index_marks;
};
struct wal_status wal_status(const struct wal *w);

/* How long the log's writes and their syncs took, each in HISTOGRAM_1MS_14; since it was opened. */
struct wal_stats {
    struct histogram write, sync;
};
const struct wal_stats *wal_stats(const struct wal *w);

/* All invariants, asserted. */
void wal_check(const struct wal *w);
