/*
 * Messages: what a peer may say.
 */
#include "raft/raft_int.h"

/* --- kinds --- */

static bool is_response(enum raft_message_type type)
{
    return type == RAFT_MSG_APP_RESP || type == RAFT_MSG_VOTE_RESP ||
           type == RAFT_MSG_HEARTBEAT_RESP || type == RAFT_MSG_READ_INDEX_RESP ||
           type == RAFT_MSG_PRE_VOTE_RESP;
}

/* Proposals and the like are forwarded without a term; everything else belongs to one. */
static bool may_lack_term(enum raft_message_type type)
{
    return type == RAFT_MSG_PROP || type == RAFT_MSG_READ_INDEX ||
           type == RAFT_MSG_TRANSFER_LEADER || type == RAFT_MSG_FORGET_LEADER;
}

const char *raft_result_text(enum raft_result result)
{
    switch (result) {
    case RAFT_OK:
        return "ok";
    case RAFT_PROPOSAL_DROPPED:
        return "raft proposal dropped";
    case RAFT_LOCAL_MESSAGE:
        return "raft: cannot step raft local message";
    case RAFT_PEER_NOT_FOUND:
        return "raft: cannot step as peer not found";
    case RAFT_BAD_MESSAGE:
        return "raft: impossible message";
    case RAFT_BAD_CONF_CHANGE:
        return "raft: impossible conf change";
    }
    unreachable();
}

/* --- what a peer may say --- */

/* Nobody may speak in our name or in that of our disk: their words are believed. What is forwarded
 * to a leader keeps its first sender, and may come back to it when it leads in the meantime. */
static const char *sender_problem(const struct raft *r, const struct raft_message *m)
{
    if (m->from == RAFT_NONE)
        return "it has no sender";
    if (m->from == RAFT_APPEND_THREAD || m->from == RAFT_APPLY_THREAD)
        return "it claims to come from our storage";
    if (m->from == r->id && !may_lack_term(m->type))
        return "it claims to come from ourselves";
    return NULL;
}

static const char *number_problem(const struct raft_message *m)
{
    if (m->term > RAFT_NUMBER_MAX || m->log_term > RAFT_NUMBER_MAX)
        return "its term is absurd";
    if (m->index > RAFT_NUMBER_MAX || m->commit > RAFT_NUMBER_MAX)
        return "its index is absurd";
    if (m->term == 0 && !may_lack_term(m->type))
        return "it has no term";
    return NULL;
}

/*
 * What nobody could have appended must not reach our log: it would be written, and refused when it
 * is read back at the next start, where it looks like damage. A conf change of the first kind is
 * never empty, since two of its fields are always written.
 */
static const char *entry_problem(const struct raft_entry *e)
{
    if (e->type > RAFT_ENTRY_CONF_CHANGE_V2)
        return "it has an unknown type of entry";
    if (e->type == RAFT_ENTRY_CONF_CHANGE && e->data.len == 0)
        return "it has a conf change without content";
    return NULL;
}

/* A piece of a leader's log follows what precedes it, its terms never fall, and none of them is
 * above the leader's own. */
static const char *append_problem(const struct raft_message *m)
{
    uint64_t index = m->index, term = m->log_term;

    for (size_t i = 0; i < m->entry_count; i++) {
        if (m->entries[i].index != ++index)
            return "its entries do not follow each other";
        if (m->entries[i].term == 0)
            return "its entries have no term";
        if (m->entries[i].term < term)
            return "the terms of its entries fall";
        if (entry_problem(&m->entries[i]))
            return entry_problem(&m->entries[i]);
        term = m->entries[i].term;
    }
    return term > m->term ? "its entries are from the future" : NULL;
}

static const char *snapshot_problem(const struct raft_message *m)
{
    const struct raft_snapshot *s = m->snapshot;

    if (!s)
        return NULL; /* etcd reads it as an empty one, which is then too old */
    if (s->index > RAFT_NUMBER_MAX)
        return "its snapshot's index is absurd";
    if (s->term > m->term)
        return "its snapshot is from the future";
    const struct raft_conf_state *c = &s->conf_state;
    if (c->voters.count > RAFT_MEMBERS_MAX || c->learners.count > RAFT_MEMBERS_MAX ||
        c->voters_outgoing.count > RAFT_MEMBERS_MAX || c->learners_next.count > RAFT_MEMBERS_MAX)
        return "its snapshot has too many members";
    return NULL;
}

static const char *proposal_problem(const struct raft_message *m)
{
    if (m->entry_count == 0)
        return "it proposes nothing";
    for (size_t i = 0; i < m->entry_count; i++)
        if (entry_problem(&m->entries[i]))
            return entry_problem(&m->entries[i]);
    return NULL;
}

static const char *content_problem(const struct raft_message *m)
{
    switch (m->type) {
    case RAFT_MSG_APP:
        return append_problem(m);
    case RAFT_MSG_SNAP:
        return snapshot_problem(m);
    case RAFT_MSG_PROP:
        return proposal_problem(m);
    case RAFT_MSG_READ_INDEX:
        return m->entry_count != 1 ? "it asks for not exactly one read" : NULL;
    case RAFT_MSG_HEARTBEAT_RESP:
        return m->context.len > 0 && m->context.len < 8 ? "its context is too short" : NULL;
    default:
        return raft_message_type_text(m->type) ? NULL : "its type is unknown";
    }
}

enum raft_result raft_step(struct raft *r, const struct raft_message *m)
{
    if (raft_message_is_local(m->type))
        return RAFT_LOCAL_MESSAGE;
    const char *problem = sender_problem(r, m);
    if (!problem)
        problem = number_problem(m);
    if (!problem)
        problem = content_problem(m);
    if (problem) {
        const char *type = raft_message_type_text(m->type);
        SAY_WARN(r, ID " dropped a %s message from " ID ": %s", r->id, type ? type : "strange",
                 m->from, problem);
        return RAFT_BAD_MESSAGE;
    }
    if (is_response(m->type) && !tracker_find(&r->tracker, m->from))
        return RAFT_PEER_NOT_FOUND;
    return raft_step_any(r, m);
}

enum raft_result raft_step_own(struct raft *r, const struct raft_message *m)
{
    bool from_storage = m->from == RAFT_APPEND_THREAD || m->from == RAFT_APPLY_THREAD;

    assert(m->to == r->id);
    assert(from_storage || m->from == r->id);
    if (!from_storage && !tracker_find(&r->tracker, m->from))
        return RAFT_PEER_NOT_FOUND;
    return raft_step_any(r, m);
}

void raft_step_applied(struct raft *r, const struct raft_message *apply, size_t from, size_t to)
{
    assert(apply->type == RAFT_MSG_STORAGE_APPLY && apply->response_count == 1);
    assert(from < to && to <= apply->entry_count);

    struct raft_message part = apply->responses[0];
    part.entries = apply->entries + from;
    part.entry_count = to - from;
    enum raft_result result = raft_step_own(r, &part);
    assert(result == RAFT_OK);
}
