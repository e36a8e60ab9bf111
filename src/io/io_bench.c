#include "base/list.h"
#include "harness/bench.h"
#include "io/clock.h"
#include "io/disk.h"
#include "io/loop.h"
#include "io/net.h"

/* What the seams themselves cost: hand-overs, timers, and one message there and back. */

static void nothing(struct event *e)
{
    (void)e;
}

static void put_and_drain(void *context, uint64_t times)
{
    struct inbox *in = context;
    struct event e = {.run = nothing};

    for (uint64_t i = 0; i < times; i++) {
        inbox_put(in, &e);
        inbox_drain(in, 1);
    }
}

static void post_and_drain(void *context, uint64_t times)
{
    struct inbox *in = context;
    struct event e = {.run = nothing};

    for (uint64_t i = 0; i < times; i++) {
        inbox_post(in, &e);
        inbox_drain(in, 1);
    }
}

BENCH(io_inbox)
{
    struct inbox in;

    inbox_init(&in, NULL, NULL);
    bench_run(&(struct bench_work){.suffix = "put", .body = put_and_drain, .context = &in});
    bench_run(&(struct bench_work){.suffix = "post", .body = post_and_drain, .context = &in});
}

static struct loop *open_loop(void)
{
    struct loop *l;

    if (loop_open(&(struct loop_options){0}, &l) != ERR_OK)
        fatal("no loop");
    return l;
}

static void drain(void *context)
{
    inbox_drain(loop_io(context)->inbox, 64);
}

static void no_time(struct timer *t)
{
    (void)t;
}

static void move_timer(void *context, uint64_t times)
{
    struct loop *l = context;
    struct timer t = {.on_time = no_time};

    for (uint64_t i = 0; i < times; i++)
        timer_start(loop_io(l)->clock, &t, NS_PER_S);
    timer_stop(loop_io(l)->clock, &t);
}

BENCH(io_timer_move)
{
    struct loop *l = open_loop();

    bench_run(&(struct bench_work){.body = move_timer, .context = l});
    loop_close(l);
}

struct waiter {
    struct disk_op op;
    bool done;
};

static void note_done(struct disk_op *op)
{
    container_of(op, struct waiter, op)->done = true;
}

static void ask_disk(void *context, uint64_t times)
{
    struct loop *l = context;

    for (uint64_t i = 0; i < times; i++) {
        struct waiter w = {.op = {.kind = DISK_STAT, .path = "/", .on_done = note_done}};
        disk_submit(loop_io(l)->disk, DISK_LOG, &w.op);
        while (!w.done)
            loop_run_once(l, drain, l);
    }
}

BENCH(io_disk_handover)
{
    struct loop *l = open_loop();

    bench_run(&(struct bench_work){.body = ask_disk, .context = l});
    loop_close(l);
}

/* Ping-pong over loopback: each end answers every message with one of the same size. */
struct pong {
    struct loop *loop;
    struct conn *ends[2];
    unsigned open;
    struct conn_write writes[2];
    struct bytes piece;
    uint64_t left;
    unsigned unreported;
    bool over;
};

static struct pong *game;

static void on_written(struct conn_write *w, enum err e)
{
    (void)w;
    if (e != ERR_OK)
        fatal("a write failed: %s", err_text(e));
    game->unreported--;
}

static void hit(struct pong *p, struct conn *c)
{
    struct conn_write *w = &p->writes[c == p->ends[1]];

    *w = (struct conn_write){.pieces = &p->piece, .piece_count = 1, .on_done = on_written};
    p->unreported++;
    conn_write(c, w);
}

static void on_data(struct conn *c, struct bytes data)
{
    struct pong *p = c->context;

    (void)data;
    p->over = p->left == 0;
    if (!p->over) {
        p->left--;
        hit(p, c);
    }
}

static void on_open(struct conn *c)
{
    ((struct pong *)c->context)->open++;
}

static void on_closed(struct conn *c, enum err reason)
{
    (void)reason;
    ((struct pong *)c->context)->open--;
}

static const struct conn_handlers players = {
    .on_open = on_open, .on_data = on_data, .on_closed = on_closed};

static void on_accept(struct listener *l, struct conn *c)
{
    struct pong *p = l->options.context;

    p->ends[1] = c;
    p->open++;
    conn_accept(c, &players, p);
}

static void play(void *context, uint64_t times)
{
    struct pong *p = context;

    p->left = times - 1;
    p->over = false;
    hit(p, p->ends[0]);
    while (!p->over || p->unreported > 0)
        loop_run_once(p->loop, drain, p->loop);
}

BENCH(io_tcp_message)
{
    struct pong p = {.loop = open_loop(), .piece = BYTES("twenty-five bytes of pong")};
    struct net *n = loop_io(p.loop)->net;
    struct net_address a;
    struct listener *l;
    game = &p;

    if (net_address_parse("127.0.0.1:0", &a) != ERR_OK ||
        net_listen(n, &a, &(struct listener_options){.on_accept = on_accept, .context = &p}, &l) !=
            ERR_OK)
        fatal("cannot listen");
    p.ends[0] = net_connect(n, &l->address, &players, &p);
    while (p.open < 2)
        loop_run_once(p.loop, drain, p.loop);

    bench_run(&(struct bench_work){.body = play, .context = &p});

    conn_close(p.ends[0], ERR_OK);
    conn_close(p.ends[1], ERR_OK);
    while (p.open > 0)
        loop_run_once(p.loop, drain, p.loop);
    listener_close(l);
    loop_close(p.loop);
}
