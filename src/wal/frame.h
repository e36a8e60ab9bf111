/*
 * frame: one record of the log, as bytes. Pure: bytes in, records out, and the other way round.
 *
 *     offset, a multiple of 8
 *     | u64 le: length L in bits 0-55, 0x80|P in the top byte if P > 0 | record, L bytes | P zeros
 * |
 *
 *     record    08 type   10 crc   [1a length data]        protobuf, always in exactly this shape
 *     crc       CRC-32C of the data of every record since the log was created, this one included
 *
 * A length of zero is the end: what follows in the file was reserved and never written. A file's
 * sectors of 512 bytes are each old or new after a power cut, so a length, being aligned, is never
 * half written.
 *
 * etcd's crc covers the data alone. Length, type and padding are guarded here by their form: a
 * frame is accepted only if encoding what was read gives back the very same bytes.
 */
#pragma once

#include "base/buf.h"
#include "base/bytes.h"

enum wal_record_type {
    WAL_METADATA = 1,
    WAL_ENTRY = 2,
    WAL_STATE = 3,
    WAL_CRC = 4, /* no data: opens a segment, carrying the crc of all segments before it */
    WAL_SNAPSHOT = 5,
};

enum {
    FRAME_WORD_BYTES = 8,
    FRAME_SECTOR_BYTES = 512,
    FRAME_OVERHEAD_MAX = 8 + 2 + 6 + 1 + 10 + 7, /* word, type, crc, tag and length, padding */
};

struct frame {
    enum wal_record_type type;
    uint32_t crc;
    struct bytes data; /* in the window it was read from */
    size_t size;       /* with word and padding */
};

/* Where to look for a frame. */
struct frame_source {
    struct bytes window; /* the file from `offset` on, as much of it as is at hand */
    uint64_t offset;
    uint64_t file_size;
    bool newest; /* the segment that was being written: its last record may be torn */
};

enum frame_result {
    FRAME_OK,
    FRAME_END,  /* nothing more was written */
    FRAME_MORE, /* ask again with a window of at least `needed` bytes, which the file has */
    FRAME_TORN, /* a write that a power cut interrupted; never acknowledged */
    FRAME_BAD,  /* damage: it may have been acknowledged */
};

struct frame_report {
    size_t needed;   /* FRAME_MORE */
    const char *why; /* FRAME_TORN, FRAME_BAD */
};

/* Reads the frame at the source's offset. `crc` is that of everything before it; a WAL_CRC record
 * is not checked against it, the caller knows where one belongs. */
enum frame_result frame_read(const struct frame_source *from, uint32_t crc, struct frame *out,
                             struct frame_report *report);

/*
 * Appends a frame whose data is head and body together and returns its size, a multiple of 8. crc
 * is the rolling crc with both included. With `share` neither the body nor the padding is written:
 * the caller places the body behind what was appended, and zeros up to the size behind that.
 */
size_t frame_append(struct buf *out, enum wal_record_type type, uint32_t crc, struct bytes head,
                    struct bytes body, bool share);

/* --- a reader of protobuf that accepts only what a canonical writer writes --- */

struct strict {
    const uint8_t *at, *end;
    bool bad;   /* what was taken is not well formed, or not all there */
    bool ended; /* more was asked for than there is */
};

/* The next byte is this tag: takes it. */
bool strict_take_tag(struct strict *s, uint8_t tag);

/* In the fewest possible bytes, or it is bad. */
uint64_t strict_take_varint(struct strict *s);

/* A length and that many bytes. */
struct bytes strict_take_bytes(struct strict *s);
