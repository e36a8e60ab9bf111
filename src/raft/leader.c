/*
 * The leader: it appends what is proposed, and turns the answers of the others into commitment.
 */
#include "raft/raft_int.h"

/* --- appending --- */

/* Refused when too much is uncommitted already. Something empty is never refused, and neither is
 * the first thing, however big, or it could never be proposed. */
static bool increase_uncommitted(struct raft *r, uint64_t payload)
{
    uint64_t limit = r->config.max_uncommitted_bytes;
    bool over = payload > limit || r->uncommitted_bytes > limit - payload;

    if (r->uncommitted_bytes > 0 && payload > 0 && over)
        return false;
    r->uncommitted_bytes += payload;
    return true;
}

void raft_reduce_uncommitted(struct raft *r, uint64_t payload)
{
    /* A new leader does not know the size of the tail it found, so this may go below zero. */
    r->uncommitted_bytes -= payload < r->uncommitted_bytes ? payload : r->uncommitted_bytes;
}

/* Numbers the entries and appends them. */
bool raft_append_entries(struct raft *r, struct raft_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        entries[i].term = r->term;
        entries[i].index = raft_log_last(&r->log) + 1 + i;
    }
    if (!increase_uncommitted(r, raft_entries_payload(entries, count))) {
        SAY_WARN(r,
                 ID " appending new entries to log would exceed uncommitted entry size limit; "
                    "dropping proposal",
                 r->id);
        return false;
    }
    raft_log_append(&r->log, entries, count);
    /* The leader's own copy counts once it is durable: then this answer comes back to it. */
    raft_send(r, (struct raft_message){
                     .to = r->id, .type = RAFT_MSG_APP_RESP, .index = raft_log_last(&r->log)});
    return true;
}

/* The one place where the quorum's match becomes commitment. */
bool raft_maybe_commit(struct raft *r)
{
    return raft_log_maybe_commit(&r->log, tracker_committed(&r->tracker), r->term);
}

static enum raft_result handle_proposal(struct raft *r, const struct raft_message *m)
{
    enum { ON_STACK = 64 };
    struct raft_entry few[ON_STACK];

    if (!tracker_find(&r->tracker, r->id))
        return RAFT_PROPOSAL_DROPPED; /* removed, and only leading until someone else does */
    if (r->lead_transferee != RAFT_NONE) {
        SAY_DEBUG(
            r, ID " [term " NUM "] transfer leadership to " ID " is in progress; dropping proposal",
            r->id, r->term, r->lead_transferee);
        return RAFT_PROPOSAL_DROPPED;
    }
    /* A copy: numbers are written into it, and a conf change that is refused is emptied. */
    size_t count = m->entry_count;
    struct raft_entry *entries = count > ON_STACK ? mem_new_array(count, struct raft_entry) : few;
    memcpy(entries, m->entries, count * sizeof(*entries));
    /* If the size is refused, screening has already set pending_conf_index, too high: then the next
     * conf change waits until the log has come there, which takes one entry more. */
    bool accepted =
        raft_screen_conf_changes(r, entries, count) && raft_append_entries(r, entries, count);
    if (entries != few)
        mem_free(entries);
    if (!accepted)
        return RAFT_PROPOSAL_DROPPED;
    raft_broadcast_append(r);
    return RAFT_OK;
}

/* --- answers to appends --- */

/*
 * The follower's log does not match at m->index. It suggests a place (reject_hint) and its term
 * there (log_term). Its terms only fall going down, so wherever our term is above that, the logs
 * cannot match, and we skip to where it is not:
 *
 *     index       1 2 3 4 5 6 7 8 9
 *     leader      1 3 3 3 5 5 5 5 5
 *     follower    1 1 1 1 2 2            refuses 9, hint 6 of term 2; we try 1 next, not 6
 *
 * The follower skips in the same manner over its own terms that are above ours (follower.c), so at
 * most one probe per term is needed, instead of one per entry.
 */
static void handle_append_rejection(struct raft *r, struct raft_progress *p,
                                    const struct raft_message *m)
{
    SAY_DEBUG(r,
              ID " received MsgAppResp(rejected, hint: (index " NUM ", term " NUM ")) from " ID
                 " for index " NUM,
              r->id, m->reject_hint, m->log_term, m->from, m->index);
    uint64_t hint = m->reject_hint;
    if (m->log_term > 0)
        hint = raft_log_find_by_term(&r->log, m->reject_hint, m->log_term).index;
    if (!progress_maybe_decrease(p, m->index, hint))
        return;
    SAY_DEBUG(r, ID " decreased progress of " ID " to [%s]", r->id, m->from,
              raft_text_progress(r, p));
    if (p->state == PROGRESS_REPLICATE)
        progress_become_probe(p);
    raft_send_append(r, p);
}

/* What a confirmed match means for how we talk to the peer. */
static void match_confirmed(struct raft *r, struct raft_progress *p, uint64_t index)
{
    if (p->state == PROGRESS_PROBE) {
        progress_become_replicate(p);
    } else if (p->state == PROGRESS_REPLICATE) {
        inflights_free_upto(&p->inflights, index);
    } else if (p->match + 1 >= raft_log_first(&r->log)) {
        /* Whatever snapshot it got, ours or someone else's: the log can take over from here. */
        SAY_DEBUG(r,
                  ID " recovered from needing snapshot, resumed sending replication messages to " ID
                     " [%s]",
                  r->id, p->id, raft_text_progress(r, p));
        progress_become_probe(p);
        progress_become_replicate(p);
    }
}

static void handle_append_accepted(struct raft *r, struct raft_progress *p,
                                   const struct raft_message *m)
{
    bool peer = p->id != r->id;

    /* Old news still helps a probe: it proves that this is where the logs match. */
    if (!progress_maybe_update(p, m->index) &&
        !(p->match == m->index && p->state == PROGRESS_PROBE))
        return;
    match_confirmed(r, p, m->index);
    /* Commitment before more entries: what goes out below carries the new commit index, of which
     * the peer would otherwise hear with the next heartbeat. */
    if (raft_maybe_commit(r)) {
        raft_reads_release_postponed(r);
        raft_broadcast_append(r);
    } else if (peer && progress_can_bump_commit(p, r->log.committed)) {
        raft_send_append(r, p);
    }
    if (peer) /* the window may have opened by more than one message */
        while (raft_send_more(r, p))
            continue;
    if (p->id == r->lead_transferee && p->match == raft_log_last(&r->log)) {
        SAY_INFO(r, ID " sent MsgTimeoutNow to " ID " after received MsgAppResp", r->id, p->id);
        raft_send_timeout_now(r, p->id);
    }
}

static void handle_append_response(struct raft *r, struct raft_progress *p,
                                   const struct raft_message *m)
{
    /* Nobody has what was never sent. To believe it would commit entries that are nowhere. */
    if (!m->reject && m->index > raft_log_last(&r->log)) {
        SAY_WARN(r, ID " dropped MsgAppResp from " ID ": index " NUM " is beyond the last " NUM,
                 r->id, m->from, m->index, raft_log_last(&r->log));
        return;
    }
    p->recent_active = true;
    if (m->reject)
        handle_append_rejection(r, p, m);
    else
        handle_append_accepted(r, p, m);
}

/* --- everything else --- */

/* Also a follower whose window is full gets an (empty) append now: if all messages in the window
 * were lost, this is how we find out. */
static void handle_heartbeat_response(struct raft *r, struct raft_progress *p,
                                      const struct raft_message *m)
{
    p->recent_active = true;
    p->flow_paused = false;
    if (p->match < raft_log_last(&r->log) || p->state == PROGRESS_PROBE)
        raft_send_append(r, p);
    raft_reads_acked(r, p, m->context);
}

static void handle_transfer_leader(struct raft *r, struct raft_progress *p)
{
    uint64_t to = p->id, previous = r->lead_transferee;

    if (p->is_learner) {
        SAY_DEBUG(r, ID " is learner. Ignored transferring leadership", r->id);
        return;
    }
    if (previous == to) {
        SAY_INFO(r,
                 ID " [term " NUM "] transfer leadership to " ID
                    " is in progress, ignores request to same node " ID,
                 r->id, r->term, to, to);
        return;
    }
    if (previous != RAFT_NONE) {
        raft_abort_leader_transfer(r);
        SAY_INFO(r, ID " [term " NUM "] abort previous transferring leadership to " ID, r->id,
                 r->term, previous);
    }
    if (to == r->id) {
        SAY_DEBUG(r, ID " is already leader. Ignored transferring leadership to self", r->id);
        return;
    }
    SAY_INFO(r, ID " [term " NUM "] starts to transfer leadership to " ID, r->id, r->term, to);
    r->election_elapsed = 0; /* it has one election timeout for it */
    r->lead_transferee = to;
    if (p->match == raft_log_last(&r->log)) {
        raft_send_timeout_now(r, to);
        SAY_INFO(
            r, ID " sends MsgTimeoutNow to " ID " immediately as " ID " already has up-to-date log",
            r->id, to, to);
    } else {
        raft_send_append(r, p); /* its answer brings the message, once it has everything */
    }
}

/* A leader that hears no quorum may already have been replaced. */
void raft_check_quorum(struct raft *r)
{
    if (!tracker_quorum_active(&r->tracker)) {
        SAY_WARN(r, ID " stepped down to follower since quorum is not active", r->id);
        raft_become_follower(r, r->term, RAFT_NONE);
    }
    for (size_t i = 0; i < r->tracker.count; i++)
        if (r->tracker.members[i].id != r->id)
            r->tracker.members[i].recent_active = false;
}

static struct raft_progress *find_peer(struct raft *r, uint64_t id)
{
    struct raft_progress *p = tracker_find(&r->tracker, id);

    if (!p)
        SAY_DEBUG(r, ID " no progress available for " ID, r->id, id);
    return p;
}

enum raft_result raft_step_leader(struct raft *r, const struct raft_message *m)
{
    switch (m->type) {
    case RAFT_MSG_PROP:
        return handle_proposal(r, m);
    case RAFT_MSG_READ_INDEX:
        raft_handle_read_index(r, m);
        return RAFT_OK;
    case RAFT_MSG_FORGET_LEADER:
        return RAFT_OK;
    default:
        break;
    }
    struct raft_progress *p = find_peer(r, m->from);
    if (!p)
        return RAFT_OK;
    switch (m->type) {
    case RAFT_MSG_APP_RESP:
        handle_append_response(r, p, m);
        break;
    case RAFT_MSG_HEARTBEAT_RESP:
        handle_heartbeat_response(r, p, m);
        break;
    case RAFT_MSG_TRANSFER_LEADER:
        handle_transfer_leader(r, p);
        break;
    default:
        break; /* late votes and the like */
    }
    return RAFT_OK;
}

/* --- reports --- */

void raft_report_unreachable(struct raft *r, uint64_t peer)
{
    struct raft_progress *p = r->role == RAFT_LEADER ? find_peer(r, peer) : NULL;

    if (!p)
        return;
    if (p->state == PROGRESS_REPLICATE)
        progress_become_probe(p); /* an append was probably lost */
    SAY_DEBUG(r, ID " failed to send message to " ID " because it is unreachable [%s]", r->id, peer,
              raft_text_progress(r, p));
}

void raft_report_snapshot(struct raft *r, uint64_t peer, bool delivered)
{
    struct raft_progress *p = r->role == RAFT_LEADER ? find_peer(r, peer) : NULL;

    if (!p || p->state != PROGRESS_SNAPSHOT)
        return;
    if (!delivered)
        p->pending_snapshot = 0; /* or we would probe as if it had arrived */
    progress_become_probe(p);
    SAY_DEBUG(r, ID " snapshot %s, resumed sending replication messages to " ID " [%s]", r->id,
              delivered ? "succeeded" : "failed", peer, raft_text_progress(r, p));
    /* If it arrived, its answer comes next; if not, a heartbeat passes before the next try. */
    p->flow_paused = true;
}
