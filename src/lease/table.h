/*
 * table: a hash table that never stops to grow.
 *
 * Buckets are added one at a time, each taking its share from one other (linear hashing), so the
 * millionth addition costs what the first did. base/map.h, which doubles and remembers the order of
 * insertion, would stop the turn for tens of milliseconds at a million entries; that is the reason
 * for a second kind. Links are embedded in the things themselves, chains are searched by the owner:
 *
 *     for (struct table_link *l = table_chain(t, hash); l; l = l->next)
 *         if (l->hash == hash && it is the one) ...
 *
 *     segments   | * | * | ...
 *                  |   +--> 512 buckets, the last few not in use yet
 *                  +------> 512 buckets, each a chain of links; about one link per bucket
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_link {
    struct table_link *next;
    uint32_t hash;
    uint32_t spare; /* the owner's: it would be a hole otherwise */
};

struct table {
    struct table_link ***segments;
    size_t segment_count;
    size_t bucket_count; /* in use; 0 before the first addition */
    size_t count;        /* links in it */
};

/* All zeroes is an empty table. The links are the owner's. */
void table_free(struct table *t);

/* The link's hash is filled in. */
void table_add(struct table *t, struct table_link *link);
void table_remove(struct table *t, struct table_link *link); /* it is there (asserted) */

/* The first link of the chain in which that hash would be. */
struct table_link *table_chain(const struct table *t, uint32_t hash);

/* The chain of one bucket, for walks over everything: 0 to bucket_count - 1. */
struct table_link *table_bucket(const struct table *t, size_t bucket);

/*
 * A walk over everything in pieces, whatever is added and removed between them: a link that is in
 * the table from the first piece to the last is met exactly once. It goes by the hashes' bits from
 * the lowest on, so when a bucket is split, or two become one, what lies ahead stays ahead.
 *
 *     struct table_walk w = {0};
 *     while (table_walk(t, &w, &chain))
 *         for (struct table_link *l = chain; l; l = l->next)
 *             if (table_walk_meets(&w, l)) ...
 */
struct table_walk {
    uint64_t from, next; /* hashes, their bits reversed: this bucket's, and where the next begins */
};

/* The chain of the next bucket, which may be empty; false: that was all. */
bool table_walk(const struct table *t, struct table_walk *w, struct table_link **chain);
/* False: the link was met before, in a bucket that has become one with this. */
bool table_walk_meets(const struct table_walk *w, const struct table_link *link);

void table_check(const struct table *t);
