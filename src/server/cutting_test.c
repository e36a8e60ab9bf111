/* Images of a member that is at work: when they are cut, what is in them, what ends them. */
#include "server/cutting.h"

#include "server/server_int.h"
#include "server/server_rig_test.h"
#include "snap/bolt_rig_test.h"

#include <stdio.h>

#define PUT "/etcdserverpb.KV/Put", &pb_put_request_schema

struct reader {
    struct cutting_request request;
    struct image *image;
    const char *why; /* there is none */
    struct buf bytes;
    struct buf reason; /* of the image's failure */
};

static void on_cut(struct cutting_request *r, struct image *image, const char *why)
{
    struct reader *d = container_of(r, struct reader, request);

    CHECK(!d->image && !d->why);
    CHECK((image != NULL) == (why == NULL));
    d->image = image;
    d->why = why;
}

static void ask(struct server_rig *r, struct reader *d)
{
    *d = (struct reader){.request.on_cut = on_cut};
    cutting_ask(&r->server->cutting, &d->request);
}

static void step(struct server_rig *r)
{
    server_rig_step(r);
    server_check(r->server);
}

static void until_cut(struct server_rig *r, struct reader *d)
{
    while (!d->image && !d->why)
        step(r);
}

/* Some of it, if there is. */
static void read_some(struct reader *d, size_t most)
{
    struct bytes some;

    if (!image_peek(d->image, &some))
        return;
    some.len = some.len < most ? some.len : most;
    buf_append(&d->bytes, some);
    image_consume(d->image, some.len);
}

static void read_all(struct server_rig *r, struct reader *d)
{
    until_cut(r, d);
    while (!image_is_over(d->image)) {
        CHECK(image_state(d->image) != IMAGE_FAILED);
        step(r);
        read_some(d, SIZE_MAX);
    }
}

static void free_reader(struct reader *d)
{
    image_close(d->image);
    buf_free(&d->bytes);
    buf_free(&d->reason);
}

static const char *key_of(unsigned n)
{
    static char key[16];

    snprintf(key, sizeof(key), "k%05u", n);
    return key;
}

/* What the image says of where the log stands. */
static uint64_t index_in(struct bytes image)
{
    struct bolt_fault fault = {0};
    struct bolt_memory source;
    struct bolt *bolt;
    struct bolt_cursor *c;
    struct bolt_entry entry;
    struct buf value = {0};
    uint64_t index;

    bolt_memory_init(&source, image);
    CHECK_EQ(bolt_open(&source.source, BOLT_IMAGE, &fault, &bolt), ERR_OK);
    CHECK_EQ(bolt_check(bolt), ERR_OK);
    CHECK_EQ(bolt_cursor_open(bolt, BYTES("meta"), &c), ERR_OK);
    CHECK_EQ(bolt_cursor_seek(c, BYTES("consistent_index"), &entry), ERR_OK);
    CHECK(bytes_equal(entry.key, BYTES("consistent_index")));
    CHECK_EQ(bolt_cursor_value(c, 8, &value), ERR_OK);
    CHECK_EQ(value.len, 8);
    memcpy(&index, value.at, 8);
    bolt_cursor_close(c);
    bolt_close(bolt);
    buf_free(&value);
    return __builtin_bswap64(index);
}

static void put_many(struct server_rig *r, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        server_rig_put(r, key_of(i), "value");
}

/* --- the cut --- */

TEST(whoever_asks_together_gets_the_same_bytes_though_writes_go_on)
{
    enum { READERS = 3, PUTS = 200 };
    struct server_rig r;
    struct reader d[READERS];
    struct visit puts[PUTS];
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 3000);

    for (unsigned i = 0; i < PUTS; i++)
        server_rig_ask(r.client, &puts[i], PUT,
                       &(struct pb_put_request){.key = bytes_of_str(key_of(i))});
    for (unsigned i = 0; i < READERS; i++)
        ask(&r, &d[i]);
    for (unsigned i = 0; i < READERS; i++)
        read_all(&r, &d[i]);
    for (unsigned i = 0; i < PUTS; i++) {
        server_rig_until_over(&r, &puts[i]);
        CHECK_EQ(puts[i].code, RPC_OK);
        visit_free(&puts[i]);
    }

    uint64_t index = image_snapshot(d[0].image)->index;
    CHECK_EQ(index_in(buf_bytes(&d[0].bytes)), index);
    CHECK_EQ(image_snapshot(d[0].image)->conf_state.voters.count, 1);
    CHECK(image_snapshot(d[0].image)->data.len > 0);
    for (unsigned i = 1; i < READERS; i++) {
        CHECK_EQ(image_snapshot(d[i].image)->index, index);
        CHECK(bytes_equal(buf_bytes(&d[0].bytes), buf_bytes(&d[i].bytes)));
    }
    for (unsigned i = 0; i < READERS; i++)
        free_reader(&d[i]);
    CHECK(cutting_is_idle(&r.server->cutting));
    server_rig_close(&r);
}

/* A delete of so many keys is decided at once, and settled in a turn's slice each. */
TEST(an_image_is_cut_when_large_deletes_are_settled)
{
    struct server_rig r;
    struct reader d;
    struct visit gone;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 5000);
    server_rig_ask(r.client, &gone, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
                   &(struct pb_delete_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    server_rig_until_over(&r, &gone);
    CHECK(mvcc_is_settling(r.server->state.mvcc));

    ask(&r, &d);
    step(&r);
    CHECK(!d.image);
    server_rig_put(&r, "other", "v"); /* goes on meanwhile */
    read_all(&r, &d);

    CHECK_EQ(index_in(buf_bytes(&d.bytes)), image_snapshot(d.image)->index);
    struct bolt_fault fault = {0};
    struct bolt_sum sum;
    CHECK_EQ(rig_read_all(buf_bytes(&d.bytes), BOLT_IMAGE, &fault, &sum), ERR_OK);
    CHECK(sum.keys > 2 * 5000); /* each put, and each tombstone */
    free_reader(&d);
    visit_free(&gone);
    server_rig_close(&r);
}

/* Somebody who has asked and goes away holds up nobody. */
TEST(a_request_can_be_forgotten)
{
    struct server_rig r;
    struct reader d, other;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    ask(&r, &d);
    ask(&r, &other);

    cutting_forget(&r.server->cutting, &d.request);
    cutting_forget(&r.server->cutting, &d.request);
    read_all(&r, &other);

    CHECK(!d.image && !d.why);
    free_reader(&other);
    server_rig_close(&r);
}

/* --- bounds --- */

TEST(clients_leave_some_images_to_other_members)
{
    enum { CLIENTS = CUTTING_IMAGES_MAX - CUTTING_MEMBERS_MAX };
    struct server_rig r;
    struct reader d[CUTTING_IMAGES_MAX + 2];
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 100);

    for (unsigned i = 0; i <= CLIENTS; i++)
        ask(&r, &d[i]);
    for (unsigned i = 0; i <= CLIENTS; i++)
        until_cut(&r, &d[i]);
    CHECK(d[CLIENTS - 1].image);
    CHECK_STR(d[CLIENTS].why, "too many images are open");
    for (unsigned i = CLIENTS; i <= CUTTING_IMAGES_MAX; i++) {
        ask(&r, &d[i]);
        d[i].request.is_for_member = true;
        until_cut(&r, &d[i]);
    }

    CHECK(d[CUTTING_IMAGES_MAX - 1].image);
    CHECK_STR(d[CUTTING_IMAGES_MAX].why, "too many images are open");
    for (unsigned i = 0; i < CUTTING_IMAGES_MAX; i++)
        free_reader(&d[i]);
    server_rig_close(&r);
}

static bool is_compacted(struct server_rig *r)
{
    return !mvcc_compact_pending(r->server->state.mvcc);
}

/* For so long, so much of it, in small bits. */
static void read_for_ms(struct server_rig *r, struct reader *d, uint64_t ms, size_t bytes_per_s)
{
    for (uint64_t i = 0; i < ms / 1000; i++) {
        size_t before = d->bytes.len;
        for (size_t had = SIZE_MAX; had != d->bytes.len && d->bytes.len - before < bytes_per_s;) {
            had = d->bytes.len;
            read_some(d, bytes_per_s - (had - before));
        }
        buf_clear(&d->bytes);
        server_rig_for_ms(r, 1000);
    }
}

/* Compressed by nothing: so many bytes of values are as many of an image. */
static void put_large(struct server_rig *r, unsigned megabytes)
{
    static char value[1 << 20];

    memset(value, 'v', sizeof(value) - 1);
    for (unsigned i = 0; i < megabytes; i++)
        server_rig_put(r, key_of(i), value);
}

static void compact(struct server_rig *r, int64_t revision)
{
    struct visit v;

    server_rig_ask(r->client, &v, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
                   &(struct pb_compaction_request){.revision = revision});
    server_rig_until_over(r, &v);
    CHECK_EQ(v.code, RPC_OK);
    visit_free(&v);
}

/* 1 Mbit/s is enough; and as long as nobody waits, so is any pace. */
TEST(a_slow_reader_gives_way_to_a_compaction_and_one_of_a_megabit_does_not)
{
    struct server_rig r;
    struct reader megabit, slow, member;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_large(&r, 30);
    ask(&r, &megabit);
    ask(&r, &slow);
    ask(&r, &member);
    member.request.is_for_member = true;
    until_cut(&r, &member);

    for (unsigned i = 0; i < 3 * 60; i++) {
        read_for_ms(&r, &megabit, 1000, 125000);
        read_some(&slow, 2700);
        read_some(&member, 2700);
    }
    CHECK_EQ(image_state(slow.image), IMAGE_READY);
    compact(&r, 10);
    server_rig_for_ms(&r, 1000);

    CHECK_EQ(image_state(slow.image), IMAGE_FAILED);
    CHECK_STR(image_failure(slow.image),
              "it is read too slowly, and a compaction waits for its end");
    CHECK_EQ(image_state(megabit.image), IMAGE_READY);
    CHECK_EQ(image_state(member.image), IMAGE_READY);
    free_reader(&slow);
    free_reader(&megabit);
    CHECK(!is_compacted(&r));
    free_reader(&member);
    server_rig_for_ms(&r, 2000);
    CHECK(is_compacted(&r));
    server_rig_close(&r);
}

/* Reads well, as far as one can tell in so short a time, and goes. */
static void read_and_go(struct server_rig *r, struct reader *leaves, struct reader *comes)
{
    enum { STAYS_S = 50, OVERLAP_S = 5 };

    for (unsigned second = 0; second < STAYS_S - OVERLAP_S; second++) {
        if (leaves->image)
            read_some(leaves, 1000);
        server_rig_for_ms(r, 1000);
    }
    ask(r, comes);
    server_rig_for_ms(r, OVERLAP_S * 1000);
    cutting_forget(&r->server->cutting, &leaves->request);
    free_reader(leaves);
    leaves->image = NULL;
    server_rig_for_ms(r, 1000);
}

/* Each of them holds it up, and neither for long enough to be slow. */
TEST(clients_that_come_and_go_hold_up_a_compaction_for_a_bounded_time)
{
    enum { BOUND_MS = CUTTING_COMPACTION_MS + 2 * 60000 };
    struct server_rig r;
    struct reader d[2], honest;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_large(&r, 4);
    ask(&r, &d[0]);
    until_cut(&r, &d[0]);
    compact(&r, 4);
    uint64_t began_ms = r.server->facts.now_ms;

    for (unsigned turn = 0; !is_compacted(&r); turn++) {
        CHECK(r.server->facts.now_ms - began_ms <= BOUND_MS);
        read_and_go(&r, &d[turn % 2], &d[1 - turn % 2]);
        if (turn > 0)
            continue;
        ask(&r, &honest);
        honest.request.host = BYTES("10.0.0.7");
        until_cut(&r, &honest);
        read_all(&r, &honest);
        CHECK(image_is_over(honest.image));
        free_reader(&honest);
    }
    CHECK(r.server->facts.now_ms - began_ms <= BOUND_MS);
    server_rig_for_ms(&r, 1000); /* whoever was held gets one now */
    CHECK(d[0].image || d[1].image);

    for (unsigned i = 0; i < 2; i++) {
        cutting_forget(&r.server->cutting, &d[i].request);
        free_reader(&d[i]);
    }
    server_rig_close(&r);
}

/* A client that comes late is held, a member never; and no client is held while one that was there
 * before reads, because the compaction waits for that one anyway. */
TEST(a_client_is_held_only_while_it_would_hold_up_a_compaction_by_itself)
{
    struct server_rig r;
    struct reader early, late, held, member, gone;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_large(&r, 30);
    ask(&r, &early);
    until_cut(&r, &early);
    compact(&r, 10);
    read_for_ms(&r, &early, 2 * CUTTING_COMPACTION_MS, 125000);
    CHECK_EQ(image_state(early.image), IMAGE_READY);

    ask(&r, &late);
    until_cut(&r, &late);
    CHECK(late.image);
    read_for_ms(&r, &late, 1000, 125000);
    free_reader(&early);
    ask(&r, &held);
    ask(&r, &gone);
    read_for_ms(&r, &late, 20000, 125000);
    CHECK(!held.image && !held.why);
    CHECK(!cutting_is_idle(&r.server->cutting));
    cutting_forget(&r.server->cutting, &gone.request);
    CHECK(!is_compacted(&r));

    ask(&r, &member);
    member.request.is_for_member = true;
    until_cut(&r, &member);
    CHECK(member.image);
    server_rig_for_ms(&r, 1000); /* for which it waits anyway */
    CHECK(held.image);
    free_reader(&held);
    free_reader(&member);
    read_for_ms(&r, &late, 1000, 125000);
    ask(&r, &held);
    read_for_ms(&r, &late, 60000, 125000);
    CHECK(!held.image && !held.why);
    free_reader(&late);
    until_cut(&r, &held);
    CHECK(held.image);
    CHECK(is_compacted(&r));

    free_reader(&held);
    CHECK(!gone.image);
    server_rig_close(&r);
}

/* As api does. */
static void close_failed(void *context)
{
    struct reader *d = context;

    if (image_state(d->image) != IMAGE_FAILED)
        return;
    buf_append_str(&d->reason, image_failure(d->image));
    d->why = buf_str(&d->reason);
    image_close(d->image);
    d->image = NULL;
}

/* The slowest goes, when somebody else asks; and if none is slow, who asks is refused. */
TEST(the_slowest_reader_gives_its_place_to_a_newcomer)
{
    enum { CLIENTS = CUTTING_IMAGES_MAX - CUTTING_MEMBERS_MAX, SLOWEST = 3 };
    struct server_rig r;
    struct reader d[CLIENTS], newcomer, other;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_large(&r, 2);
    for (unsigned i = 0; i < CLIENTS; i++)
        ask(&r, &d[i]);
    for (unsigned i = 0; i < CLIENTS; i++)
        until_cut(&r, &d[i]);
    ask(&r, &newcomer);
    until_cut(&r, &newcomer);
    CHECK_STR(newcomer.why, "too many images are open"); /* it is not known yet who is slow */

    for (unsigned second = 0; second < 70; second++) {
        for (unsigned i = 0; i < CLIENTS; i++) {
            image_set_on_more(d[i].image, close_failed, &d[i]);
            read_some(&d[i], i == SLOWEST ? 2700 : 5000);
        }
        server_rig_for_ms(&r, 1000);
    }
    ask(&r, &newcomer);
    until_cut(&r, &newcomer);

    CHECK(newcomer.image);
    for (unsigned i = 0; i < CLIENTS; i++)
        CHECK_EQ(d[i].image != NULL, i != SLOWEST);
    CHECK_STR(d[SLOWEST].why, "it is read too slowly, and others wait for its place");
    ask(&r, &other); /* and the next of them for the next */
    until_cut(&r, &other);
    CHECK(other.image);
    for (unsigned i = 0; i < CLIENTS; i++)
        free_reader(&d[i]);
    free_reader(&newcomer);
    free_reader(&other);
    server_rig_close(&r);
}

/* However fast it reads. Whoever has a place fewer is refused: else the two would change places. */
TEST(a_host_that_has_all_places_gives_one_to_another)
{
    enum { CLIENTS = CUTTING_IMAGES_MAX - CUTTING_MEMBERS_MAX };
    struct server_rig r;
    struct reader d[CLIENTS], other[CLIENTS];
    unsigned got = 0;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_large(&r, 2);
    for (unsigned i = 0; i < CLIENTS; i++) {
        ask(&r, &d[i]);
        d[i].request.host = BYTES("10.0.0.1");
        until_cut(&r, &d[i]);
        image_set_on_more(d[i].image, close_failed, &d[i]);
    }

    for (; got < CLIENTS; got++) {
        ask(&r, &other[got]);
        other[got].request.host = BYTES("10.0.0.2");
        until_cut(&r, &other[got]);
        if (!other[got].image)
            break;
        CHECK(!d[CLIENTS - 1 - got].image); /* the newest of them */
        CHECK_STR(d[CLIENTS - 1 - got].why,
                  "its client has others, and somebody else waits for its place");
    }

    CHECK_EQ(got, CLIENTS / 2);
    CHECK_STR(other[got].why, "too many images are open");
    for (unsigned i = 0; i < CLIENTS; i++) {
        CHECK_EQ(d[i].image != NULL, i < CLIENTS / 2);
        free_reader(&d[i]);
    }
    for (unsigned i = 0; i < got; i++)
        free_reader(&other[i]);
    server_rig_close(&r);
}

/* The minute that clients' replies have is none of it; to read nothing is. */
TEST(an_image_holds_up_compaction_while_it_is_read_and_not_longer)
{
    struct server_rig r;
    struct reader d;
    struct visit v;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 6000);
    ask(&r, &d);
    d.request.is_for_member = true;
    until_cut(&r, &d);
    server_rig_ask(r.client, &v, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
                   &(struct pb_compaction_request){.revision = 5000});
    server_rig_until_over(&r, &v);
    CHECK_EQ(v.code, RPC_OK);

    for (unsigned i = 0; i < 10; i++) { /* five minutes of a slow reader */
        read_some(&d, 1000);
        server_rig_for_ms(&r, IMAGE_STALLED_MS - 1000);
        CHECK_EQ(image_state(d.image), IMAGE_READY);
        CHECK(!is_compacted(&r));
    }
    server_rig_for_ms(&r, IMAGE_STALLED_MS + 1000);
    CHECK_EQ(image_state(d.image), IMAGE_FAILED);
    CHECK(server_rig_logged(&r, "an image of the state cannot be read to its end"));
    CHECK(!is_compacted(&r));
    free_reader(&d);
    server_rig_for_ms(&r, 2000);

    CHECK(is_compacted(&r));
    visit_free(&v);
    server_rig_close(&r);
}

/* --- the state is replaced --- */

static void install(struct server_rig *r)
{
    uint64_t before = server_installed(r->server);

    CHECK(server_install_own_image(r->server, 0));
    while (server_installed(r->server) == before)
        step(r);
}

TEST(an_image_of_a_state_that_was_replaced_can_be_read_for_a_minute)
{
    struct server_rig r;
    struct reader d, twin, slow;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 6000);
    ask(&r, &d);
    ask(&r, &twin);
    ask(&r, &slow);
    read_all(&r, &twin);

    install(&r);
    server_rig_put(&r, "later", "v");
    read_all(&r, &d);
    CHECK(bytes_equal(buf_bytes(&d.bytes), buf_bytes(&twin.bytes)));
    for (unsigned i = 0; i * 1000 < INSTALL_OLD_MS - 2000; i++) {
        server_rig_for_ms(&r, 1000);
        read_some(&slow, 100);
    }
    CHECK_EQ(image_state(slow.image), IMAGE_READY);
    CHECK(!install_is_idle(&r.server->install));
    for (unsigned i = 0; i < 3; i++) {
        server_rig_for_ms(&r, 1000);
        read_some(&slow, 100);
    }

    CHECK_EQ(image_state(slow.image), IMAGE_FAILED);
    CHECK_STR(image_failure(slow.image), "the state it is of was replaced");
    free_reader(&d);
    free_reader(&twin);
    free_reader(&slow);
    server_rig_for_ms(&r, 2000);
    CHECK(install_is_idle(&r.server->install));
    server_rig_close(&r);
}

/* Whoever closes the old state, on another thread, finds nobody waiting there. */
TEST(a_request_that_waits_for_a_large_delete_is_served_of_the_state_that_takes_its_place)
{
    enum { AHEAD = 8 };
    struct server_rig r;
    struct reader d;
    struct visit v[AHEAD];
    bool has_waited = false;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_many(&r, 5000);
    uint64_t before = server_installed(r.server);

    CHECK(server_install_own_image(r.server, AHEAD));
    server_rig_ask(r.client, &v[0], "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema,
                   &(struct pb_delete_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    for (unsigned i = 1; i < AHEAD; i++)
        server_rig_ask(r.client, &v[i], PUT, &(struct pb_put_request){.key = BYTES("other")});
    while (!mvcc_is_settling(r.server->state.mvcc))
        step(&r);
    ask(&r, &d);
    while (server_installed(r.server) == before) {
        has_waited = r.server->cutting.waiter.waits;
        step(&r);
    }
    CHECK(has_waited);
    read_all(&r, &d);

    CHECK_EQ(index_in(buf_bytes(&d.bytes)), image_snapshot(d.image)->index);
    for (unsigned i = 0; i < AHEAD; i++) {
        server_rig_until_over(&r, &v[i]);
        visit_free(&v[i]);
    }
    free_reader(&d);
    server_rig_close(&r);
}

/* --- the end --- */

static void close_image(void *context)
{
    struct reader *d = context;

    CHECK_STR(image_failure(d->image), "the member stops");
    image_close(d->image);
    d->image = NULL;
}

TEST(a_member_that_stops_ends_its_images)
{
    for (unsigned steps = 0; steps < 12; steps++) {
        struct server_rig r;
        struct reader d;
        server_rig_open(&r, NULL);
        server_rig_start(&r);
        put_many(&r, 300);
        ask(&r, &d);
        for (unsigned i = 0; i < steps && !d.image; i++)
            step(&r);
        if (d.image)
            image_set_on_more(d.image, close_image, &d);
        bool is_cut = d.image != NULL;

        server_rig_stop(&r); /* which waits for the end of both */

        CHECK(!d.image);
        if (!is_cut)
            CHECK_STR(d.why, "the member stops");
        server_rig_close(&r);
    }
}

TEST(a_client_that_is_held_is_told_that_the_member_stops)
{
    struct server_rig r;
    struct reader early, late, held;
    server_rig_open(&r, NULL);
    server_rig_start(&r);
    put_large(&r, 30);
    ask(&r, &early);
    until_cut(&r, &early);
    compact(&r, 10);
    read_for_ms(&r, &early, 2 * CUTTING_COMPACTION_MS, 125000);
    ask(&r, &late);
    until_cut(&r, &late);
    image_set_on_more(late.image, close_failed, &late);
    free_reader(&early);
    ask(&r, &held);
    server_rig_for_ms(&r, 1000);
    CHECK(!held.image && !held.why);

    server_rig_stop(&r);

    CHECK_STR(late.why, "the member stops");
    CHECK_STR(held.why, "the member stops");
    free_reader(&late);
    server_rig_close(&r);
}

TEST(a_crash_takes_images_with_it)
{
    for (unsigned steps = 0; steps < 20; steps++) {
        struct server_rig r;
        struct reader d;
        server_rig_open(&r, NULL);
        server_rig_start(&r);
        put_many(&r, 300);
        ask(&r, &d);
        for (unsigned i = 0; i < steps; i++)
            step(&r);

        server_rig_crash(&r, FAKE_KILLED);

        server_rig_start(&r);
        server_rig_close(&r);
    }
}
