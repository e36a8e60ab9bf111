/*
 * tracker: who is in the configuration, and what a leader knows of each.
 *
 *                         +----------- rejected, unreachable -----------+
 *                         v                                             |
 *     reset ---------> probe ---- first append answered --------> replicate
 *                      ^   |                                         |
 *     snapshot reported|   | entries needed are compacted            | the same
 *                      |   v                                         |
 *                    snapshot <--------------------------------------+
 *
 *   probe      Where this log ends is a guess (next). One append at a time, until one is answered.
 *   replicate  It is known. Appends are sent optimistically, next running ahead of match, as far as
 *              the inflight window allows.
 *   snapshot   The log cannot help. Silence, until a snapshot has been delivered or has failed.
 *
 * Votes and read acknowledgements live here too, since they are asked of the same members.
 * The configuration and the members' progress only ever change together, in confchange.h.
 */
#pragma once

#include "raft/quorum.h"

/*
 * Appends sent and not yet answered, oldest first: a ring that grows up to what is in use. The byte
 * bound is soft: the message that crosses it is still let through.
 */
struct inflight {
    uint64_t index; /* of the last entry in the message */
    uint64_t bytes;
};
struct inflights {
    struct inflight *ring;
    size_t cap, start, count;
    uint64_t bytes;
    size_t count_max;
    uint64_t bytes_max; /* 0: no bound */
};

void inflights_add(struct inflights *in, uint64_t index, uint64_t bytes); /* not when full */
void inflights_free_upto(struct inflights *in, uint64_t index);
bool inflights_full(const struct inflights *in);
void inflights_clear(struct inflights *in);

enum progress_state { PROGRESS_PROBE = 0, PROGRESS_REPLICATE, PROGRESS_SNAPSHOT };

struct raft_progress {
    uint64_t id;
    enum progress_state state;
    bool is_learner;
    bool recent_active;        /* heard from since the last quorum check */
    bool flow_paused;          /* no more appends until it answers one, or a heartbeat */
    uint64_t match;            /* its log is known to equal ours up to here */
    uint64_t next;             /* the next entry to send; match < next */
    uint64_t sent_commit;      /* the highest commit index on its way to it */
    uint64_t pending_snapshot; /* index of the snapshot on its way, in PROGRESS_SNAPSHOT */
    uint64_t fetch_token;      /* the fetch it waits for, 0: none */
    uint64_t read_ack;         /* the newest batch of reads it has confirmed our leadership for */
    enum quorum_vote vote;     /* in the election under way */
    struct inflights inflights;
};

void progress_become_probe(struct raft_progress *p);
void progress_become_replicate(struct raft_progress *p);
void progress_become_snapshot(struct raft_progress *p, uint64_t snapshot_index);

/* An append with `count` entries from next on has been sent. Not in PROGRESS_SNAPSHOT. */
void progress_sent_entries(struct raft_progress *p, size_t count, uint64_t bytes);

/* Might this commit index be news to it? */
bool progress_can_bump_commit(const struct raft_progress *p, uint64_t commit);

/* It has acknowledged everything up to index. False if that is old news. */
bool progress_maybe_update(struct raft_progress *p, uint64_t index);

/* It refused an append after `rejected`; its log may match up to `hint`. False if that is about an
 * append long superseded. */
bool progress_maybe_decrease(struct raft_progress *p, uint64_t rejected, uint64_t hint);

bool progress_is_paused(const struct raft_progress *p);

struct tracker {
    struct raft_conf_state conf;                    /* every list ascending */
    struct raft_progress members[RAFT_MEMBERS_MAX]; /* ascending by id; voters and learners alike */
    size_t count;
    size_t max_inflight_messages;
    uint64_t max_inflight_bytes;
};

void tracker_free(struct tracker *t);

struct raft_progress *tracker_find(struct tracker *t, uint64_t id); /* NULL: not a member */
const struct raft_progress *tracker_peek(const struct tracker *t, uint64_t id);
bool tracker_is_voter(const struct tracker *t, uint64_t id);
bool tracker_is_joint(const struct tracker *t);

/* Is there exactly one voter? */
bool tracker_is_singleton(const struct tracker *t);

/* The highest index that a quorum of voters has in its log. */
uint64_t tracker_committed(const struct tracker *t);

/* The newest batch of reads for which a quorum of voters has confirmed the leader. */
uint64_t tracker_reads_confirmed(const struct tracker *t);

/* Has a quorum of voters been heard from lately? */
bool tracker_quorum_active(const struct tracker *t);

struct tracker_tally {
    size_t granted, rejected;
    enum quorum_result result;
};
void tracker_reset_votes(struct tracker *t);
void tracker_record_vote(struct tracker *t, uint64_t id, bool granted); /* the first one counts */
struct tracker_tally tracker_tally_votes(const struct tracker *t);

/* All invariants, asserted. */
void tracker_check(const struct tracker *t);
