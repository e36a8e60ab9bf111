/*
 * peer_int: what the files of this room share.
 *
 *     peers.c         the room: members, what came in and what goes out, which way a message takes
 *     stream_codec.c  the two streams as bytes (pure)
 *     outgoing.c      streams that others have dialled: queue, flush, link heartbeats
 *     incoming.c      streams that we dial: back-off, silence, what a refusal means
 *     port.c          the port: connections of others, routing, statuses, requests of the server
 *     checks.c        who is let in: versions, cluster and member ids
 *     dial.c          a connection of ours: its name resolved, connected, watched
 *     requests.c      requests of ours to one place, on a few connections that are kept
 *     pipeline.c      messages as single posts      probe.c   round trips and clocks
 *     ask.c           what the server wants to know of other members
 *     snapshot_post.c a snapshot that we send       snapshot_in.c   one that we are sent
 *
 * Everything runs in the turn, from callbacks of the inbox or from calls of the server. What is
 * told the server waits in a list for peers_take. A connection outlives whatever used it until its
 * on_closed has come; so does a dial until its name is resolved.
 */
#pragma once

#include "base/limits.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rng.h"
#include "http/http.h"
#include "io/clock.h"
#include "io/io.h"
#include "io/resolve.h"
#include "peer/peer.h"
#include "peer/stream_codec.h"

struct peer;
struct port_conn;

/* --- dial.c --- */

enum place_kind { PLACE_TCP, PLACE_UNIX, PLACE_UNKNOWN };

/* Where somebody can be reached. */
struct place {
    enum place_kind kind;
    char *text;      /* "http://10.0.0.1:2380" */
    char *authority; /* "10.0.0.1:2380" */
    char *host;      /* "10.0.0.1"; the path of a unix socket */
    char *tls_name;  /* whose certificate it has; NULL: it needs none */
    uint16_t port;
};

/* Of one member; all that goes there shares the choice, and moves on to the next when one fails. */
struct places {
    struct place *at;
    size_t count, picked;
};

char *peer_copy_text(struct bytes text); /* ends with a zero */
void places_set(struct places *p, const char *const *urls, size_t count);
void places_free(struct places *p);
const struct place *places_pick(const struct places *p); /* NULL: there is none */
void places_failed(struct places *p, const char *authority);

struct dial;

/* After on_failed, or on_over with kept false, the dial is gone. */
struct dial_events {
    void (*on_open)(struct dial *d); /* ready for a request */
    void (*on_head)(struct dial *d); /* d->http.reader has it */
    void (*on_body)(struct dial *d, struct bytes piece);
    void (*on_over)(struct dial *d, bool kept);
    void (*on_failed)(struct dial *d, const char *why);
    void (*on_sent)(struct dial *d); /* the socket has taken what it had not at first. NULL: fine */
};

enum dial_state { DIAL_RESOLVING, DIAL_CONNECTING, DIAL_OPEN, DIAL_CLOSING };

struct dial {
    struct peers *peers;
    struct list link;             /* on peers->dials */
    const struct dial_events *on; /* NULL: nobody is interested any more */
    void *context;
    enum dial_state state;
    char *host, *authority, *tls_name; /* copies: the member's URLs may change */
    struct lookup lookup;
    size_t next_address;
    struct conn *conn; /* NULL: none */
    struct wire wire;
    struct http_conn http;
    struct timer timer;
    uint64_t heard_ns, limit_ns;
};

struct dial *dial_open(struct peers *p, const struct place *place, const struct dial_events *on,
                       void *context);
/* It fails if nothing is heard for so long; again: from now on. 0: for ever. */
void dial_limit(struct dial *d, uint64_t ms);
void dial_request(struct dial *d, const char *verb, const char *target,
                  const struct http1_field *fields, size_t field_count, const struct bytes *body);
/* Its body, of this length, follows: http_send, http_finish, wire_send are the caller's. */
void dial_begin(struct dial *d, const char *verb, const char *target,
                const struct http1_field *fields, size_t field_count, uint64_t length);
void dial_drop(struct dial *d); /* nothing is told any more. NULL is fine */
void dial_abandon(struct dial *d);

/* --- requests.c --- */

struct request;

/* Requests to one member, some at once, the others in a queue. */
struct requests {
    struct peers *peers;
    struct places *places;
    unsigned conns_max, conn_count;
    size_t waiting_count, waiting_bytes, busy_count, busy_bytes; /* of their bodies */
    struct list waiting, conns;
};

/* Filled in by whoever wants something; all zeroes else. */
struct request {
    const char *verb;
    char *path;               /* request's own */
    const char *content_type; /* lent; NULL: no body */
    struct buf body;          /* request's own */
    bool as_raft;             /* with all fields that raft's messages travel with */
    struct buf authorization;
    bool with_cluster_id;
    bool is_repeatable; /* twice does no harm */
    uint64_t timeout_ms;
    size_t result_max; /* bytes of its result; 0: PEER_RESULT_BYTES_MAX */
    void *context;
    uint64_t tag;
    /* Once, unless it is dropped; status 0: there was none, and why says the reason. Frees nothing:
     * request_free is the owner's, also from here. */
    void (*on_done)(struct request *r, unsigned status, struct bytes body, const char *why);

    struct requests *owner; /* from here on requests' own */
    struct list link;
    struct request_conn *conn;
    struct timer timer;
    struct buf result; /* counts as receiving while it is under way */
    unsigned status;
    uint64_t result_cluster_id;
    bool is_too_large; /* more than result_max has come */
    bool is_again;     /* sent a second time, since a kept connection had ended */
};

/* What all posts of raft's travel with. Returns how many there are. */
enum { REQUESTS_RAFT_FIELDS = 5 };
size_t requests_raft_fields(const struct peers *p, struct http1_field out[REQUESTS_RAFT_FIELDS]);

void requests_init(struct requests *q, struct peers *p, struct places *places, unsigned conns_max);
void requests_submit(struct requests *q, struct request *r);
/* Drops all that is under way, untold; each is handed to `drop`. */
void requests_end(struct requests *q, void (*drop)(struct request *r));
void request_cancel(struct request *r); /* it is not told */
void request_free(struct request *r);
uint64_t requests_receiving(const struct requests *q); /* bytes of results under way */

/* --- outgoing.c --- */

/* One stream that a peer has dialled, with its connection. */
struct out_stream {
    struct peer *peer; /* NULL: replaced, or the peer is gone */
    struct port_conn *conn;
    enum stream_kind kind;
    struct list dirty_link; /* on peers->dirty: something was gathered */
    struct app_state app;
    struct gather next;   /* for the next flush */
    struct gather under;  /* being written */
    struct bytes *pieces; /* of under */
    size_t piece_cap, piece_count;
    size_t piece, piece_sent; /* the first that the socket was not given */
    struct bytes slice[PEER_OUT_SLICE_PIECES];
    struct conn_write write;
    uint64_t write_since_ns; /* of the slice; 0: none is under way */
    size_t message_count;    /* in next and under */
    size_t under_count;      /* of those, in under */
    bool is_chunked;
};

void outgoing_attach(struct peer *peer, enum stream_kind kind, struct port_conn *conn,
                     bool is_chunked);
bool outgoing_put(struct out_stream *o, const struct raft_message *m); /* false: dropped */
void outgoing_flush(struct out_stream *o);
void outgoing_beat_all(struct peers *p); /* link heartbeats; streams that stall are cut */
void outgoing_detach(struct out_stream *o, const char *why);
void outgoing_finish(struct out_stream *o); /* says what is queued, and that it was the last */
void outgoing_free(struct out_stream *o);
size_t outgoing_queued(const struct out_stream *o);

/* --- incoming.c --- */

struct incoming {
    struct peer *peer;
    enum stream_kind kind;
    struct dial *dial; /* NULL: waits */
    struct timer redial;
    uint64_t dialled_ns;
    unsigned failures; /* in a row */
    bool is_open;
    unsigned refused; /* the status of a response that is no stream */
    struct buf refusal;
    struct stream_decoder decoder;
};

void incoming_start(struct incoming *in, struct peer *peer, enum stream_kind kind);
void incoming_hurry(struct incoming *in); /* there are signs of life */
void incoming_stop(struct incoming *in);

/* --- pipeline.c, probe.c, ask.c --- */

bool pipeline_post(struct peer *peer, const struct raft_message *m); /* false: dropped */
/* What the response to a post means: NULL is success, else the reason. */
const char *pipeline_check(struct peer *peer, unsigned status, struct bytes body,
                           uint64_t result_cluster_id);
void probe_all(struct peers *p);
void ask_dropped(struct request *r); /* the result is that there is none */
void ask_drop_guests(struct peers *p);
uint64_t ask_guests_receiving(const struct peers *p);

/* --- snapshot_post.c --- */

struct snapshot_post;

void snapshot_post_stop(struct peer *peer); /* if one is under way: told as failed */
void snapshot_post_flush_all(struct peers *p);
void snapshot_post_check(const struct snapshot_post *s);

/* --- snapshot_in.c --- */

enum snapshot_state { SNAPSHOT_IN_MESSAGE, SNAPSHOT_IN_IMAGE, SNAPSHOT_IN_ENDED };

/* A snapshot that somebody posts to us: first its message, gathered here; then the image, handed on
 * as far as there is credit. */
struct snapshot_in {
    struct peers *peers;
    const char *remote; /* lent */
    uint64_t length;    /* of the body; HTTP_CHUNKED: not known */
    enum snapshot_state state;
    struct buf message; /* with the length in front; counts as receiving */
    uint64_t began_ns;
    uint64_t id, from;    /* of the image: the sender, and what the server calls it by */
    uint64_t image_bytes; /* received so far */
    size_t credit;
    struct buf held;      /* of the image, beyond credit: one piece */
    bool is_whole;        /* the body is, and some of it is held */
    struct told *untaken; /* the last bytes told, which may become more. NULL: none */
    unsigned status;      /* it is refused with that; 0: not so far */
    const char *why;      /* it is refused, or has gone. NULL: the connection has ended */
};

struct snapshot_in *snapshot_in_new(struct peers *p, const char *remote, uint64_t length);
/* How much of the piece was dealt with; the rest is held until there is credit. Afterwards `status`
 * may say that it has to be refused, and `id` that it was announced to the server. */
size_t snapshot_in_data(struct snapshot_in *in, struct bytes piece);
void snapshot_in_end(struct snapshot_in *in); /* the body has ended; it may be refused now */
size_t snapshot_in_grant(struct snapshot_in *in, size_t bytes); /* how much of what was held left */
/* The end of it. Unless it had ended, or a response was given (a status), it is told as gone. */
void snapshot_in_free(struct snapshot_in *in, unsigned status);
void snapshot_in_check(const struct snapshot_in *in);

/* --- peers.c --- */

/* What was received and not taken, by one peer. */
struct inflow {
    size_t count, bytes;
};

struct peer {
    struct peers *peers;
    uint64_t id;
    bool is_remote; /* not a member that we know: posts alone */
    struct places places;
    struct out_stream *out[STREAM_KINDS];
    struct incoming in[STREAM_KINDS];
    struct requests posts, asks, probes;
    struct snapshot_post *snapshot; /* under way, or NULL */
    bool is_probing, is_unreachable_told, is_ill, is_drift_told;
    struct inflow appends, others;
    bool was_full; /* a drop was logged, and nothing got through since */
    struct peer_status status;
    uint64_t active_since_ns;
};

/* Something for the server. */
struct told {
    struct list link;
    struct peer_event event;
    struct inflow *inflow; /* a message's */
    size_t bytes;
    struct snapshot_in *grows_for; /* bytes of an image: more of them are added until it is taken */
    struct raft_message *message;
    struct buf text; /* what the event's bytes look into */
};

struct peers {
    const struct io *io;
    const struct logger *logger;
    struct clock *clock;
    struct peers_options options;
    char *urls, *version;
    char self_hex[24], cluster_hex[24];
    struct rng rng;
    struct wire_pool pool;
    struct http_heads heads; /* at our port */
    struct map members;      /* id -> struct peer: those known, and remotes */
    struct map removed;      /* id -> itself */
    size_t remote_count;
    struct list dials, conns;
    size_t dial_count, conn_count;
    struct list dirty; /* out_streams */
    struct entry_cache cache;
    struct arena arena; /* for the message being decoded */
    uint64_t receiving; /* bytes of unfinished frames, posts and results */
    struct inflow strangers;
    struct inflow announced; /* snapshots that have begun, by their messages */
    struct list snapshots;   /* snapshot_posts */
    size_t snapshot_count;   /* of them */
    struct list told, told_appends;
    struct map requests; /* id -> struct port_conn that waits for peers_respond */
    uint64_t last_request;
    struct map asks;    /* token -> struct request */
    struct list guests; /* places that are no member's, and were asked something */
    size_t guest_count;
    struct timer beat, probe;
    struct event wake; /* another turn: what is told was not told by an event */
    bool is_stopping, is_abandoned, is_removed_told;
};

struct peer *peers_find(const struct peers *p, uint64_t id); /* NULL: not a member */
bool peers_is_removed(const struct peers *p, uint64_t id);
/* Somebody whom we do not know says where it lives. */
void peers_add_remote(struct peers *p, uint64_t id, struct bytes urls);

void peer_timer_start(struct peers *p, struct timer *t, uint64_t after_ms);
void peer_timer_stop(struct peers *p, struct timer *t);

/* Active: a stream is open, and nothing has failed since one was opened. As etcd, so that a member
 * whose silence has ended the streams that we read is not taken for alive by those that it reads.
 */
void peer_activate(struct peer *peer);
void peer_deactivate(struct peer *peer, const char *action, const char *source, const char *why);

struct told *told_new(enum peer_event_kind kind, uint64_t member);
void peers_tell(struct peers *p, struct told *t);
void told_free(struct told *t);
void peers_wake(struct peers *p);
void peers_tell_unreachable(struct peer *peer);
void peers_tell_removed(struct peers *p);

const char *peers_message_type(const struct raft_message *m);
/* Is the message for another member? If so, that was logged. */
bool peers_rejects_target(struct peers *p, const struct raft_message *m);

enum receipt { RECEIVED, RECEIPT_IGNORED, RECEIPT_FULL, RECEIPT_REMOVED, RECEIPT_MISMATCH };

/* A message that came from `peer`, NULL if that is no member, of so many bytes. */
enum receipt peers_received(struct peers *p, struct peer *peer, const struct raft_message *m,
                            size_t bytes);

/* --- port.c --- */

/* What an out_stream needs of its connection. */
struct conn *port_conn_socket(struct port_conn *c);
void port_conn_set_stream(struct port_conn *c, struct out_stream *o);
void port_conn_cut(struct port_conn *c, enum err reason);
void port_conn_abandon(struct port_conn *c);
void port_conn_finish(struct port_conn *c); /* at peers_stop: as soon as all is said */
struct port_conn *port_conn_of_link(struct list *link);
void port_conn_check(const struct port_conn *c, uint64_t *receiving);

/* --- checks.c --- */

enum check { CHECK_OK, CHECK_VERSION, CHECK_CLUSTER };

/* Of a request to one of raft's paths; what is wrong was logged. */
enum check check_request(const struct peers *p, const struct http1_reader *r);
/* Of the response to our own: may this server's stream be read? */
bool check_stream_version(const struct peers *p, const struct http1_reader *r);
bool check_id(struct bytes text, uint64_t *out); /* hex */
struct bytes field_of(const struct http1_reader *r, const char *name);
