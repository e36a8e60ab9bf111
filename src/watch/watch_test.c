/*
 * What scenarios cannot show: sharing, sizes, slices, and the ends of things.
 */
#include "watch/watch_rig_test.h"

#include <stdio.h>

static const struct pb_watch_create_request everything = {.key = {(const uint8_t *)"\0", 1},
                                                          .range_end = {(const uint8_t *)"\0", 1}};

static void put_many(struct watch_rig *r, const char *prefix, unsigned count, size_t value_bytes)
{
    char key[64];
    struct buf value = {0};

    memset(buf_extend(&value, value_bytes), 'v', value_bytes);
    for (unsigned n = 0; n < count; n++) {
        snprintf(key, sizeof(key), "%s%05u", prefix, n);
        mvcc_put(r->mvcc_rig.m, bytes_of_str(key), buf_bytes(&value), 0);
    }
    buf_free(&value);
}

static void put_many_apart(struct watch_rig *r, const char *key, unsigned count)
{
    for (unsigned n = 0; n < count; n++) {
        struct mvcc_changes changes;
        mvcc_rig_begin(&r->mvcc_rig);
        mvcc_put(r->mvcc_rig.m, bytes_of_str(key), BYTES("v"), 0);
        changes = mvcc_rig_end(&r->mvcc_rig);
        watch_changed(r->w, &changes);
    }
}

/* Takes and drops everything, as fast as it comes; how many messages that were. */
static size_t drain(struct watch_rig *r)
{
    size_t count = 0;

    for (bool busy = true; busy;) {
        watch_rig_settle(r, MVCC_SLICE_STEPS);
        busy = watch_rig_next(r)[0] != '\0';
        count += busy;
    }
    return count;
}

/* --- sharing --- */

static void create_in_many_ways(struct watch_rig *r, struct watch_stream *s)
{
    watch_rig_create(r, s, &(struct pb_watch_create_request){.key = BYTES("a")});
    watch_rig_create(r, s, &(struct pb_watch_create_request){.key = BYTES("a")});
    watch_rig_create(r, s, &everything);
    watch_rig_create(r, s,
                     &(struct pb_watch_create_request){.key = BYTES("a"), .range_end = BYTES("c")});
}

TEST(watchers_that_see_the_same_share_one_blob)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    create_in_many_ways(&r, s);
    drain(&r);

    watch_rig_put(&r, "a", "1");

    struct watch_message first, m;
    CHECK(watch_take(r.w, &first));
    for (unsigned n = 1; n < 4; n++) {
        CHECK(watch_take(r.w, &m));
        CHECK(m.events == first.events);
        blob_unref(m.events);
        watch_sent(s, m.bytes);
    }
    CHECK(!watch_take(r.w, &m));
    CHECK_EQ(blob_ref_count(first.events), 1);
    blob_unref(first.events);
    watch_stream_close(s);
    watch_rig_free(&r);
}

TEST(lagging_watchers_share_too)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    put_many_apart(&r, "a", 10);
    for (unsigned n = 0; n < 3; n++)
        watch_rig_create(&r, s,
                         &(struct pb_watch_create_request){.key = BYTES("a"), .start_revision = 5});

    watch_rig_settle(&r, 100);

    struct watch_message m;
    struct blob *shared = NULL;
    while (watch_take(r.w, &m)) {
        CHECK(m.created || !shared || m.events == shared);
        if (!m.created && !shared)
            shared = blob_ref(m.events);
        blob_unref(m.events);
    }
    CHECK(shared);
    CHECK_EQ(blob_ref_count(shared), 1);
    blob_unref(shared);
    watch_stream_close(s);
    watch_rig_free(&r);
}

TEST(streams_take_turns)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *a = watch_rig_stream(&r, 1 * MIB);
    struct watch_stream *b = watch_rig_stream(&r, 1 * MIB);
    for (unsigned n = 0; n < 3; n++)
        watch_rig_create(&r, a, &everything);
    watch_rig_create(&r, b, &everything);

    const struct watch_stream *const order[] = {a, b, a, a};
    for (unsigned n = 0; n < 4; n++) {
        struct watch_message m;
        CHECK(watch_take(r.w, &m));
        CHECK(m.stream == order[n]);
    }
    watch_stream_close(a);
    watch_stream_close(b);
    watch_rig_free(&r);
}

/* --- credit --- */

TEST(a_stream_is_overdrawn_by_one_message_at_most)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 700);
    struct watch_stream *quick = watch_rig_stream(&r, 1 * MIB);
    for (unsigned n = 0; n < 8; n++)
        watch_rig_create(&r, s, &everything);
    watch_rig_create(&r, quick, &everything);
    CHECK_EQ(watch_stream_credit(s), 700 - 8 * 64);

    for (unsigned n = 0; n < 100; n++)
        watch_rig_put(&r, "a", "a value of some length, which makes the message larger than 64");

    CHECK_EQ(watch_stream_credit(s), 0);
    CHECK_EQ(watch_status(r.w).lagging, 8);
    size_t held = 0;
    struct watch_message m;
    while (watch_take(r.w, &m)) {
        if (m.stream == s)
            held += m.bytes;
        blob_unref(m.events);
    }
    CHECK(held > 700 && held < 800);
    watch_stream_close(s);
    watch_stream_close(quick);
    watch_rig_free(&r);
}

TEST(what_a_message_costs_beyond_its_events_is_credit_of_its_stream)
{
    struct watch_rig r;
    struct watch_message m;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1000);
    watch_rig_create(&r, s, &everything);
    CHECK(watch_take(r.w, &m));

    watch_costs_more(s, 936);
    CHECK_EQ(watch_stream_credit(s), 0);
    watch_rig_put(&r, "a", "1");
    CHECK_EQ(watch_status(r.w).lagging, 1);
    watch_sent(s, 1000);
    CHECK_EQ(watch_stream_credit(s), 1000);
    watch_rig_settle(&r, 100);

    CHECK_STR(watch_rig_next(&r), "#0 revision=2 put a=1@2");
    watch_stream_close(s);
    watch_rig_free(&r);
}

TEST(room_for_few_does_not_wake_all)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 64 * 100);
    for (unsigned n = 0; n < 100; n++)
        watch_rig_create(&r, s, &everything);
    watch_rig_put(&r, "a", "1");
    CHECK_EQ(watch_status(r.w).lagging, 100);

    struct watch_message m;
    CHECK(watch_take(r.w, &m));
    watch_sent(s, m.bytes);

    CHECK(watch_work(r.w, 30, r.now_ms));
    CHECK_EQ(watch_status(r.w).lagging, 99);
    CHECK_EQ(drain(&r), 99 + 100); /* the other answers, then everybody's event */
    CHECK_EQ(watch_status(r.w).live, 100);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* --- too much in one revision --- */

TEST(a_revision_with_too_many_bytes_leaves_some_behind_for_a_moment)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 64 * MIB);
    for (unsigned n = 0; n < 1000; n++) {
        char key[16];
        snprintf(key, sizeof(key), "k%05u", n);
        watch_create(s, &(struct pb_watch_create_request){.key = bytes_of_str(key)}, NULL, 0);
    }
    drain(&r);

    watch_rig_begin(&r);
    put_many(&r, "k", 1000, 6000);
    watch_rig_end(&r);

    size_t behind = watch_status(r.w).lagging;
    CHECK(behind > 200 && behind < 500);
    CHECK_EQ(drain(&r), 1000);
    CHECK_EQ(watch_status(r.w).live, 1000);
    watch_rig_put(&r, "k00999", "again");
    CHECK_STR(watch_rig_next(&r), "#999 revision=3 put k00999=again@3");
    watch_stream_close(s);
    watch_rig_free(&r);
}

TEST(a_long_message_reads_what_was_measured_whatever_is_written_meanwhile)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    struct pb_watch_create_request request = everything;
    request.prev_kv = true;
    watch_rig_create(&r, s, &request);
    watch_rig_begin(&r);
    put_many(&r, "k", 100, 3000);
    watch_rig_end(&r);
    drain(&r);

    watch_rig_begin(&r);
    put_many(&r, "k", 100, 2000);
    watch_rig_end(&r);
    struct watch_message m;
    CHECK(watch_take(r.w, &m));
    CHECK(m.long_events);
    struct buf events = {0};
    bool done = false;
    while (!done) {
        watch_rig_put(&r, "k00050", "x");
        size_t before = events.len;
        CHECK_EQ(watch_long_read(m.long_events, 10000, &events, &done), ERR_OK);
        CHECK(events.len - before <= 10000);
    }

    CHECK_EQ(events.len, watch_long_bytes(m.long_events));
    CHECK_EQ(events.len, m.bytes);
    watch_long_end(m.long_events);
    buf_free(&events);
    watch_stream_close(s);
    watch_rig_free(&r);
}

static struct watch_long *take_long(struct watch_rig *r, bool prev)
{
    struct pb_watch_create_request request = everything;
    struct watch_message m;
    struct watch_stream *s = watch_rig_stream(r, 1 * MIB);

    request.prev_kv = prev;
    request.start_revision = 3;
    watch_rig_create(r, s, &request);
    watch_rig_settle(r, 100);
    CHECK(watch_take(r->w, &m) && m.created);
    CHECK(watch_take(r->w, &m) && m.long_events);
    watch_stream_close(s); /* the message lives on */
    return m.long_events;
}

/* After a minute the bytes that were announced can no longer be had: only a reset is honest. */
TEST(a_long_message_is_overtaken_by_compaction_in_the_end)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    for (unsigned n = 0; n < 3; n++) {
        watch_rig_begin(&r);
        put_many(&r, "k", 100, 3000);
        watch_rig_end(&r);
    }
    struct watch_long *plain = take_long(&r, false), *prev = take_long(&r, true);
    struct buf events = {0};
    bool done;
    CHECK_EQ(watch_long_read(plain, 5000, &events, &done), ERR_OK);
    CHECK_EQ(watch_long_read(prev, 5000, &events, &done), ERR_OK);

    watch_rig_compact(&r, 2);
    CHECK_EQ(watch_long_read(prev, 5000, &events, &done), ERR_OK);
    watch_rig_compact(&r, 3);
    CHECK_EQ(watch_long_read(prev, 5000, &events, &done), ERR_OK);
    for (unsigned n = 0; n < 2; n++) {
        r.now_ms += 2ull * WATCH_FLOOR_MS;
        watch_rig_settle(&r, 100);
    }

    CHECK_EQ(watch_long_read(plain, 5000, &events, &done), ERR_CANCELED);
    CHECK_EQ(watch_long_read(prev, 5000, &events, &done), ERR_CANCELED);
    watch_long_end(plain);
    watch_long_end(prev);
    buf_free(&events);
    watch_rig_free(&r);
}

/* If it were read whole, each of many clients that do not read would hold one. */
TEST(an_event_that_is_long_is_read_in_parts)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    struct pb_watch_create_request request = everything;
    request.prev_kv = true;
    watch_rig_create(&r, s, &request);
    drain(&r);
    struct buf parts = {0};
    for (unsigned i = 0; i < 2; i++) {
        watch_rig_begin(&r);
        put_many(&r, "k", 3, 300000);
        watch_rig_end(&r);
    }
    struct watch_message m;
    CHECK(watch_take(r.w, &m));
    watch_long_end(m.long_events);
    watch_sent(s, m.bytes);
    watch_rig_settle(&r, 500);
    CHECK(watch_take(r.w, &m));
    CHECK(m.long_events);
    CHECK(m.bytes > 6 * 300000);

    bool done = false;
    while (!done) {
        size_t before = parts.len;
        CHECK_EQ(watch_long_read(m.long_events, 5000, &parts, &done), ERR_OK);
        CHECK(parts.len - before <= WATCH_PART_BYTES);
    }

    struct pb_watch_response response;
    struct arena arena = {0};
    CHECK_EQ(parts.len, m.bytes);
    CHECK_EQ(pb_decode(&pb_watch_response_schema, buf_bytes(&parts), &arena, &response), ERR_OK);
    CHECK_EQ(response.events.count, 3);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQ(response.events.at[i].kv->value.len, 300000);
        CHECK_EQ(response.events.at[i].kv->version, 2);
        CHECK_EQ(response.events.at[i].prev_kv->value.len, 300000);
        CHECK_EQ(response.events.at[i].prev_kv->version, 1);
    }
    arena_free(&arena);
    watch_long_end(m.long_events);
    buf_free(&parts);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* Most of a huge revision is not for this watcher: a read may find nothing in its slice. */
TEST(reading_a_sparse_long_message_goes_in_slices)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    watch_rig_create(&r, s,
                     &(struct pb_watch_create_request){.key = BYTES("k"), .range_end = BYTES("l")});
    drain(&r);
    watch_rig_begin(&r);
    put_many(&r, "a", 3 * MVCC_SLICE_STEPS, 1);
    put_many(&r, "k", 100, 3000);
    watch_rig_end(&r);
    watch_rig_settle(&r, 500);

    struct watch_message m;
    struct buf events = {0};
    bool done;
    CHECK(watch_take(r.w, &m));
    CHECK_EQ(watch_long_read(m.long_events, 1 * MIB, &events, &done), ERR_OK);
    while (!done)
        CHECK_EQ(watch_long_read(m.long_events, 1 * MIB, &events, &done), ERR_OK);
    CHECK_EQ(events.len, m.bytes);

    watch_long_end(m.long_events);
    buf_free(&events);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* --- slices --- */

TEST(catching_up_looks_at_no_more_than_it_may)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    put_many_apart(&r, "a", 5000);
    watch_rig_create(&r, s,
                     &(struct pb_watch_create_request){.key = BYTES("b"), .start_revision = 2});

    size_t slices = watch_rig_settle(&r, 100);

    CHECK(slices >= 50 && slices <= 60);
    CHECK_EQ(watch_status(r.w).live, 1);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* Whoever reads a value has it checked, whether anybody wants it or not. */
TEST(catching_up_looks_at_fewer_of_large_values)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    for (unsigned n = 0; n < 200; n++) {
        watch_rig_begin(&r);
        put_many(&r, "a", 1, 16 * MVCC_HASH_STEP_BYTES);
        watch_rig_end(&r);
    }
    watch_rig_create(&r, s,
                     &(struct pb_watch_create_request){.key = BYTES("b"), .start_revision = 2});

    size_t slices = watch_rig_settle(&r, 100);

    CHECK(slices >= 200 / 6);
    CHECK_EQ(watch_status(r.w).live, 1);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* Watchers that lag apart meet, and one walk serves them all. */
TEST(watchers_behind_each_other_walk_together)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    put_many_apart(&r, "a", 5000);
    for (int64_t n = 0; n < 50; n++)
        watch_rig_create(
            &r, s, &(struct pb_watch_create_request){.key = BYTES("b"), .start_revision = 2 + n});

    size_t slices = watch_rig_settle(&r, 100);

    CHECK(slices < 2 * 50); /* 50 walks of their own would be 2500 */
    CHECK_EQ(watch_status(r.w).live, 50);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* A stream far behind does not hold up one that is nearly there. */
TEST(the_one_who_is_nearly_there_does_not_wait)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *far = watch_rig_stream(&r, 1 * MIB);
    struct watch_stream *near = watch_rig_stream(&r, 1 * MIB);
    put_many_apart(&r, "a", 60000);
    watch_rig_create(&r, far,
                     &(struct pb_watch_create_request){.key = BYTES("b"), .start_revision = 2});
    watch_work(r.w, 1000, 0);
    watch_rig_create(&r, near,
                     &(struct pb_watch_create_request){.key = BYTES("b"), .start_revision = 59990});

    unsigned slices = 0;
    for (; watch_status(r.w).live == 0; slices++)
        watch_work(r.w, 1000, 0);

    CHECK(slices <= 10);
    CHECK_EQ(watch_status(r.w).lagging, 1);
    watch_stream_close(far);
    watch_stream_close(near);
    watch_rig_free(&r);
}

TEST(a_stream_with_many_watchers_ends_in_slices)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    for (unsigned n = 0; n < 2000; n++)
        watch_create(s, n % 2 ? &everything : &(struct pb_watch_create_request){.key = BYTES("a")},
                     NULL, 0);

    watch_stream_close(s);

    struct watch_status status = watch_status(r.w);
    CHECK_EQ(status.watchers, 0);
    CHECK_EQ(status.streams, 0);
    CHECK(!watch_work(r.w, 10, 0));
    watch_rig_put(&r, "a", "1"); /* concerns those that are still being taken down */
    struct watch_message m;
    CHECK(!watch_take(r.w, &m));
    CHECK(watch_rig_settle(&r, 100) >= 10);
    watch_rig_free(&r);
}

TEST(a_hub_may_end_while_streams_are_being_taken_down)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    put_many_apart(&r, "a", 10);
    for (unsigned n = 0; n < 2000; n++)
        watch_create(s,
                     &(struct pb_watch_create_request){.key = BYTES("a"),
                                                       .start_revision = n % 3 ? n % 15 : 0},
                     NULL, 0);
    watch_work(r.w, 700, 0);

    watch_stream_close(s);

    watch_rig_free(&r);
}

/* --- memory --- */

TEST(a_live_watcher_of_one_key_is_small)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    size_t before = watch_status(r.w).bytes;

    for (unsigned n = 0; n < 5000; n++) {
        char key[40];
        struct watch_message m;
        snprintf(key, sizeof(key), "a key of some thirty-two%08u", n);
        watch_create(s, &(struct pb_watch_create_request){.key = bytes_of(key, 32)}, NULL, 0);
        CHECK(watch_take(r.w, &m));
        watch_sent(s, m.bytes);
    }

    CHECK((watch_status(r.w).bytes - before) / 5000 <
          WATCH_WATCHER_BYTES - 32); /* malloc's share */
    watch_check(r.w);
    watch_stream_close(s);
    watch_rig_free(&r);
}

TEST(a_slow_stream_costs_no_memory_while_others_go_on)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 200);
    watch_rig_create(&r, s, &everything);
    put_many_apart(&r, "a", 10);
    size_t before = watch_status(r.w).bytes;

    put_many_apart(&r, "a", 10000);

    CHECK_EQ(watch_status(r.w).bytes, before);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* --- another store --- */

static void put_elsewhere(struct watch_rig *r, struct mvcc_rig *elsewhere, const char *value)
{
    mvcc_rig_begin(elsewhere);
    mvcc_put(elsewhere->m, BYTES("a"), bytes_of_str(value), 0);
    struct mvcc_changes changes = mvcc_rig_end(elsewhere);
    watch_changed(r->w, &changes);
    watch_check(r->w);
}

/* It should never lie behind; if it does, nobody is told a revision again that he knows. */
TEST(a_store_that_lies_behind_is_waited_for)
{
    struct watch_rig r;
    struct mvcc_rig behind;
    watch_rig_init(&r, NULL);
    mvcc_rig_init(&behind, BACKEND_RIG_MEMORY);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    watch_rig_create(&r, s, &everything);
    for (unsigned n = 0; n < 3; n++)
        watch_rig_put(&r, "a", "1");
    drain(&r);
    watch_rig_create(&r, s,
                     &(struct pb_watch_create_request){.key = BYTES("a"), .start_revision = 4});

    watch_store_replaced(r.w, behind.m);
    CHECK_EQ(drain(&r), 1); /* created */
    for (unsigned n = 0; n < 2; n++)
        put_elsewhere(&r, &behind, "2");
    CHECK_EQ(drain(&r), 0);
    put_elsewhere(&r, &behind, "3");
    watch_rig_settle(&r, 100);
    CHECK_STR(watch_rig_next(&r), "#1 revision=4 put a=3@4");
    put_elsewhere(&r, &behind, "4");
    watch_rig_settle(&r, 100);

    CHECK_STR(watch_rig_next(&r), "#1 revision=5 put a=4@5");
    CHECK_STR(watch_rig_next(&r), "#0 revision=5 put a=4@5");
    watch_stream_close(s);
    watch_rig_free(&r);
    mvcc_rig_free(&behind);
}

/* --- time --- */

/* The server does this when a look at the clock shows that the core thread waited for the disk. */
static bool notice_faults(void *context)
{
    struct watch_rig *r = context;

    mvcc_set_cold(r->mvcc_rig.m, true);
    return true;
}

/* A transaction changes many keys, and the values before them have to come from the disk. After the
 * first few the hub notices, gives up what it has gathered, and lets watchers catch up. */
TEST(a_store_that_turns_out_to_be_cold_is_not_read_on_for_live_watchers)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct pb_watch_create_request request = everything;
    watch_rig_begin(&r);
    put_many(&r, "k", 100, 10);
    watch_rig_end(&r);
    mvcc_rig_commit(&r.mvcc_rig);
    struct watch_stream *s = watch_rig_stream(&r, 1 << 20), *plain = watch_rig_stream(&r, 1 << 20);
    watch_rig_create(&r, plain, &request);
    request.prev_kv = true;
    watch_rig_create(&r, s, &request);
    drain(&r);
    mvcc_set_pace(r.mvcc_rig.m, notice_faults, &r);

    watch_rig_begin(&r);
    put_many(&r, "k", 100, 10);
    watch_rig_end(&r);

    CHECK(mvcc_is_cold(r.mvcc_rig.m));
    watch_check(r.w);
    CHECK_STR(watch_rig_next(&r), ""); /* neither has been sent a part of the revision */
    mvcc_set_pace(r.mvcc_rig.m, NULL, NULL);
    mvcc_set_cold(r.mvcc_rig.m, false);
    watch_rig_settle(&r, MVCC_SLICE_STEPS);
    for (int i = 0; i < 2; i++)
        CHECK(strstr(watch_rig_next(&r), " revision=3 put k00000=vvvvvvvvvv@3"));
    CHECK_STR(watch_rig_next(&r), "");
    watch_stream_close(s);
    watch_stream_close(plain);
    watch_rig_free(&r);
}

TEST(the_clock_is_needed_only_by_those_who_want_progress)
{
    struct watch_rig r;
    watch_rig_init(&r, &(struct watch_options){.progress_interval_ms = 1});
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    struct pb_watch_create_request request = everything;
    watch_rig_create(&r, s, &request);
    CHECK(watch_next_ms(r.w) == UINT64_MAX);

    request.progress_notify = true;
    watch_rig_create(&r, s, &request);

    uint64_t due = watch_next_ms(r.w); /* 100 ms is the least, and a stream adds up to a tenth */
    CHECK(due >= r.now_ms + 100 && due < r.now_ms + 110);
    drain(&r);
    r.now_ms = due - 1;
    CHECK_EQ(drain(&r), 0);
    r.now_ms = due;
    watch_rig_settle(&r, 1);
    CHECK_STR(watch_rig_next(&r), "#1 revision=1");
    CHECK_EQ(watch_next_ms(r.w), 2 * due - 1000);
    r.now_ms += 10 * 1000; /* a long pause is one round, not many */
    CHECK_EQ(drain(&r), 1);
    watch_cancel(s, 1);
    CHECK(watch_next_ms(r.w) == UINT64_MAX);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* --- a cold store --- */

/* Turns, in each of which a worker reads what was wanted before; until everybody is live. */
static size_t catch_up_cold(struct watch_rig *r)
{
    size_t turns = 0;

    while (watch_stats(r->w).lagging > 0) {
        CHECK(turns++ < 1000);
        (void)watch_work(r->w, TURN_WATCH_STEPS, r->now_ms);
        watch_check(r->w);
        while (mvcc_rig_warm(&r->mvcc_rig))
            ;
    }
    return turns;
}

static void put_each(struct watch_rig *r, unsigned count, const char *value)
{
    char key[16];

    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%05u", i);
        watch_rig_put(r, key, value);
    }
}

static struct watch_stream *watch_with_prev(struct watch_rig *r)
{
    struct pb_watch_create_request request = everything;
    struct watch_stream *s = watch_rig_stream(r, 16 * MIB);

    request.prev_kv = true;
    watch_rig_create(r, s, &request);
    drain(r);
    return s;
}

/* A change that is not committed yet is in memory, however cold the store is. */
TEST(a_live_watcher_of_a_cold_store_sees_at_once_what_a_batch_still_has)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_with_prev(&r);
    watch_rig_put(&r, "a", "1");
    drain(&r);
    mvcc_set_cold(r.mvcc_rig.m, true);

    watch_rig_put(&r, "a", "2");
    CHECK_STR(watch_rig_next(&r), "#0 revision=3 put a=2@3 was 1@2");
    backend_commit_start(r.mvcc_rig.backend_rig.b); /* the batch is frozen */
    watch_rig_put(&r, "a", "3");
    CHECK_STR(watch_rig_next(&r), "#0 revision=4 put a=3@4 was 2@3");
    mvcc_rig_commit(&r.mvcc_rig); /* from now on it is the disk that has it */
    mvcc_rig_commit(&r.mvcc_rig);
    watch_rig_put(&r, "a", "4");
    CHECK_STR(watch_rig_next(&r), "");

    (void)catch_up_cold(&r);
    CHECK_STR(watch_rig_next(&r), "#0 revision=5 put a=4@5 was 3@4");
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* A worker reads many of them in one go. */
TEST(values_before_changes_are_wanted_ahead_while_the_store_is_cold)
{
    enum { CHANGES = 300 };
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    put_each(&r, CHANGES, "old");
    mvcc_rig_commit(&r.mvcc_rig);
    struct watch_stream *s = watch_with_prev(&r);
    mvcc_set_cold(r.mvcc_rig.m, true);

    put_each(&r, CHANGES, "new");

    CHECK_STR(watch_rig_next(&r), "");
    CHECK(catch_up_cold(&r) <= 6 + 2 * CHANGES / MVCC_WARMUP_KEYS);
    while (watch_rig_next(&r)[0])
        ;
    CHECK_EQ(watch_stats(r.w).events, CHANGES);
    watch_stream_close(s);
    watch_rig_free(&r);
}

TEST(values_before_the_changes_of_one_revision_are_wanted_at_once_while_the_store_is_cold)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    put_each(&r, MVCC_WARMUP_KEYS, "old");
    mvcc_rig_commit(&r.mvcc_rig);
    struct watch_stream *s = watch_with_prev(&r);
    mvcc_set_cold(r.mvcc_rig.m, true);

    watch_rig_begin(&r);
    put_many(&r, "k", MVCC_WARMUP_KEYS, 3);
    watch_rig_end(&r);
    while (mvcc_rig_warm(&r.mvcc_rig)) /* before the walk has begun */
        ;

    CHECK(catch_up_cold(&r) <= 3);
    CHECK(strstr(watch_rig_next(&r), "put k00000=vvv@66 was old@2"));
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* A revision whose events are too long for memory, and are read when they are sent. */
TEST(a_long_message_wants_values_ahead_while_the_store_is_cold)
{
    enum { KEYS = WATCH_BATCH_BYTES / KIB };
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    watch_rig_begin(&r);
    put_many(&r, "k", KEYS, 1000);
    watch_rig_end(&r);
    mvcc_rig_commit(&r.mvcc_rig);
    struct watch_stream *s = watch_with_prev(&r);
    watch_rig_begin(&r);
    put_many(&r, "k", KEYS, 1000);
    watch_rig_end(&r);
    mvcc_rig_commit(&r.mvcc_rig);
    struct watch_message m;
    CHECK(watch_take(r.w, &m));
    CHECK(m.long_events);
    mvcc_set_cold(r.mvcc_rig.m, true);

    struct buf events = {0};
    bool done = false;
    size_t rounds = 0;
    for (; !done; rounds++) {
        CHECK(rounds < 10000);
        CHECK_EQ(watch_long_read(m.long_events, 100 * KIB, &events, &done), ERR_OK);
        while (mvcc_rig_warm(&r.mvcc_rig))
            ;
    }

    CHECK_EQ(events.len, watch_long_bytes(m.long_events));
    CHECK(rounds <= KEYS / 10);
    buf_free(&events);
    watch_long_end(m.long_events);
    watch_sent(m.stream, m.bytes);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* --- hostile --- */

TEST(telling_that_more_was_sent_than_was_taken_is_a_bug)
{
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);
    watch_rig_create(&r, s, &everything);

    CHECK_DIES(watch_sent(s, 64), "bytes <= s->taken");

    watch_stream_close(s);
    watch_rig_free(&r);
}

/* --- long keys --- */

/* The nth of them, so long, and a range from there on for so many bytes more. */
static void create_long(struct watch_rig *r, struct watch_stream *s, unsigned nth, size_t key_bytes,
                        size_t end_bytes)
{
    struct buf key = {0}, end = {0};

    buf_printf(&key, "%06u", nth);
    memset(buf_extend(&key, key_bytes - key.len), 'k', key_bytes - key.len);
    if (end_bytes > 0)
        memset(buf_extend(&end, end_bytes), 'x', end_bytes);
    watch_rig_create(
        r, s,
        &(struct pb_watch_create_request){.key = buf_bytes(&key), .range_end = buf_bytes(&end)});
    buf_free(&key);
    buf_free(&end);
}

static const char refused_for_keys[] = "too many bytes in long keys of watchers";

static bool is_refused(struct watch_rig *r)
{
    const char *line = watch_rig_next(r);

    CHECK(line[0]);
    return strstr(line, refused_for_keys) != NULL;
}

TEST(a_stream_has_a_bounded_number_of_bytes_in_long_keys)
{
    enum { FIT = WATCH_STREAM_LONG_KEYS_BYTES_MAX / (2 * MIB) };
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = watch_rig_stream(&r, 1 * MIB);

    for (unsigned i = 0; i < FIT; i++) {
        create_long(&r, s, i, i % 2 ? 2 * MIB : MIB, i % 2 ? 0 : MIB);
        CHECK(!is_refused(&r));
    }
    CHECK(watch_status(r.w).bytes < WATCH_STREAM_LONG_KEYS_BYTES_MAX + 64 * KIB);
    create_long(&r, s, 99, WATCH_LONG_KEY_BYTES + 1, 0);
    CHECK(is_refused(&r));
    create_long(&r, s, 99, WATCH_LONG_KEY_BYTES, 0); /* of which there may be any number */
    CHECK(!is_refused(&r));
    watch_cancel(s, 0);
    watch_rig_next(&r);
    create_long(&r, s, 99, 2 * MIB, 0);
    CHECK(!is_refused(&r));
    watch_rig_put(&r, "000001", "and the others go on");

    watch_stream_close(s);
    watch_rig_settle(&r, MVCC_SLICE_STEPS);
    CHECK(watch_status(r.w).bytes < 64 * KIB);
    watch_rig_free(&r);
}

TEST(all_streams_together_have_a_bounded_number_of_bytes_in_long_keys)
{
    enum {
        STREAMS = WATCH_LONG_KEYS_BYTES_MAX / WATCH_STREAM_LONG_KEYS_BYTES_MAX,
        EACH = WATCH_STREAM_LONG_KEYS_BYTES_MAX / (2 * MIB),
    };
    struct watch_rig r;
    watch_rig_init(&r, NULL);
    struct watch_stream *streams[STREAMS + 1];
    for (unsigned i = 0; i <= STREAMS; i++)
        streams[i] = watch_rig_stream(&r, 1 * MIB);

    for (unsigned i = 0; i < STREAMS * EACH; i++) {
        create_long(&r, streams[i / EACH], i, 2 * MIB, 0);
        CHECK(!is_refused(&r));
    }
    create_long(&r, streams[STREAMS], 0, 2 * MIB, 0);
    CHECK(is_refused(&r));
    create_long(&r, streams[STREAMS], 0, WATCH_LONG_KEY_BYTES, 0);
    CHECK(!is_refused(&r));
    watch_stream_close(streams[0]);
    watch_rig_settle(&r, MVCC_SLICE_STEPS);
    create_long(&r, streams[STREAMS], 0, 2 * MIB, 0);
    CHECK(!is_refused(&r));

    for (unsigned i = 1; i <= STREAMS; i++)
        watch_stream_close(streams[i]);
    watch_rig_settle(&r, MVCC_SLICE_STEPS);
    watch_rig_free(&r);
}
