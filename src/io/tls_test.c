#include "io/tls.h"

#include "base/limits.h"
#include "base/logger.h"
#include "base/rng.h"
#include "harness/certs_test.h"
#include "io/net_rig_test.h"

#include <malloc.h>
#include <openssl/ssl.h>
#include <stdio.h>

/* What the log said of those who were rejected. */
static struct buf rejections;

static void note_rejection(void *context, struct bytes line)
{
    (void)context;
    buf_append(&rejections, line);
}

static int64_t no_time(void *context)
{
    (void)context;
    return 0;
}

static const struct logger logger = {
    .level = LOG_DEBUG, .format = LOG_JSON, .sink = note_rejection, .clock = no_time};

static bool was_rejected_for(const char *why)
{
    return rejections.len > 0 && strstr(buf_str(&rejections), why);
}

static void make_certs(void)
{
    certs_make("ca", &(struct cert){.cn = "ca", .is_ca = true});
    certs_make("server", &(struct cert){.cn = "server",
                                        .signer = "ca",
                                        .sans = "IP:127.0.0.1,DNS:localhost",
                                        .serial = 2});
    certs_make("client", &(struct cert){.cn = "alice",
                                        .signer = "ca",
                                        .sans = "DNS:a.example,IP:10.0.0.1",
                                        .serial = 3});
}

/* Of a member that asks for certificates; connections are made with "client". */
static struct tls_options mutual(struct rig *rig)
{
    return (struct tls_options){.io = rig->io,
                                .logger = &logger,
                                .rejected = "rejected connection on client endpoint",
                                .cert_file = certs_file("server"),
                                .key_file = certs_key("server"),
                                .dial_cert_file = certs_file("client"),
                                .dial_key_file = certs_key("client"),
                                .trusted_ca_file = certs_file("ca"),
                                .requires_cert = true,
                                .offers_h2 = true};
}

static struct tls *open_tls(struct tls_options options)
{
    struct buf why = {0};
    struct tls *t = NULL;

    if (!tls_open(&options, &why, &t))
        test_fail(__FILE__, __LINE__, "%s", buf_str(&why));
    return t;
}

static struct listener *listen_by(struct net *net, struct listener_options options)
{
    struct net_address a;
    struct listener *l;

    CHECK_EQ(net_address_parse("127.0.0.1:0", &a), ERR_OK);
    if (!options.on_accept)
        options.on_accept = end_accept;
    CHECK_EQ(net_listen(net, &a, &options, &l), ERR_OK);
    return l;
}

static void close_tls(struct rig *rig, struct tls *t)
{
    while (!tls_is_idle(t))
        rig_for_ms(rig, 1);
    tls_check(t);
    tls_close(t);
    buf_free(&rejections);
}

enum { CONNS_MAX = 100 };
static struct end clients[CONNS_MAX], servers[CONNS_MAX];

static void accept_next(struct listener *l, struct conn *c)
{
    struct end *e = &servers[end_accepted++];

    (void)l;
    e->conn = c;
    e->only_count = true;
    conn_accept(c, &end_handlers, e);
}

/* One read of the socket may bring several records, each with a call of its own. */
static void until_bytes(struct rig *rig, const struct end *e, size_t want)
{
    while (e->got_bytes < want)
        rig_step(rig);
    CHECK_EQ(e->got_bytes, want);
}

static struct listener *connect_pair(struct rig *rig, struct tls *server, struct tls *client,
                                     struct end *end)
{
    struct listener *l = listen_by(tls_net(server), (struct listener_options){0});

    end->conn = net_connect(tls_net(client), &l->address, &end_handlers, end);
    rig_until(rig, &end->opened, 1);
    rig_until(rig, &end_accepted, 1);
    return l;
}

CONTRACT(tls_announces_a_connection_with_the_names_it_was_verified_by)
{
    struct end client = {0};

    make_certs();
    struct tls *t = open_tls(mutual(rig));
    struct listener *l = connect_pair(rig, t, t, &client);
    const struct conn_info *info = conn_info(end_server.conn);

    CHECK(info->tls);
    CHECK_STR(info->cn, "alice");
    CHECK_EQ(info->san_count, 2);
    CHECK_STR(info->sans[0], "a.example");
    CHECK_STR(info->sans[1], "10.0.0.1");
    CHECK(strncmp(info->remote, "127.0.0.1:", 10) == 0);
    end_send(&client, BYTES("question"));
    until_bytes(rig, &end_server, 8);
    CHECK_EQ(conn_try_write(end_server.conn, BYTES("answer")), 6);
    until_bytes(rig, &client, 6);
    CHECK_BYTES(buf_bytes(&client.got), BYTES("answer"));
    end_close_pair(rig, l, &client);
    close_tls(rig, t);
}

/* Pieces of any size, more than the kernel takes, both ways at once, with pauses. */
CONTRACT(tls_carries_much_both_ways_in_order)
{
    enum { PIECES = 200, PIECE_MAX = 40 * 1000 };
    struct end client = {.only_count = true};
    struct rng rng;
    static uint8_t pattern[PIECE_MAX];
    size_t sent = 0;

    make_certs();
    rng_seed(&rng, test_seed());
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 7);
    struct tls *t = open_tls(mutual(rig));
    struct listener *l = connect_pair(rig, t, t, &client);
    end_server.only_count = true;
    conn_pause(client.conn);
    for (unsigned i = 0; i < PIECES; i++) {
        size_t len = rng_between(&rng, 1, PIECE_MAX);
        end_send(&client, bytes_of(pattern, len));
        end_send(&end_server, bytes_of(pattern, len));
        sent += len;
    }
    until_bytes(rig, &end_server, sent);
    CHECK(client.got_bytes < sent); /* it is paused */
    CHECK_EQ(client.written, PIECES);
    conn_resume(client.conn);
    until_bytes(rig, &client, sent);

    rig_until(rig, &end_server.written, PIECES);
    end_close_pair(rig, l, &client);
    close_tls(rig, t);
}

CONTRACT(tls_tells_of_a_goodbye_behind_the_last_words)
{
    struct end client = {0};

    make_certs();
    struct tls *t = open_tls(mutual(rig));
    struct listener *l = connect_pair(rig, t, t, &client);
    end_send(&client, BYTES("last words"));
    conn_shutdown(client.conn);
    rig_until(rig, &end_server.ended, 1);

    CHECK_BYTES(buf_bytes(&end_server.got), BYTES("last words"));
    end_send(&end_server, BYTES("still here"));
    until_bytes(rig, &client, 10);
    end_close_pair(rig, l, &client);
    close_tls(rig, t);
}

struct refusal {
    const char *what;
    const char *dial; /* certificate of whoever connects */
    const char *ca;   /* whom he trusts */
    const char *host;
    const char *log;     /* of whom he connects to, */
    const char *failure; /* and what he is told himself; NULL: whatever it is */
};

/* An end that comes while bytes of the other side are unread may overtake the alert: the real world
 * has it rarely, the fake one often. */
static bool is_told(struct rig *rig, const char *text, const char *want)
{
    return strstr(text, want) || (rig->fake && (!text[0] || strstr(text, "connection reset")));
}

static void refuse(struct rig *rig, struct tls *server, const struct listener *l,
                   const struct refusal *r)
{
    struct end client = {0};
    struct tls_options options = mutual(rig);

    options.cert_file = options.key_file = NULL;
    options.dial_cert_file = r->dial ? certs_file(r->dial) : NULL;
    options.dial_key_file = r->dial ? certs_key(r->dial) : NULL;
    options.trusted_ca_file = certs_file(r->ca);
    struct tls *dialler = open_tls(options);
    buf_clear(&rejections);
    end_accepted = 0;
    client.conn = tls_connect(dialler, &l->address, r->host, &end_handlers, &client);
    rig_until(rig, &client.closed, 1);
    CHECK_EQ(end_accepted, 0);
    for (unsigned i = 0; i < 1000 && rejections.len == 0; i++)
        rig_for_ms(rig, 1);
    if (rejections.len == 0 || !is_told(rig, buf_str(&rejections), r->log))
        test_fail(__FILE__, __LINE__, "%s: %s", r->what, buf_str(&rejections));
    if (r->failure && !is_told(rig, client.failure, r->failure))
        test_fail(__FILE__, __LINE__, "%s: %s", r->what, client.failure);
    tls_check(server);
    while (!tls_is_idle(dialler))
        rig_for_ms(rig, 1);
    tls_close(dialler);
}

/* By TLS 1.2, where whoever connects learns of it before he thinks that he is in. */
CONTRACT(tls_lets_nobody_in_who_is_not_known_and_says_why)
{
    static const struct refusal refusals[] = {
        {"no certificate", NULL, "ca", "127.0.0.1", "tls: client didn't provide a certificate",
         "remote error: tls: handshake failure"},
        {"a stranger's", "stranger", "ca", "127.0.0.1",
         "x509: certificate signed by unknown authority",
         "remote error: tls: unknown certificate authority"},
        {"an expired one", "expired", "ca", "127.0.0.1",
         "x509: certificate has expired or is not yet valid",
         "remote error: tls: expired certificate"},
        {"one not allowed", "bob", "ca", "127.0.0.1", "client certificate authentication failed",
         "remote error: tls: bad certificate"},
        {"a revoked one", "revoked", "ca", "127.0.0.1", "transport: certificate serial 07 revoked",
         NULL},
        {"a server of nobody we know", "client", "other", "127.0.0.1",
         "remote error: tls: unknown certificate authority",
         "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
        {"a server of another name", "client", "ca", "elsewhere",
         "remote error: tls: bad certificate",
         "tls: failed to verify certificate: x509: certificate is valid for localhost, not "
         "elsewhere"},
        {"a server of another address", "client", "ca", "10.1.1.1",
         "remote error: tls: bad certificate",
         "tls: failed to verify certificate: x509: certificate is valid for 127.0.0.1, not "
         "10.1.1.1"},
    };
    static const struct bytes allowed[] = {BYTES("a.example")};

    make_certs();
    certs_make("other", &(struct cert){.cn = "other", .is_ca = true});
    certs_make("stranger", &(struct cert){.signer = "other", .sans = "DNS:a.example"});
    certs_make("expired",
               &(struct cert){.signer = "ca", .sans = "DNS:a.example", .is_expired = true});
    certs_make("bob", &(struct cert){.cn = "a.example", .signer = "ca", .sans = "DNS:b.example"});
    certs_make("revoked", &(struct cert){.signer = "ca", .sans = "DNS:a.example", .serial = 7});
    certs_make_crl("revoked", "ca", 7);
    struct tls_options options = mutual(rig);
    options.allowed_hostnames = (struct tls_names){allowed, 1};
    options.crl_file = certs_crl("revoked");
    options.max = TLS_VERSION_1_2;
    struct tls *server = open_tls(options);
    struct listener *l = listen_by(tls_net(server), (struct listener_options){0});

    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        refuse(rig, server, l, &refusals[i]);

    struct end client = {0};
    struct tls *dialler = open_tls(mutual(rig));
    client.conn = net_connect(tls_net(dialler), &l->address, &end_handlers, &client);
    rig_until(rig, &end_accepted, 1); /* the others are unaffected */
    end_close_pair(rig, l, &client);
    close_tls(rig, dialler);
    close_tls(rig, server);
}

/* Whom we connect to is asked for the same: of two members who allow only their own, neither gets
 * through to the other, and each of them hears of it from both sides. */
CONTRACT(tls_allows_those_we_connect_to_by_the_same_names)
{
    static const struct bytes allowed[] = {BYTES("alice")};
    struct end client = {0};

    make_certs();
    struct tls_options options = mutual(rig);
    options.allowed_cns = (struct tls_names){allowed, 1};
    struct tls *t = open_tls(options);
    struct listener *l = listen_by(tls_net(t), (struct listener_options){0});
    client.conn = net_connect(tls_net(t), &l->address, &end_handlers, &client);
    rig_until(rig, &client.closed, 1);
    while (!was_rejected_for("rejected")) /* for the alert, unless the end overtakes it */
        rig_step(rig);

    CHECK_EQ(client.opened, 0);
    CHECK_STR(client.failure, "client certificate authentication failed");
    listener_close(l);
    close_tls(rig, t);
}

/* By TLS 1.3 he is through with his side by then. */
CONTRACT(tls_tells_whoever_connects_that_his_certificate_is_not_wanted)
{
    static const struct bytes allowed[] = {BYTES("nobody")};
    struct end client = {0};

    make_certs();
    struct tls_options options = mutual(rig);
    options.allowed_cns = (struct tls_names){allowed, 1};
    struct tls *server = open_tls(options), *dialler = open_tls(mutual(rig));
    struct listener *l = listen_by(tls_net(server), (struct listener_options){0});
    client.conn = net_connect(tls_net(dialler), &l->address, &end_handlers, &client);
    rig_until(rig, &client.closed, 1);

    CHECK_EQ(client.opened, 1);
    CHECK(is_told(rig, client.failure, "remote error: tls: bad certificate"));
    listener_close(l);
    close_tls(rig, dialler);
    close_tls(rig, server);
}

struct residence {
    const char *sans;
    const char *why; /* NULL: he is let in */
};

/* Somebody who comes from 127.0.0.1 with a certificate for these. */
static void come_with(struct rig *rig, struct tls *server, const struct listener *l,
                      const struct residence *r)
{
    struct end client = {0};
    struct tls_options options = mutual(rig);

    certs_make("client", &(struct cert){.cn = "alice", .signer = "ca", .sans = r->sans});
    struct tls *dialler = open_tls(options);
    buf_clear(&rejections);
    end_accepted = 0;
    end_server = (struct end){0};
    client.conn = net_connect(tls_net(dialler), &l->address, &end_handlers, &client);
    while (end_accepted == 0 && rejections.len == 0)
        rig_step(rig);
    if (end_accepted != (r->why == NULL) || (r->why && !was_rejected_for(r->why)))
        test_fail(__FILE__, __LINE__, "%s: %s", r->sans, buf_str(&rejections));
    end_close(rig, &client);
    if (end_accepted)
        end_close(rig, &end_server);
    tls_check(server);
    close_tls(rig, dialler);
}

/* As etcd asks it of members. */
TEST(tls_lets_in_who_lives_where_his_certificate_says)
{
    static const struct residence residences[] = {
        {NULL, NULL},
        {"email:alice@a.example", NULL}, /* that is no host */
        {"IP:127.0.0.1", NULL},
        {"IP:10.0.0.9,IP:fd00::9",
         "\"error\":\"x509: certificate is valid for 10.0.0.9, fd00::9, not 127.0.0.1\""},
        {"DER:30:0d:87:05:01:02:03:04:05:87:04:0a:00:00:09", /* five bytes are no address */
         "\"error\":\"x509: certificate is valid for 10.0.0.9, not 127.0.0.1\""},
        {"IP:10.0.0.9,DNS:m1.a.example", NULL}, /* one of its names has the address, */
        {"DNS:m2.a.example,DNS:m1.a.example", NULL},
        {"DNS:*.b.example,DNS:*.a.example", NULL}, /* or the address one of its names */
        {"DNS:*.b.example",
         "tls: \\\"127.0.0.1\\\" does not match any of DNSNames [\\\"*.b.example\\\"]\""},
        {"DNS:m2.a.example",
         "tls: \\\"127.0.0.1\\\" does not match any of DNSNames [\\\"m2.a.example\\\"]\""},
        {"DNS:m2.a.example,DNS:nowhere",
         "[\\\"m2.a.example\\\" \\\"nowhere\\\"] (lookup nowhere: no such host)"},
    };
    struct rig rig;

    rig_open_fake(&rig);
    make_certs();
    fake_resolver_add(&rig.fake->resolver, "m1.a.example", "127.0.0.1");
    fake_resolver_add(&rig.fake->resolver, "m2.a.example", "10.0.0.2");
    struct tls_options options = mutual(&rig);
    options.checks_address = true;
    struct tls *server = open_tls(options);
    struct listener *l = listen_by(tls_net(server), (struct listener_options){0});

    for (size_t i = 0; i < ARRAY_LEN(residences); i++)
        come_with(&rig, server, l, &residences[i]);
    listener_close(l);
    close_tls(&rig, server);
    rig_close(&rig);
}

/* A lookup goes on when nobody waits for it any more. */
TEST(tls_forgets_whoever_leaves_while_his_address_is_looked_up)
{
    enum { LEAVES, IS_TURNED_AWAY, TAKES_TOO_LONG, WAYS };

    for (unsigned way = 0; way < WAYS; way++) {
        struct end client = {0};
        struct rig rig;
        rig_open_fake(&rig);
        make_certs(); /* of a.example, where 127.0.0.1 is not */
        rig.fake->resolver.delay =
            (struct fake_delay){.min_ns = 20 * NS_PER_S, .max_ns = 20 * NS_PER_S};
        struct tls_options options = mutual(&rig);
        options.checks_address = true;
        struct tls *t = open_tls(options);
        struct listener *l = listen_by(tls_net(t), (struct listener_options){0});
        client.conn = net_connect(tls_net(t), &l->address, &end_handlers, &client);
        rig_until(&rig, &client.opened, 1);
        rig_for_ms(&rig, 1000);
        if (way == LEAVES)
            end_close(&rig, &client);
        if (way == IS_TURNED_AWAY)
            listener_close(l);
        rig_for_ms(&rig, TLS_HANDSHAKE_MS);
        CHECK_EQ(client.closed, 1);
        CHECK_EQ(end_accepted, 0);
        CHECK(!tls_is_idle(t));
        if (way == TAKES_TOO_LONG)
            CHECK(was_rejected_for("i/o timeout"));
        if (way != IS_TURNED_AWAY)
            listener_close(l);
        close_tls(&rig, t);
        rig_close(&rig);
    }
}

/* A handshake that is not over has proved nothing, and one with a certificate all there is. */
CONTRACT(a_tls_handshake_under_way_makes_room_and_a_verified_client_does_not)
{
    struct end half = {0}, client = {0}, late = {0};
    struct conn_limit limit;

    make_certs();
    conn_limit_init(&limit, 1);
    struct tls *t = open_tls(mutual(rig));
    struct listener *l = listen_by(tls_net(t), (struct listener_options){.limit = &limit});
    half.conn = net_connect(rig->io->net, &l->address, &end_handlers, &half);
    while (limit.open == 0)
        rig_step(rig);
    client.conn = net_connect(tls_net(t), &l->address, &end_handlers, &client);
    rig_until(rig, &end_accepted, 1);
    CHECK_EQ(limit.evicted, 1);
    while (half.ended + half.closed == 0)
        rig_step(rig);
    CHECK(was_rejected_for("closed to make a place for another connection"));

    end_connect(rig, &l->address, &late);
    rig_until(rig, &late.opened, 1);
    rig_for_ms(rig, 2 * NET_PATIENCE_MS);
    CHECK_EQ(limit.evicted, 1);
    CHECK_EQ(limit.open, 1);

    if (!half.closed)
        end_close(rig, &half);
    end_close(rig, &late);
    end_close_pair(rig, l, &client);
    rig_for_ms(rig, 30); /* the late one was about to come in */
    conn_limit_free(&limit);
    close_tls(rig, t);
}

CONTRACT(tls_turns_away_what_is_no_tls)
{
    struct end plain = {0};

    make_certs();
    struct tls *t = open_tls(mutual(rig));
    struct listener *l = listen_by(tls_net(t), (struct listener_options){0});
    plain.conn = net_connect(rig->io->net, &l->address, &end_handlers, &plain);
    end_send(&plain, BYTES("GET /version HTTP/1.1\r\n\r\n"));
    while (plain.ended + plain.closed == 0)
        rig_step(rig);

    CHECK_EQ(end_accepted, 0);
    CHECK(was_rejected_for("tls: first record does not look like a TLS handshake"));
    if (!plain.closed)
        end_close(rig, &plain);
    listener_close(l);
    close_tls(rig, t);
}

/* And the other way round: whoever connects by TLS hears HTTP. */
CONTRACT(tls_hangs_up_on_a_server_without_it)
{
    struct end client = {0};

    make_certs();
    struct tls *t = open_tls(mutual(rig));
    struct listener *l = listen_by(rig->io->net, (struct listener_options){0});
    client.conn = net_connect(tls_net(t), &l->address, &end_handlers, &client);
    rig_until(rig, &end_server.data_calls, 1);
    end_send(&end_server, BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"));
    rig_until(rig, &client.closed, 1);

    CHECK_EQ(client.opened, 0);
    CHECK_STR(client.failure, "tls: first record does not look like a TLS handshake");
    CHECK_EQ(rejections.len, 0); /* whoever connects is told, and the log is his */
    end_close(rig, &end_server);
    listener_close(l);
    close_tls(rig, t);
}

/* On virtual time: a byte a minute, and nothing at all, get ten seconds. */
TEST(a_tls_handshake_has_ten_seconds)
{
    static const uint8_t hello[] = {22, 3, 1, 2, 0};
    struct end slow = {0}, silent = {0};
    struct rig rig;

    rig_open_fake(&rig);
    make_certs();
    struct tls *t = open_tls(mutual(&rig));
    struct listener *l = listen_by(tls_net(t), (struct listener_options){0});
    slow.conn = net_connect(rig.io->net, &l->address, &end_handlers, &slow);
    silent.conn = net_connect(rig.io->net, &l->address, &end_handlers, &silent);
    rig_until(&rig, &slow.opened, 1);
    uint64_t began_ns = clock_now_ns(rig.io->clock);
    for (size_t i = 0; i < sizeof(hello) && !slow.ended; i++) {
        end_send(&slow, bytes_of(&hello[i], 1));
        rig_for_ms(&rig, 3000);
    }
    rig_until(&rig, &silent.ended, 1);

    CHECK_EQ(slow.ended, 1);
    CHECK(clock_now_ns(rig.io->clock) - began_ns <= 13 * NS_PER_S);
    CHECK(was_rejected_for("i/o timeout"));
    end_close(&rig, &slow);
    end_close(&rig, &silent);
    listener_close(l);
    close_tls(&rig, t);
    rig_close(&rig);
}

/* More half handshakes than there are places, and somebody who means it comes last. */
TEST(tls_half_handshakes_make_way_for_a_whole_one)
{
    enum { HALVES = TLS_HANDSHAKES_MAX + 100 };
    static struct end halves[HALVES];
    struct end client = {0};
    struct rig rig;

    test_runs_in_one_thread();
    rig_open_fake(&rig);
    make_certs();
    struct tls *t = open_tls(mutual(&rig));
    struct listener *l = listen_by(tls_net(t), (struct listener_options){0});
    for (size_t i = 0; i < HALVES; i++)
        halves[i].conn = net_connect(rig.io->net, &l->address, &end_handlers, &halves[i]);
    rig_for_ms(&rig, 100);
    uint64_t began_ns = clock_now_ns(rig.io->clock);
    client.conn = net_connect(tls_net(t), &l->address, &end_handlers, &client);
    rig_until(&rig, &end_accepted, 1);

    CHECK(clock_now_ns(rig.io->clock) - began_ns <= 2 * NS_PER_S);
    CHECK(was_rejected_for("tls: too many handshakes are under way"));
    tls_check(t);
    for (size_t i = 0; i < HALVES; i++)
        end_close(&rig, &halves[i]);
    end_close_pair(&rig, l, &client);
    close_tls(&rig, t);
    rig_close(&rig);
}

CONTRACT(a_tls_listener_that_closes_takes_half_handshakes_with_it)
{
    struct end half = {0}, client = {0};

    make_certs();
    struct tls *t = open_tls(mutual(rig));
    struct listener *l = listen_by(tls_net(t), (struct listener_options){0});
    half.conn = net_connect(rig->io->net, &l->address, &end_handlers, &half);
    client.conn = net_connect(tls_net(t), &l->address, &end_handlers, &client);
    rig_until(rig, &half.opened, 1);
    while (tls_is_idle(t))
        rig_step(rig);
    listener_close(l);
    rig_until(rig, &client.closed, 1);

    CHECK_EQ(end_accepted, 0);
    end_close(rig, &half);
    close_tls(rig, t);
}

/* With a certificate for this name. The connection that was made last is closed or open. */
static struct end *dial(struct rig *rig, struct tls *t, const struct listener *l, const char *host)
{
    static unsigned count;
    struct end *client = &clients[count++];

    client->conn = tls_connect(t, &l->address, host, &end_handlers, client);
    while (client->opened + client->closed == 0)
        rig_step(rig);
    return client;
}

CONTRACT(tls_reads_its_certificate_again_for_each_handshake)
{
    make_certs();
    struct tls *t = open_tls(mutual(rig));
    struct listener *l = listen_by(tls_net(t), (struct listener_options){.on_accept = accept_next});

    struct end *first = dial(rig, t, l, "localhost");
    certs_make("server", &(struct cert){.signer = "ca", .sans = "DNS:renewed"});
    struct end *second = dial(rig, t, l, "renewed");
    CHECK_EQ(remove(certs_key("server")), 0);
    struct end *third = dial(rig, t, l, "renewed");
    rig_until(rig, &third->closed, 1);

    CHECK_EQ(first->opened, 1);
    CHECK_EQ(second->opened, 1);
    CHECK_EQ(third->opened, 0);
    CHECK(was_rejected_for("no such file or directory"));
    end_send(first, BYTES("unaffected"));
    until_bytes(rig, &servers[0], 10);
    rig_until(rig, &end_accepted, 2);
    end_close(rig, first);
    end_close(rig, second);
    end_close(rig, &servers[0]);
    end_close(rig, &servers[1]);
    listener_close(l);
    close_tls(rig, t);
}

/* Somebody else's client of TLS, by hand: OpenSSL's memory BIOs over a plain connection. */
struct guest {
    struct end end;
    SSL *ssl;
    size_t seen; /* of what has come */
};

/* Lets something happen, if it has seen all that has come. */
static void guest_move(struct rig *rig, struct guest *g)
{
    static uint8_t out[64 * 1024];
    bool has_news = g->seen < g->end.got.len;
    int len = BIO_read(SSL_get_wbio(g->ssl), out, sizeof(out));

    if (len > 0)
        CHECK_EQ(conn_try_write(g->end.conn, bytes_of(out, (size_t)len)), len);
    if (!has_news)
        rig_step(rig);
    if (g->seen < g->end.got.len)
        BIO_write(SSL_get_rbio(g->ssl), g->end.got.at + g->seen, (int)(g->end.got.len - g->seen));
    g->seen = g->end.got.len;
}

static void guest_connect(struct rig *rig, struct guest *g, SSL_CTX *context, SSL_SESSION *session,
                          const struct listener *l)
{
    *g = (struct guest){.ssl = SSL_new(context)};
    SSL_set_bio(g->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(g->ssl);
    if (session)
        CHECK_EQ(SSL_set_session(g->ssl, session), 1);
    g->end.conn = net_connect(rig->io->net, &l->address, &end_handlers, &g->end);
    rig_until(rig, &g->end.opened, 1);
}

/* Returns whether the handshake came to its end; then a byte was read, and with it the ticket. */
static bool guest_shake(struct rig *rig, struct guest *g, SSL_CTX *context, SSL_SESSION *session,
                        const struct listener *l)
{
    char byte;
    unsigned accepted = end_accepted;

    guest_connect(rig, g, context, session, l);
    for (int result; (result = SSL_do_handshake(g->ssl)) != 1;) {
        if (SSL_get_error(g->ssl, result) != SSL_ERROR_WANT_READ)
            return false;
        guest_move(rig, g);
    }
    while (end_accepted == accepted)
        guest_move(rig, g);
    CHECK_EQ(conn_try_write(servers[accepted].conn, BYTES("!")), 1);
    while (SSL_read(g->ssl, &byte, 1) != 1)
        guest_move(rig, g);
    return true;
}

static void guest_leave(struct rig *rig, struct guest *g)
{
    SSL_set_shutdown(g->ssl, SSL_SENT_SHUTDOWN); /* or OpenSSL takes the session for a broken one */
    SSL_free(g->ssl);
    if (!g->end.closed)
        end_close(rig, &g->end);
}

static SSL_CTX *guest_context(const char *cert, int min, int max)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    CHECK_EQ(SSL_CTX_set_min_proto_version(context, min), 1);
    CHECK_EQ(SSL_CTX_set_max_proto_version(context, max), 1);
    CHECK_EQ(SSL_CTX_use_certificate_file(context, certs_file(cert), SSL_FILETYPE_PEM), 1);
    CHECK_EQ(SSL_CTX_use_PrivateKey_file(context, certs_key(cert), SSL_FILETYPE_PEM), 1);
    return context;
}

struct guest_rig {
    struct tls *tls;
    struct listener *listener;
    SSL_CTX *context;
    SSL_SESSION *session; /* of a first visit */
};

static void guest_rig_open(struct rig *rig, struct guest_rig *r, struct tls_options options,
                           int version)
{
    struct guest g;

    r->tls = open_tls(options);
    r->listener = listen_by(tls_net(r->tls), (struct listener_options){.on_accept = accept_next});
    r->context = guest_context("client", version, version);
    CHECK(guest_shake(rig, &g, r->context, NULL, r->listener));
    r->session = SSL_get1_session(g.ssl);
    guest_leave(rig, &g);
}

static void guest_rig_close(struct rig *rig, struct guest_rig *r)
{
    for (unsigned i = 0; i < end_accepted; i++)
        if (!servers[i].closed)
            end_close(rig, &servers[i]);
    SSL_SESSION_free(r->session);
    SSL_CTX_free(r->context);
    listener_close(r->listener);
    close_tls(rig, r->tls);
}

static void come_again(struct rig *rig, struct guest_rig *r, bool resumes, int version)
{
    struct guest g;

    CHECK(guest_shake(rig, &g, r->context, r->session, r->listener));
    CHECK_EQ(SSL_session_reused(g.ssl), resumes);
    CHECK_EQ(SSL_version(g.ssl), version);
    CHECK_STR(conn_info(servers[1].conn)->cn, "alice");
    guest_leave(rig, &g);
}

static void resume(struct rig *rig, int version)
{
    struct guest_rig r;
    make_certs();
    guest_rig_open(rig, &r, mutual(rig), version);

    come_again(rig, &r, true, version);

    guest_rig_close(rig, &r);
}

CONTRACT(tls_1_2_resumes_a_session)
{
    resume(rig, TLS1_2_VERSION);
}

CONTRACT(tls_1_3_resumes_a_session)
{
    resume(rig, TLS1_3_VERSION);
}

static void guest_asks_for_new_keys(struct rig *rig, struct guest *g)
{
    CHECK_EQ(SSL_key_update(g->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    CHECK_EQ(SSL_do_handshake(g->ssl), 1);
    guest_move(rig, g);
}

/* Whoever is heard out after our goodbye may ask for new keys, which SSL would answer. */
CONTRACT(tls_answers_no_questions_about_keys_after_its_goodbye)
{
    struct guest_rig r;
    struct guest g;
    make_certs();
    guest_rig_open(rig, &r, mutual(rig), TLS1_3_VERSION);
    CHECK(guest_shake(rig, &g, r.context, NULL, r.listener));
    struct end *server = &servers[1];
    conn_shutdown(server->conn);
    rig_until(rig, &g.end.ended, 1);
    size_t got = g.end.got.len;

    for (unsigned i = 0; i < 5; i++)
        guest_asks_for_new_keys(rig, &g);
    CHECK_EQ(SSL_write(g.ssl, "a last word", 11), 11);
    while (server->got_bytes < 11)
        guest_move(rig, &g);

    CHECK_EQ(g.end.got.len, got);
    CHECK_EQ(server->closed, 0);
    guest_leave(rig, &g);
    guest_rig_close(rig, &r);
}

/* A ticket does not say who has signed the certificate, and that one may be on the list, too. */
static void begin_anew(struct rig *rig, int version)
{
    struct guest_rig r;
    struct guest g;
    make_certs();
    certs_make_crl("list", "ca", 0);
    struct tls_options options = mutual(rig);
    options.crl_file = certs_crl("list");
    guest_rig_open(rig, &r, options, version);

    come_again(rig, &r, false, version);
    certs_make_crl("list", "ca", 3);
    guest_connect(rig, &g, r.context, r.session, r.listener);
    while (!was_rejected_for("transport: certificate serial 03 revoked")) {
        (void)SSL_do_handshake(g.ssl);
        guest_move(rig, &g);
    }

    CHECK_EQ(end_accepted, 2);
    guest_leave(rig, &g);
    guest_rig_close(rig, &r);
}

CONTRACT(tls_1_2_resumes_nothing_where_certificates_are_revoked)
{
    begin_anew(rig, TLS1_2_VERSION);
}

CONTRACT(tls_1_3_resumes_nothing_where_certificates_are_revoked)
{
    begin_anew(rig, TLS1_3_VERSION);
}

static void check_protocol(struct rig *rig, const struct listener *l, const char *offered,
                           const char *chosen)
{
    SSL_CTX *context = guest_context("client", TLS1_2_VERSION, 0);
    struct guest g;
    const uint8_t *got;
    unsigned len, accepted = end_accepted;

    SSL_CTX_set_alpn_protos(context, (const uint8_t *)offered, (unsigned)strlen(offered));
    CHECK_EQ(guest_shake(rig, &g, context, NULL, l), chosen != NULL);
    SSL_get0_alpn_selected(g.ssl, &got, &len);
    if (chosen)
        CHECK_BYTES(bytes_of(got, len), bytes_of_str(chosen));
    guest_leave(rig, &g);
    if (chosen && !servers[accepted].closed)
        end_close(rig, &servers[accepted]);
    SSL_CTX_free(context);
}

CONTRACT(tls_agrees_on_a_protocol_and_no_old_version)
{
    struct guest g;

    make_certs();
    struct tls *t = open_tls(mutual(rig));
    struct listener *l = listen_by(tls_net(t), (struct listener_options){.on_accept = accept_next});

    check_protocol(rig, l, "\x08http/1.1\x02h2", "h2");
    check_protocol(rig, l, "\x08http/1.1", "http/1.1");
    check_protocol(rig, l, "", "");
    check_protocol(rig, l, "\x04spdy", NULL);
    SSL_CTX *old = guest_context("client", TLS1_VERSION, TLS1_1_VERSION);
    SSL_CTX_set_security_level(old, 0);
    CHECK(!guest_shake(rig, &g, old, NULL, l));
    while (!was_rejected_for("tls: client offered only unsupported versions"))
        rig_step(rig);

    guest_leave(rig, &g);
    SSL_CTX_free(old);
    listener_close(l);
    close_tls(rig, t);
}

struct bad_files {
    const char *cert, *key, *ca, *why;
};

TEST(tls_does_not_open_with_files_that_are_no_use)
{
    static const struct bad_files bad[] = {
        {"none", "server", "ca", "none.pem: no such file or directory"},
        {"server", "none", "ca", "none-key.pem: no such file or directory"},
        {"server", "client", "ca", "tls: private key does not match public key"},
        {"empty", "server", "ca", "tls: failed to find any PEM data in certificate input"},
        {"server", "server", "empty", "could not load CA certificates from"},
    };
    struct rig rig;

    rig_open_fake(&rig);
    make_certs();
    FILE *f = fopen(certs_file("empty"), "w");
    CHECK(f != NULL);
    fclose(f);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct tls_options options = mutual(&rig);
        struct tls *t;
        struct buf why = {0};

        options.cert_file = certs_file(bad[i].cert);
        options.key_file = certs_key(bad[i].key);
        options.trusted_ca_file = certs_file(bad[i].ca);
        CHECK(!tls_open(&options, &why, &t));
        if (!strstr(buf_str(&why), bad[i].why))
            test_fail(__FILE__, __LINE__, "%s: not %s", buf_str(&why), bad[i].why);
        buf_free(&why);
    }
    rig_close(&rig);
}

/* Of both ends together, when nothing is under way: the test has no other memory that moves. */
TEST(an_idle_tls_connection_costs_at_most_40_kb)
{
    struct rig rig;
    size_t before = 0;

    rig_open_fake(&rig);
    make_certs();
    struct tls *t = open_tls(mutual(&rig));
    struct listener *l = listen_by(tls_net(t), (struct listener_options){.on_accept = accept_next});
    for (unsigned i = 0; i < CONNS_MAX; i++) {
        struct end *client = &clients[i];
        if (i == 1) /* the first brings what all of them use */
            before = mallinfo2().uordblks;
        client->conn = net_connect(tls_net(t), &l->address, &end_handlers, client);
        rig_until(&rig, &end_accepted, i + 1);
        rig_until(&rig, &client->opened, 1);
        end_send(client, BYTES("busy once"));
        until_bytes(&rig, &servers[i], 9);
        rig_until(&rig, &client->written, 1);
    }
    size_t each = (mallinfo2().uordblks - before) / (2 * (CONNS_MAX - 1));

    if (each > 40 * 1000)
        test_fail(__FILE__, __LINE__, "%zu bytes", each);
    for (unsigned i = 0; i < CONNS_MAX; i++) {
        end_close(&rig, &clients[i]);
        end_close(&rig, &servers[i]);
    }
    listener_close(l);
    close_tls(&rig, t);
    rig_close(&rig);
}
