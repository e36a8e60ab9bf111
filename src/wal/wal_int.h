/*
 * wal_int: what the files behind wal.h share.
 *
 *     open.c    names, replay, repair, creation         all of it waits for the disk
 *     wal.c     appending: batches, cuts                from here on nothing does
 *     read.c    old entries
 *     segments.c    the reserved next segment, giving up and deleting old ones
 */
#pragma once

#include "wal/scan.h"
#include "wal/sparse.h"
#include "wal/wal.h"

enum { WAL_NAME_MAX = 48 }; /* 16 digits - 16 digits .wal, .broken */

/* Number and first index, as in a segment's name. */
struct wal_name {
    uint64_t seq, index;
};

void wal_name_format(struct wal_name name, char out[static WAL_NAME_MAX]);
MUST_CHECK bool wal_name_parse(const char *text, struct wal_name *out);

/* dir/name, to be ended with mem_free. */
char *wal_path(const char *dir, const char *name);

struct wal_segment {
    struct wal_name name;
    char text[WAL_NAME_MAX];
    struct disk_file *file; /* NULL until its first batch is written, and when it is old */
    uint64_t size;          /* of the file */
    uint64_t end;           /* of the records, written or not */
    uint64_t durable;       /* of the records that are durable */

    struct wal *wal;
    unsigned readers;
    struct list link; /* on the wal's list of those given up: closed when no reader is left */
    struct disk_op closing;
    bool is_closing;
};

struct wal_segment *wal_segment_new(struct wal_name name);

/* A stretch of records for one write, all of one segment. Shared data stands between the bytes. */
struct wal_batch {
    struct list link;
    struct wal_segment *segment;
    uint64_t offset;
    size_t size;
    struct buf bytes;
    struct buf shared; /* of struct wal_shared */
    uint64_t seq;      /* durable with this batch */
    bool wanted;       /* somebody waits for it */
    bool opens;        /* its segment begins with it, and has no name before it */
    bool sealed;       /* the segment ends with it */
};

struct wal_shared {
    size_t at; /* place in bytes */
    struct bytes data;
    struct blob *blob;
};

/* What the log's thread is doing for us. */
enum wal_step {
    WAL_STEP_IDLE,
    WAL_STEP_AWAITING_NEXT, /* the reserved file is not ready */
    WAL_STEP_WRITING,
    WAL_STEP_UNDOING, /* cutting off what a failed write left */
    WAL_STEP_UNDO_SYNCING,
    WAL_STEP_TRIMMING,
    WAL_STEP_TRIM_SYNCING,
    WAL_STEP_RENAMING,
    WAL_STEP_DIR_SYNCING,
};

enum wal_next_state {
    WAL_NEXT_NONE,
    WAL_NEXT_UNDER_WAY,
    WAL_NEXT_READY,
    WAL_NEXT_FAILED, /* to be tried again: wal_retry */
};

struct wal_next {
    enum wal_next_state state;
    bool told; /* that it failed */
    bool lacks_space;
    unsigned count; /* so far: names alternate, since the last one may not be renamed yet */
    char *path;
    struct disk_file *file;
    struct disk_op op;
};

struct wal_purging {
    bool busy;
    unsigned max;
    size_t surplus;
    struct buf names;
    struct bytes left;
    char *path;
    struct disk_file *file;
    struct disk_op op;
};

struct wal {
    struct disk *disk;
    struct wal_options opt;
    char *dir;
    struct disk_file *dir_file; /* to sync it without having to open it */
    bool failed;

    struct wal_segment **segments; /* held, oldest first; the last is written to */
    size_t segment_count;
    struct buf metadata;

    uint32_t crc;                 /* of everything encoded */
    struct raft_hard_state state; /* last encoded */
    uint64_t last;                /* end of the log */
    uint64_t written;             /* last entry or snapshot encoded: names the next segment */
    struct sparse sparse;

    uint64_t seq, durable;
    size_t pending_bytes;
    struct list batches;       /* oldest first */
    struct wal_batch *writing; /* the first of them, or NULL */
    struct wal_batch *spare;
    enum wal_step step;
    struct disk_op op;
    bool lacks_space;  /* something found none, and has not been done yet: */
    bool awaits_space; /* op, which is to be submitted again */
    struct buf pieces; /* of struct bytes, for op */
    char *path_to;
    enum err write_error;
    int write_os_error;
    uint64_t bytes_written, syncs;
    struct wal_stats stats;

    struct list reads;
    struct list given_up; /* segments on their way out */
    size_t closing;       /* segments whose file is being closed */
    struct wal_next next;
    struct wal_purging purging;
};

static inline struct wal_segment *wal_tail(const struct wal *w)
{
    return w->segments[w->segment_count - 1];
}

static inline uint64_t wal_segment_bytes(const struct wal_options *opt)
{
    return opt->segment_bytes ? opt->segment_bytes : WAL_SEGMENT_BYTES;
}

/* open.c makes one of these; wal.c sets it going. */
struct wal *wal_new(struct disk *disk, const struct wal_options *opt);
void wal_push_segment(struct wal *w, struct wal_segment *s);

/* Ends the process, or tells the simulator. */
void wal_fail(struct wal *w, const char *doing, const char *path, const struct disk_op *op);

/* keep.c: starts to reserve the next segment, unless that is under way or done. */
void wal_reserve(struct wal *w);
/* wal.c: it is ready, or could not be made, which is fatal if somebody waits for it, unless it is
 * for want of descriptors or of space. */
void wal_next_ready(struct wal *w);
void wal_next_failed(struct wal *w, const struct disk_op *op);
/* wal.c: the segments' files and the directory, at once. */
void wal_close_files(struct wal *w);
/* keep.c: removes it. */
void wal_unreserve(struct wal *w);
/* keep.c: one reader less. */
void wal_segment_unpin(struct wal_segment *s);
/* keep.c: closes the files of segments that are not among the newest. */
void wal_close_old(struct wal *w);

/* read.c: entries from this one on are void, for reads under way too. */
void wal_cut_reads(struct wal *w, uint64_t from);
void wal_free_reads(struct wal *w);
