#include "apply/apply_rig_test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "pb/wire.h"

#include <stdio.h>

/* A scan over the keys of a rig, measured. */
static struct mvcc_scan *scan_of(struct apply_rig *d, const char *key, const char *end)
{
    struct mvcc_scan *s =
        reply_scan_new(&(struct mvcc_question){.key = bytes_of_str(key),
                                               .end = apply_rig_end(end),
                                               .at = revision_whole(mvcc_revision(d->mvcc)),
                                               .tag = PB_TAG_BYTES(2)});

    mvcc_scan_open(d->mvcc, s);
    while (!mvcc_scan_measure(s, 1))
        ;
    return s;
}

/* `keys` of them, each with a value of this length. */
static void fill(struct apply_rig *d, unsigned keys, size_t value_len)
{
    struct buf value = {0};

    memset(buf_extend(&value, value_len), 'v', value_len);
    for (unsigned i = 0; i < keys; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%04u", i);
        struct pb_put_request put = {.key = bytes_of_str(key), .value = buf_bytes(&value)};
        CHECK_EQ(apply_rig_do(d, &(struct pb_internal_raft_request){.put = &put}), RESULT_OK);
    }
    buf_free(&value);
}

TEST(an_empty_reply_is_inline_and_ends_at_once)
{
    struct reply r = {0};
    struct buf out = {0};

    CHECK(reply_is_inline(&r));
    CHECK(reply_read(&r, 10, &out));
    CHECK_EQ(out.len, 0);
    reply_free(&r);
}

TEST(closing_puts_tag_and_length_before_what_came_since_the_mark)
{
    struct reply r = {0};

    reply_add(&r, BYTES("ab"));
    size_t outer = reply_mark(&r);
    reply_add(&r, BYTES("cd"));
    size_t inner = reply_mark(&r);
    reply_close(&r, inner, 'i');
    reply_add(&r, BYTES("ef"));
    reply_close(&r, outer, 'o');
    reply_add_number(&r, 'n', 300);
    reply_add_number(&r, 'z', 0);

    reply_check(&r);
    CHECK(reply_is_inline(&r));
    CHECK_BYTES(reply_bytes(&r), BYTES("abo\006cdi\0efn\254\002"));
    reply_free(&r);
}

/* However deep it lies: a transaction of a megabyte may have thousands of levels. */
TEST(sealing_moves_nothing_of_what_is_inside)
{
    struct reply r = {0};

    struct reply_nest outer = reply_open(&r);
    reply_add(&r, BYTES("ab"));
    struct reply_nest inner = reply_open(&r);
    reply_add(&r, BYTES("cd"));
    reply_seal(&r, inner, 'i', 'j');
    reply_add(&r, BYTES("e"));
    reply_seal(&r, outer, 'o', 'p');

    reply_check(&r);
    CHECK_BYTES(bytes_of(r.text.at, 4), BYTES("abcd"));
    reply_join(&r);
    reply_check(&r);
    CHECK(reply_is_inline(&r));
    CHECK_BYTES(reply_bytes(&r), BYTES("p\013o\011abj\004i\002cde"));
    reply_free(&r);
}

TEST(a_small_scan_is_read_at_once_and_a_large_one_stays_in_the_store)
{
    struct apply_rig d;
    struct reply r = {0};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    fill(&d, 100, 100);

    reply_add_scan(&r, scan_of(&d, "k0000", "k0003"));
    CHECK(reply_is_inline(&r));
    CHECK_EQ(mvcc_status(d.mvcc).pins, 0);
    reply_add_scan(&r, scan_of(&d, "x", "z"));
    CHECK(reply_is_inline(&r));

    reply_add_scan(&r, scan_of(&d, "k0003", "*"));
    CHECK(!reply_is_inline(&r));
    CHECK_EQ(mvcc_status(d.mvcc).pins, 1);
    CHECK_EQ(r.text.len < 1000, true);
    reply_free(&r);
    CHECK_EQ(mvcc_status(d.mvcc).pins, 0);
    apply_rig_free(&d);
}

/* A transaction may have a hundred thousand of them. */
TEST(small_scans_stay_in_the_store_where_there_are_many)
{
    struct apply_rig d;
    struct reply r = {0};
    struct buf got = {0}, want = {0};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    fill(&d, 1, 4000);
    fill(&d, 1, 4000);

    for (unsigned i = 0; i < 100; i++) {
        struct mvcc_scan *s = scan_of(&d, "k", "*");
        while (!mvcc_scan_read(s, 1 << 20, 1000, &want))
            ;
        reply_scan_free(s);
        reply_add_scan(&r, scan_of(&d, "k", "*"));
        reply_add_scan(&r, scan_of(&d, "l", "*"));
    }

    CHECK(r.text.len > REPLY_TEXT_BYTES_MAX / 2);
    CHECK(r.text.len <= REPLY_TEXT_BYTES_MAX);
    CHECK(mvcc_status(d.mvcc).pins > 50);
    apply_rig_read_reply(&r, 1000, &got);
    CHECK_BYTES(buf_bytes(&got), buf_bytes(&want));
    reply_free(&r);
    buf_free(&got);
    buf_free(&want);
    apply_rig_free(&d);
}

/* The scan's revision is what counts, not the moment it is read. */
TEST(a_reply_shows_the_state_it_was_made_of)
{
    struct apply_rig d;
    struct reply r = {0}, moved = {0};
    struct buf got = {0}, want = {0};
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    fill(&d, 100, 100);
    struct mvcc_scan *s = scan_of(&d, "k", "*");
    while (!mvcc_scan_read(s, 1 << 20, 1000, &want))
        ;
    reply_scan_free(s);

    reply_add_scan(&r, scan_of(&d, "k", "*"));
    CHECK_EQ(apply_rig_delete(&d, "k", "*"), RESULT_OK);
    fill(&d, 10, 7);
    reply_move(&r, &moved);

    CHECK_EQ(r.total, 0);
    apply_rig_read_reply(&moved, 1000, &got);
    CHECK_BYTES(buf_bytes(&got), buf_bytes(&want));
    CHECK_EQ(mvcc_status(d.mvcc).pins, 0); /* closed at its end, before the reply is freed */
    reply_free(&moved);
    buf_free(&got);
    buf_free(&want);
    apply_rig_free(&d);
}

/* A value larger than any chunk comes in pieces. */
TEST(no_chunk_is_larger_than_asked_for)
{
    struct apply_rig d;
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    fill(&d, 2, 100000);

    for (size_t chunk = 1; chunk < 300000; chunk = chunk * 7 + 1) {
        struct reply r = {0};
        struct buf got = {0};
        size_t mark = reply_mark(&r);
        reply_add_scan(&r, scan_of(&d, "k", "*"));
        reply_close(&r, mark, 0x0a);
        apply_rig_read_reply(&r, chunk, &got);
        CHECK_EQ(got.len, r.total);
        CHECK_EQ(got.at[got.len - 1], 'v');
        reply_free(&r);
        buf_free(&got);
    }
    apply_rig_free(&d);
}

/* ---- Random building, against one flat buffer ---- */

struct flat {
    struct buf bytes;
    size_t marks[8];
    size_t depth;
    size_t nested; /* the outer ones of those */
};

/* Of the reply, the same. */
union mark {
    size_t mark;
    struct reply_nest nest;
};

static void flat_insert(struct flat *f, size_t at, struct bytes what)
{
    struct buf out = {0};

    if (at > 0)
        buf_append(&out, bytes_of(f->bytes.at, at));
    buf_append(&out, what);
    if (at < f->bytes.len)
        buf_append(&out, bytes_of(f->bytes.at + at, f->bytes.len - at));
    buf_free(&f->bytes);
    f->bytes = out;
}

static void flat_close(struct flat *f, size_t mark, uint8_t tag)
{
    uint8_t space[16], *end = space + sizeof(space);
    uint8_t *start = pb_put_varint(end, f->bytes.len - mark);

    *--start = tag;
    flat_insert(f, mark, bytes_of(start, (size_t)(end - start)));
}

static void add_scan_to_both(struct apply_rig *d, struct rng *rng, struct reply *r, struct flat *f)
{
    char key[16], end[16];
    unsigned from = (unsigned)rng_below(rng, 60);
    unsigned count = rng_below(rng, 2) ? 2 : 50; /* read at once, or not */

    snprintf(key, sizeof(key), "k%04u", from);
    snprintf(end, sizeof(end), "k%04u", from + count);
    struct mvcc_scan *s = scan_of(d, key, end);
    while (s->bytes > 0 && !mvcc_scan_read(s, 1 << 20, 1000, &f->bytes))
        ;
    reply_scan_free(s);
    reply_add_scan(r, scan_of(d, key, end));
}

static void begin_in_both(struct rng *rng, struct reply *r, union mark *marks, struct flat *f)
{
    if (f->depth == ARRAY_LEN(f->marks))
        return;
    f->marks[f->depth] = f->bytes.len;
    if (f->nested == f->depth && rng_below(rng, 2)) {
        marks[f->depth].nest = reply_open(r);
        f->nested++;
    } else {
        marks[f->depth].mark = reply_mark(r);
    }
    f->depth++;
}

static void end_in_both(struct reply *r, const union mark *marks, struct flat *f)
{
    if (f->depth == 0)
        return;
    uint8_t tag = (uint8_t)f->depth--;
    flat_close(f, f->marks[f->depth], tag);
    if (f->nested <= f->depth) {
        reply_close(r, marks[f->depth].mark, tag);
        return;
    }
    reply_seal(r, marks[f->depth].nest, tag, 'n');
    flat_close(f, f->marks[f->depth], 'n');
    f->nested--;
}

static void random_step(struct apply_rig *d, struct rng *rng, struct reply *r, union mark *marks,
                        struct flat *f)
{
    static const uint8_t some[40] = "some bytes that are neither here nor th";

    switch (rng_below(rng, 5)) {
    case 0:
        begin_in_both(rng, r, marks, f);
        break;
    case 1:
        end_in_both(r, marks, f);
        break;
    case 2:
        add_scan_to_both(d, rng, r, f);
        break;
    default: {
        struct bytes piece = bytes_of(some, rng_below(rng, sizeof(some)));
        reply_add(r, piece);
        buf_append(&f->bytes, piece);
    }
    }
}

TEST(random_replies_are_what_one_buffer_would_be)
{
    struct apply_rig d;
    struct rng rng;
    rng_seed(&rng, test_seed());
    apply_rig_init(&d, BACKEND_RIG_MEMORY);
    fill(&d, 64, 200);

    for (uint64_t i = 0; i < 300 * test_effort(); i++) {
        struct reply r = {0};
        struct flat f = {0};
        struct buf got = {0};
        union mark marks[ARRAY_LEN(f.marks)] = {0};
        for (uint64_t n = rng_below(&rng, 30); n > 0; n--) {
            random_step(&d, &rng, &r, marks, &f);
            reply_check(&r);
            CHECK_EQ(r.total, f.bytes.len);
        }
        while (f.depth > 0)
            end_in_both(&r, marks, &f);
        reply_join(&r);
        reply_check(&r);
        reply_add_front(&r, BYTES("head"));
        flat_insert(&f, 0, BYTES("head"));
        size_t chunk = 1 + rng_below(&rng, 5000);
        apply_rig_read_reply(&r, chunk, &got);
        CHECK_BYTES(buf_bytes(&got), buf_bytes(&f.bytes));
        reply_free(&r);
        buf_free(&f.bytes);
        buf_free(&got);
    }
    CHECK_EQ(mvcc_status(d.mvcc).pins, 0);
    apply_rig_free(&d);
}
