/*
 * sim: a whole small world from one seed.
 *
 * One member, the real server, on a machine of fakes; clients of several kinds on another
 * (actor.h); a wire between them; and a fate that lets the machine lose power now and then, at a
 * write of its disks, be it the very first, or gives the member few file descriptors and clients
 * who take them (idle.h), or has it replace its state by an image of it, over and over. What kind
 * of world it is, and with which flags the member is started, is drawn, too (climate.h). Time is
 * virtual and everything runs in this thread, so a seed is a story that can be told again, step by
 * step, with the same trace hash at its end.
 *
 *     step   what is overdue, or the member's inbox, or the clients', or else time passes to the
 *            next thing that is due
 *
 * After every turn of the member all invariants of all rooms are checked (server_check); at the end
 * what everybody was told is held against the history (history.h).
 */
#pragma once

#include "base/buf.h"
#include "base/logger.h"

#include <stdint.h>

struct sim_options {
    uint64_t seed;
    unsigned writers;  /* 0: as the seed has it */
    unsigned watchers; /* 0: as the seed has it */
    unsigned calls; /* of all clients together, before the end; 0: 300; else nobody writes much */

    /* How often the machine fails: 0 to this many times, by the seed. UINT_MAX: never. */
    unsigned crashes_max;
    /* Instead: exactly once, at this call of the disks, boot included. */
    uint64_t crash_at_call;

    /* An image of the member's own state takes its place once in so many turns. 0: as the seed has
     * it. UINT_MAX: never. */
    unsigned install_turns;

    const struct logger *logger; /* of the member; NULL: none */
};

struct sim_result {
    bool ok;
    uint64_t hash;       /* of everything that happened */
    uint64_t disk_calls; /* in all */
    uint64_t steps, virtual_ms, calls;
    unsigned crashes;
    uint64_t installs;
    int64_t revision;
    char problem[512]; /* if it is not ok */
};

struct sim_result sim_run(const struct sim_options *options);
