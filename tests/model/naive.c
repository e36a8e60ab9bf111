#include "model/naive.h"

#include "base/crc32c.h"
#include "base/mem.h"

#include <stdlib.h>

void naive_init(struct naive *n, const struct bytes *keys, unsigned key_count)
{
    *n =
        (struct naive){.keys = keys, .key_count = key_count, .revision = 1, .compact_revision = -1};
}

void naive_free(struct naive *n)
{
    mem_free(n->changes);
    *n = (struct naive){0};
}

/* --- writing ------------------------------------------------------------------------------ */

struct revision naive_working(const struct naive *n)
{
    size_t made = n->count - n->published;

    if (made == 0)
        return revision_whole(n->revision);
    return (struct revision){n->revision + 1, (int64_t)made - 1};
}

static void append(struct naive *n, struct naive_change c)
{
    if (n->count == n->cap) {
        n->cap = n->cap ? 2 * n->cap : 64;
        n->changes = mem_resize(n->changes, n->cap, sizeof(*n->changes));
    }
    c.at = (struct revision){n->revision + 1, (int64_t)(n->count - n->published)};
    n->changes[n->count++] = c;
}

void naive_put(struct naive *n, unsigned key, struct bytes value, int64_t lease)
{
    const struct naive_change *before = naive_alive(n, key, naive_working(n));
    struct naive_change c = {.key = key, .value = value, .lease = lease};

    c.created = before ? before->created : n->revision + 1;
    c.version = before ? before->version + 1 : 1;
    append(n, c);
}

bool naive_delete(struct naive *n, unsigned key)
{
    if (!naive_alive(n, key, naive_working(n)))
        return false;
    append(n, (struct naive_change){.key = key, .tombstone = true});
    return true;
}

int64_t naive_delete_range(struct naive *n, struct bytes key, struct bytes end)
{
    int64_t deleted = 0;

    for (unsigned i = 0; i < n->key_count; i++)
        if (naive_has(key, end, n->keys[i]))
            deleted += naive_delete(n, i);
    return deleted;
}

void naive_publish(struct naive *n)
{
    if (n->count > n->published)
        n->revision++;
    n->published = n->count;
}

void naive_forget_unpublished(struct naive *n)
{
    n->count = n->published;
}

enum mvcc_result naive_compact(struct naive *n, int64_t revision)
{
    if (revision <= n->compact_revision)
        return MVCC_COMPACTED;
    if (revision > n->revision)
        return MVCC_FUTURE;
    n->compact_revision = revision;
    return MVCC_OK;
}

/* --- asking ------------------------------------------------------------------------------- */

bool naive_has(struct bytes key, struct bytes end, struct bytes candidate)
{
    if (end.len == 0)
        return bytes_equal(key, candidate);
    if (bytes_compare(candidate, key) < 0)
        return false;
    return bytes_equal(end, BYTES("\0")) || bytes_compare(candidate, end) < 0;
}

const struct naive_change *naive_alive(const struct naive *n, unsigned key, struct revision at)
{
    for (size_t i = n->count; i-- > 0;) {
        const struct naive_change *c = &n->changes[i];
        if (c->key == key && revision_compare(c->at, at) <= 0)
            return c->tombstone ? NULL : c;
    }
    return NULL;
}

int64_t naive_lease_of(const struct naive *n, unsigned key)
{
    const struct naive_change *c = naive_alive(n, key, revision_whole(n->revision));

    return c ? c->lease : 0;
}

struct naive_lease *naive_find_lease(struct naive *n, int64_t id)
{
    for (unsigned i = 0; i < NAIVE_LEASES; i++)
        if (n->leases[i].there && n->leases[i].id == id)
            return &n->leases[i];
    return NULL;
}

struct pb_key_value naive_kv(const struct naive *n, const struct naive_change *c)
{
    struct pb_key_value kv = {.key = n->keys[c->key]};

    if (c->tombstone)
        return kv;
    kv.create_revision = c->created;
    kv.mod_revision = c->at.main;
    kv.version = c->version;
    kv.value = c->value;
    kv.lease = c->lease;
    return kv;
}

/* --- ranges ------------------------------------------------------------------------------- */

static bool within(int64_t value, int64_t min, int64_t max)
{
    return (min == 0 || value >= min) && (max == 0 || value <= max);
}

static bool is_filtered(const struct mvcc_question *q)
{
    return q->min_mod_revision || q->max_mod_revision || q->min_create_revision ||
           q->max_create_revision;
}

static bool passes(const struct mvcc_question *q, const struct naive_change *c)
{
    return within(c->at.main, q->min_mod_revision, q->max_mod_revision) &&
           within(c->created, q->min_create_revision, q->max_create_revision);
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_by(int32_t target, const struct naive_change *a, const struct naive_change *b)
{
    switch (target) {
    case PB_SORT_BY_VERSION:
        return compare_numbers(a->version, b->version);
    case PB_SORT_BY_CREATE:
        return compare_numbers(a->created, b->created);
    case PB_SORT_BY_MOD:
        return compare_numbers(a->at.main, b->at.main);
    case PB_SORT_BY_VALUE:
        return bytes_compare(a->value, b->value);
    default:
        return compare_numbers(a->key, b->key);
    }
}

static int compare(const void *left, const void *right, void *context)
{
    const struct naive_change *const *a = left, *const *b = right;
    const struct mvcc_question *q = context;
    int order = compare_by(q->sort_target, *a, *b);

    if (order == 0)
        return compare_numbers((*a)->key, (*b)->key);
    return q->sort_order == PB_SORT_DESCEND ? -order : order;
}

static void append_varint(struct buf *out, size_t value)
{
    for (; value > 0x7f; value >>= 7)
        buf_append_byte(out, (uint8_t)(value | 0x80));
    buf_append_byte(out, (uint8_t)value);
}

static void show(const struct naive *n, const struct mvcc_question *q, const struct naive_change *c,
                 struct naive_result *out)
{
    struct pb_key_value kv = naive_kv(n, c);
    struct buf wire = {0};

    if (q->keys_only)
        kv.value = (struct bytes){0};
    if (q->keys_only && q->sort_target != PB_SORT_BY_VALUE)
        kv.lease = 0;
    pb_encode_key_value(&kv, &wire);
    buf_append_byte(&out->bytes, q->tag);
    append_varint(&out->bytes, wire.len);
    buf_append(&out->bytes, buf_bytes(&wire));
    buf_free(&wire);
    out->kvs++;
}

/* The last change of each key that is not later than `at`; NULL where there is none. */
static const struct naive_change **state_at(const struct naive *n, struct revision at)
{
    const struct naive_change **state = mem_new_array(n->key_count, const struct naive_change *);

    for (size_t i = 0; i < n->count && revision_compare(n->changes[i].at, at) <= 0; i++)
        state[n->changes[i].key] = &n->changes[i];
    return state;
}

void naive_range(const struct naive *n, const struct mvcc_question *q, struct naive_result *out)
{
    const struct naive_change **found = state_at(n, q->at);
    size_t count = 0;

    *out = (struct naive_result){0};
    for (unsigned i = 0; i < n->key_count; i++) {
        const struct naive_change *c = found[i];
        if (!c || c->tombstone || !naive_has(q->key, q->end, n->keys[i]))
            continue;
        out->count++;
        if (passes(q, c))
            found[count++] = c;
    }
    size_t limit = q->limit > 0 ? (size_t)q->limit : SIZE_MAX;
    out->more = !q->count_only && count > limit;
    /* Asked for no order, etcd sorts only as many as the limit lets through, and one more. */
    if (q->sort_order == PB_SORT_NONE && !is_filtered(q) && out->more)
        count = limit + 1;
    if (count > 0)
        qsort_r(found, count, sizeof(*found), compare, (void *)q);
    for (size_t i = 0; i < count && i < limit && !q->count_only; i++)
        show(n, q, found[i], out);
    mem_free(found);
}

/* --- what history keeps ------------------------------------------------------------------- */

static bool is_newest_at(const struct naive *n, const struct naive_change *c, int64_t main)
{
    for (const struct naive_change *later = c + 1;
         later < n->changes + n->published && later->at.main <= main; later++)
        if (later->key == c->key)
            return false;
    return c->at.main <= main;
}

/*
 * When a transaction has deleted a key and then put it again, etcd's compaction at its revision
 * keeps the tombstone, and we keep what comes after it too.
 */
static const struct naive_change *first_tombstone_at(const struct naive *n, unsigned key,
                                                     int64_t main)
{
    for (size_t i = 0; i < n->published && n->changes[i].at.main <= main; i++)
        if (n->changes[i].key == key && n->changes[i].tombstone && n->changes[i].at.main == main)
            return &n->changes[i];
    return NULL;
}

bool naive_keeps(const struct naive *n, const struct naive_change *c)
{
    int64_t compact = n->compact_revision;

    if (c->at.main > compact)
        return true;
    const struct naive_change *end = first_tombstone_at(n, c->key, compact);
    return end ? c >= end : is_newest_at(n, c, compact) && !c->tombstone;
}

bool naive_is_overwritten_within(const struct naive *n, const struct naive_change *c)
{
    return !is_newest_at(n, c, c->at.main);
}

/* --- HashKV ------------------------------------------------------------------------------- */

static uint32_t hash_change(const struct naive *n, const struct naive_change *c, uint32_t hash)
{
    uint64_t main = __builtin_bswap64((uint64_t)c->at.main);
    uint64_t sub = __builtin_bswap64((uint64_t)c->at.sub);
    struct pb_key_value kv = naive_kv(n, c);
    struct buf wire = {0};

    buf_append(&wire, bytes_of(&main, sizeof(main)));
    buf_append_byte(&wire, '_');
    buf_append(&wire, bytes_of(&sub, sizeof(sub)));
    if (c->tombstone)
        buf_append_byte(&wire, 't');
    pb_encode_key_value(&kv, &wire);
    hash = crc32c(hash, buf_bytes(&wire));
    buf_free(&wire);
    return hash;
}

/* Does it count, if a compaction at `main` were the rule? Nothing of a key that ends there does,
 * not even if it begins again in the same transaction. */
static bool counts(const struct naive *n, const struct naive_change *c, int64_t main)
{
    return !c->tombstone && is_newest_at(n, c, main) && !first_tombstone_at(n, c->key, main);
}

static bool any_counts(const struct naive *n, int64_t main, bool with_tombstones)
{
    for (size_t i = 0; i < n->published; i++) {
        const struct naive_change *c = &n->changes[i];
        if (counts(n, c, main) || (with_tombstones && c->tombstone && c->at.main == main))
            return true;
    }
    return false;
}

/*
 * Of what lies at or below the compact revision, those count that a compaction at the revision
 * asked for would keep; or if it would keep nothing at all, what the last one has kept.
 */
uint32_t naive_hash(const struct naive *n, int64_t compacted, int64_t revision, bool of_compaction)
{
    uint32_t hash = crc32c(0, BYTES("key"));
    int64_t keep = any_counts(n, revision, of_compaction) ? revision : compacted;

    for (size_t i = 0; i < n->published; i++) {
        const struct naive_change *c = &n->changes[i];
        if (c->at.main > revision || (c->at.main <= compacted && !counts(n, c, keep)))
            continue;
        hash = hash_change(n, c, hash);
    }
    return hash;
}
