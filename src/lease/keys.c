#include "lease/keys.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

static struct leased_key *key_of(struct table_link *link)
{
    return container_of(link, struct leased_key, link);
}

/* --- a lease's tree --- */

static struct leased_key *key_at(const struct treap_node *n)
{
    return n ? container_of(n, struct leased_key, node) : NULL;
}

/* The key that a place is looked for by is a leased_key, too. */
static int compare(const void *key, const struct treap_node *n)
{
    return bytes_compare(leased_key_bytes(key), leased_key_bytes(key_at(n)));
}

static const void *key(const struct treap_node *n)
{
    return key_at(n);
}

static uint64_t weight(const struct treap_node *n)
{
    return key_at(n)->link.hash;
}

static uint32_t newest_of(const struct treap_node *n)
{
    return n ? key_at(n)->newest : 0;
}

static uint32_t newest_with_children(const struct leased_key *k)
{
    uint32_t left = newest_of(k->node.left), right = newest_of(k->node.right);
    uint32_t below = left > right ? left : right;

    return k->attached > below ? k->attached : below;
}

static void changed(struct treap_node *n)
{
    struct leased_key *k = container_of(n, struct leased_key, node);

    k->newest = newest_with_children(k);
}

static const struct treap_order order = {
    .compare = compare, .key = key, .weight = weight, .changed = changed};

static void tree_add(struct key_tree *tree, struct leased_key *k)
{
    treap_insert(&order, &tree->root, &k->node);
    tree->count++;
    tree->bytes += k->link.spare;
}

static void tree_remove(struct key_tree *tree, struct leased_key *k)
{
    treap_remove(&order, &tree->root, &k->node);
    tree->count--;
    tree->bytes -= k->link.spare;
}

/* --- all of them --- */

struct leased_key *keys_find(const struct table *t, uint64_t seed, struct bytes key)
{
    if (t->count == 0)
        return NULL; /* most stores have no leases, and every put and delete asks */

    uint32_t hash = (uint32_t)map_hash(key, seed);
    for (struct table_link *l = table_chain(t, hash); l; l = l->next)
        if (l->hash == hash && bytes_equal(leased_key_bytes(key_of(l)), key))
            return key_of(l);
    return NULL;
}

void keys_add(struct table *t, uint64_t seed, struct lease *lease, struct key_tree *tree,
              struct bytes key, uint32_t number)
{
    assert(key.len <= UINT32_MAX);

    struct leased_key *k = mem_alloc(sizeof(struct leased_key) + key.len);
    k->link.hash = (uint32_t)map_hash(key, seed);
    k->link.spare = (uint32_t)key.len;
    k->lease = lease;
    k->attached = number;
    if (key.len)
        memcpy(k->at, key.at, key.len);
    table_add(t, &k->link);
    tree_add(tree, k);
}

void keys_move(struct leased_key *k, struct key_tree *from, struct lease *lease,
               struct key_tree *to, uint32_t number)
{
    tree_remove(from, k);
    k->lease = lease;
    k->attached = number;
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
    const struct treap_node *n = tree->root;

    while (n && n->left)
        n = n->left;
    return key_at(n);
}

const struct leased_key *keys_after(const struct key_tree *tree, struct bytes after)
{
    const struct treap_node *best = NULL;

    for (const struct treap_node *n = tree->root; n;)
        if (bytes_compare(leased_key_bytes(key_at(n)), after) > 0) {
            best = n;
            n = n->left;
        } else {
            n = n->right;
        }
    return key_at(best);
}

/* --- the living --- */

static const struct leased_key *first_from(const struct key_tree *tree, struct bytes from)
{
    const struct treap_node *best = NULL;

    for (const struct treap_node *n = tree->root; n;)
        if (bytes_compare(leased_key_bytes(key_at(n)), from) >= 0) {
            best = n;
            n = n->left;
        } else {
            n = n->right;
        }
    return key_at(best);
}

/* The first at `from` or behind it with this number or a higher one. Of the subtrees that have one
 * somewhere, only those on the path to `from` may have it too early. */
static const struct leased_key *newer_from(const struct treap_node *n, struct bytes from,
                                           uint32_t number)
{
    if (newest_of(n) < number)
        return NULL;
    const struct leased_key *k = key_at(n);
    if (bytes_compare(leased_key_bytes(k), from) < 0)
        return newer_from(n->right, from, number);
    const struct leased_key *before = newer_from(n->left, from, number);
    if (before || k->attached >= number)
        return before ? before : k;
    return newer_from(n->right, from, number);
}

static bool is_ended(const struct leased_key *k, const struct keys_ended *e)
{
    struct bytes key = leased_key_bytes(k);

    return k->attached < e->number && bytes_compare(key, e->from) >= 0 &&
           (!e->to.at || bytes_compare(key, e->to) < 0);
}

const struct leased_key *keys_living_from(const struct key_tree *tree, struct bytes from,
                                          const struct keys_ended *ended)
{
    const struct leased_key *first = first_from(tree, from);

    if (!first || !is_ended(first, ended))
        return first;
    /* Inside the range whoever was attached since; or else whoever comes behind it. */
    const struct leased_key *newer = newer_from(tree->root, from, ended->number);
    const struct leased_key *behind = ended->to.at ? first_from(tree, ended->to) : NULL;
    if (!newer || !behind)
        return newer ? newer : behind;
    return bytes_compare(leased_key_bytes(newer), leased_key_bytes(behind)) < 0 ? newer : behind;
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

/* In order, and not heavier. */
static void check_child(const struct leased_key *k, const struct treap_node *child, int side)
{
    if (!child)
        return;
    assert(compare(key_at(child), &k->node) * side > 0);
    assert(weight(child) <= weight(&k->node));
}

void keys_check(const struct table *t, uint64_t seed, const struct lease *lease,
                const struct key_tree *tree)
{
    size_t found = 0;
    uint64_t bytes = 0;

    for (const struct leased_key *k = keys_first(tree); k; found++) {
        bytes += k->link.spare;
        const struct leased_key *next = keys_after(tree, leased_key_bytes(k));
        assert(k->lease == lease);
        assert(keys_find(t, seed, leased_key_bytes(k)) == k);
        check_child(k, k->node.left, -1);
        check_child(k, k->node.right, 1);
        assert(k->newest == newest_with_children(k));
        k = next;
    }
    assert(found == tree->count);
    assert(bytes == tree->bytes);
}
