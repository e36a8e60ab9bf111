/*
 * gates: etcd's feature gates, "Name=true,Other=false", read as etcd reads them.
 *
 * Every gate of etcd 3.7 is known by name, so that a misspelled one is refused as such. Those that
 * are built are asked for by a function each, at the end of this header; the others cannot be
 * turned: config refuses them by name unless they are left, in whatever words, as they are. (The
 * --experimental flags that gates took the place of are gone from etcd 3.7, and unknown here too.)
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"

struct gates {
    uint32_t said; /* one bit each, for those somebody has turned, by name or with all of a stage */
    uint32_t on;   /* of those */
};

/* Turns some, on top of what was said before: a repeated flag adds to the first. False, and *why
 * says what is wrong with the text. */
bool gates_set(struct gates *g, struct bytes text, struct arena *arena, struct buf *why);

/* Is every gate as it would be if nobody had said anything? */
bool gates_are_default(struct gates g);

/* The first that is turned and not built; NULL: there is none. */
const char *gates_not_built(struct gates g);

/* All of them, in the order of their names: the nth. False: there are no more. */
struct gate_state {
    const char *name, *stage; /* "ALPHA" */
    bool is_on;
};
bool gates_at(struct gates g, size_t nth, struct gate_state *out);

/* --- those that are built --- */

/* The leader tells the others how much of a lease's time is left. */
bool gates_lease_checkpoint(struct gates g);
/* And they keep it on disk; from cluster version 3.6 on they do so anyway. */
bool gates_lease_checkpoint_persist(struct gates g);
/* Clients that ask gRPC's health service are told to go elsewhere during a defragmentation. */
bool gates_stop_grpc_service_on_defrag(struct gates g);
/* Before it serves, a member compares its store with the others' (corruption.h). */
bool gates_initial_corrupt_check(struct gates g);
/* Other members are dialled from the first address of ours that they know. */
bool gates_set_member_local_addr(struct gates g);
/* The leader compares the hashes of compactions with the others', from time to time. */
bool gates_compact_hash_check(struct gates g);
