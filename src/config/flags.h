/*
 * flags: every flag of etcd 3.7.1, one of our own (io-threads), and Go's way of reading a command
 * line.
 *
 * The table names all of them, also those that do nothing here yet, since a flag that is unknown
 * and one that is not supported are told apart. Private to the room.
 */
#pragma once

#include "base/buf.h"
#include "cluster/urls.h"
#include "config/gates.h"

enum flag_kind {
    FLAG_BOOL,
    FLAG_UINT,
    FLAG_UINT32,
    FLAG_INT,
    FLAG_DURATION,
    FLAG_TEXT,
    FLAG_URLS,    /* comma separated, sorted, each once; an empty text changes nothing */
    FLAG_SET,     /* comma separated words, sorted, each once */
    FLAG_LIST,    /* comma separated words as they come; no words unless it is said */
    FLAG_STATE,   /* new or existing */
    FLAG_EXIT,    /* exit or proxy */
    FLAG_ORIGINS, /* an asterisk, or URLs */
    FLAG_GATES,   /* of features, on or off */
    FLAG_STAGES,  /* of a deprecation that is over: words that etcd checks and forgets */
    FLAG_NOTHING, /* a flag of old that etcd takes and forgets */
};

enum flag_section {
    SECTION_MEMBER,
    SECTION_CLUSTER,
    SECTION_SECURITY,
    SECTION_LOG,
    SECTION_TUNING,
    SECTION_UNSAFE
};

/* X(id, name, kind, default, section, help) */
#define FLAGS_THAT_WORK(X)                                                                         \
    X(NAME, "name", TEXT, "default", MEMBER, "Name of this member, for people.")                   \
    X(DATA_DIR, "data-dir", TEXT, "", MEMBER,                                                      \
      "Where everything is kept; '<name>.etcd' if it is not said.")                                \
    X(WAL_DIR, "wal-dir", TEXT, "", MEMBER,                                                        \
      "Where the log is kept, if not under the data directory.")                                   \
    X(SNAPSHOT_COUNT, "snapshot-count", UINT, "10000", MEMBER,                                     \
      "Entries applied between two snapshots on disk.")                                            \
    X(SNAPSHOT_CATCHUP_ENTRIES, "snapshot-catchup-entries", UINT, "5000", MEMBER,                  \
      "Entries kept behind a snapshot, for followers that are slow.")                              \
    X(MAX_SNAPSHOTS, "max-snapshots", UINT, "5", MEMBER,                                           \
      "Snapshot files to keep (0: all). Deprecated by etcd 3.6.")                                  \
    X(MAX_WALS, "max-wals", UINT, "5", MEMBER, "Log files to keep (0: all).")                      \
    X(HEARTBEAT_INTERVAL, "heartbeat-interval", UINT, "100", MEMBER,                               \
      "Milliseconds between two heartbeats of a leader.")                                          \
    X(ELECTION_TIMEOUT, "election-timeout", UINT, "1000", MEMBER,                                  \
      "Milliseconds without a leader before an election; at least five heartbeats.")               \
    X(INITIAL_ELECTION_TICK_ADVANCE, "initial-election-tick-advance", BOOL, "true", MEMBER,        \
      "At its start, do not wait a whole election timeout for a leader that cannot be.")           \
    X(LISTEN_PEER_URLS, "listen-peer-urls", URLS, "http://localhost:2380", MEMBER,                 \
      "Where to listen for other members.")                                                        \
    X(LISTEN_CLIENT_URLS, "listen-client-urls", URLS, "http://localhost:2379", MEMBER,             \
      "Where to listen for clients, gRPC and HTTP.")                                               \
    X(LISTEN_CLIENT_HTTP_URLS, "listen-client-http-urls", URLS, "", MEMBER,                        \
      "Where to listen for HTTP alone; the other places are then for gRPC alone.")                 \
    X(LISTEN_METRICS_URLS, "listen-metrics-urls", URLS, "", MEMBER,                                \
      "Where else to serve /metrics, /health, /livez and /readyz, from the start.")                \
    X(QUOTA_BACKEND_BYTES, "quota-backend-bytes", INT, "0", MEMBER,                                \
      "Size of the store at which writing ends (0: 2 GiB; negative: never).")                      \
    X(BACKEND_BATCH_INTERVAL, "backend-batch-interval", DURATION, "0s", MEMBER,                    \
      "Longest time between two commits of the store (0: 100ms).")                                 \
    X(BACKEND_BATCH_LIMIT, "backend-batch-limit", INT, "0", MEMBER,                                \
      "Of bbolt, etcd's store: no effect here. Commits are by time and by size.")                  \
    X(BACKEND_BBOLT_FREELIST_TYPE, "backend-bbolt-freelist-type", TEXT, "", MEMBER,                \
      "Of bbolt, etcd's store: no effect here.")                                                   \
    X(MAX_TXN_OPS, "max-txn-ops", UINT, "128", MEMBER, "Operations allowed in one transaction.")   \
    X(MAX_REQUEST_BYTES, "max-request-bytes", UINT, "1572864", MEMBER,                             \
      "Size of the largest request.")                                                              \
    X(MAX_CONCURRENT_STREAMS, "max-concurrent-streams", UINT32, "4294967295", MEMBER,              \
      "Streams that one connection may have open at once.")                                        \
    X(GRPC_KEEPALIVE_MIN_TIME, "grpc-keepalive-min-time", DURATION, "5s", MEMBER,                  \
      "Shortest time between two pings of a client.")                                              \
    X(GRPC_KEEPALIVE_INTERVAL, "grpc-keepalive-interval", DURATION, "2h0m0s", MEMBER,              \
      "Time after which a silent client is pinged.")                                               \
    X(GRPC_KEEPALIVE_TIMEOUT, "grpc-keepalive-timeout", DURATION, "20s", MEMBER,                   \
      "Time after which a client that does not answer the ping is cut off.")                       \
    X(SOCKET_REUSE_PORT, "socket-reuse-port", BOOL, "false", MEMBER,                               \
      "Share listening ports with other processes that do so too (SO_REUSEPORT).")                 \
    X(SOCKET_REUSE_ADDRESS, "socket-reuse-address", BOOL, "false", MEMBER,                         \
      "Listen where connections of before still linger (SO_REUSEADDR); so it is in any case.")     \
    X(CONFIG_FILE, "config-file", TEXT, "", MEMBER,                                                \
      "A file in YAML with the settings; all other flags and variables are ignored then.")         \
    X(ENABLE_GRPC_GATEWAY, "enable-grpc-gateway", BOOL, "true", MEMBER,                            \
      "Serve the API in JSON, too, at /v3/.")                                                      \
    X(VERSION, "version", BOOL, "false", MEMBER, "Print the version and exit.")                    \
    X(INITIAL_ADVERTISE_PEER_URLS, "initial-advertise-peer-urls", URLS, "http://localhost:2380",   \
      CLUSTER, "Where other members reach this one.")                                              \
    X(ADVERTISE_CLIENT_URLS, "advertise-client-urls", URLS, "http://localhost:2379", CLUSTER,      \
      "Where clients reach this member.")                                                          \
    X(INITIAL_CLUSTER, "initial-cluster", TEXT, "default=http://localhost:2380", CLUSTER,          \
      "The members of a new cluster, as name=url,name=url.")                                       \
    X(INITIAL_CLUSTER_STATE, "initial-cluster-state", STATE, "new", CLUSTER,                       \
      "'new', or 'existing' to join a cluster. Ignored once there is a log.")                      \
    X(INITIAL_CLUSTER_TOKEN, "initial-cluster-token", TEXT, "etcd-cluster", CLUSTER,               \
      "What sets the ids of this new cluster apart from those of another.")                        \
    X(STRICT_RECONFIG_CHECK, "strict-reconfig-check", BOOL, "true", CLUSTER,                       \
      "Refuse changes of the membership that would lose the majority.")                            \
    X(PRE_VOTE, "pre-vote", BOOL, "true", CLUSTER, "Ask around before starting an election.")      \
    X(FORCE_NEW_CLUSTER, "force-new-cluster", BOOL, "false", CLUSTER,                              \
      "Begin anew with this member alone, on its data: for a cluster that has lost its majority.") \
    X(MAX_LEARNERS, "max-learners", INT, "1", CLUSTER, "Members that may learn at once.")          \
    X(CERT_FILE, "cert-file", TEXT, "", SECURITY, "This server's certificate, for clients.")       \
    X(KEY_FILE, "key-file", TEXT, "", SECURITY, "Its key.")                                        \
    X(CLIENT_CERT_FILE, "client-cert-file", TEXT, "", SECURITY,                                    \
      "The certificate to show where this server is a client, if another.")                        \
    X(CLIENT_KEY_FILE, "client-key-file", TEXT, "", SECURITY, "Its key.")                          \
    X(CLIENT_CERT_AUTH, "client-cert-auth", BOOL, "false", SECURITY,                               \
      "Ask clients for a certificate, whose common name is then their user.")                      \
    X(CLIENT_CRL_FILE, "client-crl-file", TEXT, "", SECURITY,                                      \
      "List of the clients' certificates that were revoked.")                                      \
    X(CLIENT_CERT_ALLOWED_HOSTNAME, "client-cert-allowed-hostname", LIST, "", SECURITY,            \
      "Names of which a client's certificate has one.")                                            \
    X(TRUSTED_CA_FILE, "trusted-ca-file", TEXT, "", SECURITY,                                      \
      "Who may sign clients' certificates; they are then asked for one.")                          \
    X(AUTO_TLS, "auto-tls", BOOL, "false", SECURITY,                                               \
      "Serve clients with a certificate that this server makes itself.")                           \
    X(PEER_CERT_FILE, "peer-cert-file", TEXT, "", SECURITY,                                        \
      "This member's certificate, for other members.")                                             \
    X(PEER_KEY_FILE, "peer-key-file", TEXT, "", SECURITY, "Its key.")                              \
    X(PEER_CLIENT_CERT_FILE, "peer-client-cert-file", TEXT, "", SECURITY,                          \
      "The certificate to show to members that this one connects to, if another.")                 \
    X(PEER_CLIENT_KEY_FILE, "peer-client-key-file", TEXT, "", SECURITY, "Its key.")                \
    X(PEER_CLIENT_CERT_AUTH, "peer-client-cert-auth", BOOL, "false", SECURITY,                     \
      "Ask other members for a certificate.")                                                      \
    X(PEER_TRUSTED_CA_FILE, "peer-trusted-ca-file", TEXT, "", SECURITY,                            \
      "Who may sign members' certificates; they are then asked for one.")                          \
    X(PEER_AUTO_TLS, "peer-auto-tls", BOOL, "false", SECURITY,                                     \
      "Serve members with a certificate that this one makes itself, and trust theirs.")            \
    X(PEER_CRL_FILE, "peer-crl-file", TEXT, "", SECURITY,                                          \
      "List of the members' certificates that were revoked.")                                      \
    X(PEER_CERT_ALLOWED_CN, "peer-cert-allowed-cn", LIST, "", SECURITY,                            \
      "Common names of which a member's certificate has one.")                                     \
    X(PEER_CERT_ALLOWED_HOSTNAME, "peer-cert-allowed-hostname", LIST, "", SECURITY,                \
      "Names of which a member's certificate has one.")                                            \
    X(PEER_SKIP_CLIENT_SAN, "peer-skip-client-san-verification", BOOL, "false", SECURITY,          \
      "Take members' certificates from any address.")                                              \
    X(SELF_SIGNED_CERT_VALIDITY, "self-signed-cert-validity", UINT, "1", SECURITY,                 \
      "Years that a certificate is good which this server makes itself.")                          \
    X(CIPHER_SUITES, "cipher-suites", LIST, "", SECURITY,                                          \
      "Of TLS 1.2, by Go's names; Go's own choice if it is not said.")                             \
    X(TLS_MIN_VERSION, "tls-min-version", TEXT, "TLS1.2", SECURITY, "'TLS1.2' or 'TLS1.3'.")       \
    X(TLS_MAX_VERSION, "tls-max-version", TEXT, "", SECURITY,                                      \
      "'TLS1.2' or 'TLS1.3'; the newest if it is not said.")                                       \
    X(AUTO_COMPACTION_MODE, "auto-compaction-mode", TEXT, "periodic", CLUSTER,                     \
      "What --auto-compaction-retention counts: 'periodic' time, or 'revision's.")                 \
    X(AUTO_COMPACTION_RETENTION, "auto-compaction-retention", TEXT, "0", CLUSTER,                  \
      "History to keep when it is compacted by itself: hours, or a time like '5m' (0: all).")      \
    X(CORS, "cors", ORIGINS, "*", SECURITY,                                                        \
      "Whose pages in a browser may ask by HTTP: '*' for all, or URLs.")                           \
    X(HOST_WHITELIST, "host-whitelist", SET, "*", SECURITY,                                        \
      "Names of this host that plain HTTP without TLS may use: '*' for all.")                      \
    X(LOGGER, "logger", TEXT, "zap", LOG, "The shape of the log. There is only 'zap'.")            \
    X(LOG_OUTPUTS, "log-outputs", SET, "default", LOG,                                             \
      "Where the log goes: 'default', 'stderr', 'stdout' or files, with commas between; or "       \
      "'systemd/journal'.")                                                                        \
    X(LOG_LEVEL, "log-level", TEXT, "info", LOG,                                                   \
      "'debug', 'info', 'warn', 'error', 'panic' or 'fatal'.")                                     \
    X(LOG_FORMAT, "log-format", TEXT, "json", LOG, "'json' or 'console'.")                         \
    X(ENABLE_LOG_ROTATION, "enable-log-rotation", BOOL, "false", LOG,                              \
      "Begin a new file of the log when one is full; needs one file in --log-outputs.")            \
    X(LOG_ROTATION_CONFIG_JSON, "log-rotation-config-json", TEXT,                                  \
      "{\"maxsize\": 100, \"maxage\": 0, \"maxbackups\": 0, \"localtime\": false, "                \
      "\"compress\": false}",                                                                      \
      LOG, "How full (MB), and which old files are kept: of so many days, so many (0: all).")      \
    X(AUTH_TOKEN, "auth-token", TEXT, "simple", TUNING,                                            \
      "What those who log in are given: 'simple', '' for nothing, or 'jwt,sign-method=METHOD,"     \
      "pub-key=FILE,priv-key=FILE,ttl=5m'.")                                                       \
    X(BCRYPT_COST, "bcrypt-cost", UINT, "10", TUNING,                                              \
      "How long a password takes to be hashed: two to the power of it.")                           \
    X(AUTH_TOKEN_TTL, "auth-token-ttl", UINT, "300", TUNING,                                       \
      "Seconds after which a token that was not used is forgotten.")                               \
    X(WATCH_PROGRESS_NOTIFY_INTERVAL, "watch-progress-notify-interval", DURATION, "0s", TUNING,    \
      "Time between two notices of progress to a watcher (0: 10m).")                               \
    X(WARNING_APPLY_DURATION, "warning-apply-duration", DURATION, "100ms", TUNING,                 \
      "Time that one entry may take before the log tells of it.")                                  \
    X(WARNING_UNARY_REQUEST_DURATION, "warning-unary-request-duration", DURATION, "300ms", TUNING, \
      "Time that one call may take before the log tells of it (0: 300ms).")                        \
    X(METRICS, "metrics", TEXT, "basic", TUNING,                                                   \
      "'extensive' also counts how long each call took; everything else is 'basic'.")              \
    X(CORRUPT_CHECK_TIME, "corrupt-check-time", DURATION, "0s", TUNING,                            \
      "Time between two comparisons of all members' stores, by the leader (0: none).")             \
    X(COMPACT_HASH_CHECK_TIME, "compact-hash-check-time", DURATION, "1m0s", TUNING,                \
      "Time between two comparisons of compactions, if CompactHashCheck is on.")                   \
    X(COMPACTION_BATCH_LIMIT, "compaction-batch-limit", INT, "0", TUNING,                          \
      "Revisions that a compaction looks at before it pauses (0: 1000, if it pauses).")            \
    X(COMPACTION_SLEEP_INTERVAL, "compaction-sleep-interval", DURATION, "0s", TUNING,              \
      "How long it pauses then (0: 10ms, if there is a batch limit; else not at all).")            \
    X(DOWNGRADE_CHECK_TIME, "downgrade-check-time", DURATION, "5s", TUNING,                        \
      "Time between two looks whether a downgrade is over (0: none).")                             \
    X(BOOTSTRAP_DEFRAG_THRESHOLD, "bootstrap-defrag-threshold-megabytes", UINT, "0", TUNING,       \
      "Defragment the store after the start if that frees so much (0: do not).")                   \
    X(FEATURE_GATES, "feature-gates", GATES, "", TUNING,                                           \
      "Features that are turned on or off, as Name=true,Name=false: InitialCorruptCheck, "         \
      "CompactHashCheck, LeaseCheckpoint, LeaseCheckpointPersist, SetMemberLocalAddr, "            \
      "StopGRPCServiceOnDefrag, FastLeaseKeepAlive; etcd's others as they are.")                   \
    X(IO_THREADS, "io-threads", INT, "-1", TUNING,                                                 \
      "Threads for the connections of clients (0: the one that does all else; negative: by the "   \
      "number of cores, 0 on two or fewer).")                                                      \
    X(UNSAFE_NO_FSYNC, "unsafe-no-fsync", BOOL, "false", UNSAFE,                                   \
      "Do not sync the log. A power cut then loses what was promised.")

/* X(id, name, kind, default): taken with the value they have anyway, and no other. */
#define FLAGS_NOT_YET(X)                                                                           \
    X(MEMORY_MLOCK, "memory-mlock", BOOL, "false")                                                 \
    X(RAFT_READ_TIMEOUT, "raft-read-timeout", DURATION, "5s")                                      \
    X(RAFT_WRITE_TIMEOUT, "raft-write-timeout", DURATION, "5s")                                    \
    X(DISCOVERY_TOKEN, "discovery-token", TEXT, "")                                                \
    X(DISCOVERY_ENDPOINTS, "discovery-endpoints", SET, "")                                         \
    X(DISCOVERY_DIAL_TIMEOUT, "discovery-dial-timeout", DURATION, "2s")                            \
    X(DISCOVERY_REQUEST_TIMEOUT, "discovery-request-timeout", DURATION, "5s")                      \
    X(DISCOVERY_KEEPALIVE_TIME, "discovery-keepalive-time", DURATION, "2s")                        \
    X(DISCOVERY_KEEPALIVE_TIMEOUT, "discovery-keepalive-timeout", DURATION, "6s")                  \
    X(DISCOVERY_INSECURE_TRANSPORT, "discovery-insecure-transport", BOOL, "true")                  \
    X(DISCOVERY_INSECURE_SKIP, "discovery-insecure-skip-tls-verify", BOOL, "false")                \
    X(DISCOVERY_CERT, "discovery-cert", TEXT, "")                                                  \
    X(DISCOVERY_KEY, "discovery-key", TEXT, "")                                                    \
    X(DISCOVERY_CACERT, "discovery-cacert", TEXT, "")                                              \
    X(DISCOVERY_USER, "discovery-user", TEXT, "")                                                  \
    X(DISCOVERY_PASSWORD, "discovery-password", TEXT, "")                                          \
    X(DISCOVERY_SRV, "discovery-srv", TEXT, "")                                                    \
    X(DISCOVERY_SRV_NAME, "discovery-srv-name", TEXT, "")                                          \
    X(DISCOVERY_FALLBACK, "discovery-fallback", EXIT, "exit")                                      \
    X(ENABLE_PPROF, "enable-pprof", BOOL, "false")                                                 \
    X(ENABLE_DISTRIBUTED_TRACING, "enable-distributed-tracing", BOOL, "false")                     \
    X(TRACING_ADDRESS, "distributed-tracing-address", TEXT, "localhost:4317")                      \
    X(TRACING_SERVICE_NAME, "distributed-tracing-service-name", TEXT, "etcd")                      \
    X(TRACING_INSTANCE_ID, "distributed-tracing-instance-id", TEXT, "")                            \
    X(TRACING_SAMPLING_RATE, "distributed-tracing-sampling-rate", INT, "0")

/* X(id, name, kind, default): etcd takes them and does nothing, so there is nothing to support. */
#define FLAGS_OF_OLD(X)                                                                            \
    X(V2_DEPRECATION, "v2-deprecation", STAGES, "")                                                \
    X(CLUSTER_ACTIVE_SIZE, "cluster-active-size", NOTHING, "")                                     \
    X(CLUSTER_REMOVE_DELAY, "cluster-remove-delay", NOTHING, "")                                   \
    X(CLUSTER_SYNC_INTERVAL, "cluster-sync-interval", NOTHING, "")                                 \
    X(CONFIG, "config", NOTHING, "")                                                               \
    X(FORCE, "force", NOTHING, "")                                                                 \
    X(MAX_RESULT_BUFFER, "max-result-buffer", NOTHING, "")                                         \
    X(MAX_RETRY_ATTEMPTS, "max-retry-attempts", NOTHING, "")                                       \
    X(PEER_HEARTBEAT_INTERVAL, "peer-heartbeat-interval", NOTHING, "")                             \
    X(PEER_ELECTION_TIMEOUT, "peer-election-timeout", NOTHING, "")                                 \
    X(RETRY_INTERVAL, "retry-interval", NOTHING, "")                                               \
    X(SNAPSHOT, "snapshot", NOTHING, "")                                                           \
    X(V, "v", NOTHING, "")                                                                         \
    X(VV, "vv", NOTHING, "")                                                                       \
    X(TEST_COVERPROFILE, "test.coverprofile", NOTHING, "")                                         \
    X(TEST_OUTPUTDIR, "test.outputdir", NOTHING, "")

#define FLAG_ENUM_LONG(id, name, kind, initial, section, help) FLAG_##id,
#define FLAG_ENUM(id, name, kind, initial)                     FLAG_##id,
enum flag_id {
    FLAGS_THAT_WORK(FLAG_ENUM_LONG) FLAG_WORKING_COUNT,
    FLAG_BEFORE_NOT_YET = FLAG_WORKING_COUNT - 1,
    FLAGS_NOT_YET(FLAG_ENUM) FLAG_SUPPORT_COUNT,
    FLAG_BEFORE_OF_OLD = FLAG_SUPPORT_COUNT - 1,
    FLAGS_OF_OLD(FLAG_ENUM) FLAG_COUNT
};
#undef FLAG_ENUM_LONG
#undef FLAG_ENUM

struct flag {
    const char *name, *initial;
    const char *help; /* NULL, and no section, unless it works */
    enum flag_kind kind;
    enum flag_section section;
};

extern const struct flag flag_table[FLAG_COUNT];

struct flag_value {
    bool is_set;         /* on the command line or in the environment */
    bool boolean;        /* BOOL; STATE: existing; EXIT: proxy */
    uint64_t number;     /* UINT, UINT32 */
    int64_t integer;     /* INT; DURATION, in nanoseconds */
    const char *text;    /* TEXT; STATE: NULL, or what a file says that is neither */
    struct url_list set; /* URLS, SET, LIST, ORIGINS */
    struct gates gates;  /* GATES */
};

struct flags {
    struct arena *arena;
    struct flag_value values[FLAG_COUNT];
};

/* Every flag at its default. Texts go into the arena. */
void flags_init(struct flags *f, struct arena *arena);

/* False, and *why has the reason, without the flag's name. */
bool flags_set(struct flags *f, enum flag_id id, struct bytes text, struct buf *why);

enum flags_result { FLAGS_OK, FLAGS_HELP, FLAGS_BAD };

/* Reads argv[1] and on. *stray is the first word that is no flag, or NULL. */
enum flags_result flags_parse(struct flags *f, int argc, const char *const *argv,
                              const char **stray, struct buf *why);

/* FLAG_COUNT if there is none. */
enum flag_id flags_find(struct bytes name);

/*
 * Has it the value it would have if nobody had said anything? Some values say the same in other
 * words: etcd turns a batch limit of 0 into 10000, so 10000 is its default too.
 */
bool flags_is_default(const struct flags *f, enum flag_id id);

/* "ETCD_DATA_DIR" for data-dir. */
const char *flags_env_name(const struct flags *f, enum flag_id id);
