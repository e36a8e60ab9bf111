#include "base/assert.h"
#include "rpc/rpc_int.h"

enum { URGENCY_BULK = 5 }; /* RFC 9218; the usual is 3, the lower the sooner */

/* --- answering --- */

static struct call *answering(struct rpc_call *pub)
{
    struct call *c = call_of(pub);

    assert(pub->kind == RPC_GRPC);
    assert(!c->released);
    return c;
}

/* Is there still somebody to send it to? */
static bool can_send(const struct call *c)
{
    return c->attached && !c->finished;
}

static void queued(struct call *c, size_t held_before)
{
    c->pub.conn->queued += c->queue.held - held_before;
    rpc_call_touch(c);
}

static void send_packed(struct call *c, struct bytes plain)
{
    struct rpc *r = c->pub.conn->rpc;

    buf_clear(&r->scratch);
    gzip_pack(rpc_gzip(r), plain, &r->scratch);
    message_queue_add(&c->queue, true, buf_bytes(&r->scratch), NULL);
}

void rpc_send(struct rpc_call *pub, struct bytes message)
{
    struct call *c = answering(pub);
    size_t before = c->queue.held;

    if (!can_send(c))
        return;
    if (c->gzip && message.len > 0 && message.len <= PACKED_BYTES_MAX)
        send_packed(c, message);
    else
        message_queue_add(&c->queue, false, message, NULL);
    queued(c, before);
}

void rpc_send_shared(struct rpc_call *pub, struct bytes prefix, struct blob *rest)
{
    struct call *c = answering(pub);
    size_t before = c->queue.held;

    if (!can_send(c))
        return;
    message_queue_add(&c->queue, false, prefix, rest);
    queued(c, before);
}

void rpc_send_body(struct rpc_call *pub, struct rpc_body *body)
{
    struct call *c = answering(pub);
    size_t before = c->queue.held;

    if (!can_send(c)) {
        body->end(body);
        return;
    }
    message_queue_add_body(&c->queue, body);
    queued(c, before);
}

size_t rpc_credit(struct rpc_call *pub)
{
    struct call *c = answering(pub);
    struct rpc_conn *conn = pub->conn;

    if (!can_send(c))
        return RPC_CALL_QUEUE_BYTES; /* what is sent is dropped */
    size_t credit = c->queue.held < RPC_CALL_QUEUE_BYTES ? RPC_CALL_QUEUE_BYTES - c->queue.held : 0;
    size_t of_conn = conn->queued < RPC_CONN_BYTES_MAX ? RPC_CONN_BYTES_MAX - conn->queued : 0;
    credit = credit < of_conn ? credit : of_conn;
    if (credit == 0 && list_empty(&c->credit_link))
        list_push_back(&conn->awaiting_credit, &c->credit_link);
    return credit;
}

void rpc_finish(struct rpc_call *pub, enum rpc_code code, struct bytes text)
{
    struct call *c = answering(pub);

    c->released = true;
    c->lent = false;
    rpc_event_drop_all(c);
    list_remove(&c->credit_link);
    if (!c->attached) {
        rpc_call_free(c);
        return;
    }
    if (!c->finished) { /* else the client was told something else already */
        rpc_call_decide(c, code,
                        text); /* the text may be part of the message that ignoring input drops */
        rpc_call_touch(c);
    }
    rpc_call_ignore_input(c);
}

/* --- what nghttp2 gets --- */

static struct bytes status_text(const struct call *c)
{
    switch (c->http_status) {
    case 200:
        return BYTES("200");
    case 400:
        return BYTES("400");
    case 405:
        return BYTES("405");
    case 415:
        return BYTES("415");
    case 431:
        return BYTES("431");
    default:
        unreachable();
    }
}

static struct bytes code_text(enum rpc_code code)
{
    static const char digits[] = "012345678910111213141516";

    assert(code <= RPC_UNAUTHENTICATED);
    return code < 10 ? bytes_of(digits + code, 1) : bytes_of(digits + 10 + 2 * (code - 10), 2);
}

static size_t trailer_fields(const struct call *c, nghttp2_nv *out)
{
    size_t count = 0;

    out[count++] = h2_field(BYTES("grpc-status"), code_text(c->code));
    if (c->text.len > 0)
        out[count++] = h2_field_copied(BYTES("grpc-message"), buf_bytes(&c->text));
    return count;
}

static ssize_t read_data(nghttp2_session *s, int32_t stream_id, uint8_t *at, size_t max,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    (void)s;
    (void)stream_id;
    (void)at;
    (void)context;
    return rpc_call_read(source->ptr, max, flags);
}

static void submit_headers(struct call *c)
{
    nghttp2_data_provider provider = {.source.ptr = c, .read_callback = read_data};
    bool only_trailers = c->queue.left == 0;
    nghttp2_nv fields[5];
    size_t count = 0;

    fields[count++] = h2_field(BYTES(":status"), status_text(c));
    fields[count++] = h2_field(BYTES("content-type"), BYTES("application/grpc"));
    if (c->gzip && !only_trailers)
        fields[count++] = h2_field(BYTES("grpc-encoding"), BYTES("gzip"));
    if (only_trailers)
        count += trailer_fields(c, fields + count);
    h2_must(nghttp2_submit_response(rpc_call_session(c), c->stream_id, fields, count,
                                    only_trailers ? NULL : &provider));
    c->headers_sent = true;
    c->trailers_sent = only_trailers;
}

/* Long messages step back behind short ones and share what is left. Streams take turns with one
 * another, or the first one with much to say would silence the others. */
static void set_urgency(struct call *c)
{
    enum call_weight weight = c->queue.left > RPC_CHUNK_BYTES ? WEIGHT_BULK
                              : rpc_call_is_unary(c)          ? WEIGHT_USUAL
                                                              : WEIGHT_SHARED;
    nghttp2_extpri priority = {.urgency = weight == WEIGHT_BULK ? URGENCY_BULK
                                                                : NGHTTP2_EXTPRI_DEFAULT_URGENCY,
                               .inc = weight != WEIGHT_USUAL};

    if (weight == c->weight)
        return;
    c->weight = weight;
    h2_must(nghttp2_session_change_extpri_stream_priority(rpc_call_session(c), c->stream_id,
                                                          &priority, 1));
}

void rpc_call_submit(struct call *c)
{
    if (!c->attached || c->trailers_sent || (c->queue.left == 0 && !c->finished))
        return;
    if (c->pub.method)
        set_urgency(c);
    if (!c->headers_sent) {
        submit_headers(c);
    } else if (c->deferred) {
        c->deferred = false;
        h2_must(nghttp2_session_resume_data(rpc_call_session(c), c->stream_id));
    }
}

/* More is to be sent, and not in this turn. */
static ssize_t put_off(struct call *c)
{
    c->deferred = true;
    if (list_empty(&c->touched_link))
        list_push_back(&c->pub.conn->touched, &c->touched_link);
    rpc_flush_again(c->pub.conn);
    return NGHTTP2_ERR_DEFERRED;
}

static void submit_trailers(struct call *c)
{
    nghttp2_nv fields[2];
    size_t count = trailer_fields(c, fields);

    h2_must(nghttp2_submit_trailer(rpc_call_session(c), c->stream_id, fields, count));
    c->trailers_sent = true;
}

ssize_t rpc_call_read(struct call *c, size_t max, uint32_t *flags)
{
    struct rpc_conn *conn = c->pub.conn;
    struct rpc *r = conn->rpc;
    bool bulk = c->weight == WEIGHT_BULK;
    size_t held = c->queue.held;
    size_t ready;

    if (bulk && r->bulk_left == 0)
        return put_off(c);
    enum err e = message_queue_ready(&c->queue, max, &ready);
    conn->queued += c->queue.held - held;
    if (e != ERR_OK) {
        log_warn(r->logger, "cannot read the reply to a call", LOG_STR("remote", conn->info.remote),
                 LOG_STR("error", err_text(e)));
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (ready == 0 && c->queue.left > 0)
        return put_off(c);
    if (ready == 0 && !c->finished) {
        c->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (bulk)
        r->bulk_left -= ready < r->bulk_left ? ready : r->bulk_left;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (c->finished && ready == c->queue.left) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(c);
    }
    return (ssize_t)ready;
}

void rpc_call_put_data(struct call *c, const uint8_t *frame_head, size_t count)
{
    struct rpc_conn *conn = c->pub.conn;
    size_t held = c->queue.held;

    h2_put_data(&conn->wire, frame_head, &c->queue, count);
    conn->queued -= held - c->queue.held;
}

void rpc_call_sent_all(struct call *c)
{
    if (!c->remote_ended)
        rpc_call_reset(c, NGHTTP2_NO_ERROR);
}
