/*
 * json_write: a message in protobuf's bytes becomes the same message in JSON, by pb's tables, as it
 * comes.
 *
 * A range may be a gigabyte, and comes in chunks that are cut anywhere; each becomes text at once,
 * and nothing of it is kept but a few bytes of what was cut through, and a string, which in no
 * response is longer than what somebody has typed. The rules are protojson's as etcd's gateway has
 * set it: names as in the .proto file, zeros left out, numbers of 64 bits in quotes, bytes in
 * base64 with padding, enums by name.
 *
 *     json_write_begin(w, schema, length); while there is more: json_write(w, piece, out)
 *
 * What comes is the core's own and well-formed (asserted): fields in ascending order, the members
 * of a list one after the other. Leans on   pb's tables and wire, base's json.
 */
#pragma once

#include "base/json.h"
#include "pb/schema.h"

struct json_write_frame;

/* All zeroes is ready. */
struct json_write {
    struct json json; /* `out` is set for the time of a call */
    struct json_write_frame *frames;
    size_t depth, cap;
    uint64_t at;    /* bytes of the message so far */
    unsigned state; /* json_write.c */
    uint64_t varint;
    unsigned shift;
    const struct pb_field *field; /* whose value is being read */
    uint64_t left;                /* of its content */
    struct buf text;              /* a string so far */
    uint8_t carry[3];             /* bytes that do not make up four digits yet */
    uint8_t carried;
    bool is_over;
};

void json_write_free(struct json_write *w);

/* A message of so many bytes follows; begins its text. The last one is over. */
void json_write_begin(struct json_write *w, const struct pb_schema *schema, uint64_t length,
                      struct buf *out);

/* Its next bytes, never more than are left of it (asserted). The text is whole when they are. */
void json_write(struct json_write *w, struct bytes piece, struct buf *out);

static inline bool json_write_is_over(const struct json_write *w)
{
    return w->is_over;
}
