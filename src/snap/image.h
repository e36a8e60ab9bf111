/*
 * image: this member's state as etcd's file, as of one index, read a chunk at a time while writes
 * go on.
 *
 * A member that is far behind is sent one, an operator's backup is one. The content is fixed at the
 * cut: the small buckets are copied then; of `key` everything up to the cut's revision counts,
 * which nobody changes as long as compaction is held back (the server does, cutting.h). So no view
 * of the store is held longer than a slice of work on a worker: pass 1 plans the pages, pass 2
 * makes the bytes, a chunk ahead of whoever takes them.
 *
 *     image_cut --> a worker copies the small buckets, from a view opened at the cut
 *               --> the batch that was frozen at the cut is durable: removals that were decided
 *                   before it are carried out, and no view shows them any more
 *               --> PLANNING, slice by slice --> READY: its size is known
 *               --> chunks, one being read and one being made --> all are consumed
 *
 * Promises   1. Equal states at the cut make equal bytes, whatever is written, compacted or
 *               defragmented meanwhile and however slowly it is read. bolt_check and etcd accept
 *               them; the consistent index in them is the snapshot's.
 *            2. A slice looks at no more than IMAGE_SLICE_BYTES and IMAGE_SLICE_ENTRIES, or makes
 *               one chunk, and has a view that ends with it.
 *            3. Memory: two chunks, the small buckets, a page for each level of the tree.
 *            4. Damage in the store fails the image; nothing of it goes out.
 * Not here   When to cut, and who keeps compaction away meanwhile (server/cutting.h). The SHA-256
 *            at a backup's end.
 * Leans on   bolt.h, backend, io/worker.h. In the turn, but for its jobs.
 */
#pragma once

#include "backend/backend.h"
#include "entry/entry.h"

struct workers;
struct image; /* opaque */

/* --- whoever cuts --- */

struct image_options {
    struct backend *backend; /* outlives the image */
    struct workers *workers;
    const struct raft_snapshot *snapshot; /* copied */
    int64_t revision;                     /* mvcc's newest: what is above it is left out */
    uint64_t batch; /* that was open last: the image waits until it is durable */
    uint64_t now_ms;

    /* Nothing reads the store any more, and the image is gone: in the turn, once, by image_close or
     * image_some. */
    void (*on_closed)(void *context);
    void *context;
};

/*
 * At a moment when everything up to snapshot->index is in the store's last batch, which is frozen
 * or committed, and nothing else is; when history is settled, and pinned (mvcc_image_pin). The
 * caller owns the result until image_close.
 */
struct image *image_cut(const struct image_options *options);

/* In every turn: goes on with it, and tells whoever waits. It may be gone afterwards, if it was
 * closed. */
void image_some(struct image *i, uint64_t now_ms);

/* It ends here, for this reason; again is fine. */
void image_fail(struct image *i, const char *why);

/* As in a crash: jobs were forgotten. on_closed is called. */
void image_abandon(struct image *i);

void image_check(const struct image *i); /* all invariants, asserted */

/* --- whoever reads --- */

enum image_state { IMAGE_PLANNING, IMAGE_READY, IMAGE_FAILED };

enum image_state image_state(const struct image *i);
/* From READY on: how many bytes it has, all of them. */
uint64_t image_bytes(const struct image *i);
/* What it is a snapshot of: index, term, conf state, and as data the members as etcd's v2 JSON. */
const struct raft_snapshot *image_snapshot(const struct image *i);
/* After FAILED: why. */
const char *image_failure(const struct image *i);

/* The next bytes, lent until image_consume or image_close; false: none are there now. Whoever
 * waits has given on_more, which is called, in the turn, when there are (or when it is READY, or
 * FAILED); it may close the image. */
void image_set_on_more(struct image *i, void (*on_more)(void *context), void *context);
bool image_peek(struct image *i, struct bytes *out);
void image_consume(struct image *i, size_t count);
/* How many bytes the reader took in the last IMAGE_PACE_MS in which there were some for it;
 * UINT64_MAX before so much time has passed. */
uint64_t image_pace(const struct image *i);
/* Are all consumed? */
bool image_is_over(const struct image *i);

/* At any time, from the turn. Lets compaction go on. NULL is fine. */
void image_close(struct image *i);
