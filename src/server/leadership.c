/* Who leads, as this member sees it and has a say in it. */
#include "api/api.h"
#include "apply/apply.h"
#include "cluster/cluster.h"
#include "config/config.h"
#include "lease/lease.h"
#include "raft/quorum.h"
#include "raft/raft.h"
#include "raft/tracker.h"
#include "server/server_int.h"

#include <inttypes.h>
#include <stdio.h>

/* --- noticing --- */

/* In the words of etcd's raft, which tools look for. */
static void say_who_leads(struct server *s, uint64_t leader)
{
    uint64_t self = s->facts.member_id, before = s->facts.leader;
    uint64_t term = raft_status(s->raft).hard_state.term;
    char text[160];

    if (before == 0)
        snprintf(text, sizeof(text),
                 "raft.node: %" PRIx64 " elected leader %" PRIx64 " at term %" PRIu64, self, leader,
                 term);
    else if (leader == 0)
        snprintf(text, sizeof(text),
                 "raft.node: %" PRIx64 " lost leader %" PRIx64 " at term %" PRIu64, self, before,
                 term);
    else
        snprintf(text, sizeof(text),
                 "raft.node: %" PRIx64 " changed leader from %" PRIx64 " to %" PRIx64
                 " at term %" PRIu64,
                 self, before, leader, term);
    log_info(&s->raft_logger, text);
}

void leadership_changed(struct server *s, const struct raft_soft_state *now)
{
    bool led = s->facts.is_leader;

    if (now->lead != s->facts.leader) {
        say_who_leads(s, now->lead);
        if (s->facts.leader != 0)
            pending_leader_lost(&s->pending);
        s->metrics->leader_changes += now->lead != RAFT_NONE;
        if (now->lead == s->facts.member_id)
            s->lead_elected_ms = s->facts.now_ms;
    }
    s->facts.leader = now->lead;
    s->facts.is_leader = now->role == RAFT_LEADER;
    if (led && !s->facts.is_leader) {
        lease_demote(s->state.leases);
        s->install.lead_at = 0; /* what stood there may be replaced; its next first entry counts */
    }
}

/* --- beginning --- */

static bool is_lone_voter(const struct server *s)
{
    const struct raft_conf_state *c = &s->conf_state;

    return c->voters.count == 1 && c->voters.at[0] == s->facts.member_id &&
           c->voters_outgoing.count == 0;
}

/*
 * The only voter need not wait to see whether somebody else leads: not at its start, nor when the
 * others have been removed. While committed entries are not applied it waits: one of them may bring
 * other voters, and while a cluster is founded each member is the only one for a moment. Without
 * --initial-election-tick-advance it waits as anybody does.
 */
void leadership_campaign_alone(struct server *s)
{
    struct raft_status now = raft_status(s->raft);

    if (!s->config->initial_tick_advance || !is_lone_voter(s) || now.soft_state.lead != RAFT_NONE ||
        now.soft_state.role != RAFT_FOLLOWER || now.applied < now.hard_state.commit)
        return;
    enum raft_result result = raft_campaign(s->raft);
    assert(result == RAFT_OK);
}

/*
 * Whoever has just started waits for a whole election timeout to hear from a leader. Once the
 * others are connected it would have heard by now, so most of that time is skipped; as in etcd,
 * within the first seconds, and where there are at least two others.
 */
static void skip_ticks(struct server *s)
{
    uint64_t ticks = s->config->election_ms / s->config->heartbeat_ms;

    if (s->facts.now_ms >= s->skip_ticks_until_ms || s->facts.leader != RAFT_NONE ||
        peering_active_count(&s->peering, &s->conf_state.voters) <= 1)
        return;
    s->skip_ticks_until_ms = 0;
    log_info(s->logger, "initialized peer connections; fast-forwarding election ticks",
             LOG_ID("local-member-id", s->facts.member_id), LOG_U64("forward-ticks", ticks - 2));
    for (uint64_t i = 2; i < ticks; i++)
        raft_tick(s->raft);
}

/* --- leases --- */

void leadership_start_leases(struct server *s)
{
    s->lease_term = raft_status(s->raft).hard_state.term;
    lease_promote(s->state.leases, s->facts.now_ms, s->config->election_ms);
    housekeeping_leases_started(&s->housekeeping);
}

/* A leader may be deposed and elected again within one turn: the set is primary then, of a term
 * that is over. */
static bool counts_time(const struct server *s, uint64_t term)
{
    return lease_is_primary(s->state.leases) && s->lease_term == term;
}

/*
 * A new leader knows no lease's age: all leases start afresh when the empty entry that begins its
 * term is applied. Revokes and checkpoints that earlier leaders have put into the log are applied
 * by then. A leader that has installed a state waits likewise for all that it had proposed before
 * (install.lead_at), whatever empty entries come earlier.
 *
 * Leases start only once in a term. Raft also writes an empty entry in place of a conf change that
 * comes while another is not applied. The revoke of an expired lease may stand behind that entry:
 * if all leases started afresh there, a client could renew a lease that this revoke ends a moment
 * later; a checkpoint under way would be forgotten, which a renewal has to clear; and a client that
 * may change members could keep every lease alive for ever.
 */
void leadership_applied(struct server *s, const struct apply_effects *e)
{
    uint64_t lead_at = s->install.lead_at;

    if (e->index < lead_at || (!e->no_op && e->index != lead_at))
        return;
    struct raft_status now = raft_status(s->raft);
    if (now.soft_state.role == RAFT_LEADER && e->term == now.hard_state.term &&
        !counts_time(s, e->term))
        leadership_start_leases(s);
}

/* --- handing over --- */

/* All other voters, or those that have what is committed. That they were heard of since the last
 * check of the quorum must not be asked: a transfer is given up at that very tick, and nobody was.
 */
static struct raft_ids other_voters(const struct server *s, bool that_keep_up)
{
    struct raft_ids others = {0};
    const struct raft_progress *p;

    for (size_t i = 0; (p = raft_progress_at(s->raft, i)); i++)
        if (p->id != s->facts.member_id && raft_ids_have(&s->conf_state.voters, p->id) &&
            (!that_keep_up || p->match >= s->facts.committed_index))
            others.at[others.count++] = p->id;
    return others;
}

/* To the one of them that has been connected for the longest. False if there is none. */
static bool hand_over(struct server *s, struct raft_ids others)
{
    uint64_t to = peers_longest_connected(s->peering.peers, others.at, others.count);
    if (to == RAFT_NONE)
        return false;
    log_info(s->logger, "leadership transfer starting",
             LOG_ID("local-member-id", s->facts.member_id), LOG_ID("transferee-member-id", to));
    raft_transfer_leader(s->raft, to);
    return true;
}

/* If it leads no more, it has changed its mind in the turn in which it was asked; whoever asked
 * sees who leads. */
void leadership_move(struct server *s, uint64_t to)
{
    if (raft_status(s->raft).soft_state.role != RAFT_LEADER)
        return;
    log_info(
        s->logger, "leadership transfer starting", LOG_ID("local-member-id", s->facts.member_id),
        LOG_ID("current-leader-member-id", s->facts.leader), LOG_ID("transferee-member-id", to));
    raft_transfer_leader(s->raft, to);
}

void leadership_resign(struct server *s)
{
    if (!s->facts.is_leader)
        log_info(s->logger, "skipped leadership transfer; local server is not leader",
                 LOG_ID("local-member-id", s->facts.member_id),
                 LOG_ID("current-leader-member-id", s->facts.leader));
    else if (s->conf_state.voters.count <= 1)
        log_info(s->logger, "skipped leadership transfer for single voting member cluster",
                 LOG_ID("local-member-id", s->facts.member_id));
    else if (!hand_over(s, other_voters(s, false)))
        log_warn(s->logger, "leadership transfer failed; no other voter is connected",
                 LOG_ID("local-member-id", s->facts.member_id));
}

/*
 * A leader that was removed hands over at once, or the others would notice only after an election
 * timeout that nobody leads. They listen to it for a moment longer (peering.h), but do not believe
 * in it any more: what clients propose waits for the next leader, since one that hands over, or has
 * gone, loses it.
 */
void leadership_member_removed(struct server *s, uint64_t id)
{
    enum raft_result result = RAFT_OK;

    if (id == RAFT_NONE || id != s->facts.leader)
        return;
    if (s->facts.is_leader)
        leadership_resign(s);
    else
        result = raft_forget_leader(s->raft);
    assert(result == RAFT_OK);
}

/* Raft itself gives it up after an election timeout. */
bool leadership_is_resigning(const struct server *s)
{
    return s->facts.is_leader && raft_status(s->raft).lead_transferee != RAFT_NONE;
}

/*
 * Since when something waits for the log, and nothing was written: what came while a write was
 * under way waits for the rest of that one, too, and a disk that is slow is not one that does
 * nothing.
 */
static uint64_t stalled_since_ms(const struct server *s)
{
    uint64_t since_ms = storage_work_oldest_append_ms(&s->work);

    return since_ms > s->durable_ms ? since_ms : s->durable_ms;
}

/*
 * A leader whose disk does not answer still sends heartbeats, so nobody else would ever campaign;
 * and with a quorum of others it even commits, but it applies and answers nothing. Whoever is
 * handed over to may be no better off, and while it is tried nothing can be proposed: hence the
 * pause.
 */
static void resign_if_stalled(struct server *s)
{
    uint64_t since_ms = stalled_since_ms(s);

    if (!s->facts.is_leader || s->conf_state.voters.count <= 1 || since_ms == UINT64_MAX ||
        s->facts.disk_is_full || s->facts.now_ms - since_ms <= s->config->election_ms ||
        leadership_is_resigning(s) || s->facts.now_ms < s->resign_ms)
        return;
    s->resign_ms = s->facts.now_ms + 3 * s->config->election_ms;
    log_warn(s->logger, "the log is not written in time; handing leadership over",
             LOG_ID("local-member-id", s->facts.member_id),
             LOG_U64("outstanding-ms", s->facts.now_ms - since_ms));
    /* One that is behind is brought up first, and for a snapshot our disk is needed. */
    if (!hand_over(s, other_voters(s, true)) && !hand_over(s, other_voters(s, false)))
        log_warn(s->logger, "no other voter is connected");
}

/*
 * A leader with a full disk takes no proposals, and there may be others with space. One that is
 * full itself does not keep up, unless nothing is written at all: then leadership may go round
 * among those that are full, hence the pause.
 */
static void resign_if_full(struct server *s)
{
    struct raft_ids others;

    if (!s->facts.disk_is_full || !s->facts.is_leader || leadership_is_resigning(s) ||
        s->facts.now_ms < s->space.resign_ms)
        return;
    others = other_voters(s, true);
    if (hand_over(s, others))
        s->space.resign_ms = s->facts.now_ms + SPACE_RESIGN_MS;
}

void leadership_tick(struct server *s)
{
    skip_ticks(s);
    resign_if_stalled(s);
    resign_if_full(s);
}

/* --- giving up --- */

/* Of all members, learners too, as etcd counts here. */
static bool is_connected_to_quorum_since(const struct server *s, uint64_t since_ms)
{
    size_t count, connected = 0;
    const struct pb_member *members = cluster_members(s->state.cluster, &count);

    for (size_t i = 0; i < count; i++)
        connected += members[i].id == s->facts.member_id ||
                     peering_is_connected_since(&s->peering, members[i].id, since_ms);
    return connected > count / 2;
}

/*
 * Of a proposal etcd says what the reason may have been. That the leader before has failed is known
 * to the new one alone: a follower says no more than that time is up, or that it has lost the
 * leader's connection.
 */
enum result leadership_timeout(const struct server *s, const struct api_call *c)
{
    uint64_t began_ms = c->started_ms, elected_ms = s->lead_elected_ms;
    bool is_proposal = c->id != 0 || c->request;

    if (!is_proposal)
        return RESULT_TIMEOUT;
    if (began_ms < elected_ms && began_ms + 2 * s->config->election_ms > elected_ms)
        return RESULT_TIMEOUT_LEADER_FAIL;
    if (s->facts.leader == RAFT_NONE)
        return RESULT_TIMEOUT;
    bool is_connected = s->facts.is_leader
                            ? is_connected_to_quorum_since(s, began_ms)
                            : peering_is_connected_since(&s->peering, s->facts.leader, began_ms);
    return is_connected ? RESULT_TIMEOUT : RESULT_TIMEOUT_CONNECTION_LOST;
}
