/*
 * cluster-faults: breaks a cluster of real processes, round after round (faults.h).
 *
 *     cluster-faults [--server FILE] [--rounds N] [--partitions N] [--seed S] [--members N]
 *                    [--election-ms N] [--flags "..."] [--dir DIR] [--quiet]
 *                    [--plant forgetting|stale-reads]
 *
 * The server is build/cleat, or build/peers/etcd to see that the checks are fair. Status 0 when
 * everything was as it should be, 1 when not: then the directory with data, logs and the record is
 * left and named. The seed decides what is broken and when; the rest is up to the machine. --plant
 * does something wrong, which must be found.
 */
#include "cluster/faults.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile bool is_unwanted;

static void on_signal(int number)
{
    (void)number;
    is_unwanted = true;
}

static int usage(void)
{
    fprintf(stderr, "usage: cluster-faults [--server FILE] [--rounds N] [--partitions N] [--seed S]"
                    " [--members N] [--election-ms N] [--flags \"...\"] [--dir DIR] [--quiet] "
                    "[--plant forgetting|stale-reads]\n");
    return 2;
}

static bool number_of(const char *text, uint64_t max, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *text && !*end && *out <= max;
}

static bool parse_number(const char *name, const char *text, struct faults_options *o)
{
    uint64_t n;

    if (!number_of(text, UINT64_MAX, &n))
        return false;
    if (strcmp(name, "--seed") == 0) {
        o->seed = n;
        return true;
    }
    unsigned *places[] = {&o->rounds, &o->partitions, &o->members, &o->election_ms};
    static const char *const names[] = {"--rounds", "--partitions", "--members", "--election-ms"};
    static const uint64_t max[] = {1000000, 1000000, 7, 50000};
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *places[i] = (unsigned)n;
        return n <= max[i];
    }
    return false;
}

static bool parse(int argc, char **argv, struct faults_options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--quiet") == 0) {
            o->verbose = false;
            continue;
        }
        if (!value)
            return false;
        i++;
        if (strcmp(name, "--server") == 0)
            o->program = value;
        else if (strcmp(name, "--dir") == 0)
            o->dir = value;
        else if (strcmp(name, "--flags") == 0)
            o->flags = value;
        else if (strcmp(name, "--plant") == 0 && strcmp(value, "forgetting") == 0)
            o->plant = PLANT_FORGETTING;
        else if (strcmp(name, "--plant") == 0 && strcmp(value, "stale-reads") == 0)
            o->plant = PLANT_STALE_READS;
        else if (!parse_number(name, value, o))
            return false;
    }
    return true;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static void print(const struct faults_options *o, const struct faults_result *r)
{
    printf("seed %" PRIu64 ", %u rounds: %u kills, %u pauses, %u stops, %u partitions; %u calls "
           "answered (%u reads), %u not; revision %" PRId64 ", %u watches; well again within "
           "%" PRIu64 " ms\n",
           o->seed, r->rounds, r->kills, r->pauses, r->stops, r->cuts, r->operations, r->reads,
           r->failed, r->revision, r->watches, r->settle_ms_max);
    if (r->problem[0])
        printf("PROBLEM: %s\nlook at %s\n", r->problem, o->dir);
    else if (is_unwanted)
        printf("interrupted\n");
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/cluster-faults.XXXXXX";
    struct faults_options o = {.program = "build/cleat",
                               .rounds = 10,
                               .partitions = 5,
                               .seed = 1,
                               .verbose = true,
                               .is_unwanted = &is_unwanted};
    struct faults_result result;

    if (!parse(argc, argv, &o))
        return usage();
    bool is_own = !o.dir;
    if (is_own)
        o.dir = mkdtemp(dir);
    if (!o.dir) {
        perror("cluster-faults: no directory");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    bool ok = faults_run(&o, &result);
    print(&o, &result);
    if (ok && is_own)
        nftw(o.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return ok && !is_unwanted ? 0 : 1;
}
