/*
 * schema_rows: the words in which the field tables are written; only schema_*.c include this.
 *
 * A row names the struct, the field number and the member. The name in the .proto file is the
 * member's own unless another one is given last. A member whose type does not fit its row does not
 * compile, so the codec never reads a bool as a number.
 */
#pragma once

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "pb/codec.h"
#include "pb/pb_int.h"

/* Which struct each message uses, so that rows can be held against it. */
#define NAME_STRUCT(name, type) typedef struct type name##_struct;
PB_KV_MESSAGES(NAME_STRUCT)
PB_ADMIN_MESSAGES(NAME_STRUCT)
PB_RAFT_MESSAGES(NAME_STRUCT)
#undef NAME_STRUCT

#define MEMBER(owner, member) ((struct pb_##owner *)0)->member
#define OFFSET(owner, member, type)                                                                \
    (offsetof(struct pb_##owner, member) +                                                         \
     0 * sizeof(struct {                                                                           \
         static_assert(__builtin_types_compatible_p(__typeof__(MEMBER(owner, member)), type),      \
                       "row and member agree");                                                    \
         int unused;                                                                               \
     }))
#define OFFSET_LIST(owner, member, type)                                                           \
    (offsetof(struct pb_##owner, member) +                                                         \
     0 * sizeof(struct {                                                                           \
         static_assert(                                                                            \
             __builtin_types_compatible_p(__typeof__(MEMBER(owner, member).at), const type *),     \
             "row and list agree");                                                                \
         int unused;                                                                               \
     }))

#define NAME_PICK(nothing, name, ...) name
#define NAME(member, ...)             NAME_PICK(, ##__VA_ARGS__, #member, )

#define ROW(owner, nr, member, how, where, type, ...)                                              \
    .name = NAME(member, ##__VA_ARGS__), .number = (nr), .kind = (how), .place = (where),          \
    .offset = OFFSET(owner, member, type)
#define ROW_LIST(owner, nr, member, how, type, ...)                                                \
    .name = NAME(member, ##__VA_ARGS__), .number = (nr), .kind = (how), .place = PB_LIST,          \
    .offset = OFFSET_LIST(owner, member, type)
#define WHICH(owner) .which_offset = offsetof(struct pb_##owner, which)

#define F_BOOL(o, n, m, ...)   {ROW(o, n, m, PB_BOOL, PB_SINGLE, bool, ##__VA_ARGS__)}
#define F_INT64(o, n, m, ...)  {ROW(o, n, m, PB_INT64, PB_SINGLE, int64_t, ##__VA_ARGS__)}
#define F_UINT64(o, n, m, ...) {ROW(o, n, m, PB_UINT64, PB_SINGLE, uint64_t, ##__VA_ARGS__)}
#define F_UINT32(o, n, m, ...) {ROW(o, n, m, PB_UINT32, PB_SINGLE, uint32_t, ##__VA_ARGS__)}
#define F_BYTES(o, n, m, ...)  {ROW(o, n, m, PB_BYTES, PB_SINGLE, struct bytes, ##__VA_ARGS__)}
#define F_STRING(o, n, m, ...) {ROW(o, n, m, PB_STRING, PB_SINGLE, struct bytes, ##__VA_ARGS__)}
#define F_ENUM(o, n, m, e, ...)                                                                    \
    {ROW(o, n, m, PB_ENUM, PB_SINGLE, int32_t, ##__VA_ARGS__), .choices = &e##_enum}
#define F_MESSAGE(o, n, m, s, ...)                                                                 \
    {ROW(o, n, m, PB_MESSAGE, PB_SINGLE, const s##_struct *, ##__VA_ARGS__),                       \
     .sub = &pb_##s##_schema}

#define ALWAYS_BOOL(o, n, m, ...)   {ROW(o, n, m, PB_BOOL, PB_ALWAYS, bool, ##__VA_ARGS__)}
#define ALWAYS_INT64(o, n, m, ...)  {ROW(o, n, m, PB_INT64, PB_ALWAYS, int64_t, ##__VA_ARGS__)}
#define ALWAYS_UINT64(o, n, m, ...) {ROW(o, n, m, PB_UINT64, PB_ALWAYS, uint64_t, ##__VA_ARGS__)}
#define ALWAYS_UINT32(o, n, m, ...) {ROW(o, n, m, PB_UINT32, PB_ALWAYS, uint32_t, ##__VA_ARGS__)}
#define ALWAYS_STRING(o, n, m, ...)                                                                \
    {ROW(o, n, m, PB_STRING, PB_ALWAYS, struct bytes, ##__VA_ARGS__)}
#define ALWAYS_ENUM(o, n, m, e, ...)                                                               \
    {ROW(o, n, m, PB_ENUM, PB_ALWAYS, int32_t, ##__VA_ARGS__), .choices = &e##_enum}

#define ONE_INT64(o, n, m, ...) {ROW(o, n, m, PB_INT64, PB_ONEOF, int64_t, ##__VA_ARGS__), WHICH(o)}
#define ONE_BYTES(o, n, m, ...)                                                                    \
    {ROW(o, n, m, PB_BYTES, PB_ONEOF, struct bytes, ##__VA_ARGS__), WHICH(o)}
#define ONE_MESSAGE(o, n, m, s, ...)                                                               \
    {ROW(o, n, m, PB_MESSAGE, PB_ONEOF, const s##_struct *, ##__VA_ARGS__),                        \
     .sub = &pb_##s##_schema, WHICH(o)}

#define LIST_UINT64(o, n, m, ...) {ROW_LIST(o, n, m, PB_UINT64, uint64_t, ##__VA_ARGS__)}
#define LIST_BYTES(o, n, m, ...)  {ROW_LIST(o, n, m, PB_BYTES, struct bytes, ##__VA_ARGS__)}
#define LIST_STRING(o, n, m, ...) {ROW_LIST(o, n, m, PB_STRING, struct bytes, ##__VA_ARGS__)}
#define LIST_ENUM(o, n, m, e, ...)                                                                 \
    {ROW_LIST(o, n, m, PB_ENUM, int32_t, ##__VA_ARGS__), .choices = &e##_enum}
#define LIST_MESSAGE(o, n, m, s, ...)                                                              \
    {ROW_LIST(o, n, m, PB_MESSAGE, s##_struct, ##__VA_ARGS__), .sub = &pb_##s##_schema}

#define ENUM(c_name, proto_name, ...)                                                              \
    static const struct pb_enum_value c_name##_values[] = {__VA_ARGS__};                           \
    static const struct pb_enum c_name##_enum = {                                                  \
        .name = (proto_name), .values = c_name##_values, .count = ARRAY_LEN(c_name##_values)}

/* A message whose rows are OWNER_rows and whose struct is pb_OWNER. */
#define SCHEMA(c_name, proto_name, owner, depth, hand, is_proto2, words)                           \
    static_assert(__builtin_types_compatible_p(c_name##_struct, struct pb_##owner),                \
                  "the message list and the rows mean the same struct");                           \
    const struct pb_schema pb_##c_name##_schema = {.name = (proto_name),                           \
                                                   .fields = owner##_rows,                         \
                                                   .by_hand = (hand),                              \
                                                   .field_count = ARRAY_LEN(owner##_rows),         \
                                                   .size = sizeof(struct pb_##owner),              \
                                                   .depth_max = (depth),                           \
                                                   .proto2 = (is_proto2),                          \
                                                   .of_words = (words)}

#define MESSAGE(c_name, proto_name, owner)                                                         \
    SCHEMA(c_name, proto_name, owner, PB_DEPTH_MAX, NULL, false, false)
#define MESSAGE_BY_HAND(c_name, proto_name, owner)                                                 \
    SCHEMA(c_name, proto_name, owner, PB_DEPTH_MAX, &pb_##c_name##_by_hand, false, false)
#define MESSAGE_DEEP(c_name, proto_name, owner)                                                    \
    SCHEMA(c_name, proto_name, owner, PB_LOG_DEPTH_MAX, NULL, false, false)
/* Of thirty commands one is there, so absent ones must be passed over quickly. */
#define MESSAGE_OF_COMMANDS(c_name, proto_name, owner)                                             \
    static_assert(sizeof(struct pb_##owner) == 8 * ARRAY_LEN(owner##_rows), "a word each");        \
    SCHEMA(c_name, proto_name, owner, PB_LOG_DEPTH_MAX, NULL, false, true)
#define MESSAGE_PROTO2(c_name, proto_name, owner)                                                  \
    SCHEMA(c_name, proto_name, owner, PB_DEPTH_MAX, NULL, true, false)
#define MESSAGE_PROTO2_BY_HAND(c_name, proto_name, owner)                                          \
    SCHEMA(c_name, proto_name, owner, PB_DEPTH_MAX, &pb_##c_name##_by_hand, true, false)
#define MESSAGE_EMPTY(c_name, proto_name)                                                          \
    const struct pb_schema pb_##c_name##_schema = {.name = (proto_name),                           \
                                                   .fields = no_rows,                              \
                                                   .size = sizeof(c_name##_struct),                \
                                                   .depth_max = PB_DEPTH_MAX}

/* Not NULL, so that loops may run from here to here. */
static const struct pb_field no_rows[1] __attribute__((unused));
