#include "mvcc/keyindex_slab.h"

#include "base/mem.h"

#include <sanitizer/asan_interface.h>

struct slab_region {
    struct list link;
    struct list freed;           /* slabs that were given back */
    uint8_t *first;              /* slab */
    unsigned total, fresh, used; /* slabs: in all; handed out at least once; in use */
};

struct slab {
    struct list
        link; /* in slabs.open while it has space, in slab_region.freed while it is unused */
    struct slab_region *region;
    struct freed *freed;
    unsigned size, total, fresh, used; /* of things, as in the region */
};

/* A place that was given back. */
struct freed {
    struct freed *next;
};

struct large {
    struct list link;
};

enum {
    SLAB_HEADER_BYTES = 64, /* so that things of whole cache lines lie on whole cache lines */
    LARGE_OVERHEAD_BYTES = sizeof(struct large) + 16, /* with malloc's own */
};

static_assert((int)SLAB_REGION_BYTES == (int)MEM_PREPARED_BYTES, "regions can be prepared");
static_assert(sizeof(struct slab) <= SLAB_HEADER_BYTES, "a slab's header leaves space for things");
static_assert(sizeof(struct freed) <= SLAB_STEP_BYTES, "the smallest thing can be remembered");

void slabs_init(struct slabs *s)
{
    for (unsigned i = 0; i < SLAB_CLASSES; i++)
        list_init(&s->open[i]);
    list_init(&s->open_regions);
    list_init(&s->full);
    list_init(&s->empty);
    list_init(&s->large);
    s->regions = 0;
    s->bytes = 0;
}

/* --- regions ------------------------------------------------------------------------------ */

static struct slab_region *region_new(struct slabs *s)
{
    /* In huge pages a million keys are found and overwritten in a third less time, as measured. The
     * first region is left alone: most indexes never fill it. While the second is filled, those
     * that are to come are prepared. */
    bool huge_pages = s->regions > 1;
    struct slab_region *r = mem_map_region(SLAB_REGION_BYTES, huge_pages);
    if (s->regions++ > 0)
        mem_expect_regions();

    *r = (struct slab_region){.first = (uint8_t *)r + SLAB_BYTES,
                              .total = SLAB_REGION_BYTES / SLAB_BYTES - 1};
    list_init(&r->link);
    list_init(&r->freed);
    s->bytes += sizeof(*r);
    return r;
}

static void region_free(struct slabs *s, struct slab_region *r)
{
    ASAN_UNPOISON_MEMORY_REGION(r, SLAB_REGION_BYTES);
    list_remove(&r->link);
    s->bytes -= sizeof(*r);
    s->regions--;
    mem_unmap_region(r, SLAB_REGION_BYTES);
}

/* Puts it on the list where it belongs. */
static void region_sort(struct slabs *s, struct slab_region *r)
{
    list_remove(&r->link);
    if (r->used == 0)
        list_push_front(&s->empty, &r->link);
    else
        list_push_front(r->used < r->total ? &s->open_regions : &s->full, &r->link);
}

static struct slab_region *region_with_space(struct slabs *s)
{
    if (!list_empty(&s->open_regions))
        return container_of(s->open_regions.next, struct slab_region, link);
    if (!list_empty(&s->empty))
        return container_of(s->empty.next, struct slab_region, link);
    return region_new(s);
}

static struct slab *region_take(struct slabs *s)
{
    struct slab_region *r = region_with_space(s);
    struct list *again = list_pop_front(&r->freed);
    struct slab *b = again ? container_of(again, struct slab, link)
                           : (struct slab *)(void *)(r->first + (size_t)r->fresh++ * SLAB_BYTES);

    b->region = r;
    r->used++;
    region_sort(s, r);
    return b;
}

static void region_give(struct slabs *s, struct slab *b)
{
    struct slab_region *r = b->region;

    assert(r->used > 0);
    r->used--;
    list_push_front(&r->freed, &b->link);
    region_sort(s, r);
}

bool slabs_release(struct slabs *s)
{
    if (!list_empty(&s->empty))
        region_free(s, container_of(s->empty.next, struct slab_region, link));
    return !list_empty(&s->empty);
}

/* --- slabs -------------------------------------------------------------------------------- */

static struct slab *slab_new(struct slabs *s, unsigned class)
{
    struct slab *b = region_take(s);

    list_init(&b->link);
    b->freed = NULL;
    b->size = class * SLAB_STEP_BYTES;
    b->total = (SLAB_BYTES - SLAB_HEADER_BYTES) / b->size;
    b->fresh = 0;
    b->used = 0;
    list_push_front(&s->open[class], &b->link);
    s->bytes += SLAB_HEADER_BYTES;
    ASAN_POISON_MEMORY_REGION((uint8_t *)b + SLAB_HEADER_BYTES, SLAB_BYTES - SLAB_HEADER_BYTES);
    return b;
}

static void *slab_take(struct slabs *s, struct slab *b)
{
    void *at = b->freed;

    if (at) {
        ASAN_UNPOISON_MEMORY_REGION(at, b->size);
        b->freed = b->freed->next;
    } else {
        at = (uint8_t *)b + SLAB_HEADER_BYTES + (size_t)b->fresh++ * b->size;
        ASAN_UNPOISON_MEMORY_REGION(at, b->size);
        s->bytes += b->size;
    }
    if (++b->used == b->total)
        list_remove(&b->link);
    return at;
}

static void slab_give(struct slabs *s, struct slab *b, void *at)
{
    struct freed *f = at;

    f->next = b->freed;
    b->freed = f;
    ASAN_POISON_MEMORY_REGION(at, b->size);
    if (b->used-- == b->total)
        list_push_front(&s->open[b->size / SLAB_STEP_BYTES], &b->link);
    if (b->used > 0)
        return;
    list_remove(&b->link);
    s->bytes -= SLAB_HEADER_BYTES + (size_t)b->fresh * b->size;
    region_give(s, b);
}

/* --- what callers see --------------------------------------------------------------------- */

static unsigned class_of(size_t size)
{
    return size == 0 ? 1 : (unsigned)((size + SLAB_STEP_BYTES - 1) / SLAB_STEP_BYTES);
}

void *slabs_take(struct slabs *s, size_t size)
{
    if (size > SLAB_THING_BYTES_MAX) {
        struct large *l = mem_resize(NULL, 1, sizeof(*l) + size);
        list_init(&l->link);
        list_push_back(&s->large, &l->link);
        s->bytes += size + LARGE_OVERHEAD_BYTES;
        return l + 1;
    }
    unsigned class = class_of(size);
    struct list *open = &s->open[class];
    return slab_take(s, list_empty(open) ? slab_new(s, class)
                                         : container_of(open->next, struct slab, link));
}

void slabs_give(struct slabs *s, void *at, size_t size)
{
    if (size > SLAB_THING_BYTES_MAX) {
        struct large *l = (struct large *)at - 1;
        list_remove(&l->link);
        s->bytes -= size + LARGE_OVERHEAD_BYTES;
        mem_free(l);
        return;
    }
    /* Slabs lie at multiples of their size, so a thing needs no pointer to its own. */
    struct slab *b = (struct slab *)(void *)((uint8_t *)at - ((uintptr_t)at & (SLAB_BYTES - 1)));
    assert(b->size == class_of(size) * SLAB_STEP_BYTES);
    assert(b->used > 0);
    slab_give(s, b, at);
}

static void free_regions(struct slabs *s, struct list *regions)
{
    LIST_FOREACH (link, regions)
        region_free(s, container_of(link, struct slab_region, link));
}

void slabs_free(struct slabs *s)
{
    free_regions(s, &s->open_regions);
    free_regions(s, &s->full);
    free_regions(s, &s->empty);
    LIST_FOREACH (link, &s->large)
        mem_free(container_of(link, struct large, link));
    slabs_init(s);
}

/* --- invariants --------------------------------------------------------------------------- */

static size_t check_slab(const struct slab *b, bool is_open)
{
    assert(b->size > 0 && b->size % SLAB_STEP_BYTES == 0);
    assert(b->used > 0 && b->used <= b->fresh && b->fresh <= b->total);
    assert(is_open == (b->used < b->total));
    assert(b->region->used > 0);
    return SLAB_HEADER_BYTES + (size_t)b->fresh * b->size;
}

static size_t check_regions(const struct list *regions, bool empty, bool full)
{
    size_t bytes = 0;

    LIST_FOREACH (link, regions) {
        const struct slab_region *r = container_of(link, struct slab_region, link);
        unsigned freed = 0;
        LIST_FOREACH (unused, &r->freed)
            freed++;
        assert(r->used + freed == r->fresh && r->fresh <= r->total);
        assert(empty == (r->used == 0));
        assert(full == (r->used == r->total));
        bytes += sizeof(*r);
    }
    return bytes;
}

void slabs_check(const struct slabs *s)
{
    size_t bytes = check_regions(&s->open_regions, false, false) +
                   check_regions(&s->full, false, true) + check_regions(&s->empty, true, false);

    for (unsigned class = 0; class < SLAB_CLASSES; class ++)
        LIST_FOREACH (link, &s->open[class]) {
            const struct slab *b = container_of(link, struct slab, link);
            assert(b->size == class * SLAB_STEP_BYTES);
            bytes += check_slab(b, true);
        }
    assert(bytes <= s->bytes); /* the rest is full slabs and what is large */
}
