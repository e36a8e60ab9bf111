/*
 * load: clients that write and read while members die, and a watcher on each member; everything
 * they are told goes into the record.
 *
 *     clients   one call after the other, each on a connection of its own to some member; one whose
 *               call fails, or takes too long, goes to another member, as real clients do
 *     watchers  one on each member, of every key, which begins again where it was when the member
 *               is back
 *     readers   on each member, which do nothing but linearizable reads there: a leader that does
 *               not know yet that it was deposed is asked all the time
 *     probes    one client for each member, for what has to be asked of this very member
 *
 * Clients reach members directly: a leader that is cut off from its peers goes on hearing them.
 *
 *     load_open, then load_run_ms with is_on true or false, load_settle when everybody should be
 *     well again, record_judge
 */
#pragma once

#include "base/rng.h"
#include "cluster/fleet.h"
#include "cluster/record.h"
#include "interop/caller.h"

enum { LOAD_CLIENTS_MAX = 500, LOAD_READERS = 2 /* for each member */ };

struct load_client {
    struct load *load;
    struct ask ask;
    unsigned member;
    size_t op;         /* under way, or the last one */
    int64_t told;      /* the last revision, on this connection */
    uint64_t next_ns;  /* it does nothing before */
    uint64_t since_ns; /* it has been connecting */
    bool may_go;       /* to another member */
    bool is_lost;      /* its connection is to be made anew */
    bool put_done;     /* its last put has succeeded */
    uint64_t term;     /* the leader's, says that response */
};

struct load_watcher {
    struct load *load;
    struct ask ask;
    unsigned member;
    uint64_t next_ns;
    int64_t last;   /* the last revision of the last response, which is whole */
    unsigned begun; /* watches, one after the other */
};

struct load {
    struct caller caller;
    struct tls *tls; /* if members are to be reached by it */
    struct fleet *fleet;
    struct rng rng;
    struct arena arena;
    struct record record;
    struct load_client clients[LOAD_CLIENTS_MAX], probes[FLEET_MAX];
    struct load_client readers[FLEET_MAX * LOAD_READERS];
    unsigned client_count, pause_ms_max;
    struct load_watcher watchers[FLEET_MAX];
    struct ask compaction, ballast;
    int64_t compacted;
    bool is_on;
    bool reads_stale; /* linearizable reads are not asked to be: a wrong that must be found */
    unsigned succeeded, failed, reads, watches; /* calls, reads of them, watches begun */
    unsigned hashes; /* times that all members had the same, after the same compaction */
    void (*on_turn)(void *context); /* in each turn; may be NULL */
    void *context;
};

struct load_options {
    struct fleet *fleet;
    uint64_t seed;
    unsigned clients;      /* LOAD_CLIENTS_MAX at most */
    unsigned pause_ms_max; /* of a client, between its calls */
};

MUST_CHECK enum err load_open(struct load *l, const struct load_options *options);
void load_close(struct load *l);

/* For those who put by themselves: a client on this connection, and a put of its. No other may be
 * under way. put_done and term tell that it has succeeded; ask_free ends it. */
void load_client_init(struct load *l, struct load_client *c, struct line *line);
void load_put(struct load_client *c, unsigned key, uint64_t timeout_ms);

/* Everything goes on for so long. False if there is a problem, of the record or of the fleet. */
MUST_CHECK bool load_run_ms(struct load *l, uint64_t ms);

/* A put by way of this very member: begin, and then one after the other in the course of
 * load_run_ms, until one has succeeded, which is true. */
void load_probe_begin(struct load *l, unsigned member);
MUST_CHECK bool load_probe(struct load *l, unsigned member);

/* So many bytes for the log, by way of this member: a transaction that does nothing, and makes no
 * revision that nobody is told of. Unless the last one is still under way. */
void load_ballast(struct load *l, unsigned member, size_t bytes);

/* Ends the load: waits until no call is under way, a put by way of each member has succeeded, and
 * all watchers have seen everything. False, and a problem, if that takes longer. */
MUST_CHECK bool load_settle(struct load *l, uint64_t at_most_ms);

/* Each member's own store is read as a whole, into the record; and all that can say it have the
 * same hash of it at its newest revision. After load_settle. */
MUST_CHECK bool load_compare_stores(struct load *l);

/* The member that its peers call the leader, or -1 if nobody says. */
int load_leader(struct load *l);

/* The first problem of all, or "". */
const char *load_problem(const struct load *l);
