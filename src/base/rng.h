/*
 * rng: numbers that look random and can be had again from the seed.
 *
 * Deciding rooms are handed one and never ask the system, so a simulation is its seed. Two calls
 * must never stand in one expression: compilers order them differently, and the replay is gone.
 * xoshiro256**, seeded through splitmix64. Not for secrets: those come from io's entropy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state[4];
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_next(struct rng *r);

/* Evenly from [0, bound), bound > 0. */
uint64_t rng_below(struct rng *r, uint64_t bound);

/* Evenly from [low, high]. */
uint64_t rng_between(struct rng *r, uint64_t low, uint64_t high);

/* True `times` out of `outof`. */
bool rng_chance(struct rng *r, uint64_t times, uint64_t outof);
