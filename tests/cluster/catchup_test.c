/* A little of build/cluster-catchup with every test run; a gigabyte by make cluster-catchup. */
#include "cluster/catchup.h"

#include "harness/peer_test.h"
#include "harness/test.h"

TEST(a_member_that_was_away_is_brought_back_by_a_snapshot_while_others_write)
{
    struct peer ours;
    struct catchup_result result;
    peer_open_ours(&ours, test_tmp_dir());
    struct catchup_options o = {.program = ours.program,
                                .dir = test_tmp_dir(),
                                .flags = "--snapshot-count 100 --snapshot-catchup-entries 10",
                                .election_ms = 500,
                                .old_keys = 100,
                                .keys = 2000,
                                .value_bytes = 1000,
                                .clients = 16,
                                .before_ms = 100};

    if (!catchup_run(&o, &result))
        test_fail(__FILE__, __LINE__, "%s", result.problem);

    CHECK(result.applied_ms <= result.in_step_ms);
    CHECK(result.written_bytes > 0);
    CHECK(result.members[result.away].store_after > result.members[result.away].store_before);
    peer_close(&ours);
}
