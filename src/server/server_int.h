/*
 * server_int: what the files of the server share.
 *
 *     turn.c            the turn: the only file that sees every room; it carries values between
 *                       them
 *     applying.c        what is committed becomes the state, and everybody concerned hears of it
 *     server.c          the life: everything opened in order, closed in the opposite one
 *     leadership.c      who leads, and how this member has a say in it
 *     reconfiguration.c may the members be changed, now?
 *     stop.c            the end, as seen from the turn
 *
 * The parts, each with a header, a check and tests of its own:
 *
 *     founding.h        what a cluster of several needs to know before it begins
 *     joining.h         what a member needs to know before it joins one
 *     names.h           whether two URLs are the same place, for either
 *     boot.h            from a data directory to an open log, store, state and raft
 *     replay.h          the log as raft needs to remember it
 *     state.h           the rooms that hold what the log has made
 *     digest.h          that in a few numbers, for tests
 *     clients.h         where clients find us: rpc, api, watch
 *     peering.h         the other members
 *     peer_requests.h   what they want to know of us
 *     pending.h         who waits for what: proposals, reads, time limits
 *     fair.h            who of those is next, by connection
 *     forwarding.h      what only the leader can answer
 *     hashing.h         the whole store in one number
 *     passwords.h       hashed and compared, everybody in turn
 *     corruption.h      do all members hold the same?
 *     hash_round.h      the others' hashes, for that
 *     storage_work.h    what raft has handed out to be written and applied
 *     log_snapshot.h    notes that let go of the log
 *     install.h         the state replaced by another image of it
 *     receiving.h       such an image that another member sends
 *     own_image.h       such an image made by the member itself, for tests
 *     cutting.h         images of the state, for other members and for backups
 *     backups.h         backups
 *     host.h            where a client is, for passwords and backups
 *     auto_compaction.h history that is compacted without anybody's asking
 *     sending.h         members that are behind the log are sent one
 *     housekeeping.h    what is due from time to time
 *     space.h           a full disk
 *     quota.h           what the log says about the store's quota
 *     metrics.h         what is counted, for whoever watches over the server
 *     slow.h            what took too long
 *     stages.h          when the log had got how far, for that
 *     storage_version.h for which version the store is made
 */
#pragma once

#include "auth/tokens.h"
#include "io/clock.h"
#include "io/inbox.h"
#include "io/io.h"
#include "server/auto_compaction.h"
#include "server/backups.h"
#include "server/clients.h"
#include "server/corruption.h"
#include "server/cutting.h"
#include "server/forwarding.h"
#include "server/founding.h"
#include "server/hashing.h"
#include "server/housekeeping.h"
#include "server/install.h"
#include "server/joining.h"
#include "server/log_snapshot.h"
#include "server/metrics.h"
#include "server/own_image.h"
#include "server/passwords.h"
#include "server/peer_requests.h"
#include "server/peering.h"
#include "server/pending.h"
#include "server/receiving.h"
#include "server/sending.h"
#include "server/server.h"
#include "server/space.h"
#include "server/state.h"
#include "server/storage_work.h"
#include "server/warming.h"

struct boot;
struct raft;
struct raft_soft_state;
struct wal;

struct server {
    struct server_options options;
    const struct config *config;
    const struct logger *logger;
    struct logger raft_logger;
    const struct io *io;
    char *snap_dir;
    char *store_dir; /* NULL: the store is the simulator's */
    struct rng rng;
    uint64_t map_seed;

    /* the beginning: server.c */
    struct boot *boot; /* NULL when it is over */
    struct founding founding;
    struct joining joining;
    struct buf why; /* it was refused after server_open had returned */

    struct wal *wal;
    struct raft *raft;
    struct state state;
    struct warming warming;
    struct clients clients;
    struct peering peering;
    struct peer_requests peer_requests;
    struct api_facts facts;

    /* time */
    struct timer tick_timer;
    struct event again; /* in the inbox while a turn has left work behind */
    bool tick_due;
    bool awaits_space;            /* a boot, which is tried again when a tick is due */
    uint64_t skip_ticks_until_ms; /* a member that starts may hurry until then */
    uint64_t lease_term;          /* in which this member started all leases afresh last */
    uint64_t lead_elected_ms;     /* when this member was elected last; 0: never */
    uint64_t durable_ms;          /* when the log had written something last */
    uint64_t resign_ms;           /* not before that is leadership handed over for it once more */

    /* raft's work */
    struct storage_work work;          /* that it has handed out */
    size_t changes_told;               /* to watch, in this turn */
    uint64_t apply_began_ns;           /* of the entry being applied */
    struct raft_conf_state conf_state; /* as applied */
    bool peers_left;                   /* entries of others that this turn had no time for, */
    bool messages_left;                /* or other messages, perhaps */
    bool is_catching_up;               /* our log ends before what is committed */
    struct log_snapshot snapshot;
    uint64_t release_index; /* of the log, up to here, when nobody needs it; 0: nothing */
    struct install install;
    struct receiving receiving;
    struct own_image own_image;
    struct cutting cutting;
    struct sending sending;

    struct pending pending;
    struct forwarding forwarding;
    struct hashing hashing;
    struct passwords passwords;
    struct auth_tokens *tokens; /* NULL: none are given out */
    struct backups backups;
    struct housekeeping housekeeping;
    struct corruption corruption;
    struct auto_compaction auto_compaction;
    bool is_checking; /* before it serves */
    struct space space;
    struct metrics *metrics;

    /* the end: stop.c */
    bool is_stopping, has_cut, failed, final_sync_asked;
    uint64_t stop_ms, final_seq;
    uint64_t leave_ms; /* when it stops by itself, having been removed; 0: it was not */

    uint64_t turns, longest_turn_ns;
    uint64_t slow_turns;               /* of TURN_SLOW_US and more, by the clock */
    uint64_t busy_ns, longest_busy_ns; /* the thread's, after the last turn; of a turn, at most */
};

/* server.c */
void server_fail(struct server *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void server_on_failed(void *context, const char *text); /* the same, for options */
uint64_t server_now_ms(const struct server *s);
/* Goes on with a founding. True: it is over, and everything is open. */
bool server_found_some(struct server *s);
/* The same with the check before it serves. True: it is over, and it serves. */
bool server_check_some(struct server *s);

/* applying.c */
/* Some of what is committed, and whether there is more that could be applied at once. */
void applying_some(struct server *s);
bool applying_has_more(const struct server *s);
/* The members are those of another image of the state. */
void server_members_replaced(struct server *s);
/* It was removed: it stops by itself, in a moment; when that is over. */
void server_leave_later(struct server *s);
void server_leave_if_due(struct server *s);
/* Marks a snapshot of the log at the entry that was applied last, if one is due. No entry is being
 * applied. */
void server_mark_snapshot(struct server *s);

/* turn.c */
/* There is something to do that no event will announce. */
void server_come_back(struct server *s);

/* leadership.c */
void leadership_changed(struct server *s, const struct raft_soft_state *now);
void leadership_tick(struct server *s);
void leadership_campaign_alone(struct server *s);
/* An entry was applied: the one after which a leader counts the time of leases, perhaps. */
void leadership_applied(struct server *s, const struct apply_effects *e);
/* All leases start afresh now: this member leads, and nothing that it has proposed is unapplied. */
void leadership_start_leases(struct server *s);
/* A client wants this member to lead instead. */
void leadership_move(struct server *s, uint64_t to);
/* A removal was applied; of RAFT_NONE: it was refused. */
void leadership_member_removed(struct server *s, uint64_t id);
/* At the end: somebody else is to lead, if this member does. */
void leadership_resign(struct server *s);
bool leadership_is_resigning(const struct server *s);
/* Why a call was not answered in time. */
enum result leadership_timeout(const struct server *s, const struct api_call *c);

/* reconfiguration.c */
/* RESULT_OK: it may be proposed. */
enum result reconfiguration_check(const struct server *s, const struct api_change *c);

/* stop.c */
void stop_some(struct server *s);
