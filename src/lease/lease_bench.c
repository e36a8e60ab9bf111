/*
 * What leases cost when there are a million of them, and when one has a million keys.
 *
 * "Longest" figures are the longest single call met: no call may stop the turn, so they matter more
 * than the mean. All times are CPU time of this thread, as others share the machine.
 */
#include "lease/lease.h"

#include "backend/backend.h"
#include "backend/backend_memory.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/rng.h"
#include "harness/bench.h"

#include <malloc.h>
#include <stdio.h>
#include <time.h>

enum { MANY = 1000000, KEY_BYTES = 32 };

struct stage {
    struct memory_disk *disk;
    struct backend *backend;
    struct lease_set *set;
    struct rng rng;
    uint64_t now_ms;
    uint64_t index;
    int64_t next_id;
};

static void open_stage(struct stage *s)
{
    struct buf why = {0};

    mem_tune(); /* as the server does */
    *s = (struct stage){.disk = memory_disk_new(1), .now_ms = 1000, .next_id = 1};
    rng_seed(&s->rng, 1);
    enum err e = backend_open(&(struct backend_options){.memory = s->disk}, &s->backend);
    assert(e == ERR_OK);
    e = lease_open(&(struct lease_options){.backend = s->backend, .min_ttl = 2, .hash_seed = 5},
                   &why, &s->set);
    assert(e == ERR_OK);
}

static void close_stage(struct stage *s)
{
    lease_close(s->set);
    backend_close(s->backend);
    memory_disk_free(s->disk);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double held_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)(info.uordblks + info.hblkhd);
}

/* Ids as etcd chooses them: scattered. */
static int64_t id_of(int64_t n)
{
    return (int64_t)((uint64_t)n * 0x9E3779B97F4A7C15 >> 1);
}

static void grant_one(struct stage *s)
{
    int64_t granted_ttl;
    enum lease_result a =
        lease_grant(s->set, id_of(s->next_id++), 60 + (int64_t)rng_below(&s->rng, 600), s->now_ms,
                    &granted_ttl);

    assert(a == LEASE_OK);
}

/* Everything pending goes to the store and out of memory: the store is not what is measured. */
static void commit(struct stage *s)
{
    backend_entry_begin(s->backend);
    s->index++;
    backend_entry_end(s->backend, (struct backend_position){s->index, 1}, (struct bytes){0});
    enum err e = backend_commit_now(s->backend);
    assert(e == ERR_OK);
}

static void grant_body(void *context, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++)
        grant_one(context);
}

static void renew_body(void *context, uint64_t times)
{
    struct stage *s = context;

    for (uint64_t i = 0; i < times; i++) {
        int64_t id = id_of(1 + (int64_t)rng_below(&s->rng, (uint64_t)s->next_id - 1));
        int64_t ttl;
        bool needs_checkpoint;
        s->now_ms += i % 16 == 0;
        enum lease_result a = lease_renew(s->set, id, s->now_ms, &ttl, &needs_checkpoint);
        assert(a == LEASE_OK || a == LEASE_EXPIRED);
    }
}

static void look_body(void *context, uint64_t times)
{
    struct stage *s = context;

    for (uint64_t i = 0; i < times; i++) {
        int64_t id = id_of(1 + (int64_t)rng_below(&s->rng, (uint64_t)s->next_id - 1));
        struct lease_info info;
        bool found = lease_look(s->set, id, s->now_ms, &info);
        assert(found);
    }
}

static void grant_up_to(struct stage *s, int64_t count)
{
    uint64_t longest = 0;

    while (s->next_id <= count) {
        uint64_t before = cpu_ns();
        grant_one(s);
        uint64_t took = cpu_ns() - before;
        longest = took > longest ? took : longest;
        if (s->next_id % 10000 == 0)
            commit(s);
    }
    bench_report("grant_longest", (double)longest / 1e3, "us");
}

static void promote(struct stage *s)
{
    uint64_t start = cpu_ns(), longest = 0, slices = 0;

    lease_promote(s->set, s->now_ms, 1000);
    bench_report("promote", (double)(cpu_ns() - start) / 1e3, "us");
    for (bool done = false; !done; slices++) {
        uint64_t before = cpu_ns();
        done = lease_settle(s->set, LEASE_SETTLE_STEPS);
        uint64_t took = cpu_ns() - before;
        longest = took > longest ? took : longest;
    }
    bench_report("settle_all", (double)(cpu_ns() - start) / 1e6, "ms");
    bench_report("settle_slices", (double)slices, "slices");
    bench_report("settle_longest", (double)longest / 1e3, "us");
}

static void expire_500(struct stage *s)
{
    int64_t ids[LEASE_REVOKES_MAX];
    uint64_t before = cpu_ns();
    size_t count = lease_take_expired(s->set, s->now_ms + 3600000, ids, LEASE_REVOKES_MAX);

    assert(count == LEASE_REVOKES_MAX);
    bench_report("take_500_expired", (double)(cpu_ns() - before) / 1e3, "us");
}

/* In slices as api has them: of so many steps, whether they gather or take what was gathered. */
static void list_all(struct stage *s)
{
    enum { STEPS = API_READ_STEPS };
    uint64_t start = cpu_ns(), before = start, longest = 0;
    int64_t id;
    size_t count = 0;

    struct lease_listing *l = lease_listing_begin(s->set);
    for (bool is_over = false; !is_over;) {
        unsigned steps = STEPS;
        bool is_gathered = lease_listing_gather(l, &steps);
        for (; is_gathered && steps > 0 && !is_over; steps--) {
            is_over = !lease_listing_next(l, &id);
            count += !is_over;
        }
        uint64_t now = cpu_ns();
        longest = now - before > longest ? now - before : longest;
        before = now;
    }
    assert(count == lease_count(s->set));
    lease_listing_end(l);
    bench_report("list_end", (double)(cpu_ns() - before) / 1e3, "us");
    bench_report("list_all", (double)(cpu_ns() - start) / 1e6, "ms");
    bench_report("list_longest", (double)longest / 1e3, "us");
}

BENCH(lease_million)
{
    struct stage s;
    double before = held_bytes();

    open_stage(&s);
    grant_up_to(&s, MANY);
    promote(&s);
    bench_run(&(struct bench_work){.suffix = "renew", .body = renew_body, .context = &s});
    bench_run(&(struct bench_work){.suffix = "look", .body = look_body, .context = &s});
    expire_500(&s);
    list_all(&s);
    uint64_t start = cpu_ns();
    lease_demote(s.set);
    bench_report("demote", (double)(cpu_ns() - start) / 1e3, "us");
    memory_disk_crash(s.disk);
    backend_close(s.backend);
    memory_disk_free(s.disk);
    bench_report("bytes_each", (held_bytes() - before) / (double)MANY, "B");
    lease_close(s.set);
}

BENCH(lease_grants)
{
    struct stage s;

    open_stage(&s);
    lease_promote(s.set, s.now_ms, 1000);
    bench_run(&(struct bench_work){.body = grant_body, .context = &s});
    close_stage(&s);
}

/* --- keys --- */

struct key {
    char text[KEY_BYTES + 1];
};

static struct bytes key_of(uint64_t n, struct key *key)
{
    snprintf(key->text, sizeof(key->text), "/registry/pods/%017lx", n * 0x9E3779B97F4A7C15 >> 1);
    return bytes_of(key->text, KEY_BYTES);
}

static void attach_up_to(struct stage *s, uint64_t count)
{
    uint64_t longest = 0, start = cpu_ns();
    struct key key;

    for (uint64_t n = 0; n < count; n++) {
        struct bytes name = key_of(n, &key);
        uint64_t before = cpu_ns();
        enum lease_result a = lease_attach(s->set, 7, name);
        uint64_t took = cpu_ns() - before;
        assert(a == LEASE_OK);
        longest = took > longest ? took : longest;
    }
    bench_report("attach", (double)(cpu_ns() - start) / (double)count, "ns");
    bench_report("attach_longest", (double)longest / 1e3, "us");
}

static void of_key_body(void *context, uint64_t times)
{
    struct stage *s = context;
    struct key key;

    for (uint64_t i = 0; i < times; i++) {
        int64_t id = lease_of_key(s->set, key_of(rng_below(&s->rng, MANY), &key));
        assert(id == 7);
    }
}

static void again_body(void *context, uint64_t times)
{
    struct stage *s = context;
    struct key key;

    for (uint64_t i = 0; i < times; i++) {
        struct bytes name = key_of(rng_below(&s->rng, MANY), &key);
        lease_detach(s->set, name);
        enum lease_result a = lease_attach(s->set, 7, name);
        assert(a == LEASE_OK);
    }
}

static void revoke(struct stage *s)
{
    uint64_t start = cpu_ns(), longest = 0;
    struct bytes key;

    enum lease_result a = lease_revoke_begin(s->set, 7);
    assert(a == LEASE_OK);
    for (uint64_t before = start; lease_first_key(s->set, 7, &key);) {
        lease_detach(s->set, key);
        uint64_t now = cpu_ns();
        longest = now - before > longest ? now - before : longest;
        before = now;
    }
    lease_revoke_end(s->set, 7);
    bench_report("revoke_each_key", (double)(cpu_ns() - start) / (double)MANY, "ns");
    bench_report("revoke_longest", (double)longest / 1e3, "us");
}

BENCH(lease_million_keys)
{
    struct stage s;
    int64_t granted_ttl;

    open_stage(&s);
    enum lease_result a = lease_grant(s.set, 7, 60, s.now_ms, &granted_ttl);
    assert(a == LEASE_OK);
    double before = held_bytes();
    attach_up_to(&s, MANY);
    bench_report("bytes_beside_key", (held_bytes() - before) / (double)MANY - (double)KEY_BYTES,
                 "B");
    bench_run(&(struct bench_work){.suffix = "of_key", .body = of_key_body, .context = &s});
    bench_run(
        &(struct bench_work){.suffix = "detach_and_attach", .body = again_body, .context = &s});
    revoke(&s);
    close_stage(&s);
}
