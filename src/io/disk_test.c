#include "io/io_rig_test.h"

#include "base/buf.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path(struct rig *rig, const char *name)
{
    return rig_path(rig, name);
}

static struct disk_file *open_new(struct rig *rig, const char *name)
{
    struct disk_file *f = NULL;

    CHECK_EQ(disk_open(rig->io->disk, path(rig, name), DISK_CREATE, 0600, &f), ERR_OK);
    return f;
}

static void check_content(struct rig *rig, const char *name, struct bytes want)
{
    struct buf got = {0};

    CHECK_EQ(disk_read_file(rig->io->disk, path(rig, name), 1 << 20, &got), ERR_OK);
    CHECK_BYTES(buf_bytes(&got), want);
    buf_free(&got);
}

static void write_new(struct rig *rig, const char *name, struct bytes content)
{
    CHECK_EQ(disk_write_file(rig->io->disk, path(rig, name), 0600, content), ERR_OK);
}

CONTRACT(what_is_written_is_read_back)
{
    struct disk *d = rig->io->disk;
    struct disk_file *f = open_new(rig, "file");
    uint8_t got[16];
    size_t done;

    CHECK_EQ(disk_write(d, f, 0, BYTES("hello, world")), ERR_OK);
    CHECK_EQ(disk_write(d, f, 7, BYTES("there")), ERR_OK);
    CHECK_EQ(disk_write(d, f, DISK_END, BYTES("!")), ERR_OK);
    CHECK_EQ(disk_sync(d, f), ERR_OK);

    CHECK_EQ(disk_read(d, f, 0, got, sizeof(got), &done), ERR_OK);
    CHECK_BYTES(bytes_of(got, done), BYTES("hello, there!"));
    CHECK_EQ(disk_read(d, f, 12, got, 1, &done), ERR_OK);
    CHECK_BYTES(bytes_of(got, done), BYTES("!"));
    CHECK_EQ(disk_read(d, f, 13, got, 1, &done), ERR_OK);
    CHECK_EQ(done, 0);
    CHECK_EQ(disk_read(d, f, 5000, got, 1, &done), ERR_OK);
    CHECK_EQ(done, 0);
    CHECK_EQ(disk_close(d, f), ERR_OK);
}

CONTRACT(a_gap_reads_as_zeroes)
{
    struct disk *d = rig->io->disk;
    struct disk_file *f = open_new(rig, "file");
    uint8_t got[10001];
    size_t done;

    CHECK_EQ(disk_write(d, f, 10000, BYTES("x")), ERR_OK);
    CHECK_EQ(disk_read(d, f, 0, got, sizeof(got), &done), ERR_OK);

    CHECK_EQ(done, 10001);
    for (size_t i = 0; i < 10000; i++)
        CHECK_EQ(got[i], 0);
    CHECK_EQ(got[10000], 'x');
    CHECK_EQ(disk_close(d, f), ERR_OK);
}

CONTRACT(a_vectored_write_of_many_pieces_lands_in_order)
{
    enum { PIECES = 1000 };
    struct disk *d = rig->io->disk;
    struct disk_file *f = open_new(rig, "file");
    static char texts[PIECES][8];
    struct bytes pieces[PIECES];
    struct buf want = {0};
    buf_append_str(&want, "head");
    for (int i = 0; i < PIECES; i++) {
        int len = i % 7 == 0 ? 0 : snprintf(texts[i], sizeof(texts[i]), "%d;", i);
        pieces[i] = bytes_of(texts[i], (size_t)len);
        buf_append(&want, pieces[i]);
    }

    CHECK_EQ(disk_write(d, f, 0, BYTES("head")), ERR_OK);
    struct disk_op op = {.kind = DISK_WRITE,
                         .file = f,
                         .offset = 4,
                         .pieces = pieces,
                         .piece_count = PIECES,
                         .sync = true};
    CHECK_EQ(disk_wait(d, &op), ERR_OK);

    CHECK_EQ(op.done, want.len - 4);
    check_content(rig, "file", buf_bytes(&want));
    CHECK_EQ(disk_close(d, f), ERR_OK);
    buf_free(&want);
}

CONTRACT(opening_creates_cuts_and_excludes_as_asked)
{
    struct disk *d = rig->io->disk;
    struct disk_file *f;

    CHECK_EQ(disk_open(d, path(rig, "no"), 0, 0, &f), ERR_NOT_FOUND);
    CHECK_EQ(disk_open(d, path(rig, "no/such"), DISK_CREATE, 0600, &f), ERR_NOT_FOUND);
    write_new(rig, "file", BYTES("long content"));
    write_new(rig, "file", BYTES("short"));
    check_content(rig, "file", BYTES("short"));
    unsigned exclusively = DISK_CREATE | DISK_EXCLUSIVE;
    CHECK_EQ(disk_open(d, path(rig, "file"), exclusively, 0600, &f), ERR_EXISTS);
    CHECK_EQ(disk_open(d, path(rig, "new"), exclusively, 0600, &f), ERR_OK);
    CHECK_EQ(disk_close(d, f), ERR_OK);
    CHECK_EQ(disk_open(d, path(rig, "file/below"), DISK_CREATE, 0600, &f), ERR_NOT_FOUND);

    CHECK_EQ(disk_open(d, path(rig, "file"), DISK_READ_ONLY, 0, &f), ERR_OK);
    CHECK_EQ(disk_write(d, f, 0, BYTES("x")), ERR_IO);
    CHECK_EQ(disk_close(d, f), ERR_OK);
}

CONTRACT(space_is_reserved_and_sizes_change)
{
    struct disk *d = rig->io->disk;
    struct disk_file *f = open_new(rig, "file");
    struct disk_stat st;
    uint8_t got[8];
    size_t done;

    CHECK_EQ(disk_write(d, f, 0, BYTES("abcdefgh")), ERR_OK);
    CHECK_EQ(disk_allocate(d, f, 0, 65536, DISK_KEEP_SIZE), ERR_OK);
    CHECK_EQ(disk_stat_file(d, f, &st), ERR_OK);
    CHECK_EQ(st.size, 8);
    CHECK_EQ(disk_allocate(d, f, 0, 65536, 0), ERR_OK);
    CHECK_EQ(disk_allocate(d, f, 0, 4096, 0), ERR_OK); /* never shrinks */
    CHECK_EQ(disk_stat_file(d, f, &st), ERR_OK);
    CHECK_EQ(st.size, 65536);
    CHECK_EQ(disk_truncate(d, f, 3), ERR_OK);
    CHECK_EQ(disk_truncate(d, f, 8), ERR_OK);

    CHECK_EQ(disk_read(d, f, 0, got, 8, &done), ERR_OK);
    CHECK_BYTES(bytes_of(got, done), BYTES("abc\0\0\0\0\0"));
    CHECK_EQ(disk_close(d, f), ERR_OK);
}

CONTRACT(directories_are_made_listed_and_removed)
{
    struct disk *d = rig->io->disk;
    struct buf names = {0};
    struct disk_stat st;

    CHECK_EQ(disk_make_dir(d, path(rig, "a/b/c"), 0700, 0), ERR_NOT_FOUND);
    CHECK_EQ(disk_make_dir(d, path(rig, "a/b/c"), 0700, DISK_PARENTS), ERR_OK);
    CHECK_EQ(disk_make_dir(d, path(rig, "a/b/c"), 0700, DISK_PARENTS), ERR_OK);
    CHECK_EQ(disk_make_dir(d, path(rig, "a/b/c/"), 0700, DISK_PARENTS), ERR_OK);
    CHECK_EQ(disk_make_dir(d, path(rig, "a/b"), 0700, 0), ERR_EXISTS);
    CHECK_EQ(disk_stat(d, path(rig, "a/b"), &st), ERR_OK);
    CHECK(st.is_dir);
    CHECK_EQ(st.mode, 0700);
    write_new(rig, "a/z", BYTES(""));
    write_new(rig, "a/B", BYTES("xyz"));
    CHECK_EQ(disk_make_dir(d, path(rig, "a/z"), 0700, DISK_PARENTS), ERR_EXISTS);
    CHECK_EQ(disk_make_dir(d, path(rig, "a/z/q"), 0700, DISK_PARENTS), ERR_EXISTS);
    CHECK_EQ(disk_stat(d, path(rig, "a/B"), &st), ERR_OK);
    CHECK(!st.is_dir);
    CHECK_EQ(st.size, 3);

    CHECK_EQ(disk_list(d, path(rig, "a"), 1000, &names), ERR_OK);
    CHECK_BYTES(buf_bytes(&names), BYTES("B\0b\0z\0"));
    struct bytes left = buf_bytes(&names);
    CHECK_STR(disk_next_name(&left), "B");
    CHECK_STR(disk_next_name(&left), "b");
    CHECK_STR(disk_next_name(&left), "z");
    CHECK(!disk_next_name(&left));
    CHECK_EQ(disk_list(d, path(rig, "a"), 5, &names), ERR_TOO_LARGE);
    CHECK_EQ(names.len, 6);
    CHECK_EQ(disk_list(d, path(rig, "a/z"), 1000, &names), ERR_NOT_FOUND);

    CHECK_EQ(disk_remove(d, path(rig, "a/b")), ERR_EXISTS);
    CHECK_EQ(disk_remove(d, path(rig, "a/b/c")), ERR_OK);
    CHECK_EQ(disk_remove(d, path(rig, "a/b")), ERR_OK);
    CHECK_EQ(disk_remove(d, path(rig, "a/b")), ERR_NOT_FOUND);
    CHECK_EQ(disk_sync_dir(d, path(rig, "a")), ERR_OK);
    CHECK_EQ(disk_sync_dir(d, path(rig, "a/b")), ERR_NOT_FOUND);
    CHECK_EQ(disk_sync_dir(d, path(rig, "a/z")), ERR_NOT_FOUND);
    buf_free(&names);
}

CONTRACT(renaming_replaces_files_and_moves_directories)
{
    struct disk *d = rig->io->disk;
    write_new(rig, "one", BYTES("1"));
    write_new(rig, "two", BYTES("2"));
    CHECK_EQ(disk_make_dir(d, path(rig, "dir.tmp"), 0700, 0), ERR_OK);
    write_new(rig, "dir.tmp/in", BYTES("in"));

    CHECK_EQ(disk_rename(d, path(rig, "one"), path(rig, "two")), ERR_OK);
    CHECK_EQ(disk_rename(d, path(rig, "one"), path(rig, "two")), ERR_NOT_FOUND);
    CHECK_EQ(disk_rename(d, path(rig, "dir.tmp"), path(rig, "dir")), ERR_OK);
    CHECK_EQ(disk_rename(d, path(rig, "two"), path(rig, "dir/two")), ERR_OK);
    CHECK_EQ(disk_rename(d, path(rig, "dir"), path(rig, "dir/below")), ERR_IO);
    write_new(rig, "plain", BYTES(""));
    CHECK_EQ(disk_rename(d, path(rig, "dir"), path(rig, "plain")), ERR_NOT_FOUND);
    CHECK_EQ(disk_rename(d, path(rig, "plain"), path(rig, "dir")), ERR_IO);

    check_content(rig, "dir/two", BYTES("1"));
    check_content(rig, "dir/in", BYTES("in"));
}

CONTRACT(a_file_too_large_for_the_reader_is_refused)
{
    struct buf got = {0};
    write_new(rig, "file", BYTES("0123456789"));

    CHECK_EQ(disk_read_file(rig->io->disk, path(rig, "file"), 9, &got), ERR_TOO_LARGE);
    CHECK_EQ(got.len, 0);
    CHECK_EQ(disk_read_file(rig->io->disk, path(rig, "file"), 10, &got), ERR_OK);
    CHECK_EQ(disk_read_file(rig->io->disk, path(rig, "none"), 10, &got), ERR_NOT_FOUND);

    CHECK_BYTES(buf_bytes(&got), BYTES("0123456789"));
    buf_free(&got);
}

static void check_locks(struct rig *rig, unsigned kind)
{
    struct disk *d = rig->io->disk;
    struct disk_file *a = open_new(rig, "file"), *b = open_new(rig, "file");

    CHECK_EQ(disk_lock(d, a, kind), ERR_OK);
    CHECK_EQ(disk_lock(d, b, kind), ERR_BUSY);
    CHECK_EQ(disk_lock(d, b, kind | DISK_SHARED), ERR_BUSY);
    CHECK_EQ(disk_lock(d, b, kind ^ DISK_FLOCK), ERR_OK);
    CHECK_EQ(disk_lock(d, a, kind | DISK_SHARED), ERR_OK);
    CHECK_EQ(disk_lock(d, b, kind | DISK_SHARED), ERR_OK);
    CHECK_EQ(disk_lock(d, a, kind), ERR_BUSY);
    CHECK_EQ(disk_close(d, b), ERR_OK);
    CHECK_EQ(disk_lock(d, a, kind), ERR_OK);
    CHECK_EQ(disk_close(d, a), ERR_OK);
    b = open_new(rig, "file");
    CHECK_EQ(disk_lock(d, b, kind), ERR_OK);
    CHECK_EQ(disk_close(d, b), ERR_OK);
}

CONTRACT(a_lock_belongs_to_one_opening_or_is_shared)
{
    check_locks(rig, 0);
    check_locks(rig, DISK_FLOCK);
}

struct appender {
    struct disk_op op;
    struct bytes piece;
    char text[16];
    unsigned number;
};

static unsigned done;

static void check_next(struct disk_op *op)
{
    struct appender *a = container_of(op, struct appender, op);

    CHECK_EQ(op->err, ERR_OK);
    CHECK_EQ(op->done, a->piece.len);
    CHECK_EQ(a->number, done);
    done++;
}

static unsigned timed;

static void note_done(struct disk_op *op)
{
    CHECK_EQ(op->err, ERR_OK);
    timed++;
}

/* Durations are measured where the work is done: whoever waits for it has waited in a queue, too.
 */
CONTRACT(an_operation_says_how_long_it_took_and_its_sync)
{
    struct disk_file *f = NULL;
    struct bytes piece = BYTES("x");
    CHECK_EQ(disk_open(rig->io->disk, path(rig, "timed"), DISK_CREATE, 0600, &f), ERR_OK);
    struct disk_op op = {.kind = DISK_WRITE,
                         .file = f,
                         .pieces = &piece,
                         .piece_count = 1,
                         .sync = true,
                         .on_done = note_done};

    disk_submit(rig->io->disk, DISK_LOG, &op);
    rig_until(rig, &timed, 1);
    CHECK(op.sync_ns > 0);
    CHECK(op.took_ns >= op.sync_ns);
    op.sync = false;
    disk_submit(rig->io->disk, DISK_LOG, &op);
    rig_until(rig, &timed, 2);
    CHECK(op.took_ns > 0);
    CHECK_EQ(op.sync_ns, 0);

    CHECK_EQ(disk_close(rig->io->disk, f), ERR_OK);
}

CONTRACT(a_queue_does_and_reports_its_operations_in_order)
{
    enum { MANY = 100 };
    struct disk_file *f = open_new(rig, "file");
    struct appender many[MANY];
    struct buf want = {0};

    for (unsigned i = 0; i < MANY; i++) {
        struct appender *a = &many[i];
        *a = (struct appender){.number = i};
        int len = snprintf(a->text, sizeof(a->text), "%u,", i);
        a->piece = bytes_of(a->text, (size_t)len);
        a->op = (struct disk_op){.kind = DISK_WRITE,
                                 .file = f,
                                 .offset = DISK_END,
                                 .pieces = &a->piece,
                                 .piece_count = 1,
                                 .sync = i % 10 == 0,
                                 .on_done = check_next};
        disk_submit(rig->io->disk, DISK_LOG, &a->op);
        buf_append(&want, a->piece);
    }
    CHECK_EQ(done, 0);
    rig_until(rig, &done, MANY);

    check_content(rig, "file", buf_bytes(&want));
    CHECK_EQ(disk_close(rig->io->disk, f), ERR_OK);
    buf_free(&want);
}

static void count_done(struct disk_op *op)
{
    (void)op;
    done++;
}

CONTRACT(every_kind_can_be_submitted_and_errors_come_back)
{
    struct disk *d = rig->io->disk;
    struct buf out = {0};
    struct disk_op ops[] = {
        {.kind = DISK_MAKE_DIR, .path = path(rig, "dir"), .mode = 0700},
        {.kind = DISK_OPEN, .path = path(rig, "dir/f"), .flags = DISK_CREATE, .mode = 0600},
        {.kind = DISK_SYNC_DIR, .path = path(rig, "dir")},
        {.kind = DISK_RENAME, .path = path(rig, "dir/f"), .path_to = path(rig, "dir/g")},
        {.kind = DISK_LIST, .path = path(rig, "dir"), .size = 100, .out = &out},
        {.kind = DISK_REMOVE, .path = path(rig, "dir/f")},
        {.kind = DISK_STAT, .path = path(rig, "dir/g")},
    };
    enum { COUNT = sizeof(ops) / sizeof(ops[0]) };

    for (unsigned i = 0; i < COUNT; i++) {
        ops[i].on_done = count_done;
        disk_submit(d, DISK_OTHER, &ops[i]);
    }
    rig_until(rig, &done, COUNT);

    for (unsigned i = 0; i < COUNT; i++)
        CHECK_EQ(ops[i].err, ops[i].kind == DISK_REMOVE ? ERR_NOT_FOUND : ERR_OK);
    CHECK_BYTES(buf_bytes(&out), BYTES("g\0"));
    CHECK_EQ(ops[6].stat.mode, 0600);
    ops[1].kind = DISK_CLOSE;
    disk_submit(d, DISK_OTHER, &ops[1]);
    rig_until(rig, &done, COUNT + 1);
    CHECK_EQ(ops[1].err, ERR_OK);
    buf_free(&out);
}

/* Against an array of bytes: writes, truncations and reads at random places. */
CONTRACT(random_writes_agree_with_a_plain_array)
{
    enum { SIZE_MAX_BYTES = 20000, STEPS = 400 };
    static uint8_t model[SIZE_MAX_BYTES], data[3000], got[SIZE_MAX_BYTES];
    size_t model_len = 0, len;
    struct disk *d = rig->io->disk;
    struct disk_file *f = open_new(rig, "file");
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (uint64_t step = 0; step < STEPS * test_effort(); step++) {
        size_t at = rng_below(&rng, SIZE_MAX_BYTES - sizeof(data));
        uint64_t choice = rng_below(&rng, 10);
        if (choice == 0) {
            CHECK_EQ(disk_truncate(d, f, at), ERR_OK);
            if (at < model_len)
                memset(model + at, 0, model_len - at);
            model_len = at;
        } else {
            len = rng_between(&rng, 1, sizeof(data));
            memset(data, (int)rng_between(&rng, 1, 255), len);
            CHECK_EQ(disk_write(d, f, at, bytes_of(data, len)), ERR_OK);
            memcpy(model + at, data, len);
            model_len = at + len > model_len ? at + len : model_len;
        }
        CHECK_EQ(disk_read(d, f, 0, got, sizeof(got), &len), ERR_OK);
        CHECK_BYTES(bytes_of(got, len), bytes_of(model, model_len));
    }
    CHECK_EQ(disk_close(d, f), ERR_OK);
}

CONTRACT(without_descriptors_nothing_is_opened_and_what_is_open_goes_on)
{
    struct disk *d = rig->io->disk;
    struct disk_file *dir = NULL, *f = open_new(rig, "file"), *more = NULL;
    struct buf out = {0};
    struct disk_stat st;
    CHECK_EQ(disk_open_dir(d, test_tmp_dir(), &dir), ERR_OK);

    rig_limit_files(rig, 0);
    CHECK_EQ(disk_open(d, path(rig, "other"), DISK_CREATE, 0600, &more), ERR_NO_FILES);
    CHECK_EQ(disk_stat(d, path(rig, "other"), &st), ERR_NOT_FOUND);
    CHECK_EQ(disk_open(d, path(rig, "missing"), 0, 0, &more), ERR_NO_FILES);
    CHECK_EQ(disk_open_dir(d, test_tmp_dir(), &more), ERR_NO_FILES);
    CHECK_EQ(disk_read_file(d, path(rig, "file"), 100, &out), ERR_NO_FILES);
    CHECK_EQ(disk_list(d, test_tmp_dir(), 1000, &out), ERR_NO_FILES);
    CHECK_EQ(disk_sync_dir(d, test_tmp_dir()), ERR_NO_FILES);
    CHECK_EQ(disk_write(d, f, 0, BYTES("goes on")), ERR_OK);
    CHECK_EQ(disk_sync(d, f), ERR_OK);
    CHECK_EQ(disk_rename(d, path(rig, "file"), path(rig, "renamed")), ERR_OK);
    CHECK_EQ(disk_sync_opened_dir(d, test_tmp_dir(), dir), ERR_OK);
    CHECK_EQ(disk_close(d, f), ERR_OK);
    CHECK_EQ(disk_open(d, path(rig, "other"), DISK_CREATE, 0600, &more), ERR_OK);
    rig_unlimit_files(rig);

    check_content(rig, "renamed", BYTES("goes on"));
    CHECK_EQ(disk_close(d, more), ERR_OK);
    CHECK_EQ(disk_close(d, dir), ERR_OK);
    buf_free(&out);
}

CONTRACT(a_directory_is_opened_as_one_and_a_file_is_not)
{
    struct disk_file *f = open_new(rig, "file"), *dir = NULL;

    CHECK_EQ(disk_open_dir(rig->io->disk, path(rig, "file"), &dir), ERR_NOT_FOUND);
    CHECK_EQ(disk_open(rig->io->disk, test_tmp_dir(), 0, 0, &dir), ERR_IO);

    CHECK_EQ(disk_close(rig->io->disk, f), ERR_OK);
}

TEST(a_full_disk_and_a_failed_sync_are_told_with_their_errno)
{
    struct rig rig;
    rig_open_real(&rig);
    struct disk_file *f = NULL;
    if (disk_open(rig.io->disk, "/dev/full", 0, 0, &f) != ERR_OK)
        SKIP("no /dev/full here");
    struct bytes piece = BYTES("x");
    struct disk_op write = {
        .kind = DISK_WRITE, .file = f, .pieces = &piece, .piece_count = 1, .sync = true};
    struct disk_op sync = {.kind = DISK_SYNC, .file = f};

    CHECK_EQ(disk_wait(rig.io->disk, &write), ERR_NO_SPACE);
    CHECK_EQ(write.os_error, ENOSPC);
    CHECK_EQ(write.done, 0);
    CHECK_EQ(disk_wait(rig.io->disk, &sync), ERR_IO);
    CHECK_EQ(sync.os_error, EINVAL);

    CHECK_EQ(disk_close(rig.io->disk, f), ERR_OK);
    rig_close(&rig);
}

/* /dev/null takes any write and no sync, so it tells whether one was made. */
/* Some network file systems, and /proc, have no such thing as the sync of a directory. */
TEST(a_directory_that_cannot_be_synced_is_told_apart_from_a_sync_that_failed)
{
    struct rig rig;
    struct disk_op op = {.kind = DISK_SYNC_DIR, .path = "/proc"};
    rig_open_real(&rig);
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) == 0 || errno != EINVAL)
        SKIP("no directory here that cannot be synced");
    close(fd);

    CHECK_EQ(disk_wait(rig.io->disk, &op), ERR_OK);
    CHECK_EQ(op.os_error, EINVAL);
    op.path = path(&rig, ".");
    CHECK_EQ(disk_wait(rig.io->disk, &op), ERR_OK);
    CHECK_EQ(op.os_error, 0);
    op.path = "/proc/no such";
    CHECK_EQ(disk_wait(rig.io->disk, &op), ERR_NOT_FOUND);
    rig_close(&rig);
}

TEST(a_write_that_asks_for_it_is_synced)
{
    struct rig rig;
    rig_open_real(&rig);
    struct disk_file *f = NULL;
    CHECK_EQ(disk_open(rig.io->disk, "/dev/null", 0, 0, &f), ERR_OK);
    struct bytes piece = BYTES("x");
    struct disk_op op = {.kind = DISK_WRITE, .file = f, .pieces = &piece, .piece_count = 1};

    CHECK_EQ(disk_wait(rig.io->disk, &op), ERR_OK);
    op.sync = true;
    CHECK_EQ(disk_wait(rig.io->disk, &op), ERR_IO);

    CHECK_EQ(op.done, 1);
    CHECK_EQ(op.os_error, EINVAL);
    CHECK_EQ(disk_close(rig.io->disk, f), ERR_OK);
    rig_close(&rig);
}

/* A limit on file sizes lets the kernel take the first part and refuse the rest. */
TEST(a_short_write_goes_on_until_the_error_and_tells_how_far_it_came)
{
    struct rig rig;
    rig_open_real(&rig);
    struct disk_file *f = open_new(&rig, "file");
    struct bytes pieces[] = {BYTES("0123456"), BYTES("789abcdef")};
    struct disk_op op = {.kind = DISK_WRITE, .file = f, .pieces = pieces, .piece_count = 2};
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);

    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &(struct rlimit){10, RLIM_INFINITY}), 0);
    CHECK_EQ(disk_wait(rig.io->disk, &op), ERR_TOO_LARGE);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}), 0);

    CHECK_EQ(op.done, 10);
    check_content(&rig, "file", BYTES("0123456789"));
    CHECK_EQ(disk_close(rig.io->disk, f), ERR_OK);
    rig_close(&rig);
}

/* As a real etcd, started on the same directory, would try. */
TEST(another_process_sees_the_lock_of_a_log_segment)
{
    struct rig rig;
    rig_open_real(&rig);
    struct disk_file *f = open_new(&rig, "0.wal");
    CHECK_EQ(disk_lock(rig.io->disk, f, 0), ERR_OK);

    pid_t child = fork();
    if (child == 0) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(path(&rig, "0.wal"), O_WRONLY);
        _exit(fd >= 0 && fcntl(fd, F_OFD_SETLK, &whole) < 0 && errno == EAGAIN ? 0 : 1);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);

    CHECK_EQ(status, 0);
    CHECK_EQ(disk_close(rig.io->disk, f), ERR_OK);
    rig_close(&rig);
}

TEST(a_file_whose_size_lies_is_read_to_its_end)
{
    struct rig rig;
    rig_open_real(&rig);
    struct buf got = {0};

    CHECK_EQ(disk_read_file(rig.io->disk, "/proc/self/status", 1 << 20, &got), ERR_OK);
    CHECK(bytes_starts_with(buf_bytes(&got), BYTES("Name:")));
    buf_clear(&got);
    CHECK_EQ(disk_read_file(rig.io->disk, "/proc/self/status", 10, &got), ERR_TOO_LARGE);

    CHECK_EQ(got.len, 0);
    buf_free(&got);
    rig_close(&rig);
}

CONTRACT(a_disk_says_how_much_space_is_left)
{
    uint64_t left = 0;

    CHECK_EQ(disk_space(rig->io->disk, path(rig, ""), &left), ERR_OK);
    CHECK(left > 0);
    CHECK_EQ(disk_space(rig->io->disk, path(rig, "missing"), &left), ERR_NOT_FOUND);
}
