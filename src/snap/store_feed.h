/*
 * store_feed: our store as bolt's writer wants it, bucket by bucket, twice.
 *
 * An export has one view of the store for both walks, and everything comes from that. An image of a
 * running member is walked in slices, each with a short view of its own. Then it begins where the
 * slice before has ended; and what may change in between, all buckets but `key`, comes from copies
 * that were made at the cut. Of `key` nothing changes as long as compaction is held back; what was
 * written after the cut has later revisions, and is left out by those.
 *
 *     store_feed_init, then for each slice: store_feed_begin, the writer's walk, store_feed_end
 *
 * Promises   1. What is shown does not depend on where slices end.
 *            2. Memory: a key. Copies are the caller's.
 * Leans on   bolt.h, backend. One thread at a time.
 */
#pragma once

#include "backend/backend.h"
#include "base/buf.h"
#include "snap/bolt.h"

struct store_feed {
    struct bolt_feed bolt; /* for bolt_writer_open, with the names */
    struct bytes names[BUCKET_COUNT];
    uint64_t entries, bytes; /* shown so far; whoever counts sets them to 0 */
    enum bucket bucket;      /* that it stands in */

    /* from here on its own */
    const struct buf *copies; /* of each bucket, or NULL */
    uint64_t revision_max;
    struct backend_view *view; /* of the slice; NULL between two */
    struct backend_cursor cursor;
    bool cursor_open;
    struct bytes left;  /* of the copy, behind the current entry */
    struct buf key;     /* of the current entry; empty before the first */
    struct bytes value; /* the same; nothing if it was lent by an earlier slice */
};

/* Copies: BUCKET_COUNT of them, that of `key` unused, which outlive the feed; NULL: all comes from
 * the view. Entries of `key` above revision_max are left out. */
void store_feed_init(struct store_feed *f, const struct buf *copies, int64_t revision_max);
void store_feed_free(struct store_feed *f);

/* The view is lent until the end of the slice. */
void store_feed_begin(struct store_feed *f, struct backend_view *view);
void store_feed_end(struct store_feed *f); /* again is fine */

/* Appends all entries of a bucket, as store_feed_init wants them. */
MUST_CHECK enum err store_feed_copy(struct backend_view *view, enum bucket bucket, struct buf *out);

/* ERR_BUSY: there is unfinished work of ours in bucket meta (BACKEND_UNFINISHED_PREFIX): a delete
 * that is decided and not carried out, say, with which etcd could not go on. *name is its key, lent
 * by the view. */
MUST_CHECK enum err store_feed_check_finished(struct backend_view *view, struct bytes *name);
