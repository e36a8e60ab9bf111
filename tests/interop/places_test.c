/* Places for HTTP alone, for gRPC alone, and for probes; by real clients. */
#include "harness/certs_test.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct place_rig {
    struct peer p, other; /* the other one only lends its ports */
    const char *http, *metrics;
};

static const char *in_tmp(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s", test_tmp_dir(), name);
    return path;
}

static void rig_open(struct place_rig *r)
{
    peer_need();
    peer_open_ours(&r->p, in_tmp("data"));
    peer_open_ours(&r->other, in_tmp("other"));
    r->http = r->other.client_url;
    r->metrics = r->other.peer_url;
}

static void rig_close(struct place_rig *r)
{
    peer_stop(&r->p);
    peer_close(&r->p);
    peer_close(&r->other);
}

/* The status and the body, or curl's own code if there is none. */
static const char *get(struct place_rig *r, const char *url, const char *path)
{
    return peer_run(&r->p.arena,
                    "curl -k -s --max-time 10 -w ' %%{http_code}' %s%s || echo \"curl: $?\"", url,
                    path);
}

#define HEALTHY "{\"health\":\"true\",\"reason\":\"\"} 200"

TEST(places_for_http_alone_leave_grpc_to_the_others)
{
    struct place_rig r;
    rig_open(&r);
    peer_start(&r.p, arena_printf(&r.p.arena, "--listen-client-http-urls %s", r.http));

    CHECK_STR(PEER_CTL(&r.p, "put k v"), "OK");
    CHECK_STR(get(&r, r.http, "/health"), HEALTHY);
    CHECK(strstr(get(&r, r.p.client_url, "/health"), "curl: ") != NULL);
    CHECK_STR(
        peer_run(&r.p.arena,
                 "$PEERS/etcdctl --command-timeout 1s --endpoints %s get k >/dev/null 2>&1 || "
                 "echo refused",
                 r.http),
        "refused");
    CHECK_STR(peer_run(&r.p.arena, "grep -c -F '\"traffic\":\"http\"' %s.log", r.p.dir), "1");
    CHECK_STR(peer_run(&r.p.arena, "grep -c -F '\"traffic\":\"grpc\"' %s.log", r.p.dir), "1");
    rig_close(&r);
}

/* A member whose cluster has no majority is not known to it, and serves no client. */
TEST(probes_are_served_before_clients_are)
{
    struct place_rig r;
    rig_open(&r);
    const char *cluster = arena_printf(&r.p.arena, "m=%s,n=%s", r.p.peer_url, r.http);
    peer_launch(&r.p, arena_printf(&r.p.arena, "--initial-cluster %s --listen-metrics-urls %s",
                                   cluster, r.metrics));

    const char *said;
    do
        said = get(&r, r.metrics, "/health");
    while (strstr(said, "curl: "));
    CHECK_STR(said, "{\"health\":\"false\",\"reason\":\"RAFT NO LEADER\"}\n 503");
    CHECK(strstr(get(&r, r.metrics, "/version"), "404") != NULL);
    CHECK_STR(get(&r, r.p.client_url, "/version --max-time 1"), " 000curl: 28");
    rig_close(&r);
}

TEST(probes_are_served_by_tls)
{
    struct place_rig r;
    rig_open(&r);
    certs_make("ca", &(struct cert){.cn = "a CA", .is_ca = true});
    certs_make("server", &(struct cert){.signer = "ca", .sans = "IP:127.0.0.1"});
    r.metrics = arena_printf(&r.p.arena, "https%s", strchr(r.metrics, ':'));
    peer_start(&r.p,
               arena_printf(&r.p.arena, "--listen-metrics-urls %s --cert-file %s --key-file %s",
                            r.metrics, certs_file("server"), certs_key("server")));

    CHECK_STR(PEER_CTL(&r.p, "put k v"), "OK");
    CHECK_STR(get(&r, r.metrics, "/health"), HEALTHY);
    CHECK_STR(get(&r, arena_printf(&r.p.arena, "--http1.1 %s", r.metrics), "/health"), HEALTHY);
    CHECK(strstr(get(&r, r.metrics, "/version"), "404") != NULL);
    rig_close(&r);
}

/* --- browsers --- */

static const char *fields_of(struct place_rig *r, const char *flags)
{
    return peer_run(&r->p.arena,
                    "curl -s -D - -o /dev/null %s %s/health | tr -d '\\r' | "
                    "grep -i -e '^HTTP' -e '^access' | sort",
                    flags, r->p.client_url);
}

#define ALLOWED(origin)                                                                            \
    "Access-Control-Allow-Headers: accept, content-type, authorization\n"                          \
    "Access-Control-Allow-Methods: POST, GET, OPTIONS, PUT, DELETE\n"                              \
    "Access-Control-Allow-Origin: " origin "\n"

/* The same is asked of real etcd. */
static void check_browsers(struct peer *p)
{
    struct place_rig r = {.p = *p};

    peer_start(&r.p, "");
    CHECK_STR(fields_of(&r, ""), ALLOWED("*") "HTTP/1.1 200 OK");
    CHECK_STR(fields_of(&r, "-X OPTIONS -H 'Host: x'"), ALLOWED("*") "HTTP/1.1 200 OK");
    peer_stop(&r.p);
    peer_start(&r.p, "--cors http://a:1,http://b:2 --host-whitelist localhost,h");
    CHECK_STR(fields_of(&r, "-H 'Host: h:77'"), "HTTP/1.1 200 OK");
    CHECK_STR(fields_of(&r, "-H 'Host: h' -H 'Origin: http://b:2'"),
              ALLOWED("http://b:2") "HTTP/1.1 200 OK");
    CHECK_STR(fields_of(&r, "-H 'Host: h' -H 'Origin: http://c:2'"), "HTTP/1.1 200 OK");
    CHECK_STR(fields_of(&r, "-H 'Host: evil:2379'"), "HTTP/1.1 421 Misdirected Request");
    CHECK_STR(peer_run(&r.p.arena,
                       "grep -c -F 'rejecting HTTP request to prevent DNS rebinding attacks' "
                       "%s.log",
                       r.p.dir),
              "1");
    peer_stop(&r.p);
    peer_close(&r.p);
}

TEST(browsers_are_told_by_us_what_etcd_tells_them)
{
    struct peer ours, etcd;
    peer_need();
    peer_open_ours(&ours, in_tmp("ours"));
    check_browsers(&ours);
    peer_open(&etcd, in_tmp("etcd"));
    check_browsers(&etcd);
}
