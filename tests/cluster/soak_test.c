/* A little of build/cluster-soak with every test run; three quarters of an hour by make
 * cluster-soak. */
#include "cluster/soak.h"

#include "harness/peer_test.h"
#include "harness/test.h"

TEST(members_are_soaked_and_what_they_need_is_told_for_each_minute)
{
    static struct soak_result result;
    struct peer ours;
    peer_open_ours(&ours, test_tmp_dir());
    struct soak_options o = {.program = ours.program,
                             .dir = test_tmp_dir(),
                             .election_ms = 500,
                             .clients = 6,
                             .minutes = 2,
                             .minute_s = 2};

    if (!soak_run(&o, &result))
        test_fail(__FILE__, __LINE__, "%s", result.problem);

    CHECK_EQ(result.count, 2);
    CHECK_EQ(result.kills, 2);
    CHECK(result.minutes[1].calls > 0);
    CHECK(result.minutes[1].resident > 1e6);
    CHECK(result.minutes[1].files > 10);
    peer_close(&ours);
}

TEST(a_slope_is_told_for_an_hour_and_as_a_part_of_the_mean)
{
    double values[70];

    for (unsigned i = 0; i < 70; i++)
        values[i] = i < 10 ? 1e9 : 100 + (i - 10) % 2;
    CHECK(soak_slope(values, 10, 70) < 0.001 && soak_slope(values, 10, 70) > -0.001);
    for (unsigned i = 10; i < 70; i++)
        values[i] = 100 + i / 60.0 * 10; /* ten more in an hour */
    double slope = soak_slope(values, 10, 70);

    CHECK(slope > 0.09 && slope < 0.11);
    CHECK(soak_slope(values, 10, 11) == 0);
}
