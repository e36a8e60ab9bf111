#include "cluster/version.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>

/* Takes a decimal number off the front. */
static bool take_number(struct bytes *text, uint64_t *out)
{
    uint64_t number = 0;
    size_t len = 0;

    while (len < text->len && text->at[len] >= '0' && text->at[len] <= '9') {
        if (number > (INT64_MAX - 9) / 10) /* what the other side keeps it in is signed */
            return false;
        number = number * 10 + (uint64_t)(text->at[len] - '0');
        len++;
    }
    if (len == 0)
        return false;
    *text = bytes_of(text->at + len, text->len - len);
    *out = number;
    return true;
}

static bool take_dot(struct bytes *text)
{
    if (text->len == 0 || text->at[0] != '.')
        return false;
    *text = bytes_of(text->at + 1, text->len - 1);
    return true;
}

static bool is_suffix_character(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '+';
}

static bool is_suffix(struct bytes text)
{
    if (text.len == 0)
        return true;
    if (text.len == 1 || (text.at[0] != '-' && text.at[0] != '+'))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_suffix_character(text.at[i]))
            return false;
    }
    return true;
}

bool version_parse(struct bytes text, struct version *out)
{
    return take_number(&text, &out->major) && take_dot(&text) && take_number(&text, &out->minor) &&
           take_dot(&text) && take_number(&text, &out->patch) && is_suffix(text);
}

const char *version_text(struct version v, char out[static VERSION_TEXT_MAX])
{
    snprintf(out, VERSION_TEXT_MAX, "%" PRIu64 ".%" PRIu64 ".%" PRIu64, v.major, v.minor, v.patch);
    return out;
}

const char *version_minor_text(struct version v, char out[static VERSION_TEXT_MAX])
{
    snprintf(out, VERSION_TEXT_MAX, "%" PRIu64 ".%" PRIu64, v.major, v.minor);
    return out;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int version_compare(struct version a, struct version b)
{
    if (a.major != b.major)
        return compare_numbers(a.major, b.major);
    if (a.minor != b.minor)
        return compare_numbers(a.minor, b.minor);
    return compare_numbers(a.patch, b.patch);
}

struct version version_of_server(void)
{
    struct version v;
    bool is_version = version_parse(BYTES(SERVER_VERSION), &v);

    assert(is_version);
    return v;
}
