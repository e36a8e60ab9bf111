/*
 * caller, for tests: one server, and whatever goes wrong ends the test.
 *
 *     struct caller c;
 *     caller_open(&c, &peer);
 *     struct line *l = caller_connect(&c);
 */
#pragma once

#include "harness/peer_test.h"
#include "interop/caller.h"

void caller_open(struct caller *c, const struct peer *to);
struct line *caller_connect(struct caller *c);

/* The answer of a call that was RPC_OK (checked); lent by the ask. */
void ask_read(struct ask *a, const struct pb_schema *schema, struct arena *arena, void *out);

/* Shorter words: one put, and it must succeed. Its revision. */
int64_t caller_put(struct line *l, struct bytes key, struct bytes value);
