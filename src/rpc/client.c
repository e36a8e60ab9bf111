#include "rpc/client.h"

#include "base/assert.h"
#include "base/gzip.h"
#include "base/text.h"
#include "io/clock.h"
#include "io/io.h"
#include "rpc/call_state.h"
#include "rpc/grpc_text.h"
#include "rpc/h2.h"

enum {
    MESSAGE_BYTES_DEFAULT = INT32_MAX,
    METADATA_MAX = 32,
    STATUS_TEXT_MAX = 16 * KIB,
};

struct one_call {
    struct client_call pub;
    struct list link;
    struct list ready_link;
    int32_t stream_id;
    enum call_life life; /* TOLD, GONE: its status is known; OVER: nobody wants to know */
    enum call_in in;
    enum call_out out;

    struct message_reader reader;
    struct buf later; /* what came behind a message that was not taken */
    size_t later_at, unconsumed;
    bool gzip_in;

    struct message_queue queue;
    bool gzip_out;
    bool ended; /* client_end was called */

    bool is_code_read; /* from a header block of which the rest may still come */
    bool has_code;
    enum rpc_code code;
    unsigned http_status;
    struct buf text;
    struct timer timer;
};

struct client {
    struct client_options options;
    struct clock *clock;
    struct conn *conn; /* NULL when it is gone */
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *h2_options;
    nghttp2_session *session;
    struct wire_pool pool;
    struct wire wire;
    struct gzip *gzip;
    struct message_pool spares;
    struct list calls;     /* all of them */
    struct list ready;     /* those with events */
    struct one_call *told; /* by the last client_take */
    bool told_message;
    bool open_pending, gone_pending, closed, within_session;
    enum err reason;
    size_t consumed;
};

static struct one_call *call_of(struct client_call *pub)
{
    return (struct one_call *)(void *)pub;
}

/* --- the end of a call --- */

static void call_free(struct one_call *c)
{
    struct client *client = c->pub.client;

    assert(c->out == OUT_CLOSED);
    timer_stop(client->clock, &c->timer);
    if (client->told == c)
        client->told = NULL;
    list_remove(&c->link);
    list_remove(&c->ready_link);
    message_queue_clear(&c->queue);
    message_reader_free(&c->reader);
    buf_free(&c->later);
    buf_free(&c->text);
    mem_free(c);
}

static void make_ready(struct one_call *c)
{
    if (list_empty(&c->ready_link) && c->life != LIFE_OVER)
        list_push_back(&c->pub.client->ready, &c->ready_link);
}

static void set_status(struct one_call *c, enum rpc_code code, struct bytes text)
{
    if (c->has_code)
        return;
    c->has_code = true;
    c->code = code;
    buf_clear(&c->text);
    buf_append(&c->text, text);
}

/* Nothing more will come: what is behind messages that were not taken waits for them. */
static void call_over(struct one_call *c)
{
    if (c->life == LIFE_TOLD)
        c->life = LIFE_GONE;
    message_queue_clear(&c->queue);
    timer_stop(c->pub.client->clock, &c->timer);
    make_ready(c);
}

static enum rpc_code code_of_http(unsigned status)
{
    switch (status) {
    case 400:
        return RPC_INTERNAL;
    case 401:
        return RPC_UNAUTHENTICATED;
    case 403:
        return RPC_PERMISSION_DENIED;
    case 404:
        return RPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return RPC_UNAVAILABLE;
    default:
        return RPC_UNKNOWN;
    }
}

static enum rpc_code code_of_reset(uint32_t error)
{
    switch (error) {
    case NGHTTP2_REFUSED_STREAM:
        return RPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return RPC_CANCELED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return RPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return RPC_PERMISSION_DENIED;
    default:
        return RPC_INTERNAL;
    }
}

static void reset(struct one_call *c, uint32_t error)
{
    if (c->out != OUT_CLOSED)
        h2_must(nghttp2_submit_rst_stream(c->pub.client->session, NGHTTP2_FLAG_NONE, c->stream_id,
                                          error));
}

static void fail(struct one_call *c, enum rpc_code code, struct bytes text)
{
    set_status(c, code, text);
    reset(c, NGHTTP2_CANCEL);
    c->in = IN_DONE;
    call_over(c);
}

static void on_deadline(struct timer *t)
{
    fail(container_of(t, struct one_call, timer), RPC_DEADLINE_EXCEEDED,
         BYTES("context deadline exceeded"));
}

/* --- answers --- */

static void consume(struct one_call *c, size_t count)
{
    c->unconsumed += count;
    if (c->unconsumed < RPC_CONSUME_STEP_BYTES || c->out == OUT_CLOSED)
        return;
    h2_must(nghttp2_session_consume_stream(c->pub.client->session, c->stream_id, c->unconsumed));
    c->unconsumed = 0;
}

static struct gzip *gzip_of(struct client *c)
{
    if (!c->gzip)
        c->gzip = gzip_new();
    return c->gzip;
}

static void message_whole(struct one_call *c)
{
    struct client *client = c->pub.client;

    if (message_flag(&c->reader) != 0) {
        struct buf plain = {0};
        enum err e = c->gzip_in ? gzip_unpack(gzip_of(client), buf_bytes(&c->reader.content),
                                              client->options.message_bytes_max, &plain)
                                : ERR_UNSUPPORTED;
        if (e != ERR_OK) {
            buf_free(&plain);
            fail(c, RPC_INTERNAL, bytes_of_str(err_text(e)));
            return;
        }
        buf_free(&c->reader.content);
        c->reader.content = plain;
    }
    c->in = IN_WHOLE;
    make_ready(c);
}

static void read_messages(struct one_call *c, struct bytes *in)
{
    while (c->in == IN_READING) {
        size_t before = in->len;
        enum message_step step = message_read(&c->reader, in);

        consume(c, before - in->len);
        if (step == MESSAGE_MORE)
            return;
        if (step == MESSAGE_WHOLE) {
            message_whole(c);
            return;
        }
        if (message_length(&c->reader) > c->pub.client->options.message_bytes_max) {
            fail(c, RPC_RESOURCE_EXHAUSTED, BYTES("received message larger than max"));
            in->len = 0;
            return;
        }
    }
}

static void read_later(struct one_call *c)
{
    struct bytes in = buf_bytes(&c->later);

    if (in.len > 0)
        in = bytes_of(in.at + c->later_at, in.len - c->later_at);
    read_messages(c, &in);
    c->later_at = c->later.len - in.len;
    if (in.len == 0) {
        buf_clear(&c->later);
        c->later_at = 0;
    }
}

static void take_data(struct one_call *c, struct bytes data)
{
    if (c->life != LIFE_TOLD)
        return;
    if (c->later.len == c->later_at)
        read_messages(c, &data);
    if (c->later_at > c->later.len / 2) {
        buf_drop_front(&c->later, c->later_at);
        c->later_at = 0;
    }
    if (c->life == LIFE_TOLD)
        buf_append(&c->later, data);
}

static void take_field(struct one_call *c, struct bytes name, struct bytes value)
{
    uint64_t number;

    if (bytes_equal(name, BYTES("grpc-status"))) {
        bool known = text_read_number(value, RPC_UNAUTHENTICATED, &number) == ERR_OK;
        c->code = known ? (enum rpc_code)number : RPC_UNKNOWN;
        c->is_code_read = true;
    } else if (bytes_equal(name, BYTES("grpc-message")) && value.len <= STATUS_TEXT_MAX) {
        buf_clear(&c->text);
        grpc_percent_decode(value, &c->text);
    } else if (bytes_equal(name, BYTES("grpc-encoding"))) {
        c->gzip_in = bytes_equal(value, BYTES("gzip"));
    } else if (bytes_equal(name, BYTES(":status")) &&
               text_read_number(value, 999, &number) == ERR_OK) {
        c->http_status = (unsigned)number;
    }
}

/* --- nghttp2's callbacks --- */

static struct one_call *call_of_stream(nghttp2_session *s, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(s, stream_id);
}

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *context)
{
    struct one_call *c = call_of_stream(s, f->hd.stream_id);

    (void)flags;
    (void)context;
    if (c && c->life == LIFE_TOLD)
        take_field(c, bytes_of(name, name_len), bytes_of(value, value_len));
    return 0;
}

/* Of a block that was cut off with its connection some fields may be read already; without the
 * others, a status and no text, they would be something that nobody has said. */
static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *context)
{
    struct one_call *c = f->hd.type == NGHTTP2_HEADERS ? call_of_stream(s, f->hd.stream_id) : NULL;

    (void)context;
    if (c && c->is_code_read)
        c->has_code = true;
    return 0;
}

static int on_data_chunk(nghttp2_session *s, uint8_t flags, int32_t stream_id, const uint8_t *at,
                         size_t len, void *context)
{
    struct client *client = context;
    struct one_call *c = call_of_stream(s, stream_id);

    (void)flags;
    client->consumed += len;
    if (c)
        take_data(c, bytes_of(at, len));
    return 0;
}

static int on_stream_close(nghttp2_session *s, int32_t stream_id, uint32_t error, void *context)
{
    struct one_call *c = call_of_stream(s, stream_id);

    (void)context;
    if (!c)
        return 0;
    c->out = OUT_CLOSED;
    if (c->life == LIFE_OVER) {
        call_free(c);
        return 0;
    }
    if (error != NGHTTP2_NO_ERROR)
        set_status(c, code_of_reset(error), BYTES("stream terminated by RST_STREAM"));
    else if (c->http_status != 200)
        set_status(c, code_of_http(c->http_status), BYTES("unexpected HTTP status"));
    else
        set_status(c, RPC_INTERNAL, BYTES("the server sent no status"));
    call_over(c);
    return 0;
}

static int on_send_data(nghttp2_session *s, nghttp2_frame *f, const uint8_t *frame_head, size_t len,
                        nghttp2_data_source *source, void *context)
{
    struct client *client = context;
    struct one_call *c = source->ptr;

    (void)s;
    (void)f;
    h2_put_data(&client->wire, frame_head, &c->queue, len);
    return h2_go_on(&client->wire);
}

static ssize_t read_data(nghttp2_session *s, int32_t stream_id, uint8_t *at, size_t max,
                         uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct one_call *c = source->ptr;

    (void)s;
    (void)stream_id;
    (void)at;
    (void)context;
    size_t ready = message_queue_ready(&c->queue, max);
    if (ready == 0 && !c->ended) {
        c->out = OUT_DEFERRED;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (c->ended && ready == c->queue.left) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        c->out = OUT_ENDED;
    }
    return (ssize_t)ready;
}

static nghttp2_session_callbacks *callbacks_new(void)
{
    nghttp2_session_callbacks *c = h2_callbacks_new();

    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(c, on_send_data);
    return c;
}

/* --- the connection --- */

static void end_calls(struct client *c, struct bytes why)
{
    LIST_FOREACH (link, &c->calls) {
        struct one_call *call = container_of(link, struct one_call, link);

        call->out = OUT_CLOSED;
        if (call->life == LIFE_OVER) {
            call_free(call);
            continue;
        }
        if (call->life == LIFE_TOLD) {
            set_status(call, RPC_UNAVAILABLE, why);
            call_over(call);
        }
    }
}

static void client_free(struct client *c)
{
    while (!list_empty(&c->calls)) {
        struct one_call *call = container_of(c->calls.next, struct one_call, link);
        call->out = OUT_CLOSED;
        call_free(call);
    }
    if (c->session)
        nghttp2_session_del(c->session);
    nghttp2_session_callbacks_del(c->callbacks);
    nghttp2_option_del(c->h2_options);
    wire_drop(&c->wire);
    wire_pool_free(&c->pool);
    gzip_free(c->gzip);
    message_pool_free(&c->spares);
    mem_free(c);
}

static void on_open(struct conn *conn)
{
    struct client *c = conn->context;

    c->open_pending = !c->closed;
}

static void on_data(struct conn *conn, struct bytes data)
{
    struct client *c = conn->context;

    if (c->closed)
        return;
    c->within_session = true;
    ssize_t taken = nghttp2_session_mem_recv(c->session, data.at, data.len);
    c->within_session = false;
    if (taken >= 0 && c->consumed > 0)
        h2_must(nghttp2_session_consume_connection(c->session, c->consumed));
    c->consumed = 0;
    bool over = !nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session);
    if (taken < 0 || over)
        conn_close(conn, taken < 0 ? ERR_MALFORMED : ERR_END);
}

static void on_end(struct conn *conn)
{
    conn_close(conn, ERR_END);
}

static void on_closed(struct conn *conn, enum err reason)
{
    struct client *c = conn->context;

    c->conn = NULL;
    if (c->closed) {
        client_free(c);
        return;
    }
    c->gone_pending = true;
    c->reason = reason;
    end_calls(c, bytes_of_str(err_text(reason)));
}

static void on_sent(struct wire *w, size_t bytes)
{
    (void)w;
    (void)bytes;
}

struct client *client_open(const struct client_options *options)
{
    static const struct conn_handlers handlers = {on_open, on_data, on_end, on_closed};
    struct client *c = mem_new(struct client);

    c->options = *options;
    if (c->options.message_bytes_max == 0)
        c->options.message_bytes_max = MESSAGE_BYTES_DEFAULT;
    c->clock = options->io->clock;
    c->callbacks = callbacks_new();
    c->h2_options = h2_options_new();
    c->session = h2_session_new(false, c->callbacks, c->h2_options, c);
    h2_greet(c->session, &(struct h2_greeting){.header_bytes_max = RPC_CLIENT_FIELDS_BYTES_MAX,
                                               .stream_window_bytes = RPC_CLIENT_WINDOW_BYTES});
    list_init(&c->calls);
    list_init(&c->ready);
    wire_pool_init(&c->pool);
    c->conn = net_connect(options->net ? options->net : options->io->net, &options->address,
                          &handlers, c);
    c->wire = (struct wire){.pool = &c->pool, .conn = c->conn, .on_sent = on_sent};
    return c;
}

void client_close(struct client *c)
{
    assert(!c->within_session);
    assert(!c->closed);
    c->closed = true;
    LIST_FOREACH (link, &c->calls) {
        struct one_call *call = container_of(link, struct one_call, link);
        call->out = OUT_CLOSED;
        call_free(call);
    }
    if (c->conn)
        conn_close(c->conn, ERR_OK);
    else
        client_free(c);
}

struct conn *client_conn(struct client *c)
{
    return c->conn;
}

/* --- calls --- */

static size_t request_fields(const struct one_call *c, const struct client_request *r,
                             nghttp2_nv *out, char timeout[static GRPC_TIMEOUT_TEXT_MAX],
                             char authority[static NET_TEXT_MAX])
{
    const struct client_options *o = &c->pub.client->options;
    size_t count = 0;

    if (!o->authority)
        net_address_text(&o->address, authority);
    struct bytes name = bytes_of_str(o->authority ? o->authority : authority);
    if (!o->authority && o->address.family == NET_UNIX)
        name = BYTES("localhost");
    out[count++] = h2_field(BYTES(":method"), BYTES("POST"));
    out[count++] = h2_field(BYTES(":scheme"), BYTES("http"));
    out[count++] = h2_field_copied(BYTES(":path"), bytes_of_str(r->path));
    out[count++] = h2_field_copied(BYTES(":authority"), name);
    out[count++] = h2_field(BYTES("content-type"), BYTES("application/grpc"));
    out[count++] = h2_field(BYTES("te"), BYTES("trailers"));
    if (r->timeout_ns > 0)
        out[count++] = h2_field_copied(BYTES("grpc-timeout"),
                                       bytes_of_str(grpc_timeout_text(r->timeout_ns, timeout)));
    if (r->gzip)
        out[count++] = h2_field(BYTES("grpc-encoding"), BYTES("gzip"));
    assert(r->metadata_count <= METADATA_MAX);
    for (size_t i = 0; i < r->metadata_count; i++) {
        out[count] = h2_field_copied(bytes_of_str(r->metadata[i].name), r->metadata[i].value);
        out[count++].flags = NGHTTP2_NV_FLAG_NONE;
    }
    return count;
}

struct client_call *client_start(struct client *client, const struct client_request *request)
{
    struct one_call *c = mem_new(struct one_call);
    nghttp2_data_provider provider = {.source.ptr = c, .read_callback = read_data};
    nghttp2_nv fields[METADATA_MAX + 8];
    char timeout[GRPC_TIMEOUT_TEXT_MAX], authority[NET_TEXT_MAX];

    c->pub = (struct client_call){.client = client, .context = request->context};
    c->life = LIFE_TOLD;
    c->out = OUT_CLOSED; /* until there is a stream */
    c->gzip_out = request->gzip;
    c->timer.on_time = on_deadline;
    list_init(&c->link);
    list_init(&c->ready_link);
    message_queue_init(&c->queue, &client->spares);
    list_push_back(&client->calls, &c->link);
    size_t count = request_fields(c, request, fields, timeout, authority);
    int32_t id = client->conn
                     ? nghttp2_submit_request(client->session, NULL, fields, count, &provider, c)
                     : -1;
    if (id < 0) { /* no connection, or it has used up its stream ids */
        set_status(c, RPC_UNAVAILABLE, BYTES("no connection"));
        call_over(c);
        return &c->pub;
    }
    c->stream_id = id;
    c->out = OUT_FLOWING;
    if (request->timeout_ns > 0)
        timer_start(client->clock, &c->timer, request->timeout_ns);
    return &c->pub;
}

/* nghttp2 asked for bytes when there were none: tells it that there are. */
static void wake(struct one_call *c)
{
    if (c->out != OUT_DEFERRED)
        return;
    c->out = OUT_FLOWING;
    h2_must(nghttp2_session_resume_data(c->pub.client->session, c->stream_id));
}

void client_send(struct client_call *pub, struct bytes message)
{
    struct one_call *c = call_of(pub);
    struct client *client = pub->client;

    assert(!c->ended);
    if (c->life != LIFE_TOLD)
        return;
    struct buf wire = {0};
    if (c->gzip_out) {
        gzip_pack(gzip_of(client), message, &wire);
        message_queue_add_packed(&c->queue, &wire, message.len);
    } else {
        buf_append(&wire, message);
        message_queue_add(&c->queue, &wire, NULL);
    }
    wake(c);
}

void client_end(struct client_call *pub)
{
    struct one_call *c = call_of(pub);

    assert(!c->ended);
    c->ended = true;
    wake(c);
}

struct client_call *client_ask(struct client *c, const struct client_request *request,
                               struct bytes message)
{
    struct client_call *call = client_start(c, request);

    client_send(call, message);
    client_end(call);
    return call;
}

size_t client_queued(const struct client_call *pub)
{
    return (size_t)((const struct one_call *)(const void *)pub)->queue.left;
}

void client_cancel(struct client_call *pub)
{
    struct one_call *c = call_of(pub);

    if (c->out == OUT_CLOSED) {
        call_free(c);
        return;
    }
    if (pub->client->told == c)
        pub->client->told = NULL;
    c->life = LIFE_OVER;
    list_remove(&c->ready_link);
    reset(c, NGHTTP2_CANCEL);
    call_over(c);
}

/* --- events --- */

/* What the last client_take lent is taken back. */
static void settle(struct client *c)
{
    struct one_call *call = c->told;

    c->told = NULL;
    if (!call)
        return;
    if (!c->told_message) {
        call->life = LIFE_OVER;
        if (call->out == OUT_CLOSED) /* else the reset is on its way */
            call_free(call);
        return;
    }
    if (call->in == IN_LENT)
        call->in = IN_READING;
    message_next(&call->reader);
    read_later(call);
    if (call->life == LIFE_GONE)
        make_ready(call);
}

bool client_take(struct client *c, struct client_event *out)
{
    settle(c);
    *out = (struct client_event){0};
    if (c->open_pending) {
        c->open_pending = false;
        out->kind = CLIENT_OPEN;
        return true;
    }
    struct list *link = list_pop_front(&c->ready);
    if (!link) {
        bool gone = c->gone_pending;
        c->gone_pending = false;
        *out = (struct client_event){.kind = CLIENT_GONE, .reason = c->reason};
        return gone;
    }
    struct one_call *call = container_of(link, struct one_call, ready_link);
    c->told = call;
    c->told_message = call->in == IN_WHOLE;
    out->call = &call->pub;
    if (call->in == IN_WHOLE) {
        call->in = IN_LENT;
        out->kind = CLIENT_MESSAGE;
        out->message = buf_bytes(&call->reader.content);
    } else {
        out->kind = CLIENT_STATUS;
        out->code = call->code;
        out->text = buf_bytes(&call->text);
    }
    return true;
}

void client_flush(struct client *c)
{
    if (!c->conn || c->closed)
        return;
    bool sound = true;
    for (bool more = true; sound && more;) {
        c->within_session = true;
        sound = h2_gather(c->session, &c->wire);
        c->within_session = false;
        bool full = wire_is_full(&c->wire);
        wire_send(&c->wire);
        more = full && !wire_is_blocked(&c->wire);
    }
    bool over = !nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session);
    if (!sound || over)
        conn_close(c->conn, sound ? ERR_END : ERR_MALFORMED);
}
