/*
 * The static pod that kubeadm 1.34 and 1.35 write for etcd, with the program alone exchanged: every
 * flag as it stands there, none besides, and the three probes as the kubelet makes them, by plain
 * HTTP to 127.0.0.1. Real etcd goes through the same beside it.
 */
#include "base/mem.h"
#include "harness/certs_test.h"
#include "harness/peer_test.h"
#include "harness/port.h"
#include "harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A control plane node: its address, and where its manifest says that etcd is. */
struct node {
    struct peer peer;
    const char *name, *address;
    unsigned client, peers, metrics;
};

static void node_open(struct node *n, bool is_ours, const char *name, const char *address)
{
    const char *dir = certs_file(name); /* a name in this test's folder */

    (is_ours ? peer_open_ours : peer_open)(&n->peer, dir);
    n->peer.dir = arena_printf(&n->peer.arena, "%s.data", dir);
    n->name = name;
    n->address = address;
    n->client = port_take();
    n->peers = port_take();
    n->metrics = port_take();
}

/* In the order of the manifest. */
static const char *manifest_flags(struct node *n, const char *members, const char *state)
{
    struct arena *a = &n->peer.arena;
    const char *ca = certs_file("ca");

    return arena_printf(
        a,
        "--advertise-client-urls=https://%s:%u --cert-file=%s --client-cert-auth=true "
        "--data-dir=%s --feature-gates=InitialCorruptCheck=true "
        "--initial-advertise-peer-urls=https://%s:%u --initial-cluster=%s %s --key-file=%s "
        "--listen-client-urls=https://127.0.0.1:%u,https://%s:%u "
        "--listen-metrics-urls=http://127.0.0.1:%u --listen-peer-urls=https://%s:%u --name=%s "
        "--peer-cert-file=%s --peer-client-cert-auth=true --peer-key-file=%s "
        "--peer-trusted-ca-file=%s --snapshot-count=10000 --trusted-ca-file=%s "
        "--watch-progress-notify-interval=5s",
        n->address, n->client, certs_file("server"), n->peer.dir, n->address, n->peers, members,
        state, certs_key("server"), n->client, n->address, n->client, n->metrics, n->address,
        n->peers, n->name, certs_file("peer"), certs_key("peer"), ca, ca);
}

static const char *url_of(struct node *n)
{
    return arena_printf(&n->peer.arena, "%s=https://%s:%u", n->name, n->address, n->peers);
}

/* The status that the kubelet sees, which takes 200 for well; it waits no longer than this. */
static unsigned long probe(struct node *n, const char *path)
{
    const char *status = peer_run(
        &n->peer.arena, "curl -s -m 2 -o %s.probe -w '%%{http_code}' 'http://127.0.0.1:%u%s'; true",
        n->peer.dir, n->metrics, path);

    return strtoul(status, NULL, 10);
}

/* Startup, liveness and readiness; and what manifests of older releases ask instead. */
static void check_well(struct node *n)
{
    static const char *const paths[] = {"/readyz", "/livez", "/health?serializable=true",
                                        "/health?exclude=NOSPACE&serializable=true"};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        CHECK_EQ(probe(n, paths[i]), 200);
    CHECK(strstr(peer_run(&n->peer.arena, "curl -s http://127.0.0.1:%u/metrics", n->metrics),
                 "\netcd_server_has_leader 1\n"));
}

/* As the API server reaches it, with a certificate, on the address it is told. */
static const char *ctl(struct node *n, const char *command)
{
    return peer_run(
        &n->peer.arena,
        "$PEERS/etcdctl --endpoints https://127.0.0.1:%u --cacert %s --cert %s --key %s "
        "--command-timeout=20s %s",
        n->client, certs_file("ca"), certs_file("client"), certs_key("client"), command);
}

/* As the startup probe does, though not for four minutes. */
static void until(struct node *n, const char *path, const char *condition)
{
    peer_run(
        &n->peer.arena,
        "until [ \"$(curl -s -m 2 -o %s.probe -w '%%{http_code}' 'http://127.0.0.1:%u%s')\" %s "
        "]; do sleep 0.02; done",
        n->peer.dir, n->metrics, path, condition);
}

static void until_ready(struct node *n)
{
    until(n, "/readyz", "= 200");
}

/* Started again without the other, it lives and is not ready; `live` and `ready` are the statuses.
 */
static void run_nodes(bool is_ours, unsigned long *live, unsigned long *ready)
{
    struct node one, two;
    node_open(&one, is_ours, is_ours ? "one" : "etcd-one", "127.0.0.2");
    node_open(&two, is_ours, is_ours ? "two" : "etcd-two", "127.0.0.3");

    peer_launch_as(&one.peer, manifest_flags(&one, url_of(&one), ""));
    until_ready(&one);
    check_well(&one);
    ctl(&one, "put a b");
    ctl(&one, arena_printf(&one.peer.arena, "member add %s --peer-urls=https://%s:%u", two.name,
                           two.address, two.peers));
    const char *both = arena_printf(&one.peer.arena, "%s,%s", url_of(&one), url_of(&two));
    peer_launch_as(&two.peer, manifest_flags(&two, both, "--initial-cluster-state=existing"));
    until_ready(&two);
    check_well(&two);
    CHECK_STR(ctl(&two, "get a --print-value-only"), "b");
    peer_stop(&two.peer);
    peer_stop(&one.peer);

    peer_launch_as(&one.peer, manifest_flags(&one, url_of(&one), ""));
    until(&one, "/livez", "!= 000"); /* it listens */
    *live = probe(&one, "/livez");
    *ready = probe(&one, "/readyz");
    peer_launch_as(&two.peer, manifest_flags(&two, both, "--initial-cluster-state=existing"));
    until_ready(&one);
    until_ready(&two);
    check_well(&one);
    check_well(&two);
    CHECK_STR(ctl(&one, "get a --print-value-only"), "b");

    peer_kill(&one.peer);
    peer_kill(&two.peer);
    peer_close(&one.peer);
    peer_close(&two.peer);
}

TEST(kubeadms_static_pod_runs_with_the_program_exchanged)
{
    unsigned long live[2], ready[2];
    peer_need();
    certs_make("ca", &(struct cert){.cn = "etcd-ca", .is_ca = true});
    certs_make("server", &(struct cert){.signer = "ca",
                                        .cn = "node",
                                        .sans = "DNS:localhost,IP:127.0.0.1,IP:127.0.0.2,"
                                                "IP:127.0.0.3"});
    certs_make("peer", &(struct cert){.signer = "ca",
                                      .cn = "node",
                                      .sans = "DNS:localhost,IP:127.0.0.2,IP:127.0.0.3"});
    certs_make("client", &(struct cert){.signer = "ca", .cn = "kube-apiserver-etcd-client"});

    run_nodes(true, &live[0], &ready[0]);
    CHECK_EQ(live[0], 200);
    CHECK(ready[0] != 200);

    run_nodes(false, &live[1], &ready[1]);
    CHECK_EQ(live[0], live[1]);
    CHECK_EQ(ready[0], ready[1]);
}
