/*
 * treap: things in order, each with its two links inside it.
 *
 * A binary tree. The weight that keeps it in balance is a hash which the owner computes from the
 * thing itself, keyed with a secret where clients choose the keys; so a node costs two pointers,
 * and the shape depends on what is in the tree alone, not on the order in which it came (but for
 * things of equal weight). Keys are unique. An owner may keep a summary of the subtree in its
 * nodes: `changed` is called, children first, for every node whose subtree has changed.
 */
#pragma once

#include <stdint.h>

struct treap_node {
    struct treap_node *left, *right;
};

struct treap_order {
    int (*compare)(const void *key, const struct treap_node *node);
    const void *(*key)(const struct treap_node *node);
    uint64_t (*weight)(const struct treap_node *node); /* the heavier is nearer to the root */
    void (*changed)(struct treap_node *node);          /* NULL: there is no summary */
};

/* The root is NULL when the tree is empty. Its key must not be there yet. */
void treap_insert(const struct treap_order *order, struct treap_node **root,
                  struct treap_node *node);

/* The node must be there (asserted). */
void treap_remove(const struct treap_order *order, struct treap_node **root,
                  struct treap_node *node);

/* The first node whose key is not before this one; NULL if there is none. */
struct treap_node *treap_from(const struct treap_order *order, struct treap_node *root,
                              const void *key);

/* The node with exactly this key, or NULL. */
struct treap_node *treap_find(const struct treap_order *order, struct treap_node *root,
                              const void *key);
