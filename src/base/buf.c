#include "base/buf.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>

enum { BUF_CAP_MIN = 64 };

void buf_free(struct buf *b)
{
    mem_free(b->at);
    *b = (struct buf){0};
}

uint8_t *buf_reserve(struct buf *b, size_t more)
{
    size_t need;

    if (__builtin_add_overflow(b->len, more, &need))
        fatal("out of memory: a buffer of %zu bytes cannot grow by %zu", b->len, more);
    if (need > b->cap) {
        size_t cap = b->cap < BUF_CAP_MIN / 2 ? BUF_CAP_MIN : b->cap * 2;
        b->cap = cap > need ? cap : need;
        b->at = mem_resize(b->at, b->cap, 1);
    }
    return b->at ? b->at + b->len : NULL;
}

uint8_t *buf_extend(struct buf *b, size_t more)
{
    uint8_t *at = buf_reserve(b, more);

    b->len += more;
    return at;
}

void buf_append(struct buf *b, struct bytes what)
{
    if (what.len > 0)
        memcpy(buf_extend(b, what.len), what.at, what.len);
}

void buf_append_str(struct buf *b, const char *str)
{
    buf_append(b, bytes_of_str(str));
}

void buf_append_byte(struct buf *b, uint8_t byte)
{
    *buf_extend(b, 1) = byte;
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    buf_vprintf(b, format, args);
    va_end(args);
}

void buf_vprintf(struct buf *b, const char *format, va_list args)
{
    va_list again;

    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    assert(len >= 0);
    char *at = (char *)buf_reserve(b, (size_t)len + 1);
    vsnprintf(at, (size_t)len + 1, format, again);
    va_end(again);
    b->len += (size_t)len;
}

void buf_drop_front(struct buf *b, size_t count)
{
    assert(count <= b->len);

    b->len -= count;
    if (b->len > 0)
        memmove(b->at, b->at + count, b->len);
}

const char *buf_str(struct buf *b)
{
    *buf_reserve(b, 1) = '\0';
    return (const char *)b->at;
}
