/*
 * Commands: made up, kept in a log, applied to the rooms in slices and to the model.
 */
#include "model/episode_int.h"

#include "base/mem.h"

#include <inttypes.h>

/* --- making them up ----------------------------------------------------------------------- */

static struct entry *append(struct episode *e, enum entry_kind kind)
{
    struct log *l = &e->log;
    struct entry *entry = arena_new(&e->arena, struct entry);

    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->entries = mem_resize(l->entries, l->cap, sizeof(*l->entries));
    }
    entry->kind = kind;
    l->entries[l->count++] = entry;
    return entry;
}

static struct bytes some_value(struct episode *e)
{
    size_t len = pick(e, 4) == 0 ? pick(e, e->climate.value_bytes_max + 1) : pick(e, 12);
    uint8_t *at = arena_alloc(&e->arena, len + 1);

    for (size_t i = 0; i < len && i < 4; i++) /* few, so that some are equal */
        at[i] = (uint8_t)('a' + pick(e, 3));
    for (size_t i = 4; i < len; i++)
        at[i] = (uint8_t)('a' + (len + i) % 26);
    return bytes_of(at, len);
}

static int64_t some_lease(struct episode *e)
{
    return e->naive.leases[pick(e, NAIVE_LEASES)].id;
}

static void make_put(struct episode *e, struct op *op)
{
    op->kind = OP_PUT;
    op->key_number = (unsigned)pick(e, e->naive.key_count);
    op->key = e->naive.keys[op->key_number];
    op->value = some_value(e);
    op->lease = chance(e, 1, 3) ? some_lease(e) : 0;
}

static void make_op(struct episode *e, struct op *op)
{
    uint64_t kind = pick(e, 8);

    if (kind < 5) {
        make_put(e, op);
        /* An unknown lease refuses the whole transaction, which is worth seeing, but seldom. */
        if (op->lease && !naive_find_lease(&e->naive, op->lease) && !chance(e, 1, 10))
            op->lease = 0;
    } else if (kind < 7) {
        op->kind = OP_DELETE;
        some_range(e, &op->key, &op->end);
    } else {
        op->kind = OP_RANGE;
        some_question(e, &op->question);
        if (chance(e, 1, 3))
            op->revision = 1 + (int64_t)pick(e, (uint64_t)e->naive.revision + 2);
    }
}

static struct op *make_ops(struct episode *e, unsigned count)
{
    return arena_new_array(&e->arena, count, struct op);
}

void entries_propose_write(struct episode *e)
{
    unsigned count = chance(e, 2, 3) ? 1 : 1 + (unsigned)pick(e, OPS_MAX);
    struct op *ops = make_ops(e, count);
    for (unsigned i = 0; i < count; i++)
        make_op(e, &ops[i]);
    struct entry *entry = append(e, ENTRY_WRITE);
    entry->ops = ops;
    entry->op_count = count;
}

/*
 * Thousands of puts; or the end of everything, often with puts behind it in the same transaction:
 * they touch nodes that were covered as a whole while those who ask for what is published must
 * still find all of it.
 */
void entries_propose_many(struct episode *e)
{
    bool load = chance(e, 1, 2);
    unsigned most = e->climate.key_count;
    unsigned count = load ? most / 5 + (unsigned)pick(e, most) : 1 + (unsigned)pick(e, OPS_MAX);
    struct op *ops = make_ops(e, count);
    for (unsigned i = 0; i < count; i++) {
        make_put(e, &ops[i]);
        if (!naive_find_lease(&e->naive, ops[i].lease))
            ops[i].lease = 0;
    }
    if (!load)
        ops[0] = (struct op){.kind = OP_DELETE, .key = BYTES("\0"), .end = BYTES("\0")};
    struct entry *entry = append(e, ENTRY_WRITE);
    entry->ops = ops;
    entry->op_count = count;
}

void entries_propose(struct episode *e, enum entry_kind kind, int64_t id, int64_t number)
{
    struct entry *entry = append(e, kind);

    entry->id = id;
    entry->number = number;
}

/* Mostly a little behind the newest revision or at it, sometimes out of bounds; often right behind
 * a write, as a client would do it who deletes much and then compacts. */
void entries_propose_compaction(struct episode *e)
{
    int64_t revision = e->naive.revision - (int64_t)pick(e, 6);

    if (chance(e, 1, 8))
        revision = (int64_t)pick(e, (uint64_t)e->naive.revision + 3) - 1;
    if (chance(e, 1, 3))
        entries_propose_write(e);
    entries_propose(e, ENTRY_COMPACT, 0, revision);
    e->log.entries[e->log.count - 1]->at_newest = chance(e, 1, 2);
}

/* --- applying a transaction --------------------------------------------------------------- */

static void on_deleted_key(void *context, struct bytes key)
{
    struct episode *e = context;

    lease_detach(e->leases, key);
}

/* The whole of it is looked at before its first write, as apply does. */
static bool may_write(struct episode *e, const struct entry *entry)
{
    bool may = true;

    for (unsigned i = 0; i < entry->op_count; i++) {
        const struct op *op = &entry->ops[i];
        struct lease_info info;
        if (op->kind != OP_PUT || op->lease == 0)
            continue;
        bool there = lease_look(e->leases, op->lease, e->now_ms, &info);
        if (!e->applying.again && there != (naive_find_lease(&e->naive, op->lease) != NULL))
            episode_broken(e, "answer", "lease %" PRId64 " is %sthere", op->lease,
                           there ? "" : "not ");
        may &= there;
    }
    return may;
}

static void apply_put(struct episode *e, const struct op *op)
{
    mvcc_put(e->mvcc, op->key, op->value, op->lease);
    enum lease_result a = lease_attach(e->leases, op->lease, op->key);
    assert(a == LEASE_OK);
    if (!e->applying.again)
        naive_put(&e->naive, op->key_number, op->value, op->lease);
}

/* True when all are gone. */
static bool apply_delete(struct episode *e, const struct op *op, unsigned steps)
{
    struct applying *a = &e->applying;

    if (!a->deleting) {
        a->range = (struct mvcc_delete_range){
            .range = key_range(op->key, op->end), .on_key = on_deleted_key, .context = e};
        mvcc_delete_range_begin(e->mvcc, &a->range);
        a->deleting = true;
    }
    if (!mvcc_delete_range_some(e->mvcc, &a->range, steps))
        return false;
    a->deleting = false;
    if (a->again)
        return true;
    int64_t want = naive_delete_range(&e->naive, op->key, op->end);
    if (a->range.deleted != want)
        episode_broken(e, "answer", "%" PRId64 " keys deleted, not %" PRId64, a->range.deleted,
                       want);
    return true;
}

static void apply_range(struct episode *e, const struct op *op)
{
    struct mvcc_question q = op->question;

    if (e->applying.again)
        return;
    q.at = mvcc_working(e->mvcc);
    struct revision want = naive_working(&e->naive);
    if (revision_compare(q.at, want) != 0)
        episode_broken(e, "answer", "a transaction reads at %" PRId64 ".%" PRId64, q.at.main,
                       q.at.sub);
    if (op->revision != 0 && mvcc_resolve(e->mvcc, op->revision, &q.at) != MVCC_OK)
        return; /* apply would have refused it */
    reader_ask(e, &q);
}

/* True when the operation is done. */
static bool apply_op(struct episode *e, const struct op *op, unsigned steps)
{
    switch (op->kind) {
    case OP_PUT:
        apply_put(e, op);
        return true;
    case OP_DELETE:
        return apply_delete(e, op, steps);
    case OP_RANGE:
        apply_range(e, op);
        return true;
    }
    unreachable();
}

static void compare_change(struct episode *e, const struct mvcc_change *got,
                           const struct naive_change *want)
{
    if (revision_compare(got->at, want->at) != 0 || got->tombstone != want->tombstone ||
        !bytes_equal(got->key, e->naive.keys[want->key]) ||
        got->creates != (!want->tombstone && want->version == 1))
        episode_broken(e, "answer", "change %" PRId64 ".%" PRId64 " is not what was written",
                       want->at.main, want->at.sub);
}

static void end_write(struct episode *e)
{
    struct mvcc_changes changes;
    size_t first = e->naive.published;

    mvcc_write_end(e->mvcc, &changes);
    e->applying.writing = false;
    if (!e->applying.again) {
        size_t want = e->naive.count - first;
        naive_publish(&e->naive);
        if (changes.count != want || changes.revision != (want ? e->naive.revision : 0))
            episode_broken(e, "answer", "%zu changes at %" PRId64 ", not %zu", changes.count,
                           changes.revision, want);
        for (size_t i = 0; i < changes.count && changes.at; i++)
            compare_change(e, &changes.at[i], &e->naive.changes[first + i]);
    }
    if (changes.revision != 0)
        watch_changed(e->watch, &changes);
}

/* True when the entry is done. */
static bool apply_write(struct episode *e, const struct entry *entry, unsigned steps)
{
    struct applying *a = &e->applying;

    if (!a->writing) {
        if (!may_write(e, entry))
            return true;
        mvcc_write_begin(e->mvcc);
        a->writing = true;
    }
    for (; a->op < entry->op_count && steps > 0; steps--) {
        if (!apply_op(e, &entry->ops[a->op], steps))
            return false;
        a->op++;
    }
    if (a->op < entry->op_count)
        return false;
    end_write(e);
    return true;
}

/* --- applying the others ------------------------------------------------------------------ */

static void apply_grant(struct episode *e, const struct entry *entry)
{
    int64_t ttl = 0;
    enum lease_result got = lease_grant(e->leases, entry->id, entry->number, e->now_ms, &ttl);

    struct naive_lease *l = naive_find_lease(&e->naive, entry->id);
    if (e->applying.again) {
        if (l && got == LEASE_OK)
            l->remaining_ttl = 0; /* what was told before was told of another one */
        return;
    }
    enum lease_result want = entry->number > LEASE_TTL_MAX ? LEASE_TTL_TOO_LARGE
                             : l                           ? LEASE_EXISTS
                                                           : LEASE_OK;
    if (got != want || (got == LEASE_OK && ttl != (entry->number > 2 ? entry->number : 2)))
        episode_broken(e, "answer", "grant says %d, not %d", got, want);
    if (got != LEASE_OK)
        return;
    for (l = e->naive.leases; l->id != entry->id; l++)
        ;
    *l = (struct naive_lease){.id = l->id, .there = true, .ttl = ttl};
    leaders_granted(e, l);
}

static void revoke_naively(struct episode *e, int64_t id)
{
    for (unsigned i = 0; i < e->naive.key_count; i++)
        if (naive_lease_of(&e->naive, i) == id)
            naive_delete(&e->naive, i);
    naive_find_lease(&e->naive, id)->there = false;
}

/* True when the entry is done. */
static bool apply_revoke(struct episode *e, const struct entry *entry, unsigned steps)
{
    struct applying *a = &e->applying;
    struct bytes key;

    if (!a->writing) {
        bool want = naive_find_lease(&e->naive, entry->id) != NULL;
        bool got = lease_revoke_begin(e->leases, entry->id) == LEASE_OK;
        if (!a->again && got != want)
            episode_broken(e, "answer", "revoke says %d, not %d", got, want);
        if (!got)
            return true;
        mvcc_write_begin(e->mvcc);
        a->writing = true;
    }
    for (; lease_first_key(e->leases, entry->id, &key); steps--) {
        if (steps == 0)
            return false;
        if (!mvcc_delete(e->mvcc, key) && !mvcc_is_settling(e->mvcc))
            episode_broken(e, "lease", "a key hangs on it and is not alive");
        lease_detach(e->leases, key);
    }
    if (!a->again)
        revoke_naively(e, entry->id);
    lease_revoke_end(e->leases, entry->id);
    end_write(e);
    return true;
}

static void apply_checkpoint(struct episode *e, const struct entry *entry)
{
    struct naive_lease *l = naive_find_lease(&e->naive, entry->id);

    lease_checkpoint(e->leases, entry->id, entry->number);
    /* Also the second time: without a record of it a restart has forgotten. */
    if (l)
        l->remaining_ttl = entry->number;
}

static void apply_compaction(struct episode *e, const struct entry *entry)
{
    enum mvcc_result got = mvcc_compact(e->mvcc, entry->number);

    if (got == MVCC_OK) {
        watch_compacted(e->watch);
        clients_compacted(e, entry->number);
    }
    if (e->applying.again)
        return;
    enum mvcc_result want = naive_compact(&e->naive, entry->number);
    if (got != want)
        episode_broken(e, "answer", "compact at %" PRId64 " says %d, not %d", entry->number, got,
                       want);
}

/* --- steps -------------------------------------------------------------------------------- */

static bool apply_slice(struct episode *e, unsigned steps)
{
    const struct entry *entry = e->applying.entry;

    switch (entry->kind) {
    case ENTRY_WRITE:
        return apply_write(e, entry, steps);
    case ENTRY_REVOKE:
        return apply_revoke(e, entry, steps);
    case ENTRY_GRANT:
        apply_grant(e, entry);
        return true;
    case ENTRY_CHECKPOINT:
        apply_checkpoint(e, entry);
        return true;
    case ENTRY_COMPACT:
        apply_compaction(e, entry);
        return true;
    }
    unreachable();
}

static void begin(struct episode *e, size_t number, bool again)
{
    e->applying = (struct applying){.entry = e->log.entries[number], .again = again};
    backend_entry_begin(e->backend);
}

static void end(struct episode *e, uint64_t index)
{
    backend_entry_end(e->backend, (struct backend_position){index, 1}, (struct bytes){0});
    e->applying = (struct applying){0};
}

bool entries_apply_step(struct episode *e, unsigned steps)
{
    static const char *const names[] = {"write", "grant", "revoke", "checkpoint", "compact"};

    if (!e->applying.entry) {
        if (e->log.applied == e->log.count || backend_is_full(e->backend))
            return false;
        struct entry *next = e->log.entries[e->log.applied];
        if (next->at_newest)
            next->number = e->naive.revision; /* and so it is whenever it is replayed */
        begin(e, e->log.applied, false);
    }
    const struct entry *entry = e->applying.entry;
    episode_say(e, "apply %zu, %s, %u operations, %" PRId64 " %" PRId64 ", in %u steps",
                e->log.applied + 1, names[entry->kind], entry->op_count, entry->id, entry->number,
                steps);
    if (!apply_slice(e, steps))
        return true;
    e->log.applied++;
    end(e, e->log.applied);
    episode_trace(e, (uint64_t)e->naive.revision);
    return true;
}

void entries_replay(struct episode *e, uint64_t index)
{
    for (size_t i = index; i < e->log.applied; i++) {
        begin(e, i, true);
        bool done = apply_slice(e, UINT32_MAX);
        assert(done);
        end(e, i + 1);
        e->totals.replayed++;
    }
}

void entries_give_up(struct episode *e)
{
    mvcc_delete_range_end(&e->applying.range);
    e->applying = (struct applying){0};
    naive_forget_unpublished(&e->naive);
}
