#include "apply/apply_int.h"

#include "base/mem.h"
#include "pb/wire.h"

enum {
    TAG_HEADER = 0x0a, /* of TxnResponse */
    TAG_SUCCEEDED = 0x10,
    TAG_RESPONSES = 0x1a,
};

/* ---- Walking: through a transaction and those inside it, each along one branch ---- */

static void walk_into(struct work *w, const struct pb_txn_request *txn, bool succeeded)
{
    if (w->depth == w->frame_cap) {
        w->frame_cap = w->frame_cap ? 2 * w->frame_cap : 4;
        w->frames = mem_resize(w->frames, w->frame_cap, sizeof(*w->frames));
    }
    w->frames[w->depth++] = (struct frame){
        .ops = succeeded ? txn->success.at : txn->failure.at,
        .count = succeeded ? txn->success.count : txn->failure.count,
    };
}

static struct frame *innermost(struct work *w)
{
    assert(w->depth > 0);
    return &w->frames[w->depth - 1];
}

/* The next operation of the innermost transaction; NULL behind its last. */
static const struct pb_request_op *walk_next(struct work *w)
{
    struct frame *f = innermost(w);

    return f->next < f->count ? &f->ops[f->next++] : NULL;
}

/* Which branch the transaction that is entered next takes, on a path that is settled. */
static bool path_next(struct work *w)
{
    assert(w->path_at < w->path.len);
    return w->path.at[w->path_at++];
}

static void walk_from_start(struct work *w)
{
    w->path_at = 0;
    w->depth = 0;
    walk_into(w, w->txn, path_next(w));
}

void txn_begin(struct work *w)
{
    buf_clear(&w->path);
    w->path_at = 0;
    w->depth = 0;
    w->comparing = w->txn;
    w->compare_at = 0;
    assert(!w->compare_open);
}

static void close_compared(struct work *w)
{
    if (w->compare_open)
        mvcc_scan_close(&w->compared);
    w->compare_open = false;
}

void txn_end(struct work *w)
{
    close_compared(w);
    w->comparing = NULL;
    w->depth = 0;
    w->path_at = 0;
    buf_clear(&w->path);
    if (w->frame_cap <= APPLY_FRAMES_KEPT_MAX)
        return;
    mem_free(w->frames);
    w->frames = NULL;
    w->frame_cap = 0;
    buf_free(&w->path);
}

/* ---- Compares: all of them, at all levels, against the state before ---- */

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* An operand of another kind than the target stands for zero. */
static int compare_with(const struct pb_compare *c, const struct pb_key_value *kv)
{
    switch (c->target) {
    case PB_TARGET_VERSION:
        return compare_numbers(kv->version, c->which == PB_OPERAND_VERSION ? c->version : 0);
    case PB_TARGET_CREATE:
        return compare_numbers(kv->create_revision,
                               c->which == PB_OPERAND_CREATE_REVISION ? c->create_revision : 0);
    case PB_TARGET_MOD:
        return compare_numbers(kv->mod_revision,
                               c->which == PB_OPERAND_MOD_REVISION ? c->mod_revision : 0);
    case PB_TARGET_LEASE:
        return compare_numbers(kv->lease, c->which == PB_OPERAND_LEASE ? c->lease : 0);
    case PB_TARGET_VALUE:
        return bytes_compare(kv->value,
                             c->which == PB_OPERAND_VALUE ? c->value : (struct bytes){0});
    default: /* one that nobody knows is always equal, as in etcd */
        return 0;
    }
}

static bool holds(const struct pb_compare *c, const struct pb_key_value *kv)
{
    int order = compare_with(c, kv);

    switch (c->result) {
    case PB_COMPARE_EQUAL:
        return order == 0;
    case PB_COMPARE_NOT_EQUAL:
        return order != 0;
    case PB_COMPARE_GREATER:
        return order > 0;
    case PB_COMPARE_LESS:
        return order < 0;
    default: /* and so is this always true */
        return true;
    }
}

/* No key there: all its numbers are zero, but it has no value, not even an empty one. */
static bool holds_for_nothing(const struct pb_compare *c)
{
    return c->target != PB_TARGET_VALUE && holds(c, &(struct pb_key_value){0});
}

static bool needs_store(const struct pb_compare *c)
{
    return c->target == PB_TARGET_VALUE || c->target == PB_TARGET_LEASE;
}

/* One compare of one key; true when it is settled, which a cold store may delay. */
static bool compare_key_some(struct work *w, const struct pb_compare *c, unsigned *steps,
                             bool *result)
{
    struct mvcc *m = w->apply->o.mvcc;
    struct keyindex_found found;
    struct pb_key_value kv;

    if (!mvcc_find(m, c->key, w->base, &found)) {
        *result = holds_for_nothing(c);
        return true;
    }
    if (needs_store(c)) {
        if (!mvcc_is_at_hand(m, found.mod)) {
            *steps = 0;
            return false;
        }
        spend_bytes(steps, found.length);
        *result = apply_read_kv(w->apply, found.mod, &w->chunk, &kv) && holds(c, &kv);
        return true;
    }
    kv = (struct pb_key_value){
        .create_revision = found.created, .mod_revision = found.mod.main, .version = found.version};
    *result = holds(c, &kv);
    return true;
}

/* The keys that one chunk has brought, each behind its tag and length. */
static bool holds_for_chunk(struct work *w, const struct pb_compare *c)
{
    if (w->chunk.len == 0) /* all of it went into passing over dead keys */
        return true;
    struct pb_reader r = {.at = w->chunk.at, .end = w->chunk.at + w->chunk.len};
    while (r.at < r.end) {
        struct pb_key_value kv;
        (void)pb_take_tag(&r);
        struct bytes stored = pb_take_bytes(&r);
        assert(r.err == ERR_OK); /* mvcc has framed them */
        if (!apply_decode_kv(w->apply, stored, &kv) || !holds(c, &kv))
            return false;
    }
    return true;
}

static void open_compared(struct work *w, const struct pb_compare *c)
{
    w->compared = (struct mvcc_scan){.question = {.key = c->key,
                                                  .end = c->range_end,
                                                  .at = w->base,
                                                  .keys_only = !needs_store(c),
                                                  .tag = PB_TAG_BYTES(2)}};
    w->compare_open = true;
    w->compare_measured = false;
    mvcc_scan_open(w->apply->o.mvcc, &w->compared);
}

static bool measure_compared(struct work *w, unsigned *steps)
{
    if (w->compare_measured)
        return true;
    uint64_t before = w->compared.cost;
    w->compare_measured = mvcc_scan_measure(&w->compared, *steps);
    spend(steps, w->compare_measured ? 1 + w->compared.cost - before : UINT64_MAX);
    return w->compare_measured;
}

/* A large KeyValue comes whole, however little was asked for. A chunk that is short without being
 * the last is so because of dead keys, which cost as much as living ones. */
static void spend_chunk(unsigned *steps, size_t len, bool last)
{
    uint64_t cost = APPLY_COMPARE_STEPS * (uint64_t)len / APPLY_COMPARE_BYTES;

    spend(steps, last || cost > APPLY_COMPARE_STEPS ? cost : APPLY_COMPARE_STEPS);
}

/* One compare over many keys; true when it is settled. */
static bool compare_range_some(struct work *w, const struct pb_compare *c, unsigned *steps,
                               bool *result)
{
    if (!w->compare_open)
        open_compared(w, c);
    if (!measure_compared(w, steps))
        return false;
    if (w->compared.kvs == 0) {
        *result = holds_for_nothing(c);
        return true;
    }
    while (*steps > 0) {
        buf_clear(&w->chunk);
        bool last = mvcc_scan_read(&w->compared, APPLY_COMPARE_BYTES, *steps, &w->chunk);
        *result = holds_for_chunk(w, c);
        spend_chunk(steps, w->chunk.len, last);
        if (last || !*result)
            return true;
        if (w->compared.is_paused)
            *steps = 0;
    }
    return false;
}

/* The compares of one transaction; true when they are settled. */
static bool compares_some(struct work *w, unsigned *steps, bool *result)
{
    const struct pb_txn_request *txn = w->comparing;

    *result = true;
    for (; w->compare_at < txn->compare.count; w->compare_at++) {
        const struct pb_compare *c = &txn->compare.at[w->compare_at];
        if (*steps == 0)
            return false;
        if (c->range_end.len == 0 ? !compare_key_some(w, c, steps, result)
                                  : !compare_range_some(w, c, steps, result))
            return false;
        w->ranges++;
        close_compared(w);
        spend(steps, 1);
        if (!*result)
            return true;
    }
    return true;
}

/* True when the path is settled, through all levels. */
bool txn_compare_some(struct work *w, unsigned *steps)
{
    while (*steps > 0) {
        bool result;
        if (w->comparing) {
            if (!compares_some(w, steps, &result))
                return false;
            buf_append_byte(&w->path, result);
            walk_into(w, w->comparing, result);
            w->comparing = NULL;
        }
        const struct pb_request_op *op = walk_next(w);
        if (!op && --w->depth == 0) {
            walk_from_start(w);
            return true;
        }
        if (op && op->which == PB_OP_TXN) {
            w->comparing = op->txn;
            w->compare_at = 0;
        }
        spend(steps, 1);
    }
    return false;
}

/* ---- Checks: whatever lies on the path ---- */

bool txn_check_some(struct work *w, unsigned *steps)
{
    while (*steps > 0) {
        const struct pb_request_op *op = walk_next(w);
        if (!op && --w->depth == 0)
            return true;
        if (op && op->which == PB_OP_TXN)
            walk_into(w, op->txn, path_next(w));
        else if (op && (w->result = work_check_op(w, op)) != RESULT_OK)
            return true;
        spend(steps, 1);
    }
    return false;
}

/* ---- Executing ---- */

/* ResponseOp has the same field numbers as RequestOp, and responses are field 3. */
static void respond_op(struct work *w, size_t mark, enum pb_op which)
{
    if (!w->reply)
        return;
    reply_close(w->reply, mark, (uint8_t)PB_TAG_BYTES(which));
    reply_close(w->reply, mark, TAG_RESPONSES);
}

static size_t mark_op(const struct work *w)
{
    return w->reply ? reply_mark(w->reply) : 0;
}

/* A nested response has a header, but nothing in it; the outermost gets its own from api. */
static void enter(struct work *w, const struct pb_txn_request *txn)
{
    bool succeeded = path_next(w);

    walk_into(w, txn, succeeded);
    if (!w->reply)
        return;
    innermost(w)->nest = reply_open(w->reply);
    reply_add(w->reply, bytes_of((const uint8_t[]){TAG_HEADER, 0}, 2));
    reply_add_number(w->reply, TAG_SUCCEEDED, succeeded);
}

/* True: that was the outermost. */
static bool leave(struct work *w)
{
    struct reply_nest nest = innermost(w)->nest;

    w->depth--;
    if (w->reply && w->depth > 0)
        reply_seal(w->reply, nest, PB_TAG_BYTES(PB_OP_TXN), TAG_RESPONSES);
    else if (w->reply)
        reply_join(w->reply);
    return w->depth == 0;
}

static void begin_op(struct work *w, const struct pb_request_op *op)
{
    w->op = (struct op){.what = op};
    w->op_mark = mark_op(w);
}

void txn_execute_begin(struct work *w)
{
    walk_from_start(w);
    if (w->reply)
        reply_add_number(w->reply, TAG_SUCCEEDED, w->path.at[0]);
}

bool txn_execute_some(struct work *w, unsigned *steps)
{
    while (*steps > 0) {
        if (w->op.what) {
            enum pb_op which = w->op.what->which;
            if (!work_execute_op(w, steps))
                return false;
            respond_op(w, w->op_mark, which);
            continue;
        }
        const struct pb_request_op *op = walk_next(w);
        if (!op && leave(w))
            return true;
        if (op && op->which == PB_OP_TXN)
            enter(w, op->txn);
        else if (op)
            begin_op(w, op);
        spend(steps, 1);
    }
    return false;
}
