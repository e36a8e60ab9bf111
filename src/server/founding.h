/*
 * founding: what is found out before a new cluster begins, and takes time.
 *
 *     names    What --initial-cluster says of this member, and what it advertises, must be the same
 *              places. Where their texts differ names are resolved to tell (names.h).
 *     others   Does one of the other members know this one as running? Then it has lost its data
 *              directory, and with it what it had promised. Under the same id it must not begin
 *              anew: it would vote twice. Whoever does not answer within a second does not know.
 *
 *     founding_start --> founding_work, in each turn, until it says that it is over
 *
 * Both are etcd's rules, and its words. Nothing is written to disk before it is over.
 *
 * Promises   1. It is over after half a minute and a second for each URL of the others, at most.
 *            2. founding_is_idle is true when it is over, and soon after founding_stop.
 * Not here   Asking (peer), comparing (cluster), what is refused without looking anywhere (boot.c).
 */
#pragma once

#include "cluster/cluster.h"
#include "server/names.h"

struct config;
struct io;
struct peer_event;
struct peers;

struct founding_options {
    const struct io *io;
    const struct logger *logger;
    const struct config *config;
    const struct cluster_initial *initial; /* lent */
    struct peers *peers;
    struct buf *why;
};

struct founding {
    struct founding_options o;
    struct arena arena;
    struct names names; /* of what is advertised, then of what is configured, from these on */
    size_t advertised, configured;
    struct url_list asks; /* the others' URLs, */
    size_t asked;         /* how many have been asked, the last of them perhaps now, */
    bool is_asking;
    bool is_over;
    enum err err;
};

/* Would it have anything to do? */
bool founding_is_needed(const struct cluster_initial *initial, const struct config *config);

void founding_start(struct founding *f, const struct founding_options *options);
/* At any time. Lookups under way still report: wait for founding_is_idle. */
void founding_stop(struct founding *f);
bool founding_is_idle(const struct founding *f);
void founding_free(struct founding *f);

/* A PEER_RESULT. */
void founding_result(struct founding *f, const struct peer_event *e);

/* True: it is over. f->err is ERR_OK, or *why says why this cluster cannot begin. */
bool founding_work(struct founding *f);
