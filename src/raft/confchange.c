#include "raft/confchange.h"

#include "base/assert.h"

/* --- adding and dropping progress --- */

/* The first probe is about our last entry. Most likely the newcomer has no log at all, and by
 * refusing says so. */
static struct raft_progress *add_progress(struct tracker *t, uint64_t id, uint64_t last_index)
{
    size_t place = 0;

    if (t->count == RAFT_MEMBERS_MAX)
        return NULL;
    while (place < t->count && t->members[place].id < id)
        place++;
    memmove(&t->members[place + 1], &t->members[place],
            (t->count - place) * sizeof(struct raft_progress));
    t->count++;
    /*
     * A new member counts as active: it has had no chance to say anything, and a quorum check that
     * came first would make the leader step down for having grown the cluster.
     */
    t->members[place] = (struct raft_progress){
        .id = id,
        .next = last_index > 1 ? last_index : 1,
        .recent_active = true,
        .inflights = {.count_max = t->max_inflight_messages, .bytes_max = t->max_inflight_bytes},
    };
    return &t->members[place];
}

/* The ring of its window stays: this tracker is a copy that may yet be refused, and the original
 * goes on with it. confchange_switch frees what nobody has taken over. */
static void drop_progress(struct tracker *t, uint64_t id)
{
    struct raft_progress *p = tracker_find(t, id);

    if (!p)
        return;
    size_t place = (size_t)(p - t->members);
    t->count--;
    memmove(p, p + 1, (t->count - place) * sizeof(struct raft_progress));
}

/* --- the single changes --- */

static const char *make_voter(struct tracker *t, uint64_t id, uint64_t last_index)
{
    struct raft_progress *p = tracker_find(t, id);

    if (!p && !(p = add_progress(t, id, last_index)))
        return "too many members";
    p->is_learner = false;
    raft_ids_remove(&t->conf.learners, id);
    raft_ids_remove(&t->conf.learners_next, id);
    raft_ids_insert(&t->conf.voters, id);
    return NULL;
}

static void remove_member(struct tracker *t, uint64_t id)
{
    raft_ids_remove(&t->conf.voters, id);
    raft_ids_remove(&t->conf.learners, id);
    raft_ids_remove(&t->conf.learners_next, id);
    if (!raft_ids_have(&t->conf.voters_outgoing, id)) /* there its match still counts */
        drop_progress(t, id);
}

static const char *make_learner(struct tracker *t, uint64_t id, uint64_t last_index)
{
    struct raft_progress *p = tracker_find(t, id);

    if (p && p->is_learner)
        return NULL;
    if (!p && !(p = add_progress(t, id, last_index)))
        return "too many members";
    raft_ids_remove(&t->conf.voters, id);
    /* As long as the outgoing half counts its vote, it is a voter. */
    if (raft_ids_have(&t->conf.voters_outgoing, id)) {
        raft_ids_insert(&t->conf.learners_next, id);
    } else {
        p->is_learner = true;
        raft_ids_insert(&t->conf.learners, id);
    }
    return NULL;
}

static const char *apply_single(struct tracker *t, uint64_t last_index,
                                const struct raft_conf_change_single *change)
{
    if (change->node_id == RAFT_NONE)
        return NULL; /* etcd's way of saying that the application refused this one */
    switch (change->type) {
    case RAFT_ADD_NODE:
        return make_voter(t, change->node_id, last_index);
    case RAFT_ADD_LEARNER_NODE:
        return make_learner(t, change->node_id, last_index);
    case RAFT_REMOVE_NODE:
        remove_member(t, change->node_id);
        return NULL;
    case RAFT_UPDATE_NODE:
        return NULL;
    }
    return "unexpected conf type";
}

static const char *apply_all(struct tracker *t, uint64_t last_index,
                             const struct raft_conf_change_single *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *problem = apply_single(t, last_index, &changes[i]);
        if (problem)
            return problem;
    }
    return t->conf.voters.count == 0 ? "removed all voters" : NULL;
}

/* --- the three transitions --- */

/* How many are in one list and not in the other. */
static size_t difference(const struct raft_ids *a, const struct raft_ids *b)
{
    size_t count = 0;

    for (size_t i = 0; i < a->count; i++)
        count += !raft_ids_have(b, a->at[i]);
    for (size_t i = 0; i < b->count; i++)
        count += !raft_ids_have(a, b->at[i]);
    return count;
}

const char *confchange_simple(const struct tracker *from, uint64_t last_index,
                              const struct raft_conf_change_single *changes, size_t count,
                              struct tracker *out)
{
    struct tracker next = *from;

    if (tracker_is_joint(from))
        return "can't apply simple config change in joint config";
    const char *problem = apply_all(&next, last_index, changes, count);
    if (problem)
        return problem;
    if (difference(&from->conf.voters, &next.conf.voters) > 1)
        return "more than one voter changed without entering joint config";
    *out = next;
    return NULL;
}

const char *confchange_enter_joint(const struct tracker *from, uint64_t last_index, bool auto_leave,
                                   const struct raft_conf_change_single *changes, size_t count,
                                   struct tracker *out)
{
    struct tracker next = *from;

    if (tracker_is_joint(from))
        return "config is already joint";
    if (from->conf.voters.count == 0)
        return "can't make a zero-voter config joint";
    next.conf.voters_outgoing = from->conf.voters;
    const char *problem = apply_all(&next, last_index, changes, count);
    if (problem)
        return problem;
    next.conf.auto_leave = auto_leave;
    *out = next;
    return NULL;
}

const char *confchange_leave_joint(const struct tracker *from, struct tracker *out)
{
    struct tracker next = *from;
    struct raft_ids gone = from->conf.voters_outgoing;

    if (!tracker_is_joint(from))
        return "can't leave a non-joint config";
    next.conf.voters_outgoing.count = 0;
    next.conf.auto_leave = false;
    for (size_t i = 0; i < next.conf.learners_next.count; i++) {
        raft_ids_insert(&next.conf.learners, next.conf.learners_next.at[i]);
        tracker_find(&next, next.conf.learners_next.at[i])->is_learner = true;
    }
    next.conf.learners_next.count = 0;
    for (size_t i = 0; i < gone.count; i++)
        if (!raft_ids_have(&next.conf.voters, gone.at[i]) &&
            !raft_ids_have(&next.conf.learners, gone.at[i]))
            drop_progress(&next, gone.at[i]);
    *out = next;
    return NULL;
}

bool confchange_leaves_joint(const struct raft_conf_change_v2 *cc)
{
    return cc->transition == RAFT_TRANSITION_AUTO && cc->change_count == 0;
}

const char *confchange_apply(const struct tracker *from, uint64_t last_index,
                             const struct raft_conf_change_v2 *cc, struct tracker *out)
{
    if (cc->transition > RAFT_TRANSITION_JOINT_EXPLICIT)
        return "unknown transition";
    if (confchange_leaves_joint(cc))
        return confchange_leave_joint(from, out);
    if (cc->transition == RAFT_TRANSITION_AUTO && cc->change_count == 1)
        return confchange_simple(from, last_index, cc->changes, cc->change_count, out);
    bool auto_leave = cc->transition != RAFT_TRANSITION_JOINT_EXPLICIT;
    return confchange_enter_joint(from, last_index, auto_leave, cc->changes, cc->change_count, out);
}

/* --- restoring --- */

static bool conf_states_equivalent(const struct raft_conf_state *sorted,
                                   const struct raft_conf_state *other)
{
    struct raft_ids voters = raft_ids_sorted(&other->voters);
    struct raft_ids learners = raft_ids_sorted(&other->learners);
    struct raft_ids outgoing = raft_ids_sorted(&other->voters_outgoing);
    struct raft_ids next = raft_ids_sorted(&other->learners_next);

    return sorted->auto_leave == other->auto_leave && raft_ids_equal(&sorted->voters, &voters) &&
           raft_ids_equal(&sorted->learners, &learners) &&
           raft_ids_equal(&sorted->voters_outgoing, &outgoing) &&
           raft_ids_equal(&sorted->learners_next, &next);
}

static const char *apply_each(struct tracker *t, uint64_t last_index, const struct raft_ids *ids,
                              enum raft_conf_change_type type)
{
    for (size_t i = 0; i < ids->count; i++) {
        struct raft_conf_change_single change = {type, ids->at[i]};
        const char *problem = apply_single(t, last_index, &change);
        if (problem)
            return problem;
    }
    return NULL;
}

/*
 * The configuration is built by the changes that might have led to it: first its outgoing half as
 * a configuration of its own, which then becomes the outgoing half, then everyone else on top. A
 * conf state that contradicts itself (a voter that is a learner as well) comes out different, and
 * that is how it is found out.
 */
const char *confchange_restore(const struct tracker *limits, uint64_t last_index,
                               const struct raft_conf_state *conf, struct tracker *out)
{
    struct tracker next = {
        .max_inflight_messages = limits->max_inflight_messages,
        .max_inflight_bytes = limits->max_inflight_bytes,
    };
    const char *problem = apply_each(&next, last_index, &conf->voters_outgoing, RAFT_ADD_NODE);

    next.conf.voters_outgoing = next.conf.voters;
    next.conf.auto_leave = conf->auto_leave;
    if (!problem)
        problem = apply_each(&next, last_index, &conf->voters_outgoing, RAFT_REMOVE_NODE);
    if (!problem)
        problem = apply_each(&next, last_index, &conf->voters, RAFT_ADD_NODE);
    if (!problem)
        problem = apply_each(&next, last_index, &conf->learners, RAFT_ADD_LEARNER_NODE);
    if (!problem)
        problem = apply_each(&next, last_index, &conf->learners_next, RAFT_ADD_LEARNER_NODE);
    if (problem)
        return problem;
    if (next.conf.voters.count == 0 && next.count > 0)
        return "removed all voters";
    if (!conf_states_equivalent(&next.conf, conf) || (conf->auto_leave && !tracker_is_joint(&next)))
        return "ConfStates not equivalent after sorting";
    *out = next;
    return NULL;
}

void confchange_switch(struct tracker *t, const struct tracker *next)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct raft_progress *kept = tracker_peek(next, t->members[i].id);
        if (!kept || kept->inflights.ring != t->members[i].inflights.ring)
            mem_free(t->members[i].inflights.ring);
    }
    *t = *next;
}
