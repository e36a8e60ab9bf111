#include "watch/watch_int.h"

#include "base/assert.h"
#include "base/mem.h"

/*
 * A stretch of one revision's events, from a place on, as many bytes as were measured. It reads
 * history again when the bytes are wanted and sees the same changes, since those never change; what
 * can happen is that compaction has taken them away meanwhile, or the KeyValues before them.
 */
struct watch_long {
    struct watch *hub;
    struct interest *interest; /* a copy, detached */
    int64_t revision;
    int64_t compacted;  /* the compact revision when it was measured */
    struct revision at; /* to be looked at next */
    uint64_t bytes, given;

    size_t max; /* of the read under way */
    size_t start;
    struct buf *out;
};

struct watch_long *watch_long_new(struct watch *hub, const struct interest *i, int64_t revision,
                                  const struct stretch *stretch, int64_t compacted)
{
    struct watch_long *l = hub_alloc(hub, sizeof(*l));

    l->hub = hub;
    l->interest = interest_new(hub, i->kind, i->wants, interest_from(i), interest_to(i));
    l->revision = revision;
    l->compacted = compacted;
    l->at = (struct revision){revision, stretch->sub};
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
    interest_free(l->hub, l->interest);
    hub_free(l->hub, l, sizeof(*l));
}

uint64_t watch_long_bytes(const struct watch_long *l)
{
    return l->bytes;
}

/* Would reading on still give what was measured? */
static bool is_readable(const struct watch_long *l)
{
    int64_t compacted = mvcc_compact_revision(l->hub->mvcc);

    if (mvcc_revision(l->hub->mvcc) < l->revision)
        return false; /* another store, and one that lies behind */
    return compacted == l->compacted || compacted < l->revision;
}

static bool visit(void *context, const struct mvcc_change *change)
{
    struct watch_long *l = context;

    if (l->given == l->bytes)
        return false;
    assert(change->at.main == l->revision); /* or the measure was wrong */
    if (!wants_change(l->interest->wants, change->tombstone) ||
        !interest_covers(l->interest, change->key))
        return true;
    size_t prev_size = watch_event_prev_size(l->hub->mvcc, l->interest->wants, change);
    size_t size = watch_event_size(change, prev_size);
    size_t so_far = l->out->len - l->start;
    if (so_far > 0 && so_far + size > l->max)
        return false;
    watch_event_append(l->hub->mvcc, change, prev_size, l->out);
    l->given += size;
    assert(l->given <= l->bytes);
    return true;
}

enum err watch_long_read(struct watch_long *l, size_t max, struct buf *out, bool *done)
{
    *done = l->given == l->bytes;
    if (*done)
        return ERR_OK;
    if (!is_readable(l))
        return ERR_CANCELED;
    l->max = max;
    l->start = out->len;
    l->out = out;
    bool shown = mvcc_history_some(l->hub->mvcc, &l->at, MVCC_SLICE_STEPS, visit, l);
    l->out = NULL;
    *done = l->given == l->bytes;
    assert(*done || !shown);
    return ERR_OK;
}
