#include "base/assert.h"
#include "base/list.h"
#include "harness/bench.h"
#include "io/clock.h"
#include "io/conn_queue.h"
#include "io/io.h"
#include "io/loop.h"
#include "rpc/client.h"
#include "rpc/rpc.h"

/*
 * What a unary call costs: headers, 25 bytes, and back.
 *
 *     rpc_echo_bare     the server alone, 100 connections of 10 streams, on sockets that swallow
 *     rpc_echo_loop     both ends in one process on real sockets, as many of each
 */

enum { CONNS = 100, STREAMS = 10, CALLS_PER_TURN = CONNS * STREAMS };

static const struct rpc_method methods[] = {
    {"etcdserverpb.KV", "Put", .id = 1, .reply_bytes = 4 * KIB}};
static const struct bytes payload = {(const uint8_t *)"twenty-five bytes of echo", 25};

static const struct logger quiet = {
    .level = LOG_ERROR, .sink = log_sink_none, .clock = log_clock_none};

static struct rpc *open_server(const struct io *io, struct rpc_line *line,
                               struct net_address *bound)
{
    struct rpc *r = rpc_open(&(struct rpc_options){.io = io,
                                                   .line = line,
                                                   .logger = &quiet,
                                                   .methods = methods,
                                                   .method_count = ARRAY_LEN(methods)});
    struct net_address a;

    if (net_address_parse("127.0.0.1:0", &a) != ERR_OK ||
        rpc_listen(r, &(struct rpc_place){.address = a}, bound) != ERR_OK)
        fatal("cannot listen");
    return r;
}

static size_t serve(struct rpc *r, struct rpc_line *line)
{
    struct rpc_event e;
    size_t answered = 0;

    rpc_deliver(r);
    while (rpc_line_take_event(line, RPC_LANE_CALLS, &e)) {
        if (e.kind != RPC_MESSAGE) {
            buf_free(&e.content);
            continue;
        }
        e.content.len = e.message.len;
        rpc_line_send(line, e.call, &e.content);
        rpc_line_finish(line, e.call, RPC_OK, BYTES(""));
        answered++;
    }
    rpc_flush(r);
    return answered;
}

/* --- a net that swallows --- */

struct swallow_conn {
    struct conn base;
    struct inbox *inbox;
    struct conn_queue queue;
    uint32_t next_id;
};

struct swallow_net {
    struct net base;
    struct listener listener;
};

static void swallow_write(struct conn *base, struct conn_write *w)
{
    struct swallow_conn *c = container_of(base, struct swallow_conn, base);

    conn_queue_add(&c->queue, w);
    conn_queue_sent(&c->queue, c->queue.bytes, c->inbox);
}

static size_t swallow_at_once(struct conn *c, struct bytes what)
{
    (void)c;
    return what.len;
}

static size_t swallow_room(const struct conn *c)
{
    (void)c;
    return SIZE_MAX;
}

static size_t swallow_queued(const struct conn *c)
{
    (void)c;
    return 0;
}

static void nothing(struct conn *c)
{
    (void)c;
}

static void swallow_close(struct conn *c, enum err reason)
{
    (void)c;
    (void)reason;
}

static enum err swallow_listen(struct net *n, const struct net_address *a,
                               const struct listener_options *options, struct listener **out)
{
    struct swallow_net *s = container_of(n, struct swallow_net, base);

    s->listener = (struct listener){.net = n, .options = *options, .address = *a};
    *out = &s->listener;
    return ERR_OK;
}

static void swallow_unlisten(struct listener *l)
{
    (void)l;
}

static void put_frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t id, struct bytes what)
{
    uint8_t head[9] = {
        0,          (uint8_t)(what.len >> 8), (uint8_t)what.len,   type,
        flags,      (uint8_t)(id >> 24),      (uint8_t)(id >> 16), (uint8_t)(id >> 8),
        (uint8_t)id};

    buf_append(out, bytes_of(head, sizeof(head)));
    buf_append(out, what);
}

static void put_field(struct buf *out, const char *name, const char *value)
{
    buf_append_byte(out, 0x40); /* literal, kept in the table */
    buf_append_byte(out, (uint8_t)strlen(name));
    buf_append_str(out, name);
    buf_append_byte(out, (uint8_t)strlen(value));
    buf_append_str(out, value);
}

/* As the Go client sends it: the first in words, the others by their numbers in the table. */
static void put_call(struct swallow_conn *c, struct buf *out)
{
    static const uint8_t by_number[] = {0x83, 0x86, 0xc5, 0xc4, 0xc3, 0xc2, 0xc1, 0xc0, 0xbf, 0xbe};
    static const char *const fields[][2] = {{":path", "/etcdserverpb.KV/Put"},
                                            {":authority", "127.0.0.1:2379"},
                                            {"content-type", "application/grpc"},
                                            {"user-agent", "grpc-go/1.82.1"},
                                            {"te", "trailers"},
                                            {"grpc-timeout", "4999m"},
                                            {"client-api-version", "3.7"},
                                            {"x-trace", "none"}};
    struct buf block = {0}, message = {0};

    if (c->next_id == 1) {
        buf_append(&block, bytes_of(by_number, 2));
        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
            put_field(&block, fields[i][0], fields[i][1]);
        put_frame(out, 1, 4, c->next_id, buf_bytes(&block));
    } else {
        put_frame(out, 1, 4, c->next_id, bytes_of(by_number, sizeof(by_number)));
    }
    buf_append(&message, bytes_of("\0\0\0\0\x19", 5));
    buf_append(&message, payload);
    put_frame(out, 0, 1, c->next_id, buf_bytes(&message));
    c->next_id += 2;
    buf_free(&block);
    buf_free(&message);
}

struct bare {
    struct loop *loop; /* for its inbox and clock */
    struct io io;
    struct swallow_net net;
    struct rpc *rpc;
    struct rpc_line *line;
    struct swallow_conn conns[CONNS];
    struct buf in;
};

static void bare_calls(void *context, uint64_t times)
{
    struct bare *b = context;

    for (uint64_t done = 0; done < times; done += STREAMS) {
        struct swallow_conn *c = &b->conns[done / STREAMS % CONNS];

        buf_clear(&b->in);
        put_frame(&b->in, 8, 0, 0, bytes_of("\0\0\4\0", 4));
        for (unsigned i = 0; i < STREAMS; i++)
            put_call(c, &b->in);
        c->base.on->on_data(&c->base, buf_bytes(&b->in));
        if (serve(b->rpc, b->line) != STREAMS)
            fatal("a call was not answered");
        inbox_drain(b->io.inbox, SIZE_MAX);
    }
}

BENCH(rpc_echo_bare)
{
    static const struct net_ops net_ops = {.listen = swallow_listen,
                                           .listener_close = swallow_unlisten};
    static const struct conn_ops conn_ops = {.write = swallow_write,
                                             .try_write = swallow_at_once,
                                             .write_credit = swallow_room,
                                             .queued_bytes = swallow_queued,
                                             .pause = nothing,
                                             .resume = nothing,
                                             .shutdown = nothing,
                                             .close = swallow_close};
    struct bare *b = mem_new(struct bare);
    struct net_address bound;

    if (loop_open(&(struct loop_options){0}, &b->loop) != ERR_OK)
        fatal("no loop");
    b->net.base.ops = &net_ops;
    b->io = *loop_io(b->loop);
    b->io.net = &b->net.base;
    b->line = rpc_line_open(&(struct rpc_line_options){0});
    b->rpc = open_server(&b->io, b->line, &bound);
    for (unsigned i = 0; i < CONNS; i++) {
        struct swallow_conn *c = &b->conns[i];
        *c = (struct swallow_conn){.base.ops = &conn_ops, .inbox = b->io.inbox, .next_id = 1};
        conn_queue_init(&c->queue);
        b->net.listener.options.on_accept(&b->net.listener, &c->base);
        c->base.on->on_data(&c->base, BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                            "\0\0\0\4\0\0\0\0\0"));
    }
    serve(b->rpc, b->line);
    inbox_drain(b->io.inbox, SIZE_MAX);

    bench_run(&(struct bench_work){.body = bare_calls, .context = b});

    rpc_cut(b->rpc);
    for (unsigned i = 0; i < CONNS; i++)
        b->conns[i].base.on->on_closed(&b->conns[i].base, ERR_OK);
    rpc_close(b->rpc);
    rpc_line_close(b->line);
    loop_close(b->loop);
    buf_free(&b->in);
    mem_free(b);
}

/* --- both ends, real sockets --- */

struct both {
    struct loop *loop;
    struct rpc *rpc;
    struct rpc_line *line;
    struct client *clients[CONNS];
    uint64_t started, wanted, ended;
    unsigned open;
};

static void ask(struct both *b, struct client *c)
{
    if (b->started == b->wanted)
        return;
    b->started++;
    client_ask(c, &(struct client_request){.path = "/etcdserverpb.KV/Put"}, payload);
}

static void both_turn(void *context)
{
    struct both *b = context;
    struct client_event e;

    inbox_drain(loop_io(b->loop)->inbox, 1024);
    serve(b->rpc, b->line);
    for (unsigned i = 0; i < CONNS; i++) {
        while (client_take(b->clients[i], &e)) {
            b->open += e.kind == CLIENT_OPEN;
            b->open -= e.kind == CLIENT_GONE;
            if (e.kind == CLIENT_STATUS) {
                b->ended++;
                ask(b, b->clients[i]);
            }
        }
        client_flush(b->clients[i]);
    }
}

static void both_calls(void *context, uint64_t times)
{
    struct both *b = context;

    b->started = b->ended = 0;
    b->wanted = times;
    for (unsigned i = 0; i < CALLS_PER_TURN; i++)
        ask(b, b->clients[i % CONNS]);
    for (unsigned i = 0; i < CONNS; i++)
        client_flush(b->clients[i]);
    while (b->ended < times)
        loop_run_once(b->loop, both_turn, b);
}

BENCH(rpc_echo_loop)
{
    struct both b = {0};
    struct net_address a;

    if (loop_open(&(struct loop_options){0}, &b.loop) != ERR_OK)
        fatal("no loop");
    b.line = rpc_line_open(&(struct rpc_line_options){0});
    b.rpc = open_server(loop_io(b.loop), b.line, &a);
    for (unsigned i = 0; i < CONNS; i++)
        b.clients[i] = client_open(&(struct client_options){.io = loop_io(b.loop), .address = a});
    while (b.open < CONNS)
        loop_run_once(b.loop, both_turn, &b);

    bench_run(&(struct bench_work){.suffix = "both_ends", .body = both_calls, .context = &b});

    rpc_cut(b.rpc);
    while (b.open > 0 || !rpc_is_idle(b.rpc))
        loop_run_once(b.loop, both_turn, &b);
    for (unsigned i = 0; i < CONNS; i++)
        client_close(b.clients[i]);
    rpc_close(b.rpc);
    rpc_line_close(b.line);
    loop_close(b.loop);
}
