/* The turn: the one place from which every room can be seen. */
#include "api/api.h"
#include "apply/apply.h"
#include "auth/auth.h"
#include "backend/backend.h"
#include "cluster/cluster.h"
#include "config/config.h"
#include "io/inbox.h"
#include "mvcc/mvcc.h"
#include "peer/peer.h"
#include "raft/raft.h"
#include "server/server_int.h"
#include "snap/snapfile.h"
#include "wal/wal.h"
#include "watch/watch.h"

/* --- raft's log: what it wants written --- */

/* Answers that rest on work now done: to ourselves, or to the member that waits for it. */
static void deliver(struct server *s, struct raft_message *work)
{
    for (size_t i = 0; i < work->response_count; i++) {
        const struct raft_message *response = &work->responses[i];
        if (response->to != s->facts.member_id) {
            peers_send(s->peering.peers, response);
            continue;
        }
        enum raft_result result = raft_step_own(s->raft, response);
        assert(result == RAFT_OK || result == RAFT_PEER_NOT_FOUND); /* removed meanwhile */
    }
    raft_message_free(work);
}

static uint64_t append(struct server *s, const struct raft_message *m)
{
    return wal_append(s->wal,
                      &(struct wal_save){
                          .installed = m->snapshot && m->snapshot->index > 0 ? m->snapshot : NULL,
                          .entries = m->entries,
                          .entry_count = m->entry_count,
                          .state = {.term = m->term, .vote = m->vote, .commit = m->commit},
                      });
}

/* Raft has taken another member's snapshot, whose image is ready (receiving.h). From its record on
 * the image counts: what raft hands out behind it stands behind it in the log, too. */
static void persist_snapshot(struct server *s, const struct raft_message *m)
{
    struct state image = receiving_take_image(&s->receiving, m->snapshot);

    log_info(s->logger, "applying snapshot",
             LOG_U64("current-snapshot-index", s->snapshot.recorded_index),
             LOG_U64("current-applied-index", s->facts.applied_index),
             LOG_U64("incoming-leader-snapshot-index", m->snapshot->index),
             LOG_U64("incoming-leader-snapshot-term", m->snapshot->term));
    uint64_t seq = append(s, m);
    install_begin_received(&s->install, &image, seq);
    storage_work_append(&s->work, m, seq, s->facts.now_ms);
}

static void persist(struct server *s, const struct raft_message *m)
{
    if (m->snapshot && m->snapshot->index > 0)
        persist_snapshot(s, m);
    else
        storage_work_append(&s->work, m, append(s, m), s->facts.now_ms);
}

/* Work that waits for nothing newer than what is durable already, nor for an image to be
 * installed. */
static void deliver_durable(struct server *s)
{
    uint64_t durable = wal_durable(s->wal), held = install_held_seq(&s->install);

    if (durable >= held)
        durable = held - 1;
    for (struct raft_message *m; (m = storage_work_take_durable(&s->work, durable));) {
        s->durable_ms = s->facts.now_ms;
        deliver(s, m);
    }
    stages_reached(&s->metrics->slow.stages, STAGE_LOGGED, s->work.durable_index, s->facts.now_ns);
}

/* --- raft --- */

/* A leader's leave before its own log is written: the others' disks work while its own does. What
 * anybody else says goes with the end of the turn. */
static void send_messages(struct server *s, const struct raft_output *out)
{
    for (size_t i = 0; i < out->send_count; i++)
        if (out->messages[i].type == RAFT_MSG_SNAP)
            sending_ask(&s->sending, &out->messages[i]);
        else
            peers_send(s->peering.peers, &out->messages[i]); /* encoded there: lent is enough */
    if (out->send_count > 0 && s->facts.is_leader)
        peers_flush(s->peering.peers);
}

/*
 * All of it, always. What goes into raft is bounded (log_budget), so what comes out is; if it were
 * left lying there while the log is behind, a slow disk would hold back heartbeats, votes and read
 * states as well, and a leader that works hard would look dead.
 */
static void take_raft(struct server *s)
{
    struct raft_output out;

    while (!s->failed && raft_take_output(s->raft, &out)) {
        send_messages(s, &out);
        if (out.has_soft_state)
            leadership_changed(s, &out.soft_state);
        if (out.append)
            persist(s, out.append);
        if (out.apply)
            storage_work_apply(&s->work, out.apply);
        for (size_t i = 0; i < out.read_state_count; i++)
            pending_read_state(&s->pending, out.read_states[i].context, out.read_states[i].index);
        for (size_t i = 0; i < out.fetch_count; i++)
            peering_fetch(&s->peering, s->wal, s->raft, &out.fetches[i]);
        deliver_durable(s);
    }
    struct raft_status now = raft_status(s->raft);
    s->facts.committed_index = now.hard_state.commit;
    stages_reached(&s->metrics->slow.stages, STAGE_COMMITTED, now.hard_state.commit,
                   s->facts.now_ns);
    s->is_catching_up = now.soft_state.role == RAFT_FOLLOWER && now.last_index < now.heard_commit;
}

/* At most one: ticks missed in a stall are lost, or every member would campaign after it. */
static void tick(struct server *s)
{
    if (!s->tick_due)
        return;
    s->tick_due = false;
    metrics_tick(s);
    raft_tick(s->raft);
    leadership_tick(s);
    server_leave_if_due(s);
    peering_tick(&s->peering, s->facts.leader);
    if (!wal_lacks_space(s->wal)) /* else less often: space.h */
        wal_retry(s->wal);
    timer_start(s->io->clock, &s->tick_timer, s->config->heartbeat_ms * NS_PER_MS);
}

/* Bytes of entries that raft may be given now; 0 while the log is behind. Whoever feeds raft asks
 * here: that is where the log's memory is bounded, since it must take what comes out of raft. */
static size_t log_budget(const struct server *s)
{
    size_t pending = wal_pending_bytes(s->wal);
    /* What a full store has no space for is in the log, and in memory up to the cap. */
    bool is_full = backend_lacks_space(s->state.backend) && backend_is_full(s->state.backend);
    uint64_t space = is_full ? 0 : wal_space_left(s->wal);
    size_t budget = pending < WAL_PENDING_BYTES_MAX ? WAL_PENDING_BYTES_MAX - pending : 0;

    return budget < space ? budget : (size_t)space;
}

/*
 * The same for entries that this member would put into the log itself, if it leads. What it has
 * taken in stays in memory until it is applied. That waits for the others' disks, which answer
 * heartbeats whatever their state, and for the store; whereas clients do not wait, but give up and
 * come again with more. They are not refused: they wait in pending, and then at their sockets.
 */
static size_t entry_budget(const struct server *s)
{
    uint64_t held = raft_status(s->raft).uncommitted_bytes; /* until applied; 0: it does not lead */
    uint64_t left = held < RAFT_UNCOMMITTED_BYTES_MAX ? RAFT_UNCOMMITTED_BYTES_MAX - held : 0;
    size_t budget = log_budget(s);

    return budget < left ? budget : (size_t)left;
}

/*
 * Bytes of entries that may come from others: none, either, while much waits for the store, which
 * may be slower than the log by far, as when a leader sends all that was written while a snapshot
 * was under way. What is committed is applied without hearing of anything new, so this ends. To
 * count what is not committed, too, would not do: a new leader's first entry has to come in behind
 * it, for any of it to be committed.
 */
static size_t append_budget(const struct server *s)
{
    uint64_t unapplied = raft_status(s->raft).unapplied_bytes;
    size_t budget = entry_budget(s);

    if (s->is_catching_up) {
        uint64_t held = unapplied + wal_pending_bytes(s->wal);
        uint64_t left = held < CATCH_UP_LOG_BYTES_MAX ? CATCH_UP_LOG_BYTES_MAX - held : 0;
        return left < budget ? (size_t)left : budget;
    }
    return unapplied < RAFT_UNAPPLIED_BYTES_MAX ? budget : 0;
}

/* While the disk is full there are no proposals but the server's own. For a few of those the log
 * has something left. */
static size_t proposal_budget(const struct server *s)
{
    bool is_own = s->facts.disk_is_full && wal_pending_bytes(s->wal) == 0;
    size_t budget = entry_budget(s);

    return is_own && budget < SPACE_OWN_BYTES ? SPACE_OWN_BYTES : budget;
}

/* Where the last `count` entries of the log begin, if we are who has put them there; else 0. */
static uint64_t first_of_last(const struct server *s, size_t count)
{
    struct raft_status now = raft_status(s->raft);

    return now.soft_state.role == RAFT_LEADER ? now.last_index - count + 1 : 0;
}

/* All waiting proposals of this turn are one append: one write, one sync. The log knows of none of
 * them before raft's output is taken, so they are counted here. */
static void propose_some(struct server *s)
{
    struct blob *data[256];
    size_t total = 0, budget = proposal_budget(s);

    if (raft_status(s->raft).soft_state.lead == RAFT_NONE)
        return; /* since this very turn: raft would drop them, and they can wait for the next */
    while (total < TURN_PROPOSALS_MAX && budget > 0) {
        size_t bytes_max = s->facts.is_leader || budget < RAFT_MESSAGE_BYTES_MAX
                               ? budget
                               : RAFT_MESSAGE_BYTES_MAX; /* a message to the leader */
        size_t count = pending_take_proposals(&s->pending, bytes_max, data, ARRAY_LEN(data));
        if (count == 0)
            return;
        for (size_t i = 0; i < count; i++) {
            size_t bytes = blob_bytes(data[i]).len;
            budget -= bytes < budget ? bytes : budget;
        }
        bool accepted = raft_propose_batch(s->raft, data, count) == RAFT_OK;
        pending_proposed(&s->pending, accepted, first_of_last(s, count));
        stages_reached(&s->metrics->slow.stages, STAGE_PROPOSED, s->pending.proposed_id,
                       s->facts.now_ns);
        total += count;
    }
}

/* Raft puts something empty in the place of a conf change while an earlier one is not applied, or
 * may not be: whoever leads waits for that instead. */
static bool may_configure(const struct server *s)
{
    struct raft_status now = raft_status(s->raft);

    return pending_has_change(&s->pending) && now.soft_state.lead != RAFT_NONE &&
           log_budget(s) > 0 &&
           (now.soft_state.role != RAFT_LEADER || now.pending_conf_index <= now.applied);
}

static void propose_change(struct server *s)
{
    struct raft_conf_change change;

    if (!may_configure(s) || !pending_take_change(&s->pending, &change))
        return;
    bool accepted = raft_propose_conf_change(s->raft, &change) == RAFT_OK;
    pending_change_proposed(&s->pending, accepted, first_of_last(s, 1));
}

/* --- other members --- */

/* What makes no sense to raft has come too late, mostly: from before an election, or from somebody
 * who was removed. */
static void hear_message(struct server *s, const struct raft_message *m)
{
    if (m->type == RAFT_MSG_SNAP) { /* it comes with its image (receiving.h), or not at all */
        log_warn(s->logger, "a snapshot came as a plain message; it was dropped",
                 LOG_ID("from", m->from));
        return;
    }
    if (m->from == s->peering.leaving && m->from != RAFT_NONE && m->type != RAFT_MSG_TIMEOUT_NOW)
        return; /* a leader that was removed: its heartbeats would make it one again */
    enum raft_result result = raft_step(s->raft, m);
    if (result != RAFT_OK)
        log_debug(s->logger, "raft ignored a message", LOG_ID("from", m->from),
                  LOG_U64("type", m->type), LOG_STR("why", raft_result_text(result)));
}

static void hear_result(struct server *s, const struct peer_event *e)
{
    switch ((enum peering_token)(e->id >> PEERING_TOKEN_SHIFT)) {
    case PEERING_TOKEN_VERSION:
        peering_version(&s->peering, e);
        return;
    case PEERING_TOKEN_FORWARD:
        forwarding_result(&s->forwarding, e);
        return;
    case PEERING_TOKEN_HASH:
        corruption_result(&s->corruption, e);
        return;
    case PEERING_TOKEN_FOUNDING:
        break; /* it is over */
    }
}

/* One that was sent, or one that comes. */
static void hear_snapshot(struct server *s, const struct peer_event *e)
{
    if (e->kind == PEER_SNAPSHOT_SENT || e->kind == PEER_SNAPSHOT_FAILED)
        sending_result(&s->sending, e->member, e->kind == PEER_SNAPSHOT_SENT);
    else
        receiving_hear(s, e);
}

static void hear_peer(struct server *s, const struct peer_event *e)
{
    switch (e->kind) {
    case PEER_MESSAGE:
        hear_message(s, e->message);
        return;
    case PEER_UNREACHABLE:
        raft_report_unreachable(s->raft, e->member);
        return;
    case PEER_REMOVED:
        server_leave_later(s);
        return;
    case PEER_REQUEST:
        peer_requests_hear(&s->peer_requests, e);
        return;
    case PEER_RESULT:
        hear_result(s, e);
        return;
    case PEER_SNAPSHOT_SENT:
    case PEER_SNAPSHOT_FAILED:
    case PEER_SNAPSHOT_BEGIN:
    case PEER_SNAPSHOT_BYTES:
    case PEER_SNAPSHOT_END:
    case PEER_SNAPSHOT_GONE:
        hear_snapshot(s, e);
        return;
    }
    unreachable();
}

static size_t entry_bytes(const struct raft_message *m)
{
    size_t bytes = 0;

    for (size_t i = 0; i < m->entry_count; i++)
        bytes += raft_entry_size(&m->entries[i]);
    return bytes;
}

/* False: there is none, or it has to wait; what waits for nothing but time is left for the next
 * turn. */
static bool take_append(struct server *s, size_t budget, uint64_t until_ns, struct peer_event *out)
{
    if (budget == 0 || clock_now_ns(s->io->clock) > until_ns) {
        s->peers_left = true;
        return false;
    }
    return peers_take_append(s->peering.peers, out);
}

/*
 * Before clients: heartbeats, votes and answers come in however far log or store are behind, and
 * entries only while they are not. What is left of them is dropped by peer in the end, and the
 * leader sends it again.
 */
static void hear_peers(struct server *s)
{
    uint64_t until_ns = clock_now_ns(s->io->clock) + TURN_PEERS_US * 1000ull;
    struct peer_event e;
    size_t budget = append_budget(s);
    unsigned count = 0;

    s->peers_left = s->messages_left = false;

    while (!s->messages_left && peers_take(s->peering.peers, &e)) {
        hear_peer(s, &e);
        peer_event_free(&e);
        count++;
        s->messages_left = count == TURN_PEERS_MAX ||
                           (count % TURN_PEERS_LOOK == 0 && clock_now_ns(s->io->clock) > until_ns);
    }
    while (take_append(s, budget, until_ns, &e)) {
        size_t bytes = entry_bytes(e.message);
        hear_message(s, e.message);
        peer_event_free(&e);
        budget -= bytes < budget ? bytes : budget;
    }
}

static void read_some(struct server *s)
{
    uint64_t retried = s->pending.stats.reads_slow;
    struct blob *round = pending_take_round(&s->pending);

    if (s->pending.stats.reads_slow > retried)
        slow_round_retried(s);
    if (!round)
        return;
    raft_read_index(s->raft, round);
    blob_unref(round);
}

/* In raft's words, not by the facts, which are of the turn before: another may lead since. */
static void drop_of_former_leader(struct server *s)
{
    if (raft_status(s->raft).soft_state.role != RAFT_LEADER)
        pending_not_leading(&s->pending);
}

/* --- clients --- */

/* Some of them may be large, or cold (warming.h): what there is no time for comes in the next turn.
 */
static void serve_reads(struct server *s)
{
    unsigned count = 0;

    for (struct api_call *c;
         clients_can_be_answered(&s->clients) && (c = pending_take_confirmed(&s->pending));) {
        slow_confirmed(s, c);
        if (c->api)
            api_read_index_done(s->clients.api, c);
        else if (c == &s->corruption.call)
            corruption_confirmed(&s->corruption);
        else
            peer_requests_confirmed(&s->peer_requests, c);
        if (++count % MVCC_LOOKS == 0 && warming_is_late(&s->warming, TURN_READS_US))
            return;
    }
}

static void tell_failed(struct server *s, struct api_call *c, enum result why)
{
    if (c->api)
        api_failed(s->clients.api, c, why);
    else
        peer_requests_failed(&s->peer_requests, c, why);
}

/* After serve_reads: what can be served is not told that it is too late. */
static void fail_some(struct server *s)
{
    uint64_t failed = s->pending.stats.reads_failed;
    enum result why;

    pending_tick(&s->pending);
    if (s->pending.stats.reads_failed > failed)
        slow_round_failed(s);
    for (struct api_call *c;
         clients_can_be_answered(&s->clients) && (c = pending_take_failed(&s->pending, &why));) {
        if (c->request)
            metrics_failed(s->metrics, c, s->facts.now_ns);
        if (why == RESULT_TIMEOUT)
            why = leadership_timeout(s, c);
        if (c == &s->corruption.call)
            corruption_unconfirmed(&s->corruption, why);
        else
            tell_failed(s, c, why);
    }
}

static void hear_change(struct server *s, const struct api_need *need)
{
    enum result result = reconfiguration_check(s, need->change);

    if (need->change->is_promotion && result != RESULT_OK && result != RESULT_NOT_LEADER)
        metrics_promotion(s->metrics, result);
    if (result == RESULT_OK)
        pending_need(&s->pending, need);
    else
        tell_failed(s, need->call, result);
}

static void hear_need(struct server *s, const struct api_need *need)
{
    switch (need->need) {
    case API_RAISE_ALARM:
        housekeeping_quota_refused(&s->housekeeping);
        pending_need(&s->pending, need);
        return;
    case API_FORWARD:
        forwarding_need(&s->forwarding, need);
        return;
    case API_FORGET:
        if (!forwarding_forget(&s->forwarding, need->call) &&
            !metrics_forget(s->metrics, need->call) && !hashing_forget(&s->hashing, need->call) &&
            !backups_forget(&s->backups, need->call) &&
            !passwords_forget(&s->passwords, need->call))
            pending_need(&s->pending, need);
        return;
    case API_CONFIGURE:
        hear_change(s, need);
        return;
    case API_HASH:
        hashing_need(&s->hashing, need);
        return;
    case API_IMAGE:
        backups_need(&s->backups, need);
        return;
    case API_PASSWORD:
        passwords_need(&s->passwords, need);
        return;
    case API_MOVE_LEADER:
        leadership_move(s, need->member);
        return;
    case API_METRICS:
    case API_VARS:
        metrics_need(s, need);
        return;
    case API_PROPOSE:
    case API_READ_INDEX:
        pending_need(&s->pending, need);
        return;
    }
    unreachable();
}

/* True if there was one. */
static bool take_needs(struct server *s)
{
    struct api_need need;
    bool any = false;

    for (; api_take_need(s->clients.api, &need); any = true)
        hear_need(s, &need);
    for (; peer_requests_take_need(&s->peer_requests, &need); any = true)
        hear_need(s, &need);
    return any;
}

/* What the leader has answered for clients of ours. */
static void serve_forwarded(struct server *s)
{
    struct api_forwarded answer;
    enum result why;

    forwarding_work(&s->forwarding);
    for (struct api_call *c; clients_can_be_answered(&s->clients) &&
                             (c = forwarding_take(&s->forwarding, &why, &answer));)
        if (why == RESULT_OK)
            api_forwarded(s->clients.api, c, &answer);
        else
            api_failed(s->clients.api, c, why);
}

static void serve_hashed(struct server *s)
{
    uint32_t hash;

    for (struct api_call *c;
         clients_can_be_answered(&s->clients) && (c = hashing_take(&s->hashing, &hash));)
        api_hashed(s->clients.api, c, hash);
}

static void serve_passwords(struct server *s)
{
    struct api_password_result result;

    for (struct api_call *c;
         clients_can_be_answered(&s->clients) && (c = passwords_take(&s->passwords, &result));)
        api_password_done(s->clients.api, c, &result);
}

static void serve_backups(struct server *s)
{
    struct image *image;

    for (struct api_call *c;
         clients_can_be_answered(&s->clients) && (c = backups_take(&s->backups, &image));)
        if (image)
            api_cut(s->clients.api, c, image);
        else
            api_failed(s->clients.api, c,
                       s->is_stopping ? RESULT_STOPPED : RESULT_TOO_MANY_REQUESTS);
}

/* No client is heard before the cluster knows this member. In the end all are: they are told that
 * it is the end. Probes are heard from the beginning: they ask how it is. */
static bool hears_clients(const struct server *s)
{
    return s->is_stopping || housekeeping_is_published(&s->housekeeping);
}

/* Credit that has come back, and replies that are wanted. Of these each may take the disk. */
static void hear_flow(struct server *s)
{
    struct rpc_event event;

    while (clients_can_be_answered(&s->clients) &&
           rpc_line_take_event(s->clients.line, RPC_LANE_FLOW, &event)) {
        bool is_read = event.kind == RPC_WANTED;
        api_event(s->clients.api, &event);
        if (is_read && warming_is_late(&s->warming, TURN_FLOW_US))
            return;
    }
}

/* Before clients, whatever those want; but whoever reaches a place for probes does not take their
 * time from them. */
static void hear_probes(struct server *s)
{
    uint64_t until_ns = (s->facts.now_ns = clock_now_ns(s->io->clock)) + TURN_PROBES_US * 1000ull;
    struct rpc_event event;

    while (s->facts.now_ns <= until_ns && clients_can_be_answered(&s->clients) &&
           rpc_line_take_event(s->clients.line, RPC_LANE_PROBES, &event)) {
        api_event(s->clients.api, &event);
        s->facts.now_ns = clock_now_ns(s->io->clock);
    }
}

static void hear_clients(struct server *s)
{
    struct rpc_event event;

    rpc_line_turn(s->clients.line);
    clients_deliver(&s->clients);
    hear_flow(s);
    hear_probes(s);
    uint64_t until_ns = s->facts.now_ns + TURN_CALLS_US * 1000ull;
    for (unsigned i = 0;
         i < TURN_CALLS_MAX && clients_can_be_answered(&s->clients) && hears_clients(s); i++) {
        if (!rpc_line_take_event(s->clients.line, RPC_LANE_CALLS, &event))
            break;
        api_event(s->clients.api, &event);
        s->facts.now_ns = clock_now_ns(s->io->clock);
        if (s->facts.now_ns > until_ns)
            break;
    }
    take_needs(s);
}

/* --- snapshots of the log --- */

/* A member that starts with a lower --snapshot-count, or whose last one failed, has one due without
 * another entry. While an image is about to replace the state none is begun. */
static void begin_snapshot(struct server *s)
{
    uint64_t durable_index = backend_durable(s->state.backend).index;

    if (!apply_is_busy(s->state.apply))
        server_mark_snapshot(s);
    if (log_snapshot_can_begin(&s->snapshot, durable_index) && !install_is_busy(&s->install) &&
        !receiving_is_ready(&s->receiving))
        log_snapshot_begin(&s->snapshot, durable_index);
    log_snapshot_purge_if_due(&s->snapshot, s->facts.now_ms);
}

/* Whoever is being sent an image needs the log behind it. */
static void release_log(struct server *s)
{
    if (s->release_index == 0 || sending_keeps_log(&s->sending))
        return;
    raft_compact(s->raft, s->release_index);
    wal_release(s->wal, s->release_index);
    s->release_index = 0;
    wal_purge(s->wal, (unsigned)s->config->max_wals);
}

static void snapshot_recorded(struct server *s)
{
    const struct raft_snapshot *last = &s->snapshot.snapshot;

    sending_offer(s->raft, last->index, last->term, &last->conf_state);
    if (sending_keeps_log(&s->sending))
        log_info(s->logger, "skip compaction since there is an inflight snapshot");
    wal_purge(s->wal, (unsigned)s->config->max_wals);
}

static void record_snapshot(struct server *s)
{
    const struct raft_snapshot *record = log_snapshot_take_record(&s->snapshot, s->facts.now_ms);

    if (log_snapshot_is_unsynced(&s->snapshot))
        server_fail(s, "cannot save a snapshot of the log: %s", err_text(ERR_SYNC));
    if (record)
        log_snapshot_recorded_as(&s->snapshot, wal_append_snapshot(s->wal, record));
    if (log_snapshot_take_release(&s->snapshot, wal_durable(s->wal), raft_status(s->raft).applied,
                                  &s->release_index))
        snapshot_recorded(s);
    release_log(s);
}

/* --- housekeeping --- */

/* The leader decides it, from what all of them run. */
static void decide_version(struct server *s)
{
    struct version_range servers;
    size_t count;
    bool all;

    /* Nobody who is silent is known as that before the next round would begin. */
    if (!peering_is_asking_versions(&s->peering) && housekeeping_wants_versions(&s->housekeeping)) {
        const struct pb_member *members = cluster_members(s->state.cluster, &count);
        peering_ask_versions(&s->peering, members, count);
    }
    if (peering_take_versions(&s->peering, &servers, &all))
        housekeeping_versions(&s->housekeeping, all ? &servers : NULL);
}

static void propose_own(struct server *s)
{
    struct pb_internal_raft_request request;

    housekeeping_await_revokes(&s->housekeeping,
                               pending_is_under_way(&s->pending, s->housekeeping.revoke_id));
    while (housekeeping_take_proposal(&s->housekeeping, &request)) {
        bool is_leading = request.lease_revoke || request.lease_checkpoint ||
                          request.cluster_version_set || request.downgrade_info_set;
        uint64_t id = is_leading ? pending_propose_leading(&s->pending, &request)
                                 : pending_propose_own(&s->pending, &request);
        housekeeping_proposed(&s->housekeeping, &request, id);
    }
}

/* By who leads alone: another knows better what is old, if it has led for longer. */
static void compact_by_itself(struct server *s)
{
    struct pb_internal_raft_request request;

    auto_compaction_work(&s->auto_compaction, mvcc_revision(s->state.mvcc));
    if (auto_compaction_take_proposal(&s->auto_compaction, &request))
        auto_compaction_proposed(&s->auto_compaction,
                                 pending_propose_leading(&s->pending, &request));
}

/* True if there is more to be done at once. */
static bool check_corruption(struct server *s)
{
    struct pb_internal_raft_request request;
    struct api_need need;
    bool more = !corruption_work(&s->corruption, MVCC_SLICE_STEPS);

    if (corruption_take_need(&s->corruption, &need)) {
        pending_need(&s->pending, &need);
        more = true;
    }
    for (; corruption_take_proposal(&s->corruption, &request); more = true)
        (void)pending_propose_own(&s->pending, &request);
    return more;
}

/* True if there is more to be done at once. */
static bool keep_house(struct server *s)
{
    if (s->final_sync_asked)
        return false; /* what is not done now is done after the next start */
    bool more = housekeeping_work(&s->housekeeping);

    if (s->is_stopping)
        return more;
    begin_snapshot(s);
    decide_version(s);
    propose_own(s);
    compact_by_itself(s);
    return check_corruption(s) || more;
}

/* --- the turn --- */

static void look_at_the_clock(struct server *s)
{
    s->facts.now_ns = clock_now_ns(s->io->clock);
    s->facts.now_ms = s->facts.now_ns / NS_PER_MS;
    s->facts.unix_seconds = (int64_t)(clock_wall_ns(s->io->clock) / (1000 * NS_PER_MS));
    s->facts.is_stopping = s->is_stopping;
}

static void nothing(struct event *e)
{
    (void)e; /* it made the inbox wake us: that was all */
}

void server_come_back(struct server *s)
{
    s->again.run = nothing;
    if (!s->again.queued)
        inbox_put(s->io->inbox, &s->again);
}

/*
 * Those who lag must gain on the writers, or compaction would cut them off in the end; so they get
 * more, the more was written. A huge revision is not caught up with in one turn, though.
 */
static bool work_for_watchers(struct server *s)
{
    size_t told = s->changes_told < TURN_WATCH_STEPS ? s->changes_told : TURN_WATCH_STEPS;

    s->changes_told = 0;
    return watch_work(s->clients.watch, TURN_WATCH_STEPS + 4 * (unsigned)told, s->facts.now_ms);
}

/* Is something left that could be done at once? What waits for the disk does not count: its
 * completion wakes us. */
static bool has_more(const struct server *s)
{
    const struct rpc_line *line = s->clients.line;

    /* Of what is held back nobody says when it may be taken. */
    if (rpc_line_has_replies(line) || rpc_line_has_events(line, RPC_LANE_FLOW))
        return true;
    if (rpc_line_has_events(line, RPC_LANE_CALLS) && hears_clients(s))
        return true;
    if (rpc_line_has_events(line, RPC_LANE_PROBES))
        return true;
    if (clients_have_events(&s->clients) || pending_has_confirmed(&s->pending) ||
        forwarding_has_more(&s->forwarding))
        return true;
    if ((applying_has_more(s) && !apply_is_busy(s->state.apply)) || cutting_has_more(&s->cutting))
        return true;
    if (raft_has_output(s->raft) || may_configure(s))
        return true;
    return (pending_has_proposals(&s->pending) && entry_budget(s) > 0) || s->messages_left ||
           (s->peers_left && append_budget(s) > 0);
}

static void work(struct server *s)
{
    look_at_the_clock(s);
    warming_turn(&s->warming, s->facts.now_ns);
    space_some(s);
    record_snapshot(s);
    install_some(s);
    cutting_some(s);
    receiving_some(s);
    hashing_some(s);
    stop_some(s);
    tick(s);
    hear_peers(s);
    hear_clients(s);
    drop_of_former_leader(s);
    propose_some(s);
    propose_change(s);
    read_some(s);
    deliver_durable(s);
    take_raft(s);
    applying_some(s);
    take_raft(s); /* what applying has brought about: more to apply, perhaps */
    sending_some(&s->sending);
    leadership_campaign_alone(s);
    serve_reads(s);
    serve_forwarded(s);
    serve_hashed(s);
    serve_passwords(s);
    serve_backups(s);
    metrics_serve(s);
    fail_some(s);
    bool more = !work_for_watchers(s);
    if (!api_work(s->clients.api, MVCC_SLICE_STEPS))
        more = true;
    if (!peer_requests_work(&s->peer_requests, MVCC_SLICE_STEPS))
        more = true;
    if (keep_house(s))
        more = true;
    if (take_needs(s))
        more = true;
    peers_flush(s->peering.peers);
    /* Before whoever has enabled it hears that he has. */
    atomic_store_explicit(&s->clients.names_are_users,
                          s->config->client_tls.client_cert_auth && auth_is_enabled(s->state.auth),
                          memory_order_relaxed);
    clients_flush(&s->clients);
    warming_some(&s->warming);
    more = more || applying_has_more(s);
    if (has_more(s) || (more && !s->warming.is_cold))
        server_come_back(s);
    else if (more) /* most likely it waits for what workers read: their completion wakes us */
        warming_come_back(&s->warming);
}

/* What is left over stays in the inbox, which brings the next turn about. */
static void hear_events(struct server *s, uint64_t until_ns)
{
    const size_t at_once = 8; /* a connection that begins or ends takes 100 us */
    size_t heard = 0, now = at_once;

    while (now == at_once && heard < TURN_EVENTS_MAX && clock_now_ns(s->io->clock) <= until_ns) {
        now = inbox_drain(s->io->inbox, at_once);
        heard += now;
    }
}

/* By the clock, and by how long the thread was at work: with what it read from sockets before. */
static void note_length(struct server *s, uint64_t began)
{
    uint64_t took = clock_now_ns(s->io->clock) - began;
    uint64_t busy_ns = clock_busy_ns(s->io->clock), busy = busy_ns - s->busy_ns;

    if (took > s->longest_turn_ns)
        s->longest_turn_ns = took;
    s->slow_turns += took > TURN_SLOW_US * 1000ull;
    if (busy > s->longest_busy_ns && s->turns > 0)
        s->longest_busy_ns = busy;
    s->busy_ns = busy_ns;
    s->turns++;
    warming_turn_ended(&s->warming, took);
}

void server_turn(struct server *s)
{
    if (s->failed)
        return;
    uint64_t began = clock_now_ns(s->io->clock);
    hear_events(s, began + TURN_EVENTS_US * 1000ull);
    if (s->failed || server_has_stopped(s))
        return;
    if (s->boot && !server_found_some(s)) {
        stop_some(s);
        return;
    }

    if (!s->is_checking || server_check_some(s))
        work(s);
    if (!s->failed)
        backend_turn_ended(s->state.backend);
    note_length(s, began);
}
