/*
 * line: what passes between rpc and whoever serves its calls, the core. Values, in two directions.
 *
 *     rpc --> CALLS: OPENED, MESSAGE, ENDED, HTTP, RESERVED, GONE --> core
 *         --> FLOW:  SENT, WANTED                                 -->
 *         --> PROBES: HTTP, RESERVED, GONE                        -->
 *         <-- RESERVE, SEND, ANNOUNCE, CHUNK, BREAK, RELEASE, FINISH, HTTP <-- core
 *
 * Neither side has a pointer into the other, nor calls it: a call is a number, its place and a
 * generation, so that the next call in that place has another one; and bytes belong to whoever
 * takes the value they are in. So each side may be at a different point in the story. The core may
 * answer a call that has ended: rpc drops what names a dead number. And the core drops what comes
 * for a call that it has finished.
 *
 * A unary call       MESSAGE ... SEND or ANNOUNCE, FINISH              (or GONE at any time before)
 * A streaming call   OPENED MESSAGE* ENDED ... SEND* FINISH            (or GONE)
 * A plain request    HTTP ... HTTP                                     (or GONE)
 *
 * Credit     A stream begins with the credit that OPENED states, which is never none. The core
 *            takes the rpc_message_cost of each message from it, sends nothing while none is left,
 *            and adds what SENT brings.
 * A body     is announced by its size; each time that some of it is WANTED the core gives a CHUNK
 *            of no more than that, of the oldest body that is not complete. An empty one means that
 *            it wants to be asked again. BREAK instead: the rest will not come, and the stream is
 *            reset. A call that was finished with a body incomplete lives on, as far as the body is
 *            concerned, until the last chunk or GONE.
 * Reserve    What a reply takes in memory until its client has read it is charged before it is
 *            made: a call begins with its method's reply_bytes; for one that takes more the core
 *            asks by RESERVE, and makes it when RESERVED has come. That may take as long as other
 *            clients do not read theirs.
 * Release    The next MESSAGE of a stream comes when the last one was released. Of a call that has
 *            only one, the core may release that while it waits for something else: what it keeps
 *            of the message goes on counting against the call's connection, and the rest does not.
 *
 * Promises   1. In each lane, values are taken in the order in which they were put. FLOW passes
 *               CALLS, so that who is not allowed to ask for more is still sent what he is due;
               and so do PROBES, the requests at places that are for nothing else.
 *            2. Of one call the core hears first OPENED, HTTP or, if it is unary, MESSAGE; nothing
 *               after GONE.
 *            3. At most RPC_LINE_EVENTS_MAX values wait for the core in each lane, and, but for the
 *               last message, RPC_LINE_EVENT_BYTES_MAX bytes: the rest waits in rpc, and its
 *               sockets feel it. While RPC_LINE_REPLIES_MAX values or RPC_LINE_REPLY_BYTES_MAX
 *               bytes wait for rpc (rpc_line_has_reply_budget), the core begins nothing that could
 *               bring more: it takes no event, applies nothing, reads nothing. Beyond that there is
 *               what it has begun, no more than the credit of a stream; and the ends of calls
 *               that it gives up, one for each. rpc takes replies always.
 *            4. With a delay, as in the simulator, each value is held back for some turns.
 *
 * A line may be cut in two: the core's end, and on each of some threads the end of an rpc there.
 *
 *     thread   rpc --> its end:       put_event | pack --+      +--> unpack | take_reply
 *     core     the end of all of them: put_reply | pack ---)--+ +--> unpack | take_event --> api
 *
 * Each end is of one thread, and as simple as the whole. At the end of a turn it is packed: all
 * that was put is in one batch, which somebody carries to the other end. So it takes at most one
 * wake-up per turn and direction, and no lock. The bounds are those of
 * promise 3 for each rpc: who puts counts what it has sent and not heard to be taken; a batch says
 * what was, also by itself when that has come to a quarter of a bound. Replies find the end of
 * their rpc by the number of the call, whose lowest bits say which it is (rpc_line_bits).
 *
 * Leans on   base.
 */
#pragma once

#include "base/blob.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/rng.h"

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

/* One row of the table of methods that both sides know. What is not in it is answered UNIMPLEMENTED
 * with gRPC's texts: "unknown service x", "unknown method y for service x". */
struct rpc_method {
    const char *service, *name; /* "etcdserverpb.KV", "Put" */
    bool client_streams, server_streams;
    unsigned id;          /* the core's */
    uint32_t reply_bytes; /* charged to its connection as long as it is not answered to the end */
};

/* --- towards the core --- */

enum rpc_event_kind {
    RPC_OPENED,   /* a streaming call, with `bytes` of credit */
    RPC_MESSAGE,  /* of a unary call it is the first event, and mostly the only one */
    RPC_ENDED,    /* the client sends no more */
    RPC_SENT,     /* messages that cost `bytes` have left, and are credit again */
    RPC_WANTED,   /* so many `bytes` of the body that is being sent, at most */
    RPC_HTTP,     /* a plain request */
    RPC_GONE,     /* there is nobody to be answered any more */
    RPC_RESERVED, /* what was asked for by RESERVE is there */
};

/* Some of the content of an event. */
struct rpc_span {
    uint32_t at, len;
};

struct rpc_event {
    enum rpc_event_kind kind;
    bool is_first; /* of its call: OPENED, HTTP, or the MESSAGE of a unary one */
    uint64_t call;
    uint64_t conn;           /* the number of its connection, and of no other */
    uint64_t bytes;          /* OPENED, SENT, WANTED */
    struct buf content;      /* what the spans are of */
    struct rpc_span message; /* MESSAGE; of HTTP the body */

    /* The first event; spans are empty where there was nothing. */
    bool has_leader; /* "hasleader: true" */
    bool client_api_version_is_utf8;
    bool through_gateway;              /* it came in JSON, or with "grpcgateway-accept" */
    bool is_probe;                     /* it came by the lane of PROBES */
    bool has_certificate;              /* the client's was verified */
    bool has_token, has_authorization; /* one came, be it empty */
    unsigned method;                   /* its row's id */
    uint64_t deadline_ns;              /* monotonic; 0: none */
    struct rpc_span remote;            /* "10.0.0.1:4711" */
    struct rpc_span cn;                /* of the client's certificate, if it was verified */
    struct rpc_span authorization;
    union {
        struct {
            struct rpc_span token, client_api_version;
        };
        struct { /* HTTP: as sent, not decoded */
            struct rpc_span verb, path, query, fields;
        };
    };
};

static inline struct bytes rpc_event_bytes(const struct rpc_event *e, struct rpc_span s)
{
    return s.len > 0 ? bytes_of(e->content.at + s.at, s.len) : bytes_of(NULL, 0);
}

/* A field of a plain request, by its name in whatever case: empty if absent. */
struct bytes rpc_event_field(const struct rpc_event *e, const char *name);
/* The next value of that name in lines of fields, and the lines behind it; false: there is none. */
bool rpc_next_field(struct bytes *lines, const char *name, struct bytes *value);

/* --- towards rpc --- */

enum rpc_reply_kind {
    RPC_REPLY_SEND,     /* one message: the content, and behind it what `rest` has */
    RPC_REPLY_ANNOUNCE, /* one message of so many `bytes`, at most 4 GiB - 1, at an empty one's cost
                         */
    RPC_REPLY_CHUNK,
    RPC_REPLY_BREAK,
    RPC_REPLY_RELEASE,
    RPC_REPLY_RESERVE, /* so many `bytes` for the reply, in all; a call may ask again */
    RPC_REPLY_FINISH,  /* trailers: the code and, in the content, its text */
    RPC_REPLY_HTTP, /* to a plain request: the status in `code`; lines of fields, then the body */
};

struct rpc_reply {
    enum rpc_reply_kind kind;
    uint16_t code;
    bool ends; /* SEND: it is the only one, and FINISH with OK */
    uint64_t call;
    uint64_t bytes;     /* ANNOUNCE, RESERVE; RELEASE: of the message, those that are kept; HTTP: of
                         * the content, those that are fields */
    struct buf content; /* the taker's */
    struct blob *rest;  /* a reference, the taker's; or NULL */
    const char *type;   /* HTTP: static data, such as "application/json"; or NULL */
};

/* --- the line --- */

struct rpc_line; /* opaque */

enum rpc_lane { RPC_LANE_CALLS, RPC_LANE_FLOW, RPC_LANE_PROBES, RPC_LANE_COUNT };

enum rpc_line_end { RPC_LINE_WHOLE, RPC_LINE_OF_RPC, RPC_LINE_OF_CORE };

struct rpc_line_options {
    unsigned delay_turns_max; /* 0: none */
    uint64_t seed;            /* of the delay */
    enum rpc_line_end end;
    unsigned rpcs; /* OF_CORE: how many there are */
};

struct rpc_line *rpc_line_open(const struct rpc_line_options *options);
void rpc_line_close(struct rpc_line *l); /* with whatever is in it; NULL is fine */

/* Time passes for what is held back. */
void rpc_line_turn(struct rpc_line *l);
/* Nothing is under way in either direction? */
bool rpc_line_is_empty(const struct rpc_line *l);

/* For rpc. An event may be put while its lane has budget (asserted). */
bool rpc_line_has_budget(const struct rpc_line *l, enum rpc_lane lane);
void rpc_line_put_event(struct rpc_line *l, enum rpc_lane lane, const struct rpc_event *e);
bool rpc_line_take_reply(struct rpc_line *l, struct rpc_reply *out);

/* For the core. Something may be there that cannot be taken yet. It asks for budget before it does
 * what may bring replies. */
bool rpc_line_has_events(const struct rpc_line *l, enum rpc_lane lane);
bool rpc_line_take_event(struct rpc_line *l, enum rpc_lane lane, struct rpc_event *out);
bool rpc_line_has_replies(const struct rpc_line *l);
bool rpc_line_has_reply_budget(const struct rpc_line *l);
void rpc_line_put_reply(struct rpc_line *l, const struct rpc_reply *r);

struct rpc_line_status {
    size_t events[RPC_LANE_COUNT], event_bytes; /* that wait; by lane */
    size_t replies, reply_bytes;
    size_t replies_most, reply_bytes_most; /* that have ever waited */
};
struct rpc_line_status rpc_line_status(const struct rpc_line *l);

/* --- its ends --- */

/* So many of the lowest bits of a call's number say which rpc it is of. */
static inline unsigned rpc_line_bits(unsigned rpcs)
{
    return rpcs < 2 ? 0 : 32 - (unsigned)__builtin_clz(rpcs - 1);
}

struct rpc_batch; /* opaque: what one end has for the other, and what it took meanwhile */

/* Takes all that was put, for the nth rpc; of an rpc's end 0. NULL: there is nothing to be said. */
struct rpc_batch *rpc_line_pack(struct rpc_line *l, unsigned nth);

/* Takes it over. */
void rpc_line_unpack(struct rpc_line *l, unsigned nth, struct rpc_batch *b);

/* The nth rpc has gone: what was put for it is freed, and nobody waits for it to take anything. */
void rpc_line_drop(struct rpc_line *l, unsigned nth);

/* What such a message of so many bytes takes from the credit of its stream. */
static inline size_t rpc_message_cost(size_t len)
{
    return RPC_MESSAGE_OVERHEAD_BYTES + len;
}

/* Shorter words for the core. Buffers are taken over, and empty afterwards. */
void rpc_line_send(struct rpc_line *l, uint64_t call, struct buf *message);
void rpc_line_send_last(struct rpc_line *l, uint64_t call, struct buf *message); /* and finishes */
void rpc_line_send_shared(struct rpc_line *l, uint64_t call, struct buf *prefix, struct blob *rest);
void rpc_line_announce(struct rpc_line *l, uint64_t call, uint64_t total_bytes);
void rpc_line_chunk(struct rpc_line *l, uint64_t call, struct buf *chunk);
void rpc_line_break(struct rpc_line *l, uint64_t call);
void rpc_line_release(struct rpc_line *l, uint64_t call);
void rpc_line_release_but(struct rpc_line *l, uint64_t call, uint64_t kept_bytes);
void rpc_line_reserve(struct rpc_line *l, uint64_t call, uint64_t bytes);
void rpc_line_finish(struct rpc_line *l, uint64_t call, enum rpc_code code, struct bytes text);
void rpc_line_http_reply(struct rpc_line *l, uint64_t call, unsigned status, const char *type,
                         struct bytes body);
/* The same with header fields of its own: lines of "name:value", each with a line feed. */
void rpc_line_http_reply_with(struct rpc_line *l, uint64_t call, unsigned status, const char *type,
                              struct bytes fields, struct bytes body);
