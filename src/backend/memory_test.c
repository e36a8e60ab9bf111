/*
 * The twin's disk fails, or loses power, at the first call, then at the second, and so on until a
 * whole story of commits and a defragmentation passes without reaching that call.
 */
#include "backend/backend_int.h"
#include "backend/story_test.h"

#include "harness/test.h"

static void init(struct story *t, uint64_t seed)
{
    story_init(t, BACKEND_RIG_MEMORY);
    memory_disk_free(t->s.memory);
    t->s.memory = memory_disk_new(seed);
    CHECK_EQ(backend_rig_open(&t->s), ERR_OK);
}

TEST(after_a_power_cut_at_any_call_whole_batches_are_left)
{
    unsigned unreported = 0, lost = 0;
    uint64_t nth = 1;

    for (bool reached = true; reached; nth++)
        for (uint64_t again = 0; again < 3; again++) {
            struct story t;
            init(&t, test_seed() * 1000000 + nth * 3 + again);
            memory_disk_crash_at(t.s.memory, nth);

            story_tell(&t);
            backend_rig_close(&t.s);
            memory_disk_restart(t.s.memory);

            reached = memory_disk_calls(t.s.memory) >= nth;
            CHECK(reached ? t.s.failed || t.defrag_err != ERR_OK : t.defrag_done);
            unsigned found = story_check_prefix(&t);
            unreported += found > t.reported;
            lost += found < t.handed_over;
            backend_rig_close(&t.s);
            backend_rig_free(&t.s);
        }
    CHECK(nth > 100);      /* the sweep went somewhere */
    CHECK(unreported > 0); /* and met both ends that a crash can have */
    CHECK(lost > 0);
}

TEST(a_failure_at_any_call_is_told_and_harms_nothing)
{
    unsigned failed_commits = 0, failed_defrags = 0;
    bool reached = true;

    for (uint64_t nth = 1; reached; nth++) {
        struct story t;
        init(&t, test_seed());
        memory_disk_fail_at(t.s.memory, nth);

        story_tell(&t);
        reached = memory_disk_calls(t.s.memory) >= nth;

        CHECK(!reached || t.s.failed || (t.defrag_done && t.defrag_err == ERR_IO));
        if (!t.s.failed) { /* only the copy was hurt */
            CHECK_EQ(t.reported, STORY_BATCHES);
            CHECK(t.defrag_done);
        }
        failed_commits += t.s.failed;
        failed_defrags += t.defrag_done && t.defrag_err != ERR_OK;
        backend_rig_close(&t.s);
        memory_disk_restart(t.s.memory);
        story_check_prefix(&t);
        backend_rig_close(&t.s);
        backend_rig_free(&t.s);
    }
    CHECK(failed_commits > 0);
    CHECK(failed_defrags > 0);
}

TEST(a_twin_forgets_versions_that_nobody_can_see)
{
    struct backend_rig s;

    backend_rig_init(&s, BACKEND_RIG_MEMORY);
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    for (int i = 0; i < 20000; i++) {
        backend_put(s.b, BUCKET_KEY, BYTES("the same"), BYTES("0123456789"));
        backend_rig_commit(&s);
    }
    CHECK_EQ(backend_sizes(s.b).used_bytes, 18);
    CHECK_EQ(backend_sizes(s.b).file_bytes, 18);
    backend_rig_close(&s);
    backend_rig_free(&s);
}

/* What becomes of a backend whose commit finds no space is not the disk's affair: the test looks at
 * the store below it. */
TEST(a_full_disk_refuses_a_commit_and_keeps_the_store_as_it_was)
{
    struct memory_disk *d = memory_disk_new(test_seed());
    struct store *s;
    struct store_reader *r;
    struct bytes value;
    static const uint8_t large[10000];
    enum { LEFT = 8192 };

    CHECK_EQ(memory_store_open(d, &s), ERR_OK);
    memory_disk_set_space(d, LEFT);
    CHECK_EQ(s->ops->begin(s), ERR_OK);
    CHECK_EQ(s->ops->put(s, BUCKET_KEY, BYTES("a"), BYTES("small")), ERR_OK);
    CHECK_EQ(s->ops->commit(s), ERR_OK);
    CHECK_EQ(memory_disk_space(d), LEFT - 6);

    /* More than there is. */
    CHECK_EQ(s->ops->begin(s), ERR_OK);
    CHECK_EQ(s->ops->put(s, BUCKET_KEY, BYTES("a"), BYTES("other")), ERR_OK);
    CHECK_EQ(s->ops->put(s, BUCKET_KEY, BYTES("b"), bytes_of(large, sizeof(large))), ERR_OK);
    CHECK_EQ(s->ops->commit(s), ERR_NO_SPACE);
    CHECK_EQ(s->ops->reader_open(s, &r), ERR_OK);
    CHECK_EQ(s->ops->get(r, BUCKET_KEY, BYTES("a"), &value), ERR_OK);
    CHECK_BYTES(value, BYTES("small"));
    CHECK_EQ(s->ops->get(r, BUCKET_KEY, BYTES("b"), &value), ERR_NOT_FOUND);
    s->ops->reader_close(r);
    CHECK_EQ(memory_disk_space(d), LEFT - 6);

    /* Not even a page. */
    memory_disk_set_space(d, 100);
    CHECK_EQ(s->ops->begin(s), ERR_OK);
    CHECK_EQ(s->ops->remove(s, BUCKET_KEY, BYTES("a")), ERR_OK);
    CHECK_EQ(s->ops->commit(s), ERR_NO_SPACE);

    /* And again there is space. */
    memory_disk_set_space(d, 2 * sizeof(large));
    CHECK_EQ(s->ops->begin(s), ERR_OK);
    CHECK_EQ(s->ops->put(s, BUCKET_KEY, BYTES("b"), bytes_of(large, sizeof(large))), ERR_OK);
    CHECK_EQ(s->ops->commit(s), ERR_OK);
    CHECK_EQ(memory_disk_space(d), sizeof(large) - 1);
    s->ops->close(s);
    memory_disk_free(d);
}

TEST(a_spoiled_value_is_never_read_and_another_in_its_place_is_well)
{
    struct memory_disk *d = memory_disk_new(test_seed());
    struct store *s;
    struct store_reader *r;
    struct bytes key, value;
    struct rng coin;

    rng_seed(&coin, test_seed());
    CHECK_EQ(memory_store_open(d, &s), ERR_OK);
    CHECK(!memory_disk_flip(d, &coin)); /* there is nothing yet */
    CHECK_EQ(s->ops->begin(s), ERR_OK);
    CHECK_EQ(s->ops->put(s, BUCKET_LEASE, BYTES("a"), BYTES("one")), ERR_OK);
    CHECK_EQ(s->ops->commit(s), ERR_OK);

    CHECK(memory_disk_flip(d, &coin));
    CHECK_EQ(s->ops->reader_open(s, &r), ERR_OK);
    CHECK_EQ(s->ops->get(r, BUCKET_LEASE, BYTES("a"), &value), ERR_CORRUPT);
    struct store_cursor *c = s->ops->cursor_open(r, BUCKET_LEASE, BYTES(""));
    CHECK_EQ(s->ops->cursor_next(c, &key, &value), ERR_CORRUPT);
    CHECK_EQ(s->ops->cursor_next(c, &key, &value), ERR_CORRUPT);
    s->ops->cursor_close(c);
    s->ops->reader_close(r);

    /* A restart does not heal it. */
    s->ops->close(s);
    memory_disk_restart(d);
    CHECK_EQ(memory_store_open(d, &s), ERR_OK);
    CHECK_EQ(s->ops->reader_open(s, &r), ERR_OK);
    CHECK_EQ(s->ops->get(r, BUCKET_LEASE, BYTES("a"), &value), ERR_CORRUPT);
    s->ops->reader_close(r);

    CHECK_EQ(s->ops->begin(s), ERR_OK);
    CHECK_EQ(s->ops->put(s, BUCKET_LEASE, BYTES("a"), BYTES("two")), ERR_OK);
    CHECK_EQ(s->ops->commit(s), ERR_OK);
    CHECK_EQ(s->ops->reader_open(s, &r), ERR_OK);
    CHECK_EQ(s->ops->get(r, BUCKET_LEASE, BYTES("a"), &value), ERR_OK);
    CHECK_BYTES(value, BYTES("two"));
    s->ops->reader_close(r);

    /* And a wiped disk has nothing. */
    s->ops->close(s);
    memory_disk_wipe(d);
    CHECK_EQ(memory_store_open(d, &s), ERR_OK);
    CHECK_EQ(s->ops->reader_open(s, &r), ERR_OK);
    CHECK_EQ(s->ops->get(r, BUCKET_LEASE, BYTES("a"), &value), ERR_NOT_FOUND);
    s->ops->reader_close(r);
    s->ops->close(s);
    memory_disk_free(d);
}

static void give_space(struct story *t)
{
    if (t->waited % 2 == 0)
        memory_disk_set_space(t->s.memory, 1 * MIB);
}

TEST(a_twin_on_a_full_disk_goes_on_when_there_is_space)
{
    unsigned waited = 0, defrags = 0;

    for (uint64_t space = 0; space < 64 * KIB; space += 1 + space / 8) {
        struct story t;
        story_init(&t, BACKEND_RIG_MEMORY);
        t.on_full = give_space;
        CHECK_EQ(backend_rig_open(&t.s), ERR_OK);
        memory_disk_set_space(t.s.memory, space);

        story_tell(&t);

        CHECK(!t.s.failed);
        CHECK_EQ(t.reported, STORY_BATCHES);
        waited += t.waited;
        defrags += t.defrag_err == ERR_NO_SPACE;
        backend_rig_close(&t.s);
        CHECK_EQ(story_check_prefix(&t), STORY_BATCHES);
        backend_rig_close(&t.s);
        backend_rig_free(&t.s);
    }
    CHECK(waited > 20);
    CHECK(defrags > 5);
}

/* Views have it, the next one gathers, and its end is the same as ever. */
TEST(a_batch_that_finds_no_space_stays_frozen_where_everybody_sees_it)
{
    struct backend_rig s;
    struct backend_view v;
    struct bytes value;
    backend_rig_init(&s, BACKEND_RIG_MEMORY);
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    memory_disk_set_space(s.memory, 0);

    backend_put(s.b, BUCKET_KEY, BYTES("a"), BYTES("one"));
    backend_rig_commit(&s);
    backend_put(s.b, BUCKET_KEY, BYTES("b"), BYTES("two"));

    CHECK(!s.failed);
    CHECK(backend_lacks_space(s.b));
    CHECK(backend_is_committing(s.b));
    CHECK(backend_is_idle(s.b));
    CHECK(!backend_can_commit(s.b));
    CHECK(strstr(backend_failure(s.b), "no space left") != NULL);
    backend_view_open(s.b, &v);
    CHECK_EQ(backend_get(&v, BUCKET_KEY, BYTES("a"), &value), ERR_OK);
    CHECK_EQ(backend_get(&v, BUCKET_KEY, BYTES("b"), &value), ERR_OK);
    backend_view_close(&v);
    backend_view_open_on_worker(s.b, &v);
    CHECK_EQ(backend_get(&v, BUCKET_KEY, BYTES("a"), &value), ERR_OK);
    CHECK_EQ(backend_get(&v, BUCKET_KEY, BYTES("b"), &value), ERR_NOT_FOUND);
    backend_view_close(&v);
    backend_retry(s.b);
    backend_rig_settle(&s);
    CHECK(backend_lacks_space(s.b)); /* still */
    CHECK_EQ(backend_durable_batch(s.b), 0);
    memory_disk_set_space(s.memory, MEMORY_DISK_NOT_FULL);
    backend_retry(s.b);
    CHECK(backend_lacks_space(s.b)); /* until it is done */
    backend_rig_settle(&s);
    CHECK(!backend_lacks_space(s.b));
    CHECK_EQ(backend_durable_batch(s.b), 1);
    CHECK(backend_can_commit(s.b));
    backend_rig_close(&s);
    backend_rig_free(&s);
}
