#include "base/mem.h"
#include "mvcc/mvcc_int.h"

#include <stdlib.h>

/* --- asking for one ----------------------------------------------------------------------- */

static void put_note(struct mvcc *m, struct bytes name, int64_t revision)
{
    struct revision_key space;

    backend_put(m->backend, BUCKET_META, name,
                revision_encode((struct revision){revision, 0}, false, &space));
}

enum mvcc_result mvcc_compact(struct mvcc *m, int64_t revision)
{
    if (revision <= m->compact_revision)
        return MVCC_COMPACTED;
    if (revision > m->revision)
        return MVCC_FUTURE;

    put_note(m, BYTES(MVCC_SCHEDULED_KEY), revision);
    struct compaction asked = {.revision = revision,
                               .note_batch = backend_open_batch(m->backend),
                               .before = m->compact_revision,
                               .is_to_be_hashed = m->finished == m->compact_revision};
    m->compact_revision = revision;
    /* One that waits for its turn may be passed over: a later one removes all that it would. */
    if (m->now.revision < 0)
        m->now = asked;
    else
        m->then = asked;
    (void)mvcc_when_settled(m, &m->compaction, INT64_MAX);
    return MVCC_OK;
}

/* --- removing ----------------------------------------------------------------------------- */

bool mvcc_compact_pending(const struct mvcc *m)
{
    return m->now.revision >= 0;
}

/*
 * Once it has begun nobody can come into its way who reads some revision: scans and the floor begin
 * above it. An image is of all that is stored, and stops it in the middle: were it to wait for the
 * end, compactions that follow each other could keep it waiting for ever.
 */
bool mvcc_compact_held_back(const struct mvcc *m)
{
    if (!mvcc_compact_pending(m))
        return false;
    if (m->image_pins > 0)
        return true;
    if (m->removing)
        return false;
    return m->history_floor <= m->now.revision || mvcc_pin_in_the_way(m);
}

/*
 * Until the note is durable nothing may go. Suppose a batch with the first deletions were committed
 * and the one with the note lost: revisions that the log, replayed, still has to read are gone.
 *
 * Nor before the last range tombstone is settled in the store itself. Deletions are made ahead of
 * their batch; a crash between them and the batch that settles leaves a note that counts which keys
 * were alive, and some of these keys gone: the tombstones after them would get other revisions.
 */
static bool waits_for_commit(const struct mvcc *m)
{
    uint64_t durable = backend_durable_batch(m->backend);

    return !backend_has_budget(m->backend) || durable < m->settled_batch ||
           (!m->removing && durable < m->now.note_batch);
}

bool mvcc_compact_waiting(const struct mvcc *m)
{
    return mvcc_compact_pending(m) &&
           (!mvcc_is_settled(m, INT64_MAX) || mvcc_compact_held_back(m) || waits_for_commit(m));
}

bool mvcc_compact_needs_commit(const struct mvcc *m)
{
    return mvcc_compact_pending(m) && mvcc_is_settled(m, INT64_MAX) && !mvcc_compact_held_back(m) &&
           waits_for_commit(m);
}

void mvcc_keep_history(struct mvcc *m, int64_t from)
{
    assert(from > m->finished);
    assert(!m->removing || from > m->now.revision);

    m->history_floor = from;
}

static void note_dropped(void *context, struct revision at, bool tombstone)
{
    struct mvcc *m = context;
    assert(at.main <= m->now.revision);

    if (m->dropped_count == m->dropped_cap) {
        m->dropped_cap = m->dropped_cap ? 2 * m->dropped_cap : MVCC_SLICE_STEPS;
        m->dropped = mem_resize(m->dropped, m->dropped_cap, sizeof(*m->dropped));
    }
    m->dropped[m->dropped_count++] = (struct dropped){at, tombstone};
}

static int compare_dropped(const void *one, const void *two)
{
    const struct dropped *a = one, *b = two;

    return revision_compare(a->at, b->at);
}

/*
 * The index forgets in the order of keys, the store is in that of revisions. Sorted, what a slice
 * drops goes into the open batch in one pass and not at a thousand places.
 */
static void delete_dropped(struct mvcc *m)
{
    struct revision_key space;

    if (m->dropped_count == 0) /* and perhaps no memory for any yet */
        return;
    m->stats.revisions_removed += m->dropped_count;
    mvcc_forget_copied_history(m, m->now.revision);
    qsort(m->dropped, m->dropped_count, sizeof(*m->dropped), compare_dropped);
    for (size_t i = 0; i < m->dropped_count; i++) {
        const struct dropped *d = &m->dropped[i];
        backend_delete_ahead(m->backend, BUCKET_KEY, revision_encode(d->at, d->tombstone, &space));
    }
    m->dropped_count = 0;
}

static void learn_what_is_durable(struct mvcc *m)
{
    if (backend_durable_batch(m->backend) >= m->finished_batch)
        m->finished_durable = m->finished;
}

/* What is now asked for at its revision is no longer there, so from here on it is remembered. */
static void remember_hash(struct mvcc *m)
{
    if (!m->now.is_to_be_hashed)
        return;
    if (m->hash_count == MVCC_HASHES_MAX) {
        memmove(m->hashes, m->hashes + 1, (MVCC_HASHES_MAX - 1) * sizeof(*m->hashes));
        m->hash_count--;
    }
    assert(m->hash_count == 0 || m->hashes[m->hash_count - 1].revision < m->now.revision);
    m->hashes[m->hash_count++] = (struct compaction_hash){.revision = m->now.revision,
                                                          .compact_revision = m->now.before,
                                                          .hash = m->hashing.hash,
                                                          .other = m->hashing.other};
}

static void finish(struct mvcc *m)
{
    learn_what_is_durable(m);
    remember_hash(m);
    /* The note is in the batch, and the deletions go ahead of it: so it is never there without
     * them, and a crash before it only means that all keys are walked once more. */
    put_note(m, BYTES(MVCC_FINISHED_KEY), m->now.revision);
    m->stats.compactions++;
    m->finished = m->now.revision;
    m->removed = m->now.revision;
    m->finished_batch = backend_open_batch(m->backend);
    m->removing = false;
    m->now = m->then;
    m->then = (struct compaction){.revision = -1};
    keyindex_compaction_end(&m->place);
    m->place = (struct keyindex_compaction){0};
    if (!mvcc_compact_pending(m))
        mvcc_stop_waiting(&m->compaction);
}

static void begin(struct mvcc *m)
{
    m->removing = true;
    if (m->now.is_to_be_hashed)
        mvcc_compaction_hash_begin(m);
}

/* True: it may begin to remove. */
static bool hash_some(struct mvcc *m, unsigned steps)
{
    if (!m->hashing.open)
        return true;
    if (!mvcc_compaction_hash_some(m, steps))
        return false;
    mvcc_compaction_hash_end(m);
    return true;
}

bool mvcc_compact_some(struct mvcc *m, unsigned steps)
{
    assert(steps > 0);

    if (!mvcc_compact_pending(m) || mvcc_compact_waiting(m))
        return true;
    if (!m->removing)
        begin(m);
    if (!hash_some(m, steps))
        return false;
    backend_upkeep_begin(m->backend);
    bool done = keyindex_compact_some(m->index, &m->place, m->now.revision, steps, note_dropped, m);
    delete_dropped(m);
    if (done)
        finish(m);
    backend_upkeep_end(m->backend);
    return !mvcc_compact_pending(m);
}

int64_t mvcc_compact_finished(const struct mvcc *m)
{
    bool durable = backend_durable_batch(m->backend) >= m->finished_batch;

    return durable ? m->finished : m->finished_durable;
}

/* --- images ------------------------------------------------------------------------------- */

void mvcc_image_pin(struct mvcc *m)
{
    m->image_pins++;
}

void mvcc_image_unpin(struct mvcc *m)
{
    assert(m->image_pins > 0);

    m->image_pins--;
}
