/* Random episodes in which the index and a slow, obvious model are told and asked the same. */
#include "mvcc/keyindex.h"

#include "base/mem.h"
#include "harness/test.h"
#include "mvcc/keyindex_model_test.h"

#include <stdlib.h>

enum { CURSORS = 4 };

struct open_cursor {
    bool is_open;
    struct keyindex_cursor cursor;
};

/* What a compaction must drop, in order of revision. */
struct expected_drop {
    struct revision at;
    bool tombstone, seen;
};

/* Was there anything to see? */
struct seen {
    uint64_t steps, reloads, compactions, slices, older, removed;
    uint64_t range_tombstones, covered, settled, paid, reloaded_range_tombstones;
};

/* A range tombstone that is on: the model has noted all its tombstones already. */
struct covering {
    bool on;
    struct key_range range;
    struct revision first, last;
    bool *is_open; /* for each key of the model */
};

struct episode {
    struct rng rng;
    struct keymodel model;
    struct keyindex *ix;
    int64_t main, published, compacted;
    int64_t sub; /* the next one */
    bool writing;
    size_t hot; /* keys that get most of the changes; 0: none in particular */
    struct open_cursor cursors[CURSORS];
    struct keyindex_compaction compaction;
    bool compacting;
    struct expected_drop *drops;
    size_t drop_count, drops_seen;
    size_t odds_of_compaction, odds_of_range_tombstone; /* one in so many steps begins one */
    bool decline; /* most changes are tombstones, so that the tree empties */
    struct covering covering;
    struct seen *seen;
};

static uint64_t below(struct episode *e, uint64_t bound)
{
    return rng_below(&e->rng, bound);
}

static struct keymodel_key *any_key(struct episode *e)
{
    bool hot = e->hot > 0 && below(e, 4) > 0;

    return &e->model.keys[below(e, hot ? e->hot : e->model.count)];
}

/* --- changing ----------------------------------------------------------------------------- */

static void compare_found(const struct keymodel_key *k, const struct keymodel_change *want,
                          bool found, const struct keyindex_found *got)
{
    CHECK_EQ(found, want != NULL);
    if (!want)
        return;
    CHECK_BYTES(got->key, keymodel_key_bytes(k));
    CHECK_EQ(got->mod.main, want->at.main);
    CHECK_EQ(got->mod.sub, want->at.sub);
    CHECK_EQ(got->created, want->created);
    CHECK_EQ(got->version, want->version);
    CHECK_EQ(got->length, want->length);
}

static uint32_t tombstone_length(struct bytes key)
{
    return (uint32_t)key.len + 3;
}

/* As a store does before a put: the life that has ended is noted as such. */
static void pay(struct episode *e, struct keymodel_key *k)
{
    struct bytes key = keymodel_key_bytes(k);
    size_t n = (size_t)(k - e->model.keys);
    struct revision at;

    CHECK_EQ(keyindex_key_is_unsettled(e->ix, key, &at), e->covering.on && e->covering.is_open[n]);
    if (!e->covering.on || !e->covering.is_open[n])
        return;
    const struct keymodel_change *last = &k->changes[k->count - 1];
    CHECK(last->tombstone);
    CHECK_EQ(revision_compare(last->at, at), 0);
    keyindex_settle_key(e->ix, key, at, tombstone_length(key));
    e->covering.is_open[n] = false;
    e->seen->paid++;
}

/* The next revision to write at. */
static struct revision begin_change(struct episode *e)
{
    if (!e->writing) {
        e->main += 1 + (int64_t)below(e, 2);
        e->sub = 0;
    }
    return (struct revision){e->main, e->sub};
}

static void change(struct episode *e)
{
    struct keymodel_key *k = any_key(e);
    uint32_t length = (uint32_t)below(e, 1000);
    struct revision at = begin_change(e);

    if (below(e, 2)) { /* as a store does, or without a look */
        struct keyindex_found found;
        bool alive = keyindex_find_newest(e->ix, keymodel_key_bytes(k), &found);
        compare_found(k, keymodel_find(k, revision_whole(INT64_MAX)), alive, &found);
    }
    if (below(e, 12) < (e->decline ? 1 : 9)) {
        pay(e, k);
        keymodel_put(k, at, length);
        keyindex_put(e->ix, keymodel_key_bytes(k), at, length);
    } else {
        bool alive = keymodel_tombstone(k, at, length);
        CHECK_EQ(keyindex_tombstone(e->ix, keymodel_key_bytes(k), at, length), alive);
        if (!alive) {
            e->main = e->writing ? e->main : e->published;
            return;
        }
    }
    e->writing = true;
    e->sub += 1 + (int64_t)below(e, 2);
}

static void publish(struct episode *e)
{
    keyindex_publish(e->ix);
    e->published = e->main;
    e->writing = false;
}

/* --- looking ------------------------------------------------------------------------------ */

static bool is_amid_range_tombstone(const struct episode *e, struct revision at)
{
    return e->covering.on && revision_compare(at, e->covering.first) >= 0 &&
           revision_compare(at, e->covering.last) < 0;
}

static struct revision any_revision(struct episode *e)
{
    int64_t main = e->compacted + (int64_t)below(e, (uint64_t)(e->main - e->compacted) + 2);

    struct revision at = {main, (int64_t)below(e, 4)};
    /* At the compaction only the whole is readable; and nobody looks into the middle of a range
     * tombstone. */
    if (main <= e->compacted || below(e, 2) || is_amid_range_tombstone(e, at))
        return revision_whole(main);
    return at;
}

static void look(struct episode *e)
{
    const struct keymodel_key *k = any_key(e);
    struct revision at = any_revision(e);
    struct keyindex_found got;
    const struct keymodel_change *want = keymodel_find(k, at);

    bool found = keyindex_find(e->ix, keymodel_key_bytes(k), at, &got);

    compare_found(k, want, found, &got);
    e->seen->older += found && want != &k->changes[k->count - 1];
}

static struct key_range any_range(struct episode *e)
{
    struct bytes from = keymodel_key_bytes(any_key(e));
    struct bytes to = keymodel_key_bytes(any_key(e));

    switch (below(e, 4)) {
    case 0:
        return key_range(from, (struct bytes){0});
    case 1:
        return key_range(from, bytes_of("", 1));
    case 2:
        return key_range(BYTES(""), to);
    default:
        return key_range(from, to);
    }
}

static void count(struct episode *e)
{
    struct key_range r = any_range(e);

    CHECK_EQ(keyindex_count(e->ix, &r, true),
             keymodel_count(&e->model, &r, revision_whole(e->published)));
    CHECK_EQ(keyindex_count(e->ix, &r, false),
             keymodel_count(&e->model, &r, revision_whole(e->main)));
}

static void ask_keeps(struct episode *e)
{
    const struct keymodel_key *k = any_key(e);
    int64_t main = any_revision(e).main;

    if (e->covering.on && main >= e->covering.first.main)
        return; /* nobody asks before it is settled */
    for (size_t i = 0; i < k->count; i++)
        CHECK_EQ(keyindex_keeps(e->ix, keymodel_key_bytes(k), k->changes[i].at, main),
                 keymodel_keeps(k, k->changes[i].at, main));
    CHECK(!keyindex_keeps(e->ix, keymodel_key_bytes(k), (struct revision){0, 77}, main));
}

/* --- walking ------------------------------------------------------------------------------ */

/* Is this key in front of the cursor, that had looked at `last` before? */
static bool is_ahead(const struct keyindex_cursor *c, bool started, struct bytes last,
                     struct bytes key)
{
    int order = bytes_compare(key, last);

    return !started || (c->backwards ? order < 0 : order > 0);
}

/* The first key in front of the cursor that it should show. */
static const struct keymodel_key *expect_next(struct episode *e, const struct keyindex_cursor *c,
                                              bool started, struct bytes last)
{
    for (size_t n = 0; n < e->model.count; n++) {
        const struct keymodel_key *k = &e->model.keys[c->backwards ? e->model.count - 1 - n : n];
        struct bytes key = keymodel_key_bytes(k);
        if (is_ahead(c, started, last, key) && key_range_has(&c->range, key) &&
            keymodel_find(k, c->at))
            return k;
    }
    return NULL;
}

static void walk(struct episode *e, struct open_cursor *o)
{
    struct keyindex_cursor *c = &o->cursor;
    unsigned budget = (unsigned)below(e, 20);
    unsigned steps = budget;
    bool started = c->started;
    struct buf last = {0};
    struct keyindex_found got;

    buf_append(&last, buf_bytes(&c->last));
    const struct keymodel_key *want = expect_next(e, c, started, buf_bytes(&last));

    bool found = keyindex_cursor_next(c, &steps, &got);

    CHECK(steps <= budget);
    if (found) {
        CHECK(want);
        CHECK(steps < budget);
        compare_found(want, keymodel_find(want, c->at), found, &got);
    } else if (steps > 0) {
        CHECK(!want);
        keyindex_cursor_close(c);
        o->is_open = false;
    } else if (want && c->started) { /* it has gone over dead ones only */
        CHECK(is_ahead(c, true, buf_bytes(&c->last), keymodel_key_bytes(want)));
    }
    e->seen->steps += budget - steps;
    buf_free(&last);
}

static void use_cursor(struct episode *e)
{
    struct open_cursor *o = &e->cursors[below(e, CURSORS)];

    if (!o->is_open) {
        struct key_range r = any_range(e);
        struct revision at = any_revision(e);
        bool backwards = below(e, 2);
        keyindex_cursor_open(e->ix, &r, at, backwards, &o->cursor);
        o->is_open = true;
    }
    walk(e, o);
}

/* Those that look at a revision before this one. */
static void close_cursors(struct episode *e, struct revision before)
{
    for (unsigned i = 0; i < CURSORS; i++)
        if (e->cursors[i].is_open && revision_compare(e->cursors[i].cursor.at, before) < 0) {
            keyindex_cursor_close(&e->cursors[i].cursor);
            e->cursors[i].is_open = false;
        }
}

/* --- range tombstone
 * ------------------------------------------------------------------------------ */

static void begin_range_tombstone(struct episode *e)
{
    struct key_range range = any_range(e);
    struct revision at = begin_change(e);
    int64_t covered = 0;

    if (range.one) {
        e->main = e->writing ? e->main : e->published;
        return;
    }
    if (!e->covering.is_open)
        e->covering.is_open = mem_new_array(e->model.count, bool);
    for (size_t i = 0; i < e->model.count; i++) {
        struct keymodel_key *k = &e->model.keys[i];
        struct bytes key = keymodel_key_bytes(k);
        struct revision next = {at.main, at.sub + covered};
        e->covering.is_open[i] =
            key_range_has(&range, key) && keymodel_tombstone(k, next, tombstone_length(key));
        covered += e->covering.is_open[i];
    }
    CHECK_EQ(keyindex_range_tombstone(e->ix, &range, at), covered);
    CHECK_EQ(keyindex_is_unsettled(e->ix), covered > 0);
    if (covered == 0) {
        e->main = e->writing ? e->main : e->published;
        return;
    }
    e->covering.on = true;
    e->covering.range = range;
    e->covering.first = at;
    e->covering.last = (struct revision){at.main, at.sub + covered - 1};
    e->writing = true;
    e->sub += covered;
    e->seen->range_tombstones++;
    e->seen->covered += (uint64_t)covered;
    for (unsigned i = 0; i < CURSORS; i++)
        if (e->cursors[i].is_open && is_amid_range_tombstone(e, e->cursors[i].cursor.at)) {
            keyindex_cursor_close(&e->cursors[i].cursor);
            e->cursors[i].is_open = false;
        }
}

static uint32_t on_store_tombstone(void *context, struct bytes key, struct revision at)
{
    struct episode *e = context;
    size_t n = 0;

    while (n < e->model.count && !bytes_equal(keymodel_key_bytes(&e->model.keys[n]), key))
        n++;
    CHECK(n < e->model.count);
    CHECK(e->covering.is_open[n]);
    const struct keymodel_key *k = &e->model.keys[n];
    CHECK_EQ(revision_compare(k->changes[k->count - 1].at, at), 0);
    e->covering.is_open[n] = false;
    e->seen->settled++;
    return tombstone_length(key);
}

static void settle(struct episode *e, unsigned steps)
{
    uint64_t settled = e->seen->settled;

    if (!keyindex_settle_some(e->ix, steps, on_store_tombstone, e))
        CHECK(e->covering.on);
    else
        e->covering.on = false;
    CHECK(e->seen->settled - settled <= steps);
    CHECK_EQ(keyindex_is_unsettled(e->ix), e->covering.on);
    for (size_t i = 0; !e->covering.on && e->covering.is_open && i < e->model.count; i++)
        CHECK(!e->covering.is_open[i]);
}

static void cover_or_settle(struct episode *e)
{
    if (e->covering.on)
        settle(e, 1 + (unsigned)below(e, below(e, 8) ? 3 : 1000));
    else if (below(e, e->odds_of_range_tombstone) == 0)
        begin_range_tombstone(e);
}

/* --- compacting --------------------------------------------------------------------------- */

static int compare_drops(const void *a, const void *b)
{
    return revision_compare(((const struct expected_drop *)a)->at,
                            ((const struct expected_drop *)b)->at);
}

static void on_drop(void *context, struct revision at, bool tombstone)
{
    struct episode *e = context;
    struct expected_drop wanted = {.at = at};
    struct expected_drop *d =
        bsearch(&wanted, e->drops, e->drop_count, sizeof(wanted), compare_drops);

    CHECK(d);
    CHECK(!d->seen);
    CHECK_EQ(d->tombstone, tombstone);
    d->seen = true;
    e->drops_seen++;
}

/* Whatever is written until its end comes later than `main` and is not dropped, so the model can
 * compact at once. */
static void begin_compaction(struct episode *e)
{
    size_t cap = 0;

    e->compacted += 1 + (int64_t)below(e, (uint64_t)(e->published - e->compacted));
    e->compacting = true;
    e->seen->compactions++;
    e->drop_count = 0;
    e->drops_seen = 0;
    for (size_t i = 0; i < e->model.count; i++) {
        struct keymodel_key *k = &e->model.keys[i];
        size_t dropped = keymodel_dropped_by(k, e->compacted);
        if (e->drop_count + dropped > cap) {
            cap = (e->drop_count + dropped) * 2;
            e->drops = mem_resize(e->drops, cap, sizeof(struct expected_drop));
        }
        for (size_t j = 0; j < dropped; j++)
            e->drops[e->drop_count++] = (struct expected_drop){
                .at = k->changes[j].at, .tombstone = k->changes[j].tombstone};
        keymodel_drop(k, dropped);
    }
    if (e->drop_count > 0)
        qsort(e->drops, e->drop_count, sizeof(struct expected_drop), compare_drops);
    close_cursors(e, revision_whole(e->compacted));
}

static void compare_everything(struct episode *e)
{
    struct buf got = {0};
    struct buf want = {0};

    CHECK_EQ(keyindex_size(e->ix), keymodel_size(&e->model));
    for (size_t i = 0; i < e->model.count; i++) {
        buf_clear(&got);
        buf_clear(&want);
        keyindex_describe(e->ix, keymodel_key_bytes(&e->model.keys[i]), &got);
        keymodel_describe(&e->model.keys[i], &want);
        CHECK_STR(buf_str(&got), buf_str(&want));
    }
    buf_free(&got);
    buf_free(&want);
}

static void compact(struct episode *e)
{
    if (e->covering.on)
        return;
    if (!e->compacting) {
        if (e->published > e->compacted && below(e, e->odds_of_compaction) == 0)
            begin_compaction(e);
        return;
    }
    unsigned steps = 1 + (unsigned)below(e, below(e, 4) ? 20 : 1000);
    size_t seen = e->drops_seen;
    size_t size = keyindex_size(e->ix);
    bool done = keyindex_compact_some(e->ix, &e->compaction, e->compacted, steps, on_drop, e);
    CHECK(e->drops_seen - seen <= steps);
    e->seen->slices++;
    e->seen->removed += size - keyindex_size(e->ix);
    if (!done)
        return;
    CHECK_EQ(e->drops_seen, e->drop_count);
    keyindex_compaction_end(&e->compaction);
    e->compacting = false;
    compare_everything(e);
}

/* --- loading ------------------------------------------------------------------------------ */

struct stored {
    const struct keymodel_key *key;
    const struct keymodel_change *change;
};

static int compare_stored(const void *a, const void *b)
{
    return revision_compare(((const struct stored *)a)->change->at,
                            ((const struct stored *)b)->change->at);
}

static void load(struct episode *e, const struct stored *s)
{
    const struct keymodel_change *c = s->change;
    struct bytes key = keymodel_key_bytes(s->key);

    if (c->tombstone)
        CHECK(keyindex_load_tombstone(e->ix, key, c->at, c->length));
    else
        CHECK(keyindex_load_put(e->ix, key, c->at, c->created, c->version, c->length));
    CHECK(!keyindex_load_tombstone(e->ix, key, c->at, 1)); /* not in order */
}

static void reload(struct episode *e)
{
    size_t total = 0;

    if (e->writing || e->compacting)
        return;
    close_cursors(e, revision_whole(INT64_MAX));
    keyindex_free(e->ix);
    e->ix = keyindex_new();
    for (size_t i = 0; i < e->model.count; i++)
        total += e->model.keys[i].count;
    struct stored *all = mem_new_array(total, struct stored);
    total = 0;
    for (size_t i = 0; i < e->model.count; i++)
        for (size_t j = 0; j < e->model.keys[i].count; j++)
            all[total++] = (struct stored){&e->model.keys[i], &e->model.keys[i].changes[j]};
    qsort(all, total, sizeof(struct stored), compare_stored);
    bool covered = !e->covering.on;
    for (size_t i = 0; i < total; i++) {
        struct revision at = all[i].change->at;
        if (!covered && revision_compare(at, e->covering.first) >= 0) {
            CHECK(keyindex_load_range_tombstone(e->ix, &e->covering.range, e->covering.first));
            covered = true;
        }
        bool is_unsettled = e->covering.on && e->covering.is_open[all[i].key - e->model.keys];
        if (!is_unsettled || revision_compare(at, e->covering.first) < 0)
            load(e, &all[i]);
    }
    mem_free(all);
    if (e->covering.on)
        e->seen->reloaded_range_tombstones++;
    else
        compare_everything(e);
    e->seen->reloads++;
}

/* --- episodes ----------------------------------------------------------------------------- */

static void step(struct episode *e)
{
    switch (below(e, 17)) {
    case 16:
        cover_or_settle(e);
        break;
    case 0:
        publish(e);
        break;
    case 1:
        look(e);
        break;
    case 2:
        count(e);
        break;
    case 3:
    case 4:
    case 5:
        use_cursor(e);
        break;
    case 6:
        ask_keeps(e);
        break;
    case 7:
    case 8:
        compact(e);
        break;
    case 9:
        if (below(e, e->covering.on ? 20 : 100) == 0)
            reload(e);
        break;
    default:
        change(e);
    }
}

static void run(struct episode *e, uint64_t seed, size_t keys, uint64_t steps, uint64_t check_each)
{
    rng_seed(&e->rng, seed);
    keymodel_init(&e->model, &e->rng, keys);
    e->ix = keyindex_new();
    e->main = e->published = 1;
    for (uint64_t i = 0; i < steps; i++) {
        step(e);
        if (below(e, steps / 8) == 0)
            e->decline = !e->decline;
        if (i % check_each == 0)
            keyindex_check(e->ix);
    }
    publish(e);
    while (e->covering.on)
        settle(e, 100);
    while (e->compacting)
        compact(e);
    compare_everything(e);
    keyindex_check(e->ix);
    close_cursors(e, revision_whole(INT64_MAX));
    keyindex_free(e->ix);
    keymodel_free(&e->model);
    mem_free(e->drops);
    mem_free(e->covering.is_open);
}

static void check_seen(const struct seen *s)
{
    CHECK(s->steps > 0 && s->older > 0 && s->reloads > 0 && s->removed > 0);
    CHECK(s->compactions > 0 && s->slices > s->compactions);
    CHECK(s->range_tombstones > 0);
}

static void check_seen_range_tombstones(const struct seen *s)
{
    CHECK(s->covered > s->range_tombstones && s->settled > 0 && s->paid > 0 &&
          s->reloaded_range_tombstones > 0);
}

TEST(a_few_keys_in_random_episodes_are_as_the_model_says)
{
    test_runs_in_one_thread();
    struct seen seen = {0};

    for (uint64_t i = 0; i < 60 * test_effort(); i++) {
        struct episode e = {.odds_of_compaction = 20, .odds_of_range_tombstone = 10, .seen = &seen};
        run(&e, test_seed() * 1000 + i, 2 + i % 100, 4000, 1);
    }
    check_seen(&seen);
    check_seen_range_tombstones(&seen);
}

/* Enough keys for three levels of nodes, which fill and empty again. */
TEST(many_keys_in_random_episodes_are_as_the_model_says)
{
    test_runs_in_one_thread();
    struct seen seen = {0};

    for (uint64_t i = 0; i < test_effort(); i++) {
        struct episode e = {
            .odds_of_compaction = 100, .odds_of_range_tombstone = 10, .seen = &seen};
        run(&e, test_seed() * 1000 + i, 6000, 100000, 1000);
    }
    check_seen(&seen);
    check_seen_range_tombstones(&seen);
}

/* Long histories: blocks come and go while old revisions are looked for. */
TEST(a_few_hot_keys_in_random_episodes_are_as_the_model_says)
{
    struct seen seen = {0};

    for (uint64_t i = 0; i < 3 * test_effort(); i++) {
        struct episode e = {
            .odds_of_compaction = 200, .odds_of_range_tombstone = 300, .hot = 2, .seen = &seen};
        run(&e, test_seed() * 1000 + i, 10, 20000, 500);
    }
    check_seen(&seen);
}
