/*
 * forwarding: what only the leader can answer, asked of it for a client of ours.
 *
 * How much of a lease's time has passed is known to the leader alone, and renewals do not go
 * through the log; nor does anybody else know how far behind a learner is that is to be promoted. A
 * follower asks the leader over the peer port and hands the result back to api.
 *
 *     API_FORWARD --> [waiting: for a leader, and for its connection's turn] --> [asked] --> take
 *                            ^                                                      |
 *                            +------------- [retrying: 50 ms] <---- no answer ------+
 *     time is up, or this member leads by now --> take: so it is
 *     the leader refuses a promotion for a reason that stays, or its answer has more than
 *     FORWARDING_BYTES_MAX of keys --> take: why
 *
 * Promises   1. A call that came in goes out exactly once, by forwarding_take, unless it is
 *               forgotten before.
 *            2. Within the time limit. Those for whom there was no leader are told that.
 *            3. An answer counts only if it is about the lease that was asked for, or has members.
 *            4. The leader is asked FORWARDING_ASKED_MAX at the same time, for connections in
 *               turn: a client that renews thousands of leases does not delay another's renewal
 *               until its lease has expired.
 * Not here   What the leader does (peer_requests.h). Bytes (peer). Turns (fair.h).
 */
#pragma once

#include "api/api.h"
#include "base/map.h"
#include "server/fair.h"

struct peer_event;
struct peers;

struct forwarding_options {
    struct peers *peers;
    const struct api_facts *facts; /* kept up to date by the server */
    uint64_t map_seed;
    uint64_t limit_ms;
};

struct forwarding {
    struct forwarding_options o;
    struct map asks;      /* token -> struct forward, all of them */
    struct list ages;     /* those that are not done, oldest first */
    struct fair waiting;  /* to ask a leader */
    struct list retrying; /* had no answer; in the order in which they ask again */
    struct list asked;
    size_t asked_count;
    struct list done;
    struct forward *taken; /* lent to the taker, until the next */
    uint64_t last_token, leader;
};

void forwarding_init(struct forwarding *f, const struct forwarding_options *options);
/* Also one that is all zeroes. Calls that wait are api's to end. */
void forwarding_free(struct forwarding *f);

/* --- tell --- */

/* An API_FORWARD. */
void forwarding_need(struct forwarding *f, const struct api_need *need);
/* False: it was not here. */
bool forwarding_forget(struct forwarding *f, const struct api_call *c);
/* A PEER_RESULT with a token of PEERING_TOKEN_FORWARD. */
void forwarding_result(struct forwarding *f, const struct peer_event *e);
/* A turn has come: time has passed, perhaps another leads. */
void forwarding_work(struct forwarding *f);

/* --- take --- */

/* What became of a call: *why is RESULT_OK with the answer in *out, or says why there is none. Lent
 * until the next. NULL: nothing is done. */
struct api_call *forwarding_take(struct forwarding *f, enum result *why, struct api_forwarded *out);

/* Could forwarding_work go on at once? */
bool forwarding_has_more(const struct forwarding *f);

/* All invariants, asserted. */
void forwarding_check(const struct forwarding *f);
