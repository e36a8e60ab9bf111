/*
 * arena: many small things that die together.
 *
 * Allocation moves a pointer through a chunk; there is no freeing of single things. A turn, a call
 * or a decoded message owns one and resets it at its end. Reset keeps one modest chunk for the next
 * round, so a steady state allocates nothing, and gives big ones back, so one huge request does not
 * stay in memory for ever.
 *
 *     chunk | header | used ......... | free |  ->  older chunk  ->  ...
 */
#pragma once

#include "base/bytes.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* newest first */
    size_t total_bytes;         /* handed out since the last reset */
};

/* All zeroes is an empty arena. */
void arena_reset(struct arena *a);
void arena_free(struct arena *a);

/* `size` zeroed bytes, aligned for anything. */
__attribute__((malloc, returns_nonnull)) void *arena_alloc(struct arena *a, size_t size);
__attribute__((malloc, returns_nonnull)) void *arena_alloc_array(struct arena *a, size_t count,
                                                                 size_t size);

/* The same without the zeroes: the caller fills all of it. */
__attribute__((malloc, returns_nonnull)) void *arena_space(struct arena *a, size_t size);
__attribute__((malloc, returns_nonnull)) void *arena_space_array(struct arena *a, size_t count,
                                                                 size_t size);

struct bytes arena_copy(struct arena *a, struct bytes what);
char *arena_copy_str(struct arena *a, struct bytes what);
__attribute__((format(printf, 2, 3))) char *arena_printf(struct arena *a, const char *format, ...);

#define arena_new(a, type)              ((type *)arena_alloc((a), sizeof(type)))
#define arena_new_array(a, count, type) ((type *)arena_alloc_array((a), (count), sizeof(type)))
