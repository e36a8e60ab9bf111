#include "base/assert.h"
#include "pb/codec.h"
#include "pb/pb_int.h"
#include "pb/wire.h"

/*
 * A message that is being read. Lists are read in runs: an encoder writes the elements of a list
 * one after the other, so at the first one we count how many follow with the same tag and take
 * memory once. A list in several runs is copied to a longer array each time, which is rare in what
 * encoders write and is held down by the budget in what attackers write.
 */
struct frame {
    struct frame *outer, *inner; /* inner is kept for the next message at that level */
    const uint8_t *end;
    const struct pb_schema *schema;
    uint8_t *out;
    const struct pb_field *run; /* the list of messages under way */
    size_t run_left, run_tag_len;
};
static_assert(sizeof(struct frame) <= PB_ARENA_LEVEL, "what the header says of a level");

struct decoder {
    struct pb_reader r; /* its end is that of the innermost message */
    struct frame *top;
    struct arena *arena;
    size_t budget; /* bytes that the message may still take from the arena */
    unsigned depth, depth_max;
    bool by_table;
};

/* NULL when the budget does not allow it. Small things count as much as the arena gives them. */
static void *obtain(struct decoder *d, size_t count, size_t size)
{
    const size_t unit = _Alignof(max_align_t);
    size_t units = (count * size + unit - 1) / unit; /* both are bounded by the wire: no overflow */

    if (units > d->budget / unit) {
        pb_fail(&d->r, ERR_TOO_LARGE);
        return NULL;
    }
    d->budget -= units * unit;
    return arena_alloc(d->arena, count * size);
}

/* ---- Opening and closing messages ---- */

static struct frame *frame_inside(struct decoder *d)
{
    if (d->top && d->top->inner)
        return d->top->inner;
    struct frame *f = arena_space(d->arena, sizeof(*f));
    *f = (struct frame){0};
    if (d->top)
        d->top->inner = f;
    return f;
}

/* Reads up to d->r.end into `out`: at once if that is written by hand, else as the loop goes on. */
static void open_message(struct decoder *d, const struct pb_schema *schema, uint8_t *out)
{
    if (d->depth == d->depth_max) {
        pb_fail(&d->r, ERR_TOO_DEEP);
        return;
    }
    if (schema->by_hand && !d->by_table) {
        schema->by_hand->take(&d->r, out);
        if (d->top)
            d->r.end = d->top->end;
        return;
    }
    struct frame *f = frame_inside(d);
    f->outer = d->top;
    f->end = d->r.end;
    f->schema = schema;
    f->out = out;
    f->run_left = 0;
    d->top = f;
    d->depth++;
}

static void close_message(struct decoder *d)
{
    d->top = d->top->outer;
    d->depth--;
    if (d->top)
        d->r.end = d->top->end;
}

/* The length of a sub-message, then its content. */
static void open_sub(struct decoder *d, const struct pb_field *field, uint8_t *out)
{
    struct bytes body = pb_take_bytes(&d->r);

    if (d->r.err != ERR_OK)
        return;
    d->r.at = body.at;
    d->r.end = body.at + body.len;
    open_message(d, field->sub, out);
}

/* ---- Values ---- */

static void store_number(const struct pb_field *field, uint8_t *at, uint64_t value)
{
    switch (field->kind) {
    case PB_BOOL:
        *(bool *)at = value != 0;
        break;
    case PB_INT64:
    case PB_UINT64:
        *(uint64_t *)(void *)at = value;
        break;
    default: /* PB_UINT32 and PB_ENUM: the upper half is dropped, as Go does */
        *(uint32_t *)(void *)at = (uint32_t)value;
    }
}

/* Anything but a message, which takes more than one step. */
static void take_value(struct decoder *d, const struct pb_field *field, uint8_t *at)
{
    if (field->kind < PB_BYTES)
        store_number(field, at, pb_take_varint(&d->r));
    else if (field->kind == PB_STRING && !d->top->schema->proto2)
        *(struct bytes *)(void *)at = pb_take_string(&d->r);
    else
        *(struct bytes *)(void *)at = pb_take_bytes(&d->r);
}

static void take_single(struct decoder *d, const struct pb_field *field)
{
    uint8_t *out = d->top->out, *at = out + field->offset;
    bool fresh = false;

    if (field->place == PB_ONEOF) {
        unsigned *which = (unsigned *)(void *)(out + field->which_offset);
        fresh = *which != field->number; /* what the union held before was something else */
        *which = field->number;
    }
    if (field->kind != PB_MESSAGE) {
        take_value(d, field, at);
        return;
    }
    if (field->place == PB_INSIDE) {
        open_sub(d, field, at);
        return;
    }
    pb_any_pointer *sub = (void *)at;
    if (fresh || !*sub)
        *sub = obtain(d, 1, field->sub->size);
    if (*sub)
        open_sub(d, field, *sub);
}

/* ---- Lists ---- */

/* Makes space for `more` elements behind the list's own; false when the budget does not allow it.
 */
static bool list_reserve(struct decoder *d, const struct pb_field *field, size_t more)
{
    if (field->place == PB_ARRAY) {
        const struct pb_any_array *array = (void *)(d->top->out + field->offset);
        if (more > field->max - array->count)
            pb_fail(&d->r, ERR_TOO_LARGE);
        return d->r.err == ERR_OK;
    }
    struct pb_any_list *list = (void *)(d->top->out + field->offset);
    size_t size = pb_element_size(field);
    uint8_t *at = obtain(d, list->count + more, size);

    if (!at)
        return false;
    if (list->count > 0)
        memcpy(at, list->at, list->count * size);
    list->at = at;
    return true;
}

static uint8_t *list_next(struct decoder *d, const struct pb_field *field)
{
    if (field->place == PB_ARRAY) {
        struct pb_any_array *array = (void *)(d->top->out + field->offset);
        return array->at + array->count++ * pb_element_size(field);
    }
    struct pb_any_list *list = (void *)(d->top->out + field->offset);

    return list->at + list->count++ * pb_element_size(field);
}

/* How many fields with this very tag stand in a row from `tag_at`, and each is whole. */
static size_t run_length(struct decoder *d, const uint8_t *tag_at, size_t tag_len, uint32_t tag)
{
    struct pb_reader ahead = {.at = tag_at, .end = d->r.end};
    size_t count = 0;

    do {
        ahead.at += tag_len;
        pb_skip_value(&ahead, tag);
        count++;
    } while ((size_t)(ahead.end - ahead.at) >= tag_len && memcmp(ahead.at, tag_at, tag_len) == 0);
    if (ahead.err != ERR_OK)
        pb_fail(&d->r, ahead.err);
    return count;
}

/* The reader is at the tag of the next message in the list. */
static void take_next_of_run(struct decoder *d)
{
    struct frame *f = d->top;

    f->run_left--;
    d->r.at += f->run_tag_len;
    open_sub(d, f->run, list_next(d, f->run));
}

static void take_run(struct decoder *d, const struct pb_field *field, const uint8_t *tag_at,
                     uint32_t tag)
{
    size_t tag_len = (size_t)(d->r.at - tag_at);
    size_t count = run_length(d, tag_at, tag_len, tag);

    if (d->r.err != ERR_OK || !list_reserve(d, field, count))
        return;
    d->r.at = tag_at;
    if (field->kind == PB_MESSAGE) {
        d->top->run = field;
        d->top->run_tag_len = tag_len;
        d->top->run_left = count;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        d->r.at += tag_len;
        take_value(d, field, list_next(d, field));
    }
}

/* Numbers in one piece. Each ends with the one byte whose top bit is clear, so they are counted. */
static void take_packed(struct decoder *d, const struct pb_field *field)
{
    struct bytes body = pb_take_bytes(&d->r);
    size_t count = 0;

    for (size_t i = 0; i < body.len; i++)
        count += body.at[i] < 0x80;
    if (body.len == 0 || !list_reserve(d, field, count))
        return;
    struct pb_reader numbers = {.at = body.at, .end = body.at + body.len};
    for (size_t i = 0; i < count && numbers.err == ERR_OK; i++)
        store_number(field, list_next(d, field), pb_take_varint(&numbers));
    if (numbers.err != ERR_OK || numbers.at < numbers.end)
        pb_fail(&d->r, ERR_MALFORMED);
}

/* ---- The loop ---- */

static void take_field(struct decoder *d)
{
    const uint8_t *tag_at = d->r.at;
    uint32_t tag = pb_take_tag(&d->r);
    const struct pb_field *field = pb_find_field(d->top->schema, tag >> 3);
    bool number = field && field->kind < PB_BYTES;

    if (field && (tag & 7) == (number ? PB_WIRE_VARINT : PB_WIRE_BYTES)) {
        if (field->place >= PB_LIST)
            take_run(d, field, tag_at, tag);
        else
            take_single(d, field);
    } else if (number && field->place >= PB_LIST && (tag & 7) == PB_WIRE_BYTES) {
        take_packed(d, field);
    } else {
        pb_skip_value(&d->r, tag);
    }
}

static enum err decode(const struct pb_schema *schema, struct bytes wire, struct arena *arena,
                       void *out, bool by_table)
{
    if (wire.len == 0)
        wire = BYTES(""); /* an empty look may be NULL, and the reader subtracts pointers */
    struct decoder d = {
        .r = {.at = wire.at, .end = wire.at + wire.len},
        .arena = arena,
        .budget = PB_ARENA_FLOOR + PB_ARENA_FACTOR * wire.len,
        .depth_max = schema->depth_max,
        .by_table = by_table,
    };

    memset(out, 0, schema->size);
    if (wire.len > PB_MESSAGE_BYTES_MAX)
        return ERR_TOO_LARGE;
    open_message(&d, schema, out);
    while (d.top && d.r.err == ERR_OK) {
        if (d.r.at == d.r.end)
            close_message(&d);
        else if (d.top->run_left > 0)
            take_next_of_run(&d);
        else
            take_field(&d);
    }
    if (d.r.err != ERR_OK)
        memset(out, 0, schema->size);
    return d.r.err;
}

/* What is written by hand has no messages inside, so it needs neither a loop nor memory. Entries of
 * an append come this way, one by one. */
static enum err decode_by_hand(const struct pb_schema *schema, struct bytes wire, void *out)
{
    memset(out, 0, schema->size);
    if (wire.len == 0)
        return ERR_OK; /* an empty look may be NULL */
    if (wire.len > PB_MESSAGE_BYTES_MAX)
        return ERR_TOO_LARGE;
    struct pb_reader r = {.at = wire.at, .end = wire.at + wire.len};
    schema->by_hand->take(&r, out);
    if (r.err != ERR_OK)
        memset(out, 0, schema->size);
    return r.err;
}

enum err pb_decode(const struct pb_schema *schema, struct bytes wire, struct arena *arena,
                   void *out)
{
    return schema->by_hand ? decode_by_hand(schema, wire, out)
                           : decode(schema, wire, arena, out, false);
}

enum err pb_decode_by_table(const struct pb_schema *schema, struct bytes wire, struct arena *arena,
                            void *out)
{
    return decode(schema, wire, arena, out, true);
}
