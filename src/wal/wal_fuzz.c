/*
 * Any bytes as a log. The first byte chooses how they are read:
 *
 *     even   as the files are: two segments, the second the newest, cut where the next byte says
 *     odd    as a list of (type, length, data), framed with correct lengths and crcs, so that the
 *            fuzzer gets past the checksum to what the records mean
 *
 * Beyond not crashing: a frame that was accepted is written again and must give the same bytes, and
 * an undamaged frame must be accepted.
 */
#include "base/assert.h"
#include "base/crc32c.h"
#include "wal/scan.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    uint64_t last; /* index of the last entry that is alive */
    uint64_t start;
};

static void check_event(struct seen *seen, const struct scan_event *event)
{
    if (event->truncates) {
        assert(event->truncate_from > seen->start);
        if (seen->last >= event->truncate_from)
            seen->last = event->truncate_from - 1;
    }
    if (event->is_news) {
        assert(event->entry.index == seen->last + 1);
        seen->last = event->entry.index;
    }
}

static void check_same_bytes(const struct frame *f, struct bytes window)
{
    struct buf again = {0};

    frame_append(&again, f->type, f->crc, f->data, bytes_of(NULL, 0), false);
    assert(bytes_equal(buf_bytes(&again), bytes_of(window.at, f->size)));
    buf_free(&again);
}

/* Reads one segment through a window that grows only as asked. False if reading ends. */
static bool read_segment(struct scan *scan, struct seen *seen, struct bytes file, bool newest,
                         bool must_parse)
{
    size_t offset = 0, window = 0;

    scan_next_segment(scan);
    for (;;) {
        size_t left = file.len - offset;
        struct frame_source from = {.window =
                                        bytes_of(file.at + offset, window < left ? window : left),
                                    .offset = offset,
                                    .file_size = file.len,
                                    .newest = newest};
        struct frame_report report = {0};
        struct scan_event event;
        struct frame f;

        switch (frame_read(&from, scan->crc, &f, &report)) {
        case FRAME_MORE:
            assert(report.needed > from.window.len);
            assert(report.needed <= left);
            window = report.needed;
            continue;
        case FRAME_OK:
            check_same_bytes(&f, from.window);
            if (scan_record(scan, &f, &event))
                return false;
            check_event(seen, &event);
            offset += f.size;
            continue;
        case FRAME_END:
            assert(!must_parse || offset == file.len);
            return true;
        case FRAME_TORN:
        case FRAME_BAD:
            assert(!must_parse);
            assert(report.why);
            return false;
        }
    }
}

static void fuzz_files(struct bytes input, struct wal_place start)
{
    struct seen seen = {.last = start.index, .start = start.index};
    struct scan scan;

    if (input.len == 0)
        return;
    size_t cut = (size_t)input.at[0] * 8;
    struct bytes all = bytes_of(input.at + 1, input.len - 1);
    cut = cut < all.len ? cut : 0;
    scan_init(&scan, start, 0);
    if (cut == 0 || read_segment(&scan, &seen, bytes_of(all.at, cut), false, false))
        read_segment(&scan, &seen, bytes_of(all.at + cut, all.len - cut), true, false);
    scan_free(&scan);
}

static void fuzz_records(struct bytes input, struct wal_place start)
{
    struct seen seen = {.last = start.index, .start = start.index};
    struct buf file = {0};
    struct scan scan;
    uint32_t crc = 0;

    while (input.len >= 2) {
        enum wal_record_type type = (enum wal_record_type)(input.at[0] % 5 + 1);
        size_t len = input.at[1] < input.len - 2 ? input.at[1] : input.len - 2;
        struct bytes record = bytes_of(input.at + 2, len);
        if (type != WAL_CRC)
            crc = crc32c(crc, record);
        frame_append(&file, type, crc, record, bytes_of(NULL, 0), false);
        input = bytes_of(input.at + 2 + len, input.len - 2 - len);
    }
    buf_reserve(&file, 1);
    scan_init(&scan, start, 0);
    read_segment(&scan, &seen, buf_bytes(&file), true, true);
    scan_free(&scan);
    buf_free(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct wal_place start = {.index = data[0] >> 5, .term = data[0] >> 5 ? 1 + data[1] % 3 : 0};
    struct bytes rest = bytes_of(data + 1, size - 1);

    if (data[0] % 2 == 0)
        fuzz_files(rest, start);
    else
        fuzz_records(rest, start);
    return 0;
}
