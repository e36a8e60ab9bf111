#include "base/arena.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    CHUNK_BYTES = 1024,          /* of the first chunk; each further one is twice as large, */
    CHUNK_BYTES_MAX = 16 * 1024, /* up to here. A larger request gets one of its own */
    ALIGNMENT = _Alignof(max_align_t),
};

struct arena_chunk {
    struct arena_chunk *older;
    size_t used, cap;
    _Alignas(max_align_t) uint8_t at[];
};

static struct arena_chunk *chunk_new(struct arena *a, size_t size)
{
    size_t cap = a->chunks ? 2 * a->chunks->cap : CHUNK_BYTES;

    if (cap > CHUNK_BYTES_MAX)
        cap = CHUNK_BYTES_MAX;
    if (cap < size)
        cap = size;
    assert(cap <= SIZE_MAX - sizeof(struct arena_chunk));
    struct arena_chunk *c = mem_resize(NULL, sizeof(*c) + cap, 1);
    c->used = 0;
    c->cap = cap;
    c->older = a->chunks;
    a->chunks = c;
    return c;
}

void arena_reset(struct arena *a)
{
    struct arena_chunk *keep = NULL;

    while (a->chunks) {
        struct arena_chunk *c = a->chunks;
        a->chunks = c->older;
        if (!keep && c->cap <= CHUNK_BYTES_MAX)
            keep = c;
        else
            mem_free(c);
    }
    if (keep) {
        keep->older = NULL;
        keep->used = 0;
    }
    a->chunks = keep;
    a->total_bytes = 0;
}

void arena_free(struct arena *a)
{
    arena_reset(a);
    mem_free(a->chunks);
    a->chunks = NULL;
}

void *arena_space(struct arena *a, size_t size)
{
    size_t rounded = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    struct arena_chunk *c = a->chunks;

    if (rounded < size)
        fatal("out of memory: %zu bytes", size);
    if (!c || c->cap - c->used < rounded)
        c = chunk_new(a, rounded);
    void *at = c->at + c->used;
    c->used += rounded;
    a->total_bytes += rounded;
    return at;
}

void *arena_alloc(struct arena *a, size_t size)
{
    return memset(arena_space(a, size), 0, size);
}

void *arena_space_array(struct arena *a, size_t count, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(count, size, &total))
        fatal("out of memory: %zu items of %zu bytes", count, size);
    return arena_space(a, total);
}

void *arena_alloc_array(struct arena *a, size_t count, size_t size)
{
    return memset(arena_space_array(a, count, size), 0, count * size);
}

struct bytes arena_copy(struct arena *a, struct bytes what)
{
    return bytes_of(arena_copy_str(a, what), what.len);
}

char *arena_copy_str(struct arena *a, struct bytes what)
{
    char *at = arena_space(a, what.len + 1);

    if (what.len > 0)
        memcpy(at, what.at, what.len);
    at[what.len] = '\0';
    return at;
}

char *arena_printf(struct arena *a, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    assert(len >= 0);
    char *at = arena_space(a, (size_t)len + 1);
    vsnprintf(at, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    return at;
}
