#include "pb/wire.h"

#include "base/limits.h"

uint64_t pb_take_long_varint(struct pb_reader *r)
{
    const uint8_t *at = r->at, *end = r->end;
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && at < end; shift += 7) {
        uint64_t byte = *at++;
        value |= (byte & 0x7f) << shift;
        if (byte >= 0x80)
            continue;
        if (shift == 63 && byte > 1)
            break; /* more than 64 bits */
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
