/*
 * history: what happened, in the one order there is, and whether everybody's story agrees with it.
 *
 * A witness watches all keys from the first revision on and never gives up; what it sees is the
 * history. Everything else is checked against it: what writers were told, what readers were shown,
 * what other watchers saw. Values are the number of the operation that wrote them, so each event
 * names its cause.
 *
 * Checks     1. Revisions grow by one, and each event's kv agrees with the keys' lives so far.
 *            2. A write that was acknowledged is there, once, at the revision it was told.
 *            3. No event without an operation that was begun before it.
 *            4. What was answered before something else began has no higher revision: strict order.
 *            5. A read shows exactly the state at its revision.
 *            6. A watcher sees exactly the history's part that it asked for.
 * A violation ends the run: history_fail.
 */
#pragma once

#include "base/buf.h"
#include "pb/codec.h"

enum { HISTORY_KEYS = 12, HISTORY_KEY_BYTES = 8 };

enum history_kind { OP_PUT, OP_DELETE, OP_SWAP, OP_READ, OP_OTHER };

/* One operation of a client, from its beginning to its answer. */
struct history_op {
    enum history_kind kind;
    unsigned key;      /* or all of them: HISTORY_KEYS */
    int64_t floor;     /* the highest revision anybody had been told when it began */
    bool done, failed; /* answered; failed: with an error, so nobody knows whether it happened */
    bool wrote;        /* for a swap: its comparison held; for a delete: it deleted something */
    int64_t revision;  /* that it was told */
    int64_t lease;     /* a put with one */
    bool seen;         /* in the history */
};

/* An event of the history. */
struct history_event {
    int64_t revision;
    unsigned key;
    bool deleted;
    uint64_t op; /* that wrote the value */
    int64_t create_revision, version;
};

struct history {
    struct history_op *ops;
    size_t op_count, op_cap;
    struct history_event *events;
    size_t event_count, event_cap;
    int64_t told; /* the highest revision anybody was told */
    int64_t seen; /* the witness has everything up to here */
    char problem[512];
    bool failed;
};

void history_free(struct history *h);

__attribute__((format(printf, 2, 3))) void history_fail(struct history *h, const char *format, ...);

/* "k07". Returns out. */
const char *history_key(unsigned key, char out[static HISTORY_KEY_BYTES]);
bool history_key_of(struct bytes key, unsigned *out);

/* A new operation begins: its number, which is the value it writes. */
uint64_t history_begin(struct history *h, enum history_kind kind, unsigned key);
struct history_op *history_op(struct history *h, uint64_t op);

/* It was answered. */
void history_done(struct history *h, uint64_t op, int64_t revision, bool wrote);
void history_gave_up(struct history *h, uint64_t op);

/* What the witness was shown, in order. */
void history_witness(struct history *h, const struct pb_event *e);

/* A read of one key or of all, at this revision: checked when the witness has come that far, so
 * the result is copied. */
void history_read(struct history *h, const struct pb_range_response *r, unsigned key, int64_t at,
                  struct buf *kept);

/* Checks what history_read has kept; at the end. */
void history_check_reads(struct history *h, struct bytes kept);

/* What one watcher saw between its start and its end. */
struct history_watch {
    unsigned key; /* or all: HISTORY_KEYS */
    int64_t from;
    bool to_the_end; /* it was still there at the end, and must have seen everything */
    struct buf seen; /* struct history_event, without create_revision and version */
};

/* False if it is not an event of ours. */
bool history_event_of(const struct pb_event *e, struct history_event *out);
void history_check_watch(struct history *h, const struct history_watch *w);

/* The newest revision that concerns this key, or all; 0: none. */
int64_t history_last_of(const struct history *h, unsigned key);

/* Every acknowledged write is there. */
void history_check_ops(struct history *h);

/* The state after the last event equals this range of all keys. */
void history_check_final(struct history *h, const struct pb_range_response *r);
