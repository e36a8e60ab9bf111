/* The field tables of what stands around a log and its snapshots. */
#include "pb/schema_rows.h"

static const struct pb_field wal_record_rows[] = {
    ALWAYS_INT64(wal_record, 1, type),
    ALWAYS_UINT32(wal_record, 2, crc),
    F_BYTES(wal_record, 3, data),
};
MESSAGE_PROTO2(wal_record, "walpb.Record", wal_record);

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
