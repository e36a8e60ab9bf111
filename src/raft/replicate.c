/*
 * What goes out to a peer, and when.
 */
#include "raft/raft_int.h"

static bool maybe_send_snapshot(struct raft *r, struct raft_progress *p)
{
    /* While one is on its way nothing else is sent, so it is not for somebody who is not there. */
    if (!p->recent_active) {
        SAY_DEBUG(r, "ignore sending snapshot to " ID " since it is not recently active", p->id);
        return false;
    }
    if (!r->snapshot || r->snapshot->index < r->log.base_index) { /* the log must go on from it */
        SAY_DEBUG(
            r, ID " failed to send snapshot to " ID " because snapshot is temporarily unavailable",
            r->id, p->id);
        return false;
    }
    SAY_DEBUG(r,
              ID " [firstindex: " NUM ", commit: " NUM "] sent snapshot[index: " NUM ", term: " NUM
                 "] to " ID " [%s]",
              r->id, raft_log_first(&r->log), r->log.committed, r->snapshot->index,
              r->snapshot->term, p->id, raft_text_progress(r, p));
    progress_become_snapshot(p, r->snapshot->index);
    SAY_DEBUG(r, ID " paused sending replication messages to " ID " [%s]", r->id, p->id,
              raft_text_progress(r, p));
    raft_send(r, (struct raft_message){.to = p->id,
                                       .type = RAFT_MSG_SNAP,
                                       .snapshot = raft_output_snapshot(r, r->snapshot)});
    return true;
}

static void send_entries(struct raft *r, struct raft_progress *p, uint64_t prev_term,
                         const struct raft_entry *entries, size_t count)
{
    raft_send(r, (struct raft_message){.to = p->id,
                                       .type = RAFT_MSG_APP,
                                       .index = p->next - 1,
                                       .log_term = prev_term,
                                       .entries = entries,
                                       .entry_count = count,
                                       .commit = r->log.committed});
    progress_sent_entries(p, count, raft_entries_payload(entries, count));
    p->sent_commit = r->log.committed;
}

/* What the peer needs is on disk only. It waits; everybody else goes on. */
static void ask_for_entries(struct raft *r, struct raft_progress *p)
{
    p->fetch_token = ++r->fetch_tokens;
    raft_output_fetch(r, &(struct raft_fetch){.token = p->fetch_token,
                                              .peer = p->id,
                                              .low = p->next,
                                              .high = r->log.resident,
                                              .max_bytes = r->config.max_message_bytes});
}

/*
 * The next append for this peer, if it is to get one. Empty ones carry the commit index, and with
 * a full window they are all that may be sent: should every message in it have been lost, the
 * answer to an empty one gets things going again.
 */
static bool maybe_send_append(struct raft *r, struct raft_progress *p, bool even_if_empty)
{
    uint64_t prev_term;
    uint64_t last = raft_log_last(&r->log);
    const struct raft_entry *entries = NULL;
    size_t count = 0;

    if (progress_is_paused(p))
        return false;
    /* The terms of all entries are in memory, also of those that are on disk alone. If this one is
     * not, the log has been compacted, and no fetch would bring it back. */
    if (!raft_log_term(&r->log, p->next - 1, &prev_term))
        return maybe_send_snapshot(r, p);
    bool window_full = p->state == PROGRESS_REPLICATE && inflights_full(&p->inflights);
    if (!window_full && p->next < r->log.resident) {
        ask_for_entries(r, p);
        return false;
    }
    if (!window_full && p->next <= last)
        entries = raft_log_slice(&r->log, p->next, last + 1, r->config.max_message_bytes, &count);
    if (count == 0 && !even_if_empty)
        return false;
    send_entries(r, p, prev_term, raft_output_slice(r, entries, count), count);
    return true;
}

void raft_send_append(struct raft *r, struct raft_progress *p)
{
    maybe_send_append(r, p, true);
}

bool raft_send_more(struct raft *r, struct raft_progress *p)
{
    return maybe_send_append(r, p, false);
}

void raft_broadcast_append(struct raft *r)
{
    for (size_t i = 0; i < r->tracker.count; i++)
        if (r->tracker.members[i].id != r->id)
            raft_send_append(r, &r->tracker.members[i]);
}

/* --- fetched entries --- */

static struct raft_progress *find_waiting(struct raft *r, uint64_t token)
{
    for (size_t i = 0; i < r->tracker.count; i++)
        if (token != 0 && r->tracker.members[i].fetch_token == token)
            return &r->tracker.members[i];
    return NULL;
}

/* The token is forgotten whenever the peer's next entry, the role or the term changes, so whoever
 * still waits for it wants exactly these entries. */
void raft_fetched(struct raft *r, uint64_t token, const struct raft_entry *entries, size_t count)
{
    struct raft_progress *p = find_waiting(r, token);
    uint64_t prev_term;

    if (!p)
        return;
    p->fetch_token = 0;
    if (count == 0) {
        /* They could not be read, or have been compacted meanwhile. It is tried again when the peer
         * answers a heartbeat, and then perhaps with a snapshot; at once would be a busy loop. */
        p->flow_paused = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        assert(entries[i].index == p->next + i);
        assert(entries[i].index <= r->log.base_index ||
               raft_log_matches(&r->log, entries[i].index, entries[i].term));
    }
    if (raft_log_term(&r->log, p->next - 1, &prev_term))
        send_entries(r, p, prev_term, raft_output_entries(r, entries, count), count);
    while (raft_send_more(r, p))
        continue;
}

/* --- heartbeats --- */

/* The commit index is cut to what the peer is known to have: it may hold other entries above. */
static void send_heartbeat(struct raft *r, struct raft_progress *p, struct bytes context)
{
    uint64_t commit = p->match < r->log.committed ? p->match : r->log.committed;

    raft_send(r,
              (struct raft_message){
                  .to = p->id, .type = RAFT_MSG_HEARTBEAT, .commit = commit, .context = context});
    p->sent_commit = commit;
}

void raft_broadcast_heartbeat(struct raft *r)
{
    struct bytes context = raft_reads_heartbeat_context(r);

    for (size_t i = 0; i < r->tracker.count; i++)
        if (r->tracker.members[i].id != r->id)
            send_heartbeat(r, &r->tracker.members[i], context);
}

void raft_send_timeout_now(struct raft *r, uint64_t to)
{
    raft_send(r, (struct raft_message){.to = to, .type = RAFT_MSG_TIMEOUT_NOW});
}
