/*
 * Entries and logs as the world sees them: one tree of nodes, and paths in it.
 *
 * A member's log is checked against all others the moment it grows: the node for (index, term) must
 * hold the same bytes and follow the same node. That is the log matching property, at O(1) for each
 * entry instead of comparing every log with every other after each step.
 */
#include "raft/cluster_int.h"

static uint64_t hash_bytes(uint64_t hash, struct bytes data)
{
    for (size_t i = 0; i < data.len; i++)
        hash = (hash ^ data.at[i]) * 0x100000001b3;
    return hash;
}

static uint64_t hash_entry(const struct raft_entry *e)
{
    uint64_t hash = cluster_mix(e->index, e->term);

    hash = cluster_mix(hash, (uint64_t)e->type);
    return hash_bytes(hash, e->data);
}

static struct node *node_new(struct cluster *c, struct node *previous, const struct raft_entry *e)
{
    struct node *n = mem_new(struct node);
    size_t place = e->index - c->root->index;

    *n = (struct node){.index = e->index,
                       .term = e->term,
                       .type = e->type,
                       .data = e->data,
                       .blob = blob_ref(e->blob),
                       .hash = hash_entry(e),
                       .previous = previous};
    if (!e->blob && e->data.len > 0) {
        n->blob = blob_copy(e->data);
        n->data = blob_bytes(n->blob);
    }
    if (place >= c->tree_cap) {
        size_t cap = 2 * place + 64;
        c->tree = mem_resize(c->tree, cap, sizeof(struct node *));
        memset(&c->tree[c->tree_cap], 0, (cap - c->tree_cap) * sizeof(struct node *));
        c->tree_cap = cap;
    }
    n->sibling = c->tree[place];
    c->tree[place] = n;
    return n;
}

struct node *cluster_node_find(const struct cluster *c, uint64_t index, uint64_t term)
{
    if (index < c->root->index)
        return NULL;
    uint64_t place = index - c->root->index;
    struct node *n = place < c->tree_cap ? c->tree[place] : NULL;

    while (n && n->term != term)
        n = n->sibling;
    return n;
}

struct node *cluster_node(struct cluster *c, struct node *previous, const struct raft_entry *e)
{
    struct node *n = cluster_node_find(c, e->index, e->term);

    if (e->index != previous->index + 1)
        cluster_broken(c, "log matching", "entry %lu follows entry %lu", e->index, previous->index);
    if (e->term < previous->term)
        cluster_broken(c, "log matching", "term %lu at index %lu follows term %lu", e->term,
                       e->index, previous->term);
    if (!n)
        return node_new(c, previous, e);
    if (n->previous != previous)
        cluster_broken(c, "log matching",
                       "entry %lu of term %lu follows term %lu here and term %lu elsewhere",
                       e->index, e->term, previous->term, n->previous->term);
    if (n->type != e->type || !bytes_equal(n->data, e->data))
        cluster_broken(c, "log matching", "entry %lu of term %lu has different contents", e->index,
                       e->term);
    return n;
}

void cluster_tree_open(struct cluster *c, uint64_t index, uint64_t term)
{
    c->root = mem_new(struct node);
    c->root->index = index;
    c->root->term = term;
    c->tree_cap = 512;
    c->tree = mem_new_array(c->tree_cap, struct node *);
    c->tree[0] = c->root;
    c->zero = index == 0 ? c->root : mem_new(struct node);
}

void cluster_tree_close(struct cluster *c)
{
    if (c->zero != c->root)
        mem_free(c->zero);
    for (size_t i = 0; i < c->tree_cap; i++) {
        while (c->tree[i]) {
            struct node *n = c->tree[i];
            c->tree[i] = n->sibling;
            blob_unref(n->blob);
            mem_free(n);
        }
    }
    mem_free(c->tree);
}

uint64_t cluster_client_proposal(const struct node *n)
{
    uint64_t number;

    if (n->type != RAFT_ENTRY_NORMAL || n->data.len < sizeof(number))
        return 0;
    memcpy(&number, n->data.at, sizeof(number));
    return number;
}

struct raft_entry cluster_entry_of(const struct node *n)
{
    return (struct raft_entry){
        .term = n->term, .index = n->index, .type = n->type, .data = n->data, .blob = n->blob};
}

/* --- paths --- */

uint64_t cluster_path_last(const struct path *p)
{
    return p->base->index + p->count;
}

struct node *cluster_path_at(const struct path *p, uint64_t index)
{
    if (index < p->base->index || index > cluster_path_last(p))
        return NULL;
    return index == p->base->index ? p->base : p->at[index - p->base->index - 1];
}

bool cluster_path_holds(const struct path *p, const struct node *n)
{
    return n->index <= p->base->index || cluster_path_at(p, n->index) == n;
}

void cluster_path_cut(struct path *p, uint64_t index)
{
    assert(index > p->base->index);
    if (index <= cluster_path_last(p))
        p->count = index - p->base->index - 1;
}

void cluster_path_push(struct path *p, struct node *n)
{
    assert(n->index == cluster_path_last(p) + 1);
    if (p->count == p->cap) {
        p->cap = 2 * p->cap + 64;
        p->at = mem_resize(p->at, p->cap, sizeof(struct node *));
    }
    p->at[p->count++] = n;
}

void cluster_path_compact(struct path *p, uint64_t index)
{
    if (index <= p->base->index)
        return;
    assert(index <= cluster_path_last(p));
    size_t dropped = index - p->base->index;
    p->base = p->at[dropped - 1];
    p->count -= dropped;
    memmove(p->at, p->at + dropped, p->count * sizeof(struct node *));
}

void cluster_path_reset(struct path *p, struct node *base)
{
    p->base = base;
    p->count = 0;
}

void cluster_path_copy(struct path *to, const struct path *from)
{
    cluster_path_reset(to, from->base);
    for (size_t i = 0; i < from->count; i++)
        cluster_path_push(to, from->at[i]);
}

void cluster_path_free(struct path *p)
{
    mem_free(p->at);
    *p = (struct path){0};
}
