#include "mvcc/keyindex_slab.h"

#include "base/rng.h"
#include "harness/test.h"

#include <stdlib.h>
#include <string.h>

struct thing {
    uint8_t *at;
    size_t size;
    uint8_t mark;
};

/* Sizes of all kinds, more often small ones; large ones too. */
static size_t any_size(struct rng *rng)
{
    uint64_t max = rng_chance(rng, 1, 50) ? 10000 : 300;

    return (size_t)rng_below(rng, max);
}

static void take(struct slabs *s, struct rng *rng, struct thing *t)
{
    t->size = any_size(rng);
    t->at = slabs_take(s, t->size);
    t->mark = (uint8_t)rng_next(rng);
    CHECK_EQ((uintptr_t)t->at % 8, 0);
    memset(t->at, t->mark, t->size);
}

static void give(struct slabs *s, struct thing *t)
{
    for (size_t i = 0; i < t->size; i++)
        CHECK_EQ(t->at[i], t->mark);
    slabs_give(s, t->at, t->size);
    t->at = NULL;
}

TEST(things_in_slabs_keep_what_is_in_them)
{
    enum { THINGS = 20000, STEPS = 200000 };
    static struct thing things[THINGS];
    struct slabs s;
    struct rng rng;

    slabs_init(&s);
    rng_seed(&rng, test_seed());
    for (int i = 0; i < STEPS; i++) {
        struct thing *t = &things[rng_below(&rng, THINGS)];
        if (t->at)
            give(&s, t);
        else
            take(&s, &rng, t);
        if (i % 10000 == 0)
            slabs_check(&s);
    }
    size_t bytes = s.bytes;
    for (int i = 0; i < THINGS; i++)
        if (things[i].at)
            give(&s, &things[i]);
    CHECK(bytes > (size_t)SLAB_REGION_BYTES);
    slabs_check(&s);
    while (slabs_release(&s))
        ;
    CHECK_EQ(s.bytes, 0);
    slabs_free(&s);
}

TEST(whole_cache_lines_lie_on_cache_lines)
{
    struct slabs s;

    slabs_init(&s);
    for (size_t size = 64; size <= SLAB_THING_BYTES_MAX; size += 64)
        for (int i = 0; i < 100; i++)
            CHECK_EQ((uintptr_t)slabs_take(&s, size) % 64, 0);
    slabs_free(&s);
    CHECK_EQ(s.bytes, 0);
}

TEST(a_thing_is_given_back_with_the_size_it_was_taken_with)
{
    struct slabs s;

    slabs_init(&s);
    void *at = slabs_take(&s, 100);
    CHECK_DIES(slabs_give(&s, at, 120), "class_of");
    slabs_free(&s);
}
