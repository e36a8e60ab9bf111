/*
 * blob: bytes that several owners share and nobody changes.
 *
 * A value is copied once, when its blob is made; after that the log, the disk and the peers hold
 * references. The count lives in the blob and is atomic, because a disk thread may drop the last
 * reference. This is the one refcounted thing in the house.
 *
 * Life       blob_copy, or blob_new and fill before anybody else sees it; then blob_ref and
 *            blob_unref in pairs.
 */
#pragma once

#include "base/bytes.h"

struct blob; /* opaque */
struct buf;

/* A blob of `len` bytes whose content the caller writes through *fill before sharing it. */
struct blob *blob_new(size_t len, uint8_t **fill);

/* A blob holding a copy of `content`. */
struct blob *blob_copy(struct bytes content);

/*
 * For content that comes piece by piece and may be large: an empty buf begins with space for what a
 * blob needs itself, so many bytes; the content is appended; and the blob takes over the buf's
 * memory, where copying would need twice as much for a moment. The buf is empty then.
 */
size_t blob_begin(struct buf *b);
struct blob *blob_end(struct buf *b);

/* One more owner; returns the blob. NULL is fine. */
struct blob *blob_ref(struct blob *b);

/* One owner less; the last one frees it. NULL is fine. */
void blob_unref(struct blob *b);

/* The content, good while a reference is held. Empty for NULL. */
struct bytes blob_bytes(const struct blob *b);

/* For assertions in tests. */
unsigned blob_ref_count(const struct blob *b);
