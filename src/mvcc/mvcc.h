/*
 * mvcc: every key at every revision, until history is compacted away.
 *
 * A write transaction gives the store its next main revision; its changes are numbered under it.
 * The index (keyindex.h, in memory) knows for each key at which revisions it changed; the backend
 * holds, under the revision, the encoded KeyValue. (main, sub) -> bytes never changes, so whoever
 * knows a revision can fetch it later, as long as compaction is held back.
 *
 *     bucket key    17 bytes: main u64be, '_', sub u64be  -> mvccpb.KeyValue
 *                   18 bytes: the same and 't'            -> KeyValue{key}, a tombstone
 *                   17 bytes                              -> nothing: a bump, by which etcdutl lets
 *                                                            revisions go on higher up (mvcc_int.h)
 *     bucket meta   scheduledCompactRev, finishedCompactRev -> 17 bytes
 *                   cleatRangeTombstone -> a delete whose tombstones are not all stored yet
 * (settling.c)
 *
 * Writing    mvcc_write_begin, puts and deletes, mvcc_write_end. In between readers see the state
 *            before; the writer, at mvcc_working, what it has done so far. A large delete is
 *            decided at once, by the index, and published with its write; its tombstones are
 *            stored by mvcc_settle_some, a slice at a time, while others read and write.
 * Reading    a scan: first it is measured, by the index alone, in slices; then its bytes are read,
 *            a chunk at a time, whenever the client can take them. Nothing is remembered in between
 *            but a place, so a reply of a gigabyte costs no memory. A scan pins its revision.
 * Compacting mvcc_compact makes older revisions unreadable at once; mvcc_compact_some removes them
 *            from index and store in slices, once the note of it is durable and no pin needs them,
 *            a scan's or an image's, and after it has hashed them, for HashKV.
 *            Only the history floor (mvcc_keep_history) lets watchers that were live when history
 *            was cut read on below it, and the removal waits for them too.
 * Settling   whoever needs the tombstones of large deletes to be stored waits at one barrier,
 *            mvcc_when_settled: watchers, compaction, HashKV, whoever copies the store. While
 *            somebody waits there, no further delete is left to be settled: it takes its slices.
 *
 * Promises   1. A scan sees exactly the state at its revision, whatever is written or compacted
 *               between its steps.
 *            2. Its measure is exact: mvcc_scan_read gives that many bytes.
 *            3. No call does more than its budget of steps, or O(log n).
 *            4. Counting at the current revision is O(log n); a limited scan costs what it shows.
 *            5. After a crash, mvcc_open finds what the backend's last batch holds, and an
 *               interrupted compaction or settling is taken up again.
 *            6. A revision that the index names and the store lacks, or bytes that are not what
 *               they were, end the process, or, through on_damage, the member in the simulator;
 *               then the answer under way is cut short. Never a wrong one.
 *            7. Memory: the index; of a scan that is not in key order, 64 bytes a key; of a slice
 *               of compaction, 24 bytes a step; MVCC_CHANGES_MAX changes of the write under way,
 *               beyond which they are read from history. Nothing else grows.
 * Not here   Which requests are allowed (api), leases (lease), transactions' logic (apply).
 * Leans on   backend, pb, base. No clock, no thread.
 */
#pragma once

#include "backend/backend.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/list.h"
#include "mvcc/keyindex.h"
#include "pb/codec.h"

struct scan_refs;
struct mvcc; /* opaque */

struct mvcc_options {
    struct backend *backend;

    /* Called by mvcc_open for every living key that has a lease. The key is lent. May be NULL. */
    void (*on_leased_key)(void *context, struct bytes key, int64_t lease);

    /* Called by mvcc_settle_some for every key that a large delete has ended, if it has not been
     * put again since. The key is lent. (Leases want to know.) May be NULL. */
    void (*on_settled_key)(void *context, struct bytes key);

    /* How many keys make a delete a large one; 0: MVCC_RANGE_TOMBSTONE_KEYS_MIN. */
    int64_t range_tombstone_keys_min;

    /* The store contradicts itself; the text names where. NULL: fatal(). */
    void (*on_damage)(void *context, const char *text);
    void *context;
};

/*
 * Loads the index from the store. It reads through views of the kind a worker uses, so it may run
 * on any thread, and sees what is committed or frozen: at boot that is everything. A compaction
 * that a crash has interrupted is pending again. ERR_CORRUPT: `why` gets a sentence.
 */
MUST_CHECK enum err mvcc_open(const struct mvcc_options *options, struct buf *why,
                              struct mvcc **out);
void mvcc_close(struct mvcc *m); /* no scan is open (asserted); NULL is fine */

/* The newest published revision; 1 for an empty store. And the last compaction's, which is the
 * oldest that can be read; -1: there was none. */
int64_t mvcc_revision(const struct mvcc *m);
int64_t mvcc_compact_revision(const struct mvcc *m);

/* --- writing: inside backend_entry_begin and _end --- */

/* What is written from here to mvcc_write_end is one main revision. */
void mvcc_write_begin(struct mvcc *m);

/* The key now has this value and lease, which is only a number here. */
void mvcc_put(struct mvcc *m, struct bytes key, struct bytes value, int64_t lease);

/* Ends the key's life; false if it is not alive. */
bool mvcc_delete(struct mvcc *m, struct bytes key);

/* A delete of a range, some keys at a time, in ascending order; or, if they are many, all at once,
 * to be settled. While one is being settled, or somebody waits at the barrier, another large one is
 * not: it takes its slices. */
struct mvcc_delete_range {
    struct key_range range; /* its bytes must outlive this */
    int64_t deleted;
    uint64_t cost; /* so far, in steps: dead keys cost some, too, and long ones more */
    /* Called for each key that goes, before it goes; lent. (Leases want to know.) May be NULL.
     * Those to be settled are told of by the options' on_settled_key. */
    void (*on_key)(void *context, struct bytes key);
    void *context;
    struct keyindex_cursor cursor; /* mvcc's own, as are the next */
    bool open, at_once;
};

/* Filled in are range, on_key and context. It sees what the write under way has done so far. */
void mvcc_delete_range_begin(struct mvcc *m, struct mvcc_delete_range *d);

/* True when all are gone, and it is over. */
bool mvcc_delete_range_some(struct mvcc *m, struct mvcc_delete_range *d, unsigned steps);

/* Gives it up half done, with the whole store: a member that stops. Again is fine. */
void mvcc_delete_range_end(struct mvcc_delete_range *d);

/* What the write under way has done so far: reads inside a transaction look at this. Before its
 * first change it is the published state. */
struct revision mvcc_working(const struct mvcc *m);
bool mvcc_is_writing(const struct mvcc *m);

/* One change, as watchers see it. */
struct mvcc_change {
    struct bytes key;
    struct bytes kv; /* the stored bytes, for a put; empty for a tombstone */
    struct revision at;
    bool tombstone;
    bool creates; /* a put that begins a life: there is nothing before it */
};

struct mvcc_changes {
    int64_t revision; /* 0: nothing changed, the revision stays */
    size_t count;
    const struct mvcc_change *at; /* NULL if there are more than MVCC_CHANGES_MAX, or some are to be
                                   * settled: see history */
};

/* Publishes. The changes are lent until the next mvcc_write_begin or the report of a commit,
 * whichever is first: so at least until the end of the turn. */
void mvcc_write_end(struct mvcc *m, struct mvcc_changes *out);

/* --- settling: what a large delete leaves to be done --- */

bool mvcc_is_settling(const struct mvcc *m);

/* Does it wait for the backend to have budget left? */
bool mvcc_settle_waiting(const struct mvcc *m);

/* Stores at most `steps` tombstones, fewer of long keys. True when nothing is left to be done for
 * now: all are stored, or it waits. */
bool mvcc_settle_some(struct mvcc *m, unsigned steps);

/* Of the settling under way: its revision, and whether that has changes of this range still to be
 * stored. Other changes of the same revision count as if they were. */
int64_t mvcc_unsettled_revision(const struct mvcc *m); /* INT64_MAX: none is under way */
bool mvcc_unsettled_concerns(const struct mvcc *m, const struct key_range *range);

/*
 * The barrier. Embedded, all zeroes, in whoever needs every tombstone up to some revision in the
 * store; `INT64_MAX` needs them all. Nobody is called back: he asks again, at least in each turn
 * in which mvcc_settle_some has said that it is done. Large deletes that come one after the other
 * could keep him waiting for ever, so from his first asking until he passes, or gives up, there is
 * at most the one that he has found. (Whoever opens a store without a member around it finds the
 * note of an unsettled delete under BACKEND_UNFINISHED_PREFIX, and refuses.)
 */
struct mvcc_waiter {
    struct list link; /* mvcc's own */
    bool waits;
};

/* True: history is settled up to there, and he does not wait any more. */
bool mvcc_when_settled(struct mvcc *m, struct mvcc_waiter *w, int64_t revision);
void mvcc_stop_waiting(struct mvcc_waiter *w); /* again is fine */

/* The same without waiting. */
bool mvcc_is_settled(const struct mvcc *m, int64_t revision);

/* --- reading --- */

enum mvcc_result { MVCC_OK, MVCC_COMPACTED, MVCC_FUTURE };

/* May this revision be read? One that is 0 or less means the newest. */
enum mvcc_result mvcc_resolve(const struct mvcc *m, int64_t asked, struct revision *out);

/* What the index knows of a key at a revision; false if it was not alive. */
bool mvcc_find(const struct mvcc *m, struct bytes key, struct revision at,
               struct keyindex_found *out);

/* Appends the stored KeyValue to out. Of a put that the index names at that revision. */
void mvcc_read_kv(struct mvcc *m, struct revision at, struct buf *out);

/* A range with all of RangeRequest's options. */
struct mvcc_question {
    struct bytes key, end; /* must outlive the scan */
    struct revision at;
    int64_t limit; /* 0 or less: none */
    int32_t sort_order, sort_target;
    bool keys_only, count_only;
    int64_t min_mod_revision, max_mod_revision, min_create_revision, max_create_revision;
    uint8_t tag; /* in front of each KeyValue: field number and wire type, 0x12 in RangeResponse */
};

/*
 * Embedded in whoever asks, who does not move it; all zeroes with `question` filled in.
 *
 *     mvcc_scan_open, mvcc_scan_measure until true: count, more, kvs, bytes are known
 *     mvcc_scan_read until `bytes` have come, mvcc_scan_close at any time
 *
 * Results in key order, ascending or descending, are walked twice and not remembered. Sorted by
 * anything else the scan remembers 32 bytes for each key, 64 while it merges them, in slices too;
 * under a small limit, and not by value, for a thousand keys at most. Equals come in the order of
 * their keys, whatever the direction; etcd leaves that open.
 *
 * keys_only is answered by the index alone and has no lease; only sorted by value it has one, as in
 * etcd, since then the store is read. A sort order or target that the API does not know is like
 * none (api refuses them).
 */
struct mvcc_scan {
    struct mvcc_question question;
    int64_t count;  /* of living keys in the range, whatever limit and filters say */
    bool more;      /* the limit left some out */
    int64_t kvs;    /* how many are shown */
    uint64_t bytes; /* of them, each with tag and length */
    uint64_t cost;  /* of measuring so far, in steps */
    bool in_parts;  /* the caller's: a KeyValue may be cut where a chunk ends */
    bool is_paused; /* the last call has ended early: the store is cold, or it is late */

    struct mvcc *mvcc; /* from here on mvcc's own */
    struct keyindex_cursor cursor;
    struct mvcc_scan *next, *prev; /* the pins, oldest first */
    struct scan_refs *refs;        /* NULL: in key order */
    struct buf held_key;
    struct keyindex_found held; /* looked at by the last read and found too large for it */
    int64_t passed;             /* keys that no filter has stopped, as far as it has looked */
    int64_t shown;              /* of kvs, how many have been read */
    size_t part;                /* of the one being read in parts, how much has come */
    bool is_open, counted, walking, walked, measured, has_held;
};

/* Its revision came from mvcc_resolve or mvcc_working just now; or another scan is open there or
 * below, and has been since. */
void mvcc_scan_open(struct mvcc *m, struct mvcc_scan *s);

/* What a scan for this question will remember of its keys, at most; 0: it walks in key order. */
uint64_t mvcc_scan_bytes_max(struct mvcc *m, const struct mvcc_question *q);

/* True when it is done. Keys cost a step, alive or not; sorted by value, large ones more. */
bool mvcc_scan_measure(struct mvcc_scan *s, unsigned steps);

/*
 * Appends whole KeyValues, as many as fit into max, at least one; or, of a scan in_parts, never
 * more than max bytes, and nothing is kept of what was cut off: it is fetched again, though not
 * checked again. Also stops after `steps` keys, alive or not, or sooner where it has to read large
 * values of which it shows the keys alone. True when the last one has come.
 */
bool mvcc_scan_read(struct mvcc_scan *s, size_t max, unsigned steps, struct buf *out);
void mvcc_scan_close(struct mvcc_scan *s); /* again is fine */

/* The oldest pin that keeps a compaction waiting, or NULL: the server may have to end it. It may be
 * the one inside a struct mvcc_hash. */
struct mvcc_scan *mvcc_pin_in_the_way(const struct mvcc *m);
/* Is this one, which is open, such a pin? Or is it time for all of them? */
bool mvcc_scan_in_the_way(const struct mvcc_scan *s);

/* The store was replaced, and those who still read this one have had their time: from now on every
 * scan of it is in the way. */
void mvcc_end_scans(struct mvcc *m);

/* --- history, for watch --- */

/* Shown a change, lent; false: not this one, stop here. */
typedef bool mvcc_visit(void *context, const struct mvcc_change *change);

/*
 * Shows the published changes from *next on, in order, and moves *next behind the last one shown.
 * Each costs a step, and large ones more: *steps is lowered by it, at least one is shown, and when
 * no step is left it stops. What it costs to look at them visit may take from the same. True if
 * everything has been shown up to mvcc_history_end. Not below the compact revision, unless it is at
 * or above the history floor (asserted).
 */
bool mvcc_history_some(struct mvcc *m, struct revision *next, unsigned *steps, mvcc_visit *visit,
                       void *context);

/* The revision up to which history can be shown from `next` on: the newest, or, from at or before
 * one that is being settled, the one before it. Whom the settling does not concern may skip it. */
int64_t mvcc_history_end(const struct mvcc *m, int64_t next);

/*
 * The history floor: from this revision on, with the KeyValues before its changes, history stays,
 * however far above it the compact revision moves; removing what lies there waits, as for a scan.
 * INT64_MAX: there is none. It has one owner, watch, who says how long. Nothing from there on may
 * have been removed, nor be in the course of it (asserted): so it is put before a compaction that
 * passes it begins to remove, which is as long as mvcc_compact_some was not called in between.
 */
void mvcc_keep_history(struct mvcc *m, int64_t from);

/* Appends the key's KeyValue as it was before main revision `main`, if history still has it; false
 * if it was not alive then or that is compacted, and not kept by the history floor. */
bool mvcc_read_before(struct mvcc *m, struct bytes key, int64_t main, struct buf *out);
/* The length of the same without reading it; 0 if there is none. */
uint32_t mvcc_length_before(struct mvcc *m, struct bytes key, int64_t main);

/* --- a cold store --- */

/*
 * A stored KeyValue lies in a map of the store's file. If the kernel has dropped that page from
 * memory, the thread that looks waits for the disk. If that is the core thread, every client and
 * every other member waits with it. So while the store is cold, the slices of this room look at no
 * entry of it, but at copies that workers have made, and at entries that no commit has brought into
 * the file yet. A slice that comes to another entry notes it as wanted, with those behind it, and
 * ends as if it were out of steps; it goes on when a worker has read them.
 *
 *     mvcc_set_cold       the server has noticed that looking takes the disk, or that it does not
 *     mvcc_take_warmup    what a worker is to read: its owner keeps it where it is
 *     mvcc_warmup_read    on a worker
 *     mvcc_warmed         in the turn; exactly once for each that was taken
 *
 * Copies take MVCC_WARM_BYTES_MAX. A value that is larger than MVCC_WARM_VALUE_BYTES_MAX is not
 * copied: a worker looks at it, and then the slice does.
 */
void mvcc_set_cold(struct mvcc *m, bool is_cold);
bool mvcc_is_cold(const struct mvcc *m);

/* The fields are mvcc's own. */
struct mvcc_copy {
    size_t from, len; /* in the text */
    bool is_copied;
};

struct mvcc_warmup {
    struct mvcc *mvcc;
    struct backend *backend;
    struct list link; /* while a worker has it */
    bool is_stale;    /* what it reads has changed since it was taken */
    bool is_range;    /* history from at[0] on, as far as `to`, which becomes how far it was read */
    struct revision to;
    size_t count, read; /* those to be read, and those that were */
    struct revision at[MVCC_WARMUP_KEYS];
    struct mvcc_copy copies[MVCC_WARMUP_KEYS];
    struct buf text;
};

/* False: nothing is wanted; single_only: nothing that somebody needs alone, as a get does. */
bool mvcc_take_warmup(struct mvcc *m, bool single_only, struct mvcc_warmup *out);
void mvcc_warmup_read(struct mvcc_warmup *w);
void mvcc_warmed(struct mvcc_warmup *w);
void mvcc_warmup_drop(struct mvcc_warmup *w); /* instead of both: no worker has it any more */

/* May this stored KeyValue be looked at now? If it is not warm, it is wanted, since now or before.
 * For mvcc_read_kv and mvcc_read_before, which look in any case; whoever reads several asks before
 * each, since the store may turn out to be cold in between. */
enum mvcc_warmth { MVCC_WARM, MVCC_WANTED_NOW, MVCC_WANTED_BEFORE };
bool mvcc_is_at_hand(struct mvcc *m, struct revision at);
enum mvcc_warmth mvcc_before_warmth(struct mvcc *m, struct bytes key, int64_t main);

/* The KeyValue before this change will be looked at, too, after one that is not warm. False: no
 * more of them now, as many are wanted as a worker reads in one go. */
struct mvcc_ahead {
    size_t count, bytes; /* so far: zero at first */
};
bool mvcc_want_before_ahead(struct mvcc *m, const struct mvcc_change *change, struct mvcc_ahead *a);

/* Slices ask it after every MVCC_LOOKS entries that they have looked at; true: they end. NULL: they
 * end by their steps alone. */
void mvcc_set_pace(struct mvcc *m, bool (*is_late)(void *context), void *context);

/* The same for whoever runs many slices in a turn: is there time for another one? */
bool mvcc_has_time(struct mvcc *m);

/* The work of all slices so far: stored KeyValues that they have looked at, keys that they have
 * looked ahead to, and how often a slice of a cold store has ended because it lacked a copy. Such a
 * slice costs the turn the work that it has added here, and not all its steps. */
struct mvcc_effort {
    uint64_t looks, ahead, misses;
};
struct mvcc_effort mvcc_effort(const struct mvcc *m);

/* --- compaction --- */

/* Inside an entry. COMPACTED: at or below the last one. From now on revisions below it cannot be
 * read; scans that are open go on. */
enum mvcc_result mvcc_compact(struct mvcc *m, int64_t revision);

/* Is there something to remove? And does it wait for something: the note's commit, a pin, an image,
 * the history floor, the barrier, or the backend, which has no budget left? */
bool mvcc_compact_pending(const struct mvcc *m);
bool mvcc_compact_waiting(const struct mvcc *m);

/* Would a commit of the backend end its waiting? */
bool mvcc_compact_needs_commit(const struct mvcc *m);

/* Looks at no more than `steps` keys or revisions, hashes or removes what history no longer needs.
 * True when nothing is left to be done for now: all is removed, or it waits. A compaction that was
 * asked for meanwhile comes next. */
bool mvcc_compact_some(struct mvcc *m, unsigned steps);

/* The newest compaction that is finished, and durably so: for physical=true. */
int64_t mvcc_compact_finished(const struct mvcc *m);

/*
 * Images of the whole store, which are read in slices while writes go on, pin it in a way of their
 * own: as long as one is there nothing is removed, however far a removal has come, and what was
 * stored up to the newest revision of when the pin was put stays as it is. (Put it when history is
 * settled, mvcc_when_settled with INT64_MAX: what was not yet stored then comes later.) Who
 * compacts waits, and nobody ends the pin but its owner.
 *
 * Removals that were made before it are in the store when the batch is durable that was open then.
 */
void mvcc_image_pin(struct mvcc *m);
void mvcc_image_unpin(struct mvcc *m);

/* --- hashes, equal to etcd's --- */

/*
 * HashKV in slices. All zeroes with `revision` filled in (0: the newest). While it is open no later
 * compaction begins: it hashes everything between the last one and its revision.
 *
 * Members may be compared at any revision that they all have, but by the time they are asked one
 * may have compacted and another not yet. So a compaction hashes what it finds up to its revision
 * before it removes anything, and the newest MVCC_HASHES_MAX of these are remembered, until the
 * store is closed: at such a revision that hash is the result, with the compact revision before it.
 * There is none of a compaction that was asked for before the one before it was through, nor of one
 * that goes on after a restart: what it finds does not begin where the one before it ended.
 *
 * Where no key is alive at a revision that deletes some, etcd's compaction there finds another hash
 * than HashKV did before it, in the same store. Whoever compares himself with others knows both.
 */
struct mvcc_hash {
    int64_t revision;
    uint32_t hash;
    uint32_t other; /* of the same store: by a compaction at its revision; or, of one, before it */
    int64_t compact_revision; /* -1: nothing was ever compacted */
    struct mvcc_scan pin;     /* from here on mvcc's own */
    struct revision next;
    int64_t keep; /* of what is at or below the compact revision, what this one would keep counts */
    int64_t keep_of_other;
    bool at_once; /* the caller's: it waits for the disk, if need be. For tests and tools */
    bool open, has_keep, is_known, of_compaction;
    struct mvcc_waiter waiter;
};

/* MVCC_OK, and then it must be closed. COMPACTED: below the compact revision, and not one of the
 * remembered. */
enum mvcc_result mvcc_hash_open(struct mvcc *m, struct mvcc_hash *h);
/* True: the hash is there. History up to its revision has to be settled first. */
bool mvcc_hash_some(struct mvcc *m, struct mvcc_hash *h, unsigned steps);
void mvcc_hash_close(struct mvcc *m, struct mvcc_hash *h); /* again is fine */

/* Those of compactions that are remembered, the newest first: the nth, without its pin. False:
 * there are no more. */
bool mvcc_compaction_hash(const struct mvcc *m, size_t nth, struct mvcc_hash *out);

/* Hash over all buckets of a view: for tests of etcd's, in one go. ERR_CORRUPT. */
MUST_CHECK enum err mvcc_hash_store(struct backend_view *v, uint32_t *out);

struct mvcc_status {
    size_t keys; /* in the index, dead ones with history too */
    size_t index_bytes;
    size_t pins;
    size_t image_pins;
    size_t waiters; /* at the barrier, compaction left out */
    size_t warmups; /* that workers have */
};
struct mvcc_status mvcc_status(const struct mvcc *m);

/* Keys that are alive, as published. O(log n). */
int64_t mvcc_key_count(const struct mvcc *m);

/* What compactions have done since it was opened. Whoever opens another store in its place assigns
 * them. How long they take the caller knows. */
struct mvcc_stats {
    uint64_t revisions_removed;
    uint64_t compactions; /* that are over */
};
struct mvcc_stats *mvcc_stats(struct mvcc *m);

/* All invariants of memory, asserted. mvcc_check_store also compares with the store: slow. */
void mvcc_check(const struct mvcc *m);
void mvcc_check_store(struct mvcc *m);
