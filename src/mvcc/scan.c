#include "mvcc/mvcc_int.h"
#include "pb/wire.h"

/* --- pins --------------------------------------------------------------------------------- */

void mvcc_pin(struct mvcc *m, struct mvcc_scan *s)
{
    assert(!s->is_open);

    s->mvcc = m;
    s->is_open = true;
    s->next = NULL;
    s->prev = m->last_pin;
    if (m->last_pin)
        m->last_pin->next = s;
    else
        m->first_pin = s;
    m->last_pin = s;
    m->pin_count++;
}

void mvcc_unpin(struct mvcc *m, struct mvcc_scan *s)
{
    assert(s->is_open);
    assert(m->pin_count > 0);

    *(s->prev ? &s->prev->next : &m->first_pin) = s->next;
    *(s->next ? &s->next->prev : &m->last_pin) = s->prev;
    s->is_open = false;
    m->pin_count--;
}

/*
 * A compaction keeps of each key the newest revision that is not later, so whoever reads at exactly
 * that revision loses nothing. Inside a transaction one may read at a part of it: the newest then,
 * overwritten by a later part, is not kept.
 */
bool mvcc_scan_in_the_way(const struct mvcc_scan *s)
{
    struct revision at = s->question.at;
    int64_t compaction = s->mvcc->now.revision; /* -1: none is waiting */
    assert(s->is_open);

    return s->mvcc->scans_end || at.main < compaction ||
           (at.main == compaction && at.sub != REVISION_SUB_MAX);
}

struct mvcc_scan *mvcc_pin_in_the_way(const struct mvcc *m)
{
    if (m->now.revision < 0 && !m->scans_end)
        return NULL;
    for (struct mvcc_scan *s = m->first_pin; s; s = s->next)
        if (mvcc_scan_in_the_way(s))
            return s;
    return NULL;
}

void mvcc_end_scans(struct mvcc *m)
{
    m->scans_end = true;
}

/* --- what a question means ---------------------------------------------------------------- */

static bool is_filtered(const struct mvcc_question *q)
{
    return q->min_mod_revision != 0 || q->max_mod_revision != 0 || q->min_create_revision != 0 ||
           q->max_create_revision != 0;
}

static bool passes(const struct mvcc_question *q, const struct keyindex_found *found)
{
    int64_t mod = found->mod.main, created = found->created;

    return (q->max_mod_revision == 0 || mod <= q->max_mod_revision) &&
           (q->min_mod_revision == 0 || mod >= q->min_mod_revision) &&
           (q->max_create_revision == 0 || created <= q->max_create_revision) &&
           (q->min_create_revision == 0 || created >= q->min_create_revision);
}

static bool is_sorted(const struct mvcc_question *q)
{
    return !q->count_only && q->sort_target >= PB_SORT_BY_VERSION &&
           q->sort_target <= PB_SORT_BY_VALUE;
}

static bool is_backwards(const struct mvcc_question *q)
{
    return q->sort_order == PB_SORT_DESCEND && !is_sorted(q);
}

/*
 * May the walk end when one more key than the limit has passed? In key order, yes. Sorted by
 * something else, no: the first could come last. But etcd, asked to sort by something else in no
 * particular order and without filters, sorts only what the limit lets through, and one more.
 */
static bool limit_ends_walk(const struct mvcc_question *q)
{
    return q->limit > 0 && (!is_sorted(q) || (q->sort_order == PB_SORT_NONE && !is_filtered(q)));
}

/* How long the KeyValue is that stands for this key in the answer. */
static uint32_t length_shown(const struct mvcc_question *q, const struct keyindex_found *found)
{
    if (!q->keys_only)
        return found->length;
    struct pb_key_value kv = kv_without_value(found);
    return kv_size(&kv);
}

static size_t size_with_tag(uint32_t length)
{
    return 1 + pb_bytes_size(length);
}

/* --- opening and closing ------------------------------------------------------------------ */

static void walk_from_start(struct mvcc_scan *s)
{
    const struct mvcc_question *q = &s->question;
    struct key_range range = key_range(q->key, q->end);

    assert(!s->walking);
    keyindex_cursor_open(s->mvcc->index, &range, q->at, is_backwards(q), &s->cursor);
    s->walking = true;
}

static void end_walk(struct mvcc_scan *s)
{
    if (s->walking)
        keyindex_cursor_close(&s->cursor);
    s->walking = false;
}

/*
 * A single key is looked up on the spot, and its answer is known. (Only etcd's quirk, a lease in
 * keys_only when sorted by value, takes the long way.)
 */
static bool is_single(const struct mvcc_question *q)
{
    return q->end.len == 0 && !(q->keys_only && q->sort_target == PB_SORT_BY_VALUE);
}

static void measure_single(struct mvcc_scan *s)
{
    const struct mvcc_question *q = &s->question;

    s->measured = true;
    if (!keyindex_find(s->mvcc->index, q->key, q->at, &s->held))
        return;
    s->count = 1;
    if (q->count_only || !passes(q, &s->held))
        return;
    s->held.key = q->key;
    s->has_held = true;
    s->kvs = 1;
    s->bytes = size_with_tag(length_shown(q, &s->held));
}

/* The index can count without walking the state that is published and the one being written. */
static void count_at_once(struct mvcc_scan *s)
{
    const struct mvcc *m = s->mvcc;
    struct revision at = s->question.at;
    bool published = revision_compare(at, revision_whole(m->revision)) == 0;

    if (!published && revision_compare(at, mvcc_working(m)) != 0)
        return;
    struct key_range range = key_range(s->question.key, s->question.end);
    s->count = keyindex_count(m->index, &range, published);
    s->counted = true;
}

/* Nothing of it can have been removed: no compaction is above it, or one that has not begun, since
 * it waits for somebody who reads there or below. */
static bool is_readable(const struct mvcc *m, struct revision at)
{
    if (at.main > m->compact_revision ||
        revision_compare(at, revision_whole(m->compact_revision)) == 0)
        return true;
    for (const struct mvcc_scan *s = m->first_pin; s; s = s->next)
        if (revision_compare(s->question.at, at) <= 0)
            return true;
    return false;
}

void mvcc_scan_open(struct mvcc *m, struct mvcc_scan *s)
{
    struct revision at = s->question.at;
    assert(is_readable(m, at));
    assert(revision_compare(at, mvcc_working(m)) <= 0);

    mvcc_pin(m, s);
    if (is_single(&s->question)) {
        measure_single(s);
        return;
    }
    count_at_once(s);
    if (is_sorted(&s->question))
        s->refs = scan_refs_new(&s->question);
}

/* Of an older state nobody knows how many keys were alive, but no more than there are, dead ones
 * too. */
uint64_t mvcc_scan_bytes_max(struct mvcc *m, const struct mvcc_question *q)
{
    struct key_range range = key_range(q->key, q->end);

    if (!is_sorted(q))
        return 0;
    if (is_single(q))
        return 0;
    uint64_t keys = q->at.main < m->revision ? keyindex_size(m->index)
                                             : (uint64_t)keyindex_count(m->index, &range, true);
    if (limit_ends_walk(q) && (uint64_t)q->limit < keys)
        keys = (uint64_t)q->limit + 1;
    return scan_refs_bytes_max(q, keys);
}

void mvcc_scan_close(struct mvcc_scan *s)
{
    if (!s->is_open)
        return;
    end_walk(s);
    scan_refs_free(s->refs);
    s->refs = NULL;
    buf_free(&s->held_key);
    mvcc_unpin(s->mvcc, s);
}

/* --- a cold store ------------------------------------------------------------------------- */

/* A scan that shows few more goes before those that show many. */
static bool is_bulk(size_t left)
{
    return left > MVCC_WARMUP_KEYS / 8;
}

/* The keys that the walk comes to next, as far as one warm-up goes; or the turn's time, for with a
 * filter that few of them pass the walk may be long. */
static void want_walk_ahead(const struct mvcc_scan *s, size_t left, size_t bytes)
{
    struct keyindex_cursor c;
    struct keyindex_found found;
    unsigned steps = MVCC_SLICE_STEPS;

    keyindex_cursor_copy(&s->cursor, &c);
    for (size_t keys = 1; keys < left && keys < MVCC_WARMUP_KEYS && bytes < MVCC_WARMUP_BYTES &&
                          mvcc_may_look_ahead(s->mvcc) &&
                          keyindex_cursor_next(&c, &steps, &found);) {
        if (!passes(&s->question, &found))
            continue;
        mvcc_want_ahead(s->mvcc, found.mod, is_bulk(left));
        bytes += found.length;
        keys++;
    }
    keyindex_cursor_close(&c);
}

/* The same of a sorted scan. */
static void want_refs_ahead(const struct mvcc_scan *s, size_t left, size_t bytes)
{
    for (size_t i = 1; i < left && i < MVCC_WARMUP_KEYS && bytes < MVCC_WARMUP_BYTES &&
                       mvcc_may_look_ahead(s->mvcc);
         i++) {
        const struct scan_ref *ref = scan_refs_at(s->refs, (size_t)s->shown + i);
        mvcc_want_ahead(s->mvcc, (struct revision){ref->main, ref->sub}, is_bulk(left));
        bytes += ref->length;
    }
}

/* May the scan look at this entry? If not, it pauses, and wants those behind it, too. */
static bool is_at_hand(struct mvcc_scan *s, struct revision at, uint32_t length)
{
    if (!mvcc_is_cold(s->mvcc))
        return true;
    size_t left = s->measured ? (size_t)(s->kvs - s->shown) : SIZE_MAX;
    enum mvcc_warmth warmth = mvcc_warmth(s->mvcc, at, is_bulk(left));
    if (warmth == MVCC_WANTED_NOW && s->walking)
        want_walk_ahead(s, left, length);
    else if (warmth == MVCC_WANTED_NOW && s->measured && s->refs)
        want_refs_ahead(s, left, length);
    s->is_paused = warmth != MVCC_WARM;
    return !s->is_paused;
}

/* --- measuring ---------------------------------------------------------------------------- */

static bool is_enough(const struct mvcc_scan *s)
{
    const struct mvcc_question *q = &s->question;

    if (!s->counted)
        return false;
    return q->count_only || (limit_ends_walk(q) && s->passed > q->limit);
}

static bool measure_key(struct mvcc_scan *s, struct backend_view *v,
                        const struct keyindex_found *found, unsigned *steps)
{
    const struct mvcc_question *q = &s->question;

    if (!s->counted)
        s->count++;
    if (q->count_only || !passes(q, found) || (limit_ends_walk(q) && s->passed > q->limit))
        return true;
    s->passed++;
    if (s->refs)
        return scan_refs_add(s->mvcc, s->refs, v, found, steps);
    if (q->limit > 0 && s->passed > q->limit)
        return true;
    s->kvs++;
    s->bytes += size_with_tag(length_shown(q, found));
    return true;
}

/* Nothing is to be had from a damaged store: the answer ends here. */
static bool give_up(struct mvcc_scan *s)
{
    end_walk(s);
    s->shown = s->kvs;
    s->measured = true;
    return true;
}

/* A key that was looked at and not used waits for the next call. Where it will be shown, its bytes
 * are copied: the index may move them. */
static void hold(struct mvcc_scan *s, const struct keyindex_found *found)
{
    s->has_held = true;
    if (found == &s->held)
        return;
    s->held = *found;
    buf_clear(&s->held_key);
    if (s->question.keys_only)
        buf_append(&s->held_key, found->key);
    s->held.key = buf_bytes(&s->held_key);
}

/* The next key; NULL where they end, or with the last of the steps. */
static const struct keyindex_found *next_measured(struct mvcc_scan *s, unsigned *steps,
                                                  struct keyindex_found *space)
{
    if (s->has_held) {
        s->has_held = false;
        *space = s->held;
        return space;
    }
    if (!s->walking)
        walk_from_start(s);
    return keyindex_cursor_next(&s->cursor, steps, space) ? space : NULL;
}

/* True when all that matters has been looked at; or damage, and then the scan is measured. */
static bool measure_walk(struct mvcc_scan *s, struct backend_view *v, unsigned *steps)
{
    struct keyindex_found space;

    while (!is_enough(s)) {
        if (*steps == 0)
            return false;
        const struct keyindex_found *found = next_measured(s, steps, &space);
        if (!found && *steps == 0)
            return false;
        if (!found)
            break;
        if (v && !is_at_hand(s, found->mod, found->length)) {
            hold(s, found);
            *steps = 0;
            return false;
        }
        if (!measure_key(s, v, found, steps))
            return give_up(s);
        if (v && mvcc_is_late(s->mvcc))
            *steps = 0;
    }
    end_walk(s);
    s->walked = true;
    return true;
}

/* False: out of steps. */
static bool measure_refs(struct mvcc_scan *s, unsigned *steps)
{
    for (; (size_t)s->kvs < scan_refs_count(s->refs); s->kvs++, --*steps) {
        if (*steps == 0)
            return false;
        s->bytes += size_with_tag(scan_refs_at(s->refs, (size_t)s->kvs)->length);
    }
    return true;
}

static bool measure_some(struct mvcc_scan *s, struct backend_view *v, unsigned *steps)
{
    const struct mvcc_question *q = &s->question;

    if (!s->walked && !measure_walk(s, v, steps))
        return false;
    if (s->measured)
        return true;
    if (s->refs && !scan_refs_sort(s->mvcc, s->refs, v, steps))
        return false;
    if (s->refs && !measure_refs(s, steps))
        return false;
    s->more = !q->count_only && q->limit > 0 && s->passed > q->limit;
    s->measured = true;
    return true;
}

bool mvcc_scan_measure(struct mvcc_scan *s, unsigned steps)
{
    bool by_value = s->refs && scan_refs_by_value(s->refs);
    unsigned left = steps;
    struct backend_view v;
    assert(s->is_open);

    if (s->measured)
        return true;
    s->is_paused = false;
    mvcc_view_init(&v);
    bool done = measure_some(s, by_value ? &v : NULL, &left);
    mvcc_view_close(&v);
    s->cost += steps - left;
    return done;
}

/* --- reading ------------------------------------------------------------------------------ */

struct chunk {
    struct backend_view *view; /* NULL if the index alone can answer */
    struct buf *out;
    size_t start, max; /* what was in `out` before, and how much may be added */
};

/* Tag and length in front of a KeyValue; its end is where the KeyValue goes. */
static void put_head(const struct mvcc_scan *s, uint8_t *at, uint32_t length)
{
    at[0] = s->question.tag;
    pb_put_varint(at + size_with_tag(length) - length, length);
}

/* Makes space for a KeyValue behind its tag and length. NULL: it does not fit into this chunk. */
static uint8_t *next_space(const struct mvcc_scan *s, const struct chunk *b, uint32_t length)
{
    size_t size = size_with_tag(length), used = b->out->len - b->start;
    bool must_fit = used > 0 || s->in_parts;

    if (s->part > 0 || (must_fit && (used > b->max || size > b->max - used)))
        return NULL;
    uint8_t *at = buf_extend(b->out, size);
    put_head(s, at, length);
    return at + size - length;
}

enum show_result { SHOWN, DOES_NOT_FIT, DAMAGED };

/* As much of it as the chunk takes, after what has come before. */
static enum show_result show_part(struct mvcc_scan *s, const struct chunk *b, struct bytes kv)
{
    uint8_t head[16];
    size_t size = size_with_tag((uint32_t)kv.len), head_len = size - kv.len;
    size_t until = s->part + b->max - (b->out->len - b->start);
    assert(head_len <= sizeof(head));

    put_head(s, head, (uint32_t)kv.len);
    if (until > size)
        until = size;
    if (s->part < head_len) {
        size_t to = until < head_len ? until : head_len;
        buf_append(b->out, bytes_of(head + s->part, to - s->part));
        s->part = to;
    }
    if (s->part < until)
        buf_append(b->out, bytes_of(kv.at + (s->part - head_len), until - s->part));
    s->part = until < size ? until : 0;
    return until < size ? DOES_NOT_FIT : SHOWN;
}

/* The same of a stored one whose head has been shown, without a look at the rest of it. */
static enum show_result show_stored_part(struct mvcc_scan *s, const struct chunk *b,
                                         struct revision at, uint32_t length)
{
    size_t from = s->part - (size_with_tag(length) - length);
    size_t fits = b->max - (b->out->len - b->start), left = length - from;
    struct bytes part;

    if (!mvcc_fetch_part(s->mvcc, b->view, at, from, left < fits ? left : fits, &part))
        return DAMAGED;
    buf_append(b->out, part);
    s->part = part.len < left ? s->part + part.len : 0;
    return part.len < left ? DOES_NOT_FIT : SHOWN;
}

static enum show_result show_stored(struct mvcc_scan *s, const struct chunk *b, struct revision at,
                                    uint32_t length)
{
    struct bytes stored;

    if (s->part > size_with_tag(length) - length)
        return show_stored_part(s, b, at, length);
    if (!mvcc_fetch_exact(s->mvcc, b->view, at, length, &stored))
        return DAMAGED;
    uint8_t *to = next_space(s, b, length);
    if (!to)
        return s->in_parts ? show_part(s, b, stored) : DOES_NOT_FIT;
    memcpy(to, stored.at, length);
    return SHOWN;
}

static enum show_result show_kv_part(struct mvcc_scan *s, const struct chunk *b,
                                     const struct pb_key_value *kv, uint32_t length)
{
    struct buf whole = {0};

    pb_key_value_schema.by_hand->put(kv, buf_extend(&whole, length) + length);
    enum show_result o = show_part(s, b, buf_bytes(&whole));
    buf_free(&whole);
    return o;
}

static enum show_result show_kv(struct mvcc_scan *s, const struct chunk *b,
                                const struct pb_key_value *kv, uint32_t length)
{
    uint8_t *to = next_space(s, b, length);

    if (!to)
        return s->in_parts ? show_kv_part(s, b, kv, length) : DOES_NOT_FIT;
    uint8_t *start = pb_key_value_schema.by_hand->put(kv, to + length);
    assert(start == to);
    return SHOWN;
}

static enum show_result show_found(struct mvcc_scan *s, const struct chunk *b,
                                   const struct keyindex_found *found)
{
    if (!s->question.keys_only)
        return show_stored(s, b, found->mod, found->length);
    struct pb_key_value kv = kv_without_value(found);
    return show_kv(s, b, &kv, length_shown(&s->question, found));
}

/* Sorted, the keys are not remembered; they come from the store with the rest. */
static enum show_result show_ref(struct mvcc_scan *s, const struct chunk *b,
                                 const struct scan_ref *ref, unsigned *steps)
{
    struct revision at = {ref->main, ref->sub};
    struct bytes stored;
    struct pb_key_value kv;

    if (!s->question.keys_only)
        return show_stored(s, b, at, ref->length);
    if (!mvcc_fetch(s->mvcc, b->view, at, &stored))
        return DAMAGED;
    mvcc_spend(steps, mvcc_read_cost(stored.len));
    bool decoded = kv_decode(stored, &kv);
    kv.value = (struct bytes){0};
    if (!scan_refs_by_value(s->refs))
        kv.lease = 0;
    if (!decoded || kv_size(&kv) != ref->length) {
        mvcc_damage(s->mvcc, "bucket key: the index remembers another entry than is stored");
        return DAMAGED;
    }
    return show_kv(s, b, &kv, ref->length);
}

static bool is_late(struct mvcc_scan *s)
{
    s->is_paused = mvcc_is_late(s->mvcc);
    return s->is_paused;
}

/*
 * The same walk as for the measure, once more, instead of a list of what was found then: so a scan
 * in key order takes no memory for its keys, however many. It finds the same, since its revision
 * does not change and the pin keeps compactions away.
 */
static bool read_walk(struct mvcc_scan *s, const struct chunk *b, unsigned steps)
{
    while (s->shown < s->kvs) {
        struct keyindex_found found;
        if (!s->has_held && !s->walking)
            walk_from_start(s);
        if (s->has_held)
            found = s->held;
        else if (steps == 0)
            return false;
        else if (!keyindex_cursor_next(&s->cursor, &steps, &found)) {
            assert(steps == 0); /* promise 1: as many keys as were measured */
            return false;
        } else if (!passes(&s->question, &found))
            continue;
        bool is_here = !b->view || is_at_hand(s, found.mod, found.length);
        enum show_result o = is_here ? show_found(s, b, &found) : DOES_NOT_FIT;
        if (o == DAMAGED)
            return give_up(s);
        if (o == DOES_NOT_FIT) {
            hold(s, s->has_held ? &s->held : &found);
            return false;
        }
        s->has_held = false;
        s->shown++;
        if (b->view && s->shown < s->kvs && is_late(s))
            return false;
    }
    end_walk(s);
    return true;
}

static bool read_refs(struct mvcc_scan *s, const struct chunk *b, unsigned steps)
{
    for (; s->shown < s->kvs; s->shown++, mvcc_spend(&steps, 1)) {
        const struct scan_ref *ref = scan_refs_at(s->refs, (size_t)s->shown);
        if (steps == 0 || !is_at_hand(s, (struct revision){ref->main, ref->sub}, ref->length))
            return false;
        enum show_result o = show_ref(s, b, ref, &steps);
        if (o == DAMAGED)
            return give_up(s);
        if (o == DOES_NOT_FIT)
            return false;
        if (is_late(s))
            steps = 1; /* this one is shown */
    }
    return true;
}

bool mvcc_scan_read(struct mvcc_scan *s, size_t max, unsigned steps, struct buf *out)
{
    struct chunk b = {.out = out, .start = out->len, .max = max};
    struct backend_view v;
    assert(s->is_open);
    assert(s->measured);

    s->is_paused = false;
    if (s->shown == s->kvs)
        return true;
    if (s->question.keys_only && !s->refs)
        return read_walk(s, &b, steps);
    b.view = &v;
    mvcc_view_init(&v);
    bool done = s->refs ? read_refs(s, &b, steps) : read_walk(s, &b, steps);
    mvcc_view_close(&v);
    return done;
}
