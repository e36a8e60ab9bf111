/*
 * json_read: a message in JSON becomes the same message in protobuf's bytes, by pb's tables.
 *
 * In between there is no struct: fields go to the wire in the order in which they came, and whoever
 * is called with it decodes it as if it had come over gRPC. The rules are those of Go's protojson,
 * as etcd's gateway has set it:
 *
 *     names      as in the .proto file or in lowerCamelCase; what is unknown is passed over
 *     twice      a field that is there twice is refused, and so are two of one oneof
 *     null       for a field is as if it were not there
 *     numbers    of 64 bits as such or in a string; 1e3 and 1.0 are whole; too large is refused
 *     bytes      base64 of either alphabet, padded or not
 *     enums      by name or number; a name nobody knows counts as absent
 *
 * Promises   1. Any text whose syntax json_scan has found good is safe. There is no recursion, and
 *               memory is bounded by a multiple of the text's length.
 *            2. What is refused is refused in protojson's words, with line and column.
 *            3. In steps or at once, the result is the same.
 * Not here   The syntax (json_scan.h).
 * Leans on   pb's tables and wire.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "pb/schema.h"

/* Appends to `out` the bytes that `text`, whole and of good syntax, stands for. ERR_MALFORMED: and
 * to `why` the reason instead. */
MUST_CHECK enum err json_read(const struct pb_schema *schema, struct bytes text, struct buf *out,
                              struct buf *why);

/* The same in steps, for texts that would take too long at once. */
struct json_reader; /* opaque */

struct json_reader *json_reader_new(const struct pb_schema *schema);
void json_reader_free(struct json_reader *r); /* NULL is fine */

enum json_read_result { JSON_READ_MORE, JSON_READ_DONE, JSON_READ_BAD };

/* Goes on for about so many bytes of the text, and takes them from *work; a string is read as a
 * whole. The text is the same each time, though it may lie elsewhere. */
enum json_read_result json_reader_go_on(struct json_reader *r, struct bytes text, size_t *work,
                                        struct buf *out, struct buf *why);
