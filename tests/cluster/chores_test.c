/* A little of build/cluster-chores with every test run; ten minutes by make cluster-chores. */
#include "cluster/chores.h"

#include "harness/peer_test.h"
#include "harness/test.h"

TEST(chores_are_done_while_a_member_is_written_to)
{
    struct chores_result r;
    struct peer ours;
    peer_open_ours(&ours, test_tmp_dir());
    struct chores_options o = {.program = ours.program,
                               .dir = test_tmp_dir(),
                               .seconds = 3,
                               .full_speed_ms = 200,
                               .keys = 1000,
                               .compact_ms = 500,
                               .defragment_ms = 1000,
                               .scrape_ms = 300,
                               .may_be_late = true, /* half a second is nothing on a busy machine */
                               .flags = "--unsafe-no-fsync"};

    if (!chores_run(&o, &r))
        test_fail(__FILE__, __LINE__, "%s", r.problem);

    CHECK(r.puts > 100);
    CHECK((double)r.puts < 3 * r.full_per_s); /* there was a pace */
    CHECK(r.compactions >= 1);
    CHECK(r.defragmentations >= 1);
    CHECK(r.scrapes >= 1);
    CHECK(r.size_first + r.size_second > 0);
    CHECK(r.longest_turn_ms > 0);
    peer_close(&ours);
}
