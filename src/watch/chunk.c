#include "watch/watch_int.h"

#include "base/assert.h"
#include "base/mem.h"

/*
 * Each change is encoded at most twice, without and with the KeyValue before it, and only if
 * somebody sees it. A gather notes which of the encoded events are for its interest; what it
 * finally sends is a blob of them, and if it has all of a flavour, which is always so when a
 * revision has a single change, it shares that blob with everybody else who has.
 *
 * Three things can become too much, and all of them only within one revision, since between two of
 * them a chunk can simply end: one interest's events (they are then only measured, and read when
 * they are sent: a long message), the events of all interests together, and the notes. For the
 * latter two some watchers are left behind at this revision, in a group of their own or parked like
 * those without credit, and their turn comes soon.
 */
static struct chunk_event *event_at(const struct chunk *b, size_t n)
{
    return (struct chunk_event *)(void *)b->events.at + n;
}

static size_t event_count(const struct chunk *b)
{
    return b->events.len / sizeof(struct chunk_event);
}

static size_t flavour_of(const struct interest *i)
{
    return i->wants & WANTS_PREV ? 1 : 0;
}

void chunk_begin(struct chunk *b, struct watch *hub, struct watcher_group *group)
{
    assert(!chunk_is_under_way(b));
    assert(b->gather_count == 0);

    b->hub = hub;
    b->group = group;
    b->compacted = mvcc_compact_revision(hub->mvcc);
    b->first = 0;
    b->full = false;
    b->note_bytes = 0;
    b->flavour_events[0] = 0;
    b->flavour_events[1] = 0;
}

static void reuse(struct buf *b)
{
    if (b->cap > WATCH_SPARE_BYTES_MAX)
        buf_free(b);
    buf_clear(b);
}

void chunk_end(struct chunk *b)
{
    for (size_t n = 0; n < b->gather_count; n++) {
        struct gather *g = &b->gathers[n];
        if (g->interest)
            g->interest->gather = 0;
        reuse(&g->picks);
        reuse(&g->stretches);
    }
    if (b->gather_cap * sizeof(*b->gathers) > WATCH_SPARE_BYTES_MAX) {
        for (size_t n = 0; n < b->gather_cap; n++) {
            buf_free(&b->gathers[n].picks);
            buf_free(&b->gathers[n].stretches);
        }
        mem_free(b->gathers);
        b->gathers = NULL;
        b->gather_cap = 0;
    }
    b->gather_count = 0;
    reuse(&b->bytes);
    reuse(&b->events);
    reuse(&b->matched);
    for (size_t flavour = 0; flavour < 2; flavour++) {
        blob_unref(b->whole[flavour]);
        b->whole[flavour] = NULL;
    }
    b->group = NULL;
}

void chunk_free(struct chunk *b)
{
    chunk_end(b);
    for (size_t n = 0; n < b->gather_cap; n++) {
        buf_free(&b->gathers[n].picks);
        buf_free(&b->gathers[n].stretches);
    }
    mem_free(b->gathers);
    buf_free(&b->bytes);
    buf_free(&b->events);
    buf_free(&b->matched);
    *b = (struct chunk){0};
}

void chunk_forget(struct chunk *b, struct interest *i)
{
    assert(i->gather <= b->gather_count);
    assert(b->gathers[i->gather - 1].interest == i);

    b->gathers[i->gather - 1].interest = NULL;
    i->gather = 0;
}

/* --- taking in --- */

/* Those who could not be sent anything now see no more of this chunk. True if somebody is left. */
static bool park_without_credit(struct interest *i, int64_t revision)
{
    size_t left = 0;

    LIST_FOREACH (link, &i->watchers) {
        struct watcher *w = container_of(link, struct watcher, link);
        if (watch_stream_has_credit(w->stream)) {
            left++;
            continue;
        }
        bool last = i->watchers.next == i->watchers.prev;
        watcher_park(w, revision);
        if (last)
            break; /* the interest has gone with it */
    }
    return left > 0;
}

/* For want of memory and not of credit: whoever waits for us alone goes on doing so. */
static void leave_behind(struct interest *i, int64_t revision)
{
    struct watch *hub = i->group->hub;
    bool is_prompt = i->group == hub->live || i->group->grace == GRACE_PROMPT;
    bool last = false;

    while (!last) {
        struct watcher *w = container_of(i->watchers.next, struct watcher, link);
        last = i->watchers.next == i->watchers.prev;
        if (is_prompt)
            watcher_join(w, walk_group_to_join(hub, revision, GRACE_PROMPT));
        else
            watcher_park(w, revision);
    }
}

static struct gather *new_gather(struct chunk *b, struct interest *i, int64_t revision)
{
    if (b->gather_count == b->gather_cap) {
        size_t cap = b->gather_cap ? 2 * b->gather_cap : 4;
        b->gathers = mem_resize(b->gathers, cap, sizeof(*b->gathers));
        memset(b->gathers + b->gather_cap, 0, (cap - b->gather_cap) * sizeof(*b->gathers));
        b->gather_cap = cap;
    }
    struct gather *g = &b->gathers[b->gather_count++];
    *g = (struct gather){
        .interest = i, .picks = g->picks, .stretches = g->stretches, .first = revision};
    i->gather = (uint32_t)b->gather_count;
    b->note_bytes += sizeof(*g);
    return g;
}

static bool is_too_much(const struct chunk *b, size_t more)
{
    return b->bytes.len + b->note_bytes + more > WATCH_CHUNK_BYTES_MAX;
}

/* Does the chunk hold something of a revision before this one? Then it can be sent first. */
static bool can_cut(const struct chunk *b, int64_t revision)
{
    return b->first != 0 && b->first < revision;
}

static void stretch_add(struct chunk *b, struct gather *g, int64_t sub, size_t size)
{
    struct stretch *last = NULL;

    if (g->stretches.len > 0)
        last = (struct stretch *)(void *)(g->stretches.at + g->stretches.len) - 1;
    if (!last || last->bytes + size + RESPONSE_BYTES_MAX >= b->hub->fragment_bytes) {
        struct stretch new = {.sub = sub};
        buf_append(&g->stretches, bytes_of(&new, sizeof(new)));
        last = (struct stretch *)(void *)(g->stretches.at + g->stretches.len) - 1;
    }
    last->bytes += size;
    last->events++;
}

/* From now on its events are only measured. */
static void become_long(struct chunk *b, struct gather *g)
{
    const uint32_t *picks = (const uint32_t *)(const void *)g->picks.at;

    for (size_t n = 0; n < g->events; n++) {
        const struct chunk_event *e = event_at(b, picks[n]);
        stretch_add(b, g, e->sub, e->size);
    }
    buf_clear(&g->picks);
    g->is_long = true;
    b->full = true;
}

/* The change's place among the events, in the flavour that this interest sees. */
struct encoding {
    const struct mvcc_change *change;
    size_t prev_size;
    size_t size;    /* 0: not measured yet */
    uint32_t place; /* 1 + place; 0: not encoded yet */
};

static void measure(struct chunk *b, const struct interest *i, struct encoding *e)
{
    if (e->size > 0)
        return;
    bool kept = floor_allows(b->hub, b->group->grace, e->change->at.main);
    e->prev_size = watch_event_prev_size(b->hub->mvcc, i->wants, e->change, kept);
    e->size = watch_event_size(e->change, e->prev_size);
}

static void encode(struct chunk *b, size_t flavour, struct encoding *e)
{
    if (e->place != 0)
        return;
    struct chunk_event event = {.at = b->bytes.len, .size = e->size, .sub = e->change->at.sub};
    watch_event_append(b->hub->mvcc, e->change, e->prev_size, &b->bytes);
    buf_append(&b->events, bytes_of(&event, sizeof(event)));
    b->note_bytes += sizeof(event);
    e->place = (uint32_t)event_count(b);
    b->flavour_events[flavour]++;
    if (b->first == 0)
        b->first = e->change->at.main;
}

static void gather_turns_to(struct chunk *b, struct gather *g, int64_t revision)
{
    if (g->last == revision)
        return;
    g->before.last = g->last;
    g->last = revision;
    g->before.bytes = g->bytes;
    g->before.events = g->events;
    g->revisions++;
    if (g->revisions == WATCH_CATCH_UP_REVISIONS)
        b->full = true;
}

static void gather_count(struct gather *g, size_t size)
{
    g->bytes += size;
    g->events++;
}

/* Who lags may well be one that does not read, and what lies before him is not shared by many. */
static size_t message_bytes(const struct chunk *b)
{
    return b == &b->hub->chunk ? WATCH_BATCH_BYTES : WATCH_CATCH_UP_BYTES;
}

/* False: the chunk has to be cut before this revision. */
static bool gather_take(struct chunk *b, struct gather *g, struct encoding *e)
{
    int64_t revision = e->change->at.main;
    size_t flavour = flavour_of(g->interest);

    gather_turns_to(b, g, revision);
    if (g->first < revision && g->bytes + e->size > message_bytes(b))
        return false;
    if (!g->is_long && g->bytes + e->size > WATCH_BATCH_BYTES)
        become_long(b, g);
    if (g->is_long) {
        stretch_add(b, g, e->change->at.sub, e->size);
        gather_count(g, e->size);
        return true;
    }
    if (is_too_much(b, e->place == 0 ? e->size : 0)) {
        if (can_cut(b, revision))
            return false;
        leave_behind(g->interest, revision);
        b->full = true;
        return true;
    }
    encode(b, flavour, e);
    uint32_t pick = e->place - 1;
    buf_append(&g->picks, bytes_of(&pick, sizeof(pick)));
    b->note_bytes += sizeof(pick);
    gather_count(g, e->size);
    return true;
}

static bool interest_take(struct chunk *b, struct interest *i, struct encoding *e)
{
    int64_t revision = e->change->at.main;

    measure(b, i, e);
    if (i->gather != 0)
        return gather_take(b, &b->gathers[i->gather - 1], e);
    if (!park_without_credit(i, revision))
        return true;
    if (is_too_much(b, sizeof(struct gather))) {
        if (can_cut(b, revision))
            return false;
        leave_behind(i, revision);
        b->full = true;
        return true;
    }
    return gather_take(b, new_gather(b, i, revision), e);
}

/* Is somebody of the group to see the KeyValue before this change? */
static bool shows_before(struct chunk *b, const struct mvcc_change *change)
{
    buf_clear(&b->matched);
    if (change->creates && !change->tombstone)
        return false;
    watcher_group_match(b->group, change->key, &b->matched);
    struct interest **matched = (struct interest **)(void *)b->matched.at;
    for (size_t n = 0; n < b->matched.len / sizeof(struct interest *); n++)
        if ((matched[n]->wants & WANTS_PREV) && wants_change(matched[n]->wants, change->tombstone))
            return true;
    return false;
}

enum mvcc_warmth chunk_warmth(struct chunk *b, const struct mvcc_change *change)
{
    struct mvcc *m = b->hub->mvcc;

    if (!mvcc_is_cold(m) || !shows_before(b, change))
        return MVCC_WARM;
    return mvcc_before_warmth(m, change->key, change->at.main);
}

bool chunk_look_ahead(struct chunk *b, const struct mvcc_change *change, struct mvcc_ahead *a)
{
    return !shows_before(b, change) || mvcc_want_before_ahead(b->hub->mvcc, change, a);
}

bool chunk_take(struct chunk *b, const struct mvcc_change *change, unsigned *steps)
{
    struct encoding flavours[2] = {{.change = change}, {.change = change}};

    buf_clear(&b->matched);
    watcher_group_match(b->group, change->key, &b->matched);
    struct interest **matched = (struct interest **)(void *)b->matched.at;
    size_t count = b->matched.len / sizeof(struct interest *);
    spend(steps, count);
    for (size_t n = 0; n < count; n++) {
        if (!wants_change(matched[n]->wants, change->tombstone))
            continue;
        if (!interest_take(b, matched[n], &flavours[flavour_of(matched[n])]))
            return false;
    }
    return true;
}

void chunk_cut(struct chunk *b, int64_t revision)
{
    for (size_t n = 0; n < b->gather_count; n++) {
        struct gather *g = &b->gathers[n];
        if (g->last < revision)
            continue;
        assert(g->last == revision);
        g->bytes = g->before.bytes;
        g->events = g->before.events;
        g->last = g->before.last;
        g->is_long = false; /* it has nothing from before, or it would not have become so */
        buf_clear(&g->stretches);
        g->picks.len = g->events * sizeof(uint32_t);
    }
}

/* --- handing out --- */

/* Some of a gather's events in a blob of their own. */
static struct blob *blob_of(const struct chunk *b, const struct gather *g, size_t from, size_t to)
{
    const uint32_t *picks = (const uint32_t *)(const void *)g->picks.at;
    size_t size = 0;
    uint8_t *fill;

    for (size_t n = from; n < to; n++)
        size += event_at(b, picks[n])->size;
    struct blob *blob = blob_new(size, &fill);
    for (size_t n = from; n < to; n++) {
        const struct chunk_event *e = event_at(b, picks[n]);
        memcpy(fill, b->bytes.at + e->at, e->size);
        fill += e->size;
    }
    return blob;
}

static struct blob *whole_blob(struct chunk *b, const struct gather *g)
{
    size_t flavour = flavour_of(g->interest);

    if (g->events != b->flavour_events[flavour])
        return blob_of(b, g, 0, g->events);
    if (!b->whole[flavour])
        b->whole[flavour] = blob_of(b, g, 0, g->events);
    return blob_ref(b->whole[flavour]);
}

static bool is_fragmented(const struct chunk *b, const struct gather *g, const struct watcher *w)
{
    return w->fragment && g->events > 1 && g->bytes + RESPONSE_BYTES_MAX >= b->hub->fragment_bytes;
}

static void send_long(struct chunk *b, const struct gather *g, struct watcher *w, int64_t revision)
{
    const struct stretch *stretches = (const struct stretch *)(const void *)g->stretches.at;
    size_t count = g->stretches.len / sizeof(struct stretch);
    struct stretch all = {.sub = stretches[0].sub, .bytes = g->bytes, .events = g->events};

    if (!is_fragmented(b, g, w)) {
        stretches = &all;
        count = 1;
    }
    for (size_t n = 0; n < count; n++) {
        struct watch_message m = {
            .watch_id = w->id, .revision = revision, .fragment = n + 1 < count};
        m.long_events = watch_long_new(b, g, &stretches[n]);
        m.event_count = stretches[n].events;
        watch_stream_queue(w->stream, &m, NULL);
    }
}

static void send_fragments(struct chunk *b, const struct gather *g, struct watcher *w,
                           int64_t revision)
{
    const uint32_t *picks = (const uint32_t *)(const void *)g->picks.at;

    for (size_t from = 0, to; from < g->events; from = to) {
        size_t size = event_at(b, picks[from])->size;
        for (to = from + 1; to < g->events; to++) {
            size += event_at(b, picks[to])->size;
            if (size + RESPONSE_BYTES_MAX >= b->hub->fragment_bytes)
                break;
        }
        struct watch_message m = {.watch_id = w->id,
                                  .revision = revision,
                                  .fragment = to < g->events,
                                  .events = blob_of(b, g, from, to),
                                  .event_count = to - from};
        watch_stream_queue(w->stream, &m, NULL);
    }
}

static void send(struct chunk *b, const struct gather *g, struct watcher *w, struct blob *blob,
                 int64_t revision)
{
    if (g->is_long) {
        send_long(b, g, w, revision);
    } else if (is_fragmented(b, g, w)) {
        send_fragments(b, g, w, revision);
    } else {
        struct watch_message m = {.watch_id = w->id,
                                  .revision = revision,
                                  .events = blob_ref(blob),
                                  .event_count = g->events};
        watch_stream_queue(w->stream, &m, NULL);
    }
    w->was_sent = true;
}

size_t chunk_deliver(struct chunk *b, size_t n, int64_t revision)
{
    assert(n < b->gather_count);

    struct gather *g = &b->gathers[n];
    if (!g->interest || g->events == 0)
        return 0;
    assert(g->last <= revision);

    struct blob *blob = g->is_long ? NULL : whole_blob(b, g);
    size_t count = 0;
    struct list *watchers = &g->interest->watchers;
    for (struct list *link = watchers->next; g->interest && link != watchers; count++) {
        struct watcher *w = container_of(link, struct watcher, link);
        link = link->next;
        /* Asked again, and not only when it was gathered: another watcher of the same stream may
         * have had the last of it in between. */
        if (watch_stream_has_credit(w->stream))
            send(b, g, w, blob, revision);
        else
            watcher_park(w, g->first); /* with the last one the interest leaves the gather */
    }
    blob_unref(blob);
    return count;
}
