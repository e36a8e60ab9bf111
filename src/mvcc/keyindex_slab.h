/*
 * slabs: many small things of a few sizes, without a header on each.
 *
 * A slab is 32 KiB at an address that is a multiple of its size and holds things of one size; so
 * the slab of a thing is found by clearing the low bits of its address. Slabs are cut from regions
 * of 2 MiB. A slab without things goes back to its region; a region without slabs waits to be used
 * again or released: that takes the system a tenth of a millisecond, and many may become empty at
 * once. Large things go to malloc, behind a link, so that all memory can be given back in one go,
 * without a walk over what it holds.
 *
 *     region  | header | slab | slab | slab | not touched yet ... |
 *     slab    | header | thing | freed | thing | thing | not touched yet ... |
 */
#pragma once

#include "base/list.h"

#include <stdint.h>

enum {
    SLAB_BYTES = 32 * 1024,
    SLAB_REGION_BYTES = 2 * 1024 * 1024,
    SLAB_STEP_BYTES = 8,         /* sizes are rounded up to a multiple of this */
    SLAB_THING_BYTES_MAX = 2112, /* larger ones go to malloc */
    SLAB_CLASSES = SLAB_THING_BYTES_MAX / SLAB_STEP_BYTES + 1,
};

struct slabs {
    struct list open[SLAB_CLASSES]; /* slabs that have space for another thing of this size */
    struct list open_regions;       /* regions that have space for another slab */
    struct list full;               /* those that have not */
    struct list empty;              /* and those that have nothing else */
    struct list large;
    size_t regions;
    size_t bytes; /* touched: things, free places between them, headers */
};

void slabs_init(struct slabs *s);
void slabs_free(struct slabs *s); /* all that was ever taken is gone */

/* Memory for one thing, not zeroed, aligned for a pointer; if its size is a multiple of 64, to 64
 * as long as it is not large. */
__attribute__((returns_nonnull)) void *slabs_take(struct slabs *s, size_t size);

/* Gives it back; the size is the one it was taken with. */
void slabs_give(struct slabs *s, void *at, size_t size);

/* Gives back one region that holds nothing, if there is one. Are there more? */
bool slabs_release(struct slabs *s);

void slabs_check(const struct slabs *s);
