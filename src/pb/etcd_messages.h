/*
 * etcd_messages: what clients say and hear, and what the log carries of it.
 *
 * Plain structs, one for each protobuf message of the etcd API. Names follow the API in our
 * spelling (peerURLs is peer_urls). Bytes and strings are views, lists and sub-messages lie in an
 * arena or wherever the builder keeps them. A message that is empty or holds nothing but a header
 * shares its struct with the others of that shape.
 */
#pragma once

#include "base/bytes.h"

/* A repeated field. */
#define PB_LIST_OF(type)                                                                           \
    struct {                                                                                       \
        const type *at;                                                                            \
        size_t count;                                                                              \
    }

/* ---- Shapes that many messages share ---- */

struct pb_empty {
    uint8_t unused; /* C has no empty struct */
};

struct pb_response_header {
    uint64_t cluster_id, member_id;
    int64_t revision;
    uint64_t raft_term;
};

struct pb_header_response {
    const struct pb_response_header *header;
};

/* ---- mvccpb: keys and events, as stored and as watched ---- */

struct pb_key_value {
    struct bytes key;
    int64_t create_revision, mod_revision, version;
    struct bytes value;
    int64_t lease;
};

enum pb_event_type { PB_EVENT_PUT, PB_EVENT_DELETE };

struct pb_event {
    int32_t type; /* enum pb_event_type */
    const struct pb_key_value *kv, *prev_kv;
};

/* ---- KV ---- */

enum pb_sort_order { PB_SORT_NONE, PB_SORT_ASCEND, PB_SORT_DESCEND };
enum pb_sort_target {
    PB_SORT_BY_KEY,
    PB_SORT_BY_VERSION,
    PB_SORT_BY_CREATE,
    PB_SORT_BY_MOD,
    PB_SORT_BY_VALUE,
};

struct pb_range_request {
    struct bytes key, range_end;
    int64_t limit, revision;
    int32_t sort_order, sort_target; /* enum pb_sort_order, enum pb_sort_target */
    bool serializable, keys_only, count_only;
    int64_t min_mod_revision, max_mod_revision, min_create_revision, max_create_revision;
};

struct pb_range_response {
    const struct pb_response_header *header;
    PB_LIST_OF(struct pb_key_value) kvs;
    bool more;
    int64_t count;
};

struct pb_range_stream_response {
    const struct pb_range_response *range_response;
};

struct pb_put_request {
    struct bytes key, value;
    int64_t lease;
    bool prev_kv, ignore_value, ignore_lease;
};

struct pb_put_response {
    const struct pb_response_header *header;
    const struct pb_key_value *prev_kv;
};

struct pb_delete_range_request {
    struct bytes key, range_end;
    bool prev_kv;
};

struct pb_delete_range_response {
    const struct pb_response_header *header;
    int64_t deleted;
    PB_LIST_OF(struct pb_key_value) prev_kvs;
};

/* Which operation a RequestOp or ResponseOp holds. In every oneof the case is the field number. */
enum pb_op { PB_OP_NONE, PB_OP_RANGE, PB_OP_PUT, PB_OP_DELETE_RANGE, PB_OP_TXN };

struct pb_request_op {
    enum pb_op which;
    union {
        const struct pb_range_request *range;
        const struct pb_put_request *put;
        const struct pb_delete_range_request *delete_range;
        const struct pb_txn_request *txn;
    };
};

struct pb_response_op {
    enum pb_op which;
    union {
        const struct pb_range_response *range;
        const struct pb_put_response *put;
        const struct pb_delete_range_response *delete_range;
        const struct pb_txn_response *txn;
    };
};

enum pb_compare_result {
    PB_COMPARE_EQUAL,
    PB_COMPARE_GREATER,
    PB_COMPARE_LESS,
    PB_COMPARE_NOT_EQUAL,
};
enum pb_compare_target {
    PB_TARGET_VERSION,
    PB_TARGET_CREATE,
    PB_TARGET_MOD,
    PB_TARGET_VALUE,
    PB_TARGET_LEASE,
};
enum pb_compare_operand {
    PB_OPERAND_NONE,
    PB_OPERAND_VERSION = 4,
    PB_OPERAND_CREATE_REVISION,
    PB_OPERAND_MOD_REVISION,
    PB_OPERAND_VALUE,
    PB_OPERAND_LEASE,
};

struct pb_compare {
    int32_t result, target; /* enum pb_compare_result, enum pb_compare_target */
    struct bytes key, range_end;
    enum pb_compare_operand which;
    union {
        int64_t version, create_revision, mod_revision, lease;
        struct bytes value;
    };
};

struct pb_txn_request {
    PB_LIST_OF(struct pb_compare) compare;
    PB_LIST_OF(struct pb_request_op) success;
    PB_LIST_OF(struct pb_request_op) failure;
};

struct pb_txn_response {
    const struct pb_response_header *header;
    bool succeeded;
    PB_LIST_OF(struct pb_response_op) responses;
};

struct pb_compaction_request {
    int64_t revision;
    bool physical;
};

/* ---- Watch ---- */

enum pb_watch_filter { PB_WATCH_NO_PUT, PB_WATCH_NO_DELETE };

struct pb_watch_create_request {
    struct bytes key, range_end;
    int64_t start_revision;
    bool progress_notify;
    PB_LIST_OF(int32_t) filters; /* enum pb_watch_filter */
    bool prev_kv;
    int64_t watch_id;
    bool fragment;
};

struct pb_watch_cancel_request {
    int64_t watch_id;
};

enum pb_watch_request_case {
    PB_WATCH_NONE,
    PB_WATCH_CREATE,
    PB_WATCH_CANCEL,
    PB_WATCH_PROGRESS,
};

struct pb_watch_request {
    enum pb_watch_request_case which;
    union {
        const struct pb_watch_create_request *create;
        const struct pb_watch_cancel_request *cancel;
        const struct pb_empty *progress;
    };
};

struct pb_watch_response {
    const struct pb_response_header *header;
    int64_t watch_id;
    bool created, canceled;
    int64_t compact_revision;
    struct bytes cancel_reason;
    bool fragment;
    PB_LIST_OF(struct pb_event) events;
};

/* ---- Lease ---- */

struct pb_lease_grant_request {
    int64_t ttl, id;
};

struct pb_lease_grant_response {
    const struct pb_response_header *header;
    int64_t id, ttl;
    struct bytes error;
};

struct pb_lease_id { /* LeaseRevokeRequest, LeaseKeepAliveRequest, LeaseStatus */
    int64_t id;
};

struct pb_lease_checkpoint {
    int64_t id, remaining_ttl;
};

struct pb_lease_checkpoint_request {
    PB_LIST_OF(struct pb_lease_checkpoint) checkpoints;
};

struct pb_lease_keep_alive_response {
    const struct pb_response_header *header;
    int64_t id, ttl;
};

struct pb_lease_time_to_live_request {
    int64_t id;
    bool keys;
};

struct pb_lease_time_to_live_response {
    const struct pb_response_header *header;
    int64_t id, ttl, granted_ttl;
    PB_LIST_OF(struct bytes) keys;
};

struct pb_lease_leases_response {
    const struct pb_response_header *header;
    PB_LIST_OF(struct pb_lease_id) leases;
};

/* leasepb: the record in the store, and what a follower asks the leader over the peer port. */
struct pb_lease {
    int64_t id, ttl, remaining_ttl;
};

struct pb_lease_internal_request {
    const struct pb_lease_time_to_live_request *request;
};

struct pb_lease_internal_response {
    const struct pb_lease_time_to_live_response *response;
};

/* ---- Cluster ---- */

struct pb_member {
    uint64_t id;
    struct bytes name;
    PB_LIST_OF(struct bytes) peer_urls;
    PB_LIST_OF(struct bytes) client_urls;
    bool is_learner;
};

struct pb_member_add_request {
    PB_LIST_OF(struct bytes) peer_urls;
    bool is_learner;
};

struct pb_member_add_response {
    const struct pb_response_header *header;
    const struct pb_member *member;
    PB_LIST_OF(struct pb_member) members;
};

struct pb_member_id { /* MemberRemoveRequest, MemberPromoteRequest */
    uint64_t id;
};

struct pb_member_update_request {
    uint64_t id;
    PB_LIST_OF(struct bytes) peer_urls;
};

struct pb_member_list_request {
    bool linearizable;
};

struct pb_members_response { /* of MemberRemove, MemberUpdate, MemberList, MemberPromote */
    const struct pb_response_header *header;
    PB_LIST_OF(struct pb_member) members;
};

/* membershippb: the same facts as the log carries them. */
struct pb_raft_attributes {
    PB_LIST_OF(struct bytes) peer_urls;
    bool is_learner;
};

struct pb_attributes {
    struct bytes name;
    PB_LIST_OF(struct bytes) client_urls;
};

struct pb_membership_member {
    uint64_t id;
    const struct pb_raft_attributes *raft_attributes;
    const struct pb_attributes *member_attributes;
};

struct pb_cluster_version_set_request {
    struct bytes ver;
};

struct pb_cluster_member_attr_set_request {
    uint64_t member_id;
    const struct pb_attributes *member_attributes;
};

struct pb_downgrade_info_set_request {
    bool enabled;
    struct bytes ver;
};

/* ---- Maintenance ---- */

enum pb_alarm_type { PB_ALARM_NONE, PB_ALARM_NOSPACE, PB_ALARM_CORRUPT };
enum pb_alarm_action { PB_ALARM_GET, PB_ALARM_ACTIVATE, PB_ALARM_DEACTIVATE };

struct pb_alarm_request {
    int32_t action; /* enum pb_alarm_action */
    uint64_t member_id;
    int32_t alarm; /* enum pb_alarm_type */
};

struct pb_alarm_member {
    uint64_t member_id;
    int32_t alarm; /* enum pb_alarm_type */
};

struct pb_alarm_response {
    const struct pb_response_header *header;
    PB_LIST_OF(struct pb_alarm_member) alarms;
};

struct pb_hash_response {
    const struct pb_response_header *header;
    uint32_t hash;
};

struct pb_hash_kv_request {
    int64_t revision;
};

struct pb_hash_kv_response {
    const struct pb_response_header *header;
    uint32_t hash;
    int64_t compact_revision, hash_revision;
};

struct pb_snapshot_response {
    const struct pb_response_header *header;
    uint64_t remaining_bytes;
    struct bytes blob, version;
};

struct pb_move_leader_request {
    uint64_t target_id;
};

enum pb_downgrade_action { PB_DOWNGRADE_VALIDATE, PB_DOWNGRADE_ENABLE, PB_DOWNGRADE_CANCEL };

struct pb_downgrade_request {
    int32_t action; /* enum pb_downgrade_action */
    struct bytes version;
};

struct pb_downgrade_response {
    const struct pb_response_header *header;
    struct bytes version;
};

struct pb_downgrade_version_test_request {
    struct bytes ver;
};

struct pb_downgrade_info {
    bool enabled;
    struct bytes target_version;
};

struct pb_status_response {
    const struct pb_response_header *header;
    struct bytes version;
    int64_t db_size;
    uint64_t leader, raft_index, raft_term, raft_applied_index;
    PB_LIST_OF(struct bytes) errors;
    int64_t db_size_in_use;
    bool is_learner;
    struct bytes storage_version;
    int64_t db_size_quota;
    const struct pb_downgrade_info *downgrade_info;
};

/* ---- Auth: authpb is what the store keeps, the rest are calls ---- */

enum pb_permission_type { PB_PERMISSION_READ, PB_PERMISSION_WRITE, PB_PERMISSION_READWRITE };

struct pb_permission {
    int32_t type; /* enum pb_permission_type */
    struct bytes key, range_end;
};

struct pb_user_add_options {
    bool no_password;
};

struct pb_user {
    struct bytes name, password;
    PB_LIST_OF(struct bytes) roles;
    const struct pb_user_add_options *options;
};

struct pb_role {
    struct bytes name;
    PB_LIST_OF(struct pb_permission) key_permission;
};

struct pb_authenticate_request {
    struct bytes name, password;
};

struct pb_authenticate_response {
    const struct pb_response_header *header;
    struct bytes token;
};

struct pb_auth_status_response {
    const struct pb_response_header *header;
    bool enabled;
    uint64_t auth_revision;
};

struct pb_auth_name { /* AuthUserGetRequest, AuthUserDeleteRequest, AuthRoleAddRequest */
    struct bytes name;
};

struct pb_auth_role_name { /* AuthRoleGetRequest, AuthRoleDeleteRequest */
    struct bytes role;
};

struct pb_auth_user_add_request {
    struct bytes name, password;
    const struct pb_user_add_options *options;
    struct bytes hashed_password;
};

struct pb_auth_user_change_password_request {
    struct bytes name, password, hashed_password;
};

struct pb_auth_user_grant_role_request {
    struct bytes user, role;
};

struct pb_auth_user_revoke_role_request {
    struct bytes name, role;
};

struct pb_auth_role_grant_permission_request {
    struct bytes name;
    const struct pb_permission *perm;
};

struct pb_auth_role_revoke_permission_request {
    struct bytes role, key, range_end;
};

struct pb_roles_response { /* of UserGet and RoleList */
    const struct pb_response_header *header;
    PB_LIST_OF(struct bytes) roles;
};

struct pb_auth_user_list_response {
    const struct pb_response_header *header;
    PB_LIST_OF(struct bytes) users;
};

struct pb_auth_role_get_response {
    const struct pb_response_header *header;
    PB_LIST_OF(struct pb_permission) perm;
};

/* ---- Lock and Election ---- */

struct pb_lock_request {
    struct bytes name;
    int64_t lease;
};

struct pb_lock_response {
    const struct pb_response_header *header;
    struct bytes key;
};

struct pb_unlock_request {
    struct bytes key;
};

struct pb_leader_key {
    struct bytes name, key;
    int64_t rev, lease;
};

struct pb_campaign_request {
    struct bytes name;
    int64_t lease;
    struct bytes value;
};

struct pb_campaign_response {
    const struct pb_response_header *header;
    const struct pb_leader_key *leader;
};

struct pb_leader_request {
    struct bytes name;
};

struct pb_leader_response {
    const struct pb_response_header *header;
    const struct pb_key_value *kv;
};

struct pb_resign_request {
    const struct pb_leader_key *leader;
};

struct pb_proclaim_request {
    const struct pb_leader_key *leader;
    struct bytes value;
};

/* ---- grpc.health.v1 ---- */

enum pb_health_status {
    PB_HEALTH_UNKNOWN,
    PB_HEALTH_SERVING,
    PB_HEALTH_NOT_SERVING,
    PB_HEALTH_SERVICE_UNKNOWN,
};

struct pb_health_check_request {
    struct bytes service;
};

struct pb_health_check_response {
    int32_t status; /* enum pb_health_status */
};

struct pb_health_list_entry { /* a map on the wire is a list of these */
    struct bytes service;
    const struct pb_health_check_response *response;
};

struct pb_health_list_response {
    PB_LIST_OF(struct pb_health_list_entry) statuses;
};

/* ---- What an entry of the log says: a header and exactly one of the rest ---- */

struct pb_request_header {
    uint64_t id;
    struct bytes username;
    uint64_t auth_revision;
};

struct pb_internal_authenticate_request {
    struct bytes name, password, simple_token;
};

struct pb_internal_raft_request {
    uint64_t id; /* where very old logs keep header.id */
    const struct pb_range_request *range;
    const struct pb_put_request *put;
    const struct pb_delete_range_request *delete_range;
    const struct pb_txn_request *txn;
    const struct pb_compaction_request *compaction;
    const struct pb_lease_grant_request *lease_grant;
    const struct pb_lease_id *lease_revoke;
    const struct pb_alarm_request *alarm;
    const struct pb_lease_checkpoint_request *lease_checkpoint;
    const struct pb_request_header *header;
    const struct pb_empty *auth_enable, *auth_disable;
    const struct pb_internal_authenticate_request *authenticate;
    const struct pb_empty *auth_status;
    const struct pb_auth_user_add_request *auth_user_add;
    const struct pb_auth_name *auth_user_delete, *auth_user_get;
    const struct pb_auth_user_change_password_request *auth_user_change_password;
    const struct pb_auth_user_grant_role_request *auth_user_grant_role;
    const struct pb_auth_user_revoke_role_request *auth_user_revoke_role;
    const struct pb_empty *auth_user_list, *auth_role_list;
    const struct pb_auth_name *auth_role_add;
    const struct pb_auth_role_name *auth_role_delete, *auth_role_get;
    const struct pb_auth_role_grant_permission_request *auth_role_grant_permission;
    const struct pb_auth_role_revoke_permission_request *auth_role_revoke_permission;
    const struct pb_cluster_version_set_request *cluster_version_set;
    const struct pb_cluster_member_attr_set_request *cluster_member_attr_set;
    const struct pb_downgrade_info_set_request *downgrade_info_set;
    const struct pb_downgrade_version_test_request *downgrade_version_test;
};

/* ---- Every message: X(name of its schema and functions, struct it uses) ---- */

#define PB_KV_MESSAGES(X)                                                                          \
    X(response_header, pb_response_header)                                                         \
    X(key_value, pb_key_value)                                                                     \
    X(event, pb_event)                                                                             \
    X(range_request, pb_range_request)                                                             \
    X(range_response, pb_range_response)                                                           \
    X(range_stream_response, pb_range_stream_response)                                             \
    X(put_request, pb_put_request)                                                                 \
    X(put_response, pb_put_response)                                                               \
    X(delete_range_request, pb_delete_range_request)                                               \
    X(delete_range_response, pb_delete_range_response)                                             \
    X(request_op, pb_request_op)                                                                   \
    X(response_op, pb_response_op)                                                                 \
    X(compare, pb_compare)                                                                         \
    X(txn_request, pb_txn_request)                                                                 \
    X(txn_response, pb_txn_response)                                                               \
    X(compaction_request, pb_compaction_request)                                                   \
    X(compaction_response, pb_header_response)                                                     \
    X(watch_request, pb_watch_request)                                                             \
    X(watch_create_request, pb_watch_create_request)                                               \
    X(watch_cancel_request, pb_watch_cancel_request)                                               \
    X(watch_progress_request, pb_empty)                                                            \
    X(watch_response, pb_watch_response)                                                           \
    X(lease_grant_request, pb_lease_grant_request)                                                 \
    X(lease_grant_response, pb_lease_grant_response)                                               \
    X(lease_revoke_request, pb_lease_id)                                                           \
    X(lease_revoke_response, pb_header_response)                                                   \
    X(lease_checkpoint, pb_lease_checkpoint)                                                       \
    X(lease_checkpoint_request, pb_lease_checkpoint_request)                                       \
    X(lease_checkpoint_response, pb_header_response)                                               \
    X(lease_keep_alive_request, pb_lease_id)                                                       \
    X(lease_keep_alive_response, pb_lease_keep_alive_response)                                     \
    X(lease_time_to_live_request, pb_lease_time_to_live_request)                                   \
    X(lease_time_to_live_response, pb_lease_time_to_live_response)                                 \
    X(lease_leases_request, pb_empty)                                                              \
    X(lease_leases_response, pb_lease_leases_response)                                             \
    X(lease_status, pb_lease_id)                                                                   \
    X(lease, pb_lease)                                                                             \
    X(lease_internal_request, pb_lease_internal_request)                                           \
    X(lease_internal_response, pb_lease_internal_response)                                         \
    X(lock_request, pb_lock_request)                                                               \
    X(lock_response, pb_lock_response)                                                             \
    X(unlock_request, pb_unlock_request)                                                           \
    X(unlock_response, pb_header_response)                                                         \
    X(leader_key, pb_leader_key)                                                                   \
    X(campaign_request, pb_campaign_request)                                                       \
    X(campaign_response, pb_campaign_response)                                                     \
    X(leader_request, pb_leader_request)                                                           \
    X(leader_response, pb_leader_response)                                                         \
    X(resign_request, pb_resign_request)                                                           \
    X(resign_response, pb_header_response)                                                         \
    X(proclaim_request, pb_proclaim_request)                                                       \
    X(proclaim_response, pb_header_response)

#define PB_ADMIN_MESSAGES(X)                                                                       \
    X(member, pb_member)                                                                           \
    X(member_add_request, pb_member_add_request)                                                   \
    X(member_add_response, pb_member_add_response)                                                 \
    X(member_remove_request, pb_member_id)                                                         \
    X(member_remove_response, pb_members_response)                                                 \
    X(member_update_request, pb_member_update_request)                                             \
    X(member_update_response, pb_members_response)                                                 \
    X(member_list_request, pb_member_list_request)                                                 \
    X(member_list_response, pb_members_response)                                                   \
    X(member_promote_request, pb_member_id)                                                        \
    X(member_promote_response, pb_members_response)                                                \
    X(raft_attributes, pb_raft_attributes)                                                         \
    X(attributes, pb_attributes)                                                                   \
    X(membership_member, pb_membership_member)                                                     \
    X(cluster_version_set_request, pb_cluster_version_set_request)                                 \
    X(cluster_member_attr_set_request, pb_cluster_member_attr_set_request)                         \
    X(downgrade_info_set_request, pb_downgrade_info_set_request)                                   \
    X(alarm_request, pb_alarm_request)                                                             \
    X(alarm_member, pb_alarm_member)                                                               \
    X(alarm_response, pb_alarm_response)                                                           \
    X(status_request, pb_empty)                                                                    \
    X(status_response, pb_status_response)                                                         \
    X(defragment_request, pb_empty)                                                                \
    X(defragment_response, pb_header_response)                                                     \
    X(hash_request, pb_empty)                                                                      \
    X(hash_response, pb_hash_response)                                                             \
    X(hash_kv_request, pb_hash_kv_request)                                                         \
    X(hash_kv_response, pb_hash_kv_response)                                                       \
    X(snapshot_request, pb_empty)                                                                  \
    X(snapshot_response, pb_snapshot_response)                                                     \
    X(move_leader_request, pb_move_leader_request)                                                 \
    X(move_leader_response, pb_header_response)                                                    \
    X(downgrade_request, pb_downgrade_request)                                                     \
    X(downgrade_response, pb_downgrade_response)                                                   \
    X(downgrade_version_test_request, pb_downgrade_version_test_request)                           \
    X(downgrade_info, pb_downgrade_info)                                                           \
    X(user_add_options, pb_user_add_options)                                                       \
    X(permission, pb_permission)                                                                   \
    X(user, pb_user)                                                                               \
    X(role, pb_role)                                                                               \
    X(auth_enable_request, pb_empty)                                                               \
    X(auth_enable_response, pb_header_response)                                                    \
    X(auth_disable_request, pb_empty)                                                              \
    X(auth_disable_response, pb_header_response)                                                   \
    X(auth_status_request, pb_empty)                                                               \
    X(auth_status_response, pb_auth_status_response)                                               \
    X(authenticate_request, pb_authenticate_request)                                               \
    X(authenticate_response, pb_authenticate_response)                                             \
    X(auth_user_add_request, pb_auth_user_add_request)                                             \
    X(auth_user_add_response, pb_header_response)                                                  \
    X(auth_user_get_request, pb_auth_name)                                                         \
    X(auth_user_get_response, pb_roles_response)                                                   \
    X(auth_user_list_request, pb_empty)                                                            \
    X(auth_user_list_response, pb_auth_user_list_response)                                         \
    X(auth_user_delete_request, pb_auth_name)                                                      \
    X(auth_user_delete_response, pb_header_response)                                               \
    X(auth_user_change_password_request, pb_auth_user_change_password_request)                     \
    X(auth_user_change_password_response, pb_header_response)                                      \
    X(auth_user_grant_role_request, pb_auth_user_grant_role_request)                               \
    X(auth_user_grant_role_response, pb_header_response)                                           \
    X(auth_user_revoke_role_request, pb_auth_user_revoke_role_request)                             \
    X(auth_user_revoke_role_response, pb_header_response)                                          \
    X(auth_role_add_request, pb_auth_name)                                                         \
    X(auth_role_add_response, pb_header_response)                                                  \
    X(auth_role_get_request, pb_auth_role_name)                                                    \
    X(auth_role_get_response, pb_auth_role_get_response)                                           \
    X(auth_role_list_request, pb_empty)                                                            \
    X(auth_role_list_response, pb_roles_response)                                                  \
    X(auth_role_delete_request, pb_auth_role_name)                                                 \
    X(auth_role_delete_response, pb_header_response)                                               \
    X(auth_role_grant_permission_request, pb_auth_role_grant_permission_request)                   \
    X(auth_role_grant_permission_response, pb_header_response)                                     \
    X(auth_role_revoke_permission_request, pb_auth_role_revoke_permission_request)                 \
    X(auth_role_revoke_permission_response, pb_header_response)                                    \
    X(health_check_request, pb_health_check_request)                                               \
    X(health_check_response, pb_health_check_response)                                             \
    X(health_list_request, pb_empty)                                                               \
    X(health_list_entry, pb_health_list_entry)                                                     \
    X(health_list_response, pb_health_list_response)                                               \
    X(request_header, pb_request_header)                                                           \
    X(internal_authenticate_request, pb_internal_authenticate_request)                             \
    X(internal_raft_request, pb_internal_raft_request)                                             \
    X(empty_response, pb_empty)
