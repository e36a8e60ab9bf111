/*
 * Any bytes as a message from a peer, and as what a log and its snapshots hold. The first byte
 * chooses. Decoding stays within its memory, by hand and by table alike; what is accepted survives
 * being encoded and decoded again; and a clone of it outlives the frame it came in.
 */
#include "base/assert.h"
#include "entry/entry.h"
#include "pb/codec.h"
#include "pb/pb_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct pb_schema *schema, const void *one, const void *other)
{
    struct buf a = {0}, b = {0};

    pb_encode(schema, one, &a);
    pb_encode_by_table(schema, other, &b);
    assert(bytes_equal(buf_bytes(&a), buf_bytes(&b)));
    assert(pb_encoded_size(schema, one) == a.len);
    buf_free(&a);
    buf_free(&b);
}

static void check_again(const struct pb_schema *schema, const void *msg, struct arena *arena)
{
    struct buf wire = {0};
    void *again = arena_alloc(arena, schema->size);

    pb_encode(schema, msg, &wire);
    enum err e = pb_decode(schema, buf_bytes(&wire), arena, again);
    assert(e == ERR_OK);
    check_same(schema, msg, again);
    buf_free(&wire);
}

static void check_any(const struct pb_schema *schema, struct bytes wire, struct arena *arena)
{
    void *msg = arena_alloc(arena, schema->size), *other = arena_alloc(arena, schema->size);
    size_t before = arena->total_bytes;

    enum err e = pb_decode(schema, wire, arena, msg);
    assert(arena->total_bytes - before <= PB_ARENA_FLOOR + PB_ARENA_FACTOR * wire.len +
                                              PB_ARENA_LEVEL * (size_t)schema->depth_max);
    enum err by_table = pb_decode_by_table(schema, wire, arena, other);
    assert(e == by_table);
    check_same(schema, msg, other);
    if (e == ERR_OK)
        check_again(schema, msg, arena);
}

/* As a peer room does it: a frame, a message in it, storage that keeps a clone. */
static void check_message(struct bytes wire, struct arena *arena)
{
    struct blob *frame = blob_copy(wire);
    struct raft_message m;

    if (raft_message_decode(frame, blob_bytes(frame), arena, &m) == ERR_OK) {
        struct buf before = {0}, after = {0};
        struct raft_message *clone = raft_message_clone(&m);

        raft_message_encode(&m, &before);
        arena_reset(arena);
        blob_unref(frame);
        frame = NULL;
        raft_message_encode(clone, &after);
        assert(bytes_equal(buf_bytes(&before), buf_bytes(&after)));
        raft_message_free(clone);
        buf_free(&before);
        buf_free(&after);
    }
    blob_unref(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
#define LISTED(name) &raft_##name##_schema,
    static const struct pb_schema *const schemas[] = {RAFT_MESSAGES(LISTED)};
#undef LISTED
    static struct arena arena;

    if (size == 0)
        return 0;
    struct bytes wire = bytes_of(data + 1, size - 1);
    size_t which = data[0] % (ARRAY_LEN(schemas) + 1);
    if (which < ARRAY_LEN(schemas))
        check_any(schemas[which], wire, &arena);
    else
        check_message(wire, &arena);
    arena_reset(&arena);
    return 0;
}
