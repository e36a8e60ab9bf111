/* Whom a compaction must not end, and whom it must. */
#include "watch/watch_rig_test.h"

#include "base/buf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct pb_watch_create_request everything = {.key = {(const uint8_t *)"\0", 1},
                                                          .range_end = {(const uint8_t *)"\0", 1}};

static void put_some(struct watch_rig *r, const char *prefix, unsigned count)
{
    char key[32];

    watch_rig_begin(r);
    for (unsigned n = 0; n < count; n++) {
        snprintf(key, sizeof(key), "%s%05u", prefix, n);
        mvcc_put(r->mvcc_rig.m, bytes_of_str(key), BYTES("value"), 0);
    }
    watch_rig_end(r);
}

static void settle_delete(struct watch_rig *r)
{
    while (!mvcc_settle_some(r->mvcc_rig.m, 100))
        watch_check(r->w);
    CHECK(!mvcc_is_settling(r->mvcc_rig.m));
}

/* What came to one watcher of one stream. */
struct heard {
    size_t events, with_prev;
    int64_t last;     /* mod revision of the last event */
    int64_t canceled; /* the compact revision it was told */
    size_t bytes;     /* taken; sent only where `reads` */
    bool reads;
};

static void hear(struct watch_message *m, struct heard *h)
{
    struct buf events = {0};
    struct arena arena = {0};
    struct pb_watch_response got;

    if (m->canceled)
        h->canceled = m->compact_revision;
    CHECK(watch_rig_read(m, &events));
    CHECK_EQ(pb_decode_watch_response(buf_bytes(&events), &arena, &got), ERR_OK);
    for (size_t n = 0; n < got.events.count; n++) {
        int64_t at = got.events.at[n].kv->mod_revision;
        CHECK(at >= h->last);
        h->last = at;
        h->with_prev += got.events.at[n].prev_kv != NULL;
    }
    h->events += got.events.count;
    arena_free(&arena);
    buf_free(&events);
}

/* Takes everything that comes; streams have the struct heard as their context. */
static void listen(struct watch_rig *r)
{
    struct watch_message m;
    bool any = true;

    while (any) {
        watch_rig_settle(r, 100);
        for (any = false; watch_take(r->w, &m); any = true) {
            struct heard *h = watch_stream_context(m.stream);
            size_t bytes = m.bytes;
            struct watch_stream *s = m.stream;
            hear(&m, h);
            if (h->reads)
                watch_sent(s, bytes);
            else
                h->bytes += bytes;
        }
    }
    watch_check(r->w);
}

static struct watch_stream *join(struct watch_rig *r, struct heard *h, size_t credit,
                                 const struct pb_watch_create_request *request)
{
    struct watch_stream *s = watch_stream_open(r->w, h, credit, r->now_ms);

    watch_rig_create(r, s, request);
    listen(r);
    return s;
}

static void read_again(struct watch_rig *r, struct watch_stream *s, struct heard *h)
{
    h->reads = true;
    watch_sent(s, h->bytes);
    h->bytes = 0;
    listen(r);
}

/* The delete is published at once and its watchers are held until it is settled; history is cut
 * above it meanwhile. */
TEST(a_large_delete_and_a_compaction_behind_it_lose_no_event)
{
    struct watch_rig r;
    struct heard plain = {.reads = true}, prev = {.reads = true};
    struct pb_watch_create_request with_prev = everything;
    with_prev.prev_kv = true;
    watch_rig_init(&r, NULL);
    put_some(&r, "k", 5000);
    struct watch_stream *one = join(&r, &plain, 1 * MIB, &everything);
    struct watch_stream *two = join(&r, &prev, 1 * MIB, &with_prev);

    watch_rig_delete_range(&r, "k", "l");
    CHECK(mvcc_is_settling(r.mvcc_rig.m));
    watch_rig_put(&r, "after", "1");
    watch_rig_compact(&r, 4);
    listen(&r);
    CHECK_EQ(plain.events, 0);
    CHECK(mvcc_compact_waiting(r.mvcc_rig.m));
    r.now_ms += 3600000; /* however long it takes */
    listen(&r);
    settle_delete(&r);
    watch_rig_remove(&r);
    listen(&r);

    CHECK_EQ(plain.canceled, 0);
    CHECK_EQ(plain.events, 5001);
    CHECK_EQ(plain.last, 4);
    CHECK_EQ(plain.with_prev, 0);
    CHECK_EQ(prev.canceled, 0);
    CHECK_EQ(prev.events, 5001);
    CHECK_EQ(prev.with_prev, 5000);
    watch_rig_remove(&r);
    CHECK(!mvcc_compact_pending(r.mvcc_rig.m)); /* nobody needs it any more */
    CHECK_EQ(mvcc_status(r.mvcc_rig.m).keys, 1);
    watch_stream_close(one);
    watch_stream_close(two);
    watch_rig_free(&r);
}

/* Too many changes to be shown one by one: the live group as a whole reads them from history. */
TEST(a_huge_revision_and_a_compaction_behind_it_lose_no_event)
{
    struct watch_rig r;
    struct heard h = {.reads = true};
    watch_rig_init(&r, NULL);
    struct watch_stream *s = join(&r, &h, 1 * MIB, &everything);

    put_some(&r, "k", MVCC_CHANGES_MAX + 1);
    watch_rig_put(&r, "k00000", "2");
    watch_rig_compact(&r, 3);
    listen(&r);

    CHECK_EQ(h.canceled, 0);
    CHECK_EQ(h.events, MVCC_CHANGES_MAX + 2);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* It is not the server's fault alone, but the client had no time to read. */
TEST(a_watcher_without_room_when_history_is_cut_loses_no_event)
{
    struct watch_rig r;
    struct heard h = {.reads = true};
    watch_rig_init(&r, NULL);
    struct watch_stream *s = join(&r, &h, 100, &everything);

    for (unsigned n = 0; n < 20; n++)
        watch_rig_put(&r, "a", "1");
    watch_rig_compact(&r, 21);
    listen(&r);

    CHECK_EQ(h.canceled, 0);
    CHECK_EQ(h.events, 20);
    watch_rig_remove(&r);
    listen(&r);
    watch_rig_remove(&r);
    CHECK(!mvcc_compact_pending(r.mvcc_rig.m));
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* A start in the future counts as live when it comes, in etcd too. */
TEST(a_watcher_whose_start_has_just_come_loses_no_event)
{
    struct watch_rig r;
    struct heard h = {.reads = true};
    struct pb_watch_create_request request = everything;
    request.start_revision = 4;
    watch_rig_init(&r, NULL);
    struct watch_stream *s = join(&r, &h, 1 * MIB, &request);

    for (unsigned n = 0; n < 10; n++)
        watch_rig_put(&r, "a", "1");
    watch_rig_compact(&r, 11);
    listen(&r);

    CHECK_EQ(h.canceled, 0);
    CHECK_EQ(h.events, 8);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* Only those who were live: not who comes now, and not who had not read for a while. */
TEST(new_watchers_and_those_that_lag_end_below_a_compaction_although_others_read_on)
{
    struct watch_rig r;
    struct heard live = {.reads = true}, stuck = {0}, late = {.reads = true};
    struct pb_watch_create_request past = everything;
    past.start_revision = 5;
    watch_rig_init(&r, NULL);
    put_some(&r, "k", 2000);
    struct watch_stream *a = join(&r, &stuck, 100, &everything);
    for (unsigned n = 0; n < 5; n++)
        watch_rig_put(&r, "a", "1"); /* revisions 3 to 7 */
    listen(&r);
    for (unsigned n = 0; n < 3; n++) { /* the time is only looked at from turn to turn */
        r.now_ms += 1000;
        listen(&r);
    }
    struct watch_stream *b = join(&r, &live, 1 * MIB, &everything);

    watch_rig_delete_range(&r, "k", "l"); /* 8 */
    watch_rig_put(&r, "a", "2");
    watch_rig_compact(&r, 9);
    struct watch_stream *c = join(&r, &late, 1 * MIB, &past);
    settle_delete(&r);
    read_again(&r, a, &stuck);

    CHECK_EQ(stuck.canceled, 9);
    CHECK(stuck.last <= 7);
    CHECK_EQ(late.canceled, 9);
    CHECK_EQ(late.events, 0);
    CHECK_EQ(live.canceled, 0);
    CHECK_EQ(live.events, 2001);
    watch_stream_close(a);
    watch_stream_close(b);
    watch_stream_close(c);
    watch_rig_free(&r);
}

/* The limit is counted from when the delete is settled, and then there is one. */
TEST(a_client_that_does_not_read_holds_history_for_a_minute_after_the_delete)
{
    struct watch_rig r;
    struct heard slow = {0}, stuck = {0};
    watch_rig_init(&r, NULL);
    put_some(&r, "k", 5000);
    struct watch_stream *a = join(&r, &slow, 100, &everything);
    struct watch_stream *b = join(&r, &stuck, 100, &everything);
    watch_rig_delete_range(&r, "k", "l");
    for (unsigned n = 0; n < 10; n++)
        watch_rig_put(&r, "a", "1");
    watch_rig_compact(&r, mvcc_revision(r.mvcc_rig.m));
    r.now_ms += 10ull * WATCH_FLOOR_MS;
    listen(&r);
    settle_delete(&r);
    listen(&r); /* the delete's events are with both; they have no credit for the rest */
    r.now_ms++;
    listen(&r);
    CHECK_EQ(slow.events, 5000);

    r.now_ms += WATCH_FLOOR_MS - 1000;
    listen(&r);
    watch_rig_remove(&r);
    CHECK(mvcc_compact_waiting(r.mvcc_rig.m));
    read_again(&r, a, &slow);
    CHECK_EQ(slow.canceled, 0);
    CHECK_EQ(slow.events, 5010);
    CHECK(watch_next_ms(r.w) <= r.now_ms + 3000);
    r.now_ms = watch_next_ms(r.w);
    listen(&r);
    watch_rig_remove(&r);
    CHECK(!mvcc_compact_pending(r.mvcc_rig.m));
    CHECK_EQ(watch_next_ms(r.w), UINT64_MAX);
    read_again(&r, b, &stuck);

    CHECK_EQ(stuck.canceled, 13);
    CHECK_EQ(stuck.events, 5000);
    watch_stream_close(a);
    watch_stream_close(b);
    watch_rig_free(&r);
}

/* Reading a little from time to time does not make it prompt again. */
TEST(a_client_that_reads_a_little_does_not_hold_history_for_ever)
{
    struct watch_rig r;
    struct heard h = {0};
    watch_rig_init(&r, NULL);
    struct watch_stream *s = join(&r, &h, 100, &everything);
    for (unsigned n = 0; n < 100; n++)
        watch_rig_put(&r, "a", "1");
    watch_rig_compact(&r, mvcc_revision(r.mvcc_rig.m));
    unsigned rounds = 0;

    for (; mvcc_compact_pending(r.mvcc_rig.m); rounds++) {
        CHECK(rounds < 100);
        r.now_ms += 1000;
        put_some(&r, "b", 1);
        watch_sent(s, h.bytes);
        h.bytes = 0;
        listen(&r);
        watch_rig_put(&r, "b", "more than the credit");
        watch_rig_remove(&r);
    }

    CHECK(rounds < 65);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* --- long messages --- */

static struct watch_long *take_long(struct watch_rig *r)
{
    struct watch_message m;

    while (watch_take(r->w, &m))
        if (m.long_events)
            return m.long_events;
    test_fail(__FILE__, __LINE__, "there is no long message");
}

/* What is on its way to the client is as good as with it, if only it reads. */
TEST(a_long_message_is_not_overtaken_by_compaction_for_a_minute)
{
    struct watch_rig r;
    struct heard h = {.reads = true};
    struct pb_watch_create_request request = everything;
    struct buf events = {0};
    bool done;
    request.prev_kv = true;
    watch_rig_init(&r, NULL);
    put_some(&r, "k", 3000);
    struct watch_stream *s = join(&r, &h, 1 * MIB, &request);
    put_some(&r, "k", 3000);
    watch_rig_settle(&r, 100);
    struct watch_long *l = take_long(&r);
    CHECK_EQ(watch_long_read(l, 5000, &events, &done), ERR_OK);

    watch_rig_put(&r, "k00007", "2");
    watch_rig_compact(&r, 4);
    CHECK(mvcc_compact_waiting(r.mvcc_rig.m));
    r.now_ms++;
    watch_rig_settle(&r, 100);
    r.now_ms += WATCH_FLOOR_MS - 1000;
    watch_rig_settle(&r, 100);
    for (unsigned n = 0; n < 10; n++)
        CHECK_EQ(watch_long_read(l, 5000, &events, &done), ERR_OK);
    CHECK(!done);
    r.now_ms += 3000;
    watch_rig_settle(&r, 100);
    CHECK_EQ(watch_long_read(l, 5000, &events, &done), ERR_CANCELED);
    watch_rig_remove(&r);
    CHECK(!mvcc_compact_pending(r.mvcc_rig.m));

    watch_long_end(l);
    buf_free(&events);
    watch_stream_close(s);
    watch_rig_free(&r);
}

/* --- another store --- */

TEST(a_store_that_is_replaced_while_history_is_kept_keeps_it_no_longer)
{
    struct watch_rig r;
    struct heard h = {.reads = true};
    watch_rig_init(&r, NULL);
    put_some(&r, "k", 2000);
    struct watch_stream *s = join(&r, &h, 1 * MIB, &everything);
    watch_rig_delete_range(&r, "k", "l");
    watch_rig_put(&r, "a", "1");
    watch_rig_compact(&r, 4);
    watch_rig_settle(&r, 100);

    watch_rig_replace(&r); /* where the delete is being settled, too */
    settle_delete(&r);
    watch_rig_remove(&r);
    CHECK(!mvcc_compact_pending(r.mvcc_rig.m));
    listen(&r);

    CHECK_EQ(h.canceled, 4);
    CHECK_EQ(h.events, 0);
    watch_stream_close(s);
    watch_rig_free(&r);
}
