/*
 * Scans and hashes, read a chunk at a time while everything else goes on.
 */
#include "model/episode_int.h"

#include <inttypes.h>

static int64_t some_bound(struct episode *e)
{
    return chance(e, 1, 8) ? 1 + (int64_t)pick(e, (uint64_t)e->naive.revision + 1) : 0;
}

void some_question(struct episode *e, struct mvcc_question *q)
{
    *q = (struct mvcc_question){.tag = 0x12};
    some_range(e, &q->key, &q->end);
    if (chance(e, 1, 2))
        q->limit = (int64_t)pick(e, 12) - 1;
    if (chance(e, 1, 2)) {
        q->sort_order = (int32_t)pick(e, 3);
        q->sort_target = (int32_t)pick(e, 5);
    }
    q->keys_only = chance(e, 1, 5);
    q->count_only = chance(e, 1, 6);
    q->min_mod_revision = some_bound(e);
    q->max_mod_revision = some_bound(e);
    q->min_create_revision = some_bound(e);
    q->max_create_revision = some_bound(e);
}

static void compare_measure(struct episode *e, const struct mvcc_scan *s,
                            const struct naive_result *want)
{
    if (s->count != want->count)
        episode_broken(e, "scan", "count %" PRId64 ", not %" PRId64 ", at %" PRId64 ".%" PRId64,
                       s->count, want->count, s->question.at.main, s->question.at.sub);
    if (s->kvs != want->kvs || s->more != want->more)
        episode_broken(e, "scan", "%" PRId64 " shown%s, not %" PRId64 "%s", s->kvs,
                       s->more ? " and more" : "", want->kvs, want->more ? " and more" : "");
    if (s->bytes != want->bytes.len)
        episode_broken(e, "scan", "%" PRIu64 " bytes measured, not %zu", s->bytes, want->bytes.len);
}

static void compare_bytes(struct episode *e, struct bytes got, struct bytes want)
{
    if (!bytes_equal(got, want))
        episode_broken(e, "scan", "%zu bytes that differ from the model's %zu", got.len, want.len);
    e->totals.scans++;
}

void reader_ask(struct episode *e, const struct mvcc_question *q)
{
    struct mvcc_scan s = {.question = *q};
    struct naive_result want;
    struct buf got = {0};
    unsigned steps = some_steps(e);
    size_t max = 1 + pick(e, 2000);

    naive_range(&e->naive, q, &want);
    mvcc_scan_open(e->mvcc, &s);
    while (!mvcc_scan_measure(&s, steps))
        ;
    compare_measure(e, &s, &want);
    while (!mvcc_scan_read(&s, max, steps, &got))
        ;
    compare_bytes(e, buf_bytes(&got), buf_bytes(&want.bytes));
    mvcc_scan_close(&s);
    buf_free(&got);
    buf_free(&want.bytes);
}

/* --- scans -------------------------------------------------------------------------------- */

static void open_reader(struct episode *e, struct reader *r)
{
    struct mvcc_question q;
    int64_t asked = 0;

    some_question(e, &q);
    if (chance(e, 2, 3))
        asked = (int64_t)pick(e, (uint64_t)e->naive.revision + 3) - 1;
    if (chance(e, 1, 6))
        asked = e->naive.compact_revision;
    int64_t at = asked > 0 ? asked : e->naive.revision;
    enum mvcc_result want = at < e->naive.compact_revision ? MVCC_COMPACTED
                            : at > e->naive.revision       ? MVCC_FUTURE
                                                           : MVCC_OK;
    enum mvcc_result got = mvcc_resolve(e->mvcc, asked, &q.at);
    if (got != want || (got == MVCC_OK && revision_compare(q.at, revision_whole(at)) != 0))
        episode_broken(e, "scan", "revision %" PRId64 " is answered %d, not %d", asked, got, want);
    if (got != MVCC_OK)
        return;
    *r = (struct reader){.open = true, .scan.question = q};
    naive_range(&e->naive, &q, &r->want);
    mvcc_scan_open(e->mvcc, &r->scan);
    episode_say(e, "a scan at %" PRId64, at);
}

static void close_reader(struct reader *r)
{
    if (!r->open)
        return;
    mvcc_scan_close(&r->scan);
    buf_free(&r->got);
    buf_free(&r->want.bytes);
    *r = (struct reader){0};
}

static void read_some(struct episode *e, struct reader *r)
{
    unsigned steps = some_steps(e);
    size_t before = r->got.len;
    size_t max = 1 + pick(e, 600);

    bool done = mvcc_scan_read(&r->scan, max, steps, &r->got);
    size_t added = r->got.len - before;
    /* Never more than was asked for, but for a single KeyValue that is larger. */
    if (added > max && r->scan.kvs > 1 && steps > 1 &&
        added > max + e->climate.value_bytes_max + 64)
        episode_broken(e, "scan", "a chunk of %zu has %zu bytes", max, added);
    if (!done)
        return;
    compare_bytes(e, buf_bytes(&r->got), buf_bytes(&r->want.bytes));
    close_reader(r);
}

void readers_step(struct episode *e)
{
    struct reader *r = &e->readers[pick(e, READERS)];

    if (!r->open) {
        open_reader(e, r);
    } else if (chance(e, 1, 20)) {
        close_reader(r);
    } else if (!r->measured) {
        r->measured = mvcc_scan_measure(&r->scan, some_steps(e));
        if (r->measured)
            compare_measure(e, &r->scan, &r->want);
    } else {
        read_some(e, r);
    }
}

/* --- hashes ------------------------------------------------------------------------------- */

static void open_hasher(struct episode *e, struct hasher *h)
{
    int64_t asked = chance(e, 1, 2) ? 0 : (int64_t)pick(e, (uint64_t)e->naive.revision + 2);
    int64_t at = asked ? asked : e->naive.revision;
    enum mvcc_result want = at < e->naive.compact_revision ? MVCC_COMPACTED
                            : at > e->naive.revision       ? MVCC_FUTURE
                                                           : MVCC_OK;

    *h = (struct hasher){.hash.revision = asked};
    enum mvcc_result got = mvcc_hash_open(e->mvcc, &h->hash);
    /* What a compaction has found may be remembered; it has begun where the one before it ended. */
    bool is_recalled =
        got == MVCC_OK && at <= e->naive.compact_revision && h->hash.compact_revision < at;
    if (got != want && !is_recalled)
        episode_broken(e, "hash", "revision %" PRId64 " is answered %d, not %d", asked, got, want);
    if (got != MVCC_OK)
        return;
    h->open = true;
    h->want_revision = at;
    h->want_compact = is_recalled ? h->hash.compact_revision : e->naive.compact_revision;
    h->want = naive_hash(&e->naive, h->want_compact, at, is_recalled);
    episode_say(e, "a hash at %" PRId64 ", compacted at %" PRId64, at, h->want_compact);
}

void hashers_step(struct episode *e)
{
    struct hasher *h = &e->hashers[pick(e, HASHERS)];

    if (!h->open) {
        open_hasher(e, h);
        return;
    }
    if (!mvcc_hash_some(e->mvcc, &h->hash, some_steps(e)))
        return;
    if (h->hash.hash != h->want || h->hash.revision != h->want_revision ||
        h->hash.compact_revision != h->want_compact)
        episode_broken(e, "hash", "%08x at %" PRId64 " since %" PRId64 ", not %08x", h->hash.hash,
                       h->hash.revision, h->hash.compact_revision, h->want);
    episode_trace(e, h->want);
    e->totals.hashes++;
    mvcc_hash_close(e->mvcc, &h->hash);
    h->open = false;
}

void readers_close(struct episode *e)
{
    for (int i = 0; i < READERS; i++)
        close_reader(&e->readers[i]);
    for (int i = 0; i < HASHERS; i++) {
        if (e->hashers[i].open)
            mvcc_hash_close(e->mvcc, &e->hashers[i].hash);
        e->hashers[i].open = false;
    }
}
