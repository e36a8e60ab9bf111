#include "rpc/rpc_rig_test.h"

#include "base/assert.h"
#include "io/inbox.h"

#include <nghttp2/nghttp2.h>

#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_STEPS = 20 * 1000 * 1000 };

static const struct rpc_method methods[] = {
    {"test.Echo", "Say", .id = METHOD_SAY},
    {"test.Echo", "Fail", .id = METHOD_FAIL},
    {"test.Echo", "Body", .id = METHOD_BODY},
    {"test.Echo", "Hold", .id = METHOD_HOLD},
    {"test.Echo", "Owe", .id = METHOD_OWE, .reply_bytes = RIG_OWED_BYTES},
    {"test.Echo", "Large", .id = METHOD_LARGE, .reply_bytes = RIG_OWED_BYTES},
    {"test.Echo", "LargeBody", .id = METHOD_LARGE_BODY, .reply_bytes = RIG_OWED_BYTES},
    {"test.Echo", "Chat", .client_streams = true, .server_streams = true, .id = METHOD_CHAT},
    {"test.Echo", "Deaf", .client_streams = true, .server_streams = true, .id = METHOD_STUCK},
    {"test.Echo", "Pull", .server_streams = true, .id = METHOD_PULL},
    /* Some of etcd's, to compare what is refused before it reaches them. */
    {"etcdserverpb.KV", "Range", .id = METHOD_HOLD},
    {"etcdserverpb.Watch", "Watch", .client_streams = true, .server_streams = true,
     .id = METHOD_STUCK},
    /* And some that the gateway has routes for, and whose requests are good responses. */
    {"etcdserverpb.Maintenance", "Downgrade", .id = METHOD_SAY},
    {"etcdserverpb.KV", "DeleteRange", .id = METHOD_VALUE},
    {"etcdserverpb.Lease", "LeaseKeepAlive", .client_streams = true, .server_streams = true,
     .id = METHOD_CHAT},
    {"etcdserverpb.Maintenance", "Snapshot", .server_streams = true, .id = METHOD_STUCK},
};

/* --- what the server does --- */

/* What a call of ours has still to do. */
struct chore {
    struct list link; /* r->chores */
    uint64_t call;
    bool is_body, is_http;

    uint64_t total, done; /* of a body */
    struct buf front;     /* what it begins with, if that is of a kind */
    bool broken, hungry, fed;

    uint64_t left; /* of messages to be pulled */
    int64_t credit;
    struct blob *content;
};

static struct chore *chore_of(struct rpc_rig *r, uint64_t c)
{
    LIST_FOREACH (link, &r->chores) {
        struct chore *chore = container_of(link, struct chore, link);
        if (chore->call == c)
            return chore;
    }
    return NULL;
}

static struct chore *chore_new(struct rpc_rig *r, uint64_t c)
{
    struct chore *chore = mem_new(struct chore);

    CHECK(!chore_of(r, c));
    chore->call = c;
    list_init(&chore->link);
    list_push_back(&r->chores, &chore->link);
    return chore;
}

static void chore_end(struct rpc_rig *r, struct chore *chore)
{
    r->bodies_open -= chore->is_body;
    list_remove(&chore->link);
    buf_free(&chore->front);
    blob_unref(chore->content);
    mem_free(chore);
}

static void announce(struct rpc_rig *r, uint64_t c, uint64_t size)
{
    if (size == 0) {
        rpc_line_send(r->line, c, &(struct buf){0});
        return;
    }
    rpc_line_announce(r->line, c, size);
    struct chore *b = chore_new(r, c);
    b->is_body = true;
    r->bodies_open++;
    b->total = size;
    b->broken = r->broken_body;
    b->hungry = r->hungry_body;
}

static void put_length(struct buf *out, uint8_t tag, size_t len)
{
    buf_append_byte(out, tag);
    for (; len >= 0x80; len >>= 7)
        buf_append_byte(out, (uint8_t)(len | 0x80));
    buf_append_byte(out, (uint8_t)len);
}

/* A DeleteRangeResponse whose prev_kvs are one, with nothing but a value. */
static void announce_value(struct rpc_rig *r, uint64_t c)
{
    struct buf front = {0}, field = {0};

    put_length(&field, 5 << 3 | 2, r->value_bytes);
    put_length(&front, 3 << 3 | 2, field.len + r->value_bytes);
    buf_append(&front, buf_bytes(&field));
    announce(r, c, front.len + r->value_bytes);
    chore_of(r, c)->front = front;
    buf_free(&field);
}

static void give_chunk(struct rpc_rig *r, uint64_t c, size_t max)
{
    struct chore *b = chore_of(r, c);
    struct buf chunk = {0};

    CHECK(b && b->is_body);
    CHECK(max > 0 && max <= RPC_CHUNK_BYTES && max <= b->total - b->done);
    if (b->broken && b->done > b->total / 2) {
        chore_end(r, b);
        rpc_line_break(r->line, c);
        return;
    }
    b->fed = !b->fed;
    if (!b->hungry || !b->fed) {
        uint8_t *at = buf_extend(&chunk, max);
        for (size_t i = 0; i < max; i++, b->done++)
            at[i] = b->done < b->front.len ? b->front.at[b->done] : (uint8_t)(b->done % 251);
    }
    if (b->done == b->total)
        chore_end(r, b);
    rpc_line_chunk(r->line, c, &chunk);
}

static void finish(struct rpc_rig *r, uint64_t c, enum rpc_code code, struct bytes text)
{
    r->finished++;
    r->live--;
    rpc_line_finish(r->line, c, code, text);
}

static void pull_on(struct rpc_rig *r, uint64_t c)
{
    struct chore *p = chore_of(r, c);

    while (p->left > 0 && p->credit > 0) {
        struct buf prefix = {0};
        buf_append_byte(&prefix, '<');
        rpc_line_send_shared(r->line, c, &prefix, p->content);
        p->credit -= (int64_t)rpc_message_cost(1 + blob_bytes(p->content).len);
        p->left--;
    }
    if (p->left == 0) {
        chore_end(r, p);
        finish(r, c, RPC_OK, BYTES(""));
    }
}

static uint64_t number_at(struct bytes text, unsigned nth)
{
    char copy[64] = "";
    char *at = copy;

    if (text.len > 0)
        memcpy(copy, text.at, text.len < 63 ? text.len : 63);
    for (; nth > 0; nth--)
        strtoull(at, &at, 10);
    return strtoull(at, NULL, 10);
}

static void pull_begin(struct rpc_rig *r, uint64_t c, struct bytes message)
{
    struct chore *p = chore_of(r, c);
    size_t size = (size_t)number_at(message, 1);
    uint8_t *fill;

    p->left = number_at(message, 0);
    p->content = blob_new(size, &fill);
    memset(fill, 'x', size);
    pull_on(r, c);
}

static unsigned method_of(const struct rpc_rig *r, uint64_t call)
{
    return r->call_methods[(uint32_t)call % ARRAY_LEN(r->call_methods)];
}

static void echo(struct rpc_rig *r, const struct rpc_event *e)
{
    struct buf copy = {0};

    buf_append(&copy, rpc_event_bytes(e, e->message));
    rpc_line_send(r->line, e->call, &copy);
}

static void answer_with(struct rpc_rig *r, uint64_t call, size_t bytes)
{
    struct buf reply = {0};

    memset(buf_extend(&reply, bytes), 'x', bytes);
    rpc_line_send(r->line, call, &reply);
    finish(r, call, RPC_OK, BYTES(""));
}

static void answer_http_with(struct rpc_rig *r, uint64_t call, size_t bytes)
{
    struct buf body = {0};

    memset(buf_extend(&body, bytes), 'x', bytes);
    r->live--;
    rpc_line_http_reply(r->line, call, 200, "text/plain", buf_bytes(&body));
    buf_free(&body);
}

static void on_reserved(struct rpc_rig *r, uint64_t call)
{
    struct chore *c = chore_of(r, call);

    CHECK(c);
    r->reserved++;
    if (c->left == 0)
        return;
    uint64_t size = c->left;
    bool is_http = c->is_http;
    chore_end(r, c);
    if (is_http) {
        answer_http_with(r, call, (size_t)size);
    } else if (method_of(r, call) == METHOD_LARGE_BODY) {
        announce(r, call, size);
        finish(r, call, RPC_OK, BYTES(""));
    } else {
        answer_with(r, call, (size_t)size);
    }
}

static void on_message(struct rpc_rig *r, const struct rpc_event *e)
{
    struct bytes message = rpc_event_bytes(e, e->message);

    switch (method_of(r, e->call)) {
    case METHOD_SAY:
        echo(r, e);
        finish(r, e->call, RPC_OK, BYTES(""));
        break;
    case METHOD_FAIL: {
        struct bytes text = message;
        enum rpc_code code = (enum rpc_code)(number_at(text, 0) % (RPC_UNAUTHENTICATED + 1));
        const uint8_t *space = text.len > 0 ? memchr(text.at, ' ', text.len) : NULL;
        CHECK(space);
        finish(r, e->call, code, bytes_of(space + 1, text.len - (size_t)(space + 1 - text.at)));
        break;
    }
    case METHOD_BODY:
        announce(r, e->call, number_at(message, 0));
        finish(r, e->call, RPC_OK, BYTES(""));
        break;
    case METHOD_VALUE:
        announce_value(r, e->call);
        finish(r, e->call, RPC_OK, BYTES(""));
        break;
    case METHOD_OWE:
        answer_with(r, e->call, number_at(message, 0));
        break;
    case METHOD_LARGE:
        chore_new(r, e->call)->left = number_at(message, 1);
        rpc_line_reserve(r->line, e->call, number_at(message, 0));
        break;
    case METHOD_LARGE_BODY:
        chore_new(r, e->call)->left = number_at(message, 0);
        rpc_line_reserve(r->line, e->call, number_at(message, 0));
        break;
    case METHOD_HOLD:
    case METHOD_STUCK:
        break;
    case METHOD_CHAT:
        echo(r, e);
        rpc_line_release(r->line, e->call);
        break;
    case METHOD_PULL:
        pull_begin(r, e->call, message);
        break;
    default:
        CHECK(false);
    }
}

/* It was finished before, if only a body was left to do. */
static void on_gone(struct rpc_rig *r, uint64_t c)
{
    struct chore *chore = chore_of(r, c);

    r->live -= !chore || !chore->is_body;
    if (chore)
        chore_end(r, chore);
}

static void on_http(struct rpc_rig *r, const struct rpc_event *e)
{
    struct bytes path = rpc_event_bytes(e, e->path);
    struct rpc_reply reply = {.kind = RPC_REPLY_HTTP, .call = e->call, .code = 200};
    const struct rpc_span parts[] = {e->verb, e->path, e->query, e->message};

    if (bytes_equal(path, BYTES("/hold")))
        return;
    if (bytes_equal(path, BYTES("/large"))) {
        struct chore *c = chore_new(r, e->call);
        c->is_http = true;
        c->left = number_at(rpc_event_bytes(e, e->query), 0);
        rpc_line_reserve(r->line, e->call, c->left);
        return;
    }
    if (bytes_equal(path, BYTES("/405")))
        reply.code = 405;
    reply.type = "text/plain";
    if (bytes_equal(path, BYTES("/put")))
        buf_append_str(&reply.content, "X-Test:yes\n");
    reply.bytes = reply.content.len;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (i > 0)
            buf_append_byte(&reply.content, ' ');
        buf_append(&reply.content, rpc_event_bytes(e, parts[i]));
    }
    rpc_line_put_reply(r->line, &reply);
}

/* Announcements are counted by what comes first for each kind of call. */
static void on_event(struct rpc_rig *r, const struct rpc_event *e)
{
    unsigned method = method_of(r, e->call);
    bool unary = method < METHOD_CHAT;

    switch (e->kind) {
    case RPC_OPENED:
        CHECK(!unary);
        r->opened++;
        r->live++;
        CHECK(e->bytes >= RPC_STREAM_CREDIT_BYTES_LEAST && e->bytes <= RPC_STREAM_CREDIT_BYTES);
        if (method == METHOD_PULL)
            chore_new(r, e->call)->credit = (int64_t)e->bytes;
        break;
    case RPC_MESSAGE:
        r->messages++;
        r->live += unary;
        on_message(r, e);
        break;
    case RPC_ENDED:
        r->ends++;
        if (method == METHOD_CHAT)
            finish(r, e->call, RPC_OK, BYTES(""));
        break;
    case RPC_GONE:
        r->gone++;
        on_gone(r, e->call);
        break;
    case RPC_SENT:
        r->sent++;
        if (method == METHOD_PULL) {
            chore_of(r, e->call)->credit += (int64_t)e->bytes;
            pull_on(r, e->call);
        }
        break;
    case RPC_WANTED:
        give_chunk(r, e->call, e->bytes);
        break;
    case RPC_RESERVED:
        on_reserved(r, e->call);
        break;
    case RPC_HTTP:
        r->http++;
        r->live += bytes_equal(rpc_event_bytes(e, e->path), BYTES("/hold")) ||
                   bytes_equal(rpc_event_bytes(e, e->path), BYTES("/large"));
        on_http(r, e);
        break;
    }
}

bool rpc_rig_take(struct rpc_rig *r, struct rpc_event *out)
{
    rpc_deliver(r->rpc);
    if (!rpc_line_take_event(r->line, RPC_LANE_CALLS, out) &&
        !rpc_line_take_event(r->line, RPC_LANE_FLOW, out) &&
        !rpc_line_take_event(r->line, RPC_LANE_PROBES, out))
        return false;
    if (out->is_first)
        r->call_methods[(uint32_t)out->call % ARRAY_LEN(r->call_methods)] = out->method;
    return true;
}

static void serve_events(struct rpc_rig *r)
{
    for (struct rpc_event e; rpc_rig_take(r, &e); buf_free(&e.content))
        on_event(r, &e);
}

void rpc_rig_serve(struct rpc_rig *r)
{
    if (!r->rpc)
        return;
    rpc_line_turn(r->line);
    do {
        serve_events(r);
        rpc_flush(r->rpc);
    } while (rpc_has_events(r->rpc));
    if (!r->unchecked)
        rpc_check(r->rpc);
}

/* --- the client's side --- */

static void on_client_event(struct rpc_rig *r, const struct client_event *e)
{
    struct answer *a = e->call ? e->call->context : NULL;

    switch (e->kind) {
    case CLIENT_OPEN:
        r->client_opened++;
        break;
    case CLIENT_GONE:
        r->client_gone++;
        break;
    case CLIENT_MESSAGE:
        CHECK(a && a->ended == 0);
        a->messages++;
        buf_append(&a->got, e->message);
        break;
    case CLIENT_STATUS:
        CHECK(a && a->ended == 0);
        a->ended = 1;
        a->code = e->code;
        a->call = NULL;
        buf_append(&a->text, e->text);
        break;
    }
}

static void client_turn(struct rpc_rig *r)
{
    struct client_event e;

    if (!r->client)
        return;
    while (client_take(r->client, &e))
        on_client_event(r, &e);
    client_flush(r->client);
}

void rpc_rig_start(struct rpc_rig *r, struct answer *a, const char *method,
                   const struct client_request *more)
{
    struct client_request request = more ? *more : (struct client_request){0};
    char path[64];

    snprintf(path, sizeof(path), "/test.Echo/%s", method);
    *a = (struct answer){0};
    request.path = path;
    request.context = a;
    a->call = client_start(r->client, &request);
}

void rpc_rig_ask(struct rpc_rig *r, struct answer *a, const char *method, struct bytes message)
{
    rpc_rig_start(r, a, method, NULL);
    client_send(a->call, message);
    client_end(a->call);
    rpc_rig_until(r, &a->ended, 1);
}

void answer_free(struct answer *a)
{
    buf_free(&a->got);
    buf_free(&a->text);
}

/* --- both --- */

static void turn(struct rpc_rig *r)
{
    rpc_rig_serve(r);
    client_turn(r);
}

static void loop_turn_of_rig(void *context)
{
    struct rpc_rig *r = context;

    inbox_drain(r->io->inbox, 64);
    turn(r);
}

bool rpc_rig_step(struct rpc_rig *r)
{
    client_turn(r); /* what the test itself has queued */
    if (r->loop) {
        loop_run_once(r->loop, loop_turn_of_rig, r);
        return true;
    }
    bool more = fake_world_step(r->fake);
    turn(r);
    return more;
}

static void out_of_patience(struct timer *t)
{
    (void)t;
    test_fail(__FILE__, __LINE__, "it did not happen");
}

void rpc_rig_until(struct rpc_rig *r, const unsigned *count, unsigned want)
{
    struct timer patience = {.on_time = out_of_patience};

    if (r->loop)
        timer_start(r->io->clock, &patience, 20 * NS_PER_S);
    for (unsigned steps = 0; *count < want; steps++) {
        CHECK(r->loop || steps < PATIENCE_STEPS);
        CHECK(rpc_rig_step(r));
    }
    timer_stop(r->io->clock, &patience);
    CHECK_EQ(*count, want);
}

struct pause {
    struct timer timer;
    unsigned over;
};

static void pause_over(struct timer *t)
{
    container_of(t, struct pause, timer)->over++;
}

void rpc_rig_for_ms(struct rpc_rig *r, uint64_t ms)
{
    struct pause p = {.timer.on_time = pause_over};

    timer_start(r->io->clock, &p.timer, ms * NS_PER_MS);
    rpc_rig_until(r, &p.over, 1);
}

static void keep_line(void *context, struct bytes line)
{
    buf_append(context, line);
}

static void open_server(struct rpc_rig *r, const struct rpc_options *options)
{
    struct rpc_options o = options ? *options : (struct rpc_options){0};
    struct net_address a;

    r->logger = (struct logger){
        .level = LOG_DEBUG, .sink = keep_line, .sink_context = &r->logged, .clock = log_clock_none};
    r->line = rpc_line_open(&(struct rpc_line_options){0});
    o.line = r->line;
    o.io = r->io;
    o.logger = &r->logger;
    o.methods = methods;
    o.method_count = ARRAY_LEN(methods);
    r->rpc = rpc_open(&o);
    CHECK_EQ(net_address_parse("127.0.0.1:0", &a), ERR_OK);
    CHECK_EQ(rpc_listen(r->rpc, &(struct rpc_place){.address = a}, &r->address), ERR_OK);
}

void rpc_rig_open(struct rpc_rig *r, const struct rpc_options *options)
{
    *r = (struct rpc_rig){.fake = fake_world_new(test_seed())};
    list_init(&r->chores);
    r->io = fake_world_io(r->fake);
    open_server(r, options);
}

void rpc_rig_open_real(struct rpc_rig *r)
{
    *r = (struct rpc_rig){0};
    list_init(&r->chores);
    CHECK_EQ(loop_open(&(struct loop_options){0}, &r->loop), ERR_OK);
    r->io = loop_io(r->loop);
    open_server(r, NULL);
}

void rpc_rig_connect(struct rpc_rig *r)
{
    r->client = client_open(&(struct client_options){.io = r->io, .address = r->address});
}

/* Every call came to exactly one end, and every body to its own. */
void rpc_rig_close(struct rpc_rig *r)
{
    if (r->client) {
        unsigned gone = r->client_gone;
        if (client_conn(r->client)) {
            conn_close(client_conn(r->client), ERR_OK);
            rpc_rig_until(r, &r->client_gone, gone + 1);
        }
        client_close(r->client);
    }
    r->client = NULL;
    if (r->rpc)
        rpc_cut(r->rpc);
    for (unsigned steps = 0; r->rpc && !rpc_is_idle(r->rpc); steps++) {
        CHECK(steps < PATIENCE_STEPS);
        rpc_rig_step(r);
    }
    rpc_rig_serve(r);
    CHECK_EQ(r->live, 0);
    CHECK(list_empty(&r->chores));
    if (r->rpc)
        CHECK_EQ(rpc_status(r->rpc).calls, 0);
    rpc_close(r->rpc);
    rpc_line_close(r->line);
    if (r->loop) {
        loop_close(r->loop);
    } else {
        while (fake_world_step(r->fake))
            ;
        fake_world_free(r->fake);
    }
    buf_free(&r->logged);
}

/* --- raw clients --- */

static void raw_on_open(struct conn *c)
{
    struct raw *raw = c->context;

    raw->opened++;
    if (raw->ignores_input)
        conn_pause(c);
}

static void raw_on_data(struct conn *c, struct bytes data)
{
    struct raw *raw = c->context;

    raw->got_bytes += data.len;
    buf_append(&raw->got, data);
}

static void raw_on_end(struct conn *c)
{
    ((struct raw *)c->context)->ended++;
}

static void raw_on_closed(struct conn *c, enum err reason)
{
    struct raw *raw = c->context;

    (void)reason;
    raw->closed++;
    raw->conn = NULL;
}

void raw_connect_soon(struct rpc_rig *r, struct raw *raw)
{
    static const struct conn_handlers handlers = {raw_on_open, raw_on_data, raw_on_end,
                                                  raw_on_closed};

    raw->conn = net_connect(r->io->net, &r->address, &handlers, raw);
}

void raw_connect(struct rpc_rig *r, struct raw *raw)
{
    raw_connect_soon(r, raw);
    rpc_rig_until(r, &raw->opened, 1);
}

struct raw_write {
    struct conn_write write;
    struct bytes piece;
    uint8_t data[];
};

static void raw_written(struct conn_write *w, enum err e)
{
    (void)e;
    mem_free(container_of(w, struct raw_write, write));
}

void raw_send(struct raw *raw, struct bytes data)
{
    if (!raw->conn)
        return;
    struct raw_write *w = mem_alloc(sizeof(*w) + data.len);
    memcpy(w->data, data.at, data.len);
    w->piece = bytes_of(w->data, data.len);
    w->write = (struct conn_write){.pieces = &w->piece, .piece_count = 1, .on_done = raw_written};
    conn_write(raw->conn, &w->write);
}

void raw_close(struct rpc_rig *r, struct raw *raw)
{
    if (raw->conn)
        conn_close(raw->conn, ERR_OK);
    rpc_rig_until(r, &raw->closed, 1);
    buf_free(&raw->got);
}

void raw_say_and_leave(struct rpc_rig *r, struct raw *raw, struct bytes data)
{
    raw_send(raw, data);
    rpc_rig_for_ms(r, 5);
    raw_close(r, raw);
    while (rpc_status(r->rpc).conns > 0 || rpc_status(r->rpc).calls > 0)
        CHECK(rpc_rig_step(r));
}

void raw_until_ended(struct rpc_rig *r, struct raw *raw)
{
    for (unsigned steps = 0; raw->ended + raw->closed == 0; steps++) {
        CHECK(steps < PATIENCE_STEPS);
        CHECK(rpc_rig_step(r));
    }
}

/* --- frames --- */

void frame_put(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream, struct bytes payload)
{
    uint8_t head[9] = {(uint8_t)(payload.len >> 16),
                       (uint8_t)(payload.len >> 8),
                       (uint8_t)payload.len,
                       type,
                       flags,
                       (uint8_t)(stream >> 24),
                       (uint8_t)(stream >> 16),
                       (uint8_t)(stream >> 8),
                       (uint8_t)stream};

    buf_append(out, bytes_of(head, sizeof(head)));
    buf_append(out, payload);
}

void frame_preface(struct buf *out)
{
    buf_append_str(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frame_put(out, 4, 0, 0, bytes_of(NULL, 0));
}

static void put_hpack_length(struct buf *out, size_t len)
{
    if (len < 127) {
        buf_append_byte(out, (uint8_t)len);
        return;
    }
    buf_append_byte(out, 127);
    for (len -= 127; len >= 128; len >>= 7)
        buf_append_byte(out, (uint8_t)(0x80 | (len & 127)));
    buf_append_byte(out, (uint8_t)len);
}

void field_put(struct buf *out, const char *name, const char *value)
{
    buf_append_byte(out, 0); /* literal, not indexed, new name */
    put_hpack_length(out, strlen(name));
    buf_append_str(out, name);
    put_hpack_length(out, strlen(value));
    buf_append_str(out, value);
}

void field_put_repeated(struct buf *out, size_t value_bytes, size_t count)
{
    const uint8_t literal_to_keep = 0x40, newest_of_table = 0x80 | 62;
    struct buf value = {0}, field = {0};

    memset(buf_extend(&value, value_bytes), 'v', value_bytes);
    field_put(&field, "x", buf_str(&value));
    field.at[0] = literal_to_keep;
    buf_append(out, buf_bytes(&field));
    memset(buf_extend(out, count), newest_of_table, count);
    buf_free(&value);
    buf_free(&field);
}

void frame_put_block(struct buf *out, uint8_t flags, uint32_t stream, struct bytes block)
{
    enum { HEADERS = 1, CONTINUATION = 9, END_HEADERS = 4, FRAME_BYTES_MAX = 16384 };
    uint8_t type = HEADERS;

    do {
        size_t len = block.len < FRAME_BYTES_MAX ? block.len : FRAME_BYTES_MAX;
        uint8_t end = len == block.len ? END_HEADERS : 0;
        frame_put(out, type, (uint8_t)(flags | end), stream, bytes_of(block.at, len));
        block = bytes_of(block.at + len, block.len - len);
        type = CONTINUATION;
        flags = 0;
    } while (block.len > 0);
}

void frame_request(struct buf *out, uint32_t stream, const char *path, bool ends, struct bytes more)
{
    struct buf fields = {0};

    field_put(&fields, ":method", "POST");
    field_put(&fields, ":scheme", "http");
    field_put(&fields, ":path", path);
    field_put(&fields, ":authority", "test");
    if (more.len == 0)
        field_put(&fields, "content-type", "application/grpc");
    buf_append(&fields, more);
    frame_put(out, 1, (uint8_t)(4 | ends), stream, buf_bytes(&fields));
    buf_free(&fields);
}

void message_put(struct buf *out, struct bytes message)
{
    uint8_t prefix[5] = {0, (uint8_t)(message.len >> 24), (uint8_t)(message.len >> 16),
                         (uint8_t)(message.len >> 8), (uint8_t)message.len};

    buf_append(out, bytes_of(prefix, 5));
    buf_append(out, message);
}

bool frame_find(struct bytes in, uint8_t type, unsigned nth, uint32_t *stream,
                struct bytes *payload)
{
    while (in.len >= 9) {
        size_t len = (size_t)in.at[0] << 16 | (size_t)in.at[1] << 8 | in.at[2];
        if (in.len < 9 + len)
            return false;
        *stream = (uint32_t)in.at[5] << 24 | (uint32_t)in.at[6] << 16 | (uint32_t)in.at[7] << 8 |
                  in.at[8];
        *payload = bytes_of(in.at + 9, len);
        if (in.at[3] == type && nth-- == 0)
            return true;
        in = bytes_of(in.at + 9 + len, in.len - 9 - len);
    }
    return false;
}

static void inflate_fields(nghttp2_hd_inflater *inflater, struct bytes block, bool wanted,
                           struct buf *out)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t taken = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, block.at, block.len, 1);

        CHECK(taken >= 0);
        block = bytes_of(block.at + taken, block.len - (size_t)taken);
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) && wanted) {
            buf_append(out, bytes_of(nv.name, nv.namelen));
            buf_append_str(out, ": ");
            buf_append(out, bytes_of(nv.value, nv.valuelen));
            buf_append_byte(out, '\n');
        }
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
        CHECK(block.len > 0 || (flags & NGHTTP2_HD_INFLATE_EMIT));
    }
    nghttp2_hd_inflate_end_headers(inflater);
}

void fields_found(struct bytes in, uint32_t stream, struct buf *out)
{
    nghttp2_hd_inflater *inflater;
    struct bytes payload;
    uint32_t of;

    CHECK_EQ(nghttp2_hd_inflate_new(&inflater), 0);
    for (unsigned nth = 0; frame_find(in, NGHTTP2_HEADERS, nth, &of, &payload); nth++)
        inflate_fields(inflater, payload, of == stream, out);
    nghttp2_hd_inflate_del(inflater);
}
