#include "mvcc/keyindex_int.h"

/* --- ranges ------------------------------------------------------------------------------- */

struct key_range key_range(struct bytes key, struct bytes end)
{
    if (end.len == 0)
        return (struct key_range){.from = key, .one = true};
    if (end.len == 1 && end.at[0] == 0)
        return (struct key_range){.from = key};
    return (struct key_range){.from = key, .to = end};
}

static bool is_below_end(const struct key_range *r, struct bytes key)
{
    return !r->to.at || bytes_compare(key, r->to) < 0;
}

bool key_range_has(const struct key_range *r, struct bytes key)
{
    if (r->one)
        return bytes_equal(key, r->from);
    return bytes_compare(key, r->from) >= 0 && is_below_end(r, key);
}

bool key_ranges_overlap(const struct key_range *a, const struct key_range *b)
{
    if (a->one)
        return key_range_has(b, a->from);
    if (b->one)
        return key_range_has(a, b->from);
    return is_below_end(a, b->from) && is_below_end(b, a->from);
}

/* --- counting ----------------------------------------------------------------------------- */

static uint64_t count_all(const struct keyindex *ix, bool published)
{
    uint64_t total = 0;

    if (ix->height == 0)
        return (unsigned)__builtin_popcountll(leaf_living(ix, ix->root, published));
    const struct inner *root = ix->root;
    const uint32_t *living = inner_living(ix, root, published);
    for (unsigned i = 0; i < root->count; i++)
        total += living[i];
    return total;
}

static int64_t count_one(const struct keyindex *ix, struct bytes key, bool published)
{
    const void *node = ix->root;

    for (unsigned level = ix->height; level > 0; level--) {
        const struct inner *n = node;
        unsigned child = keyindex_tree_child(n, key);
        if (inner_child_is_gone(ix, n, child, published))
            return 0;
        node = n->children[child];
    }
    const struct leaf *l = node;
    unsigned place = keyindex_tree_place(l, key);
    return place < l->count && bytes_equal(record_key(l->records[place]), key) &&
           leaf_living(ix, l, published) >> place & 1;
}

int64_t keyindex_count(const struct keyindex *ix, const struct key_range *r, bool published)
{
    if (r->one)
        return count_one(ix, r->from, published);
    uint64_t before = keyindex_tree_rank(ix, r->from, published);
    uint64_t until = r->to.at ? keyindex_tree_rank(ix, r->to, published) : count_all(ix, published);
    return until > before ? (int64_t)(until - before) : 0;
}

/* --- cursors ------------------------------------------------------------------------------ */

/*
 * A cursor stands between two records: `place` of its leaf's are before it. It knows its leaf only
 * as long as the tree keeps its shape, and finds its way back by the key it has looked at last.
 */

void keyindex_cursor_open(struct keyindex *ix, const struct key_range *range, struct revision at,
                          bool backwards, struct keyindex_cursor *c)
{
    *c = (struct keyindex_cursor){.ix = ix, .range = *range, .at = at, .backwards = backwards};
}

void keyindex_cursor_close(struct keyindex_cursor *c)
{
    buf_free(&c->last);
    *c = (struct keyindex_cursor){.ended = true};
}

void keyindex_cursor_copy(const struct keyindex_cursor *c, struct keyindex_cursor *out)
{
    *out = *c;
    out->last = (struct buf){0};
    buf_append(&out->last, buf_bytes(&c->last));
}

static void stand_before(struct keyindex_cursor *c, struct bytes key, bool behind_it)
{
    bool found;
    unsigned place;

    c->leaf = keyindex_tree_find(c->ix, key, &place, &found);
    c->place = place + (found && behind_it);
}

static void seek(struct keyindex_cursor *c)
{
    const struct key_range *r = &c->range;

    if (c->started) {
        stand_before(c, buf_bytes(&c->last), !c->backwards);
    } else if (!c->backwards) {
        stand_before(c, r->from, false);
    } else if (r->one || r->to.at) {
        stand_before(c, r->one ? r->from : r->to, r->one);
    } else {
        struct leaf *l = keyindex_tree_edge(c->ix, true);
        c->leaf = l;
        c->place = l->count;
    }
    c->shape = c->ix->shape;
}

/* Memory is asked in time for the records to come. */
static void prefetch(const struct keyindex_cursor *c, const struct leaf *l)
{
    enum { AHEAD = 8 };
    unsigned place = c->backwards ? c->place - AHEAD : c->place + AHEAD;

    if (place < l->count) /* also not if it went below zero */
        __builtin_prefetch(l->records[place]);
}

/* The record the cursor comes across next, in either direction; NULL where the keys end. */
static const struct record *pass_one(struct keyindex_cursor *c)
{
    struct leaf *l = c->leaf;

    if (c->place == (c->backwards ? 0 : l->count)) {
        l = c->backwards ? l->left : l->right;
        if (!l)
            return NULL;
        c->leaf = l;
        c->place = c->backwards ? l->count : 0;
    }
    prefetch(c, l);
    if (c->backwards)
        return c->place > 0 ? l->records[--c->place] : NULL;
    return c->place < l->count ? l->records[c->place++] : NULL;
}

/* Is a key that the cursor has come to past the end of its range? It began inside. */
static bool is_past(const struct keyindex_cursor *c, struct bytes key)
{
    if (c->range.one)
        return !bytes_equal(key, c->range.from);
    return c->backwards ? bytes_compare(key, c->range.from) < 0 : !is_below_end(&c->range, key);
}

static void remember(struct keyindex_cursor *c, const struct record *r)
{
    if (!r)
        return;
    buf_clear(&c->last);
    buf_append(&c->last, record_key(r));
    c->started = true;
}

bool keyindex_cursor_next(struct keyindex_cursor *c, unsigned *steps, struct keyindex_found *out)
{
    const struct record *last = NULL;
    bool found = false;

    if (c->ended || *steps == 0)
        return false;
    if (!c->leaf || c->shape != c->ix->shape)
        seek(c);
    while (!found && *steps > 0) {
        const struct record *r = pass_one(c);
        if (!r || is_past(c, record_key(r))) {
            c->ended = true;
            return false;
        }
        last = r;
        (*steps)--;
        found = keyindex_look(c->ix, r, c->at, out);
    }
    remember(c, last);
    return found;
}
