/*
 * gzip: messages that were made smaller on their way.
 *
 * One pair of zlib streams serves everybody, one message at a time. What a message unpacks to is
 * bounded by the caller, so a few bytes that stand for a gigabyte cost no more than the bound; and
 * so is the work of one step, in bytes of what comes out. A byte that goes in counts as several of
 * them: one that describes codes, and stands for no text at all, costs as much time.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

struct gzip; /* opaque */

struct gzip *gzip_new(void);
void gzip_free(struct gzip *g); /* NULL is fine */

/* Appends what was packed. ERR_MALFORMED: not gzip. ERR_CORRUPT: damaged inside. ERR_END: cut
 * short. ERR_TOO_LARGE: more than `max` bytes. */
MUST_CHECK enum err gzip_unpack(struct gzip *g, struct bytes packed, size_t max, struct buf *out);

/* The same in steps: the packed bytes are lent until the last of them, or until another message
 * begins. */
void gzip_begin(struct gzip *g, struct bytes packed, size_t max);

/* Goes on for about so much work, and takes what it did from it. False: none is left and there is
 * more to do. True: *result says how it ended. */
MUST_CHECK bool gzip_go_on(struct gzip *g, size_t *work, struct buf *out, enum err *result);

/* So many packed bytes do not stand for more than this: deflate's best is 258 bytes in two bits. */
static inline size_t gzip_unpacked_most(size_t packed)
{
    return 258 * 4 * packed;
}

/* Appends the packed bytes. */
void gzip_pack(struct gzip *g, struct bytes plain, struct buf *out);
