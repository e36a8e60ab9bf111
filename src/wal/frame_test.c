#include "wal/wal_rig_test.h"

#include "base/crc32c.h"

#include <endian.h>
#include <stdio.h>

/* A log that etcd 3.7.1 wrote: one member, twelve puts, a snapshot every five entries. */
#define ETCDS_LOG "src/wal/testdata/etcd-3.7.1.wal"

static void read_etcds(struct buf *out)
{
    FILE *f = fopen(ETCDS_LOG, "rb");

    CHECK(f);
    out->len += fread(buf_reserve(out, 4096), 1, 4096, f);
    fclose(f);
    CHECK_EQ(out->len, 1688);
}

/* What reading comes to: how many records are good, how far they reach, how it ended. */
struct reading {
    unsigned records;
    uint64_t end;
    enum frame_result result;
    const char *why;
    struct scan scan;
};

static void read_all(struct bytes file, bool newest, struct reading *out)
{
    *out = (struct reading){0};
    scan_init(&out->scan, (struct wal_place){0}, 0);
    for (;;) {
        struct frame_source from = {.window = bytes_of(file.at + out->end, file.len - out->end),
                                    .offset = out->end,
                                    .file_size = file.len,
                                    .newest = newest};
        struct frame_report report = {0};
        struct scan_event event;
        struct frame f;

        out->result = frame_read(&from, out->scan.crc, &f, &report);
        out->why = report.why;
        if (out->result != FRAME_OK)
            break;
        out->why = scan_record(&out->scan, &f, &event);
        if (out->why) {
            out->result = FRAME_BAD;
            break;
        }
        out->records++;
        out->end += f.size;
    }
    scan_free(&out->scan);
}

TEST(a_log_of_etcds_is_read_to_its_end)
{
    struct buf file = {0};
    struct reading r;

    read_etcds(&file);
    read_all(buf_bytes(&file), true, &r);

    CHECK_EQ(r.result, FRAME_END);
    CHECK_EQ(r.end, file.len);
    CHECK_EQ(r.records, 38);
    CHECK_EQ(r.scan.last, 16);
    CHECK_EQ(r.scan.state.term, 2);
    CHECK_EQ(r.scan.state.commit, 16);
    buf_free(&file);
}

TEST(a_newest_segment_that_ends_anywhere_is_torn_there_and_any_other_is_bad)
{
    struct buf file = {0};
    struct reading whole, r;
    uint64_t boundary = 0;

    read_etcds(&file);
    read_all(buf_bytes(&file), true, &whole);
    for (size_t len = 0; len < file.len; len++) {
        read_all(bytes_of(file.at, len), true, &r);
        if (r.result == FRAME_END) {
            CHECK_EQ(r.end, len);
            boundary = len;
        } else {
            CHECK_EQ(r.result, FRAME_TORN);
            CHECK_EQ(r.end, boundary);
        }
        read_all(bytes_of(file.at, len), false, &r);
        CHECK_EQ(r.result, len == boundary ? FRAME_END : FRAME_BAD);
    }
    buf_free(&file);
}

/* Each sector of the end is there or not, in every combination. */
TEST(sectors_that_were_not_written_are_torn_or_the_end_and_never_damage)
{
    struct buf file = {0}, torn = {0};
    struct reading r;
    unsigned ends = 0, tears = 0;

    read_etcds(&file);
    memset(buf_extend(&file, 2048 - file.len), 0, 2048 - 1688);
    for (unsigned kept = 0; kept < 8; kept++) {
        buf_clear(&torn);
        buf_append(&torn, buf_bytes(&file));
        for (unsigned sector = 0; sector < 3; sector++)
            if (!(kept & 1u << sector))
                memset(torn.at + 512 * (sector + 1), 0, 512);
        read_all(buf_bytes(&torn), true, &r);
        CHECK(r.result == FRAME_END || r.result == FRAME_TORN);
        CHECK(kept & 1 || r.end <= 512);
        ends += r.result == FRAME_END;
        tears += r.result == FRAME_TORN;
    }
    CHECK(ends > 0);
    CHECK(tears > 0);
    buf_free(&torn);
    buf_free(&file);
}

static enum frame_result read_word(uint64_t word, size_t file_len, bool newest, const char **why)
{
    uint8_t *file = mem_alloc(file_len);
    struct frame_report report = {0};
    struct frame f;

    word = htole64(word);
    memcpy(file, &word, sizeof(word));
    file[8] = 1; /* so that nothing is a sector of zeros */
    struct frame_source from = {
        .window = bytes_of(file, file_len), .file_size = file_len, .newest = newest};
    enum frame_result v = frame_read(&from, 0, &f, &report);
    *why = report.why;
    mem_free(file);
    return v;
}

TEST(lengths_that_nobody_writes_are_refused)
{
    const char *why;

    CHECK_EQ(read_word(0x8400000000000000, 64, true, &why), FRAME_BAD); /* padding of nothing */
    CHECK_EQ(read_word(0x0400000000000004, 64, true, &why), FRAME_BAD); /* not marked */
    CHECK_EQ(read_word(0x8300000000000004, 64, true, &why), FRAME_BAD); /* too little padding */
    CHECK_EQ(read_word(0xc400000000000004, 64, true, &why), FRAME_BAD); /* a bit too many */
    CHECK_STR(why, "a length that nobody writes");
    CHECK_EQ(read_word(0x0000000040000000, 64, true, &why), FRAME_BAD); /* a gigabyte */
    CHECK_STR(why, "a length beyond every bound");
    CHECK_EQ(read_word(0x00fffffffffffff8, 64, true, &why), FRAME_BAD);
    CHECK_STR(why, "a length beyond every bound");
    CHECK_EQ(read_word(0x0000000000000100, 64, false, &why), FRAME_BAD);
    CHECK_STR(why, "the file ends inside a record");
    /* And in the newest segment it is not torn, since the record's start contradicts it. */
    CHECK_EQ(read_word(0x0000000000000100, 64, true, &why), FRAME_BAD);
}

TEST(varints_are_read_in_one_form_only)
{
    static const struct {
        struct bytes text;
        bool good;
        uint64_t value;
    } all[] = {
        {BYTES("\x00"), true, 0},
        {BYTES("\x7f"), true, 127},
        {BYTES("\x80\x01"), true, 128},
        {BYTES("\x80\x00"), false, 0},
        {BYTES("\x80"), false, 0},
        {BYTES(""), false, 0},
        {BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), true, UINT64_MAX},
        {BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), false, 0},
        {BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), false, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct strict s = {.at = all[i].text.at, .end = all[i].text.at + all[i].text.len};
        uint64_t value = strict_take_varint(&s);
        CHECK(s.bad == !all[i].good);
        CHECK(value == all[i].value);
    }
}

/* Frames of records in order; the last one's result. */
static const char *scan_all(const struct model_record *records, size_t count)
{
    struct scan scan;
    const char *why = NULL;

    scan_init(&scan, (struct wal_place){0}, 0);
    scan_next_segment(&scan);
    struct frame crc = {.type = WAL_CRC}, metadata = {.type = WAL_METADATA, .data = BYTES("id")};
    struct scan_event event;
    CHECK(!scan_record(&scan, &crc, &event));
    CHECK(!scan_record(&scan, &metadata, &event));
    for (size_t i = 0; i < count && !why; i++) {
        const struct model_record *r = &records[i];
        struct frame f = {.type = r->type};
        struct buf data = {0};
        if (r->type == WAL_ENTRY)
            pb_encode(&raft_entry_schema,
                      &(struct raft_entry){.type = r->entry.type,
                                           .term = r->entry.at.term,
                                           .index = r->entry.at.index},
                      &data);
        else if (r->type == WAL_STATE)
            pb_encode(&raft_hard_state_schema, &r->state, &data);
        else
            raft_snapshot_encode_record(
                &(struct raft_snapshot){.index = r->snapshot.index, .term = r->snapshot.term},
                &data);
        f.data = buf_bytes(&data);
        why = scan_record(&scan, &f, &event);
        buf_free(&data);
    }
    scan_free(&scan);
    return why ? why : "";
}

#define ENTRY(i, t)                                                                                \
    {                                                                                              \
        .type = WAL_ENTRY, .entry.at = { i, t }                                                    \
    }
#define STATE(t, v, c)                                                                             \
    {                                                                                              \
        .type = WAL_STATE, .state = { t, v, c }                                                    \
    }
#define SCAN(...)                                                                                  \
    scan_all((const struct model_record[]){__VA_ARGS__},                                           \
             sizeof((const struct model_record[]){__VA_ARGS__}) / sizeof(struct model_record))

TEST(records_that_raft_cannot_have_written_are_refused)
{
    CHECK_STR(SCAN(ENTRY(1, 1), ENTRY(2, 1), STATE(1, 7, 2)), "");
    CHECK_STR(SCAN(ENTRY(2, 1)), "a gap between entries");
    CHECK_STR(SCAN(ENTRY(1, 0)), "not an entry");
    CHECK_STR(SCAN(ENTRY(1, 2), ENTRY(2, 1)), "an entry of a lower term than the one before");
    CHECK_STR(SCAN(ENTRY(1, 1), ENTRY(2, 1), ENTRY(1, 2)), "");
    CHECK_STR(SCAN(ENTRY(1, 1), STATE(1, 0, 1), ENTRY(1, 2)),
              "an entry that replaces a committed one");
    CHECK_STR(SCAN(ENTRY(1, 1), STATE(1, 0, 2)), "a commit index beyond the last entry");
    CHECK_STR(SCAN(ENTRY(1, 2), STATE(1, 0, 1)), "a hard state whose term falls");
    CHECK_STR(SCAN(STATE(2, 0, 0), STATE(1, 0, 0)), "a hard state whose term falls");
    CHECK_STR(SCAN(ENTRY(1, 1), STATE(1, 0, 1), STATE(1, 0, 0)),
              "a hard state whose commit index falls");
    CHECK_STR(SCAN({.type = WAL_SNAPSHOT, .snapshot = {0, 3}}),
              "a snapshot of another term than the one to start from");
    CHECK_STR(SCAN({.type = WAL_ENTRY, .entry = {.at = {1, 1}, .type = 1}}), "not an entry");
}
