#include "raft/raft_int.h"

/* --- life --- */

const char *raft_config_problem(const struct raft_config *c)
{
    if (c->id == RAFT_NONE)
        return "cannot use none as id";
    if (c->id == RAFT_APPEND_THREAD || c->id == RAFT_APPLY_THREAD)
        return "cannot use local target as id";
    if (c->heartbeat_ticks == 0)
        return "heartbeat tick must be greater than 0";
    if (c->election_ticks <= c->heartbeat_ticks)
        return "election tick must be greater than heartbeat tick";
    if (c->max_inflight_messages == 0)
        return "max inflight messages must be greater than 0";
    if (c->max_inflight_bytes != 0 && c->max_inflight_bytes < c->max_message_bytes)
        return "max inflight bytes must be >= max message size";
    if (c->read_mode == RAFT_READ_LEASE && !c->check_quorum)
        return "CheckQuorum must be enabled when ReadOnlyOption is ReadOnlyLeaseBased";
    return NULL;
}

static void fill_in_defaults(struct raft_config *c)
{
    if (c->max_uncommitted_bytes == 0)
        c->max_uncommitted_bytes = RAFT_NO_LIMIT;
    if (c->max_applying_bytes == 0)
        c->max_applying_bytes = c->max_message_bytes ? c->max_message_bytes : 1;
    if (c->max_inflight_bytes == 0)
        c->max_inflight_bytes = RAFT_NO_LIMIT;
}

/* What this member has promised before it was restarted. Forgetting its term or vote would let it
 * vote twice in a term. */
static void load_hard_state(struct raft *r, const struct raft_hard_state *state)
{
    if (state->term == 0 && state->vote == RAFT_NONE && state->commit == 0)
        return; /* never written */
    assert(state->commit >= r->log.committed);
    assert(state->commit <= raft_log_last(&r->log));

    r->term = state->term;
    r->vote = state->vote;
    r->log.committed = state->commit;
}

static const char *text_peers(struct raft *r)
{
    struct raft_voters voters =
        raft_voters_of(&r->tracker.conf.voters, &r->tracker.conf.voters_outgoing);
    const char *text = "";

    for (size_t i = 0; i < voters.count; i++)
        text = arena_printf(&r->text, "%s%s" ID, text, i ? "," : "", voters.at[i]);
    return text;
}

struct raft *raft_open(const struct raft_config *config, const struct raft_boot *boot)
{
    assert(raft_config_problem(config) == NULL);
    struct raft *r = mem_new(struct raft);

    r->config = *config;
    fill_in_defaults(&r->config);
    r->id = config->id;
    r->logger = (struct raft_logger){config->log, config->log_context, config->log_level};
    r->tracker.max_inflight_messages = r->config.max_inflight_messages;
    r->tracker.max_inflight_bytes = r->config.max_inflight_bytes;
    raft_log_open(&r->log, boot, r->config.max_applying_bytes, &r->logger, &r->boxes[0].blobs);

    struct tracker restored;
    const char *problem =
        confchange_restore(&r->tracker, raft_log_last(&r->log), &boot->conf_state, &restored);
    assert(problem == NULL);
    raft_switch_configuration(r, &restored);
    /* In this order: the commit index must lie in the log, and what is applied below the commit. */
    load_hard_state(r, &boot->hard_state);
    if (boot->applied > 0)
        raft_log_applied_to(&r->log, boot->applied);
    raft_become_follower(r, r->term, RAFT_NONE);
    SAY_INFO(r,
             "newRaft " ID " [peers: [%s], term: " NUM ", commit: " NUM ", applied: " NUM
             ", lastindex: " NUM ", lastterm: " NUM "]",
             r->id, text_peers(r), r->term, r->log.committed, r->log.applied,
             raft_log_last(&r->log), raft_log_last_term(&r->log));
    r->last_soft = (struct raft_soft_state){r->lead, r->role};
    r->last_hard = raft_hard_state(r);
    raft_check(r);
    return r;
}

void raft_close(struct raft *r)
{
    if (!r)
        return;
    raft_set_snapshot(r, NULL);
    raft_reads_free(r);
    raft_log_close(&r->log);
    tracker_free(&r->tracker);
    raft_outboxes_free(r);
    arena_free(&r->text);
    mem_free(r);
}

/*
 * All founders make the same entries by themselves, so that the configuration is in the log from
 * its first index on. They count at once, since nobody could vote before they did, and once more
 * when the application sees them committed, which changes nothing.
 */
void raft_bootstrap(struct raft *r, const struct raft_founder *founders, size_t count)
{
    assert(count > 0);
    assert(raft_log_last(&r->log) == 0);

    r->last_hard = (struct raft_hard_state){0};
    raft_become_follower(r, 1, RAFT_NONE);
    for (size_t i = 0; i < count; i++) {
        struct raft_conf_change add = {
            .type = RAFT_ADD_NODE, .node_id = founders[i].id, .context = founders[i].context};
        struct buf data = {0};
        raft_conf_change_encode(&add, &data);
        struct raft_entry entry = {
            .term = 1, .index = i + 1, .type = RAFT_ENTRY_CONF_CHANGE, .data = buf_bytes(&data)};
        raft_log_append(&r->log, &entry, 1);
        buf_free(&data);
    }
    raft_log_commit_to(&r->log, count);
    for (size_t i = 0; i < count; i++) {
        struct raft_conf_change add = {.type = RAFT_ADD_NODE, .node_id = founders[i].id};
        struct raft_conf_change_v2 as_v2 = raft_conf_change_as_v2(&add);
        enum raft_result result = raft_apply_conf_change(r, &as_v2, NULL);
        assert(result == RAFT_OK);
    }
}

/* They count when they are applied, like any other. Until then nobody campaigns, since a committed
 * conf change is not applied. */
void raft_force_conf_changes(struct raft *r, const struct raft_conf_change *changes, size_t count)
{
    assert(r->role == RAFT_FOLLOWER && r->lead == RAFT_NONE);
    assert(r->log.committed == raft_log_last(&r->log));

    for (size_t i = 0; i < count; i++) {
        struct buf data = {0};
        raft_conf_change_encode(&changes[i], &data);
        struct raft_entry entry = {.term = r->term,
                                   .index = raft_log_last(&r->log) + 1,
                                   .type = RAFT_ENTRY_CONF_CHANGE,
                                   .data = buf_bytes(&data)};
        raft_log_append(&r->log, &entry, 1);
        buf_free(&data);
    }
    raft_log_commit_to(&r->log, raft_log_last(&r->log));
}

/* --- roles --- */

static void reset_randomized_election_timeout(struct raft *r)
{
    r->randomized_election_timeout =
        r->config.election_ticks + (unsigned)rng_below(&r->config.rng, r->config.election_ticks);
}

void raft_set_randomized_election_timeout(struct raft *r, unsigned ticks)
{
    r->randomized_election_timeout = ticks;
}

void raft_abort_leader_transfer(struct raft *r)
{
    r->lead_transferee = RAFT_NONE;
}

/* Our own log counts to its end, as if all of it were durable. For a leader it is: votes were asked
 * for, and the own one given, when everything that stood here then was written. */
static void reset_progress(struct raft *r, struct raft_progress *p)
{
    struct inflights window = p->inflights;

    inflights_clear(&window);
    *p = (struct raft_progress){
        .id = p->id,
        .is_learner = p->is_learner,
        .match = p->id == r->id ? raft_log_last(&r->log) : 0,
        .next = raft_log_last(&r->log) + 1,
        .inflights = window,
    };
}

/* A new chapter: whatever belonged to the old role or term is forgotten. */
static void reset(struct raft *r, uint64_t term)
{
    /* Within its term a vote stays given: who loses an election and follows votes for no other. */
    if (r->term != term) {
        r->term = term;
        r->vote = RAFT_NONE;
    }
    r->lead = RAFT_NONE;
    r->election_elapsed = 0;
    r->heartbeat_elapsed = 0;
    reset_randomized_election_timeout(r);
    raft_abort_leader_transfer(r);
    for (size_t i = 0; i < r->tracker.count; i++)
        reset_progress(r, &r->tracker.members[i]);
    r->pending_conf_index = 0;
    r->uncommitted_bytes = 0;
    raft_reads_reset(r);
}

void raft_become_follower(struct raft *r, uint64_t term, uint64_t lead)
{
    reset(r, term);
    r->lead = lead;
    r->role = RAFT_FOLLOWER;
    SAY_INFO(r, ID " became follower at term " NUM, r->id, r->term);
}

/* Only a question to the others: neither term nor vote change, so nothing is lost if they refuse.
 */
void raft_become_pre_candidate(struct raft *r)
{
    assert(r->role != RAFT_LEADER);

    tracker_reset_votes(&r->tracker);
    r->lead = RAFT_NONE;
    r->role = RAFT_PRE_CANDIDATE;
    SAY_INFO(r, ID " became pre-candidate at term " NUM, r->id, r->term);
}

void raft_become_candidate(struct raft *r)
{
    assert(r->role != RAFT_LEADER);

    reset(r, r->term + 1);
    r->vote = r->id;
    r->role = RAFT_CANDIDATE;
    SAY_INFO(r, ID " became candidate at term " NUM, r->id, r->term);
}

void raft_become_leader(struct raft *r)
{
    assert(r->role == RAFT_CANDIDATE);

    reset(r, r->term);
    r->lead = r->id;
    r->role = RAFT_LEADER;
    struct raft_progress *own = tracker_find(&r->tracker, r->id);
    assert(own); /* it was promotable, and applies nothing while it is a candidate */
    progress_become_replicate(own);
    own->recent_active = true;
    /*
     * There may be a conf change somewhere in the uncommitted tail. Looking for it could be
     * expensive; waiting until all of the tail is applied is always right.
     */
    r->pending_conf_index = raft_log_last(&r->log);
    /* An entry of the own term, since nothing older can be committed without one. */
    struct raft_entry empty = {.type = RAFT_ENTRY_NORMAL};
    bool accepted = raft_append_entries(r, &empty, 1);
    assert(accepted);
    SAY_INFO(r, ID " became leader at term " NUM, r->id, r->term);
}

/* --- time --- */

/* A leader asks for signs of life every election timeout, and sends its own more often. */
static void tick_leader(struct raft *r)
{
    r->heartbeat_elapsed++;
    r->election_elapsed++;
    if (r->election_elapsed >= r->config.election_ticks) {
        r->election_elapsed = 0;
        if (r->config.check_quorum)
            raft_check_quorum(r);
        raft_abort_leader_transfer(r); /* it had its time; back to work */
    }
    if (r->role != RAFT_LEADER) /* no quorum was heard of: it leads no more */
        return;
    if (r->heartbeat_elapsed >= r->config.heartbeat_ticks) {
        r->heartbeat_elapsed = 0;
        raft_broadcast_heartbeat(r);
    }
}

/* Nothing is won without the own vote, and to begin anew would only give the disk another one to
 * write: where it is slow, for ever. */
static bool awaits_own_vote(const struct raft *r)
{
    const struct raft_progress *own = tracker_peek(&r->tracker, r->id);

    return r->role == RAFT_CANDIDATE && own && own->vote == QUORUM_VOTE_MISSING;
}

void raft_tick(struct raft *r)
{
    if (r->role == RAFT_LEADER) {
        tick_leader(r);
        return;
    }
    r->election_elapsed++;
    if (raft_promotable(r) && r->election_elapsed >= r->randomized_election_timeout) {
        r->election_elapsed = 0;
        if (!awaits_own_vote(r))
            raft_campaign(r);
    }
}

void raft_tick_quiesced(struct raft *r)
{
    r->election_elapsed++;
}

/* --- storage has done its work --- */

/*
 * Applying is the moment in which things become possible: leaving a joint configuration, and
 * letting go of old entries. Snapshots and entries are reported by two threads, each in its own
 * order, so what is told second may be the lower one.
 */
static void applied_to(struct raft *r, uint64_t index)
{
    raft_log_applied_to(&r->log, index > r->log.applied ? index : r->log.applied);
    raft_maybe_leave_joint(r);
}

static void trim_log(struct raft *r)
{
    raft_log_trim(&r->log, r->config.max_resident_entries, r->config.max_resident_bytes);
}

static void snapshot_installed(struct raft *r, const struct raft_message *m)
{
    if (!m->snapshot)
        return;
    raft_log_snapshot_stable(&r->log, m->snapshot->index);
    applied_to(r, m->snapshot->index);
}

static void handle_storage_append_response(struct raft *r, const struct raft_message *m)
{
    if (m->index != 0)
        raft_log_stable_to(&r->log, m->index, m->log_term);
    snapshot_installed(r, m);
    trim_log(r);
}

static void handle_storage_apply_response(struct raft *r, const struct raft_message *m)
{
    if (m->entry_count == 0)
        return;
    applied_to(r, m->entries[m->entry_count - 1].index);
    raft_reduce_uncommitted(r, raft_entries_payload(m->entries, m->entry_count));
    trim_log(r);
}

/* --- the step every message takes --- */

static bool is_from_leader(enum raft_message_type type)
{
    return type == RAFT_MSG_APP || type == RAFT_MSG_HEARTBEAT || type == RAFT_MSG_SNAP;
}

/* Someone is ahead of us. False if the message goes no further. */
static bool meet_higher_term(struct raft *r, const struct raft_message *m)
{
    if ((m->type == RAFT_MSG_VOTE || m->type == RAFT_MSG_PRE_VOTE) && raft_ignores_vote(r, m))
        return false;
    /* A pre-vote only asks about a term, and its granting answer names the one asked about. */
    if (m->type == RAFT_MSG_PRE_VOTE)
        return true;
    if (m->type == RAFT_MSG_PRE_VOTE_RESP && !m->reject)
        return true;
    SAY_INFO(
        r, ID " [term: " NUM "] received a %s message with higher term from " ID " [term: " NUM "]",
        r->id, r->term, raft_message_type_text(m->type), m->from, m->term);
    raft_become_follower(r, m->term, is_from_leader(m->type) ? m->from : RAFT_NONE);
    return true;
}

/* Someone has missed something. */
static void meet_lower_term(struct raft *r, const struct raft_message *m)
{
    bool from_leader = m->type == RAFT_MSG_APP || m->type == RAFT_MSG_HEARTBEAT;

    if (from_leader && (r->config.check_quorum || r->config.pre_vote)) {
        /*
         * Maybe just a delayed message. But maybe this member raised its term while it was cut off
         * and can now neither win an election nor follow: with these two settings its votes are
         * ignored, so nothing but this answer would ever tell the leader about the newer term.
         */
        raft_send(r, (struct raft_message){.to = m->from, .type = RAFT_MSG_APP_RESP});
    } else if (m->type == RAFT_MSG_PRE_VOTE) {
        raft_reject_old_pre_vote(r, m);
    } else if (m->type == RAFT_MSG_STORAGE_APPEND_RESP) {
        /* Entries written in an older term may have been replaced by others that are still being
         * written, even by equal ones. A snapshot is committed state, whatever the term. */
        if (m->index != 0)
            SAY_INFO(r,
                     ID " [term: " NUM
                        "] ignored entry appends from a %s message with lower term [term: " NUM "]",
                     r->id, r->term, raft_message_type_text(m->type), m->term);
        snapshot_installed(r, m);
    } else {
        SAY_INFO(r,
                 ID " [term: " NUM "] ignored a %s message with lower term from " ID " [term: " NUM
                    "]",
                 r->id, r->term, raft_message_type_text(m->type), m->from, m->term);
    }
}

static enum raft_result step_role(struct raft *r, const struct raft_message *m)
{
    switch (r->role) {
    case RAFT_FOLLOWER:
        return raft_step_follower(r, m);
    case RAFT_CANDIDATE:
    case RAFT_PRE_CANDIDATE:
        return raft_step_candidate(r, m);
    case RAFT_LEADER:
        return raft_step_leader(r, m);
    }
    unreachable();
}

/* Term 0 marks what this member tells itself, and what is forwarded to a leader. */
enum raft_result raft_step_any(struct raft *r, const struct raft_message *m)
{
    if (m->term > r->term) {
        if (!meet_higher_term(r, m))
            return RAFT_OK;
    } else if (m->term != 0 && m->term < r->term) {
        meet_lower_term(r, m);
        return RAFT_OK;
    }
    switch (m->type) {
    case RAFT_MSG_STORAGE_APPEND_RESP:
        handle_storage_append_response(r, m);
        return RAFT_OK;
    case RAFT_MSG_STORAGE_APPLY_RESP:
        handle_storage_apply_response(r, m);
        return RAFT_OK;
    case RAFT_MSG_VOTE:
    case RAFT_MSG_PRE_VOTE:
        raft_handle_vote(r, m);
        return RAFT_OK;
    default:
        return step_role(r, m);
    }
}

/* --- the rest of tell --- */

enum raft_result raft_campaign(struct raft *r)
{
    raft_hup(r, r->config.pre_vote ? CAMPAIGN_PRE_ELECTION : CAMPAIGN_ELECTION);
    return RAFT_OK;
}

enum raft_result raft_propose(struct raft *r, struct blob *data)
{
    return raft_propose_batch(r, &data, 1);
}

enum raft_result raft_propose_batch(struct raft *r, struct blob *const data[], size_t count)
{
    enum { ON_STACK = 64 };
    struct raft_entry few[ON_STACK];
    struct raft_entry *entries = count > ON_STACK ? mem_new_array(count, struct raft_entry) : few;

    assert(count > 0);
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct raft_entry){.data = blob_bytes(data[i]), .blob = data[i]};
    enum raft_result result = raft_step_any(
        r, &(struct raft_message){
               .type = RAFT_MSG_PROP, .from = r->id, .entries = entries, .entry_count = count});
    if (entries != few)
        mem_free(entries);
    return result;
}

void raft_read_index(struct raft *r, struct blob *context)
{
    struct raft_entry entry = {.data = blob_bytes(context), .blob = context};

    raft_step_any(r, &(struct raft_message){
                         .type = RAFT_MSG_READ_INDEX, .entries = &entry, .entry_count = 1});
}

void raft_transfer_leader(struct raft *r, uint64_t to)
{
    raft_step_any(r, &(struct raft_message){.type = RAFT_MSG_TRANSFER_LEADER, .from = to});
}

enum raft_result raft_forget_leader(struct raft *r)
{
    return raft_step_any(r, &(struct raft_message){.type = RAFT_MSG_FORGET_LEADER});
}

void raft_set_snapshot(struct raft *r, const struct raft_snapshot *snapshot)
{
    struct raft_snapshot *old = r->snapshot;
    bool available = snapshot && snapshot->index > 0;

    assert(!available || snapshot->index <= r->log.committed);
    r->snapshot = available ? raft_snapshot_own(snapshot) : NULL;
    if (old)
        blob_pile_add(&r->boxes[r->filling].blobs, old->blob); /* it may be in a queued message */
    mem_free(old);
}

void raft_compact(struct raft *r, uint64_t index)
{
    raft_log_compact(&r->log, index);
}

void raft_evict(struct raft *r, uint64_t index)
{
    raft_log_evict(&r->log, index);
}

/* --- ask --- */

struct raft_hard_state raft_hard_state(const struct raft *r)
{
    return (struct raft_hard_state){.term = r->term, .vote = r->vote, .commit = r->log.committed};
}

struct raft_status raft_status(const struct raft *r)
{
    return (struct raft_status){
        .id = r->id,
        .hard_state = raft_hard_state(r),
        .soft_state = {r->lead, r->role},
        .applied = r->log.applied,
        .applying = r->log.applying,
        .lead_transferee = r->lead_transferee,
        .is_learner = r->is_learner,
        .base_index = r->log.base_index,
        .resident_index = r->log.resident,
        .stable_index = r->log.unstable - 1,
        .last_index = raft_log_last(&r->log),
        .heard_commit = r->heard_commit,
        .resident_bytes = r->log.resident_bytes,
        .unapplied_bytes = raft_log_unapplied_bytes(&r->log),
        .pending_conf_index = r->pending_conf_index,
        .uncommitted_bytes = r->uncommitted_bytes,
        .election_elapsed = r->election_elapsed,
        .heartbeat_elapsed = r->heartbeat_elapsed,
        .randomized_election_timeout = r->randomized_election_timeout,
    };
}

void raft_conf_state(const struct raft *r, struct raft_conf_state *out)
{
    *out = r->tracker.conf;
}

bool raft_is_voter(const struct raft *r, uint64_t id)
{
    return tracker_is_voter(&r->tracker, id);
}

bool raft_term_at(const struct raft *r, uint64_t index, uint64_t *out)
{
    return raft_log_term(&r->log, index, out);
}

const struct raft_progress *raft_progress_at(const struct raft *r, size_t nth)
{
    return nth < r->tracker.count ? &r->tracker.members[nth] : NULL;
}
