/* A few rounds of build/cluster-faults with every test run; many by make cluster-faults. */
#include "cluster/faults.h"

#include "harness/peer_test.h"
#include "harness/test.h"

#include <inttypes.h>
#include <stdio.h>

static struct faults_options few_rounds(const char *program)
{
    return (struct faults_options){
        .program = program,
        .dir = test_tmp_dir(),
        .flags = "--log-level warn --snapshot-count 1000000", /* nobody falls behind the log */
        .election_ms = 500,
        .pause_ms = 20,
        .rounds = (unsigned)test_effort(),
        .partitions = (unsigned)test_effort(),
        .seed = test_seed(),
        .verbose = true,
    };
}

static void check_run(const struct faults_options *o)
{
    struct faults_result result;

    if (!faults_run(o, &result))
        test_fail(__FILE__, __LINE__, "%s", result.problem);
    printf("%u calls succeeded, %u failed, revision %" PRId64 "\n", result.operations,
           result.failed, result.revision);
    CHECK(result.operations > 100);
    CHECK(result.reads > 10);
    CHECK_EQ(result.rounds, o->rounds + o->partitions);
}

static const char *our_program(struct peer *p)
{
    peer_open_ours(p, test_tmp_dir());
    return p->program;
}

TEST(three_members_keep_their_promises_while_they_are_killed_and_cut_off)
{
    struct peer ours;
    struct faults_options o = few_rounds(our_program(&ours));
    o.rounds *= 3;
    o.partitions *= 2;

    check_run(&o);
    peer_close(&ours);
}

TEST(two_members_of_ours_and_one_of_etcd_keep_them_together)
{
    struct peer ours;
    peer_need();
    struct faults_options o = few_rounds(our_program(&ours));
    o.other = gate_program(GATE_PEERS, "etcd");

    check_run(&o);
    peer_close(&ours);
}

/* Members and clients by certificates, which are renewed before each round. */
TEST(members_that_meet_by_tls_keep_their_promises)
{
    struct peer ours;
    struct faults_options o = few_rounds(our_program(&ours));
    o.is_by_tls = true;

    check_run(&o);
    peer_close(&ours);
}

TEST(one_member_of_ours_and_two_of_etcd_keep_them_by_tls)
{
    struct peer ours;
    peer_need();
    struct faults_options o = few_rounds(gate_program(GATE_PEERS, "etcd"));
    o.other = our_program(&ours);
    o.is_by_tls = true;

    check_run(&o);
    peer_close(&ours);
}

/* The log keeps ten entries, and a member is away for a thousand: it gets an image, and the watch
 * on it shows what nobody has told it entry by entry. */
TEST(members_that_need_a_snapshot_keep_their_promises)
{
    struct peer ours;
    struct faults_options o = few_rounds(our_program(&ours));
    struct faults_result result;
    o.flags = "--snapshot-count 50 --snapshot-catchup-entries 10";
    o.rounds = o.partitions = 0;
    o.behind = 2 * (unsigned)test_effort();

    if (!faults_run(&o, &result))
        test_fail(__FILE__, __LINE__, "%s", result.problem);

    CHECK(result.installs > 0);
    peer_close(&ours);
}

TEST(a_run_in_which_nobody_needs_a_snapshot_is_found_out)
{
    struct peer ours;
    struct faults_options o = few_rounds(our_program(&ours)); /* which keep the whole log */
    struct faults_result result;
    o.rounds = 0;
    o.partitions = 1;
    o.minutes = 1;
    o.install_s = 1;

    CHECK(!faults_run(&o, &result));

    CHECK(strstr(result.problem, "nobody has installed a snapshot"));
    peer_close(&ours);
}

/* For root, who may mount a small disk for it. */
TEST(a_member_whose_disk_is_full_for_a_while_keeps_its_promises)
{
    struct peer ours;
    struct faults_options o = few_rounds(our_program(&ours));
    struct faults_result result;
    o.members = 1;
    o.full_disks = o.rounds;
    o.rounds = o.partitions = 0;
    o.pause_ms = 5;

    bool ok = faults_run(&o, &result);
    if (result.is_skipped)
        SKIP("%s", result.problem);
    if (!ok)
        test_fail(__FILE__, __LINE__, "%s", result.problem);
    CHECK_EQ(result.fills, o.full_disks);
    CHECK(result.space_ms_max <= 2000);
    peer_close(&ours);
}

/* What it promises, we promise; and what it does not keep cannot be asked of us. */
TEST(the_checks_are_fair_to_three_members_of_real_etcd)
{
    peer_need();
    struct faults_options o = few_rounds(gate_program(GATE_PEERS, "etcd"));

    check_run(&o);
}

TEST(members_that_have_lost_their_data_are_found_out)
{
    struct peer ours;
    struct faults_options o = few_rounds(our_program(&ours));
    struct faults_result result;
    o.plant = PLANT_FORGETTING;
    o.rounds = 1;
    o.partitions = 0;

    CHECK(!faults_run(&o, &result));

    CHECK(strstr(result.problem, "had been told before") || strstr(result.problem, "is lost") ||
          strstr(result.problem, "the watcher of"));
    peer_close(&ours);
}

TEST(linearizable_reads_that_are_not_are_found_out)
{
    struct peer ours;
    struct faults_options o = few_rounds(our_program(&ours));
    struct faults_result result;
    o.plant = PLANT_STALE_READS;
    o.rounds = 20; /* the first is nearly always enough */

    CHECK(!faults_run(&o, &result));

    CHECK(strstr(result.problem, "linearizable read"));
    peer_close(&ours);
}
