/*
 * What an operation does, slowly and obviously: on the events up to some revision, and its own on
 * top of them.
 */
#include "sim/history.h"

#include "base/mem.h"

struct judge {
    const struct history *h;
    size_t base;      /* events before it */
    int64_t revision; /* of what it writes */
    struct buf own;   /* struct history_event */
    bool knows_reply; /* else nobody knows what it was told */
    bool differs;
};

static void demand(struct judge *j, bool holds)
{
    j->differs |= !holds;
}

/* --- the state --- */

static const struct history_event *look_at(const struct judge *j, unsigned key, size_t count)
{
    const struct history_event *e = history_newest(j->h, key, count);

    return e && !e->deleted ? e : NULL;
}

/* With what it has done itself so far. */
static const struct history_event *look(const struct judge *j, unsigned key)
{
    const struct history_event *own = (const void *)j->own.at;

    for (size_t i = j->own.len / sizeof(*own); i-- > 0;)
        if (own[i].key == key)
            return own[i].deleted ? NULL : &own[i];
    return look_at(j, key, j->base);
}

static bool is_in(unsigned key, struct bytes from, struct bytes end)
{
    char text[HISTORY_KEY_BYTES];
    struct bytes name = bytes_of_str(history_key(key, text));

    if (end.len == 0)
        return bytes_equal(name, from);
    return bytes_compare(name, from) >= 0 && bytes_compare(name, end) < 0;
}

/* With keys alone etcd 3.7 tells no lease either. */
static bool is_kv(const struct pb_key_value *kv, const struct history_event *e, bool keys_only)
{
    unsigned key;

    return kv && e && history_key_of(kv->key, &key) && key == e->key &&
           kv->mod_revision == e->revision && kv->create_revision == e->create_revision &&
           kv->version == e->version && kv->lease == (keys_only ? 0 : e->lease) &&
           (keys_only ? kv->value.len == 0 : history_number(kv->value) == e->op);
}

/* --- operations --- */

static void put(struct judge *j, const struct pb_put_request *q, const struct pb_put_response *r)
{
    unsigned key = 0;
    bool known = history_key_of(q->key, &key);
    assert(known);
    const struct history_event *before = look(j, key);
    struct history_event e = {.revision = j->revision,
                              .key = key,
                              .op = history_number(q->value),
                              .create_revision = before ? before->create_revision : j->revision,
                              .version = before ? before->version + 1 : 1,
                              .lease = q->lease};

    if (r && q->prev_kv && before)
        demand(j, is_kv(r->prev_kv, before, false));
    else if (r)
        demand(j, !r->prev_kv);
    buf_append(&j->own, bytes_of(&e, sizeof(e)));
}

static void delete_key(struct judge *j, unsigned key)
{
    struct history_event e = {
        .revision = j->revision, .key = key, .deleted = true, .op = UINT64_MAX};

    buf_append(&j->own, bytes_of(&e, sizeof(e)));
}

static void delete_range(struct judge *j, const struct pb_delete_range_request *q,
                         const struct pb_delete_range_response *r)
{
    size_t deleted = 0;

    for (unsigned key = 0; key < HISTORY_ALL_KEYS; key++) {
        const struct history_event *before = look(j, key);
        if (!before || !is_in(key, q->key, q->range_end))
            continue;
        if (r && q->prev_kv)
            demand(j,
                   deleted < r->prev_kvs.count && is_kv(&r->prev_kvs.at[deleted], before, false));
        deleted++;
        delete_key(j, key);
    }
    if (r)
        demand(j, (size_t)r->deleted == deleted && r->prev_kvs.count == (q->prev_kv ? deleted : 0));
}

static bool is_filtered(const struct pb_range_request *q, const struct history_event *e)
{
    return (q->min_mod_revision != 0 && e->revision < q->min_mod_revision) ||
           (q->max_mod_revision != 0 && e->revision > q->max_mod_revision) ||
           (q->min_create_revision != 0 && e->create_revision < q->min_create_revision) ||
           (q->max_create_revision != 0 && e->create_revision > q->max_create_revision);
}

static int64_t sort_number(const struct pb_range_request *q, const struct history_event *e)
{
    int64_t number = (int64_t)e->key;

    if (q->sort_target == PB_SORT_BY_VERSION)
        number = e->version;
    else if (q->sort_target == PB_SORT_BY_CREATE)
        number = e->create_revision;
    else if (q->sort_target == PB_SORT_BY_MOD)
        number = e->revision;
    return q->sort_order == PB_SORT_DESCEND ? -number : number;
}

/* By insertion, so equal ones stay in the order of their keys. */
static void sort(const struct pb_range_request *q, const struct history_event **found, size_t count)
{
    for (size_t i = 1; i < count && q->sort_order != PB_SORT_NONE; i++) {
        const struct history_event *e = found[i];
        size_t to = i;
        for (; to > 0 && sort_number(q, found[to - 1]) > sort_number(q, e); to--)
            found[to] = found[to - 1];
        found[to] = e;
    }
}

static void range(struct judge *j, const struct pb_range_request *q,
                  const struct pb_range_response *r)
{
    const struct history_event *found[HISTORY_ALL_KEYS];
    size_t count = 0, kept = 0, old = history_up_to(j->h, q->revision);

    for (unsigned key = 0; r && key < HISTORY_ALL_KEYS; key++) {
        const struct history_event *e = q->revision > 0 ? look_at(j, key, old) : look(j, key);
        if (!e || !is_in(key, q->key, q->range_end))
            continue;
        count++;
        if (!q->count_only && !is_filtered(q, e))
            found[kept++] = e;
    }
    if (!r)
        return;
    sort(q, found, kept);
    size_t shown = q->limit > 0 && (size_t)q->limit < kept ? (size_t)q->limit : kept;
    demand(j, r->kvs.count == shown && (size_t)r->count == count && r->more == (shown < kept));
    for (size_t i = 0; i < shown && !j->differs; i++)
        demand(j, is_kv(&r->kvs.at[i], found[i], q->keys_only));
}

/* --- transactions --- */

static int order(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static bool holds(const struct judge *j, const struct pb_compare *c)
{
    static const struct history_event nothing = {0};
    unsigned key = 0;
    bool known = history_key_of(c->key, &key);
    assert(known);
    const struct history_event *e = look_at(j, key, j->base);
    int sign = 0;

    if (!e)
        e = &nothing;
    if (c->target == PB_TARGET_VERSION)
        sign = order(e->version, c->version);
    else if (c->target == PB_TARGET_CREATE)
        sign = order(e->create_revision, c->create_revision);
    else if (c->target == PB_TARGET_MOD)
        sign = order(e->revision, c->mod_revision);
    else
        sign = order(e->lease, c->lease);
    switch (c->result) {
    case PB_COMPARE_EQUAL:
        return sign == 0;
    case PB_COMPARE_GREATER:
        return sign > 0;
    case PB_COMPARE_LESS:
        return sign < 0;
    default:
        return sign != 0;
    }
}

/* NOLINTNEXTLINE(misc-no-recursion): the actors nest two levels */
static void txn(struct judge *j, const struct pb_txn_request *q, const struct pb_txn_response *r)
{
    bool succeeds = true;

    for (size_t i = 0; i < q->compare.count; i++)
        succeeds &= holds(j, &q->compare.at[i]);
    const struct pb_request_op *ops = succeeds ? q->success.at : q->failure.at;
    size_t count = succeeds ? q->success.count : q->failure.count;
    if (r)
        demand(j, r->succeeded == succeeds && r->responses.count == count);
    for (size_t i = 0; i < count && !j->differs; i++) {
        const struct pb_response_op *result = r ? &r->responses.at[i] : NULL;
        demand(j, !result || result->which == ops[i].which);
        if (j->differs)
            return;
        if (ops[i].which == PB_OP_PUT)
            put(j, ops[i].put, result ? result->put : NULL);
        else if (ops[i].which == PB_OP_DELETE_RANGE)
            delete_range(j, ops[i].delete_range, result ? result->delete_range : NULL);
        else if (ops[i].which == PB_OP_RANGE)
            range(j, ops[i].range, result ? result->range : NULL);
        else
            txn(j, ops[i].txn, result ? result->txn : NULL);
    }
}

static void revoke(struct judge *j, int64_t lease)
{
    for (unsigned key = 0; key < HISTORY_ALL_KEYS; key++) {
        const struct history_event *e = look(j, key);
        if (e && e->lease == lease)
            delete_key(j, key);
    }
}

/* Its keys, in whatever order. */
static void keys_of(struct judge *j, const struct pb_lease_time_to_live_request *q,
                    const struct pb_lease_time_to_live_response *r)
{
    size_t count = 0;

    for (unsigned key = 0; r && key < HISTORY_ALL_KEYS; key++) {
        const struct history_event *e = look(j, key);
        count += e && e->lease == q->id;
    }
    for (size_t i = 0; r && i < r->keys.count; i++) {
        unsigned key = 0;
        bool known = history_key_of(r->keys.at[i], &key);
        const struct history_event *e = known ? look(j, key) : NULL;
        demand(j, e && e->lease == q->id);
    }
    demand(j, !r || r->keys.count == count);
}

/* Walks through all states there were, one revision after the other. */
bool judge_keys(struct history *h, const struct history_op *o)
{
    struct arena arena = {0};
    struct pb_lease_time_to_live_request q;
    struct pb_lease_time_to_live_response r;
    bool is_told[HISTORY_ALL_KEYS] = {0}, is_there[HISTORY_ALL_KEYS] = {0};
    bool is_known =
        pb_decode_lease_time_to_live_request(buf_bytes(&o->request), &arena, &q) == ERR_OK &&
        pb_decode_lease_time_to_live_response(buf_bytes(&o->reply), &arena, &r) == ERR_OK;
    size_t wrong = 0;
    unsigned key = 0;

    for (size_t i = 0; is_known && i < r.keys.count; i++) {
        is_known = history_key_of(r.keys.at[i], &key) && !is_told[key];
        is_told[key] = true;
        wrong++;
    }
    bool is_found = is_known && wrong == 0;
    for (size_t at = 0; is_known && !is_found && at < h->event_count; at++) {
        const struct history_event *e = &h->events[at];
        bool is = !e->deleted && e->lease == q.id;
        if (is != is_there[e->key])
            wrong += is != is_told[e->key] ? 1 : SIZE_MAX;
        is_there[e->key] = is;
        bool ends = at + 1 == h->event_count || h->events[at + 1].revision != e->revision;
        is_found = ends && wrong == 0;
    }
    arena_free(&arena);
    return is_found;
}

/* --- all of it --- */

#define EXECUTE(name, function)                                                                    \
    do {                                                                                           \
        struct pb_##name##_request q;                                                              \
        struct pb_##name##_response r;                                                             \
        demand(j, pb_decode_##name##_request(buf_bytes(&o->request), &arena, &q) == ERR_OK);       \
        if (j->knows_reply)                                                                        \
            demand(j, pb_decode_##name##_response(buf_bytes(&o->reply), &arena, &r) == ERR_OK);    \
        if (!j->differs)                                                                           \
            function(j, &q, j->knows_reply ? &r : NULL);                                           \
    } while (0)

static void execute(struct judge *j, const struct history_op *o)
{
    struct arena arena = {0};

    switch (o->kind) {
    case OP_PUT:
        EXECUTE(put, put);
        break;
    case OP_DELETE:
        EXECUTE(delete_range, delete_range);
        break;
    case OP_TXN:
        EXECUTE(txn, txn);
        break;
    case OP_RANGE:
        EXECUTE(range, range);
        break;
    case OP_KEYS:
        EXECUTE(lease_time_to_live, keys_of);
        break;
    case OP_REVOKE:
        revoke(j, o->lease);
        break;
    case OP_GRANT:
    case OP_RENEW:
    case OP_HASH_KV:
    case OP_MAINTENANCE:
    case OP_OTHER:
        break;
    }
    arena_free(&arena);
}

bool judge_reads(struct history *h, const struct history_op *o)
{
    struct judge j = {.h = h,
                      .base = history_up_to(h, o->revision),
                      .revision = o->revision + 1,
                      .knows_reply = true};

    execute(&j, o);
    bool is_same = !j.differs && j.own.len == 0;
    buf_free(&j.own);
    return is_same;
}

bool judge_writes(struct history *h, const struct history_op *o, size_t at)
{
    struct judge j = {.h = h,
                      .base = at,
                      .revision = h->events[at].revision,
                      .knows_reply = o->done && !o->failed};

    execute(&j, o);
    const struct history_event *own = (const void *)j.own.at;
    size_t count = j.own.len / sizeof(*own), n = 0;
    for (; n < count && at + n < h->event_count; n++) {
        const struct history_event *e = &h->events[at + n];
        demand(&j, e->revision == j.revision && e->key == own[n].key && e->op == own[n].op &&
                       (e->deleted || e->lease == own[n].lease));
    }
    bool ends = at + n == h->event_count || h->events[at + n].revision != j.revision;
    buf_free(&j.own);
    return !j.differs && count > 0 && n == count && ends;
}
