/* The field tables of keys, transactions, watches, leases, locks and elections. */
#include "pb/schema_rows.h"

ENUM(event_type, "mvccpb.Event.EventType", {0, "PUT"}, {1, "DELETE"});
ENUM(sort_order, "etcdserverpb.RangeRequest.SortOrder", {0, "NONE"}, {1, "ASCEND"}, {2, "DESCEND"});
ENUM(sort_target, "etcdserverpb.RangeRequest.SortTarget", {0, "KEY"}, {1, "VERSION"}, {2, "CREATE"},
     {3, "MOD"}, {4, "VALUE"});
ENUM(compare_result, "etcdserverpb.Compare.CompareResult", {0, "EQUAL"}, {1, "GREATER"},
     {2, "LESS"}, {3, "NOT_EQUAL"});
ENUM(compare_target, "etcdserverpb.Compare.CompareTarget", {0, "VERSION"}, {1, "CREATE"},
     {2, "MOD"}, {3, "VALUE"}, {4, "LEASE"});
ENUM(filter_type, "etcdserverpb.WatchCreateRequest.FilterType", {0, "NOPUT"}, {1, "NODELETE"});

/* ---- Shared shapes ---- */

static const struct pb_field response_header_rows[] = {
    F_UINT64(response_header, 1, cluster_id),
    F_UINT64(response_header, 2, member_id),
    F_INT64(response_header, 3, revision),
    F_UINT64(response_header, 4, raft_term),
};
MESSAGE_BY_HAND(response_header, "etcdserverpb.ResponseHeader", response_header);

static const struct pb_field header_response_rows[] = {
    F_MESSAGE(header_response, 1, header, response_header),
};
MESSAGE(compaction_response, "etcdserverpb.CompactionResponse", header_response);
MESSAGE(lease_revoke_response, "etcdserverpb.LeaseRevokeResponse", header_response);
MESSAGE(lease_checkpoint_response, "etcdserverpb.LeaseCheckpointResponse", header_response);
MESSAGE(unlock_response, "v3lockpb.UnlockResponse", header_response);
MESSAGE(resign_response, "v3electionpb.ResignResponse", header_response);
MESSAGE(proclaim_response, "v3electionpb.ProclaimResponse", header_response);

/* ---- mvccpb ---- */

static const struct pb_field key_value_rows[] = {
    F_BYTES(key_value, 1, key),          F_INT64(key_value, 2, create_revision),
    F_INT64(key_value, 3, mod_revision), F_INT64(key_value, 4, version),
    F_BYTES(key_value, 5, value),        F_INT64(key_value, 6, lease),
};
MESSAGE_BY_HAND(key_value, "mvccpb.KeyValue", key_value);

static const struct pb_field event_rows[] = {
    F_ENUM(event, 1, type, event_type),
    F_MESSAGE(event, 2, kv, key_value),
    F_MESSAGE(event, 3, prev_kv, key_value),
};
MESSAGE(event, "mvccpb.Event", event);

/* ---- KV ---- */

static const struct pb_field range_request_rows[] = {
    F_BYTES(range_request, 1, key),
    F_BYTES(range_request, 2, range_end),
    F_INT64(range_request, 3, limit),
    F_INT64(range_request, 4, revision),
    F_ENUM(range_request, 5, sort_order, sort_order),
    F_ENUM(range_request, 6, sort_target, sort_target),
    F_BOOL(range_request, 7, serializable),
    F_BOOL(range_request, 8, keys_only),
    F_BOOL(range_request, 9, count_only),
    F_INT64(range_request, 10, min_mod_revision),
    F_INT64(range_request, 11, max_mod_revision),
    F_INT64(range_request, 12, min_create_revision),
    F_INT64(range_request, 13, max_create_revision),
};
MESSAGE_BY_HAND(range_request, "etcdserverpb.RangeRequest", range_request);

static const struct pb_field range_response_rows[] = {
    F_MESSAGE(range_response, 1, header, response_header),
    LIST_MESSAGE(range_response, 2, kvs, key_value),
    F_BOOL(range_response, 3, more),
    F_INT64(range_response, 4, count),
};
MESSAGE(range_response, "etcdserverpb.RangeResponse", range_response);

static const struct pb_field range_stream_response_rows[] = {
    F_MESSAGE(range_stream_response, 1, range_response, range_response),
};
MESSAGE(range_stream_response, "etcdserverpb.RangeStreamResponse", range_stream_response);

static const struct pb_field put_request_rows[] = {
    F_BYTES(put_request, 1, key),         F_BYTES(put_request, 2, value),
    F_INT64(put_request, 3, lease),       F_BOOL(put_request, 4, prev_kv),
    F_BOOL(put_request, 5, ignore_value), F_BOOL(put_request, 6, ignore_lease),
};
MESSAGE_BY_HAND(put_request, "etcdserverpb.PutRequest", put_request);

static const struct pb_field put_response_rows[] = {
    F_MESSAGE(put_response, 1, header, response_header),
    F_MESSAGE(put_response, 2, prev_kv, key_value),
};
MESSAGE(put_response, "etcdserverpb.PutResponse", put_response);

static const struct pb_field delete_range_request_rows[] = {
    F_BYTES(delete_range_request, 1, key),
    F_BYTES(delete_range_request, 2, range_end),
    F_BOOL(delete_range_request, 3, prev_kv),
};
MESSAGE_BY_HAND(delete_range_request, "etcdserverpb.DeleteRangeRequest", delete_range_request);

static const struct pb_field delete_range_response_rows[] = {
    F_MESSAGE(delete_range_response, 1, header, response_header),
    F_INT64(delete_range_response, 2, deleted),
    LIST_MESSAGE(delete_range_response, 3, prev_kvs, key_value),
};
MESSAGE(delete_range_response, "etcdserverpb.DeleteRangeResponse", delete_range_response);

static const struct pb_field request_op_rows[] = {
    ONE_MESSAGE(request_op, 1, range, range_request, "request_range"),
    ONE_MESSAGE(request_op, 2, put, put_request, "request_put"),
    ONE_MESSAGE(request_op, 3, delete_range, delete_range_request, "request_delete_range"),
    ONE_MESSAGE(request_op, 4, txn, txn_request, "request_txn"),
};
MESSAGE(request_op, "etcdserverpb.RequestOp", request_op);

static const struct pb_field response_op_rows[] = {
    ONE_MESSAGE(response_op, 1, range, range_response, "response_range"),
    ONE_MESSAGE(response_op, 2, put, put_response, "response_put"),
    ONE_MESSAGE(response_op, 3, delete_range, delete_range_response, "response_delete_range"),
    ONE_MESSAGE(response_op, 4, txn, txn_response, "response_txn"),
};
MESSAGE(response_op, "etcdserverpb.ResponseOp", response_op);

static const struct pb_field compare_rows[] = {
    F_ENUM(compare, 1, result, compare_result),
    F_ENUM(compare, 2, target, compare_target),
    F_BYTES(compare, 3, key),
    ONE_INT64(compare, 4, version),
    ONE_INT64(compare, 5, create_revision),
    ONE_INT64(compare, 6, mod_revision),
    ONE_BYTES(compare, 7, value),
    ONE_INT64(compare, 8, lease),
    F_BYTES(compare, 64, range_end),
};
MESSAGE_BY_HAND(compare, "etcdserverpb.Compare", compare);

static const struct pb_field txn_request_rows[] = {
    LIST_MESSAGE(txn_request, 1, compare, compare),
    LIST_MESSAGE(txn_request, 2, success, request_op),
    LIST_MESSAGE(txn_request, 3, failure, request_op),
};
MESSAGE(txn_request, "etcdserverpb.TxnRequest", txn_request);

/* The answer to the deepest transaction is deeper than the question, and has the log's bound. */
static const struct pb_field txn_response_rows[] = {
    F_MESSAGE(txn_response, 1, header, response_header),
    F_BOOL(txn_response, 2, succeeded),
    LIST_MESSAGE(txn_response, 3, responses, response_op),
};
MESSAGE_DEEP(txn_response, "etcdserverpb.TxnResponse", txn_response);

static const struct pb_field compaction_request_rows[] = {
    F_INT64(compaction_request, 1, revision),
    F_BOOL(compaction_request, 2, physical),
};
MESSAGE(compaction_request, "etcdserverpb.CompactionRequest", compaction_request);

/* ---- Watch ---- */

static const struct pb_field watch_create_request_rows[] = {
    F_BYTES(watch_create_request, 1, key),
    F_BYTES(watch_create_request, 2, range_end),
    F_INT64(watch_create_request, 3, start_revision),
    F_BOOL(watch_create_request, 4, progress_notify),
    LIST_ENUM(watch_create_request, 5, filters, filter_type),
    F_BOOL(watch_create_request, 6, prev_kv),
    F_INT64(watch_create_request, 7, watch_id),
    F_BOOL(watch_create_request, 8, fragment),
};
MESSAGE(watch_create_request, "etcdserverpb.WatchCreateRequest", watch_create_request);

static const struct pb_field watch_cancel_request_rows[] = {
    F_INT64(watch_cancel_request, 1, watch_id),
};
MESSAGE(watch_cancel_request, "etcdserverpb.WatchCancelRequest", watch_cancel_request);
MESSAGE_EMPTY(watch_progress_request, "etcdserverpb.WatchProgressRequest");

static const struct pb_field watch_request_rows[] = {
    ONE_MESSAGE(watch_request, 1, create, watch_create_request, "create_request"),
    ONE_MESSAGE(watch_request, 2, cancel, watch_cancel_request, "cancel_request"),
    ONE_MESSAGE(watch_request, 3, progress, watch_progress_request, "progress_request"),
};
MESSAGE(watch_request, "etcdserverpb.WatchRequest", watch_request);

static const struct pb_field watch_response_rows[] = {
    F_MESSAGE(watch_response, 1, header, response_header),
    F_INT64(watch_response, 2, watch_id),
    F_BOOL(watch_response, 3, created),
    F_BOOL(watch_response, 4, canceled),
    F_INT64(watch_response, 5, compact_revision),
    F_STRING(watch_response, 6, cancel_reason),
    F_BOOL(watch_response, 7, fragment),
    LIST_MESSAGE(watch_response, 11, events, event),
};
MESSAGE(watch_response, "etcdserverpb.WatchResponse", watch_response);

/* ---- Lease ---- */

static const struct pb_field lease_grant_request_rows[] = {
    F_INT64(lease_grant_request, 1, ttl, "TTL"),
    F_INT64(lease_grant_request, 2, id, "ID"),
};
MESSAGE(lease_grant_request, "etcdserverpb.LeaseGrantRequest", lease_grant_request);

static const struct pb_field lease_grant_response_rows[] = {
    F_MESSAGE(lease_grant_response, 1, header, response_header),
    F_INT64(lease_grant_response, 2, id, "ID"),
    F_INT64(lease_grant_response, 3, ttl, "TTL"),
    F_STRING(lease_grant_response, 4, error),
};
MESSAGE(lease_grant_response, "etcdserverpb.LeaseGrantResponse", lease_grant_response);

static const struct pb_field lease_id_rows[] = {F_INT64(lease_id, 1, id, "ID")};
MESSAGE(lease_revoke_request, "etcdserverpb.LeaseRevokeRequest", lease_id);
MESSAGE(lease_keep_alive_request, "etcdserverpb.LeaseKeepAliveRequest", lease_id);
MESSAGE(lease_status, "etcdserverpb.LeaseStatus", lease_id);

static const struct pb_field lease_checkpoint_rows[] = {
    F_INT64(lease_checkpoint, 1, id, "ID"),
    F_INT64(lease_checkpoint, 2, remaining_ttl, "remaining_TTL"),
};
MESSAGE(lease_checkpoint, "etcdserverpb.LeaseCheckpoint", lease_checkpoint);

static const struct pb_field lease_checkpoint_request_rows[] = {
    LIST_MESSAGE(lease_checkpoint_request, 1, checkpoints, lease_checkpoint),
};
MESSAGE(lease_checkpoint_request, "etcdserverpb.LeaseCheckpointRequest", lease_checkpoint_request);

static const struct pb_field lease_keep_alive_response_rows[] = {
    F_MESSAGE(lease_keep_alive_response, 1, header, response_header),
    F_INT64(lease_keep_alive_response, 2, id, "ID"),
    F_INT64(lease_keep_alive_response, 3, ttl, "TTL"),
};
MESSAGE(lease_keep_alive_response, "etcdserverpb.LeaseKeepAliveResponse",
        lease_keep_alive_response);

static const struct pb_field lease_time_to_live_request_rows[] = {
    F_INT64(lease_time_to_live_request, 1, id, "ID"),
    F_BOOL(lease_time_to_live_request, 2, keys),
};
MESSAGE(lease_time_to_live_request, "etcdserverpb.LeaseTimeToLiveRequest",
        lease_time_to_live_request);

static const struct pb_field lease_time_to_live_response_rows[] = {
    F_MESSAGE(lease_time_to_live_response, 1, header, response_header),
    F_INT64(lease_time_to_live_response, 2, id, "ID"),
    F_INT64(lease_time_to_live_response, 3, ttl, "TTL"),
    F_INT64(lease_time_to_live_response, 4, granted_ttl, "grantedTTL"),
    LIST_BYTES(lease_time_to_live_response, 5, keys),
};
MESSAGE(lease_time_to_live_response, "etcdserverpb.LeaseTimeToLiveResponse",
        lease_time_to_live_response);

MESSAGE_EMPTY(lease_leases_request, "etcdserverpb.LeaseLeasesRequest");

static const struct pb_field lease_leases_response_rows[] = {
    F_MESSAGE(lease_leases_response, 1, header, response_header),
    LIST_MESSAGE(lease_leases_response, 2, leases, lease_status),
};
MESSAGE(lease_leases_response, "etcdserverpb.LeaseLeasesResponse", lease_leases_response);

static const struct pb_field lease_rows[] = {
    F_INT64(lease, 1, id, "ID"),
    F_INT64(lease, 2, ttl, "TTL"),
    F_INT64(lease, 3, remaining_ttl, "RemainingTTL"),
};
MESSAGE(lease, "leasepb.Lease", lease);

static const struct pb_field lease_internal_request_rows[] = {
    F_MESSAGE(lease_internal_request, 1, request, lease_time_to_live_request,
              "LeaseTimeToLiveRequest"),
};
MESSAGE(lease_internal_request, "leasepb.LeaseInternalRequest", lease_internal_request);

static const struct pb_field lease_internal_response_rows[] = {
    F_MESSAGE(lease_internal_response, 1, response, lease_time_to_live_response,
              "LeaseTimeToLiveResponse"),
};
MESSAGE(lease_internal_response, "leasepb.LeaseInternalResponse", lease_internal_response);

/* ---- Lock and Election ---- */

static const struct pb_field lock_request_rows[] = {
    F_BYTES(lock_request, 1, name),
    F_INT64(lock_request, 2, lease),
};
MESSAGE(lock_request, "v3lockpb.LockRequest", lock_request);

static const struct pb_field lock_response_rows[] = {
    F_MESSAGE(lock_response, 1, header, response_header),
    F_BYTES(lock_response, 2, key),
};
MESSAGE(lock_response, "v3lockpb.LockResponse", lock_response);

static const struct pb_field unlock_request_rows[] = {F_BYTES(unlock_request, 1, key)};
MESSAGE(unlock_request, "v3lockpb.UnlockRequest", unlock_request);

static const struct pb_field leader_key_rows[] = {
    F_BYTES(leader_key, 1, name),
    F_BYTES(leader_key, 2, key),
    F_INT64(leader_key, 3, rev),
    F_INT64(leader_key, 4, lease),
};
MESSAGE(leader_key, "v3electionpb.LeaderKey", leader_key);

static const struct pb_field campaign_request_rows[] = {
    F_BYTES(campaign_request, 1, name),
    F_INT64(campaign_request, 2, lease),
    F_BYTES(campaign_request, 3, value),
};
MESSAGE(campaign_request, "v3electionpb.CampaignRequest", campaign_request);

static const struct pb_field campaign_response_rows[] = {
    F_MESSAGE(campaign_response, 1, header, response_header),
    F_MESSAGE(campaign_response, 2, leader, leader_key),
};
MESSAGE(campaign_response, "v3electionpb.CampaignResponse", campaign_response);

static const struct pb_field leader_request_rows[] = {F_BYTES(leader_request, 1, name)};
MESSAGE(leader_request, "v3electionpb.LeaderRequest", leader_request);

static const struct pb_field leader_response_rows[] = {
    F_MESSAGE(leader_response, 1, header, response_header),
    F_MESSAGE(leader_response, 2, kv, key_value),
};
MESSAGE(leader_response, "v3electionpb.LeaderResponse", leader_response);

static const struct pb_field resign_request_rows[] = {
    F_MESSAGE(resign_request, 1, leader, leader_key),
};
MESSAGE(resign_request, "v3electionpb.ResignRequest", resign_request);

static const struct pb_field proclaim_request_rows[] = {
    F_MESSAGE(proclaim_request, 1, leader, leader_key),
    F_BYTES(proclaim_request, 2, value),
};
MESSAGE(proclaim_request, "v3electionpb.ProclaimRequest", proclaim_request);
