#include "rpc/h2.h"

#include "base/assert.h"

static void *allocate(size_t size, void *context)
{
    (void)context;
    return mem_resize(NULL, size, 1);
}

static void *allocate_zeroed(size_t count, size_t size, void *context)
{
    (void)context;
    return mem_alloc_array(count, size);
}

static void *resize(void *at, size_t size, void *context)
{
    (void)context;
    return mem_resize(at, size, 1);
}

static void release(void *at, void *context)
{
    (void)context;
    mem_free(at);
}

static nghttp2_mem memory = {
    .malloc = allocate, .free = release, .calloc = allocate_zeroed, .realloc = resize};

void h2_must(int result)
{
    assert(result == 0);
}

nghttp2_option *h2_options_new(void)
{
    nghttp2_option *o;

    h2_must(nghttp2_option_new(&o));
    nghttp2_option_set_no_auto_window_update(o, 1);
    nghttp2_option_set_no_closed_streams(o, 1);
    nghttp2_option_set_max_outbound_ack(o, H2_ACKS_QUEUED_MAX);
    nghttp2_option_set_max_settings(o, H2_SETTINGS_MAX);
    nghttp2_option_set_max_continuations(o, H2_CONTINUATIONS_MAX);
    nghttp2_option_set_stream_reset_rate_limit(o, UINT64_MAX, UINT64_MAX);
    return o;
}

nghttp2_session_callbacks *h2_callbacks_new(void)
{
    nghttp2_session_callbacks *c;

    h2_must(nghttp2_session_callbacks_new(&c));
    return c;
}

nghttp2_session *h2_session_new(bool server, const nghttp2_session_callbacks *callbacks,
                                const nghttp2_option *options, void *context)
{
    nghttp2_session *s;

    h2_must(server ? nghttp2_session_server_new3(&s, callbacks, context, options, &memory)
                   : nghttp2_session_client_new3(&s, callbacks, context, options, &memory));
    return s;
}

void h2_greet(nghttp2_session *s, const struct h2_greeting *greeting)
{
    nghttp2_settings_entry entries[4];
    size_t count = 0;

    if (greeting->concurrent_streams_max > 0 && greeting->concurrent_streams_max < UINT32_MAX)
        entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                                                    greeting->concurrent_streams_max};
    entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                                greeting->stream_window_bytes};
    entries[count++] =
        (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, greeting->header_bytes_max};
    /* The tree of dependencies is work that a client can make for us and nobody uses. */
    entries[count++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1};
    h2_must(nghttp2_submit_settings(s, NGHTTP2_FLAG_NONE, entries, count));
    h2_must(nghttp2_session_set_local_window_size(s, NGHTTP2_FLAG_NONE, 0, H2_CONN_WINDOW_BYTES));
}

bool h2_gather(nghttp2_session *s, struct wire *w)
{
    while (!wire_is_full(w)) {
        const uint8_t *at;
        ssize_t len = nghttp2_session_mem_send(s, &at);

        if (len < 0)
            return false;
        if (len == 0)
            return true;
        buf_append(wire_buf(w), bytes_of(at, (size_t)len));
    }
    return true;
}

void h2_put_data(struct wire *w, const uint8_t *frame_head, struct message_queue *q, size_t count)
{
    struct buf *out = wire_buf(w);

    buf_append(out, bytes_of(frame_head, H2_FRAME_HEAD_BYTES));
    message_queue_move(q, count, out);
}
