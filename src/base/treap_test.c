#include "base/treap.h"

#include "base/list.h"
#include "base/map.h"
#include "base/rng.h"
#include "harness/test.h"

enum { THINGS = 300 };

/* The summary is how many there are in the subtree. */
struct thing {
    struct treap_node link;
    size_t size;
    int number;
    bool in;
};

static struct thing *thing_of(const struct treap_node *n)
{
    return container_of(n, struct thing, link);
}

static int compare(const void *key, const struct treap_node *n)
{
    int a = *(const int *)key;
    int b = thing_of(n)->number;

    return (a > b) - (a < b);
}

static const void *key(const struct treap_node *n)
{
    return &thing_of(n)->number;
}

static uint64_t weight(const struct treap_node *n)
{
    return map_hash(bytes_of(&thing_of(n)->number, sizeof(int)), 7);
}

static size_t size_of(const struct treap_node *n)
{
    return n ? thing_of(n)->size : 0;
}

static void changed(struct treap_node *n)
{
    thing_of(n)->size = 1 + size_of(n->left) + size_of(n->right);
}

static const struct treap_order order = {compare, key, weight, changed};

/* Checks the subtree and returns its depth. */
static unsigned check(const struct treap_node *n, int low, int high)
{
    if (!n)
        return 0;
    const struct thing *t = thing_of(n);
    CHECK(t->in);
    CHECK(t->number > low && t->number < high);
    CHECK(!n->left || weight(n->left) <= weight(n));
    CHECK(!n->right || weight(n->right) <= weight(n));
    CHECK_EQ(t->size, 1 + size_of(n->left) + size_of(n->right));
    unsigned left = check(n->left, low, t->number);
    unsigned right = check(n->right, t->number, high);
    return 1 + (left > right ? left : right);
}

/* The first thing from this number on that is in, by looking at all of them. */
static struct treap_node *slow_from(struct thing *things, int number)
{
    for (int n = number < 0 ? 0 : number; n < THINGS; n++)
        if (things[n].in)
            return &things[n].link;
    return NULL;
}

TEST(treap_keeps_order_summary_and_balance)
{
    static struct thing things[THINGS];
    struct treap_node *root = NULL;
    struct rng rng;
    size_t count = 0;

    rng_seed(&rng, test_seed());
    for (unsigned n = 0; n < 20000; n++) {
        int number = (int)rng_below(&rng, THINGS);
        struct thing *t = &things[number];
        t->number = number;
        if (t->in)
            treap_remove(&order, &root, &t->link);
        else
            treap_insert(&order, &root, &t->link);
        t->in = !t->in;
        count = t->in ? count + 1 : count - 1;

        CHECK_EQ(size_of(root), count);
        CHECK(treap_find(&order, root, &number) == (t->in ? &t->link : NULL));
        int other = (int)rng_below(&rng, THINGS + 2) - 1;
        CHECK(treap_from(&order, root, &other) == slow_from(things, other));
        if (n % 64 == 0)
            CHECK(check(root, -1, THINGS) < 40);
    }
}

TEST(treap_dies_when_something_is_not_there_or_twice)
{
    struct thing a = {.number = 1, .in = true}, b = {.number = 1};
    struct treap_node *root = NULL;

    treap_insert(&order, &root, &a.link);

    CHECK_DIES(treap_remove(&order, &root, &b.link), "assertion failed");
}
