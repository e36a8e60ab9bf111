#include "config/config.h"

#include "base/mem.h"
#include "config/defaults_test.h"
#include "config/flags.h"
#include "config/refusals_test.h"
#include "harness/test.h"

#include <inttypes.h>
#include <stdio.h>

/* A command line and an environment, words separated by '|'. */
struct line {
    struct arena arena;
    const char *argv[CONFIG_WORDS_MAX + 2], *env[CONFIG_WORDS_MAX + 1];
    int argc;
    struct config config;
    struct buf why;
};

int config_words(struct arena *arena, const char *text, const char **out)
{
    struct bytes rest = bytes_of_str(text);
    int count = 0;

    while (rest.len > 0) {
        const uint8_t *bar = memchr(rest.at, '|', rest.len);
        size_t len = bar ? (size_t)(bar - rest.at) : rest.len;
        CHECK(count < CONFIG_WORDS_MAX);
        out[count++] = arena_copy_str(arena, bytes_of(rest.at, len));
        rest = bar ? bytes_of(bar + 1, rest.len - len - 1) : (struct bytes){0};
    }
    return count;
}

static enum config_result parse(struct line *l, const char *args, const char *env)
{
    *l = (struct line){.argv = {"etcd"}};
    l->argc = 1 + config_words(&l->arena, args, l->argv + 1);
    config_words(&l->arena, env, l->env);
    return config_parse(l->argc, l->argv, l->env, &l->config, &l->why);
}

static void line_free(struct line *l)
{
    config_free(&l->config);
    arena_free(&l->arena);
    buf_free(&l->why);
}

static bool has_note(const struct config *c, const char *message, const char *value)
{
    for (size_t i = 0; i < c->note_count; i++) {
        const struct config_note *n = &c->notes[i];
        const char *last = n->fields[1].value ? n->fields[1].value : n->fields[0].value;
        if (strcmp(n->message, message) == 0 && (!value || (last && strcmp(last, value) == 0)))
            return true;
    }
    return false;
}

/* ---- What comes of it ---- */

static void append_listens(struct buf *out, struct config_listens listens)
{
    for (size_t i = 0; i < listens.count; i++) {
        char text[NET_TEXT_MAX];
        buf_printf(out, "%s%.*s@%s", i > 0 ? "," : "", (int)listens.at[i].url.text.len,
                   (const char *)listens.at[i].url.text.at,
                   net_address_text(&listens.at[i].address, text));
    }
}

static void append_list(struct buf *out, const char *name, struct url_list list)
{
    buf_printf(out, "%s=", name);
    url_list_join(list, out);
    buf_append_byte(out, '\n');
}

static void append_tls(struct buf *out, const char *side, const struct tls_flags *f)
{
    buf_printf(out, "%s_tls=%s,%s,%s,%s,%s,%s auth=%d makes=%d skips=%d\n", side, f->cert_file,
               f->key_file, f->dial_cert_file, f->dial_key_file, f->trusted_ca_file, f->crl_file,
               f->client_cert_auth, f->makes_cert, f->skips_san);
    buf_append_str(out, side);
    append_list(out, "_hosts", f->allowed_hostnames);
    buf_append_str(out, side);
    append_list(out, "_cns", f->allowed_cns);
}

/* Every field on a line of its own. */
static void describe(const struct config *c, struct buf *out)
{
    buf_printf(out, "name=%s\ndata_dir=%s\nwal_dir=%s\n", c->name, c->data_dir, c->wal_dir);
    buf_printf(out, "snapshot_count=%" PRIu64 "\nsnapshot_catchup_entries=%" PRIu64 "\n",
               c->snapshot_count, c->snapshot_catchup_entries);
    buf_printf(out, "max_snapshots=%" PRIu64 "\nmax_wals=%" PRIu64 "\n", c->max_snapshots,
               c->max_wals);
    buf_printf(out,
               "heartbeat_ms=%" PRIu64 "\nelection_ms=%" PRIu64 "\nlisten_peers=", c->heartbeat_ms,
               c->election_ms);
    append_listens(out, c->listen_peers);
    buf_append_str(out, "\nlisten_clients=");
    append_listens(out, c->listen_clients);
    buf_append_str(out, "\nlisten_http=");
    append_listens(out, c->listen_http);
    buf_append_str(out, "\nlisten_metrics=");
    append_listens(out, c->listen_metrics);
    buf_printf(out, "\nquota=%" PRId64 "\nbatch_ns=%" PRId64 "\n", c->quota_backend_bytes,
               c->backend_batch_interval_ns);
    buf_printf(out, "txn_ops=%" PRIu64 "\nrequest_bytes=%" PRIu64 "\nstreams=%" PRIu32 "\n",
               c->max_txn_ops, c->max_request_bytes, c->max_concurrent_streams);
    buf_printf(out, "min_time_ns=%" PRId64 "\ninterval_ns=%" PRId64 "\ntimeout_ns=%" PRId64 "\n",
               c->grpc_keepalive_min_time_ns, c->grpc_keepalive_interval_ns,
               c->grpc_keepalive_timeout_ns);
    append_list(out, "advertise_peers", c->advertise_peers);
    append_list(out, "advertise_clients", c->advertise_clients);
    buf_printf(out, "initial_cluster=%s\ntoken=%s\njoins=%d\n", c->initial_cluster,
               c->initial_cluster_token, c->joins_existing);
    buf_printf(out, "strict=%d\npre_vote=%d\nlearners=%" PRIu64 "\n", c->strict_reconfig_check,
               c->pre_vote, c->max_learners);
    buf_printf(out, "io_threads=%d\n", c->io_threads);
    buf_printf(out, "log_level=%s\nlog_format=%d\n", log_level_name(c->log_level), c->log_format);
    append_list(out, "log_outputs", c->log_outputs);
    buf_printf(out, "notify_ns=%" PRId64 "\nwarning_apply_ns=%" PRId64 "\nno_fsync=%d\n",
               c->watch_progress_notify_ns, c->warning_apply_ns, c->unsafe_no_fsync);
    buf_printf(out, "warning_unary_ns=%" PRId64 "\nextensive=%d\n", c->warning_unary_ns,
               c->extensive_metrics);
    buf_printf(out, "downgrade_check_ms=%" PRIu64 "\n", c->downgrade_check_ms);
    buf_printf(out, "tick_advance=%d\nreuse_port=%d\ndefrag_bytes=%" PRIu64 "\n",
               c->initial_tick_advance, c->reuse_port, c->bootstrap_defrag_bytes);
    buf_printf(out, "rotation=%d %" PRIu64 " bytes %" PRIu64 " days %" PRIu64 " files %s\n",
               c->log_rotation.is_on, c->log_rotation.size_bytes, c->log_rotation.age_days_max,
               c->log_rotation.backups_max, c->log_rotation.local_time ? "local" : "utc");
    buf_printf(out, "checkpoint=%d\ncheckpoint_persist=%d\n", gates_lease_checkpoint(c->gates),
               gates_lease_checkpoint_persist(c->gates));
    buf_printf(out, "corrupt_check_ns=%" PRId64 "\ninitial_check=%d\n", c->corrupt_check_ns,
               gates_initial_corrupt_check(c->gates));
    buf_printf(out, "compact_check_ns=%" PRId64 "\ncompact_check=%d\n", c->compact_hash_check_ns,
               gates_compact_hash_check(c->gates));
    buf_printf(out, "compaction=%" PRIu64 " then %" PRId64 " ns\n", c->compaction_batch,
               c->compaction_sleep_ns);
    append_tls(out, "client", &c->client_tls);
    append_tls(out, "peer", &c->peer_tls);
    append_list(out, "suites", c->cipher_suites);
    append_list(out, "cors", c->cors);
    buf_printf(out, "tls_min=%d\ntls_max=%d\nyears=%" PRIu64 "\n", c->tls_min, c->tls_max,
               c->self_signed_years);
    buf_printf(out, "retention=%" PRId64 "%s\n", c->auto_compaction_retention,
               c->auto_compaction_counts_revisions ? "" : "ns");
}

TEST(no_flags_are_etcds_defaults)
{
    struct line l;
    struct buf got = {0};

    CHECK_EQ(parse(&l, "", ""), CONFIG_OK);
    describe(&l.config, &got);

    CHECK_STR(buf_str(&got), "name=default\n"
                             "data_dir=default.etcd\n"
                             "wal_dir=default.etcd/member/wal\n"
                             "snapshot_count=10000\n"
                             "snapshot_catchup_entries=5000\n"
                             "max_snapshots=5\n"
                             "max_wals=5\n"
                             "heartbeat_ms=100\n"
                             "election_ms=1000\n"
                             "listen_peers=http://localhost:2380@127.0.0.1:2380\n"
                             "listen_clients=http://localhost:2379@127.0.0.1:2379\n"
                             "listen_http=\n"
                             "listen_metrics=\n"
                             "quota=0\n"
                             "batch_ns=100000000\n"
                             "txn_ops=128\n"
                             "request_bytes=1572864\n"
                             "streams=4294967295\n"
                             "min_time_ns=5000000000\n"
                             "interval_ns=7200000000000\n"
                             "timeout_ns=20000000000\n"
                             "advertise_peers=http://localhost:2380\n"
                             "advertise_clients=http://localhost:2379\n"
                             "initial_cluster=default=http://localhost:2380\n"
                             "token=etcd-cluster\n"
                             "joins=0\n"
                             "strict=1\n"
                             "pre_vote=1\n"
                             "learners=1\n"
                             "io_threads=-1\n"
                             "log_level=info\n"
                             "log_format=0\n"
                             "log_outputs=stderr\n"
                             "notify_ns=600000000000\n"
                             "warning_apply_ns=100000000\n"
                             "no_fsync=0\n"
                             "warning_unary_ns=300000000\n"
                             "extensive=0\n"
                             "downgrade_check_ms=5000\n"
                             "tick_advance=1\n"
                             "reuse_port=0\n"
                             "defrag_bytes=0\n"
                             "rotation=0 0 bytes 0 days 0 files utc\n"
                             "checkpoint=0\n"
                             "checkpoint_persist=0\n"
                             "corrupt_check_ns=0\n"
                             "initial_check=0\n"
                             "compact_check_ns=60000000000\n"
                             "compact_check=0\n"
                             "compaction=0 then 0 ns\n"
                             "client_tls=,,,,, auth=0 makes=0 skips=0\n"
                             "client_hosts=\n"
                             "client_cns=\n"
                             "peer_tls=,,,,, auth=0 makes=0 skips=0\n"
                             "peer_hosts=\n"
                             "peer_cns=\n"
                             "suites=\n"
                             "cors=*\n"
                             "tls_min=1\n"
                             "tls_max=2\n"
                             "years=1\n"
                             "retention=0ns\n");
    CHECK(has_note(&l.config, "'data-dir' was empty; using default", "default.etcd"));
    buf_free(&got);
    line_free(&l);
}

/* One flag, and the one line that is then different. */
static const struct {
    const char *args, *want;
} effects[] = {
    {"--name=m1|--initial-cluster=x=http://h:1", "name=m1"},
    {"--name|m1", "data_dir=m1.etcd"},
    {"-name|m1", "name=m1"},
    {"-name=a=b", "name=a=b"},
    {"--name=a|--name=b", "name=b"},
    {"--name=", "data_dir=.etcd"},
    {"--name|--version", "name=--version"},
    {"--name=m1", "initial_cluster=m1=http://localhost:2380"},
    {"--name=m1|--initial-advertise-peer-urls=http://h:2,http://h:1",
     "initial_cluster=m1=http://h:1,m1=http://h:2"},
    {"--name=m1|--initial-cluster=", "initial_cluster="},
    {"--name=m1|--initial-cluster=m1=http://h:1", "initial_cluster=m1=http://h:1"},
    {"--name=", "initial_cluster=default=http://localhost:2380"},
    {"--data-dir=/d", "data_dir=/d"},
    {"--data-dir=/d", "wal_dir=/d/member/wal"},
    {"--wal-dir=/w", "wal_dir=/w"},
    {"--snapshot-count=7", "snapshot_count=7"},
    {"--snapshot-count=0", "snapshot_count=10000"},
    {"--snapshot-count=0x10", "snapshot_count=16"},
    {"--snapshot-count=1_000", "snapshot_count=1000"},
    {"--snapshot-catchup-entries=9", "snapshot_catchup_entries=9"},
    {"--snapshot-catchup-entries=0", "snapshot_catchup_entries=5000"},
    {"--max-snapshots=0", "max_snapshots=0"},
    {"--max-wals=1", "max_wals=1"},
    {"--heartbeat-interval=200", "heartbeat_ms=200"},
    {"--election-timeout=50000", "election_ms=50000"},
    {"--listen-peer-urls=http://127.0.0.1:1", "listen_peers=http://127.0.0.1:1@127.0.0.1:1"},
    {"--listen-peer-urls=http://[::]:1,http://0.0.0.0:1",
     "listen_peers=http://0.0.0.0:1@0.0.0.0:1,http://[::]:1@[::]:1"},
    {"--listen-peer-urls=http://127.0.0.1:", "listen_peers=http://127.0.0.1:@127.0.0.1:0"},
    {"--listen-peer-urls=", "listen_peers=http://localhost:2380@127.0.0.1:2380"},
    {"--listen-peer-urls=unix://m:1", "listen_peers=unix://m:1@m:1"},
    {"--listen-peer-urls=unix://m:1/x", "listen_peers=unix://m:1/x@m:1"},
    {"--listen-client-urls=unix://m:1/x|--advertise-client-urls=unix://m:1/x",
     "listen_clients=unix://m:1/x@m:1/x"},
    {"--listen-client-urls=unix:///a%20b|--advertise-client-urls=unix:///a",
     "listen_clients=unix:///a%20b@/a b"},
    {"--listen-client-urls=http://1.2.3.4:5,http://1.2.3.4:5|--advertise-client-urls=http://h:5",
     "listen_clients=http://1.2.3.4:5@1.2.3.4:5"},
    {"--listen-client-urls=http://1.2.3.4:5|--advertise-client-urls=unix://M\xfcller",
     "advertise_clients=unix://M%FCller"},
    {"--listen-client-urls=http://1.2.3.4:5|--advertise-client-urls=http://h:5",
     "advertise_clients=http://h:5"},
    {"--listen-client-urls=http://localhost:5|--advertise-client-urls=",
     "advertise_clients=http://localhost:2379"},
    {"--advertise-client-urls=https://b:1, http://a:1", "advertise_clients=http://a:1,https://b:1"},
    {"--advertise-client-urls=http://a:1,http://b:1|--advertise-client-urls=http://a:1",
     "advertise_clients=http://a:1,http://b:1"},
    {"--initial-advertise-peer-urls=http://h:1", "advertise_peers=http://h:1"},
    {"--listen-client-http-urls=http://127.0.0.1:1", "listen_http=http://127.0.0.1:1@127.0.0.1:1"},
    {"--listen-metrics-urls=http://127.0.0.1:1,unix://m:1/x",
     "listen_metrics=http://127.0.0.1:1@127.0.0.1:1,unix://m:1/x@m:1"},
    {"--quota-backend-bytes=-1", "quota=-1"},
    {"--cert-file=c|--key-file=k|--trusted-ca-file=a|--client-crl-file=r|--client-cert-auth",
     "client_tls=c,k,,,a,r auth=1 makes=0 skips=0"},
    {"--client-cert-file=c|--client-key-file=k", "client_tls=,,c,k,, auth=0 makes=0 skips=0"},
    {"--client-cert-allowed-hostname=b,a,b", "client_hosts=b,a,b"},
    {"--auto-tls|--client-cert-auth|--trusted-ca-file=a",
     "client_tls=,,,,, auth=0 makes=1 skips=0"},
    {"--auto-tls|--cert-file=c|--key-file=k", "client_tls=c,k,,,, auth=0 makes=0 skips=0"},
    {"--peer-skip-client-san-verification", "peer_tls=,,,,, auth=0 makes=0 skips=1"},
    {"--cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA,TLS_AES_128_GCM_SHA256",
     "suites=TLS_RSA_WITH_AES_128_CBC_SHA,TLS_AES_128_GCM_SHA256"},
    {"--tls-min-version=TLS1.3", "tls_min=2"},
    {"--cors=http://b:1,http://a:1", "cors=http://a:1,http://b:1"},
    {"--tls-min-version=", "tls_min=1"},
    {"--tls-max-version=TLS1.2", "tls_max=1"},
    {"--self-signed-cert-validity=3", "years=3"},
    {"--self-signed-cert-validity=0", "years=0"},
    {"--cert-file=c|--listen-client-urls=http://127.0.0.1:1|--advertise-client-urls=http://h:1",
     "listen_clients=http://127.0.0.1:1@127.0.0.1:1"},
    {"--cert-file=c|--key-file=k|--listen-client-urls=https://127.0.0.1:1,unixs:///s|"
     "--advertise-client-urls=https://h:1",
     "listen_clients=https://127.0.0.1:1@127.0.0.1:1,unixs:///s@/s"},
    {"--auto-tls|--listen-client-urls=https://127.0.0.1:1|--advertise-client-urls=https://h:1",
     "listen_clients=https://127.0.0.1:1@127.0.0.1:1"},
    {"--quota-backend-bytes=8589934592", "quota=8589934592"},
    {"--backend-batch-interval=50ms", "batch_ns=50000000"},
    {"--max-txn-ops=0", "txn_ops=0"},
    {"--max-request-bytes=10000000", "request_bytes=10000000"},
    {"--max-concurrent-streams=0b11", "streams=3"},
    {"--grpc-keepalive-min-time=1s", "min_time_ns=1000000000"},
    {"--grpc-keepalive-min-time=0", "min_time_ns=300000000000"},
    {"--grpc-keepalive-interval=1m30s", "interval_ns=90000000000"},
    {"--grpc-keepalive-interval=1ms", "interval_ns=1000000000"},
    {"--grpc-keepalive-interval=0", "interval_ns=7200000000000"},
    {"--grpc-keepalive-interval=1m|--grpc-keepalive-timeout=-1s", "interval_ns=7200000000000"},
    {"--grpc-keepalive-timeout=1s", "timeout_ns=1000000000"},
    {"--initial-cluster-token=t", "token=t"},
    {"--initial-cluster-state=existing", "joins=1"},
    {"--initial-cluster-state=existing|--initial-cluster-state=new", "joins=0"},
    {"--strict-reconfig-check=false", "strict=0"},
    {"--strict-reconfig-check=F|--strict-reconfig-check", "strict=1"},
    {"--pre-vote=0", "pre_vote=0"},
    {"--max-learners=3", "learners=3"},
    {"--max-learners=0", "learners=0"},
    {"--max-learners=1000", "learners=64"},
    {"--io-threads=0", "io_threads=0"},
    {"--io-threads=16", "io_threads=16"},
    {"--io-threads=-7", "io_threads=-1"},
    {"--log-level=debug", "log_level=debug"},
    {"--log-level=WARN", "log_level=warn"},
    {"--log-level=warning", "log_level=warn"},
    {"--log-level=", "log_level=info"},
    {"--log-level=panic", "log_level=fatal"},
    {"--log-format=console", "log_format=1"},
    {"--log-outputs=stdout,a.log,stdout", "log_outputs=a.log,stdout"},
    {"--log-outputs=default", "log_outputs=stderr"},
    {"--downgrade-check-time=2m", "downgrade_check_ms=120000"},
    {"--downgrade-check-time=0s", "downgrade_check_ms=0"},
    {"--downgrade-check-time=1us", "downgrade_check_ms=1"},
    {"--downgrade-check-time=-1s", "downgrade_check_ms=1"},
    {"--warning-apply-duration=1s", "warning_apply_ns=1000000000"},
    {"--warning-unary-request-duration=1us", "warning_unary_ns=1000"},
    {"--warning-unary-request-duration=0", "warning_unary_ns=300000000"},
    {"--metrics=extensive", "extensive=1"},
    {"--metrics=more", "extensive=0"}, /* as etcd takes any other word */
    {"--logger=zap", "log_format=0"},
    {"--watch-progress-notify-interval=5s", "notify_ns=5000000000"},
    {"--watch-progress-notify-interval=1ms", "notify_ns=100000000"},
    {"--watch-progress-notify-interval=-1s", "notify_ns=600000000000"},
    {"--feature-gates=AllBeta=false", "checkpoint=0"},
    {"--feature-gates=TxnModeWriteWithSharedBuffer=false", "checkpoint=0"},
    {"--feature-gates=LeaseCheckpoint=true", "checkpoint=1"},
    {"--feature-gates=LeaseCheckpoint=true", "checkpoint_persist=0"},
    {"--feature-gates=LeaseCheckpoint=t|--feature-gates=LeaseCheckpointPersist=1",
     "checkpoint_persist=1"},
    {"--feature-gates=AllAlpha=true,StopGRPCServiceOnDefrag=false,InitialCorruptCheck=false,"
     "CompactHashCheck=false,SetMemberLocalAddr=false,PriorityRequest=false",
     "checkpoint_persist=1"},
    {"--feature-gates=LeaseCheckpoint=true|--feature-gates=LeaseCheckpoint=false", "checkpoint=0"},
    {"--feature-gates=InitialCorruptCheck=true", "initial_check=1"},
    {"--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true", "compact_check=1"},
    {"--corrupt-check-time=10s", "corrupt_check_ns=10000000000"},
    {"--compact-hash-check-time=1s", "compact_check_ns=1000000000"},
    {"--compaction-batch-limit=7", "compaction=7 then 10000000 ns"},
    {"--compaction-sleep-interval=1s", "compaction=1000 then 1000000000 ns"},
    {"--compaction-batch-limit=7|--compaction-sleep-interval=1s",
     "compaction=7 then 1000000000 ns"},
    {"--auto-compaction-retention=2", "retention=7200000000000ns"},
    {"--auto-compaction-retention=+1", "retention=3600000000000ns"},
    {"--auto-compaction-retention=", "retention=0ns"},
    {"--auto-compaction-retention=-0", "retention=0ns"},
    {"--auto-compaction-retention=1m30s", "retention=90000000000ns"},
    {"--auto-compaction-retention=9000000000000", "retention=9223372036854775807ns"},
    {"--auto-compaction-mode=revision", "retention=0"},
    {"--auto-compaction-mode=revision|--auto-compaction-retention=1000", "retention=1000"},
    {"--auto-compaction-mode=revision|--auto-compaction-retention=1us", "retention=1000"},
    {"--initial-election-tick-advance=false", "tick_advance=0"},
    {"--socket-reuse-port|--socket-reuse-address", "reuse_port=1"},
    {"--bootstrap-defrag-threshold-megabytes=3", "defrag_bytes=3145728"},
    {"--log-outputs=x|--enable-log-rotation", "rotation=1 104857600 bytes 0 days 0 files utc"},
    {"--log-outputs=x,stderr|--enable-log-rotation|--log-rotation-config-json={\"maxsize\":2,"
     "\"maxage\":3,\"maxbackups\":4,\"localtime\":true}",
     "rotation=1 2097152 bytes 3 days 4 files local"},
    {"--log-outputs=x|--enable-log-rotation|--log-rotation-config-json={}",
     "rotation=1 104857600 bytes 0 days 0 files utc"},
    {"--log-rotation-config-json={", "rotation=0 0 bytes 0 days 0 files utc"},
    {"--unsafe-no-fsync", "no_fsync=1"},
    {"--unsafe-no-fsync|--", "no_fsync=1"},
};

static bool has_line(const char *text, const char *line)
{
    size_t len = strlen(line);

    for (const char *at = text; (at = strstr(at, line)) != NULL; at++) {
        if ((at == text || at[-1] == '\n') && at[len] == '\n')
            return true;
    }
    return false;
}

TEST(every_flag_has_its_effect)
{
    for (size_t i = 0; i < ARRAY_LEN(effects); i++) {
        struct line l;
        struct buf got = {0};
        if (parse(&l, effects[i].args, "") != CONFIG_OK)
            test_fail(__FILE__, __LINE__, "%s: %s", effects[i].args, buf_str(&l.why));
        describe(&l.config, &got);
        if (!has_line(buf_str(&got), effects[i].want))
            test_fail(__FILE__, __LINE__, "%s: no line %s in\n%s", effects[i].args, effects[i].want,
                      buf_str(&got));
        buf_free(&got);
        line_free(&l);
    }
}

/* ---- What is refused ---- */

const struct config_refusal config_refusals[] = {
    /* Etcd 3.7.1's own words. */
    {"--nope", "", CONFIG_BAD_FLAG, "flag provided but not defined: -nope"},
    {"-nope=1", "", CONFIG_BAD_FLAG, "flag provided but not defined: -nope"},
    {"--experimental-x|--help", "", CONFIG_BAD_FLAG,
     "flag provided but not defined: -experimental-x"},
    {"---x", "", CONFIG_BAD_FLAG, "bad flag syntax: ---x"},
    {"-=x", "", CONFIG_BAD_FLAG, "bad flag syntax: -=x"},
    {"--=x", "", CONFIG_BAD_FLAG, "bad flag syntax: --=x"},
    {"--name", "", CONFIG_BAD_FLAG, "flag needs an argument: -name"},
    {"--heartbeat-interval=x", "", CONFIG_BAD_FLAG,
     "invalid value \"x\" for flag -heartbeat-interval: parse error"},
    {"--heartbeat-interval=-1", "", CONFIG_BAD_FLAG,
     "invalid value \"-1\" for flag -heartbeat-interval: parse error"},
    {"--heartbeat-interval=", "", CONFIG_BAD_FLAG,
     "invalid value \"\" for flag -heartbeat-interval: parse error"},
    {"--heartbeat-interval=99999999999999999999", "", CONFIG_BAD_FLAG,
     "invalid value \"99999999999999999999\" for flag -heartbeat-interval: value out of range"},
    {"--heartbeat-interval=a\"b\x01\xc3\xa9\xff", "", CONFIG_BAD_FLAG,
     "invalid value \"a\\\"b\\x01\xc3\xa9\\xff\" for flag -heartbeat-interval: parse error"},
    {"--quota-backend-bytes=9223372036854775808", "", CONFIG_BAD_FLAG,
     "invalid value \"9223372036854775808\" for flag -quota-backend-bytes: value out of range"},
    {"--pre-vote=x", "", CONFIG_BAD_FLAG, "invalid boolean value \"x\" for -pre-vote: parse error"},
    {"--grpc-keepalive-timeout=5", "", CONFIG_BAD_FLAG,
     "invalid value \"5\" for flag -grpc-keepalive-timeout: parse error"},
    {"--io-threads=17", "", CONFIG_BAD, "--io-threads must be at most 16 (set to 17)"},
    {"--max-concurrent-streams=x", "", CONFIG_BAD_FLAG,
     "invalid value \"x\" for flag -max-concurrent-streams: "
     "strconv.ParseUint: parsing \"x\": invalid syntax"},
    {"--max-concurrent-streams=4294967296", "", CONFIG_BAD_FLAG,
     "invalid value \"4294967296\" for flag -max-concurrent-streams: "
     "strconv.ParseUint: parsing \"4294967296\": value out of range"},
    {"--initial-cluster-state=foo", "", CONFIG_BAD_FLAG,
     "invalid value \"foo\" for flag -initial-cluster-state: invalid value"},
    {"--listen-client-urls=foo", "", CONFIG_BAD_FLAG,
     "invalid value \"foo\" for flag -listen-client-urls: "
     "URL scheme must be http, https, unix, or unixs: foo"},
    {"--v2-deprecation=not-yet", "", CONFIG_BAD_FLAG,
     "invalid value \"not-yet\" for flag -v2-deprecation: invalid value \"not-yet\""},
    {"stray", "", CONFIG_BAD, "\"stray\" is not a valid flag"},
    {"-", "", CONFIG_BAD, "\"-\" is not a valid flag"},
    {"--|--name", "", CONFIG_BAD, "\"--name\" is not a valid flag"},
    {"--pre-vote|false", "", CONFIG_BAD, "\"false\" is not a valid flag"},
    {"--config|x", "", CONFIG_BAD, "\"x\" is not a valid flag"},
    {"--logger=capnslog", "", CONFIG_BAD, "--logger=capnslog is removed in v3.5"},
    {"--logger=x", "", CONFIG_BAD, "unknown logger option \"x\""},
    {"--log-format=x", "", CONFIG_BAD, "unknown log format: x, supported values json, console"},
    {"--log-outputs=default,stderr", "", CONFIG_BAD,
     "multi logoutput for \"default\" is not supported yet"},
    {"--log-outputs=", "", CONFIG_BAD, "open sink \"\": open : no such file or directory"},
    {"--listen-peer-urls=http://foo:1", "", CONFIG_BAD,
     "expected IP in URL for binding (http://foo:1)"},
    {"--listen-peer-urls=http://:1", "", CONFIG_BAD, "expected IP in URL for binding (http://:1)"},
    {"--listen-client-urls=http://foo:1", "", CONFIG_BAD,
     "expected IP in URL for binding (http://foo:1)"},
    {"--advertise-client-urls=http://:1", "", CONFIG_BAD,
     "--advertise-client-urls \"http://:1\" must be in the format \"host:port\", "
     "\"unix:/path/to/socket\" or \"unixs:/path/to/socket\" (unexpected empty host (http://:1))"},
    {"--initial-advertise-peer-urls=http://:1", "", CONFIG_BAD,
     "--initial-advertise-peer-urls \"http://:1\" must be \"host:port\" "
     "(unexpected empty host (http://:1))"},
    {"--heartbeat-interval=0", "", CONFIG_BAD, "--heartbeat-interval must be >0 (set to 0ms)"},
    {"--election-timeout=0", "", CONFIG_BAD, "--election-timeout must be >0 (set to 0ms)"},
    {"--heartbeat-interval=500", "", CONFIG_BAD,
     "--election-timeout[1000ms] should be at least as 5 times as --heartbeat-interval[500ms]"},
    {"--election-timeout=60000", "", CONFIG_BAD,
     "--election-timeout[60000ms] is too long, and should be set less than 50000ms"},
    {"--listen-client-urls=http://127.0.0.1:1", "", CONFIG_BAD,
     "--advertise-client-urls is required when --listen-client-urls is set explicitly"},
    {"--listen-client-urls=", "", CONFIG_BAD,
     "--advertise-client-urls is required when --listen-client-urls is set explicitly"},
    {"", "ETCD_HEARTBEAT_INTERVAL=x", CONFIG_BAD,
     "invalid value \"x\" for ETCD_HEARTBEAT_INTERVAL: parse error"},
    {"--listen-client-urls=https://127.0.0.1:1|--advertise-client-urls=https://h:1", "", CONFIG_BAD,
     "TLS key/cert (--cert-file, --key-file) must be provided for client url "
     "https://127.0.0.1:1 with HTTPS scheme"},

    {"--feature-gates=Foo=true", "", CONFIG_BAD_FLAG,
     "invalid value \"Foo=true\" for flag -feature-gates: unrecognized feature gate: Foo"},
    {"--feature-gates=AllAlpha", "", CONFIG_BAD_FLAG,
     "invalid value \"AllAlpha\" for flag -feature-gates: missing bool value for AllAlpha"},
    {"--feature-gates=AllAlpha=x", "", CONFIG_BAD_FLAG,
     "invalid value \"AllAlpha=x\" for flag -feature-gates: invalid value of AllAlpha=x, err: "
     "strconv.ParseBool: parsing \"x\": invalid syntax"},
    {"--feature-gates=LeaseCheckpointPersist=true", "", CONFIG_BAD,
     "enabling feature gate LeaseCheckpointPersist requires enabling feature gate "
     "LeaseCheckpoint"},
    {"--cors=", "", CONFIG_BAD_FLAG,
     "invalid value \"\" for flag -cors: URL scheme must be http, https, unix, or unixs: "},
    {"--discovery-fallback=", "", CONFIG_BAD_FLAG,
     "invalid value \"\" for flag -discovery-fallback: invalid value"},
    {"--discovery-fallback=proxy|--logger=x", "", CONFIG_BAD,
     "v2 proxy is deprecated, and --discovery-fallback can't be configured as \"proxy\""},
    {"--listen-metrics-urls=http://foo:1", "", CONFIG_BAD,
     "expected IP in URL for binding (http://foo:1)"},
    {"--discovery-endpoints=|--initial-cluster=a=http://a:1", "", CONFIG_BAD,
     "multiple discovery or bootstrap flags are set. Choose one of \"initial-cluster\", "
     "\"discovery-endpoints\" or \"discovery-srv\""},
    {"--discovery-endpoints=a", "", CONFIG_BAD,
     "both --discovery-token and --discovery-endpoints must be set"},
    {"--discovery-endpoints=a, |--discovery-token=x", "", CONFIG_BAD,
     "--discovery-endpoints must not contain empty endpoints"},
    {"--auto-compaction-mode=", "", CONFIG_BAD, "undefined auto-compaction-mode"},
    {"--auto-compaction-mode=x", "", CONFIG_BAD, "unknown auto-compaction-mode \"x\""},
    {"--compact-hash-check-time=0", "", CONFIG_BAD,
     "--compact-hash-check-time must be >0 (set to 0s)"},
    {"--tls-max-version=x", "", CONFIG_BAD,
     "unexpected TLS version \"x\" (must be one of: TLS1.2, TLS1.3)"},
    {"--tls-min-version=TLS1.3|--tls-max-version=TLS1.2", "", CONFIG_BAD,
     "min version (TLS1.3) is greater than max version (TLS1.2)"},
    {"--tls-min-version=TLS1.3|--cipher-suites=x", "", CONFIG_BAD,
     "cipher suites cannot be configured when only TLS1.3 is enabled"},
    {"--cipher-suites=", "", CONFIG_BAD, "unexpected TLS cipher suite \"\""},
    {"--cipher-suites=TLS_AES_128_GCM_SHA256,x", "", CONFIG_BAD,
     "unexpected TLS cipher suite \"x\""},
    {"--cert-file=c|--listen-client-urls=https://127.0.0.1:1|--advertise-client-urls=https://h:1",
     "", CONFIG_BAD, "KeyFile and CertFile must both be present[key: , cert: c]"},
    {"--cert-file=c|--key-file=k|--client-cert-file=d|--listen-client-urls=https://127.0.0.1:1|"
     "--advertise-client-urls=https://h:1",
     "", CONFIG_BAD,
     "ClientKeyFile and ClientCertFile must both be present or both absent: key: , cert: d]"},
    {"--listen-metrics-urls=https://127.0.0.1:1", "", CONFIG_BAD,
     "client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url"},
    {"--listen-client-http-urls=http://127.0.0.1:2379", "", CONFIG_BAD,
     "cannot bind both --listen-client-urls and --listen-client-http-urls on the same url "
     "http://127.0.0.1:2379"},
    {"--auto-tls|--self-signed-cert-validity=0", "", CONFIG_BAD,
     "selfSignedCertValidity is invalid,it should be greater than 0"},

    /* Etcd's words, in a place or a shape of our own. */
    {"--log-level=foo", "", CONFIG_BAD_FLAG, "unrecognized level: \"foo\""},
    {"--name=a", "ETCD_NAME=", CONFIG_BAD,
     "conflicting environment variable is shadowed by corresponding command-line flag (either "
     "unset environment variable or disable flag)): ETCD_NAME"},
    {"--listen-peer-urls=https://127.0.0.1:1", "", CONFIG_BAD,
     "cannot listen on TLS for 127.0.0.1:1: KeyFile and CertFile are not presented"},
    {"--auto-compaction-retention=abc", "", CONFIG_BAD,
     "error parsing CompactionRetention: time: invalid duration \"abc\""},
    {"--auto-compaction-mode=revision|--auto-compaction-retention=-5", "", CONFIG_BAD,
     "error parsing CompactionRetention: time: missing unit in duration \"-5\""},
    {"--auto-compaction-retention=5x", "", CONFIG_BAD,
     "error parsing CompactionRetention: time: unknown unit \"x\" in duration \"5x\""},
    {"--listen-peer-urls=http://127.0.0.1:65536", "", CONFIG_BAD,
     "listen tcp: address 65536: invalid port"},

    /* Our own. */
    {"--log-outputs=systemd/journal,stderr", "", CONFIG_BAD,
     "running with systemd/journal but other '--log-outputs' values ([\"stderr\" "
     "\"systemd/journal\"]) are configured with 'default'; override 'default' value with something "
     "else"},
    {"--max-request-bytes=536346625", "", CONFIG_BAD,
     "--max-request-bytes must be at most 536346624 (set to 536346625)"},
    {"--backend-batch-interval=-1s", "", CONFIG_BAD,
     "--backend-batch-interval must not be negative"},
    {"--listen-peer-urls=unix:///x", "", CONFIG_BAD, "listen unix : not the path of a socket"},
    {"--peer-cert-file=x", "", CONFIG_BAD,
     "KeyFile and CertFile must both be present[key: , cert: x]"},
    {"--auto-tls|--self-signed-cert-validity=293", "", CONFIG_BAD,
     "--self-signed-cert-validity must be at most 292 (set to 293)"},
    {"--feature-gates=AllAlpha=true|--feature-gates=StopGRPCServiceOnDefrag=false", "", CONFIG_BAD,
     "feature gate PriorityRequest is not supported yet"},
    {"--max-learners=-1", "", CONFIG_BAD, "membership: too many learner members in cluster"},
    {"", "ETCD_MAX_LEARNERS=-9", CONFIG_BAD, "membership: too many learner members in cluster"},
    {"--corrupt-check-time=-1s", "", CONFIG_BAD, "--corrupt-check-time must not be negative"},
    {"--feature-gates=LeaseCheckpoint=true,PriorityRequest=true", "", CONFIG_BAD,
     "feature gate PriorityRequest is not supported yet"},
    {"--raft-read-timeout=6s", "", CONFIG_BAD, "flag --raft-read-timeout is not supported yet"},
    {"--auto-compaction-retention=-1h", "", CONFIG_BAD,
     "--auto-compaction-retention must not be negative"},
    {"--enable-log-rotation", "", CONFIG_BAD,
     "--log-outputs requires a single file path when --log-rotate-config-json is defined"},
    {"--enable-log-rotation|--log-outputs=a,b", "", CONFIG_BAD,
     "--log-outputs requires a single file path when --log-rotate-config-json is defined"},
    {"--enable-log-rotation|--log-outputs=a|--log-rotation-config-json={\"maxsize\": true}", "",
     CONFIG_BAD,
     "invalid log rotation config: json: cannot unmarshal bool into Go struct field "
     "logRotationConfig.Logger.maxsize of type int"},
    {"--enable-log-rotation|--log-outputs=a|--log-rotation-config-json={\"compress\": true}", "",
     CONFIG_BAD, "--log-rotation-config-json: compress is not supported yet"},
    {"--auth-token=jwt", "", CONFIG_BAD,
     "auth: invalid auth options (auth: invalid auth signature method)"},
    {"--auth-token=jwt,sign-method=none", "", CONFIG_BAD,
     "auth: invalid auth options (auth: invalid auth signature method)"},
    {"--auth-token=jwt,sign-method=ES256,ttl=5", "", CONFIG_BAD,
     "auth: invalid auth options (ttl: parse error)"},
    {"--auth-token=jwt,sign-method", "", CONFIG_BAD, "auth: invalid auth options"},
    {"--auth-token=jwt,", "", CONFIG_BAD, "auth: invalid auth options"},
    {"--auth-token=jwt,sign-method=ES256=", "", CONFIG_BAD, "auth: invalid auth options"},
    {"--auth-token=jwt,sign-method=ES256,sign-method=ES256", "", CONFIG_BAD,
     "auth: invalid auth options"},
    {"--auth-token=simple,x", "", CONFIG_BAD, "auth: invalid auth options"},
    {"--auth-token=JWT", "", CONFIG_BAD, "auth: invalid auth options"},
    {"--memory-mlock", "", CONFIG_BAD, "flag --memory-mlock is not supported yet"},
    {"--name=M\xfcller", "", CONFIG_BAD, "--name is not valid UTF-8"},
    {"--compaction-batch-limit=-1", "", CONFIG_BAD,
     "--compaction-batch-limit must not be negative"},
    {"--compaction-sleep-interval=-1ms", "", CONFIG_BAD,
     "--compaction-sleep-interval must not be negative"},
    {"--enable-pprof", "", CONFIG_BAD,
     "flag --enable-pprof is not supported yet: there is no Go runtime to profile"},
    {"--enable-distributed-tracing", "", CONFIG_BAD,
     "flag --enable-distributed-tracing is not supported yet"},
    {"--discovery-srv=a", "", CONFIG_BAD,
     "flag --discovery-srv is not supported yet: name the members in --initial-cluster"},
    {"", "ETCD_CONFIG_FILE=x", CONFIG_BAD, "open x: no such file or directory"},
    {"--config-file=x|--heartbeat-interval=0", "", CONFIG_BAD, "open x: no such file or directory"},
};

const size_t config_refusal_count = ARRAY_LEN(config_refusals);

TEST(what_is_wrong_is_refused_in_etcds_words)
{
    for (size_t i = 0; i < config_refusal_count; i++) {
        const struct config_refusal *r = &config_refusals[i];
        struct line l;
        enum config_result got = parse(&l, r->args, r->env);
        if (got != r->want || strcmp(buf_str(&l.why), r->why) != 0)
            test_fail(__FILE__, __LINE__, "%s %s: %d %s, not %d %s", r->args, r->env, got,
                      buf_str(&l.why), r->want, r->why);
        line_free(&l);
    }
}

/* Scripts spell out defaults; that changes nothing and so there is nothing to refuse. */
static void check_changes_nothing(const char *args, const char *env, const char *usual)
{
    struct line l;
    struct buf got = {0};

    if (parse(&l, args, env) != CONFIG_OK)
        test_fail(__FILE__, __LINE__, "%s %s: %s", args, env, buf_str(&l.why));
    describe(&l.config, &got);
    if (strcmp(buf_str(&got), usual) != 0)
        test_fail(__FILE__, __LINE__, "%s %s gives\n%s", args, env, buf_str(&got));
    buf_free(&got);
    line_free(&l);
}

static void check_spelling(struct arena *arena, const char *name, struct bytes text,
                           const char *usual)
{
    const char *value = arena_copy_str(arena, text);
    bool has_no_word = strcmp(value, "true") == 0;
    const char *variable = arena_printf(arena, "ETCD_%s=%s", name, value);

    for (char *c = strchr(variable, '_'); *c != '='; c++)
        *c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
    /* The words of the test's command line have bars between them and need something in them. */
    check_changes_nothing(arena_printf(arena, "--%s=%s|--advertise-client-urls=", name, value), "",
                          usual);
    if (has_no_word)
        check_changes_nothing(arena_printf(arena, "-%s", name), "", usual);
    if (strncmp(name, "listen-client-u", 15) != 0)
        check_changes_nothing("", variable, usual);
}

TEST(every_flag_takes_its_default_in_every_spelling)
{
    struct arena arena = {0};
    struct buf usual = {0};
    struct line l;
    CHECK_EQ(parse(&l, "", ""), CONFIG_OK);
    describe(&l.config, &usual);

    for (size_t i = 0; i < spelled_flag_count; i++) {
        const struct spelled_flag *flag = &spelled_flags[i];
        for (const char *at = flag->spellings; at;) {
            size_t len = strcspn(at, "|");
            check_spelling(&arena, flag->name, bytes_of(at, len), buf_str(&usual));
            at = at[len] ? at + len + 1 : NULL;
        }
    }

    line_free(&l);
    buf_free(&usual);
    arena_free(&arena);
}

/* The table above has them all: 113 flags, and 15 that etcd takes and forgets. One is our own. */
TEST(no_flag_of_etcds_is_left_out)
{
    CHECK_EQ(spelled_flag_count, 113);
    CHECK_EQ(FLAG_COUNT, 113 + 15 + 1);
    for (size_t i = 0; i < spelled_flag_count; i++) {
        CHECK(flags_find(bytes_of_str(spelled_flags[i].name)) != FLAG_COUNT);
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(spelled_flags[i].name, spelled_flags[j].name) != 0);
    }
}

/* Config promise 4. */
TEST(a_refused_configuration_has_a_log)
{
    struct line l;

    CHECK_EQ(parse(&l, "stray", ""), CONFIG_BAD);
    CHECK_EQ(l.config.log_level, LOG_INFO);
    CHECK_EQ(l.config.log_format, LOG_JSON);
    CHECK_EQ(l.config.log_outputs.count, 1);
    CHECK(url_list_has(l.config.log_outputs, BYTES("stderr")));
    line_free(&l);

    CHECK_EQ(parse(&l, "--log-outputs=a.log|--log-level=warn|--enable-pprof", ""), CONFIG_BAD);
    CHECK_EQ(l.config.log_level, LOG_WARN);
    CHECK(url_list_has(l.config.log_outputs, BYTES("a.log")));
    line_free(&l);
}

/* ---- The environment, and what is noted ---- */

TEST(the_environment_counts_where_no_flag_does)
{
    struct line l;

    CHECK_EQ(parse(&l, "--name=m1",
                   "PATH=/bin|ETCD_DATA_DIR=/d|ETCD_HEARTBEAT_INTERVAL=|ETCD_VERIFY=all|"
                   "ETCD_VERSION=9|ETCD_PRE_VOTE=false|ETCDCTL_API=3|ETCD_UNSUPPORTED_ARCH"),
             CONFIG_OK);

    CHECK_STR(l.config.data_dir, "/d");
    CHECK(!l.config.pre_vote);
    CHECK_EQ(l.config.heartbeat_ms, 100);
    CHECK(has_note(&l.config, "recognized and used environment variable", "/d"));
    CHECK(has_note(&l.config, "recognized and used environment variable", "false"));
    CHECK(has_note(&l.config, "unrecognized environment variable", "ETCD_VERIFY=all"));
    CHECK(has_note(&l.config, "unrecognized environment variable", "ETCD_HEARTBEAT_INTERVAL="));
    CHECK(has_note(&l.config, "unrecognized environment variable", "ETCD_UNSUPPORTED_ARCH"));
    CHECK(has_note(&l.config, "cannot set special environment variable", "9"));
    CHECK(!has_note(&l.config, "unrecognized environment variable", "ETCDCTL_API=3"));
    CHECK(!has_note(&l.config, "unrecognized environment variable", "ETCD_DATA_DIR=/d"));
    CHECK(!has_note(&l.config, "'data-dir' was empty; using default", NULL));
    line_free(&l);
}

TEST(what_the_operator_should_know_is_noted)
{
    struct line l;

    CHECK_EQ(parse(&l,
                   "--max-snapshots=3|--v2-deprecation=gone|--vv|--listen-peer-urls="
                   "http://0.0.0.0:2380|--watch-progress-notify-interval=1ms|"
                   "--feature-gates=LeaseCheckpoint=true",
                   ""),
             CONFIG_OK);

    CHECK(has_note(&l.config,
                   "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8.",
                   NULL));
    CHECK(has_note(&l.config,
                   "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default "
                   "value is enforced, ignoring user input.",
                   NULL));
    CHECK(has_note(&l.config, "flag is no longer supported - ignoring", "vv"));
    CHECK(
        has_note(&l.config, "adjusting watch progress notify interval to minimum period", "100ms"));
    CHECK(has_note(&l.config, "failed to detect default host", NULL));
    CHECK(has_note(&l.config,
                   "Detected that checkpointing is enabled without persistence. Consider enabling "
                   "feature gate LeaseCheckpointPersist",
                   NULL));
    CHECK(has_note(&l.config,
                   "it isn't recommended to use default name, please set a value for --name. Note "
                   "that etcd might run into issue when multiple members have the same default "
                   "name",
                   "default"));
    line_free(&l);

    CHECK_EQ(parse(&l, "--name=m1", ""), CONFIG_OK);
    CHECK_EQ(l.config.note_count, 2); /* the single port, the data directory */
    line_free(&l);
}

TEST(certificates_that_are_not_used_are_noted)
{
    struct line l;

    CHECK_EQ(parse(&l, "--cert-file=c|--key-file=k|--client-cert-auth|--auto-tls", ""), CONFIG_OK);

    CHECK(has_note(&l.config, "ignoring client auto TLS since certs given", NULL));
    CHECK(has_note(&l.config,
                   "scheme is http or unix while key and cert files are present; ignoring key and "
                   "cert files",
                   "http://localhost:2379"));
    CHECK(has_note(&l.config,
                   "scheme is http or unix while --client-cert-auth is enabled; ignoring client "
                   "cert auth for this URL",
                   "http://localhost:2379"));
    line_free(&l);
}

TEST(options_of_tokens_are_read)
{
    struct line l;

    CHECK_EQ(parse(&l, "--auth-token=jwt,pub-key=a b,sign-method=PS512,x=,ttl=1h30m,y=z", ""),
             CONFIG_OK);
    CHECK_EQ(l.config.token.kind, TOKEN_JWT);
    CHECK_EQ(l.config.token.jwt_method, JWT_PS512);
    CHECK_STR(l.config.token.jwt_public_key_file, "a b");
    CHECK_STR(l.config.token.jwt_private_key_file, "");
    CHECK_EQ(l.config.token.jwt_ttl_s, 5400);
    CHECK(has_note(&l.config, "unknown JWT options", "x,y"));
    line_free(&l);

    CHECK_EQ(parse(&l, "--auth-token=jwt,priv-key=k,sign-method=HS256,ttl=", ""), CONFIG_OK);
    CHECK_STR(l.config.token.jwt_private_key_file, "k");
    CHECK_EQ(l.config.token.jwt_ttl_s, 300);
    line_free(&l);

    CHECK_EQ(parse(&l, "--auth-token=jwt,sign-method=HS256,ttl=-1500ms", ""), CONFIG_OK);
    CHECK_EQ(l.config.token.jwt_ttl_s, -2);
    line_free(&l);

    CHECK_EQ(parse(&l, "--auth-token=simple,x=1|--auth-token-ttl=7", ""), CONFIG_OK);
    CHECK_EQ(l.config.token.kind, TOKEN_SIMPLE);
    CHECK_EQ(l.config.token.simple_ttl_ms, 7000);
    line_free(&l);

    CHECK_EQ(parse(&l, "--auth-token=", ""), CONFIG_OK);
    CHECK_EQ(l.config.token.kind, TOKEN_NONE);
    line_free(&l);
}

/* Whoever reads the log of a failed start wants the notes that came before. */
TEST(notes_are_kept_when_it_is_refused)
{
    struct line l;

    CHECK_EQ(parse(&l, "--heartbeat-interval=0", "ETCD_NAME=m1"), CONFIG_BAD);

    CHECK(has_note(&l.config, "recognized and used environment variable", "m1"));
    line_free(&l);
}

/* ---- Texts ---- */

TEST(help_and_version_are_asked_for)
{
    static const struct {
        const char *args;
        enum config_result want;
    } cases[] = {{"-h", CONFIG_HELP},
                 {"--help", CONFIG_HELP},
                 {"-help=1", CONFIG_HELP},
                 {"--name=a|-h|--nope", CONFIG_HELP},
                 {"--version", CONFIG_VERSION},
                 {"-version", CONFIG_VERSION},
                 {"--version|--heartbeat-interval=0|--cert-file=x", CONFIG_VERSION},
                 {"--version=false", CONFIG_OK},
                 {"--version|--nope", CONFIG_BAD_FLAG}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct line l;
        CHECK_EQ(parse(&l, cases[i].args, ""), cases[i].want);
        line_free(&l);
    }
}

/* The test harness of etcd looks for this line. */
TEST(the_version_is_etcds)
{
    struct buf out = {0};

    config_version(&out);

    CHECK(bytes_starts_with(buf_bytes(&out), BYTES("etcd Version: 3.7.1\nGit SHA: ")));
    CHECK(strstr(buf_str(&out), "\nGo Version: ") && strstr(buf_str(&out), "\nGo OS/Arch: linux/"));
    buf_free(&out);
}

/* Config promise 3: every flag the help names can be set to its default, and none of the others is
 * in there. */
TEST(the_help_tells_of_what_works)
{
    struct buf help = {0};
    struct arena arena = {0};
    int flags = 0;

    config_help(&help);
    char *text = arena_copy_str(&arena, buf_bytes(&help)), *next;
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        char name[64], initial[64] = "";
        struct line l;
        if (sscanf(line, "  --%63[a-z0-9-] '%63[^']'", name, initial) < 1)
            continue;
        flags++;
        if (strcmp(name, "cipher-suites") == 0)
            continue; /* a list without a name in it is one without a suite */
        const char *arg = arena_printf(&arena, "--%s=%s|--advertise-client-urls=", name, initial);
        if (parse(&l, arg, "") != CONFIG_OK)
            test_fail(__FILE__, __LINE__, "%s: %s", arg, buf_str(&l.why));
        line_free(&l);
    }

    CHECK_EQ(flags, FLAG_WORKING_COUNT);
    CHECK(strstr(buf_str(&help), "--data-dir") && strstr(buf_str(&help), "--unsafe-no-fsync"));
    CHECK(!strstr(buf_str(&help), "--enable-pprof") && !strstr(buf_str(&help), "--vv"));
    buf_free(&help);
    arena_free(&arena);
}

static unsigned count_of(const char *text, const char *what)
{
    unsigned count = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        count++;
    return count;
}

TEST(the_help_has_each_heading_once)
{
    static const char *const headings[] = {"\nMember:\n",  "\nClustering:\n", "\nSecurity:\n",
                                           "\nLogging:\n", "\nTuning:\n",     "\nUnsafe:\n"};
    struct buf help = {0};

    config_help(&help);

    for (size_t i = 0; i < ARRAY_LEN(headings); i++)
        CHECK_EQ(count_of(buf_str(&help), headings[i]), 1);
    CHECK_EQ(count_of(buf_str(&help), ":\n  --"), ARRAY_LEN(headings));
    buf_free(&help);
}
