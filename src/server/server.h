/*
 * server: one member, whole.
 *
 * It opens every room, and then runs the turn: what has happened is taken from the inbox and from
 * clients, becomes proposals, goes through raft and the log, is applied, and comes back as answers
 * and watch events. turn.c is the only file that sees every room; it reads like a table of
 * contents.
 *
 *     inbox --> tick --> clients' calls --> proposals --> raft --> log --> apply --> watchers,
 *     answers --> housekeeping (store commits, snapshots, leases) --> one flush
 *
 * Life       server_open boots, which may take as long as the disk takes; then server_turn whenever
 *            something has happened; server_stop begins the end, and when server_has_stopped says
 *            so, server_close.
 * Promises   1. A write is acknowledged when it is applied, and it is applied when it is durable on
 *               a quorum of members, this one among them.
 *            2. A linearizable read sees every write acknowledged before it was asked.
 *            3. A turn does a bounded amount of work: about two milliseconds. What is left over is
 *               gone on with in the next.
 *            4. Whoever waits is answered: with the result, or with etcd's error when the time
 *               limit is reached.
 *            5. What the disk cannot keep, or what contradicts itself, ends the member.
 * Not here   What etcd's rules are (the rooms below). Where the world comes from: io/loop.h in
 *            production, fakes in the simulator; nothing here can tell the difference.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/logger.h"

struct cluster;
struct config;
struct digest;
struct io;
struct memory_disk;
struct raft_conf_state;
struct server; /* opaque */

struct server_options {
    const struct io *io;
    const struct config *config; /* outlives the server */
    const struct logger *logger;
    struct memory_disk *memory; /* the simulator's page store; NULL: LMDB in the data directory */
    int64_t range_tombstone_keys_min; /* of mvcc_options; 0: as mvcc has it */
    unsigned settle_steps;            /* in one turn; 0: MVCC_SLICE_STEPS */
    unsigned compact_steps;           /* the same, of a compaction */
    uint64_t segment_bytes;           /* of wal_options; 0: as wal has it */
    uint64_t sending_log_ms;          /* of sending_options; 0: SENDING_LOG_MS */
    unsigned line_delay_turns_max; /* what passes between rpc and the rest is held back; 0: not */

    /* This member can go no further; NULL: the process ends. After it only server_abandon. */
    void (*on_failed)(void *context, const char *text);
    /* It answers clients from now on; before, they only wait. May be NULL. */
    void (*on_ready)(void *context);
    void *context;
};

/* ERR_*: `why` gets a sentence for the operator, and perhaps a second line: what to do about it. */
MUST_CHECK enum err server_open(const struct server_options *options, struct buf *why,
                                struct server **out);

void server_turn(struct server *s);

/* No new calls; those under way are answered or told that the server has stopped. */
void server_stop(struct server *s);
bool server_has_stopped(const struct server *s);
void server_close(struct server *s); /* has stopped (asserted); NULL is fine */

/* Ends s as a crash does: memory is freed, nothing else is touched. The world has forgotten what
 * was in flight. */
void server_abandon(struct server *s);

struct server_status {
    uint64_t member_id, cluster_id, leader;
    uint64_t term, committed, applied, durable_store; /* indexes but for the term */
    uint64_t log_base, log_last, log_durable;         /* the log begins after base */
    uint64_t vote;                                    /* in this term; 0: nobody */
    bool is_leader;
    int64_t revision, compact_revision;
    uint64_t turns, longest_turn_ns;
    uint64_t longest_busy_ns;   /* the longest turn without its waits for a processor */
    size_t waiting;             /* calls */
    size_t log_pending_bytes;   /* handed to the log and not yet durable */
    size_t store_pending_bytes; /* the same of the store: batches */
    uint64_t unapplied_bytes;   /* of entries that are committed */
    size_t reply_bytes_most;    /* that have ever waited to be sent, between the rooms */
    bool ready;
    bool awaits_space; /* to start at all */
};
struct server_status server_status(const struct server *s);

/* The term of an entry of the log; false if it is compacted away or not there yet. */
bool server_term_at(const struct server *s, uint64_t index, uint64_t *out);

/* Who the members are, as of what is applied: the table (cluster.h), which the server owns, and
 * what raft counts. False: it is being founded, or has ended. */
bool server_members(const struct server *s, const struct cluster **table,
                    struct raft_conf_state *conf);

/* Users and roles, likewise; NULL: it is being founded, or has ended. */
const struct auth *server_auth(const struct server *s);

/* For tests: what has been applied, in a few numbers (digest.h), between two turns. False while
 * there is no saying: it is being founded, or something is half done. */
bool server_digest(const struct server *s, struct digest *out);

/* Where clients are served: the nth listener's port. 0 if there is none. */
uint16_t server_client_port(const struct server *s, size_t nth);

/* For tests: the store is not in memory, as a member finds out by its faults (warming.h); and what
 * workers have read for that, in this life. */
void server_store_is_cold(struct server *s);
uint64_t server_warmups(const struct server *s);

/* For tests: the member makes an image of its own state, up to `ahead` committed entries further
 * than it has applied, and installs it in its place (own_image.h). False if one is being made. */
bool server_install_own_image(struct server *s, uint64_t ahead);
uint64_t server_installed(const struct server *s); /* how many were, in this life */

/* Of them, those that another member has sent; raft has taken them, and perhaps they are not yet
 * installed. */
uint64_t server_received(const struct server *s);

/* All rooms' invariants, asserted. */
void server_check(const struct server *s);
