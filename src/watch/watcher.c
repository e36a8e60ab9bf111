#include "watch/watch_int.h"

#include "base/assert.h"
#include "base/mem.h"

static const char too_old[] = "etcdserver: mvcc: required revision has been compacted";
static const char empty_range[] = "mvcc: watcher range is empty";
static const char keys_too_long[] = "etcdserver: too many bytes in long keys of watchers";
static const char duplicate_id[] = "mvcc: duplicate watch ID provided on the WatchStream";

/* --- orders --- */

static const void *id_key(const struct treap_node *n)
{
    return &container_of(n, struct watcher, by_id)->id;
}

static int id_compare(const void *key, const struct treap_node *n)
{
    int64_t a = *(const int64_t *)key;
    int64_t b = *(const int64_t *)id_key(n);

    return (a > b) - (a < b);
}

static uint64_t id_weight(const struct treap_node *n)
{
    const struct watcher *w = container_of(n, struct watcher, by_id);

    return map_hash(bytes_of(&w->id, sizeof(w->id)), w->stream->hub->seed);
}

const struct treap_order watcher_order = {
    .compare = id_compare,
    .key = id_key,
    .weight = id_weight,
};

bool watcher_is_first(const struct heap_node *a, const struct heap_node *b)
{
    return container_of(a, struct watcher, ahead)->next <
           container_of(b, struct watcher, ahead)->next;
}

/* --- places --- */

bool watcher_is_live(const struct watcher *w)
{
    return w->place == WATCHER_MEMBER && w->interest->group == w->stream->hub->live;
}

static void leave(struct watcher *w)
{
    struct watch_stream *s = w->stream;

    switch ((enum watcher_place)w->place) {
    case WATCHER_NOWHERE:
        break;
    case WATCHER_AHEAD:
        heap_remove(&s->hub->ahead, &w->ahead);
        s->ahead_count--;
        break;
    case WATCHER_MEMBER:
        if (watcher_is_live(w)) {
            assert(s->live_era == s->hub->era);
            s->live_count--;
        }
        watcher_group_leave(w->interest->group, w);
        break;
    case WATCHER_PARKED:
        list_remove(&w->link);
        grace_drop(s->hub, w->grace);
        w->grace = GRACE_NONE;
        watch_stream_settle(s);
        break;
    case WATCHER_ENDED:
        s->ended_count--;
        s->hub->ended_count--;
        break;
    }
    w->place = WATCHER_NOWHERE;
}

void watcher_join(struct watcher *w, struct watcher_group *c)
{
    struct watch_stream *s = w->stream;

    leave(w);
    watcher_group_join(c, w);
    w->place = WATCHER_MEMBER;
    if (c != s->hub->live)
        return;
    s->live_count = watch_stream_live_count(s) + 1;
    s->live_era = s->hub->era;
}

/* That of a watcher that is parked from where it is; held. */
static uint32_t grace_to_park_with(const struct watcher *w, int64_t next)
{
    struct watch *hub = w->stream->hub;
    const struct watcher_group *c = w->place == WATCHER_MEMBER ? w->interest->group : NULL;

    if (w->stream->closed)
        return GRACE_NONE; /* nobody is there any more to be told */
    if (c && (c == hub->live || c->grace == GRACE_PROMPT))
        return next > hub->intact ? grace_of_fallen(hub, next) : GRACE_NONE;
    return c ? grace_hold(hub, c->grace) : GRACE_NONE;
}

void watcher_park(struct watcher *w, int64_t next)
{
    assert(next >= w->next); /* nothing twice */

    uint32_t grace = grace_to_park_with(w, next);
    leave(w);
    w->grace = grace;
    w->next = next;
    w->place = WATCHER_PARKED;
    list_init(&w->link);
    list_push_back(&w->stream->parked, &w->link);
    watch_stream_settle(w->stream);
}

void watcher_await(struct watcher *w, int64_t next)
{
    assert(next >= w->next);

    leave(w);
    w->next = next;
    w->place = WATCHER_AHEAD;
    w->ahead = (struct heap_node){0};
    heap_push(&w->stream->hub->ahead, &w->ahead);
    w->stream->ahead_count++;
}

/*
 * A watcher keeps its key and range_end. As a request may have two megabytes of them, and packed
 * they are two kilobytes, those that are long are counted. Keys of usual lengths are not: somebody
 * may have a hundred thousand watchers of those.
 */

static size_t long_key_bytes(size_t from_len, size_t to_len)
{
    return from_len + to_len > WATCH_LONG_KEY_BYTES ? from_len + to_len : 0;
}

static bool has_space_for_keys(const struct watch_stream *s, size_t bytes)
{
    return s->long_key_bytes + bytes <= WATCH_STREAM_LONG_KEYS_BYTES_MAX &&
           s->hub->long_key_bytes + bytes <= WATCH_LONG_KEYS_BYTES_MAX;
}

static void count_keys(struct watcher *w)
{
    size_t bytes = long_key_bytes(w->interest->from_len, w->interest->to_len);

    w->stream->long_key_bytes += bytes;
    w->stream->hub->long_key_bytes += bytes;
}

static void give_up_interest(struct watcher *w)
{
    struct watch_stream *s = w->stream;

    if (!w->interest)
        return;
    size_t bytes = long_key_bytes(w->interest->from_len, w->interest->to_len);
    assert(s->long_key_bytes >= bytes);
    assert(s->hub->long_key_bytes >= bytes);
    s->long_key_bytes -= bytes;
    s->hub->long_key_bytes -= bytes;
    interest_free(s->hub, w->interest);
    w->interest = NULL;
}

/* --- ends --- */

void watcher_end(struct watcher *w)
{
    leave(w);
    give_up_interest(w);
    w->place = WATCHER_ENDED;
    w->stream->ended_count++;
    w->stream->hub->ended_count++;
}

void watcher_free(struct watcher *w)
{
    struct watch_stream *s = w->stream;

    if (w->place == WATCHER_MEMBER && w->next == s->early_revision && s->early_count > 0)
        s->early_count--;
    leave(w);
    give_up_interest(w);
    treap_remove(&watcher_order, &s->ids, &w->by_id);
    s->count--;
    s->hub->watcher_count--;
    if (w->progress && --s->progress_count == 0)
        watch_progress_unwanted(s);
    hub_free(s->hub, w, sizeof(*w));
}

/* --- creating --- */

static void refuse(struct watch_stream *s, const char *why)
{
    struct watch_message m = {
        .watch_id = -1, .revision = s->hub->revision, .created = true, .canceled = true};
    struct buf reason = {0};

    buf_append(&reason, bytes_of(why, strlen(why) + 1));
    watch_stream_queue(s, &m, (char *)reason.at);
}

static uint8_t wants_of(const struct pb_watch_create_request *request)
{
    uint8_t wants = WANTS_PUT | WANTS_DELETE;

    for (size_t n = 0; n < request->filters.count; n++) {
        if (request->filters.at[n] == PB_WATCH_NO_PUT)
            wants &= (uint8_t)~WANTS_PUT;
        if (request->filters.at[n] == PB_WATCH_NO_DELETE)
            wants &= (uint8_t)~WANTS_DELETE;
    }
    return request->prev_kv ? wants | WANTS_PREV : wants;
}

/* False if the range is empty. A key that is empty stands for the smallest there is. */
static bool interest_of(struct watch *hub, const struct pb_watch_create_request *request,
                        struct interest **out)
{
    struct bytes from = request->key.len > 0 ? request->key : bytes_of("", 1);
    struct bytes to = request->range_end;
    enum interest_kind kind = INTEREST_RANGE;

    if (to.len == 0) {
        kind = INTEREST_KEY;
    } else if (to.len == 1 && to.at[0] == 0) {
        kind = INTEREST_FROM;
        to = bytes_of(NULL, 0);
    } else if (bytes_compare(from, to) >= 0) {
        return false;
    }
    *out = interest_new(hub, kind, wants_of(request), from, to);
    return true;
}

/* The id it will have; false if the one it wants is taken. */
static bool choose_id(struct watch_stream *s, int64_t wanted, int64_t *out)
{
    *out = wanted;
    if (wanted != 0)
        return !treap_find(&watcher_order, s->ids, &wanted);
    while (treap_find(&watcher_order, s->ids, &s->next_id))
        s->next_id++;
    *out = s->next_id++;
    return true;
}

static void start(struct watcher *w, int64_t revision)
{
    struct watch_stream *s = w->stream;
    struct watch *hub = s->hub;

    if (revision == 0) {
        w->next = hub->revision; /* as if it had that one: so it may be told progress at once */
        watcher_join(w, hub->live);
    } else if (revision == hub->revision + 1) {
        /* Live as well, but without progress before that revision is there (progress.c); so those
         * are counted, or a request for progress would have to look at each. */
        w->next = revision;
        watcher_join(w, hub->live);
        if (s->early_revision != revision)
            s->early_count = 0;
        s->early_revision = revision;
        s->early_count++;
    } else if (revision > hub->revision) {
        watcher_await(w, revision);
    } else {
        watcher_park(w, revision);
    }
}

static struct watcher *add(struct watch_stream *s, int64_t id, struct interest *interest,
                           const struct pb_watch_create_request *request, uint64_t now_ms)
{
    struct watcher *w = hub_alloc(s->hub, sizeof(*w));

    w->stream = s;
    w->id = id;
    w->interest = interest;
    count_keys(w);
    w->fragment = request->fragment;
    w->progress = request->progress_notify;
    treap_insert(&watcher_order, &s->ids, &w->by_id);
    s->count++;
    s->hub->watcher_count++;
    if (w->progress && s->progress_count++ == 0)
        watch_progress_wanted(s, now_ms);
    return w;
}

void watch_create(struct watch_stream *s, const struct pb_watch_create_request *request,
                  const char *refusal, uint64_t now_ms)
{
    struct interest *interest;
    int64_t id;

    assert(!s->closed);
    if (request->start_revision < 0) {
        refuse(s, too_old);
        return;
    }
    if (refusal) {
        refuse(s, refusal);
        return;
    }
    if (!has_space_for_keys(s, long_key_bytes(request->key.len, request->range_end.len))) {
        refuse(s, keys_too_long);
        return;
    }
    if (!interest_of(s->hub, request, &interest)) {
        refuse(s, empty_range);
        return;
    }
    if (!choose_id(s, request->watch_id, &id)) {
        interest_free(s->hub, interest);
        refuse(s, duplicate_id);
        return;
    }
    /* Promise 4: the answer is in the queue before anything can be queued behind it. */
    struct watch_message m = {.watch_id = id, .revision = s->hub->revision, .created = true};
    watch_stream_queue(s, &m, NULL);
    start(add(s, id, interest, request, now_ms), request->start_revision);
}

void watch_cancel(struct watch_stream *s, int64_t id)
{
    struct watcher *w = watcher_of(treap_find(&watcher_order, s->ids, &id));

    assert(!s->closed);
    if (!w)
        return;
    watcher_free(w);
    struct watch_message m = {.watch_id = id, .revision = s->hub->revision, .canceled = true};
    watch_stream_queue(s, &m, NULL); /* behind the events that were queued before */
}
