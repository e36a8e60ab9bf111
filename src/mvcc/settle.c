#include "mvcc/mvcc_int.h"

/*
 * A large delete is one step of the index, and a note in the store that goes with its entry: from
 * which key to which, and at which revision its tombstones begin. Each one's place among them
 * follows from what was alive, so a store with the note and the tombstones that happen to be there
 * is whole: after a crash the index is covered again, and the settling goes on.
 *
 * The note is the last that the entry writes. It may write much more before, and is committed in
 * parts then, which a crash undoes by removing what lies in bucket key from its revision on: a note
 * that went with the first part would stay, and end lives that the log, replayed, has yet to end.
 *
 *     note   revision, 17 bytes | 1 if there is an end, else 0 | length u32be, key | end
 */
enum { NOTE_BYTES_MIN = REVISION_KEY_BYTES + 5 };

/* --- the note ----------------------------------------------------------------------------- */

static void put_note(struct mvcc *m, const struct key_range *range, struct revision at)
{
    size_t from_len = range->from.len, to_len = range->to.at ? range->to.len : 0;
    uint32_t len = __builtin_bswap32((uint32_t)from_len);
    struct revision_key space;

    uint8_t *to = backend_put_space(m->backend, BUCKET_META, BYTES(MVCC_RANGE_TOMBSTONE_KEY),
                                    NOTE_BYTES_MIN + from_len + to_len);
    memcpy(to, revision_encode(at, false, &space).at, REVISION_KEY_BYTES);
    to += REVISION_KEY_BYTES;
    *to++ = range->to.at != NULL;
    memcpy(to, &len, sizeof(len));
    to += sizeof(len);
    if (from_len > 0)
        memcpy(to, range->from.at, from_len);
    if (to_len > 0)
        memcpy(to + from_len, range->to.at, to_len);
}

bool range_tombstone_decode(struct bytes value, struct key_range *range, struct revision *at)
{
    bool tombstone;
    uint32_t len;

    if (value.len < NOTE_BYTES_MIN ||
        !revision_decode(bytes_of(value.at, REVISION_KEY_BYTES), at, &tombstone) || at->main < 1)
        return false;
    const uint8_t *p = value.at + REVISION_KEY_BYTES;
    bool has_end = *p == 1;
    if (*p++ > 1)
        return false;
    memcpy(&len, p, sizeof(len));
    len = __builtin_bswap32(len);
    size_t left = value.len - NOTE_BYTES_MIN;
    if (len > left || (!has_end && len != left))
        return false;
    *range = (struct key_range){.from = bytes_of(p + sizeof(len), len)};
    if (has_end)
        range->to = bytes_of(p + sizeof(len) + len, left - len);
    return true;
}

/* --- one at a time ------------------------------------------------------------------------ */

int64_t mvcc_range_tombstone_begin(struct mvcc *m, const struct key_range *range,
                                   struct revision at)
{
    int64_t count = keyindex_range_tombstone(m->index, range, at);

    if (mvcc_compact_pending(m))
        (void)mvcc_when_settled(m, &m->compaction, INT64_MAX); /* it is in its way */
    return count;
}

void mvcc_range_tombstone_note(struct mvcc *m)
{
    put_note(m, keyindex_unsettled_range(m->index), keyindex_unsettled_first(m->index));
}

static uint32_t store_tombstone(struct mvcc *m, struct bytes key, struct revision at)
{
    struct pb_key_value kv = {.key = key};
    struct bytes stored_key;

    return (uint32_t)mvcc_store_kv(m, at, true, &kv, &stored_key).len;
}

void mvcc_settle_key(struct mvcc *m, struct bytes key)
{
    struct revision at;

    if (keyindex_key_is_unsettled(m->index, key, &at))
        keyindex_settle_key(m->index, key, at, store_tombstone(m, key, at));
}

/* --- the rest ----------------------------------------------------------------------------- */

bool mvcc_is_settling(const struct mvcc *m)
{
    return keyindex_is_unsettled(m->index);
}

bool mvcc_settle_waiting(const struct mvcc *m)
{
    return mvcc_is_settling(m) && !backend_has_budget(m->backend);
}

int64_t mvcc_unsettled_revision(const struct mvcc *m)
{
    return mvcc_is_settling(m) ? keyindex_unsettled_first(m->index).main : INT64_MAX;
}

bool mvcc_unsettled_concerns(const struct mvcc *m, const struct key_range *range)
{
    if (!mvcc_is_settling(m))
        return false;
    return !m->is_alone || key_ranges_overlap(range, keyindex_unsettled_range(m->index));
}

static uint32_t store_one_tombstone(void *context, struct bytes key, struct revision at)
{
    struct mvcc *m = context;

    if (m->on_settled_key)
        m->on_settled_key(m->context, key);
    return store_tombstone(m, key, at);
}

bool mvcc_settle_some(struct mvcc *m, unsigned steps)
{
    assert(steps > 0);

    if (!mvcc_is_settling(m) || mvcc_settle_waiting(m))
        return true;
    backend_upkeep_begin(m->backend);
    bool done = keyindex_settle_some(m->index, steps, store_one_tombstone, m);
    if (done) {
        /* In one batch with the last tombstone: if the note were gone before it, a crash in between
         * would bring keys back to life. */
        backend_delete(m->backend, BUCKET_META, BYTES(MVCC_RANGE_TOMBSTONE_KEY));
        m->settled_batch = backend_open_batch(m->backend);
        mvcc_forget_copied_history(m, m->revision);
    }
    backend_upkeep_end(m->backend);
    return done;
}

/* --- the barrier -------------------------------------------------------------------------- */

bool mvcc_is_settled(const struct mvcc *m, int64_t revision)
{
    return !mvcc_is_settling(m) || mvcc_unsettled_revision(m) > revision;
}

bool mvcc_when_settled(struct mvcc *m, struct mvcc_waiter *w, int64_t revision)
{
    if (mvcc_is_settled(m, revision)) {
        mvcc_stop_waiting(w);
        return true;
    }
    if (!w->waits) {
        list_init(&w->link);
        list_push_back(&m->waiters, &w->link);
        w->waits = true;
    }
    return false;
}

void mvcc_stop_waiting(struct mvcc_waiter *w)
{
    if (w->waits)
        list_remove(&w->link);
    w->waits = false;
}

/*
 * A compaction that waits for a reader, too, is in no hurry: were deletes to take slices for as
 * long as a client holds a pin, every put behind them in the log would wait with them.
 */
bool mvcc_is_waited_for(const struct mvcc *m)
{
    LIST_FOREACH (link, &m->waiters) {
        if (link != &m->compaction.link || !mvcc_compact_held_back(m))
            return true;
    }
    return false;
}
