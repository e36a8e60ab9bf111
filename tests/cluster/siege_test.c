/* A little of build/cluster-siege with every test run: that it is carried out. What it finds is
 * judged by make cluster-siege, since a busy machine is slow, too. */
#include "cluster/siege.h"

#include "harness/peer_test.h"
#include "harness/test.h"

#include <string.h>

static void besiege(const char *only, struct siege_result *out)
{
    struct peer ours;
    peer_open_ours(&ours, test_tmp_dir());
    struct siege_options o = {.program = ours.program,
                              .dir = test_tmp_dir(),
                              .flags = "--unsafe-no-fsync --log-level error",
                              .only = only,
                              .has_auth = true,
                              .quiet_s = 1,
                              .siege_s = 2,
                              .kill_each_ms = 1000};

    if (!siege_run(&o, out))
        test_fail(__FILE__, __LINE__, "%s", out->problem);
    peer_close(&ours);
}

static void check_phase(const struct siege_phase *p)
{
    CHECK(p->times[SIEGE_PUT].count >= 1);
    CHECK(p->times[SIEGE_GET].count >= 1);
    CHECK_EQ(p->failed_calls, 0);
    CHECK_EQ(p->lost_watches, 0);
    CHECK(p->probes >= 1);
    CHECK(p->rejoins >= 1);
    CHECK(p->anonymous_bytes > 0);
    CHECK(p->times[SIEGE_PUT].p99_ms > 0);
    CHECK(p->cpu_s > 0);
}

TEST(a_siege_by_one_attacker_is_carried_out)
{
    struct siege_result r;

    besiege("bad-tokens", &r);

    check_phase(&r.quiet);
    check_phase(&r.siege);
    CHECK(r.quiet.times[SIEGE_WATCH].count + r.siege.times[SIEGE_WATCH].count > 0);
    for (unsigned i = 0; i < attack_count(); i++)
        CHECK_EQ(r.efforts[i] > 0, strcmp(attack_name(i), "bad-tokens") == 0);
}

TEST(what_did_not_hold_in_a_siege_is_said)
{
    struct siege_result r = {.quiet = {.times = {{.p99_ms = 2}, {.p99_ms = 1}, {.p99_ms = 3}},
                                       .resident_bytes = 10 << 20},
                             .siege = {.times = {{.p99_ms = 20}, {.p99_ms = 10}, {.p99_ms = 30}},
                                       .resident_bytes = 266 << 20,
                                       .slowest_rejoin_ms = 2000}};

    CHECK(siege_verdict(&r) == NULL);

    r.siege = (struct siege_phase){.times = {{.p99_ms = 20.1}, {.p99_ms = 10}, {.p99_ms = 31}},
                                   .resident_bytes = 267 << 20,
                                   .slowest_rejoin_ms = 2001,
                                   .failed_probes = 3,
                                   .failed_calls = 4,
                                   .lost_watches = 1,
                                   .lost_leases = 1,
                                   .terms = 1};
    CHECK_STR(
        siege_verdict(&r),
        "3 probes failed; 4 calls failed; 1 watches ended; a lease that was renewed has "
        "expired; 1 terms have begun; a member came back after 2001 ms; 267 MB were resident, "
        "10 before; the 99th percentile of put is 20.1 ms, 2.0 before; the 99th percentile of "
        "watch is 31.0 ms, 3.0 before");
}
