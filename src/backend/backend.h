/*
 * backend: the page store, what has been applied, kept in ordered buckets.
 *
 * To mvcc, lease, auth, cluster and snap this is an ordered map in memory: they put, delete and
 * look, and never wait. Behind it stands a file that follows a little later. The log is the truth;
 * the file says, by its consistent index, how much of the log it already holds.
 *
 *     core thread    put put | put | delete put |   -> the open batch, whole entries or a part
 *                                commit_start       -> frozen: nobody writes to it any more
 *     backend thread     pages, sync, new root      -> committed
 *     core thread        completion, in the turn    -> the frozen batch is dropped
 *
 *     a view  =  open batch, up to a limit    newest, hides what lies below
 *                frozen batch, if there is one
 *                committed pages, as of one short read transaction
 *
 * A view may find the frozen batch's writes in the pages already. That is harmless: a batch says
 * what each key finally is, so laying it over pages that contain it changes nothing. What would do
 * harm is a view that misses a batch, or has pages newer than its newest batch; hence a view takes
 * its three parts, and the core thread freezes and drops, under one lock that nobody holds for
 * longer than it takes to copy some pointers and register a reader.
 *
 * Life       backend_open; then writes, views and commits; backend_close when it is idle.
 * Promises   1. After a crash at any moment the store holds exactly the batches up to some one of
 *               them, that one and all before it whole, with its index, term and confState; at
 *               least those that backend_durable has named. Of the next batch there may be
 *               deletes that were made ahead, and nothing else. Also if the process was killed
 *               first, opened again what the kernel still showed, and then lost its power.
 *            2. A view does not change while it is open, whatever is written, committed or
 *               defragmented meanwhile. What it lends stays until the view is closed.
 *            3. Keys come in memcmp order, long ones too, each once.
 *            4. A value that is not what was put there is never handed out (backend_get_part leans
 *               on the check that came with its first part): ERR_CORRUPT, and backend_view_damage
 *               names file, bucket and key. If the file cannot even be walked, because a page is
 *               gone or unreadable, the process ends and names the file.
 *            5. The writing thread never waits for the disk, and for no longer than a pointer swap
 *               for another thread; defragmentation changes nothing about that.
 *            6. A full disk is not a failed sync. A commit that finds no space leaves the store as
 * it was; the batch stays frozen, where everybody sees it, and is committed when there is space
 * again (backend_retry). Meanwhile the next one fills up to the cap. A commit that fails for any
 * other reason, a failed sync above all, is the end (on_failure).
 *            7. Equal calls lead to equal contents and orders; no address or clock decides.
 *            8. Memory: the batches, which have a cap (BACKEND_PENDING_BYTES_DEFAULT; at it
 *               backend_is_full says so, and nothing is applied until it is less); while one is
 *               committed, about as much again for the pages it puts, and 8 MiB for what it deletes
 *               ahead. Compacting, settling and an entry in parts take a few times 4 MiB
 *               (BACKEND_UPKEEP_BYTES, BACKEND_PART_BYTES), whatever their size.
 * Threads    Everything is the core thread's, except views opened by backend_view_open_on_worker,
 *            which belong to the thread that opens them. They see committed and frozen batches,
 *            which no longer change; the open batch, which does, is the core thread's alone.
 * Two kinds  LMDB in a folder of its own, and a twin in memory that can lose power and fail on
 *            demand (backend_memory.h), for the simulator. One contract script runs against both.
 * Not here   When to commit (server). What keys and values mean (the rooms that put them).
 * Leans on   io/worker.h for the thread, io/disk.h for names and locks, LMDB for the pages.
 */
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "base/histogram.h"
#include "base/limits.h"
#include "io/worker.h"

/* etcd's ten, in the order of their names. The numbers are part of the file format. */
enum bucket {
    BUCKET_ALARM,
    BUCKET_AUTH,
    BUCKET_AUTH_ROLES,
    BUCKET_AUTH_USERS,
    BUCKET_CLUSTER,
    BUCKET_KEY,
    BUCKET_LEASE,
    BUCKET_MEMBERS,
    BUCKET_MEMBERS_REMOVED,
    BUCKET_META,
    BUCKET_COUNT
};

/* What begins like this in bucket meta is our own: work that a running member is still to do. No
 * etcd would, so a store that has some is not given out as etcd's (snap). */
#define BACKEND_UNFINISHED_PREFIX "cleat"

/* As etcd spells it: "authRoles". */
const char *bucket_name(enum bucket bucket);

/* False if there is none of that name. */
bool bucket_find(struct bytes name, enum bucket *out);

struct backend;     /* opaque */
struct buf;         /* base/buf.h */
struct disk;        /* io/disk.h */
struct memory_disk; /* backend_memory.h */

/* How much of the log the store holds. The confState is etcd's JSON, kept under meta/confState. */
struct backend_position {
    uint64_t index, term; /* 0: nothing applied yet */
};

struct backend_sizes {
    uint64_t
        file_bytes; /* what the file takes: etcd's "db size", which the quota is held against */
    uint64_t used_bytes; /* of it, pages with content: "db size in use" */
};

struct backend_options {
    struct disk *disk;          /* for LMDB: where dir is */
    const char *dir;            /* for LMDB: the store's own folder, made if missing */
    struct memory_disk *memory; /* for the twin, instead of disk and dir; outlives the backend */

    /* Commits and defragmentation run here, one job at a time. Best a crew of one thread that does
     * nothing else, or commits wait behind password hashes. NULL: only backend_commit_now. */
    struct workers *workers;
    size_t pending_bytes_max; /* 0: BACKEND_PENDING_BYTES_DEFAULT */
    size_t slice_bytes;       /* of a defragmentation; 0: BACKEND_SLICE_BYTES_DEFAULT */
    size_t dirty_bytes_max;   /* by deleting ahead; 0: BACKEND_DIRTY_BYTES_DEFAULT */

    /* Up to where the log says that the store reaches: the index of its last snapshot. An install
     * that a crash has interrupted is ended by it, see "another image". 0: an image beside the
     * store is left alone. */
    uint64_t log_index;

    /* A commit has failed, not for want of space, and nobody knows what the disk has kept: in the
     * turn, once; after it only
     * views and backend_close are allowed. NULL ends the process, which a server wants; the
     * simulator crashes one member instead. */
    void (*on_failure)(void *context, enum err e, const char *text);
    void *context;
    struct buf *why; /* NULL, or where the reason is appended when opening fails */
};

/* --- opening ------------------------------------------------------------------------------ */

/*
 * Opens or creates the store. Takes as long as the disk takes: for boot and tools. ERR_BUSY:
 * another process has it. ERR_CORRUPT: not a store. ERR_UNSUPPORTED: of a later format. The caller
 * owns *out and ends it with backend_close.
 */
MUST_CHECK enum err backend_open(const struct backend_options *options, struct backend **out);

/* Ends b, with no job in flight and no view open (asserted). What was not committed is forgotten;
 * the log has it. NULL is fine. */
void backend_close(struct backend *b);

/* --- writing ------------------------------------------------------------------------------ */

/* Copies both into the open batch. Keys have 1 to BACKEND_KEY_BYTES_MAX bytes (asserted). */
void backend_put(struct backend *b, enum bucket bucket, struct bytes key, struct bytes value);

/* The same, but the caller writes the value's bytes, all of them, before its next call here. */
uint8_t *backend_put_space(struct backend *b, enum bucket bucket, struct bytes key,
                           size_t value_len);

/* A key that is not there is fine. */
void backend_delete(struct backend *b, enum bucket bucket, struct bytes key);

/*
 * The same, for deletes by the hundred thousand (physical compaction) that hold whatever becomes of
 * the batch. They may be in the store, all of them or some, when a crash has lost the rest of it;
 * and until the batch is committed, a view may still show the key. (One that the open batch itself
 * has written is deleted in the ordinary way.)
 *
 * A put costs the commit about as many bytes of pages as it has itself. A delete has none, yet the
 * page it changes is copied whole, and LMDB holds such copies until the transaction ends, and their
 * memory for good, for the next ones: in one transaction, deletes all over the store would take
 * hundreds of megabytes and never give them back. So these go first, in the order of their keys,
 * in which neighbours share pages, and in as many transactions as it takes for none to copy much
 * more than dirty_bytes_max; the rest of the batch goes with the last of them.
 */
void backend_delete_ahead(struct backend *b, enum bucket bucket, struct bytes key);

/*
 * Around the writes of one log entry, which may stretch over many turns. Between the two no commit
 * starts, so a batch never ends inside an entry, but for those below. Writes that belong to no
 * entry (physical compaction) may happen any time. The end notes that everything up to `now` has
 * been applied; its index grows (asserted). conf_state is NULL-bytes where it has not changed.
 */
void backend_entry_begin(struct backend *b);
void backend_entry_end(struct backend *b, struct backend_position now, struct bytes conf_state);

/*
 * An entry of any size (a lease with a million keys is revoked) would be as large a batch. One that
 * has written to `bucket` alone, and there nothing but keys from `from` on, beyond all that anybody
 * else has written or will, can be committed in parts: this says that it is such a one. While that
 * is true (a write to another bucket ends it), commits may start in the middle of it.
 *
 * With its first part the store gets a note, in bucket meta, of where the entry begins; the batch
 * with its end, which has its index too, takes the note away. A store that is opened with the note
 * in it removes everything from there on before anybody looks: so promise 1 is kept, and the log
 * has the entry. Within the entry, the core thread's views show its parts as ever.
 */
void backend_entry_divide(struct backend *b, enum bucket bucket, struct bytes from);

/* Has such an entry written as much as a part should have? Then it waits for a commit to start. */
bool backend_part_is_due(const struct backend *b);

/* The last entry applied, and the last that is in a durable batch. */
struct backend_position backend_applied(const struct backend *b);
struct backend_position backend_durable(const struct backend *b);

/*
 * Batches are numbered. What is written now is durable once backend_durable_batch has reached the
 * number that backend_open_batch gives now. (Compaction deletes nothing before the note of what it
 * is about to do is durable.)
 */
uint64_t backend_open_batch(const struct backend *b);
uint64_t backend_durable_batch(const struct backend *b);

/* --- committing: the server's part -------------------------------------------------------- */

/* Is there something to commit, no commit under way, and no entry half written, or one that can be
 * committed in parts? */
bool backend_can_commit(const struct backend *b);

/* Freezes the open batch and hands it to the backend thread (asserts backend_can_commit). The
 * completion arrives through the inbox; afterwards backend_durable names the batch's position. */
void backend_commit_start(struct backend *b);

/* The same in the calling thread, for boot and tools. Nothing may be in flight (asserted). Reports
 * by its result alone, never through on_failure. With nothing to commit it does nothing. */
MUST_CHECK enum err backend_commit_now(struct backend *b);

/* After backend_commit_now has failed, or a commit has found no space: why. */
const char *backend_failure(const struct backend *b);

/* Has a batch been frozen and not yet dropped? */
bool backend_is_committing(const struct backend *b);

/* The last commit has found no space, and there was no other since, or an install has; for which
 * want of a file descriptor counts as that. backend_failure says more. */
bool backend_lacks_space(const struct backend *b);

/* Once a second: tries it again, if that is so. */
void backend_retry(struct backend *b);

/* Is no job in flight? What backend_close needs. */
bool backend_is_idle(const struct backend *b);

/*
 * The memory that the open and the frozen batch hold, and whether it is past the cap. Then apply
 * takes no further entry until a commit is done. An entry that is under way is let finish, or it
 * could never be committed at all; so the cap may be overshot by one entry.
 */
size_t backend_pending_bytes(const struct backend *b);
bool backend_is_full(const struct backend *b);

/*
 * Upkeep is what nobody waits for and what belongs to no entry: compacting, settling large deletes.
 * Its writes stand between these two, within one turn; an entry may be half written meanwhile. It
 * may take BACKEND_UPKEEP_BYTES of each batch, and leaves half of the cap above to entries. When
 * that is used up, it waits for the next batch; so whoever keeps up asks before each slice, and may
 * overdraw by one.
 */
void backend_upkeep_begin(struct backend *b);
void backend_upkeep_end(struct backend *b);
bool backend_has_budget(const struct backend *b);

/* As of the last commit. */
struct backend_sizes backend_sizes(const struct backend *b);

/* How long jobs took, on their thread, since it was opened. Whoever puts another store in its place
 * assigns them. Each in HISTOGRAM_1MS_14. */
struct backend_stats {
    struct histogram commit;         /* a batch, all of it */
    struct histogram commit_changes; /* of that, changing pages, */
    struct histogram commit_write;   /* and writing them, with the sync */
};
struct backend_stats *backend_stats(struct backend *b);

/* --- looking ------------------------------------------------------------------------------ */

struct batch;
struct batch_node;
struct store;
struct store_reader;
struct store_cursor;

/* The fields are the room's own. */
struct backend_view {
    struct backend *backend;
    struct store *store;
    struct store_reader *reader;
    struct {
        struct batch *batch;
        uint64_t limit; /* writes with a later stamp are not seen */
    } layers[2];        /* newest first */
    unsigned layer_count;
    bool on_worker;
};

/*
 * Everything written so far. Close it within the turn: while it is open, the pages it sees cannot
 * be used again and the file grows.
 */
void backend_view_open(struct backend *b, struct backend_view *v);

/* From a worker thread, while b is alive: everything up to the last batch frozen. Close it within
 * the slice of work, for the same reason; a long scan opens one view for each slice. */
void backend_view_open_on_worker(struct backend *b, struct backend_view *v);

/* In the thread that opened it. */
void backend_view_close(struct backend_view *v);

/* ERR_NOT_FOUND, ERR_CORRUPT. The value is lent until the view is closed. */
MUST_CHECK enum err backend_get(struct backend_view *v, enum bucket bucket, struct bytes key,
                                struct bytes *value);

/*
 * A part of a value that backend_get has given before, in some earlier view: whoever reads a large
 * one a chunk at a time has it checked once, with its first chunk, and not with each. ERR_CORRUPT
 * also if it does not reach that far. (Values that change between the two are none of this.)
 */
MUST_CHECK enum err backend_get_part(struct backend_view *v, enum bucket bucket, struct bytes key,
                                     size_t from, size_t len, struct bytes *part);

/* Does the open or the frozen batch say what became of this key? Then to look at it takes no page
 * of the store. */
bool backend_is_in_batch(const struct backend *b, enum bucket bucket, struct bytes key);

/* How far the log is applied in this view. ERR_CORRUPT if the store's own notes are malformed. */
MUST_CHECK enum err backend_view_position(struct backend_view *v, struct backend_position *out);

/* After ERR_CORRUPT: what is wrong and where, for the last words of the process. */
const char *backend_view_damage(const struct backend_view *v);

/* The fields are the room's own. */
struct backend_cursor {
    struct backend_view *view;
    enum bucket bucket;
    const struct batch_node *at[2]; /* where each layer stands; NULL at its end */
    struct store_cursor *stored;
    struct bytes stored_key, stored_value;
    enum err stored_state; /* ERR_OK: stored_key is next; ERR_END; or what went wrong */
};

/*
 * The items of a bucket from the first key >= from, in order. Ends before its view does.
 *
 *     backend_cursor_open(&view, BUCKET_LEASE, (struct bytes){0}, &c);
 *     while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK) ...
 *     backend_cursor_close(&c);
 */
void backend_cursor_open(struct backend_view *v, enum bucket bucket, struct bytes from,
                         struct backend_cursor *c);
void backend_cursor_close(struct backend_cursor *c);

/* ERR_END behind the last, ERR_CORRUPT. Both are lent until the view is closed. */
MUST_CHECK enum err backend_cursor_next(struct backend_cursor *c, struct bytes *key,
                                        struct bytes *value);

/* A hint to the system: what is looked at lies here and there, and memory is short; or no more. */
void backend_read_randomly(struct backend *b, bool randomly);

/* Asserts that no view of the core thread is open: called at the end of every turn. */
void backend_turn_ended(const struct backend *b);

/* --- defragmentation ---------------------------------------------------------------------- */

/*
 * Copies the store into a new file, leaving the holes behind, while everything else goes on: a
 * slice of a few MiB at a time on the backend thread, between commits. A commit that happens
 * meanwhile is made to both files, as far as the copy has come. With the last slice the copy takes
 * the old one's name, by one rename, and its place. A crash leaves one or the other, both up to
 * date.
 *
 * What goes wrong with the copy (no space, most likely) ends only the defragmentation. Embedded in
 * whoever asks; all zeroes with on_done filled in.
 */
struct backend_defrag {
    void (*on_done)(struct backend_defrag *d, enum err e); /* in the turn */
    struct backend_sizes before, after;
};

/* False if one is under way already, which the caller tells its client. */
bool backend_defrag_start(struct backend *b, struct backend_defrag *d);

/* Gives up the one under way, if there is one: it ends with ERR_CANCELED, after the slice that is
 * being copied; or well, if that was the last. */
void backend_defrag_cancel(struct backend *b);

/* --- another image ------------------------------------------------------------------------ */

/*
 * A store can be replaced as a whole by another one, its image, which was made beside it, from what
 * another member has sent. It is a backend of its own, in the same folder under another name.
 *
 *     backend_image_create, backend_image_copy or puts, backend_commit_now     on any thread
 *     .. its snapshot is recorded in the log, and that is durable ..
 *     backend_install_start    the image takes the store's name, by one rename and a sync
 *
 * From the record in the log on the image counts, and the rename only carries that out. So a crash
 * leaves one of two things: a log whose last snapshot the store has, and then the store is the one
 * under that name and an image beside it is left over; or a log whose last snapshot the store does
 * not reach, and an image that ends exactly there. backend_open tells them by log_index, and in the
 * second case ends the install before it opens anything.
 *
 * An image is whole when it has a position (backend_applied): that goes into its last batch.
 */

/* An empty image. The options are those that the store was opened with; one that is left over goes.
 * Until it is installed it has no thread for commits: only backend_commit_now, and everything in
 * here is for whichever thread has it. The caller ends it with backend_close, which leaves it on
 * disk. */
MUST_CHECK enum err backend_image_create(const struct backend_options *options,
                                         struct backend **out);

/* Fills an image that is empty with all that the view shows, some MiB to a batch. ERR_CORRUPT: the
 * view has damage. Others: backend_failure(image) says why. */
MUST_CHECK enum err backend_image_copy(struct backend *image, struct backend_view *from);

/* The same for an image that somebody else has filled: all of it is put and committed, the position
 * as etcd has it in bucket meta included, which counts from now on. */
MUST_CHECK enum err backend_image_filled(struct backend *image);

/* Up to where an image that lies beside a store, and that nobody has open, has applied the log;
 * all zeroes if it is not whole. ERR_NOT_FOUND: there is none. */
MUST_CHECK enum err backend_image_position(const struct backend_options *options,
                                           struct backend_position *out);

/* An image that nobody has open goes, and its space with it. One that is not there is fine. */
MUST_CHECK enum err backend_image_remove(const struct backend_options *options);

/*
 * The image, which is whole, takes the place of b on disk, behind the commit that may be under way.
 * Embedded in whoever asks; all zeroes with on_done filled in. A failure is b's, on_failure, and
 * then on_done does not come. If there is no space for the rename, nothing has happened: it waits,
 * as a commit does, and b's commits with it (backend_lacks_space, backend_retry). After on_done
 * `image` is the store, and commits as b did; b can only be looked at and closed, what it had not
 * committed is forgotten, and a defragmentation of it has ended with ERR_CANCELED.
 */
struct backend_install {
    void (*on_done)(struct backend_install *i); /* in the turn */
    struct backend *image;                      /* the room's own */
};
void backend_install_start(struct backend *b, struct backend *image, struct backend_install *i);

/* All invariants that can be looked at from the core thread between two calls. */
void backend_check(const struct backend *b);
