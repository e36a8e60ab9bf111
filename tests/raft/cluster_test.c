#include "raft/cluster.h"

#include "harness/test.h"

static struct cluster_result run(uint64_t seed)
{
    struct cluster_result result;

    cluster_run(&(struct cluster_options){.seed = seed}, &result);
    return result;
}

TEST(random_clusters_keep_every_rule_and_meet_every_kind_of_trouble)
{
    test_runs_in_one_thread();
    uint64_t count = 100 * test_effort();
    struct cluster_totals totals = {0};

    for (uint64_t i = 0; i < count; i++) {
        struct cluster_result result = run(test_seed() + i);
        cluster_totals_add(&totals, &result.totals);
    }

    CHECK_EQ(totals.seeds, count);
    CHECK(totals.committed >= 200 * count);
    CHECK(totals.elections > count);
    CHECK(totals.truncations > 0);
    CHECK(totals.snapshots > 0);
    CHECK(totals.conf_changes > 0);
    CHECK(totals.joint > 0);
    CHECK(totals.crashes > 0);
    CHECK(totals.reads > 0);
    CHECK(totals.fetches > 0);
}

TEST(the_same_seed_is_the_same_run)
{
    struct cluster_result first = run(test_seed());
    struct cluster_result second = run(test_seed());
    struct cluster_result other = run(test_seed() + 1);

    CHECK(first.trace == second.trace);
    CHECK_EQ(first.totals.steps, second.totals.steps);
    CHECK_EQ(first.totals.committed, second.totals.committed);
    CHECK(first.trace != other.trace);
}
