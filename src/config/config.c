#include "config/config.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "config/auth.h"
#include "config/file.h"
#include "config/maker.h"
#include "config/tls.h"
#include "config/value.h"

#include <inttypes.h>
#include <stdlib.h>

#define DEFAULT_NAME              "default"
#define DEFAULT_PEER_URL          "http://localhost:2380"
#define DEFAULT_BATCH_NS          (100 * NS_PER_MS)
#define ELECTION_MS_MAX           50000
#define RECOMMENDED_REQUEST_BYTES (10 * MIB)
#define NOTICE_DEFAULT_NS         (600 * NS_PER_S)
#define NOTICE_MIN_NS             (100 * NS_PER_MS)
#define ETCDS_BATCH               1000 /* of a compaction, and the pause after it */
#define ETCDS_SLEEP_NS            (10 * (int64_t)NS_PER_MS)
#define WARNING_UNARY_DEFAULT_NS  (300 * NS_PER_MS)
#define DEFAULT_BCRYPT_COST       10
#define DEFAULT_TOKEN_TTL_S       300

/* What gRPC does where etcd hands it no settings, which is when one of them is not positive. */
#define GRPC_PING_FLOOR_NS   (300 * NS_PER_S)
#define GRPC_PING_NS         (7200 * NS_PER_S)
#define GRPC_PING_TIMEOUT_NS (20 * NS_PER_S)
#define GRPC_PING_MIN_NS     (1 * NS_PER_S)

/* ---- The file ---- */

/* "": none. */
static const char *file_path(const struct maker *m, const char *const *env)
{
    const char *path = maker_value(m, FLAG_CONFIG_FILE)->text;
    const char *variable = maker_env_value(env, "ETCD_CONFIG_FILE");

    return path[0] == 0 && variable ? arena_copy_str(&m->out->arena, bytes_of_str(variable)) : path;
}

/* Everything that the command line said is forgotten, but for two times that etcd keeps elsewhere:
 * they stay, and there is no key for them. */
static void forget_flags(struct maker *m)
{
    struct flag_value read = *maker_value(m, FLAG_RAFT_READ_TIMEOUT);
    struct flag_value write = *maker_value(m, FLAG_RAFT_WRITE_TIMEOUT);

    flags_init(&m->flags, &m->out->arena);
    m->flags.values[FLAG_RAFT_READ_TIMEOUT] = read;
    m->flags.values[FLAG_RAFT_WRITE_TIMEOUT] = write;
}

static enum config_result read_file(struct maker *m, const char *path)
{
    struct buf text = {0};
    const char *unknown = "";
    enum config_file_result result = CONFIG_FILE_BAD;

    forget_flags(m);
    m->has_file = true;
    if (config_file_load(path, &text, m->why))
        result = config_file_parse(buf_bytes(&text), &m->flags, m->why, &unknown);
    buf_free(&text);
    if (result != CONFIG_FILE_OK)
        return result == CONFIG_FILE_BAD ? CONFIG_BAD : CONFIG_BAD_FILE;
    maker_note(
        m, LOG_INFO,
        "loaded server configuration, other configuration command line flags and environment "
        "variables will be ignored if provided",
        "path", path);
    if (unknown[0] != 0)
        maker_note(m, LOG_WARN, "ignoring unknown keys of the configuration file", "keys", unknown);
    return CONFIG_OK;
}

/* ---- What we cannot do ---- */

/* What to do instead, where there is something; else "". */
static const char *instead_of(enum flag_id id)
{
    if (bytes_starts_with(bytes_of_str(flag_table[id].name), BYTES("discovery")))
        return ": name the members in --initial-cluster";
    if (id == FLAG_ENABLE_PPROF)
        return ": there is no Go runtime to profile";
    return "";
}

static bool refuse_support(struct maker *m, enum flag_id id)
{
    return maker_refuse(m, "flag --%s is not supported yet%s", flag_table[id].name, instead_of(id));
}

/* Beside a file they are not raised to etcd's least value, but count as they are. */
static bool check_raft_times(struct maker *m)
{
    static const enum flag_id ids[] = {FLAG_RAFT_READ_TIMEOUT, FLAG_RAFT_WRITE_TIMEOUT};

    for (size_t i = 0; m->has_file && i < ARRAY_LEN(ids); i++) {
        if (maker_value(m, ids[i])->integer < 5 * NS_PER_S)
            return refuse_support(m, ids[i]);
    }
    return true;
}

static bool check_support(struct maker *m)
{
    const char *gate = gates_not_built(m->out->gates);

    if (gate)
        return maker_refuse(m, "feature gate %s is not supported yet", gate);
    for (size_t id = FLAG_WORKING_COUNT; id < FLAG_SUPPORT_COUNT; id++) {
        if (!flags_is_default(&m->flags, (enum flag_id)id))
            return refuse_support(m, (enum flag_id)id);
    }
    return check_raft_times(m);
}

static void note_deprecated(struct maker *m)
{
    if (maker_value(m, FLAG_MAX_SNAPSHOTS)->is_set) {
        maker_note(m, LOG_WARN,
                   "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8.", NULL,
                   NULL);
    }
    if (maker_value(m, FLAG_V2_DEPRECATION)->is_set) {
        maker_note(
            m, LOG_WARN,
            "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value "
            "is enforced, ignoring user input.",
            NULL, NULL);
    }
    for (size_t id = FLAG_SUPPORT_COUNT; id < FLAG_COUNT; id++) {
        if (flag_table[id].kind == FLAG_NOTHING && maker_value(m, (enum flag_id)id)->is_set) {
            maker_note(m, LOG_WARN, "flag is no longer supported - ignoring", "flag-name",
                       flag_table[id].name);
        }
    }
}

/* ---- What etcd would refuse ---- */

static bool check_fallback(struct maker *m)
{
    if (!maker_value(m, FLAG_DISCOVERY_FALLBACK)->boolean)
        return true;
    return maker_refuse(m,
                        "v2 proxy is deprecated, and --discovery-fallback can't be configured as "
                        "\"proxy\"");
}

static bool is_blank(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] != ' ' && text.at[i] != '\t')
            return false;
    }
    return true;
}

/* An empty list of endpoints that was said is one endpoint, and a bad one. */
static bool check_discovery(struct maker *m)
{
    const char *state = maker_value(m, FLAG_INITIAL_CLUSTER_STATE)->text;
    const struct flag_value *endpoints = maker_value(m, FLAG_DISCOVERY_ENDPOINTS);
    const struct flag_value *cluster = maker_value(m, FLAG_INITIAL_CLUSTER);
    bool has_srv = maker_value(m, FLAG_DISCOVERY_SRV)->text[0] != 0;
    bool has_token = maker_value(m, FLAG_DISCOVERY_TOKEN)->text[0] != 0;
    bool has_cluster = cluster->is_set && cluster->text[0] != 0;

    if (state)
        return maker_refuse(m, "unexpected clusterState %s", maker_quote(m, bytes_of_str(state)));
    if (has_cluster + has_srv + endpoints->is_set > 1) {
        return maker_refuse(m, "multiple discovery or bootstrap flags are set. Choose one of "
                               "\"initial-cluster\", \"discovery-endpoints\" or \"discovery-srv\"");
    }
    if (has_token != endpoints->is_set)
        return maker_refuse(m, "both --discovery-token and --discovery-endpoints must be set");
    for (size_t i = 0; endpoints->is_set && i < endpoints->set.count; i++) {
        if (is_blank(endpoints->set.at[i]))
            return maker_refuse(m, "--discovery-endpoints must not contain empty endpoints");
    }
    return true;
}

static bool read_gates(struct maker *m)
{
    struct gates gates = maker_value(m, FLAG_FEATURE_GATES)->gates;
    bool checkpoint = gates_lease_checkpoint(gates),
         persist = gates_lease_checkpoint_persist(gates);

    if (persist && !checkpoint)
        return maker_refuse(
            m, "enabling feature gate LeaseCheckpointPersist requires enabling feature "
               "gate LeaseCheckpoint");
    if (checkpoint && !persist)
        maker_note(m, LOG_WARN,
                   "Detected that checkpointing is enabled without persistence. Consider enabling "
                   "feature gate LeaseCheckpointPersist",
                   NULL, NULL);
    m->out->gates = gates;
    return true;
}

static bool check_compaction(struct maker *m)
{
    const char *mode = maker_value(m, FLAG_AUTO_COMPACTION_MODE)->text;
    int64_t hash_ns = maker_value(m, FLAG_COMPACT_HASH_CHECK_TIME)->integer;
    int64_t corrupt_ns = maker_value(m, FLAG_CORRUPT_CHECK_TIME)->integer;
    int64_t batch = maker_value(m, FLAG_COMPACTION_BATCH_LIMIT)->integer;
    int64_t sleep_ns = maker_value(m, FLAG_COMPACTION_SLEEP_INTERVAL)->integer;

    if (mode[0] == 0)
        return maker_refuse(m, "undefined auto-compaction-mode");
    if (strcmp(mode, "periodic") != 0 && strcmp(mode, "revision") != 0)
        return maker_refuse(m, "unknown auto-compaction-mode %s",
                            maker_quote(m, bytes_of_str(mode)));
    if (!read_gates(m))
        return false;
    if (hash_ns <= 0)
        return maker_refuse(m, "--compact-hash-check-time must be >0 (set to %gs)",
                            (double)hash_ns / (double)NS_PER_S);
    if (corrupt_ns < 0) /* etcd dies of it, when it starts the clock */
        return maker_refuse(m, "--corrupt-check-time must not be negative");
    if (batch < 0 || sleep_ns < 0) /* etcd never comes to the end of a compaction then */
        return maker_refuse(m, "--compaction-%s must not be negative",
                            batch < 0 ? "batch-limit" : "sleep-interval");
    batch = batch > 0 ? batch : ETCDS_BATCH;
    sleep_ns = sleep_ns > 0 ? sleep_ns : ETCDS_SLEEP_NS;
    if (batch != ETCDS_BATCH || sleep_ns != ETCDS_SLEEP_NS) { /* else it need not pause at all */
        m->out->compaction_batch = (uint64_t)batch;
        m->out->compaction_sleep_ns = sleep_ns;
    }
    m->out->compact_hash_check_ns = hash_ns;
    m->out->corrupt_check_ns = corrupt_ns;
    return true;
}

/* etcd takes a negative one, and then compacts all the time, or asks in vain for what is to come.
 */
static bool read_retention(struct maker *m)
{
    struct config *c = m->out;
    const char *text = maker_value(m, FLAG_AUTO_COMPACTION_RETENTION)->text;
    struct buf reason = {0};

    c->auto_compaction_counts_revisions =
        strcmp(maker_value(m, FLAG_AUTO_COMPACTION_MODE)->text, "revision") == 0;
    bool is_good = value_parse_retention(
        bytes_of_str(text), c->auto_compaction_counts_revisions ? 1 : 3600 * (uint64_t)NS_PER_S,
        &c->auto_compaction_retention, &reason);
    if (!is_good)
        maker_refuse(m, "error parsing CompactionRetention: %s", buf_str(&reason));
    else if (c->auto_compaction_retention < 0)
        is_good = maker_refuse(m, "--auto-compaction-retention must not be negative");
    buf_free(&reason);
    return is_good;
}

/* ---- Times and sizes ---- */

static bool check_times(struct maker *m)
{
    uint64_t heartbeat = maker_value(m, FLAG_HEARTBEAT_INTERVAL)->number;
    uint64_t election = maker_value(m, FLAG_ELECTION_TIMEOUT)->number;

    if (heartbeat == 0)
        return maker_refuse(m, "--heartbeat-interval must be >0 (set to 0ms)");
    if (election == 0)
        return maker_refuse(m, "--election-timeout must be >0 (set to 0ms)");
    if (heartbeat > election / 5)
        return maker_refuse(m,
                            "--election-timeout[%" PRIu64 "ms] should be at least as 5 times as "
                            "--heartbeat-interval[%" PRIu64 "ms]",
                            election, heartbeat);
    if (election > ELECTION_MS_MAX)
        return maker_refuse(
            m, "--election-timeout[%" PRIu64 "ms] is too long, and should be set less than %dms",
            election, ELECTION_MS_MAX);
    m->out->heartbeat_ms = heartbeat;
    m->out->election_ms = election;
    return true;
}

static void read_keepalive(struct maker *m)
{
    int64_t floor_ns = maker_value(m, FLAG_GRPC_KEEPALIVE_MIN_TIME)->integer;
    int64_t interval_ns = maker_value(m, FLAG_GRPC_KEEPALIVE_INTERVAL)->integer;
    int64_t timeout_ns = maker_value(m, FLAG_GRPC_KEEPALIVE_TIMEOUT)->integer;

    if (interval_ns <= 0 || timeout_ns <= 0) {
        interval_ns = GRPC_PING_NS;
        timeout_ns = GRPC_PING_TIMEOUT_NS;
    }
    m->out->grpc_keepalive_min_time_ns = floor_ns > 0 ? floor_ns : GRPC_PING_FLOOR_NS;
    m->out->grpc_keepalive_interval_ns =
        interval_ns < GRPC_PING_MIN_NS ? GRPC_PING_MIN_NS : interval_ns;
    m->out->grpc_keepalive_timeout_ns = timeout_ns;
}

static void read_notices(struct maker *m)
{
    int64_t ns = maker_value(m, FLAG_WATCH_PROGRESS_NOTIFY_INTERVAL)->integer;

    if (ns <= 0)
        ns = NOTICE_DEFAULT_NS;
    else if (ns < NOTICE_MIN_NS) {
        maker_note(m, LOG_WARN, "adjusting watch progress notify interval to minimum period",
                   "min-watch-progress-notify-interval", "100ms");
        ns = NOTICE_MIN_NS;
    }
    m->out->watch_progress_notify_ns = ns;
    m->out->warning_apply_ns = maker_value(m, FLAG_WARNING_APPLY_DURATION)->integer;
    m->out->warning_unary_ns = maker_value(m, FLAG_WARNING_UNARY_REQUEST_DURATION)->integer;
    if (m->out->warning_unary_ns == 0)
        m->out->warning_unary_ns = WARNING_UNARY_DEFAULT_NS;
    m->out->extensive_metrics = strcmp(maker_value(m, FLAG_METRICS)->text, "extensive") == 0;
}

/* 0 is never. Go's timers take a negative time for no time at all: all the time, then. */
static void read_checks(struct maker *m)
{
    int64_t ns = maker_value(m, FLAG_DOWNGRADE_CHECK_TIME)->integer;

    m->out->downgrade_check_ms = ns < (int64_t)NS_PER_MS ? ns != 0 : (uint64_t)ns / NS_PER_MS;
}

static bool read_sizes(struct maker *m)
{
    struct config *c = m->out;
    uint64_t request_bytes = maker_value(m, FLAG_MAX_REQUEST_BYTES)->number;
    int64_t batch_ns = maker_value(m, FLAG_BACKEND_BATCH_INTERVAL)->integer;
    int64_t learners = maker_value(m, FLAG_MAX_LEARNERS)->integer;
    uint64_t defrag_mb = maker_value(m, FLAG_BOOTSTRAP_DEFRAG_THRESHOLD)->number;
    int64_t io_threads = maker_value(m, FLAG_IO_THREADS)->integer;

    if (request_bytes > REQUEST_BYTES_MAX)
        return maker_refuse(m, "--max-request-bytes must be at most %zu (set to %" PRIu64 ")",
                            REQUEST_BYTES_MAX, request_bytes);
    if (batch_ns < 0)
        return maker_refuse(m, "--backend-batch-interval must not be negative");
    if (io_threads > IO_THREADS_MAX)
        return maker_refuse(m, "--io-threads must be at most %d (set to %" PRId64 ")",
                            IO_THREADS_MAX, io_threads);
    c->io_threads = io_threads < 0 ? -1 : (int)io_threads;
    if (defrag_mb > UINT64_MAX / (uint64_t)MIB)
        return maker_refuse(m, "--bootstrap-defrag-threshold-megabytes is too large");
    c->bootstrap_defrag_bytes = defrag_mb * (uint64_t)MIB;
    if (request_bytes > RECOMMENDED_REQUEST_BYTES)
        maker_note_two(m, LOG_WARN, "exceeded recommended request limit", "max-request-bytes",
                       arena_printf(&c->arena, "%" PRIu64, request_bytes),
                       "recommended-request-bytes",
                       arena_printf(&c->arena, "%d", RECOMMENDED_REQUEST_BYTES));
    c->max_request_bytes = request_bytes;
    c->backend_batch_interval_ns = batch_ns > 0 ? batch_ns : DEFAULT_BATCH_NS;
    c->max_learners = learners < 0 ? 0 : (uint64_t)learners; /* and refused in the end */
    if (c->max_learners > CLUSTER_MEMBERS_MAX)
        c->max_learners = CLUSTER_MEMBERS_MAX;
    return true;
}

static void read_plain(struct maker *m)
{
    struct config *c = m->out;

    c->snapshot_count = maker_value(m, FLAG_SNAPSHOT_COUNT)->number;
    if (c->snapshot_count == 0)
        c->snapshot_count = 10000;
    c->snapshot_catchup_entries = maker_value(m, FLAG_SNAPSHOT_CATCHUP_ENTRIES)->number;
    if (c->snapshot_catchup_entries == 0)
        c->snapshot_catchup_entries = 5000;
    c->max_snapshots = maker_value(m, FLAG_MAX_SNAPSHOTS)->number;
    c->max_wals = maker_value(m, FLAG_MAX_WALS)->number;
    c->quota_backend_bytes = maker_value(m, FLAG_QUOTA_BACKEND_BYTES)->integer;
    c->max_txn_ops = maker_value(m, FLAG_MAX_TXN_OPS)->number;
    c->cors = maker_value(m, FLAG_CORS)->set;
    c->host_whitelist = maker_value(m, FLAG_HOST_WHITELIST)->set;
    c->max_concurrent_streams = (uint32_t)maker_value(m, FLAG_MAX_CONCURRENT_STREAMS)->number;
    c->enable_grpc_gateway = maker_value(m, FLAG_ENABLE_GRPC_GATEWAY)->boolean;
    c->strict_reconfig_check = maker_value(m, FLAG_STRICT_RECONFIG_CHECK)->boolean;
    c->force_new_cluster = maker_value(m, FLAG_FORCE_NEW_CLUSTER)->boolean;
    c->pre_vote = maker_value(m, FLAG_PRE_VOTE)->boolean;
    c->joins_existing = maker_value(m, FLAG_INITIAL_CLUSTER_STATE)->boolean;
    c->unsafe_no_fsync = maker_value(m, FLAG_UNSAFE_NO_FSYNC)->boolean;
    c->initial_tick_advance = maker_value(m, FLAG_INITIAL_ELECTION_TICK_ADVANCE)->boolean;
    c->reuse_port = maker_value(m, FLAG_SOCKET_REUSE_PORT)->boolean;
}

/* ---- Auth ---- */

static bool read_auth(struct maker *m)
{
    struct config_token *token = &m->out->token;
    const char *unknown;
    uint64_t cost = maker_value(m, FLAG_BCRYPT_COST)->number;
    uint64_t ttl_s = maker_value(m, FLAG_AUTH_TOKEN_TTL)->number;

    if (!config_auth_read(maker_value(m, FLAG_AUTH_TOKEN)->text, &m->out->arena, token, &unknown,
                          m->why))
        return false;
    if (unknown[0] != 0)
        maker_note(m, LOG_WARN, "unknown JWT options", "keys", unknown);
    m->out->bcrypt_cost = cost < 4 || cost > 31 ? DEFAULT_BCRYPT_COST : (unsigned)cost;
    if (ttl_s == 0 || ttl_s > UINT32_MAX)
        ttl_s = ttl_s == 0 ? DEFAULT_TOKEN_TTL_S : UINT32_MAX; /* a century is for ever */
    token->simple_ttl_ms = ttl_s * 1000;
    return true;
}

/* ---- Names and places ---- */

/* Where only a name is given, the cluster is this one member at the addresses it advertises. */
static const char *initial_cluster(struct maker *m)
{
    const char *said = maker_value(m, FLAG_INITIAL_CLUSTER)->text;
    const char *name = m->out->name;
    struct buf text = {0};

    if (strcmp(name, DEFAULT_NAME) == 0 || !flags_is_default(&m->flags, FLAG_INITIAL_CLUSTER))
        return said;
    for (size_t i = 0; i < m->out->advertise_peers.count; i++) {
        struct bytes url = m->out->advertise_peers.at[i];
        buf_printf(&text, "%s%s=%.*s", i > 0 ? "," : "", name[0] ? name : DEFAULT_NAME,
                   (int)url.len, (const char *)url.at);
    }
    const char *kept = arena_copy_str(&m->out->arena, buf_bytes(&text));
    buf_free(&text);
    return kept;
}

/* etcd advertises the machine's own address then, which it asks the kernel's routes for. */
static void note_unknown_host(struct maker *m)
{
    const struct config_listen *first = &m->out->listen_peers.at[0];
    struct url_list told = m->out->advertise_peers;

    if (bytes_equal(first->url.host, BYTES("0.0.0.0")) && told.count == 1 &&
        bytes_equal(told.at[0], BYTES(DEFAULT_PEER_URL))) {
        maker_note(m, LOG_WARN, "failed to detect default host", "error",
                   "this server does not look for it: set --initial-advertise-peer-urls");
    }
}

static void read_places(struct maker *m)
{
    struct config *c = m->out;

    c->name = maker_value(m, FLAG_NAME)->text;
    c->data_dir = maker_value(m, FLAG_DATA_DIR)->text;
    c->wal_dir = maker_value(m, FLAG_WAL_DIR)->text;
    c->advertise_peers = maker_value(m, FLAG_INITIAL_ADVERTISE_PEER_URLS)->set;
    c->advertise_clients = maker_value(m, FLAG_ADVERTISE_CLIENT_URLS)->set;
    c->initial_cluster_token = maker_value(m, FLAG_INITIAL_CLUSTER_TOKEN)->text;
    c->initial_cluster = initial_cluster(m);
    if (c->data_dir[0] == 0) {
        c->data_dir = arena_printf(&c->arena, "%s.etcd", c->name);
        maker_note(m, LOG_WARN, "'data-dir' was empty; using default", "data-dir", c->data_dir);
    }
    if (c->wal_dir[0] == 0)
        c->wal_dir = arena_printf(&c->arena, "%s/member/wal", c->data_dir);
}

/* ---- All of it ---- */

static bool check_advertise_is_said(struct maker *m)
{
    if (m->has_file || !maker_value(m, FLAG_LISTEN_CLIENT_URLS)->is_set ||
        maker_value(m, FLAG_ADVERTISE_CLIENT_URLS)->is_set)
        return true;
    return maker_refuse(m, "--advertise-client-urls is required when --listen-client-urls is set "
                           "explicitly");
}

static void note_raised(struct maker *m, enum flag_id id, const char *message)
{
    if (maker_value(m, id)->integer < 5 * NS_PER_S)
        maker_note(m, LOG_INFO, message, NULL, NULL);
}

static void note_replaced(struct maker *m)
{
    uint64_t cost = maker_value(m, FLAG_BCRYPT_COST)->number;

    if (!m->has_file) {
        note_raised(m, FLAG_RAFT_READ_TIMEOUT, "raft-read-timeout increased to minimum value: 5s");
        note_raised(m, FLAG_RAFT_WRITE_TIMEOUT,
                    "raft-write-timeout increased to minimum value: 5s");
    }
    if (cost < 4 || cost > 31) {
        maker_note_two(m, LOG_WARN, "use default bcrypt cost instead of the invalid given cost",
                       "default-cost", "10", "given-cost",
                       arena_printf(&m->out->arena, "%" PRIu64, cost));
    }
}

/* They tune bbolt, which is not here: whoever has set them should know. */
static void note_of_bbolt(struct maker *m)
{
    static const enum flag_id ids[] = {FLAG_BACKEND_BATCH_LIMIT, FLAG_BACKEND_BBOLT_FREELIST_TYPE};

    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        if (!flags_is_default(&m->flags, ids[i]))
            maker_note(m, LOG_WARN,
                       "the flag has no effect: it tunes bbolt, and this store is another",
                       "flag-name", flag_table[ids[i]].name);
    }
}

static void note_name(struct maker *m)
{
    if (strcmp(maker_value(m, FLAG_NAME)->text, DEFAULT_NAME) == 0) {
        maker_note(
            m, LOG_WARN,
            "it isn't recommended to use default name, please set a value for --name. Note that "
            "etcd might run into issue when multiple members have the same default name",
            "name", DEFAULT_NAME);
    }
}

/* It is told to the others by the log, where whatever is text has to be UTF-8: nobody could read
 * the entry, and each member would end. What is not in a URL is escaped when that is read. */
/* With less than none there are always too many: etcd finds out when it has begun to start. */
static bool check_learners(struct maker *m)
{
    return maker_value(m, FLAG_MAX_LEARNERS)->integer >= 0 ||
           maker_refuse(m, "membership: too many learner members in cluster");
}

static bool check_name_is_text(struct maker *m)
{
    return bytes_are_utf8(bytes_of_str(maker_value(m, FLAG_NAME)->text)) ||
           maker_refuse(m, "--name is not valid UTF-8");
}

/* The order in which things are refused is etcd's, and what it would take and we cannot do comes
 * last, but for what listening has to do with. */
static bool make(struct maker *m)
{
    if (!check_fallback(m) || !maker_read_log(m) || !maker_check_urls(m))
        return false;
    if (maker_value(m, FLAG_LISTEN_CLIENT_HTTP_URLS)->set.count == 0)
        maker_note(
            m, LOG_WARN,
            "Running http and grpc server on single port. This is not recommended for production.",
            NULL, NULL);
    if (!check_discovery(m) || !check_times(m) || !check_advertise_is_said(m) ||
        !check_compaction(m))
        return false;
    note_name(m);
    if (!config_tls_read(&m->flags, m->out, m->why) || !read_retention(m) || !check_support(m) ||
        !check_name_is_text(m) || !check_learners(m))
        return false;
    note_replaced(m);
    note_of_bbolt(m);
    note_deprecated(m);
    read_plain(m);
    if (!read_auth(m))
        return false;
    read_keepalive(m);
    read_notices(m);
    read_checks(m);
    if (!read_sizes(m) || !maker_read_listens(m))
        return false;
    read_places(m);
    note_unknown_host(m);
    return true;
}

static enum config_result parse(struct maker *m, int argc, const char *const *argv,
                                const char *const *env)
{
    const char *stray;

    flags_init(&m->flags, &m->out->arena);
    switch (flags_parse(&m->flags, argc, argv, &stray, m->why)) {
    case FLAGS_HELP:
        return CONFIG_HELP;
    case FLAGS_BAD:
        return CONFIG_BAD_FLAG;
    case FLAGS_OK:
        break;
    }
    if (stray) {
        maker_refuse(m, "%s is not a valid flag", maker_quote(m, bytes_of_str(stray)));
        return CONFIG_BAD;
    }
    if (maker_value(m, FLAG_VERSION)->boolean)
        return CONFIG_VERSION;
    m->out->shows_fields = maker_asks_for_fields(env);
    const char *path = file_path(m, env);
    enum config_result result = CONFIG_OK;
    if (path[0] != 0)
        result = read_file(m, path);
    else if (!maker_read_env(m, env))
        result = CONFIG_BAD;
    if (result != CONFIG_OK)
        return result;
    if (!maker_read_log_level(m))
        return CONFIG_BAD_FLAG; /* etcd panics, which is the same exit code */
    return make(m) ? CONFIG_OK : CONFIG_BAD;
}

enum config_result config_parse(int argc, const char *const *argv, const char *const *env,
                                struct config *out, struct buf *why)
{
    struct maker m = {.out = out, .why = why};

    *out = (struct config){0};
    maker_log_by_default(out);
    enum config_result result = parse(&m, argc, argv, env);
    maker_keep_notes(&m);
    assert(result != CONFIG_OK || out->listen_clients.count > 0);
    assert(result != CONFIG_OK || out->advertise_peers.count > 0);
    return result;
}

void config_free(struct config *config)
{
    arena_free(&config->arena);
    *config = (struct config){0};
}
