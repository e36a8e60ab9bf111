/* Requests in plain HTTP/1.1: the connection is http's, one call at a time is the caller's. */
#include "base/assert.h"
#include "http/http.h"
#include "rpc/rpc_int.h"

enum { RESULT_FIELDS_MAX = 8 };

struct plain {
    struct http_conn http;
    struct buf body;
    struct buf names; /* of the fields that the caller has added, and their values */
    struct {
        size_t name_at, name_len, value_len;
    } extra[RESULT_FIELDS_MAX];
    size_t extra_count;
    struct call *call; /* the request that waits for its answer, or NULL */
    bool last;         /* the connection ends with the next answer */
};

static struct rpc_conn *conn_of(struct http_conn *h)
{
    return h->context;
}

/* --- answers --- */

static void write_answer(struct plain *p, unsigned status, const char *type, struct bytes body)
{
    struct http1_field fields[RESULT_FIELDS_MAX + 3];
    size_t count = 0;

    if (type)
        fields[count++] = (struct http1_field){BYTES("Content-Type"), bytes_of_str(type)};
    if (status == 405)
        fields[count++] = (struct http1_field){BYTES("Allow"), BYTES("GET")};
    if (status >= 400)
        fields[count++] = (struct http1_field){BYTES("X-Content-Type-Options"), BYTES("nosniff")};
    for (size_t i = 0; i < p->extra_count; i++) {
        const uint8_t *at = p->names.at + p->extra[i].name_at;
        fields[count++] = (struct http1_field){
            bytes_of(at, p->extra[i].name_len),
            bytes_of(at + p->extra[i].name_len, p->extra[i].value_len),
        };
    }
    http_respond(&p->http, status,
                 &(struct http_message_options){
                     .fields = fields, .field_count = count, .length = body.len, .close = p->last});
    http_send(&p->http, body);
    buf_clear(&p->names);
    p->extra_count = 0;
}

static void refuse(struct rpc_conn *c, unsigned status)
{
    struct buf *text = &c->rpc->scratch;

    buf_clear(text);
    buf_printf(text, "%u %s", status, http1_reason(status));
    c->plain->last = true;
    write_answer(c->plain, status, "text/plain; charset=utf-8", buf_bytes(text));
    http_finish(&c->plain->http);
}

void rpc_http_set(struct rpc_call *pub, const char *name, struct bytes value)
{
    struct plain *p = pub->conn->plain;

    assert(pub->kind == RPC_HTTP1);
    if (!p)
        return;
    assert(p->extra_count < RESULT_FIELDS_MAX);
    p->extra[p->extra_count].name_at = p->names.len;
    p->extra[p->extra_count].name_len = strlen(name);
    p->extra[p->extra_count++].value_len = value.len;
    buf_append_str(&p->names, name);
    buf_append(&p->names, value);
}

struct bytes rpc_http_field(const struct rpc_call *pub, const char *name)
{
    bool found = false;

    assert(pub->kind == RPC_HTTP1);
    return pub->conn->plain ? http1_field(&pub->conn->plain->http.reader, name, &found)
                            : bytes_of(NULL, 0);
}

/* --- requests --- */

static size_t body_max(const struct rpc_conn *c)
{
    return c->rpc->options.message_bytes_max * PLAIN_BODY_FACTOR;
}

static void on_head(struct http_conn *h)
{
    struct rpc_conn *c = conn_of(h);

    if (h->reader.has_length && h->reader.length > body_max(c))
        refuse(c, 413);
}

static void on_body(struct http_conn *h, struct bytes piece)
{
    struct rpc_conn *c = conn_of(h);
    struct plain *p = c->plain;

    if (piece.len > body_max(c) - p->body.len) {
        refuse(c, 413);
        return;
    }
    buf_append(&p->body, piece);
    http_consumed(h, piece.len);
}

/* Head and body move to the call, which may live longer than the connection. */
static void on_end(struct http_conn *h)
{
    struct rpc_conn *c = conn_of(h);
    struct plain *p = c->plain;
    struct call *call = rpc_call_new(c, RPC_HTTP1, 0);
    bool found;

    timer_stop(c->rpc->clock, &c->timer);
    p->call = call;
    buf_free(&call->fields);
    buf_free(&call->reader.content);
    call->fields = h->reader.head;
    h->reader.head = (struct buf){0};
    call->reader.content = p->body;
    p->body = (struct buf){0};
    call->kept = call->fields.len;
    c->kept += call->kept;
    call->reserved = call->reader.content.len;
    c->held += call->reserved;
    call->pub.authorization = http1_field(&h->reader, "Authorization", &found);
    call->lent = call->whole = true; /* until the end: nothing of it is dropped before */
    rpc_event_add(call, PENDING_HTTP);
}

/* Bodies of answers are small, and given at once. */
static void on_credit(struct http_conn *h)
{
    (void)h;
}

static void on_over(struct http_conn *h, bool kept)
{
    struct rpc_conn *c = conn_of(h);

    buf_clear(&c->plain->body);
    if (kept)
        rpc_conn_set_alarm(c, ALARM_HEAD, HEAD_TIMEOUT_MS);
    else
        c->plain->last = true;
}

static void on_broken(struct http_conn *h, const char *why)
{
    struct rpc_conn *c = conn_of(h);

    log_debug(c->rpc->logger, "refusing a request", LOG_STR("remote", c->info.remote),
              LOG_STR("error", why));
    c->plain->last = true;
}

static const struct http_events events = {.on_head = on_head,
                                          .on_body = on_body,
                                          .on_end = on_end,
                                          .on_credit = on_credit,
                                          .on_over = on_over,
                                          .on_broken = on_broken};

/* All is said, and nothing more is heard: http has no use for the connection. Lingering frees the
 * plain part of it, so it is never done from inside http's callbacks. */
static void settle(struct rpc_conn *c)
{
    if (c->wire.filling)
        rpc_conn_touch(c);
    if (c->plain->http.in == HTTP_IN_NOTHING && !c->plain->call)
        rpc_conn_linger(c);
}

void rpc_plain_show(const struct call *c, struct rpc_event *out)
{
    const struct http_conn *h = &c->pub.conn->plain->http;

    out->verb = h->reader.verb;
    out->path = http_path(h);
    out->query = http_query(h);
    out->body = buf_bytes(&c->reader.content);
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
    write_answer(c->plain, status, type, body);
    c->plain->call = NULL; /* the next request may come from within http_finish */
    rpc_call_detach(call);
    http_finish(&c->plain->http);
    settle(c);
}

/* --- what the connection says --- */

void rpc_plain_begin(struct rpc_conn *c)
{
    c->plain = mem_new(struct plain);
    http_open(&c->plain->http, &(struct http_conn_options){.reads = HTTP1_REQUEST,
                                                           .conn = c->conn,
                                                           .wire = &c->wire,
                                                           .clock = c->rpc->clock,
                                                           .on = &events,
                                                           .context = c});
}

void rpc_plain_free(struct rpc_conn *c)
{
    struct plain *p = c->plain;

    http_close(&p->http);
    buf_free(&p->body);
    buf_free(&p->names);
    mem_free(p);
    c->plain = NULL;
}

void rpc_plain_data(struct rpc_conn *c, struct bytes data)
{
    http_data(&c->plain->http, data);
    settle(c);
}

/* A client may shut its side down and still wait for the answer; it looks as if it had left. So it
 * gets one that is about to be given. */
void rpc_plain_end(struct rpc_conn *c)
{
    http_ended(&c->plain->http);
    if (c->plain->call)
        rpc_conn_set_alarm(c, ALARM_LINGER, LINGER_MS);
    else if (c->plain->http.reader.why) /* it left within a request, and is told so */
        settle(c);
    else
        rpc_conn_cut(c, ERR_END);
}

void rpc_plain_sent(struct rpc_conn *c)
{
    http_sent(&c->plain->http);
    settle(c);
}

void rpc_plain_stop(struct rpc_conn *c)
{
    c->plain->last = true;
    if (!c->plain->call)
        rpc_conn_linger(c);
}

/* Go's server, too, says something only to those whose head it has read. */
void rpc_plain_timed_out(struct rpc_conn *c)
{
    if (c->plain->http.in == HTTP_IN_MESSAGE && !http_has_responded(&c->plain->http))
        refuse(c, 408);
    rpc_conn_linger(c);
}
