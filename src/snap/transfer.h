/*
 * transfer: from etcd's data directory to ours, and back.
 *
 * The log is the same in both. The store is not: etcd keeps a bbolt file, we keep a folder of our
 * own. Import copies the one into the other, export copies back; either way the one that is left
 * over disappears last, so that at every moment somebody holds everything.
 *
 *     <data-dir>/member/wal/               the log, untouched by either
 *     <data-dir>/member/snap/db            etcd's store
 *     <data-dir>/member/snap/db.imported   what it was when we took over; nobody reads it
 *     <data-dir>/member/store/             our store (backend.h)
 *     <data-dir>/member/store/transfer     a note: an import or export has come to its last steps
 *     <data-dir>/member/store.tmp/, snap/db.tmp    being made, or being removed: never the truth
 *
 *     import   db --copy--> store.tmp, tried by the caller || note in it | rename to store
 *              | db to db.imported | no note
 *     export   store --copy--> db.tmp | note in store | rename to db | store to store.tmp | gone
 *
 * Each bar is a sync of the directories concerned. At the double bar the directory is taken over;
 * before it, it is etcd's, byte for byte, but for store.tmp, of which etcd knows nothing and which
 * goes if the copy is dropped. Whatever speaks against serving it is to be found out before, on the
 * copy: a directory that is refused after it can no longer be opened by etcd either.
 *
 * After a crash the directory is one of these, and snap_truth, which also import and export begin
 * with, goes on from there:
 *
 *     store.tmp or db.tmp                   removed; the copy begins anew
 *     store with a note of import, and db   the very db that was copied, by its transaction number,
 *                                           and neither has moved since: db becomes db.imported
 *     store with a note of export, and db   the db has all that the store has: the store goes. etcd
 *                                           may have run on it since; it was told that it may
 *     store with either note, no db         the note goes, the store is the truth
 *     db below the log's snapshot, and a    etcd died installing a leader's snapshot: that file is
 *     <index>.snap.db of that snapshot      imported. At the double bar it becomes the db first, as
 *                                           etcd would have it
 *     store and db, and no note, or one     nobody can know which is meant: refused, with both
 *     that does not fit                     indexes and the newer one named, until an operator
 *                                           moves one away. A start of etcd on a directory that
 *                                           was not exported leaves both
 *
 * What is copied, and what is refused, says db.h.
 *
 * Promises   1. After snap_import_take_over or snap_export has returned ERR_OK the new store is
 *               durable under its name and holds what the old one held.
 *            2. After any error, and after a crash at any point, the old store or the new one is
 *               whole, and the table above says which.
 *            3. A damaged db is never imported: the page graph is checked, and the form of every
 *               entry of the `key` bucket. `why` names file and offset; for damage in our own store
 *               it names file, bucket and key.
 *            4. Memory: a batch of SNAP_IMPORT_BATCH_BYTES and one value, or one view and a page
 *               for each level of the tree.
 *            5. Until snap_import_take_over is called nothing of etcd's is written, renamed or
 *               removed, and after snap_import_drop nothing of ours is left beside it.
 * A sync that fails behind a rename is fatal, as everywhere. One that fails before is an error: the
 * half-made copy is thrown away.
 *
 * Not here   The log's last snapshot index, which the caller hands in, since only wal can read it.
 *            Keeping a live server away is half here: db is flocked as bbolt does, our store has a
 *            lock, and member/ itself is flocked against another transfer.
 * Leans on   db.h, bolt.h, backend, pb, io/disk.h. Calls block: boot and tools.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

struct disk;

/* The name of our store's folder under member/. */
#define SNAP_STORE_NAME "store"

enum snap_holds {
    SNAP_HOLDS_NOTHING,
    SNAP_HOLDS_DB,    /* etcd's alone: to be imported */
    SNAP_HOLDS_STORE, /* ours alone: to be opened */
    SNAP_HOLDS_BOTH,
};

struct snap_place {
    const char *data_dir;
    uint64_t wal_index; /* of the last valid snapshot in the log; 0: none */
    bool lacks_log;     /* the caller could not find the log, and so knows no wal_index */
    struct buf *why;    /* on an error, a sentence that names the file is appended */
};

/* Where our store is; end it with mem_free. */
char *snap_store_dir(const char *data_dir);

/* What is there, by name alone: changes nothing, opens nothing. */
MUST_CHECK enum err snap_look(struct disk *disk, const char *data_dir, enum snap_holds *out);

struct snap_truth {
    enum snap_holds holds; /* never BOTH */
    uint64_t index, term;  /* up to where that store has applied the log; 0 for NOTHING */
};

/*
 * Ends what a crash has interrupted, then says which store counts. ERR_EXISTS: both do. ERR_CORRUPT
 * also if the store ends before the log begins: its consistent index is below wal_index.
 */
MUST_CHECK enum err snap_truth(struct disk *disk, const struct snap_place *place,
                               struct snap_truth *out);

struct snap_copied {
    uint64_t index, term;    /* of the new store */
    uint64_t entries, bytes; /* keys and values, all buckets together */
};

struct snap_import; /* opaque: a copy that has not taken over, and the locks that guard it */

/*
 * Makes the copy, with the db and member/ locked until one of the two below ends it. ERR_NOT_FOUND:
 * no db. ERR_EXISTS: our store is there. ERR_BUSY: somebody has the db open. place->why outlives
 * the import.
 */
MUST_CHECK enum err snap_import_copy(struct disk *disk, const struct snap_place *place,
                                     struct snap_import **out, struct snap_copied *copied);

/* Where the copy is: backend_open opens it. What is committed to it would be taken over, too. */
const char *snap_import_dir(const struct snap_import *m);

/* The copy, which nobody has open, becomes the store. Ends m, also when it fails: a db that cannot
 * be renamed stays, and the copy goes. */
MUST_CHECK enum err snap_import_take_over(struct snap_import *m);

/* The copy goes, and the directory is etcd's as it was. Ends m; NULL is fine. */
void snap_import_drop(struct snap_import *m);

/* ERR_NOT_FOUND: no store of ours, or without a log it cannot be known whether an image beside it
 * has taken its place. ERR_EXISTS: a db is there. ERR_BUSY: somebody has it open, or it has
 * unfinished work (BACKEND_UNFINISHED_PREFIX), which a member that is started ends.
 * ERR_TOO_LARGE: a key that bbolt cannot hold. */
MUST_CHECK enum err snap_export(struct disk *disk, const struct snap_place *place,
                                struct snap_copied *out);
