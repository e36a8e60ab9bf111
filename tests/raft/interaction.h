/*
 * interaction: a cluster on a page. Every member is a raft core with a disk, a state machine and
 * two storage threads made of plain memory, and nothing happens that a command does not ask for.
 *
 *     add-nodes 3 voters=(1,2,3) learners=(4) index=10 ...     campaign 1
 *     propose 1 data                                            propose-conf-change 1 v1=true
 *     process-ready 1 2                                         stabilize 1 2 log-level=none
 *     process-append-thread 1                                   process-apply-thread 1
 *     deliver-msgs 1 type=MsgApp drop=(2,3)                     send-snapshot 1 2
 *     tick-election 1                                           tick-heartbeat 1
 *     transfer-leadership from=1 to=2                           forget-leader 1
 *     set-randomized-election-timeout 1 timeout=5               report-unreachable 1 2
 *     compact 1 12                                              raft-log 1
 *     status 1                                                  raft-state
 *     log-level debug
 *
 * These are etcd's. For what its core does not do, or its grammar does not reach, there are also
 *
 *     read-index 1 context                                      report-snapshot 1 2 ok
 *     evict 1 12                                                process-fetches 1 fail=true
 *
 * and add-nodes takes max-size-per-msg, max-inflight-bytes, max-uncommitted-size and
 * disable-proposal-forwarding.
 *
 * A member's messages wait in one network, in order, until they are delivered or dropped. Its disk
 * remembers what etcd's MemoryStorage would; its state machine appends all data it is given, and
 * that string is what its snapshots hold.
 *
 *   interaction.c           commands, the output and its log level
 *   interaction_node.c      a member: its making, its disk, its state machine
 *   interaction_work.c      what a member wants done, being done
 *   interaction_network.c   messages under way; running until nothing moves
 */
#pragma once

#include "base/list.h"
#include "raft/scenarios.h"

enum {
    INTERACTION_NODES_MAX = RAFT_MEMBERS_MAX,
    FETCHES_MAX = 256, /* waiting to be answered, those of no use any more included */
    LEVEL_NONE = 5,    /* above all of raft's levels and FATAL: no output at all */
};

/* A message under way, or work waiting for a thread. */
struct letter {
    struct list link;
    struct raft_message *message;
    bool own; /* an answer of the member's own storage: it may be believed */
};

/* What a member's disk remembers of its log; entries[0] follows base. Hard states are not kept: a
 * scene has no restarts. */
struct disk {
    uint64_t snapshot_index; /* of the snapshot it was founded with or sent last */
    uint64_t base_index;
    struct raft_entry *entries;
    size_t count, cap;
};

struct node {
    struct raft *raft;
    struct raft_config config;
    struct disk disk;
    struct buf state;                    /* the state machine */
    struct raft_snapshot latest;         /* the same with its place in the log, for sending */
    struct list append_work, apply_work; /* letters */
    struct raft_fetch fetch[FETCHES_MAX];
    size_t fetch_count;
};

struct scene {
    struct node *nodes[INTERACTION_NODES_MAX];
    size_t node_count;
    struct list network; /* letters */
    struct buf *out;     /* of the command being answered */
    struct buf problem;  /* why it failed */
    unsigned level;
};

/* --- interaction.c --- */

/* Output, unless the level is none. */
__attribute__((format(printf, 2, 3))) void scene_say(struct scene *s, const char *format, ...);
void scene_say_message(struct scene *s, const struct raft_message *m);
void scene_say_entries(struct scene *s, const struct raft_entry *entries, size_t count);

/* Indents every line that was said since out->len was `mark`. */
void scene_indent_since(struct scene *s, size_t mark);

/* Notes why the command cannot go on, and says false. */
__attribute__((format(printf, 2, 3))) bool scene_fail(struct scene *s, const char *format, ...);

bool scene_set_level(struct scene *s, const char *name);

/* --- interaction_node.c --- */

bool scene_add_nodes(struct scene *s, const struct scenario_command *c);
void scene_node_free(struct node *n);
bool scene_say_log(struct scene *s, const struct node *n);
bool scene_node_compact(struct scene *s, struct node *n, uint64_t index);
void scene_node_settle(struct node *n);

/* Writes to the node's disk; then applies to its state machine. */
bool scene_node_append(struct scene *s, struct node *n, const struct raft_snapshot *snapshot,
                       const struct raft_entry *entries, size_t count);
bool scene_node_apply(struct scene *s, struct node *n, const struct raft_entry *entries,
                      size_t count);

/* --- interaction_work.c --- */

bool scene_process_ready(struct scene *s, struct node *n);
bool scene_process_append(struct scene *s, struct node *n);
bool scene_process_apply(struct scene *s, struct node *n);
bool scene_process_fetches(struct scene *s, struct node *n);
bool scene_fail_fetches(struct scene *s, struct node *n);

/* --- interaction_network.c --- */

void scene_post(struct list *to, const struct raft_message *m, bool own);
void scene_letter_free(struct letter *l);
void scene_letters_free(struct list *letters);

struct recipient {
    uint64_t id;
    bool drop;
};
enum { ANY_TYPE = -1 };

/* Delivers or drops what is under way to the recipient, of one type or all. False on a failure. */
bool scene_deliver(struct scene *s, const struct recipient *to, int type, size_t *count);

bool scene_stabilize(struct scene *s, struct node *const nodes[], size_t count);
