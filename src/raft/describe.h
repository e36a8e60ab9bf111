/*
 * describe: everything raft deals in, as text, in the form etcd-io/raft prints it.
 *
 * Scenarios compare these byte for byte. All functions append to a buf.
 */
#pragma once

#include "raft/tracker.h"

/* How entry data is shown; NULL shows it as a quoted Go string. */
typedef void raft_data_format(struct buf *out, struct bytes data);

void raft_describe_entry(struct buf *out, const struct raft_entry *e, raft_data_format *format);
void raft_describe_entries(struct buf *out, const struct raft_entry *entries, size_t count,
                           raft_data_format *format); /* one per line */
void raft_describe_message(struct buf *out, const struct raft_message *m, raft_data_format *format);
void raft_describe_output(struct buf *out, const struct raft_output *o, raft_data_format *format);

void raft_describe_soft_state(struct buf *out, const struct raft_soft_state *s);
void raft_describe_hard_state(struct buf *out, const struct raft_hard_state *s);
void raft_describe_snapshot(struct buf *out, const struct raft_snapshot *s);
void raft_describe_conf_state(struct buf *out, const struct raft_conf_state *conf);

/* "voters=(1 2)&&(1 3) learners=(4) autoleave" */
void raft_describe_conf(struct buf *out, const struct raft_conf_state *conf);

/* "transition:... changes:{...}", and the short form "v1 l2 r3" */
void raft_describe_conf_change(struct buf *out, const struct raft_conf_change_v2 *cc);
void raft_describe_changes(struct buf *out, const struct raft_conf_change_single *changes,
                           size_t count);

/* "StateProbe match=0 next=3 learner", and one line for each member of a tracker */
void raft_describe_progress(struct buf *out, const struct raft_progress *p);
void raft_describe_tracker(struct buf *out, const struct tracker *t);

/* What a leader's status command shows; nothing for other roles. */
void raft_describe_status(struct buf *out, const struct raft *r);

const char *raft_role_text(enum raft_role role);                 /* "StateFollower" */
const char *raft_message_type_text(enum raft_message_type type); /* "MsgApp"; NULL if unknown */
