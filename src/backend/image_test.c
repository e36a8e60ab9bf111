/* Another store, made beside the first, that takes its place. */
#include "backend/backend_rig_test.h"

#include "backend/lmdb_fault_test.h"
#include "base/list.h"
#include "harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

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

/* --- a full disk --- */

static void check_waits(struct backend_rig *s, const struct backend_install *i)
{
    CHECK(i->on_done);
    CHECK(!s->failed);
    CHECK(backend_is_idle(s->b));
    CHECK(backend_lacks_space(s->b));
    CHECK(backend_failure(s->b)[0] != 0);
    backend_check(s->b);
}

TEST(an_image_whose_rename_finds_no_space_takes_the_place_later)
{
    struct backend_rig s;
    struct backend *image, *old;
    struct backend_install i = {.on_done = installed};
    begin(&s, BACKEND_RIG_MEMORY);
    CHECK_EQ(make_image(&s, &image), ERR_OK);
    memory_disk_set_space(s.memory, 0);

    backend_install_start(s.b, image, &i);
    backend_rig_settle(&s);
    check_waits(&s, &i);
    put_all(s.b, 2, BYTES("lost"));
    backend_rig_commit(&s); /* which waits behind it */
    CHECK(backend_is_committing(s.b));
    CHECK(has(s.b, 2, BYTES("lost")));
    backend_retry(s.b);
    backend_rig_settle(&s);
    check_waits(&s, &i);
    memory_disk_set_space(s.memory, MEMORY_DISK_NOT_FULL);
    backend_retry(s.b);
    backend_rig_settle(&s);
    CHECK(!i.on_done);
    old = s.b;
    s.b = image;

    CHECK(!backend_lacks_space(s.b));
    backend_check(old);
    backend_close(old);
    put_all(s.b, 3, BYTES("three"));
    backend_rig_commit(&s);
    backend_rig_crash(&s);
    CHECK(has(s.b, 3, BYTES("three")));
    backend_rig_close(&s);
    backend_rig_free(&s);
}

TEST(an_image_whose_rename_waits_takes_the_place_after_a_crash)
{
    struct backend_rig s;
    struct backend *image;
    struct backend_install i = {.on_done = installed};
    begin(&s, BACKEND_RIG_MEMORY);
    CHECK_EQ(make_image(&s, &image), ERR_OK);
    memory_disk_set_space(s.memory, 0);
    backend_install_start(s.b, image, &i);
    backend_rig_settle(&s);

    backend_close(image);
    memory_disk_crash(s.memory);
    backend_rig_close(&s);
    memory_disk_restart(s.memory);
    s.log_index = 2;
    CHECK_EQ(backend_rig_open(&s), ERR_NO_SPACE);
    memory_disk_set_space(s.memory, MEMORY_DISK_NOT_FULL);
    CHECK_EQ(backend_rig_open(&s), ERR_OK);

    CHECK(has(s.b, 2, BYTES("two")));
    backend_rig_close(&s);
    backend_rig_free(&s);
}

/* Installs an image while the nth call fails. False: there are not so many. */
static bool install_and_fail(uint64_t nth, int error, unsigned *waited, unsigned *ended)
{
    struct backend_rig s;
    struct backend *image;
    struct backend_install i = {.on_done = installed};
    char command[200];
    begin(&s, BACKEND_RIG_LMDB);
    CHECK_EQ(make_image(&s, &image), ERR_OK);

    lmdb_fault_at(s.dir, nth, error);
    backend_install_start(s.b, image, &i);
    backend_rig_settle(&s);
    bool reached = lmdb_fault_end();

    *ended += s.failed;
    if (i.on_done && !s.failed) {
        (*waited)++;
        check_waits(&s, &i);
        backend_retry(s.b);
        backend_rig_settle(&s);
    }
    CHECK(s.failed || !i.on_done);
    CHECK(reached || !s.failed);
    backend_close(image);
    s.log_index = 2;
    backend_rig_crash(&s);
    CHECK(has(s.b, 2, BYTES("two")));
    backend_rig_close(&s);
    backend_rig_free(&s);
    snprintf(command, sizeof(command), "rm -rf '%s'", s.dir);
    CHECK_EQ(system(command), 0);
    return reached;
}

/* From the rename on nobody knows which of the two the disk has. */
TEST(an_image_waits_for_space_or_a_descriptor_until_it_is_renamed_and_not_behind_that)
{
    static const int errors[] = {ENOSPC, EMFILE};

    for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
        unsigned waited = 0, ended = 0;
        uint64_t nth = 1;

        while (install_and_fail(nth, errors[i], &waited, &ended))
            nth++;

        CHECK_EQ(waited, 2); /* to open the folder, to rename the file */
        CHECK_EQ(ended, 2);  /* to rename its table of readers, to sync the folder */
    }
}

/* --- after a crash --- */

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

/* Somebody asks for one while the rename is under way, or when nobody has heard of its end. */
TEST(a_defragmentation_asked_for_during_the_rename_ends_too)
{
    struct backend_rig s;
    struct backend *image, *old;
    struct backend_install i = {.on_done = installed};
    struct backend_defrag d = {.on_done = defragmented};
    begin(&s, BACKEND_RIG_MEMORY);
    CHECK_EQ(make_image(&s, &image), ERR_OK);

    backend_install_start(s.b, image, &i);
    CHECK(backend_rig_run(&s));
    CHECK(backend_defrag_start(s.b, &d));
    backend_rig_settle(&s);
    old = s.b;
    s.b = image;

    CHECK(!d.on_done); /* it was told */
    backend_close(old);
    backend_rig_close(&s);
    backend_rig_free(&s);
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
