/*
 * peer_requests: what other members want to know of us, besides raft's messages.
 *
 *     GET  /members            who is in the cluster
 *     GET  /version            what this member runs
 *     GET  /downgrade/enabled  as a linearizable read
 *     POST /leases             a renewal, for a client of another member; only the leader can, and
 *                              first a read round says that this member leads
 *     POST /leases/internal    how long a lease has to live, likewise
 *     GET  /members/hashkv     the hash of the store at a revision
 *     POST /members/promote/N  a learner becomes a voter; only the leader can say whether it may
 *
 * Paths, statuses and texts are etcd's. Some are answered at once; others wait for entries to be
 * applied, for a read round, or are worked on in slices.
 *
 *     PEER_REQUEST --> peer_requests_hear --+--> peers_respond
 *                                           +--> waiting --peer_requests_work--> peers_respond
 *                                           +--> take_need --> pending --> confirmed, applied,
 * failed
 *
 * Promises   1. Every request is answered once, unless whoever has asked for a hash is gone.
 *            2. No more than PEER_QUESTIONS_MAX wait; more are told to come again.
 *            3. However many hashes are asked for, a turn computes a slice of one.
 * Not here   Which of them a stranger may ask (peer).
 */
#pragma once

#include "api/api.h"
#include "mvcc/mvcc.h"

struct cluster;
struct lease_set;
struct peer_event;
struct peers;
struct state;

struct peer_requests_options {
    struct peers *peers;
    struct cluster *cluster;
    struct lease_set *leases;
    struct mvcc *mvcc;
    const struct apply *apply;
    struct auth *auth;
    struct auth_tokens *tokens; /* NULL: none are given out */
    const struct api_facts *facts;
    const struct logger *logger;
    const char *storage_version; /* as it is by now; empty: not known */
};

struct peer_requests {
    struct peer_requests_options o;
    struct list waiting; /* struct peer_question; of hashes the next in turn first */
    struct list needs;   /* of them, to be taken */
    size_t count;
};

void peer_requests_init(struct peer_requests *r, const struct peer_requests_options *options);
/* Also one that is all zeroes. Nobody is answered any more. */
void peer_requests_free(struct peer_requests *r);

void peer_requests_hear(struct peer_requests *r, const struct peer_event *e);

/* The rooms are others now. Hashes under way begin again there; the old ones hold nothing of ours.
 */
void peer_requests_state_replaced(struct peer_requests *r, const struct state *state);

/* Looks at all that wait. False: there is more to be done at once. */
bool peer_requests_work(struct peer_requests *r, unsigned steps);

/* For pending; its call is one of ours (call->api is NULL), and comes back by one of the three. */
bool peer_requests_take_need(struct peer_requests *r, struct api_need *out);
void peer_requests_confirmed(struct peer_requests *r, struct api_call *c);
void peer_requests_applied(struct peer_requests *r, struct api_call *c, enum result result);
void peer_requests_failed(struct peer_requests *r, struct api_call *c, enum result why);

/* All invariants, asserted. */
void peer_requests_check(const struct peer_requests *r);
