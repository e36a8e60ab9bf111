/*
 * What an entry costs the core thread, with everything below it: decoding, index, pending batch.
 * The store is a real one, in CLEAT_BENCH_DIR (by default the current folder), and its commits run
 * on another thread meanwhile. CLEAT_BENCH_APPLY_KEYS says how many keys there are: 50,000 unless
 * told; the figures in docs/performance.md are for 1,000,000.
 */
#include "apply/apply.h"
#include "backend/backend.h"
#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cluster/cluster.h"
#include "harness/bench.h"
#include "io/clock.h"
#include "io/io.h"
#include "io/loop.h"
#include "lease/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { KEY_BYTES = 32, VALUE_BYTES = 256, BATCH_ENTRIES = 10000 };

struct counter {
    struct loop *loop;
    struct backend *b;
    struct lease_set *leases;
    struct mvcc *mvcc;
    struct cluster *cluster;
    struct auth *auth;
    struct apply *apply;
    char dir[256];
    uint64_t keys, index, since_commit;
    bool awaited;
    struct rng rng;

    /* A request, encoded, and where in it the key is written each time. */
    struct buf wire;
    size_t key_at;
};

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* ---- The rooms ---- */

static void must(enum err e, struct buf *why)
{
    if (e != ERR_OK)
        fatal("%s: %s", err_text(e), buf_str(why));
}

static void remove_dir(const struct counter *c)
{
    char command[300];

    snprintf(command, sizeof(command), "rm -rf '%s'", c->dir);
    if (system(command) != 0)
        fatal("cannot remove %s", c->dir);
}

static void open_rooms(struct counter *c)
{
    struct buf why = {0};

    must(loop_open(&(struct loop_options){0}, &c->loop), &why);
    must(backend_open(&(struct backend_options){.disk = loop_io(c->loop)->disk,
                                                .dir = c->dir,
                                                .workers = loop_io(c->loop)->workers,
                                                .why = &why},
                      &c->b),
         &why);
    must(lease_open(&(struct lease_options){.backend = c->b, .min_ttl = 2}, &why, &c->leases),
         &why);
    must(mvcc_open(&(struct mvcc_options){.backend = c->b}, &why, &c->mvcc), &why);
    must(cluster_open(&(struct cluster_options){.backend = c->b, .own_id = 1}, &why, &c->cluster),
         &why);
    must(auth_open(c->b, &why, &c->auth), &why);
    must(apply_open(
             &(struct apply_options){
                 .auth = c->auth,
                 .backend = c->b,
                 .mvcc = c->mvcc,
                 .leases = c->leases,
                 .cluster = c->cluster,
                 .own_id = 1,
                 .quota_bytes = -1,
             },
             &why, &c->apply),
         &why);
}

static void turn(void *context)
{
    const struct counter *c = context;

    inbox_drain(loop_io(c->loop)->inbox, SIZE_MAX);
}

static void wait_idle(struct counter *c)
{
    while (!backend_is_idle(c->b))
        loop_run_once(c->loop, turn, c);
}

/* What a server does now and then: hear of commits, start the next one, wait when it must. */
static void serve(struct counter *c)
{
    if (++c->since_commit < BATCH_ENTRIES && !backend_is_full(c->b))
        return;
    if (backend_is_full(c->b))
        wait_idle(c);
    else
        turn(c);
    if (!backend_can_commit(c->b))
        return;
    backend_commit_start(c->b);
    c->since_commit = 0;
}

/* ---- Entries ---- */

static void set_key(struct counter *c, uint64_t number)
{
    char key[KEY_BYTES + 1];

    snprintf(key, sizeof(key), "key/%028llu", (unsigned long long)number);
    memcpy(c->wire.at + c->key_at, key, KEY_BYTES);
}

static void set_request(struct counter *c, struct pb_internal_raft_request *r)
{
    struct pb_request_header header = {.id = 77};
    static const char mark[] = "key/";

    r->header = &header;
    buf_clear(&c->wire);
    pb_encode_internal_raft_request(r, &c->wire);
    const uint8_t *found = memmem(c->wire.at, c->wire.len, mark, sizeof(mark) - 1);
    c->key_at = found ? (size_t)(found - c->wire.at) : 0;
}

static void set_put(struct counter *c, int64_t lease)
{
    static uint8_t value[VALUE_BYTES];
    char key[KEY_BYTES + 1];
    struct pb_put_request put = {.value = bytes_of(value, VALUE_BYTES), .lease = lease};

    memset(value, 'v', sizeof(value));
    snprintf(key, sizeof(key), "key/%028d", 0);
    put.key = bytes_of(key, KEY_BYTES);
    set_request(c, &(struct pb_internal_raft_request){.put = &put});
}

static void begin_entry(struct counter *c)
{
    c->index++;
    uint64_t id = apply_begin(
        c->apply, &(struct raft_entry){.index = c->index, .term = 1, .data = buf_bytes(&c->wire)},
        0);
    if (id != 0 && c->awaited)
        apply_make_reply(c->apply);
}

static void run_entry(struct counter *c)
{
    begin_entry(c);
    while (!apply_some(c->apply, MVCC_SLICE_STEPS))
        ;
    assert(apply_effects(c->apply)->result == RESULT_OK);
    apply_end(c->apply, (struct bytes){0});
    serve(c);
}

static void fill(struct counter *c, int64_t lease)
{
    set_put(c, lease);
    for (uint64_t i = 0; i < c->keys; i++) {
        set_key(c, i);
        run_entry(c);
    }
}

static void counter_open(struct counter *c)
{
    const char *parent = getenv("CLEAT_BENCH_DIR"), *keys = getenv("CLEAT_BENCH_APPLY_KEYS");

    mem_tune(); /* as the server does: a heap that is given back in one go takes milliseconds */
    *c = (struct counter){.keys = keys ? strtoull(keys, NULL, 10) : 50000, .awaited = true};
    rng_seed(&c->rng, 1);
    snprintf(c->dir, sizeof(c->dir), "%s/apply_bench.tmp", parent ? parent : ".");
    remove_dir(c);
    open_rooms(c);
}

static void counter_close(struct counter *c)
{
    wait_idle(c);
    apply_close(c->apply);
    auth_close(c->auth);
    cluster_close(c->cluster);
    mvcc_close(c->mvcc);
    lease_close(c->leases);
    backend_close(c->b);
    loop_close(c->loop);
    buf_free(&c->wire);
    remove_dir(c);
}

/* ---- Puts, transactions, gets ---- */

static void entries_body(void *context, uint64_t times)
{
    struct counter *c = context;

    for (uint64_t i = 0; i < times; i++) {
        set_key(c, rng_below(&c->rng, c->keys));
        run_entry(c);
    }
}

static void set_txn(struct counter *c)
{
    char key[KEY_BYTES + 1];
    snprintf(key, sizeof(key), "key/%028d", 0);
    struct pb_put_request put = {.key = bytes_of(key, KEY_BYTES), .value = BYTES("value")};
    struct pb_range_request range = {.key = BYTES("none")};
    struct pb_compare compare = {.key = BYTES("none"), .target = PB_TARGET_VERSION};
    struct pb_request_op then = {.which = PB_OP_PUT, .put = &put};
    struct pb_request_op other = {.which = PB_OP_RANGE, .range = &range};
    struct pb_txn_request txn = {
        .compare = {&compare, 1}, .success = {&then, 1}, .failure = {&other, 1}};

    set_request(c, &(struct pb_internal_raft_request){.txn = &txn});
}

static void gets_body(void *context, uint64_t times)
{
    struct counter *c = context;

    for (uint64_t i = 0; i < times; i++) {
        char key[KEY_BYTES + 1];
        snprintf(key, sizeof(key), "key/%028llu", (unsigned long long)rng_below(&c->rng, c->keys));
        struct pb_range_request range = {.key = bytes_of(key, KEY_BYTES)};
        struct apply_read r = {.range = &range};
        apply_read_begin(c->apply, &r);
        while (!apply_read_some(&r, MVCC_SLICE_STEPS))
            ;
        assert(reply_is_inline(&r.reply) && reply_total(&r.reply) > KEY_BYTES);
        apply_read_end(&r);
    }
}

/* The dice and snprintf for a key, which the others pay, too. */
static void nothing_body(void *context, uint64_t times)
{
    struct counter *c = context;

    for (uint64_t i = 0; i < times; i++)
        set_key(c, rng_below(&c->rng, c->keys));
}

BENCH(apply_entry)
{
    struct counter c;

    counter_open(&c);
    fill(&c, 0);
    bench_run(&(struct bench_work){.suffix = "put", .body = entries_body, .context = &c});
    c.awaited = false;
    bench_run(&(struct bench_work){.suffix = "put_elsewhere", .body = entries_body, .context = &c});
    c.awaited = true;
    set_txn(&c);
    bench_run(&(struct bench_work){.suffix = "txn", .body = entries_body, .context = &c});
    bench_run(&(struct bench_work){.suffix = "get", .body = gets_body, .context = &c});
    bench_run(&(struct bench_work){.suffix = "making_keys", .body = nothing_body, .context = &c});
    counter_close(&c);
}

/* ---- Large ones ---- */

/* Applies the entry in slices; reports the longest, how many were too long, and the whole by key. A
 * processor that the host takes away counts as ours, so on a shared machine look at all three. */
static void run_sliced(struct counter *c, const char *const names[3])
{
    uint64_t longest = 0, total = 0, slow = 0;
    bool done = false;

    wait_idle(c);
    begin_entry(c);
    while (!done) {
        uint64_t before = cpu_ns();
        done = apply_some(c->apply, MVCC_SLICE_STEPS);
        uint64_t took = cpu_ns() - before;
        longest = took > longest ? took : longest;
        slow += took > 2 * NS_PER_MS;
        total += took;
    }
    assert(apply_effects(c->apply)->result == RESULT_OK);
    assert(apply_effects(c->apply)->changes.count == c->keys);
    apply_end(c->apply, (struct bytes){0});
    bench_report(names[0], (double)total / (double)c->keys, "ns/key");
    bench_report(names[1], (double)longest / 1e6, "ms CPU");
    bench_report(names[2], (double)slow, "slices above 2 ms");
}

BENCH(apply_large)
{
    struct counter c;
    struct pb_delete_range_request gone = {.key = BYTES("key/"), .range_end = BYTES("\0")};
    struct pb_lease_grant_request grant = {.id = 1, .ttl = 60};
    struct pb_lease_id revoke = {1};

    counter_open(&c);
    fill(&c, 0);
    set_request(&c, &(struct pb_internal_raft_request){.delete_range = &gone});
    run_sliced(&c, (const char *const[]){"delete", "delete_longest", "delete_slow"});
    set_request(&c, &(struct pb_internal_raft_request){.lease_grant = &grant});
    run_entry(&c);
    fill(&c, 1);
    set_request(&c, &(struct pb_internal_raft_request){.lease_revoke = &revoke});
    run_sliced(&c, (const char *const[]){"revoke", "revoke_longest", "revoke_slow"});
    counter_close(&c);
}
