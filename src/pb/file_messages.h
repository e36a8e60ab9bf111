/*
 * file_messages: what a member writes around its log and its snapshots.
 *
 * walpb, snappb and the two old etcdserverpb messages are proto2, where a field may be present and
 * zero. Nobody gives that a meaning: absent is zero everywhere, and both forms are read. What is
 * written follows etcd 3.7: fields marked `always` go out even when zero, since that is what its
 * files hold byte for byte; the others are left out, as it leaves out what its code did not set.
 * What stands inside these (raftpb, and walpb.Snapshot) is in entry/entry.h.
 */
#pragma once

#include "pb/etcd_messages.h"

struct pb_wal_record {
    int64_t type; /* always */
    uint32_t crc; /* always */
    struct bytes data;
};

struct pb_wal_metadata {
    uint64_t node_id, cluster_id; /* always */
};

struct pb_snap_file {
    uint32_t crc; /* always */
    struct bytes data;
};

/* ---- A request of the v2 API: only logs written by etcd 3.5 have them ---- */

struct pb_v2_request {
    uint64_t id;
    struct bytes method, path, val, prev_value;
    uint64_t prev_index, since;
    int64_t expiration, time;
    bool dir, prev_exist, wait, recursive, sorted, quorum, stream, refresh;
};

#define PB_FILE_MESSAGES(X)                                                                        \
    X(wal_record, pb_wal_record)                                                                   \
    X(wal_metadata, pb_wal_metadata)                                                               \
    X(snap_file, pb_snap_file)                                                                     \
    X(v2_request, pb_v2_request)
