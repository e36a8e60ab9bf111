#include "base/json.h"

#include "base/assert.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- texts --- */

/* The letter after the backslash, or 0. */
static char short_escape(uint8_t c, enum json_spelling spelling)
{
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\b':
        return spelling == JSON_GO ? 'b' : 0;
    case '\f':
        return spelling == JSON_GO ? 'f' : 0;
    default:
        return 0;
    }
}

/* U+2028 and U+2029 end a line in JavaScript, though not in JSON. */
static bool is_line_separator(const uint8_t *at, size_t len)
{
    return len == 3 && at[0] == 0xe2 && at[1] == 0x80 && (at[2] & 0xfe) == 0xa8;
}

/* How long the character is that `text` begins with; 0 if it may not stand as it is. */
static size_t plain_len(struct bytes text, enum json_spelling spelling)
{
    uint8_t c = text.at[0];
    size_t len = bytes_utf8_len(text);

    if (c < 0x20 || c == '"' || c == '\\')
        return 0;
    if (spelling == JSON_ZAP)
        return len;
    return c == '<' || c == '>' || c == '&' || is_line_separator(text.at, len) ? 0 : len;
}

static struct bytes take_escape(struct bytes *text, enum json_spelling spelling,
                                char scratch[static 8])
{
    size_t len = bytes_utf8_len(*text);
    uint8_t c = text->at[0];
    int written;

    if (len == 0)
        written = snprintf(scratch, 8, "\\ufffd");
    else if (len == 3)
        written = snprintf(scratch, 8, "\\u20%02x", text->at[2] - 0x80);
    else if (short_escape(c, spelling))
        written = snprintf(scratch, 8, "\\%c", short_escape(c, spelling));
    else
        written = snprintf(scratch, 8, "\\u%04x", c);
    len = len ? len : 1;
    *text = bytes_of(text->at + len, text->len - len);
    return bytes_of(scratch, (size_t)written);
}

struct bytes json_next_piece(struct bytes *text, enum json_spelling spelling,
                             char scratch[static 8])
{
    struct bytes left = *text, piece;

    for (size_t len; left.len > 0; left = bytes_of(left.at + len, left.len - len)) {
        len = plain_len(left, spelling);
        if (len == 0)
            break;
    }
    piece = bytes_of(text->at, text->len - left.len);
    if (piece.len == 0 && left.len > 0)
        return take_escape(text, spelling, scratch);
    *text = left;
    return piece;
}

/* --- values --- */

/* What stands before a value. What comes next will need a comma, unless a list begins here. */
static void lead(struct json *j, const char *name)
{
    if (j->more)
        buf_append_byte(j->out, ',');
    if (name)
        buf_printf(j->out, "\"%s\":", name);
    j->more = true;
}

static void begin(struct json *j, const char *name, char bracket)
{
    lead(j, name);
    buf_append_byte(j->out, (uint8_t)bracket);
    j->more = false;
}

static void end(struct json *j, char bracket)
{
    buf_append_byte(j->out, (uint8_t)bracket);
    j->more = true;
}

void json_begin_object(struct json *j, const char *name)
{
    begin(j, name, '{');
}

void json_end_object(struct json *j)
{
    end(j, '}');
}

void json_begin_list(struct json *j, const char *name)
{
    begin(j, name, '[');
}

void json_end_list(struct json *j)
{
    end(j, ']');
}

void json_put_null(struct json *j, const char *name)
{
    lead(j, name);
    buf_append_str(j->out, "null");
}

void json_put_bool(struct json *j, const char *name, bool value)
{
    lead(j, name);
    buf_append_str(j->out, value ? "true" : "false");
}

void json_put_number(struct json *j, const char *name, uint64_t value)
{
    lead(j, name);
    buf_printf(j->out, "%" PRIu64, value);
}

void json_put_signed(struct json *j, const char *name, int64_t value)
{
    lead(j, name);
    buf_printf(j->out, "%" PRId64, value);
}

void json_put_id(struct json *j, const char *name, uint64_t value)
{
    lead(j, name);
    buf_printf(j->out, "\"%" PRIx64 "\"", value);
}

void json_put_text(struct json *j, const char *name, struct bytes text)
{
    char scratch[8];

    json_begin_text(j, name);
    while (text.len > 0)
        buf_append(j->out, json_next_piece(&text, JSON_GO, scratch));
    json_end_text(j);
}

void json_begin_text(struct json *j, const char *name)
{
    lead(j, name);
    buf_append_byte(j->out, '"');
}

void json_end_text(struct json *j)
{
    buf_append_byte(j->out, '"');
}

void json_put_str(struct json *j, const char *name, const char *text)
{
    json_put_text(j, name, bytes_of_str(text));
}

void json_put_texts(struct json *j, const char *name, const struct bytes *texts, size_t count)
{
    json_begin_list(j, name);
    for (size_t i = 0; i < count; i++)
        json_put_text(j, NULL, texts[i]);
    json_end_list(j);
}

/* --- escapes that are read --- */

static void append_rune(struct buf *out, uint32_t rune)
{
    if (rune < 0x80) {
        buf_append_byte(out, (uint8_t)rune);
        return;
    }
    if (rune < 0x800) {
        buf_append_byte(out, (uint8_t)(0xc0 | rune >> 6));
    } else if (rune < 0x10000) {
        buf_append_byte(out, (uint8_t)(0xe0 | rune >> 12));
        buf_append_byte(out, (uint8_t)(0x80 | (rune >> 6 & 0x3f)));
    } else {
        buf_append_byte(out, (uint8_t)(0xf0 | rune >> 18));
        buf_append_byte(out, (uint8_t)(0x80 | (rune >> 12 & 0x3f)));
        buf_append_byte(out, (uint8_t)(0x80 | (rune >> 6 & 0x3f)));
    }
    buf_append_byte(out, (uint8_t)(0x80 | (rune & 0x3f)));
}

/* "\uXXXX" off the front, if that is what is there. */
static bool take_unit(struct bytes *text, uint32_t *out)
{
    if (text->len < 6 || text->at[0] != '\\' || text->at[1] != 'u')
        return false;
    *out = 0;
    for (size_t i = 2; i < 6; i++) {
        int digit = text_hex_value(text->at[i]);
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    *text = bytes_of(text->at + 6, text->len - 6);
    return true;
}

static bool take_rune(struct bytes *text, struct buf *out)
{
    uint32_t rune, second;
    bool is_unit = take_unit(text, &rune);

    assert(is_unit);
    if (rune >= 0xd800 && rune < 0xe000) {
        struct bytes rest = *text;
        if (rune >= 0xdc00 || !take_unit(&rest, &second) || second < 0xdc00 || second >= 0xe000)
            return false;
        rune = 0x10000 + ((rune - 0xd800) << 10 | (second - 0xdc00));
        *text = rest;
    }
    append_rune(out, rune);
    return true;
}

bool json_take_escape(struct bytes *text, struct buf *out)
{
    static const char from[] = "bfnrt\"\\/", to[] = "\b\f\n\r\t\"\\/";

    assert(text->len >= 2 && text->at[0] == '\\' && text->at[1] != 0);
    if (text->at[1] == 'u')
        return take_rune(text, out);
    const char *known = strchr(from, text->at[1]);
    assert(known);
    buf_append_byte(out, (uint8_t)to[known - from]);
    *text = bytes_of(text->at + 2, text->len - 2);
    return true;
}
