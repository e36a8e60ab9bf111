/*
 * The rooms under test: opened, closed, crashed.
 */
#include "model/episode_int.h"

#include "base/mem.h"
#include "io/io.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* --- opening and closing ------------------------------------------------------------------ */

static void submit(struct workers *w, struct job *j)
{
    struct episode *e = container_of(w, struct episode, workers);

    assert(!e->job);
    e->job = j;
    e->job_has_run = false;
}

static void on_failure(void *context, enum err why, const char *text)
{
    struct episode *e = context;

    episode_say(e, "commit failed: %s, %s", err_text(why), text);
    e->failed = true;
}

static void on_damage(void *context, const char *text)
{
    episode_broken(context, "store", "mvcc says it is damaged: %s", text);
}

static void on_leased_key(void *context, struct bytes key, int64_t lease)
{
    struct episode *e = context;
    enum lease_result a = lease_attach(e->leases, lease, key);

    if (a != LEASE_OK)
        episode_broken(e, "restart", "a key hangs on lease %" PRId64 ", which is not there", lease);
}

static void on_settled_key(void *context, struct bytes key)
{
    struct episode *e = context;

    lease_detach(e->leases, key);
}

void rooms_init(struct episode *e, const struct episode_options *options)
{
    e->workers.submit = submit;
    if (!e->climate.lmdb) {
        e->disk = memory_disk_new(e->seed);
        return;
    }
    e->dir = arena_printf(&e->arena, "%s/%" PRIu64, options->dir, e->seed);
    enum err err = loop_open(&(struct loop_options){0}, &e->loop);
    assert(err == ERR_OK);
}

static void open_backend(struct episode *e)
{
    struct buf why = {0};
    enum err err =
        backend_open(&(struct backend_options){.disk = e->loop ? loop_io(e->loop)->disk : NULL,
                                               .dir = e->dir,
                                               .memory = e->disk,
                                               .workers = &e->workers,
                                               .pending_bytes_max = e->climate.pending_bytes_max,
                                               .dirty_bytes_max = 4 * KIB, /* crash in between */
                                               .on_failure = on_failure,
                                               .context = e,
                                               .why = &why},
                     &e->backend);

    if (err != ERR_OK)
        episode_broken(e, "restart", "backend_open: %s: %s", err_text(err), buf_str(&why));
    buf_free(&why);
}

static void open_mvcc(struct episode *e)
{
    struct buf why = {0};
    enum err err = mvcc_open(
        &(struct mvcc_options){.backend = e->backend,
                               .on_leased_key = on_leased_key,
                               .on_settled_key = on_settled_key,
                               .range_tombstone_keys_min = e->climate.range_tombstone_keys_min,
                               .on_damage = on_damage,
                               .context = e},
        &why, &e->mvcc);

    if (err != ERR_OK)
        episode_broken(e, "restart", "mvcc_open: %s", buf_str(&why));
    buf_free(&why);
}

static void open_leases(struct episode *e)
{
    struct buf why = {0};
    enum err err = lease_open(&(struct lease_options){.backend = e->backend,
                                                      .min_ttl = 2,
                                                      .checkpoint = e->climate.checkpoint,
                                                      .checkpoint_persist = e->climate.persist,
                                                      .checkpoint_interval_ms = 4000,
                                                      .hash_seed = e->seed},
                              &why, &e->leases);
    if (err != ERR_OK)
        episode_broken(e, "restart", "lease_open: %s", buf_str(&why));
    buf_free(&why);
}

void rooms_open(struct episode *e)
{
    e->failed = false;
    open_backend(e);
    open_leases(e); /* before the keys, which are attached to them */
    open_mvcc(e);
    e->watch = watch_open(&(struct watch_options){.mvcc = e->mvcc,
                                                  .fragment_bytes = e->climate.fragment_bytes,
                                                  .progress_interval_ms = 2000,
                                                  .seed = e->seed});
    uint64_t index = backend_applied(e->backend).index;
    if (index > e->log.applied)
        episode_broken(e, "restart", "the store is at index %" PRIu64 ", the log at %zu", index,
                       e->log.applied);
    leaders_restarted(e);
    entries_replay(e, index);
    rooms_compare(e);
}

static void finish_job(struct episode *e)
{
    while (e->job) {
        struct job *j = e->job;
        if (!e->job_has_run)
            j->run(j);
        e->job = NULL;
        j->on_done(j);
    }
}

void rooms_close(struct episode *e, bool power)
{
    readers_close(e);
    clients_cut_off(e);
    entries_give_up(e);
    if (power && e->disk)
        memory_disk_crash(e->disk);
    watch_close(e->watch);
    mvcc_close(e->mvcc);
    lease_close(e->leases);
    finish_job(e);
    backend_close(e->backend);
    if (e->disk)
        memory_disk_restart(e->disk);
    e->watch = NULL;
    e->mvcc = NULL;
    e->leases = NULL;
    e->backend = NULL;
}

void rooms_replace_store(struct episode *e)
{
    struct mvcc *before = e->mvcc;

    if (e->applying.entry || e->job)
        return;
    enum err err = backend_commit_now(e->backend);
    assert(err == ERR_OK);
    readers_close(e);
    open_mvcc(e);
    watch_store_replaced(e->watch, e->mvcc);
    mvcc_close(before);
    clients_forget_liveness(e);
    episode_say(e, "the store is replaced");
    rooms_compare(e);
}

static void remove_store(struct episode *e)
{
    char command[320];

    snprintf(command, sizeof(command), "rm -rf '%s'", e->dir);
    if (system(command) != 0)
        episode_broken(e, "store", "%s cannot be removed", e->dir);
}

void rooms_free(struct episode *e)
{
    memory_disk_free(e->disk);
    loop_close(e->loop);
    if (e->dir)
        remove_store(e);
}

/* --- committing --------------------------------------------------------------------------- */

/* On the twin the power may go in the middle of a commit, before or after it has become the truth.
 */
static void run_job(struct episode *e)
{
    if (e->disk && chance(e, e->climate.crash_weight, 60)) {
        memory_disk_crash_at(e->disk, 1 + pick(e, 6));
        episode_say(e, "the power is about to go");
    }
    e->job->run(e->job);
    e->job_has_run = true;
    if (e->disk)
        memory_disk_crash_at(e->disk, 0);
}

void rooms_commit_step(struct episode *e)
{
    if (!e->job) {
        if (backend_can_commit(e->backend)) {
            episode_say(e, "commit up to %" PRIu64, backend_applied(e->backend).index);
            backend_commit_start(e->backend);
        }
    } else if (!e->job_has_run) {
        run_job(e);
    } else {
        struct job *j = e->job;
        e->job = NULL;
        j->on_done(j);
        episode_trace(e, backend_durable(e->backend).index);
    }
    if (e->failed) {
        rooms_close(e, true);
        rooms_open(e);
    }
}

void rooms_compact_step(struct episode *e)
{
    unsigned steps = some_steps(e);

    if (!mvcc_compact_pending(e->mvcc))
        return;
    bool done = mvcc_compact_some(e->mvcc, steps);
    episode_say(e, "compaction, %u steps%s", steps, done ? ": done for now" : "");
}

void rooms_settle_step(struct episode *e)
{
    unsigned steps = some_steps(e);

    if (!mvcc_is_settling(e->mvcc))
        return;
    bool done = mvcc_settle_some(e->mvcc, steps);
    episode_say(e, "settle, %u steps%s", steps, done ? ": done for now" : "");
    e->totals.settlings += !mvcc_is_settling(e->mvcc);
}

/* --- comparing ---------------------------------------------------------------------------- */

void rooms_check(struct episode *e)
{
    mvcc_check(e->mvcc);
    watch_check(e->watch);
    lease_check(e->leases);
    backend_check(e->backend);
    backend_turn_ended(e->backend);
}

static void compare_numbers(struct episode *e)
{
    if (mvcc_revision(e->mvcc) != e->naive.revision)
        episode_broken(e, "restart", "revision %" PRId64 ", not %" PRId64, mvcc_revision(e->mvcc),
                       e->naive.revision);
    if (mvcc_compact_revision(e->mvcc) != e->naive.compact_revision)
        episode_broken(e, "restart", "compact revision %" PRId64 ", not %" PRId64,
                       mvcc_compact_revision(e->mvcc), e->naive.compact_revision);
}

static void compare_attachments(struct episode *e)
{
    for (unsigned i = 0; i < e->naive.key_count; i++) {
        int64_t got = lease_of_key(e->leases, e->naive.keys[i]);
        int64_t want = naive_lease_of(&e->naive, i);
        if (want == 0 && mvcc_is_settling(e->mvcc))
            continue; /* it may be about to be settled, and leaves its lease then */
        if (got != want)
            episode_broken(e, "lease", "key %u hangs on %" PRId64 ", not %" PRId64, i, got, want);
    }
}

static void compare_entry(struct episode *e, const struct naive_change *c, struct bytes key,
                          struct bytes value)
{
    struct pb_key_value kv = naive_kv(&e->naive, c);
    uint64_t main = __builtin_bswap64((uint64_t)c->at.main);
    uint64_t sub = __builtin_bswap64((uint64_t)c->at.sub);
    struct buf want = {0};

    if (key.len != (c->tombstone ? 18u : 17u) || memcmp(key.at, &main, 8) != 0 ||
        memcmp(key.at + 9, &sub, 8) != 0)
        episode_broken(e, "store", "%" PRId64 ".%" PRId64 "%s is not where it should be",
                       c->at.main, c->at.sub, c->tombstone ? "t" : "");
    pb_encode_key_value(&kv, &want);
    if (!bytes_equal(value, buf_bytes(&want)))
        episode_broken(e, "store", "%" PRId64 ".%" PRId64 " has other bytes", c->at.main,
                       c->at.sub);
    buf_free(&want);
}

/* Rule 6. */
static void compare_store(struct episode *e)
{
    struct backend_view view;
    struct backend_cursor c;
    struct bytes key, value;
    enum err err;

    backend_view_open(e->backend, &view);
    backend_cursor_open(&view, BUCKET_KEY, (struct bytes){0}, &c);
    for (size_t i = 0; i < e->naive.published; i++) {
        if (!naive_keeps(&e->naive, &e->naive.changes[i]))
            continue;
        err = backend_cursor_next(&c, &key, &value);
        if (err != ERR_OK)
            episode_broken(e, "store", "it ends before %" PRId64 ".%" PRId64,
                           e->naive.changes[i].at.main, e->naive.changes[i].at.sub);
        compare_entry(e, &e->naive.changes[i], key, value);
    }
    err = backend_cursor_next(&c, &key, &value);
    if (err != ERR_END)
        episode_broken(e, "store", "there is more in it than there should be");
    backend_cursor_close(&c);
    backend_view_close(&view);
}

void rooms_compare(struct episode *e)
{
    static const struct mvcc_question all = {
        .key = {(const uint8_t *)"\0", 1}, .end = {(const uint8_t *)"\0", 1}, .tag = 0x12};
    struct mvcc_question q = all;

    if (e->applying.entry)
        return;
    compare_numbers(e);
    compare_attachments(e);
    leaders_compare(e);
    q.at = revision_whole(e->naive.revision);
    reader_ask(e, &q);
    /* What is deleted ahead is seen until it is durable. */
    if (mvcc_compact_finished(e->mvcc) != e->naive.compact_revision || mvcc_is_settling(e->mvcc))
        return;
    compare_store(e);
    mvcc_check_store(e->mvcc);
    if (e->through != e->naive.compact_revision) {
        e->through = e->naive.compact_revision;
        e->totals.compactions++;
    }
}
