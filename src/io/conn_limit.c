#include "io/conn_limit.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "io/clock.h"
#include "io/net.h"

/* Whoever has proved connections. */
struct conn_owner {
    uint64_t id;
    unsigned count;
    struct list conns;
};

void conn_limit_init(struct conn_limit *l, unsigned max)
{
    *l = (struct conn_limit){.max = max, .patience_ms = NET_PATIENCE_MS};
    list_init(&l->waiting);
    list_init(&l->unproved);
    map_init(&l->owners, MAP_IDS, (uintptr_t)l); /* clients choose their addresses */
}

void conn_limit_free(struct conn_limit *l)
{
    assert(l->open == 0);
    map_free(&l->owners);
}

/* --- owners --- */

uint64_t conn_owner_of_address(const struct net_address *from)
{
    uint64_t id = 0;

    switch (from->family) {
    case NET_NONE:
        return 0;
    case NET_UNIX:
        return 1;
    case NET_IP4:
        memcpy(&id, (const uint8_t[]){0xff, 0xff},
               2); /* nobody comes from an IPv6 address like it */
        memcpy((uint8_t *)&id + 2, from->ip, 4);
        return id;
    case NET_IP6:
        memcpy(&id, from->ip, 8);
        return id;
    }
    return id;
}

uint64_t conn_owner_of_names(const char *cn, const char *const *sans, size_t san_count)
{
    uint64_t id = map_hash(bytes_of_str(cn), 0);

    for (size_t i = 0; i < san_count; i++)
        id = map_hash(bytes_of_str(sans[i]), id);
    return id;
}

static void move_to_owner(struct admission *a)
{
    struct conn_limit *l = a->limit;
    uint64_t id = atomic_load_explicit(&a->id, memory_order_relaxed);
    struct conn_owner *o = map_get_id(&l->owners, id);

    if (!o) {
        o = mem_new(struct conn_owner);
        o->id = id;
        list_init(&o->conns);
        (void)map_put_id(&l->owners, id, o);
    }
    list_remove(&a->link);
    l->unproved_count--;
    list_push_back(&o->conns, &a->link);
    o->count++;
    a->owner = o;
}

static void leave(struct admission *a)
{
    struct conn_limit *l = a->limit;
    struct conn_owner *o = a->owner;

    list_remove(&a->link);
    l->open--;
    if (!o) {
        l->unproved_count--;
    } else {
        o->count--;
        a->owner = NULL;
        if (o->count == 0) {
            (void)map_remove_id(&l->owners, o->id);
            mem_free(o);
        }
    }
    if (l->victim == a)
        l->victim = NULL;
    if (l->leaving == a)
        l->leaving = NULL;
    a->limit = NULL;
}

/* --- choosing --- */

static unsigned state_of(const struct admission *a)
{
    return atomic_load_explicit(&a->state, memory_order_acquire);
}

/* Those that have proved themselves since the last look leave the list here, each once, and those
 * that wait for us begin anew. NULL: all do, or so many that the rest is for the next time. */
static struct admission *oldest_unproved(struct conn_limit *l, uint64_t now_ns)
{
    for (unsigned i = 0; i < NET_SWEPT_AT_ONCE_MAX && !list_empty(&l->unproved); i++) {
        struct admission *a = container_of(l->unproved.next, struct admission, link);
        unsigned state = state_of(a);
        if (state & ADMISSION_PROVED) {
            move_to_owner(a);
        } else if (state & ADMISSION_WAITS) {
            a->since_ns = now_ns;
            list_remove(&a->link);
            list_push_back(&l->unproved, &a->link);
        } else {
            return a;
        }
    }
    return NULL;
}

/* The same for those that came after it, as many as are looked at in one go. */
static void sweep_unproved(struct conn_limit *l)
{
    struct list *link = l->unproved.next;

    for (unsigned i = 0; i < NET_SWEPT_AT_ONCE_MAX && link != &l->unproved; i++) {
        struct admission *a = container_of(link, struct admission, link);
        link = link->next;
        if (state_of(a) & ADMISSION_PROVED)
            move_to_owner(a);
    }
}

static uint64_t idle_since(const struct admission *a)
{
    uint64_t used_ns = atomic_load_explicit(&a->used_ns, memory_order_relaxed);

    return used_ns > 0 ? used_ns : a->since_ns;
}

/* The connection that has been idle longer; either may be NULL. */
static struct admission *longer_idle(struct admission *a, struct admission *b)
{
    if (!a || !b)
        return a ? a : b;
    return idle_since(b) < idle_since(a) ? b : a;
}

static struct admission *longest_idle_of(const struct conn_owner *o)
{
    struct admission *found = NULL;

    LIST_FOREACH (link, &o->conns) {
        struct admission *a = container_of(link, struct admission, link);
        if ((state_of(a) & ADMISSION_BUSY) == 0)
            found = longer_idle(found, a);
    }
    return found;
}

static struct admission *longest_idle_of_largest(struct conn_limit *l)
{
    struct admission *best = NULL;

    MAP_FOREACH (entry, &l->owners) {
        const struct conn_owner *o = entry->value;
        if (best && o->count < best->owner->count)
            continue;
        struct admission *a = longest_idle_of(o);
        if (a && best && o->count == best->owner->count)
            best = longer_idle(best, a);
        else if (a)
            best = a;
    }
    return best;
}

static bool is_full(const struct conn_limit *l)
{
    return l->max > 0 && (l->open >= l->max || l->unproved_count >= l->max - l->reserved);
}

static bool is_beyond(const struct conn_limit *l)
{
    return l->max > 0 && (l->open > l->max || l->unproved_count > l->max - l->reserved);
}

/* Proved connections leave half of the places to those that are still to prove themselves. */
static bool proved_hold_most(struct conn_limit *l)
{
    sweep_unproved(l);
    return l->open - l->unproved_count > l->max / 2;
}

/* NULL: nobody before *again_ns. */
static struct admission *choose_proved(struct conn_limit *l, uint64_t now_ns, uint64_t *again_ns)
{
    *again_ns = l->next_look_ns;
    if (l->open < l->max || now_ns < l->next_look_ns)
        return NULL;
    l->next_look_ns = now_ns + (uint64_t)l->open * NET_LOOK_NS_PER_CONN;
    struct admission *a = longest_idle_of_largest(l);
    *again_ns = now_ns + NET_PATIENCE_MS * NS_PER_MS; /* nobody tells when one becomes idle */
    return a;
}

/* The same. */
static struct admission *choose(struct conn_limit *l, uint64_t now_ns, uint64_t *again_ns)
{
    struct admission *oldest = oldest_unproved(l, now_ns);

    if (!oldest && !list_empty(&l->unproved)) {
        *again_ns = now_ns + NS_PER_MS; /* there are more to be looked at, or none that we may */
        return NULL;
    }
    uint64_t patience_ns = oldest ? oldest->since_ns + l->patience_ms * NS_PER_MS : UINT64_MAX;
    if (now_ns >= patience_ns)
        return oldest;
    struct admission *a = NULL;
    *again_ns = patience_ns;
    if (!oldest || proved_hold_most(l))
        a = choose_proved(l, now_ns, again_ns);
    if (*again_ns > patience_ns)
        *again_ns = patience_ns;
    return a;
}

static void evict(struct conn_limit *l, struct admission *a)
{
    assert(!l->leaving);
    l->leaving = a;
    l->evicted++;
    a->was_unproved = !a->owner;
    a->evict(a);
}

/* --- for nets --- */

static void wait_for_place(struct listener *l)
{
    if (list_empty(&l->waiting))
        list_push_back(&l->options.limit->waiting, &l->waiting);
}

bool listener_may_take(struct listener *listener, uint64_t now_ns, uint64_t *again_ns)
{
    struct conn_limit *l = listener->options.limit;

    *again_ns = 0;
    if (!l)
        return true;
    list_remove(&listener->waiting);
    l->victim = NULL;
    if (!is_full(l))
        return true;
    struct admission *a = l->leaving ? NULL : choose(l, now_ns, again_ns);
    if (!is_full(l))
        return true; /* they have proved themselves */
    if (a && !is_beyond(l)) {
        l->victim = a;
        return true;
    }
    if (a)
        evict(l, a); /* the last one has stayed, and it was another's turn */
    wait_for_place(listener);
    return false;
}

void listener_took(struct listener *listener, struct admission *a, uint64_t owner, uint64_t now_ns)
{
    struct conn_limit *l = listener->options.limit;

    list_init(&a->link);
    if (!l)
        return;
    struct admission *victim = l->victim;
    l->victim = NULL;
    a->limit = l;
    a->listener = listener;
    a->since_ns = now_ns;
    atomic_store_explicit(&a->id, owner, memory_order_relaxed);
    list_push_back(&l->unproved, &a->link);
    l->unproved_count++;
    l->open++;
    if (victim)
        evict(l, victim);
}

/* All that wait are told, since nobody knows behind which of them there is somebody. */
static void tell_waiting(struct conn_limit *l)
{
    struct list told;

    list_init(&told); /* a list of their own: who looks may have to wait again, on the first */
    list_append_all(&told, &l->waiting);
    for (struct list *link; (link = list_pop_front(&told));) {
        struct listener *waiting = container_of(link, struct listener, waiting);
        waiting->net->ops->listener_look(waiting);
    }
}

bool admission_may_be_evicted(const struct admission *a)
{
    unsigned forbids =
        a->was_unproved ? ADMISSION_PROVED | ADMISSION_WAITS : (unsigned)ADMISSION_BUSY;

    return (state_of(a) & forbids) == 0;
}

void admission_stays(struct admission *a)
{
    struct conn_limit *l = a->limit;

    if (!l || l->leaving != a)
        return;
    l->leaving = NULL;
    l->evicted--;
    tell_waiting(l);
}

void admission_end(struct admission *a)
{
    struct conn_limit *l = a->limit;

    if (!l)
        return;
    leave(a);
    tell_waiting(l);
}

static void forget_those_of(const struct listener *l, struct list *conns)
{
    LIST_FOREACH (link, conns) {
        struct admission *a = container_of(link, struct admission, link);
        if (a->listener == l)
            leave(a);
    }
}

void listener_forget_conns(struct listener *listener)
{
    struct conn_limit *l = listener->options.limit;

    list_remove(&listener->waiting);
    if (!l)
        return;
    forget_those_of(listener, &l->unproved);
    MAP_FOREACH (entry, &l->owners) {
        struct conn_owner *o = entry->value;
        o->count++; /* so that it outlives its connections */
        forget_those_of(listener, &o->conns);
        o->count--;
        if (o->count == 0) {
            (void)map_remove_id(&l->owners, o->id);
            mem_free(o);
        }
    }
    listener->options.limit = NULL;
    tell_waiting(l);
}

/* --- invariants --- */

void conn_limit_check(const struct conn_limit *l)
{
    unsigned unproved = 0, open = 0;

    LIST_FOREACH (link, &l->unproved) {
        const struct admission *a = container_of(link, struct admission, link);
        assert(a->limit == l);
        assert(!a->owner);
        unproved++;
    }
    open = unproved;
    MAP_FOREACH (entry, &l->owners) {
        const struct conn_owner *o = entry->value;
        unsigned count = 0;
        LIST_FOREACH (link, &o->conns) {
            assert(container_of(link, const struct admission, link)->owner == o);
            count++;
        }
        assert(count == o->count);
        assert(count > 0);
        open += count;
    }
    assert(unproved == l->unproved_count);
    assert(open == l->open);
    assert(l->max == 0 || l->open <= l->max + 1);
    assert(l->reserved == 0 || l->reserved < l->max);
}
