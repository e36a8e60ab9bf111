/*
 * story: some batches, a defragmentation in the midst of them, and what must be left if it is cut
 * short anywhere.
 */
#pragma once

#include "backend/backend_rig_test.h"

enum { STORY_BATCHES = 6 };

struct story {
    struct backend_rig s;
    struct model states[STORY_BATCHES + 1]; /* after each batch; 0 is empty */
    unsigned waited;                        /* for space, so many times, */
    void (*on_full)(struct story *t);       /* each of which is told here, if to anybody */
    unsigned reported;                      /* batches that were said to be durable */
    unsigned handed_over;                   /* and those that may be in the pages */
    struct backend_defrag defrag;
    bool defrag_done;
    enum err defrag_err;
};

/* Not yet opened. */
void story_init(struct story *t, enum backend_rig_kind kind);

/* Until its end or the failure of a commit. */
void story_tell(struct story *t);

/* Opens again and checks promise 1. Returns which batch was the last one found. */
unsigned story_check_prefix(struct story *t);
