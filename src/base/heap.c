#include "base/heap.h"

#include "base/assert.h"
#include "base/mem.h"

/* nodes[0] is place 1, so the children of place p are at places 2p and 2p + 1. */
static struct heap_node *at(const struct heap *h, size_t place)
{
    return h->nodes[place - 1];
}

static void put(struct heap *h, size_t place, struct heap_node *node)
{
    h->nodes[place - 1] = node;
    node->place = place;
}

static void sift_up(struct heap *h, struct heap_node *node)
{
    size_t place = node->place;

    while (place > 1 && h->before(node, at(h, place / 2))) {
        put(h, place, at(h, place / 2));
        place /= 2;
    }
    put(h, place, node);
}

static void sift_down(struct heap *h, struct heap_node *node)
{
    size_t place = node->place;

    for (size_t child = place * 2; child <= h->count; child = place * 2) {
        if (child < h->count && h->before(at(h, child + 1), at(h, child)))
            child++;
        if (!h->before(at(h, child), node))
            break;
        put(h, place, at(h, child));
        place = child;
    }
    put(h, place, node);
}

void heap_init(struct heap *h, heap_before *before)
{
    *h = (struct heap){.before = before};
}

void heap_free(struct heap *h)
{
    mem_free(h->nodes);
    *h = (struct heap){.before = h->before};
}

void heap_push(struct heap *h, struct heap_node *node)
{
    assert(!heap_has(node));

    if (h->count == h->cap) {
        h->cap = h->cap ? h->cap * 2 : 16;
        h->nodes = mem_resize(h->nodes, h->cap, sizeof(struct heap_node *));
    }
    h->count++;
    put(h, h->count, node);
    sift_up(h, node);
}

void heap_moved(struct heap *h, struct heap_node *node)
{
    assert(heap_has(node));

    sift_up(h, node);
    sift_down(h, node);
}

void heap_remove(struct heap *h, struct heap_node *node)
{
    assert(heap_has(node));
    assert(at(h, node->place) == node);

    struct heap_node *last = at(h, h->count);
    size_t place = node->place;
    h->count--;
    node->place = 0;
    if (last != node) {
        put(h, place, last);
        heap_moved(h, last);
    }
}

struct heap_node *heap_first(const struct heap *h)
{
    return h->count ? at(h, 1) : NULL;
}

struct heap_node *heap_pop(struct heap *h)
{
    struct heap_node *first = heap_first(h);

    if (first)
        heap_remove(h, first);
    return first;
}

void heap_check(const struct heap *h)
{
    for (size_t place = 1; place <= h->count; place++) {
        assert(at(h, place)->place == place);
        assert(place == 1 || !h->before(at(h, place), at(h, place / 2)));
    }
}
