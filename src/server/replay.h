/*
 * replay: the log, as raft needs to remember it at boot.
 *
 * Entries that the store has applied are on disk and may stay there: of those only the terms are
 * noted, in runs, and the last one is kept. What comes after is held in memory, to be applied. The
 * store is never further behind than its cap on uncommitted bytes allows, so this is little,
 * however long the log is.
 *
 *     start (a snapshot) ...... runs ...... applied | entries ...... last
 */
#pragma once

#include "raft/raft.h"
#include "wal/wal.h"

/* All zeroes, with start and applied filled in, is ready for wal_open. */
struct replay {
    struct wal_place start;  /* a snapshot */
    uint64_t snapshot_index; /* the last one recorded; at start, or above it */
    uint64_t applied;        /* by the store */
    struct wal_found found;

    struct raft_entry *entries; /* from `applied` on, that one included */
    size_t count, cap;
    struct raft_term_run *runs;
    size_t run_count, run_cap;
    uint64_t dropped_term; /* of the last entry that replay_drop_from has dropped; 0: none */
};

struct wal_visitor replay_visitor(struct replay *l);
void replay_free(struct replay *l);

/*
 * Was this log made by a founding that did not come to its end? The founders' entries, one for each
 * of them, are followed by the hard state that commits them, in one write: where it is missing,
 * some of the entries may be as well. A member that took those it has for all that there are would
 * elect itself with fewer voters than the others count. Nobody has heard from it yet, so it founds
 * again. Also true of a log without a single entry, which may be that of a member that was to join
 * a cluster: the identity in the log tells them apart.
 */
bool replay_is_founding(const struct replay *l);

/* Do the log and the store fit together? ERR_CORRUPT, and *why says what is missing. */
MUST_CHECK enum err replay_verify(const struct replay *l, const char *wal_dir, struct buf *why);

/* The log is to go on from before this entry, which is not known as committed (asserted): it and
 * what is behind it are not shown to raft, and on disk they are replaced by what comes next. */
void replay_drop_from(struct replay *l, uint64_t index);

/* How far the log is known as committed: by its own word, or because the store has applied it. */
uint64_t replay_committed(const struct replay *l);

/* Everything that raft_open wants; conf_state is the store's. *out looks into l. */
void replay_remember(const struct replay *l, const struct raft_conf_state *conf_state,
                     struct raft_boot *out);

/* All invariants of what was gathered, asserted. */
void replay_check(const struct replay *l);
