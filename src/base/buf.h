/*
 * buf: bytes of my own that grow.
 *
 * All zeroes is an empty buf; buf_free gives the memory back and leaves it empty again. Growth
 * doubles, so appending is cheap; pointers into a buf die with the next append.
 */
#pragma once

#include "base/bytes.h"

#include <stdarg.h>

struct buf {
    uint8_t *at;
    size_t len, cap;
};

void buf_free(struct buf *b);

/* Makes space for `more` bytes behind the content and returns where they go; len is unchanged. */
uint8_t *buf_reserve(struct buf *b, size_t more);

/* The same, and the bytes count as content at once: the caller fills them. */
uint8_t *buf_extend(struct buf *b, size_t more);

void buf_append(struct buf *b, struct bytes what);
void buf_append_str(struct buf *b, const char *str);
void buf_append_byte(struct buf *b, uint8_t byte);
__attribute__((format(printf, 2, 3))) void buf_printf(struct buf *b, const char *format, ...);
__attribute__((format(printf, 2, 0))) void buf_vprintf(struct buf *b, const char *format,
                                                       va_list args);

/* Drops the first `count` bytes and moves the rest to the front. */
void buf_drop_front(struct buf *b, size_t count);

/* The content as a C string, good until the buf changes. The zero is not counted in len. */
const char *buf_str(struct buf *b);

static inline struct bytes buf_bytes(const struct buf *b)
{
    return bytes_of(b->at, b->len);
}

static inline void buf_clear(struct buf *b)
{
    b->len = 0;
}
