/*
 * Membership: a configuration changes when its conf change is *applied*, not when it is appended.
 * Therefore only one may be on its way at a time: the next one is proposed on top of the last.
 */
#include "raft/raft_int.h"

/* --- proposing --- */

/* Why a conf change must not enter the log now, or NULL. */
static const char *objection(struct raft *r, const struct raft_conf_change_v2 *cc)
{
    bool joint = tracker_is_joint(&r->tracker);
    bool leaves = cc->change_count == 0;

    if (r->config.disable_conf_change_validation)
        return NULL;
    if (r->pending_conf_index > r->log.applied)
        return arena_printf(&r->text,
                            "possible unapplied conf change at index " NUM " (applied to " NUM ")",
                            r->pending_conf_index, r->log.applied);
    if (joint && !leaves)
        return "must transition out of joint config first";
    if (!joint && leaves)
        return "not in joint state; refusing empty conf change";
    /* Nothing else can come in between, so what makes no sense now will make none when it is
     * applied, and would end every member. etcd lets it into the log. */
    struct tracker next;
    return confchange_apply(&r->tracker, raft_log_last(&r->log), cc, &next);
}

static bool makes_sense(const struct raft_conf_change_v2 *cc)
{
    for (size_t i = 0; i < cc->change_count; i++)
        if (cc->changes[i].type > RAFT_ADD_LEARNER_NODE)
            return false;
    return cc->transition <= RAFT_TRANSITION_JOINT_EXPLICIT;
}

static bool screen(struct raft *r, struct raft_entry *e, uint64_t index)
{
    struct raft_conf_change_v2 cc;

    if (e->type == RAFT_ENTRY_NORMAL)
        return true;
    if (!raft_entry_conf_change(e, &cc) || !makes_sense(&cc)) {
        SAY_WARN(r, ID " cannot make sense of a proposed conf change; dropping proposal", r->id);
        return false;
    }
    const char *why_not = objection(r, &cc);
    if (!why_not) {
        r->pending_conf_index = index;
        return true;
    }
    SAY_INFO(r, ID " ignoring conf change %s at config %s: %s", r->id,
             raft_text_conf_change(r, &cc), raft_text_conf(r, &r->tracker.conf), why_not);
    arena_reset(&r->text);
    /* Something empty in its place, and not a refusal: others were proposed along with it. */
    *e = (struct raft_entry){.type = RAFT_ENTRY_NORMAL};
    return true;
}

bool raft_screen_conf_changes(struct raft *r, struct raft_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!screen(r, &entries[i], raft_log_last(&r->log) + 1 + i))
            return false;
    return true;
}

static enum raft_result propose_encoded(struct raft *r, enum raft_entry_type type,
                                        struct bytes data)
{
    struct raft_entry entry = {.type = type, .data = data};

    return raft_step_any(
        r, &(struct raft_message){.type = RAFT_MSG_PROP, .entries = &entry, .entry_count = 1});
}

enum raft_result raft_propose_conf_change(struct raft *r, const struct raft_conf_change *cc)
{
    struct buf data = {0};

    raft_conf_change_encode(cc, &data);
    enum raft_result result = propose_encoded(r, RAFT_ENTRY_CONF_CHANGE, buf_bytes(&data));
    buf_free(&data);
    return result;
}

enum raft_result raft_propose_conf_change_v2(struct raft *r, const struct raft_conf_change_v2 *cc)
{
    struct buf data = {0};

    if (cc)
        raft_conf_change_v2_encode(cc, &data);
    enum raft_result result = propose_encoded(r, RAFT_ENTRY_CONF_CHANGE_V2, buf_bytes(&data));
    buf_free(&data);
    return result;
}

/*
 * If the configuration in force is to be left automatically, its leader proposes that as soon as it
 * knows of nothing newer. The proposal is empty, so it is never refused for its size; while a
 * transfer is under way it is dropped, and tried again with the next entry applied.
 */
void raft_maybe_leave_joint(struct raft *r)
{
    if (r->role != RAFT_LEADER || !r->tracker.conf.auto_leave ||
        r->log.applied < r->pending_conf_index)
        return;
    enum raft_result result = raft_propose_conf_change_v2(r, NULL);
    if (result == RAFT_OK)
        SAY_INFO(r, "initiating automatic transition out of joint configuration %s",
                 raft_text_conf(r, &r->tracker.conf));
    else
        SAY_DEBUG(r, "not initiating automatic transition out of joint configuration %s: %s",
                  raft_text_conf(r, &r->tracker.conf), raft_result_text(result));
}

/* --- applying --- */

enum raft_result raft_apply_conf_change(struct raft *r, const struct raft_conf_change_v2 *cc,
                                        struct raft_conf_state *out)
{
    struct tracker next;
    const char *problem = confchange_apply(&r->tracker, raft_log_last(&r->log), cc, &next);

    if (problem) {
        SAY_ERROR(r, ID " cannot apply conf change %s at config %s: %s", r->id,
                  raft_text_conf_change(r, cc), raft_text_conf(r, &r->tracker.conf), problem);
        return RAFT_BAD_CONF_CHANGE;
    }
    raft_switch_configuration(r, &next);
    if (out)
        *out = r->tracker.conf;
    return RAFT_OK;
}

/* A leader under a new configuration: more may be committed, and new members want to hear of it. */
static void lead_new_configuration(struct raft *r)
{
    if (raft_maybe_commit(r)) {
        raft_broadcast_append(r);
    } else {
        for (size_t i = 0; i < r->tracker.count; i++)
            if (r->tracker.members[i].id != r->id)
                raft_send_more(r, &r->tracker.members[i]);
    }
    if (!tracker_is_voter(&r->tracker, r->lead_transferee))
        raft_abort_leader_transfer(r);
}

void raft_switch_configuration(struct raft *r, const struct tracker *next)
{
    confchange_switch(&r->tracker, next);
    SAY_INFO(r, ID " switched to configuration %s", r->id, raft_text_conf(r, &r->tracker.conf));
    const struct raft_progress *own = tracker_peek(&r->tracker, r->id);
    r->is_learner = own && own->is_learner;
    if (r->role != RAFT_LEADER)
        return;
    if (!own || r->is_learner) {
        /* It may go on leading, without counting itself, until someone else takes over. */
        if (r->config.step_down_on_removal)
            raft_become_follower(r, r->term, RAFT_NONE);
    } else if (r->tracker.conf.voters.count > 0) {
        lead_new_configuration(r);
    }
}

/* --- restoring from a snapshot --- */

/* learners_next need not be asked: until the joint configuration is left they vote in its outgoing
 * half. */
static bool conf_state_includes(const struct raft_conf_state *conf, uint64_t id)
{
    const struct raft_ids *lists[] = {&conf->voters, &conf->learners, &conf->voters_outgoing};

    for (size_t l = 0; l < ARRAY_LEN(lists); l++)
        for (size_t i = 0; i < lists[l]->count; i++)
            if (lists[l]->at[i] == id)
                return true;
    return false;
}

/* Takes over a snapshot's log and configuration. False if it is of no use: too old, not meant for
 * us, or we have all of it in the log already and now know that it is committed. */
bool raft_restore_snapshot(struct raft *r, const struct raft_snapshot *s)
{
    struct tracker next;

    assert(r->role == RAFT_FOLLOWER);
    if (s->index <= r->log.committed)
        return false;
    if (!conf_state_includes(&s->conf_state, r->id)) {
        SAY_WARN(r,
                 ID " attempted to restore snapshot but it is not in the ConfState %s; should "
                    "never happen",
                 r->id, raft_text_conf_state(r, &s->conf_state));
        return false;
    }
    if (raft_log_matches(&r->log, s->index, s->term)) {
        SAY_INFO(r,
                 ID " [commit: " NUM ", lastindex: " NUM ", lastterm: " NUM
                    "] fast-forwarded commit to snapshot [index: " NUM ", term: " NUM "]",
                 r->id, r->log.committed, raft_log_last(&r->log), raft_log_last_term(&r->log),
                 s->index, s->term);
        raft_log_commit_to(&r->log, s->index);
        return false;
    }
    /* Before the log is given up for it: afterwards there is no way back. */
    const char *problem = confchange_restore(&r->tracker, s->index, &s->conf_state, &next);
    if (problem) {
        SAY_ERROR(r, ID " unable to restore config %s: %s", r->id,
                  raft_text_conf_state(r, &s->conf_state), problem);
        return false;
    }
    raft_log_restore(&r->log, s);
    raft_switch_configuration(r, &next);
    SAY_INFO(r,
             ID " [commit: " NUM ", lastindex: " NUM ", lastterm: " NUM
                "] restored snapshot [index: " NUM ", term: " NUM "]",
             r->id, r->log.committed, raft_log_last(&r->log), raft_log_last_term(&r->log), s->index,
             s->term);
    return true;
}
