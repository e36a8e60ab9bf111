#include "base/assert.h"
#include "rpc/grpc_text.h"
#include "rpc/rpc_int.h"

/* --- life --- */

static void on_deadline(struct timer *t);

static struct spare_calls *spare_of(const struct rpc_conn *c)
{
    return &c->rpc->spare[c->serves == RPC_SERVES_PROBES];
}

static void take_slot(struct rpc *r, struct spare_calls *s, struct call *c)
{
    if (s->free_slot != 0) {
        c->slot = s->free_slot - 1;
        s->free_slot = r->slots[c->slot].next_free;
    } else {
        if (r->slot_count == r->slot_cap) {
            r->slot_cap = r->slot_cap ? 2 * r->slot_cap : 64;
            r->slots = mem_resize(r->slots, r->slot_cap, sizeof(*r->slots));
        }
        c->slot = (uint32_t)r->slot_count++;
        r->slots[c->slot] = (struct call_slot){0};
    }
    r->slots[c->slot].call = c;
}

static void give_back_slot(struct rpc *r, struct spare_calls *s, const struct call *c)
{
    r->slots[c->slot].call = NULL;
    r->slots[c->slot].next_free = s->free_slot;
    s->free_slot = c->slot + 1;
}

/*
 * Generations begin again after four thousand million calls in one place, which a client that asks
 * one thing after the other needs days for; what named the first of them has long been taken. But 0
 * is nobody's number.
 */
static uint64_t next_id(struct rpc *r, uint32_t slot)
{
    struct call_slot *s = &r->slots[slot];

    s->generation = s->generation == UINT32_MAX ? 1 : s->generation + 1;
    return (uint64_t)s->generation << 32 | (uint64_t)slot << r->id_bits | r->options.nth;
}

struct call *rpc_call_find(const struct rpc *r, uint64_t id)
{
    size_t slot = (uint32_t)id >> r->id_bits;
    struct call *c = slot < r->slot_count ? r->slots[slot].call : NULL;

    return c && c->id == id ? c : NULL;
}

struct call *rpc_call_new(struct rpc_conn *conn, bool is_plain, int32_t stream_id)
{
    struct rpc *r = conn->rpc;
    struct spare_calls *s = spare_of(conn);
    struct list *spare = list_pop_front(&s->calls);
    struct call *c = spare ? container_of(spare, struct call, link) : mem_new(struct call);

    if (spare) {
        s->count--;
    } else {
        list_init(&c->link);
        take_slot(r, s, c);
        list_init(&c->ready_link);
        list_init(&c->flow_link);
        list_init(&c->touched_link);
        list_init(&c->parked_link);
        list_init(&c->packed_link);
        list_init(&c->sharing_link);
        list_init(&c->reading_link);
        list_init(&c->withheld_link);
        list_init(&c->crowded_link);
        list_init(&c->waiting_link);
        message_queue_init(&c->queue, &r->spares);
        c->timer.on_time = on_deadline;
    }
    c->id = next_id(r, c->slot);
    c->is_plain = is_plain;
    c->conn = conn;
    c->stream_id = stream_id;
    c->http_status = 200;
    list_push_back(&conn->calls, &c->link);
    conn->call_count++;
    if (conn->call_count == 1)
        conn_use(conn->conn, clock_now_ns(r->clock));
    conn->refs++;
    r->call_count++;
    return c;
}

void rpc_call_set_busy(struct call *c)
{
    struct rpc_conn *conn = c->conn;

    if (c->is_busy)
        return;
    c->is_busy = true;
    conn->busy_calls++;
    conn_prove(conn->conn, 0);
    if (conn->busy_calls == 1)
        conn_set_busy(conn->conn);
}

static void set_idle(struct call *c)
{
    struct rpc_conn *conn = c->conn;

    if (!c->is_busy)
        return;
    c->is_busy = false;
    conn->busy_calls--;
    if (conn->busy_calls == 0 && conn->state < CONN_CLOSING)
        conn_set_idle(conn->conn, clock_now_ns(conn->rpc->clock));
}

static void keep_small(struct buf *b)
{
    if (b->cap > RPC_SPARE_BUFFER_BYTES_MAX)
        buf_free(b);
    buf_clear(b);
}

/* Everything back to zero but what the next call can use. */
static void recycle(struct rpc *r, struct call *c)
{
    uint32_t slot = c->slot;
    struct buf fields = c->fields, content = c->reader.content, text = c->text;

    keep_small(&fields);
    keep_small(&content);
    keep_small(&text);
    mem_clear(c, sizeof(*c));
    c->slot = slot;
    c->fields = fields;
    c->reader.content = content;
    c->text = text;
    c->timer.on_time = on_deadline;
    list_init(&c->link);
    list_init(&c->ready_link);
    list_init(&c->flow_link);
    list_init(&c->touched_link);
    list_init(&c->parked_link);
    list_init(&c->packed_link);
    list_init(&c->sharing_link);
    list_init(&c->reading_link);
    list_init(&c->withheld_link);
    list_init(&c->crowded_link);
    list_init(&c->waiting_link);
    message_queue_init(&c->queue, &r->spares);
}

void rpc_call_destroy(struct rpc *r, struct spare_calls *s, struct call *c)
{
    give_back_slot(r, s, c);
    buf_free(&c->fields);
    buf_free(&c->text);
    message_reader_free(&c->reader);
    mem_free(c);
}

static void give_back_all_but(struct call *c, size_t kept)
{
    struct rpc_conn *conn = c->conn;

    if (c->reserved == kept && c->unpacked == 0)
        return; /* it was given back before */
    if (c->unpacked > 0)
        rpc_unpack_forget_all_but(c, kept);
    assert(conn->held >= c->reserved);
    conn->held += kept - c->reserved;
    c->reserved = kept;
    if (!list_empty(&conn->packed))
        rpc_next_turn(conn->rpc); /* one of them may fit now */
    rpc_conn_unpark(conn);
}

static void give_back_reserved(struct call *c)
{
    give_back_all_but(c, 0);
}

static void drop_later(struct call *c)
{
    c->conn->backlog -= c->later.len - c->later_at;
    buf_free(&c->later);
    c->later_at = 0;
}

void rpc_call_free(struct call *c)
{
    struct rpc_conn *conn = c->conn;
    struct rpc *r = conn->rpc;
    struct spare_calls *s = spare_of(conn);

    assert(c->out == OUT_CLOSED);
    assert(c->life == LIFE_OVER);
    rpc_event_drop(c, PENDING_ALL);
    give_back_reserved(c);
    rpc_budget_return(c);
    assert(r->kept >= c->kept);
    conn->kept -= c->kept;
    r->kept -= c->kept;
    assert(c->queue.left == 0);
    assert(c->later.len == 0);
    r->call_count--;
    recycle(r, c);
    if (s->count < RPC_SPARE_CALLS_MAX) {
        list_push_front(&s->calls, &c->link);
        s->count++;
    } else {
        rpc_call_destroy(r, s, c);
    }
    rpc_conn_unref(conn);
}

/* --- the end of a call, from either side --- */

static void clear_queue(struct call *c)
{
    struct rpc_conn *conn = c->conn;

    if (c->queue.held > 0)
        rpc_budget_count_dropped(conn, c->queue.held);
    rpc_budget_withdraw(c);
    message_queue_clear(&c->queue);
    conn->wanted -= c->wanted;
    c->wanted = 0;
    conn->due -= c->due;
    c->due = 0;
}

void rpc_call_end_input(struct call *c)
{
    drop_later(c);
    list_remove(&c->parked_link);
    if (c->in == IN_PACKED)
        rpc_unpack_forget(c); /* it reads what the reader has */
    message_next(&c->reader);
    c->in = IN_DONE;
    give_back_reserved(c);
}

void rpc_call_ignore_input(struct call *c)
{
    if (c->in == IN_DONE)
        return; /* and perhaps it has a message that counts */
    if (c->in != IN_LENT) {
        rpc_call_end_input(c);
        return;
    }
    drop_later(c);
    c->in = IN_DONE;
}

void rpc_call_touch(struct call *c)
{
    if (list_empty(&c->touched_link))
        list_push_back(&c->conn->touched, &c->touched_link);
    rpc_conn_touch(c->conn);
}

void rpc_call_decide(struct call *c, enum rpc_code code, struct bytes text)
{
    assert(!rpc_call_is_decided(c)); /* the caller sees to it that it is */

    text.len = text.len < RPC_STATUS_TEXT_BYTES_MAX ? text.len : RPC_STATUS_TEXT_BYTES_MAX;
    c->code = code;
    buf_clear(&c->text);
    grpc_percent_encode(text, &c->text);
}

static void tell_gone(struct call *c)
{
    bool is_known = c->life != LIFE_UNTOLD;

    c->life = is_known ? LIFE_GONE : LIFE_OVER;
    rpc_event_drop(c, PENDING_ALL);
    rpc_budget_stop_waiting(c);
    list_remove(&c->withheld_link);
    if (is_known)
        rpc_event_add(c, PENDING_GONE);
}

void rpc_call_reset(struct call *c, uint32_t error)
{
    if (c->gateway && !c->web) {
        rpc_gateway_cut(c);
        return;
    }
    h2_must(nghttp2_submit_rst_stream(rpc_call_session(c), NGHTTP2_FLAG_NONE, c->stream_id, error));
    rpc_conn_touch(c->conn);
}

void rpc_call_end_early(struct call *c, enum rpc_code code, struct bytes text)
{
    assert(c->out != OUT_CLOSED);
    if (rpc_call_is_decided(c))
        return;
    bool cut = c->queue.within_message; /* what was sent in part can only be followed by its rest */

    rpc_call_decide(c, code, text);
    clear_queue(c);
    tell_gone(c);
    rpc_call_ignore_input(c);
    if (cut)
        rpc_call_reset(c, NGHTTP2_CANCEL);
    else
        rpc_call_touch(c);
}

/* The client gets no status, only a reset. */
static void end_without_status(struct call *c, uint32_t error, enum rpc_code code,
                               struct bytes text)
{
    if (!rpc_call_is_decided(c)) {
        rpc_call_decide(c, code, text);
        clear_queue(c);
        tell_gone(c);
        rpc_call_ignore_input(c);
    }
    rpc_call_reset(c, error);
}

void rpc_call_refuse_malformed(struct call *c)
{
    end_without_status(c, NGHTTP2_PROTOCOL_ERROR, RPC_INTERNAL, BYTES("malformed request"));
}

static void on_deadline(struct timer *t)
{
    struct call *c = container_of(t, struct call, timer);

    assert(c->out != OUT_CLOSED);
    if (rpc_call_is_decided(c))
        rpc_call_reset(c, NGHTTP2_CANCEL); /* answered, and the client does not take it */
    else
        rpc_call_end_early(c, RPC_DEADLINE_EXCEEDED, BYTES("context deadline exceeded"));
}

void rpc_call_detach(struct call *c)
{
    struct rpc_conn *conn = c->conn;

    assert(c->out != OUT_CLOSED);
    c->out = OUT_CLOSED;
    conn->call_count--;
    set_idle(c);
    list_remove(&c->link);
    list_remove(&c->touched_link);
    list_remove(&c->withheld_link);
    list_remove(&c->crowded_link);
    conn->granted -= c->granted;
    conn->rpc->granted -= c->granted;
    timer_stop(conn->rpc->clock, &c->timer);
    clear_queue(c);
    if (c->gateway)
        rpc_gateway_free(c);
    if (c->web)
        rpc_web_free(c);
    rpc_call_ignore_input(c);
    if (c->life < LIFE_GONE)
        tell_gone(c);
    if (c->life == LIFE_OVER)
        rpc_call_free(c);
}

void rpc_call_forget_timer(struct call *c)
{
    c->timer = (struct timer){.on_time = on_deadline};
}

/* --- messages in --- */

static void check_end(struct call *c);

static void consume(struct call *c, size_t count)
{
    c->unconsumed += count;
    if (c->unconsumed < RPC_CONSUME_STEP_BYTES || c->remote_ended)
        return;
    h2_must(nghttp2_session_consume_stream(rpc_call_session(c), c->stream_id, c->unconsumed));
    c->unconsumed = 0;
    rpc_conn_touch(c->conn);
}

/* A message always fits when it is alone, however large messages may be here. */
static bool fits(const struct call *c, size_t length)
{
    const struct rpc_conn *conn = c->conn;

    return conn->held == 0 || conn->held + length <= RPC_CONN_BYTES_MAX;
}

static void reserve(struct call *c, size_t count)
{
    c->reserved += count;
    c->conn->held += count;
}

/* There is room for this message: it may come as fast as it can. */
static void let_in(struct call *c, size_t length)
{
    reserve(c, length);
    if (!c->reader.content.at) /* the last one went to the core */
        c->reader.content = buf_pool_take(&c->conn->rpc->spares.bufs);
    if (length <= RPC_STREAM_WINDOW_BYTES || c->large_window || c->remote_ended)
        return;
    c->large_window = true;
    h2_must(nghttp2_session_set_local_window_size(rpc_call_session(c), NGHTTP2_FLAG_NONE,
                                                  c->stream_id, RPC_STREAM_WINDOW_LARGE_BYTES));
    rpc_conn_touch(c->conn);
}

static void message_announced(struct call *c)
{
    struct rpc *r = c->conn->rpc;
    uint32_t length = message_length(&c->reader);
    uint8_t flag = message_flag(&c->reader);
    struct buf *text = &r->scratch;

    buf_clear(text);
    if (length > r->options.message_bytes_max) {
        buf_printf(text, "grpc: received message larger than max (%u vs. %zu)", length,
                   r->options.message_bytes_max);
        rpc_call_end_early(c, RPC_RESOURCE_EXHAUSTED, buf_bytes(text));
    } else if (flag > 1) {
        buf_printf(text, "grpc: received unexpected payload format %u", flag);
        rpc_call_end_early(c, RPC_INTERNAL, buf_bytes(text));
    } else if (flag == 1 && !c->gzip) {
        rpc_call_end_early(c, RPC_INTERNAL,
                           BYTES("grpc: compressed flag set with identity or empty encoding"));
    } else if (fits(c, length)) {
        let_in(c, length);
    } else {
        c->in = IN_PARKED;
        list_push_back(&c->conn->parked, &c->parked_link);
    }
}

/* In the words of Go's reader, which looks at the ten bytes of the header first. */
static void refuse_packed(struct call *c, enum err e, size_t packed)
{
    const struct rpc *r = c->conn->rpc;
    struct buf *text = &c->conn->rpc->scratch;

    buf_clear(text);
    if (e == ERR_TOO_LARGE) {
        buf_printf(text, "grpc: received message after decompression larger than max %zu",
                   r->options.message_bytes_max);
        rpc_call_end_early(c, RPC_RESOURCE_EXHAUSTED, buf_bytes(text));
        return;
    }
    buf_append_str(text, e == ERR_MALFORMED || packed < 10
                             ? "grpc: failed to decompress the message: "
                             : "grpc: failed to read decompressed data: ");
    buf_append_str(text, e == ERR_MALFORMED            ? "gzip: invalid header"
                         : e == ERR_END && packed == 0 ? "EOF"
                         : e == ERR_END                ? "unexpected EOF"
                                                       : "gzip: invalid checksum");
    rpc_call_end_early(c, RPC_INTERNAL, buf_bytes(text));
}

static void message_whole(struct call *c)
{
    c->in = IN_WHOLE;
    rpc_call_set_busy(c);
    if (rpc_call_is_unary(c) || c->method->client_streams)
        rpc_event_add(c, PENDING_MESSAGE);
}

void rpc_call_unpacked(struct call *c, enum err e, struct buf *plain)
{
    size_t packed = c->reader.content.len;

    assert(c->in == IN_PACKED);
    if (e != ERR_OK) {
        buf_free(plain);
        refuse_packed(c, e, packed);
        return;
    }
    assert(c->reserved >= packed);
    c->conn->held -= packed;
    c->reserved -= packed;
    buf_free(&c->reader.content);
    c->reader.content = *plain;
    *plain = (struct buf){0};
    message_whole(c);
    check_end(c);
    rpc_conn_unpark(c->conn);
}

void rpc_call_take_message(struct call *c)
{
    assert(c->in == IN_READING);
    assert(c->gateway);
    reserve(c, c->reader.content.len);
    c->in = IN_WHOLE;
    rpc_call_set_busy(c);
    rpc_event_add(c, PENDING_MESSAGE);
}

/* What follows the one message of a unary call is of no interest, as in etcd. */
static bool ignores(const struct call *c)
{
    return c->in == IN_DONE || (c->in >= IN_PACKED && rpc_call_is_unary(c));
}

/* Takes messages from *in until one must be dealt with first. */
static void read_messages(struct call *c, struct bytes *in)
{
    while (c->in == IN_READING) {
        size_t before = in->len;
        enum message_step step = message_read(&c->reader, in);

        consume(c, before - in->len);
        if (step == MESSAGE_MORE)
            return;
        if (step == MESSAGE_ANNOUNCED)
            message_announced(c);
        else if (message_flag(&c->reader) == 1)
            rpc_unpack(c);
        else
            message_whole(c);
    }
}

/* A streaming call without messages of the client's ends in one of three ways, in gRPC's words. */
static void end_of_request(struct call *c)
{
    if (c->later.len > c->later_at)
        rpc_call_end_early(c, RPC_INTERNAL,
                           BYTES("cardinality violation: received multiple request messages for "
                                 "non-client-streaming RPC"));
    else if (c->in < IN_PACKED)
        rpc_call_end_early(c, RPC_INTERNAL,
                           BYTES("cardinality violation: received no request message from "
                                 "non-client-streaming RPC"));
    else
        rpc_event_add(c, PENDING_MESSAGE | PENDING_ENDED);
}

/* The client has said all; once all of it was read the core hears of that. To be called when the
 * end has come, and when something was read that had come before it: so it is told once. */
static void check_end(struct call *c)
{
    if (!c->remote_ended || rpc_call_is_decided(c) || c->in == IN_PARKED || c->in == IN_PACKED)
        return;
    bool within = c->in == IN_READING && message_is_partial(&c->reader);
    if (c->method->client_streams && c->later.len > c->later_at)
        return;
    if (within)
        rpc_call_end_early(c, rpc_call_is_unary(c) ? RPC_UNKNOWN : RPC_INTERNAL,
                           BYTES("unexpected EOF"));
    else if (rpc_call_is_unary(c) && c->in < IN_WHOLE)
        rpc_call_end_early(c, RPC_UNKNOWN, BYTES("EOF"));
    else if (!rpc_call_is_unary(c) && c->method->client_streams)
        rpc_event_add(c, PENDING_ENDED);
    else if (!rpc_call_is_unary(c))
        end_of_request(c);
}

/* More waits on this connection than may. A call that nobody has seen is refused in the way that
 * tells its client to try again. */
static void turn_away(struct call *c)
{
    struct bytes text = BYTES("too many unanswered bytes on this connection");

    if (c->life != LIFE_UNTOLD) {
        rpc_call_end_early(c, RPC_RESOURCE_EXHAUSTED, text);
        return;
    }
    end_without_status(c, NGHTTP2_REFUSED_STREAM, RPC_UNAVAILABLE, text);
}

static void stash(struct call *c, struct bytes in)
{
    struct rpc_conn *conn = c->conn;

    if (in.len == 0 || ignores(c))
        return;
    if (c->later_at > c->later.len / 2) {
        buf_drop_front(&c->later, c->later_at);
        c->later_at = 0;
    }
    buf_append(&c->later, in);
    conn->backlog += in.len;
    if (conn->backlog > RPC_CONN_BACKLOG_BYTES_MAX)
        turn_away(c);
}

static void read_later(struct call *c)
{
    struct bytes in = bytes_of(c->later.at + c->later_at, c->later.len - c->later_at);
    size_t before = in.len;

    read_messages(c, &in);
    if (c->in == IN_DONE)
        return; /* ended meanwhile, and all dropped */
    c->later_at += before - in.len;
    c->conn->backlog -= before - in.len;
    if (ignores(c) || c->later_at == c->later.len)
        drop_later(c);
}

void rpc_call_data(struct call *c, struct bytes data)
{
    if (c->web) {
        rpc_web_data(c, data);
        return;
    }
    if (ignores(c))
        return;
    if (c->later.len == c->later_at)
        read_messages(c, &data);
    stash(c, data);
}

void rpc_call_remote_ended(struct call *c)
{
    c->remote_ended = true;
    if (c->web)
        rpc_web_ended(c);
    else
        check_end(c);
}

bool rpc_call_unpark(struct call *c)
{
    size_t length = message_length(&c->reader);

    assert(c->in == IN_PARKED);
    if (!fits(c, length))
        return false;
    c->in = IN_READING;
    list_remove(&c->parked_link);
    let_in(c, length);
    if (c->later.len > 0)
        read_later(c);
    else
        read_messages(c, &(struct bytes){0});
    check_end(c);
    return true;
}

void rpc_call_release(struct call *c, size_t kept)
{
    bool is_only = !c->method->client_streams; /* and the client's end has come with it */

    assert(c->in == IN_LENT || c->in == IN_DONE);
    assert(is_only || kept == 0);
    if (c->in == IN_LENT) {
        c->in = is_only ? IN_DONE : IN_READING;
        message_next(&c->reader);
    }
    give_back_all_but(c, kept);
    if (c->gateway) {
        rpc_gateway_released(c);
    } else if (c->in == IN_READING && c->later.len > 0) {
        read_later(c);
        check_end(c);
    }
}

/* --- invariants --- */

void rpc_call_check(const struct call *c)
{
    message_queue_check(&c->queue);
    assert(c->later_at <= c->later.len);
    assert((c->in == IN_PARKED) == !list_empty(&c->parked_link));
    assert((c->in == IN_PACKED) == !list_empty(&c->packed_link));
    assert(c->conn->rpc->unpacking != c || c->in == IN_PACKED);
    assert(c->unpacked <= c->reserved);
    assert(c->shared == 0 || c->shared == c->unpacked);
    assert(c->shared <= c->conn->rpc->unpacked);
    assert(list_empty(&c->sharing_link) == (c->shared == 0 || c->in == IN_PACKED));
    assert(list_empty(&c->withheld_link) || c->life == LIFE_TOLD);
    assert(list_empty(&c->crowded_link) || c->gateway);
    assert(list_empty(&c->reading_link) || c->gateway);
    assert(c->life != LIFE_GONE || c->pending == PENDING_GONE);
    bool waits_untold = c->life == LIFE_UNTOLD && !list_empty(&c->waiting_link);
    assert(((c->pending & ~PENDING_FLOW) != 0) == (!list_empty(&c->ready_link) || waits_untold));
    assert(!waits_untold || (list_empty(&c->ready_link) && c->promised == 0));
    assert(((c->pending & PENDING_FLOW) != 0) == !list_empty(&c->flow_link));
    assert(rpc_call_find(c->conn->rpc, c->id) == c);
    assert(c->out != OUT_ENDED || rpc_call_is_decided(c));
    assert(c->out != OUT_CLOSED || c->queue.left == 0);
    assert(c->out != OUT_CLOSED || c->life == LIFE_GONE); /* there is nobody to be spoken to */
    assert(c->in != IN_LENT || c->life >= LIFE_TOLD);
}
