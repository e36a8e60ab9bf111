/*
 * apply_int: what the files of this room share and nobody else needs.
 *
 *     apply.c      an entry's way: begin, the five stages, effects, end
 *     request.c    which request it is, and whether somebody may make it
 *     work.c       requests that read or write keys: check, execute, respond
 *     txn.c        transactions, made of those
 *     read.c       the same on the published state, without the log
 *     quota.c      what a request would cost
 *     alarms.c     which alarms are up
 *     admin.c      leases, alarms, cluster and conf changes
 *     users.c      users and roles
 */
#pragma once

#include "apply/apply.h"
#include "auth/auth.h"
#include "backend/backend.h"
#include "base/assert.h"
#include "cluster/cluster.h"
#include "lease/lease.h"

/* --- request.c --- */

/* Every request, in the order in which etcd looks for one: X(kind, field of the message). */
#define REQUEST_LIST(X)                                                                            \
    X(CLUSTER_VERSION_SET, cluster_version_set)                                                    \
    X(CLUSTER_MEMBER_ATTR_SET, cluster_member_attr_set)                                            \
    X(DOWNGRADE_INFO_SET, downgrade_info_set)                                                      \
    X(DOWNGRADE_VERSION_TEST, downgrade_version_test)                                              \
    X(RANGE, range)                                                                                \
    X(PUT, put)                                                                                    \
    X(DELETE_RANGE, delete_range)                                                                  \
    X(TXN, txn)                                                                                    \
    X(COMPACTION, compaction)                                                                      \
    X(LEASE_GRANT, lease_grant)                                                                    \
    X(LEASE_REVOKE, lease_revoke)                                                                  \
    X(LEASE_CHECKPOINT, lease_checkpoint)                                                          \
    X(ALARM, alarm)                                                                                \
    X(AUTHENTICATE, authenticate)                                                                  \
    X(AUTH_ENABLE, auth_enable)                                                                    \
    X(AUTH_DISABLE, auth_disable)                                                                  \
    X(AUTH_STATUS, auth_status)                                                                    \
    X(AUTH_USER_ADD, auth_user_add)                                                                \
    X(AUTH_USER_DELETE, auth_user_delete)                                                          \
    X(AUTH_USER_CHANGE_PASSWORD, auth_user_change_password)                                        \
    X(AUTH_USER_GRANT_ROLE, auth_user_grant_role)                                                  \
    X(AUTH_USER_GET, auth_user_get)                                                                \
    X(AUTH_USER_REVOKE_ROLE, auth_user_revoke_role)                                                \
    X(AUTH_ROLE_ADD, auth_role_add)                                                                \
    X(AUTH_ROLE_GRANT_PERMISSION, auth_role_grant_permission)                                      \
    X(AUTH_ROLE_GET, auth_role_get)                                                                \
    X(AUTH_ROLE_REVOKE_PERMISSION, auth_role_revoke_permission)                                    \
    X(AUTH_ROLE_DELETE, auth_role_delete)                                                          \
    X(AUTH_USER_LIST, auth_user_list)                                                              \
    X(AUTH_ROLE_LIST, auth_role_list)

#define REQUEST_ENUM(kind, field) REQUEST_##kind,
enum request_kind { REQUEST_LIST(REQUEST_ENUM) REQUEST_COUNT };
#undef REQUEST_ENUM
static_assert(REQUEST_COUNT == (int)APPLY_KINDS, "each has a number");

/* REQUEST_COUNT if there is none that we know. */
enum request_kind request_kind(const struct pb_internal_raft_request *request);
const char *request_name(enum request_kind kind); /* "auth_user_add" */

/* May whoever its header names make it? The third stage. */
enum result request_authorize(struct auth *auth, enum request_kind kind,
                              const struct pb_internal_raft_request *request);

/* Is this, instead, a request of the v2 API, bare, as etcd 3.5 wrote them? For the words only. */
bool request_is_v2(struct bytes data);

/* --- alarms.c --- */

struct alarms {
    struct apply_alarm *at; /* in order of member and alarm */
    size_t count, cap;
    size_t no_space, corrupt; /* how many there are of these */
};

MUST_CHECK enum err alarms_load(struct alarms *s, struct backend *b, struct buf *why);
void alarms_free(struct alarms *s);

/* In memory and in the backend. False: it was there already, or was not there. */
bool alarms_raise(struct alarms *s, struct backend *b, struct apply_alarm alarm);
bool alarms_clear(struct alarms *s, struct backend *b, struct apply_alarm alarm);
bool alarms_have(const struct alarms *s, struct apply_alarm alarm);
void alarms_check(const struct alarms *s);

/* --- quota.c --- */

/* Of the larger branch, nested ones included; 0 if there is no put in either, at any depth. */
uint64_t txn_cost(const struct pb_txn_request *txn);

/* --- work.c and txn.c --- */

/* A transaction that is being walked through: what is left of its chosen branch. */
struct frame {
    const struct pb_request_op *ops;
    size_t count, next;
    struct reply_nest nest; /* in the reply, its own response */
};

/* One operation under way. */
struct op {
    const struct pb_request_op *what; /* NULL: none is */
    struct mvcc_scan *scan;           /* of a range, or of what a delete is about to remove */
    bool measured, deleting;
};

enum work_stage { WORK_COMPARE, WORK_CHECK, WORK_EXECUTE, WORK_DONE };

/* A request on keys, from its check to its response: of an entry, or a read by itself. */
struct work {
    struct apply *apply;
    const struct pb_txn_request *txn; /* NULL: the single operation */
    struct pb_request_op single;
    bool writes;          /* through mvcc_write_begin and _end */
    bool keep_open;       /* a range's scan stays in `op`, measured, instead of a response */
    struct reply *reply;  /* NULL: nobody wants a response */
    struct revision base; /* the state before */
    enum work_stage stage;
    bool writing; /* between the two */
    enum result result;
    unsigned ranges, puts, deletes; /* so far, of what etcd does as one transaction of its store */
    int64_t lowest_revision; /* that a range on the path asks for; base.main if none is lower */
    struct op op;
    struct mvcc_delete_range gone; /* while op.deleting */
    int64_t deleted;               /* by the last delete */

    /* Of a transaction: the path, one byte for each that is entered, and where we are on it. */
    struct buf path;
    size_t path_at;
    struct frame *frames;
    size_t depth, frame_cap;
    size_t op_mark;                         /* in the reply, where the response of `op` began */
    const struct pb_txn_request *comparing; /* NULL: none is */
    size_t compare_at;
    struct mvcc_scan compared; /* the range of the compare at hand */
    bool compare_open, compare_measured;
    struct buf chunk; /* what was read of it */
};

/* Begins with the request set and everything else zero, but for memory kept from the last time. */
void work_begin(struct work *w);

/* True: done. The answer is there, and the response, if it was wanted and is OK. */
bool work_some(struct work *w, unsigned *steps);

/* At any time. What was written stays; `changes` (NULL: none can be) gets what is published. */
void work_end(struct work *w, struct mvcc_changes *changes);

/* The same for a member that stops: what was begun in mvcc is left as it is. */
void work_abandon(struct work *w);
void work_free(struct work *w);
void work_check(const struct work *w);

/* What was counted goes into the statistics, and counting begins again. */
void work_count(struct work *w);

/* The parts that txn.c borrows. */
enum result work_check_op(struct work *w, const struct pb_request_op *op);
bool work_execute_op(struct work *w, unsigned *steps); /* w->op.what; true: done, responded */
bool txn_compare_some(struct work *w, unsigned *steps);
bool txn_check_some(struct work *w, unsigned *steps);
bool txn_execute_some(struct work *w, unsigned *steps);
void txn_begin(struct work *w);
void txn_execute_begin(struct work *w);
void txn_end(struct work *w);

static inline void spend(unsigned *steps, uint64_t used)
{
    *steps = used < *steps ? *steps - (unsigned)used : 0;
}

/* For a KeyValue that is read or written whole: its bytes cost too, beside the step that each
 * operation costs. A slice that has begun one ends it, so there is always progress. */
static inline void spend_bytes(unsigned *steps, uint64_t bytes)
{
    spend(steps, bytes / APPLY_STEP_BYTES);
}

/* --- read.c --- */

struct read;

/* --- apply.c --- */

enum apply_state {
    APPLY_IDLE,
    APPLY_BEGUN,
    APPLY_EXECUTING,
    APPLY_DONE,
    APPLY_REFUSED,
    APPLY_REPLACED,
};

struct apply {
    struct apply_options o;
    struct alarms alarms;
    size_t reads;            /* under way */
    struct read *spare_read; /* the last one's memory, for the next */

    enum apply_state state;
    bool in_entry; /* of the backend */
    struct blob *blob;
    struct arena arena; /* of the decoded request */
    struct pb_internal_raft_request request;
    enum request_kind kind;
    uint64_t now_ms;
    bool awaited, over_quota;
    struct apply_stats stats;
    struct work work;
    bool revoking;        /* a lease's keys */
    size_t checkpoint_at; /* which of the entry's comes next */
    struct apply_effects effects;
};

/* Ends everything, see on_refused: the entry at hand cannot be applied because "it ...". */
__attribute__((format(printf, 2, 3))) void apply_refuse(struct apply *a, const char *format, ...);

/* A stored KeyValue, as fields that look into it. False: it is damaged, and that is the end. */
MUST_CHECK bool apply_decode_kv(struct apply *a, struct bytes stored, struct pb_key_value *out);

/* The one at this revision, read into `space`, whose content is replaced. */
MUST_CHECK bool apply_read_kv(struct apply *a, struct revision at, struct buf *space,
                              struct pb_key_value *out);

/* --- admin.c: each executes the request at hand and sets effects --- */

void admin_compaction(struct apply *a);
void admin_lease_grant(struct apply *a);
bool admin_lease_revoke(struct apply *a, unsigned *steps); /* true: done */
bool admin_lease_checkpoint(struct apply *a, unsigned *steps);
void admin_alarm(struct apply *a);
void admin_cluster_version_set(struct apply *a);
void admin_cluster_member_attr_set(struct apply *a);
void admin_downgrade_info_set(struct apply *a);
void admin_conf_change(struct apply *a, const struct raft_conf_change *cc);

/* --- users.c --- */

/* Executes the request at hand, which is one of auth's, and sets effects. */
void users_execute(struct apply *a);

/* How auth hears of leases. */
struct auth_leases users_leases(struct apply *a);

/* --- */

/* Lease records keep remaining times from cluster version 3.6 on. */
void admin_note_version(struct apply *a);
