#include "base/mem.h"

#include "harness/test.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static bool is_zero(const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (at[i] != 0)
            return false;
    return true;
}

TEST(a_region_is_zeroed_and_lies_at_a_multiple_of_its_size)
{
    enum { REGION_BYTES = 256 * 1024, REGIONS = 8 };
    uint8_t *regions[REGIONS];

    for (unsigned i = 0; i < REGIONS; i++) {
        regions[i] = mem_map_region(REGION_BYTES, i % 2 == 1);
        CHECK_EQ((uintptr_t)regions[i] % REGION_BYTES, 0);
        CHECK(is_zero(regions[i], REGION_BYTES));
        memset(regions[i], (int)i + 1, REGION_BYTES);
    }

    for (unsigned i = 0; i < REGIONS; i++) {
        CHECK_EQ(regions[i][0], i + 1);
        CHECK_EQ(regions[i][REGION_BYTES - 1], i + 1);
        mem_unmap_region(regions[i], REGION_BYTES);
    }
}

TEST(a_region_that_was_prepared_is_there_already)
{
    unsigned char resident[1] = {0};

    uint8_t *first = mem_map_region(MEM_PREPARED_BYTES, true);
    mem_expect_regions();
    for (unsigned i = 0; i < MEM_PREPARED_MAX; i++) {
        CHECK(mem_wants_region());
        mem_prepare_region();
    }
    CHECK(!mem_wants_region());
    mem_prepare_region(); /* one too many does no harm */
    uint8_t *second = mem_map_region(MEM_PREPARED_BYTES, true);
    CHECK(mem_wants_region());

    CHECK(first != second);
    CHECK_EQ((uintptr_t)second % MEM_PREPARED_BYTES, 0);
    CHECK_EQ(mincore(second + MEM_PREPARED_BYTES - 4096, 4096, resident), 0);
    CHECK(resident[0] & 1);
    CHECK(is_zero(second, MEM_PREPARED_BYTES));
    mem_unmap_region(first, MEM_PREPARED_BYTES);
    mem_unmap_region(second, MEM_PREPARED_BYTES);
}

TEST(a_region_of_an_odd_size_is_a_bug)
{
    CHECK_DIES(mem_unmap_region(mem_map_region(3 * 65536, false), 3 * 65536), "size & (size - 1)");
    CHECK_DIES(mem_unmap_region(mem_map_region(512, false), 512), "_SC_PAGESIZE");
}

TEST(a_region_larger_than_memory_ends_the_process)
{
    CHECK_DIES(mem_unmap_region(mem_map_region((size_t)1 << 62, false), 1), "out of memory");
}
