/* The witness and the watchers. */
#include "sim/actor_int.h"

enum { DOZE_MS_MAX = 3000 /* a watcher that does not read */ };

static int64_t server_revision(const struct actor *a)
{
    return a->h->server_revision[a->server];
}

static struct history_watch *life(struct actor *a)
{
    return &a->lives[a->life_count - 1];
}

static void say(struct actor *a, const struct pb_watch_request *request)
{
    struct buf wire = {0};

    pb_encode_watch_request(request, &wire);
    client_send(a->stream, buf_bytes(&wire));
    buf_free(&wire);
}

/* --- beginning --- */

/* One key, some that lie together, the herd, or all. */
static void some_keys(struct actor *a, struct history_watch *w)
{
    uint64_t dice = rng_below(&a->rng, 8);

    w->to_key = HISTORY_ALL_KEYS;
    if (dice < 4) {
        w->from_key = (unsigned)rng_below(&a->rng, HISTORY_KEYS);
        w->to_key = w->from_key + 1;
    } else if (dice < 5) {
        w->from_key = (unsigned)rng_below(&a->rng, HISTORY_KEYS);
        w->to_key = w->from_key + 2 + (unsigned)rng_below(&a->rng, HERD_KEYS);
    } else if (dice < 6)
        w->from_key = HISTORY_KEYS;
}

static struct history_watch some_watch(struct actor *a)
{
    struct history_watch w = {.installs = a->h->installs};

    some_keys(a, &w);
    w.prev_kv = rng_chance(&a->rng, 1, 3);
    w.no_puts = rng_chance(&a->rng, 1, 8);
    w.no_deletes = !w.no_puts && rng_chance(&a->rng, 1, 8);
    if (rng_chance(&a->rng, 1, 2) && a->h->seen > 0)
        a->next_revision = (int64_t)rng_between(&a->rng, 1, (uint64_t)a->h->seen + 3);
    w.from = a->next_revision;
    return w;
}

static void begin_watch(struct actor *a)
{
    struct history_watch w = {.to_key = HISTORY_ALL_KEYS};
    int32_t filter;

    if (a->o.kind == ACTOR_WATCHER) {
        if (a->life_count == LIVES_MAX)
            return;
        a->lives[a->life_count++] = w = some_watch(a);
    }
    bool one = w.to_key == w.from_key + 1;
    filter = w.no_puts ? PB_WATCH_NO_PUT : PB_WATCH_NO_DELETE;
    struct pb_watch_create_request create = {
        .key = request_key(a, w.from_key),
        .range_end = one                            ? (struct bytes){0}
                     : w.to_key >= HISTORY_ALL_KEYS ? BYTES("{")
                                                    : request_key(a, w.to_key),
        .start_revision = a->next_revision,
        .prev_kv = w.prev_kv,
        .filters = {&filter, w.no_puts || w.no_deletes},
    };
    create.fragment = rng_chance(&a->rng, 1, 3);
    create.progress_notify = rng_chance(&a->rng, 1, 3);
    a->created = false;
    a->in_fragments = false;
    a->calls++;
    struct client_request request = actor_request(a, "/etcdserverpb.Watch/Watch");
    a->stream = client_start(a->client, &request);
    login_watch_begins(a, create.key, create.range_end);
    say(a, &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    arena_reset(&a->arena);
}

void watcher_lost(struct actor *a)
{
    a->stream = NULL;
    if (a->o.kind == ACTOR_WITNESS)
        a->h->witness_is_live = false;
}

/* --- hearing --- */

/* It has not begun: what it would have seen is nobody's. */
static void watch_refused(struct actor *a)
{
    if (a->o.kind == ACTOR_WATCHER) {
        buf_free(&life(a)->seen);
        buf_free(&life(a)->told);
        a->life_count--;
    }
    actor_lost(a);
}

static void watch_canceled(struct actor *a, const struct pb_watch_response *r)
{
    if (r->created && login_watch_hears(a, r->cancel_reason)) {
        watch_refused(a);
        return;
    }
    if (r->compact_revision == 0 || a->o.kind == ACTOR_WITNESS) {
        history_fail(a->h, "a watch at %" PRId64 " was canceled at %" PRId64 ": %.*s",
                     a->next_revision, r->compact_revision, (int)r->cancel_reason.len,
                     r->cancel_reason.at);
        return;
    }
    if (a->next_revision >= r->compact_revision)
        history_fail(a->h, "a watch at %" PRId64 " was canceled by a compaction at %" PRId64,
                     a->next_revision, r->compact_revision);
    life(a)->cut_at = life(a)->installs == a->h->installs ? r->compact_revision : 0;
    a->next_revision = r->compact_revision;
    client_cancel(a->stream);
    watcher_lost(a);
}

static void saw(struct actor *a, const struct pb_event *e, bool joined)
{
    if (a->o.kind == ACTOR_WITNESS)
        history_witness(a->h, e);
    else if (!history_watch_saw(a->h, life(a), e, joined))
        history_fail(a->h, "a watcher saw a key nobody has");
}

/* It was live when this was said, and has been given everything up to this revision: it was
 * created ahead of the newest one, or told so, or given what was the newest event of all. */
static int64_t live_at(struct actor *a, const struct pb_watch_response *r)
{
    int64_t told = r->header ? r->header->revision : 0;

    if (r->canceled || r->fragment)
        return 0;
    if (r->events.count > 0)
        return a->next_revision > server_revision(a) ? a->next_revision - 1 : 0;
    if (r->created)
        return a->next_revision > told ? told : 0;
    return told;
}

static void note_response(struct actor *a, const struct pb_watch_response *r)
{
    bool is_notice = a->created && r->events.count == 0 && !r->canceled && !r->fragment;
    int64_t live = live_at(a, r);

    if (a->o.kind != ACTOR_WATCHER)
        return;
    if (is_notice && r->header) {
        history_watch_progress(life(a), r->header->revision);
        if (r->header->revision >= a->next_revision)
            a->next_revision = r->header->revision + 1;
    }
    if (live > 0)
        life(a)->live_at = live;
}

void watcher_heard(struct actor *a, struct bytes message)
{
    struct arena arena = {0};
    struct pb_watch_response r;

    actor_limit(a);
    if (pb_decode_watch_response(message, &arena, &r) != ERR_OK) {
        history_fail(a->h, "a watch response cannot be decoded");
        arena_free(&arena);
        return;
    }
    if (!a->created && !r.created)
        history_fail(a->h, "events before the watch was created");
    for (size_t i = 0; i < r.events.count; i++)
        saw(a, &r.events.at[i], i > 0 || a->in_fragments);
    a->in_fragments = r.fragment;
    if (r.events.count > 0 && !r.fragment)
        a->next_revision = r.events.at[r.events.count - 1].kv->mod_revision + 1;
    note_response(a, &r);
    if (r.created && !r.canceled)
        login_watch_hears(a, (struct bytes){0});
    a->created |= r.created;
    if (r.canceled)
        watch_canceled(a, &r);
    arena_free(&arena);
}

/* --- the turn --- */

/* Now and then a watcher asks how far it is, stops reading for a while, or begins anew. */
static void watch_on(struct actor *a)
{
    static const struct pb_empty nothing = {0};

    if (a->stream && rng_chance(&a->rng, 1, 2))
        say(a, &(struct pb_watch_request){.which = PB_WATCH_PROGRESS, .progress = &nothing});
    a->dozing = !a->dozing && !a->winding_down && rng_chance(&a->rng, 2, 3);
    if (!a->dozing && !a->winding_down && a->stream && rng_chance(&a->rng, 1, 4)) {
        client_cancel(a->stream);
        watcher_lost(a);
    }
    actor_wait_ms(a, DOZE_MS_MAX);
}

void watcher_turn(struct actor *a)
{
    if (!a->stream && login_is_due(a)) {
        if (a->asked_count == 0)
            login_begin(a);
    } else if (!a->stream && a->asked_count == 0 && !(a->winding_down && a->login.is_denied))
        begin_watch(a);
    if (a->o.kind == ACTOR_WATCHER && a->timer_due)
        watch_on(a);
    else if (a->o.kind == ACTOR_WITNESS && a->created && a->stream &&
             a->next_revision > server_revision(a))
        a->h->witness_is_live = true; /* it has all there is */
}
