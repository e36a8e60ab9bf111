/*
 * Random entries against a slow, obvious model: a handful of keys, and a copy of all of them for
 * each revision. It recurses where apply keeps a stack, and builds the whole response where apply
 * keeps pieces; the bytes must be equal. Then the same log once more, in other slices, with
 * crashes: the stores must be equal, byte for byte.
 */
#include "apply/apply_rig_test.h"
#include "apply/dice_test.h"

#include "base/mem.h"

enum { KEYS = DICE_KEYS, LEASES = DICE_LEASES, REVISIONS = 2000 };

struct fact {
    bool alive;
    int64_t created, mod, version, lease;
    struct bytes value; /* in the model's arena */
};

struct state {
    struct fact keys[KEYS];
};

struct model_store {
    struct arena arena;
    struct state *states; /* by revision */
    int64_t revision, compacted;
    bool leases[LEASES + 1]; /* by id; 0 is none */

    /* The entry under way. */
    struct state now;
    bool changed;
    struct arena *results;
};

static bool in_range(size_t i, struct bytes key, struct bytes end)
{
    if (end.len == 0)
        return bytes_equal(dice_key(i), key);
    bool from = bytes_compare(dice_key(i), key) >= 0;
    return from && (bytes_equal(end, BYTES("\0")) || bytes_compare(dice_key(i), end) < 0);
}

static size_t place_of(struct bytes key)
{
    return (size_t)(key.at[0] - 'a');
}

/* ---- Responses ---- */

static struct pb_key_value kv_of(const struct fact *f, size_t i)
{
    return (struct pb_key_value){.key = dice_key(i),
                                 .create_revision = f->created,
                                 .mod_revision = f->mod,
                                 .version = f->version,
                                 .value = f->value,
                                 .lease = f->lease};
}

static int64_t revision_now(const struct model_store *m)
{
    return m->revision + m->changed;
}

/* Inside a transaction. */
static const struct pb_response_header *inner_header(const struct model_store *m, bool inner)
{
    struct pb_response_header *h = arena_new(m->results, struct pb_response_header);

    h->revision = revision_now(m);
    return inner ? h : NULL;
}

static const struct pb_range_response *model_range(struct model_store *m,
                                                   const struct pb_range_request *r, bool inner)
{
    struct pb_range_response *result = arena_new(m->results, struct pb_range_response);
    struct pb_key_value *kvs = arena_new_array(m->results, KEYS, struct pb_key_value);
    const struct state *s = r->revision > 0 ? &m->states[r->revision] : &m->now;
    size_t found = 0;

    result->header = inner_header(m, inner);
    for (size_t i = 0; i < KEYS; i++) {
        if (!s->keys[i].alive || !in_range(i, r->key, r->range_end))
            continue;
        result->count++;
        struct pb_key_value kv = kv_of(&s->keys[i], i);
        if (r->keys_only) {
            kv.value = (struct bytes){0};
            kv.lease = 0;
        }
        kvs[found++] = kv;
    }
    if (r->limit > 0 && (int64_t)found > r->limit && !r->count_only) {
        found = (size_t)r->limit;
        result->more = true;
    }
    result->kvs.at = kvs;
    result->kvs.count = r->count_only ? 0 : found;
    return result;
}

static const struct pb_put_response *model_put_key(struct model_store *m,
                                                   const struct pb_put_request *p, bool inner)
{
    struct pb_put_response *result = arena_new(m->results, struct pb_put_response);
    struct fact *f = &m->now.keys[place_of(p->key)];
    struct fact before = *f;

    if (!before.alive)
        before = (struct fact){0};
    m->changed = true;
    *f = (struct fact){
        .alive = true,
        .created = before.alive ? before.created : m->revision + 1,
        .mod = m->revision + 1,
        .version = before.version + 1,
        .lease = p->ignore_lease ? before.lease : p->lease,
        .value = p->ignore_value ? before.value : arena_copy(&m->arena, p->value),
    };
    result->header = inner_header(m, inner);
    if (p->prev_kv && before.alive) {
        struct pb_key_value *kv = arena_new(m->results, struct pb_key_value);
        *kv = kv_of(&before, place_of(p->key));
        result->prev_kv = kv;
    }
    return result;
}

static const struct pb_delete_range_response *
model_delete(struct model_store *m, const struct pb_delete_range_request *d, bool inner)
{
    struct pb_delete_range_response *result =
        arena_new(m->results, struct pb_delete_range_response);
    struct pb_key_value *kvs = arena_new_array(m->results, KEYS, struct pb_key_value);

    for (size_t i = 0; i < KEYS; i++) {
        struct fact *f = &m->now.keys[i];
        if (!f->alive || !in_range(i, d->key, d->range_end))
            continue;
        kvs[result->deleted++] = kv_of(f, i);
        *f = (struct fact){0};
        m->changed = true;
    }
    result->header = inner_header(m, inner);
    result->prev_kvs.at = kvs;
    result->prev_kvs.count = d->prev_kv ? (size_t)result->deleted : 0;
    return result;
}

/* ---- Checks ---- */

static enum result check_revision(const struct model_store *m, int64_t revision, bool inner)
{
    if (revision > m->revision)
        return RESULT_FUTURE_REV;
    if ((revision > 0 || (inner && revision < 0)) && revision < m->compacted)
        return RESULT_COMPACTED;
    return RESULT_OK;
}

static enum result check_put_of(const struct model_store *m, const struct pb_put_request *p)
{
    if (p->lease < 0 || p->lease > LEASES || (p->lease > 0 && !m->leases[p->lease]))
        return RESULT_LEASE_NOT_FOUND;
    if ((p->ignore_value || p->ignore_lease) && !m->now.keys[place_of(p->key)].alive)
        return RESULT_KEY_NOT_FOUND;
    return RESULT_OK;
}

/* ---- Transactions ---- */

static bool fact_holds(const struct pb_compare *c, const struct fact *f)
{
    int64_t numbers[] = {f->version, f->created, f->mod, 0, f->lease};
    int64_t operand = (int)c->which == c->target + PB_OPERAND_VERSION ? c->version : 0;
    int order = c->target == PB_TARGET_VALUE
                    ? bytes_compare(f->value, c->value)
                    : (numbers[c->target] > operand) - (numbers[c->target] < operand);

    return c->result == PB_COMPARE_EQUAL     ? order == 0
           : c->result == PB_COMPARE_GREATER ? order > 0
           : c->result == PB_COMPARE_LESS    ? order < 0
                                             : order != 0;
}

static bool model_compares(const struct model_store *m, const struct pb_txn_request *t)
{
    for (size_t n = 0; n < t->compare.count; n++) {
        const struct pb_compare *c = &t->compare.at[n];
        bool any = false;
        for (size_t i = 0; i < KEYS; i++) {
            const struct fact *f = &m->states[m->revision].keys[i];
            if (!f->alive || !in_range(i, c->key, c->range_end))
                continue;
            any = true;
            if (!fact_holds(c, f))
                return false;
        }
        if (!any && (c->target == PB_TARGET_VALUE || !fact_holds(c, &(struct fact){0})))
            return false;
    }
    return true;
}

static enum result check_txn(const struct model_store *m, const struct pb_txn_request *t)
{
    bool yes = model_compares(m, t);
    const struct pb_request_op *ops = yes ? t->success.at : t->failure.at;
    size_t count = yes ? t->success.count : t->failure.count;

    for (size_t i = 0; i < count; i++) {
        enum result a = RESULT_OK;
        if (ops[i].which == PB_OP_RANGE)
            a = ops[i].range->revision == 0 ? RESULT_OK
                                            : check_revision(m, ops[i].range->revision, true);
        else if (ops[i].which == PB_OP_PUT)
            a = check_put_of(m, ops[i].put);
        else if (ops[i].which == PB_OP_TXN)
            a = check_txn(m, ops[i].txn);
        if (a != RESULT_OK)
            return a;
    }
    return RESULT_OK;
}

static const struct pb_txn_response *model_txn(struct model_store *m,
                                               const struct pb_txn_request *t, bool inner)
{
    bool yes = model_compares(m, t);
    const struct pb_request_op *ops = yes ? t->success.at : t->failure.at;
    size_t count = yes ? t->success.count : t->failure.count;
    struct pb_txn_response *result = arena_new(m->results, struct pb_txn_response);
    struct pb_response_op *responses = arena_new_array(m->results, DICE_OPS, struct pb_response_op);

    result->succeeded = yes;
    result->header = inner ? arena_new(m->results, struct pb_response_header) : NULL;
    result->responses.at = responses;
    result->responses.count = count;
    for (size_t i = 0; i < count; i++) {
        responses[i].which = ops[i].which;
        if (ops[i].which == PB_OP_RANGE)
            responses[i].range = model_range(m, ops[i].range, true);
        else if (ops[i].which == PB_OP_PUT)
            responses[i].put = model_put_key(m, ops[i].put, true);
        else if (ops[i].which == PB_OP_DELETE_RANGE)
            responses[i].delete_range = model_delete(m, ops[i].delete_range, true);
        else
            responses[i].txn = model_txn(m, ops[i].txn, true);
    }
    return result;
}

/* ---- Entries ---- */

static void model_publish(struct model_store *m)
{
    CHECK(m->revision + 1 < REVISIONS);
    if (m->changed)
        m->states[++m->revision] = m->now;
    m->changed = false;
}

static enum result model_revoke(struct model_store *m, int64_t id)
{
    if (!m->leases[id])
        return RESULT_LEASE_NOT_FOUND;
    m->leases[id] = false;
    for (size_t i = 0; i < KEYS; i++)
        if (m->now.keys[i].alive && m->now.keys[i].lease == id) {
            m->now.keys[i] = (struct fact){0};
            m->changed = true;
        }
    return RESULT_OK;
}

static enum result model_grant(struct model_store *m, const struct pb_lease_grant_request *g,
                               struct buf *reply)
{
    if (m->leases[g->id])
        return RESULT_LEASE_EXIST;
    m->leases[g->id] = true;
    pb_encode_lease_grant_response(
        &(struct pb_lease_grant_response){.id = g->id, .ttl = g->ttl < 2 ? 2 : g->ttl}, reply);
    return RESULT_OK;
}

static enum result model_compact(struct model_store *m, int64_t revision)
{
    if (revision <= m->compacted)
        return RESULT_COMPACTED;
    if (revision > m->revision)
        return RESULT_FUTURE_REV;
    m->compacted = revision;
    return RESULT_OK;
}

/* What the entry must answer; its response, encoded. */
static enum result model_apply(struct model_store *m, const struct pb_internal_raft_request *r,
                               struct buf *reply)
{
    enum result a = RESULT_OK;

    if (r->put) {
        if ((a = check_put_of(m, r->put)) == RESULT_OK)
            pb_encode_put_response(model_put_key(m, r->put, false), reply);
    } else if (r->delete_range) {
        pb_encode_delete_range_response(model_delete(m, r->delete_range, false), reply);
    } else if (r->range) {
        if ((a = check_revision(m, r->range->revision, false)) == RESULT_OK)
            pb_encode_range_response(model_range(m, r->range, false), reply);
    } else if (r->txn) {
        if ((a = check_txn(m, r->txn)) == RESULT_OK)
            pb_encode_txn_response(model_txn(m, r->txn, false), reply);
    } else if (r->lease_grant) {
        a = model_grant(m, r->lease_grant, reply);
    } else if (r->lease_revoke) {
        a = model_revoke(m, r->lease_revoke->id);
    } else {
        a = model_compact(m, r->compaction->revision);
    }
    model_publish(m);
    return a;
}

/* ---- The tests ---- */

static void model_init(struct model_store *m, struct arena *results)
{
    *m = (struct model_store){.revision = 1, .compacted = -1, .results = results};
    m->states = mem_new_array(REVISIONS, struct state);
}

static void model_free(struct model_store *m)
{
    mem_free(m->states);
    arena_free(&m->arena);
}

static void random_entry(struct apply_rig *rig, struct dice *d, struct model_store *m)
{
    struct buf want = {0}, got = {0};
    struct pb_internal_raft_request r = dice_request(d);

    enum result result = model_apply(m, &r, &want);
    struct apply_effects *e = apply_rig_request(rig, &r);

    CHECK(e);
    CHECK_STR(result_text(e->result), result_text(result));
    CHECK_EQ(e->revision, m->revision);
    if (result == RESULT_OK) {
        CHECK_EQ(reply_total(&e->reply), want.len);
        apply_rig_read_reply(&e->reply, 1 + dice_roll(d, 3000), &got);
        CHECK_BYTES(buf_bytes(&got), buf_bytes(&want));
    }
    apply_rig_done(rig);
    buf_free(&want);
    buf_free(&got);
}

static void random_read(struct apply_rig *rig, struct dice *d, struct model_store *m)
{
    struct buf want = {0}, got = {0};
    struct apply_read r = {0};
    enum result result;

    if (dice_roll(d, 2)) {
        r.range = dice_range(d);
        if ((result = check_revision(m, r.range->revision, false)) == RESULT_OK)
            pb_encode_range_response(model_range(m, r.range, false), &want);
    } else {
        r.txn = dice_txn(d, 0, true);
        if ((result = check_txn(m, r.txn)) == RESULT_OK)
            pb_encode_txn_response(model_txn(m, r.txn, false), &want);
    }
    apply_read_begin(rig->apply, &r);
    while (!apply_read_some(&r, rig->steps))
        ;

    CHECK_STR(result_text(r.result), result_text(result));
    CHECK_EQ(r.revision, m->revision);
    apply_rig_read_reply(&r.reply, 1 + dice_roll(d, 3000), &got);
    CHECK_BYTES(buf_bytes(&got), buf_bytes(&want));
    apply_read_end(&r);
    buf_free(&want);
    buf_free(&got);
}

/* Does what deletes and compactions have left to be done. */
static void settle(struct apply_rig *d)
{
    while (!mvcc_settle_some(d->mvcc, 3))
        ;
    for (int i = 0; i < 4; i++) {
        if (backend_can_commit(d->backend_rig.b))
            backend_rig_commit(&d->backend_rig);
        while (mvcc_compact_pending(d->mvcc) && !mvcc_compact_waiting(d->mvcc))
            (void)mvcc_compact_some(d->mvcc, 3);
    }
}

/* Gives another rig the same log, its own way. */
static void replay(const struct apply_rig *from, struct apply_rig *to, struct dice *d)
{
    for (size_t i = 0; i < from->log_count; i++) {
        to->steps = 1 + (unsigned)dice_roll(d, 4);
        to->now_ms += dice_roll(d, 5000);
        CHECK(apply_rig_entry(to, from->log[i].type, from->log[i].data));
        apply_rig_done(to);
        uint64_t what = dice_roll(d, 40);
        if (what == 0)
            apply_rig_restart(to);
        else if (what == 1)
            apply_rig_crash(to);
        else if (what < 4)
            settle(to);
        else if (what < 20)
            (void)mvcc_settle_some(to->mvcc, 1);
        else if (what < 24 && backend_can_commit(to->backend_rig.b))
            backend_rig_commit(&to->backend_rig);
    }
}

static void check_equal_stores(struct apply_rig *a, struct apply_rig *b)
{
    struct buf first = {0}, second = {0};

    settle(a);
    settle(b);
    apply_rig_dump(a, &first);
    apply_rig_dump(b, &second);
    CHECK_STR(buf_str(&second), buf_str(&first));
    buf_free(&first);
    buf_free(&second);
}

static void random_episode(uint64_t seed)
{
    struct apply_rig one, other;
    struct arena arena = {0};
    struct model_store m;
    struct dice d = {.arena = &arena};

    rng_seed(&d.rng, seed);
    model_init(&m, &arena);
    apply_rig_init_settling(&one, BACKEND_RIG_MEMORY, (int64_t)(seed % 4));
    apply_rig_init_settling(&other, BACKEND_RIG_MEMORY, (int64_t)(seed % 3));
    other.nobody_waits = true;
    for (int i = 0; i < 300; i++) {
        d.revision = m.revision;
        one.steps = dice_roll(&d, 3) == 0 ? 1 + (unsigned)dice_roll(&d, 5) : 1000;
        if (dice_roll(&d, 4) == 0)
            random_read(&one, &d, &m);
        else
            random_entry(&one, &d, &m);
        if (dice_roll(&d, 50) == 0)
            settle(&one);
        if (dice_roll(&d, 3) == 0)
            (void)mvcc_settle_some(one.mvcc, 1);
        arena_reset(&arena);
    }
    replay(&one, &other, &d);
    check_equal_stores(&one, &other);
    apply_rig_free(&one);
    apply_rig_free(&other);
    model_free(&m);
    arena_free(&arena);
}

TEST(random_entries_do_what_a_naive_model_does_and_the_same_in_any_slices)
{
    for (uint64_t i = 0; i < 40 * test_effort(); i++)
        random_episode(test_seed() * 1000 + i);
}
