#include "backend/batch.h"

#include "harness/test.h"

#include <stdio.h>

static void put(struct batch *b, const char *key, const char *value, uint64_t stamp)
{
    struct bytes v = bytes_of_str(value);

    memcpy(batch_put_space(b, BUCKET_KEY, bytes_of_str(key), v.len, stamp), v.at, v.len);
}

/* "-" for nothing there, "x" for deleted. */
static const char *seen(const struct batch *b, const char *key, uint64_t limit)
{
    static char text[64];
    const struct batch_version *v = batch_get(b, BUCKET_KEY, bytes_of_str(key), limit);

    if (!v || v->deleted)
        return v ? "x" : "-";
    snprintf(text, sizeof(text), "%.*s", (int)v->len, (const char *)v->at);
    return text;
}

TEST(a_reader_sees_the_newest_version_within_its_limit)
{
    struct batch *b = batch_new();

    put(b, "k", "one", 1);
    put(b, "k", "two", 3);
    batch_delete(b, BUCKET_KEY, BYTES("k"), 5);

    CHECK_STR(seen(b, "k", 0), "-");
    CHECK_STR(seen(b, "k", 1), "one");
    CHECK_STR(seen(b, "k", 2), "one");
    CHECK_STR(seen(b, "k", 4), "two");
    CHECK_STR(seen(b, "k", 5), "x");
    batch_check(b);
    batch_free(b);
}

TEST(writes_of_one_stamp_replace_each_other_without_taking_memory)
{
    struct batch *b = batch_new();

    put(b, "k", "first value", 1);
    size_t bytes = batch_bytes(b);
    for (int i = 0; i < 1000; i++)
        put(b, "k", "another", 1);

    CHECK_EQ(batch_bytes(b), bytes);
    CHECK_STR(seen(b, "k", 1), "another");
    put(b, "k", "a longer value than the first", 1);
    CHECK_STR(seen(b, "k", 1), "a longer value than the first");
    CHECK_STR(seen(b, "k", 0), "-");
    batch_check(b);
    batch_free(b);
}

TEST(zeroes_and_prefixes_in_keys_keep_their_order)
{
    static const struct bytes keys[] = {{(const uint8_t *)"\0", 1},
                                        {(const uint8_t *)"\0\0", 2},
                                        {(const uint8_t *)"a", 1},
                                        {(const uint8_t *)"a\0", 2},
                                        {(const uint8_t *)"a\0\0\0\0\0\0\0", 8},
                                        {(const uint8_t *)"a\0\0\0\0\0\0\0\0", 9},
                                        {(const uint8_t *)"a\xff", 2},
                                        {(const uint8_t *)"\xff", 1}};
    struct batch *b = batch_new();

    for (size_t i = 8; i-- > 0;)
        batch_delete(b, BUCKET_META, keys[i * 3 % 8], 1);

    const struct batch_node *node = batch_seek(b, BUCKET_META, (struct bytes){0});
    for (size_t i = 0; i < 8; i++, node = node->next[0]) {
        CHECK_BYTES(batch_node_key(node), keys[i]);
        CHECK(batch_seek(b, BUCKET_META, keys[i]) == node);
    }
    CHECK(!node);
    batch_check(b);
    batch_free(b);
}

enum { KEYS = 400, STAMPS = 12 };

static struct bytes numbered(char text[static 8], unsigned key)
{
    return bytes_of(text, (size_t)snprintf(text, 8, "%04u", key));
}

/* One stamp's table is what a reader with that limit must see: 0 nothing, 1 deleted, else a value.
 */
static void check_against(const struct batch *b, const uint32_t *want, uint64_t limit)
{
    const struct batch_node *node = batch_seek(b, BUCKET_LEASE, (struct bytes){0});
    char text[8];

    for (unsigned key = 0; key < KEYS; key++) {
        struct bytes name = numbered(text, key);
        const struct batch_version *v = batch_get(b, BUCKET_LEASE, name, limit);
        uint32_t number = 0;
        if (v && !v->deleted)
            memcpy(&number, v->at, sizeof(number));
        CHECK_EQ(v ? v->deleted ? 1 : number : 0, want[key]);
        CHECK(batch_seek(b, BUCKET_LEASE, name) == node);
        if (node && bytes_equal(batch_node_key(node), name))
            node = node->next[0];
        else
            CHECK(!v);
    }
    CHECK(!node);
}

TEST(a_batch_does_what_a_table_does)
{
    for (uint64_t round = 0; round < 20 * test_effort(); round++) {
        static uint32_t want[STAMPS][KEYS];
        struct batch *b = batch_new();
        struct rng rng;
        rng_seed(&rng, test_seed() + round);
        memset(want, 0, sizeof(want));
        for (uint64_t stamp = 0; stamp < STAMPS; stamp++) {
            if (stamp > 0)
                memcpy(want[stamp], want[stamp - 1], sizeof(want[0]));
            for (int i = 0; i < 100; i++) {
                char text[8];
                unsigned key = (unsigned)rng_below(&rng, KEYS);
                uint32_t number = (uint32_t)rng_between(&rng, 1, 1000);
                struct bytes name = numbered(text, key);
                want[stamp][key] = number;
                if (number == 1)
                    batch_delete(b, BUCKET_LEASE, name, stamp);
                else
                    memcpy(batch_put_space(b, BUCKET_LEASE, name, 4 + number, stamp), &number, 4);
            }
        }
        batch_check(b);
        for (uint64_t stamp = 0; stamp < STAMPS; stamp++)
            check_against(b, want[stamp], stamp);
        batch_free(b);
    }
}
