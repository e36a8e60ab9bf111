#include "base/assert.h"
#include "rpc/rpc_int.h"

/* One request at a time; what comes behind it waits. */
struct plain {
    struct http1_reader reader;
    struct buf body;
    struct buf later;
    struct buf extra;  /* fields of the answer, as they will be sent */
    struct call *call; /* the request that waits for its answer, or NULL */
    bool last;         /* the connection ends with the next answer */
};

void rpc_plain_begin(struct rpc_conn *c)
{
    c->plain = mem_new(struct plain);
    http1_init(&c->plain->reader, HTTP1_REQUEST);
}

void rpc_plain_free(struct rpc_conn *c)
{
    struct plain *p = c->plain;

    http1_free(&p->reader);
    buf_free(&p->body);
    buf_free(&p->later);
    buf_free(&p->extra);
    mem_free(p);
    c->plain = NULL;
}

/* --- answers --- */

static void write_answer(struct rpc_conn *c, unsigned status, const char *type, struct bytes body)
{
    struct plain *p = c->plain;
    struct buf *out = wire_buf(&c->wire);
    bool is_head = bytes_equal(p->reader.verb, BYTES("HEAD"));

    http1_write_status_line(out, status);
    if (type)
        http1_write_field(out, "Content-Type", bytes_of_str(type));
    if (status == 405)
        http1_write_field(out, "Allow", BYTES("GET"));
    if (status >= 400)
        http1_write_field(out, "X-Content-Type-Options", BYTES("nosniff"));
    buf_append(out, buf_bytes(&p->extra));
    http1_write_date(out, clock_wall_ns(c->rpc->clock));
    http1_write_length(out, body.len);
    if (p->last)
        http1_write_field(out, "Connection", BYTES("close"));
    else if (p->reader.is_1_0)
        http1_write_field(out, "Connection", BYTES("keep-alive"));
    http1_write_head_end(out);
    if (!is_head)
        buf_append(out, body);
    buf_clear(&p->extra);
    rpc_conn_touch(c);
}

static void refuse(struct rpc_conn *c, unsigned status)
{
    struct buf *text = &c->rpc->scratch;

    buf_clear(text);
    buf_printf(text, "%u %s", status, http1_reason(status));
    c->plain->last = true;
    write_answer(c, status, "text/plain; charset=utf-8", buf_bytes(text));
    rpc_conn_linger(c);
}

void rpc_http_set(struct rpc_call *pub, const char *name, struct bytes value)
{
    assert(pub->kind == RPC_HTTP1);

    if (pub->conn->plain)
        http1_write_field(&pub->conn->plain->extra, name, value);
}

struct bytes rpc_http_field(const struct rpc_call *pub, const char *name)
{
    bool found = false;

    assert(pub->kind == RPC_HTTP1);
    return pub->conn->plain ? http1_field(&pub->conn->plain->reader, name, &found)
                            : bytes_of(NULL, 0);
}

/* --- requests --- */

static size_t body_max(const struct rpc_conn *c)
{
    return c->rpc->options.message_bytes_max * PLAIN_BODY_FACTOR;
}

/* Reading goes on for a while, or we would not hear that the client has left. */
static void wait_with(struct rpc_conn *c, struct bytes data)
{
    buf_append(&c->plain->later, data);
    if (c->plain->later.len > PLAIN_LATER_BYTES)
        conn_pause(c->conn);
}

/* Head and body move to the call, which may live longer than the connection. */
static void announce(struct rpc_conn *c)
{
    struct plain *p = c->plain;
    struct call *call = rpc_call_new(c, RPC_HTTP1, 0);
    bool found;

    timer_stop(c->rpc->clock, &c->timer);
    p->last |= !p->reader.keep_alive;
    p->call = call;
    buf_free(&call->fields);
    buf_free(&call->reader.content);
    call->fields = p->reader.head;
    p->reader.head = (struct buf){0};
    call->reader.content = p->body;
    p->body = (struct buf){0};
    call->kept = call->fields.len;
    c->kept += call->kept;
    call->reserved = call->reader.content.len;
    c->held += call->reserved;
    call->pub.authorization = http1_field(&p->reader, "Authorization", &found);
    call->lent = call->whole = true; /* until the end: nothing of it is dropped before */
    rpc_event_add(call, PENDING_HTTP);
}

void rpc_plain_show(const struct call *c, struct rpc_event *out)
{
    const struct http1_reader *r = &c->pub.conn->plain->reader;
    const uint8_t *mark = memchr(r->target.at, '?', r->target.len);

    out->verb = r->verb;
    out->path = bytes_of(r->target.at, mark ? (size_t)(mark - r->target.at) : r->target.len);
    out->query = mark ? bytes_of(mark + 1, r->target.len - out->path.len - 1) : bytes_of(NULL, 0);
    out->body = buf_bytes(&c->reader.content);
}

/* False if the request is refused. */
static bool take_head(struct rpc_conn *c)
{
    const struct http1_reader *r = &c->plain->reader;

    if (r->has_length && r->length > body_max(c)) {
        refuse(c, 413);
        return false;
    }
    if (r->expects_continue && r->part != HTTP1_AT_END) {
        http1_write_status_line(wire_buf(&c->wire), 100);
        http1_write_head_end(wire_buf(&c->wire));
        rpc_conn_touch(c);
    }
    return true;
}

static bool take_body(struct rpc_conn *c, struct bytes piece)
{
    struct plain *p = c->plain;

    if (piece.len > body_max(c) - p->body.len) {
        refuse(c, 413);
        return false;
    }
    buf_append(&p->body, piece);
    return true;
}

void rpc_plain_data(struct rpc_conn *c, struct bytes data)
{
    struct plain *p = c->plain;

    while (!p->call && !wire_is_full(&c->wire)) {
        struct bytes piece;

        switch (http1_read(&p->reader, &data, &piece)) {
        case HTTP1_MORE:
            return;
        case HTTP1_HEAD:
            if (!take_head(c))
                return;
            break;
        case HTTP1_BODY:
            if (!take_body(c, piece))
                return;
            break;
        case HTTP1_END:
            announce(c);
            break;
        case HTTP1_BAD:
            log_debug(c->rpc->log, "refusing a request", LOG_STR("remote", c->info.remote),
                      LOG_STR("error", p->reader.why));
            refuse(c, p->reader.bad_status);
            return;
        }
    }
    wait_with(c, data);
}

/* Goes on with what has come meanwhile. */
static void read_later(struct rpc_conn *c)
{
    struct buf later = c->plain->later;

    c->plain->later = (struct buf){0};
    rpc_plain_data(c, buf_bytes(&later));
    buf_free(&later);
    if (c->state == CONN_PLAIN && c->plain->later.len <= PLAIN_LATER_BYTES)
        conn_resume(c->conn);
}

static void begin_next(struct rpc_conn *c)
{
    struct plain *p = c->plain;

    if (p->last) {
        rpc_conn_linger(c);
        return;
    }
    http1_next(&p->reader);
    rpc_conn_set_alarm(c, ALARM_HEAD, HEAD_TIMEOUT_MS);
    read_later(c);
}

void rpc_http_reply(struct rpc_call *pub, unsigned status, const char *type, struct bytes body)
{
    struct call *call = call_of(pub);
    struct rpc_conn *c = pub->conn;

    assert(pub->kind == RPC_HTTP1);
    assert(!call->released);
    call->released = true;
    call->lent = false;
    if (!call->attached) {
        rpc_call_free(call);
        return;
    }
    assert(c->plain->call == call);
    write_answer(c, status, type, body);
    c->plain->call = NULL;
    rpc_call_detach(call);
    begin_next(c);
}

/* --- the ends --- */

/* A client may shut its side down and still wait for the answer; it looks as if it had left. So it
 * gets one that is about to be given. */
void rpc_plain_end(struct rpc_conn *c)
{
    if (!c->plain->call) {
        rpc_conn_cut(c, ERR_END);
        return;
    }
    c->plain->last = true;
    rpc_conn_set_alarm(c, ALARM_LINGER, LINGER_MS);
}

void rpc_plain_sent(struct rpc_conn *c)
{
    if (!c->plain->call && c->plain->later.len > 0 && !wire_is_full(&c->wire))
        read_later(c);
}

void rpc_plain_stop(struct rpc_conn *c)
{
    c->plain->last = true;
    if (!c->plain->call)
        rpc_conn_linger(c);
}

void rpc_plain_timed_out(struct rpc_conn *c)
{
    bool begun = c->plain->reader.head.len > 0 || c->plain->reader.part != HTTP1_IN_HEAD;

    if (begun)
        refuse(c, 408);
    else
        rpc_conn_linger(c);
}
