/*
 * What the page store costs the core thread, and what the backend thread. The folder is made in
 * CLEAT_BENCH_DIR, by default the current one: it must be on a real disk. The defragmentation of a
 * large store takes a minute and runs only with CLEAT_BENCH_DEFRAG_MIB=1024 in the environment.
 *
 * Its figures tell apart what the core thread waits for. A processor that somebody else has is the
 * machine's business. What remains is the lock on the address space: malloc wants it to grow the
 * heap while the backend thread, which may be put aside just then, unmaps the old file. A process
 * that has called mem_tune, as this one has, hardly ever asks.
 */
#include "backend/backend.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness/bench.h"
#include "io/clock.h"
#include "io/io.h"
#include "io/loop.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { VALUE_BYTES = 256, BATCH_PUTS = 10000, STORED = 500000 };

struct bench_store {
    struct loop *loop;
    struct backend *b;
    char dir[256];
    uint64_t revision; /* last written */
    uint8_t key[17];
    uint8_t value[VALUE_BYTES];
};

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void remove_dir(const struct bench_store *s)
{
    char command[300];

    snprintf(command, sizeof(command), "rm -rf '%s'", s->dir);
    if (system(command) != 0)
        fatal("cannot remove %s", s->dir);
}

static void store_open(struct bench_store *s)
{
    const char *parent = getenv("CLEAT_BENCH_DIR");

    *s = (struct bench_store){.revision = 1};
    s->key[8] = '_';
    memset(s->value, 'v', sizeof(s->value));
    snprintf(s->dir, sizeof(s->dir), "%s/backend_bench.tmp", parent ? parent : ".");
    remove_dir(s);
    enum err e = loop_open(&(struct loop_options){0}, &s->loop);
    if (e == ERR_OK)
        e = backend_open(&(struct backend_options){.disk = loop_io(s->loop)->disk,
                                                   .dir = s->dir,
                                                   .workers = loop_io(s->loop)->workers},
                         &s->b);
    if (e != ERR_OK)
        fatal("cannot open %s: %s", s->dir, err_text(e));
}

static void turn(void *context)
{
    const struct bench_store *s = context;

    inbox_drain(loop_io(s->loop)->inbox, SIZE_MAX);
}

static void wait_idle(struct bench_store *s)
{
    while (!backend_is_idle(s->b))
        loop_run_once(s->loop, turn, s);
}

static void store_close(struct bench_store *s)
{
    wait_idle(s);
    backend_close(s->b);
    loop_close(s->loop);
    remove_dir(s);
}

static struct bytes revision_key(struct bench_store *s, uint64_t revision)
{
    uint64_t main = __builtin_bswap64(revision);

    memcpy(s->key, &main, sizeof(main));
    return bytes_of(s->key, sizeof(s->key));
}

static void put_next(struct bench_store *s)
{
    backend_put(s->b, BUCKET_KEY, revision_key(s, ++s->revision), bytes_of(s->value, VALUE_BYTES));
}

static void put_entry(struct bench_store *s)
{
    backend_entry_begin(s->b);
    put_next(s);
    backend_entry_end(s->b, (struct backend_position){s->revision, 1}, (struct bytes){0});
}

static void commit_now(struct bench_store *s)
{
    if (backend_commit_now(s->b) != ERR_OK)
        fatal("%s", backend_failure(s->b));
}

static void fill(struct bench_store *s, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++) {
        put_entry(s);
        if (i % (8 * (uint64_t)BATCH_PUTS) == 0 || i == count)
            commit_now(s);
    }
}

/* --- the core thread's part: the pages are written by another thread meanwhile ------------ */

static void puts_body(void *context, uint64_t times)
{
    struct bench_store *s = context;

    for (uint64_t i = 1; i <= times; i++) {
        put_next(s);
        if (i % BATCH_PUTS == 0) {
            wait_idle(s);
            backend_commit_start(s->b);
        }
    }
}

static void entries_body(void *context, uint64_t times)
{
    struct bench_store *s = context;

    for (uint64_t i = 1; i <= times; i++) {
        put_entry(s);
        if (i % BATCH_PUTS == 0) {
            wait_idle(s);
            backend_commit_start(s->b);
        }
    }
}

static void random_puts_body(void *context, uint64_t times)
{
    struct bench_store *s = context;
    struct rng rng;

    rng_seed(&rng, 1);
    for (uint64_t i = 1; i <= times; i++) {
        backend_put(s->b, BUCKET_LEASE, revision_key(s, rng_below(&rng, 1000000)),
                    bytes_of(s->value, 16));
        if (i % BATCH_PUTS == 0) {
            wait_idle(s);
            backend_commit_start(s->b);
        }
    }
}

BENCH(backend_write)
{
    struct bench_store s;

    store_open(&s);
    bench_run(&(struct bench_work){.body = puts_body, .context = &s});
    bench_run(&(struct bench_work){.suffix = "entry", .body = entries_body, .context = &s});
    bench_run(&(struct bench_work){.suffix = "random", .body = random_puts_body, .context = &s});
    store_close(&s);
}

/* --- the backend thread's part ------------------------------------------------------------ */

BENCH(backend_commit)
{
    enum { ROUNDS = 40 };
    struct bench_store s;
    uint64_t cpu = 0, wall = 0;

    store_open(&s);
    fill(&s, 10 * BATCH_PUTS);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BATCH_PUTS; i++)
            put_entry(&s);
        uint64_t cpu_before = now_ns(CLOCK_THREAD_CPUTIME_ID);
        uint64_t wall_before = now_ns(CLOCK_MONOTONIC);
        commit_now(&s);
        cpu += now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
        wall += now_ns(CLOCK_MONOTONIC) - wall_before;
    }
    bench_report("share", (double)cpu / (double)(ROUNDS * BATCH_PUTS), "ns CPU/put");
    bench_report("wall", (double)wall / (double)ROUNDS / 1e6, "ms/10k puts");
    store_close(&s);
}

/* --- looking ------------------------------------------------------------------------------ */

static void views_body(void *context, uint64_t times)
{
    struct bench_store *s = context;

    for (uint64_t i = 0; i < times; i++) {
        struct backend_view v;
        backend_view_open(s->b, &v);
        backend_view_close(&v);
    }
}

struct look {
    struct bench_store *s;
    uint64_t low, high;
};

static void get_body(void *context, uint64_t times)
{
    struct look *l = context;
    struct backend_view v;
    struct rng rng;

    rng_seed(&rng, 1);
    backend_view_open(l->s->b, &v);
    for (uint64_t i = 0; i < times; i++) {
        struct bytes value;
        uint64_t revision = rng_between(&rng, l->low, l->high);
        if (backend_get(&v, BUCKET_KEY, revision_key(l->s, revision), &value) != ERR_OK)
            fatal("revision %llu is not there", (unsigned long long)revision);
    }
    backend_view_close(&v);
}

static void scan_body(void *context, uint64_t times)
{
    struct bench_store *s = context;

    while (times > 0) {
        struct backend_view v;
        struct backend_cursor c;
        struct bytes key, value;
        backend_view_open(s->b, &v);
        backend_cursor_open(&v, BUCKET_KEY, (struct bytes){0}, &c);
        while (times > 0 && backend_cursor_next(&c, &key, &value) == ERR_OK)
            times--;
        backend_cursor_close(&c);
        backend_view_close(&v);
    }
}

BENCH(backend_look)
{
    struct bench_store s;

    store_open(&s);
    fill(&s, STORED);
    uint64_t stored = s.revision;
    for (int i = 0; i < BATCH_PUTS; i++)
        put_entry(&s);
    struct look pages = {&s, 2, stored}, batch = {&s, stored + 1, s.revision};
    bench_run(&(struct bench_work){.suffix = "view", .body = views_body, .context = &s});
    bench_run(&(struct bench_work){.suffix = "get_pages", .body = get_body, .context = &pages});
    bench_run(&(struct bench_work){.suffix = "get_batch", .body = get_body, .context = &batch});
    bench_run(&(struct bench_work){.suffix = "scan", .body = scan_body, .context = &s});
    store_close(&s);
}

/* --- defragmentation under load ----------------------------------------------------------- */

struct load {
    struct bench_store s;
    struct rng rng;
    struct backend_defrag defrag;
    bool done;
    uint64_t low; /* revisions below are deleted but for one in three */
    /* Of any call the core thread made: by the clock; on the processor; and blocked, which is
     * neither running nor waiting for a processor that others have. */
    uint64_t longest_ns, longest_cpu_ns, longest_blocked_ns;
    uint64_t slow, blocked;                /* calls above 2 ms, by the clock and blocked */
    const char *blocked_in;                /* where it was longest */
    int schedstat;                         /* the kernel's account of this thread */
    uint64_t commit_ns, longest_commit_ns; /* from start to report */
    uint64_t turns, commits;
};

struct stopwatch {
    uint64_t wall, cpu, delayed;
};

/* How long this thread was ready to run and did not get a processor. */
static uint64_t delayed_ns(const struct load *l)
{
    char text[96];
    ssize_t len = pread(l->schedstat, text, sizeof(text) - 1, 0);

    if (len <= 0)
        return 0;
    text[len] = '\0';
    char *second = strchr(text, ' ');
    return second ? strtoull(second, NULL, 10) : 0;
}

static struct stopwatch start_watch(const struct load *l)
{
    uint64_t delayed = delayed_ns(l);

    return (struct stopwatch){now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_THREAD_CPUTIME_ID), delayed};
}

static void note(struct load *l, const char *call, struct stopwatch from)
{
    uint64_t wall = now_ns(CLOCK_MONOTONIC) - from.wall;
    uint64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - from.cpu;
    uint64_t known = cpu + delayed_ns(l) - from.delayed;
    uint64_t blocked = wall > known ? wall - known : 0;

    l->longest_ns = wall > l->longest_ns ? wall : l->longest_ns;
    l->longest_cpu_ns = cpu > l->longest_cpu_ns ? cpu : l->longest_cpu_ns;
    if (blocked > l->longest_blocked_ns) {
        l->longest_blocked_ns = blocked;
        l->blocked_in = call;
    }
    l->slow += wall > 2 * NS_PER_MS;
    l->blocked += blocked > 2 * NS_PER_MS;
}

static void look_around(struct load *l)
{
    struct backend_view v;

    struct stopwatch from = start_watch(l);
    backend_view_open(l->s.b, &v);
    note(l, "view_open", from);
    for (int i = 0; i < 20; i++) {
        struct bytes value;
        struct bytes key = revision_key(&l->s, rng_between(&l->rng, l->low, l->s.revision));
        from = start_watch(l);
        if (backend_get(&v, BUCKET_KEY, key, &value) != ERR_OK)
            fatal("a revision is gone");
        note(l, "get", from);
    }
    from = start_watch(l);
    backend_view_close(&v);
    note(l, "view_close", from);
}

static void commit_at_times(struct load *l)
{
    uint64_t now = now_ns(CLOCK_MONOTONIC);

    if (!backend_can_commit(l->s.b) || now - l->commit_ns < 100 * NS_PER_MS)
        return;
    l->commit_ns = now;
    struct stopwatch from = start_watch(l);
    backend_commit_start(l->s.b);
    note(l, "commit_start", from);
    l->commits++;
}

/* One turn of a busy member: 30 puts and 20 gets about every millisecond, and the inbox. */
static void load_turn(struct load *l)
{
    bool committing = backend_is_committing(l->s.b);

    struct stopwatch from = start_watch(l);
    inbox_drain(loop_io(l->s.loop)->inbox, SIZE_MAX);
    note(l, "inbox", from);
    if (committing && !backend_is_committing(l->s.b)) {
        uint64_t took = now_ns(CLOCK_MONOTONIC) - l->commit_ns;
        l->longest_commit_ns = took > l->longest_commit_ns ? took : l->longest_commit_ns;
    }
    for (int i = 0; i < 30; i++) {
        from = start_watch(l);
        put_entry(&l->s);
        note(l, "put", from);
    }
    look_around(l);
    commit_at_times(l);
    l->turns++;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void report_as(const char *phase, const char *what, double value, const char *unit)
{
    char name[64];

    snprintf(name, sizeof(name), "%s_%s", phase, what);
    bench_report(name, value, unit);
}

static void report_load(struct load *l, const char *phase)
{
    report_as(phase, "core_longest_wall", (double)l->longest_ns / 1e3, "us");
    report_as(phase, "core_longest_cpu", (double)l->longest_cpu_ns / 1e3, "us");
    char unit[32];
    snprintf(unit, sizeof(unit), "us in %s", l->blocked_in);
    report_as(phase, "core_longest_blocked", (double)l->longest_blocked_ns / 1e3, unit);
    report_as(phase, "core_over_2ms_wall", (double)l->slow, "calls");
    report_as(phase, "core_over_2ms_blocked", (double)l->blocked, "calls");
    report_as(phase, "turns", (double)l->turns, "turns");
    report_as(phase, "commit_longest", (double)l->longest_commit_ns / 1e6, "ms");
    l->longest_ns = l->longest_cpu_ns = l->longest_blocked_ns = l->longest_commit_ns = 0;
    l->slow = l->blocked = l->turns = 0;
}

static void defrag_done(struct backend_defrag *d, enum err e)
{
    if (e != ERR_OK)
        fatal("defragmentation: %s", err_text(e));
    container_of(d, struct load, defrag)->done = true;
}

/* Two of three in the lower half are deleted, as a compaction does. */
static void make_holes(struct load *l)
{
    uint64_t half = l->s.revision / 2;

    for (uint64_t i = 2; i < half; i++) {
        if (i % 3 != 0)
            backend_delete(l->s.b, BUCKET_KEY, revision_key(&l->s, i));
        if (i % (20 * (uint64_t)BATCH_PUTS) == 0)
            commit_now(&l->s);
    }
    commit_now(&l->s);
    l->low = half;
}

BENCH(backend_defrag)
{
    const char *mib = getenv("CLEAT_BENCH_DEFRAG_MIB");
    struct load l = {.defrag.on_done = defrag_done};

    if (!mib)
        return;
    rng_seed(&l.rng, 1);
    l.schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    store_open(&l.s);
    while (backend_sizes(l.s.b).file_bytes < strtoull(mib, NULL, 10) * MIB)
        fill(&l.s, 8 * BATCH_PUTS);
    make_holes(&l);

    uint64_t began = now_ns(CLOCK_MONOTONIC);
    while (now_ns(CLOCK_MONOTONIC) - began < 5 * NS_PER_S)
        load_turn(&l);
    report_load(&l, "before");

    began = now_ns(CLOCK_MONOTONIC);
    bool started = backend_defrag_start(l.s.b, &l.defrag);
    assert(started);
    while (!l.done)
        load_turn(&l);
    uint64_t took = now_ns(CLOCK_MONOTONIC) - began;
    report_load(&l, "during");
    bench_report("wall", (double)took / 1e9, "s");
    bench_report("file_before", (double)l.defrag.before.file_bytes / (double)MIB, "MiB");
    bench_report("used_before", (double)l.defrag.before.used_bytes / (double)MIB, "MiB");
    bench_report("file_after", (double)l.defrag.after.file_bytes / (double)MIB, "MiB");
    bench_report("used_after", (double)l.defrag.after.used_bytes / (double)MIB, "MiB");

    began = now_ns(CLOCK_MONOTONIC);
    while (now_ns(CLOCK_MONOTONIC) - began < 5 * NS_PER_S)
        load_turn(&l);
    report_load(&l, "after");
    store_close(&l.s);
    close(l.schedstat);
}
