/*
 * peering: the other members of the cluster, as this one deals with them.
 *
 *     the port     others find us there, from before we are founded
 *     members      who they are follows the cluster's table, as conf changes are applied
 *     messages     raft's, out and in (turn.c carries them)
 *     fetches      entries that a member is behind with, and that are on disk alone
 *     versions     what each of them runs, asked for by the leader
 *     requests     what they want to know of us (peer_requests.c)
 *
 * Members meet by TLS where URLs say so, ours and theirs, with certificates as the flags of members
 * have them; nobody gets in by it from where his certificate is not for, unless that is not asked.
 *
 * Bytes and connections are peer's. What is here is the server's side: tokens of what was asked,
 * reads of the log under way, who is known.
 *
 * Life       peering_listen, peering_open once we know who we are, or as RAFT_NONE; peering_stop
 * when nobody new is wanted; when peering_is_idle, peering_close; or as in a crash peering_abandon.
 */
#pragma once

#include "base/list.h"
#include "cluster/cluster.h"
#include "peer/peer.h"
#include "server/secure.h"

struct raft;
struct raft_fetch;
struct wal;

enum { PEERING_TOKEN_SHIFT = 56 }; /* above it is what a token is of: */

enum peering_token {
    PEERING_TOKEN_FOUNDING = 0,
    PEERING_TOKEN_VERSION = 1,
    PEERING_TOKEN_FORWARD = 2,
    PEERING_TOKEN_HASH = 3,
};

struct peering_options {
    const struct io *io;
    const struct config *config;
    const struct logger *logger;
};

/* A round of asking all members which version they run. */
struct peering_versions {
    uint64_t round;                      /* its number, part of the tokens */
    uint64_t asked[CLUSTER_MEMBERS_MAX]; /* by what the tokens end with */
    size_t waiting;                      /* members that have not answered */
    bool is_missing;                     /* somebody did not, or not with a version */
    struct version_range servers;
    bool is_under_way, is_done;
};

struct peering {
    struct peering_options o;
    struct secure secure;    /* opened if there is anything about TLS in flags or URLs */
    struct conn_limit limit; /* of those who connect to us, members and strangers */
    struct listener **listeners;
    size_t listener_count;
    struct peers *peers;
    uint64_t self;
    uint64_t known[CLUSTER_MEMBERS_MAX]; /* the others, as peer was told of them */
    size_t known_count;
    struct list fetches; /* struct peering_fetch */
    struct peering_versions versions;
    uint64_t leaving; /* was removed while it led, and may still hand over; RAFT_NONE: nobody */
    uint64_t leaving_until_ms;
};

/* How many connections the peer port takes where so many files may be open (0: no limit is known):
 * a share of them, since strangers can take it all. */
unsigned peering_conns_max(unsigned files_max);

/* On one that is all zeroes. Also when it fails, peering_close takes what there is. */
MUST_CHECK enum err peering_listen(struct peering *p, const struct peering_options *options,
                                   struct buf *why);
void peering_open(struct peering *p, uint64_t self, uint64_t cluster_id, uint64_t seed);
/* If it was opened as nobody, because we are about to join a cluster. */
void peering_identify(struct peering *p, uint64_t self, uint64_t cluster_id);
void peering_stop(struct peering *p);
/* After peering_stop: no connection is left, and no read of the log is under way. */
bool peering_is_idle(const struct peering *p);
void peering_close(struct peering *p);
void peering_abandon(struct peering *p);

/* Says that it serves. */
void peering_serve(const struct peering *p);

/* --- members --- */

/* At the beginning, and when the state was replaced: these are all of them, and those are gone for
 * good. Whoever was known and is in neither table is not, or not yet: who joins has asked somebody
 * for the members that may have been ahead of whom the snapshot is of. */
void peering_set_members(struct peering *p, const struct pb_member *members, size_t count);
void peering_set_removed(struct peering *p, const uint64_t *ids, size_t count);
/* A conf change was applied to the cluster's table. What founders learn again is no news. A leader
 * that was removed is listened to for a moment: it hands over. */
void peering_member_changed(struct peering *p, const struct raft_conf_change *change,
                            const struct cluster *cluster, uint64_t leader);
/* Time has passed, and this one leads now. */
void peering_tick(struct peering *p, uint64_t leader);

/* Has this one been connected since before then? */
bool peering_is_connected_since(const struct peering *p, uint64_t id, uint64_t since_ms);
/* How many of these are connected; ourselves not counted. */
size_t peering_active_count(const struct peering *p, const struct raft_ids *ids);

/* --- fetches --- */

/* Reads the entries, and tells raft when they are there. */
void peering_fetch(struct peering *p, struct wal *wal, struct raft *raft,
                   const struct raft_fetch *fetch);

/* --- versions --- */

/* Asks all of these but ourselves. One round at a time: until it has been taken. */
void peering_ask_versions(struct peering *p, const struct pb_member *members, size_t count);
bool peering_is_asking_versions(const struct peering *p);
/* A PEER_RESULT with a token of that kind. */
void peering_version(struct peering *p, const struct peer_event *e);
/* True once for each round, when all have answered or failed to; *out is what all servers run, this
 * one included, and *all says whether everybody has told it. */
bool peering_take_versions(struct peering *p, struct version_range *out, bool *all);

/* All invariants, asserted. */
void peering_check(const struct peering *p);
