#include "server/housekeeping.h"

#include "auth/auth.h"
#include "base/logger.h"
#include "server/storage_version.h"

#include <stdio.h>

void housekeeping_stop(struct housekeeping *h)
{
    if (!h->o.clock)
        return;
    timer_stop(h->o.clock, &h->settle_timer);
    timer_stop(h->o.clock, &h->compact_timer);
}

/* Leases that were found to have expired are asked for anew: those that the new state has and the
 * old one had not may be older. The others come from the needs that show themselves again. */
void housekeeping_state_replaced(struct housekeeping *h, const struct state *state)
{
    h->o.backend = state->backend;
    h->o.mvcc = state->mvcc;
    h->o.leases = state->leases;
    h->o.cluster = state->cluster;
    h->o.apply = state->apply;
    h->o.auth = state->auth;
    h->revoked = h->expired_count = 0;
    h->next_publish_ms = 0; /* it may have brought what we had asked for: then nobody says so */
    snprintf(h->storage_version, sizeof(h->storage_version), "%s", state->storage_version);
}

/* --- the page store --- */

static void commit_if_due(struct housekeeping *h)
{
    uint64_t now_ms = h->o.facts->now_ms;
    /* A compaction waits for its note to be durable; and it, settling a large delete, or a large
     * entry may have used up what they may have of one batch. A snapshot of the log waits for the
     * entry that it was marked at. */
    bool hurry = mvcc_compact_needs_commit(h->o.mvcc) || mvcc_settle_waiting(h->o.mvcc) ||
                 backend_part_is_due(h->o.backend) ||
                 log_snapshot_awaits_store(h->o.snapshot, backend_durable(h->o.backend).index);
    bool due = now_ms - h->last_commit_ms >= h->o.commit_interval_ms ||
               backend_pending_bytes(h->o.backend) >= HOUSEKEEPING_COMMIT_BYTES || hurry;

    if (!due || !backend_can_commit(h->o.backend))
        return;
    h->last_commit_ms = now_ms;
    backend_commit_start(h->o.backend);
}

/* The index and the store are compacted in the same slices here: what etcd's index takes in one go
 * is in the pauses. */
static void count_slice(struct housekeeping *h, uint64_t began_ns, uint64_t now_ns)
{
    struct housekeeping_stats *s = &h->stats;

    if (h->compaction_began_ns == 0) {
        h->compaction_began_ns = began_ns;
        histogram_observe(&s->index_pauses, HISTOGRAM_500US_14, now_ns - began_ns);
    }
    histogram_observe(&s->pauses, HISTOGRAM_1MS_13, now_ns - began_ns);
    if (mvcc_stats(h->o.mvcc)->compactions == h->compactions)
        return;
    h->compactions = mvcc_stats(h->o.mvcc)->compactions;
    histogram_observe(&s->totals, HISTOGRAM_100MS_14, now_ns - h->compaction_began_ns);
    s->last_unix = h->o.facts->unix_seconds;
    h->compaction_began_ns = 0;
}

/* One that does not pause has a batch that never ends. */
static uint64_t batch_of(const struct housekeeping_options *o)
{
    return o->compact_batch == 0 ? UINT64_MAX : o->compact_batch;
}

static void go_on(struct timer *t)
{
    (void)t; /* it made the inbox wake us: that was all */
}

/* How much may be looked at in one slice. */
static unsigned slice_of_batch(const struct housekeeping *h)
{
    return h->batch_left < h->o.compact_steps ? (unsigned)h->batch_left : h->o.compact_steps;
}

static void pause_after_batch(struct housekeeping *h, unsigned steps)
{
    h->batch_left -= steps;
    if (h->batch_left > 0)
        return;
    h->batch_left = batch_of(&h->o);
    if (h->o.compact_pause_ns == 0)
        return;
    h->compact_timer.on_time = go_on;
    timer_start(h->o.clock, &h->compact_timer, h->o.compact_pause_ns);
}

/* True if there is more to be removed at once. */
static bool compact_some(struct housekeeping *h)
{
    if (!mvcc_compact_pending(h->o.mvcc) || mvcc_compact_waiting(h->o.mvcc) ||
        timer_is_set(&h->compact_timer))
        return false;
    uint64_t began_ns = clock_now_ns(h->o.clock);
    unsigned steps = slice_of_batch(h);
    bool done = mvcc_compact_some(h->o.mvcc, steps);
    count_slice(h, began_ns, clock_now_ns(h->o.clock));
    pause_after_batch(h, steps);
    if (!mvcc_compact_pending(h->o.mvcc))
        log_info(h->o.logger, "finished scheduled compaction",
                 LOG_I64("compact-revision", mvcc_compact_revision(h->o.mvcc)));
    return !done && !timer_is_set(&h->compact_timer);
}

/* True if there is more to be done at once: watchers have waited for the end of it. */
static bool settle_some(struct housekeeping *h)
{
    if (!mvcc_is_settling(h->o.mvcc) || mvcc_settle_waiting(h->o.mvcc) ||
        timer_is_set(&h->settle_timer))
        return false;
    (void)mvcc_settle_some(h->o.mvcc, h->o.settle_steps);
    if (!mvcc_is_settling(h->o.mvcc))
        return true;
    h->settle_timer.on_time = go_on;
    timer_start(h->o.clock, &h->settle_timer, HOUSEKEEPING_PAUSE_US * 1000ull);
    return false;
}

/* --- the quota --- */

void housekeeping_quota_refused(struct housekeeping *h)
{
    uint64_t now_ms = h->o.facts->now_ms;

    if (now_ms < h->next_alarm_ms)
        return;
    h->next_alarm_ms = now_ms + h->o.facts->election_ms;
    log_warn(h->o.logger, "message exceeded backend quota; raising alarm",
             LOG_I64("quota-size-bytes", apply_quota_bytes(h->o.apply)));
}

void housekeeping_quota_exceeded(struct housekeeping *h)
{
    if (h->o.facts->now_ms < h->next_alarm_ms)
        return; /* one is on its way through the log */
    housekeeping_quota_refused(h);
    h->alarm_is_due = true;
}

static bool take_alarm(struct housekeeping *h, struct pb_internal_raft_request *out)
{
    if (!h->alarm_is_due)
        return false;
    h->alarm_is_due = false;
    h->alarm = (struct pb_alarm_request){
        .action = PB_ALARM_ACTIVATE, .member_id = h->o.facts->member_id, .alarm = PB_ALARM_NOSPACE};
    *out = (struct pb_internal_raft_request){.alarm = &h->alarm};
    return true;
}

/* --- leases --- */

static bool counts_time(const struct housekeeping *h)
{
    const struct api_facts *facts = h->o.facts;

    return facts->is_leader && lease_is_primary(h->o.leases);
}

static void look_for_expired(struct housekeeping *h)
{
    const struct api_facts *facts = h->o.facts;

    if (!counts_time(h) || facts->disk_is_full || h->awaits_revokes ||
        facts->now_ms < h->next_lease_ms)
        return;
    h->next_lease_ms = facts->now_ms + HOUSEKEEPING_LEASE_MS;
    h->revoked = 0;
    h->expired_count =
        lease_take_expired(h->o.leases, facts->now_ms, h->expired, ARRAY_LEN(h->expired));
}

static bool take_revocation(struct housekeeping *h, struct pb_internal_raft_request *out)
{
    if (h->revoked == h->expired_count)
        look_for_expired(h);
    if (h->revoked == h->expired_count)
        return false;
    h->stats.leases_expired++;
    h->lease = (struct pb_lease_id){.id = h->expired[h->revoked++]};
    /* Nobody in particular could not delete the keys. */
    struct identity root = auth_root_identity(h->o.auth);
    h->header =
        (struct pb_request_header){.username = root.user, .auth_revision = root.auth_revision};
    *out = (struct pb_internal_raft_request){.lease_revoke = &h->lease, .header = &h->header};
    return true;
}

/* A batch that is full has others behind it, which wait for another turn; not for as long as one
 * would otherwise not look. */
static bool take_checkpoints(struct housekeeping *h, struct pb_internal_raft_request *out)
{
    struct lease_remaining due[LEASE_CHECKPOINTS_MAX];
    uint64_t now_ms = h->o.facts->now_ms;

    if (!counts_time(h) || now_ms < h->next_checkpoint_ms)
        return false;
    size_t count = lease_take_checkpoints(h->o.leases, now_ms, due, ARRAY_LEN(due));
    h->next_checkpoint_ms = now_ms + (count == ARRAY_LEN(due) ? 1 : HOUSEKEEPING_LEASE_MS);
    if (count == 0)
        return false;
    for (size_t i = 0; i < count; i++)
        h->checkpoints[i] =
            (struct pb_lease_checkpoint){.id = due[i].id, .remaining_ttl = due[i].remaining_ttl};
    h->checkpoint = (struct pb_lease_checkpoint_request){.checkpoints = {h->checkpoints, count}};
    *out = (struct pb_internal_raft_request){.lease_checkpoint = &h->checkpoint};
    return true;
}

/* --- versions --- */

static bool downgrade_check_is_due(const struct housekeeping *h)
{
    return h->o.downgrade_check_ms > 0 && h->o.facts->now_ms >= h->next_downgrade_ms &&
           cluster_downgrade(h->o.cluster).enabled;
}

bool housekeeping_wants_versions(struct housekeeping *h)
{
    const struct api_facts *facts = h->o.facts;

    if (!facts->is_leader)
        return false;
    if (facts->now_ms >= h->next_version_ms)
        h->next_version_ms = facts->now_ms + HOUSEKEEPING_VERSION_MS;
    else if (!downgrade_check_is_due(h))
        return false;
    return true;
}

/* Somebody runs what is too old or too new to be downgraded like this: only an operator can help.
 */
static void say_if_stuck(const struct housekeeping *h, const struct version_range *servers)
{
    struct cluster_downgrade downgrade = cluster_downgrade(h->o.cluster);
    struct bytes version = cluster_version(h->o.cluster);
    char lowest[VERSION_TEXT_MAX];

    if (!downgrade.enabled || bytes_equal(downgrade.target_version, version))
        return;
    log_error(h->o.logger, "Failed to monitor cluster version",
              LOG_BYTES("downgrade-target", downgrade.target_version),
              LOG_BYTES("cluster-version", version),
              LOG_STR("minimal-server-version", version_text(servers->lowest, lowest)),
              LOG_STR("error", "invalid downgrade target"));
}

static void end_downgrade_if_over(struct housekeeping *h, const struct version_range *servers)
{
    if (!downgrade_check_is_due(h))
        return;
    h->next_downgrade_ms = h->o.facts->now_ms + h->o.downgrade_check_ms;
    h->downgrade_is_over = servers && cluster_is_downgraded(h->o.cluster, servers);
    if (h->downgrade_is_over)
        log_info(h->o.logger, "the cluster has been downgraded",
                 LOG_BYTES("cluster-version", cluster_downgrade(h->o.cluster).target_version));
}

/* Whoever leads no more by the time all have answered leaves it to the next. */
void housekeeping_versions(struct housekeeping *h, const struct version_range *servers)
{
    h->version_is_due = h->downgrade_is_over = false;
    if (!h->o.facts->is_leader)
        return;
    h->version_is_due =
        cluster_next_version(h->o.cluster, servers ? &servers->lowest : NULL, h->version_text);
    if (servers && !h->version_is_due)
        say_if_stuck(h, servers);
    end_downgrade_if_over(h, servers);
}

static const char *minor_of(struct bytes version, char out[static VERSION_TEXT_MAX])
{
    struct version v;
    bool is_version = version_parse(version, &v);

    assert(is_version);
    return version_minor_text(v, out);
}

static void say_new_version(const struct housekeeping *h)
{
    struct bytes now = cluster_version(h->o.cluster);
    char from[VERSION_TEXT_MAX], to[VERSION_TEXT_MAX];

    minor_of(bytes_of_str(h->version_text), to);
    if (now.len == 0)
        log_info(h->o.logger, "setting up initial cluster version using v3 API",
                 LOG_STR("cluster-version", to));
    else
        log_info(h->o.logger, "updating cluster version using v3 API",
                 LOG_STR("from", minor_of(now, from)), LOG_STR("to", to));
}

static bool take_version(struct housekeeping *h, struct pb_internal_raft_request *out)
{
    if (!h->version_is_due)
        return false;
    h->version_is_due = false;
    say_new_version(h);
    h->version = (struct pb_cluster_version_set_request){.ver = bytes_of_str(h->version_text)};
    *out = (struct pb_internal_raft_request){.cluster_version_set = &h->version};
    return true;
}

static bool take_end_of_downgrade(struct housekeeping *h, struct pb_internal_raft_request *out)
{
    if (!h->downgrade_is_over)
        return false;
    h->downgrade_is_over = false;
    h->downgrade = (struct pb_downgrade_info_set_request){.enabled = false};
    *out = (struct pb_internal_raft_request){.downgrade_info_set = &h->downgrade};
    return true;
}

static void say_version(struct housekeeping *h, struct bytes version)
{
    char from[VERSION_TEXT_MAX], to[VERSION_TEXT_MAX];

    if (bytes_equal(version, bytes_of_str(h->cluster_version)))
        return;
    minor_of(version, to);
    if (h->cluster_version[0] == 0)
        log_info(h->o.logger, "set initial cluster version",
                 LOG_ID("cluster-id", h->o.facts->cluster_id),
                 LOG_ID("local-member-id", h->o.facts->member_id), LOG_STR("cluster-version", to));
    else
        log_info(
            h->o.logger, "updated cluster version", LOG_ID("cluster-id", h->o.facts->cluster_id),
            LOG_ID("local-member-id", h->o.facts->member_id),
            LOG_STR("from", minor_of(bytes_of_str(h->cluster_version), from)), LOG_STR("to", to));
    log_info(h->o.logger, "enabled capabilities for version", LOG_STR("cluster-version", to));
    if (h->o.facts->is_leader) /* who has proposed it */
        log_info(h->o.logger, "cluster version is updated", LOG_STR("cluster-version", to));
    snprintf(h->cluster_version, sizeof(h->cluster_version), "%.*s", (int)version.len, version.at);
}

/* The note that the store is to have. False: leave it as it is, the cluster's version is not
 * decided. */
static bool next_storage_version(const struct housekeeping *h, struct bytes *out)
{
    struct bytes version = cluster_version(h->o.cluster);

    if (version.len == 0 || bytes_equal(version, BYTES(CLUSTER_VERSION_MIN)))
        return false;
    *out = storage_version_of_cluster(version);
    return !bytes_equal(*out, bytes_of_str(h->storage_version));
}

static bool is_lowering(const struct housekeeping *h, struct bytes next)
{
    struct version from, to;

    if (!version_parse(bytes_of_str(h->storage_version), &from))
        return false;
    return !version_parse(next, &to) || version_compare(to, from) < 0;
}

static void say_if_ready(const struct housekeeping *h)
{
    struct cluster_downgrade downgrade = cluster_downgrade(h->o.cluster);

    if (downgrade.enabled)
        log_info(h->o.logger, "The server is ready to downgrade",
                 LOG_BYTES("target-version", downgrade.target_version),
                 LOG_STR("server-version", SERVER_VERSION));
}

/*
 * While an entry is being applied the store is in the middle of it, and the note would be part of
 * that entry: another turn will do. And as long as the log has entries of before the cluster's
 * version was lowered, an older server that trusts the note could meet what it cannot read. etcd
 * looks at all of them, to find what is newer than the target; a snapshot is on its way anyhow, and
 * behind it there are none.
 */
static void follow_version(struct housekeeping *h)
{
    struct bytes version;

    say_version(h, cluster_version(h->o.cluster));
    if (!next_storage_version(h, &version) || apply_is_busy(h->o.apply))
        return;
    if (is_lowering(h, version) && log_snapshot_is_wanted(h->o.snapshot))
        return;
    snprintf(h->storage_version, sizeof(h->storage_version), "%.*s", (int)version.len,
             (const char *)version.at);
    storage_version_write(h->o.backend, version);
    log_info(h->o.logger, "updated storage version",
             LOG_STR("new-storage-version", h->storage_version));
    say_if_ready(h);
}

/* We may have ended between the lowering of the cluster's version and the snapshot: nobody has
 * asked for it since. */
static void want_snapshot_if_lowering(struct housekeeping *h)
{
    struct bytes version;

    if (next_storage_version(h, &version) && is_lowering(h, version))
        log_snapshot_want(h->o.snapshot, h->o.facts->applied_index);
}

/* --- being known, and open for business --- */

bool housekeeping_applied(struct housekeeping *h, uint64_t id)
{
    if (h->is_published || id == 0 || id != h->publish_id)
        return false;
    h->is_published = true;
    log_info(h->o.logger, "published local member to cluster through raft",
             LOG_ID("local-member-id", h->o.facts->member_id),
             LOG_ID("cluster-id", h->o.facts->cluster_id));
    return true;
}

/* Another leader need not have what the one before was given: waiting for the time limit would keep
 * clients out for seconds, and to publish twice does no harm. */
static bool take_publication(struct housekeeping *h, struct pb_internal_raft_request *out)
{
    const struct api_facts *facts = h->o.facts;
    bool is_under_way = facts->now_ms < h->next_publish_ms && facts->leader == h->published_to;

    if (h->is_published || facts->leader == 0 || !cluster_own(h->o.cluster) || is_under_way)
        return false;
    h->published_to = facts->leader;
    h->next_publish_ms = facts->now_ms + h->o.publish_retry_ms;
    h->publication = (struct pb_cluster_member_attr_set_request){
        .member_id = facts->member_id, .member_attributes = &h->o.attributes};
    h->publish_id = 0;
    *out = (struct pb_internal_raft_request){.cluster_member_attr_set = &h->publication};
    return true;
}

/* --- all of it --- */

void housekeeping_init(struct housekeeping *h, const struct housekeeping_options *options,
                       const char *storage_version)
{
    *h = (struct housekeeping){.o = *options};
    if (h->o.settle_steps == 0)
        h->o.settle_steps = MVCC_SLICE_STEPS;
    if (h->o.compact_steps == 0)
        h->o.compact_steps = MVCC_SLICE_STEPS;
    h->batch_left = batch_of(&h->o);
    snprintf(h->storage_version, sizeof(h->storage_version), "%s", storage_version);
    want_snapshot_if_lowering(h);
}

bool housekeeping_take_proposal(struct housekeeping *h, struct pb_internal_raft_request *out)
{
    return take_alarm(h, out) || take_revocation(h, out) || take_checkpoints(h, out) ||
           take_publication(h, out) || take_version(h, out) || take_end_of_downgrade(h, out);
}

/* Only the publication is recognized when it comes back: the others show by what they have done. */
void housekeeping_proposed(struct housekeeping *h, const struct pb_internal_raft_request *request,
                           uint64_t id)
{
    assert(id != 0);

    if (request->cluster_member_attr_set)
        h->publish_id = id;
    if (request->lease_revoke)
        h->revoke_id = id;
}

/*
 * An expired lease stays in the set until its revoke is applied, and is taken again after
 * LEASE_RETRY_MS, because a proposal may be lost. With a slow log every expired lease would be
 * revoked once more every three seconds: the more entries wait to be applied, the more would be
 * proposed, and members would never catch up.
 */
void housekeeping_await_revokes(struct housekeeping *h, bool awaits)
{
    h->awaits_revokes = awaits;
}

/*
 * The leader may have been deposed and elected again while its log had entries that were not
 * committed. Another leader may have replaced them, a revoke among them, by fewer entries. The
 * index that the revoke had may not be reached for as long as nobody writes, and to wait for it
 * would keep all expired leases alive.
 */
void housekeeping_leases_started(struct housekeeping *h)
{
    h->revoke_id = 0;
    h->awaits_revokes = false;
}

bool housekeeping_work(struct housekeeping *h)
{
    bool more = settle_some(h);

    if (compact_some(h))
        more = true;
    if (!lease_settle(h->o.leases, MVCC_SLICE_STEPS))
        more = true;
    follow_version(h);
    commit_if_due(h);
    return more;
}

bool housekeeping_is_published(const struct housekeeping *h)
{
    return h->is_published;
}

void housekeeping_check(const struct housekeeping *h)
{
    struct version version;

    assert(h->batch_left > 0);
    assert(h->revoked <= h->expired_count);
    assert(h->expired_count <= ARRAY_LEN(h->expired));
    assert(!h->is_published || h->publish_id != 0);
    assert(!h->alarm_is_due || h->next_alarm_ms > 0);
    assert(h->last_commit_ms <= h->o.facts->now_ms);
    assert(h->storage_version[0] == 0 || version_parse(bytes_of_str(h->storage_version), &version));
    assert(h->cluster_version[0] == 0 || version_parse(bytes_of_str(h->cluster_version), &version));
}
