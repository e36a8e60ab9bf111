/* Housekeeping: what is due from time to time, whether or not anybody calls. The tick wakes us
 * often enough for all of it. */
#include "server/server_int.h"

#include <stdio.h>
#include <string.h>

#define KEY_STORAGE_VERSION BYTES("storageVersion")

/* --- the page store --- */

static void commit_if_due(struct server *s)
{
    /* A compaction waits for its note to be durable; and it, settling a large delete, or a large
     * entry may have used up what they may have of one batch. */
    bool hurry = mvcc_compact_needs_commit(s->mvcc) || mvcc_settle_waiting(s->mvcc) ||
                 backend_part_is_due(s->backend);
    bool due = s->facts.now_ms - s->last_commit_ms >= s->commit_interval_ms ||
               backend_pending_bytes(s->backend) >= COMMIT_BYTES || hurry;

    if (!due || !backend_can_commit(s->backend))
        return;
    s->last_commit_ms = s->facts.now_ms;
    backend_commit_start(s->backend);
}

/* True if there is more to be removed at once. */
static bool compact_some(struct server *s)
{
    if (!mvcc_compact_pending(s->mvcc) || mvcc_compact_waiting(s->mvcc))
        return false;
    bool done = mvcc_compact_some(s->mvcc, MVCC_SLICE_STEPS);
    if (!mvcc_compact_pending(s->mvcc))
        log_info(s->logger, "finished scheduled compaction",
                 LOG_I64("compact-revision", mvcc_compact_revision(s->mvcc)));
    return !done;
}

static void go_on(struct timer *t)
{
    (void)t; /* it made the inbox wake us: that was all */
}

/* True if there is more to be done at once: watchers have waited for the end of it. */
static bool settle_some(struct server *s)
{
    unsigned steps = s->options.settle_steps;

    if (!mvcc_is_settling(s->mvcc) || mvcc_settle_waiting(s->mvcc) ||
        timer_is_set(&s->settle_timer))
        return false;
    (void)mvcc_settle_some(s->mvcc, steps > 0 ? steps : MVCC_SLICE_STEPS);
    if (!mvcc_is_settling(s->mvcc))
        return true;
    s->settle_timer.on_time = go_on;
    timer_start(s->io->clock, &s->settle_timer, SETTLE_PAUSE_US * 1000ull);
    return false;
}

/* --- the quota --- */

void keep_quota_exceeded(struct server *s)
{
    struct pb_alarm_request alarm = {
        .action = PB_ALARM_ACTIVATE, .member_id = s->facts.member_id, .alarm = PB_ALARM_NOSPACE};

    if (s->facts.now_ms < s->next_alarm_ms)
        return;
    s->next_alarm_ms = s->facts.now_ms + s->config->election_ms;
    log_warn(s->logger, "message exceeded backend quota; raising alarm",
             LOG_I64("quota-size-bytes", apply_quota_bytes(s->apply)));
    pending_propose_own(&s->pending, &(struct pb_internal_raft_request){.alarm = &alarm});
}

/* --- leases --- */

static void expire_leases(struct server *s)
{
    int64_t ids[LEASE_REVOKES_MAX];

    if (!s->facts.is_leader || !lease_is_primary(s->leases) || s->facts.tick_is_late ||
        s->facts.now_ms < s->next_lease_ms)
        return;
    s->next_lease_ms = s->facts.now_ms + LEASE_LOOK_MS;
    size_t count = lease_take_expired(s->leases, s->facts.now_ms, ids, ARRAY_LEN(ids));
    for (size_t i = 0; i < count; i++) {
        struct pb_lease_id id = {.id = ids[i]};
        pending_propose_own(&s->pending, &(struct pb_internal_raft_request){.lease_revoke = &id});
    }
}

/* --- versions --- */

static void propose_version(struct server *s)
{
    char text[VERSION_TEXT_MAX];
    struct version own = version_of_server();

    if (!s->facts.is_leader || s->facts.now_ms < s->next_version_ms)
        return;
    s->next_version_ms = s->facts.now_ms + VERSION_LOOK_MS;
    if (!cluster_next_version(s->cluster, &own, text))
        return;
    if (cluster_version(s->cluster).len == 0)
        log_info(s->logger, "setting up initial cluster version using v3 API",
                 LOG_STR("cluster-version", text));
    struct pb_cluster_version_set_request request = {.ver = bytes_of_str(text)};
    pending_propose_own(&s->pending,
                        &(struct pb_internal_raft_request){.cluster_version_set = &request});
}

static void say_version(struct server *s, struct bytes version)
{
    if (bytes_equal(version, bytes_of_str(s->cluster_version)))
        return;
    log_info(s->logger,
             s->cluster_version[0] ? "updated cluster version" : "set initial cluster version",
             LOG_ID("cluster-id", s->facts.cluster_id),
             LOG_ID("local-member-id", s->facts.member_id), LOG_BYTES("cluster-version", version));
    snprintf(s->cluster_version, sizeof(s->cluster_version), "%.*s", (int)version.len, version.at);
}

/* The store says for which version its content is made; it follows the cluster's. Before 3.6 there
 * was no such note, and etcd of that age is not to find one. */
static void follow_version(struct server *s)
{
    struct bytes version = cluster_version(s->cluster);
    struct version wanted;

    say_version(s, version);
    if (version.len == 0 || bytes_equal(version, BYTES(CLUSTER_VERSION_MIN)) ||
        !version_parse(version, &wanted))
        return;
    if (version_compare(wanted, (struct version){3, 6, 0}) < 0)
        version = BYTES("");
    if (bytes_equal(version, bytes_of_str(s->storage_version)) || apply_is_busy(s->apply))
        return;
    snprintf(s->storage_version, sizeof(s->storage_version), "%.*s", (int)version.len,
             (const char *)version.at);
    if (version.len > 0)
        backend_put(s->backend, BUCKET_META, KEY_STORAGE_VERSION, version);
    else
        backend_delete(s->backend, BUCKET_META, KEY_STORAGE_VERSION);
    log_info(s->logger, "updated storage version",
             LOG_STR("new-storage-version", s->storage_version));
}

enum err keep_read_version(struct server *s, struct buf *why)
{
    struct backend_view view;
    struct bytes text;
    struct version found;
    struct version ours = version_of_server();

    backend_view_open(s->backend, &view);
    enum err e = backend_get(&view, BUCKET_META, KEY_STORAGE_VERSION, &text);
    if (e == ERR_CORRUPT)
        buf_append_str(why, backend_view_damage(&view));
    if (e == ERR_OK && (!version_parse(text, &found) || text.len >= sizeof(s->storage_version))) {
        buf_printf(why, "the store's version is not one: \"%.*s\"", (int)text.len, text.at);
        e = ERR_CORRUPT;
    }
    if (e == ERR_OK) {
        found.patch = ours.patch = 0;
        snprintf(s->storage_version, sizeof(s->storage_version), "%.*s", (int)text.len, text.at);
        if (version_compare(found, ours) > 0) {
            buf_printf(why, "the store was written by version %s, which is newer than %s",
                       s->storage_version, SERVER_VERSION);
            e = ERR_UNSUPPORTED;
        }
    }
    backend_view_close(&view);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* --- being known, and open for business --- */

void keep_publish_applied(struct server *s, uint64_t id)
{
    if (s->published || id == 0 || id != s->publish_id)
        return;
    s->published = true;
    log_info(s->logger, "published local member to cluster through raft",
             LOG_ID("local-member-id", s->facts.member_id),
             LOG_ID("cluster-id", s->facts.cluster_id));
    listen_serve(s);
    if (s->options.on_ready)
        s->options.on_ready(s->options.context);
}

static void publish(struct server *s)
{
    if (s->published || s->facts.leader == 0 || !cluster_own(s->cluster) ||
        s->facts.now_ms < s->next_publish_ms)
        return;
    s->next_publish_ms = s->facts.now_ms + s->pending.o.limit_ms;
    struct pb_attributes attributes = {
        .name = bytes_of_str(s->config->name),
        .client_urls = {s->config->advertise_clients.at, s->config->advertise_clients.count},
    };
    struct pb_cluster_member_attr_set_request request = {.member_id = s->facts.member_id,
                                                         .member_attributes = &attributes};
    s->publish_id = pending_propose_own(
        &s->pending, &(struct pb_internal_raft_request){.cluster_member_attr_set = &request});
}

/* --- all of it --- */

bool keep_house(struct server *s)
{
    if (s->final_sync_asked)
        return false; /* what is not done now is done after the next start */
    bool more = settle_some(s);

    if (compact_some(s))
        more = true;
    if (!lease_settle(s->leases, MVCC_SLICE_STEPS))
        more = true;
    follow_version(s);
    commit_if_due(s);
    if (s->is_stopping)
        return more;
    expire_leases(s);
    publish(s);
    propose_version(s);
    return more;
}
