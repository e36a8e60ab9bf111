/*
 * Watch: requests to the hub, the hub's messages to streams.
 *
 * Memory behind a client that does not read is bounded twice. A stream has credit for so many
 * bytes, which messages use up from when the hub queues them until rpc says that they have left.
 * The hub has the one counter, since it decides who waits. And as long as there is no credit, no
 * further request of that client is read.
 */
#include "api/api_int.h"

static void opened(struct call *c)
{
    struct api *a = api_of(c);

    size_t credit = c->credit < WATCH_CREDIT_BYTES ? (size_t)c->credit : WATCH_CREDIT_BYTES;

    assert(c->credit > 0);
    c->watching.stream = watch_stream_open(a->o.watch, c, credit, a->facts->now_ms);
}

static void released(struct call *c)
{
    struct watching *w = &c->watching;

    if (!w->stream)
        return; /* refused before it was opened */
    watch_stream_close(w->stream);
    w->stream = NULL;
}

static void release_if_credit(struct call *c)
{
    struct watching *w = &c->watching;

    w->is_held = watch_stream_credit(w->stream) == 0;
    if (!w->is_held)
        rpc_line_release(api_line_of(api_of(c), c->base.rpc), c->base.rpc);
}

/* A watcher that is denied ends, and no other of its stream. These are etcd's words for it, and it
 * has none for other reasons. */
static const char *refusal_of(struct call *c, const struct pb_watch_create_request *create)
{
    switch (api_call_decide(c, create)) {
    case RESULT_OK:
        return NULL;
    case RESULT_AUTH_INVALID_TOKEN:
        return "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
    case RESULT_AUTH_OLD_REVISION:
        return "rpc error: code = InvalidArgument desc = etcdserver: revision of auth store is old";
    case RESULT_AUTH_USER_EMPTY:
        return "rpc error: code = InvalidArgument desc = etcdserver: user name is empty";
    default:
        return "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
    }
}

static void run_watch(struct call *c, const void *request)
{
    const struct pb_watch_request *r = request;
    struct watch_stream *stream = c->watching.stream;

    switch (r->which) {
    case PB_WATCH_CREATE:
        watch_create(stream, r->create, refusal_of(c, r->create), api_of(c)->facts->now_ms);
        break;
    case PB_WATCH_CANCEL:
        watch_cancel(stream, r->cancel->watch_id);
        break;
    case PB_WATCH_PROGRESS:
        watch_request_progress(stream);
        break;
    case PB_WATCH_NONE:
        break; /* nothing was asked */
    }
    release_if_credit(c);
}

static void sent(struct call *c, size_t bytes)
{
    const struct watching *w = &c->watching;

    watch_sent(w->stream, bytes);
    if (w->is_held)
        release_if_credit(c);
}

/* --- messages --- */

/* Everything but the events, which are the last field of a WatchResponse. */
static struct buf encode_front(struct api *a, const struct watch_message *m)
{
    struct pb_response_header header = api_header_of(a, m->revision);
    struct pb_watch_response response = {
        .header = &header,
        .watch_id = m->watch_id,
        .created = m->created,
        .canceled = m->canceled,
        .compact_revision = m->compact_revision,
        .cancel_reason = m->cancel_reason ? bytes_of_str(m->cancel_reason) : bytes_of(NULL, 0),
        .fragment = m->fragment,
    };

    struct buf out = buf_pool_take(&a->bufs);
    pb_encode_watch_response(&response, &out);
    return out;
}

static void send_message(struct api *a, struct watch_message *m)
{
    struct call *c = watch_stream_context(m->stream);
    struct buf front = encode_front(a, m);

    assert(c->is_authorized);
    if (m->long_events && watch_long_bytes(m->long_events) > API_REPLY_BYTES_MAX - front.len) {
        uint64_t bytes = watch_long_bytes(m->long_events) + front.len;
        watch_long_end(m->long_events);
        buf_pool_give(&a->bufs, &front);
        api_call_finish_too_large(c, bytes);
        return;
    }
    if (m->long_events) { /* which may be tiny: the last fragment of a huge revision */
        watch_costs_more(m->stream, rpc_message_cost(0));
        api_body_send_long(c, &front, m->long_events, m->bytes);
        return;
    }
    size_t cost = rpc_message_cost(front.len + blob_bytes(m->events).len);
    assert(cost >= m->bytes);
    watch_costs_more(m->stream, cost - m->bytes);
    api_count_sent(c, front.len + blob_bytes(m->events).len);
    rpc_line_send_shared(api_line_of(a, c->base.rpc), c->base.rpc, &front, m->events);
    blob_unref(m->events);
}

/*
 * etcd measures how long it takes to hand a message to gRPC, which may block. Here it never does,
 * and a clock read twice for each message would cost more than the message: so what is counted is
 * how many there were, each as having taken no time.
 */
static void count_message(struct api_stats *s, const struct watch_message *m)
{
    if (m->event_count > 0) {
        histogram_observe(&s->watch_events, HISTOGRAM_1MS_14, 0);
        histogram_observe(&s->watch_per_event, HISTOGRAM_1MS_14, 0);
    } else if (m->created || m->canceled) {
        histogram_observe(&s->watch_controls, HISTOGRAM_1MS_14, 0);
    } else {
        histogram_observe(&s->watch_progress, HISTOGRAM_1MS_14, 0);
    }
}

bool api_watch_send_some(struct api *a, unsigned steps)
{
    struct watch_message m;

    for (unsigned i = 0; i < steps && api_can_reply(a); i++) {
        if (!watch_take(a->o.watch, &m))
            return true;
        count_message(&a->stats, &m);
        send_message(a, &m);
    }
    return false;
}

/* The client may close its side and go on listening; only going away ends the stream. */
const struct handler api_watch_watch = {
    .schema = &pb_watch_request_schema,
    .opened = opened,
    .run = run_watch,
    .sent = sent,
    .released = released,
};
