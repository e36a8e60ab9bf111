/*
 * wire: the alphabet of protobuf, tags, varints and lengths.
 *
 * The reader remembers its first error and then is at its end, so that a loop over fields needs no
 * check after each step. The writer works backwards from the end of the memory it fills: when a
 * length is due its content is already there, and nothing has to be measured twice.
 */
#pragma once

#include "base/err.h"
#include "pb/schema.h"

enum pb_wire_type {
    PB_WIRE_VARINT = 0,
    PB_WIRE_FIXED64 = 1,
    PB_WIRE_BYTES = 2,
    PB_WIRE_GROUP = 3,
    PB_WIRE_GROUP_END = 4,
    PB_WIRE_FIXED32 = 5,
};

#define PB_NUMBER_MAX ((1u << 29) - 1)

/* Constants, so that they can be case labels. */
#define PB_TAG_VARINT(number) ((uint32_t)(number) << 3 | PB_WIRE_VARINT)
#define PB_TAG_BYTES(number)  ((uint32_t)(number) << 3 | PB_WIRE_BYTES)

/* ---- Reading ---- */

struct pb_reader {
    const uint8_t *at, *end;
    enum err err;
};

static inline void pb_fail(struct pb_reader *r, enum err e)
{
    if (r->err == ERR_OK)
        r->err = e;
    r->at = r->end;
}

/* A varint of more than two bytes, or none at all. */
uint64_t pb_take_long_varint(struct pb_reader *r);

/* Tags, flags and short lengths are one byte; the length of most values and entries is two. */
static inline uint64_t pb_take_varint(struct pb_reader *r)
{
    const uint8_t *at = r->at;

    if (at < r->end && at[0] < 0x80) {
        r->at = at + 1;
        return at[0];
    }
    if (r->end - at >= 2 && at[1] < 0x80) {
        r->at = at + 2;
        return (at[0] & 0x7f) | (uint64_t)at[1] << 7;
    }
    return pb_take_long_varint(r);
}

/* Field number and wire type; 0, which no field has, after an error. */
static inline uint32_t pb_take_tag(struct pb_reader *r)
{
    uint64_t tag = pb_take_varint(r);

    if (tag >> 3 == 0 || tag >> 3 > PB_NUMBER_MAX) {
        pb_fail(r, ERR_MALFORMED);
        return 0;
    }
    return (uint32_t)tag;
}

/* A length and that many bytes. */
static inline struct bytes pb_take_bytes(struct pb_reader *r)
{
    uint64_t len = pb_take_varint(r);

    if (len > (size_t)(r->end - r->at)) {
        pb_fail(r, ERR_MALFORMED);
        return bytes_of(NULL, 0);
    }
    struct bytes taken = bytes_of(r->at, (size_t)len);
    r->at += len;
    return taken;
}

static inline struct bytes pb_take_string(struct pb_reader *r)
{
    struct bytes text = pb_take_bytes(r);

    if (!bytes_are_utf8(text))
        pb_fail(r, ERR_BAD_UTF8);
    return text;
}

/* Passes over the value that follows this tag; a group to its matching end, within bounds. */
void pb_skip_value(struct pb_reader *r, uint32_t tag);

/* ---- Writing ---- */

/* Seven bits to a byte, and one byte for zero. */
static inline size_t pb_varint_size(uint64_t value)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);

    return (bits * 9 + 64) / 64;
}

static inline size_t pb_bytes_size(size_t len)
{
    return pb_varint_size(len) + len;
}

static inline uint8_t *pb_put_varint(uint8_t *end, uint64_t value)
{
    uint8_t *start = end - pb_varint_size(value);

    for (uint8_t *at = start; at < end - 1; at++, value >>= 7)
        *at = (uint8_t)(value | 0x80);
    end[-1] = (uint8_t)value;
    return start;
}

/* The content with its length before it. */
static inline uint8_t *pb_put_bytes(uint8_t *end, struct bytes content)
{
    end -= content.len;
    if (content.len > 0)
        memcpy(end, content.at, content.len);
    return pb_put_varint(end, content.len);
}

/* ---- A field that is left out when it is zero or empty; one byte of tag, unless said ---- */

static inline size_t pb_number_size(uint64_t value)
{
    return value ? 1 + pb_varint_size(value) : 0;
}

static inline size_t pb_flag_size(bool value)
{
    return value ? 2 : 0;
}

static inline size_t pb_field_size(struct bytes content)
{
    return content.len ? 1 + pb_bytes_size(content.len) : 0;
}

static inline uint8_t *pb_put_number(uint8_t *end, unsigned field, uint64_t value)
{
    if (!value)
        return end;
    end = pb_put_varint(end, value);
    *--end = (uint8_t)PB_TAG_VARINT(field);
    return end;
}

static inline uint8_t *pb_put_field(uint8_t *end, unsigned field, struct bytes content)
{
    if (!content.len)
        return end;
    end = pb_put_bytes(end, content);
    *--end = (uint8_t)PB_TAG_BYTES(field);
    return end;
}
