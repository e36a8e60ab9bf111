/*
 * All leases, in slices.
 *
 * A slice walks some of the table's buckets. What it finds goes into runs of LEASE_LISTING_RUN,
 * each sorted when it is full; the list is made by merging them, a heap saying which has the next.
 * So no step of either costs more than O(log n), and nothing is sorted as a whole.
 */
#include "lease/lease_int.h"

#include "base/mem.h"

#include <stdlib.h>

struct listed {
    uint64_t place; /* when it expires, or its number */
    int64_t id;
};

struct run {
    struct heap_node node; /* by the first that is left */
    const struct listed *at, *end;
};

struct lease_listing {
    const struct lease_set *set;
    uint64_t last; /* number: later ones are not listed */
    struct table_walk walk;
    bool is_gathered;
    struct listed *listed;
    size_t count, cap;
    struct run *runs;
    size_t run_count;
    struct heap merging;
};

static int compare_listed(const void *left, const void *right)
{
    const struct listed *a = left, *b = right;

    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static bool run_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct run *x = container_of((struct heap_node *)a, struct run, node);
    const struct run *y = container_of((struct heap_node *)b, struct run, node);

    return compare_listed(x->at, y->at) < 0;
}

static size_t runs_of(size_t leases)
{
    return (leases + LEASE_LISTING_RUN - 1) / LEASE_LISTING_RUN;
}

size_t lease_listing_bytes(const struct lease_set *s)
{
    enum { HEAP_BYTES = 2 * sizeof(struct heap_node *) }; /* its array doubles */

    return sizeof(struct lease_listing) + s->count * sizeof(struct listed) +
           runs_of(s->count) * (sizeof(struct run) + HEAP_BYTES);
}

struct lease_listing *lease_listing_begin(const struct lease_set *s)
{
    struct lease_listing *l = mem_new(struct lease_listing);

    l->set = s;
    l->last = s->number;
    l->cap = s->count;
    l->listed = mem_new_array(l->cap, struct listed);
    l->runs = mem_new_array(runs_of(l->cap), struct run);
    heap_init(&l->merging, run_before);
    return l;
}

void lease_listing_end(struct lease_listing *l)
{
    if (!l)
        return;
    heap_free(&l->merging);
    mem_free(l->runs);
    mem_free(l->listed);
    mem_free(l);
}

/* --- gathering --- */

static void end_run(struct lease_listing *l)
{
    size_t begin = l->run_count * LEASE_LISTING_RUN;

    if (begin == l->count)
        return;
    qsort(l->listed + begin, l->count - begin, sizeof(*l->listed), compare_listed);
    struct run *run = &l->runs[l->run_count++];
    *run = (struct run){.at = l->listed + begin, .end = l->listed + l->count};
    heap_push(&l->merging, &run->node);
}

static void list_lease(struct lease_listing *l, const struct lease *lease)
{
    uint64_t place = l->set->primary ? lease_expires_ms(l->set, lease) : lease->number;

    assert(l->count < l->cap); /* no more are as old */
    l->listed[l->count++] = (struct listed){place, lease->id};
    if (l->count % LEASE_LISTING_RUN == 0)
        end_run(l);
}

/* How many were listed. */
static unsigned list_chain(struct lease_listing *l, const struct table_link *chain)
{
    unsigned listed = 0;

    for (const struct table_link *link = chain; link; link = link->next) {
        const struct lease *lease = container_of(link, struct lease, link);
        if (lease->number > l->last || !table_walk_meets(&l->walk, link))
            continue;
        list_lease(l, lease);
        listed++;
    }
    return listed;
}

bool lease_listing_gather(struct lease_listing *l, unsigned *steps)
{
    uint64_t left = (uint64_t)*steps * LEASE_LISTING_BUCKETS;
    struct table_link *chain;

    while (left > 0 && !l->is_gathered) {
        uint64_t cost = 1;
        if (table_walk(&l->set->table, &l->walk, &chain)) {
            cost += (uint64_t)list_chain(l, chain) * LEASE_LISTING_BUCKETS;
        } else {
            end_run(l);
            l->is_gathered = true;
        }
        left -= cost < left ? cost : left;
    }
    *steps = (unsigned)(left / LEASE_LISTING_BUCKETS);
    return l->is_gathered;
}

/* --- merging --- */

bool lease_listing_next(struct lease_listing *l, int64_t *id)
{
    struct heap_node *first = heap_first(&l->merging);
    assert(l->is_gathered);

    if (!first)
        return false;
    struct run *run = container_of(first, struct run, node);
    *id = run->at->id;
    run->at++;
    if (run->at == run->end) {
        run->at--; /* by which the heap knows it until it is off */
        heap_remove(&l->merging, first);
    } else {
        heap_moved(&l->merging, first);
    }
    return true;
}

void lease_list(const struct lease_set *s, struct buf *ids)
{
    struct lease_listing *l = lease_listing_begin(s);
    int64_t id;

    for (unsigned steps = UINT32_MAX; !lease_listing_gather(l, &steps); steps = UINT32_MAX)
        ;
    while (lease_listing_next(l, &id))
        buf_append(ids, bytes_of(&id, sizeof(id)));
    lease_listing_end(l);
}
