/*
 * A range whose end is not behind its key holds no key, and etcd has no rule for it: the answer is
 * what a search for an interval of negative length finds in its red-black tree of permissions, and
 * that depends on the tree's shape. Members of one cluster have to agree about each entry of the
 * log, and some of them may be etcd. So such a range is searched for here in a tree of the same
 * shape, made by the textbook's insertion (Cormen et al., 13.3) of a user's permissions in the
 * order in which its roles name them.
 *
 * Only the shape matters. A search for any other range finds the same in auth_ranges.
 */
#include "auth/auth_int.h"
#include "base/mem.h"

enum { NIL = 0, LEFT = 0, RIGHT = 1 };

struct auth_interval {
    struct auth_range range;
    struct bytes last; /* the last of all ends in this subtree */
    uint32_t parent, child[2];
    bool is_red;
};

/* As etcd compares in this tree: an empty text is behind all others, also where it begins one. */
static int compare(struct bytes a, struct bytes b)
{
    if (a.len == 0 || b.len == 0)
        return (a.len == 0) - (b.len == 0);
    return bytes_compare(a, b);
}

static bool goes_left(const struct auth_range *range, const struct auth_range *of)
{
    int order = compare(range->key, of->key);

    return order < 0 || (order == 0 && compare(range->end, of->end) < 0);
}

/* Which child of its parent is it? */
static int side_of(const struct auth_interval *at, uint32_t n)
{
    return at[at[n].parent].child[RIGHT] == n ? RIGHT : LEFT;
}

/* The child on the other side comes up, and n goes down to this one. */
static void rotate(struct auth_tree *t, uint32_t n, int side)
{
    struct auth_interval *at = t->at;
    uint32_t up = at[n].child[!side], inner = at[up].child[side], parent = at[n].parent;

    assert(up != NIL);
    at[n].child[!side] = inner;
    if (inner != NIL)
        at[inner].parent = n;
    if (parent == NIL)
        t->root = up;
    else
        at[parent].child[side_of(at, n)] = up;
    at[up].parent = parent;
    at[up].child[side] = n;
    at[n].parent = up;
}

static void balance(struct auth_tree *t, uint32_t n)
{
    struct auth_interval *at = t->at;

    while (at[at[n].parent].is_red) {
        uint32_t parent = at[n].parent, grandparent = at[parent].parent;
        int side = side_of(at, parent);
        uint32_t uncle = at[grandparent].child[!side];
        if (at[uncle].is_red) {
            at[parent].is_red = at[uncle].is_red = false;
            at[grandparent].is_red = true;
            n = grandparent;
            continue;
        }
        if (side_of(at, n) != side) {
            rotate(t, parent, side);
            n = parent;
            parent = at[n].parent;
        }
        at[parent].is_red = false;
        at[grandparent].is_red = true;
        rotate(t, grandparent, !side);
    }
    at[t->root].is_red = false;
}

static void reserve(struct auth_tree *t)
{
    if (t->count < t->cap)
        return;
    t->cap = t->cap ? 2 * t->cap : 8;
    t->at = mem_resize(t->at, t->cap, sizeof(*t->at));
}

void auth_tree_clear(struct auth_tree *t)
{
    t->count = 0;
    reserve(t);
    t->at[NIL] = (struct auth_interval){0};
    t->count = 1;
    t->root = NIL;
}

void auth_tree_add(struct auth_tree *t, struct auth_range range)
{
    uint32_t parent = NIL, n = (uint32_t)t->count;
    int side = LEFT;

    assert(t->count > 0); /* cleared */
    reserve(t);
    for (uint32_t at = t->root; at != NIL; at = t->at[at].child[side]) {
        parent = at;
        side = goes_left(&range, &t->at[at].range) ? LEFT : RIGHT;
    }
    t->at[n] = (struct auth_interval){.range = range, .parent = parent, .is_red = true};
    t->count++;
    if (parent == NIL)
        t->root = n;
    else
        t->at[parent].child[side] = n;
    balance(t, n);
}

/* As deep as the tree is high: at most twice the logarithm of its count. */
static struct bytes find_last(struct auth_tree *t, uint32_t n)
{
    struct bytes last = t->at[n].range.end;

    for (int side = LEFT; side <= RIGHT; side++) {
        uint32_t child = t->at[n].child[side];
        if (child == NIL)
            continue;
        struct bytes of_child = find_last(t, child);
        if (compare(of_child, last) > 0)
            last = of_child;
    }
    t->at[n].last = last;
    return last;
}

void auth_tree_finish(struct auth_tree *t)
{
    if (t->root != NIL)
        find_last(t, t->root);
}

/* It begins with the key's own comparisons, and takes the end for the range's when it decides
 * whether a subtree may hold it: that is where the shape comes in. */
static bool search(const struct auth_tree *t, uint32_t n, struct bytes key, struct bytes range_end)
{
    const struct auth_interval *i = &t->at[n];

    if (n == NIL)
        return false;
    if (compare(key, i->range.key) < 0)
        return search(t, i->child[LEFT], key, range_end);
    if (compare(key, i->range.end) < 0)
        return true;
    if (compare(i->last, key) <= 0 || compare(i->range.key, range_end) >= 0)
        return false;
    return search(t, i->child[LEFT], key, range_end) || search(t, i->child[RIGHT], key, range_end);
}

bool auth_tree_permits(const struct auth_tree *t, struct bytes key, struct bytes range_end)
{
    assert(range_end.len > 0);
    assert(bytes_compare(key, range_end) >= 0);

    return search(t, t->root, key, range_end);
}

void auth_tree_free(struct auth_tree *t)
{
    mem_free(t->at);
    *t = (struct auth_tree){0};
}
