#include "base/histogram.h"
#include "base/mem.h"
#include "harness/test.h"

/* As Prometheus counts: a value that equals a bound is within it. */
TEST(a_histogram_counts_each_value_in_the_first_bucket_that_holds_it)
{
    static const struct histogram_shape shape = {1000, 4}; /* 1000 2000 4000 8000 */
    static const struct {
        uint64_t value;
        unsigned bucket;
    } cases[] = {{0, 0},    {1, 0},    {999, 0},           {1000, 0}, {1001, 1},
                 {2000, 1}, {2001, 2}, {4000, 2},          {4001, 3}, {8000, 3},
                 {8001, 4}, {9000, 4}, {UINT64_MAX / 2, 4}};
    struct histogram h = {0};
    uint64_t sum = 0;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_EQ(histogram_bucket(shape, cases[i].value), cases[i].bucket);
        histogram_observe(&h, shape, cases[i].value);
        sum += cases[i].value;
    }

    CHECK_EQ(h.sum, sum);
    CHECK_EQ(histogram_count(&h), ARRAY_LEN(cases));
    CHECK_EQ(h.at[0], 4);
    CHECK_EQ(h.at[4], 3);
}

/* Against the obvious way, for all shapes there are. */
TEST(a_histogram_finds_the_bucket_that_a_walk_along_the_bounds_finds)
{
    static const struct histogram_shape shapes[] = {
        HISTOGRAM_100US_20, HISTOGRAM_1MS_14,   HISTOGRAM_10MS_17, HISTOGRAM_100MS_13,
        HISTOGRAM_500US_14, HISTOGRAM_100MS_14, HISTOGRAM_1S_24};

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        for (unsigned bit = 0; bit < 50; bit++) {
            for (int64_t off = -1; off <= 1; off++) {
                uint64_t value = (shapes[i].first << (bit % 30)) + (uint64_t)off;
                unsigned expected = 0;
                while (expected < shapes[i].count && value > shapes[i].first << expected)
                    expected++;
                CHECK_EQ(histogram_bucket(shapes[i], value), expected);
            }
        }
    }
}
