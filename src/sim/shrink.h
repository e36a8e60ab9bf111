/*
 * shrink: what is left of a story that fails when everything it does not need is taken away.
 *
 * Fault kinds are left out one by one, then there are fewer members, fewer clients, an earlier end;
 * whatever still fails is kept, again and again until nothing more can go. It need not fail in the
 * same way: a smaller story with another broken promise is as good a place to look.
 */
#pragma once

#include "sim/sim.h"

/* Does it still fail? Each asks a whole run. */
typedef bool shrink_fails(void *context, const struct sim_options *options);

/* `failing` fails; `members` is how many it has. Returns the smallest that was found to fail. */
struct sim_options shrink(const struct sim_options *failing, unsigned members, shrink_fails *fails,
                          void *context);

/* The arguments of cleat-sim that make it again, into *out. */
void shrink_arguments(const struct sim_options *o, struct buf *out);
