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

struct walked {
    struct item item;
    unsigned met;
    bool stays; /* from before the walk to behind it */
};

static void meet_some(const struct table *t, struct table_walk *w, bool *is_over, size_t buckets)
{
    struct table_link *chain;

    while (buckets-- > 0 && !*is_over) {
        *is_over = !table_walk(t, w, &chain);
        for (struct table_link *l = *is_over ? NULL : chain; l; l = l->next)
            if (table_walk_meets(w, l))
                container_of(l, struct walked, item.link)->met++;
    }
}

static void set_in(struct table *t, struct walked *it, bool in)
{
    if (in && !it->item.in)
        table_add(t, &it->item.link);
    else if (!in && it->item.in)
        table_remove(t, &it->item.link);
    it->item.in = in;
}

/* Whichever way the table goes meanwhile, between 512 buckets and 6,000. */
TEST(a_walk_in_pieces_meets_what_stays_exactly_once)
{
    enum { ITEMS = 6000, STAY_EACH = 20, CHANGES = 60 };
    static struct walked items[ITEMS];
    struct rng rng;

    rng_seed(&rng, test_seed());
    for (unsigned run = 0; run < 60; run++) {
        struct table t = {0};
        struct table_walk w = {0};
        bool is_over = false;
        unsigned added = run % 3 == 0 ? 9 : run % 3 == 1 ? 5 : 1; /* of ten changes */
        for (size_t i = 0; i < ITEMS; i++) {
            items[i] = (struct walked){.stays = i % STAY_EACH == 0};
            items[i].item.link.hash =
                (uint32_t)rng_next(&rng) & (run % 2 ? UINT32_MAX : 0xff00ffff);
            set_in(&t, &items[i], items[i].stays || rng_chance(&rng, 10 - added, 10));
        }
        while (!is_over) {
            meet_some(&t, &w, &is_over, 1 + rng_below(&rng, 40));
            for (unsigned n = 0; n < CHANGES; n++) {
                struct walked *it = &items[rng_below(&rng, ITEMS)];
                if (!it->stays)
                    set_in(&t, it, rng_chance(&rng, added, 10));
            }
        }
        table_check(&t);
        for (size_t i = 0; i < ITEMS; i++)
            CHECK(items[i].stays ? items[i].met == 1 : true);
        for (size_t i = 0; i < ITEMS; i++)
            set_in(&t, &items[i], false);
        table_free(&t);
    }
}

TEST(an_empty_table_has_empty_chains)
{
    struct table t = {0};

    struct table_walk w = {0};
    struct table_link *chain;

    CHECK(table_chain(&t, 7) == NULL);
    CHECK(!table_walk(&t, &w, &chain));
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
