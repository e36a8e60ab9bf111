/*
 * Random lives of watchers, beside a model that remembers every change ever made.
 *
 * The model knows what each watcher has been told: everything below `next`. A message must contain
 * exactly what its watcher should see from there up to the header's revision, nothing else; that is
 * promises 1 to 4 at once. Streams are slow, taken from and drained in bits; the store is compacted
 * and replaced; messages are cut into fragments and long ones; clients come back where they were.
 * What was compacted must not be told. In the end all is let go, and nobody may miss anything.
 */
#include "watch/watch_rig_test.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>

enum { STREAMS = 5, WATCHERS = 12, KEYS = 10, BIG_BYTES = 70000, LONGS = 3 };

struct model_change {
    int64_t revision;
    unsigned key;
    bool tombstone;
    size_t value_bytes;    /* the value is the revision's digits, filled up to this */
    int64_t prev_revision; /* of the KeyValue before this revision; 0: none */
};

struct model_watcher {
    bool used, created, ended;
    bool no_put, no_delete, prev, fragment, progress;
    unsigned from, to; /* keys, [from, to) */
    int64_t id;
    int64_t next;
    int64_t start;  /* as asked */
    struct buf run; /* fragments so far */
};

struct model_stream {
    struct watch_stream *s;
    struct model_watcher watchers[WATCHERS];
    size_t owed;
    uint64_t messages;
};

struct life {
    struct watch_rig rig;
    struct rng rng;
    struct model_change *changes;
    size_t count, cap;
    int64_t alive[KEYS]; /* revision of the newest put; 0: dead */
    int64_t revision, compacted;
    struct model_stream streams[STREAMS];
    uint64_t events_seen, longs_seen, fragments_seen, canceled_seen, progress_seen, overtaken;
};

static uint64_t below(struct life *l, uint64_t bound)
{
    return rng_below(&l->rng, bound);
}

static bool chance(struct life *l, uint64_t times, uint64_t outof)
{
    return rng_chance(&l->rng, times, outof);
}

static struct bytes key_name(unsigned key)
{
    CHECK(key < KEYS);
    return bytes_of(&"k0k1k2k3k4k5k6k7k8k9"[2 * key], 2);
}

/* --- changes --- */

static void remember(struct life *l, const struct model_change *c)
{
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->changes = mem_resize(l->changes, l->cap, sizeof(*l->changes));
    }
    l->changes[l->count++] = *c;
}

static void value_of(int64_t revision, size_t bytes, struct buf *out)
{
    buf_clear(out);
    buf_printf(out, "%lld", (long long)revision);
    while (out->len < bytes)
        buf_append_byte(out, '.');
}

static void change_key(struct life *l, unsigned key, size_t value_bytes)
{
    struct model_change c = {.revision = l->revision + 1,
                             .key = key,
                             .tombstone = l->alive[key] != 0 && chance(l, 1, 3),
                             .value_bytes = value_bytes,
                             .prev_revision = l->alive[key]};
    struct buf value = {0};

    if (c.tombstone) {
        mvcc_delete(l->rig.mvcc_rig.m, key_name(key));
    } else {
        value_of(c.revision, c.value_bytes, &value);
        mvcc_put(l->rig.mvcc_rig.m, key_name(key), buf_bytes(&value), 0);
    }
    remember(l, &c);
    l->alive[key] = c.tombstone ? 0 : c.revision;
    buf_free(&value);
}

/* More changes in one revision than are shown one by one; only some of them have a name here. */
static void make_huge(struct life *l)
{
    char key[16];

    for (unsigned n = 0; n < MVCC_CHANGES_MAX + 10; n++) {
        snprintf(key, sizeof(key), "huge%u", n);
        mvcc_put(l->rig.mvcc_rig.m, bytes_of_str(key), BYTES("x"), 0);
    }
}

static void step_change(struct life *l)
{
    bool seen[KEYS] = {0};
    size_t count = chance(l, 1, 3) ? 1 + below(l, KEYS) : 1;
    size_t value_bytes = chance(l, 1, 12) ? BIG_BYTES : 0;

    watch_rig_begin(&l->rig);
    if (chance(l, 1, 200))
        make_huge(l);
    for (size_t n = 0; n < count; n++) {
        unsigned key = (unsigned)below(l, KEYS);
        if (!seen[key])
            change_key(l, key, value_bytes);
        seen[key] = true;
    }
    l->revision++;
    watch_rig_end(&l->rig);
    CHECK_EQ(mvcc_revision(l->rig.mvcc_rig.m), l->revision);
}

static void step_compact(struct life *l)
{
    int64_t low = l->compacted < 1 ? 1 : l->compacted + 1;

    if (low > l->revision)
        return;
    int64_t at = low + (int64_t)below(l, (uint64_t)(l->revision - low + 1));
    l->compacted = at;
    watch_rig_compact(&l->rig, at);
}

/* A snapshot comes from elsewhere, and with it changes that were never told. */
static void step_replace(struct life *l)
{
    l->rig.away = true;
    for (uint64_t n = below(l, 5); n > 0; n--)
        step_change(l);
    watch_rig_replace(&l->rig);
}

/* --- what a watcher should see --- */

static bool concerns(const struct model_watcher *w, const struct model_change *c)
{
    return c->key >= w->from && c->key < w->to && !(c->tombstone ? w->no_delete : w->no_put);
}

static void check_kv(const struct pb_key_value *kv, int64_t revision, size_t bytes)
{
    struct buf value = {0};

    CHECK_EQ(kv->mod_revision, revision);
    value_of(revision, bytes, &value);
    CHECK_BYTES(kv->value, buf_bytes(&value));
    buf_free(&value);
}

static size_t value_bytes_at(const struct life *l, unsigned key, int64_t revision)
{
    for (size_t n = 0; n < l->count; n++)
        if (l->changes[n].revision == revision && l->changes[n].key == key)
            return l->changes[n].value_bytes;
    test_fail(__FILE__, __LINE__, "no such change");
}

/* A compaction may have come between the reading of the event and now, so what lies below it may
 * be there or not. */
static void check_prev(const struct life *l, const struct model_watcher *w,
                       const struct model_change *c, const struct pb_event *e)
{
    bool gone = c->revision - 1 < l->compacted;

    if (!w->prev || c->prev_revision == 0) {
        CHECK(!e->prev_kv);
        return;
    }
    CHECK(e->prev_kv || gone);
    if (e->prev_kv)
        check_kv(e->prev_kv, c->prev_revision, value_bytes_at(l, c->key, c->prev_revision));
}

static void check_event(const struct life *l, const struct model_watcher *w,
                        const struct model_change *c, const struct pb_event *e)
{
    CHECK_EQ(e->type, c->tombstone ? PB_EVENT_DELETE : PB_EVENT_PUT);
    CHECK_BYTES(e->kv->key, key_name(c->key));
    if (c->tombstone)
        CHECK_EQ(e->kv->mod_revision, c->revision);
    else
        check_kv(e->kv, c->revision, c->value_bytes);
    check_prev(l, w, c, e);
}

/* Exactly what concerns the watcher from its next revision up to this one. */
static void check_events(struct life *l, struct model_watcher *w, struct bytes encoded,
                         int64_t upto)
{
    struct arena arena = {0};
    struct pb_watch_response response;
    size_t seen = 0;

    CHECK(upto <= l->revision);
    CHECK_EQ(pb_decode_watch_response(encoded, &arena, &response), ERR_OK);
    for (size_t n = 0; n < l->count; n++) {
        const struct model_change *c = &l->changes[n];
        if (c->revision < w->next || c->revision > upto || !concerns(w, c))
            continue;
        CHECK(seen < response.events.count);
        check_event(l, w, c, &response.events.at[seen++]);
    }
    CHECK_EQ(response.events.count, seen);
    l->events_seen += seen;
    if (upto >= w->next)
        w->next = upto + 1;
    arena_free(&arena);
}

static bool misses_something(const struct life *l, const struct model_watcher *w)
{
    for (size_t n = 0; n < l->count; n++)
        if (l->changes[n].revision >= w->next && concerns(w, &l->changes[n]))
            return true;
    return false;
}

/* --- watchers --- */

static struct model_watcher *find_watcher(struct model_stream *t, int64_t id)
{
    for (size_t n = 0; n < WATCHERS; n++)
        if (t->watchers[n].used && t->watchers[n].id == id)
            return &t->watchers[n];
    return NULL;
}

static void forget_watcher(struct model_watcher *w)
{
    buf_free(&w->run);
    *w = (struct model_watcher){0};
}

static void create(struct life *l, struct model_stream *t, struct model_watcher *w)
{
    int32_t filters[2] = {PB_WATCH_NO_PUT, PB_WATCH_NO_DELETE};
    size_t first = w->no_put ? 0 : 1;
    size_t count = (size_t)w->no_put + (size_t)w->no_delete;
    struct bytes end = {0};

    if (w->to == KEYS && w->from + 1 < w->to)
        end = BYTES("l");
    else if (w->from + 1 < w->to)
        end = key_name(w->to);
    w->used = true;
    w->next = w->start == 0 ? l->revision + 1 : w->start;
    struct pb_watch_create_request request = {
        .key = key_name(w->from),
        .range_end = end,
        .start_revision = w->start,
        .watch_id = w->id,
        .prev_kv = w->prev,
        .fragment = w->fragment,
        .progress_notify = w->progress,
        .filters = {filters + first, count},
    };
    watch_rig_create(&l->rig, t->s, &request);
}

static int64_t some_start(struct life *l)
{
    switch (below(l, 4)) {
    case 0:
        return 0;
    case 1:
        return l->revision + 1 + (int64_t)below(l, 5);
    case 2:
        return 1 + (int64_t)below(l, (uint64_t)l->revision);
    default:
        return l->revision - (int64_t)below(l, (uint64_t)l->revision < 10 ? 1 : 10);
    }
}

static void step_create(struct life *l, struct model_stream *t)
{
    struct model_watcher *w = &t->watchers[below(l, WATCHERS)];

    if (w->used || watch_stream_credit(t->s) == 0)
        return;
    w->id = (w - t->watchers) + 1;
    w->from = (unsigned)below(l, KEYS);
    w->to = chance(l, 1, 2) ? w->from + 1 : w->from + 1 + (unsigned)below(l, KEYS - w->from);
    w->no_put = chance(l, 1, 6);
    w->no_delete = chance(l, 1, 6);
    w->prev = chance(l, 1, 3);
    w->fragment = chance(l, 1, 3);
    w->progress = chance(l, 1, 3);
    w->start = some_start(l);
    create(l, t, w);
}

static void step_cancel(struct life *l, struct model_stream *t)
{
    int64_t id = 1 + (int64_t)below(l, WATCHERS);

    if (watch_stream_credit(t->s) > 0)
        watch_cancel(t->s, id);
    watch_check(l->rig.w);
}

/* --- streams --- */

static void close_stream(struct life *l, struct model_stream *t)
{
    watch_stream_close(t->s);
    watch_check(l->rig.w);
    for (size_t n = 0; n < WATCHERS; n++)
        buf_free(&t->watchers[n].run);
    t->s = NULL;
    t->owed = 0;
}

static void open_stream(struct life *l, struct model_stream *t)
{
    *t = (struct model_stream){0};
    t->s = watch_stream_open(l->rig.w, t, 64 + below(l, 3000), l->rig.now_ms);
}

/* The connection breaks, and the client comes back: each watcher goes on where it was. */
static void reconnect(struct life *l, struct model_stream *t)
{
    struct model_watcher before[WATCHERS];

    close_stream(l, t);
    memcpy(before, t->watchers, sizeof(before));
    open_stream(l, t);
    for (size_t n = 0; n < WATCHERS; n++) {
        struct model_watcher *w = &t->watchers[n];
        if (!before[n].used || before[n].ended)
            continue;
        *w = before[n];
        w->run = (struct buf){0};
        w->created = false;
        w->start = w->next;
        create(l, t, w);
    }
}

static void told_progress(struct life *l, struct model_watcher *w, int64_t revision)
{
    CHECK(w->created);
    CHECK(!w->ended);
    CHECK_EQ(w->run.len, 0);
    CHECK(revision >= w->start);
    check_events(l, w, (struct bytes){0}, revision);
}

static void told_canceled(struct life *l, struct model_watcher *w, const struct watch_message *m)
{
    CHECK(!m->cancel_reason);
    if (m->compact_revision == 0) { /* the client's own wish */
        CHECK(m->revision <= l->revision);
        forget_watcher(w);
        return;
    }
    CHECK_EQ(m->revision, 0);
    CHECK(m->compact_revision <= l->compacted);
    CHECK(w->next < m->compact_revision);
    CHECK(!w->ended);
    w->ended = true;
    l->canceled_seen++;
}

static void told_events(struct life *l, struct model_watcher *w, const struct watch_message *m,
                        struct bytes events)
{
    CHECK(w->created);
    CHECK(!w->ended);
    CHECK(!m->fragment || w->fragment);
    buf_append(&w->run, events);
    l->fragments_seen += m->fragment;
    if (m->fragment)
        return;
    check_events(l, w, buf_bytes(&w->run), m->revision);
    buf_clear(&w->run);
}

/* False if a long message was overtaken by compaction: the stream is of no use any more. */
static bool told(struct life *l, struct model_stream *t, struct watch_message *m)
{
    struct model_watcher *w = find_watcher(t, m->watch_id);
    struct buf events = {0};
    bool has_events = m->events || m->long_events;

    l->longs_seen += m->long_events != NULL;
    if (!watch_rig_read(m, &events)) {
        buf_free(&events);
        l->overtaken++;
        return false;
    }
    if (m->created) {
        CHECK(w && !w->created && !m->canceled && !has_events);
        w->created = true;
    } else if (m->canceled) {
        CHECK(w && w->created && !has_events);
        told_canceled(l, w, m);
    } else if (has_events) {
        CHECK(w);
        CHECK(events.len > 0);
        told_events(l, w, m, buf_bytes(&events));
    } else {
        for (size_t n = 0; n < WATCHERS; n++)
            if (m->watch_id == -1 ? t->watchers[n].created : &t->watchers[n] == w)
                told_progress(l, &t->watchers[n], m->revision);
        l->progress_seen++;
    }
    buf_free(&events);
    return true;
}

static bool take_one(struct life *l)
{
    struct watch_message m;

    if (!watch_take(l->rig.w, &m))
        return false;
    struct model_stream *t = watch_stream_context(m.stream);
    t->owed += m.bytes;
    if (!told(l, t, &m))
        reconnect(l, t);
    watch_check(l->rig.w);
    return true;
}

static void step_sent(struct life *l, struct model_stream *t)
{
    size_t bytes = chance(l, 1, 2) ? t->owed : (size_t)below(l, t->owed + 1);

    watch_sent(t->s, bytes);
    t->owed -= bytes;
    watch_check(l->rig.w);
}

/* --- lives --- */

static void step(struct life *l)
{
    struct model_stream *t = &l->streams[below(l, STREAMS)];
    uint64_t dice = below(l, 1000);

    if (dice < 350)
        step_change(l);
    else if (dice < 450)
        step_create(l, t);
    else if (dice < 470)
        step_cancel(l, t);
    else if (dice < 650)
        take_one(l);
    else if (dice < 750)
        step_sent(l, t);
    else if (dice < 950)
        watch_work(l->rig.w, 1 + (unsigned)below(l, 40), l->rig.now_ms);
    else if (dice < 970)
        watch_request_progress(t->s);
    else if (dice < 975)
        step_compact(l);
    else if (dice < 978)
        reconnect(l, t);
    else if (dice < 980)
        step_replace(l);
    else
        l->rig.now_ms += below(l, 120);
    watch_check(l->rig.w);
}

static void let_go(struct life *l)
{
    bool busy = true;

    while (busy) {
        watch_rig_settle(&l->rig, 100);
        busy = take_one(l);
        for (size_t n = 0; n < STREAMS; n++) {
            struct model_stream *t = &l->streams[n];
            watch_sent(t->s, t->owed);
            t->owed = 0;
        }
        busy = busy || !watch_work(l->rig.w, 0, l->rig.now_ms);
    }
}

static void check_nobody_misses_anything(struct life *l)
{
    CHECK_EQ(watch_status(l->rig.w).lagging, 0);
    for (size_t n = 0; n < STREAMS; n++) {
        for (size_t i = 0; i < WATCHERS; i++) {
            struct model_watcher *w = &l->streams[n].watchers[i];
            if (w->used)
                CHECK(w->created);
            if (w->used && !w->ended)
                CHECK(!misses_something(l, w));
            CHECK_EQ(w->run.len, 0);
        }
    }
}

static void live(struct life *l, uint64_t seed, unsigned steps)
{
    rng_seed(&l->rng, seed);
    struct watch_options options = {.fragment_bytes = chance(l, 1, 2) ? 200 : 100000,
                                    .progress_interval_ms = 100,
                                    .seed = seed};
    watch_rig_init(&l->rig, &options);
    l->revision = 1;
    for (size_t n = 0; n < STREAMS; n++)
        open_stream(l, &l->streams[n]);
    while (steps-- > 0)
        step(l);
    let_go(l);
    check_nobody_misses_anything(l);
    for (size_t n = 0; n < STREAMS; n++)
        close_stream(l, &l->streams[n]);
    watch_rig_free(&l->rig);
    mem_free(l->changes);
}

TEST(watchers_are_told_everything_once_and_in_order)
{
    struct life sum = {0};

    for (uint64_t n = 0; n < 12 * test_effort(); n++) {
        struct life l = {0};
        live(&l, test_seed() * 1000 + n, 1500);
        sum.events_seen += l.events_seen;
        sum.longs_seen += l.longs_seen;
        sum.fragments_seen += l.fragments_seen;
        sum.canceled_seen += l.canceled_seen;
        sum.progress_seen += l.progress_seen;
    }
    CHECK(sum.events_seen > 1000); /* the test has seen what it is about */
    CHECK(sum.longs_seen > 10);
    CHECK(sum.fragments_seen > 10);
    CHECK(sum.canceled_seen > 10);
    CHECK(sum.progress_seen > 10);
}
