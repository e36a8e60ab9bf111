#include "base/mem.h"

#include "base/assert.h"

#include <malloc.h>
#include <stdlib.h>

void *mem_alloc(size_t size)
{
    return mem_alloc_array(1, size);
}

void *mem_alloc_array(size_t count, size_t size)
{
    void *at = calloc(count ? count : 1, size ? size : 1);

    if (!at)
        fatal("out of memory: %zu items of %zu bytes", count, size);
    return at;
}

void *mem_resize(void *at, size_t count, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(count, size, &total))
        fatal("out of memory: %zu items of %zu bytes", count, size);
    void *resized = realloc(at, total ? total : 1);
    if (!resized)
        fatal("out of memory: %zu bytes", total);
    return resized;
}

void mem_tune(void)
{
    mallopt(M_TRIM_THRESHOLD, 256 * 1024 * 1024);
    mallopt(M_TOP_PAD, 16 * 1024 * 1024);
}

void mem_free(void *at)
{
    free(at);
}
