#include "raft/describe.h"

#include "base/text.h"
#include "raft/raft_int.h"

/* --- names --- */

static const char *const message_type_names[] = {
    [RAFT_MSG_HUP] = "MsgHup",
    [RAFT_MSG_BEAT] = "MsgBeat",
    [RAFT_MSG_PROP] = "MsgProp",
    [RAFT_MSG_APP] = "MsgApp",
    [RAFT_MSG_APP_RESP] = "MsgAppResp",
    [RAFT_MSG_VOTE] = "MsgVote",
    [RAFT_MSG_VOTE_RESP] = "MsgVoteResp",
    [RAFT_MSG_SNAP] = "MsgSnap",
    [RAFT_MSG_HEARTBEAT] = "MsgHeartbeat",
    [RAFT_MSG_HEARTBEAT_RESP] = "MsgHeartbeatResp",
    [RAFT_MSG_UNREACHABLE] = "MsgUnreachable",
    [RAFT_MSG_SNAP_STATUS] = "MsgSnapStatus",
    [RAFT_MSG_CHECK_QUORUM] = "MsgCheckQuorum",
    [RAFT_MSG_TRANSFER_LEADER] = "MsgTransferLeader",
    [RAFT_MSG_TIMEOUT_NOW] = "MsgTimeoutNow",
    [RAFT_MSG_READ_INDEX] = "MsgReadIndex",
    [RAFT_MSG_READ_INDEX_RESP] = "MsgReadIndexResp",
    [RAFT_MSG_PRE_VOTE] = "MsgPreVote",
    [RAFT_MSG_PRE_VOTE_RESP] = "MsgPreVoteResp",
    [RAFT_MSG_STORAGE_APPEND] = "MsgStorageAppend",
    [RAFT_MSG_STORAGE_APPEND_RESP] = "MsgStorageAppendResp",
    [RAFT_MSG_STORAGE_APPLY] = "MsgStorageApply",
    [RAFT_MSG_STORAGE_APPLY_RESP] = "MsgStorageApplyResp",
    [RAFT_MSG_FORGET_LEADER] = "MsgForgetLeader",
};

const char *raft_message_type_text(enum raft_message_type type)
{
    return type < ARRAY_LEN(message_type_names) ? message_type_names[type] : NULL;
}

const char *raft_role_text(enum raft_role role)
{
    static const char *const names[] = {
        [RAFT_FOLLOWER] = "StateFollower",
        [RAFT_CANDIDATE] = "StateCandidate",
        [RAFT_LEADER] = "StateLeader",
        [RAFT_PRE_CANDIDATE] = "StatePreCandidate",
    };
    assert(role < ARRAY_LEN(names));
    return names[role];
}

/* The name of a number in an enum, or the number itself, which is what Go prints. */
static void describe_enum(struct buf *out, const char *const names[], size_t count, unsigned value)
{
    if (value < count)
        buf_append_str(out, names[value]);
    else
        buf_printf(out, "%d", (int)value);
}

static void describe_entry_type(struct buf *out, enum raft_entry_type type)
{
    static const char *const names[] = {"EntryNormal", "EntryConfChange", "EntryConfChangeV2"};

    describe_enum(out, names, ARRAY_LEN(names), type);
}

static void describe_change_type(struct buf *out, enum raft_conf_change_type type)
{
    static const char *const names[] = {"ConfChangeAddNode", "ConfChangeRemoveNode",
                                        "ConfChangeUpdateNode", "ConfChangeAddLearnerNode"};

    describe_enum(out, names, ARRAY_LEN(names), type);
}

static void describe_transition(struct buf *out, enum raft_transition transition)
{
    static const char *const names[] = {"ConfChangeTransitionAuto",
                                        "ConfChangeTransitionJointImplicit",
                                        "ConfChangeTransitionJointExplicit"};

    describe_enum(out, names, ARRAY_LEN(names), transition);
}

/* --- data --- */

/* Go's %v of a []uint64 */
static void describe_ids(struct buf *out, const struct raft_ids *ids)
{
    buf_append_byte(out, '[');
    for (size_t i = 0; i < ids->count; i++)
        buf_printf(out, "%s" NUM, i ? " " : "", ids->at[i]);
    buf_append_byte(out, ']');
}

/* --- configurations --- */

void raft_describe_conf_state(struct buf *out, const struct raft_conf_state *conf)
{
    buf_append_str(out, "Voters:");
    describe_ids(out, &conf->voters);
    buf_append_str(out, " VotersOutgoing:");
    describe_ids(out, &conf->voters_outgoing);
    buf_append_str(out, " Learners:");
    describe_ids(out, &conf->learners);
    buf_append_str(out, " LearnersNext:");
    describe_ids(out, &conf->learners_next);
    buf_printf(out, " AutoLeave:%s", conf->auto_leave ? "true" : "false");
}

static void describe_majority(struct buf *out, const struct raft_ids *ids)
{
    buf_append_byte(out, '(');
    for (size_t i = 0; i < ids->count; i++)
        buf_printf(out, "%s" ID, i ? " " : "", ids->at[i]);
    buf_append_byte(out, ')');
}

void raft_describe_conf(struct buf *out, const struct raft_conf_state *conf)
{
    buf_append_str(out, "voters=");
    describe_majority(out, &conf->voters);
    if (conf->voters_outgoing.count > 0) {
        buf_append_str(out, "&&");
        describe_majority(out, &conf->voters_outgoing);
    }
    if (conf->learners.count > 0) {
        buf_append_str(out, " learners=");
        describe_majority(out, &conf->learners);
    }
    if (conf->learners_next.count > 0) {
        buf_append_str(out, " learners_next=");
        describe_majority(out, &conf->learners_next);
    }
    if (conf->auto_leave)
        buf_append_str(out, " autoleave");
}

void raft_describe_conf_change(struct buf *out, const struct raft_conf_change_v2 *cc)
{
    buf_append_str(out, "transition:");
    describe_transition(out, cc->transition);
    for (size_t i = 0; i < cc->change_count; i++) {
        buf_append_str(out, " changes:{type:");
        describe_change_type(out, cc->changes[i].type);
        buf_printf(out, " node_id:" NUM "}", cc->changes[i].node_id);
    }
    if (cc->context.len > 0) {
        buf_append_str(out, " context:");
        text_append_quoted(out, cc->context);
    }
}

void raft_describe_changes(struct buf *out, const struct raft_conf_change_single *changes,
                           size_t count)
{
    static const char *const letters[] = {"v", "r", "u", "l"};

    for (size_t i = 0; i < count; i++) {
        enum raft_conf_change_type type = changes[i].type;
        buf_printf(out, "%s%s" NUM, i ? " " : "",
                   type < ARRAY_LEN(letters) ? letters[type] : "unknown", changes[i].node_id);
    }
}

/* --- states --- */

void raft_describe_soft_state(struct buf *out, const struct raft_soft_state *s)
{
    buf_printf(out, "Lead:" NUM " State:%s", s->lead, raft_role_text(s->role));
}

void raft_describe_hard_state(struct buf *out, const struct raft_hard_state *s)
{
    buf_printf(out, "Term:" NUM, s->term);
    if (s->vote != RAFT_NONE)
        buf_printf(out, " Vote:" NUM, s->vote);
    buf_printf(out, " Commit:" NUM, s->commit);
}

void raft_describe_snapshot(struct buf *out, const struct raft_snapshot *s)
{
    buf_printf(out, "Index:" NUM " Term:" NUM " ConfState:", s->index, s->term);
    raft_describe_conf_state(out, &s->conf_state);
}

void raft_describe_progress(struct buf *out, const struct raft_progress *p)
{
    static const char *const names[] = {"StateProbe", "StateReplicate", "StateSnapshot"};

    buf_printf(out, "%s match=" NUM " next=" NUM, names[p->state], p->match, p->next);
    if (p->is_learner)
        buf_append_str(out, " learner");
    if (progress_is_paused(p))
        buf_append_str(out, " paused");
    if (p->pending_snapshot > 0)
        buf_printf(out, " pendingSnap=" NUM, p->pending_snapshot);
    if (!p->recent_active)
        buf_append_str(out, " inactive");
    if (p->inflights.count > 0)
        buf_printf(out, " inflight=%zu%s", p->inflights.count,
                   inflights_full(&p->inflights) ? "[full]" : "");
}

void raft_describe_tracker(struct buf *out, const struct tracker *t)
{
    for (size_t i = 0; i < t->count; i++) {
        buf_printf(out, NUM ": ", t->members[i].id);
        raft_describe_progress(out, &t->members[i]);
        buf_append_byte(out, '\n');
    }
}

void raft_describe_status(struct buf *out, const struct raft *r)
{
    if (r->role == RAFT_LEADER)
        raft_describe_tracker(out, &r->tracker);
}

/* --- entries and messages --- */

static void describe_entry_data(struct buf *out, const struct raft_entry *e,
                                raft_data_format *format)
{
    struct raft_conf_change_v2 cc;

    if (e->type == RAFT_ENTRY_NORMAL)
        (format ? format : text_append_quoted)(out, e->data);
    else if (e->type > RAFT_ENTRY_CONF_CHANGE_V2)
        return;
    else if (raft_entry_conf_change(e, &cc))
        raft_describe_changes(out, cc.changes, cc.change_count);
    else
        buf_append_str(out, "proto: cannot parse invalid wire-format data");
}

void raft_describe_entry(struct buf *out, const struct raft_entry *e, raft_data_format *format)
{
    buf_printf(out, NUM "/" NUM " ", e->term, e->index);
    describe_entry_type(out, e->type);
    buf_append_byte(out, ' ');
    size_t before = out->len;
    describe_entry_data(out, e, format);
    if (out->len == before)
        out->len--; /* no data, no space in front of it */
}

void raft_describe_entries(struct buf *out, const struct raft_entry *entries, size_t count,
                           raft_data_format *format)
{
    for (size_t i = 0; i < count; i++) {
        raft_describe_entry(out, &entries[i], format);
        buf_append_byte(out, '\n');
    }
}

static void describe_target(struct buf *out, uint64_t id)
{
    if (id == RAFT_NONE)
        buf_append_str(out, "None");
    else if (id == RAFT_APPEND_THREAD)
        buf_append_str(out, "AppendThread");
    else if (id == RAFT_APPLY_THREAD)
        buf_append_str(out, "ApplyThread");
    else
        buf_printf(out, ID, id);
}

static void indent_by(struct buf *out, unsigned indent)
{
    for (unsigned i = 0; i < indent; i++)
        buf_append_byte(out, ' ');
}

static void describe_header(struct buf *out, const struct raft_message *m)
{
    describe_target(out, m->from);
    buf_append_str(out, "->");
    describe_target(out, m->to);
    buf_append_byte(out, ' ');
    describe_enum(out, message_type_names, ARRAY_LEN(message_type_names), m->type);
    buf_printf(out, " Term:" NUM " Log:" NUM "/" NUM, m->term, m->log_term, m->index);
    if (m->reject)
        buf_printf(out, " Rejected (Hint: " NUM ")", m->reject_hint);
    if (m->commit != 0)
        buf_printf(out, " Commit:" NUM, m->commit);
    if (m->vote != RAFT_NONE)
        buf_printf(out, " Vote:" NUM, m->vote);
}

/* One entry stays on the line, several get a line each. */
static void describe_message_entries(struct buf *out, const struct raft_message *m, unsigned indent,
                                     raft_data_format *format)
{
    if (m->entry_count == 0)
        return;
    buf_append_str(out, " Entries:[");
    for (size_t i = 0; i < m->entry_count; i++) {
        if (m->entry_count > 1) {
            buf_append_byte(out, '\n');
            indent_by(out, indent + 2);
        }
        raft_describe_entry(out, &m->entries[i], format);
    }
    if (m->entry_count > 1) {
        buf_append_byte(out, '\n');
        indent_by(out, indent);
    }
    buf_append_byte(out, ']');
}

static void describe_message(struct buf *out, const struct raft_message *m, unsigned indent,
                             raft_data_format *format)
{
    indent_by(out, indent);
    describe_header(out, m);
    describe_message_entries(out, m, indent, format);
    if (m->snapshot && m->snapshot->index != 0) {
        buf_append_byte(out, '\n');
        indent_by(out, indent);
        buf_append_str(out, "  Snapshot: ");
        raft_describe_snapshot(out, m->snapshot);
    }
    if (m->response_count == 0)
        return;
    buf_append_str(out, " Responses:[");
    for (size_t i = 0; i < m->response_count; i++) {
        buf_append_byte(out, '\n');
        describe_message(out, &m->responses[i], indent + 2, format);
    }
    buf_append_byte(out, '\n');
    indent_by(out, indent);
    buf_append_byte(out, ']');
}

void raft_describe_message(struct buf *out, const struct raft_message *m, raft_data_format *format)
{
    describe_message(out, m, 0, format);
}

/* --- outputs --- */

/* Go's %v of a []ReadState */
static void describe_read_states(struct buf *out, const struct raft_output *o)
{
    buf_append_str(out, "ReadStates [");
    for (size_t i = 0; i < o->read_state_count; i++) {
        const struct raft_read_state *s = &o->read_states[i];
        buf_printf(out, "%s{" NUM " [", i ? " " : "", s->index);
        for (size_t b = 0; b < s->context.len; b++)
            buf_printf(out, "%s%u", b ? " " : "", s->context.at[b]);
        buf_append_str(out, "]}");
    }
    buf_append_str(out, "]\n");
}

static void describe_output_body(struct buf *out, const struct raft_output *o,
                                 raft_data_format *format)
{
    if (o->has_soft_state) {
        raft_describe_soft_state(out, &o->soft_state);
        buf_append_byte(out, '\n');
    }
    if (o->has_hard_state) {
        buf_append_str(out, "HardState ");
        raft_describe_hard_state(out, &o->hard_state);
        buf_append_byte(out, '\n');
    }
    if (o->read_state_count > 0)
        describe_read_states(out, o);
    if (o->entry_count > 0) {
        buf_append_str(out, "Entries:\n");
        raft_describe_entries(out, o->entries, o->entry_count, format);
    }
    if (o->snapshot) {
        buf_append_str(out, "Snapshot ");
        raft_describe_snapshot(out, o->snapshot);
        buf_append_byte(out, '\n');
    }
    if (o->committed_count > 0) {
        buf_append_str(out, "CommittedEntries:\n");
        raft_describe_entries(out, o->committed, o->committed_count, format);
    }
    if (o->message_count > 0)
        buf_append_str(out, "Messages:\n");
    for (size_t i = 0; i < o->message_count; i++) {
        raft_describe_message(out, &o->messages[i], format);
        buf_append_byte(out, '\n');
    }
}

void raft_describe_output(struct buf *out, const struct raft_output *o, raft_data_format *format)
{
    struct buf body = {0};

    describe_output_body(&body, o, format);
    if (body.len == 0) {
        buf_append_str(out, "<empty Ready>");
    } else {
        buf_printf(out, "Ready MustSync=%s:\n", o->must_sync ? "true" : "false");
        buf_append(out, buf_bytes(&body));
    }
    buf_free(&body);
}

/* --- pieces of log lines --- */

static const char *keep_text(struct raft *r, struct buf *text)
{
    const char *kept = arena_copy_str(&r->text, buf_bytes(text));

    buf_free(text);
    return kept;
}

const char *raft_text_progress(struct raft *r, const struct raft_progress *p)
{
    struct buf text = {0};

    raft_describe_progress(&text, p);
    return keep_text(r, &text);
}

const char *raft_text_conf(struct raft *r, const struct raft_conf_state *conf)
{
    struct buf text = {0};

    raft_describe_conf(&text, conf);
    return keep_text(r, &text);
}

static void list_field(struct buf *out, const char *name, const struct raft_ids *ids)
{
    for (size_t i = 0; i < ids->count; i++)
        buf_printf(out, "%s:" NUM " ", name, ids->at[i]);
}

/* A conf state as protobuf's text format has it. */
const char *raft_text_conf_state(struct raft *r, const struct raft_conf_state *conf)
{
    struct buf text = {0};

    list_field(&text, "voters", &conf->voters);
    list_field(&text, "learners", &conf->learners);
    list_field(&text, "voters_outgoing", &conf->voters_outgoing);
    list_field(&text, "learners_next", &conf->learners_next);
    buf_printf(&text, "auto_leave:%s", conf->auto_leave ? "true" : "false");
    return keep_text(r, &text);
}

const char *raft_text_conf_change(struct raft *r, const struct raft_conf_change_v2 *cc)
{
    struct buf text = {0};

    raft_describe_conf_change(&text, cc);
    return keep_text(r, &text);
}
