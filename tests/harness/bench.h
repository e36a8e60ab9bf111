/*
 * bench: how much one small thing costs.
 *
 * BENCH registers a function before main. It runs its work under bench_run, which repeats the body
 * until the time is worth reading and prints one line, or with --json one JSON object, per figure:
 * name, value, unit. Instructions are counted too where the machine has counters: on a shared box
 * they are the figure to compare.
 *
 *     static void body(void *context, uint64_t times)
 *     {
 *         for (uint64_t i = 0; i < times; i++)
 *             ...
 *     }
 *
 *     BENCH(crc32c_4k)
 *     {
 *         bench_run(&(struct bench_work){.body = body, .context = block, .bytes_each = 4096});
 *     }
 */
#pragma once

#include <stdint.h>

struct bench {
    const char *name;
    void (*run)(void);
    struct bench *next;
};

void bench_register(struct bench *b);

#define BENCH(bench_name)                                                                          \
    static void bench_name(void);                                                                  \
    static struct bench bench_name##_bench = {.name = #bench_name, .run = bench_name};             \
    __attribute__((constructor)) static void bench_name##_register(void)                           \
    {                                                                                              \
        bench_register(&bench_name##_bench);                                                       \
    }                                                                                              \
    static void bench_name(void)

struct bench_work {
    const char *suffix;                          /* NULL, or added to the name: "crc32c_4k_soft" */
    void (*body)(void *context, uint64_t times); /* does the thing `times` times */
    void *context;
    uint64_t bytes_each; /* bytes handled each time; 0 leaves out the GB/s figure */
};

/* Times the body and reports ns (CPU of this thread), instructions and GB/s for each time. */
void bench_run(const struct bench_work *work);

/* Reports a figure of the benchmark's own making. */
void bench_report(const char *suffix, double value, const char *unit);
