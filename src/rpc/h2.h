/*
 * h2: what the server's and the client's sessions of nghttp2 have in common.
 *
 * nghttp2 decides about HTTP/2 and does no IO: bytes go in by nghttp2_session_mem_recv, come out by
 * nghttp2_session_mem_send. Here are its memory (ours, which aborts when there is none), its limits
 * against floods, and the way of its bytes to the wire.
 *
 * nghttp2's own limit on resets is off: it reads the machine's clock, which a simulated server must
 * not. The server counts them itself (conn.c).
 */
#pragma once

#include "base/bytes.h"
#include "http/wire.h"
#include "rpc/message.h"

#include <nghttp2/nghttp2.h>

enum {
    H2_FRAME_HEAD_BYTES = 9,
    H2_FIELD_OVERHEAD_BYTES = 32, /* of a field in a header list, beside its name and value */
    H2_PREFACE_BYTES = NGHTTP2_CLIENT_MAGIC_LEN,
};

/* With windows that are opened by hand. The caller ends it with nghttp2_option_del. */
nghttp2_option *h2_options_new(void);

nghttp2_session_callbacks *h2_callbacks_new(void);

/* Never fails. */
nghttp2_session *h2_session_new(bool server, const nghttp2_session_callbacks *callbacks,
                                const nghttp2_option *options, void *context);

struct h2_greeting {
    uint32_t concurrent_streams_max; /* 0 or UINT32_MAX, unlimited: not announced */
    uint32_t header_bytes_max;
    uint32_t stream_window_bytes;
};

/* Sends the first SETTINGS and opens the connection's window. */
void h2_greet(nghttp2_session *s, const struct h2_greeting *greeting);

/* Moves what the session wants sent to the wire until that is full. False: the session is broken.
 */
bool h2_gather(nghttp2_session *s, struct wire *w);

/* For nghttp2's send_data callback: a frame of so many bytes from the queue to the wire. */
void h2_put_data(struct wire *w, const uint8_t *frame_head, struct message_queue *q, size_t count);

/* What that callback then returns. nghttp2 goes from one DATA frame to the next by itself, and has
 * to be stopped there when the wire is full. */
static inline int h2_go_on(struct wire *w)
{
    return wire_is_full(w) ? NGHTTP2_ERR_PAUSE : 0;
}

/* Header fields that outlive the call, and such whose value does not. */
static inline nghttp2_nv h2_field(struct bytes name, struct bytes value)
{
    return (nghttp2_nv){(uint8_t *)name.at, (uint8_t *)value.at, name.len, value.len,
                        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

static inline nghttp2_nv h2_field_copied(struct bytes name, struct bytes value)
{
    return (nghttp2_nv){(uint8_t *)name.at, (uint8_t *)value.at, name.len, value.len,
                        NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

/* Asserts that a call of nghttp2 went well which can only fail without memory. */
void h2_must(int result);
