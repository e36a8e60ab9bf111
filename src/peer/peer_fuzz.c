/*
 * Any bytes at a whole room, on a fake wire. The first byte chooses where they come from:
 *
 *     0   somebody at the port            1   the body of a member's post, behind a good head
 *     2   a member that we have dialled   3   the same, in chunks behind a good head
 *     4   the body of a snapshot's post   5   the same, in chunks that are the input's
 *     6   a member that we send a snapshot, who says all it has to say at once
 *     7   the body of a member's request for a stream, in chunks that are the input's, while we
 *         send him messages
 *
 * The room goes on, its invariants hold, and it ends with nothing left.
 */
#include "base/assert.h"
#include "base/limits.h"
#include "io/fake_world.h"
#include "peer/peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIELDS                                                                                     \
    "Host: x\r\nX-Server-From: 22\r\nX-Server-Version: 3.7.1\r\nX-Min-Cluster-Version: 3.0.0\r\n"  \
    "X-Etcd-Cluster-ID: abcd\r\nX-Raft-To: 11\r\n"

/* Says its text to whoever is at the other end, and nothing more. */
struct speaker {
    struct buf text;
    struct bytes piece;
    struct conn_write write;
    unsigned conns;
    bool is_used;
};

/* The last snapshot that was announced to us. */
struct coming {
    uint64_t id;
    size_t step, credit, received;
    bool is_over;
};

static struct speaker speaker;
static struct peers *room;
static struct coming coming;
static unsigned outgoing;
static const uint8_t image[PEER_SNAPSHOT_CREDIT_BYTES];

static void on_said(struct conn_write *w, enum err e)
{
    (void)w;
    (void)e;
    speaker.is_used = false;
}

static void speak(struct conn *c)
{
    if (speaker.is_used)
        return;
    speaker.is_used = true;
    speaker.piece = buf_bytes(&speaker.text);
    speaker.write =
        (struct conn_write){.pieces = &speaker.piece, .piece_count = 1, .on_done = on_said};
    conn_write(c, &speaker.write);
}

static void on_data(struct conn *c, struct bytes data)
{
    (void)c;
    (void)data;
}

static void on_end(struct conn *c)
{
    conn_close(c, ERR_OK);
}

static void on_closed(struct conn *c, enum err reason)
{
    (void)c;
    (void)reason;
    speaker.conns--;
}

static const struct conn_handlers handlers = {
    .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void on_dialled(struct listener *l, struct conn *c)
{
    (void)l;
    speaker.conns++;
    conn_accept(c, &handlers, NULL);
    speak(c);
}

static void on_accept(struct listener *l, struct conn *c)
{
    (void)l;
    peers_accept(room, c);
}

static struct listener *listen_at(struct net *net, const char *where,
                                  void (*accept)(struct listener *l, struct conn *c))
{
    struct net_address a;
    struct listener *l;

    enum err e = net_address_parse(where, &a);
    assert(e == ERR_OK);
    e = net_listen(net, &a, &(struct listener_options){.on_accept = accept}, &l);
    assert(e == ERR_OK);
    return l;
}

/* Credit is `step` bytes at a time; whoever has brought more than a hundred is refused. */
static void hear_snapshot(const struct peer_event *e)
{
    switch (e->kind) {
    case PEER_SNAPSHOT_BEGIN:
        assert(e->message->type == RAFT_MSG_SNAP);
        assert(e->message->snapshot);
        assert(e->message->to == 0x11);
        coming = (struct coming){.id = e->id, .credit = coming.step, .step = coming.step};
        peers_snapshot_grant(room, e->id, coming.step);
        break;
    case PEER_SNAPSHOT_BYTES:
        if (e->id != coming.id)
            break;
        assert(e->body.len > 0);
        assert(e->body.len <= coming.credit);
        assert(!coming.is_over);
        coming.credit -= e->body.len;
        coming.received += e->body.len;
        if (coming.received > 100) {
            coming.is_over = true;
            peers_respond(room, e->id, &(struct peer_response){.status = 500});
        }
        coming.credit += coming.step;
        peers_snapshot_grant(room, e->id, coming.step);
        break;
    case PEER_SNAPSHOT_END:
    case PEER_SNAPSHOT_GONE:
        if (e->id != coming.id)
            break;
        assert(!coming.is_over);
        coming.is_over = true;
        peers_respond(room, e->id, &(struct peer_response){.status = 204});
        break;
    case PEER_SNAPSHOT_SENT:
    case PEER_SNAPSHOT_FAILED:
        assert(outgoing == 1); /* exactly one end */
        outgoing--;
        break;
    default:
        break;
    }
}

static void turn(void)
{
    struct peer_event e;

    while (peers_take(room, &e) || peers_take_append(room, &e)) {
        if (e.kind == PEER_REQUEST)
            peers_respond(room, e.id, &(struct peer_response){.status = 200, .body = e.body});
        hear_snapshot(&e);
        peer_event_free(&e);
    }
    for (size_t credit; (credit = peers_snapshot_credit(room, 0x22)) > 0;)
        peers_snapshot_write(room, 0x22, bytes_of(image, credit));
    peers_flush(room);
    peers_check(room);
}

static void send_message(void)
{
    peers_send(room, &(struct raft_message){
                         .type = RAFT_MSG_HEARTBEAT, .from = 0x11, .to = 0x22, .term = 3});
}

static void send_snapshot(void)
{
    struct raft_snapshot snapshot = {.index = 7, .term = 3};

    outgoing++;
    peers_snapshot_begin(
        room,
        &(struct raft_message){
            .type = RAFT_MSG_SNAP, .from = 0x11, .to = 0x22, .term = 3, .snapshot = &snapshot},
        2 * MIB);
}

static void compose(unsigned from, struct bytes bytes)
{
    struct buf *text = &speaker.text;

    buf_clear(text);
    if (from == 1)
        buf_printf(text, "POST /raft HTTP/1.1\r\n" FIELDS "Content-Length: %zu\r\n\r\n", bytes.len);
    if (from == 3)
        buf_printf(text,
                   "HTTP/1.1 200 OK\r\nX-Server-Version: 3.7.1\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n%zx\r\n",
                   bytes.len);
    if (from == 4)
        buf_printf(text, "POST /raft/snapshot HTTP/1.1\r\n" FIELDS "Content-Length: %zu\r\n\r\n",
                   bytes.len);
    if (from == 5)
        buf_append_str(text, "POST /raft/snapshot HTTP/1.1\r\n" FIELDS
                             "Transfer-Encoding: chunked\r\n\r\n");
    if (from == 7)
        buf_append_str(text, "GET /raft/stream/message/22 HTTP/1.1\r\n" FIELDS
                             "Transfer-Encoding: chunked\r\n\r\n");
    buf_append(text, bytes);
    if (from == 3)
        buf_append_str(text, "\r\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct logger quiet = {
        .level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none};

    if (size < 2)
        return 0;
    unsigned from = data[0] % 8;
    struct fake_world *w = fake_world_new(data[1]);
    struct net *other = fake_wire_add_host(w->wire, &w->inbox, "10.0.0.2");
    struct listener *port = listen_at(w->io.net, "10.0.0.1:2380", on_accept);
    struct listener *far = listen_at(other, "10.0.0.2:2380", on_dialled);

    compose(from, bytes_of(data + 2, size - 2));
    room = peers_open(&(struct peers_options){.io = fake_world_io(w),
                                              .logger = &quiet,
                                              .self = 0x11,
                                              .cluster_id = 0xabcd,
                                              .urls = "http://10.0.0.1:2380",
                                              .version = "3.7.1",
                                              .seed = data[1],
                                              .heartbeat_ms = 100,
                                              .election_ms = 1000});
    coming = (struct coming){.step = 1 + data[1]};
    if (from == 2 || from == 3 || from >= 6)
        peers_add(room, 0x22, (const char *const[]){"http://10.0.0.2:2380"}, 1);
    if (from == 6)
        send_snapshot();
    if (from != 2 && from != 3 && from != 6) {
        struct net_address a;
        enum err e = net_address_parse("10.0.0.1:2380", &a);
        assert(e == ERR_OK);
        speaker.conns++;
        speak(net_connect(other, &a, &handlers, NULL));
    }
    uint64_t end_ns = w->time.now_ns + 300 * NS_PER_MS;
    while (w->time.now_ns < end_ns && fake_world_step(w)) {
        if (from == 7)
            send_message();
        turn();
    }
    listener_close(port);
    listener_close(far);
    peers_stop(room);
    turn();
    assert(outgoing == 0);
    while (!peers_is_idle(room) || speaker.conns > 0) {
        bool is_alive = fake_world_step(w);
        assert(is_alive);
    }
    peers_close(room);
    assert(!speaker.is_used);
    fake_world_free(w);
    return 0;
}
