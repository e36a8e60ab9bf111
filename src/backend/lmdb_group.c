#include "backend/lmdb_int.h"

#include "base/assert.h"

enum { HEAD_BYTES = 8 };

static uint32_t take_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void append_u32(struct buf *out, size_t number)
{
    for (int shift = 0; shift < 32; shift += 8)
        buf_append_byte(out, (uint8_t)(number >> shift));
}

bool lmdb_group_take(struct bytes *left, struct bytes *name, struct bytes *value)
{
    if (left->len < HEAD_BYTES)
        return false;
    size_t name_len = take_u32(left->at);
    size_t value_len = take_u32(left->at + 4);
    size_t rest = left->len - HEAD_BYTES;
    if (name_len < GROUP_KEY_BYTES || name_len > rest || value_len > rest - name_len)
        return false;
    *name = bytes_of(left->at + HEAD_BYTES, name_len);
    *value = bytes_of(name->at + name_len, value_len);
    *left = bytes_of(value->at + value_len, rest - name_len - value_len);
    return true;
}

enum err lmdb_group_get(struct bytes group, struct bytes name, struct bytes *value)
{
    while (group.len > 0) {
        struct bytes found_name, found_value;
        if (!lmdb_group_take(&group, &found_name, &found_value))
            return ERR_CORRUPT;
        if (bytes_equal(found_name, name)) {
            *value = found_value;
            return ERR_OK;
        }
    }
    return ERR_NOT_FOUND;
}

static void append_item(struct buf *out, struct bytes name, struct bytes value)
{
    append_u32(out, name.len);
    append_u32(out, value.len);
    buf_append(out, name);
    buf_append(out, value);
}

enum err lmdb_group_change(struct bytes group, struct bytes name, const struct bytes *value,
                           struct buf *out)
{
    bool pending = value; /* not written yet */

    assert(group_holds(name));
    while (group.len > 0) {
        struct bytes old_name, old_value;
        if (!lmdb_group_take(&group, &old_name, &old_value))
            return ERR_CORRUPT;
        int order = bytes_compare(name, old_name);
        if (pending && order <= 0) {
            append_item(out, name, *value);
            pending = false;
        }
        if (order != 0)
            append_item(out, old_name, old_value);
    }
    if (pending)
        append_item(out, name, *value);
    return ERR_OK;
}
