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

/* Protobuf nesting: a Txn inside a Txn costs two levels, so this allows about 50 of them. */
#define PB_DEPTH_MAX 100

/* One raft append message carries at most this much entry data, unless a single entry is larger. */
#define RAFT_MESSAGE_BYTES_MAX (1 * MIB)

static_assert(RPC_MESSAGE_BYTES_DEFAULT == 2097152, "etcd's gRPC receive limit");
