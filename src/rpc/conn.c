#include "base/assert.h"
#include "base/text.h"
#include "rpc/rpc_int.h"

#include <limits.h>
#include <stdio.h>

static struct rpc_conn *conn_of(struct conn *c)
{
    return c->context;
}

/* --- life --- */

static void on_alarm(struct timer *t);
static void on_sent(struct wire *w, size_t bytes);

static void on_data(struct conn *conn, struct bytes data);
static void on_end(struct conn *conn);
static void on_closed(struct conn *conn, enum err reason);

static char *copy_str(const char *str)
{
    size_t size = strlen(str) + 1;

    return memcpy(mem_alloc(size), str, size);
}

/* The names of the peer's certificate live in the socket's memory. */
static void copy_info(struct rpc_conn *c, const struct conn_info *info)
{
    char **sans = info->san_count > 0 ? mem_new_array(info->san_count, char *) : NULL;

    c->info = *info;
    c->remote_len = strlen(c->info.remote);
    if (info->cn) {
        c->info.cn = copy_str(info->cn);
        c->cn_len = strlen(info->cn);
    }
    for (size_t i = 0; i < info->san_count; i++)
        sans[i] = copy_str(info->sans[i]);
    c->info.sans = (const char *const *)sans;
}

static void free_info(struct rpc_conn *c)
{
    for (size_t i = 0; i < c->info.san_count; i++)
        mem_free((char *)c->info.sans[i]);
    mem_free((void *)c->info.sans);
    mem_free((char *)c->info.cn);
}

void rpc_conn_accepted(struct rpc *r, struct conn *conn, enum rpc_serves serves)
{
    static const struct conn_handlers handlers = {
        .on_data = on_data, .on_end = on_end, .on_closed = on_closed};
    struct rpc_conn *c = mem_new(struct rpc_conn);

    c->rpc = r;
    c->conn = conn;
    c->number = ++r->conns_so_far << r->id_bits | r->options.nth;
    c->serves = serves;
    copy_info(c, conn_info(conn));
    c->wire = (struct wire){.pool = &r->pool, .conn = conn, .on_sent = on_sent};
    c->timer.on_time = on_alarm;
    c->refs = 1;
    c->control_frames = RPC_CONTROL_FRAMES_MAX;
    c->control_ns = clock_now_ns(r->clock);
    list_init(&c->link);
    list_init(&c->dirty_link);
    list_init(&c->again_link);
    list_init(&c->behind_link);
    list_init(&c->packed_link);
    list_init(&c->packed);
    list_init(&c->calls);
    list_init(&c->touched);
    list_init(&c->parked);
    list_init(&c->withheld);
    list_init(&c->crowded);
    list_init(&c->waiting);
    list_init(&c->asking);
    list_init(&c->waiting_link);
    list_init(&c->starved_link);
    list_push_back(&r->conns, &c->link);
    r->conn_count++;
    rpc_conn_set_alarm(c, ALARM_HEAD, RPC_HEAD_MS);
    conn_accept(conn, &handlers, c);
}

void rpc_conn_unref(struct rpc_conn *c)
{
    assert(c->refs > 0);
    c->refs--;
    if (c->refs > 0)
        return;
    assert(c->state == CONN_CLOSED);
    assert(c->held == 0);
    assert(c->unpacked == 0);
    assert(c->kept == 0);
    assert(c->backlog == 0);
    assert(c->queued == 0);
    assert(c->texts == 0);
    assert(c->promised == 0);
    assert(c->offered == 0);
    assert(c->due == 0);
    assert(list_empty(&c->waiting_link));
    free_info(c);
    mem_free(c);
}

/* The calls end first, so that nobody asks nghttp2 for anything any more. */
static void end_session(struct rpc_conn *c)
{
    assert(!c->within_session);
    list_remove(&c->behind_link);
    list_remove(&c->starved_link);
    buf_free(&c->unread);
    while (!list_empty(&c->calls))
        rpc_call_detach(container_of(c->calls.next, struct call, link));
    if (c->session)
        nghttp2_session_del(c->session);
    c->session = NULL;
    if (c->plain)
        rpc_plain_free(c);
}

void rpc_conn_cut(struct rpc_conn *c, enum err reason)
{
    if (c->state >= CONN_CLOSING)
        return;
    c->state = CONN_CLOSING;
    wire_drop(&c->wire);
    list_remove(&c->dirty_link);
    list_remove(&c->again_link);
    timer_stop(c->rpc->clock, &c->timer);
    conn_close(c->conn, reason);
    end_session(c);
}

static void on_closed(struct conn *conn, enum err reason)
{
    struct rpc_conn *c = conn_of(conn);

    if (reason == ERR_EVICTED)
        log_warn(c->rpc->logger, "closed a connection because there are too many",
                 LOG_STR("remote", c->info.remote));
    rpc_conn_cut(c, reason);
    c->state = CONN_CLOSED;
    assert(c->wire.waiting == 0);
    list_remove(&c->link);
    c->rpc->conn_count--;
    rpc_conn_unref(c);
}

void rpc_conn_abandon(struct rpc_conn *c)
{
    c->timer = (struct timer){0};
    LIST_FOREACH (link, &c->calls)
        rpc_call_forget_timer(container_of(link, struct call, link));
    list_remove(&c->dirty_link);
    list_remove(&c->again_link);
    list_remove(&c->link);
    c->state = CONN_CLOSING;
    end_session(c);
    wire_drop(&c->wire);
    c->state = CONN_CLOSED;
    c->rpc->conn_count--;
    rpc_conn_unref(c);
}

static size_t send_gathered(struct rpc_conn *c)
{
    size_t taken = wire_send(&c->wire);

    c->rpc->sent_bytes += taken;
    return taken;
}

/* Closing at once, with input unread, would make the kernel discard our last words. */
void rpc_conn_linger(struct rpc_conn *c)
{
    if (c->state >= CONN_LINGERING)
        return;
    send_gathered(c);
    c->state = CONN_LINGERING;
    list_remove(&c->dirty_link);
    list_remove(&c->again_link);
    end_session(c);
    conn_shutdown(c->conn);
    conn_resume(c->conn);
    rpc_conn_set_alarm(c, ALARM_LINGER, RPC_LINGER_MS);
}

void rpc_conn_set_alarm(struct rpc_conn *c, enum conn_alarm alarm, uint64_t after_ms)
{
    c->alarm = alarm;
    c->heard = false;
    timer_start(c->rpc->clock, &c->timer, after_ms * NS_PER_MS);
}

/* --- what a client may not do too often --- */

static void dismiss(struct rpc_conn *c, uint32_t error, struct bytes why)
{
    int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);

    if (c->dismissed)
        return;
    c->dismissed = true;
    h2_must(nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, error, why.at, why.len));
    h2_must(nghttp2_session_terminate_session2(c->session, last, error));
    rpc_conn_touch(c);
}

static void refill_bucket(struct rpc_conn *c)
{
    uint64_t now_ns = clock_now_ns(c->rpc->clock);
    uint64_t gained = (now_ns - c->control_ns) / (NS_PER_S / RPC_CONTROL_FRAMES_PER_S);
    uint64_t room = RPC_CONTROL_FRAMES_MAX - c->control_frames;

    c->control_frames += gained < room ? gained : room;
    c->control_ns = now_ns;
}

void rpc_conn_count_control(struct rpc_conn *c, uint64_t count)
{
    if (c->control_frames < count)
        refill_bucket(c);
    if (c->control_frames < count && !c->dismissed) {
        log_warn(c->rpc->logger, "closing a connection that asks for too much",
                 LOG_STR("remote", c->info.remote));
        dismiss(c, NGHTTP2_ENHANCE_YOUR_CALM, BYTES("too many resets"));
    }
    c->control_frames -= count < c->control_frames ? count : c->control_frames;
}

/* gRPC's policy: a client that pings more often than agreed is sent away. Anything we had to say in
 * between makes up for it. */
static void pinged(struct rpc_conn *c)
{
    const struct rpc_options *o = &c->rpc->options;
    uint64_t now_ns = clock_now_ns(c->rpc->clock);
    uint64_t least_ms = c->call_count > 0 ? o->keepalive_min_ms : RPC_PING_IDLE_MS;
    bool early = c->last_ping_ns > 0 && now_ns < c->last_ping_ns + least_ms * NS_PER_MS;

    c->last_ping_ns = now_ns;
    if (c->spoke) {
        c->spoke = false;
        c->strikes = 0;
        return;
    }
    c->strikes += early;
    if (c->strikes > RPC_PING_STRIKES_MAX)
        dismiss(c, NGHTTP2_ENHANCE_YOUR_CALM, BYTES("too_many_pings"));
}

/* --- nghttp2's callbacks --- */

static struct call *call_of_stream(nghttp2_session *s, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(s, stream_id);
}

/* While all connections together have many fields, each has room for usual ones: nobody can take
 * that from the others. */
static bool has_budget_for_call(const struct rpc_conn *c)
{
    const struct rpc *r = c->rpc;
    unsigned rpcs = r->options.rpcs > 0 ? r->options.rpcs : 1;
    size_t kept_max = r->kept < RPC_FIELDS_BYTES_MAX / rpcs ? RPC_CONN_FIELDS_BYTES_MAX
                                                            : RPC_CONN_FIELDS_BYTES_LEAST;

    return c->call_count < RPC_CONN_CALLS_MAX && c->kept < kept_max &&
           c->queued < RPC_CONN_BYTES_MAX;
}

/*
 * nghttp2 passes over what comes for a stream that is not open, and over PRIORITY, which we have
 * told clients we do not heed. What cannot have been on its way when the stream ended is a breach
 * of the rules, and the connection ends.
 */
static int on_begin_frame(nghttp2_session *s, const nghttp2_frame_hd *head, void *context)
{
    struct rpc_conn *c = context;
    int32_t id = head->stream_id;

    if (head->type == NGHTTP2_PRIORITY && id == 0)
        dismiss(c, NGHTTP2_PROTOCOL_ERROR, BYTES("PRIORITY: stream_id == 0"));
    if (head->type == NGHTTP2_HEADERS && id % 2 == 1 && !stream_ids_open(&c->ids, id))
        dismiss(c, NGHTTP2_PROTOCOL_ERROR, BYTES("HEADERS: stream was skipped"));
    if ((head->type == NGHTTP2_DATA || head->type == NGHTTP2_HEADERS) && id > 0 &&
        !call_of_stream(s, id) && stream_ids_is_silent(&c->ids, id))
        dismiss(c, NGHTTP2_STREAM_CLOSED, BYTES("stream closed"));
    return 0;
}

static int on_begin_headers(nghttp2_session *s, const nghttp2_frame *f, void *context)
{
    struct rpc_conn *c = context;
    int32_t id = f->hd.stream_id;

    c->arriving = NULL;
    c->list_bytes = 0;
    if (f->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    if (!has_budget_for_call(c)) {
        h2_must(nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM));
        rpc_conn_count_control(c, 1);
        return 0;
    }
    c->arriving = rpc_call_new(c, false, id);
    h2_must(nghttp2_session_set_stream_user_data(s, id, c->arriving));
    return 0;
}

/* As Go's library has it, on request: it is no line of the log. But for tokens, which are nobody's
 * to read. */
static void show_field(struct bytes name, struct bytes value)
{
    struct buf line = {0};

    if (bytes_equal(name, BYTES("authorization")) || bytes_equal(name, BYTES("token")))
        value = BYTES("***");
    buf_append_str(&line, "http2: decoded hpack field header field ");
    text_append_quoted(&line, name);
    buf_append_str(&line, " = ");
    text_append_quoted(&line, value);
    fprintf(stderr, "%s\n", buf_str(&line));
    buf_free(&line);
}

/* The list has become longer than it may be: its request is refused, and no field looked at any
 * more. nghttp2 goes on unpacking them, so a list that does not end soon ends the connection. */
static int pass_over(struct rpc_conn *c, struct call *call)
{
    if (call && call == c->arriving)
        call->fields_too_large = true;
    else if (call)
        call->form.is_malformed = true; /* in trailers */
    if (c->list_bytes <= RPC_HEADER_BYTES_CUT)
        return 0;
    dismiss(c, NGHTTP2_ENHANCE_YOUR_CALM, BYTES("header list too large"));
    return NGHTTP2_ERR_PAUSE; /* what is left of the input is passed over */
}

static void look_at_field(struct rpc_conn *c, struct call *call, struct bytes name,
                          struct bytes value)
{
    if (c->rpc->options.shows_fields)
        show_field(name, value);
    if (!call || call->form.is_malformed)
        return;
    c->rpc->looked_bytes += name.len + value.len;
    if (call != c->arriving) {
        fields_add_trailer(&call->form, name, value);
        return;
    }
    fields_add(&call->form, name, value);
    rpc_call_field(call, name, value);
}

void rpc_conn_count_fields(struct rpc_conn *c, size_t bytes)
{
    c->fields_left -= bytes < c->fields_left ? bytes : c->fields_left;
}

/* A field in a table costs its sender one byte, and us what it stands for: so that is what counts,
 * before anything is done with it. The frames of a header block follow one another, so there is one
 * call at a time. */
static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *context)
{
    struct rpc_conn *c = context;
    struct call *call = c->arriving ? c->arriving : call_of_stream(s, f->hd.stream_id);
    size_t bytes = name_len + value_len + H2_FIELD_OVERHEAD_BYTES;

    (void)flags;
    c->list_bytes += bytes;
    rpc_conn_count_fields(c, bytes);
    if (c->list_bytes > RPC_HEADER_BYTES_MAX)
        return pass_over(c, call);
    look_at_field(c, call, bytes_of(name, name_len), bytes_of(value, value_len));
    return c->fields_left > 0 ? 0 : NGHTTP2_ERR_PAUSE;
}

static int on_data_chunk(nghttp2_session *s, uint8_t flags, int32_t stream_id, const uint8_t *at,
                         size_t len, void *context)
{
    struct rpc_conn *c = context;
    struct call *call = call_of_stream(s, stream_id);

    (void)flags;
    c->consumed += len;
    if (!call)
        return 0;
    fields_add_body(&call->form, len);
    if (call->form.is_malformed)
        rpc_call_refuse_malformed(call);
    else
        rpc_call_data(call, bytes_of(at, len));
    return 0;
}

static void final_goaway(struct rpc_conn *c)
{
    int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);

    h2_must(nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0));
    rpc_conn_touch(c);
}

static void got_ping(struct rpc_conn *c, const nghttp2_frame *f)
{
    if ((f->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
        pinged(c);
    } else if (c->alarm == ALARM_GRACE && timer_is_set(&c->timer)) {
        timer_stop(c->rpc->clock, &c->timer);
        final_goaway(c);
    }
}

/* A frame of a request is whole, and with END_STREAM the request. */
static void got_request(struct rpc_conn *c, struct call *call, bool is_headers, bool ends)
{
    bool begins = call == c->arriving;

    if (begins)
        fields_end(&call->form);
    else if (is_headers && !ends)
        call->form.is_malformed = true; /* trailers are the last */
    if (is_headers && !begins)
        rpc_conn_count_control(c, 1); /* no client of gRPC sends trailers */
    if (is_headers && c->list_bytes > RPC_HEADER_BYTES_MAX)
        rpc_conn_count_control(c, c->list_bytes / RPC_CONTROL_FRAME_FIELD_BYTES);
    if (ends)
        fields_end_body(&call->form);
    c->arriving = begins ? NULL : c->arriving;
    if (call->form.is_malformed) {
        rpc_call_refuse_malformed(call);
        return;
    }
    if (begins)
        rpc_call_fields_done(call);
    if (ends)
        rpc_call_remote_ended(call);
}

/* With each size of the windows that a client settles on, nghttp2 goes through all of its streams.
 */
static uint64_t cost_of_settings(const struct rpc_conn *c, const nghttp2_settings *settings)
{
    uint64_t windows = 0;

    for (size_t i = 0; i < settings->niv; i++)
        windows += settings->iv[i].settings_id == NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE;
    return windows * c->call_count / RPC_CONTROL_FRAME_STREAMS;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *context)
{
    struct rpc_conn *c = context;
    struct call *call;

    switch (f->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        call = call_of_stream(s, f->hd.stream_id);
        if (f->hd.type == NGHTTP2_DATA && f->hd.length == 0)
            rpc_conn_count_control(c, 1);
        if (call)
            got_request(c, call, f->hd.type == NGHTTP2_HEADERS,
                        f->hd.flags & NGHTTP2_FLAG_END_STREAM);
        break;
    case NGHTTP2_PING:
        got_ping(c, f);
        break;
    case NGHTTP2_RST_STREAM:
        stream_ids_silence(&c->ids, f->hd.stream_id);
        rpc_conn_count_control(c, 1);
        break;
    case NGHTTP2_PRIORITY:
        rpc_conn_count_control(c, 1);
        break;
    case NGHTTP2_SETTINGS:
        if ((f->hd.flags & NGHTTP2_FLAG_ACK) == 0)
            rpc_conn_count_control(c, 1 + cost_of_settings(c, &f->settings));
        break;
    default:
        break;
    }
    return 0;
}

static int on_frame_sent(nghttp2_session *s, const nghttp2_frame *f, void *context)
{
    struct rpc_conn *c = context;

    if (f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA)
        return 0;
    c->spoke = true;
    struct call *call =
        f->hd.flags & NGHTTP2_FLAG_END_STREAM ? call_of_stream(s, f->hd.stream_id) : NULL;
    if (call)
        rpc_call_sent_all(call);
    return 0;
}

static int on_send_data(nghttp2_session *s, nghttp2_frame *f, const uint8_t *frame_head, size_t len,
                        nghttp2_data_source *source, void *context)
{
    struct rpc_conn *c = context;

    (void)s;
    (void)f;
    c->spoke = true;
    rpc_call_put_data(source->ptr, frame_head, len);
    return h2_go_on(&c->wire);
}

static int on_stream_close(nghttp2_session *s, int32_t stream_id, uint32_t error, void *context)
{
    struct rpc_conn *c = context;
    struct call *call = call_of_stream(s, stream_id);

    (void)error;
    if (c->arriving == call)
        c->arriving = NULL;
    if (call && call->remote_ended)
        stream_ids_silence(&c->ids, stream_id);
    if (call)
        rpc_call_detach(call);
    return 0;
}

nghttp2_session_callbacks *rpc_conn_callbacks_new(void)
{
    nghttp2_session_callbacks *c = h2_callbacks_new();

    nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_sent);
    nghttp2_session_callbacks_set_send_data_callback(c, on_send_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
    return c;
}

/* --- bytes in --- */

static void balance_reading(struct rpc_conn *c);

/* What the session has not taken of the data, because the turn's work on fields is done, waits for
 * the next turn; so does the end of a header block of which all bytes were taken. Nothing more is
 * read meanwhile. */
static void put_off(struct rpc_conn *c, struct bytes rest)
{
    struct rpc *r = c->rpc;

    assert(c->unread.len == 0);
    buf_append(&c->unread, rest);
    list_push_back(&r->behind, &c->behind_link);
    rpc_next_turn(r);
    balance_reading(c);
}

/* Each connection gets a little in any case, and those that need more share the turn's. */
static size_t slice_of_fields(const struct rpc *r)
{
    const struct turn_work *t = &r->turn;
    size_t left = r->fields_left > t->conn_fields_least ? r->fields_left : t->conn_fields_least;

    return left < t->conn_fields_most ? left : t->conn_fields_most;
}

static void session_data(struct rpc_conn *c, struct bytes data)
{
    struct rpc *r = c->rpc;
    size_t slice = slice_of_fields(r);

    assert(list_empty(&c->behind_link));
    c->fields_left = slice;
    c->within_session = true;
    ssize_t taken = nghttp2_session_mem_recv(c->session, data.at, data.len);
    c->within_session = false;
    size_t used = slice - c->fields_left;
    r->fields_left -= used < r->fields_left ? used : r->fields_left;
    if (c->consumed > 0 && taken >= 0)
        h2_must(nghttp2_session_consume_connection(c->session, c->consumed));
    c->consumed = 0;
    if (taken < 0) {
        log_debug(c->rpc->logger, "closing a connection that broke the rules of HTTP/2",
                  LOG_STR("remote", c->info.remote),
                  LOG_STR("error", nghttp2_strerror((int)taken)));
        rpc_conn_cut(c, ERR_MALFORMED);
        return;
    }
    assert((size_t)taken == data.len || c->fields_left == 0 || c->dismissed);
    size_t left = data.len - (size_t)taken;
    if (c->fields_left == 0 && !c->dismissed)
        put_off(c, bytes_of(left > 0 ? data.at + taken : NULL, left));
    rpc_conn_touch(c);
}

void rpc_conn_go_on(struct rpc_conn *c)
{
    struct buf unread = c->unread;

    assert(list_empty(&c->behind_link));
    c->unread = (struct buf){0};
    session_data(c, buf_bytes(&unread));
    buf_free(&unread);
}

static void begin_session(struct rpc_conn *c)
{
    struct rpc *r = c->rpc;

    c->state = CONN_H2;
    c->session = h2_session_new(true, r->callbacks, r->h2_options, c);
    h2_greet(c->session,
             &(struct h2_greeting){.concurrent_streams_max = r->options.concurrent_streams_max,
                                   .header_bytes_max = RPC_HEADER_BYTES_MAX,
                                   .stream_window_bytes = RPC_STREAM_WINDOW_BYTES});
    rpc_conn_set_alarm(c, ALARM_KEEPALIVE, r->options.keepalive_interval_ms);
    session_data(c, bytes_of(NGHTTP2_CLIENT_MAGIC, H2_PREFACE_BYTES));
}

static void take_data(struct rpc_conn *c, struct bytes data);

/* HTTP/2 without TLS is gRPC's alone. */
static bool may_be_h2(const struct rpc_conn *c)
{
    return c->serves <= RPC_SERVES_GRPC || c->info.tls;
}

/* HTTP/2 begins with a request that HTTP/1.1 does not have: "PRI * HTTP/2.0". */
static void sniff(struct rpc_conn *c, struct bytes data)
{
    const uint8_t *preface = (const uint8_t *)NGHTTP2_CLIENT_MAGIC;
    size_t i = 0;

    while (i < data.len && c->preface_seen < H2_PREFACE_BYTES && may_be_h2(c) &&
           data.at[i] == preface[c->preface_seen]) {
        i++;
        c->preface_seen++;
    }
    if (c->preface_seen == H2_PREFACE_BYTES) {
        begin_session(c);
    } else if (i < data.len && c->serves == RPC_SERVES_GRPC) {
        rpc_conn_cut(c, ERR_MALFORMED); /* without a word, as gRPC's servers do */
        return;
    } else if (i < data.len) {
        c->state = CONN_PLAIN;
        rpc_plain_begin(c);
        rpc_plain_data(c, bytes_of(preface, c->preface_seen));
    } else {
        return;
    }
    take_data(c, bytes_of(data.at + i, data.len - i));
}

static void take_data(struct rpc_conn *c, struct bytes data)
{
    if (data.len == 0)
        return;
    switch (c->state) {
    case CONN_NEW:
        sniff(c, data);
        break;
    case CONN_H2:
        session_data(c, data);
        break;
    case CONN_PLAIN:
        rpc_plain_data(c, data);
        break;
    case CONN_LINGERING:
    case CONN_CLOSING:
    case CONN_CLOSED:
        break;
    }
}

static void on_data(struct conn *conn, struct bytes data)
{
    struct rpc_conn *c = conn_of(conn);

    c->heard = true;
    c->rpc->received_bytes += data.len;
    take_data(c, data);
}

static void on_end(struct conn *conn)
{
    struct rpc_conn *c = conn_of(conn);

    if (c->state == CONN_PLAIN)
        rpc_plain_end(c);
    else
        rpc_conn_cut(c, ERR_END);
}

/* --- bytes out --- */

void rpc_conn_touch(struct rpc_conn *c)
{
    if (c->state < CONN_LINGERING && list_empty(&c->dirty_link))
        list_push_back(&c->rpc->dirty, &c->dirty_link);
}

static void on_sent(struct wire *w, size_t bytes)
{
    struct rpc_conn *c = container_of(w, struct rpc_conn, wire);

    c->rpc->sent_bytes += bytes;
    if (c->state == CONN_PLAIN)
        rpc_plain_sent(c);
    rpc_conn_touch(c);
}

/* A client that does not take what we send is not listened to: it would only make more of it. Nor
 * is one that has sent more than a turn looks at. */
static void balance_reading(struct rpc_conn *c)
{
    bool blocked = wire_is_blocked(&c->wire) || !list_empty(&c->behind_link);

    if (blocked == c->paused || c->state != CONN_H2)
        return;
    c->paused = blocked;
    if (blocked)
        conn_pause(c->conn);
    else
        conn_resume(c->conn);
}

void rpc_conn_unpark(struct rpc_conn *c)
{
    if (c->unparking || c->state != CONN_H2)
        return;
    c->unparking = true;
    while (!list_empty(&c->parked) &&
           rpc_call_unpark(container_of(c->parked.next, struct call, parked_link)))
        ;
    c->unparking = false;
}

void rpc_conn_count_text(struct rpc_conn *c, size_t before, size_t after)
{
    assert(c->texts >= before);
    c->texts += after - before;
    rpc_budget_count_queued(c, before, after);
}

/* As many as may ask for a chunk at once: each brings more text, and the rest would wait again. */
static void relieve_crowd(struct rpc_conn *c)
{
    enum { AT_ONCE = RPC_CONN_WANTED_BYTES_MAX / GATEWAY_CHUNK_BYTES };

    if (!rpc_conn_has_budget_for_text(c)) {
        if (!list_empty(&c->crowded))
            rpc_budget_starve(c);
        return;
    }
    for (unsigned i = 0; i < AT_ONCE && !list_empty(&c->crowded); i++) {
        struct call *call = container_of(list_pop_front(&c->crowded), struct call, crowded_link);
        if (list_empty(&call->touched_link))
            list_push_back(&c->touched, &call->touched_link);
    }
}

static void give_back_credit(struct rpc_conn *c)
{
    if (list_empty(&c->withheld))
        return;
    if (!rpc_budget_allows(c, c->queued)) {
        rpc_budget_starve(c);
        return;
    }
    for (struct list *link; (link = list_pop_front(&c->withheld));)
        rpc_event_add(container_of(link, struct call, withheld_link), PENDING_SENT);
}

/* False: the session is broken. *more: there may be more, and the kernel would take it. */
static bool send_some(struct rpc_conn *c, size_t *taken, bool *more)
{
    c->within_session = true;
    bool sound = h2_gather(c->session, &c->wire);
    c->within_session = false;
    bool full = wire_is_full(&c->wire);
    *taken = send_gathered(c);
    *more = full && !wire_is_blocked(&c->wire);
    return sound;
}

/* Each connection gets one gathering in a turn; those that can take more share what is left. */
static bool send_while_taken(struct rpc_conn *c)
{
    size_t *extra = &c->rpc->extra_left;
    size_t taken;
    bool more;
    bool sound = send_some(c, &taken, &more);

    while (sound && more && *extra > 0) {
        sound = send_some(c, &taken, &more);
        *extra -= taken < *extra ? taken : *extra;
    }
    if (more)
        rpc_flush_again(c);
    return sound;
}

static void flush_session(struct rpc_conn *c)
{
    for (struct list *link; (link = list_pop_front(&c->touched));)
        rpc_call_submit(container_of(link, struct call, touched_link));
    if (!send_while_taken(c)) {
        rpc_conn_cut(c, ERR_MALFORMED);
        return;
    }
    give_back_credit(c);
    relieve_crowd(c);
    if (!list_empty(&c->touched) && rpc_conn_has_budget_for_body(c))
        rpc_flush_again(c); /* somebody had to wait for that */
    bool over = !nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session);
    if (over)
        rpc_conn_linger(c);
    else
        balance_reading(c);
}

static void flush_plain(struct rpc_conn *c)
{
    rpc_plain_flush(c);
    if (c->state != CONN_PLAIN)
        return;
    send_gathered(c);
    give_back_credit(c);
}

void rpc_conn_flush(struct rpc_conn *c)
{
    if (c->state == CONN_H2)
        flush_session(c);
    else if (c->state == CONN_PLAIN)
        flush_plain(c);
    else if (c->state < CONN_LINGERING)
        send_gathered(c);
    if (c->state == CONN_PLAIN)
        rpc_plain_sent(c);
}

/* --- time --- */

static void keepalive(struct rpc_conn *c)
{
    const struct rpc_options *o = &c->rpc->options;

    if (c->heard) {
        rpc_conn_set_alarm(c, ALARM_KEEPALIVE, o->keepalive_interval_ms);
        return;
    }
    h2_must(nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL));
    rpc_conn_touch(c);
    rpc_conn_set_alarm(c, ALARM_PONG, o->keepalive_timeout_ms);
}

static void on_alarm(struct timer *t)
{
    struct rpc_conn *c = container_of(t, struct rpc_conn, timer);

    switch (c->alarm) {
    case ALARM_HEAD:
        if (c->state == CONN_PLAIN)
            rpc_plain_timed_out(c);
        else
            rpc_conn_cut(c, ERR_TIMEOUT);
        break;
    case ALARM_KEEPALIVE:
        keepalive(c);
        break;
    case ALARM_PONG:
        if (c->heard)
            keepalive(c);
        else
            rpc_conn_cut(c, ERR_TIMEOUT);
        break;
    case ALARM_GRACE:
        final_goaway(c);
        break;
    case ALARM_LINGER:
        rpc_conn_cut(c, ERR_OK);
        break;
    }
}

/* First a warning, so that calls already on their way are still taken; when the client has seen it
 * (its answer to the ping tells), the end. */
void rpc_conn_stop(struct rpc_conn *c)
{
    switch (c->state) {
    case CONN_NEW:
        rpc_conn_cut(c, ERR_OK);
        break;
    case CONN_H2:
        h2_must(nghttp2_submit_shutdown_notice(c->session));
        h2_must(nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL));
        rpc_conn_set_alarm(c, ALARM_GRACE, RPC_GRACE_MS);
        rpc_conn_touch(c);
        break;
    case CONN_PLAIN:
        rpc_plain_stop(c);
        break;
    case CONN_LINGERING:
    case CONN_CLOSING:
    case CONN_CLOSED:
        break;
    }
}

/* --- invariants --- */

void rpc_conn_check(const struct rpc_conn *c)
{
    size_t calls = 0, backlog = 0, queued = 0, texts = 0, reserved = 0, granted = 0, wanted = 0,
           promised = 0, offered = 0, due = 0, busy = 0;

    LIST_FOREACH (link, &c->calls) {
        const struct call *call = container_of(link, struct call, link);

        rpc_call_check(call);
        assert(call->out != OUT_CLOSED);
        calls++;
        busy += call->is_busy;
        backlog += call->later.len - call->later_at;
        queued += call->queue.held;
        texts += call->web ? rpc_web_queued(call) : 0;
        texts += call->gateway ? rpc_gateway_queued(call) : 0;
        reserved += call->reserved;
        granted += call->granted;
        wanted += call->wanted;
        promised += call->promised;
        offered += call->is_offered ? call->promised : 0;
        due += call->due;
    }
    assert(calls == c->call_count);
    assert(busy == c->busy_calls);
    assert(c->refs >= calls);
    assert(backlog == c->backlog);
    assert(queued + texts == c->queued);
    assert(texts == c->texts);
    assert(granted == c->granted);
    assert(wanted == c->wanted);
    assert(promised <= c->promised);
    assert(offered == c->offered);
    assert(due == c->due);
    assert(due <= wanted);
    assert(reserved <= c->held); /* calls that are gone may hold some, too */
    assert(c->unpacked <= c->held);
    assert(list_empty(&c->packed) == list_empty(&c->packed_link));
    assert(!c->within_session);
    assert((c->session != NULL) == (c->state == CONN_H2));
    assert((c->plain != NULL) == (c->state == CONN_PLAIN));
    assert(c->queued == 0 || c->state == CONN_H2 || c->state == CONN_PLAIN);
    assert(list_empty(&c->behind_link) || c->state == CONN_H2);
    assert(list_empty(&c->behind_link) || c->paused);
    assert(c->unread.len == 0 || !list_empty(&c->behind_link));
}
