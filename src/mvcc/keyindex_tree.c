#include "mvcc/keyindex_int.h"

static_assert(sizeof(struct leaf) % 64 == 0, "nodes lie on whole cache lines");
static_assert(sizeof(struct inner) % 64 == 0, "nodes lie on whole cache lines");
static_assert(sizeof(struct inner) <= SLAB_THING_BYTES_MAX, "and so come from slabs");

/* --- heads -------------------------------------------------------------------------------- */

uint32_t keyindex_tree_head(struct bytes key, size_t skip)
{
    uint32_t head = 0;

    if (key.len >= skip + sizeof(head))
        memcpy(&head, key.at + skip, sizeof(head));
    else if (key.len > skip) /* zeroes stand in for what is not there: equal heads prove nothing */
        memcpy(&head, key.at + skip, key.len - skip);
    return __builtin_bswap32(head);
}

size_t keyindex_tree_common(struct bytes low, struct bytes high)
{
    size_t common = 0;

    if (!low.at || !high.at)
        return 0;
    while (common < low.len && common < high.len && low.at[common] == high.at[common])
        common++;
    return common;
}

static unsigned heads_below(const uint32_t heads[NODE_MAX], uint32_t head)
{
    unsigned below = 0;

    for (unsigned i = 0; i < NODE_MAX; i++)
        below += heads[i] < head;
    return below;
}

/* Where those equal to the one at `low` end: behind the first, mostly. */
static unsigned heads_equal_end(const uint32_t heads[NODE_MAX], unsigned count, unsigned low,
                                uint32_t head)
{
    if (low >= count || heads[low] != head)
        return low;
    if (low + 1 >= count || heads[low + 1] != head)
        return low + 1;
    return head == UINT32_MAX ? count : heads_below(heads, head + 1);
}

static void heads_pad(uint32_t heads[NODE_MAX], unsigned count)
{
    for (unsigned i = count; i < NODE_MAX; i++)
        heads[i] = UINT32_MAX;
}

static void leaf_make_heads(struct leaf *l, size_t skip)
{
    l->skip = (uint32_t)skip;
    for (unsigned i = 0; i < l->count; i++)
        l->heads[i] = keyindex_tree_head(record_key(l->records[i]), skip);
    heads_pad(l->heads, l->count);
}

/* For a node whose keys lie between these two. */
static void inner_make_heads(struct inner *n, struct bytes low, struct bytes high)
{
    n->outer = !low.at || !high.at;
    if (n->outer && n->count > 1) {
        low = separator_bytes(n->separators[1]);
        high = separator_bytes(n->separators[n->count - 1]);
    }
    n->skip = (uint32_t)keyindex_tree_common(low, high);
    n->heads[0] = 0;
    for (unsigned i = 1; i < n->count; i++)
        n->heads[i] = keyindex_tree_head(separator_bytes(n->separators[i]), n->skip);
    heads_pad(n->heads, n->count);
}

/* --- finding ------------------------------------------------------------------------------ */

static unsigned leaf_search(const struct leaf *l, struct bytes key, bool *found)
{
    uint32_t head = keyindex_tree_head(key, l->skip);
    unsigned low = heads_below(l->heads, head);
    unsigned high = heads_equal_end(l->heads, l->count, low, head);

    *found = false;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        int order = bytes_compare(key, record_key(l->records[middle]));
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Is a key below (-1), above (1) or among (0) all that begin with what the node skips? */
static int inner_compare_skipped(const struct inner *n, struct bytes key)
{
    struct bytes start = bytes_of(key.at, key.len < n->skip ? key.len : n->skip);

    if (!n->outer || n->skip == 0)
        return 0;
    return bytes_compare(start, bytes_of(n->separators[1]->at, n->skip));
}

/* The child that holds keys like this one: the last whose separator is not above it. */
static unsigned inner_search(const struct inner *n, struct bytes key)
{
    int order = inner_compare_skipped(n, key);

    if (order != 0)
        return order < 0 ? 0 : n->count - 1;
    uint32_t head = keyindex_tree_head(key, n->skip);
    unsigned low = heads_below(n->heads, head);

    low = low > 0 ? low : 1; /* the first child has no separator */
    unsigned high = heads_equal_end(n->heads, n->count, low, head);
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (bytes_compare(key, separator_bytes(n->separators[middle])) >= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

unsigned keyindex_tree_place(const struct leaf *l, struct bytes key)
{
    bool found;

    return leaf_search(l, key, &found);
}

unsigned keyindex_tree_child(const struct inner *n, struct bytes key)
{
    return inner_search(n, key);
}

/* Its lines are asked for together: the memory answers a dozen almost as soon as one. */
static void leaf_prefetch(const struct leaf *l)
{
    for (size_t i = 0; i < sizeof(*l); i += 64)
        __builtin_prefetch((const uint8_t *)l + i);
}

static void *child_at(const struct inner *n, unsigned child, unsigned level)
{
    if (level == 1)
        leaf_prefetch(n->children[child]);
    return n->children[child];
}

struct leaf *keyindex_tree_find(const struct keyindex *ix, struct bytes key, unsigned *place,
                                bool *found)
{
    void *node = ix->root;

    for (unsigned level = ix->height; level > 0; level--) {
        const struct inner *n = node;
        node = child_at(n, inner_search(n, key), level);
    }
    *place = leaf_search(node, key, found);
    return node;
}

void keyindex_tree_path(const struct keyindex *ix, struct bytes key, struct path *out)
{
    void *node = ix->root;

    out->height = ix->height;
    for (unsigned level = ix->height; level > 0; level--) {
        struct inner *n = node;
        unsigned child = inner_search(n, key);
        out->steps[level - 1].node = n;
        out->steps[level - 1].child = child;
        node = child_at(n, child, level);
    }
    out->leaf = node;
    out->place = leaf_search(out->leaf, key, &out->found);
}

static uint64_t sum(const uint32_t *counts, unsigned count)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < count; i++)
        total += counts[i];
    return total;
}

uint64_t keyindex_tree_rank(const struct keyindex *ix, struct bytes key, bool published)
{
    const void *node = ix->root;
    uint64_t rank = 0;
    bool found;

    for (unsigned level = ix->height; level > 0; level--) {
        const struct inner *n = node;
        unsigned child = inner_search(n, key);
        rank += sum(inner_living(ix, n, published), child);
        if (inner_child_is_gone(ix, n, child, published))
            return rank;
        node = child_at(n, child, level);
    }
    unsigned place = leaf_search(node, key, &found);
    uint64_t before = leaf_living(ix, node, published) & bits_below(place);
    return rank + (unsigned)__builtin_popcountll(before);
}

struct leaf *keyindex_tree_edge(const struct keyindex *ix, bool rightmost)
{
    void *node = ix->root;

    for (unsigned level = ix->height; level > 0; level--) {
        struct inner *n = node;
        node = n->children[rightmost ? n->count - 1 : 0];
    }
    return node;
}

/* --- counts ------------------------------------------------------------------------------- */

static void path_count(struct keyindex *ix, struct path *p, bool more)
{
    for (unsigned i = 0; i < p->height; i++) {
        struct inner *n = p->steps[i].node;
        inner_touch(ix, n);
        n->living[p->steps[i].child] += more ? 1 : UINT32_MAX;
    }
}

void keyindex_tree_set_alive(struct keyindex *ix, struct path *p, bool alive)
{
    uint64_t bit = 1ull << p->place;

    assert(leaf_is_alive(p->leaf, p->place) == !alive);

    leaf_touch(ix, p->leaf);
    p->leaf->alive ^= bit;
    path_count(ix, p, alive);
}

/* Living keys below a node of that level, leaves being level 0. */
static uint32_t node_living(const struct keyindex *ix, const void *node, unsigned level,
                            bool published)
{
    if (level == 0)
        return (uint32_t)__builtin_popcountll(leaf_living(ix, node, published));
    const struct inner *n = node;
    return (uint32_t)sum(inner_living(ix, n, published), n->count);
}

static uint32_t node_covered(const void *node, unsigned level)
{
    if (level == 0)
        return (uint32_t)__builtin_popcountll(((const struct leaf *)node)->covered);
    const struct inner *n = node;
    return (uint32_t)sum(n->covered, n->count);
}

/* Of a child that knows what is covered. */
static void inner_count_child(const struct keyindex *ix, struct inner *n, unsigned child,
                              unsigned level)
{
    n->living[child] = node_living(ix, n->children[child], level, false);
    n->living_before[child] = node_living(ix, n->children[child], level, true);
    n->covered[child] = node_covered(n->children[child], level);
}

/* --- ends of nodes ------------------------------------------------------------------------ */

/* The two separators between which all keys lie of the node of this level on the path. */
static struct bytes path_low(const struct path *p, unsigned level)
{
    for (unsigned i = level; i < p->height; i++)
        if (p->steps[i].child > 0)
            return separator_bytes(p->steps[i].node->separators[p->steps[i].child]);
    return (struct bytes){0};
}

static struct bytes path_high(const struct path *p, unsigned level)
{
    for (unsigned i = level; i < p->height; i++)
        if (p->steps[i].child + 1 < p->steps[i].node->count)
            return separator_bytes(p->steps[i].node->separators[p->steps[i].child + 1]);
    return (struct bytes){0};
}

static size_t separator_bytes_of(size_t len)
{
    return sizeof(struct separator) + len;
}

/* The shortest beginning of `right` that is still above `left`. */
static struct separator *separator_new(struct slabs *s, struct bytes left, struct bytes right)
{
    assert(bytes_compare(left, right) < 0);

    size_t len = keyindex_tree_common(left.at ? left : BYTES(""), right) + 1;
    struct separator *new = slabs_take(s, separator_bytes_of(len));
    new->len = (uint32_t)len;
    memcpy(new->at, right.at, len);
    return new;
}

static void separator_free(struct slabs *s, struct separator *old)
{
    slabs_give(s, old, separator_bytes_of(old->len));
}

/* --- inserting ---------------------------------------------------------------------------- */

static struct leaf *leaf_new(struct slabs *s)
{
    struct leaf *l = slabs_take(s, sizeof(*l));

    *l = (struct leaf){0};
    heads_pad(l->heads, 0);
    return l;
}

static struct inner *inner_new(struct slabs *s)
{
    struct inner *n = slabs_take(s, sizeof(*n));

    *n = (struct inner){0};
    heads_pad(n->heads, 0);
    return n;
}

void keyindex_tree_init(struct keyindex *ix)
{
    ix->root = leaf_new(&ix->slabs);
    ix->epoch = 1; /* new nodes, of epoch 0, are untouched */
    ix->shape = 1; /* and nothing is remembered */
}

/* A root above the root, with a single child: the caller will add another. */
static void grow(struct keyindex *ix, struct path *p)
{
    assert(ix->height < HEIGHT_MAX);

    struct inner *root = inner_new(&ix->slabs);
    root->children[0] = ix->root;
    root->count = 1;
    root->epoch = ix->working ? ix->epoch : 0;
    inner_make_heads(root, (struct bytes){0}, (struct bytes){0});
    inner_count_child(ix, root, 0, ix->height);
    ix->root = root;
    p->steps[ix->height].node = root;
    p->steps[ix->height].child = 0;
    p->height = ++ix->height;
}

#define SLIDE(array, from, to, count)                                                              \
    memmove((array) + (to), (array) + (from), (count) * sizeof((array)[0]))

static uint64_t bits_insert(uint64_t bits, unsigned place, bool bit)
{
    uint64_t below = bits_below(place);

    assert(place < NODE_MAX);
    return (bits & below) | (bits & ~below) << 1 | (uint64_t)bit << place;
}

static uint64_t bits_remove(uint64_t bits, unsigned place)
{
    uint64_t below = bits_below(place);

    return (bits & below) | (bits >> 1 & ~below);
}

/* Adds a child that was split off the one before it, at this level's children. There is space. */
static void inner_add(const struct keyindex *ix, struct inner *n, unsigned at,
                      struct separator *separator, void *child, unsigned child_level)
{
    unsigned behind = n->count - at;

    assert(n->count < INNER_MAX);
    assert(at > 0);

    SLIDE(n->heads, at, at + 1, behind);
    SLIDE(n->children, at, at + 1, behind);
    SLIDE(n->separators, at, at + 1, behind);
    SLIDE(n->living, at, at + 1, behind);
    SLIDE(n->living_before, at, at + 1, behind);
    SLIDE(n->covered, at, at + 1, behind);
    n->whole = bits_insert(n->whole, at, false);
    n->count++;
    n->separators[at] = separator;
    n->children[at] = child;
    if (n->outer) /* it need not begin like the others */
        inner_make_heads(n, (struct bytes){0}, (struct bytes){0});
    else
        n->heads[at] = keyindex_tree_head(separator_bytes(separator), n->skip);
    inner_count_child(ix, n, at - 1, child_level);
    inner_count_child(ix, n, at, child_level);
}

/* Children from `cut` on move to a new node, returned. */
static struct inner *inner_cut(struct keyindex *ix, struct inner *n, unsigned cut)
{
    struct inner *right = inner_new(&ix->slabs);
    unsigned moved = n->count - cut;

    memcpy(right->children, n->children + cut, moved * sizeof(n->children[0]));
    memcpy(right->separators, n->separators + cut, moved * sizeof(n->separators[0]));
    memcpy(right->living, n->living + cut, moved * sizeof(n->living[0]));
    memcpy(right->living_before, n->living_before + cut, moved * sizeof(n->living[0]));
    memcpy(right->covered, n->covered + cut, moved * sizeof(n->covered[0]));
    right->whole = n->whole >> cut;
    n->whole &= bits_below(cut);
    right->separators[0] = NULL;
    right->count = moved;
    right->epoch = n->epoch;
    n->count = cut;
    return right;
}

/* Splits the node of this level on the path, in whose parent there is space. */
static struct inner *inner_split(struct keyindex *ix, struct path *p, unsigned level, unsigned cut)
{
    struct inner *parent = p->steps[level].node;
    unsigned at = p->steps[level].child;
    struct inner *n = parent->children[at];
    struct bytes low = path_low(p, level);
    struct bytes high = path_high(p, level);
    struct separator *between = n->separators[cut];

    struct inner *right = inner_cut(ix, n, cut);
    inner_make_heads(n, low, separator_bytes(between));
    inner_make_heads(right, separator_bytes(between), high);
    inner_add(ix, parent, at + 1, between, right, level);
    return right;
}

/* Makes space for one more child in the node of this level on the path, which stays the way to the
 * same leaf. */
static void reserve_one(struct keyindex *ix, struct path *p, unsigned level)
{
    if (level > p->height)
        grow(ix, p);
    const struct inner *n = p->steps[level - 1].node;
    if (n->count < INNER_MAX)
        return;

    reserve_one(ix, p, level + 1);
    unsigned child = p->steps[level - 1].child;
    /* Keys that come in ascending order leave full nodes behind. */
    unsigned cut = child == n->count - 1 ? n->count - 1 : n->count / 2;
    struct inner *right = inner_split(ix, p, level, cut);
    if (child >= cut) {
        p->steps[level - 1].node = right;
        p->steps[level - 1].child = child - cut;
        p->steps[level].child++;
    }
}

static void leaf_link_right(struct leaf *l, struct leaf *right)
{
    right->left = l;
    right->right = l->right;
    if (l->right)
        l->right->left = right;
    l->right = right;
}

static void leaf_unlink(struct leaf *l)
{
    if (l->left)
        l->left->right = l->right;
    if (l->right)
        l->right->left = l->left;
}

static struct leaf *leaf_cut(struct keyindex *ix, struct leaf *l, unsigned cut)
{
    struct leaf *right = leaf_new(&ix->slabs);
    unsigned moved = l->count - cut;

    memcpy(right->heads, l->heads + cut, moved * sizeof(l->heads[0]));
    memcpy(right->records, l->records + cut, moved * sizeof(struct record *));
    right->alive = cut < 64 ? l->alive >> cut : 0;
    right->alive_before = cut < 64 ? l->alive_before >> cut : 0;
    right->covered = cut < 64 ? l->covered >> cut : 0;
    right->epoch = l->epoch;
    right->count = moved;
    right->skip = l->skip;
    l->alive &= bits_below(cut);
    l->alive_before &= bits_below(cut);
    l->covered &= bits_below(cut);
    l->count = cut;
    heads_pad(l->heads, cut);
    leaf_link_right(l, right);
    return right;
}

static void leaf_set_skip(struct leaf *l, size_t skip)
{
    if (l->skip != skip)
        leaf_make_heads(l, skip);
}

/*
 * Splits the full leaf of a path that will take a new key. At either end of the leaf the new key is
 * on its own: keys that come in ascending or descending order leave full leaves behind.
 */
static void leaf_split(struct keyindex *ix, struct path *p, struct bytes key)
{
    struct leaf *l = p->leaf;
    unsigned cut = p->place == 0 || p->place == l->count ? p->place : l->count / 2;
    bool goes_left = p->place <= cut && p->place < l->count;
    struct bytes last = goes_left && p->place == cut ? key : record_key(l->records[cut - 1]);
    struct bytes first = cut == l->count ? key : record_key(l->records[cut]);
    struct separator *between = separator_new(&ix->slabs, last, first);

    reserve_one(ix, p, 1);
    struct bytes low = path_low(p, 0);
    struct bytes high = path_high(p, 0);
    struct leaf *right = leaf_cut(ix, l, cut);
    leaf_set_skip(l, keyindex_tree_common(low, separator_bytes(between)));
    leaf_set_skip(right, keyindex_tree_common(separator_bytes(between), high));
    inner_add(ix, p->steps[0].node, p->steps[0].child + 1, between, right, 0);
    if (!goes_left) {
        p->leaf = right;
        p->place -= cut;
        p->steps[0].child++;
    }
}

void keyindex_tree_insert(struct keyindex *ix, struct path *p, struct record *r, bool alive)
{
    assert(!p->found);
    if (ix->size >= KEYINDEX_KEYS_MAX)
        fatal("too many keys: %zu", ix->size);

    if (p->leaf->count == NODE_MAX)
        leaf_split(ix, p, record_key(r));
    struct leaf *l = p->leaf;
    unsigned behind = l->count - p->place;
    leaf_touch(ix, l);
    SLIDE(l->heads, p->place, p->place + 1, behind);
    SLIDE(l->records, p->place, p->place + 1, behind);
    l->heads[p->place] = keyindex_tree_head(record_key(r), l->skip);
    l->records[p->place] = r;
    l->alive = bits_insert(l->alive, p->place, alive);
    l->alive_before = bits_insert(l->alive_before, p->place, false); /* nobody published it */
    l->covered = bits_insert(l->covered, p->place, false);
    l->count++;
    p->found = true;
    if (alive)
        path_count(ix, p, true);
    ix->size++;
    ix->shape++;
}

/* --- removing ----------------------------------------------------------------------------- */

/* Takes out a child that was merged into the one before it. */
static void inner_take_out(const struct keyindex *ix, struct inner *n, unsigned at,
                           unsigned child_level)
{
    unsigned behind = n->count - at - 1;

    assert(n->whole == 0); /* no range tombstone is on, and none has left anything */

    SLIDE(n->heads, at + 1, at, behind);
    SLIDE(n->children, at + 1, at, behind);
    SLIDE(n->separators, at + 1, at, behind);
    SLIDE(n->living, at + 1, at, behind);
    SLIDE(n->living_before, at + 1, at, behind);
    SLIDE(n->covered, at + 1, at, behind); /* zeroes: no range tombstone is on */
    n->count--;
    n->heads[n->count] = UINT32_MAX;
    inner_count_child(ix, n, at - 1, child_level);
}

/* Everything of `right` behind what `left` has. */
static void leaf_pour(struct keyindex *ix, struct leaf *left, struct leaf *right)
{
    unsigned at = left->count;

    assert(at + right->count <= NODE_MAX);

    leaf_touch(ix, left);
    leaf_touch(ix, right);
    memcpy(left->records + at, right->records, right->count * sizeof(struct record *));
    if (at < 64) {
        left->alive |= right->alive << at;
        left->alive_before |= right->alive_before << at;
    }
    left->count += right->count;
    leaf_unlink(right);
    slabs_give(&ix->slabs, right, sizeof(*right));
}

static void inner_pour(struct keyindex *ix, struct inner *left, struct inner *right,
                       struct separator *between)
{
    unsigned at = left->count;

    assert(at + right->count <= NODE_MAX);
    assert(left->whole == 0);
    assert(right->whole == 0);

    inner_touch(ix, left);
    inner_touch(ix, right);
    memcpy(left->children + at, right->children, right->count * sizeof(right->children[0]));
    memcpy(left->separators + at, right->separators, right->count * sizeof(right->separators[0]));
    memcpy(left->living + at, right->living, right->count * sizeof(right->living[0]));
    memcpy(left->living_before + at, right->living_before, right->count * sizeof(right->living[0]));
    memcpy(left->covered + at, right->covered, right->count * sizeof(right->covered[0]));
    left->separators[at] = between;
    left->count += right->count;
    slabs_give(&ix->slabs, right, sizeof(*right));
}

static unsigned node_count(const void *node, unsigned level)
{
    return level == 0 ? ((const struct leaf *)node)->count : ((const struct inner *)node)->count;
}

/* Should these two neighbours be one? They must if one of them cannot stand alone. */
static bool should_merge(const void *left, const void *right, unsigned level)
{
    unsigned a = node_count(left, level);
    unsigned b = node_count(right, level);
    unsigned least = a < b ? a : b;

    return a + b <= NODE_MERGED_MAX || least < (level == 0 ? 1 : 2);
}

static void merge_leaves(struct keyindex *ix, struct path *p, unsigned at)
{
    struct inner *parent = p->steps[0].node;
    struct leaf *left = parent->children[at];

    leaf_pour(ix, left, parent->children[at + 1]);
    separator_free(&ix->slabs, parent->separators[at + 1]);
    inner_take_out(ix, parent, at + 1, 0);
    p->steps[0].child = at;
    leaf_make_heads(left, keyindex_tree_common(path_low(p, 0), path_high(p, 0)));
}

static void merge_inner(struct keyindex *ix, struct path *p, unsigned level, unsigned at)
{
    struct inner *parent = p->steps[level].node;
    struct inner *left = parent->children[at];

    inner_pour(ix, left, parent->children[at + 1], parent->separators[at + 1]);
    inner_take_out(ix, parent, at + 1, level);
    p->steps[level].child = at;
    inner_make_heads(left, path_low(p, level), path_high(p, level));
    if (left->count > INNER_MAX) /* the neighbour was full, and now the two share */
        inner_split(ix, p, level, left->count / 2);
}

/* Merges the children `at` and `at + 1` of the path's node above this level. */
static void merge(struct keyindex *ix, struct path *p, unsigned level, unsigned at)
{
    inner_touch(ix, p->steps[level].node);
    if (level == 0)
        merge_leaves(ix, p, at);
    else
        merge_inner(ix, p, level, at);
}

/* After the node of this level on the path has lost something. */
static void merge_up(struct keyindex *ix, struct path *p, unsigned level)
{
    for (; level < p->height; level++) {
        struct inner *parent = p->steps[level].node;
        unsigned child = p->steps[level].child;
        void *node = parent->children[child];
        if (node_count(node, level) > NODE_POOR)
            return;
        if (child > 0 && should_merge(parent->children[child - 1], node, level))
            merge(ix, p, level, child - 1);
        else if (child + 1 < parent->count &&
                 should_merge(node, parent->children[child + 1], level))
            merge(ix, p, level, child);
        else
            return;
    }
    struct inner *root = ix->root;
    if (ix->height > 0 && root->count == 1) {
        ix->root = root->children[0];
        ix->height--;
        slabs_give(&ix->slabs, root, sizeof(*root));
    }
}

struct record *keyindex_tree_remove(struct keyindex *ix, struct path *p)
{
    struct leaf *l = p->leaf;
    struct record *r = l->records[p->place];
    unsigned behind = l->count - p->place - 1;

    assert(p->found);
    assert(!ix->range_tombstone
                .on); /* nothing of what a range tombstone has counted goes before it is settled */
    assert(!leaf_is_alive(l, p->place));
    assert(!(leaf_living(ix, l, true) >> p->place & 1));

    SLIDE(l->heads, p->place + 1, p->place, behind);
    SLIDE(l->records, p->place + 1, p->place, behind);
    l->alive = bits_remove(l->alive, p->place);
    l->alive_before = bits_remove(l->alive_before, p->place);
    l->count--;
    l->heads[l->count] = UINT32_MAX;
    ix->size--;
    ix->shape++;
    merge_up(ix, p, 0);
    return r;
}
