/* Configuration files: what comes of them, what is refused and how, by our reader and by etcd's. */
#include "config/file.h"

#include "base/limits.h"
#include "base/mem.h"
#include "config/config.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *file_with(struct arena *arena, struct bytes text)
{
    const char *path = arena_printf(arena, "%s/config.yml", test_tmp_dir());
    FILE *file = fopen(path, "w");

    CHECK(file != NULL);
    CHECK_EQ(fwrite(text.at, 1, text.len, file), text.len);
    CHECK_EQ(fclose(file), 0);
    return path;
}

struct parsed {
    struct arena arena;
    struct config config;
    struct buf why;
    enum config_result result;
};

static void parse_words(struct parsed *p, int argc, const char *const *argv, const char *variable)
{
    const char *const env[] = {variable, NULL};

    p->result = config_parse(argc, argv, env, &p->config, &p->why);
}

static void parse_bytes(struct parsed *p, struct bytes text)
{
    *p = (struct parsed){0};
    const char *const argv[] = {"etcd", "--config-file", file_with(&p->arena, text)};
    parse_words(p, 3, argv, NULL);
}

static void parse_file(struct parsed *p, const char *text)
{
    parse_bytes(p, bytes_of_str(text));
}

static void parsed_free(struct parsed *p)
{
    config_free(&p->config);
    arena_free(&p->arena);
    buf_free(&p->why);
}

static const char *note_value(const struct config *c, const char *message)
{
    for (size_t i = 0; i < c->note_count; i++) {
        if (strcmp(c->notes[i].message, message) == 0)
            return c->notes[i].fields[0].value ? c->notes[i].fields[0].value : "";
    }
    return NULL;
}

/* ---- What counts ---- */

#define GO_FIELD "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
#define STOP     "heartbeat-interval: 0\n"
#define STOPPED  "--heartbeat-interval must be >0 (set to 0ms)"

TEST(a_file_says_it_all)
{
    struct parsed p;
    parse_file(&p, "name: m1\n"
                   "data-dir: /var/lib/x\n"
                   "snapshot-count: 123\n"
                   "heartbeat-interval: 50\n"
                   "election-timeout: 500\n"
                   "listen-peer-urls: http://127.0.0.1:1,http://127.0.0.1:2\n"
                   "listen-client-urls: http://127.0.0.1:3\n"
                   "quota-backend-bytes: 1_000_000\n"
                   "backend-batch-interval: 50000000\n"
                   "max-request-bytes: 0x1000\n"
                   "pre-vote: no\n"
                   "initial-cluster-state: existing\n"
                   "log-outputs: [stdout, \"/tmp/a log\"]\n"
                   "feature-gates: InitialCorruptCheck=true\n"
                   "unsafe-no-fsync: TRUE\n");
    CHECK_STR(buf_str(&p.why), "");
    CHECK_EQ(p.result, CONFIG_OK);

    CHECK_STR(p.config.name, "m1");
    CHECK_STR(p.config.data_dir, "/var/lib/x");
    CHECK_EQ(p.config.snapshot_count, 123);
    CHECK_EQ(p.config.heartbeat_ms, 50);
    CHECK_EQ(p.config.election_ms, 500);
    CHECK_EQ(p.config.listen_peers.count, 2);
    CHECK_EQ(p.config.listen_clients.count, 1);
    CHECK_EQ(p.config.advertise_clients.count, 1);
    CHECK_EQ(p.config.quota_backend_bytes, 1000000);
    CHECK_EQ(p.config.backend_batch_interval_ns, 50000000);
    CHECK_EQ(p.config.max_request_bytes, 4096);
    CHECK(!p.config.pre_vote);
    CHECK(p.config.joins_existing);
    CHECK_EQ(p.config.log_outputs.count, 2);
    CHECK(gates_initial_corrupt_check(p.config.gates));
    CHECK(p.config.unsafe_no_fsync);
    CHECK_STR(p.config.initial_cluster, "m1=http://localhost:2380");
    parsed_free(&p);
}

TEST(a_file_makes_flags_and_variables_count_for_nothing)
{
    struct parsed p = {0};
    const char *path = file_with(&p.arena, BYTES("name: of-the-file\n"));
    const char *const argv[] = {"etcd", "--name=x", "--heartbeat-interval=0", "--config-file",
                                path};
    parse_words(&p, 5, argv, "ETCD_NAME=also-shadowed");

    CHECK_EQ(p.result, CONFIG_OK);
    CHECK_STR(p.config.name, "of-the-file");
    CHECK_STR(note_value(&p.config, "loaded server configuration, other configuration command line "
                                    "flags and environment variables will be ignored if provided"),
              path);
    CHECK(!note_value(&p.config, "recognized and used environment variable"));
    parsed_free(&p);
}

TEST(a_file_can_be_named_by_a_variable)
{
    struct parsed p = {0};
    const char *path = file_with(&p.arena, BYTES("name: m2\n"));
    const char *const argv[] = {"etcd"};

    parse_words(&p, 1, argv, arena_printf(&p.arena, "ETCD_CONFIG_FILE=%s", path));

    CHECK_EQ(p.result, CONFIG_OK);
    CHECK_STR(p.config.name, "m2");
    parsed_free(&p);
}

/* They are still read by Go's rules before the file is. */
TEST(flags_beside_a_file_must_be_flags)
{
    struct parsed p = {0};
    const char *const argv[] = {"etcd", "--config-file=/nowhere", "--heartbeat-interval=x"};

    parse_words(&p, 3, argv, NULL);

    CHECK_EQ(p.result, CONFIG_BAD_FLAG);
    parsed_free(&p);
}

/* Two flags count all the same, in etcd; what we cannot do is refused. */
TEST(times_of_raft_count_beside_a_file)
{
    struct parsed p = {0};
    const char *path = file_with(&p.arena, BYTES("name: m\n"));
    const char *const argv[] = {"etcd", "--raft-read-timeout=1s", "--config-file", path};

    parse_words(&p, 4, argv, NULL);

    CHECK_EQ(p.result, CONFIG_BAD);
    CHECK_STR(buf_str(&p.why), "flag --raft-read-timeout is not supported yet");
    parsed_free(&p);
}

static void check_same_as_empty(const char *text)
{
    struct parsed p;
    parse_file(&p, text);

    if (p.result != CONFIG_OK || strcmp(p.config.name, "default") != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", text, buf_str(&p.why));
    parsed_free(&p);
}

TEST(nothing_in_a_file_is_all_defaults)
{
    static const char *const texts[] = {"",
                                        "# nothing\n",
                                        "---\n",
                                        "~\n",
                                        "{}\n",
                                        "name:\n",
                                        "log-outputs: []\n",
                                        "client-transport-security:\n",
                                        "client-transport-security: {allowed-cn: []}\n",
                                        "listen-client-urls: ''\n",
                                        "cors: ''\n",
                                        "initial-cluster-state: ''\n",
                                        "self-signed-cert-validity: 0\n",
                                        "feature-gates: ''\n"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        check_same_as_empty(texts[i]);
}

TEST(keys_that_mean_nothing_are_named_in_the_log)
{
    struct parsed p;
    parse_file(&p, "data_dir: x\nNAME: m\nclient-transport-security: {crl: y}\n5: z\n");

    CHECK_EQ(p.result, CONFIG_OK);
    CHECK_STR(p.config.name, "m");
    CHECK_STR(note_value(&p.config, "ignoring unknown keys of the configuration file"),
              "\"5\", \"crl\", \"data_dir\"");
    parsed_free(&p);
}

static void check_name(const char *text, const char *name)
{
    struct parsed p;
    parse_file(&p, text);

    if (p.result != CONFIG_OK || strcmp(p.config.name, name) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s %s", text, p.result == CONFIG_OK ? p.config.name : "",
                  buf_str(&p.why));
    parsed_free(&p);
}

TEST(a_name_can_be_written_in_many_ways)
{
    check_name("name: a\nname: b\n", "b");
    check_name("name: a\nNAME: b\n", "a");
    check_name("x: &x a\nname: *x\n", "a");
    check_name("x: &x a\ny: &x b\nname: *x\n", "b");
    check_name("x: &x {name: a}\n<<: *x\n", "a");
    check_name("name: b\n<<: {name: a}\n", "a");
    check_name("<<: [{name: a}, {name: b}]\n", "a");
    check_name("\"<<\": {name: a}\n", "default");
    check_name("name: 2001-01-01\n", "2001-01-01");
    check_name("name: '123'\n", "123");
    check_name("name: !!str 123\n", "123");
    check_name("name: !own 123\n", "123");
    check_name("{\"name\": \"\\u00e9\"}", "\xc3\xa9");
    check_name("name: a\n---\nname: b\n", "a");
    check_name("name: >\n  a\n  b\n", "a b\n");
}

/* ---- What is refused ---- */

static const struct {
    const char *text, *why; /* by our reader; etcd's says the same, or what is next */
    const char *etcd_says;  /* NULL: the same */
} refusals[] = {
    {"heartbeat-interval: abc\n",
     GO_FIELD "string into Go struct field configYAML.Config.heartbeat-interval of type uint", 0},
    {"heartbeat-interval: \"100\"\n",
     GO_FIELD "string into Go struct field configYAML.Config.heartbeat-interval of type uint", 0},
    {"heartbeat-interval: -1\n",
     GO_FIELD "number -1 into Go struct field configYAML.Config.heartbeat-interval of type uint",
     0},
    {"heartbeat-interval: 1.5\n",
     GO_FIELD "number 1.5 into Go struct field configYAML.Config.heartbeat-interval of type uint",
     0},
    {"heartbeat-interval: 99999999999999999999\n",
     GO_FIELD "number 100000000000000000000 into Go struct field "
              "configYAML.Config.heartbeat-interval of type uint",
     0},
    {"heartbeat-interval: 0.1234567890123456789\n",
     GO_FIELD "number 0.12345678901234568 into Go struct field "
              "configYAML.Config.heartbeat-interval of type uint",
     0},
    {"heartbeat-interval: 1.25e30\n",
     GO_FIELD "number 1.25e+30 into Go struct field configYAML.Config.heartbeat-interval of type "
              "uint",
     0},
    {"heartbeat-interval: -12345.5e15\n",
     GO_FIELD "number -12345500000000000000 into Go struct field "
              "configYAML.Config.heartbeat-interval of type uint",
     0},
    {"heartbeat-interval: 1e-9\n",
     GO_FIELD "number 1e-9 into Go struct field configYAML.Config.heartbeat-interval of type uint",
     0},
    {"heartbeat-interval: !!int abc\n",
     "error converting YAML to JSON: yaml: cannot decode !!str `abc` as a !!int", 0},
    {"max-concurrent-streams: 4294967296\n",
     GO_FIELD "number 4294967296 into Go struct field configYAML.Config.max-concurrent-streams of "
              "type uint32",
     0},
    {"quota-backend-bytes: 9223372036854775808\n",
     GO_FIELD "number 9223372036854775808 into Go struct field "
              "configYAML.Config.quota-backend-bytes of type int64",
     0},
    {"pre-vote: \"true\"\n",
     GO_FIELD "string into Go struct field configYAML.Config.pre-vote of type bool", 0},
    {"pre-vote: 1\n",
     GO_FIELD "number into Go struct field configYAML.Config.pre-vote of type bool", 0},
    {"name: 123\n", GO_FIELD "number into Go struct field configYAML.Config.name of type string",
     0},
    {"name: on\n", GO_FIELD "bool into Go struct field configYAML.Config.name of type string", 0},
    {"name: [a]\n", GO_FIELD "array into Go struct field configYAML.Config.name of type string", 0},
    {"name: {a: b}\n", GO_FIELD "object into Go struct field configYAML.Config.name of type string",
     0},
    {"election-timeout: x\nauto-compaction-mode: 5\n",
     GO_FIELD "number into Go struct field configYAML.Config.auto-compaction-mode of type string",
     0},
    {"backend-batch-interval: 100ms\n",
     GO_FIELD "string into Go struct field configYAML.Config.backend-batch-interval of type "
              "time.Duration",
     0},
    {"listen-client-urls: [http://127.0.0.1:1]\n",
     GO_FIELD "array into Go struct field configYAML.configJSON.listen-client-urls of type string",
     0},
    {"log-outputs: stderr\n",
     GO_FIELD "string into Go struct field configYAML.Config.log-outputs of type []string", 0},
    {"log-outputs: [stderr, 1]\n",
     GO_FIELD "number into Go struct field configYAML.Config.log-outputs of type string", 0},
    {"v2-deprecation: 5\n",
     GO_FIELD "number into Go struct field configYAML.Config.v2-deprecation of type "
              "config.V2DeprecationEnum",
     0},
    {"client-transport-security: foo\n",
     GO_FIELD "string into Go struct field configYAML.configJSON.client-transport-security of type "
              "embed.securityConfig",
     0},
    {"client-transport-security: {client-cert-auth: x}\n",
     GO_FIELD "string into Go struct field "
              "securityConfig.configJSON.client-transport-security.client-cert-auth of type bool",
     0},
    {"client-transport-security: {allowed-cn: x}\n",
     GO_FIELD "string into Go struct field "
              "securityConfig.configJSON.client-transport-security.allowed-cn of type []string",
     0},
    {"peer-transport-security:\n", "invalid peer-transport-security", 0},
    {"socket-options: {reuse-port: 1}\n",
     GO_FIELD "number into Go struct field SocketOpts.Config.socket-options.reuse-port of type "
              "bool",
     0},
    {"discovery-config: {client: {secure: {cert: 5}}}\n",
     GO_FIELD "number into Go struct field "
              "SecureConfig.Config.discovery-config.client.secure.cert of type string",
     0},
    {"discovery-config: {client: 5}\n",
     GO_FIELD "number into Go struct field DiscoveryConfig.Config.discovery-config.client of type "
              "clientv3.ConfigSpec",
     0},
    {"discovery-config: {token: a}\n",
     "both --discovery-token and --discovery-endpoints must be set", 0},
    {"hello\n", GO_FIELD "string into Go value of type embed.configYAML", 0},
    {"- a\n", GO_FIELD "array into Go value of type embed.configYAML", 0},
    {"feature-gates: Foo=true\n", "unrecognized feature gate: Foo", 0},
    {"initial-cluster-state: foo\n", "unexpected clusterState \"foo\"", 0},
    {"discovery-srv: a\ninitial-cluster: x=http://localhost:2380\n",
     "multiple discovery or bootstrap flags are set. Choose one of \"initial-cluster\", "
     "\"discovery-endpoints\" or \"discovery-srv\"",
     0},
    {STOP, STOPPED, 0},
    {"{\"name\": \"x\", \"heartbeat-interval\": 0}", STOPPED, 0},
    {"max-learners: -5\nsnapshot-count: 1e3\n" STOP, STOPPED, 0},
    {"max-learners: -1\n", "membership: too many learner members in cluster", 0},
    {"heartbeat-interval: !!float 0\n", STOPPED, 0},

    {"name: a: b\n",
     "error converting YAML to JSON: yaml: mapping values are not allowed in this context", 0},
    {"name: a\n  b: c\n",
     "error converting YAML to JSON: yaml: line 2: mapping values are not allowed in this context",
     0},
    {"name: [a\n", "error converting YAML to JSON: yaml: line 1: did not find expected ',' or ']'",
     0},
    {"a: b\n}\n", "error converting YAML to JSON: yaml: line 1: did not find expected key", 0},
    {"\"abc", "error converting YAML to JSON: yaml: found unexpected end of stream", 0},
    {"name: \"\\q\"\n", "error converting YAML to JSON: yaml: found unknown escape character", 0},
    {"name: \xff\xfe\n", "error converting YAML to JSON: yaml: invalid leading UTF-8 octet", 0},
    {"\x01\n", "error converting YAML to JSON: yaml: control characters are not allowed", 0},
    {"name: !e!foo a\n", "error converting YAML to JSON: yaml: found undefined tag handle", 0},
    {"name: *a\n", "error converting YAML to JSON: yaml: unknown anchor 'a' referenced", 0},
    {"a: &a [*a]\n", "error converting YAML to JSON: yaml: anchor 'a' value contains itself", 0},
    {"<<: a\n",
     "error converting YAML to JSON: yaml: map merge requires map or sequence of maps as the value",
     0},
    {"x: .inf\n", "error converting YAML to JSON: json: unsupported value: +Inf", 0},
    {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\n"
     "d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e]\n",
     "error converting YAML to JSON: yaml: document contains excessive aliasing", 0},

    /* The same in other words, or what only one of us minds. */
    {"~: a\n", "error converting YAML to JSON: unsupported map key of type: null",
     "error converting YAML to JSON: unsupported map key of type: "},
    {"[a, b]: a\n", "error converting YAML to JSON: yaml: invalid map key: a list",
     "error converting YAML to JSON: yaml: invalid map key: []interface"},
    {"name: \"a\\0b\"\n" STOP, "name: there is a zero byte in its text", STOPPED},
    {"name: !!binary aGVsbG8=\n" STOP,
     "error converting YAML to JSON: yaml: !!binary is not supported", STOPPED},
    {"log-outputs: [\"a,b\"]\n" STOP,
     "log-outputs: there is a comma in a,b, which is not supported", STOPPED},
    {"client-transport-security: {allowed-cn: [x]}\n" STOP,
     "client-transport-security.allowed-cn is not supported yet", STOPPED},
    {"client-transport-security: {skip-client-san-verification: true}\n" STOP,
     "client-transport-security.skip-client-san-verification is not supported yet", STOPPED},
};

TEST(what_is_wrong_in_a_file_is_refused_in_etcds_words)
{
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        struct parsed p;
        parse_file(&p, refusals[i].text);
        if (p.result != CONFIG_BAD || strcmp(buf_str(&p.why), refusals[i].why) != 0)
            test_fail(__FILE__, __LINE__, "%s: %d %s, not %s", refusals[i].text, p.result,
                      buf_str(&p.why), refusals[i].why);
        parsed_free(&p);
    }
}

static void check_url(const char *text, const char *why)
{
    struct parsed p;
    parse_file(&p, text);

    CHECK_STR(buf_str(&p.why), why);
    CHECK_EQ(p.result, CONFIG_BAD_FILE);
    parsed_free(&p);
}

TEST(urls_in_a_file_are_refused_in_etcds_words)
{
    check_url("listen-client-urls: foo\n", "unexpected error setting up listen-client-urls: URL "
                                           "scheme must be http, https, unix, or unixs: foo");
    check_url("advertise-client-urls: foo\nlisten-metrics-urls: bar\n",
              "unexpected error setting up advertise-peer-urls: URL scheme must be http, https, "
              "unix, or unixs: foo");
    check_url("cors: foo\n", "unexpected error setting up cors: URL scheme must be http, https, "
                             "unix, or unixs: foo");
}

static void check_load(const char *path, const char *why)
{
    struct parsed p = {0};
    const char *const argv[] = {"etcd", "--config-file", path};
    parse_words(&p, 3, argv, NULL);

    CHECK_STR(buf_str(&p.why), why);
    CHECK_EQ(p.result, CONFIG_BAD);
    parsed_free(&p);
}

TEST(a_file_that_cannot_be_read_is_refused)
{
    check_load("/no/such", "open /no/such: no such file or directory");
    check_load("/", "read /: is a directory");
    check_load("/dev/zero", "/dev/zero: a configuration file has at most 1048576 bytes");
}

/* No deeper than the stack allows, however it is written. */
TEST(a_file_is_bounded_in_depth_and_anchors)
{
    struct buf text = {0};
    struct parsed p;

    for (int i = 0; i < 10000; i++)
        buf_append_byte(&text, '[');
    parse_bytes(&p, buf_bytes(&text));
    CHECK_EQ(p.result, CONFIG_BAD);
    CHECK(strstr(buf_str(&p.why), "exceeded max depth of 100"));
    parsed_free(&p);

    buf_clear(&text);
    buf_append_str(&text, "a0: &a0 [x]\n");
    for (int i = 1; i < 200; i++)
        buf_printf(&text, "a%d: &a%d [*a%d]\n", i, i, i - 1);
    parse_bytes(&p, buf_bytes(&text));
    CHECK_EQ(p.result, CONFIG_BAD);
    CHECK(strstr(buf_str(&p.why), "exceeded max depth of 100"));
    parsed_free(&p);

    buf_clear(&text);
    for (int i = 0; i <= YAML_ANCHORS_MAX; i++)
        buf_printf(&text, "- &a%d x\n", i);
    parse_bytes(&p, buf_bytes(&text));
    CHECK_EQ(p.result, CONFIG_BAD);
    CHECK(strstr(buf_str(&p.why), "more than 1000 anchors"));
    parsed_free(&p);
    buf_free(&text);
}

/* ---- etcd itself ---- */

/* What a program has on standard error, and its status before it in front. */
static const char *run_with_file(struct peer *p, struct arena *arena, const char *text)
{
    const char *path = file_with(arena, bytes_of_str(text));

    return peer_run(&p->arena,
                    "program=$(realpath %s) && cd %s && "
                    "timeout 20 \"$program\" --config-file %s 2>&1 >out; echo \" $?\"",
                    p->program, test_tmp_dir(), path);
}

static bool says(const char *printed, const char *why)
{
    struct buf escaped = {0};

    for (const char *c = why; *c; c++)
        buf_printf(&escaped, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
    bool found = strstr(printed, buf_str(&escaped)) != NULL;
    buf_free(&escaped);
    return found;
}

/* The table is right: real etcd says so too. */
TEST(etcd_refuses_the_same_files)
{
    struct peer etcd;
    peer_open(&etcd, test_tmp_dir());

    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        struct arena arena = {0};
        const char *printed = run_with_file(&etcd, &arena, refusals[i].text);
        const char *why = refusals[i].etcd_says ? refusals[i].etcd_says : refusals[i].why;
        if (!says(printed, why) || strcmp(strrchr(printed, ' '), " 1") != 0)
            test_fail(__FILE__, __LINE__, "%s: wanted %s, printed %s", refusals[i].text, why,
                      printed);
        arena_free(&arena);
    }
    peer_close(&etcd);
}

TEST(the_program_prints_what_is_wrong_in_a_file)
{
    struct peer ours;
    struct arena arena = {0};
    peer_open_ours(&ours, test_tmp_dir());

    CHECK(says(run_with_file(&ours, &arena, STOP), STOPPED));
    CHECK_STR(run_with_file(&ours, &arena, "listen-peer-urls: foo\n"),
              "unexpected error setting up listen-peer-urls: URL scheme must be http, https, unix, "
              "or unixs: foo\n 1");
    arena_free(&arena);
    peer_close(&ours);
}

/* ---- Every key ---- */

/* All that etcd knows, with their defaults, but for names and addresses. */
static const char every_key[] =
    "wal-dir: ''\nsnapshot-count: 10000\nsnapshot-catchup-entries: 5000\nmax-snapshots: 5\n"
    "max-wals: 5\nheartbeat-interval: 100\nelection-timeout: 1000\n"
    "initial-election-tick-advance: true\nlisten-client-http-urls: ''\nlisten-metrics-urls: ''\n"
    "quota-backend-bytes: 0\nbackend-bbolt-freelist-type: ''\nbackend-batch-interval: 0\n"
    "backend-batch-limit: 0\nmax-txn-ops: 128\nmax-request-bytes: 1572864\n"
    "max-concurrent-streams: 4294967295\ngrpc-keepalive-min-time: 5000000000\n"
    "grpc-keepalive-interval: 7200000000000\ngrpc-keepalive-timeout: 20000000000\n"
    "socket-options: {reuse-port: false, reuse-address: false}\nmemory-mlock: false\n"
    "enable-grpc-gateway: true\nfeature-gates: FastLeaseKeepAlive=true\n"
    "initial-cluster-state: new\ninitial-cluster-token: etcd-cluster\n"
    "discovery-config:\n"
    "  token: ''\n"
    "  client:\n"
    "    endpoints: []\n"
    "    dial-timeout: 2000000000\n"
    "    request-timeout: 5000000000\n"
    "    keepalive-time: 2000000000\n"
    "    keepalive-timeout: 6000000000\n"
    "    secure: {insecure-transport: true, insecure-skip-tls-verify: false, cert: '', key: '',\n"
    "      cacert: ''}\n"
    "    auth: {username: '', password: ''}\n"
    "discovery-srv: ''\ndiscovery-srv-name: ''\nstrict-reconfig-check: true\npre-vote: true\n"
    "max-learners: 1\nauto-compaction-mode: periodic\nauto-compaction-retention: '0'\n"
    "v2-deprecation: write-only\n"
    "client-transport-security: &none\n"
    "  {cert-file: '', key-file: '', client-cert-file: '', client-key-file: '',\n"
    "   client-cert-auth: false, trusted-ca-file: '', auto-tls: false, allowed-cn: [],\n"
    "   allowed-hostname: [], skip-client-san-verification: false}\n"
    "peer-transport-security: *none\n"
    "self-signed-cert-validity: 1\ncipher-suites: []\ntls-min-version: TLS1.2\n"
    "tls-max-version: ''\ncors: '*'\nhost-whitelist: '*'\nauth-token: simple\nbcrypt-cost: 10\n"
    "auth-token-ttl: 300\nenable-pprof: false\nmetrics: basic\nlogger: zap\n"
    "log-outputs: [default]\nlog-level: info\nlog-format: json\nenable-log-rotation: false\n"
    "log-rotation-config-json: '{\"maxsize\": 100, \"maxage\": 0, \"maxbackups\": 0, "
    "\"localtime\": false, \"compress\": false}'\n"
    "warning-apply-duration: 100000000\nwarning-unary-request-duration: 300000000\n"
    "enable-distributed-tracing: false\ndistributed-tracing-address: localhost:4317\n"
    "distributed-tracing-service-name: etcd\ndistributed-tracing-instance-id: ''\n"
    "distributed-tracing-sampling-rate: 0\ncorrupt-check-time: 0\n"
    "compact-hash-check-time: 60000000000\ncompaction-batch-limit: 0\n"
    "compaction-sleep-interval: 0\nwatch-progress-notify-interval: 0\n"
    "downgrade-check-time: 5000000000\nbootstrap-defrag-threshold-megabytes: 0\n"
    "unsafe-no-fsync: false\nforce-new-cluster: false\n";

TEST(every_key_is_known)
{
    struct parsed p;
    parse_file(&p, every_key);

    CHECK_STR(buf_str(&p.why), "");
    CHECK_EQ(p.result, CONFIG_OK);
    CHECK(!note_value(&p.config, "ignoring unknown keys of the configuration file"));
    parsed_free(&p);
}

/* Serves with all that, at the addresses that are left to it. */
static void serve_with_every_key(struct peer *p)
{
    struct buf text = {0};
    const char *path = arena_printf(&p->arena, "%s/config.yml", test_tmp_dir());
    FILE *file = fopen(path, "w");

    buf_printf(&text,
               "%sname: m\ndata-dir: %s\nlisten-client-urls: %s\nadvertise-client-urls: %s\n"
               "listen-peer-urls: %s\ninitial-advertise-peer-urls: %s\ninitial-cluster: m=%s\n",
               every_key, p->dir, p->client_url, p->client_url, p->peer_url, p->peer_url,
               p->peer_url);
    CHECK(file && fwrite(text.at, 1, text.len, file) == text.len && fclose(file) == 0);
    peer_start(p, arena_printf(&p->arena, "--config-file %s", path));
    PEER_CTL(p, "put k v");
    CHECK_STR(PEER_CTL(p, "get k --print-value-only"), "v");
    peer_stop(p);
    buf_free(&text);
}

TEST(we_serve_with_every_key_of_a_file)
{
    struct peer ours;
    struct arena arena = {0};
    peer_need(); /* for etcdctl */
    peer_open_ours(&ours, arena_printf(&arena, "%s/data", test_tmp_dir()));

    serve_with_every_key(&ours);
    peer_close(&ours);
    arena_free(&arena);
}

TEST(etcd_serves_with_every_key_of_a_file)
{
    struct peer etcd;
    struct arena arena = {0};
    peer_open(&etcd, arena_printf(&arena, "%s/data", test_tmp_dir()));

    serve_with_every_key(&etcd);
    peer_close(&etcd);
    arena_free(&arena);
}
