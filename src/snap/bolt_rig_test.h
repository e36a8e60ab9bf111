/*
 * bolt_rig: content in memory, written to an image and read back.
 *
 *     struct rig_bucket buckets[] = {...};
 *     struct buf image = {0};
 *     rig_write(buckets, 2, NULL, &image);
 *     rig_check_content(buf_bytes(&image), BOLT_IMAGE, buckets, 2);
 */
#pragma once

#include "base/arena.h"
#include "base/rng.h"
#include "harness/test.h"
#include "snap/bolt.h"

struct rig_entry {
    struct bytes key, value;
};

struct rig_bucket {
    struct bytes name;
    struct rig_entry *entries; /* ascending */
    size_t count, cap;
};

/* Adds one at the end; key and value are lent. */
void rig_add(struct rig_bucket *bucket, struct bytes key, struct bytes value);
void rig_free(struct rig_bucket *buckets, size_t count);

struct rig_feed {
    struct bolt_feed feed;
    const struct rig_bucket *buckets;
    size_t bucket, at;
    uint64_t calls, fail_at; /* the call with this number, from 1, says ERR_IO; 0: none */
};

void rig_feed_init(struct rig_feed *f, const struct rig_bucket *buckets);

struct rig_write_options {
    uint32_t page_bytes;
    size_t chunk_bytes;  /* how much is pulled at once; 0: 64 KiB */
    uint64_t plan_chunk; /* entries planned at once; 0: all */
};

/* Appends the image to `out`, and checks that it is as long as was planned. NULL: all defaults. */
void rig_write(const struct rig_bucket *buckets, size_t count,
               const struct rig_write_options *options, struct buf *out);

/* The same, with what the writer says. */
enum err rig_try_write(struct rig_feed *feed, size_t count, const struct rig_write_options *options,
                       struct buf *out);

/* The image passes bolt_check and holds exactly this, bucket by bucket and key by key. */
void rig_check_content(struct bytes image, enum bolt_kind kind, const struct rig_bucket *buckets,
                       size_t count);

/* Opens and checks the image and reads all of it: the first error there is. */
enum err rig_read_all(struct bytes image, enum bolt_kind kind, struct bolt_fault *fault,
                      struct bolt_sum *sum);

/* Random bytes. */
struct bytes rig_random(struct arena *arena, struct rng *rng, size_t len);

/* A file's content; fails the test if it cannot be read. */
void rig_read_file(const char *path, struct buf *out);
void rig_write_file(const char *path, struct bytes content);
