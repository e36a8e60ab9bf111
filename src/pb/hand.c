/*
 * Every codec here has the same three parts: take reads fields until the message ends, size adds up
 * what put will write, and put writes backwards, so its lines run from the highest field number to
 * the lowest. A tag as case label holds number and wire type at once: a known number with another
 * wire type falls to the default, and is skipped as an unknown field is.
 */
#include "pb/codec.h"
#include "pb/pb_int.h"
#include "pb/wire.h"

static inline int64_t take_int64(struct pb_reader *r)
{
    return (int64_t)pb_take_varint(r);
}

static inline int32_t take_enum(struct pb_reader *r)
{
    return (int32_t)(uint32_t)pb_take_varint(r);
}

static inline bool take_bool(struct pb_reader *r)
{
    return pb_take_varint(r) != 0;
}

/* ---- etcdserverpb.ResponseHeader ---- */

static void response_header_take(struct pb_reader *r, void *out)
{
    struct pb_response_header *m = out;

    while (r->at < r->end) {
        uint32_t tag = pb_take_tag(r);
        switch (tag) {
        case PB_TAG_VARINT(1):
            m->cluster_id = pb_take_varint(r);
            break;
        case PB_TAG_VARINT(2):
            m->member_id = pb_take_varint(r);
            break;
        case PB_TAG_VARINT(3):
            m->revision = take_int64(r);
            break;
        case PB_TAG_VARINT(4):
            m->raft_term = pb_take_varint(r);
            break;
        default:
            pb_skip_value(r, tag);
        }
    }
}

static size_t response_header_size(const void *msg)
{
    const struct pb_response_header *m = msg;

    return pb_number_size(m->cluster_id) + pb_number_size(m->member_id) +
           pb_number_size((uint64_t)m->revision) + pb_number_size(m->raft_term);
}

static uint8_t *response_header_put(const void *msg, uint8_t *end)
{
    const struct pb_response_header *m = msg;

    end = pb_put_number(end, 4, m->raft_term);
    end = pb_put_number(end, 3, (uint64_t)m->revision);
    end = pb_put_number(end, 2, m->member_id);
    return pb_put_number(end, 1, m->cluster_id);
}

const struct pb_by_hand pb_response_header_by_hand = {
    response_header_take,
    response_header_size,
    response_header_put,
};

/* ---- etcdserverpb.RequestHeader ---- */

static void request_header_take(struct pb_reader *r, void *out)
{
    struct pb_request_header *m = out;

    while (r->at < r->end) {
        uint32_t tag = pb_take_tag(r);
        switch (tag) {
        case PB_TAG_VARINT(1):
            m->id = pb_take_varint(r);
            break;
        case PB_TAG_BYTES(2):
            m->username = pb_take_string(r);
            break;
        case PB_TAG_VARINT(3):
            m->auth_revision = pb_take_varint(r);
            break;
        default:
            pb_skip_value(r, tag);
        }
    }
}

static size_t request_header_size(const void *msg)
{
    const struct pb_request_header *m = msg;

    return pb_number_size(m->id) + pb_field_size(m->username) + pb_number_size(m->auth_revision);
}

static uint8_t *request_header_put(const void *msg, uint8_t *end)
{
    const struct pb_request_header *m = msg;

    end = pb_put_number(end, 3, m->auth_revision);
    end = pb_put_field(end, 2, m->username);
    return pb_put_number(end, 1, m->id);
}

const struct pb_by_hand pb_request_header_by_hand = {
    request_header_take,
    request_header_size,
    request_header_put,
};

/* ---- mvccpb.KeyValue ---- */

static void key_value_take(struct pb_reader *r, void *out)
{
    struct pb_key_value *m = out;

    while (r->at < r->end) {
        uint32_t tag = pb_take_tag(r);
        switch (tag) {
        case PB_TAG_BYTES(1):
            m->key = pb_take_bytes(r);
            break;
        case PB_TAG_VARINT(2):
            m->create_revision = take_int64(r);
            break;
        case PB_TAG_VARINT(3):
            m->mod_revision = take_int64(r);
            break;
        case PB_TAG_VARINT(4):
            m->version = take_int64(r);
            break;
        case PB_TAG_BYTES(5):
            m->value = pb_take_bytes(r);
            break;
        case PB_TAG_VARINT(6):
            m->lease = take_int64(r);
            break;
        default:
            pb_skip_value(r, tag);
        }
    }
}

static size_t key_value_size(const void *msg)
{
    const struct pb_key_value *m = msg;

    return pb_field_size(m->key) + pb_number_size((uint64_t)m->create_revision) +
           pb_number_size((uint64_t)m->mod_revision) + pb_number_size((uint64_t)m->version) +
           pb_field_size(m->value) + pb_number_size((uint64_t)m->lease);
}

static uint8_t *key_value_put(const void *msg, uint8_t *end)
{
    const struct pb_key_value *m = msg;

    end = pb_put_number(end, 6, (uint64_t)m->lease);
    end = pb_put_field(end, 5, m->value);
    end = pb_put_number(end, 4, (uint64_t)m->version);
    end = pb_put_number(end, 3, (uint64_t)m->mod_revision);
    end = pb_put_number(end, 2, (uint64_t)m->create_revision);
    return pb_put_field(end, 1, m->key);
}

const struct pb_by_hand pb_key_value_by_hand = {key_value_take, key_value_size, key_value_put};

/* ---- etcdserverpb.RangeRequest ---- */

static void range_request_take(struct pb_reader *r, void *out)
{
    struct pb_range_request *m = out;

    while (r->at < r->end) {
        uint32_t tag = pb_take_tag(r);
        switch (tag) {
        case PB_TAG_BYTES(1):
            m->key = pb_take_bytes(r);
            break;
        case PB_TAG_BYTES(2):
            m->range_end = pb_take_bytes(r);
            break;
        case PB_TAG_VARINT(3):
            m->limit = take_int64(r);
            break;
        case PB_TAG_VARINT(4):
            m->revision = take_int64(r);
            break;
        case PB_TAG_VARINT(5):
            m->sort_order = take_enum(r);
            break;
        case PB_TAG_VARINT(6):
            m->sort_target = take_enum(r);
            break;
        case PB_TAG_VARINT(7):
            m->serializable = take_bool(r);
            break;
        case PB_TAG_VARINT(8):
            m->keys_only = take_bool(r);
            break;
        case PB_TAG_VARINT(9):
            m->count_only = take_bool(r);
            break;
        case PB_TAG_VARINT(10):
            m->min_mod_revision = take_int64(r);
            break;
        case PB_TAG_VARINT(11):
            m->max_mod_revision = take_int64(r);
            break;
        case PB_TAG_VARINT(12):
            m->min_create_revision = take_int64(r);
            break;
        case PB_TAG_VARINT(13):
            m->max_create_revision = take_int64(r);
            break;
        default:
            pb_skip_value(r, tag);
        }
    }
}

static size_t range_request_size(const void *msg)
{
    const struct pb_range_request *m = msg;

    return pb_field_size(m->key) + pb_field_size(m->range_end) +
           pb_number_size((uint64_t)m->limit) + pb_number_size((uint64_t)m->revision) +
           pb_number_size((uint64_t)m->sort_order) + pb_number_size((uint64_t)m->sort_target) +
           pb_flag_size(m->serializable) + pb_flag_size(m->keys_only) +
           pb_flag_size(m->count_only) + pb_number_size((uint64_t)m->min_mod_revision) +
           pb_number_size((uint64_t)m->max_mod_revision) +
           pb_number_size((uint64_t)m->min_create_revision) +
           pb_number_size((uint64_t)m->max_create_revision);
}

static uint8_t *range_request_put(const void *msg, uint8_t *end)
{
    const struct pb_range_request *m = msg;

    end = pb_put_number(end, 13, (uint64_t)m->max_create_revision);
    end = pb_put_number(end, 12, (uint64_t)m->min_create_revision);
    end = pb_put_number(end, 11, (uint64_t)m->max_mod_revision);
    end = pb_put_number(end, 10, (uint64_t)m->min_mod_revision);
    end = pb_put_number(end, 9, m->count_only);
    end = pb_put_number(end, 8, m->keys_only);
    end = pb_put_number(end, 7, m->serializable);
    end = pb_put_number(end, 6, (uint64_t)m->sort_target);
    end = pb_put_number(end, 5, (uint64_t)m->sort_order);
    end = pb_put_number(end, 4, (uint64_t)m->revision);
    end = pb_put_number(end, 3, (uint64_t)m->limit);
    end = pb_put_field(end, 2, m->range_end);
    return pb_put_field(end, 1, m->key);
}

const struct pb_by_hand pb_range_request_by_hand = {
    range_request_take,
    range_request_size,
    range_request_put,
};

/* ---- etcdserverpb.PutRequest ---- */

static void put_request_take(struct pb_reader *r, void *out)
{
    struct pb_put_request *m = out;

    while (r->at < r->end) {
        uint32_t tag = pb_take_tag(r);
        switch (tag) {
        case PB_TAG_BYTES(1):
            m->key = pb_take_bytes(r);
            break;
        case PB_TAG_BYTES(2):
            m->value = pb_take_bytes(r);
            break;
        case PB_TAG_VARINT(3):
            m->lease = take_int64(r);
            break;
        case PB_TAG_VARINT(4):
            m->prev_kv = take_bool(r);
            break;
        case PB_TAG_VARINT(5):
            m->ignore_value = take_bool(r);
            break;
        case PB_TAG_VARINT(6):
            m->ignore_lease = take_bool(r);
            break;
        default:
            pb_skip_value(r, tag);
        }
    }
}

static size_t put_request_size(const void *msg)
{
    const struct pb_put_request *m = msg;

    return pb_field_size(m->key) + pb_field_size(m->value) + pb_number_size((uint64_t)m->lease) +
           pb_flag_size(m->prev_kv) + pb_flag_size(m->ignore_value) + pb_flag_size(m->ignore_lease);
}

static uint8_t *put_request_put(const void *msg, uint8_t *end)
{
    const struct pb_put_request *m = msg;

    end = pb_put_number(end, 6, m->ignore_lease);
    end = pb_put_number(end, 5, m->ignore_value);
    end = pb_put_number(end, 4, m->prev_kv);
    end = pb_put_number(end, 3, (uint64_t)m->lease);
    end = pb_put_field(end, 2, m->value);
    return pb_put_field(end, 1, m->key);
}

const struct pb_by_hand pb_put_request_by_hand = {
    put_request_take,
    put_request_size,
    put_request_put,
};

/* ---- etcdserverpb.DeleteRangeRequest ---- */

static void delete_range_request_take(struct pb_reader *r, void *out)
{
    struct pb_delete_range_request *m = out;

    while (r->at < r->end) {
        uint32_t tag = pb_take_tag(r);
        switch (tag) {
        case PB_TAG_BYTES(1):
            m->key = pb_take_bytes(r);
            break;
        case PB_TAG_BYTES(2):
            m->range_end = pb_take_bytes(r);
            break;
        case PB_TAG_VARINT(3):
            m->prev_kv = take_bool(r);
            break;
        default:
            pb_skip_value(r, tag);
        }
    }
}

static size_t delete_range_request_size(const void *msg)
{
    const struct pb_delete_range_request *m = msg;

    return pb_field_size(m->key) + pb_field_size(m->range_end) + pb_flag_size(m->prev_kv);
}

static uint8_t *delete_range_request_put(const void *msg, uint8_t *end)
{
    const struct pb_delete_range_request *m = msg;

    end = pb_put_number(end, 3, m->prev_kv);
    end = pb_put_field(end, 2, m->range_end);
    return pb_put_field(end, 1, m->key);
}

const struct pb_by_hand pb_delete_range_request_by_hand = {
    delete_range_request_take,
    delete_range_request_size,
    delete_range_request_put,
};

/* ---- etcdserverpb.Compare: one operand, written even when zero, and a two-byte tag at 64 ---- */

static void compare_take_operand(struct pb_reader *r, struct pb_compare *m, uint32_t tag)
{
    m->which = (enum pb_compare_operand)(tag >> 3);
    if (m->which == PB_OPERAND_VALUE)
        m->value = pb_take_bytes(r);
    else
        m->version = take_int64(r); /* all the other operands are this same int64 */
}

static void compare_take(struct pb_reader *r, void *out)
{
    struct pb_compare *m = out;

    while (r->at < r->end) {
        uint32_t tag = pb_take_tag(r);
        switch (tag) {
        case PB_TAG_VARINT(1):
            m->result = take_enum(r);
            break;
        case PB_TAG_VARINT(2):
            m->target = take_enum(r);
            break;
        case PB_TAG_BYTES(3):
            m->key = pb_take_bytes(r);
            break;
        case PB_TAG_VARINT(PB_OPERAND_VERSION):
        case PB_TAG_VARINT(PB_OPERAND_CREATE_REVISION):
        case PB_TAG_VARINT(PB_OPERAND_MOD_REVISION):
        case PB_TAG_VARINT(PB_OPERAND_LEASE):
        case PB_TAG_BYTES(PB_OPERAND_VALUE):
            compare_take_operand(r, m, tag);
            break;
        case PB_TAG_BYTES(64):
            m->range_end = pb_take_bytes(r);
            break;
        default:
            pb_skip_value(r, tag);
        }
    }
}

static size_t compare_operand_size(const struct pb_compare *m)
{
    if (m->which == PB_OPERAND_NONE)
        return 0;
    if (m->which == PB_OPERAND_VALUE)
        return 1 + pb_bytes_size(m->value.len);
    return 1 + pb_varint_size((uint64_t)m->version);
}

static size_t compare_size(const void *msg)
{
    const struct pb_compare *m = msg;
    size_t range_end = m->range_end.len ? 2 + pb_bytes_size(m->range_end.len) : 0;

    return pb_number_size((uint64_t)m->result) + pb_number_size((uint64_t)m->target) +
           pb_field_size(m->key) + compare_operand_size(m) + range_end;
}

static uint8_t *compare_put(const void *msg, uint8_t *end)
{
    const struct pb_compare *m = msg;

    if (m->range_end.len > 0)
        end = pb_put_varint(pb_put_bytes(end, m->range_end), PB_TAG_BYTES(64));
    if (m->which == PB_OPERAND_VALUE)
        end = pb_put_varint(pb_put_bytes(end, m->value), PB_TAG_BYTES(m->which));
    else if (m->which != PB_OPERAND_NONE)
        end = pb_put_varint(pb_put_varint(end, (uint64_t)m->version), PB_TAG_VARINT(m->which));
    end = pb_put_field(end, 3, m->key);
    end = pb_put_number(end, 2, (uint64_t)m->target);
    return pb_put_number(end, 1, (uint64_t)m->result);
}

const struct pb_by_hand pb_compare_by_hand = {compare_take, compare_size, compare_put};
