/*
 * api_int: what the files of this room share.
 *
 *     api.c          life, events by kind, needs, the slices of api_work
 *     call.c         one call: its checks, its answer, its end
 *     handlers.c     which function does what for which method
 *     body.c         answers that are still in the store
 *     reserve.c      answers that are large, and what they may take
 *     header.c       the response's header
 *     inner.c        calls that are made from here
 *     kv.c range_stream.c txn_check.c   KV
 *     lock.c election.c   made of inner calls, with concurrency.c for what they share
 *     stats.c metrics.c probes.c   what is counted, and plain HTTP that shows how it goes
 *     trace.c        lines about what took long
 *     watch.c lease.c cluster.c maintenance.c downgrade.c hash.c snapshot.c auth.c health.c
 *     http.c         the others
 *     identify.c     who calls?
 *     authorize.c    may they?
 *
 * A call goes through its handler's functions:
 *
 *     opened --> [decoded] --> check --> [authorize] --> run --+--> api_call_respond...
 *                                                              +--> api_call_propose --> applied
 *                                                              +--> api_call_configure --> applied
 *                                                              +--> api_call_read_index -->
 * confirmed
 *                                                              +--> api_call_step_later,
 * api_call_wait
 *
 * and ends by api_call_finish or by its client's going, both of which lead through `released`.
 */
#pragma once

#include "api/api.h"
#include "api/authorize.h"
#include "api/inner.h"
#include "auth/tokens.h"
#include "backend/backend.h"
#include "base/buf_pool.h"
#include "base/logger.h"
#include "base/rng.h"
#include "cluster/cluster.h"
#include "lease/lease.h"
#include "mvcc/mvcc.h"
#include "watch/watch.h"

struct call;

/* What a method's functions do; NULL where there is nothing to do. */
struct handler {
    const struct pb_schema *schema; /* of what the client sends; NULL: not supported yet */
    bool for_learners;              /* a learner answers it too */

    void (*opened)(struct call *c);                            /* streams */
    enum result (*check)(struct call *c, const void *request); /* of the arguments */
    void (*run)(struct call *c, const void *request);
    void (*ended)(struct call *c);                            /* the client sends no more */
    void (*sent)(struct call *c, size_t bytes);               /* they are credit again */
    void (*applied)(struct call *c, struct apply_effects *e); /* NULL: the reply goes out */
    void (*confirmed)(struct call *c);
    void (*forwarded)(struct call *c, const struct api_forwarded *f);
    void (*hashed)(struct call *c, uint32_t hash);
    void (*cut)(struct call *c, struct image *image);
    void (*inner)(struct call *c, const struct inner_result *r); /* of what it has asked itself */
    void (*measured)(struct call *c, struct bytes text);
    void (*password_done)(struct call *c, const struct api_password_result *r);
    void (*failed)(struct call *c, enum result why); /* NULL: the call ends with it */
    void (*released)(struct call *c);                /* gives back what the call holds */
};

/* Goes on with a call for about `steps`; false if it wants to go on later. One that is done has
 * answered, and may be gone. */
typedef bool call_step(struct call *c, unsigned steps);

/* Has what the call waits for happened? Then it stops waiting and goes on, in here. */
typedef bool call_ready(struct call *c);

struct range_stream {
    struct pb_range_request request; /* as it is read */
    struct mvcc_scan *scan;          /* NULL while it is being measured */
    uint64_t sent;                   /* bytes of key values */
    unsigned chunk_keys;             /* in the next message */
    uint64_t started_ms;             /* of the scan */
};

struct watching {
    struct watch_stream *stream;
    bool is_held; /* a request was dealt with and not yet released */
};

/* Waiting until everything that is committed now has been applied. */
struct index_wait {
    uint64_t index, until_ms;
};

struct renewal {
    int64_t id, ttl;
    int64_t revision; /* the store's before the renewal */
    bool is_busy;     /* with a request; the next one is not taken before it is answered */
    bool is_held;     /* answered, but the client does not read */
    bool half_closed;
};

struct lease_question {
    uint64_t auth_revision; /* when it was decided */
    struct buf text;        /* the response so far */
    struct buf last;        /* the last key in it */
};

/* The list of all leases. */
struct lease_list {
    struct lease_listing *listing;
    uint64_t state;  /* a->state when it was begun */
    struct buf text; /* the response so far */
};

struct compaction {
    int64_t revision;
    enum result result;
};

/* A change of the members. */
struct reconfiguration {
    struct api_change change;
    struct pb_member added;
    struct index_wait wait;
};

struct backup;

struct login {
    uint64_t checked_revision; /* of users and roles, when the password was looked up */
    enum result result;        /* of that */
    char prefix[AUTH_TOKEN_PREFIX_LEN];
};

struct leader_move {
    uint64_t from, to, until_ms;
};

/* /livez or /readyz, with those of its checks that are to be made: a bit for each. */
struct probing {
    unsigned probe, checks, excluded;
    bool verbose;
    uint64_t began_ns;
};

struct body; /* body.c */

/* What a number on the line stands for: a call, and what is still to be given of its bodies. */
struct api_slot {
    uint64_t id;
    struct call *call;   /* NULL: it was finished */
    struct body *bodies; /* oldest first; NULL: none */
};

struct call {
    struct api_call base;
    struct rpc_event first; /* with its content: who asks and, of a unary call, what */
    struct buf message;     /* of a RangeStream */
    struct arena arena;     /* what lives as long as the call */
    const struct handler *on;
    enum api_method method;
    struct list link;        /* a->calls */
    struct list stream_link; /* a->streams, for streaming calls */
    struct list need_link;   /* a->needs */
    struct list work_link;   /* a->busy, a->paused or a->waits */
    enum api_need_kind need;
    struct api_forward forward;   /* with API_FORWARD */
    uint64_t started_ns, read_ns; /* when it came, and when its read began */
    struct api_password password; /* with API_PASSWORD */
    struct token_look {
        bool was_good;      /* then its identity is whose it is */
        uint64_t forgotten; /* auth_tokens_forgotten */
        uint64_t at_ms;
        int64_t at_unix_s;
    } token_look;                         /* the last at its token */
    uint64_t token_index, token_until_ms; /* of the entry that its token names, while it waits */
    bool awaits_token, has_waited, ended_early; /* a stream's end came while it did */
    struct buf kept_message;                    /* of a stream, that came with it */
    bool is_authorized;
    bool is_counted;    /* as started, and not yet as handled */
    bool is_run;        /* its arguments were good */
    bool has_heard_end; /* a stream whose client will say no more: counted as a message, once */
    bool is_stream;
    const char *error;                         /* that it ends with; NULL: none */
    const void *request;                       /* decoded; of a unary call or a RangeStream */
    struct pb_internal_raft_request *proposal; /* in the arena */
    call_step *step;
    call_ready *ready;
    void (*reserved)(struct call *c); /* what was waited for to make its reply is there */
    uint64_t reserved_bytes;

    size_t
        raising_bytes; /* held while it raises the alarm that it is refused for; 0: it does not */
    int64_t credit;    /* of a stream: what may be sent now. A Watch gives it to the hub */

    struct apply_read read;
    bool is_reading;
    union {
        struct range_stream chunks;
        struct watching watching;
        struct renewal renewal;
        struct lease_question question;
        struct lease_list lease_list;
        struct compaction compaction;
        struct reconfiguration reconfiguration;
        struct mvcc_hash *hash; /* in the arena; NULL: none yet */
        int32_t health;         /* that the client was told last */
        struct leader_move move;
        struct probing probing;
        struct login login;
        struct version downgrade_target; /* major and minor; of a Downgrade but to cancel */
        struct backup *backup;           /* snapshot.c; in the arena; NULL: not yet */
        struct contender *contender;     /* concurrency.h; in the arena; NULL: not yet */
    };
};

/* When these change, those who wait are looked at again. */
struct api_signs {
    uint64_t applied_index, tenths_of_seconds, leader;
    int64_t compact_finished;
    bool is_compacting, is_leader, is_settling, is_defragmenting;
};

struct api {
    struct api_options o;
    const struct api_facts *facts;
    struct api_slot *slots; /* by api_slot_index */
    size_t slot_count;
    struct list calls;   /* all of them */
    struct list streams; /* of them, those that stream */
    struct list needs;
    struct list busy;    /* go on in slices */
    struct list paused;  /* the same; but the store is cold, and the last slice lacked something */
    struct list waits;   /* for something that is looked at again and again */
    struct list bodies;  /* replies that are still being read, oldest first */
    struct list stalled; /* of them, those whose next bytes could not be read when wanted */
    uint64_t state;      /* a number that each state which takes another's place has of its own */
    bool has_old_bodies; /* some of them may be read from a state that was replaced */
    size_t call_count, busy_count, wait_count, stream_count, unchecked_waits;
    struct api_signs signs;

    struct list spare; /* calls to be used again */
    size_t spare_count;
    struct call *forgotten; /* handed out as the last need: freed with the next */

    size_t scrape_bytes[API_FORMATS][2]; /* of the last text, plain and packed; 0: none yet */
    size_t vars_bytes;

    uint64_t move_leader_to; /* and the server was not told yet; 0: nobody leads instead of us */
    size_t raising_bytes;    /* of all calls */

    struct backend_defrag defrag;
    struct call *defrag_call; /* who waits for it; NULL: has gone */
    bool is_defragmenting;

    uint64_t leaderless_since_ms; /* UINT64_MAX: there is a leader */
    uint64_t next_lease;          /* number, for those that name no id */

    struct inner inner;
    struct api_stats stats;
    uint64_t traces;    /* so far */
    uint64_t defrag_ns; /* when it began */

    struct arena scratch; /* a message of a stream, decoded; for the time of one event */
    struct buf out;       /* a message in the making */
    struct buf_pool bufs; /* what came with events, for what goes out */
};

/* --- call.c --- */

/* Takes the content over. */
struct call *api_call_new(struct api *a, struct rpc_event *first);
void api_call_free(struct call *c);
void api_call_destroy(struct call *c); /* a spare one */

/* The client has gone, or was told: c is dead after this. */
void api_call_end(struct call *c);

/* What an event says about the call; c may be dead after each. */
void api_call_open_stream(struct call *c);
void api_call_message(struct call *c, struct bytes wire); /* which outlives the request */
void api_call_unsupported(struct call *c); /* any event of a method without a handler */

/* The one message of a call, which is no stream of the client's, is dealt with, and so much of it
 * was copied: its bytes are freed, and nobody waits for them any more. For calls that may wait for
 * ever. c->request is NULL from here on. */
void api_call_release_request(struct call *c, size_t kept);

/* The end, with these trailers. */
void api_call_finish(struct call *c, enum result a);
void api_call_finish_text(struct call *c, enum rpc_code code, const char *text);
void api_call_finish_too_large(struct call *c,
                               uint64_t bytes); /* of the answer, past gRPC's limit */

/* A message of these bytes, at the expense of the call's credit. The buffer is taken over. */
void api_call_send_buf(struct call *c, struct buf *message);
/* A message, without ending the call. */
void api_call_send(struct call *c, const struct pb_schema *schema, const void *message);
/* The message and the end. */
void api_call_respond(struct call *c, const struct pb_schema *schema, const void *message);
/* The same, with the message's bytes. Takes the buffer over. */
void api_call_respond_buf(struct call *c, struct buf *message);
/* The reply with a header in front, and the end. Takes the reply over. */
void api_call_respond_reply(struct call *c, struct reply *r, int64_t revision);

/* May whoever calls have this, as things stand now? For what is asked of auth once more, after
 * something was waited for. */
enum result api_call_decide(struct call *c, const void *request);

/* The request that this call is about to propose, for its fields to be set. */
struct pb_internal_raft_request *api_call_proposal(struct call *c);
void api_call_propose(struct call *c);
/* c->reconfiguration.change. */
void api_call_configure(struct call *c);
void api_call_read_index(struct call *c);
void api_call_forward(struct call *c, const struct api_forward *what);
void api_call_hash(struct call *c);
void api_call_image(struct call *c);
void api_call_measure(struct call *c, enum api_need_kind need); /* METRICS or VARS */
void api_call_password(struct call *c, const struct api_password *what);

/* Goes on in slices, or when `ready` says so. */
void api_call_step_later(struct call *c, call_step *step);
void api_call_wait(struct call *c, call_ready *ready);
void api_call_stop_working(struct call *c); /* neither */

/* How far the applied index is from what was committed when the wait began. */
enum wait_state { WAIT_OVER, WAIT_ON, WAIT_TOO_LONG };
struct index_wait api_index_wait(const struct api *a);
enum wait_state api_index_wait_state(const struct api *a, const struct index_wait *w);

/* Would its proposal exceed the quota? Then it is refused by api_call_refuse_for_space. */
enum result api_call_check_quota(const struct call *c);
/* Raises the NOSPACE alarm, and ends the call with RESULT_NO_SPACE when that is done, or has
 * failed.
 */
void api_call_refuse_for_space(struct call *c);

/* A read of the published state, c->read, in slices; what it ends in is the call's answer. */
void api_call_read(struct call *c);
/* Only begins it, for those who go on themselves. It is ended with the call. */
void api_call_begin_read(struct call *c);

static inline struct call *api_call_of(struct api_call *c)
{
    return container_of(c, struct call, base);
}

/* By the lower half of a number; those of inner calls in between. */
static inline size_t api_slot_index(uint64_t id)
{
    uint32_t low = (uint32_t)id;

    return 2 * (size_t)(low & ~INNER_CALL) + ((low & INNER_CALL) != 0);
}

/* NULL: nothing is left of it here. */
static inline struct api_slot *api_slot_of(struct api *a, uint64_t id)
{
    size_t at = api_slot_index(id);

    return at < a->slot_count && a->slots[at].id == id ? &a->slots[at] : NULL;
}

static inline struct api *api_of(const struct call *c)
{
    return c->base.api;
}

/* Where the replies to a call go. */
static inline struct rpc_line *api_line_of(const struct api *a, uint64_t id)
{
    return (uint32_t)id & INNER_CALL ? a->inner.line : a->o.line;
}

/* Whatever goes on by itself asks first; what has begun is ended. */
static inline bool api_can_reply(const struct api *a)
{
    return rpc_line_has_reply_budget(a->o.line) && rpc_line_has_reply_budget(a->inner.line);
}

/* --- stats.c --- */

/* The call is one that counts: from here on it will be handled, exactly once. */
void api_count_started(struct call *c);
/* It was let in, and says which client it is from. */
void api_count_client(struct call *c);
void api_count_received(struct call *c, size_t bytes);
void api_count_sent(struct call *c, uint64_t bytes);
/* Its end, with so many bytes in the response. Nothing if it was counted before. The request, if
 * it is a unary call, is still there. */
void api_count_handled(struct call *c, enum rpc_code code, uint64_t bytes);
/* A range was executed, since c->read_ns. */
void api_count_range(struct call *c, bool is_well);

/* --- trace.c --- */

/* A unary call ends, and has taken so long: whoever wants to know why is told. The request is still
 * there. */
void api_tell_of_slow(struct call *c, uint64_t took_ns, uint64_t bytes);

static inline uint64_t api_since_ns(const struct api *a, uint64_t began_ns)
{
    return a->facts->now_ns > began_ns ? a->facts->now_ns - began_ns : 0;
}

/* --- identify.c --- */

/* Sets base.identity, anew each time that it counts: RESULT_OK, or that the token is nobody's. */
enum result api_call_identify(struct call *c);
/* What he has shown, lent by the call and maybe empty; false: nothing. */
bool api_call_token(const struct call *c, struct bytes *out);
/* Its token names an entry that is not applied here yet. */
bool api_call_awaits_token(struct call *c, uint64_t *index);

/* --- header.c --- */

enum { HEADER_BYTES_MAX = 48 }; /* two bytes in front and four fields of eleven */

struct header_text {
    uint8_t at[HEADER_BYTES_MAX];
    struct bytes bytes; /* into `at` */
};

struct pb_response_header api_header_of(const struct api *a, int64_t revision);
/* As field 1 of a response. */
struct bytes api_header_encode(const struct api *a, int64_t revision, struct header_text *out);

/* --- body.c --- */

/* Sends the reply as the message it is. Takes it over. */
void api_body_send_reply(struct call *c, struct reply *r);
/* The same for a watcher's long events, which have taken so much of their stream's credit. */
void api_body_send_long(struct call *c, struct buf *prefix, struct watch_long *events,
                        size_t credit);
/* At most so many bytes of the call's oldest body are wanted. How many were given; of none, the
 * body is stalled. */
size_t api_body_wanted(struct api *a, struct api_slot *slot, size_t max);
/* Some of those that are stalled: because their store is cold, it is late, or the keys that they
 * looked at were dead then. True: none is left. */
bool api_body_go_on(struct api *a);

/* Nobody wants the bodies of this call any more. */
void api_body_drop(struct api_slot *slot);
/* Gives up replies that have held up a compaction for too long. */
void api_body_end_pins(struct api *a);

/* --- reserve.c --- */

/* Goes on with `then` when its reply may take so much memory until it is read; at once if that is
 * no more than its method's. It may be asked for once more, if it has become more. */
void api_call_reserve(struct call *c, uint64_t bytes, void (*then)(struct call *c));
void api_call_reserved(struct call *c);

/* What may be held for the reply to one of these, beyond what each of its kind may take. */
uint64_t api_range_bytes_max(struct api *a, const struct pb_range_request *r);
uint64_t api_txn_bytes_max(struct api *a, const struct pb_txn_request *txn);

/* --- txn_check.c --- */

/* How etcd checks a transaction before it is proposed: sizes, keys, options, then overlaps. The
 * arena is for the time of the check. */
enum result api_txn_check(const struct pb_txn_request *txn, unsigned ops_max, struct arena *arena);

/* Of single operations, also as part of a transaction. */
enum result api_range_check(const struct pb_range_request *r);
enum result api_put_check(const struct pb_put_request *r);
enum result api_delete_range_check(const struct pb_delete_range_request *r);

/* --- hash.c --- */

/* Another store is hashed from now on. The old one is still there. */
void api_hash_state_replaced(struct api *a, struct mvcc *mvcc);

/* --- handlers, by method --- */

extern const struct handler api_kv_range, api_kv_range_stream, api_kv_put, api_kv_delete_range,
    api_kv_txn, api_kv_compact;
extern const struct handler api_watch_watch;
extern const struct handler api_lease_grant, api_lease_revoke, api_lease_keep_alive;
extern const struct handler api_lease_time_to_live, api_lease_leases;
extern const struct handler api_cluster_member_add, api_cluster_member_remove,
    api_cluster_member_update, api_cluster_member_list, api_cluster_member_promote;
extern const struct handler api_maintenance_alarm, api_maintenance_status;
extern const struct handler api_maintenance_defragment, api_maintenance_move_leader;
extern const struct handler api_maintenance_hash, api_maintenance_hash_kv;
extern const struct handler api_maintenance_snapshot, api_maintenance_downgrade;
extern const struct handler api_lock_lock, api_lock_unlock;
extern const struct handler api_election_campaign, api_election_proclaim, api_election_leader,
    api_election_observe, api_election_resign;
extern const struct handler api_auth_enable, api_auth_disable, api_auth_status,
    api_auth_authenticate;
extern const struct handler api_auth_user_add, api_auth_user_get, api_auth_user_list,
    api_auth_user_delete, api_auth_user_change_password, api_auth_user_grant_role,
    api_auth_user_revoke_role;
extern const struct handler api_auth_role_add, api_auth_role_get, api_auth_role_list,
    api_auth_role_delete, api_auth_role_grant_permission, api_auth_role_revoke_permission;
extern const struct handler api_health_check, api_health_list, api_health_watch;
extern const struct handler api_http_health, api_http_metrics, api_http_vars, api_http_probe;

const struct handler *api_handler_of(enum api_method method);

/* --- the rest --- */

/* Sends what watchers are owed, at most `steps` messages. True if nothing is left. */
bool api_watch_send_some(struct api *a, unsigned steps);

void api_http_request(struct api *a, struct rpc_event *e);
void api_http_metrics_asked(struct api *a, struct rpc_event *e);
void api_http_vars_asked(struct api *a, struct rpc_event *e);
/* /livez, /readyz and the paths below them. False: there is no such one. */
bool api_http_probe_asked(struct api *a, struct rpc_event *e);

/* Of a plain request's query: is there such a pair, or any of that name? */
bool api_query_has(struct bytes query, struct arena *arena, const char *name, const char *value);
bool api_query_names(struct bytes query, struct arena *arena, const char *name);
/* /health or a check reads nothing at all; etcd counts that as a range. */
void api_count_nothing_read(struct api *a, uint64_t began_ns, bool is_well);

/* The version of the store's format, "3.7.0"; empty if it cannot be told. Lent by the arena. */
struct bytes api_storage_version(struct api *a, struct arena *arena);
