/*
 * dice: random requests over a handful of keys and leases, for tests.
 *
 * Everything lies in the arena. Transactions are nested, overlap themselves in ways that api would
 * refuse and apply must cope with, and ask for revisions around the current one.
 */
#pragma once

#include "base/rng.h"
#include "pb/codec.h"

enum { DICE_KEYS = 12, DICE_LEASES = 4, DICE_OPS = 5, DICE_DEPTH = 4 };

struct dice {
    struct rng rng;
    struct arena *arena;
    int64_t revision; /* of the store, as far as the test knows */
};

/* Evenly from [0, sides). */
uint64_t dice_roll(struct dice *d, uint64_t sides);

/* "a" to "l". */
struct bytes dice_key(size_t i);

/* Leases have the ids 1 to DICE_LEASES; fewer than DICE_OPS operations stand in a branch. */
struct pb_internal_raft_request dice_request(struct dice *d);
const struct pb_range_request *dice_range(struct dice *d);
const struct pb_txn_request *dice_txn(struct dice *d, unsigned depth, bool reads);
