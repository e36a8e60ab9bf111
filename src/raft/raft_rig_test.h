/*
 * group: a few members, a perfect network and perfect disks, for unit tests.
 *
 * Every member's disk is a list of entries, its state machine the list of commands it has applied.
 * raft_rig_settle runs until nobody wants anything any more, checking all invariants after each
 * call. A cut-off member neither sends nor receives. The whole-cluster simulation with lossy
 * everything is elsewhere; here it is easy to say exactly what happens.
 */
#pragma once

#include "raft/describe.h"
#include "raft/log.h"
#include "raft/raft.h"

enum { RAFT_RIG_MAX = 8 };

struct raft_rig_member {
    struct raft *raft;
    struct raft_config config;
    struct raft_entry
        *disk; /* disk[i] has index i + 1; below raft's base they are kept for tests */
    size_t disk_count;
    struct raft_hard_state hard_state;
    struct raft_conf_state conf_state;
    struct raft_snapshot snapshot; /* the last one installed; index 0: none */
    uint64_t applied;
    struct buf machine; /* applied commands, each followed by a space */
    struct buf reads;   /* read states as "context@index " */
    struct buf sent;    /* messages as text, one per line, when it is not settling */
    struct buf log;     /* log lines, if the config has a sink */
    size_t fetch_count; /* how often it had to read its disk */
    bool cut;
    bool lose_fetches; /* the disk does not answer */
    struct raft_fetch last_fetch;
};

struct raft_rig {
    struct raft_rig_member member[RAFT_RIG_MAX + 1]; /* by id, from 1 */
    size_t count;
    struct raft_message **flying;
    size_t flying_count, flying_cap;
    bool offer_snapshots; /* after every apply, as of then */
};

/* Settings that work, for one member. */
struct raft_config raft_group_config(uint64_t id);

/* `count` voters with ids from 1; settings may be changed by `tweak` (NULL: not). */
void raft_group_open(struct raft_rig *g, size_t count, void (*tweak)(struct raft_config *));
void raft_group_close(struct raft_rig *g);

/* One more member, with nothing on disk and the given configuration (NULL: none), which must be the
 * one in force before the first entry of the log. */
void raft_group_add(struct raft_rig *g, const struct raft_conf_state *conf,
                    void (*tweak)(struct raft_config *));

/* Ends a member and opens it again with what its disk has. */
void raft_group_restart(struct raft_rig *g, uint64_t id);

struct raft *raft_group_raft(struct raft_rig *g, uint64_t id);

/* Handles one member's outputs: persists, applies, and lets its messages fly. */
void raft_group_take(struct raft_rig *g, uint64_t id);

/* Delivers everything in flight once; false if there was nothing. */
bool raft_group_deliver(struct raft_rig *g);
void raft_group_settle(struct raft_rig *g);

/* Forgets messages in flight: those of a type, or all with -1. Returns how many. */
size_t raft_group_lose(struct raft_rig *g, int type);

void raft_group_elect(struct raft_rig *g,
                      uint64_t id); /* campaigns, settles, and checks that it leads */
enum raft_result raft_group_propose(struct raft_rig *g, uint64_t id, const char *command);
void raft_group_tick(struct raft_rig *g, uint64_t id, unsigned times);
const char *raft_group_machine(struct raft_rig *g, uint64_t id);

/* Asking a member, and what its log lines say. */
struct raft_status raft_group_status(struct raft_rig *g, uint64_t id);
enum raft_role raft_group_role(struct raft_rig *g, uint64_t id);
const struct raft_progress *raft_group_progress(struct raft_rig *g, uint64_t id, uint64_t of);
bool raft_group_logged(struct raft_rig *g, uint64_t id, const char *text);
void raft_group_check_conf(struct raft_rig *g, uint64_t id, const char *want);

/* Proposes a change of one member, and settles. */
void raft_group_change(struct raft_rig *g, uint64_t id, enum raft_conf_change_type type,
                       uint64_t node);

/* Asks for a read; answers gather as "context@index " in raft_rig_reads. */
void raft_group_read(struct raft_rig *g, uint64_t id, const char *context);
const char *raft_group_reads(struct raft_rig *g, uint64_t id);

/* --- one member alone --- */

/* A message as if from the network, to m.to. */
enum raft_result raft_group_step(struct raft_rig *g, struct raft_message m);

/* A number that no enum has, where the compiler cannot see it. */
unsigned strange_number(unsigned number);

/* A blob holding a string. */
struct blob *text_blob(const char *text);

/* Handles the outputs of a member of a group and returns what it sent, one message per line. */
const char *raft_group_sent(struct raft_rig *g, uint64_t id);
