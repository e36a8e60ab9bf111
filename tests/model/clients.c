/*
 * Streams and watchers, and what a client expects of them.
 *
 * A client knows what the model knows: all changes, in order. `next` of a watcher is the first
 * revision it has not accounted for. Whatever comes must begin there: the events of a message are
 * exactly those that the model has from `next` to the last revision in the message.
 */
#include "model/episode_int.h"

#include "base/mem.h"

#include <inttypes.h>

#define REASON_COMPACTED "etcdserver: mvcc: required revision has been compacted"
#define REASON_EMPTY     "mvcc: watcher range is empty"
#define REASON_TWICE     "mvcc: duplicate watch ID provided on the WatchStream"

/* --- what is owed ------------------------------------------------------------------------- */

static bool is_wanted(const struct episode *e, const struct watcher_wish *wish,
                      const struct naive_change *c)
{
    if (c->tombstone ? wish->no_delete : wish->no_put)
        return false;
    return naive_has(wish->key, wish->end, e->naive.keys[c->key]);
}

/* --- who is live -------------------------------------------------------------------------- */

/*
 * From outside we know that a watcher is live when watch has said that there is nothing left to be
 * done and its stream has credit; or it is held for a delete, or its start is to come, which is as
 * good. It stays so while the stream has credit, however long the server takes to hand out what was
 * published. A stream without credit may make it lose its place, and a second later it may lag.
 */
enum { LIVE_MS = 1000 };

static bool had_credit_ms(const struct episode *e, const struct client *c, uint64_t ms)
{
    return c->full_ms == 0 || e->worked_ms < c->full_ms + ms;
}

void clients_look(struct episode *e)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &e->clients[i];
        if (c->stream && c->full_ms == 0 && watch_stream_credit(c->stream) == 0)
            c->full_ms = e->now_ms;
    }
}

/* Watch has nothing left to do. */
static void look_who_is_live(struct episode *e)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &e->clients[i];
        if (!c->stream || watch_stream_credit(c->stream) == 0)
            continue;
        for (int n = 0; n < WATCHERS; n++) {
            struct client_watcher *w = &c->watchers[n];
            if (!w->used)
                continue;
            if (!w->prompt || c->full_ms != 0)
                w->prompt_since = e->naive.revision;
            w->prompt = true;
        }
        c->full_ms = 0;
    }
}

/* A client that does not read for a minute is given up. */
static void look_who_is_deaf(struct episode *e)
{
    for (int i = 0; i < CLIENTS; i++)
        for (int n = 0; n < WATCHERS; n++)
            if (!had_credit_ms(e, &e->clients[i], WATCH_FLOOR_MS))
                e->clients[i].watchers[n].kept_from = 0;
}

static const struct naive_change *first_unsettled(const struct episode *e,
                                                  const struct client_watcher *w, int64_t revision);

void clients_compacted(struct episode *e, int64_t revision)
{
    for (int i = 0; i < CLIENTS; i++)
        for (int n = 0; n < WATCHERS; n++) {
            struct client_watcher *w = &e->clients[i].watchers[n];
            bool live = w->used && w->prompt && had_credit_ms(e, &e->clients[i], LIVE_MS);
            if (!live || w->kept_from == 0)
                w->kept_from = live ? revision : 0;
            w->kept_to = revision;
            if (live && !w->ended && first_unsettled(e, w, revision - 1))
                e->totals.kept++;
        }
}

void clients_forget_liveness(struct episode *e)
{
    for (int i = 0; i < CLIENTS; i++)
        for (int n = 0; n < WATCHERS; n++) {
            e->clients[i].watchers[n].prompt = false;
            e->clients[i].watchers[n].kept_from = 0;
        }
}

/* Has it been live all the time since this revision was published, so that it misses nothing? */
static bool was_live_at(const struct episode *e, const struct client_watcher *w, int64_t revision)
{
    for (int i = 0; i < CLIENTS; i++) {
        const struct client *c = &e->clients[i];
        if (w >= c->watchers && w < c->watchers + WATCHERS)
            return w->prompt && c->full_ms == 0 && revision > w->prompt_since;
    }
    unreachable();
}

/* --- what is owed, then ------------------------------------------------------------------- */

/* A compaction at just this revision keeps of each key what it was at the end of it. */
static bool may_be_missing(const struct episode *e, const struct client_watcher *w,
                           const struct naive_change *c)
{
    return c->at.main <= e->naive.compact_revision && naive_is_overwritten_within(&e->naive, c) &&
           !was_live_at(e, w, c->at.main);
}

/* The first change that the watcher must still see, up to the revision; NULL if there is none. */
static const struct naive_change *first_unsettled(const struct episode *e,
                                                  const struct client_watcher *w, int64_t revision)
{
    for (size_t i = 0; i < e->naive.published; i++) {
        const struct naive_change *c = &e->naive.changes[i];
        if (c->at.main >= w->next && c->at.main <= revision && is_wanted(e, &w->wish, c) &&
            !may_be_missing(e, w, c))
            return c;
    }
    return NULL;
}

static void check_all_settled(struct episode *e, const struct client_watcher *w, int64_t revision,
                              const char *when)
{
    const struct naive_change *c = first_unsettled(e, w, revision);

    if (c)
        episode_broken(e, "watch",
                       "watcher %" PRId64 ": %s at %" PRId64 ", and %" PRId64 ".%" PRId64
                       " has not come",
                       w->id, when, revision, c->at.main, c->at.sub);
}

/* --- events ------------------------------------------------------------------------------- */

static bool same_kv(const struct pb_key_value *a, const struct pb_key_value *b)
{
    return bytes_equal(a->key, b->key) && bytes_equal(a->value, b->value) &&
           a->create_revision == b->create_revision && a->mod_revision == b->mod_revision &&
           a->version == b->version && a->lease == b->lease;
}

static bool is_event_of(const struct episode *e, const struct naive_change *c,
                        const struct pb_event *got)
{
    struct pb_key_value kv = naive_kv(&e->naive, c);

    kv.mod_revision = c->at.main; /* a tombstone's event has it, its record has not */
    return got->kv && same_kv(got->kv, &kv) &&
           got->type == (c->tombstone ? PB_EVENT_DELETE : PB_EVENT_PUT);
}

/* Before the main revision. It may be missing once that is compacted. */
static void check_previous(struct episode *e, const struct client_watcher *w,
                           const struct naive_change *c, const struct pb_event *got)
{
    bool creates = !c->tombstone && c->version == 1;
    const struct naive_change *before =
        w->wish.prev_kv && !creates ? naive_alive(&e->naive, c->key, revision_whole(c->at.main - 1))
                                    : NULL;

    if (!got->prev_kv) {
        if (before &&
            (c->at.main - 1 >= e->naive.compact_revision || was_live_at(e, w, c->at.main)))
            episode_broken(e, "watch", "event %" PRId64 ".%" PRId64 " lacks its previous value",
                           c->at.main, c->at.sub);
        return;
    }
    struct pb_key_value kv = before ? naive_kv(&e->naive, before) : (struct pb_key_value){0};
    if (!before || !same_kv(got->prev_kv, &kv))
        episode_broken(e, "watch", "event %" PRId64 ".%" PRId64 " has a wrong previous value",
                       c->at.main, c->at.sub);
}

static void check_events(struct episode *e, struct client_watcher *w,
                         const struct pb_watch_response *got, int64_t header)
{
    int64_t last = got->events.at[got->events.count - 1].kv->mod_revision;
    size_t seen = 0, revisions = 0;
    int64_t revision = 0;

    for (size_t i = 0; i < e->naive.published; i++) {
        const struct naive_change *c = &e->naive.changes[i];
        if (c->at.main < w->next || c->at.main > last || !is_wanted(e, &w->wish, c))
            continue;
        if (seen < got->events.count && is_event_of(e, c, &got->events.at[seen])) {
            check_previous(e, w, c, &got->events.at[seen++]);
            revisions += c->at.main != revision;
            revision = c->at.main;
        } else if (!may_be_missing(e, w, c)) {
            episode_broken(e, "watch",
                           "watcher %" PRId64 " from %" PRId64
                           ": event %zu of %zu should be %" PRId64 ".%" PRId64,
                           w->id, w->next, seen, got->events.count, c->at.main, c->at.sub);
        }
    }
    if (seen < got->events.count)
        episode_broken(e, "watch",
                       "watcher %" PRId64 " from %" PRId64 ": event %zu of %zu, at %" PRId64
                       ", is not one it should get",
                       w->id, w->next, seen, got->events.count,
                       got->events.at[seen].kv->mod_revision);
    if (revisions > WATCH_CATCH_UP_REVISIONS)
        episode_broken(e, "watch", "%zu revisions in one message", revisions);
    if (header < last || header > e->naive.revision)
        episode_broken(e, "watch", "header %" PRId64 " over events up to %" PRId64, header, last);
    w->next = last + 1;
    e->totals.events += seen;
    e->totals.lagged += header > last ? seen : 0;
    episode_trace(e, (uint64_t)last);
}

/* --- reading a message -------------------------------------------------------------------- */

/* Whom a message is for: of several with that id, the oldest, whose end has not been read yet. */
static struct client_watcher *watcher_of(struct client *c, int64_t id)
{
    struct client_watcher *oldest = NULL;

    for (int i = 0; i < WATCHERS; i++) {
        struct client_watcher *w = &c->watchers[i];
        if (w->used && w->id == id && (!oldest || w->serial < oldest->serial))
            oldest = w;
    }
    return oldest;
}

/* Does the server know one of that id? It forgets when it is asked to, not when that is read. */
static bool is_taken(const struct client *c, int64_t id)
{
    for (int i = 0; i < WATCHERS; i++)
        if (c->watchers[i].used && c->watchers[i].id == id && !c->watchers[i].asked_to_cancel)
            return true;
    return false;
}

static struct client_watcher *watcher_hearing(struct episode *e, struct client *c, int64_t id)
{
    struct client_watcher *w = watcher_of(c, id);

    if (!w || !w->created || w->ended)
        episode_broken(e, "watch", "a message for %" PRId64 ", which is %s", id,
                       !w           ? "not there"
                       : w->created ? "ended"
                                    : "not created yet");
    return w;
}

static void read_events(struct episode *e, struct client *c, const struct watch_message *m,
                        struct bytes events)
{
    struct client_watcher *w = watcher_hearing(e, c, m->watch_id);
    struct arena arena = {0};
    struct pb_watch_response got;

    if ((m->fragment || c->run_of) && !w->wish.fragment)
        episode_broken(e, "watch", "watcher %" PRId64 " did not ask for fragments", w->id);
    if (c->run_of && m->revision != c->run_revision)
        episode_broken(e, "watch", "fragments with headers %" PRId64 " and %" PRId64,
                       c->run_revision, m->revision);
    buf_append(&c->run, events);
    c->run_of = m->fragment ? w : NULL;
    c->run_revision = m->revision;
    e->totals.fragments += m->fragment;
    if (m->fragment)
        return;
    if (pb_decode_watch_response(buf_bytes(&c->run), &arena, &got) != ERR_OK ||
        got.events.count == 0)
        episode_broken(e, "watch", "events that cannot be decoded");
    check_events(e, w, &got, m->revision);
    arena_free(&arena);
    buf_clear(&c->run);
}

/* Everything up to the revision has been delivered, and must not come any more. */
static void accept_progress(struct episode *e, struct client_watcher *w, int64_t revision)
{
    check_all_settled(e, w, revision, "progress");
    if (w->next <= revision)
        w->next = revision + 1;
}

static void read_progress(struct episode *e, struct client *c, const struct watch_message *m)
{
    if (m->revision > e->naive.revision)
        episode_broken(e, "watch", "progress at %" PRId64 ", which is yet to come", m->revision);
    e->totals.progress++;
    if (m->watch_id != -1) {
        struct client_watcher *w = watcher_hearing(e, c, m->watch_id);
        if (!w->wish.progress)
            episode_broken(e, "watch", "watcher %" PRId64 " did not ask for progress", w->id);
        accept_progress(e, w, m->revision);
        return;
    }
    if (c->progress_asked == 0)
        episode_broken(e, "watch", "progress that nobody asked for");
    c->progress_asked--;
    for (int i = 0; i < WATCHERS; i++)
        if (c->watchers[i].used && c->watchers[i].created && !c->watchers[i].ended)
            accept_progress(e, &c->watchers[i], m->revision);
}

static void read_cut_off(struct episode *e, struct client *c, const struct watch_message *m)
{
    struct client_watcher *w = watcher_hearing(e, c, m->watch_id);

    if (m->revision != 0 || m->cancel_reason || m->events || m->created)
        episode_broken(e, "watch", "the end of a compacted watcher has a wrong shape");
    if (m->compact_revision > e->naive.compact_revision || w->next >= m->compact_revision)
        episode_broken(e, "watch",
                       "watcher %" PRId64 " at %" PRId64
                       " ends because of a compaction at %" PRId64,
                       w->id, w->next, m->compact_revision);
    if (w->kept_from != 0 && m->compact_revision >= w->kept_from &&
        m->compact_revision <= w->kept_to)
        episode_broken(e, "watch",
                       "watcher %" PRId64 " was live when history was cut at %" PRId64
                       ", and is ended by that at %" PRId64,
                       w->id, m->compact_revision, w->next);
    w->ended = true;
    e->totals.cut_off++;
}

static void read_reply(struct episode *e, struct client *c, const struct watch_message *m)
{
    static const struct reply none;
    struct reply want = c->reply_count ? c->replies[0] : none;
    bool created = want.kind != REPLY_CANCELED, canceled = want.kind != REPLY_CREATED;

    if (c->reply_count == 0 || m->watch_id != want.id || m->created != created ||
        m->canceled != canceled || m->revision != want.revision)
        episode_broken(e, "watch",
                       "the reply for %" PRId64 " at %" PRId64 "%s%s is not the one for %" PRId64
                       " at %" PRId64,
                       m->watch_id, m->revision, m->created ? ", created" : "",
                       m->canceled ? ", canceled" : "", want.id, want.revision);
    if (strcmp(m->cancel_reason ? m->cancel_reason : "", want.reason ? want.reason : "") != 0)
        episode_broken(e, "watch", "the reason is '%s', not '%s'", m->cancel_reason, want.reason);
    memmove(c->replies, c->replies + 1, --c->reply_count * sizeof(*c->replies));
    if (want.kind == REPLY_CREATED)
        want.watcher->created = true;
    if (want.kind == REPLY_CANCELED)
        *want.watcher = (struct client_watcher){0};
}

static void read_message(struct episode *e, struct client *c, const struct watch_message *m,
                         struct bytes events)
{
    bool has_events = events.len > 0;

    if (c->run_of && (!has_events || m->watch_id != c->run_of->id))
        episode_broken(e, "watch", "something else comes between fragments");
    if (has_events && (m->created || m->canceled))
        episode_broken(e, "watch", "events in a reply");
    if (has_events)
        read_events(e, c, m, events);
    else if (m->canceled && !m->created && m->compact_revision != 0)
        read_cut_off(e, c, m);
    else if (m->created || m->canceled)
        read_reply(e, c, m);
    else
        read_progress(e, c, m);
}

/* --- letters ------------------------------------------------------------------------------ */

static void free_letter(struct letter *l)
{
    list_remove(&l->link);
    blob_unref(l->message.events);
    if (l->message.long_events)
        watch_long_end(l->message.long_events);
    buf_free(&l->events);
    mem_free(l);
}

static void disconnect(struct episode *e, struct client *c)
{
    if (!c->stream)
        return;
    while (!list_empty(&c->inbox))
        free_letter(container_of(c->inbox.next, struct letter, link));
    watch_stream_close(c->stream);
    c->stream = NULL;
    c->reply_count = 0;
    c->progress_asked = 0;
    c->next_id = 0;
    c->read_bytes = 0;
    c->run_of = NULL;
    c->full_ms = 0;
    buf_clear(&c->run);
    for (int i = 0; i < WATCHERS; i++) {
        struct client_watcher *w = &c->watchers[i];
        w->prompt = false;
        w->kept_from = 0;
        if (w->ended || w->asked_to_cancel)
            *w = (struct client_watcher){0};
        w->created = false;
        w->id = -2; /* nobody's */
    }
    episode_say(e, "client %td has no stream", c - e->clients);
}

static bool take_one(struct episode *e)
{
    struct letter *l = mem_new(struct letter);

    if (!watch_take(e->watch, &l->message)) {
        mem_free(l);
        return false;
    }
    struct client *c = watch_stream_context(l->message.stream);
    if (l->message.cancel_reason)
        l->message.cancel_reason =
            arena_copy_str(&e->arena, bytes_of_str(l->message.cancel_reason));
    if (c->stream != l->message.stream)
        episode_broken(e, "watch", "a message for a stream that is closed");
    list_init(&l->link);
    list_push_back(&c->inbox, &l->link);
    return true;
}

/* A chunk of a long message. True when all of it has been read. */
static bool read_long(struct episode *e, struct client *c, struct letter *l, bool *gone)
{
    bool done = false;
    enum err err = watch_long_read(l->message.long_events, 1 + pick(e, 100000), &l->events, &done);

    if (err == ERR_CANCELED) {
        const struct client_watcher *w = watcher_hearing(e, c, l->message.watch_id);
        /* A compaction at just its revision takes the values before it. */
        if (w->next > e->naive.compact_revision)
            episode_broken(e, "watch", "a long message is given up though nothing is compacted");
        *gone = true;
        disconnect(e, c);
        return false;
    }
    if (err != ERR_OK)
        episode_broken(e, "watch", "a long message ends: %s", err_text(err));
    if (done && l->events.len != watch_long_bytes(l->message.long_events))
        episode_broken(e, "watch", "a long message has %zu bytes, not %" PRIu64, l->events.len,
                       watch_long_bytes(l->message.long_events));
    e->totals.longs += done;
    return done;
}

/* False if the client has nothing to read. */
static bool read_one(struct episode *e, struct client *c)
{
    bool gone = false;

    if (list_empty(&c->inbox))
        return false;
    struct letter *l = container_of(c->inbox.next, struct letter, link);
    if (l->message.long_events && !read_long(e, c, l, &gone))
        return true;
    struct bytes events =
        l->message.long_events ? buf_bytes(&l->events) : blob_bytes(l->message.events);
    episode_say(e, "client %td reads %zu bytes for %" PRId64 " at %" PRId64 "%s%s%s",
                c - e->clients, events.len, l->message.watch_id, l->message.revision,
                l->message.created ? ", created" : "", l->message.canceled ? ", canceled" : "",
                l->message.fragment ? ", a fragment" : "");
    c->read_bytes += l->message.bytes;
    read_message(e, c, &l->message, events);
    free_letter(l);
    return true;
}

/* False if there is nothing to tell. */
static bool tell_sent(struct client *c)
{
    if (!c->stream || c->read_bytes == 0)
        return false;
    watch_sent(c->stream, c->read_bytes);
    c->read_bytes = 0;
    return true;
}

/* --- asking ------------------------------------------------------------------------------- */

static void owe(struct client *c, struct reply reply)
{
    assert(c->reply_count < ARRAY_LEN(c->replies));
    c->replies[c->reply_count++] = reply;
}

static void some_need(struct episode *e, struct watcher_wish *wish)
{
    *wish = (struct watcher_wish){.prev_kv = chance(e, 1, 3)};
    some_range(e, &wish->key, &wish->end);
    wish->no_put = chance(e, 1, 6);
    wish->no_delete = chance(e, 1, 6);
    wish->fragment = chance(e, 1, 3);
    wish->progress = chance(e, 1, 2);
}

static int64_t some_start(struct episode *e)
{
    int64_t compact = e->naive.compact_revision, newest = e->naive.revision;

    switch (pick(e, 8)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return newest + 1 + (int64_t)pick(e, 5);
    case 3:
        return compact > 0 ? compact : 1; /* just what may still be read */
    case 4:
        return 1 + (int64_t)pick(e, (uint64_t)newest); /* perhaps compacted */
    default:
        compact = compact > 0 ? compact : 1;
        return compact + (int64_t)pick(e, (uint64_t)(newest - compact) + 1);
    }
}

static bool is_empty_range(const struct watcher_wish *wish)
{
    return wish->end.len > 0 && !bytes_equal(wish->end, BYTES("\0")) &&
           bytes_compare(wish->key, wish->end) >= 0;
}

static void send_create(struct episode *e, struct client *c, const struct watcher_wish *wish,
                        int64_t start, int64_t id)
{
    int32_t filters[2];
    struct pb_watch_create_request r = {.key = wish->key,
                                        .range_end = wish->end,
                                        .start_revision = start,
                                        .progress_notify = wish->progress,
                                        .prev_kv = wish->prev_kv,
                                        .watch_id = id,
                                        .fragment = wish->fragment};

    r.filters.at = filters;
    if (wish->no_put)
        filters[r.filters.count++] = PB_WATCH_NO_PUT;
    if (wish->no_delete)
        filters[r.filters.count++] = PB_WATCH_NO_DELETE;
    watch_create(c->stream, &r, NULL, e->now_ms);
    episode_say(e, "client %td asks for a watcher %" PRId64 " from %" PRId64, c - e->clients, id,
                start);
}

/* As the server counts: from 0 on, over those that are taken. */
static int64_t next_free_id(struct client *c)
{
    while (is_taken(c, c->next_id))
        c->next_id++;
    return c->next_id++;
}

static void create(struct episode *e, struct client *c, struct client_watcher *w, int64_t start)
{
    int64_t wanted = chance(e, 1, 4) ? 1 + (int64_t)pick(e, 9) : 0;

    if (wanted && is_taken(c, wanted))
        wanted = 0;
    send_create(e, c, &w->wish, start, wanted);
    w->id = wanted ? wanted : next_free_id(c);
    w->used = true;
    w->created = false;
    w->serial = c->next_serial++;
    w->prompt = false;
    w->kept_from = 0;
    w->start = start;
    w->next = start > 0 ? start : e->naive.revision + 1;
    owe(c, (struct reply){REPLY_CREATED, w->id, e->naive.revision, NULL, w});
}

static void create_in_vain(struct episode *e, struct client *c)
{
    struct watcher_wish wish;
    const struct client_watcher *other = &c->watchers[pick(e, WATCHERS)];

    some_need(e, &wish);
    const char *reason = NULL;
    if (is_empty_range(&wish)) {
        reason = REASON_EMPTY;
        send_create(e, c, &wish, 0, 0);
    } else if (other->used && !other->asked_to_cancel && other->id != 0) {
        reason = REASON_TWICE;
        send_create(e, c, &wish, 0, other->id);
    } else {
        reason = REASON_COMPACTED;
        send_create(e, c, &wish, -1 - (int64_t)pick(e, 3), 0);
    }
    owe(c, (struct reply){REPLY_REFUSED, -1, e->naive.revision, reason, NULL});
}

static void create_some(struct episode *e, struct client *c)
{
    struct client_watcher *w = &c->watchers[pick(e, WATCHERS)];

    if (w->used)
        return;
    do
        some_need(e, &w->wish);
    while (is_empty_range(&w->wish));
    create(e, c, w, some_start(e));
}

static void cancel_some(struct episode *e, struct client *c)
{
    struct client_watcher *w = &c->watchers[pick(e, WATCHERS)];

    if (!w->used || w->asked_to_cancel) {
        watch_cancel(c->stream, 1000); /* nobody's: no answer */
        return;
    }
    w->asked_to_cancel = true;
    watch_cancel(c->stream, w->id);
    episode_say(e, "client %td cancels %" PRId64, c - e->clients, w->id);
    owe(c, (struct reply){REPLY_CANCELED, w->id, e->naive.revision, NULL, w});
}

static void connect_client(struct episode *e, struct client *c)
{
    size_t credit = 1 + pick(e, e->climate.credit_bytes);

    c->stream = watch_stream_open(e->watch, c, credit, e->now_ms);
    episode_say(e, "client %td has a stream with credit for %zu", c - e->clients, credit);
    for (int i = 0; i < WATCHERS; i++)
        if (c->watchers[i].used) {
            create(e, c, &c->watchers[i], c->watchers[i].next);
            e->totals.resumed++;
        }
}

void clients_ask_step(struct episode *e)
{
    struct client *c = &e->clients[pick(e, CLIENTS)];

    if (!c->stream) {
        connect_client(e, c);
        return;
    }
    if (c->reply_count + 2 > ARRAY_LEN(c->replies) || watch_stream_credit(c->stream) == 0)
        return;
    switch (pick(e, 12)) {
    case 0:
        if (chance(e, 1, 6))
            disconnect(e, c);
        break;
    case 1:
        create_in_vain(e, c);
        break;
    case 2:
    case 3:
        cancel_some(e, c);
        break;
    case 4:
    case 5:
    case 6:
        watch_request_progress(c->stream);
        c->progress_asked++;
        break;
    default:
        create_some(e, c);
    }
}

/* --- steps -------------------------------------------------------------------------------- */

void clients_take_step(struct episode *e)
{
    for (uint64_t left = 1 + pick(e, 6); left > 0 && take_one(e); left--)
        ;
}

void clients_read_step(struct episode *e)
{
    struct client *c = &e->clients[pick(e, CLIENTS)];

    for (uint64_t left = 1 + pick(e, 6); left > 0 && read_one(e, c); left--)
        ;
    if (chance(e, 2, 3))
        tell_sent(c);
}

static bool work(struct episode *e, unsigned steps)
{
    e->worked_ms = e->now_ms;
    clients_look(e);
    look_who_is_deaf(e);
    bool done = watch_work(e->watch, steps, e->now_ms);
    if (done)
        look_who_is_live(e);
    clients_look(e);
    return done;
}

void clients_work_step(struct episode *e)
{
    unsigned steps = some_steps(e);

    e->now_ms += pick(e, 20);
    bool done = work(e, steps);
    episode_say(e, "watch works, %u steps%s", steps, done ? ", and is done" : "");
}

/* --- the end ------------------------------------------------------------------------------ */

/* Everybody reads all there is. */
static void drain(struct episode *e)
{
    for (int rounds = 0;; rounds++) {
        bool done = work(e, 1000);
        bool moved = false;
        while (take_one(e))
            moved = true;
        for (int i = 0; i < CLIENTS; i++) {
            while (read_one(e, &e->clients[i]))
                moved = true;
            moved |= tell_sent(&e->clients[i]);
        }
        watch_check(e->watch);
        if (done && !moved)
            return;
        if (rounds > 10000)
            episode_broken(e, "watch", "there is no end to its work");
    }
}

static void check_complete(struct episode *e, struct client *c)
{
    if (c->reply_count > 0)
        episode_broken(e, "watch", "no reply about watcher %" PRId64, c->replies[0].id);
    if (c->run_of)
        episode_broken(e, "watch", "the last fragment has not come");
    for (int i = 0; i < WATCHERS; i++)
        if (c->watchers[i].used && !c->watchers[i].ended)
            check_all_settled(e, &c->watchers[i], e->naive.revision, "the end");
}

/* All are caught up, so whoever asks for progress must get it, if it can be said of all. */
static void check_progress(struct episode *e, struct client *c)
{
    size_t there = 0;

    for (int i = 0; i < WATCHERS; i++) {
        const struct client_watcher *w = &c->watchers[i];
        there += w->used;
        if (w->used && (w->ended || w->start > e->naive.revision))
            return;
    }
    if (there == 0)
        return;
    c->progress_asked = 1;
    watch_request_progress(c->stream);
    drain(e);
    if (c->progress_asked != 0)
        episode_broken(e, "watch", "all are caught up, and no progress is told");
}

void clients_finish(struct episode *e)
{
    for (int i = 0; i < CLIENTS; i++)
        if (!e->clients[i].stream)
            connect_client(e, &e->clients[i]);
    drain(e);
    for (int i = 0; i < CLIENTS; i++)
        if (e->clients[i].stream) {
            check_complete(e, &e->clients[i]);
            check_progress(e, &e->clients[i]);
        }
}

void clients_init(struct episode *e)
{
    for (int i = 0; i < CLIENTS; i++)
        list_init(&e->clients[i].inbox);
}

void clients_cut_off(struct episode *e)
{
    for (int i = 0; i < CLIENTS; i++)
        disconnect(e, &e->clients[i]);
}

void clients_free(struct episode *e)
{
    for (int i = 0; i < CLIENTS; i++)
        buf_free(&e->clients[i].run);
}
