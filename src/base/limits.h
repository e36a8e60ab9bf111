/*
 * limits: the bound of every queue, message, batch and window, and how the bounds relate.
 *
 * Memory is bounded by these and by live data, not by what clients do. A bound that belongs to one
 * room alone may live there; one that two rooms must agree on lives here.
 */
#pragma once

#include "base/assert.h"

enum {
    KIB = 1024,
    MIB = 1024 * KIB,
};

/* etcd's defaults for what a client may send in one request (--max-request-bytes). */
#define REQUEST_BYTES_DEFAULT     (3 * MIB / 2)
#define GRPC_OVERHEAD_BYTES       (512 * KIB)
#define RPC_MESSAGE_BYTES_DEFAULT (REQUEST_BYTES_DEFAULT + GRPC_OVERHEAD_BYTES)

/*
 * What may wait between rpc and whoever serves its calls.
 *
 * A stream begins with credit for so many bytes to send, and gets them back in steps; so who has
 * less than a step missing may never hear of it, and must not wait for more.
 */
#define RPC_STREAM_CREDIT_BYTES     (256 * KIB)
#define RPC_STREAM_CREDIT_BYTES_MIN (32 * KIB) /* where the connection has a lot under way */
#define RPC_SENT_STEP_BYTES         (8 * KIB)
#define WATCH_CREDIT_BYTES          RPC_STREAM_CREDIT_BYTES_MIN /* used by a Watch: all have it */
#define RPC_MESSAGE_OVERHEAD_BYTES  128         /* of a queued message, beside its bytes */
#define RPC_CHUNK_BYTES             (64 * KIB)  /* of a body, wanted at a time */
#define RPC_CONN_WANTED_BYTES_MAX   (256 * KIB) /* of bodies of a connection, wanted and not sent */
#define RPC_CONN_BYTES_MAX          (8 * MIB) /* received and not answered, or not sent: all calls */

/* Values of either lane that wait to be taken, and the bytes in them; and of replies. */
#define RPC_LINE_EVENTS_MAX      4096
#define RPC_LINE_EVENT_BYTES_MAX (16 * MIB)
#define RPC_LINE_REPLIES_MAX     4096
#define RPC_LINE_REPLY_BYTES_MAX (2 * MIB)

static_assert(RPC_CONN_BYTES_MAX <= RPC_LINE_EVENT_BYTES_MAX,
              "one connection does not fill the line");
static_assert(RPC_CONN_WANTED_BYTES_MAX <= RPC_LINE_REPLY_BYTES_MAX,
              "nor do the chunks that it wants");
static_assert(RPC_SENT_STEP_BYTES <= RPC_STREAM_CREDIT_BYTES_MIN / 4, "most of it is of use");
static_assert(RPC_CHUNK_BYTES <= RPC_CONN_WANTED_BYTES_MAX,
              "a chunk fits in what a connection wants");
static_assert(RPC_STREAM_CREDIT_BYTES <= RPC_CONN_BYTES_MAX, "so does a stream");
static_assert(RPC_MESSAGE_BYTES_DEFAULT <= RPC_CONN_BYTES_MAX, "so does a request");

/* Protobuf nesting: a Txn inside a Txn costs two levels, so this allows about 50 of them. */
#define PB_DEPTH_MAX 100

/* One raft append message carries at most this much entry data, unless a single entry is larger. */
#define RAFT_MESSAGE_BYTES_MAX (1 * MIB)

/*
 * Between members. Outgoing, per stream: what the other end does not read is kept up to this and
 * then dropped, as a network would. etcd counts messages alone; 4096 of them may be 4 GiB of
 * appends, so bytes are counted too. Messages without entries (heartbeats, votes, their responses)
 * may use the reserve behind it: entries that nobody reads must not silence them.
 */
#define PEER_OUT_BYTES_MAX     (64 * MIB)
#define PEER_OUT_RESERVE_BYTES (1 * MIB)
#define PEER_OUT_MESSAGES_MAX  4096

/* An append takes the message stream only while less than this waits there: heartbeats follow. */
#define PEER_DETOUR_BYTES_MAX (1 * MIB)

/* Single posts, while there is no stream: etcd's numbers. */
#define PEER_POSTS_MAX      64
#define PEER_POST_CONNS_MAX 4

/* Incoming, per peer and for appends and everything else each: received and not taken. One message
 * is let in whatever its size, or a large entry would never arrive. The number is four times
 * etcd's: two reads of a socket alone may bring more than 4096 heartbeats before it is our turn. */
#define PEER_IN_BYTES_MAX    (32 * MIB)
#define PEER_IN_MESSAGES_MAX 16384

/* One message while it is being received: etcd's bound. It grows with what arrives, not with what
 * is announced; and all of them together, the posts of members included: */
#define PEER_FRAME_BYTES_MAX     (512 * MIB)
#define PEER_RECEIVING_BYTES_MAX (1024ull * MIB)

/* The peer port: what a member may post, and what anybody else may, or what is no message;
 * connections, each with one request at most that waits for the server. Who is a member is only
 * said, never proved, so a post is held to less than a stream, which comes from an address that we
 * have dialled. */
#define PEER_POST_BYTES_MAX    (32 * MIB)
#define PEER_REQUEST_BYTES_MAX (1 * MIB)
#define PEER_CONNS_MAX         1024

/* Requests of our own to other members: how many wait, and what may come back. */
#define PEER_ASKS_MAX         4096
#define PEER_ASK_CONNS_MAX    4
#define PEER_RESULT_BYTES_MAX (4 * MIB)

/* Members that we do not know yet and that told us where they live, so that we can respond. */
#define PEER_REMOTES_MAX 16

/* Connections of our own, with those that still look for an address. */
#define PEER_DIALS_MAX 1024

/* Places that are asked something before we know who lives there. */
#define PEER_GUESTS_MAX 64

static_assert(PEER_DETOUR_BYTES_MAX < PEER_OUT_BYTES_MAX, "a detour is a part of the way");
static_assert(RAFT_MESSAGE_BYTES_MAX < PEER_IN_BYTES_MAX, "more than one append is taken in");
static_assert(RAFT_MESSAGE_BYTES_MAX < PEER_OUT_BYTES_MAX, "more than one append is sent");

static_assert(RPC_MESSAGE_BYTES_DEFAULT == 2097152, "etcd's gRPC receive limit");
