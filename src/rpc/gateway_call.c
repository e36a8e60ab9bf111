/*
 * Calls in JSON. A request that the gateway has a route for is a call like those of gRPC, with the
 * same life, queue and credit; only what nghttp2 is to the others, this file is to it: bodies
 * become messages before the core sees them, and what is queued becomes text when the socket takes
 * it.
 *
 * What carries the text is a connection in HTTP/1.1 (plain.c), which has one such call at a time,
 * or a stream of HTTP/2 (web.c), of which a connection may have many.
 *
 * Over a WebSocket, as etcd's proxy for those has it, the text of the client's messages is the
 * body, and each line of the response is a message.
 */
#include "base/assert.h"
#include "base/base64.h"
#include "base/text.h"
#include "gateway/gateway.h"
#include "gateway/websocket.h"
#include "rpc/grpc_text.h"
#include "rpc/rpc_int.h"

enum { CLOSE_NORMAL = 1000, CLOSE_PROTOCOL_ERROR = 1002 };

struct gateway_call {
    const struct gateway_route *route;
    struct gateway_in in;
    struct gateway_out out;
    struct buf text;   /* of the response, and not handed on */
    size_t unconsumed; /* of the body: taken in, and the carrier was not told */
    size_t held;       /* of conn->held: what is in `in` */
    size_t queued;     /* of conn->queued: what is in `text`, of a stream of HTTP/2 */
    bool has_head;     /* the response's was written */
    bool is_read;      /* nothing of the body matters any more */
    bool is_cut;       /* HTTP/1.1: there is no way to end it but with the connection */

    struct websocket_reader *websocket; /* NULL: plain HTTP */
    bool is_within_message;             /* of which a part was sent */
};

/* Where there is nothing, as a WebSocket learns when it is one. */
static const struct gateway_route nowhere = {.path = "", .method = ""};

/* --- what carries it --- */

static struct http_conn *http_of(const struct call *c)
{
    assert(!c->web);
    return rpc_plain_http(c->conn);
}

static bool next_field(const struct call *c, size_t *at, struct http1_field *out)
{
    if (c->web)
        return rpc_web_next_field(c, at, out);
    const struct http1_reader *head = &http_of(c)->reader;
    if (*at == head->field_count)
        return false;
    *out = head->fields[(*at)++];
    return true;
}

static void respond(struct call *c, unsigned status, const struct http1_field *fields, size_t count,
                    uint64_t length)
{
    if (c->web)
        rpc_web_respond(c, status, fields, count, length);
    else
        rpc_plain_respond(c->conn, status, fields, count, length);
}

static size_t credit(const struct call *c)
{
    return c->web ? rpc_web_credit(c) : http_credit(http_of(c));
}

static void send_bytes(struct call *c, struct bytes text)
{
    if (c->web)
        rpc_web_send(c, text);
    else
        http_send(http_of(c), text);
}

/* The connection may be over with that. */
static void finish_response(struct call *c)
{
    if (c->web)
        rpc_web_finish(c);
    else
        rpc_plain_answered(c);
}

/* --- life --- */

/* Streams share a connection's budget: what each of them holds of its body counts. */
static void account_for_body(struct call *c)
{
    struct gateway_call *g = c->gateway;
    bool is_less = g->in.body.len < g->held;

    c->conn->held += g->in.body.len - g->held;
    g->held = g->in.body.len;
    if (is_less)
        rpc_conn_unpark(c->conn);
}

/* And what each of them has to say. */
static void account_for_text(struct call *c)
{
    struct gateway_call *g = c->gateway;

    if (!c->web)
        return;
    rpc_conn_count_text(c->conn, g->queued, g->text.len);
    g->queued = g->text.len;
}

size_t rpc_gateway_queued(const struct call *c)
{
    return c->gateway->queued;
}

static void drop_text(struct call *c)
{
    buf_free(&c->gateway->text);
    account_for_text(c);
}

void rpc_gateway_free(struct call *c)
{
    struct gateway_call *g = c->gateway;

    list_remove(&c->reading_link);
    gateway_in_free(&g->in);
    account_for_body(c);
    gateway_out_free(&g->out);
    drop_text(c);
    mem_free(g->websocket);
    mem_free(g);
    c->gateway = NULL;
}

static bool is_stream(const struct gateway_call *g)
{
    return g->route->kind != GATEWAY_UNARY;
}

bool rpc_gateway_is_websocket(const struct call *c)
{
    return c->gateway->websocket != NULL;
}

/* --- frames of a WebSocket --- */

static void send_frame(struct call *c, enum websocket_opcode opcode, bool is_last,
                       struct bytes content)
{
    struct buf head = {0};

    websocket_write_head(&head, opcode, is_last, content.len);
    http_send(http_of(c), buf_bytes(&head));
    http_send(http_of(c), content);
    buf_free(&head);
}

static void send_part(struct call *c, struct bytes part, bool is_last)
{
    struct gateway_call *g = c->gateway;

    if (part.len > 0 || g->is_within_message) /* an empty line is none */
        send_frame(c, g->is_within_message ? WEBSOCKET_GOES_ON : WEBSOCKET_TEXT, is_last, part);
    g->is_within_message = !is_last && (part.len > 0 || g->is_within_message);
}

/* Lines that are whole; one that gets too long to be held is sent in parts. */
static void send_lines(struct call *c, bool is_all)
{
    struct gateway_call *g = c->gateway;
    struct bytes left = buf_bytes(&g->text);

    for (const uint8_t *end; left.len > 0 && (end = memchr(left.at, '\n', left.len));) {
        struct bytes line = bytes_of(left.at, (size_t)(end - left.at));
        send_part(c, line, true);
        left = bytes_of(end + 1, left.len - line.len - 1);
    }
    if (is_all || left.len > GATEWAY_WHOLE_BYTES) {
        send_part(c, left, is_all);
        left.len = 0;
    }
    buf_drop_front(&g->text, g->text.len - left.len);
}

static void send_close(struct call *c, uint16_t code)
{
    uint8_t content[] = {(uint8_t)(code >> 8), (uint8_t)code};

    send_frame(c, WEBSOCKET_CLOSE, true, bytes_of(content, sizeof(content)));
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
    respond(c, status, fields, count, length);
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

    if (!g->websocket)
        buf_clear(&g->text);
    gateway_write_error(code, message, in_stream, &g->text);
    if (g->websocket)
        return;
    if (code == RPC_UNAUTHENTICATED && !in_stream)
        append_field_text(&challenge, message);
    if (!g->has_head)
        write_head(c, gateway_http_status(code), g->text.len, false, buf_bytes(&challenge));
    send_bytes(c, buf_bytes(&g->text));
    buf_free(&challenge);
}

static void respond_with_ok(struct call *c)
{
    struct gateway_call *g = c->gateway;

    if (g->websocket)
        return;
    if (!g->has_head)
        write_head(c, 200, is_stream(g) ? HTTP_CHUNKED : g->text.len, !is_stream(g),
                   bytes_of(NULL, 0));
    send_bytes(c, buf_bytes(&g->text));
}

static void respond_to_end(struct call *c)
{
    struct buf message = {0};

    if (c->code == RPC_OK) {
        respond_with_ok(c);
    } else {
        grpc_percent_decode(buf_bytes(&c->text), &message);
        respond_with_error(c, c->code, buf_bytes(&message));
        buf_free(&message);
    }
    if (c->gateway->websocket) {
        send_lines(c, true);
        send_close(c, CLOSE_NORMAL);
    }
}

static void send_unfinished(struct call *c)
{
    struct gateway_call *g = c->gateway;

    if (g->text.len == 0)
        return;
    if (!g->has_head)
        write_head(c, 200, HTTP_CHUNKED, true, bytes_of(NULL, 0));
    send_bytes(c, buf_bytes(&g->text));
    buf_clear(&g->text);
    if (c->web || g->text.cap > GATEWAY_WHOLE_BYTES)
        buf_free(&g->text);
    account_for_text(c);
}

/* A short answer gets its length; a long one, and a stream's, begins before its end is known. */
static void send_text(struct call *c)
{
    struct gateway_call *g = c->gateway;

    if (g->websocket)
        send_lines(c, false);
    else if (g->has_head || is_stream(g) || g->text.len > GATEWAY_WHOLE_BYTES)
        send_unfinished(c);
}

static void write_some(struct call *c, size_t count)
{
    struct buf *framed = &c->conn->rpc->scratch;

    buf_clear(framed);
    rpc_call_move(c, count, framed);
    gateway_out_put(&c->gateway->out, c->gateway->route, buf_bytes(framed), &c->gateway->text);
    account_for_text(c);
    send_text(c);
}

/*
 * The streams of a connection share its budget: with closed windows, text of one chunk each would
 * be thousands of times that. What was asked for is turned into text whatever happened since, for
 * it counts as wanted until then, and nobody else could ask.
 */
static bool may_write(const struct call *c)
{
    return !c->web || c->wanted > 0 || rpc_budget_allows(c->conn, c->conn->texts);
}

/* What there is of its text has to leave, even if it could have had its length before it: if all
 * who wait had some that stays, they would wait for one another. */
static void await_budget(struct call *c)
{
    send_unfinished(c);
    if (list_empty(&c->crowded_link))
        list_push_back(&c->conn->crowded, &c->crowded_link);
}

/* One chunk at a time: its text is several times as long. */
static void want_chunk(struct call *c)
{
    uint64_t ungiven = message_queue_ungiven(&c->queue);

    if (c->wanted > 0)
        return; /* it was asked for */
    if (c->web && !rpc_conn_has_budget_for_text(c->conn)) {
        await_budget(c);
        return;
    }
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
    if (c->out == OUT_ENDED)
        return; /* a stream's response, which is still being sent */
    while (credit(c) > 0) {
        size_t ready = message_queue_ready(&c->queue, GATEWAY_CHUNK_BYTES);
        if (ready > 0 && !may_write(c)) {
            await_budget(c);
            return;
        }
        if (ready > 0) {
            write_some(c, ready);
            continue;
        }
        if (c->queue.left > 0) {
            want_chunk(c);
        } else if (is_over(c)) {
            respond_to_end(c);
            drop_text(c);
            finish_response(c);
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

/* What gRPC says itself, and no caller for it. */
static bool is_grpcs_own(const char *name)
{
    return strncmp(name, "grpc-", 5) == 0 || strcmp(name, "content-type") == 0;
}

/* As if a client of gRPC had sent it; fields of the gateway's own come without their prefix. */
static void take_fields(struct call *c)
{
    static const char prefix[] = "grpc-metadata-";
    size_t prefix_len = sizeof(prefix) - 1;
    struct http1_field f;

    for (size_t at = 0; next_field(c, &at, &f);) {
        char lower[64];
        if (f.name.len >= sizeof(lower))
            continue;
        for (size_t k = 0; k < f.name.len; k++)
            lower[k] = (char)(f.name.at[k] >= 'A' && f.name.at[k] <= 'Z' ? f.name.at[k] + 32
                                                                         : f.name.at[k]);
        lower[f.name.len] = '\0';
        if (strcmp(lower, "authorization") == 0)
            rpc_call_metadata(c, bytes_of_str(lower), f.value);
        else if (strncmp(lower, prefix, prefix_len) == 0 && !is_grpcs_own(lower + prefix_len))
            rpc_call_metadata(c, bytes_of_str(lower + prefix_len), f.value);
    }
}

static bool find_field(const struct call *c, const char *name, struct bytes *out)
{
    size_t len = strlen(name);
    struct http1_field f;

    for (size_t at = 0; next_field(c, &at, &f);) {
        *out = f.value;
        if (f.name.len == len && strncasecmp((const char *)f.name.at, name, len) == 0)
            return true;
    }
    return false;
}

static struct bytes without_spaces_before(struct bytes s)
{
    while (s.len > 0 && s.at[0] == ' ')
        s = bytes_of(s.at + 1, s.len - 1);
    return s;
}

/* The value of a cookie; nothing if there is none of that name. */
static struct bytes find_cookie(struct bytes cookies, struct bytes name)
{
    while (cookies.len > 0) {
        const uint8_t *end = memchr(cookies.at, ';', cookies.len);
        struct bytes one = bytes_of(cookies.at, end ? (size_t)(end - cookies.at) : cookies.len);
        size_t next = one.len + (end != NULL);
        cookies = bytes_of(cookies.at + next, cookies.len - next);
        one = without_spaces_before(one);
        if (one.len > name.len && bytes_starts_with(one, name) && one.at[name.len] == '=')
            return bytes_of(one.at + name.len + 1, one.len - name.len - 1);
    }
    return cookies;
}

/* "Bearer, token" among the protocols, since a browser can set no other field; or a cookie. */
static void take_websocket_fields(struct call *c, const struct http1_reader *head)
{
    bool found;
    struct bytes mark = BYTES("Bearer,");
    struct bytes protocols = http1_field(head, "Sec-WebSocket-Protocol", &found);
    struct bytes token = find_cookie(http1_field(head, "Cookie", &found), BYTES("token"));
    const uint8_t *at =
        protocols.len > 0 ? memmem(protocols.at, protocols.len, mark.at, mark.len) : NULL;
    struct buf value = {0};

    if (token.len == 0 && at)
        token = bytes_of(at + mark.len, protocols.len - (size_t)(at - protocols.at) - mark.len);
    token = without_spaces_before(token);
    if (token.len == 0)
        return;
    buf_append_str(&value, "Bearer ");
    buf_append(&value, token);
    rpc_call_metadata(c, BYTES("authorization"), buf_bytes(&value));
    buf_free(&value);
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
    static const char units[] = {'H', 'M', 'S', 'm', 'u', 'n'};
    static const int64_t unit_ns[] = {3600000000000, 60000000000, 1000000000, 1000000, 1000, 1};
    const char *unit = text.len > 1 ? memchr(units, text.at[text.len - 1], sizeof(units)) : NULL;
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

/* False: there is one, and the call is over by it. One that is empty or 0 is none, as in
 * grpc-gateway. */
static bool take_timeout(struct call *c)
{
    struct buf *text = &c->conn->rpc->scratch;
    char spelled[GRPC_TIMEOUT_TEXT_MAX];
    struct bytes timeout;
    int64_t ns;

    if (!find_field(c, "Grpc-Timeout", &timeout) || timeout.len == 0)
        return true;
    if (!parse_timeout(timeout, &ns)) {
        buf_clear(text);
        buf_append_str(text, "invalid grpc-timeout: ");
        buf_append(text, timeout);
        refuse(c, RPC_INVALID_ARGUMENT, buf_bytes(text));
        return false;
    }
    if (ns == 0)
        return true;
    if (ns < 1000) { /* no call of etcd's takes less */
        refuse(c, RPC_DEADLINE_EXCEEDED, BYTES("context deadline exceeded"));
        return false;
    }
    rpc_call_metadata(c, BYTES("grpc-timeout"),
                      bytes_of_str(grpc_timeout_text((uint64_t)ns, spelled)));
    return true;
}

/* grpc-gateway decodes it, and gRPC would encode it again. Where Go stops reading: -1, if it reads
 * all. */
static ptrdiff_t find_no_base64(struct bytes text)
{
    bool is_padded = text.len % 4 == 0;
    size_t at = 0;

    while (at < text.len && base64_is_letter(text.at[at]))
        at++;
    if (at == text.len)
        return is_padded || at % 4 != 1 ? -1 : (ptrdiff_t)at - 1;
    if (!is_padded || text.at[at] != '=' || at % 4 < 2)
        return (ptrdiff_t)at;
    size_t end = (at / 4 + 1) * 4; /* of these four */
    if (end - at == 2 && text.at[at + 1] != '=')
        return (ptrdiff_t)at;
    return end == text.len ? -1 : (ptrdiff_t)end;
}

/* "GRPC-METADATA-x-bin" as Go's servers spell it, "Grpc-Metadata-X-Bin". */
static void append_canonical(struct buf *out, struct bytes name)
{
    bool begins_word = true;

    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.at[i];
        bool is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
        uint8_t cased = begins_word ? c & (uint8_t)~0x20 : c | 0x20;
        buf_append_byte(out, is_letter ? cased : c);
        begins_word = c == '-';
    }
}

static bool is_metadata_name(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.at[i];
        bool is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
        if (!is_letter && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.')
            return false;
    }
    return true;
}

/* Is the field metadata for the call, and of the kind that has bytes? */
static bool is_binary(struct bytes name)
{
    static const char prefix[] = "grpc-metadata-", suffix[] = "-bin";
    size_t front = sizeof(prefix) - 1, back = sizeof(suffix) - 1;

    return name.len >= front + back - 1 && strncasecmp((const char *)name.at, prefix, front) == 0 &&
           strncasecmp((const char *)name.at + name.len - back, suffix, back) == 0 &&
           is_metadata_name(name);
}

/* False: there is one that is none, and the call is over by it. */
static bool check_binary_fields(struct call *c)
{
    struct http1_field f;

    for (size_t at = 0; next_field(c, &at, &f);) {
        ptrdiff_t wrong = is_binary(f.name) ? find_no_base64(f.value) : -1;
        if (wrong < 0)
            continue;
        struct buf *text = &c->conn->rpc->scratch;
        buf_clear(text);
        buf_append_str(text, "invalid binary header ");
        append_canonical(text, f.name);
        buf_printf(text, ": illegal base64 data at input byte %td", wrong);
        refuse(c, RPC_INVALID_ARGUMENT, buf_bytes(text));
        return false;
    }
    return true;
}

/* Its deadline begins to count. */
static void open_call(struct call *c)
{
    if (c->gateway->websocket)
        take_websocket_fields(c, &http_of(c)->reader);
    else
        take_fields(c);
    rpc_call_open_in_json(c, bytes_of_str(c->gateway->route->method));
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

/* What the body holds is in the call: the carrier may bring more. */
static void consume(struct call *c)
{
    size_t count = c->gateway->unconsumed;

    c->gateway->unconsumed = 0;
    if (c->web)
        rpc_web_consumed(c, count);
    else
        http_consumed(http_of(c), count);
}

/*
 * Requests of a stream, each when the core has done with the one before. A text that is none ends
 * the requests and nothing else, as in grpc-gateway: what was asked for before goes on being
 * answered. True: the next one is long, and there is more to read of it.
 */
static bool read_stream(struct call *c, size_t *work)
{
    struct gateway_call *g = c->gateway;
    struct buf message = {0}, why = {0};

    if (!is_ours(c) || c->in != IN_READING || g->is_read)
        return false;
    enum gateway_in_result found =
        gateway_in_next_some(&g->in, g->route->request, work, &message, &why);
    switch (found) {
    case GATEWAY_MORE:
    case GATEWAY_LONG:
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
        rpc_event_add(c, PENDING_ENDED);
        break;
    }
    buf_free(&message);
    buf_free(&why);
    return found == GATEWAY_LONG;
}

static void open_with_request(struct call *c, struct buf *message)
{
    open_call(c);
    if (is_ours(c))
        message_is_whole(c, message);
    if (is_ours(c) && is_stream(c->gateway))
        rpc_event_add(c, PENDING_ENDED);
}

/* The one request of a call; what follows it is of no interest. No text at all is an empty one. */
static bool read_only_request(struct call *c, size_t *work)
{
    struct gateway_call *g = c->gateway;
    struct buf message = {0}, why = {0};

    if (!is_ours(c) || g->is_read)
        return false;
    enum gateway_in_result found =
        gateway_in_next_some(&g->in, g->route->request, work, &message, &why);
    if (found == GATEWAY_MORE || found == GATEWAY_LONG) /* MORE: only a WebSocket's has not ended */
        return found == GATEWAY_LONG;
    gateway_in_free(&g->in);
    g->is_read = true;
    if (found == GATEWAY_BAD)
        refuse(c, RPC_INVALID_ARGUMENT, buf_bytes(&why));
    else
        open_with_request(c, &message);
    buf_free(&message);
    buf_free(&why);
    return false;
}

static bool reads_stream(const struct call *c)
{
    return c->gateway->route->kind == GATEWAY_BOTH_STREAM;
}

static bool read_some(struct call *c, size_t *work)
{
    bool is_long = reads_stream(c) ? read_stream(c, work) : read_only_request(c, work);

    account_for_body(c);
    return is_long;
}

/* One text at a time is read in parts: what was read of it is several times as long. */
static void read_requests(struct call *c)
{
    struct rpc *r = c->conn->rpc;

    if (!list_empty(&c->reading_link) || !read_some(c, NULL))
        return;
    list_push_back(&r->reading, &c->reading_link);
    rpc_next_turn(r);
}

static bool wants_body(const struct call *c)
{
    return is_ours(c) && !c->gateway->is_read;
}

/* The body may grow by so much? */
static bool has_space_for(struct call *c, size_t more)
{
    struct gateway_call *g = c->gateway;
    bool fits_in_call =
        g->in.body.len + more <= c->conn->rpc->options.message_bytes_max * PLAIN_BODY_FACTOR;
    /* One that is alone is let in whatever the budget is. */
    bool fits_in_conn = c->conn->held == g->held || c->conn->held + more <= RPC_CONN_BYTES_MAX;

    if (fits_in_call && fits_in_conn)
        return true;
    gateway_in_free(&g->in);
    account_for_body(c);
    g->is_read = true;
    refuse(c, RPC_RESOURCE_EXHAUSTED, BYTES("request body is too large"));
    return false;
}

/* What was taken in is dealt with but for a stream's, while the core is busy with one of them, or
 * the next of them waits to be read. */
static void consume_unless_busy(struct call *c)
{
    bool is_busy = c->in != IN_READING || !list_empty(&c->reading_link);

    if (!wants_body(c) || !reads_stream(c) || !is_busy)
        consume(c);
}

void rpc_gateway_read_some(struct rpc *r)
{
    while (r->reading_left > 0 && !list_empty(&r->reading)) {
        struct call *c = container_of(r->reading.next, struct call, reading_link);

        rpc_conn_touch(
            c->conn); /* which may be over with that, or be refused the rest of its body */
        r->read_bytes += r->reading_left;
        bool is_long = read_some(c, &r->reading_left);
        r->read_bytes -= r->reading_left;
        if (is_long)
            continue;
        list_remove(&c->reading_link);
        consume_unless_busy(c);
    }
    if (!list_empty(&r->reading))
        rpc_next_turn(r);
}

/* The client has left, or does not keep to the rules. */
static void end_websocket(struct call *c, uint16_t code)
{
    send_close(c, code);
    rpc_conn_touch(c->conn); /* which ends it when it is flushed */
    rpc_plain_answered(c);
}

/* A pong is not worth waiting for: a client that pings and does not read gets none. */
static void answer_ping(struct call *c)
{
    const struct websocket_reader *w = c->gateway->websocket;

    if (http_credit(http_of(c)) > 0)
        send_frame(c, WEBSOCKET_PONG, true, bytes_of(w->sign, w->sign_len));
    rpc_conn_touch(c->conn);
}

/* False: it is over. */
static bool take_sign(struct call *c)
{
    if (c->gateway->websocket->opcode == WEBSOCKET_CLOSE) {
        end_websocket(c, CLOSE_NORMAL);
        return false;
    }
    if (c->gateway->websocket->opcode == WEBSOCKET_PING)
        answer_ping(c);
    return true;
}

/* A message is a part of the body, and ends a line of it. */
static void read_websocket(struct call *c, struct bytes piece)
{
    struct gateway_call *g = c->gateway;
    struct buf ignored = {0};
    enum websocket_found found;

    do {
        bool is_wanted = wants_body(c) && has_space_for(c, piece.len + 1);
        buf_clear(&ignored);
        found = websocket_read(g->websocket, &piece, is_wanted ? &g->in.body : &ignored);
        if (found == WEBSOCKET_BAD)
            end_websocket(c, CLOSE_PROTOCOL_ERROR);
        if (found == WEBSOCKET_BAD || (found == WEBSOCKET_SIGN && !take_sign(c))) {
            buf_free(&ignored);
            return;
        }
        if (found == WEBSOCKET_MESSAGE && is_wanted)
            buf_append_byte(&g->in.body, '\n');
        if (is_wanted)
            read_requests(c);
    } while (found != WEBSOCKET_MORE);
    consume_unless_busy(c);
    buf_free(&ignored);
}

void rpc_gateway_body(struct call *c, struct bytes piece)
{
    struct gateway_call *g = c->gateway;

    g->unconsumed += piece.len;
    if (g->websocket) {
        read_websocket(c, piece);
        return;
    }
    if (wants_body(c) && has_space_for(c, piece.len)) {
        gateway_in_add(&g->in, piece);
        account_for_body(c);
        if (reads_stream(c))
            read_requests(c);
    }
    consume_unless_busy(c);
}

/* The request that asks for a WebSocket is whole. */
static void switch_protocols(struct call *c)
{
    const struct http1_reader *head = &http_of(c)->reader;
    struct http1_field fields[2];
    struct buf accept = {0};
    bool found;
    struct bytes protocols = http1_field(head, "Sec-WebSocket-Protocol", &found);

    websocket_accept(http1_field(head, "Sec-WebSocket-Key", &found), &accept);
    fields[0] = (struct http1_field){BYTES("Sec-WebSocket-Accept"), buf_bytes(&accept)};
    fields[1] = (struct http1_field){BYTES("Sec-WebSocket-Protocol"), BYTES("Bearer")};
    http_switch(http_of(c), "websocket", fields,
                bytes_starts_with(protocols, BYTES("Bearer")) ? 2 : 1);
    buf_free(&accept);
    c->gateway->has_head = true;
    c->out = OUT_FLOWING;
    if (c->gateway->route == &nowhere)
        refuse(c, RPC_NOT_FOUND, BYTES("Not Found"));
    else if (reads_stream(c))
        open_call(c);
}

void rpc_gateway_body_end(struct call *c)
{
    if (c->gateway->websocket) {
        switch_protocols(c);
    } else if (wants_body(c)) {
        gateway_in_end(&c->gateway->in);
        read_requests(c);
    }
}

void rpc_gateway_released(struct call *c)
{
    if (reads_stream(c)) {
        read_requests(c);
        consume_unless_busy(c);
    }
}

/* --- the beginning --- */

bool rpc_gateway_takes(const struct rpc_conn *conn, struct bytes verb, struct bytes path)
{
    return conn->rpc->options.has_gateway && conn->serves != RPC_SERVES_PROBES &&
           gateway_has_path(path) && !bytes_equal(verb, BYTES("OPTIONS"));
}

static void begin(struct call *c, bool is_post)
{
    if (c->gateway->route == &nowhere)
        refuse(c, RPC_NOT_FOUND, BYTES("Not Found"));
    else if (!is_post)
        refuse(c, RPC_UNIMPLEMENTED, BYTES("Method Not Allowed"));
    else if (take_timeout(c) && check_binary_fields(c) && reads_stream(c))
        open_call(c);
}

static void set_route(struct call *c, const struct gateway_route *route)
{
    c->gateway = mem_new(struct gateway_call);
    c->gateway->route = route ? route : &nowhere;
}

void rpc_gateway_begin(struct call *c, struct bytes verb, struct bytes path)
{
    bool is_post = bytes_equal(verb, BYTES("POST")); /* they lie in the fields */

    set_route(c, gateway_route_find(path));
    rpc_call_forget_fields(c);
    begin(c, is_post);
}

static struct call *new_call(struct rpc_conn *conn, const struct gateway_route *route)
{
    struct call *c = rpc_call_new(conn, true, 0);

    set_route(c, route);
    return c;
}

/* Does it ask for a WebSocket? */
static bool is_upgrade(const struct http1_reader *head)
{
    bool found;

    return http1_lists(http1_field(head, "Connection", &found), "upgrade") &&
           http1_lists(http1_field(head, "Upgrade", &found), "websocket");
}

static void refuse_upgrade(struct rpc_conn *conn, unsigned status)
{
    struct http1_field fields[] = {
        {BYTES("Content-Type"), BYTES("text/plain; charset=utf-8")},
        {BYTES("Sec-Websocket-Version"), BYTES("13")},
        {BYTES("X-Content-Type-Options"), BYTES("nosniff")},
    };
    struct buf text = {0};

    buf_printf(&text, "%s\n", http1_reason(status));
    rpc_plain_respond(conn, status, fields, ARRAY_LEN(fields), text.len);
    http_send(rpc_plain_http(conn), buf_bytes(&text));
    http_finish(rpc_plain_http(conn));
    buf_free(&text);
}

static struct call *upgrade(struct rpc_conn *conn, const struct gateway_route *route)
{
    const struct http1_reader *head = &rpc_plain_http(conn)->reader;
    bool found;
    bool is_get = bytes_equal(head->verb, BYTES("GET"));
    struct bytes key = http1_field(head, "Sec-WebSocket-Key", &found);

    if (!is_get || key.len == 0 || head->part != HTTP1_AT_END || /* a body would be its frames */
        !http1_lists(http1_field(head, "Sec-WebSocket-Version", &found), "13")) {
        refuse_upgrade(conn, is_get ? 400 : 405);
        return NULL;
    }
    struct call *c = new_call(conn, route);
    c->gateway->websocket = mem_new(struct websocket_reader);
    return c;
}

/* Its user would be surprised to be nobody here. */
static void refuse_certificate(struct rpc_conn *conn)
{
    static const char text[] = RPC_POLICY_NO_GATEWAY;
    struct http1_field fields[] = {
        {BYTES("Content-Type"), BYTES("text/plain; charset=utf-8")},
        {BYTES("X-Content-Type-Options"), BYTES("nosniff")},
    };

    rpc_plain_respond(conn, 400, fields, ARRAY_LEN(fields), sizeof(text) - 1);
    http_send(rpc_plain_http(conn), bytes_of_str(text));
    http_finish(rpc_plain_http(conn));
}

struct call *rpc_gateway_head(struct rpc_conn *conn)
{
    const struct http_conn *h = rpc_plain_http(conn);
    const struct gateway_route *route = gateway_route_find(http_path(h));

    if (!rpc_policy_allows_gateway(conn)) {
        refuse_certificate(conn);
        return NULL;
    }
    if (is_upgrade(&h->reader))
        return upgrade(conn, route);
    struct call *c = new_call(conn, route);
    begin(c, bytes_equal(h->reader.verb, BYTES("POST")));
    return c;
}
