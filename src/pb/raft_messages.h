/*
 * raft_messages: what members say to each other and write on their disks.
 *
 * raftpb, walpb, snappb and the two old etcdserverpb messages are proto2, where a field may be
 * present and zero. Nobody gives that a meaning: absent is zero everywhere, and both forms are
 * read. What is written follows etcd 3.7: fields marked `always` go out even when zero, since that
 * is what its logs hold byte for byte; the others are left out, as it leaves out what its code did
 * not set.
 */
#pragma once

#include "pb/etcd_messages.h"

/* ---- raftpb ---- */

enum pb_raft_entry_type {
    PB_RAFT_ENTRY_NORMAL,
    PB_RAFT_ENTRY_CONF_CHANGE,
    PB_RAFT_ENTRY_CONF_CHANGE_V2,
};

struct pb_raft_entry {
    int32_t type; /* enum pb_raft_entry_type */
    uint64_t term, index;
    struct bytes data;
};

struct pb_raft_conf_state {
    PB_LIST_OF(uint64_t) voters;
    PB_LIST_OF(uint64_t) learners;
    PB_LIST_OF(uint64_t) voters_outgoing;
    PB_LIST_OF(uint64_t) learners_next;
    bool auto_leave; /* always */
};

struct pb_raft_snapshot_metadata {
    const struct pb_raft_conf_state *conf_state;
    uint64_t index, term; /* always */
};

struct pb_raft_snapshot {
    struct bytes data;
    const struct pb_raft_snapshot_metadata *metadata;
};

enum pb_raft_message_type {
    PB_RAFT_HUP,
    PB_RAFT_BEAT,
    PB_RAFT_PROP,
    PB_RAFT_APP,
    PB_RAFT_APP_RESP,
    PB_RAFT_VOTE,
    PB_RAFT_VOTE_RESP,
    PB_RAFT_SNAP,
    PB_RAFT_HEARTBEAT,
    PB_RAFT_HEARTBEAT_RESP,
    PB_RAFT_UNREACHABLE,
    PB_RAFT_SNAP_STATUS,
    PB_RAFT_CHECK_QUORUM,
    PB_RAFT_TRANSFER_LEADER,
    PB_RAFT_TIMEOUT_NOW,
    PB_RAFT_READ_INDEX,
    PB_RAFT_READ_INDEX_RESP,
    PB_RAFT_PRE_VOTE,
    PB_RAFT_PRE_VOTE_RESP,
    PB_RAFT_STORAGE_APPEND,
    PB_RAFT_STORAGE_APPEND_RESP,
    PB_RAFT_STORAGE_APPLY,
    PB_RAFT_STORAGE_APPLY_RESP,
    PB_RAFT_FORGET_LEADER,
};

struct pb_raft_message {
    int32_t type; /* enum pb_raft_message_type; always */
    uint64_t to, from, term, log_term, index;
    PB_LIST_OF(struct pb_raft_entry) entries;
    uint64_t commit;
    const struct pb_raft_snapshot *snapshot;
    bool reject;
    uint64_t reject_hint;
    struct bytes context;
    uint64_t vote;                                /* vote and responses stay within a member */
    PB_LIST_OF(struct pb_raft_message) responses; /* and are here for the sake of its traces */
};

struct pb_raft_hard_state {
    uint64_t term, vote, commit; /* always */
};

enum pb_raft_conf_change_type {
    PB_RAFT_ADD_NODE,
    PB_RAFT_REMOVE_NODE,
    PB_RAFT_UPDATE_NODE,
    PB_RAFT_ADD_LEARNER_NODE,
};

struct pb_raft_conf_change {
    uint64_t id;
    int32_t type;     /* enum pb_raft_conf_change_type; always */
    uint64_t node_id; /* always */
    struct bytes context;
};

struct pb_raft_conf_change_single {
    int32_t type;     /* enum pb_raft_conf_change_type; always */
    uint64_t node_id; /* always */
};

enum pb_raft_transition {
    PB_RAFT_TRANSITION_AUTO,
    PB_RAFT_TRANSITION_JOINT_IMPLICIT,
    PB_RAFT_TRANSITION_JOINT_EXPLICIT,
};

struct pb_raft_conf_change_v2 {
    int32_t transition; /* enum pb_raft_transition */
    PB_LIST_OF(struct pb_raft_conf_change_single) changes;
    struct bytes context;
};

/* ---- The files: walpb, snappb, and the metadata record of a log ---- */

struct pb_wal_record {
    int64_t type; /* always */
    uint32_t crc; /* always */
    struct bytes data;
};

struct pb_wal_snapshot {
    uint64_t index, term; /* always */
    const struct pb_raft_conf_state *conf_state;
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

#define PB_RAFT_MESSAGES(X)                                                                        \
    X(raft_entry, pb_raft_entry)                                                                   \
    X(raft_conf_state, pb_raft_conf_state)                                                         \
    X(raft_snapshot_metadata, pb_raft_snapshot_metadata)                                           \
    X(raft_snapshot, pb_raft_snapshot)                                                             \
    X(raft_message, pb_raft_message)                                                               \
    X(raft_hard_state, pb_raft_hard_state)                                                         \
    X(raft_conf_change, pb_raft_conf_change)                                                       \
    X(raft_conf_change_single, pb_raft_conf_change_single)                                         \
    X(raft_conf_change_v2, pb_raft_conf_change_v2)                                                 \
    X(wal_record, pb_wal_record)                                                                   \
    X(wal_snapshot, pb_wal_snapshot)                                                               \
    X(wal_metadata, pb_wal_metadata)                                                               \
    X(snap_file, pb_snap_file)                                                                     \
    X(v2_request, pb_v2_request)
