/*
 * db: etcd's file, opened, checked whole, and copied into a store of ours.
 *
 * Two ways lead here: a data directory that etcd has left (transfer.h), and a snapshot that another
 * member has sent (the server). Either way nothing in the file is believed: first db_check, which
 * looks at every page, then db_copy, which looks at every entry on its way.
 *
 * What is copied: all entries of etcd's ten buckets, byte for byte, so consistent index, term and
 * confState come with them. A bucket that is missing comes back as an empty one; one of any other
 * name is refused (ERR_UNSUPPORTED): dropping it would lose what somebody has put there, and we
 * have no place for it. etcd writes no other; its tests have one called "test".
 *
 * Promises   1. After db_check and db_copy have returned ERR_OK, the page graph was sound, every
 *               entry of bucket `key` is a revision with an mvccpb.KeyValue, and the store has the
 *               content, durably.
 *            2. What is refused is told in `why`: the file, the offset, and what is wrong there.
 *            3. Memory: a batch of the store, one value, and a bit for each page.
 *            4. Once *is_canceled is true, the next read from the file ends it with ERR_CANCELED.
 * Not here   Whether the content makes sense as a whole: the rooms find out when they are opened on
 *            the copy.
 * Leans on   bolt.h, backend, pb, io/disk.h. Calls block: boot, tools, workers.
 */
#pragma once

#include "backend/backend.h"
#include "base/arena.h"
#include "base/buf.h"
#include "snap/bolt.h"

#include <stdatomic.h>

struct db_options {
    struct disk *disk;
    const char *path; /* lent */
    enum bolt_kind kind;
    bool is_shared;                 /* an etcd may have it open: it is locked, as bbolt does */
    const atomic_bool *is_canceled; /* NULL: it never is */
    struct buf *why;                /* on an error, a sentence that names the file is appended */
};

struct db {
    struct db_options o;
    struct disk_file *file;
    struct bolt_file whole;
    struct bolt_source source; /* the same, as long as it is not canceled */
    struct bolt_fault fault;
    struct bolt *bolt;
    struct backend_position position; /* as the file says it; zeroes where it does not */
};

/* Opens it, and reads metas and position. db_close is due also after an error. */
MUST_CHECK enum err db_open(struct db *db, const struct db_options *options);
void db_close(struct db *db); /* also one that is all zeroes */

/* The page graph, and the names of the buckets. */
MUST_CHECK enum err db_check(struct db *db);

struct db_copied {
    uint64_t entries, bytes; /* keys and values, all buckets together */
};

/* Into a store that is empty, in batches of SNAP_IMPORT_BATCH_BYTES, bucket meta with the position
 * last; all of it is committed. `to_name` is what the store is called in `why`. */
MUST_CHECK enum err db_copy(struct db *db, struct backend *to, const char *to_name,
                            struct db_copied *out);

/* e; where it is an error, what the reader found becomes the reason. */
enum err db_fail(struct db *db, enum err e);

/* Appends "path: text" to the reasons. */
__attribute__((format(printf, 3, 4))) void db_say(struct buf *why, const char *path,
                                                  const char *format, ...);
__attribute__((format(printf, 3, 0))) void db_say_v(struct buf *why, const char *path,
                                                    const char *format, va_list args);
