/*
 * mem: ordinary allocation, which never returns NULL.
 *
 * When memory is gone the process ends: admission is what we refuse, long before (limits.h), and a
 * half-handled allocation failure is code that no test ever ran.
 */
#pragma once

#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>

/* `size` zeroed bytes; a size of 0 is allowed. End with mem_free. */
__attribute__((malloc, returns_nonnull)) void *mem_alloc(size_t size);

/* The same for `count` items of `size` bytes; a product that overflows is fatal. */
__attribute__((malloc, returns_nonnull)) void *mem_alloc_array(size_t count, size_t size);

/* Resizes to `count` items of `size` bytes. What is new is not zeroed. NULL is fine. */
__attribute__((returns_nonnull)) void *mem_resize(void *at, size_t count, size_t size);

/* Zeroes a large struct that is used again. Not inline: of a size that it knows gcc makes `rep
 * stos`, which goes eight bytes at a time; the C library takes what the machine has. */
void mem_clear(void *at, size_t size);

/* NULL is fine. Small pieces are kept for this thread's next allocations, a few megabytes at most.
 */
void mem_free(void *at);

/* Gives those back to the system: for a thread at its end. */
void mem_give_back(void);

/*
 * A region of whole pages straight from the system, zeroed, at an address that is a multiple of its
 * size, which is a power of two and no smaller than a page (asserted). Huge pages are a wish: where
 * the system knows none, ordinary ones do. End with mem_unmap_region, told the same size.
 */
__attribute__((returns_nonnull)) void *mem_map_region(size_t size, bool huge_pages);
void mem_unmap_region(void *at, size_t size);

/*
 * The first touch of a huge page clears all of it, which takes milliseconds where a machine has to
 * be given its memory first. So MEM_PREPARED_MAX regions of huge pages, MEM_PREPARED_BYTES each,
 * are kept ready and touched, from when somebody expects to need them. When one has been taken, the
 * next is wanted; a thread for which nobody waits makes it. Where that has begun and none is ready,
 * mem_map_region takes ordinary pages, which are cleared one by one.
 */
void mem_expect_regions(void);
bool mem_wants_region(void);
void mem_prepare_region(void);

/*
 * Called once by a program that has more than one thread, when what it opens first is open: LMDB
 * takes 2 MiB of zeroes, which come from the kernel untouched as long as the heap is small, and
 * would be written to if they were cut from one that has grown. Growing and shrinking the heap
 * takes the kernel's lock on the address space, which a thread that maps or releases a large file
 * may hold for milliseconds; so the heap grows in large steps and keeps what it has. Untouched
 * pages cost nothing.
 */
void mem_tune(void);

#define mem_new(type)              ((type *)mem_alloc(sizeof(type)))
#define mem_new_array(count, type) ((type *)mem_alloc_array((count), sizeof(type)))

#define MUST_CHECK       __attribute__((warn_unused_result))
#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))
