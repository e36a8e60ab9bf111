#include "auth/base64.h"

static const char letters[2][65] = {
    [BASE64_PADDED] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    [BASE64_URL] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

void base64_encode(enum base64_kind kind, struct bytes raw, struct buf *out)
{
    const char *alphabet = letters[kind];

    for (size_t at = 0; at < raw.len; at += 3) {
        size_t count = raw.len - at < 3 ? raw.len - at : 3;
        uint32_t bits = (uint32_t)raw.at[at] << 16;
        bits |= count > 1 ? (uint32_t)raw.at[at + 1] << 8 : 0;
        bits |= count > 2 ? raw.at[at + 2] : 0;
        for (size_t i = 0; i <= count; i++)
            buf_append_byte(out, (uint8_t)alphabet[bits >> (18 - 6 * i) & 63]);
        for (size_t i = count; i < 3 && kind == BASE64_PADDED; i++)
            buf_append_byte(out, '=');
    }
}

static int value_of(enum base64_kind kind, uint8_t letter)
{
    const char *at = letter ? strchr(letters[kind], letter) : NULL;

    return at ? (int)(at - letters[kind]) : -1;
}

/* What is behind the letters of an incomplete group: so many '=' and nothing else. */
static bool is_padding(struct bytes rest, unsigned missing)
{
    for (size_t i = 0; i < rest.len; i++) {
        if (rest.at[i] == '\r' || rest.at[i] == '\n')
            continue;
        if (rest.at[i] != '=' || missing-- == 0)
            return false;
    }
    return missing == 0;
}

bool base64_decode(enum base64_kind kind, struct bytes text, struct buf *out)
{
    uint32_t bits = 0;
    unsigned count = 0; /* of the letters in this group */
    size_t at = 0;

    for (; at < text.len && text.at[at] != '='; at++) {
        int value = value_of(kind, text.at[at]);
        if (kind == BASE64_PADDED && (text.at[at] == '\r' || text.at[at] == '\n'))
            continue;
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        if (++count < 4)
            continue;
        buf_append(
            out,
            bytes_of((uint8_t[]){(uint8_t)(bits >> 16), (uint8_t)(bits >> 8), (uint8_t)bits}, 3));
        bits = count = 0;
    }
    if (count == 1)
        return false;
    if (count > 1) {
        bits <<= 6 * (4 - count);
        buf_append(out,
                   bytes_of((uint8_t[]){(uint8_t)(bits >> 16), (uint8_t)(bits >> 8)}, count - 1));
    }
    struct bytes rest = at < text.len ? bytes_of(text.at + at, text.len - at) : bytes_of(NULL, 0);
    unsigned missing = kind == BASE64_PADDED && count > 0 ? 4 - count : 0;
    return is_padding(rest, missing) && (kind == BASE64_PADDED || rest.len == 0);
}
