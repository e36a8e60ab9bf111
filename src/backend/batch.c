#include "backend/batch.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>

struct batch *batch_new(void)
{
    struct batch *b = mem_new(struct batch);

    rng_seed(&b->rng, 1); /* no secret: who chooses keys does not choose heights */
    atomic_init(&b->refs, 1);
    return b;
}

struct batch *batch_ref(struct batch *b)
{
    unsigned before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);

    assert(before > 0);
    return b;
}

bool batch_unref(struct batch *b)
{
    unsigned before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);

    assert(before > 0);
    return before == 1;
}

void batch_free(struct batch *b)
{
    if (!b)
        return;
    arena_free(&b->arena);
    mem_free(b);
}

/* Keys with different prefixes are ordered by them; zeroes stand in for what a short key lacks, so
 * equal prefixes prove nothing. */
static uint64_t prefix_of(struct bytes key)
{
    uint64_t prefix = 0;

    memcpy(&prefix, key.at, key.len < sizeof(prefix) ? key.len : sizeof(prefix));
    return __builtin_bswap64(prefix);
}

static inline int node_compare(const struct batch_node *node, uint64_t prefix, struct bytes key)
{
    if (node->prefix != prefix)
        return node->prefix < prefix ? -1 : 1;
    return bytes_compare(batch_node_key(node), key);
}

/* The link on each level that leads to the first node >= key. Returns that node. */
static struct batch_node *find(struct batch_list *list, uint64_t prefix, struct bytes key,
                               struct batch_node **links[BATCH_LEVELS])
{
    struct batch_node *before = NULL;

    for (int level = BATCH_LEVELS - 1; level >= 0; level--) {
        struct batch_node **link = before ? &before->next[level] : &list->first[level];
        while (*link && node_compare(*link, prefix, key) < 0) {
            before = *link;
            link = &before->next[level];
        }
        links[level] = link;
    }
    return *links[0];
}

static unsigned random_height(struct batch *b)
{
    uint64_t bits = rng_next(&b->rng) | 1ull << (2 * (BATCH_LEVELS - 1));

    return 1 + (unsigned)__builtin_ctzll(bits) / 2;
}

static struct batch_node *node_new(struct batch *b, uint64_t prefix, struct bytes key,
                                   unsigned height)
{
    size_t head = sizeof(struct batch_node) + height * sizeof(struct batch_node *);
    struct batch_node *node = arena_space(&b->arena, head + key.len);
    uint8_t *at = (uint8_t *)node + head;

    memcpy(at, key.at, key.len);
    node->prefix = prefix;
    node->newest = NULL;
    node->key = at;
    node->key_len = (uint32_t)key.len;
    for (unsigned level = 0; level < height; level++)
        node->next[level] = NULL;
    return node;
}

static struct batch_node *append(struct batch *b, struct batch_list *list, uint64_t prefix,
                                 struct bytes key)
{
    unsigned height = random_height(b);
    struct batch_node *node = node_new(b, prefix, key, height);

    for (unsigned level = 0; level < height; level++) {
        if (list->last[level])
            list->last[level]->next[level] = node;
        else
            list->first[level] = node;
        list->last[level] = node;
    }
    list->count++;
    return node;
}

static struct batch_node *insert(struct batch *b, struct batch_list *list, uint64_t prefix,
                                 struct bytes key)
{
    struct batch_node **links[BATCH_LEVELS];
    struct batch_node *found = find(list, prefix, key, links);

    if (found && node_compare(found, prefix, key) == 0)
        return found;
    unsigned height = random_height(b);
    struct batch_node *node = node_new(b, prefix, key, height);
    for (unsigned level = 0; level < height; level++) {
        node->next[level] = *links[level];
        *links[level] = node;
        if (!node->next[level])
            list->last[level] = node;
    }
    list->count++;
    return node;
}

static struct batch_version *write_version(struct batch *b, enum bucket bucket, struct bytes key,
                                           size_t len, uint64_t stamp)
{
    assert(bucket < BUCKET_COUNT);
    assert(key.len > 0);
    assert(key.len <= BACKEND_KEY_BYTES_MAX);
    assert(len <= BACKEND_VALUE_BYTES_MAX);

    struct batch_list *list = &b->lists[bucket];
    uint64_t prefix = prefix_of(key);
    /* Revisions grow, so nearly every write of BUCKET_KEY is behind the last, and needs no search.
     */
    bool behind = !list->last[0] || node_compare(list->last[0], prefix, key) < 0;
    struct batch_node *node = behind ? append(b, list, prefix, key) : insert(b, list, prefix, key);
    struct batch_version *v = node->newest;
    assert(!v || v->stamp <= stamp);

    b->has_writes = true;
    /* Each view has taken a stamp for itself: a version of the present one was seen by nobody. */
    bool replaces = v && v->stamp == stamp;
    if (!replaces || v->cap < len) {
        struct batch_version *older = replaces ? v->older : v;
        v = arena_space(&b->arena, sizeof(*v) + len);
        v->stamp = stamp;
        v->older = older;
        v->cap = (uint32_t)len;
        node->newest = v;
    }
    v->len = (uint32_t)len;
    v->deleted = false;
    return v;
}

uint8_t *batch_put_space(struct batch *b, enum bucket bucket, struct bytes key, size_t len,
                         uint64_t stamp)
{
    return write_version(b, bucket, key, len, stamp)->at;
}

void batch_delete(struct batch *b, enum bucket bucket, struct bytes key, uint64_t stamp)
{
    write_version(b, bucket, key, 0, stamp)->deleted = true;
}

const struct batch_node *batch_seek(const struct batch *b, enum bucket bucket, struct bytes from)
{
    const struct batch_list *list = &b->lists[bucket];

    if (!list->first[0] || from.len == 0)
        return list->first[0];
    uint64_t prefix = prefix_of(from);
    if (node_compare(list->last[0], prefix, from) < 0)
        return NULL;
    if (node_compare(list->first[0], prefix, from) >= 0)
        return list->first[0];

    struct batch_node *const *next = list->first;
    for (int level = BATCH_LEVELS - 1; level >= 0; level--)
        while (next[level] && node_compare(next[level], prefix, from) < 0)
            next = next[level]->next;
    return next[0];
}

const struct batch_version *batch_get(const struct batch *b, enum bucket bucket, struct bytes key,
                                      uint64_t limit)
{
    const struct batch_node *node = batch_seek(b, bucket, key);

    if (!node || !bytes_equal(batch_node_key(node), key))
        return NULL;
    return batch_version_at(node, limit);
}

/* --- deletes made ahead ------------------------------------------------------------------- */

enum { AHEAD_HEAD_BYTES = 5, AHEAD_CHUNK_BYTES = 3 * 1024 };

static uint8_t *ahead_space(struct batch *b, size_t len)
{
    struct batch_ahead *c = b->ahead;

    if (!c || c->cap - c->used < len) {
        size_t cap = len > AHEAD_CHUNK_BYTES ? len : AHEAD_CHUNK_BYTES;
        c = arena_space(&b->arena, sizeof(*c) + cap);
        *c = (struct batch_ahead){.older = b->ahead, .cap = (uint32_t)cap};
        b->ahead = c;
    }
    uint8_t *at = c->at + c->used;
    c->used += (uint32_t)len;
    return at;
}

void batch_delete_ahead(struct batch *b, enum bucket bucket, struct bytes key, uint64_t stamp)
{
    uint32_t len = (uint32_t)key.len;

    assert(bucket < BUCKET_COUNT);
    assert(key.len > 0);
    assert(key.len <= BACKEND_KEY_BYTES_MAX);
    if (batch_get(b, bucket, key, stamp)) {
        batch_delete(b, bucket, key, stamp); /* ahead of the write, it would be too early */
        return;
    }
    uint8_t *at = ahead_space(b, AHEAD_HEAD_BYTES + key.len);
    *at = (uint8_t)bucket;
    memcpy(at + 1, &len, sizeof(len));
    memcpy(at + AHEAD_HEAD_BYTES, key.at, key.len);
    b->ahead_count++;
    b->has_writes = true;
}

struct bytes batch_ahead_read(const uint8_t *item, enum bucket *bucket)
{
    uint32_t len;

    *bucket = (enum bucket) * item;
    memcpy(&len, item + 1, sizeof(len));
    return bytes_of(item + AHEAD_HEAD_BYTES, len);
}

static int compare_ahead(const void *one, const void *two)
{
    enum bucket bucket[2];
    struct bytes a = batch_ahead_read(*(const uint8_t *const *)one, &bucket[0]);
    struct bytes b = batch_ahead_read(*(const uint8_t *const *)two, &bucket[1]);

    return bucket[0] == bucket[1] ? bytes_compare(a, b) : bucket[0] < bucket[1] ? -1 : 1;
}

const uint8_t **batch_ahead_sorted(const struct batch *b)
{
    const uint8_t **list = mem_resize(NULL, b->ahead_count, sizeof(*list));
    size_t count = 0;
    enum bucket bucket;

    for (const struct batch_ahead *c = b->ahead; c; c = c->older)
        for (const uint8_t *at = c->at; at < c->at + c->used;) {
            list[count++] = at;
            struct bytes key = batch_ahead_read(at, &bucket);
            at = key.at + key.len;
        }
    assert(count == b->ahead_count);
    qsort(list, count, sizeof(*list), compare_ahead);
    return list;
}

/* --- invariants --------------------------------------------------------------------------- */

static void check_node(const struct batch_node *node)
{
    assert(node->prefix == prefix_of(batch_node_key(node)));
    assert(node->newest);
    for (const struct batch_version *v = node->newest; v; v = v->older) {
        assert(v->len <= v->cap);
        assert(!v->deleted || v->len == 0);
        assert(!v->older || v->older->stamp < v->stamp);
    }
}

static void check_list(const struct batch_list *list)
{
    size_t count = 0;

    for (const struct batch_node *node = list->first[0]; node; node = node->next[0]) {
        check_node(node);
        assert(!node->next[0] ||
               bytes_compare(batch_node_key(node), batch_node_key(node->next[0])) < 0);
        count++;
    }
    assert(count == list->count);
    for (int level = 0; level < BATCH_LEVELS; level++) {
        const struct batch_node *last = NULL;
        for (const struct batch_node *node = list->first[level]; node; node = node->next[level])
            last = node;
        assert(last == list->last[level]);
    }
}

void batch_check(const struct batch *b)
{
    assert(atomic_load_explicit(&b->refs, memory_order_relaxed) > 0);
    for (int bucket = 0; bucket < BUCKET_COUNT; bucket++)
        check_list(&b->lists[bucket]);
    assert(!b->ahead == (b->ahead_count == 0));
    for (const struct batch_ahead *c = b->ahead; c; c = c->older)
        assert(c->used > 0 && c->used <= c->cap);
}
