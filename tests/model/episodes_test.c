#include "model/episode.h"

#include "base/mem.h"
#include "harness/test.h"

static struct episode_result run(uint64_t seed)
{
    struct episode_result result;

    episode_run(&(struct episode_options){.seed = seed, .dir = test_tmp_dir()}, &result);
    return result;
}

TEST(mvcc_watch_and_lease_agree_with_everything_ever_written)
{
    test_runs_in_one_thread();
    uint64_t count = 250 * test_effort();
    struct episode_totals totals = {0};

    for (uint64_t i = 0; i < count; i++) {
        struct episode_result result = run(test_seed() * 1000000 + i);
        episode_totals_add(&totals, &result.totals);
    }

    CHECK_EQ(totals.episodes, count);
    CHECK(totals.revisions >= 30 * count);
    CHECK(totals.scans >= 10 * count);
    CHECK(totals.hashes >= count);
    CHECK(totals.compactions >= count / 2);
    CHECK(totals.settlings >= count / 4);
    CHECK(totals.restarts >= count);
    CHECK(totals.replayed >= count);
    CHECK(totals.events >= 10 * count);
    CHECK(totals.lagged > 0);
    CHECK(totals.fragments > 0);
    CHECK(totals.longs > 0);
    CHECK(totals.progress > 0);
    CHECK(totals.resumed > 0);
    CHECK(totals.cut_off > 0);
    CHECK(totals.expired > 0);
    CHECK(totals.on_lmdb > 0);
}

/* A compaction's deletes ahead of a range tombstone that was settled and not yet durably so; a
 * watcher from the compact revision on, held for a delete while history was cut. */
TEST(episodes_that_once_found_something_are_clean)
{
    static const uint64_t kept[] = {1000228, 415};

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        CHECK_EQ(run(kept[i]).totals.episodes, 1);
}

TEST(the_same_seed_is_the_same_episode)
{
    struct episode_result first = run(test_seed());
    struct episode_result second = run(test_seed());
    struct episode_result other = run(test_seed() + 1);

    CHECK(first.trace == second.trace);
    CHECK_EQ(first.totals.events, second.totals.events);
    CHECK_EQ(first.totals.revisions, second.totals.revisions);
    CHECK(first.trace != other.trace);
}
