#include "server/log_snapshot.h"

#include "harness/test.h"
#include "io/disk.h"
#include "io/fake_world.h"

struct log_snapshot_rig {
    struct fake_world *world;
    struct log_snapshot snapshot;
    struct raft_conf_state conf_state;
    struct logger logger;
};

static void rig_open(struct log_snapshot_rig *r, uint64_t count, uint64_t catch_up)
{
    *r = (struct log_snapshot_rig){
        .world = fake_world_new(test_seed()),
        .conf_state = {.voters = {.count = 1, .at = {0xabc}}},
        .logger = {.level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none}};
    const struct io *io = fake_world_io(r->world);
    CHECK_EQ(disk_make_dir(io->disk, "/snap", 0700, DISK_PARENTS), ERR_OK);
    log_snapshot_init(&r->snapshot,
                      &(struct log_snapshot_options){.disk = io->disk,
                                                     .workers = io->workers,
                                                     .logger = &r->logger,
                                                     .dir = "/snap",
                                                     .keep = 3,
                                                     .count = count,
                                                     .catch_up = catch_up,
                                                     .member_id = 0xabc},
                      0);
}

static void rig_close(struct log_snapshot_rig *r)
{
    log_snapshot_check(&r->snapshot);
    log_snapshot_free(&r->snapshot);
    fake_world_free(r->world);
}

static bool is_due(const struct log_snapshot_rig *r, uint64_t applied)
{
    return log_snapshot_is_due(&r->snapshot, applied, 0);
}

static void mark(struct log_snapshot_rig *r, uint64_t index)
{
    static const uint64_t removed[] = {0x77};
    struct snapfile_membership membership = {
        .removed = removed, .removed_count = 1, .cluster_version = BYTES("3.7.0")};

    log_snapshot_mark(&r->snapshot, &(struct log_snapshot_content){.index = index,
                                                                   .term = 4,
                                                                   .conf_state = &r->conf_state,
                                                                   .membership = &membership});
    log_snapshot_check(&r->snapshot);
}

static void begin(struct log_snapshot_rig *r, uint64_t index)
{
    mark(r, index);
    log_snapshot_begin(&r->snapshot, index);
    log_snapshot_check(&r->snapshot);
}

static void let_worker_work(struct log_snapshot_rig *r)
{
    while (fake_world_step(r->world))
        ;
    log_snapshot_check(&r->snapshot);
}

/* Writes and records the one that was begun, and returns what may be released. */
static uint64_t finish(struct log_snapshot_rig *r, uint64_t index)
{
    uint64_t release = UINT64_MAX;

    let_worker_work(r);
    const struct raft_snapshot *record = log_snapshot_take_record(&r->snapshot, 0);
    CHECK(record);
    CHECK_EQ(record->index, index);
    log_snapshot_recorded_as(&r->snapshot, index + 1000);
    log_snapshot_check(&r->snapshot);
    CHECK(log_snapshot_take_release(&r->snapshot, index + 1000, index, &release));
    log_snapshot_check(&r->snapshot);
    return release;
}

static uint64_t make(struct log_snapshot_rig *r, uint64_t index)
{
    begin(r, index);
    return finish(r, index);
}

/* The names in the directory, each with a space behind it. */
static void check_files(struct log_snapshot_rig *r, const char *want)
{
    struct buf names = {0}, text = {0};

    CHECK_EQ(disk_list(fake_world_io(r->world)->disk, "/snap", 4096, &names), ERR_OK);
    struct bytes left = buf_bytes(&names);
    for (const char *name; (name = disk_next_name(&left));)
        buf_printf(&text, "%s ", name);
    CHECK_STR(buf_str(&text), want);
    buf_free(&names);
    buf_free(&text);
}

TEST(a_snapshot_is_due_after_one_entry_more_than_the_count)
{
    struct log_snapshot_rig r;
    rig_open(&r, 10, 2);

    CHECK(!is_due(&r, 0));
    CHECK(!is_due(&r, 10));
    CHECK(is_due(&r, 11));
    CHECK_DIES(mark(&r, 10), "is_due");
    make(&r, 11);
    CHECK(!is_due(&r, 21));
    CHECK(is_due(&r, 22));

    rig_close(&r);
}

TEST(one_can_be_wanted_earlier)
{
    struct log_snapshot_rig r;
    rig_open(&r, 1000, 2);

    log_snapshot_want(&r.snapshot, 5);
    CHECK(!is_due(&r, 4));
    CHECK(is_due(&r, 5));
    make(&r, 6);
    CHECK(!is_due(&r, 7)); /* once */

    rig_close(&r);
}

/* The entries behind it come before its file is written. */
TEST(a_snapshot_is_of_the_entry_it_was_marked_at_and_waits_for_the_store)
{
    struct log_snapshot_rig r;
    rig_open(&r, 10, 2);

    CHECK(!log_snapshot_awaits_store(&r.snapshot, 0));
    mark(&r, 11);
    r.conf_state.voters.count = 0; /* a change that comes later */
    CHECK(!is_due(&r, 22));        /* one is marked at a time */
    CHECK(!log_snapshot_is_busy(&r.snapshot));
    CHECK(log_snapshot_awaits_store(&r.snapshot, 10));
    CHECK(!log_snapshot_can_begin(&r.snapshot, 10));
    CHECK_DIES(log_snapshot_begin(&r.snapshot, 10), "can_begin");
    CHECK(!log_snapshot_awaits_store(&r.snapshot, 15));
    log_snapshot_begin(&r.snapshot, 15);
    CHECK_EQ(r.snapshot.snapshot.conf_state.voters.count, 1);
    CHECK_EQ(finish(&r, 11), 9);
    check_files(&r, "0000000000000004-000000000000000b.snap ");

    rig_close(&r);
}

TEST(the_next_snapshot_is_marked_while_one_is_made)
{
    struct log_snapshot_rig r;
    rig_open(&r, 10, 2);

    begin(&r, 11);
    CHECK(!is_due(&r, 21));
    CHECK(is_due(&r, 22));
    mark(&r, 22);
    CHECK(!log_snapshot_can_begin(&r.snapshot, 30)); /* not before the first is finished */
    CHECK(!log_snapshot_awaits_store(&r.snapshot, 11));
    finish(&r, 11);
    CHECK(log_snapshot_can_begin(&r.snapshot, 30));
    log_snapshot_begin(&r.snapshot, 30);
    CHECK(is_due(&r, 33));
    finish(&r, 22);
    check_files(&r,
                "0000000000000004-000000000000000b.snap 0000000000000004-0000000000000016.snap ");

    rig_close(&r);
}

TEST(an_installed_image_drops_a_mark)
{
    struct log_snapshot_rig r;
    rig_open(&r, 10, 2);

    mark(&r, 11);
    CHECK_DIES(log_snapshot_installed(&r.snapshot, 10), "mark");
    log_snapshot_installed(&r.snapshot, 15);
    CHECK(!log_snapshot_can_begin(&r.snapshot, 15));
    CHECK(!is_due(&r, 25));
    CHECK(is_due(&r, 26));

    rig_close(&r);
}

TEST(one_snapshot_is_made_at_a_time_file_then_record_then_release)
{
    struct log_snapshot_rig r;
    struct raft_snapshot found;
    struct arena arena = {0};
    struct buf file = {0};
    uint64_t release;
    rig_open(&r, 10, 4);

    begin(&r, 20);
    CHECK(log_snapshot_is_busy(&r.snapshot));
    CHECK(!log_snapshot_take_record(&r.snapshot, 0)); /* there is no file yet */
    let_worker_work(&r);
    check_files(&r, "0000000000000004-0000000000000014.snap ");
    CHECK_EQ(snapfile_load_newest(fake_world_io(r.world)->disk,
                                  &(struct snapfile_search){.dir = "/snap", .logger = &r.logger},
                                  &arena, &file, &found),
             ERR_OK);
    CHECK_EQ(found.index, 20);
    CHECK_EQ(found.conf_state.voters.at[0], 0xabc);
    CHECK(memmem(found.data.at, found.data.len, "3.7.0", 5) != NULL);

    const struct raft_snapshot *record = log_snapshot_take_record(&r.snapshot, 0);
    CHECK(record);
    CHECK_EQ(record->index, 20);
    CHECK_EQ(record->term, 4);
    CHECK_EQ(record->conf_state.voters.count, 1);
    log_snapshot_recorded_as(&r.snapshot, 7);
    CHECK(!log_snapshot_take_release(&r.snapshot, 6, 20, &release)); /* not durable: a crash now */
    CHECK(log_snapshot_is_busy(&r.snapshot));                        /* would not find it */
    CHECK_DIES(log_snapshot_take_release(&r.snapshot, 7, 19, &release), "applied");
    CHECK(log_snapshot_take_release(&r.snapshot, 7, 20, &release));
    CHECK_EQ(release, 16);
    CHECK(!log_snapshot_is_busy(&r.snapshot));
    CHECK(!log_snapshot_take_release(&r.snapshot, 7, 20, &release));

    arena_free(&arena);
    buf_free(&file);
    rig_close(&r);
}

TEST(a_log_that_is_shorter_than_what_followers_want_is_kept)
{
    struct log_snapshot_rig r;
    rig_open(&r, 10, 5000);

    CHECK_EQ(make(&r, 11), 0);
    CHECK_EQ(make(&r, 5000), 0);
    CHECK_EQ(make(&r, 5020), 20);

    rig_close(&r);
}

TEST(the_newest_files_are_kept_and_nothing_else_is_touched)
{
    struct log_snapshot_rig r;
    rig_open(&r, 0, 0);
    CHECK_EQ(disk_write_file(fake_world_io(r.world)->disk, "/snap/db", 0600, BYTES("x")), ERR_OK);
    for (uint64_t index = 1; index <= 5; index++)
        make(&r, index);

    log_snapshot_purge_if_due(&r.snapshot, 0);
    CHECK(log_snapshot_is_busy(&r.snapshot));
    let_worker_work(&r);

    CHECK(!log_snapshot_is_busy(&r.snapshot));
    check_files(&r, "0000000000000004-0000000000000003.snap 0000000000000004-0000000000000004.snap "
                    "0000000000000004-0000000000000005.snap db ");
    rig_close(&r);
}

/* A member that restarts again and again purges at each start, or nobody would. */
TEST(old_files_go_at_the_start_and_half_a_minute_after_a_new_one)
{
    const char *four =
        "0000000000000004-0000000000000001.snap 0000000000000004-0000000000000002.snap "
        "0000000000000004-0000000000000003.snap 0000000000000004-0000000000000004.snap ";
    struct log_snapshot_rig r;
    rig_open(&r, 0, 0);

    log_snapshot_purge_if_due(&r.snapshot, 0);
    CHECK(log_snapshot_is_busy(&r.snapshot));
    let_worker_work(&r);
    for (uint64_t index = 1; index <= 4; index++)
        make(&r, index);
    log_snapshot_purge_if_due(&r.snapshot, LOG_SNAPSHOT_PURGE_MS - 1);
    let_worker_work(&r);
    check_files(&r, four);

    log_snapshot_purge_if_due(&r.snapshot, LOG_SNAPSHOT_PURGE_MS);
    let_worker_work(&r);
    check_files(&r, four + strlen("0000000000000004-0000000000000001.snap "));
    log_snapshot_purge_if_due(&r.snapshot, 10 * LOG_SNAPSHOT_PURGE_MS);
    CHECK(!log_snapshot_is_busy(&r.snapshot)); /* nothing was written since */

    rig_close(&r);
}

static void count_line(void *context, struct bytes line)
{
    (void)line;
    ++*(unsigned *)context;
}

/* The log grows until there is one, and may be what has filled the disk. */
TEST(a_file_that_cannot_be_written_is_tried_again_every_second)
{
    struct log_snapshot_rig r;
    unsigned lines = 0;
    rig_open(&r, 10, 2);
    r.logger = (struct logger){
        .level = LOG_INFO, .sink = count_line, .sink_context = &lines, .clock = log_clock_none};

    for (uint64_t now_ms = 100; now_ms < 5000; now_ms += 1000) {
        fake_disk_fail(r.world->disk,
                       (struct fake_fault){.kind = DISK_WRITE, .nth = 1, .err = ERR_NO_SPACE});
        begin(&r, 20);
        mark(&r, 40);
        let_worker_work(&r);
        CHECK(!fake_disk_will_fail(r.world->disk));
        CHECK(!log_snapshot_take_record(&r.snapshot, now_ms));
        CHECK(!log_snapshot_is_busy(&r.snapshot));
        CHECK(!log_snapshot_can_begin(&r.snapshot, 100)); /* a mark is dropped */
        CHECK(!log_snapshot_is_due(&r.snapshot, 30, now_ms + 999));
        CHECK(log_snapshot_is_due(&r.snapshot, 30, now_ms + 1000));
    }
    CHECK_EQ(lines, 3); /* that two are triggered, and that the first has failed */
    CHECK_EQ(make(&r, 30), 28);
    check_files(&r, "0000000000000004-000000000000001e.snap ");
    CHECK_EQ(lines, 4);
    make(&r, 50);
    CHECK_EQ(lines, 6);

    rig_close(&r);
}

TEST(the_check_of_log_snapshots_notices)
{
    struct log_snapshot_rig r;
    rig_open(&r, 10, 2);
    begin(&r, 20);

    r.snapshot.recorded_index = 20;
    CHECK_DIES(log_snapshot_check(&r.snapshot), "recorded_index");
    r.snapshot.recorded_index = 0;
    r.snapshot.seq = 3;
    CHECK_DIES(log_snapshot_check(&r.snapshot), "RECORDING");
    r.snapshot.seq = 0;

    let_worker_work(&r);
    rig_close(&r);
}
