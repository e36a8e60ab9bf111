/*
 * reply: an answer as a list of pieces, some of which are still in the store.
 *
 * A protobuf message whose size is known and whose bulk is not there yet: short stretches of
 * encoded bytes, and between them scans (mvcc.h) that will be read when the client takes them.
 *
 *     pieces   | text 14 bytes | scan 1.2 GB | text 6 bytes | scan ... |
 *     text     the bytes of all text pieces
 *
 * Building   Nested messages need their length in front, so a reply is built inside out: mark, add,
 *            close. Marks are closed in the reverse order of their making.
 *
 *                size_t m = reply_mark(r);
 *                reply_add(r, bytes);  reply_add_scan(r, scan);
 *                reply_close(r, m, 0x12);  // tag and length in front of everything since the mark
 *
 *            Closing moves the text since the mark, so what is large goes in as a scan, and a
 *            message of many others, as a nested transaction's response is, is opened and sealed
 *            instead: its tag and length are a piece of their own, and nothing is moved.
 * Size       Text is REPLY_TEXT_BYTES_MAX and what little each operation adds beyond that: however
 *            many small scans there are, past it they stay in the store.
 * Reading    reply_read, a chunk at a time, until it says true; or, of a reply without scans,
 *            reply_bytes. Nothing may be added once reading has begun (asserted).
 * Owner      One party at a time; reply_move hands it on. The scans hold copies of their keys, so a
 *            reply may outlive the request it answers, but not the store.
 */
#pragma once

#include "base/buf.h"
#include "base/limits.h"
#include "mvcc/mvcc.h"

struct reply_piece;

/* All zeroes is an empty reply. The fields are the reply's own. */
struct reply {
    struct reply_piece *pieces;
    size_t piece_count, piece_cap;
    struct buf text;
    size_t text_known; /* how much of it is in pieces: all, but between reply_text and _added */
    uint64_t total;    /* bytes of all pieces, scans included */
    uint64_t taken;    /* how many reply_read has given */
    size_t at_piece;   /* where reading stands: the piece, its byte */
    uint64_t at_byte;
};

/* A message that is open. */
struct reply_nest {
    size_t piece;
    uint64_t from;
};

/* Closes the scans. */
void reply_free(struct reply *r);

/* `from` is empty after; `to` was (asserted). */
void reply_move(struct reply *from, struct reply *to);

static inline uint64_t reply_total(const struct reply *r)
{
    return r->total;
}

/* --- building --- */

size_t reply_mark(const struct reply *r);
void reply_add(struct reply *r, struct bytes encoded);

/* Takes over a scan that is measured, not yet read, and was made by reply_scan_new. */
void reply_add_scan(struct reply *r, struct mvcc_scan *s);
void reply_close(struct reply *r, size_t mark, uint8_t tag);

/* Would a scan, or something else in the store, of so many bytes be read at once? */
bool reply_takes_inline(const struct reply *r, uint64_t bytes);

/* The same as mark and close, of a message in a message, at the same price whatever is in it. Both
 * kinds end in the reverse order of their beginnings, and this one not between those. */
struct reply_nest reply_open(struct reply *r);
void reply_seal(struct reply *r, struct reply_nest n, uint8_t inner, uint8_t outer);

/* All is there and sealed. If it is short, and text alone, it becomes one piece. */
void reply_join(struct reply *r);

/* Where to append encoded bytes, by pb_encode for instance; call reply_added after. */
struct buf *reply_text(struct reply *r);
void reply_added(struct reply *r);

/* Fields of a message, with a tag of one byte; left out when zero, as proto3 has it. */
void reply_add_number(struct reply *r, uint8_t tag, uint64_t number);

/* Puts bytes in front of everything: the response's header. */
void reply_add_front(struct reply *r, struct bytes encoded);

/* A scan with copies of the question's key and end behind it. Not opened yet. */
struct mvcc_scan *reply_scan_new(const struct mvcc_question *question);

/* Closes it and gives its memory back. NULL is fine. */
void reply_scan_free(struct mvcc_scan *s);

/* --- reading --- */

/*
 * Appends at most max bytes, max > 0. True when the last has come. It may append none and say
 * false, when all of a chunk's work went into passing over dead keys: then the next turn goes on.
 */
bool reply_read(struct reply *r, size_t max, struct buf *out);

/* Does one of its scans keep a compaction waiting? */
bool reply_in_the_way(const struct reply *r);

/* Is it all text? Then this is it, in one piece. */
bool reply_is_inline(const struct reply *r);
struct bytes reply_bytes(const struct reply *r);

/* All invariants, asserted. */
void reply_check(const struct reply *r);
