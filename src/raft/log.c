#include "raft/log.h"

#include "base/assert.h"

#include <inttypes.h>

#define SAY_INFO(l, ...) RAFT_LOGGER((l)->logger, RAFT_LOG_INFO, __VA_ARGS__)

/* --- lines, piles, entries --- */

void raft_logger_print(const struct raft_logger *logger, enum raft_log_level at, const char *format,
                       ...)
{
    struct buf line = {0};
    va_list args;

    va_start(args, format);
    buf_vprintf(&line, format, args);
    va_end(args);
    logger->log(logger->context, at, buf_str(&line));
    buf_free(&line);
}

void blob_pile_add(struct blob_pile *pile, struct blob *b)
{
    if (!b)
        return;
    if (pile->count == pile->cap) {
        pile->cap = pile->cap ? pile->cap * 2 : 64;
        pile->at = mem_resize(pile->at, pile->cap, sizeof(*pile->at));
    }
    pile->at[pile->count++] = b;
}

void blob_pile_release(struct blob_pile *pile)
{
    for (size_t i = 0; i < pile->count; i++)
        blob_unref(pile->at[i]);
    pile->count = 0;
}

void blob_pile_free(struct blob_pile *pile)
{
    blob_pile_release(pile);
    mem_free(pile->at);
    *pile = (struct blob_pile){0};
}

uint64_t raft_entries_payload(const struct raft_entry *entries, size_t count)
{
    uint64_t size = 0;

    for (size_t i = 0; i < count; i++)
        size += entries[i].data.len;
    return size;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* --- the array: entries in memory --- */

static struct raft_entry *entry_at(const struct raft_log *l, uint64_t index)
{
    return &l->array[l->head + (index - l->resident)];
}

enum { ARRAY_CAP_MIN = 64 };

/* Space for one more at the back: by moving down when half of the array in front is free, so that
 * every entry is moved a bounded number of times, else by growing. After a burst it shrinks again.
 */
static void array_reserve(struct raft_log *l)
{
    if (l->head + l->count < l->cap)
        return;
    if (l->head > l->cap / 2) {
        memmove(l->array, l->array + l->head, l->count * sizeof(*l->array));
        memmove(l->sizes, l->sizes + l->head, l->count * sizeof(*l->sizes));
        l->head = 0;
        if (l->count > l->cap / 8 || l->cap == ARRAY_CAP_MIN)
            return;
        l->cap /= 2;
    } else {
        l->cap = l->cap ? l->cap * 2 : ARRAY_CAP_MIN;
    }
    l->array = mem_resize(l->array, l->cap, sizeof(*l->array));
    l->sizes = mem_resize(l->sizes, l->cap, sizeof(*l->sizes));
}

/* The encoded size of all entries ever appended up to index; what is no longer here counts as one
 * with what came before. */
static uint64_t size_upto(const struct raft_log *l, uint64_t index)
{
    if (index < l->resident)
        return l->size_before;
    assert(l->sizes && index <= raft_log_last(l));
    return l->sizes[l->head + (index - l->resident)];
}

uint64_t raft_log_unapplied_bytes(const struct raft_log *l)
{
    return size_upto(l, l->committed) - size_upto(l, l->applied);
}

static void array_push(struct raft_log *l, const struct raft_entry *e)
{
    uint64_t size = size_upto(l, raft_log_last(l)) + raft_entry_size(e);

    array_reserve(l);
    l->array[l->head + l->count] = raft_entry_share(e);
    l->sizes[l->head + l->count] = size;
    l->resident_bytes += e->data.len;
    l->count++;
}

static void array_drop_entry(struct raft_log *l, struct raft_entry *e)
{
    l->resident_bytes -= e->data.len;
    blob_pile_add(l->dropped, e->blob);
}

/* Gives up entries below index. */
static void array_drop_front(struct raft_log *l, uint64_t index)
{
    while (l->count > 0 && l->resident < index) {
        array_drop_entry(l, &l->array[l->head]);
        l->size_before = l->sizes[l->head];
        l->head++;
        l->count--;
        l->resident++;
    }
    if (l->count == 0)
        l->head = 0;
}

/* Cuts off entries from index on. */
static void array_drop_back(struct raft_log *l, uint64_t index)
{
    while (l->count > 0 && raft_log_last(l) >= index) {
        array_drop_entry(l, &l->array[l->head + l->count - 1]);
        l->count--;
    }
    l->truncations++;
}

/* --- the runs: terms of all entries, in memory or not --- */

static void runs_push(struct raft_log *l, uint64_t index, uint64_t term)
{
    if (l->run_count > 0 && l->runs[l->run_count - 1].term == term)
        return;
    if (l->run_count == l->run_cap) {
        l->run_cap = l->run_cap ? l->run_cap * 2 : 8;
        l->runs = mem_resize(l->runs, l->run_cap, sizeof(*l->runs));
    }
    l->runs[l->run_count++] = (struct raft_term_run){index, term};
}

static void runs_drop_back(struct raft_log *l, uint64_t index)
{
    while (l->run_count > 0 && l->runs[l->run_count - 1].index >= index)
        l->run_count--;
}

/* Which run holds index. The newest ones are asked most, so they are looked at first. */
static size_t run_of(const struct raft_log *l, uint64_t index)
{
    size_t low = 0, high = l->run_count; /* the run is in [low, high) */

    assert(high > 0 && l->runs[0].index <= index);
    if (l->runs[high - 1].index <= index)
        return high - 1;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (l->runs[middle].index <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Forgets the runs below index, which becomes the first one's start. */
static void runs_drop_front(struct raft_log *l, uint64_t index)
{
    if (index > raft_log_last(l)) {
        l->run_count = 0;
        return;
    }
    size_t first = run_of(l, index);
    memmove(l->runs, l->runs + first, (l->run_count - first) * sizeof(*l->runs));
    l->run_count -= first;
    l->runs[0].index = index;
}

/* --- life --- */

void raft_log_open(struct raft_log *l, const struct raft_boot *boot, uint64_t max_applying_bytes,
                   const struct raft_logger *logger, struct blob_pile *dropped)
{
    *l = (struct raft_log){
        .logger = logger,
        .dropped = dropped,
        .base_index = boot->base_index,
        .base_term = boot->base_term,
        .resident = boot->entry_count ? boot->entries[0].index : boot->base_index + 1,
        .committed = boot->base_index,
        .applying = boot->base_index,
        .applied = boot->base_index,
        .max_applying_bytes = max_applying_bytes,
    };
    assert(l->resident > l->base_index);
    assert(l->resident == l->base_index + 1 || boot->run_count > 0);

    for (size_t i = 0; i < boot->run_count; i++) {
        assert(i > 0 || boot->runs[i].index == boot->base_index + 1);
        assert(i == 0 || boot->runs[i].index > boot->runs[i - 1].index);
        assert(boot->runs[i].index < l->resident);
        runs_push(l, boot->runs[i].index, boot->runs[i].term);
    }
    for (size_t i = 0; i < boot->entry_count; i++) {
        assert(boot->entries[i].index == l->resident + i);
        runs_push(l, boot->entries[i].index, boot->entries[i].term);
        array_push(l, &boot->entries[i]);
    }
    l->unstable = raft_log_last(l) + 1;
    l->in_progress = l->unstable;
}

static void forget_snapshot(struct raft_log *l)
{
    if (!l->snapshot)
        return;
    blob_pile_add(l->dropped, l->snapshot->blob);
    mem_free(l->snapshot);
    l->snapshot = NULL;
    l->snapshot_in_progress = false;
}

void raft_log_close(struct raft_log *l)
{
    array_drop_front(l, UINT64_MAX);
    forget_snapshot(l);
    mem_free(l->array);
    mem_free(l->sizes);
    mem_free(l->runs);
}

/* --- asking --- */

bool raft_log_term(const struct raft_log *l, uint64_t index, uint64_t *term)
{
    if (index < l->base_index || index > raft_log_last(l))
        return false;
    *term = index == l->base_index ? l->base_term : l->runs[run_of(l, index)].term;
    return true;
}

uint64_t raft_log_term_or_zero(const struct raft_log *l, uint64_t index)
{
    uint64_t term = 0;

    return raft_log_term(l, index, &term) ? term : 0;
}

uint64_t raft_log_last_term(const struct raft_log *l)
{
    return l->run_count > 0 ? l->runs[l->run_count - 1].term : l->base_term;
}

bool raft_log_matches(const struct raft_log *l, uint64_t index, uint64_t term)
{
    uint64_t ours;

    return raft_log_term(l, index, &ours) && ours == term;
}

bool raft_log_is_up_to_date(const struct raft_log *l, uint64_t last_index, uint64_t last_term)
{
    uint64_t our_term = raft_log_last_term(l);

    return last_term > our_term || (last_term == our_term && last_index >= raft_log_last(l));
}

struct raft_log_place raft_log_find_by_term(const struct raft_log *l, uint64_t index, uint64_t term)
{
    if (index > raft_log_last(l) || index < l->base_index)
        return (struct raft_log_place){index, 0};
    if (index > l->base_index) {
        size_t run = run_of(l, index);
        if (l->runs[run].term <= term)
            return (struct raft_log_place){index, l->runs[run].term};
        while (run > 0 && l->runs[run].term > term)
            run--;
        if (l->runs[run].term <= term)
            return (struct raft_log_place){l->runs[run + 1].index - 1, l->runs[run].term};
    }
    if (l->base_index == 0)
        return (struct raft_log_place){0, 0};
    if (l->base_term <= term)
        return (struct raft_log_place){l->base_index, l->base_term};
    return (struct raft_log_place){l->base_index - 1, 0};
}

/* Where to stop in [low, high) so that it fits into max_bytes, but has at least one entry. */
static uint64_t end_within(const struct raft_log *l, uint64_t low, uint64_t high,
                           uint64_t max_bytes)
{
    uint64_t before = size_upto(l, low - 1);

    if (low == high || size_upto(l, high - 1) - before <= max_bytes)
        return high;
    uint64_t fits = low + 1, over = high;
    while (over - fits > 1) {
        uint64_t middle = fits + (over - fits) / 2;
        if (size_upto(l, middle - 1) - before <= max_bytes)
            fits = middle;
        else
            over = middle;
    }
    return fits;
}

const struct raft_entry *raft_log_slice(const struct raft_log *l, uint64_t low, uint64_t high,
                                        uint64_t max_bytes, size_t *count)
{
    assert(low >= l->resident);
    assert(low <= high);
    assert(high <= raft_log_last(l) + 1);

    *count = end_within(l, low, high, max_bytes) - low;
    return entry_at(l, low);
}

bool raft_log_has_unapplied_conf_change(const struct raft_log *l)
{
    for (uint64_t index = l->applied + 1; index <= l->committed; index++) {
        enum raft_entry_type type = entry_at(l, index)->type;
        if (type == RAFT_ENTRY_CONF_CHANGE || type == RAFT_ENTRY_CONF_CHANGE_V2)
            return true;
    }
    return false;
}

/* --- appending --- */

/* Makes index the end of the log (exclusive), and no more of it durable than what is left. */
static void cut_from(struct raft_log *l, uint64_t index)
{
    assert(index > l->committed);

    /* Writes of what is cut off may be under way. They go on, and when they are reported their term
     * is no longer the one that stands here (raft_log_stable_to). */
    if (index <= l->unstable) {
        SAY_INFO(l, "replace the unstable entries from index %" PRIu64, index);
        l->unstable = index;
        l->in_progress = index;
    } else {
        SAY_INFO(l, "truncate the unstable entries before index %" PRIu64, index);
        l->in_progress = min_u64(l->in_progress, index);
    }
    array_drop_back(l, index);
    runs_drop_back(l, index);
}

void raft_log_append(struct raft_log *l, const struct raft_entry *entries, size_t count)
{
    if (count == 0)
        return;
    assert(entries[0].index > l->committed);
    assert(entries[0].index <= raft_log_last(l) + 1);

    if (entries[0].index <= raft_log_last(l))
        cut_from(l, entries[0].index);
    for (size_t i = 0; i < count; i++) {
        assert(entries[i].index == raft_log_last(l) + 1);
        assert(entries[i].term >= raft_log_last_term(l));
        runs_push(l, entries[i].index, entries[i].term);
        array_push(l, &entries[i]);
    }
}

/* How many of the entries this log already has. */
static size_t count_known(const struct raft_log *l, const struct raft_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (raft_log_matches(l, entries[i].index, entries[i].term))
            continue;
        if (entries[i].index <= raft_log_last(l))
            SAY_INFO(l,
                     "found conflict at index %" PRIu64 " [existing term: %" PRIu64
                     ", conflicting term: %" PRIu64 "]",
                     entries[i].index, raft_log_term_or_zero(l, entries[i].index), entries[i].term);
        return i;
    }
    return count;
}

bool raft_log_maybe_append(struct raft_log *l, uint64_t prev_index, uint64_t prev_term,
                           const struct raft_entry *entries, size_t count)
{
    assert(prev_index >= l->committed);

    if (!raft_log_matches(l, prev_index, prev_term))
        return false;
    size_t known = count_known(l, entries, count);
    if (known < count)
        raft_log_append(l, entries + known, count - known);
    return true;
}

void raft_log_restore(struct raft_log *l, const struct raft_snapshot *snapshot)
{
    assert(snapshot->index > l->committed);

    SAY_INFO(l,
             "log [committed=%" PRIu64 ", applied=%" PRIu64 ", applying=%" PRIu64
             ", unstable.offset=%" PRIu64 ", unstable.offsetInProgress=%" PRIu64
             ", len(unstable.Entries)=%" PRIu64 "] starts to restore snapshot [index: %" PRIu64
             ", term: %" PRIu64 "]",
             l->committed, l->applied, l->applying, l->unstable, l->in_progress,
             raft_log_last(l) + 1 - l->unstable, snapshot->index, snapshot->term);
    array_drop_back(l, 0);
    forget_snapshot(l);
    l->run_count = 0;
    l->head = 0;
    l->base_index = snapshot->index;
    l->base_term = snapshot->term;
    l->resident = snapshot->index + 1;
    l->unstable = l->resident;
    l->in_progress = l->resident;
    l->committed = snapshot->index;

    /* `applied` stays where it is until the snapshot is installed. Nothing is handed out to be
     * applied before: it would be applied to the state that is about to be replaced. */
    l->snapshot = raft_snapshot_own(snapshot);
}

/* --- committing --- */

void raft_log_commit_to(struct raft_log *l, uint64_t index)
{
    assert(index <= raft_log_last(l));

    if (index > l->committed)
        l->committed = index;
}

/*
 * A majority holding an entry is not enough: an entry of an older term can be on a majority and
 * still be replaced by a leader who has never seen it. Only an entry of the leader's own term fixes
 * everything below it (thesis 3.6.2, figure 3.7).
 */
bool raft_log_maybe_commit(struct raft_log *l, uint64_t index, uint64_t leader_term)
{
    if (index <= l->committed || !raft_log_matches(l, index, leader_term))
        return false;
    raft_log_commit_to(l, index);
    return true;
}

/* --- writing --- */

void raft_log_accept_unstable(struct raft_log *l)
{
    l->in_progress = raft_log_last(l) + 1;
    l->snapshot_in_progress = l->snapshot != NULL;
}

void raft_log_stable_to(struct raft_log *l, uint64_t index, uint64_t term)
{
    if (l->snapshot && index == l->snapshot->index) {
        SAY_INFO(l, "entry at index %" PRIu64 " matched unstable snapshot; ignoring", index);
        return;
    }
    if (index < l->unstable || index > raft_log_last(l)) {
        SAY_INFO(l, "entry at index %" PRIu64 " missing from unstable log; ignoring", index);
        return;
    }
    uint64_t ours = raft_log_term_or_zero(l, index);
    if (ours != term) {
        /* Replaced while it was being written; the replacement will be reported in its turn. */
        SAY_INFO(l,
                 "entry at (index,term)=(%" PRIu64 ",%" PRIu64 ") mismatched with "
                 "entry at (%" PRIu64 ",%" PRIu64 ") in unstable log; ignoring",
                 index, term, index, ours);
        return;
    }
    l->unstable = index + 1;
    if (l->in_progress < l->unstable)
        l->in_progress = l->unstable;
}

void raft_log_snapshot_stable(struct raft_log *l, uint64_t snapshot_index)
{
    if (l->snapshot && l->snapshot->index == snapshot_index)
        forget_snapshot(l);
}

/* --- applying --- */

static uint64_t last_appliable(const struct raft_log *l, bool allow_unstable)
{
    return allow_unstable ? l->committed : min_u64(l->committed, l->unstable - 1);
}

bool raft_log_has_committed(const struct raft_log *l, bool allow_unstable)
{
    return !l->applying_paused && !l->snapshot && l->applying < last_appliable(l, allow_unstable);
}

/* Handed out and not applied. */
static uint64_t applying_bytes(const struct raft_log *l)
{
    return size_upto(l, l->applying) - size_upto(l, l->applied);
}

const struct raft_entry *raft_log_next_committed(const struct raft_log *l, bool allow_unstable,
                                                 size_t *count)
{
    *count = 0;
    if (!raft_log_has_committed(l, allow_unstable))
        return NULL;
    assert(applying_bytes(l) < l->max_applying_bytes); /* or it were paused */
    return raft_log_slice(l, l->applying + 1, last_appliable(l, allow_unstable) + 1,
                          l->max_applying_bytes - applying_bytes(l), count);
}

/* Besides a full budget, a next entry that did not fit is a reason to pause: it would not fit
 * later either, while anything is outstanding. */
void raft_log_accept_applying(struct raft_log *l, uint64_t index, bool allow_unstable)
{
    assert(index <= l->committed);

    l->applying = index;
    l->applying_paused =
        applying_bytes(l) >= l->max_applying_bytes || index < last_appliable(l, allow_unstable);
}

void raft_log_applied_to(struct raft_log *l, uint64_t index)
{
    assert(index <= l->committed);
    assert(index >= l->applied);

    l->applied = index;
    if (l->applying < index)
        l->applying = index;
    l->applying_paused = applying_bytes(l) >= l->max_applying_bytes;
}

/* --- forgetting --- */

void raft_log_compact(struct raft_log *l, uint64_t index)
{
    if (index <= l->base_index)
        return;
    assert(index <= l->applied);
    assert(index < l->unstable);

    l->base_term = raft_log_term_or_zero(l, index);
    runs_drop_front(l, index + 1);
    array_drop_front(l, index + 1);
    l->base_index = index;
}

/* What is not applied is still needed here, and what is not durable could not be fetched. */
void raft_log_evict(struct raft_log *l, uint64_t index)
{
    array_drop_front(l, min_u64(min_u64(index, l->applied), l->unstable - 1) + 1);
}

void raft_log_trim(struct raft_log *l, size_t entries_max, uint64_t bytes_max)
{
    uint64_t evictable = min_u64(l->applied, l->unstable - 1);

    while (
        l->count > 0 && l->resident <= evictable &&
        ((entries_max && l->count > entries_max) || (bytes_max && l->resident_bytes > bytes_max)))
        array_drop_front(l, l->resident + 1);
}

/* --- invariants --- */

enum { CHECKED_ENTRIES_MAX = 256 };

/* The newest entries, among which all the changes happen; in a short log that is all of them. */
static void check_entries(const struct raft_log *l)
{
    uint64_t bytes = 0;
    uint64_t from =
        l->count > CHECKED_ENTRIES_MAX ? raft_log_last(l) + 1 - CHECKED_ENTRIES_MAX : l->resident;

    for (uint64_t index = from; index <= raft_log_last(l); index++) {
        const struct raft_entry *e = entry_at(l, index);
        assert(e->index == index);
        assert(e->term == raft_log_term_or_zero(l, index));
        assert(e->blob || e->data.len == 0);
        bytes += e->data.len;
    }
    assert(from == l->resident ? bytes == l->resident_bytes : bytes <= l->resident_bytes);
}

void raft_log_check(const struct raft_log *l)
{
    uint64_t last = raft_log_last(l);

    assert(l->applied <= l->applying);
    assert(l->applying <= l->committed);
    assert(l->committed <= last);
    assert(l->base_index <= l->committed);
    assert(l->snapshot || l->base_index <= l->applied);
    assert(l->resident > l->base_index);
    assert(l->snapshot || l->resident <= l->applied + 1); /* what is to be applied is here */
    assert(l->resident <= l->unstable);                   /* and what is to be written */
    assert(l->unstable <= l->in_progress);
    assert(l->in_progress <= last + 1);
    assert(!l->snapshot || l->snapshot->index == l->base_index);
    assert(l->snapshot || !l->snapshot_in_progress);
    assert((l->run_count > 0) == (last > l->base_index));

    for (size_t i = 0; i < l->run_count; i++) {
        assert(i > 0 || l->runs[i].index == l->base_index + 1);
        assert(i > 0 || l->runs[i].term >= l->base_term);
        assert(i == 0 || l->runs[i - 1].index < l->runs[i].index);
        assert(i == 0 || l->runs[i - 1].term < l->runs[i].term);
        assert(l->runs[i].index <= last);
    }
    check_entries(l);
}
