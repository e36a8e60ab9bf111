/*
 * shrink: what is left of a story that fails when everything it does not need is taken away.
 *
 * Fault kinds are left out one by one, then there are fewer members, fewer clients, an earlier end;
 * whatever still fails is kept, again and again until nothing more can go. It need not fail in the
 * same way: a smaller story with another broken promise is as good a place to look.
 */
#pragma once

#include "sim/sim.h"

enum { SHRINK_RUNS_MAX = 200 }; /* some minutes; what is worth leaving out goes in the first 60 */

/* Does it still fail? Each asks a whole run. */
typedef bool shrink_fails(void *context, const struct sim_options *options);

struct shrink {
    const struct sim_options *failing; /* it fails, */
    unsigned members;                  /* and has so many */
    shrink_fails *fails;
    void *context;
    unsigned runs_max;

    unsigned runs; /* made */
    bool is_least; /* nothing more can go; else the runs were over first */
};

/* Returns the smallest that was found to fail. */
struct sim_options shrink(struct shrink *s);

/* The arguments of cleat-sim that make it again, into *out. */
void shrink_arguments(const struct sim_options *o, struct buf *out);
