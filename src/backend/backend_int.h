/*
 * backend_int: what the files of this room share.
 *
 *     backend.c   the open batch, commits, the one job in flight
 *     view.c      views and merged cursors
 *     defrag.c    the copy in slices
 *     image.c     another store, made beside this one, that takes its place
 *     batch.c     a batch: ordered, in memory
 *     lmdb*.c     the store on disk           } both behind struct store_ops
 *     memory.c    the store in memory         }
 */
#pragma once

#include "backend/backend.h"
#include "backend/batch.h"
#include "base/buf.h"

#include <pthread.h>

/* --- a store: committed pages -------------------------------------------------------------------
 *
 * Readers are opened and closed under the backend's lock, and used by one thread each. The writing
 * calls are the backend thread's: begin, then changes, best with the keys of a bucket in ascending
 * order, then commit or abort. One of them that fails ends the store's writing life; unless it is
 * with ERR_NO_SPACE, which says that the store is as it was before begin, and that no sync has
 * failed: then all of it may be tried again.
 */
struct store_ops {
    enum err (*reader_open)(struct store *s, struct store_reader **out);
    void (*reader_close)(struct store_reader *r);
    enum err (*get)(struct store_reader *r, enum bucket bucket, struct bytes key,
                    struct bytes *value);
    enum err (*get_part)(struct store_reader *r, enum bucket bucket, struct bytes key, size_t from,
                         size_t len, struct bytes *part);
    struct store_cursor *(*cursor_open)(struct store_reader *r, enum bucket bucket,
                                        struct bytes from);
    enum err (*cursor_next)(struct store_cursor *c, struct bytes *key, struct bytes *value);
    void (*cursor_close)(struct store_cursor *c);

    /* A hint: pages are read here and there from now on, and not in a row; or no more. */
    void (*read_randomly)(struct store *s, bool randomly);

    enum err (*begin)(struct store *s);
    enum err (*put)(struct store *s, enum bucket bucket, struct bytes key, struct bytes value);
    enum err (*remove)(struct store *s, enum bucket bucket, struct bytes key);
    enum err (*commit)(struct store *s); /* durable when it returns ERR_OK */
    void (*abort)(struct store *s);      /* fine where nothing has begun */

    /* An empty store beside this one, gone without trace at the next opening unless adopted. */
    enum err (*copy_open)(struct store *s, struct store **out);

    /* Gives the copy, or the image, the name of s, for good. After an error with *certain false
     * nobody knows which of the two a crash would leave. */
    enum err (*copy_adopt)(struct store *s, struct store *copy, bool *certain);

    /* Takes as long as the disk likes. Nothing may be open on it. */
    void (*close)(struct store *s);
};

/* ERR_CORRUPT: it does not reach that far. */
static inline enum err store_part_of(struct bytes value, size_t from, size_t len,
                                     struct bytes *part)
{
    if (from > value.len || len > value.len - from)
        return ERR_CORRUPT;
    *part = bytes_of(value.at + from, len);
    return ERR_OK;
}

enum { DAMAGE_TEXT_BYTES = 256, FAILURE_TEXT_BYTES = 320 };

struct store {
    const struct store_ops *ops;
    unsigned refs; /* the backend and each open reader; under the backend's lock */
    struct store *next_unused;
    struct backend_sizes sizes; /* after the last commit; the backend thread's */
    size_t dirty_bytes;         /* copies of pages that removing has made in this transaction */
    size_t dirty_bytes_max;     /* which the caller keeps to, where it can */
    char failure[FAILURE_TEXT_BYTES]; /* why the last writing call failed */
};

struct store_reader {
    char damage[DAMAGE_TEXT_BYTES]; /* why the last ERR_CORRUPT */
};

/* Opens or creates; both leave *out alone on error. `why` has FAILURE_TEXT_BYTES. */
MUST_CHECK enum err lmdb_store_open(struct disk *disk, const char *dir, char *why,
                                    struct store **out);
MUST_CHECK enum err memory_store_open(struct memory_disk *disk, struct store **out);

/* The image beside the store, which somebody has open: an empty one, or the one that is there
 * (ERR_NOT_FOUND). It stays under its name when it is closed. And takes it away; none is fine. */
MUST_CHECK enum err lmdb_image_open(struct disk *disk, const char *dir, bool fresh, char *why,
                                    struct store **out);
MUST_CHECK enum err memory_image_open(struct memory_disk *disk, bool fresh, char *why,
                                      struct store **out);
MUST_CHECK enum err lmdb_image_remove(struct disk *disk, const char *dir, char *why);
void memory_image_remove(struct memory_disk *disk);

/* --- defrag.c ----------------------------------------------------------------------------- */

/* Where the copy stands. The backend thread's while a job runs, else the core thread's. */
struct defrag {
    struct backend_defrag *request; /* NULL: none under way */
    struct store *copy;             /* NULL before the first slice and after a failure */
    enum bucket bucket;             /* of earlier buckets everything is copied, */
    struct buf key;                 /* of this one everything up to and with this key */
    bool adopted;
    bool is_given_up; /* the next slice is not copied: as the core thread has asked before it */
    enum err err;
};

/* On the backend thread: the next slice; with the last one, the swap. An error that is not in
 * d->err but returned means that the live store is in doubt. */
MUST_CHECK enum err defrag_slice(struct backend *b);

/* On the backend thread, after the batch has been committed to the live store. */
void defrag_follow(struct backend *b, const struct batch *batch);

/* In the turn, after every slice: reports the end if it was the last. */
void defrag_settle(struct backend *b);

/* Gives up the copy, if there is one; and the whole of it, for this reason. */
void defrag_drop(struct backend *b);
void defrag_give_up(struct backend *b, enum err e);

/* Has the copy come as far as this key? */
bool defrag_has(const struct defrag *d, enum bucket bucket, struct bytes key);

/* --- image.c ------------------------------------------------------------------------------ */

/* While b is being opened: ends an install that a crash has interrupted. */
MUST_CHECK enum err image_settle(struct backend *b, const struct backend_options *options,
                                 char *why);

/* On the backend thread: the rename. ERR_NO_SPACE and ERR_NO_FILES say that nothing has happened.
 * And in the turn, after it. */
MUST_CHECK enum err image_adopt(struct backend *b);
void image_adopted(struct backend *b);

/* --- backend.c ---------------------------------------------------------------------------- */

enum backend_job { JOB_NONE, JOB_COMMIT, JOB_SLICE, JOB_INSTALL, JOB_FREE };

struct backend {
    struct workers *workers;
    void (*on_failure)(void *context, enum err e, const char *text);
    void *context;
    size_t pending_bytes_max, slice_bytes;

    /*
     * The lock. `store` is replaced by the backend thread and read by all; `frozen` is set and
     * cleared by the core thread and read by workers; opening and closing readers happens under it.
     */
    pthread_mutex_t lock;
    struct store *store;
    struct batch *frozen;
    unsigned worker_views;

    /* The core thread's. */
    unsigned core_views;
    struct batch *open;
    uint64_t stamp;             /* of the writes made now; grows with each view */
    size_t bytes_before_upkeep; /* of the open batch */
    struct buf part_note;       /* where the entry begins; empty: it is not one for parts */
    uint32_t entry_buckets;     /* those the entry has written to, a bit for each */
    bool in_entry, in_upkeep;
    bool has_parts;    /* of the entry, in a batch that is frozen or committed */
    bool failed;       /* nothing is written any more */
    bool replaced;     /* the same, since its image is the store now */
    bool lacks_space;  /* the last commit found none, or the install, */
    bool awaits_space; /* and is to be tried again */
    char space_text[FAILURE_TEXT_BYTES];
    uint64_t open_number, durable_number;
    struct backend_position applied, durable;
    struct backend_position noted; /* the last one written into a batch */
    struct backend_sizes sizes;

    /* The one job in flight: prepared and settled by the core thread, run by the other. */
    struct job job;
    enum backend_job running;
    enum err job_err;
    uint64_t commit_ns, commit_write_ns; /* how long the last one took; of that, the writing */
    struct backend_stats stats;
    char job_text[FAILURE_TEXT_BYTES];
    struct defrag defrag;
    bool slice_next;     /* after a commit a slice gets its turn, so that neither starves */
    bool cancels_defrag; /* asked for by the core thread */
    struct backend_install *install; /* NULL: none is asked for */

    /* To be freed on the backend thread, since unmapping or freeing many megabytes takes time:
     * collected by the core thread, and those that the job has taken along. */
    struct batch *unused_batches, *freeing_batches;
    struct store *unused_stores, *freeing_stores;
};

/* Writes the batch into the store and makes it durable. `copied`, unless NULL, says how far the
 * store has been copied yet: what lies behind comes later, with the live store's later state. */
MUST_CHECK enum err batch_commit_to(const struct batch *batch, struct store *s,
                                    const struct defrag *copied);

/* On a store that is open; `why` has FAILURE_TEXT_BYTES. */
struct backend *backend_new(const struct backend_options *options, struct store *store);
MUST_CHECK enum err backend_read_position(struct backend *b, char *why);

/* Writes the position into the open batch, unless it is there. */
void backend_note_position(struct backend *b);

/* On the core thread: starts the next job if none is in flight and there is something to do. */
void backend_pump(struct backend *b);

/* On the core thread: one owner less; the memory goes on the backend thread. */
void backend_drop_batch(struct backend *b, struct batch *batch);
