/*
 * apply: the replicated state machine. One committed entry in, its effects out.
 *
 * Every member runs every entry through here, in order, and must come to the same state; so nothing
 * that is written here depends on time, chance or who is asking. Five stages, always in this order:
 *
 *     entry --> corrupt alarm? --> no-space alarm? --> may they? --> quota --> execute --> effects
 *
 * The first three may end it with an answer. The quota does not: the others execute the entry, so
 * this member does too, and only tells its client otherwise.
 *
 * An entry may take long (a delete of a million keys, a lease with as many): it is executed in
 * slices, order kept, and published at its end. Reads that do not go through the log (Range, a
 * transaction that only reads) use the same code on the published state.
 *
 *     id = apply_begin(a, entry, now_ms);   if somebody waits for id, apply_make_reply(a)
 *     while (!apply_some(a, steps)) ... next turn ...
 *     e = apply_effects(a);   who waits for e->id gets e->result and e->reply; watchers e->changes
 *     apply_end(a, conf_state);
 *
 * A transaction goes through its requests three times: all compares at all levels against the state
 * before, which settles the path; the checks of what lies on the path; then the path itself, on one
 * revision. An entry of the log may be nested thousands of levels deep, so none of it recurses.
 *
 * Promises   1. Equal entries lead to equal state, on every member, byte for byte in the backend.
 *            2. An entry at or below the backend's applied index changes nothing.
 *            3. A transaction is checked in full on its chosen path before its first write, and
 *               fails as a whole.
 *            4. An entry that cannot be understood stops the member before anything later is
 *               applied: on_refused, with a text that says why. Skipping it would let this member
 *               drift apart from the others in silence.
 *            5. No call does more than its steps, or O(log n) beyond them; only decoding an entry
 *               and adding up its cost take time with its bytes. Memory does not grow with the keys
 *               that an entry or a read touches: a range that is compared is read in pieces of
 *               APPLY_COMPARE_BYTES, one that is shown as the client takes it (reply.h).
 * Quirks     Kept from etcd: client-api.md 2.5, 3.3 to 3.6. Where etcd would panic because a
 *            transaction deletes a key and then keeps its value or lease by a put (possible since a
 *            delete with range_end "\0" passes the check for overlaps), there is nothing to keep:
 *            the value is empty, the lease none.
 * Auth       Whatever an entry asks for is decided here alone, by the header that it carries and
 * the tables as the log has made them so far (auth/auth.h): who asks may have been granted it by
 * the entry before. A read is decided about when it begins, and not answered if the tables have
 * changed until its end. An entry that has a password in clear, as before etcd 3.5, is refused
 * (promise 4): its hash would be another on every member. Not here   Order and durability (raft,
 * wal). Who waits (server). Whether a request's arguments make sense, and the header of responses
 * (api). Leans on   mvcc, lease, auth, cluster, backend, entry, pb.
 */
#pragma once

#include "apply/reply.h"
#include "apply/result.h"
#include "base/identity.h"
#include "base/limits.h"
#include "entry/entry.h"

struct auth;
struct auth_tokens;
struct backend;
struct cluster;
struct lease_set;
struct apply; /* opaque */

struct apply_options {
    struct backend *backend; /* these five outlive the apply */
    struct mvcc *mvcc;
    struct lease_set *leases;
    struct cluster *cluster;
    struct auth *auth;
    struct auth_tokens *tokens; /* that those who log in are given; NULL: none here */
    uint64_t own_id;
    int64_t quota_bytes;     /* 0: APPLY_QUOTA_BYTES_DEFAULT; negative: none */
    bool checkpoint_persist; /* as lease_open was told: kept from cluster version 3.6 on anyway */

    /* This member can go no further. After it only apply_close is of use. */
    void (*on_refused)(void *context, const char *text);
    void *context;
};

/* Loads the alarms. ERR_CORRUPT: `why` gets a sentence. The caller owns *out and ends it with
 * apply_close. */
MUST_CHECK enum err apply_open(const struct apply_options *options, struct buf *why,
                               struct apply **out);

/* Those who log in from now on are given these. */
void apply_use_tokens(struct apply *a, struct auth_tokens *tokens);

/* No read is under way (asserted); an entry may be, if the member stops there. NULL is fine. */
void apply_close(struct apply *a);

/* --- entries --- */

struct apply_effects {
    uint64_t index, term;
    unsigned kind;      /* of the request; APPLY_KIND_NONE */
    uint64_t id;        /* of the request; 0: nobody can be waiting */
    enum result result; /* OK, or what the caller is told */
    int64_t revision;   /* for the response's header: the store's, after the operation */
    struct reply reply; /* the response without its header field; the taker moves it out */
    struct mvcc_changes changes;
    bool no_op;          /* empty: a leader's first entry, or in place of a conf change */
    bool quota_exceeded; /* a NOSPACE alarm for this member should be proposed */

    /* A compaction. `compacted`: it has begun, watchers want to know. With physical the caller
     * waits for mvcc_compact_finished, even if the answer is COMPACTED. */
    bool compacted, compact_physical;
    int64_t compact_revision; /* asked for */

    bool version_lowered; /* the cluster's: etcd makes a snapshot then, for older members */

    /* A conf change: what raft is to be told (node_id 0 if it was refused). */
    bool is_conf_change, removed_self;
    bool skip_raft; /* at or below the backend's index: raft knows it already */
    struct raft_conf_change conf_change;
};

/* The entry's data is shared until apply_end. now_ms is only handed to lease, for its deadlines.
 * Entries come one after the other, none left out (asserted); old ones may come again. Returns the
 * request's id, 0 if nobody can be waiting for it. */
uint64_t apply_begin(struct apply *a, const struct raft_entry *entry, uint64_t now_ms);

/* Somebody here waits for the request that has just begun: its response is made as well. Without
 * this only its effects are. */
void apply_make_reply(struct apply *a);

/* True: done, effects are there. Never true for an entry that was refused. */
bool apply_some(struct apply *a, unsigned steps);
struct apply_effects *apply_effects(struct apply *a);

/* Ends the entry in the backend; conf_state as JSON if the configuration has changed, else NULL
 * bytes. A reply that nobody took is freed. */
void apply_end(struct apply *a, struct bytes conf_state);
bool apply_is_busy(const struct apply *a);

/* What the entry at hand asks for, in one line for the log, without values and secrets; nothing of
 * one that is no request. Until apply_end. Appends. */
void apply_describe(const struct apply *a, struct buf *out);

/* The state is about to be replaced by another. The entry at hand, if there is one, is given up
 * half done, and with it what was written to the state: nobody may look at that but for reads that
 * are under way, which see what was published before. When there are none, apply_close. */
void apply_give_up(struct apply *a);
bool apply_is_reading(const struct apply *a);

/* --- reads of the published state --- */

/*
 * A Range or a transaction without writes, in slices. Embedded; all zeroes with one request set,
 * which outlives the read but not its reply. It sees the state at its beginning, whatever is
 * applied or compacted between its slices.
 */
struct apply_read {
    const struct pb_range_request *range;
    const struct pb_txn_request *txn;
    struct identity identity; /* who reads; lives as long as the request */
    bool keep_open; /* RangeStream: leave the scan open for the caller instead of a reply */

    enum result result;     /* from here on results */
    int64_t revision;       /* for the header: the store's when it was read */
    struct reply reply;     /* without header */
    struct mvcc_scan *scan; /* with keep_open: measured; the taker ends it by reply_scan_free */
    struct apply *apply;    /* whose state it reads, also when that has been replaced */
    void *state;            /* apply's own */
};
void apply_read_begin(struct apply *a, struct apply_read *r);
bool apply_read_some(struct apply_read *r, unsigned steps); /* true: done */

/* At any time, and again; frees what was not taken. */
void apply_read_end(struct apply_read *r);

/* --- checks that api makes before proposing, by the same code that apply uses --- */

/* How large the store may grow, in force: negative if there is no bound. */
int64_t apply_quota_bytes(const struct apply *a);

/* Would this request exceed the quota now? */
bool apply_over_quota(const struct apply *a, const struct pb_internal_raft_request *request);

/* Has the transaction only ranges? A nested one, even if it only reads, counts as a write. */
bool apply_txn_is_read_only(const struct pb_txn_request *txn);
/* And only serializable ones? Without any, too. */
bool apply_txn_is_serializable(const struct pb_txn_request *txn);

/* --- alarms --- */

struct apply_alarm {
    uint64_t member;
    int32_t alarm; /* enum pb_alarm_type, or what a later version may know */
};

/* In order of member and alarm, good until the next entry; returns how many there are. */
size_t apply_alarms(const struct apply *a, const struct apply_alarm **out);
bool apply_has_alarm(const struct apply *a, struct apply_alarm alarm);

/* --- for metrics --- */

/* What was done to keys and asked of them since it was opened, as etcd counts: each operation of a
 * transaction, a compare and a look at what was there before as ranges, and transactions of more
 * than one of these. Whoever opens another state in its place assigns them. */
struct apply_stats {
    uint64_t ranges, puts, deletes, txns;
    uint64_t put_bytes; /* of keys and values */
};
struct apply_stats *apply_stats(struct apply *a);

/* Kinds of requests are numbered from 0; those of an entry that is none have the number
 * APPLY_KIND_NONE. Their names are etcd's: "Put", "LeaseGrant". */
enum { APPLY_KINDS = 30, APPLY_KIND_NONE = APPLY_KINDS };
unsigned apply_kind(const struct pb_internal_raft_request *request);
void apply_kind_name(unsigned kind, struct buf *out);
uint64_t apply_auth_revision(const struct apply *a);

/* All invariants, asserted. */
void apply_check(const struct apply *a);
