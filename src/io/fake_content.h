/*
 * fake_content: the bytes of one file as a reader sees them, and as a power cut would leave them.
 *
 * Each page holds both, and a bit per sector that was written since the last sync:
 *
 *     page   | now: what a read returns | kept: what is on the platter | which sectors may differ |
 *
 * Pages never written are absent, so a preallocated 64 MB segment costs next to nothing, and a sync
 * walks only what was written since the one before.
 */
#pragma once

#include "base/bytes.h"
#include "base/list.h"
#include "base/rng.h"

struct fake_page;

struct fake_content {
    uint64_t size, kept_size;
    uint64_t allocated, kept_allocated; /* the disk has space for it up to here */
    struct fake_page **pages;
    size_t page_count;
    struct list dirty; /* pages written since the last sync */
};

enum { FAKE_SECTOR_BYTES = 512 };

void fake_content_init(struct fake_content *c);
void fake_content_free(struct fake_content *c);

/* Returns how much there was to read. */
size_t fake_content_read(const struct fake_content *c, uint64_t offset, uint8_t *into, size_t size);
void fake_content_write(struct fake_content *c, uint64_t offset, struct bytes data);
void fake_content_resize(struct fake_content *c, uint64_t size);

/* Space up to `end`, the size stays. */
void fake_content_allocate(struct fake_content *c, uint64_t end);

/* Everything is durable. */
void fake_content_sync(struct fake_content *c);

/* One bit of what was written is another now, synced or not, and nobody was told. The coin says
 * which; of bytes that are zero none, since most of them were never written. False: there are no
 * others. */
bool fake_content_flip(struct fake_content *c, struct rng *coin);

/* The disk refused. As in a real kernel, what was not kept counts as clean from now on, so a second
 * sync succeeds and saves nothing. */
void fake_content_sync_failed(struct fake_content *c);

/* Some of what was written reaches the disk by itself. */
void fake_content_write_back(struct fake_content *c, struct rng *rng);

/* The power fails: each sector written since the last sync is kept or lost, as a coin says, or all
 * of them are lost if there is no coin. */
void fake_content_crash(struct fake_content *c, struct rng *coin);
