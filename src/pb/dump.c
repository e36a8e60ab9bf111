#include "base/limits.h"
#include "pb/codec.h"
#include "pb/pb_int.h"

#include <inttypes.h>

static void dump_message(const struct pb_schema *schema, const uint8_t *msg, unsigned depth,
                         struct buf *out);

static void dump_text(struct bytes text, struct buf *out)
{
    static const char plain[] = "\n\r\t\"\'\\", escape[] = "nrt\"\'\\";

    buf_append_byte(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        const char *special = c ? strchr(plain, c) : NULL;
        if (special)
            buf_printf(out, "\\%c", escape[special - plain]);
        else if (c < 0x20 || c > 0x7e)
            buf_printf(out, "\\%03o", c);
        else
            buf_append_byte(out, c);
    }
    buf_append_byte(out, '"');
}

static void dump_enum(const struct pb_enum *choices, int32_t number, struct buf *out)
{
    for (size_t i = 0; i < choices->count; i++) {
        if (choices->values[i].number == number) {
            buf_append_str(out, choices->values[i].name);
            return;
        }
    }
    buf_printf(out, "%" PRId32, number);
}

static void dump_number(const struct pb_field *field, const uint8_t *at, struct buf *out)
{
    uint64_t value = pb_load_number(field, at);

    switch (field->kind) {
    case PB_BOOL:
        buf_append_str(out, value ? "true" : "false");
        break;
    case PB_ENUM:
        dump_enum(field->choices, (int32_t)(int64_t)value, out);
        break;
    case PB_INT64:
        buf_printf(out, "%" PRId64, (int64_t)value);
        break;
    default:
        buf_printf(out, "%" PRIu64, value);
    }
}

/* One line, or a block of them. `at` is the value itself, for a message not a pointer to it. */
static void dump_field(const struct pb_field *field, const uint8_t *at, unsigned depth,
                       struct buf *out)
{
    buf_printf(out, "%*s%s", (int)depth * 2, "", field->name);
    if (field->kind == PB_MESSAGE) {
        buf_append_str(out, " {\n");
        dump_message(field->sub, at, depth + 1, out);
        buf_printf(out, "%*s}\n", (int)depth * 2, "");
        return;
    }
    buf_append_str(out, ": ");
    if (field->kind < PB_BYTES)
        dump_number(field, at, out);
    else
        dump_text(*(const struct bytes *)(const void *)at, out);
    buf_append_byte(out, '\n');
}

static void dump_message(const struct pb_schema *schema, const uint8_t *msg, unsigned depth,
                         struct buf *out)
{
    for (const struct pb_field *f = schema->fields; f < schema->fields + schema->field_count; f++) {
        const uint8_t *at = msg + f->offset;
        if (!pb_is_present(f, msg))
            continue;
        if (f->place >= PB_LIST) {
            struct pb_any_list list = pb_load_list(f, at);
            for (size_t i = 0; i < list.count; i++)
                dump_field(f, list.at + i * pb_element_size(f), depth, out);
        } else if (f->kind == PB_MESSAGE) {
            dump_field(f, pb_load_message(f, at), depth, out);
        } else {
            dump_field(f, at, depth, out);
        }
    }
}

void pb_dump(const struct pb_schema *schema, const void *msg, struct buf *out)
{
    dump_message(schema, msg, 0, out);
}

/* --- in one line --- */

/* A value, by its size; or nothing at all of what is nobody's business. */
static bool is_hidden(const struct pb_field *f, bool *by_size)
{
    static const char *const secrets[] = {"password", "hashedPassword", "simple_token", "token"};

    *by_size = f->kind == PB_BYTES && strcmp(f->name, "value") == 0;
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
        if ((f->kind == PB_BYTES || f->kind == PB_STRING) && strcmp(f->name, secrets[i]) == 0)
            return true;
    return *by_size;
}

static void describe_text(struct bytes text, struct buf *out)
{
    size_t len = text.len < LOG_KEY_BYTES_MAX ? text.len : LOG_KEY_BYTES_MAX;

    dump_text(bytes_of(text.at, len), out);
    if (len < text.len)
        buf_append_str(out, "...");
}

static void describe_message(const struct pb_schema *schema, const uint8_t *msg, unsigned depth,
                             struct buf *out);

static void describe_field(const struct pb_field *f, const uint8_t *at, unsigned depth,
                           struct buf *out)
{
    bool by_size, hidden = is_hidden(f, &by_size);

    if (hidden && !by_size)
        return;
    if (out->len > 0 && out->at[out->len - 1] != '<')
        buf_append_byte(out, ' ');
    if (by_size) {
        buf_printf(out, "%s_size:%zu", f->name, ((const struct bytes *)(const void *)at)->len);
        return;
    }
    buf_printf(out, "%s:", f->name);
    if (f->kind == PB_MESSAGE) {
        buf_append_byte(out, '<');
        describe_message(f->sub, at, depth + 1, out);
        buf_append_byte(out, '>');
    } else if (f->kind < PB_BYTES) {
        dump_number(f, at, out);
    } else {
        describe_text(*(const struct bytes *)(const void *)at, out);
    }
}

/* Transactions may be nested thousands of levels deep, and have thousands of operations. */
static void describe_message(const struct pb_schema *schema, const uint8_t *msg, unsigned depth,
                             struct buf *out)
{
    for (const struct pb_field *f = schema->fields; f < schema->fields + schema->field_count; f++) {
        const uint8_t *at = msg + f->offset;
        if (!pb_is_present(f, msg))
            continue;
        struct pb_any_list list = {0};
        if (f->place >= PB_LIST)
            list = pb_load_list(f, at);
        else
            list = (struct pb_any_list){
                (uint8_t *)(f->kind == PB_MESSAGE ? pb_load_message(f, at) : at), 1};
        for (size_t i = 0; i < list.count; i++) {
            if (out->len > LOG_TEXT_BYTES_MAX || depth > PB_DESCRIBED_DEPTH_MAX) {
                buf_append_str(out, "...");
                return;
            }
            describe_field(f, list.at + i * pb_element_size(f), depth, out);
        }
    }
}

void pb_describe(const struct pb_schema *schema, const void *msg, struct buf *out)
{
    describe_message(schema, msg, 0, out);
}
