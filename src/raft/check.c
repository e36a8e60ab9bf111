/*
 * What must be true between any two calls, all in one place.
 */
#include "raft/raft_int.h"

static void check_leader(const struct raft *r)
{
    const struct raft_progress *own = tracker_peek(&r->tracker, r->id);

    assert(r->lead == r->id);
    assert(r->term > 0);
    assert(!r->log.snapshot); /* nobody leads without a log */
    assert(r->lead_transferee != r->id);
    assert(!own || own->recent_active);
    for (size_t i = 0; i < r->tracker.count; i++) {
        const struct raft_progress *p = &r->tracker.members[i];
        assert(p->match <= raft_log_last(&r->log));
        assert(p->state == PROGRESS_SNAPSHOT || p->next <= raft_log_last(&r->log) + 1);
        assert(p->fetch_token <= r->fetch_tokens);
        assert(p->read_ack <= r->confirmed_reads + r->unconfirmed.count);
    }
}

static void check_others(const struct raft *r)
{
    assert(r->lead != r->id);
    assert(r->lead_transferee == RAFT_NONE);
    assert(r->unconfirmed.count == 0);
    assert(r->uncommitted_bytes == 0);
    if (r->role == RAFT_CANDIDATE)
        assert(r->vote == r->id);
    if (r->role != RAFT_FOLLOWER)
        assert(r->lead == RAFT_NONE);
    for (size_t i = 0; i < r->tracker.count; i++)
        assert(r->tracker.members[i].fetch_token == 0);
}

static void check_boxes(const struct raft *r)
{
    const struct outbox *box = &r->boxes[r->filling];

    assert(r->log.dropped == &box->blobs);
    for (size_t i = 0; i < box->now_count; i++)
        assert(box->now[i].to != r->id);
    assert(!r->awaiting_advance || !r->config.async_storage_writes);
}

void raft_check(const struct raft *r)
{
    const struct raft_progress *own = tracker_peek(&r->tracker, r->id);

    raft_log_check(&r->log);
    tracker_check(&r->tracker);
    check_boxes(r);
    assert(r->is_learner == (own && own->is_learner));
    assert(r->last_hard.term <= r->term);
    assert(r->last_hard.commit <= r->log.committed);
    assert(r->last_hard.term < r->term || r->last_hard.vote == RAFT_NONE ||
           r->last_hard.vote == r->vote); /* one vote per term */
    if (r->role == RAFT_LEADER)
        check_leader(r);
    else
        check_others(r);
}
