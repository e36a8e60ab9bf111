#include "io/fake_net.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "io/clock.h"
#include "io/conn_queue.h"

enum {
    WINDOW_BYTES_DEFAULT = 64 * 1024,
    FIRST_OWN_PORT = 40000,
    RETRY_MS = 20, /* after nobody could be accepted */
};

struct fake_wire {
    struct fake_time *time;
    struct fake_wire_options options;
    struct list hosts;
    struct list listeners;
    struct list conns;
};

struct fake_host {
    struct net base;
    struct fake_wire *wire;
    struct inbox *inbox;
    struct net_address address;
    struct list link;
    struct fake_fds own_fds; /* if none were lent */
    struct fake_fds *fds;
    uint16_t next_port;
    bool cut;
};

struct fake_listener {
    struct listener base;
    struct fake_host *host;
    struct list link;
    struct list backlog; /* connections that wait */
    unsigned admitted;   /* alive, of those that no longer wait */
    unsigned conns;      /* alive, with those that left before they were admitted */
    struct fake_task retry;
    struct event failed;
    bool is_failing, closing;
};

/* One direction of a connection. An end that has closed is NULL. */
struct fake_pipe {
    struct fake_link *link;
    struct fake_conn *from, *to;
    struct buf flying, arrived;
    bool end_sent, end_arrived;
    struct fake_task task;
};

struct fake_link {
    struct fake_wire *wire;
    bool between_hosts;
    struct fake_host *hosts[2];
    struct fake_pipe pipes[2];
    unsigned ends; /* not yet gone */
};

struct fake_conn {
    struct conn base;
    struct fake_host *host;
    struct fake_listener *listener; /* NULL if it connected */
    struct net_address target;      /* if it connected */
    struct fake_pipe *out, *in;     /* NULL until connected */
    struct conn_queue queue;
    struct list link; /* on the wire's list of all */
    struct list backlog_link;
    bool paused, end_shown, shutdown_wanted, closing, finished;
    bool has_fd;   /* as long as it waits for the other process it has none */
    bool admitted; /* by its listener */
    enum err reason;
    struct event opened, readable, gone;
    struct fake_task task; /* connecting, later closing */
};

static struct fake_host *host_of(struct net *n)
{
    return container_of(n, struct fake_host, base);
}

static struct fake_conn *fake(struct conn *c)
{
    return container_of(c, struct fake_conn, base);
}

static void put_once(struct fake_conn *c, struct event *e)
{
    if (!e->queued)
        inbox_put(c->host->inbox, e);
}

static void fail(struct fake_conn *c, enum err reason);

static void fly_on(struct fake_pipe *p)
{
    struct fake_wire *w = p->link->wire;

    if (!heap_has(&p->task.node))
        fake_time_after(w->time, &p->task, w->options.delay);
}

static size_t window_credit(const struct fake_pipe *p)
{
    size_t used = p->flying.len + p->arrived.len;
    size_t window = p->link->wire->options.window_bytes;

    return used < window ? window - used : 0;
}

/* Puts on the wire what the window takes. */
static void send_queued(struct fake_conn *c)
{
    struct fake_pipe *p = c->out;
    struct bytes next;

    if (!p || c->closing)
        return;
    conn_queue_sent(&c->queue, 0, c->host->inbox); /* writes that have no bytes */
    while (conn_queue_peek(&c->queue, &next, 1) > 0) {
        size_t credit = window_credit(p);

        if (credit == 0)
            break;
        next.len = next.len < credit ? next.len : credit;
        buf_append(&p->flying, next);
        conn_queue_sent(&c->queue, next.len, c->host->inbox);
    }
    if (c->shutdown_wanted && c->queue.bytes == 0)
        p->end_sent = true;
    if (p->flying.len > 0 || p->end_sent)
        fly_on(p);
}

/* A piece arrives. Nobody there any more: the sender hears of it, as TCP's reset tells it. */
static void arrive(struct fake_task *task)
{
    struct fake_pipe *p = container_of(task, struct fake_pipe, task);
    struct fake_link *l = p->link;
    struct rng *rng = &l->wire->time->rng;

    if (l->between_hosts && (l->hosts[0]->cut || l->hosts[1]->cut)) {
        fly_on(p);
        return;
    }
    if (!p->to) {
        bool unwanted = p->flying.len > 0;
        buf_clear(&p->flying);
        if (unwanted && p->from)
            fail(p->from, ERR_RESET);
        return;
    }
    if (p->flying.len > 0) {
        bool whole = rng_chance(rng, 1, 2);
        size_t len = whole ? p->flying.len : (size_t)rng_between(rng, 1, p->flying.len);
        buf_append(&p->arrived, bytes_of(p->flying.at, len));
        buf_drop_front(&p->flying, len);
    }
    if (p->flying.len > 0)
        fly_on(p);
    else
        p->end_arrived = p->end_sent;
    put_once(p->to, &p->to->readable);
}

static void show_input(struct fake_conn *c)
{
    struct buf data = c->in->arrived;

    c->in->arrived = (struct buf){0};
    if (c->in->from)
        send_queued(c->in->from); /* the window has opened */
    c->base.on->on_data(&c->base, buf_bytes(&data));
    buf_free(&data);
}

static void deliver(struct event *e)
{
    struct fake_conn *c = container_of(e, struct fake_conn, readable);

    if (!c->base.on || c->paused || c->closing)
        return;
    if (c->in->arrived.len > 0)
        show_input(c);
    if (c->paused || c->closing || c->end_shown || !c->in->end_arrived)
        return;
    c->end_shown = true;
    if (c->base.on->on_end)
        c->base.on->on_end(&c->base);
}

static void link_free(struct fake_link *l)
{
    for (unsigned i = 0; i < 2; i++) {
        fake_time_cancel(l->wire->time, &l->pipes[i].task);
        buf_free(&l->pipes[i].flying);
        buf_free(&l->pipes[i].arrived);
    }
    mem_free(l);
}

static void listener_free_if_unused(struct fake_listener *l)
{
    if (!l->closing || l->conns > 0 || !list_empty(&l->backlog) || l->failed.queued)
        return;
    fake_time_cancel(l->host->wire->time, &l->retry);
    mem_free(l);
}

static void report_failure(struct event *e)
{
    struct fake_listener *l = container_of(e, struct fake_listener, failed);

    if (!l->closing && l->base.options.on_failed)
        l->base.options.on_failed(&l->base, ERR_NO_FILES);
    listener_free_if_unused(l);
}

static void wait_and_retry(struct fake_listener *l)
{
    if (!l->is_failing && !l->failed.queued)
        inbox_put(l->host->inbox, &l->failed);
    l->is_failing = true;
    if (!heap_has(&l->retry.node))
        fake_time_at(l->host->wire->time, &l->retry,
                     l->host->wire->time->now_ns + RETRY_MS * NS_PER_MS);
}

/* Announces connections while it may. */
static void listener_admit(struct fake_listener *l)
{
    while (!l->closing && !list_empty(&l->backlog) && listener_may_take(&l->base)) {
        if (!fake_fds_take(l->host->fds)) {
            listener_conns_left(&l->base, 1);
            wait_and_retry(l);
            return;
        }
        struct list *link = list_pop_front(&l->backlog);
        struct fake_conn *c = container_of(link, struct fake_conn, backlog_link);

        l->is_failing = false;
        l->conns++;
        l->admitted++;
        c->admitted = true;
        c->has_fd = true;
        put_once(c, &c->opened);
    }
}

static void look_again(struct listener *base)
{
    listener_admit(container_of(base, struct fake_listener, base));
}

static void retry(struct fake_task *t)
{
    listener_admit(container_of(t, struct fake_listener, retry));
}

static void conn_free(struct fake_conn *c)
{
    struct fake_listener *l = c->listener;
    bool admitted = c->admitted;

    if (c->has_fd)
        fake_fds_give_back(c->host->fds);
    if (c->out) {
        c->out->link->ends--;
        if (c->out->link->ends == 0)
            link_free(c->out->link);
    }
    fake_time_cancel(c->host->wire->time, &c->task);
    list_remove(&c->link);
    mem_free(c);
    if (l) {
        l->conns--;
        l->admitted -= admitted;
        if (admitted && !l->closing)
            listener_conns_left(&l->base, 1);
        listener_free_if_unused(l);
    }
}

static void finish(struct event *e)
{
    struct fake_conn *c = container_of(e, struct fake_conn, gone);

    if (c->queue.unreported > 0) { /* told first, as in the real one */
        inbox_put(c->host->inbox, e);
        return;
    }
    c->finished = true;
    if (c->base.on)
        c->base.on->on_closed(&c->base, c->reason);
    conn_free(c);
}

static void close_later(struct fake_task *task)
{
    struct fake_conn *c = container_of(task, struct fake_conn, task);

    put_once(c, &c->gone);
}

/* It counts as one of the listener's until it is gone. */
static void leave_backlog(struct fake_conn *c)
{
    if (list_empty(&c->backlog_link))
        return;
    list_remove(&c->backlog_link);
    c->listener->conns++;
}

/* What was on the wire still arrives, then the end. */
static void fail(struct fake_conn *c, enum err reason)
{
    if (c->closing)
        return;
    c->closing = true;
    c->reason = reason;
    leave_backlog(c);
    conn_queue_cancel(&c->queue, c->host->inbox);
    if (c->out) {
        c->out->end_sent = true;
        c->out->from = NULL;
        c->in->to = NULL;
        buf_clear(&c->in->arrived);
        if (c->in->from)
            send_queued(c->in->from); /* its window is open: it will hear that nobody is there */
        fly_on(c->out);
    }
    c->task.run = close_later;
    fake_time_after(c->host->wire->time, &c->task, c->host->wire->options.delay);
}

static void write_queued(struct conn *base, struct conn_write *w)
{
    struct fake_conn *c = fake(base);

    assert(!c->shutdown_wanted);
    assert(!c->finished);
    conn_queue_add(&c->queue, w);
    if (c->closing)
        conn_queue_cancel(&c->queue, c->host->inbox);
    send_queued(c);
}

static size_t try_write(struct conn *base, struct bytes what)
{
    struct fake_conn *c = fake(base);

    assert(!c->shutdown_wanted);
    assert(!c->finished);
    if (!c->out || c->closing || c->queue.bytes > 0 || what.len == 0)
        return 0;
    size_t credit = window_credit(c->out);
    size_t now = what.len < credit ? what.len : credit;
    if (now > 0) {
        buf_append(&c->out->flying, bytes_of(what.at, now));
        fly_on(c->out);
    }
    return now;
}

static size_t write_credit(const struct conn *base)
{
    const struct fake_conn *c = container_of(base, struct fake_conn, base);

    return c->out && !c->closing ? window_credit(c->out) : 0;
}

static size_t queued_bytes(const struct conn *base)
{
    return container_of(base, struct fake_conn, base)->queue.bytes;
}

static void pause_reading(struct conn *base)
{
    fake(base)->paused = true;
}

static void resume_reading(struct conn *base)
{
    struct fake_conn *c = fake(base);

    c->paused = false;
    if (c->in && !c->closing)
        put_once(c, &c->readable);
}

static void shutdown_after_writes(struct conn *base)
{
    struct fake_conn *c = fake(base);

    c->shutdown_wanted = true;
    send_queued(c);
}

static void close_now(struct conn *base, enum err reason)
{
    fail(fake(base), reason);
}

static struct fake_conn *conn_new(struct fake_host *h)
{
    static const struct conn_ops ops = {
        .write = write_queued,
        .try_write = try_write,
        .write_credit = write_credit,
        .queued_bytes = queued_bytes,
        .pause = pause_reading,
        .resume = resume_reading,
        .shutdown = shutdown_after_writes,
        .close = close_now,
    };
    struct fake_conn *c = mem_new(struct fake_conn);

    c->base.ops = &ops;
    c->host = h;
    c->readable.run = deliver;
    c->gone.run = finish;
    conn_queue_init(&c->queue);
    list_init(&c->backlog_link);
    list_init(&c->link);
    list_push_back(&h->wire->conns, &c->link);
    return c;
}

static bool is_loopback(const struct net_address *a)
{
    return a->family == NET_UNIX || (a->family == NET_IP4 && a->ip[0] == 127);
}

static bool is_any(const struct net_address *a)
{
    static const uint8_t zeroes[16];

    return a->family != NET_UNIX && memcmp(a->ip, zeroes, sizeof(zeroes)) == 0;
}

/* Does a connection from this host to this address reach the listener? */
static bool reaches(const struct fake_host *from, const struct net_address *to,
                    const struct fake_listener *l)
{
    struct net_address there = l->base.address;

    if (is_loopback(to) && from != l->host)
        return false;
    if (is_any(&there))
        memcpy(there.ip, is_loopback(to) ? to->ip : l->host->address.ip, sizeof(there.ip));
    return net_address_equal(to, &there);
}

static struct fake_listener *find_listener(const struct fake_host *from,
                                           const struct net_address *to)
{
    LIST_FOREACH (link, &from->wire->listeners) {
        struct fake_listener *l = container_of(link, struct fake_listener, link);
        if (reaches(from, to, l))
            return l;
    }
    return NULL;
}

static void link_ends(struct fake_conn *a, struct fake_conn *b)
{
    struct fake_link *l = mem_new(struct fake_link);

    l->wire = a->host->wire;
    l->hosts[0] = a->host;
    l->hosts[1] = b->host;
    l->between_hosts = a->host != b->host;
    l->ends = 2;
    l->pipes[0] = (struct fake_pipe){.link = l, .from = a, .to = b, .task.run = arrive};
    l->pipes[1] = (struct fake_pipe){.link = l, .from = b, .to = a, .task.run = arrive};
    a->out = b->in = &l->pipes[0];
    b->out = a->in = &l->pipes[1];
}

static void announce(struct event *e)
{
    struct fake_conn *c = container_of(e, struct fake_conn, opened);
    struct fake_listener *l = c->listener;

    if (c->closing)
        return;
    if (l->closing) {
        fail(c, ERR_CANCELED);
        return;
    }
    l->base.options.on_accept(&l->base, &c->base);
    assert(c->base.on || c->closing);
}

static void tell_open(struct event *e)
{
    struct fake_conn *c = container_of(e, struct fake_conn, opened);

    if (!c->closing && c->base.on->on_open)
        c->base.on->on_open(&c->base);
}

static void connect_now(struct fake_task *task)
{
    struct fake_conn *c = container_of(task, struct fake_conn, task);
    struct fake_wire *w = c->host->wire;
    struct fake_listener *l = find_listener(c->host, &c->target);

    if (!is_loopback(&c->target) && (c->host->cut || (l && l->host->cut))) {
        fake_time_after(w->time, &c->task, w->options.delay);
        return;
    }
    if (!l) {
        fail(c, ERR_REFUSED);
        return;
    }
    struct fake_conn *other = conn_new(l->host);
    struct net_address from = is_loopback(&c->target) ? c->target : c->host->address;
    from.port = c->host->next_port++;
    from.path[0] = '\0';
    net_address_text(&from, other->base.info.remote);
    other->listener = l;
    other->opened.run = announce;
    link_ends(c, other);
    list_push_back(&l->backlog, &other->backlog_link);
    listener_admit(l);
    put_once(c, &c->opened);
    send_queued(c);
}

static struct conn *connect_to(struct net *n, const struct net_address *a,
                               const struct conn_handlers *on, void *context)
{
    struct fake_host *h = host_of(n);
    struct fake_conn *c = conn_new(h);

    c->base.on = on;
    c->base.context = context;
    c->target = *a;
    c->opened.run = tell_open;
    c->task.run = connect_now;
    net_address_text(a, c->base.info.remote);
    c->has_fd = fake_fds_take(h->fds);
    if (c->has_fd)
        fake_time_after(h->wire->time, &c->task, h->wire->options.delay);
    else
        fail(c, ERR_NO_FILES);
    return &c->base;
}

static enum err listen_at(struct net *n, const struct net_address *a,
                          const struct listener_options *options, struct listener **out)
{
    struct fake_host *h = host_of(n);
    struct net_address where = *a;

    if (where.family != NET_UNIX && where.port == 0)
        where.port = h->next_port++;
    LIST_FOREACH (link, &h->wire->listeners) {
        struct fake_listener *other = container_of(link, struct fake_listener, link);
        if (other->host == h && net_address_equal(&other->base.address, &where))
            return ERR_BUSY;
    }
    if (!fake_fds_take(h->fds))
        return ERR_NO_FILES;
    struct fake_listener *l = mem_new(struct fake_listener);
    l->base = (struct listener){.net = n, .options = *options, .address = where};
    l->host = h;
    l->retry.run = retry;
    l->failed.run = report_failure;
    list_init(&l->base.waiting);
    list_init(&l->link);
    list_init(&l->backlog);
    list_push_back(&h->wire->listeners, &l->link);
    *out = &l->base;
    return ERR_OK;
}

/* The limit may go before the connections do. */
static void stop_listening(struct fake_listener *l)
{
    l->closing = true;
    fake_fds_give_back(l->host->fds);
    list_remove(&l->base.waiting);
    listener_conns_left(&l->base, l->admitted);
}

/* Connections nobody has seen yet end with the listener. */
static void close_listener(struct listener *base)
{
    struct fake_listener *l = container_of(base, struct fake_listener, base);

    assert(!l->closing);
    stop_listening(l);
    list_remove(&l->link);
    LIST_FOREACH (link, &l->backlog)
        fail(container_of(link, struct fake_conn, backlog_link), ERR_CANCELED);
    listener_free_if_unused(l);
}

struct fake_wire *fake_wire_new(struct fake_time *time, const struct fake_wire_options *options)
{
    struct fake_wire *w = mem_new(struct fake_wire);

    w->time = time;
    w->options = *options;
    if (w->options.window_bytes == 0)
        w->options.window_bytes = WINDOW_BYTES_DEFAULT;
    list_init(&w->hosts);
    list_init(&w->listeners);
    list_init(&w->conns);
    return w;
}

void fake_wire_free(struct fake_wire *w)
{
    assert(list_empty(&w->listeners));

    /* Those never accepted may still be on their way out: nobody is told, so nobody could wait. */
    LIST_FOREACH (link, &w->conns) {
        struct fake_conn *c = container_of(link, struct fake_conn, link);
        assert(c->closing);
        assert(!c->base.on);
        conn_free(c);
    }
    LIST_FOREACH (link, &w->hosts)
        mem_free(container_of(link, struct fake_host, link));
    mem_free(w);
}

struct net *fake_wire_add_host(struct fake_wire *w, struct inbox *inbox, const char *ip)
{
    static const struct net_ops ops = {
        .listen = listen_at,
        .listener_close = close_listener,
        .listener_look = look_again,
        .connect = connect_to,
    };
    struct fake_host *h = mem_new(struct fake_host);
    enum err e = net_address_of_host(ip, 0, &h->address);

    assert(e == ERR_OK);
    h->base.ops = &ops;
    h->wire = w;
    h->inbox = inbox;
    h->fds = &h->own_fds;
    h->next_port = FIRST_OWN_PORT;
    list_init(&h->link);
    list_push_back(&w->hosts, &h->link);
    return &h->base;
}

void fake_wire_limit(struct net *host, struct fake_fds *fds)
{
    host_of(host)->fds = fds;
}

void fake_wire_cut(struct net *host, bool cut)
{
    host_of(host)->cut = cut;
}

static void conn_vanish(struct fake_conn *c)
{
    if (c->in && c->in->from)
        fail(c->in->from, ERR_RESET);
    if (c->out)
        c->out->from = NULL;
    if (c->in)
        c->in->to = NULL;
    leave_backlog(c);
    conn_free(c);
}

void fake_wire_crash(struct net *host)
{
    struct fake_host *h = host_of(host);
    struct list listeners;

    list_init(&listeners);
    LIST_FOREACH (link, &h->wire->listeners) {
        struct fake_listener *l = container_of(link, struct fake_listener, link);
        if (l->host != h)
            continue;
        stop_listening(l);
        l->failed.queued = false; /* with the inbox */
        l->conns++;               /* so that it outlives its connections */
        list_remove(link);
        list_push_back(&listeners, link);
    }
    LIST_FOREACH (link, &h->wire->conns) {
        struct fake_conn *c = container_of(link, struct fake_conn, link);
        if (c->host == h)
            conn_vanish(c);
    }
    for (struct list *link; (link = list_pop_front(&listeners));) {
        struct fake_listener *l = container_of(link, struct fake_listener, link);
        l->conns--;
        listener_free_if_unused(l);
    }
}

void fake_wire_reset(struct conn *c)
{
    struct fake_conn *end = fake(c);

    if (end->in && end->in->from)
        fail(end->in->from, ERR_RESET);
    fail(end, ERR_RESET);
}
