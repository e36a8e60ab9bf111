#include "wal/wal_rig_test.h"

#include "base/crc32c.h"
#include "io/loop.h"

#include <stdio.h>
#include <sys/stat.h>

static void read_whole(struct wal_rig *rig, const char *name, struct buf *out)
{
    char path[128];

    snprintf(path, sizeof(path), "/member/wal/%s", name);
    CHECK_EQ(disk_read_file(rig->disk, path, 1 << 28, out), ERR_OK);
}

static size_t count_segments(struct wal_rig *rig)
{
    struct buf names = {0};
    size_t count = 0;

    CHECK_EQ(disk_list(rig->disk, "/member/wal", 1 << 20, &names), ERR_OK);
    struct bytes left = buf_bytes(&names);
    for (const char *name; (name = disk_next_name(&left));) {
        struct wal_name parsed;
        count += wal_name_parse(name, &parsed);
    }
    buf_free(&names);
    return count;
}

/* The bytes that etcd 3.7.1 writes for this member. */
TEST(a_new_log_is_etcds_byte_for_byte)
{
    static const uint8_t want[] = {
        0x04, 0,    0,    0,    0,    0,    0,    0x84, 0x08, 0x04, 0x10, 0,    0,    0,
        0,    0,    0x20, 0,    0,    0,    0,    0,    0,    0,    0x08, 0x01, 0x10, 0xbb,
        0x81, 0xc7, 0xfc, 0x05, 0x1a, 0x16, 0x08, 0xcd, 0xd2, 0x91, 0x8b, 0xd2, 0xb8, 0x81,
        0xcf, 0x8e, 0x01, 0x10, 0xb2, 0x98, 0xea, 0xf1, 0x94, 0x83, 0x86, 0xfc, 0xcd, 0x01,
        0x0e, 0,    0,    0,    0,    0,    0,    0x82, 0x08, 0x05, 0x10, 0x94, 0xbb, 0xc7,
        0xed, 0x0e, 0x1a, 0x04, 0x08, 0,    0x10, 0,    0,    0};
    struct wal_rig *rig = wal_rig_new(test_seed(), 0);
    struct buf file = {0};

    CHECK_EQ(wal_rig_create(rig), ERR_OK);
    wal_rig_settle(rig);

    read_whole(rig, "0000000000000000-0000000000000000.wal", &file);
    CHECK_EQ(file.len, 64000000);
    CHECK_BYTES(bytes_of(file.at, sizeof(want)), bytes_of(want, sizeof(want)));
    for (size_t i = sizeof(want); i < file.len; i++)
        CHECK(file.at[i] == 0);
    buf_free(&file);
    wal_rig_end(rig);
}

TEST(creation_is_refused_where_there_is_a_log_and_replaces_an_empty_directory)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);
    bool exists = true;

    CHECK_EQ(wal_exists(rig->disk, rig->opt.dir, &exists), ERR_OK);
    CHECK(!exists);
    CHECK_EQ(disk_make_dir(rig->disk, "/member/wal", 0700, 0), ERR_OK);
    CHECK_EQ(disk_make_dir(rig->disk, "/member/wal.tmp", 0700, 0), ERR_OK);
    CHECK_EQ(disk_write_file(rig->disk, "/member/wal.tmp/0000000000000000-0000000000000000.wal",
                             0600, BYTES("left by a crash")),
             ERR_OK);
    CHECK_EQ(wal_rig_create(rig), ERR_OK);
    CHECK_EQ(wal_exists(rig->disk, rig->opt.dir, &exists), ERR_OK);
    CHECK(exists);

    struct wal *second;
    CHECK_EQ(wal_create(rig->disk, &rig->opt, &(struct pb_wal_metadata){0}, &second), ERR_EXISTS);
    wal_rig_end(rig);
}

TEST(records_are_what_the_protobuf_codec_makes)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);
    struct buf want = {0}, file = {0};
    struct blob *data = wal_rig_data(300, 5, 300);

    wal_rig_start(rig);
    uint32_t crc = rig->wal->crc;
    uint64_t offset = wal_tail(rig->wal)->end;
    wal_rig_entries(rig, 1, 1, 0);
    wal_rig_settle(rig);

    struct buf record = {0};
    pb_encode(&raft_entry_schema, &(struct raft_entry){.term = 1, .index = 1}, &record);
    crc = crc32c(crc, buf_bytes(&record));
    pb_encode_wal_record(&(struct pb_wal_record){.type = 2, .crc = crc, .data = buf_bytes(&record)},
                         &want);
    read_whole(rig, "0000000000000000-0000000000000000.wal", &file);
    CHECK_EQ(file.at[offset], want.len);
    CHECK_BYTES(bytes_of(file.at + offset + 8, want.len), buf_bytes(&want));

    /* A conf change, with its type and data. */
    offset = wal_tail(rig->wal)->end;
    struct raft_entry e = {.term = 300, .index = 2, .type = 1, .data = blob_bytes(data)};
    wal_append(rig->wal, &(struct wal_save){.entries = &e, .entry_count = 1});
    wal_rig_settle(rig);
    buf_clear(&record);
    buf_clear(&want);
    buf_clear(&file);
    pb_encode(&raft_entry_schema,
              &(struct raft_entry){.type = 1, .term = 300, .index = 2, .data = e.data}, &record);
    crc = crc32c(crc, buf_bytes(&record));
    pb_encode_wal_record(&(struct pb_wal_record){.type = 2, .crc = crc, .data = buf_bytes(&record)},
                         &want);
    read_whole(rig, "0000000000000000-0000000000000000.wal", &file);
    CHECK_BYTES(bytes_of(file.at + offset + 8, want.len), buf_bytes(&want));

    /* A hard state. */
    offset = wal_tail(rig->wal)->end;
    struct raft_hard_state state = {.term = 300, .vote = UINT64_MAX, .commit = 2};
    wal_append(rig->wal, &(struct wal_save){.state = state});
    wal_rig_settle(rig);
    buf_clear(&record);
    buf_clear(&want);
    buf_clear(&file);
    pb_encode(&raft_hard_state_schema, &state, &record);
    crc = crc32c(crc, buf_bytes(&record));
    pb_encode_wal_record(&(struct pb_wal_record){.type = 3, .crc = crc, .data = buf_bytes(&record)},
                         &want);
    read_whole(rig, "0000000000000000-0000000000000000.wal", &file);
    CHECK_BYTES(bytes_of(file.at + offset + 8, want.len), buf_bytes(&want));

    buf_free(&record);
    buf_free(&want);
    buf_free(&file);
    blob_unref(data);
    wal_rig_end(rig);
}

TEST(what_was_appended_is_there_after_closing_and_opening)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 3, 100);
    wal_rig_entries(rig, 4, 2, 20000); /* shared, not copied */
    wal_rig_state(rig, 1, 7, 5);       /* waits for nobody: closing writes it */
    wal_rig_close(rig);

    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    CHECK_EQ(rig->last, 5);
    CHECK_EQ(rig->commit, 5);
    wal_rig_end(rig);
}

TEST(appends_that_arrive_during_a_sync_share_the_next_one)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 20);

    wal_rig_start(rig);
    uint64_t before = wal_status(rig->wal).syncs;
    for (uint64_t i = 1; i <= 100; i++)
        wal_rig_entries(rig, i, 1, 100);
    CHECK(wal_pending_bytes(rig->wal) > 100 * 100);
    wal_rig_settle(rig);

    CHECK_EQ(wal_status(rig->wal).syncs, before + 2); /* the first alone, then all the others */
    CHECK_EQ(wal_pending_bytes(rig->wal), 0);
    CHECK_EQ(rig->durable, rig->seq);
    wal_rig_end(rig);
}

TEST(a_commit_index_alone_is_not_worth_a_sync)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 1, 10);
    wal_rig_settle(rig);
    uint64_t before = wal_status(rig->wal).syncs, seq = rig->seq;

    wal_rig_state(rig, 1, 7, 1);
    CHECK(wal_is_idle(rig->wal));
    CHECK_EQ(rig->seq, seq);
    CHECK_EQ(wal_status(rig->wal).syncs, before);

    CHECK_EQ(wal_sync(rig->wal), seq + 1);
    wal_rig_settle(rig);
    CHECK_EQ(wal_durable(rig->wal), seq + 1);
    CHECK_EQ(wal_status(rig->wal).syncs, before + 1);
    wal_rig_state(rig, 2, 7, 1); /* a new term is */
    CHECK(!wal_is_idle(rig->wal));
    wal_rig_state(rig, 2, 8, 1); /* so is a vote */
    wal_rig_settle(rig);
    CHECK_EQ(wal_status(rig->wal).syncs, before + 3);
    wal_rig_end(rig);
}

TEST(a_full_segment_is_cut_and_the_next_is_named_after_the_next_entry)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);
    struct buf file = {0};

    wal_rig_start(rig);
    for (uint64_t i = 1; i <= 9; i++)
        wal_rig_entries(rig, i, 1, 1000);
    wal_rig_settle(rig);

    CHECK_EQ(wal_status(rig->wal).segment, 2);
    CHECK_EQ(wal_status(rig->wal).segment_count, 3);
    struct disk_stat st;
    CHECK_EQ(disk_stat(rig->disk, "/member/wal/0000000000000001-0000000000000005.wal", &st),
             ERR_OK);
    CHECK_EQ(disk_stat(rig->disk, "/member/wal/0000000000000002-0000000000000009.wal", &st),
             ERR_OK);
    CHECK_EQ(st.size, 4096);
    CHECK_EQ(st.mode, 0600);
    CHECK_EQ(disk_stat(rig->disk, "/member/wal/0.tmp", &st), ERR_OK); /* the next but one */
    read_whole(rig, "0000000000000000-0000000000000000.wal", &file);
    CHECK_EQ(file.len, rig->wal->segments[0]->end); /* no zeros left in a full one */
    buf_free(&file);
    wal_rig_close(rig);
    CHECK_EQ(disk_stat(rig->disk, "/member/wal/0.tmp", &st), ERR_NOT_FOUND);

    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    wal_rig_end(rig);
}

/* What gathers during a sync can fill a segment at once. It ends with its last record nevertheless:
 * the rest, here no multiple of 8, would be a part of a length to whoever reads it later. */
TEST(a_segment_that_one_write_fills_ends_with_its_last_record)
{
    enum { UNTIL = 40, EACH = 1000 };
    struct wal_rig *rig = wal_rig_new(test_seed(), 4213); /* four of them, and 5 bytes */
    unsigned shorter = 0;

    wal_rig_start(rig);
    for (uint64_t i = 1; i <= UNTIL; i++)
        wal_rig_entries(rig, i, 1, EACH);
    wal_rig_settle(rig);

    CHECK_STR(rig->failed, "");
    for (size_t i = 0; i + 1 < rig->wal->segment_count; i++) {
        const struct wal_segment *s = rig->wal->segments[i];
        struct buf file = {0};

        read_whole(rig, s->text, &file);
        CHECK_EQ(file.len, s->end);
        shorter += i > 0 && file.len < rig->opt.segment_bytes;
        buf_free(&file);
    }
    CHECK(shorter > 3);
    wal_rig_crash(rig, FAKE_POWER_CUT);
    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    CHECK_EQ(rig->last, UNTIL);
    wal_rig_end(rig);
}

TEST(a_log_that_is_open_cannot_be_opened_again_but_looked_at)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);
    struct wal_found found;
    struct wal *second;

    wal_rig_start(rig);
    CHECK_EQ(wal_open(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found, &second),
             ERR_BUSY);
    CHECK_EQ(wal_replay(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found), ERR_OK);
    CHECK(found.start_found);
    CHECK_EQ(found.state.vote, 7);
    wal_rig_end(rig);
}

/* A rehearsal is refused where opening would be, and writes nothing: not even over a torn end. */
TEST(a_rehearsal_finds_out_what_opening_would_and_changes_nothing)
{
    static const char *const name = "0000000000000000-0000000000000000.wal";
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);
    struct wal_found found;
    struct buf before = {0}, after = {0};
    wal_rig_start(rig);
    CHECK_EQ(wal_rehearse(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found), ERR_BUSY);
    CHECK_STR(found.fault.file, name);
    wal_rig_entries(rig, 1, 3, 100);
    wal_rig_close(rig);
    read_whole(rig, name, &before);
    before.at[before.len - 1] = 1; /* of a write whose first sector was lost */
    CHECK_EQ(disk_write_file(rig->disk, "/member/wal/0000000000000000-0000000000000000.wal", 0600,
                             buf_bytes(&before)),
             ERR_OK);

    fake_disk_fail(rig->world->disk,
                   (struct fake_fault){.kind = DISK_OPEN, .nth = 1, .err = ERR_DENIED});
    CHECK_EQ(wal_rehearse(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found), ERR_DENIED);
    CHECK_STR(found.fault.file, name);
    CHECK(found.fault.what == NULL);
    CHECK_EQ(wal_rehearse(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found), ERR_OK);
    CHECK(found.start_found);
    read_whole(rig, name, &after);
    CHECK_BYTES(buf_bytes(&after), buf_bytes(&before));

    buf_free(&before);
    buf_free(&after);
    wal_rig_free(rig);
}

TEST(entries_of_a_new_leader_replace_the_old_ones)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 5, 300);
    wal_rig_state(rig, 2, 0, 2);
    wal_rig_entries(rig, 3, 1, 10);
    wal_rig_close(rig);

    CHECK_EQ(wal_rig_open(rig, true), ERR_OK); /* the model knows what to expect */
    CHECK_EQ(rig->last, 3);
    CHECK_EQ(rig->terms[3], 2);
    wal_rig_end(rig);
}

TEST(only_snapshots_that_are_committed_can_be_opened_at)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);
    struct arena arena = {0};
    struct wal_snapshots all;

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 10, 100);
    wal_rig_state(rig, 1, 7, 6);
    wal_rig_snapshot(rig, 4);
    wal_rig_snapshot(rig, 6);
    wal_rig_snapshot(rig, 8); /* its commit index was lost */
    wal_rig_settle(rig);

    CHECK_EQ(wal_snapshots(rig->disk, &rig->opt, &arena, &all), ERR_OK);
    CHECK_EQ(all.count, 3);
    CHECK_EQ(all.at[0].index, 0);
    CHECK_EQ(all.at[1].index, 4);
    CHECK_EQ(all.at[2].index, 6);
    CHECK_EQ(all.at[2].term, 1);
    CHECK_EQ(all.at[2].conf_state.voters.count, 1);
    CHECK(all.at[2].conf_state.voters.at[0] == 0x8e9e05c52164694d);
    arena_free(&arena);
    wal_rig_close(rig);
    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    CHECK_EQ(rig->last, 10);
    wal_rig_end(rig);
}

/*
 * The power goes between the record of a leader's snapshot and its commit index, so that the image
 * is given up. Then another leader has the entries after all, and commits them: with that the
 * commit index is above the snapshot that never was.
 */
TEST(a_snapshot_whose_installation_was_cut_short_does_not_count_once_the_log_has_gone_on)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 16);
    struct raft_snapshot leaders = {.index = 30, .term = 1};
    struct arena arena = {0};
    struct wal_snapshots all;
    struct wal_found found;

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 10, 20);
    wal_rig_state(rig, 1, 7, 10);
    wal_append(rig->wal, &(struct wal_save){.installed = &leaders}); /* and no hard state */
    wal_rig_settle(rig);
    wal_close(rig->wal);
    CHECK_EQ(wal_snapshots(rig->disk, &rig->opt, &arena, &all), ERR_OK);
    CHECK_EQ(all.count, 1);
    CHECK_EQ(wal_open(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found, &rig->wal),
             ERR_OK);
    CHECK_EQ(found.last_index, 10);
    rig->seq = rig->durable = 0;
    wal_rig_entries(rig, 11, 30, 20);
    wal_rig_state(rig, 2, 7, 40);
    wal_rig_settle(rig);

    CHECK_EQ(wal_snapshots(rig->disk, &rig->opt, &arena, &all), ERR_OK);
    CHECK_EQ(all.count, 1);
    CHECK_EQ(all.at[0].index, 0);
    arena_free(&arena);
    wal_close(rig->wal);
    wal_rig_free(rig);
}

/* A follower far behind gets a snapshot; what its log had beyond it was another leader's. */
TEST(a_leaders_snapshot_takes_the_place_of_the_log)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 16);

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 30, 20);
    wal_rig_install(rig, 20, 3, 0);
    wal_rig_close(rig);

    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    CHECK_EQ(rig->last, 20); /* and not 30 */
    wal_rig_install(rig, 50, 4, 2);
    wal_rig_close(rig);
    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    CHECK_EQ(rig->last, 52);
    wal_rig_end(rig);
}

/* Entries that follow the snapshot close the gap, here: from the beginning the log looks whole. */
TEST(a_log_read_from_before_a_leaders_snapshot_says_that_it_was_replaced)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 16);
    struct wal_found found;

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 30, 20);
    wal_rig_state(rig, 2, 0, 12);
    wal_rig_snapshot(rig, 10);
    wal_rig_settle(rig);
    CHECK_EQ(wal_replay(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found), ERR_OK);
    CHECK(!found.replaced); /* by one that was made of it */
    wal_rig_install(rig, 20, 3, 2);
    wal_rig_settle(rig);

    CHECK_EQ(wal_replay(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found), ERR_OK);
    CHECK(found.replaced);
    CHECK_EQ(wal_replay(rig->disk, &rig->opt, (struct wal_place){20, 3}, NULL, &found), ERR_OK);
    CHECK(!found.replaced);
    wal_rig_end(rig);
}

/* The snapshot's commit index comes before the entries, which otherwise would follow on nothing. */
TEST(a_leaders_snapshot_and_its_entries_can_be_torn_anywhere)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 16);
    struct disk_file *f;

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 3, 20);
    wal_rig_settle(rig);
    uint64_t before = wal_tail(rig->wal)->end;
    wal_rig_install(rig, 20, 3, 2);
    uint64_t after = wal_tail(rig->wal)->end;
    wal_rig_close(rig);
    CHECK_EQ(disk_open(rig->disk, "/member/wal/0000000000000000-0000000000000000.wal", 0, 0, &f),
             ERR_OK);
    for (uint64_t end_at = after; end_at >= before; end_at--) {
        struct replayed o;
        struct wal_found found;

        CHECK_EQ(disk_truncate(rig->disk, f, end_at), ERR_OK);
        CHECK_EQ(replayed_of_disk(rig, &o, &found), ERR_OK);
        CHECK(o.start.index == 20 || o.count == 3);
        replayed_free(&o);
    }
    CHECK_EQ(disk_close(rig->disk, f), ERR_OK);
    wal_rig_free(rig);
}

TEST(released_segments_can_be_purged_and_others_cannot)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);

    wal_rig_start(rig);
    for (uint64_t i = 1; i <= 40; i++)
        wal_rig_entries(rig, i, 1, 1000);
    wal_rig_state(rig, 1, 7, 30);
    wal_rig_snapshot(rig, 30);
    wal_rig_settle(rig);
    size_t before = count_segments(rig);
    CHECK(before >= 10);

    wal_purge(rig->wal, 2);
    wal_rig_settle(rig);
    CHECK_EQ(count_segments(rig), before); /* all of them are ours */

    wal_release(rig->wal, 30);
    wal_purge(rig->wal, 2);
    wal_rig_settle(rig);
    size_t held = (size_t)wal_status(rig->wal).segment_count;
    CHECK(held < before);
    CHECK_EQ(count_segments(rig), held);
    CHECK(rig->wal->segments[0]->name.index <= 30);
    CHECK(rig->wal->segments[1]->name.index >= 30);

    wal_rig_close(rig);
    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    CHECK_EQ(rig->last, 40);
    struct wal_found found;
    CHECK_EQ(wal_replay(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found), ERR_NOT_FOUND);
    wal_rig_end(rig);
}

TEST(a_missing_segment_is_noticed)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);
    struct wal_found found;

    wal_rig_start(rig);
    for (uint64_t i = 1; i <= 12; i++)
        wal_rig_entries(rig, i, 1, 1000);
    wal_rig_close(rig);
    CHECK_EQ(disk_remove(rig->disk, "/member/wal/0000000000000001-0000000000000005.wal"), ERR_OK);
    CHECK_EQ(wal_replay(rig->disk, &rig->opt, (struct wal_place){0}, NULL, &found), ERR_CORRUPT);
    wal_rig_free(rig);
}

/* --- reading back --- */

struct reading {
    struct wal_read read;
    enum err err;
    unsigned done;
    size_t count;
    struct wal_rig *rig;
};

static void on_read_done(struct wal_read *r)
{
    struct reading *reading = r->context;

    reading->done++;
    reading->err = r->err;
    reading->count = r->count;
    for (size_t i = 0; i < r->count; i++) {
        const struct raft_entry *e = &r->entries[i];
        CHECK_EQ(e->index, r->low + i);
        CHECK_EQ(e->term, reading->rig->terms[e->index]);
        struct blob *want = wal_rig_data(e->index, e->term, e->data.len);
        CHECK_BYTES(e->data, blob_bytes(want));
        CHECK(e->data.len == 0 || (e->blob && e->data.at >= blob_bytes(e->blob).at));
        blob_unref(want);
    }
}

static enum err read_back(struct wal_rig *rig, uint64_t low, uint64_t high, size_t max_bytes,
                          struct reading *out)
{
    *out = (struct reading){.rig = rig};
    out->read = (struct wal_read){
        .low = low, .high = high, .max_bytes = max_bytes, .on_done = on_read_done, .context = out};
    enum err e = wal_read(rig->wal, &out->read);
    if (e != ERR_OK)
        return e;
    wal_rig_settle(rig);
    CHECK_EQ(out->done, 1);
    return out->err;
}

TEST(old_entries_can_be_read_back_within_bounds)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 100000);
    struct reading r;

    wal_rig_start(rig);
    for (uint64_t i = 1; i <= 1000; i += 10)
        wal_rig_entries(rig, i, 10, i % 3 ? 300 : 20000);
    wal_rig_settle(rig);
    CHECK(wal_status(rig->wal).segment > 3);
    CHECK(wal_status(rig->wal).index_marks > 20);

    CHECK_EQ(read_back(rig, 1, 1001, SIZE_MAX, &r), ERR_OK);
    CHECK_EQ(r.count, 1000);
    CHECK_EQ(read_back(rig, 500, 1001, 0, &r), ERR_OK);
    CHECK_EQ(r.count, 1); /* one in any case */
    CHECK_EQ(read_back(rig, 999, 2000, 1 << 20, &r), ERR_OK);
    CHECK_EQ(r.count, 2);
    CHECK_EQ(read_back(rig, 1001, 1002, 1 << 20, &r), ERR_NOT_FOUND);
    for (uint64_t low = 1; low < 1000; low += 37) {
        CHECK_EQ(read_back(rig, low, low + 50, 100000, &r), ERR_OK);
        CHECK(r.count >= 1);
        CHECK(r.count <= 50);
    }

    /* The index is rebuilt by replay. */
    wal_rig_close(rig);
    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    CHECK_EQ(read_back(rig, 1, 1001, SIZE_MAX, &r), ERR_OK);
    CHECK_EQ(r.count, 1000);
    wal_rig_end(rig);
}

TEST(entries_that_were_replaced_are_never_read_back)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 50000);
    struct reading r;

    wal_rig_start(rig);
    for (int round = 0; round < 200; round++) {
        uint64_t from = rng_between(&rig->rng, rig->commit + 1, rig->last + 1);
        size_t count = rng_between(&rig->rng, 1, 30);
        wal_rig_state(rig, rig->term + 1, 0, rig->commit);
        wal_rig_entries(rig, from, count, rng_below(&rig->rng, 500));
        wal_rig_settle(rig);
        /* on_read_done compares terms with the model's. */
        CHECK_EQ(read_back(rig, 1, rig->last + 1, SIZE_MAX, &r), ERR_OK);
        CHECK_EQ(r.count, rig->last);
        if (round % 50 == 49) {
            wal_rig_close(rig);
            CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
        }
    }
    wal_rig_end(rig);
}

TEST(entries_replaced_during_a_read_are_left_out_of_it)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 20);
    struct reading r = {.rig = rig};

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 10, 100);
    wal_rig_settle(rig);
    r.read = (struct wal_read){
        .low = 1, .high = 11, .max_bytes = SIZE_MAX, .on_done = on_read_done, .context = &r};
    CHECK_EQ(wal_read(rig->wal, &r.read), ERR_OK);
    wal_rig_state(rig, 2, 0, 0);
    wal_rig_entries(rig, 6, 1, 100);
    wal_rig_settle(rig);
    CHECK_EQ(r.done, 1);
    CHECK_EQ(r.err, ERR_OK);
    CHECK_EQ(r.count, 5);

    r.done = 0;
    r.read.low = 4;
    r.read.high = 7;
    CHECK_EQ(wal_read(rig->wal, &r.read), ERR_OK);
    wal_rig_install(rig, 40, 3, 0);
    wal_rig_settle(rig);
    CHECK_EQ(r.done, 1);
    CHECK_EQ(r.err, ERR_NOT_FOUND);
    wal_rig_end(rig);
}

/* A read goes mark by mark; what it has already collected may be replaced before it is through. */
TEST(entries_replaced_between_the_steps_of_a_read_are_left_out_too)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 20);
    struct reading r = {.rig = rig};

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 300, 1000);
    wal_rig_settle(rig);
    r.read = (struct wal_read){
        .low = 1, .high = 301, .max_bytes = SIZE_MAX, .on_done = on_read_done, .context = &r};
    CHECK_EQ(wal_read(rig->wal, &r.read), ERR_OK);
    while (r.read.found.len == 0)
        CHECK(fake_world_step(rig->world));
    CHECK_EQ(r.done, 0);
    wal_rig_state(rig, 2, 0, 0);
    wal_rig_entries(rig, 10, 1, 100);
    wal_rig_settle(rig);
    CHECK_EQ(r.done, 1);
    CHECK_EQ(r.err, ERR_OK);
    CHECK_EQ(r.count, 9);
    wal_rig_end(rig);
}

TEST(a_segment_that_is_being_read_is_closed_afterwards)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);
    struct reading r = {.rig = rig};

    wal_rig_start(rig);
    for (uint64_t i = 1; i <= 20; i++)
        wal_rig_entries(rig, i, 1, 1000);
    wal_rig_state(rig, 1, 7, 20);
    wal_rig_snapshot(rig, 20);
    wal_rig_settle(rig);
    r.read = (struct wal_read){
        .low = 1, .high = 21, .max_bytes = SIZE_MAX, .on_done = on_read_done, .context = &r};
    CHECK_EQ(wal_read(rig->wal, &r.read), ERR_OK);
    wal_release(rig->wal, 20);
    wal_rig_settle(rig);
    CHECK_EQ(r.done, 1);
    CHECK(r.err == ERR_NOT_FOUND || r.count < 20);
    wal_rig_end(rig);
}

TEST(damage_found_while_reading_back_is_an_error_and_not_an_entry)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 1 << 20);
    struct disk_file *f;
    struct reading r;

    wal_rig_start(rig);
    wal_rig_entries(rig, 1, 10, 100);
    wal_rig_settle(rig);
    CHECK_EQ(disk_open(rig->disk, "/member/wal/0000000000000000-0000000000000000.wal", 0, 0, &f),
             ERR_OK);
    CHECK_EQ(disk_write(rig->disk, f, 700, BYTES("x")), ERR_OK);
    CHECK_EQ(disk_close(rig->disk, f), ERR_OK);
    CHECK_EQ(read_back(rig, 1, 11, SIZE_MAX, &r), ERR_CORRUPT);
    CHECK_EQ(r.count, 0);
    wal_rig_end(rig);
}

/* --- many segments --- */

/* A log that cannot be shortened for long, as while a follower lags, has hundreds of segments. */
TEST(a_log_of_many_segments_has_few_of_them_open)
{
    enum { SEGMENTS = 60, OPEN_MAX = WAL_SEGMENTS_OPEN_MAX + 3 }; /* the folder, next, a reader */
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);
    struct reading r;
    rig->world->fds.max = OPEN_MAX;

    wal_rig_start(rig);
    while (wal_status(rig->wal).segment < SEGMENTS) {
        wal_rig_write_over(rig, 1);
        wal_rig_settle(rig);
    }
    CHECK_STR(rig->failed, "");
    CHECK_EQ(wal_status(rig->wal).segment_count, SEGMENTS + 1);
    CHECK_EQ(read_back(rig, 1, rig->last + 1, SIZE_MAX, &r), ERR_OK);
    CHECK_EQ(r.count, rig->last);

    wal_rig_close(rig);
    CHECK_EQ(rig->world->fds.open, 0);
    CHECK_EQ(wal_rig_open(rig, true), ERR_OK);
    CHECK_EQ(wal_status(rig->wal).segment_count, SEGMENTS + 1);
    CHECK_EQ(read_back(rig, 1, rig->last + 1, SIZE_MAX, &r), ERR_OK);
    CHECK_EQ(r.count, rig->last);
    wal_purge(rig->wal, 2);
    wal_rig_settle(rig);
    CHECK_EQ(count_segments(rig), SEGMENTS + 1); /* none was released, open or not */
    wal_rig_end(rig);
}

/* Nobody has it open but the read, and nobody else may take its file away. */
TEST(an_old_segment_that_is_being_read_is_not_purged)
{
    struct wal_rig *rig = wal_rig_new(test_seed(), 4096);
    struct reading r = {.rig = rig};
    wal_rig_start(rig);
    for (unsigned i = 0; i < 20; i++)
        wal_rig_write_over(rig, 1);
    wal_rig_state(rig, 1, 7, rig->last);
    wal_rig_snapshot(rig, rig->last);
    wal_rig_settle(rig);
    size_t before = count_segments(rig);

    r.read = (struct wal_read){
        .low = 1, .high = 3, .max_bytes = SIZE_MAX, .on_done = on_read_done, .context = &r};
    CHECK_EQ(wal_read(rig->wal, &r.read), ERR_OK);
    wal_release(rig->wal, rig->last);
    wal_purge(rig->wal, 2);
    wal_rig_settle(rig);
    CHECK_EQ(r.done, 1);
    CHECK(r.err == ERR_OK || r.err == ERR_NOT_FOUND); /* it was given up meanwhile */
    CHECK_EQ(count_segments(rig), before);
    wal_purge(rig->wal, 2);
    wal_rig_settle(rig);

    CHECK_EQ(count_segments(rig), 2);
    wal_rig_end(rig);
}

/* --- in the real world --- */

struct real_run {
    struct wal *wal;
    struct loop *loop;
    struct inbox *inbox;
};

static void turn(void *context)
{
    inbox_drain(((struct real_run *)context)->inbox, 1000);
}

static void settle_real(struct real_run *run)
{
    while (!wal_is_idle(run->wal))
        loop_run_once(run->loop, turn, run);
}

TEST(it_works_on_a_real_disk_with_locks_and_permissions)
{
    struct real_run run = {0};
    char dir[256], path[512];
    struct logger logger = {.level = LOG_FATAL};
    struct wal_found found;
    struct wal *second;
    struct stat st;

    CHECK_EQ(loop_open(&(struct loop_options){0}, &run.loop), ERR_OK);
    const struct io *io = loop_io(run.loop);
    run.inbox = io->inbox;
    snprintf(dir, sizeof(dir), "%s/member/wal", test_tmp_dir());
    struct wal_options opt = {.dir = dir, .logger = &logger};
    CHECK_EQ(wal_create(io->disk, &opt, &(struct pb_wal_metadata){1, 2}, &run.wal), ERR_OK);
    CHECK_EQ(wal_open(io->disk, &opt, (struct wal_place){0}, NULL, &found, &second), ERR_BUSY);

    struct blob *data = wal_rig_data(1, 1, 70000);
    for (uint64_t i = 1; i <= 1000; i++) { /* a little more than one segment */
        struct raft_entry e = {.term = 1, .index = i, .data = blob_bytes(data), .blob = data};
        struct wal_save save = {.entries = &e, .entry_count = 1, .state = {1, 1, i - 1}};
        while (wal_pending_bytes(run.wal) >= WAL_PENDING_BYTES_MAX)
            loop_run_once(run.loop, turn, &run);
        wal_append(run.wal, &save);
    }
    settle_real(&run);
    CHECK_EQ(wal_status(run.wal).segment, 1);
    CHECK_EQ(blob_ref_count(data), 1);
    wal_close(run.wal);
    blob_unref(data);

    snprintf(path, sizeof(path), "%s/0000000000000000-0000000000000000.wal", dir);
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
    CHECK(st.st_size >= 60000000);
    CHECK_EQ(stat(dir, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0700);
    CHECK_EQ(wal_open(io->disk, &opt, (struct wal_place){0}, NULL, &found, &run.wal), ERR_OK);
    CHECK_EQ(found.last_index, 1000);
    CHECK_EQ(found.metadata.node_id, 1);
    CHECK_EQ(found.metadata.cluster_id, 2);
    settle_real(&run);
    wal_close(run.wal);
    loop_close(run.loop);
}
