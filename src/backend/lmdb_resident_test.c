#include "backend/backend_rig_test.h"
#include "backend/lmdb_int.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/sanitized.h"
#include "harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { STORED_BYTES = 64 * MIB, RESIDENT_MAX = 16 * MIB };

static struct lmdb_resident *resident_of(const struct backend_rig *s)
{
    return &lmdb_store(s->b->store)->resident;
}

/* Of the store's map, as the kernel counts it; no cache of pages that nobody maps. */
static size_t mapped_bytes(const struct backend_rig *s)
{
    char line[512], start[32];
    size_t kilobytes = 0;
    bool found = false;
    FILE *f = fopen("/proc/self/smaps", "re");

    CHECK(f != NULL);
    snprintf(start, sizeof(start), "%lx-", (unsigned long)resident_of(s)->map);
    while (kilobytes == 0 && fgets(line, sizeof(line), f)) {
        found = found || strncmp(line, start, strlen(start)) == 0;
        if (found && strncmp(line, "Rss:", 4) == 0)
            kilobytes = strtoul(line + 4, NULL, 10);
    }
    fclose(f);
    CHECK(found);
    return kilobytes * 1024;
}

static struct bytes key_of(unsigned number)
{
    static char text[16];

    snprintf(text, sizeof(text), "%08u", number);
    return bytes_of_str(text);
}

/* So many values of this size as the store is large; returns how many. */
static unsigned fill(struct backend_rig *s, size_t size)
{
    uint8_t *value = mem_alloc(size);
    unsigned count = (unsigned)(STORED_BYTES / size);

    for (unsigned i = 0; i < count; i++) {
        memset(value, (int)i, size);
        backend_put(s->b, BUCKET_KEY, key_of(i), bytes_of(value, size));
        if (i % (count / 8) == 0 || i == count - 1)
            backend_rig_commit(s);
    }
    mem_free(value);
    return count;
}

static unsigned open_filled(struct backend_rig *s, size_t size)
{
    backend_rig_init(s, BACKEND_RIG_LMDB);
    CHECK_EQ(backend_rig_open(s), ERR_OK);
    return fill(s, size);
}

static void close_all(struct backend_rig *s)
{
    backend_rig_close(s);
    backend_rig_free(s);
}

static uint8_t look(struct backend_view *v, unsigned number)
{
    struct bytes value;

    CHECK_EQ(backend_get(v, BUCKET_KEY, key_of(number), &value), ERR_OK);
    return value.at[0];
}

/* --- reading in a row --------------------------------------------------------------------- */

/* Returns the most that was mapped while walking through all. */
static size_t walk(struct backend_rig *s, unsigned count)
{
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value, first = {0};
    size_t most = 0;
    unsigned seen = 0;

    backend_view_open(s->b, &v);
    backend_cursor_open(&v, BUCKET_KEY, (struct bytes){0}, &c);
    for (; backend_cursor_next(&c, &key, &value) == ERR_OK; seen++) {
        CHECK_EQ(value.at[value.len - 1], (uint8_t)seen);
        first = seen == 0 ? value : first;
        size_t now = seen % (count / 64) == 0 ? mapped_bytes(s) : 0;
        most = now > most ? now : most;
    }
    CHECK_EQ(seen, count);
    CHECK(first.at != NULL);
    CHECK_EQ(first.at[first.len / 2], 0); /* lent until now, whatever was let go of meanwhile */
    backend_cursor_close(&c);
    backend_view_close(&v);
    return most;
}

static void check_walk(size_t value_bytes)
{
    struct backend_rig s;
    unsigned count = open_filled(&s, value_bytes);

    size_t most = walk(&s, count);

    printf("%zu KiB at most\n", most / KIB);
    CHECK(most < RESIDENT_MAX);
    close_all(&s);
}

TEST(walking_through_small_values_maps_little_at_a_time)
{
    check_walk(300);
}

TEST(walking_through_values_of_a_few_pages_maps_little_at_a_time)
{
    check_walk(9000);
}

TEST(walking_through_large_values_maps_little_at_a_time)
{
    check_walk(MIB);
}

/* What a range does: its keys are in another order than the values. */
TEST(getting_large_values_in_any_order_maps_few_at_a_time)
{
    struct backend_rig s;
    unsigned count = open_filled(&s, MIB);
    struct backend_view v;
    struct rng rng;
    rng_seed(&rng, test_seed());
    size_t most = 0;

    backend_view_open(s.b, &v);
    for (unsigned i = 0; i < 4 * count; i++) {
        unsigned number = (unsigned)rng_below(&rng, count);
        CHECK_EQ(look(&v, number), (uint8_t)number);
        size_t now = mapped_bytes(&s);
        most = now > most ? now : most;
    }
    backend_view_close(&v);

    printf("%zu KiB at most\n", most / KIB);
    CHECK(most < RESIDENT_MAX);
    close_all(&s);
}

/* --- jumping ------------------------------------------------------------------------------ */

static void jump_around(struct backend_rig *s, struct rng *rng, unsigned count, unsigned times)
{
    struct backend_view v;

    backend_view_open(s->b, &v);
    for (unsigned i = 0; i < times; i++) {
        unsigned number = (unsigned)rng_below(rng, count);
        CHECK_EQ(look(&v, number), (uint8_t)number);
    }
    backend_view_close(&v);
}

static bool is_late(const struct timespec *began)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - began->tv_sec > 20;
}

/* It takes its share of the time, and no more; so on a quick disk it takes a moment. */
static void until_it_goes(struct backend_rig *s, void (*come_along)(struct backend_rig *))
{
    struct timespec began;

    clock_gettime(CLOCK_MONOTONIC, &began);
    while (mapped_bytes(s) >= RESIDENT_MAX / 2) {
        CHECK(!is_late(&began));
        come_along(s);
    }
}

/* Busy readers may keep all that they use. Once there is time, it goes, by whatever comes along. */
static void check_it_goes(struct backend_rig *s, unsigned count,
                          void (*come_along)(struct backend_rig *))
{
    struct rng rng;
    rng_seed(&rng, test_seed());

    jump_around(s, &rng, count, 20000);
    until_it_goes(s, come_along);
}

static void a_get(struct backend_rig *s)
{
    static unsigned number;
    struct backend_view v;

    backend_view_open(s->b, &v);
    look(&v, number ^= 2000);
    backend_view_close(&v);
}

TEST(a_slow_reader_lets_go_of_what_busy_ones_have_left)
{
    struct backend_rig s;
    unsigned count = open_filled(&s, 1500);

    check_it_goes(&s, count, a_get);
    close_all(&s);
}

static void a_commit(struct backend_rig *s)
{
    backend_put(s->b, BUCKET_LEASE, BYTES("some lease"), BYTES("value"));
    backend_rig_commit(s);
}

TEST(a_commit_lets_go_of_what_busy_readers_have_left)
{
    struct backend_rig s;
    unsigned count = open_filled(&s, 1500);

    check_it_goes(&s, count, a_commit);
    close_all(&s);
}

TEST(what_deleting_maps_goes_too)
{
    struct backend_rig s;
    unsigned count = open_filled(&s, 300);
    size_t most = 0;

    for (unsigned i = 0; i < count; i++) {
        backend_delete(s.b, BUCKET_KEY, key_of(i));
        if (i % (count / 16) != 0)
            continue;
        backend_rig_commit(&s);
        size_t now = mapped_bytes(&s);
        most = now > most ? now : most;
        until_it_goes(&s, a_commit);
    }

    printf("%zu KiB at most\n", most / KIB);
    CHECK(most < STORED_BYTES / 2);
    close_all(&s);
}

/* --- a kernel that will not --------------------------------------------------------------- */

/* Locked pages stay where they are, by the wish of whoever locked them. */
TEST(where_memory_is_locked_nothing_is_let_go_of)
{
    struct backend_rig s;
    unsigned count = open_filled(&s, 64 * KIB);
    struct lmdb_resident *m = resident_of(&s);
    if (SANITIZED)
        SKIP("a sanitizer does not let memory be locked");
    if (mlock(m->map, 4096) != 0)
        SKIP("no memory may be locked");

    walk(&s, count);

    CHECK(m->refused);
    CHECK_EQ(munlock(m->map, 4096), 0);
    close_all(&s);
}
