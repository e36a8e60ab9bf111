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

static_assert(RPC_MESSAGE_BYTES_DEFAULT == 2097152, "etcd's gRPC receive limit");
