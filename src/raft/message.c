/*
 * Messages: which kinds there are, what a peer may say, and copies that own themselves.
 */
#include "raft/raft_int.h"

/* --- kinds --- */

bool raft_message_is_local(enum raft_message_type type)
{
    switch (type) {
    case RAFT_MSG_HUP:
    case RAFT_MSG_BEAT:
    case RAFT_MSG_UNREACHABLE:
    case RAFT_MSG_SNAP_STATUS:
    case RAFT_MSG_CHECK_QUORUM:
    case RAFT_MSG_STORAGE_APPEND:
    case RAFT_MSG_STORAGE_APPEND_RESP:
    case RAFT_MSG_STORAGE_APPLY:
    case RAFT_MSG_STORAGE_APPLY_RESP:
        return true;
    default:
        return false;
    }
}

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

/* A piece of a leader's log follows what precedes it, its terms never fall, and none of them is
 * above the leader's own. */
static const char *append_problem(const struct raft_message *m)
{
    uint64_t index = m->index, term = m->log_term;

    for (size_t i = 0; i < m->entry_count; i++) {
        if (m->entries[i].index != ++index)
            return "its entries do not follow each other";
        if (m->entries[i].term < term)
            return "the terms of its entries fall";
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
        if (m->entries[i].type > RAFT_ENTRY_CONF_CHANGE_V2)
            return "it proposes an unknown type of entry";
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

/* --- copies --- */

/*
 * A clone is one block:  | message | responses ... | entries ... | snapshot | context |, with the
 * responses' own parts behind. Where a response shows the very entries or snapshot of its message,
 * as storage work does, the clone's shows the clone's.
 */
struct block {
    uint8_t *at; /* NULL while only counting */
    size_t used;
};

static void *block_take(struct block *b, size_t size)
{
    size_t aligned = (size + 15) & ~(size_t)15;
    void *taken = b->at ? b->at + b->used : NULL;

    b->used += aligned;
    return taken;
}

static const struct raft_entry *clone_entries(struct block *b, const struct raft_message *m)
{
    struct raft_entry *copy = block_take(b, m->entry_count * sizeof(*copy));

    if (copy)
        for (size_t i = 0; i < m->entry_count; i++)
            copy[i] = raft_entry_share(&m->entries[i]);
    return copy;
}

static const struct raft_snapshot *clone_snapshot(struct block *b, const struct raft_snapshot *s)
{
    struct raft_snapshot *copy = block_take(b, sizeof(*copy));

    if (copy) {
        *copy = *s;
        if (s->blob) {
            blob_ref(s->blob);
        } else if (s->data.len > 0) {
            copy->blob = blob_copy(s->data);
            copy->data = blob_bytes(copy->blob);
        }
    }
    return copy;
}

static struct bytes clone_bytes(struct block *b, struct bytes what)
{
    uint8_t *copy = block_take(b, what.len);

    if (copy && what.len > 0)
        memcpy(copy, what.at, what.len);
    return bytes_of(copy, what.len);
}

/* Fills *to (or only counts, when b has no memory yet). `whole` is the message that m answers, with
 * its clone, or NULL. */
static void clone_into(struct block *b, const struct raft_message *m, struct raft_message *to,
                       const struct raft_message *whole, const struct raft_message *whole_clone)
{
    struct raft_message copy = *m;
    bool same_entries =
        whole && whole->entries == m->entries && whole->entry_count == m->entry_count;
    bool same_snapshot = whole && whole->snapshot == m->snapshot;

    struct raft_message *responses = block_take(b, m->response_count * sizeof(*responses));
    copy.entries = same_entries ? whole_clone->entries : clone_entries(b, m);
    copy.snapshot = same_snapshot ? whole_clone->snapshot : NULL;
    if (!same_snapshot && m->snapshot)
        copy.snapshot = clone_snapshot(b, m->snapshot);
    copy.context = clone_bytes(b, m->context);
    copy.responses = responses;
    for (size_t i = 0; i < m->response_count; i++)
        clone_into(b, &m->responses[i], responses ? &responses[i] : NULL, m, &copy);
    if (to)
        *to = copy;
}

struct raft_message *raft_message_clone(const struct raft_message *m)
{
    struct block b = {0};

    block_take(&b, sizeof(*m));
    clone_into(&b, m, NULL, NULL, NULL);
    b.at = mem_resize(NULL, b.used, 1);
    b.used = 0;
    struct raft_message *clone = block_take(&b, sizeof(*clone));
    clone_into(&b, m, clone, NULL, NULL);
    return clone;
}

static void release(const struct raft_message *m, const struct raft_message *whole)
{
    if (!whole || whole->entries != m->entries || whole->entry_count != m->entry_count)
        for (size_t i = 0; i < m->entry_count; i++)
            blob_unref(m->entries[i].blob);
    if (m->snapshot && (!whole || whole->snapshot != m->snapshot))
        blob_unref(m->snapshot->blob);
    for (size_t i = 0; i < m->response_count; i++)
        release(&m->responses[i], m);
}

void raft_message_free(struct raft_message *m)
{
    if (!m)
        return;
    release(m, NULL);
    mem_free(m);
}
