#include "api/api_int.h"

enum {
    REPLY_NONE = 0,
    REPLY_USUAL = API_REPLY_USUAL_BYTES,
    REPLY_MIDDLE = API_REPLY_MIDDLE_BYTES,
    REPLY_LARGE = API_REPLY_LARGE_BYTES,
    REPLY_STREAM = RPC_STREAM_CREDIT_BYTES_MIN,
};

#define METHOD_ROW(method, of_service, of_name, in, out, rule, reply)                              \
    {.service = (of_service),                                                                      \
     .name = (of_name),                                                                            \
     .client_streams = (in),                                                                       \
     .server_streams = (out),                                                                      \
     .reply_bytes = REPLY_##reply,                                                                 \
     .id = API_##method},
const struct rpc_method api_methods[] = {API_METHOD_LIST(METHOD_ROW)};
const size_t api_method_count = ARRAY_LEN(api_methods);
#undef METHOD_ROW

static_assert(ARRAY_LEN(api_methods) == API_METHOD_COUNT, "a row for every method");
static_assert(API_METHOD_COUNT == 52, "etcd 3.7 has that many");

/* Known, but not built yet. */
static const struct handler unsupported = {0};

static const struct handler *const handlers[API_METHOD_COUNT] = {
    [API_KV_RANGE] = &api_kv_range,
    [API_KV_RANGE_STREAM] = &api_kv_range_stream,
    [API_KV_PUT] = &api_kv_put,
    [API_KV_DELETE_RANGE] = &api_kv_delete_range,
    [API_KV_TXN] = &api_kv_txn,
    [API_KV_COMPACT] = &api_kv_compact,
    [API_WATCH_WATCH] = &api_watch_watch,
    [API_LEASE_GRANT] = &api_lease_grant,
    [API_LEASE_REVOKE] = &api_lease_revoke,
    [API_LEASE_KEEP_ALIVE] = &api_lease_keep_alive,
    [API_LEASE_TIME_TO_LIVE] = &api_lease_time_to_live,
    [API_LEASE_LEASES] = &api_lease_leases,
    [API_CLUSTER_MEMBER_ADD] = &api_cluster_member_add,
    [API_CLUSTER_MEMBER_REMOVE] = &api_cluster_member_remove,
    [API_CLUSTER_MEMBER_UPDATE] = &api_cluster_member_update,
    [API_CLUSTER_MEMBER_LIST] = &api_cluster_member_list,
    [API_CLUSTER_MEMBER_PROMOTE] = &api_cluster_member_promote,
    [API_MAINTENANCE_ALARM] = &api_maintenance_alarm,
    [API_MAINTENANCE_STATUS] = &api_maintenance_status,
    [API_MAINTENANCE_DEFRAGMENT] = &api_maintenance_defragment,
    [API_MAINTENANCE_HASH] = &api_maintenance_hash,
    [API_MAINTENANCE_HASH_KV] = &api_maintenance_hash_kv,
    [API_MAINTENANCE_MOVE_LEADER] = &api_maintenance_move_leader,
    [API_MAINTENANCE_SNAPSHOT] = &api_maintenance_snapshot,
    [API_MAINTENANCE_DOWNGRADE] = &api_maintenance_downgrade,
    [API_LOCK_LOCK] = &api_lock_lock,
    [API_LOCK_UNLOCK] = &api_lock_unlock,
    [API_ELECTION_CAMPAIGN] = &api_election_campaign,
    [API_ELECTION_PROCLAIM] = &api_election_proclaim,
    [API_ELECTION_LEADER] = &api_election_leader,
    [API_ELECTION_OBSERVE] = &api_election_observe,
    [API_ELECTION_RESIGN] = &api_election_resign,
    [API_AUTH_ENABLE] = &api_auth_enable,
    [API_AUTH_DISABLE] = &api_auth_disable,
    [API_AUTH_STATUS] = &api_auth_status,
    [API_AUTH_AUTHENTICATE] = &api_auth_authenticate,
    [API_AUTH_USER_ADD] = &api_auth_user_add,
    [API_AUTH_USER_GET] = &api_auth_user_get,
    [API_AUTH_USER_LIST] = &api_auth_user_list,
    [API_AUTH_USER_DELETE] = &api_auth_user_delete,
    [API_AUTH_USER_CHANGE_PASSWORD] = &api_auth_user_change_password,
    [API_AUTH_USER_GRANT_ROLE] = &api_auth_user_grant_role,
    [API_AUTH_USER_REVOKE_ROLE] = &api_auth_user_revoke_role,
    [API_AUTH_ROLE_ADD] = &api_auth_role_add,
    [API_AUTH_ROLE_GET] = &api_auth_role_get,
    [API_AUTH_ROLE_LIST] = &api_auth_role_list,
    [API_AUTH_ROLE_DELETE] = &api_auth_role_delete,
    [API_AUTH_ROLE_GRANT_PERMISSION] = &api_auth_role_grant_permission,
    [API_AUTH_ROLE_REVOKE_PERMISSION] = &api_auth_role_revoke_permission,
    [API_HEALTH_CHECK] = &api_health_check,
    [API_HEALTH_LIST] = &api_health_list,
    [API_HEALTH_WATCH] = &api_health_watch,
};

const struct handler *api_handler_of(enum api_method method)
{
    assert(method < API_METHOD_COUNT);

    return handlers[method] ? handlers[method] : &unsupported;
}
