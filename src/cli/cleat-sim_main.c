/*
 * cleat-sim: runs the simulator (sim/sim.h).
 *
 *     cleat-sim --seed 7                         one run
 *     cleat-sim --seed 1 --runs 1000 --replay    a thousand, each told twice
 *     cleat-sim --seeds 1 300                    those from 1 to 300, up to the first that fails
 *     cleat-sim --seed 7 --crash-at-every-write  the same story with the crash at each call in turn
 */
#include "base/logger.h"
#include "sim/sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct arguments {
    uint64_t seed, runs;
    bool replay, every_write, verbose, to_first;
};

static int stderr_fd = STDERR_FILENO;
static const struct logger to_stderr = {
    .level = LOG_DEBUG, .sink = log_sink_fd, .sink_context = &stderr_fd};

static void print(uint64_t seed, const struct sim_result *r)
{
    printf("seed %" PRIu64 " %s hash %016" PRIx64 ": %" PRIu64 " calls, revision %" PRId64
           ", %u crashes, %" PRIu64 " installs, %" PRIu64 " disk calls, %" PRIu64 " steps, %" PRIu64
           " ms\n",
           seed, r->ok ? "ok" : "FAILED", r->hash, r->calls, r->revision, r->crashes, r->installs,
           r->disk_calls, r->steps, r->virtual_ms);
    if (!r->ok)
        printf("    %s\n", r->problem);
    fflush(stdout);
}

/* --- up to the first that fails, for scripts/planted --- */

static struct {
    char text[32];
    size_t len;
} last_words; /* an assertion has no other way to tell the seed */

static void on_abort(int number)
{
    (void)number;
    if (write(STDOUT_FILENO, last_words.text, last_words.len) < 0)
        _exit(1);
}

static int run_to_first(const struct arguments *a)
{
    signal(SIGABRT, on_abort);
    for (uint64_t seed = a->seed; seed < a->seed + a->runs; seed++) {
        last_words.len =
            (size_t)snprintf(last_words.text, sizeof(last_words.text), "seed %" PRIu64 "\n", seed);
        struct sim_result r = sim_run(&(struct sim_options){.seed = seed});
        if (r.ok)
            continue;
        printf("seed %" PRIu64 ": %s\n", seed, r.problem);
        return 1;
    }
    printf("%" PRIu64 " runs, and none failed\n", a->runs);
    return 0;
}

/* --- one after the other --- */

static bool run_seed(const struct arguments *a, uint64_t seed)
{
    struct sim_options o = {.seed = seed, .logger = a->verbose ? &to_stderr : NULL};
    struct sim_result r = sim_run(&o);

    print(seed, &r);
    if (!r.ok || !a->replay)
        return r.ok;
    struct sim_result again = sim_run(&o);
    if (again.hash == r.hash)
        return true;
    printf("    the same seed told another story: hash %016" PRIx64 "\n", again.hash);
    return false;
}

/* The calls of a run without crashes, and then that run with a crash at each of them. */
static bool run_every_write(const struct arguments *a, uint64_t seed)
{
    struct sim_options o = {.seed = seed, .calls = 60, .crashes_max = UINT32_MAX};
    struct sim_result whole = sim_run(&o);
    unsigned failures = 0;

    print(seed, &whole);
    for (uint64_t nth = 1; whole.ok && nth <= whole.disk_calls; nth++) {
        o.crash_at_call = nth;
        o.logger = a->verbose ? &to_stderr : NULL;
        struct sim_result r = sim_run(&o);
        if (r.ok)
            continue;
        printf("crash at call %" PRIu64 ": ", nth);
        print(seed, &r);
        failures++;
    }
    printf("seed %" PRIu64 ": a crash at each of %" PRIu64 " disk calls, %u failures\n", seed,
           whole.disk_calls, failures);
    return whole.ok && failures == 0;
}

static bool parse(int argc, char **argv, struct arguments *out)
{
    *out = (struct arguments){.seed = 1, .runs = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            out->seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            out->runs = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seeds") == 0 && i + 2 < argc) {
            out->seed = strtoull(argv[++i], NULL, 10);
            out->runs = strtoull(argv[++i], NULL, 10) - out->seed + 1;
            out->to_first = true;
        } else if (strcmp(argv[i], "--replay") == 0)
            out->replay = true;
        else if (strcmp(argv[i], "--crash-at-every-write") == 0)
            out->every_write = true;
        else if (strcmp(argv[i], "--verbose") == 0)
            out->verbose = true;
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct arguments a;
    uint64_t failed = 0;

    if (!parse(argc, argv, &a)) {
        fprintf(stderr, "usage: cleat-sim [--seed N] [--runs N] [--seeds FROM TO] [--replay] "
                        "[--crash-at-every-write] [--verbose]\n");
        return 2;
    }
    if (a.to_first)
        return run_to_first(&a);
    for (uint64_t n = 0; n < a.runs; n++)
        failed += !(a.every_write ? run_every_write(&a, a.seed + n) : run_seed(&a, a.seed + n));
    printf("%" PRIu64 " of %" PRIu64 " runs failed\n", failed, a.runs);
    return failed != 0;
}
