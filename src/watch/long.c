#include "watch/watch_int.h"

#include "base/assert.h"
#include "base/mem.h"

/*
 * A stretch of one revision's events, from a place on, as many bytes as were measured. It reads
 * history again when the bytes are wanted and sees the same changes, since those never change; what
 * can happen is that compaction takes them away meanwhile, or the KeyValues before them. So it has
 * a grace, as watchers have: the history floor keeps what it needs, for a minute at least.
 *
 * Only of what lay at the compact revision already when it was measured, and nobody kept, there is
 * no floor to be had. It is read as far as it is there.
 */
struct watch_long {
    struct watch *hub;
    struct interest *interest; /* a copy, detached */
    int64_t revision;
    uint32_t grace;     /* GRACE_NONE: there is no floor for it */
    int64_t compacted;  /* the compact revision when it was measured */
    struct revision at; /* to be looked at next */
    uint64_t bytes, given;
    size_t skip; /* of the event there, that were given already */

    size_t max; /* of the read under way */
    size_t start;
    struct buf *out;
    enum mvcc_warmth warmth; /* of the value before the change that was looked at last */
    struct mvcc_ahead ahead; /* those that come next */
    bool passed;             /* its revision, and the bytes were not all there */
};

/* Measured by the chunk a moment ago; its group may have been cut off since. */
static uint32_t grace_for(const struct chunk *b, int64_t revision)
{
    bool compacted = revision <= mvcc_compact_revision(b->hub->mvcc);

    if (compacted && !floor_allows(b->hub, b->group->grace, revision))
        return GRACE_NONE;
    return grace_of_long(b->hub, revision);
}

struct watch_long *watch_long_new(const struct chunk *b, const struct gather *g,
                                  const struct stretch *stretch)
{
    struct watch *hub = b->hub;
    const struct interest *i = g->interest;
    struct watch_long *l = hub_alloc(hub, sizeof(*l));

    l->hub = hub;
    l->interest = interest_new(hub, i->kind, i->wants, interest_from(i), interest_to(i));
    l->revision = g->first;
    l->grace = grace_for(b, g->first);
    l->compacted = b->compacted;
    l->at = (struct revision){g->first, stretch->sub};
    l->bytes = stretch->bytes;
    hub->longs++;
    return l;
}

void watch_long_end(struct watch_long *l)
{
    if (!l)
        return;
    assert(l->hub->longs > 0);
    l->hub->longs--;
    grace_drop_long(l->hub, l->grace);
    interest_free(l->hub, l->interest);
    hub_free(l->hub, l, sizeof(*l));
}

uint64_t watch_long_bytes(const struct watch_long *l)
{
    return l->bytes;
}

static bool is_kept(const struct watch_long *l)
{
    return grace_is_there(l->hub, l->grace);
}

/* Would reading on still give what was measured? */
static bool is_readable(const struct watch_long *l)
{
    int64_t compacted = mvcc_compact_revision(l->hub->mvcc);

    if (mvcc_revision(l->hub->mvcc) < l->revision)
        return false; /* another store, and one that lies behind */
    if (compacted < l->revision || is_kept(l))
        return true;
    return l->grace == GRACE_NONE && compacted == l->compacted && compacted == l->revision;
}

static bool shows(const struct watch_long *l, const struct mvcc_change *change)
{
    return wants_change(l->interest->wants, change->tombstone) &&
           interest_covers(l->interest, change->key);
}

static size_t prev_size(const struct watch_long *l, const struct mvcc_change *change)
{
    return watch_event_prev_size(l->hub->mvcc, l->interest->wants, change, is_kept(l));
}

static bool visit(void *context, const struct mvcc_change *change)
{
    struct watch_long *l = context;

    if (l->given == l->bytes)
        return false;
    if (change->at.main != l->revision) {
        l->passed = true;
        return false;
    }
    if (!shows(l, change))
        return true;
    size_t prev = prev_size(l, change);
    size_t size = watch_event_size(change, prev);
    size_t so_far = l->out->len - l->start;
    if (so_far > 0 && so_far + size > l->max)
        return false; /* what is given in parts is so from the beginning of a read on */
    if (prev > 0)
        l->warmth = mvcc_before_warmth(l->hub->mvcc, change->key, change->at.main);
    if (l->warmth != MVCC_WARM)
        return false;
    size_t most = l->max > WATCH_PART_BYTES ? l->max : WATCH_PART_BYTES;
    size_t left = size - l->skip, now = left < most ? left : most;
    assert(l->skip < size);
    if (now == size)
        watch_event_append(l->hub->mvcc, change, prev, l->out);
    else
        watch_event_append_part(l->hub->mvcc, change, prev, l->skip, now, l->out);
    l->given += now;
    l->skip = now < left ? l->skip + now : 0;
    assert(l->given <= l->bytes);
    return l->skip == 0;
}

static bool visit_ahead(void *context, const struct mvcc_change *change)
{
    struct watch_long *l = context;

    if (change->at.main != l->revision)
        return false;
    return !shows(l, change) || prev_size(l, change) == 0 ||
           mvcc_want_before_ahead(l->hub->mvcc, change, &l->ahead);
}

/* With the value that the read waits for, a worker reads those that it will need next. */
static void look_ahead(struct watch_long *l, unsigned steps)
{
    struct revision at = l->at;

    l->ahead = (struct mvcc_ahead){0};
    (void)mvcc_history_some(l->hub->mvcc, &at, &steps, visit_ahead, l);
}

enum err watch_long_read(struct watch_long *l, size_t max, struct buf *out, bool *done)
{
    *done = l->given == l->bytes;
    if (*done)
        return ERR_OK;
    if (!is_readable(l))
        return ERR_CANCELED;
    unsigned steps = MVCC_SLICE_STEPS;
    l->max = max;
    l->start = out->len;
    l->out = out;
    l->warmth = MVCC_WARM;
    bool shown = mvcc_history_some(l->hub->mvcc, &l->at, &steps, visit, l);
    l->out = NULL;
    if (l->warmth == MVCC_WANTED_NOW)
        look_ahead(l, steps);
    *done = l->given == l->bytes;
    if (*done || (!shown && !l->passed))
        return ERR_OK;
    /* Compaction at just this revision takes away what was overwritten inside it. */
    assert(l->grace == GRACE_NONE);
    assert(l->revision == l->compacted);
    return ERR_CANCELED;
}
