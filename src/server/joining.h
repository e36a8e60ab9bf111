/*
 * joining: what a member has to find out before it can join a cluster that exists.
 *
 *     members     One of the others tells who the members are. Their URLs must be those that
 *                 --initial-cluster has; where texts differ, hosts' names are resolved to tell. The
 *                 ids are theirs: this member was given its own when it was added.
 *     versions    Each of the others tells the cluster's version, and one of them whether it is
 *                 being downgraded: we must be able to speak it.
 *
 *     joining_start --> joining_work, in each turn, until it says that it is over
 *
 * All of these are etcd's rules, and its words. One more is ours: who is known as having run does
 * not join with an empty log. It has lost its data directory, and with it what it had promised;
 * under the same id it would vote twice. It has to be removed, and added anew.
 *
 * Promises   1. It is over after ten seconds for each URL of the others, half a minute for names,
 *               and seven seconds for each URL twice, at most; mostly at once.
 *            2. joining_is_idle is true when it is over, and soon after joining_stop.
 *            3. Nothing is written to disk.
 * Not here   Asking (peer), comparing (cluster).
 */
#pragma once

#include "cluster/cluster.h"
#include "server/names.h"

struct config;
struct io;
struct peer_event;
struct peers;

struct joining_options {
    const struct io *io;
    const struct logger *logger;
    const struct config *config;
    struct cluster_initial *initial; /* lent; has the ids of the members when it is over */
    struct peers *peers;
    struct buf *why;
};

enum joining_step {
    JOINING_MEMBERS,
    JOINING_NAMES,
    JOINING_VERSIONS,
    JOINING_DOWNGRADE,
    JOINING_OVER,
};

struct joining {
    struct joining_options o;
    struct arena arena;
    enum joining_step step;
    enum err err; /* when it is over */

    struct url_list asks; /* URLs that can answer the question at hand, */
    size_t next;          /* the next of them, */
    size_t member;        /* of the existing member of this number; not while it asks for them */
    uint64_t asked;       /* how many were asked, for all questions: a token */
    bool is_asking;

    struct cluster_existing existing;
    struct names names;
    struct version versions[CLUSTER_MEMBERS_MAX]; /* the cluster's, as the members know it */
    size_t version_count;
    bool is_downgrading;
};

void joining_start(struct joining *j, const struct joining_options *options);
/* At any time. Lookups under way still report: wait for joining_is_idle. */
void joining_stop(struct joining *j);
bool joining_is_idle(const struct joining *j);
void joining_free(struct joining *j); /* also one that is all zeroes */

/* A PEER_RESULT. */
void joining_result(struct joining *j, const struct peer_event *e);

/* True: it is over. j->err is ERR_OK, or *why says why this member cannot join. */
bool joining_work(struct joining *j);
