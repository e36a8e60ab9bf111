/*
 * pb_int: what the files of this room share and nobody else needs.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "pb/schema.h"

/*
 * The tables speak of members by offset. These types may look at a pointer or a list of any kind,
 * which strict aliasing otherwise forbids.
 */
typedef void *__attribute__((may_alias)) pb_any_pointer;
struct pb_any_list {
    uint8_t *at;
    size_t count;
} __attribute__((may_alias));
struct pb_any_array {
    size_t count;
    uint8_t at[];
} __attribute__((may_alias));

/* A list of either kind; `at` is where it stands in the struct. */
static inline struct pb_any_list pb_load_list(const struct pb_field *field, const void *at)
{
    if (field->place == PB_LIST)
        return *(const struct pb_any_list *)at;
    struct pb_any_array *array = (void *)at;
    return (struct pb_any_list){array->at, array->count};
}

/* A message that stands alone and is present. */
static inline const void *pb_load_message(const struct pb_field *field, const void *at)
{
    return field->place == PB_INSIDE ? at : *(const pb_any_pointer *)at;
}

/* What one element of a list takes in memory. */
static inline size_t pb_element_size(const struct pb_field *field)
{
    switch (field->kind) {
    case PB_BOOL:
        return sizeof(bool);
    case PB_INT64:
    case PB_UINT64:
        return sizeof(uint64_t);
    case PB_BYTES:
    case PB_STRING:
        return sizeof(struct bytes);
    case PB_MESSAGE:
        return field->sub->size;
    default:
        return sizeof(uint32_t);
    }
}

/* A number as the varint it becomes; a negative enum is ten bytes long, as a negative int64 is. */
static inline uint64_t pb_load_number(const struct pb_field *field, const void *at)
{
    switch (field->kind) {
    case PB_BOOL:
        return *(const bool *)at;
    case PB_INT64:
    case PB_UINT64:
        return *(const uint64_t *)at;
    case PB_UINT32:
        return *(const uint32_t *)at;
    default:
        return (uint64_t)(int64_t)*(const int32_t *)at;
    }
}

/* Is a field that stands alone different from zero, from nothing, from NULL? */
static inline bool pb_is_set(const struct pb_field *field, const void *at)
{
    if (field->kind == PB_MESSAGE)
        return *(const pb_any_pointer *)at != NULL;
    if (field->kind >= PB_BYTES)
        return ((const struct bytes *)at)->len > 0;
    return pb_load_number(field, at) != 0;
}

/* Is anything in a message that is part of another different from zero? */
bool pb_is_inside(const struct pb_schema *schema, const uint8_t *msg);

/* Is there anything to write for this field? The order of the questions is that of frequency. */
static inline bool pb_is_present(const struct pb_field *field, const void *msg)
{
    const uint8_t *base = msg;

    if (field->place == PB_SINGLE)
        return pb_is_set(field, base + field->offset);
    if (field->place == PB_LIST)
        return ((const struct pb_any_list *)(const void *)(base + field->offset))->count > 0;
    if (field->place == PB_ONEOF)
        return *(const unsigned *)(const void *)(base + field->which_offset) == field->number;
    if (field->place == PB_ARRAY)
        return *(const size_t *)(const void *)(base + field->offset) > 0;
    if (field->place == PB_INSIDE)
        return pb_is_inside(field->sub, base + field->offset);
    return true;
}

/*
 * Hand-written codecs, for the messages that every put is made of (hand.c). They
 * are for messages without sub-messages or lists; those that contain them (Txn,
 * InternalRaftRequest) go through the tables and meet these at the leaves.
 */
extern const struct pb_by_hand pb_response_header_by_hand;
extern const struct pb_by_hand pb_request_header_by_hand;
extern const struct pb_by_hand pb_key_value_by_hand;
extern const struct pb_by_hand pb_range_request_by_hand;
extern const struct pb_by_hand pb_put_request_by_hand;
extern const struct pb_by_hand pb_delete_range_request_by_hand;
extern const struct pb_by_hand pb_compare_by_hand;

/* The codec with all of those set aside, so that tests have something to hold them against. */
MUST_CHECK enum err pb_decode_by_table(const struct pb_schema *schema, struct bytes wire,
                                       struct arena *arena, void *out);
void pb_encode_by_table(const struct pb_schema *schema, const void *msg, struct buf *out);
