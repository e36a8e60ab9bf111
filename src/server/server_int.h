/*
 * server_int: what the files of the server share.
 *
 *     boot.c      from a data directory to an open server
 *     turn.c      the turn, and raft's output: persist, apply
 *     pending.h   who waits for what: proposals, reads, time limits
 *     storage_work.h   what raft has handed out to be written and applied
 *     log_snapshot.h   notes that let go of the log
 *     housekeeping.h   store commits, leases, versions, being known
 *     listen.c    where clients and peers find us
 *     stop.c      the end
 */
#pragma once

#include "api/api.h"
#include "apply/apply.h"
#include "backend/backend.h"
#include "base/list.h"
#include "cluster/cluster.h"
#include "io/clock.h"
#include "io/io.h"
#include "io/worker.h"
#include "lease/lease.h"
#include "raft/raft.h"
#include "server/config.h"
#include "server/housekeeping.h"
#include "server/log_snapshot.h"
#include "server/pending.h"
#include "server/server.h"
#include "server/storage_work.h"
#include "wal/wal.h"
#include "watch/watch.h"

enum {
    TURN_EVENTS_MAX = 4096,    /* of the inbox, in one turn */
    TURN_EVENTS_US = 1000,     /* and for how long */
    TURN_CALLS_MAX = 1024,     /* of clients */
    TURN_CALLS_US = 1000,      /* of hearing them; one takes a few milliseconds at most */
    TURN_APPLY_US = 1500,      /* of applying; an entry takes at most a slice more */
    TURN_PROPOSALS_MAX = 4096, /* in one raft append */
    TURN_WATCH_STEPS = 2000,   /* of catching up those who lag: about half a millisecond */
    STOP_GRACE_MS = 1000,      /* for calls under way */
    FILES_RESERVED = 150,      /* of those that may be open: not for clients; etcd's */
    FILES_MIN = 80,            /* half of it is what a member needs itself, and some to spare */
};

struct server {
    struct server_options options;
    const struct config *config;
    const struct logger *logger;
    struct logger raft_logger;
    const struct io *io;
    char *snap_dir;
    struct rng rng;
    uint64_t map_seed;

    struct backend *backend;
    struct mvcc *mvcc;
    struct lease_set *leases;
    struct cluster *cluster;
    struct apply *apply;
    struct watch *watch;
    struct wal *wal;
    struct raft *raft;
    struct rpc *rpc;
    struct api *api;
    struct api_facts facts;

    /* time */
    struct timer tick_timer;
    struct event again; /* in the inbox while a turn has left work behind */
    bool tick_due, lone_voter_campaigned;
    uint64_t last_tick_ms;

    /* raft's work */
    struct storage_work work;          /* that it has handed out */
    size_t changes_told;               /* to watch, in this turn */
    uint64_t apply_began_ns;           /* of the entry being applied */
    struct raft_conf_state conf_state; /* as applied */
    struct log_snapshot snapshot;

    struct pending pending; /* who waits */

    struct housekeeping housekeeping;

    /* where we are found: listen.c */
    struct net_address *listening;
    size_t listening_count;
    struct listener **peer_listeners;
    size_t peer_listener_count;

    /* the end: stop.c */
    bool is_stopping, has_cut, failed, final_sync_asked;
    uint64_t stop_ms, final_seq;

    uint64_t turns, longest_turn_ns;
    uint64_t busy_ns, longest_busy_ns; /* the thread's, after the last turn; of a turn, at most */
};

/* turn.c */
void server_fail(struct server *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t server_now_ms(const struct server *s);
/* There is something to do that no event will announce. */
void server_come_back(struct server *s);
void server_on_log_failed(void *context, const char *text);

/* listen.c */
/* How many clients there may be, if so many files may be open; 0: both without a limit. */
unsigned listen_conns_max(unsigned files_max);
MUST_CHECK enum err listen_open(struct server *s, struct buf *why);
void listen_serve(struct server *s); /* says so */
/* Nobody new. Also when only some of it has been opened. */
void listen_stop(struct server *s);
void listen_free(struct server *s);

/* stop.c */
void stop_some(struct server *s);
