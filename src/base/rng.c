#include "base/rng.h"

#include "base/assert.h"

static uint64_t rotate_left(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

void rng_seed(struct rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->state[i] = splitmix(&seed);
}

uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t bound)
{
    assert(bound > 0);

    /* The few values at the bottom that would make some results more likely are drawn again. */
    uint64_t unfair = -bound % bound;
    uint64_t x = rng_next(r);
    while (x < unfair)
        x = rng_next(r);
    return x % bound;
}

uint64_t rng_between(struct rng *r, uint64_t low, uint64_t high)
{
    assert(low <= high);
    assert(high - low < UINT64_MAX);

    return low + rng_below(r, high - low + 1);
}

bool rng_chance(struct rng *r, uint64_t times, uint64_t outof)
{
    return rng_below(r, outof) < times;
}
