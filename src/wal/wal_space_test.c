/* No descriptor for the next segment, or no space for it. */
#include "wal/wal_rig_test.h"

#include <stdio.h>

/* --- few file descriptors --- */

static void settle_time(struct wal_rig *rig)
{
    while (fake_world_step(rig->world))
        ;
}

TEST(a_segment_is_cut_without_a_descriptor_more)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 8192);
    wal_rig_start(rig);

    rig->world->fds.max = rig->world->fds.open; /* the next one is reserved */
    wal_rig_write_over(rig, 1);
    settle_time(rig);

    CHECK_STR(rig->failed, "");
    CHECK_EQ(wal_durable(rig->wal), rig->seq);
    rig->world->fds.max = 0;
    wal_rig_end(rig);
}

TEST(a_log_without_a_descriptor_for_its_next_segment_waits_for_one)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 8192);
    wal_rig_start(rig);

    rig->world->fds.max = rig->world->fds.open;
    wal_rig_write_over(rig, 2);
    wal_rig_entries(rig, rig->last + 1, 1, 1000);
    settle_time(rig);
    for (unsigned i = 0; i < 3; i++) {
        wal_retry(rig->wal);
        settle_time(rig);
        CHECK_STR(rig->failed, "");
        CHECK(wal_durable(rig->wal) < rig->seq);
        wal_check(rig->wal);
    }
    rig->world->fds.max = 0;
    wal_retry(rig->wal);
    settle_time(rig);

    CHECK_STR(rig->failed, "");
    CHECK_EQ(wal_durable(rig->wal), rig->seq);
    wal_rig_close(rig);
    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    wal_rig_end(rig);
}

/* One that nobody waits for yet is tried again, too, and not with every write. */
TEST(a_next_segment_that_could_not_be_made_is_made_later)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 8192);
    wal_rig_start(rig);
    rig->world->fds.max = rig->world->fds.open;
    wal_rig_write_over(rig, 1);
    settle_time(rig);
    uint64_t calls = fake_disk_calls(rig->world->disk);

    wal_rig_entries(rig, rig->last + 1, 1, 10);
    wal_rig_entries(rig, rig->last + 1, 1, 10);
    settle_time(rig);
    calls = fake_disk_calls(rig->world->disk) - calls;
    rig->world->fds.max = rig->world->fds.open + 1;
    wal_retry(rig->wal);
    settle_time(rig);
    rig->world->fds.max = rig->world->fds.open;
    wal_rig_write_over(rig, 1);
    settle_time(rig);

    CHECK(calls <= 4); /* writes, and their syncs */
    CHECK_STR(rig->failed, "");
    CHECK_EQ(wal_durable(rig->wal), rig->seq);
    rig->world->fds.max = 0;
    wal_rig_end(rig);
}

/* A log that waits for its next segment, whose reservation is tried again and fails with this. */
static struct wal_rig *rig_whose_reservation_fails(enum err e)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 8192);

    wal_rig_start(rig);
    rig->world->fds.max = rig->world->fds.open;
    wal_rig_write_over(rig, 2);
    settle_time(rig);
    rig->world->fds.max = 0;
    fake_disk_fail(rig->world->disk,
                   (struct fake_fault){.kind = DISK_ALLOCATE, .nth = 1, .err = e});
    wal_retry(rig->wal);
    settle_time(rig);
    return rig;
}

TEST(a_reservation_that_fails_for_another_reason_is_the_end_if_it_is_waited_for)
{
    struct wal_rig *rig = rig_whose_reservation_fails(ERR_IO);

    CHECK(strstr(rig->failed, "reservation of") != NULL);
    wal_rig_crash(rig, FAKE_POWER_CUT);
    CHECK_EQ(wal_rig_open(rig, false), ERR_OK);
    wal_rig_end(rig);
}

TEST(a_reservation_that_is_waited_for_and_finds_no_space_is_made_later)
{
    struct wal_rig *rig = rig_whose_reservation_fails(ERR_NO_SPACE);

    CHECK_STR(rig->failed, "");
    CHECK(wal_awaits_space(rig->wal));
    wal_retry(rig->wal);
    settle_time(rig);

    CHECK_STR(rig->failed, "");
    CHECK_EQ(wal_durable(rig->wal), rig->seq);
    wal_rig_end(rig);
}

/* --- a full disk --- */

static void give_space(struct wal_rig *rig, uint64_t bytes)
{
    fake_disk_set_space(rig->world->disk, bytes);
}

/* It is closed nevertheless: its lock would keep ourselves from it at the next attempt. */
TEST(a_reserved_file_that_cannot_be_removed_is_in_nobodys_way)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 8192);
    wal_rig_start(rig);
    settle_time(rig);
    unsigned open = rig->world->fds.open;

    give_space(rig, 4096); /* for its name, not for all of it */
    fake_disk_fail(rig->world->disk,
                   (struct fake_fault){.kind = DISK_REMOVE, .nth = 1, .err = ERR_IO});
    wal_rig_write_over(rig, 2);
    settle_time(rig);
    CHECK(!fake_disk_will_fail(rig->world->disk));
    CHECK(wal_awaits_space(rig->wal));
    CHECK_EQ(rig->world->fds.open, open); /* one segment more, and no reserved one */
    give_space(rig, FAKE_DISK_NOT_FULL);
    wal_retry(rig->wal);
    settle_time(rig);

    CHECK_STR(rig->failed, "");
    CHECK_EQ(wal_durable(rig->wal), rig->seq);
    wal_rig_end(rig);
}

/* The next segment is reserved, and there is no space for another. Writes until that one is used,
 * and has only the reserve left. */
static void fill(struct wal_rig *rig)
{
    give_space(rig, 0);
    wal_rig_write_over(rig, 1);
    settle_time(rig);
    while (wal_space_left(rig->wal) > 0) {
        CHECK(wal_space_left(rig->wal) <= 64 * KIB);
        wal_rig_entries(rig, rig->last + 1, 1, 1000);
        settle_time(rig);
    }
}

/* Promise 6: it says in time that it is full, and has something left for votes. */
TEST(a_full_log_has_space_for_votes_and_goes_on_when_there_is_more)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 64 * KIB);
    wal_rig_start(rig);
    settle_time(rig);
    CHECK(!wal_lacks_space(rig->wal));
    CHECK_EQ(wal_space_left(rig->wal), UINT64_MAX);

    fill(rig);
    for (uint64_t i = 0; i < 100; i++) {
        wal_rig_state(rig, rig->term + 1, 7, rig->commit);
        settle_time(rig);
        if (i % 10 == 0)
            wal_retry(rig->wal);
    }
    settle_time(rig);

    CHECK(wal_lacks_space(rig->wal));
    CHECK(!wal_awaits_space(rig->wal));
    CHECK_EQ(wal_durable(rig->wal), rig->seq);
    give_space(rig, FAKE_DISK_NOT_FULL);
    wal_retry(rig->wal);
    settle_time(rig);
    CHECK(!wal_lacks_space(rig->wal));
    CHECK_STR(rig->failed, "");
    wal_rig_end(rig);
}

/* What nobody could hold back (raft's word) waits, however much it is, and is not lost. */
TEST(what_a_full_log_has_no_space_for_waits_for_it)
{
    static const enum fake_crash ends[] = {FAKE_KILLED, FAKE_TORN, FAKE_POWER_CUT};

    for (unsigned i = 0; i < 2 * ARRAY_LEN(ends); i++) {
        struct wal_rig *rig = wal_rig_new(test_seed() + i, 64 * KIB);
        wal_rig_start(rig);
        settle_time(rig);
        fill(rig);
        uint64_t durable = wal_durable(rig->wal);

        wal_rig_write_over(rig, 1);
        wal_rig_write_over(rig, 1);
        for (unsigned tries = 0; tries < 3; tries++) {
            settle_time(rig);
            CHECK(wal_awaits_space(rig->wal));
            CHECK_EQ(wal_space_left(rig->wal), 0);
            CHECK(wal_is_idle(rig->wal));
            wal_check(rig->wal);
            give_space(rig, tries * 10 * KIB); /* not enough for a segment */
            wal_retry(rig->wal);
        }
        settle_time(rig);
        CHECK(wal_durable(rig->wal) < rig->seq);
        CHECK(wal_durable(rig->wal) >= durable);
        if (i % 2 == 0) { /* and is forgotten by a process that ends meanwhile */
            wal_rig_crash(rig, ends[i / 2]);
            give_space(rig, FAKE_DISK_NOT_FULL);
            CHECK_EQ(wal_rig_open(rig, false), ERR_OK);
            wal_rig_end(rig);
            continue;
        }
        give_space(rig, 1 * MIB);
        for (unsigned segments = 0; wal_awaits_space(rig->wal); segments++) {
            CHECK(segments < 4);
            wal_retry(rig->wal);
            settle_time(rig);
        }
        CHECK_EQ(wal_durable(rig->wal), rig->seq);
        CHECK_STR(rig->failed, "");
        wal_rig_crash(rig, FAKE_POWER_CUT);
        CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
        wal_rig_end(rig);
    }
}

/* Where space cannot be reserved, or a file system needs more of it to write over what is there. */
TEST(a_write_that_finds_no_space_is_undone_and_made_again)
{
    for (unsigned i = 0; i < 6; i++) {
        struct wal_rig *rig = wal_rig_new(test_seed() + i, 64 * KIB);
        wal_rig_start(rig);
        wal_rig_entries(rig, 1, 3, 500);
        settle_time(rig);

        fake_disk_fail(rig->world->disk,
                       (struct fake_fault){
                           .kind = DISK_WRITE, .nth = 1, .err = ERR_NO_SPACE, .written = 77 * i});
        wal_rig_entries(rig, 4, 3, 500);
        wal_rig_entries(rig, 7, 1, 500);
        settle_time(rig);
        CHECK(wal_awaits_space(rig->wal));
        CHECK_STR(rig->failed, "");
        wal_check(rig->wal);
        if (i % 2 == 0) {
            wal_rig_crash(rig, FAKE_KILLED);
            CHECK_EQ(wal_rig_open(rig, true), ERR_OK); /* no part of it is there */
            wal_rig_end(rig);
            continue;
        }
        wal_retry(rig->wal);
        settle_time(rig);
        CHECK(!wal_lacks_space(rig->wal));
        CHECK_EQ(wal_durable(rig->wal), rig->seq);
        wal_rig_crash(rig, FAKE_POWER_CUT);
        CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
        wal_rig_end(rig);
    }
}

/* The write finds no space, and then cutting off what there is of it fails as well. */
static void undo_with(struct wal_rig *rig, enum err e)
{
    struct fake_disk *disk = rig->world->disk;

    fake_disk_fail(disk, (struct fake_fault){
                             .kind = DISK_WRITE, .nth = 1, .err = ERR_NO_SPACE, .written = 77});
    wal_rig_entries(rig, 4, 3, 500);
    while (fake_disk_will_fail(disk))
        CHECK(fake_world_step(rig->world));
    fake_disk_fail(disk, (struct fake_fault){.kind = DISK_TRUNCATE, .nth = 1, .err = e});
    settle_time(rig);
}

TEST(undoing_a_write_that_found_no_space_waits_for_it_or_says_why_it_fails)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 64 * KIB);
    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 3, 500);
    settle_time(rig);

    undo_with(rig, ERR_NO_SPACE);
    CHECK(wal_awaits_space(rig->wal));
    CHECK_STR(rig->failed, "");
    for (unsigned i = 0; wal_lacks_space(rig->wal); i++) {
        CHECK(i < 3); /* first it is undone, then made again */
        wal_retry(rig->wal);
        settle_time(rig);
    }
    CHECK_EQ(wal_durable(rig->wal), rig->seq);
    wal_rig_crash(rig, FAKE_POWER_CUT);
    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    wal_rig_end(rig);

    rig = wal_rig_new(test_seed(), 64 * KIB);
    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 3, 500);
    settle_time(rig);
    undo_with(rig, ERR_IO);
    CHECK(strstr(rig->failed, "truncation of"));
    CHECK(strstr(rig->failed, "input/output error"));
    wal_rig_crash(rig, FAKE_KILLED);
    wal_rig_free(rig);
}

TEST(a_sync_that_finds_no_space_is_the_end_nevertheless)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 64 * KIB);
    wal_rig_start(rig);
    settle_time(rig);

    fake_disk_fail(rig->world->disk,
                   (struct fake_fault){.kind = DISK_SYNC, .nth = 1, .err = ERR_NO_SPACE});
    wal_rig_entries(rig, 1, 3, 500);
    settle_time(rig);

    CHECK(strstr(rig->failed, "sync of") != NULL);
    wal_rig_crash(rig, FAKE_KILLED);
    CHECK_EQ(wal_rig_open(rig, false), ERR_OK);
    wal_rig_end(rig);
}

/* It would give its space up, and might not get it back, if it cut the file to clear it. */
TEST(a_log_is_opened_on_a_full_disk_and_keeps_the_space_it_has)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 64 * KIB);
    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 3, 500);
    settle_time(rig);
    wal_rig_crash(rig, FAKE_KILLED);
    CHECK_EQ(disk_remove(rig->disk, "/member/wal/0.tmp"), ERR_OK); /* it has space, too */
    give_space(rig, 0);

    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    CHECK_EQ(fake_disk_space(rig->world->disk), 0);
    wal_rig_entries(rig, 4, 3, 500);
    settle_time(rig);

    CHECK_EQ(wal_durable(rig->wal), rig->seq);
    CHECK_STR(rig->failed, "");
    CHECK(wal_lacks_space(rig->wal));
    CHECK(wal_space_left(rig->wal) > 0);
    wal_rig_close(rig);
    give_space(rig, FAKE_DISK_NOT_FULL);
    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    wal_rig_end(rig);
}

/* One whose space was given up before is opened, too, and closed again with nothing written. */
TEST(a_log_without_a_byte_of_space_is_opened_and_closed)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 64 * KIB);
    char path[64];
    struct disk_file *f;
    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 3, 500);
    settle_time(rig);
    uint64_t end_of_log = wal_tail(rig->wal)->end;
    snprintf(path, sizeof(path), "/member/wal/%s", wal_tail(rig->wal)->text);
    wal_rig_close(rig);
    CHECK_EQ(disk_open(rig->disk, path, 0, 0, &f), ERR_OK);
    CHECK_EQ(disk_truncate(rig->disk, f, end_of_log), ERR_OK);
    CHECK_EQ(disk_close(rig->disk, f), ERR_OK);
    give_space(rig, 0);

    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    wal_rig_state(rig, 1, 7, 2);
    settle_time(rig);
    CHECK_STR(rig->failed, "");
    CHECK_EQ(wal_tail(rig->wal)->size, end_of_log);
    wal_close(rig->wal);
    rig->wal = NULL;
    rig->acknowledged = 0;
    CHECK_STR(rig->failed, "");

    give_space(rig, FAKE_DISK_NOT_FULL);
    CHECK_EQ(wal_rig_open(rig, false), ERR_OK);
    CHECK_EQ(rig->last, 3);
    wal_rig_end(rig);
}
