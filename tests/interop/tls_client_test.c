/* Clients by TLS: real ones, at our server and at etcd, who must be told the same. */
#include "base/limits.h"
#include "harness/certs_test.h"
#include "harness/line_diff.h"
#include "harness/peer_test.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/tls.h"
#include "pb/etcd_messages.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* In this test's own folder; good until the next one. */
static const char *in_tmp(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s", test_tmp_dir(), name);
    return path;
}

static void make_certs(void)
{
    certs_make("ca", &(struct cert){.cn = "a CA", .is_ca = true});
    certs_make("other", &(struct cert){.cn = "another CA", .is_ca = true});
    certs_make("server", &(struct cert){.signer = "ca", .sans = "IP:127.0.0.1,DNS:localhost"});
    certs_make("alice", &(struct cert){.signer = "ca", .cn = "alice", .sans = "DNS:a.example"});
    certs_make("stranger", &(struct cert){.signer = "other", .cn = "mallory"});
    certs_make("expired", &(struct cert){.signer = "ca", .cn = "old", .is_expired = true});
    certs_make("revoked", &(struct cert){.signer = "ca", .cn = "lost", .serial = 7});
    certs_make_crl("list", "ca", 7);
}

static void use_https(struct peer *p)
{
    p->client_url = arena_printf(&p->arena, "https%s", strchr(p->client_url, ':'));
}

static const char *mutual_flags(struct peer *p)
{
    return arena_printf(&p->arena,
                        "--cert-file %s --key-file %s --trusted-ca-file %s "
                        "--client-cert-auth",
                        certs_file("server"), certs_key("server"), certs_file("ca"));
}

static void start(struct peer *p, const char *flags)
{
    unsigned before = p->pid == 0 && access(p->dir, F_OK) == 0
                          ? peer_said(p, "ready to serve client requests")
                          : 0;

    peer_launch(p, flags);
    peer_await_said(p, "ready to serve client requests", before + 1);
}

/* What curl prints of it, with alice's certificate unless the flags have another. */
static const char *curl_as(struct peer *p, const char *who, const char *flags, const char *path)
{
    return peer_run(&p->arena,
                    "curl -sS --max-time 10 --cacert %s --cert %s --key %s %s %s%s 2>&1 || true",
                    certs_file("ca"), certs_file(who), certs_key(who), flags, p->client_url, path);
}

static const char *ctl_as(struct peer *p, const char *who, const char *words)
{
    return PEER_CTL(p, "--cacert %s --cert %s --key %s %s", certs_file("ca"), certs_file(who),
                    certs_key(who), words);
}

TEST(clients_with_certificates_are_served)
{
    struct peer p;
    peer_need();
    make_certs();
    peer_open_ours(&p, in_tmp("data"));
    use_https(&p);
    const char *https = p.client_url;
    const char *socket = arena_printf(&p.arena, "%s", in_tmp("socket"));
    p.client_url = arena_printf(&p.arena, "%s,unixs://%s", https, socket);
    start(&p, mutual_flags(&p));
    p.client_url = https;

    CHECK_STR(ctl_as(&p, "alice", "put k v"), "OK");
    CHECK_STR(ctl_as(&p, "alice", "get k --print-value-only"), "v");
    const char *version =
        "{\"etcdserver\":\"3.7.1\",\"etcdcluster\":\"3.7.0\",\"storage\":\"3.7.0\"}";
    CHECK_STR(curl_as(&p, "alice", "--http1.1", "/version"), version);
    CHECK_STR(curl_as(&p, "alice", "--no-alpn", "/version"), version);
    CHECK_STR(curl_as(&p, "alice", "--tls-max 1.2 --http1.1", "/version"), version);
    CHECK_STR(curl_as(&p, "alice", arena_printf(&p.arena, "--http1.1 --unix-socket %s", socket),
                      "/version"),
              version);
    CHECK_STR(curl_as(&p, "alice", "--http2", "/version"), version);
    CHECK_STR(curl_as(&p, "alice", "--http2 -o /dev/null -w '%{http_version} %{http_code}'",
                      "/nowhere?x"),
              "2 404");
    CHECK_EQ(peer_said(&p, "starting with client TLS"), 1);
    CHECK_EQ(peer_said(&p, "serving client traffic securely"), 2);
    peer_stop(&p);
    peer_close(&p);
}

/* --- who is not let in --- */

static void check_stranger(struct peer *p, const char *line, const char *error, unsigned count)
{
    peer_run(&p->arena, "(%s) </dev/null >/dev/null 2>&1 || true", line);
    peer_await_said(p, error, 1);
    peer_await_said(p, "rejected connection on client endpoint", count);
    CHECK_STR(ctl_as(p, "alice", "get k --print-value-only"), "v"); /* others are unaffected */
}

static void check_strangers(struct peer *p)
{
    const char *port = strrchr(p->client_url, ':') + 1;
    const char *s_client =
        arena_printf(&p->arena, "timeout 10 openssl s_client -connect 127.0.0.1:%s", port);
    struct arena *arena = &p->arena;

    use_https(p);
    start(p, arena_printf(arena,
                          "%s --client-crl-file %s --client-cert-allowed-hostname "
                          "b.example,a.example",
                          mutual_flags(p), certs_crl("list")));
    CHECK_STR(ctl_as(p, "alice", "put k v"), "OK");
    unsigned before = peer_said(p, "rejected connection on client endpoint");

    check_stranger(
        p, arena_printf(arena, "curl -s --cacert %s %s/version", certs_file("ca"), p->client_url),
        "tls: client didn't provide a certificate", before + 1);
    check_stranger(p,
                   arena_printf(arena, "curl -s -k --cert %s --key %s %s/version",
                                certs_file("stranger"), certs_key("stranger"), p->client_url),
                   "certificate signed by unknown authority", before + 2);
    check_stranger(p,
                   arena_printf(arena, "curl -s -k --cert %s --key %s %s/version",
                                certs_file("expired"), certs_key("expired"), p->client_url),
                   "certificate has expired or is not yet valid", before + 3);
    check_stranger(p, arena_printf(arena, "%s -tls1_1 -cipher DEFAULT@SECLEVEL=0", s_client),
                   "tls: client offered only unsupported versions", before + 4);
    check_stranger(p, arena_printf(arena, "curl -s http://127.0.0.1:%s/version", port),
                   "tls: first record does not look like a TLS handshake", before + 5);
    check_stranger(
        p,
        arena_printf(arena, "curl -s --tls-max 1.2 --cacert %s --cert %s --key %s %s/version",
                     certs_file("other"), certs_file("alice"), certs_key("alice"), p->client_url),
        "remote error: tls: unknown certificate authority", before + 6);
    check_stranger(p,
                   arena_printf(arena, "curl -s -k --cert %s --key %s %s/version",
                                certs_file("revoked"), certs_key("revoked"), p->client_url),
                   "client certificate authentication failed", before + 7);
    peer_stop(p);
}

TEST(who_is_not_let_in_by_us_is_told_as_by_etcd)
{
    struct peer ours, etcd;
    peer_need();
    make_certs();
    peer_open_ours(&ours, in_tmp("ours"));
    check_strangers(&ours);
    peer_close(&ours);

    peer_open(&etcd, in_tmp("etcd"));
    check_strangers(&etcd);
    peer_close(&etcd);
}

/* --- names in certificates, and the gateway --- */

#define UPGRADE                                                                                    \
    "-N -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' "          \
    "-H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='"

static const struct {
    const char *path, *flags;
} asked[] = {
    {"/v3/kv/range", "-d '{\"key\":\"aw==\"}'"},
    {"/v3beta/kv/range", "-d '{\"key\":\"aw==\"}'"},
    /* No body: etcd responds before it has come, and over HTTP/2 curl may take that for an error. */
    {"//v3/kv/range", "-X POST"},
    {"/v3/nowhere", "-X POST"},
    {"/v3/watch", UPGRADE},
    {"/version", ""},
    {"/%76ersion", ""},
    {"//version?a=b", ""},
};

static void ask_gateway(struct peer *p, const char *who, bool has_users, struct buf *out)
{
    for (size_t i = 0; i < 2 * ARRAY_LEN(asked); i++) {
        const char *version = i % 2 ? "--http2" : "--http1.1", *flags = asked[i / 2].flags;
        const char *path = asked[i / 2].path;
        if (strstr(flags, "websocket") && (!has_users || i % 2))
            continue; /* it would be opened, and stay; and HTTP/2 has none */
        flags =
            arena_printf(&p->arena, "%s -w ' %%{http_code} %%{content_type}' %s", version, flags);
        buf_printf(out, "%s %s as %s: %s\n", version, path, who, curl_as(p, who, flags, path));
    }
}

/* What it prints to one whose certificate has a name, and to one whose has none. */
static const char *gateway_transcript(struct peer *p)
{
    struct buf out = {0};
    const char *text = arena_printf(&p->arena, "%s.answers", p->dir);
    use_https(p);
    start(p, arena_printf(&p->arena, "%s --bcrypt-cost 4", mutual_flags(p)));
    ctl_as(p, "alice", "user add root:pw");
    ctl_as(p, "alice", "user grant-role root root");

    ask_gateway(p, "alice", false, &out);
    ctl_as(p, "alice", "auth enable");
    ask_gateway(p, "alice", true, &out);
    ask_gateway(p, "nameless", false, &out);
    ctl_as(p, "alice", "--user root:pw auth disable");
    ask_gateway(p, "alice", false, &out);

    peer_stop(p);
    FILE *f = fopen(text, "we");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(out.at, 1, out.len, f), out.len);
    CHECK_EQ(fclose(f), 0);
    buf_free(&out);
    return peer_run(&p->arena,
                    "sed -E 's/\"(cluster_id|member_id|raft_term)\": *\"[0-9]+\"/\"\\1\":*/g; "
                    "s/, \"/,\"/g; s/: \"/:\"/g' %s",
                    text);
}

/* The gateway never takes a certificate's name for a user's. Whoever has one is told so, by
 * whatever path below /v3/ he comes, while there are users. */
TEST(the_gateway_refuses_named_certificates_while_there_are_users)
{
    struct peer ours, etcd;
    struct buf diff = {0};
    peer_need();
    make_certs();
    certs_make("nameless", &(struct cert){.signer = "ca", .sans = "DNS:a.example"});
    peer_open_ours(&ours, in_tmp("ours"));
    peer_open(&etcd, in_tmp("etcd"));

    const char *want = gateway_transcript(&etcd);
    const char *got = gateway_transcript(&ours);

    line_diff(&diff, bytes_of_str(want), bytes_of_str(got));
    if (diff.len > 0)
        test_fail(__FILE__, __LINE__, "not as by etcd:\n%s", buf_str(&diff));
    CHECK(strstr(got, "CommonName of client sending a request against gateway will be ignored"));
    buf_free(&diff);
    peer_close(&ours);
    peer_close(&etcd);
}

/* --- files that are not as they should be --- */

static void check_refused(const char *flags, const char *why)
{
    struct peer p;
    int status;
    peer_open_ours(&p, in_tmp("refused"));
    use_https(&p);

    peer_launch(&p, flags);
    CHECK_EQ(waitpid(p.pid, &status, 0), p.pid);
    p.pid = 0;

    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    if (peer_said(&p, why) != 1)
        test_fail(__FILE__, __LINE__, "not \"%s\" but:\n%s", why,
                  peer_run(&p.arena, "tail -n 3 %s.log", p.dir));
    CHECK(access(p.dir, F_OK) != 0); /* nothing was written */
    peer_run(&p.arena, "rm %s.log", p.dir);
    peer_close(&p);
}

TEST(unusable_certificates_are_refused_at_the_start)
{
    struct arena arena = {0};
    make_certs();
    const char *cert = certs_file("server"), *key = certs_key("server");
    const char *missing = arena_printf(&arena, "%s", in_tmp("missing"));

    check_refused(arena_printf(&arena, "--cert-file %s --key-file %s", cert, missing),
                  "missing: no such file or directory");
    check_refused(arena_printf(&arena, "--cert-file %s --key-file %s", cert, certs_key("alice")),
                  "tls: private key does not match public key");
    check_refused(arena_printf(&arena, "--cert-file %s --key-file %s", key, key),
                  "tls: failed to find any PEM data in certificate input");
    check_refused(
        arena_printf(&arena, "--cert-file %s --key-file %s --trusted-ca-file %s", cert, key, key),
        "could not load CA certificates");
    check_refused(arena_printf(&arena, "--cert-file %s", cert),
                  "KeyFile and CertFile must both be present[key: , cert: ");
    arena_free(&arena);
}

static void replace_pair(struct peer *p, const char *from)
{
    peer_run(&p->arena, "cp %s %s.new && mv %s.new %s", certs_key(from), certs_key("live"),
             certs_key("live"), certs_key("live"));
    peer_run(&p->arena, "cp %s %s.new && mv %s.new %s", certs_file(from), certs_file("live"),
             certs_file("live"), certs_file("live"));
}

static const char *serial_shown(struct peer *p)
{
    return peer_run(
        &p->arena,
        "openssl s_client -connect 127.0.0.1%s -cert %s -key %s </dev/null 2>/dev/null | "
        "openssl x509 -noout -serial 2>&1 || true",
        strrchr(p->client_url, ':'), certs_file("alice"), certs_key("alice"));
}

/* Connections come, put something and go, all the time. */
struct load {
    struct caller caller;
    struct tls *tls;
    struct line *lines[8];
    struct ask asks[8];
    unsigned puts, failed;
};

static void load_open(struct load *l, const struct peer *p)
{
    struct buf why = {0};

    *l = (struct load){0};
    caller_open(&l->caller, p);
    CHECK(tls_open(&(struct tls_options){.io = l->caller.io,
                                         .cert_file = certs_file("alice"),
                                         .key_file = certs_key("alice"),
                                         .trusted_ca_file = certs_file("ca")},
                   &why, &l->tls));
    l->caller.net = tls_net(l->tls);
    for (size_t i = 0; i < ARRAY_LEN(l->lines); i++)
        l->asks[i].line = l->lines[i] = caller_connect(&l->caller);
}

static void load_some(struct load *l, size_t nth)
{
    struct pb_put_request put = {.key = BYTES("k"), .value = BYTES("v")};
    struct ask *a = &l->asks[nth];

    if (a->call)
        return;
    l->failed += a->began_ns > 0 && a->code != RPC_OK;
    l->puts += a->began_ns > 0;
    if (l->puts % 3 == 0)
        line_reconnect(l->lines[nth], &l->caller.address);
    ask_start(a, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
}

static void load_until(struct load *l, unsigned puts)
{
    while (l->puts < puts) {
        for (size_t i = 0; i < ARRAY_LEN(l->lines); i++)
            load_some(l, i);
        caller_turn(&l->caller, 100);
    }
}

static void load_close(struct load *l)
{
    for (size_t i = 0; i < ARRAY_LEN(l->lines); i++) {
        ask_wait(&l->asks[i]);
        ask_free(&l->asks[i]);
        line_close(l->lines[i]);
    }
    while (!tls_is_idle(l->tls))
        caller_turn(&l->caller, 10);
    tls_close(l->tls);
    caller_close(&l->caller);
}

/* The certificate is renewed for the same key: of two files, no handshake could find one replaced
 * and not the other. */
TEST(certificates_are_replaced_under_load_without_a_failed_request)
{
    struct peer p;
    struct load load;
    make_certs();
    certs_make(
        "next",
        &(struct cert){.signer = "ca", .sans = "IP:127.0.0.1", .serial = 9, .key_of = "server"});
    peer_open_ours(&p, in_tmp("data"));
    use_https(&p);
    replace_pair(&p, "server");
    start(&p, arena_printf(&p.arena, "--cert-file %s --key-file %s --trusted-ca-file %s",
                           certs_file("live"), certs_key("live"), certs_file("ca")));
    load_open(&load, &p);
    load_until(&load, 100);
    CHECK_STR(serial_shown(&p), "serial=01");

    for (unsigned i = 1; i <= 10; i++) {
        replace_pair(&p, i % 2 == 1 ? "next" : "server");
        load_until(&load, 100 + 20 * i);
    }
    replace_pair(&p, "next");

    CHECK_STR(serial_shown(&p), "serial=09");
    load_close(&load);
    CHECK_EQ(load.failed, 0);
    CHECK_EQ(peer_said(&p, "rejected"), 0);
    peer_stop(&p);
    peer_close(&p);
}

/* A handshake that finds the files unusable fails alone, and says so. */
TEST(certificates_may_be_unusable_for_a_while)
{
    struct peer p;
    struct load load;
    make_certs();
    peer_open_ours(&p, in_tmp("data"));
    use_https(&p);
    replace_pair(&p, "server");
    start(&p, arena_printf(&p.arena, "--cert-file %s --key-file %s --trusted-ca-file %s",
                           certs_file("live"), certs_key("live"), certs_file("ca")));
    load_open(&load, &p);
    load_until(&load, 10);
    struct line *before = caller_connect(&load.caller);
    caller_put(before, BYTES("k"), BYTES("v"));

    peer_run(&p.arena, "rm %s", certs_key("live"));
    serial_shown(&p);
    peer_await_said(&p, "failed to find peer cert files", 1);
    peer_run(&p.arena, "cp %s %s", certs_key("alice"), certs_key("live"));
    serial_shown(&p);
    peer_await_said(&p, "failed to create peer certificate", 1);
    peer_await_said(&p, "tls: private key does not match public key", 2);
    caller_put(before, BYTES("k"), BYTES("v")); /* who was there before is unaffected */
    replace_pair(&p, "server");

    CHECK_STR(serial_shown(&p), "serial=01");
    line_close(before);
    load_close(&load);
    peer_stop(&p);
    peer_close(&p);
}

/* --- handshakes that are never finished --- */

enum { HALVES_MAX = 10000, HALVES = 250 };

/* The first one says nothing, the next one a byte; others the head of a ClientHello, or half of it,
 * and another byte now and then. */
static void begin_half(int fd, unsigned nth)
{
    static const uint8_t half[200] = {22, 3, 1, 1, 144, 1, 0, 1, 140, 3, 3};
    static const size_t sizes[] = {0, 1, 5, sizeof(half)};
    size_t size = sizes[nth % ARRAY_LEN(sizes)];

    CHECK(size == 0 || write(fd, half, size) == (ssize_t)size);
}

/* Has the server ended it? If not, one byte more, of those who send some. */
static bool is_over(int fd, unsigned nth, bool sends)
{
    uint8_t got[64]; /* an alert, perhaps */
    ssize_t count = recv(fd, got, sizeof(got), MSG_DONTWAIT);

    if (count == 0 || (count < 0 && errno != EAGAIN))
        return true;
    if (sends && nth % 4 > 1)
        (void)send(fd, "\0", 1, MSG_NOSIGNAL); /* an error is seen by the next recv */
    return false;
}

/* TEST_EFFORT=40 for the whole ten thousand. Somebody else's connections come, put and go all the
 * time; and each of the halves ends by itself, or because others need its place. */
TEST(half_handshakes_end_and_nobody_else_is_affected)
{
    static int fds[HALVES_MAX];
    uint64_t wanted = HALVES * test_effort();
    unsigned count = wanted < HALVES_MAX ? (unsigned)wanted : HALVES_MAX, left = count;
    struct peer p;
    struct load load;
    size_t most = 0;

    peer_allow_files(count + 500);
    make_certs();
    peer_open_ours(&p, in_tmp("data"));
    use_https(&p);
    start(&p, arena_printf(&p.arena, "--cert-file %s --key-file %s --trusted-ca-file %s",
                           certs_file("server"), certs_key("server"), certs_file("ca")));
    load_open(&load, &p);
    load_until(&load, 50);
    size_t memory = peer_memory_bytes(&p);

    for (unsigned i = 0; i < count; i++) {
        begin_half(fds[i] = peer_connect(&p), i);
        if (i % 50 == 0)
            load_until(&load, load.puts + 1); /* who is not quick now is a half one himself */
    }
    for (unsigned rounds = 1; left > 0; rounds++) {
        struct pollfd first = {.fd = fds[0], .events = POLLIN}; /* the rest has time, too */
        (void)poll(&first, 1, left == count ? 100 : 0);
        load_until(&load, load.puts + 20);
        size_t now = peer_memory_bytes(&p);
        most = now > most ? now : most;
        for (unsigned i = 0; i < count; i++) {
            if (fds[i] < 0 || !is_over(fds[i], i, rounds % 20 == 0))
                continue;
            close(fds[i]);
            fds[i] = -1;
            left--;
        }
    }
    load_close(&load);
    peer_stop(&p); /* now it has said all */

    CHECK_EQ(load.failed, 0);
    unsigned told = peer_said(&p, "\"error\":\"i/o timeout\"") +
                    peer_said(&p, "tls: too many handshakes are under way");
    CHECK(told >= LOG_SAMPLE_EACH); /* not of all, if many end in the same second */
    CHECK(told <= count);
    CHECK(count > TLS_HANDSHAKES_MAX ||
          peer_said(&p, "tls: too many handshakes are under way") == 0);
    if (most > memory + (size_t)count * 5 * KIB + 8 * MIB && peer_memory_counts())
        test_fail(__FILE__, __LINE__, "%zu KiB, and %zu before", most / KIB, memory / KIB);
    peer_close(&p);
}

/* --- certificates of our own --- */

TEST(a_server_makes_its_own_certificate_once)
{
    struct peer p;
    peer_open_ours(&p, in_tmp("data"));
    use_https(&p);
    start(&p, "--auto-tls --self-signed-cert-validity 2");
    CHECK_STR(peer_run(&p.arena, "stat -c %%a %s/fixtures/client/key.pem", p.dir), "600");
    const char *text = peer_run(&p.arena,
                                "openssl x509 -noout -text -ext subjectAltName,keyUsage -subject "
                                "-in %s/fixtures/client/cert.pem",
                                p.dir);
    CHECK(strstr(text, "O = etcd") && strstr(text, "IP Address:127.0.0.1"));
    CHECK(strstr(text, "ecdsa-with-SHA512") && strstr(text, "P-521"));
    peer_run(&p.arena, "openssl x509 -noout -checkend 62000000 -in %s/fixtures/client/cert.pem",
             p.dir);
    CHECK_EQ(peer_said(&p, "automatically generate certificates"), 1);
    const char *line = arena_printf(&p.arena,
                                    "curl -sS --http1.1 --cacert %s/fixtures/client/cert.pem "
                                    "%s/health",
                                    p.dir, p.client_url);
    CHECK_STR(peer_run(&p.arena, "%s", line), "{\"health\":\"true\",\"reason\":\"\"}");
    const char *before = peer_run(&p.arena, "cksum %s/fixtures/client/*", p.dir);
    peer_stop(&p);

    start(&p, "--auto-tls");

    CHECK_STR(peer_run(&p.arena, "%s", line), "{\"health\":\"true\",\"reason\":\"\"}");
    CHECK_STR(peer_run(&p.arena, "cksum %s/fixtures/client/*", p.dir), before);
    CHECK_EQ(peer_said(&p, "automatically generate certificates"), 1);
    peer_stop(&p);
    peer_close(&p);
}
