/*
 * history: what happened, in the one order there is, and whether everybody's story agrees with it.
 *
 * A witness watches all keys from the first revision on and never gives up; what it sees is the
 * history. Everything else is checked against it: what writers were told, what readers were shown,
 * what other watchers saw. Values begin with the number of the operation that wrote them, so each
 * event names its cause. Requests and answers are kept whole, and at the end each request is
 * executed once more, on a slow obvious model of the state at its revision (judge.c).
 *
 *     request, answer --------------------+
 *     events: r-1 | r | r+1 ...           +--> judge: the same answer? the same events?
 *               ^ the state it began from-+
 *
 * Checks     1. Revisions grow by one, and each event's kv agrees with the keys' lives so far.
 *            2. An operation that was answered has exactly the events, at the revision it was told,
 *               and exactly the answer (previous values, counts, ranges at old revisions, inner
 *               answers of transactions) that follow from the state before it.
 *            3. One whose answer never came has happened as a whole, at most once, or not at all.
 *            4. No revision without a cause: an operation begun before it, or the end of a lease.
 *            5. What was answered before something else began has no higher revision: strict order,
 *               whichever members they were at. A serializable read may be of any state there was;
 *               so may what a lease is asked, if there are several members: it is asked of one that
 *               believes to lead.
 *            6. A lease ends when it is revoked, or when its time is up and not before; and then it
 *               does end, with all its keys. Until then it can be renewed and put to use, and after
 *               that it cannot.
 *            7. The store's hash at a revision, with what a compaction has left below it, is the
 *               same whoever is asked, and whenever; but for a revision at which no key is alive.
 *            8. A backup, restored, has an index, and at its revision exactly the history's keys,
 *               with values, versions and leases, and the hash that members have there.
 *            9. A watcher sees exactly the history's part that it asked for, no revision in two
 *               pieces, with the values before; and a notice of progress is true: nothing up to
 *               there comes later, or never. A compaction ends none that was live and had credit
 *               for what happened until then.
 * A violation ends the run: history_fail.
 *
 * Members    All of this is said of the cluster, and clients are wherever they are. Three things
 *            are of a member: how far it is (server_revision), which a client cannot know; whose
 *            clock ends leases (leader_began_ns); and how wrong that clock may be.
 */
#pragma once

#include "base/buf.h"
#include "pb/codec.h"

enum {
    HISTORY_KEYS = 12, /* k00, k01, ...: those that everything happens to */
    HERD_KEYS = 640,   /* z0000 ...: so many that deleting them takes several turns */
    HISTORY_ALL_KEYS = HISTORY_KEYS + HERD_KEYS,
    HISTORY_KEY_BYTES = 8,
    HISTORY_MEMBERS_MAX = 10,
};

enum history_kind {
    OP_PUT,
    OP_DELETE,
    OP_TXN,
    OP_RANGE,
    OP_KEYS, /* of a lease: LeaseTimeToLive */
    OP_REVOKE,
    OP_GRANT, /* from here on there is nothing in the answer that the judge could look at */
    OP_RENEW,
    OP_HASH_KV,
    OP_MAINTENANCE,
    OP_OTHER,
};

const char *history_kind_name(enum history_kind kind); /* "keys of a lease" */

/* One operation of a client, from its beginning to its answer. */
struct history_op {
    enum history_kind kind;
    int64_t floor;             /* the highest revision anybody had been told when it began */
    bool done, failed;         /* answered; failed: with an error, so nobody knows what happened */
    int64_t revision;          /* that it was told */
    int64_t seen;              /* where its value is in the history; 0: nowhere */
    int64_t lease;             /* that it names */
    uint64_t began_ns;         /* virtual time */
    uint64_t over_ns;          /* when it was answered, or given up */
    unsigned member;           /* that it was last sent to */
    bool refused;              /* failed, and so that it has certainly not happened */
    bool is_sent, repeated;    /* more than once: an earlier one may have happened */
    bool is_renewed;           /* a lease, for its whole time again */
    struct buf request, reply; /* as sent */
};

/* An event of the history. */
struct history_event {
    int64_t revision;
    unsigned key;
    bool deleted;
    uint64_t op; /* that wrote the value; UINT64_MAX: deleted */
    int64_t create_revision, version, lease;
    uint64_t seen_ns; /* by the witness */
    size_t bytes;     /* of key and value */
    size_t before;    /* the key's event before this one, plus one; 0: none */
};

/* A lease that a client was told it has. */
struct history_lease {
    int64_t id, ttl;
    uint64_t renewed_ns;        /* when it was last asked for, and got */
    uint64_t may_be_renewed_ns; /* no later than this, by calls whose answer may not have come */
    int64_t ended_at;           /* the revision at which its keys went; 0: not yet */
    bool may_be_revoked;
};

/* What somebody was told that the store's hash is. */
struct history_hash {
    int64_t revision, compact_revision;
    uint32_t hash;
    unsigned member;
};

/* What a backup holds, once it is restored. */
struct history_image {
    uint64_t index; /* of the log */
    int64_t revision, compact_revision;
    uint32_t hash; /* HashKV there */
    unsigned member;
    struct history_event *kvs; /* all that are alive, by key */
    size_t kv_count;
};

/* A key's events, by where they are. */
struct history_line {
    size_t *at;
    size_t count, cap;
};

struct history {
    struct history_op *ops;
    size_t op_count, op_cap;
    struct history_event *events;
    size_t event_count, event_cap;
    struct history_line lines[HISTORY_ALL_KEYS];
    struct history_lease *leases;
    size_t lease_count, lease_cap;
    struct history_hash *hashes;
    size_t hash_count, hash_cap;
    struct history_image *images;
    size_t image_count;
    uint64_t hashes_compared; /* with one that was told before */
    int64_t told;             /* the highest revision anybody was told */
    int64_t seen;             /* the witness has everything up to here */
    int64_t compacted;        /* the highest compaction anybody has asked for */
    uint64_t now_ns;
    unsigned members;                             /* 0: one */
    int64_t server_revision[HISTORY_MEMBERS_MAX]; /* as it is: clients do not know it */
    uint64_t leader_began_ns; /* whoever leads gives all leases their whole time, when it begins, or
                                 when its state was replaced */
    uint64_t healed_ns;       /* from then on there was a leader, and it heard a majority */
    uint64_t lease_late_ns;   /* how late a lease may end, then */
    uint64_t clock_ppm_max;   /* how far a member's second is from the world's, in millionths */
    bool witness_is_live;     /* it had everything there was, and is still connected */
    bool has_installs;        /* the members' states are replaced now and then, */
    uint64_t installs;        /* so often up to now */
    bool connections_break;   /* without a crash: what is on its way to the witness may be lost */
    char problem[512];
    bool failed;
};

void history_free(struct history *h);

__attribute__((format(printf, 2, 3))) void history_fail(struct history *h, const char *format, ...);

/* "k07", "z0123"; in the order of their numbers. Returns out. */
const char *history_key(unsigned key, char out[static HISTORY_KEY_BYTES]);
bool history_key_of(struct bytes key, unsigned *out);
/* The number at its beginning. */
uint64_t history_number(struct bytes value);

/* A new operation begins. Its number, which its values begin with, is op_count before this. */
uint64_t history_begin(struct history *h, enum history_kind kind, struct bytes request);
struct history_op *history_op(struct history *h, uint64_t op);

/* It was answered: at this revision, with this message. A stale one may lie below what others were
 * told before. */
void history_done(struct history *h, uint64_t op, int64_t revision, struct bytes reply, bool stale);
void history_gave_up(struct history *h, uint64_t op);
/* It is sent to this member; and it may have been sent to others before. */
void history_sent(struct history *h, uint64_t op, unsigned member);
void history_refused(struct history *h, uint64_t op);

/* NULL: nobody was told of it. */
struct history_lease *history_lease(struct history *h, int64_t id);
void history_granted(struct history *h, uint64_t op, int64_t id, int64_t ttl);
void history_renewed(struct history *h, uint64_t op, int64_t id, int64_t ttl);
/* The server says that it does not exist. */
void history_lease_is_gone(struct history *h, int64_t id);

/* A member says that this is the hash of its store at a revision, with the history from another one
 * on. `asked`: 0: of its newest, which is no lower than `floor`. */
void history_hashed(struct history *h, unsigned member, int64_t asked, int64_t floor,
                    const struct pb_hash_kv_response *r);

/* A backup of this member was restored; its kvs are taken over. It had said before that it was at
 * revision `floor`. */
void history_restored(struct history *h, unsigned member, int64_t floor,
                      const struct history_image *image);

/* What the witness was shown, in order. */
void history_witness(struct history *h, const struct pb_event *e);

/*
 * May history be cut above what the witness has seen? A watcher that is live gets everything up to
 * the cut; one that lags is cancelled. So the witness must be live, and have credit for whatever is
 * under way; and no state may come in the place of the member's, since everybody lags then.
 */
bool history_may_cut(const struct history *h);

/* How many events there are up to this revision, and the newest of the key among so many; NULL if
 * there is none. */
size_t history_up_to(const struct history *h, int64_t revision);
const struct history_event *history_newest(const struct history *h, unsigned key, size_t count);

/* What one watcher saw between its start and its end. */
struct history_watch {
    unsigned from_key, to_key; /* those between, the second not included */
    int64_t from;
    bool no_puts, no_deletes, prev_kv;
    bool to_the_end; /* it was still there at the end, and must have seen everything */
    int64_t live_at; /* it was live, and had been given everything up to here; 0: nobody knows */
    int64_t cut_at; /* the compaction that ended it; 0: none, or one that may have come with another
                       state, for which it lagged */
    uint64_t installs; /* before it began */
    struct buf seen;   /* struct history_seen */
    struct buf told;   /* struct history_progress */
};

struct history_seen {
    struct history_event event;
    bool has_prev, joined; /* joined: it came in one message, or fragments of one, with the last */
    int64_t prev_revision;
    uint64_t prev_op;
    int64_t compacted; /* as the history has it, when this came */
};

struct history_progress {
    int64_t revision; /* everything up to here */
    size_t count;     /* was in what had been seen then */
};

/* Notes an event; false if it is not one of ours. */
bool history_watch_saw(struct history *h, struct history_watch *w, const struct pb_event *e,
                       bool joined);
void history_watch_progress(struct history_watch *w, int64_t revision);
/* Has it seen all that there is for it so far? */
bool history_watch_is_done(const struct history *h, const struct history_watch *w);
void history_check_watch(struct history *h, const struct history_watch *w);

/* At the end, when the witness has seen everything. */
void history_check(struct history *h);
void history_check_images(struct history *h); /* of it, those alone */

/* judge.c: does the operation, executed on the state before, have these events (the history's, from
 * `at` on, up to the end of that revision) and, if it was answered, its answer? */
bool judge_writes(struct history *h, const struct history_op *o, size_t at);
/* And on the state at its revision no events, and its answer? */
bool judge_reads(struct history *h, const struct history_op *o);
/* Are these the keys of the lease at some revision? */
bool judge_keys(struct history *h, const struct history_op *o);
