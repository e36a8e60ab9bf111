/*
 * transfer_int: what import, export and the rules between them share.
 */
#pragma once

#include "backend/backend.h"
#include "base/arena.h"
#include "snap/db.h"
#include "snap/transfer.h"

/* A data directory, with nobody else transferring. */
struct dir {
    struct disk *disk;
    uint64_t wal_index;
    bool lacks_log;
    struct buf *why;
    const char *member, *snap;
    const char *db, *db_tmp, *db_imported;
    const char *store, *store_tmp;
    const char *source; /* of an import: db, or a received snapshot that etcd would make its db */
    struct disk_file *lock;
    struct arena arena;
};

/* Locks member/; ERR_NOT_FOUND when there is none. dir_close is due also after an error. */
MUST_CHECK enum err dir_open(struct dir *d, struct disk *disk, const struct snap_place *place);
void dir_close(struct dir *d);

/* Appends "path: text" to the reasons and returns e. */
__attribute__((format(printf, 4, 5))) enum err dir_fail(struct dir *d, enum err e, const char *path,
                                                        const char *format, ...);

/* Passes e on; where it is an error, "path: cannot <what>: <text of e>" becomes the reason. */
enum err dir_tried(struct dir *d, enum err e, const char *what, const char *path);

/* A sync of names after a rename: fatal when it fails. */
void dir_must_sync(struct dir *d, const char *path);

/* Refuses what snap_truth refuses, after ending what a crash has left. With SNAP_HOLDS_DB d->source
 * is known; nothing that is etcd's has been changed. */
MUST_CHECK enum err dir_settle(struct dir *d, enum snap_holds *out);

/* Does the source, with this index, go with the log? Else ERR_CORRUPT, and both are named. */
MUST_CHECK enum err dir_check_source(struct dir *d, uint64_t index);

/* A received snapshot that is the source becomes the db, durably. */
MUST_CHECK enum err dir_adopt_source(struct dir *d);

/* Is this index behind the log's snapshot? Then ERR_CORRUPT, and both are named. */
MUST_CHECK enum err dir_check_index(struct dir *d, const char *path, uint64_t index);

/* A folder and the files in it; one that is not there is fine. */
MUST_CHECK enum err dir_remove_folder(struct dir *d, const char *path);

/* Renames the store away, durably, and removes it. */
MUST_CHECK enum err dir_remove_store(struct dir *d);

/* ---- The note ---- */

enum note_kind { NOTE_NONE, NOTE_IMPORT, NOTE_EXPORT };

struct note {
    enum note_kind kind;
    uint64_t txid;  /* of the db that was imported; 0 in a note of export */
    uint64_t index; /* of both stores, when the note was made */
};

/* In this folder, durably, whole or not at all. */
MUST_CHECK enum err note_write(struct dir *d, const char *folder, const struct note *note);
MUST_CHECK enum err note_read(struct dir *d, const char *folder, struct note *out);
MUST_CHECK enum err note_remove(struct dir *d, const char *folder);

/* ---- etcd's file ---- */

/* Opens and locks it, and reads metas and position. db_close is due also after an error. */
MUST_CHECK enum err dir_open_db(struct dir *d, const char *path, struct db *db);

/* ---- Ours ---- */

MUST_CHECK enum err dir_open_store(struct dir *d, const char *path, struct backend **out);

/* ---- The last steps ---- */

/* The db loses its name, durably; then the store may lose its note. */
MUST_CHECK enum err import_put_aside(struct dir *d);
