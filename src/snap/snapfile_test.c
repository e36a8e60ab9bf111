#include "snap/snapfile.h"

#include "base/crc32c.h"
#include "harness/test.h"
#include "io/fake_world.h"
#include "snap/bolt_rig_test.h"

#include <stdio.h>

/* A snapshot at this place. */
static struct raft_snapshot snapshot_at(uint64_t term, uint64_t index)
{
    return (struct raft_snapshot){
        .term = term,
        .index = index,
        .conf_state = {.voters = {2, {1, 2}}, .learners = {1, {3}}},
        .data = BYTES("{\"the\":\"dump\"}"),
    };
}

/* ---- Names and content ---- */

TEST(names_have_the_term_first)
{
    char name[SNAPFILE_NAME_BYTES];
    uint64_t term, index;

    snapfile_name(2, 0xabcdef, name);

    CHECK_STR(name, "0000000000000002-0000000000abcdef.snap");
    CHECK(snapfile_parse_name(name, &term, &index));
    CHECK_EQ(term, 2);
    CHECK_EQ(index, 0xabcdef);
}

TEST(names_that_are_not_ours_are_not_parsed)
{
    const char *const names[] = {"",
                                 "db",
                                 "0000000000000002-0000000000abcdef.snap.broken",
                                 "0000000000000002-0000000000abcdef.wal",
                                 "0000000000000002_0000000000abcdef.snap",
                                 "0000000000000002-0000000000ABCDEF.snap",
                                 "000000000000000g-0000000000abcdef.snap",
                                 "0000000000abcdef.snap.db"};
    uint64_t term, index;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        CHECK(!snapfile_parse_name(names[i], &term, &index));
}

TEST(what_is_encoded_is_decoded)
{
    struct arena arena = {0};
    struct buf file = {0};
    struct raft_snapshot in = snapshot_at(5, 77), out;
    const char *why;

    snapfile_encode(&in, &file);

    CHECK_EQ(snapfile_decode(buf_bytes(&file), &arena, &out, &why), ERR_OK);
    CHECK_EQ(out.term, 5);
    CHECK_EQ(out.index, 77);
    CHECK_EQ(out.conf_state.voters.count, 2);
    CHECK_EQ(out.conf_state.learners.at[0], 3);
    CHECK_BYTES(out.data, in.data);
    arena_free(&arena);
    buf_free(&file);
}

/* Every bit in turn: refused, or nothing has changed (an unknown field's number, for instance). */
TEST(no_flipped_bit_changes_what_a_snapfile_says)
{
    struct arena arena = {0};
    struct buf file = {0};
    struct raft_snapshot in = snapshot_at(5, 77), out;
    const char *why;
    snapfile_encode(&in, &file);
    unsigned refused = 0;

    for (size_t bit = 0; bit < file.len * 8; bit++) {
        file.at[bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum err e = snapfile_decode(buf_bytes(&file), &arena, &out, &why);
        refused += e != ERR_OK;
        if (e == ERR_OK) {
            CHECK_BYTES(out.data, in.data);
            CHECK_EQ(out.index, 77);
            CHECK_EQ(out.term, 5);
        } else {
            CHECK_EQ(e, ERR_CORRUPT);
            CHECK(why != NULL);
        }
        file.at[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }

    printf("%u of %zu flips refused\n", refused, file.len * 8);
    CHECK(refused >= file.len * 8 - 8);
    arena_free(&arena);
    buf_free(&file);
}

TEST(snapfiles_without_substance_are_refused)
{
    struct arena arena = {0};
    struct raft_snapshot out;
    const char *why;

    CHECK_EQ(snapfile_decode(BYTES(""), &arena, &out, &why), ERR_CORRUPT);
    CHECK_STR(why, "the file is empty");
    CHECK_EQ(snapfile_decode(BYTES("\x08\x00\x12\x01x"), &arena, &out, &why), ERR_CORRUPT);
    CHECK_STR(why, "no checksum or no data");
    CHECK_EQ(snapfile_decode(BYTES("\x08\x01"), &arena, &out, &why), ERR_CORRUPT);
    CHECK_STR(why, "no checksum or no data");
    CHECK_EQ(snapfile_decode(BYTES("\x08\x01\x12\x7f"), &arena, &out, &why), ERR_CORRUPT);
    CHECK_STR(why, "not a snappb.snapshot");
    struct buf file = {0};
    pb_encode_snap_file(
        &(struct pb_snap_file){.crc = crc32c(0, BYTES("\x0a\x01x")), .data = BYTES("\x0a\x01x")},
        &file);
    CHECK_EQ(snapfile_decode(buf_bytes(&file), &arena, &out, &why), ERR_CORRUPT);
    CHECK_STR(why, "no metadata");
    arena_free(&arena);
    buf_free(&file);
}

/*
 * A crc of 0 means "none" to every reader. CRCs are linear: with enough bytes to choose from, some
 * set of flipped bits brings any content's crc to 0, and elimination finds it.
 */
static void force_zero_crc(const struct raft_snapshot *snapshot, uint8_t *dump, size_t len)
{
    struct buf data = {0};
    uint32_t base, rows[32] = {0}, flips[32] = {0};

    raft_snapshot_encode(snapshot, &data);
    base = crc32c(0, buf_bytes(&data));
    for (unsigned bit = 0; bit < 32; bit++) {
        CHECK(bit / 8 < len);
        dump[bit / 8] ^= (uint8_t)(1u << bit % 8);
        buf_clear(&data);
        raft_snapshot_encode(snapshot, &data);
        dump[bit / 8] ^= (uint8_t)(1u << bit % 8);
        uint32_t row = crc32c(0, buf_bytes(&data)) ^ base, flip = 1u << bit;
        for (unsigned k = 0; k < 32 && row; k++)
            if (row >> k & 1) {
                if (!rows[k]) {
                    rows[k] = row;
                    flips[k] = flip;
                    break;
                }
                row ^= rows[k];
                flip ^= flips[k];
            }
    }
    uint32_t chosen = 0;
    for (unsigned k = 0; k < 32; k++)
        if (base >> k & 1) {
            base ^= rows[k];
            chosen ^= flips[k];
        }
    for (unsigned bit = 0; bit < 32; bit++)
        if (chosen >> bit & 1)
            dump[bit / 8] ^= (uint8_t)(1u << bit % 8);
    buf_free(&data);
}

TEST(content_whose_checksum_would_be_zero_is_written_all_the_same)
{
    uint8_t dump[16] = "some dump bytes";
    struct arena arena = {0};
    struct buf raw = {0}, file = {0};
    struct raft_snapshot in = snapshot_at(5, 77), out;
    const char *why;
    in.data = bytes_of(dump, sizeof(dump));
    force_zero_crc(&in, dump, sizeof(dump));
    raft_snapshot_encode(&in, &raw);
    CHECK_EQ(crc32c(0, buf_bytes(&raw)), 0);

    snapfile_encode(&in, &file);

    CHECK_EQ(snapfile_decode(buf_bytes(&file), &arena, &out, &why), ERR_OK);
    CHECK_BYTES(out.data, in.data);
    CHECK_EQ(out.index, 77);
    arena_free(&arena);
    buf_free(&raw);
    buf_free(&file);
}

/* ---- Files ---- */

struct scene {
    struct fake_world *world;
    struct disk *disk;
    struct arena arena;
    struct buf lines; /* of the log */
    struct logger logger;
};

static void keep_line(void *context, struct bytes line)
{
    buf_append(context, line);
}

static void scene_begin(struct scene *d)
{
    *d = (struct scene){.world = fake_world_new(test_seed())};
    d->disk = fake_world_io(d->world)->disk;
    d->logger = (struct logger){
        .level = LOG_INFO, .sink = keep_line, .sink_context = &d->lines, .clock = log_clock_none};
    CHECK_EQ(disk_make_dir(d->disk, "snap", 0700, 0), ERR_OK);
    CHECK_EQ(disk_sync_dir(d->disk, "."), ERR_OK);
}

static void scene_end(struct scene *d)
{
    fake_world_free(d->world);
    arena_free(&d->arena);
    buf_free(&d->lines);
}

static void save(struct scene *d, uint64_t term, uint64_t index)
{
    struct raft_snapshot s = snapshot_at(term, index);

    CHECK_EQ(snapfile_save(d->disk, "snap", &s), ERR_OK);
}

/* The index of the newest one; 0 when there is none. */
static uint64_t load(struct scene *d, snapfile_wanted *wanted, void *context)
{
    struct buf file = {0};
    struct raft_snapshot out = {0};
    struct snapfile_search search = {
        .dir = "snap", .logger = &d->logger, .wanted = wanted, .context = context};

    enum err e = snapfile_load_newest(d->disk, &search, &d->arena, &file, &out);
    CHECK(e == ERR_OK || e == ERR_NOT_FOUND);
    uint64_t index = e == ERR_OK ? out.index : 0;
    buf_free(&file);
    return index;
}

static bool exists(struct scene *d, const char *path)
{
    struct disk_stat stat;

    return disk_stat(d->disk, path, &stat) == ERR_OK;
}

static bool is_below(void *context, uint64_t term, uint64_t index)
{
    (void)term;
    return index < *(const uint64_t *)context;
}

TEST(the_newest_wanted_snapfile_is_loaded)
{
    struct scene d;
    scene_begin(&d);
    CHECK_EQ(load(&d, NULL, NULL), 0);
    save(&d, 1, 100);
    save(&d, 2, 300);
    save(&d, 2, 200);
    CHECK_EQ(disk_write_file(d.disk, "snap/db", 0600, BYTES("not ours")), ERR_OK);
    CHECK_EQ(disk_write_file(d.disk, "snap/00000000000001f4.snap.db", 0600, BYTES("")), ERR_OK);

    CHECK_EQ(load(&d, NULL, NULL), 300);
    uint64_t limit = 300;
    CHECK_EQ(load(&d, is_below, &limit), 200);
    limit = 100;
    CHECK_EQ(load(&d, is_below, &limit), 0);

    CHECK_EQ(d.lines.len, 0);
    scene_end(&d);
}

TEST(broken_snapfiles_are_set_aside_and_the_one_before_is_loaded)
{
    struct scene d;
    scene_begin(&d);
    save(&d, 1, 100);
    const char *const broken[] = {"snap/0000000000000001-0000000000000065.snap",
                                  "snap/0000000000000001-0000000000000066.snap", "snap/zzz.snap"};
    struct buf good = {0};
    CHECK_EQ(disk_read_file(d.disk, "snap/0000000000000001-0000000000000064.snap", MIB, &good),
             ERR_OK);
    CHECK_EQ(disk_write_file(d.disk, broken[0], 0600, BYTES("")), ERR_OK);
    CHECK_EQ(disk_write_file(d.disk, broken[1], 0600, buf_bytes(&good)), ERR_OK);
    CHECK_EQ(disk_write_file(d.disk, broken[2], 0600, bytes_of(good.at, good.len - 1)), ERR_OK);

    CHECK_EQ(load(&d, NULL, NULL), 100);

    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        CHECK(!exists(&d, broken[i]));
        CHECK(exists(&d, arena_printf(&d.arena, "%s.broken", broken[i])));
        CHECK(strstr(buf_str(&d.lines), broken[i]) != NULL);
    }
    CHECK(strstr(buf_str(&d.lines), "its name is not the term and index inside") != NULL);
    buf_free(&good);
    scene_end(&d);
}

TEST(a_saved_snapfile_survives_a_power_cut)
{
    struct scene d;
    scene_begin(&d);
    save(&d, 3, 30);

    fake_disk_crash(d.world->disk, FAKE_POWER_CUT);

    CHECK_EQ(load(&d, NULL, NULL), 30);
    CHECK_EQ(d.lines.len, 0);
    scene_end(&d);
}

/* Every disk call of a save fails in turn: an error with the old state intact, or the end of the
 * process when it was a sync. */
TEST(a_save_that_fails_leaves_the_older_one)
{
    unsigned fatal_ones = 0, errors = 0;

    for (uint64_t nth = 1;; nth++) {
        struct scene d;
        scene_begin(&d);
        save(&d, 1, 100);
        struct raft_snapshot s = snapshot_at(1, 200);
        uint64_t before = fake_disk_calls(d.world->disk);
        CHECK_EQ(snapfile_save(d.disk, "snap", &s), ERR_OK);
        uint64_t calls = fake_disk_calls(d.world->disk) - before;
        CHECK_EQ(disk_remove(d.disk, "snap/0000000000000001-00000000000000c8.snap"), ERR_OK);
        if (nth > calls) {
            scene_end(&d);
            break;
        }

        fake_disk_fail(d.world->disk, (struct fake_fault){.nth = nth, .err = ERR_NO_SPACE});
        /* open the directory, open, write, sync, close, sync of the directory, close it */
        if (nth == 4 || nth == 6) {
            CHECK_EQ(snapfile_save(d.disk, "snap", &s), ERR_SYNC);
            fatal_ones++;
        } else if (nth == 7) {
            CHECK_EQ(snapfile_save(d.disk, "snap", &s), ERR_OK);
            CHECK_EQ(load(&d, NULL, NULL), 200);
        } else {
            CHECK_EQ(snapfile_save(d.disk, "snap", &s), ERR_NO_SPACE);
            CHECK_EQ(load(&d, NULL, NULL), 100);
            errors++;
        }
        fake_disk_fail(d.world->disk, (struct fake_fault){0});
        scene_end(&d);
    }

    CHECK_EQ(fatal_ones, 2);
    CHECK_EQ(errors, 4);
}

/* The directory cannot be synced without one; the file must not be there by then. */
TEST(a_save_without_file_descriptors_is_an_error_that_leaves_the_older_one)
{
    for (unsigned left = 0; left < 2; left++) {
        struct scene d;
        scene_begin(&d);
        save(&d, 1, 100);
        struct raft_snapshot s = snapshot_at(1, 200);

        d.world->fds = (struct fake_fds){.open = 3, .max = 3 + left};
        CHECK_EQ(snapfile_save(d.disk, "snap", &s), ERR_NO_FILES);
        d.world->fds.max = 0;

        CHECK_EQ(load(&d, NULL, NULL), 100);
        CHECK_EQ(snapfile_save(d.disk, "snap", &s), ERR_OK);
        CHECK_EQ(load(&d, NULL, NULL), 200);
        scene_end(&d);
    }
}

/* A file that cannot be read may be a good one: the search must not go past it, nor rename it. */
TEST(a_snapfile_that_cannot_be_read_is_not_set_aside)
{
    struct scene d;
    struct buf file = {0};
    struct raft_snapshot out;
    scene_begin(&d);
    save(&d, 1, 100);
    save(&d, 1, 200);
    struct snapfile_search search = {.dir = "snap", .logger = &d.logger};

    fake_disk_fail(d.world->disk,
                   (struct fake_fault){.kind = DISK_READ_FILE, .nth = 1, .err = ERR_IO});

    CHECK_EQ(snapfile_load_newest(d.disk, &search, &d.arena, &file, &out), ERR_IO);
    CHECK_EQ(load(&d, NULL, NULL), 200);
    buf_free(&file);
    scene_end(&d);
}

/* ---- The dump ---- */

/* The expected dump is kept in a form that people can read; no text in it has white space. */
static void load_expected(const char *path, struct buf *out)
{
    struct buf pretty = {0};

    rig_read_file(path, &pretty);
    for (size_t i = 0; i < pretty.len; i++)
        if (pretty.at[i] > ' ')
            buf_append_byte(out, pretty.at[i]);
    buf_free(&pretty);
}

TEST(the_dump_is_the_v2_stores)
{
    struct bytes peers[] = {BYTES("http://h:2380"), BYTES("https://h:2381")};
    struct bytes clients[] = {BYTES("http://h:2379")};
    struct pb_member members[] = {
        {.id = 0xb, .peer_urls = {peers, 2}, .is_learner = true},
        {.id = 0xa1, .name = BYTES("n"), .peer_urls = {peers, 1}, .client_urls = {clients, 1}}};
    uint64_t removed[] = {0x20, 0x1f};
    struct buf out = {0};

    snapfile_dump(&(struct snapfile_membership){.members = members,
                                                .member_count = 2,
                                                .removed = removed,
                                                .removed_count = 2,
                                                .cluster_version = BYTES("3.7.0")},
                  &out);

    struct buf want = {0};
    load_expected("src/snap/testdata/dump.json", &want);
    CHECK_STR(buf_str(&out), buf_str(&want));
    buf_free(&want);
    buf_free(&out);
}

/* As Go escapes, twice: once for the value and once for the text around it. */
TEST(the_dump_escapes_what_go_escapes)
{
    struct pb_member member = {
        .id = 1, .name = BYTES("\"\\\b\f\n\r\t\x01<>&\xe2\x80\xa8\xe2\x80\xa9\xff\xc3\xa4\x7f")};
    struct buf out = {0};

    snapfile_dump(&(struct snapfile_membership){.members = &member, .member_count = 1}, &out);

    const char *want = "\"Value\":\"{\\\"name\\\":\\\"\\\\\\\"\\\\\\\\\\\\b\\\\f\\\\n\\\\r\\\\t"
                       "\\\\u0001\\\\u003c\\\\u003e\\\\u0026\\\\u2028\\\\u2029\\\\ufffd\xc3\xa4\x7f"
                       "\\\"}\"";
    CHECK(strstr(buf_str(&out), want) != NULL);
    buf_free(&out);
}
