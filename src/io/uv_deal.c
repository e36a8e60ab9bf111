/*
 * Connections that one thread accepts and others have.
 *
 * Whoever accepts has one socket for all: sockets of their own (SO_REUSEPORT) would let the kernel
 * choose by a hash of the address, so that of two threads one may get most of the work, and there
 * is no such thing for a unix socket.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "io/uv_int.h"

/* What one thread has of a listener. The dealer's; the thread's listener may have gone before the
 * dealer hears of the last connections. */
struct share {
    struct real_listener *to;
    struct real_net *net; /* the thread's */
};

bool deal_join(struct real_net *n, struct real_listener *l)
{
    LIST_FOREACH (link, &n->dealer->dealt) {
        struct real_listener *from = container_of(link, struct real_listener, dealt_link);
        bool has_joined = false;

        for (unsigned i = 0; i < from->share_count; i++)
            has_joined = has_joined || from->shares[i]->net == n;
        if (has_joined || !net_address_equal(&from->base.address, &l->base.address))
            continue;
        assert(from->share_count < ARRAY_LEN(from->shares));
        l->share = mem_new(struct share);
        *l->share = (struct share){.to = l, .net = n};
        from->shares[from->share_count++] = l->share;
        return true;
    }
    return false;
}

void deal_end(struct real_listener *l)
{
    for (unsigned i = 0; i < l->share_count; i++)
        mem_free(l->shares[i]);
    l->share_count = 0;
}

/* To who has the fewest: connections live from a moment to months, and a thread that by chance kept
 * those that stay would otherwise get as many new ones as the others. In turns if they are equal.
 */
struct share *deal_choose(struct real_listener *l)
{
    struct share *best = NULL;

    assert(l->share_count > 0);
    for (unsigned i = 0; i < l->share_count; i++) {
        struct share *s = l->shares[(l->share_next + i) % l->share_count];
        if (!best || s->net->dealt_conns < best->net->dealt_conns)
            best = s;
    }
    l->share_next = (l->share_next + 1) % l->share_count;
    return best;
}

/* --- on the thread that has it --- */

static void take_handed(struct event *e)
{
    struct real_admission *a = container_of(e, struct real_admission, handed);

    listener_take(a->share->to, a);
}

static void hear_evicted(struct event *e);

/* It may have gone meanwhile, or somebody waits for something on it now. */
static void evict_handed(struct event *e)
{
    struct real_admission *a = container_of(e, struct real_admission, evict);

    a->has_stayed = a->conn && !admission_may_be_evicted(&a->base);
    if (a->conn && !a->has_stayed)
        conn_fail(a->conn, ERR_EVICTED);
    a->evict.run = hear_evicted;
    inbox_post(a->dealer, &a->evict);
}

void deal_conn_gone(struct real_admission *a)
{
    inbox_post(a->dealer, &a->gone);
}

/* --- on the thread that accepts --- */

static void free_if_unused(struct real_admission *a)
{
    if (a->is_gone && !a->is_evicting)
        mem_free(a);
}

static void hear_evicted(struct event *e)
{
    struct real_admission *a = container_of(e, struct real_admission, evict);

    a->is_evicting = false;
    if (a->has_stayed)
        admission_stays(&a->base);
    free_if_unused(a);
}

/* Nothing is left of the share with the last connection of a listener that has closed. */
static void hear_gone(struct event *e)
{
    struct real_admission *a = container_of(e, struct real_admission, gone);

    assert(a->share->net->dealt_conns > 0);
    a->share->net->dealt_conns--;
    listener_left(a);
    a->is_gone = true;
    free_if_unused(a);
}

void deal_evict(struct real_admission *a)
{
    assert(!a->is_evicting);
    a->is_evicting = true;
    a->evict.run = evict_handed;
    inbox_post(a->share->net->inbox, &a->evict);
}

void deal_out(struct real_admission *a)
{
    a->dealer = a->listener->net->inbox;
    a->handed.run = take_handed;
    a->gone.run = hear_gone;
    a->share->net->dealt_conns++;
    inbox_post(a->share->net->inbox, &a->handed);
}
