/*
 * cleat-bench: figures for the small things.
 *
 *     cleat-bench micro [--json] [SUBSTRING...]
 */
#include "harness/bench.h"

#include "base/mem.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TARGET_NS = 200000000, WARM_UP_NS = 20000000 };

struct reading {
    uint64_t ns;
    uint64_t instructions;
};

static struct bench *benches;
static const struct bench *current;
static bool as_json;
static int counter = -1; /* a perf event descriptor, or -1 where the machine has none */

void bench_register(struct bench *b)
{
    b->next = benches;
    benches = b;
}

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void counter_open(void)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_HW_INSTRUCTIONS,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };

    counter = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static uint64_t counter_read(void)
{
    uint64_t value;

    if (counter < 0 || read(counter, &value, sizeof(value)) != sizeof(value))
        return 0;
    return value;
}

static struct reading measure(const struct bench_work *work, uint64_t times)
{
    uint64_t instructions = counter_read();
    uint64_t ns = cpu_ns();

    work->body(work->context, times);
    return (struct reading){.ns = cpu_ns() - ns, .instructions = counter_read() - instructions};
}

void bench_report(const char *suffix, double value, const char *unit)
{
    const char *joint = suffix && *suffix ? "_" : "";

    suffix = suffix ? suffix : "";
    if (as_json)
        printf("{\"name\":\"%s%s%s\",\"value\":%.4g,\"unit\":\"%s\"}\n", current->name, joint,
               suffix, value, unit);
    else
        printf("%s%s%-24s %12.4g %s\n", current->name, joint, suffix, value, unit);
    fflush(stdout);
}

void bench_run(const struct bench_work *work)
{
    uint64_t times = 1;
    struct reading r = measure(work, times);

    while (r.ns < WARM_UP_NS) {
        times *= r.ns < WARM_UP_NS / 10 ? 10 : 2;
        r = measure(work, times);
    }
    times = times * TARGET_NS / r.ns + 1;
    r = measure(work, times);
    bench_report(work->suffix, (double)r.ns / (double)times, "ns");
    if (counter >= 0)
        bench_report(work->suffix, (double)r.instructions / (double)times, "instructions");
    if (work->bytes_each)
        bench_report(work->suffix, (double)(work->bytes_each * times) / (double)r.ns, "GB/s");
}

static bool wanted(const struct bench *b, char **patterns, int count)
{
    if (count == 0)
        return true;
    for (int i = 0; i < count; i++)
        if (strstr(b->name, patterns[i]))
            return true;
    return false;
}

/* Results go to standard output; which benchmark runs, and how many are left, to standard error. */
static int run_micro(char **patterns, int count)
{
    unsigned ran = 0, all = 0;

    for (const struct bench *b = benches; b; b = b->next)
        all += wanted(b, patterns, count);
    counter_open();
    if (counter < 0)
        fprintf(stderr, "no instruction counter on this machine: times only\n");
    for (const struct bench *b = benches; b; b = b->next) {
        if (!wanted(b, patterns, count))
            continue;
        current = b;
        fprintf(stderr, "[%u/%u] %s\n", ++ran, all, b->name);
        b->run();
    }
    if (all == 0)
        fprintf(stderr, "cleat-bench: no benchmark has a name like that\n");
    return ran > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    int kept = 0;

    if (argc < 2 || strcmp(argv[1], "micro") != 0) {
        fprintf(stderr, "usage: cleat-bench micro [--json] [SUBSTRING...]\n");
        return 2;
    }
    mem_tune();
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            as_json = true;
        else
            argv[2 + kept++] = argv[i];
    }
    return run_micro(argv + 2, kept);
}
