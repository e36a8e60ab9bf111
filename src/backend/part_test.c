/* An entry that is committed in parts. */
#include "backend/backend_rig_test.h"

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

static void end_entry(struct backend_rig *s, uint64_t index)
{
    backend_entry_end(s->b, (struct backend_position){index, 1}, (struct bytes){0});
}

/* Entry 1, with a few keys, is committed; entry 2 has begun and is of the kind that has parts. */
static void begin(struct backend_rig *s)
{
    backend_entry_begin(s->b);
    for (unsigned i = 0; i < BEFORE; i++)
        backend_put(s->b, BUCKET_KEY, key_of(i), BYTES("before"));
    backend_put(s->b, BUCKET_LEASE, BYTES("lease"), BYTES("there"));
    end_entry(s, 1);
    backend_rig_commit(s);
    backend_entry_begin(s->b);
    backend_put(s->b, BUCKET_KEY, key_of(BEFORE), BYTES("first"));
    CHECK(!backend_can_commit(s->b));
    backend_entry_divide(s->b, BUCKET_KEY, key_of(BEFORE));
}

static void write_part(struct backend_rig *s, unsigned part)
{
    for (unsigned i = 0; i < PART_KEYS; i++)
        backend_put(s->b, BUCKET_KEY, key_of(BEFORE + part * PART_KEYS + i), BYTES("part"));
}

static unsigned count(struct backend_rig *s, enum bucket bucket)
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

static void check_begun_only(struct backend_rig *s)
{
    CHECK_EQ(backend_applied(s->b).index, 1);
    CHECK_EQ(count(s, BUCKET_KEY), BEFORE);
    CHECK_EQ(count(s, BUCKET_LEASE), 1);
    CHECK_EQ(count(s, BUCKET_META), 2); /* index and term, and no note of parts */
}

static void check_all(struct backend_rig *s)
{
    CHECK_EQ(backend_applied(s->b).index, 2);
    CHECK_EQ(count(s, BUCKET_KEY), BEFORE + PARTS * PART_KEYS);
    CHECK_EQ(count(s, BUCKET_LEASE), 0);
    CHECK_EQ(count(s, BUCKET_META), 2);
}

static void check_parts(enum backend_rig_kind kind)
{
    struct backend_rig s;
    backend_rig_init(&s, kind);
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    begin(&s);

    for (unsigned part = 0; part < PARTS; part++) {
        write_part(&s, part);
        CHECK(backend_can_commit(s.b));
        backend_rig_commit(&s);
        CHECK_EQ(backend_durable(s.b).index, 1);
        CHECK_EQ(count(&s, BUCKET_KEY), BEFORE + (part + 1) * PART_KEYS);
        backend_check(s.b);
    }
    backend_delete(s.b, BUCKET_LEASE, BYTES("lease"));
    CHECK(!backend_can_commit(s.b)); /* a crash could not undo that */
    end_entry(&s, 2);
    backend_rig_commit(&s);

    CHECK_EQ(backend_durable(s.b).index, 2);
    check_all(&s);
    backend_rig_crash(&s);
    check_all(&s);
    backend_rig_close(&s);
    backend_rig_free(&s);
}

TEST(an_entry_is_committed_in_parts_in_memory)
{
    check_parts(BACKEND_RIG_MEMORY);
}

TEST(an_entry_is_committed_in_parts_on_disk)
{
    check_parts(BACKEND_RIG_LMDB);
}

static void check_crash(enum backend_rig_kind kind)
{
    struct backend_rig s;
    backend_rig_init(&s, kind);
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    begin(&s);
    write_part(&s, 0);
    backend_rig_commit(&s);
    write_part(&s, 1);
    backend_rig_commit(&s);

    backend_rig_crash(&s);

    check_begun_only(&s);
    backend_entry_begin(s.b); /* the log gives it again */
    for (unsigned part = 0; part < PARTS; part++)
        write_part(&s, part);
    backend_delete(s.b, BUCKET_LEASE, BYTES("lease"));
    end_entry(&s, 2);
    check_all(&s);
    backend_rig_close(&s);
    backend_rig_free(&s);
}

TEST(a_crash_leaves_no_part_of_an_entry_in_memory)
{
    check_crash(BACKEND_RIG_MEMORY);
}

TEST(a_crash_leaves_no_part_of_an_entry_on_disk)
{
    check_crash(BACKEND_RIG_LMDB);
}

static void write_all(struct backend_rig *s)
{
    begin(s);
    for (unsigned part = 0; part < PARTS && !s->failed; part++) {
        write_part(s, part);
        backend_rig_commit(s);
    }
    if (s->failed)
        return;
    backend_delete(s->b, BUCKET_LEASE, BYTES("lease"));
    end_entry(s, 2);
    backend_rig_commit(s);
}

/* Whatever call the power goes at, and at whatever call it goes again while the parts are removed:
 * the entry is there or it is not. */
TEST(a_crash_at_any_call_leaves_an_entry_or_none_of_it)
{
    struct backend_rig whole;
    backend_rig_init(&whole, BACKEND_RIG_MEMORY);
    CHECK_EQ(backend_rig_open(&whole), ERR_OK);
    write_all(&whole);
    check_all(&whole);
    uint64_t calls = memory_disk_calls(whole.memory), first = BEFORE + 1 + 2 + 2;
    backend_rig_close(&whole);
    backend_rig_free(&whole);

    for (uint64_t at = first + 1; at <= calls; at += 3)
        for (uint64_t again = 0; again < 60; again += 20) {
            struct backend_rig s;
            backend_rig_init(&s, BACKEND_RIG_MEMORY);
            CHECK_EQ(backend_rig_open(&s), ERR_OK);
            memory_disk_crash_at(s.memory, at);
            write_all(&s);
            CHECK_EQ(s.failed, true);
            backend_rig_close(&s);
            memory_disk_restart(s.memory);

            s.failed = false;
            memory_disk_crash_at(s.memory, again);
            if (backend_rig_open(&s) != ERR_OK) {
                CHECK(again > 0);
                memory_disk_restart(s.memory);
                CHECK_EQ(backend_rig_open(&s), ERR_OK);
            }

            if (backend_applied(s.b).index == 2)
                check_all(&s);
            else
                check_begun_only(&s);
            backend_rig_close(&s);
            backend_rig_free(&s);
        }
}

TEST(a_part_is_due_when_it_is_large)
{
    static uint8_t value[64 * KIB];
    struct backend_rig s;
    unsigned n = BEFORE;
    backend_rig_init(&s, BACKEND_RIG_MEMORY);
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    begin(&s);

    for (; !backend_part_is_due(s.b); n++)
        backend_put(s.b, BUCKET_KEY, key_of(n), bytes_of(value, sizeof(value)));
    CHECK(n - BEFORE >= BACKEND_PART_BYTES / sizeof(value) - 2);
    CHECK(n - BEFORE <= BACKEND_PART_BYTES / sizeof(value) + 2);

    backend_commit_start(s.b);
    CHECK(!backend_part_is_due(s.b));
    backend_rig_settle(&s);
    end_entry(&s, 2);
    backend_rig_close(&s);
    backend_rig_free(&s);
}
