/*
 * storage_work: what raft has handed out to be written and to be applied, until it is done.
 *
 *     StorageAppend --append, with the log's number--> [appends] --durable--> take_durable --> raft
 *     StorageApply  --apply--> [applies] --next, entry_applied, ...--> take_applied --> raft
 *
 * Raft works ahead: any number of both may be under way, each kind in its own order. An append
 * comes back as the message, whole; its responses are what raft, or another member, is waiting for.
 * Of an apply raft hears in parts, as far as it has come: a message may hold thousands of entries.
 *
 * Promises   1. Appends come back in the order in which they were handed in, each when everything
 *               up to its number is durable and not before.
 *            2. Entries are named in the order of the log, each until it is applied.
 *            3. Entries to be applied follow one another without gaps (asserted).
 * Not here   Writing (wal), applying (apply), how much may be under way: whoever feeds raft stops
 *            when the log is behind (turn.c). What raft hands out is never left lying there, or a
 *            full log would hold back a heartbeat.
 * Leans on   raft.h for messages.
 */
#pragma once

#include "base/list.h"
#include "raft/raft.h"

struct storage_work {
    struct list appends, applies;
    uint64_t appended_seq, durable_seq;   /* numbers of the log: handed in; known to be durable */
    uint64_t durable_index, durable_term; /* the last entry, or snapshot, that is written */
    uint64_t handed_index;                /* the last entry to be applied that was handed in */
    uint64_t applied_index;               /* the last one that is applied */
};

/* All that follows `applied` is still to be applied. */
void storage_work_init(struct storage_work *w, uint64_t applied);
void storage_work_free(struct storage_work *w); /* also one that is all zeroes */

/* --- tell: the message is copied, sharing its blobs --- */

void storage_work_append(struct storage_work *w, const struct raft_message *m, uint64_t seq,
                         uint64_t now_ms);
void storage_work_apply(struct storage_work *w, const struct raft_message *m);
/* The entry that storage_work_next named is applied. True if it was the last of its message. */
bool storage_work_entry_applied(struct storage_work *w);

/* The state has been replaced by one that has this index: what is left of the first message up to
 * there counts as applied. False if there is nothing of that. To be called again after each time
 * that raft was told of it. */
bool storage_work_overtaken(struct storage_work *w, uint64_t index);

/* --- take --- */

/* NULL if there is none; the caller ends it with raft_message_free. */
struct raft_message *storage_work_take_durable(struct storage_work *w, uint64_t durable_seq);

/* What is applied and was not taken before: of this message the entries from..to, the second not
 * included. NULL if there is none. Lent until storage_work_applied_told, which must follow. */
const struct raft_message *storage_work_take_applied(struct storage_work *w, size_t *from,
                                                     size_t *to);
void storage_work_applied_told(struct storage_work *w);

/* --- ask --- */

/* The entry to be applied next. NULL if there is none, or if it is in another message than what is
 * applied and not yet taken. Lent until it is taken. */
const struct raft_entry *storage_work_next(const struct storage_work *w);

/* The one that comes n entries after it; NULL if that is not handed out yet. */
const struct raft_entry *storage_work_after_next(const struct storage_work *w, size_t n);

/* Since when the oldest append waits to become durable; UINT64_MAX: none does. */
uint64_t storage_work_oldest_append_ms(const struct storage_work *w);

/* All invariants, asserted. */
void storage_work_check(const struct storage_work *w);
