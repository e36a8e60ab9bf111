/*
 * fake_fds: the file descriptors of a process in the fake world.
 *
 * Files, listeners and connections of one process share them, as they do in the real world: the
 * fake disk and the process's host on the fake wire are given the same struct.
 */
#pragma once

#include "base/assert.h"

#include <stdbool.h>

struct fake_fds {
    unsigned max;  /* open at once; 0: no limit */
    unsigned open; /* begins with what the process has open for other purposes */
};

static inline bool fake_fds_are_left(const struct fake_fds *f)
{
    return f->max == 0 || f->open < f->max;
}

/* False if there is none left. */
static inline bool fake_fds_take(struct fake_fds *f)
{
    if (!fake_fds_are_left(f))
        return false;
    f->open++;
    return true;
}

static inline void fake_fds_give_back(struct fake_fds *f)
{
    assert(f->open > 0);

    f->open--;
}
