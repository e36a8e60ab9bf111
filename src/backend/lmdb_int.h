/*
 * lmdb_int: what the files behind the store on disk share. Only they include LMDB.
 *
 *     lmdb.c         opening, the copy beside it, closing
 *     lmdb_read.c    readers and cursors           lmdb_write.c   transactions
 *     lmdb_space.c   what is done about a full disk
 *     lmdb_group.c   keys that are too long        lmdb_map.c     faults inside the map
 *     lmdb_resident.c   how much of the map counts as the process's memory
 *
 *     dir/lock                      held while the store is open
 *     dir/store.mdb, -lock          the store, and LMDB's table of its readers
 *     dir/copy.mdb, -lock           one that is being made; removed at the next opening
 *     dir/image.mdb, -lock          an image, being made or whole (image.c)
 *
 * In the file each bucket is a named tree. A stored value is
 *
 *     | crc32c u32 | the value |
 *
 * where the checksum covers bucket, key length, key and value: LMDB has none of its own, and would
 * hand out whatever a damaged page says. The main tree holds, beside the buckets, the format's
 * number under "cleat".
 */
#pragma once

#include "backend/backend_int.h"
#include "base/list.h"
#include "io/disk.h"

#include <lmdb.h>

/* Slots are cheap and a reader too many would be our bug; one more is for the slices of a copy. */
enum { LMDB_READERS_MAX = BACKEND_CORE_VIEWS_MAX + BACKEND_WORKER_VIEWS_MAX + 1 };

/* LMDB's own limit is 511; at that length a stored key names a group of long ones. */
enum { GROUP_KEY_BYTES = 511, CHECKSUM_BYTES = 4 };

struct lmdb_writer {
    MDB_cursor *cursor; /* NULL until the bucket is written to */
    uint8_t last[GROUP_KEY_BYTES];
    size_t last_len; /* no key of the bucket is greater: beyond it, appending is allowed */
};

/*
 * lmdb_resident.c: what is read through the map becomes resident, a scan of a gigabyte a gigabyte,
 * and operators see it as the process's. So it is let go of again.
 *
 * Whoever comes to another window of the map counts it, and tells the store at every MiB
 * (LMDB_TELL_BYTES):
 *
 *     in a row, or of large values   let go of after 4 MiB, which is cheap against the reading
 *     jumped to                      may well be jumped to again, and a fault costs more than a
 *                                    get: it goes, with all the rest of the map, once there are
 *                                    4 MiB of it and when that takes 2 % of the time at most
 *     removed                        in a row, but from copies of pages that were who knows where:
 *                                    likewise, with more of the time
 *
 * Therefore a scan, a range of large values or of values as they were put, the boot, a compaction,
 * and whoever jumps about slowly cost a few MiB; jumps in quick succession keep the pages that they
 * use. That goes for small values all over the file too, even if it is one range that wants them:
 * to hold it to a few MiB would take a fault for each, and those are dearer than all the rest of
 * the range.
 */
enum { LMDB_WINDOW_BYTES = 64 * KIB }; /* what one fault maps, at least */

struct lmdb_span {
    size_t low, high; /* offsets in the map; equal: nothing */
};

struct lmdb_touched {
    size_t window; /* the number of the one where the last read ended */
    size_t high;   /* where the one with the highest end did */
    size_t row_bytes, jump_bytes, removed_bytes;
    struct lmdb_span row; /* without what was jumped to */
};

struct lmdb_resident {
    char *map; /* NULL: not known where */
    size_t map_bytes;

    pthread_mutex_t lock; /* of all below; never held over a call to the kernel */
    size_t row_bytes, jump_bytes, removed_bytes;
    struct lmdb_span row, row_before; /* what is read is looked at once more, a little later */
    size_t high;                      /* nothing behind it was ever touched */
    bool busy, refused;
    size_t hand;                /* where letting go of everything ran out of time, */
    uint64_t ended_ns, took_ns; /* when that was, and how long it took */
};

struct lmdb_reader {
    struct store_reader base;
    struct lmdb_store *store;
    struct lmdb_touched touched;
    MDB_txn *txn;
    struct lmdb_reader *next_spare;
};

struct lmdb_store {
    struct store base;
    struct disk *disk;
    char *dir, *path;
    const char *name;          /* in dir, without .mdb: "store", "copy" or "image" */
    struct disk_file *lock;    /* NULL in a copy, and in a store that was replaced by one */
    struct disk_file *witness; /* lmdb_space.c */
    bool lacks_space;          /* a commit has found none */
    bool had_space;            /* and yet there was some */
    MDB_env *env;
    MDB_dbi dbis[BUCKET_COUNT];
    size_t page_bytes;
    bool is_copy; /* still under the copy's name */
    int region;   /* lmdb_map.c's number for the map; -1 for none */

    struct lmdb_resident resident;

    MDB_txn *writing;
    struct lmdb_writer writers[BUCKET_COUNT];
    struct lmdb_touched touched; /* by removing */
    size_t jumps;                /* other changes in the middle of a bucket */
    struct buf group;            /* the one being rewritten */

    struct lmdb_reader *spare; /* reset: they hold a slot but no pages */
};

static inline struct lmdb_store *lmdb_store(struct store *s)
{
    return container_of(s, struct lmdb_store, base);
}

static inline MDB_val lmdb_val(struct bytes b)
{
    return (MDB_val){.mv_size = b.len, .mv_data = (void *)b.at};
}

static inline struct bytes lmdb_bytes(MDB_val v)
{
    return bytes_of(v.mv_data, v.mv_size);
}

/* From LMDB's code, which may be an errno. */
enum err lmdb_err(int code);

/* Notes why a writing call failed and returns lmdb_err(code). */
enum err lmdb_failed(struct lmdb_store *s, const char *what, int code);

/* Into `text`, of `size` bytes: what is wrong with this key. Returns ERR_CORRUPT. */
enum err lmdb_damaged(const struct lmdb_store *s, enum bucket bucket, struct bytes key,
                      const char *what, char *text, size_t size);

/* The number that goes in front of a value. */
uint32_t lmdb_checksum(enum bucket bucket, struct bytes key, struct bytes value);

/* Takes the checksum off; false if it is not that of the rest. */
bool lmdb_verify(enum bucket bucket, struct bytes key, struct bytes stored, struct bytes *value);

/* lmdb_read.c */
enum err lmdb_reader_open(struct store *s, struct store_reader **out);
void lmdb_reader_close(struct store_reader *r);
enum err lmdb_get(struct store_reader *r, enum bucket bucket, struct bytes key,
                  struct bytes *value);
enum err lmdb_get_part(struct store_reader *r, enum bucket bucket, struct bytes key, size_t from,
                       size_t len, struct bytes *part);
struct store_cursor *lmdb_cursor_open(struct store_reader *r, enum bucket bucket,
                                      struct bytes from);
enum err lmdb_cursor_next(struct store_cursor *c, struct bytes *key, struct bytes *value);
void lmdb_cursor_close(struct store_cursor *c);

/* lmdb_write.c */
enum err lmdb_begin(struct store *s);
enum err lmdb_put(struct store *s, enum bucket bucket, struct bytes key, struct bytes value);
enum err lmdb_remove(struct store *s, enum bucket bucket, struct bytes key);
enum err lmdb_commit(struct store *s);
void lmdb_abort(struct store *s);
enum err lmdb_measure(struct lmdb_store *s, MDB_txn *txn);

/*
 * lmdb_group.c: keys of GROUP_KEY_BYTES and more (names of users and roles) share, with all others
 * that begin with the same GROUP_KEY_BYTES bytes, one stored item under those bytes:
 *
 *     | name length u32 | value length u32 | name | value | ... in the order of names
 *
 * No hash is needed, nothing can collide, and walking the tree and then each group gives the order
 * of whole names; for every shorter key stands on the same side of all names of a group. The price
 * is that a group is rewritten with each change in it. Groups are small: who gives half a thousand
 * equal bytes to the names of many users?
 */
static inline bool group_holds(struct bytes key)
{
    return key.len >= GROUP_KEY_BYTES;
}

static inline struct bytes group_key(struct bytes key)
{
    return bytes_of(key.at, GROUP_KEY_BYTES);
}

/* Takes the first item off *left. False when it is malformed. */
bool lmdb_group_take(struct bytes *left, struct bytes *name, struct bytes *value);

/* ERR_NOT_FOUND, ERR_CORRUPT. */
MUST_CHECK enum err lmdb_group_get(struct bytes group, struct bytes name, struct bytes *value);

/* Appends to `out` the group with the name put to *value, or without it if that is NULL. */
MUST_CHECK enum err lmdb_group_change(struct bytes group, struct bytes name,
                                      const struct bytes *value, struct buf *out);

/*
 * lmdb_map.c: a fault at an address inside a map (the file was cut, the disk cannot read a page)
 * ends the process with a line that names the file. Other faults go where they went before.
 */
int lmdb_map_watch(void *start, size_t size, const char *path);
void lmdb_map_name(int region, const char *path);    /* the file is called otherwise now */
void lmdb_map_forget(int region, size_t file_bytes); /* just before it is unmapped */

/* Where the file with this inode is mapped with this size; NULL if it cannot be found out. */
void *lmdb_map_find(struct disk *disk, uint64_t inode, size_t size);

/*
 * lmdb_space.c: a commit that finds no space leaves the store as it was, since no page is written
 * over that the root before can see. But LMDB says "input/output error" where a write came up
 * short, and what it says of a failed sync may be "no space left", too. A failed sync must end the
 * process.
 */

/* Before and after LMDB opens the store. */
enum err lmdb_reserve_lock(struct lmdb_store *s);
enum err lmdb_open_witness(struct lmdb_store *s);

/* A commit has failed with this code. ERR_NO_SPACE only if that is what it was, and no more. */
enum err lmdb_commit_failed(struct lmdb_store *s, int code);

/* Where the last commit has found no space: is there some by now? */
bool lmdb_has_space(struct lmdb_store *s);

/* lmdb_resident.c */
void lmdb_resident_open(struct lmdb_resident *m);
void lmdb_resident_close(struct lmdb_resident *m);
void lmdb_resident_tell(struct lmdb_resident *m, struct lmdb_touched *t);

/* A fault reads the pages around its own, too: up to 128 KiB. That is for the best where they are
 * used next or stay, and in the way of everybody else's reads and syncs where they do neither. */
void lmdb_read_randomly(struct store *s, bool randomly);

/* After a commit with this many changes at unknown places. */
void lmdb_resident_committed(struct lmdb_resident *m, struct lmdb_touched *t, size_t jumps,
                             uint64_t file_bytes);

/* Touching left the window that it was in. */
void lmdb_resident_moved(struct lmdb_resident *m, struct lmdb_touched *t, size_t low, size_t high);

/* Before the bytes are looked at: letting go comes first, or they would be mapped twice. */
static inline void lmdb_resident_touch(struct lmdb_resident *m, struct lmdb_touched *t,
                                       struct bytes stored)
{
    size_t low = (uintptr_t)stored.at - (uintptr_t)m->map, high = low + stored.len;

    if (low / LMDB_WINDOW_BYTES != t->window || high / LMDB_WINDOW_BYTES != t->window)
        lmdb_resident_moved(m, t, low, high);
}
