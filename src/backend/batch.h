/*
 * batch: what has been written and is not yet in the pages.
 *
 * One skip list for each bucket, everything in one arena, so that dropping a batch of a million
 * writes is a few thousand frees. A key that lies behind the last one is linked there at once: mvcc
 * writes revisions in ascending order, and that is nearly everything.
 *
 *     level 2   o-------------------------> 40 ------------> (last)
 *     level 1   o--------> 20 ------------> 40 --> 50 -----> (last)
 *     level 0   o--> 10 -> 20 --> 25 -----> 40 --> 50 -> 60  (last)
 *                                 |
 *                                 +-- "new" (stamp 7) --> deleted (stamp 5) --> "old" (stamp 2)
 *
 * Every write carries a stamp; a reader with limit n sees of each key the newest version with a
 * stamp <= n. Writes of one stamp replace each other, for no reader can tell them apart; so stamps
 * need to grow only when a reader comes.
 *
 * Deletes made ahead are apart from that: no reader of the batch sees them, they come by the
 * hundred thousand and hardly in order, and a node would take five times the memory. They are bytes
 * in a row, put in order when the batch goes to the store.
 *
 * One thread writes. Once it has stopped, any number may read.
 */
#pragma once

#include "backend/backend.h"
#include "base/arena.h"
#include "base/rng.h"

#include <stdatomic.h>

enum { BATCH_LEVELS = 12 }; /* a quarter of each level reaches the next: good for 16 million keys */

struct batch_version {
    uint64_t stamp;
    struct batch_version *older; /* smaller stamp */
    uint32_t len, cap;
    bool deleted;
    uint8_t at[];
};

struct batch_node {
    uint64_t prefix; /* the key's first eight bytes, as a number: decides most comparisons */
    struct batch_version *newest;
    const uint8_t *key;
    uint32_t key_len;
    struct batch_node *next[]; /* one for each level the node is on */
};

struct batch_list {
    struct batch_node *first[BATCH_LEVELS];
    struct batch_node *last[BATCH_LEVELS]; /* NULL on levels without a node */
    size_t count;
};

/* A chunk of deletes made ahead: | bucket u8 | key length u32 | key | ... */
struct batch_ahead {
    struct batch_ahead *older;
    uint32_t used, cap;
    uint8_t at[];
};

struct batch {
    struct batch_list lists[BUCKET_COUNT];
    struct arena arena;
    struct rng rng; /* heights, from a fixed seed */
    atomic_uint refs;
    bool has_writes;
    struct batch_ahead *ahead; /* newest first */
    size_t ahead_count;
    size_t upkeep_bytes;              /* of batch_bytes, what is upkeep's */
    struct backend_position position; /* after its last entry */
    struct batch *next_unused;
};

/* Empty, with one owner. */
struct batch *batch_new(void);
struct batch *batch_ref(struct batch *b);

/* Was this the last owner? Then the caller goes on to batch_free. */
MUST_CHECK bool batch_unref(struct batch *b);
void batch_free(struct batch *b);

uint8_t *batch_put_space(struct batch *b, enum bucket bucket, struct bytes key, size_t len,
                         uint64_t stamp);
void batch_delete(struct batch *b, enum bucket bucket, struct bytes key, uint64_t stamp);

/* Of a key that the batch itself has written: an ordinary delete. */
void batch_delete_ahead(struct batch *b, enum bucket bucket, struct bytes key, uint64_t stamp);

/* All b->ahead_count of them, by bucket and key: the caller ends the list with mem_free, and reads
 * it by batch_ahead_read. */
const uint8_t **batch_ahead_sorted(const struct batch *b);
struct bytes batch_ahead_read(const uint8_t *item, enum bucket *bucket);

/* The version a reader with this limit sees, which may say deleted; NULL if it sees none. */
const struct batch_version *batch_get(const struct batch *b, enum bucket bucket, struct bytes key,
                                      uint64_t limit);

/* The first node with a key >= from. Go on with node->next[0]; versions as below. */
const struct batch_node *batch_seek(const struct batch *b, enum bucket bucket, struct bytes from);

static inline const struct batch_version *batch_version_at(const struct batch_node *node,
                                                           uint64_t limit)
{
    const struct batch_version *v = node->newest;

    while (v && v->stamp > limit)
        v = v->older;
    return v;
}

static inline struct bytes batch_node_key(const struct batch_node *node)
{
    return bytes_of(node->key, node->key_len);
}

static inline struct bytes batch_version_value(const struct batch_version *v)
{
    return bytes_of(v->at, v->len);
}

/* The memory it holds. */
static inline size_t batch_bytes(const struct batch *b)
{
    return b->arena.total_bytes;
}

void batch_check(const struct batch *b);
