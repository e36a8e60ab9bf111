/*
 * rpc_int: what the files of the server share.
 *
 *     rpc.c     the server: listening, taking events, flushing, stopping
 *     conn.c    one connection: which protocol it speaks, its session, budgets, pings, its end
 *     call.c    one call: its life, the messages it gets, its end
 *     call_fields.c   from the header fields of a request to a method, or a refusal
 *     fields.h, stream_ids.h   does the client keep to the rules of HTTP/2?
 *     unpack.c  messages that came packed: one at a time, so much in a turn
 *     call_reply.c    what the core answers, and how nghttp2 gets it
 *     budget.c  what replies take in memory, and who waits for that
 *     plain.c   HTTP/1.1 on a connection
 *     gateway_call.c  a call in JSON, over HTTP/1.1, HTTP/2 or a WebSocket
 *     web.c     plain requests on HTTP/2
 *     policy.c  which browsers may make either
 *
 *     struct rpc --< rpc_conn --< call
 *                       |  |
 *                       |  +-- session (HTTP/2) or plain (HTTP/1.1)
 *                       +-- wire
 *
 * A conn outlives its socket while calls refer to it.
 *
 * A call has two lives, and is freed when both are over: as a stream of the connection (call_out),
 * and (call_life) towards the core, from its first event until FINISH or GONE.
 */
#pragma once

#include "base/gzip.h"
#include "base/map.h"
#include "http/http.h"
#include "http/wire.h"
#include "io/clock.h"
#include "io/io.h"
#include "rpc/call_state.h"
#include "rpc/fields.h"
#include "rpc/h2.h"
#include "rpc/message.h"
#include "rpc/rpc.h"
#include "rpc/stream_ids.h"

enum { PLAIN_BODY_FACTOR = 2 }; /* JSON is about this much longer than the message it stands for */

/* Events that wait to be taken, in the order they are told. */
enum {
    PENDING_OPENED = 1 << 0,
    PENDING_MESSAGE = 1 << 1,
    PENDING_ENDED = 1 << 2,
    PENDING_SENT = 1 << 3,
    PENDING_WANTED = 1 << 4,
    PENDING_HTTP = 1 << 5,
    PENDING_GONE = 1 << 6, /* alone */
    PENDING_RESERVED = 1 << 7,
    PENDING_FLOW = PENDING_SENT | PENDING_WANTED,
    PENDING_ALL = 0xff,
};

/* What a turn does at most: the bounds in limits.h. Tests set less, to see it stop everywhere. */
struct turn_work {
    size_t fields, conn_fields_most, conn_fields_least, unpacked, read;
};

/*
 * Calls that are over, and the slots that nobody has. A slot is used again as soon as GONE is on
 * the line, and the core must hear that before it hears of the next call there. So requests at
 * places for probes, whose lane passes the other, have slots of their own.
 */
struct spare_calls {
    struct list calls;
    size_t count;
    uint32_t free_slot; /* the first that is in use by nobody, plus one */
};

/* Where connections come in. */
struct door {
    struct rpc *rpc;
    struct listener *listener;
    enum rpc_serves serves;
};

struct rpc {
    struct rpc_options options;
    struct rpc_line *line;
    const struct logger *logger;
    struct clock *clock;
    struct conn_limit conn_limit, probe_limit;
    struct door doors[RPC_LISTENERS_MAX];
    size_t door_count;
    bool stopping, is_abandoned;

    struct map methods; /* "/service/name" to struct known_method */
    struct known_method *known;
    const struct known_method *found_last;

    nghttp2_session_callbacks *callbacks;
    nghttp2_option *h2_options;
    struct wire_pool pool;
    struct http_heads heads;
    struct gzip *gzip;            /* made when first needed */
    struct list packed;           /* conns with messages to unpack */
    struct call *unpacking;       /* whose message is under way; or NULL */
    struct buf unpacked_part;     /* of it */
    size_t unpacked;              /* bytes that messages have become or may become: all calls */
    struct list sharing;          /* calls with some of them, oldest first */
    struct timer unpack_patience; /* with the oldest, while a message waits for their bytes */
    size_t unpacking_left;        /* of this turn's work */
    struct buf scratch;
    struct message_pool spares;

    struct list conns;
    struct list dirty; /* conns with something to flush */
    struct list again; /* conns to be made so in the next turn */
    struct turn_work turn;
    struct list behind;  /* conns that go on reading in the next turn */
    size_t fields_left;  /* of this turn's work */
    size_t kept;         /* bytes of header fields, of all calls */
    struct list reading; /* calls with a long text of JSON, which is read in parts */
    size_t reading_left; /* of this turn's work */
    size_t bulk_left;    /* of this turn's RPC_FLUSH_BULK_BYTES */
    size_t extra_left;   /* and RPC_FLUSH_EXTRA_BYTES */
    size_t conn_count;
    uint64_t conns_so_far;
    struct list ready;           /* calls with events for the line's CALLS */
    struct list probing;         /* for its PROBES */
    struct list flowing;         /* and for its FLOW */
    struct spare_calls spare[2]; /* of requests at places for probes, and of all others */
    struct call_slot *slots;
    size_t slot_count, slot_cap;
    unsigned id_bits;       /* of a number, in front of the slot: which rpc */
    size_t call_count;      /* alive in either sense */
    struct event next_turn; /* makes sure that there is one, for those in `again` */

    size_t owed;           /* by all connections (budget.c) */
    size_t granted;        /* credit that all streams have begun with */
    size_t beyond;         /* calls whose reply was charged as less than it may take */
    struct list waiting;   /* conns with calls that wait for budget */
    size_t waiting_count;  /* of them */
    size_t unlooked;       /* those to be looked at, since something was given back */
    struct list starved;   /* conns that have credit or text withheld for what others owe */
    bool is_less_owed;     /* since those were looked at */
    struct timer patience; /* runs while any wait, and on to its end: whoever comes back waits on */
    bool is_last_notice;   /* it ends when the timer does, or after some more cuts */
    unsigned impatience;   /* ends of patience at which some waited, one after the other */
    uint64_t received_bytes, sent_bytes;
    uint64_t looked_bytes;   /* of header fields that were looked at */
    uint64_t unpacked_bytes; /* that messages were unpacked to */
    uint64_t read_bytes;     /* of long texts */
};

/* Whose number begins like this. A spare call keeps its slot. */
struct call_slot {
    struct call *call;
    uint32_t generation; /* of the last call that was here */
    uint32_t next_free;
};

enum conn_state {
    CONN_NEW, /* too few bytes to tell */
    CONN_H2,
    CONN_PLAIN,
    CONN_LINGERING, /* all is said; what comes in is dropped */
    CONN_CLOSING,   /* conn_close was called */
    CONN_CLOSED,    /* on_closed was called: calls may still refer to it */
};

enum conn_alarm { ALARM_HEAD, ALARM_KEEPALIVE, ALARM_PONG, ALARM_GRACE, ALARM_LINGER };

struct plain; /* plain.c */

struct rpc_conn {
    struct rpc *rpc;
    struct conn *conn;
    uint64_t number;       /* no other connection's, of any rpc */
    struct conn_info info; /* a copy: calls look at it when the socket is gone */
    size_t remote_len, cn_len;
    enum conn_state state;
    enum rpc_serves serves;
    struct list link, dirty_link, again_link, behind_link, packed_link;
    struct wire wire;

    nghttp2_session *session;
    struct call *arriving; /* the one whose header fields are being read */
    size_t list_bytes;     /* of the header list that is being read, as HTTP/2 counts them */
    size_t fields_left;    /* of such bytes: then reading stops for this turn */
    struct buf unread;     /* received, and for the next turn */
    struct stream_ids ids;
    struct plain *plain;
    size_t preface_seen; /* CONN_NEW: bytes that were those of HTTP/2's preface */
    bool within_session; /* nghttp2 is on the stack: it must not be freed */
    bool dismissed;      /* was told to go away, for what it did */
    bool paused;
    bool unparking;

    struct list calls;    /* whose streams are open */
    struct list touched;  /* those with something new to send */
    struct list parked;   /* those whose message does not fit in the budget yet */
    struct list packed;   /* those whose message is to be unpacked */
    struct list withheld; /* those with credit to be given back when less is queued */
    struct list crowded;  /* those in JSON that wait until text of the others has left */
    size_t call_count;    /* of them */
    size_t busy_calls;    /* of them, those whose request is whole */
    size_t refs;          /* all calls that point here, and one for the socket */
    size_t kept;          /* bytes of header fields */
    size_t held;          /* bytes of requests, as far as their lengths were announced */
    size_t unpacked;      /* of them, what messages have become or may become */
    size_t backlog;       /* bytes received behind a message that was not dealt with */
    size_t queued;        /* bytes of replies */
    size_t texts;         /* of them, plain or JSON on streams of HTTP/2 */
    size_t granted;       /* credit that its streams have begun with */
    size_t wanted;        /* bytes of bodies that were asked for and have not left yet */
    size_t consumed;      /* of the connection's window, to be told to nghttp2 */
    size_t promised;      /* to its calls, for their replies */
    size_t beyond;        /* of rpc->beyond */
    size_t offered;       /* of them, those of calls whose reply is a body that was announced */
    size_t due;           /* of wanted: the core has not given them */
    size_t taken;         /* bytes of replies that have left since patience began */
    size_t noticed;       /* and with them what its client could have taken at the last notice */
    struct list waiting;  /* calls that the core has not heard of, for want of budget */
    struct list asking;   /* and those that it has, with a large reply */
    struct list waiting_link, starved_link;

    struct timer timer;
    enum conn_alarm alarm;
    bool heard; /* something came in since the alarm was set */

    uint64_t last_ping_ns;
    unsigned strikes;
    bool spoke; /* we sent headers or data since the last ping */

    uint64_t control_frames, control_ns; /* a bucket: what is left, and when that was */
};

/* How a call's replies share the connection with those of others. */
enum call_weight {
    WEIGHT_USUAL,  /* one after the other */
    WEIGHT_SHARED, /* a chunk each, in turn */
    WEIGHT_BULK,   /* the same, after all others */
};

/* Where the metadata of a call is, in its fields: struct bytes once all have come. */
struct kept {
    uint32_t at, len;
    bool is_there;
};

struct call {
    uint64_t id; /* what the core knows it by: generation and slot */
    struct rpc_conn *conn;
    const struct rpc_method *method; /* NULL: none, or none that we know */
    uint64_t deadline_ns;
    struct list link; /* conn->calls, or one of rpc->spare */
    struct list ready_link, flow_link, touched_link;
    struct list parked_link, packed_link, sharing_link, withheld_link, crowded_link, reading_link;
    struct list waiting_link; /* conn->waiting or ->asking */
    uint32_t slot;
    int32_t stream_id;
    enum call_life life;
    uint8_t pending;
    bool is_plain;                /* HTTP/1.1, or not gRPC */
    struct gateway_call *gateway; /* it is in JSON; NULL: it is not, or its stream is no more */
    bool through_gateway;

    /* Fields of the request. */
    struct buf fields;  /* their values */
    size_t field_bytes; /* in JSON */
    uint64_t timeout_ns;
    struct kept path, content_type, timeout, encoding, token, authorization, version, authority;
    struct kept verb, leader;
    bool is_grpc, fields_too_large;
    struct fields form; /* of a stream: is it well-formed? */
    struct web *web;    /* of a stream that is no gRPC, as far as is known */

    /* In. */
    struct message_reader reader;
    struct buf later;     /* what came behind a message that was not dealt with */
    size_t later_at;      /* where the unread part of it begins */
    size_t unconsumed;    /* of the stream's window, to be told to nghttp2 */
    size_t kept;          /* of conn->kept */
    size_t reserved;      /* of conn->held */
    size_t unpacked;      /* of conn->unpacked */
    size_t shared;        /* of them, those of rpc->unpacked */
    uint64_t unpacked_ns; /* when its message was */
    enum call_in in;
    bool gzip; /* messages may be packed */
    bool large_window;
    bool remote_ended; /* the client has said all */
    bool is_busy;      /* counted in conn->busy_calls */

    /* Out. */
    struct message_queue queue;
    size_t granted;  /* the credit that it began with */
    size_t wanted;   /* of a body: asked for, and not given or not sent yet */
    size_t bodies;   /* announced by the core and not complete, sent or dropped */
    size_t promised; /* for its reply: of conn->promised */
    size_t asked;    /* and what it waits for; 0: nothing */
    size_t due;      /* of wanted: the core has not given them */
    bool is_beyond, is_offered;
    struct buf text; /* of the status, percent-encoded */
    struct timer timer;
    enum call_weight weight;
    enum call_out out;
    enum rpc_code code;
    uint16_t http_status;
};

static inline bool rpc_call_is_unary(const struct call *c)
{
    return !c->method->client_streams && !c->method->server_streams;
}

/* Is it decided what the client is told in the end? */
static inline bool rpc_call_is_decided(const struct call *c)
{
    return c->life >= LIFE_ANSWERED;
}

static inline nghttp2_session *rpc_call_session(const struct call *c)
{
    return c->conn->session;
}

/* --- rpc.c --- */

struct known_method {
    const struct rpc_method *method;
    char *path;
    size_t path_len;
};

const struct rpc_method *rpc_method_find(struct rpc *r, struct bytes path);
bool rpc_service_is_known(const struct rpc *r, struct bytes service);

/* The connection is flushed in the next turn, too, and there will be one. */
void rpc_flush_again(struct rpc_conn *c);

/* There will be one. */
void rpc_next_turn(struct rpc *r);

void rpc_event_add(struct call *c, uint8_t pending);
void rpc_event_drop(struct call *c, uint8_t pending);

struct gzip *rpc_gzip(struct rpc *r);

/* --- conn.c --- */

nghttp2_session_callbacks *rpc_conn_callbacks_new(void);
void rpc_conn_accepted(struct rpc *r, struct conn *c, enum rpc_serves serves);

/* There is something to flush. */
void rpc_conn_touch(struct rpc_conn *c);
void rpc_conn_flush(struct rpc_conn *c);
void rpc_conn_stop(struct rpc_conn *c);

/* Ends the connection at once. */
void rpc_conn_cut(struct rpc_conn *c, enum err reason);

/* Forgets it, as if the world had. */
void rpc_conn_abandon(struct rpc_conn *c);

/* Ends it when what is gathered has been sent. */
void rpc_conn_linger(struct rpc_conn *c);
void rpc_conn_set_alarm(struct rpc_conn *c, enum conn_alarm alarm, uint64_t after_ms);
void rpc_conn_unref(struct rpc_conn *c);

/* The client asked for something of no use, or for the work of so many such frames; too many of
 * those end the connection. */
void rpc_conn_count_control(struct rpc_conn *c, uint64_t count);

/* Reads on where the last turn stopped. */
void rpc_conn_go_on(struct rpc_conn *c);
void rpc_conn_check(const struct rpc_conn *c);

/* Text for one of its streams has become so much longer, or shorter. */
void rpc_conn_count_text(struct rpc_conn *c, size_t before, size_t after);

/* So much of this turn's work on header fields is done. */
void rpc_conn_count_fields(struct rpc_conn *c, size_t bytes);

/* There is budget again: parked calls may go on. */
void rpc_conn_unpark(struct rpc_conn *c);

/* --- call.c --- */

struct call *rpc_call_new(struct rpc_conn *conn, bool is_plain, int32_t stream_id);

/* Its request is whole, or the first message of its stream: that proves its connection, and keeps
 * it busy until the call has ended (io/conn_limit.h). Again is fine. */
void rpc_call_set_busy(struct call *c);

/* NULL: it is no more. */
struct call *rpc_call_find(const struct rpc *r, uint64_t id);
void rpc_call_free(struct call *c);
void rpc_call_destroy(struct rpc *r, struct spare_calls *s, struct call *c); /* a spare one */
void rpc_call_forget_timer(struct call *c); /* the clock is no more */

void rpc_call_data(struct call *c, struct bytes data);
void rpc_call_remote_ended(struct call *c);

/* The core has dealt with the last message of a stream, or with the only one of another call, of
 * which it keeps so many bytes. */
void rpc_call_release(struct call *c, size_t kept);

/* Goes on with a message that had to wait, if the budget has room for it now. */
bool rpc_call_unpark(struct call *c);

/* There is something new to hand to nghttp2. */
void rpc_call_touch(struct call *c);

/* What the client will be told when everything queued was sent. */
void rpc_call_decide(struct call *c, enum rpc_code code, struct bytes text);

/* Nothing that comes in matters any more. A message that the core has counts until it is released,
 * or the call finished. */
void rpc_call_ignore_input(struct call *c);
/* The same, and the core has done with it. */
void rpc_call_end_input(struct call *c);

/* We end the call, not the core: the client gets a status, the core is told that it is gone. */
void rpc_call_end_early(struct call *c, enum rpc_code code, struct bytes text);
void rpc_call_reset(struct call *c, uint32_t error);

/* The client does not keep to HTTP/2's rules for requests: only a reset says so. */
void rpc_call_refuse_malformed(struct call *c);

/* The message has been unpacked to this, which is taken over; or it cannot be. */
void rpc_call_unpacked(struct call *c, enum err e, struct buf *plain);

/* The content of the reader is a message of its own, and whole. */
void rpc_call_take_message(struct call *c);

/* The stream is over, for whatever reason. */
void rpc_call_detach(struct call *c);
void rpc_call_check(const struct call *c);

/* --- unpack.c --- */

/* The message of a call is whole and packed: it waits for its turn. */
void rpc_unpack(struct call *c);

/* Those that waited, as far as this turn goes. */
void rpc_unpack_some(struct rpc *r);

/* The call does not want it any more, or is done with it: what was counted for it no longer is; or
 * but for so many bytes, which count against its connection alone. */
void rpc_unpack_forget(struct call *c);
void rpc_unpack_forget_all_but(struct call *c, size_t kept);
void rpc_unpack_on_patience(struct timer *t);

/* --- call_fields.c --- */

void rpc_call_field(struct call *c, struct bytes name, struct bytes value);

/* The same for a call in JSON, of what the gateway makes of its request's fields; before that it
 * forgets what those of its stream were; and then the call is opened. */
void rpc_call_metadata(struct call *c, struct bytes name, struct bytes value);
void rpc_call_forget_fields(struct call *c);

/* So many more bytes of fields stay until the call is freed. */
void rpc_call_count_kept(struct call *c, size_t bytes);
void rpc_call_open_in_json(struct call *c, struct bytes method);

/* Adds what is known of the call to its first event. */
void rpc_call_show(const struct call *c, struct rpc_event *out);
void rpc_call_fields_done(struct call *c);

/* As they were sent; empty if they were not. */
struct bytes rpc_call_path(const struct call *c);
struct bytes rpc_call_verb(const struct call *c);
struct bytes rpc_call_authority(const struct call *c);
struct bytes rpc_call_authorization(const struct call *c);

/* --- budget.c --- */

/* Bytes of replies that a connection has queued have become so many more, or fewer. */
void rpc_budget_count_queued(struct rpc_conn *c, size_t before, size_t after);
/* What all connections together may still owe. */
size_t rpc_budget_left(const struct rpc *r);
/* May a connection that has so many bytes of a kind have more of it? If it has none, always. */
bool rpc_budget_allows(const struct rpc_conn *c, size_t has);

/* May the core hear of the call? If not, it waits, and its events are told when it may. */
bool rpc_budget_lets_in(struct call *c);
/* The core asks for so much; it hears of it by PENDING_RESERVED. */
void rpc_budget_reserve(struct call *c, uint64_t bytes);
/* The same of bytes that are dropped: nobody has read them. */
void rpc_budget_count_dropped(struct rpc_conn *c, size_t bytes);
/* Its reply is a body, and announced: from now on it waits for its client. Again is fine, and so it
 * is below. */
void rpc_budget_offer(struct call *c);
/* The reply is not there any more for its client to read. */
void rpc_budget_withdraw(struct call *c);
/* Its reply is made and queued, or nobody wants it. */
void rpc_budget_return(struct call *c);
void rpc_budget_leave(struct call *c);

static inline void rpc_budget_stop_waiting(struct call *c)
{
    if (!list_empty(&c->waiting_link))
        rpc_budget_leave(c);
}

/* The connection withholds something as long as others owe so much: it is flushed when they do
 * not. */
void rpc_budget_starve(struct rpc_conn *c);

/* Looks at some of those who wait, if something was given back. False: not at all of them. */
bool rpc_budget_look_again(struct rpc *r);
void rpc_budget_on_patience(struct timer *t);
void rpc_budget_check(const struct rpc *r);

/* --- call_reply.c --- */

/* May more of a body be asked for? Only as much as could be sent: what is left over would stay in
 * memory for as long as the client likes, for each of its calls. */
bool rpc_conn_has_budget_for_body(const struct rpc_conn *c);

/* The same of one that becomes text, which is there before it can be sent. */
bool rpc_conn_has_budget_for_text(const struct rpc_conn *c);

/* Does what the core says, and takes over what is in it. */
void rpc_call_reply(struct rpc *r, struct rpc_reply *v);

/* Moves bytes that are ready from the queue to the end of `out`: they are sent. */
void rpc_call_move(struct call *c, size_t count, struct buf *out);

/* Asks for so much of the body that is next. */
void rpc_call_want(struct call *c, size_t count);

/* Hands what is new to nghttp2. */
void rpc_call_submit(struct call *c);

/* nghttp2 asks for the next bytes of a reply, and moves them to the wire. */
ssize_t rpc_call_read(struct call *c, size_t max, uint32_t *flags);
void rpc_call_put_data(struct call *c, const uint8_t *frame_head, size_t count);

/* Our last frame of the stream went out. */
void rpc_call_sent_all(struct call *c);

/* --- plain.c --- */

void rpc_plain_begin(struct rpc_conn *c);
void rpc_plain_data(struct rpc_conn *c, struct bytes data);
void rpc_plain_end(struct rpc_conn *c);  /* the client will send no more */
void rpc_plain_sent(struct rpc_conn *c); /* the wire has room again */
void rpc_plain_stop(struct rpc_conn *c);
void rpc_plain_timed_out(struct rpc_conn *c);
bool rpc_plain_asks_options(const struct rpc_conn *c, struct bytes verb);
void rpc_plain_free(struct rpc_conn *c);

/* Fills in the event of the request that waits. */
void rpc_plain_show(struct call *c, struct rpc_event *out);

/* Answers it. */
void rpc_plain_reply(struct call *c, const struct rpc_reply *v);

/* For the gateway: what is to be flushed is; the head of a response; the call in JSON was answered
 * to its end. */
void rpc_plain_flush(struct rpc_conn *c);
struct http_conn *rpc_plain_http(struct rpc_conn *c);
void rpc_plain_respond(struct rpc_conn *c, unsigned status, const struct http1_field *fields,
                       size_t count, uint64_t length);
void rpc_plain_answered(struct call *c);

/* --- gateway_call.c --- */

/* Is this request for the gateway? A browser asks with OPTIONS whether it may ask: that is not. */
bool rpc_gateway_takes(const struct rpc_conn *conn, struct bytes verb, struct bytes path);

/* The head of a request in HTTP/1.1 to it is there. NULL: it was answered. */
struct call *rpc_gateway_head(struct rpc_conn *conn);

/* The same for a stream of HTTP/2, whose fields are there (web.c). */
void rpc_gateway_begin(struct call *c, struct bytes verb, struct bytes path);
void rpc_gateway_body(struct call *c, struct bytes piece);
void rpc_gateway_body_end(struct call *c);

/* The core has released a message of its stream. */
void rpc_gateway_released(struct call *c);

/* Long texts that wait, as far as this turn goes. */
void rpc_gateway_read_some(struct rpc *r);

/* Hands to the connection what it takes now. It may be over with that, and the connection too. */
void rpc_gateway_flush(struct call *c);

/* Its connection will end instead of it, if it has one for itself. */
void rpc_gateway_cut(struct call *c);
bool rpc_gateway_is_websocket(const struct call *c);

/* Of conn->queued. */
size_t rpc_gateway_queued(const struct call *c);
void rpc_gateway_free(struct call *c);

/* --- policy.c --- */

/* Logs it, too, if not. */
bool rpc_policy_allows_host(const struct rpc_conn *c, struct bytes host);

/* Not to somebody who might take the name in his certificate for his identity there. */
bool rpc_policy_allows_gateway(const struct rpc_conn *c);
#define RPC_POLICY_NO_GATEWAY                                                                      \
    "CommonName of client sending a request against gateway will be ignored and not used as "      \
    "expected\n"

/* How the paths of plain requests are read. */
const struct http_paths *rpc_policy_paths(const struct rpc_conn *c);

/* What a browser is told in the response to a page of this origin. How many. */
enum { RPC_POLICY_FIELDS = 3 };
size_t rpc_policy_fields(const struct rpc_conn *c, struct bytes origin,
                         struct http1_field out[static RPC_POLICY_FIELDS]);

/* The fields of a response; `lines` has those of the core. How many. */
enum { RPC_PLAIN_FIELDS_MAX = 11 + RPC_POLICY_FIELDS };
size_t rpc_plain_fields(const struct rpc_conn *c, struct bytes origin, unsigned status,
                        const char *type, struct bytes lines,
                        struct http1_field out[static RPC_PLAIN_FIELDS_MAX]);

/* --- web.c --- */

/* The path is none of gRPC's methods: the fields that follow may be a plain request's. */
void rpc_web_begin(struct call *c);
void rpc_web_field(struct call *c, struct bytes name, struct bytes value);
void rpc_web_free(struct call *c);

/* It is one. */
void rpc_web_fields_done(struct call *c);
void rpc_web_data(struct call *c, struct bytes data);
void rpc_web_ended(struct call *c);
void rpc_web_show(struct call *c, struct rpc_event *out);
void rpc_web_reply(struct call *c, unsigned status, const char *type, struct bytes lines,
                   struct bytes body);

/* For the gateway, piece by piece. The fields of the request: *at begins with 0; false at the end.
 */
bool rpc_web_next_field(const struct call *c, size_t *at, struct http1_field *out);
void rpc_web_consumed(struct call *c, size_t count);

/* The head of the response; how much of its body may be handed over now (0: when some has left, the
 * call is flushed again); some of it; and its end. */
void rpc_web_respond(struct call *c, unsigned status, const struct http1_field *fields,
                     size_t count, uint64_t length);
size_t rpc_web_credit(const struct call *c);
void rpc_web_send(struct call *c, struct bytes text);
void rpc_web_finish(struct call *c);

/* Of conn->queued. */
size_t rpc_web_queued(const struct call *c);
