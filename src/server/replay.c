#include "server/replay.h"

static void note_term(struct replay *l, uint64_t index, uint64_t term)
{
    if (l->run_count > 0 && l->runs[l->run_count - 1].term == term)
        return;
    if (l->run_count == l->run_cap) {
        l->run_cap = l->run_cap ? 2 * l->run_cap : 16;
        l->runs = mem_resize(l->runs, l->run_cap, sizeof(*l->runs));
    }
    l->runs[l->run_count++] = (struct raft_term_run){.index = index, .term = term};
}

static void keep_entry(struct replay *l, const struct raft_entry *e)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->entries = mem_resize(l->entries, l->cap, sizeof(*l->entries));
    }
    l->entries[l->count++] = raft_entry_share(e);
}

static void on_entry(void *context, const struct raft_entry *e)
{
    struct replay *l = context;

    if (e->index < l->applied)
        note_term(l, e->index, e->term);
    else
        keep_entry(l, e);
}

/* What was replaced before it was committed. */
static void on_truncate(void *context, uint64_t from)
{
    struct replay *l = context;

    while (l->count > 0 && l->entries[l->count - 1].index >= from)
        blob_unref(l->entries[--l->count].blob);
    while (l->run_count > 0 && l->runs[l->run_count - 1].index >= from)
        l->run_count--;
}

struct wal_visitor replay_visitor(struct replay *l)
{
    return (struct wal_visitor){.on_entry = on_entry, .on_truncate = on_truncate, .context = l};
}

void replay_free(struct replay *l)
{
    for (size_t i = 0; i < l->count; i++)
        blob_unref(l->entries[i].blob);
    mem_free(l->entries);
    mem_free(l->runs);
}

uint64_t replay_committed(const struct replay *l)
{
    return l->found.state.commit > l->applied ? l->found.state.commit : l->applied;
}

enum err replay_verify(const struct replay *l, const char *wal_dir, struct buf *why)
{
    uint64_t begins = l->snapshot_index > l->start.index ? l->snapshot_index : l->start.index;

    if (l->applied < begins) {
        buf_printf(why,
                   "the log in %s begins after entry %llu, but the store has applied it only up to "
                   "%llu",
                   wal_dir, (unsigned long long)begins, (unsigned long long)l->applied);
        return ERR_CORRUPT;
    }
    uint64_t promised = replay_committed(l);
    if (promised > l->found.last_index) {
        buf_printf(
            why,
            "entries up to %llu are committed, but the log in %s ends at %llu: part of it is "
            "lost",
            (unsigned long long)promised, wal_dir, (unsigned long long)l->found.last_index);
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

/* A leader is elected at term 2 at the earliest, so whatever is of term 1 is a founding entry. */
bool replay_is_founding(const struct replay *l)
{
    bool has_more = l->count > 0 && l->entries[l->count - 1].term > 1;

    return l->start.index == 0 && l->applied == 0 && l->found.state.term == 0 && !has_more;
}

/* Their term was heard of, and the log holds us to it: one that falls would be taken for damage. */
void replay_drop_from(struct replay *l, uint64_t index)
{
    assert(index > replay_committed(l));
    assert(index <= l->found.last_index);

    l->dropped_term = l->entries[l->count - 1].term;
    on_truncate(l, index);
    l->found.last_index = index - 1;
}

/*
 * In the log, entries come before the term that came along with them, and the power may have gone
 * in between. Whoever has an entry has heard of its term; and it has not voted in it, since a vote
 * is durable before anybody hears of it.
 */
static struct raft_hard_state hard_state(const struct replay *l)
{
    uint64_t last_term = l->count > 0 ? l->entries[l->count - 1].term : l->start.term;
    uint64_t heard_term = last_term > l->dropped_term ? last_term : l->dropped_term;
    struct raft_hard_state state = l->found.state;

    if (state.term < heard_term) {
        state.term = heard_term;
        state.vote = 0;
    }
    state.commit = replay_committed(l);
    return state;
}

void replay_remember(const struct replay *l, const struct raft_conf_state *conf_state,
                     struct raft_boot *out)
{
    *out = (struct raft_boot){
        .hard_state = hard_state(l),
        .conf_state = *conf_state,
        .base_index = l->start.index,
        .base_term = l->start.term,
        .runs = l->runs,
        .run_count = l->run_count,
        .entries = l->entries,
        .entry_count = l->count,
        .applied = l->applied,
    };
}

/* Only what is decided here: what an entry's term may be is for the log to verify. */
void replay_check(const struct replay *l)
{
    for (size_t i = 1; i < l->count; i++)
        assert(l->entries[i].index == l->entries[0].index + i);
    if (l->count > 0)
        assert(l->entries[0].index >= l->applied);
    for (size_t i = 0; i < l->run_count; i++) {
        assert(l->runs[i].index > l->start.index);
        assert(l->runs[i].index < l->applied);
        assert(i == 0 || l->runs[i].index > l->runs[i - 1].index);
        assert(i == 0 || l->runs[i].term != l->runs[i - 1].term);
    }
    /* With runs there is an entry to end them: the one that the store has applied last. */
    assert(l->run_count == 0 || l->count > 0 || l->found.last_index < l->applied);
}
