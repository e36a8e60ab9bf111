/*
 * Every codec here has the same three parts: take reads fields until the message ends, size adds up
 * what put will write, and put writes backwards, so its lines run from the highest field number to
 * the lowest. A tag as case label holds number and wire type at once: a known number with another
 * wire type falls to the default, and is skipped as an unknown field is.
 */
#include "pb/codec.h"
#include "pb/pb_int.h"
#include "pb/wire.h"

/* ---- A field that is left out when it is zero or empty; one byte of tag, unless said ---- */

static inline size_t number_size(uint64_t value)
{
    return value ? 1 + pb_varint_size(value) : 0;
}

static inline size_t flag_size(bool value)
{
    return value ? 2 : 0;
}

static inline size_t field_size(struct bytes content)
{
    return content.len ? 1 + pb_bytes_size(content.len) : 0;
}

static inline uint8_t *put_number(uint8_t *end, unsigned field, uint64_t value)
{
    if (!value)
        return end;
    end = pb_put_varint(end, value);
    *--end = (uint8_t)PB_TAG_VARINT(field);
    return end;
}

static inline uint8_t *put_field(uint8_t *end, unsigned field, struct bytes content)
{
    if (!content.len)
        return end;
    end = pb_put_bytes(end, content);
    *--end = (uint8_t)PB_TAG_BYTES(field);
    return end;
}

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

    return number_size(m->cluster_id) + number_size(m->member_id) +
           number_size((uint64_t)m->revision) + number_size(m->raft_term);
}

static uint8_t *response_header_put(const void *msg, uint8_t *end)
{
    const struct pb_response_header *m = msg;

    end = put_number(end, 4, m->raft_term);
    end = put_number(end, 3, (uint64_t)m->revision);
    end = put_number(end, 2, m->member_id);
    return put_number(end, 1, m->cluster_id);
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

    return number_size(m->id) + field_size(m->username) + number_size(m->auth_revision);
}

static uint8_t *request_header_put(const void *msg, uint8_t *end)
{
    const struct pb_request_header *m = msg;

    end = put_number(end, 3, m->auth_revision);
    end = put_field(end, 2, m->username);
    return put_number(end, 1, m->id);
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

    return field_size(m->key) + number_size((uint64_t)m->create_revision) +
           number_size((uint64_t)m->mod_revision) + number_size((uint64_t)m->version) +
           field_size(m->value) + number_size((uint64_t)m->lease);
}

static uint8_t *key_value_put(const void *msg, uint8_t *end)
{
    const struct pb_key_value *m = msg;

    end = put_number(end, 6, (uint64_t)m->lease);
    end = put_field(end, 5, m->value);
    end = put_number(end, 4, (uint64_t)m->version);
    end = put_number(end, 3, (uint64_t)m->mod_revision);
    end = put_number(end, 2, (uint64_t)m->create_revision);
    return put_field(end, 1, m->key);
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

    return field_size(m->key) + field_size(m->range_end) + number_size((uint64_t)m->limit) +
           number_size((uint64_t)m->revision) + number_size((uint64_t)m->sort_order) +
           number_size((uint64_t)m->sort_target) + flag_size(m->serializable) +
           flag_size(m->keys_only) + flag_size(m->count_only) +
           number_size((uint64_t)m->min_mod_revision) + number_size((uint64_t)m->max_mod_revision) +
           number_size((uint64_t)m->min_create_revision) +
           number_size((uint64_t)m->max_create_revision);
}

static uint8_t *range_request_put(const void *msg, uint8_t *end)
{
    const struct pb_range_request *m = msg;

    end = put_number(end, 13, (uint64_t)m->max_create_revision);
    end = put_number(end, 12, (uint64_t)m->min_create_revision);
    end = put_number(end, 11, (uint64_t)m->max_mod_revision);
    end = put_number(end, 10, (uint64_t)m->min_mod_revision);
    end = put_number(end, 9, m->count_only);
    end = put_number(end, 8, m->keys_only);
    end = put_number(end, 7, m->serializable);
    end = put_number(end, 6, (uint64_t)m->sort_target);
    end = put_number(end, 5, (uint64_t)m->sort_order);
    end = put_number(end, 4, (uint64_t)m->revision);
    end = put_number(end, 3, (uint64_t)m->limit);
    end = put_field(end, 2, m->range_end);
    return put_field(end, 1, m->key);
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

    return field_size(m->key) + field_size(m->value) + number_size((uint64_t)m->lease) +
           flag_size(m->prev_kv) + flag_size(m->ignore_value) + flag_size(m->ignore_lease);
}

static uint8_t *put_request_put(const void *msg, uint8_t *end)
{
    const struct pb_put_request *m = msg;

    end = put_number(end, 6, m->ignore_lease);
    end = put_number(end, 5, m->ignore_value);
    end = put_number(end, 4, m->prev_kv);
    end = put_number(end, 3, (uint64_t)m->lease);
    end = put_field(end, 2, m->value);
    return put_field(end, 1, m->key);
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

    return field_size(m->key) + field_size(m->range_end) + flag_size(m->prev_kv);
}

static uint8_t *delete_range_request_put(const void *msg, uint8_t *end)
{
    const struct pb_delete_range_request *m = msg;

    end = put_number(end, 3, m->prev_kv);
    end = put_field(end, 2, m->range_end);
    return put_field(end, 1, m->key);
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

    return number_size((uint64_t)m->result) + number_size((uint64_t)m->target) +
           field_size(m->key) + compare_operand_size(m) + range_end;
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
    end = put_field(end, 3, m->key);
    end = put_number(end, 2, (uint64_t)m->target);
    return put_number(end, 1, (uint64_t)m->result);
}

const struct pb_by_hand pb_compare_by_hand = {compare_take, compare_size, compare_put};

/* ---- raftpb.Entry ---- */

static void raft_entry_take(struct pb_reader *r, void *out)
{
    struct pb_raft_entry *m = out;

    while (r->at < r->end) {
        uint32_t tag = pb_take_tag(r);
        switch (tag) {
        case PB_TAG_VARINT(1):
            m->type = take_enum(r);
            break;
        case PB_TAG_VARINT(2):
            m->term = pb_take_varint(r);
            break;
        case PB_TAG_VARINT(3):
            m->index = pb_take_varint(r);
            break;
        case PB_TAG_BYTES(4):
            m->data = pb_take_bytes(r);
            break;
        default:
            pb_skip_value(r, tag);
        }
    }
}

static size_t raft_entry_size(const void *msg)
{
    const struct pb_raft_entry *m = msg;

    return number_size((uint64_t)m->type) + number_size(m->term) + number_size(m->index) +
           field_size(m->data);
}

static uint8_t *raft_entry_put(const void *msg, uint8_t *end)
{
    const struct pb_raft_entry *m = msg;

    end = put_field(end, 4, m->data);
    end = put_number(end, 3, m->index);
    end = put_number(end, 2, m->term);
    return put_number(end, 1, (uint64_t)m->type);
}

const struct pb_by_hand pb_raft_entry_by_hand = {raft_entry_take, raft_entry_size, raft_entry_put};
