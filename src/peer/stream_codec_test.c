/* The streams as bytes, and back, however they are cut. */
#include "peer/stream_codec.h"

#include "base/limits.h"
#include "base/rng.h"
#include "harness/test.h"

#include <inttypes.h>
#include <stdio.h>

static struct bytes whole(const struct gather *g, struct buf *out)
{
    struct bytes *pieces = mem_new_array(2 * g->share_count + 1, struct bytes);
    size_t count = gather_pieces(g, pieces);

    buf_clear(out);
    for (size_t i = 0; i < count; i++)
        buf_append(out, pieces[i]);
    mem_free(pieces);
    CHECK_EQ(out->len, g->len);
    return buf_bytes(out);
}

static struct stream_decoder decoder(enum stream_kind kind, uint64_t *receiving)
{
    return (struct stream_decoder){.kind = kind,
                                   .self = 0x22,
                                   .peer = 0x11,
                                   .frame_bytes_max = PEER_FRAME_BYTES_MAX,
                                   .receiving = receiving,
                                   .receiving_max = PEER_RECEIVING_BYTES_MAX};
}

/* Decodes in pieces as the rng cuts them; each message as text, heartbeats as a dot. */
static const char *decode_all(enum stream_kind kind, struct bytes in, struct rng *rng,
                              struct buf *out)
{
    uint64_t receiving = 0;
    struct stream_decoder d = decoder(kind, &receiving);
    struct arena arena = {0};

    buf_clear(out);
    while (in.len > 0) {
        size_t cut = rng ? (size_t)rng_between(rng, 1, rng_chance(rng, 1, 2) ? 3 : in.len) : in.len;
        struct bytes piece = bytes_of(in.at, cut < in.len ? cut : in.len);
        enum stream_found found;

        in = bytes_of(in.at + piece.len, in.len - piece.len);
        do {
            struct blob *frame = NULL;
            struct raft_message m;

            found = stream_decode(&d, &piece, &arena, &frame, &m);
            if (found == STREAM_HEARTBEAT)
                buf_append_str(out, ".");
            if (found == STREAM_FOUND) {
                buf_printf(out,
                           "[%d %" PRIx64 ">%" PRIx64 " %" PRIu64 " %" PRIu64 "/%" PRIu64
                           " c%" PRIu64,
                           (int)m.type, m.from, m.to, m.term, m.log_term, m.index, m.commit);
                for (size_t i = 0; i < m.entry_count; i++) {
                    buf_printf(out, " %" PRIu64 "/%" PRIu64 "=%zu", m.entries[i].term,
                               m.entries[i].index, m.entries[i].data.len);
                    CHECK((m.entries[i].blob != NULL) == (m.entries[i].data.len > 0));
                }
                buf_append_str(out, "]");
            }
            CHECK(found != STREAM_BAD);
            blob_unref(frame);
            arena_reset(&arena);
        } while (found != STREAM_MORE);
        CHECK_EQ(piece.len, 0);
    }
    CHECK_EQ(receiving, d.frame.len);
    CHECK_EQ(receiving, 0);
    stream_decoder_free(&d);
    arena_free(&arena);
    return buf_str(out);
}

static const char *decode_bad(enum stream_kind kind, struct bytes in)
{
    static uint64_t receiving;
    struct stream_decoder d = decoder(kind, &receiving);
    struct arena arena = {0};
    struct blob *frame = NULL;
    struct raft_message m;

    enum stream_found found = stream_decode(&d, &in, &arena, &frame, &m);
    const char *why = found == STREAM_BAD ? d.why : found == STREAM_MORE ? "more" : "found";
    CHECK(d.frame.cap <= PEER_DECODER_AT_ONCE_BYTES);
    blob_unref(frame);
    stream_decoder_free(&d);
    arena_free(&arena);
    CHECK_EQ(receiving, 0);
    return why;
}

static struct raft_entry entry(uint64_t term, uint64_t index, size_t bytes)
{
    uint8_t *fill;
    struct blob *b = bytes > 0 ? blob_new(bytes, &fill) : NULL;

    if (b)
        memset(fill, 'x', bytes);
    return (struct raft_entry){.term = term, .index = index, .data = blob_bytes(b), .blob = b};
}

/* As etcd 3.7 writes them. */
TEST(frames_have_etcds_bytes)
{
    struct gather g = {0};
    struct app_state app = {0};
    static struct entry_cache cache;
    struct buf text = {0};
    struct raft_entry e = entry(2, 1, 1);
    struct raft_message m = {.type = RAFT_MSG_APP,
                             .from = 1,
                             .to = 2,
                             .term = 2,
                             .log_term = 2,
                             .index = 0,
                             .commit = 9,
                             .entries = &e,
                             .entry_count = 1};

    stream_put_heartbeat(&g, STREAM_MESSAGE);
    CHECK_BYTES(whole(&g, &text), BYTES("\0\0\0\0\0\0\0\2\x08\x08"));
    gather_clear(&g);

    stream_put_heartbeat(&g, STREAM_APP);
    CHECK_BYTES(whole(&g, &text), BYTES("\0"));
    gather_clear(&g);

    /* The first says all; the next continues it. */
    stream_put_append(&g, &app, &cache, &m);
    CHECK_BYTES(whole(&g, &text),
                BYTES("\2\0\0\0\0\0\0\0\x15"
                      "\x08\x03\x10\x02\x18\x01\x20\x02\x28\x02\x3a\x07\x10\x02\x18\x01\x22\x01x"
                      "\x40\x09"));
    gather_clear(&g);
    m.index = 1;
    blob_unref(e.blob);
    e = entry(2, 2, 1);
    stream_put_append(&g, &app, &cache, &m);
    CHECK_BYTES(whole(&g, &text), BYTES("\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\7"
                                        "\x10\x02\x18\x02\x22\x01x\0\0\0\0\0\0\0\x09"));
    blob_unref(e.blob);
    gather_free(&g);
    entry_cache_free(&cache);
    buf_free(&text);
}

TEST(entries_are_encoded_once_for_all_who_get_them)
{
    enum { MEMBERS = 4 };
    struct gather g[MEMBERS] = {0};
    struct app_state app[MEMBERS];
    static struct entry_cache cache;
    struct buf first = {0}, other = {0};
    struct raft_entry small = entry(3, 11, 100), large = entry(3, 12, 100000);

    for (unsigned i = 0; i < MEMBERS; i++) {
        app[i] = (struct app_state){.term = 3, .index = 10};
        struct raft_message m = {.type = RAFT_MSG_APP,
                                 .to = i,
                                 .term = 3,
                                 .log_term = 3,
                                 .index = 10,
                                 .entries = &small,
                                 .entry_count = 1};
        stream_put_append(&g[i], &app[i], &cache, &m);
        m.index = 11;
        m.entries = &large;
        stream_put_append(&g[i], &app[i], &cache, &m);
        CHECK_EQ(app[i].index, 12);
        CHECK_EQ(g[i].share_count, 1); /* the large one is where it was */
        CHECK(g[i].bytes.len < 1000);
        CHECK(g[i].shares[0].blob == g[0].shares[0].blob);
        whole(&g[i], i == 0 ? &first : &other);
        if (i > 0)
            CHECK_BYTES(buf_bytes(&other), buf_bytes(&first));
    }

    CHECK_EQ(cache.encoded, 2);
    CHECK_EQ(cache.reused, 2 * (MEMBERS - 1));
    for (unsigned i = 0; i < MEMBERS; i++)
        gather_free(&g[i]);
    entry_cache_free(&cache);
    blob_unref(small.blob);
    blob_unref(large.blob);
    buf_free(&first);
    buf_free(&other);
}

/* As in another log, of which a test, or a simulator, may have one beside ours. */
TEST(entries_that_only_look_the_same_are_not_shared)
{
    struct gather g = {0};
    struct app_state app = {.term = 3, .index = 10};
    static struct entry_cache cache;
    struct raft_entry a = entry(3, 11, 40000), b = entry(3, 12, 9), c = entry(3, 11, 40000);
    const struct raft_entry one[] = {a, b}, other[] = {c, b};
    struct raft_message m = {.type = RAFT_MSG_APP,
                             .term = 3,
                             .log_term = 3,
                             .index = 10,
                             .entries = one,
                             .entry_count = 2};

    stream_put_append(&g, &app, &cache, &m);
    m.entries = other;
    app.index = 10;
    stream_put_append(&g, &app, &cache, &m);

    CHECK_EQ(cache.encoded, 2);
    CHECK(g.shares[0].blob != g.shares[1].blob);
    gather_free(&g);
    entry_cache_free(&cache);
    blob_unref(a.blob);
    blob_unref(b.blob);
    blob_unref(c.blob);
}

/* A follower that was told one thing and a leader that thinks another would corrupt a log. */
TEST(only_what_continues_the_last_append_is_sent_short)
{
    struct gather g = {0};
    struct app_state app = {.term = 3, .index = 10};
    static struct entry_cache cache;
    struct raft_message m = {
        .type = RAFT_MSG_APP, .from = 0x11, .to = 0x22, .term = 3, .log_term = 3, .index = 10};

    stream_put_append(&g, &app, &cache, &m);
    CHECK_EQ(g.bytes.at[0], 1);
    gather_clear(&g);
    m.index = 9; /* went back */
    stream_put_append(&g, &app, &cache, &m);
    CHECK_EQ(g.bytes.at[0], 2);
    CHECK_EQ(app.index, 9);
    gather_clear(&g);
    m.log_term = 2; /* the entry before is of an older term */
    stream_put_append(&g, &app, &cache, &m);
    CHECK_EQ(g.bytes.at[0], 2);
    gather_clear(&g);
    m.log_term = m.term = 4; /* a new term */
    stream_put_append(&g, &app, &cache, &m);
    CHECK_EQ(g.bytes.at[0], 2);
    CHECK_EQ(app.term, 4);
    gather_clear(&g);
    stream_put_append(&g, &app, &cache, &m);
    CHECK_EQ(g.bytes.at[0], 1);
    gather_free(&g);
    entry_cache_free(&cache);
}

static void put_random_append(struct gather *g, struct app_state *app, struct entry_cache *cache,
                              struct rng *rng, uint64_t *term, uint64_t *index)
{
    struct raft_entry entries[5];
    size_t count = (size_t)rng_below(rng, 5);

    if (rng_chance(rng, 1, 8))
        *index = rng_below(rng, 100);
    if (rng_chance(rng, 1, 8))
        ++*term;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = (size_t)rng_below(rng, rng_chance(rng, 1, 10) ? 40000 : 40);
        entries[i] = entry(*term, *index + 1 + i, bytes);
    }
    stream_put_append(g, app, cache,
                      &(struct raft_message){.type = RAFT_MSG_APP,
                                             .from = 0x11,
                                             .to = 0x22,
                                             .term = *term,
                                             .log_term = *term,
                                             .index = *index,
                                             .commit = rng_below(rng, 1000),
                                             .entries = entries,
                                             .entry_count = count});
    *index += count;
    for (size_t i = 0; i < count; i++)
        blob_unref(entries[i].blob);
    entry_cache_clear(cache); /* the next entries may lie where these did */
}

TEST(what_is_cut_into_any_pieces_is_read_the_same)
{
    struct rng rng;
    struct buf text = {0}, in_one = {0}, in_pieces = {0};
    static struct entry_cache cache;

    rng_seed(&rng, test_seed());
    for (unsigned round = 0; round < 200 * test_effort(); round++) {
        struct gather app_gather = {0}, message_gather = {0};
        struct app_state app = {0};
        uint64_t term = 1, index = 0;

        for (unsigned i = 0; i < 10; i++) {
            if (rng_chance(&rng, 1, 5))
                stream_put_heartbeat(&app_gather, STREAM_APP);
            put_random_append(&app_gather, &app, &cache, &rng, &term, &index);
            stream_put_heartbeat(&message_gather, STREAM_MESSAGE);
            stream_put_message(&message_gather,
                               &(struct raft_message){.type = RAFT_MSG_VOTE,
                                                      .from = 0x11,
                                                      .to = 0x22,
                                                      .term = i,
                                                      .index = rng_below(&rng, 1000)});
        }
        struct bytes all = whole(&app_gather, &text);
        decode_all(STREAM_APP, all, NULL, &in_one);
        CHECK_STR(decode_all(STREAM_APP, all, &rng, &in_pieces), buf_str(&in_one));
        all = whole(&message_gather, &text);
        decode_all(STREAM_MESSAGE, all, NULL, &in_one);
        CHECK_STR(decode_all(STREAM_MESSAGE, all, &rng, &in_pieces), buf_str(&in_one));
        gather_free(&app_gather);
        gather_free(&message_gather);
    }
    buf_free(&text);
    buf_free(&in_one);
    buf_free(&in_pieces);
    entry_cache_free(&cache);
}

TEST(a_frame_is_refused_by_its_length_before_memory_is_taken)
{
    CHECK_STR(decode_bad(STREAM_MESSAGE, BYTES("\0\0\0\1\0\0\0\0")), "a frame that is too large");
    CHECK_STR(decode_bad(STREAM_MESSAGE, BYTES("\xff\xff\xff\xff\xff\xff\xff\xff")),
              "a frame that is too large");
    CHECK_STR(decode_bad(STREAM_APP, BYTES("\2\0\0\0\1\0\0\0\0")), "a frame that is too large");
    CHECK_STR(decode_bad(STREAM_APP, BYTES("\1\0\0\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff")),
              "a frame that is too large");
    CHECK_STR(decode_bad(STREAM_APP, BYTES("\1\xff\xff\xff\xff\xff\xff\xff\xff")),
              "too many entries in a frame");
    /* Within the bound nothing is taken for what is only announced. */
    CHECK_STR(decode_bad(STREAM_MESSAGE, BYTES("\0\0\0\0\x1f\0\0\0")), "more");
}

TEST(a_frame_that_is_none_is_refused)
{
    CHECK_STR(decode_bad(STREAM_APP, BYTES("\3")), "a frame of a type that is not known");
    CHECK_STR(decode_bad(STREAM_APP, BYTES("GET / HTTP/1.1\r\n")),
              "a frame of a type that is not known");
    CHECK_STR(decode_bad(STREAM_MESSAGE, BYTES("\0\0\0\0\0\0\0\1\xff")), "a malformed message");
    CHECK_STR(decode_bad(STREAM_APP, BYTES("\2\0\0\0\0\0\0\0\1\xff")), "a malformed message");
    CHECK_STR(decode_bad(STREAM_APP, BYTES("\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\xff"
                                           "\0\0\0\0\0\0\0\0")),
              "a malformed entry");
}

TEST(what_all_streams_are_receiving_is_bounded_together)
{
    uint64_t receiving = 0;
    struct stream_decoder one = decoder(STREAM_MESSAGE, &receiving);
    struct stream_decoder two = decoder(STREAM_MESSAGE, &receiving);
    struct arena arena = {0};
    struct blob *frame = NULL;
    struct raft_message m;
    struct buf half = {0};

    one.receiving_max = two.receiving_max = 100;
    buf_append(&half, BYTES("\0\0\0\0\0\0\0\x70"));
    memset(buf_extend(&half, 52), 0, 52);
    struct bytes in = buf_bytes(&half);
    CHECK_EQ(stream_decode(&one, &in, &arena, &frame, &m), STREAM_MORE);
    CHECK_EQ(receiving, 60);
    in = buf_bytes(&half);
    CHECK_EQ(stream_decode(&two, &in, &arena, &frame, &m), STREAM_BAD);
    CHECK_STR(two.why, "too much is being received");
    stream_decoder_free(&one);
    CHECK_EQ(receiving, 0);
    stream_decoder_free(&two);
    buf_free(&half);
    arena_free(&arena);
}
