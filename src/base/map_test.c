#include "base/map.h"

#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"

#include <stdio.h>

TEST(a_map_is_walked_in_the_order_things_were_put_in)
{
    struct map m;
    int values[100];
    char keys[100][8];
    int seen = 0;

    map_init(&m, MAP_BYTES, 99);
    for (int i = 0; i < 100; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%d", i);
        values[i] = i;
        CHECK(map_put(&m, bytes_of_str(keys[i]), &values[i]) == NULL);
    }
    for (int i = 0; i < 100; i += 2)
        CHECK(map_remove(&m, bytes_of_str(keys[i])) == &values[i]);
    CHECK(map_put(&m, BYTES("k0"), &values[0]) == NULL);

    MAP_FOREACH (e, &m) {
        CHECK_EQ(*(int *)e->value, seen < 50 ? 2 * seen + 1 : 0);
        seen++;
    }
    CHECK_EQ(seen, 51);
    map_free(&m);
}

TEST(putting_again_replaces_and_tells_what_was_there)
{
    struct map m;
    int one, two;

    map_init(&m, MAP_IDS, 1);

    CHECK(map_put_id(&m, 7, &one) == NULL);
    CHECK(map_put_id(&m, 7, &two) == &one);
    CHECK(map_get_id(&m, 7) == &two);
    CHECK(map_get_id(&m, 8) == NULL);
    CHECK_EQ(m.count, 1);
    map_free(&m);
}

TEST(a_map_agrees_with_a_plain_array_whatever_is_done)
{
    enum { IDS = 200 };
    struct map m;
    struct rng rng;
    uint64_t cells[IDS] = {0};
    bool present[IDS] = {false};
    size_t count = 0;

    rng_seed(&rng, test_seed());
    map_init(&m, MAP_IDS, rng_next(&rng));
    for (int step = 0; step < 200000; step++) {
        uint64_t id = rng_below(&rng, IDS);
        switch (rng_below(&rng, 3)) {
        case 0:
            CHECK(map_put_id(&m, id, &cells[id]) == (present[id] ? &cells[id] : NULL));
            count += !present[id];
            present[id] = true;
            break;
        case 1:
            CHECK(map_remove_id(&m, id) == (present[id] ? &cells[id] : NULL));
            count -= present[id];
            present[id] = false;
            break;
        default:
            CHECK(map_get_id(&m, id) == (present[id] ? &cells[id] : NULL));
        }
        CHECK_EQ(m.count, count);
    }
    map_free(&m);
}

TEST(the_hash_depends_on_the_seed_and_every_byte)
{
    uint8_t key[20] = {0};
    uint64_t before = map_hash(bytes_of(key, sizeof(key)), 5);

    CHECK(map_hash(bytes_of(key, sizeof(key)), 6) != before);
    for (size_t i = 0; i < sizeof(key); i++) {
        key[i] = 1;
        CHECK(map_hash(bytes_of(key, sizeof(key)), 5) != before);
        key[i] = 0;
    }
    CHECK(map_hash(bytes_of(key, sizeof(key) - 1), 5) != before);
}

/* Request ids count up, and a client may choose ids that differ only in their upper half. */
TEST(ids_in_a_pattern_are_spread_over_the_slots)
{
    enum { IDS = 1024 };

    for (unsigned shift = 0; shift <= 48; shift += 16) {
        struct map m;
        bool taken[IDS] = {false};
        int spread = 0;

        map_init(&m, MAP_IDS, 0);
        for (uint64_t i = 0; i < IDS; i++)
            map_put_id(&m, i << shift, &m);
        MAP_FOREACH (e, &m) {
            spread += !taken[e->hash % IDS];
            taken[e->hash % IDS] = true;
        }

        CHECK(spread > IDS / 2); /* by pure chance it is 63 of 100 */
        map_free(&m);
    }
}
