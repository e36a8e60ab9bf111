/*
 * schema: what a message looks like, as data.
 *
 * One row per field says where on the wire it is and where in the plain struct it goes. The codec,
 * the text dump, the tests and whoever turns messages into JSON all read the same rows, so a field
 * is described once. The rows are written by hand (schema_*.c) and a test holds them against
 * descriptors generated from proto/ by an independent compiler.
 */
#pragma once

#include "base/bytes.h"

/* How a value looks in the struct; the order puts everything that is a varint on the wire first. */
enum pb_kind {
    PB_BOOL,    /* bool */
    PB_INT64,   /* int64_t */
    PB_UINT64,  /* uint64_t */
    PB_UINT32,  /* uint32_t */
    PB_ENUM,    /* int32_t, because a peer may know values that we do not */
    PB_BYTES,   /* struct bytes, a view into the wire */
    PB_STRING,  /* struct bytes; in proto3 known to be UTF-8 */
    PB_MESSAGE, /* const struct pb_... *, NULL when absent */
};

/* Where a field stands in its message. */
enum pb_place {
    PB_SINGLE,
    PB_ALWAYS, /* single, and written even when zero, as etcd does with some proto2 fields */
    PB_ONEOF,  /* shares a union; the member at which_offset holds the number of the one set */
    PB_INSIDE, /* a message that is part of the struct, not behind a pointer: it is written when
                  anything in it is not zero */
    PB_LIST,   /* {pointer, count}; messages lie in the array themselves, not behind pointers */
    PB_ARRAY,  /* {count, elements}: a list in the struct itself, of at most `max`, so that it can
                  be copied as a value and needs no arena; more are ERR_TOO_LARGE */
};

struct pb_enum_value {
    int32_t number;
    const char *name;
};

struct pb_enum {
    const char *name; /* with package and outer message, as in "raftpb.EntryType" */
    const struct pb_enum_value *values;
    size_t count;
};

struct pb_field {
    const char *name; /* as in the .proto file */
    union {
        const struct pb_schema *sub;   /* PB_MESSAGE */
        const struct pb_enum *choices; /* PB_ENUM */
    };
    uint32_t number;
    uint16_t offset, which_offset;
    uint8_t kind, place;
    uint16_t max; /* PB_ARRAY: elements there is memory for */
};

/* How a hand-written codec for one message looks; the table-driven one steps aside for it. */
struct pb_reader;
struct pb_by_hand {
    void (*take)(struct pb_reader *r, void *out);   /* reads up to r->end */
    size_t (*size)(const void *msg);                /* of what put will write */
    uint8_t *(*put)(const void *msg, uint8_t *end); /* writes backwards; returns the start */
};

struct pb_schema {
    const char *name;              /* with package, as in "etcdserverpb.PutRequest" */
    const struct pb_field *fields; /* in ascending order of number */
    const struct pb_by_hand *by_hand;
    uint16_t field_count;
    uint16_t size;      /* of the plain struct */
    uint16_t depth_max; /* levels of messages, this one included */
    bool proto2;        /* strings are not checked and lists of numbers are not packed */
    bool of_words;      /* single pointers and 64-bit numbers only, in the order of the rows */
};

/* The row for a field number, or NULL for one we do not know. */
const struct pb_field *pb_find_field(const struct pb_schema *schema, uint32_t number);

/* Every message type of this room, so that tests and tools can walk them. */
extern const struct pb_schema *const pb_schemas[];
extern const size_t pb_schema_count;
