/*
 * pending: who waits for what, and for how long.
 *
 * A call that api cannot answer by itself waits here: for its proposal to be applied, or for the
 * assurance that a read will not be stale.
 *
 *     PROPOSE --> [queue] --take_proposals--> raft, log, apply --take_applied--> the call
 *                   ^
 *         [held] ---+   the queue is full: the call keeps its request until its connection's turn
 *     CONFIGURE --> [changes] --take_change--> the same
 *     READ    --> [new] --take_round--> raft --read_state--> [confirmed] --take_confirmed--> the call
 *     any of these: refused, dropped, the leader has gone, time is up
 *             --> [failed] --take_failed--> the call, and why
 *
 * Proposals are encoded once, when they come; the id in their header is how they are found again.
 * Reads that come while a round is under way share the next one. Conf changes are proposed one
 * after the other, since raft puts something empty in the place of a second one, and nobody would
 * ever hear what became of it.
 *
 * Promises   1. A call that came in goes out exactly once, by one of the three takes, unless it is
 *               forgotten before.
 *            2. Within its time limit: it goes out as failed then, whatever has become of its
 *               proposal, which may still be applied if raft has taken it. One that raft has not
 *               been given goes with its call.
 *            3. Proposals are handed out once, those of one connection in the order in which they
 *               came. Of what the queue has no space for, connections are served in turn: a client
 *               that floods its own does not keep out another's write.
 *            4. A read is confirmed by a round that was asked for after it had come, and handed out
 *               when this member has applied everything up to that round's index.
 *            5. The queue has PENDING_QUEUE_MAX proposals of clients at most, and
 *               PENDING_QUEUE_BYTES_MAX bytes of them. A call that is held keeps its request at
 *               the expense of its connection, which is not read from while too much of what it
 *               has sent is not answered (rpc.h, promise 3). What such a request has grown by in
 *               decoding has a bound of its own (PENDING_KEPT_BYTES_MAX), and so has that of
 *               reads without a leader. What needs no log is heard always.
 * Not here   Raft, and answering: the server carries values between them. The calls are api's.
 * Leans on   api.h for calls and needs, fair.h, pb.
 */
#pragma once

#include "api/api.h"
#include "base/map.h"
#include "server/fair.h"

/* Proposals that were given to raft one after the other: ids and indexes of the log both go up by
 * one. */
struct pending_run {
    uint64_t first_id, first_index;
    uint64_t count;
};

struct pending_stats {
    uint64_t proposals_failed;         /* dropped, timed out, or given up by their clients */
    uint64_t reads_slow, reads_failed; /* rounds that had to be asked again; reads */
};

/* When a proposal of the server's own was made. */
struct pending_own {
    uint64_t id, began_ns;
};

struct pending_options {
    const struct api_facts *facts; /* kept up to date by the server */
    uint64_t salt;                 /* random: ids and contexts begin there */
    uint64_t map_seed;
    size_t request_bytes_max; /* of a proposal, with its header */
    uint64_t limit_ms;        /* how long a proposal or a read may take */
};

struct pending {
    struct pending_options o;
    struct map awaited;  /* request id -> struct api_call */
    struct list waiting; /* calls whose proposal is queued or under way, oldest first */
    struct list queue;   /* struct proposal, not yet given to raft */
    size_t queue_count, queue_bytes, lent_count; /* lent: handed out by take_proposals */
    size_t leading_count;                        /* in the queue, of a leader as such */
    struct fair held;  /* calls that wait for space in it, by connection */
    size_t kept_bytes; /* of them, and of reads that have found no leader: as decoded */
    uint64_t id_prefix, id_count;
    uint64_t proposed_id; /* of the last one that raft has accepted */
    struct list reads_new, reads_asked, reads_confirmed; /* calls */
    uint64_t read_began_ns;                              /* when the round was asked for at first */
    uint64_t read_round, read_asked_ms; /* the round: an id as well, of a count of its own */
    struct list changes, changing;      /* calls: to be proposed; under way, at most one */
    struct list failed;                 /* calls */
    struct pending_stats stats;
    struct pending_own own[PENDING_OWN_TIMES]; /* the server's own proposals, the last ones */
    size_t own_at;

    /* Oldest first, those from run_at on; nearly always one for each append that is under way. */
    struct pending_run *runs;
    size_t run_at, run_count, run_cap;
};

/* All zeroes before; the facts name this member already. */
void pending_init(struct pending *p, const struct pending_options *options);
/* Also one that is all zeroes. Calls that wait are api's to end. */
void pending_free(struct pending *p);

/* --- tell --- */

/* A call wants to PROPOSE, RAISE_ALARM, CONFIGURE or READ, or is to be forgotten: then it is named
 * to nobody any more. */
void pending_need(struct pending *p, const struct api_need *w);

/* A request of the server's own, for which nobody waits. Its header, if it has one, says in whose
 * name. Returns its id. One that only a leader
 * makes is dropped if this member leads no more before raft has it: forwarded to another leader, it
 * would speak of what that one knows better. */
uint64_t pending_propose_own(struct pending *p, const struct pb_internal_raft_request *request);
uint64_t pending_propose_leading(struct pending *p, const struct pb_internal_raft_request *request);
/* This member does not lead, in raft's own words: the facts may be a moment behind. */
void pending_not_leading(struct pending *p);

/* Nothing can be put through the log now: calls whose proposal raft has not been given fail. As
 * long as the facts say that the disk is full, others fail at once. */
void pending_refuse(struct pending *p, enum result why);

/* What became of the last take_proposals, in raft: all of them or none were accepted. The first of
 * them has this index in the log; 0: nobody knows, since another member leads. */
void pending_proposed(struct pending *p, bool accepted, uint64_t first_index);

/* What became of the last take_change, in raft, and its index in the log; 0: nobody knows. */
void pending_change_proposed(struct pending *p, bool accepted, uint64_t index);

/* The state is being replaced by one of this index, which is above the applied one: entries in
 * between will not be applied here, and nobody will know what came of them. Whose proposal is one
 * of those fails. (Whose place is not known waits until his time is up, as in etcd.) */
void pending_overtaken(struct pending *p, uint64_t index);

/* Raft's answer to a round; one that is not the last is out of date and changes nothing. */
void pending_read_state(struct pending *p, struct bytes context, uint64_t index);

/* The leader that reads were asked of leads no more: there will be no answer. */
void pending_leader_lost(struct pending *p);

/* Time has passed. */
void pending_tick(struct pending *p);

/* --- take --- */

/* Proposals for raft, at most `max` of them and about `bytes`, but one at least; none while there
 * is no leader. They are lent until pending_proposed, which must follow unless there are none. */
size_t pending_take_proposals(struct pending *p, size_t bytes, struct blob **out, size_t max);

/* A conf change for raft, with its id; lent until pending_change_proposed, which must follow. False
 * while one is under way, or there is no leader. */
bool pending_take_change(struct pending *p, struct raft_conf_change *out);

/* The context of a read round to be asked of raft, or NULL. It is the caller's to unref. */
struct blob *pending_take_round(struct pending *p);

/* The call that waits for the request of this id, which has been applied; or NULL. */
struct api_call *pending_take_applied(struct pending *p, uint64_t id);
/* When the server made the proposal of this id, of its own; 0: it did not, or long ago. */
uint64_t pending_own_began_ns(const struct pending *p, uint64_t id);
/* A read that may be served now; or NULL. */
bool pending_has_confirmed(const struct pending *p);
struct api_call *pending_take_confirmed(struct pending *p);
/* A call that will not get what it wants; or NULL. */
struct api_call *pending_take_failed(struct pending *p, enum result *why);

/* --- ask --- */

bool pending_is_awaited(const struct pending *p, uint64_t id);
/* Is this proposal in the queue, or in the log and not applied? A proposal that another leader's
 * entry has replaced counts until that entry is applied. */
bool pending_is_under_way(const struct pending *p, uint64_t id);
/* Are there proposals that raft could be given? */
bool pending_has_proposals(const struct pending *p);
bool pending_has_change(const struct pending *p);
size_t pending_count(const struct pending *p); /* calls whose proposal is under way */

/* All invariants, asserted. */
void pending_check(const struct pending *p);
