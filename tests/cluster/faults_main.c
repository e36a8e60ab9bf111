/*
 * cluster-faults: breaks a cluster of real processes, round after round (faults.h).
 *
 *     cluster-faults [--server FILE] [--other FILE] [--rounds N] [--partitions N]
 *                    [--full-disks N] [--behind N] [--minutes N] [--install-s N] [--seed S]
 *                    [--members N] [--clients N] [--pause-ms N] [--election-ms N]
 *                    [--flags "..."] [--tls] [--quiet] [--forgetting] [--stale-reads]
 *
 * The server is build/cleat, or build/peers/etcd to see that the checks are fair; --other is that
 * of every second member. Status 0 when everything was as it should be, 1 when not: then the
 * directory with data, logs and the record is left and named. The seed decides what is broken and
 * when; the rest is up to the machine. Full disks are for root, who may mount a tmpfs for each
 * member; who may not is told that nothing was done. The last two flags do something wrong, which
 * must be found.
 *
 * With --tls members and clients meet by certificates, which are renewed before each round.
 * With --minutes the rounds are done again and again until these are up. For --behind members must
 * keep few entries, and tell: --flags "--snapshot-count 50 --snapshot-catchup-entries 10".
 */
#include "cluster/faults.h"
#include "cluster/tool.h"

#include <inttypes.h>
#include <stdio.h>

static void print(const struct faults_options *o, const struct faults_result *r)
{
    printf("seed %" PRIu64
           ", %u rounds: %u kills, %u pauses, %u stops, %u partitions, %u full disks; "
           "%u calls "
           "succeeded (%u reads), %u failed; revision %" PRId64 ", %u watches; well again within "
           "%" PRIu64 " ms; %" PRIu64 " MB resident at most\n",
           o->seed, r->rounds, r->kills, r->pauses, r->stops, r->cuts, r->fills, r->operations,
           r->reads, r->failed, r->revision, r->watches, r->settle_ms_max, r->peak_bytes / 1000000);
    if (r->installs > 0 || o->install_s > 0)
        printf("%u snapshots installed, %u of them in the midst of a watch; %" PRIu64
               " ms between two of them at most\n",
               r->installs, r->watched_installs, r->install_ms_max);
    if (r->fills > 0)
        printf("writes were taken within %" PRIu64 " ms of there being space\n", r->space_ms_max);
    if (r->problem[0])
        printf("PROBLEM: %s\nlook at %s\n", r->problem, o->dir);
    else if (tool_is_unwanted)
        printf("interrupted\n");
}

int main(int argc, char **argv)
{
    struct faults_options o = {
        .program = "build/cleat", .rounds = 10, .partitions = 5, .seed = 1, .pause_ms = 20};
    struct faults_result result;
    bool is_quiet = false, forgets = false, reads_stale = false;
    const struct tool_option options[] = {
        {"--server", .text = &o.program},
        {"--other", .text = &o.other},
        {"--flags", .text = &o.flags},
        {"--rounds", .number = &o.rounds, .max = 1000000},
        {"--partitions", .number = &o.partitions, .max = 1000000},
        {"--full-disks", .number = &o.full_disks, .max = 1000000},
        {"--behind", .number = &o.behind, .max = 1000000},
        {"--minutes", .number = &o.minutes, .max = 100000},
        {"--install-s", .number = &o.install_s, .max = 100000},
        {"--members", .number = &o.members, .max = 7},
        {"--clients", .number = &o.clients, .max = 500},
        {"--pause-ms", .number = &o.pause_ms, .max = 10000},
        {"--election-ms", .number = &o.election_ms, .max = 50000},
        {"--seed", .big = &o.seed},
        {"--tls", .flag = &o.is_by_tls},
        {"--quiet", .flag = &is_quiet},
        {"--forgetting", .flag = &forgets},
        {"--stale-reads", .flag = &reads_stale},
        {0},
    };

    if (!tool_parse(options, argc, argv))
        return 2;
    o.dir = tool_open();
    if (!o.dir)
        return 1;
    o.is_unwanted = &tool_is_unwanted;
    o.verbose = !is_quiet;
    o.plant = forgets ? PLANT_FORGETTING : reads_stale ? PLANT_STALE_READS : PLANT_NOTHING;
    bool ok = faults_run(&o, &result);
    if (result.is_skipped) {
        printf("SKIPPED, nothing was done: %s\n", result.problem);
        tool_close(true);
        return 0;
    }
    print(&o, &result);
    tool_close(ok);
    return ok && !tool_is_unwanted ? 0 : 1;
}
