/* Snapshots of the log, of a member that crashes before and after one is recorded. */
#include "server/cluster_rig_test.h"
#include "server/server_int.h"

#include <string.h>

static uint64_t recorded(const struct cluster_rig *r, unsigned n)
{
    return r->at[n]->server->snapshot.recorded_index;
}

/* Segments so small that each snapshot leaves the one before it behind. */
static void open_with(struct cluster_rig *r, const char *const *flags)
{
    cluster_rig_open(r, 3, flags);
    r->segment_bytes = 16384;
    cluster_rig_start_all(r);
}

static void put_until(struct cluster_rig *r, unsigned leader, uint64_t applied)
{
    char value[1000];

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = 0;
    while (server_status(r->at[leader]->server).applied < applied)
        cluster_rig_put(r, leader, "k", value);
}

/* It records one, and the power goes again: the record counts only if a commit index in the log
 * covers it, and those before it have gone with their segments. */
static void check_that_it_starts_after_the_next(struct cluster_rig *r, unsigned n)
{
    cluster_rig_until_ready(r, n);
    cluster_rig_for_ms(r, 1000);
    CHECK(recorded(r, n) > 20);

    cluster_rig_crash(r, n);
    CHECK_EQ(cluster_rig_try_start(r, n), ERR_OK);
}

/* The commit index that the log had was behind the store when the power went: whether it is hangs
 * on when which of them was written. */
static void crash_with_the_store_ahead(uint64_t entries)
{
    static const char *const first[] = {"--snapshot-count=1000", "--snapshot-catchup-entries=5",
                                        "--max-wals=2", NULL};
    static const char *const later[] = {"--snapshot-count=20", "--snapshot-catchup-entries=5",
                                        "--max-wals=2", NULL};
    struct cluster_rig r;
    open_with(&r, first);
    unsigned leader = cluster_rig_leader(&r), follower = cluster_rig_follower(&r);
    put_until(&r, leader, entries);
    cluster_rig_until_equal(&r, leader);
    cluster_rig_for_ms(&r, 500); /* the store commits */

    cluster_rig_crash(&r, follower);
    cluster_rig_set_flags(&r, follower, later);
    cluster_rig_start(&r, follower);

    check_that_it_starts_after_the_next(&r, follower);
    cluster_rig_close(&r);
}

TEST(a_snapshot_of_the_log_is_covered_by_a_commit_index_in_the_log)
{
    for (uint64_t entries = 100; entries < 110; entries++)
        crash_with_the_store_ahead(entries);
}

/* The same with the same flags: the power goes while the snapshot's file is written. */
TEST(a_snapshot_of_the_log_is_made_again_after_a_crash_in_its_midst)
{
    static const char *const flags[] = {"--snapshot-count=100", "--snapshot-catchup-entries=5",
                                        "--max-wals=2", NULL};
    struct cluster_rig r;
    open_with(&r, flags);
    unsigned leader = cluster_rig_leader(&r), follower = cluster_rig_follower(&r);
    put_until(&r, leader, 101);
    while (r.at[follower]->server->snapshot.state != LOG_SNAPSHOT_WRITING)
        cluster_rig_step(&r);

    cluster_rig_crash(&r, follower);
    cluster_rig_start(&r, follower);

    check_that_it_starts_after_the_next(&r, follower);
    cluster_rig_close(&r);
}
