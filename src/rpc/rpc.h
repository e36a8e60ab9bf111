/*
 * rpc: gRPC for whoever serves it. Bytes in, calls out; replies in, bytes out.
 *
 * A connection is HTTP/2 or HTTP/1.1, told apart by its first bytes. On HTTP/2 every stream is a
 * gRPC call, or where it is by TLS perhaps a plain request as on HTTP/1.1. What has happened to
 * calls goes to the core as values on a line (line.h, which tells the whole conversation); what the
 * core answers comes back on it, is queued on the call, and leaves with rpc_flush, once per turn,
 * as far as the client's windows allow.
 *
 * A plain request that the gateway knows (gateway/gateway.h) is a call, too: its body becomes
 * messages, and what is queued becomes JSON when it is sent.
 *
 *     socket --> nghttp2 --> frames of gRPC --> rpc_deliver: the line's events
 *     the line's replies --> rpc_flush: queue of the call --> nghttp2 --> one write each
 *
 * A message to send is some bytes (small answers), bytes and a shared blob (watch events), or a
 * body, of which no more than 64 KiB is here at a time. While a long reply is being sent, short
 * ones of other calls on the connection pass it.
 *
 * Promises   1. Every call that was announced by an event ends by exactly one of FINISH (and the
 *               last chunk of a body), BREAK, a reply by HTTP, or an event GONE.
 *            2. Messages of a call arrive in order. Nothing is announced after GONE.
 *            3. Memory is bounded: per call by what was received and not released and its credit of
 *               what is to be sent, per connection by RPC_CONN_BYTES_MAX of either (past which
 *               streams begin with next to no credit, and get none back, and responses in JSON on
 *               HTTP/2 wait until text of others has left), and over all connections by
 *               RPC_REPLIES_BYTES_MAX, of which a connection takes half of what is left, or up to
 *               all of that while it owes next to nothing; and RPC_ALWAYS_BYTES_MAX for each
 *               connection beyond it. What a reply may take is charged before it is made, and its
 *               call waits for that (budget.c). A client that does not read stops being read, one
 *               that asks for more while it has too much is refused the stream, and one whose
 *               requests the core has not dealt with waits for its windows.
 *            4. Whatever bytes a client sends, only its own connection suffers. Rapid resets,
 *               settings and ping floods, endless continuations and header lists, huge length
 *               prefixes, absurd paths: refused, with a GOAWAY, RST_STREAM or gRPC status where the
 *               protocol has one.
 *            5. Deadlines (grpc-timeout) end a call with GONE, after the client was told 4,
 *               "context deadline exceeded" (or was reset, if a message was half sent).
 *            6. Work is bounded as memory is: what header fields stand for and what messages
 *               unpack to is counted before anything is done with it. A turn does so much of either
 *               for each connection and for all of them; the rest waits for the next.
 * Not here   What a call means, who may make it (api). TLS: a net to listen by (io/tls.h), whose
 *            names of the client the first event of each call passes on.
 * Leans on   io/net.h and io/clock.h, http, gateway, nghttp2 (its one door), zlib for gzip'd
 *            messages.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "base/logger.h"
#include "io/net.h"
#include "rpc/line.h"

#include <stdatomic.h>

struct io;
struct rpc; /* opaque */

struct rpc_names {
    const struct bytes *at;
    size_t count;
};

struct rpc_options {
    const struct io *io;
    struct rpc_line *line; /* outlives rpc */
    unsigned nth, rpcs;    /* of several, on a thread each: which (line.h); 0, 0: the only one */
    const struct logger *logger;
    const struct rpc_method *methods; /* lent until rpc_close */
    size_t method_count;
    size_t message_bytes_max;        /* received; 0: RPC_MESSAGE_BYTES_DEFAULT */
    uint32_t concurrent_streams_max; /* 0, UINT32_MAX: none announced; our own bound still holds */
    uint64_t keepalive_min_ms;       /* clients may ping this often; etcd: 5 s; 0: gRPC's */
    uint64_t keepalive_interval_ms;  /* our pings, when nothing is heard; etcd: 2 h; 0: gRPC's */
    uint64_t keepalive_timeout_ms;   /* for their answer; etcd: 20 s */
    bool has_gateway;                /* JSON at /v3/ (gateway/gateway.h) */
    bool has_origins;                /* browsers are told whose pages may ask: */
    struct rpc_names origins;        /* none, or one of them "*": all */
    struct rpc_names hosts;          /* as what plain requests without TLS may know us; the same */
    unsigned conns_max;              /* of all listeners; 0: as many as there are descriptors */
    uint64_t seed;                   /* for maps */
    bool reuse_port;                 /* other processes may listen there, too */
    bool shows_fields; /* of requests on HTTP/2, on standard error, for whoever seeks a fault */

    /* Lent until rpc_close; NULL: never. While it is true the name in a client's certificate is a
     * user's, but not through the gateway: there, whoever has one is refused. */
    const atomic_bool *names_are_users;
};

/* --- life --- */

struct rpc *rpc_open(const struct rpc_options *options);

/* What somebody who connects may ask for. */
enum rpc_serves {
    RPC_SERVES_ALL,
    RPC_SERVES_GRPC,
    RPC_SERVES_HTTP,   /* plain requests alone */
    RPC_SERVES_PROBES, /* the same, few, and in a lane of their own */
};

/* Where to serve. */
struct rpc_place {
    struct net_address address;
    enum rpc_serves serves;
    struct net *net; /* to listen by; NULL: io's own */
};

/* Serves there, until rpc_stop. `bound` gets the port that was chosen for 0. There may be several;
 * past 32 it is ERR_TOO_LARGE. */
MUST_CHECK enum err rpc_listen(struct rpc *r, const struct rpc_place *place,
                               struct net_address *bound);

/* Graceful: no new connections or streams (GOAWAY), calls under way go on. rpc_is_idle tells when
 * all connections have ended; rpc_cut ends those that are left. */
void rpc_stop(struct rpc *r);
bool rpc_is_idle(const struct rpc *r);
void rpc_cut(struct rpc *r);

/* Frees everything as a crash does: connections, listeners and timers, which the simulator's world
 * has forgotten, are not touched. NULL is fine. */
void rpc_abandon(struct rpc *r);

/* It is idle (asserted). Nobody is told of calls that are gone. NULL is fine. */
void rpc_close(struct rpc *r);

/* --- the turn --- */

/* Puts what has happened on the line, as far as it has budget. */
void rpc_deliver(struct rpc *r);

/* Would rpc_deliver do something? (rpc_flush, too, brings events about: SENT and WANTED.) */
bool rpc_has_events(const struct rpc *r);

/* Takes replies from the line, and hands everything queued to the sockets. Once per turn. */
void rpc_flush(struct rpc *r);

struct rpc_status {
    size_t conns, calls;
    uint64_t received_bytes, sent_bytes;
    size_t owed_bytes;    /* of replies, queued or promised (budget.c) */
    size_t waiting_conns; /* that have calls which wait for budget */
};
struct rpc_status rpc_status(const struct rpc *r);

void rpc_check(const struct rpc *r);
