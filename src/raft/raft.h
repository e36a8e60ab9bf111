/*
 * raft: agreement. Many members, one log, and no member ever applies what another will deny.
 *
 * This is the whole of consensus and nothing else: elections, replication, membership, reads that
 * cannot be stale. It sees no clock, socket, file or thread. It is *told* what happened (a tick, a
 * message, a proposal, a finished write), can be *asked* how things stand, and hands out what it
 * wants done when the caller *takes* it. The same calls in the same order give the same result.
 *
 *                    raft_tick, raft_step, raft_propose, raft_read_index, raft_step_own ...
 *                                                   |
 *      +--------------------------------------------v-------------------------------------------+
 *      | role      follower <-> pre-candidate <-> candidate -> leader -> follower               |
 *      | tracker   who votes, and for the leader: how far each member's log is known to match   |
 *      | log       compacted | not resident | resident: stable, being written | to be written   |
 *      +--------------------------------------------+-------------------------------------------+
 *                                                   |
 *         raft_take_output: messages, entries and hard state to persist, snapshot to install,
 *                           committed entries, read states, soft state, fetches
 *
 * Behaviour, log lines and the meaning of every message are those of etcd-io/raft v3.7, so that a
 * member can sit among real etcd members and replay that project's scenarios. What differs:
 *   - It owns its log instead of asking a storage interface for it. Entries that are applied and
 *     durable may leave memory, and a peer that needs them again costs a fetch, not a stall.
 *   - What makes etcd panic because of something a *peer* said is logged and dropped here. Nobody
 *     but raft_step_own may speak for this member or its storage.
 *   - A leader that is the only voter answers reads only after the first commit of its term, like
 *     any other leader: the commit index on disk may lag behind what was acknowledged. And a leader
 *     that has been removed or demoted asks a single remaining voter too.
 *   - A conf change that could not be applied, such as one that leaves no voter, is not let into
 * the log: etcd's members panic when they come to it.
 *   - In async mode, too, votes are asked for when the candidate's term and log are durable.
 *   - Waiting reads and the size of a configuration have bounds.
 *
 * Life       raft_open with what the disk remembers, then tell and take in any order, raft_close.
 *
 *     while (raft_take_output(r, &out)) {
 *         send out.messages[0 .. out.send_count)             to the other members, at once
 *         if (out.append)  write it, then deliver its responses: to peers, or raft_step_own
 *         if (out.apply)   execute it, then raft_step_own its response; or raft_step_applied as
 *                          often as some of it is done
 *         for each fetch   read the log file, then raft_fetched
 *     }
 *
 *     That is the native, asynchronous way (config.async_storage_writes): any number of writes may
 *     be under way, each target works in order. Order matters on disk too, commit indexes included:
 *     a durable entry then proves that the commit indexes written before it are durable as well,
 *     and so a restarted member never campaigns in a configuration more than one change too old.
 *     In plain mode the caller persists out.entries, out.hard_state and out.snapshot, sends,
 *     applies out.committed, and calls raft_advance.
 *
 * Promises   1. Term and vote are handed out for persisting before anyone hears of them.
 *            2. Vote and append answers leave only after everything they rest on is durable; a
 *               leader counts itself only through its own completed write.
 *            3. An entry is committed by a quorum (in a joint configuration: by both) holding an
 *               entry of the leader's own term at or above it, and never changes afterwards.
 *            4. Committed entries come out in order, without gaps, each once per life; in async
 *               mode only when locally durable.
 *            5. A read state's index is at or above every write acknowledged before the request.
 *            6. No message from a peer, however absurd, fails an assertion or damages the log.
 *            7. Entry data is shared, never copied; no call costs more as the log grows longer.
 *
 * Lent       Arguments are lent for the call: raft takes its own references of what it keeps.
 *            Everything in an output is lent until the next raft_take_output.
 *
 * Not here   Bytes on the wire and on disk (pb, wal, peer), what an entry means (apply), when to
 *            snapshot and compact (server), time.
 * Leans on   entry and base. describe.h turns all of this into text; quorum.h, tracker.h and
 * confchange.h are the parts that can be understood, and are tested, by themselves.
 */
#pragma once

#include "base/rng.h"
#include "entry/entry.h"

enum raft_role {
    RAFT_FOLLOWER = 0,
    RAFT_CANDIDATE = 1,
    RAFT_LEADER = 2,
    RAFT_PRE_CANDIDATE = 3,
};

struct raft_soft_state {
    uint64_t lead;
    enum raft_role role;
};

/* What a read request came to: once everything up to index is applied, it may be served. */
struct raft_read_state {
    uint64_t index;
    struct bytes context; /* as given to raft_read_index */
};

/* ---- Opening -------------------------------------------------------------------------------- */

enum raft_read_mode {
    RAFT_READ_SAFE = 0, /* a quorum confirms the leader for every batch of reads */
    RAFT_READ_LEASE,    /* the leader trusts check_quorum and the clocks of all members */
};

enum raft_log_level { RAFT_LOG_DEBUG, RAFT_LOG_INFO, RAFT_LOG_WARN, RAFT_LOG_ERROR };

/* From `index` on (to the next run, or the first entry given) entries are of this term. */
struct raft_term_run {
    uint64_t index, term;
};

/*
 * What the disk remembers. All zeroes: a member that has never run.
 *
 *      base    base.index+1 ...            entries[0].index ... last
 *       |      on disk only: runs          in memory: entries
 *
 * base is the last entry that is compacted away (usually the snapshot's). runs name the terms of
 * entries that are on disk but not given here; with no runs, entries start right after base, and
 * where there are runs there is at least one entry. What is not yet applied must be among the
 * entries.
 */
struct raft_boot {
    struct raft_hard_state hard_state;
    struct raft_conf_state conf_state; /* as of `applied` */
    uint64_t base_index, base_term;
    const struct raft_term_run *runs;
    size_t run_count;
    const struct raft_entry *entries;
    size_t entry_count;
    uint64_t applied; /* 0: nothing beyond base */
};

/* How this member behaves. The names are etcd's; its defaults are its server's business. */
struct raft_config {
    uint64_t id; /* neither RAFT_NONE nor one of the threads */

    unsigned election_ticks; /* > heartbeat_ticks; actual timeouts are random in [n, 2n) */
    unsigned heartbeat_ticks;
    struct rng rng; /* for election timeouts, and nothing else */

    uint64_t max_message_bytes;  /* entries per App; 0: one entry each */
    uint64_t max_applying_bytes; /* handed out and not yet applied; 0: max_message_bytes */
    uint64_t
        max_uncommitted_bytes;    /* in a leader's log before proposals are dropped; 0: no limit */
    size_t max_inflight_messages; /* unanswered Apps per peer, > 0 */
    uint64_t max_inflight_bytes;  /* and their bytes, >= max_message_bytes; 0: no limit */

    /* Applied, durable entries beyond these are evicted from memory, oldest first. 0: no cap. */
    size_t max_resident_entries;
    uint64_t max_resident_bytes;

    bool async_storage_writes;
    bool asks_at_once; /* async mode: for votes, before its term and log are durable, as etcd's */
    bool check_quorum; /* a leader that hears no quorum for an election timeout steps down */
    bool pre_vote;     /* ask before raising the term (thesis 9.6) */
    enum raft_read_mode read_mode; /* RAFT_READ_LEASE needs check_quorum */
    bool disable_proposal_forwarding;
    bool disable_conf_change_validation;
    bool step_down_on_removal;

    /* Called for lines at log_level and above; costs nothing below it. NULL: silence. */
    void (*log)(void *context, enum raft_log_level level, const char *text);
    void *log_context;
    enum raft_log_level log_level;
};

struct raft; /* opaque */

/* Why these settings cannot work, in etcd's words, or NULL if they can. */
const char *raft_config_problem(const struct raft_config *config);

/* Opens a member. The config must be free of problems and the boot state consistent (asserted):
 * whoever read it from disk has verified it. */
struct raft *raft_open(const struct raft_config *config, const struct raft_boot *boot);
void raft_close(struct raft *r); /* NULL is fine */

/* Founds a cluster on a member with an empty log: one AddNode entry per founder at term 1, already
 * committed. All founders must call it with the same list. */
struct raft_founder {
    uint64_t id;
    struct bytes context;
};
void raft_bootstrap(struct raft *r, const struct raft_founder *founders, size_t count);

/*
 * For a cluster that has lost its majority for good, and whose operator says that this member is to
 * go on by itself: these changes are appended as if they were committed. What was given to
 * raft_open must be committed to its end, and nothing else was told before (asserted).
 */
void raft_force_conf_changes(struct raft *r, const struct raft_conf_change *changes, size_t count);

/* ---- Tell ----------------------------------------------------------------------------------- */

enum raft_result {
    RAFT_OK = 0,
    RAFT_PROPOSAL_DROPPED, /* no leader, a transfer under way, too much uncommitted */
    RAFT_LOCAL_MESSAGE,    /* a peer sent what only we ourselves may say */
    RAFT_PEER_NOT_FOUND,   /* an answer from someone who is not in the configuration */
    RAFT_BAD_MESSAGE,      /* a peer sent something impossible; a log line says what */
    RAFT_BAD_CONF_CHANGE,  /* a conf change that makes no sense here; a log line says why */
};

/* In etcd's words, for logs and scenarios. */
const char *raft_result_text(enum raft_result result);

/* One unit of time has passed. */
void raft_tick(struct raft *r);

/* One unit has passed for a group known to be idle: no heartbeat, no election. etcd warns of it. */
void raft_tick_quiesced(struct raft *r);

/* A message from another member. Anything may be in it. */
enum raft_result raft_step(struct raft *r, const struct raft_message *m);

/* A response that raft itself attached to storage work and addressed to this member, delivered
 * because the work is done. Never give it what came from a peer: it is believed. */
enum raft_result raft_step_own(struct raft *r, const struct raft_message *m);

/*
 * Of a StorageApply message the entries from..to, the second not included, are applied: the same as
 * its response would say in the end, in parts, one behind the other. Whoever executes a large one
 * over a long time tells raft so of what is done already; what it may compact, evict and hand out
 * next follows that.
 */
void raft_step_applied(struct raft *r, const struct raft_message *apply, size_t from, size_t to);

/* Plain mode: all of the last output has been persisted, sent and applied. */
void raft_advance(struct raft *r);

/* Proposes commands, all of them or none; data may be NULL for an empty one. A follower forwards
 * them. RAFT_OK is no promise: watch the committed entries. */
enum raft_result raft_propose(struct raft *r, struct blob *data);
enum raft_result raft_propose_batch(struct raft *r, struct blob *const data[], size_t count);

/* NULL for the v2 leaves a joint configuration. A change that is not allowed now is replaced by an
 * empty entry, and the log says why. */
enum raft_result raft_propose_conf_change(struct raft *r, const struct raft_conf_change *cc);
enum raft_result raft_propose_conf_change_v2(struct raft *r, const struct raft_conf_change_v2 *cc);

/* A committed conf change is being applied: from here on it counts. Call it for every committed one
 * that the application accepts, unless its entry is at or below raft_status().base_index: then a
 * snapshot that arrived meanwhile contains it, and applying it again would set things back. `out`
 * (may be NULL) receives the resulting configuration, to be stored in snapshots. On
 * RAFT_BAD_CONF_CHANGE nothing has changed; etcd would panic, and a member whose configuration may
 * now differ from the others' should not go on. */
MUST_CHECK enum raft_result raft_apply_conf_change(struct raft *r,
                                                   const struct raft_conf_change_v2 *cc,
                                                   struct raft_conf_state *out);

/* Starts an election now. */
enum raft_result raft_campaign(struct raft *r);

/* Asks for a read state carrying `context`, which should be unique. It may never come: retry. The
 * context is shared, not copied. */
void raft_read_index(struct raft *r, struct blob *context);

void raft_transfer_leader(struct raft *r, uint64_t to);

/* A follower stops believing in its leader, without campaigning itself. */
enum raft_result raft_forget_leader(struct raft *r);

/* The last message to this peer did not get through. */
void raft_report_unreachable(struct raft *r, uint64_t peer);

/* A Snap message was delivered, or was not. Every Snap message must be followed by one of these. */
void raft_report_snapshot(struct raft *r, uint64_t peer, bool delivered);

/* The newest snapshot that can be sent to peers, of something committed and not older than the
 * start of the log; NULL, or index 0: none for now, ask again later. */
void raft_set_snapshot(struct raft *r, const struct raft_snapshot *snapshot);

/* The log now starts after index, on disk too. index is applied and durable; lower than the
 * current start is no news. */
void raft_compact(struct raft *r, uint64_t index);

/* Entries up to index may leave memory. What is not applied or not durable stays. */
void raft_evict(struct raft *r, uint64_t index);

/* The answer to a fetch: `count` entries from its `low` on, at least one, or none if the read
 * failed, which is tried again after the peer's next heartbeat. An answer nobody waits for any
 * more is ignored, so the reader needs no notion of cancelling. */
void raft_fetched(struct raft *r, uint64_t token, const struct raft_entry *entries, size_t count);

/* For scenarios and simulations: replaces the random timeout until the next change of role. */
void raft_set_randomized_election_timeout(struct raft *r, unsigned ticks);

/* ---- Take ----------------------------------------------------------------------------------- */

/* A peer needs entries that are on disk only. Nothing is sent to it until raft_fetched. */
struct raft_fetch {
    uint64_t token; /* names this fetch for raft_fetched */
    uint64_t peer;
    uint64_t low, high; /* entries [low, high); stop early beyond max_bytes, but give one */
    uint64_t max_bytes;
};

/*
 * What raft wants done. etcd calls it Ready. In async mode `append` and `apply` repeat hard_state,
 * entries, snapshot and committed as work to hand on; acting on either view is enough.
 */
struct raft_output {
    bool has_soft_state, has_hard_state; /* they changed since the last output */
    bool must_sync; /* entries, term or vote changed; a commit index alone may be lost */
    struct raft_soft_state soft_state;
    struct raft_hard_state hard_state;
    const struct raft_read_state *read_states;
    size_t read_state_count;
    const struct raft_entry *entries; /* to persist; they replace what the disk has from there on */
    size_t entry_count;
    const struct raft_snapshot *snapshot; /* to install and persist, or NULL */
    const struct raft_entry *committed;   /* to apply */
    size_t committed_count;
    const struct raft_message *messages; /* first send_count for peers, then append, then apply */
    size_t message_count, send_count;
    const struct raft_message *append; /* async mode: the StorageAppend in messages, or NULL */
    const struct raft_message *apply;  /* async mode: the StorageApply in messages, or NULL */
    const struct raft_fetch *fetches;
    size_t fetch_count;
};

/* Fills *out and says true if there is anything in it. In plain mode the previous output must have
 * been advanced (asserted). */
bool raft_take_output(struct raft *r, struct raft_output *out);

/* Would raft_take_output say true? */
bool raft_has_output(const struct raft *r);

/* ---- Ask ------------------------------------------------------------------------------------ */

struct raft_status {
    uint64_t id;
    struct raft_hard_state hard_state;
    struct raft_soft_state soft_state;
    uint64_t applied, applying;
    uint64_t lead_transferee;
    bool is_learner;
    /* base: compacted up to. resident: first entry in memory. stable: durable up to, as told. */
    uint64_t base_index, resident_index, stable_index, last_index;
    /* What the leader's newest append has called committed. A follower whose log ends before it is
     * catching up: nobody's write waits for it. */
    uint64_t heard_commit;
    uint64_t resident_bytes;  /* data of the entries in memory */
    uint64_t unapplied_bytes; /* encoded size of those that are committed and not applied */
    uint64_t pending_conf_index, uncommitted_bytes;
    unsigned election_elapsed, heartbeat_elapsed, randomized_election_timeout;
};
struct raft_status raft_status(const struct raft *r);

/* The configuration in force. */
void raft_conf_state(const struct raft *r, struct raft_conf_state *out);
bool raft_is_voter(const struct raft *r, uint64_t id); /* in either half of a joint one */

/* The term of an entry, or false if it is compacted away or not there yet. */
bool raft_term_at(const struct raft *r, uint64_t index, uint64_t *out);

/* How the leader sees each member; on other roles these are only placeholders. tracker.h has the
 * struct. The nth in order of id, NULL past the last. */
struct raft_progress;
const struct raft_progress *raft_progress_at(const struct raft *r, size_t nth);

/* All invariants, asserted. For tests and the simulator, after every call. */
void raft_check(const struct raft *r);
