/* Requests in plain HTTP/1.1: the connection is http's, one call at a time is the core's. */
#include "base/assert.h"
#include "rpc/rpc_int.h"

struct plain {
    struct http_conn http;
    struct buf body;
    struct call *call; /* the request that waits for its answer, or NULL */
    bool last;         /* the connection ends with the next answer */
};

static struct rpc_conn *conn_of(struct http_conn *h)
{
    return h->context;
}

/* --- answers --- */

/* The next line of "name:value"; false at the end. */
static bool next_field(struct bytes *lines, struct http1_field *out)
{
    if (lines->len == 0)
        return false;
    const uint8_t *end = memchr(lines->at, '\n', lines->len);
    const uint8_t *colon = memchr(lines->at, ':', lines->len);
    assert(end && colon && colon < end);
    *out = (struct http1_field){bytes_of(lines->at, (size_t)(colon - lines->at)),
                                bytes_of(colon + 1, (size_t)(end - colon) - 1)};
    *lines = bytes_of(end + 1, lines->len - (size_t)(end + 1 - lines->at));
    return true;
}

/* A 405 says "Allow: GET", and errors forbid to guess their type. */
size_t rpc_plain_fields(const struct rpc_conn *c, struct bytes origin, unsigned status,
                        const char *type, struct bytes lines,
                        struct http1_field fields[static RPC_PLAIN_FIELDS_MAX])
{
    size_t count = rpc_policy_fields(c, origin, fields);

    if (type)
        fields[count++] = (struct http1_field){BYTES("Content-Type"), bytes_of_str(type)};
    if (status == 405)
        fields[count++] = (struct http1_field){BYTES("Allow"), BYTES("GET")};
    if (status >= 400)
        fields[count++] = (struct http1_field){BYTES("X-Content-Type-Options"), BYTES("nosniff")};
    for (struct http1_field f; next_field(&lines, &f); fields[count++] = f)
        assert(count < RPC_PLAIN_FIELDS_MAX);
    return count;
}

static void write_answer(struct plain *p, unsigned status, const char *type, struct bytes lines,
                         struct bytes body)
{
    struct http1_field fields[RPC_PLAIN_FIELDS_MAX];
    bool found;
    struct bytes origin = http1_field(&p->http.reader, "Origin", &found);
    size_t count = rpc_plain_fields(conn_of(&p->http), origin, status, type, lines, fields);

    http_respond(&p->http, status,
                 &(struct http_message_options){
                     .fields = fields, .field_count = count, .length = body.len, .close = p->last});
    http_send(&p->http, body);
}

void rpc_plain_respond(struct rpc_conn *c, unsigned status, const struct http1_field *fields,
                       size_t count, uint64_t length)
{
    struct http_conn *h = &c->plain->http;
    struct http1_field all[RPC_PLAIN_FIELDS_MAX];
    bool found;
    size_t total = rpc_policy_fields(c, http1_field(&h->reader, "Origin", &found), all);

    assert(total + count <= ARRAY_LEN(all));
    memcpy(all + total, fields, count * sizeof(*fields));
    http_respond(h, status,
                 &(struct http_message_options){.fields = all,
                                                .field_count = total + count,
                                                .length = length,
                                                .close = c->plain->last});
}

static void refuse(struct rpc_conn *c, unsigned status)
{
    struct buf *text = &c->rpc->scratch;

    buf_clear(text);
    buf_printf(text, "%u %s", status, http1_reason(status));
    c->plain->last = true;
    write_answer(c->plain, status, "text/plain; charset=utf-8", bytes_of(NULL, 0), buf_bytes(text));
    http_finish(&c->plain->http);
}

static void redirect(struct rpc_conn *c)
{
    struct http_conn *h = &c->plain->http;
    struct http1_field fields[RPC_POLICY_FIELDS];
    bool found;
    size_t count = rpc_policy_fields(c, http1_field(&h->reader, "Origin", &found), fields);

    http_redirect(h, fields, count);
}

/* --- requests --- */

/* Where clients are served, a page of another origin asks what it may do, of whatever path. */
bool rpc_plain_asks_options(const struct rpc_conn *c, struct bytes verb)
{
    return bytes_equal(verb, BYTES("OPTIONS")) && c->serves != RPC_SERVES_PROBES;
}

static size_t body_max(const struct rpc_conn *c)
{
    return c->serves == RPC_SERVES_PROBES ? 0
                                          : c->rpc->options.message_bytes_max * PLAIN_BODY_FACTOR;
}

static void on_head(struct http_conn *h)
{
    struct rpc_conn *c = conn_of(h);
    bool found;

    if (!rpc_policy_allows_host(c, http1_field(&h->reader, "Host", &found))) {
        refuse(c, 421);
        return;
    }
    if (http_is_misdirected(h) && !rpc_plain_asks_options(c, h->reader.verb)) {
        redirect(c);
        return;
    }
    if (rpc_gateway_takes(c, h->reader.verb, http_path(h))) {
        timer_stop(c->rpc->clock, &c->timer); /* bodies of streams take as long as they like */
        c->plain->call = rpc_gateway_head(c);
        return;
    }
    if (h->reader.has_length && h->reader.length > body_max(c))
        refuse(c, 413);
}

static void on_body(struct http_conn *h, struct bytes piece)
{
    struct rpc_conn *c = conn_of(h);
    struct plain *p = c->plain;

    if (p->call) {
        rpc_gateway_body(p->call, piece);
        return;
    }
    if (h->in == HTTP_IN_SWITCHED) { /* and all is said */
        http_consumed(h, piece.len);
        return;
    }
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

    if (p->call) {
        rpc_gateway_body_end(p->call);
        return;
    }
    struct call *call = rpc_call_new(c, true, 0);
    timer_stop(c->rpc->clock, &c->timer);
    p->call = call;
    buf_free(&call->fields);
    buf_free(&call->reader.content);
    call->fields = h->reader.head;
    h->reader.head = (struct buf){0};
    call->reader.content = p->body;
    p->body = (struct buf){0};
    rpc_call_count_kept(call, call->fields.len);
    call->reserved = call->reader.content.len;
    c->held += call->reserved;
    call->in = IN_WHOLE;
    rpc_call_set_busy(call);
    rpc_event_add(call, PENDING_HTTP);
}

/* What the core answers to plain requests is small, and given at once. */
static void on_credit(struct http_conn *h)
{
    struct call *call = conn_of(h)->plain->call;

    if (call && call->gateway)
        rpc_call_touch(call);
}

static void on_over(struct http_conn *h, bool kept)
{
    struct rpc_conn *c = conn_of(h);

    buf_clear(&c->plain->body);
    if (kept)
        rpc_conn_set_alarm(c, ALARM_HEAD, RPC_HEAD_MS);
    else
        c->plain->last = true;
}

static void on_broken(struct http_conn *h, const char *why)
{
    struct rpc_conn *c = conn_of(h);

    log_debug(c->rpc->logger, "refusing a request", LOG_STR("remote", c->info.remote),
              LOG_STR("error", why));
    c->plain->last = true;
    if (c->plain->call && c->plain->call->gateway) { /* it will never be whole */
        struct call *call = c->plain->call;
        c->plain->call = NULL;
        rpc_call_detach(call);
    }
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

static struct rpc_span add(struct buf *out, struct bytes what)
{
    struct rpc_span span = {(uint32_t)out->len, (uint32_t)what.len};

    buf_append(out, what);
    return span;
}

static struct rpc_span add_fields(struct buf *out, const struct http1_reader *r)
{
    size_t front = out->len;

    for (size_t i = 0; i < r->field_count; i++) {
        buf_append(out, r->fields[i].name);
        buf_append_byte(out, ':');
        buf_append(out, r->fields[i].value);
        buf_append_byte(out, '\n');
    }
    return (struct rpc_span){(uint32_t)front, (uint32_t)(out->len - front)};
}

void rpc_plain_show(struct call *c, struct rpc_event *out)
{
    if (c->web) {
        rpc_web_show(c, out);
        return;
    }
    const struct http_conn *h = &c->conn->plain->http;
    struct buf *content = &out->content;
    bool found;

    c->in = IN_LENT; /* until the end: it counts so long */
    out->is_first = true;
    *content = c->reader.content;
    c->reader.content = (struct buf){0};
    out->message.len = (uint32_t)content->len;
    out->verb = add(content, h->reader.verb);
    out->path = add(content, http_path(h));
    out->query = add(content, http_query(h));
    out->fields = add_fields(content, &h->reader);
    out->authorization = add(content, http1_field(&h->reader, "Authorization", &found));
    out->has_authorization = found;
    out->remote = add(content, bytes_of(c->conn->info.remote, c->conn->remote_len));
    out->cn = add(content, bytes_of(c->conn->info.cn, c->conn->cn_len));
}

void rpc_plain_reply(struct call *call, const struct rpc_reply *v)
{
    struct rpc_conn *c = call->conn;
    struct bytes all = buf_bytes(&v->content);

    call->life = LIFE_OVER;
    call->in = IN_WHOLE;
    rpc_event_drop(call, PENDING_ALL);
    rpc_budget_return(call);
    if (call->out == OUT_CLOSED) {
        rpc_call_free(call);
        return;
    }
    struct bytes lines = bytes_of(all.at, (size_t)v->bytes);
    if (lines.len > 0)
        all = bytes_of(all.at + lines.len, all.len - lines.len);
    if (call->web) {
        rpc_web_reply(call, v->code, v->type, lines, all);
        return;
    }
    assert(c->plain->call == call);
    write_answer(c->plain, v->code, v->type, lines, all);
    c->plain->call = NULL; /* the next request may come from within http_finish */
    rpc_call_detach(call);
    http_finish(&c->plain->http);
    settle(c);
}

void rpc_plain_answered(struct call *call)
{
    struct rpc_conn *c = call->conn;

    assert(c->plain->call == call);
    c->plain->call = NULL; /* the next request may come from within http_finish */
    rpc_call_detach(call);
    http_finish(&c->plain->http);
}

void rpc_plain_flush(struct rpc_conn *c)
{
    for (struct list *link; (link = list_pop_front(&c->touched));)
        rpc_gateway_flush(container_of(link, struct call, touched_link));
    if (c->state == CONN_PLAIN)
        settle(c);
}

struct http_conn *rpc_plain_http(struct rpc_conn *c)
{
    return &c->plain->http;
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
                                                           .context = c,
                                                           .paths = rpc_policy_paths(c),
                                                           .heads = &c->rpc->heads});
}

void rpc_plain_free(struct rpc_conn *c)
{
    struct plain *p = c->plain;

    http_close(&p->http);
    buf_free(&p->body);
    mem_free(p);
    c->plain = NULL;
}

void rpc_plain_data(struct rpc_conn *c, struct bytes data)
{
    http_data(&c->plain->http, data);
    settle(c);
}

static bool is_websocket(const struct call *c)
{
    return c->gateway && rpc_gateway_is_websocket(c);
}

/* A client may shut its side down and still wait for the answer; it looks as if it had left. So it
 * gets one that is about to be given. */
void rpc_plain_end(struct rpc_conn *c)
{
    http_ended(&c->plain->http);
    if (c->plain->call && !is_websocket(c->plain->call))
        rpc_conn_set_alarm(c, ALARM_LINGER, RPC_LINGER_MS);
    else if (!c->plain->call &&
             c->plain->http.reader.why) /* it left within a request, and hears so */
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
