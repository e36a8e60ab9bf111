/* An image of a gigabyte from one room to another, each with a thread and a loop of its own, over
 * loopback; and what the longest turn of either took, as its thread's CPU has it. */
#include "base/assert.h"
#include "base/limits.h"
#include "harness/bench.h"
#include "io/clock.h"
#include "io/io.h"
#include "io/loop.h"
#include "peer/peer.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { SENDER = 1, RECEIVER = 2, CREDIT = 1 * MIB };
static const uint64_t IMAGE_BYTES = 1024ull * MIB;

struct end {
    struct loop *loop;
    struct peers *peers;
    struct listener *listener;
    uint64_t self, longest_ns, received;
    bool is_done;
};

static struct end ends[2];
static uint8_t chunk[PEER_SNAPSHOT_CREDIT_BYTES];

static uint64_t thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void hear(struct end *end, const struct peer_event *e)
{
    switch (e->kind) {
    case PEER_SNAPSHOT_BEGIN:
        peers_snapshot_grant(end->peers, e->id, CREDIT);
        break;
    case PEER_SNAPSHOT_BYTES:
        end->received += e->body.len;
        peers_snapshot_grant(end->peers, e->id, e->body.len);
        break;
    case PEER_SNAPSHOT_END:
        assert(end->received == IMAGE_BYTES);
        peers_respond(end->peers, e->id, &(struct peer_response){.status = 204});
        end->is_done = true;
        break;
    case PEER_SNAPSHOT_SENT:
        end->is_done = true;
        break;
    default:
        assert(e->kind != PEER_SNAPSHOT_FAILED);
        break;
    }
}

static void work(struct end *end)
{
    struct peer_event e;

    while (peers_take(end->peers, &e)) {
        hear(end, &e);
        peer_event_free(&e);
    }
    for (size_t credit; (credit = peers_snapshot_credit(end->peers, RECEIVER)) > 0;)
        peers_snapshot_write(end->peers, RECEIVER, bytes_of(chunk, credit));
    peers_flush(end->peers);
}

static void turn(void *context)
{
    struct end *end = context;
    struct inbox *inbox = loop_io(end->loop)->inbox;
    uint64_t began_ns = thread_ns();

    while (inbox_drain(inbox, 1) > 0 && thread_ns() - began_ns < TURN_EVENTS_US * 1000)
        ;
    if (end->peers)
        work(end);
    uint64_t took_ns = thread_ns() - began_ns;
    if (took_ns > end->longest_ns)
        end->longest_ns = took_ns;
}

static void on_accept(struct listener *l, struct conn *c)
{
    struct end *end = l->options.context;

    peers_accept(end->peers, c);
}

static void open_end(struct end *end, uint64_t self, char url[64])
{
    static const struct logger quiet = {
        .level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none};
    struct net_address any;

    *end = (struct end){.self = self};
    enum err e = loop_open(&(struct loop_options){.worker_threads = 1}, &end->loop);
    assert(e == ERR_OK);
    e = net_address_parse("127.0.0.1:0", &any);
    assert(e == ERR_OK);
    e = net_listen(loop_io(end->loop)->net, &any,
                   &(struct listener_options){.on_accept = on_accept, .context = end},
                   &end->listener);
    assert(e == ERR_OK);
    int len = snprintf(url, 64, "http://127.0.0.1:%u", end->listener->address.port);
    assert(len > 0);
    end->peers = peers_open(&(struct peers_options){.io = loop_io(end->loop),
                                                    .logger = &quiet,
                                                    .self = self,
                                                    .cluster_id = 7,
                                                    .urls = url,
                                                    .version = "3.7.1",
                                                    .heartbeat_ms = 100,
                                                    .election_ms = 1000});
}

static void *run_end(void *context)
{
    struct end *end = context;

    if (end->self == SENDER) {
        struct raft_snapshot snapshot = {.index = 7, .term = 3, .data = BYTES("{}")};
        peers_snapshot_begin(end->peers,
                             &(struct raft_message){.type = RAFT_MSG_SNAP,
                                                    .from = SENDER,
                                                    .to = RECEIVER,
                                                    .term = 3,
                                                    .snapshot = &snapshot},
                             IMAGE_BYTES);
    }
    while (!end->is_done)
        loop_run_once(end->loop, turn, end);
    return NULL;
}

static void close_end(struct end *end)
{
    listener_close(end->listener);
    peers_stop(end->peers);
    while (!peers_is_idle(end->peers))
        loop_run_once(end->loop, turn, end);
    peers_close(end->peers);
    end->peers = NULL;
    loop_close(end->loop);
}

BENCH(peer_snapshot)
{
    char urls[2][64];
    pthread_t thread;
    struct timespec from, until;

    open_end(&ends[0], SENDER, urls[0]);
    open_end(&ends[1], RECEIVER, urls[1]);
    peers_add(ends[0].peers, RECEIVER, (const char *const[]){urls[1]}, 1);
    clock_gettime(CLOCK_MONOTONIC, &from);
    int failed = pthread_create(&thread, NULL, run_end, &ends[1]);
    assert(failed == 0);
    run_end(&ends[0]);
    failed = pthread_join(thread, NULL);
    assert(failed == 0);
    clock_gettime(CLOCK_MONOTONIC, &until);
    double seconds =
        (double)(until.tv_sec - from.tv_sec) + (double)(until.tv_nsec - from.tv_nsec) / 1e9;
    bench_report("bandwidth", (double)IMAGE_BYTES / seconds / 1e6, "MB/s");
    bench_report("longest_turn_sending", (double)ends[0].longest_ns / 1e3, "us");
    bench_report("longest_turn_receiving", (double)ends[1].longest_ns / 1e3, "us");
    for (unsigned i = 0; i < 2; i++)
        close_end(&ends[i]);
}
