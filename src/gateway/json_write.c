#include "gateway/json_write.h"

#include "base/assert.h"
#include "base/base64.h"
#include "base/mem.h"
#include "pb/wire.h"

#include <inttypes.h>
#include <stdio.h>

/* A message that is open. */
struct json_write_frame {
    const struct pb_schema *schema;
    const struct pb_field *list; /* that is open; NULL: none */
    uint64_t end;                /* where in the whole message */
};

enum state {
    TAG,
    NUMBER, /* a varint */
    LENGTH,
    CONTENT, /* bytes or a string */
    PACKED,  /* numbers of a list, one after the other up to `left` */
    UNKNOWN, /* content of a field that we do not know */
};

void json_write_free(struct json_write *w)
{
    mem_free(w->frames);
    buf_free(&w->text);
    *w = (struct json_write){0};
}

/* --- values --- */

static const char *choice_name(const struct pb_enum *e, int32_t number)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->values[i].number == number)
            return e->values[i].name;
    return NULL;
}

static bool is_listed(const struct pb_field *f)
{
    return f->place == PB_LIST || f->place == PB_ARRAY;
}

/* Of a member of a list its name was written before it. */
static const char *name_of(const struct pb_field *f)
{
    return is_listed(f) ? NULL : f->name;
}

static void put_quoted_number(struct json_write *w, const char *name, const char *digits)
{
    json_put_text(&w->json, name, bytes_of_str(digits));
}

static void put_number(struct json_write *w, const struct pb_field *f, uint64_t value)
{
    const char *name = name_of(f);
    char digits[24];

    if (value == 0 && f->place == PB_SINGLE)
        return; /* as if it were not there */
    switch (f->kind) {
    case PB_BOOL:
        json_put_bool(&w->json, name, value != 0);
        return;
    case PB_INT64:
        snprintf(digits, sizeof(digits), "%" PRId64, (int64_t)value);
        put_quoted_number(w, name, digits);
        return;
    case PB_UINT64:
        snprintf(digits, sizeof(digits), "%" PRIu64, value);
        put_quoted_number(w, name, digits);
        return;
    case PB_UINT32:
        json_put_number(&w->json, name, (uint32_t)value);
        return;
    case PB_ENUM: {
        const char *choice = choice_name(f->choices, (int32_t)value);
        if (choice)
            json_put_str(&w->json, name, choice);
        else
            json_put_signed(&w->json, name, (int32_t)value);
        return;
    }
    default:
        unreachable();
    }
}

/* Three bytes are four digits; what is over waits for more. */
static void put_bytes(struct json_write *w, struct bytes piece)
{
    struct buf *out = w->json.out;
    size_t i = 0;

    while (w->carried > 0 && i < piece.len) {
        w->carry[w->carried++] = piece.at[i++];
        if (w->carried == 3) {
            base64_encode(BASE64_PADDED, bytes_of(w->carry, 3), out);
            w->carried = 0;
        }
    }
    size_t whole = (piece.len - i) / 3 * 3;
    base64_encode(BASE64_PADDED, bytes_of(piece.at + i, whole), out);
    i += whole;
    while (i < piece.len)
        w->carry[w->carried++] = piece.at[i++];
}

/* --- lists and messages --- */

static void end_list(struct json_write *w, struct json_write_frame *f)
{
    if (f->list)
        json_end_list(&w->json);
    f->list = NULL;
}

static void push(struct json_write *w, const struct pb_schema *schema, uint64_t length)
{
    if (w->depth == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 8;
        w->frames = mem_resize(w->frames, w->cap, sizeof(*w->frames));
    }
    w->frames[w->depth++] = (struct json_write_frame){.schema = schema, .end = w->at + length};
}

/* Ends all messages that end here. */
static void pop_ended(struct json_write *w)
{
    while (w->depth > 0 && w->frames[w->depth - 1].end == w->at) {
        end_list(w, &w->frames[w->depth - 1]);
        json_end_object(&w->json);
        w->depth--;
    }
    w->is_over = w->depth == 0;
}

static void begin_field(struct json_write *w)
{
    struct json_write_frame *top = &w->frames[w->depth - 1];
    const struct pb_field *f = w->field;

    if (top->list == f)
        return;
    end_list(w, top);
    if (is_listed(f)) {
        json_begin_list(&w->json, f->name);
        top->list = f;
    }
}

/* --- bytes --- */

static void begin_varint(struct json_write *w, enum state state)
{
    w->state = state;
    w->varint = 0;
    w->shift = 0;
}

static void value_over(struct json_write *w)
{
    begin_varint(w, TAG);
    pop_ended(w);
}

static void got_tag(struct json_write *w)
{
    const struct json_write_frame *top = &w->frames[w->depth - 1];
    unsigned type = w->varint & 7;

    w->field = pb_find_field(top->schema, (uint32_t)(w->varint >> 3));
    assert(type == PB_WIRE_VARINT || type == PB_WIRE_BYTES); /* the core writes no others */
    if (w->field)
        begin_field(w);
    begin_varint(w, type == PB_WIRE_VARINT ? NUMBER : LENGTH);
}

static void content_over(struct json_write *w)
{
    if (w->state == CONTENT && w->field->kind == PB_STRING) {
        json_put_text(&w->json, name_of(w->field), buf_bytes(&w->text));
        buf_clear(&w->text);
    } else if (w->state == CONTENT) {
        base64_encode(BASE64_PADDED, bytes_of(w->carry, w->carried), w->json.out);
        w->carried = 0;
        json_end_text(&w->json);
    }
    value_over(w);
}

static void got_length(struct json_write *w)
{
    const struct pb_field *f = w->field;

    w->left = w->varint;
    assert(w->left <= w->frames[w->depth - 1].end - w->at);
    if (f && f->kind == PB_MESSAGE) {
        json_begin_object(&w->json, name_of(f));
        push(w, f->sub, w->left);
        value_over(w);
        return;
    }
    if (f && f->place == PB_SINGLE && w->left == 0) {
        value_over(w); /* as if it were not there */
        return;
    }
    w->state = !f ? UNKNOWN : f->kind < PB_BYTES ? PACKED : CONTENT;
    if (w->state == CONTENT && f->kind == PB_BYTES)
        json_begin_text(&w->json, name_of(f));
    w->varint = 0;
    w->shift = 0;
    if (w->left == 0)
        content_over(w);
}

static void got_varint(struct json_write *w)
{
    switch ((enum state)w->state) {
    case TAG:
        got_tag(w);
        return;
    case LENGTH:
        got_length(w);
        return;
    case NUMBER:
        if (w->field)
            put_number(w, w->field, w->varint);
        value_over(w);
        return;
    case PACKED:
        put_number(w, w->field, w->varint);
        w->varint = 0;
        w->shift = 0;
        if (w->left == 0)
            content_over(w);
        return;
    case CONTENT:
    case UNKNOWN:
        break;
    }
    unreachable();
}

static void take_varint_byte(struct json_write *w, uint8_t byte)
{
    assert(w->shift < 64);
    w->varint |= (uint64_t)(byte & 0x7f) << w->shift;
    w->shift += 7;
    w->at++;
    if (w->state == PACKED)
        w->left--;
    if (byte < 0x80)
        got_varint(w);
}

static size_t take_content(struct json_write *w, struct bytes piece)
{
    size_t len = piece.len < w->left ? piece.len : (size_t)w->left;
    struct bytes now = bytes_of(piece.at, len);

    if (w->state == CONTENT && w->field->kind == PB_STRING)
        buf_append(&w->text, now);
    else if (w->state == CONTENT)
        put_bytes(w, now);
    w->at += len;
    w->left -= len;
    if (w->left == 0)
        content_over(w);
    return len;
}

void json_write_begin(struct json_write *w, const struct pb_schema *schema, uint64_t length,
                      struct buf *out)
{
    assert(w->depth == 0);
    w->json = (struct json){.out = out};
    w->at = 0;
    w->is_over = false;
    json_begin_object(&w->json, NULL);
    push(w, schema, length);
    value_over(w);
}

void json_write(struct json_write *w, struct bytes piece, struct buf *out)
{
    w->json.out = out;
    for (size_t i = 0; i < piece.len;) {
        assert(!w->is_over);
        if (w->state == CONTENT || w->state == UNKNOWN)
            i += take_content(w, bytes_of(piece.at + i, piece.len - i));
        else
            take_varint_byte(w, piece.at[i++]);
    }
}
