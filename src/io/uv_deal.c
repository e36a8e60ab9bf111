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

#include <stdatomic.h>

/* What one thread has of a listener. The dealer's, but for what is atomic; the thread's listener
 * may have gone before the dealer hears of the last connections. */
struct share {
    struct real_listener *from, *to;
    struct real_net *net; /* the thread's */
    atomic_uint left;     /* connections that have gone since the dealer was told */
    struct event told;
};

struct handed {
    struct event event;
    struct real_listener *to;
    int fd;
};

static void hear_who_left(struct event *e)
{
    struct share *s = container_of(e, struct share, told);
    unsigned count = atomic_exchange(&s->left, 0); /* from here on it may be posted again */

    assert(s->net->dealt_conns >= count);
    s->net->dealt_conns -= count;
    listener_dealt_left(s->from, count);
}

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
        *l->share = (struct share){.from = from, .to = l, .net = n, .told.run = hear_who_left};
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

static void take_handed(struct event *e)
{
    struct handed *h = container_of(e, struct handed, event);

    listener_take(h->to, h->fd);
    mem_free(h);
}

/* To who has the fewest: connections live from a moment to months, and a thread that by chance kept
 * those that stay would otherwise get as many new ones as the others. In turns if they are equal.
 */
static struct share *choose(struct real_listener *l)
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

void deal_out(struct real_listener *l, int fd)
{
    struct share *s = choose(l);
    struct handed *h = mem_new(struct handed);

    *h = (struct handed){.event.run = take_handed, .to = s->to, .fd = fd};
    l->conns++;
    s->net->dealt_conns++;
    inbox_post(s->net->inbox, &h->event);
}

/* The dealer wakes once for those that go together. */
void deal_conn_gone(struct share *s)
{
    struct real_net *dealer = s->net->dealer;

    if (atomic_fetch_add(&s->left, 1) == 0)
        inbox_post(dealer->inbox, &s->told);
}
