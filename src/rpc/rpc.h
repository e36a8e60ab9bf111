/*
 * rpc: gRPC for whoever serves it. Bytes in, calls out; replies in, bytes out.
 *
 * A connection is HTTP/2 or HTTP/1.1, told apart by its first bytes. On HTTP/2 every stream is a
 * gRPC call. What has happened to calls is an event that the turn takes; what the server answers is
 * queued on the call and leaves with rpc_flush, once per turn, as far as the client's windows
 * allow.
 *
 *     socket --> nghttp2 --> frames of gRPC --> rpc_take: OPENED, MESSAGE, ENDED, GONE, SENT,
 * WANTED rpc_send, rpc_finish --> queue of the call --> rpc_flush: nghttp2 --> one write each
 *
 * A unary call       MESSAGE ... rpc_send, rpc_finish                 (or GONE at any time before)
 * A streaming call   OPENED MESSAGE* ENDED ... rpc_send* rpc_finish   (or GONE)
 * A plain request    HTTP ... rpc_http_reply                          (or GONE)
 *
 * A message to send is a copy of some bytes (small answers), bytes and a shared blob (watch
 * events), or a body: its size is announced, and its bytes follow in chunks, each of them WANTED
 * when the window is open, so a reply of a gigabyte needs 64 KiB here. While a long reply is being
 * sent, short ones of other calls on the connection pass it.
 *
 * A streaming call begins with the credit that OPENED states. Whoever sends takes the
 * rpc_message_cost of each message from it, sends nothing while there is none left, and adds what
 * SENT brings.
 *
 * A call whose client is gone may still be answered, until GONE was taken: that is thrown away. An
 * rpc_finish is then the end, and no GONE follows, unless a body is not complete: then the call
 * goes on, as far as the body is concerned, until its last chunk or GONE.
 *
 * Promises   1. Every call that was announced by an event ends by exactly one of rpc_finish,
 *               rpc_http_reply, or an event GONE; after that, and the last chunk of a body, the
 *               pointer is dead (for GONE: after the next rpc_take).
 *            2. Messages of a call arrive in order. Nothing is announced after GONE.
 *            3. Memory is bounded: per call by what was received and not released and
 *               its credit of what is to be sent, per connection by RPC_CONN_BYTES_MAX of either
 *               (past which streams begin with the least credit, and get none back); a client
 *               that does not read stops being read, one that asks for more while it has too much
 *               is refused the stream. rpc_send is always accepted.
 *            4. Whatever bytes a client sends, only its own connection suffers. Rapid resets,
 *               settings and ping floods, endless continuations and header lists, huge length
 *               prefixes, absurd paths: refused, with a GOAWAY, RST_STREAM or gRPC status where the
 *               protocol has one.
 *            5. Deadlines (grpc-timeout) end a call with GONE, after the client was told 4,
 *               "context deadline exceeded" (or was reset, if a message was half sent).
 * Not here   What a call means, who may make it (api). TLS (io, a filter below).
 * Leans on   io/net.h and io/clock.h, nghttp2 (its one door), zlib for gzip'd messages.
 */
#pragma once

#include "base/arena.h"
#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/logger.h"
#include "io/net.h"

struct io;
struct rpc;      /* opaque */
struct rpc_conn; /* opaque */

enum {
    RPC_HEADER_BYTES_MAX = 64 * KIB, /* of one request */

    /* gRPC's own defaults, where the options say nothing. */
    RPC_PING_MIN_MS = 5 * 60 * 1000,
    RPC_PING_IDLE_MS = 2 * 60 * 60 * 1000, /* between pings on a connection without calls */
    RPC_KEEPALIVE_MS = 2 * 60 * 60 * 1000,
    RPC_PONG_MS = 20 * 1000,
};

/* gRPC's codes. */
enum rpc_code {
    RPC_OK,
    RPC_CANCELED,
    RPC_UNKNOWN,
    RPC_INVALID_ARGUMENT,
    RPC_DEADLINE_EXCEEDED,
    RPC_NOT_FOUND,
    RPC_ALREADY_EXISTS,
    RPC_PERMISSION_DENIED,
    RPC_RESOURCE_EXHAUSTED,
    RPC_FAILED_PRECONDITION,
    RPC_ABORTED,
    RPC_OUT_OF_RANGE,
    RPC_UNIMPLEMENTED,
    RPC_INTERNAL,
    RPC_UNAVAILABLE,
    RPC_DATA_LOSS,
    RPC_UNAUTHENTICATED,
};

/* One row of the table that the server is opened with. What is not in it is answered UNIMPLEMENTED
 * with gRPC's texts: "unknown service x", "unknown method y for service x". */
struct rpc_method {
    const char *service, *name; /* "etcdserverpb.KV", "Put" */
    bool client_streams, server_streams;
    unsigned id; /* the caller's */
};

enum rpc_kind { RPC_GRPC, RPC_HTTP1 };

/* A call under way. The fields before `context` are filled in by rpc and good until the end. */
struct rpc_call {
    enum rpc_kind kind;
    const struct rpc_method *method;
    struct rpc_conn *conn;
    const struct conn_info *peer;
    uint64_t deadline_ns; /* monotonic; 0: none */

    /* Metadata, lower-case names; empty where absent. */
    struct bytes token, authorization, client_api_version;
    bool has_leader; /* "hasleader: true" */
    bool client_api_version_is_utf8;
    bool through_gateway; /* "grpcgateway-accept" was there */

    void *context;      /* the caller's */
    struct arena arena; /* the caller's, reset at the end */
};

struct rpc_options {
    const struct io *io;
    const struct logger *logger;
    const struct rpc_method *methods; /* lent until rpc_close */
    size_t method_count;
    size_t message_bytes_max;        /* received; 0: RPC_MESSAGE_BYTES_DEFAULT */
    uint32_t concurrent_streams_max; /* 0: none announced, as etcd; our own bound still holds */
    uint64_t keepalive_min_ms;       /* clients may ping this often; etcd: 5 s; 0: gRPC's */
    uint64_t keepalive_interval_ms;  /* our pings, when nothing is heard; etcd: 2 h; 0: gRPC's */
    uint64_t keepalive_timeout_ms;   /* for their answer; etcd: 20 s */
    unsigned conns_max;              /* of all listeners; 0: as many as there are descriptors */
    uint64_t seed;                   /* for maps */
};

/* --- life --- */

struct rpc *rpc_open(const struct rpc_options *options);

/* Serves on this address, until rpc_stop. `bound` gets the port that was chosen for 0. There may be
 * several; past 32 it is ERR_TOO_LARGE. */
MUST_CHECK enum err rpc_listen(struct rpc *r, const struct net_address *a,
                               struct net_address *bound);

/* Graceful: no new connections or streams (GOAWAY), calls under way go on. rpc_is_idle tells when
 * all connections have ended; rpc_cut ends those that are left. */
void rpc_stop(struct rpc *r);
bool rpc_is_idle(const struct rpc *r);
void rpc_cut(struct rpc *r);

/* Frees everything as a crash does: connections, listeners and timers, which the simulator's world
 * has forgotten, are not touched. NULL is fine. */
void rpc_abandon(struct rpc *r);

/* It is idle, and every call has been answered or is GONE (asserted). NULL is fine. */
void rpc_close(struct rpc *r);

/* --- taking what has happened --- */

enum rpc_event_kind {
    RPC_OPENED,  /* a streaming call, with `bytes` of credit */
    RPC_MESSAGE, /* of a unary call it is the first event, and mostly the only one */
    RPC_ENDED,   /* the client sends no more */
    RPC_SENT,    /* messages that cost `bytes` have left, and are credit again */
    RPC_WANTED,  /* so many `bytes` of the body that is being sent, at most */
    RPC_HTTP,    /* a plain request */
    RPC_GONE,    /* there is nobody to be answered any more */
};

struct rpc_event {
    enum rpc_event_kind kind;
    struct rpc_call *call;
    size_t bytes;         /* OPENED, SENT, WANTED */
    struct bytes message; /* MESSAGE: lent until rpc_release or the end of the call */

    /* HTTP: as sent, not decoded; lent until the end of the call. */
    struct bytes verb, path, query, body;
};

/* The next event, false when there is none for now. */
bool rpc_take(struct rpc *r, struct rpc_event *out);

/* Would rpc_take say true? (rpc_flush, too, brings events about: SENT and WANTED.) */
bool rpc_has_events(const struct rpc *r);

/* The last message of this streaming call has been dealt with; the client may send more. (Unary
 * messages stay until the end of the call.) */
void rpc_release(struct rpc_call *c);

/* --- answering --- */

/* One message each. Not after rpc_finish (asserted). */
void rpc_send(struct rpc_call *c, struct bytes message);
void rpc_send_shared(struct rpc_call *c, struct bytes prefix, struct blob *rest); /* takes a ref */

/* What such a message of so many bytes takes from the credit. */
static inline size_t rpc_message_cost(size_t len)
{
    return RPC_MESSAGE_OVERHEAD_BYTES + len;
}

/* One message of so many bytes (at most 4 GiB - 1), at the cost of an empty one. */
void rpc_announce(struct rpc_call *c, uint64_t total_bytes);

/* The next bytes of the oldest body that is not complete, once for each WANTED and never more of
 * them. None at all: they are wanted again in the next turn. Takes the buffer over. The last chunk
 * after rpc_finish ends the call. */
void rpc_chunk(struct rpc_call *c, struct buf *chunk);

/* Instead of a chunk: the rest will not come. The stream is reset, since the size was promised, and
 * the call is over. */
void rpc_break(struct rpc_call *c);

/* Trailers: the end. text is copied; percent-encoded as gRPC wants. */
void rpc_finish(struct rpc_call *c, enum rpc_code code, struct bytes text);

/* A field of a plain request, by its name in whatever case: empty if absent, or when the client is
 * gone. */
struct bytes rpc_http_field(const struct rpc_call *c, const char *name);

/* One more field for the answer, before rpc_http_reply. Well-formed (asserted). */
void rpc_http_set(struct rpc_call *c, const char *name, struct bytes value);

/* Answers a plain request. `type` such as "application/json", or NULL; connection kept as the
 * client asked. A 405 says "Allow: GET", and errors forbid to guess their type. */
void rpc_http_reply(struct rpc_call *c, unsigned status, const char *type, struct bytes body);

/* Hands everything queued to the sockets. Once per turn. */
void rpc_flush(struct rpc *r);

struct rpc_status {
    size_t conns, calls;
    uint64_t received_bytes, sent_bytes;
};
struct rpc_status rpc_status(const struct rpc *r);

void rpc_check(const struct rpc *r);
