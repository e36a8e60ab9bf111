/*
 * bytes: a look at someone else's memory.
 *
 * A pointer and a length, passed by value, never owned. Who lends the memory says for how long.
 * An empty look may have a NULL pointer; every function here accepts that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *at;
    size_t len;
};

/* For string literals: the terminating zero is left out. */
#define BYTES(literal) ((struct bytes){(const uint8_t *)("" literal), sizeof(literal) - 1})

static inline struct bytes bytes_of(const void *at, size_t len)
{
    return (struct bytes){(const uint8_t *)at, len};
}

static inline struct bytes bytes_of_str(const char *str)
{
    return bytes_of(str, strlen(str));
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* memcmp order, the shorter first when one is a prefix of the other: etcd's order of keys. */
static inline int bytes_compare(struct bytes a, struct bytes b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.at, b.at, common) : 0;

    if (order != 0)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

static inline bool bytes_starts_with(struct bytes whole, struct bytes prefix)
{
    return whole.len >= prefix.len && bytes_equal(bytes_of(whole.at, prefix.len), prefix);
}

/* Is this well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF? */
bool bytes_are_utf8(struct bytes text);

/* How many bytes the character at the start of a non-empty text has; 0 when it is malformed. */
size_t bytes_utf8_len(struct bytes text);
