/*
 * gzip: messages that were made smaller on their way.
 *
 * One pair of zlib streams serves everybody, one message at a time. What a message unpacks to is
 * bounded by the caller, so a few bytes that stand for a gigabyte cost no more than the bound.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct gzip; /* opaque */

struct gzip *gzip_new(void);
void gzip_free(struct gzip *g); /* NULL is fine */

/* Appends what was packed. ERR_MALFORMED: not gzip. ERR_CORRUPT: damaged inside. ERR_END: cut
 * short. ERR_TOO_LARGE: more than `max` bytes. */
MUST_CHECK enum err gzip_unpack(struct gzip *g, struct bytes packed, size_t max, struct buf *out);

/* Appends the packed bytes. */
void gzip_pack(struct gzip *g, struct bytes plain, struct buf *out);
