#include "base/treap.h"

#include "base/assert.h"

#include <stddef.h>

static void changed(const struct treap_order *order, struct treap_node *node)
{
    if (order->changed)
        order->changed(node);
}

/* Parts a tree into what comes before the key and what comes after it. */
static void split(const struct treap_order *order, struct treap_node *root, const void *key,
                  struct treap_node **before, struct treap_node **after)
{
    if (!root) {
        *before = NULL;
        *after = NULL;
    } else if (order->compare(key, root) < 0) {
        *after = root;
        split(order, root->left, key, before, &root->left);
        changed(order, root);
    } else {
        *before = root;
        split(order, root->right, key, &root->right, after);
        changed(order, root);
    }
}

/* Everything in `before` comes before everything in `after`. */
static struct treap_node *join(const struct treap_order *order, struct treap_node *before,
                               struct treap_node *after)
{
    struct treap_node *root;

    if (!before || !after)
        return before ? before : after;
    if (order->weight(before) > order->weight(after)) {
        root = before;
        root->right = join(order, root->right, after);
    } else {
        root = after;
        root->left = join(order, before, root->left);
    }
    changed(order, root);
    return root;
}

void treap_insert(const struct treap_order *order, struct treap_node **root,
                  struct treap_node *node)
{
    const void *key = order->key(node);

    if (!*root || order->weight(node) > order->weight(*root)) {
        split(order, *root, key, &node->left, &node->right);
        *root = node;
        changed(order, node);
        return;
    }
    int side = order->compare(key, *root);
    assert(side != 0);
    treap_insert(order, side < 0 ? &(*root)->left : &(*root)->right, node);
    changed(order, *root);
}

void treap_remove(const struct treap_order *order, struct treap_node **root,
                  struct treap_node *node)
{
    assert(*root);

    if (*root == node) {
        *root = join(order, node->left, node->right);
        node->left = NULL;
        node->right = NULL;
        return;
    }
    int side = order->compare(order->key(node), *root);
    assert(side != 0);
    treap_remove(order, side < 0 ? &(*root)->left : &(*root)->right, node);
    changed(order, *root);
}

struct treap_node *treap_from(const struct treap_order *order, struct treap_node *root,
                              const void *key)
{
    struct treap_node *best = NULL;

    while (root) {
        if (order->compare(key, root) <= 0) {
            best = root;
            root = root->left;
        } else {
            root = root->right;
        }
    }
    return best;
}

struct treap_node *treap_find(const struct treap_order *order, struct treap_node *root,
                              const void *key)
{
    while (root) {
        int side = order->compare(key, root);
        if (side == 0)
            return root;
        root = side < 0 ? root->left : root->right;
    }
    return NULL;
}
