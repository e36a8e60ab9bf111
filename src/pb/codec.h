/*
 * codec: protobuf bytes to our own plain structs, and back.
 *
 * Every message of the etcd API and of the files on disk has a plain struct (etcd_messages.h,
 * file_messages.h; raft's own are in entry/entry.h) and a table of its fields (schema.h). One
 * decoder and one encoder read those tables; for the few messages that every put and every append
 * is made of, hand-written code fills the same structs faster, behind the same functions.
 *
 *     wire --pb_decode--> a struct of the caller's: views into the wire, lists in an arena
 *     struct --pb_encode--> wire: ascending field numbers, shortest varints, no zeros
 *
 * Use        struct pb_put_request req;
 *            enum err e = pb_decode_put_request(wire, &call->arena, &req);
 *            ...
 *            pb_encode_put_request(&req, &out);
 *
 * Promises   1. Any bytes at all are safe to decode. The decoder does not recurse: it keeps its own
 *               stack of open messages in the arena, so nesting costs no C stack and is bounded by
 *               the schema's depth_max. There is no separate scan beforehand, because one pass can
 *               check lengths, wire types, depth and UTF-8 where it stands.
 *            2. Memory is bounded: what a message takes from the arena stays below
 *               PB_ARENA_FLOOR + PB_ARENA_FACTOR * wire.len, and each level of nesting costs
 *               PB_ARENA_LEVEL more. Two bytes can ask for an element of 160, and a list in many
 *               pieces for many copies; messages that live on such tricks are ERR_TOO_LARGE.
 *            3. What Go's decoder accepts, refuses, skips or merges, so does this one, but for the
 *               bounds above: unknown fields and groups are skipped, a known field with a wrong
 *               wire type counts as unknown, the last of several values wins, a sub-message in
 *               pieces is merged, lists of numbers may be packed or not, enums keep values nobody
 *               has named, numbers too wide for their field lose their upper bits. In proto3 a
 *               string that is not UTF-8 is refused.
 *            4. Encoding is canonical: equal messages give equal bytes, those that etcd writes.
 *               A bytes field with nothing in it is left out, except in a oneof.
 *
 * Not here   Unknown fields are dropped, not carried along. Services and methods (rpc, api). What
 *            any of it means.
 * Leans on   base alone. protobuf-c sees the .proto files in tests, never in the server.
 */
#pragma once

#include "base/arena.h"
#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "pb/file_messages.h"
#include "pb/schema.h"

/*
 * Fills *out from `wire`, which must outlive it, as must the arena. On error *out is all zeroes:
 * ERR_MALFORMED, ERR_TOO_DEEP, ERR_BAD_UTF8 or ERR_TOO_LARGE.
 */
MUST_CHECK enum err pb_decode(const struct pb_schema *schema, struct bytes wire,
                              struct arena *arena, void *out);

/* Appends the message to `out`. */
void pb_encode(const struct pb_schema *schema, const void *msg, struct buf *out);

/* How many bytes that would be. */
size_t pb_encoded_size(const struct pb_schema *schema, const void *msg);

/* The same bytes in a blob of their own, without a copy in between. The caller owns it. */
struct blob *pb_encode_blob(const struct pb_schema *schema, const void *msg);

/* Appends protobuf's text format, one line for each value that would be encoded: for tests, tools
 * and logs. */
void pb_dump(const struct pb_schema *schema, const void *msg, struct buf *out);

/* Appends what a request is about in one line of bounded length, for logs:
 *
 *     key:"a" range_end:"b" limit:10
 *     compare:<...> success:<request_put:<key:"a" value_size:6>>
 *
 * Of a key's value there is the size; of a password, its hash or a token nothing. */
void pb_describe(const struct pb_schema *schema, const void *msg, struct buf *out);

/* For each message NAME: pb_NAME_schema, and the same two doors with types that are checked. */
#define PB_DECLARE(name, type)                                                                     \
    extern const struct pb_schema pb_##name##_schema;                                              \
    MUST_CHECK static inline enum err pb_decode_##name(struct bytes wire, struct arena *arena,     \
                                                       struct type *out)                           \
    {                                                                                              \
        return pb_decode(&pb_##name##_schema, wire, arena, out);                                   \
    }                                                                                              \
    static inline void pb_encode_##name(const struct type *msg, struct buf *out)                   \
    {                                                                                              \
        pb_encode(&pb_##name##_schema, msg, out);                                                  \
    }

PB_KV_MESSAGES(PB_DECLARE)
PB_ADMIN_MESSAGES(PB_DECLARE)
PB_FILE_MESSAGES(PB_DECLARE)
#undef PB_DECLARE
