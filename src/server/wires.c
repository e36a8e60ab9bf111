#include "server/wires.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "io/io.h"
#include "io/thread.h"
#include "io/tls.h"
#include "rpc/rpc.h"

struct wire {
    struct wires *wires;
    unsigned nth;
    struct io_thread *thread;

    /* The thread's, while it runs. */
    struct rpc *rpc;
    struct rpc_line *line;
    struct tls *tls;
    bool is_stopping, has_told;

    /* Posted to the thread, with what is said; and by it. */
    struct event stop, cut, idle;
    bool hears_nobody;

    bool is_gone; /* the core's */
};

struct wires {
    const struct io *io;
    const struct logger *logger;
    struct rpc_line *line;
    bool reuse_port;
    struct conn_limit conn_limit, probe_limit; /* of all threads together */
    struct listener *listeners[RPC_LISTENERS_MAX];
    size_t listener_count;
    bool is_stopping, has_cut;
    unsigned count;
    struct wire all[];
};

/* A batch on its way, between a wire and the core. */
struct letter {
    struct event event;
    struct wire *wire;
    struct rpc_batch *batch;
};

/* NULL is fine: there is nothing to be said. */
static void send(struct inbox *to, void (*hear)(struct event *e), struct wire *w,
                 struct rpc_batch *batch)
{
    if (!batch)
        return;
    struct letter *l = mem_new(struct letter);
    *l = (struct letter){.event.run = hear, .wire = w, .batch = batch};
    inbox_post(to, &l->event);
}

/* --- on the thread --- */

static void hear_replies(struct event *e)
{
    struct letter *l = container_of(e, struct letter, event);

    rpc_line_unpack(l->wire->line, 0, l->batch);
    mem_free(l);
}

static void hear_stop(struct event *e)
{
    struct wire *w = container_of(e, struct wire, stop);

    w->is_stopping = true;
    rpc_stop(w->rpc);
}

static void hear_cut(struct event *e)
{
    rpc_cut(container_of(e, struct wire, cut)->rpc);
}

static void hear_events(struct event *e)
{
    struct letter *l = container_of(e, struct letter, event);

    rpc_line_unpack(l->wire->wires->line, l->wire->nth, l->batch);
    mem_free(l);
}

/* While a lane has no budget, something may wait for it. What brings some wakes us. */
static bool has_said_all(const struct wire *w)
{
    for (unsigned lane = 0; lane < RPC_LANE_COUNT; lane++) {
        if (!rpc_line_has_budget(w->line, lane))
            return false;
    }
    return !rpc_has_events(w->rpc);
}

static bool is_idle(const struct wire *w)
{
    return w->is_stopping && rpc_is_idle(w->rpc) && (!w->tls || tls_is_idle(w->tls)) &&
           (w->hears_nobody || has_said_all(w));
}

/* Replies first: what they set free may bring events that leave in the same batch. */
static void wire_turn(void *context)
{
    struct wire *w = context;

    inbox_drain(w->thread->io->inbox, TURN_EVENTS_MAX);
    rpc_flush(w->rpc);
    if (w->has_told)
        return;
    rpc_deliver(w->rpc);
    send(w->wires->io->inbox, hear_events, w, rpc_line_pack(w->line, 0));
    if (is_idle(w)) {
        w->has_told = true;
        inbox_post(w->wires->io->inbox, &w->idle);
    }
}

/* --- the core --- */

static void hear_idle(struct event *e)
{
    struct wire *w = container_of(e, struct wire, idle);

    w->is_gone = true;
    rpc_line_drop(w->wires->line, w->nth);
}

static void open_wire(struct wires *all, unsigned nth, const struct rpc_options *options)
{
    struct wire *w = &all->all[nth];
    struct rpc_options o = *options;

    *w = (struct wire){.wires = all,
                       .nth = nth,
                       .thread = all->io->threads[nth],
                       .line = rpc_line_open(&(struct rpc_line_options){.end = RPC_LINE_OF_RPC}),
                       .stop.run = hear_stop,
                       .cut.run = hear_cut,
                       .idle.run = hear_idle};
    o.io = w->thread->io;
    o.line = w->line;
    o.nth = nth;
    o.rpcs = all->count;
    o.seed += nth;
    w->rpc = rpc_open(&o);
}

struct wires *wires_open(const struct io *io, const struct rpc_options *rpc, struct rpc_line *line)
{
    struct wires *w = mem_alloc(sizeof(*w) + io->thread_count * sizeof(w->all[0]));

    assert(io->thread_count > 0);
    w->io = io;
    w->logger = rpc->logger;
    w->line = line;
    w->reuse_port = rpc->reuse_port;
    w->count = io->thread_count;
    conn_limit_init(&w->conn_limit, rpc->conns_max);
    conn_limit_init(&w->probe_limit, RPC_PROBE_CONNS_MAX);
    w->probe_limit.patience_ms = RPC_PROBE_PATIENCE_MS;
    for (unsigned i = 0; i < w->count; i++)
        open_wire(w, i, rpc);
    return w;
}

enum err wires_open_tls(struct wires *w, const struct secure *secure,
                        const struct secure_options *options, struct buf *why)
{
    struct secure_options o = *options;
    enum err e = ERR_OK;

    for (unsigned i = 0; e == ERR_OK && i < w->count; i++) {
        o.io = w->all[i].thread->io;
        e = secure_open_tls(secure, &o, why, &w->all[i].tls);
    }
    return e;
}

static void on_accept_failed(struct listener *l, enum err e)
{
    const struct wires *w = l->options.context;

    log_warn(w->logger, "failed to accept connections; they wait", LOG_STR("error", err_text(e)));
}

/* The socket is the core's; the threads listen where it is bound. */
enum err wires_listen(struct wires *w, const struct rpc_place *place, bool is_secure,
                      struct net_address *bound)
{
    bool is_probe = place->serves == RPC_SERVES_PROBES;
    struct listener_options options = {.limit = is_probe ? &w->probe_limit : &w->conn_limit,
                                       .reuse_port = w->reuse_port,
                                       .is_dealt = true,
                                       .on_failed = on_accept_failed,
                                       .context = w};
    struct listener **l = &w->listeners[w->listener_count];

    if (w->listener_count == RPC_LISTENERS_MAX)
        return ERR_TOO_LARGE;
    enum err e = net_listen(w->io->net, &place->address, &options, l);
    if (e != ERR_OK)
        return e;
    w->listener_count++;
    for (unsigned i = 0; e == ERR_OK && i < w->count; i++) {
        struct rpc_place there = {.address = (*l)->address, .serves = place->serves};
        if (is_secure)
            there.net = tls_net(w->all[i].tls);
        e = rpc_listen(w->all[i].rpc, &there, bound);
    }
    return e;
}

enum err wires_start(struct wires *w)
{
    enum err e = ERR_OK;

    for (unsigned i = 0; e == ERR_OK && i < w->count; i++)
        e = io_thread_start(w->all[i].thread, wire_turn, &w->all[i]);
    return e;
}

void wires_flush(struct wires *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        struct wire *to = &w->all[i];
        if (to->is_gone)
            rpc_line_drop(w->line, i);
        else
            send(to->thread->io->inbox, hear_replies, to, rpc_line_pack(w->line, i));
    }
}

/* --- ending --- */

/* Before the threads close theirs: what was dealt out is there when they do. */
static void stop_listening(struct wires *w)
{
    while (w->listener_count > 0)
        listener_close(w->listeners[--w->listener_count]);
}

void wires_stop(struct wires *w, bool hears_nobody)
{
    if (w->is_stopping)
        return;
    w->is_stopping = true;
    stop_listening(w);
    for (unsigned i = 0; i < w->count; i++) {
        w->all[i].hears_nobody = hears_nobody;
        inbox_post(w->all[i].thread->io->inbox, &w->all[i].stop);
    }
}

void wires_cut(struct wires *w)
{
    if (w->has_cut)
        return;
    w->has_cut = true;
    for (unsigned i = 0; i < w->count; i++)
        inbox_post(w->all[i].thread->io->inbox, &w->all[i].cut);
}

bool wires_are_gone(const struct wires *w)
{
    for (unsigned i = 0; i < w->count; i++)
        if (!w->all[i].is_gone)
            return false;
    return true;
}

/* Its inbox may have replies that were sent to it when it had gone. */
static void close_wire(struct wire *w)
{
    io_thread_end(w->thread);
    inbox_drain(w->thread->io->inbox, SIZE_MAX);
    rpc_stop(w->rpc); /* of a boot that was refused it has listeners */
    rpc_close(w->rpc);
    tls_close(w->tls);
    rpc_line_close(w->line);
}

void wires_close(struct wires *w)
{
    if (!w)
        return;
    assert(!w->is_stopping || wires_are_gone(w)); /* or one would say so to nobody */
    stop_listening(w);
    for (unsigned i = 0; i < w->count; i++)
        close_wire(&w->all[i]);
    conn_limit_free(&w->conn_limit);
    conn_limit_free(&w->probe_limit);
    mem_free(w);
}
