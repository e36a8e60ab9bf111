#include "lease/keys.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

static struct leased_key *key_of(struct table_link *link)
{
    return container_of(link, struct leased_key, link);
}

static int order(const struct leased_key *k, struct bytes key)
{
    return bytes_compare(leased_key_bytes(k), key);
}

/* Does a stand above b? Never equal for two keys of one tree, so its shape is a matter of content
 * alone. */
static bool above(const struct leased_key *a, const struct leased_key *b)
{
    if (a->link.hash != b->link.hash)
        return a->link.hash > b->link.hash;
    return order(a, leased_key_bytes(b)) < 0;
}

static void split(struct leased_key *tree, struct bytes key, struct leased_key **less,
                  struct leased_key **more)
{
    while (tree)
        if (order(tree, key) < 0) {
            *less = tree;
            less = &tree->right;
            tree = tree->right;
        } else {
            *more = tree;
            more = &tree->left;
            tree = tree->left;
        }
    *less = NULL;
    *more = NULL;
}

/* All of a comes before all of b. */
static struct leased_key *join(struct leased_key *a, struct leased_key *b)
{
    struct leased_key *joined = NULL;
    struct leased_key **place = &joined;

    while (a && b)
        if (above(a, b)) {
            *place = a;
            place = &a->right;
            a = a->right;
        } else {
            *place = b;
            place = &b->left;
            b = b->left;
        }
    *place = a ? a : b;
    return joined;
}

static void tree_add(struct key_tree *tree, struct leased_key *k)
{
    struct leased_key **place = &tree->root;
    struct bytes key = leased_key_bytes(k);

    while (*place && above(*place, k))
        place = order(*place, key) < 0 ? &(*place)->right : &(*place)->left;
    split(*place, key, &k->left, &k->right);
    *place = k;
    tree->count++;
}

static void tree_remove(struct key_tree *tree, struct leased_key *k)
{
    struct leased_key **place = &tree->root;
    struct bytes key = leased_key_bytes(k);

    while (*place != k) {
        assert(*place);
        place = order(*place, key) < 0 ? &(*place)->right : &(*place)->left;
    }
    *place = join(k->left, k->right);
    tree->count--;
}

struct leased_key *keys_find(const struct table *t, uint64_t seed, struct bytes key)
{
    if (t->count == 0)
        return NULL; /* most stores have no leases, and every put asks */

    uint32_t hash = (uint32_t)map_hash(key, seed);
    for (struct table_link *l = table_chain(t, hash); l; l = l->next)
        if (l->hash == hash && bytes_equal(leased_key_bytes(key_of(l)), key))
            return key_of(l);
    return NULL;
}

void keys_add(struct table *t, uint64_t seed, struct lease *lease, struct key_tree *tree,
              struct bytes key)
{
    assert(key.len <= UINT32_MAX);

    struct leased_key *k = mem_alloc(sizeof(struct leased_key) + key.len);
    k->link.hash = (uint32_t)map_hash(key, seed);
    k->link.spare = (uint32_t)key.len;
    k->lease = lease;
    if (key.len)
        memcpy(k->at, key.at, key.len);
    table_add(t, &k->link);
    tree_add(tree, k);
}

void keys_move(struct leased_key *k, struct key_tree *from, struct lease *lease,
               struct key_tree *to)
{
    tree_remove(from, k);
    k->lease = lease;
    tree_add(to, k);
}

void keys_remove(struct table *t, struct leased_key *k, struct key_tree *tree)
{
    tree_remove(tree, k);
    table_remove(t, &k->link);
    mem_free(k);
}

const struct leased_key *keys_first(const struct key_tree *tree)
{
    const struct leased_key *k = tree->root;

    while (k && k->left)
        k = k->left;
    return k;
}

const struct leased_key *keys_after(const struct key_tree *tree, struct bytes after)
{
    const struct leased_key *best = NULL;

    for (const struct leased_key *k = tree->root; k;)
        if (order(k, after) > 0) {
            best = k;
            k = k->left;
        } else {
            k = k->right;
        }
    return best;
}

void keys_free(struct table *t)
{
    for (size_t bucket = 0; bucket < t->bucket_count; bucket++)
        for (struct table_link *l = table_bucket(t, bucket), *next; l; l = next) {
            next = l->next;
            mem_free(key_of(l));
        }
    table_free(t);
}

void keys_check(const struct table *t, uint64_t seed, const struct lease *lease,
                const struct key_tree *tree)
{
    size_t found = 0;

    for (const struct leased_key *k = keys_first(tree); k;) {
        const struct leased_key *next = keys_after(tree, leased_key_bytes(k));
        assert(k->lease == lease);
        assert(keys_find(t, seed, leased_key_bytes(k)) == k);
        assert(!k->left || (above(k, k->left) && order(k->left, leased_key_bytes(k)) < 0));
        assert(!k->right || (above(k, k->right) && order(k->right, leased_key_bytes(k)) > 0));
        assert(!next || order(next, leased_key_bytes(k)) > 0);
        found++;
        k = next;
    }
    assert(found == tree->count);
}
