/*
 * disk: files and directories, and what of them survives a power cut.
 *
 * Every operation is a struct disk_op: fill in the kind and its arguments, then either submit it to
 * a queue, to be done by that queue's thread and reported in the turn, or wait for it, which does
 * it at once in the calling thread (boot, tools). Both run the same code.
 *
 *     disk_submit --> [log queue]   --> its thread --> inbox --> on_done
 *                 --> [other queue] --> its thread --> inbox --> on_done
 *
 * Promises   1. The operations of one queue are done, and reported, in the order submitted.
 *            2. Data is durable when a DISK_SYNC after the write, or the write's own sync,
 *               succeeds. A name is durable when a DISK_SYNC_DIR of its directory succeeds:
 *               creating a file and syncing it does not make it findable after a power cut. Some
 *               file systems, those over a network mostly, have no such thing as the sync of a
 *               directory; there it succeeds with the os_error EINVAL, and how long a name lasts is
 *               the file system's affair. Whoever should tell the operator looks.
 *            3. A write is complete or reports an error, with `done` telling how far it came.
 *            4. Only OPEN, READ_FILE, LIST and a SYNC_DIR by path need a file descriptor that was
 *               not there before, and report ERR_NO_FILES if there is none left. What must not fail
 *               for that reason opens its directory in time.
 * Not here   What a failed sync means: the caller ends the process, since nobody can know what the
 *            disk has kept, and asking again may get a false yes.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "io/inbox.h"

enum disk_op_kind {
    DISK_NONE,
    DISK_OPEN,      /* path flags mode -> file */
    DISK_CLOSE,     /* file; gives up its locks */
    DISK_READ,      /* file offset into size -> done; less than size only at the end of the file */
    DISK_WRITE,     /* file offset pieces piece_count sync -> done */
    DISK_SYNC,      /* file: its data and its size */
    DISK_ALLOCATE,  /* file offset size flags(KEEP_SIZE): reserves space, which reads as zeroes */
    DISK_TRUNCATE,  /* file size */
    DISK_LOCK,      /* file flags(SHARED, FLOCK); ERR_BUSY at once if another opening holds it */
    DISK_STAT,      /* path, or file -> stat */
    DISK_READ_FILE, /* path size -> appends to *out; ERR_TOO_LARGE beyond size bytes */
    DISK_LIST,      /* path size -> appends to *out: the names, sorted, each with its final zero */
    DISK_MAKE_DIR,  /* path mode flags(PARENTS) */
    DISK_RENAME,    /* path path_to; replaces a file that has the name */
    DISK_REMOVE,    /* path: a file, or a directory that is empty */
    DISK_SYNC_DIR,  /* path, file: the same if it was opened before, or NULL */
    DISK_SPACE,     /* path -> size: how many bytes a process like this may still allocate there */
};

enum disk_flag {
    DISK_CREATE = 1,     /* open: make it if missing */
    DISK_EXCLUSIVE = 2,  /* open with CREATE: ERR_EXISTS if it is there */
    DISK_CUT = 4,        /* open: empty it */
    DISK_READ_ONLY = 8,  /* open */
    DISK_PARENTS = 16,   /* make_dir: missing parents too, and one that exists is fine */
    DISK_KEEP_SIZE = 32, /* allocate: the size the file reports stays */
    DISK_SHARED = 64,    /* lock: others may share it too */
    DISK_FLOCK = 128,    /* lock: flock, as bbolt locks its file; else an open-file-description
                            lock, as etcd locks its log segments. The two do not see each other */
    DISK_DIRECTORY = 256 /* open: a directory, for DISK_SYNC_DIR and DISK_CLOSE only */
};

/* As an offset of a write: at the end of the file. */
#define DISK_END UINT64_MAX

/* The log has a thread to itself, so that no other file's slowness delays an acknowledgement. */
enum disk_queue { DISK_LOG, DISK_OTHER, DISK_QUEUE_COUNT };

struct disk;
struct disk_file; /* opaque: one opening of a file; made by DISK_OPEN, ended by DISK_CLOSE */

struct disk_stat {
    uint64_t size;
    unsigned mode; /* permission bits */
    bool is_dir;
};

/* What the op points to is lent until it is done. */
struct disk_op {
    enum disk_op_kind kind;
    unsigned flags; /* enum disk_flag */
    unsigned mode;  /* before the umask */
    bool sync;      /* write: one sync after the last piece */
    const char *path, *path_to;
    struct disk_file *file;
    uint64_t offset, size;
    const struct bytes *pieces;
    size_t piece_count;
    uint8_t *into;
    struct buf *out;
    void (*on_done)(struct disk_op *op); /* in the turn; may free or submit the op again */

    enum err err;
    int os_error; /* the errno behind err, for logs; 0 if there is none; see also promise 2 */
    size_t done;  /* bytes read or written */
    uint64_t took_ns, sync_ns; /* on its thread, without waiting for its turn; of that, the sync */
    struct disk_stat stat;

    struct disk *disk;
    struct event event;
};

struct disk_ops {
    void (*submit)(struct disk *d, enum disk_queue queue, struct disk_op *op);
    void (*run)(struct disk *d, struct disk_op *op);
};

struct disk {
    const struct disk_ops *ops;
};

/* Hands the op to the queue until on_done. Never fails, never blocks. */
void disk_submit(struct disk *d, enum disk_queue queue, struct disk_op *op);

/* Does the op now, in this thread, without on_done, and returns its err. Operations that are still
 * on a queue are not waited for: use it before the loop runs, or where there is none. */
MUST_CHECK enum err disk_wait(struct disk *d, struct disk_op *op);

/* Shorthands for disk_wait. */
MUST_CHECK enum err disk_open(struct disk *d, const char *path, unsigned flags, unsigned mode,
                              struct disk_file **out);
MUST_CHECK enum err disk_close(struct disk *d, struct disk_file *f);
MUST_CHECK enum err disk_read(struct disk *d, struct disk_file *f, uint64_t offset, uint8_t *into,
                              size_t size, size_t *done);
MUST_CHECK enum err disk_write(struct disk *d, struct disk_file *f, uint64_t offset,
                               struct bytes data);
MUST_CHECK enum err disk_sync(struct disk *d, struct disk_file *f);
MUST_CHECK enum err disk_allocate(struct disk *d, struct disk_file *f, uint64_t offset,
                                  uint64_t size, unsigned flags);
MUST_CHECK enum err disk_truncate(struct disk *d, struct disk_file *f, uint64_t size);
MUST_CHECK enum err disk_lock(struct disk *d, struct disk_file *f, unsigned flags);
MUST_CHECK enum err disk_stat_file(struct disk *d, struct disk_file *f, struct disk_stat *out);
MUST_CHECK enum err disk_stat(struct disk *d, const char *path, struct disk_stat *out);
MUST_CHECK enum err disk_read_file(struct disk *d, const char *path, size_t size_max,
                                   struct buf *out);
MUST_CHECK enum err disk_list(struct disk *d, const char *path, size_t size_max, struct buf *out);
MUST_CHECK enum err disk_make_dir(struct disk *d, const char *path, unsigned mode, unsigned flags);
MUST_CHECK enum err disk_rename(struct disk *d, const char *path, const char *path_to);
MUST_CHECK enum err disk_remove(struct disk *d, const char *path);
MUST_CHECK enum err disk_sync_dir(struct disk *d, const char *path);
MUST_CHECK enum err disk_space(struct disk *d, const char *path, uint64_t *out);

/* A directory to be synced later, when there may be no file descriptor to be had. */
MUST_CHECK enum err disk_open_dir(struct disk *d, const char *path, struct disk_file **out);
MUST_CHECK enum err disk_sync_opened_dir(struct disk *d, const char *path, struct disk_file *dir);

/* Creates or empties the file, writes the content and syncs it. The name is not yet durable. */
MUST_CHECK enum err disk_write_file(struct disk *d, const char *path, unsigned mode,
                                    struct bytes content);

/* Walks what DISK_LIST has written: the next name, or NULL after the last.
 *
 *     struct bytes left = buf_bytes(&names);
 *     for (const char *name; (name = disk_next_name(&left));) ...
 */
const char *disk_next_name(struct bytes *left);
