#include "rpc/grpc_text.h"

#include "base/assert.h"
#include "base/text.h"
#include "io/clock.h"

#include <stdio.h>

enum { TIMEOUT_DIGITS_MAX = 8 };

#define TIMEOUT_NS_MAX ((uint64_t)INT64_MAX)

static const struct unit {
    char name;
    uint64_t ns;
} units[] = {
    {'n', 1},        {'u', 1000},          {'m', NS_PER_MS},
    {'S', NS_PER_S}, {'M', 60 * NS_PER_S}, {'H', 3600 * NS_PER_S},
};

static const struct unit *find_unit(uint8_t name)
{
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (units[i].name == (char)name)
            return &units[i];
    return NULL;
}

enum err grpc_parse_timeout(struct bytes text, uint64_t *out_ns)
{
    uint64_t number;

    if (text.len < 2)
        return ERR_MALFORMED;
    if (text.len > TIMEOUT_DIGITS_MAX + 1)
        return ERR_TOO_LARGE;
    const struct unit *unit = find_unit(text.at[text.len - 1]);
    if (!unit)
        return ERR_MALFORMED;
    enum err e = text_read_number(bytes_of(text.at, text.len - 1), UINT64_MAX, &number);
    if (e != ERR_OK)
        return e;
    *out_ns = number > TIMEOUT_NS_MAX / unit->ns ? TIMEOUT_NS_MAX : number * unit->ns;
    return ERR_OK;
}

void grpc_explain_timeout(struct bytes text, struct buf *out)
{
    buf_append_str(out, "malformed grpc-timeout: ");
    if (text.len < 2) {
        buf_append_str(out, "transport: timeout string is too short: ");
    } else if (text.len > TIMEOUT_DIGITS_MAX + 1) {
        buf_append_str(out, "transport: timeout string is too long: ");
    } else if (!find_unit(text.at[text.len - 1])) {
        buf_append_str(out, "transport: timeout unit is not recognized: ");
    } else {
        buf_append_str(out, "strconv.ParseUint: parsing ");
        text_append_quoted(out, bytes_of(text.at, text.len - 1));
        buf_append_str(out, ": invalid syntax");
        return;
    }
    text_append_quoted(out, text);
}

const char *grpc_timeout_text(uint64_t ns, char out[static GRPC_TIMEOUT_TEXT_MAX])
{
    static const uint64_t number_max = 99999999;

    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        uint64_t number = ns / units[i].ns + (ns % units[i].ns != 0);
        bool last = i + 1 == ARRAY_LEN(units);
        if (number > number_max && !last)
            continue;
        snprintf(out, GRPC_TIMEOUT_TEXT_MAX, "%u%c",
                 (unsigned)(number < number_max ? number : number_max), units[i].name);
        return out;
    }
    unreachable();
}

static bool passes(uint8_t byte)
{
    return byte >= ' ' && byte <= '~' && byte != '%';
}

static void append_percent(uint8_t byte, struct buf *out)
{
    static const char digits[] = "0123456789ABCDEF";

    buf_append_byte(out, '%');
    buf_append_byte(out, (uint8_t)digits[byte >> 4]);
    buf_append_byte(out, (uint8_t)digits[byte & 15]);
}

void grpc_percent_encode(struct bytes text, struct buf *out)
{
    while (text.len > 0) {
        size_t len = bytes_utf8_len(text);

        if (len == 0) {
            buf_append_str(out, "%EF%BF%BD");
            len = 1;
        } else if (len == 1 && passes(text.at[0])) {
            buf_append_byte(out, text.at[0]);
        } else {
            for (size_t i = 0; i < len; i++)
                append_percent(text.at[i], out);
        }
        text = bytes_of(text.at + len, text.len - len);
    }
}

void grpc_percent_decode(struct bytes text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        int high = text.at[i] == '%' && i + 2 < text.len ? text_hex_value(text.at[i + 1]) : -1;
        int low = high >= 0 ? text_hex_value(text.at[i + 2]) : -1;

        if (low >= 0) {
            buf_append_byte(out, (uint8_t)(high << 4 | low));
            i += 2;
        } else {
            buf_append_byte(out, text.at[i]);
        }
    }
}
