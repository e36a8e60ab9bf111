#include "cli/utl/emit.h"

#include "base/assert.h"

#include <inttypes.h>

static void escape_json(struct buf *out, struct bytes text)
{
    buf_append_byte(out, '"');
    for (size_t len; text.len > 0; text = bytes_of(text.at + len, text.len - len)) {
        size_t whole = bytes_utf8_len(text);
        len = whole > 0 ? whole : 1;
        if (whole == 0)
            buf_append_str(out, "\\ufffd");
        else if (*text.at == '"' || *text.at == '\\')
            buf_printf(out, "\\%c", *text.at);
        else if (*text.at < 0x20 || *text.at == 0x7f)
            buf_printf(out, "\\u%04x", *text.at);
        else
            buf_append(out, bytes_of(text.at, len));
    }
    buf_append_byte(out, '"');
}

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

/* What stands before a value: comma, name, colon, or the text's forms of them. */
static void lead(struct emit *e, const char *name)
{
    bool *has_items = e->depth > 0 ? &e->open[e->depth - 1].has_items : NULL;
    bool first = has_items && !*has_items;

    if (has_items)
        *has_items = true;
    if (e->json) {
        if (has_items && !first)
            buf_append_byte(&e->out, ',');
        if (name)
            buf_printf(&e->out, "\"%s\":", name);
        return;
    }
    if (in_row(e))
        buf_printf(&e->out, "%s%s=", first ? "" : " ", name ? name : "");
    else {
        indent(e);
        if (name)
            buf_printf(&e->out, "%s: ", name);
    }
}

static void trail(struct emit *e)
{
    if (!e->json && !in_row(e))
        buf_append_byte(&e->out, '\n');
}

void emit_begin(struct emit *e, const char *name, enum emit_kind kind)
{
    bool in_list = e->depth > 0 && e->open[e->depth - 1].kind == EMIT_LIST;

    assert(e->depth < EMIT_DEPTH_MAX);
    assert(e->json || !in_row(e)); /* a line has no parts */
    if (e->json || in_list)
        lead(e, name);
    else if (name) {
        lead(e, NULL);
        buf_printf(&e->out, "%s:\n", name);
    }
    if (e->json)
        buf_append_byte(&e->out, kind == EMIT_LIST ? '[' : '{');
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
    if (e->json)
        buf_append_byte(&e->out, kind == EMIT_LIST ? ']' : '}');
    if (e->json ? e->depth == 0 : row)
        buf_append_byte(&e->out, '\n');
}

void emit_number(struct emit *e, const char *name, uint64_t value)
{
    lead(e, name);
    buf_printf(&e->out, "%" PRIu64, value);
    trail(e);
}

void emit_id(struct emit *e, const char *name, uint64_t value)
{
    lead(e, name);
    buf_printf(&e->out, e->json ? "\"%" PRIx64 "\"" : "%" PRIx64, value);
    trail(e);
}

void emit_bool(struct emit *e, const char *name, bool value)
{
    lead(e, name);
    buf_append_str(&e->out, value ? "true" : "false");
    trail(e);
}

void emit_bytes(struct emit *e, const char *name, struct bytes value)
{
    lead(e, name);
    if (e->json)
        escape_json(&e->out, value);
    else
        escape_text(&e->out, value);
    trail(e);
}

void emit_str(struct emit *e, const char *name, const char *value)
{
    emit_bytes(e, name, bytes_of_str(value));
}
