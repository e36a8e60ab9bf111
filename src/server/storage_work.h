/*
 * storage_work: what raft has handed out to be written and to be applied, until it is done.
 *
 *     StorageAppend --append, with the log's number--> [appends] --durable--> take_durable --> raft
 *     StorageApply  --apply--> [applies] --applying, entry_applied, entry by entry--> raft
 *
 * Raft works ahead: any number of both may be under way, each kind in its own order. An append
 * comes back as the message, whole; its responses are what raft, or another member, is waiting for.
 * Of an apply raft hears entry by entry.
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
    uint64_t appended_seq, durable_seq; /* numbers of the log: handed in; known to be durable */
    uint64_t handed_index;              /* the last entry to be applied that was handed in */
    uint64_t applied_index;             /* the last one that is applied */
};

/* All that follows `applied` is still to be applied. */
void storage_work_init(struct storage_work *w, uint64_t applied);
void storage_work_free(struct storage_work *w); /* also one that is all zeroes */

/* --- tell: the message is copied, sharing its blobs --- */

void storage_work_append(struct storage_work *w, const struct raft_message *m, uint64_t seq);
void storage_work_apply(struct storage_work *w, const struct raft_message *m);
/* The entry that storage_work_applying named is applied. With its last one, a message ends. */
void storage_work_entry_applied(struct storage_work *w);

/* --- take --- */

/* NULL if there is none; the caller ends it with raft_message_free. */
struct raft_message *storage_work_take_durable(struct storage_work *w, uint64_t durable_seq);

/* --- ask --- */

/* The message that is being applied, and which of its entries is next; NULL: none. Lent until its
 * last entry is applied. */
const struct raft_message *storage_work_applying(const struct storage_work *w, size_t *at);
/* The entry itself, or NULL. */
const struct raft_entry *storage_work_next(const struct storage_work *w);

/* All invariants, asserted. */
void storage_work_check(const struct storage_work *w);
