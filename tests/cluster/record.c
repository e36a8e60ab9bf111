#include "cluster/record.h"

#include "base/assert.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void record_free(struct record *r)
{
    for (unsigned key = 0; key < RECORD_KEYS; key++) {
        mem_free(r->of_key[key].at);
        mem_free(r->deletes[key].at);
    }
    mem_free(r->ops);
    mem_free(r->events);
    mem_free(r->shown);
    *r = (struct record){0};
}

void record_fail(struct record *r, const char *format, ...)
{
    va_list args;

    if (r->problem[0])
        return; /* the first one is the one to look at */
    va_start(args, format);
    vsnprintf(r->problem, sizeof(r->problem), format, args);
    va_end(args);
}

static void *grown(void *at, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return at;
    *cap = *cap ? 2 * *cap : 64;
    return mem_resize(at, *cap, size);
}

static void list_add(struct record_list *l, size_t number)
{
    l->at = grown(l->at, l->count, &l->cap, sizeof(*l->at));
    l->at[l->count++] = number;
}

const char *record_key(unsigned key, char out[static RECORD_KEY_BYTES])
{
    assert(key < RECORD_KEYS);
    snprintf(out, RECORD_KEY_BYTES, "r/k%02u", key);
    return out;
}

bool record_key_of(struct bytes name, unsigned *out)
{
    char text[RECORD_KEY_BYTES];

    for (*out = 0; *out < RECORD_KEYS; (*out)++)
        if (bytes_equal(name, bytes_of_str(record_key(*out, text))))
            return true;
    return false;
}

static uint64_t number_of(struct bytes value)
{
    uint64_t n = 0;

    if (value.len == 0 || value.at[0] < '0' || value.at[0] > '9')
        return UINT64_MAX; /* none of ours */
    for (size_t i = 0; i < value.len && value.at[i] >= '0' && value.at[i] <= '9'; i++)
        n = n * 10 + (uint64_t)(value.at[i] - '0');
    return n;
}

static bool kv_of(const struct pb_key_value *kv, struct record_kv *out)
{
    *out = (struct record_kv){.mod = kv->mod_revision,
                              .create = kv->create_revision,
                              .version = kv->version,
                              .value = number_of(kv->value)};
    return record_key_of(kv->key, &out->key);
}

static bool is_same(const struct record_kv *a, const struct record_kv *b)
{
    return a->key == b->key && a->value == b->value && a->mod == b->mod && a->create == b->create &&
           a->version == b->version;
}

/* --- calls --- */

static bool writes(const struct record_op *o)
{
    return o->kind == RECORD_PUT || o->kind == RECORD_DELETE || o->kind == RECORD_SWAP;
}

size_t record_begin(struct record *r, const struct record_op *op)
{
    r->ops = grown(r->ops, r->op_count, &r->op_cap, sizeof(*r->ops));
    r->ops[r->op_count] = *op;
    if (op->kind != RECORD_READ_LOCAL)
        r->ops[r->op_count].floor = r->told;
    return r->op_count++;
}

static void told(struct record *r, int64_t revision)
{
    if (revision > r->told)
        r->told = revision;
}

void record_write_done(struct record *r, size_t op, int64_t revision, bool did)
{
    struct record_op *o = &r->ops[op];

    assert(o->revision == 0);
    if (revision < o->floor || (did && revision == o->floor))
        record_fail(r,
                    "write %zu was told revision %" PRId64 ", but %" PRId64
                    " had been told before it began",
                    op, revision, o->floor);
    o->revision = revision;
    o->did = did;
    told(r, revision);
}

void record_shown(struct record *r, size_t op, const struct pb_key_value *kv)
{
    struct record_op *o = &r->ops[op];
    struct record_kv shown;

    if (!kv_of(kv, &shown)) {
        record_fail(r, "read %zu was shown a key that nobody has", op);
        return;
    }
    if (o->shown_count == 0)
        o->shown_at = r->shown_count;
    assert(o->shown_at + o->shown_count == r->shown_count); /* one response at a time */
    r->shown = grown(r->shown, r->shown_count, &r->shown_cap, sizeof(*r->shown));
    r->shown[r->shown_count++] = shown;
    o->shown_count++;
}

void record_read_done(struct record *r, size_t op, int64_t revision)
{
    struct record_op *o = &r->ops[op];

    assert(o->revision == 0);
    if (revision < o->floor)
        record_fail(r, "%s read %zu was told revision %" PRId64 ", but %" PRId64 " had been %s",
                    o->kind == RECORD_READ ? "linearizable" : "serializable", op, revision,
                    o->floor,
                    o->kind == RECORD_READ ? "told before it began" : "told on its connection");
    o->revision = revision;
    told(r, revision);
}

/* --- watchers --- */

static const struct record_event *last_of(const struct record *r, unsigned key)
{
    const struct record_list *l = &r->of_key[key];

    return l->count ? &r->events[l->at[l->count - 1]] : NULL;
}

static void check_life(struct record *r, const struct record_event *e)
{
    const struct record_event *before = last_of(r, e->kv.key);
    bool alive = before && !before->deleted;

    if (e->deleted && !alive)
        record_fail(r, "revision %" PRId64 " deletes a key that was not there", e->kv.mod);
    if (!e->deleted && (e->kv.create != (alive ? before->kv.create : e->kv.mod) ||
                        e->kv.version != (alive ? before->kv.version + 1 : 1)))
        record_fail(r, "revision %" PRId64 " has create %" PRId64 " and version %" PRId64,
                    e->kv.mod, e->kv.create, e->kv.version);
}

static void check_cause(struct record *r, const struct record_event *e)
{
    struct record_op *o = e->kv.value < r->op_count ? &r->ops[e->kv.value] : NULL;
    bool fits = o && ((o->kind == RECORD_PUT && o->key == e->kv.key) ||
                      (o->kind == RECORD_SWAP && (o->key == e->kv.key || o->other == e->kv.key)));

    if (!fits) {
        record_fail(r, "revision %" PRId64 " has value %" PRIu64 ", which nobody has put there",
                    e->kv.mod, e->kv.value);
        return;
    }
    if (o->seen != 0 && o->seen != e->kv.mod)
        record_fail(r, "write %" PRIu64 " has happened twice, at %" PRId64 " and %" PRId64,
                    e->kv.value, o->seen, e->kv.mod);
    if (e->kv.mod <= o->floor)
        record_fail(r, "write %" PRIu64 " has happened at %" PRId64 ", before it began",
                    e->kv.value, e->kv.mod);
    o->seen = e->kv.mod;
}

static void add_event(struct record *r, unsigned member, struct record_event e)
{
    int64_t last = r->event_count ? r->events[r->event_count - 1].kv.mod : 1;

    if (e.kv.mod != last + 1 && (e.kv.mod != last || r->event_count == 0))
        record_fail(r, "the watcher of member %u was shown %" PRId64 " after %" PRId64, member + 1,
                    e.kv.mod, last);
    check_life(r, &e);
    if (!e.deleted)
        check_cause(r, &e);
    list_add(&r->of_key[e.kv.key], r->event_count);
    r->events = grown(r->events, r->event_count, &r->event_cap, sizeof(*r->events));
    r->events[r->event_count++] = e;
}

void record_saw(struct record *r, unsigned member, const struct pb_event *pe)
{
    struct record_event e = {.deleted = pe->type == PB_EVENT_DELETE};
    size_t at = r->watched[member];

    if (!pe->kv || !kv_of(pe->kv, &e.kv)) {
        record_fail(r, "the watcher of member %u was shown a key that nobody has", member + 1);
        return;
    }
    if (at == r->event_count)
        add_event(r, member, e);
    else if (e.deleted != r->events[at].deleted || !is_same(&e.kv, &r->events[at].kv))
        record_fail(r,
                    "the watcher of member %u was shown key %u at %" PRId64
                    " where others were shown key %u at %" PRId64,
                    member + 1, e.kv.key, e.kv.mod, r->events[at].kv.key, r->events[at].kv.mod);
    r->watched[member] = at + 1;
    told(r, e.kv.mod);
}

int64_t record_watched(const struct record *r, unsigned member)
{
    size_t count = r->watched[member];

    return count ? r->events[count - 1].kv.mod : 1;
}

/* --- the judge --- */

/* The key as it was at this revision; NULL if it was not there. */
static const struct record_kv *state_at(const struct record *r, unsigned key, int64_t revision)
{
    const struct record_list *l = &r->of_key[key];
    size_t low = 0, high = l->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (r->events[l->at[middle]].kv.mod <= revision)
            low = middle + 1;
        else
            high = middle;
    }
    const struct record_event *e = low ? &r->events[l->at[low - 1]] : NULL;
    return e && !e->deleted ? &e->kv : NULL;
}

/* The key's event at exactly this revision, or NULL. */
static struct record_event *event_at(struct record *r, unsigned key, int64_t revision)
{
    const struct record_list *l = &r->of_key[key];
    size_t low = 0, high = l->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (r->events[l->at[middle]].kv.mod < revision)
            low = middle + 1;
        else
            high = middle;
    }
    struct record_event *e = low < l->count ? &r->events[l->at[low]] : NULL;
    return e && e->kv.mod == revision ? e : NULL;
}

static bool shows_state(const struct record *r, const struct record_op *o)
{
    size_t n = 0;

    for (unsigned key = 0; key < RECORD_KEYS; key++) {
        const struct record_kv *kv =
            o->reads_all || key == o->key ? state_at(r, key, o->revision) : NULL;
        if (!kv)
            continue;
        if (n == o->shown_count || !is_same(kv, &r->shown[o->shown_at + n]))
            return false;
        n++;
    }
    return n == o->shown_count;
}

static int64_t mod_at(const struct record *r, unsigned key, int64_t revision)
{
    const struct record_kv *kv = state_at(r, key, revision);

    return kv ? kv->mod : 0;
}

static bool delete_fits(struct record *r, const struct record_op *o)
{
    if (!o->did)
        return !state_at(r, o->key, o->revision);
    struct record_event *e = event_at(r, o->key, o->revision);
    if (!e || !e->deleted || e->has_cause)
        return false;
    e->has_cause = true;
    return true;
}

static bool response_fits(struct record *r, const struct record_op *o)
{
    switch (o->kind) {
    case RECORD_PUT:
        return o->seen == o->revision;
    case RECORD_DELETE:
        return delete_fits(r, o);
    case RECORD_SWAP:
        if (o->did)
            return o->seen == o->revision;
        return mod_at(r, o->key, o->revision) != o->compared && shows_state(r, o);
    case RECORD_READ:
    case RECORD_READ_LOCAL:
        return shows_state(r, o);
    }
    return false;
}

static const char *kind_text(enum record_kind kind)
{
    static const char *const text[] = {
        "put", "delete", "swap", "linearizable read", "serializable read",
    };

    return text[kind];
}

static void judge_op(struct record *r, size_t n)
{
    struct record_op *o = &r->ops[n];

    if (o->revision == 0) {
        if (o->kind == RECORD_DELETE)
            list_add(&r->deletes[o->key], n);
        return;
    }
    if (!response_fits(r, o))
        record_fail(r, "%s %zu of key %u was told revision %" PRId64 "%s, and that is not so%s",
                    kind_text(o->kind), n, o->key, o->revision,
                    writes(o) ? (o->did ? " and that it has happened" : " and that it has not")
                              : "",
                    writes(o) && o->did && o->seen == 0 && o->kind != RECORD_DELETE
                        ? ": an acknowledged write is lost"
                        : "");
}

/* Deletes leave no name behind. One that may have done this may have done everything after it, too;
 * so it does not matter which of them is used up. They are in the order of their floors. */
static bool find_delete(struct record *r, const struct record_event *e)
{
    struct record_list *l = &r->deletes[e->kv.key];

    if (l->count == 0 || r->ops[l->at[0]].floor >= e->kv.mod)
        return false;
    l->count--;
    memmove(l->at, l->at + 1, l->count * sizeof(*l->at));
    return true;
}

/* Both of its puts and nothing else are at the revision, and what it compared with was so. */
static bool swap_is_whole(struct record *r, const struct record_op *o, size_t at, size_t count)
{
    bool has_key = false, has_other = false;

    for (size_t i = at; i < at + count; i++) {
        has_key |= r->events[i].kv.key == o->key;
        has_other |= r->events[i].kv.key == o->other;
    }
    return count == 2 && has_key && has_other && mod_at(r, o->key, o->seen - 1) == o->compared;
}

static void judge_revision(struct record *r, size_t at, size_t count)
{
    const struct record_event *e = &r->events[at];

    if (e->deleted) {
        if (count != 1)
            record_fail(r, "revision %" PRId64 " has %zu events", e->kv.mod, count);
        else if (!e->has_cause && !find_delete(r, e))
            record_fail(r, "revision %" PRId64 " deletes key %u, and nobody has asked for it",
                        e->kv.mod, e->kv.key);
        return;
    }
    const struct record_op *o = &r->ops[e->kv.value];
    if (o->kind == RECORD_PUT ? count != 1 : !swap_is_whole(r, o, at, count))
        record_fail(r, "revision %" PRId64 " is not what write %" PRIu64 " does", e->kv.mod,
                    e->kv.value);
    else if (o->revision != 0 && o->revision != e->kv.mod)
        record_fail(r,
                    "write %" PRIu64 " was told revision %" PRId64 " and has happened at %" PRId64,
                    e->kv.value, o->revision, e->kv.mod);
}

static void judge_revisions(struct record *r)
{
    while (r->judged_events < r->event_count && !r->problem[0]) {
        size_t at = r->judged_events, count = 1;
        while (at + count < r->event_count && r->events[at + count].kv.mod == r->events[at].kv.mod)
            count++;
        judge_revision(r, at, count);
        r->judged_events = at + count;
    }
}

bool record_judge(struct record *r)
{
    for (; r->judged_ops < r->op_count && !r->problem[0]; r->judged_ops++)
        judge_op(r, r->judged_ops);
    judge_revisions(r);
    return !r->problem[0];
}

/* --- for people --- */

void record_print(const struct record *r, struct buf *out)
{
    for (size_t i = 0; i < r->op_count; i++) {
        const struct record_op *o = &r->ops[i];
        buf_printf(out, "op %zu %s key %u other %u compared %" PRId64 " floor %" PRId64, i,
                   kind_text(o->kind), o->key, o->other, o->compared, o->floor);
        buf_printf(out, " told %" PRId64 " did %d seen %" PRId64, o->revision, o->did, o->seen);
        for (size_t n = 0; n < o->shown_count; n++) {
            const struct record_kv *kv = &r->shown[o->shown_at + n];
            buf_printf(out, " [%u=%" PRIu64 "@%" PRId64 "]", kv->key, kv->value, kv->mod);
        }
        buf_append_byte(out, '\n');
    }
    for (size_t i = 0; i < r->event_count; i++) {
        const struct record_event *e = &r->events[i];
        buf_printf(out, "revision %" PRId64 " key %u ", e->kv.mod, e->kv.key);
        if (e->deleted)
            buf_append_str(out, "deleted\n");
        else
            buf_printf(out, "= %" PRIu64 "\n", e->kv.value);
    }
}
