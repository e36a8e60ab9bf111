/*
 * Conf changes as protobuf, the form in which log entries carry them.
 *
 *     ConfChange        1: id   2: type   3: node_id   4: context
 *     ConfChangeV2      1: transition   2: changes {1: type  2: node_id}, repeated   3: context
 *
 * The decoder is strict about form (a peer wrote it) and generous about content: unknown fields are
 * skipped, the last of a repeated scalar wins, an unknown number of an enum is kept as it is for
 * whoever applies the change to refuse.
 */
#include "raft/raft_int.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_field {
    uint64_t number;
    enum wire_type type;
    uint64_t value;       /* WIRE_VARINT */
    struct bytes content; /* WIRE_BYTES */
};

/* --- encoding --- */

static void put_varint(struct buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        buf_append_byte(out, (uint8_t)(value | 0x80));
    buf_append_byte(out, (uint8_t)value);
}

static void put_number(struct buf *out, unsigned field, uint64_t value)
{
    put_varint(out, field << 3 | WIRE_VARINT);
    put_varint(out, value);
}

static void put_bytes(struct buf *out, unsigned field, struct bytes content)
{
    put_varint(out, field << 3 | WIRE_BYTES);
    put_varint(out, content.len);
    buf_append(out, content);
}

/* Which zeroes are written follows etcd 3.7, where all members found a cluster with equal bytes. */
void raft_conf_change_encode(const struct raft_conf_change *cc, struct buf *out)
{
    if (cc->id != 0)
        put_number(out, 1, cc->id);
    put_number(out, 2, cc->type);
    put_number(out, 3, cc->node_id);
    if (cc->context.len > 0)
        put_bytes(out, 4, cc->context);
}

void raft_conf_change_v2_encode(const struct raft_conf_change_v2 *cc, struct buf *out)
{
    struct buf change = {0};

    put_number(out, 1, cc->transition);
    for (size_t i = 0; i < cc->change_count; i++) {
        buf_clear(&change);
        put_number(&change, 1, cc->changes[i].type);
        put_number(&change, 2, cc->changes[i].node_id);
        put_bytes(out, 2, buf_bytes(&change));
    }
    if (cc->context.len > 0)
        put_bytes(out, 3, cc->context);
    buf_free(&change);
}

/* --- decoding --- */

static bool take_varint(struct bytes *from, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (from->len == 0)
            return false;
        uint8_t byte = *from->at++;
        from->len--;
        if (shift == 63 && byte > 1)
            return false;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool take_bytes(struct bytes *from, uint64_t len, struct bytes *content)
{
    if (len > from->len)
        return false;
    *content = bytes_of(from->at, len);
    from->at += len;
    from->len -= len;
    return true;
}

static bool take_field(struct bytes *from, struct wire_field *field)
{
    uint64_t key, len;

    *field = (struct wire_field){0};
    if (!take_varint(from, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff)
        return false;
    field->number = key >> 3;
    field->type = key & 7;
    switch (key & 7) {
    case WIRE_VARINT:
        return take_varint(from, &field->value);
    case WIRE_FIXED64:
        return take_bytes(from, 8, &field->content);
    case WIRE_FIXED32:
        return take_bytes(from, 4, &field->content);
    case WIRE_BYTES:
        return take_varint(from, &len) && take_bytes(from, len, &field->content);
    default:
        return false; /* groups: nobody has written one in a decade */
    }
}

/* A known field must have its type; a wrong one would be skipped by some decoders and refused by
 * others, so it is refused here. */
static bool number_of(const struct wire_field *field, uint64_t *out)
{
    *out = field->value;
    return field->type == WIRE_VARINT;
}

static bool enum_of(const struct wire_field *field, uint32_t *out)
{
    *out = (uint32_t)field->value;
    return field->type == WIRE_VARINT;
}

static bool content_of(const struct wire_field *field, struct bytes *out)
{
    *out = field->content;
    return field->type == WIRE_BYTES;
}

bool raft_conf_change_decode(struct bytes from, struct raft_conf_change *out)
{
    struct wire_field field;
    uint32_t type = 0;

    *out = (struct raft_conf_change){0};
    while (from.len > 0) {
        bool good = take_field(&from, &field);
        if (good && field.number == 1)
            good = number_of(&field, &out->id);
        else if (good && field.number == 2)
            good = enum_of(&field, &type);
        else if (good && field.number == 3)
            good = number_of(&field, &out->node_id);
        else if (good && field.number == 4)
            good = content_of(&field, &out->context);
        if (!good)
            return false;
    }
    out->type = (enum raft_conf_change_type)type;
    return true;
}

static bool decode_single(struct bytes from, struct raft_conf_change_single *out)
{
    struct wire_field field;
    uint32_t type = 0;

    *out = (struct raft_conf_change_single){0};
    while (from.len > 0) {
        bool good = take_field(&from, &field);
        if (good && field.number == 1)
            good = enum_of(&field, &type);
        else if (good && field.number == 2)
            good = number_of(&field, &out->node_id);
        if (!good)
            return false;
    }
    out->type = (enum raft_conf_change_type)type;
    return true;
}

static bool add_change(struct raft_conf_change_v2 *cc, const struct wire_field *field)
{
    if (field->type != WIRE_BYTES || cc->change_count == RAFT_CHANGES_MAX)
        return false;
    return decode_single(field->content, &cc->changes[cc->change_count++]);
}

bool raft_conf_change_v2_decode(struct bytes from, struct raft_conf_change_v2 *out)
{
    struct wire_field field;
    uint32_t transition = 0;

    *out = (struct raft_conf_change_v2){0};
    while (from.len > 0) {
        bool good = take_field(&from, &field);
        if (good && field.number == 1)
            good = enum_of(&field, &transition);
        else if (good && field.number == 2)
            good = add_change(out, &field);
        else if (good && field.number == 3)
            good = content_of(&field, &out->context);
        if (!good)
            return false;
    }
    out->transition = (enum raft_transition)transition;
    return true;
}

struct raft_conf_change_v2 raft_conf_change_as_v2(const struct raft_conf_change *cc)
{
    return (struct raft_conf_change_v2){
        .change_count = 1,
        .changes = {{cc->type, cc->node_id}},
        .context = cc->context,
    };
}

bool raft_entry_conf_change(const struct raft_entry *e, struct raft_conf_change_v2 *out)
{
    struct raft_conf_change v1;

    if (e->type == RAFT_ENTRY_CONF_CHANGE_V2)
        return raft_conf_change_v2_decode(e->data, out);
    if (e->type != RAFT_ENTRY_CONF_CHANGE || !raft_conf_change_decode(e->data, &v1))
        return false;
    *out = raft_conf_change_as_v2(&v1);
    return true;
}
