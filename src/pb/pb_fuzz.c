/*
 * Any bytes as any message: the first byte chooses the type, the rest is the wire. Decoding by hand
 * and by table must agree, memory must stay in bounds, and what was accepted must survive being
 * encoded and decoded again.
 */
#include "base/assert.h"
#include "pb/codec.h"
#include "pb/pb_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct pb_schema *schema, const void *msg, struct arena *arena)
{
    struct buf wire = {0}, by_table = {0}, again = {0}, text = {0};
    void *copy = arena_alloc(arena, schema->size);

    pb_encode(schema, msg, &wire);
    pb_encode_by_table(schema, msg, &by_table);
    assert(bytes_equal(buf_bytes(&wire), buf_bytes(&by_table)));
    enum err e = pb_decode(schema, buf_bytes(&wire), arena, copy);
    assert(e == ERR_OK);
    pb_encode(schema, copy, &again);
    assert(bytes_equal(buf_bytes(&wire), buf_bytes(&again)));
    buf_clear(&again);
    pb_dump(schema, msg, &text);
    pb_dump(schema, copy, &again);
    assert(bytes_equal(buf_bytes(&text), buf_bytes(&again)));
    buf_free(&wire);
    buf_free(&by_table);
    buf_free(&again);
    buf_free(&text);
}

static void check_same(const struct pb_schema *schema, const void *one, const void *other)
{
    struct buf a = {0}, b = {0};

    pb_encode_by_table(schema, one, &a);
    pb_encode_by_table(schema, other, &b);
    assert(bytes_equal(buf_bytes(&a), buf_bytes(&b)));
    buf_free(&a);
    buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct arena arena;

    if (size == 0)
        return 0;
    const struct pb_schema *schema = pb_schemas[data[0] % pb_schema_count];
    struct bytes wire = bytes_of(data + 1, size - 1);
    void *msg = arena_alloc(&arena, schema->size), *other = arena_alloc(&arena, schema->size);

    size_t before = arena.total_bytes;
    enum err e = pb_decode(schema, wire, &arena, msg);
    assert(arena.total_bytes - before <= PB_ARENA_FLOOR + PB_ARENA_FACTOR * wire.len +
                                             PB_ARENA_LEVEL * (size_t)schema->depth_max);
    enum err by_table = pb_decode_by_table(schema, wire, &arena, other);
    assert(e == by_table);
    check_same(schema, msg, other);
    if (e == ERR_OK)
        check_again(schema, msg, &arena);
    arena_reset(&arena);
    return 0;
}
