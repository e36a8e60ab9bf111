/*
 * methods: every RPC that an etcd 3.7 client may call, one row each.
 *
 * A row says how its streams go and which rule of authorization it falls under. A method cannot be
 * added without one: the column is there, and auth_decide has a case for every rule.
 *
 * A user who lists the leases needs to be allowed to read the keys of each: that is decided one by
 * one, as they are listed (lease.c).
 *
 * And which size of reply is charged for it before it is let in (rpc/budget.c):
 *
 *     USUAL    a few fields, or a range, of which no more than that is held as bytes
 *     MIDDLE   several of them: a transaction; a list of members
 *     LARGE    a list that nothing bounds, as roles are; or a key's whole value
 *     STREAM   the least credit of a stream, whose end is near
 *     NONE     nothing: a stream that may stay for ever, and what waits for other clients
 *
 * A reply that may be larger is asked for by its own code (api_call_reserve).
 */
#pragma once

/* X(id, service, name, client streams, server streams, rule, reply) */
#define API_METHOD_LIST(X)                                                                         \
    X(KV_RANGE, "etcdserverpb.KV", "Range", false, false, READ_RANGE, USUAL)                       \
    X(KV_RANGE_STREAM, "etcdserverpb.KV", "RangeStream", false, true, READ_RANGE, STREAM)          \
    X(KV_PUT, "etcdserverpb.KV", "Put", false, false, WRITE_KEY, USUAL)                            \
    X(KV_DELETE_RANGE, "etcdserverpb.KV", "DeleteRange", false, false, WRITE_RANGE, USUAL)         \
    X(KV_TXN, "etcdserverpb.KV", "Txn", false, false, TXN, MIDDLE)                                 \
    X(KV_COMPACT, "etcdserverpb.KV", "Compact", false, false, ROOT, USUAL)                         \
    X(WATCH_WATCH, "etcdserverpb.Watch", "Watch", true, true, WATCH, NONE)                         \
    X(LEASE_GRANT, "etcdserverpb.Lease", "LeaseGrant", false, false, ANY_USER, USUAL)              \
    X(LEASE_REVOKE, "etcdserverpb.Lease", "LeaseRevoke", false, false, WRITE_LEASE, USUAL)         \
    X(LEASE_KEEP_ALIVE, "etcdserverpb.Lease", "LeaseKeepAlive", true, true, WRITE_LEASE, NONE)     \
    X(LEASE_TIME_TO_LIVE, "etcdserverpb.Lease", "LeaseTimeToLive", false, false, READ_LEASE,       \
      USUAL)                                                                                       \
    X(LEASE_LEASES, "etcdserverpb.Lease", "LeaseLeases", false, false, ANY_USER, USUAL)            \
    X(CLUSTER_MEMBER_ADD, "etcdserverpb.Cluster", "MemberAdd", false, false, ROOT, MIDDLE)         \
    X(CLUSTER_MEMBER_REMOVE, "etcdserverpb.Cluster", "MemberRemove", false, false, ROOT, MIDDLE)   \
    X(CLUSTER_MEMBER_UPDATE, "etcdserverpb.Cluster", "MemberUpdate", false, false, ROOT, MIDDLE)   \
    X(CLUSTER_MEMBER_LIST, "etcdserverpb.Cluster", "MemberList", false, false, ANY_USER, MIDDLE)   \
    X(CLUSTER_MEMBER_PROMOTE, "etcdserverpb.Cluster", "MemberPromote", false, false, ROOT, MIDDLE) \
    X(MAINTENANCE_ALARM, "etcdserverpb.Maintenance", "Alarm", false, false, ALARM, MIDDLE)         \
    X(MAINTENANCE_STATUS, "etcdserverpb.Maintenance", "Status", false, false, ANY_USER, USUAL)     \
    X(MAINTENANCE_DEFRAGMENT, "etcdserverpb.Maintenance", "Defragment", false, false, ROOT, USUAL) \
    X(MAINTENANCE_HASH, "etcdserverpb.Maintenance", "Hash", false, false, ROOT, USUAL)             \
    X(MAINTENANCE_HASH_KV, "etcdserverpb.Maintenance", "HashKV", false, false, ROOT, USUAL)        \
    X(MAINTENANCE_SNAPSHOT, "etcdserverpb.Maintenance", "Snapshot", false, true, ROOT, STREAM)     \
    X(MAINTENANCE_MOVE_LEADER, "etcdserverpb.Maintenance", "MoveLeader", false, false, ROOT,       \
      USUAL)                                                                                       \
    X(MAINTENANCE_DOWNGRADE, "etcdserverpb.Maintenance", "Downgrade", false, false, ROOT, USUAL)   \
    X(AUTH_ENABLE, "etcdserverpb.Auth", "AuthEnable", false, false, ROOT, USUAL)                   \
    X(AUTH_DISABLE, "etcdserverpb.Auth", "AuthDisable", false, false, ROOT, USUAL)                 \
    X(AUTH_STATUS, "etcdserverpb.Auth", "AuthStatus", false, false, ANYBODY, USUAL)                \
    X(AUTH_AUTHENTICATE, "etcdserverpb.Auth", "Authenticate", false, false, ANYBODY, USUAL)        \
    X(AUTH_USER_ADD, "etcdserverpb.Auth", "UserAdd", false, false, ROOT, USUAL)                    \
    X(AUTH_USER_GET, "etcdserverpb.Auth", "UserGet", false, false, ROOT_OR_SELF, LARGE)            \
    X(AUTH_USER_LIST, "etcdserverpb.Auth", "UserList", false, false, ROOT, LARGE)                  \
    X(AUTH_USER_DELETE, "etcdserverpb.Auth", "UserDelete", false, false, ROOT, USUAL)              \
    X(AUTH_USER_CHANGE_PASSWORD, "etcdserverpb.Auth", "UserChangePassword", false, false, ROOT,    \
      USUAL)                                                                                       \
    X(AUTH_USER_GRANT_ROLE, "etcdserverpb.Auth", "UserGrantRole", false, false, ROOT, USUAL)       \
    X(AUTH_USER_REVOKE_ROLE, "etcdserverpb.Auth", "UserRevokeRole", false, false, ROOT, USUAL)     \
    X(AUTH_ROLE_ADD, "etcdserverpb.Auth", "RoleAdd", false, false, ROOT, USUAL)                    \
    X(AUTH_ROLE_GET, "etcdserverpb.Auth", "RoleGet", false, false, ROOT_OR_OWN_ROLE, LARGE)        \
    X(AUTH_ROLE_LIST, "etcdserverpb.Auth", "RoleList", false, false, ROOT, LARGE)                  \
    X(AUTH_ROLE_DELETE, "etcdserverpb.Auth", "RoleDelete", false, false, ROOT, USUAL)              \
    X(AUTH_ROLE_GRANT_PERMISSION, "etcdserverpb.Auth", "RoleGrantPermission", false, false, ROOT,  \
      USUAL)                                                                                       \
    X(AUTH_ROLE_REVOKE_PERMISSION, "etcdserverpb.Auth", "RoleRevokePermission", false, false,      \
      ROOT, USUAL)                                                                                 \
    X(LOCK_LOCK, "v3lockpb.Lock", "Lock", false, false, BY_INNER_CALLS, NONE)                      \
    X(LOCK_UNLOCK, "v3lockpb.Lock", "Unlock", false, false, BY_INNER_CALLS, USUAL)                 \
    X(ELECTION_CAMPAIGN, "v3electionpb.Election", "Campaign", false, false, BY_INNER_CALLS, NONE)  \
    X(ELECTION_PROCLAIM, "v3electionpb.Election", "Proclaim", false, false, BY_INNER_CALLS, USUAL) \
    X(ELECTION_LEADER, "v3electionpb.Election", "Leader", false, false, BY_INNER_CALLS, LARGE)     \
    X(ELECTION_OBSERVE, "v3electionpb.Election", "Observe", false, true, BY_INNER_CALLS, NONE)     \
    X(ELECTION_RESIGN, "v3electionpb.Election", "Resign", false, false, BY_INNER_CALLS, USUAL)     \
    X(HEALTH_CHECK, "grpc.health.v1.Health", "Check", false, false, ANYBODY, USUAL)                \
    X(HEALTH_LIST, "grpc.health.v1.Health", "List", false, false, ANYBODY, USUAL)                  \
    X(HEALTH_WATCH, "grpc.health.v1.Health", "Watch", false, true, ANYBODY, NONE)

#define API_METHOD_ENUM(id, service, name, in, out, rule, reply) API_##id,
enum api_method { API_METHOD_LIST(API_METHOD_ENUM) API_METHOD_COUNT };
#undef API_METHOD_ENUM
