#include "base/base64.h"

#include <string.h>

/* How many letters stand for so many bytes, without padding. */
static size_t letters_of(size_t bytes)
{
    return (bytes * 8 + 5) / 6;
}

static void put_group(const char *alphabet, const uint8_t *from, size_t count, uint8_t *to)
{
    uint32_t bits = (uint32_t)from[0] << 16 | (count > 1 ? (uint32_t)from[1] << 8 : 0) |
                    (count > 2 ? from[2] : 0);

    for (size_t i = 0; i <= count; i++)
        to[i] = (uint8_t)alphabet[bits >> (18 - 6 * i) & 63];
}

void base64_encode(enum base64_kind kind, struct bytes raw, struct buf *out)
{
    const char *alphabet = kind == BASE64_URL
                               ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                               : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t letters = letters_of(raw.len);
    size_t all = kind == BASE64_URL ? letters : (raw.len + 2) / 3 * 4;

    if (raw.len == 0)
        return;
    uint8_t *to = buf_extend(out, all);
    for (size_t i = 0; i < raw.len; i += 3)
        put_group(alphabet, raw.at + i, raw.len - i < 3 ? raw.len - i : 3, to + i / 3 * 4);
    memset(to + letters, '=', all - letters);
}

/* How a text is written: what its kind says, or what it looks like. */
struct manner {
    bool is_url_safe, is_padded, breaks_lines;
};

static struct manner manner_of(enum base64_kind kind, struct bytes text)
{
    struct manner m = {.is_url_safe = kind == BASE64_URL,
                       .is_padded = kind == BASE64_PADDED,
                       .breaks_lines = kind != BASE64_URL};

    if (kind != BASE64_ANY)
        return m;
    m.is_padded = text.len % 4 == 0;
    for (size_t i = 0; i < text.len && !m.is_url_safe; i++)
        m.is_url_safe = text.at[i] == '-' || text.at[i] == '_';
    return m;
}

static int value_of(const struct manner *m, uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == (m->is_url_safe ? '-' : '+'))
        return 62;
    return c == (m->is_url_safe ? '_' : '/') ? 63 : -1;
}

bool base64_is_letter(uint8_t c)
{
    return value_of(&(struct manner){0}, c) >= 0;
}

static bool is_line_end(const struct manner *m, uint8_t c)
{
    return m->breaks_lines && (c == '\r' || c == '\n');
}

/* Behind the letters: as many '=' as are missing, and nothing else. */
static bool is_padding(const struct manner *m, struct bytes rest, unsigned missing)
{
    unsigned found = 0;

    for (size_t i = 0; i < rest.len; i++) {
        if (rest.at[i] == '=')
            found++;
        else if (!is_line_end(m, rest.at[i]))
            return false;
    }
    return found == missing;
}

static void put_bytes(uint32_t bits, unsigned letters, struct buf *out)
{
    bits <<= 6 * (4 - letters);
    buf_append(out,
               bytes_of((uint8_t[]){(uint8_t)(bits >> 16), (uint8_t)(bits >> 8), (uint8_t)bits},
                        letters - 1));
}

bool base64_decode(enum base64_kind kind, struct bytes text, struct buf *out)
{
    struct manner m = manner_of(kind, text);
    uint32_t bits = 0;
    unsigned letters = 0; /* in this group */
    size_t at = 0;

    buf_reserve(out, text.len / 4 * 3 + 3);
    for (; at < text.len && text.at[at] != '='; at++) {
        int value = value_of(&m, text.at[at]);
        if (is_line_end(&m, text.at[at]))
            continue;
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        if (++letters == 4) {
            put_bytes(bits, letters, out);
            bits = letters = 0;
        }
    }
    if (letters == 1)
        return false;
    if (letters > 1)
        put_bytes(bits, letters, out);
    struct bytes rest = at < text.len ? bytes_of(text.at + at, text.len - at) : bytes_of(NULL, 0);
    return is_padding(&m, rest, m.is_padded && letters > 0 ? 4 - letters : 0);
}
