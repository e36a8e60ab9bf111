#include "base/mem.h"
#include "mvcc/mvcc_int.h"

#include <inttypes.h>
#include <stdarg.h>

/* --- revisions and KeyValues as bytes ----------------------------------------------------- */

bool revision_decode(struct bytes key, struct revision *out, bool *tombstone)
{
    uint64_t main, sub;

    if (key.len != REVISION_KEY_BYTES && key.len != TOMBSTONE_KEY_BYTES)
        return false;
    memcpy(&main, key.at, sizeof(main));
    memcpy(&sub, key.at + 9, sizeof(sub));
    main = __builtin_bswap64(main);
    sub = __builtin_bswap64(sub);
    *tombstone = key.len == TOMBSTONE_KEY_BYTES;
    *out = (struct revision){(int64_t)main, (int64_t)sub};
    /* Half of all numbers are left to count on with. */
    return key.at[8] == '_' && (!*tombstone || key.at[17] == 't') && main <= INT64_MAX / 2 &&
           sub < REVISION_SUB_MAX;
}

bool kv_decode(struct bytes stored, struct pb_key_value *out)
{
    struct arena unused = {0}; /* the fields of a KeyValue are numbers and looks at the wire */

    return pb_decode_key_value(stored, &unused, out) == ERR_OK && out->key.len > 0;
}

/* --- damage ------------------------------------------------------------------------------- */

void mvcc_damage(struct mvcc *m, const char *format, ...)
{
    struct buf text = {0};
    va_list args;

    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    if (!m->on_damage)
        fatal("the store is damaged: %s", buf_str(&text));
    m->on_damage(m->context, buf_str(&text));
    buf_free(&text);
}

void mvcc_walk_damage(struct mvcc *m, struct backend_view *v)
{
    mvcc_damage(m, "%s", backend_view_damage(v));
}

/* Of a look at a revision that the index names. */
static bool was_fetched(struct mvcc *m, struct backend_view *v, struct revision at, enum err e)
{
    if (e == ERR_NOT_FOUND)
        mvcc_damage(m, "bucket key lacks revision %" PRId64 "_%" PRId64 ", which the index names",
                    at.main, at.sub);
    else if (e != ERR_OK)
        mvcc_damage(m, "%s", backend_view_damage(v));
    return e == ERR_OK;
}

static void open_view(struct mvcc *m, struct backend_view *v)
{
    if (!v->backend)
        backend_view_open(m->backend, v);
}

bool mvcc_fetch(struct mvcc *m, struct backend_view *v, struct revision at, struct bytes *out)
{
    struct revision_key space;

    if (mvcc_copy_of(m, at, out))
        return true;
    open_view(m, v);
    return was_fetched(m, v, at,
                       backend_get(v, BUCKET_KEY, revision_encode(at, false, &space), out));
}

bool mvcc_fetch_part(struct mvcc *m, struct backend_view *v, struct revision at, size_t from,
                     size_t len, struct bytes *out)
{
    struct revision_key space;
    struct bytes key = revision_encode(at, false, &space), copy;

    if (mvcc_copy_of(m, at, &copy)) {
        assert(from + len <= copy.len); /* the index knows its length, and it was held to that */
        *out = bytes_of(copy.at + from, len);
        return true;
    }
    open_view(m, v);
    return was_fetched(m, v, at, backend_get_part(v, BUCKET_KEY, key, from, len, out));
}

bool mvcc_fetch_exact(struct mvcc *m, struct backend_view *v, struct revision at, uint32_t length,
                      struct bytes *out)
{
    if (!mvcc_fetch(m, v, at, out))
        return false;
    if (out->len == length)
        return true;
    mvcc_damage(
        m, "bucket key, revision %" PRId64 "_%" PRId64 ": %zu bytes, but %" PRIu32 " were written",
        at.main, at.sub, out->len, length);
    return false;
}

/* --- opening ------------------------------------------------------------------------------ */

enum err mvcc_open(const struct mvcc_options *options, struct buf *why, struct mvcc **out)
{
    struct mvcc *m = mem_new(struct mvcc);

    m->backend = options->backend;
    m->on_damage = options->on_damage;
    m->on_settled_key = options->on_settled_key;
    m->range_tombstone_keys_min = options->range_tombstone_keys_min > 0
                                      ? options->range_tombstone_keys_min
                                      : MVCC_RANGE_TOMBSTONE_KEYS_MIN;
    m->context = options->context;
    m->history_floor = INT64_MAX;
    list_init(&m->waiters);
    m->index = keyindex_new();
    enum err e = mvcc_restore(m, options, why);
    if (e != ERR_OK) {
        mvcc_close(m);
        return e;
    }
    if (mvcc_compact_pending(m))
        (void)mvcc_when_settled(m, &m->compaction, INT64_MAX);
    *out = m;
    return ERR_OK;
}

void mvcc_close(struct mvcc *m)
{
    if (!m)
        return;
    assert(m->pin_count == 0);
    assert(m->image_pins == 0);
    mvcc_stop_waiting(&m->compaction);
    assert(list_empty(&m->waiters));

    mvcc_compaction_hash_end(m);
    keyindex_compaction_end(&m->place);
    mem_free(m->dropped);
    mvcc_warm_free(m);
    keyindex_free(m->index);
    mem_free(m);
}

/* --- asking ------------------------------------------------------------------------------- */

int64_t mvcc_revision(const struct mvcc *m)
{
    return m->revision;
}

int64_t mvcc_compact_revision(const struct mvcc *m)
{
    return m->compact_revision;
}

enum mvcc_result mvcc_resolve(const struct mvcc *m, int64_t asked, struct revision *out)
{
    if (asked > m->revision)
        return MVCC_FUTURE;
    int64_t main = asked <= 0 ? m->revision : asked;
    if (main < m->compact_revision)
        return MVCC_COMPACTED;
    *out = revision_whole(main);
    return MVCC_OK;
}

bool mvcc_find(const struct mvcc *m, struct bytes key, struct revision at,
               struct keyindex_found *out)
{
    return keyindex_find(m->index, key, at, out);
}

static void append_stored(struct mvcc *m, struct revision at, const uint32_t *length,
                          struct buf *out)
{
    struct backend_view v;
    struct bytes stored;

    mvcc_view_init(&v);
    if (length ? mvcc_fetch_exact(m, &v, at, *length, &stored) : mvcc_fetch(m, &v, at, &stored))
        buf_append(out, stored);
    mvcc_view_close(&v);
    (void)mvcc_is_late(m); /* so that faults are noticed, and the next entries come from a worker */
}

void mvcc_read_kv(struct mvcc *m, struct revision at, struct buf *out)
{
    append_stored(m, at, NULL, out);
}

static bool find_before(struct mvcc *m, struct bytes key, int64_t main, struct keyindex_found *out)
{
    if (main - 1 < m->compact_revision && main < m->history_floor)
        return false;
    return keyindex_find(m->index, key, revision_whole(main - 1), out);
}

bool mvcc_read_before(struct mvcc *m, struct bytes key, int64_t main, struct buf *out)
{
    struct keyindex_found found;

    if (!find_before(m, key, main, &found))
        return false;
    append_stored(m, found.mod, &found.length, out);
    return true;
}

enum mvcc_warmth mvcc_before_warmth(struct mvcc *m, struct bytes key, int64_t main)
{
    struct keyindex_found found;

    if (!mvcc_is_cold(m) || !find_before(m, key, main, &found))
        return MVCC_WARM;
    return mvcc_warmth(m, found.mod, false);
}

/* In bulk: a watcher that has missed much makes no get wait. The first of them, without which the
 * watcher cannot go on, it has asked for alone. */
bool mvcc_want_before_ahead(struct mvcc *m, const struct mvcc_change *change, struct mvcc_ahead *a)
{
    struct keyindex_found found;

    if (find_before(m, change->key, change->at.main, &found)) {
        mvcc_want_ahead(m, found.mod, true);
        a->count++;
        a->bytes += found.length;
    }
    return a->count < MVCC_WARMUP_KEYS && a->bytes < MVCC_WARMUP_BYTES && mvcc_may_look_ahead(m);
}

void mvcc_set_pace(struct mvcc *m, bool (*is_late)(void *context), void *context)
{
    m->is_late = is_late;
    m->pace_context = context;
}

bool mvcc_has_time(struct mvcc *m)
{
    return !m->is_late || !m->is_late(m->pace_context);
}

struct mvcc_effort mvcc_effort(const struct mvcc *m)
{
    return m->effort;
}

uint32_t mvcc_length_before(struct mvcc *m, struct bytes key, int64_t main)
{
    struct keyindex_found found;

    return find_before(m, key, main, &found) ? found.length : 0;
}

static size_t count_waiters(const struct mvcc *m)
{
    size_t count = 0;

    LIST_FOREACH (link, &m->waiters)
        count += link != &m->compaction.link;
    return count;
}

int64_t mvcc_key_count(const struct mvcc *m)
{
    struct key_range all = key_range(BYTES("\0"), BYTES("\0"));

    return keyindex_count(m->index, &all, true);
}

struct mvcc_stats *mvcc_stats(struct mvcc *m)
{
    return &m->stats;
}

struct mvcc_status mvcc_status(const struct mvcc *m)
{
    return (struct mvcc_status){
        .keys = keyindex_size(m->index),
        .index_bytes = keyindex_bytes(m->index),
        .pins = m->pin_count,
        .image_pins = m->image_pins,
        .waiters = count_waiters(m),
        .warmups = mvcc_warmups_taken(m),
    };
}

/* --- invariants --------------------------------------------------------------------------- */

static void check_pins(const struct mvcc *m)
{
    size_t count = 0;
    const struct mvcc_scan *before = NULL;

    for (const struct mvcc_scan *s = m->first_pin; s; before = s, s = s->next) {
        assert(s->prev == before);
        assert(s->mvcc == m);
        assert(s->is_open);
        assert(s->question.at.main <= m->revision + m->writing);
        assert(s->shown <= s->kvs);
        count++;
    }
    assert(m->last_pin == before);
    assert(m->pin_count == count);
}

static void check_compaction(const struct mvcc *m)
{
    assert(m->compact_revision <= m->revision);
    assert(m->dropped_count == 0);
    assert(m->finished_durable <= m->finished);
    assert(m->finished <= m->compact_revision);
    if (m->now.revision < 0) {
        assert(m->then.revision < 0);
        assert(!m->removing);
        assert(m->finished == m->compact_revision);
        return;
    }
    assert(m->finished < m->now.revision);
    if (m->then.revision < 0) {
        assert(m->now.revision == m->compact_revision);
    } else {
        assert(m->now.revision < m->then.revision);
        assert(m->then.revision == m->compact_revision);
    }
    /* What is being removed is not needed by anybody: scans begin above it, and hold it back. */
    assert(!m->removing || !mvcc_pin_in_the_way(m));
    assert(!m->removing || m->history_floor > m->now.revision);
    assert(m->history_floor > m->finished);
    assert(!m->hashing.open || (m->removing && m->now.is_to_be_hashed));
}

void mvcc_check(const struct mvcc *m)
{
    assert(m->revision >= 1);
    assert(m->writing || m->change_count == 0 || m->revision >= 2);
    check_pins(m);
    check_compaction(m);
    keyindex_check(m->index);
}

/* What the index has forgotten is deleted ahead, and may be seen until its batch is durable. */
static bool may_be_forgotten(const struct mvcc *m, struct revision at)
{
    bool is_gone = backend_durable_batch(m->backend) >= m->finished_batch;

    return at.main <= (m->removing ? m->now.revision : is_gone ? -1 : m->removed);
}

/* A put in the store is what the index says of its key at that revision; a tombstone ends a life.
 */
static void check_entry(const struct mvcc *m, struct bytes key, struct bytes value)
{
    struct revision at;
    bool tombstone;
    struct pb_key_value kv = {0};
    struct keyindex_found found;
    bool is_revision = revision_decode(key, &at, &tombstone);
    assert(is_revision);
    bool bump = kv_is_bump(value, tombstone);

    bool decoded = bump || kv_decode(value, &kv);
    assert(decoded);
    assert(at.main <= m->revision + m->writing);
    bool alive = keyindex_find(m->index, kv.key, at, &found);
    if (may_be_forgotten(m, at) && (!alive || revision_compare(found.mod, at) != 0))
        return;
    assert(alive == !tombstone);
    if (tombstone)
        return;
    assert(revision_compare(found.mod, at) == 0);
    assert(found.length == value.len);
    assert(bump || found.created == kv.create_revision);
    assert(bump || found.version == kv.version);
    assert(bump || at.main == kv.mod_revision);
    assert(!bump || at.main <= m->compact_revision);
    /* What a compaction has left is the newest of its key at that time; at its very revision, a
     * transaction that deleted the key and put it again leaves a little more. */
    if (at.main < m->removed) {
        alive = keyindex_find(m->index, kv.key, revision_whole(m->removed), &found);
        assert(alive);
        assert(revision_compare(found.mod, at) == 0);
    }
}

static void check_living_are_stored(struct mvcc *m, struct backend_view *v)
{
    struct keyindex_cursor c = {0};
    struct key_range all = key_range(BYTES("\0"), BYTES("\0"));
    struct keyindex_found found;
    struct bytes stored;
    unsigned steps = UINT32_MAX;
    int64_t count = 0;

    keyindex_cursor_open(m->index, &all, revision_whole(m->revision), false, &c);
    while (keyindex_cursor_next(&c, &steps, &found)) {
        bool fetched = mvcc_fetch_exact(m, v, found.mod, found.length, &stored);
        assert(fetched);
        count++;
    }
    keyindex_cursor_close(&c);
    assert(count == keyindex_count(m->index, &all, true));
}

void mvcc_check_store(struct mvcc *m)
{
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value;
    enum err e;

    mvcc_check(m);
    backend_view_open(m->backend, &v);
    backend_cursor_open(&v, BUCKET_KEY, (struct bytes){0}, &c);
    while ((e = backend_cursor_next(&c, &key, &value)) == ERR_OK)
        check_entry(m, key, value);
    assert(e == ERR_END);
    backend_cursor_close(&c);
    check_living_are_stored(m, &v);
    backend_view_close(&v);
}
