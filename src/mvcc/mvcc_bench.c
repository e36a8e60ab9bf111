/*
 * What revisions cost the core thread. The store is a real one, in CLEAT_BENCH_DIR (by default the
 * current folder), and its commits run on another thread meanwhile. CLEAT_BENCH_MVCC_KEYS says how
 * many keys of 64 bytes with values of 1 KiB there are: 50,000 unless told; the figures in
 * docs/performance.md are for 1,000,000, which takes three gigabytes and a minute or two.
 */
#include "backend/backend.h"
#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness/bench.h"
#include "io/clock.h"
#include "io/io.h"
#include "io/loop.h"
#include "mvcc/mvcc.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { KEY_BYTES = 64, VALUE_BYTES = 1024, SMALL_BYTES = 256, BATCH_ENTRIES = 10000 };
enum { PAGE = 500, NAMES = 500 };

struct shop {
    struct loop *loop;
    struct backend *b;
    struct mvcc *m;
    char dir[256];
    uint64_t keys, index, since_commit;
    struct rng rng;
    char names[NAMES][KEY_BYTES + 1];
    uint8_t value[VALUE_BYTES];
    size_t value_len;
};

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void)
{
    return now_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* --- the store ---------------------------------------------------------------------------- */

static void remove_dir(const struct shop *s)
{
    char command[300];

    snprintf(command, sizeof(command), "rm -rf '%s'", s->dir);
    if (system(command) != 0)
        fatal("cannot remove %s", s->dir);
}

static void open_backend(struct shop *s)
{
    enum err e = loop_open(&(struct loop_options){0}, &s->loop);

    if (e == ERR_OK)
        e = backend_open(&(struct backend_options){.disk = loop_io(s->loop)->disk,
                                                   .dir = s->dir,
                                                   .workers = loop_io(s->loop)->workers},
                         &s->b);
    if (e != ERR_OK)
        fatal("cannot open %s: %s", s->dir, err_text(e));
}

static void open_mvcc(struct shop *s)
{
    struct buf why = {0};

    if (mvcc_open(&(struct mvcc_options){.backend = s->b}, &why, &s->m) != ERR_OK)
        fatal("%s", buf_str(&why));
}

static void shop_open(struct shop *s)
{
    const char *parent = getenv("CLEAT_BENCH_DIR");
    const char *keys = getenv("CLEAT_BENCH_MVCC_KEYS");

    *s = (struct shop){.keys = keys ? strtoull(keys, NULL, 10) : 50000, .value_len = VALUE_BYTES};
    memset(s->value, 'v', sizeof(s->value));
    rng_seed(&s->rng, 1);
    snprintf(s->dir, sizeof(s->dir), "%s/mvcc_bench.tmp", parent ? parent : ".");
    remove_dir(s);
    open_backend(s);
    open_mvcc(s);
}

static void turn(void *context)
{
    const struct shop *s = context;

    inbox_drain(loop_io(s->loop)->inbox, SIZE_MAX);
}

static void wait_idle(struct shop *s)
{
    while (!backend_is_idle(s->b))
        loop_run_once(s->loop, turn, s);
}

static void commit_all(struct shop *s)
{
    wait_idle(s);
    if (!backend_can_commit(s->b))
        return;
    backend_commit_start(s->b);
    wait_idle(s);
}

static void close_shop(struct shop *s)
{
    commit_all(s);
    mvcc_close(s->m);
    backend_close(s->b);
    loop_close(s->loop);
}

/* What a server does now and then: hear of commits, start the next one, wait when it must. */
static void serve(struct shop *s)
{
    if (s->since_commit < BATCH_ENTRIES && !backend_is_full(s->b))
        return;
    if (backend_is_full(s->b))
        wait_idle(s);
    else
        turn(s);
    if (backend_can_commit(s->b)) {
        backend_commit_start(s->b);
        s->since_commit = 0;
    }
}

static void name_key(uint64_t i, char out[KEY_BYTES + 1])
{
    int len = snprintf(out, KEY_BYTES + 1, "/registry/pods/namespace-%05u/pod-%020llu",
                       (unsigned)(i % 97), (unsigned long long)i);

    memset(out + len, '.', (size_t)(KEY_BYTES - len));
}

static void put_key(struct shop *s, const char *name)
{
    struct mvcc_changes changes;

    backend_entry_begin(s->b);
    mvcc_write_begin(s->m);
    mvcc_put(s->m, bytes_of(name, KEY_BYTES), bytes_of(s->value, s->value_len), 0);
    mvcc_write_end(s->m, &changes);
    backend_entry_end(s->b, (struct backend_position){++s->index, 1}, (struct bytes){0});
    s->since_commit++;
}

/* The time for each of `count` puts of keys chosen by `next`, without naming them and serving. */
static double puts_ns(struct shop *s, uint64_t count, uint64_t (*next)(struct shop *s, uint64_t i))
{
    uint64_t spent = 0;

    for (uint64_t i = 0; i < count; i += NAMES) {
        uint64_t some = count - i < NAMES ? count - i : NAMES;
        for (uint64_t k = 0; k < some; k++)
            name_key(next(s, i + k), s->names[k]);
        uint64_t began = cpu_ns();
        for (uint64_t k = 0; k < some; k++)
            put_key(s, s->names[k]);
        spent += cpu_ns() - began;
        serve(s);
    }
    return (double)spent / (double)count;
}

/* Every number below keys once, in no order: the multiplier has no factor in common with it. */
static uint64_t scattered(struct shop *s, uint64_t i)
{
    return i * 7368787 % s->keys;
}

static uint64_t any_key(struct shop *s, uint64_t i)
{
    (void)i;
    return rng_below(&s->rng, s->keys);
}

/* --- memory ------------------------------------------------------------------------------- */

static uint64_t anonymous_bytes(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[128];
    unsigned long long kib = 0;

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "RssAnon: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

/* --- reading ------------------------------------------------------------------------------ */

static struct mvcc_question all_keys(const struct shop *s)
{
    return (struct mvcc_question){.key = BYTES("/registry/"),
                                  .end = BYTES("/registry0"),
                                  .at = revision_whole(mvcc_revision(s->m)),
                                  .tag = 0x12};
}

static void count_body(void *context, uint64_t times)
{
    struct shop *s = context;

    for (uint64_t i = 0; i < times; i++) {
        struct mvcc_scan scan = {.question = all_keys(s)};
        scan.question.count_only = true;
        mvcc_scan_open(s->m, &scan);
        bool done = mvcc_scan_measure(&scan, 1);
        assert(done);
        assert(scan.count == (int64_t)s->keys);
        mvcc_scan_close(&scan);
    }
}

static void read_whole(struct shop *s, struct mvcc_scan *scan, struct buf *out)
{
    buf_clear(out);
    mvcc_scan_open(s->m, scan);
    while (!mvcc_scan_measure(scan, MVCC_SLICE_STEPS))
        ;
    while (!mvcc_scan_read(scan, 64 * KIB, MVCC_SLICE_STEPS, out))
        ;
    mvcc_scan_close(scan);
}

static void page_body(void *context, uint64_t times)
{
    struct shop *s = context;
    struct buf out = {0};

    for (uint64_t i = 0; i < times; i++) {
        struct mvcc_scan scan = {.question = all_keys(s)};
        scan.question.limit = PAGE;
        read_whole(s, &scan, &out);
    }
    buf_free(&out);
}

/* Of the same few hundred keys: what it costs when the caches know them. */
static void get_body(void *context, uint64_t times)
{
    struct shop *s = context;
    struct buf out = {0};

    for (uint64_t i = 0; i < times; i++) {
        struct mvcc_scan scan = {.question = {.key = bytes_of(s->names[i % NAMES], KEY_BYTES),
                                              .at = revision_whole(mvcc_revision(s->m)),
                                              .tag = 0x12}};
        read_whole(s, &scan, &out);
    }
    buf_free(&out);
}

/* --- slices ------------------------------------------------------------------------------- */

struct slices {
    uint64_t longest_cpu, longest_wall, over_2ms, count, cpu;
    uint64_t from_cpu, from_wall;
};

static void slice_begin(struct slices *l)
{
    l->from_wall = now_ns(CLOCK_MONOTONIC);
    l->from_cpu = cpu_ns();
}

static void slice_end(struct slices *l)
{
    uint64_t cpu = cpu_ns() - l->from_cpu, wall = now_ns(CLOCK_MONOTONIC) - l->from_wall;

    l->longest_cpu = cpu > l->longest_cpu ? cpu : l->longest_cpu;
    l->longest_wall = wall > l->longest_wall ? wall : l->longest_wall;
    l->over_2ms += cpu > 2 * NS_PER_MS;
    l->cpu += cpu;
    l->count++;
}

static void slices_report(const struct slices *l, const char *name)
{
    char text[64];

    snprintf(text, sizeof(text), "%s_longest_slice", name);
    bench_report(text, (double)l->longest_cpu / 1e3, "us cpu");
    snprintf(text, sizeof(text), "%s_longest_slice_wall", name);
    bench_report(text, (double)l->longest_wall / 1e3, "us");
    snprintf(text, sizeof(text), "%s_slices", name);
    bench_report(text, (double)l->count, "slices");
    snprintf(text, sizeof(text), "%s_slices_over_2ms", name);
    bench_report(text, (double)l->over_2ms, "slices");
    snprintf(text, sizeof(text), "%s_total", name);
    bench_report(text, (double)l->cpu / 1e6, "ms cpu");
}

static void sort_all(struct shop *s, const char *name, int32_t target)
{
    struct slices l = {0};
    struct mvcc_scan scan = {.question = all_keys(s)};
    bool done = false;

    scan.question.sort_target = target;
    scan.question.sort_order = PB_SORT_DESCEND;
    mvcc_scan_open(s->m, &scan);
    while (!done) {
        slice_begin(&l);
        done = mvcc_scan_measure(&scan, MVCC_SLICE_STEPS);
        slice_end(&l);
    }
    mvcc_scan_close(&scan);
    slices_report(&l, name);
}

/* The puts that directly follow a slice, and as many that do not: on a busy machine only what is
 * measured side by side can be compared. */
static void compact_while_writing(struct shop *s)
{
    struct slices l = {0};
    double after = 0, apart = 0;
    uint64_t rounds = 0;

    backend_entry_begin(s->b);
    enum mvcc_result a = mvcc_compact(s->m, mvcc_revision(s->m));
    assert(a == MVCC_OK);
    backend_entry_end(s->b, (struct backend_position){++s->index, 1}, (struct bytes){0});
    commit_all(s);
    while (mvcc_compact_pending(s->m)) {
        slice_begin(&l);
        mvcc_compact_some(s->m, MVCC_SLICE_STEPS);
        slice_end(&l);
        s->since_commit += MVCC_SLICE_STEPS / 2;
        after += puts_ns(s, NAMES, any_key);
        apart += puts_ns(s, NAMES, any_key);
        rounds++;
    }
    slices_report(&l, "compact");
    bench_report("compact_put_after_slice", after / (double)rounds, "ns cpu");
    bench_report("compact_put_apart", apart / (double)rounds, "ns cpu");
}

static void delete_all(struct shop *s)
{
    struct slices l = {0};
    struct mvcc_delete_range d = {.range = key_range(BYTES("/registry/"), BYTES("/registry0"))};
    struct mvcc_changes changes;
    bool done = false;

    backend_entry_begin(s->b);
    mvcc_write_begin(s->m);
    mvcc_delete_range_begin(s->m, &d);
    while (!done) {
        slice_begin(&l);
        done = mvcc_delete_range_some(s->m, &d, MVCC_SLICE_STEPS);
        slice_end(&l);
    }
    slice_begin(&l);
    mvcc_write_end(s->m, &changes);
    slice_end(&l);
    assert(changes.count == s->keys);
    backend_entry_end(s->b, (struct backend_position){++s->index, 1}, (struct bytes){0});
    slices_report(&l, "delete");
}

/* --- all of it ---------------------------------------------------------------------------- */

static void boot(struct shop *s)
{
    close_shop(s);
    malloc_trim(0);
    uint64_t before = anonymous_bytes();
    open_backend(s);
    uint64_t began = now_ns(CLOCK_MONOTONIC);
    open_mvcc(s);
    bench_report("boot", (double)(now_ns(CLOCK_MONOTONIC) - began) / 1e6, "ms");
    bench_report("boot_anonymous", (double)(anonymous_bytes() - before) / (double)MIB, "MiB");
    bench_report("index", (double)mvcc_status(s->m).index_bytes / (double)s->keys, "bytes per key");
}

BENCH(mvcc)
{
    struct shop s;

    shop_open(&s);
    bench_report("put_new", puts_ns(&s, s.keys, scattered), "ns cpu");
    boot(&s);
    bench_report("put_existing", puts_ns(&s, s.keys, any_key), "ns cpu");
    s.value_len = SMALL_BYTES;
    bench_report("put_existing_256", puts_ns(&s, s.keys, any_key), "ns cpu");
    bench_run(&(struct bench_work){.suffix = "count", .body = count_body, .context = &s});
    bench_run(&(struct bench_work){.suffix = "page_500", .body = page_body, .context = &s});
    bench_run(&(struct bench_work){.suffix = "get", .body = get_body, .context = &s});
    sort_all(&s, "sort_by_mod", PB_SORT_BY_MOD);
    compact_while_writing(&s);
    delete_all(&s);
    close_shop(&s);
    remove_dir(&s);
}
