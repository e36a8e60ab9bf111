#include "config/config.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "config/auth.h"
#include "config/file.h"
#include "config/flags.h"
#include "config/tls.h"
#include "config/value.h"
#include "config/yaml.h"

#include <inttypes.h>
#include <stdlib.h>

#define NS_PER_MS ((int64_t)1000000)
#define NS_PER_S  (1000 * NS_PER_MS)

#define DEFAULT_NAME              "default"
#define DEFAULT_PEER_URL          "http://localhost:2380"
#define DEFAULT_BATCH_NS          (100 * NS_PER_MS)
#define ELECTION_MS_MAX           50000
#define MB_BYTES                  ((uint64_t)MIB)
#define ROTATION_MB               100 /* where none is said */
#define RECOMMENDED_REQUEST_BYTES (10 * MIB)
#define NOTICE_DEFAULT_NS         (600 * NS_PER_S)
#define NOTICE_MIN_NS             (100 * NS_PER_MS)
#define WARNING_UNARY_DEFAULT_NS  (300 * NS_PER_MS)
#define DEFAULT_BCRYPT_COST       10
#define DEFAULT_TOKEN_TTL_S       300

/* What gRPC does where etcd hands it no settings, which is when one of them is not positive. */
#define GRPC_PING_FLOOR_NS   (300 * NS_PER_S)
#define GRPC_PING_NS         (7200 * NS_PER_S)
#define GRPC_PING_TIMEOUT_NS (20 * NS_PER_S)
#define GRPC_PING_MIN_NS     (1 * NS_PER_S)

/* Everything at hand while a configuration is made. */
struct maker {
    struct flags flags;
    struct config *out;
    struct buf *why;
    struct config_note *notes;
    size_t note_count, note_cap;
    bool has_file; /* the flags are those of a file, and nothing else counts */
};

static const struct flag_value *value_of(const struct maker *m, enum flag_id id)
{
    return &m->flags.values[id];
}

/* Says why, and false. */
__attribute__((format(printf, 2, 3))) static bool refuse(struct maker *m, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    buf_vprintf(m->why, format, args);
    va_end(args);
    return false;
}

/* As %q would show it. */
static const char *quoted(struct maker *m, struct bytes text)
{
    struct buf quotes = {0};

    text_append_quoted(&quotes, text);
    const char *kept = arena_copy_str(&m->out->arena, buf_bytes(&quotes));
    buf_free(&quotes);
    return kept;
}

/* ---- Notes ---- */

static void note_two(struct maker *m, enum log_level level, const char *message, const char *key,
                     const char *value, const char *second_key, const char *second_value)
{
    if (m->note_count == m->note_cap) {
        m->note_cap = m->note_cap ? 2 * m->note_cap : 8;
        m->notes = mem_resize(m->notes, m->note_cap, sizeof(*m->notes));
    }
    m->notes[m->note_count++] = (struct config_note){
        .level = level, .message = message, .fields = {{key, value}, {second_key, second_value}}};
}

static void note(struct maker *m, enum log_level level, const char *message, const char *key,
                 const char *value)
{
    note_two(m, level, message, key, value, NULL, NULL);
}

static void keep_notes(struct maker *m)
{
    struct config_note *kept = arena_new_array(&m->out->arena, m->note_count, struct config_note);

    for (size_t i = 0; i < m->note_count; i++)
        kept[i] = m->notes[i];
    m->out->notes = kept;
    m->out->note_count = m->note_count;
    mem_free(m->notes);
}

/* ---- The environment ---- */

/* The value of a variable, or NULL. */
static const char *env_value(const char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; *env; env++) {
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    }
    return NULL;
}

static bool take_env(struct maker *m, enum flag_id id, const char *const *env)
{
    const char *name = flags_env_name(&m->flags, id);
    const char *text = env_value(env, name);
    struct buf reason = {0};

    if (!text)
        return true;
    if (value_of(m, id)->is_set) {
        return refuse(m,
                      "conflicting environment variable is shadowed by corresponding command-line "
                      "flag (either unset environment variable or disable flag)): %s",
                      name);
    }
    if (text[0] == 0)
        return true;
    text = arena_copy_str(&m->out->arena, bytes_of_str(text));
    bool is_good = flags_set(&m->flags, id, bytes_of_str(text), &reason);
    if (!is_good)
        refuse(m, "invalid value %s for %s: %s", quoted(m, bytes_of_str(text)), name,
               buf_str(&reason));
    else
        note_two(m, LOG_INFO, "recognized and used environment variable", "variable-name", name,
                 "variable-value", text);
    buf_free(&reason);
    return is_good;
}

/* Is it ETCD_ and the name of a flag, with something behind it? */
static bool is_used_variable(const struct maker *m, const char *variable)
{
    const char *equals = strchr(variable, '=');

    if (!equals || equals[1] == 0)
        return false;
    for (size_t id = 0; id < FLAG_COUNT; id++) {
        const char *name = flags_env_name(&m->flags, (enum flag_id)id);
        if (bytes_equal(bytes_of_str(name), bytes_of(variable, (size_t)(equals - variable))))
            return true;
    }
    return false;
}

static void note_strangers(struct maker *m, const char *const *env)
{
    for (; *env; env++) {
        bool is_version = strncmp(*env, "ETCD_VERSION=", 13) == 0;
        if (strncmp(*env, "ETCD_", 5) == 0 && !is_version && !is_used_variable(m, *env)) {
            note(m, LOG_WARN, "unrecognized environment variable", "environment-variable",
                 arena_copy_str(&m->out->arena, bytes_of_str(*env)));
        }
    }
}

static bool read_env(struct maker *m, const char *const *env)
{
    const char *version = env_value(env, "ETCD_VERSION");

    if (version && version[0] != 0) {
        note_two(m, LOG_WARN, "cannot set special environment variable", "key", "ETCD_VERSION",
                 "value", arena_copy_str(&m->out->arena, bytes_of_str(version)));
    }
    for (size_t id = 0; id < FLAG_COUNT; id++) {
        if (id != FLAG_VERSION && !take_env(m, (enum flag_id)id, env))
            return false;
    }
    note_strangers(m, env);
    return true;
}

/* ---- The file ---- */

/* "": none. */
static const char *file_path(const struct maker *m, const char *const *env)
{
    const char *path = value_of(m, FLAG_CONFIG_FILE)->text;
    const char *variable = env_value(env, "ETCD_CONFIG_FILE");

    return path[0] == 0 && variable ? arena_copy_str(&m->out->arena, bytes_of_str(variable)) : path;
}

/* Everything that the command line said is forgotten, but for two times that etcd keeps elsewhere:
 * they stay, and there is no key for them. */
static void forget_flags(struct maker *m)
{
    struct flag_value read = *value_of(m, FLAG_RAFT_READ_TIMEOUT);
    struct flag_value write = *value_of(m, FLAG_RAFT_WRITE_TIMEOUT);

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
    note(m, LOG_INFO,
         "loaded server configuration, other configuration command line flags and environment "
         "variables will be ignored if provided",
         "path", path);
    if (unknown[0] != 0)
        note(m, LOG_WARN, "ignoring unknown keys of the configuration file", "keys", unknown);
    return CONFIG_OK;
}

/* ---- What we cannot do ---- */

/* Until the flags have been read, and for good where they cannot be. */
static void log_by_default(struct config *c)
{
    static const struct bytes standard_error[] = {BYTES("stderr")};

    c->log_level = LOG_INFO;
    c->log_format = LOG_JSON;
    c->log_outputs = (struct url_list){standard_error, 1};
}

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
    return refuse(m, "flag --%s is not supported yet%s", flag_table[id].name, instead_of(id));
}

/* Beside a file they are not raised to etcd's least value, but count as they are. */
static bool check_raft_times(struct maker *m)
{
    static const enum flag_id ids[] = {FLAG_RAFT_READ_TIMEOUT, FLAG_RAFT_WRITE_TIMEOUT};

    for (size_t i = 0; m->has_file && i < ARRAY_LEN(ids); i++) {
        if (value_of(m, ids[i])->integer < 5 * NS_PER_S)
            return refuse_support(m, ids[i]);
    }
    return true;
}

static bool check_support(struct maker *m)
{
    const char *gate = gates_not_built(m->out->gates);

    if (gate)
        return refuse(m, "feature gate %s is not supported yet", gate);
    for (size_t id = FLAG_WORKING_COUNT; id < FLAG_SUPPORT_COUNT; id++) {
        if (!flags_is_default(&m->flags, (enum flag_id)id))
            return refuse_support(m, (enum flag_id)id);
    }
    return check_raft_times(m);
}

static void note_deprecated(struct maker *m)
{
    if (value_of(m, FLAG_MAX_SNAPSHOTS)->is_set) {
        note(m, LOG_WARN, "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8.",
             NULL, NULL);
    }
    if (value_of(m, FLAG_V2_DEPRECATION)->is_set) {
        note(m, LOG_WARN,
             "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value "
             "is enforced, ignoring user input.",
             NULL, NULL);
    }
    for (size_t id = FLAG_SUPPORT_COUNT; id < FLAG_COUNT; id++) {
        if (flag_table[id].kind == FLAG_NOTHING && value_of(m, (enum flag_id)id)->is_set) {
            note(m, LOG_WARN, "flag is no longer supported - ignoring", "flag-name",
                 flag_table[id].name);
        }
    }
}

/* ---- The log ---- */

static bool read_log_level(struct maker *m)
{
    const char *text = value_of(m, FLAG_LOG_LEVEL)->text;
    char *lower = arena_copy_str(&m->out->arena, bytes_of_str(text));

    for (char *c = lower; *c; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
    if (log_level_parse(lower, &m->out->log_level))
        return true;
    if (lower[0] == 0)
        m->out->log_level = LOG_INFO;
    else if (strcmp(lower, "warning") == 0)
        m->out->log_level = LOG_WARN;
    else if (strcmp(lower, "dpanic") == 0 || strcmp(lower, "panic") == 0)
        m->out->log_level = LOG_FATAL; /* two levels between error and fatal that no line has */
    else
        return refuse(m, "unrecognized level: %s", quoted(m, bytes_of_str(text)));
    return true;
}

/* The list is as Go's %q has it. */
static bool refuse_beside_journal(struct maker *m, struct url_list said)
{
    refuse(m, "running with systemd/journal but other '--log-outputs' values ([");
    for (size_t i = 0; i < said.count; i++)
        refuse(m, "%s%s", i > 0 ? " " : "", quoted(m, said.at[i]));
    return refuse(m, "]) are configured with 'default'; override 'default' value with something "
                     "else");
}

static bool read_log_outputs(struct maker *m)
{
    struct url_list said = value_of(m, FLAG_LOG_OUTPUTS)->set;
    struct bytes *outputs = arena_new_array(&m->out->arena, said.count, struct bytes);

    if (said.count > 1 && url_list_has(said, BYTES("default")))
        return refuse(m, "multi logoutput for \"default\" is not supported yet");
    if (said.count > 1 && url_list_has(said, BYTES("systemd/journal")))
        return refuse_beside_journal(m, said);
    if (said.count > CONFIG_LOG_OUTPUTS_MAX)
        return refuse(m, "--log-outputs takes at most %d outputs (set to %zu)",
                      CONFIG_LOG_OUTPUTS_MAX, said.count);
    if (url_list_has(said, (struct bytes){0}))
        return refuse(m, "open sink \"\": open : no such file or directory");
    for (size_t i = 0; i < said.count; i++)
        outputs[i] = bytes_equal(said.at[i], BYTES("default")) ? BYTES("stderr") : said.at[i];
    m->out->log_outputs = (struct url_list){outputs, said.count};
    return true;
}

/* Go's words for what stands where something else should. */
static const char *json_kind(const struct yaml_value *value)
{
    static const char *const kinds[] = {
        [YAML_NULL] = "null",   [YAML_BOOL] = "bool",  [YAML_NUMBER] = "number",
        [YAML_TEXT] = "string", [YAML_LIST] = "array", [YAML_MAP] = "object"};

    return kinds[value->kind];
}

static bool refuse_rotation(struct maker *m, const struct yaml_field *field, const char *shown,
                            const char *type)
{
    return refuse(m,
                  "invalid log rotation config: json: cannot unmarshal %s%s into Go struct field "
                  "logRotationConfig.Logger.%.*s of type %s",
                  json_kind(field->value), shown, (int)field->key.len, (const char *)field->key.at,
                  type);
}

static bool read_rotation_number(struct maker *m, const struct yaml_field *field, uint64_t *out)
{
    int64_t number;

    if (field->value->kind != YAML_NUMBER)
        return refuse_rotation(m, field, "", "int");
    if (value_parse_int(field->value->text, &number)) {
        const char *shown = arena_printf(&m->out->arena, " %.*s", (int)field->value->text.len,
                                         (const char *)field->value->text.at);
        return refuse_rotation(m, field, shown, "int");
    }
    if (number > 0) /* what is negative is as good as nothing, as in etcd */
        *out = (uint64_t)number;
    return true;
}

static bool read_rotation_bool(struct maker *m, const struct yaml_field *field, bool *out)
{
    *out = field->value->boolean;
    return field->value->kind == YAML_BOOL || refuse_rotation(m, field, "", "bool");
}

static bool read_rotation_field(struct maker *m, const struct yaml_field *field, bool *compress)
{
    struct config_rotation *r = &m->out->log_rotation;

    if (bytes_equal(field->key, BYTES("maxsize")))
        return read_rotation_number(m, field, &r->size_bytes);
    if (bytes_equal(field->key, BYTES("maxage")))
        return read_rotation_number(m, field, &r->age_days_max);
    if (bytes_equal(field->key, BYTES("maxbackups")))
        return read_rotation_number(m, field, &r->backups_max);
    if (bytes_equal(field->key, BYTES("localtime")))
        return read_rotation_bool(m, field, &r->local_time);
    if (bytes_equal(field->key, BYTES("compress")))
        return read_rotation_bool(m, field, compress);
    return true; /* etcd passes over what it does not know */
}

/* The settings are JSON, and JSON is YAML. */
static bool read_rotation_config(struct maker *m)
{
    const char *json = value_of(m, FLAG_LOG_ROTATION_CONFIG_JSON)->text;
    struct config_rotation *r = &m->out->log_rotation;
    const struct yaml_value *root;
    struct buf reason = {0};
    bool compress = false;
    bool is_good = yaml_read(bytes_of_str(json), &m->out->arena, &reason, &root);

    if (!is_good || !root || root->kind == YAML_TEXT)
        refuse(m, "improperly formatted log rotation config: %s",
               is_good ? "not a JSON object" : buf_str(&reason));
    else if (root->kind != YAML_MAP)
        refuse(m,
               "invalid log rotation config: json: cannot unmarshal %s into Go value of type "
               "embed.logRotationConfig",
               json_kind(root));
    buf_free(&reason);
    if (!is_good || !root || root->kind != YAML_MAP)
        return false;
    for (size_t i = 0; i < root->count; i++) {
        if (!read_rotation_field(m, &root->fields[i], &compress))
            return false;
    }
    if (compress)
        return refuse(m, "--log-rotation-config-json: compress is not supported yet");
    if (r->size_bytes == 0 || r->size_bytes > INT64_MAX / MB_BYTES)
        r->size_bytes = ROTATION_MB;
    r->size_bytes *= MB_BYTES;
    r->is_on = true;
    return true;
}

static bool read_rotation(struct maker *m)
{
    struct url_list outputs = m->out->log_outputs;
    size_t files = 0;

    if (!value_of(m, FLAG_ENABLE_LOG_ROTATION)->boolean)
        return true;
    for (size_t i = 0; i < outputs.count; i++)
        files += !bytes_equal(outputs.at[i], BYTES("stderr")) &&
                 !bytes_equal(outputs.at[i], BYTES("stdout"));
    if (files != 1)
        return refuse(m, "--log-outputs requires a single file path when --log-rotate-config-json "
                         "is defined");
    return read_rotation_config(m);
}

static bool read_log(struct maker *m)
{
    const char *logger = value_of(m, FLAG_LOGGER)->text;
    const char *format = value_of(m, FLAG_LOG_FORMAT)->text;

    if (strcmp(logger, "capnslog") == 0)
        return refuse(m, "--logger=capnslog is removed in v3.5");
    if (strcmp(logger, "zap") != 0)
        return refuse(m, "unknown logger option %s", quoted(m, bytes_of_str(logger)));
    if (!read_log_outputs(m) || !read_rotation(m))
        return false;
    if (strcmp(format, "json") == 0 || url_list_has(m->out->log_outputs, BYTES("systemd/journal")))
        m->out->log_format = LOG_JSON; /* the journal has no other, and etcd does not look */
    else if (strcmp(format, "console") == 0)
        m->out->log_format = LOG_CONSOLE;
    else
        return refuse(m, "unknown log format: %s, supported values json, console", format);
    return true;
}

/* ---- Addresses ---- */

static struct url take_apart(struct maker *m, struct bytes text)
{
    struct url url;
    bool is_good = url_parse(text, &m->out->arena, m->why, &url);

    assert(is_good); /* the flag has been parsed before */
    return url;
}

static bool check_listen_hosts(struct maker *m, enum flag_id id)
{
    struct url_list list = value_of(m, id)->set;

    for (size_t i = 0; i < list.count; i++) {
        struct url url = take_apart(m, list.at[i]);
        struct net_address address;
        if (url_scheme_is_unix(url.scheme) || bytes_equal(url.host, BYTES("localhost")))
            continue;
        const char *host = arena_copy_str(&m->out->arena, url.host);
        if (net_address_of_host(host, 0, &address) != ERR_OK)
            return refuse(m, "expected IP in URL for binding (%.*s)", (int)list.at[i].len,
                          (const char *)list.at[i].at);
    }
    return true;
}

/* The URL without a host, or nothing. */
static struct bytes hostless(struct maker *m, struct url_list list)
{
    for (size_t i = 0; i < list.count; i++) {
        struct url url = take_apart(m, list.at[i]);
        if (!url_scheme_is_unix(url.scheme) && url.host.len == 0)
            return list.at[i];
    }
    return (struct bytes){0};
}

static bool check_advertised_hosts(struct maker *m, enum flag_id id, const char *format)
{
    struct url_list list = value_of(m, id)->set;
    struct bytes bad = hostless(m, list);
    struct buf joined = {0};

    if (bad.len == 0)
        return true;
    url_list_join(list, &joined);
    refuse(m, "--%s %s must be %s (unexpected empty host (%.*s))", flag_table[id].name,
           quoted(m, buf_bytes(&joined)), format, (int)bad.len, (const char *)bad.at);
    buf_free(&joined);
    return false;
}

static bool check_urls(struct maker *m)
{
    return check_listen_hosts(m, FLAG_LISTEN_PEER_URLS) &&
           check_listen_hosts(m, FLAG_LISTEN_CLIENT_URLS) &&
           check_listen_hosts(m, FLAG_LISTEN_CLIENT_HTTP_URLS) &&
           check_listen_hosts(m, FLAG_LISTEN_METRICS_URLS) &&
           check_advertised_hosts(m, FLAG_INITIAL_ADVERTISE_PEER_URLS, "\"host:port\"") &&
           check_advertised_hosts(m, FLAG_ADVERTISE_CLIENT_URLS,
                                  "in the format \"host:port\", \"unix:/path/to/socket\" or "
                                  "\"unixs:/path/to/socket\"");
}

/* A client's socket is host and path together, others' the host alone: so it is in etcd. */
static bool unix_address(struct maker *m, const struct url *url, bool has_host_only,
                         struct net_address *out)
{
    const char *path =
        arena_printf(&m->out->arena, "%.*s%.*s", (int)url->host.len, (const char *)url->host.at,
                     has_host_only ? 0 : (int)url->path.len, (const char *)url->path.at);

    if (net_address_of_path(path, out) == ERR_OK)
        return true;
    return refuse(m, "listen unix %s: not the path of a socket", path);
}

static bool ip_address(struct maker *m, const struct url *url, struct net_address *out)
{
    bool is_local = bytes_equal(url->host, BYTES("localhost"));
    const char *host = is_local ? "127.0.0.1" : arena_copy_str(&m->out->arena, url->host);
    const char *digits = arena_copy_str(&m->out->arena, url->port);
    char *end;
    unsigned long port = strtoul(digits, &end, 10);

    assert(*end == 0);
    if (port > UINT16_MAX)
        return refuse(m, "listen tcp: address %s: invalid port", digits);
    enum err e = net_address_of_host(host, (uint16_t)port, out);
    assert(e == ERR_OK);
    return true;
}

/* ---- TLS ---- */

static void note_own_cert(struct maker *m, enum flag_id id, const struct tls_flags *f,
                          const char *message)
{
    if (value_of(m, id)->boolean && !f->makes_cert)
        note(m, LOG_WARN, message, NULL, NULL);
}

/* One message says that TLS is there and not used, the other that nobody is asked for a
 * certificate. */
static void note_plain(struct maker *m, const struct tls_flags *f, const struct url *url,
                       const char *key, const char *no_cert, const char *no_auth)
{
    const char *text = arena_copy_str(&m->out->arena, url->text);

    if (tls_flags_are_given(f))
        note(m, LOG_WARN, no_cert, key, text);
    if (f->client_cert_auth)
        note(m, LOG_WARN, no_auth, key, text);
}

/* A member's unix socket is plain whatever its scheme says: so it is in etcd. */
static bool check_peer_listen(struct maker *m, const struct config_listen *listen)
{
    const struct tls_flags *f = &m->out->peer_tls;
    char text[NET_TEXT_MAX];

    if (listen->url.scheme == URL_HTTP)
        note_plain(m, f, &listen->url, "peer-url",
                   "scheme is HTTP while key and cert files are present; ignoring key and cert "
                   "files",
                   "scheme is HTTP while --peer-client-cert-auth is enabled; ignoring client cert "
                   "auth for this URL");
    if (listen->url.scheme != URL_HTTPS)
        return true;
    if (!tls_flags_are_given(f))
        return refuse(m, "cannot listen on TLS for %s: KeyFile and CertFile are not presented",
                      net_address_text(&listen->address, text));
    return config_tls_check(f, m->why);
}

static bool check_client_listen(struct maker *m, const struct config_listen *listen)
{
    const struct tls_flags *f = &m->out->client_tls;
    struct bytes text = listen->url.text;

    if (!url_scheme_is_secure(listen->url.scheme)) {
        note_plain(m, f, &listen->url, "client-url",
                   "scheme is http or unix while key and cert files are present; ignoring key and "
                   "cert files",
                   "scheme is http or unix while --client-cert-auth is enabled; ignoring client "
                   "cert auth for this URL");
        return true;
    }
    if (!tls_flags_are_given(f))
        return refuse(m,
                      "TLS key/cert (--cert-file, --key-file) must be provided for client url "
                      "%.*s with HTTPS scheme",
                      (int)text.len, (const char *)text.at);
    return config_tls_check(f, m->why);
}

/* Of an address for both HTTP and gRPC there could be no telling what it is for. */
static bool check_http_listen(struct maker *m, const struct config_listen *listen)
{
    const struct config_listens *clients = &m->out->listen_clients;

    for (size_t i = 0; i < clients->count; i++) {
        if (listen->address.port != 0 &&
            net_address_equal(&clients->at[i].address, &listen->address))
            return refuse(m,
                          "cannot bind both --listen-client-urls and --listen-client-http-urls on "
                          "the same url %.*s",
                          (int)listen->url.text.len, (const char *)listen->url.text.at);
    }
    return check_client_listen(m, listen);
}

/* A unix socket is plain whatever its scheme says, as a member's. */
static bool check_metrics_listen(struct maker *m, const struct config_listen *listen)
{
    const struct tls_flags *f = &m->out->client_tls;

    if (!url_scheme_is_secure(listen->url.scheme))
        return true;
    if (!tls_flags_are_given(f))
        return refuse(m, "client TLS key/cert (--cert-file, --key-file) must be provided for "
                         "metrics secure url");
    return config_tls_check(f, m->why);
}

static bool check_each(struct maker *m, const struct config_listens *listens,
                       bool (*check)(struct maker *m, const struct config_listen *listen))
{
    for (size_t i = 0; i < listens->count; i++) {
        if (!check(m, &listens->at[i]))
            return false;
    }
    return true;
}

/* Whoever sends a certificate to other members needs all of it, wherever he listens. */
static bool check_dialing(struct maker *m)
{
    const struct tls_flags *f = &m->out->peer_tls;

    return !tls_flags_are_given(f) || config_tls_check(f, m->why);
}

static bool check_listens(struct maker *m)
{
    const struct config *c = m->out;

    if (!check_dialing(m))
        return false;
    note_own_cert(m, FLAG_PEER_AUTO_TLS, &c->peer_tls, "ignoring peer auto TLS since certs given");
    if (!check_each(m, &c->listen_peers, check_peer_listen))
        return false;
    note_own_cert(m, FLAG_AUTO_TLS, &c->client_tls, "ignoring client auto TLS since certs given");
    return check_each(m, &c->listen_clients, check_client_listen) &&
           check_each(m, &c->listen_http, check_http_listen) &&
           check_each(m, &c->listen_metrics, check_metrics_listen);
}

/* ---- Where to listen ---- */

static bool read_listens(struct maker *m, enum flag_id id, struct config_listens *out)
{
    struct url_list list = value_of(m, id)->set;
    bool has_host_only = id == FLAG_LISTEN_PEER_URLS || id == FLAG_LISTEN_METRICS_URLS;
    struct config_listen *listens =
        arena_new_array(&m->out->arena, list.count, struct config_listen);

    for (size_t i = 0; i < list.count; i++) {
        struct config_listen *listen = &listens[i];
        listen->url = take_apart(m, list.at[i]);
        bool is_good = url_scheme_is_unix(listen->url.scheme)
                           ? unix_address(m, &listen->url, has_host_only, &listen->address)
                           : ip_address(m, &listen->url, &listen->address);
        if (!is_good)
            return false;
    }
    *out = (struct config_listens){listens, list.count};
    return true;
}

/* ---- What etcd would refuse ---- */

static bool check_fallback(struct maker *m)
{
    if (!value_of(m, FLAG_DISCOVERY_FALLBACK)->boolean)
        return true;
    return refuse(m, "v2 proxy is deprecated, and --discovery-fallback can't be configured as "
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
    const char *state = value_of(m, FLAG_INITIAL_CLUSTER_STATE)->text;
    const struct flag_value *endpoints = value_of(m, FLAG_DISCOVERY_ENDPOINTS);
    const struct flag_value *cluster = value_of(m, FLAG_INITIAL_CLUSTER);
    bool has_srv = value_of(m, FLAG_DISCOVERY_SRV)->text[0] != 0;
    bool has_token = value_of(m, FLAG_DISCOVERY_TOKEN)->text[0] != 0;
    bool has_cluster = cluster->is_set && cluster->text[0] != 0;

    if (state)
        return refuse(m, "unexpected clusterState %s", quoted(m, bytes_of_str(state)));
    if (has_cluster + has_srv + endpoints->is_set > 1) {
        return refuse(m, "multiple discovery or bootstrap flags are set. Choose one of "
                         "\"initial-cluster\", \"discovery-endpoints\" or \"discovery-srv\"");
    }
    if (has_token != endpoints->is_set)
        return refuse(m, "both --discovery-token and --discovery-endpoints must be set");
    for (size_t i = 0; endpoints->is_set && i < endpoints->set.count; i++) {
        if (is_blank(endpoints->set.at[i]))
            return refuse(m, "--discovery-endpoints must not contain empty endpoints");
    }
    return true;
}

static bool read_gates(struct maker *m)
{
    struct gates gates = value_of(m, FLAG_FEATURE_GATES)->gates;
    bool checkpoint = gates_lease_checkpoint(gates),
         persist = gates_lease_checkpoint_persist(gates);

    if (persist && !checkpoint)
        return refuse(m, "enabling feature gate LeaseCheckpointPersist requires enabling feature "
                         "gate LeaseCheckpoint");
    if (checkpoint && !persist)
        note(m, LOG_WARN,
             "Detected that checkpointing is enabled without persistence. Consider enabling "
             "feature gate LeaseCheckpointPersist",
             NULL, NULL);
    m->out->gates = gates;
    return true;
}

static bool check_compaction(struct maker *m)
{
    const char *mode = value_of(m, FLAG_AUTO_COMPACTION_MODE)->text;
    int64_t hash_ns = value_of(m, FLAG_COMPACT_HASH_CHECK_TIME)->integer;
    int64_t corrupt_ns = value_of(m, FLAG_CORRUPT_CHECK_TIME)->integer;

    if (mode[0] == 0)
        return refuse(m, "undefined auto-compaction-mode");
    if (strcmp(mode, "periodic") != 0 && strcmp(mode, "revision") != 0)
        return refuse(m, "unknown auto-compaction-mode %s", quoted(m, bytes_of_str(mode)));
    if (!read_gates(m))
        return false;
    if (hash_ns <= 0)
        return refuse(m, "--compact-hash-check-time must be >0 (set to %gs)",
                      (double)hash_ns / (double)NS_PER_S);
    if (corrupt_ns < 0) /* etcd dies of it, when it starts the clock */
        return refuse(m, "--corrupt-check-time must not be negative");
    m->out->compact_hash_check_ns = hash_ns;
    m->out->corrupt_check_ns = corrupt_ns;
    return true;
}

/* etcd takes a negative one, and then compacts all the time, or asks in vain for what is to come.
 */
static bool read_retention(struct maker *m)
{
    struct config *c = m->out;
    const char *text = value_of(m, FLAG_AUTO_COMPACTION_RETENTION)->text;
    struct buf reason = {0};

    c->auto_compaction_counts_revisions =
        strcmp(value_of(m, FLAG_AUTO_COMPACTION_MODE)->text, "revision") == 0;
    bool is_good = value_parse_retention(
        bytes_of_str(text), c->auto_compaction_counts_revisions ? 1 : 3600 * (uint64_t)NS_PER_S,
        &c->auto_compaction_retention, &reason);
    if (!is_good)
        refuse(m, "error parsing CompactionRetention: %s", buf_str(&reason));
    else if (c->auto_compaction_retention < 0)
        is_good = refuse(m, "--auto-compaction-retention must not be negative");
    buf_free(&reason);
    return is_good;
}

/* ---- Times and sizes ---- */

static bool check_times(struct maker *m)
{
    uint64_t heartbeat = value_of(m, FLAG_HEARTBEAT_INTERVAL)->number;
    uint64_t election = value_of(m, FLAG_ELECTION_TIMEOUT)->number;

    if (heartbeat == 0)
        return refuse(m, "--heartbeat-interval must be >0 (set to 0ms)");
    if (election == 0)
        return refuse(m, "--election-timeout must be >0 (set to 0ms)");
    if (heartbeat > election / 5)
        return refuse(m,
                      "--election-timeout[%" PRIu64 "ms] should be at least as 5 times as "
                      "--heartbeat-interval[%" PRIu64 "ms]",
                      election, heartbeat);
    if (election > ELECTION_MS_MAX)
        return refuse(
            m, "--election-timeout[%" PRIu64 "ms] is too long, and should be set less than %dms",
            election, ELECTION_MS_MAX);
    m->out->heartbeat_ms = heartbeat;
    m->out->election_ms = election;
    return true;
}

static void read_keepalive(struct maker *m)
{
    int64_t floor_ns = value_of(m, FLAG_GRPC_KEEPALIVE_MIN_TIME)->integer;
    int64_t interval_ns = value_of(m, FLAG_GRPC_KEEPALIVE_INTERVAL)->integer;
    int64_t timeout_ns = value_of(m, FLAG_GRPC_KEEPALIVE_TIMEOUT)->integer;

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
    int64_t ns = value_of(m, FLAG_WATCH_PROGRESS_NOTIFY_INTERVAL)->integer;

    if (ns <= 0)
        ns = NOTICE_DEFAULT_NS;
    else if (ns < NOTICE_MIN_NS) {
        note(m, LOG_WARN, "adjusting watch progress notify interval to minimum period",
             "min-watch-progress-notify-interval", "100ms");
        ns = NOTICE_MIN_NS;
    }
    m->out->watch_progress_notify_ns = ns;
    m->out->warning_apply_ns = value_of(m, FLAG_WARNING_APPLY_DURATION)->integer;
    m->out->warning_unary_ns = value_of(m, FLAG_WARNING_UNARY_REQUEST_DURATION)->integer;
    if (m->out->warning_unary_ns == 0)
        m->out->warning_unary_ns = WARNING_UNARY_DEFAULT_NS;
    m->out->extensive_metrics = strcmp(value_of(m, FLAG_METRICS)->text, "extensive") == 0;
}

/* 0 is never. Go's timers take a negative time for no time at all: all the time, then. */
static void read_checks(struct maker *m)
{
    int64_t ns = value_of(m, FLAG_DOWNGRADE_CHECK_TIME)->integer;

    m->out->downgrade_check_ms = ns < (int64_t)NS_PER_MS ? ns != 0 : (uint64_t)ns / NS_PER_MS;
}

static bool read_sizes(struct maker *m)
{
    struct config *c = m->out;
    uint64_t request_bytes = value_of(m, FLAG_MAX_REQUEST_BYTES)->number;
    int64_t batch_ns = value_of(m, FLAG_BACKEND_BATCH_INTERVAL)->integer;
    int64_t learners = value_of(m, FLAG_MAX_LEARNERS)->integer;
    uint64_t defrag_mb = value_of(m, FLAG_BOOTSTRAP_DEFRAG_THRESHOLD)->number;

    if (request_bytes > REQUEST_BYTES_MAX)
        return refuse(m, "--max-request-bytes must be at most %zu (set to %" PRIu64 ")",
                      REQUEST_BYTES_MAX, request_bytes);
    if (batch_ns < 0)
        return refuse(m, "--backend-batch-interval must not be negative");
    if (defrag_mb > UINT64_MAX / MB_BYTES)
        return refuse(m, "--bootstrap-defrag-threshold-megabytes is too large");
    c->bootstrap_defrag_bytes = defrag_mb * MB_BYTES;
    if (request_bytes > RECOMMENDED_REQUEST_BYTES)
        note_two(m, LOG_WARN, "exceeded recommended request limit", "max-request-bytes",
                 arena_printf(&c->arena, "%" PRIu64, request_bytes), "recommended-request-bytes",
                 arena_printf(&c->arena, "%d", RECOMMENDED_REQUEST_BYTES));
    c->max_request_bytes = request_bytes;
    c->backend_batch_interval_ns = batch_ns > 0 ? batch_ns : DEFAULT_BATCH_NS;
    c->max_learners = learners < 0 ? 0 : (uint64_t)learners;
    if (c->max_learners > CLUSTER_MEMBERS_MAX)
        c->max_learners = CLUSTER_MEMBERS_MAX;
    return true;
}

static void read_plain(struct maker *m)
{
    struct config *c = m->out;

    c->snapshot_count = value_of(m, FLAG_SNAPSHOT_COUNT)->number;
    if (c->snapshot_count == 0)
        c->snapshot_count = 10000;
    c->snapshot_catchup_entries = value_of(m, FLAG_SNAPSHOT_CATCHUP_ENTRIES)->number;
    if (c->snapshot_catchup_entries == 0)
        c->snapshot_catchup_entries = 5000;
    c->max_snapshots = value_of(m, FLAG_MAX_SNAPSHOTS)->number;
    c->max_wals = value_of(m, FLAG_MAX_WALS)->number;
    c->quota_backend_bytes = value_of(m, FLAG_QUOTA_BACKEND_BYTES)->integer;
    c->max_txn_ops = value_of(m, FLAG_MAX_TXN_OPS)->number;
    c->cors = value_of(m, FLAG_CORS)->set;
    c->host_whitelist = value_of(m, FLAG_HOST_WHITELIST)->set;
    c->max_concurrent_streams = (uint32_t)value_of(m, FLAG_MAX_CONCURRENT_STREAMS)->number;
    c->enable_grpc_gateway = value_of(m, FLAG_ENABLE_GRPC_GATEWAY)->boolean;
    c->strict_reconfig_check = value_of(m, FLAG_STRICT_RECONFIG_CHECK)->boolean;
    c->force_new_cluster = value_of(m, FLAG_FORCE_NEW_CLUSTER)->boolean;
    c->pre_vote = value_of(m, FLAG_PRE_VOTE)->boolean;
    c->joins_existing = value_of(m, FLAG_INITIAL_CLUSTER_STATE)->boolean;
    c->unsafe_no_fsync = value_of(m, FLAG_UNSAFE_NO_FSYNC)->boolean;
    c->initial_tick_advance = value_of(m, FLAG_INITIAL_ELECTION_TICK_ADVANCE)->boolean;
    c->reuse_port = value_of(m, FLAG_SOCKET_REUSE_PORT)->boolean;
}

/* ---- Auth ---- */

static bool read_auth(struct maker *m)
{
    struct config_token *token = &m->out->token;
    const char *unknown;
    uint64_t cost = value_of(m, FLAG_BCRYPT_COST)->number;
    uint64_t ttl_s = value_of(m, FLAG_AUTH_TOKEN_TTL)->number;

    if (!config_auth_read(value_of(m, FLAG_AUTH_TOKEN)->text, &m->out->arena, token, &unknown,
                          m->why))
        return false;
    if (unknown[0] != 0)
        note(m, LOG_WARN, "unknown JWT options", "keys", unknown);
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
    const char *said = value_of(m, FLAG_INITIAL_CLUSTER)->text;
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
        note(m, LOG_WARN, "failed to detect default host", "error",
             "this server does not look for it: set --initial-advertise-peer-urls");
    }
}

static void read_places(struct maker *m)
{
    struct config *c = m->out;

    c->name = value_of(m, FLAG_NAME)->text;
    c->data_dir = value_of(m, FLAG_DATA_DIR)->text;
    c->wal_dir = value_of(m, FLAG_WAL_DIR)->text;
    c->advertise_peers = value_of(m, FLAG_INITIAL_ADVERTISE_PEER_URLS)->set;
    c->advertise_clients = value_of(m, FLAG_ADVERTISE_CLIENT_URLS)->set;
    c->initial_cluster_token = value_of(m, FLAG_INITIAL_CLUSTER_TOKEN)->text;
    c->initial_cluster = initial_cluster(m);
    if (c->data_dir[0] == 0) {
        c->data_dir = arena_printf(&c->arena, "%s.etcd", c->name);
        note(m, LOG_WARN, "'data-dir' was empty; using default", "data-dir", c->data_dir);
    }
    if (c->wal_dir[0] == 0)
        c->wal_dir = arena_printf(&c->arena, "%s/member/wal", c->data_dir);
}

/* ---- All of it ---- */

static bool check_advertise_is_said(struct maker *m)
{
    if (m->has_file || !value_of(m, FLAG_LISTEN_CLIENT_URLS)->is_set ||
        value_of(m, FLAG_ADVERTISE_CLIENT_URLS)->is_set)
        return true;
    return refuse(m, "--advertise-client-urls is required when --listen-client-urls is set "
                     "explicitly");
}

static void note_raised(struct maker *m, enum flag_id id, const char *message)
{
    if (value_of(m, id)->integer < 5 * NS_PER_S)
        note(m, LOG_INFO, message, NULL, NULL);
}

static void note_replaced(struct maker *m)
{
    uint64_t cost = value_of(m, FLAG_BCRYPT_COST)->number;

    if (!m->has_file) {
        note_raised(m, FLAG_RAFT_READ_TIMEOUT, "raft-read-timeout increased to minimum value: 5s");
        note_raised(m, FLAG_RAFT_WRITE_TIMEOUT,
                    "raft-write-timeout increased to minimum value: 5s");
    }
    if (cost < 4 || cost > 31) {
        note_two(m, LOG_WARN, "use default bcrypt cost instead of the invalid given cost",
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
            note(m, LOG_WARN, "the flag has no effect: it tunes bbolt, and this store is another",
                 "flag-name", flag_table[ids[i]].name);
    }
}

static void note_name(struct maker *m)
{
    if (strcmp(value_of(m, FLAG_NAME)->text, DEFAULT_NAME) == 0) {
        note(m, LOG_WARN,
             "it isn't recommended to use default name, please set a value for --name. Note that "
             "etcd might run into issue when multiple members have the same default name",
             "name", DEFAULT_NAME);
    }
}

/* The order in which things are refused is etcd's, and what it would take and we cannot do comes
 * last, but for what listening has to do with. */
static bool make(struct maker *m)
{
    if (!check_fallback(m) || !read_log(m) || !check_urls(m))
        return false;
    if (value_of(m, FLAG_LISTEN_CLIENT_HTTP_URLS)->set.count == 0)
        note(m, LOG_WARN,
             "Running http and grpc server on single port. This is not recommended for production.",
             NULL, NULL);
    if (!check_discovery(m) || !check_times(m) || !check_advertise_is_said(m) ||
        !check_compaction(m))
        return false;
    note_name(m);
    if (!config_tls_read(&m->flags, m->out, m->why) || !read_retention(m) || !check_support(m))
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
    if (!read_sizes(m) || !read_listens(m, FLAG_LISTEN_PEER_URLS, &m->out->listen_peers) ||
        !read_listens(m, FLAG_LISTEN_CLIENT_URLS, &m->out->listen_clients) ||
        !read_listens(m, FLAG_LISTEN_CLIENT_HTTP_URLS, &m->out->listen_http) ||
        !read_listens(m, FLAG_LISTEN_METRICS_URLS, &m->out->listen_metrics) || !check_listens(m))
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
        refuse(m, "%s is not a valid flag", quoted(m, bytes_of_str(stray)));
        return CONFIG_BAD;
    }
    if (value_of(m, FLAG_VERSION)->boolean)
        return CONFIG_VERSION;
    const char *path = file_path(m, env);
    enum config_result result = CONFIG_OK;
    if (path[0] != 0)
        result = read_file(m, path);
    else if (!read_env(m, env))
        result = CONFIG_BAD;
    if (result != CONFIG_OK)
        return result;
    if (!read_log_level(m))
        return CONFIG_BAD_FLAG; /* etcd panics, which is the same exit code */
    return make(m) ? CONFIG_OK : CONFIG_BAD;
}

enum config_result config_parse(int argc, const char *const *argv, const char *const *env,
                                struct config *out, struct buf *why)
{
    struct maker m = {.out = out, .why = why};

    *out = (struct config){0};
    log_by_default(out);
    enum config_result result = parse(&m, argc, argv, env);
    keep_notes(&m);
    assert(result != CONFIG_OK || out->listen_clients.count > 0);
    assert(result != CONFIG_OK || out->advertise_peers.count > 0);
    return result;
}

void config_free(struct config *config)
{
    arena_free(&config->arena);
    *config = (struct config){0};
}

/* ---- Texts ---- */

void config_usage(struct buf *out)
{
    buf_append_str(out, "Usage:\n"
                        "\n"
                        "  etcd [flags]\n"
                        "    Start a member.\n"
                        "\n"
                        "  etcd --version\n"
                        "    Print the version.\n"
                        "\n"
                        "  etcd -h | --help\n"
                        "    Print the flags.\n"
                        "\n");
}

void config_help(struct buf *out)
{
    static const char *const sections[] = {
        [SECTION_MEMBER] = "Member",     [SECTION_CLUSTER] = "Clustering",
        [SECTION_SECURITY] = "Security", [SECTION_LOG] = "Logging",
        [SECTION_TUNING] = "Tuning",     [SECTION_UNSAFE] = "Unsafe"};

    for (size_t id = 0; id < FLAG_WORKING_COUNT; id++) {
        const struct flag *flag = &flag_table[id];
        if (id == 0 || flag[-1].section != flag->section)
            buf_printf(out, "\n%s:\n", sections[flag->section]);
        buf_printf(out, "  --%s '%s'\n    %s\n", flag->name, flag->initial, flag->help);
    }
    buf_append_str(out, "\nEach flag can also be given as a variable of the environment: "
                        "ETCD_DATA_DIR for --data-dir.\n");
}

#if defined(__x86_64__)
#define ARCHITECTURE "amd64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#else
#define ARCHITECTURE "unknown"
#endif

void config_version(struct buf *out)
{
    buf_printf(out,
               "etcd Version: %s\n"
               "Git SHA: Not provided (this is cleat)\n"
               "Go Version: none (C, compiled by %s)\n"
               "Go OS/Arch: linux/%s\n",
               SERVER_VERSION, __VERSION__, ARCHITECTURE);
}
