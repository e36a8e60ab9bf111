/*
 * keys: which key belongs to which lease.
 *
 * Every attached key is one piece of memory, its bytes at the end. It hangs on a chain of the
 * table, where it is found by its bytes, and in its lease's tree, which keeps them in order. The
 * tree is a treap whose weight is the hash that the table needs anyway. The hash is keyed with a
 * secret, so nobody can choose keys that make a tall tree.
 *
 *     table    | . | * | . | * |            lease "7"      k5
 *                    |       |                            /  \
 *                    k5      k9 -> k2                   k2    k9
 *
 * A large delete ends a range of keys at once, and they leave their leases later. Deletes of that
 * kind are numbered; each key remembers how many there had been when it was attached, and in the
 * tree each also knows the highest such number below it. So whoever wants the living passes over a
 * million dead ones in O(log n).
 */
#pragma once

#include "base/bytes.h"
#include "base/treap.h"
#include "lease/table.h"

struct lease;

struct leased_key {
    struct table_link link; /* spare: how long the key is */
    struct lease *lease;
    struct treap_node node; /* in its lease's tree */
    uint32_t attached;      /* after so many large deletes; a put again counts */
    uint32_t newest;        /* the highest of these in its subtree */
    uint8_t at[];
};

/* The keys of one lease. All zeroes is empty. */
struct key_tree {
    struct treap_node *root;
    size_t count;
    uint64_t bytes; /* of all keys */
};

/* The last large delete. Four billion of them, of a thousand keys or more, have no store. */
struct keys_ended {
    uint32_t number;       /* 0: there was none */
    struct bytes from, to; /* to.at NULL: no end */
};

static inline struct bytes leased_key_bytes(const struct leased_key *k)
{
    return bytes_of(k->at, k->link.spare);
}

/* NULL if nobody has it. */
struct leased_key *keys_find(const struct table *t, uint64_t seed, struct bytes key);

/* A key that nobody has becomes this lease's, whose tree is given; `number` is the last large
 * delete's. */
void keys_add(struct table *t, uint64_t seed, struct lease *lease, struct key_tree *tree,
              struct bytes key, uint32_t number);

/* From one lease's tree to another's, or to the same, without touching the table. */
void keys_move(struct leased_key *k, struct key_tree *from, struct lease *lease,
               struct key_tree *to, uint32_t number);

/* Nobody has it any more; k is freed. */
void keys_remove(struct table *t, struct leased_key *k, struct key_tree *tree);

/* The first key, and the first behind `after`; NULL if there is none. */
const struct leased_key *keys_first(const struct key_tree *tree);
const struct leased_key *keys_after(const struct key_tree *tree, struct bytes after);

/* The first at `from` or behind it that the large delete has not ended. */
const struct leased_key *keys_living_from(const struct key_tree *tree, struct bytes from,
                                          const struct keys_ended *ended);

/* Frees all keys of all leases, and the table. */
void keys_free(struct table *t);

/* Asserts order, heap order, count, and that all of it belongs to the lease and is in the table. */
void keys_check(const struct table *t, uint64_t seed, const struct lease *lease,
                const struct key_tree *tree);
