/*
 * watch: who is to hear of which change, each exactly once, in order.
 *
 * A watcher is a cursor: the next revision it has not been given. All who stand at the same
 * revision are a group, and a group moves as one: those whom a change does not concern are not
 * touched by it. The live group stands behind the newest revision; a change finds the watchers it
 * concerns by key (hash) and by range (interval tree). Groups that lag are led through history in
 * bounded chunks and become one with whomever they meet. A stream that cannot take more lets its
 * watchers fall out of their group, remembers nothing but their cursors, and costs no memory behind
 * a client that does not read. Nobody waits for it. A large delete whose tombstones are still being
 * stored (mvcc_settle_some) holds back those whom it concerns until they are; the others pass it.
 *
 * A compaction ends only those who lag. Whoever was live when it was applied, and has not been
 * given all that lies below it, may read on there: the lowest of them is the history floor, and
 * mvcc removes nothing from there on (mvcc_keep_history). As live counts who waits for us alone, be
 * it for a huge revision, for a delete to be settled or for his start, which has just come; and who
 * has lost his place for want of credit less than a second ago. The former keep history for as long
 * as we take, whatever the size of the delete; the latter, who may have stopped reading, for
 * WATCH_FLOOR_MS.
 *
 *     watch_changed --> live watchers of the key --> a batch, encoded once --> their streams
 *     watch_work    --> history, a chunk for each group that lags --> a batch --> their streams
 *     watch_take    --> what each stream is to be sent, in order
 *
 *     watcher   ahead (its start is to come) | lagging <--> live
 *               ended (by compaction; the id stays taken until the client cancels it)
 *
 * Use        watch_stream_open, watch_create; in each turn watch_changed for every revision, then
 *            watch_work, then watch_take until it says false; watch_sent when bytes have left.
 * Promises   1. Events come in order of revision, and of sub-revision in it; no revision twice to a
 *               watcher, none left out that it should see, from its start on.
 *            2. All events of one revision that a watcher sees are in one message, or in one run of
 *               fragments if it asked for those. A live watcher gets one message per revision; a
 *               lagging one up to WATCH_CATCH_UP_REVISIONS in one.
 *            3. The header's revision of a message with events, and of a progress message, is true:
 *               when it comes, every event up to it has come, of that watcher (or, with id -1, of
 *               every watcher of the stream).
 *            4. Nothing for an id comes before its created message, or after its cancel's.
 *            5. Memory: WATCH_WATCHER_BYTES for a live watcher of one key, some hundred more for
 *               one that lags; what streams have credit for, each overdrawn by one message at most,
 *               and by the envelopes of those that it had queued (watch_costs_more); and two chunks
 *               under way, of WATCH_CHUNK_BYTES_MAX each. A batch of one revision that is larger
 *               than WATCH_BATCH_BYTES is not held in memory but measured, and then read a chunk at
 *               a time (a long message).
 *            6. watch_changed costs O(changes * log n + watchers concerned), whoever else watches;
 *               watch_compacted O(groups that wait for us), of which there are a few. Everything
 *               else that could take long is done in slices by watch_work.
 *            7. A watcher that is live when a compaction is applied gets everything up to it, with
 *               the KeyValues before where it asked for them; unless it does not read.
 * Not here   Encoding WatchResponse's header (api). Permission (api). Flow control (rpc): streams
 *            are given credit in bytes, and give it back by being told what was sent. How many
 *            watchers a client may have: watch_status says what they take, and api may refuse.
 * Leans on   mvcc for history. Time comes in as now_ms.
 */
#pragma once

#include "base/blob.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/rng.h"
#include "mvcc/mvcc.h"

struct watch;        /* opaque: the hub */
struct watch_stream; /* opaque */

struct watch_options {
    struct mvcc *mvcc;
    size_t fragment_bytes; /* responses of this size are split for those who asked; etcd: 2 MiB */
    uint64_t progress_interval_ms; /* 0: ten minutes; at least 100 ms; each stream adds 0 to 10 % */
    uint64_t seed;                 /* a secret in production: clients choose keys and ids */
};

struct watch *watch_open(const struct watch_options *options);

/* No stream is open, no long message is left (asserted). mvcc must still be there. NULL is fine. */
void watch_close(struct watch *w);

/* --- telling --- */

/* `context` is whoever owns the stream. It starts with this much credit. */
struct watch_stream *watch_stream_open(struct watch *w, void *context, size_t credit_bytes,
                                       uint64_t now_ms);

/* Its watchers end with it, the last of many a little later, and messages not taken are dropped. */
void watch_stream_close(struct watch_stream *s);
void *watch_stream_context(const struct watch_stream *s);

/*
 * What is left of a stream's credit; 0: none. Whoever reads the client's requests stops while it is
 * 0, since each of them may put a small message into the queue, credit or not.
 */
size_t watch_stream_credit(const struct watch_stream *s);

/*
 * The outcome is a message: created, or created and canceled with id -1. An empty key stands for
 * the smallest, the range_end "\0" for no end. Keys of more than WATCH_LONG_KEY_BYTES are refused
 * where a stream has, or all have, too many bytes of those already. `refusal` is NULL, or why api
 * denies it (copied): then it is answered so and nothing is watched.
 */
void watch_create(struct watch_stream *s, const struct pb_watch_create_request *request,
                  const char *refusal, uint64_t now_ms);

/* Answered behind the events that are queued already; an unknown id gets no answer. */
void watch_cancel(struct watch_stream *s, int64_t id);

/* Answered with id -1 if every watcher of the stream is live, its start is not ahead, and there is
 * credit; otherwise forgotten. */
void watch_request_progress(struct watch_stream *s);

/* A revision was published. To be called for each, in order, before anything else is asked. */
void watch_changed(struct watch *w, const struct mvcc_changes *changes);

/* The compact revision has moved: those who lag and still need what lies below it will be told, and
 * end. To be called before mvcc removes anything (mvcc_compact_some), or there is nothing left to
 * be kept for those who were live. */
void watch_compacted(struct watch *w);

/* What was taken from a stream costs so many bytes more than it said: the envelope that was put
 * around it, which is not known here. They come back by watch_sent, too. */
void watch_costs_more(struct watch_stream *s, size_t bytes);

/* Bytes that were taken have left: that much more credit. In any portions; never more than were
 * taken (asserted). */
void watch_sent(struct watch_stream *s, size_t bytes);

/* The store was replaced (a snapshot was installed): everybody lags at his own next revision, and
 * nobody may read below the new one's compact revision. The old one, which must still be there, is
 * let go of and not looked at any more. */
void watch_store_replaced(struct watch *w, struct mvcc *mvcc);

/*
 * Catches up some lagging watchers, makes periodic progress messages that are due, takes down
 * closed streams; does about `steps` small things, of which looking at a change is one. True if
 * there is nothing to be done until something is told or watch_next_ms has come.
 */
bool watch_work(struct watch *w, unsigned steps, uint64_t now_ms);

/* --- taking --- */

struct watch_long; /* opaque: the events of one huge revision, read a chunk at a time */

struct watch_message {
    struct watch_stream *stream;
    int64_t watch_id;
    int64_t revision; /* for the header; 0 when canceled by compaction */
    bool created, canceled, fragment;
    int64_t compact_revision;
    const char *cancel_reason; /* NULL: none. Lent until the next watch_take. */
    struct blob
        *events; /* encoded `events` fields (number 11); NULL: none. The taker's reference */
    struct watch_long *long_events; /* or this one instead; the taker ends it */
    uint64_t event_count;           /* in either */
    size_t bytes; /* that count against the stream's credit: of the events, at least 64 */
};

/* The next message of any stream, fair among streams; false if there is none now. */
bool watch_take(struct watch *w, struct watch_message *out);

/* The exact size of the encoded events. */
uint64_t watch_long_bytes(const struct watch_long *l);

/*
 * Appends some whole events, about max bytes, or a part of a single one that is longer, and sets
 * *done with the last of them. An event, or a part of one, may be larger than max, but has
 * WATCH_PART_BYTES then at most. It looks at no more than MVCC_SLICE_STEPS changes, fewer of large
 * ones, so it may append nothing and yet have more: go on later. History is kept for it for
 * WATCH_FLOOR_MS; if compaction overtakes it later, ERR_CANCELED, and the stream must be reset.
 */
MUST_CHECK enum err watch_long_read(struct watch_long *l, size_t max, struct buf *out, bool *done);
void watch_long_end(struct watch_long *l); /* outlives its stream if need be; NULL is fine */

/* --- asking --- */

/* Asked at each scrape: walks along nothing. */
struct watch_stats {
    size_t streams, watchers; /* without those ended by compaction */
    size_t lagging;           /* of them, those that are not live */
    uint64_t events;          /* taken so far */
    uint64_t pending_events;  /* queued, and not taken */
};
struct watch_stats watch_stats(const struct watch *w);

struct watch_status {
    size_t streams, watchers;
    size_t live;    /* those whose start is ahead too */
    size_t lagging; /* those ended by compaction are in neither */
    size_t bytes;   /* memory held, but for batches */
};

/* Looks at every stream. */
struct watch_status watch_status(const struct watch *w);

/* When watch_work should be called next although nothing is told: a time, 0 for at once, or
 * UINT64_MAX. */
uint64_t watch_next_ms(const struct watch *w);

/* All invariants, asserted; looks at everything. */
void watch_check(const struct watch *w);
