#include "mvcc/keyindex.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"

#include <stdio.h>
#include <stdlib.h>

static struct bytes numbered(char cap[64], unsigned long long number)
{
    snprintf(cap, 64, "/registry/pods/%012llu", number);
    return bytes_of_str(cap);
}

static struct bytes of_64_bytes(char cap[65], unsigned long long number)
{
    snprintf(cap, 65, "/registry/%054llu", number);
    return bytes_of(cap, 64);
}

static void count_drop(void *context, struct revision at, bool tombstone)
{
    (void)at;
    (void)tombstone;
    ++*(uint64_t *)context;
}

/* In slices of so many steps; how many revisions went. */
static uint64_t compact_all(struct keyindex *ix, int64_t main, unsigned steps)
{
    struct keyindex_compaction c = {0};
    uint64_t dropped = 0;

    while (!keyindex_compact_some(ix, &c, main, steps, count_drop, &dropped))
        ;
    keyindex_compaction_end(&c);
    return dropped;
}

/* --- scenarios ---------------------------------------------------------------------------- */

/*
 * In "do", each line is one step. A put or delete outside begin and publish is a transaction of its
 * own.
 */
struct stage {
    struct keyindex *ix;
    int64_t main, sub;
    bool inside;
};

static struct revision next_revision(struct stage *s)
{
    if (!s->inside)
        return (struct revision){++s->main, 0};
    return (struct revision){s->main, s->sub++};
}

static void show_found(const struct keyindex_found *f, struct buf *out)
{
    buf_append(out, f->key);
    buf_printf(out, " create=%lld mod=%lld.%lld version=%lld length=%u\n", (long long)f->created,
               (long long)f->mod.main, (long long)f->mod.sub, (long long)f->version, f->length);
}

static void say_drop(void *context, struct revision at, bool tombstone)
{
    buf_printf(context, "drop %lld.%lld%s\n", (long long)at.main, (long long)at.sub,
               tombstone ? "t" : "");
}

static struct bytes end_of(const char *word)
{
    if (strcmp(word, "-") == 0)
        return (struct bytes){0};
    return strcmp(word, "..") == 0 ? bytes_of("", 1) : bytes_of_str(word);
}

static void do_write(struct stage *s, const char *verb, struct bytes key, struct buf *out)
{
    struct revision at = next_revision(s);

    if (strcmp(verb, "put") == 0)
        keyindex_put(s->ix, key, at, (uint32_t)(100 + at.main));
    else if (!keyindex_tombstone(s->ix, key, at, 10))
        buf_append_str(out, "not alive\n");
    if (!s->inside)
        keyindex_publish(s->ix);
}

static void do_walk(struct stage *s, struct key_range r, long long at, bool backwards,
                    struct buf *out)
{
    struct keyindex_cursor c;
    struct keyindex_found found;
    unsigned steps = 1000;

    keyindex_cursor_open(s->ix, &r, revision_whole(at), backwards, &c);
    while (keyindex_cursor_next(&c, &steps, &found))
        show_found(&found, out);
    keyindex_cursor_close(&c);
    buf_printf(out, "%u looked at\n", 1000 - steps);
}

static void do_load(struct stage *s, const char *line, struct buf *out)
{
    char key[32];
    long long main, sub, created, version;
    bool loaded;

    if (sscanf(line, "load put %31s %lld.%lld create=%lld version=%lld", key, &main, &sub, &created,
               &version) == 5)
        loaded = keyindex_load_put(s->ix, bytes_of_str(key), (struct revision){main, sub}, created,
                                   version, 100);
    else if (sscanf(line, "load tombstone %31s %lld.%lld", key, &main, &sub) == 3)
        loaded =
            keyindex_load_tombstone(s->ix, bytes_of_str(key), (struct revision){main, sub}, 10);
    else
        test_fail(__FILE__, __LINE__, "not understood: %s", line);
    if (!loaded)
        buf_append_str(out, "damaged\n");
    else
        s->main = main;
}

static void do_look(struct stage *s, const char *line, struct buf *out)
{
    char verb[16], first[32], second[32];
    long long at = 0, main = 0, sub = 0;
    struct keyindex_found found;
    int words = sscanf(line, "%15s %31s %31s %lld", verb, first, second, &at);
    struct bytes key = bytes_of_str(first);

    if (strcmp(verb, "show") == 0) {
        buf_printf(out, "%s ", first);
        keyindex_describe(s->ix, key, out);
        buf_append_byte(out, '\n');
    } else if (strcmp(verb, "find") == 0 && words == 3) {
        if (keyindex_find(s->ix, key, revision_whole(atoll(second)), &found))
            show_found(&found, out);
        else
            buf_printf(out, "%s not alive at %s\n", first, second);
    } else if (strcmp(verb, "keeps") == 0 && sscanf(second, "%lld.%lld", &main, &sub) == 2) {
        bool keeps = keyindex_keeps(s->ix, key, (struct revision){main, sub}, at);
        buf_printf(out, "%s\n", keeps ? "yes" : "no");
    } else if (strcmp(verb, "count") == 0 && words == 3) {
        struct key_range r = key_range(key, end_of(second));
        buf_printf(out, "published %lld working %lld\n", (long long)keyindex_count(s->ix, &r, true),
                   (long long)keyindex_count(s->ix, &r, false));
    } else if (words == 4) {
        CHECK(strcmp(verb, "walk") == 0 || strcmp(verb, "back") == 0);
        do_walk(s, key_range(key, end_of(second)), at, verb[0] == 'b', out);
    } else {
        test_fail(__FILE__, __LINE__, "not understood: %s", line);
    }
}

static void do_line(struct stage *s, const char *line, struct buf *out)
{
    char verb[16], word[32];
    unsigned steps = 1000;
    int words = sscanf(line, "%15s %31s steps=%u", verb, word, &steps);

    if (strcmp(verb, "put") == 0 || strcmp(verb, "delete") == 0) {
        do_write(s, verb, bytes_of_str(word), out);
    } else if (strcmp(verb, "begin") == 0) {
        s->main++;
        s->sub = 0;
        s->inside = true;
    } else if (strcmp(verb, "publish") == 0) {
        keyindex_publish(s->ix);
        s->inside = false;
    } else if (strcmp(verb, "compact") == 0) {
        struct keyindex_compaction c = {0};
        while (!keyindex_compact_some(s->ix, &c, atoll(word), steps, say_drop, out))
            buf_append_str(out, "end of slice\n");
        keyindex_compaction_end(&c);
        buf_printf(out, "%zu keys\n", keyindex_size(s->ix));
    } else if (strcmp(verb, "load") == 0) {
        do_load(s, line, out);
    } else {
        CHECK(words >= 2);
        do_look(s, line, out);
    }
    keyindex_check(s->ix);
}

static void result(void *context, const struct scenario_command *c, struct buf *out)
{
    struct stage *s = context;
    char *rest = arena_copy_str(c->arena, c->input);

    if (strcmp(c->name, "new") == 0) {
        keyindex_free(s->ix);
        *s = (struct stage){.ix = keyindex_new(), .main = 1};
    }
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        if (*line)
            do_line(s, line, out);
}

TEST(the_scenarios_of_the_key_index_hold)
{
    struct stage s = {.ix = keyindex_new(), .main = 1};

    test_scenario("src/mvcc/testdata/keyindex.txt", result, &s);
    keyindex_free(s.ix);
}

/* --- what the header promises ------------------------------------------------------------- */

TEST(ranges_are_as_the_api_says_them)
{
    struct key_range one = key_range(BYTES("b"), (struct bytes){0});
    struct key_range rest = key_range(BYTES("b"), bytes_of("", 1));
    struct key_range some = key_range(BYTES("b"), BYTES("d"));

    CHECK(key_range_has(&one, BYTES("b")) && !key_range_has(&one, BYTES("ba")));
    CHECK(key_range_has(&rest, BYTES("b")) && key_range_has(&rest, BYTES("\xff")));
    CHECK(!key_range_has(&rest, BYTES("a")));
    CHECK(key_range_has(&some, BYTES("czz")) && !key_range_has(&some, BYTES("d")));
    CHECK(!key_range_has(&some, BYTES("a")));
}

TEST(an_empty_index_has_nothing)
{
    struct keyindex *ix = keyindex_new();
    struct key_range all = key_range(BYTES(""), bytes_of("", 1));
    struct keyindex_found found;

    for (int backwards = 0; backwards < 2; backwards++) {
        struct keyindex_cursor c;
        unsigned steps = 10;
        keyindex_cursor_open(ix, &all, revision_whole(9), backwards, &c);
        CHECK(!keyindex_cursor_next(&c, &steps, &found));
        CHECK_EQ(steps, 10);
        keyindex_cursor_close(&c);
        keyindex_cursor_close(&c);
    }
    CHECK(!keyindex_find_newest(ix, BYTES("a"), &found));
    CHECK(!keyindex_tombstone(ix, BYTES("a"), (struct revision){2, 0}, 1));
    CHECK_EQ(keyindex_count(ix, &all, true), 0);
    CHECK_EQ(compact_all(ix, 5, 1), 0);
    keyindex_check(ix);
    keyindex_free(ix);
    keyindex_free(NULL);
}

TEST(revisions_only_grow)
{
    struct keyindex *ix = keyindex_new();

    keyindex_put(ix, BYTES("a"), (struct revision){5, 1}, 1);
    CHECK_DIES(keyindex_put(ix, BYTES("b"), (struct revision){5, 1}, 1), "newest");
    CHECK_DIES(keyindex_put(ix, BYTES("b"), (struct revision){4, 9}, 1), "newest");
    CHECK_DIES(keyindex_put(ix, BYTES("b"), (struct revision){6, 1ll << 31}, 1), "sane");
    CHECK_DIES(keyindex_load_tombstone(ix, BYTES("b"), (struct revision){6, 0}, 1), "working");
    keyindex_put(ix, BYTES("b"), (struct revision){5, REVISION_SUB_MAX}, 1);
    keyindex_check(ix);
    keyindex_free(ix);
}

/* Promise 2, and that deleting everything gives the memory back. */
static void check_bytes_per_key(uint64_t stride)
{
    enum { KEYS = 100000 };
    struct keyindex *ix = keyindex_new();
    size_t empty = keyindex_bytes(ix);
    char cap[65];

    for (int64_t i = 1; i <= KEYS; i++)
        CHECK(keyindex_load_put(ix, of_64_bytes(cap, (uint64_t)i * stride), (struct revision){i, 0},
                                i, 1, 300));
    keyindex_check(ix);
    CHECK_EQ(keyindex_size(ix), KEYS);
    CHECK(keyindex_bytes(ix) - empty <= (size_t)KEYS * (64 + 80));

    for (int64_t i = 1; i <= KEYS; i++)
        CHECK(keyindex_tombstone(ix, of_64_bytes(cap, (uint64_t)i * stride),
                                 (struct revision){KEYS + i, 0}, 70));
    keyindex_publish(ix);
    CHECK_EQ(compact_all(ix, 3 * KEYS, 1000), 2 * KEYS);
    CHECK_EQ(keyindex_size(ix), 0);
    CHECK(keyindex_bytes(ix) <= empty + (size_t)64 * 1024); /* a slab or two stay touched */
    keyindex_check(ix);
    keyindex_free(ix);
}

TEST(a_key_costs_its_bytes_and_eighty_more)
{
    check_bytes_per_key(1);
    check_bytes_per_key(0x9e3779b97f4a7c15);
}

TEST(a_million_revisions_of_one_key_are_nothing_special)
{
    enum { REVISIONS = 1000000, LIFE = 1000 };
    struct keyindex *ix = keyindex_new();
    struct keyindex_found found;
    struct rng rng;

    for (int64_t i = 1; i <= REVISIONS; i++) {
        if (i % LIFE == 0)
            CHECK(keyindex_tombstone(ix, BYTES("k"), (struct revision){i, 0}, 1));
        else
            keyindex_put(ix, BYTES("k"), (struct revision){i, 0}, (uint32_t)i);
        keyindex_publish(ix);
    }
    rng_seed(&rng, test_seed());
    for (int i = 0; i < 10000; i++) {
        int64_t at = (int64_t)rng_between(&rng, 1, REVISIONS);
        bool alive = keyindex_find(ix, BYTES("k"), revision_whole(at), &found);
        CHECK_EQ(alive, at % LIFE != 0);
        if (!alive)
            continue;
        CHECK_EQ(found.created, at - at % LIFE + 1);
        CHECK_EQ(found.version, at % LIFE);
        CHECK_EQ(found.length, at);
    }

    CHECK_EQ(compact_all(ix, REVISIONS / 2 + 7, 500), REVISIONS / 2 + 6);
    CHECK(keyindex_find(ix, BYTES("k"), revision_whole(REVISIONS / 2 + 7), &found));
    CHECK_EQ(found.version, 7);
    CHECK_EQ(found.created, REVISIONS / 2 + 1);
    keyindex_check(ix);
    CHECK_EQ(compact_all(ix, REVISIONS + 1, 500), REVISIONS / 2 - 6);
    CHECK_EQ(keyindex_size(ix), 0);
    keyindex_free(ix);
}

/*
 * Keys that came in ascending order leave full nodes, 63 leaves of 64 keys. One of them loses
 * nearly all of its keys, so that it must join a neighbour that has no space.
 */
TEST(a_poor_node_shares_with_a_full_one)
{
    enum { NODE_KEYS = 62 * 64, KEYS = 5 * NODE_KEYS };
    char cap[64];

    for (unsigned poor = 0; poor < 5; poor++) {
        struct keyindex *ix = keyindex_new();
        struct key_range all = key_range(BYTES(""), bytes_of("", 1));
        for (unsigned i = 0; i < KEYS; i++)
            keyindex_put(ix, numbered(cap, i), (struct revision){2, i}, 1);
        keyindex_publish(ix);
        unsigned gone = 0;
        for (unsigned i = poor * NODE_KEYS; i < (poor + 1) * NODE_KEYS; i++)
            if (i % 1000 != 7)
                gone += keyindex_tombstone(ix, numbered(cap, i), (struct revision){3, i}, 1);
        keyindex_publish(ix);
        CHECK_EQ(compact_all(ix, 4, 100), 2 * gone);
        CHECK_EQ(keyindex_count(ix, &all, true), KEYS - gone);
        CHECK_EQ(keyindex_size(ix), KEYS - gone);
        keyindex_check(ix);
        keyindex_free(ix);
    }
}

/* A walk that deletes what it shows, inserts behind and before itself, and is compacted under. */
TEST(a_cursor_survives_the_removal_of_all_it_has_seen)
{
    enum { KEYS = 3000 };
    struct keyindex *ix = keyindex_new();
    struct keyindex_cursor c;
    struct key_range all = key_range(BYTES(""), bytes_of("", 1));
    struct keyindex_found found;
    char cap[64];
    int64_t main = 1;
    unsigned shown = 0;

    for (unsigned i = 0; i < KEYS; i++)
        keyindex_put(ix, numbered(cap, i), (struct revision){main, i}, 1);
    keyindex_publish(ix);
    keyindex_cursor_open(ix, &all, revision_whole(INT64_MAX), false, &c);
    for (unsigned steps = 1; keyindex_cursor_next(&c, &steps, &found); steps = 1) {
        CHECK_BYTES(found.key, numbered(cap, shown++));
        keyindex_tombstone(ix, numbered(cap, shown - 1), (struct revision){++main, 0}, 1);
        keyindex_publish(ix);
        if (shown % 100 == 0)
            compact_all(ix, main + 1, 64);
    }
    CHECK_EQ(shown, KEYS);
    CHECK_EQ(keyindex_size(ix), 0);
    keyindex_cursor_close(&c);
    keyindex_check(ix);
    keyindex_free(ix);
}

/* Keys of every length up to a few KiB, and no bytes at all. */
TEST(keys_may_have_any_length)
{
    enum { LEN_MAX = 3000 };
    struct keyindex *ix = keyindex_new();
    struct keyindex_found found;
    static uint8_t key[LEN_MAX];

    for (size_t len = 0; len < LEN_MAX; len++)
        keyindex_put(ix, bytes_of(key, len), (struct revision){(int64_t)len + 1, 0}, 1);
    keyindex_publish(ix);
    keyindex_check(ix);
    for (size_t len = 0; len < LEN_MAX; len++) {
        CHECK(keyindex_find(ix, bytes_of(key, len), revision_whole(LEN_MAX), &found));
        CHECK_EQ(found.mod.main, (int64_t)len + 1);
        CHECK(keyindex_tombstone(ix, bytes_of(key, len), (struct revision){LEN_MAX + 1, (int)len},
                                 1));
    }
    keyindex_publish(ix);
    CHECK_EQ(compact_all(ix, LEN_MAX + 2, 10), 2 * LEN_MAX);
    CHECK_EQ(keyindex_size(ix), 0);
    keyindex_check(ix);
    keyindex_free(ix);
}
