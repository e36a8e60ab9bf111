/*
 * peer: the other members, as far as bytes go. etcd calls it rafthttp.
 *
 * Raft hands out messages and this room carries them, in etcd's protocol: HTTP/1.1, two endless
 * responses in either direction between any two members, and single posts where those are not there
 * yet. What flows from A to B flows on streams that B has asked A for; so each member dials all
 * others to hear them, and is dialled by them to be heard.
 *
 *                       the turn
 *          peers_send |          ^ peers_take
 *      +--------------v----------|---------------------------------------------+
 *      | per peer   out: App stream   | message stream | posts (pipeline)      |
 *      |                 a snapshot, by credit                                 |
 *      |            in:  the two we dial, back-off, the next of its URLs       |
 *      |            probes, round trips, failures                              |
 *      | in common  the port: streams, posts, snapshots, requests of others    |
 *      |            what came in: appends | everything else, each bounded      |
 *      +-----------------------------------------------------------------------+
 *                    http, wire, net: sockets
 *
 * Everything crosses as values. What came is taken by the turn, peers before clients; what is not a
 * matter of bytes (a request for /members, /version, /leases ...) is handed in as a PEER_REQUEST
 * and answered with peers_respond; what the server wants to know of another member's port it asks
 * with peers_ask, and the result is a PEER_RESULT.
 *
 * Appends and forwarded proposals are taken apart from everything else, because a follower whose
 * log is behind must not take them, and must hear heartbeats and votes nevertheless. They may not
 * pile up here instead: what exceeds PEER_IN_BYTES_MAX is dropped, as a network would, long before
 * the other end would cut a stream that stalls.
 *
 * A snapshot is a post of its own, never part of a stream: the message, and behind it the image, as
 * large as a store. Neither end holds it. What is sent the server hands in as there is credit, what
 * comes it is handed for as much as it has granted, and then nothing is read until it grants more.
 *
 *     out   peers_snapshot_begin, _write ...  --> PEER_SNAPSHOT_SENT or PEER_SNAPSHOT_FAILED
 *     in    PEER_SNAPSHOT_BEGIN, _BYTES ..., _END --> peers_respond    meanwhile _grant; or _GONE
 *
 * Which way   MsgApp: the App stream, if the other end has dialled it. Everything else, and MsgApp
 * it takes    without that: the message stream. Without either: a post. To somebody who is no
 *             member that we know, but has come to our port and said where it lives: a post.
 *
 * Promises   1. A message that is sent is delivered once or not at all, and those of one stream in
 *               order. When something is dropped on our side, or a connection is lost before the
 *               kernel had taken all, the member is reported as unreachable.
 *            2. A heartbeat never waits behind an append: they have streams, and queues, of their
 *               own. Where an append must take the message stream, little of it may wait there.
 *            3. The entries of an append are encoded once in a turn, however many members get them.
 *            4. Memory (base/limits.h): per stream PEER_OUT_BYTES_MAX outgoing, per member twice
 *               PEER_IN_BYTES_MAX incoming; while it is being received, a frame of at most
 *               PEER_FRAME_BYTES_MAX, a post of PEER_POST_BYTES_MAX, any other request of
 *               PEER_REQUEST_BYTES_MAX, a result of what its asker expects, and for all of them
 *               together PEER_RECEIVING_BYTES_MAX. Whoever does not read is cut off after five
 *               seconds. For a snapshot being sent PEER_SNAPSHOT_CREDIT_BYTES twice;
 *               for one being received its message (PEER_SNAPSHOT_MESSAGE_BYTES_MAX) until the
 *               image begins, then twice the credit and one read of the socket.
 *            5. Whoever has the wrong cluster, a wrong, unknown or removed id or a version that
 *               does not fit is refused with etcd's status and text, and nothing of it is shown.
 *               A snapshot may be from somebody unknown: we may have been away when it joined.
 *            6. Any bytes at all are safe.
 *            7. A member that is not there costs about a connection attempt a second for each
 *               stream, and is dialled at once when it comes to our port.
 * Not here   What a message means (raft), which members there are (cluster; the server tells us),
 *            requests' meanings (the server). Whether a snapshot is wanted, what an image has to
 *            be, how fast it may go (the server). TLS, whose connections are like any others:
 *            https and unixs URLs are dialled by the net for it that the server hands in, with the
 *            URL's host as the name to be verified; without one they are never reached.
 * Leans on   http, entry, io; cluster and raft for how URLs, versions and types are spelled.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/histogram.h"
#include "base/logger.h"
#include "entry/entry.h"
#include "io/net.h"

struct io;
struct tls;
struct peers; /* opaque */

struct peers_options {
    const struct io *io;
    const struct logger *logger;
    struct tls *tls; /* outlives it; NULL: none */
    uint64_t self, cluster_id;
    const char *urls;    /* our own as others should know them, joined by commas */
    const char *version; /* of this server, "3.7.1" */
    uint64_t seed;       /* for back-off */
    uint64_t heartbeat_ms, election_ms;
};

struct peers *peers_open(const struct peers_options *options);
void peers_close(struct peers *p);   /* after peers_stop, when idle (asserted). NULL is fine */
void peers_abandon(struct peers *p); /* as in a crash: sockets and timers are gone already */

/* Who we are, if it was not known when it was opened (self was RAFT_NONE): whoever joins a cluster
 * asks others first. Until then no member is known, and whoever comes is told to come again. */
void peers_identify(struct peers *p, uint64_t self, uint64_t cluster_id);

/* A connection that one of the peer port's listeners has announced. */
void peers_accept(struct peers *p, struct conn *c);

/* Nobody new is listened to, all members are forgotten, and what is queued is sent, if that is
 * possible at once. Connections end within a second or so, names when they are resolved; what was
 * asked has a result at once. */
void peers_stop(struct peers *p);
bool peers_is_idle(const struct peers *p);

/* --- tell: members --- */

/* Streams are dialled from here on. Known already: its URLs are those now. Not ourselves
 * (asserted). URLs are "http://host:port", or https; a member may have both. */
void peers_add(struct peers *p, uint64_t id, const char *const *urls, size_t url_count);
/* For good: whoever comes with this id is told so. */
void peers_remove(struct peers *p, uint64_t id);
/* The same for one that is not known as a member, and may become one again. */
void peers_drop(struct peers *p, uint64_t id);

/* --- tell: messages --- */

/* Lent. To members that are not known: dropped. Leaves with the next peers_flush. A
 * MsgSnap is nothing without its image (peers_snapshot_begin): PEER_SNAPSHOT_FAILED. */
void peers_send(struct peers *p, const struct raft_message *m);

/* Once at the end of a turn: what was gathered goes to the sockets, in one write each. Whoever did
 * not take all of the last is left to gather. */
void peers_flush(struct peers *p);

/* --- tell: snapshots, outgoing --- */

/*
 * A post to m->to: the message (MsgSnap with a snapshot, lent), then image_bytes bytes that are
 * handed in as there is credit for them. One at a time to a member (asserted). It ends with
 * PEER_SNAPSHOT_SENT or PEER_SNAPSHOT_FAILED, always and once: also when there is no such member,
 * when it is removed, and at peers_stop. With a failure comes PEER_UNREACHABLE, and the next one is
 * sent to the next of the member's URLs.
 */
void peers_snapshot_begin(struct peers *p, const struct raft_message *m, uint64_t image_bytes);
/* How many bytes may be handed in now, no more than are missing; 0 also before there is a
 * connection and when none is under way. In one turn PEER_SNAPSHOT_TURN_BYTES at most, which those
 * that are under way share. When there is credit again the turn is woken. */
size_t peers_snapshot_credit(const struct peers *p, uint64_t member);
/* Never more than there is credit for (asserted). Copied; leaves with the next peers_flush, or
 * before. */
void peers_snapshot_write(struct peers *p, uint64_t member, struct bytes bytes);
/* The image cannot be read on: the connection is cut. PEER_SNAPSHOT_FAILED follows, if one is under
 * way. */
void peers_snapshot_cancel(struct peers *p, uint64_t member);

/* --- tell: snapshots, incoming --- */

/* So many bytes more of this image may come. It begins with none. A snapshot that has gone: is
 * ignored. */
void peers_snapshot_grant(struct peers *p, uint64_t id, size_t bytes);
/* The response is peers_respond, at any time after PEER_SNAPSHOT_BEGIN. What is left of the body is
 * not read, and nothing more is told of it. 204 means that it was taken. */

/* --- tell: requests --- */

/* The response to a PEER_REQUEST, or to a snapshot: content_type may be NULL. `allow` of a 405, or
 * NULL. */
struct peer_response {
    unsigned status;
    const char *content_type;
    const char *allow;
    struct bytes body;    /* lent */
    bool with_cluster_id; /* X-Etcd-Cluster-ID */
};
void peers_respond(struct peers *p, uint64_t request, const struct peer_response *r);
/* Does anybody wait for it? Else whoever has asked is gone, or was responded to. */
bool peers_is_awaited(const struct peers *p, uint64_t request);

/* Asks another member's port for something, at one of its URLs (or at `url`, if the member is
 * RAFT_NONE: before we know who lives there). The result is a PEER_RESULT with this token, always,
 * and within the time. */
struct peer_ask {
    uint64_t token;
    uint64_t member;
    const char *url;  /* "http://host:port", when member is RAFT_NONE */
    const char *verb; /* this and the content type: literals */
    const char *path;
    const char *content_type; /* of the body; NULL: none */
    struct bytes body;
    struct bytes authorization; /* in whose name; empty: nobody's */
    bool with_cluster_id;
    bool is_repeatable; /* asked twice does no harm, as with any GET: then it is asked again if a
                           connection that was kept turns out to have ended */
    uint64_t timeout_ms;
    size_t result_max; /* bytes of the result; 0: PEER_RESULT_BYTES_MAX */
};
void peers_ask(struct peers *p, const struct peer_ask *ask);
/* Nobody wants to know any more. */
void peers_forget(struct peers *p, uint64_t token);

/* --- take --- */

enum peer_event_kind {
    PEER_MESSAGE,     /* for raft: anything may be in it */
    PEER_UNREACHABLE, /* the last message to `member` did not get through */
    PEER_REMOVED,     /* a member says that we were removed from the cluster */
    PEER_REQUEST,
    PEER_RESULT,

    PEER_SNAPSHOT_SENT,   /* to `member`, which has taken it */
    PEER_SNAPSHOT_FAILED, /* to `member` */

    /* One that comes; `id` says which of them, `member` who sends it, be that a member or not. */
    PEER_SNAPSHOT_BEGIN, /* message: a MsgSnap to us, with a snapshot; image_bytes */
    PEER_SNAPSHOT_BYTES, /* body: the next of the image, of as many as there was credit for */
    PEER_SNAPSHOT_END,   /* the body has ended as it should; it waits for a response */
    PEER_SNAPSHOT_GONE,  /* before its end the sender went away, or said nothing for
                            PEER_SNAPSHOT_SILENCE_MS although it had credit; body: why. Not after a
                            response, nor after an end */
};

/* All of it is the taker's until peer_event_free. */
struct peer_event {
    enum peer_event_kind kind;
    uint64_t member; /* that it is about, or came from; RAFT_NONE of requests and results */
    const struct raft_message *message;
    uint64_t id;          /* of a request or a snapshot; the token of a result */
    uint64_t image_bytes; /* of a snapshot, as far as that was told; UINT64_MAX: it was not */
    struct bytes verb, path, body; /* of a request, without its query; a result's body */
    struct bytes cluster_id;       /* a request's X-Etcd-Cluster-ID, empty: none */
    struct bytes authorization;    /* a request's */
    uint64_t result_cluster_id;    /* a result's X-Etcd-Cluster-ID, 0: none */
    unsigned status;               /* of a result; 0: there was no response, and body says why */
    bool is_too_large;             /* a result: namely, that it is larger than it may be */
    void *owned;                   /* peer's own */
};

/* The next of everything but appends and forwarded proposals. */
bool peers_take(struct peers *p, struct peer_event *out);
/* The next append or forwarded proposal. Whoever does not ask leaves them here, and they are
 * dropped when they become too many. */
bool peers_take_append(struct peers *p, struct peer_event *out);
void peer_event_free(struct peer_event *e);

/* --- ask --- */

/* Was a message's sender removed from the cluster? If so, that was logged. The port asks when the
 * message arrives; the server asks again before it hands raft a snapshot that took long. */
bool peers_rejects_sender(struct peers *p, const struct raft_message *m);

/* How it stands with a member, for metrics and the log. */
struct peer_status {
    bool is_active; /* a stream to it or from it is open, and nothing has failed since one was
                       opened, or it has spoken on one since: etcd's meaning, but for the last */
    uint64_t active_since_ms; /* monotonic */
    uint64_t sent_bytes, received_bytes;
    uint64_t sent_failures, received_failures, dropped_in, dropped_out;
    uint64_t round_trip_ns; /* of the last probe; 0: none yet */
    int64_t clock_drift_ns; /* how far its wall clock was behind ours then */
    uint64_t streams;       /* of at most four */

    /* Snapshots under way, those taken by the other end or by us, and those that were not. */
    uint64_t snapshots_sending, snapshots_sent, snapshot_send_failures;
    uint64_t snapshots_receiving, snapshots_received, snapshot_receive_failures;

    uint64_t disconnects;                               /* times that it ceased to be active */
    struct histogram round_trips;                       /* HISTOGRAM_100US_16 */
    struct histogram snapshot_sends, snapshot_receives; /* that went well: HISTOGRAM_100MS_10 */
};
/* False: no such member. */
bool peers_status(const struct peers *p, uint64_t id, struct peer_status *out);
/* The member of this set that has been active longest: whom to hand leadership to. etcd's
 * longestConnected. RAFT_NONE: nobody is. */
uint64_t peers_longest_connected(const struct peers *p, const uint64_t *of, size_t count);

/* All invariants, asserted. */
void peers_check(const struct peers *p);
