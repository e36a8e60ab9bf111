/*
 * membership_rig: changes of the members of a cluster_rig, asked for as a client does, with what
 * came of them as text: the members in order of address ("1:m1 2:m2 4:- 5:m5(learner)", by the last
 * number of the first peer URL, since ids are made of the time), or the error.
 */
#pragma once

#include "server/cluster_rig_test.h"

/* A cluster that has been together for long enough to be called healthy. */
void membership_open(struct cluster_rig *r, unsigned count, const char *const *flags);

/* Each asks member n, and waits. Texts are good until the next. The id may be NULL. */
const char *membership_add(struct cluster_rig *r, unsigned n, const char *url, bool is_learner,
                           uint64_t *id);
/* By MemberRemove or MemberPromote. */
const char *membership_change(struct cluster_rig *r, unsigned n, const char *method, uint64_t id);
const char *membership_update(struct cluster_rig *r, unsigned n, uint64_t id, const char *url);
const char *membership_list(struct cluster_rig *r, unsigned n, bool linearizable);

/* In two steps; `added` is not NULL for an add. */
void membership_begin_add(struct cluster_rig *r, unsigned n, const char *url, bool is_learner,
                          struct visit *v);
const char *membership_told(struct cluster_rig *r, struct visit *v, uint64_t *added);

uint64_t membership_id(const struct cluster_rig *r, unsigned n);
