/*
 * confchange: from one configuration to the next, or a reason why not.
 *
 *     simple    (1 2 3)            --add 4-->     (1 2 3 4)            at most one voter differs
 *     joint     (1 2 3)            --enter-->     (3 4 5)&&(1 2 3)     any difference at all,
 *               (3 4 5)&&(1 2 3)   --leave-->     (3 4 5)              in two steps
 *
 * Any two majorities of neighbouring configurations share a member, so there is never a moment in
 * which two groups could decide without each other (thesis, chapter 4). A voter that is to become a
 * learner in the second step must stay a voter of the outgoing half until then: it waits in
 * learners_next.
 *
 * These are functions from one tracker to the next. They return NULL and fill *out, or return the
 * reason in etcd's words and leave *out untouched. Members that stay keep their progress; *out
 * borrows the inflight windows of *from until confchange_switch puts it in the place of *from.
 */
#pragma once

#include "raft/tracker.h"

/* `last_index` is where the log ends: new members are first probed there. */
const char *confchange_simple(const struct tracker *from, uint64_t last_index,
                              const struct raft_conf_change_single *changes, size_t count,
                              struct tracker *out);
const char *confchange_enter_joint(const struct tracker *from, uint64_t last_index, bool auto_leave,
                                   const struct raft_conf_change_single *changes, size_t count,
                                   struct tracker *out);
const char *confchange_leave_joint(const struct tracker *from, struct tracker *out);

/* Whichever of the three a conf change asks for. */
const char *confchange_apply(const struct tracker *from, uint64_t last_index,
                             const struct raft_conf_change_v2 *cc, struct tracker *out);

/* The configuration a snapshot or the disk describes, with all progress new. `limits` lends its
 * inflight bounds. A conf state that no sequence of changes could have produced is refused. */
const char *confchange_restore(const struct tracker *limits, uint64_t last_index,
                               const struct raft_conf_state *conf, struct tracker *out);

/* Replaces *t by *next, freeing the windows of members that are gone. */
void confchange_switch(struct tracker *t, const struct tracker *next);

/* Does this change leave a joint configuration? */
bool confchange_leaves_joint(const struct raft_conf_change_v2 *cc);
