#include "base/heap.h"

#include "base/list.h"
#include "base/rng.h"
#include "harness/test.h"

struct item {
    uint64_t due;
    struct heap_node node;
};

static const struct item *item_of(const struct heap_node *node)
{
    return container_of(node, struct item, node);
}

static bool due_before(const struct heap_node *a, const struct heap_node *b)
{
    return item_of(a)->due < item_of(b)->due;
}

TEST(whatever_is_done_the_first_one_is_the_least)
{
    enum { ITEMS = 64 };
    struct item items[ITEMS] = {{0}};
    struct heap h;
    struct rng rng;

    heap_init(&h, due_before);
    rng_seed(&rng, test_seed());
    for (int step = 0; step < 20000; step++) {
        struct item *it = &items[rng_below(&rng, ITEMS)];
        bool on = heap_has(&it->node);
        if (on && rng_chance(&rng, 1, 3)) {
            heap_remove(&h, &it->node);
        } else {
            it->due = rng_below(&rng, 1000);
            if (on)
                heap_moved(&h, &it->node);
            else
                heap_push(&h, &it->node);
        }
        heap_check(&h);
        for (int i = 0; i < ITEMS; i++)
            if (heap_has(&items[i].node))
                CHECK(item_of(heap_first(&h))->due <= items[i].due);
    }

    uint64_t last = 0;
    while (h.count > 0) {
        uint64_t due = item_of(heap_pop(&h))->due;
        CHECK(due >= last);
        last = due;
    }
    CHECK(heap_first(&h) == NULL);
    CHECK(heap_pop(&h) == NULL);
    heap_free(&h);
}

TEST(a_node_is_on_one_heap_at_most)
{
    struct heap h;
    struct item it = {0};

    heap_init(&h, due_before);
    heap_push(&h, &it.node);

    CHECK_DIES(heap_push(&h, &it.node), "!heap_has(node)");
    heap_free(&h);
}
