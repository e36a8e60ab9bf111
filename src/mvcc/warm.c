#include "base/mem.h"
#include "mvcc/mvcc_int.h"

/*
 * Entries that slices want, and copies of those that workers have read, while the store is cold.
 *
 *     a slice meets an entry that is not at hand --> wanted --> a worker copies it --> at hand
 *
 * Slices keep no state of this: a slice that ends here asks again in its next call. So nothing has
 * to be told when a scan closes, a watcher leaves or a call is canceled; a worker then reads a few
 * pages for nobody. `known` is a cache with a few places for each hash: an entry that others have
 * pushed out is wanted again, and that is all.
 *
 * Copies are kept as they came, one batch for each warm-up, and go in the same order: when there
 * are WARM_BATCHES, or MVCC_WARM_BYTES_MAX. An entry under a revision never changes, so a copy of
 * it cannot become wrong. What history has between two revisions can: until a large delete is
 * settled some of it is missing, and compaction removes some. So copies of history go when either
 * has happened; but a compaction takes nothing behind its revision, where watchers read while it
 * goes on for minutes. Nor are copies of history made while tombstones that were stored late are
 * in the open batch: a worker does not see that one, although it may see later revisions, which
 * were committed before.
 *
 * There are three kinds of wants: single entries, history, and entries in bulk. Workers take turns
 * between them, so that none of the three waits for an end of the others.
 */
enum {
    KNOWN_SETS = 512,  /* a power of two */
    KNOWN_WAYS = 8,    /* two values that are compared, and what else has the same hash */
    WARM_BATCHES = 64, /* a power of two */
    QUEUE_MAX = 1024,  /* a power of two */
    RANGES_MAX = 8,    /* places in history that are wanted: watchers', hashes' */
};

struct known {
    struct revision at;
    uint64_t batch; /* number of the batch that has it; 0: none, WANTED: it is to come */
    size_t from, len;
    bool is_copied; /* else it was only looked at: it is too large */
};

#define WANTED UINT64_MAX

struct batch_of_copies {
    struct buf text;
    bool is_range; /* history from `from` up to `to`: see put_entry. Else single entries */
    struct revision from, to;
};

struct queue {
    struct revision at[QUEUE_MAX];
    size_t first, count;
};

enum kind { SINGLE, RANGE, BULK, KINDS };

struct warm {
    struct known known[KNOWN_SETS][KNOWN_WAYS];
    struct batch_of_copies batches[WARM_BATCHES]; /* by number; those from `oldest` to `newest` */
    uint64_t oldest, newest;
    size_t bytes;                       /* of all of them */
    struct queue single, bulk;          /* wanted: by readers of a few entries, and of many */
    struct revision ranges[RANGES_MAX]; /* wanted of history, from there on; oldest want first */
    size_t range_count;
    enum kind taken_last; /* by a worker that takes all kinds */
    unsigned taken;       /* warm-ups that workers have */
    struct list reading;  /* of them, those of history */
    bool is_cold;
};

/* --- batches ------------------------------------------------------------------------------ */

static struct batch_of_copies *batch_at(struct warm *w, uint64_t number)
{
    return &w->batches[number % WARM_BATCHES];
}

static bool is_kept(const struct warm *w, uint64_t number)
{
    return w->oldest <= number && number <= w->newest;
}

static void drop_oldest(struct warm *w)
{
    struct batch_of_copies *b = batch_at(w, w->oldest++);

    w->bytes -= b->text.cap;
    buf_free(&b->text);
    b->is_range = false;
}

/* Takes the text over. Returns its number. */
static uint64_t keep_batch(struct warm *w, struct mvcc_warmup *warmup)
{
    while (w->newest - w->oldest + 1 >= WARM_BATCHES ||
           (w->oldest <= w->newest && w->bytes + warmup->text.cap > MVCC_WARM_BYTES_MAX))
        drop_oldest(w);
    *batch_at(w, ++w->newest) = (struct batch_of_copies){.text = warmup->text,
                                                         .is_range = warmup->is_range,
                                                         .from = warmup->at[0],
                                                         .to = warmup->to};
    w->bytes += warmup->text.cap;
    warmup->text = (struct buf){0};
    return w->newest;
}

static void forget(struct warm *w)
{
    while (w->oldest <= w->newest)
        drop_oldest(w);
    memset(w->known, 0, sizeof(w->known));
    w->single.count = w->bulk.count = 0;
    w->range_count = 0;
    assert(w->bytes == 0);
}

/* Also while the store is warm: a worker may still have a warm-up of when it was cold. */
void mvcc_forget_copied_history(struct mvcc *m, int64_t up_to)
{
    struct warm *w = m->warm;

    if (!w)
        return;
    for (uint64_t n = w->oldest; n <= w->newest; n++)
        batch_at(w, n)->is_range &= batch_at(w, n)->from.main > up_to;
    LIST_FOREACH (link, &w->reading) {
        struct mvcc_warmup *warmup = container_of(link, struct mvcc_warmup, link);
        warmup->is_stale |= warmup->at[0].main <= up_to;
    }
}

/* --- being told --------------------------------------------------------------------------- */

void mvcc_set_cold(struct mvcc *m, bool is_cold)
{
    if (mvcc_is_cold(m) == is_cold)
        return;
    if (!m->warm) {
        m->warm = mem_new(struct warm);
        m->warm->oldest = 1;
        list_init(&m->warm->reading);
    }
    forget(m->warm);
    m->warm->is_cold = is_cold;
    backend_read_randomly(m->backend, is_cold);
}

bool mvcc_is_cold(const struct mvcc *m)
{
    return m->warm && m->warm->is_cold;
}

void mvcc_warm_free(struct mvcc *m)
{
    if (!m->warm)
        return;
    assert(m->warm->taken == 0);
    forget(m->warm);
    mem_free(m->warm);
}

unsigned mvcc_warmups_taken(const struct mvcc *m)
{
    return m->warm ? m->warm->taken : 0;
}

/* --- what is known ------------------------------------------------------------------------ */

static struct known *set_of(struct warm *w, struct revision at)
{
    uint64_t hash = ((uint64_t)at.main * 31 + (uint64_t)at.sub) * 0x9e3779b97f4a7c15u;

    return w->known[(hash >> 32) % KNOWN_SETS];
}

/* NULL: nothing is known of it. */
static struct known *find(struct warm *w, struct revision at)
{
    struct known *set = set_of(w, at);

    for (size_t i = 0; i < KNOWN_WAYS; i++)
        if (revision_compare(set[i].at, at) == 0 && set[i].batch != 0)
            return &set[i];
    return NULL;
}

/* In its own place, or in that of the oldest one. */
static void note(struct warm *w, const struct known *what)
{
    struct known *set = set_of(w, what->at), *own = find(w, what->at), *oldest = set;

    for (size_t i = 1; i < KNOWN_WAYS; i++)
        if (set[i].batch < oldest->batch) /* 0: it is free */
            oldest = &set[i];
    *(own ? own : oldest) = *what;
}

static struct known *find_read(struct warm *w, struct revision at)
{
    struct known *k = find(w, at);

    return k && is_kept(w, k->batch) ? k : NULL;
}

/* False: it is wanted already, or there are too many, and it is asked for again later. */
static bool want(struct warm *w, struct queue *q, struct revision at)
{
    const struct known *k = find(w, at);

    if (q->count == QUEUE_MAX || (k && k->batch == WANTED))
        return false;
    q->at[(q->first + q->count++) % QUEUE_MAX] = at;
    note(w, &(struct known){.at = at, .batch = WANTED});
    return true;
}

/* --- asking ------------------------------------------------------------------------------- */

/* An entry of a batch that is not committed is in memory, and needs no copy. */
static bool is_here(struct mvcc *m, struct revision at)
{
    struct revision_key space;

    return find_read(m->warm, at) ||
           backend_is_in_batch(m->backend, BUCKET_KEY, revision_encode(at, false, &space));
}

enum mvcc_warmth mvcc_warmth(struct mvcc *m, struct revision at, bool is_bulk)
{
    struct warm *w = m->warm;
    assert(mvcc_is_cold(m));

    if (is_here(m, at))
        return MVCC_WARM;
    m->effort.misses++;
    return want(w, is_bulk ? &w->bulk : &w->single, at) ? MVCC_WANTED_NOW : MVCC_WANTED_BEFORE;
}

bool mvcc_is_at_hand(struct mvcc *m, struct revision at)
{
    return !mvcc_is_cold(m) || mvcc_warmth(m, at, false) == MVCC_WARM;
}

void mvcc_want_ahead(struct mvcc *m, struct revision at, bool is_bulk)
{
    struct warm *w = m->warm;

    if (!is_here(m, at))
        (void)want(w, is_bulk ? &w->bulk : &w->single, at);
}

bool mvcc_copy_of(struct mvcc *m, struct revision at, struct bytes *out)
{
    if (!mvcc_is_cold(m))
        return false;
    const struct known *k = find_read(m->warm, at);
    if (!k || !k->is_copied)
        return false;
    *out = bytes_of(batch_at(m->warm, k->batch)->text.at + k->from, k->len);
    return true;
}

/* --- history ------------------------------------------------------------------------------ */

/* An entry in the text of a batch: | key length u8 | value length u32 | key | value |. */
enum { HEAD_BYTES = 1 + sizeof(uint32_t) };

static void put_entry(struct buf *text, struct bytes key, struct bytes value)
{
    uint32_t value_len = (uint32_t)value.len;

    buf_append_byte(text, (uint8_t)key.len);
    buf_append(text, bytes_of(&value_len, sizeof(value_len)));
    buf_append(text, key);
    buf_append(text, value);
}

static struct bytes take_entry(struct bytes text, struct bytes *key, struct bytes *value)
{
    uint32_t value_len;

    assert(text.len > HEAD_BYTES);
    memcpy(&value_len, text.at + 1, sizeof(value_len));
    *key = bytes_of(text.at + HEAD_BYTES, text.at[0]);
    *value = bytes_of(key->at + key->len, value_len);
    size_t size = HEAD_BYTES + key->len + value_len;
    assert(size <= text.len);
    return bytes_of(text.at + size, text.len - size);
}

static const struct batch_of_copies *find_range(struct warm *w, struct revision next)
{
    for (uint64_t n = w->oldest; n <= w->newest; n++) {
        const struct batch_of_copies *b = batch_at(w, n);
        if (b->is_range && revision_compare(b->from, next) <= 0 &&
            revision_compare(next, b->to) <= 0)
            return b;
    }
    return NULL;
}

/* Behind the entries before `next`. */
static struct bytes skip_entries(struct bytes text, struct revision next)
{
    while (text.len > 0) {
        struct bytes key, value, rest = take_entry(text, &key, &value);
        struct revision at;
        bool tombstone;
        if (!revision_decode(key, &at, &tombstone) || revision_compare(at, next) >= 0)
            break;
        text = rest;
    }
    return text;
}

/* A worker is about to read from there on, or has it in hand. Nobody asks how far it reads: it may
 * change that meanwhile. */
static bool is_coming(const struct warm *w, struct revision next)
{
    for (size_t i = 0; i < w->range_count; i++)
        if (revision_compare(w->ranges[i], next) == 0)
            return true;
    LIST_FOREACH (link, &w->reading) {
        const struct mvcc_warmup *warmup = container_of(link, struct mvcc_warmup, link);
        if (!warmup->is_stale && revision_compare(warmup->at[0], next) == 0)
            return true;
    }
    return false;
}

static void want_range(struct warm *w, struct revision next)
{
    if (w->range_count < RANGES_MAX && !is_coming(w, next))
        w->ranges[w->range_count++] = next;
}

bool mvcc_history_open(struct mvcc *m, struct revision next, bool at_once, struct mvcc_history *h)
{
    struct warm *w = m->warm;
    struct revision_key space;

    *h = (struct mvcc_history){.mvcc = m};
    bool is_cold = mvcc_is_cold(m) && !at_once;
    const struct batch_of_copies *b = is_cold ? find_range(w, next) : NULL;
    if (is_cold && !b) {
        m->effort.misses++;
        want_range(w, next);
        return false;
    }
    h->is_copied = b && b->text.len > 0;
    if (h->is_copied) {
        h->copies = skip_entries(buf_bytes(&b->text), next);
        return true;
    }
    backend_view_open(m->backend, &h->view);
    backend_cursor_open(&h->view, BUCKET_KEY, revision_encode(next, false, &space), &h->cursor);
    return true;
}

enum err mvcc_history_next(struct mvcc_history *h, struct bytes *key, struct bytes *value)
{
    if (!h->is_copied)
        return backend_cursor_next(&h->cursor, key, value);
    if (h->copies.len == 0)
        return ERR_NOT_FOUND;
    h->copies = take_entry(h->copies, key, value);
    return ERR_OK;
}

void mvcc_history_close(struct mvcc_history *h)
{
    if (h->is_copied)
        return;
    backend_cursor_close(&h->cursor);
    backend_view_close(&h->view);
}

/* --- workers ------------------------------------------------------------------------------ */

static void take_from(struct queue *q, struct mvcc_warmup *out)
{
    while (q->count > 0 && out->count < MVCC_WARMUP_KEYS) {
        out->at[out->count++] = q->at[q->first];
        q->first = (q->first + 1) % QUEUE_MAX;
        q->count--;
    }
}

static void take_range(struct mvcc *m, struct mvcc_warmup *out)
{
    struct warm *w = m->warm;

    if (w->range_count == 0 || backend_open_batch(m->backend) <= m->settled_batch)
        return;
    out->is_range = true;
    out->at[out->count++] = w->ranges[0];
    out->to = revision_whole(m->revision);
    memmove(w->ranges, w->ranges + 1, --w->range_count * sizeof(*w->ranges));
    list_push_back(&w->reading, &out->link);
}

static void take_kind(struct mvcc *m, enum kind kind, struct mvcc_warmup *out)
{
    if (kind == RANGE)
        take_range(m, out);
    else
        take_from(kind == SINGLE ? &m->warm->single : &m->warm->bulk, out);
}

bool mvcc_take_warmup(struct mvcc *m, bool single_only, struct mvcc_warmup *out)
{
    struct warm *w = m->warm;

    if (!mvcc_is_cold(m))
        return false;
    *out = (struct mvcc_warmup){.mvcc = m, .backend = m->backend};
    list_init(&out->link);
    if (single_only)
        take_kind(m, SINGLE, out);
    for (unsigned i = 0; !single_only && out->count == 0 && i < KINDS; i++) {
        w->taken_last = (w->taken_last + 1) % KINDS;
        take_kind(m, w->taken_last, out);
    }
    if (out->count == 0)
        return false;
    w->taken++;
    return true;
}

/* An entry that is damaged or missing is for the core thread to find, which knows what to do. It
 * counts as looked at. */
static void read_single(struct mvcc_warmup *w, struct backend_view *v)
{
    while (w->read < w->count && w->text.len < MVCC_WARMUP_BYTES) {
        struct revision_key space;
        struct bytes value, key = revision_encode(w->at[w->read], false, &space);
        struct mvcc_copy *copy = &w->copies[w->read++];
        enum err e = backend_get(v, BUCKET_KEY, key, &value);
        copy->is_copied = e == ERR_OK && value.len <= MVCC_WARM_VALUE_BYTES_MAX;
        copy->from = w->text.len;
        if (copy->is_copied)
            buf_append(&w->text, value);
        copy->len = w->text.len - copy->from;
    }
}

/* Behind the last entry of the view there may be others, in the open batch. A range without a
 * single one says that all of it is there. */
static void read_range(struct mvcc_warmup *w, struct backend_view *v)
{
    struct revision_key space;
    struct backend_cursor c;
    struct bytes key, value;
    struct revision at, last = w->at[0];
    bool tombstone;

    backend_cursor_open(v, BUCKET_KEY, revision_encode(last, false, &space), &c);
    for (unsigned n = 0; n < MVCC_WARMUP_ENTRIES && w->text.len < MVCC_WARMUP_BYTES; n++) {
        if (backend_cursor_next(&c, &key, &value) != ERR_OK ||
            !revision_decode(key, &at, &tombstone) || revision_compare(at, w->to) > 0)
            break;
        put_entry(&w->text, key, value);
        last = at;
    }
    backend_cursor_close(&c);
    if (w->text.len > 0)
        w->to = last;
}

void mvcc_warmup_read(struct mvcc_warmup *w)
{
    struct backend_view v;

    backend_view_open_on_worker(w->backend, &v);
    if (w->is_range)
        read_range(w, &v);
    else
        read_single(w, &v);
    backend_view_close(&v);
}

static void know_entries(struct warm *w, const struct mvcc_warmup *warmup, uint64_t batch)
{
    for (size_t i = 0; i < warmup->count; i++) {
        struct known *k = find(w, warmup->at[i]);
        const struct mvcc_copy *copy = &warmup->copies[i];
        if (i < warmup->read)
            note(w, &(struct known){.at = warmup->at[i],
                                    .batch = batch,
                                    .from = copy->from,
                                    .len = copy->len,
                                    .is_copied = copy->is_copied});
        else if (k) /* for which there was no space: it may be wanted again */
            k->batch = 0;
    }
}

static void give_back(struct warm *w, struct mvcc_warmup *warmup)
{
    assert(w->taken > 0);
    w->taken--;
    list_remove(&warmup->link);
}

void mvcc_warmed(struct mvcc_warmup *warmup)
{
    struct warm *w = warmup->mvcc->warm;

    give_back(w, warmup);
    if (w->is_cold && !warmup->is_stale) {
        uint64_t batch = keep_batch(w, warmup);
        if (!warmup->is_range)
            know_entries(w, warmup, batch);
    }
    buf_free(&warmup->text);
}

void mvcc_warmup_drop(struct mvcc_warmup *warmup)
{
    give_back(warmup->mvcc->warm, warmup);
    buf_free(&warmup->text);
}
