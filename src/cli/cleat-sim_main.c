/*
 * cleat-sim: runs the simulator (sim/sim.h).
 *
 * One seed is one run: a whole cluster with clients on a simulated clock, network and disk. Its
 * result is the line "seed N ok, hash H" with some figures below it; of several runs, that line
 * for each, and the sums at the end. scripts/sim-twins compares those lines, and scripts/planted
 * reads the seed from what --seeds prints.
 *
 * It exits with 0 if nothing was broken, 1 if a promise was, and says which; an assertion that
 * fails aborts. 2: the call is wrong.
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
    bool replay, every_write, to_first, shrink, lmdb, help;
};

/* --- what is printed --- */

static const char usage[] =
    "cleat-sim runs a cluster with clients on a simulated clock, network and disk, lets things go\n"
    "wrong, and checks every response. The same seed is the same run.\n"
    "\n"
    "Usage:\n"
    "  cleat-sim [--seed N] [flags]\n"
    "\n"
    "Which runs:\n"
    "  --seed N             the seed of the first run (1)\n"
    "  --runs N             as many runs, with the seeds from there on (1)\n"
    "  --seeds FROM TO      these seeds, up to the first that fails\n"
    "  --replay             run each seed twice: both runs must have the same hash\n"
    "  --crash-at-every-write\n"
    "                       one member, and a crash at each of its disk calls in turn\n"
    "\n"
    "The simulated world; without these flags the seed decides:\n"
    "  --members N          members at the start, 7 at most\n"
    "  --writers N          clients that write, 3 at most\n"
    "  --watchers N         clients that watch, 3 at most\n"
    "  --storm-ms N         milliseconds, at least, in which things go wrong (30000)\n"
    "  --without FAULT,...  faults that do not happen; 'all' for none at all\n"
    "  --with-changes       members are added and removed\n"
    "  --member-operators N with --with-changes: clients that ask for that at once, 3 at most\n"
    "  --with-auth          there are users and roles; members stay\n"
    "  --with-cold          at times a member's store is not in memory; with any of the above\n"
    "  --backend=memory|lmdb\n"
    "                       where members keep their stores: LMDB is the real one, in a temporary\n"
    "                       directory. Both have the same hash; neither has crashes or a quota\n"
    "\n"
    "To find out why a run fails:\n"
    "  --trace              print the members' logs and what passes between them\n"
    "  --picture FILE       write a page for a browser that shows the run; a single run that "
    "fails\n"
    "                       writes cleat-sim-SEED.html by itself\n"
    "  --shrink             search for fewer members, clients and faults that still fail\n"
    "\n"
    "Faults:\n";

static void print_usage(void)
{
    enum { COLUMNS = 8 };

    fputs(usage, stdout);
    for (unsigned f = 0; f < SIM_FAULTS; f++)
        printf("%s%s%s", f % COLUMNS == 0 ? "  " : "", sim_fault_name((enum sim_fault)f),
               f + 1 == SIM_FAULTS          ? "\n"
               : f % COLUMNS == COLUMNS - 1 ? ",\n"
                                            : ", ");
    puts("\nExit status: 0, 1 if a run has failed, 2 if the call is wrong.");
}

static void print_verdict(const struct sim_result *r, uint64_t seed)
{
    if (!r->ok)
        printf("broken: %s\n", r->problem);
    printf("seed %" PRIu64 " %s, hash %016" PRIx64 "\n", seed, r->ok ? "ok" : "FAILED", r->hash);
    fflush(stdout);
}

static void print_disks(const struct sickness_counts *c)
{
    printf("  disk faults     slow %u, hung %u, failing %u, flipped %u, wiped %u, full %u\n",
           c->slow, c->hung, c->failing, c->flipped, c->wiped, c->full);
    printf("                  %u members ended by them, %u could not start, %u were refused\n",
           c->gave_up, c->refused, c->refused_wiped);
}

/* Of one run, or the sums of several. */
static void print_figures(const struct sim_result *r)
{
    unsigned changed = r->changes.added + r->changes.learners + r->changes.promoted +
                       r->changes.removed + r->changes.updated;

    printf("  simulated       %" PRIu64 ".%03u s in %" PRIu64 " steps\n", r->virtual_ms / 1000,
           (unsigned)(r->virtual_ms % 1000), r->steps);
    printf("  members         %u\n", r->members);
    printf("  operations      %" PRIu64 " acknowledged, up to revision %" PRId64 "\n",
           r->operations, r->revision);
    printf("  crashes         %u\n", r->crashes);
    print_disks(&r->sick);
    printf("  member changes  %u of %u that were asked for\n", changed, r->changes.asked);
    printf("  auth changes    %" PRIu64 "\n", r->rights);
    printf("  compactions     %" PRIu64 " by the members themselves\n", r->own_compactions);
    printf("  snapshots       %" PRIu64 " installed\n", r->installs);
    printf("  states          %" PRIu64 ", of which %" PRIu64 " compared with an earlier one\n",
           r->digests, r->compared);
    printf("  key hashes      %" PRIu64 ", of which %" PRIu64 " compared with an earlier one\n",
           r->hashes, r->hashes_compared);
    printf("  backups         %" PRIu64 " restored and compared with the history\n", r->backups);
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

/* Runs a failure once more, for a page that shows it. */
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

static void add_sick(struct sickness_counts *sum, const struct sickness_counts *c)
{
    sum->slow += c->slow;
    sum->hung += c->hung;
    sum->failing += c->failing;
    sum->flipped += c->flipped;
    sum->wiped += c->wiped;
    sum->full += c->full;
    sum->gave_up += c->gave_up;
    sum->refused += c->refused;
    sum->refused_wiped += c->refused_wiped;
}

static void add_changes(struct steward_counts *sum, const struct steward_counts *c)
{
    sum->asked += c->asked;
    sum->added += c->added;
    sum->learners += c->learners;
    sum->promoted += c->promoted;
    sum->removed += c->removed;
    sum->updated += c->updated;
}

static void add_figures(struct sim_result *sum, const struct sim_result *r)
{
    sum->steps += r->steps;
    sum->virtual_ms += r->virtual_ms;
    sum->operations += r->operations;
    sum->members += r->members;
    sum->crashes += r->crashes;
    sum->installs += r->installs;
    add_sick(&sum->sick, &r->sick);
    add_changes(&sum->changes, &r->changes);
    sum->rights += r->rights;
    sum->digests += r->digests;
    sum->compared += r->compared;
    sum->own_compactions += r->own_compactions;
    sum->hashes += r->hashes;
    sum->hashes_compared += r->hashes_compared;
    sum->backups += r->backups;
    if (sum->revision < r->revision)
        sum->revision = r->revision;
}

static bool run_seed(const struct arguments *a, const struct sim_options *o, struct sim_result *sum)
{
    struct sim_result r = run_once(a, o);
    bool same = true;

    if (a->replay && r.ok) {
        struct sim_options quiet = *o;
        quiet.trace = NULL;
        struct sim_result again = run_once(a, &quiet);
        same = again.hash == r.hash;
        if (!same)
            printf("the second run of this seed differs: hash %016" PRIx64 "\n", again.hash);
    }
    if (!r.ok && !o->picture && a->runs == 1)
        draw_failure(a, o);
    print_verdict(&r, o->seed);
    add_figures(sum, &r);
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
    print_verdict(&whole, o.seed);
    for (uint64_t nth = 1; whole.ok && nth <= whole.disk_calls; nth++) {
        o.crash_at_call = nth;
        struct sim_result r = run_once(a, &o);
        if (r.ok)
            continue;
        printf("crash at call %" PRIu64 ": ", nth);
        print_verdict(&r, o.seed);
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
    struct sim_result figures = {0};
    run_seed(a, &least, &figures);
    print_figures(&figures);
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
    else if (strcmp(name, "--with-cold") == 0)
        out->options.with_cold = true;
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

static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == 0 && *out <= max;
}

static bool parse_count(const char *text, unsigned max, unsigned *out)
{
    uint64_t number;

    if (!parse_number(text, max, &number))
        return false;
    *out = (unsigned)number;
    return true;
}

static bool parse_value(const char *name, char *value, struct arguments *out)
{
    enum { CLIENTS_MAX = 3 };
    struct sim_options *o = &out->options;

    if (strcmp(name, "--seed") == 0)
        return parse_number(value, UINT64_MAX, &o->seed);
    if (strcmp(name, "--runs") == 0)
        return parse_number(value, UINT64_MAX, &out->runs);
    if (strcmp(name, "--members") == 0)
        return parse_count(value, CLIMATE_MEMBERS_MAX, &o->members);
    if (strcmp(name, "--writers") == 0)
        return parse_count(value, CLIENTS_MAX, &o->writers);
    if (strcmp(name, "--watchers") == 0)
        return parse_count(value, CLIENTS_MAX, &o->watchers);
    if (strcmp(name, "--member-operators") == 0)
        return parse_count(value, CLIMATE_STEWARDS_MAX, &o->stewards);
    if (strcmp(name, "--storm-ms") == 0)
        return parse_number(value, UINT64_MAX, &o->storm_ms);
    if (strcmp(name, "--without") == 0)
        return parse_faults(value, &o->without);
    if (strcmp(name, "--picture") != 0)
        return false;
    o->picture = value;
    return true;
}

static bool parse_seeds(const char *from, const char *to, struct arguments *out)
{
    uint64_t last;

    if (!parse_number(from, UINT64_MAX, &out->options.seed) ||
        !parse_number(to, UINT64_MAX, &last) || last < out->options.seed)
        return false;
    out->runs = last - out->options.seed + 1;
    out->to_first = true;
    return true;
}

/* NULL, or the word that is not understood. */
static const char *parse(int argc, char **argv, struct arguments *out)
{
    *out = (struct arguments){.options.seed = 1, .runs = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            out->help = true;
        else if (parse_switch(argv[i], out))
            continue;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 2 < argc &&
                 parse_seeds(argv[i + 1], argv[i + 2], out))
            i += 2;
        else if (i + 1 < argc && parse_value(argv[i], argv[i + 1], out))
            i++;
        else
            return argv[i];
    }
    return NULL;
}

static bool run_all(const struct arguments *a)
{
    struct sim_options o = a->options;
    struct sim_result sum = {0};
    uint64_t failed = 0;

    for (uint64_t n = 0; n < a->runs; n++, o.seed++)
        failed += !(a->every_write ? run_every_write(a, &o) : run_seed(a, &o, &sum));
    if (a->runs > 1)
        printf("%" PRIu64 " runs, %" PRIu64 " failed\n", a->runs, failed);
    if (!a->every_write)
        print_figures(&sum);
    return failed == 0;
}

int main(int argc, char **argv)
{
    struct arguments a;
    const char *unknown = parse(argc, argv, &a);

    if (unknown) {
        fprintf(stderr, "cleat-sim: not understood: %s (cleat-sim --help explains the flags)\n",
                unknown);
        return 2;
    }
    if (a.help) {
        print_usage();
        return 0;
    }
    if (a.shrink)
        return run_shrink(&a);
    if (a.to_first)
        return run_to_first(&a);
    return run_all(&a) ? 0 : 1;
}
