/*
 * Elections: the thesis, chapter 3.4, with pre-vote (9.6) and leases (6.4.1).
 *
 *     timeout --> pre-candidate: "would you vote for me at term+1?" --quorum--> candidate: term+1,
 *     own vote, "vote for me" --quorum--> leader. A transfer skips the question, as the old leader
 *     itself asked for the election.
 */
#include "raft/raft_int.h"

static const struct bytes transfer_context = BYTES("CampaignTransfer");

/* A member that waits for a snapshot to be installed has no log to lead with. */
bool raft_promotable(const struct raft *r)
{
    const struct raft_progress *own = tracker_peek(&r->tracker, r->id);

    return own && !own->is_learner && !r->log.snapshot;
}

/* The own vote is an answer to oneself, sent like any other only after it is durable. */
static void request_vote(struct raft *r, uint64_t voter, enum raft_campaign kind, uint64_t term)
{
    bool pre = kind == CAMPAIGN_PRE_ELECTION;

    if (voter == r->id) {
        raft_send(r,
                  (struct raft_message){.to = voter,
                                        .term = term,
                                        .type = pre ? RAFT_MSG_PRE_VOTE_RESP : RAFT_MSG_VOTE_RESP});
        return;
    }
    enum raft_message_type type = pre ? RAFT_MSG_PRE_VOTE : RAFT_MSG_VOTE;
    SAY_INFO(r, ID " [logterm: " NUM ", index: " NUM "] sent %s request to " ID " at term " NUM,
             r->id, raft_log_last_term(&r->log), raft_log_last(&r->log),
             raft_message_type_text(type), voter, r->term);
    raft_send(r, (struct raft_message){.to = voter,
                                       .term = term,
                                       .type = type,
                                       .index = raft_log_last(&r->log),
                                       .log_term = raft_log_last_term(&r->log),
                                       .context = kind == CAMPAIGN_TRANSFER ? transfer_context
                                                                            : bytes_of(NULL, 0)});
}

static void campaign(struct raft *r, enum raft_campaign kind)
{
    if (kind == CAMPAIGN_PRE_ELECTION)
        raft_become_pre_candidate(r);
    else
        raft_become_candidate(r);
    uint64_t term = kind == CAMPAIGN_PRE_ELECTION ? r->term + 1 : r->term;
    struct raft_voters voters =
        raft_voters_of(&r->tracker.conf.voters, &r->tracker.conf.voters_outgoing);
    for (size_t i = 0; i < voters.count; i++)
        request_vote(r, voters.at[i], kind, term);
}

/* An unapplied conf change may already have removed this member, or may change who is a quorum. */
void raft_hup(struct raft *r, enum raft_campaign kind)
{
    if (r->role == RAFT_LEADER) {
        SAY_DEBUG(r, ID " ignoring MsgHup because already leader", r->id);
        return;
    }
    if (!raft_promotable(r)) {
        SAY_WARN(r, ID " is unpromotable and can not campaign", r->id);
        return;
    }
    if (raft_log_has_unapplied_conf_change(&r->log)) {
        SAY_WARN(r,
                 ID " cannot campaign at term " NUM
                    " since there are still pending configuration changes to apply",
                 r->id, r->term);
        return;
    }
    SAY_INFO(r, ID " is starting a new election at term " NUM, r->id, r->term);
    campaign(r, kind);
}

/* --- voting --- */

/* What everybody's line about a vote request begins with: who we are, and how far our log goes. */
#define OURSELVES          ID " [logterm: " NUM ", index: " NUM ", vote: " ID "]"
#define OURSELVES_OF(r)    (r)->id, raft_log_last_term(&(r)->log), raft_log_last(&(r)->log), (r)->vote
#define CANDIDATE          ID " [logterm: " NUM ", index: " NUM "] at term " NUM
#define CANDIDATE_OF(r, m) (m)->from, (m)->log_term, (m)->index, (r)->term

/*
 * Having heard from a leader within the election timeout, nobody helps to depose it, nor learns of
 * the candidate's term. That keeps a removed or badly connected member from disturbing the rest,
 * and it is what makes a lease a lease. A transfer is the leader's own wish.
 */
bool raft_ignores_vote(struct raft *r, const struct raft_message *m)
{
    bool in_lease = r->config.check_quorum && r->lead != RAFT_NONE &&
                    r->election_elapsed < r->config.election_ticks;

    if (!in_lease || bytes_equal(m->context, transfer_context))
        return false;
    SAY_INFO(r,
             OURSELVES " ignored %s from " CANDIDATE ": lease is not expired (remaining ticks: %u)",
             OURSELVES_OF(r), raft_message_type_text(m->type), CANDIDATE_OF(r, m),
             r->config.election_ticks - r->election_elapsed);
    return true;
}

/*
 * One vote per term, and none for a log that lacks something ours has. A learner votes like anyone:
 * it may have been promoted without knowing, and whoever asks believes it was.
 */
static bool may_vote_for(const struct raft *r, const struct raft_message *m)
{
    /* The same one again: our answer may have been lost. And in a term that has its leader, even
     * one we did not vote for, there is nothing left to decide. */
    bool free_to_vote = r->vote == m->from || (r->vote == RAFT_NONE && r->lead == RAFT_NONE) ||
                        (m->type == RAFT_MSG_PRE_VOTE && m->term > r->term);

    return free_to_vote && raft_log_is_up_to_date(&r->log, m->index, m->log_term);
}

static enum raft_message_type vote_response_type(enum raft_message_type request)
{
    return request == RAFT_MSG_VOTE ? RAFT_MSG_VOTE_RESP : RAFT_MSG_PRE_VOTE_RESP;
}

static void reject_vote(struct raft *r, const struct raft_message *m)
{
    SAY_INFO(r, OURSELVES " rejected %s from " CANDIDATE, OURSELVES_OF(r),
             raft_message_type_text(m->type), CANDIDATE_OF(r, m));
    raft_send(r, (struct raft_message){.to = m->from,
                                       .term = r->term,
                                       .type = vote_response_type(m->type),
                                       .reject = true});
}

void raft_handle_vote(struct raft *r, const struct raft_message *m)
{
    if (!may_vote_for(r, m)) {
        reject_vote(r, m);
        return;
    }
    SAY_INFO(r, OURSELVES " cast %s for " CANDIDATE, OURSELVES_OF(r),
             raft_message_type_text(m->type), CANDIDATE_OF(r, m));
    /* The term is the one asked about: a pre-candidate may be ahead of us and would ignore ours. */
    raft_send(r, (struct raft_message){
                     .to = m->from, .term = m->term, .type = vote_response_type(m->type)});
    /* Only a vote binds. A pre-vote goes to whoever could win, to several even; it is not kept, and
     * does not put off our own election, or the asking alone could hold up everybody. */
    if (m->type == RAFT_MSG_VOTE) {
        r->election_elapsed = 0;
        r->vote = m->from;
    }
}

/* Staying silent could leave a cluster that has just switched pre-vote on without a leader: a
 * member with a shorter log but a higher term must learn that it is behind. */
void raft_reject_old_pre_vote(struct raft *r, const struct raft_message *m)
{
    reject_vote(r, m);
}

/* --- counting --- */

void raft_handle_vote_response(struct raft *r, const struct raft_message *m)
{
    SAY_INFO(r, ID " received %s%s from " ID " at term " NUM, r->id,
             raft_message_type_text(m->type), m->reject ? " rejection" : "", m->from, r->term);
    tracker_record_vote(&r->tracker, m->from, !m->reject);
    struct tracker_tally tally = tracker_tally_votes(&r->tracker);
    SAY_INFO(r, ID " has received %zu %s votes and %zu vote rejections", r->id, tally.granted,
             raft_message_type_text(m->type), tally.rejected);
    if (tally.result == QUORUM_LOST) {
        raft_become_follower(r, r->term, RAFT_NONE);
    } else if (tally.result == QUORUM_WON && r->role == RAFT_PRE_CANDIDATE) {
        campaign(r, CAMPAIGN_ELECTION);
    } else if (tally.result == QUORUM_WON) {
        raft_become_leader(r);
        raft_broadcast_append(r);
    }
}
