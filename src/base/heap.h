/*
 * heap: whatever comes first, by an order of the owner's.
 *
 * A binary heap of nodes embedded in the things themselves; each node knows its place, so removing
 * or moving one from the middle is O(log n). Ties come out in an order that depends only on the
 * sequence of calls, never on addresses.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct heap_node {
    size_t place; /* 1-based; 0 means on no heap */
};

/* Does a come out before b? */
typedef bool heap_before(const struct heap_node *a, const struct heap_node *b);

struct heap {
    struct heap_node **nodes;
    size_t count, cap;
    heap_before *before;
};

void heap_init(struct heap *h, heap_before *before);
void heap_free(struct heap *h); /* the nodes are the owner's */

void heap_push(struct heap *h, struct heap_node *node);
void heap_remove(struct heap *h, struct heap_node *node);

/* Tells the heap that the node's order has changed. */
void heap_moved(struct heap *h, struct heap_node *node);

/* The first node, left where it is; NULL when empty. */
struct heap_node *heap_first(const struct heap *h);
struct heap_node *heap_pop(struct heap *h);

static inline bool heap_has(const struct heap_node *node)
{
    return node->place != 0;
}

void heap_check(const struct heap *h);
