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
 *
 * Its next bits say how late values pass the line, whether the connection is by TLS, and whether a
 * turn does as little as it can of what it has to share out. Of frames, DATA with bit 6 of its
 * flags is a message, packed; and HEADERS with it say that there are such.
 */
#include "base/assert.h"
#include "io/fake_world.h"
#include "rpc/rpc_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rpc_method methods[] = {
    {"s", "u", .id = 0, .reply_bytes = 100000},
    {"s", "c", .client_streams = true, .id = 1},
    {"s", "d", .server_streams = true, .id = 2, .reply_bytes = RPC_RESERVED_BYTES_MAX},
    {"s", "b", .client_streams = true, .server_streams = true, .id = 3},
    /* The gateway has routes for these, and response is a response of each of them. */
    {"etcdserverpb.KV", "Range", .id = 4, .reply_bytes = 4000},
    {"v3electionpb.Election", "Observe", .server_streams = true, .id = 5},
    {"etcdserverpb.Watch", "Watch", .client_streams = true, .server_streams = true, .id = 6},
};

/* Field 3 is 1, five times over; any even number of its bytes is a message. */
static const char response[] = "\x18\x01\x18\x01\x18\x01\x18\x01\x18\x01";

enum { STEPS_MAX = 2000, PIECE_BYTES = 700 };

enum { PACKED = 1 << 6 };

enum { CALLS_SEEN_MAX = 4096 };

/* What the core knows of a call, by its slot. */
struct seen {
    uint64_t id;
    bool is_unary, is_plain;
    bool is_finished; /* and only a body is left */
    uint8_t how;      /* it is to be answered, when there is budget for its reply */
    uint64_t ungiven, given;
};

static unsigned live;
static struct seen all_seen[CALLS_SEEN_MAX];

static struct seen *seen_of(uint64_t call)
{
    struct seen *s = &all_seen[(uint32_t)call % CALLS_SEEN_MAX];

    return s->id == call ? s : NULL;
}

static struct seen *see(const struct rpc_event *e)
{
    struct seen *s = &all_seen[(uint32_t)e->call % CALLS_SEEN_MAX];

    assert(s->id == 0); /* who had the slot has ended */
    *s = (struct seen){.id = e->call, .is_plain = e->kind == RPC_HTTP};
    s->is_unary = e->kind == RPC_MESSAGE;
    live++;
    return s;
}

static void forget(struct seen *s)
{
    live--;
    s->id = 0;
}

static void send_text(struct rpc_line *l, uint64_t call, struct bytes text, struct blob *rest)
{
    struct buf message = {0};

    buf_append(&message, text);
    rpc_line_send_shared(l, call, &message, rest);
}

static void give(struct rpc_line *l, struct seen *s, size_t max)
{
    struct buf chunk = {0};

    assert(max > 0 && max <= s->ungiven);
    if (s->given > 100000) {
        rpc_line_break(l, s->id);
        forget(s);
        return;
    }
    for (size_t i = 0; i < max; i++)
        buf_append_byte(&chunk, (uint8_t)response[(s->given + i) % 2]);
    s->given += max;
    s->ungiven -= max;
    rpc_line_chunk(l, s->id, &chunk);
    if (s->is_finished && s->ungiven == 0)
        forget(s);
}

static void answer(struct rpc_line *l, struct seen *s, uint8_t how)
{
    if (how & 1)
        send_text(l, s->id, bytes_of(response, how % 11u / 2 * 2), NULL);
    if (how & 2) {
        s->ungiven += (uint64_t)how * 1000;
        rpc_line_announce(l, s->id, (uint64_t)how * 1000);
    }
    if (how & 4) {
        struct blob *blob = blob_copy(bytes_of(response + 1, 5));
        send_text(l, s->id, bytes_of(response, 1), blob);
        blob_unref(blob);
    }
}

static void end(struct rpc_line *l, struct seen *s, uint8_t how)
{
    rpc_line_finish(l, s->id, how % 17, bytes_of("text \xff", how % 7u));
    s->is_finished = true;
    if (s->ungiven == 0)
        forget(s);
}

static void on_message(struct rpc_line *l, struct seen *s, const struct rpc_event *e)
{
    uint8_t how = e->message.len > 0 ? rpc_event_bytes(e, e->message).at[0] : 7;

    if (s->is_unary && (how & 32)) {
        s->how = how;
        rpc_line_reserve(l, s->id, 1 + how * 50000ull);
        return;
    }
    answer(l, s, how);
    if (how & 8)
        end(l, s, how);
    else if (!s->is_unary && (how & 16))
        rpc_line_release(l, s->id);
}

static void on_event(struct rpc_line *l, const struct rpc_event *e)
{
    struct seen *s = seen_of(e->call);

    switch (e->kind) {
    case RPC_OPENED:
        see(e);
        break;
    case RPC_MESSAGE:
        if (!s && e->is_first)
            s = see(e);
        if (s && !s->is_finished)
            on_message(l, s, e);
        break;
    case RPC_ENDED:
        if (s && !s->is_finished)
            end(l, s, 7);
        break;
    case RPC_RESERVED:
        assert(s);
        answer(l, s, s->how);
        end(l, s, s->how);
        break;
    case RPC_HTTP:
        s = see(e);
        if (e->path.len % 3 != 2) { /* else it is never answered */
            rpc_line_http_reply(l, e->call, 200, "text/plain", rpc_event_bytes(e, e->query));
            forget(s);
        }
        break;
    case RPC_GONE:
        if (s)
            forget(s);
        break;
    case RPC_WANTED:
        if (s)
            give(l, s, e->bytes);
        break;
    case RPC_SENT:
        break;
    }
}

struct stage {
    struct fake_world *world;
    struct rpc *rpc;
    struct rpc_line *line;
    struct conn *conn;
    bool closed;
};

static bool step(struct stage *s)
{
    struct rpc_event e;
    bool more = fake_world_step(s->world);

    rpc_line_turn(s->line);
    rpc_deliver(s->rpc);
    for (int lane = RPC_LANE_CALLS; lane < RPC_LANE_COUNT; lane++) {
        while (rpc_line_take_event(s->line, (enum rpc_lane)lane, &e)) {
            on_event(s->line, &e);
            buf_free(&e.content);
        }
    }
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

static void put_packed(struct buf *out, const uint8_t *head, struct bytes message)
{
    static struct gzip *g;
    struct buf packed = {0}, framed = {0};

    if (!g)
        g = gzip_new();
    gzip_pack(g, message, &packed);
    assert(packed.len < 256);
    buf_append(&framed, bytes_of((const uint8_t[]){1, 0, 0, 0, (uint8_t)packed.len}, 5));
    buf_append(&framed, buf_bytes(&packed));
    put_frame(out, head, buf_bytes(&framed));
    buf_free(&packed);
    buf_free(&framed);
}

static void put_headers(struct buf *out, const uint8_t *head, struct bytes block)
{
    put_frame(out, (const uint8_t[]){1, (uint8_t)(4 | (head[1] & 1)), head[2] | 1}, block);
}

/* The same without content-type: by TLS, for the gateway or for the core. */
static void put_plain_request(struct buf *out, const uint8_t *head)
{
    static const char *const paths[] = {"/v3/kv/range", "/v3/election/observe", "/v3/watch", "/a"};
    const char *path = paths[head[3] / 2 % 4];
    struct buf block = {0};

    buf_printf(&block, "\x83\x87\x04%c%s\x01\x01\x61", (char)strlen(path), path);
    put_headers(out, head, buf_bytes(&block));
    buf_free(&block);
}

/* Indexed :method POST and :scheme http, :path by literal, :authority "a", content-type. */
static void put_request(struct buf *out, const uint8_t *head)
{
    static const char fields[] = "\x83\x86\x04\x04/s/?\x01\x01"
                                 "a\x0f\x10\x10"
                                 "application/grpc"
                                 "\0\15grpc-encoding\4gzip";
    enum { GZIP_BYTES = 20 };
    uint8_t block[sizeof(fields)];
    size_t len = sizeof(fields) - 1 - (head[1] & PACKED ? 0 : GZIP_BYTES);

    memcpy(block, fields, sizeof(fields));
    *(uint8_t *)memchr(block, '?', sizeof(block)) = (uint8_t)"ucdb"[head[3] / 2 % 4];
    put_headers(out, head, bytes_of(block, len));
}

static void put_frames(struct bytes in, struct buf *out)
{
    buf_append_str(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    buf_append(out, bytes_of("\0\0\0\4\0\0\0\0\0", 9));
    while (in.len >= 4) {
        size_t len = in.at[3] < in.len - 4 ? in.at[3] : in.len - 4;

        if (in.at[0] % 12 == 1 && in.at[3] % 2 == 0) {
            if (in.at[3] / 8 % 2)
                put_plain_request(out, in.at);
            else
                put_request(out, in.at);
            len = 0;
        } else if (in.at[0] % 12 == 0 && (in.at[1] & PACKED) && len < 200) {
            put_packed(out, in.at, bytes_of(in.at + 4, len));
        } else {
            put_frame(out, in.at, bytes_of(in.at + 4, len));
        }
        in = bytes_of(in.at + 4 + len, in.len - 4 - len);
    }
}

static void stage_open(struct stage *s, unsigned delay, bool is_tls)
{
    static const struct logger logger = {.sink = log_sink_none, .clock = log_clock_none};
    static const struct conn_handlers handlers = {
        .on_data = on_data, .on_end = on_end, .on_closed = on_closed};
    struct net_address address;

    *s = (struct stage){.world = fake_world_new(1)};
    s->line = rpc_line_open(&(struct rpc_line_options){.delay_turns_max = delay, .seed = 1});
    s->rpc = rpc_open(&(struct rpc_options){.line = s->line,
                                            .io = fake_world_io(s->world),
                                            .logger = &logger,
                                            .methods = methods,
                                            .method_count = ARRAY_LEN(methods),
                                            .message_bytes_max = 5000,
                                            .has_gateway = true,
                                            .keepalive_min_ms = 1});
    enum err e = net_address_parse("127.0.0.1:0", &address);
    assert(e == ERR_OK);
    e = rpc_listen(s->rpc, &(struct rpc_place){.address = address}, &address);
    assert(e == ERR_OK);
    s->conn = net_connect(fake_world_io(s->world)->net, &address, &handlers, s);
    while (is_tls && list_empty(&s->rpc->conns) && !s->closed)
        step(s);
    LIST_FOREACH (link, &s->rpc->conns) /* the fake net has no TLS: the connection is told */
        container_of(link, struct rpc_conn, link)->info.tls = is_tls;
}

static void stage_close(struct stage *s)
{
    if (!s->closed)
        conn_close(s->conn, ERR_OK);
    rpc_cut(s->rpc);
    while (!s->closed || !rpc_is_idle(s->rpc) || rpc_has_events(s->rpc) ||
           !rpc_line_is_empty(s->line))
        step(s);
    assert(live == 0);
    rpc_close(s->rpc);
    rpc_line_close(s->line);
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
    stage_open(&s, data[0] / 2 % 4, data[0] / 8 % 2);
    if (data[0] / 16 % 2)
        s.rpc->turn = (struct turn_work){1, 1, 1, 1, 1};
    send_pieces(&s, in);
    for (unsigned i = 0; i < STEPS_MAX && !s.closed && i < 20 + size; i++)
        step(&s);
    stage_close(&s);
    buf_free(&frames);
    return 0;
}
