/*
 * Plain requests on HTTP/2: what a stream by TLS asks for that is not gRPC. The core hears of it by
 * the same event as of a request in HTTP/1.1, and answers the same.
 *
 *     HEADERS (fields kept) DATA* END_STREAM --> PENDING_HTTP ... rpc_web_reply --> HEADERS DATA*
 *
 * One for the gateway is a call instead (gateway_call.c): it gets the body piece by piece, and
 * gives the response so.
 */
#include "base/assert.h"
#include "gateway/gateway.h"
#include "rpc/rpc_int.h"

#include <stdio.h>

struct web {
    struct buf path_text;
    struct bytes path, query; /* once all fields are here */
    enum http_path_kind path_kind;
    struct buf fields; /* lines of "name:value" */
    struct buf reply;  /* its body, as far as it is here */
    size_t sent;       /* of it */
    bool is_whole;     /* nothing will be added to it */
    bool is_bodyless;  /* the response to a HEAD */
    bool is_refused;   /* when its body has come: by the gateway, or as misdirected */
};

enum { STATUS_DIGITS = 3, LENGTH_DIGITS_MAX = 20 };
enum { DATE_FRONT_BYTES = sizeof("Date: ") - 1, LINE_END_BYTES = 2 };

void rpc_web_begin(struct call *c)
{
    assert(!c->web);
    c->web = mem_new(struct web);
}

size_t rpc_web_queued(const struct call *c)
{
    return c->web->reply.len;
}

void rpc_web_free(struct call *c)
{
    struct web *w = c->web;

    rpc_conn_count_text(c->conn, w->reply.len, 0);
    buf_free(&w->path_text);
    buf_free(&w->fields);
    buf_free(&w->reply);
    mem_free(w);
    c->web = NULL;
}

/* --- the reply --- */

static ssize_t put_off(struct call *c)
{
    c->out = OUT_DEFERRED;
    return NGHTTP2_ERR_DEFERRED;
}

/* All that was there has left: there may be more to be had. */
static void drained(struct call *c)
{
    struct web *w = c->web;

    rpc_conn_count_text(c->conn, w->reply.len, 0);
    buf_free(&w->reply); /* a stream may be silent for long, and what it keeps is not counted */
    w->sent = 0;
    if (!w->is_whole && list_empty(&c->touched_link)) {
        list_push_back(&c->conn->touched, &c->touched_link);
        rpc_flush_again(c->conn);
    }
}

static ssize_t read_body(nghttp2_session *s, int32_t stream_id, uint8_t *at, size_t max,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct call *c = source->ptr;
    struct web *w = c->web;
    size_t left = w->reply.len - w->sent;
    size_t count = left < max ? left : max;

    (void)s;
    (void)stream_id;
    (void)context;
    if (left == 0 && !w->is_whole)
        return put_off(c);
    if (count > 0)
        memcpy(at, w->reply.at + w->sent, count);
    w->sent += count;
    if (count == left && w->is_whole)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (count == left)
        drained(c);
    return (ssize_t)count;
}

/* The name may be in any case: nghttp2 copies it, in lower case. */
static nghttp2_nv copied(struct bytes name, struct bytes value)
{
    return (nghttp2_nv){(uint8_t *)name.at, (uint8_t *)value.at, name.len, value.len,
                        NGHTTP2_NV_FLAG_NONE};
}

/* A browser's page says whose it is. */
static struct bytes origin_of(const struct web *w)
{
    struct rpc_event fields = {.content = w->fields, .fields = {0, (uint32_t)w->fields.len}};

    return rpc_event_field(&fields, "origin");
}

/* A body follows, unless its length is 0 or nobody wants it. */
static void submit_head(struct call *c, unsigned status, const struct http1_field *fields,
                        size_t count, uint64_t length)
{
    nghttp2_data_provider provider = {.source.ptr = c, .read_callback = read_body};
    nghttp2_nv out[RPC_PLAIN_FIELDS_MAX + 3];
    struct buf date = {0};
    size_t total = 0;
    char status_text[STATUS_DIGITS + 1], length_text[LENGTH_DIGITS_MAX + 1];
    bool has_body = length > 0 && !c->web->is_bodyless;

    assert(c->out == OUT_NOTHING);
    assert(status >= 100 && status < 1000);
    assert(count <= RPC_PLAIN_FIELDS_MAX);
    snprintf(status_text, sizeof(status_text), "%u", status % 1000);
    out[total++] = copied(BYTES(":status"), bytes_of_str(status_text));
    if (length != HTTP_CHUNKED) {
        snprintf(length_text, sizeof(length_text), "%llu", (unsigned long long)length);
        out[total++] = copied(BYTES("content-length"), bytes_of_str(length_text));
    }
    for (size_t i = 0; i < count; i++)
        out[total++] = copied(fields[i].name, fields[i].value);
    http1_write_date(&date, clock_wall_ns(c->conn->rpc->clock)); /* as a line of HTTP/1.1 */
    if (date.len > DATE_FRONT_BYTES + LINE_END_BYTES)
        out[total++] =
            copied(BYTES("date"), bytes_of(date.at + DATE_FRONT_BYTES,
                                           date.len - DATE_FRONT_BYTES - LINE_END_BYTES));
    h2_must(nghttp2_submit_response(rpc_call_session(c), c->stream_id, out, total,
                                    has_body ? &provider : NULL));
    c->web->is_bodyless = !has_body;
    c->out = OUT_FLOWING;
    buf_free(&date);
    rpc_conn_touch(c->conn);
}

static void go_on_sending(struct call *c)
{
    if (c->out == OUT_DEFERRED) {
        c->out = OUT_FLOWING;
        h2_must(nghttp2_session_resume_data(rpc_call_session(c), c->stream_id));
    }
    rpc_conn_touch(c->conn);
}

void rpc_web_send(struct call *c, struct bytes text)
{
    assert(c->out == OUT_FLOWING || c->out == OUT_DEFERRED);
    if (text.len == 0 || c->web->is_bodyless)
        return;
    buf_append(&c->web->reply, text);
    rpc_conn_count_text(c->conn, 0, text.len);
    go_on_sending(c);
}

void rpc_web_finish(struct call *c)
{
    c->web->is_whole = true;
    if (!c->web->is_bodyless)
        go_on_sending(c);
    c->out = OUT_ENDED;
}

size_t rpc_web_credit(const struct call *c)
{
    size_t waiting = c->web->reply.len - c->web->sent;

    return waiting < RPC_CHUNK_BYTES ? RPC_CHUNK_BYTES - waiting : 0;
}

void rpc_web_respond(struct call *c, unsigned status, const struct http1_field *fields,
                     size_t count, uint64_t length)
{
    struct http1_field all[RPC_PLAIN_FIELDS_MAX];
    size_t total = rpc_policy_fields(c->conn, origin_of(c->web), all);

    assert(total + count <= ARRAY_LEN(all));
    for (size_t i = 0; i < count; i++)
        all[total++] = fields[i];
    submit_head(c, status, all, total, length);
}

static void respond_at_length(struct call *c, unsigned status, const char *type, struct bytes lines,
                              struct bytes body, uint64_t length)
{
    struct http1_field fields[RPC_PLAIN_FIELDS_MAX];
    size_t count = rpc_plain_fields(c->conn, origin_of(c->web), status, type, lines, fields);

    submit_head(c, status, fields, count, length);
    rpc_web_send(c, body);
    rpc_web_finish(c);
}

static void respond(struct call *c, unsigned status, const char *type, struct bytes lines,
                    struct bytes body)
{
    respond_at_length(c, status, type, lines, body, body.len);
}

/* Said by us; the core has not heard of it. */
static void refuse_with(struct call *c, unsigned status, struct bytes text)
{
    c->life = LIFE_OVER;
    rpc_call_end_input(c);
    respond(c, status, "text/plain; charset=utf-8", bytes_of(NULL, 0), text);
}

static void refuse(struct call *c, unsigned status)
{
    struct buf *text = &c->conn->rpc->scratch;

    buf_clear(text);
    buf_printf(text, "%u %s", status, http1_reason(status));
    refuse_with(c, status, buf_bytes(text));
}

void rpc_web_reply(struct call *c, unsigned status, const char *type, struct bytes lines,
                   struct bytes body)
{
    c->life = LIFE_OVER;
    rpc_event_drop(c, PENDING_ALL);
    rpc_call_end_input(c);
    respond(c, status, type, lines, body);
}

/* --- the request --- */

/* They stay lines: what cannot be in a field makes a request malformed (fields.h). */
static void add_line(struct web *w, struct bytes name, struct bytes value)
{
    buf_append(&w->fields, name);
    buf_append_byte(&w->fields, ':');
    buf_append(&w->fields, value);
    buf_append_byte(&w->fields, '\n');
}

void rpc_web_field(struct call *c, struct bytes name, struct bytes value)
{
    if (!c->form.is_malformed && name.at[0] != ':')
        add_line(c->web, name, value);
}

static size_t body_max(const struct call *c)
{
    const struct rpc_conn *conn = c->conn;
    size_t most = conn->rpc->options.message_bytes_max * PLAIN_BODY_FACTOR;
    size_t left = conn->held < RPC_CONN_BYTES_MAX ? RPC_CONN_BYTES_MAX - conn->held : 0;
    size_t of_conn = left + c->reserved;

    if (conn->serves == RPC_SERVES_PROBES)
        return 0;
    return most < of_conn ? most : of_conn;
}

/* False: it is malformed. A tunnel is asked for without a path. */
static bool read_path(struct call *c)
{
    struct web *w = c->web;
    struct bytes target = rpc_call_path(c);

    (void)http_path_of_target(target, &w->query);
    if (!http_path_is_sound(target))
        return false;
    w->path_kind = http_path_read(rpc_policy_paths(c->conn), rpc_call_verb(c), target,
                                  &w->path_text, &w->path);
    return true;
}

/* The fields of the stream are forgotten by it, and the path with them. */
static void begin_at_gateway(struct call *c)
{
    struct bytes path = c->web->path;

    c->web->path = c->web->query = bytes_of(NULL, 0);
    rpc_gateway_begin(c, rpc_call_verb(c), path);
}

void rpc_web_fields_done(struct call *c)
{
    struct bytes host = rpc_call_authority(c), verb = rpc_call_verb(c);
    struct web *w = c->web;

    if (!read_path(c)) {
        rpc_call_refuse_malformed(c);
        return;
    }
    c->is_plain = true;
    c->web->is_bodyless = bytes_equal(verb, BYTES("HEAD"));
    if (host.len > 0)
        add_line(c->web, BYTES("host"), host);
    rpc_conn_count_fields(c->conn, w->path_text.len);
    rpc_call_count_kept(c, w->fields.len + w->path_text.cap);
    w->is_refused = w->path_kind != HTTP_PATH_HERE && !rpc_plain_asks_options(c->conn, verb);
    if (w->is_refused || !rpc_gateway_takes(c->conn, verb, w->path))
        return;
    w->is_refused = !rpc_policy_allows_gateway(c->conn) || !gateway_route_find(w->path);
    if (!w->is_refused)
        begin_at_gateway(c);
}

/* Not before its body is here: a response that comes while it is being sent has to end the stream,
 * and there are clients (curl) that take that for a failure. */
static void refuse_at_gateway(struct call *c)
{
    if (rpc_policy_allows_gateway(c->conn))
        begin_at_gateway(c);
    else
        refuse_with(c, 400, BYTES(RPC_POLICY_NO_GATEWAY));
}

/* As http_redirect. Of a body that is not sent nothing is said. A path in the client's table costs
 * it a byte, and what is made of it, here and above, may be ten times as long as the path: it
 * counts as header fields do, as work of this turn and as kept by the call. */
static void redirect(struct call *c)
{
    struct web *w = c->web;
    bool is_get = bytes_equal(rpc_call_verb(c), BYTES("GET"));
    unsigned status = http_path_status(w->path_kind, rpc_call_verb(c));
    struct buf line = {0}, page = {0};

    c->life = LIFE_OVER;
    rpc_call_end_input(c);
    if (status != 307) {
        rpc_web_respond(c, status, NULL, 0, w->is_bodyless ? HTTP_CHUNKED : 0);
        rpc_web_finish(c);
        return;
    }
    buf_append_str(&line, "Location:");
    http_path_location(w->path, w->query, &line);
    buf_append_byte(&line, '\n');
    if (is_get)
        http_path_page(w->path, w->query, &page);
    rpc_conn_count_fields(c->conn, line.len + page.len);
    rpc_call_count_kept(c, line.len + page.len);
    respond_at_length(c, status, is_get || w->is_bodyless ? "text/html; charset=utf-8" : NULL,
                      buf_bytes(&line), buf_bytes(&page), w->is_bodyless ? HTTP_CHUNKED : page.len);
    buf_free(&line);
    buf_free(&page);
}

bool rpc_web_next_field(const struct call *c, size_t *at, struct http1_field *out)
{
    struct bytes left = bytes_of(c->web->fields.at, c->web->fields.len);

    if (*at == left.len)
        return false;
    left = bytes_of(left.at + *at, left.len - *at);
    const uint8_t *colon = memchr(left.at, ':', left.len);
    const uint8_t *end = memchr(left.at, '\n', left.len);
    assert(colon && end && colon < end);
    *out = (struct http1_field){bytes_of(left.at, (size_t)(colon - left.at)),
                                bytes_of(colon + 1, (size_t)(end - colon) - 1)};
    *at += (size_t)(end + 1 - left.at);
    return true;
}

void rpc_web_consumed(struct call *c, size_t count)
{
    h2_must(nghttp2_session_consume_stream(rpc_call_session(c), c->stream_id, count));
    rpc_conn_touch(c->conn);
}

void rpc_web_data(struct call *c, struct bytes data)
{
    if (c->gateway) {
        rpc_gateway_body(c, data);
        return;
    }
    if (c->in != IN_READING)
        return;
    if (data.len > body_max(c) - c->reserved) {
        refuse(c, 413);
        return;
    }
    buf_append(&c->reader.content, data);
    c->reserved += data.len;
    c->conn->held += data.len;
    rpc_web_consumed(c, data.len);
}

void rpc_web_ended(struct call *c)
{
    if (c->gateway) {
        rpc_gateway_body_end(c);
        return;
    }
    if (c->in != IN_READING)
        return;
    if (c->web->is_refused && c->web->path_kind != HTTP_PATH_HERE) {
        redirect(c);
        return;
    }
    if (c->web->is_refused) {
        refuse_at_gateway(c);
        return;
    }
    c->in = IN_WHOLE;
    rpc_call_set_busy(c);
    rpc_event_add(c, PENDING_HTTP);
}

static struct rpc_span add(struct buf *out, struct bytes what)
{
    struct rpc_span span = {(uint32_t)out->len, (uint32_t)what.len};

    buf_append(out, what);
    return span;
}

void rpc_web_show(struct call *c, struct rpc_event *out)
{
    struct buf *content = &out->content;

    c->in = IN_LENT;
    out->is_first = true;
    *content = c->reader.content;
    c->reader.content = (struct buf){0};
    out->message.len = (uint32_t)content->len;
    out->verb = add(content, rpc_call_verb(c));
    out->path = add(content, c->web->path);
    out->query = add(content, c->web->query);
    out->fields = add(content, buf_bytes(&c->web->fields));
    out->authorization = add(content, rpc_call_authorization(c));
    out->has_authorization = c->authorization.is_there;
    out->remote = add(content, bytes_of(c->conn->info.remote, c->conn->remote_len));
    out->cn = add(content, bytes_of(c->conn->info.cn, c->conn->cn_len));
}
