/*
 * Every byte of a small log, changed in turn: each bit, all bits, to zero, and with TEST_EFFORT=2
 * or more to every other value. Either the log is refused, with file and offset, or nothing that
 * was written has changed its meaning. What must look like a torn write is looked at by itself,
 * below.
 */
#include "wal/wal_rig_test.h"

#include <stdio.h>

enum { SEGMENT = 1024 };

struct segment_file {
    char path[96];
    struct buf content;
    size_t end; /* of what was written */
};

struct log_files {
    struct segment_file at[16];
    size_t count;
};

static void load(struct wal_rig *rig, struct log_files *out)
{
    struct buf names = {0};

    *out = (struct log_files){0};
    CHECK_EQ(disk_list(rig->disk, "/member/wal", 1 << 20, &names), ERR_OK);
    struct bytes left = buf_bytes(&names);
    for (const char *name; (name = disk_next_name(&left));) {
        struct segment_file *f = &out->at[out->count++];
        CHECK(out->count <= ARRAY_LEN(out->at));
        snprintf(f->path, sizeof(f->path), "/member/wal/%s", name);
        CHECK_EQ(disk_read_file(rig->disk, f->path, 1 << 20, &f->content), ERR_OK);
        CHECK(f->content.at);
        f->end = f->content.len;
        while (f->end > 0 && f->content.at[f->end - 1] == 0)
            f->end--;
    }
    buf_free(&names);
}

static void unload(struct log_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        buf_free(&files->at[i].content);
}

static void put_byte(struct wal_rig *rig, const struct segment_file *f, size_t at, uint8_t byte)
{
    struct disk_file *file;

    CHECK_EQ(disk_open(rig->disk, f->path, 0, 0, &file), ERR_OK);
    CHECK_EQ(disk_write(rig->disk, file, at, bytes_of(&byte, 1)), ERR_OK);
    CHECK_EQ(disk_close(rig->disk, file), ERR_OK);
}

/* Entries of every type, hard states, snapshots, a conflict and three segments. */
static void write_log(struct wal_rig *rig)
{
    static const struct raft_entry odd[] = {
        {.term = 1, .index = 1, .type = RAFT_ENTRY_CONF_CHANGE, .data = BYTES("\x10\x01\x18\x02")},
        {.term = 2, .index = 2, .type = RAFT_ENTRY_CONF_CHANGE_V2},
        {.term = 2, .index = 3},
    };

    CHECK_EQ(wal_rig_create(rig), ERR_OK);
    wal_append(rig->wal, &(struct wal_save){.entries = odd, .entry_count = 3, .state = {2, 9, 1}});
    rig->last = 3;
    rig->term = 3;
    wal_append(rig->wal, &(struct wal_save){.state = {3, 0, 3}});
    rig->commit = 3;
    for (uint64_t i = 4; i <= 16; i++) {
        wal_rig_entries(rig, i, 1, (i * 37) % 300);
        wal_rig_state(rig, 3, 0, i - 1);
        if (i == 7)
            wal_rig_snapshot(rig, 6);
        wal_rig_settle(rig);
    }
    wal_rig_entries(rig, 16, 2, 10);
    wal_rig_state(rig, 3, 0, 16);
    wal_rig_settle(rig);
    wal_sync(rig->wal);
    wal_rig_close(rig);
}

struct tally {
    unsigned long refused, same, lost;
};

/* Is this change of the byte to be tried? */
static bool is_tried(uint8_t byte, unsigned change)
{
    return test_effort() > 1 || (change & (change - 1)) == 0 || change == 0xff || change == byte;
}

static void mutate(struct wal_rig *rig, const struct log_files *files, size_t nth, size_t at,
                   const struct replayed *original, struct tally *tally)
{
    const struct segment_file *f = &files->at[nth];
    uint8_t byte = f->content.at[at];

    for (unsigned change = 1; change < 256; change++) {
        struct replayed o;
        struct wal_found found;

        if (!is_tried(byte, change))
            continue;
        put_byte(rig, f, at, (uint8_t)(byte ^ change));
        enum err e = replayed_of_disk(rig, &o, &found);
        if (e != ERR_OK) {
            CHECK_EQ(e, ERR_CORRUPT);
            CHECK(found.fault.what);
            CHECK(found.fault.file[0]);
            tally->refused++;
        } else if (replayed_equal(&o, original)) {
            if (at < f->end)
                test_fail(__FILE__, __LINE__, "%s: byte %zu ^ 0x%x was not noticed", f->path, at,
                          change);
            tally->same++;
        } else {
            tally->lost++;
            printf("%s: byte %zu ^ 0x%x: %zu of %zu entries, torn %d at %llu\n", f->path, at,
                   change, o.count, original->count, found.torn,
                   (unsigned long long)found.fault.offset);
        }
        replayed_free(&o);
    }
    put_byte(rig, f, at, byte);
}

TEST(no_changed_byte_of_a_log_is_accepted_in_silence)
{
    test_runs_in_one_thread();
    struct wal_rig *rig = wal_rig_new(test_seed(), SEGMENT);
    struct log_files files;
    struct replayed original;
    struct wal_found found;
    struct tally tally = {0};

    write_log(rig);
    load(rig, &files);
    CHECK_EQ(files.count, 4);
    CHECK_EQ(replayed_of_disk(rig, &original, &found), ERR_OK);
    CHECK_EQ(original.count, 11);
    CHECK(!found.torn);
    size_t bytes = 0;
    for (size_t i = 0; i < files.count; i++)
        for (size_t at = 0; at < files.at[i].content.len; at++, bytes++)
            mutate(rig, &files, i, at, &original, &tally);
    printf("%zu bytes: %lu refused, %lu without effect, %lu lost\n", bytes, tally.refused,
           tally.same, tally.lost);
    CHECK_EQ(tally.lost, 0);
    replayed_free(&original);
    unload(&files);
    wal_rig_free(rig);
}

/* --- what cannot be told from a torn write --- */

/* Writes entries 1 and 2, the second with this data; the place of its record. */
static uint64_t write_two(struct wal_rig *rig, struct bytes data)
{
    struct raft_entry e = {.term = 1, .index = 2, .data = data};

    CHECK_EQ(wal_rig_create(rig), ERR_OK);
    wal_rig_state(rig, 1, 7, 0);
    wal_rig_entries(rig, 1, 1, 10);
    uint64_t offset = wal_tail(rig->wal)->end;
    wal_append(rig->wal, &(struct wal_save){.entries = &e, .entry_count = 1});
    wal_rig_settle(rig);
    wal_rig_close(rig);
    return offset;
}

static uint64_t last_after_damage(struct wal_rig *rig, uint64_t at, uint8_t change,
                                  struct wal_found *found)
{
    struct log_files files;

    load(rig, &files);
    CHECK(files.at[0].content.at);
    put_byte(rig, &files.at[0], at, files.at[0].content.at[at] ^ change);
    enum err e = wal_replay(rig->disk, &rig->opt, (struct wal_place){0}, NULL, found);
    put_byte(rig, &files.at[0], at, files.at[0].content.at[at]);
    unload(&files);
    return e == ERR_OK ? found->last_index : 0;
}

/* As etcd does: a sector of zeros may be one that was never written. */
TEST(damage_to_a_last_record_with_a_sector_of_zeros_looks_torn)
{
    static uint8_t zeros[2000];
    struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 16);
    struct wal_found found;

    memset(zeros, 'x', 300);
    uint64_t offset = write_two(rig, bytes_of(zeros, sizeof(zeros)));

    CHECK_EQ(last_after_damage(rig, offset + 100, 1, &found), 1);
    CHECK(found.torn);
    CHECK_EQ(found.fault.offset, offset);

    /* But its length, type and form are still looked at. */
    CHECK_EQ(last_after_damage(rig, offset, 8, &found), 0);
    CHECK_EQ(last_after_damage(rig, offset + 2, 1, &found), 0);
    CHECK_EQ(last_after_damage(rig, offset + 8, 1, &found), 0);
    CHECK_EQ(last_after_damage(rig, offset + 9, 8, &found), 0);
    CHECK_EQ(found.fault.offset, offset);
    wal_rig_free(rig);
}

/* Part of a sector is zero, but what follows in it was written, so the sector was. */
TEST(damage_to_a_record_that_ends_in_zeros_is_noticed_if_another_follows)
{
    static uint8_t data[650];
    struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 16);
    struct wal_found found;

    memset(data, 'x', 50);
    uint64_t offset = write_two(rig, bytes_of(data, sizeof(data)));
    CHECK(offset + 80 < 512);
    CHECK_EQ(last_after_damage(rig, offset + 40, 1, &found), 1);
    CHECK(found.torn); /* nothing follows: it may be torn */

    rig->durable = 0;
    rig->seq = 0;
    rig->waiting_count = 0;
    CHECK_EQ(wal_open(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found, &rig->wal),
             ERR_OK);
    wal_rig_entries(rig, 3, 1, 10);
    wal_rig_close(rig);
    CHECK_EQ(last_after_damage(rig, offset + 40, 1, &found), 0);
    CHECK_EQ(found.fault.offset, offset);
    CHECK_STR(found.fault.what, "crc mismatch");
    wal_rig_free(rig);
}

TEST(a_length_that_vanishes_is_noticed_but_at_the_end_of_a_sector)
{
    bool met_end = false, met_other = false;

    for (size_t len = 1; len < 600; len++) {
        struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 16);
        struct wal_found found;
        struct log_files files;

        CHECK_EQ(wal_rig_create(rig), ERR_OK);
        wal_rig_state(rig, 1, 7, 0);
        wal_rig_entries(rig, 1, 1, len);
        uint64_t offset = wal_tail(rig->wal)->end;
        wal_rig_entries(rig, 2, 1, 16); /* of 32 bytes: no padding, if the crc is long */
        wal_rig_close(rig);
        load(rig, &files);
        CHECK(files.at[0].content.at);
        uint8_t word = files.at[0].content.at[offset];
        bool alone = files.at[0].content.at[offset + 7] == 0;
        if (alone) {
            uint64_t last = last_after_damage(rig, offset, word, &found);
            CHECK_EQ(last, offset % 512 == 504 ? 1 : 0);
            met_end |= offset % 512 == 504;
            met_other |= offset % 512 != 504;
        }
        unload(&files);
        wal_rig_free(rig);
    }
    CHECK(met_end);
    CHECK(met_other);
}
