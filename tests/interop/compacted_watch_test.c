/*
 * Writes, and a compaction right behind them: a watcher that was live gets every event all the
 * same. Each case runs against real etcd and against our own server, and demands the same of both.
 */
#include "base/mem.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/clock.h"

#include <stdio.h>

enum {
    PATIENCE_MS = 30000,
    LOAD_KEYS = 100, /* in one transaction: etcd allows 128 */
};

struct watching {
    struct ask ask;
    bool created;
    size_t events, with_prev;
    int64_t last, canceled; /* revisions */
};

static void hear(struct ask *a, struct bytes message)
{
    struct watching *w = a->context;
    struct arena arena = {0};
    struct pb_watch_response response;

    CHECK_EQ(pb_decode_watch_response(message, &arena, &response), ERR_OK);
    w->created = w->created || response.created;
    if (response.canceled)
        w->canceled = response.compact_revision;
    for (size_t i = 0; i < response.events.count; i++) {
        CHECK(response.events.at[i].kv->mod_revision >= w->last);
        w->last = response.events.at[i].kv->mod_revision;
        w->with_prev += response.events.at[i].prev_kv != NULL;
    }
    w->events += response.events.count;
    arena_free(&arena);
}

struct stage {
    struct peer peer;
    struct caller caller;
    struct line *line;
    struct watching watching;
    struct arena arena;
};

static void watch_all(struct stage *s)
{
    struct pb_watch_create_request create = {
        .key = BYTES("k"), .range_end = BYTES("l"), .prev_kv = true};
    struct pb_watch_request request = {.which = PB_WATCH_CREATE, .create = &create};
    struct watching *w = &s->watching;

    w->ask = (struct ask){.line = caller_connect(&s->caller), .on_message = hear, .context = w};
    ask_stream(&w->ask, "/etcdserverpb.Watch/Watch");
    ask_say(&w->ask, &pb_watch_request_schema, &request);
    while (!w->created)
        caller_turn(&s->caller, 100);
}

static void open_stage(struct stage *s, bool ours)
{
    const char *dir = arena_printf(&s->arena, "%s/%s", test_tmp_dir(), ours ? "ours" : "etcd");

    if (ours)
        peer_open_ours(&s->peer, dir);
    else
        peer_open(&s->peer, dir);
    peer_start(&s->peer, "--max-txn-ops 5000");
    caller_open(&s->caller, &s->peer);
    s->line = caller_connect(&s->caller);
}

static void close_stage(struct stage *s)
{
    ask_cancel(&s->watching.ask);
    ask_free(&s->watching.ask);
    caller_close(&s->caller);
    peer_stop(&s->peer);
    peer_close(&s->peer);
    arena_free(&s->arena);
}

static void start_puts(struct stage *s, struct ask *a, unsigned first, unsigned count)
{
    struct pb_put_request *puts = arena_new_array(&s->arena, count, struct pb_put_request);
    struct pb_request_op *ops = arena_new_array(&s->arena, count, struct pb_request_op);
    struct pb_txn_request txn = {.success = {ops, count}};

    for (unsigned i = 0; i < count; i++) {
        puts[i].key = bytes_of_str(arena_printf(&s->arena, "k%06u", first + i));
        puts[i].value = BYTES("value");
        ops[i] = (struct pb_request_op){.which = PB_OP_PUT, .put = &puts[i]};
    }
    ask_start(a, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);
}

static void load(struct stage *s, unsigned keys)
{
    for (unsigned i = 0; i < keys; i += LOAD_KEYS) {
        struct ask a = {.line = s->line};
        start_puts(s, &a, i, LOAD_KEYS);
        ask_wait(&a);
        CHECK_EQ(a.code, RPC_OK);
        ask_free(&a);
    }
}

static void start_compaction(struct stage *s, struct ask *a, int64_t revision)
{
    struct pb_compaction_request request = {.revision = revision};

    *a = (struct ask){.line = s->line};
    ask_start(a, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema, &request);
}

/* etcd may take up calls in another order than they came; then the revision is yet to be. */
static void finish_compaction(struct stage *s, struct ask *a, int64_t revision)
{
    ask_wait(a);
    while (a->code == RPC_OUT_OF_RANGE) {
        ask_free(a);
        start_compaction(s, a, revision);
        ask_wait(a);
    }
    CHECK_EQ(a->code, RPC_OK);
    ask_free(a);
}

/* All the events, and no end. etcd looks up the value before only when it sends the event, and
 * leaves it out where compaction was faster; we are not to. */
static void demand(struct stage *s, size_t events, size_t with_prev)
{
    struct watching *w = &s->watching;
    uint64_t until_ns = caller_now_ns(&s->caller) + PATIENCE_MS * NS_PER_MS;

    while (w->events < events && w->canceled == 0 && caller_now_ns(&s->caller) < until_ns)
        caller_turn(&s->caller, 100);
    if (w->events != events || w->canceled != 0)
        test_fail(__FILE__, __LINE__, "%s: %zu of %zu events, canceled at %lld",
                  s->peer.is_ours ? "ours" : "etcd", w->events, events, (long long)w->canceled);
    printf("%s: %zu of %zu events have the value before\n", s->peer.is_ours ? "ours" : "etcd",
           w->with_prev, with_prev);
    CHECK(w->with_prev == with_prev || !s->peer.is_ours);
}

/* --- the cases --- */

static void delete_put_compact(bool ours)
{
    enum { KEYS = 5000 };
    struct stage s = {0};
    struct pb_delete_range_request all = {.key = BYTES("k"), .range_end = BYTES("l")};
    struct ask delete, compact;
    open_stage(&s, ours);
    load(&s, KEYS);
    watch_all(&s);

    delete = (struct ask){.line = s.line};
    ask_start(&delete, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema, &all);
    ask_wait(&delete);
    CHECK_EQ(delete.code, RPC_OK);
    int64_t revision = caller_put(s.line, BYTES("k"), BYTES("behind them all"));
    start_compaction(&s, &compact, revision);
    finish_compaction(&s, &compact, revision);

    demand(&s, KEYS + 1, KEYS);
    ask_free(&delete);
    close_stage(&s);
}

TEST(a_delete_of_5000_keys_and_a_compaction_behind_it_lose_no_event)
{
    peer_need();
    delete_put_compact(false);
    delete_put_compact(true);
}

/* More changes in one revision than are shown one by one; all three are on their way at once. */
static void huge_transaction_put_compact(bool ours)
{
    enum { KEYS = 3000 };
    struct stage s = {0};
    struct ask txn = {0}, put = {0}, compact;
    struct pb_put_request one = {.key = BYTES("k"), .value = BYTES("1")};
    open_stage(&s, ours);
    int64_t revision = caller_put(s.line, BYTES("k"), BYTES("0")) + 2;
    watch_all(&s);

    txn.line = put.line = s.line;
    start_puts(&s, &txn, 0, KEYS);
    ask_start(&put, "/etcdserverpb.KV/Put", &pb_put_request_schema, &one);
    start_compaction(&s, &compact, revision);
    ask_wait(&txn);
    ask_wait(&put);
    finish_compaction(&s, &compact, revision);

    CHECK_EQ(txn.code, RPC_OK);
    demand(&s, KEYS + 1, 1);
    ask_free(&txn);
    ask_free(&put);
    close_stage(&s);
}

TEST(a_revision_of_3000_changes_and_a_compaction_behind_it_lose_no_event)
{
    peer_need();
    huge_transaction_put_compact(false);
    huge_transaction_put_compact(true);
}

/* More than a stream is given at once, and no time for the client to read in between. */
static void puts_compact(bool ours)
{
    enum { PUTS = 100, VALUE = 2000 };
    struct stage s = {0};
    struct ask puts[PUTS] = {0}, compact;
    uint8_t *value = mem_alloc(VALUE);
    struct pb_put_request one = {.key = BYTES("k"), .value = bytes_of(value, VALUE)};
    open_stage(&s, ours);
    int64_t revision = caller_put(s.line, BYTES("k"), BYTES("0")) + PUTS;
    watch_all(&s);

    for (unsigned i = 0; i < PUTS; i++) {
        puts[i].line = s.line;
        ask_start(&puts[i], "/etcdserverpb.KV/Put", &pb_put_request_schema, &one);
    }
    start_compaction(&s, &compact, revision);
    for (unsigned i = 0; i < PUTS; i++) {
        ask_wait(&puts[i]);
        CHECK_EQ(puts[i].code, RPC_OK);
        ask_free(&puts[i]);
    }
    finish_compaction(&s, &compact, revision);

    demand(&s, PUTS, PUTS);
    mem_free(value);
    close_stage(&s);
}

TEST(puts_beyond_what_a_stream_holds_and_a_compaction_behind_them_lose_no_event)
{
    peer_need();
    puts_compact(false);
    puts_compact(true);
}
