/*
 * keyindex: from a key to the revisions at which it changed.
 *
 * A B+tree of keys in byte order. Every inner node knows how many living keys each child holds, so
 * counting a range takes two descents. Each key has generations, from a put that creates it to the
 * tombstone that ends it; the common key, alive with one revision, needs no memory beside its own
 * record. With each revision stands the encoded length of its KeyValue, so the size of an answer is
 * known before a byte of it is read from the store.
 *
 *     tree     inner | child, living keys under it | ...       leaf | key record | key record | ...
 *     record   key bytes, newest revision {main, sub, length}, created, version, older ones if any
 *
 * Two states. Between the first change under a main revision and keyindex_publish the index knows
 * the state before (published) and the one in the making (working). Counting is possible in both,
 * at the same price: a node's counts carry the number of the write that last touched them, and keep
 * the count from before it. Publishing is then a single increment. Looking at a revision needs no
 * such care: revisions that are not published yet are simply higher than any reader asks for.
 *
 * Use        Loads, in order of revision, come first if there is a store to load from. Then, for
 *            each main revision, any number of puts and tombstones and one keyindex_publish. Looks,
 *            walks and slices of a compaction may stand anywhere in between.
 * Promises   1. Overwriting a key that exists moves nothing in the tree.
 *            2. A key of up to 500 bytes with one revision costs its bytes and 80 more on
 *               average, all told: nodes, slack and the allocator's part. A longer one costs up to
 *               a twentieth more than that.
 *            3. A cursor survives any change: it goes on at the next key in order.
 *            4. keyindex_compact_some and the walks do a bounded number of steps each call. A key
 *               with a million revisions is nothing special: finding one is O(log n); noting one
 *               more moves 2 KiB at most, and now and then a directory of an eighth of a byte each.
 * Not here   What values are (store). Which revision is current.
 * Leans on   base. No clock, no thread, no global. Ends the process when memory is gone, and when
 *            there are more than KEYINDEX_KEYS_MAX keys, which take half a terabyte.
 */
#pragma once

#include "base/buf.h"

/* A change has a main revision, shared by all of one transaction, and its place among them. */
struct revision {
    int64_t main;
    int64_t sub; /* below 2^31: a transaction has no more changes */
};

#define REVISION_SUB_MAX INT32_MAX

static inline int revision_compare(struct revision a, struct revision b)
{
    if (a.main != b.main)
        return a.main < b.main ? -1 : 1;
    return (a.sub > b.sub) - (a.sub < b.sub);
}

/* All of a main revision, and everything before it. */
static inline struct revision revision_whole(int64_t main)
{
    return (struct revision){main, REVISION_SUB_MAX};
}

#define KEYINDEX_KEYS_MAX UINT32_MAX

/* A range of keys: [from, to), to.at NULL meaning no end; or from alone. */
struct key_range {
    struct bytes from, to;
    bool one; /* from alone */
};

/* As the API says it. No end: the one key; end "\0": all from key on; else up to end, exclusive.
 * Nothing is copied. */
struct key_range key_range(struct bytes key, struct bytes end);
bool key_range_has(const struct key_range *r, struct bytes key);
bool key_ranges_overlap(const struct key_range *a, const struct key_range *b);

struct keyindex; /* opaque */

struct keyindex *keyindex_new(void);
void keyindex_free(struct keyindex *ix); /* NULL is fine */

/* A living key as it was at some revision. */
struct keyindex_found {
    struct bytes key;    /* lent until the next change of the index */
    struct revision mod; /* where its KeyValue is */
    int64_t created;     /* main revision of the first put of this life */
    int64_t version;     /* puts in this life up to mod */
    uint32_t length;     /* of its encoded KeyValue */
};

/* --- changing: revisions only grow (asserted), so do loaded ones after --- */

/*
 * Notes a put. A key that was alive keeps its created and gets the next version; otherwise a life
 * begins, created at at.main, with version 1. Both are inside the KeyValue whose length is told
 * here, so the caller looks with keyindex_find_newest first: the index remembers the place it has
 * found, and the put costs no second search. The key is copied.
 */
void keyindex_put(struct keyindex *ix, struct bytes key, struct revision at, uint32_t length);

/* Notes the end of a life. False, and nothing is noted, if the key is not alive. */
bool keyindex_tombstone(struct keyindex *ix, struct bytes key, struct revision at, uint32_t length);

/* What was changed since the last time is now what counts. */
void keyindex_publish(struct keyindex *ix);

/*
 * --- range tombstone: many lives end at once ---
 *
 * Ends all lives in a range, the first in the order of keys at `at`, the next at the sub after it
 * and so on, and returns how many there were. It takes O(log n): from here on everybody sees them
 * dead, but the tombstones are unsettled, and noted by and by. One range tombstone at a time
 * (asserted), so keyindex_is_unsettled is asked first. Meanwhile nothing is compacted (asserted).
 */
int64_t keyindex_range_tombstone(struct keyindex *ix, const struct key_range *range,
                                 struct revision at);
bool keyindex_is_unsettled(const struct keyindex *ix);

/* Its range, good until it is settled, and the first of its revisions. */
const struct key_range *keyindex_unsettled_range(const struct keyindex *ix);
struct revision keyindex_unsettled_first(const struct keyindex *ix);

/* Is the key's tombstone unsettled, and at which revision? Before a put, which begins its next
 * life, the owner settles: stores it, and notes it here. O(log n). */
bool keyindex_key_is_unsettled(struct keyindex *ix, struct bytes key, struct revision *at);
void keyindex_settle_key(struct keyindex *ix, struct bytes key, struct revision at,
                         uint32_t length);

/* Stores the tombstone of a key, which is lent; how long it is. It must not change the index. */
typedef uint32_t keyindex_store_tombstone(void *context, struct bytes key, struct revision at);

/* Settles what is unsettled, in the order of keys; looks at no more than `steps` keys that are
 * covered, at fewer that are long. True when that was all, and the range tombstone is over. */
bool keyindex_settle_some(struct keyindex *ix, unsigned steps, keyindex_store_tombstone *store,
                          void *context);

/*
 * --- loading: entries of the store, in order of revision ---
 *
 * What is loaded counts as published at once; no write is under way (asserted). False, and nothing
 * is noted, if an entry contradicts itself or what was loaded before: the store is damaged.
 */

/*
 * A put as found in the store, with what its KeyValue says. The first of a key may have any created
 * and any version from 1, also if a tombstone is all that is known of the key before: when one
 * transaction has deleted and put a key, etcd's compaction at it leaves such stores behind. All
 * others must follow from the one before.
 */
bool keyindex_load_put(struct keyindex *ix, struct bytes key, struct revision at, int64_t created,
                       int64_t version, uint32_t length);

/* A tombstone of a key that is not alive, or unknown, is kept as a life of that revision alone. */
bool keyindex_load_tombstone(struct keyindex *ix, struct bytes key, struct revision at,
                             uint32_t length);

/* A range tombstone that is not settled, told when everything before its first revision is loaded.
 * Those of its tombstones that the store has are loaded after it, like all others. False: it cannot
 * be. */
bool keyindex_load_range_tombstone(struct keyindex *ix, const struct key_range *range,
                                   struct revision at);

/* --- looking --- */

/* The key as of `at`, its newest revision that is not later. False if it was not alive then. */
bool keyindex_find(const struct keyindex *ix, struct bytes key, struct revision at,
                   struct keyindex_found *out);

/* The newest state, whatever is published or not. It notes the place for a put that may follow, so
 * it is for the owner's thread alone. */
bool keyindex_find_newest(const struct keyindex *ix, struct bytes key, struct keyindex_found *out);

/* Living keys in the range: as published, or as they are in the write under way. O(log n). */
int64_t keyindex_count(const struct keyindex *ix, const struct key_range *r, bool published);

/* Keys that exist at all, dead ones that history still holds too. */
size_t keyindex_size(const struct keyindex *ix);

/* A walk over the keys of a range that were alive at `at`, in order or backwards. */
struct keyindex_cursor {
    struct keyindex *ix;
    struct key_range range;
    struct revision at;
    bool backwards;
    /* The rest is the index's own: where it stands, and the key it has looked at last. */
    void *leaf;
    unsigned place;
    uint64_t shape; /* of the tree when `leaf` was good */
    struct buf last;
    bool started, ended;
};

/* The range's bytes must outlive the cursor; the index too, and a cursor that is open is closed. */
void keyindex_cursor_open(struct keyindex *ix, const struct key_range *range, struct revision at,
                          bool backwards, struct keyindex_cursor *c);
void keyindex_cursor_close(struct keyindex_cursor *c); /* again is fine */

/* Another one that stands where c does; for whoever wants to look ahead. */
void keyindex_cursor_copy(const struct keyindex_cursor *c, struct keyindex_cursor *out);

/* Looks at no more than *steps records, dead ones count too, and lowers *steps. True and *out;
 * false with *steps 0: perhaps not at the end, go on later; false otherwise: the end. */
bool keyindex_cursor_next(struct keyindex_cursor *c, unsigned *steps, struct keyindex_found *out);

/* --- compacting, with etcd's rules --- */

/* Called for every revision that history no longer needs, of each key the oldest first. It must not
 * change the index. */
typedef void keyindex_drop(void *context, struct revision at, bool tombstone);

/* Where a compaction stands. All zeroes: at the start. */
struct keyindex_compaction {
    struct buf next; /* the key to go on with */
    bool started;
    bool walked; /* all keys are done; memory may have to be given back */
};

/*
 * Forgets, key by key from where *c stands, what a compaction at `main` does not keep. At most
 * `steps` keys or revisions, at least one. True when the last key is done, and the memory of much
 * that has gone is given back, a little in each of the last slices. What is kept at `main` is the
 * newest revision not later than it of each key that is alive then, and a tombstone exactly at it;
 * everything later is kept. A dead key without revisions disappears. `main` is published, and the
 * same for all slices of one compaction.
 */
bool keyindex_compact_some(struct keyindex *ix, struct keyindex_compaction *c, int64_t main,
                           unsigned steps, keyindex_drop *drop, void *context);

/* After the last slice, or to give it up; leaves all zeroes. */
void keyindex_compaction_end(struct keyindex_compaction *c);

/*
 * Would a compaction at `main` keep this revision of the key, in etcd's sense for HashKV: what it
 * keeps, but no tombstones at or below `main`? Later revisions are kept if the key has them or not.
 */
bool keyindex_keeps(const struct keyindex *ix, struct bytes key, struct revision at, int64_t main);

/* Memory held by the index, for tests and figures: what it has touched, free slots included. */
size_t keyindex_bytes(const struct keyindex *ix);

/* Text of one key's generations, for scenarios: "generations={2,3t} {4}"; a sub that is not 0
 * follows its main as "4.1"; "generations=none" if the key is unknown. */
void keyindex_describe(const struct keyindex *ix, struct bytes key, struct buf *out);

/* All invariants, asserted; walks everything. */
void keyindex_check(const struct keyindex *ix);
