#include "lease/table.h"

#include "base/assert.h"
#include "base/mem.h"

enum { SEGMENT = 512 };

/* All ones up to the highest bit of n, n > 0. */
static size_t mask_of(size_t n)
{
    return SIZE_MAX >> __builtin_clzl(n);
}

/* With 5 buckets, hashes ending in 5, 6 and 7 are still with 1, 2 and 3. */
static size_t bucket_of(const struct table *t, uint32_t hash)
{
    size_t mask = mask_of(t->bucket_count - 1);
    size_t bucket = hash & mask;

    return bucket < t->bucket_count ? bucket : bucket & (mask >> 1);
}

static struct table_link **head(const struct table *t, size_t bucket)
{
    return &t->segments[bucket / SEGMENT][bucket % SEGMENT];
}

static void add_segment(struct table *t)
{
    t->segments = mem_resize(t->segments, t->segment_count + 1, sizeof(struct table_link **));
    t->segments[t->segment_count++] = mem_new_array(SEGMENT, struct table_link *);
}

static void push(struct table *t, struct table_link *link)
{
    struct table_link **at = head(t, bucket_of(t, link->hash));

    link->next = *at;
    *at = link;
}

/* One bucket more: the one it was split from deals its links out anew. */
static void grow(struct table *t)
{
    size_t bucket = t->bucket_count;

    if (bucket == t->segment_count * SEGMENT)
        add_segment(t);
    struct table_link **from = head(t, bucket & (mask_of(bucket) >> 1));
    struct table_link *links = *from;
    *from = NULL;
    t->bucket_count++;
    for (struct table_link *next; links; links = next) {
        next = links->next;
        push(t, links);
    }
}

/* One bucket less. A whole empty segment is kept in reserve, or a table at the edge of one would
 * allocate and free it in turn. */
static void shrink(struct table *t)
{
    struct table_link *links = *head(t, t->bucket_count - 1);

    *head(t, t->bucket_count - 1) = NULL;
    t->bucket_count--;
    for (struct table_link *next; links; links = next) {
        next = links->next;
        push(t, links);
    }
    if (t->bucket_count + 2 * SEGMENT <= t->segment_count * SEGMENT)
        mem_free(t->segments[--t->segment_count]);
}

void table_free(struct table *t)
{
    for (size_t i = 0; i < t->segment_count; i++)
        mem_free(t->segments[i]);
    mem_free(t->segments);
    *t = (struct table){0};
}

void table_add(struct table *t, struct table_link *link)
{
    if (t->bucket_count == 0) {
        add_segment(t);
        t->bucket_count = SEGMENT;
    }
    push(t, link);
    t->count++;
    if (t->count > t->bucket_count)
        grow(t); /* one bucket for one link: the price of growing is part of each addition */
}

void table_remove(struct table *t, struct table_link *link)
{
    assert(t->count > 0);

    struct table_link **at = head(t, bucket_of(t, link->hash));
    while (*at != link) {
        assert(*at);
        at = &(*at)->next;
    }
    *at = link->next;
    link->next = NULL;
    t->count--;
    /* Two for each that goes, or the buckets would stay as many as had been emptied before. */
    for (int i = 0; i < 2; i++)
        if (t->bucket_count > SEGMENT && t->count < t->bucket_count / 2)
            shrink(t);
}

struct table_link *table_chain(const struct table *t, uint32_t hash)
{
    return t->count ? *head(t, bucket_of(t, hash)) : NULL;
}

struct table_link *table_bucket(const struct table *t, size_t bucket)
{
    assert(bucket < t->bucket_count);

    return *head(t, bucket);
}

/* --- a walk in pieces --- */

static uint32_t reverse_bits(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}

/* All hashes in a bucket end in the same bits: in these. */
static size_t common_bits(const struct table *t, size_t bucket)
{
    size_t mask = mask_of(t->bucket_count - 1);
    size_t highest = mask ^ mask >> 1;

    return (bucket | highest) < t->bucket_count ? mask : mask >> 1; /* it was split, or not yet */
}

bool table_walk(const struct table *t, struct table_walk *w, struct table_link **chain)
{
    if (t->bucket_count == 0 || w->next > UINT32_MAX)
        return false;
    w->from = w->next;
    size_t bucket = bucket_of(t, reverse_bits((uint32_t)w->from));
    size_t last = bucket | ~common_bits(t, bucket);
    w->next = (uint64_t)reverse_bits((uint32_t)last) + 1;
    assert(w->next > w->from);
    *chain = *head(t, bucket);
    return true;
}

bool table_walk_meets(const struct table_walk *w, const struct table_link *link)
{
    return reverse_bits(link->hash) >= w->from;
}

void table_check(const struct table *t)
{
    size_t found = 0;

    assert(t->bucket_count <= t->segment_count * SEGMENT);
    assert(t->count <= t->bucket_count);
    for (size_t bucket = 0; bucket < t->bucket_count; bucket++)
        for (const struct table_link *l = table_bucket(t, bucket); l; l = l->next) {
            assert(bucket_of(t, l->hash) == bucket);
            found++;
        }
    assert(found == t->count);
}
