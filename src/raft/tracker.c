#include "raft/tracker.h"

#include "base/assert.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* --- the inflight window --- */

static struct inflight *inflight_at(const struct inflights *in, size_t nth)
{
    return &in->ring[(in->start + nth) & (in->cap - 1)]; /* cap is a power of two */
}

static void inflights_grow(struct inflights *in)
{
    size_t cap = in->cap ? in->cap * 2 : 8;
    struct inflight *ring = mem_new_array(cap, struct inflight);

    for (size_t i = 0; i < in->count; i++)
        ring[i] = *inflight_at(in, i);
    mem_free(in->ring);
    in->ring = ring;
    in->cap = cap;
    in->start = 0;
}

void inflights_add(struct inflights *in, uint64_t index, uint64_t bytes)
{
    assert(!inflights_full(in));
    assert(in->count == 0 || inflight_at(in, in->count - 1)->index <= index);

    if (in->count == in->cap)
        inflights_grow(in);
    in->count++;
    *inflight_at(in, in->count - 1) = (struct inflight){index, bytes};
    in->bytes += bytes;
}

void inflights_free_upto(struct inflights *in, uint64_t index)
{
    while (in->count > 0 && in->ring[in->start].index <= index) {
        in->bytes -= in->ring[in->start].bytes;
        in->start = (in->start + 1) & (in->cap - 1);
        in->count--;
    }
}

bool inflights_full(const struct inflights *in)
{
    return in->count >= in->count_max || (in->bytes_max != 0 && in->bytes >= in->bytes_max);
}

void inflights_clear(struct inflights *in)
{
    in->start = 0;
    in->count = 0;
    in->bytes = 0;
}

/* --- one member's progress --- */

/* next is about to be set afresh, so a fetch for the old one is of no use any more. */
static void enter(struct raft_progress *p, enum progress_state state)
{
    p->state = state;
    p->flow_paused = false;
    p->pending_snapshot = 0;
    p->fetch_token = 0;
    inflights_clear(&p->inflights);
}

void progress_become_probe(struct raft_progress *p)
{
    /* A snapshot known to have arrived is as good as a match that far, though not yet confirmed. */
    uint64_t delivered = p->state == PROGRESS_SNAPSHOT ? p->pending_snapshot : 0;

    enter(p, PROGRESS_PROBE);
    p->next = max_u64(p->match, delivered) + 1;
    p->sent_commit = min_u64(p->sent_commit, p->next - 1);
}

void progress_become_replicate(struct raft_progress *p)
{
    enter(p, PROGRESS_REPLICATE);
    p->next = p->match + 1;
}

void progress_become_snapshot(struct raft_progress *p, uint64_t snapshot_index)
{
    enter(p, PROGRESS_SNAPSHOT);
    p->pending_snapshot = snapshot_index;
    p->next = snapshot_index + 1;
    p->sent_commit = snapshot_index;
}

void progress_sent_entries(struct raft_progress *p, size_t count, uint64_t bytes)
{
    assert(p->state != PROGRESS_SNAPSHOT);

    if (p->state == PROGRESS_PROBE) {
        if (count > 0)
            p->flow_paused = true;
        return;
    }
    if (count > 0) {
        p->next += count;
        inflights_add(&p->inflights, p->next - 1, bytes);
    }
    /* With the window full, whatever goes out is a probe: one, then wait for a sign of life. */
    p->flow_paused = inflights_full(&p->inflights);
}

bool progress_can_bump_commit(const struct raft_progress *p, uint64_t commit)
{
    return commit > p->sent_commit && p->sent_commit < p->next - 1;
}

bool progress_maybe_update(struct raft_progress *p, uint64_t index)
{
    if (index <= p->match)
        return false;
    p->match = index;
    p->flow_paused = false;
    if (p->next <= index) {
        p->next = index + 1;
        p->fetch_token = 0;
    }
    return true;
}

bool progress_maybe_decrease(struct raft_progress *p, uint64_t rejected, uint64_t hint)
{
    if (p->state == PROGRESS_REPLICATE) {
        if (rejected <= p->match)
            return false; /* old: it has confirmed more since */
        p->next = p->match + 1;
    } else {
        if (p->next - 1 != rejected)
            return false; /* old: not of the last probe, the only one that is out */
        uint64_t next = max_u64(min_u64(rejected, hint + 1), p->match + 1);
        /* What it denies now it has confirmed before: its disk has lost it, and no other place is
         * left to try. Asking again at once would go on as fast as the network does, each time with
         * a message full of entries; so it waits for a heartbeat. */
        p->flow_paused = next == p->next;
        p->next = next;
    }
    p->sent_commit = min_u64(p->sent_commit, p->next - 1); /* it was hardly applied */
    p->fetch_token = 0;
    return true;
}

bool progress_is_paused(const struct raft_progress *p)
{
    return p->state == PROGRESS_SNAPSHOT || p->flow_paused || p->fetch_token != 0;
}

/* --- all of them --- */

void tracker_free(struct tracker *t)
{
    for (size_t i = 0; i < t->count; i++)
        mem_free(t->members[i].inflights.ring);
    t->count = 0;
}

const struct raft_progress *tracker_peek(const struct tracker *t, uint64_t id)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->members[i].id == id)
            return &t->members[i];
    return NULL;
}

struct raft_progress *tracker_find(struct tracker *t, uint64_t id)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->members[i].id == id)
            return &t->members[i];
    return NULL;
}

bool tracker_is_voter(const struct tracker *t, uint64_t id)
{
    return raft_ids_have(&t->conf.voters, id) || raft_ids_have(&t->conf.voters_outgoing, id);
}

bool tracker_is_joint(const struct tracker *t)
{
    return t->conf.voters_outgoing.count > 0;
}

bool tracker_is_singleton(const struct tracker *t)
{
    return t->conf.voters.count == 1 && !tracker_is_joint(t);
}

static bool acked_match(const void *context, uint64_t id, uint64_t *index)
{
    const struct raft_progress *p = tracker_peek(context, id);

    if (p)
        *index = p->match;
    return p != NULL;
}

uint64_t tracker_committed(const struct tracker *t)
{
    return quorum_joint_committed(&t->conf.voters, &t->conf.voters_outgoing, acked_match, t);
}

static bool acked_reads(const void *context, uint64_t id, uint64_t *index)
{
    const struct raft_progress *p = tracker_peek(context, id);

    if (p)
        *index = p->read_ack;
    return p != NULL;
}

uint64_t tracker_reads_confirmed(const struct tracker *t)
{
    return quorum_joint_committed(&t->conf.voters, &t->conf.voters_outgoing, acked_reads, t);
}

static enum quorum_vote voted_active(const void *context, uint64_t id)
{
    const struct raft_progress *p = tracker_peek(context, id);

    if (!p || p->is_learner)
        return QUORUM_VOTE_MISSING;
    return p->recent_active ? QUORUM_VOTE_YES : QUORUM_VOTE_NO;
}

bool tracker_quorum_active(const struct tracker *t)
{
    return quorum_joint_result(&t->conf.voters, &t->conf.voters_outgoing, voted_active, t) ==
           QUORUM_WON;
}

/* --- votes --- */

void tracker_reset_votes(struct tracker *t)
{
    for (size_t i = 0; i < t->count; i++)
        t->members[i].vote = QUORUM_VOTE_MISSING;
}

/* The first word counts: a message that is repeated, or late, does not take a vote back. */
void tracker_record_vote(struct tracker *t, uint64_t id, bool granted)
{
    struct raft_progress *p = tracker_find(t, id);

    if (p && p->vote == QUORUM_VOTE_MISSING)
        p->vote = granted ? QUORUM_VOTE_YES : QUORUM_VOTE_NO;
}

static enum quorum_vote voted_for_us(const void *context, uint64_t id)
{
    const struct raft_progress *p = tracker_peek(context, id);

    return p ? p->vote : QUORUM_VOTE_MISSING;
}

struct tracker_tally tracker_tally_votes(const struct tracker *t)
{
    struct tracker_tally tally = {0};

    for (size_t i = 0; i < t->count; i++) {
        if (t->members[i].is_learner)
            continue;
        tally.granted += t->members[i].vote == QUORUM_VOTE_YES;
        tally.rejected += t->members[i].vote == QUORUM_VOTE_NO;
    }
    tally.result = quorum_joint_result(&t->conf.voters, &t->conf.voters_outgoing, voted_for_us, t);
    return tally;
}

/* --- invariants --- */

static void check_ids(const struct tracker *t, const struct raft_ids *ids)
{
    assert(ids->count <= RAFT_MEMBERS_MAX);
    for (size_t i = 0; i < ids->count; i++) {
        assert(i == 0 || ids->at[i - 1] < ids->at[i]);
        assert(tracker_peek(t, ids->at[i]));
    }
}

static void check_progress(const struct tracker *t, const struct raft_progress *p)
{
    const struct raft_conf_state *conf = &t->conf;
    bool learner = raft_ids_have(&conf->learners, p->id);

    assert(p->id != RAFT_NONE);
    assert(p->next > p->match);
    assert(learner == p->is_learner);
    assert(learner != tracker_is_voter(t, p->id)); /* exactly one of the two */
    assert((p->state == PROGRESS_SNAPSHOT) == (p->pending_snapshot != 0));
    assert(p->state == PROGRESS_REPLICATE || p->inflights.count == 0);

    uint64_t bytes = 0;
    for (size_t i = 0; i < p->inflights.count; i++) {
        const struct inflight *flight = inflight_at(&p->inflights, i);
        assert(i == 0 || inflight_at(&p->inflights, i - 1)->index <= flight->index);
        assert(flight->index < p->next);
        bytes += flight->bytes;
    }
    assert(bytes == p->inflights.bytes);
}

void tracker_check(const struct tracker *t)
{
    const struct raft_conf_state *conf = &t->conf;

    assert(t->count <= RAFT_MEMBERS_MAX);
    check_ids(t, &conf->voters);
    check_ids(t, &conf->voters_outgoing);
    check_ids(t, &conf->learners);
    check_ids(t, &conf->learners_next);
    for (size_t i = 0; i < conf->learners_next.count; i++)
        assert(raft_ids_have(&conf->voters_outgoing, conf->learners_next.at[i]));
    if (!tracker_is_joint(t)) {
        assert(conf->learners_next.count == 0);
        assert(!conf->auto_leave);
    }
    for (size_t i = 0; i < t->count; i++) {
        assert(i == 0 || t->members[i - 1].id < t->members[i].id);
        check_progress(t, &t->members[i]);
    }
}
