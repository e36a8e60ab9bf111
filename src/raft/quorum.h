/*
 * quorum: when enough members agree.
 *
 * Two questions are asked of a set of voters. Up to which index has a majority of them
 * acknowledged? And is an election won, lost, or open? In a joint configuration there are two sets
 * and both must agree, with no regard to whom they share; an empty set agrees with everything, so
 * that "not joint" needs no special case.
 *
 * The sets are ascending lists of ids. What each voter acknowledged or voted is looked up through a
 * function, because the leader keeps that in three places (match, votes, read acknowledgements).
 */
#pragma once

#include "raft/raft.h"

/* What the voter has acknowledged; false if it has not been heard of. */
typedef bool quorum_acked(const void *context, uint64_t id, uint64_t *index);

enum quorum_vote { QUORUM_VOTE_MISSING = 0, QUORUM_VOTE_YES, QUORUM_VOTE_NO };
typedef enum quorum_vote quorum_voted(const void *context, uint64_t id);

enum quorum_result { QUORUM_PENDING = 1, QUORUM_LOST, QUORUM_WON };

/* The highest index that a majority has acknowledged; UINT64_MAX for no voters. */
uint64_t quorum_committed(const struct raft_ids *voters, quorum_acked *acked, const void *context);

/* The same where both sets must have it. */
uint64_t quorum_joint_committed(const struct raft_ids *incoming, const struct raft_ids *outgoing,
                                quorum_acked *acked, const void *context);

enum quorum_result quorum_result(const struct raft_ids *voters, quorum_voted *voted,
                                 const void *context);
enum quorum_result quorum_joint_result(const struct raft_ids *incoming,
                                       const struct raft_ids *outgoing, quorum_voted *voted,
                                       const void *context);

/* Ascending sets of ids. Inserting into a full set says false. */
bool raft_ids_have(const struct raft_ids *ids, uint64_t id);
bool raft_ids_insert(struct raft_ids *ids, uint64_t id);
void raft_ids_remove(struct raft_ids *ids, uint64_t id);
bool raft_ids_equal(const struct raft_ids *a, const struct raft_ids *b);

/* The list as a set. */
struct raft_ids raft_ids_sorted(const struct raft_ids *list);

/* Everyone who votes in a configuration. Both halves may be full, so this takes a bigger list. */
struct raft_voters {
    size_t count;
    uint64_t at[2 * RAFT_MEMBERS_MAX];
};
struct raft_voters raft_voters_of(const struct raft_ids *incoming, const struct raft_ids *outgoing);

/* A table with one line per voter and a bar that grows with its rank, and the two results, in the
 * form the quorum scenarios use. */
void quorum_describe(struct buf *out, const struct raft_ids *incoming,
                     const struct raft_ids *outgoing, quorum_acked *acked, const void *context);
void quorum_describe_index(struct buf *out, uint64_t index);
const char *quorum_result_text(enum quorum_result result);
