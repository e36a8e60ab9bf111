#include "server/fair.h"

#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"

struct thing {
    struct list link;
    uint64_t conn, number; /* of those of its connection */
    bool waits;
};

static void add(struct fair *f, struct thing *t, uint64_t conn)
{
    t->conn = conn;
    list_init(&t->link);
    fair_add(f, conn, &t->link);
}

static struct thing *take(struct fair *f)
{
    struct list *link = fair_take(f);

    return link ? container_of(link, struct thing, link) : NULL;
}

TEST(connections_are_served_in_turn_however_much_one_of_them_wants)
{
    struct fair f;
    struct thing flood[100], one, two;
    fair_init(&f, test_seed());
    for (unsigned i = 0; i < ARRAY_LEN(flood); i++)
        add(&f, &flood[i], 7);
    CHECK(take(&f) == &flood[0]);

    add(&f, &one, 9);
    add(&f, &two, 12);
    fair_check(&f);

    CHECK(take(&f) == &flood[1]);
    CHECK(take(&f) == &one);
    CHECK(take(&f) == &two);
    for (unsigned i = 2; i < ARRAY_LEN(flood); i++)
        CHECK(take(&f) == &flood[i]);
    CHECK(!take(&f));
    fair_check(&f);
    fair_free(&f);
}

/* What each connection has added is taken in order; nobody is passed twice by the same one. */
TEST(whatever_is_added_and_removed_each_connection_keeps_its_turn)
{
    enum { THINGS = 200, CONNS = 6 };
    static struct thing things[THINGS];
    uint64_t added[CONNS] = {0}, seen[CONNS] = {0}, passed[CONNS][CONNS] = {{0}};
    size_t waiting[CONNS] = {0};
    struct rng rng;
    struct fair f;
    memset(things, 0, sizeof(things));
    rng_seed(&rng, test_seed());
    fair_init(&f, test_seed());

    for (unsigned i = 0; i < 20000; i++) {
        struct thing *t = &things[rng_below(&rng, THINGS)];
        uint64_t conn = rng_below(&rng, CONNS);
        if (rng_chance(&rng, 1, 3) && (t = take(&f))) {
            CHECK(t->waits && t->number > seen[t->conn]);
            seen[t->conn] = t->number;
            t->waits = false;
            waiting[t->conn]--;
            for (unsigned k = 0; k < CONNS; k++) {
                passed[t->conn][k] = 0;
                CHECK(k == t->conn || waiting[k] == 0 || ++passed[k][t->conn] <= 1);
            }
        } else if (t && !t->waits) {
            memset(passed[conn], 0, waiting[conn] == 0 ? sizeof(passed[conn]) : 0);
            add(&f, t, conn);
            t->number = ++added[conn];
            t->waits = true;
            waiting[conn]++;
        } else if (t) {
            fair_remove(&f, t->conn, &t->link);
            t->waits = false;
            waiting[t->conn]--;
        }
        fair_check(&f);
    }
    fair_free(&f);
}
