#include "watch/watch_int.h"

#include "base/assert.h"

/*
 * Catching up goes in rounds. In a round every stream with credit lets some of its parked watchers
 * join the group that stands at their next revision, or a new one; then every group has a turn:
 *
 *     too old          its members are parked, and will be told from there; but not those whom the
 *                      history floor lets read on (floor.c)
 *     behind the end   its members move over to the live group, one by one
 *     at a revision    whose changes are not all stored yet, since it is being settled: members
 *                      whom it concerns are held back until it is over; the others go on behind it
 *     meets another    with the same grace: the smaller one's members move over to the larger
 *     otherwise        one chunk of history: read, in slices; handed out; and to the next round
 *
 * A group far behind does not keep those waiting that are nearly there, and a stream with many
 * watchers and little credit does not let all of them loose for the few that can be served.
 */

/* --- groups that lag --- */

/* The first one, in order of revision, that stands at or behind this place. */
static struct watcher_group *watcher_group_from(struct watch *hub, struct watcher_group_key key)
{
    return watcher_group_of(treap_from(&watcher_group_order, hub->lagging, &key));
}

/* One that stands there with the same grace, and is not `c`. Those whose grace differs do not
 * become one: some of them may have to end where the others read on. */
static struct watcher_group *watcher_group_at(struct watch *hub, int64_t next, uint32_t grace,
                                              const struct watcher_group *c)
{
    struct watcher_group *other = watcher_group_from(hub, (struct watcher_group_key){.next = next});

    while (other && other->key.next == next && (other == c || other->grace != grace))
        other = watcher_group_from(hub, (struct watcher_group_key){next, other->key.serial + 1});
    return other && other->key.next == next ? other : NULL;
}

static struct watcher_group *twin_of(struct watcher_group *c)
{
    return watcher_group_at(c->hub, c->key.next, c->grace, c);
}

void walk_add_group(struct watcher_group *c)
{
    treap_insert(&watcher_group_order, &c->hub->lagging, &c->by_next);
    list_push_back(&c->hub->next_round, &c->round);
}

static void remove_group(struct watcher_group *c)
{
    treap_remove(&watcher_group_order, &c->hub->lagging, &c->by_next);
    list_remove(&c->round);
}

static void drop_group(struct watcher_group *c)
{
    remove_group(c);
    watcher_group_free(c);
}

/* --- the walk under way --- */

static bool is_walking(const struct watch *hub)
{
    return chunk_is_under_way(&hub->walk.chunk);
}

static void begin(struct watcher_group *c)
{
    struct watch *hub = c->hub;

    remove_group(c); /* so that nobody joins it: he would miss what the chunk has already read */
    chunk_begin(&hub->walk.chunk, hub, c);
    hub->walk.at = (struct revision){.main = c->key.next};
    hub->walk.revision = 0;
    hub->walk.changes = 0;
    hub->walk.end = 0;
    hub->walk.delivered = 0;
}

static void stop(struct watch *hub, int64_t next)
{
    struct watcher_group *c = hub->walk.chunk.group;

    assert(next >= c->key.next);
    chunk_end(&hub->walk.chunk);
    c->key.next = next;
    if (c->count == 0)
        watcher_group_free(c);
    else
        walk_add_group(c);
}

void walk_restart(struct watch *hub)
{
    if (is_walking(hub) && hub->walk.end == 0)
        stop(hub, hub->walk.chunk.group->key.next);
}

void walk_restart_below(struct watch *hub, int64_t revision)
{
    const struct watcher_group *c = hub->walk.chunk.group;

    if (c && c->key.next < revision && !floor_allows(hub, c->grace, c->key.next))
        walk_restart(hub);
}

/* Where a chunk ends that would go on with this revision; 0 if it may go on. */
static int64_t end_before(struct walk *walk, int64_t revision)
{
    struct watch *hub = walk->chunk.hub;

    if (walk->revision == 0 || walk->revision == revision)
        return 0;
    struct watcher_group *met =
        watcher_group_from(hub, (struct watcher_group_key){.next = walk->revision + 1});
    if (met && met->key.next <= revision)
        return met->key.next; /* from there on they read together, and not each for itself */
    return walk->chunk.full || walk->changes >= WATCH_CHUNK_CHANGES_MAX ? revision : 0;
}

static bool visit(void *context, const struct mvcc_change *change)
{
    struct walk *walk = context;
    int64_t revision = change->at.main;

    walk->end = end_before(walk, revision);
    if (walk->end != 0)
        return false;
    walk->warmth = chunk_warmth(&walk->chunk, change);
    if (walk->warmth != MVCC_WARM)
        return false;
    if (!chunk_take(&walk->chunk, change, walk->steps)) {
        chunk_cut(&walk->chunk, revision);
        walk->end = revision;
        return false;
    }
    walk->revision = revision;
    walk->changes++;
    return true;
}

static bool visit_ahead(void *context, const struct mvcc_change *change)
{
    struct walk *walk = context;

    bool more = chunk_look_ahead(&walk->chunk, change, &walk->ahead);
    spend(walk->steps, walk->chunk.matched.len / sizeof(struct interest *));
    return more;
}

/* The walk waits for a value before a change. What is left of the slice goes into finding the next
 * ones, so that a worker reads many of them in one go, and not each for itself. */
static void look_ahead(struct walk *walk)
{
    struct revision at = walk->at;

    walk->ahead = (struct mvcc_ahead){0};
    if (walk->warmth == MVCC_WANTED_NOW)
        (void)mvcc_history_some(walk->chunk.hub->mvcc, &at, walk->steps, visit_ahead, walk);
    *walk->steps = 0;
}

static void read_some(struct watch *hub, unsigned *steps)
{
    struct walk *walk = &hub->walk;

    walk->steps = steps;
    walk->warmth = MVCC_WARM;
    bool all = mvcc_history_some(hub->mvcc, &walk->at, steps, visit, walk);
    if (walk->warmth != MVCC_WARM)
        look_ahead(walk);
    walk->steps = NULL;
    if (all && walk->end == 0)
        walk->end = mvcc_history_end(hub->mvcc, walk->at.main) + 1;
    spend(steps, 1);
}

static void hand_out_some(struct watch *hub, unsigned *steps)
{
    struct walk *walk = &hub->walk;

    while (*steps > 0 && walk->delivered < walk->chunk.gather_count) {
        spend(steps, 1 + chunk_deliver(&walk->chunk, walk->delivered, walk->end - 1));
        walk->delivered++;
    }
    if (walk->delivered == walk->chunk.gather_count)
        stop(hub, walk->end);
}

/* --- turns --- */

/* One member moves, from the smaller of the two. What becomes of both has its turn now. */
static void merge_some(struct watcher_group *c, struct watcher_group *twin)
{
    struct watcher_group *from = c->count <= twin->count ? c : twin;
    struct watcher_group *to = from == c ? twin : c;

    if (from->count > 0)
        watcher_join(watcher_group_any(from), to);
    if (from->count > 0)
        return;
    list_remove(&to->round);
    list_push_front(&c->hub->round, &to->round);
    drop_group(from);
}

struct watcher_group *walk_group_to_join(struct watch *hub, int64_t next, uint32_t grace)
{
    if (next == hub->revision + 1)
        return hub->live;
    grace = grace_now(hub, grace);
    struct watcher_group *c = watcher_group_at(hub, next, grace, NULL);
    if (!c) {
        c = watcher_group_new(hub, next, grace);
        walk_add_group(c);
    }
    return c;
}

static bool unsettled_concerns(const struct watcher *w)
{
    const struct interest *i = w->interest;
    struct key_range range = {.from = interest_from(i), .one = i->kind == INTEREST_KEY};

    if (i->kind == INTEREST_RANGE)
        range.to = interest_to(i);
    return mvcc_unsettled_concerns(w->stream->hub->mvcc, &range);
}

/* To those held back, or past the revision that is being settled. */
static void part(struct watcher *w, int64_t revision)
{
    struct watch *hub = w->stream->hub;

    if (!unsettled_concerns(w)) {
        watcher_join(w, walk_group_to_join(hub, revision + 1, w->interest->group->grace));
        return;
    }
    if (!hub->held) {
        bool settled = mvcc_when_settled(hub->mvcc, &hub->waiter, revision);
        assert(!settled);
        hub->held = watcher_group_new(hub, revision, GRACE_PROMPT);
        floor_put(hub); /* it may have been cut just here */
    }
    watcher_join(w, hub->held);
}

static bool is_held_in_vain(const struct watch *hub)
{
    return hub->held && mvcc_is_settled(hub->mvcc, hub->held->key.next);
}

void walk_release(struct watch *hub)
{
    mvcc_stop_waiting(&hub->waiter);
    if (hub->held)
        walk_add_group(hub->held);
    hub->held = NULL;
}

static bool is_cut_off(const struct watch *hub, uint32_t grace, int64_t next)
{
    return next < mvcc_compact_revision(hub->mvcc) && !floor_allows(hub, grace, next);
}

/* Moves a member of the group to where it belongs now, and sees to it that the group ends with its
 * last one. False if it belongs where it is. */
static bool move_member(struct watcher_group *c)
{
    struct watch *hub = c->hub;
    int64_t next = c->key.next;

    if (c->count == 0) {
        drop_group(c);
    } else if (is_cut_off(hub, c->grace, next)) {
        watcher_park(watcher_group_any(c), next);
    } else if (next == hub->revision + 1) {
        watcher_join(watcher_group_any(c), hub->live);
    } else if (next > hub->revision) {
        watcher_await(watcher_group_any(c),
                      next); /* the store was replaced by one that lies behind */
    } else if (next == mvcc_unsettled_revision(hub->mvcc)) {
        part(watcher_group_any(c), next);
    } else {
        struct watcher_group *twin = twin_of(c);
        if (!twin)
            return false;
        merge_some(c, twin);
    }
    return true;
}

static void take_turn(struct watcher_group *c, unsigned *steps)
{
    spend(steps, 1);
    watcher_group_set_grace(c, grace_now(c->hub, c->grace));
    if (!move_member(c))
        begin(c);
}

/* --- those who wait --- */

static void tell_compacted(struct watcher *w)
{
    struct watch_stream *s = w->stream;
    struct watch_message m = {.watch_id = w->id, .canceled = true};

    m.compact_revision = mvcc_compact_revision(s->hub->mvcc);
    watcher_end(w);
    watch_stream_queue(s, &m, NULL);
}

static void unpark(struct watcher *w)
{
    struct watch *hub = w->stream->hub;

    if (is_cut_off(hub, w->grace, w->next)) {
        tell_compacted(w);
        return;
    }
    if (w->next > hub->revision) { /* the store was replaced by one that lies behind */
        watcher_await(w, w->next);
        return;
    }
    watcher_join(w, walk_group_to_join(hub, w->next, w->grace));
}

static void admit(struct watch_stream *s, unsigned *steps)
{
    int64_t wave = 1 + s->credit / WATCH_WAVE_BYTES;

    list_remove(&s->waking);
    while (wave-- > 0 && *steps > 0 && watch_stream_has_credit(s) && !list_empty(&s->parked)) {
        unpark(container_of(s->parked.next, struct watcher, link));
        spend(steps, 1);
    }
    watch_stream_settle(s); /* the rest in the next round */
}

static void wake_those_ahead(struct watch *hub, unsigned *steps)
{
    struct heap_node *first;

    while (*steps > 0 && (first = heap_first(&hub->ahead))) {
        struct watcher *w = container_of(first, struct watcher, ahead);
        if (w->next > hub->revision)
            return;
        if (w->next > hub->intact)
            watcher_join(w, walk_group_to_join(hub, w->next, GRACE_PROMPT)); /* it was live */
        else
            watcher_park(w, w->next);
        spend(steps, 1);
    }
}

static bool somebody_is_due(const struct watch *hub)
{
    const struct heap_node *first = heap_first(&hub->ahead);

    return first && container_of(first, struct watcher, ahead)->next <= hub->revision;
}

bool walk_is_idle(const struct watch *hub)
{
    return !is_walking(hub) && list_empty(&hub->round) && list_empty(&hub->next_round) &&
           list_empty(&hub->waking) && list_empty(&hub->admitting) && !somebody_is_due(hub) &&
           !is_held_in_vain(hub);
}

void walk_work(struct watch *hub, unsigned *steps)
{
    if (is_held_in_vain(hub))
        walk_release(hub);
    wake_those_ahead(hub, steps);
    while (*steps > 0 && !walk_is_idle(hub)) {
        /* What is under way comes first: there is one walk at a time, and its chunk takes memory.
         */
        if (is_walking(hub) && hub->walk.end == 0)
            read_some(hub, steps);
        else if (is_walking(hub))
            hand_out_some(hub, steps);
        else if (!list_empty(&hub->admitting))
            admit(container_of(hub->admitting.next, struct watch_stream, waking), steps);
        else if (!list_empty(&hub->round))
            take_turn(container_of(hub->round.next, struct watcher_group, round), steps);
        else {
            list_append_all(&hub->round, &hub->next_round);
            list_append_all(&hub->admitting, &hub->waking);
        }
    }
}
