#include "io/fake_net.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "io/clock.h"
#include "io/conn_queue.h"

#include <stdlib.h>

enum {
    WINDOW_BYTES_DEFAULT = 64 * 1024,
    FIRST_OWN_PORT = 40000,
    RETRY_MS = 20,        /* after nobody could be accepted */
    RESEND_MS = 200,      /* after a piece was lost; then twice as long each time */
    RESEND_MS_MAX = 8000, /* real kernels go up to two minutes, which no run has */
    CONNECT_MS = 1000,
    SEGMENT_BYTES = 1448, /* of which several are under way at once */
    DOUBLINGS_MAX = 8,
    REPEAT_MS_MAX = 300,
    KEEPALIVE_MS = 30000, /* as the real connections have it: uv_conn.c */
    KEEPALIVE_LIMIT_MS = 10000,
    REPEATED_BYTES_MAX = 64 * 1024, /* of one that is repeated */
};

static const uint64_t DELAY_NS_MAX = 5 * NS_PER_S;
static const char REPEATABLE[] = "POST /raft";
static const uint8_t PROPOSAL[] = {0x08, 0x02}; /* how a message begins that forwards one */

struct fake_wire {
    struct fake_time *time;
    struct fake_wire_options options;
    struct list hosts;
    struct list listeners;
    struct list conns;
    struct fake_host *by_number[FAKE_WIRE_HOSTS_MAX];
    unsigned host_count;
    struct fake_path *paths; /* FAKE_WIRE_HOSTS_MAX rows of the same: [from][to] */
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
    unsigned number;
    bool cut, is_off;
    struct list repeats; /* requests that a proxy will send, or sends, once more */
};

struct fake_listener {
    struct listener base;
    struct fake_host *host;
    struct list link;
    struct list backlog; /* connections that wait */
    unsigned conns;      /* alive, with those that left before they were admitted */
    struct fake_task retry;
    struct event failed;
    bool is_failing, waits_for_place, closing;
};

/* One direction of a connection. An end that has closed is NULL. */
struct fake_pipe {
    struct fake_link *link;
    struct fake_conn *from, *to;
    struct fake_host *from_host, *to_host;
    struct buf flying, arrived;
    size_t unheard;   /* bytes that have arrived, and the sender does not know it */
    unsigned resends; /* of the piece that is next */
    uint64_t sent_ns; /* when it left */
    bool end_sent, end_arrived;
    struct fake_task task;
};

struct fake_link {
    struct fake_wire *wire;
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
    bool show_again; /* what is being shown */
    bool has_fd;     /* as long as it waits for the other process it has none */
    struct admission admission;
    uint64_t owner; /* of its address */
    enum err reason;
    struct event opened, readable, gone;
    struct fake_task task;      /* connecting, later closing */
    struct fake_task keepalive; /* scheduled when the other end has gone without a word */
    bool asks;                  /* whether it is there, and hears nothing */
    unsigned attempts;          /* of connecting, in vain */
    struct fake_repeat *repeat; /* what it says is noted there; or NULL */
};

/* What begins like a request is sent once more by somebody on the way, who does not care for the
 * answer. */
struct fake_repeat {
    struct fake_host *host;
    struct list link;           /* on the host's */
    struct fake_conn *original; /* NULL: it has gone */
    struct net_address target;
    struct buf request;
    struct fake_task task;
    struct bytes piece;
    struct conn_write write;
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

/* --- paths --- */

static struct fake_path *path_between(const struct fake_host *from, const struct fake_host *to)
{
    return &from->wire->paths[from->number * FAKE_WIRE_HOSTS_MAX + to->number];
}

static bool is_cut(const struct fake_host *from, const struct fake_host *to)
{
    if (from == to)
        return false;
    return from->cut || to->cut || from->is_off || to->is_off || path_between(from, to)->cut;
}

static bool is_lost(const struct fake_host *from, const struct fake_host *to)
{
    unsigned percent = path_between(from, to)->loss_percent;

    return percent > 0 && rng_chance(&from->wire->time->rng, percent, 100);
}

static uint64_t draw_delay_ns(const struct fake_host *from, const struct fake_host *to)
{
    const struct fake_path *path = path_between(from, to);
    struct fake_delay delay = path->delay.max_ns > 0 ? path->delay : from->wire->options.delay;
    struct rng *rng = &from->wire->time->rng;
    uint64_t ns = rng_between(rng, delay.min_ns, delay.max_ns);

    for (unsigned i = 0; i < DOUBLINGS_MAX && path->tail_percent > 0; i++) {
        if (!rng_chance(rng, path->tail_percent, 100))
            break;
        ns *= 2;
    }
    return ns < DELAY_NS_MAX ? ns : DELAY_NS_MAX;
}

static void tell(const struct fake_host *from, const struct fake_host *to,
                 enum fake_wire_event what, uint64_t sent_ns, size_t bytes)
{
    const struct fake_wire *w = from->wire;

    if (w->options.on_event && from != to)
        w->options.on_event(w->options.context, what, from->number, to->number, sent_ns, bytes);
}

static uint64_t backoff_ns(unsigned first_ms, unsigned times)
{
    uint64_t ms = (uint64_t)first_ms << (times < DOUBLINGS_MAX ? times : DOUBLINGS_MAX);

    return (ms < RESEND_MS_MAX ? ms : RESEND_MS_MAX) * NS_PER_MS;
}

/* --- pieces --- */

static void fly_on(struct fake_pipe *p)
{
    struct fake_time *time = p->link->wire->time;

    if (heap_has(&p->task.node))
        return;
    p->sent_ns = time->now_ns;
    fake_time_at(time, &p->task, time->now_ns + draw_delay_ns(p->from_host, p->to_host));
}

static size_t window_credit(const struct fake_pipe *p)
{
    size_t used = p->flying.len + p->arrived.len + p->unheard;
    size_t window = p->link->wire->options.window_bytes;

    return used < window ? window - used : 0;
}

static void put_flying(struct fake_conn *c, struct bytes data)
{
    struct buf *request = c->repeat ? &c->repeat->request : NULL;

    buf_append(&c->out->flying, data);
    if (request && request->len + data.len <= REPEATED_BYTES_MAX)
        buf_append(request, data);
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
        put_flying(c, next);
        conn_queue_sent(&c->queue, next.len, c->host->inbox);
    }
    if (c->shutdown_wanted && c->queue.bytes == 0)
        p->end_sent = true;
    if (p->flying.len > 0 || (p->end_sent && !p->end_arrived))
        fly_on(p);
}

/* The next try. With more segments behind it the receiver misses it and says so; otherwise only a
 * timer of the sender does, each time later. */
static void send_again(struct fake_pipe *p)
{
    struct fake_time *time = p->link->wire->time;
    uint64_t ns = backoff_ns(RESEND_MS, p->resends);

    if (p->resends == 0 && p->flying.len > SEGMENT_BYTES && !is_cut(p->from_host, p->to_host))
        ns = draw_delay_ns(p->to_host, p->from_host);
    tell(p->from_host, p->to_host, FAKE_WIRE_LOST, p->sent_ns, p->flying.len);
    p->resends++;
    fake_time_at(time, &p->task, time->now_ns + ns + draw_delay_ns(p->from_host, p->to_host));
}

/* Must the piece that is due wait for the path? */
static bool waits_for_path(struct fake_pipe *p)
{
    const struct fake_path *path = path_between(p->from_host, p->to_host);
    struct fake_time *time = p->link->wire->time;
    uint64_t free_ns = path->clogged_until_ns;

    if (path->bytes_per_s > 0 && path->busy_until_ns > free_ns)
        free_ns = path->busy_until_ns;
    if (free_ns <= time->now_ns)
        return false;
    fake_time_at(time, &p->task, free_ns);
    return true;
}

/* What arrives at once, at most: on a slow path a part of what there is. */
static size_t piece_bytes(struct fake_pipe *p)
{
    struct fake_path *path = path_between(p->from_host, p->to_host);
    struct fake_time *time = p->link->wire->time;
    bool whole = rng_chance(&time->rng, 1, 2);
    size_t len = whole ? p->flying.len : (size_t)rng_between(&time->rng, 1, p->flying.len);

    if (path->bytes_per_s == 0)
        return len;
    if (len > SEGMENT_BYTES)
        len = SEGMENT_BYTES;
    path->busy_until_ns = time->now_ns + len * NS_PER_S / path->bytes_per_s;
    return len;
}

/* Nobody there any more: the sender hears of it, as TCP's reset tells it, if there is a way. */
static void nobody_there(struct fake_pipe *p)
{
    if (p->flying.len + p->unheard == 0 || !p->from) {
        buf_clear(&p->flying);
        return;
    }
    if (is_cut(p->to_host, p->from_host)) {
        send_again(p);
        return;
    }
    buf_clear(&p->flying);
    p->unheard = 0;
    fail(p->from, ERR_RESET);
}

/* The sender hears that its bytes have arrived, or tries them again until it does. */
static void hear_of_arrival(struct fake_pipe *p)
{
    if (p->unheard == 0)
        return;
    if (is_cut(p->to_host, p->from_host)) {
        if (!heap_has(&p->task.node))
            send_again(p);
        return;
    }
    p->unheard = 0;
    if (p->from)
        send_queued(p->from);
}

/* A piece arrives, or is due and does not. */
static void arrive(struct fake_task *task)
{
    struct fake_pipe *p = container_of(task, struct fake_pipe, task);

    if (waits_for_path(p))
        return;
    if (is_cut(p->from_host, p->to_host) || is_lost(p->from_host, p->to_host)) {
        send_again(p);
        return;
    }
    p->resends = p->unheard > 0 ? p->resends : 0;
    if (!p->to) {
        nobody_there(p);
        return;
    }
    if (p->flying.len > 0) {
        size_t len = piece_bytes(p);
        tell(p->from_host, p->to_host, FAKE_WIRE_SENT, p->sent_ns, len);
        buf_append(&p->arrived, bytes_of(p->flying.at, len));
        buf_drop_front(&p->flying, len);
        p->unheard += is_cut(p->to_host, p->from_host) ? len : 0;
    }
    if (p->flying.len > 0)
        fly_on(p);
    else
        p->end_arrived = p->end_sent;
    put_once(p->to, &p->to->readable);
    hear_of_arrival(p);
}

static void show_input(struct fake_conn *c)
{
    struct buf data = c->in->arrived;

    c->in->arrived = (struct buf){0};
    if (c->in->from)
        send_queued(c->in->from); /* the window has opened */
    c->base.on->on_data(&c->base, buf_bytes(&data));
    if (!c->show_again || c->closing) {
        buf_free(&data);
        return;
    }
    c->show_again = false;
    c->in->arrived = data;
    put_once(c, &c->readable);
}

static void deliver(struct event *e)
{
    struct fake_conn *c = container_of(e, struct fake_conn, readable);

    if (!c->base.on || c->paused || c->closing)
        return;
    if (c->in->arrived.len > 0)
        show_input(c);
    if (c->paused || c->closing || c->end_shown || !c->in->end_arrived || c->in->arrived.len > 0)
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

static void wait_for_place(struct fake_listener *l, uint64_t again_ns)
{
    l->waits_for_place = true;
    if (again_ns > 0)
        fake_time_at(l->host->wire->time, &l->retry, again_ns);
}

static void evict(struct admission *a)
{
    fail(container_of(a, struct fake_conn, admission), ERR_EVICTED);
}

static void admit(struct fake_listener *l, struct fake_conn *c)
{
    l->is_failing = false;
    l->conns++;
    c->has_fd = true;
    c->admission.evict = evict;
    listener_took(&l->base, &c->admission, c->owner, l->host->wire->time->now_ns);
    c->base.admission = &c->admission;
    put_once(c, &c->opened);
}

/* Announces connections while it may. */
static void listener_admit(struct fake_listener *l)
{
    uint64_t again_ns;

    while (!l->closing && !list_empty(&l->backlog)) {
        if (!listener_may_take(&l->base, l->host->wire->time->now_ns, &again_ns)) {
            wait_for_place(l, again_ns);
            return;
        }
        if (!fake_fds_take(l->host->fds)) {
            wait_and_retry(l);
            return;
        }
        admit(l, container_of(list_pop_front(&l->backlog), struct fake_conn, backlog_link));
    }
}

static void look_again(struct listener *base)
{
    struct fake_listener *l = container_of(base, struct fake_listener, base);

    if (l->waits_for_place)
        fake_time_cancel(l->host->wire->time, &l->retry);
    l->waits_for_place = false;
    listener_admit(l);
}

static void retry(struct fake_task *t)
{
    struct fake_listener *l = container_of(t, struct fake_listener, retry);

    l->waits_for_place = false;
    listener_admit(l);
}

static void conn_free(struct fake_conn *c)
{
    struct fake_listener *l = c->listener;

    if (c->has_fd)
        fake_fds_give_back(c->host->fds);
    if (c->repeat)
        c->repeat->original = NULL;
    if (c->out) {
        c->out->link->ends--;
        if (c->out->link->ends == 0)
            link_free(c->out->link);
    }
    fake_time_cancel(c->host->wire->time, &c->task);
    fake_time_cancel(c->host->wire->time, &c->keepalive);
    list_remove(&c->link);
    admission_end(&c->admission);
    mem_free(c);
    if (l) {
        l->conns--;
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

/* The kernel asks whether the other end is still there, and is told that it is not, or nothing. */
static void ask_if_there(struct fake_task *t)
{
    struct fake_conn *c = container_of(t, struct fake_conn, keepalive);
    const struct fake_host *there = c->in->from_host;

    if (!is_cut(c->host, there) && !is_cut(there, c->host))
        fail(c, ERR_RESET);
    else if (c->asks)
        fail(c, ERR_TIMEOUT);
    else
        fake_time_at(c->host->wire->time, t, t->due_ns + KEEPALIVE_LIMIT_MS * NS_PER_MS);
    c->asks = true;
}

/* What was on the wire goes no further, and the other end hears of nothing: half-open. */
static void go_silently(struct fake_pipe *out)
{
    struct fake_time *time = out->link->wire->time;

    fake_time_cancel(time, &out->task);
    buf_clear(&out->flying);
    if (out->to && !out->to->closing) {
        out->to->keepalive.run = ask_if_there;
        fake_time_at(time, &out->to->keepalive, time->now_ns + KEEPALIVE_MS * NS_PER_MS);
    }
}

static bool goes_silently(struct fake_pipe *out)
{
    unsigned percent = path_between(out->from_host, out->to_host)->silent_percent;

    return percent > 0 && rng_chance(&out->link->wire->time->rng, percent, 100);
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
    if (reason == ERR_RESET && c->out)
        tell(c->host, c->out->to_host, FAKE_WIRE_RESET, c->host->wire->time->now_ns, 0);
    if (c->out) {
        c->out->from = NULL;
        c->in->to = NULL;
        buf_clear(&c->in->arrived);
        if (c->in->from)
            send_queued(c->in->from); /* its window is open: it will hear that nobody is there */
        if (goes_silently(c->out))
            go_silently(c->out);
        else {
            c->out->end_sent = true;
            fly_on(c->out);
        }
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
        put_flying(c, bytes_of(what.at, now));
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

static void show_again(struct conn *base)
{
    fake(base)->show_again = true;
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
        .show_again = show_again,
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
    l->ends = 2;
    for (unsigned i = 0; i < 2; i++) {
        struct fake_conn *from = i == 0 ? a : b, *to = i == 0 ? b : a;
        l->pipes[i] = (struct fake_pipe){.link = l,
                                         .from = from,
                                         .to = to,
                                         .from_host = from->host,
                                         .to_host = to->host,
                                         .task.run = arrive};
    }
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

static struct fake_host *find_host(const struct fake_host *from, const struct net_address *to)
{
    struct fake_wire *w = from->wire;

    for (unsigned i = 0; i < w->host_count && !is_loopback(to); i++) {
        const struct net_address *a = &w->by_number[i]->address;
        if (a->family == to->family && memcmp(a->ip, to->ip, sizeof(a->ip)) == 0)
            return w->by_number[i];
    }
    return is_loopback(to) ? w->by_number[from->number] : NULL;
}

static bool reaches_host(const struct fake_host *from, const struct fake_host *to)
{
    return !is_cut(from, to) && !is_cut(to, from) && !is_lost(from, to) && !is_lost(to, from);
}

static uint64_t path_free_ns(const struct fake_host *from, const struct fake_host *to)
{
    uint64_t there_ns = path_between(from, to)->clogged_until_ns;
    uint64_t back_ns = path_between(to, from)->clogged_until_ns;

    return there_ns > back_ns ? there_ns : back_ns;
}

/* There and back. */
static void try_to_connect(struct fake_conn *c, uint64_t after_ns)
{
    struct fake_time *time = c->host->wire->time;
    const struct fake_host *to = find_host(c->host, &c->target);
    uint64_t delay_ns = draw_delay_ns(c->host, to ? to : c->host);

    fake_time_at(time, &c->task, time->now_ns + after_ns + delay_ns);
}

static struct fake_conn *connect_ends(struct fake_conn *c, struct fake_listener *l)
{
    struct fake_conn *other = conn_new(l->host);
    struct net_address from = is_loopback(&c->target) ? c->target : c->host->address;

    from.port = c->host->next_port++;
    from.path[0] = '\0';
    net_address_text(&from, other->base.info.remote);
    other->owner = conn_owner_of_address(&from);
    other->listener = l;
    other->opened.run = announce;
    link_ends(c, other);
    tell(c->host, l->host, FAKE_WIRE_CONNECTED, c->host->wire->time->now_ns, 0);
    return other;
}

static void repeat_perhaps(struct fake_conn *c);

static void connect_now(struct fake_task *task)
{
    struct fake_conn *c = container_of(task, struct fake_conn, task);
    struct fake_time *time = c->host->wire->time;
    const struct fake_host *to = find_host(c->host, &c->target);

    if (to && path_free_ns(c->host, to) > time->now_ns) {
        fake_time_at(time, &c->task, path_free_ns(c->host, to));
        return;
    }
    if (to && !reaches_host(c->host, to)) {
        try_to_connect(c, backoff_ns(CONNECT_MS, c->attempts++));
        return;
    }
    struct fake_listener *l = find_listener(c->host, &c->target);
    if (!l) {
        if (to)
            tell(c->host, to, FAKE_WIRE_REFUSED, time->now_ns, 0);
        fail(c, ERR_REFUSED);
        return;
    }
    struct fake_conn *other = connect_ends(c, l);
    list_push_back(&l->backlog, &other->backlog_link);
    listener_admit(l);
    put_once(c, &c->opened);
    repeat_perhaps(c);
    send_queued(c);
}

static struct fake_conn *start_connecting(struct fake_host *h, const struct net_address *a,
                                          const struct conn_handlers *on, void *context)
{
    struct fake_conn *c = conn_new(h);

    c->base.on = on;
    c->base.context = context;
    c->target = *a;
    c->opened.run = tell_open;
    c->task.run = connect_now;
    net_address_text(a, c->base.info.remote);
    return c;
}

static struct conn *connect_to(struct net *n, const struct net_address *a,
                               const struct conn_handlers *on, void *context)
{
    struct fake_host *h = host_of(n);
    struct fake_conn *c = start_connecting(h, a, on, context);

    c->has_fd = fake_fds_take(h->fds);
    if (c->has_fd)
        try_to_connect(c, 0);
    else
        fail(c, ERR_NO_FILES);
    return &c->base;
}

/* --- requests that come twice --- */

static void repeat_free(struct fake_repeat *r)
{
    if (r->original)
        r->original->repeat = NULL;
    list_remove(&r->link);
    buf_free(&r->request);
    mem_free(r);
}

static void ignore_data(struct conn *c, struct bytes data)
{
    (void)c;
    (void)data;
}

static void end_repeat(struct conn *c)
{
    conn_close(c, ERR_OK);
}

static void repeat_over(struct conn *c, enum err reason)
{
    (void)reason;
    repeat_free(c->context);
}

static void repeat_written(struct conn_write *w, enum err e)
{
    (void)w;
    (void)e;
}

/* The first request of what was said, whole; empty if it is not there, or not to be repeated:
 * nobody bears a proposal that comes twice, but all else of raft's everybody must. */
static struct bytes repeatable(struct buf *said)
{
    const char *head = buf_str(said), *end = strstr(head, "\r\n\r\n");
    const char *length = strstr(head, "Content-Length: ");

    if (strncmp(head, REPEATABLE, sizeof(REPEATABLE) - 1) != 0 || !end || !length || length > end)
        return (struct bytes){0};
    size_t head_len = (size_t)(end + 4 - head), body_len = 0;
    body_len = strtoul(length + strlen("Content-Length: "), NULL, 10);
    struct bytes body = bytes_of(said->at + head_len, said->len - head_len);
    if (body.len < body_len || body_len < sizeof(PROPOSAL) ||
        memcmp(body.at, PROPOSAL, sizeof(PROPOSAL)) == 0)
        return (struct bytes){0};
    return bytes_of(said->at, head_len + body_len);
}

/* After the original, or before its end, with whatever of it was heard by then. */
static void repeat_now(struct fake_task *t)
{
    static const struct conn_handlers on = {
        .on_data = ignore_data, .on_end = end_repeat, .on_closed = repeat_over};
    struct fake_repeat *r = container_of(t, struct fake_repeat, task);

    r->piece = repeatable(&r->request);
    if (r->piece.len == 0) {
        repeat_free(r);
        return;
    }
    if (r->original)
        r->original->repeat = NULL;
    r->original = NULL;
    struct fake_conn *c = start_connecting(r->host, &r->target, &on, r);
    r->write =
        (struct conn_write){.pieces = &r->piece, .piece_count = 1, .on_done = repeat_written};
    tell(c->host, find_host(c->host, &r->target), FAKE_WIRE_REPEATED, c->host->wire->time->now_ns,
         r->piece.len);
    conn_write(&c->base, &r->write);
    conn_shutdown(&c->base);
    try_to_connect(c, 0);
}

static void repeat_perhaps(struct fake_conn *c)
{
    struct fake_time *time = c->host->wire->time;
    unsigned percent = path_between(c->host, c->in->from_host)->repeat_percent;

    if (percent == 0 || c->base.on->on_closed == repeat_over)
        return;
    if (!rng_chance(&time->rng, percent, 100))
        return;
    struct fake_repeat *r = mem_new(struct fake_repeat);
    r->host = c->host;
    r->original = c;
    r->target = c->target;
    r->task.run = repeat_now;
    list_init(&r->link);
    list_push_back(&c->host->repeats, &r->link);
    c->repeat = r;
    fake_time_at(time, &r->task,
                 time->now_ns + rng_between(&time->rng, 1, REPEAT_MS_MAX) * NS_PER_MS);
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
    listener_forget_conns(&l->base);
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

static void forget_repeats(struct fake_host *h)
{
    LIST_FOREACH (link, &h->repeats) {
        struct fake_repeat *r = container_of(link, struct fake_repeat, link);
        fake_time_cancel(h->wire->time, &r->task);
        repeat_free(r);
    }
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
    w->paths = mem_new_array((size_t)FAKE_WIRE_HOSTS_MAX * FAKE_WIRE_HOSTS_MAX, struct fake_path);
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
    LIST_FOREACH (link, &w->hosts) {
        struct fake_host *h = container_of(link, struct fake_host, link);
        forget_repeats(h);
        mem_free(h);
    }
    mem_free(w->paths);
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
    list_init(&h->repeats);
    list_push_back(&w->hosts, &h->link);
    assert(w->host_count < FAKE_WIRE_HOSTS_MAX);
    h->number = w->host_count;
    w->by_number[w->host_count++] = h;
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

struct fake_path *fake_wire_path(struct net *from, struct net *to)
{
    return path_between(host_of(from), host_of(to));
}

/* A kernel that lives tells the other end, once: what it says is not repeated if it is lost. */
static void conn_vanish(struct fake_conn *c)
{
    struct fake_host *h = c->host;

    if (c->in && c->in->from && !is_cut(h, c->in->from_host))
        fail(c->in->from, ERR_RESET);
    if (c->out) {
        c->out->from = NULL;
        go_silently(c->out);
    }
    if (c->in) {
        c->in->to = NULL;
        buf_clear(&c->in->arrived);
        if (c->in->from)
            send_queued(c->in->from); /* nobody holds its window closed any more */
    }
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
    forget_repeats(h);
    for (struct list *link; (link = list_pop_front(&listeners));) {
        struct fake_listener *l = container_of(link, struct fake_listener, link);
        l->conns--;
        listener_free_if_unused(l);
    }
}

void fake_wire_power_off(struct net *host)
{
    host_of(host)->is_off = true;
    fake_wire_crash(host);
}

void fake_wire_power_on(struct net *host)
{
    host_of(host)->is_off = false;
}

void fake_wire_reset(struct conn *c)
{
    struct fake_conn *end = fake(c);

    if (end->in && end->in->from)
        fail(end->in->from, ERR_RESET);
    fail(end, ERR_RESET);
}

void fake_wire_reset_between(struct net *a, struct net *b)
{
    LIST_FOREACH (link, &host_of(a)->wire->conns) {
        struct fake_conn *c = container_of(link, struct fake_conn, link);
        if (c->out && c->host == host_of(a) && c->out->to_host == host_of(b))
            fake_wire_reset(&c->base);
    }
}
