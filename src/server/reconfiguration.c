/*
 * May the members be changed in this way, now? etcd's strict reconfiguration checks.
 *
 * Whatever the answer, the change is checked again when it is applied, by every member alike
 * (cluster.h); what is refused here does not come that far, because it could cost the cluster its
 * quorum. These are questions of this moment, which members answer differently: who has told its
 * name, whom this member has been connected to for five seconds, and how far a learner is, which
 * the leader alone knows.
 */
#include "cluster/cluster.h"
#include "config/config.h"
#include "raft/raft.h"
#include "raft/tracker.h"
#include "server/server_int.h"

static void say_refused(const struct server *s, const char *text, const struct api_change *c,
                        enum result why)
{
    log_warn(s->logger, text, LOG_ID("local-member-id", s->facts.member_id),
             LOG_ID("requested-member-id", c->conf.node_id), LOG_STR("error", result_text(why)));
}

/* Of those who vote, this member among them. */
static size_t count_connected(const struct server *s, size_t *voters)
{
    uint64_t now_ms = s->facts.now_ms;
    uint64_t since_ms = now_ms > RECONFIGURATION_HEALTH_MS ? now_ms - RECONFIGURATION_HEALTH_MS : 0;
    size_t count, connected = 0;
    const struct pb_member *members = cluster_members(s->state.cluster, &count);

    *voters = 0;
    for (size_t i = 0; i < count; i++) {
        if (members[i].is_learner)
            continue;
        ++*voters;
        connected += members[i].id == s->facts.member_id ||
                     peering_is_connected_since(&s->peering, members[i].id, since_ms);
    }
    return connected;
}

/* The new one counts as absent. A cluster of one must be able to grow. */
static bool keeps_quorum_with_one_more(const struct server *s)
{
    size_t voters, connected = count_connected(s, &voters);

    return voters == 1 || connected >= (voters + 1) / 2 + 1;
}

/* More of them would end every member that applies the entry, since a configuration is a value of
 * fixed size. Two members may let one in at the same time, so some places are kept. */
static bool is_full(const struct server *s)
{
    size_t count;

    (void)cluster_members(s->state.cluster, &count);
    return count >= CLUSTER_MEMBERS_MAX - RECONFIGURATION_SPARE_MEMBERS;
}

static enum result check_add(const struct server *s, const struct api_change *c)
{
    if (is_full(s)) {
        say_refused(s, "rejecting member add request; this server can hold no more members", c,
                    RESULT_TOO_MANY_MEMBERS);
        return RESULT_TOO_MANY_MEMBERS;
    }
    if (!s->config->strict_reconfig_check)
        return RESULT_OK;
    if (c->conf.type == RAFT_ADD_NODE && !cluster_may_add_voter(s->state.cluster)) {
        say_refused(s, "rejecting member add request; not enough healthy members", c,
                    RESULT_MEMBER_NOT_ENOUGH_STARTED);
        return RESULT_MEMBER_NOT_ENOUGH_STARTED;
    }
    if (!keeps_quorum_with_one_more(s)) {
        say_refused(s,
                    "rejecting member add request; local member has not been connected to majority "
                    "peers, reconfigure breaks active quorum",
                    c, RESULT_UNHEALTHY);
        return RESULT_UNHEALTHY;
    }
    return RESULT_OK;
}

/* A configuration without voters is none: etcd's members end when they are to apply it. */
static bool is_last_voter(const struct server *s, uint64_t id)
{
    const struct raft_ids *voters = &s->conf_state.voters;

    return voters->count == 1 && voters->at[0] == id;
}

static bool is_down(const struct server *s, uint64_t id)
{
    return id != s->facts.member_id && !peering_is_connected_since(&s->peering, id, UINT64_MAX);
}

static enum result check_remove(const struct server *s, const struct api_change *c)
{
    uint64_t id = c->conf.node_id;
    const struct pb_member *m = cluster_find(s->state.cluster, id);
    size_t voters, connected;

    if (is_last_voter(s, id))
        return RESULT_MEMBER_NOT_ENOUGH_STARTED;
    if (!s->config->strict_reconfig_check || (m && m->is_learner))
        return RESULT_OK;
    if (!cluster_may_remove_voter(s->state.cluster, id)) {
        say_refused(s, "rejecting member remove request; not enough healthy members", c,
                    RESULT_MEMBER_NOT_ENOUGH_STARTED);
        return RESULT_MEMBER_NOT_ENOUGH_STARTED;
    }
    if (is_down(s, id))
        return RESULT_OK; /* it is no part of the quorum there is */
    connected = count_connected(s, &voters);
    if (connected < 2 + (voters - 1) / 2) {
        say_refused(s,
                    "rejecting member remove request; local member has not been connected to all "
                    "peers, reconfigure breaks active quorum",
                    c, RESULT_UNHEALTHY);
        return RESULT_UNHEALTHY;
    }
    return RESULT_OK;
}

static const struct raft_progress *find_progress(const struct server *s, uint64_t id)
{
    const struct raft_progress *p = NULL;

    for (size_t i = 0; (p = raft_progress_at(s->raft, i)) && p->id != id; i++)
        continue;
    return p;
}

/*
 * Nine tenths of the leader's log. Whether it is a learner at all is looked at when it is applied.
 * A leader that was removed has no progress of its own, and whatever it is to propose is dropped:
 * it is raft that says so.
 */
static enum result check_promotion(const struct server *s, const struct api_change *c)
{
    const struct raft_progress *learner = find_progress(s, c->conf.node_id);
    const struct raft_progress *own = find_progress(s, s->facts.member_id);
    uint64_t own_match = own ? own->match : 0;

    if (raft_status(s->raft).soft_state.role != RAFT_LEADER)
        return RESULT_NOT_LEADER; /* since a moment ago */
    if (!learner)
        return RESULT_MEMBER_NOT_FOUND;
    if ((double)learner->match < 0.9 * (double)own_match) {
        log_error(s->logger, "rejecting promote learner: learner is not ready",
                  LOG_U64("learner-match", learner->match), LOG_U64("leader-match", own_match));
        return RESULT_LEARNER_NOT_READY;
    }
    if (s->config->strict_reconfig_check && !cluster_may_promote(s->state.cluster)) {
        say_refused(s, "rejecting member promote request; not enough healthy members", c,
                    RESULT_MEMBER_NOT_ENOUGH_STARTED);
        return RESULT_MEMBER_NOT_ENOUGH_STARTED;
    }
    return RESULT_OK;
}

enum result reconfiguration_check(const struct server *s, const struct api_change *c)
{
    switch (c->conf.type) {
    case RAFT_ADD_NODE:
    case RAFT_ADD_LEARNER_NODE:
        return c->is_promotion ? check_promotion(s, c) : check_add(s, c);
    case RAFT_REMOVE_NODE:
        return check_remove(s, c);
    case RAFT_UPDATE_NODE:
        return RESULT_OK;
    }
    unreachable();
}
