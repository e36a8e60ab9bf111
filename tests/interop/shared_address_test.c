/* One address by TLS and without: clients of either kind, at our server and at etcd. */
#include "harness/certs_test.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>

static const char *version_by(struct peer *p, const char *scheme, const char *flags)
{
    const char *out =
        peer_run(&p->arena,
                 "curl -s --max-time 10 --cacert %s %s -w ' by HTTP/%%{http_version}' "
                 "%s%s/version 2>&1 || true",
                 certs_file("server"), flags, scheme, strchr(p->client_url, ':'));

    return arena_printf(&p->arena, "%s", out);
}

static void check_clients(struct peer *p)
{
    const char *by_1 = "{\"etcdserver\":\"3.7.1\",\"etcdcluster\":\"3.7.0\",\"storage\":\"3.7.0\"}"
                       " by HTTP/1.1";
    const char *by_2 = "{\"etcdserver\":\"3.7.1\",\"etcdcluster\":\"3.7.0\",\"storage\":\"3.7.0\"}"
                       " by HTTP/2";
    const char *plain = p->client_url;
    const char *secure = arena_printf(&p->arena, "https%s", strchr(plain, ':'));
    const char *both = arena_printf(&p->arena, "%s,%s", plain, secure);

    p->client_url = both;
    peer_launch(p, arena_printf(&p->arena, "--cert-file %s --key-file %s", certs_file("server"),
                                certs_key("server")));
    peer_await_said(p, "ready to serve client requests", 1);
    p->client_url = plain;
    CHECK_STR(PEER_CTL(p, "put k v"), "OK");
    CHECK_STR(version_by(p, "http", ""), by_1);
    CHECK_STR(version_by(p, "https", "--http1.1"), by_1);
    CHECK_STR(version_by(p, "https", "--http2"), by_2);
    p->client_url = secure;
    CHECK_STR(PEER_CTL(p, "--cacert %s get k --print-value-only", certs_file("server")), "v");
    CHECK_EQ(peer_said(p, "serving client traffic securely"), 1);
    CHECK_EQ(peer_said(p, "serving client traffic insecurely"), 1);
    peer_stop(p);
    p->client_url = plain;
}

TEST(one_address_serves_clients_by_tls_and_without)
{
    struct peer etcd, ours;
    char dir[4096];
    peer_need();
    certs_make("server", &(struct cert){.sans = "IP:127.0.0.1"});
    snprintf(dir, sizeof(dir), "%s/etcd", test_tmp_dir());
    peer_open(&etcd, dir);
    snprintf(dir, sizeof(dir), "%s/ours", test_tmp_dir());
    peer_open_ours(&ours, dir);

    check_clients(&etcd);
    check_clients(&ours);

    peer_close(&etcd);
    peer_close(&ours);
}
