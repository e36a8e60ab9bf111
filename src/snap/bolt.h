/*
 * bolt: etcd's database files, read without trust and written as a stream.
 *
 * etcd keeps its state in one bbolt file and sends that file around: to a member that is far
 * behind, to an operator's backup, from one machine to the next. Our own store is another one, so
 * this is where etcd's state comes in and goes out.
 *
 *     file    | meta 0 | meta 1 | page 2 | page 3 ............. | page n-1 |
 *     meta    | page header | magic version page_size | root page | free list | n | txid | fnv64 |
 *     page    | id, kind, count, overflow | count x element | key value key value ... | zeroes |
 *     leaf    element = {is a bucket, where, key length, value length}
 *     branch  element = {where, key length, child page}; the key is a lower bound of the child's
 *
 * The root tree holds bucket names; each value there is a bucket: the page its own tree starts at,
 * or, for a small one, a whole leaf page inlined in the value. A page that does not fit runs on
 * into `overflow` pages behind it. Two metas, so that a torn one leaves the state before it: the
 * valid one with the higher txid counts. etcd does not store the list of free pages on Linux; a
 * page no tree reaches is free.
 *
 * Reading    A bolt_source (file or memory), bolt_open, bolt_check, then cursors. The file may be
 *            many gigabytes: a small cache of blocks is all that is held, values come in pieces.
 * Writing    A bolt_feed with sorted buckets, bolt_writer_open, bolt_writer_plan until it is done,
 *            then bolt_writer_read until it is dry. The metas come first and need to know how many
 *            pages follow, hence the two walks over the same content; the plan remembers a few
 *            bytes for each bucket. Leaves go out as they fill, each branch page behind the last
 *            of its children, so what is held is one open page per level.
 *
 * Promises   1. No file, however made, crashes the reader, makes it loop, or makes it hold more
 *               than BOLT_CACHE_BYTES, two keys, a key per cursor, and in bolt_check a bit per
 *               page.
 *            2. After bolt_check has returned ERR_OK: every page of every tree is inside the file,
 *               reached once, of the right kind, with its keys in order and between those of its
 *               parent; keys and values lie back to back as bbolt writes them, the rest of the page
 *               is zero, and a stored free list names exactly the other pages.
 *            3. Without bolt_check a cursor makes all these checks for the pages it walks, except
 *               that two buckets sharing a page go unnoticed.
 *            4. An error comes with a bolt_fault: the offset in the file, and what is wrong there.
 *            5. The writer's bytes are those bolt_check and etcd's own check accept, and their
 *               number is known before the first one.
 *
 * What no reader can promise: bbolt has checksums in its metas alone. As good as what was written
 * are
 *
 *     - a changed byte of a value, or of a key as long as the order of keys holds;
 *     - the last entry of a leaf, key or value grown by a changed length, as long as the zeroes
 *       behind it suffice for what it has grown by; or one that has lost zeroes at its end;
 *     - in a file without a stored free list, a page number that now names another well-formed
 *       page with keys in range: one further down in its tree, or a free one with older data;
 *     - anything in free pages, which nobody reads.
 *
 * So a backup carries a SHA-256 at its end (bolt_check_digest), which misses nothing; and our own
 * images store a free list, an empty one, which rules out the third. For files without a digest
 * whoever knows the content helps a little: a revision has 17 or 18 bytes, and an
 * mvccpb.KeyValue with a zero behind it is malformed.
 *
 * Not here   What buckets, keys and values mean. Locking: read no file that a live etcd may write.
 *            Buckets inside buckets, which bbolt allows and etcd does not have, are refused.
 * Leans on   base, io/disk.h, io/hash.h. One thread at a time for each reader or writer.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

struct disk;
struct disk_file;

#define BOLT_KEY_BYTES_MAX   32768
#define BOLT_VALUE_BYTES_MAX ((uint64_t)INT32_MAX - 1)
#define BOLT_PAGE_BYTES_MIN  1024
#define BOLT_PAGE_BYTES_MAX  (16 * MIB)

/* The writer's bound; the reader takes any key. */
#define BOLT_BUCKET_NAME_BYTES_MAX 256

/* ---- Where the bytes come from ---- */

struct bolt_source {
    /* All `size` bytes from `offset`, which the reader keeps within the source's size. */
    enum err (*read)(struct bolt_source *s, uint64_t offset, uint8_t *into, size_t size);
    uint64_t size;
};

struct bolt_memory {
    struct bolt_source source;
    struct bytes image;
};

/* The image is lent as long as the source is used. */
void bolt_memory_init(struct bolt_memory *m, struct bytes image);

struct bolt_file {
    struct bolt_source source;
    struct disk *disk;
    struct disk_file *file;
};

/* The file, which stays the caller's, as long as it is now. Reads happen in the calling thread. */
MUST_CHECK enum err bolt_file_init(struct bolt_file *f, struct disk *disk, struct disk_file *file);

/* What was wrong, and where. */
struct bolt_fault {
    uint64_t offset;
    const char *what; /* NULL as long as nothing was; a constant */
};

/*
 * Verifies the SHA-256 that a backup ends with and takes it off the source, so that an image is
 * left. ERR_NOT_FOUND if the size says that there is none (etcd's rule: size % 512 == 32).
 */
MUST_CHECK enum err bolt_check_digest(struct bolt_source *s, struct bolt_fault *fault);

/* ---- Reading ---- */

struct bolt;        /* opaque: one file being read */
struct bolt_cursor; /* opaque: a place in one bucket */

enum bolt_kind {
    BOLT_LIVE,  /* a data directory's db: one meta may be torn, the file may be longer than used */
    BOLT_IMAGE, /* a snapshot: metas whole and alike but for their txid, and not a byte more */
};

struct bolt_info {
    uint64_t pages, txid;
    uint32_t page_bytes;
    bool meta_damaged; /* the other meta was not valid: this state may be the one before the last */
};

struct bolt_entry {
    struct bytes key; /* lent until the cursor moves */
    uint32_t value_bytes;
};

/*
 * Reads the metas. `source` and `fault` must outlive *out, which the caller ends with bolt_close.
 * ERR_CORRUPT for anything that is not a bbolt file; errors of the source are passed on.
 */
MUST_CHECK enum err bolt_open(struct bolt_source *source, enum bolt_kind kind,
                              struct bolt_fault *fault, struct bolt **out);
void bolt_close(struct bolt *b); /* all cursors are closed before; NULL is fine */

struct bolt_info bolt_info(const struct bolt *b);

/* Walks every page of the file: promise 2. */
MUST_CHECK enum err bolt_check(struct bolt *b);

/*
 * CRC-32C over every bucket name, key and value, as `etcdutl snapshot status` prints it, and the
 * number of keys.
 */
struct bolt_sum {
    uint32_t crc;
    uint64_t keys;
};
MUST_CHECK enum err bolt_sum(struct bolt *b, struct bolt_sum *out);

/* A cursor before the first entry of the bucket, ERR_NOT_FOUND when there is none of this name. */
MUST_CHECK enum err bolt_cursor_open(struct bolt *b, struct bytes bucket, struct bolt_cursor **out);

/* One whose entries are the buckets themselves: the names are what is of use. */
struct bolt_cursor *bolt_cursor_open_root(struct bolt *b);
void bolt_cursor_close(struct bolt_cursor *c); /* NULL is fine */

/* The next entry, or ERR_END. After any other error the cursor only gives the same one. */
MUST_CHECK enum err bolt_cursor_next(struct bolt_cursor *c, struct bolt_entry *out);

/* The first entry whose key is not below `key`, or ERR_END. */
MUST_CHECK enum err bolt_cursor_seek(struct bolt_cursor *c, struct bytes key,
                                     struct bolt_entry *out);

/* A piece of the current entry's value; it must lie within (asserted). */
MUST_CHECK enum err bolt_cursor_read(struct bolt_cursor *c, uint32_t offset, uint8_t *into,
                                     size_t size);

/* Appends the current value to `out`: ERR_TOO_LARGE when it has more than `size_max` bytes. */
MUST_CHECK enum err bolt_cursor_value(struct bolt_cursor *c, size_t size_max, struct buf *out);

/* ---- Writing ---- */

/*
 * The content, walked twice, bucket by bucket. It may fail; it may not change between the walks,
 * and if it does, bolt_writer_read says ERR_CORRUPT.
 */
struct bolt_feed {
    /* Before the first entry of bucket number `bucket`. */
    enum err (*rewind)(struct bolt_feed *f, size_t bucket);
    /* The next entry, keys ascending, or ERR_END. The key is lent until the next call. */
    enum err (*next)(struct bolt_feed *f, struct bolt_entry *out);
    /* A piece of that entry's value. */
    enum err (*read)(struct bolt_feed *f, uint32_t offset, uint8_t *into, size_t size);
};

struct bolt_writer_options {
    const struct bytes *buckets; /* names, ascending (asserted); lent until the writer is closed */
    size_t bucket_count;
    uint32_t page_bytes; /* a power of two; 0: 4096 */
    uint64_t txid;       /* of the newer meta, even; 0: 2 */
};

struct bolt_writer; /* opaque */

/* The feed must outlive the writer, which the caller ends with bolt_writer_close. */
struct bolt_writer *bolt_writer_open(const struct bolt_writer_options *options,
                                     struct bolt_feed *feed);
void bolt_writer_close(struct bolt_writer *w); /* NULL is fine */

/*
 * The first walk, at most `entries_max` entries of it. Sets *done when there is no more; from then
 * on bolt_writer_size tells how long the image is. ERR_TOO_LARGE for a key or value that bbolt
 * cannot hold, ERR_CORRUPT for keys out of order, or what the feed says.
 */
MUST_CHECK enum err bolt_writer_plan(struct bolt_writer *w, uint64_t entries_max, bool *done);
uint64_t bolt_writer_size(const struct bolt_writer *w);

/* The second walk: the next bytes of the image, `size` of them unless it ends before. */
MUST_CHECK enum err bolt_writer_read(struct bolt_writer *w, uint8_t *into, size_t size,
                                     size_t *done);
