/*
 * The network: each message gets a delay of its own, so they overtake each other; some are lost,
 * some come twice, and a cut link swallows what arrives while it is cut.
 */
#include "raft/cluster_int.h"

static void report_later(struct member *from, uint64_t peer, bool delivered)
{
    uint64_t delay = rng_between(&from->cluster->rng, 1, 3 * CLUSTER_TICK);
    struct event *e = cluster_schedule(from->cluster, delay, EVENT_SNAPSHOT_REPORT, from);

    e->peer = peer;
    e->delivered = delivered;
}

/* The sender of a snapshot always hears of its fate; of other messages it may. */
static void message_lost(struct cluster *c, struct member *from, const struct raft_message *m,
                         bool first_copy)
{
    if (!from->up)
        return;
    if (m->type == RAFT_MSG_SNAP) {
        if (first_copy)
            report_later(from, m->to, false);
        return;
    }
    if (rng_chance(&c->rng, 1, 3)) {
        raft_report_unreachable(from->raft, m->to);
        cluster_member_after(from);
    }
}

static void put_in_flight(struct cluster *c, const struct member *from, const struct member *to,
                          const struct raft_message *m, bool first_copy)
{
    uint64_t delay = rng_between(&c->rng, 1, c->weather.delay_max);

    if (m->type == RAFT_MSG_SNAP)
        delay *= rng_between(&c->rng, 1, 5);
    struct event *e = cluster_schedule(c, delay, EVENT_DELIVER, to);
    e->message = raft_message_clone(m);
    e->first_copy = first_copy;
    e->sender = from->slot;
    e->life = from->life; /* the sender's: a report to its next life would be nonsense */
    c->in_flight++;
}

/* These are passed on to the leader as they came, and name who asked, or whom it is about. */
static bool is_forwarded(enum raft_message_type type)
{
    return type == RAFT_MSG_PROP || type == RAFT_MSG_READ_INDEX || type == RAFT_MSG_TRANSFER_LEADER;
}

void cluster_send(struct member *from, const struct raft_message *m)
{
    struct cluster *c = from->cluster;
    struct member *to = cluster_member_by_id(c, m->to);

    cluster_check_send(from, m);
    if (m->from != from->id && !is_forwarded(m->type))
        cluster_broken(c, "honest messages", "member %lu speaks as %lu", from->id, m->from);
    bool lost = rng_chance(&c->rng, c->weather.loss, 100);
    if (!to || lost || c->in_flight >= CLUSTER_FLIGHT_MAX) {
        if (m->type == RAFT_MSG_SNAP)
            report_later(from, m->to, false);
        return;
    }
    put_in_flight(c, from, to, m, true);
    if (rng_chance(&c->rng, c->weather.doubling, 100))
        put_in_flight(c, from, to, m, false);
}

static bool is_acceptable(enum raft_result result)
{
    return result == RAFT_OK || result == RAFT_PROPOSAL_DROPPED || result == RAFT_PEER_NOT_FOUND;
}

void cluster_deliver(struct cluster *c, struct event *e)
{
    const struct raft_message *m = e->message;
    struct member *to = &c->members[e->slot];
    struct member *from = &c->members[e->sender];

    c->in_flight--;
    bool same_life = from->life == e->life;
    if (!to->up || c->weather.cut[from->slot][to->slot]) {
        if (same_life)
            message_lost(c, from, m, e->first_copy);
        return;
    }
    enum raft_result result = raft_step(to->raft, m);
    if (!is_acceptable(result))
        cluster_broken(c, "honest messages", "member %lu calls type %d from %lu: %s", to->id,
                       (int)m->type, m->from, raft_result_text(result));
    cluster_member_after(to);
    if (m->type == RAFT_MSG_SNAP && e->first_copy && same_life && from->up)
        report_later(from, m->to, true);
}

void cluster_snapshot_report(struct cluster *c, const struct event *e)
{
    struct member *m = &c->members[e->slot];

    raft_report_snapshot(m->raft, e->peer, e->delivered);
    cluster_member_after(m);
}
