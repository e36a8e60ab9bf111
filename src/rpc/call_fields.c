#include "base/assert.h"
#include "base/text.h"
#include "rpc/grpc_text.h"
#include "rpc/rpc_int.h"

static void keep(struct call *c, struct kept *where, struct bytes value)
{
    if (where->is_there)
        return; /* the first one counts */
    *where =
        (struct kept){.at = (uint32_t)c->fields.len, .len = (uint32_t)value.len, .is_there = true};
    buf_append(&c->fields, value);
}

static struct bytes kept_bytes(const struct call *c, const struct kept *k)
{
    if (k->len == 0)
        return bytes_of(NULL, 0);
    assert(c->fields.at);
    return bytes_of(c->fields.at + k->at, k->len);
}

struct bytes rpc_call_path(const struct call *c)
{
    return kept_bytes(c, &c->path);
}

struct bytes rpc_call_verb(const struct call *c)
{
    return c->verb.is_there ? kept_bytes(c, &c->verb) : BYTES("POST");
}

struct bytes rpc_call_authority(const struct call *c)
{
    return kept_bytes(c, &c->authority);
}

struct bytes rpc_call_authorization(const struct call *c)
{
    return kept_bytes(c, &c->authorization);
}

/* "application/grpc", and what may follow it. */
static bool is_grpc_type(struct bytes type)
{
    struct bytes base = BYTES("application/grpc");

    return bytes_starts_with(type, base) &&
           (type.len == base.len || type.at[base.len] == '+' || type.at[base.len] == ';');
}

static void field_of_path(struct call *c, struct bytes value)
{
    const struct rpc_conn *conn = c->conn;
    bool has_grpc = conn->serves <= RPC_SERVES_GRPC;

    c->method = has_grpc ? rpc_method_find(conn->rpc, value) : NULL;
    if (c->method)
        return;
    keep(c, &c->path, value);
    /* Without TLS HTTP/2 is gRPC alone, as in etcd. */
    if (conn->info.tls && conn->serves != RPC_SERVES_GRPC && !c->web)
        rpc_web_begin(c);
}

/* The lengths of the names tell most of them apart. */
static void take_field(struct call *c, struct bytes name, struct bytes value)
{
#define IS(literal) (memcmp(name.at, literal, sizeof(literal) - 1) == 0)
    switch (name.len) {
    case 5:
        if (IS(":path"))
            field_of_path(c, value);
        else if (IS("token"))
            keep(c, &c->token, value);
        break;
    case 7:
        if (IS(":method") && !bytes_equal(value, BYTES("POST")))
            keep(c, &c->verb, value);
        break;
    case 9:
        if (IS("hasleader"))
            keep(c, &c->leader, value);
        break;
    case 10:
        if (IS(":authority") && c->conn->info.tls)
            keep(c, &c->authority, value);
        break;
    case 12:
        if (IS("content-type")) {
            c->is_grpc = is_grpc_type(value);
            if (!c->is_grpc)
                keep(c, &c->content_type, value);
        } else if (IS("grpc-timeout")) {
            keep(c, &c->timeout, value);
        }
        break;
    case 13:
        if (IS("grpc-encoding"))
            keep(c, &c->encoding, value);
        else if (IS("authorization"))
            keep(c, &c->authorization, value);
        break;
    case 18:
        if (IS("client-api-version"))
            keep(c, &c->version, value);
        else if (IS("grpcgateway-accept"))
            c->through_gateway = true;
        break;
    default:
        break;
    }
#undef IS
}

void rpc_call_field(struct call *c, struct bytes name, struct bytes value)
{
    if (c->web)
        rpc_web_field(c, name, value);
    take_field(c, name, value);
}

void rpc_call_metadata(struct call *c, struct bytes name, struct bytes value)
{
    c->field_bytes += name.len + value.len + H2_FIELD_OVERHEAD_BYTES;
    if (c->field_bytes > RPC_HEADER_BYTES_MAX)
        c->fields_too_large = true;
    else
        take_field(c, name, value);
}

void rpc_call_forget_fields(struct call *c)
{
    static const struct kept none;

    buf_clear(&c->fields);
    c->field_bytes = 0;
    c->path = c->content_type = c->timeout = c->encoding = none;
    c->token = c->authorization = c->version = c->authority = none;
    c->verb = c->leader = none;
}

/* What is wrong with the request as a whole, before anybody asks what it wants. */
static void refuse(struct call *c, uint16_t http_status, enum rpc_code code, struct buf *text)
{
    c->http_status = http_status;
    rpc_call_end_early(c, code, buf_bytes(text));
}

static bool fields_are_sound(struct call *c)
{
    struct buf *text = &c->conn->rpc->scratch;

    buf_clear(text);
    if (c->fields_too_large) {
        buf_printf(text, "header list larger than max %d", RPC_HEADER_BYTES_MAX);
        refuse(c, 431, RPC_RESOURCE_EXHAUSTED, text);
        return false;
    }
    if (!c->is_grpc) {
        buf_append_str(text, "invalid gRPC request content-type ");
        text_append_quoted(text, kept_bytes(c, &c->content_type));
        refuse(c, 415, RPC_INVALID_ARGUMENT, text);
        return false;
    }
    if (c->timeout.is_there && grpc_parse_timeout(kept_bytes(c, &c->timeout), &c->timeout_ns)) {
        grpc_explain_timeout(kept_bytes(c, &c->timeout), text);
        refuse(c, 400, RPC_INTERNAL, text);
        return false;
    }
    if (c->verb.is_there) {
        buf_append_str(text, "Received a HEADERS frame with :method ");
        text_append_quoted(text, kept_bytes(c, &c->verb));
        buf_append_str(text, " which should be POST");
        refuse(c, 405, RPC_INTERNAL, text);
        return false;
    }
    return true;
}

static void refuse_method(struct call *c)
{
    struct rpc *r = c->conn->rpc;
    struct bytes path = kept_bytes(c, &c->path);
    const uint8_t *slash = path.len > 1 ? memrchr(path.at + 1, '/', path.len - 1) : NULL;
    struct buf *text = &r->scratch;

    if (path.len == 0 || path.at[0] != '/' || !slash) {
        buf_append_str(text, "malformed method name: ");
        text_append_quoted(text, path);
    } else {
        struct bytes service = bytes_of(path.at + 1, (size_t)(slash - path.at) - 1);
        struct bytes name = bytes_of(slash + 1, path.len - service.len - 2);
        if (rpc_service_is_known(r, service)) {
            buf_append_str(text, "unknown method ");
            buf_append(text, name);
            buf_append_str(text, " for service ");
        } else {
            buf_append_str(text, "unknown service ");
        }
        buf_append(text, service);
    }
    rpc_call_end_early(c, RPC_UNIMPLEMENTED, buf_bytes(text));
}

static bool start_deadline(struct call *c)
{
    struct clock *clock = c->conn->rpc->clock;

    if (!c->timeout.is_there)
        return true;
    if (c->timeout_ns == 0) {
        rpc_call_end_early(c, RPC_DEADLINE_EXCEEDED, BYTES("context deadline exceeded"));
        return false;
    }
    c->deadline_ns = clock_now_ns(clock) + c->timeout_ns;
    timer_start_at(clock, &c->timer, c->deadline_ns);
    return true;
}

static bool find_encoding(struct call *c)
{
    struct bytes encoding = kept_bytes(c, &c->encoding);
    struct buf *text = &c->conn->rpc->scratch;

    if (encoding.len == 0 || bytes_equal(encoding, BYTES("identity")))
        return true;
    c->gzip = bytes_equal(encoding, BYTES("gzip"));
    if (c->gzip)
        return true;
    buf_append_str(text, "grpc: Decompressor is not installed for grpc-encoding ");
    text_append_quoted(text, encoding);
    rpc_call_end_early(c, RPC_UNIMPLEMENTED, buf_bytes(text));
    return false;
}

static struct rpc_span span_of(const struct kept *k, size_t front)
{
    return (struct rpc_span){(uint32_t)(front + k->at), k->len};
}

void rpc_call_show(const struct call *c, struct rpc_event *out)
{
    size_t front = out->content.len;

    out->is_first = true;
    out->method = c->method->id;
    out->deadline_ns = c->deadline_ns;
    out->token = span_of(&c->token, front);
    out->authorization = span_of(&c->authorization, front);
    out->has_token = c->token.is_there;
    out->has_authorization = c->authorization.is_there;
    out->client_api_version = span_of(&c->version, front);
    out->client_api_version_is_utf8 =
        c->version.len == 0 || bytes_are_utf8(kept_bytes(c, &c->version));
    out->has_leader = c->leader.len > 0 && bytes_equal(kept_bytes(c, &c->leader), BYTES("true"));
    out->through_gateway = c->through_gateway;
    const struct rpc_conn *conn = c->conn;
    uint8_t *at = buf_extend(&out->content, c->fields.len + conn->remote_len + conn->cn_len);
    if (c->fields.len > 0)
        memcpy(at, c->fields.at, c->fields.len);
    memcpy(at + c->fields.len, conn->info.remote, conn->remote_len);
    out->remote = (struct rpc_span){(uint32_t)(front + c->fields.len), (uint32_t)conn->remote_len};
    if (conn->cn_len > 0)
        memcpy(at + c->fields.len + conn->remote_len, conn->info.cn, conn->cn_len);
    out->cn = (struct rpc_span){out->remote.at + out->remote.len, (uint32_t)conn->cn_len};
    out->has_certificate = conn->info.cn != NULL;
}

/*
 * A stream has its credit for as long as it is open, and may queue so much at any time. So it is
 * taken from what its connection may owe and from what all may, while there is some; whoever opens
 * more streams than that has the least for each of them. Streams both ways bring many small
 * messages, and are many; those that answer one request bring few large ones.
 */
static size_t credit_of_stream(const struct call *c)
{
    const struct rpc_conn *conn = c->conn;
    const struct rpc *r = conn->rpc;

    if (!c->method->client_streams &&
        conn->granted + RPC_STREAM_CREDIT_BYTES <= RPC_CONN_BYTES_MAX / 2 &&
        r->granted + RPC_STREAM_CREDIT_BYTES <= RPC_REPLIES_BYTES_MAX / 2 &&
        rpc_budget_left(r) >= RPC_REPLIES_BYTES_MAX / 2)
        return RPC_STREAM_CREDIT_BYTES;
    if (conn->granted + RPC_STREAM_CREDIT_BYTES_MIN <= RPC_CONN_BYTES_MAX &&
        r->granted + RPC_STREAM_CREDIT_BYTES_MIN <= RPC_REPLIES_BYTES_MAX)
        return RPC_STREAM_CREDIT_BYTES_MIN;
    return RPC_STREAM_CREDIT_BYTES_LEAST;
}

static void open_stream(struct call *c)
{
    c->granted = credit_of_stream(c);
    c->conn->granted += c->granted;
    c->conn->rpc->granted += c->granted;
    rpc_event_add(c, PENDING_OPENED);
}

void rpc_call_count_kept(struct call *c, size_t bytes)
{
    c->kept += bytes;
    c->conn->kept += bytes;
    c->conn->rpc->kept += bytes;
}

/* It is a call. */
static void open_call(struct call *c)
{
    if (!fields_are_sound(c) || !start_deadline(c))
        return;
    if (!c->method) {
        refuse_method(c);
        return;
    }
    if (!find_encoding(c))
        return;
    if (!rpc_call_is_unary(c))
        open_stream(c);
}

void rpc_call_open_in_json(struct call *c, struct bytes method)
{
    c->method = rpc_method_find(c->conn->rpc, method);
    if (!c->method)
        keep(c, &c->path, method);
    c->is_grpc = true;
    c->through_gateway = true;
    rpc_call_count_kept(c, c->fields.len);
    open_call(c);
}

void rpc_call_fields_done(struct call *c)
{
    rpc_call_count_kept(c, c->fields.len);
    bool has_grpc = c->conn->serves <= RPC_SERVES_GRPC;
    if (c->web && !(c->is_grpc && has_grpc) && !c->fields_too_large) {
        rpc_web_fields_done(c);
        return;
    }
    if (c->web)
        rpc_web_free(c);
    open_call(c);
}
