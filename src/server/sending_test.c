/* A member that is behind the log, played by the test: what it is sent, and what becomes of it. */
#include "server/sending.h"

#include "base/mem.h"
#include "raft/raft.h"
#include "server/cluster_rig_test.h"
#include "server/server_int.h"
#include "snap/bolt_rig_test.h"

#include <stdio.h>

static const char *const flags[] = {"--snapshot-count", "5", "--snapshot-catchup-entries", "1",
                                    NULL};

/* --- the one that is behind --- */

struct laggard {
    struct cluster_rig *rig;
    struct cluster_rig_host *host;
    unsigned number;
    uint64_t id, cluster_id;
    struct peers *peers;
    struct listener *listener;
    uint64_t matched; /* the end of its log, of which only its length is there */

    bool refuses;
    size_t window;     /* of bytes granted at once */
    size_t bytes_left; /* that may still be granted */
    unsigned begun, ended;
    struct raft_message *message; /* of the last one */
    struct buf image;
};

static void accepted(struct listener *l, struct conn *c)
{
    peers_accept(((struct laggard *)l->options.context)->peers, c);
}

/* In the place of the member that was stopped. */
static void laggard_open(struct laggard *g)
{
    struct listener_options listening = {.on_accept = accepted, .context = g};
    struct net_address address;
    char text[64];

    CHECK(!g->host->server);
    snprintf(text, sizeof(text), "10.0.0.%u:2380", g->number);
    CHECK_EQ(net_address_parse(text, &address), ERR_OK);
    CHECK_EQ(net_listen(g->host->io.net, &address, &listening, &g->listener), ERR_OK);
    snprintf(text, sizeof(text), "http://10.0.0.%u:2380", g->number);
    g->peers = peers_open(&(struct peers_options){.io = &g->host->io,
                                                  .logger = &g->host->logger,
                                                  .self = g->id,
                                                  .cluster_id = g->cluster_id,
                                                  .urls = text,
                                                  .version = "3.7.1",
                                                  .seed = 7,
                                                  .heartbeat_ms = 100,
                                                  .election_ms = 1000});
    for (unsigned n = 1; n <= g->rig->count; n++) {
        const char *url = text;
        if (n == g->number)
            continue;
        snprintf(text, sizeof(text), "http://10.0.0.%u:2380", n);
        peers_add(g->peers, server_status(g->rig->at[n]->server).member_id, &url, 1);
    }
}

static void respond(struct laggard *g, const struct raft_message *m, struct raft_message response)
{
    response.to = m->from;
    response.from = g->id;
    response.term = m->term;
    peers_send(g->peers, &response);
}

static void hear_message(struct laggard *g, const struct raft_message *m)
{
    if (m->type == RAFT_MSG_HEARTBEAT) {
        respond(g, m,
                (struct raft_message){.type = RAFT_MSG_HEARTBEAT_RESP, .context = m->context});
    } else if (m->type == RAFT_MSG_APP && m->index > g->matched) {
        respond(g, m,
                (struct raft_message){.type = RAFT_MSG_APP_RESP,
                                      .reject = true,
                                      .index = m->index,
                                      .reject_hint = g->matched});
    } else if (m->type == RAFT_MSG_APP) {
        if (g->matched < m->index + m->entry_count)
            g->matched = m->index + m->entry_count;
        respond(g, m, (struct raft_message){.type = RAFT_MSG_APP_RESP, .index = g->matched});
    }
}

static void grant(struct laggard *g, uint64_t id, size_t most)
{
    size_t bytes = most < g->bytes_left ? most : g->bytes_left;

    g->bytes_left -= bytes;
    if (bytes > 0)
        peers_snapshot_grant(g->peers, id, bytes);
}

static void begin_image(struct laggard *g, const struct peer_event *e)
{
    g->begun++;
    buf_clear(&g->image);
    raft_message_free(g->message);
    g->message = raft_message_clone(e->message);
    if (g->refuses)
        peers_respond(g->peers, e->id, &(struct peer_response){.status = 500});
    else
        grant(g, e->id, g->window);
}

static void end_image(struct laggard *g, const struct peer_event *e)
{
    g->ended++;
    g->matched = g->message->snapshot->index;
    peers_respond(g->peers, e->id, &(struct peer_response){.status = 204});
    respond(g, g->message, (struct raft_message){.type = RAFT_MSG_APP_RESP, .index = g->matched});
}

static void hear(struct laggard *g, const struct peer_event *e)
{
    switch (e->kind) {
    case PEER_MESSAGE:
        hear_message(g, e->message);
        return;
    case PEER_SNAPSHOT_BEGIN:
        begin_image(g, e);
        return;
    case PEER_SNAPSHOT_BYTES:
        buf_append(&g->image, e->body);
        grant(g, e->id, e->body.len);
        return;
    case PEER_SNAPSHOT_END:
        end_image(g, e);
        return;
    default:
        return;
    }
}

static void step(struct laggard *g)
{
    struct peer_event e;

    cluster_rig_step(g->rig);
    inbox_drain(&g->host->inbox, 64);
    while (peers_take(g->peers, &e) || peers_take_append(g->peers, &e)) {
        hear(g, &e);
        peer_event_free(&e);
    }
    peers_flush(g->peers);
}

static void for_ms(struct laggard *g, uint64_t ms)
{
    uint64_t until_ms = cluster_rig_now_ms(g->rig) + ms;

    while (cluster_rig_now_ms(g->rig) < until_ms)
        step(g);
}

static void laggard_close(struct laggard *g)
{
    listener_close(g->listener);
    peers_stop(g->peers);
    while (!peers_is_idle(g->peers))
        step(g);
    peers_close(g->peers);
    raft_message_free(g->message);
    buf_free(&g->image);
    while (inbox_drain(&g->host->inbox, SIZE_MAX) > 0)
        continue;
}

/* --- a cluster that has gone on without it --- */

static void put(struct laggard *g, unsigned n)
{
    enum { VALUE_BYTES = 2000 };
    char key[16], *value = mem_alloc(VALUE_BYTES + 1);

    memset(value, 'v', VALUE_BYTES);
    value[VALUE_BYTES] = 0;
    snprintf(key, sizeof(key), "k%u", n);
    struct visit v;
    struct pb_put_request request = {.key = bytes_of_str(key), .value = bytes_of_str(value)};
    cluster_rig_ask(g->rig, cluster_rig_leader(g->rig), &v, "/etcdserverpb.KV/Put",
                    &pb_put_request_schema, &request);
    while (!v.is_over)
        if (g->peers)
            step(g);
        else
            cluster_rig_step(g->rig);
    CHECK_EQ(v.code, RPC_OK);
    visit_free(&v);
    mem_free(value);
}

static void open_cluster(struct cluster_rig *r, struct laggard *g)
{
    cluster_rig_open(r, 3, flags);
    cluster_rig_start_all(r);
    unsigned n = cluster_rig_follower(r);
    struct server_status status = server_status(r->at[n]->server);
    *g = (struct laggard){.rig = r,
                          .host = r->at[n],
                          .number = n,
                          .id = status.member_id,
                          .cluster_id = status.cluster_id,
                          .window = SIZE_MAX / 4,
                          .bytes_left = SIZE_MAX / 2};
    cluster_rig_stop(r, n);
    for (unsigned i = 0; i < 400; i++)
        put(g, i);
}

static struct server *leader(struct laggard *g)
{
    return g->rig->at[cluster_rig_leader(g->rig)]->server;
}

static void close_cluster(struct laggard *g)
{
    laggard_close(g);
    cluster_rig_close(g->rig);
}

/* --- tests --- */

/* What etcd's raft names is the snapshot of the log; what goes out is newer. */
TEST(a_member_that_is_behind_the_log_is_sent_an_image_and_then_entries)
{
    struct cluster_rig r;
    struct laggard g;
    struct bolt_fault fault = {0};
    struct bolt_sum sum;
    open_cluster(&r, &g);
    CHECK(server_status(leader(&g)).log_base > 100);
    g.window = 100000; /* slower than puts */

    laggard_open(&g);
    for (unsigned i = 0; g.ended == 0; i++)
        put(&g, i);
    uint64_t base = server_status(leader(&g)).log_base;
    while (g.matched < server_status(leader(&g)).applied)
        step(&g);

    CHECK_EQ(g.begun, 1);
    CHECK_EQ(rig_read_all(buf_bytes(&g.image), BOLT_IMAGE, &fault, &sum), ERR_OK);
    CHECK(g.image.len > 400 * 2000);
    CHECK_EQ(g.message->snapshot->conf_state.voters.count, 3);
    CHECK(bytes_starts_with(g.message->snapshot->data, BYTES("{")));
    CHECK(g.message->snapshot->index >= base);
    unsigned n = cluster_rig_leader(&r);
    CHECK(cluster_rig_logged(&r, n, "sending merged snapshot"));
    while (!cluster_rig_logged(&r, n, "sent merged snapshot"))
        step(&g);
    CHECK(cutting_is_idle(&leader(&g)->cutting));
    close_cluster(&g);
}

TEST(the_log_is_kept_for_a_member_that_was_sent_an_image)
{
    struct cluster_rig r;
    struct laggard g;
    open_cluster(&r, &g);
    g.bytes_left = 200000; /* not all of it */
    laggard_open(&g);
    while (g.image.len < 100000)
        step(&g);
    unsigned n = cluster_rig_leader(&r);
    uint64_t base = server_status(leader(&g)).log_base;

    for (unsigned i = 0; i < 50; i++)
        put(&g, i);
    for_ms(&g, 1000);
    CHECK_EQ(server_status(leader(&g)).log_base, base);
    CHECK(cluster_rig_logged(&r, n, "skip compaction since there is an inflight snapshot"));
    g.bytes_left = SIZE_MAX / 2;
    laggard_close(&g); /* it goes away */
    g.peers = NULL;
    for (unsigned i = 0; i < 20; i++)
        put(&g, i);
    cluster_rig_for_ms(&r, 2000);
    for (unsigned i = 0; i < 20; i++)
        put(&g, i);
    CHECK(server_status(leader(&g)).log_base > base);

    g.message = NULL;
    g.image = (struct buf){0};
    laggard_open(&g);
    while (g.ended == 0)
        step(&g);
    base = server_status(leader(&g)).log_base;
    for (unsigned i = 0; i < 20; i++)
        put(&g, i);
    for_ms(&g, SENDING_LOG_MS - 5000);
    for (unsigned i = 0; i < 20; i++)
        put(&g, i);
    CHECK_EQ(server_status(leader(&g)).log_base, base);
    for_ms(&g, 6000);
    for (unsigned i = 0; i < 20; i++)
        put(&g, i);
    for_ms(&g, 1000);
    CHECK(server_status(leader(&g)).log_base > base);
    close_cluster(&g);
}

TEST(a_member_that_refuses_an_image_is_sent_another_after_a_pause)
{
    struct cluster_rig r;
    struct laggard g;
    open_cluster(&r, &g);
    g.refuses = true;
    laggard_open(&g);
    while (g.begun == 0)
        step(&g);

    for_ms(&g, 10 * SENDING_PAUSE_MS);
    CHECK(g.begun > 5);
    CHECK(g.begun <= 11);
    g.refuses = false;
    while (g.ended == 0)
        step(&g);

    put(&g, 0);
    while (g.matched < server_status(leader(&g)).applied)
        step(&g);
    close_cluster(&g);
}

/* Another leads, and what the first one sends is of no use to anybody. */
TEST(who_leads_no_more_sends_no_more)
{
    struct cluster_rig r;
    struct laggard g;
    open_cluster(&r, &g);
    g.bytes_left = 100000;
    laggard_open(&g);
    while (g.image.len < 100000)
        step(&g);
    unsigned first = cluster_rig_leader(&r);
    struct server *s = r.at[first]->server;
    CHECK(!cutting_is_idle(&s->cutting));

    uint64_t from_ms = cluster_rig_now_ms(&r);
    unsigned other = 6 - first - g.number;
    raft_transfer_leader(s->raft, server_status(r.at[other]->server).member_id);
    server_come_back(s);
    while (cluster_rig_leader(&r) != other)
        step(&g);
    while (!cutting_is_idle(&s->cutting))
        step(&g);
    CHECK(cluster_rig_now_ms(&r) < from_ms + 5000);
    CHECK(!cluster_rig_logged(&r, first, "sent merged snapshot"));
    g.bytes_left = SIZE_MAX / 2;
    while (g.ended == 0)
        step(&g);

    CHECK_EQ(g.begun, 2);
    CHECK_EQ(g.message->from, server_status(r.at[other]->server).member_id);
    close_cluster(&g);
}

/* It takes neither byte nor leave: the post ends, and compaction goes on. */
TEST(a_member_that_does_not_read_its_image_does_not_hold_it_for_ever)
{
    struct cluster_rig r;
    struct laggard g;
    open_cluster(&r, &g);
    g.bytes_left = 1000;
    laggard_open(&g);
    while (g.begun == 0)
        step(&g);
    struct server *s = leader(&g);

    while (!cutting_is_idle(&s->cutting))
        step(&g);

    g.bytes_left = SIZE_MAX / 2;
    while (g.ended == 0)
        step(&g);
    close_cluster(&g);
}

TEST(a_leader_that_stops_or_crashes_gives_up_what_it_sends)
{
    for (unsigned bytes = 0; bytes <= 200000; bytes += 100000) {
        for (unsigned crashes = 0; crashes < 2; crashes++) {
            struct cluster_rig r;
            struct laggard g;
            open_cluster(&r, &g);
            g.bytes_left = bytes;
            laggard_open(&g);
            while (g.begun == 0 || g.image.len < bytes)
                step(&g);
            unsigned n = cluster_rig_leader(&r);

            if (crashes)
                cluster_rig_crash(&r, n);
            else
                cluster_rig_stop(&r, n);

            CHECK(crashes ||
                  cluster_rig_logged(&r, n, "canceled sending merged snapshot; server stopping"));
            close_cluster(&g);
        }
    }
}
