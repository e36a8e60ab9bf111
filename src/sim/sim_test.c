#include "base/mem.h"
#include "harness/test.h"
#include "sim/sim.h"

static void run_seeds(uint64_t first, uint64_t count, unsigned install_turns)
{
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct sim_result r =
            sim_run(&(struct sim_options){.seed = seed, .install_turns = install_turns});
        if (!r.ok)
            test_fail(__FILE__, __LINE__, "seed %llu: %s", (unsigned long long)seed, r.problem);
    }
}

/* Seed 2 once lost a whole log: the names of the directories above it were not durable. */
TEST(whatever_crashes_a_member_keeps_its_word)
{
    test_runs_in_one_thread();
    run_seeds(test_seed(), 60 * test_effort(), 0);
}

/*
 * Those that found something:
 *    1, 14, 25, 28, 37   live watchers, held back by a large delete, were cancelled by a compaction
 *    55, 67, 106         the log was compacted above what raft knew as applied
 */
TEST(seeds_that_once_found_something_are_clean)
{
    static const uint64_t seeds[] = {1,  6,   14,   25,   28,   37,   55,
                                     67, 106, 1280, 1379, 1383, 1555, 2274};

    test_runs_in_one_thread();
    for (size_t i = 0; i < ARRAY_LEN(seeds); i++)
        run_seeds(seeds[i], 1, UINT32_MAX); /* which they knew nothing of */
}

/* Under load, with crashes, and many of them ahead of what is applied. */
TEST(a_thousand_times_the_state_is_replaced_by_an_image_and_no_client_notices)
{
    uint64_t installs = 0;
    unsigned crashes = 0;

    test_runs_in_one_thread();
    for (uint64_t seed = test_seed(); installs < 1000; seed++) {
        struct sim_result r = sim_run(&(struct sim_options){.seed = seed, .install_turns = 3});
        if (!r.ok)
            test_fail(__FILE__, __LINE__, "seed %llu: %s", (unsigned long long)seed, r.problem);
        installs += r.installs;
        crashes += r.crashes;
    }
    CHECK(crashes > 0);
}

TEST(the_same_seed_tells_the_same_story)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct sim_options o = {.seed = seed};
        struct sim_result once = sim_run(&o);
        struct sim_result again = sim_run(&o);

        CHECK_EQ(once.hash, again.hash);
        CHECK_EQ(once.steps, again.steps);
    }
}

TEST(a_crash_at_any_call_of_the_disk_loses_nothing_that_was_promised)
{
    test_runs_in_one_thread();
    struct sim_options o = {.seed = test_seed(), .calls = 40, .crashes_max = UINT32_MAX};
    struct sim_result whole = sim_run(&o);
    CHECK(whole.ok);

    for (o.crash_at_call = 1; o.crash_at_call <= whole.disk_calls; o.crash_at_call++) {
        struct sim_result r = sim_run(&o);
        if (!r.ok)
            test_fail(__FILE__, __LINE__, "crash at call %llu: %s",
                      (unsigned long long)o.crash_at_call, r.problem);
    }
}

TEST(a_run_without_crashes_has_none)
{
    struct sim_result r =
        sim_run(&(struct sim_options){.seed = test_seed(), .crashes_max = UINT32_MAX});

    CHECK(r.ok);
    CHECK_EQ(r.crashes, 0);
    CHECK(r.revision > 50);
}
