/*
 * config_gates: etcd's feature gates, "Name=true,Other=false", read as etcd reads them.
 *
 * None of them can be turned here yet. They are read so that the ways of writing "all as they are"
 * can be told from a request for something else, and so that a misspelled name is refused as such.
 * Private to config.
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

/* etcd keeps a lease's checkpoint on disk only where there are checkpoints. */
bool gates_persist_checkpoints_alone(struct gates g);
