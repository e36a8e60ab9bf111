/*
 * mvcc_int: what the files of this room share and nobody else needs.
 *
 *     store.c      the room itself: what is current, damage, single reads, invariants
 *     restore.c    from the store to the index, at boot
 *     write.c      one main revision: puts, deletes, publication
 *     settling.c      the tombstones of a large delete; the barrier for those who need them
 *     scan.c       ranges, measured and then read; the pins
 *     scan_sort.c  what a range sorted by something else than its keys remembers
 *     history.c    changes in their order, for watchers
 *     compact.c    removal of what nobody may read any more
 *     hash.c       HashKV and Hash
 *     warm.c       what workers read first, while the store is cold
 */
#pragma once

#include "backend/backend.h"
#include "base/assert.h"
#include "mvcc/mvcc.h"

/* A compaction that is asked for: its revision, and the batch that holds the note of it. */
struct compaction {
    int64_t revision; /* -1: none */
    uint64_t note_batch;
    int64_t before;       /* the compact revision until then; -1: there was none */
    bool is_to_be_hashed; /* that one was through */
};

/* What HashKV says at the revision of a compaction. */
struct compaction_hash {
    int64_t revision, compact_revision;
    uint32_t hash, other;
};

/* Something to be deleted from the store. */
struct dropped {
    struct revision at;
    bool tombstone;
};

struct mvcc {
    struct backend *backend;
    struct keyindex *index;
    void (*on_damage)(void *context, const char *text);
    void *context;

    int64_t revision; /* newest published */
    int64_t compact_revision;

    void (*on_settled_key)(void *context, struct bytes key);
    int64_t range_tombstone_keys_min;
    uint64_t settled_batch; /* holds the end of the last one that was settled; 0: none was */
    bool is_alone; /* of the range tombstone: nothing else was changed at its revision, as far as is
                      known */
    bool writing;
    bool is_divided;       /* the write under way may be committed in parts */
    int64_t covered_count; /* of its changes, those to be settled */
    int64_t change_count;  /* of the write under way, or of the last one */
    struct mvcc_change changes[MVCC_CHANGES_MAX];

    struct mvcc_scan *first_pin, *last_pin; /* oldest first */
    size_t pin_count;
    size_t image_pins;
    bool scans_end; /* all of them are in the way: the store was replaced */

    struct list waiters; /* at the barrier */
    struct mvcc_waiter
        compaction;        /* one of them, since an unsettled range tombstone was in its way */
    int64_t history_floor; /* INT64_MAX: none */

    struct compaction now, then; /* being removed, or to be; and what comes after it */
    bool removing;               /* `now` has begun */
    struct mvcc_hash hashing;    /* first: open while `now` hashes what it finds */
    struct compaction_hash hashes[MVCC_HASHES_MAX]; /* oldest first */
    size_t hash_count;
    struct keyindex_compaction place;
    struct dropped *dropped; /* by the slice under way */
    size_t dropped_count, dropped_cap;
    int64_t finished, finished_durable;
    uint64_t finished_batch; /* holds the note that `finished` is */
    struct mvcc_stats stats;
    struct warm *warm; /* NULL: the store was never cold */
    bool (*is_late)(void *context);
    void *pace_context;
    struct mvcc_effort effort;
    int64_t removed; /* like finished, but only what was done since opening; -1: nothing */
};

/* --- revisions as keys of the store --- */

enum { REVISION_KEY_BYTES = 17, TOMBSTONE_KEY_BYTES = 18 };

struct revision_key {
    uint8_t at[TOMBSTONE_KEY_BYTES];
};

static inline struct bytes revision_encode(struct revision r, bool tombstone,
                                           struct revision_key *space)
{
    uint64_t main = __builtin_bswap64((uint64_t)r.main);
    uint64_t sub = __builtin_bswap64((uint64_t)r.sub);

    memcpy(space->at, &main, sizeof(main));
    space->at[8] = '_';
    memcpy(space->at + 9, &sub, sizeof(sub));
    space->at[17] = 't';
    return bytes_of(space->at, tombstone ? TOMBSTONE_KEY_BYTES : REVISION_KEY_BYTES);
}

/* False if these bytes are no revision that we could have written. */
MUST_CHECK bool revision_decode(struct bytes key, struct revision *out, bool *tombstone);

/* --- stored KeyValues --- */

/* False if they are malformed or have no key. The result looks into `stored`. */
MUST_CHECK bool kv_decode(struct bytes stored, struct pb_key_value *out);

/*
 * A bump: an entry without a value, as `etcdutl snapshot restore --bump-revision` leaves one, so
 * that revisions go on from there. It is a put of the empty key, which nobody can name: every range
 * begins at "\0" or above, so no read, watch or delete ever meets it; only compaction and HashKV,
 * which know of no ranges, do. The index has it with versions counted from the oldest one there.
 */
static inline bool kv_is_bump(struct bytes stored, bool tombstone)
{
    return stored.len == 0 && !tombstone;
}

/* What the index alone knows of a key. */
static inline struct pb_key_value kv_without_value(const struct keyindex_found *found)
{
    return (struct pb_key_value){
        .key = found->key,
        .create_revision = found->created,
        .mod_revision = found->mod.main,
        .version = found->version,
    };
}

static inline uint32_t kv_size(const struct pb_key_value *kv)
{
    return (uint32_t)pb_key_value_schema.by_hand->size(kv);
}

/* --- steps --- */

/* A call that has steps left does one thing, whatever it costs, or it might never end. */
static inline void mvcc_spend(unsigned *steps, uint64_t cost)
{
    *steps = cost < *steps ? *steps - (unsigned)cost : 0;
}

/* What reading so much of the store costs besides the step for each entry. */
static inline uint64_t mvcc_read_cost(uint64_t bytes)
{
    return bytes / MVCC_HASH_STEP_BYTES;
}

/* --- damage --- */

/* The store contradicts itself: ends the process, unless somebody else has taken that over. */
__attribute__((format(printf, 2, 3))) void mvcc_damage(struct mvcc *m, const char *format, ...);

/* The stored KeyValue of a put, lent by the view, which is opened for it unless it is open
 * (mvcc_view_init), or by a copy. False: it is not there; reported. */
MUST_CHECK bool mvcc_fetch(struct mvcc *m, struct backend_view *v, struct revision at,
                           struct bytes *out);

/* The same, and it has the length that the index remembers. */
MUST_CHECK bool mvcc_fetch_exact(struct mvcc *m, struct backend_view *v, struct revision at,
                                 uint32_t length, struct bytes *out);

/* Some bytes of one that mvcc_fetch_exact has given before. */
MUST_CHECK bool mvcc_fetch_part(struct mvcc *m, struct backend_view *v, struct revision at,
                                size_t from, size_t len, struct bytes *out);

/* A view that is opened by the first who needs it. */
static inline void mvcc_view_init(struct backend_view *v)
{
    v->backend = NULL;
}
static inline void mvcc_view_close(struct backend_view *v)
{
    if (v->backend)
        backend_view_close(v);
}

/* Reports that walking the store has failed. */
void mvcc_walk_damage(struct mvcc *m, struct backend_view *v);

/* --- warm.c --- */

/* Of a cold store. An entry that is not warm is wanted since now, and the reader says which others
 * come next (mvcc_want_ahead); or it was wanted before. Readers of a few entries are served before
 * those who read in bulk. */
enum mvcc_warmth mvcc_warmth(struct mvcc *m, struct revision at, bool is_bulk);
void mvcc_want_ahead(struct mvcc *m, struct revision at, bool is_bulk);

/* Where there is a copy of this entry. It stays until the end of the turn. */
bool mvcc_copy_of(struct mvcc *m, struct revision at, struct bytes *out);

/* A walk over the entries of bucket key, in their order, from the store or from copies. False: the
 * store is cold, and they are wanted; unless somebody needs them at once. */
struct mvcc_history {
    struct mvcc *mvcc;
    struct backend_view view;
    struct backend_cursor cursor;
    bool is_copied;
    struct bytes copies; /* what is left of them */
};
MUST_CHECK bool mvcc_history_open(struct mvcc *m, struct revision next, bool at_once,
                                  struct mvcc_history *h);
void mvcc_history_close(struct mvcc_history *h);

/* As backend_cursor_next says it; ERR_NOT_FOUND: the copies end here. */
MUST_CHECK enum err mvcc_history_next(struct mvcc_history *h, struct bytes *key,
                                      struct bytes *value);

/* Something between two revisions was removed, or stored later than they were: of this main
 * revision at most. */
void mvcc_forget_copied_history(struct mvcc *m, int64_t up_to);

unsigned mvcc_warmups_taken(const struct mvcc *m);
void mvcc_warm_free(struct mvcc *m);

/* After each look at an entry of the store: is it time to end the slice? */
static inline bool mvcc_is_late(struct mvcc *m)
{
    return ++m->effort.looks % MVCC_LOOKS == 0 && !mvcc_has_time(m);
}

/* Before each key that a slice looks ahead to, to want it, too: is there time for it? */
static inline bool mvcc_may_look_ahead(struct mvcc *m)
{
    return ++m->effort.ahead % MVCC_LOOKS != 0 || mvcc_has_time(m);
}

/* --- write.c --- */

/* Encodes straight into the batch. Where the key stands in there is all that is handed on: the
 * caller's own may lie in the very index that is about to change. */
struct bytes mvcc_store_kv(struct mvcc *m, struct revision at, bool tombstone,
                           const struct pb_key_value *kv, struct bytes *key);

/* --- settling.c --- */

#define MVCC_RANGE_TOMBSTONE_KEY BACKEND_UNFINISHED_PREFIX "RangeTombstone"

/* Ends the lives of a range at once, from revision `at` on; how many there were. */
int64_t mvcc_range_tombstone_begin(struct mvcc *m, const struct key_range *range,
                                   struct revision at);

/* At the end of its write: notes in the store what is still to be settled. */
void mvcc_range_tombstone_note(struct mvcc *m);

/* If the key was ended by the delete that is being settled, stores that, so that it can be put. */
void mvcc_settle_key(struct mvcc *m, struct bytes key);

/* Does somebody wait at the barrier who would pass it if nothing more had to be settled? */
bool mvcc_is_waited_for(const struct mvcc *m);

/* What the note says; false if it makes no sense. The range looks into `value`. */
MUST_CHECK bool range_tombstone_decode(struct bytes value, struct key_range *range,
                                       struct revision *at);

/* --- compact.c --- */

/* Does a reader keep it from beginning, a scan or whoever has put the floor? Or an image from going
 * on? */
bool mvcc_compact_held_back(const struct mvcc *m);

/* --- hash.c --- */

/* Of the compaction that has just begun: over what there is before it removes anything. True: it is
 * in m->hashing.hash. */
void mvcc_compaction_hash_begin(struct mvcc *m);
bool mvcc_compaction_hash_some(struct mvcc *m, unsigned steps);
void mvcc_compaction_hash_end(struct mvcc *m); /* again is fine */

/* --- pins --- */

void mvcc_pin(struct mvcc *m, struct mvcc_scan *s);
void mvcc_unpin(struct mvcc *m, struct mvcc_scan *s);

/* --- notes of compactions, in bucket meta --- */

#define MVCC_SCHEDULED_KEY "scheduledCompactRev"
#define MVCC_FINISHED_KEY  "finishedCompactRev"

/* --- restore.c --- */

MUST_CHECK enum err mvcc_restore(struct mvcc *m, const struct mvcc_options *options,
                                 struct buf *why);

/* --- scan_sort.c: see there --- */

struct scan_ref {
    uint64_t order; /* the number to sort by, or the first eight bytes of the value */
    int64_t main;
    uint32_t sub, length;
    uint64_t place; /* in the order of keys */
};

struct scan_refs *scan_refs_new(const struct mvcc_question *q);
void scan_refs_free(struct scan_refs *r); /* NULL is fine */

/* What they take for so many keys, at most: while runs are merged there are two tables. */
uint64_t scan_refs_bytes_max(const struct mvcc_question *q, uint64_t keys);

/* Notes a key. The view is used only to sort by value, and only that costs steps. False: damage. */
bool scan_refs_add(struct mvcc *m, struct scan_refs *r, struct backend_view *v,
                   const struct keyindex_found *found, unsigned *steps);

/* Sorts, no more than *steps comparisons; true when done, cut to the limit if there is one. */
bool scan_refs_sort(struct mvcc *m, struct scan_refs *r, struct backend_view *v, unsigned *steps);

bool scan_refs_by_value(const struct scan_refs *r);
size_t scan_refs_count(const struct scan_refs *r);
const struct scan_ref *scan_refs_at(const struct scan_refs *r, size_t i);
