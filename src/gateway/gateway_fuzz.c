/*
 * Any bytes as a body of requests in JSON. The first byte chooses the route, the second how the
 * rest is cut into pieces.
 *
 * Beyond not crashing: pieces of any size give the same messages and the same complaint; a message
 * decodes, within the depth that decoding has; and written as a text and read again it is the same
 * message.
 */
#include "base/assert.h"
#include "gateway/gateway.h"
#include "gateway/json_read.h"
#include "pb/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* However little of it may be read at a time. */
static enum gateway_in_result next(struct gateway_in *in, const struct pb_schema *schema,
                                   size_t at_a_time, struct buf *wire, struct buf *why)
{
    enum gateway_in_result found;

    do {
        size_t work = at_a_time;
        found = gateway_in_next_some(in, schema, &work, wire, why);
    } while (found == GATEWAY_LONG);
    return found;
}

/* The messages and the end of it, in a form that can be compared. */
static void read_all(const struct pb_schema *schema, struct bytes body, size_t step,
                     struct buf *out)
{
    struct gateway_in in = {0};

    for (size_t at = 0;;) {
        struct buf wire = {0}, why = {0};
        enum gateway_in_result found = next(&in, schema, step, &wire, &why);
        buf_printf(out, "%d %zu ", (int)found, wire.len);
        if (found == GATEWAY_MORE)
            out->len -= 4; /* how often that is depends on the step */
        buf_append(out, buf_bytes(&wire));
        buf_append(out, buf_bytes(&why));
        buf_free(&wire);
        buf_free(&why);
        if (found == GATEWAY_END || found == GATEWAY_BAD)
            break;
        if (found == GATEWAY_MESSAGE)
            continue;
        size_t now = body.len - at < step ? body.len - at : step;
        if (now == 0)
            gateway_in_end(&in);
        else
            gateway_in_add(&in, bytes_of(body.at + at, now));
        at += now;
    }
    gateway_in_free(&in);
}

/* What was read, decoded and encoded in order, is written as a text; and that, read, is the same.
 */
static void check_way_back(const struct pb_schema *schema, struct bytes wire)
{
    struct arena arena = {0};
    struct buf canonical = {0}, text = {0}, again = {0}, why = {0};
    void *message = arena_alloc(&arena, schema->size);
    enum err e = pb_decode(schema, wire, &arena, message);

    assert(e == ERR_OK || e == ERR_TOO_DEEP || e == ERR_TOO_LARGE);
    if (e == ERR_OK) {
        struct json_write w = {0};
        pb_encode(schema, message, &canonical);
        json_write_begin(&w, schema, canonical.len, &text);
        json_write(&w, buf_bytes(&canonical), &text);
        assert(json_write_is_over(&w));
        json_write_free(&w);
        e = json_read(schema, buf_bytes(&text), &again, &why);
        assert(e == ERR_OK);
        memset(message, 0, schema->size);
        buf_clear(&text);
        e = pb_decode(schema, buf_bytes(&again), &arena, message);
        assert(e == ERR_OK);
        pb_encode(schema, message, &text);
        assert(bytes_equal(buf_bytes(&text), buf_bytes(&canonical)));
    }
    arena_free(&arena);
    buf_free(&canonical);
    buf_free(&text);
    buf_free(&again);
    buf_free(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = {0}, cut = {0}, wire = {0}, why = {0};
    struct gateway_in in = {0};

    if (size < 2)
        return 0;
    const struct pb_schema *schema = gateway_routes[data[0] % gateway_route_count].request;
    struct bytes body = bytes_of(data + 2, size - 2);

    read_all(schema, body, size, &whole);
    read_all(schema, body, 1 + data[1] % 16, &cut);
    assert(bytes_equal(buf_bytes(&whole), buf_bytes(&cut)));

    gateway_in_add(&in, body);
    gateway_in_end(&in);
    while (gateway_in_next(&in, schema, &wire, &why) == GATEWAY_MESSAGE) {
        check_way_back(schema, buf_bytes(&wire));
        buf_clear(&wire);
    }
    gateway_in_free(&in);
    buf_free(&whole);
    buf_free(&cut);
    buf_free(&wire);
    buf_free(&why);
    return 0;
}
