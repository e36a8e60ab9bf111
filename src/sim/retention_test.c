#include "sim/retention.h"

#include "harness/test.h"

TEST(what_was_the_newest_a_retention_ago_may_be_compacted)
{
    struct retention r = {.ns = 100};

    retention_saw(&r, 10, 1);
    retention_saw(&r, 20, 5);
    retention_saw(&r, 30, 5); /* a member that is behind, or nothing new */
    retention_saw(&r, 40, 4);
    retention_saw(&r, 50, 9);

    CHECK_EQ(retention_newest_old(&r, 109), 0);
    CHECK_EQ(retention_newest_old(&r, 110), 1);
    CHECK_EQ(retention_newest_old(&r, 119), 1);
    CHECK_EQ(retention_newest_old(&r, 120), 5);
    CHECK_EQ(retention_newest_old(&r, 149), 5);
    CHECK_EQ(retention_newest_old(&r, 1000), 9);
    retention_free(&r);
}

TEST(without_a_retention_nothing_may_be_compacted)
{
    struct retention r = {0};

    retention_saw(&r, 10, 1);

    CHECK_EQ(retention_newest_old(&r, 1000), 0);
    retention_free(&r);
}
