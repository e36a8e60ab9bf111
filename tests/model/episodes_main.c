/*
 * model-episodes: random episodes of mvcc, watch and lease against the naive model, seed by seed.
 *
 *     model-episodes [--seed N | --seeds FROM TO] [--steps N] [--verbose]
 *
 * Stops at the first seed that breaks a rule, with status 1. Otherwise the last line is the sum of
 * what was seen: a clean run that met no crash or compaction would prove little.
 */
#include "harness/seeds.h"
#include "model/episode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct arguments {
    struct seeds seeds;
    uint64_t steps;
};

static int usage(void)
{
    fprintf(stderr, "usage: model-episodes [--seed N | --seeds FROM TO] [--steps N] [--verbose]\n");
    return 2;
}

static bool parse(int argc, char **argv, struct arguments *out)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc) {
            if (!seeds_number(argv[++i], &out->steps) || out->steps > 1000000)
                return false;
        } else if (!seeds_argument(&out->seeds, argc, argv, &i)) {
            return false;
        }
    }
    return true;
}

static void print_totals(const struct episode_totals *t, uint64_t trace)
{
    printf("%" PRIu64 " episodes clean (%" PRIu64 " on LMDB): %" PRIu64 " steps, %" PRIu64
           " revisions, %" PRIu64 " scans, %" PRIu64 " hashes, %" PRIu64 " compactions, %" PRIu64
           " settlings, %" PRIu64 " restarts, %" PRIu64 " entries replayed, %" PRIu64
           " events (%" PRIu64 " late), %" PRIu64 " fragments, %" PRIu64 " long messages, %" PRIu64
           " progress messages, %" PRIu64 " watchers resumed, %" PRIu64 " cut off, %" PRIu64
           " kept, %" PRIu64 " leases expired, trace %016" PRIx64 "\n",
           t->episodes, t->on_lmdb, t->steps, t->revisions, t->scans, t->hashes, t->compactions,
           t->settlings, t->restarts, t->replayed, t->events, t->lagged, t->fragments, t->longs,
           t->progress, t->resumed, t->cut_off, t->kept, t->expired, trace);
}

/* For LMDB. An episode removes its store when it has ended well; what is left of others stays. */
static char dir[] = "/tmp/model-episodes-XXXXXX";

static void remove_dir(void)
{
    if (rmdir(dir) != 0)
        fprintf(stderr, "model-episodes: %s is left behind\n", dir);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.seeds = {.from = 1, .to = 100}};
    struct episode_totals totals = {0};
    uint64_t trace = 0;

    if (!parse(argc, argv, &arguments))
        return usage();
    if (!mkdtemp(dir) || atexit(remove_dir) != 0) {
        perror("model-episodes: no folder for LMDB");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was said before an abort is wanted most */
    for (uint64_t seed = arguments.seeds.from; seed <= arguments.seeds.to; seed++) {
        struct episode_options options = {.seed = seed,
                                          .steps = (unsigned)arguments.steps,
                                          .dir = dir,
                                          .verbose = arguments.seeds.verbose};
        struct episode_result result;
        episode_run(&options, &result);
        episode_totals_add(&totals, &result.totals);
        trace ^= result.trace;
    }
    print_totals(&totals, trace);
    return 0;
}
