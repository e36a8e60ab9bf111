#include "sim/history.h"

#include "base/mem.h"
#include "io/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    EVENT_BYTES = 48,            /* what an event takes beyond key and value, at most */
    MESSAGE_BYTES_MIN = 64,      /* what a message takes of a watcher's credit, at least */
    CREDIT_BYTES = 24 * KIB,     /* a live watcher has more than that */
    FORGOTTEN_NS = 1 * NS_PER_S, /* one whose answer nobody waits for is over by then */
    PPM = 1000000,
};

void history_free(struct history *h)
{
    for (size_t i = 0; i < h->op_count; i++) {
        buf_free(&h->ops[i].request);
        buf_free(&h->ops[i].reply);
    }
    for (unsigned key = 0; key < HISTORY_ALL_KEYS; key++)
        mem_free(h->lines[key].at);
    mem_free(h->ops);
    mem_free(h->events);
    mem_free(h->leases);
    mem_free(h->hashes);
    for (size_t i = 0; i < h->image_count; i++)
        mem_free(h->images[i].kvs);
    mem_free(h->images);
}

void history_fail(struct history *h, const char *format, ...)
{
    va_list args;

    if (h->failed)
        return; /* the first one is the one to look at */
    h->failed = true;
    va_start(args, format);
    vsnprintf(h->problem, sizeof(h->problem), format, args);
    va_end(args);
}

/* --- keys and values --- */

const char *history_key(unsigned key, char out[static HISTORY_KEY_BYTES])
{
    if (key < HISTORY_KEYS)
        snprintf(out, HISTORY_KEY_BYTES, "k%02u", key);
    else
        snprintf(out, HISTORY_KEY_BYTES, "z%04u", (key - HISTORY_KEYS) % 10000);
    return out;
}

bool history_key_of(struct bytes key, unsigned *out)
{
    unsigned number = 0;
    bool is_herd = key.len == 5 && key.at[0] == 'z';

    if (!is_herd && (key.len != 3 || key.at[0] != 'k'))
        return false;
    for (size_t i = 1; i < key.len; i++)
        number = number * 10 + (unsigned)(key.at[i] - '0');
    *out = is_herd ? HISTORY_KEYS + number : number;
    return is_herd ? number < HERD_KEYS : number < HISTORY_KEYS;
}

uint64_t history_number(struct bytes value)
{
    uint64_t n = 0;

    for (size_t i = 0; i < value.len && value.at[i] != ' '; i++)
        n = n * 10 + (uint64_t)(value.at[i] - '0');
    return n;
}

/* --- operations --- */

const char *history_kind_name(enum history_kind kind)
{
    static const char *const names[] = {
        [OP_PUT] = "put",      [OP_DELETE] = "delete",          [OP_TXN] = "txn",
        [OP_RANGE] = "range",  [OP_KEYS] = "keys of a lease",   [OP_REVOKE] = "revoke",
        [OP_GRANT] = "grant",  [OP_RENEW] = "renewal",          [OP_OTHER] = "other",
        [OP_HASH_KV] = "hash", [OP_MAINTENANCE] = "maintenance"};

    assert((size_t)kind < ARRAY_LEN(names));
    return names[kind];
}

uint64_t history_begin(struct history *h, enum history_kind kind, struct bytes request)
{
    if (h->op_count == h->op_cap) {
        h->op_cap = h->op_cap ? 2 * h->op_cap : 256;
        h->ops = mem_resize(h->ops, h->op_cap, sizeof(*h->ops));
    }
    struct history_op *o = &h->ops[h->op_count];
    *o = (struct history_op){.kind = kind, .floor = h->told, .began_ns = h->now_ns};
    buf_append(&o->request, request);
    return h->op_count++;
}

struct history_op *history_op(struct history *h, uint64_t op)
{
    assert(op < h->op_count);
    return &h->ops[op];
}

void history_done(struct history *h, uint64_t op, int64_t revision, struct bytes reply, bool stale)
{
    struct history_op *o = history_op(h, op);

    if (revision < o->floor && !stale)
        history_fail(h,
                     "operation %" PRIu64 " was told revision %" PRId64 ", but %" PRId64
                     " had been told before it began",
                     op, revision, o->floor);
    o->done = true;
    o->over_ns = h->now_ns;
    o->revision = revision;
    buf_append(&o->reply, reply);
    if (revision > h->told)
        h->told = revision;
}

void history_sent(struct history *h, uint64_t op, unsigned member)
{
    struct history_op *o = history_op(h, op);

    o->repeated = o->is_sent;
    o->is_sent = true;
    o->member = member;
}

/* A renewal may still be on its way when nobody waits for it any more. */
static void may_be_renewed(struct history *h, int64_t id)
{
    struct history_lease *l = history_lease(h, id);

    if (l)
        l->may_be_renewed_ns = h->now_ns + FORGOTTEN_NS;
}

void history_gave_up(struct history *h, uint64_t op)
{
    struct history_op *o = history_op(h, op);

    o->done = true;
    o->failed = true;
    o->over_ns = h->now_ns;
    if (o->kind == OP_RENEW)
        may_be_renewed(h, o->lease);
}

void history_refused(struct history *h, uint64_t op)
{
    history_gave_up(h, op);
    history_op(h, op)->refused = true;
}

/* --- leases --- */

struct history_lease *history_lease(struct history *h, int64_t id)
{
    for (size_t i = 0; i < h->lease_count; i++)
        if (h->leases[i].id == id)
            return &h->leases[i];
    return NULL;
}

void history_granted(struct history *h, uint64_t op, int64_t id, int64_t ttl)
{
    if (history_lease(h, id))
        history_fail(h, "lease %" PRIx64 " was granted twice", (uint64_t)id);
    if (h->lease_count == h->lease_cap) {
        h->lease_cap = h->lease_cap ? 2 * h->lease_cap : 16;
        h->leases = mem_resize(h->leases, h->lease_cap, sizeof(*h->leases));
    }
    h->leases[h->lease_count++] =
        (struct history_lease){.id = id, .ttl = ttl, .renewed_ns = history_op(h, op)->began_ns};
}

/* By a clock that goes wrong: it shows so many seconds after no less, or no more, than this. */
static uint64_t seconds_at_least(const struct history *h, int64_t seconds)
{
    return (uint64_t)seconds * (NS_PER_S - h->clock_ppm_max * (NS_PER_S / PPM));
}

static uint64_t seconds_at_most(const struct history *h, int64_t seconds)
{
    return (uint64_t)seconds * (NS_PER_S + 2 * h->clock_ppm_max * (NS_PER_S / PPM));
}

/* Before this nobody may have ended it. */
static uint64_t lease_end_ns(const struct history *h, const struct history_lease *l)
{
    return l->renewed_ns + seconds_at_least(h, l->ttl);
}

void history_lease_is_gone(struct history *h, int64_t id)
{
    const struct history_lease *l = history_lease(h, id);

    if (l && !l->may_be_revoked && h->now_ns < lease_end_ns(h, l))
        history_fail(h, "lease %" PRIx64 " is gone before its time", (uint64_t)id);
}

void history_renewed(struct history *h, uint64_t op, int64_t id, int64_t ttl)
{
    struct history_lease *l = history_lease(h, id);

    if (ttl <= 0)
        history_lease_is_gone(h, id);
    else if (l && ttl != l->ttl)
        history_fail(h, "lease %" PRIx64 " of %" PRId64 " s was renewed for %" PRId64, (uint64_t)id,
                     l->ttl, ttl);
    else
        history_op(h, op)->is_renewed = true;
    if (l && ttl > 0) {
        l->renewed_ns = history_op(h, op)->began_ns;
        may_be_renewed(h, id);
    }
}

/* --- hashes --- */

/* The newest is that of a moment between the question and the answer. */
static void check_hash_revision(struct history *h, int64_t asked, int64_t floor,
                                const struct pb_hash_kv_response *r)
{
    if (asked > 0 ? r->hash_revision != asked : r->hash_revision < floor)
        history_fail(h, "asked for the hash at %" PRId64 ", a member gave that at %" PRId64,
                     asked > 0 ? asked : floor, r->hash_revision);
    if (r->hash_revision > r->header->revision || r->compact_revision > r->hash_revision)
        history_fail(h, "a member at %" PRId64 " gave a hash of %" PRId64 " to %" PRId64,
                     r->header->revision, r->compact_revision, r->hash_revision);
}

static void add_hash(struct history *h, const struct history_hash *hash)
{
    if (h->hash_count == h->hash_cap) {
        h->hash_cap = h->hash_cap ? 2 * h->hash_cap : 16;
        h->hashes = mem_resize(h->hashes, h->hash_cap, sizeof(*h->hashes));
    }
    h->hashes[h->hash_count++] = *hash;
}

void history_hashed(struct history *h, unsigned member, int64_t asked, int64_t floor,
                    const struct pb_hash_kv_response *r)
{
    check_hash_revision(h, asked, floor, r);
    add_hash(h, &(struct history_hash){.revision = r->hash_revision,
                                       .compact_revision = r->compact_revision,
                                       .hash = r->hash,
                                       .member = member});
}

/* --- images --- */

void history_restored(struct history *h, unsigned member, int64_t floor,
                      const struct history_image *image)
{
    if (image->index == 0)
        history_fail(h, "a backup at revision %" PRId64 " says of no entry that it has it",
                     image->revision);
    if (image->revision < floor)
        history_fail(h, "a backup is of revision %" PRId64 ", but its member had been at %" PRId64,
                     image->revision, floor);
    h->images = mem_resize(h->images, h->image_count + 1, sizeof(*h->images));
    h->images[h->image_count] = *image;
    h->images[h->image_count++].member = member;
    add_hash(h, &(struct history_hash){.revision = image->revision,
                                       .compact_revision = image->compact_revision,
                                       .hash = image->hash,
                                       .member = member});
}

/* --- the witness --- */

/* Mostly it is the last; a judge asks for any. */
const struct history_event *history_newest(const struct history *h, unsigned key, size_t count)
{
    const struct history_line *line = &h->lines[key];
    size_t low = 0, high = line->count;

    if (high > 0 && line->at[high - 1] < count)
        low = high;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (line->at[middle] < count)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &h->events[line->at[low - 1]] : NULL;
}

/* The event that comes next is one of this key. Returns the key's event before it, plus one. */
static size_t add_to_line(struct history *h, unsigned key)
{
    struct history_line *line = &h->lines[key];

    if (line->count == line->cap) {
        line->cap = line->cap ? 2 * line->cap : 16;
        line->at = mem_resize(line->at, line->cap, sizeof(*line->at));
    }
    line->at[line->count++] = h->event_count;
    return line->count > 1 ? line->at[line->count - 2] + 1 : 0;
}

static void check_life(struct history *h, const struct history_event *e)
{
    const struct history_event *before = history_newest(h, e->key, h->event_count);
    bool alive = before && !before->deleted;
    int64_t created = alive ? before->create_revision : e->revision;
    int64_t version = alive ? before->version + 1 : 1;

    if (e->deleted && !alive)
        history_fail(h, "key %u is deleted at %" PRId64 " but was not alive", e->key, e->revision);
    if (!e->deleted && (e->create_revision != created || e->version != version))
        history_fail(h,
                     "key %u at %" PRId64 ": created %" PRId64 " version %" PRId64
                     ", should be %" PRId64 " and %" PRId64,
                     e->key, e->revision, e->create_revision, e->version, created, version);
}

static void check_cause(struct history *h, const struct history_event *e)
{
    struct history_op *o = e->op < h->op_count ? &h->ops[e->op] : NULL;

    if (!o || (o->kind != OP_PUT && o->kind != OP_TXN)) {
        history_fail(h, "event at %" PRId64 " has value %" PRIu64 ", which nobody has written",
                     e->revision, e->op);
        return;
    }
    if (o->seen != 0 && o->seen != e->revision)
        history_fail(h, "operation %" PRIu64 " happened twice, again at %" PRId64, e->op,
                     e->revision);
    if (e->revision <= o->floor)
        history_fail(h, "operation %" PRIu64 " happened at %" PRId64 ", before it began", e->op,
                     e->revision);
    o->seen = e->revision;
}

static bool event_of(const struct pb_event *pe, struct history_event *out)
{
    *out = (struct history_event){.deleted = pe->type == PB_EVENT_DELETE};
    if (!pe->kv || !history_key_of(pe->kv->key, &out->key))
        return false;
    out->revision = pe->kv->mod_revision;
    out->op = out->deleted ? UINT64_MAX : history_number(pe->kv->value);
    out->create_revision = pe->kv->create_revision;
    out->version = pe->kv->version;
    out->lease = pe->kv->lease;
    out->bytes = pe->kv->key.len + pe->kv->value.len;
    return true;
}

void history_witness(struct history *h, const struct pb_event *pe)
{
    struct history_event e;

    if (!event_of(pe, &e)) {
        history_fail(h, "an event of a key nobody has");
        return;
    }
    int64_t last = h->event_count ? h->events[h->event_count - 1].revision : 1;
    if (e.revision != last && e.revision != last + 1)
        history_fail(h, "the witness saw revision %" PRId64 " after %" PRId64, e.revision, last);
    check_life(h, &e);
    if (!e.deleted)
        check_cause(h, &e);
    if (h->event_count == h->event_cap) {
        h->event_cap = h->event_cap ? 2 * h->event_cap : 256;
        h->events = mem_resize(h->events, h->event_cap, sizeof(*h->events));
    }
    e.seen_ns = h->now_ns;
    e.before = add_to_line(h, e.key);
    h->events[h->event_count++] = e;
    h->seen = e.revision;
    if (e.revision > h->told)
        h->told = e.revision;
}

size_t history_up_to(const struct history *h, int64_t revision)
{
    size_t low = 0, high = h->event_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (h->events[middle].revision <= revision)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- cutting --- */

/* How many bytes of events an operation may cause. */
static size_t cost_of(const struct history *h, const struct history_op *o)
{
    size_t cost = MESSAGE_BYTES_MIN + o->request.len;
    bool deletes_herd = o->kind == OP_DELETE && memchr(o->request.at, 'z', o->request.len) != NULL;

    if (o->kind > OP_REVOKE || o->kind == OP_RANGE || o->kind == OP_KEYS)
        return 0;
    for (unsigned key = 0; key < HISTORY_ALL_KEYS && o->kind == OP_REVOKE; key++) {
        const struct history_event *e = history_newest(h, key, h->event_count);
        if (e && e->lease == o->lease)
            cost += EVENT_BYTES / 2;
    }
    /* A delete's event has neither value nor numbers but one. */
    return cost + (deletes_herd ? HERD_KEYS : HISTORY_KEYS) * (size_t)(EVENT_BYTES / 2);
}

static bool is_under_way(const struct history *h, const struct history_op *o)
{
    if (!o->done)
        return true;
    if (o->refused)
        return false;
    return o->failed ? h->now_ns < o->began_ns + FORGOTTEN_NS : o->revision > h->seen;
}

bool history_may_cut(const struct history *h)
{
    size_t cost = 0;

    if (h->connections_break || h->has_installs || !h->witness_is_live)
        return false;
    for (size_t i = 0; i < h->op_count; i++)
        if (is_under_way(h, &h->ops[i]))
            cost += cost_of(h, &h->ops[i]);
    return cost < CREDIT_BYTES;
}

/* --- watchers --- */

bool history_watch_saw(struct history *h, struct history_watch *w, const struct pb_event *e,
                       bool joined)
{
    struct history_seen seen = {.joined = joined, .compacted = h->compacted};

    if (!event_of(e, &seen.event))
        return false;
    if (e->prev_kv) {
        seen.has_prev = true;
        seen.prev_revision = e->prev_kv->mod_revision;
        seen.prev_op = history_number(e->prev_kv->value);
    }
    buf_append(&w->seen, bytes_of(&seen, sizeof(seen)));
    if (seen.event.revision > h->told) /* a lease that has ended is told of by its events alone */
        h->told = seen.event.revision;
    return true;
}

void history_watch_progress(struct history_watch *w, int64_t revision)
{
    struct history_progress p = {revision, w->seen.len / sizeof(struct history_seen)};

    buf_append(&w->told, bytes_of(&p, sizeof(p)));
}

static bool concerns(const struct history_watch *w, const struct history_event *e)
{
    return e->revision >= w->from && e->key >= w->from_key && e->key < w->to_key &&
           !(e->deleted ? w->no_deletes : w->no_puts);
}

bool history_watch_is_done(const struct history *h, const struct history_watch *w)
{
    const struct history_seen *seen = (const void *)w->seen.at;
    size_t count = w->seen.len / sizeof(*seen);
    int64_t last = count ? seen[count - 1].event.revision : w->from - 1;

    for (size_t at = h->event_count; at > 0 && h->events[at - 1].revision > last; at--)
        if (concerns(w, &h->events[at - 1]))
            return false;
    return true;
}

static void check_prev(struct history *h, const struct history_watch *w,
                       const struct history_seen *s)
{
    const struct history_event *before =
        history_newest(h, s->event.key, history_up_to(h, s->event.revision - 1));
    bool alive = before && !before->deleted;

    if (s->has_prev &&
        (!w->prev_kv || !alive || s->prev_revision != before->revision || s->prev_op != before->op))
        history_fail(h,
                     "a watcher was shown revision %" PRId64 " as what key %u was before %" PRId64,
                     s->prev_revision, s->event.key, s->event.revision);
    if (!s->has_prev && w->prev_kv && alive && s->event.revision > s->compacted)
        history_fail(h, "a watcher was not shown what key %u was before %" PRId64, s->event.key,
                     s->event.revision);
}

static void check_progress(struct history *h, const struct history_watch *w)
{
    const struct history_seen *seen = (const void *)w->seen.at;
    const struct history_progress *told = (const void *)w->told.at;
    size_t count = w->seen.len / sizeof(*seen);

    for (size_t i = 0; i < w->told.len / sizeof(*told); i++)
        if (told[i].count < count && seen[told[i].count].event.revision <= told[i].revision)
            history_fail(h,
                         "a watcher was told of progress up to %" PRId64 ", and then of %" PRId64,
                         told[i].revision, seen[told[i].count].event.revision);
}

static bool is_same(const struct history_event *a, const struct history_event *b)
{
    return a->revision == b->revision && a->key == b->key && a->op == b->op &&
           a->lease == b->lease && a->version == b->version &&
           a->create_revision == b->create_revision;
}

/* If all that happened from when it was live until history was cut fits into its credit, it was
 * live then, too. */
static void check_cut(struct history *h, const struct history_watch *w)
{
    size_t bytes = 0;

    if (w->cut_at == 0 || w->live_at == 0)
        return;
    size_t end = history_up_to(h, w->cut_at);
    for (size_t at = history_up_to(h, w->live_at); at < end; at++) {
        const struct history_event *e = &h->events[at];
        if (concerns(w, e))
            bytes += MESSAGE_BYTES_MIN + e->bytes;
        if (concerns(w, e) && w->prev_kv && e->before > 0)
            bytes += EVENT_BYTES + h->events[e->before - 1].bytes;
    }
    if (bytes < CREDIT_BYTES)
        history_fail(h,
                     "a watcher of %u to %u was live at %" PRId64
                     ", and was canceled by a compaction at %" PRId64,
                     w->from_key, w->to_key, w->live_at, w->cut_at);
}

/* It has seen, or was told that it has seen, everything up to this revision. */
static int64_t watched_until(const struct history_watch *w)
{
    const struct history_seen *seen = (const void *)w->seen.at;
    const struct history_progress *told = (const void *)w->told.at;
    size_t seen_count = w->seen.len / sizeof(*seen), told_count = w->told.len / sizeof(*told);
    int64_t until = seen_count ? seen[seen_count - 1].event.revision : 0;

    for (size_t i = 0; i < told_count; i++)
        if (told[i].revision > until)
            until = told[i].revision;
    return until;
}

void history_check_watch(struct history *h, const struct history_watch *w)
{
    const struct history_seen *seen = (const void *)w->seen.at;
    size_t count = w->seen.len / sizeof(*seen), n = 0;
    size_t end = history_up_to(h, w->to_the_end ? INT64_MAX : watched_until(w));

    for (size_t at = history_up_to(h, w->from - 1); at < end && !h->failed; at++) {
        const struct history_event *e = &h->events[at];
        if (!concerns(w, e))
            continue;
        if (n == count) {
            history_fail(h, "a watcher of %u from %" PRId64 " never saw revision %" PRId64,
                         w->from_key, w->from, e->revision);
            return;
        }
        if (!is_same(&seen[n].event, e))
            history_fail(h,
                         "a watcher of %u from %" PRId64 " saw revision %" PRId64
                         " where the history has %" PRId64,
                         w->from_key, w->from, seen[n].event.revision, e->revision);
        if (n > 0 && seen[n].event.revision == seen[n - 1].event.revision && !seen[n].joined)
            history_fail(h, "a watcher saw revision %" PRId64 " in two pieces", e->revision);
        check_prev(h, w, &seen[n]);
        n++;
    }
    if (n < count)
        history_fail(h,
                     "a watcher of %u from %" PRId64 " saw revision %" PRId64
                     ", which the history does not have there",
                     w->from_key, w->from, seen[n].event.revision);
    check_progress(h, w);
    check_cut(h, w);
}

/* --- the end --- */

static void lease_was_revoked(struct history *h, const struct history_op *o)
{
    struct history_lease *l = history_lease(h, o->lease);

    if (l)
        l->ended_at = o->revision;
}

/* One that was answered: it has changed nothing, or it is the cause of its revision. */
static void check_answered(struct history *h, uint64_t n, uint64_t *cause)
{
    struct history_op *o = &h->ops[n];
    size_t at = history_up_to(h, o->revision - 1);

    if (o->kind == OP_KEYS && h->members > 1 ? judge_keys(h, o) : judge_reads(h, o))
        return;
    if (o->seen != 0 && o->seen != o->revision)
        history_fail(h, "operation %" PRIu64 " was told revision %" PRId64 ", but is at %" PRId64,
                     n, o->revision, o->seen);
    else if (at == h->event_count || h->events[at].revision != o->revision)
        history_fail(h, "operation %" PRIu64 " was told revision %" PRId64 " and is lost", n,
                     o->revision);
    else if (o->revision <= o->floor || !judge_writes(h, o, at))
        history_fail(h,
                     "operation %" PRIu64 " (%s) was answered at revision %" PRId64
                     " with something else than what it does",
                     n, history_kind_name(o->kind), o->revision);
    else if (cause[at] != UINT64_MAX)
        history_fail(h, "operations %" PRIu64 " and %" PRIu64 " both have revision %" PRId64,
                     cause[at], n, o->revision);
    else {
        cause[at] = n;
        if (o->kind == OP_REVOKE)
            lease_was_revoked(h, o);
    }
}

/* One that was not answered, but whose value is there. */
static void check_seen(struct history *h, uint64_t n, uint64_t *cause)
{
    struct history_op *o = &h->ops[n];
    size_t at = history_up_to(h, o->seen - 1);

    if (o->refused)
        history_fail(h, "operation %" PRIu64 " was refused, and has happened at %" PRId64, n,
                     o->seen);
    if (cause[at] != UINT64_MAX || !judge_writes(h, o, at))
        history_fail(h, "operation %" PRIu64 " has happened at %" PRId64 " in part", n, o->seen);
    cause[at] = n;
}

static bool is_answered(const struct history_op *o)
{
    return o->done && !o->failed && o->kind <= OP_REVOKE;
}

static void find_causes(struct history *h, uint64_t *cause)
{
    for (uint64_t n = 0; n < h->op_count && !h->failed; n++)
        if (is_answered(&h->ops[n]))
            check_answered(h, n, cause);
    for (uint64_t n = 0; n < h->op_count && !h->failed; n++)
        if (h->ops[n].seen != 0 && !is_answered(&h->ops[n]))
            check_seen(h, n, cause);
}

/* All keys of one lease, and no others. */
static bool is_end_of_lease(struct history *h, size_t at, int64_t *lease)
{
    const struct history_event *first = history_newest(h, h->events[at].key, at);
    size_t next = at;

    *lease = first ? first->lease : 0;
    for (unsigned key = 0; key < HISTORY_ALL_KEYS && *lease != 0; key++) {
        const struct history_event *e = history_newest(h, key, at);
        if (!e || e->deleted || e->lease != *lease)
            continue;
        if (next == h->event_count || h->events[next].revision != h->events[at].revision ||
            h->events[next].key != key)
            return false;
        next++;
    }
    return *lease != 0 &&
           (next == h->event_count || h->events[next].revision != h->events[at].revision);
}

/* Somebody could have ended it then. */
static bool is_due(const struct history *h, const struct history_lease *l, size_t at)
{
    return !l || l->may_be_revoked || h->events[at].seen_ns >= lease_end_ns(h, l);
}

static void check_lease_end(struct history *h, size_t at)
{
    int64_t id, revision = h->events[at].revision;

    if (!is_end_of_lease(h, at, &id)) {
        history_fail(h, "nobody has deleted what is deleted at %" PRId64, revision);
        return;
    }
    struct history_lease *l = history_lease(h, id);
    if (!l)
        return; /* its grant was never answered: nobody knows since when */
    if (l->ended_at != 0)
        history_fail(h, "lease %" PRIx64 " ends again at %" PRId64, (uint64_t)id, revision);
    if (!is_due(h, l, at))
        history_fail(h, "lease %" PRIx64 " ends at %" PRId64 ", before its time", (uint64_t)id,
                     revision);
    l->ended_at = revision;
}

/* --- who has deleted what --- */

/*
 * Deletes leave no name behind. Those whose answer never came may have happened at any of several
 * revisions, and each of those may have several that fit: so they are paired, with as many pairs as
 * there can be (augmenting paths). First the revisions that must have one, since a pair that is
 * made may change its partner later, but never loses it; then those that may be the end of a lease.
 */
struct pairs {
    struct history *h;
    uint64_t *op_of;  /* by event: the operation that is its cause, or UINT64_MAX */
    size_t *event_of; /* by operation: the event, plus one */
    bool *is_tried;   /* by operation, in this search */
};

static bool may_have_deleted(const struct history *h, const struct history_op *o, size_t at)
{
    return o->failed && !o->refused && o->seen == 0 && o->floor < h->events[at].revision &&
           (o->kind == OP_DELETE || o->kind == OP_TXN || o->kind == OP_REVOKE);
}

/* NOLINTNEXTLINE(misc-no-recursion): no deeper than there are operations without an answer */
static bool find_pair(struct pairs *p, size_t at)
{
    for (uint64_t n = 0; n < p->h->op_count; n++) {
        struct history_op *o = &p->h->ops[n];
        if (p->is_tried[n] || !may_have_deleted(p->h, o, at) || !judge_writes(p->h, o, at))
            continue;
        p->is_tried[n] = true;
        if (p->event_of[n] == 0 || find_pair(p, p->event_of[n] - 1)) {
            p->event_of[n] = at + 1;
            p->op_of[at] = n;
            return true;
        }
    }
    return false;
}

static bool find_delete(struct pairs *p, size_t at)
{
    for (size_t n = 0; n < p->h->op_count; n++)
        p->is_tried[n] = false;
    return find_pair(p, at);
}

static bool may_be_lease_end(struct history *h, size_t at)
{
    int64_t id;

    return is_end_of_lease(h, at, &id) && is_due(h, history_lease(h, id), at);
}

static void pair_deletes(struct pairs *p, bool leases)
{
    struct history *h = p->h;

    for (size_t at = 0; at < h->event_count && !h->failed; at++) {
        bool begins = at == 0 || h->events[at].revision != h->events[at - 1].revision;
        if (!begins || p->op_of[at] != UINT64_MAX || may_be_lease_end(h, at) != leases)
            continue;
        if (!h->events[at].deleted)
            history_fail(h, "nobody has written what is at %" PRId64, h->events[at].revision);
        else if (!find_delete(p, at))
            check_lease_end(h, at);
    }
}

static void check_revisions(struct history *h, uint64_t *cause)
{
    struct pairs p = {
        .h = h,
        .op_of = cause,
        .event_of = mem_new_array(h->op_count + 1, size_t),
        .is_tried = mem_new_array(h->op_count + 1, bool),
    };

    pair_deletes(&p, false);
    pair_deletes(&p, true);
    mem_free(p.event_of);
    mem_free(p.is_tried);
}

/* --- leases at the end --- */

static void check_leases(struct history *h)
{
    for (unsigned key = 0; key < HISTORY_ALL_KEYS && !h->failed; key++) {
        const struct history_event *e = history_newest(h, key, h->event_count);
        const struct history_lease *l = e && !e->deleted ? history_lease(h, e->lease) : NULL;
        if (!l)
            continue;
        uint64_t from_ns = h->leader_began_ns > h->healed_ns ? h->leader_began_ns : h->healed_ns;
        if (from_ns < l->renewed_ns)
            from_ns = l->renewed_ns;
        if (from_ns < l->may_be_renewed_ns)
            from_ns = l->may_be_renewed_ns;
        if (h->now_ns > from_ns + seconds_at_most(h, l->ttl) + h->lease_late_ns)
            history_fail(h, "lease %" PRIx64 " should have ended, and key %u is still there",
                         (uint64_t)l->id, key);
    }
}

/* A renewal names a revision that its member had reached when it was asked for. */
static void check_renewals(struct history *h)
{
    for (uint64_t n = 0; n < h->op_count && !h->failed; n++) {
        const struct history_op *o = &h->ops[n];
        const struct history_lease *l =
            o->kind == OP_RENEW && o->is_renewed ? history_lease(h, o->lease) : NULL;
        if (l && l->ended_at != 0 && (o->revision >= l->ended_at || o->floor >= l->ended_at))
            history_fail(h,
                         "lease %" PRIx64 " ended at %" PRId64 ", and operation %" PRIu64
                         ", begun at %" PRId64 ", has renewed it at %" PRId64,
                         (uint64_t)l->id, l->ended_at, n, o->floor, o->revision);
    }
}

/* --- hashes at the end --- */

static bool is_any_alive(const struct history *h, int64_t revision)
{
    size_t count = history_up_to(h, revision);

    for (unsigned key = 0; key < HISTORY_ALL_KEYS; key++) {
        const struct history_event *e = history_newest(h, key, count);
        if (e && !e->deleted)
            return true;
    }
    return false;
}

static const struct history_hash *find_hash(const struct history *h, size_t count,
                                            const struct history_hash *like)
{
    for (size_t i = 0; i < count; i++)
        if (h->hashes[i].revision == like->revision &&
            h->hashes[i].compact_revision == like->compact_revision)
            return &h->hashes[i];
    return NULL;
}

/* Where no key was alive etcd has two hashes, and so have we: one by the compaction at that
 * revision, to which the tombstones there count as kept, and one by whoever asks before it. */
static void check_hashes(struct history *h)
{
    for (size_t i = 0; i < h->hash_count && !h->failed; i++) {
        const struct history_hash *now = &h->hashes[i], *before = find_hash(h, i, now);
        if (!before)
            continue;
        h->hashes_compared++;
        if (before->hash != now->hash && is_any_alive(h, now->revision))
            history_fail(h,
                         "the hash at %" PRId64 ", compacted at %" PRId64 ", is %08" PRIx32
                         " by member %u, and was %08" PRIx32 " by member %u",
                         now->revision, now->compact_revision, now->hash, now->member, before->hash,
                         before->member);
    }
}

/* --- images at the end --- */

/* Which key is the first to differ; HISTORY_ALL_KEYS if none. */
static unsigned find_difference(const struct history *h, const struct history_image *image)
{
    size_t count = history_up_to(h, image->revision), n = 0;

    for (unsigned key = 0; key < HISTORY_ALL_KEYS; key++) {
        const struct history_event *e = history_newest(h, key, count);
        bool is_there = n < image->kv_count && image->kvs[n].key == key;
        if (is_there != (e && !e->deleted) || (is_there && !is_same(&image->kvs[n], e)))
            return key;
        n += is_there;
    }
    return HISTORY_ALL_KEYS;
}

void history_check_images(struct history *h)
{
    for (size_t i = 0; i < h->image_count && !h->failed; i++) {
        const struct history_image *image = &h->images[i];
        unsigned key = find_difference(h, image);
        if (image->revision > h->seen)
            history_fail(h, "a backup is of revision %" PRId64 ", and there are %" PRId64,
                         image->revision, h->seen);
        else if (key < HISTORY_ALL_KEYS)
            history_fail(h,
                         "a backup of member %u at revision %" PRId64
                         ", restored, has something else at key %u than there was",
                         image->member, image->revision, key);
        for (size_t n = 0; n < i; n++)
            if (h->images[n].index == image->index && h->images[n].revision != image->revision)
                history_fail(
                    h, "backups of entry %" PRIu64 " are of revisions %" PRId64 " and %" PRId64,
                    image->index, h->images[n].revision, image->revision);
    }
}

void history_check(struct history *h)
{
    uint64_t *cause = mem_new_array(h->event_count + 1, uint64_t);

    for (size_t i = 0; i <= h->event_count; i++)
        cause[i] = UINT64_MAX;
    find_causes(h, cause);
    check_revisions(h, cause);
    check_leases(h);
    check_renewals(h);
    check_hashes(h);
    history_check_images(h);
    mem_free(cause);
}
