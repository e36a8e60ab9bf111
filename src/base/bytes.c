#include "base/bytes.h"

/*
 * The narrowed range of the second byte is what rules out overlong forms, surrogates and values
 * past the last plane.
 */
size_t bytes_utf8_len(struct bytes text)
{
    const uint8_t *at = text.at;
    uint8_t lead = at[0];
    uint8_t low = 0x80;
    uint8_t high = 0xBF;
    size_t len;

    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF) {
        len = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        len = 3;
        low = lead == 0xE0 ? 0xA0 : low;
        high = lead == 0xED ? 0x9F : high;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        len = 4;
        low = lead == 0xF0 ? 0x90 : low;
        high = lead == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }

    if (text.len < len || at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

bool bytes_are_utf8(struct bytes text)
{
    size_t i = 0;

    while (i < text.len) {
        if (text.at[i] < 0x80) { /* as most are: names, and text of programs */
            i++;
            continue;
        }
        size_t len = bytes_utf8_len(bytes_of(text.at + i, text.len - i));
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}
