#include "base/text.h"

#include <inttypes.h>

/* The letter after the backslash, or 0. */
static char quoted_letter(uint8_t c)
{
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\a':
        return 'a';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\v':
        return 'v';
    default:
        return 0;
    }
}

static void append_quoted_ascii(struct buf *out, uint8_t c)
{
    if (quoted_letter(c))
        buf_printf(out, "\\%c", quoted_letter(c));
    else if (c < 0x20 || c == 0x7f)
        buf_printf(out, "\\x%02x", c);
    else
        buf_append_byte(out, c);
}

/* U+0080 to U+009F: control characters, like those below the space. */
static bool is_upper_control(struct bytes character)
{
    return character.len == 2 && character.at[0] == 0xc2 && character.at[1] < 0xa0;
}

void text_append_size(struct buf *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    uint64_t unit = 1;
    size_t which = 0;

    for (; bytes / unit >= 1000; which++)
        unit *= 1000;
    if (unit == 1) {
        buf_printf(out, "%" PRIu64 " B", bytes);
        return;
    }
    uint64_t tenth = unit / 10;
    uint64_t tenths = bytes / tenth + (bytes % tenth >= tenth / 2);
    uint64_t whole = tenths / 10, rest = tenths % 10;
    if (tenths < 100) {
        buf_printf(out, "%" PRIu64 ".%" PRIu64 " %s", whole, rest, units[which]);
        return;
    }
    whole += rest > 5 || (rest == 5 && whole % 2 == 1); /* Go prints halves so */
    buf_printf(out, "%" PRIu64 " %s", whole, units[which]);
}

void text_append_quoted(struct buf *out, struct bytes text)
{
    buf_append_byte(out, '"');
    for (size_t at = 0, len; at < text.len; at += len) {
        len = bytes_utf8_len(bytes_of(text.at + at, text.len - at));
        struct bytes character = bytes_of(text.at + at, len);
        if (len == 0) {
            buf_printf(out, "\\x%02x", text.at[at]);
            len = 1;
        } else if (len == 1)
            append_quoted_ascii(out, character.at[0]);
        else if (is_upper_control(character))
            buf_printf(out, "\\u%04x", character.at[1]);
        else
            buf_append(out, character);
    }
    buf_append_byte(out, '"');
}

int text_hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

bool text_read_hex16(const char *text, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 16; i++) {
        uint8_t digit = (uint8_t)text[i];
        int value = text_hex_value(digit);
        if (value < 0 || (digit >= 'A' && digit <= 'F'))
            return false;
        *out = *out << 4 | (uint64_t)value;
    }
    return true;
}

enum err text_read_number(struct bytes text, uint64_t max, uint64_t *out)
{
    uint64_t number = 0;

    if (text.len == 0)
        return ERR_MALFORMED;
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9')
            return ERR_MALFORMED;
    for (size_t i = 0; i < text.len; i++) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text.at[i] - '0'), &number) || number > max)
            return ERR_TOO_LARGE;
    }
    *out = number;
    return ERR_OK;
}
