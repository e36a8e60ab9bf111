/*
 * auth: users, roles and permissions, and the one decision about who may do what.
 *
 * Every member keeps the same tables, changed only by entries of the log, so all of them come to
 * the same result about each request. They lie in the backend under etcd's names, and in memory for
 * everybody who asks.
 *
 *     auth        authEnabled    one byte, 1 or 0
 *                 authRevision   u64, big endian: counts every change of the tables; 1 at first
 *     authUsers   <name>         authpb.User: the password's bcrypt hash, the names of its roles
 *     authRoles   <name>         authpb.Role: its permissions, in order of their keys
 *
 *     who asks (base/identity.h) --+
 *     what for (enum auth_rule)  --+--> auth_decide --> AUTH_OK, or what the caller is told
 *     the request                --+
 *
 * A user's permissions are those of all its roles. They are merged into disjoint ranges, one set
 * for reading and one for writing, when the user is first asked about after a change, and kept. So
 * a decision about a key or a range is a search in one of them, however many roles there are; and
 * one about all keys of a lease takes as long as the user has ranges, not as there are keys.
 *
 * A user that has the role "root" may do everything; the role need not exist for that.
 *
 * Life       auth_open loads the tables; then changes, in the order of the log; auth_close. A
 *            backend that comes with a snapshot has tables of its own.
 * Promises   1. Equal entries lead to equal tables and equal bytes in the backend, on every member,
 *               those that run etcd included.
 *            2. A change that is refused has changed nothing.
 *            3. Each change of users, roles or permissions, and switching auth off, makes the
 *               revision one higher. Switching it on does not.
 *            4. While auth is enabled, user root and its role root cannot be taken away.
 *            5. With auth disabled everybody may do everything.
 * Quirks     Kept from etcd: client-api.md 3.11. A range whose end is not behind its key reads and
 *            writes nothing; whether it is permitted, where its key is, depends on the shape of
 *            etcd's tree of permissions. A transaction is permitted as a whole or not at all, so
 *            members that differed here would differ in what they store (tree.c).
 * Not here   Passwords and tokens: who somebody is was found out
 *            before. When a decision is asked for: apply for what goes through the log and for
 *            reads, api for the rest. Commits of the backend (server).
 * Leans on   backend for the tables, pb for the records. What lease knows comes in as functions.
 */
#pragma once

#include "base/err.h"
#include "base/identity.h"
#include "base/limits.h"
#include "pb/codec.h"

struct auth; /* opaque */
struct backend;

/* What a client may get: X(name, gRPC code, text). */
#define AUTH_RESULT_LIST(X)                                                                        \
    X(ROOT_USER_NOT_EXIST, 9, "etcdserver: root user does not exist")                              \
    X(ROOT_ROLE_NOT_EXIST, 9, "etcdserver: root user does not have root role")                     \
    X(USER_ALREADY_EXIST, 9, "etcdserver: user name already exists")                               \
    X(USER_EMPTY, 3, "etcdserver: user name is empty")                                             \
    X(USER_NOT_FOUND, 9, "etcdserver: user name not found")                                        \
    X(ROLE_ALREADY_EXIST, 9, "etcdserver: role name already exists")                               \
    X(ROLE_NOT_FOUND, 9, "etcdserver: role name not found")                                        \
    X(ROLE_EMPTY, 3, "etcdserver: role name is empty")                                             \
    X(FAILED, 3, "etcdserver: authentication failed, invalid user ID or password")                 \
    X(PERMISSION_NOT_GIVEN, 3, "etcdserver: permission not given")                                 \
    X(PERMISSION_DENIED, 7, "etcdserver: permission denied")                                       \
    X(ROLE_NOT_GRANTED, 9, "etcdserver: role is not granted to the user")                          \
    X(PERMISSION_NOT_GRANTED, 9, "etcdserver: permission is not granted to the role")              \
    X(NOT_ENABLED, 9, "etcdserver: authentication is not enabled")                                 \
    X(INVALID_TOKEN, 16, "etcdserver: invalid auth token")                                         \
    X(INVALID_MANAGEMENT, 3, "etcdserver: invalid auth management")                                \
    X(OLD_REVISION, 3, "etcdserver: revision of auth store is old")                                \
    X(NO_PASSWORD_USER, 2, "auth: authentication failed, password was given for no password user") \
    X(VERIFY_ONLY, 2, "auth: token signing attempted with verify-only key")                        \
    X(PASSWORD_TOO_LONG, 2, "bcrypt: password length exceeds 72 bytes")

#define AUTH_RESULT_ENUM(name, code, text) AUTH_##name,
enum auth_result { AUTH_OK, AUTH_RESULT_LIST(AUTH_RESULT_ENUM) AUTH_RESULT_COUNT };
#undef AUTH_RESULT_ENUM

/* What is known of leases elsewhere. All NULL where there are none. */
struct auth_leases {
    /* The first key of a lease that is not before `from`; false if there is none. Lent. */
    bool (*next_key)(const void *leases, int64_t id, struct bytes from, struct bytes *key);
    const void *leases;
};

/* ERR_CORRUPT: a table cannot be understood; `why` says which. The backend outlives the auth. The
 * caller ends *out with auth_close. */
MUST_CHECK enum err auth_open(struct backend *backend, struct buf *why, struct auth **out);
void auth_close(struct auth *a); /* NULL is fine */

/* From now on decisions about leases are made by these. */
void auth_use_leases(struct auth *a, const struct auth_leases *leases);

/* --- changes, in the order of the log --- */

enum auth_result auth_enable(struct auth *a); /* again: nothing happens */
void auth_disable(struct auth *a);            /* likewise */

/* The hash comes in base64; an empty one is a password that nobody has. */
enum auth_result auth_user_add(struct auth *a, const struct pb_auth_user_add_request *r);
enum auth_result auth_user_delete(struct auth *a, struct bytes name);
enum auth_result auth_user_change_password(struct auth *a,
                                           const struct pb_auth_user_change_password_request *r);
enum auth_result auth_user_grant_role(struct auth *a, struct bytes user, struct bytes role);
enum auth_result auth_user_revoke_role(struct auth *a, struct bytes user, struct bytes role);

enum auth_result auth_role_add(struct auth *a, struct bytes name);
enum auth_result auth_role_delete(struct auth *a, struct bytes name);
enum auth_result auth_role_grant_permission(struct auth *a,
                                            const struct pb_auth_role_grant_permission_request *r);
enum auth_result
auth_role_revoke_permission(struct auth *a, const struct pb_auth_role_revoke_permission_request *r);

/* --- asking --- */

bool auth_is_enabled(const struct auth *a);
uint64_t auth_revision(const struct auth *a);

/* Lent until the next change; NULL if there is none. */
const struct pb_user *auth_user(const struct auth *a, struct bytes name);
const struct pb_role *auth_role(const struct auth *a, struct bytes name);

/* In order of their names, nth from 0; NULL behind the last. */
const struct pb_user *auth_nth_user(const struct auth *a, size_t nth);
const struct pb_role *auth_nth_role(const struct auth *a, size_t nth);

/* May this user log in by a password? AUTH_NOT_ENABLED, AUTH_FAILED, AUTH_NO_PASSWORD_USER. */
enum auth_result auth_may_log_in(const struct auth *a, struct bytes name);

/* --- the decision --- */

/* What somebody asks for. The comment says which message `request` is. */
enum auth_rule {
    RULE_ANYBODY,          /* nobody is asked who he is */
    RULE_ANY_USER,         /* but somebody */
    RULE_ROOT,             /* has the role root */
    RULE_ROOT_OR_SELF,     /* or asks about himself: pb_auth_name */
    RULE_ROOT_OR_OWN_ROLE, /* or about a role he has: pb_auth_role_name */
    RULE_READ_RANGE,       /* pb_range_request */
    RULE_WRITE_KEY,   /* pb_put_request; reading too, if he wants the previous value; and writing
                         the keys of its lease */
    RULE_WRITE_RANGE, /* pb_delete_range_request; likewise */
    RULE_TXN,         /* pb_txn_request: compares and both branches, at any depth */
    RULE_WATCH,       /* pb_watch_create_request; NULL: anybody may open a stream */
    RULE_READ_LEASE,  /* pb_lease_time_to_live_request: any user; reading its keys, if he wants to
                         see them */
    RULE_WRITE_LEASE, /* pb_lease_id: any user; writing all of its keys. NULL: of a stream */
    RULE_LEASE_KEYS,  /* pb_lease_id: writing all of its keys, if there are any, by whomever */
    RULE_ALARM,       /* pb_alarm_request; looking: any user; else root */
    RULE_BY_INNER_CALLS, /* what it is made of is decided one by one */
    RULE_COUNT,
};

/*
 * May they? The only place that knows. What somebody is told, in this order: that nobody has said
 * who he is, that what he knows of the tables is old, that he may not.
 */
enum auth_result auth_decide(struct auth *a, const struct identity *who, enum auth_rule rule,
                             const void *request);

/* After a read: have the tables changed since it was found out who asks? */
bool auth_is_outdated(const struct auth *a, const struct identity *who);

/* Who revokes a lease whose time is up. */
struct identity auth_root_identity(const struct auth *a);

/* All invariants, asserted; walks everything. */
void auth_check(const struct auth *a);
