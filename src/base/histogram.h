/*
 * histogram: how often something took how long, in buckets whose bounds double.
 *
 *     shape   first = 1 ms, count = 14: up to 1 ms, 2 ms, 4 ms ... 8192 ms, and beyond
 *
 * To observe is a division by a constant, the position of a bit and two additions: it can be done
 * for each request. A histogram knows nothing of its shape, so that all zeroes is an empty one;
 * whoever observes and whoever shows it name the same shape. Values are whole numbers in whatever
 * unit the shape is: of durations nanoseconds.
 *
 * Not here   How it is shown (server/exposition.h). Locks: it belongs to one thread.
 */
#pragma once

#include "base/assert.h"

#include <stdint.h>

enum { HISTOGRAM_BUCKETS_MAX = 24 };

struct histogram_shape {
    uint64_t first; /* bound of the first bucket, itself included; above 0 */
    unsigned count; /* of those with a bound */
};

struct histogram {
    uint64_t sum;
    uint64_t at[HISTOGRAM_BUCKETS_MAX + 1]; /* each without those below it; then what is beyond */
};

/* The shapes that durations have, in nanoseconds. */
static const struct histogram_shape HISTOGRAM_100US_20 = {100000, 20};
static const struct histogram_shape HISTOGRAM_100US_16 = {100000, 16};
static const struct histogram_shape HISTOGRAM_1MS_14 = {1000000, 14};
static const struct histogram_shape HISTOGRAM_10MS_15 = {10000000, 15};
static const struct histogram_shape HISTOGRAM_10MS_17 = {10000000, 17};
static const struct histogram_shape HISTOGRAM_100MS_10 = {100000000, 10};
static const struct histogram_shape HISTOGRAM_100MS_13 = {100000000, 13};
/* Those of compactions. */
static const struct histogram_shape HISTOGRAM_500US_14 = {500000, 14};
static const struct histogram_shape HISTOGRAM_1MS_13 = {1000000, 13};
static const struct histogram_shape HISTOGRAM_100MS_14 = {100000000, 14};
/* And of times to live, in seconds. */
static const struct histogram_shape HISTOGRAM_1S_24 = {1, 24};

/* Which bucket: the first whose bound is not below the value. */
static inline unsigned histogram_bucket(struct histogram_shape shape, uint64_t value)
{
    uint64_t above = value > 0 ? (value - 1) / shape.first : 0;
    unsigned bucket = above == 0 ? 0 : 64 - (unsigned)__builtin_clzll(above);

    return bucket < shape.count ? bucket : shape.count;
}

static inline void histogram_observe(struct histogram *h, struct histogram_shape shape,
                                     uint64_t value)
{
    assert(shape.count <= HISTOGRAM_BUCKETS_MAX);
    h->sum += value;
    h->at[histogram_bucket(shape, value)]++;
}

static inline uint64_t histogram_count(const struct histogram *h)
{
    uint64_t count = 0;

    for (unsigned i = 0; i <= HISTOGRAM_BUCKETS_MAX; i++)
        count += h->at[i];
    return count;
}
