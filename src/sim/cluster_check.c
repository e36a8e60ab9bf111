#include "sim/cluster_check.h"

#include "base/assert.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* A list of numbers, one for each index of the log: 0 where nothing is known. */
struct row {
    uint64_t *at;
    size_t cap;
};

struct leadership {
    uint64_t term, id;
    size_t member; /* SIZE_MAX: only others have spoken of it */
    uint64_t
        votes[CLUSTER_CHECK_MEMBERS_MAX]; /* of each member in this term, as far as was shown */
    uint32_t needed; /* a bit for each without whom it would not lead: they were counted, and so
                        durable. One that comes later may never be */
};

/* Who votes and who learns, and from which entry on, as far as that was shown. */
struct conf {
    uint64_t from;
    struct raft_ids voters, learners;
};

struct member {
    bool is_up, is_leader;
    uint64_t id, term, commit, applied, vote, lead;
    size_t conf;      /* plus one, its place; 0: none was shown in this life */
    uint32_t removed; /* a bit for each that it knows to be */
    struct row terms; /* of its log; what is above `last` is not there any more */
    uint64_t base, last, stable;
};

struct cluster_check {
    size_t member_count;
    uint64_t founding;
    struct member members[CLUSTER_CHECK_MEMBERS_MAX];
    struct conf *confs;
    size_t conf_count, conf_cap;
    size_t newest_conf; /* plus one */
    uint64_t newest_conf_at;
    uint32_t removed;           /* a bit for each that anybody knows to be */
    struct leadership *leaders; /* by term */
    size_t leader_count, leader_cap;

    struct row committed;    /* its term */
    struct row committed_in; /* the term in which that was first seen */
    struct row revision;     /* plus one, of the state after it */
    struct row conf_of;      /* plus one, the place of the configuration after it */
    struct row digest_of;    /* plus one, its place among these */
    struct shown_digest {
        struct digest digest;
        size_t member;
    } *digests;
    size_t digest_count, digest_cap;
    uint64_t committed_max;

    /* Entries of all logs there ever were, by index and term: the term before theirs. */
    struct link {
        uint64_t index, term, before;
    } *links;
    size_t link_count, link_cap; /* open addressing, a power of two */

    uint64_t bound_ns, waits_since_ns, waits_for; /* a commit index above this */
    char problem[512];
};

__attribute__((format(printf, 2, 3))) static void fail(struct cluster_check *c, const char *format,
                                                       ...)
{
    va_list args;

    if (c->problem[0] != '\0')
        return; /* the first one is the one to look at */
    va_start(args, format);
    vsnprintf(c->problem, sizeof(c->problem), format, args);
    va_end(args);
}

const char *cluster_check_problem(const struct cluster_check *c)
{
    return c->problem[0] != '\0' ? c->problem : NULL;
}

/* --- rows --- */

static uint64_t row_get(const struct row *r, uint64_t index)
{
    return index < r->cap ? r->at[index] : 0;
}

static void row_set(struct row *r, uint64_t index, uint64_t value)
{
    if (index >= r->cap) {
        size_t cap = r->cap ? r->cap : 256;
        while (cap <= index)
            cap *= 2;
        r->at = mem_resize(r->at, cap, sizeof(*r->at));
        for (size_t i = r->cap; i < cap; i++)
            r->at[i] = 0;
        r->cap = cap;
    }
    r->at[index] = value;
}

/* --- opening and closing --- */

struct cluster_check *cluster_check_new(size_t members, uint64_t founding)
{
    struct cluster_check *c = mem_new(struct cluster_check);

    assert(members > 0);
    assert(members <= CLUSTER_CHECK_MEMBERS_MAX);
    c->member_count = members;
    c->founding = founding;
    return c;
}

void cluster_check_free(struct cluster_check *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->member_count; i++)
        mem_free(c->members[i].terms.at);
    mem_free(c->leaders);
    mem_free(c->committed.at);
    mem_free(c->committed_in.at);
    mem_free(c->revision.at);
    mem_free(c->conf_of.at);
    mem_free(c->confs);
    mem_free(c->digest_of.at);
    mem_free(c->digests);
    mem_free(c->links);
    mem_free(c);
}

/* --- configurations --- */

static bool has_id(const struct raft_ids *ids, uint64_t id)
{
    for (size_t i = 0; i < ids->count; i++)
        if (ids->at[i] == id)
            return true;
    return false;
}

static bool same_ids(const struct raft_ids *a, const struct raft_ids *b)
{
    bool same = a->count == b->count;

    for (size_t i = 0; i < a->count && same; i++)
        same = a->at[i] == b->at[i];
    return same;
}

static bool is_conf(const struct conf *conf, const struct raft_conf_state *now)
{
    return same_ids(&conf->voters, &now->voters) && same_ids(&conf->learners, &now->learners);
}

/* Of which entry: raft has a snapshot's members before its state is installed. */
static uint64_t conf_index(const struct cluster_view *v)
{
    return v->applied > v->base ? v->applied : v->base;
}

/* The place of it, plus one. A learner that came and went leaves the one from before: then it is
 * the newest of those. */
static size_t find_conf(struct cluster_check *c, const struct member *m,
                        const struct cluster_view *v)
{
    if (m->is_up && m->conf > 0 && is_conf(&c->confs[m->conf - 1], v->conf))
        return m->conf;
    for (size_t i = c->conf_count; i > 0; i--)
        if (is_conf(&c->confs[i - 1], v->conf))
            return i;
    if (c->conf_count == c->conf_cap) {
        c->conf_cap = c->conf_cap ? 2 * c->conf_cap : 32;
        c->confs = mem_resize(c->confs, c->conf_cap, sizeof(*c->confs));
    }
    c->confs[c->conf_count] = (struct conf){
        .from = conf_index(v), .voters = v->conf->voters, .learners = v->conf->learners};
    return ++c->conf_count;
}

/* SIZE_MAX: nobody has shown it yet. */
static size_t member_of(const struct cluster_check *c, uint64_t id)
{
    for (size_t i = 0; i < c->member_count && id != 0; i++)
        if (c->members[i].id == id)
            return i;
    return SIZE_MAX;
}

static bool votes_in(const struct cluster_check *c, size_t conf, size_t member)
{
    uint64_t id = c->members[member].id;

    return conf == 0 || (id != 0 && has_id(&c->confs[conf - 1].voters, id));
}

static size_t quorum_of(const struct cluster_check *c, size_t conf)
{
    return (conf == 0 ? c->member_count : c->confs[conf - 1].voters.count) / 2 + 1;
}

bool cluster_check_is_voter(const struct cluster_check *c, size_t member)
{
    return votes_in(c, c->newest_conf, member);
}

size_t cluster_check_voter_count(const struct cluster_check *c)
{
    return c->newest_conf == 0 ? c->member_count : c->confs[c->newest_conf - 1].voters.count;
}

size_t cluster_check_size(const struct cluster_check *c)
{
    size_t learners = c->newest_conf == 0 ? 0 : c->confs[c->newest_conf - 1].learners.count;

    return cluster_check_voter_count(c) + learners;
}

bool cluster_check_knows_others(const struct cluster_check *c, size_t member)
{
    const struct member *m = &c->members[member];

    for (size_t i = 0; i < c->member_count && m->conf > 0; i++) {
        uint64_t id = c->members[i].id;
        const struct conf *own = &c->confs[m->conf - 1];
        if (i != member && cluster_check_is_up_to_date(c, i) &&
            (has_id(&own->voters, id) || has_id(&own->learners, id)))
            return true;
    }
    return false;
}

bool cluster_check_is_removed(const struct cluster_check *c, size_t member)
{
    return (c->removed >> member & 1) != 0;
}

bool cluster_check_is_up_to_date(const struct cluster_check *c, size_t member)
{
    const struct member *m = &c->members[member];
    const struct conf *newest = &c->confs[c->newest_conf - 1];

    return m->is_up && m->conf == c->newest_conf && m->conf > 0 &&
           (has_id(&newest->voters, m->id) || has_id(&newest->learners, m->id));
}

static uint32_t removed_bits(const struct cluster_check *c, const struct cluster_view *v)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < v->removed_count; i++) {
        size_t member = member_of(c, v->removed[i]);
        if (member != SIZE_MAX)
            bits |= 1u << member;
    }
    return bits;
}

/* Until the founders' entries are applied, a member that is started again knows only some. */
static void take_conf(struct cluster_check *c, size_t member, const struct cluster_view *v)
{
    struct member *m = &c->members[member];

    if (!v->conf)
        return;
    uint64_t index = conf_index(v);
    size_t conf = find_conf(c, m, v), known = row_get(&c->conf_of, index);
    if (v->conf->voters_outgoing.count > 0 || v->conf->learners_next.count > 0)
        fail(c, "member %zu is in a joint configuration, which nobody has asked for", member);
    if (index > c->founding && known != 0 && !is_conf(&c->confs[known - 1], v->conf))
        fail(c,
             "after entry %" PRIu64 " member %zu has %zu voters and %zu learners, or others than"
             " another, which had %zu and %zu",
             index, member, v->conf->voters.count, v->conf->learners.count,
             c->confs[known - 1].voters.count, c->confs[known - 1].learners.count);
    row_set(&c->conf_of, index, conf);
    if (index >= c->newest_conf_at) {
        c->newest_conf_at = index;
        c->newest_conf = conf;
    }
    uint32_t removed = removed_bits(c, v);
    if (m->is_up && (m->removed & ~removed) != 0)
        fail(c, "member %zu has forgotten who was removed", member);
    m->removed = removed;
    c->removed |= removed;
    m->conf = conf;
}

/* What it knew before this turn: whoever is removed in its midst may have been heard before that.
 */
static void check_removed(struct cluster_check *c, size_t member, const struct cluster_view *v)
{
    const struct member *m = &c->members[member];
    size_t vote = member_of(c, v->vote), lead = member_of(c, v->lead);

    if (!m->is_up)
        return;
    if (vote != SIZE_MAX && vote != member && (m->removed >> vote & 1) != 0 &&
        (v->vote != m->vote || v->term != m->term))
        fail(c, "member %zu votes in term %" PRIu64 " for member %zu, which it knows was removed",
             member, v->term, vote);
    if (lead != SIZE_MAX && lead != member && (m->removed >> lead & 1) != 0 &&
        (v->lead != m->lead || v->term != m->term))
        fail(c, "member %zu follows member %zu in term %" PRIu64 ", which it knows was removed",
             member, lead, v->term);
}

/* --- leaders --- */

static struct leadership *leadership_of(struct cluster_check *c, uint64_t term)
{
    size_t at = c->leader_count;

    while (at > 0 && c->leaders[at - 1].term > term)
        at--; /* it is nearly always the last one */
    if (at > 0 && c->leaders[at - 1].term == term)
        return &c->leaders[at - 1];
    if (c->leader_count == c->leader_cap) {
        c->leader_cap = c->leader_cap ? 2 * c->leader_cap : 32;
        c->leaders = mem_resize(c->leaders, c->leader_cap, sizeof(*c->leaders));
    }
    for (size_t i = c->leader_count++; i > at; i--)
        c->leaders[i] = c->leaders[i - 1];
    c->leaders[at] = (struct leadership){.term = term, .member = SIZE_MAX};
    return &c->leaders[at];
}

/*
 * A member whose turn ended in a higher term may have voted in the middle of it, unseen. Without
 * such members it is known who has voted, and if it was just enough, all of them were counted: a
 * vote counts when it is durable.
 */
static bool has_votes(struct cluster_check *c, struct leadership *l, size_t conf, size_t *votes)
{
    size_t unseen = 0, quorum = quorum_of(c, conf);
    uint32_t seen = 0;

    *votes = 0;
    for (size_t i = 0; i < c->member_count; i++) {
        bool counts = votes_in(c, conf, i), is_seen = counts && l->votes[i] == l->id;
        *votes += is_seen;
        seen |= (uint32_t)is_seen << i;
        unseen += counts && !is_seen && c->members[i].term > l->term;
    }
    l->needed = *votes == quorum && unseen == 0 ? seen : 0;
    return *votes + unseen >= quorum;
}

/* In the turn in which it wins, a member may also apply a change. Then it is not known which of the
 * votes it needed. */
static void count_votes(struct cluster_check *c, struct leadership *l, size_t before, size_t now)
{
    size_t votes;

    if (!votes_in(c, before, l->member) && !votes_in(c, now, l->member))
        fail(c, "member %zu leads term %" PRIu64 ", and is no voter", l->member, l->term);
    if (has_votes(c, l, now, &votes)) {
        l->needed = before == now ? l->needed : 0;
        return;
    }
    if (!has_votes(c, l, before, &votes))
        fail(c, "member %zu leads term %" PRIu64 " by %zu votes, and needs %zu", l->member, l->term,
             votes, quorum_of(c, before));
    l->needed = before == now ? l->needed : 0;
}

static void check_leader(struct cluster_check *c, size_t member, const struct cluster_view *v,
                         size_t conf_before)
{
    if (v->lead == 0)
        return;
    if (v->is_leader && v->lead != v->id)
        fail(c, "member %zu leads term %" PRIu64 " and says that %" PRIx64 " does", member, v->term,
             v->lead);
    struct leadership *l = leadership_of(c, v->term);
    if (l->id == 0)
        l->id = v->lead;
    if (l->id != v->lead)
        fail(c, "term %" PRIu64 " has two leaders: %" PRIx64 ", and for member %zu %" PRIx64,
             v->term, l->id, member, v->lead);
    if (v->is_leader && l->member == SIZE_MAX) {
        l->member = member;
        count_votes(c, l, conf_before, c->members[member].conf);
    }
}

/* Whoever has voted is in that term until it hears of a higher one: it cannot come back below it,
 * or without its vote. One whose vote was not counted may not have had it on disk. */
static void check_vote(struct cluster_check *c, size_t member, const struct cluster_view *v)
{
    bool is_new = !c->members[member].is_up;

    for (size_t i = c->leader_count; is_new && i > 0 && c->leaders[i - 1].term >= v->term; i--) {
        const struct leadership *l = &c->leaders[i - 1];
        bool was_counted = (l->needed >> member & 1) != 0;
        if (was_counted && (l->term > v->term || v->vote != l->id))
            fail(c,
                 "member %zu has voted for %" PRIx64 " in term %" PRIu64
                 ", and after a restart for %" PRIx64 " in term %" PRIu64,
                 member, l->id, l->term, v->vote, v->term);
    }
    if (v->vote != 0)
        leadership_of(c, v->term)->votes[member] = v->vote;
}

size_t cluster_check_leader(const struct cluster_check *c, uint64_t *term)
{
    for (size_t i = c->leader_count; i > 0; i--)
        if (c->leaders[i - 1].member != SIZE_MAX) {
            *term = c->leaders[i - 1].term;
            return c->leaders[i - 1].member;
        }
    return SIZE_MAX;
}

/* --- logs --- */

static uint64_t link_slot(const struct cluster_check *c, uint64_t index, uint64_t term)
{
    uint64_t h = (index * 0x9e3779b97f4a7c15ull) ^ (term * 0xc2b2ae3d27d4eb4full);
    uint64_t slot = (h ^ h >> 29) & (c->link_cap - 1);

    while (c->links[slot].index != 0 &&
           (c->links[slot].index != index || c->links[slot].term != term))
        slot = (slot + 1) & (c->link_cap - 1);
    return slot;
}

static void grow_links(struct cluster_check *c)
{
    struct link *old = c->links;
    size_t old_cap = c->link_cap;

    c->link_cap = old_cap ? 2 * old_cap : 1024;
    c->links = mem_new_array(c->link_cap, struct link);
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].index != 0)
            c->links[link_slot(c, old[i].index, old[i].term)] = old[i];
    mem_free(old);
}

/* By induction: if every entry names the one before it, equal entries have equal logs behind them.
 */
static void check_link(struct cluster_check *c, size_t member, uint64_t index, uint64_t term,
                       uint64_t before)
{
    if (2 * c->link_count >= c->link_cap)
        grow_links(c);
    struct link *l = &c->links[link_slot(c, index, term)];
    if (l->index == 0) {
        *l = (struct link){index, term, before};
        c->link_count++;
    } else if (l->before != before)
        fail(c,
             "logs do not match: member %zu has an entry %" PRIu64 " of term %" PRIu64
             " behind one of term %" PRIu64 ", another behind one of %" PRIu64,
             member, index, term, before, l->before);
}

static uint64_t term_of(struct cluster_check *c, size_t member, const struct cluster_view *v,
                        uint64_t index)
{
    uint64_t term = 0;

    if (!v->term_at(v->context, index, &term) || term == 0)
        fail(c, "member %zu has no entry %" PRIu64 ", but says it has %" PRIu64 " to %" PRIu64,
             member, index, v->base + 1, v->last);
    return term;
}

/*
 * Takes what is new in a log. A log changes at its end: from the last entry backwards, until one is
 * as it was. That is so if logs match, which is to be found out: after a crash and in a new term,
 * when others may have written to it, all of it is looked at.
 */
static void take_log(struct cluster_check *c, size_t member, const struct cluster_view *v)
{
    struct member *m = &c->members[member];
    bool is_new = !m->is_up, all = is_new || m->term != v->term;
    uint64_t index = v->last;

    for (; index > v->base && c->problem[0] == '\0'; index--) {
        uint64_t term = term_of(c, member, v, index);
        bool is_known = index <= m->last && row_get(&m->terms, index) == term;
        if (is_known && !all)
            break;
        if (!is_known && index <= m->stable && is_new)
            fail(c,
                 "member %zu had entry %" PRIu64 " of term %" PRIu64
                 " durable, and after a restart it is one of term %" PRIu64,
                 member, index, row_get(&m->terms, index), term);
        row_set(&m->terms, index, term);
    }
    for (uint64_t i = index + 1; i <= v->last && c->problem[0] == '\0'; i++) {
        uint64_t before = row_get(&m->terms, i - 1);
        if (i - 1 == v->base)
            before = v->base > 0 ? term_of(c, member, v, v->base) : 0;
        if (before != 0)
            check_link(c, member, i, row_get(&m->terms, i), before);
    }
    if (is_new && v->last < m->stable)
        fail(c, "member %zu had %" PRIu64 " entries durable, and after a restart %" PRIu64, member,
             m->stable, v->last);
    m->base = v->base;
    m->last = v->last;
    m->stable = v->stable;
}

/* --- what is committed --- */

static bool is_durable_in(const struct cluster_check *c, size_t conf, uint64_t index, uint64_t term)
{
    size_t count = 0;

    for (size_t i = 0; i < c->member_count; i++) {
        const struct member *m = &c->members[i];
        count += votes_in(c, conf, i) && m->stable >= index &&
                 (index <= m->base || row_get(&m->terms, index) == term);
    }
    return count >= quorum_of(c, conf);
}

static size_t difference(const struct raft_ids *a, const struct raft_ids *b)
{
    size_t count = 0;

    for (size_t i = 0; i < a->count; i++)
        count += !has_id(b, a->at[i]);
    for (size_t i = 0; i < b->count; i++)
        count += !has_id(a, b->at[i]);
    return count;
}

/*
 * By the configuration that a leader was in before its turn or is in now. If it has applied several
 * changes at once, it may have been one that nobody has seen. A follower is told of what its leader
 * has committed, by whichever configuration since its own; mostly others have shown it before.
 */
static bool is_durable_on_quorum(const struct cluster_check *c, size_t member, size_t conf_before,
                                 bool leads, uint64_t index, uint64_t term)
{
    size_t now = c->members[member].conf;

    if (is_durable_in(c, now, index, term) || is_durable_in(c, conf_before, index, term))
        return true;
    if (now == 0)
        return false;
    if (conf_before > 0 && now != conf_before &&
        difference(&c->confs[conf_before - 1].voters, &c->confs[now - 1].voters) > 1)
        return true;
    uint64_t from = c->confs[(conf_before > 0 ? conf_before : now) - 1].from;
    for (size_t i = 0; i < c->conf_count && !leads; i++)
        if (c->confs[i].from >= from && is_durable_in(c, i + 1, index, term))
            return true;
    return false;
}

static void commit_one(struct cluster_check *c, size_t member, const struct cluster_view *v,
                       size_t conf_before, uint64_t index)
{
    uint64_t term = row_get(&c->members[member].terms, index);
    uint64_t known = row_get(&c->committed, index);

    if (known != 0 && known != term)
        fail(c,
             "entry %" PRIu64 " was committed with term %" PRIu64
             ", and on member %zu with term %" PRIu64,
             index, known, member, term);
    if (known != 0)
        return;
    if (index > c->founding &&
        !is_durable_on_quorum(c, member, conf_before, v->is_leader, index, term))
        fail(c,
             "member %zu says that entry %" PRIu64 " of term %" PRIu64
             " is committed, and it is not durable on a quorum",
             member, index, term);
    row_set(&c->committed, index, term);
    row_set(&c->committed_in, index, v->term);
    if (index > c->committed_max)
        c->committed_max = index;
}

/* A log stands on what a member has released itself, or on the snapshot of another: a jump. Either
 * way others have shown that entry as committed, since a record of it takes some turns. */
static void check_base(struct cluster_check *c, size_t member, const struct cluster_view *v,
                       uint64_t base_before)
{
    if (v->base <= c->founding || v->base == base_before)
        return;
    uint64_t term = term_of(c, member, v, v->base), known = row_get(&c->committed, v->base);
    if (v->base > v->commit)
        fail(c, "the log of member %zu begins after %" PRIu64 ", and only %" PRIu64 " is committed",
             member, v->base, v->commit);
    if (known != term)
        fail(c,
             "the log of member %zu begins after entry %" PRIu64 " of term %" PRIu64
             ", which was committed with term %" PRIu64,
             member, v->base, term, known);
}

/* Of what the log still has. After a crash, and when it leads for the first time, all of it. */
static void check_commit(struct cluster_check *c, size_t member, const struct cluster_view *v,
                         size_t conf_before)
{
    const struct member *m = &c->members[member];
    uint64_t from = m->is_up ? m->commit : v->base;

    if (v->commit > v->last)
        fail(c, "member %zu has committed %" PRIu64 " and its log ends at %" PRIu64, member,
             v->commit, v->last);
    if (from < v->base)
        from = v->base;
    for (uint64_t i = from + 1; i <= v->commit && c->problem[0] == '\0'; i++)
        commit_one(c, member, v, conf_before, i);
    bool led = m->is_up && m->is_leader && m->term == v->term;
    if (led && v->is_leader && v->commit > m->commit && row_get(&m->terms, v->commit) != v->term)
        fail(c,
             "member %zu leads term %" PRIu64 ", and has committed up to %" PRIu64
             ", of term %" PRIu64,
             member, v->term, v->commit, row_get(&m->terms, v->commit));
    /* What it has changed in its log since may lie below what others have committed, but not below
     * what it has committed itself. */
    for (uint64_t i = v->commit; i > v->base && c->problem[0] == '\0'; i--) {
        if (row_get(&c->committed, i) != row_get(&m->terms, i))
            fail(c, "member %zu has changed entry %" PRIu64 ", which is committed", member, i);
        if (i + 64 < v->commit)
            break; /* a log changes from some entry to its end: the newest show it */
    }
}

/* Leader completeness (thesis 3.6.3). One elected late, in an old term, need not have what was
 * committed in the terms since. */
static void check_completeness(struct cluster_check *c, size_t member, const struct cluster_view *v)
{
    const struct member *m = &c->members[member];

    if (!v->is_leader || (m->is_up && m->is_leader && m->term == v->term))
        return;
    for (uint64_t i = c->committed_max; i > v->base; i--) {
        if (row_get(&c->committed_in, i) >= v->term)
            continue;
        if (i > v->last || row_get(&m->terms, i) != row_get(&c->committed, i))
            fail(c,
                 "member %zu leads term %" PRIu64 " without entry %" PRIu64
                 ", which was committed in term %" PRIu64,
                 member, v->term, i, row_get(&c->committed_in, i));
    }
}

/* --- state --- */

static void check_applied(struct cluster_check *c, size_t member, const struct cluster_view *v)
{
    uint64_t revision = row_get(&c->revision, v->applied);

    if (v->applied > v->commit)
        fail(c, "member %zu has applied %" PRIu64 " and committed %" PRIu64, member, v->applied,
             v->commit);
    if (v->applied > v->stable)
        fail(c, "member %zu has applied %" PRIu64 ", and only %" PRIu64 " is durable", member,
             v->applied, v->stable);
    if (revision != 0 && revision != (uint64_t)v->revision + 1)
        fail(c,
             "after entry %" PRIu64 " member %zu is at revision %" PRId64
             ", another was at %" PRIu64,
             v->applied, member, v->revision, revision - 1);
    row_set(&c->revision, v->applied, (uint64_t)v->revision + 1);
}

bool cluster_check_has_digest(const struct cluster_check *c, uint64_t applied)
{
    return row_get(&c->digest_of, applied) != 0;
}

static void remember_digest(struct cluster_check *c, size_t member, const struct digest *d)
{
    if (c->digest_count == c->digest_cap) {
        c->digest_cap = c->digest_cap ? 2 * c->digest_cap : 32;
        c->digests = mem_resize(c->digests, c->digest_cap, sizeof(*c->digests));
    }
    c->digests[c->digest_count++] = (struct shown_digest){*d, member};
    row_set(&c->digest_of, d->applied, c->digest_count);
}

/* One of them is wrong; it need not be the second. */
static void fail_digest(struct cluster_check *c, size_t member, const struct digest *d,
                        const struct shown_digest *first, const char *what, uint64_t now,
                        uint64_t was)
{
    fail(c,
         "after entry %" PRIu64 ", at revision %" PRId64
         ", member %zu has another state than member %zu had: %s %" PRIx64 ", not %" PRIx64,
         d->applied, d->revision, member, first->member, what, now, was);
}

void cluster_check_digest(struct cluster_check *c, size_t member, const struct digest *d)
{
    uint64_t place = row_get(&c->digest_of, d->applied);

    assert(member < c->member_count);
    if (place == 0) {
        remember_digest(c, member, d);
        return;
    }
    const struct shown_digest *first = &c->digests[place - 1];
    const struct digest *was = &first->digest;
    if (d->revision != was->revision)
        fail_digest(c, member, d, first, "revision", (uint64_t)d->revision,
                    (uint64_t)was->revision);
    if (d->compact_revision != was->compact_revision)
        fail_digest(c, member, d, first, "compact revision", (uint64_t)d->compact_revision,
                    (uint64_t)was->compact_revision);
    for (int i = 0; i < DIGEST_PARTS; i++)
        if (d->parts[i] != was->parts[i])
            fail_digest(c, member, d, first, digest_part_name((enum digest_part)i), d->parts[i],
                        was->parts[i]);
}

/* --- one life --- */

static void check_life(struct cluster_check *c, size_t member, const struct cluster_view *v)
{
    const struct member *m = &c->members[member];

    if (m->id != 0 && m->id != v->id)
        fail(c, "member %zu was %" PRIx64 " and is %" PRIx64 " now", member, m->id, v->id);
    if (!m->is_up)
        return;
    if (v->term < m->term)
        fail(c, "member %zu went back from term %" PRIu64 " to %" PRIu64, member, m->term, v->term);
    if (v->commit < m->commit)
        fail(c, "member %zu went back from commit index %" PRIu64 " to %" PRIu64, member, m->commit,
             v->commit);
    if (v->applied < m->applied)
        fail(c, "member %zu went back from applied index %" PRIu64 " to %" PRIu64, member,
             m->applied, v->applied);
}

static void check_bounds(struct cluster_check *c, size_t member, const struct cluster_view *v)
{
    for (size_t i = 0; i < v->bound_count; i++)
        if (v->bounds[i].now > v->bounds[i].max)
            fail(c, "member %zu has %" PRIu64 " %s, and may have %" PRIu64, member,
                 v->bounds[i].now, v->bounds[i].name, v->bounds[i].max);
}

/* One that was cut short is done again. */
static void check_founding(struct cluster_check *c, size_t member)
{
    if (c->members[member].stable > c->founding)
        fail(c, "member %zu had %" PRIu64 " entries durable, and is founded again", member,
             c->members[member].stable);
    if (c->members[member].is_up)
        fail(c, "member %zu had a log in this life, and is founded again", member);
    c->members[member].stable = 0;
}

void cluster_check_turned(struct cluster_check *c, size_t member, const struct cluster_view *v)
{
    struct member *m = &c->members[member];

    assert(member < c->member_count);
    if (v->id == 0) {
        check_founding(c, member);
        return;
    }
    uint64_t base_before = m->is_up ? m->base : 0;
    check_life(c, member, v);
    m->id = v->id;
    check_removed(c, member, v);
    size_t conf_before = m->is_up ? m->conf : 0;
    take_conf(c, member, v);
    if (conf_before == 0)
        conf_before = m->conf;
    check_vote(c, member, v);
    check_leader(c, member, v, conf_before);
    take_log(c, member, v);
    check_base(c, member, v, base_before);
    check_commit(c, member, v, conf_before);
    check_completeness(c, member, v);
    check_applied(c, member, v);
    check_bounds(c, member, v);
    m->is_up = true;
    m->is_leader = v->is_leader;
    m->term = v->term;
    m->vote = v->vote;
    m->lead = v->lead;
    m->commit = v->commit;
    m->applied = v->applied;
}

/* What is not durable is as good as lost; it may turn out not to be. */
void cluster_check_down(struct cluster_check *c, size_t member)
{
    assert(member < c->member_count);
    c->members[member].is_up = false;
}

/* --- progress --- */

void cluster_check_healed(struct cluster_check *c, uint64_t now_ns, uint64_t bound_ns)
{
    c->bound_ns = bound_ns;
    c->waits_since_ns = now_ns;
    c->waits_for = c->committed_max;
}

void cluster_check_time(struct cluster_check *c, uint64_t now_ns)
{
    if (c->committed_max > c->waits_for)
        cluster_check_healed(c, now_ns, c->bound_ns);
    else if (c->bound_ns > 0 && now_ns > c->waits_since_ns + c->bound_ns)
        fail(c,
             "a majority has been well for %" PRIu64
             " ms, and nothing was committed above %" PRIu64,
             (now_ns - c->waits_since_ns) / 1000000, c->committed_max);
}
