/*
 * mvcc against a slow and obvious model: a list of everything ever written.
 *
 * Each question is answered by the model when it is asked, byte for byte, and mvcc's answer, which
 * comes in chunks while the store moves on, is compared with that at its end. Commits are run and
 * reported at random moments; a crash takes the model back to the last entry that was kept. In
 * every second world the store is cold at times, and a worker reads for the slices, at its own
 * pace.
 */
#include "mvcc/mvcc_rig_test.h"

#include "base/crc32c.h"
#include "base/mem.h"
#include "base/rng.h"
#include "pb/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 24, EVENTS_MAX = 4000, OPEN_MAX = 5, HASHES_MAX = 2, COMPACTIONS_MAX = 400 };

struct written {
    struct revision at;
    uint64_t entry;
    unsigned key;
    bool tombstone;
    char value[48];
    int64_t lease;
};

struct question {
    bool used;
    struct mvcc_scan scan;
    char key[8], end[8];
    struct buf expected, got;
    int64_t count, kvs;
    bool more;
};

struct hashing {
    struct mvcc_hash h;
    uint32_t expected;
};

struct world {
    struct mvcc_rig rig;
    struct rng rng, cold_rng;
    struct mvcc_warmup warmup; /* what a worker has in hand */
    bool gets_cold, has_warmup, is_read;
    size_t warmups;
    struct written events[EVENTS_MAX];
    size_t event_count;
    int64_t revision; /* published */
    struct {
        int64_t revision;
        uint64_t entry;
    } compactions[COMPACTIONS_MAX];
    size_t compaction_count;
    struct question open[OPEN_MAX];
    struct hashing hashing[HASHES_MAX];
    size_t recalled;                   /* hashes of compactions that were through */
    struct mvcc_delete_range deleting; /* a delete in slices is under way */
    bool in_delete;
    char delete_key[8], delete_end[8];
};

/* --- the model ---------------------------------------------------------------------------- */

/* In ascending order: a, a0, a00, ab, b ... with common beginnings. */
static void name_key(unsigned i, char out[8])
{
    static const char *const tails[] = {"", "0", "00", "b"};

    snprintf(out, 8, "%c%s", 'a' + (char)(i / 4), tails[i % 4]);
}

static int64_t compact_revision(const struct world *w)
{
    return w->compaction_count ? w->compactions[w->compaction_count - 1].revision : -1;
}

/* A key as it was: the events of its life up to `at`. */
struct living {
    const struct written *last;
    int64_t created, version;
};

static bool find_living(const struct world *w, unsigned key, struct revision at, struct living *out)
{
    *out = (struct living){0};
    for (size_t i = 0; i < w->event_count; i++) {
        const struct written *e = &w->events[i];
        if (e->key != key || revision_compare(e->at, at) > 0)
            continue;
        if (e->tombstone) {
            *out = (struct living){0};
            continue;
        }
        out->last = e;
        out->created = out->version ? out->created : e->at.main;
        out->version++;
    }
    return out->last != NULL;
}

static void encode_living(const struct living *l, bool with_value, bool with_lease, struct buf *out)
{
    char key[8];
    struct pb_key_value kv = {
        .create_revision = l->created,
        .mod_revision = l->last->at.main,
        .version = l->version,
        .lease = with_lease ? l->last->lease : 0,
    };

    name_key(l->last->key, key);
    kv.key = bytes_of_str(key);
    if (with_value)
        kv.value = bytes_of_str(l->last->value);
    pb_encode_key_value(&kv, out);
}

static bool in_range(const char *key, const char *end, const char *name)
{
    if (end[0] == '\0')
        return strcmp(key, name) == 0;
    return strcmp(name, key) >= 0 && (strcmp(end, "*") == 0 || strcmp(name, end) < 0);
}

static int compare_by(int32_t target, const struct living *a, const struct living *b)
{
    int64_t x = 0, y = 0;

    if (target == PB_SORT_BY_VALUE)
        return strcmp(a->last->value, b->last->value);
    if (target == PB_SORT_BY_VERSION)
        x = a->version, y = b->version;
    else if (target == PB_SORT_BY_CREATE)
        x = a->created, y = b->created;
    else if (target == PB_SORT_BY_MOD)
        x = a->last->at.main, y = b->last->at.main;
    else
        x = a->last->key, y = b->last->key;
    return (x > y) - (x < y);
}

/* Stable, and as slow as it is short. */
static void sort_living(struct living *all, size_t count, int32_t target, bool descending)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0; j--) {
            int order = compare_by(target, &all[j - 1], &all[j]);
            if (descending ? order >= 0 : order <= 0)
                break;
            struct living moved = all[j];
            all[j] = all[j - 1];
            all[j - 1] = moved;
        }
}

static bool is_filtered(const struct mvcc_question *q)
{
    return q->min_mod_revision || q->max_mod_revision || q->min_create_revision ||
           q->max_create_revision;
}

static bool is_let_through(const struct mvcc_question *q, const struct living *l)
{
    int64_t mod = l->last->at.main;

    if (q->min_mod_revision && mod < q->min_mod_revision)
        return false;
    if (q->max_mod_revision && mod > q->max_mod_revision)
        return false;
    if (q->min_create_revision && l->created < q->min_create_revision)
        return false;
    return !q->max_create_revision || l->created <= q->max_create_revision;
}

/* etcd's order of doing things, step by step. */
static void result(const struct world *w, struct question *a)
{
    const struct mvcc_question *q = &a->scan.question;
    struct living all[KEYS], l;
    size_t count = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        char name[8];
        name_key(i, name);
        if (!in_range(a->key, a->end, name) || !find_living(w, i, q->at, &l))
            continue;
        a->count++;
        if (is_let_through(q, &l))
            all[count++] = l;
    }
    if (q->count_only)
        return;
    size_t limit = q->limit > 0 ? (size_t)q->limit : SIZE_MAX;
    if (q->sort_order == PB_SORT_NONE && !is_filtered(q) && limit < SIZE_MAX && count > limit + 1)
        count = limit + 1;
    sort_living(all, count, q->sort_target, q->sort_order == PB_SORT_DESCEND);
    a->more = count > limit;
    a->kvs = (int64_t)(a->more ? limit : count);
    for (int64_t i = 0; i < a->kvs; i++) {
        struct buf kv = {0};
        bool with_lease = !q->keys_only || q->sort_target == PB_SORT_BY_VALUE;
        encode_living(&all[i], !q->keys_only, with_lease, &kv);
        size_t size = pb_varint_size(kv.len);
        buf_append_byte(&a->expected, q->tag);
        pb_put_varint(buf_extend(&a->expected, size) + size, kv.len);
        buf_append(&a->expected, buf_bytes(&kv));
        buf_free(&kv);
    }
}

/* etcd's rule for what a compaction keeps, when hashing: what is alive, except what was deleted and
 * put again by one transaction at its very revision. */
static bool is_kept(const struct world *w, const struct written *e, int64_t compaction)
{
    struct living l;

    for (size_t i = 0; i < w->event_count; i++)
        if (w->events[i].key == e->key && w->events[i].tombstone &&
            w->events[i].at.main == compaction)
            return false;
    return find_living(w, e->key, revision_whole(compaction), &l) && l.last == e;
}

/* HashKV by its definition, once the compaction at `compacted` is through; or as another one finds
 * it, which keeps tombstones at its own revision. */
static uint32_t model_hash(const struct world *w, int64_t compacted, int64_t revision,
                           bool of_compaction)
{
    uint32_t hash = crc32c(0, BYTES("key"));
    struct living l;
    bool any = false;

    for (size_t i = 0; i < w->event_count; i++)
        any = any || is_kept(w, &w->events[i], revision) ||
              (of_compaction && w->events[i].tombstone && w->events[i].at.main == revision);
    for (size_t i = 0; i < w->event_count; i++) {
        const struct written *e = &w->events[i];
        if (e->at.main > revision)
            continue;
        if (e->at.main <= compacted && !is_kept(w, e, any ? revision : compacted))
            continue;
        uint64_t main = __builtin_bswap64((uint64_t)e->at.main);
        uint64_t sub = __builtin_bswap64((uint64_t)e->at.sub);
        struct buf entry = {0};
        buf_append(&entry, bytes_of(&main, 8));
        buf_append_byte(&entry, '_');
        buf_append(&entry, bytes_of(&sub, 8));
        if (e->tombstone) {
            char name[8];
            name_key(e->key, name);
            buf_append_byte(&entry, 't');
            struct pb_key_value kv = {.key = bytes_of_str(name)};
            pb_encode_key_value(&kv, &entry);
        } else {
            CHECK(find_living(w, e->key, e->at, &l));
            encode_living(&l, true, true, &entry);
        }
        hash = crc32c(hash, buf_bytes(&entry));
        buf_free(&entry);
    }
    return hash;
}

/* --- writing ------------------------------------------------------------------------------ */

static size_t unpublished(const struct world *w)
{
    size_t n = 0;

    while (n < w->event_count && w->events[w->event_count - 1 - n].at.main > w->revision)
        n++;
    return n;
}

static struct written *add_event(struct world *w, unsigned key, bool tombstone)
{
    CHECK(w->event_count < EVENTS_MAX);
    struct written e = {
        .at = {w->revision + 1, (int64_t)unpublished(w)},
        .entry = w->rig.index + 1,
        .key = key,
        .tombstone = tombstone,
    };
    w->events[w->event_count] = e;
    return &w->events[w->event_count++];
}

/* Of few letters, so that values are often equal, or equal in their first eight. */
static void random_value(struct world *w, char *out, size_t size)
{
    size_t len = rng_below(&w->rng, 3) ? rng_below(&w->rng, 4) : 7 + rng_below(&w->rng, size - 8);

    for (size_t i = 0; i < len; i++)
        out[i] = (char)('x' + (i > 9 || len < 4 ? (int)rng_below(&w->rng, 2) : 0));
    out[len] = '\0';
}

static void put_something(struct world *w)
{
    char name[8];
    unsigned key = (unsigned)rng_below(&w->rng, KEYS);
    struct written *e = add_event(w, key, false);

    name_key(key, name);
    random_value(w, e->value, sizeof(e->value));
    e->lease = rng_chance(&w->rng, 1, 3) ? (int64_t)rng_between(&w->rng, 1, 5) : 0;
    mvcc_put(w->rig.m, bytes_of_str(name), bytes_of_str(e->value), e->lease);
}

static void delete_one(struct world *w)
{
    char name[8];
    struct living l;
    unsigned key = (unsigned)rng_below(&w->rng, KEYS);
    bool alive = find_living(w, key, (struct revision){INT64_MAX, 0}, &l);

    name_key(key, name);
    CHECK_EQ(mvcc_delete(w->rig.m, bytes_of_str(name)), alive);
    if (alive)
        add_event(w, key, true);
}

static struct bytes end_bytes(const char *end)
{
    return strcmp(end, "*") == 0 ? BYTES("\0") : bytes_of_str(end);
}

static void random_range(struct world *w, char key[8], char end[8])
{
    unsigned kind = (unsigned)rng_below(&w->rng, 6);

    name_key((unsigned)rng_below(&w->rng, KEYS), key);
    end[0] = '\0';
    if (kind == 0)
        return;
    if (kind < 3)
        name_key((unsigned)rng_below(&w->rng, KEYS), end);
    else
        snprintf(end, 8, "*");
    if (kind > 3)
        snprintf(key, 8, "a");
}

static int64_t model_delete_range(struct world *w, const char *key, const char *end)
{
    int64_t deleted = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        char name[8];
        struct living l;
        name_key(i, name);
        if (in_range(key, end, name) && find_living(w, i, (struct revision){INT64_MAX, 0}, &l)) {
            add_event(w, i, true);
            deleted++;
        }
    }
    return deleted;
}

static void begin_delete_range(struct world *w)
{
    random_range(w, w->delete_key, w->delete_end);
    w->deleting = (struct mvcc_delete_range){
        .range = key_range(bytes_of_str(w->delete_key), end_bytes(w->delete_end))};
    mvcc_delete_range_begin(w->rig.m, &w->deleting);
}

static void finish_delete_range(struct world *w)
{
    while (!mvcc_delete_range_some(w->rig.m, &w->deleting, 3))
        ;
    CHECK_EQ(model_delete_range(w, w->delete_key, w->delete_end), w->deleting.deleted);
}

static void check_changes(struct world *w, const struct mvcc_changes *c)
{
    size_t count = unpublished(w);
    const struct written *e = &w->events[w->event_count - count];

    CHECK_EQ(c->count, count);
    CHECK_EQ(c->revision, count ? w->revision + 1 : 0);
    CHECK(c->at || count == 0 || w->rig.range_tombstone_keys_min > 0);
    for (size_t i = 0; c->at && i < count; i++) {
        const struct mvcc_change *change = &c->at[i];
        char name[8];
        struct living l = {0};
        name_key(e[i].key, name);
        CHECK_BYTES(change->key, bytes_of_str(name));
        CHECK_EQ(change->tombstone, e[i].tombstone);
        CHECK_EQ(revision_compare(change->at, e[i].at), 0);
        if (!e[i].tombstone) {
            struct buf kv = {0};
            CHECK(find_living(w, e[i].key, e[i].at, &l));
            encode_living(&l, true, true, &kv);
            CHECK_BYTES(change->kv, buf_bytes(&kv));
            buf_free(&kv);
        }
        CHECK_EQ(change->creates, !e[i].tombstone && l.version == 1);
    }
    w->revision += count > 0;
}

static void end_write(struct world *w)
{
    struct mvcc_changes c = mvcc_rig_end(&w->rig);

    check_changes(w, &c);
}

static void open_question(struct world *w);

static void write_something(struct world *w)
{
    uint64_t changes = rng_below(&w->rng, 5);

    if (w->in_delete)
        return;
    mvcc_rig_begin(&w->rig);
    for (uint64_t i = 0; i < changes; i++) {
        unsigned kind = (unsigned)rng_below(&w->rng, 8);
        if (kind < 5)
            put_something(w);
        else if (kind < 7)
            delete_one(w);
        else {
            begin_delete_range(w);
            finish_delete_range(w);
        }
        if (rng_chance(&w->rng, 1, 6))
            open_question(w);
    }
    end_write(w);
}

/* Begins a delete, or goes on with it. */
static void delete_slowly(struct world *w)
{
    if (!w->in_delete) {
        mvcc_rig_begin(&w->rig);
        begin_delete_range(w);
        w->in_delete = true;
    } else if (mvcc_delete_range_some(w->rig.m, &w->deleting, 2)) {
        CHECK_EQ(model_delete_range(w, w->delete_key, w->delete_end), w->deleting.deleted);
        w->in_delete = false;
        end_write(w);
    }
}

/* --- reading ------------------------------------------------------------------------------ */

static int64_t random_bound(struct world *w)
{
    return rng_chance(&w->rng, 1, 5) ? (int64_t)rng_between(&w->rng, 1, (uint64_t)w->revision) : 0;
}

/* Some revision that may be read; inside a write mostly what it has done. */
static struct revision random_revision(struct world *w)
{
    int64_t low = compact_revision(w) > 1 ? compact_revision(w) : 1;
    struct revision at;

    const struct question *other = &w->open[rng_below(&w->rng, OPEN_MAX)];
    if (other->used && other->scan.is_open && rng_chance(&w->rng, 1, 4))
        return other->scan.question.at; /* which may have been compacted since, but not removed */
    if (mvcc_is_writing(w->rig.m) && !w->in_delete && rng_chance(&w->rng, 3, 4))
        return mvcc_working(w->rig.m);
    int64_t asked = rng_chance(&w->rng, 1, 2)
                        ? 0
                        : (int64_t)rng_between(&w->rng, (uint64_t)low, (uint64_t)w->revision);
    CHECK_EQ(mvcc_resolve(w->rig.m, asked, &at), MVCC_OK);
    return at;
}

static void open_question(struct world *w)
{
    struct question *a = w->open;

    while (a < w->open + OPEN_MAX && a->used)
        a++;
    if (a == w->open + OPEN_MAX)
        return;
    *a = (struct question){.used = true};
    random_range(w, a->key, a->end);
    struct mvcc_question *q = &a->scan.question;
    q->key = bytes_of_str(a->key);
    q->end = end_bytes(a->end);
    q->at = random_revision(w);
    q->limit = rng_chance(&w->rng, 1, 2) ? (int64_t)rng_below(&w->rng, KEYS) - 1 : 0;
    q->sort_order = (int32_t)rng_below(&w->rng, 3);
    q->sort_target = (int32_t)rng_below(&w->rng, 5);
    q->keys_only = rng_chance(&w->rng, 1, 4);
    q->count_only = rng_chance(&w->rng, 1, 8);
    q->min_mod_revision = random_bound(w);
    q->max_mod_revision = random_bound(w);
    q->min_create_revision = random_bound(w);
    q->max_create_revision = random_bound(w);
    q->tag = 0x12;
    result(w, a);
    mvcc_scan_open(w->rig.m, &a->scan);
}

static void close_question(struct question *a)
{
    mvcc_scan_close(&a->scan);
    buf_free(&a->expected);
    buf_free(&a->got);
    a->used = false;
}

static void check_result(struct question *a)
{
    CHECK_BYTES(buf_bytes(&a->got), buf_bytes(&a->expected));
    close_question(a);
}

static void go_on_with(struct world *w, struct question *a)
{
    unsigned steps = (unsigned)rng_between(&w->rng, 1, 9);
    size_t before = a->got.len;

    if (rng_chance(&w->rng, 1, 30)) {
        close_question(a);
        return;
    }
    if (!mvcc_scan_measure(&a->scan, steps))
        return;
    CHECK_EQ(a->scan.count, a->count);
    CHECK_EQ(a->scan.kvs, a->kvs);
    CHECK_EQ(a->scan.more, a->more);
    CHECK_EQ(a->scan.bytes, a->expected.len);
    size_t max = rng_below(&w->rng, 120);
    bool done = mvcc_scan_read(&a->scan, max, steps, &a->got);
    CHECK(a->got.len - before <= max || a->got.len - before <= 100); /* one may be larger */
    if (done)
        check_result(a);
}

static void go_on_reading(struct world *w)
{
    for (size_t i = 0; i < OPEN_MAX; i++)
        if (w->open[i].used && rng_chance(&w->rng, 1, 2))
            go_on_with(w, &w->open[i]);
}

static void close_all(struct world *w)
{
    for (size_t i = 0; i < OPEN_MAX; i++)
        if (w->open[i].used)
            close_question(&w->open[i]);
    for (size_t i = 0; i < HASHES_MAX; i++)
        mvcc_hash_close(w->rig.m, &w->hashing[i].h);
}

/* The compact revision that the newest compaction at or below `revision` found; and was there one
 * at that very revision? */
static bool find_compaction(const struct world *w, int64_t revision, int64_t *before)
{
    size_t n = w->compaction_count;

    while (n > 0 && w->compactions[n - 1].revision > revision)
        n--;
    *before = n > 1 ? w->compactions[n - 2].revision : -1;
    return n > 0 && w->compactions[n - 1].revision == revision;
}

/* What a compaction has found is remembered, unless it came too early: which the model leaves open.
 */
static void hash_at_compaction(struct world *w)
{
    size_t nth = (size_t)rng_below(&w->rng, w->compaction_count);
    struct mvcc_hash h = {.revision = w->compactions[nth].revision};
    int64_t before;

    CHECK(find_compaction(w, h.revision, &before));
    enum mvcc_result result = mvcc_hash_open(w->rig.m, &h);
    CHECK(result == MVCC_OK || result == MVCC_COMPACTED);
    if (result == MVCC_OK && h.compact_revision < h.revision) {
        CHECK(mvcc_hash_some(w->rig.m, &h, 1));
        CHECK_EQ(h.compact_revision, before);
        CHECK_EQ(h.hash, model_hash(w, before, h.revision, true));
        w->recalled++;
    }
    mvcc_hash_close(w->rig.m, &h);
}

static void hash_something(struct world *w)
{
    struct hashing *h = &w->hashing[rng_below(&w->rng, HASHES_MAX)];

    if (!h->h.open) {
        int64_t compacted = compact_revision(w), low = compacted > 1 ? compacted : 1;
        int64_t revision = (int64_t)rng_between(&w->rng, (uint64_t)low, (uint64_t)w->revision);
        h->h = (struct mvcc_hash){.revision = revision};
        CHECK_EQ(mvcc_hash_open(w->rig.m, &h->h), MVCC_OK);
        h->expected =
            model_hash(w, h->h.compact_revision, revision, h->h.compact_revision != compacted);
    } else if (mvcc_hash_some(w->rig.m, &h->h, (unsigned)rng_between(&w->rng, 1, 200))) {
        CHECK_EQ(h->h.hash, h->expected);
        mvcc_hash_close(w->rig.m, &h->h);
    }
}

struct history_walk {
    const struct world *w;
    size_t next, visits;
};

static bool visit(void *context, const struct mvcc_change *change)
{
    struct history_walk *h = context;
    const struct written *e = &h->w->events[h->next];
    struct living l = {0};

    if (++h->visits % 7 == 0)
        return false; /* not this one, not now */
    CHECK(h->next < h->w->event_count);
    CHECK_EQ(revision_compare(change->at, e->at), 0);
    CHECK_EQ(change->tombstone, e->tombstone);
    find_living(h->w, e->key, e->at, &l);
    CHECK_EQ(change->creates, !e->tombstone && l.version == 1);
    h->next++;
    return true;
}

static void walk_history(struct world *w)
{
    int64_t low = compact_revision(w) > 1 ? compact_revision(w) + 1 : 2;
    struct revision next = {(int64_t)rng_between(&w->rng, (uint64_t)low, (uint64_t)w->revision + 1),
                            0};
    struct history_walk h = {.w = w};

    while (h.next < w->event_count && revision_compare(w->events[h.next].at, next) < 0)
        h.next++;
    for (struct revision before = next;
         !mvcc_history_some(w->rig.m, &next, &(unsigned){5}, visit, &h); before = next)
        if (!mvcc_rig_warm(&w->rig) && revision_compare(before, next) == 0)
            mvcc_set_cold(w->rig.m, false); /* it would wait for a commit, or for the worker */
    int64_t end = mvcc_history_end(w->rig.m, next.main);
    int64_t settled = mvcc_unsettled_revision(w->rig.m);
    CHECK_EQ(end, next.main <= settled && settled <= w->revision ? settled - 1 : w->revision);
    CHECK(h.next == w->event_count || w->events[h.next].at.main > end);
    CHECK(h.next == 0 || w->events[h.next - 1].at.main <= end);
}

static void look_before(struct world *w)
{
    char name[8];
    struct living l;
    struct buf got = {0}, expected = {0};
    unsigned key = (unsigned)rng_below(&w->rng, KEYS);
    int64_t main = (int64_t)rng_between(&w->rng, 1, (uint64_t)w->revision + 1);

    name_key(key, name);
    if (main - 1 >= compact_revision(w) && find_living(w, key, revision_whole(main - 1), &l))
        encode_living(&l, true, true, &expected);
    bool found = mvcc_read_before(w->rig.m, bytes_of_str(name), main, &got);
    CHECK_EQ(found, expected.len > 0);
    CHECK_BYTES(buf_bytes(&got), buf_bytes(&expected));
    CHECK_EQ(mvcc_length_before(w->rig.m, bytes_of_str(name), main), expected.len);
    buf_free(&got);
    buf_free(&expected);
}

/* --- compacting, committing, crashing ----------------------------------------------------- */

static void compact_something(struct world *w)
{
    int64_t revision = (int64_t)rng_between(&w->rng, 1, (uint64_t)w->revision + 1);
    enum mvcc_result expected = revision <= compact_revision(w) ? MVCC_COMPACTED
                                : revision > w->revision        ? MVCC_FUTURE
                                                                : MVCC_OK;

    if (w->in_delete || w->compaction_count == COMPACTIONS_MAX)
        return;
    CHECK_EQ(mvcc_rig_compact(&w->rig, revision), expected);
    if (expected != MVCC_OK)
        return;
    w->compactions[w->compaction_count].revision = revision;
    w->compactions[w->compaction_count++].entry = w->rig.index;
}

static void run_backend(struct world *w)
{
    struct backend_rig *s = &w->rig.backend_rig;

    if (backend_can_commit(s->b))
        backend_commit_start(s->b);
    else if (!backend_rig_run(s))
        backend_rig_report(s);
}

static void check_leases(struct world *w)
{
    struct buf expected = {0};

    for (size_t i = 0; i < w->event_count; i++) {
        const struct written *e = &w->events[i];
        char name[8];
        struct living l;
        if (e->tombstone || e->lease == 0 ||
            !find_living(w, e->key, (struct revision){INT64_MAX, 0}, &l) || l.last != e)
            continue;
        name_key(e->key, name);
        buf_printf(&expected, "%s=%" PRId64 " ", name, e->lease);
    }
    CHECK_BYTES(buf_bytes(&w->rig.leased), buf_bytes(&expected));
    buf_free(&expected);
}

static void forget_after(struct world *w, uint64_t entry)
{
    while (w->event_count > 0 && w->events[w->event_count - 1].entry > entry)
        w->event_count--;
    while (w->compaction_count > 0 && w->compactions[w->compaction_count - 1].entry > entry)
        w->compaction_count--;
    w->revision = w->event_count ? w->events[w->event_count - 1].at.main : 1;
}

/* --- a cold store ------------------------------------------------------------------------- */

static void drop_warmup(struct world *w)
{
    if (w->has_warmup)
        mvcc_warmup_drop(&w->warmup);
    w->has_warmup = false;
}

/* Between any two steps: a worker takes something, reads it, and is heard of. */
static void work_on_cold(struct world *w)
{
    unsigned die = (unsigned)rng_below(&w->cold_rng, 100);

    if (!w->gets_cold)
        return;
    if (die < 2) {
        mvcc_set_cold(w->rig.m, !mvcc_is_cold(w->rig.m));
    } else if (die < 60 && !w->has_warmup) {
        w->has_warmup = mvcc_take_warmup(w->rig.m, die < 10, &w->warmup);
        w->is_read = false;
    } else if (die < 80 && w->has_warmup && !w->is_read) {
        mvcc_warmup_read(&w->warmup);
        w->is_read = true;
    } else if (w->has_warmup && w->is_read) {
        mvcc_warmed(&w->warmup);
        w->has_warmup = false;
        w->warmups++;
    }
}

static void crash(struct world *w)
{
    drop_warmup(w);
    close_all(w);
    mvcc_delete_range_end(&w->deleting);
    w->in_delete = false;
    mvcc_rig_crash(&w->rig);
    forget_after(w, w->rig.index);
    check_leases(w);
}

static void reopen(struct world *w)
{
    if (w->in_delete)
        return;
    drop_warmup(w);
    close_all(w);
    mvcc_rig_reopen(&w->rig);
    check_leases(w);
}

/* --- episodes ----------------------------------------------------------------------------- */

static void step(struct world *w)
{
    unsigned die = (unsigned)rng_below(&w->rng, 200);

    if (die < 60)
        write_something(w);
    else if (die < 80)
        delete_slowly(w);
    else if (die < 100)
        open_question(w);
    else if (die < 130)
        go_on_reading(w);
    else if (die < 140)
        hash_something(w);
    else if (die < 142 && w->compaction_count > 0)
        hash_at_compaction(w);
    else if (die < 145)
        walk_history(w);
    else if (die < 150)
        look_before(w);
    else if (die < 155)
        compact_something(w);
    else if (die < 162)
        mvcc_settle_some(w->rig.m, (unsigned)rng_between(&w->rng, 1, 4));
    else if (die < 170)
        mvcc_compact_some(w->rig.m, (unsigned)rng_between(&w->rng, 1, 10));
    else if (die < 197)
        run_backend(w);
    else if (die < 198)
        crash(w);
    else if (die < 199)
        reopen(w);
    else
        mvcc_check_store(w->rig.m);
    mvcc_check(w->rig.m);
    CHECK_EQ(mvcc_revision(w->rig.m), w->revision);
    CHECK_EQ(mvcc_compact_revision(w->rig.m), compact_revision(w));
    CHECK_EQ(w->rig.damage.len, 0);
}

struct told {
    size_t recalled; /* hashes of compactions */
    size_t warmups;
};

static void episode(enum backend_rig_kind kind, uint64_t seed, unsigned steps, struct told *told)
{
    struct world *w = mem_new(struct world);

    w->revision = 1;
    rng_seed(&w->rng, seed);
    mvcc_rig_init_settling(&w->rig, kind, (int64_t)(seed % 8)); /* 0: too many for this test */
    rng_seed(&w->cold_rng, seed + 1);
    w->gets_cold = seed % 2 == 1;
    for (unsigned i = 0; i < steps; i++) {
        step(w);
        work_on_cold(w);
    }
    while (!mvcc_settle_some(w->rig.m, 1))
        ;
    mvcc_check_store(w->rig.m);
    drop_warmup(w);
    close_all(w);
    mvcc_delete_range_end(&w->deleting);
    mvcc_rig_free(&w->rig);
    told->recalled += w->recalled;
    told->warmups += w->warmups;
    mem_free(w);
}

TEST(mvcc_agrees_with_a_list_of_everything)
{
    struct told told = {0};

    for (uint64_t i = 0; i < 300 * test_effort(); i++)
        episode(BACKEND_RIG_MEMORY, test_seed() * 1000003 + i, 600, &told);
    CHECK(told.recalled > 0);
    CHECK(told.warmups > 1000);
}

TEST(mvcc_on_pages_agrees_with_a_list_of_everything)
{
    struct told told = {0};

    for (uint64_t i = 0; i < 4 * test_effort(); i++)
        episode(BACKEND_RIG_LMDB, test_seed() * 7000003 + i, 300, &told);
}
