/*
 * stages: when what is in the log got how far, so that a slow request can be told why.
 *
 * A request waits to be given to raft, for the log to be written, for the other members to have it,
 * and to be applied. None of that is noted for each: the turn says how far each stage has come,
 * whenever it has, and whoever turns out to have been slow is looked up among the marks.
 *
 *     PROPOSED  | up to this request's id, then |        ids are given out in order
 *     LOGGED    | up to this index, then | ...           durable here
 *     COMMITTED | up to this index, then | ...
 *
 * Marks that come within STAGE_MARK_NS of one another are one, so a moment is known to that
 * precision; of each stage the last STAGE_MARKS are kept, which is longer than most requests
 * may take.
 */
#pragma once

#include "base/limits.h"

#include <stddef.h>
#include <stdint.h>

enum stage_kind { STAGE_PROPOSED, STAGE_LOGGED, STAGE_COMMITTED, STAGE_COUNT };

/* All zeroes before. */
struct stages {
    struct stage_marks {
        struct stage_mark {
            uint64_t up_to, at_ns;
        } marks[STAGE_MARKS]; /* a ring */
        uint64_t count;       /* ever made; the last is at count - 1 */
    } of[STAGE_COUNT];
};

/* Everything up to there has passed this stage by now. */
void stages_reached(struct stages *s, enum stage_kind stage, uint64_t up_to, uint64_t now_ns);

/* When this one did; 0: it has not, or that is forgotten. */
uint64_t stages_when_ns(const struct stages *s, enum stage_kind stage, uint64_t which);
