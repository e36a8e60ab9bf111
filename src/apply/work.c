#include "apply/apply_int.h"

#include "base/mem.h"

/* Tags of the responses' fields: number and wire type. */
enum {
    TAG_HEADER = 0x0a,
    TAG_HEADER_REVISION = 0x18,
    TAG_RANGE_KVS = 0x12,
    TAG_RANGE_MORE = 0x18,
    TAG_RANGE_COUNT = 0x20,
    TAG_PUT_PREV_KV = 0x12,
    TAG_DELETED = 0x10,
    TAG_DELETE_PREV_KVS = 0x1a,
};

static struct mvcc *mvcc_of(const struct work *w)
{
    return w->apply->o.mvcc;
}

/* What an operation sees: the state before, and what its transaction has done so far. */
static struct revision state_now(const struct work *w)
{
    return w->writing ? mvcc_working(mvcc_of(w)) : w->base;
}

/* etcd looks all of this up in transactions of its store, and counts those of several operations:
 * compares and checks are one, what is executed is another where it writes. */
void work_count(struct work *w)
{
    struct apply_stats *s = &w->apply->stats;

    s->ranges += w->ranges;
    s->puts += w->puts;
    s->deletes += w->deletes;
    s->txns += w->ranges + w->puts + w->deletes > 1;
    w->ranges = w->puts = w->deletes = 0;
}

static bool looks_before(const struct pb_put_request *p)
{
    return p->ignore_value || p->ignore_lease || p->prev_kv;
}

/* ---- Checks: all of them before the first write ---- */

static enum result result_of_mvcc(enum mvcc_result m)
{
    switch (m) {
    case MVCC_OK:
        return RESULT_OK;
    case MVCC_COMPACTED:
        return RESULT_COMPACTED;
    case MVCC_FUTURE:
        return RESULT_FUTURE_REV;
    }
    unreachable();
}

/* A range by itself takes any negative revision for the newest; in a transaction it is held against
 * the compact revision first, and only -1 passes, where nothing was ever compacted. */
static enum result check_range(struct work *w, const struct pb_range_request *r)
{
    struct revision at;

    if (r->revision == 0)
        return RESULT_OK;
    if (!w->txn) {
        enum result result = result_of_mvcc(mvcc_resolve(mvcc_of(w), r->revision, &at));
        w->ranges += result != RESULT_OK; /* etcd has asked its store to find out */
        return result;
    }
    if (r->revision > w->base.main)
        return RESULT_FUTURE_REV;
    if (r->revision < mvcc_compact_revision(mvcc_of(w)))
        return RESULT_COMPACTED;
    return RESULT_OK;
}

static enum result check_put(struct work *w, const struct pb_put_request *p)
{
    struct lease_info lease;
    struct keyindex_found found;

    if (p->key.len == 0) {
        apply_refuse(w->apply, "it puts an empty key");
        return RESULT_EMPTY_KEY;
    }
    if (p->lease != 0 && !lease_look(w->apply->o.leases, p->lease, w->apply->now_ms, &lease))
        return RESULT_LEASE_NOT_FOUND;
    if ((p->ignore_value || p->ignore_lease) && !mvcc_find(mvcc_of(w), p->key, w->base, &found))
        return RESULT_KEY_NOT_FOUND;
    return RESULT_OK;
}

enum result work_check_op(struct work *w, const struct pb_request_op *op)
{
    switch (op->which) {
    case PB_OP_RANGE:
        if (op->range->revision > 0 && op->range->revision < w->lowest_revision)
            w->lowest_revision = op->range->revision;
        return check_range(w, op->range);
    case PB_OP_PUT:
        w->ranges += w->txn && looks_before(op->put);
        return check_put(w, op->put);
    case PB_OP_DELETE_RANGE:
        return RESULT_OK;
    case PB_OP_NONE: /* perhaps one that a later version knows, and its members execute. A read that
                      * nobody logs may be refused; an entry of the log may not be skipped */
        if (w->writes)
            apply_refuse(w->apply, "its transaction has an operation that is not known here");
        return RESULT_KEY_NOT_FOUND;
    case PB_OP_TXN:
        break;
    }
    unreachable();
}

/* ---- Responses ---- */

/* Those inside a transaction have a header of their own, with nothing but the revision. */
static void respond_header(struct work *w)
{
    if (!w->txn)
        return;
    size_t mark = reply_mark(w->reply);
    reply_add_number(w->reply, TAG_HEADER_REVISION, (uint64_t)state_now(w).main);
    reply_close(w->reply, mark, TAG_HEADER);
}

/* ---- Ranges ---- */

/* Opens it the first time. True when count and size are known. */
static bool measure(struct work *w, const struct mvcc_question *question, unsigned *steps)
{
    struct op *op = &w->op;

    if (!op->scan) {
        op->scan = reply_scan_new(question);
        mvcc_scan_open(mvcc_of(w), op->scan);
    }
    uint64_t before = op->scan->cost;
    if (!mvcc_scan_measure(op->scan, *steps)) {
        *steps = 0;
        return false;
    }
    op->measured = true;
    spend(steps, 1 + op->scan->cost - before);
    return true;
}

static struct revision revision_asked(const struct work *w, int64_t revision)
{
    return revision > 0 ? revision_whole(revision) : state_now(w);
}

static bool execute_range(struct work *w, const struct pb_range_request *r, unsigned *steps)
{
    w->ranges += !w->op.scan; /* the first time */
    if (!w->reply)
        return true; /* it changes nothing, and nobody here waits: the client is another member's */
    struct mvcc_question question = {
        .key = r->key,
        .end = r->range_end,
        .at = revision_asked(w, r->revision),
        .limit = r->limit,
        .sort_order = r->sort_order,
        .sort_target = r->sort_target,
        .keys_only = r->keys_only,
        .count_only = r->count_only,
        .min_mod_revision = r->min_mod_revision,
        .max_mod_revision = r->max_mod_revision,
        .min_create_revision = r->min_create_revision,
        .max_create_revision = r->max_create_revision,
        .tag = TAG_RANGE_KVS,
    };
    if (!measure(w, &question, steps))
        return false;
    if (w->keep_open)
        return true;
    struct mvcc_scan *s = w->op.scan;
    bool more = s->more;
    int64_t count = s->count;
    w->op.scan = NULL;
    respond_header(w);
    reply_add_scan(w->reply, s);
    reply_add_number(w->reply, TAG_RANGE_MORE, more);
    reply_add_number(w->reply, TAG_RANGE_COUNT, (uint64_t)count);
    return true;
}

/* ---- Puts ---- */

/* The key as it was, for the response. A large one is left in the store for now. */
static void respond_prev_kv(struct work *w, const struct pb_put_request *p, struct revision before,
                            const struct keyindex_found *found)
{
    if (reply_takes_inline(w->reply, found->length) && mvcc_is_at_hand(mvcc_of(w), found->mod)) {
        size_t mark = reply_mark(w->reply);
        mvcc_read_kv(mvcc_of(w), found->mod, reply_text(w->reply));
        reply_added(w->reply);
        reply_close(w->reply, mark, TAG_PUT_PREV_KV);
        return;
    }
    struct mvcc_scan *s = reply_scan_new(
        &(struct mvcc_question){.key = p->key, .at = before, .tag = TAG_PUT_PREV_KV});
    mvcc_scan_open(mvcc_of(w), s);
    while (!mvcc_scan_measure(s, 1)) /* one key: it ends */
        ;
    reply_add_scan(w->reply, s);
}

/* What stays as it was, from the store. */
static bool keep_old(struct work *w, const struct pb_put_request *p, struct revision at,
                     struct bytes *value, int64_t *lease)
{
    struct pb_key_value old;

    if (!apply_read_kv(w->apply, at, &w->chunk, &old))
        return false;
    if (p->ignore_value)
        *value = old.value;
    if (p->ignore_lease)
        *lease = old.lease;
    return true;
}

static bool execute_put(struct work *w, const struct pb_put_request *p, unsigned *steps)
{
    struct mvcc *m = mvcc_of(w);
    struct bytes value = p->value;
    int64_t lease = p->lease;
    bool keeps = p->ignore_value || p->ignore_lease, shows = p->prev_kv && w->reply;
    struct revision before = state_now(w);
    struct keyindex_found found;

    /* What was there is looked up before the put, and what is kept of it lies in `chunk` until mvcc
     * has copied it. */
    bool alive = (keeps || shows) && mvcc_find(m, p->key, before, &found);
    if (keeps && alive && !mvcc_is_at_hand(m, found.mod)) {
        *steps = 0;
        return false;
    }
    if (keeps && alive && !keep_old(w, p, found.mod, &value, &lease))
        return false;
    spend_bytes(steps, (keeps && alive ? found.length : 0) + p->key.len + value.len);
    mvcc_put(m, p->key, value, lease);
    w->ranges += looks_before(p);
    w->puts++;
    w->apply->stats.put_bytes += p->key.len + value.len;
    /* A lease that is kept may be unknown, in a store that came to us so: then it is a number. */
    if (lease_attach(w->apply->o.leases, lease, p->key) != LEASE_OK)
        lease_detach(w->apply->o.leases, p->key);
    if (w->reply)
        respond_header(w);
    if (shows && alive)
        respond_prev_kv(w, p, before, &found);
    spend(steps, 1);
    return true;
}

/* ---- Deletes ---- */

static void on_key_deleted(void *context, struct bytes key)
{
    lease_detach(context, key);
}

static void delete_begin(struct work *w, const struct pb_delete_range_request *d)
{
    w->op.deleting = true;
    w->gone = (struct mvcc_delete_range){
        .range = key_range(d->key, d->range_end),
        .on_key = on_key_deleted,
        .context = w->apply->o.leases,
    };
    mvcc_delete_range_begin(mvcc_of(w), &w->gone);
    if (w->gone.deleted > 0) /* all at once: mvcc tells of each when it is settled */
        lease_end_range(w->apply->o.leases, w->gone.range.from, w->gone.range.to);
}

static bool delete_some(struct work *w, const struct pb_delete_range_request *d, unsigned *steps)
{
    if (!w->op.deleting)
        delete_begin(w, d);
    uint64_t before = w->gone.cost;
    if (!mvcc_delete_range_some(mvcc_of(w), &w->gone, *steps)) {
        *steps = 0;
        return false;
    }
    w->op.deleting = false;
    w->deleted = w->gone.deleted;
    spend(steps, 1 + w->gone.cost - before);
    return true;
}

static void delete_one(struct work *w, struct bytes key, unsigned *steps)
{
    w->deleted = mvcc_delete(mvcc_of(w), key);
    if (w->deleted > 0)
        lease_detach(w->apply->o.leases, key);
    spend(steps, 1);
}

static void respond_delete(struct work *w)
{
    struct mvcc_scan *prev = w->op.scan;

    w->op.scan = NULL;
    respond_header(w);
    reply_add_number(w->reply, TAG_DELETED, (uint64_t)w->deleted);
    if (prev)
        reply_add_scan(w->reply, prev);
}

static bool execute_delete(struct work *w, const struct pb_delete_range_request *d, unsigned *steps)
{
    struct mvcc_question question = {
        .key = d->key, .end = d->range_end, .at = state_now(w), .tag = TAG_DELETE_PREV_KVS};

    /* Counted while they are all there, at the revision before; read later, from history, which the
     * scan keeps. */
    if (d->prev_kv && w->reply && !w->op.measured && !measure(w, &question, steps))
        return false;
    if (*steps == 0)
        return false;
    if (d->range_end.len == 0)
        delete_one(w, d->key, steps);
    else if (!delete_some(w, d, steps))
        return false;
    w->ranges += d->prev_kv;
    w->deletes++;
    if (w->reply)
        respond_delete(w);
    return true;
}

/* ---- One operation ---- */

static bool execute(struct work *w, unsigned *steps)
{
    const struct pb_request_op *op = w->op.what;

    switch (op->which) {
    case PB_OP_RANGE:
        return execute_range(w, op->range, steps);
    case PB_OP_PUT:
        return execute_put(w, op->put, steps);
    case PB_OP_DELETE_RANGE:
        return execute_delete(w, op->delete_range, steps);
    case PB_OP_NONE:
    case PB_OP_TXN:
        break;
    }
    unreachable();
}

bool work_execute_op(struct work *w, unsigned *steps)
{
    assert(w->op.what);
    assert(*steps > 0);

    if (!execute(w, steps))
        return false;
    struct mvcc_scan *left_open = w->op.scan;
    assert(!left_open || w->keep_open);
    w->op = (struct op){.scan = left_open};
    return true;
}

/* ---- The whole of it ---- */

void work_begin(struct work *w)
{
    w->base = revision_whole(mvcc_revision(mvcc_of(w)));
    w->lowest_revision = w->base.main;
    w->result = RESULT_OK;
    w->stage = w->txn ? WORK_COMPARE : WORK_CHECK;
    w->op = (struct op){0};
    if (w->txn)
        txn_begin(w);

    assert(!w->writing);
}

static bool check_some(struct work *w, unsigned *steps)
{
    if (w->txn)
        return txn_check_some(w, steps);
    w->result = work_check_op(w, &w->single);
    return true;
}

static bool execute_some(struct work *w, unsigned *steps)
{
    if (w->txn)
        return txn_execute_some(w, steps);
    w->op.what = &w->single;
    return work_execute_op(w, steps);
}

static void begin_executing(struct work *w)
{
    w->stage = w->result == RESULT_OK ? WORK_EXECUTE : WORK_DONE;
    w->writing = w->writes && w->stage == WORK_EXECUTE;
    if (w->writing && w->txn)
        work_count(w);
    if (w->writing)
        mvcc_write_begin(mvcc_of(w));
    if (w->txn && w->stage == WORK_EXECUTE)
        txn_execute_begin(w);
}

bool work_some(struct work *w, unsigned *steps)
{
    if (w->stage == WORK_COMPARE && *steps > 0 && txn_compare_some(w, steps))
        w->stage = WORK_CHECK;
    if (w->stage == WORK_CHECK && *steps > 0 && check_some(w, steps))
        begin_executing(w);
    if (w->stage == WORK_EXECUTE && *steps > 0 && execute_some(w, steps))
        w->stage = WORK_DONE;
    return w->stage == WORK_DONE;
}

void work_abandon(struct work *w)
{
    reply_scan_free(w->op.scan);
    if (w->op.deleting)
        mvcc_delete_range_end(&w->gone);
    w->op = (struct op){0};
    txn_end(w);
    w->writing = false;
    if (w->chunk.cap > REPLY_INLINE_BYTES_MAX)
        buf_free(&w->chunk);
}

void work_end(struct work *w, struct mvcc_changes *changes)
{
    bool writing = w->writing;

    work_count(w);
    work_abandon(w); /* which forgets that it writes, since it also ends what is given up */
    if (writing)
        mvcc_write_end(mvcc_of(w), changes);
}

void work_free(struct work *w)
{
    buf_free(&w->chunk);
    buf_free(&w->path);
    mem_free(w->frames);
    *w = (struct work){0};
}

void work_check(const struct work *w)
{
    assert(w->depth <= w->frame_cap);
    assert(w->path_at <= w->path.len);
    assert(!w->writing || w->writes);
    assert(!w->writing || mvcc_is_writing(mvcc_of(w)));
    assert(!w->op.deleting || w->writing);
    if (w->reply)
        reply_check(w->reply);
}
