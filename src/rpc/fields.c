#include "rpc/fields.h"

#include "base/text.h"

#include <nghttp2/nghttp2.h>
#include <string.h>
#include <strings.h>

enum {
    PSEUDO_METHOD = 1,
    PSEUDO_SCHEME = 2,
    PSEUDO_PATH = 4,
    PSEUDO_AUTHORITY = 8,
};

#define IS(name, literal)                                                                          \
    ((name).len == sizeof(literal) - 1 && memcmp((name).at, literal, sizeof(literal) - 1) == 0)

static uint8_t pseudo_of(struct bytes name)
{
    return IS(name, ":path")        ? PSEUDO_PATH
           : IS(name, ":method")    ? PSEUDO_METHOD
           : IS(name, ":scheme")    ? PSEUDO_SCHEME
           : IS(name, ":authority") ? PSEUDO_AUTHORITY
                                    : 0;
}

static bool add_pseudo(struct fields *f, struct bytes name, struct bytes value)
{
    uint8_t which = pseudo_of(name);

    if (which == 0 || f->has_usual || (f->pseudo & which))
        return false;
    f->pseudo |= which;
    if (which == PSEUDO_METHOD)
        f->is_connect = IS(value, "CONNECT");
    return which != PSEUDO_PATH || value.len > 0;
}

static bool add_length(struct fields *f, struct bytes value)
{
    if (f->has_length)
        return false;
    f->has_length = true;
    return text_read_number(value, UINT64_MAX, &f->length) == ERR_OK;
}

/* Of the connection, or of HTTP/1's way to send a body. */
static bool is_of_connection(struct bytes name)
{
    switch (name.len) {
    case 7:
        return IS(name, "upgrade");
    case 10:
        return IS(name, "connection") || IS(name, "keep-alive");
    case 16:
        return IS(name, "proxy-connection");
    case 17:
        return IS(name, "transfer-encoding");
    default:
        return false;
    }
}

/* Those that come with nearly every call, and need no look at each of their letters. */
static bool is_common(struct bytes name)
{
    switch (name.len) {
    case 5:
        return IS(name, "token");
    case 9:
        return IS(name, "hasleader");
    case 10:
        return IS(name, "user-agent");
    case 12:
        return IS(name, "content-type") || IS(name, "grpc-timeout");
    case 13:
        return IS(name, "authorization");
    case 18:
        return IS(name, "client-api-version");
    case 20:
        return IS(name, "grpc-accept-encoding");
    default:
        return false;
    }
}

static bool add_usual(struct fields *f, struct bytes name, struct bytes value)
{
    f->has_usual = true;
    if (is_common(name))
        return true;
    if (IS(name, "te"))
        return value.len == 8 && strncasecmp((const char *)value.at, "trailers", 8) == 0;
    if (!nghttp2_check_header_name(name.at, name.len) || is_of_connection(name))
        return false;
    return !IS(name, "content-length") || add_length(f, value);
}

/* Is any byte of the word below a space, or 0x7f? The first shows in the highest bit of a byte by
 * what it borrows, the second by what carries into it. */
static bool has_control(uint64_t word)
{
    const uint64_t each = 0x0101010101010101, high = each * 0x80;

    return (((word - each * 0x20) | ((word & ~high) + each)) & ~word & high) != 0;
}

/* The same but for tabs, which are allowed. Of each byte the lower seven bits are added to what
 * carries into the highest one; so no byte touches another. */
static bool has_control_but_tab(uint64_t word)
{
    const uint64_t each = 0x0101010101010101, high = each * 0x80, low = ~high & word;
    uint64_t is_printed = low + each * (0x80 - 0x20), is_delete = low + each;
    uint64_t is_other_than_tab = (low ^ each * '\t') + each * 0x7f;

    return (((~is_printed & is_other_than_tab) | is_delete) & ~word & high) != 0;
}

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

/* Eight bytes at a time, the last eight perhaps twice. Tabs are rare. */
static bool value_is_sound(struct bytes value)
{
    if (value.len < sizeof(uint64_t))
        return nghttp2_check_header_value(value.at, value.len);
    for (size_t i = 0; i + sizeof(uint64_t) <= value.len; i += sizeof(uint64_t)) {
        uint64_t word = word_at(value.at + i);
        if (has_control(word) && has_control_but_tab(word))
            return false;
    }
    uint64_t last = word_at(value.at + value.len - sizeof(uint64_t));
    return !has_control(last) || !has_control_but_tab(last);
}

static bool is_pseudo(struct bytes name)
{
    return name.len > 0 && name.at[0] == ':';
}

void fields_add(struct fields *f, struct bytes name, struct bytes value)
{
    bool is_sound = is_pseudo(name) ? add_pseudo(f, name, value) : add_usual(f, name, value);

    if (!is_sound || !value_is_sound(value))
        f->is_malformed = true;
}

/* A length comes too late here to say anything about the body. */
void fields_add_trailer(struct fields *f, struct bytes name, struct bytes value)
{
    if (is_pseudo(name) || IS(name, "content-length"))
        f->is_malformed = true;
    else
        fields_add(f, name, value);
}

void fields_end(struct fields *f)
{
    uint8_t needed = f->is_connect ? PSEUDO_METHOD | PSEUDO_AUTHORITY
                                   : PSEUDO_METHOD | PSEUDO_SCHEME | PSEUDO_PATH;

    if ((f->pseudo & needed) != needed || (f->is_connect && f->pseudo != needed))
        f->is_malformed = true;
    if (f->is_connect)
        f->has_length = false; /* what follows is a tunnel, of which no length says anything */
}

void fields_add_body(struct fields *f, size_t count)
{
    f->taken += count;
    if (f->has_length && f->taken > f->length)
        f->is_malformed = true;
}

void fields_end_body(struct fields *f)
{
    if (f->has_length && f->taken != f->length)
        f->is_malformed = true;
}
