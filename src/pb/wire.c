#include "pb/wire.h"

#include "base/limits.h"

#include <endian.h>

/* Eight groups of seven bits, each in a byte of its own, moved together: in pairs, then fours. */
static uint64_t join_groups(uint64_t groups)
{
    groups = (groups & 0x007f007f007f007f) | (groups & 0x7f007f007f007f00) >> 1;
    groups = (groups & 0x00003fff00003fff) | (groups & 0x3fff00003fff0000) >> 2;
    return (groups & 0x000000000fffffff) | (groups & 0x0fffffff00000000) >> 4;
}

/*
 * Ids have 64 random bits, and every command names one: byte by byte they were a seventh of
 * what decoding a put costs. The first eight bytes are looked at as one word, in which the last
 * byte of the number is the first with its top bit clear.
 */
static uint64_t take_word_varint(struct pb_reader *r)
{
    const uint8_t *at = r->at;
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    word = le64toh(word);
    uint64_t ends = ~word & 0x8080808080808080;
    if (ends) {
        uint64_t last = ends & -ends; /* with all bits below it: the number */
        r->at = at + __builtin_ctzll(ends) / 8 + 1;
        return join_groups(word & (last - 1) & 0x7f7f7f7f7f7f7f7f);
    }
    uint64_t value = join_groups(word & 0x7f7f7f7f7f7f7f7f);
    size_t left = (size_t)(r->end - at);
    if (left >= 9 && at[8] < 0x80) {
        r->at = at + 9;
        return value | (uint64_t)at[8] << 56;
    }
    if (left >= 10 && at[9] <= 1) {
        r->at = at + 10;
        return value | (uint64_t)(at[8] & 0x7f) << 56 | (uint64_t)at[9] << 63;
    }
    pb_fail(r, ERR_MALFORMED); /* more than 64 bits, or no end */
    return 0;
}

uint64_t pb_take_long_varint(struct pb_reader *r)
{
    if (r->end - r->at >= 8)
        return take_word_varint(r);

    const uint8_t *at = r->at, *end = r->end;
    uint64_t value = 0;

    for (unsigned shift = 0; at < end; shift += 7) {
        uint64_t byte = *at++;
        value |= (byte & 0x7f) << shift;
        if (byte >= 0x80)
            continue;
        r->at = at;
        return value;
    }
    pb_fail(r, ERR_MALFORMED);
    return 0;
}

static void skip_bytes(struct pb_reader *r, size_t count)
{
    if (count > (size_t)(r->end - r->at))
        pb_fail(r, ERR_MALFORMED);
    else
        r->at += count;
}

/* Anything but the start or the end of a group. */
static void skip_plain(struct pb_reader *r, uint32_t tag)
{
    switch (tag & 7) {
    case PB_WIRE_VARINT:
        pb_take_varint(r);
        break;
    case PB_WIRE_FIXED64:
        skip_bytes(r, 8);
        break;
    case PB_WIRE_BYTES:
        pb_take_bytes(r);
        break;
    case PB_WIRE_FIXED32:
        skip_bytes(r, 4);
        break;
    default:
        pb_fail(r, ERR_MALFORMED);
    }
}

/* A group has no length: it ends at the end tag of its own number, past all groups inside it. */
static void skip_group(struct pb_reader *r, uint32_t tag)
{
    uint32_t open[PB_DEPTH_MAX];
    size_t depth = 0;

    open[depth++] = tag >> 3;
    while (depth > 0 && r->err == ERR_OK) {
        uint32_t next = pb_take_tag(r);
        uint32_t type = next & 7;
        if (type == PB_WIRE_GROUP && depth == PB_DEPTH_MAX)
            pb_fail(r, ERR_TOO_DEEP);
        else if (type == PB_WIRE_GROUP)
            open[depth++] = next >> 3;
        else if (type != PB_WIRE_GROUP_END)
            skip_plain(r, next);
        else if (open[--depth] != next >> 3)
            pb_fail(r, ERR_MALFORMED);
    }
}

void pb_skip_value(struct pb_reader *r, uint32_t tag)
{
    if ((tag & 7) == PB_WIRE_GROUP)
        skip_group(r, tag);
    else
        skip_plain(r, tag);
}
