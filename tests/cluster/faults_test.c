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
    printf("%u calls answered, %u not, revision %" PRId64 "\n", result.operations, result.failed,
           result.revision);
    CHECK(result.operations > 100);
    CHECK(result.reads > 10);
    CHECK_EQ(result.rounds, o->rounds + o->partitions);
}

/* What it promises, we promise; and what it does not keep cannot be asked of us. */
TEST(the_checks_are_fair_to_three_members_of_real_etcd)
{
    peer_need();
    struct faults_options o = few_rounds(PEERS "etcd");

    check_run(&o);
}

TEST(members_that_have_lost_their_data_are_found_out)
{
    peer_need();
    struct faults_options o = few_rounds(PEERS "etcd");
    struct faults_result result;
    o.plant = PLANT_FORGETTING;
    o.rounds = 1;
    o.partitions = 0;

    CHECK(!faults_run(&o, &result));

    CHECK(strstr(result.problem, "had been told before") || strstr(result.problem, "is lost") ||
          strstr(result.problem, "the watcher of"));
}

TEST(linearizable_reads_that_are_not_are_found_out)
{
    peer_need();
    struct faults_options o = few_rounds(PEERS "etcd");
    struct faults_result result;
    o.plant = PLANT_STALE_READS;
    o.rounds = 20; /* the first is nearly always enough */

    CHECK(!faults_run(&o, &result));

    CHECK(strstr(result.problem, "linearizable read"));
}
