/*
 * schema_rows: the words in which the field tables are written; only schema_*.c include this, and
 * entry/schema.c, which has its own structs and says so by defining ROWS_OF first.
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

/* The struct that OWNER stands for is ROWS_OF(OWNER), and a message's schema begins like that. */
#ifndef ROWS_OF
#define ROWS_OF(name) pb_##name

/* Which struct each message uses, so that rows can be held against it. */
#define NAME_STRUCT(name, type) typedef struct type name##_struct;
PB_KV_MESSAGES(NAME_STRUCT)
PB_ADMIN_MESSAGES(NAME_STRUCT)
PB_FILE_MESSAGES(NAME_STRUCT)
#undef NAME_STRUCT
#endif

#define JOIN_NOW(a, b)    a##b
#define JOIN(a, b)        JOIN_NOW(a, b)
#define SCHEMA_OF(c_name) JOIN(ROWS_OF(c_name), _schema)

#define MEMBER(owner, member) ((struct ROWS_OF(owner) *)0)->member
#define OFFSET(owner, member, type)                                                                \
    (offsetof(struct ROWS_OF(owner), member) +                                                     \
     0 * sizeof(struct {                                                                           \
         static_assert(__builtin_types_compatible_p(__typeof__(MEMBER(owner, member)), type),      \
                       "row and member agree");                                                    \
         int unused;                                                                               \
     }))
#define OFFSET_LIST(owner, member, type)                                                           \
    (offsetof(struct ROWS_OF(owner), member) +                                                     \
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
#define WHICH(owner) .which_offset = offsetof(struct ROWS_OF(owner), which)

#define F_BOOL(o, n, m, ...)   {ROW(o, n, m, PB_BOOL, PB_SINGLE, bool, ##__VA_ARGS__)}
#define F_INT64(o, n, m, ...)  {ROW(o, n, m, PB_INT64, PB_SINGLE, int64_t, ##__VA_ARGS__)}
#define F_UINT64(o, n, m, ...) {ROW(o, n, m, PB_UINT64, PB_SINGLE, uint64_t, ##__VA_ARGS__)}
#define F_UINT32(o, n, m, ...) {ROW(o, n, m, PB_UINT32, PB_SINGLE, uint32_t, ##__VA_ARGS__)}
#define F_BYTES(o, n, m, ...)  {ROW(o, n, m, PB_BYTES, PB_SINGLE, struct bytes, ##__VA_ARGS__)}
#define F_STRING(o, n, m, ...) {ROW(o, n, m, PB_STRING, PB_SINGLE, struct bytes, ##__VA_ARGS__)}
#define F_ENUM(o, n, m, e, ...)                                                                    \
    {ROW(o, n, m, PB_ENUM, PB_SINGLE, int32_t, ##__VA_ARGS__), .choices = &e##_enum}
#define F_MESSAGE(o, n, m, s, ...)                                                                 \
    {ROW(o, n, m, PB_MESSAGE, PB_SINGLE, const s##_struct *, ##__VA_ARGS__), .sub = &SCHEMA_OF(s)}

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
    {ROW(o, n, m, PB_MESSAGE, PB_ONEOF, const s##_struct *, ##__VA_ARGS__), .sub = &SCHEMA_OF(s),  \
     WHICH(o)}

#define LIST_UINT64(o, n, m, ...) {ROW_LIST(o, n, m, PB_UINT64, uint64_t, ##__VA_ARGS__)}
#define LIST_BYTES(o, n, m, ...)  {ROW_LIST(o, n, m, PB_BYTES, struct bytes, ##__VA_ARGS__)}
#define LIST_STRING(o, n, m, ...) {ROW_LIST(o, n, m, PB_STRING, struct bytes, ##__VA_ARGS__)}
#define LIST_ENUM(o, n, m, e, ...)                                                                 \
    {ROW_LIST(o, n, m, PB_ENUM, int32_t, ##__VA_ARGS__), .choices = &e##_enum}
#define LIST_MESSAGE(o, n, m, s, ...)                                                              \
    {ROW_LIST(o, n, m, PB_MESSAGE, s##_struct, ##__VA_ARGS__), .sub = &SCHEMA_OF(s)}

/* A list in the struct itself: its count, and right behind it the elements. */
#define ROW_ARRAY(owner, nr, count, member, how, type, ...)                                        \
    .name = NAME(member, ##__VA_ARGS__), .number = (nr), .kind = (how), .place = PB_ARRAY,         \
    .max = ARRAY_LEN(MEMBER(owner, member)),                                                       \
    .offset = OFFSET(owner, count, size_t) +                                                       \
              0 * sizeof(struct {                                                                  \
                  static_assert(                                                                   \
                      __builtin_types_compatible_p(__typeof__(MEMBER(owner, member)[0]), type),    \
                      "row and array agree");                                                      \
                  static_assert(offsetof(struct ROWS_OF(owner), member) ==                         \
                                    offsetof(struct ROWS_OF(owner), count) + sizeof(size_t),       \
                                "the count stands before the array");                              \
                  int unused;                                                                      \
              })
/* A list whose count has a name of its own, and stands behind the pointer. */
#define ROW_COUNTED(owner, nr, member, count, how, type, ...)                                      \
    .name = NAME(member, ##__VA_ARGS__), .number = (nr), .kind = (how), .place = PB_LIST,          \
    .offset = OFFSET(owner, member, const type *) +                                                \
              0 * sizeof(struct {                                                                  \
                  static_assert(offsetof(struct ROWS_OF(owner), count) ==                          \
                                    offsetof(struct ROWS_OF(owner), member) + sizeof(void *),      \
                                "the count stands behind the pointer");                            \
                  int unused;                                                                      \
              })

#define ENUM(c_name, proto_name, ...)                                                              \
    static const struct pb_enum_value c_name##_values[] = {__VA_ARGS__};                           \
    static const struct pb_enum c_name##_enum = {                                                  \
        .name = (proto_name), .values = c_name##_values, .count = ARRAY_LEN(c_name##_values)}

/* A message whose struct is that of OWNER; most have the rows OWNER_rows. */
#define SCHEMA_ROWS(c_name, proto_name, owner, rows, depth, hand, is_proto2, words)                \
    static_assert(__builtin_types_compatible_p(c_name##_struct, struct ROWS_OF(owner)),            \
                  "the message list and the rows mean the same struct");                           \
    const struct pb_schema SCHEMA_OF(c_name) = {.name = (proto_name),                              \
                                                .fields = (rows),                                  \
                                                .by_hand = (hand),                                 \
                                                .field_count = ARRAY_LEN(rows),                    \
                                                .size = sizeof(struct ROWS_OF(owner)),             \
                                                .depth_max = (depth),                              \
                                                .proto2 = (is_proto2),                             \
                                                .of_words = (words)}

#define SCHEMA(c_name, proto_name, owner, ...)                                                     \
    SCHEMA_ROWS(c_name, proto_name, owner, owner##_rows, __VA_ARGS__)

#define MESSAGE(c_name, proto_name, owner)                                                         \
    SCHEMA(c_name, proto_name, owner, PB_DEPTH_MAX, NULL, false, false)
#define MESSAGE_BY_HAND(c_name, proto_name, owner)                                                 \
    SCHEMA(c_name, proto_name, owner, PB_DEPTH_MAX, &pb_##c_name##_by_hand, false, false)
#define MESSAGE_DEEP(c_name, proto_name, owner)                                                    \
    SCHEMA(c_name, proto_name, owner, PB_LOG_DEPTH_MAX, NULL, false, false)
/* Of thirty commands one is there, so absent ones must be passed over quickly. */
#define MESSAGE_OF_COMMANDS(c_name, proto_name, owner)                                             \
    static_assert(sizeof(struct ROWS_OF(owner)) == 8 * ARRAY_LEN(owner##_rows), "a word each");    \
    SCHEMA(c_name, proto_name, owner, PB_LOG_DEPTH_MAX, NULL, false, true)
#define MESSAGE_PROTO2(c_name, proto_name, owner)                                                  \
    SCHEMA(c_name, proto_name, owner, PB_DEPTH_MAX, NULL, true, false)
#define MESSAGE_EMPTY(c_name, proto_name)                                                          \
    const struct pb_schema SCHEMA_OF(c_name) = {.name = (proto_name),                              \
                                                .fields = no_rows,                                 \
                                                .size = sizeof(c_name##_struct),                   \
                                                .depth_max = PB_DEPTH_MAX}

/* Not NULL, so that loops may run from here to here. */
static const struct pb_field no_rows[1] __attribute__((unused));
