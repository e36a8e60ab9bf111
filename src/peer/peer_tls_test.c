/*
 * Rooms that meet by TLS, in the real world: one loop, and each member with certificates of its
 * own. Member 1 and 2 have https URLs, member 3 has an http URL.
 */
#include "base/limits.h"
#include "base/mem.h"
#include "harness/certs_test.h"
#include "harness/test.h"
#include "io/clock.h"
#include "io/io.h"
#include "io/loop.h"
#include "io/tls.h"
#include "peer/peer.h"

#include <stdio.h>

enum { MEMBERS = 3, PATIENCE_S = 30, CLUSTER = 0xabcd, IMAGE_BYTES = 3 * MIB };

struct node {
    unsigned number, status;
    struct tls *tls;
    struct listener *listener;
    struct peers *peers;
    char url[64];
    size_t messages, appends, results, requests, sent, failed, begun, ended;
    uint64_t snapshot_id;
    size_t handed_in;
    struct buf result, image, log, identities;
};

static struct loop *loop;
static struct node nodes[MEMBERS + 1]; /* from 1 */
static struct logger loggers[MEMBERS + 1];
static uint8_t image[IMAGE_BYTES];

static uint64_t id_of(unsigned number)
{
    return number * 0x11;
}

static void keep_line(void *context, struct bytes line)
{
    struct node *n = context;

    buf_append(&n->log, line);
}

static int64_t no_time(void *context)
{
    (void)context;
    return 0;
}

static void hear(struct node *n, const struct peer_event *e)
{
    switch (e->kind) {
    case PEER_MESSAGE:
        n->messages += e->message->type != RAFT_MSG_APP;
        n->appends += e->message->type == RAFT_MSG_APP;
        return;
    case PEER_REQUEST:
        n->requests++;
        peers_respond(n->peers, e->id,
                      &(struct peer_response){.status = 200, .body = BYTES("here")});
        return;
    case PEER_RESULT:
        n->results++;
        n->status = e->status;
        buf_clear(&n->result);
        buf_append(&n->result, e->body);
        return;
    case PEER_SNAPSHOT_BEGIN:
        n->begun++;
        n->snapshot_id = e->id;
        peers_snapshot_grant(n->peers, e->id, IMAGE_BYTES);
        return;
    case PEER_SNAPSHOT_BYTES:
        buf_append(&n->image, e->body);
        return;
    case PEER_SNAPSHOT_END:
        n->ended++;
        peers_respond(n->peers, e->id, &(struct peer_response){.status = 204});
        return;
    case PEER_SNAPSHOT_SENT:
        n->sent++;
        return;
    case PEER_SNAPSHOT_FAILED:
        n->failed++;
        return;
    default:
        return;
    }
}

static void send_image(struct node *n, uint64_t to)
{
    for (size_t credit; (credit = peers_snapshot_credit(n->peers, to)) > 0;) {
        peers_snapshot_write(n->peers, to, bytes_of(image + n->handed_in, credit));
        n->handed_in += credit;
    }
}

static void turn(void *context)
{
    struct peer_event e;

    (void)context;
    inbox_drain(loop_io(loop)->inbox, 1000);
    for (unsigned i = 1; i <= MEMBERS; i++) {
        struct node *n = &nodes[i];
        if (!n->peers)
            continue;
        while (peers_take(n->peers, &e) || peers_take_append(n->peers, &e)) {
            hear(n, &e);
            peer_event_free(&e);
        }
        for (unsigned to = 1; to <= MEMBERS; to++)
            send_image(n, id_of(to));
        peers_flush(n->peers);
        peers_check(n->peers);
    }
}

static void out_of_patience(struct timer *t)
{
    (void)t;
    for (unsigned i = 1; i <= MEMBERS; i++)
        fprintf(stderr, "%.*s", (int)nodes[i].log.len, (const char *)nodes[i].log.at);
    test_fail(__FILE__, __LINE__, "it did not happen within %d s", PATIENCE_S);
}

static bool has_come(const void *count)
{
    return *(const size_t *)count > 0;
}

static bool has_all_streams(const void *context)
{
    (void)context;
    for (unsigned i = 1; i <= MEMBERS; i++)
        for (unsigned j = 1; j <= MEMBERS; j++) {
            struct peer_status s;
            if (i != j && nodes[i].peers && nodes[j].peers &&
                (!peers_status(nodes[i].peers, id_of(j), &s) || s.streams < 4))
                return false;
        }
    return true;
}

static void run_until(bool (*has_happened)(const void *context), const void *context)
{
    struct timer patience = {.on_time = out_of_patience};
    struct clock *clock = loop_io(loop)->clock;

    timer_start(clock, &patience, PATIENCE_S * NS_PER_S);
    while (!has_happened(context))
        loop_run_once(loop, turn, NULL);
    timer_stop(clock, &patience);
}

static void on_accept(struct listener *l, struct conn *c)
{
    struct node *n = l->options.context;
    const struct conn_info *info = conn_info(c);

    buf_printf(&n->identities, "%s ", info->cn ? info->cn : "nobody");
    peers_accept(n->peers, c);
}

static void make_certs(void)
{
    certs_make("ca", &(struct cert){.cn = "ca", .is_ca = true});
    certs_make("m1", &(struct cert){.cn = "m1", .signer = "ca", .sans = "DNS:localhost"});
    certs_make("m2", &(struct cert){.cn = "m2", .signer = "ca", .sans = "IP:127.0.0.1"});
    certs_make("m3", &(struct cert){.cn = "m3", .signer = "ca", .sans = "IP:127.0.0.1"});
}

static struct tls *open_tls(struct node *n)
{
    char name[16];
    struct buf why = {0};
    struct tls *t = NULL;

    snprintf(name, sizeof(name), "m%u", n->number);
    const struct tls_options options = {.io = loop_io(loop),
                                        .logger = &loggers[n->number],
                                        .rejected = "rejected connection on peer endpoint",
                                        .cert_file = certs_file(name),
                                        .key_file = certs_key(name),
                                        .trusted_ca_file = certs_file("ca"),
                                        .requires_cert = true};
    if (!tls_open(&options, &why, &t))
        test_fail(__FILE__, __LINE__, "%s", buf_str(&why));
    return t;
}

static void open_node(unsigned number, const char *scheme, const char *host)
{
    struct node *n = &nodes[number];
    struct net_address any;

    n->number = number;
    loggers[number] = (struct logger){.level = LOG_DEBUG,
                                      .format = LOG_JSON,
                                      .sink = keep_line,
                                      .sink_context = n,
                                      .clock = no_time};
    n->tls = open_tls(n);
    CHECK_EQ(net_address_parse("127.0.0.1:0", &any), ERR_OK);
    CHECK_EQ(net_listen(strcmp(scheme, "https") == 0 ? tls_net(n->tls) : loop_io(loop)->net, &any,
                        &(struct listener_options){.on_accept = on_accept, .context = n},
                        &n->listener),
             ERR_OK);
    snprintf(n->url, sizeof(n->url), "%s://%s:%u", scheme, host, n->listener->address.port);
    n->peers = peers_open(&(struct peers_options){.io = loop_io(loop),
                                                  .logger = &loggers[number],
                                                  .tls = n->tls,
                                                  .self = id_of(number),
                                                  .cluster_id = CLUSTER,
                                                  .urls = n->url,
                                                  .version = "3.7.1",
                                                  .seed = test_seed() + number,
                                                  .heartbeat_ms = 100,
                                                  .election_ms = 1000});
}

static void open_world(void)
{
    CHECK_EQ(loop_open(&(struct loop_options){.worker_threads = 1}, &loop), ERR_OK);
    make_certs();
}

static void know(unsigned who, unsigned whom)
{
    const char *url = nodes[whom].url;

    peers_add(nodes[who].peers, id_of(whom), &url, 1);
}

static bool all_are_idle(const void *context)
{
    (void)context;
    for (unsigned i = 1; i <= MEMBERS; i++)
        if (nodes[i].peers && (!peers_is_idle(nodes[i].peers) || !tls_is_idle(nodes[i].tls)))
            return false;
    return true;
}

static void close_world(void)
{
    for (unsigned i = 1; i <= MEMBERS; i++) {
        if (!nodes[i].peers)
            continue;
        listener_close(nodes[i].listener);
        peers_stop(nodes[i].peers);
    }
    run_until(all_are_idle, NULL);
    for (unsigned i = 1; i <= MEMBERS; i++) {
        struct node *n = &nodes[i];
        peers_close(n->peers);
        tls_close(n->tls);
        buf_free(&n->result);
        buf_free(&n->image);
        buf_free(&n->log);
        buf_free(&n->identities);
    }
    loop_close(loop);
}

static void ask(unsigned who, const struct peer_ask *question)
{
    static uint64_t token;
    struct peer_ask asked = *question;

    asked.token = ++token;
    asked.verb = "GET";
    asked.path = "/members";
    asked.timeout_ms = 10 * 1000;
    nodes[who].results = 0;
    peers_ask(nodes[who].peers, &asked);
    run_until(has_come, &nodes[who].results);
}

TEST(members_meet_by_tls_and_without_it)
{
    open_world();
    open_node(1, "https", "localhost");
    open_node(2, "https", "127.0.0.1");
    open_node(3, "http", "127.0.0.1");
    for (unsigned i = 1; i <= MEMBERS; i++)
        for (unsigned j = 1; j <= MEMBERS; j++)
            if (i != j)
                know(i, j);
    run_until(has_all_streams, NULL);

    /* Streams. */
    struct raft_entry entry = {.term = 1, .index = 1, .data = BYTES("an entry")};
    peers_send(nodes[1].peers, &(struct raft_message){.type = RAFT_MSG_APP,
                                                      .from = id_of(1),
                                                      .to = id_of(2),
                                                      .term = 1,
                                                      .entries = &entry,
                                                      .entry_count = 1});
    peers_send(nodes[3].peers,
               &(struct raft_message){
                   .type = RAFT_MSG_HEARTBEAT, .from = id_of(3), .to = id_of(1), .term = 1});
    run_until(has_come, &nodes[2].appends);
    run_until(has_come, &nodes[1].messages);

    /* Requests: of a member, and at a URL before it is known whose that is. */
    ask(3, &(struct peer_ask){.member = id_of(1)});
    CHECK_EQ(nodes[3].status, 200);
    CHECK_BYTES(buf_bytes(&nodes[3].result), BYTES("here"));
    ask(1, &(struct peer_ask){.url = nodes[2].url});
    CHECK_EQ(nodes[1].status, 200);

    /* A snapshot. */
    for (size_t i = 0; i < sizeof(image); i++)
        image[i] = (uint8_t)(i * 31 >> 3);
    struct raft_snapshot snapshot = {.index = 7, .term = 1};
    peers_snapshot_begin(nodes[2].peers,
                         &(struct raft_message){.type = RAFT_MSG_SNAP,
                                                .from = id_of(2),
                                                .to = id_of(1),
                                                .term = 1,
                                                .snapshot = &snapshot},
                         sizeof(image));
    run_until(has_come, &nodes[2].sent);
    CHECK_EQ(nodes[2].failed, 0);
    CHECK(bytes_equal(buf_bytes(&nodes[1].image), bytes_of(image, sizeof(image))));

    /* Whoever came is known by name where he was asked for it. */
    CHECK(strstr(buf_str(&nodes[1].identities), "m2"));
    CHECK(strstr(buf_str(&nodes[1].identities), "m3"));
    CHECK(!strstr(buf_str(&nodes[1].identities), "nobody"));
    CHECK(!strstr(buf_str(&nodes[3].identities), "m1"));
    close_world();
}

/* A certificate of somebody else at the address is as good as nobody there. */
TEST(a_member_has_a_certificate_for_the_host_of_its_url)
{
    open_world();
    open_node(1, "https", "127.0.0.1"); /* its certificate is for localhost */
    open_node(2, "https", "127.0.0.1");
    ask(2, &(struct peer_ask){.url = nodes[1].url});

    CHECK_EQ(nodes[2].status, 0);
    CHECK(strstr(buf_str(&nodes[2].result), "tls: failed to verify certificate: x509: "));
    CHECK_EQ(nodes[1].requests, 0);

    snprintf(nodes[1].url, sizeof(nodes[1].url), "https://localhost:%u",
             nodes[1].listener->address.port);
    ask(2, &(struct peer_ask){.url = nodes[1].url});
    CHECK_EQ(nodes[2].status, 200);
    close_world();
}

/* Either way round, and whoever comes as he should is served. */
TEST(a_member_that_mistakes_the_scheme_is_not_reached)
{
    char https[64], http[64];

    open_world();
    open_node(1, "https", "localhost");
    open_node(2, "http", "127.0.0.1");
    open_node(3, "https", "127.0.0.1");
    snprintf(http, sizeof(http), "http://localhost:%u", nodes[1].listener->address.port);
    snprintf(https, sizeof(https), "https://127.0.0.1:%u", nodes[2].listener->address.port);

    ask(3, &(struct peer_ask){.url = http});
    CHECK_EQ(nodes[3].status, 0);
    CHECK(strstr(buf_str(&nodes[1].log), "rejected connection on peer endpoint"));
    CHECK(strstr(buf_str(&nodes[1].log), "tls: first record does not look like a TLS handshake"));

    ask(3, &(struct peer_ask){.url = https});
    CHECK_EQ(nodes[3].status, 0);
    CHECK(strstr(buf_str(&nodes[3].result), "tls: first record does not look like a TLS"));
    CHECK(!strstr(buf_str(&nodes[3].log), "rejected connection on peer endpoint"));

    ask(3, &(struct peer_ask){.url = nodes[1].url});
    CHECK_EQ(nodes[3].status, 200);
    ask(3, &(struct peer_ask){.url = nodes[2].url});
    CHECK_EQ(nodes[3].status, 200);
    close_world();
}
