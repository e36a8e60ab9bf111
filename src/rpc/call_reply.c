#include "base/assert.h"
#include "rpc/rpc_int.h"

enum { URGENCY_BULK = 5 }; /* RFC 9218; the usual is 3, the lower the sooner */

/* --- what the core says --- */

/* Is there still somebody to send it to? */
static bool can_send(const struct call *c)
{
    return c->out != OUT_CLOSED && !rpc_call_is_decided(c);
}

static void queued(struct call *c, size_t held_before)
{
    rpc_budget_count_queued(c->conn, held_before, c->queue.held);
    rpc_call_touch(c);
}

static void send_packed(struct call *c, struct bytes plain)
{
    struct rpc *r = c->conn->rpc;
    struct buf packed = buf_pool_take(&r->spares.bufs);

    gzip_pack(rpc_gzip(r), plain, &packed);
    message_queue_add_packed(&c->queue, &packed, plain.len);
}

static void send_message(struct call *c, struct rpc_reply *v)
{
    size_t before = c->queue.held;

    assert(c->life != LIFE_ANSWERED);
    if (!can_send(c))
        return;
    if (c->gzip && !v->rest && v->content.len > 0 && v->content.len <= RPC_PACKED_BYTES_MAX) {
        send_packed(c, buf_bytes(&v->content));
    } else {
        message_queue_add(&c->queue, &v->content, v->rest);
        v->rest = NULL;
    }
    queued(c, before);
}

static void announce(struct call *c, uint64_t total_bytes)
{
    size_t before = c->queue.held;

    assert(c->life != LIFE_ANSWERED);
    assert(total_bytes > 0);
    c->bodies++;
    if (!can_send(c))
        return;
    message_queue_add_body(&c->queue, total_bytes);
    rpc_budget_offer(c);
    queued(c, before);
}

/* The core will not speak of it any more. */
static void release_call(struct call *c)
{
    c->life = LIFE_OVER;
    rpc_event_drop(c, PENDING_ALL);
    list_remove(&c->withheld_link); /* which would tell it something */
    rpc_budget_stop_waiting(c);
    rpc_budget_return(c);
    rpc_call_end_input(c);
    if (c->out == OUT_CLOSED)
        rpc_call_free(c);
}

static void body_complete(struct call *c)
{
    assert(c->bodies > 0);
    c->bodies--;
    if (c->life == LIFE_ANSWERED && c->bodies == 0)
        release_call(c);
}

/* More is to be sent, and not in this turn. */
static void submit_again(struct call *c)
{
    if (list_empty(&c->touched_link))
        list_push_back(&c->conn->touched, &c->touched_link);
    rpc_flush_again(c->conn);
}

static void give_chunk(struct call *c, struct buf *chunk)
{
    struct rpc_conn *conn = c->conn;
    size_t before = c->queue.held, len = chunk->len;

    if (c->wanted == 0)
        return; /* the client has gone since it was asked for */
    assert(len <= c->wanted);
    conn->due -= c->due;
    c->due = 0;
    conn->wanted -= c->wanted - len;
    c->wanted = len;
    if (len == 0) {
        submit_again(c);
        return;
    }
    bool completes = len == message_queue_ungiven(&c->queue);
    message_queue_give(&c->queue, chunk);
    queued(c, before);
    if (completes)
        body_complete(c);
}

static void break_off(struct call *c)
{
    rpc_call_end_input(c);
    if (c->out != OUT_CLOSED) {
        if (!rpc_call_is_decided(c))
            rpc_call_decide(c, RPC_UNKNOWN, BYTES(""));
        rpc_call_reset(c, NGHTTP2_INTERNAL_ERROR);
    }
    release_call(c);
}

static void finish(struct call *c, enum rpc_code code, struct bytes text)
{
    assert(c->life == LIFE_TOLD || c->life == LIFE_GONE);
    if (c->life == LIFE_TOLD) { /* else the client was told something else already, or has gone */
        rpc_call_decide(c, code, text);
        rpc_call_touch(c);
        c->life = LIFE_ANSWERED;
    }
    if (c->bodies == 0) {
        release_call(c);
        return;
    }
    rpc_call_ignore_input(c); /* as long as there is a body its request counts: there are copies */
    list_remove(&c->withheld_link);
    rpc_event_drop(c, (uint8_t)~(PENDING_WANTED | PENDING_GONE));
}

static void do_reply(struct call *c, struct rpc_reply *v)
{
    assert(v->kind == RPC_REPLY_RESERVE ||
           (c->is_plain && !c->method) == (v->kind == RPC_REPLY_HTTP));

    switch (v->kind) {
    case RPC_REPLY_SEND:
        send_message(c, v);
        if (v->ends)
            finish(c, RPC_OK, bytes_of(NULL, 0));
        return;
    case RPC_REPLY_ANNOUNCE:
        announce(c, v->bytes);
        return;
    case RPC_REPLY_CHUNK:
        give_chunk(c, &v->content);
        return;
    case RPC_REPLY_BREAK:
        break_off(c);
        return;
    case RPC_REPLY_RELEASE:
        rpc_call_release(c, v->bytes);
        return;
    case RPC_REPLY_RESERVE:
        if (c->life == LIFE_TOLD)
            rpc_budget_reserve(c, v->bytes);
        return;
    case RPC_REPLY_FINISH:
        finish(c, (enum rpc_code)v->code, buf_bytes(&v->content));
        return;
    case RPC_REPLY_HTTP:
        rpc_plain_reply(c, v);
        return;
    }
    unreachable();
}

void rpc_call_reply(struct rpc *r, struct rpc_reply *v)
{
    struct call *c = rpc_call_find(r, v->call);

    if (c && c->life != LIFE_OVER) /* else its client has gone, and the core hears of that */
        do_reply(c, v);
    buf_pool_give(&r->spares.bufs, &v->content);
    blob_unref(v->rest);
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
    c->out = only_trailers ? OUT_ENDED : OUT_FLOWING;
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
    if (c->gateway) {
        rpc_gateway_flush(c);
        return;
    }
    if (c->out >= OUT_ENDED || (c->queue.left == 0 && !rpc_call_is_decided(c)))
        return;
    if (c->method)
        set_urgency(c);
    if (c->out == OUT_NOTHING) {
        submit_headers(c);
    } else if (c->out == OUT_DEFERRED) {
        c->out = OUT_FLOWING;
        h2_must(nghttp2_session_resume_data(rpc_call_session(c), c->stream_id));
    }
}

static ssize_t put_off(struct call *c)
{
    c->out = OUT_DEFERRED;
    submit_again(c);
    return NGHTTP2_ERR_DEFERRED;
}

static size_t window_of(int32_t window)
{
    return window > 0 ? (size_t)window : 0;
}

bool rpc_conn_has_budget_for_body(const struct rpc_conn *c)
{
    return c->wanted < RPC_CONN_WANTED_BYTES_MAX && rpc_budget_allows(c, c->wanted) &&
           c->wanted < window_of(nghttp2_session_get_remote_window_size(c->session));
}

bool rpc_conn_has_budget_for_text(const struct rpc_conn *c)
{
    return rpc_budget_allows(c, c->texts) && rpc_conn_has_budget_for_body(c);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

void rpc_call_want(struct call *c, size_t count)
{
    assert(c->wanted == 0);
    assert(count > 0);
    c->wanted = count;
    c->conn->wanted += count;
    c->due = count;
    c->conn->due += count;
    rpc_event_add(c, PENDING_WANTED);
}

/* The next bytes are of a body, and are not here. */
static ssize_t await_chunk(struct call *c)
{
    struct rpc_conn *conn = c->conn;

    c->out = OUT_DEFERRED;
    if (c->wanted > 0)
        return NGHTTP2_ERR_DEFERRED; /* they were asked for */
    if (!rpc_conn_has_budget_for_body(conn)) {
        if (list_empty(&c->touched_link)) /* to be tried again when something has left */
            list_push_back(&conn->touched, &c->touched_link);
        return NGHTTP2_ERR_DEFERRED;
    }
    uint64_t ungiven = message_queue_ungiven(&c->queue);
    size_t of_conn = window_of(nghttp2_session_get_remote_window_size(conn->session));
    size_t of_stream =
        window_of(nghttp2_session_get_stream_remote_window_size(conn->session, c->stream_id));
    size_t left = rpc_budget_left(conn->rpc);
    size_t most = ungiven < RPC_CHUNK_BYTES ? (size_t)ungiven : RPC_CHUNK_BYTES;
    most = least(most, left > RPC_CHUNK_BYTES_MIN ? left : RPC_CHUNK_BYTES_MIN);
    /* Not nothing: nghttp2 asks when both windows are open. */
    rpc_call_want(c, least(most, least(of_conn - conn->wanted, of_stream)));
    return NGHTTP2_ERR_DEFERRED;
}

static void submit_trailers(struct call *c)
{
    nghttp2_nv fields[2];
    size_t count = trailer_fields(c, fields);

    h2_must(nghttp2_submit_trailer(rpc_call_session(c), c->stream_id, fields, count));
    c->out = OUT_ENDED;
}

ssize_t rpc_call_read(struct call *c, size_t max, uint32_t *flags)
{
    struct rpc *r = c->conn->rpc;
    bool bulk = c->weight == WEIGHT_BULK;

    if (bulk && r->bulk_left == 0)
        return put_off(c);
    size_t ready = message_queue_ready(&c->queue, max);
    if (ready == 0 && c->queue.left > 0)
        return await_chunk(c);
    if (ready == 0 && !rpc_call_is_decided(c)) {
        c->out = OUT_DEFERRED;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (bulk)
        r->bulk_left -= ready < r->bulk_left ? ready : r->bulk_left;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (rpc_call_is_decided(c) && ready == c->queue.left) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(c);
    }
    return (ssize_t)ready;
}

/* So many bytes of its queue have left, and with them so much memory. */
static void account_for_sent(struct call *c, size_t memory, size_t count)
{
    struct rpc_conn *conn = c->conn;

    rpc_budget_count_queued(conn, memory, 0);
    size_t of_body = least(c->wanted, count); /* all before it had left when it was asked for */
    c->wanted -= of_body;
    conn->wanted -= of_body;
    if (c->queue.left_cost >= least(RPC_SENT_STEP_BYTES, c->granted / 4) && c->granted > 0 &&
        c->life == LIFE_TOLD && list_empty(&c->withheld_link))
        list_push_back(&conn->withheld, &c->withheld_link);
}

void rpc_call_put_data(struct call *c, const uint8_t *frame_head, size_t count)
{
    size_t held = c->queue.held;

    h2_put_data(&c->conn->wire, frame_head, &c->queue, count);
    account_for_sent(c, held - c->queue.held, count);
}

void rpc_call_move(struct call *c, size_t count, struct buf *out)
{
    size_t held = c->queue.held;

    message_queue_move(&c->queue, count, out);
    account_for_sent(c, held - c->queue.held, count);
}

void rpc_call_sent_all(struct call *c)
{
    if (!c->remote_ended)
        rpc_call_reset(c, NGHTTP2_NO_ERROR);
}
