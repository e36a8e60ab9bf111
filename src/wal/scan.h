/*
 * scan: what a sequence of records means. Pure, like frame.
 *
 * Shown the frames of all segments in order, it keeps the rolling crc, the identity, the last hard
 * state and the end of the log, and says of each entry whether it is news (behind the snapshot that
 * reading starts from) and whether it replaces entries seen before.
 *
 * It also holds the records against what raft can have written. A record's type is under no crc;
 * but an entry taken for a hard state, say, makes a commit index that nobody wrote. Every rule here
 * is an invariant of raft or of etcd's writer:
 *
 *     a segment begins with a crc record and the metadata, and has neither anywhere else
 *     an entry is never at or below a commit index written before it
 *     consecutive entries have terms that do not fall
 *     terms and commit indexes of hard states do not fall, terms are not below an entry's,
 *     and a commit index is not beyond the last entry or snapshot
 */
#pragma once

#include "wal/frame.h"
#include "wal/wal.h"

struct scan {
    struct wal_place start; /* index UINT64_MAX: no entry is of interest */
    bool start_found;
    bool replaced;             /* by a snapshot behind it */
    uint64_t start_entry_term; /* of the last entry seen at start.index; 0 if there is none */

    uint32_t crc;
    unsigned in_segment; /* records seen in this segment, counted to 2 */
    bool crc_known;      /* false until the first crc record */
    struct buf metadata;
    bool has_metadata;

    struct raft_hard_state state;
    uint64_t floor;      /* the first segment's name: no own entry at or above it is missing */
    uint64_t last;       /* the end of the log behind start: start.index if there are none */
    uint64_t written;    /* index of the last entry or snapshot, as segments are named by it */
    uint64_t term;       /* and its term */
    uint64_t entry_term; /* the highest of any entry */
};

/* What the record was, for whoever wants to know. */
struct scan_event {
    enum wal_record_type type;
    bool truncates; /* entries from truncate_from on, seen before, are void */
    uint64_t truncate_from;
    bool is_news;            /* WAL_ENTRY: behind start */
    struct raft_entry entry; /* WAL_ENTRY; blob is NULL */
    struct bytes data;       /* WAL_SNAPSHOT */
};

void scan_init(struct scan *s, struct wal_place start, uint64_t floor);
void scan_free(struct scan *s);

/* The next frames are those of the next segment. */
void scan_next_segment(struct scan *s);

/* Takes one frame; NULL, or what is wrong with it. */
const char *scan_record(struct scan *s, const struct frame *f, struct scan_event *out);

/* Decodes an entry's record, strictly. False if it is none. The data looks into `from`. */
MUST_CHECK bool scan_entry(struct bytes from, struct raft_entry *out);
