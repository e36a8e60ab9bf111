#include "io/fake_disk.h"

#include "base/list.h"
#include "base/rng.h"
#include "harness/test.h"

#include <errno.h>

/* A disk and the time and inbox it needs. */
struct bench {
    struct fake_time time;
    struct inbox inbox;
    struct fake_disk *fake;
    struct disk *disk;
};

static void open_writing_back(struct bench *b, uint64_t seed, unsigned percent)
{
    struct fake_disk_options options = {.delay = {.min_ns = 1, .max_ns = 1000},
                                        .write_back_percent = percent};

    fake_time_init(&b->time, seed);
    inbox_init(&b->inbox, NULL, NULL);
    b->fake = fake_disk_new(&b->time, &b->inbox, &options);
    b->disk = fake_disk_seam(b->fake);
}

static void open_bench(struct bench *b, uint64_t seed)
{
    open_writing_back(b, seed, 0);
}

static void close_bench(struct bench *b)
{
    fake_disk_free(b->fake);
    fake_time_free(&b->time);
}

static struct disk_file *open_file(struct bench *b, const char *path)
{
    struct disk_file *f = NULL;

    CHECK_EQ(disk_open(b->disk, path, DISK_CREATE, 0600, &f), ERR_OK);
    return f;
}

/* A file with synced content and a synced name. */
static struct disk_file *durable_file(struct bench *b, const char *path, struct bytes content)
{
    struct disk_file *f = open_file(b, path);

    CHECK_EQ(disk_write(b->disk, f, 0, content), ERR_OK);
    CHECK_EQ(disk_sync(b->disk, f), ERR_OK);
    CHECK_EQ(disk_sync_dir(b->disk, "/"), ERR_OK);
    return f;
}

static void check_content(struct bench *b, const char *path, struct bytes want)
{
    struct buf got = {0};

    CHECK_EQ(disk_read_file(b->disk, path, 1 << 20, &got), ERR_OK);
    CHECK_BYTES(buf_bytes(&got), want);
    buf_free(&got);
}

static void check_missing(struct bench *b, const char *path)
{
    struct disk_stat st;

    CHECK_EQ(disk_stat(b->disk, path, &st), ERR_NOT_FOUND);
}

TEST(a_power_cut_takes_what_was_not_synced)
{
    struct bench b;
    open_bench(&b, test_seed());
    struct disk_file *f = durable_file(&b, "f", BYTES("kept"));

    CHECK_EQ(disk_write(b.disk, f, 0, BYTES("lost, and longer")), ERR_OK);
    fake_disk_crash(b.fake, FAKE_POWER_CUT);

    check_content(&b, "f", BYTES("kept"));
    close_bench(&b);
}

TEST(a_killed_process_leaves_what_it_wrote_until_the_power_goes)
{
    struct bench b;
    open_bench(&b, test_seed());
    struct disk_file *f = durable_file(&b, "f", BYTES("old"));
    CHECK_EQ(disk_lock(b.disk, f, 0), ERR_OK);

    CHECK_EQ(disk_write(b.disk, f, 0, BYTES("new")), ERR_OK);
    fake_disk_crash(b.fake, FAKE_KILLED);
    check_content(&b, "f", BYTES("new"));
    f = open_file(&b, "f");
    CHECK_EQ(disk_lock(b.disk, f, 0), ERR_OK); /* the dead hold no locks */
    fake_disk_crash(b.fake, FAKE_POWER_CUT);

    check_content(&b, "f", BYTES("old"));
    close_bench(&b);
}

TEST(a_synced_file_in_a_directory_that_was_not_cannot_be_found)
{
    struct bench b;
    open_bench(&b, test_seed());

    CHECK_EQ(disk_write_file(b.disk, "f", 0600, BYTES("synced")), ERR_OK);
    fake_disk_crash(b.fake, FAKE_POWER_CUT);

    check_missing(&b, "f");
    close_bench(&b);
}

TEST(a_directory_must_be_synced_in_its_parent_too)
{
    struct bench b;
    open_bench(&b, test_seed());
    CHECK_EQ(disk_make_dir(b.disk, "d", 0700, 0), ERR_OK);
    CHECK_EQ(disk_write_file(b.disk, "d/f", 0600, BYTES("x")), ERR_OK);
    CHECK_EQ(disk_sync_dir(b.disk, "d"), ERR_OK);

    fake_disk_crash(b.fake, FAKE_POWER_CUT);

    check_missing(&b, "d");
    close_bench(&b);
}

TEST(renames_and_removals_are_undone_unless_the_directory_was_synced)
{
    struct bench b;
    open_bench(&b, test_seed());
    durable_file(&b, "old", BYTES("1"));
    durable_file(&b, "gone", BYTES("2"));

    CHECK_EQ(disk_rename(b.disk, "old", "new"), ERR_OK);
    CHECK_EQ(disk_remove(b.disk, "gone"), ERR_OK);
    fake_disk_crash(b.fake, FAKE_POWER_CUT);
    check_content(&b, "old", BYTES("1"));
    check_content(&b, "gone", BYTES("2"));
    check_missing(&b, "new");

    CHECK_EQ(disk_rename(b.disk, "old", "new"), ERR_OK);
    CHECK_EQ(disk_remove(b.disk, "gone"), ERR_OK);
    CHECK_EQ(disk_sync_dir(b.disk, "."), ERR_OK);
    fake_disk_crash(b.fake, FAKE_POWER_CUT);

    check_content(&b, "new", BYTES("1"));
    check_missing(&b, "old");
    check_missing(&b, "gone");
    close_bench(&b);
}

/* Whatever the coin says, a file being renamed is found under exactly one of its names. */
TEST(a_rename_between_directories_is_whole_or_not_at_all)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct bench b;
        struct disk_stat st;
        open_bench(&b, seed);
        CHECK_EQ(disk_make_dir(b.disk, "a", 0700, 0), ERR_OK);
        CHECK_EQ(disk_make_dir(b.disk, "b", 0700, 0), ERR_OK);
        CHECK_EQ(disk_write_file(b.disk, "a/f", 0600, BYTES("x")), ERR_OK);
        CHECK_EQ(disk_sync_dir(b.disk, "a"), ERR_OK);
        CHECK_EQ(disk_sync_dir(b.disk, "/"), ERR_OK);

        CHECK_EQ(disk_rename(b.disk, "a/f", "b/g"), ERR_OK);
        if (seed % 3 == 0)
            CHECK_EQ(disk_sync_dir(b.disk, seed % 2 ? "a" : "b"), ERR_OK);
        fake_disk_crash(b.fake, FAKE_TORN);

        bool at_old = disk_stat(b.disk, "a/f", &st) == ERR_OK;
        bool at_new = disk_stat(b.disk, "b/g", &st) == ERR_OK;
        CHECK(at_old != at_new);
        CHECK(seed % 3 != 0 || at_new);
        close_bench(&b);
    }
}

/* Names are kept in the order they were made, up to some point: a journal is cut, not shuffled. */
TEST(a_torn_directory_keeps_its_first_changes)
{
    static const char *const names[] = {"a", "b", "c"};
    unsigned kept_count[4] = {0};

    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct bench b;
        struct disk_stat st;
        unsigned kept = 0;
        open_bench(&b, seed);
        for (unsigned i = 0; i < 3; i++)
            CHECK_EQ(disk_write_file(b.disk, names[i], 0600, BYTES("x")), ERR_OK);

        fake_disk_crash(b.fake, FAKE_TORN);

        while (kept < 3 && disk_stat(b.disk, names[kept], &st) == ERR_OK)
            check_content(&b, names[kept++], BYTES("x"));
        for (unsigned i = kept; i < 3; i++)
            check_missing(&b, names[i]);
        kept_count[kept]++;
        close_bench(&b);
    }

    for (unsigned i = 0; i <= 3; i++)
        CHECK(kept_count[i] > 0);
}

TEST(a_torn_write_is_old_or_new_in_each_sector)
{
    enum { SECTORS = 40 };
    static uint8_t old[SECTORS * 512], new[SECTORS * 512], got[SECTORS * 512];
    unsigned kept = 0, lost = 0;
    memset(old, 'o', sizeof(old));
    memset(new, 'n', sizeof(new));

    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct bench b;
        size_t done;
        open_bench(&b, seed);
        struct disk_file *f = durable_file(&b, "f", bytes_of(old, sizeof(old)));
        CHECK_EQ(disk_write(b.disk, f, 0, bytes_of(new, sizeof(new))), ERR_OK);

        fake_disk_crash(b.fake, FAKE_TORN);

        f = open_file(&b, "f");
        CHECK_EQ(disk_read(b.disk, f, 0, got, sizeof(got), &done), ERR_OK);
        CHECK_EQ(done, sizeof(got));
        for (size_t s = 0; s < SECTORS; s++) {
            bool is_new = got[s * 512] == 'n';
            CHECK(memcmp(got + s * 512, is_new ? new : old, 512) == 0);
            *(is_new ? &kept : &lost) += 1;
        }
        close_bench(&b);
    }

    CHECK(kept > 500);
    CHECK(lost > 500);
}

static void never_done(struct disk_op *op)
{
    (void)op;
    CHECK(false);
}

/* The crash that finds a log: some of a batch, in the middle of write and sync. */
TEST(a_write_under_way_at_the_crash_may_be_there_in_part)
{
    enum { LEN = 8 * 512 };
    static uint8_t data[LEN];
    unsigned none = 0, part = 0, whole = 0;
    memset(data, 'x', sizeof(data));

    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct bench b;
        struct buf got = {0};
        struct bytes piece = bytes_of(data, LEN);
        open_bench(&b, seed);
        struct disk_file *f = durable_file(&b, "f", BYTES(""));
        struct disk_op op = {.kind = DISK_WRITE,
                             .file = f,
                             .pieces = &piece,
                             .piece_count = 1,
                             .sync = true,
                             .on_done = never_done};
        disk_submit(b.disk, DISK_LOG, &op);

        fake_disk_crash(b.fake, seed % 2 ? FAKE_TORN : FAKE_KILLED);

        CHECK(!fake_time_step(&b.time));
        CHECK_EQ(disk_read_file(b.disk, "f", LEN, &got), ERR_OK);
        size_t written = 0;
        for (size_t i = 0; i < got.len; i++)
            written += got.at[i] == 'x';
        none += written == 0;
        part += written > 0 && written < LEN;
        whole += written == LEN;
        buf_free(&got);
        close_bench(&b);
    }

    CHECK(none > 0);
    CHECK(part > 100);
    CHECK_EQ(none + part + whole, 200);
}

/* The kernel's way: after a failed sync the pages count as clean, and the next one lies. */
TEST(a_second_sync_after_a_failed_one_saves_nothing)
{
    struct bench b;
    open_bench(&b, test_seed());
    struct disk_file *f = durable_file(&b, "f", BYTES("old"));
    CHECK_EQ(disk_write(b.disk, f, 0, BYTES("new")), ERR_OK);

    fake_disk_fail(b.fake, (struct fake_fault){.kind = DISK_SYNC, .nth = 1, .err = ERR_IO});
    CHECK_EQ(disk_sync(b.disk, f), ERR_IO);
    CHECK_EQ(disk_sync(b.disk, f), ERR_OK);
    check_content(&b, "f", BYTES("new"));
    fake_disk_crash(b.fake, FAKE_POWER_CUT);

    check_content(&b, "f", BYTES("old"));
    close_bench(&b);
}

TEST(the_nth_call_fails_as_chosen)
{
    struct bench b;
    open_bench(&b, test_seed());
    struct disk_file *f = open_file(&b, "f");
    struct bytes pieces[] = {BYTES("abc"), BYTES("def")};
    struct disk_op op = {
        .kind = DISK_WRITE, .file = f, .pieces = pieces, .piece_count = 2, .sync = true};

    fake_disk_fail(b.fake, (struct fake_fault){
                               .kind = DISK_WRITE, .nth = 2, .err = ERR_NO_SPACE, .written = 4});
    CHECK_EQ(disk_wait(b.disk, &op), ERR_OK);
    CHECK_EQ(op.done, 6);
    op.offset = 6;
    CHECK_EQ(disk_wait(b.disk, &op), ERR_NO_SPACE);
    CHECK_EQ(op.done, 4);
    check_content(&b, "f", BYTES("abcdefabcd"));

    fake_disk_fail(b.fake, (struct fake_fault){.kind = DISK_SYNC, .nth = 1, .err = ERR_IO});
    CHECK_EQ(disk_wait(b.disk, &op), ERR_IO);
    CHECK_EQ(op.done, 6);
    fake_disk_fail(b.fake, (struct fake_fault){.kind = DISK_CLOSE, .nth = 1, .err = ERR_IO});
    CHECK_EQ(disk_close(b.disk, f), ERR_IO);
    close_bench(&b);
}

/* The pattern for every fallible path: fail the first call, the second, until none is left. */
TEST(each_call_of_writing_a_file_can_be_failed_in_turn)
{
    uint64_t failed = 0;

    for (uint64_t nth = 1;; nth++) {
        struct bench b;
        open_bench(&b, test_seed());
        fake_disk_fail(b.fake, (struct fake_fault){.nth = nth, .err = ERR_IO});
        enum err e = disk_write_file(b.disk, "f", 0600, BYTES("x"));
        uint64_t calls = fake_disk_calls(b.fake);
        close_bench(&b);
        if (e == ERR_OK) {
            CHECK_EQ(nth, calls + 1);
            break;
        }
        CHECK_EQ(e, ERR_IO);
        failed++;
    }

    CHECK_EQ(failed, 4); /* open, write, sync, close */
}

struct counted {
    struct disk_op op;
    unsigned id;
};

static unsigned finish_order[64], finished;

static void note_order(struct disk_op *op)
{
    finish_order[finished++] = container_of(op, struct counted, op)->id;
}

static void run_two_queues(uint64_t seed, unsigned out[40])
{
    struct bench b;
    struct counted ops[40];
    open_bench(&b, seed);
    finished = 0;

    for (unsigned i = 0; i < 40; i++) {
        ops[i] = (struct counted){.op = {.kind = DISK_STAT, .path = "/", .on_done = note_order},
                                  .id = i};
        disk_submit(b.disk, i % 2 ? DISK_LOG : DISK_OTHER, &ops[i].op);
    }
    while (inbox_drain(&b.inbox, 1) > 0 || fake_time_step(&b.time))
        ;
    CHECK_EQ(finished, 40);
    memcpy(out, finish_order, 40 * sizeof(*out));
    close_bench(&b);
}

TEST(completions_come_in_an_order_that_is_the_seed)
{
    unsigned a[40], b[40], c[40];

    run_two_queues(1, a);
    run_two_queues(1, b);
    run_two_queues(2, c);

    CHECK(memcmp(a, b, sizeof(a)) == 0);
    CHECK(memcmp(a, c, sizeof(a)) != 0);
    for (unsigned parity = 0; parity < 2; parity++)
        for (unsigned i = 0, last = parity; i < 40; i++)
            if (a[i] % 2 == parity) {
                CHECK_EQ(a[i], last);
                last += 2;
            }
}

/*
 * A file of numbered sectors against the obvious model: a sector may be found as anything written
 * to it since it was last synced, or as what was synced, and as nothing else.
 */
enum { MODEL_SECTORS = 24, VERSIONS_MAX = 64 };

struct sector_model {
    uint8_t versions[VERSIONS_MAX]; /* [0] is durable */
    unsigned count;
};

static void check_sector(struct sector_model *m, const uint8_t *at)
{
    bool known = false;

    for (unsigned i = 0; i < 512; i++)
        CHECK_EQ(at[i], at[0]);
    for (unsigned v = 0; v < m->count; v++)
        known = known || m->versions[v] == at[0];
    CHECK(known);
    m->versions[0] = at[0];
    m->count = 1;
}

static void crash_and_compare(struct bench *b, struct sector_model *model, struct disk_file **f)
{
    static uint8_t got[MODEL_SECTORS * 512];
    size_t done;

    fake_disk_crash(b->fake, FAKE_TORN);
    *f = open_file(b, "f");
    CHECK_EQ(disk_read(b->disk, *f, 0, got, sizeof(got), &done), ERR_OK);
    CHECK_EQ(done, sizeof(got));
    for (unsigned s = 0; s < MODEL_SECTORS; s++)
        check_sector(&model[s], got + s * 512);
}

static void write_sector(struct bench *b, struct disk_file *f, struct sector_model *m, unsigned s,
                         uint8_t value)
{
    uint8_t data[512];

    memset(data, value, sizeof(data));
    CHECK_EQ(disk_write(b->disk, f, s * 512, bytes_of(data, sizeof(data))), ERR_OK);
    if (m->count == VERSIONS_MAX) {
        CHECK_EQ(disk_sync(b->disk, f), ERR_OK);
        m->count = 0;
    }
    m->versions[m->count++] = value;
}

static void sync_all(struct bench *b, struct disk_file *f, struct sector_model *model)
{
    CHECK_EQ(disk_sync(b->disk, f), ERR_OK);
    for (unsigned s = 0; s < MODEL_SECTORS; s++) {
        model[s].versions[0] = model[s].versions[model[s].count - 1];
        model[s].count = 1;
    }
}

TEST(after_any_crash_a_sector_is_something_that_was_written_since_the_sync)
{
    static uint8_t zeroes[MODEL_SECTORS * 512];

    for (uint64_t seed = 1; seed <= 20 * test_effort(); seed++) {
        struct sector_model model[MODEL_SECTORS] = {0};
        struct bench b;
        struct rng rng;
        open_writing_back(&b, seed, seed % 2 ? 30 : 0);
        rng_seed(&rng, seed);
        struct disk_file *f = durable_file(&b, "f", bytes_of(zeroes, sizeof(zeroes)));
        for (unsigned s = 0; s < MODEL_SECTORS; s++)
            model[s].count = 1;

        for (unsigned step = 0; step < 300; step++) {
            uint64_t choice = rng_below(&rng, 20);
            unsigned s = (unsigned)rng_below(&rng, MODEL_SECTORS);
            if (choice == 0)
                crash_and_compare(&b, model, &f);
            else if (choice == 1)
                sync_all(&b, f, model);
            else
                write_sector(&b, f, &model[s], s, (uint8_t)rng_next(&rng));
        }
        close_bench(&b);
    }
}

TEST(a_full_disk_refuses_what_needs_space_and_nothing_else)
{
    struct bench b;
    uint64_t left;
    size_t done;
    uint8_t got[16];

    open_bench(&b, test_seed());
    struct disk_file *log = open_file(&b, "/log"), *other = open_file(&b, "/other");
    CHECK_EQ(disk_allocate(b.disk, log, 0, 1000, DISK_KEEP_SIZE), ERR_OK);
    CHECK_EQ(disk_sync(b.disk, log), ERR_OK);
    fake_disk_set_space(b.fake, 10);

    /* What was allocated can be written; behind it as much as fits. */
    CHECK_EQ(disk_write(b.disk, log, 0, BYTES("in its place")), ERR_OK);
    CHECK_EQ(disk_allocate(b.disk, log, 0, 1011, 0), ERR_NO_SPACE);
    CHECK_EQ(fake_disk_space(b.fake), 10);
    struct bytes text = BYTES("twelve bytes");
    struct disk_op write = {
        .kind = DISK_WRITE, .file = other, .offset = DISK_END, .pieces = &text, .piece_count = 1};
    CHECK_EQ(disk_wait(b.disk, &write), ERR_NO_SPACE);
    CHECK_EQ(write.done, 10);
    CHECK_EQ(write.os_error, ENOSPC);
    CHECK_EQ(disk_space(b.disk, "/", &left), ERR_OK);
    CHECK_EQ(left, 0);

    /* A new name needs space, an old one can be overwritten and synced. */
    struct disk_file *f;
    CHECK_EQ(disk_open(b.disk, "/new", DISK_CREATE, 0600, &f), ERR_NO_SPACE);
    CHECK_EQ(disk_make_dir(b.disk, "/dir", 0700, 0), ERR_NO_SPACE);
    CHECK_EQ(disk_make_dir(b.disk, "/", 0700, DISK_PARENTS), ERR_OK);
    CHECK_EQ(disk_write(b.disk, other, 0, BYTES("TWELVE")), ERR_OK);
    CHECK_EQ(disk_sync(b.disk, other), ERR_OK);
    CHECK_EQ(disk_read(b.disk, other, 0, got, sizeof(got), &done), ERR_OK);
    CHECK_BYTES(bytes_of(got, done), BYTES("TWELVE byt"));

    /* What is cut or removed makes space. */
    CHECK_EQ(disk_truncate(b.disk, other, 6), ERR_OK);
    CHECK_EQ(fake_disk_space(b.fake), 4);
    CHECK_EQ(disk_close(b.disk, other), ERR_OK);
    CHECK_EQ(disk_remove(b.disk, "/other"), ERR_OK);
    CHECK_EQ(fake_disk_space(b.fake), 10);
    CHECK_EQ(disk_rename(b.disk, "/log", "/renamed"), ERR_OK);
    CHECK_EQ(disk_sync_dir(b.disk, "/"), ERR_OK);

    /* A power cut keeps what was allocated and synced, and the disk is as full as before. */
    fake_disk_crash(b.fake, FAKE_POWER_CUT);
    CHECK_EQ(fake_disk_space(b.fake), 10);
    fake_disk_set_space(b.fake, 0);
    log = open_file(&b, "/renamed");
    CHECK_EQ(disk_write(b.disk, log, 990, BYTES("0123456789")), ERR_OK);
    CHECK_EQ(disk_write(b.disk, log, 1000, BYTES("x")), ERR_NO_SPACE);
    fake_disk_set_space(b.fake, FAKE_DISK_NOT_FULL);
    CHECK_EQ(disk_write(b.disk, log, 100000, BYTES("x")), ERR_OK);
    CHECK_EQ(fake_disk_space(b.fake), FAKE_DISK_NOT_FULL);
    close_bench(&b);
}

static void note_done(struct disk_op *op)
{
    op->stat.mode++; /* how often it was reported */
}

/* Steps until nothing is left to happen before this time. */
static void run_until(struct bench *b, uint64_t ns)
{
    for (struct heap_node *n; (n = heap_first(&b->time.tasks));) {
        if (container_of(n, struct fake_task, node)->due_ns > ns)
            break;
        fake_time_step(&b->time);
        inbox_drain(&b->inbox, SIZE_MAX);
    }
}

TEST(a_disk_that_hangs_does_nothing_until_then_and_then_everything_in_order)
{
    struct bench b;
    enum { UNTIL_NS = 1000000 };

    open_bench(&b, test_seed());
    struct disk_file *f = open_file(&b, "/log");
    struct disk_op first = {.kind = DISK_SYNC, .file = f, .on_done = note_done}, second = first,
                   third = first;
    disk_submit(b.disk, DISK_LOG, &first);
    fake_disk_hang(b.fake, UNTIL_NS);
    disk_submit(b.disk, DISK_LOG, &second);
    disk_submit(b.disk, DISK_OTHER, &third);

    run_until(&b, UNTIL_NS - 1);
    CHECK_EQ(first.stat.mode + second.stat.mode + third.stat.mode, 0);
    run_until(&b, UNTIL_NS);
    CHECK_EQ(first.stat.mode, 1);
    CHECK_EQ(second.stat.mode, 0);
    run_until(&b, 2 * UNTIL_NS);
    CHECK_EQ(second.stat.mode, 1);
    CHECK_EQ(third.stat.mode, 1);

    /* For ever, and then not. */
    fake_disk_hang(b.fake, FAKE_DISK_FOR_EVER);
    disk_submit(b.disk, DISK_LOG, &first);
    run_until(&b, 10ull * UNTIL_NS);
    CHECK_EQ(first.stat.mode, 1);
    fake_disk_hang(b.fake, 0);
    run_until(&b, 20ull * UNTIL_NS);
    CHECK_EQ(first.stat.mode, 2);

    /* A crash ends it. */
    fake_disk_hang(b.fake, FAKE_DISK_FOR_EVER);
    disk_submit(b.disk, DISK_LOG, &first);
    fake_disk_crash(b.fake, FAKE_KILLED);
    f = open_file(&b, "/log");
    second.file = f;
    disk_submit(b.disk, DISK_LOG, &second);
    run_until(&b, 30ull * UNTIL_NS);
    CHECK_EQ(second.stat.mode, 2);
    CHECK_EQ(disk_close(b.disk, f), ERR_OK);
    close_bench(&b);
}

TEST(a_flipped_bit_is_there_before_and_after_a_power_cut)
{
    struct bench b;
    struct rng coin;
    struct bytes text = BYTES("what was written");
    uint8_t got[32];
    size_t done;

    open_bench(&b, test_seed());
    rng_seed(&coin, test_seed());
    CHECK_EQ(disk_make_dir(b.disk, "/wal", 0700, 0), ERR_OK);
    CHECK(!fake_disk_flip(b.fake, "/wal", &coin));
    CHECK(!fake_disk_flip(b.fake, "/none", &coin));
    struct disk_file *f = durable_file(&b, "/wal/1", text);
    CHECK_EQ(disk_sync_dir(b.disk, "/wal"), ERR_OK);

    CHECK(fake_disk_flip(b.fake, "/wal", &coin));
    for (unsigned i = 0; i < 2; i++) {
        unsigned bits = 0;
        CHECK_EQ(disk_read(b.disk, f, 0, got, sizeof(got), &done), ERR_OK);
        CHECK_EQ(done, text.len);
        for (size_t at = 0; at < done; at++)
            bits += (unsigned)__builtin_popcount(got[at] ^ text.at[at]);
        CHECK_EQ(bits, 1);
        fake_disk_crash(b.fake, FAKE_POWER_CUT);
        f = open_file(&b, "/wal/1");
    }
    CHECK_EQ(disk_close(b.disk, f), ERR_OK);

    struct disk_stat st;
    fake_disk_wipe(b.fake);
    CHECK_EQ(disk_stat(b.disk, "/wal", &st), ERR_NOT_FOUND);
    close_bench(&b);
}
