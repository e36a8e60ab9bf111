/*
 * The field tables: raftpb, and walpb.Snapshot, which is a raftpb.Snapshot without its data.
 *
 * A snapshot's index, term and configuration are fields of the struct itself, and on the wire they
 * are fields of a message in the message. So the rows of raftpb.SnapshotMetadata speak of struct
 * raft_snapshot, and the row `metadata` says that this message begins where its owner does.
 */
#define ROWS_OF(name) raft_##name
#include "entry/entry_int.h"
#include "pb/schema_rows.h"

typedef struct raft_entry entry_struct;
typedef struct raft_conf_state conf_state_struct;
typedef struct raft_snapshot snapshot_metadata_struct;
typedef struct raft_snapshot snapshot_struct;
typedef struct raft_snapshot snapshot_record_struct;
typedef struct raft_message message_struct;
typedef struct raft_hard_state hard_state_struct;
typedef struct raft_conf_change conf_change_struct;
typedef struct raft_conf_change_single conf_change_single_struct;
typedef struct raft_conf_change_v2 conf_change_v2_struct;

/* An enum of ours, which is as wide as the codec's: numbers that nobody has named stay in it. */
static_assert(sizeof(enum raft_entry_type) == sizeof(int32_t), "as PB_ENUM has it");
static_assert(sizeof(enum raft_message_type) == sizeof(int32_t), "as PB_ENUM has it");
static_assert(sizeof(enum raft_conf_change_type) == sizeof(int32_t), "as PB_ENUM has it");
static_assert(sizeof(enum raft_transition) == sizeof(int32_t), "as PB_ENUM has it");
#define ROW_ENUM(o, n, m, where, type, e, ...)                                                     \
    {ROW(o, n, m, PB_ENUM, where, enum type, ##__VA_ARGS__), .choices = &e##_enum}
#define ROW_IDS(o, n, m) {ROW_ARRAY(o, n, m.count, m.at, PB_UINT64, uint64_t, #m)}
#define ROW_MESSAGES(o, n, m, count, s)                                                            \
    {ROW_COUNTED(o, n, m, count, PB_MESSAGE, s##_struct), .sub = &SCHEMA_OF(s)}

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

static const struct pb_field entry_rows[] = {
    ROW_ENUM(entry, 1, type, PB_SINGLE, raft_entry_type, entry_type, "Type"),
    F_UINT64(entry, 2, term, "Term"),
    F_UINT64(entry, 3, index, "Index"),
    F_BYTES(entry, 4, data, "Data"),
};
SCHEMA(entry, "raftpb.Entry", entry, PB_DEPTH_MAX, &raft_entry_by_hand, true, false);

static const struct pb_field conf_state_rows[] = {
    ROW_IDS(conf_state, 1, voters),          ROW_IDS(conf_state, 2, learners),
    ROW_IDS(conf_state, 3, voters_outgoing), ROW_IDS(conf_state, 4, learners_next),
    ALWAYS_BOOL(conf_state, 5, auto_leave),
};
MESSAGE_PROTO2(conf_state, "raftpb.ConfState", conf_state);

#define ROW_CONF_STATE(n)                                                                          \
    {ROW(snapshot, n, conf_state, PB_MESSAGE, PB_INSIDE, struct raft_conf_state),                  \
     .sub = &raft_conf_state_schema}

static const struct pb_field snapshot_metadata_rows[] = {
    ROW_CONF_STATE(1),
    ALWAYS_UINT64(snapshot, 2, index),
    ALWAYS_UINT64(snapshot, 3, term),
};
SCHEMA_ROWS(snapshot_metadata, "raftpb.SnapshotMetadata", snapshot, snapshot_metadata_rows,
            PB_DEPTH_MAX, NULL, true, false);

static const struct pb_field snapshot_rows[] = {
    F_BYTES(snapshot, 1, data),
    {.name = "metadata",
     .number = 2,
     .kind = PB_MESSAGE,
     .place = PB_INSIDE,
     .offset = 0,
     .sub = &raft_snapshot_metadata_schema},
};
MESSAGE_PROTO2(snapshot, "raftpb.Snapshot", snapshot);

static const struct pb_field snapshot_record_rows[] = {
    ALWAYS_UINT64(snapshot, 1, index),
    ALWAYS_UINT64(snapshot, 2, term),
    ROW_CONF_STATE(3),
};
SCHEMA_ROWS(snapshot_record, "walpb.Snapshot", snapshot, snapshot_record_rows, PB_DEPTH_MAX, NULL,
            true, false);

static const struct pb_field message_rows[] = {
    ROW_ENUM(message, 1, type, PB_ALWAYS, raft_message_type, message_type),
    F_UINT64(message, 2, to),
    F_UINT64(message, 3, from),
    F_UINT64(message, 4, term),
    F_UINT64(message, 5, log_term, "logTerm"),
    F_UINT64(message, 6, index),
    ROW_MESSAGES(message, 7, entries, entry_count, entry),
    F_UINT64(message, 8, commit),
    F_MESSAGE(message, 9, snapshot, snapshot),
    F_BOOL(message, 10, reject),
    F_UINT64(message, 11, reject_hint, "rejectHint"),
    F_BYTES(message, 12, context),
    F_UINT64(message, 13, vote),
    ROW_MESSAGES(message, 14, responses, response_count, message),
};
MESSAGE_PROTO2(message, "raftpb.Message", message);

static const struct pb_field hard_state_rows[] = {
    ALWAYS_UINT64(hard_state, 1, term),
    ALWAYS_UINT64(hard_state, 2, vote),
    ALWAYS_UINT64(hard_state, 3, commit),
};
SCHEMA(hard_state, "raftpb.HardState", hard_state, PB_DEPTH_MAX, &raft_hard_state_by_hand, true,
       false);

static const struct pb_field conf_change_rows[] = {
    F_UINT64(conf_change, 1, id),
    ROW_ENUM(conf_change, 2, type, PB_ALWAYS, raft_conf_change_type, conf_change_type),
    ALWAYS_UINT64(conf_change, 3, node_id),
    F_BYTES(conf_change, 4, context),
};
MESSAGE_PROTO2(conf_change, "raftpb.ConfChange", conf_change);

static const struct pb_field conf_change_single_rows[] = {
    ROW_ENUM(conf_change_single, 1, type, PB_ALWAYS, raft_conf_change_type, conf_change_type),
    ALWAYS_UINT64(conf_change_single, 2, node_id),
};
MESSAGE_PROTO2(conf_change_single, "raftpb.ConfChangeSingle", conf_change_single);

static const struct pb_field conf_change_v2_rows[] = {
    ROW_ENUM(conf_change_v2, 1, transition, PB_SINGLE, raft_transition, transition),
    {ROW_ARRAY(conf_change_v2, 2, change_count, changes, PB_MESSAGE,
               struct raft_conf_change_single),
     .sub = &raft_conf_change_single_schema},
    F_BYTES(conf_change_v2, 3, context),
};
MESSAGE_PROTO2(conf_change_v2, "raftpb.ConfChangeV2", conf_change_v2);
