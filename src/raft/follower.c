/*
 * Followers and candidates: what they do with what a leader says, and with what they are asked to
 * pass on to one.
 */
#include "raft/raft_int.h"

/* --- the leader's messages --- */

static void respond_append(struct raft *r, const struct raft_message *m, uint64_t index)
{
    raft_send(r, (struct raft_message){.to = m->from, .type = RAFT_MSG_APP_RESP, .index = index});
}

/* A guess at where the logs may match: below every term of ours that the leader cannot have there.
 * The leader does the same from its side (leader.c). */
static void reject_append(struct raft *r, const struct raft_message *m)
{
    uint64_t last = raft_log_last(&r->log);

    SAY_DEBUG(r,
              ID " [logterm: " NUM ", index: " NUM "] rejected MsgApp [logterm: " NUM
                 ", index: " NUM "] from " ID,
              r->id, raft_log_term_or_zero(&r->log, m->index), m->index, m->log_term, m->index,
              m->from);
    struct raft_log_place hint =
        raft_log_find_by_term(&r->log, m->index < last ? m->index : last, m->log_term);
    raft_send(r, (struct raft_message){.to = m->from,
                                       .type = RAFT_MSG_APP_RESP,
                                       .index = m->index,
                                       .reject = true,
                                       .reject_hint = hint.index,
                                       .log_term = hint.term});
}

static void handle_append(struct raft *r, const struct raft_message *m)
{
    r->heard_commit = m->commit;
    if (m->index < r->log.committed) {
        /* Old, and what is committed is the same everywhere. The answer saves the leader from
         * probing back to there. */
        respond_append(r, m, r->log.committed);
        return;
    }
    if (!raft_log_maybe_append(&r->log, m->index, m->log_term, m->entries, m->entry_count)) {
        reject_append(r, m);
        return;
    }
    /* Only what this message vouches for. Our log may go on behind it, with entries of a leader
     * that was deposed: that index is committed, but not with what we have there. */
    uint64_t last = m->index + m->entry_count;
    raft_log_commit_to(&r->log, m->commit < last ? m->commit : last);
    respond_append(r, m, last);
}

static void handle_heartbeat(struct raft *r, const struct raft_message *m)
{
    if (m->commit > raft_log_last(&r->log)) {
        /* A leader only tells us to commit what we said we have. Either it lies or our disk does;
         * answering would make both look healthy. */
        SAY_ERROR(r,
                  "tocommit(" NUM ") is out of range [lastIndex(" NUM
                  ")]. Was the raft log corrupted, truncated, or lost?",
                  m->commit, raft_log_last(&r->log));
        return;
    }
    raft_log_commit_to(&r->log, m->commit);
    raft_send(r, (struct raft_message){.to = m->from,
                                       .type = RAFT_MSG_HEARTBEAT_RESP,
                                       .context = raft_output_bytes(r, m->context)});
}

static void handle_snapshot(struct raft *r, const struct raft_message *m)
{
    static const struct raft_snapshot none;
    const struct raft_snapshot *s = m->snapshot ? m->snapshot : &none;
    bool restored = raft_restore_snapshot(r, s);

    SAY_INFO(r, ID " [commit: " NUM "] %s snapshot [index: " NUM ", term: " NUM "]", r->id,
             r->log.committed, restored ? "restored" : "ignored", s->index, s->term);
    respond_append(r, m, restored ? raft_log_last(&r->log) : r->log.committed);
}

static void handle_from_leader(struct raft *r, const struct raft_message *m)
{
    if (m->type == RAFT_MSG_APP)
        handle_append(r, m);
    else if (m->type == RAFT_MSG_HEARTBEAT)
        handle_heartbeat(r, m);
    else
        handle_snapshot(r, m);
}

/* --- passing on --- */

/* The message goes to the leader as it is; its sender stays whoever asked first. */
static void forward_to_leader(struct raft *r, const struct raft_message *m)
{
    raft_send(r,
              (struct raft_message){.to = r->lead,
                                    .from = m->from,
                                    .type = m->type,
                                    .entries = raft_output_entries(r, m->entries, m->entry_count),
                                    .entry_count = m->entry_count,
                                    .context = raft_output_bytes(r, m->context)});
}

static bool has_leader_for(struct raft *r, const char *what)
{
    if (r->lead == RAFT_NONE)
        SAY_INFO(r, ID " no leader at term " NUM "; dropping %s", r->id, r->term, what);
    return r->lead != RAFT_NONE;
}

static enum raft_result forward_proposal(struct raft *r, const struct raft_message *m)
{
    if (!has_leader_for(r, "proposal"))
        return RAFT_PROPOSAL_DROPPED;
    if (r->config.disable_proposal_forwarding) {
        SAY_INFO(r, ID " not forwarding to leader " ID " at term " NUM "; dropping proposal", r->id,
                 r->lead, r->term);
        return RAFT_PROPOSAL_DROPPED;
    }
    forward_to_leader(r, m);
    return RAFT_OK;
}

/* --- the two roles --- */

static void forget_leader(struct raft *r)
{
    if (r->config.read_mode == RAFT_READ_LEASE) {
        SAY_ERROR(r, "ignoring MsgForgetLeader due to ReadOnlyLeaseBased");
    } else if (r->lead != RAFT_NONE) {
        SAY_INFO(r, ID " forgetting leader " ID " at term " NUM, r->id, r->lead, r->term);
        r->lead = RAFT_NONE;
    }
}

static void handle_read_index_response(struct raft *r, const struct raft_message *m)
{
    if (m->entry_count != 1) {
        SAY_ERROR(r, ID " invalid format of MsgReadIndexResp from " ID ", entries count: %zu",
                  r->id, m->from, m->entry_count);
        return;
    }
    raft_output_read_state(r, m->index, &m->entries[0]);
}

enum raft_result raft_step_follower(struct raft *r, const struct raft_message *m)
{
    switch (m->type) {
    case RAFT_MSG_PROP:
        return forward_proposal(r, m);
    case RAFT_MSG_APP:
    case RAFT_MSG_HEARTBEAT:
    case RAFT_MSG_SNAP:
        r->election_elapsed = 0;
        r->lead = m->from;
        handle_from_leader(r, m);
        break;
    case RAFT_MSG_TRANSFER_LEADER:
        if (has_leader_for(r, "leader transfer msg"))
            forward_to_leader(r, m);
        break;
    case RAFT_MSG_READ_INDEX:
        if (has_leader_for(r, "index reading msg"))
            forward_to_leader(r, m);
        break;
    case RAFT_MSG_READ_INDEX_RESP:
        handle_read_index_response(r, m);
        break;
    case RAFT_MSG_FORGET_LEADER:
        forget_leader(r);
        break;
    case RAFT_MSG_TIMEOUT_NOW:
        SAY_INFO(r,
                 ID " [term " NUM "] received MsgTimeoutNow from " ID
                    " and starts an election to get leadership.",
                 r->id, r->term, m->from);
        raft_hup(r, CAMPAIGN_TRANSFER);
        break;
    default:
        break;
    }
    return RAFT_OK;
}

/* Shared by candidates and pre-candidates, who count different answers: late answers to the
 * question of before do not count as votes. */
enum raft_result raft_step_candidate(struct raft *r, const struct raft_message *m)
{
    enum raft_message_type counted =
        r->role == RAFT_PRE_CANDIDATE ? RAFT_MSG_PRE_VOTE_RESP : RAFT_MSG_VOTE_RESP;

    switch (m->type) {
    case RAFT_MSG_PROP:
        SAY_INFO(r, ID " no leader at term " NUM "; dropping proposal", r->id, r->term);
        return RAFT_PROPOSAL_DROPPED;
    case RAFT_MSG_APP:
    case RAFT_MSG_HEARTBEAT:
    case RAFT_MSG_SNAP:
        raft_become_follower(r, m->term, m->from); /* someone else has won this term */
        handle_from_leader(r, m);
        break;
    case RAFT_MSG_VOTE_RESP:
    case RAFT_MSG_PRE_VOTE_RESP:
        if (m->type == counted)
            raft_handle_vote_response(r, m);
        break;
    case RAFT_MSG_TIMEOUT_NOW:
        SAY_DEBUG(r, ID " [term " NUM " state %s] ignored MsgTimeoutNow from " ID, r->id, r->term,
                  raft_role_text(r->role), m->from);
        break;
    default:
        break;
    }
    return RAFT_OK;
}
