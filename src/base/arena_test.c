#include "base/arena.h"

#include "harness/test.h"

#include <stdint.h>

TEST(arena_memory_is_zeroed_and_aligned)
{
    struct arena a = {0};

    for (size_t size = 0; size < 300; size++) {
        uint8_t *at = arena_alloc(&a, size);
        CHECK_EQ((uintptr_t)at % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            CHECK_EQ(at[i], 0);
        memset(at, 0xAA, size);
        if (size % 100 == 99)
            arena_reset(&a);
    }
    arena_free(&a);
}

TEST(arena_space_is_aligned_and_nobody_elses)
{
    struct arena a = {0};
    uint8_t *before = arena_space(&a, 7);

    memset(before, 1, 7);
    uint8_t *array = arena_space_array(&a, 5, 9);
    memset(array, 2, 45);
    uint8_t *after = arena_alloc(&a, 7);

    CHECK_EQ((uintptr_t)array % _Alignof(max_align_t), 0);
    for (size_t i = 0; i < 7; i++) {
        CHECK_EQ(before[i], 1);
        CHECK_EQ(after[i], 0);
    }
    arena_free(&a);
}

TEST(a_large_thing_gets_its_own_chunk_and_goes_at_reset)
{
    struct arena a = {0};
    char *small = arena_copy_str(&a, BYTES("small"));

    memset(arena_alloc(&a, 1 << 20), 1, 1 << 20);
    CHECK_STR(small, "small");
    arena_reset(&a);

    CHECK_EQ(a.total_bytes, 0);
    CHECK_STR(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    arena_free(&a);
}

TEST(an_array_too_large_to_count_is_refused)
{
    struct arena a = {0};

    CHECK_DIES(arena_alloc_array(&a, SIZE_MAX / 2, 4), "out of memory");
    CHECK_DIES(arena_alloc(&a, SIZE_MAX - 3), "out of memory");
    CHECK_DIES(arena_space_array(&a, SIZE_MAX / 2, 4), "out of memory");
}
