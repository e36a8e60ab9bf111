#include "cli/utl/emit.h"

#include "base/assert.h"

#include <inttypes.h>

static struct json *json(struct emit *e)
{
    e->writer.out = &e->out;
    return &e->writer;
}

/* --- text --- */

static void escape_text(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < 0x20 || text.at[i] >= 0x7f)
            buf_printf(out, "\\x%02x", text.at[i]);
        else
            buf_append_byte(out, text.at[i]);
    }
}

/* Text: are we in an object that is a line of its own? */
static bool in_row(const struct emit *e)
{
    return e->depth >= 2 && e->open[e->depth - 2].kind == EMIT_LIST;
}

static void indent(struct emit *e)
{
    for (unsigned i = 1; i < e->depth; i++)
        buf_append_str(&e->out, "  ");
}

/* What stands before a value. */
static void lead(struct emit *e, const char *name)
{
    bool *has_items = e->depth > 0 ? &e->open[e->depth - 1].has_items : NULL;
    bool first = has_items && !*has_items;

    if (has_items)
        *has_items = true;
    if (in_row(e)) {
        buf_printf(&e->out, "%s%s=", first ? "" : " ", name ? name : "");
        return;
    }
    indent(e);
    if (name)
        buf_printf(&e->out, "%s: ", name);
}

static void trail(struct emit *e)
{
    if (!in_row(e))
        buf_append_byte(&e->out, '\n');
}

__attribute__((format(printf, 3, 4))) static void say(struct emit *e, const char *name,
                                                      const char *format, ...)
{
    va_list args;

    lead(e, name);
    va_start(args, format);
    buf_vprintf(&e->out, format, args);
    va_end(args);
    trail(e);
}

static void begin_text(struct emit *e, const char *name)
{
    bool in_list = e->depth > 0 && e->open[e->depth - 1].kind == EMIT_LIST;

    assert(!in_row(e)); /* a line has no parts */
    if (in_list) {
        lead(e, name);
    } else if (name) {
        lead(e, NULL);
        buf_printf(&e->out, "%s:\n", name);
    }
}

/* --- either --- */

void emit_begin(struct emit *e, const char *name, enum emit_kind kind)
{
    assert(e->depth < EMIT_DEPTH_MAX);
    if (!e->json)
        begin_text(e, name);
    else if (kind == EMIT_LIST)
        json_begin_list(json(e), name);
    else
        json_begin_object(json(e), name);
    e->open[e->depth].kind = kind;
    e->open[e->depth].has_items = false;
    e->depth++;
}

void emit_end(struct emit *e)
{
    assert(e->depth > 0);
    bool row = in_row(e);
    enum emit_kind kind = e->open[e->depth - 1].kind;

    e->depth--;
    if (e->json && kind == EMIT_LIST)
        json_end_list(json(e));
    else if (e->json)
        json_end_object(json(e));
    if (e->json ? e->depth == 0 : row)
        buf_append_byte(&e->out, '\n');
}

void emit_number(struct emit *e, const char *name, uint64_t value)
{
    if (e->json)
        json_put_number(json(e), name, value);
    else
        say(e, name, "%" PRIu64, value);
}

void emit_id(struct emit *e, const char *name, uint64_t value)
{
    if (e->json)
        json_put_id(json(e), name, value);
    else
        say(e, name, "%" PRIx64, value);
}

void emit_bool(struct emit *e, const char *name, bool value)
{
    if (e->json)
        json_put_bool(json(e), name, value);
    else
        say(e, name, "%s", value ? "true" : "false");
}

void emit_bytes(struct emit *e, const char *name, struct bytes value)
{
    if (e->json) {
        json_put_text(json(e), name, value);
        return;
    }
    lead(e, name);
    escape_text(&e->out, value);
    trail(e);
}

void emit_str(struct emit *e, const char *name, const char *value)
{
    emit_bytes(e, name, bytes_of_str(value));
}
