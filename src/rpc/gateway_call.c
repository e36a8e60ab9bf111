/*
 * Calls in JSON. A request that the gateway has a route for is a call like those of gRPC, with the
 * same life, queue and credit; only what nghttp2 is to the others, this file is to it: bodies
 * become messages before the core sees them, and what is queued becomes text when the socket takes
 * it.
 */
#include "base/assert.h"
#include "base/text.h"
#include "gateway/gateway.h"
#include "rpc/grpc_text.h"
#include "rpc/rpc_int.h"

struct gateway_call {
    const struct gateway_route *route;
    struct gateway_in in;
    struct gateway_out out;
    struct buf text;   /* of the response, and not handed on */
    size_t unconsumed; /* of the body: taken in, and http was not told */
    bool has_head;     /* the response's was written */
    bool is_read;      /* nothing of the body matters any more */
    bool is_cut;       /* there is no way to end it but with the connection */
};

static struct http_conn *http_of(const struct call *c)
{
    return rpc_plain_http(c->conn);
}

void rpc_gateway_free(struct call *c)
{
    struct gateway_call *g = c->gateway;

    gateway_in_free(&g->in);
    gateway_out_free(&g->out);
    buf_free(&g->text);
    mem_free(g);
    c->gateway = NULL;
}

static bool is_stream(const struct gateway_call *g)
{
    return g->route->kind != GATEWAY_UNARY;
}

/* --- the response --- */

static void write_head(struct call *c, unsigned status, uint64_t length, bool has_message,
                       struct bytes challenge)
{
    struct http1_field fields[3];
    size_t count = 0;

    if (has_message || status != 200) /* a stream that ends without a word has none */
        fields[count++] = (struct http1_field){BYTES("Content-Type"), BYTES("application/json")};
    if (has_message)
        fields[count++] =
            (struct http1_field){BYTES("Grpc-Metadata-Content-Type"), BYTES("application/grpc")};
    if (challenge.len > 0)
        fields[count++] = (struct http1_field){BYTES("WWW-Authenticate"), challenge};
    rpc_plain_respond(c->conn, status, fields, count, length);
    c->gateway->has_head = true;
    c->out = OUT_FLOWING;
}

/* What a field cannot hold is left out of it. */
static void append_field_text(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        buf_append_byte(out, text.at[i] < 0x20 || text.at[i] == 0x7f ? ' ' : text.at[i]);
}

static void respond_with_error(struct call *c, unsigned code, struct bytes message)
{
    struct gateway_call *g = c->gateway;
    bool in_stream = is_stream(g) && c->method; /* before it was opened, it is not a stream's */
    struct buf challenge = {0};

    buf_clear(&g->text);
    gateway_write_error(code, message, in_stream, &g->text);
    if (code == RPC_UNAUTHENTICATED && !in_stream)
        append_field_text(&challenge, message);
    if (!g->has_head)
        write_head(c, gateway_http_status(code), g->text.len, false, buf_bytes(&challenge));
    http_send(http_of(c), buf_bytes(&g->text));
    buf_free(&challenge);
}

static void respond_to_end(struct call *c)
{
    struct gateway_call *g = c->gateway;
    struct buf message = {0};

    if (c->code != RPC_OK) {
        grpc_percent_decode(buf_bytes(&c->text), &message);
        respond_with_error(c, c->code, buf_bytes(&message));
        buf_free(&message);
        return;
    }
    if (!g->has_head)
        write_head(c, 200, is_stream(g) ? HTTP_CHUNKED : g->text.len, !is_stream(g),
                   bytes_of(NULL, 0));
    http_send(http_of(c), buf_bytes(&g->text));
}

/* A short answer gets its length; a long one, and a stream's, begins before its end is known. */
static void send_text(struct call *c)
{
    struct gateway_call *g = c->gateway;

    if (!g->has_head && !is_stream(g) && g->text.len <= GATEWAY_WHOLE_BYTES)
        return;
    if (g->text.len == 0)
        return;
    if (!g->has_head)
        write_head(c, 200, HTTP_CHUNKED, true, bytes_of(NULL, 0));
    http_send(http_of(c), buf_bytes(&g->text));
    buf_clear(&g->text);
    if (g->text.cap > GATEWAY_WHOLE_BYTES)
        buf_free(&g->text);
}

static void write_some(struct call *c, size_t count)
{
    struct buf *framed = &c->conn->rpc->scratch;

    buf_clear(framed);
    rpc_call_move(c, count, framed);
    gateway_out_put(&c->gateway->out, c->gateway->route, buf_bytes(framed), &c->gateway->text);
    send_text(c);
}

/* One chunk at a time: its text is several times as long. */
static void want_chunk(struct call *c)
{
    uint64_t ungiven = message_queue_ungiven(&c->queue);

    if (c->wanted > 0)
        return; /* it was asked for */
    rpc_call_want(c, ungiven < GATEWAY_CHUNK_BYTES ? (size_t)ungiven : GATEWAY_CHUNK_BYTES);
}

static bool is_over(const struct call *c)
{
    return rpc_call_is_decided(c) && c->queue.left == 0;
}

void rpc_gateway_flush(struct call *c)
{
    if (c->gateway->is_cut) {
        rpc_conn_cut(c->conn, ERR_CANCELED);
        return;
    }
    while (http_credit(http_of(c)) > 0) {
        size_t ready = message_queue_ready(&c->queue, GATEWAY_CHUNK_BYTES);
        if (ready > 0) {
            write_some(c, ready);
            continue;
        }
        if (c->queue.left > 0) {
            want_chunk(c);
        } else if (is_over(c)) {
            respond_to_end(c);
            rpc_plain_answered(c);
        }
        return;
    }
}

void rpc_gateway_cut(struct call *c)
{
    c->gateway->is_cut = true;
    rpc_call_touch(c);
}

/* --- the request --- */

/* As if a client of gRPC had sent it; fields of the gateway's own come without their prefix. */
static void take_fields(struct call *c, const struct http1_reader *head)
{
    static const char prefix[] = "Grpc-Metadata-";
    size_t prefix_len = sizeof(prefix) - 1;

    rpc_call_field(c, BYTES(":path"), bytes_of_str(c->gateway->route->method));
    rpc_call_field(c, BYTES("content-type"), BYTES("application/grpc"));
    for (size_t i = 0; i < head->field_count; i++) {
        struct bytes name = head->fields[i].name;
        char lower[64];
        if (name.len >= sizeof(lower))
            continue;
        for (size_t k = 0; k < name.len; k++)
            lower[k] =
                (char)(name.at[k] >= 'A' && name.at[k] <= 'Z' ? name.at[k] + 32 : name.at[k]);
        lower[name.len] = '\0';
        if (strcmp(lower, "authorization") == 0)
            rpc_call_field(c, bytes_of_str(lower), head->fields[i].value);
        else if (strncasecmp(lower, prefix, prefix_len) == 0)
            rpc_call_field(c, bytes_of_str(lower + prefix_len), head->fields[i].value);
    }
    c->through_gateway = true;
}

/* Refused before the core has heard of it. */
static void refuse(struct call *c, enum rpc_code code, struct bytes why)
{
    rpc_call_end_early(c, code, why);
}

/* Its own notion of a timeout: a number of any length, and one below zero has passed. What is too
 * large for Go's durations wraps around, as it does there. */
static bool parse_timeout(struct bytes text, int64_t *out_ns)
{
    static const char units[] = "HMSmun";
    static const int64_t unit_ns[] = {3600000000000, 60000000000, 1000000000, 1000000, 1000, 1};
    const char *unit = text.len > 1 ? memchr(units, text.at[text.len - 1], 6) : NULL;
    bool is_negative = text.len > 0 && text.at[0] == '-';
    bool has_sign = is_negative || (text.len > 0 && text.at[0] == '+');
    uint64_t number;

    if (!unit)
        return false;
    struct bytes digits = bytes_of(text.at + has_sign, text.len - 1 - has_sign);
    if (text_read_number(digits, (uint64_t)INT64_MAX + is_negative, &number) != ERR_OK)
        return false;
    uint64_t ns = (is_negative ? 0 - number : number) * (uint64_t)unit_ns[unit - units];
    memcpy(out_ns, &ns, sizeof(ns));
    return true;
}

/* False: there is one, and the call is over by it. */
static bool take_timeout(struct call *c, const struct http1_reader *head)
{
    struct buf *text = &c->conn->rpc->scratch;
    char spelled[GRPC_TIMEOUT_TEXT_MAX];
    int64_t ns;
    bool found;
    struct bytes timeout = http1_field(head, "Grpc-Timeout", &found);

    if (!found)
        return true;
    if (!parse_timeout(timeout, &ns)) {
        buf_clear(text);
        buf_append_str(text, "invalid grpc-timeout: ");
        buf_append(text, timeout);
        refuse(c, RPC_INVALID_ARGUMENT, buf_bytes(text));
        return false;
    }
    if (ns <= 0) {
        refuse(c, RPC_DEADLINE_EXCEEDED, BYTES("context deadline exceeded"));
        return false;
    }
    rpc_call_field(c, BYTES("grpc-timeout"),
                   bytes_of_str(grpc_timeout_text((uint64_t)ns, spelled)));
    return true;
}

/* Its deadline begins to count. */
static void open_call(struct call *c)
{
    take_fields(c, &http_of(c)->reader);
    rpc_call_fields_done(c);
}

static bool is_ours(const struct call *c)
{
    return c->out != OUT_CLOSED && !rpc_call_is_decided(c) && c->in != IN_DONE;
}

/* The message is with the core until it releases it, or for good. */
static void give_message(struct call *c, struct buf *message)
{
    buf_free(&c->reader.content);
    c->reader.content = *message;
    *message = (struct buf){0};
    rpc_call_take_message(c);
}

static void message_is_whole(struct call *c, struct buf *message)
{
    size_t max = c->conn->rpc->options.message_bytes_max;

    if (message->len > max) {
        struct buf *text = &c->conn->rpc->scratch;
        buf_clear(text);
        buf_printf(text, "grpc: received message larger than max (%zu vs. %zu)", message->len, max);
        refuse(c, RPC_RESOURCE_EXHAUSTED, buf_bytes(text));
        return;
    }
    give_message(c, message);
}

/* What the body holds is in the call: http may bring more. */
static void consume(struct call *c)
{
    size_t count = c->gateway->unconsumed;

    c->gateway->unconsumed = 0;
    http_consumed(http_of(c), count);
}

/*
 * Requests of a stream, each when the core has done with the one before. A text that is none ends
 * the requests and nothing else, as in grpc-gateway: what was asked for before goes on being
 * answered.
 */
static void read_stream(struct call *c)
{
    struct gateway_call *g = c->gateway;
    struct buf message = {0}, why = {0};

    if (!is_ours(c) || c->in != IN_READING || g->is_read)
        return;
    switch (gateway_in_next(&g->in, g->route->request, &message, &why)) {
    case GATEWAY_MORE:
        break;
    case GATEWAY_MESSAGE:
        message_is_whole(c, &message);
        break;
    case GATEWAY_BAD:
        log_debug(c->conn->rpc->logger, "a request of a stream is no JSON",
                  LOG_STR("remote", c->conn->info.remote), LOG_STR("error", buf_str(&why)));
        /* fallthrough */
    case GATEWAY_END:
        g->is_read = true;
        c->remote_ended = true;
        rpc_event_add(c, PENDING_ENDED);
        break;
    }
    buf_free(&message);
    buf_free(&why);
}

static void open_with_request(struct call *c, struct buf *message)
{
    open_call(c);
    c->remote_ended = true;
    if (is_ours(c))
        message_is_whole(c, message);
    if (is_ours(c) && is_stream(c->gateway))
        rpc_event_add(c, PENDING_ENDED);
}

/* The one request of a call; what follows it is of no interest. No text at all is an empty one. */
static void read_only_request(struct call *c)
{
    struct gateway_call *g = c->gateway;
    struct buf message = {0}, why = {0};
    enum gateway_in_result found = gateway_in_next(&g->in, g->route->request, &message, &why);

    assert(found != GATEWAY_MORE);
    gateway_in_free(&g->in);
    g->is_read = true;
    if (found == GATEWAY_BAD)
        refuse(c, RPC_INVALID_ARGUMENT, buf_bytes(&why));
    else
        open_with_request(c, &message);
    buf_free(&message);
    buf_free(&why);
}

static bool reads_stream(const struct call *c)
{
    return c->gateway->route->kind == GATEWAY_BOTH_STREAM;
}

void rpc_gateway_body(struct call *c, struct bytes piece)
{
    struct gateway_call *g = c->gateway;

    g->unconsumed += piece.len;
    if (!is_ours(c) || g->is_read) {
        consume(c);
        return;
    }
    if (g->in.body.len + piece.len > c->conn->rpc->options.message_bytes_max * PLAIN_BODY_FACTOR) {
        refuse(c, RPC_RESOURCE_EXHAUSTED, BYTES("request body is too large"));
        consume(c);
        return;
    }
    gateway_in_add(&g->in, piece);
    if (!reads_stream(c) || c->in == IN_READING)
        consume(c);
    if (reads_stream(c))
        read_stream(c);
}

void rpc_gateway_body_end(struct call *c)
{
    if (!is_ours(c) || c->gateway->is_read)
        return;
    gateway_in_end(&c->gateway->in);
    if (reads_stream(c))
        read_stream(c);
    else
        read_only_request(c);
}

void rpc_gateway_released(struct call *c)
{
    if (reads_stream(c)) {
        read_stream(c);
        consume(c);
    }
}

/* --- the beginning --- */

static void answer_at_once(struct rpc_conn *conn, unsigned code, const char *message)
{
    struct http1_field type = {BYTES("Content-Type"), BYTES("application/json")};
    struct buf text = {0};

    gateway_write_error(code, bytes_of_str(message), false, &text);
    rpc_plain_respond(conn, gateway_http_status(code), &type, 1, text.len);
    http_send(rpc_plain_http(conn), buf_bytes(&text));
    http_finish(rpc_plain_http(conn));
    buf_free(&text);
}

struct call *rpc_gateway_head(struct rpc_conn *conn)
{
    const struct http_conn *h = rpc_plain_http(conn);
    const struct gateway_route *route = gateway_route_find(http_path(h));

    if (!route) {
        answer_at_once(conn, RPC_NOT_FOUND, "Not Found");
        return NULL;
    }
    if (!bytes_equal(h->reader.verb, BYTES("POST"))) {
        answer_at_once(conn, RPC_UNIMPLEMENTED, "Method Not Allowed");
        return NULL;
    }
    struct call *c = rpc_call_new(conn, true, 0);
    c->gateway = mem_new(struct gateway_call);
    c->gateway->route = route;
    if (take_timeout(c, &h->reader) && reads_stream(c))
        open_call(c);
    return c;
}
