/* An entry that is committed in parts. */
#include "backend/stand_test.h"

#include "base/list.h"
#include "base/mem.h"
#include "harness/test.h"

#include <stdio.h>

enum { BEFORE = 20, PARTS = 3, PART_KEYS = 50 };

static struct bytes key_of(unsigned n)
{
    static char key[16];

    snprintf(key, sizeof(key), "key%06u", n);
    return bytes_of_str(key);
}

static void end_entry(struct stand *s, uint64_t index)
{
    backend_entry_end(s->b, (struct backend_position){index, 1}, (struct bytes){0});
}

/* Entry 1, with a few keys, is committed; entry 2 has begun and is of the kind that has parts. */
static void begin(struct stand *s)
{
    backend_entry_begin(s->b);
    for (unsigned i = 0; i < BEFORE; i++)
        backend_put(s->b, BUCKET_KEY, key_of(i), BYTES("before"));
    backend_put(s->b, BUCKET_LEASE, BYTES("lease"), BYTES("there"));
    end_entry(s, 1);
    stand_commit(s);
    backend_entry_begin(s->b);
    backend_put(s->b, BUCKET_KEY, key_of(BEFORE), BYTES("first"));
    CHECK(!backend_can_commit(s->b));
    backend_entry_divide(s->b, BUCKET_KEY, key_of(BEFORE));
}

static void write_part(struct stand *s, unsigned part)
{
    for (unsigned i = 0; i < PART_KEYS; i++)
        backend_put(s->b, BUCKET_KEY, key_of(BEFORE + part * PART_KEYS + i), BYTES("part"));
}

static unsigned count(struct stand *s, enum bucket bucket)
{
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value;
    unsigned n = 0;
    enum err e;

    backend_view_open(s->b, &v);
    backend_cursor_open(&v, bucket, (struct bytes){0}, &c);
    while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK)
        n++;
    CHECK_EQ(e, ERR_END);
    backend_cursor_close(&c);
    backend_view_close(&v);
    return n;
}

static void check_begun_only(struct stand *s)
{
    CHECK_EQ(backend_applied(s->b).index, 1);
    CHECK_EQ(count(s, BUCKET_KEY), BEFORE);
    CHECK_EQ(count(s, BUCKET_LEASE), 1);
    CHECK_EQ(count(s, BUCKET_META), 2); /* index and term, and no note of parts */
}

static void check_all(struct stand *s)
{
    CHECK_EQ(backend_applied(s->b).index, 2);
    CHECK_EQ(count(s, BUCKET_KEY), BEFORE + PARTS * PART_KEYS);
    CHECK_EQ(count(s, BUCKET_LEASE), 0);
    CHECK_EQ(count(s, BUCKET_META), 2);
}

static void check_parts(enum stand_kind kind)
{
    struct stand s;
    stand_init(&s, kind);
    CHECK_EQ(stand_open(&s), ERR_OK);
    begin(&s);

    for (unsigned part = 0; part < PARTS; part++) {
        write_part(&s, part);
        CHECK(backend_can_commit(s.b));
        stand_commit(&s);
        CHECK_EQ(backend_durable(s.b).index, 1);
        CHECK_EQ(count(&s, BUCKET_KEY), BEFORE + (part + 1) * PART_KEYS);
        backend_check(s.b);
    }
    backend_delete(s.b, BUCKET_LEASE, BYTES("lease"));
    CHECK(!backend_can_commit(s.b)); /* a crash could not undo that */
    end_entry(&s, 2);
    stand_commit(&s);

    CHECK_EQ(backend_durable(s.b).index, 2);
    check_all(&s);
    stand_crash(&s);
    check_all(&s);
    stand_close(&s);
    stand_free(&s);
}

TEST(an_entry_is_committed_in_parts_in_memory)
{
    check_parts(STAND_MEMORY);
}

TEST(an_entry_is_committed_in_parts_on_disk)
{
    check_parts(STAND_LMDB);
}

static void check_crash(enum stand_kind kind)
{
    struct stand s;
    stand_init(&s, kind);
    CHECK_EQ(stand_open(&s), ERR_OK);
    begin(&s);
    write_part(&s, 0);
    stand_commit(&s);
    write_part(&s, 1);
    stand_commit(&s);

    stand_crash(&s);

    check_begun_only(&s);
    backend_entry_begin(s.b); /* the log gives it again */
    for (unsigned part = 0; part < PARTS; part++)
        write_part(&s, part);
    backend_delete(s.b, BUCKET_LEASE, BYTES("lease"));
    end_entry(&s, 2);
    check_all(&s);
    stand_close(&s);
    stand_free(&s);
}

TEST(a_crash_leaves_no_part_of_an_entry_in_memory)
{
    check_crash(STAND_MEMORY);
}

TEST(a_crash_leaves_no_part_of_an_entry_on_disk)
{
    check_crash(STAND_LMDB);
}

static void write_all(struct stand *s)
{
    begin(s);
    for (unsigned part = 0; part < PARTS && !s->failed; part++) {
        write_part(s, part);
        stand_commit(s);
    }
    if (s->failed)
        return;
    backend_delete(s->b, BUCKET_LEASE, BYTES("lease"));
    end_entry(s, 2);
    stand_commit(s);
}

/* Whatever call the power goes at, and at whatever call it goes again while the parts are removed:
 * the entry is there or it is not. */
TEST(a_crash_at_any_call_leaves_an_entry_or_none_of_it)
{
    struct stand whole;
    stand_init(&whole, STAND_MEMORY);
    CHECK_EQ(stand_open(&whole), ERR_OK);
    write_all(&whole);
    check_all(&whole);
    uint64_t calls = memory_disk_calls(whole.memory), first = BEFORE + 1 + 2 + 2;
    stand_close(&whole);
    stand_free(&whole);

    for (uint64_t at = first + 1; at <= calls; at += 3)
        for (uint64_t again = 0; again < 60; again += 20) {
            struct stand s;
            stand_init(&s, STAND_MEMORY);
            CHECK_EQ(stand_open(&s), ERR_OK);
            memory_disk_crash_at(s.memory, at);
            write_all(&s);
            CHECK_EQ(s.failed, true);
            stand_close(&s);
            memory_disk_restart(s.memory);

            s.failed = false;
            memory_disk_crash_at(s.memory, again);
            if (stand_open(&s) != ERR_OK) {
                CHECK(again > 0);
                memory_disk_restart(s.memory);
                CHECK_EQ(stand_open(&s), ERR_OK);
            }

            if (backend_applied(s.b).index == 2)
                check_all(&s);
            else
                check_begun_only(&s);
            stand_close(&s);
            stand_free(&s);
        }
}

TEST(a_part_is_due_when_it_is_large)
{
    static uint8_t value[64 * KIB];
    struct stand s;
    unsigned n = BEFORE;
    stand_init(&s, STAND_MEMORY);
    CHECK_EQ(stand_open(&s), ERR_OK);
    begin(&s);

    for (; !backend_part_is_due(s.b); n++)
        backend_put(s.b, BUCKET_KEY, key_of(n), bytes_of(value, sizeof(value)));
    CHECK(n - BEFORE >= BACKEND_PART_BYTES / sizeof(value) - 2);
    CHECK(n - BEFORE <= BACKEND_PART_BYTES / sizeof(value) + 2);

    backend_commit_start(s.b);
    CHECK(!backend_part_is_due(s.b));
    stand_settle(&s);
    end_entry(&s, 2);
    stand_close(&s);
    stand_free(&s);
}
