#include "gateway/gateway.h"

#include "base/assert.h"
#include "base/mem.h"
#include "pb/codec.h"

#define STREAM(where, call, name, which)                                                           \
    {.path = (where),                                                                              \
     .method = (call),                                                                             \
     .request = &pb_##name##_request_schema,                                                       \
     .response = &pb_##name##_response_schema,                                                     \
     .kind = (which)}
#define ROUTE(where, call, name) STREAM(where, call, name, GATEWAY_UNARY)

const struct gateway_route gateway_routes[] = {
    ROUTE("/v3/kv/range", "/etcdserverpb.KV/Range", range),
    ROUTE("/v3/kv/put", "/etcdserverpb.KV/Put", put),
    ROUTE("/v3/kv/deleterange", "/etcdserverpb.KV/DeleteRange", delete_range),
    ROUTE("/v3/kv/txn", "/etcdserverpb.KV/Txn", txn),
    ROUTE("/v3/kv/compaction", "/etcdserverpb.KV/Compact", compaction),
    STREAM("/v3/watch", "/etcdserverpb.Watch/Watch", watch, GATEWAY_BOTH_STREAM),
    ROUTE("/v3/lease/grant", "/etcdserverpb.Lease/LeaseGrant", lease_grant),
    ROUTE("/v3/lease/revoke", "/etcdserverpb.Lease/LeaseRevoke", lease_revoke),
    ROUTE("/v3/kv/lease/revoke", "/etcdserverpb.Lease/LeaseRevoke", lease_revoke),
    STREAM("/v3/lease/keepalive", "/etcdserverpb.Lease/LeaseKeepAlive", lease_keep_alive,
           GATEWAY_BOTH_STREAM),
    ROUTE("/v3/lease/timetolive", "/etcdserverpb.Lease/LeaseTimeToLive", lease_time_to_live),
    ROUTE("/v3/kv/lease/timetolive", "/etcdserverpb.Lease/LeaseTimeToLive", lease_time_to_live),
    ROUTE("/v3/lease/leases", "/etcdserverpb.Lease/LeaseLeases", lease_leases),
    ROUTE("/v3/kv/lease/leases", "/etcdserverpb.Lease/LeaseLeases", lease_leases),
    ROUTE("/v3/cluster/member/add", "/etcdserverpb.Cluster/MemberAdd", member_add),
    ROUTE("/v3/cluster/member/remove", "/etcdserverpb.Cluster/MemberRemove", member_remove),
    ROUTE("/v3/cluster/member/update", "/etcdserverpb.Cluster/MemberUpdate", member_update),
    ROUTE("/v3/cluster/member/list", "/etcdserverpb.Cluster/MemberList", member_list),
    ROUTE("/v3/cluster/member/promote", "/etcdserverpb.Cluster/MemberPromote", member_promote),
    ROUTE("/v3/maintenance/alarm", "/etcdserverpb.Maintenance/Alarm", alarm),
    ROUTE("/v3/maintenance/status", "/etcdserverpb.Maintenance/Status", status),
    ROUTE("/v3/maintenance/defragment", "/etcdserverpb.Maintenance/Defragment", defragment),
    ROUTE("/v3/maintenance/hash", "/etcdserverpb.Maintenance/Hash", hash),
    ROUTE("/v3/maintenance/hashkv", "/etcdserverpb.Maintenance/HashKV", hash_kv),
    STREAM("/v3/maintenance/snapshot", "/etcdserverpb.Maintenance/Snapshot", snapshot,
           GATEWAY_SERVER_STREAMS),
    ROUTE("/v3/maintenance/transfer-leadership", "/etcdserverpb.Maintenance/MoveLeader",
          move_leader),
    ROUTE("/v3/maintenance/downgrade", "/etcdserverpb.Maintenance/Downgrade", downgrade),
    ROUTE("/v3/auth/enable", "/etcdserverpb.Auth/AuthEnable", auth_enable),
    ROUTE("/v3/auth/disable", "/etcdserverpb.Auth/AuthDisable", auth_disable),
    ROUTE("/v3/auth/status", "/etcdserverpb.Auth/AuthStatus", auth_status),
    ROUTE("/v3/auth/authenticate", "/etcdserverpb.Auth/Authenticate", authenticate),
    ROUTE("/v3/auth/user/add", "/etcdserverpb.Auth/UserAdd", auth_user_add),
    ROUTE("/v3/auth/user/get", "/etcdserverpb.Auth/UserGet", auth_user_get),
    ROUTE("/v3/auth/user/list", "/etcdserverpb.Auth/UserList", auth_user_list),
    ROUTE("/v3/auth/user/delete", "/etcdserverpb.Auth/UserDelete", auth_user_delete),
    ROUTE("/v3/auth/user/changepw", "/etcdserverpb.Auth/UserChangePassword",
          auth_user_change_password),
    ROUTE("/v3/auth/user/grant", "/etcdserverpb.Auth/UserGrantRole", auth_user_grant_role),
    ROUTE("/v3/auth/user/revoke", "/etcdserverpb.Auth/UserRevokeRole", auth_user_revoke_role),
    ROUTE("/v3/auth/role/add", "/etcdserverpb.Auth/RoleAdd", auth_role_add),
    ROUTE("/v3/auth/role/get", "/etcdserverpb.Auth/RoleGet", auth_role_get),
    ROUTE("/v3/auth/role/list", "/etcdserverpb.Auth/RoleList", auth_role_list),
    ROUTE("/v3/auth/role/delete", "/etcdserverpb.Auth/RoleDelete", auth_role_delete),
    ROUTE("/v3/auth/role/grant", "/etcdserverpb.Auth/RoleGrantPermission",
          auth_role_grant_permission),
    ROUTE("/v3/auth/role/revoke", "/etcdserverpb.Auth/RoleRevokePermission",
          auth_role_revoke_permission),
    ROUTE("/v3/lock/lock", "/v3lockpb.Lock/Lock", lock),
    ROUTE("/v3/lock/unlock", "/v3lockpb.Lock/Unlock", unlock),
    ROUTE("/v3/election/campaign", "/v3electionpb.Election/Campaign", campaign),
    ROUTE("/v3/election/proclaim", "/v3electionpb.Election/Proclaim", proclaim),
    ROUTE("/v3/election/leader", "/v3electionpb.Election/Leader", leader),
    STREAM("/v3/election/observe", "/v3electionpb.Election/Observe", leader,
           GATEWAY_SERVER_STREAMS),
    ROUTE("/v3/election/resign", "/v3electionpb.Election/Resign", resign),
};
const size_t gateway_route_count = ARRAY_LEN(gateway_routes);

#define V3 BYTES("/v3/")

bool gateway_has_path(struct bytes path)
{
    return bytes_starts_with(path, V3);
}

const struct gateway_route *gateway_route_find(struct bytes path)
{
    assert(gateway_has_path(path));

    for (size_t i = 0; i < gateway_route_count; i++)
        if (bytes_equal(bytes_of_str(gateway_routes[i].path), path))
            return &gateway_routes[i];
    return NULL;
}
