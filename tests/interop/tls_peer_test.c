/* The peer port by TLS: whoever is not wanted there is told the same by us and by etcd, and members
 * of both meet. */
#include "harness/certs_test.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 3 };

static void use_https(struct peer *p)
{
    p->peer_url = p->advertised_url = arena_printf(&p->arena, "https%s", strchr(p->peer_url, ':'));
}

/* --- who is not let in --- */

struct stranger {
    const char *cert; /* NULL: none */
    const char *flags;
    const char *error;
};

static void make_certs(void)
{
    certs_make("ca", &(struct cert){.cn = "ca", .is_ca = true});
    certs_make("other", &(struct cert){.cn = "other", .is_ca = true});
    certs_make("m", &(struct cert){.signer = "ca", .cn = "member", .sans = "IP:127.0.0.1"});
    certs_make("by-name", &(struct cert){.signer = "ca", .cn = "member", .sans = "DNS:localhost"});
    certs_make("anywhere", &(struct cert){.signer = "ca", .cn = "member"});
    certs_make("elsewhere", &(struct cert){.signer = "ca", .cn = "member", .sans = "IP:10.9.9.9"});
    certs_make("stranger", &(struct cert){.signer = "other", .cn = "member"});
    certs_make("expired", &(struct cert){.signer = "ca", .cn = "member", .is_expired = true});
    certs_make("client", &(struct cert){.signer = "ca", .cn = "client", .sans = "DNS:c.example"});
    certs_make("revoked", &(struct cert){.signer = "ca",
                                         .cn = "member",
                                         .serial = 7,
                                         .sans = "IP:127.0.0.1,IP:fd00::7,email:x@y.z"});
    certs_make_crl("list", "ca", 7);
}

static const char *ask_version(struct peer *p, const char *cert, const char *flags)
{
    const char *shown =
        cert ? arena_printf(&p->arena, "--cert %s --key %s", certs_file(cert), certs_key(cert))
             : "";
    const char *url = strcmp(flags, "plain") == 0
                          ? arena_printf(&p->arena, "http%s", strchr(p->peer_url, ':'))
                          : arena_printf(&p->arena, "-k %s", p->peer_url);

    return peer_run(&p->arena, "curl -s -m 10 --http1.1 %s %s/version || true", shown, url);
}

static void check_strangers(struct peer *p, struct buf *fields)
{
    static const struct stranger strangers[] = {
        {NULL, "", "tls: client didn't provide a certificate"},
        {"stranger", "", "certificate signed by unknown authority"},
        {"expired", "", "certificate has expired or is not yet valid"},
        {"client", "", "client certificate authentication failed"},
        {"revoked", "", "transport: certificate serial 07 revoked"},
        {"elsewhere", "", "x509: certificate is valid for 10.9.9.9, not 127.0.0.1"},
        {NULL, "plain", "tls: first record does not look like a TLS handshake"},
    };

    use_https(p);
    peer_start(p,
               arena_printf(&p->arena,
                            "--peer-cert-file %s --peer-key-file %s --peer-trusted-ca-file %s "
                            "--peer-client-cert-auth --peer-cert-allowed-cn member "
                            "--peer-crl-file %s",
                            certs_file("m"), certs_key("m"), certs_file("ca"), certs_crl("list")));
    for (unsigned i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        const struct stranger *s = &strangers[i];
        CHECK_STR(ask_version(p, s->cert, s->flags), "");
        peer_await_said(p, "rejected connection on peer endpoint", i + 1);
        peer_await_said(p, s->error, 1);
        CHECK(strstr(ask_version(p, "m", ""), "etcdserver")); /* others are unaffected */
    }
    CHECK(strstr(ask_version(p, "anywhere", ""), "etcdserver"));
    CHECK(strstr(ask_version(p, "by-name", ""), "etcdserver"));
    CHECK_EQ(peer_said(p, "rejected connection on peer endpoint"),
             sizeof(strangers) / sizeof(strangers[0]));
    peer_stop(p);
    /* Of the errors some say what time it is, and whom Go's resolver has asked. */
    buf_append_str(fields,
                   peer_run(&p->arena,
                            "sed -n 's/.*\"msg\":\\(\"rejected connection.*\\),\"error\".*/\\1/p' "
                            "%s.log | sed 's/127.0.0.1:[0-9]*/PORT/'",
                            p->dir));
    peer_close(p);
}

TEST(who_is_not_let_in_at_our_peer_port_is_told_as_by_etcd)
{
    struct peer p;
    char dir[4096];
    struct buf ours = {0}, etcds = {0};

    peer_need();
    make_certs();
    snprintf(dir, sizeof(dir), "%s/ours", test_tmp_dir());
    peer_open_ours(&p, dir);
    check_strangers(&p, &ours);

    snprintf(dir, sizeof(dir), "%s/etcd", test_tmp_dir());
    peer_open(&p, dir);
    check_strangers(&p, &etcds);
    CHECK_STR(buf_str(&ours), buf_str(&etcds)); /* whose certificates they were, too */
    CHECK(strstr(buf_str(&ours), "\"ip-addresses\":[\"10.9.9.9\"]"));
    buf_free(&ours);
    buf_free(&etcds);
}

/* --- members --- */

static void open_members(struct peer members[MEMBERS], bool has_etcd)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        char dir[4096];
        snprintf(dir, sizeof(dir), "%s/m%u", test_tmp_dir(), i);
        if (has_etcd && i == MEMBERS - 1)
            peer_open(&members[i], dir);
        else
            peer_open_ours(&members[i], dir);
        use_https(&members[i]);
    }
}

static void launch(struct peer members[MEMBERS], unsigned i, const char *flags)
{
    struct peer *p = &members[i];

    peer_launch(p,
                arena_printf(&p->arena, "--name m%u --initial-cluster m0=%s,m1=%s,m2=%s %s", i,
                             members[0].peer_url, members[1].peer_url, members[2].peer_url, flags));
}

static void check_together(struct peer members[MEMBERS])
{
    for (unsigned i = 0; i < MEMBERS; i++)
        peer_await(&members[i]);
    CHECK_STR(PEER_CTL(&members[0], "put k v"), "OK");
    for (unsigned i = 0; i < MEMBERS; i++)
        CHECK_STR(PEER_CTL(&members[i], "get k --print-value-only"), "v");
}

static void stop_all(struct peer members[MEMBERS])
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        peer_stop(&members[i]);
        peer_close(&members[i]);
    }
}

TEST(members_of_ours_and_etcds_meet_by_certificates_they_have_made)
{
    struct peer members[MEMBERS];

    peer_need();
    open_members(members, true);
    for (unsigned i = 0; i < MEMBERS; i++)
        launch(members, i, "--peer-auto-tls");
    check_together(members);

    CHECK_EQ(peer_said(&members[0], "automatically generate certificates"), 1);
    CHECK_EQ(peer_said(&members[0], "rejected connection on peer endpoint"), 0);
    peer_stop(&members[0]);
    launch(members, 0, "--peer-auto-tls"); /* with the same certificate */
    check_together(members);
    CHECK_EQ(peer_said(&members[0], "automatically generate certificates"), 1);
    stop_all(members);
}

/* etcd's own test of it: two allow the names that they have, the third one allows its own. */
TEST(a_member_with_a_name_that_is_not_allowed_stays_alone)
{
    struct peer members[MEMBERS];

    peer_need(); /* etcdctl */
    certs_make("ca", &(struct cert){.cn = "ca", .is_ca = true});
    certs_make("m0", &(struct cert){.signer = "ca", .cn = "good", .sans = "IP:127.0.0.1"});
    certs_make("m2", &(struct cert){.signer = "ca", .cn = "bad", .sans = "IP:127.0.0.1"});
    open_members(members, false);
    for (unsigned i = 0; i < MEMBERS; i++) {
        const char *name = i < 2 ? "m0" : "m2";
        launch(members, i,
               arena_printf(&members[i].arena,
                            "--peer-cert-file %s --peer-key-file %s --peer-trusted-ca-file %s "
                            "--peer-client-cert-auth --peer-cert-allowed-cn %s",
                            certs_file(name), certs_key(name), certs_file("ca"),
                            i < 2 ? "good" : "bad"));
    }
    peer_await(&members[0]);
    peer_await(&members[1]);
    CHECK_STR(PEER_CTL(&members[0], "put k v"), "OK");
    CHECK_STR(PEER_CTL(&members[1], "get k --print-value-only"), "v");

    peer_await_said(&members[2], "remote error: tls: bad certificate", 1);
    peer_await_said(&members[2], "client certificate authentication failed", 1);
    for (unsigned i = 0; i < MEMBERS; i++) {
        peer_kill(&members[i]);
        peer_close(&members[i]);
    }
}
