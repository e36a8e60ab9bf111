/*
 * What watching costs. The store is a real one, in CLEAT_BENCH_DIR (by default the current folder);
 * its commits are made between the measured parts. Slices are what one turn does: their figures are
 * processor time of this thread, since on a shared machine the wall clock tells of others.
 */
#include "backend/backend.h"
#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness/bench.h"
#include "io/clock.h"
#include "io/io.h"
#include "io/loop.h"
#include "watch/watch.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    KEY_BYTES = 32,
    VALUE_BYTES = 256,
    LIVE_WATCHERS = 100000,
    STREAMS = 100,
    FAR_BEHIND = 500000,
    BATCH_ENTRIES = 10000,
    PUTS_PER_TURN = 200,
    BLOCK_TURNS = 10,
    SLICE_STEPS = 2000,
};

struct post {
    struct loop *loop;
    struct backend *b;
    struct mvcc *m;
    struct watch *w;
    char dir[256];
    uint64_t index;
    struct rng rng;
    uint8_t value[VALUE_BYTES];
    unsigned keys;      /* to put, at random */
    const char *prefix; /* of them */
    bool watches;       /* the hub is told */
    uint64_t messages;  /* taken */
};

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void remove_dir(const struct post *p)
{
    char command[300];

    snprintf(command, sizeof(command), "rm -rf '%s'", p->dir);
    if (system(command) != 0)
        fatal("cannot remove %s", p->dir);
}

static void post_open(struct post *p)
{
    const char *parent = getenv("CLEAT_BENCH_DIR");
    struct buf why = {0};

    *p = (struct post){.keys = 1000, .prefix = "other", .watches = true};
    memset(p->value, 'v', sizeof(p->value));
    rng_seed(&p->rng, 1);
    snprintf(p->dir, sizeof(p->dir), "%s/watch_bench.tmp", parent ? parent : ".");
    remove_dir(p);
    enum err e = loop_open(&(struct loop_options){0}, &p->loop);
    if (e == ERR_OK)
        e = backend_open(&(struct backend_options){.disk = loop_io(p->loop)->disk, .dir = p->dir},
                         &p->b);
    if (e != ERR_OK)
        fatal("cannot open %s: %s", p->dir, err_text(e));
    if (mvcc_open(&(struct mvcc_options){.backend = p->b}, &why, &p->m) != ERR_OK)
        fatal("%s", buf_str(&why));
    p->w = watch_open(&(struct watch_options){.mvcc = p->m, .fragment_bytes = 2 * MIB, .seed = 1});
}

static void post_close(struct post *p)
{
    watch_close(p->w);
    mvcc_close(p->m);
    backend_close(p->b);
    loop_close(p->loop);
    remove_dir(p);
}

static void commit(struct post *p)
{
    if (backend_commit_now(p->b) != ERR_OK)
        fatal("%s", backend_failure(p->b));
}

static struct bytes key_of(const struct post *p, unsigned number, char space[static KEY_BYTES + 1])
{
    snprintf(space, KEY_BYTES + 1, "%-22.22s%010u", p->prefix, number);
    return bytes_of(space, KEY_BYTES);
}

static void put(struct post *p)
{
    char space[KEY_BYTES + 1];
    struct mvcc_changes changes;
    struct bytes key = key_of(p, (unsigned)rng_below(&p->rng, p->keys), space);

    backend_entry_begin(p->b);
    mvcc_write_begin(p->m);
    mvcc_put(p->m, key, bytes_of(p->value, VALUE_BYTES), 0);
    mvcc_write_end(p->m, &changes);
    backend_entry_end(p->b, (struct backend_position){++p->index, 1}, (struct bytes){0});
    if (p->watches)
        watch_changed(p->w, &changes);
}

static void take_all(struct post *p)
{
    struct watch_message m;

    while (watch_take(p->w, &m)) {
        blob_unref(m.events);
        watch_long_end(m.long_events);
        watch_sent(m.stream, m.bytes);
        p->messages++;
    }
}

static void put_some(void *context, uint64_t times)
{
    struct post *p = context;

    for (uint64_t n = 0; n < times; n++) {
        put(p);
        take_all(p);
        if (p->index % BATCH_ENTRIES == 0)
            commit(p);
    }
}

static double each(uint64_t sum, uint64_t count)
{
    return (double)sum / (double)count;
}

static size_t heap_bytes(void)
{
    struct mallinfo2 i = mallinfo2();

    return i.uordblks + i.hblkhd;
}

/* --- many live watchers --- */

static void watch_keys(struct post *p, struct watch_stream *streams[static STREAMS])
{
    char space[KEY_BYTES + 1];

    p->prefix = "watched";
    for (unsigned n = 0; n < STREAMS; n++)
        streams[n] = watch_stream_open(p->w, NULL, 1 * MIB, 0);
    for (unsigned n = 0; n < LIVE_WATCHERS; n++) {
        watch_create(streams[n % STREAMS],
                     &(struct pb_watch_create_request){.key = key_of(p, n, space)}, NULL, 0);
        take_all(p);
    }
}

BENCH(watch_live)
{
    struct watch_stream *streams[STREAMS];
    struct post p;

    post_open(&p);
    bench_run(
        &(struct bench_work){.suffix = "put_without_watchers", .body = put_some, .context = &p});
    size_t before = heap_bytes();
    uint64_t start = cpu_ns();
    watch_keys(&p, streams);
    bench_report("create", each(cpu_ns() - start, LIVE_WATCHERS), "ns");
    bench_report("memory_each", each(heap_bytes() - before, LIVE_WATCHERS), "B");

    p.prefix = "other";
    bench_run(&(struct bench_work){.suffix = "put_unwatched_key", .body = put_some, .context = &p});
    p.prefix = "watched";
    bench_run(&(struct bench_work){.suffix = "put_watched_key", .body = put_some, .context = &p});

    start = cpu_ns();
    for (unsigned n = 0; n < STREAMS; n++)
        watch_stream_close(streams[n]);
    while (!watch_work(p.w, SLICE_STEPS, 0))
        ;
    bench_report("end", each(cpu_ns() - start, LIVE_WATCHERS), "ns");
    post_close(&p);
}

/* --- one key, many watchers --- */

BENCH(watch_fanout)
{
    static struct watch_stream *streams[10000];
    struct post p;
    enum { PUTS = 100 };

    post_open(&p);
    for (size_t n = 0; n < ARRAY_LEN(streams); n++) {
        streams[n] = watch_stream_open(p.w, NULL, 1 * MIB, 0);
        watch_create(streams[n],
                     &(struct pb_watch_create_request){.key = BYTES("o"), .range_end = BYTES("p")},
                     NULL, 0);
    }
    take_all(&p);
    p.messages = 0;
    uint64_t start = cpu_ns();
    put_some(&p, PUTS);
    bench_report("each", each(cpu_ns() - start, p.messages), "ns");
    for (size_t n = 0; n < ARRAY_LEN(streams); n++)
        watch_stream_close(streams[n]);
    post_close(&p);
}

/* --- far behind --- */

struct turns {
    uint64_t count, puts_ns, work_ns, longest_ns;
};

/* Some puts, then, if it is to be, a slice of catching up, and what came of it is taken. */
static bool turn(struct post *p, struct turns *t, bool works)
{
    uint64_t start = cpu_ns();

    for (unsigned n = 0; n < PUTS_PER_TURN; n++)
        put(p);
    uint64_t between = cpu_ns();
    bool idle = works && watch_work(p->w, SLICE_STEPS, 0);
    uint64_t end = cpu_ns();
    take_all(p);
    if (p->index / BATCH_ENTRIES != (p->index - PUTS_PER_TURN) / BATCH_ENTRIES)
        commit(p);
    t->count++;
    t->puts_ns += between - start;
    t->work_ns += end - between;
    if (end - between > t->longest_ns)
        t->longest_ns = end - between;
    return idle;
}

static void create_far_behind(struct post *p, struct watch_stream *s, size_t watchers,
                              struct bytes key)
{
    struct pb_watch_create_request request = {
        .key = key, .range_end = BYTES("p"), .start_revision = 2};

    for (size_t n = 0; n < watchers; n++)
        watch_create(s, &request, NULL, 0);
    take_all(p);
}

static void report(const char *name, const char *what, double value, const char *unit)
{
    char suffix[64];

    snprintf(suffix, sizeof(suffix), "%s_%s", name, what);
    bench_report(suffix, value, unit);
}

/* Turns with and without a slice of catching up alternate in blocks, so that both meet the same
 * machine. */
static void catch_up(struct post *p, const char *name, size_t watchers, struct bytes key)
{
    struct watch_stream *s = watch_stream_open(p->w, NULL, 8 * MIB, 0);
    struct turns alone = {0}, both = {0};
    bool idle = false;

    create_far_behind(p, s, watchers, key);
    int64_t revisions = mvcc_revision(p->m);
    while (!idle) {
        for (unsigned n = 0; n < BLOCK_TURNS; n++)
            turn(p, &alone, false);
        for (unsigned n = 0; n < BLOCK_TURNS && !idle; n++)
            idle = turn(p, &both, true);
    }
    report(name, "longest_slice", each(both.longest_ns, 1000), "us");
    report(name, "each_revision", each(both.work_ns, (uint64_t)revisions), "ns");
    report(name, "put_alone", each(alone.puts_ns, alone.count * PUTS_PER_TURN), "ns");
    report(name, "put_meanwhile", each(both.puts_ns, both.count * PUTS_PER_TURN), "ns");
    watch_stream_close(s);
}

BENCH(watch_far_behind)
{
    struct post p;

    post_open(&p);
    put_some(&p, FAR_BEHIND);
    commit(&p);
    catch_up(&p, "all", 1, BYTES("o"));
    catch_up(&p, "none", 1, BYTES("oz"));
    catch_up(&p, "1000_watchers", 1000, BYTES("oz"));
    post_close(&p);
}
