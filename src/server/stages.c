#include "server/stages.h"

static const struct stage_mark *mark_at(const struct stage_marks *m, uint64_t i)
{
    return &m->marks[i % STAGE_MARKS];
}

void stages_reached(struct stages *s, enum stage_kind stage, uint64_t up_to, uint64_t now_ns)
{
    struct stage_marks *m = &s->of[stage];
    struct stage_mark *last = m->count > 0 ? &m->marks[(m->count - 1) % STAGE_MARKS] : NULL;

    if (last && up_to <= last->up_to)
        return;
    if (last && now_ns - last->at_ns < STAGE_MARK_NS)
        last->up_to = up_to;
    else
        m->marks[m->count++ % STAGE_MARKS] = (struct stage_mark){up_to, now_ns};
}

/* The first mark that has it. If that is the oldest one kept, an older one may have had it. */
uint64_t stages_when_ns(const struct stages *s, enum stage_kind stage, uint64_t which)
{
    const struct stage_marks *m = &s->of[stage];
    uint64_t oldest = m->count > STAGE_MARKS ? m->count - STAGE_MARKS : 0;
    uint64_t from = oldest, to = m->count;

    while (from < to) {
        uint64_t middle = from + (to - from) / 2;
        if (mark_at(m, middle)->up_to >= which)
            to = middle;
        else
            from = middle + 1;
    }
    return from == m->count || (from == oldest && oldest > 0) ? 0 : mark_at(m, from)->at_ns;
}
