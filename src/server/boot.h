/*
 * boot: from a data directory to an open log, an open store with its rooms, and raft.
 *
 *     boot_look    is there a log? If not, who we are by the flags; nothing is written
 *     boot_disk    directories, and what is in them: the log with the place to start from, the
 *                  store, who we are, and the rooms on the store (state.h)
 *     boot_raft    raft, with what log and store remember
 *
 * Whatever does not fit together is refused by the first two, with a sentence for the operator, and
 * nothing is served. A data directory of etcd's is taken over by it, or left as it was. If there is
 * no space for it, all of it can be done again later: it has written nothing that is not whole.
 * Everything may block: nobody waits yet.
 */
#pragma once

#include "backend/backend.h"
#include "base/arena.h"
#include "cluster/cluster.h"
#include "server/replay.h"

struct server;
struct state;

/*
 * Rooms that a boot opens, and callbacks to which they report a failure. A boot knows the server as
 * const and changes nothing but by these pointers: the server's own, or those of a trial.
 */
struct boot_rooms {
    struct state *state;
    struct wal **wal; /* NULL: a trial, which only reads the log */
    struct auth_tokens *tokens;
    struct backend_options store;
    void (*on_failed)(void *context, const char *text);     /* of the state */
    void (*on_log_failed)(void *context, const char *text); /* NULL: ends the process */
    void *context;
};

/* After boot_init it is ready for boot_look. */
struct boot {
    const struct server *s;
    struct buf *why;
    struct boot_rooms rooms;

    struct arena arena;
    struct cluster_initial initial;
    bool has_log, founds;      /* founds: the cluster begins here and now */
    bool may_wait;             /* what has failed for want of space may be tried again */
    bool joins;                /* one that exists; it was asked who we are (joining.h) */
    bool told_no_sync;         /* the operator knows that directories cannot be synced */
    bool told_modes;           /* and of those that others may read */
    struct wal_place snapshot; /* the last that the log records */
    struct replay log;
    struct pb_wal_metadata identity;
    struct raft_conf_state conf_state; /* as of what the store has applied */
    struct raft_ids others;            /* that --force-new-cluster removes */
    bool must_add_self;                /* and the entry that adds this member is lost */
};

/* Of this server, with its tokens open; what is opened becomes its wal and state. */
void boot_init(struct boot *b, struct server *s, struct buf *why);
MUST_CHECK enum err boot_look(struct boot *b);
/* After boot_look, if it joins: its initial cluster has ids by now. */
void boot_identify(struct boot *b);
MUST_CHECK enum err boot_disk(struct boot *b);
void boot_raft(struct boot *b, struct server *s); /* the same server */

/* After boot_raft: all invariants, asserted. */
void boot_check(const struct boot *b);

/* How the store of an open server is opened; the directory, if there is one, lives as long as the
 * server. */
struct backend_options boot_store_options(struct server *s);

/* After boot_disk has failed: what it has opened is closed, and boot_look may come again. */
void boot_undo(struct boot *b);

/* What was only needed to get there; at any point. */
void boot_free(struct boot *b);
