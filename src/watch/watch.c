#include "watch/watch_int.h"

#include "base/assert.h"
#include "base/mem.h"

void *hub_alloc(struct watch *hub, size_t size)
{
    hub->bytes += size;
    return mem_alloc(size);
}

void hub_free(struct watch *hub, void *at, size_t size)
{
    assert(hub->bytes >= size);
    hub->bytes -= size;
    mem_free(at);
}

struct watch *watch_open(const struct watch_options *options)
{
    struct watch *hub = mem_new(struct watch);

    assert(options->mvcc);
    assert(options->fragment_bytes > RESPONSE_BYTES_MAX);
    hub->mvcc = options->mvcc;
    hub->revision = mvcc_revision(hub->mvcc);
    hub->fragment_bytes = options->fragment_bytes;
    hub->interval_ms = options->progress_interval_ms;
    if (hub->interval_ms == 0)
        hub->interval_ms = WATCH_PROGRESS_INTERVAL_MS;
    if (hub->interval_ms < WATCH_PROGRESS_MIN_MS)
        hub->interval_ms = WATCH_PROGRESS_MIN_MS;
    hub->seed = options->seed;
    rng_seed(&hub->rng, options->seed);
    list_init(&hub->round);
    list_init(&hub->next_round);
    list_init(&hub->waking);
    list_init(&hub->admitting);
    list_init(&hub->streams);
    list_init(&hub->closed);
    list_init(&hub->ready);
    list_init(&hub->ticking);
    heap_init(&hub->ahead, watcher_is_first);
    heap_init(&hub->due, watch_stream_is_first_due);
    floor_init(hub);
    hub->live = watcher_group_new(hub, hub->revision + 1, GRACE_NONE);
    hub->era = 1;
    return hub;
}

static void reap(struct watch *hub, unsigned *steps)
{
    while (*steps > 0 && !list_empty(&hub->closed))
        watch_stream_reap(container_of(hub->closed.next, struct watch_stream, link), steps);
}

void watch_close(struct watch *hub)
{
    if (!hub)
        return;
    assert(list_empty(&hub->streams));
    assert(hub->longs == 0);
    while (!list_empty(&hub->closed)) {
        unsigned steps = UINT32_MAX;
        reap(hub, &steps);
    }
    unsigned steps = UINT32_MAX;
    walk_restart(hub);
    walk_release(hub);
    walk_work(hub, &steps); /* only groups without members are left */
    assert(walk_is_idle(hub));
    floor_forget(hub);
    assert(list_empty(&hub->graces));
    chunk_free(&hub->chunk);
    chunk_free(&hub->walk.chunk);
    watcher_group_free(hub->live);
    heap_free(&hub->ahead);
    heap_free(&hub->due);
    mem_free(hub->lent_reason);
    assert(hub->bytes == 0);
    mem_free(hub);
}

void hub_live_falls_behind(struct watch *hub, uint32_t grace)
{
    if (hub->live->count == 0)
        return;
    watcher_group_set_grace(hub->live, grace);
    walk_add_group(hub->live);
    hub->live = watcher_group_new(hub, hub->revision + 1, GRACE_NONE);
    hub->era++;
}

/* The values before the other changes are read with the one that is not at hand. */
static void look_ahead(struct chunk *b, const struct mvcc_changes *changes, size_t from)
{
    struct mvcc_ahead ahead = {0};

    for (size_t n = from; n < changes->count && chunk_look_ahead(b, &changes->at[n], &ahead); n++)
        ;
}

/* False: a value before one of these changes is not at hand, and no live watcher has been sent
 * anything. A store may turn out to be cold at any of them. */
static bool show_to_live(struct watch *hub, const struct mvcc_changes *changes)
{
    struct chunk *b = &hub->chunk;
    unsigned steps = UINT32_MAX;
    size_t shown = 0;

    chunk_begin(b, hub, hub->live);
    for (; shown < changes->count && chunk_warmth(b, &changes->at[shown]) == MVCC_WARM; shown++) {
        bool taken = chunk_take(b, &changes->at[shown], &steps);
        assert(taken); /* there is nothing of an earlier revision to be sent first */
    }
    bool at_hand = shown == changes->count;
    if (!at_hand)
        look_ahead(b, changes, shown + 1);
    for (size_t n = 0; n < b->gather_count && at_hand; n++)
        chunk_deliver(b, n, changes->revision);
    chunk_end(b);
    return at_hand;
}

void watch_changed(struct watch *hub, const struct mvcc_changes *changes)
{
    if (changes->revision == 0)
        return;
    assert(changes->revision == hub->revision + 1);
    assert(changes->revision == mvcc_revision(hub->mvcc));

    hub->revision = changes->revision;
    bool is_shown = changes->at && (hub->live->count == 0 || show_to_live(hub, changes));
    /* Too many to be shown one by one, or not stored yet, or with values before them that have to
     * come from the disk. Everybody reads them from history, and none of them is touched for it. */
    if (!is_shown)
        hub_live_falls_behind(hub, GRACE_PROMPT);
    hub->live->key.next = changes->revision + 1;
}

void watch_compacted(struct watch *hub)
{
    floor_cut(hub);
    /* Whoever is too old is found out at his next turn. Just at the cut, too, what was read so far
     * has changed: there are no KeyValues before it any more. */
    walk_restart_below(hub, mvcc_compact_revision(hub->mvcc) + 1);
}

void watch_store_replaced(struct watch *hub, struct mvcc *mvcc)
{
    /* While the old store is still at hand: what waits there is taken off its lists, and the floor
     * taken back. */
    walk_restart(hub);
    walk_release(hub);
    hub_live_falls_behind(hub, GRACE_NONE);
    floor_forget(hub);
    hub->mvcc = mvcc;
    hub->revision = mvcc_revision(mvcc);
    hub->intact = mvcc_compact_revision(mvcc);
    hub->live->key.next = hub->revision + 1;
}

static bool is_idle(const struct watch *hub)
{
    return list_empty(&hub->closed) && list_empty(&hub->ticking) && walk_is_idle(hub);
}

bool watch_work(struct watch *hub, unsigned steps, uint64_t now_ms)
{
    assert(hub->revision == mvcc_revision(hub->mvcc));

    floor_clock(hub, now_ms);
    walk_restart_below(hub, mvcc_compact_revision(hub->mvcc)); /* its grace may be over */
    watch_progress_work(hub, &steps, now_ms);
    reap(hub, &steps);
    walk_work(hub, &steps);
    if (hub->floor != INT64_MAX)
        floor_put(hub); /* as far as they have come */
    return is_idle(hub);
}

uint64_t watch_next_ms(const struct watch *hub)
{
    const struct heap_node *first = heap_first(&hub->due);

    if (!is_idle(hub))
        return 0;
    uint64_t due_ms = first ? container_of(first, struct watch_stream, due)->due_ms : UINT64_MAX;
    uint64_t floor_ms = floor_next_ms(hub);
    return due_ms < floor_ms ? due_ms : floor_ms;
}

/* Who is not live, nor waits for his start, nor was ended, lags. */
struct watch_stats watch_stats(const struct watch *hub)
{
    size_t placed = hub->live->count + hub->ahead.count + hub->ended_count;

    assert(placed <= hub->watcher_count);
    return (struct watch_stats){.streams = hub->stream_count,
                                .watchers = hub->watcher_count - hub->ended_count,
                                .lagging = hub->watcher_count - placed,
                                .events = hub->events_taken,
                                .pending_events = hub->events_queued};
}

struct watch_status watch_status(const struct watch *hub)
{
    struct watch_status status = {.streams = hub->stream_count, .bytes = hub->bytes};

    LIST_FOREACH (link, &hub->streams) {
        const struct watch_stream *s = container_of(link, struct watch_stream, link);
        size_t live = watch_stream_live_count(s) + s->ahead_count;
        status.watchers += s->count;
        status.live += live;
        status.lagging += s->count - live - s->ended_count;
    }
    return status;
}
