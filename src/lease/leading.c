/*
 * What only a leader knows: time.
 */
#include "lease/lease_int.h"

#include "base/mem.h"

static bool expires_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct lease *x = lease_of_turn((struct heap_node *)a);
    const struct lease *y = lease_of_turn((struct heap_node *)b);

    return x->expires_ms != y->expires_ms ? x->expires_ms < y->expires_ms : x->id < y->id;
}

static bool due_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct lease *x = lease_of_turn((struct heap_node *)a);
    const struct lease *y = lease_of_turn((struct heap_node *)b);

    return x->due_ms != y->due_ms ? x->due_ms < y->due_ms : x->id < y->id;
}

static bool checkpoint_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct lease *x = lease_of_checkpoint((struct heap_node *)a);
    const struct lease *y = lease_of_checkpoint((struct heap_node *)b);

    return x->checkpoint_ms != y->checkpoint_ms ? x->checkpoint_ms < y->checkpoint_ms
                                                : x->id < y->id;
}

void lease_leading_init(struct lease_set *s)
{
    heap_init(&s->unspread, expires_before);
    heap_init(&s->due, due_before);
    heap_init(&s->checkpoints, checkpoint_before);
    s->settling = &s->all;
    s->reign = 1; /* nobody's yet: a fresh lease has 0 */
}

void lease_leading_free(struct lease_set *s)
{
    heap_free(&s->unspread);
    heap_free(&s->due);
    heap_free(&s->checkpoints);
}

/* --- how long --- */

/* A file or a peer may name a time beyond any bound; to us it is a very long time. */
static uint64_t to_ms(int64_t seconds)
{
    if (seconds <= 0)
        return 0;
    return (uint64_t)(seconds < LEASE_TTL_MAX ? seconds : LEASE_TTL_MAX) * 1000;
}

/* What a new leader grants it. */
static uint64_t left_ms(const struct lease *l)
{
    return to_ms(l->remaining_ttl > 0 ? l->remaining_ttl : l->ttl);
}

uint64_t lease_expires_ms(const struct lease_set *s, const struct lease *l)
{
    if (lease_is_settled(s, l))
        return l->expires_ms;
    return s->promoted_ms + s->extend_ms + left_ms(l);
}

/* --- the heaps --- */

static void join_reign(struct lease_set *s, struct lease *l)
{
    if (lease_is_settled(s, l))
        return;
    l->reign = s->reign;
    l->turn = (struct heap_node){0};
    l->checkpoint = (struct heap_node){0};
    l->told = false;
}

static void leave_turn(struct lease_set *s, struct lease *l)
{
    if (heap_has(&l->turn))
        heap_remove(l->spread ? &s->due : &s->unspread, &l->turn);
}

static void be_due(struct lease_set *s, struct lease *l, uint64_t expires_ms)
{
    leave_turn(s, l);
    l->expires_ms = expires_ms;
    l->due_ms = expires_ms;
    l->spread = true;
    heap_push(&s->due, &l->turn);
}

/* Only a lease that will last longer than the interval is worth it. */
static void schedule_checkpoint(struct lease_set *s, struct lease *l, uint64_t time_ms,
                                uint64_t now_ms)
{
    if (!s->options.checkpoint || heap_has(&l->checkpoint) ||
        time_ms <= s->options.checkpoint_interval_ms)
        return;
    l->checkpoint_ms = now_ms + s->options.checkpoint_interval_ms;
    heap_push(&s->checkpoints, &l->checkpoint);
}

void lease_start(struct lease_set *s, struct lease *l, uint64_t now_ms)
{
    if (!s->primary)
        return;
    join_reign(s, l);
    be_due(s, l, now_ms + to_ms(l->ttl));
    schedule_checkpoint(s, l, to_ms(l->ttl), now_ms);
}

void lease_stop(struct lease_set *s, struct lease *l)
{
    /* Asked for its time later, a lease whose turn never came must still know it. */
    l->expires_ms = lease_expires_ms(s, l);
    join_reign(s, l);
    leave_turn(s, l);
    if (heap_has(&l->checkpoint))
        heap_remove(&s->checkpoints, &l->checkpoint);
}

/* --- promotion --- */

/* The heaps are emptied without a look at what is on them: the nodes are of an old reign then, and
 * count as being nowhere. */
static void begin_reign(struct lease_set *s, bool primary)
{
    s->reign++;
    s->primary = primary;
    heap_free(&s->unspread);
    heap_free(&s->due);
    heap_free(&s->checkpoints);
}

void lease_promote(struct lease_set *s, uint64_t now_ms, uint64_t extend_ms)
{
    begin_reign(s, true);
    s->promoted_ms = now_ms;
    s->extend_ms = extend_ms;
    s->settling = s->all.next;
    s->pile.wanted = s->count >= LEASE_SPREAD_FROM;
    s->pile.count = 0;
    (void)lease_settle(s, LEASE_SETTLE_STEPS); /* with few leases that is all */
}

void lease_demote(struct lease_set *s)
{
    begin_reign(s, false);
    s->settling = &s->all;
}

bool lease_is_primary(const struct lease_set *s)
{
    return s->primary;
}

static void settle(struct lease_set *s, struct lease *l)
{
    if (lease_is_settled(s, l) || l->revoking)
        return;
    l->expires_ms = lease_expires_ms(s, l);
    join_reign(s, l);
    l->spread = false;
    heap_push(&s->unspread, &l->turn);
    schedule_checkpoint(s, l, left_ms(l), s->promoted_ms);
}

/*
 * Told in order of expiry. A pile begins where there was time enough before it: its first 750 may
 * expire as they were to, whatever follows within the second or on the heels of it is put on a line
 * of 750 a second. Never earlier than it was to.
 */
static uint64_t spread(struct lease_set *s, uint64_t expires_ms)
{
    uint64_t line_ms =
        s->pile.from_ms + (s->pile.count * 1000 + LEASE_SPREAD_PER_S - 1) / LEASE_SPREAD_PER_S;

    if (s->pile.count == 0 || (expires_ms > s->pile.from_ms + 1000 && expires_ms > line_ms)) {
        s->pile.from_ms = expires_ms;
        s->pile.count = 1;
        return expires_ms;
    }
    s->pile.count++;
    if (s->pile.count <= LEASE_SPREAD_PER_S || line_ms < expires_ms)
        return expires_ms;
    return line_ms;
}

bool lease_settle(struct lease_set *s, unsigned steps)
{
    for (; steps && s->settling != &s->all; steps--) {
        struct lease *l = lease_of_order(s->settling);
        s->settling = s->settling->next;
        settle(s, l);
    }
    for (; steps && s->unspread.count; steps--) {
        struct lease *l = lease_of_turn(heap_pop(&s->unspread));
        be_due(s, l, s->pile.wanted ? spread(s, l->expires_ms) : l->expires_ms);
    }
    return s->settling == &s->all && s->unspread.count == 0;
}

/* --- while leading --- */

enum lease_result lease_renew(struct lease_set *s, int64_t id, uint64_t now_ms, int64_t *ttl,
                              bool *needs_checkpoint)
{
    if (!s->primary)
        return LEASE_NOT_PRIMARY;
    struct lease *l = lease_find(s, id);
    if (!l)
        return LEASE_NOT_FOUND;
    if (l->revoking || lease_expires_ms(s, l) <= now_ms)
        return LEASE_EXPIRED;

    lease_start(s, l, now_ms);
    s->stats.renewed++;
    *ttl = l->ttl;
    /* One that is on its way speaks of the time before this renewal, too: were it the last word in
     * the log, the next leader would let the lease expire early. Nor does it matter whether we tell
     * such things ourselves (etcd clears nothing then): a leader before us did. */
    *needs_checkpoint = l->remaining_ttl > 0 || l->told;
    return LEASE_OK;
}

size_t lease_take_expired(struct lease_set *s, uint64_t now_ms, int64_t ids[], size_t max)
{
    size_t count = 0;

    /* Not before all are in place: the order would not be that of expiry, nor the spread even. */
    if (!s->primary || !lease_settle(s, LEASE_SETTLE_STEPS))
        return 0;
    if (max > LEASE_REVOKES_MAX)
        max = LEASE_REVOKES_MAX;
    while (count < max && s->due.count) {
        struct lease *l = lease_of_turn(heap_first(&s->due));
        if (l->due_ms > now_ms)
            break;
        assert(l->expires_ms <= now_ms);
        /* It stays on the heap, for later: the proposal may be lost, with the leader or for want of
         * one, and nobody tells us. Only the revoke that comes back through the log takes it off.
         */
        ids[count++] = l->id;
        l->due_ms = now_ms + LEASE_RETRY_MS;
        heap_moved(&s->due, &l->turn);
    }
    return count;
}

/* The first one on the heap is due. Again after another interval, as long as it lasts that long,
 * whether or not this one gets through the log. True if it is worth telling. */
static bool checkpoint_one(struct lease_set *s, uint64_t now_ms, struct lease_remaining *out)
{
    struct lease *l = lease_of_checkpoint(heap_first(&s->checkpoints));
    uint64_t lasts_ms = l->expires_ms > now_ms ? l->expires_ms - now_ms : 0;

    heap_remove(&s->checkpoints, &l->checkpoint);
    schedule_checkpoint(s, l, lasts_ms, now_ms);
    *out = (struct lease_remaining){l->id, (int64_t)((lasts_ms + 999) / 1000)};
    if (lasts_ms == 0 || out->remaining_ttl >= l->ttl)
        return false;
    l->told = true;
    return true;
}

size_t lease_take_checkpoints(struct lease_set *s, uint64_t now_ms, struct lease_remaining out[],
                              size_t max)
{
    size_t count = 0;

    if (max > LEASE_CHECKPOINTS_MAX)
        max = LEASE_CHECKPOINTS_MAX;
    for (unsigned looks = 0; looks < LEASE_SETTLE_STEPS && count < max && s->checkpoints.count;
         looks++) {
        struct lease *first = lease_of_checkpoint(heap_first(&s->checkpoints));
        if (first->checkpoint_ms > now_ms)
            break;
        count += checkpoint_one(s, now_ms, &out[count]);
    }
    return count;
}
