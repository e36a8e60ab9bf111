/* A boot on a real disk, with LMDB, that finds no space. */
#include "backend/backend.h"
#include "backend/lmdb_fault_test.h"
#include "base/mem.h"
#include "config/config.h"
#include "harness/test.h"
#include "io/loop.h"
#include "server/boot.h"
#include "server/server_int.h"
#include "snap/transfer.h"
#include "wal/wal.h"

#include <errno.h>
#include <stdio.h>

enum { SEGMENT = 64 * KIB, PART_KEYS = 100 };

/* As much of a member as boots. */
struct bench {
    struct loop *loop;
    struct config config;
    struct server s;
    struct boot boot;
    struct buf why;
    char dir[160], snap_dir[200];
};

static void bench_open(struct bench *t)
{
    static const struct logger silent = {
        .level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none};
    static const char *const env[] = {NULL};
    const char *argv[] = {"server", "--data-dir", t->dir};

    *t = (struct bench){0};
    snprintf(t->dir, sizeof(t->dir), "%s/data", test_tmp_dir());
    snprintf(t->snap_dir, sizeof(t->snap_dir), "%s/member/snap", t->dir);
    CHECK_EQ(config_parse(ARRAY_LEN(argv), argv, env, &t->config, &t->why), CONFIG_OK);
    CHECK_EQ(loop_open(&(struct loop_options){0}, &t->loop), ERR_OK);
    t->s = (struct server){.options = {.segment_bytes = SEGMENT},
                           .config = &t->config,
                           .logger = &silent,
                           .io = loop_io(t->loop),
                           .snap_dir = t->snap_dir,
                           .store_dir = snap_store_dir(t->dir)};
    boot_init(&t->boot, &t->s, &t->why);
}

static void bench_close(struct bench *t)
{
    mem_free(t->s.store_dir);
    loop_close(t->loop);
    config_free(&t->config);
    buf_free(&t->why);
}

static enum err boot_once(struct bench *t)
{
    buf_clear(&t->why);
    CHECK_EQ(boot_look(&t->boot), ERR_OK);
    return boot_disk(&t->boot);
}

static struct backend *open_store(struct bench *t)
{
    struct backend_options options = {.disk = t->s.io->disk, .dir = t->s.store_dir};
    struct backend *b;

    CHECK_EQ(backend_open(&options, &b), ERR_OK);
    return b;
}

/* As a process leaves it that was killed while the next part of an entry waited for space. */
static void leave_part(struct bench *t)
{
    struct backend *b = open_store(t);
    char key[16];

    for (unsigned i = 0; i < PART_KEYS; i++) {
        snprintf(key, sizeof(key), "key%06u", i);
        backend_put(b, BUCKET_KEY, bytes_of_str(key), BYTES("of an entry without an end"));
    }
    backend_put(b, BUCKET_META, BYTES(BACKEND_UNFINISHED_PREFIX "Part"), BYTES("\5key"));
    CHECK_EQ(backend_commit_now(b), ERR_OK);
    backend_close(b);
}

static void check_no_part(struct bench *t)
{
    struct backend_view v;
    struct bytes value;

    backend_view_open(t->s.state.backend, &v);
    CHECK_EQ(backend_get(&v, BUCKET_KEY, BYTES("key000000"), &value), ERR_NOT_FOUND);
    backend_view_close(&v);
}

/* The store is put right while it is looked at, long before it is opened to be served. */
TEST(a_boot_that_finds_no_space_at_any_call_of_lmdb_may_wait_and_boots_later)
{
    struct bench t;
    unsigned waited = 0;
    bool reached = true;
    bench_open(&t);
    CHECK_EQ(boot_once(&t), ERR_OK);
    boot_undo(&t.boot);
    static_assert(BUCKET_KEY == 5, "the note names it");

    for (uint64_t nth = 1; reached; nth++) {
        leave_part(&t);
        lmdb_fault_at(t.s.store_dir, nth, ENOSPC);
        enum err e = boot_once(&t);
        bool may_wait = t.boot.may_wait;
        boot_undo(&t.boot);
        reached = lmdb_fault_end();

        CHECK(e != ERR_NO_SPACE || may_wait);
        waited += e == ERR_NO_SPACE;
        CHECK_EQ(boot_once(&t), ERR_OK);
        check_no_part(&t);
        boot_undo(&t.boot);
    }
    printf("%u waited\n", waited);
    CHECK(waited > 10);
    bench_close(&t);
}
