#include "rpc/message.h"

#include "base/gzip.h"
#include "base/rng.h"
#include "harness/test.h"

#include <string.h>

/* The queue and the reader, held against plain concatenation. */

static void want_message(struct buf *want, struct bytes content)
{
    uint8_t prefix[5] = {0, (uint8_t)(content.len >> 24), (uint8_t)(content.len >> 16),
                         (uint8_t)(content.len >> 8), (uint8_t)content.len};

    buf_append(want, bytes_of(prefix, 5));
    buf_append(want, content);
}

/* Adds a message of one of the three sorts, and what it should look like. */
static void add_any(struct message_queue *q, struct rng *rng, struct buf *bodies, struct buf *want)
{
    uint8_t content[300];
    struct buf first = {0};
    size_t len = (size_t)rng_below(rng, sizeof(content));
    size_t cut = (size_t)rng_between(rng, 0, len);

    for (size_t i = 0; i < len; i++)
        content[i] = (uint8_t)i;
    switch (rng_below(rng, 3)) {
    case 0:
        buf_append(&first, bytes_of(content, len));
        message_queue_add(q, &first, NULL);
        break;
    case 1: {
        struct blob *rest = blob_copy(bytes_of(content + cut, len - cut));
        buf_append(&first, bytes_of(content, cut));
        message_queue_add(q, &first, rest);
        break;
    }
    default:
        message_queue_add_body(q, len);
        buf_append(bodies, bytes_of(content, len));
    }
    want_message(want, bytes_of(content, len));
}

TEST(a_message_queue_gives_what_was_put_in)
{
    enum { MESSAGES = 20 };
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (uint64_t round = 0; round < 200 * test_effort(); round++) {
        struct message_queue q;
        struct message_pool pool = {0};
        struct buf want = {0}, got = {0}, bodies = {0};
        size_t given = 0;
        message_queue_init(&q, &pool);
        for (unsigned i = 0; i < MESSAGES; i++)
            add_any(&q, &rng, &bodies, &want);
        CHECK_EQ(q.left, want.len);

        while (q.left > 0) {
            size_t max = (size_t)rng_between(&rng, 1, 500);
            uint64_t ungiven = message_queue_ungiven(&q);
            if (ungiven > 0 && rng_chance(&rng, 1, 2)) {
                struct buf chunk = {0};
                size_t len = (size_t)rng_between(&rng, 1, ungiven);
                buf_append(&chunk, bytes_of(bodies.at + given, len));
                message_queue_give(&q, &chunk);
                given += len;
            }
            size_t ready = message_queue_ready(&q, max);
            CHECK(ready <= max);
            CHECK(ready > 0 || message_queue_ungiven(&q) > 0);
            message_queue_move(&q, ready, &got);
            message_queue_check(&q);
        }

        CHECK_BYTES(buf_bytes(&got), buf_bytes(&want));
        CHECK_EQ(q.held, 0);
        CHECK_EQ(given, bodies.len);
        CHECK(q.left_cost >= rpc_message_cost(0) * MESSAGES);
        buf_free(&bodies);
        message_pool_free(&pool);
        buf_free(&want);
        buf_free(&got);
    }
}

TEST(a_cleared_queue_holds_nothing)
{
    struct message_queue q;
    struct message_pool pool = {0};
    struct buf got = {0}, chunk = {0};
    message_queue_init(&q, &pool);

    message_queue_add_body(&q, 1000);
    buf_append(&chunk, BYTES("some of it"));
    message_queue_give(&q, &chunk);
    CHECK(!chunk.at);
    CHECK_EQ(message_queue_ready(&q, 8), 8);
    message_queue_move(&q, 8, &got);
    CHECK(q.within_message);
    message_queue_clear(&q);

    CHECK_EQ(q.left, 0);
    CHECK_EQ(q.held, 0);
    CHECK_EQ(message_queue_ungiven(&q), 0);
    message_pool_free(&pool);
    buf_free(&got);
}

TEST(a_reader_finds_messages_however_they_are_cut)
{
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (uint64_t round = 0; round < 300 * test_effort(); round++) {
        struct message_reader r = {0};
        struct buf wire = {0}, want = {0}, got = {0};
        unsigned sent = (unsigned)rng_below(&rng, 10);
        unsigned found = 0, announced = 0;
        for (unsigned i = 0; i < sent; i++) {
            uint8_t content[100];
            size_t len = (size_t)rng_below(&rng, sizeof(content));
            memset(content, (int)i, len);
            want_message(&wire, bytes_of(content, len));
            buf_append(&want, bytes_of(content, len));
        }

        for (size_t at = 0; at < wire.len || found < sent;) {
            size_t len = (size_t)rng_between(&rng, 0, wire.len - at);
            struct bytes in = bytes_of(wire.at + at, len);
            enum message_step step = message_read(&r, &in);
            at += len - in.len;
            announced += step == MESSAGE_ANNOUNCED;
            if (step != MESSAGE_WHOLE)
                continue;
            found++;
            CHECK_EQ(found, announced);
            buf_append(&got, buf_bytes(&r.content));
            message_next(&r);
        }

        CHECK_EQ(found, sent);
        CHECK(!message_is_partial(&r));
        CHECK_BYTES(buf_bytes(&got), buf_bytes(&want));
        message_reader_free(&r);
        buf_free(&wire);
        buf_free(&want);
        buf_free(&got);
    }
}

/* A length of 4 GiB costs nothing until its bytes have come. */
TEST(a_reader_keeps_what_came_and_not_what_was_claimed)
{
    struct message_reader r = {0};
    struct bytes in = BYTES("\0\xff\xff\xff\xff"
                            "abc");

    CHECK_EQ(message_read(&r, &in), MESSAGE_ANNOUNCED);
    CHECK_EQ(message_length(&r), UINT32_MAX);
    CHECK_EQ(message_read(&r, &in), MESSAGE_MORE);

    CHECK_BYTES(buf_bytes(&r.content), BYTES("abc"));
    CHECK(r.content.cap <= 64 * KIB);
    message_reader_free(&r);
}

TEST(gzip_unpacks_what_it_packed)
{
    struct gzip *g = gzip_new();
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (unsigned round = 0; round < 100; round++) {
        struct buf plain = {0}, packed = {0}, again = {0};
        size_t len = (size_t)rng_below(&rng, 50000);
        for (size_t i = 0; i < len; i++)
            buf_append_byte(&plain, (uint8_t)rng_below(&rng, round + 1));
        gzip_pack(g, buf_bytes(&plain), &packed);

        CHECK_EQ(gzip_unpack(g, buf_bytes(&packed), len, &again), ERR_OK);
        CHECK_BYTES(buf_bytes(&again), buf_bytes(&plain));
        if (len > 0) {
            buf_clear(&again);
            CHECK_EQ(gzip_unpack(g, buf_bytes(&packed), len - 1, &again), ERR_TOO_LARGE);
            CHECK(again.len <= len);
        }
        buf_free(&plain);
        buf_free(&packed);
        buf_free(&again);
    }
    gzip_free(g);
}

TEST(gzip_tells_what_is_wrong)
{
    struct gzip *g = gzip_new();
    struct buf packed = {0}, out = {0};
    gzip_pack(g, BYTES("some text that is packed, some text that is packed"), &packed);

    CHECK_EQ(gzip_unpack(g, BYTES("this is not gzip"), 1000, &out), ERR_MALFORMED);
    CHECK_EQ(gzip_unpack(g, BYTES(""), 1000, &out), ERR_END);
    for (size_t len = 1; len < packed.len; len++) {
        buf_clear(&out);
        CHECK_EQ(gzip_unpack(g, bytes_of(packed.at, len), 1000, &out), ERR_END);
    }
    packed.at[packed.len - 6] ^= 1; /* the checksum */
    buf_clear(&out);
    CHECK_EQ(gzip_unpack(g, buf_bytes(&packed), 1000, &out), ERR_CORRUPT);
    buf_free(&packed);
    buf_free(&out);
    gzip_free(g);
}

TEST(gzip_members_follow_one_another)
{
    struct gzip *g = gzip_new();
    struct buf packed = {0}, out = {0};

    gzip_pack(g, BYTES("one "), &packed);
    gzip_pack(g, BYTES("two"), &packed);

    CHECK_EQ(gzip_unpack(g, buf_bytes(&packed), 100, &out), ERR_OK);
    CHECK_STR(buf_str(&out), "one two");
    buf_free(&packed);
    buf_free(&out);
    gzip_free(g);
}

/* However small the steps are, the text is the same, and no step does much more than it may. */
TEST(gzip_unpacks_in_steps)
{
    enum { LEN = 100000, STEP_SLACK_BYTES = 17 * KIB };
    struct gzip *g = gzip_new();
    struct buf plain = {0}, packed = {0}, out = {0};
    struct rng rng;
    rng_seed(&rng, test_seed());
    for (size_t i = 0; i < LEN; i++)
        buf_append_byte(&plain, (uint8_t)rng_below(&rng, 1 + i / 1000));
    gzip_pack(g, buf_bytes(&plain), &packed);

    gzip_begin(g, buf_bytes(&packed), LEN);
    for (bool is_done = false; !is_done;) {
        enum err e;
        size_t before = out.len, work = 1 + (size_t)rng_below(&rng, 20000), allowed = work;
        is_done = gzip_go_on(g, &work, &out, &e);
        CHECK(out.len - before <= allowed + STEP_SLACK_BYTES);
        CHECK(is_done || work == 0);
        CHECK(!is_done || e == ERR_OK);
    }

    CHECK_BYTES(buf_bytes(&out), buf_bytes(&plain));
    buf_free(&plain);
    buf_free(&packed);
    buf_free(&out);
    gzip_free(g);
}

/* Empty members, of which nothing comes out: what goes in is work, too. */
TEST(gzip_counts_what_it_reads_as_work)
{
    enum { MEMBERS = 1000 };
    struct gzip *g = gzip_new();
    struct buf packed = {0}, out = {0};
    enum err e;
    size_t work = 16 * KIB;
    for (unsigned i = 0; i < MEMBERS; i++)
        gzip_pack(g, BYTES(""), &packed);

    gzip_begin(g, buf_bytes(&packed), 100);
    unsigned steps = 1;
    while (!gzip_go_on(g, &work, &out, &e)) {
        work = 16 * KIB;
        steps++;
    }

    CHECK_EQ(e, ERR_OK);
    CHECK_EQ(out.len, 0);
    CHECK(steps >= packed.len / (2 * KIB));
    buf_free(&packed);
    buf_free(&out);
    gzip_free(g);
}

/* The bound that memory is set aside by holds for the best that deflate can do. */
TEST(gzip_unpacks_to_no_more_than_its_bound)
{
    struct gzip *g = gzip_new();

    for (size_t len = 0; len < 8 * MIB; len = len * 2 + 1) {
        struct buf plain = {0}, packed = {0};
        memset(buf_extend(&plain, len + 1), 'z', len + 1);
        gzip_pack(g, buf_bytes(&plain), &packed);
        CHECK(gzip_unpacked_most(packed.len) >= plain.len);
        buf_free(&plain);
        buf_free(&packed);
    }
    gzip_free(g);
}
