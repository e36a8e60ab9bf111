/* Another store, made beside the first, that takes its place. */
#include "backend/backend_rig_test.h"

#include "base/list.h"
#include "harness/test.h"

#include <stdio.h>

enum { KEYS = 200 };

static struct bytes key_of(unsigned n)
{
    static char key[16];

    snprintf(key, sizeof(key), "key%06u", n);
    return bytes_of_str(key);
}

/* An entry that gives every key this value. */
static void put_all(struct backend *b, uint64_t index, struct bytes value)
{
    backend_entry_begin(b);
    for (unsigned i = 0; i < KEYS; i++)
        backend_put(b, BUCKET_KEY, key_of(i), value);
    backend_entry_end(b, (struct backend_position){index, 1}, (struct bytes){0});
}

/* Has every key this value, in a view of this position? */
static bool view_has(struct backend_view *v, uint64_t index, struct bytes value)
{
    struct backend_position position;
    struct bytes found;
    bool equal = true;

    CHECK_EQ(backend_view_position(v, &position), ERR_OK);
    for (unsigned i = 0; i < KEYS; i++) {
        CHECK_EQ(backend_get(v, BUCKET_KEY, key_of(i), &found), ERR_OK);
        equal = equal && bytes_equal(found, value);
    }
    return equal && position.index == index;
}

static bool has(struct backend *b, uint64_t index, struct bytes value)
{
    struct backend_view v;

    backend_view_open(b, &v);
    bool yes = view_has(&v, index, value);
    backend_view_close(&v);
    return yes && backend_applied(b).index == index;
}

/* Entry 1 is committed. */
static void begin(struct backend_rig *s, enum backend_rig_kind kind)
{
    backend_rig_init(s, kind);
    s->slice_bytes = 1000; /* a copy takes some batches */
    CHECK_EQ(backend_rig_open(s), ERR_OK);
    put_all(s->b, 1, BYTES("one"));
    backend_rig_commit(s);
}

/* What the store has committed, and entry 2 on top of it. */
static enum err make_image(struct backend_rig *s, struct backend **out)
{
    struct backend_options options = backend_rig_options(s);
    struct backend_view v;
    enum err e = backend_image_create(&options, out);

    if (e != ERR_OK)
        return e;
    backend_view_open_on_worker(s->b, &v);
    e = backend_image_copy(*out, &v);
    backend_view_close(&v);
    if (e != ERR_OK)
        return e;
    put_all(*out, 2, BYTES("two"));
    return backend_commit_now(*out);
}

static void installed(struct backend_install *i)
{
    i->on_done = NULL;
}

static void install(struct backend_rig *s, struct backend *image)
{
    struct backend_install i = {.on_done = installed};

    backend_install_start(s->b, image, &i);
    backend_rig_settle(s);
    CHECK(!i.on_done);
}

static void check_that_an_image_takes_the_place(enum backend_rig_kind kind)
{
    struct backend_rig s;
    struct backend *image, *old;
    struct backend_view before;
    begin(&s, kind);
    CHECK_EQ(make_image(&s, &image), ERR_OK);
    CHECK(has(image, 2, BYTES("two")));
    put_all(s.b, 2, BYTES("lost")); /* which is not committed, and must not be */

    backend_view_open(s.b, &before);
    install(&s, image);
    old = s.b;
    s.b = image;
    put_all(s.b, 3, BYTES("three"));
    backend_rig_commit(&s);

    CHECK(view_has(&before, 2, BYTES("lost"))); /* who looks at the old one goes on to */
    CHECK(!backend_can_commit(old));
    backend_check(old);
    backend_check(s.b);
    backend_view_close(&before);
    backend_close(old);
    CHECK(has(s.b, 3, BYTES("three")));
    backend_rig_crash(&s);
    CHECK(has(s.b, 3, BYTES("three")));
    backend_rig_close(&s);
    backend_rig_free(&s);
}

TEST(an_image_takes_the_place_of_its_store_in_memory)
{
    check_that_an_image_takes_the_place(BACKEND_RIG_MEMORY);
}

TEST(an_image_takes_the_place_of_its_store_on_disk)
{
    check_that_an_image_takes_the_place(BACKEND_RIG_LMDB);
}

/* The log's last snapshot is at 2: it tells that the install had come that far. */
static void check_that_an_install_is_ended_at_opening(enum backend_rig_kind kind)
{
    struct backend_rig s;
    struct backend *image;
    begin(&s, kind);
    CHECK_EQ(make_image(&s, &image), ERR_OK);
    backend_close(image);

    s.log_index = 2;
    backend_rig_crash(&s);

    CHECK(has(s.b, 2, BYTES("two")));
    put_all(s.b, 3, BYTES("three"));
    backend_rig_commit(&s);
    backend_rig_crash(&s);
    CHECK(has(s.b, 3, BYTES("three")));
    backend_rig_close(&s);
    backend_rig_free(&s);
}

TEST(an_install_that_was_recorded_is_ended_at_the_next_opening_in_memory)
{
    check_that_an_install_is_ended_at_opening(BACKEND_RIG_MEMORY);
}

TEST(an_install_that_was_recorded_is_ended_at_the_next_opening_on_disk)
{
    check_that_an_install_is_ended_at_opening(BACKEND_RIG_LMDB);
}

static void check_that_an_image_is_forgotten(enum backend_rig_kind kind)
{
    struct backend_rig s;
    struct backend *image;
    begin(&s, kind);
    CHECK_EQ(make_image(&s, &image), ERR_OK);
    backend_close(image);

    s.log_index = 1;
    backend_rig_crash(&s);

    CHECK(has(s.b, 1, BYTES("one")));
    s.log_index = 2; /* and nobody comes back to it */
    backend_rig_crash(&s);
    CHECK(has(s.b, 1, BYTES("one")));
    backend_rig_close(&s);
    backend_rig_free(&s);
}

TEST(an_image_that_was_not_recorded_is_forgotten_in_memory)
{
    check_that_an_image_is_forgotten(BACKEND_RIG_MEMORY);
}

TEST(an_image_that_was_not_recorded_is_forgotten_on_disk)
{
    check_that_an_image_is_forgotten(BACKEND_RIG_LMDB);
}

static void defragmented(struct backend_defrag *d, enum err e)
{
    CHECK_EQ(e, ERR_CANCELED);
    d->on_done = NULL;
}

TEST(a_defragmentation_ends_when_its_store_is_replaced)
{
    for (unsigned kind = BACKEND_RIG_MEMORY; kind <= BACKEND_RIG_LMDB; kind++) {
        struct backend_rig s;
        struct backend *image, *old;
        struct backend_defrag d = {.on_done = defragmented};
        begin(&s, (enum backend_rig_kind)kind);
        CHECK_EQ(make_image(&s, &image), ERR_OK);
        CHECK(backend_defrag_start(s.b, &d));
        CHECK(backend_rig_run(&s)); /* a slice, and there are more */

        install(&s, image);
        old = s.b;
        s.b = image;

        CHECK(!d.on_done);
        backend_close(old);
        CHECK(has(s.b, 2, BYTES("two")));
        backend_rig_crash(&s);
        CHECK(has(s.b, 2, BYTES("two")));
        backend_rig_close(&s);
        backend_rig_free(&s);
    }
}

/* The record is written when the image is whole. Its own durability is the log's affair: as far as
 * the store is concerned it is there or not. */
TEST(after_a_power_cut_at_any_call_one_of_the_two_stores_is_there_whole)
{
    unsigned old_found = 0, new_found = 0;
    bool reached = true;
    uint64_t nth = 1;

    for (; reached; nth++) {
        struct backend_rig s;
        struct backend *image = NULL;
        struct backend_install i = {.on_done = installed};
        begin(&s, BACKEND_RIG_MEMORY);
        uint64_t calls = memory_disk_calls(s.memory);
        memory_disk_crash_at(s.memory, nth);

        bool recorded = make_image(&s, &image) == ERR_OK;
        if (recorded) {
            backend_install_start(s.b, image, &i);
            backend_rig_settle(&s);
        }
        reached = memory_disk_calls(s.memory) - calls >= nth;
        backend_rig_close(&s);
        backend_close(image);
        memory_disk_restart(s.memory);
        s.log_index = recorded ? 2 : 1;
        CHECK_EQ(backend_rig_open(&s), ERR_OK);

        CHECK(recorded ? has(s.b, 2, BYTES("two")) : has(s.b, 1, BYTES("one")));
        old_found += !recorded;
        new_found += recorded && reached;
        backend_rig_close(&s);
        backend_rig_free(&s);
    }
    CHECK(nth > 2 * KEYS);
    CHECK(old_found > 0);
    CHECK_EQ(new_found, 2); /* the rename, the sync of the folder */
}
