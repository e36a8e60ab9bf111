#include "watch/watch_int.h"

#include "base/assert.h"

/*
 * Who may read below the compact revision, and for how long.
 *
 * A watcher that was up to date when history was cut is behind only because we have not handed out
 * what we have published, and must get it. There are three kinds of those:
 *
 *     ahead       its start has been published, and its turn to be woken has not come
 *     prompt      members of groups that left the live one as a whole, for a huge revision or a
 *                 large delete, and of the one that is held until the delete is settled
 *     in a grace  those who lost their place since their stream had no credit
 *
 * The first two wait for us alone, and however long that takes, history waits with them: to read a
 * huge revision, or to settle a delete, takes as long as it is large, and whatever limit we chose
 * there would be a delete that is larger. Those of the third kind may be clients that do not read,
 * who must not hold up compaction for ever. All who lose their place within a second share a grace:
 *
 *     counts as live --> lags          after a second at least, in which a client that reads gets
 *        |                             its credit back: below a later compaction they end
 *        +-- a compaction --> is cut   they may read below it, for a minute at least; then it ends,
 *                                      and they lag
 *
 * Whoever has one knows it by its number; a number that is not found is of one that has ended. So a
 * hundred thousand watchers lose theirs without being touched.
 *
 * A watcher keeps its grace when it is given some credit and loses it again: somebody who reads one
 * message in a minute would otherwise be prompt for ever. It leaves it only by becoming live, or by
 * being held for a delete, which is our fault again.
 *
 * Long messages on their way join the grace of the moment as well. They are with the client as far
 * as watchers are concerned, so they may be read for the whole minute, whenever history is cut.
 *
 * The floor is the lowest revision that any of them may need. It moves down only when a compaction
 * is applied, before anything is removed, or for a watcher that is held: nothing below has been
 * removed then, since the removal waits for the same delete to be settled.
 */
void floor_init(struct watch *hub)
{
    list_init(&hub->prompt_groups);
    list_init(&hub->graces);
    hub->grace_serial = GRACE_PROMPT;
    hub->floor = INT64_MAX;
    hub->intact = mvcc_compact_revision(hub->mvcc);
}

/* --- graces --- */

static struct grace *grace_of(struct list *link)
{
    return container_of(link, struct grace, link);
}

/* NULL: it is over, and all who had it lag; or it is none, or the prompt one. */
static struct grace *find(const struct watch *hub, uint32_t serial)
{
    struct list *link = hub->graces.prev; /* mostly it is the newest, and there are a few */

    if (serial <= GRACE_PROMPT)
        return NULL;
    while (link != &hub->graces && grace_of(link)->serial != serial)
        link = link->prev;
    return link != &hub->graces ? grace_of(link) : NULL;
}

static struct grace *gathering(struct watch *hub)
{
    if (hub->gathering)
        return hub->gathering;
    struct grace *g = hub_alloc(hub, sizeof(*g));
    *g = (struct grace){.serial = ++hub->grace_serial,
                        .opened_ms = hub->now_ms,
                        .last_ms = hub->now_ms,
                        .lowest = INT64_MAX,
                        .lowest_long = INT64_MAX};
    list_init(&g->link);
    list_push_back(&hub->graces, &g->link);
    hub->gathering = g;
    return g;
}

static void end_grace(struct watch *hub, struct grace *g)
{
    if (hub->gathering == g)
        hub->gathering = NULL;
    list_remove(&g->link);
    hub_free(hub, g, sizeof(*g));
}

static void end_if_unused(struct watch *hub, struct grace *g)
{
    if (g->holders == 0 && g->longs == 0 && g != hub->gathering)
        end_grace(hub, g);
}

uint32_t grace_hold(struct watch *hub, uint32_t serial)
{
    struct grace *g = find(hub, serial);

    if (g)
        g->holders++;
    return g || serial == GRACE_PROMPT ? serial : GRACE_NONE;
}

void grace_drop(struct watch *hub, uint32_t serial)
{
    struct grace *g = find(hub, serial);

    if (!g)
        return;
    assert(g->holders > 0);
    if (--g->holders > 0)
        return;
    g->lowest = INT64_MAX; /* nobody needs that any more, and it may be removed */
    g->is_cut = false;
    end_if_unused(hub, g);
}

uint32_t grace_of_fallen(struct watch *hub, int64_t next)
{
    struct grace *g = gathering(hub);

    if (next < g->lowest)
        g->lowest = next;
    if (next <= mvcc_compact_revision(hub->mvcc))
        g->is_cut = true; /* it has been reading there already */
    g->holders++;
    g->joined = true;
    return g->serial;
}

uint32_t grace_of_long(struct watch *hub, int64_t revision)
{
    struct grace *g = gathering(hub);

    if (revision < g->lowest_long)
        g->lowest_long = revision;
    g->longs++;
    g->joined = true;
    return g->serial;
}

void grace_drop_long(struct watch *hub, uint32_t serial)
{
    struct grace *g = find(hub, serial);

    if (!g)
        return;
    assert(g->longs > 0);
    if (--g->longs > 0)
        return;
    g->lowest_long = INT64_MAX;
    end_if_unused(hub, g);
}

void watcher_group_set_grace(struct watcher_group *c, uint32_t serial)
{
    struct watch *hub = c->hub;

    if (c->grace == serial)
        return;
    list_remove(&c->prompt);
    if (serial == GRACE_PROMPT)
        list_push_back(&hub->prompt_groups, &c->prompt);
    serial = grace_hold(hub, serial);
    grace_drop(hub, c->grace);
    c->grace = serial;
}

uint32_t grace_now(const struct watch *hub, uint32_t serial)
{
    const struct grace *g = find(hub, serial);

    return serial == GRACE_PROMPT || (g && !g->lags) ? serial : GRACE_NONE;
}

bool grace_is_there(const struct watch *hub, uint32_t serial)
{
    return find(hub, serial) != NULL;
}

bool floor_allows(const struct watch *hub, uint32_t serial, int64_t next)
{
    const struct grace *g = find(hub, serial);

    return (serial == GRACE_PROMPT || (g && g->is_cut)) && next >= hub->intact;
}

/* --- the floor --- */

/*
 * Where history was cut: nobody needs the floor above that. At `intact` itself, whose compaction we
 * came after, one may read what that has left of it, and goes on doing so below a later one; the
 * floor then stands behind it.
 */
static void lower_to(const struct watch *hub, int64_t next, int64_t *floor)
{
    int64_t compacted = mvcc_compact_revision(hub->mvcc);
    int64_t needed = next > hub->intact ? next : hub->intact + 1;

    if (next >= hub->intact && needed <= compacted && needed < *floor)
        *floor = needed;
}

int64_t floor_needed(const struct watch *hub)
{
    const struct heap_node *first = heap_first(&hub->ahead);
    int64_t floor = INT64_MAX;

    if (first)
        lower_to(hub, container_of(first, struct watcher, ahead)->next, &floor);
    LIST_FOREACH (link, &hub->prompt_groups)
        lower_to(hub, container_of(link, struct watcher_group, prompt)->key.next, &floor);
    LIST_FOREACH (link, &hub->graces) {
        const struct grace *g = grace_of(link);
        if (g->is_cut)
            lower_to(hub, g->lowest, &floor);
        lower_to(hub, g->lowest_long, &floor);
    }
    return floor;
}

void floor_put(struct watch *hub)
{
    int64_t floor = floor_needed(hub);

    if (floor == hub->floor)
        return;
    hub->floor = floor;
    mvcc_keep_history(hub->mvcc, floor);
}

void floor_cut(struct watch *hub)
{
    int64_t compacted = mvcc_compact_revision(hub->mvcc);

    LIST_FOREACH (link, &hub->graces) {
        struct grace *g = grace_of(link);
        if (!g->lags && g->lowest <= compacted)
            g->is_cut = true;
    }
    floor_put(hub);
}

static uint64_t ends_ms(const struct grace *g)
{
    return g->last_ms + WATCH_FLOOR_MS;
}

static void grow_older(struct watch *hub, struct grace *g)
{
    if (!g->is_cut && hub->now_ms >= g->last_ms + WATCH_PROMPT_MS)
        g->lags = true;
    if (hub->now_ms >= ends_ms(g))
        end_grace(hub, g);
}

void floor_clock(struct watch *hub, uint64_t now_ms)
{
    struct grace *last = hub->gathering;

    if (now_ms == hub->now_ms)
        return;
    hub->now_ms = now_ms;
    if (last && last->joined) {
        last->last_ms = now_ms; /* since the time that we knew then may have been an old one */
        last->joined = false;
    }
    if (last && now_ms >= last->opened_ms + WATCH_GATHER_MS) {
        hub->gathering = NULL;
        end_if_unused(hub, last);
    }
    LIST_FOREACH (link, &hub->graces)
        grow_older(hub, grace_of(link));
}

uint64_t floor_next_ms(const struct watch *hub)
{
    if (hub->floor == INT64_MAX || list_empty(&hub->graces))
        return UINT64_MAX;
    return ends_ms(grace_of(hub->graces.next));
}

void floor_forget(struct watch *hub)
{
    while (!list_empty(&hub->graces))
        end_grace(hub, grace_of(hub->graces.next));
    while (!list_empty(&hub->prompt_groups))
        watcher_group_set_grace(container_of(hub->prompt_groups.next, struct watcher_group, prompt),
                                GRACE_NONE);
    if (hub->floor != INT64_MAX)
        mvcc_keep_history(hub->mvcc, INT64_MAX);
    hub->floor = INT64_MAX;
}
