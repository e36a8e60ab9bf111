/* The field tables of members, maintenance, auth, health, and of the commands in the log. */
#include "pb/schema_rows.h"

ENUM(alarm_type, "etcdserverpb.AlarmType", {0, "NONE"}, {1, "NOSPACE"}, {2, "CORRUPT"});
ENUM(alarm_action, "etcdserverpb.AlarmRequest.AlarmAction", {0, "GET"}, {1, "ACTIVATE"},
     {2, "DEACTIVATE"});
ENUM(downgrade_action, "etcdserverpb.DowngradeRequest.DowngradeAction", {0, "VALIDATE"},
     {1, "ENABLE"}, {2, "CANCEL"});
ENUM(permission_type, "authpb.Permission.Type", {0, "READ"}, {1, "WRITE"}, {2, "READWRITE"});
ENUM(serving_status, "grpc.health.v1.HealthCheckResponse.ServingStatus", {0, "UNKNOWN"},
     {1, "SERVING"}, {2, "NOT_SERVING"}, {3, "SERVICE_UNKNOWN"});

/* ---- Calls that send nothing, and answers that hold a header and nothing else ---- */

MESSAGE_EMPTY(status_request, "etcdserverpb.StatusRequest");
MESSAGE_EMPTY(defragment_request, "etcdserverpb.DefragmentRequest");
MESSAGE_EMPTY(hash_request, "etcdserverpb.HashRequest");
MESSAGE_EMPTY(snapshot_request, "etcdserverpb.SnapshotRequest");
MESSAGE_EMPTY(auth_enable_request, "etcdserverpb.AuthEnableRequest");
MESSAGE_EMPTY(auth_disable_request, "etcdserverpb.AuthDisableRequest");
MESSAGE_EMPTY(auth_status_request, "etcdserverpb.AuthStatusRequest");
MESSAGE_EMPTY(auth_user_list_request, "etcdserverpb.AuthUserListRequest");
MESSAGE_EMPTY(auth_role_list_request, "etcdserverpb.AuthRoleListRequest");
MESSAGE_EMPTY(health_list_request, "grpc.health.v1.HealthListRequest");
MESSAGE_EMPTY(empty_response, "etcdserverpb.EmptyResponse");

static const struct pb_field header_response_rows[] = {
    F_MESSAGE(header_response, 1, header, response_header),
};
MESSAGE(defragment_response, "etcdserverpb.DefragmentResponse", header_response);
MESSAGE(move_leader_response, "etcdserverpb.MoveLeaderResponse", header_response);
MESSAGE(auth_enable_response, "etcdserverpb.AuthEnableResponse", header_response);
MESSAGE(auth_disable_response, "etcdserverpb.AuthDisableResponse", header_response);
MESSAGE(auth_user_add_response, "etcdserverpb.AuthUserAddResponse", header_response);
MESSAGE(auth_user_delete_response, "etcdserverpb.AuthUserDeleteResponse", header_response);
MESSAGE(auth_user_change_password_response, "etcdserverpb.AuthUserChangePasswordResponse",
        header_response);
MESSAGE(auth_user_grant_role_response, "etcdserverpb.AuthUserGrantRoleResponse", header_response);
MESSAGE(auth_user_revoke_role_response, "etcdserverpb.AuthUserRevokeRoleResponse", header_response);
MESSAGE(auth_role_add_response, "etcdserverpb.AuthRoleAddResponse", header_response);
MESSAGE(auth_role_delete_response, "etcdserverpb.AuthRoleDeleteResponse", header_response);
MESSAGE(auth_role_grant_permission_response, "etcdserverpb.AuthRoleGrantPermissionResponse",
        header_response);
MESSAGE(auth_role_revoke_permission_response, "etcdserverpb.AuthRoleRevokePermissionResponse",
        header_response);

/* ---- Cluster ---- */

static const struct pb_field member_rows[] = {
    F_UINT64(member, 1, id, "ID"),
    F_STRING(member, 2, name),
    LIST_STRING(member, 3, peer_urls, "peerURLs"),
    LIST_STRING(member, 4, client_urls, "clientURLs"),
    F_BOOL(member, 5, is_learner, "isLearner"),
};
MESSAGE(member, "etcdserverpb.Member", member);

static const struct pb_field member_add_request_rows[] = {
    LIST_STRING(member_add_request, 1, peer_urls, "peerURLs"),
    F_BOOL(member_add_request, 2, is_learner, "isLearner"),
};
MESSAGE(member_add_request, "etcdserverpb.MemberAddRequest", member_add_request);

static const struct pb_field member_add_response_rows[] = {
    F_MESSAGE(member_add_response, 1, header, response_header),
    F_MESSAGE(member_add_response, 2, member, member),
    LIST_MESSAGE(member_add_response, 3, members, member),
};
MESSAGE(member_add_response, "etcdserverpb.MemberAddResponse", member_add_response);

static const struct pb_field member_id_rows[] = {F_UINT64(member_id, 1, id, "ID")};
MESSAGE(member_remove_request, "etcdserverpb.MemberRemoveRequest", member_id);
MESSAGE(member_promote_request, "etcdserverpb.MemberPromoteRequest", member_id);

static const struct pb_field members_response_rows[] = {
    F_MESSAGE(members_response, 1, header, response_header),
    LIST_MESSAGE(members_response, 2, members, member),
};
MESSAGE(member_remove_response, "etcdserverpb.MemberRemoveResponse", members_response);
MESSAGE(member_update_response, "etcdserverpb.MemberUpdateResponse", members_response);
MESSAGE(member_list_response, "etcdserverpb.MemberListResponse", members_response);
MESSAGE(member_promote_response, "etcdserverpb.MemberPromoteResponse", members_response);

static const struct pb_field member_update_request_rows[] = {
    F_UINT64(member_update_request, 1, id, "ID"),
    LIST_STRING(member_update_request, 2, peer_urls, "peerURLs"),
};
MESSAGE(member_update_request, "etcdserverpb.MemberUpdateRequest", member_update_request);

static const struct pb_field member_list_request_rows[] = {
    F_BOOL(member_list_request, 1, linearizable),
};
MESSAGE(member_list_request, "etcdserverpb.MemberListRequest", member_list_request);

/* ---- membershippb ---- */

static const struct pb_field raft_attributes_rows[] = {
    LIST_STRING(raft_attributes, 1, peer_urls),
    F_BOOL(raft_attributes, 2, is_learner),
};
MESSAGE(raft_attributes, "membershippb.RaftAttributes", raft_attributes);

static const struct pb_field attributes_rows[] = {
    F_STRING(attributes, 1, name),
    LIST_STRING(attributes, 2, client_urls),
};
MESSAGE(attributes, "membershippb.Attributes", attributes);

static const struct pb_field membership_member_rows[] = {
    F_UINT64(membership_member, 1, id, "ID"),
    F_MESSAGE(membership_member, 2, raft_attributes, raft_attributes),
    F_MESSAGE(membership_member, 3, member_attributes, attributes),
};
MESSAGE(membership_member, "membershippb.Member", membership_member);

static const struct pb_field cluster_version_set_request_rows[] = {
    F_STRING(cluster_version_set_request, 1, ver),
};
MESSAGE(cluster_version_set_request, "membershippb.ClusterVersionSetRequest",
        cluster_version_set_request);

static const struct pb_field cluster_member_attr_set_request_rows[] = {
    F_UINT64(cluster_member_attr_set_request, 1, member_id, "member_ID"),
    F_MESSAGE(cluster_member_attr_set_request, 2, member_attributes, attributes),
};
MESSAGE(cluster_member_attr_set_request, "membershippb.ClusterMemberAttrSetRequest",
        cluster_member_attr_set_request);

static const struct pb_field downgrade_info_set_request_rows[] = {
    F_BOOL(downgrade_info_set_request, 1, enabled),
    F_STRING(downgrade_info_set_request, 2, ver),
};
MESSAGE(downgrade_info_set_request, "membershippb.DowngradeInfoSetRequest",
        downgrade_info_set_request);

/* ---- Maintenance ---- */

static const struct pb_field alarm_request_rows[] = {
    F_ENUM(alarm_request, 1, action, alarm_action),
    F_UINT64(alarm_request, 2, member_id, "memberID"),
    F_ENUM(alarm_request, 3, alarm, alarm_type),
};
MESSAGE(alarm_request, "etcdserverpb.AlarmRequest", alarm_request);

static const struct pb_field alarm_member_rows[] = {
    F_UINT64(alarm_member, 1, member_id, "memberID"),
    F_ENUM(alarm_member, 2, alarm, alarm_type),
};
MESSAGE(alarm_member, "etcdserverpb.AlarmMember", alarm_member);

static const struct pb_field alarm_response_rows[] = {
    F_MESSAGE(alarm_response, 1, header, response_header),
    LIST_MESSAGE(alarm_response, 2, alarms, alarm_member),
};
MESSAGE(alarm_response, "etcdserverpb.AlarmResponse", alarm_response);

static const struct pb_field hash_response_rows[] = {
    F_MESSAGE(hash_response, 1, header, response_header),
    F_UINT32(hash_response, 2, hash),
};
MESSAGE(hash_response, "etcdserverpb.HashResponse", hash_response);

static const struct pb_field hash_kv_request_rows[] = {F_INT64(hash_kv_request, 1, revision)};
MESSAGE(hash_kv_request, "etcdserverpb.HashKVRequest", hash_kv_request);

static const struct pb_field hash_kv_response_rows[] = {
    F_MESSAGE(hash_kv_response, 1, header, response_header),
    F_UINT32(hash_kv_response, 2, hash),
    F_INT64(hash_kv_response, 3, compact_revision),
    F_INT64(hash_kv_response, 4, hash_revision),
};
MESSAGE(hash_kv_response, "etcdserverpb.HashKVResponse", hash_kv_response);

static const struct pb_field snapshot_response_rows[] = {
    F_MESSAGE(snapshot_response, 1, header, response_header),
    F_UINT64(snapshot_response, 2, remaining_bytes),
    F_BYTES(snapshot_response, 3, blob),
    F_STRING(snapshot_response, 4, version),
};
MESSAGE(snapshot_response, "etcdserverpb.SnapshotResponse", snapshot_response);

static const struct pb_field move_leader_request_rows[] = {
    F_UINT64(move_leader_request, 1, target_id, "targetID"),
};
MESSAGE(move_leader_request, "etcdserverpb.MoveLeaderRequest", move_leader_request);

static const struct pb_field downgrade_request_rows[] = {
    F_ENUM(downgrade_request, 1, action, downgrade_action),
    F_STRING(downgrade_request, 2, version),
};
MESSAGE(downgrade_request, "etcdserverpb.DowngradeRequest", downgrade_request);

static const struct pb_field downgrade_response_rows[] = {
    F_MESSAGE(downgrade_response, 1, header, response_header),
    F_STRING(downgrade_response, 2, version),
};
MESSAGE(downgrade_response, "etcdserverpb.DowngradeResponse", downgrade_response);

static const struct pb_field downgrade_version_test_request_rows[] = {
    F_STRING(downgrade_version_test_request, 1, ver),
};
MESSAGE(downgrade_version_test_request, "etcdserverpb.DowngradeVersionTestRequest",
        downgrade_version_test_request);

static const struct pb_field downgrade_info_rows[] = {
    F_BOOL(downgrade_info, 1, enabled),
    F_STRING(downgrade_info, 2, target_version, "targetVersion"),
};
MESSAGE(downgrade_info, "etcdserverpb.DowngradeInfo", downgrade_info);

static const struct pb_field status_response_rows[] = {
    F_MESSAGE(status_response, 1, header, response_header),
    F_STRING(status_response, 2, version),
    F_INT64(status_response, 3, db_size, "dbSize"),
    F_UINT64(status_response, 4, leader),
    F_UINT64(status_response, 5, raft_index, "raftIndex"),
    F_UINT64(status_response, 6, raft_term, "raftTerm"),
    F_UINT64(status_response, 7, raft_applied_index, "raftAppliedIndex"),
    LIST_STRING(status_response, 8, errors),
    F_INT64(status_response, 9, db_size_in_use, "dbSizeInUse"),
    F_BOOL(status_response, 10, is_learner, "isLearner"),
    F_STRING(status_response, 11, storage_version, "storageVersion"),
    F_INT64(status_response, 12, db_size_quota, "dbSizeQuota"),
    F_MESSAGE(status_response, 13, downgrade_info, downgrade_info, "downgradeInfo"),
};
MESSAGE(status_response, "etcdserverpb.StatusResponse", status_response);

/* ---- authpb ---- */

static const struct pb_field user_add_options_rows[] = {F_BOOL(user_add_options, 1, no_password)};
MESSAGE(user_add_options, "authpb.UserAddOptions", user_add_options);

static const struct pb_field permission_rows[] = {
    F_ENUM(permission, 1, type, permission_type, "permType"),
    F_BYTES(permission, 2, key),
    F_BYTES(permission, 3, range_end),
};
MESSAGE(permission, "authpb.Permission", permission);

static const struct pb_field user_rows[] = {
    F_BYTES(user, 1, name),
    F_BYTES(user, 2, password),
    LIST_STRING(user, 3, roles),
    F_MESSAGE(user, 4, options, user_add_options),
};
MESSAGE(user, "authpb.User", user);

static const struct pb_field role_rows[] = {
    F_BYTES(role, 1, name),
    LIST_MESSAGE(role, 2, key_permission, permission, "keyPermission"),
};
MESSAGE(role, "authpb.Role", role);

/* ---- Auth ---- */

static const struct pb_field authenticate_request_rows[] = {
    F_STRING(authenticate_request, 1, name),
    F_STRING(authenticate_request, 2, password),
};
MESSAGE(authenticate_request, "etcdserverpb.AuthenticateRequest", authenticate_request);

static const struct pb_field authenticate_response_rows[] = {
    F_MESSAGE(authenticate_response, 1, header, response_header),
    F_STRING(authenticate_response, 2, token),
};
MESSAGE(authenticate_response, "etcdserverpb.AuthenticateResponse", authenticate_response);

static const struct pb_field auth_status_response_rows[] = {
    F_MESSAGE(auth_status_response, 1, header, response_header),
    F_BOOL(auth_status_response, 2, enabled),
    F_UINT64(auth_status_response, 3, auth_revision, "authRevision"),
};
MESSAGE(auth_status_response, "etcdserverpb.AuthStatusResponse", auth_status_response);

static const struct pb_field auth_name_rows[] = {F_STRING(auth_name, 1, name)};
MESSAGE(auth_user_get_request, "etcdserverpb.AuthUserGetRequest", auth_name);
MESSAGE(auth_user_delete_request, "etcdserverpb.AuthUserDeleteRequest", auth_name);
MESSAGE(auth_role_add_request, "etcdserverpb.AuthRoleAddRequest", auth_name);

static const struct pb_field auth_role_name_rows[] = {F_STRING(auth_role_name, 1, role)};
MESSAGE(auth_role_get_request, "etcdserverpb.AuthRoleGetRequest", auth_role_name);
MESSAGE(auth_role_delete_request, "etcdserverpb.AuthRoleDeleteRequest", auth_role_name);

static const struct pb_field auth_user_add_request_rows[] = {
    F_STRING(auth_user_add_request, 1, name),
    F_STRING(auth_user_add_request, 2, password),
    F_MESSAGE(auth_user_add_request, 3, options, user_add_options),
    F_STRING(auth_user_add_request, 4, hashed_password, "hashedPassword"),
};
MESSAGE(auth_user_add_request, "etcdserverpb.AuthUserAddRequest", auth_user_add_request);

static const struct pb_field auth_user_change_password_request_rows[] = {
    F_STRING(auth_user_change_password_request, 1, name),
    F_STRING(auth_user_change_password_request, 2, password),
    F_STRING(auth_user_change_password_request, 3, hashed_password, "hashedPassword"),
};
MESSAGE(auth_user_change_password_request, "etcdserverpb.AuthUserChangePasswordRequest",
        auth_user_change_password_request);

static const struct pb_field auth_user_grant_role_request_rows[] = {
    F_STRING(auth_user_grant_role_request, 1, user),
    F_STRING(auth_user_grant_role_request, 2, role),
};
MESSAGE(auth_user_grant_role_request, "etcdserverpb.AuthUserGrantRoleRequest",
        auth_user_grant_role_request);

static const struct pb_field auth_user_revoke_role_request_rows[] = {
    F_STRING(auth_user_revoke_role_request, 1, name),
    F_STRING(auth_user_revoke_role_request, 2, role),
};
MESSAGE(auth_user_revoke_role_request, "etcdserverpb.AuthUserRevokeRoleRequest",
        auth_user_revoke_role_request);

static const struct pb_field auth_role_grant_permission_request_rows[] = {
    F_STRING(auth_role_grant_permission_request, 1, name),
    F_MESSAGE(auth_role_grant_permission_request, 2, perm, permission),
};
MESSAGE(auth_role_grant_permission_request, "etcdserverpb.AuthRoleGrantPermissionRequest",
        auth_role_grant_permission_request);

static const struct pb_field auth_role_revoke_permission_request_rows[] = {
    F_STRING(auth_role_revoke_permission_request, 1, role),
    F_BYTES(auth_role_revoke_permission_request, 2, key),
    F_BYTES(auth_role_revoke_permission_request, 3, range_end),
};
MESSAGE(auth_role_revoke_permission_request, "etcdserverpb.AuthRoleRevokePermissionRequest",
        auth_role_revoke_permission_request);

static const struct pb_field roles_response_rows[] = {
    F_MESSAGE(roles_response, 1, header, response_header),
    LIST_STRING(roles_response, 2, roles),
};
MESSAGE(auth_user_get_response, "etcdserverpb.AuthUserGetResponse", roles_response);
MESSAGE(auth_role_list_response, "etcdserverpb.AuthRoleListResponse", roles_response);

static const struct pb_field auth_user_list_response_rows[] = {
    F_MESSAGE(auth_user_list_response, 1, header, response_header),
    LIST_STRING(auth_user_list_response, 2, users),
};
MESSAGE(auth_user_list_response, "etcdserverpb.AuthUserListResponse", auth_user_list_response);

static const struct pb_field auth_role_get_response_rows[] = {
    F_MESSAGE(auth_role_get_response, 1, header, response_header),
    LIST_MESSAGE(auth_role_get_response, 2, perm, permission),
};
MESSAGE(auth_role_get_response, "etcdserverpb.AuthRoleGetResponse", auth_role_get_response);

/* ---- grpc.health.v1 ---- */

static const struct pb_field health_check_request_rows[] = {
    F_STRING(health_check_request, 1, service),
};
MESSAGE(health_check_request, "grpc.health.v1.HealthCheckRequest", health_check_request);

static const struct pb_field health_check_response_rows[] = {
    F_ENUM(health_check_response, 1, status, serving_status),
};
MESSAGE(health_check_response, "grpc.health.v1.HealthCheckResponse", health_check_response);

/* Both halves of a map's entry are written, whatever they hold. */
static const struct pb_field health_list_entry_rows[] = {
    ALWAYS_STRING(health_list_entry, 1, service, "key"),
    F_MESSAGE(health_list_entry, 2, response, health_check_response, "value"),
};
MESSAGE(health_list_entry, "grpc.health.v1.HealthListResponse.StatusesEntry", health_list_entry);

static const struct pb_field health_list_response_rows[] = {
    LIST_MESSAGE(health_list_response, 1, statuses, health_list_entry),
};
MESSAGE(health_list_response, "grpc.health.v1.HealthListResponse", health_list_response);

/* ---- The log ---- */

static const struct pb_field request_header_rows[] = {
    F_UINT64(request_header, 1, id, "ID"),
    F_STRING(request_header, 2, username),
    F_UINT64(request_header, 3, auth_revision),
};
MESSAGE_BY_HAND(request_header, "etcdserverpb.RequestHeader", request_header);

static const struct pb_field internal_authenticate_request_rows[] = {
    F_STRING(internal_authenticate_request, 1, name),
    F_STRING(internal_authenticate_request, 2, password),
    F_STRING(internal_authenticate_request, 3, simple_token),
};
MESSAGE(internal_authenticate_request, "etcdserverpb.InternalAuthenticateRequest",
        internal_authenticate_request);

#define F_COMMAND(number, member, message) F_MESSAGE(internal_raft_request, number, member, message)
static const struct pb_field internal_raft_request_rows[] = {
    F_UINT64(internal_raft_request, 1, id, "ID"),
    F_COMMAND(3, range, range_request),
    F_COMMAND(4, put, put_request),
    F_COMMAND(5, delete_range, delete_range_request),
    F_COMMAND(6, txn, txn_request),
    F_COMMAND(7, compaction, compaction_request),
    F_COMMAND(8, lease_grant, lease_grant_request),
    F_COMMAND(9, lease_revoke, lease_revoke_request),
    F_COMMAND(10, alarm, alarm_request),
    F_COMMAND(11, lease_checkpoint, lease_checkpoint_request),
    F_COMMAND(100, header, request_header),
    F_COMMAND(1000, auth_enable, auth_enable_request),
    F_COMMAND(1011, auth_disable, auth_disable_request),
    F_COMMAND(1012, authenticate, internal_authenticate_request),
    F_COMMAND(1013, auth_status, auth_status_request),
    F_COMMAND(1100, auth_user_add, auth_user_add_request),
    F_COMMAND(1101, auth_user_delete, auth_user_delete_request),
    F_COMMAND(1102, auth_user_get, auth_user_get_request),
    F_COMMAND(1103, auth_user_change_password, auth_user_change_password_request),
    F_COMMAND(1104, auth_user_grant_role, auth_user_grant_role_request),
    F_COMMAND(1105, auth_user_revoke_role, auth_user_revoke_role_request),
    F_COMMAND(1106, auth_user_list, auth_user_list_request),
    F_COMMAND(1107, auth_role_list, auth_role_list_request),
    F_COMMAND(1200, auth_role_add, auth_role_add_request),
    F_COMMAND(1201, auth_role_delete, auth_role_delete_request),
    F_COMMAND(1202, auth_role_get, auth_role_get_request),
    F_COMMAND(1203, auth_role_grant_permission, auth_role_grant_permission_request),
    F_COMMAND(1204, auth_role_revoke_permission, auth_role_revoke_permission_request),
    F_COMMAND(1300, cluster_version_set, cluster_version_set_request),
    F_COMMAND(1301, cluster_member_attr_set, cluster_member_attr_set_request),
    F_COMMAND(1302, downgrade_info_set, downgrade_info_set_request),
    F_COMMAND(9900, downgrade_version_test, downgrade_version_test_request),
};
MESSAGE_OF_COMMANDS(internal_raft_request, "etcdserverpb.InternalRaftRequest",
                    internal_raft_request);
