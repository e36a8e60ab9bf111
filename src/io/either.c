#include "io/either.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "io/clock.h"
#include "io/io.h"

enum { TLS_HANDSHAKE_RECORD = 22 };

enum door { DOOR_PLAIN, DOOR_SECURE, DOORS };

struct door_net {
    struct net base;
    struct either *either;
};

struct door_listener {
    struct listener base;
    struct place *place;
    bool is_open;
};

/* An address. */
struct place {
    struct either *either;
    struct listener *lower; /* NULL: closed */
    struct door_listener doors[DOORS];
    struct list link;
    struct list silent; /* those whose first byte is waited for */
};

struct silent {
    struct place *place;
    struct conn *conn;
    struct timer timer;
    struct list link;
};

struct either {
    const struct io *io;
    struct io secure_io;
    struct door_net nets[DOORS];
    struct list places;
};

static enum door door_of_net(const struct net *n)
{
    const struct door_net *d = container_of(n, const struct door_net, base);

    return d == &d->either->nets[DOOR_SECURE] ? DOOR_SECURE : DOOR_PLAIN;
}

static struct either *either_of_net(struct net *n)
{
    return container_of(n, struct door_net, base)->either;
}

/* --- who comes --- */

static void place_free_if_unused(struct place *p)
{
    if (p->lower || !list_empty(&p->silent))
        return;
    list_remove(&p->link);
    mem_free(p);
}

static void silent_free(struct silent *s)
{
    struct place *p = s->place;

    timer_stop(p->either->io->clock, &s->timer);
    list_remove(&s->link);
    mem_free(s);
    place_free_if_unused(p);
}

static void announce(struct door_listener *l, struct conn *c)
{
    if (l->is_open)
        l->base.options.on_accept(&l->base, c);
    else
        conn_close(c, ERR_CANCELED);
}

static void on_data(struct conn *c, struct bytes data)
{
    struct silent *s = c->context;
    struct place *p = s->place;
    bool is_secure = data.at[0] == TLS_HANDSHAKE_RECORD;
    struct door_listener *l = &p->doors[is_secure ? DOOR_SECURE : DOOR_PLAIN];

    if (!l->is_open) {
        conn_close(c, ERR_CANCELED);
        return;
    }
    conn_hand_over(c);
    announce(l, c);
    silent_free(s); /* the last: the place may go with it */
}

static void on_end(struct conn *c)
{
    conn_close(c, ERR_END);
}

static void on_closed(struct conn *c, enum err reason)
{
    (void)reason;
    silent_free(c->context);
}

static void on_time(struct timer *t)
{
    conn_close(container_of(t, struct silent, timer)->conn, ERR_TIMEOUT);
}

static void await_first_byte(struct place *p, struct conn *c)
{
    static const struct conn_handlers handlers = {
        .on_data = on_data, .on_end = on_end, .on_closed = on_closed};
    struct silent *s = mem_new(struct silent);

    *s = (struct silent){.place = p, .conn = c, .timer.on_time = on_time};
    list_init(&s->link);
    list_push_back(&p->silent, &s->link);
    timer_start(p->either->io->clock, &s->timer, EITHER_FIRST_BYTE_MS * NS_PER_MS);
    conn_accept(c, &handlers, s);
}

static void on_accept(struct listener *lower, struct conn *c)
{
    struct place *p = lower->options.context;

    if (p->doors[DOOR_PLAIN].place && p->doors[DOOR_SECURE].place)
        await_first_byte(p, c);
    else
        announce(&p->doors[p->doors[DOOR_SECURE].place ? DOOR_SECURE : DOOR_PLAIN], c);
}

static void on_failed(struct listener *lower, enum err e)
{
    struct place *p = lower->options.context;

    for (size_t i = 0; i < DOORS; i++) {
        const struct listener_options *o = &p->doors[i].base.options;
        if (p->doors[i].is_open && o->on_failed) {
            o->on_failed(&p->doors[i].base, e);
            return; /* once is enough */
        }
    }
}

/* --- listening --- */

static struct place *place_with_free_door(struct either *e, const struct net_address *a,
                                          enum door door)
{
    LIST_FOREACH (link, &e->places) {
        struct place *p = container_of(link, struct place, link);
        if (p->lower && !p->doors[door].place && net_address_equal(&p->lower->address, a))
            return p;
    }
    return NULL;
}

static enum err bind_place(struct either *e, const struct net_address *a,
                           const struct listener_options *options, struct place **out)
{
    struct listener_options below = *options;
    struct place *p = mem_new(struct place);

    p->either = e;
    below.on_accept = on_accept;
    below.on_failed = on_failed;
    below.context = p;
    enum err error = net_listen(e->io->net, a, &below, &p->lower);
    if (error != ERR_OK) {
        mem_free(p);
        return error;
    }
    list_init(&p->silent);
    list_init(&p->link);
    list_push_back(&e->places, &p->link);
    *out = p;
    return ERR_OK;
}

static enum err listen_at(struct net *n, const struct net_address *a,
                          const struct listener_options *options, struct listener **out)
{
    enum door door = door_of_net(n);
    struct place *p = place_with_free_door(either_of_net(n), a, door);
    enum err e = p ? ERR_OK : bind_place(either_of_net(n), a, options, &p);

    if (e != ERR_OK)
        return e;
    p->doors[door] = (struct door_listener){
        .base = {.net = n, .options = *options, .address = p->lower->address},
        .place = p,
        .is_open = true};
    list_init(&p->doors[door].base.waiting);
    *out = &p->doors[door].base;
    return ERR_OK;
}

static void close_listener(struct listener *l)
{
    struct door_listener *d = container_of(l, struct door_listener, base);
    struct place *p = d->place;

    assert(d->is_open);
    d->is_open = false;
    if (p->doors[DOOR_PLAIN].is_open || p->doors[DOOR_SECURE].is_open)
        return;
    listener_close(p->lower);
    p->lower = NULL;
    LIST_FOREACH (link, &p->silent)
        conn_close(container_of(link, struct silent, link)->conn, ERR_CANCELED);
    place_free_if_unused(p);
}

/* --- life --- */

struct either *either_open(const struct io *io)
{
    static const struct net_ops ops = {.listen = listen_at, .listener_close = close_listener};
    struct either *e = mem_new(struct either);

    e->io = io;
    for (size_t i = 0; i < DOORS; i++)
        e->nets[i] = (struct door_net){.base.ops = &ops, .either = e};
    list_init(&e->places);
    e->secure_io = *io;
    e->secure_io.net = either_secure(e);
    return e;
}

struct net *either_plain(struct either *e)
{
    return &e->nets[DOOR_PLAIN].base;
}

struct net *either_secure(struct either *e)
{
    return &e->nets[DOOR_SECURE].base;
}

const struct io *either_secure_io(const struct either *e)
{
    return &e->secure_io;
}

bool either_is_idle(const struct either *e)
{
    return list_empty(&e->places);
}

void either_close(struct either *e)
{
    if (!e)
        return;
    assert(either_is_idle(e));
    mem_free(e);
}
