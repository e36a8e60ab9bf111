/*
 * scan_sort: what a range sorted by something else than its keys remembers.
 *
 * A reference is 32 bytes: where the KeyValue is, and what to sort by. References are collected in
 * key order and sorted in runs of a few hundred as they come; then the runs are merged, two by two,
 * a few comparisons at a time, so that sorting a million keys never holds up a turn.
 *
 *     collected   | run | run | run | ru
 *     merged      | 2 runs    | 2 runs |  ->  | all |        from one table into the other
 *
 * The tables are made of blocks, so that growing never copies more than the first of them.
 *
 * Under a small limit there is only ever a small multiple of it: when that is full, it is sorted
 * and all behind the limit forgotten.
 *
 * A value's first eight bytes are part of its reference; only if they are equal are the values
 * themselves compared, in the store. That takes as long as several steps, and counts as such; so
 * values are not sorted in runs, where nobody counts, but merged from the beginning.
 */
#include "base/mem.h"
#include "mvcc/mvcc_int.h"

#include <stdlib.h>

enum {
    RUN_REFS = 256,
    LIMIT_SMALL = 256,
    TRIM_REFS = 4 * LIMIT_SMALL, /* collected before those behind a small limit are forgotten */
    BLOCK_REFS = 1024,
    FIRST_REFS = 64,  /* the first block starts with this many, and doubles */
    VALUE_STEPS = 10, /* what comparing two values in the store costs, if they are small */
};

static_assert(BLOCK_REFS % RUN_REFS == 0, "a run lies in one block");
static_assert(TRIM_REFS <= BLOCK_REFS, "so does what is trimmed");

struct table {
    struct scan_ref **blocks;
    size_t block_count;
    size_t first_cap; /* of the first block; all others are whole */
};

struct scan_refs {
    int32_t target;
    bool descending, keys_only;
    size_t limit; /* 0: none */
    struct table table;
    size_t count;
    uint64_t seen;

    struct table other; /* what is being merged into */
    size_t width;       /* of the runs that are being merged; 0: not begun */
    size_t low, left, right, to;
};

/* What a comparison needs. */
struct order {
    struct mvcc *m;
    struct backend_view *view;
    const struct scan_refs *refs;
    uint64_t cost; /* of looking at values, in steps */
};

/* --- tables ------------------------------------------------------------------------------- */

static struct scan_ref *ref_at(const struct table *t, size_t i)
{
    return &t->blocks[i / BLOCK_REFS][i % BLOCK_REFS];
}

/* Space for the ref behind the last of i. */
static struct scan_ref *ref_space(struct table *t, size_t i)
{
    if (i < BLOCK_REFS && i == t->first_cap) {
        if (!t->blocks)
            t->blocks = mem_new_array(1, struct scan_ref *);
        t->first_cap = i ? 2 * i : FIRST_REFS;
        t->blocks[0] = mem_resize(t->blocks[0], t->first_cap, sizeof(struct scan_ref));
        t->block_count = 1;
    } else if (i == t->block_count * BLOCK_REFS) {
        t->blocks = mem_resize(t->blocks, t->block_count + 1, sizeof(*t->blocks));
        t->blocks[t->block_count++] = mem_new_array(BLOCK_REFS, struct scan_ref);
    }
    return ref_at(t, i);
}

static void table_free(struct table *t)
{
    for (size_t i = 0; i < t->block_count; i++)
        mem_free(t->blocks[i]);
    mem_free(t->blocks);
    *t = (struct table){0};
}

/* --- opening and closing ------------------------------------------------------------------ */

struct scan_refs *scan_refs_new(const struct mvcc_question *q)
{
    struct scan_refs *r = mem_new(struct scan_refs);

    r->target = q->sort_target;
    r->descending = q->sort_order == PB_SORT_DESCEND;
    r->keys_only = q->keys_only;
    r->limit = q->limit > 0 ? (size_t)q->limit : 0;
    return r;
}

void scan_refs_free(struct scan_refs *r)
{
    if (!r)
        return;
    table_free(&r->table);
    table_free(&r->other);
    mem_free(r);
}

static bool trims(const struct mvcc_question *q)
{
    return q->limit > 0 && q->limit <= LIMIT_SMALL && q->sort_target != PB_SORT_BY_VALUE;
}

uint64_t scan_refs_bytes_max(const struct mvcc_question *q, uint64_t keys)
{
    uint64_t most = trims(q) && keys > TRIM_REFS ? TRIM_REFS : keys;

    return sizeof(struct scan_refs) + 2 * (most + BLOCK_REFS) * sizeof(struct scan_ref);
}

bool scan_refs_by_value(const struct scan_refs *r)
{
    return r->target == PB_SORT_BY_VALUE;
}

size_t scan_refs_count(const struct scan_refs *r)
{
    return r->count;
}

const struct scan_ref *scan_refs_at(const struct scan_refs *r, size_t i)
{
    assert(i < r->count);
    return ref_at(&r->table, i);
}

/* --- order -------------------------------------------------------------------------------- */

static struct bytes value_of(struct order *o, const struct scan_ref *ref)
{
    struct bytes stored;
    struct pb_key_value kv;

    if (!mvcc_fetch(o->m, o->view, (struct revision){ref->main, ref->sub}, &stored))
        return (struct bytes){0};
    o->cost += mvcc_read_cost(stored.len);
    if (!kv_decode(stored, &kv)) {
        mvcc_damage(o->m, "bucket key: an entry is not a KeyValue");
        return (struct bytes){0};
    }
    return kv.value;
}

static int compare_targets(struct order *o, const struct scan_ref *a, const struct scan_ref *b)
{
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    if (!scan_refs_by_value(o->refs))
        return 0;
    struct bytes first = value_of(o, a), second = value_of(o, b);
    o->cost += VALUE_STEPS;
    return bytes_compare(first, second);
}

static int compare_refs(const void *one, const void *two, void *context)
{
    struct order *o = context;
    const struct scan_ref *a = one, *b = two;
    int order = compare_targets(o, a, b);

    if (order != 0)
        return (order < 0) == o->refs->descending ? 1 : -1;
    /* Equal ones by key: the order must not depend on where runs begin, or on what was trimmed. */
    return (a->place > b->place) - (a->place < b->place);
}

static void sort_at_once(struct order *o, struct scan_ref *at, size_t count)
{
    qsort_r(at, count, sizeof(*at), compare_refs, o);
}

/* --- collecting --------------------------------------------------------------------------- */

static bool is_trimmed(const struct scan_refs *r)
{
    return r->limit > 0 && r->limit <= LIMIT_SMALL && !scan_refs_by_value(r);
}

static size_t run_refs(const struct scan_refs *r)
{
    return scan_refs_by_value(r) ? 1 : RUN_REFS;
}

/* Reads the value: its beginning is what to sort by. */
static bool look_at_value(struct mvcc *m, struct scan_refs *r, struct backend_view *v,
                          const struct keyindex_found *found, struct scan_ref *out)
{
    struct bytes stored;
    struct pb_key_value kv;
    uint64_t start = 0;

    if (!mvcc_fetch_exact(m, v, found->mod, found->length, &stored))
        return false;
    if (!kv_decode(stored, &kv)) {
        mvcc_damage(m, "bucket key: an entry is not a KeyValue");
        return false;
    }
    if (kv.value.len > 0)
        memcpy(&start, kv.value.at, kv.value.len < sizeof(start) ? kv.value.len : sizeof(start));
    out->order = __builtin_bswap64(start);
    if (r->keys_only) {
        kv.value = (struct bytes){0};
        out->length = kv_size(&kv);
    }
    return true;
}

static uint64_t number_of(const struct scan_refs *r, const struct keyindex_found *found)
{
    if (r->target == PB_SORT_BY_VERSION)
        return (uint64_t)found->version;
    if (r->target == PB_SORT_BY_CREATE)
        return (uint64_t)found->created;
    assert(r->target == PB_SORT_BY_MOD);
    return (uint64_t)found->mod.main;
}

bool scan_refs_add(struct mvcc *m, struct scan_refs *r, struct backend_view *v,
                   const struct keyindex_found *found, unsigned *steps)
{
    struct order o = {m, v, r, 0};
    struct scan_ref ref = {
        .main = found->mod.main,
        .sub = (uint32_t)found->mod.sub,
        .length = found->length,
        .place = r->seen++,
    };
    assert(r->width == 0);

    if (scan_refs_by_value(r)) {
        if (!look_at_value(m, r, v, found, &ref))
            return false;
        mvcc_spend(steps, mvcc_read_cost(found->length));
    } else {
        ref.order = number_of(r, found);
        struct pb_key_value kv = kv_without_value(found);
        if (r->keys_only)
            ref.length = kv_size(&kv);
    }
    *ref_space(&r->table, r->count) = ref;
    r->count++;
    if (is_trimmed(r) && r->count == TRIM_REFS) {
        sort_at_once(&o, ref_at(&r->table, 0), r->count);
        r->count = r->limit;
    } else if (!is_trimmed(r) && !scan_refs_by_value(r) && r->count % RUN_REFS == 0) {
        sort_at_once(&o, ref_at(&r->table, r->count - RUN_REFS), RUN_REFS);
    }
    return true;
}

/* --- merging ------------------------------------------------------------------------------ */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* From the low end of the next pair of runs. */
static void begin_pair(struct scan_refs *r, size_t low)
{
    r->low = low;
    r->left = low;
    r->right = smaller(low + r->width, r->count);
    r->to = low;
}

/* Is this value, which the merge compares next, at hand? If not, those behind it are wanted, too.
 */
static bool is_at_hand(struct mvcc *m, const struct table *t, size_t i, size_t end)
{
    const struct scan_ref *ref = ref_at(t, i);
    enum mvcc_warmth warmth = mvcc_warmth(m, (struct revision){ref->main, ref->sub}, true);

    end = smaller(end, i + MVCC_WARMUP_KEYS / 2);
    while (warmth == MVCC_WANTED_NOW && ++i < end && mvcc_may_look_ahead(m))
        mvcc_want_ahead(m, (struct revision){ref_at(t, i)->main, ref_at(t, i)->sub}, true);
    return warmth == MVCC_WARM;
}

/* Of a cold store: values that begin alike are compared in the store. */
static bool are_at_hand(struct order *o, const struct scan_refs *r, size_t middle, size_t high)
{
    const struct table *t = &r->table;

    if (!mvcc_is_cold(o->m) || !scan_refs_by_value(r) ||
        ref_at(t, r->left)->order != ref_at(t, r->right)->order)
        return true;
    bool left = is_at_hand(o->m, t, r->left, middle);
    bool right = is_at_hand(o->m, t, r->right, high);
    return left && right;
}

/* False: out of steps. */
static bool merge_pair(struct order *o, struct scan_refs *r, unsigned *steps)
{
    size_t middle = smaller(r->low + r->width, r->count);
    size_t high = smaller(r->low + 2 * r->width, r->count);

    while (r->to < high) {
        if (*steps == 0)
            return false;
        o->cost = 0;
        const struct table *t = &r->table;
        if (r->left < middle && r->right < high && !are_at_hand(o, r, middle, high)) {
            *steps = 0;
            return false;
        }
        bool take_left =
            r->left < middle &&
            (r->right == high || compare_refs(ref_at(t, r->left), ref_at(t, r->right), o) < 0);
        *ref_space(&r->other, r->to) = *ref_at(t, take_left ? r->left++ : r->right++);
        r->to++;
        mvcc_spend(steps, 1 + o->cost);
        if (o->cost > 0 && mvcc_is_late(o->m))
            *steps = 0;
    }
    return true;
}

static void swap_tables(struct scan_refs *r)
{
    struct table merged = r->other;

    r->other = r->table;
    r->table = merged;
    r->width *= 2;
    begin_pair(r, 0);
}

static void begin_merging(struct order *o, struct scan_refs *r)
{
    size_t rest = is_trimmed(r) ? r->count : r->count % run_refs(r);

    if (rest > 0)
        sort_at_once(o, ref_at(&r->table, r->count - rest), rest);
    r->width = is_trimmed(r) ? TRIM_REFS : run_refs(r);
    begin_pair(r, 0);
}

bool scan_refs_sort(struct mvcc *m, struct scan_refs *r, struct backend_view *v, unsigned *steps)
{
    struct order o = {m, v, r, 0};

    if (r->width == 0 && r->count > 0)
        begin_merging(&o, r);
    while (r->width < r->count) {
        if (!merge_pair(&o, r, steps))
            return false;
        if (r->to < r->count)
            begin_pair(r, r->to);
        else
            swap_tables(r);
    }
    table_free(&r->other);
    if (r->limit > 0 && r->count > r->limit)
        r->count = r->limit;
    return true;
}
