/*
 * entry_int: what the files of this room share.
 *
 *     schema.c    the tables
 *     codec.c     the doors to them, and entries by hand
 *     message.c   kinds of messages, and copies
 */
#pragma once

#include "entry/entry.h"

/* Every append is made of these two, so they do not go through the table. */
extern const struct pb_by_hand raft_entry_by_hand;
extern const struct pb_by_hand raft_hard_state_by_hand;
