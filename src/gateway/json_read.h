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
