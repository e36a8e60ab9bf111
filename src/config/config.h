/*
 * config: what the operator asked for, from the command line and the environment, or from a file.
 *
 * The flags, their defaults, their spelling of values and the words in which bad ones are refused
 * are etcd's, so that scripts and unit files written for etcd start this server. A flag of etcd
 * that does nothing here yet is refused by name, unless it is given the value it has anyway:
 * silence would be a promise.
 *
 * A configuration file (--config-file, ETCD_CONFIG_FILE) takes the place of all other flags and
 * variables, as in etcd; config/file.h reads it.
 *
 *     argv, env --> config_parse --> struct config, plain data, checked as a whole
 *                                --> notes: lines that the log is to have once there is a log
 *
 * Life       config_parse, then reading, then config_free; in every case, a refused one too.
 * Promises   1. Nothing is read but the two arrays and the one file that they may name: no
 *               environment, no clock.
 *            2. After CONFIG_OK every field has a value that was checked; nothing is left to parse.
 *            3. config_help tells of exactly the flags that work.
 *            4. The fields of the log are good in every case: where it stopped before they were
 *               read, they say what etcd logs with until it knows better, info as JSON to stderr.
 * Not here   What the files of TLS say (io/tls.h). Printing, logging and exit codes (cli).
 * --initial-cluster stays text, since it counts only where there is no log yet
 * (cluster_initial_parse).
 */
#pragma once

#include "auth/jwt.h"
#include "base/buf.h"
#include "base/logger.h"
#include "cluster/urls.h"
#include "config/gates.h"
#include "io/net.h"
#include "io/tls.h"

enum { CONFIG_LOG_OUTPUTS_MAX = 8 };

/* How the log's file is replaced by a new one, where it is. */
struct config_rotation {
    bool is_on;
    uint64_t size_bytes;   /* of one file, at most */
    uint64_t age_days_max; /* of those that are kept; 0: any */
    uint64_t backups_max;  /* of them; 0: all */
    bool local_time;       /* in their names; else UTC */
};

/* One place to listen on. */
struct config_listen {
    struct url url;
    struct net_address address; /* localhost is 127.0.0.1; a port of 0 lets the system choose */
    const char *flag;           /* that names the place, without its dashes */
};

struct config_listens {
    const struct config_listen *at;
    size_t count; /* of members and clients at least one */
};

/* What one side, clients or other members, has to do with TLS. */
struct tls_flags {
    const char *cert_file, *key_file;
    const char *dial_cert_file, *dial_key_file; /* for connections we make; both or neither */
    const char *trusted_ca_file, *crl_file;
    bool client_cert_auth;
    bool makes_cert; /* asked to, and none was given */
    bool skips_san;  /* of members alone */
    struct url_list allowed_hostnames, allowed_cns;
};

/* A line for the log: a message and up to two fields. */
struct config_note {
    enum log_level level;
    const char *message;
    struct {
        const char *key, *value; /* NULL: none */
    } fields[2];
};

/* What those who log in are given. */
struct config_token {
    enum config_token_kind { TOKEN_NONE, TOKEN_SIMPLE, TOKEN_JWT } kind;
    enum jwt_method jwt_method;
    uint64_t simple_ttl_ms;
    const char *jwt_public_key_file, *jwt_private_key_file; /* "": not given */
    int64_t jwt_ttl_s;
};

/* Everything, about in the order of the help text. Texts are zero-terminated and never NULL.
 */
struct config {
    const char *name;
    const char *data_dir; /* "<name>.etcd" if it was not said */
    const char *wal_dir;  /* "<data_dir>/member/wal" if it was not said */
    uint64_t snapshot_count, snapshot_catchup_entries;
    uint64_t max_snapshots, max_wals; /* files kept; 0: all */
    uint64_t heartbeat_ms, election_ms;
    struct config_listens listen_peers, listen_clients;
    struct config_listens listen_http, listen_metrics; /* none, or for plain HTTP alone */
    int64_t quota_backend_bytes;                       /* 0: the default; negative: none */
    int64_t backend_batch_interval_ns;
    uint64_t max_txn_ops, max_request_bytes;
    uint32_t max_concurrent_streams;
    bool initial_tick_advance;
    bool reuse_port;
    bool enable_grpc_gateway;
    bool shows_fields; /* of requests on HTTP/2, on standard error: GODEBUG has "http2debug=2" */
    int64_t grpc_keepalive_min_time_ns; /* these three are always positive, as in etcd: where it */
    int64_t grpc_keepalive_interval_ns, grpc_keepalive_timeout_ns; /* has none, gRPC has its own */

    struct url_list advertise_peers, advertise_clients; /* sorted, at least one each */
    const char *initial_cluster;
    const char *initial_cluster_token;
    bool joins_existing; /* --initial-cluster-state=existing */
    bool strict_reconfig_check;
    bool force_new_cluster;
    bool pre_vote;
    bool auto_compaction_counts_revisions;
    uint64_t max_learners;
    uint64_t downgrade_check_ms;       /* 0: never */
    int64_t auto_compaction_retention; /* revisions, or else nanoseconds; 0: there is none */

    struct url_list cors, host_whitelist; /* "*" among them: all */
    struct tls_flags client_tls, peer_tls;
    struct url_list cipher_suites;     /* all known; none: those we choose */
    enum tls_version tls_min, tls_max; /* neither is ANY */
    uint64_t self_signed_years;        /* 0 where somebody said so: none can be made then */

    struct config_token token;
    unsigned bcrypt_cost;
    int io_threads;         /* for the connections of clients; negative: by the number of cores */
    bool extensive_metrics; /* how long calls take is counted by method */
    bool unsafe_no_fsync;

    enum log_level log_level;
    enum log_format log_format;
    struct url_list log_outputs; /* "stderr", "stdout" or paths, "default" has become "stderr"; or
                                    "systemd/journal" alone */
    struct config_rotation log_rotation;
    int64_t watch_progress_notify_ns;
    int64_t warning_apply_ns;        /* an entry that takes longer is told of in the log */
    int64_t warning_unary_ns;        /* the same for a call */
    int64_t corrupt_check_ns;        /* between two checks of the whole store; 0: there are none */
    int64_t compact_hash_check_ns;   /* between two of compactions, where the gate is on */
    uint64_t compaction_batch;       /* revisions between two pauses of a compaction; 0: no bound */
    int64_t compaction_sleep_ns;     /* a pause */
    struct gates gates;              /* of features */
    uint64_t bootstrap_defrag_bytes; /* that it must free; 0: there is none */

    const struct config_note *notes; /* in order */
    size_t note_count;

    struct arena arena; /* of everything above */
};

enum config_result {
    CONFIG_OK,
    CONFIG_HELP,     /* config_usage to stderr, config_help to stdout, exit 0 */
    CONFIG_VERSION,  /* config_version to stdout, exit 0 */
    CONFIG_BAD_FLAG, /* *why and config_usage to stderr, exit 2 */
    CONFIG_BAD_FILE, /* *why to stderr, exit 1 */
    CONFIG_BAD,      /* "failed to verify flags" with *why into the log and to stderr, exit 1 */
};

/*
 * argv as main has it; env as environ, a NULL at its end. *why is appended to when bad. The notes
 * are there in every case, up to where it stopped.
 */
enum config_result config_parse(int argc, const char *const *argv, const char *const *env,
                                struct config *out, struct buf *why);
void config_free(struct config *config);

/* A certificate was given for it, or is to be made. */
bool tls_flags_are_given(const struct tls_flags *f);

/* Each appends its text, last newline included. */
void config_usage(struct buf *out);
void config_help(struct buf *out);
void config_version(struct buf *out);
