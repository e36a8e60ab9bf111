/*
 * raft-cluster: random clusters, seed by seed.
 *
 *     raft-cluster [--seed N | --seeds FROM TO] [--verbose]
 *
 * Stops at the first seed that breaks a rule, with status 1. Otherwise the last line is the sum of
 * what was seen: a clean run that met no election or truncation would prove little.
 */
#include "harness/seeds.h"
#include "raft/cluster.h"

#include <stdio.h>

static int usage(void)
{
    fprintf(stderr, "usage: raft-cluster [--seed N | --seeds FROM TO] [--verbose]\n");
    return 2;
}

static bool parse(int argc, char **argv, struct seeds *out)
{
    for (int i = 1; i < argc; i++)
        if (!seeds_argument(out, argc, argv, &i))
            return false;
    return true;
}

static void print_totals(const struct cluster_totals *t, uint64_t trace)
{
    printf("%lu seeds clean: %lu entries committed, %lu elections, %lu truncations, %lu snapshots, "
           "%lu configuration changes (%lu joint), %lu crashes, %lu reads, %lu fetches, "
           "%lu rescues, %lu steps, healed within %lu ticks, trace %016lx\n",
           t->seeds, t->committed, t->elections, t->truncations, t->snapshots, t->conf_changes,
           t->joint, t->crashes, t->reads, t->fetches, t->rescues, t->steps, t->heal_ticks_max,
           trace);
}

int main(int argc, char **argv)
{
    struct seeds seeds = {.from = 1, .to = 100};
    struct cluster_totals totals = {0};
    uint64_t trace = 0;

    if (!parse(argc, argv, &seeds))
        return usage();
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was said before an abort is wanted most */
    for (uint64_t seed = seeds.from; seed <= seeds.to; seed++) {
        struct cluster_options options = {.seed = seed, .verbose = seeds.verbose};
        struct cluster_result result;
        cluster_run(&options, &result);
        cluster_totals_add(&totals, &result.totals);
        trace ^= result.trace;
    }
    print_totals(&totals, trace);
    return 0;
}
