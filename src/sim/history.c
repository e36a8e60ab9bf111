#include "sim/history.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void history_free(struct history *h)
{
    mem_free(h->ops);
    mem_free(h->events);
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

const char *history_key(unsigned key, char out[static HISTORY_KEY_BYTES])
{
    snprintf(out, HISTORY_KEY_BYTES, "k%02u", key);
    return out;
}

bool history_key_of(struct bytes key, unsigned *out)
{
    if (key.len != 3 || key.at[0] != 'k')
        return false;
    *out = (unsigned)(key.at[1] - '0') * 10 + (unsigned)(key.at[2] - '0');
    return *out < HISTORY_KEYS;
}

static uint64_t number_of(struct bytes value)
{
    uint64_t n = 0;

    for (size_t i = 0; i < value.len && value.at[i] != ' '; i++)
        n = n * 10 + (uint64_t)(value.at[i] - '0');
    return n;
}

/* --- operations --- */

uint64_t history_begin(struct history *h, enum history_kind kind, unsigned key)
{
    if (h->op_count == h->op_cap) {
        h->op_cap = h->op_cap ? 2 * h->op_cap : 256;
        h->ops = mem_resize(h->ops, h->op_cap, sizeof(*h->ops));
    }
    h->ops[h->op_count] = (struct history_op){.kind = kind, .key = key, .floor = h->told};
    return h->op_count++;
}

struct history_op *history_op(struct history *h, uint64_t op)
{
    assert(op < h->op_count);
    return &h->ops[op];
}

void history_done(struct history *h, uint64_t op, int64_t revision, bool wrote)
{
    struct history_op *o = history_op(h, op);

    if (revision < o->floor || (wrote && revision == o->floor))
        history_fail(h,
                     "operation %" PRIu64 " was told revision %" PRId64 ", but %" PRId64
                     " had been told before it began",
                     op, revision, o->floor);
    o->done = true;
    o->wrote = wrote;
    o->revision = revision;
    if (revision > h->told)
        h->told = revision;
}

void history_gave_up(struct history *h, uint64_t op)
{
    history_op(h, op)->done = true;
    history_op(h, op)->failed = true;
}

/* --- the witness --- */

/* The newest event of the key among the first `count`; NULL if there is none. */
static const struct history_event *newest(const struct history *h, unsigned key, size_t count)
{
    while (count-- > 0)
        if (h->events[count].key == key)
            return &h->events[count];
    return NULL;
}

static void check_life(struct history *h, const struct history_event *e,
                       const struct pb_key_value *kv)
{
    const struct history_event *before = newest(h, e->key, h->event_count);
    bool alive = before && !before->deleted;
    int64_t created = alive ? before->create_revision : e->revision;
    int64_t version = alive ? before->version + 1 : 1;

    if (e->deleted && !alive)
        history_fail(h, "key %u is deleted at %" PRId64 " but was not alive", e->key, e->revision);
    if (!e->deleted && (kv->create_revision != created || kv->version != version))
        history_fail(h,
                     "key %u at %" PRId64 ": created %" PRId64 " version %" PRId64
                     ", should be %" PRId64 " and %" PRId64,
                     e->key, e->revision, kv->create_revision, kv->version, created, version);
}

static void check_cause(struct history *h, const struct history_event *e)
{
    if (e->op >= h->op_count || h->ops[e->op].key != e->key ||
        (h->ops[e->op].kind != OP_PUT && h->ops[e->op].kind != OP_SWAP)) {
        history_fail(h, "event at %" PRId64 " has value %" PRIu64 ", which nobody has written",
                     e->revision, e->op);
        return;
    }
    struct history_op *o = &h->ops[e->op];
    if (o->seen)
        history_fail(h, "operation %" PRIu64 " happened twice, again at %" PRId64, e->op,
                     e->revision);
    if (e->revision <= o->floor)
        history_fail(h, "operation %" PRIu64 " happened at %" PRId64 ", before it began", e->op,
                     e->revision);
    o->seen = true;
}

int64_t history_last_of(const struct history *h, unsigned key)
{
    for (size_t at = h->event_count; at-- > 0;)
        if (key == HISTORY_KEYS || h->events[at].key == key)
            return h->events[at].revision;
    return 0;
}

bool history_event_of(const struct pb_event *pe, struct history_event *out)
{
    *out = (struct history_event){.deleted = pe->type == PB_EVENT_DELETE};
    if (!pe->kv || !history_key_of(pe->kv->key, &out->key))
        return false;
    out->revision = pe->kv->mod_revision;
    out->op = out->deleted ? UINT64_MAX : number_of(pe->kv->value);
    out->create_revision = pe->kv->create_revision;
    out->version = pe->kv->version;
    return true;
}

void history_witness(struct history *h, const struct pb_event *pe)
{
    struct history_event e;

    if (!history_event_of(pe, &e)) {
        history_fail(h, "an event of a key nobody has");
        return;
    }
    int64_t last = h->event_count ? h->events[h->event_count - 1].revision : 1;
    if (e.revision != last && e.revision != last + 1)
        history_fail(h, "the witness saw revision %" PRId64 " after %" PRId64, e.revision, last);
    check_life(h, &e, pe->kv);
    if (!e.deleted)
        check_cause(h, &e);
    if (h->event_count == h->event_cap) {
        h->event_cap = h->event_cap ? 2 * h->event_cap : 256;
        h->events = mem_resize(h->events, h->event_cap, sizeof(*h->events));
    }
    h->events[h->event_count++] = e;
    h->seen = e.revision;
}

/* --- reads --- */

/* How many events there are up to this revision. */
static size_t events_up_to(const struct history *h, int64_t revision)
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

/* Kept as: at, key, then for each kv key, mod revision, op; ended by UINT64_MAX. */
static void keep(struct buf *kept, uint64_t value)
{
    buf_append(kept, bytes_of(&value, sizeof(value)));
}

void history_read(struct history *h, const struct pb_range_response *r, unsigned key, int64_t at,
                  struct buf *kept)
{
    keep(kept, (uint64_t)at);
    keep(kept, key);
    for (size_t i = 0; i < r->kvs.count; i++) {
        unsigned which;
        if (!history_key_of(r->kvs.at[i].key, &which)) {
            history_fail(h, "a read shows a key nobody has");
            return;
        }
        keep(kept, which);
        keep(kept, (uint64_t)r->kvs.at[i].mod_revision);
        keep(kept, number_of(r->kvs.at[i].value));
    }
    keep(kept, UINT64_MAX);
}

static uint64_t next(struct bytes *kept)
{
    uint64_t value;

    assert(kept->len >= sizeof(value));
    memcpy(&value, kept->at, sizeof(value));
    *kept = bytes_of(kept->at + sizeof(value), kept->len - sizeof(value));
    return value;
}

static void check_read(struct history *h, struct bytes *kept)
{
    int64_t at = (int64_t)next(kept);
    unsigned asked = (unsigned)next(kept);
    size_t count = events_up_to(h, at);
    unsigned first = asked == HISTORY_KEYS ? 0 : asked;
    unsigned last = asked == HISTORY_KEYS ? HISTORY_KEYS : asked + 1;
    uint64_t shown = next(kept);

    for (unsigned key = first; key < last; key++) {
        const struct history_event *e = newest(h, key, count);
        bool alive = e && !e->deleted;
        bool is_shown = shown == key;
        if (alive != is_shown)
            history_fail(h, "a read at %" PRId64 " %s key %u", at,
                         is_shown ? "shows the dead" : "lacks", key);
        if (!is_shown)
            continue;
        uint64_t mod = next(kept);
        uint64_t op = next(kept);
        if (alive && ((int64_t)mod != e->revision || op != e->op))
            history_fail(
                h, "a read at %" PRId64 " shows key %u of revision %" PRIu64 " instead of %" PRId64,
                at, key, mod, e->revision);
        shown = next(kept);
    }
    if (shown != UINT64_MAX)
        history_fail(h, "a read at %" PRId64 " shows keys out of order", at);
}

void history_check_reads(struct history *h, struct bytes kept)
{
    while (kept.len > 0 && !h->failed)
        check_read(h, &kept);
}

void history_check_final(struct history *h, const struct pb_range_response *r)
{
    struct buf kept = {0};

    history_read(h, r, HISTORY_KEYS, INT64_MAX, &kept);
    if (!h->failed)
        history_check_reads(h, buf_bytes(&kept));
    buf_free(&kept);
}

/* --- watchers --- */

static bool concerns(const struct history_event *e, unsigned key)
{
    return key == HISTORY_KEYS || e->key == key;
}

void history_check_watch(struct history *h, const struct history_watch *w)
{
    const struct history_event *seen = (const void *)w->seen.at;
    size_t count = w->seen.len / sizeof(*seen);
    int64_t until = w->to_the_end ? INT64_MAX : count ? seen[count - 1].revision : w->from - 1;
    size_t n = 0;

    for (size_t at = events_up_to(h, w->from - 1); at < events_up_to(h, until); at++) {
        const struct history_event *e = &h->events[at];
        if (!concerns(e, w->key))
            continue;
        if (n == count) {
            history_fail(h, "a watcher of %u from %" PRId64 " never saw revision %" PRId64, w->key,
                         w->from, e->revision);
            return;
        }
        if (seen[n].revision != e->revision || seen[n].key != e->key || seen[n].op != e->op) {
            history_fail(h,
                         "a watcher of %u from %" PRId64 " saw revision %" PRId64
                         " where the history has %" PRId64,
                         w->key, w->from, seen[n].revision, e->revision);
            return;
        }
        n++;
    }
    if (n < count)
        history_fail(h,
                     "a watcher of %u from %" PRId64 " saw revision %" PRId64
                     ", which the history does not have there",
                     w->key, w->from, seen[n].revision);
}

/* --- the end --- */

static void check_op(struct history *h, uint64_t n)
{
    struct history_op *o = &h->ops[n];
    bool writes_value = o->kind == OP_PUT || o->kind == OP_SWAP;

    if (!o->done || o->failed || !o->wrote)
        return;
    if (writes_value && !o->seen)
        history_fail(h, "operation %" PRIu64 " was acknowledged at %" PRId64 " and is lost", n,
                     o->revision);
    size_t end = events_up_to(h, o->revision);
    bool there = false;
    while (end-- > 0 && h->events[end].revision == o->revision)
        there |= writes_value ? h->events[end].op == n
                              : h->events[end].deleted && concerns(&h->events[end], o->key);
    if (!there)
        history_fail(h, "operation %" PRIu64 " was told revision %" PRId64 ", where it is not", n,
                     o->revision);
}

void history_check_ops(struct history *h)
{
    for (uint64_t n = 0; n < h->op_count && !h->failed; n++)
        check_op(h, n);
}
