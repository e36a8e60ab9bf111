/*
 * climate: what kind of world a seed makes.
 *
 * Which clients live in it and how hasty they are, how fast the member's machine is, how often it
 * fails, and with which flags it is started: all within what an operator may choose. Some flags are
 * of the whole run; those that a member must be able to bear another value of after a restart are
 * drawn anew at every start.
 */
#pragma once

#include "base/arena.h"
#include "base/rng.h"

enum { CLIMATE_FLAGS_MAX = 48 };

struct climate {
    /* the clients */
    unsigned writers, herders, groups, readers, lessees, watchers;
    unsigned pause_ms_max; /* between two calls: hasty, or so that leases have time to expire */
    bool has_herd;         /* of keys: many are written and deleted at once */

    /* the member's machine */
    uint64_t look_ns; /* how long a look at its clock takes, and so a turn */
    uint64_t segment_bytes;
    int64_t range_tombstone_keys_min; /* a few keys are many in this world */
    unsigned settle_steps;
    unsigned line_delay_turns_max; /* between the sockets' side and the rest */

    /* the flags that stay */
    uint64_t heartbeat_ms, election_ms, quota_bytes, notify_ms;
    bool pre_vote;

    unsigned install_turns; /* an image of its own state is installed once in so many; 0: never */
    unsigned crashes;
    bool torn_founding; /* the first of them come while the member is being founded */
};

void climate_draw(struct climate *c, struct rng *rng);

/* By itself, and with a chance of its own, so that the stories without it stay what they were. */
void climate_draw_installs(struct climate *c, struct rng *rng);

/* The flags of one start, in the arena. Returns how many. */
size_t climate_flags(const struct climate *c, struct rng *rng, struct arena *arena,
                     const char *out[static CLIMATE_FLAGS_MAX]);
