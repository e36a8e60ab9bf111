#include "lease/table.h"

#include "base/list.h"
#include "base/rng.h"
#include "harness/test.h"

struct item {
    struct table_link link;
    bool in;
};

static bool has(const struct table *t, const struct item *it)
{
    for (const struct table_link *l = table_chain(t, it->link.hash); l; l = l->next)
        if (l == &it->link)
            return true;
    return false;
}

TEST(a_table_that_grows_and_shrinks_finds_what_it_has_and_nothing_else)
{
    enum { ITEMS = 6000 };
    static struct item items[ITEMS];
    struct table t = {0};
    struct rng rng;

    rng_seed(&rng, test_seed());
    for (size_t i = 0; i < ITEMS; i++)
        items[i].link.hash = (uint32_t)rng_next(&rng);
    size_t in = 0, most = 0;
    for (int step = 0; step < 100000; step++) {
        bool growing = step / 20000 % 2 == 0;
        struct item *it = &items[rng_below(&rng, ITEMS)];
        bool add = rng_chance(&rng, growing ? 9 : 2, 10);
        if (add && !it->in) {
            table_add(&t, &it->link);
            in++;
        } else if (!add && it->in) {
            table_remove(&t, &it->link);
            in--;
        } else {
            continue;
        }
        it->in = add;
        most = t.bucket_count > most ? t.bucket_count : most;
        CHECK_EQ(t.count, in);
        CHECK_EQ(has(&t, it), add);
        if (step % 1000 == 0)
            table_check(&t);
    }

    for (size_t i = 0; i < ITEMS; i++)
        CHECK_EQ(has(&t, &items[i]), items[i].in);
    CHECK(most > 4000);
    for (size_t i = 0; i < ITEMS; i++)
        if (items[i].in)
            table_remove(&t, &items[i].link);
    table_check(&t);
    CHECK_EQ(t.bucket_count, 512);
    table_free(&t);
}

TEST(an_empty_table_has_empty_chains)
{
    struct table t = {0};

    CHECK(table_chain(&t, 7) == NULL);
    table_check(&t);
    table_free(&t);
}

TEST(removing_what_is_not_there_is_a_bug)
{
    struct table t = {0};
    struct item there = {0}, stranger = {0};

    table_add(&t, &there.link);

    CHECK_DIES(table_remove(&t, &stranger.link), "*at");
    table_free(&t);
}
