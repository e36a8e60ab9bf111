/* The field tables of raft and of the files it is kept in. */
#include "pb/schema_rows.h"

ENUM(entry_type, "raftpb.EntryType", {0, "EntryNormal"}, {1, "EntryConfChange"},
     {2, "EntryConfChangeV2"});
ENUM(message_type, "raftpb.MessageType", {0, "MsgHup"}, {1, "MsgBeat"}, {2, "MsgProp"},
     {3, "MsgApp"}, {4, "MsgAppResp"}, {5, "MsgVote"}, {6, "MsgVoteResp"}, {7, "MsgSnap"},
     {8, "MsgHeartbeat"}, {9, "MsgHeartbeatResp"}, {10, "MsgUnreachable"}, {11, "MsgSnapStatus"},
     {12, "MsgCheckQuorum"}, {13, "MsgTransferLeader"}, {14, "MsgTimeoutNow"}, {15, "MsgReadIndex"},
     {16, "MsgReadIndexResp"}, {17, "MsgPreVote"}, {18, "MsgPreVoteResp"}, {19, "MsgStorageAppend"},
     {20, "MsgStorageAppendResp"}, {21, "MsgStorageApply"}, {22, "MsgStorageApplyResp"},
     {23, "MsgForgetLeader"});
ENUM(conf_change_type, "raftpb.ConfChangeType", {0, "ConfChangeAddNode"},
     {1, "ConfChangeRemoveNode"}, {2, "ConfChangeUpdateNode"}, {3, "ConfChangeAddLearnerNode"});
ENUM(transition, "raftpb.ConfChangeTransition", {0, "ConfChangeTransitionAuto"},
     {1, "ConfChangeTransitionJointImplicit"}, {2, "ConfChangeTransitionJointExplicit"});

static const struct pb_field raft_entry_rows[] = {
    F_ENUM(raft_entry, 1, type, entry_type, "Type"),
    F_UINT64(raft_entry, 2, term, "Term"),
    F_UINT64(raft_entry, 3, index, "Index"),
    F_BYTES(raft_entry, 4, data, "Data"),
};
MESSAGE_PROTO2_BY_HAND(raft_entry, "raftpb.Entry", raft_entry);

static const struct pb_field raft_conf_state_rows[] = {
    LIST_UINT64(raft_conf_state, 1, voters),
    LIST_UINT64(raft_conf_state, 2, learners),
    LIST_UINT64(raft_conf_state, 3, voters_outgoing),
    LIST_UINT64(raft_conf_state, 4, learners_next),
    ALWAYS_BOOL(raft_conf_state, 5, auto_leave),
};
MESSAGE_PROTO2(raft_conf_state, "raftpb.ConfState", raft_conf_state);

static const struct pb_field raft_snapshot_metadata_rows[] = {
    F_MESSAGE(raft_snapshot_metadata, 1, conf_state, raft_conf_state),
    ALWAYS_UINT64(raft_snapshot_metadata, 2, index),
    ALWAYS_UINT64(raft_snapshot_metadata, 3, term),
};
MESSAGE_PROTO2(raft_snapshot_metadata, "raftpb.SnapshotMetadata", raft_snapshot_metadata);

static const struct pb_field raft_snapshot_rows[] = {
    F_BYTES(raft_snapshot, 1, data),
    F_MESSAGE(raft_snapshot, 2, metadata, raft_snapshot_metadata),
};
MESSAGE_PROTO2(raft_snapshot, "raftpb.Snapshot", raft_snapshot);

static const struct pb_field raft_message_rows[] = {
    ALWAYS_ENUM(raft_message, 1, type, message_type),
    F_UINT64(raft_message, 2, to),
    F_UINT64(raft_message, 3, from),
    F_UINT64(raft_message, 4, term),
    F_UINT64(raft_message, 5, log_term, "logTerm"),
    F_UINT64(raft_message, 6, index),
    LIST_MESSAGE(raft_message, 7, entries, raft_entry),
    F_UINT64(raft_message, 8, commit),
    F_MESSAGE(raft_message, 9, snapshot, raft_snapshot),
    F_BOOL(raft_message, 10, reject),
    F_UINT64(raft_message, 11, reject_hint, "rejectHint"),
    F_BYTES(raft_message, 12, context),
    F_UINT64(raft_message, 13, vote),
    LIST_MESSAGE(raft_message, 14, responses, raft_message),
};
MESSAGE_PROTO2(raft_message, "raftpb.Message", raft_message);

static const struct pb_field raft_hard_state_rows[] = {
    ALWAYS_UINT64(raft_hard_state, 1, term),
    ALWAYS_UINT64(raft_hard_state, 2, vote),
    ALWAYS_UINT64(raft_hard_state, 3, commit),
};
MESSAGE_PROTO2(raft_hard_state, "raftpb.HardState", raft_hard_state);

static const struct pb_field raft_conf_change_rows[] = {
    F_UINT64(raft_conf_change, 1, id),
    ALWAYS_ENUM(raft_conf_change, 2, type, conf_change_type),
    ALWAYS_UINT64(raft_conf_change, 3, node_id),
    F_BYTES(raft_conf_change, 4, context),
};
MESSAGE_PROTO2(raft_conf_change, "raftpb.ConfChange", raft_conf_change);

static const struct pb_field raft_conf_change_single_rows[] = {
    ALWAYS_ENUM(raft_conf_change_single, 1, type, conf_change_type),
    ALWAYS_UINT64(raft_conf_change_single, 2, node_id),
};
MESSAGE_PROTO2(raft_conf_change_single, "raftpb.ConfChangeSingle", raft_conf_change_single);

static const struct pb_field raft_conf_change_v2_rows[] = {
    F_ENUM(raft_conf_change_v2, 1, transition, transition),
    LIST_MESSAGE(raft_conf_change_v2, 2, changes, raft_conf_change_single),
    F_BYTES(raft_conf_change_v2, 3, context),
};
MESSAGE_PROTO2(raft_conf_change_v2, "raftpb.ConfChangeV2", raft_conf_change_v2);

/* ---- Files ---- */

static const struct pb_field wal_record_rows[] = {
    ALWAYS_INT64(wal_record, 1, type),
    ALWAYS_UINT32(wal_record, 2, crc),
    F_BYTES(wal_record, 3, data),
};
MESSAGE_PROTO2(wal_record, "walpb.Record", wal_record);

static const struct pb_field wal_snapshot_rows[] = {
    ALWAYS_UINT64(wal_snapshot, 1, index),
    ALWAYS_UINT64(wal_snapshot, 2, term),
    F_MESSAGE(wal_snapshot, 3, conf_state, raft_conf_state),
};
MESSAGE_PROTO2(wal_snapshot, "walpb.Snapshot", wal_snapshot);

static const struct pb_field wal_metadata_rows[] = {
    ALWAYS_UINT64(wal_metadata, 1, node_id, "NodeID"),
    ALWAYS_UINT64(wal_metadata, 2, cluster_id, "ClusterID"),
};
MESSAGE_PROTO2(wal_metadata, "etcdserverpb.Metadata", wal_metadata);

static const struct pb_field snap_file_rows[] = {
    ALWAYS_UINT32(snap_file, 1, crc),
    F_BYTES(snap_file, 2, data),
};
MESSAGE_PROTO2(snap_file, "snappb.snapshot", snap_file);

static const struct pb_field v2_request_rows[] = {
    F_UINT64(v2_request, 1, id, "ID"),
    F_STRING(v2_request, 2, method, "Method"),
    F_STRING(v2_request, 3, path, "Path"),
    F_STRING(v2_request, 4, val, "Val"),
    F_BOOL(v2_request, 5, dir, "Dir"),
    F_STRING(v2_request, 6, prev_value, "PrevValue"),
    F_UINT64(v2_request, 7, prev_index, "PrevIndex"),
    F_BOOL(v2_request, 8, prev_exist, "PrevExist"),
    F_INT64(v2_request, 9, expiration, "Expiration"),
    F_BOOL(v2_request, 10, wait, "Wait"),
    F_UINT64(v2_request, 11, since, "Since"),
    F_BOOL(v2_request, 12, recursive, "Recursive"),
    F_BOOL(v2_request, 13, sorted, "Sorted"),
    F_BOOL(v2_request, 14, quorum, "Quorum"),
    F_INT64(v2_request, 15, time, "Time"),
    F_BOOL(v2_request, 16, stream, "Stream"),
    F_BOOL(v2_request, 17, refresh, "Refresh"),
};
MESSAGE_PROTO2(v2_request, "etcdserverpb.Request", v2_request);
