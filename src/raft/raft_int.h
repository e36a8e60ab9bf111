/*
 * raft_int: the member itself, for the files of this room only.
 *
 *   raft.c        life, roles, time, and the step that every message takes through the term check
 *   election.c    campaigning, voting, counting
 *   leader.c      what a leader does with each message
 *   replicate.c   what goes out to a peer and when: appends, snapshots, fetches, heartbeats
 *   follower.c    what followers and candidates do with each message
 *   readonly.c    reads waiting for a quorum to confirm the leader
 *   message.c     what a peer may say at all
 *   membership.c  proposing, applying and restoring configurations
 *   output.c      what is handed out, and when it may be forgotten
 *   check.c       what must be true between any two calls
 */
#pragma once

#include "base/arena.h"
#include "base/assert.h"
#include "base/limits.h"
#include "raft/confchange.h"
#include "raft/describe.h"
#include "raft/log.h"
#include "raft/raft.h"

#include <inttypes.h>

/*
 * Everything queued since the last output, with the memory it lives in. There are two: one is being
 * filled while the other is lent out, and they change places when the next output is taken.
 */
struct outbox {
    struct arena arena;
    struct raft_message *now; /* may be sent at once */
    size_t now_count, now_cap;
    struct raft_message *later; /* rest on state that is not durable yet */
    size_t later_count, later_cap;
    struct raft_read_state *reads;
    size_t reads_count, reads_cap;
    struct raft_fetch *fetches;
    size_t fetches_count, fetches_cap;
    struct blob_pile blobs; /* references that must live as long as this box */

    /* The entries copied last: all peers usually get the same ones. */
    const struct raft_entry *slice;
    size_t slice_count;
    uint64_t slice_truncations;
};

struct read_request {
    uint64_t from; /* RAFT_NONE: this member */
    uint64_t index;
    struct raft_entry entry; /* whose data is the context */
};

struct read_queue {
    struct read_request *at;
    size_t head, count, cap;
};

struct raft {
    struct raft_config config; /* with defaults filled in */
    struct raft_logger logger;
    struct arena text; /* pieces of the log line being made */

    uint64_t id, term, vote;
    enum raft_role role;
    uint64_t lead, lead_transferee;
    bool is_learner;
    struct raft_log log;
    struct tracker tracker;

    unsigned election_elapsed;  /* ticks since the last election timeout or sign of the leader */
    unsigned heartbeat_elapsed; /* leader only */
    unsigned randomized_election_timeout;

    uint64_t heard_commit; /* in the newest append: beyond our log, perhaps */

    /* Only one conf change may be in the log and not applied; this is at or above its index. */
    uint64_t pending_conf_index;
    uint64_t uncommitted_bytes; /* payload of the leader's uncommitted proposals, roughly */

    struct read_queue unconfirmed; /* waiting for a quorum's heartbeat answers */
    uint64_t confirmed_reads;      /* how many have left that queue in this term */
    struct read_queue postponed;   /* waiting for the first commit of the term */

    struct raft_snapshot *snapshot; /* what can be sent to peers; NULL: nothing for now */
    uint64_t fetch_tokens;          /* given out so far */

    struct outbox boxes[2];
    unsigned filling; /* which of them */
    struct raft_soft_state last_soft;
    struct raft_hard_state last_hard;
    bool awaiting_advance;
    struct raft_message applied_response; /* plain mode: to be stepped by raft_advance */
};

#define SAY_AT(r, at, ...)                                                                         \
    do {                                                                                           \
        if (__builtin_expect((r)->logger.log && (r)->logger.level <= (at), 0)) {                   \
            raft_logger_print(&(r)->logger, (at), __VA_ARGS__);                                    \
            arena_reset(&(r)->text);                                                               \
        }                                                                                          \
    } while (0)
#define SAY_DEBUG(r, ...) SAY_AT(r, RAFT_LOG_DEBUG, __VA_ARGS__)
#define SAY_INFO(r, ...)  SAY_AT(r, RAFT_LOG_INFO, __VA_ARGS__)
#define SAY_WARN(r, ...)  SAY_AT(r, RAFT_LOG_WARN, __VA_ARGS__)
#define SAY_ERROR(r, ...) SAY_AT(r, RAFT_LOG_ERROR, __VA_ARGS__)

/* Members print in hexadecimal, everything else in decimal. */
#define ID  "%" PRIx64
#define NUM "%" PRIu64

/* --- raft.c --- */

enum raft_result raft_step_any(struct raft *r, const struct raft_message *m);
void raft_become_follower(struct raft *r, uint64_t term, uint64_t lead);
void raft_become_candidate(struct raft *r);
void raft_become_pre_candidate(struct raft *r);
void raft_become_leader(struct raft *r);
void raft_abort_leader_transfer(struct raft *r);
struct raft_hard_state raft_hard_state(const struct raft *r);

/* --- election.c --- */

enum raft_campaign { CAMPAIGN_PRE_ELECTION, CAMPAIGN_ELECTION, CAMPAIGN_TRANSFER };
void raft_hup(struct raft *r, enum raft_campaign kind);
bool raft_promotable(const struct raft *r);
bool raft_ignores_vote(struct raft *r, const struct raft_message *m); /* a lease holds */
void raft_handle_vote(struct raft *r, const struct raft_message *m);
void raft_reject_old_pre_vote(struct raft *r, const struct raft_message *m);
void raft_handle_vote_response(struct raft *r, const struct raft_message *m);

/* --- leader.c --- */

enum raft_result raft_step_leader(struct raft *r, const struct raft_message *m);
bool raft_append_entries(struct raft *r, struct raft_entry *entries, size_t count);
void raft_reduce_uncommitted(struct raft *r, uint64_t payload);
bool raft_maybe_commit(struct raft *r);
void raft_check_quorum(struct raft *r);

/* --- replicate.c --- */

void raft_send_append(struct raft *r, struct raft_progress *p);
bool raft_send_more(struct raft *r, struct raft_progress *p); /* not if it were empty */
void raft_broadcast_append(struct raft *r);
void raft_broadcast_heartbeat(struct raft *r);
void raft_send_timeout_now(struct raft *r, uint64_t to);

/* --- follower.c --- */

enum raft_result raft_step_follower(struct raft *r, const struct raft_message *m);
enum raft_result raft_step_candidate(struct raft *r, const struct raft_message *m);

/* --- readonly.c --- */

void raft_reads_reset(struct raft *r);
void raft_reads_free(struct raft *r);
void raft_handle_read_index(struct raft *r, const struct raft_message *m);
void raft_reads_release_postponed(struct raft *r);
void raft_reads_acked(struct raft *r, struct raft_progress *p, struct bytes context);
struct bytes raft_reads_heartbeat_context(struct raft *r); /* empty when no read waits */

/* --- membership.c --- */

/* Looks at the conf changes among proposed entries and empties those that are not allowed now.
 * False if one of them cannot even be read. */
bool raft_screen_conf_changes(struct raft *r, struct raft_entry *entries, size_t count);
void raft_switch_configuration(struct raft *r, const struct tracker *next);
bool raft_restore_snapshot(struct raft *r, const struct raft_snapshot *snapshot);
void raft_maybe_leave_joint(struct raft *r);

/* --- output.c --- */

/* Queues a message, completing sender and term. Memory it points to must live in the outbox. */
void raft_send(struct raft *r, struct raft_message m);
void raft_output_read_state(struct raft *r, uint64_t index, const struct raft_entry *context);
void raft_output_fetch(struct raft *r, const struct raft_fetch *fetch);

/* Copies into the outbox: entries of our own log; foreign entries, sharing their blobs; our own
 * snapshot; bytes. */
const struct raft_entry *raft_output_slice(struct raft *r, const struct raft_entry *entries,
                                           size_t count);
const struct raft_entry *raft_output_entries(struct raft *r, const struct raft_entry *entries,
                                             size_t count);
const struct raft_snapshot *raft_output_snapshot(struct raft *r, const struct raft_snapshot *s);
struct bytes raft_output_bytes(struct raft *r, struct bytes what);
void raft_outboxes_free(struct raft *r);

/* Grows an array to hold one more. */
void *raft_grow(void *at, size_t count, size_t *cap, size_t size);

/* Pieces of text for log lines, good until the line is out. */
const char *raft_text_progress(struct raft *r, const struct raft_progress *p);
const char *raft_text_conf(struct raft *r, const struct raft_conf_state *conf);
const char *raft_text_conf_state(struct raft *r, const struct raft_conf_state *conf);
const char *raft_text_conf_change(struct raft *r, const struct raft_conf_change_v2 *cc);
