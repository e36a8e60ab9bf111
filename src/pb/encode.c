#include "base/assert.h"
#include "pb/codec.h"
#include "pb/pb_int.h"
#include "pb/wire.h"

/*
 * Two walks over the message: the first adds up its size, so that memory is taken once; the second
 * writes it from the last byte to the first, so that a sub-message is finished when its length is
 * due. Both recurse, over structs that we built or that the decoder has bounded.
 */

static size_t message_size(const struct pb_schema *schema, const uint8_t *msg, bool by_table);
static uint8_t *put_message(const struct pb_schema *schema, const uint8_t *msg, uint8_t *end,
                            bool by_table);

/* ---- What is in the struct ---- */

static struct bytes load_bytes(const uint8_t *at)
{
    return *(const struct bytes *)(const void *)at;
}

/* Only for messages that are present: a oneof may not name a member and leave it NULL. */
static const uint8_t *load_message(const struct pb_field *field, const uint8_t *at)
{
    const uint8_t *sub = pb_load_message(field, at);

    assert(sub != NULL);
    return sub;
}

static uint32_t tag_of(const struct pb_field *field)
{
    return field->kind < PB_BYTES ? PB_TAG_VARINT(field->number) : PB_TAG_BYTES(field->number);
}

static bool is_packed(const struct pb_schema *schema, const struct pb_field *field)
{
    return field->kind < PB_BYTES && !schema->proto2;
}

typedef const uint64_t __attribute__((may_alias)) any_word;

/* The first field from row i on that there is anything to write for; field_count behind the last.
 */
static size_t present_from(const struct pb_schema *schema, const uint8_t *msg, size_t i)
{
    size_t count = schema->field_count;

    if (schema->of_words) {
        any_word *words = (const void *)msg;
        while (i < count && !words[i])
            i++;
        return i;
    }
    while (i < count && !pb_is_present(&schema->fields[i], msg))
        i++;
    return i;
}

/* One more than the last such field before row i; 0 before the first. */
static size_t present_before(const struct pb_schema *schema, const uint8_t *msg, size_t i)
{
    if (schema->of_words) {
        any_word *words = (const void *)msg;
        while (i > 0 && !words[i - 1])
            i--;
        return i;
    }
    while (i > 0 && !pb_is_present(&schema->fields[i - 1], msg))
        i--;
    return i;
}

/* ---- Sizes ---- */

/* One value with its length but without its tag. `at` is the message itself, not a pointer to it.
 */
static size_t value_size(const struct pb_field *field, const uint8_t *at, bool by_table)
{
    if (field->kind < PB_BYTES)
        return pb_varint_size(pb_load_number(field, at));
    if (field->kind == PB_MESSAGE)
        return pb_bytes_size(message_size(field->sub, at, by_table));
    return pb_bytes_size(load_bytes(at).len);
}

static size_t list_values_size(const struct pb_field *field, const struct pb_any_list *list,
                               bool by_table)
{
    size_t size = 0;

    for (size_t i = 0; i < list->count; i++)
        size += value_size(field, list->at + i * pb_element_size(field), by_table);
    return size;
}

static size_t list_size(const struct pb_schema *schema, const struct pb_field *field,
                        const struct pb_any_list *list, bool by_table)
{
    size_t tag_size = pb_varint_size(tag_of(field));
    size_t values = list_values_size(field, list, by_table);
    return is_packed(schema, field) ? tag_size + pb_bytes_size(values)
                                    : tag_size * list->count + values;
}

static size_t message_size(const struct pb_schema *schema, const uint8_t *msg, bool by_table)
{
    size_t i = 0, size = 0;

    if (schema->by_hand && !by_table)
        return schema->by_hand->size(msg);
    while ((i = present_from(schema, msg, i)) < schema->field_count) {
        const struct pb_field *f = &schema->fields[i++];
        const uint8_t *at = msg + f->offset;
        if (f->place >= PB_LIST) {
            struct pb_any_list list = pb_load_list(f, at);
            size += list_size(schema, f, &list, by_table);
        } else {
            at = f->kind == PB_MESSAGE ? load_message(f, at) : at;
            size += pb_varint_size(tag_of(f)) + value_size(f, at, by_table);
        }
    }
    return size;
}

/* ---- Bytes ---- */

static uint8_t *put_value(const struct pb_field *field, const uint8_t *at, uint8_t *end,
                          bool by_table)
{
    if (field->kind < PB_BYTES)
        return pb_put_varint(end, pb_load_number(field, at));
    if (field->kind != PB_MESSAGE)
        return pb_put_bytes(end, load_bytes(at));
    uint8_t *start = put_message(field->sub, at, end, by_table);
    return pb_put_varint(start, (size_t)(end - start));
}

static uint8_t *put_list(const struct pb_schema *schema, const struct pb_field *field,
                         const struct pb_any_list *list, uint8_t *end, bool by_table)
{
    bool packed = is_packed(schema, field);
    uint8_t *start = end;

    for (size_t i = list->count; i-- > 0;) {
        start = put_value(field, list->at + i * pb_element_size(field), start, by_table);
        if (!packed)
            start = pb_put_varint(start, tag_of(field));
    }
    if (!packed)
        return start;
    start = pb_put_varint(start, (size_t)(end - start));
    return pb_put_varint(start, PB_TAG_BYTES(field->number));
}

static uint8_t *put_message(const struct pb_schema *schema, const uint8_t *msg, uint8_t *end,
                            bool by_table)
{
    size_t i = schema->field_count;

    if (schema->by_hand && !by_table)
        return schema->by_hand->put(msg, end);
    while ((i = present_before(schema, msg, i)) > 0) {
        const struct pb_field *f = &schema->fields[--i];
        const uint8_t *at = msg + f->offset;
        if (f->place >= PB_LIST) {
            struct pb_any_list list = pb_load_list(f, at);
            end = put_list(schema, f, &list, end, by_table);
        } else {
            at = f->kind == PB_MESSAGE ? load_message(f, at) : at;
            end = pb_put_varint(put_value(f, at, end, by_table), tag_of(f));
        }
    }
    return end;
}

/* ---- The doors ---- */

static void encode(const struct pb_schema *schema, const void *msg, struct buf *out, bool by_table)
{
    size_t size = message_size(schema, msg, by_table);

    if (size == 0)
        return;
    uint8_t *at = buf_extend(out, size);
    uint8_t *start = put_message(schema, msg, at + size, by_table);
    assert(start == at);
}

size_t pb_encoded_size(const struct pb_schema *schema, const void *msg)
{
    return message_size(schema, msg, false);
}

struct blob *pb_encode_blob(const struct pb_schema *schema, const void *msg)
{
    size_t size = message_size(schema, msg, false);
    uint8_t *at;
    struct blob *b = blob_new(size, &at);
    uint8_t *start = put_message(schema, msg, at + size, false);

    assert(start == at);
    return b;
}

void pb_encode(const struct pb_schema *schema, const void *msg, struct buf *out)
{
    encode(schema, msg, out, false);
}

void pb_encode_by_table(const struct pb_schema *schema, const void *msg, struct buf *out)
{
    encode(schema, msg, out, true);
}
