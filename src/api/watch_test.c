#include "api/api_rig_test.h"

#include <stdio.h>

#define WATCH "/etcdserverpb.Watch/Watch"

static void say(struct visit *v, const struct pb_watch_request *request)
{
    api_rig_say(v, &pb_watch_request_schema, request);
}

static void say_create(struct visit *v, const struct pb_watch_create_request *create)
{
    say(v, &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = create});
}

static void say_cancel(struct visit *v, int64_t id)
{
    struct pb_watch_cancel_request cancel = {.watch_id = id};

    say(v, &(struct pb_watch_request){.which = PB_WATCH_CANCEL, .cancel = &cancel});
}

static void say_progress(struct visit *v)
{
    struct pb_empty nothing = {0};

    say(v, &(struct pb_watch_request){.which = PB_WATCH_PROGRESS, .progress = &nothing});
}

/* One line: "#id created|canceled... @revision PUT a=1 DELETE b". */
static void describe(const struct visit *v, size_t nth, struct buf *out)
{
    struct arena arena = {0};
    struct pb_watch_response r;

    visit_decode(v, nth, &pb_watch_response_schema, &arena, &r);
    CHECK_EQ(r.header->cluster_id, API_RIG_CLUSTER_ID);
    CHECK_EQ(r.header->member_id, APPLY_RIG_OWN_ID);
    CHECK_EQ(r.header->raft_term, API_RIG_TERM);
    buf_printf(out, "#%lld", (long long)r.watch_id);
    if (r.created)
        buf_append_str(out, " created");
    if (r.canceled)
        buf_append_str(out, " canceled");
    if (r.compact_revision)
        buf_printf(out, " compacted=%lld", (long long)r.compact_revision);
    if (r.cancel_reason.len)
        buf_printf(out, " (%.*s)", (int)r.cancel_reason.len, (const char *)r.cancel_reason.at);
    buf_printf(out, " @%lld", (long long)r.header->revision);
    for (size_t i = 0; i < r.events.count; i++) {
        const struct pb_event *e = &r.events.at[i];
        buf_append_str(out, e->type == PB_EVENT_DELETE ? " DELETE " : " PUT ");
        apply_rig_print(e->kv->key, out);
        if (e->type == PB_EVENT_PUT) {
            buf_append_byte(out, '=');
            apply_rig_print(e->kv->value, out);
        }
        if (e->prev_kv) {
            buf_append_str(out, " was ");
            apply_rig_print(e->prev_kv->value, out);
        }
    }
    arena_free(&arena);
}

static void check_message(struct api_rig *k, struct visit *v, size_t nth, const char *want)
{
    struct buf line = {0};

    api_rig_until_messages(k, v, nth + 1);
    describe(v, nth, &line);
    CHECK_STR(buf_str(&line), want);
    buf_free(&line);
}

static void put_behind(struct api_rig *k, const char *key, struct bytes value)
{
    struct pb_put_request put = {.key = bytes_of_str(key), .value = value};

    api_rig_apply(k, &(struct pb_internal_raft_request){.put = &put});
}

/* ---- What works ---- */

TEST(a_watch_sees_what_happens_from_then_on)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    api_rig_put(&k, "a", "1");
    api_rig_stream(&k, &v, WATCH);

    say_create(&v, &(struct pb_watch_create_request){.key = BYTES("a")});
    check_message(&k, &v, 0, "#0 created @2");
    api_rig_put(&k, "b", "no");
    api_rig_put(&k, "a", "2");
    check_message(&k, &v, 1, "#0 @4 PUT a=2");
    say_create(
        &v, &(struct pb_watch_create_request){
                .key = BYTES("a"), .range_end = BYTES("z"), .start_revision = 2, .prev_kv = true});
    check_message(&k, &v, 2, "#1 created @4");
    check_message(&k, &v, 3, "#1 @4 PUT a=1 PUT b=no PUT a=2 was 1");
    say_progress(&v);
    check_message(&k, &v, 4, "#-1 @4");
    say_cancel(&v, 7); /* nobody's: no answer */
    say_cancel(&v, 0);
    check_message(&k, &v, 5, "#0 canceled @4");
    CHECK_EQ(k.proposed, 3);

    visit_free(&v);
    api_rig_close(&k);
}

TEST(a_watch_that_cannot_be_created_is_told_and_the_stream_goes_on)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    api_rig_stream(&k, &v, WATCH);

    say_create(&v, &(struct pb_watch_create_request){.key = BYTES("b"), .range_end = BYTES("a")});
    check_message(&k, &v, 0, "#-1 created canceled (mvcc: watcher range is empty) @1");
    say_create(&v, &(struct pb_watch_create_request){.key = BYTES("b"), .watch_id = 5});
    check_message(&k, &v, 1, "#5 created @1");
    say_create(&v, &(struct pb_watch_create_request){.key = BYTES("b"), .watch_id = 5});
    check_message(&k, &v, 2,
                  "#-1 created canceled (mvcc: duplicate watch ID provided on the WatchStream) @1");
    say(&v, &(struct pb_watch_request){0}); /* asks for nothing */
    api_rig_put(&k, "b", "1");
    check_message(&k, &v, 3, "#5 @2 PUT b=1");

    visit_free(&v);
    api_rig_close(&k);
}

TEST(a_watch_below_the_compaction_is_cancelled)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    for (unsigned i = 0; i < 5; i++)
        api_rig_put(&k, "a", "x");
    struct pb_compaction_request compact = {.revision = 4};
    api_rig_apply(&k, &(struct pb_internal_raft_request){.compaction = &compact});
    api_rig_stream(&k, &v, WATCH);

    say_create(&v, &(struct pb_watch_create_request){.key = BYTES("a"), .start_revision = 3});
    check_message(&k, &v, 0, "#0 created @6");
    check_message(&k, &v, 1, "#0 canceled compacted=4 @0");

    visit_free(&v);
    api_rig_close(&k);
}

TEST(a_watch_outlives_the_end_of_its_requests)
{
    struct api_rig k;
    struct visit v;
    api_rig_open(&k);
    api_rig_stream(&k, &v, WATCH);
    say_create(&v, &(struct pb_watch_create_request){.key = BYTES("a")});
    client_end(v.call);
    check_message(&k, &v, 0, "#0 created @1");

    api_rig_for_ms(&k, 5000);
    api_rig_put(&k, "a", "1");
    check_message(&k, &v, 1, "#0 @2 PUT a=1");
    CHECK(!v.is_over);

    visit_free(&v);
    api_rig_for_ms(&k, 100);
    CHECK_EQ(watch_status(k.watch).streams, 0);
    api_rig_close(&k);
}

/* ---- Clients that do not read ---- */

/* Counts the events of all messages, and that their revisions follow each other. */
static size_t count_events(const struct visit *v, int64_t first_revision)
{
    int64_t next = first_revision;
    size_t count = 0;

    for (size_t i = 0; i < v->message_count; i++) {
        struct arena arena = {0};
        struct pb_watch_response r;
        visit_decode(v, i, &pb_watch_response_schema, &arena, &r);
        for (size_t j = 0; j < r.events.count; j++) {
            CHECK_EQ(r.events.at[j].kv->mod_revision, next);
            next++;
            count++;
        }
        arena_free(&arena);
    }
    return count;
}

TEST(a_watch_that_is_not_read_costs_little_and_misses_nothing)
{
    struct api_rig k;
    struct visit slow;
    struct buf value = {0};
    enum { PUTS = 300, BYTES_EACH = 50000 };
    api_rig_open(&k);
    memset(buf_extend(&value, BYTES_EACH), 'v', BYTES_EACH);
    api_rig_stream(&k, &slow, WATCH);
    say_create(&slow, &(struct pb_watch_create_request){.key = BYTES("a")});
    check_message(&k, &slow, 0, "#0 created @1");
    api_rig_client_reads(&k, false);

    for (unsigned i = 0; i < PUTS; i++) {
        put_behind(&k, "a", buf_bytes(&value));
        api_rig_turn(&k);
    }
    api_rig_for_ms(&k, 1000);
    CHECK(watch_status(k.watch).bytes < 2 * RPC_STREAM_CREDIT_BYTES);
    CHECK_EQ(watch_status(k.watch).lagging, 1);

    api_rig_client_reads(&k, true);
    api_rig_for_ms(&k, 5000);
    CHECK_EQ(count_events(&slow, 2), PUTS);
    CHECK_EQ(watch_status(k.watch).live, 1);

    visit_free(&slow);
    buf_free(&value);
    api_rig_close(&k);
}

/* While one does not read, others on other streams of their own go on. */
TEST(a_watch_that_is_not_read_does_not_hold_up_the_others)
{
    struct api_rig k;
    struct client *other;
    struct visit v;
    api_rig_open(&k);
    struct visit slow;
    struct buf value = {0};
    memset(buf_extend(&value, 400000), 'v', 400000);
    api_rig_stream(&k, &slow, WATCH);
    say_create(&slow, &(struct pb_watch_create_request){.key = BYTES("a")});
    check_message(&k, &slow, 0, "#0 created @1");
    api_rig_client_reads(&k, false);
    other = k.client;
    k.client =
        client_open(&(struct client_options){.io = fake_world_io(k.world), .address = k.address});

    api_rig_stream(&k, &v, WATCH);
    say_create(&v, &(struct pb_watch_create_request){.key = BYTES("a")});
    api_rig_until_messages(&k, &v, 1);
    for (unsigned i = 0; i < 20; i++) {
        put_behind(&k, "a", buf_bytes(&value));
        api_rig_until_messages(&k, &v, 2 + i);
    }
    CHECK_EQ(count_events(&v, 2), 20);
    CHECK_EQ(slow.message_count, 1);

    visit_free(&slow);
    visit_free(&v);
    client_close(other);
    buf_free(&value);
    api_rig_close(&k);
}

TEST(a_flood_of_creates_is_not_read_further_than_there_is_room)
{
    struct api_rig k;
    struct visit v;
    enum { CREATES = 60000 };
    api_rig_open(&k);
    api_rig_stream(&k, &v, WATCH);
    api_rig_client_reads(&k, false);

    for (unsigned i = 0; i < CREATES; i++)
        say_create(&v, &(struct pb_watch_create_request){.key = BYTES("a")});
    api_rig_for_ms(&k, 2000);
    CHECK(watch_status(k.watch).watchers < CREATES);
    CHECK(client_queued(v.call) > 0);
    api_rig_client_reads(&k, true);
    api_rig_until_messages(&k, &v, CREATES);
    CHECK_EQ(watch_status(k.watch).watchers, CREATES);

    visit_free(&v);
    api_rig_close(&k);
}

/* ---- Huge revisions ---- */

/* One transaction with more than a blob may hold: its events are read a chunk at a time. */
TEST(a_watch_gets_a_huge_revision_in_one_message)
{
    struct api_rig k;
    struct visit v;
    struct arena arena = {0};
    struct pb_watch_response r;
    enum { PUTS = 100, BYTES_EACH = 10000 };
    struct pb_put_request puts[PUTS];
    struct pb_request_op ops[PUTS];
    api_rig_open(&k);
    struct buf value = {0};
    memset(buf_extend(&value, BYTES_EACH), 'v', BYTES_EACH);
    for (unsigned i = 0; i < PUTS; i++) {
        puts[i] = (struct pb_put_request){.key = bytes_of_str(arena_printf(&arena, "k%03u", i)),
                                          .value = buf_bytes(&value)};
        ops[i] = (struct pb_request_op){.which = PB_OP_PUT, .put = &puts[i]};
    }
    api_rig_stream(&k, &v, WATCH);
    say_create(&v, &(struct pb_watch_create_request){.key = BYTES("k"), .range_end = BYTES("l")});
    check_message(&k, &v, 0, "#0 created @1");

    struct pb_txn_request txn = {.success = {.at = ops, .count = PUTS}};
    api_rig_apply(&k, &(struct pb_internal_raft_request){.txn = &txn});
    api_rig_until_messages(&k, &v, 2);
    visit_decode(&v, 1, &pb_watch_response_schema, &arena, &r);
    CHECK_EQ(r.header->revision, 2);
    CHECK_EQ(r.events.count, PUTS);
    CHECK_BYTES(r.events.at[PUTS - 1].kv->key, BYTES("k099"));
    put_behind(&k, "k1", BYTES("x"));
    check_message(&k, &v, 2, "#0 @3 PUT k1=x");

    visit_free(&v);
    buf_free(&value);
    arena_free(&arena);
    api_rig_close(&k);
}

static void put_both(struct api_rig *k, struct bytes a, struct bytes b)
{
    struct pb_put_request puts[] = {{.key = BYTES("a"), .value = a},
                                    {.key = BYTES("b"), .value = b}};
    struct pb_request_op ops[] = {{.which = PB_OP_PUT, .put = &puts[0]},
                                  {.which = PB_OP_PUT, .put = &puts[1]}};
    struct pb_txn_request txn = {.success = {.at = ops, .count = 2}};

    api_rig_apply(k, &(struct pb_internal_raft_request){.txn = &txn});
}

/* The nth message has one event, of this key, and is followed by others of its revision or not. */
static void check_fragment(struct api_rig *k, struct visit *v, size_t nth, struct bytes key,
                           bool goes_on)
{
    struct arena arena = {0};
    struct pb_watch_response r;

    api_rig_until_messages(k, v, nth + 1);
    visit_decode(v, nth, &pb_watch_response_schema, &arena, &r);
    CHECK_EQ(r.fragment, goes_on);
    CHECK_EQ(r.events.count, 1);
    CHECK_BYTES(r.events.at[0].kv->key, key);
    arena_free(&arena);
}

/*
 * A value and the one before it are more than a fragment holds, so what comes behind them in their
 * revision is a fragment of its own; and it is a long message as they are, with next to no bytes.
 */
TEST(the_last_fragment_of_a_huge_revision_may_be_tiny)
{
    struct api_rig k;
    struct visit live, late;
    struct buf value = {0};
    enum { ROUNDS = 3, BYTES_EACH = 1200000 };
    struct pb_watch_create_request create = {
        .key = BYTES("a"), .range_end = BYTES("c"), .prev_kv = true, .fragment = true};
    api_rig_open(&k);
    memset(buf_extend(&value, BYTES_EACH), 'v', BYTES_EACH);
    put_behind(&k, "a", buf_bytes(&value));
    api_rig_stream(&k, &live, WATCH);
    say_create(&live, &create);
    check_message(&k, &live, 0, "#0 created @2");

    for (size_t i = 0; i < ROUNDS; i++) {
        put_both(&k, buf_bytes(&value), BYTES("x"));
        check_fragment(&k, &live, 1 + 2 * i, BYTES("a"), true);
        check_fragment(&k, &live, 2 + 2 * i, BYTES("b"), false);
    }
    api_rig_stream(&k, &late, WATCH);
    create.start_revision = 3;
    say_create(&late, &create);
    check_message(&k, &late, 0, "#0 created @5");
    for (size_t i = 0; i < ROUNDS; i++) {
        check_fragment(&k, &late, 1 + 2 * i, BYTES("a"), true);
        check_fragment(&k, &late, 2 + 2 * i, BYTES("b"), false);
    }
    put_behind(&k, "b", BYTES("y"));
    check_message(&k, &live, 1 + 2 * ROUNDS, "#0 @6 PUT b=y was x");
    check_message(&k, &late, 1 + 2 * ROUNDS, "#0 @6 PUT b=y was x");

    visit_free(&live);
    visit_free(&late);
    buf_free(&value);
    api_rig_close(&k);
}

/* It goes away with half of it sent. */
TEST(a_watch_that_goes_in_the_middle_of_a_huge_message_leaves_nothing)
{
    struct api_rig k;
    struct visit v;
    struct buf value = {0};
    api_rig_open(&k);
    memset(buf_extend(&value, 1400000), 'v', 1400000);
    api_rig_stream(&k, &v, WATCH);
    say_create(&v, &(struct pb_watch_create_request){.key = BYTES("k"), .range_end = BYTES("l")});
    check_message(&k, &v, 0, "#0 created @1");
    api_rig_client_reads(&k, false);
    put_behind(&k, "k1", buf_bytes(&value));
    api_rig_for_ms(&k, 500);

    fake_wire_reset(client_conn(k.client));
    v.call = NULL; /* it goes with its connection */
    client_close(k.client);
    k.client =
        client_open(&(struct client_options){.io = fake_world_io(k.world), .address = k.address});
    api_rig_for_ms(&k, 500);
    CHECK_EQ(watch_status(k.watch).streams, 0);
    CHECK_EQ(api_status(k.api).calls, 0);

    visit_free(&v);
    buf_free(&value);
    api_rig_close(&k);
}

/* --- many streams --- */

static size_t events_heard(const struct visit *v)
{
    struct arena arena = {0};
    size_t count = 0;

    for (size_t i = 0; i < v->message_count; i++) {
        struct pb_watch_response response;
        visit_decode(v, i, &pb_watch_response_schema, &arena, &response);
        count += response.events.count;
    }
    arena_free(&arena);
    return count;
}

/* Most of them have little credit: their watchers catch up from history. */
TEST(on_a_connection_with_many_streams_every_watch_hears_of_everything)
{
    enum { STREAMS = 400, PUTS = 30 };
    static struct visit v[STREAMS];
    struct pb_watch_create_request create = {.key = BYTES("k")};
    struct api_rig k;
    char value[1000];
    api_rig_open(&k);
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';

    for (unsigned i = 0; i < STREAMS; i++) {
        api_rig_stream(&k, &v[i], "/etcdserverpb.Watch/Watch");
        api_rig_say(&v[i], &pb_watch_request_schema,
                    &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    }
    for (unsigned i = 0; i < STREAMS; i++)
        api_rig_until_messages(&k, &v[i], 1);
    for (unsigned i = 0; i < PUTS; i++) {
        struct pb_put_request put = {.key = BYTES("k"), .value = bytes_of_str(value)};
        api_rig_apply(&k, &(struct pb_internal_raft_request){.put = &put});
    }
    api_rig_for_ms(&k, 2000);

    for (unsigned i = 0; i < STREAMS; i++) {
        CHECK_EQ(events_heard(&v[i]), PUTS);
        visit_free(&v[i]);
    }
    api_rig_close(&k);
}
