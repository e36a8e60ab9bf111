/* Snapshots that come: taken, refused, given up, and what a crash leaves of them. */
#include "backend/backend.h"
#include "peer/peer.h"
#include "raft/raft.h"
#include "server/cluster_rig_test.h"
#include "server/digest.h"
#include "server/server_int.h"
#include "snap/bolt_rig_test.h"

#include <stdio.h>

/* --- somebody who sends them, in another member's name --- */

struct sender {
    struct cluster_rig *r;
    struct fake_resolver resolver;
    struct io io;
    struct logger logger;
    struct peers *peers;
    uint64_t to;
    struct bytes image;
    size_t sent_bytes;
    unsigned sent, failed;
};

static uint64_t id_of(struct cluster_rig *r, unsigned n)
{
    return server_status(r->at[n]->server).member_id;
}

static void sender_open(struct sender *s, struct cluster_rig *r, uint64_t self, unsigned to)
{
    char url[40];
    const char *urls[] = {url};

    *s = (struct sender){
        .r = r, .logger = {.level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none}};
    fake_resolver_init(&s->resolver, &r->time, &r->client_inbox);
    s->io = r->client_io;
    s->io.resolver = &s->resolver.base;
    s->to = id_of(r, to);
    s->peers = peers_open(
        &(struct peers_options){.io = &s->io,
                                .logger = &s->logger,
                                .self = self,
                                .cluster_id = server_status(r->at[to]->server).cluster_id,
                                .urls = "http://10.0.1.1:2380",
                                .version = SERVER_VERSION,
                                .seed = test_seed(),
                                .heartbeat_ms = 100,
                                .election_ms = 1000});
    snprintf(url, sizeof(url), "http://10.0.0.%u:2380", to);
    peers_add(s->peers, s->to, urls, 1);
}

static void sender_close(struct sender *s)
{
    peers_stop(s->peers);
    while (!peers_is_idle(s->peers))
        cluster_rig_step(s->r);
    peers_close(s->peers);
}

/* One step of the world, and of what is being sent. */
static void sender_step(struct sender *s)
{
    struct peer_event e;

    size_t credit = peers_snapshot_credit(s->peers, s->to), left = s->image.len - s->sent_bytes;
    if (credit > left)
        credit = left;
    if (credit > 0) {
        peers_snapshot_write(s->peers, s->to, bytes_of(s->image.at + s->sent_bytes, credit));
        s->sent_bytes += credit;
    }
    peers_flush(s->peers);
    cluster_rig_step(s->r);
    while (peers_take(s->peers, &e)) {
        s->sent += e.kind == PEER_SNAPSHOT_SENT;
        s->failed += e.kind == PEER_SNAPSHOT_FAILED;
        peer_event_free(&e);
    }
    while (peers_take_append(s->peers, &e))
        peer_event_free(&e);
}

/* --- images --- */

/* A member's state as etcd's file, and what a MsgSnap says of it. */
struct shot {
    struct arena arena;
    struct rig_bucket buckets[BUCKET_COUNT];
    struct raft_snapshot snapshot;
    struct buf image;
    uint64_t from, term;
};

static void shot_write(struct shot *p)
{
    buf_clear(&p->image);
    rig_write(p->buckets, BUCKET_COUNT, NULL, &p->image);
}

static void shot_take(struct shot *p, struct cluster_rig *r, unsigned n)
{
    struct server *s = r->at[n]->server;
    struct backend_view v;
    struct bytes key, value;

    *p = (struct shot){.from = id_of(r, n), .term = server_status(s).term};
    backend_view_open(s->state.backend, &v);
    for (int b = 0; b < BUCKET_COUNT; b++) {
        struct backend_cursor c;
        p->buckets[b].name = bytes_of_str(bucket_name((enum bucket)b));
        backend_cursor_open(&v, (enum bucket)b, (struct bytes){0}, &c);
        while (backend_cursor_next(&c, &key, &value) == ERR_OK)
            rig_add(&p->buckets[b], arena_copy(&p->arena, key), arena_copy(&p->arena, value));
        backend_cursor_close(&c);
    }
    backend_view_close(&v);
    p->snapshot = (struct raft_snapshot){.index = s->facts.applied_index,
                                         .term = s->facts.applied_term,
                                         .conf_state = s->conf_state};
    shot_write(p);
}

static void shot_free(struct shot *p)
{
    rig_free(p->buckets, BUCKET_COUNT);
    buf_free(&p->image);
    arena_free(&p->arena);
}

static void send_some_of(struct sender *s, const struct shot *p, uint64_t announced, size_t bytes)
{
    struct raft_message m = {.type = RAFT_MSG_SNAP,
                             .from = p->from,
                             .to = s->to,
                             .term = p->term,
                             .snapshot = &p->snapshot};

    s->image = bytes_of(p->image.at, bytes);
    s->sent_bytes = 0;
    peers_snapshot_begin(s->peers, &m, announced);
    peers_flush(s->peers);
}

static void send_shot(struct sender *s, const struct shot *p)
{
    send_some_of(s, p, p->image.len, p->image.len);
}

/* Until there is a response, or the connection has gone. */
static void until_over(struct sender *s)
{
    unsigned before = s->sent + s->failed;

    while (s->sent + s->failed == before)
        sender_step(s);
}

/* --- three members, of which one has missed too much --- */

enum { BEFORE = 3, MISSED = 60 };

static const char *const flags[] = {"--snapshot-count", "10", "--snapshot-catchup-entries", "5",
                                    NULL};

struct stage {
    struct cluster_rig r;
    unsigned leader, behind;
    struct sender sender;
    struct shot shot;
};

static void put_some(struct stage *t, unsigned count)
{
    char key[16];

    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "k%03u", i);
        cluster_rig_put(&t->r, t->leader, key, "value");
    }
}

static void stage_open(struct stage *t)
{
    *t = (struct stage){0};
    cluster_rig_open(&t->r, 3, flags);
    cluster_rig_start_all(&t->r);
    t->leader = cluster_rig_leader(&t->r);
    put_some(t, BEFORE);
    t->behind = cluster_rig_follower(&t->r);
    cluster_rig_until_equal(&t->r, t->leader);
    cluster_rig_cut(&t->r, t->behind, true);
    put_some(t, MISSED);
    cluster_rig_for_ms(&t->r, 1000); /* the log is released meanwhile */
    CHECK(server_status(t->r.at[t->leader]->server).log_base >
          server_status(t->r.at[t->behind]->server).log_last);
    shot_take(&t->shot, &t->r, t->leader);
    cluster_rig_cut(&t->r, t->behind, false);
    sender_open(&t->sender, &t->r, t->shot.from, t->behind);
}

static void stage_close(struct stage *t)
{
    sender_close(&t->sender);
    shot_free(&t->shot);
    cluster_rig_close(&t->r);
}

static struct server *behind(struct stage *t)
{
    return t->r.at[t->behind]->server;
}

/* What lies in its folder of snapshots, but for .snap files. */
static const char *left_over(struct stage *t)
{
    static char kept[512];
    struct buf names = {0}, text = {0};

    CHECK_EQ(disk_list(t->r.at[t->behind]->io.disk, "/data/member/snap", 1 * MIB, &names), ERR_OK);
    struct bytes left = buf_bytes(&names);
    for (const char *name; (name = disk_next_name(&left));)
        if (strlen(name) != SNAPFILE_NAME_BYTES - 1)
            buf_printf(&text, "%s ", name);
    snprintf(kept, sizeof(kept), "%s", buf_str(&text));
    buf_free(&names);
    buf_free(&text);
    return kept;
}

static void check_equal(struct stage *t)
{
    struct digest a, b;

    cluster_rig_until_equal(&t->r, t->leader);
    CHECK(server_digest(t->r.at[t->leader]->server, &a));
    CHECK(server_digest(behind(t), &b));
    CHECK_EQ(a.applied, b.applied);
    CHECK_EQ(a.revision, b.revision);
    for (size_t i = 0; i < DIGEST_PARTS; i++)
        CHECK_EQ(a.parts[i], b.parts[i]);
}

TEST(a_member_that_is_behind_takes_a_snapshot_and_goes_on_from_it)
{
    struct stage t;
    stage_open(&t);

    send_shot(&t.sender, &t.shot);
    until_over(&t.sender);

    CHECK_EQ(t.sender.sent, 1);
    CHECK_EQ(server_received(behind(&t)), 1); /* and raft has it when that is told */
    while (server_installed(behind(&t)) == 0)
        sender_step(&t.sender);
    CHECK_EQ(server_status(behind(&t)).log_base, t.shot.snapshot.index);
    CHECK_STR(cluster_rig_get(&t.r, t.behind, "k059", true), "value");
    put_some(&t, 20);
    check_equal(&t);
    CHECK_STR(left_over(&t), "");
    CHECK(cluster_rig_logged(&t.r, t.behind, "received and saved database snapshot"));
    CHECK(cluster_rig_logged(&t.r, t.behind, "applying snapshot"));
    CHECK(cluster_rig_logged(&t.r, t.behind, "applied snapshot"));

    cluster_rig_stop(&t.r, t.behind);
    cluster_rig_start(&t.r, t.behind);
    check_equal(&t);
    stage_close(&t);
}
