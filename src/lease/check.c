#include "lease/lease_int.h"

#include "base/map.h"

static void check_turn(const struct lease_set *s, const struct lease *l)
{
    if (!s->primary || !lease_is_settled(s, l))
        return;
    assert(heap_has(&l->turn) == !l->revoking);
    assert(!heap_has(&l->checkpoint) || s->options.checkpoint);
    if (l->revoking)
        return;
    const struct heap *heap = l->spread ? &s->due : &s->unspread;
    assert(heap->nodes[l->turn.place - 1] == &l->turn);
    assert(!l->spread || l->due_ms >= l->expires_ms); /* never taken early */
}

/* Whoever is not settled is still ahead of where settling stands. */
static void check_settling(const struct lease_set *s)
{
    bool ahead = false;
    size_t settled = 0, heapless = 0;

    LIST_FOREACH (link, (struct list *)&s->all) {
        const struct lease *l = lease_of_order(link);
        ahead |= s->settling == link;
        assert(!s->primary || ahead || lease_is_settled(s, l) || l->revoking);
        settled += lease_is_settled(s, l);
        heapless += lease_is_settled(s, l) && l->revoking;
    }
    assert(ahead || s->settling == &s->all);
    if (s->primary)
        assert(s->due.count + s->unspread.count == settled - heapless);
}

void lease_check(const struct lease_set *s)
{
    size_t leases = 0, keys = 0;

    table_check(&s->table);
    table_check(&s->keys);
    heap_check(&s->unspread);
    heap_check(&s->due);
    heap_check(&s->checkpoints);
    LIST_FOREACH (link, (struct list *)&s->all) {
        const struct lease *l = lease_of_order(link);
        assert(l->id != 0);
        assert(l->ttl >= s->options.min_ttl);
        assert(lease_find(s, l->id) == l);
        check_turn(s, l);
        keys_check(&s->keys, s->options.hash_seed, l, &l->keys);
        leases++;
        keys += l->keys.count;
    }
    assert(leases == s->count);
    assert(leases == s->table.count);
    assert(keys == s->keys.count);
    check_settling(s);
    if (!s->primary)
        assert(s->due.count + s->unspread.count + s->checkpoints.count == 0);
}
