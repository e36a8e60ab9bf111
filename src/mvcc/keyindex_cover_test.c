/* Range tombstones over a tree of three levels, in which whole leaves are dead already. */
#include "mvcc/keyindex.h"

#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"

#include <stdio.h>

/* Keys that were put in ascending order fill leaves of 64 and inner nodes of 62: so there are three
 * inner nodes below the root. */
enum { KEYS = 12000, LEAF_KEYS = 64 };

struct key_text {
    char at[16];
};

static struct bytes key_of(struct key_text *space, unsigned number)
{
    return bytes_of(space->at, (size_t)snprintf(space->at, sizeof(space->at), "k%05u", number));
}

/* The index, and who is alive in it, as far as is published and as it is. */
struct dense {
    struct keyindex *ix;
    struct revision next;
    bool alive[KEYS], published[KEYS];
};

static void dense_publish(struct dense *d)
{
    keyindex_publish(d->ix);
    memcpy(d->published, d->alive, sizeof(d->alive));
    d->next = (struct revision){d->next.main + 1, 0};
}

static void dense_put(struct dense *d, unsigned number)
{
    struct key_text space;
    struct bytes key = key_of(&space, number);
    struct revision ended;

    if (keyindex_key_is_unsettled(d->ix, key, &ended))
        keyindex_settle_key(d->ix, key, ended, 1);
    keyindex_put(d->ix, key, d->next, 1);
    d->next.sub++;
    d->alive[number] = true;
}

static void dense_put_all(struct dense *d, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        dense_put(d, i);
}

static void dense_delete_each(struct dense *d, unsigned from, unsigned to)
{
    struct key_text space;

    for (unsigned i = from; i < to; i++) {
        CHECK_EQ(keyindex_tombstone(d->ix, key_of(&space, i), d->next, 1), d->alive[i]);
        d->next.sub += d->alive[i];
        d->alive[i] = false;
    }
}

static int64_t how_many(const bool alive[KEYS], unsigned from, unsigned to)
{
    int64_t count = 0;

    for (unsigned i = from; i < to; i++)
        count += alive[i];
    return count;
}

static void dense_delete_at_once(struct dense *d, unsigned from, unsigned to)
{
    struct key_text low, high;
    struct key_range range = key_range(key_of(&low, from), key_of(&high, to));

    int64_t covered = how_many(d->alive, from, to);
    CHECK_EQ(keyindex_range_tombstone(d->ix, &range, d->next), covered);
    d->next.sub += covered;
    memset(d->alive + from, 0, to - from);
}

static void dense_check_count(struct dense *d, unsigned from, unsigned to)
{
    struct key_text low, high;
    struct key_range range = key_range(key_of(&low, from), key_of(&high, to));

    CHECK_EQ(keyindex_count(d->ix, &range, false), how_many(d->alive, from, to));
    CHECK_EQ(keyindex_count(d->ix, &range, true), how_many(d->published, from, to));
}

static uint32_t on_store_tombstone(void *context, struct bytes key, struct revision at)
{
    (void)context;
    (void)key;
    (void)at;
    return 1;
}

static void dense_settle(struct dense *d, unsigned steps)
{
    keyindex_settle_some(d->ix, steps, on_store_tombstone, NULL);
}

static void on_drop(void *context, struct revision at, bool tombstone)
{
    (void)context;
    (void)at;
    (void)tombstone;
}

static void dense_compact(struct dense *d)
{
    struct keyindex_compaction c = {0};

    while (!keyindex_compact_some(d->ix, &c, d->next.main - 1, 1000, on_drop, NULL))
        ;
    keyindex_compaction_end(&c);
}

static struct dense *dense_new(void)
{
    struct dense *d = mem_new(struct dense);

    d->ix = keyindex_new();
    d->next = (struct revision){1, 0};
    dense_put_all(d, 0, KEYS);
    dense_publish(d);
    return d;
}

static void dense_free(struct dense *d)
{
    keyindex_free(d->ix);
    mem_free(d);
}

/* A dead leaf under an inner node that is covered as a whole has nothing to settle, so the settling
 * never comes by: it must not count as covered when its keys are put again. */
TEST(a_leaf_that_was_dead_when_all_around_it_was_covered_can_live_again)
{
    struct dense *d = dense_new();
    unsigned leaf = 79 * LEAF_KEYS; /* its neighbours are below the same inner node */

    dense_delete_each(d, leaf, leaf + LEAF_KEYS);
    dense_publish(d);
    dense_delete_at_once(d, 0, KEYS - 1);
    dense_publish(d);
    dense_settle(d, KEYS);
    CHECK(!keyindex_is_unsettled(d->ix));
    keyindex_check(d->ix);
    dense_put_all(d, leaf, leaf + LEAF_KEYS);
    dense_put_all(d, leaf + 1000, leaf + 3000);
    dense_publish(d);

    keyindex_check(d->ix);
    dense_check_count(d, leaf + 4, leaf + 14);
    dense_delete_at_once(d, leaf + 44, leaf + 3000);
    dense_settle(d, KEYS);
    dense_delete_at_once(d, leaf, leaf + 3000);
    dense_settle(d, KEYS);
    keyindex_check(d->ix);
    dense_free(d);
}

/* --- at random ---------------------------------------------------------------------------- */

/* Some keys next to each other: a leaf's or so, mostly; now and then most of them all. */
static void any_run(struct rng *rng, unsigned *from, unsigned *to)
{
    unsigned len = (unsigned)rng_below(rng, rng_chance(rng, 1, 5) ? 3000 : 3 * LEAF_KEYS);

    *from = (unsigned)rng_below(rng, KEYS - 1);
    *to = *from + 1 + len < KEYS ? *from + 1 + len : KEYS - 1;
}

/* Mostly over more than an inner node, so that one is covered as a whole. */
static void delete_many(struct dense *d, struct rng *rng)
{
    unsigned from = (unsigned)rng_below(rng, KEYS / 3);
    unsigned to = KEYS - 1 - (unsigned)rng_below(rng, KEYS / 3);

    if (!keyindex_is_unsettled(d->ix))
        dense_delete_at_once(d, from, to);
}

static void dense_step(struct dense *d, struct rng *rng)
{
    unsigned from, to;

    any_run(rng, &from, &to);
    switch (rng_below(rng, 16)) {
    case 0:
        delete_many(d, rng);
        break;
    case 1:
    case 2:
        dense_settle(d, (unsigned)rng_below(rng, rng_chance(rng, 1, 2) ? KEYS : LEAF_KEYS));
        break;
    case 3:
        if (!keyindex_is_unsettled(d->ix))
            dense_compact(d);
        break;
    case 4:
    case 5:
    case 6:
        dense_delete_each(d, from, to);
        break;
    case 7:
    case 8:
    case 9:
        dense_publish(d);
        break;
    default:
        dense_put_all(d, from, to);
    }
    dense_check_count(d, from, to);
}

TEST(dead_leaves_under_range_tombstones_are_counted_as_the_model_says)
{
    test_runs_in_one_thread();
    for (uint64_t i = 0; i < 4 * test_effort(); i++) {
        struct rng rng;
        struct dense *d = dense_new();
        rng_seed(&rng, test_seed() * 1000 + i);
        for (unsigned n = 0; n < 400; n++) {
            dense_step(d, &rng);
            if (n % 10 == 0)
                keyindex_check(d->ix);
        }
        keyindex_check(d->ix);
        dense_free(d);
    }
}
