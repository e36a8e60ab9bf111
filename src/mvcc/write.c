#include "mvcc/mvcc_int.h"
#include "pb/wire.h"

void mvcc_write_begin(struct mvcc *m)
{
    assert(!m->writing);

    m->writing = true;
    m->is_divided = false;
    m->covered_count = 0;
    m->change_count = 0;
}

bool mvcc_is_writing(const struct mvcc *m)
{
    return m->writing;
}

struct revision mvcc_working(const struct mvcc *m)
{
    if (!m->writing || m->change_count == 0)
        return revision_whole(m->revision);
    return (struct revision){m->revision + 1, m->change_count - 1};
}

static struct revision next_revision(const struct mvcc *m)
{
    assert(m->writing);
    assert(m->change_count < REVISION_SUB_MAX);
    return (struct revision){m->revision + 1, m->change_count};
}

static void divide_entry(struct mvcc *m)
{
    struct revision_key space;
    struct revision first = {m->revision + 1, 0};

    backend_entry_divide(m->backend, BUCKET_KEY, revision_encode(first, false, &space));
    m->is_divided = true;
}

static void note_change(struct mvcc *m, const struct mvcc_change *change)
{
    if (m->change_count < MVCC_CHANGES_MAX)
        m->changes[m->change_count] = *change;
    m->change_count++;
    /* Changes are lent out of the batch until a commit; of more than this none are, and many may
     * have come at once. And they lie at the revision under way, beyond all that is published. */
    if (m->change_count > MVCC_CHANGES_MAX && !m->is_divided)
        divide_entry(m);
}

struct bytes mvcc_store_kv(struct mvcc *m, struct revision at, bool tombstone,
                           const struct pb_key_value *kv, struct bytes *key)
{
    struct revision_key space;
    const struct pb_by_hand *codec = pb_key_value_schema.by_hand;
    size_t len = codec->size(kv);
    assert(len <= BACKEND_VALUE_BYTES_MAX);

    uint8_t *to =
        backend_put_space(m->backend, BUCKET_KEY, revision_encode(at, tombstone, &space), len);
    uint8_t *start = codec->put(kv, to + len);
    assert(start == to);
    *key = bytes_of(to + 1 + pb_varint_size(kv->key.len), kv->key.len);
    return bytes_of(to, len);
}

void mvcc_put(struct mvcc *m, struct bytes key, struct bytes value, int64_t lease)
{
    struct revision at = next_revision(m);
    struct keyindex_found before;
    assert(key.len > 0);

    /* If its last life was ended by a range tombstone, that end is stored first: lives of a key
     * stand in the index in the order of their revisions, and this one begins later. */
    bool alive = keyindex_find_newest(m->index, key, &before);
    if (!alive && keyindex_is_unsettled(m->index))
        mvcc_settle_key(m, key);
    struct pb_key_value kv = {
        .key = key,
        .create_revision = alive ? before.created : at.main,
        .mod_revision = at.main,
        .version = alive ? before.version + 1 : 1,
        .value = value,
        .lease = lease,
    };
    struct mvcc_change change = {.at = at, .creates = !alive};
    change.kv = mvcc_store_kv(m, at, false, &kv, &change.key);
    keyindex_put(m->index, change.key, at, (uint32_t)change.kv.len);
    note_change(m, &change);
}

/* Of a key that is alive. */
static void end_life(struct mvcc *m, struct bytes key)
{
    struct revision at = next_revision(m);
    struct pb_key_value kv = {.key = key};

    struct mvcc_change change = {.at = at, .tombstone = true};
    struct bytes stored = mvcc_store_kv(m, at, true, &kv, &change.key);
    bool was_alive = keyindex_tombstone(m->index, change.key, at, (uint32_t)stored.len);
    assert(was_alive);
    note_change(m, &change);
}

bool mvcc_delete(struct mvcc *m, struct bytes key)
{
    struct keyindex_found found;
    assert(m->writing);

    if (!keyindex_find_newest(m->index, key, &found))
        return false;
    end_life(m, key);
    return true;
}

/* --- ranges ------------------------------------------------------------------------------- */

static bool is_large(const struct mvcc *m, const struct key_range *range)
{
    return !range->one && !mvcc_is_settling(m) && !mvcc_is_waited_for(m) &&
           keyindex_count(m->index, range, false) >= m->range_tombstone_keys_min;
}

void mvcc_delete_range_begin(struct mvcc *m, struct mvcc_delete_range *d)
{
    assert(m->writing);
    assert(!d->open);

    d->deleted = 0;
    d->cost = 0;
    d->open = true;
    d->at_once = is_large(m, &d->range);
    if (!d->at_once) {
        keyindex_cursor_open(m->index, &d->range, mvcc_working(m), false, &d->cursor);
        return;
    }
    d->deleted = mvcc_range_tombstone_begin(m, &d->range, next_revision(m));
    m->covered_count = d->deleted;
    m->change_count += d->deleted;
}

void mvcc_delete_range_end(struct mvcc_delete_range *d)
{
    if (d->open && !d->at_once)
        keyindex_cursor_close(&d->cursor);
    d->open = false;
}

/* True when the range has no more of them. */
static bool end_lives(struct mvcc *m, struct mvcc_delete_range *d, unsigned *steps)
{
    struct keyindex_found found;

    while (*steps > 0) {
        if (d->at_once || !keyindex_cursor_next(&d->cursor, steps, &found))
            return *steps > 0;
        size_t more = found.key.len / MVCC_TOMBSTONE_STEP_BYTES;
        if (d->on_key)
            d->on_key(d->context, found.key);
        end_life(m, found.key);
        d->deleted++;
        mvcc_spend(steps, more);
    }
    return false;
}

bool mvcc_delete_range_some(struct mvcc *m, struct mvcc_delete_range *d, unsigned steps)
{
    unsigned left = steps;
    assert(d->open);

    bool done = end_lives(m, d, &left);
    d->cost += steps - left;
    if (done)
        mvcc_delete_range_end(d);
    return done;
}

/* --- publication -------------------------------------------------------------------------- */

void mvcc_write_end(struct mvcc *m, struct mvcc_changes *out)
{
    assert(m->writing);

    m->writing = false;
    *out = (struct mvcc_changes){.count = (size_t)m->change_count};
    if (m->change_count == 0)
        return;
    m->revision++;
    keyindex_publish(m->index);
    out->revision = m->revision;
    if (mvcc_unsettled_revision(m) == m->revision)
        mvcc_range_tombstone_note(m);
    if (m->covered_count > 0)
        m->is_alone = m->covered_count == m->change_count;
    else if (m->change_count <= MVCC_CHANGES_MAX)
        out->at = m->changes;
}
