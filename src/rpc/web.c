/*
 * Plain requests on HTTP/2: what a stream by TLS asks for that is not gRPC. The core hears of it by
 * the same event as of a request in HTTP/1.1, and answers the same.
 *
 *     HEADERS (fields kept) DATA* END_STREAM --> PENDING_HTTP ... rpc_web_reply --> HEADERS DATA*
 */
#include "base/assert.h"
#include "rpc/rpc_int.h"

#include <stdio.h>

struct web {
    struct buf fields; /* lines of "name:value" */
    struct buf reply;  /* its body */
    size_t sent;       /* of it */
};

enum { STATUS_DIGITS = 3, LENGTH_DIGITS_MAX = 20 };
enum { DATE_FRONT_BYTES = sizeof("Date: ") - 1, LINE_END_BYTES = 2 };

void rpc_web_begin(struct call *c)
{
    assert(!c->web);
    c->web = mem_new(struct web);
}

void rpc_web_free(struct call *c)
{
    struct web *w = c->web;

    c->conn->queued -= w->reply.len;
    buf_free(&w->fields);
    buf_free(&w->reply);
    mem_free(w);
    c->web = NULL;
}

/* --- the reply --- */

static ssize_t read_body(nghttp2_session *s, int32_t stream_id, uint8_t *at, size_t max,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct web *w = ((struct call *)source->ptr)->web;
    size_t left = w->reply.len - w->sent;
    size_t count = left < max ? left : max;

    (void)s;
    (void)stream_id;
    (void)context;
    memcpy(at, w->reply.at + w->sent, count);
    w->sent += count;
    if (count == left)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
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

static void respond(struct call *c, unsigned status, const char *type, struct bytes lines,
                    struct bytes body)
{
    nghttp2_data_provider provider = {.source.ptr = c, .read_callback = read_body};
    struct http1_field fields[RPC_PLAIN_FIELDS_MAX];
    size_t total = 0;
    size_t count = rpc_plain_fields(c->conn, origin_of(c->web), status, type, lines, fields);
    nghttp2_nv out[RPC_PLAIN_FIELDS_MAX + 3];
    struct buf date = {0};
    bool has_body = body.len > 0 && !bytes_equal(rpc_call_verb(c), BYTES("HEAD"));
    char digits[STATUS_DIGITS + 1], length[LENGTH_DIGITS_MAX + 1];

    assert(c->out == OUT_NOTHING);
    assert(status >= 100 && status < 1000);
    snprintf(digits, sizeof(digits), "%u", status % 1000);
    snprintf(length, sizeof(length), "%zu", body.len);
    out[total++] = copied(BYTES(":status"), bytes_of_str(digits));
    out[total++] = copied(BYTES("content-length"), bytes_of_str(length));
    for (size_t i = 0; i < count; i++)
        out[total++] = copied(fields[i].name, fields[i].value);
    http1_write_date(&date, clock_wall_ns(c->conn->rpc->clock)); /* as a line of HTTP/1.1 */
    if (date.len > DATE_FRONT_BYTES + LINE_END_BYTES)
        out[total++] =
            copied(BYTES("date"), bytes_of(date.at + DATE_FRONT_BYTES,
                                           date.len - DATE_FRONT_BYTES - LINE_END_BYTES));
    if (has_body) {
        buf_append(&c->web->reply, body);
        c->conn->queued += body.len;
    }
    h2_must(nghttp2_submit_response(rpc_call_session(c), c->stream_id, out, total,
                                    has_body ? &provider : NULL));
    c->out = OUT_ENDED;
    buf_free(&date);
    rpc_conn_touch(c->conn);
}

/* Said by us; the core has not heard of it. */
static void refuse(struct call *c, unsigned status)
{
    struct buf *text = &c->conn->rpc->scratch;

    buf_clear(text);
    buf_printf(text, "%u %s", status, http1_reason(status));
    c->life = LIFE_OVER;
    rpc_call_end_input(c);
    respond(c, status, "text/plain; charset=utf-8", bytes_of(NULL, 0), buf_bytes(text));
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

void rpc_web_fields_done(struct call *c)
{
    struct bytes host = rpc_call_authority(c);

    c->is_plain = true;
    if (host.len > 0)
        add_line(c->web, BYTES("host"), host);
    c->kept += c->web->fields.len;
    c->conn->kept += c->web->fields.len;
}

void rpc_web_data(struct call *c, struct bytes data)
{
    if (c->in != IN_READING)
        return;
    if (data.len > body_max(c) - c->reserved) {
        refuse(c, 413);
        return;
    }
    buf_append(&c->reader.content, data);
    c->reserved += data.len;
    c->conn->held += data.len;
    h2_must(nghttp2_session_consume_stream(rpc_call_session(c), c->stream_id, data.len));
}

void rpc_web_ended(struct call *c)
{
    if (c->in != IN_READING)
        return;
    c->in = IN_WHOLE;
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
    struct bytes path = rpc_call_path(c), query = {0};
    const uint8_t *mark = path.len > 0 ? memchr(path.at, '?', path.len) : NULL;

    if (mark) {
        query = bytes_of(mark + 1, path.len - (size_t)(mark + 1 - path.at));
        path.len = (size_t)(mark - path.at);
    }
    c->in = IN_LENT;
    out->is_first = true;
    *content = c->reader.content;
    c->reader.content = (struct buf){0};
    out->message.len = (uint32_t)content->len;
    out->verb = add(content, rpc_call_verb(c));
    out->path = add(content, path);
    out->query = add(content, query);
    out->fields = add(content, buf_bytes(&c->web->fields));
    out->authorization = add(content, rpc_call_authorization(c));
    out->remote = add(content, bytes_of(c->conn->info.remote, c->conn->remote_len));
    out->cn = add(content, bytes_of(c->conn->info.cn, c->conn->cn_len));
}
