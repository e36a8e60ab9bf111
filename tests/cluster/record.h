/*
 * record: what clients of real members asked and were told, what a watcher on each member saw, and
 * whether all of it can be true.
 *
 * Every write makes exactly one revision, and its value is the write's number; so the watchers'
 * events are the one order in which everything happened, each revision names its cause, and the
 * state at any revision is known. What anybody was told is compared with that.
 *
 *     events     2: k3 = 17 | 3: k0 deleted | 4: k3 = 21, k9 = 21 | ...
 *     watchers   m1 ---------------------------^         each is somewhere in it, and may only be
 *                m2 --------------^                      shown what comes next there
 *
 * Checks     1. No revision is missing, and the watchers of all members are shown the same.
 *            2. A write that was acknowledged has happened, at the revision that it was told, as a
 *               whole, once. One whose response never came has happened so, or not at all.
 *            3. Nothing has happened that nobody has asked for.
 *            4. Strict order: whatever began after somebody had been told revision r is told r at
 *               least if it reads, and more if it writes. A serializable read may be told less, but
 *               never less than before on its own connection.
 *            5. A read shows the keys as they were at the revision it was told, all at once, and a
 *               transaction has compared with the state right before it.
 *
 * The simulator's history (sim/history.h) executes requests of every kind anew; this one knows few
 * kinds, and takes a few hundred thousand of them in its stride.
 *
 * Use        record_begin, record_*_done as calls come and go; record_saw as watchers are shown
 *            events; record_judge when no call is under way and all watchers have seen everything.
 */
#pragma once

#include "base/buf.h"
#include "pb/codec.h"

enum {
    RECORD_KEYS = 16,
    RECORD_KEY_BYTES = 8,
    RECORD_MEMBERS_MAX = 7,
};

enum record_kind {
    RECORD_PUT,
    RECORD_DELETE,
    RECORD_SWAP,      /* if key's mod revision is this, put key and other; else show key */
    RECORD_READ,      /* linearizable */
    RECORD_READ_LOCAL /* serializable */
};

struct record_op {
    enum record_kind kind;
    unsigned key, other;
    int64_t compared; /* SWAP */
    bool reads_all;   /* READ, READ_LOCAL: every key; else key alone */

    int64_t floor;                /* the highest revision that had been told when it began */
    int64_t revision;             /* that it was told; 0: no response ever came */
    bool did;                     /* DELETE: there was one; SWAP: the comparison held */
    size_t shown_at, shown_count; /* in record.shown */
    int64_t seen;                 /* where its value has been seen; 0: nowhere */
};

struct record_kv {
    unsigned key;
    uint64_t value; /* the number of the write */
    int64_t mod, create, version;
};

struct record_event {
    struct record_kv kv;
    bool deleted;
    bool has_cause; /* a delete that somebody was told of */
};

/* Numbers of things, in the order they were added. */
struct record_list {
    size_t *at;
    size_t count, cap;
};

struct record {
    struct record_op *ops;
    size_t op_count, op_cap;
    struct record_event *events;
    size_t event_count, event_cap;
    struct record_kv *shown;
    size_t shown_count, shown_cap;
    struct record_list of_key[RECORD_KEYS];  /* its events */
    struct record_list deletes[RECORD_KEYS]; /* without response, and that explain nothing yet */
    size_t watched[RECORD_MEMBERS_MAX];      /* events that the watcher of each member has seen */
    int64_t told;                            /* the highest revision that anybody was told */
    size_t judged_ops, judged_events;
    char problem[512]; /* the first one; empty when there is none */
};

/* All zeroes is an empty record. */
void record_free(struct record *r);

__attribute__((format(printf, 2, 3))) void record_fail(struct record *r, const char *format, ...);

/* "r/k07", and back; false if it is none. */
const char *record_key(unsigned key, char out[static RECORD_KEY_BYTES]);
bool record_key_of(struct bytes name, unsigned *out);

/* --- calls --- */

/* Its number, which a write puts as its value. The floor is filled in, but for a READ_LOCAL, which
 * brings its own. */
size_t record_begin(struct record *r, const struct record_op *op);

void record_write_done(struct record *r, size_t op, int64_t revision, bool did);
/* A failed comparison shows its key, too. */
void record_shown(struct record *r, size_t op, const struct pb_key_value *kv);
void record_read_done(struct record *r, size_t op, int64_t revision);

/* --- watchers --- */

void record_saw(struct record *r, unsigned member, const struct pb_event *e);

/* The last revision that this member's watcher has been shown, 1 if nothing yet. */
int64_t record_watched(const struct record *r, unsigned member);

/* --- the judge --- */

/* False, and a problem, if something cannot be true. Calls for what is new since the last time. */
MUST_CHECK bool record_judge(struct record *r);

/* As text, for people: every operation and every event. */
void record_print(const struct record *r, struct buf *out);
