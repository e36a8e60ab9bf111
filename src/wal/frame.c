#include "wal/frame.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "pb/wire.h"
#include "wal/wal.h"

#include <endian.h>
#include <string.h>

enum { TAG_TYPE = 0x08, TAG_CRC = 0x10, TAG_DATA = 0x1a };

/*
 * --- strict protobuf ---
 *
 * The crc speaks for the data alone. What stands around it is guarded by its form: one order of
 * fields, one spelling of each number, the shortest, as they were written. A decoder that took
 * more would take some damaged bytes for another record, or for the same.
 */

bool strict_take_tag(struct strict *s, uint8_t tag)
{
    s->ended |= s->at == s->end;
    if (s->ended || *s->at != tag)
        return false;
    s->at++;
    return true;
}

uint64_t strict_take_varint(struct strict *s)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        s->ended |= s->at == s->end;
        if (s->ended)
            break;
        uint8_t byte = *s->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte >= 0x80)
            continue;
        if ((byte == 0 && shift > 0) || (shift == 63 && byte > 1))
            break; /* longer than it had to be, or too large */
        return value;
    }
    s->bad = true;
    return 0;
}

struct bytes strict_take_bytes(struct strict *s)
{
    uint64_t len = strict_take_varint(s);

    if (s->bad || len > (size_t)(s->end - s->at)) {
        s->bad = true;
        return bytes_of(NULL, 0);
    }
    struct bytes taken = bytes_of(s->at, (size_t)len);
    s->at += len;
    return taken;
}

/* --- the length word --- */

static size_t padding_of(uint64_t record_len)
{
    return (size_t)(-record_len & 7);
}

static uint64_t word_of(uint64_t record_len)
{
    uint64_t padding = padding_of(record_len);

    return padding ? record_len | (0x80 | padding) << 56 : record_len;
}

static uint64_t record_len_of(uint64_t word)
{
    return word & 0x00ffffffffffffff;
}

/* --- writing --- */

static size_t record_len_for(uint32_t crc, size_t data_len)
{
    return 2 + 1 + pb_varint_size(crc) +
           (data_len > 0 ? 1 + pb_varint_size(data_len) + data_len : 0);
}

size_t frame_append(struct buf *out, enum wal_record_type type, uint32_t crc, struct bytes head,
                    struct bytes body, bool share)
{
    size_t data_len = head.len + body.len;
    size_t record_len = record_len_for(crc, data_len);
    size_t size = FRAME_WORD_BYTES + record_len + padding_of(record_len);
    size_t copied = share ? size - body.len - padding_of(record_len) : size;
    uint8_t *start = buf_extend(out, copied), *at = start;
    uint64_t word = htole64(word_of(record_len));

    assert(record_len <= WAL_RECORD_BYTES_MAX);
    memcpy(at, &word, sizeof(word));
    at += sizeof(word);
    *at++ = TAG_TYPE;
    *at++ = (uint8_t)type;
    *at++ = TAG_CRC;
    at += pb_varint_size(crc);
    pb_put_varint(at, crc);
    if (data_len > 0) {
        *at++ = TAG_DATA;
        at += pb_varint_size(data_len);
        pb_put_varint(at, data_len);
    }
    if (head.len > 0)
        memcpy(at, head.at, head.len);
    at += head.len;
    if (!share && body.len > 0)
        memcpy(at, body.at, body.len);
    if (!share)
        memset(at + body.len, 0, padding_of(record_len));
    assert(size % 8 == 0);
    assert(share || at + body.len + padding_of(record_len) == start + copied);
    return size;
}

/* --- reading --- */

static bool is_zero(const uint8_t *at, size_t len)
{
    return len == 0 || (at[0] == 0 && memcmp(at, at + 1, len - 1) == 0);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Reads type and crc and the length of the data, which must fill a record of `record_len` bytes.
 * False if the bytes say otherwise, or end early. */
static bool take_head(struct strict *s, uint64_t record_len, struct frame *out, uint64_t *data_len)
{
    const uint8_t *start = s->at;

    *data_len = 0;
    if (!strict_take_tag(s, TAG_TYPE))
        return false;
    uint64_t type = strict_take_varint(s);
    if (s->bad || type < WAL_METADATA || type > WAL_SNAPSHOT || !strict_take_tag(s, TAG_CRC))
        return false;
    uint64_t crc = strict_take_varint(s);
    if (s->bad || crc > UINT32_MAX)
        return false;
    out->type = (enum wal_record_type)type;
    out->crc = (uint32_t)crc;
    uint64_t head_len = (uint64_t)(s->at - start);
    if (head_len == record_len)
        return true;
    if (!strict_take_tag(s, TAG_DATA))
        return false;
    *data_len = strict_take_varint(s);
    head_len = (uint64_t)(s->at - start);
    return !s->bad && head_len + *data_len == record_len;
}

/* NULL, or what is wrong with the record. */
static const char *parse(struct bytes record, uint32_t crc, struct frame *out)
{
    struct strict s = {.at = record.at, .end = record.at + record.len};
    uint64_t data_len;

    if (!take_head(&s, record.len, out, &data_len))
        return "the record does not have the form of one";
    out->data = bytes_of(s.at, (size_t)data_len);
    if (out->type != WAL_CRC && crc32c(crc, out->data) != out->crc)
        return "crc mismatch";
    return NULL;
}

/*
 * A sector that the power cut kept from the disk still has what it had before: zeros, from the
 * record's first byte in it to its end. So a record is torn if one of its sectors is zero to its
 * very end. The sector of the length word has been written, or there would be no length, so it is
 * not asked. (etcd looks at the record's own part of each sector, which takes some plain damage for
 * a torn write; every write that really was torn passes both.)
 * Returns how much of the body is known to have been written, all of it if nothing is missing.
 */
static size_t written_part(const struct frame_source *from, size_t body_len)
{
    uint64_t body = from->offset + FRAME_WORD_BYTES, end = body + body_len;
    uint64_t sector = (body + FRAME_SECTOR_BYTES - 1) / FRAME_SECTOR_BYTES * FRAME_SECTOR_BYTES;

    for (; sector < end; sector += FRAME_SECTOR_BYTES) {
        uint64_t stop = least(sector + FRAME_SECTOR_BYTES, from->file_size);
        if (is_zero(from->window.at + (sector - from->offset), (size_t)(stop - sector)))
            return (size_t)(sector - body);
    }
    return body_len;
}

/* The start of a record of which only `known` bytes were written must fit its length. */
static bool head_fits(const uint8_t *body, size_t known, uint64_t record_len)
{
    struct strict s = {.at = body, .end = body + least(known, record_len)};
    struct frame ignored;
    uint64_t data_len;

    return take_head(&s, record_len, &ignored, &data_len) || s.ended;
}

static enum frame_result bad(struct frame_report *report, const char *why)
{
    report->why = why;
    return FRAME_BAD;
}

static enum frame_result more(struct frame_report *report, uint64_t needed)
{
    report->needed = (size_t)needed;
    return FRAME_MORE;
}

/* To the end of the sector in which a frame of this size ends, as far as there is a file. */
static uint64_t to_sector_end(const struct frame_source *from, uint64_t size)
{
    uint64_t end = (from->offset + size + FRAME_SECTOR_BYTES - 1) / FRAME_SECTOR_BYTES;

    return least(end * FRAME_SECTOR_BYTES, from->file_size) - from->offset;
}

/* The record is not as it should be, or the file ends inside it. */
static enum frame_result judge(const struct frame_source *from, uint64_t record_len,
                               const char *why, struct frame_report *report)
{
    uint64_t size = FRAME_WORD_BYTES + record_len + padding_of(record_len);
    uint64_t left = from->file_size - from->offset;
    uint64_t needed = to_sector_end(from, least(size, left));

    if (!from->newest)
        return bad(report, why);
    if (from->window.len < needed)
        return more(report, needed);
    size_t body_len = (size_t)(least(size, left) - FRAME_WORD_BYTES);
    size_t known = written_part(from, body_len);
    bool torn = known < body_len || left < size;
    if (!torn || !head_fits(from->window.at + FRAME_WORD_BYTES, known, record_len))
        return bad(report, why);
    report->why = why;
    return FRAME_TORN;
}

/* No length: the end, unless something stands right behind it in the same sector, which then was
 * written, and with it a length. */
static enum frame_result judge_end(const struct frame_source *from, struct frame_report *report)
{
    uint64_t needed = to_sector_end(from, FRAME_WORD_BYTES);

    if (!from->newest)
        return FRAME_END;
    if (from->window.len < needed)
        return more(report, needed);
    if (!is_zero(from->window.at, (size_t)needed))
        return bad(report, "bytes behind a length of zero");
    return FRAME_END;
}

enum frame_result frame_read(const struct frame_source *from, uint32_t crc, struct frame *out,
                             struct frame_report *report)
{
    assert(from->offset <= from->file_size);
    assert(from->window.len <= from->file_size - from->offset);

    uint64_t left = from->file_size - from->offset, word;
    if (left == 0)
        return FRAME_END;
    if (left < FRAME_WORD_BYTES) {
        report->why = "the file ends inside a length";
        return from->newest ? FRAME_TORN : FRAME_BAD;
    }
    if (from->window.len < FRAME_WORD_BYTES)
        return more(report, FRAME_WORD_BYTES);
    memcpy(&word, from->window.at, sizeof(word));
    word = le64toh(word);
    if (word == 0)
        return judge_end(from, report);

    uint64_t record_len = record_len_of(word), padding = padding_of(record_len);
    if (word != word_of(record_len))
        return bad(report, "a length that nobody writes");
    if (record_len > WAL_RECORD_BYTES_MAX)
        return bad(report, "a length beyond every bound");
    if (record_len + padding > left - FRAME_WORD_BYTES)
        return judge(from, record_len, "the file ends inside a record", report);
    out->size = (size_t)(FRAME_WORD_BYTES + record_len + padding);
    if (from->window.len < out->size)
        return more(report, out->size);
    struct bytes record = bytes_of(from->window.at + FRAME_WORD_BYTES, (size_t)record_len);
    const char *why = parse(record, crc, out);
    if (why)
        return judge(from, record_len, why, report);
    if (!is_zero(record.at + record.len, (size_t)padding))
        return bad(report, "padding that is not zero"); /* and not torn: the data is all there */
    return FRAME_OK;
}
