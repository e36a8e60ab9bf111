#include "config/file.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/text.h"
#include "config/value.h"
#include "config/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* ---- The keys ---- */

enum section { TOP, CLIENT_TLS, PEER_TLS, SOCKET, DISCOVERY, SPEC, SECURE, AUTH, SECTION_COUNT };

/* Sections are Go structs, whose names are in what etcd says about a wrong type. */
static const struct {
    const char *key, *holder, *go_struct, *go_type;
    enum section parent;
} sections[SECTION_COUNT] = {
    [TOP] = {"", "", "configYAML", "embed.configYAML", SECTION_COUNT},
    [CLIENT_TLS] = {"client-transport-security", "configJSON", "securityConfig",
                    "embed.securityConfig", TOP},
    [PEER_TLS] = {"peer-transport-security", "configJSON", "securityConfig", "embed.securityConfig",
                  TOP},
    [SOCKET] = {"socket-options", "Config", "SocketOpts", "transport.SocketOpts", TOP},
    [DISCOVERY] = {"discovery-config", "Config", "DiscoveryConfig", "v3discovery.DiscoveryConfig",
                   TOP},
    [SPEC] = {"client", NULL, "ConfigSpec", "clientv3.ConfigSpec", DISCOVERY},
    [SECURE] = {"secure", NULL, "SecureConfig", "clientv3.SecureConfig", SPEC},
    [AUTH] = {"auth", NULL, "AuthConfig", "clientv3.AuthConfig", SPEC},
};

enum want {
    WANT_BOOL,
    WANT_UINT,
    WANT_UINT64,
    WANT_UINT32,
    WANT_INT,
    WANT_INT64,
    WANT_DURATION,
    WANT_TEXT,
    WANT_LIST,
    WANT_STAGE,
};

static const char *const go_types[] = {
    [WANT_BOOL] = "bool",     [WANT_UINT] = "uint",
    [WANT_UINT64] = "uint64", [WANT_UINT32] = "uint32",
    [WANT_INT] = "int",       [WANT_INT64] = "int64",
    [WANT_TEXT] = "string",   [WANT_DURATION] = "time.Duration",
    [WANT_LIST] = "[]string", [WANT_STAGE] = "config.V2DeprecationEnum",
};

/*
 * Every key, in the order in which the values take effect: what etcd refuses by itself comes first,
 * in its order. Two keys have no flag; they are known so that they are refused by name.
 */
#define NO_FLAG FLAG_COUNT
static const struct key {
    const char *name;
    enum section section;
    enum flag_id flag;
    enum want want;
    bool is_json; /* at the top: etcd has it in configJSON, not in Config */
} keys[] = {
    {"feature-gates", TOP, FLAG_FEATURE_GATES, WANT_TEXT, true},
    {"listen-peer-urls", TOP, FLAG_LISTEN_PEER_URLS, WANT_TEXT, true},
    {"listen-client-urls", TOP, FLAG_LISTEN_CLIENT_URLS, WANT_TEXT, true},
    {"listen-client-http-urls", TOP, FLAG_LISTEN_CLIENT_HTTP_URLS, WANT_TEXT, true},
    {"initial-advertise-peer-urls", TOP, FLAG_INITIAL_ADVERTISE_PEER_URLS, WANT_TEXT, true},
    {"advertise-client-urls", TOP, FLAG_ADVERTISE_CLIENT_URLS, WANT_TEXT, true},
    {"listen-metrics-urls", TOP, FLAG_LISTEN_METRICS_URLS, WANT_TEXT, false},
    {"cors", TOP, FLAG_CORS, WANT_TEXT, true},
    {"host-whitelist", TOP, FLAG_HOST_WHITELIST, WANT_TEXT, true},
    {"name", TOP, FLAG_NAME, WANT_TEXT, false},
    {"data-dir", TOP, FLAG_DATA_DIR, WANT_TEXT, false},
    {"wal-dir", TOP, FLAG_WAL_DIR, WANT_TEXT, false},
    {"snapshot-count", TOP, FLAG_SNAPSHOT_COUNT, WANT_UINT64, false},
    {"snapshot-catchup-entries", TOP, FLAG_SNAPSHOT_CATCHUP_ENTRIES, WANT_UINT64, false},
    {"max-snapshots", TOP, FLAG_MAX_SNAPSHOTS, WANT_UINT, false},
    {"max-wals", TOP, FLAG_MAX_WALS, WANT_UINT, false},
    {"heartbeat-interval", TOP, FLAG_HEARTBEAT_INTERVAL, WANT_UINT, false},
    {"election-timeout", TOP, FLAG_ELECTION_TIMEOUT, WANT_UINT, false},
    {"initial-election-tick-advance", TOP, FLAG_INITIAL_ELECTION_TICK_ADVANCE, WANT_BOOL, false},
    {"backend-batch-interval", TOP, FLAG_BACKEND_BATCH_INTERVAL, WANT_DURATION, false},
    {"backend-batch-limit", TOP, FLAG_BACKEND_BATCH_LIMIT, WANT_INT, false},
    {"backend-bbolt-freelist-type", TOP, FLAG_BACKEND_BBOLT_FREELIST_TYPE, WANT_TEXT, false},
    {"quota-backend-bytes", TOP, FLAG_QUOTA_BACKEND_BYTES, WANT_INT64, false},
    {"max-txn-ops", TOP, FLAG_MAX_TXN_OPS, WANT_UINT, false},
    {"max-request-bytes", TOP, FLAG_MAX_REQUEST_BYTES, WANT_UINT, false},
    {"max-concurrent-streams", TOP, FLAG_MAX_CONCURRENT_STREAMS, WANT_UINT32, false},
    {"self-signed-cert-validity", TOP, FLAG_SELF_SIGNED_CERT_VALIDITY, WANT_UINT, false},
    {"cipher-suites", TOP, FLAG_CIPHER_SUITES, WANT_LIST, false},
    {"tls-min-version", TOP, FLAG_TLS_MIN_VERSION, WANT_TEXT, false},
    {"tls-max-version", TOP, FLAG_TLS_MAX_VERSION, WANT_TEXT, false},
    {"initial-cluster-state", TOP, FLAG_INITIAL_CLUSTER_STATE, WANT_TEXT, false},
    {"discovery-srv", TOP, FLAG_DISCOVERY_SRV, WANT_TEXT, false},
    {"discovery-srv-name", TOP, FLAG_DISCOVERY_SRV_NAME, WANT_TEXT, false},
    {"initial-cluster", TOP, FLAG_INITIAL_CLUSTER, WANT_TEXT, false},
    {"initial-cluster-token", TOP, FLAG_INITIAL_CLUSTER_TOKEN, WANT_TEXT, false},
    {"strict-reconfig-check", TOP, FLAG_STRICT_RECONFIG_CHECK, WANT_BOOL, false},
    {"auto-compaction-mode", TOP, FLAG_AUTO_COMPACTION_MODE, WANT_TEXT, false},
    {"auto-compaction-retention", TOP, FLAG_AUTO_COMPACTION_RETENTION, WANT_TEXT, false},
    {"grpc-keepalive-min-time", TOP, FLAG_GRPC_KEEPALIVE_MIN_TIME, WANT_DURATION, false},
    {"grpc-keepalive-interval", TOP, FLAG_GRPC_KEEPALIVE_INTERVAL, WANT_DURATION, false},
    {"grpc-keepalive-timeout", TOP, FLAG_GRPC_KEEPALIVE_TIMEOUT, WANT_DURATION, false},
    {"pre-vote", TOP, FLAG_PRE_VOTE, WANT_BOOL, false},
    {"auth-token", TOP, FLAG_AUTH_TOKEN, WANT_TEXT, false},
    {"bcrypt-cost", TOP, FLAG_BCRYPT_COST, WANT_UINT, false},
    {"auth-token-ttl", TOP, FLAG_AUTH_TOKEN_TTL, WANT_UINT, false},
    {"corrupt-check-time", TOP, FLAG_CORRUPT_CHECK_TIME, WANT_DURATION, false},
    {"compact-hash-check-time", TOP, FLAG_COMPACT_HASH_CHECK_TIME, WANT_DURATION, false},
    {"compaction-batch-limit", TOP, FLAG_COMPACTION_BATCH_LIMIT, WANT_INT, false},
    {"compaction-sleep-interval", TOP, FLAG_COMPACTION_SLEEP_INTERVAL, WANT_DURATION, false},
    {"watch-progress-notify-interval", TOP, FLAG_WATCH_PROGRESS_NOTIFY_INTERVAL, WANT_DURATION,
     false},
    {"warning-apply-duration", TOP, FLAG_WARNING_APPLY_DURATION, WANT_DURATION, false},
    {"bootstrap-defrag-threshold-megabytes", TOP, FLAG_BOOTSTRAP_DEFRAG_THRESHOLD, WANT_UINT,
     false},
    {"warning-unary-request-duration", TOP, FLAG_WARNING_UNARY_REQUEST_DURATION, WANT_DURATION,
     false},
    {"max-learners", TOP, FLAG_MAX_LEARNERS, WANT_INT, false},
    {"io-threads", TOP, FLAG_IO_THREADS, WANT_INT, false},
    {"force-new-cluster", TOP, FLAG_FORCE_NEW_CLUSTER, WANT_BOOL, false},
    {"enable-pprof", TOP, FLAG_ENABLE_PPROF, WANT_BOOL, false},
    {"metrics", TOP, FLAG_METRICS, WANT_TEXT, false},
    {"enable-distributed-tracing", TOP, FLAG_ENABLE_DISTRIBUTED_TRACING, WANT_BOOL, false},
    {"distributed-tracing-address", TOP, FLAG_TRACING_ADDRESS, WANT_TEXT, false},
    {"distributed-tracing-service-name", TOP, FLAG_TRACING_SERVICE_NAME, WANT_TEXT, false},
    {"distributed-tracing-instance-id", TOP, FLAG_TRACING_INSTANCE_ID, WANT_TEXT, false},
    {"distributed-tracing-sampling-rate", TOP, FLAG_TRACING_SAMPLING_RATE, WANT_INT, false},
    {"logger", TOP, FLAG_LOGGER, WANT_TEXT, false},
    {"log-level", TOP, FLAG_LOG_LEVEL, WANT_TEXT, false},
    {"log-format", TOP, FLAG_LOG_FORMAT, WANT_TEXT, false},
    {"log-outputs", TOP, FLAG_LOG_OUTPUTS, WANT_LIST, false},
    {"enable-log-rotation", TOP, FLAG_ENABLE_LOG_ROTATION, WANT_BOOL, false},
    {"log-rotation-config-json", TOP, FLAG_LOG_ROTATION_CONFIG_JSON, WANT_TEXT, false},
    {"enable-grpc-gateway", TOP, FLAG_ENABLE_GRPC_GATEWAY, WANT_BOOL, false},
    {"unsafe-no-fsync", TOP, FLAG_UNSAFE_NO_FSYNC, WANT_BOOL, false},
    {"downgrade-check-time", TOP, FLAG_DOWNGRADE_CHECK_TIME, WANT_DURATION, false},
    {"memory-mlock", TOP, FLAG_MEMORY_MLOCK, WANT_BOOL, false},
    {"v2-deprecation", TOP, FLAG_V2_DEPRECATION, WANT_STAGE, false},

    {"cert-file", CLIENT_TLS, FLAG_CERT_FILE, WANT_TEXT, false},
    {"key-file", CLIENT_TLS, FLAG_KEY_FILE, WANT_TEXT, false},
    {"client-cert-file", CLIENT_TLS, FLAG_CLIENT_CERT_FILE, WANT_TEXT, false},
    {"client-key-file", CLIENT_TLS, FLAG_CLIENT_KEY_FILE, WANT_TEXT, false},
    {"client-cert-auth", CLIENT_TLS, FLAG_CLIENT_CERT_AUTH, WANT_BOOL, false},
    {"trusted-ca-file", CLIENT_TLS, FLAG_TRUSTED_CA_FILE, WANT_TEXT, false},
    {"auto-tls", CLIENT_TLS, FLAG_AUTO_TLS, WANT_BOOL, false},
    {"allowed-cn", CLIENT_TLS, NO_FLAG, WANT_LIST, false},
    {"allowed-hostname", CLIENT_TLS, FLAG_CLIENT_CERT_ALLOWED_HOSTNAME, WANT_LIST, false},
    {"skip-client-san-verification", CLIENT_TLS, NO_FLAG, WANT_BOOL, false},

    {"cert-file", PEER_TLS, FLAG_PEER_CERT_FILE, WANT_TEXT, false},
    {"key-file", PEER_TLS, FLAG_PEER_KEY_FILE, WANT_TEXT, false},
    {"client-cert-file", PEER_TLS, FLAG_PEER_CLIENT_CERT_FILE, WANT_TEXT, false},
    {"client-key-file", PEER_TLS, FLAG_PEER_CLIENT_KEY_FILE, WANT_TEXT, false},
    {"client-cert-auth", PEER_TLS, FLAG_PEER_CLIENT_CERT_AUTH, WANT_BOOL, false},
    {"trusted-ca-file", PEER_TLS, FLAG_PEER_TRUSTED_CA_FILE, WANT_TEXT, false},
    {"auto-tls", PEER_TLS, FLAG_PEER_AUTO_TLS, WANT_BOOL, false},
    {"allowed-cn", PEER_TLS, FLAG_PEER_CERT_ALLOWED_CN, WANT_LIST, false},
    {"allowed-hostname", PEER_TLS, FLAG_PEER_CERT_ALLOWED_HOSTNAME, WANT_LIST, false},
    {"skip-client-san-verification", PEER_TLS, FLAG_PEER_SKIP_CLIENT_SAN, WANT_BOOL, false},

    {"reuse-port", SOCKET, FLAG_SOCKET_REUSE_PORT, WANT_BOOL, false},
    {"reuse-address", SOCKET, FLAG_SOCKET_REUSE_ADDRESS, WANT_BOOL, false},

    {"token", DISCOVERY, FLAG_DISCOVERY_TOKEN, WANT_TEXT, false},
    {"endpoints", SPEC, FLAG_DISCOVERY_ENDPOINTS, WANT_LIST, false},
    {"dial-timeout", SPEC, FLAG_DISCOVERY_DIAL_TIMEOUT, WANT_DURATION, false},
    {"request-timeout", SPEC, FLAG_DISCOVERY_REQUEST_TIMEOUT, WANT_DURATION, false},
    {"keepalive-time", SPEC, FLAG_DISCOVERY_KEEPALIVE_TIME, WANT_DURATION, false},
    {"keepalive-timeout", SPEC, FLAG_DISCOVERY_KEEPALIVE_TIMEOUT, WANT_DURATION, false},
    {"insecure-transport", SECURE, FLAG_DISCOVERY_INSECURE_TRANSPORT, WANT_BOOL, false},
    {"insecure-skip-tls-verify", SECURE, FLAG_DISCOVERY_INSECURE_SKIP, WANT_BOOL, false},
    {"cert", SECURE, FLAG_DISCOVERY_CERT, WANT_TEXT, false},
    {"key", SECURE, FLAG_DISCOVERY_KEY, WANT_TEXT, false},
    {"cacert", SECURE, FLAG_DISCOVERY_CACERT, WANT_TEXT, false},
    {"username", AUTH, FLAG_DISCOVERY_USER, WANT_TEXT, false},
    {"password", AUTH, FLAG_DISCOVERY_PASSWORD, WANT_TEXT, false},
};
enum { KEY_COUNT = ARRAY_LEN(keys) };

struct file {
    struct flags *flags;
    struct buf *why, unknown;
    const struct yaml_value *said[KEY_COUNT]; /* NULL, or nothing: its default */
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct file *f, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    buf_vprintf(f->why, format, args);
    va_end(args);
    return false;
}

/* JSON in Go minds no case. Of two spellings the later counts, which is the one in lower case. */
static bool is_name(struct bytes said, const char *name)
{
    size_t i = 0;

    while (i < said.len && name[i] && tolower(said.at[i]) == name[i])
        i++;
    return i == said.len && name[i] == 0;
}

static size_t find_key(enum section section, struct bytes name)
{
    size_t i = 0;

    while (i < KEY_COUNT && (keys[i].section != section || !is_name(name, keys[i].name)))
        i++;
    return i;
}

static enum section find_section(enum section parent, struct bytes name)
{
    for (size_t s = TOP + 1; s < SECTION_COUNT; s++) {
        if (sections[s].parent == parent && is_name(name, sections[s].key))
            return (enum section)s;
    }
    return SECTION_COUNT;
}

/* ---- Types ---- */

static void append_path(struct buf *out, enum section section)
{
    if (section == TOP)
        return;
    append_path(out, sections[section].parent);
    if (sections[section].holder)
        buf_printf(out, "%s.", sections[section].holder);
    buf_printf(out, "%s.", sections[section].key);
}

/* As Go's JSON says it. A number that would do but for its size is repeated. */
static bool refuse_type(struct file *f, enum section section, const char *holder, const char *name,
                        const struct yaml_value *value, bool shows_number, const char *type)
{
    static const char *const kinds[] = {[YAML_BOOL] = "bool",
                                        [YAML_NUMBER] = "number",
                                        [YAML_TEXT] = "string",
                                        [YAML_LIST] = "array",
                                        [YAML_MAP] = "object"};

    refuse(f, "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal %s",
           kinds[value->kind]);
    if (shows_number && value->kind == YAML_NUMBER)
        refuse(f, " %.*s", (int)value->text.len, (const char *)value->text.at);
    if (!name)
        return refuse(f, " into Go value of type %s", type);
    refuse(f, " into Go struct field %s.", sections[section].go_struct);
    append_path(f->why, section);
    return refuse(f, "%s%s%s of type %s", holder, holder[0] ? "." : "", name, type);
}

static bool number_fits(enum want want, struct bytes text)
{
    uint64_t number;
    int64_t integer;

    /* A float that JSON writes with a point or an exponent is no whole number, however large. */
    for (size_t i = 0; i < text.len; i++) {
        if (!isdigit(text.at[i]) && text.at[i] != '-')
            return false;
    }
    if (want == WANT_UINT32)
        return !value_parse_uint(text, UINT32_MAX, &number);
    if (want == WANT_UINT || want == WANT_UINT64)
        return !value_parse_uint(text, UINT64_MAX, &number);
    return !value_parse_int(text, &integer);
}

static bool is_number(enum want want)
{
    return want >= WANT_UINT && want <= WANT_DURATION;
}

static bool fits(enum want want, const struct yaml_value *value)
{
    if (is_number(want))
        return value->kind == YAML_NUMBER && number_fits(want, value->text);
    if (want == WANT_BOOL)
        return value->kind == YAML_BOOL;
    return value->kind == (want == WANT_LIST ? YAML_LIST : YAML_TEXT);
}

static bool check_text(struct file *f, const struct key *key, struct bytes text, bool in_list)
{
    if (text.len > 0 && memchr(text.at, 0, text.len))
        return refuse(f, "%s: there is a zero byte in its text", key->name);
    if (in_list && text.len > 0 && memchr(text.at, ',', text.len))
        return refuse(f, "%s: there is a comma in %.*s, which is not supported", key->name,
                      (int)text.len, (const char *)text.at);
    return true;
}

static bool check_value(struct file *f, const struct key *key, const struct yaml_value *value)
{
    const char *holder = key->section != TOP ? "" : key->is_json ? "configJSON" : "Config";

    if (!fits(key->want, value))
        return refuse_type(f, key->section, holder, key->name, value, is_number(key->want),
                           go_types[key->want]);
    if (value->kind == YAML_TEXT)
        return check_text(f, key, value->text, false);
    for (size_t i = 0; value->kind == YAML_LIST && i < value->count; i++) {
        const struct yaml_value *item = value->items[i];
        if (item->kind != YAML_TEXT && item->kind != YAML_NULL)
            return refuse_type(f, key->section, holder, key->name, item, false, "string");
        if (!check_text(f, key, item->text, true))
            return false;
    }
    return true;
}

/* Keeps what is said of each key of a section and of those within: the last one counts. */
static bool check_section(struct file *f, enum section section, const struct yaml_value *map)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct yaml_field *field = &map->fields[i];
        enum section inner = find_section(section, field->key);
        size_t key = find_key(section, field->key);
        if (inner == SECTION_COUNT && key == KEY_COUNT) {
            buf_append_str(&f->unknown, f->unknown.len ? ", " : "");
            text_append_quoted(&f->unknown, field->key);
        } else if (field->value->kind == YAML_NULL) {
            continue;
        } else if (inner == SECTION_COUNT) {
            if (!check_value(f, &keys[key], field->value))
                return false;
            f->said[key] = field->value;
        } else {
            const char *holder = sections[inner].holder ? sections[inner].holder : "";
            if (field->value->kind != YAML_MAP)
                return refuse_type(f, section, holder, sections[inner].key, field->value, false,
                                   sections[inner].go_type);
            if (!check_section(f, inner, field->value))
                return false;
        }
    }
    return true;
}

/* ---- Values ---- */

static void join(const struct yaml_value *list, struct buf *out)
{
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            buf_append_byte(out, ',');
        buf_append(out, list->items[i]->text);
    }
}

/* As it would stand on a command line. */
static void as_typed(const struct yaml_value *value, enum want want, struct buf *out)
{
    if (value->kind == YAML_LIST)
        join(value, out);
    else if (value->kind == YAML_BOOL)
        buf_append_str(out, value->boolean ? "true" : "false");
    else
        buf_append(out, value->text);
    if (want == WANT_DURATION)
        buf_append_str(out, "ns");
}

static bool says_nothing(const struct yaml_value *value)
{
    return value->kind == YAML_LIST ? value->count == 0
                                    : value->kind == YAML_BOOL && !value->boolean;
}

/* etcd says advertise-peer-urls of advertise-client-urls, and it panics of cors. */
static enum config_file_result refuse_value(struct file *f, const struct key *key,
                                            const char *reason)
{
    bool is_url = flag_table[key->flag].kind == FLAG_URLS || key->flag == FLAG_CORS;
    bool is_clients = key->flag == FLAG_ADVERTISE_CLIENT_URLS;

    if (is_url)
        refuse(f,
               "unexpected error setting up %s: ", is_clients ? "advertise-peer-urls" : key->name);
    refuse(f, "%s", reason);
    return is_url ? CONFIG_FILE_BAD_URL : CONFIG_FILE_BAD;
}

/* A state that is none is told of later, after other things that may be wrong. */
static void set_state(struct file *f, struct bytes text)
{
    struct flag_value *value = &f->flags->values[FLAG_INITIAL_CLUSTER_STATE];

    value->boolean = bytes_equal(text, BYTES("existing"));
    if (text.len > 0 && !value->boolean && !bytes_equal(text, BYTES("new")))
        value->text = arena_copy_str(f->flags->arena, text);
}

/* The default that is spelled out is as good as not said, which counts where something else says
 * who is in the cluster. */
static void forget_default_cluster(struct file *f)
{
    struct flag_value *value = &f->flags->values[FLAG_INITIAL_CLUSTER];

    if (flags_is_default(f->flags, FLAG_INITIAL_CLUSTER))
        value->is_set = false;
}

static bool is_kept_if_empty(const struct key *key)
{
    return key->flag == FLAG_CORS || key->flag == FLAG_HOST_WHITELIST ||
           key->flag == FLAG_FEATURE_GATES || flag_table[key->flag].kind == FLAG_URLS;
}

static enum config_file_result apply(struct file *f, const struct key *key,
                                     const struct yaml_value *value)
{
    struct buf text = {0}, reason = {0};
    enum config_file_result result = CONFIG_FILE_OK;

    if (key->flag == NO_FLAG) {
        if (says_nothing(value))
            return CONFIG_FILE_OK;
        refuse(f, "%s.%s is not supported yet", sections[key->section].key, key->name);
        return CONFIG_FILE_BAD;
    }
    as_typed(value, key->want, &text);
    if (key->want == WANT_STAGE) /* any word will do: etcd minds it on the command line only */
        f->flags->values[key->flag].is_set = true;
    else if (key->flag == FLAG_INITIAL_CLUSTER_STATE)
        set_state(f, buf_bytes(&text));
    else if (value->kind == YAML_LIST ? value->count > 0 : text.len > 0 || !is_kept_if_empty(key)) {
        if (!flags_set(f->flags, key->flag, buf_bytes(&text), &reason))
            result = refuse_value(f, key, buf_str(&reason));
    }
    buf_free(&text);
    buf_free(&reason);
    return result;
}

static bool check_peer_section(struct file *f, const struct yaml_value *root)
{
    for (size_t i = 0; i < root->count; i++) {
        if (bytes_equal(root->fields[i].key, BYTES("peer-transport-security")) &&
            root->fields[i].value->kind != YAML_MAP)
            return refuse(f, "invalid peer-transport-security");
    }
    return true;
}

static enum config_file_result parse(struct file *f, const struct yaml_value *root)
{
    if (root->kind != YAML_MAP) {
        refuse_type(f, TOP, "", NULL, root, false, sections[TOP].go_type);
        return CONFIG_FILE_BAD;
    }
    if (!check_section(f, TOP, root))
        return CONFIG_FILE_BAD;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        enum config_file_result result =
            f->said[i] ? apply(f, &keys[i], f->said[i]) : CONFIG_FILE_OK;
        if (result != CONFIG_FILE_OK)
            return result;
        if (keys[i].flag == FLAG_FEATURE_GATES && !check_peer_section(f, root))
            return CONFIG_FILE_BAD;
    }
    forget_default_cluster(f);
    if (f->flags->values[FLAG_SELF_SIGNED_CERT_VALIDITY].number == 0)
        f->flags->values[FLAG_SELF_SIGNED_CERT_VALIDITY].number = 1;
    return CONFIG_FILE_OK;
}

enum config_file_result config_file_parse(struct bytes text, struct flags *flags, struct buf *why,
                                          const char **unknown)
{
    struct file f = {.flags = flags, .why = why};
    const struct yaml_value *root;
    struct buf reason = {0};
    enum config_file_result result = CONFIG_FILE_OK;

    if (!yaml_read(text, flags->arena, &reason, &root)) {
        buf_printf(why, "error converting YAML to JSON: %s", buf_str(&reason));
        result = CONFIG_FILE_BAD;
    } else if (root && root->kind != YAML_NULL) {
        result = parse(&f, root);
    }
    *unknown = arena_copy_str(flags->arena, buf_bytes(&f.unknown));
    buf_free(&f.unknown);
    buf_free(&reason);
    return result;
}

/* ---- The file ---- */

/* As Go writes it: "open x: no such file or directory". */
static void explain_errno(const char *doing, const char *path, struct buf *why)
{
    size_t before = why->len;

    buf_printf(why, "%s %s: ", doing, path);
    size_t reason = why->len;
    buf_append_str(why, strerror(errno));
    why->at[reason] = (uint8_t)tolower(why->at[reason]);
    assert(why->len > before);
}

bool config_file_load(const char *path, struct buf *out, struct buf *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;

    if (fd < 0) {
        explain_errno("open", path, why);
        return false;
    }
    while (got > 0 && out->len <= CONFIG_FILE_BYTES_MAX) {
        got = read(fd, buf_reserve(out, 64 * KIB), 64 * KIB);
        out->len += got > 0 ? (size_t)got : 0;
    }
    if (got < 0)
        explain_errno("read", path, why);
    else if (out->len > CONFIG_FILE_BYTES_MAX)
        buf_printf(why, "%s: a configuration file has at most %d bytes", path,
                   CONFIG_FILE_BYTES_MAX);
    close(fd);
    return got == 0;
}
