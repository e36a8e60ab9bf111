/*
 * map: from a key to a pointer, walked in the order things were put in.
 *
 * Entries stand in one array in insertion order; a table of slots, found by hash, points into it.
 * So iteration depends only on the sequence of calls, never on addresses or on the hash, and a
 * simulation can be replayed. Keys are hashed with a secret seed (bytes by SipHash, ids by
 * multiplication), since clients choose some of them.
 *
 *     slots    | - | 2 | - | 0 | 1 | - |
 *     entries  | a -> x | b -> y | c -> z | free ...
 *
 * A map has byte keys or id keys, chosen at map_init. Byte keys are lent: they live in the value,
 * or elsewhere, at least as long as the entry. Values are never NULL.
 */
#pragma once

#include "base/bytes.h"

enum map_keys { MAP_BYTES, MAP_IDS };

struct map_entry {
    uint64_t hash;
    union {
        struct bytes key; /* MAP_BYTES */
        uint64_t id;      /* MAP_IDS */
    };
    void *value; /* NULL: removed, waiting to be swept */
};

struct map {
    struct map_entry *entries;
    uint32_t *slots; /* entry number + 1; 0 empty, UINT32_MAX left by a removal */
    size_t used;     /* entries in the array, removed ones too */
    size_t count;    /* entries alive */
    size_t slot_count;
    uint64_t seed;
    enum map_keys keys;
};

/* The seed is a secret in production and any number in tests: no result depends on it. */
void map_init(struct map *m, enum map_keys keys, uint64_t seed);
void map_free(struct map *m); /* the values are the owner's */

/* Adds or replaces; returns the value that was there, or NULL. */
void *map_put(struct map *m, struct bytes key, void *value);
void *map_put_id(struct map *m, uint64_t id, void *value);

/* The value, or NULL. */
void *map_get(const struct map *m, struct bytes key);
void *map_get_id(const struct map *m, uint64_t id);

/* Takes the entry out and returns its value, or NULL. */
void *map_remove(struct map *m, struct bytes key);
void *map_remove_id(struct map *m, uint64_t id);

/* The first living entry at or after number *at, which moves behind it; NULL at the end. */
struct map_entry *map_next(const struct map *m, size_t *at);

/* Insertion order. The body may remove any entry, and add none. */
#define MAP_FOREACH(entry, m)                                                                      \
    for (size_t entry##_at = 0, entry##_once = 1; entry##_once; entry##_once = 0)                  \
        for (struct map_entry * entry; (entry = map_next((m), &entry##_at));)

/* SipHash-1-3 of some bytes, for whoever needs a keyed hash. */
uint64_t map_hash(struct bytes key, uint64_t seed);
