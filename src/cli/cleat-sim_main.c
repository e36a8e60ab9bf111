/*
 * cleat-sim: runs the simulator (sim/sim.h).
 *
 *     cleat-sim --seed 7                         one run; its last line has the trace hash
 *     cleat-sim --seed 7 --trace                 the same, with what every room and the wire did
 *     cleat-sim --seed 7 --shrink                what is left of it that still fails
 *     cleat-sim --seed 7 --picture FILE          a page that shows it; a single run that fails
 * makes one by itself, cleat-sim-7.html cleat-sim --seed 7 --members 5 --without crash,drift
 *     cleat-sim --seed 7 --backend=lmdb          the real page store, in a temporary directory; its
 *                                                hash is that of --backend=memory. Neither crashes.
 *     cleat-sim --seed 1 --runs 1000 --replay    a thousand, each told twice
 *     cleat-sim --seeds 1 300                    those from 1 to 300, up to the first that fails
 *     cleat-sim --seed 7 --crash-at-every-write  the same story with the crash at each call in turn
 *
 * It exits with 0 if nothing was broken, 1 if a promise was, and says which; an assertion that
 * fails aborts.
 */
#include "sim/climate.h"
#include "sim/shrink.h"
#include "sim/sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct arguments {
    struct sim_options options;
    uint64_t runs;
    bool replay, every_write, to_first, shrink, lmdb;
};

static void print(const struct sim_result *r, uint64_t seed)
{
    const struct sickness_counts *c = &r->sick;
    unsigned sick = c->slow + c->hung + c->failing + c->flipped + c->wiped + c->full;

    unsigned changed = r->changes.added + r->changes.learners + r->changes.promoted +
                       r->changes.removed + r->changes.updated;

    if (!r->ok)
        printf("broken: %s\n", r->problem);
    printf("seed %" PRIu64 " %s: members %u, steps %" PRIu64 ", operations %" PRIu64
           ", seconds %" PRIu64 ".%03u, crashes %u, states compared %" PRIu64 " of %" PRIu64
           ", hashes %" PRIu64 " of %" PRIu64 ", backups %" PRIu64
           ", compacted by themselves %" PRIu64 ", installs %" PRIu64
           ", sick disks %u, members changed %u of %u, rights changed %" PRIu64
           ", revision %" PRId64 ", hash %016" PRIx64 "\n",
           seed, r->ok ? "ok" : "FAILED", r->members, r->steps, r->operations, r->virtual_ms / 1000,
           (unsigned)(r->virtual_ms % 1000), r->crashes, r->compared, r->digests,
           r->hashes_compared, r->hashes, r->backups, r->own_compactions, r->installs, sick,
           changed, r->changes.asked, r->rights, r->revision, r->hash);
    fflush(stdout);
}

/* --- the real page store --- */

struct store_dirs {
    char base[64];
    char prefix[80];
};

static void dirs_make(struct store_dirs *d)
{
    snprintf(d->base, sizeof(d->base), "/tmp/cleat-sim.XXXXXX");
    if (!mkdtemp(d->base)) {
        perror(d->base);
        exit(2);
    }
    snprintf(d->prefix, sizeof(d->prefix), "%s/m", d->base);
}

static void dirs_remove(const struct store_dirs *d)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -rf %s", d->base);
    if (system(command) != 0)
        perror(command);
}

static struct sim_result run_once(const struct arguments *a, const struct sim_options *o)
{
    struct store_dirs dirs;
    struct sim_options with = *o;

    if (!a->lmdb)
        return sim_run(o);
    dirs_make(&dirs);
    with.data_dir = dirs.prefix;
    struct sim_result r = sim_run(&with);
    dirs_remove(&dirs);
    return r;
}

/* A failure is told once more, for a page that shows it. */
static void draw_failure(const struct arguments *a, const struct sim_options *o)
{
    char path[64];
    struct sim_options with = *o;

    snprintf(path, sizeof(path), "cleat-sim-%" PRIu64 ".html", o->seed);
    with.picture = path;
    with.trace = NULL;
    struct sim_result r = run_once(a, &with);
    if (!r.ok)
        printf("to look at: %s\n", path);
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
    struct sim_options o = a->options;

    signal(SIGABRT, on_abort);
    for (uint64_t end = o.seed + a->runs; o.seed < end; o.seed++) {
        last_words.len = (size_t)snprintf(last_words.text, sizeof(last_words.text),
                                          "seed %" PRIu64 "\n", o.seed);
        struct sim_result r = run_once(a, &o);
        if (r.ok)
            continue;
        printf("seed %" PRIu64 ": %s\n", o.seed, r.problem);
        return 1;
    }
    printf("%" PRIu64 " runs, and none failed\n", a->runs);
    return 0;
}

/* --- one after the other --- */

static struct sickness_counts all_sick; /* in all runs */

static void add_sick(const struct sickness_counts *c)
{
    all_sick.slow += c->slow;
    all_sick.hung += c->hung;
    all_sick.failing += c->failing;
    all_sick.flipped += c->flipped;
    all_sick.wiped += c->wiped;
    all_sick.full += c->full;
    all_sick.gave_up += c->gave_up;
    all_sick.refused += c->refused;
    all_sick.refused_wiped += c->refused_wiped;
}

static void print_sick(void)
{
    const struct sickness_counts *c = &all_sick;

    printf("disks: slow %u, hung %u, failing %u, flipped %u, wiped %u, full %u; members that gave "
           "up %u, did "
           "not start %u, were refused %u\n",
           c->slow, c->hung, c->failing, c->flipped, c->wiped, c->full, c->gave_up, c->refused,
           c->refused_wiped);
}

static bool run_seed(const struct arguments *a, const struct sim_options *o)
{
    struct sim_result r = run_once(a, o);
    bool same = true;

    if (a->replay && r.ok) {
        struct sim_options quiet = *o;
        quiet.trace = NULL;
        struct sim_result again = run_once(a, &quiet);
        same = again.hash == r.hash;
        if (!same)
            printf("the same seed told another story: hash %016" PRIx64 "\n", again.hash);
    }
    if (!r.ok && !o->picture && a->runs == 1)
        draw_failure(a, o);
    print(&r, o->seed);
    add_sick(&r.sick);
    return r.ok && same;
}

/* The calls of a run without crashes, and then that run with a crash at each of them. */
static bool run_every_write(const struct arguments *a, const struct sim_options *options)
{
    struct sim_options o = *options;
    unsigned failures = 0;

    o.members = 1;
    o.calls = 60;
    o.without = UINT32_MAX;
    struct sim_result whole = run_once(a, &o);
    print(&whole, o.seed);
    for (uint64_t nth = 1; whole.ok && nth <= whole.disk_calls; nth++) {
        o.crash_at_call = nth;
        struct sim_result r = run_once(a, &o);
        if (r.ok)
            continue;
        printf("crash at call %" PRIu64 ": ", nth);
        print(&r, o.seed);
        failures++;
    }
    printf("seed %" PRIu64 ": a crash at each of %" PRIu64 " disk calls, %u failures\n", o.seed,
           whole.disk_calls, failures);
    return whole.ok && failures == 0;
}

/* --- shrinking --- */

/* In a process of its own: an assertion is a failure like others. */
static bool run_fails(void *context, const struct sim_options *o)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        _exit(run_once(context, o).ok ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("cleat-sim");
        exit(2);
    }
    bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (failed) {
        struct buf text = {0};
        shrink_arguments(o, &text);
        printf("still fails: %s\n", buf_str(&text));
        fflush(stdout);
        buf_free(&text);
    }
    return failed;
}

static int run_shrink(struct arguments *a)
{
    if (!run_fails(a, &a->options)) {
        printf("seed %" PRIu64 " does not fail\n", a->options.seed);
        return 0;
    }
    struct shrink s = {.failing = &a->options,
                       .members = sim_member_count(&a->options),
                       .fails = run_fails,
                       .context = a,
                       .runs_max = SHRINK_RUNS_MAX};
    struct sim_options least = shrink(&s);
    struct buf text = {0};
    shrink_arguments(&least, &text);
    printf("%s of %u runs: cleat-sim %s\n",
           s.is_least ? "least" : "there may be a smaller one, but this is the least", s.runs,
           buf_str(&text));
    buf_free(&text);
    run_seed(a, &least);
    return 1;
}

/* --- arguments --- */

static bool parse_faults(char *names, uint32_t *out)
{
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        enum sim_fault f = sim_fault_named(name);
        if (strcmp(name, "all") == 0)
            *out = (1u << SIM_FAULTS) - 1;
        else if (f == SIM_FAULTS)
            return false;
        else
            *out |= 1u << f;
    }
    return true;
}

static int stdout_fd = STDOUT_FILENO;

static bool parse_switch(const char *name, struct arguments *out)
{
    if (strcmp(name, "--replay") == 0)
        out->replay = true;
    else if (strcmp(name, "--crash-at-every-write") == 0)
        out->every_write = true;
    else if (strcmp(name, "--shrink") == 0)
        out->shrink = true;
    else if (strcmp(name, "--with-changes") == 0)
        out->options.with_changes = true;
    else if (strcmp(name, "--with-auth") == 0)
        out->options.with_auth = true;
    else if (strcmp(name, "--backend=lmdb") == 0 || strcmp(name, "--backend=memory") == 0) {
        out->lmdb = strcmp(name, "--backend=lmdb") == 0;
        out->options.without_quota = true;
        out->options.without |= 1u << FAULT_CRASH;
    } else if (strcmp(name, "--trace") == 0) {
        out->options.trace = log_sink_fd;
        out->options.trace_context = &stdout_fd;
    } else
        return false;
    return true;
}

static bool parse_value(const char *name, char *value, struct arguments *out)
{
    struct sim_options *o = &out->options;
    uint64_t number = strtoull(value, NULL, 10);

    if (strcmp(name, "--seed") == 0)
        o->seed = number;
    else if (strcmp(name, "--runs") == 0)
        out->runs = number;
    else if (strcmp(name, "--members") == 0 && number <= CLIMATE_MEMBERS_MAX)
        o->members = (unsigned)number;
    else if (strcmp(name, "--writers") == 0 && number <= 3)
        o->writers = (unsigned)number;
    else if (strcmp(name, "--watchers") == 0 && number <= 3)
        o->watchers = (unsigned)number;
    else if (strcmp(name, "--storm-ms") == 0)
        o->storm_ms = number;
    else if (strcmp(name, "--picture") == 0)
        o->picture = value;
    else if (strcmp(name, "--without") == 0)
        return parse_faults(value, &o->without);
    else
        return false;
    return true;
}

static bool parse(int argc, char **argv, struct arguments *out)
{
    *out = (struct arguments){.options.seed = 1, .runs = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seeds") == 0 && i + 2 < argc) {
            out->options.seed = strtoull(argv[++i], NULL, 10);
            out->runs = strtoull(argv[++i], NULL, 10) - out->options.seed + 1;
            out->to_first = true;
        } else if (parse_switch(argv[i], out))
            continue;
        else if (i + 1 < argc && parse_value(argv[i], argv[i + 1], out))
            i++;
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
        fprintf(stderr,
                "usage: cleat-sim [--seed N] [--runs N | --seeds FROM TO] [--members N] "
                "[--writers N] [--watchers N] [--storm-ms N] [--without FAULT,...|all] [--replay] "
                "[--with-changes | --with-auth] [--trace] [--picture FILE] [--shrink] "
                "[--backend=memory|lmdb] "
                "[--crash-at-every-write]\n");
        return 2;
    }
    if (a.shrink)
        return run_shrink(&a);
    if (a.to_first)
        return run_to_first(&a);
    struct sim_options o = a.options;
    for (uint64_t n = 0; n < a.runs; n++, o.seed++)
        failed += !(a.every_write ? run_every_write(&a, &o) : run_seed(&a, &o));
    if (a.runs > 1) {
        print_sick();
        printf("%" PRIu64 " of %" PRIu64 " runs failed\n", failed, a.runs);
    }
    return failed != 0;
}
