/*
 * Real etcd as the other of two members. We vote for it, acknowledge what it appends and so let it
 * serve, with a follower that is no more than this file: both streams, either way, and posts are
 * etcd's own here. And two of them, who need us for nothing: when we have heard no append for so
 * long that the log begins later, the leader sends a snapshot; and may have it back.
 */
#include "cluster/cluster.h"
#include "harness/peer_test.h"
#include "harness/test.h"
#include "io/clock.h"
#include "io/io.h"
#include "io/loop.h"
#include "peer/peer.h"
#include "snap/bolt.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_S = 60, LOG_MAX = 10000 };

struct follower {
    struct loop *loop;
    struct peers *peers;
    struct listener *listener;
    uint64_t self, etcd;
    uint64_t term, last, commit, terms[LOG_MAX];
    size_t votes, appends, heartbeats, entries, put_index, results;
    bool is_deaf; /* to appends */
    uint64_t leader;
    size_t begun, ended, sent, failed;
    uint64_t snapshot_id, credit;
    struct raft_message *snapshot;
    struct buf image;
    uint64_t handed_in;
    unsigned version_status;
    struct buf version, log;
};

static struct follower follower;

static void keep_line(void *context, struct bytes line)
{
    (void)context;
    buf_append(&follower.log, line);
}

static void respond(const struct raft_message *m, struct raft_message response)
{
    response.from = follower.self;
    response.to = m->from;
    response.term = m->term;
    peers_send(follower.peers, &response);
}

static void append(const struct raft_message *m)
{
    struct follower *f = &follower;

    f->appends++;
    f->leader = m->from;
    if (f->is_deaf)
        return;
    bool matches = m->index <= f->last && (m->index == 0 || f->terms[m->index] == m->log_term);
    if (!matches) {
        respond(m, (struct raft_message){.type = RAFT_MSG_APP_RESP,
                                         .index = m->index,
                                         .reject = true,
                                         .reject_hint = f->last,
                                         .log_term = f->terms[f->last]});
        return;
    }
    for (size_t i = 0; i < m->entry_count; i++) {
        const struct raft_entry *e = &m->entries[i];
        CHECK_EQ(e->index, m->index + 1 + i);
        CHECK(e->index < LOG_MAX);
        f->terms[e->index] = e->term;
        f->last = e->index;
        f->entries++;
        if (e->data.len > 0 && memmem(e->data.at, e->data.len, "the-key", 7))
            f->put_index = e->index;
    }
    if (m->commit > f->commit)
        f->commit = m->commit;
    respond(m,
            (struct raft_message){.type = RAFT_MSG_APP_RESP, .index = m->index + m->entry_count});
}

static void step(const struct raft_message *m)
{
    struct follower *f = &follower;

    if (m->term > f->term && m->type != RAFT_MSG_PRE_VOTE)
        f->term = m->term;
    switch (m->type) {
    case RAFT_MSG_PRE_VOTE:
        f->votes++;
        respond(m, (struct raft_message){.type = RAFT_MSG_PRE_VOTE_RESP});
        break;
    case RAFT_MSG_VOTE:
        f->votes++;
        respond(m, (struct raft_message){.type = RAFT_MSG_VOTE_RESP});
        break;
    case RAFT_MSG_APP:
        append(m);
        break;
    case RAFT_MSG_HEARTBEAT:
        f->heartbeats++;
        respond(m, (struct raft_message){.type = RAFT_MSG_HEARTBEAT_RESP, .context = m->context});
        break;
    default:
        break;
    }
}

static const char VERSION[] =
    "{\"etcdserver\":\"3.7.1\",\"etcdcluster\":\"3.7.0\",\"storage\":\"3.7.0\"}";

enum { SNAPSHOT_CREDIT = 100000 };

static void hear_snapshot(const struct peer_event *e)
{
    struct follower *f = &follower;

    switch (e->kind) {
    case PEER_SNAPSHOT_BEGIN:
        CHECK_EQ(f->begun, f->ended);         /* one at a time */
        CHECK_EQ(e->image_bytes, UINT64_MAX); /* it comes in chunks */
        f->begun++;
        f->snapshot_id = e->id;
        raft_message_free(f->snapshot);
        f->snapshot = raft_message_clone(e->message);
        buf_clear(&f->image);
        f->credit = SNAPSHOT_CREDIT;
        peers_snapshot_grant(f->peers, e->id, SNAPSHOT_CREDIT);
        return;
    case PEER_SNAPSHOT_BYTES:
        CHECK(e->body.len <= f->credit);
        buf_append(&f->image, e->body);
        peers_snapshot_grant(f->peers, e->id, e->body.len);
        return;
    case PEER_SNAPSHOT_END:
        f->ended++;
        return;
    case PEER_SNAPSHOT_SENT:
        f->sent++;
        return;
    case PEER_SNAPSHOT_FAILED:
        f->failed++;
        return;
    default:
        return;
    }
}

static void send_snapshot(void)
{
    struct follower *f = &follower;

    if (!f->peers || f->leader == 0)
        return;
    for (size_t credit; (credit = peers_snapshot_credit(f->peers, f->leader)) > 0;) {
        peers_snapshot_write(f->peers, f->leader, bytes_of(f->image.at + f->handed_in, credit));
        f->handed_in += credit;
    }
}

static void turn(void *context)
{
    struct follower *f = context;
    struct peer_event e;

    inbox_drain(loop_io(f->loop)->inbox, 1000);
    if (!f->peers)
        return;
    while (peers_take(f->peers, &e) || peers_take_append(f->peers, &e)) {
        if (e.kind == PEER_MESSAGE)
            step(e.message);
        if (e.kind == PEER_REQUEST) /* of our version, from the leader */
            peers_respond(f->peers, e.id,
                          &(struct peer_response){.status = 200,
                                                  .content_type = "application/json",
                                                  .body = bytes_of_str(VERSION)});
        if (e.kind == PEER_RESULT) {
            f->results++;
            f->version_status = e.status;
            buf_append(&f->version, e.body);
        }
        hear_snapshot(&e);
        peer_event_free(&e);
    }
    send_snapshot();
    peers_flush(f->peers);
    peers_check(f->peers);
}

static void out_of_patience(struct timer *t)
{
    (void)t;
    test_fail(__FILE__, __LINE__, "it did not happen within %d s", PATIENCE_S);
}

static void run_until(const size_t *count, size_t want)
{
    struct timer patience = {.on_time = out_of_patience};
    struct clock *clock = loop_io(follower.loop)->clock;

    timer_start(clock, &patience, PATIENCE_S * NS_PER_S);
    while (*count < want)
        loop_run_once(follower.loop, turn, &follower);
    timer_stop(clock, &patience);
}

static void on_accept(struct listener *l, struct conn *c)
{
    (void)l;
    peers_accept(follower.peers, c);
}

static int64_t no_time(void *context)
{
    (void)context;
    return 0;
}

static uint64_t id_of(const char *url)
{
    const struct bytes text = bytes_of_str(url);

    return cluster_member_id((struct url_list){&text, 1}, BYTES("etcd-cluster"));
}

/* `second` may be NULL. */
static void open_follower(struct peer *etcd, struct peer *second, char url[64])
{
    static const struct logger logger = {
        .level = LOG_INFO, .format = LOG_JSON, .sink = keep_line, .clock = no_time};
    struct follower *f = &follower;
    struct net_address any;

    CHECK_EQ(loop_open(&(struct loop_options){.worker_threads = 1}, &f->loop), ERR_OK);
    CHECK_EQ(net_address_parse("127.0.0.1:0", &any), ERR_OK);
    CHECK_EQ(net_listen(loop_io(f->loop)->net, &any,
                        &(struct listener_options){.on_accept = on_accept}, &f->listener),
             ERR_OK);
    snprintf(url, 64, "http://127.0.0.1:%u", f->listener->address.port);
    f->self = id_of(url);
    f->etcd = id_of(etcd->peer_url);
    const uint64_t ids[] = {f->self, f->etcd, second ? id_of(second->peer_url) : 0};
    f->peers = peers_open(&(struct peers_options){.io = loop_io(f->loop),
                                                  .logger = &logger,
                                                  .self = f->self,
                                                  .cluster_id = cluster_id_of(ids, second ? 3 : 2),
                                                  .urls = url,
                                                  .version = "3.7.1",
                                                  .seed = test_seed(),
                                                  .heartbeat_ms = 100,
                                                  .election_ms = 1000});
    peers_add(f->peers, f->etcd, &etcd->peer_url, 1);
    if (second)
        peers_add(f->peers, ids[2], &second->peer_url, 1);
}

static void close_follower(void)
{
    struct follower *f = &follower;

    listener_close(f->listener);
    peers_stop(f->peers);
    while (!peers_is_idle(f->peers))
        loop_run_once(f->loop, turn, f);
    peers_close(f->peers);
    f->peers = NULL;
    loop_close(f->loop);
    buf_free(&f->version);
    buf_free(&f->log);
    buf_free(&f->image);
    raft_message_free(f->snapshot);
}

static size_t lines_with(struct peer *etcd, const char *text)
{
    return (size_t)strtoul(
        peer_run(&etcd->arena, "grep -c -F '%s' %s.log || true", text, etcd->dir), NULL, 10);
}

TEST(real_etcd_replicates_to_us_and_serves)
{
    struct peer etcd;
    struct follower *f = &follower;
    char url[64], flags[256], out[512];

    snprintf(out, sizeof(out), "%s/etcd", test_tmp_dir());
    peer_open(&etcd, out);
    open_follower(&etcd, NULL, url);
    snprintf(flags, sizeof(flags), "--initial-cluster m=%s,us=%s", etcd.peer_url, url);
    peer_launch(&etcd, flags);

    /* It asks for votes, leads, and fills our log. */
    run_until(&f->votes, 2);
    run_until(&f->entries, 3);
    run_until(&f->heartbeats, 3);

    /* A put of a client is answered once we have it. */
    snprintf(out, sizeof(out), "%s/out", test_tmp_dir());
    peer_run(&etcd.arena, "($PEERS/etcdctl --endpoints %s put the-key value > %s 2>&1) & true",
             etcd.client_url, out);
    run_until(&f->put_index, 1);
    run_until(&f->commit, f->put_index);

    /* Its port answers us, too. */
    peers_ask(
        f->peers,
        &(struct peer_ask){
            .token = 1, .member = f->etcd, .verb = "GET", .path = "/version", .timeout_ms = 10000});
    run_until(&f->results, 1);
    CHECK_EQ(f->version_status, 200);
    CHECK(strstr(buf_str(&f->version), "\"etcdserver\":\"3.7.1\""));

    /* All four streams are there, and neither side has lost one. */
    struct peer_status s;
    CHECK(peers_status(f->peers, f->etcd, &s));
    CHECK_EQ(s.streams, 4);
    CHECK(!strstr(buf_str(&f->log), "lost TCP streaming"));
    CHECK_EQ(lines_with(&etcd, "established TCP streaming connection with remote peer"), 4);
    CHECK_EQ(lines_with(&etcd, "lost TCP streaming connection"), 0);
    size_t beats = f->heartbeats;
    run_until(&f->heartbeats, beats + 60); /* longer than either side would bear silence */
    CHECK_EQ(lines_with(&etcd, "lost TCP streaming connection"), 0);
    CHECK_STR(peer_run(&etcd.arena, "cat %s", out), "OK");
    CHECK(peers_status(f->peers, f->etcd, &s));
    CHECK_EQ(s.streams, 4);
    CHECK(s.round_trip_ns > 0);

    peer_kill(&etcd);
    close_follower();
    peer_close(&etcd);
}

/* --- snapshots --- */

static void check_image(struct bytes image)
{
    struct bolt_memory memory;
    struct bolt_fault fault = {0};
    struct bolt *bolt;

    bolt_memory_init(&memory, image);
    CHECK_EQ(bolt_open(&memory.source, BOLT_IMAGE, &fault, &bolt), ERR_OK);
    CHECK_EQ(bolt_check(bolt), ERR_OK);
    CHECK(!fault.what);
    bolt_close(bolt);
    CHECK(memmem(image.at, image.len, "the-key", 7));
}

/* Puts, by somebody who does not need our turn to come. */
static void put_some(struct peer *etcd, const char *key, unsigned count)
{
    peer_run(&etcd->arena,
             "for i in $(seq %u); do head -c 20000 /dev/zero | tr '\\0' x | "
             "$PEERS/etcdctl --endpoints %s put %s$i; done",
             count, etcd->client_url, key);
}

TEST(real_etcd_sends_us_a_snapshot_and_takes_it_back)
{
    struct peer etcds[2];
    struct follower *f = &follower;
    char url[64], path[512];

    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/etcd%u", test_tmp_dir(), i);
        peer_open(&etcds[i], path);
    }
    open_follower(&etcds[0], &etcds[1], url);
    f->is_deaf = true;
    for (unsigned i = 0; i < 2; i++)
        peer_launch(&etcds[i], arena_printf(&etcds[i].arena,
                                            "--name m%u --initial-cluster m0=%s,m1=%s,us=%s "
                                            "--snapshot-count=10 --snapshot-catchup-entries=5",
                                            i, etcds[0].peer_url, etcds[1].peer_url, url));
    run_until(&f->heartbeats, 3);
    put_some(&etcds[0], "the-key", 40);

    /* It finds that what we lack is not in its log any more. */
    f->is_deaf = false;
    run_until(&f->ended, 1);
    CHECK(f->snapshot->snapshot->index > 10);
    CHECK(f->snapshot->snapshot->data.len > 0);
    CHECK_EQ(f->snapshot->snapshot->conf_state.voters.count, 3);
    CHECK(f->image.len > 40 * 20000);
    check_image(buf_bytes(&f->image));
    peers_respond(f->peers, f->snapshot_id,
                  &(struct peer_response){.status = 204, .with_cluster_id = true});
    f->last = f->snapshot->snapshot->index;
    f->terms[f->last] = f->snapshot->snapshot->term;
    respond(f->snapshot, (struct raft_message){.type = RAFT_MSG_APP_RESP, .index = f->last});

    /* It goes on behind it. */
    size_t entries = f->entries;
    put_some(&etcds[0], "more", 1);
    run_until(&f->entries, entries + 1);
    struct peer *leader = &etcds[f->leader == id_of(etcds[1].peer_url)];
    CHECK_EQ(lines_with(leader, "\"sent database snapshot\""), 1);
    CHECK_EQ(lines_with(leader, "failed to send database snapshot"), 0);

    /* Now as if we led, in an old term, which raft there does not mind. */
    struct raft_message m = *f->snapshot;
    m.from = f->self;
    m.to = f->leader;
    m.term = 1;
    peers_snapshot_begin(f->peers, &m, f->image.len);
    run_until(&f->sent, 1);
    CHECK_EQ(f->handed_in, f->image.len);
    CHECK_EQ(f->failed, 0);
    snprintf(path, sizeof(path), "%s/image", test_tmp_dir());
    FILE *file = fopen(path, "w");
    CHECK(file);
    CHECK_EQ(fwrite(f->image.at, 1, f->image.len, file), f->image.len);
    CHECK_EQ(fclose(file), 0);
    peer_run(&leader->arena, "cmp %s %s/member/snap/%016llx.snap.db", path, leader->dir,
             (unsigned long long)f->snapshot->snapshot->index);
    CHECK_EQ(lines_with(leader, "received and saved database snapshot"), 1);

    for (unsigned i = 0; i < 2; i++)
        peer_kill(&etcds[i]);
    close_follower();
    for (unsigned i = 0; i < 2; i++)
        peer_close(&etcds[i]);
}
