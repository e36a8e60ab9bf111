#include "watch/watch_int.h"

#include "base/assert.h"
#include "base/mem.h"

enum { BUCKETS_MIN = 4 };

/* --- interests --- */

struct interest *interest_new(struct watch *hub, enum interest_kind kind, uint8_t wants,
                              struct bytes from, struct bytes to)
{
    assert(from.len > 0);
    assert((kind == INTEREST_RANGE) == (to.len > 0));

    struct interest *i = hub_alloc(hub, sizeof(*i) + from.len + to.len);
    list_init(&i->watchers);
    i->from_len = (uint32_t)from.len;
    i->to_len = (uint32_t)to.len;
    i->wants = wants;
    i->kind = (uint8_t)kind;
    memcpy(i->at, from.at, from.len);
    if (to.len > 0)
        memcpy(i->at + from.len, to.at, to.len);
    if (kind != INTEREST_KEY) {
        /* The weight is hashed with a secret: clients choose ranges, and one who could choose
         * weights with them would make a tree as tall as it has nodes. */
        i->range = hub_alloc(hub, sizeof(*i->range));
        i->range->interest = i;
        i->range->weight = map_hash(bytes_of(i->at, from.len + to.len), hub->seed + wants);
    }
    return i;
}

void interest_free(struct watch *hub, struct interest *i)
{
    if (!i)
        return;
    assert(!i->group);
    if (i->kind != INTEREST_KEY)
        hub_free(hub, i->range, sizeof(*i->range));
    hub_free(hub, i, sizeof(*i) + i->from_len + i->to_len);
}

/* Does it reach beyond the key, wherever it begins? */
static bool reaches(const struct interest *i, struct bytes key)
{
    return i->kind == INTEREST_FROM || bytes_compare(key, interest_to(i)) < 0;
}

bool interest_covers(const struct interest *i, struct bytes key)
{
    if (i->kind == INTEREST_KEY)
        return bytes_equal(interest_from(i), key);
    return bytes_compare(interest_from(i), key) <= 0 && reaches(i, key);
}

/* --- the tree of ranges --- */

static int compare_interests(const struct interest *a, const struct interest *b)
{
    int order = bytes_compare(interest_from(a), interest_from(b));

    if (order == 0)
        order = bytes_compare(interest_to(a), interest_to(b));
    if (order == 0)
        order = (a->wants > b->wants) - (a->wants < b->wants);
    return order;
}

static struct range_node *range_of(const struct treap_node *n)
{
    return container_of(n, struct range_node, link);
}

static int range_compare(const void *key, const struct treap_node *n)
{
    return compare_interests(key, range_of(n)->interest);
}

static const void *range_key(const struct treap_node *n)
{
    return range_of(n)->interest;
}

static uint64_t range_weight(const struct treap_node *n)
{
    return range_of(n)->weight;
}

static bool ends_later(const struct interest *a, const struct interest *b)
{
    if (a->kind == INTEREST_FROM || b->kind == INTEREST_FROM)
        return b->kind != INTEREST_FROM;
    return bytes_compare(interest_to(a), interest_to(b)) > 0;
}

static void range_changed(struct treap_node *n)
{
    struct range_node *r = range_of(n);

    r->widest = r->interest;
    if (n->left && ends_later(range_of(n->left)->widest, r->widest))
        r->widest = range_of(n->left)->widest;
    if (n->right && ends_later(range_of(n->right)->widest, r->widest))
        r->widest = range_of(n->right)->widest;
}

static const struct treap_order range_order = {
    .compare = range_compare,
    .key = range_key,
    .weight = range_weight,
    .changed = range_changed,
};

static void match_ranges(struct treap_node *n, struct bytes key, struct buf *out)
{
    if (!n || !reaches(range_of(n)->widest, key))
        return;
    match_ranges(n->left, key, out);
    struct interest *i = range_of(n)->interest;
    if (bytes_compare(interest_from(i), key) > 0)
        return; /* and all to the right begin later still */
    if (reaches(i, key))
        buf_append(out, bytes_of(&i, sizeof(struct interest *)));
    match_ranges(n->right, key, out);
}

/* --- the table of keys --- */

/* The bucket that gave the nth its content when it was added. */
static size_t mate_of(size_t n)
{
    return n - ((size_t)1 << (63 - __builtin_clzll(n)));
}

static size_t bucket_for(const struct watcher_group *c, struct bytes key)
{
    size_t top = (size_t)1 << (64 - __builtin_clzll(c->bucket_count - 1));
    size_t n = map_hash(key, c->hub->seed) & (top - 1);

    return n < c->bucket_count ? n : n & (top / 2 - 1);
}

static void resize_buckets(struct watcher_group *c, size_t cap)
{
    c->buckets = mem_resize(c->buckets, cap, sizeof(struct interest *));
    c->hub->bytes += cap * sizeof(struct interest *);
    c->hub->bytes -= c->bucket_cap * sizeof(struct interest *);
    c->bucket_cap = cap;
}

static void push(struct watcher_group *c, struct interest *i)
{
    struct interest **bucket = &c->buckets[bucket_for(c, interest_from(i))];

    i->next = *bucket;
    *bucket = i;
}

static void add_bucket(struct watcher_group *c)
{
    if (c->bucket_count == c->bucket_cap)
        resize_buckets(c, 2 * c->bucket_cap);
    struct interest **mate = &c->buckets[mate_of(c->bucket_count)];
    struct interest *chain = *mate;
    *mate = NULL;
    c->buckets[c->bucket_count++] = NULL;
    while (chain) {
        struct interest *i = chain;
        chain = i->next;
        push(c, i);
    }
}

static void drop_bucket(struct watcher_group *c)
{
    struct interest *chain = c->buckets[--c->bucket_count];
    struct interest **end = &c->buckets[mate_of(c->bucket_count)];

    while (*end)
        end = &(*end)->next;
    *end = chain;
    if (c->bucket_cap > BUCKETS_MIN && c->bucket_count * 4 <= c->bucket_cap)
        resize_buckets(c, c->bucket_cap / 2);
}

static void key_insert(struct watcher_group *c, struct interest *i)
{
    if (!c->buckets) {
        resize_buckets(c, BUCKETS_MIN);
        memset(c->buckets, 0, BUCKETS_MIN * sizeof(struct interest *));
        c->bucket_count = BUCKETS_MIN;
    }
    push(c, i);
    c->key_count++;
    if (c->key_count > c->bucket_count)
        add_bucket(c);
}

static void key_remove(struct watcher_group *c, struct interest *i)
{
    struct interest **link = &c->buckets[bucket_for(c, interest_from(i))];

    while (*link != i)
        link = &(*link)->next;
    *link = i->next;
    c->key_count--;
    /* At a quarter and not as soon as one is too many: who comes and goes all the time would split
     * and join the same bucket each time. */
    while (c->bucket_count > BUCKETS_MIN && c->key_count * 4 < c->bucket_count)
        drop_bucket(c);
}

static struct interest *key_find(const struct watcher_group *c, const struct interest *like)
{
    if (c->key_count == 0)
        return NULL;
    struct interest *i = c->buckets[bucket_for(c, interest_from(like))];
    while (i && compare_interests(like, i) != 0)
        i = i->next;
    return i;
}

/* --- groups --- */

static const void *watcher_group_key(const struct treap_node *n)
{
    const struct watcher_group *c = container_of(n, struct watcher_group, by_next);

    return &c->key;
}

static int watcher_group_compare(const void *key, const struct treap_node *n)
{
    const struct watcher_group_key *a = key;
    const struct watcher_group_key *b = watcher_group_key(n);

    if (a->next != b->next)
        return a->next < b->next ? -1 : 1;
    return (a->serial > b->serial) - (a->serial < b->serial);
}

static uint64_t watcher_group_weight(const struct treap_node *n)
{
    const struct watcher_group *c = container_of(n, struct watcher_group, by_next);

    return map_hash(bytes_of(&c->key.serial, sizeof(c->key.serial)), c->hub->seed);
}

const struct treap_order watcher_group_order = {
    .compare = watcher_group_compare,
    .key = watcher_group_key,
    .weight = watcher_group_weight,
};

struct watcher_group *watcher_group_new(struct watch *hub, int64_t next, uint32_t grace)
{
    struct watcher_group *c = hub_alloc(hub, sizeof(*c));

    c->hub = hub;
    c->key = (struct watcher_group_key){.next = next, .serial = ++hub->watcher_group_serial};
    list_init(&c->round);
    list_init(&c->prompt);
    watcher_group_set_grace(c, grace);
    return c;
}

void watcher_group_free(struct watcher_group *c)
{
    assert(c->count == 0);
    assert(c->key_count == 0);
    assert(!c->ranges);
    assert(list_empty(&c->round));

    watcher_group_set_grace(c, GRACE_NONE);
    c->hub->bytes -= c->bucket_cap * sizeof(struct interest *);
    mem_free(c->buckets);
    hub_free(c->hub, c, sizeof(*c));
}

static struct interest *find_equal(const struct watcher_group *c, const struct interest *like)
{
    if (like->kind == INTEREST_KEY)
        return key_find(c, like);
    struct treap_node *n = treap_find(&range_order, c->ranges, like);
    return n ? range_of(n)->interest : NULL;
}

static void attach(struct watcher_group *c, struct interest *i)
{
    i->group = c;
    if (i->kind == INTEREST_KEY)
        key_insert(c, i);
    else
        treap_insert(&range_order, &c->ranges, &i->range->link);
}

static void detach(struct watcher_group *c, struct interest *i)
{
    i->group = NULL;
    if (i->kind == INTEREST_KEY)
        key_remove(c, i);
    else
        treap_remove(&range_order, &c->ranges, &i->range->link);
    if (i->gather != 0) /* a chunk under way has noted it, and must not come back to it */
        chunk_forget(c == c->hub->live ? &c->hub->chunk : &c->hub->walk.chunk, i);
}

void watcher_group_join(struct watcher_group *c, struct watcher *w)
{
    assert(w->interest && !w->interest->group);

    struct interest *i = find_equal(c, w->interest);
    if (i) {
        interest_free(c->hub, w->interest);
        w->interest = i;
    } else {
        attach(c, w->interest);
    }
    list_init(&w->link);
    list_push_back(&w->interest->watchers, &w->link);
    c->count++;
}

void watcher_group_leave(struct watcher_group *c, struct watcher *w)
{
    struct interest *i = w->interest;

    assert(i->group == c);
    assert(c->count > 0);

    list_remove(&w->link);
    c->count--;
    if (list_empty(&i->watchers))
        detach(c, i);
    else
        w->interest = interest_new(c->hub, i->kind, i->wants, interest_from(i), interest_to(i));

    assert(!w->interest->group);
}

/*
 * Goes on where it was last, downwards and around, since whoever empties the group asks for each of
 * its members: from the top each time, it would pass over all that is empty already, which is up to
 * three quarters of the table. A round costs as much as the table is large, and that is no more
 * than four times what the round finds in it, whoever joins meanwhile.
 */
static struct interest *any_key(struct watcher_group *c)
{
    assert(c->key_count > 0);

    if (c->cursor >= c->bucket_count)
        c->cursor = c->bucket_count - 1; /* it has shrunk */
    while (!c->buckets[c->cursor])
        c->cursor = (c->cursor > 0 ? c->cursor : c->bucket_count) - 1;
    return c->buckets[c->cursor];
}

struct watcher *watcher_group_any(struct watcher_group *c)
{
    assert(c->count > 0);

    struct interest *i = c->ranges ? range_of(c->ranges)->interest : any_key(c);
    return container_of(i->watchers.next, struct watcher, link);
}

void watcher_group_match(const struct watcher_group *c, struct bytes key, struct buf *out)
{
    if (c->key_count > 0) {
        struct interest *i = c->buckets[bucket_for(c, key)];
        for (; i; i = i->next) {
            if (bytes_equal(interest_from(i), key))
                buf_append(out, bytes_of(&i, sizeof(struct interest *)));
        }
    }
    match_ranges(c->ranges, key, out);
}

/* --- the invariants --- */

static size_t check_interest(const struct watcher_group *c, const struct interest *i)
{
    size_t count = 0;

    assert(i->group == c);
    assert(!list_empty(&i->watchers));
    LIST_FOREACH (link, &i->watchers) {
        const struct watcher *w = container_of(link, struct watcher, link);
        assert(w->place == WATCHER_MEMBER);
        assert(w->interest == i);
        count++;
    }
    return count;
}

static size_t check_ranges(const struct watcher_group *c, const struct treap_node *n,
                           const struct interest *after, const struct interest *before)
{
    if (!n)
        return 0;
    const struct range_node *r = range_of(n);
    assert(r->interest->range == r);
    assert(r->interest->kind != INTEREST_KEY);
    assert(!after || compare_interests(after, r->interest) < 0);
    assert(!before || compare_interests(r->interest, before) < 0);
    assert(!n->left || range_of(n->left)->weight <= r->weight);
    assert(!n->right || range_of(n->right)->weight <= r->weight);
    assert(!ends_later(r->interest, r->widest));
    assert(!n->left || !ends_later(range_of(n->left)->widest, r->widest));
    assert(!n->right || !ends_later(range_of(n->right)->widest, r->widest));
    return check_interest(c, r->interest) + check_ranges(c, n->left, after, r->interest) +
           check_ranges(c, n->right, r->interest, before);
}

void watcher_group_check(const struct watcher_group *c)
{
    size_t keys = 0;
    size_t members = check_ranges(c, c->ranges, NULL, NULL);

    for (size_t n = 0; n < c->bucket_count; n++) {
        for (const struct interest *i = c->buckets[n]; i; i = i->next) {
            assert(i->kind == INTEREST_KEY);
            assert(bucket_for(c, interest_from(i)) == n);
            members += check_interest(c, i);
            keys++;
        }
    }
    assert(keys == c->key_count);
    assert(members == c->count);
    assert(c->bucket_count <= c->bucket_cap);
    assert(c->key_count <= c->bucket_count);
}
