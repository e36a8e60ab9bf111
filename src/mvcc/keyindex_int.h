/*
 * What the files of keyindex share.
 *
 *     keyindex.c          one key: noting changes, loading, looking
 *     keyindex_tree.c     nodes: the way to a key, inserting, removing
 *     keyindex_history.c  the revisions of one record
 *     keyindex_walk.c     ranges of keys: counts and cursors
 *     keyindex_range_tombstone.c     many lives that end at once
 *     keyindex_compact.c  forgetting
 *     keyindex_check.c    invariants, and a record as text
 *     keyindex_slab.c     memory
 */
#pragma once

#include "base/assert.h"
#include "mvcc/keyindex.h"
#include "mvcc/keyindex_slab.h"

/* --- a record and its history (keyindex_history.c) ---------------------------------------- */

/* One revision of a key. */
struct change {
    int64_t main;
    uint32_t sub : 31;
    uint32_t tombstone : 1;
    uint32_t length;
};

/*
 * The changes before the newest one, oldest first. The last up to 128 of them are in the history
 * itself, which doubles as it grows; when they are 128, they move to a block of their own in the
 * trunk, so that nothing that grows is ever moved as a whole. How full the history is, the record
 * knows: so an overwrite only ever writes to it, and waits for no memory but the record's.
 *
 *     trunk    | block of 128 | block of 128 | block of 128 |
 *     history  | dropped | change | change | free |             record | newest |
 *
 * A life ends with its tombstone. What a change's created and version are follows from its place in
 * its life, but for one life, whose beginning may be forgotten: the first, or the second if of the
 * first only a tombstone is left. Its first put is described by `created` and `version`.
 */
enum { HISTORY_BLOCK = 128, HISTORY_CAP_MIN = 2 };

struct trunk;

struct history {
    int64_t created, version;
    struct trunk *trunk; /* NULL: no blocks */
    struct change changes[];
};

struct record {
    struct change newest;
    int64_t created;       /* of the newest life, which may have ended */
    int64_t version;       /* puts in that life; 0 if all it has is a tombstone */
    struct history *older; /* NULL: none; then the next three are 0 */
    uint8_t first, count;  /* older->changes[first..count) are there; first is 0 under a trunk */
    uint8_t cap;
    uint32_t key_len;
    uint8_t key[];
};

static inline struct bytes record_key(const struct record *r)
{
    return bytes_of(r->key, r->key_len);
}

static inline struct revision change_revision(const struct change *c)
{
    return (struct revision){c->main, c->sub};
}

struct record *keyindex_record_new(struct slabs *s, struct bytes key);
void keyindex_record_free(struct slabs *s, struct record *r); /* without history (asserted) */

/* The next change; created and version are those of its life, as in struct record. */
void keyindex_record_note(struct slabs *s, struct record *r, struct change next, int64_t created,
                          int64_t version);

/* The record as of a revision; false if it was not alive then. */
bool keyindex_record_find(const struct record *r, struct revision at, struct keyindex_found *out);
bool keyindex_record_find_newest(const struct record *r, struct keyindex_found *out);

/* All changes, the newest included: how many, and one of them, counted from the oldest. */
uint64_t keyindex_record_changes(const struct record *r);
const struct change *keyindex_record_change(const struct record *r, uint64_t i);

/* How many of them a compaction at `main` drops, all older than the rest. */
uint64_t keyindex_record_dropped_by(const struct record *r, int64_t main);

/* Drops the oldest, which is not the newest too (asserted). */
void keyindex_record_drop_oldest(struct slabs *s, struct record *r);

/* Gives back memory that dropping has left unused. */
void keyindex_record_shrink(struct slabs *s, struct record *r);

void keyindex_record_check(const struct record *r);

/* --- the tree (keyindex_tree.c) ----------------------------------------------------------- */

/*
 * All keys of a node, and all that are searched for in it, lie between two separators further up,
 * and so share what those two have in common: `skip` bytes, which need not be compared. The four
 * bytes behind them are each key's head, kept in the node, as a number; a search looks at heads
 * alone and then, most often, at a single record. Behind the last one heads are UINT32_MAX, so that
 * a search always runs over all 64, which compilers turn into a few vector instructions.
 *
 * At either end of the tree one of the two separators is missing. There a leaf has nothing to skip;
 * an inner node, the root among them, skips what its own separators have in common, and a search
 * must see first whether the key has that too.
 *
 * A node whose epoch is the index's has been touched by the write under way, and what it was before
 * counts as published. If a node has not been touched, nothing below it has changed its count.
 *
 * While a range tombstone is on, `covered` says which records are covered and not settled yet: they
 * are not alive. A child in `whole` was covered with all it holds, and none of it knows: there
 * `alive` and `living` are still from before, and stand for what is covered. Whoever changes
 * something below lets it know first (keyindex_push_down). A child below which nobody lived is
 * not in `whole`; and when all is settled, none is.
 */
enum {
    NODE_MAX = 64,
    /* Of an inner node's children. It is one less, so that a neighbour left with a single child can
     * be merged into a full one for the moment until they are split again. */
    INNER_MAX = NODE_MAX - 1,
    NODE_POOR = NODE_MAX / 4,           /* one with no more is merged with a neighbour */
    NODE_MERGED_MAX = NODE_MAX / 4 * 3, /* if both together have no more than this */
    HEIGHT_MAX = 32,                    /* inner nodes have two children at least */
};

struct leaf {
    uint32_t count;
    uint32_t skip;
    uint64_t alive, alive_before; /* a bit for each record */
    uint64_t epoch;               /* of alive_before */
    uint64_t covered;
    struct leaf *left, *right;
    _Alignas(64) uint32_t heads[NODE_MAX];
    struct record *records[NODE_MAX];
};

/* The shortest bytes that tell two neighbours apart: above all of the left, not above the right. */
struct separator {
    uint32_t len;
    uint8_t at[];
};

struct inner {
    uint32_t count;
    uint32_t skip;
    uint64_t epoch;                        /* of living_before */
    uint64_t whole;                        /* a bit for each child */
    bool outer;                            /* at an end of the tree */
    _Alignas(64) uint32_t heads[NODE_MAX]; /* of the separators; the first is not used: 0 */
    void *children[NODE_MAX];
    struct separator *separators[NODE_MAX]; /* the lower end of each child; the first has none */
    uint32_t living[NODE_MAX], living_before[NODE_MAX], covered[NODE_MAX];
};

/* The way from the root to a place in a leaf. steps[0] is the leaf's parent, the last the root. */
struct path {
    struct leaf *leaf;
    unsigned place; /* of the key, or where it would be */
    bool found;
    unsigned height;
    struct {
        struct inner *node;
        unsigned child;
    } steps[HEIGHT_MAX];
};

/* Where keyindex_find_newest has been last: a put of the same key mostly follows. */
struct memo {
    uint64_t shape; /* of the tree then; 0: nothing remembered */
    struct path path;
    uint32_t key_len;
    uint8_t key[256];
};

/* Many lives that have ended at once, and whose tombstones are still to be noted. */
struct range_tombstone {
    bool on;
    struct key_range range; /* of the bytes in the two bufs */
    struct buf from, to;
    struct revision first;  /* of the first tombstone */
    uint64_t epoch;         /* of the write that it belongs to */
    uint64_t settled, left; /* their sum was covered */
};

struct keyindex {
    void *root; /* a leaf if height is 0 */
    unsigned height;
    size_t size;
    uint64_t epoch;
    uint64_t shape;               /* changes whenever a record comes, goes or moves */
    bool working;                 /* changes are not published */
    struct revision newest;       /* noted or loaded */
    struct revision working_from; /* the first change that is not published */
    struct memo *memo;
    struct range_tombstone range_tombstone;
    struct slabs slabs;
};

static inline bool leaf_is_alive(const struct leaf *l, unsigned place)
{
    return l->alive >> place & 1;
}

/* The living as published, or as they are. */
static inline uint64_t leaf_living(const struct keyindex *ix, const struct leaf *l, bool published)
{
    return published && l->epoch == ix->epoch ? l->alive_before : l->alive;
}

static inline const uint32_t *inner_living(const struct keyindex *ix, const struct inner *n,
                                           bool published)
{
    return published && n->epoch == ix->epoch ? n->living_before : n->living;
}

/* Is nobody alive any more below this child, which was covered as a whole? Not so to those who ask
 * for what is published while the range tombstone is not. */
static inline bool inner_child_is_gone(const struct keyindex *ix, const struct inner *n,
                                       unsigned child, bool published)
{
    bool covered = n->whole >> child & 1;

    return covered && !(published && ix->working && ix->range_tombstone.epoch == ix->epoch);
}

static inline uint64_t bits_below(unsigned place)
{
    return place < 64 ? (1ull << place) - 1 : UINT64_MAX;
}

/* From here on `alive_before` is what is published. Without a write under way there is no before.
 */
static inline void leaf_touch(const struct keyindex *ix, struct leaf *l)
{
    if (!ix->working || l->epoch == ix->epoch)
        return;
    l->alive_before = l->alive;
    l->epoch = ix->epoch;
}

static inline void inner_touch(const struct keyindex *ix, struct inner *n)
{
    if (!ix->working || n->epoch == ix->epoch)
        return;
    memcpy(n->living_before, n->living, n->count * sizeof(n->living[0]));
    n->epoch = ix->epoch;
}

static inline struct bytes separator_bytes(const struct separator *s)
{
    return bytes_of(s->at, s->len);
}

void keyindex_tree_init(struct keyindex *ix);

/* The leaf where the key is or would be; its place there; how many of the living are before it. */
struct leaf *keyindex_tree_find(const struct keyindex *ix, struct bytes key, unsigned *place,
                                bool *found);
uint64_t keyindex_tree_rank(const struct keyindex *ix, struct bytes key, bool published);
struct leaf *keyindex_tree_edge(const struct keyindex *ix, bool rightmost);

/* Where a key is or would be: among the records of a leaf, among the children of an inner node. */
unsigned keyindex_tree_place(const struct leaf *l, struct bytes key);
unsigned keyindex_tree_child(const struct inner *n, struct bytes key);

/* The same with all that a change needs to know. */
void keyindex_tree_path(const struct keyindex *ix, struct bytes key, struct path *out);

/* Puts a record at a path that has not found its key. The path is then the record's. */
void keyindex_tree_insert(struct keyindex *ix, struct path *p, struct record *r, bool alive);

/* Takes the record out, which is dead, published so too (asserted). The path is good no more. */
struct record *keyindex_tree_remove(struct keyindex *ix, struct path *p);

void keyindex_tree_set_alive(struct keyindex *ix, struct path *p, bool alive);

uint32_t keyindex_tree_head(struct bytes key, size_t skip);
size_t keyindex_tree_common(struct bytes low,
                            struct bytes high); /* of two ends; 0 if one has at NULL */

/* --- one key (keyindex.c) ----------------------------------------------------------------- */

/* A change at this revision is about to be noted, later than all others: a write is under way. */
void keyindex_begin(struct keyindex *ix, struct revision at);

/* --- range tombstone (keyindex_range_tombstone.c) ------------------------------------------ */

/* While a range tombstone is on: does it cover this key, which was last put at `mod`, and is its
 * tombstone still unsettled? */
bool keyindex_is_covered(const struct keyindex *ix, struct bytes key, struct revision mod);

static inline bool keyindex_record_is_covered(const struct keyindex *ix, const struct record *r)
{
    return ix->range_tombstone.on && !r->newest.tombstone &&
           keyindex_is_covered(ix, record_key(r), change_revision(&r->newest));
}

/* The record as of a revision, as everybody outside sees it. */
static inline bool keyindex_look(const struct keyindex *ix, const struct record *r,
                                 struct revision at, struct keyindex_found *out)
{
    if (!keyindex_record_find(r, at, out))
        return false;
    return !ix->range_tombstone.on || revision_compare(at, ix->range_tombstone.first) < 0 ||
           !keyindex_is_covered(ix, out->key, out->mod);
}

/* Lets the nodes of a path know what is covered below them. */
void keyindex_push_down(struct keyindex *ix, const struct path *p);

/* For loading: may there be such a put or tombstone, with what is known of the range tombstone? */
bool keyindex_range_tombstone_allows(struct keyindex *ix, struct bytes key, struct revision at,
                                     bool tombstone);
