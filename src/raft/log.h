/*
 * log: the entries, and how far each promise about them reaches.
 *
 *     base         resident     applied  applying  committed                last
 *      |              |            |        |          |                     |
 *   ---+--------------+------------+--------+----------+-----------+---------+
 *    compacted  on disk only       |  in memory        |           |
 *               (terms known)                     unstable    in_progress
 *                                            first not durable   first not handed out for writing
 *
 *   base <= applied <= applying <= committed <= last,   unstable <= in_progress <= last + 1
 *
 * Entries are kept once, in one array whose front is given up as entries are evicted or compacted
 * and whose back is cut when a new leader disagrees. The term of every entry from base on is known
 * even when the entry is on disk only: terms change rarely, so they are stored as runs.
 *
 * A snapshot that arrived takes the place of the whole log at once; it is remembered here until it
 * is durable, and until then nothing can be applied.
 *
 * Blobs of entries that leave the log are not released but laid on a pile: messages that were not
 * yet taken, or are still lent, may show their bytes. Whoever empties the pile knows better.
 */
#pragma once

#include "raft/raft.h"

/* Where log lines go. */
struct raft_logger {
    void (*log)(void *context, enum raft_log_level level, const char *text);
    void *context;
    enum raft_log_level level;
};

__attribute__((cold, format(printf, 3, 4))) void raft_logger_print(const struct raft_logger *logger,
                                                                   enum raft_log_level at,
                                                                   const char *format, ...);

/* The arguments are not even evaluated when nobody listens. */
#define RAFT_LOGGER(logger, at, ...)                                                               \
    do {                                                                                           \
        if (__builtin_expect((logger)->log && (logger)->level <= (at), 0))                         \
            raft_logger_print((logger), (at), __VA_ARGS__);                                        \
    } while (0)

/* Blobs waiting for their release. */
struct blob_pile {
    struct blob **at;
    size_t count, cap;
};
void blob_pile_add(struct blob_pile *pile,
                   struct blob *b); /* takes over one reference; NULL fine */
void blob_pile_release(struct blob_pile *pile);
void blob_pile_free(struct blob_pile *pile);

struct raft_log {
    const struct raft_logger *logger;
    struct blob_pile *dropped;

    uint64_t base_index, base_term;
    struct raft_term_run *runs; /* ascending; they cover (base, last] */
    size_t run_count, run_cap;

    struct raft_entry *array; /* entries [resident, last] at array[head ...] */
    uint64_t *sizes; /* beside each: the encoded size of all entries ever appended up to it */
    size_t head, count, cap;
    uint64_t size_before; /* what sizes would say for the entry before resident */
    uint64_t resident;
    uint64_t resident_bytes;
    uint64_t truncations; /* how often the back was cut: whoever kept a copy can see if it is old */

    uint64_t unstable, in_progress;
    struct raft_snapshot *snapshot; /* not yet durable; NULL: none */
    bool snapshot_in_progress;

    uint64_t committed, applying, applied;
    uint64_t max_applying_bytes;
    bool applying_paused; /* enough handed out until some of it is applied */
};

void raft_log_open(struct raft_log *l, const struct raft_boot *boot, uint64_t max_applying_bytes,
                   const struct raft_logger *logger, struct blob_pile *dropped);
void raft_log_close(struct raft_log *l);

/* What entries count as proposals. */
uint64_t raft_entries_payload(const struct raft_entry *entries, size_t count);

/* --- asking --- */

static inline uint64_t raft_log_first(const struct raft_log *l)
{
    return l->base_index + 1;
}

static inline uint64_t raft_log_last(const struct raft_log *l)
{
    return l->resident + l->count - 1;
}

/* The term at index; false below base and above last. */
bool raft_log_term(const struct raft_log *l, uint64_t index, uint64_t *term);
uint64_t raft_log_term_or_zero(const struct raft_log *l, uint64_t index);
uint64_t raft_log_last_term(const struct raft_log *l);
bool raft_log_matches(const struct raft_log *l, uint64_t index, uint64_t term);

/* Would a log that ends there hold everything that may be committed? (thesis 3.6.1) */
bool raft_log_is_up_to_date(const struct raft_log *l, uint64_t last_index, uint64_t last_term);

/*
 * The highest index <= `index` at which this log's term is <= `term`, with that term: above it a
 * log with this term there cannot match ours. Where the term is unknown, the index may match, and
 * the term comes back as 0.
 */
struct raft_log_place {
    uint64_t index, term;
};
struct raft_log_place raft_log_find_by_term(const struct raft_log *l, uint64_t index,
                                            uint64_t term);

/* Entries [low, high), all of them resident, as many as fit into max_bytes but at least one. Good
 * until the log changes. */
const struct raft_entry *raft_log_slice(const struct raft_log *l, uint64_t low, uint64_t high,
                                        uint64_t max_bytes, size_t *count);

bool raft_log_has_unapplied_conf_change(const struct raft_log *l);
/* The encoded size of what is committed and not applied. */
uint64_t raft_log_unapplied_bytes(const struct raft_log *l);

/* --- appending --- */

/* Appends entries that follow each other, the first at or before last + 1, cutting off what was
 * there. Nothing committed may be cut (asserted). */
void raft_log_append(struct raft_log *l, const struct raft_entry *entries, size_t count);

/* What a follower does with a leader's entries, which follow each other and prev, which is not
 * below committed. False if the logs are not known to match at prev. */
bool raft_log_maybe_append(struct raft_log *l, uint64_t prev_index, uint64_t prev_term,
                           const struct raft_entry *entries, size_t count);

/* The snapshot replaces everything. */
void raft_log_restore(struct raft_log *l, const struct raft_snapshot *snapshot);

/* --- committing --- */

/* Never backwards; never beyond last (asserted). */
void raft_log_commit_to(struct raft_log *l, uint64_t index);

/* Commits up to index if the entry there is of the leader's own term. */
bool raft_log_maybe_commit(struct raft_log *l, uint64_t index, uint64_t leader_term);

/* --- writing --- */

static inline bool raft_log_has_unstable(const struct raft_log *l)
{
    return l->unstable <= raft_log_last(l);
}

/* Everything unstable has been handed out for writing. */
void raft_log_accept_unstable(struct raft_log *l);

/* Durable up to index, where the written entry had this term. */
void raft_log_stable_to(struct raft_log *l, uint64_t index, uint64_t term);
void raft_log_snapshot_stable(struct raft_log *l, uint64_t snapshot_index);

/* --- applying --- */

/* The next entries to apply, none while paused or while a snapshot waits. allow_unstable: in plain
 * mode they are made durable by the same output that hands them out. */
bool raft_log_has_committed(const struct raft_log *l, bool allow_unstable);
const struct raft_entry *raft_log_next_committed(const struct raft_log *l, bool allow_unstable,
                                                 size_t *count);
void raft_log_accept_applying(struct raft_log *l, uint64_t index, bool allow_unstable);
void raft_log_applied_to(struct raft_log *l, uint64_t index);

/* --- forgetting --- */

void raft_log_compact(struct raft_log *l, uint64_t index);
void raft_log_evict(struct raft_log *l, uint64_t index); /* keeps what is unapplied or unstable */

/* Evicts the oldest until at most so many entries and bytes are left, 0 meaning any. */
void raft_log_trim(struct raft_log *l, size_t entries_max, uint64_t bytes_max);

/* All invariants, asserted. */
void raft_log_check(const struct raft_log *l);
