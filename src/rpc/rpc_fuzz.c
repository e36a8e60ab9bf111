/*
 * Any bytes as a client. They go to a server on a wire in memory, in pieces; what it is told it
 * answers at once, with messages, bodies and errors chosen by the input. After every turn its
 * invariants are checked, and at the end every call must have come to its one end.
 *
 * The first byte says how the rest is to be understood:
 *
 *     even   as it is
 *     odd    as a list of (type, flags, stream, length, payload), made into frames behind a proper
 *            preface, with a proper request in place of every HEADERS frame of an even length, so
 *            that the fuzzer gets past HPACK to what calls do
 */
#include "base/assert.h"
#include "io/fake_world.h"
#include "rpc/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rpc_method methods[] = {
    {"s", "u", .id = 0},
    {"s", "c", .client_streams = true, .id = 1},
    {"s", "d", .server_streams = true, .id = 2},
    {"s", "b", .client_streams = true, .server_streams = true, .id = 3},
};

enum { STEPS_MAX = 2000, PIECE_BYTES = 700 };

static unsigned live;

/* What is still to be given of a call's bodies, finished or not. */
struct promise {
    uint64_t ungiven, given;
    bool is_finished;
};

static struct promise *promise_of(struct rpc_call *c)
{
    if (!c->context)
        c->context = mem_new(struct promise);
    return c->context;
}

static void forget(struct rpc_call *c)
{
    mem_free(c->context);
    c->context = NULL;
}

static void give(struct rpc_call *c, size_t max)
{
    struct promise *p = promise_of(c);
    struct buf chunk = {0};

    assert(max > 0 && max <= p->ungiven);
    if (p->given > 100000) {
        live -= !p->is_finished;
        forget(c);
        rpc_break(c);
        return;
    }
    memset(buf_extend(&chunk, max), 'b', max);
    p->given += max;
    p->ungiven -= max;
    if (p->is_finished && p->ungiven == 0)
        forget(c);
    rpc_chunk(c, &chunk);
}

static void answer(struct rpc_call *c, uint8_t how)
{
    if (how & 1)
        rpc_send(c, bytes_of("some bytes", how % 11u));
    if (how & 2) {
        promise_of(c)->ungiven += (uint64_t)how * 1000;
        rpc_announce(c, (uint64_t)how * 1000);
    }
    if (how & 4) {
        struct blob *blob = blob_copy(BYTES("shared"));
        rpc_send_shared(c, BYTES("p"), blob);
        blob_unref(blob);
    }
}

static void end(struct rpc_call *c, uint8_t how)
{
    live--;
    promise_of(c)->is_finished = true;
    if (promise_of(c)->ungiven == 0)
        forget(c);
    rpc_finish(c, how % 17, bytes_of("text \xff", how % 7u));
}

static void on_event(const struct rpc_event *e)
{
    uint8_t how = e->message.len > 0 ? e->message.at[0] : 7;
    bool unary = e->call->kind == RPC_GRPC && !e->call->method->client_streams &&
                 !e->call->method->server_streams;

    switch (e->kind) {
    case RPC_OPENED:
        live++;
        break;
    case RPC_MESSAGE:
        live += unary;
        answer(e->call, how);
        if (how & 8)
            end(e->call, how);
        else if (!unary && (how & 16))
            rpc_release(e->call);
        break;
    case RPC_ENDED:
        end(e->call, how);
        break;
    case RPC_HTTP:
        if (e->path.len % 3 == 2)
            live++; /* never answered */
        else
            rpc_http_reply(e->call, 200, "text/plain", e->query);
        break;
    case RPC_GONE:
        live -= !e->call->context || !promise_of(e->call)->is_finished;
        forget(e->call);
        break;
    case RPC_WANTED:
        give(e->call, e->bytes);
        break;
    case RPC_SENT:
        break;
    }
}

struct stage {
    struct fake_world *world;
    struct rpc *rpc;
    struct conn *conn;
    bool closed;
};

static bool step(struct stage *s)
{
    struct rpc_event e;
    bool more = fake_world_step(s->world);

    while (rpc_take(s->rpc, &e))
        on_event(&e);
    rpc_flush(s->rpc);
    rpc_check(s->rpc);
    return more;
}

static void on_data(struct conn *c, struct bytes data)
{
    (void)c;
    (void)data;
}

static void on_end(struct conn *c)
{
    conn_close(c, ERR_END);
}

static void on_closed(struct conn *c, enum err reason)
{
    (void)reason;
    ((struct stage *)c->context)->closed = true;
}

struct piece {
    struct conn_write write;
    struct bytes bytes;
};

static void on_written(struct conn_write *w, enum err e)
{
    (void)e;
    mem_free(container_of(w, struct piece, write));
}

static void send_pieces(struct stage *s, struct bytes all)
{
    for (size_t at = 0; at < all.len && !s->closed; at += PIECE_BYTES) {
        struct piece *p = mem_new(struct piece);
        size_t len = all.len - at < PIECE_BYTES ? all.len - at : PIECE_BYTES;

        p->bytes = bytes_of(all.at + at, len);
        p->write =
            (struct conn_write){.pieces = &p->bytes, .piece_count = 1, .on_done = on_written};
        conn_write(s->conn, &p->write);
        for (unsigned i = 0; i < 3; i++)
            step(s);
    }
}

static void put_frame(struct buf *out, const uint8_t *head, struct bytes payload)
{
    uint8_t bytes[9] = {0,
                        (uint8_t)(payload.len >> 8),
                        (uint8_t)payload.len,
                        head[0] % 12,
                        head[1],
                        0,
                        0,
                        0,
                        head[2] % 32};

    buf_append(out, bytes_of(bytes, sizeof(bytes)));
    buf_append(out, payload);
}

/* Indexed :method POST and :scheme http, :path by literal, :authority "a", content-type. */
static void put_request(struct buf *out, const uint8_t *head)
{
    static const char fields[] = "\x83\x86\x04\x04/s/?\x01\x01"
                                 "a\x0f\x10\x10"
                                 "application/grpc";
    uint8_t block[sizeof(fields)];

    memcpy(block, fields, sizeof(fields));
    *(uint8_t *)memchr(block, '?', sizeof(block)) = (uint8_t)"ucdb"[head[3] / 2 % 4];
    put_frame(out, (const uint8_t[]){1, (uint8_t)(4 | (head[1] & 1)), head[2] | 1},
              bytes_of(block, sizeof(fields) - 1));
}

static void put_frames(struct bytes in, struct buf *out)
{
    buf_append_str(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    buf_append(out, bytes_of("\0\0\0\4\0\0\0\0\0", 9));
    while (in.len >= 4) {
        size_t len = in.at[3] < in.len - 4 ? in.at[3] : in.len - 4;

        if (in.at[0] % 12 == 1 && in.at[3] % 2 == 0) {
            put_request(out, in.at);
            len = 0;
        } else {
            put_frame(out, in.at, bytes_of(in.at + 4, len));
        }
        in = bytes_of(in.at + 4 + len, in.len - 4 - len);
    }
}

static void stage_open(struct stage *s)
{
    static const struct logger logger = {.sink = log_sink_none, .clock = log_clock_none};
    static const struct conn_handlers handlers = {
        .on_data = on_data, .on_end = on_end, .on_closed = on_closed};
    struct net_address address;

    *s = (struct stage){.world = fake_world_new(1)};
    s->rpc = rpc_open(&(struct rpc_options){.io = fake_world_io(s->world),
                                            .logger = &logger,
                                            .methods = methods,
                                            .method_count = ARRAY_LEN(methods),
                                            .message_bytes_max = 5000,
                                            .keepalive_min_ms = 1});
    enum err e = net_address_parse("127.0.0.1:0", &address);
    assert(e == ERR_OK);
    e = rpc_listen(s->rpc, &address, &address);
    assert(e == ERR_OK);
    s->conn = net_connect(fake_world_io(s->world)->net, &address, &handlers, s);
}

static void stage_close(struct stage *s)
{
    if (!s->closed)
        conn_close(s->conn, ERR_OK);
    rpc_cut(s->rpc);
    while (!s->closed || !rpc_is_idle(s->rpc))
        step(s);
    step(s);
    assert(live == 0);
    rpc_close(s->rpc);
    while (fake_world_step(s->world))
        ;
    fake_world_free(s->world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stage s;
    struct buf frames = {0};

    if (size < 1)
        return 0;
    live = 0;
    struct bytes in = bytes_of(data + 1, size - 1);
    if (data[0] % 2) {
        put_frames(in, &frames);
        in = buf_bytes(&frames);
    }
    stage_open(&s);
    send_pieces(&s, in);
    for (unsigned i = 0; i < STEPS_MAX && !s.closed && i < 20 + size; i++)
        step(&s);
    stage_close(&s);
    buf_free(&frames);
    return 0;
}
