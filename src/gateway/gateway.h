/*
 * gateway: etcd's calls in JSON, for those who do not speak gRPC.
 *
 * A POST to /v3/kv/range with a RangeRequest in JSON is the call etcdserverpb.KV/Range, and its
 * response, in JSON, is the answer. This room says which path is which call, and turns what one
 * side says into what the other understands, both ways as bytes come; nothing is called from here.
 * rpc opens the call that the route names, as if somebody had called it over gRPC, so that whatever
 * a call means, may do or is refused with is the same, and is written nowhere twice.
 *
 *     body, JSON --gateway_in--> messages, protobuf --> a call of rpc --> the core
 *     text, JSON <--gateway_out-- frames of gRPC <-- its queue of messages <--
 *
 * A stream of requests is one JSON text behind the other; of responses, each is a line,
 * {"result":{...}}, and the last one may be {"error":{...}}.
 *
 *     json_scan    where a JSON text ends, and whether it is one      json_read    what it says
 *     json_write   messages in JSON      websocket    frames of a WebSocket
 *
 * Promises   1. Whatever bytes a client sends, they are safe to read; memory is a multiple of one
 *               request's text.
 *            2. A long text is read in as many parts as the caller likes.
 *            3. Of a response no more is held than the chunk that is being turned into text.
 *            4. What grpc-gateway accepts, refuses, leaves out and says, so does this, as etcd has
 *               set it up; white space and the escapes in strings aside.
 * Not here   HTTP, connections, credit (rpc). Who may (api).
 * Leans on   pb's tables, base; io's hash.
 */
#pragma once

#include "gateway/json_scan.h"
#include "gateway/json_write.h"

struct json_reader;

enum gateway_kind {
    GATEWAY_UNARY,
    GATEWAY_SERVER_STREAMS, /* one request, many responses */
    GATEWAY_BOTH_STREAM,
};

struct gateway_route {
    const char *path;   /* "/v3/kv/range" */
    const char *method; /* "/etcdserverpb.KV/Range" */
    const struct pb_schema *request, *response;
    enum gateway_kind kind;
};

/* Every one that etcd has. */
extern const struct gateway_route gateway_routes[];
extern const size_t gateway_route_count;

/* Is it the gateway's at all? */
bool gateway_has_path(struct bytes path);

/* NULL: there is none. */
const struct gateway_route *gateway_route_find(struct bytes path);

/* --- in --- */

/* All zeroes is ready. */
struct gateway_in {
    struct json_scan scan;
    struct buf body;            /* what was added, and not dropped yet */
    size_t used;                /* of it: texts that were taken */
    size_t scanned;             /* of it: those, and what was seen of the next one */
    bool has_ended;             /* no more will be added */
    struct json_reader *reader; /* a text that was begun with, and is long; or NULL */
};

enum gateway_in_result {
    GATEWAY_MORE,    /* none is whole */
    GATEWAY_MESSAGE, /* appended to `out` */
    GATEWAY_END,     /* there is none left, and none will come */
    GATEWAY_BAD,     /* the next one is none, as `why` says; nothing behind it is looked at */
    GATEWAY_LONG,    /* there is more to do than was allowed */
};

void gateway_in_free(struct gateway_in *in);
void gateway_in_add(struct gateway_in *in, struct bytes piece);
void gateway_in_end(struct gateway_in *in);
enum gateway_in_result gateway_in_next(struct gateway_in *in, const struct pb_schema *schema,
                                       struct buf *out, struct buf *why);

/* The same, but of a long text no more than about *work bytes, which are taken from it; NULL: a
 * text of more than GATEWAY_AT_ONCE_BYTES is not begun with. */
enum gateway_in_result gateway_in_next_some(struct gateway_in *in, const struct pb_schema *schema,
                                            size_t *work, struct buf *out, struct buf *why);

/* --- out --- */

enum { GATEWAY_FRAME_HEAD_BYTES = 5 }; /* of gRPC: a flag and the message's length */

/* All zeroes is ready. */
struct gateway_out {
    struct json_write json;
    uint8_t head[GATEWAY_FRAME_HEAD_BYTES];
    uint8_t head_len;
    uint32_t left;  /* of the message */
    bool is_within; /* it */
};

void gateway_out_free(struct gateway_out *o);

/* The next bytes of what the call sends, framed as on a stream of gRPC and not compressed. Appends
 * their text; a stream's messages are lines. */
void gateway_out_put(struct gateway_out *o, const struct gateway_route *route, struct bytes framed,
                     struct buf *out);

/* --- errors --- */

/* The HTTP status for one of gRPC's. */
unsigned gateway_http_status(unsigned code);

/* {"code":5,"message":"Not Found"}; in a stream, a line of its own in {"error":...}. */
void gateway_write_error(unsigned code, struct bytes message, bool in_stream, struct buf *out);
