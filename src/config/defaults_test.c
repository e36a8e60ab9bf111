/* Every flag at its default, in every spelling, given to etcd and to us as programs. */
#include "config/defaults_test.h"

#include "base/buf.h"
#include "base/mem.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>

#define YES     "true|1|t|T|TRUE|True"
#define NO      "false|0|f|F|FALSE|False"
#define NO_TIME "0s|0|0ms|+0|-0s|0h0m0s"

const struct spelled_flag spelled_flags[] = {
    {"name", "default"},
    {"data-dir", "|default.etcd"},
    {"wal-dir", "|default.etcd/member/wal"},
    {"snapshot-count", "10000|0|0x2710|10_000|0o23420"},
    {"snapshot-catchup-entries", "5000|0|0x1388|5_000"},
    {"max-snapshots", "5|0x5|05|0b101"},
    {"max-wals", "5|0x5|05|0b101"},
    {"heartbeat-interval", "100|0x64|0144"},
    {"election-timeout", "1000|1_000|0x3e8"},
    {"initial-election-tick-advance", YES},
    {"listen-peer-urls", "http://localhost:2380|"},
    {"listen-client-urls", "http://localhost:2379|"},
    {"listen-client-http-urls", ""},
    {"listen-metrics-urls", ""},
    {"quota-backend-bytes", "0|+0|-0|0x0"},
    {"backend-bbolt-freelist-type", "map||hashmap|foo"},
    {"backend-batch-interval", NO_TIME "|100ms|0.1s"},
    {"backend-batch-limit", "0|10000|+10000|0x2710"},
    {"max-txn-ops", "128|0x80"},
    {"max-request-bytes", "1572864|0x180000"},
    {"max-concurrent-streams", "4294967295|0xffffffff"},
    {"grpc-keepalive-min-time", "5s|5000ms"},
    {"grpc-keepalive-interval", "2h0m0s|2h|120m|7200s|0"},
    {"grpc-keepalive-timeout", "20s|20000ms"},
    {"socket-reuse-port", NO},
    {"socket-reuse-address", NO},
    {"memory-mlock", NO},
    {"raft-read-timeout", "5s|5000ms|1s|0|-1s"},
    {"raft-write-timeout", "5s|5000ms|1s|0|-1s"},
    {"enable-grpc-gateway", YES},
    {"feature-gates", "|TxnModeWriteWithSharedBuffer=true,FastLeaseKeepAlive=1|AllAlpha=false|"
                      "AllBeta=true| LeaseCheckpoint = F ,|AllBeta=false,FastLeaseKeepAlive=true,"
                      "TxnModeWriteWithSharedBuffer=true"},
    {"config-file", ""},
    {"version", NO},
    {"initial-advertise-peer-urls", "http://localhost:2380|"},
    {"advertise-client-urls", "http://localhost:2379|"},
    {"initial-cluster", "default=http://localhost:2380"},
    {"initial-cluster-state", "new"},
    {"initial-cluster-token", "etcd-cluster"},
    {"discovery-token", ""},
    {"discovery-endpoints", NULL},
    {"discovery-dial-timeout", "2s|2000ms"},
    {"discovery-request-timeout", "5s|5000ms"},
    {"discovery-keepalive-time", "2s|2000ms"},
    {"discovery-keepalive-timeout", "6s|6000ms"},
    {"discovery-insecure-transport", YES},
    {"discovery-insecure-skip-tls-verify", NO},
    {"discovery-cert", ""},
    {"discovery-key", ""},
    {"discovery-cacert", ""},
    {"discovery-user", ""},
    {"discovery-password", ""},
    {"discovery-srv", ""},
    {"discovery-srv-name", ""},
    {"discovery-fallback", "exit"},
    {"strict-reconfig-check", YES},
    {"pre-vote", YES},
    {"max-learners", "1|+1|0x1"},
    {"auto-compaction-mode", "periodic"},
    {"auto-compaction-retention", "0||0s|0h|00|-0|+0|0h0m"},
    {"v2-deprecation", "write-only|gone|write-only,gone"},
    {"cert-file", ""},
    {"key-file", ""},
    {"client-cert-file", ""},
    {"client-key-file", ""},
    {"client-cert-auth", NO},
    {"client-crl-file", ""},
    {"client-cert-allowed-hostname", ""},
    {"trusted-ca-file", ""},
    {"auto-tls", NO},
    {"peer-cert-file", ""},
    {"peer-key-file", ""},
    {"peer-client-cert-file", ""},
    {"peer-client-key-file", ""},
    {"peer-client-cert-auth", NO},
    {"peer-trusted-ca-file", ""},
    {"peer-auto-tls", NO},
    {"peer-crl-file", ""},
    {"peer-cert-allowed-cn", ""},
    {"peer-cert-allowed-hostname", ""},
    {"peer-skip-client-san-verification", NO},
    {"self-signed-cert-validity", "1|0x1"},
    {"cipher-suites", NULL},
    {"tls-min-version", "TLS1.2|"},
    {"tls-max-version", "|TLS1.3"},
    {"cors", "*"},
    {"host-whitelist", "*|*,*|*,a"},
    {"auth-token", "simple"},
    {"bcrypt-cost", "10|0xa|0|3|32"},
    {"auth-token-ttl", "300|0|0x12c"},
    {"enable-pprof", NO},
    {"metrics", "basic||foo"},
    {"logger", "zap"},
    {"log-outputs", "default|stderr|stderr,stderr"},
    {"log-level", "info|INFO||Info"},
    {"log-format", "json"},
    {"enable-log-rotation", NO},
    {"log-rotation-config-json",
     "{\"maxsize\": 100, \"maxage\": 0, \"maxbackups\": 0, \"localtime\": false, "
     "\"compress\": false}|"
     "{\"maxsize\":100,\"maxage\":0,\"maxbackups\":0,\"localtime\":false,\"compress\":false}|"
     "{\"compress\":false,\"maxage\":0,\"maxsize\":100,\"localtime\":false,\"maxbackups\":0}"},
    {"warning-apply-duration", "100ms|0.1s|100000us"},
    {"warning-unary-request-duration", "300ms|0.3s|0|0s"},
    {"enable-distributed-tracing", NO},
    {"distributed-tracing-address", "localhost:4317"},
    {"distributed-tracing-service-name", "etcd"},
    {"distributed-tracing-instance-id", ""},
    {"distributed-tracing-sampling-rate", "0|+0|-0|0x0"},
    {"corrupt-check-time", NO_TIME},
    {"compact-hash-check-time", "1m0s|1m|60s|60000ms"},
    {"compaction-batch-limit", "0|1000|0x3e8|1_000"},
    {"compaction-sleep-interval", NO_TIME "|10ms|0.01s"},
    {"watch-progress-notify-interval", NO_TIME "|10m|600s"},
    {"downgrade-check-time", "5s|5000ms"},
    {"bootstrap-defrag-threshold-megabytes", "0|0x0|00"},
    {"unsafe-no-fsync", NO},
    {"force-new-cluster", NO},
};
const size_t spelled_flag_count = ARRAY_LEN(spelled_flags);

/* Those that a test's own server cannot have at their default. */
static bool is_the_tests_own(const char *name)
{
    static const char *const own[] = {"name",
                                      "data-dir",
                                      "wal-dir",
                                      "listen-peer-urls",
                                      "listen-client-urls",
                                      "initial-advertise-peer-urls",
                                      "advertise-client-urls",
                                      "initial-cluster"};

    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        if (strcmp(name, own[i]) == 0)
            return true;
    }
    return false;
}

/* The spelling of that number, or false. */
static bool nth_spelling(const struct spelled_flag *f, unsigned n, struct bytes *out)
{
    const char *at = f->spellings;

    for (; at && n > 0; n--) {
        at = strchr(at, '|');
        at = at ? at + 1 : NULL;
    }
    if (!at)
        return false;
    *out = bytes_of(at, strcspn(at, "|"));
    return true;
}

/* Of every flag the spelling of that number, if it has so many; how many flags that were. */
static unsigned append_round(struct buf *line, unsigned n)
{
    unsigned count = 0;

    for (size_t i = 0; i < spelled_flag_count; i++) {
        struct bytes text;
        if (is_the_tests_own(spelled_flags[i].name) || !nth_spelling(&spelled_flags[i], n, &text))
            continue;
        buf_printf(line, " '--%s=%.*s'", spelled_flags[i].name, (int)text.len,
                   (const char *)text.at);
        count++;
    }
    return count;
}

static void start_with_every_spelling(struct peer *p)
{
    struct buf line = {0};

    for (unsigned n = 0; append_round(&line, n) > 0; n++) {
        peer_start(p, buf_str(&line));
        peer_stop(p);
        buf_clear(&line);
    }
    buf_free(&line);
}

static const char *data_dir(void)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/data", test_tmp_dir());
    return path;
}

TEST(we_start_with_every_default_in_every_spelling)
{
    struct peer ours;
    peer_open_ours(&ours, data_dir());

    start_with_every_spelling(&ours);
    peer_close(&ours);
}

/* The table is right: real etcd takes them all. */
TEST(etcd_starts_with_every_default_in_every_spelling)
{
    struct peer etcd;
    peer_open(&etcd, data_dir());

    start_with_every_spelling(&etcd);
    peer_close(&etcd);
}
