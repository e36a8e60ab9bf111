/*
 * api: what etcd's clients may ask for, and how it is answered.
 *
 * One file per service. A call comes in as an event on the line (rpc/line.h); it is decoded,
 * checked in etcd's order with etcd's errors, and then either answered at once or it needs
 * something only the server can give: a place in the log, or the assurance that a read will not be
 * stale. That is a need. When the server has fulfilled it, it says so, and the answer goes out.
 *
 *     rpc_event --> api_event --> checks --+--> answered at once
 *                                          +--> api_take_need: PROPOSE, CONFIGURE, READ_INDEX,
 *                                                              FORWARD, HASH, IMAGE, PASSWORD,
 *                                                              FORGET, METRICS, RAISE_ALARM,
 *                                                              MOVE_LEADER
 *     server --> api_applied, api_read_index_done, api_forwarded, api_hashed, api_cut,
 *                api_password_done, api_measured, api_failed
 *     --> the line
 *     api_work: long reads in slices, watch messages to their streams, compactions waited for
 *
 * Defragmentation is asked of the backend from here: it goes on beside everything else, and who has
 * asked for it waits.
 *
 * In a turn: api_event for what is on the line, then the needs, the log and apply, then api_work
 * and rpc_flush.
 *
 * Promises   1. Every call is answered exactly once, or is gone.
 *            2. Every RPC passes authorize() (authorize.h) with its keys and options; one that is
 *               not in its table does not compile.
 *            3. No event or slice costs more than its budget; a client that does not read is not
 *               read from.
 *            4. Errors have etcd's code and text (apply/result.h).
 * Not here   Bytes on the wire (rpc), executing (apply). Whether a proposal is one too many or too
 *            large with its header, and how long it and a confirmation may take; whether the
 *            cluster is in a state to be reconfigured (server).
 * Leans on   rpc's line, apply, mvcc, watch, lease, auth, cluster, backend; snap's images.
 */
#pragma once

#include "api/stats.h"
#include "apply/apply.h"
#include "base/identity.h"
#include "base/list.h"
#include "entry/entry.h"
#include "rpc/line.h"

struct api; /* opaque */
struct auth_tokens;
struct entropy;
struct image;
struct proposal;
struct watch;

/* How things stand, kept up to date by the server before each call in here. */
struct api_facts {
    uint64_t cluster_id, member_id;
    uint64_t applied_index, applied_term; /* of the last applied entry */
    uint64_t committed_index;
    uint64_t leader; /* 0: unknown */
    bool is_leader, is_learner;
    bool is_stopping;
    bool disk_is_full;    /* this member's: nothing can be put through the log */
    uint64_t now_ms;      /* monotonic */
    uint64_t now_ns;      /* the same, as of when it was last looked at: for durations */
    int64_t unix_seconds; /* by the wall clock: ids of new members are made of it */
    uint64_t election_ms, heartbeat_ms;
};

struct api_options {
    struct rpc_line *line; /* to rpc; outlives api */
    struct apply *apply;
    struct auth *auth;
    struct mvcc *mvcc;
    struct watch *watch;
    struct lease_set *leases;
    struct cluster *cluster;
    struct backend *backend;
    const struct api_facts *facts;
    const struct logger *logger;
    uint64_t seed;              /* for ids of leases: another one at each boot */
    size_t request_bytes_max;   /* 0: REQUEST_BYTES_DEFAULT */
    unsigned txn_ops_max;       /* 0: API_TXN_OPS_DEFAULT */
    size_t inner_calls_max;     /* 0: API_INNER_CALLS_MAX */
    int64_t warning_unary_ns;   /* calls that take longer are told of; 0: none is */
    int64_t warning_apply_ns;   /* the same of reads, which etcd tells of as of entries; 0: none */
    bool times_calls;           /* how long each takes is counted */
    struct auth_tokens *tokens; /* those that are given out; NULL: none are, and nobody logs in */
    struct entropy *entropy;    /* for them */
    bool client_cert_auth;      /* who shows a certificate and no token is who it names */
    bool stops_on_defrag;       /* gRPC's health service says so while the store is defragmented */
};

/* The rows for rpc_open. */
extern const struct rpc_method api_methods[];
extern const size_t api_method_count;

struct api *api_open(const struct api_options *options);
/* No call is left (asserted): rpc has ended before. NULL is fine. */
void api_close(struct api *a);

/* The same at once, as in a crash: what is under way ends without a word to rpc, which was
 * abandoned before. NULL is fine. */
void api_abandon(struct api *a);

/* How far a proposal had got when, in facts->now_ns; 0: nobody knows. */
struct api_stages {
    uint64_t proposed_ns; /* given to raft */
    uint64_t logged_ns;   /* durable here */
    uint64_t committed_ns;
    uint64_t apply_ns, applied_ns; /* the beginning and the end of that */
    int64_t revision;
};

/* The same of the round that has confirmed a read. */
struct api_round {
    uint64_t asked_ns, confirmed_ns;
    uint64_t applied_index; /* when it was confirmed */
};

/* How /metrics can be written. */
enum api_format {
    API_FORMAT_TEXT,          /* Prometheus' own */
    API_FORMAT_PROTO,         /* io.prometheus.client.MetricFamily, each after its length */
    API_FORMAT_PROTO_TEXT,    /* the same as protobuf's text */
    API_FORMAT_PROTO_COMPACT, /* and with one line for each family */
};
enum { API_FORMATS = API_FORMAT_PROTO_COMPACT + 1 };

/* In which of them, and what of it is said in the response (negotiate.h). */
struct api_scrape {
    uint8_t format; /* enum api_format */
    uint8_t escaping;
    bool is_gzipped;
};

/* A call that waits for the server. Fields above the line are the server's to use; all zeroes, and
 * the link on no list, when it is first heard of. A stream may come with needs many times over. */
struct api_call {
    uint64_t id;      /* that its proposal carries */
    struct list link; /* on the server's lists */
    uint64_t started_ms, started_index;
    uint64_t started_ns;
    const struct raft_conf_change *change;          /* that it waits for; of CONFIGURE */
    const struct pb_internal_raft_request *request; /* the same, of PROPOSE */
    struct proposal *queued;                        /* the same, encoded, until raft has it */
    struct list turn_link;                          /* while it waits for its connection's turn */
    size_t kept_bytes;        /* that it takes up while it waits, where that is counted */
    struct api_round round;   /* of a read */
    struct api_stages stages; /* of a proposal that took long */
    enum result failure;      /* while it waits to be told */
    bool is_held;             /* of PROPOSE: it waits for its turn, and is not encoded yet */
    /* ---- */
    bool is_waiting; /* the server has it: from api_take_need until it is answered or forgotten */
    struct api *api;
    uint64_t rpc;  /* its number on the line; 0: gone */
    uint64_t conn; /* its client's connection; 0: none */
    const struct rpc_method *method;
    uint64_t deadline_ms;     /* of the client; UINT64_MAX: none */
    struct identity identity; /* of the client; lent by the call */
    struct api_scrape scrape; /* of METRICS */
};

enum api_need_kind {
    API_PROPOSE,    /* put `request` through the log: ends with api_applied or api_failed */
    API_CONFIGURE,  /* the same with `change`, if the cluster may be changed so now */
    API_READ_INDEX, /* a linearizable read: api_read_index_done once everything up to now is applied
                       here */
    API_FORWARD,    /* only the leader can answer, and this member does not lead: api_forwarded */
    API_HASH,       /* the whole store, as of some entry after this: api_hashed */
    API_IMAGE,      /* of the state, as of some entry after this: api_cut */
    API_PASSWORD,   /* to be hashed or compared, on a worker: api_password_done */
    API_FORGET,     /* the call is gone: it must not be spoken of again; freed after this need */
    API_RAISE_ALARM, /* a write exceeds the quota: put `request`, the NOSPACE alarm of this member,
                        through the log. Ends as PROPOSE does, and the write is refused then */
    API_METRICS,     /* all that is counted, in the form of the call's `scrape`: api_measured */
    API_VARS,        /* the same for /debug/vars */
    API_MOVE_LEADER, /* `member` is to lead instead of this one. Without a call: whoever waits
                        for it sees it by the facts */
};

/* A change of the members. */
struct api_change {
    struct raft_conf_change conf; /* but for its id */
    bool is_promotion;            /* as its context says; by its type it adds a voter */
};

/* What is asked of the leader. */
enum api_forward_kind {
    API_FORWARD_RENEW,        /* a lease */
    API_FORWARD_TIME_TO_LIVE, /* how long it has */
    API_FORWARD_PROMOTE,      /* a member, from learner to voter */
};

struct api_forward {
    enum api_forward_kind kind;
    bool with_keys;
    int64_t lease;
    uint64_t member;
    struct bytes token; /* of whoever asks for a promotion; lent by the call */
};

/* What the leader has answered; lent. */
struct api_forwarded {
    bool is_here; /* nobody was asked: this member leads by now */
    const struct pb_lease_time_to_live_response
        *response;                   /* a renewal's: ttl. NULL: no such lease */
    const struct pb_member *members; /* after a promotion */
    size_t member_count;
};

/* What is to be done with a password; lent. */
struct api_password {
    bool compares;         /* with `hash`, or with nobody's if that is empty; else one is made */
    struct bytes password; /* without zero bytes and not too long where a hash is made */
    struct bytes hash;
    struct bytes remote; /* where the client is: those of one address wait for each other */
};

struct api_password_result {
    bool is_refused;    /* too many wait */
    bool is_too_costly; /* to be compared with: it does not match */
    bool matches;
    char hash[64]; /* what was made */
    size_t hash_len;
};

struct api_need {
    enum api_need_kind need;
    struct api_call *call;
    struct identity identity; /* whose it is; lives as long as the call */
    /* PROPOSE: all but the header; lives as long as the call. */
    const struct pb_internal_raft_request *request;
    const struct api_change *change; /* CONFIGURE: lives as long as the call */
    struct api_forward forward;      /* FORWARD */
    struct api_password password;    /* PASSWORD */
    struct bytes remote;             /* IMAGE: where the client is; lives as long as the call */
    uint64_t member;                 /* MOVE_LEADER */
    size_t decoded_bytes;            /* of its request, beside those that came */
};

/* Takes the content over. */
void api_event(struct api *a, struct rpc_event *e);

/* The next one, false if there is none. What FORGET names is freed by the next call of this. */
bool api_take_need(struct api *a, struct api_need *out);

/*
 * What has become of a need: exactly one of these for each that has a call, unless FORGET came
 * before; also at once, while needs are still being taken. The call is dead after it, or belongs
 * to api again. The effects' reply is taken over.
 */
void api_applied(struct api *a, struct api_call *c, struct apply_effects *e);
void api_read_index_done(struct api *a, struct api_call *c);
void api_forwarded(struct api *a, struct api_call *c, const struct api_forwarded *f);
void api_hashed(struct api *a, struct api_call *c, uint32_t hash);
void api_cut(struct api *a, struct api_call *c, struct image *image); /* taken over */
void api_measured(struct api *a, struct api_call *c, struct bytes text);
void api_password_done(struct api *a, struct api_call *c, const struct api_password_result *r);
void api_failed(struct api *a, struct api_call *c, enum result why);

/* Goes on with what takes long, and sends watch messages. True if there is nothing left to do until
 * something happens; but some things happen by the clock, so each tick should ask. */
bool api_work(struct api *a, unsigned steps);

/* Another image of the state takes the place of the one that was asked so far (a snapshot was
 * installed). What is being read goes on with the old one, which must stay until nobody does:
 * mvcc_end_scans makes those end who take too long. Everything else asks the new one. */
struct api_state {
    struct apply *apply;
    struct auth *auth;
    struct mvcc *mvcc;
    struct lease_set *leases;
    struct cluster *cluster;
    struct backend *backend;
};
void api_state_replaced(struct api *a, const struct api_state *state);

/* Begins a defragmentation that no client has asked for; none may be under way. A client's own
 * comes after it. */
void api_defragment(struct api *a);

/* Ends all streams and calls under way with this answer: the server stops. Those that it has in
 * hand it is told to forget. */
void api_stop(struct api *a, enum result why);

struct api_status {
    size_t calls; /* under way, streams too */
    size_t reads; /* going on in slices */
    size_t streams;
};
struct api_status api_status(const struct api *a);

const struct api_stats *api_stats(const struct api *a);
bool api_is_defragmenting(const struct api *a);

/* Writes to the log what gRPC's health service says of this server. */
void api_health_tell(const struct api *a);

/* All invariants, asserted. */
void api_check(const struct api *a);
