#include "gateway/base64.h"

static void put_group(const uint8_t *from, size_t count, uint8_t *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = (uint32_t)from[0] << 16 | (count > 1 ? (uint32_t)from[1] << 8 : 0) |
                    (count > 2 ? from[2] : 0);

    to[0] = (uint8_t)digits[bits >> 18];
    to[1] = (uint8_t)digits[bits >> 12 & 63];
    to[2] = count > 1 ? (uint8_t)digits[bits >> 6 & 63] : '=';
    to[3] = count > 2 ? (uint8_t)digits[bits & 63] : '=';
}

void base64_append(struct bytes what, struct buf *out)
{
    if (what.len == 0)
        return;
    uint8_t *to = buf_extend(out, (what.len + 2) / 3 * 4);

    for (size_t i = 0; i < what.len; i += 3, to += 4)
        put_group(what.at + i, what.len - i < 3 ? what.len - i : 3, to);
}

static int base64_value(uint8_t c, bool is_url_safe)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == (is_url_safe ? '-' : '+'))
        return 62;
    return c == (is_url_safe ? '_' : '/') ? 63 : -1;
}

static bool is_line_end(uint8_t c)
{
    return c == '\r' || c == '\n';
}

/* Behind the digits of a padded text: as many '=' as are missing, and nothing else. */
static bool is_padding(struct bytes s, unsigned wanted)
{
    unsigned found = 0;

    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] == '=')
            found++;
        else if (!is_line_end(s.at[i]))
            return false;
    }
    return found == wanted;
}

/*
 * Which alphabet it is, and whether it is padded, is told by what the text looks like. Ends of
 * lines may stand anywhere, as Go has it, and bits that are left over may be anything.
 */
bool base64_read(struct bytes text, struct buf *out)
{
    bool is_url_safe = false, is_padded = text.len % 4 == 0;
    uint32_t bits = 0;
    unsigned digits = 0;
    size_t i = 0;

    for (size_t k = 0; k < text.len && !is_url_safe; k++)
        is_url_safe = text.at[k] == '-' || text.at[k] == '_';
    buf_reserve(out, text.len / 4 * 3 + 3);
    for (; i < text.len && text.at[i] != '='; i++) {
        int value = base64_value(text.at[i], is_url_safe);
        if (is_line_end(text.at[i]))
            continue;
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        if (++digits < 4)
            continue;
        uint8_t three[] = {(uint8_t)(bits >> 16), (uint8_t)(bits >> 8), (uint8_t)bits};
        buf_append(out, bytes_of(three, 3));
        digits = 0;
    }
    struct bytes behind = bytes_of(text.at + i, text.len - i);
    if (digits == 1 || !is_padding(behind, is_padded && digits > 0 ? 4 - digits : 0))
        return false;
    if (digits >= 2)
        buf_append_byte(out, (uint8_t)(bits >> (digits == 2 ? 4 : 10)));
    if (digits == 3)
        buf_append_byte(out, (uint8_t)(bits >> 2));
    return true;
}
