/*
 * cluster_int: the world of one run, for the files of the random cluster only.
 *
 *   cluster.c         the run: founding, the loop over events, healing
 *   cluster_log.c     entries as nodes of one tree, and logs as paths in it
 *   cluster_member.c  a member's life: boot, crash, and doing what raft wants done
 *   cluster_net.c     the network
 *   cluster_chaos.c   clients and misfortune
 *   cluster_check.c   the rules
 *
 * Nothing here uses an address, the time or a global as input. Every random decision is drawn from
 * the one generator, one per statement.
 */
#pragma once

#include "base/assert.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"
#include "raft/cluster.h"
#include "raft/raft.h"

enum {
    CLUSTER_SLOTS_MAX = 16,  /* members that ever exist in one run */
    CLUSTER_VOTERS_MAX = 7,  /* that membership changes aim for */
    CLUSTER_TICK = 100,      /* units of virtual time */
    CLUSTER_COMMITTED = 200, /* client entries before a run may end */
    CLUSTER_FLIGHT_MAX = 3000,
    CLUSTER_READS_MAX = 4096,
    CLUSTER_TERMS_MAX = 16384,
};

/*
 * One entry of some log. Log matching says that index and term name it, whoever holds it, and that
 * the same entry comes before it everywhere: so all logs together are a tree, growing from the
 * entry that every member starts from.
 */
struct node {
    uint64_t index, term;
    enum raft_entry_type type;
    struct bytes data;
    struct blob *blob;
    uint64_t hash;
    struct node *previous;
    struct node *sibling; /* another term at the same index */
};

/* A log: the path from base (exclusive; what is compacted) to its last node. */
struct path {
    struct node *base;
    struct node **at;
    size_t count, cap;
};

/* A committed entry, as first seen. */
struct ledger_entry {
    struct node *node;
    uint64_t chain;       /* what the application's state is after it */
    uint64_t commit_term; /* of the leader that committed it */
    int conf;             /* the configuration after it, in confs; -1 until someone applied it */
};

/* The application: a hash over everything applied. */
struct app {
    uint64_t applied, chain;
};

/* One write under way, in the order given: a snapshot, entries, a hard state. */
struct write {
    struct list link;
    struct raft_message *message; /* NULL in plain mode */
    bool must_sync, has_hard_state;
    struct raft_hard_state hard_state;
    struct node *snapshot; /* NULL: none */
    uint64_t snapshot_chain;
    struct node **nodes;
    size_t node_count;
};

struct apply_work {
    struct list link;
    struct raft_message *message;
};

struct member {
    struct cluster *cluster;
    unsigned slot;
    uint64_t id;
    bool up, retired; /* retired: switched off for good, or until it is added again */
    unsigned life;    /* counts boots and crashes, so that events of an earlier life are void */
    struct raft *raft;
    struct raft_config config;

    /* What raft has handed out in this life. */
    struct raft_hard_state told;
    struct path log;
    uint64_t next_apply;    /* index of the next entry to be handed out for applying */
    uint64_t snapshot_wait; /* index of a snapshot being installed; 0: none */

    /* What a crash leaves. lazy was written without a sync and may be lost. */
    struct raft_hard_state durable, lazy;
    struct path durable_log;
    struct app durable_app;

    /* Work under way, first in first out. */
    struct app app;
    struct list writes, applies;
    uint64_t write_due, apply_due;
    bool drain_scheduled;
    bool busy; /* plain mode: output is lent and not advanced */
    struct raft_output output;

    /* For the rules: as of the last look. */
    struct raft_hard_state seen;

    /* Its temper. */
    unsigned tick_period;
    uint64_t stalled_until; /* no ticks before */
    unsigned disk_slowness; /* percent */
};

enum event_kind {
    EVENT_TICK,
    EVENT_DELIVER,
    EVENT_WRITTEN,
    EVENT_APPLIED,
    EVENT_FETCHED,
    EVENT_DRAIN,
    EVENT_RESTART,
    EVENT_SNAPSHOT_REPORT,
    EVENT_CLIENT,
    EVENT_CHAOS,
    EVENT_WEATHER,
};

struct event {
    struct heap_node heap;
    uint64_t due, number;
    enum event_kind kind;
    unsigned slot, life;
    struct raft_message *message; /* DELIVER */
    unsigned sender;              /* DELIVER: the slot it physically comes from */
    bool first_copy;              /* DELIVER: a snapshot's fate is reported once */
    struct raft_fetch fetch;      /* FETCHED */
    uint64_t peer;                /* SNAPSHOT_REPORT */
    bool delivered;               /* SNAPSHOT_REPORT */
};

/* What the network and the disks are like for now. */
struct weather {
    unsigned loss, doubling; /* percent */
    unsigned delay_max, disk_max, apply_max;
    bool cut[CLUSTER_SLOTS_MAX][CLUSTER_SLOTS_MAX]; /* from, to */
};

/* What a seed decides once. */
struct climate {
    unsigned voters, learners;
    bool pre_vote, check_quorum, lease_reads, step_down_on_removal, no_forwarding;
    bool bootstrap; /* by founding entries, not by a common starting point */
    unsigned plain_percent, lazy_drain_percent;
    unsigned election_ticks, heartbeat_ticks;
    unsigned chaos_period, client_period;
    uint64_t id_base;
    uint64_t max_message_bytes, max_applying_bytes, max_uncommitted_bytes, max_inflight_bytes;
    size_t max_inflight_messages, max_resident_entries;
    uint64_t max_resident_bytes;
    unsigned compact_weight, conf_weight, crash_weight;
};

struct read_record {
    uint64_t floor;
    unsigned slot;
};

struct term_record {
    unsigned leader_slot, leader_life; /* slot + 1; 0: nobody yet */
    uint64_t votes[CLUSTER_SLOTS_MAX]; /* by voter: for whom */
};

struct cluster {
    uint64_t seed;
    bool verbose;
    struct rng rng;
    struct climate climate;
    struct weather weather;
    struct cluster_totals totals;
    uint64_t trace;

    uint64_t now;
    uint64_t event_numbers;
    struct heap events;
    size_t in_flight;
    bool healing;
    uint64_t leader_seen; /* when there last was one */

    struct member members[CLUSTER_SLOTS_MAX];
    unsigned member_count;

    /* The tree: nodes at index root->index + i are in tree[i]. */
    struct node *root;
    struct node *zero; /* where an empty log ends: index 0; the root itself, if that is there */
    struct node **tree;
    size_t tree_cap;

    /* ledger[i] is the committed entry at root->index + i; ledger[0] the root. */
    struct ledger_entry *ledger;
    size_t ledger_count, ledger_cap;
    size_t ledger_applied; /* how many of them someone has applied */
    uint64_t founding_last;
    struct raft_conf_state *confs;
    size_t conf_count, conf_cap;

    struct term_record *terms; /* CLUSTER_TERMS_MAX */
    struct read_record reads[CLUSTER_READS_MAX];
    size_t read_count;
    uint64_t proposals;
    uint64_t marker_proposal, marker_index; /* healing: what everyone must apply */
};

/* A broken rule: says so and ends the process. */
__attribute__((noreturn, cold, format(printf, 3, 4))) void
cluster_broken(const struct cluster *c, const char *rule, const char *format, ...);

__attribute__((format(printf, 2, 3))) void cluster_say(const struct cluster *c, const char *format,
                                                       ...);

uint64_t cluster_mix(uint64_t hash, uint64_t value);

/* --- cluster.c --- */

struct event *cluster_schedule(struct cluster *c, uint64_t delay, enum event_kind kind,
                               const struct member *m);
struct member *cluster_member_by_id(struct cluster *c, uint64_t id);

/* The leader of the highest term among those up, or NULL. */
struct member *cluster_leader(struct cluster *c);

/* Is id in the configuration, in whatever part? */
bool cluster_conf_has(const struct raft_conf_state *conf, uint64_t id);
bool cluster_conf_equal(const struct raft_conf_state *a, const struct raft_conf_state *b);

/* The newest configuration that anyone has applied. */
const struct raft_conf_state *cluster_newest_conf(const struct cluster *c);

/* May a member be switched off for good? Only when it is removed, and those who stay know it: as
 * long as they do not, they may need it to decide anything at all. */
bool cluster_is_dispensable(struct cluster *c, const struct member *m);

/* --- cluster_log.c --- */

/* The node for an entry that follows `previous` in some log; checks rule 2. */
struct node *cluster_node(struct cluster *c, struct node *previous, const struct raft_entry *e);
struct node *cluster_node_find(const struct cluster *c, uint64_t index, uint64_t term);
void cluster_tree_open(struct cluster *c, uint64_t index, uint64_t term);
void cluster_tree_close(struct cluster *c);
uint64_t cluster_client_proposal(const struct node *n); /* its number; 0: not a client's */
struct raft_entry cluster_entry_of(const struct node *n);

uint64_t cluster_path_last(const struct path *p);
struct node *cluster_path_at(const struct path *p, uint64_t index);  /* NULL outside [base, last] */
bool cluster_path_holds(const struct path *p, const struct node *n); /* compacted counts as held */
void cluster_path_cut(struct path *p, uint64_t index);               /* forgets index and above */
void cluster_path_push(struct path *p, struct node *n);
void cluster_path_compact(struct path *p, uint64_t index);
void cluster_path_reset(struct path *p, struct node *base);
void cluster_path_copy(struct path *to, const struct path *from);
void cluster_path_free(struct path *p);

/* --- cluster_member.c --- */

struct member *cluster_member_new(struct cluster *c);
void cluster_member_boot(struct member *m);
void cluster_member_found(struct member *m, const struct raft_founder *founders, size_t count);
void cluster_member_crash(struct member *m);
void cluster_member_free(struct member *m);

/* Looks at the rules after a call, and takes what raft wants done, at once or soon. */
void cluster_member_after(struct member *m);

void cluster_member_written(struct member *m);
void cluster_member_applied(struct member *m);
void cluster_member_fetched(struct member *m, const struct raft_fetch *fetch);
void cluster_member_drain(struct member *m);

/* The application's state becomes durable; with a snapshot for peers and compaction if it likes. */
void cluster_member_save_app(struct member *m);
void cluster_member_compact(struct member *m);

/* --- cluster_net.c --- */

void cluster_send(struct member *from, const struct raft_message *message);
void cluster_deliver(struct cluster *c, struct event *e);
void cluster_snapshot_report(struct cluster *c, const struct event *e);

/* --- cluster_chaos.c --- */

void cluster_client(struct cluster *c);
void cluster_chaos(struct cluster *c);
void cluster_weather_change(struct cluster *c);
void cluster_weather_clear(struct cluster *c);
void cluster_client_propose(struct cluster *c, struct member *m);

/* --- cluster_check.c --- */

void cluster_check_member(struct member *m);
void cluster_check_send(const struct member *m, const struct raft_message *message);
void cluster_check_append(struct member *m, const struct raft_entry *entries, size_t count);
void cluster_check_committed(struct member *m, const struct raft_entry *entries, size_t count);
void cluster_check_read(struct member *m, const struct raft_read_state *read);
void cluster_check_fetch(const struct member *m, const struct raft_fetch *fetch);
void cluster_check_async(const struct member *m, const struct raft_output *out);
void cluster_check_vote(const struct member *m, uint64_t term, uint64_t candidate);
void cluster_check_snapshot(struct member *m, const struct raft_snapshot *snapshot);

/* The application executes one committed entry; rule 4. */
void cluster_check_apply(struct member *m, const struct raft_entry *e);

/* The configuration after index is known, and must be what others found; rule 8. */
void cluster_check_conf(struct member *m, uint64_t index, const struct raft_conf_state *conf);

/* The ledger gains what is agreed before anyone speaks: founding entries, or a starting point. */
void cluster_ledger_found(struct cluster *c, struct node *n, const struct raft_conf_state *conf);
const struct ledger_entry *cluster_ledger_at(const struct cluster *c, uint64_t index);
uint64_t cluster_ledger_last(const struct cluster *c);

/* The configuration after an index that someone has applied. */
const struct raft_conf_state *cluster_conf_at(const struct cluster *c, uint64_t index);
