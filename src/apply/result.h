/*
 * answer: what a client may be told instead of what it asked for, in etcd's words.
 *
 * Clients match on these texts; other languages on the codes. One list, so that apply, which finds
 * out, and api, which says it, mean the same. RESULT_OK is no error.
 */
#pragma once

#include "auth/auth.h"

/* X(name, gRPC code, text) */
#define RESULT_LIST(X)                                                                             \
    X(OK, 0, "")                                                                                   \
    X(EMPTY_KEY, 3, "etcdserver: key is not provided")                                             \
    X(KEY_NOT_FOUND, 3, "etcdserver: key not found")                                               \
    X(VALUE_PROVIDED, 3, "etcdserver: value is provided")                                          \
    X(LEASE_PROVIDED, 3, "etcdserver: lease is provided")                                          \
    X(TOO_MANY_OPS, 3, "etcdserver: too many operations in txn request")                           \
    X(DUPLICATE_KEY, 3, "etcdserver: duplicate key given in txn request")                          \
    X(INVALID_CLIENT_API_VERSION, 3, "etcdserver: invalid client api version")                     \
    X(INVALID_SORT_OPTION, 3, "etcdserver: invalid sort option")                                   \
    X(COMPACTED, 11, "etcdserver: mvcc: required revision has been compacted")                     \
    X(FUTURE_REV, 11, "etcdserver: mvcc: required revision is a future revision")                  \
    X(NO_SPACE, 8, "etcdserver: mvcc: database space exceeded")                                    \
    X(LEASE_NOT_FOUND, 5, "etcdserver: requested lease not found")                                 \
    X(LEASE_EXIST, 9, "etcdserver: lease already exists")                                          \
    X(LEASE_TTL_TOO_LARGE, 11, "etcdserver: too large lease TTL")                                  \
    X(WATCH_CANCELED, 1, "etcdserver: watch canceled")                                             \
    X(MEMBER_EXIST, 9, "etcdserver: member ID already exist")                                      \
    X(PEER_URL_EXIST, 9, "etcdserver: Peer URLs already exists")                                   \
    X(MEMBER_NOT_ENOUGH_STARTED, 2,                                                                \
      "etcdserver: re-configuration failed due to not enough started members")                     \
    X(MEMBER_BAD_URLS, 3, "etcdserver: given member URLs are invalid")                             \
    X(MEMBER_NOT_FOUND, 5, "etcdserver: member not found")                                         \
    X(MEMBER_NOT_LEARNER, 9, "etcdserver: can only promote a learner member")                      \
    X(LEARNER_NOT_READY, 9,                                                                        \
      "etcdserver: can only promote a learner member which is in sync with leader")                \
    X(TOO_MANY_LEARNERS, 9, "etcdserver: too many learner members in cluster")                     \
    X(TOO_MANY_MEMBERS, 9, "etcdserver: too many members in cluster")                              \
    X(REQUEST_TOO_LARGE, 3, "etcdserver: request is too large")                                    \
    X(RESPONSE_TOO_LARGE, 8, "etcdserver: response is too large")                                  \
    X(TOO_MANY_REQUESTS, 2, "etcdserver: too many requests")                                       \
    X(NO_LEADER, 14, "etcdserver: no leader")                                                      \
    X(NOT_LEADER, 9, "etcdserver: not leader")                                                     \
    X(LEADER_CHANGED, 14, "etcdserver: leader changed")                                            \
    X(STOPPED, 14, "etcdserver: server stopped")                                                   \
    X(TIMEOUT, 14, "etcdserver: request timed out")                                                \
    X(TIMEOUT_LEADER_FAIL, 14,                                                                     \
      "etcdserver: request timed out, possibly due to previous leader failure")                    \
    X(TIMEOUT_CONNECTION_LOST, 14,                                                                 \
      "etcdserver: request timed out, possibly due to connection lost")                            \
    X(TIMEOUT_APPLIED_INDEX, 14,                                                                   \
      "etcdserver: request timed out, waiting for the applied index took too long")                \
    X(TIMEOUT_LEADER_TRANSFER, 2, "etcdserver: request timed out, leader transfer took too long")  \
    X(BAD_LEADER_TRANSFEREE, 9, "etcdserver: bad leader transferee")                               \
    X(UNHEALTHY, 14, "etcdserver: unhealthy cluster")                                              \
    X(CORRUPT, 15, "etcdserver: corrupt cluster")                                                  \
    X(WRONG_DOWNGRADE_VERSION_FORMAT, 3, "etcdserver: wrong downgrade target version format")      \
    X(INVALID_DOWNGRADE_TARGET_VERSION, 3, "etcdserver: invalid downgrade target version")         \
    X(CLUSTER_VERSION_UNAVAILABLE, 9, "etcdserver: cluster version not found during downgrade")    \
    X(DOWNGRADE_IN_PROCESS, 9, "etcdserver: cluster has a downgrade job in progress")              \
    X(NO_INFLIGHT_DOWNGRADE, 9, "etcdserver: no inflight downgrade job")                           \
    X(UNKNOWN_METHOD, 2, "etcdserver: unknown method")                                             \
    X(NOT_SUPPORTED_FOR_LEARNER, 9, "etcdserver: rpc not supported for learner")                   \
    X(CANCELED, 1, "etcdserver: request canceled")                                                 \
    X(CONTEXT_CANCELED, 1, "context canceled")                                                     \
    X(CONTEXT_DEADLINE, 4, "context deadline exceeded")                                            \
    X(NOT_PRIMARY_LESSOR, 2, "not a primary lessor")                                               \
    X(PROPOSAL_DROPPED, 2, "raft proposal dropped")                                                \
    X(RANGE_STREAM_SORT, 12, "RangeStream does not support custom sort orders")                    \
    X(RANGE_STREAM_FILTER, 12, "RangeStream does not support revision filters")

#define RESULT_ENUM(name, code, text)      RESULT_##name,
#define RESULT_AUTH_ENUM(name, code, text) RESULT_AUTH_##name,
enum result {
    RESULT_LIST(RESULT_ENUM)           /* those above */
    AUTH_RESULT_LIST(RESULT_AUTH_ENUM) /* and those that auth has found out */
    RESULT_COUNT
};
#undef RESULT_AUTH_ENUM
#undef RESULT_ENUM

/* The same, as auth says it. */
enum result result_of_auth(enum auth_result a);

unsigned result_code(enum result a);
const char *result_text(enum result a);
