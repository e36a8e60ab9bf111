#include "base/mem.h"

#include "base/assert.h"
#include "base/sanitized.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Small pieces that this thread has freed, by size, for its next allocations. A turn takes a
 * thousand calls in and lets a thousand go; the C library keeps seven pieces of each size at hand
 * and takes the long way for the others. Sanitizers want to see every piece come and go.
 */
enum {
    SPARE_UNIT = 16, /* a piece of kind n holds n units and half of one */
    SPARE_KINDS = 64,
    SPARE_BYTES_MAX = SANITIZED ? 0 : MEM_SPARE_BYTES_MAX,
};

struct spare {
    struct spare *next;
};

static _Thread_local struct {
    struct spare *lists[SPARE_KINDS + 1];
    size_t bytes;
} spares;

static void *take_spare(size_t size)
{
    size_t kind = size <= SPARE_UNIT ? 1 : (size + SPARE_UNIT / 2 - 1) / SPARE_UNIT;
    struct spare *s = kind <= SPARE_KINDS ? spares.lists[kind] : NULL;

    if (!s)
        return NULL;
    spares.lists[kind] = s->next;
    spares.bytes -= kind * SPARE_UNIT;
    return s;
}

static bool keep_spare(void *at)
{
    size_t space = malloc_usable_size(at);
    size_t kind = space < SPARE_UNIT ? 0 : (space - SPARE_UNIT / 2) / SPARE_UNIT;
    struct spare *s = at;

    if (kind == 0 || kind > SPARE_KINDS || spares.bytes + kind * SPARE_UNIT > SPARE_BYTES_MAX)
        return false;
    s->next = spares.lists[kind];
    spares.lists[kind] = s;
    spares.bytes += kind * SPARE_UNIT;
    return true;
}

void mem_give_back(void)
{
    for (size_t kind = 1; kind <= SPARE_KINDS; kind++) {
        while (spares.lists[kind])
            free(take_spare(kind * SPARE_UNIT));
    }
}

void mem_clear(void *at, size_t size)
{
    memset(at, 0, size);
}

void *mem_alloc(size_t size)
{
    void *at = take_spare(size);

    return at ? memset(at, 0, size) : mem_alloc_array(1, size);
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
    void *resized = at ? NULL : take_spare(total);
    if (!resized)
        resized = realloc(at, total ? total : 1);
    if (!resized)
        fatal("out of memory: %zu bytes", total);
    return resized;
}

/* Wherever the system likes to put twice as much, there is one such address; the rest goes back. */
static void *map_region(size_t size, bool huge_pages)
{
    uint8_t *at = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fatal("out of memory: no region of %zu bytes", size);

    size_t before = -(uintptr_t)at & (size - 1);
    if (before > 0)
        mem_unmap_region(at, before);
    mem_unmap_region(at + before + size, size - before);
    if (huge_pages)
        (void)madvise(at + before, size, MADV_HUGEPAGE);
    return at + before;
}

static _Atomic(void *) prepared[MEM_PREPARED_MAX];
static atomic_bool regions_are_expected, regions_are_prepared;

static void *take_prepared(void)
{
    void *at = NULL;

    for (unsigned i = 0; i < MEM_PREPARED_MAX && !at; i++)
        at = atomic_exchange(&prepared[i], NULL);
    return at;
}

void *mem_map_region(size_t size, bool huge_pages)
{
    assert(size > 0 && size % (size_t)sysconf(_SC_PAGESIZE) == 0);
    assert((size & (size - 1)) == 0);

    if (!huge_pages || size != MEM_PREPARED_BYTES)
        return map_region(size, huge_pages);
    void *at = take_prepared();
    return at ? at : map_region(size, !atomic_load(&regions_are_prepared));
}

void mem_expect_regions(void)
{
    atomic_store(&regions_are_expected, true);
}

bool mem_wants_region(void)
{
    bool lacks = false;

    if (!atomic_load(&regions_are_expected))
        return false;
    for (unsigned i = 0; i < MEM_PREPARED_MAX; i++)
        lacks = lacks || !atomic_load(&prepared[i]);
    return lacks;
}

void mem_prepare_region(void)
{
    uint8_t *at = map_region(MEM_PREPARED_BYTES, true);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    atomic_store(&regions_are_prepared, true);
    for (size_t i = 0; i < MEM_PREPARED_BYTES; i += page)
        *(volatile uint8_t *)(at + i) = 0;
    for (unsigned i = 0; i < MEM_PREPARED_MAX; i++) {
        void *nothing = NULL;
        if (atomic_compare_exchange_strong(&prepared[i], &nothing, at))
            return;
    }
    mem_unmap_region(at, MEM_PREPARED_BYTES); /* somebody else was faster */
}

void mem_unmap_region(void *at, size_t size)
{
    if (munmap(at, size) != 0)
        fatal("cannot unmap %zu bytes: %s", size, strerror(errno));
}

void mem_tune(void)
{
    mallopt(M_TRIM_THRESHOLD, 256 * 1024 * 1024);
    mallopt(M_TOP_PAD, 16 * 1024 * 1024);
}

void mem_free(void *at)
{
    if (at && !keep_spare(at))
        free(at);
}
