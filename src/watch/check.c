#include "watch/watch_int.h"

#include "base/assert.h"

struct tally {
    size_t count, ahead, member, parked, ended, live, progress, early;
    size_t in_grace;            /* of those parked, and of groups */
    uint64_t events;            /* queued */
    const struct watcher *last; /* seen */
};

/* Whoever may read below the compact revision stands on the floor. */
static void check_grace(const struct watch *hub, uint32_t grace, int64_t next, struct tally *t)
{
    t->in_grace += grace_is_there(hub, grace);
    if (floor_allows(hub, grace, next) && next <= mvcc_compact_revision(hub->mvcc))
        assert(next >= hub->floor || next == hub->intact); /* where the floor stands behind it */
}

/* --- watchers and streams --- */

static void check_member(const struct watch *hub, const struct watcher *w, struct tally *t)
{
    const struct watcher_group *c = w->interest->group;

    assert(c);
    assert(w->next <= c->key.next);
    t->member++;
    if (c == hub->live) {
        t->live++;
        t->early += w->next > hub->revision;
    }
}

static void check_watcher(const struct watch_stream *s, const struct watcher *w, struct tally *t)
{
    assert(w->stream == s);
    assert((w->interest == NULL) == (w->place == WATCHER_ENDED));
    assert(w->grace == GRACE_NONE || w->place == WATCHER_PARKED);
    assert(w->grace != GRACE_PROMPT);
    t->count++;
    t->progress += w->progress;
    switch ((enum watcher_place)w->place) {
    case WATCHER_AHEAD:
        assert(heap_has(&w->ahead));
        assert(!w->interest->group);
        t->ahead++;
        break;
    case WATCHER_MEMBER:
        check_member(s->hub, w, t);
        break;
    case WATCHER_PARKED:
        assert(!w->interest->group);
        check_grace(s->hub, w->grace, w->next, t);
        t->parked++;
        break;
    case WATCHER_ENDED:
        t->ended++;
        break;
    case WATCHER_NOWHERE:
        unreachable();
    }
}

static void check_ids(const struct watch_stream *s, const struct treap_node *n, struct tally *t)
{
    if (!n)
        return;
    const struct watcher *w = container_of(n, struct watcher, by_id);
    check_ids(s, n->left, t);
    assert(!t->last || t->last->id < w->id);
    t->last = w;
    check_watcher(s, w, t);
    check_ids(s, n->right, t);
}

/* What is queued and what is under way is what the credit lacks. */
static void check_credit(const struct watch_stream *s, struct tally *all)
{
    uint64_t queued = 0, events = 0;

    LIST_FOREACH (link, &s->queue) {
        const struct watch_message *m = &container_of(link, struct message, link)->m;
        assert(m->stream == s);
        assert(m->bytes >= WATCH_MESSAGE_BYTES_MIN);
        assert(!m->events || !m->long_events);
        queued += m->bytes;
        events += m->event_count;
        assert((m->event_count > 0) == (m->events || m->long_events));
    }
    all->events += events;
    assert(list_empty(&s->queue) == list_empty(&s->ready));
    if (!s->closed)
        assert(s->credit + (int64_t)(queued + s->taken) == s->credit_full);
}

static void check_stream(const struct watch_stream *s, struct tally *all)
{
    const struct watch *hub = s->hub;
    struct tally t = {0};
    size_t parked = 0;

    check_ids(s, s->ids, &t);
    assert(t.count == s->count);
    assert(t.ahead == s->ahead_count);
    assert(t.ended == s->ended_count);
    assert(t.live == watch_stream_live_count(s));
    assert(t.progress == s->progress_count);
    if (t.early > 0)
        assert(s->early_revision == hub->revision + 1 && s->early_count == t.early);
    LIST_FOREACH (link, &s->parked) {
        const struct watcher *w = container_of(link, struct watcher, link);
        assert(w->place == WATCHER_PARKED && w->stream == s);
        parked++;
    }
    assert(t.parked == parked);
    check_credit(s, all);

    bool wakes = !s->closed && watch_stream_has_credit(s) && parked > 0;
    assert(wakes == !list_empty(&s->waking));
    bool has_clock = !s->closed && s->progress_count > 0;
    assert(has_clock == (heap_has(&s->due) || !list_empty(&s->ticking)));
    all->count += t.count;
    all->ended += t.ended;
    all->ahead += t.ahead;
    all->member += t.member;
    all->in_grace += t.in_grace;
}

/* --- groups --- */

static size_t check_group(const struct watch *hub, const struct watcher_group *c, struct tally *t)
{
    assert((c->grace == GRACE_PROMPT) == !list_empty(&c->prompt));
    check_grace(hub, c->grace, c->key.next, t);
    watcher_group_check(c);
    return c->count;
}

static size_t check_round(const struct watch *hub, const struct list *round, struct tally *t,
                          size_t *groups)
{
    size_t members = 0;

    LIST_FOREACH (link, round) {
        struct watcher_group *c = container_of(link, struct watcher_group, round);
        assert(c != hub->live);
        assert(treap_find(&watcher_group_order, hub->lagging, &c->key) == &c->by_next);
        members += check_group(hub, c, t);
        ++*groups;
    }
    return members;
}

static size_t count_nodes(const struct treap_node *n)
{
    return n ? 1 + count_nodes(n->left) + count_nodes(n->right) : 0;
}

static size_t check_groups(const struct watch *hub, struct tally *t)
{
    size_t groups = 0;
    size_t members = check_round(hub, &hub->round, t, &groups);

    members += check_round(hub, &hub->next_round, t, &groups);
    assert(groups == count_nodes(hub->lagging));
    assert(hub->live->key.next == hub->revision + 1);
    assert(hub->live->grace == GRACE_NONE);
    members += check_group(hub, hub->live, t);
    assert(hub->waiter.waits == (hub->held != NULL));
    if (hub->held) {
        assert(list_empty(&hub->held->round));
        assert(hub->held->grace == GRACE_PROMPT);
        members += check_group(hub, hub->held, t);
    }
    const struct watcher_group *walking = hub->walk.chunk.group;
    if (walking) {
        assert(walking != hub->live);
        assert(list_empty(&walking->round));
        members += check_group(hub, walking, t);
    }
    return members;
}

static void check_floor(const struct watch *hub, const struct tally *t)
{
    size_t holders = 0, longs = 0;

    LIST_FOREACH (link, &hub->graces) {
        const struct grace *g = container_of(link, struct grace, link);
        assert(g->holders + g->longs > 0 || g == hub->gathering);
        assert((g->holders == 0) == (g->lowest == INT64_MAX));
        assert((g->longs == 0) == (g->lowest_long == INT64_MAX));
        assert(!g->is_cut || !g->lags);
        holders += g->holders;
        longs += g->longs;
    }
    assert(holders == t->in_grace);
    assert(longs <= hub->longs);
    assert(hub->floor <= floor_needed(hub));
    assert(hub->floor > hub->intact);
}

static void check_gathers(const struct chunk *b)
{
    for (size_t n = 0; n < b->gather_count; n++) {
        const struct gather *g = &b->gathers[n];
        if (!g->interest)
            continue;
        assert(g->interest->group == b->group);
        assert(g->interest->gather == n + 1);
        assert(g->first >= b->group->key.next);
        assert(g->is_long || g->bytes <= WATCH_BATCH_BYTES);
        assert(g->is_long || g->picks.len == g->events * sizeof(uint32_t));
        assert(!g->is_long || g->revisions == 1);
    }
}

void watch_check(const struct watch *hub)
{
    struct tally all = {0};
    size_t streams = 0, long_key_bytes = 0;

    LIST_FOREACH (link, &hub->streams) {
        const struct watch_stream *s = container_of(link, struct watch_stream, link);
        assert(!s->closed);
        check_stream(s, &all);
        long_key_bytes += s->long_key_bytes;
        streams++;
    }
    LIST_FOREACH (link, &hub->closed) {
        const struct watch_stream *s = container_of(link, struct watch_stream, link);
        assert(s->closed);
        check_stream(s, &all);
        long_key_bytes += s->long_key_bytes;
    }
    assert(streams == hub->stream_count);
    assert(all.ahead == hub->ahead.count);
    assert(all.count == hub->watcher_count);
    assert(all.ended == hub->ended_count);
    assert(all.events == hub->events_queued);
    assert(long_key_bytes == hub->long_key_bytes);
    size_t members = check_groups(hub, &all);
    assert(all.member == members);
    check_floor(hub, &all);
    assert(!chunk_is_under_way(&hub->chunk));
    check_gathers(&hub->walk.chunk);
    heap_check(&hub->ahead);
    heap_check(&hub->due);
}
