#include "interop/random_requests_test.h"

#include "base/mem.h"

enum {
    LEASES = 6,
    DEPTH_MAX = 3,
    OPS_MAX = 6,
    OPS_TOO_MANY = 129,
    LEASE_SECONDS = 1000000,
};

static uint64_t roll(struct random_requests *r, uint64_t sides)
{
    return rng_below(&r->rng, sides);
}

static bool chance(struct random_requests *r, uint64_t outof)
{
    return rng_chance(&r->rng, 1, outof);
}

/* ---- Keys and values ---- */

/* "a", "a/", "a/3", the same with a zero or a 0xff behind, and the first and last keys of all. */
static struct bytes any_key(struct random_requests *r)
{
    static const struct bytes odd[] = {BYTES("\0"), BYTES("\0\0"), BYTES("\xff"), BYTES("\xff\xff"),
                                       BYTES("a\0")};
    uint64_t shape = roll(r, 20);

    if (shape == 0)
        return odd[roll(r, ARRAY_LEN(odd))];
    int letter = 'a' + (int)roll(r, 3);
    int digit = '0' + (int)roll(r, 10);
    if (shape == 1)
        return bytes_of_str(arena_printf(r->arena, "%c", letter));
    if (shape == 2)
        return bytes_of_str(arena_printf(r->arena, "%c/%d\xff", letter, digit - '0'));
    return bytes_of_str(arena_printf(r->arena, "%c/%c", letter, digit));
}

static struct bytes any_key_or_none(struct random_requests *r)
{
    return chance(r, 60) ? (struct bytes){0} : any_key(r);
}

/* The end of all keys that begin so. */
static struct bytes prefix_end(struct random_requests *r, struct bytes key)
{
    struct bytes end = arena_copy(r->arena, key);

    while (end.len > 0 && end.at[end.len - 1] == 0xff)
        end.len--;
    if (end.len == 0)
        return BYTES("\0");
    ((uint8_t *)end.at)[end.len - 1]++;
    return end;
}

static void any_span(struct random_requests *r, struct bytes *key, struct bytes *end)
{
    *key = any_key_or_none(r);
    *end = (struct bytes){0};
    switch (roll(r, 8)) {
    case 0:
    case 1:
        *end = any_key(r); /* before the key as often as behind it */
        break;
    case 2:
        *end = BYTES("\0");
        break;
    case 3:
        *key = bytes_of_str(arena_printf(r->arena, "%c", 'a' + (int)roll(r, 3)));
        *end = prefix_end(r, *key);
        break;
    case 4:
        *key = BYTES("\0");
        *end = BYTES("\0");
        break;
    case 5:
        *end = chance(r, 4) ? *key : prefix_end(r, *key);
        break;
    default:
        break;
    }
}

static struct bytes any_value(struct random_requests *r)
{
    uint64_t shape = roll(r, 400);
    size_t len = shape == 0 ? 5000 : roll(r, 4);

    if (shape == 1 && chance(r, 8))
        len = 1600000; /* over the limit of a request */
    uint8_t *at = arena_alloc(r->arena, len + 1);
    memset(at, 'p' + (int)roll(r, 3), len);
    return bytes_of(at, len);
}

/* ---- Numbers ---- */

static int64_t any_extreme(struct random_requests *r)
{
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, INT64_MAX - 1, INT64_MAX};

    return ends[roll(r, ARRAY_LEN(ends))];
}

/* Around now, around the compaction, anywhere between, or nowhere. */
static int64_t any_revision(struct random_requests *r)
{
    switch (roll(r, 8)) {
    case 0:
        return r->compacted - 2 + (int64_t)roll(r, 5);
    case 1:
        return chance(r, 4) ? any_extreme(r) : 0;
    case 2:
    case 3:
        return r->revision - (int64_t)roll(r, 5) + (chance(r, 8) ? 5 : 0);
    default:
        return r->compacted + (int64_t)roll(r, (uint64_t)(r->revision - r->compacted + 1));
    }
}

static int64_t any_lease(struct random_requests *r)
{
    return chance(r, 40) ? any_extreme(r) : 1 + (int64_t)roll(r, LEASES);
}

/* One of `named` values, or now and then one that nobody has named. */
static int32_t any_enum(struct random_requests *r, uint64_t named)
{
    static const int32_t unnamed[] = {-1, 99, INT32_MAX, INT32_MIN};

    if (chance(r, 60))
        return chance(r, 2) ? (int32_t)named : unnamed[roll(r, ARRAY_LEN(unnamed))];
    return (int32_t)roll(r, named);
}

/* ---- Requests ---- */

static void any_filters(struct random_requests *r, struct pb_range_request *q)
{
    q->min_mod_revision = chance(r, 3) ? any_revision(r) : 0;
    q->max_mod_revision = chance(r, 3) ? any_revision(r) : 0;
    q->min_create_revision = chance(r, 4) ? any_revision(r) : 0;
    q->max_create_revision = chance(r, 4) ? any_revision(r) : 0;
}

static struct pb_range_request *any_range(struct random_requests *r)
{
    struct pb_range_request *q = arena_new(r->arena, struct pb_range_request);

    any_span(r, &q->key, &q->range_end);
    q->revision = chance(r, 3) ? any_revision(r) : 0;
    if (chance(r, 3))
        q->limit = chance(r, 12) ? any_extreme(r) : (int64_t)roll(r, 20);
    if (chance(r, 2)) {
        q->sort_order = any_enum(r, 3);
        q->sort_target = any_enum(r, 5);
    }
    q->serializable = chance(r, 4);
    q->keys_only = chance(r, 5);
    q->count_only = chance(r, 8);
    if (chance(r, 5))
        any_filters(r, q);
    return q;
}

static struct pb_put_request *any_put(struct random_requests *r, bool may_ignore)
{
    struct pb_put_request *p = arena_new(r->arena, struct pb_put_request);

    p->key = any_key_or_none(r);
    p->prev_kv = chance(r, 3);
    p->ignore_value = may_ignore && chance(r, 10);
    p->ignore_lease = may_ignore && chance(r, 10);
    if (!p->ignore_value || chance(r, 8))
        p->value = any_value(r);
    if (chance(r, p->ignore_lease ? 8 : 4))
        p->lease = any_lease(r);
    return p;
}

static struct pb_delete_range_request *any_delete(struct random_requests *r)
{
    struct pb_delete_range_request *d = arena_new(r->arena, struct pb_delete_range_request);

    if (chance(r, 16)) /* more often, and there would never be many keys */
        any_span(r, &d->key, &d->range_end);
    else
        d->key = any_key_or_none(r);
    d->prev_kv = chance(r, 2);
    return d;
}

static struct pb_compare any_compare(struct random_requests *r)
{
    struct pb_compare c = {0};

    c.target = any_enum(r, 5);
    c.result = any_enum(r, 4);
    c.key = any_key_or_none(r);
    if (chance(r, 4))
        any_span(r, &c.key, &c.range_end);
    bool is_named = c.target >= PB_TARGET_VERSION && c.target <= PB_TARGET_LEASE;
    c.which = (enum pb_compare_operand)(PB_OPERAND_VERSION +
                                        (is_named && !chance(r, 30) ? c.target : (int)roll(r, 5)));
    if (chance(r, 60))
        c.which = PB_OPERAND_NONE;
    if (c.which == PB_OPERAND_VALUE)
        c.value = any_value(r);
    else if (c.which == PB_OPERAND_LEASE)
        c.lease = chance(r, 2) ? 0 : any_lease(r);
    else if (c.which != PB_OPERAND_NONE)
        c.version = chance(r, 2) ? (int64_t)roll(r, 4) : any_revision(r);
    return c;
}

static struct pb_txn_request *any_txn(struct random_requests *r, unsigned depth, bool may_ignore);

static struct pb_request_op any_op(struct random_requests *r, unsigned depth, bool may_ignore)
{
    uint64_t which = roll(r, 20);

    if (which == 0 && chance(r, 4))
        return (struct pb_request_op){.which = PB_OP_NONE};
    if (which < 7)
        return (struct pb_request_op){.which = PB_OP_RANGE, .range = any_range(r)};
    if (which < 10) {
        struct pb_delete_range_request *d = any_delete(r);
        if (may_ignore && bytes_equal(d->range_end, BYTES("\0")))
            d->range_end = (struct bytes){0};
        return (struct pb_request_op){.which = PB_OP_DELETE_RANGE, .delete_range = d};
    }
    if (which < 13 && depth > 0)
        return (struct pb_request_op){.which = PB_OP_TXN, .txn = any_txn(r, depth - 1, may_ignore)};
    return (struct pb_request_op){.which = PB_OP_PUT, .put = any_put(r, may_ignore)};
}

static size_t any_ops(struct random_requests *r, unsigned depth, bool may_ignore,
                      const struct pb_request_op **out)
{
    size_t count = chance(r, 300) ? OPS_TOO_MANY : roll(r, OPS_MAX);
    struct pb_request_op *ops = arena_new_array(r->arena, count + 1, struct pb_request_op);

    for (size_t i = 0; i < count; i++)
        ops[i] = any_op(r, count == OPS_TOO_MANY ? 0 : depth, may_ignore);
    *out = ops;
    return count;
}

static struct pb_txn_request *any_txn(struct random_requests *r, unsigned depth, bool may_ignore)
{
    struct pb_txn_request *t = arena_new(r->arena, struct pb_txn_request);
    size_t count = chance(r, 300) ? OPS_TOO_MANY : roll(r, 4);
    struct pb_compare *compares = arena_new_array(r->arena, count + 1, struct pb_compare);

    for (size_t i = 0; i < count; i++)
        compares[i] = any_compare(r);
    t->compare.at = compares;
    t->compare.count = count;
    t->success.count = any_ops(r, depth, may_ignore, &t->success.at);
    t->failure.count = any_ops(r, depth, may_ignore, &t->failure.at);
    return t;
}

int64_t random_compaction(const struct random_requests *r, int64_t revision)
{
    while (revision > 0 && revision <= r->revision &&
           r->puts_again[revision % RANDOM_REVISIONS_MAX])
        revision--;
    return revision;
}

static void note_alarm(struct random_requests *r, const struct pb_alarm_request *q)
{
    struct pb_alarm_member it = {.member_id = q->member_id, .alarm = q->alarm};
    size_t at = 0;

    while (at < r->alarm_count &&
           (r->alarms[at].member_id != it.member_id || r->alarms[at].alarm != it.alarm))
        at++;
    if (q->action == PB_ALARM_ACTIVATE && it.alarm != PB_ALARM_NONE && at == r->alarm_count)
        r->alarms[r->alarm_count++] = it;
    if (q->action == PB_ALARM_DEACTIVATE && at < r->alarm_count)
        r->alarms[at] = r->alarms[--r->alarm_count];
}

void random_request_done(struct random_requests *r, const struct random_request *q,
                         int64_t revision)
{
    if (revision > r->revision) {
        r->revision = revision;
        r->puts_again[revision % RANDOM_REVISIONS_MAX] = q->may_put_again;
    }
    if (q->kind == REQUEST_OF_COMPACT) {
        r->compacted = ((const struct pb_compaction_request *)q->message)->revision;
        r->is_compacted_at_0 |= r->compacted == 0;
    }
    if (q->kind == REQUEST_OF_ALARM)
        note_alarm(r, q->message);
    if (q->kind == REQUEST_OF_CAMPAIGN)
        r->led = revision;
}

static struct pb_compaction_request *any_compaction(struct random_requests *r)
{
    struct pb_compaction_request *c = arena_new(r->arena, struct pb_compaction_request);

    c->revision = random_compaction(r, any_revision(r));
    c->physical = chance(r, 10);
    return c;
}

static struct pb_lease_grant_request *any_grant(struct random_requests *r)
{
    struct pb_lease_grant_request *g = arena_new(r->arena, struct pb_lease_grant_request);

    g->id = 1 + (int64_t)roll(r, LEASES);
    g->ttl = chance(r, 20) ? INT64_MAX - (int64_t)roll(r, 2) : LEASE_SECONDS;
    return g;
}

static struct pb_lease_id *any_revoke(struct random_requests *r)
{
    struct pb_lease_id *l = arena_new(r->arena, struct pb_lease_id);

    l->id = any_lease(r);
    return l;
}

static struct pb_lease_time_to_live_request *any_time_to_live(struct random_requests *r)
{
    struct pb_lease_time_to_live_request *t =
        arena_new(r->arena, struct pb_lease_time_to_live_request);

    t->id = any_lease(r);
    t->keys = !chance(r, 3);
    return t;
}

/* Four members, none of which there is, have two alarms each. */
static struct pb_alarm_request *any_alarm(struct random_requests *r)
{
    struct pb_alarm_request *a = arena_new(r->arena, struct pb_alarm_request);

    static_assert(ARRAY_LEN(r->alarms) >= 4 * 2, "one for each that may be active");
    a->action = (int32_t)roll(r, 3);
    a->member_id = roll(r, 4);
    a->alarm = (int32_t)roll(r, 3);
    return a;
}

static struct pb_alarm_request *end_of_alarm(struct random_requests *r)
{
    struct pb_alarm_request *a = arena_new(r->arena, struct pb_alarm_request);
    const struct pb_alarm_member *it = &r->alarms[roll(r, r->alarm_count)];

    *a = (struct pb_alarm_request){
        .action = PB_ALARM_DEACTIVATE, .member_id = it->member_id, .alarm = it->alarm};
    return a;
}

/* At the revision of a compaction both may have remembered the hash, or not, by whether the one
 * before was carried out by then: that is a matter of milliseconds. */
static struct pb_hash_kv_request *any_hash_kv(struct random_requests *r)
{
    struct pb_hash_kv_request *h = arena_new(r->arena, struct pb_hash_kv_request);

    h->revision = chance(r, 2) ? 0 : any_revision(r);
    if (h->revision == 0 && r->is_compacted_at_0) /* etcd takes it for that compaction's */
        h->revision = r->revision;
    if (h->revision > 0 && h->revision <= r->compacted)
        h->revision = r->compacted + 1;
    return h;
}

/* ---- Locks and elections ---- */

/* The lease of a name is always the same, and none but 0 is left out: that would be a new one, with
 * an id that each server makes up. */
static struct bytes any_name(struct random_requests *r, int64_t *lease)
{
    uint64_t n = roll(r, LEASES);

    *lease = chance(r, 30) ? -5 : 1 + (int64_t)n;
    return bytes_of_str(arena_printf(r->arena, "n%d", (int)n));
}

/* The key of the name's own lease: a proclamation may put whatever key it names, and for one of
 * another lease the next lock of that name would wait. */
static struct bytes any_lock_key(struct random_requests *r)
{
    int64_t lease;
    struct bytes name = any_name(r, &lease);

    if (chance(r, 20))
        return any_key_or_none(r);
    return bytes_of_str(arena_printf(r->arena, "%.*s/%d", (int)name.len, (const char *)name.at,
                                     name.at[1] - '0' + 1));
}

static struct pb_leader_key *any_leader(struct random_requests *r)
{
    struct pb_leader_key *l = arena_new(r->arena, struct pb_leader_key);

    if (chance(r, 20))
        return NULL;
    l->name = any_name(r, &l->lease);
    l->key = any_lock_key(r);
    l->rev = chance(r, 3) ? any_revision(r) : r->led;
    return l;
}

static struct random_request any_of_concurrency(struct random_requests *r)
{
    struct pb_lock_request *lock = arena_new(r->arena, struct pb_lock_request);
    struct pb_unlock_request *unlock = arena_new(r->arena, struct pb_unlock_request);
    struct pb_campaign_request *campaign = arena_new(r->arena, struct pb_campaign_request);
    struct pb_proclaim_request *proclaim = arena_new(r->arena, struct pb_proclaim_request);
    struct pb_leader_request *leader = arena_new(r->arena, struct pb_leader_request);
    struct pb_resign_request *resign = arena_new(r->arena, struct pb_resign_request);
    int64_t lease;

    switch (roll(r, 6)) {
    case 0:
        lock->name = any_name(r, &lock->lease);
        return (struct random_request){.kind = REQUEST_OF_LOCK, .message = lock};
    case 1:
        unlock->key = any_lock_key(r);
        return (struct random_request){.kind = REQUEST_OF_UNLOCK, .message = unlock};
    case 2:
        campaign->name = any_name(r, &campaign->lease);
        campaign->value = any_value(r);
        return (struct random_request){.kind = REQUEST_OF_CAMPAIGN, .message = campaign};
    case 3:
        proclaim->leader = any_leader(r);
        proclaim->value = any_value(r);
        return (struct random_request){.kind = REQUEST_OF_PROCLAIM, .message = proclaim};
    case 4:
        leader->name = any_name(r, &lease);
        return (struct random_request){.kind = REQUEST_OF_LEADER, .message = leader};
    default:
        resign->leader = any_leader(r);
        return (struct random_request){.kind = REQUEST_OF_RESIGN, .message = resign};
    }
}

/* What is asked more seldom. */
static struct random_request any_other(struct random_requests *r)
{
    if (chance(r, 2))
        return any_of_concurrency(r);
    if (chance(r, 6))
        return (struct random_request){.kind = REQUEST_OF_ALARM, .message = any_alarm(r)};
    if (chance(r, 3))
        return (struct random_request){.kind = REQUEST_OF_LEASES,
                                       .message = arena_new(r->arena, struct pb_empty)};
    return (struct random_request){.kind = REQUEST_OF_HASH_KV, .message = any_hash_kv(r)};
}

struct random_request random_request(struct random_requests *r)
{
    if (r->alarm_count > 0 && chance(r, 8))
        return (struct random_request){.kind = REQUEST_OF_ALARM, .message = end_of_alarm(r)};
    if (chance(r, 8))
        return any_other(r);
    uint64_t which = roll(r, 100);

    if (which < 30)
        return (struct random_request){.kind = REQUEST_OF_RANGE, .message = any_range(r)};
    if (which < 36)
        return (struct random_request){.kind = REQUEST_OF_RANGE_STREAM, .message = any_range(r)};
    if (which < 58)
        return (struct random_request){.kind = REQUEST_OF_PUT, .message = any_put(r, true)};
    if (which < 65)
        return (struct random_request){.kind = REQUEST_OF_DELETE, .message = any_delete(r)};
    if (which < 67)
        return (struct random_request){.kind = REQUEST_OF_COMPACT, .message = any_compaction(r)};
    if (which < 70)
        return (struct random_request){.kind = REQUEST_OF_GRANT, .message = any_grant(r)};
    if (which < 71)
        return (struct random_request){.kind = REQUEST_OF_REVOKE, .message = any_revoke(r)};
    if (which < 73)
        return (struct random_request){.kind = REQUEST_OF_TIME_TO_LIVE,
                                       .message = any_time_to_live(r)};
    bool may_ignore = chance(r, 2);
    return (struct random_request){.kind = REQUEST_OF_TXN,
                                   .message = any_txn(r, DEPTH_MAX, may_ignore),
                                   .may_put_again = !may_ignore};
}

struct random_request random_compaction_of(struct random_requests *r)
{
    return (struct random_request){.kind = REQUEST_OF_COMPACT, .message = any_compaction(r)};
}

struct pb_watch_create_request random_watcher(struct random_requests *r)
{
    struct pb_watch_create_request w = {.start_revision = chance(r, 2) ? 0 : any_revision(r)};
    int32_t *filters = arena_new_array(r->arena, 2, int32_t);

    any_span(r, &w.key, &w.range_end);
    if (w.start_revision > r->revision || w.start_revision < 0)
        w.start_revision = r->revision;
    for (size_t i = roll(r, 4) == 0 ? roll(r, 3) : 0; i > 0; i--)
        filters[w.filters.count++] = (int32_t)roll(r, 2);
    w.filters.at = filters;
    w.prev_kv = chance(r, 2);
    w.fragment = chance(r, 3);
    w.progress_notify = chance(r, 3);
    if (chance(r, 8))
        w.watch_id = 1 + (int64_t)roll(r, 60); /* perhaps one that is taken */
    return w;
}
