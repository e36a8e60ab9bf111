#include "apply/apply_int.h"

/* Tags of the responses' fields. */
enum {
    TAG_LEASE_ID = 0x10,
    TAG_LEASE_TTL = 0x18,
    TAG_ALARMS = 0x12,
};

/* ---- Compaction ---- */

void admin_compaction(struct apply *a)
{
    const struct pb_compaction_request *c = a->request.compaction;
    struct apply_effects *e = &a->effects;

    e->compact_revision = c->revision;
    e->compact_physical = c->physical;
    switch (mvcc_compact(a->o.mvcc, c->revision)) {
    case MVCC_OK:
        e->compacted = true;
        a->stats.ranges++; /* etcd reads a key, for the revision of its response */
        break;
    case MVCC_COMPACTED:
        e->result = RESULT_COMPACTED;
        break;
    case MVCC_FUTURE:
        e->result = RESULT_FUTURE_REV;
        break;
    }
}

/* ---- Leases ---- */

static enum result result_of_lease(enum lease_result l)
{
    switch (l) {
    case LEASE_OK:
        return RESULT_OK;
    case LEASE_NOT_FOUND:
        return RESULT_LEASE_NOT_FOUND;
    case LEASE_EXISTS:
        return RESULT_LEASE_EXIST;
    case LEASE_TTL_TOO_LARGE:
        return RESULT_LEASE_TTL_TOO_LARGE;
    case LEASE_NOT_PRIMARY: /* only renewals get these */
    case LEASE_EXPIRED:
        break;
    }
    unreachable();
}

void admin_lease_grant(struct apply *a)
{
    const struct pb_lease_grant_request *g = a->request.lease_grant;
    struct apply_effects *e = &a->effects;
    int64_t ttl = 0;

    e->result = result_of_lease(lease_grant(a->o.leases, g->id, g->ttl, a->now_ms, &ttl));
    if (e->result != RESULT_OK || !a->awaited)
        return;
    reply_add_number(&e->reply, TAG_LEASE_ID, (uint64_t)g->id);
    reply_add_number(&e->reply, TAG_LEASE_TTL, (uint64_t)ttl);
}

static bool begin_revoke(struct apply *a, int64_t id)
{
    a->effects.result = result_of_lease(lease_revoke_begin(a->o.leases, id));
    if (a->effects.result != RESULT_OK)
        return false;
    mvcc_write_begin(a->o.mvcc);
    a->revoking = true;
    return true;
}

enum { REVOKE_STEPS = 3 }; /* a key costs that much more than one that is only looked at */

/* The keys go in ascending order and all under one revision, or members would come to differ. */
bool admin_lease_revoke(struct apply *a, unsigned *steps)
{
    int64_t id = a->request.lease_revoke->id;
    struct bytes key;

    if (!a->revoking && !begin_revoke(a, id))
        return true;
    /* Always the first that is left: between two slices there is nothing to remember, and nothing
     * that could have moved. */
    while (lease_first_key(a->o.leases, id, &key)) {
        if (*steps == 0)
            return false;
        spend(steps, REVOKE_STEPS + key.len / MVCC_TOMBSTONE_STEP_BYTES);
        a->work.deletes++;
        (void)mvcc_delete(a->o.mvcc, key); /* one that is dead already is no longer attached */
        lease_detach(a->o.leases, key);
    }
    lease_revoke_end(a->o.leases, id);
    work_count(&a->work);
    mvcc_write_end(a->o.mvcc, &a->effects.changes);
    a->revoking = false;
    return true;
}

bool admin_lease_checkpoint(struct apply *a, unsigned *steps)
{
    const struct pb_lease_checkpoint_request *c = a->request.lease_checkpoint;

    for (; a->checkpoint_at < c->checkpoints.count; a->checkpoint_at++, spend(steps, 1)) {
        const struct pb_lease_checkpoint *one = &c->checkpoints.at[a->checkpoint_at];
        if (*steps == 0)
            return false;
        lease_checkpoint(a->o.leases, one->id, one->remaining_ttl);
    }
    return true;
}

/* ---- Alarms ---- */

static void show_alarm(struct apply *a, struct apply_alarm alarm)
{
    struct reply *r = &a->effects.reply;

    if (!a->awaited)
        return;
    size_t mark = reply_mark(r);
    pb_encode_alarm_member(
        &(struct pb_alarm_member){.member_id = alarm.member, .alarm = alarm.alarm}, reply_text(r));
    reply_added(r);
    reply_close(r, mark, TAG_ALARMS);
}

static void show_alarms(struct apply *a, int32_t which)
{
    for (size_t i = 0; i < a->alarms.count; i++)
        if (which == PB_ALARM_NONE || a->alarms.at[i].alarm == which)
            show_alarm(a, a->alarms.at[i]);
}

/* An action that nobody knows does nothing, in etcd too. */
void admin_alarm(struct apply *a)
{
    const struct pb_alarm_request *r = a->request.alarm;
    struct apply_alarm alarm = {r->member_id, r->alarm};

    switch (r->action) {
    case PB_ALARM_GET:
        show_alarms(a, r->alarm);
        break;
    case PB_ALARM_ACTIVATE:
        if (r->alarm == PB_ALARM_NONE)
            break;
        (void)alarms_raise(&a->alarms, a->o.backend, alarm); /* that it is up already is fine */
        show_alarm(a, alarm);
        break;
    case PB_ALARM_DEACTIVATE:
        if (alarms_clear(&a->alarms, a->o.backend, alarm))
            show_alarm(a, alarm);
        break;
    }
}

/* ---- Members and versions ---- */

static bool keeps_remaining_ttls(struct bytes cluster_version)
{
    struct version v;

    return version_parse(cluster_version, &v) &&
           version_compare(v, (struct version){.major = 3, .minor = 6}) >= 0;
}

void admin_note_version(struct apply *a)
{
    lease_persist_checkpoints(a->o.leases, a->o.checkpoint_persist ||
                                               keeps_remaining_ttls(cluster_version(a->o.cluster)));
}

void admin_cluster_version_set(struct apply *a)
{
    struct buf why = {0};
    struct version before, after;
    bool had = version_parse(cluster_version(a->o.cluster), &before);

    if (cluster_set_version(a->o.cluster, a->request.cluster_version_set->ver, &why)) {
        admin_note_version(a);
        a->effects.version_lowered = had && version_parse(cluster_version(a->o.cluster), &after) &&
                                     version_compare(after, before) < 0;
    } else {
        apply_refuse(a, "it sets the cluster's version: %s", buf_str(&why));
    }
    buf_free(&why);
}

void admin_cluster_member_attr_set(struct apply *a)
{
    const struct pb_cluster_member_attr_set_request *r = a->request.cluster_member_attr_set;
    const struct pb_attributes *of = r->member_attributes;

    if (!of) {
        apply_refuse(a, "it names member %llx without its attributes",
                     (unsigned long long)r->member_id);
        return;
    }
    enum cluster_result result =
        cluster_set_attributes(a->o.cluster, r->member_id, of->name,
                               (struct url_list){of->client_urls.at, of->client_urls.count});
    if (result != CLUSTER_OK && result != CLUSTER_ID_REMOVED)
        apply_refuse(a, "it sets the attributes of member %llx: %s",
                     (unsigned long long)r->member_id, cluster_result_text(result));
}

void admin_downgrade_info_set(struct apply *a)
{
    const struct pb_downgrade_info_set_request *r = a->request.downgrade_info_set;
    struct buf why = {0};

    if (!cluster_set_downgrade(a->o.cluster, r->enabled, r->ver, &why))
        apply_refuse(a, "it sets a downgrade: %s", buf_str(&why));
    buf_free(&why);
}

static enum result result_of_cluster(enum cluster_result result)
{
    switch (result) {
    case CLUSTER_OK:
        return RESULT_OK;
    case CLUSTER_ID_REMOVED:
    case CLUSTER_ID_NOT_FOUND:
        return RESULT_MEMBER_NOT_FOUND;
    case CLUSTER_ID_EXISTS:
        return RESULT_MEMBER_EXIST;
    case CLUSTER_PEER_URL_EXISTS:
        return RESULT_PEER_URL_EXIST;
    case CLUSTER_NOT_LEARNER:
        return RESULT_MEMBER_NOT_LEARNER;
    case CLUSTER_TOO_MANY_LEARNERS:
        return RESULT_TOO_MANY_LEARNERS;
    case CLUSTER_BAD_CONTEXT: /* fatal: no answers */
    case CLUSTER_TOO_MANY_MEMBERS:
        break;
    }
    unreachable();
}

void admin_conf_change(struct apply *a, const struct raft_conf_change *cc)
{
    struct apply_effects *e = &a->effects;
    enum cluster_result result = cluster_apply_conf_change(a->o.cluster, cc, &e->removed_self);

    if (cluster_result_is_fatal(result)) {
        apply_refuse(a, "it changes member %llx: %s", (unsigned long long)cc->node_id,
                     cluster_result_text(result));
        return;
    }
    e->result = result_of_cluster(result);
    if (e->result != RESULT_OK)
        e->conf_change.node_id = 0; /* raft hears of it, and changes nothing */
}
