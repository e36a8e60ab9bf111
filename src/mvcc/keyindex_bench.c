/*
 * What the key index costs with a million keys of 64 bytes, in time and in memory, and with a
 * million revisions of one key. Keys come in random order unless it says otherwise.
 */
#include "mvcc/keyindex.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness/bench.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 1000000, KEY_BYTES = 64, SLICE_STEPS = 2000 };

/* One of a million. */
static double each(double total)
{
    return total / (double)KEYS;
}

struct million {
    struct keyindex *ix;
    struct rng rng;
    int64_t main;
    bool ascending;
    char key[KEY_BYTES];
};

static double now_s(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The i-th key: a number in hexadecimal, scattered over all numbers unless in ascending order. */
static struct bytes nth_key(struct million *m, uint64_t i)
{
    uint64_t number = m->ascending ? i : i * 0x9e3779b97f4a7c15;

    for (unsigned digit = 0; digit < 16; digit++)
        m->key[24 + digit] = "0123456789abcdef"[number >> (60 - 4 * digit) & 15];
    return bytes_of(m->key, KEY_BYTES);
}

static void million_init(struct million *m, bool ascending)
{
    *m = (struct million){.ascending = ascending, .main = 1};
    memset(m->key, 'x', sizeof(m->key));
    memcpy(m->key, "/registry/pods/default/p-", 24);
    rng_seed(&m->rng, 1);
    m->ix = keyindex_new();
}

static void fill(struct million *m)
{
    for (uint64_t i = 0; i < KEYS; i++) {
        m->main++;
        bool loaded =
            keyindex_load_put(m->ix, nth_key(m, i), (struct revision){m->main, 0}, m->main, 1, 300);
        assert(loaded);
    }
}

static struct bytes any_key(struct million *m)
{
    return nth_key(m, rng_below(&m->rng, KEYS));
}

/* --- memory ------------------------------------------------------------------------------- */

/* What earlier benchmarks have left in the heap does not count. */
static size_t resident_bytes(void)
{
    size_t pages = 0;

    malloc_trim(0);
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%*u %zu", &pages) != 1)
        fatal("cannot read /proc/self/statm");
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void report_memory(const char *order, const char *how, size_t bytes)
{
    char name[64];

    snprintf(name, sizeof(name), "%s_%s", order, how);
    bench_report(name, each((double)bytes) - (double)KEY_BYTES, "bytes/key beside the key");
}

static void measure_memory(bool ascending)
{
    const char *order = ascending ? "ascending" : "random";
    struct million m;
    char name[64];
    size_t resident = resident_bytes();

    million_init(&m, ascending);
    double began = now_s(CLOCK_THREAD_CPUTIME_ID);
    fill(&m);
    snprintf(name, sizeof(name), "%s_load", order);
    bench_report(name, now_s(CLOCK_THREAD_CPUTIME_ID) - began, "s/1M keys");
    report_memory(order, "own_account", keyindex_bytes(m.ix));
    report_memory(order, "resident", resident_bytes() - resident);
    keyindex_free(m.ix);
}

BENCH(keyindex_memory)
{
    measure_memory(false);
    measure_memory(true);
}

/* --- one key at a time -------------------------------------------------------------------- */

/* The cost of naming a key, to be taken off the others. */
static void name_body(void *context, uint64_t times)
{
    struct million *m = context;
    uint64_t total = 0;

    for (uint64_t i = 0; i < times; i++)
        total += any_key(m).at[30];
    assert(total > 0);
}

static void find_body(void *context, uint64_t times)
{
    struct million *m = context;
    struct keyindex_found found;

    for (uint64_t i = 0; i < times; i++)
        if (!keyindex_find(m->ix, any_key(m), revision_whole(m->main), &found))
            fatal("a key is gone");
}

static void overwrite_body(void *context, uint64_t times)
{
    struct million *m = context;

    for (uint64_t i = 0; i < times; i++) {
        keyindex_put(m->ix, any_key(m), (struct revision){++m->main, 0}, 300);
        keyindex_publish(m->ix);
    }
}

static void store_put_body(void *context, uint64_t times)
{
    struct million *m = context;
    struct keyindex_found found;

    for (uint64_t i = 0; i < times; i++) {
        struct bytes key = any_key(m);
        if (!keyindex_find_newest(m->ix, key, &found))
            fatal("a key is gone");
        keyindex_put(m->ix, key, (struct revision){++m->main, 0}, 300);
        keyindex_publish(m->ix);
    }
}

static void count_body(void *context, uint64_t times)
{
    struct million *m = context;
    struct key_range r = key_range(BYTES("/registry/pods/"), BYTES("/registry/pods0"));

    for (uint64_t i = 0; i < times; i++)
        if (keyindex_count(m->ix, &r, i & 1) != KEYS)
            fatal("a key is not counted");
}

static void walk_body(void *context, uint64_t times)
{
    struct million *m = context;
    struct key_range r = key_range(BYTES(""), bytes_of("", 1));

    while (times > 0) {
        struct keyindex_cursor c;
        struct keyindex_found found;
        keyindex_cursor_open(m->ix, &r, revision_whole(m->main), false, &c);
        for (unsigned steps = SLICE_STEPS; times > 0; times--, steps = SLICE_STEPS)
            if (!keyindex_cursor_next(&c, &steps, &found))
                break;
        keyindex_cursor_close(&c);
    }
}

/* Every put is that of a new key. */
static void report_inserts(void)
{
    struct million m;

    million_init(&m, false);
    double began = now_s(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t i = 0; i < KEYS; i++) {
        keyindex_put(m.ix, nth_key(&m, i), (struct revision){++m.main, 0}, 300);
        keyindex_publish(m.ix);
    }
    bench_report("insert", each((now_s(CLOCK_THREAD_CPUTIME_ID) - began) * 1e9), "ns");
    keyindex_free(m.ix);
}

/* Each key once, in another random order than they came in. */
static void report_first_overwrites(struct million *m)
{
    size_t bytes = keyindex_bytes(m->ix);
    uint32_t i = 1;
    double began = now_s(CLOCK_THREAD_CPUTIME_ID);

    do { /* all numbers below 2^20, of which those below KEYS count */
        i = (i * 1664525 + 1013904223) % (1 << 20);
        if (i >= KEYS)
            continue;
        keyindex_put(m->ix, nth_key(m, i), (struct revision){++m->main, 0}, 300);
        keyindex_publish(m->ix);
    } while (i != 1);
    bench_report("overwrite_once", each((now_s(CLOCK_THREAD_CPUTIME_ID) - began) * 1e9), "ns");
    bench_report("second_revision", each((double)(keyindex_bytes(m->ix) - bytes)), "bytes/key");
}

BENCH(keyindex_key)
{
    struct million m;

    report_inserts();
    million_init(&m, false);
    fill(&m);
    bench_run(&(struct bench_work){.suffix = "name", .body = name_body, .context = &m});
    bench_run(&(struct bench_work){.suffix = "find", .body = find_body, .context = &m});
    bench_run(&(struct bench_work){.suffix = "count_million", .body = count_body, .context = &m});
    bench_run(&(struct bench_work){.suffix = "walk", .body = walk_body, .context = &m});
    report_first_overwrites(&m);
    bench_run(&(struct bench_work){.suffix = "overwrite", .body = overwrite_body, .context = &m});
    bench_run(&(struct bench_work){
        .suffix = "find_and_overwrite", .body = store_put_body, .context = &m});
    keyindex_free(m.ix);
}

/* --- compacting --------------------------------------------------------------------------- */

static void count_drop(void *context, struct revision at, bool tombstone)
{
    (void)at;
    (void)tombstone;
    ++*(uint64_t *)context;
}

static void compact(struct million *m, const char *what, int64_t main)
{
    struct keyindex_compaction c = {0};
    uint64_t dropped = 0;
    double longest = 0;
    double total = 0;
    char name[64];

    for (bool done = false; !done;) {
        double began = now_s(CLOCK_THREAD_CPUTIME_ID);
        done = keyindex_compact_some(m->ix, &c, main, SLICE_STEPS, count_drop, &dropped);
        double took = now_s(CLOCK_THREAD_CPUTIME_ID) - began;
        longest = took > longest ? took : longest;
        total += took;
    }
    keyindex_compaction_end(&c);
    snprintf(name, sizeof(name), "%s_longest_slice", what);
    bench_report(name, longest * 1e6, "us");
    snprintf(name, sizeof(name), "%s_each_revision", what);
    bench_report(name, total * 1e9 / (double)dropped, "ns");
}

BENCH(keyindex_compact)
{
    struct million m;

    size_t resident = resident_bytes();
    million_init(&m, false);
    fill(&m);
    overwrite_body(&m, KEYS);
    compact(&m, "overwritten", m.main);
    for (uint64_t i = 0; i < KEYS; i++)
        keyindex_tombstone(m.ix, nth_key(&m, i), (struct revision){++m.main, 0}, 80);
    keyindex_publish(m.ix);
    compact(&m, "deleted", m.main + 1);
    bench_report("deleted_left", (double)keyindex_bytes(m.ix), "bytes");
    bench_report("deleted_left_resident", (double)(resident_bytes() - resident), "bytes");
    keyindex_free(m.ix);
}

/* --- one key, a million times ------------------------------------------------------------- */

static void find_old_body(void *context, uint64_t times)
{
    struct million *m = context;
    struct keyindex_found found;

    for (uint64_t i = 0; i < times; i++) {
        int64_t at = (int64_t)rng_between(&m->rng, 2, (uint64_t)m->main);
        if (!keyindex_find(m->ix, nth_key(m, 7), revision_whole(at), &found))
            fatal("a revision is gone");
    }
}

BENCH(keyindex_history)
{
    struct million m;
    double longest = 0;
    double total = 0;

    million_init(&m, false);
    for (uint64_t i = 0; i < KEYS; i++) {
        double began = now_s(CLOCK_THREAD_CPUTIME_ID);
        keyindex_put(m.ix, nth_key(&m, 7), (struct revision){++m.main, 0}, 300);
        double took = now_s(CLOCK_THREAD_CPUTIME_ID) - began;
        longest = took > longest ? took : longest;
        total += took;
    }
    keyindex_publish(m.ix);
    bench_report("append_with_clock", each(total * 1e9), "ns");
    bench_report("append_longest", longest * 1e6, "us");
    bench_report("revision", each((double)keyindex_bytes(m.ix)), "bytes");
    bench_run(&(struct bench_work){.suffix = "find", .body = find_old_body, .context = &m});
    compact(&m, "compact", m.main);
    keyindex_free(m.ix);
}
