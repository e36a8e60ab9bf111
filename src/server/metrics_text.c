/*
 * All families, each with etcd's name, type, labels, buckets and help. Grouped by the room that is
 * asked: exposition_sort puts them in the order in which they are shown.
 */
#include "server/metrics.h"

#include "base/json.h"
#include "cluster/cluster.h"
#include "config/config.h"
#include "mvcc/mvcc.h"
#include "peer/peer.h"
#include "raft/raft.h"
#include "server/exposition.h"
#include "server/server_int.h"
#include "wal/wal.h"
#include "watch/watch.h"

#include <inttypes.h>
#include <stdio.h>

/* How many of a unit of the histogram make one of the text's. */
enum { SECONDS = 1000000000, MILLISECONDS = 1000000, ONES = 1 };

static void one_histogram(struct exposition *x, const char *name, const char *help,
                          const struct histogram *h, struct histogram_shape shape, uint64_t parts)
{
    exposition_family(x, name, "histogram", help);
    exposition_histogram(x, NULL, h, shape, parts);
}

static void one_info(struct exposition *x, const char *name, const char *help, const char *label,
                     struct bytes value)
{
    struct buf labels = {0};

    exposition_label(&labels, label, value);
    exposition_family(x, name, "gauge", help);
    exposition_number(x, buf_str(&labels), 1);
    buf_free(&labels);
}

/* --- mvcc, lease, watch, apply --- */

static void show_store(struct exposition *x, struct server *s)
{
    const struct apply_stats *a = apply_stats(s->state.apply);
    struct mvcc_status status = mvcc_status(s->state.mvcc);
    struct backend_sizes sizes = backend_sizes(s->state.backend);

    exposition_counter(x, "etcd_mvcc_range_total", "Total number of ranges seen by this member.",
                       a->ranges);
    exposition_counter(x, "etcd_mvcc_put_total", "Total number of puts seen by this member.",
                       a->puts);
    exposition_counter(x, "etcd_mvcc_delete_total", "Total number of deletes seen by this member.",
                       a->deletes);
    exposition_counter(x, "etcd_mvcc_txn_total", "Total number of txns seen by this member.",
                       a->txns);
    exposition_gauge(x, "etcd_debugging_mvcc_total_put_size_in_bytes",
                     "The total size of put kv pairs seen by this member.", a->put_bytes);
    exposition_gauge(x, "etcd_debugging_mvcc_keys_total", "Total number of keys.",
                     (uint64_t)mvcc_key_count(s->state.mvcc));
    exposition_gauge(x, "etcd_debugging_mvcc_current_revision", "The current revision of store.",
                     (uint64_t)mvcc_revision(s->state.mvcc));
    exposition_family(x, "etcd_debugging_mvcc_compact_revision", "gauge",
                      "The revision of the last compaction in store.");
    exposition_float(x, NULL, (double)mvcc_compact_revision(s->state.mvcc)); /* -1: none */
    /* The state that all read, and whoever holds an older one. */
    exposition_gauge(x, "etcd_mvcc_db_open_read_transactions",
                     "The number of currently open read transactions",
                     1 + status.pins + status.image_pins);
    exposition_gauge(x, "etcd_mvcc_db_total_size_in_bytes",
                     "Total size of the underlying database physically allocated in bytes.",
                     sizes.file_bytes);
    exposition_gauge(x, "etcd_mvcc_db_total_size_in_use_in_bytes",
                     "Total size of the underlying database logically in use in bytes.",
                     sizes.used_bytes);
    exposition_gauge(x, "etcd_debugging_auth_revision", "The current revision of auth store.",
                     apply_auth_revision(s->state.apply));
}

static void show_compactions(struct exposition *x, struct server *s)
{
    const struct housekeeping_stats *h = &s->housekeeping.stats;

    exposition_counter(x, "etcd_debugging_mvcc_db_compaction_keys_total",
                       "Total number of db keys compacted.",
                       mvcc_stats(s->state.mvcc)->revisions_removed);
    exposition_gauge(x, "etcd_debugging_mvcc_db_compaction_last",
                     "The unix time of the last db compaction. Resets to 0 on start.",
                     (uint64_t)h->last_unix);
    one_histogram(x, "etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds",
                  "Bucketed histogram of index compaction pause duration.", &h->index_pauses,
                  HISTOGRAM_500US_14, MILLISECONDS);
    one_histogram(x, "etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds",
                  "Bucketed histogram of db compaction pause duration.", &h->pauses,
                  HISTOGRAM_1MS_13, MILLISECONDS);
    one_histogram(x, "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds",
                  "Bucketed histogram of db compaction total duration.", &h->totals,
                  HISTOGRAM_100MS_14, MILLISECONDS);
}

static void show_leases(struct exposition *x, struct server *s)
{
    const struct lease_stats *l = lease_stats(s->state.leases);

    exposition_counter(x, "etcd_debugging_lease_granted_total",
                       "The total number of granted leases.", l->granted);
    exposition_counter(x, "etcd_debugging_lease_revoked_total",
                       "The total number of revoked leases.", l->revoked);
    exposition_counter(x, "etcd_debugging_lease_renewed_total",
                       "The number of renewed leases seen by the leader.", l->renewed);
    one_histogram(x, "etcd_debugging_lease_ttl_total", "Bucketed histogram of lease TTLs.", &l->ttl,
                  HISTOGRAM_1S_24, ONES);
    exposition_counter(x, "etcd_debugging_server_lease_expired_total",
                       "The total number of expired leases.", s->housekeeping.stats.leases_expired);
}

static void show_watchers(struct exposition *x, struct server *s)
{
    struct watch_stats w = watch_stats(s->clients.watch);
    const struct api_stats *a = api_stats(s->clients.api);

    exposition_gauge(x, "etcd_debugging_mvcc_watch_stream_total", "Total number of watch streams.",
                     w.streams);
    exposition_gauge(x, "etcd_debugging_mvcc_watcher_total", "Total number of watchers.",
                     w.watchers);
    exposition_gauge(x, "etcd_debugging_mvcc_slow_watcher_total",
                     "Total number of unsynced slow watchers.", w.lagging);
    exposition_counter(x, "etcd_debugging_mvcc_events_total",
                       "Total number of events sent by this member.", w.events);
    exposition_gauge(x, "etcd_debugging_mvcc_pending_events_total",
                     "Total number of pending events to be sent.", w.pending_events);
    one_histogram(x, "etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds",
                  "The total duration in seconds of running through the send loop watch stream "
                  "response all events.",
                  &a->watch_events, HISTOGRAM_1MS_14, SECONDS);
    one_histogram(x,
                  "etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds",
                  "The average duration in seconds of running through the send loop watch stream "
                  "response, per event.",
                  &a->watch_per_event, HISTOGRAM_1MS_14, SECONDS);
    one_histogram(
        x, "etcd_debugging_server_watch_send_loop_control_stream_duration_seconds",
        "The total duration in seconds of running through the send loop control stream response.",
        &a->watch_controls, HISTOGRAM_1MS_14, SECONDS);
    one_histogram(x, "etcd_debugging_server_watch_send_loop_progress_duration_seconds",
                  "The total duration in seconds of running through the progress loop control "
                  "stream response.",
                  &a->watch_progress, HISTOGRAM_1MS_14, SECONDS);
}

/* --- disks --- */

static void show_disks(struct exposition *x, struct server *s)
{
    const struct wal_stats *log = wal_stats(s->wal);
    const struct backend_stats *store = backend_stats(s->state.backend);
    const struct api_stats *a = api_stats(s->clients.api);

    one_histogram(x, "etcd_disk_wal_fsync_duration_seconds",
                  "The latency distributions of fsync called by WAL.", &log->sync, HISTOGRAM_1MS_14,
                  SECONDS);
    one_histogram(x, "etcd_disk_wal_write_duration_seconds",
                  "The latency distributions of write called by WAL.", &log->write,
                  HISTOGRAM_1MS_14, SECONDS);
    exposition_gauge(x, "etcd_disk_wal_write_bytes_total", "Total number of bytes written in WAL.",
                     wal_status(s->wal).bytes_written);
    one_histogram(x, "etcd_disk_backend_commit_duration_seconds",
                  "The latency distributions of commit called by backend.", &store->commit,
                  HISTOGRAM_1MS_14, SECONDS);
    one_histogram(x, "etcd_debugging_disk_backend_commit_spill_duration_seconds",
                  "The latency distributions of commit.spill called by bboltdb backend.",
                  &store->commit_changes, HISTOGRAM_1MS_14, SECONDS);
    one_histogram(x, "etcd_debugging_disk_backend_commit_write_duration_seconds",
                  "The latency distributions of commit.write called by bboltdb backend.",
                  &store->commit_write, HISTOGRAM_1MS_14, SECONDS);
    /* LMDB does that while pages are changed. */
    struct histogram rebalance = {.at = {histogram_count(&store->commit)}};
    one_histogram(x, "etcd_debugging_disk_backend_commit_rebalance_duration_seconds",
                  "The latency distributions of commit.rebalance called by bboltdb backend.",
                  &rebalance, HISTOGRAM_1MS_14, SECONDS);
    one_histogram(x, "etcd_disk_backend_defrag_duration_seconds",
                  "The latency distribution of backend defragmentation.", &a->defragmentations,
                  HISTOGRAM_100MS_13, SECONDS);
    exposition_gauge(x, "etcd_disk_defrag_inflight",
                     "Whether or not defrag is active on the member. 1 means active, 0 means not.",
                     api_is_defragmenting(s->clients.api));
    one_histogram(x, "etcd_disk_backend_snapshot_duration_seconds",
                  "The latency distribution of backend snapshots.", &a->snapshots,
                  HISTOGRAM_10MS_17, SECONDS);
    one_histogram(x, "etcd_mvcc_hash_duration_seconds",
                  "The latency distribution of storage hash operation.", &a->hash,
                  HISTOGRAM_10MS_15, SECONDS);
    one_histogram(x, "etcd_mvcc_hash_rev_duration_seconds",
                  "The latency distribution of storage hash by revision operation.", &a->hash_kv,
                  HISTOGRAM_10MS_15, SECONDS);
    /* The file is made, written and synced in one go: there is one time for all of it. */
    one_histogram(x, "etcd_debugging_snap_save_total_duration_seconds",
                  "The total latency distributions of save called by snapshot.", &s->snapshot.saves,
                  HISTOGRAM_1MS_14, SECONDS);
    one_histogram(x, "etcd_debugging_snap_save_marshalling_duration_seconds",
                  "The marshalling cost distributions of save called by snapshot.",
                  &s->snapshot.saves, HISTOGRAM_1MS_14, SECONDS);
    one_histogram(x, "etcd_snap_fsync_duration_seconds",
                  "The latency distributions of fsync called by snap.", &s->snapshot.saves,
                  HISTOGRAM_1MS_14, SECONDS);
    one_histogram(x, "etcd_snap_db_fsync_duration_seconds",
                  "The latency distributions of fsyncing .snap.db file", &s->receiving.syncs,
                  HISTOGRAM_1MS_14, SECONDS);
    one_histogram(x, "etcd_snap_db_save_total_duration_seconds",
                  "The total latency distributions of v3 snapshot save", &s->receiving.saves,
                  HISTOGRAM_100MS_10, SECONDS);
}

/* --- the server --- */

/* Of a table by kind and by whether it went well, those that were ever used. */
static void show_kinds(struct exposition *x, struct histogram (*of)[2], const char *before,
                       const char *between, const char *after, struct histogram_shape shape)
{
    struct buf labels = {0};

    for (unsigned kind = 0; kind < APPLY_KINDS; kind++)
        for (unsigned well = 0; well < 2; well++) {
            if (histogram_count(&of[kind][well]) == 0)
                continue;
            buf_clear(&labels);
            buf_append_str(&labels, before);
            if (between[0] == 0) /* the kind comes last */
                buf_append_str(&labels, well ? "true\",type=\"" : "false\",type=\"");
            apply_kind_name(kind, &labels);
            if (between[0] != 0) {
                buf_append_str(&labels, between);
                buf_append_str(&labels, well ? "true" : "false");
            }
            buf_append_str(&labels, after);
            exposition_histogram(x, buf_str(&labels), &of[kind][well], shape, SECONDS);
        }
    buf_free(&labels);
}

static void show_timed(struct exposition *x, const struct api_timed *t, const char *after,
                       struct histogram_shape shape)
{
    char labels[64];

    for (unsigned well = 0; well < 2; well++) {
        if (histogram_count(&t->took[well]) == 0)
            continue;
        snprintf(labels, sizeof(labels), "success=\"%s\"%s", well ? "true" : "false", after);
        exposition_histogram(x, labels, &t->took[well], shape, SECONDS);
    }
}

static void show_requests(struct exposition *x, struct server *s)
{
    const struct api_stats *a = api_stats(s->clients.api);
    struct metrics *m = s->metrics;

    exposition_family(x, "etcd_server_apply_duration_seconds", "histogram",
                      "The latency distributions of v2 apply called by backend.");
    show_kinds(x, m->applied, "op=\"", "\",success=\"", "\",version=\"v3\"", HISTOGRAM_100US_20);
    exposition_family(x, "etcd_server_range_duration_seconds", "histogram",
                      "The latency distributions of txn.Range");
    show_timed(x, &a->ranges, "", HISTOGRAM_100US_20);
    exposition_family(x, "etcd_server_request_duration_seconds", "histogram",
                      "Response latency distribution in seconds for each type.");
    show_kinds(x, m->requests, "success=\"", "", "\"", HISTOGRAM_1MS_14);
    show_timed(x, &a->range_requests, ",type=\"Range\"", HISTOGRAM_1MS_14);
    show_timed(x, &a->readonly_txns, ",type=\"ReadonlyTxn\"", HISTOGRAM_1MS_14);
    exposition_counter(
        x, "etcd_server_slow_apply_total",
        "The total number of slow apply requests (likely overloaded from slow disk).",
        m->slow.applies + api_stats(s->clients.api)->slow_reads);
}

static void show_refused_promotions(struct exposition *x, const struct metrics *m)
{
    struct buf labels = {0};
    bool is_first = true;

    for (unsigned i = 0; i < RESULT_COUNT; i++) {
        if (m->promotions_refused[i] == 0)
            continue;
        if (is_first)
            exposition_family(x, "etcd_server_learner_promote_failures", "counter",
                              "The total number of failed learner promotions (likely learner not "
                              "ready) while this member is leader.");
        is_first = false;
        buf_clear(&labels);
        exposition_label(&labels, "Reason", bytes_of_str(result_text((enum result)i)));
        exposition_number(x, buf_str(&labels), m->promotions_refused[i]);
    }
    buf_free(&labels);
}

static void show_raft(struct exposition *x, struct server *s)
{
    const struct pending_stats *p = &s->pending.stats;
    int64_t quota = apply_quota_bytes(s->state.apply);

    exposition_gauge(x, "etcd_server_has_leader",
                     "Whether or not a leader exists. 1 is existence, 0 is not.",
                     s->facts.leader != 0);
    exposition_gauge(x, "etcd_server_is_leader",
                     "Whether or not this member is a leader. 1 if is, 0 otherwise.",
                     s->facts.is_leader);
    exposition_gauge(x, "etcd_server_is_learner",
                     "Whether or not this member is a learner. 1 if is, 0 otherwise.",
                     s->facts.is_learner);
    exposition_counter(x, "etcd_server_leader_changes_seen_total",
                       "The number of leader changes seen.", s->metrics->leader_changes);
    exposition_counter(
        x, "etcd_server_heartbeat_send_failures_total",
        "The total number of leader heartbeat send failures (likely overloaded from slow disk).",
        s->metrics->late_heartbeats);
    exposition_gauge(x, "etcd_server_proposals_committed_total",
                     "The total number of consensus proposals committed.",
                     s->facts.committed_index);
    exposition_gauge(x, "etcd_server_proposals_applied_total",
                     "The total number of consensus proposals applied.", s->facts.applied_index);
    exposition_gauge(x, "etcd_server_proposals_pending",
                     "The current number of pending proposals to commit.",
                     pending_count(&s->pending));
    exposition_counter(x, "etcd_server_proposals_failed_total",
                       "The total number of failed proposals seen.", p->proposals_failed);
    exposition_counter(x, "etcd_server_slow_read_indexes_total",
                       "The total number of pending read indexes not in sync with leader's or "
                       "timed out read index requests.",
                       p->reads_slow);
    exposition_counter(x, "etcd_server_read_indexes_failed_total",
                       "The total number of failed read indexes seen.", p->reads_failed);
    exposition_gauge(x, "etcd_server_quota_backend_bytes",
                     "Current backend storage quota size in bytes.",
                     quota > 0 ? (uint64_t)quota : 0);
    exposition_gauge(x, "etcd_server_snapshot_apply_in_progress_total",
                     "1 if the server is applying the incoming snapshot. 0 if none.",
                     install_is_busy(&s->install));
    exposition_counter(
        x, "etcd_server_learner_promote_successes",
        "The total number of successful learner promotions while this member is leader.",
        s->metrics->promotions);
    show_refused_promotions(x, s->metrics);
}

static void show_alarms(struct exposition *x, struct server *s)
{
    const struct apply_alarm *alarms;
    size_t count = apply_alarms(s->state.apply, &alarms);

    if (count > 0)
        exposition_family(
            x, "etcd_debugging_server_alarms", "gauge",
            "Alarms for every member in cluster. 1 for 'server_id' label with current "
            "ID. 2 for 'alarm_type' label with type of this alarm");
    for (size_t i = 0; i < count; i++) {
        char labels[80];
        snprintf(labels, sizeof(labels), "alarm_type=\"%s\",server_id=\"%" PRIx64 "\"",
                 alarms[i].alarm == PB_ALARM_NOSPACE   ? "NOSPACE"
                 : alarms[i].alarm == PB_ALARM_CORRUPT ? "CORRUPT"
                                                       : "UNKNOWN",
                 alarms[i].member);
        exposition_number(x, labels, 1);
    }
}

static void show_identity(struct exposition *x, struct server *s)
{
    char id[20];
    struct bytes version = cluster_version(s->state.cluster);
    struct gate_state gate;

    snprintf(id, sizeof(id), "%" PRIx64, s->facts.member_id);
    one_info(x, "etcd_server_id",
             "Server or member ID in hexadecimal format. 1 for 'server_id' label with current ID.",
             "server_id", bytes_of_str(id));
    one_info(x, "etcd_server_version",
             "Which version is running. 1 for 'server_version' label with current version.",
             "server_version", bytes_of_str(SERVER_VERSION));
    one_info(x, "etcd_server_go_version",
             "Which Go version server is running with. 1 for 'server_go_version' label with "
             "current version.",
             "server_go_version", BYTES("none"));
    if (version.len > 2) /* 3.7.0 is 3.7 */
        one_info(
            x, "etcd_cluster_version",
            "Which version is running. 1 for 'cluster_version' label with current cluster version",
            "cluster_version", bytes_of(version.at, version.len - 2));
    exposition_family(x, "etcd_server_feature_enabled", "gauge",
                      "Whether or not a feature is enabled. 1 is enabled, 0 is not.");
    for (size_t i = 0; gates_at(s->config->gates, i, &gate); i++) {
        char labels[96];
        snprintf(labels, sizeof(labels), "name=\"%s\",stage=\"%s\"", gate.name, gate.stage);
        exposition_number(x, labels, gate.is_on);
    }
    show_alarms(x, s);
}

/* --- clients --- */

static const char *const code_names[API_CODES] = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

/* Lock and Election appear with their first use, as in etcd. */
static bool is_shown(unsigned method, const struct api_method_stats *m)
{
    return m->started > 0 || method < API_LOCK_LOCK || method >= API_HEALTH_CHECK;
}

static void method_labels(const struct rpc_method *m, struct buf *out)
{
    buf_printf(out, "grpc_method=\"%s\",grpc_service=\"%s\",grpc_type=\"%s\"", m->name, m->service,
               m->client_streams && m->server_streams ? "bidi_stream"
               : m->server_streams                    ? "server_stream"
               : m->client_streams                    ? "client_stream"
                                                      : "unary");
}

static void show_handled(struct exposition *x, const struct api_stats *a,
                         const struct buf labels[API_METHOD_COUNT])
{
    struct buf with_code = {0};

    for (unsigned code = 0; code < API_CODES; code++)
        for (unsigned i = 0; i < API_METHOD_COUNT; i++) {
            if (!is_shown(i, &a->methods[i]))
                continue;
            buf_clear(&with_code);
            buf_append_str(&with_code, "grpc_code=\"");
            buf_append_str(&with_code, code_names[code]);
            buf_append_str(&with_code, "\",");
            buf_append(&with_code, buf_bytes(&labels[i]));
            exposition_number(x, buf_str(&with_code), a->methods[i].handled[code]);
        }
    buf_free(&with_code);
}

static void show_handling(struct exposition *x, const struct api_stats *a, struct buf *labels)
{
    const size_t width = API_HANDLING_BUCKETS + 1;

    if (!a->handling)
        return;

    exposition_family(x, "grpc_server_handling_seconds", "histogram",
                      "Histogram of response latency (seconds) of gRPC that had been "
                      "application-level handled by the server.");
    for (unsigned i = 0; i < API_METHOD_COUNT; i++)
        if (is_shown(i, &a->methods[i]))
            exposition_buckets(x, buf_str(&labels[i]), api_handling_bounds_ms,
                               API_HANDLING_BUCKETS - 1, &a->handling[i * width],
                               a->handling[i * width + API_HANDLING_BUCKETS]);
}

static void show_calls(struct exposition *x, const struct api_stats *a)
{
    struct buf labels[API_METHOD_COUNT] = {0};

    for (unsigned i = 0; i < API_METHOD_COUNT; i++)
        method_labels(&api_methods[i], &labels[i]);

    exposition_family(x, "grpc_server_started_total", "counter",
                      "Total number of RPCs started on the server.");
    for (unsigned i = 0; i < API_METHOD_COUNT; i++)
        if (is_shown(i, &a->methods[i]))
            exposition_number(x, buf_str(&labels[i]), a->methods[i].started);
    exposition_family(x, "grpc_server_msg_received_total", "counter",
                      "Total number of RPC stream messages received on the server.");
    for (unsigned i = 0; i < API_METHOD_COUNT; i++)
        if (is_shown(i, &a->methods[i]))
            exposition_number(x, buf_str(&labels[i]), a->methods[i].received);
    exposition_family(x, "grpc_server_msg_sent_total", "counter",
                      "Total number of gRPC stream messages sent by the server.");
    for (unsigned i = 0; i < API_METHOD_COUNT; i++)
        if (is_shown(i, &a->methods[i]))
            exposition_number(x, buf_str(&labels[i]), a->methods[i].sent);
    exposition_family(
        x, "grpc_server_handled_total", "counter",
        "Total number of RPCs completed on the server, regardless of success or failure.");
    show_handled(x, a, labels);
    show_handling(x, a, labels);
    for (unsigned i = 0; i < API_METHOD_COUNT; i++)
        buf_free(&labels[i]);
}

static void show_client(struct exposition *x, const char *version, uint64_t streams, uint64_t unary)
{
    struct buf labels = {0};

    exposition_label(&labels, "client_api_version", bytes_of_str(version));
    size_t front = labels.len;
    exposition_label(&labels, "type", BYTES("stream"));
    if (streams > 0)
        exposition_number(x, buf_str(&labels), streams);
    labels.len = front;
    exposition_label(&labels, "type", BYTES("unary"));
    if (unary > 0)
        exposition_number(x, buf_str(&labels), unary);
    buf_free(&labels);
}

static void show_clients(struct exposition *x, const struct api_stats *a)
{
    exposition_counter(x, "etcd_network_client_grpc_received_bytes_total",
                       "The total number of bytes received from grpc clients.", a->received_bytes);
    exposition_counter(x, "etcd_network_client_grpc_sent_bytes_total",
                       "The total number of bytes sent to grpc clients.", a->sent_bytes);
    exposition_family(x, "etcd_server_client_requests_total", "counter",
                      "The total number of client requests per client version.");
    for (size_t i = 0; i < a->client_count; i++)
        show_client(x, a->clients[i].version, a->clients[i].streams, a->clients[i].unary);
    show_client(x, "other", a->other_streams, a->other_unary);
}

static void show_checks(struct exposition *x, const struct api_stats *a)
{
    char labels[128];

    exposition_counter(x, "etcd_server_health_success",
                       "The total number of successful health checks", a->healthy);
    exposition_counter(x, "etcd_server_health_failures", "The total number of failed health checks",
                       a->unhealthy);
    exposition_family(x, "etcd_server_healthcheck", "gauge",
                      "The result of each kind of healthcheck.");
    for (unsigned i = 0; i < API_PROBES * API_CHECKS; i++) {
        const struct api_check_stats *c = &a->checks[i / API_CHECKS][i % API_CHECKS];
        if (c->succeeded + c->failed == 0)
            continue;
        snprintf(labels, sizeof(labels), "name=\"%s\",type=\"%s\"",
                 api_check_name(i / API_CHECKS, i % API_CHECKS), api_probe_name(i / API_CHECKS));
        exposition_number(x, labels, c->is_well);
    }
    exposition_family(x, "etcd_server_healthchecks_total", "counter",
                      "The total number of each kind of healthcheck.");
    for (unsigned i = 0; i < 2 * API_PROBES * API_CHECKS; i++) {
        unsigned probe = i / 2 / API_CHECKS, check = i / 2 % API_CHECKS;
        const struct api_check_stats *c = &a->checks[probe][check];
        uint64_t count = i % 2 ? c->failed : c->succeeded;
        if (count == 0)
            continue;
        snprintf(labels, sizeof(labels), "name=\"%s\",status=\"%s\",type=\"%s\"",
                 api_check_name(probe, check), i % 2 ? "error" : "success", api_probe_name(probe));
        exposition_number(x, labels, count);
    }
}

/* --- other members --- */

/* A family with a sample for each of the other members. */
struct per_peer {
    const char *name, *type, *help;
    const char *label; /* To or From */
    size_t at;         /* in struct peer_status */
    struct histogram_shape shape;
    bool is_histogram;
    bool with_local;   /* Local and Remote instead of one of them */
    bool only_if_used; /* no sample before the first time */
};

#define AT(field) offsetof(struct peer_status, field)
static const struct per_peer per_peer[] = {
    {"etcd_network_peer_sent_bytes_total", "counter", "The total number of bytes sent to peers.",
     .label = "To", .at = AT(sent_bytes)},
    {"etcd_network_peer_received_bytes_total", "counter",
     "The total number of bytes received from peers.", .label = "From", .at = AT(received_bytes)},
    {"etcd_network_peer_sent_failures_total", "counter",
     "The total number of send failures from peers.", .label = "To", .at = AT(sent_failures),
     .only_if_used = true},
    {"etcd_network_peer_received_failures_total", "counter",
     "The total number of receive failures from peers.", .label = "From",
     .at = AT(received_failures), .only_if_used = true},
    {"etcd_network_disconnected_peers_total", "counter", "The total number of disconnected peers.",
     .with_local = true, .at = AT(disconnects), .only_if_used = true},
    {"etcd_network_snapshot_send_success", "counter", "Total number of successful snapshot sends",
     .label = "To", .at = AT(snapshots_sent), .only_if_used = true},
    {"etcd_network_snapshot_send_failures", "counter", "Total number of snapshot send failures",
     .label = "To", .at = AT(snapshot_send_failures), .only_if_used = true},
    {"etcd_network_snapshot_send_inflights_total", "gauge",
     "Total number of inflight snapshot sends", .label = "To", .at = AT(snapshots_sending),
     .only_if_used = true},
    {"etcd_network_snapshot_receive_success", "counter",
     "Total number of successful snapshot receives", .label = "From", .at = AT(snapshots_received),
     .only_if_used = true},
    {"etcd_network_snapshot_receive_failures", "counter",
     "Total number of snapshot receive failures", .label = "From",
     .at = AT(snapshot_receive_failures), .only_if_used = true},
    {"etcd_network_snapshot_receive_inflights_total", "gauge",
     "Total number of inflight snapshot receives", .label = "From", .at = AT(snapshots_receiving),
     .only_if_used = true},
    {"etcd_network_peer_round_trip_time_seconds", "histogram",
     "Round-Trip-Time histogram between peers", .label = "To", .at = AT(round_trips),
     .is_histogram = true, .only_if_used = true, .shape = {100000, 16}},
    {"etcd_network_snapshot_send_total_duration_seconds", "histogram",
     "Total latency distributions of v3 snapshot sends", .label = "To", .at = AT(snapshot_sends),
     .is_histogram = true, .only_if_used = true, .shape = {100000000, 10}},
    {"etcd_network_snapshot_receive_total_duration_seconds", "histogram",
     "Total latency distributions of v3 snapshot receives", .label = "From",
     .at = AT(snapshot_receives), .is_histogram = true, .only_if_used = true,
     .shape = {100000000, 10}},
};
#undef AT

static void peer_labels(const struct per_peer *f, uint64_t self, uint64_t peer, char labels[96])
{
    if (f->with_local)
        snprintf(labels, 96, "Local=\"%" PRIx64 "\",Remote=\"%" PRIx64 "\"", self, peer);
    else
        snprintf(labels, 96, "%s=\"%" PRIx64 "\"", f->label, peer);
}

static void show_of_peer(struct exposition *x, const struct per_peer *f, const char *labels,
                         const struct peer_status *status, bool *is_first)
{
    const void *at = (const uint8_t *)status + f->at;
    const struct histogram *h = at;
    uint64_t value = f->is_histogram ? histogram_count(h) : *(const uint64_t *)at;

    if (value == 0 && f->only_if_used)
        return;
    if (*is_first)
        exposition_family(x, f->name, f->type, f->help);
    *is_first = false;
    if (f->is_histogram)
        exposition_histogram(x, labels, h, f->shape, SECONDS);
    else
        exposition_number(x, labels, value);
}

/* There are a handful of members. */
static void show_peers(struct exposition *x, struct server *s)
{
    size_t count;
    const struct pb_member *members = cluster_members(s->state.cluster, &count);
    struct peer_status status;
    char labels[96];

    exposition_family(x, "etcd_network_known_peers", "gauge", "The current number of known peers.");
    for (size_t i = 0; i < count; i++) {
        peer_labels(&(struct per_peer){.with_local = true}, s->facts.member_id, members[i].id,
                    labels);
        exposition_number(x, labels, 1);
    }
    bool is_first = true;
    for (size_t i = 0; i < count; i++) {
        if (!peers_status(s->peering.peers, members[i].id, &status))
            continue;
        if (is_first)
            exposition_family(x, "etcd_network_active_peers", "gauge",
                              "The current number of active peer connections.");
        is_first = false;
        peer_labels(&(struct per_peer){.with_local = true}, s->facts.member_id, members[i].id,
                    labels);
        exposition_number(x, labels, status.is_active);
    }
    for (size_t f = 0; f < ARRAY_LEN(per_peer); f++) {
        is_first = true;
        for (size_t i = 0; i < count; i++) {
            if (!peers_status(s->peering.peers, members[i].id, &status))
                continue;
            peer_labels(&per_peer[f], s->facts.member_id, members[i].id, labels);
            show_of_peer(x, &per_peer[f], labels, &status, &is_first);
        }
    }
}

/* --- the process, and what stands for the Go runtime --- */

static void show_process(struct exposition *x, const struct process_sample *p)
{
    exposition_family(x, "process_cpu_seconds_total", "counter",
                      "Total user and system CPU time spent in seconds.");
    exposition_parts(x, NULL, p->cpu_ns, SECONDS);
    exposition_family(x, "process_start_time_seconds", "gauge",
                      "Start time of the process since unix epoch in seconds.");
    exposition_float(x, NULL, p->started_unix);
    exposition_gauge(x, "process_open_fds", "Number of open file descriptors.", p->open_files);
    exposition_gauge(x, "process_max_fds", "Maximum number of open file descriptors.",
                     p->files_max);
    exposition_gauge(x, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
                     p->virtual_bytes);
    exposition_gauge(x, "process_virtual_memory_max_bytes",
                     "Maximum amount of virtual memory available in bytes.", p->virtual_bytes_max);
    exposition_gauge(x, "process_resident_memory_bytes", "Resident memory size in bytes.",
                     p->resident_bytes);
    exposition_counter(x, "process_network_receive_bytes_total",
                       "Number of bytes received by the process over the network.",
                       p->net_received_bytes);
    exposition_counter(x, "process_network_transmit_bytes_total",
                       "Number of bytes sent by the process over the network.", p->net_sent_bytes);
    exposition_gauge(x, "os_fd_used", "The number of used file descriptors.", p->open_files);
    exposition_gauge(x, "os_fd_limit", "The file descriptor limit.", p->files_max);
}

static void show_collector(struct exposition *x)
{
    exposition_family(
        x, "go_gc_duration_seconds", "summary",
        "A summary of the wall-time pause (stop-the-world) duration in garbage collection cycles.");
    static const double quantiles[] = {0, 0.25, 0.5, 0.75, 1};
    exposition_nothing(x, quantiles, ARRAY_LEN(quantiles));
    one_info(x, "go_info", "Information about the Go environment.", "version", BYTES("none"));
    exposition_gauge(x, "go_gc_gogc_percent",
                     "Heap size target percentage configured by the user, otherwise 100. This "
                     "value is set by the GOGC environment variable, and the "
                     "runtime/debug.SetGCPercent function. Sourced from /gc/gogc:percent.",
                     100);
    exposition_gauge(x, "go_gc_gomemlimit_bytes",
                     "Go runtime memory limit configured by the user, otherwise math.MaxInt64. "
                     "This value is set by the GOMEMLIMIT environment variable, and the "
                     "runtime/debug.SetMemoryLimit function. Sourced from /gc/gomemlimit:bytes.",
                     INT64_MAX);
}

static void show_heap(struct exposition *x, const struct process_sample *p,
                      uint64_t heap_grown_bytes)
{
    exposition_gauge(x, "go_goroutines", "Number of goroutines that currently exist.", p->threads);
    exposition_gauge(x, "go_memstats_alloc_bytes",
                     "Number of bytes allocated in heap and currently in use. Equals to "
                     "/memory/classes/heap/objects:bytes.",
                     p->heap_used_bytes);
    exposition_counter(x, "go_memstats_alloc_bytes_total",
                       "Total number of bytes allocated in heap until now, even if released "
                       "already. Equals to /gc/heap/allocs:bytes.",
                       heap_grown_bytes);
    exposition_gauge(x, "go_memstats_buck_hash_sys_bytes",
                     "Number of bytes used by the profiling bucket hash table. Equals to "
                     "/memory/classes/profiling/buckets:bytes.",
                     0);
    exposition_counter(x, "go_memstats_frees_total",
                       "Total number of heap objects frees. Equals to /gc/heap/frees:objects + "
                       "/gc/heap/tiny/allocs:objects.",
                       0);
    exposition_gauge(x, "go_memstats_gc_sys_bytes",
                     "Number of bytes used for garbage collection system metadata. Equals to "
                     "/memory/classes/metadata/other:bytes.",
                     0);
    exposition_gauge(x, "go_memstats_heap_alloc_bytes",
                     "Number of heap bytes allocated and currently in use, same as "
                     "go_memstats_alloc_bytes. Equals to /memory/classes/heap/objects:bytes.",
                     p->heap_used_bytes);
    exposition_gauge(x, "go_memstats_heap_idle_bytes",
                     "Number of heap bytes waiting to be used. Equals to "
                     "/memory/classes/heap/released:bytes + /memory/classes/heap/free:bytes.",
                     p->heap_bytes - p->heap_used_bytes);
    exposition_gauge(x, "go_memstats_heap_inuse_bytes",
                     "Number of heap bytes that are in use. Equals to "
                     "/memory/classes/heap/objects:bytes + /memory/classes/heap/unused:bytes",
                     p->heap_used_bytes);
    exposition_gauge(x, "go_memstats_heap_objects",
                     "Number of currently allocated objects. Equals to /gc/heap/objects:objects.",
                     0);
    exposition_gauge(
        x, "go_memstats_heap_released_bytes",
        "Number of heap bytes released to OS. Equals to /memory/classes/heap/released:bytes.", 0);
    exposition_gauge(x, "go_memstats_heap_sys_bytes",
                     "Number of heap bytes obtained from system. Equals to "
                     "/memory/classes/heap/objects:bytes + /memory/classes/heap/unused:bytes + "
                     "/memory/classes/heap/released:bytes + /memory/classes/heap/free:bytes.",
                     p->heap_bytes);
}

static void show_memory(struct exposition *x, const struct process_sample *p)
{
    exposition_gauge(x, "go_memstats_last_gc_time_seconds",
                     "Number of seconds since 1970 of last garbage collection.", 0);
    exposition_counter(x, "go_memstats_mallocs_total",
                       "Total number of heap objects allocated, both live and gc-ed. Semantically "
                       "a counter version for go_memstats_heap_objects gauge. Equals to "
                       "/gc/heap/allocs:objects + /gc/heap/tiny/allocs:objects.",
                       0);
    exposition_gauge(x, "go_memstats_mcache_inuse_bytes",
                     "Number of bytes in use by mcache structures. Equals to "
                     "/memory/classes/metadata/mcache/inuse:bytes.",
                     0);
    exposition_gauge(
        x, "go_memstats_mcache_sys_bytes",
        "Number of bytes used for mcache structures obtained from system. Equals to "
        "/memory/classes/metadata/mcache/inuse:bytes + /memory/classes/metadata/mcache/free:bytes.",
        0);
    exposition_gauge(x, "go_memstats_mspan_inuse_bytes",
                     "Number of bytes in use by mspan structures. Equals to "
                     "/memory/classes/metadata/mspan/inuse:bytes.",
                     0);
    exposition_gauge(
        x, "go_memstats_mspan_sys_bytes",
        "Number of bytes used for mspan structures obtained from system. Equals to "
        "/memory/classes/metadata/mspan/inuse:bytes + /memory/classes/metadata/mspan/free:bytes.",
        0);
    exposition_gauge(x, "go_memstats_next_gc_bytes",
                     "Number of heap bytes when next garbage collection will take place. Equals to "
                     "/gc/heap/goal:bytes.",
                     0);
    exposition_gauge(
        x, "go_memstats_other_sys_bytes",
        "Number of bytes used for other system allocations. Equals to /memory/classes/other:bytes.",
        0);
    exposition_gauge(x, "go_memstats_stack_inuse_bytes",
                     "Number of bytes obtained from system for stack allocator in non-CGO "
                     "environments. Equals to /memory/classes/heap/stacks:bytes.",
                     0);
    exposition_gauge(x, "go_memstats_stack_sys_bytes",
                     "Number of bytes obtained from system for stack allocator. Equals to "
                     "/memory/classes/heap/stacks:bytes + /memory/classes/os-stacks:bytes.",
                     0);
    exposition_gauge(x, "go_memstats_sys_bytes",
                     "Number of bytes obtained from system. Equals to /memory/classes/total:byte.",
                     p->resident_bytes);
}

/*
 * Dashboards draw some of these, and etcd's own tests ask for all. Threads stand for goroutines,
 * the allocator's heap for Go's; there is no collector, so what tells of one is 0.
 */
static void show_runtime(struct exposition *x, const struct process_sample *p,
                         uint64_t heap_grown_bytes)
{
    show_collector(x);
    show_heap(x, p, heap_grown_bytes);
    show_memory(x, p);
    exposition_gauge(
        x, "go_sched_gomaxprocs_threads",
        "The current runtime.GOMAXPROCS setting, or the number of operating system threads that "
        "can execute user-level Go code simultaneously. Sourced from /sched/gomaxprocs:threads.",
        p->processors);
    exposition_gauge(x, "go_threads", "Number of OS threads created.", p->threads);
}

/* --- what etcd exports and nobody moves --- */

static void show_dead(struct exposition *x)
{
    exposition_counter(x, "etcd_debugging_store_expires_total", "Total number of expired keys.", 0);
    exposition_counter(x, "etcd_debugging_store_watch_requests_total",
                       "Total number of incoming watch requests (new or reestablished).", 0);
    exposition_counter(x, "etcd_grpc_proxy_events_coalescing_total",
                       "Total number of events coalescing", 0);
    exposition_gauge(x, "etcd_debugging_store_watchers", "Count of currently active watchers.", 0);
    exposition_gauge(x, "etcd_grpc_proxy_cache_hits_total", "Total number of cache hits", 0);
    exposition_gauge(x, "etcd_grpc_proxy_cache_keys_total", "Total number of keys/ranges cached",
                     0);
    exposition_gauge(x, "etcd_grpc_proxy_cache_misses_total", "Total number of cache misses", 0);
    exposition_gauge(x, "etcd_grpc_proxy_watchers_coalescing_total",
                     "Total number of current watchers coalescing", 0);
}

static void show_scrapes(struct exposition *x, const struct api_stats *a)
{
    exposition_gauge(x, "promhttp_metric_handler_requests_in_flight",
                     "Current number of scrapes being served.", 1);
    exposition_family(x, "promhttp_metric_handler_requests_total", "counter",
                      "Total number of scrapes by HTTP status code.");
    exposition_number(x, "code=\"200\"", a->scrapes);
    exposition_number(x, "code=\"500\"", 0);
    exposition_number(x, "code=\"503\"", 0);
}

void metrics_gather(struct server *s, struct exposition *x)
{
    const struct api_stats *a = api_stats(s->clients.api);

    x->created_unix = s->metrics->process.started_unix;
    show_store(x, s);
    show_compactions(x, s);
    show_leases(x, s);
    show_watchers(x, s);
    show_disks(x, s);
    show_requests(x, s);
    show_raft(x, s);
    show_identity(x, s);
    show_clients(x, a);
    show_calls(x, a);
    show_checks(x, a);
    show_peers(x, s);
    show_dead(x);
    show_scrapes(x, a);
    x->is_without_time = true; /* these are read off the process, not counted */
    show_process(x, &s->metrics->process);
    show_runtime(x, &s->metrics->process, s->metrics->heap_grown_bytes);
}

/* --- /debug/vars --- */

static const char *role_name(enum raft_role role)
{
    switch (role) {
    case RAFT_LEADER:
        return "StateLeader";
    case RAFT_CANDIDATE:
        return "StateCandidate";
    case RAFT_PRE_CANDIDATE:
        return "StatePreCandidate";
    case RAFT_FOLLOWER:
        break;
    }
    return "StateFollower";
}

void metrics_vars(struct server *s, struct buf *out)
{
    const struct metrics *m = s->metrics;
    struct raft_status raft = raft_status(s->raft);
    struct json j = {.out = out};
    struct bytes left = buf_bytes(&m->command_line);

    json_begin_object(&j, NULL);
    json_begin_list(&j, "cmdline");
    while (left.len > 0) {
        size_t len = strnlen((const char *)left.at, left.len);
        json_put_text(&j, NULL, bytes_of(left.at, len));
        len += len < left.len;
        left = bytes_of(left.at + len, left.len - len);
    }
    json_end_list(&j);
    json_put_number(&j, "file_descriptor_limit", m->process.files_max);
    json_begin_object(&j, "memstats");
    json_put_number(&j, "Alloc", m->process.heap_used_bytes);
    json_put_number(&j, "Sys", m->process.resident_bytes);
    json_put_number(&j, "HeapAlloc", m->process.heap_used_bytes);
    json_put_number(&j, "HeapSys", m->process.heap_bytes);
    json_end_object(&j);
    json_begin_object(&j, "raft.status");
    json_put_id(&j, "id", s->facts.member_id);
    json_put_number(&j, "term", raft.hard_state.term);
    json_put_id(&j, "vote", raft.hard_state.vote);
    json_put_number(&j, "commit", raft.hard_state.commit);
    json_put_id(&j, "lead", raft.soft_state.lead);
    json_put_str(&j, "raftState", role_name(raft.soft_state.role));
    json_put_number(&j, "applied", raft.applied);
    json_end_object(&j);
    json_end_object(&j);
    buf_append_byte(out, '\n');
}
