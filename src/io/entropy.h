/*
 * entropy: bytes nobody can guess, for ids, tokens, salts and the seed of the server's rng.
 *
 * The real one asks the kernel, the fake one a seeded rng. Never fails: a system without randomness
 * is one we cannot run on, and ends the process.
 */
#pragma once

#include <stddef.h>

struct entropy {
    void (*fill)(struct entropy *e, void *out, size_t len);
};

/* From the core thread. */
static inline void entropy_fill(struct entropy *e, void *out, size_t len)
{
    e->fill(e, out, len);
}
