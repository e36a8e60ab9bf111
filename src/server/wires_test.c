/* Connections on threads, and a core that answers plain requests with their path. */
#include "server/wires.h"

#include "base/assert.h"
#include "base/mem.h"
#include "harness/test.h"
#include "io/loop.h"
#include "rpc/rpc.h"

enum { THREADS = 2 };

struct rig {
    struct loop *loop;
    const struct io *io;
    struct logger logger;
    struct rpc_line *line;
    struct wires *wires;
    struct net_address address;
    bool keeps_silent;  /* the core remembers who asked, and does not answer */
    uint64_t asked[64]; /* those */
    unsigned asked_count, gone;
    unsigned served[THREADS]; /* by the thread that had it */
};

struct asker {
    struct rig *rig;
    struct conn *conn;
    struct conn_write write;
    struct bytes piece;
    struct buf got;
    unsigned left, answered, closed; /* requests */
};

static void rig_open(struct rig *r)
{
    struct net_address a;

    *r = (struct rig){.logger = {.sink = log_sink_none, .clock = log_clock_none}};
    CHECK_EQ(loop_open(&(struct loop_options){.io_threads = THREADS}, &r->loop), ERR_OK);
    r->io = loop_io(r->loop);
    r->line = rpc_line_open(
        &(struct rpc_line_options){.end = RPC_LINE_OF_CORE, .rpcs = r->io->thread_count});
    r->wires = wires_open(r->io, &(struct rpc_options){.logger = &r->logger}, r->line);
    CHECK_EQ(net_address_parse("127.0.0.1:0", &a), ERR_OK);
    CHECK_EQ(wires_listen(r->wires, &(struct rpc_place){.address = a}, false, &r->address), ERR_OK);
    CHECK_EQ(wires_start(r->wires), ERR_OK);
}

static void answer(struct rig *r, uint64_t call, struct bytes text)
{
    rpc_line_http_reply(r->line, call, 200, "text/plain", text);
}

static void hear(struct rig *r, struct rpc_event *e)
{
    if (e->kind == RPC_GONE) {
        r->gone++;
        return;
    }
    CHECK_EQ(e->kind, RPC_HTTP);
    r->served[e->call & (THREADS - 1)]++;
    if (r->keeps_silent)
        r->asked[r->asked_count++] = e->call;
    else
        answer(r, e->call, rpc_event_bytes(e, e->path));
    buf_free(&e->content);
}

static void turn(void *context)
{
    struct rig *r = context;
    struct rpc_event e;

    inbox_drain(r->io->inbox, SIZE_MAX);
    while (rpc_line_has_reply_budget(r->line) && rpc_line_take_event(r->line, RPC_LANE_CALLS, &e))
        hear(r, &e);
    wires_flush(r->wires);
}

static void rig_step(struct rig *r)
{
    loop_run_once(r->loop, turn, r);
}

static void rig_until(struct rig *r, const unsigned *count, unsigned want)
{
    while (*count < want)
        rig_step(r);
}

static void rig_close(struct rig *r)
{
    wires_close(r->wires);
    rpc_line_close(r->line);
    loop_close(r->loop);
}

static void rig_stop_and_close(struct rig *r)
{
    wires_stop(r->wires, false);
    while (!wires_are_gone(r->wires))
        rig_step(r);
    rig_close(r);
}

/* --- who asks --- */

static void on_sent(struct conn_write *w, enum err e)
{
    (void)w;
    (void)e;
}

static void ask(struct asker *a)
{
    static const char request[] = "GET /one HTTP/1.1\r\nHost: a\r\n\r\n";

    a->piece = bytes_of(request, sizeof(request) - 1);
    a->write = (struct conn_write){.pieces = &a->piece, .piece_count = 1, .on_done = on_sent};
    conn_write(a->conn, &a->write);
}

static void on_data(struct conn *c, struct bytes data)
{
    struct asker *a = c->context;

    buf_append(&a->got, data);
    if (!strstr(buf_str(&a->got), "\r\n\r\n/one"))
        return;
    CHECK(bytes_starts_with(buf_bytes(&a->got), BYTES("HTTP/1.1 200 OK\r\n")));
    buf_clear(&a->got);
    a->answered++;
    if (a->answered < a->left)
        ask(a);
}

static void on_end(struct conn *c)
{
    conn_close(c, ERR_OK);
}

static void on_closed(struct conn *c, enum err reason)
{
    struct asker *a = c->context;

    (void)reason;
    a->closed++;
    a->conn = NULL;
    buf_free(&a->got);
}

static void asker_open(struct rig *r, struct asker *a, unsigned requests)
{
    static const struct conn_handlers handlers = {
        .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

    *a = (struct asker){.rig = r, .left = requests};
    a->conn = net_connect(r->io->net, &r->address, &handlers, a);
    ask(a);
}

static void asker_close(struct rig *r, struct asker *a)
{
    if (a->conn)
        conn_close(a->conn, ERR_OK);
    rig_until(r, &a->closed, 1);
}

/* --- tests --- */

TEST(the_core_answers_what_threads_have_heard)
{
    enum { ASKERS = 32, REQUESTS = 200 };
    struct rig r;
    struct asker askers[ASKERS];

    rig_open(&r);
    for (unsigned i = 0; i < ASKERS; i++)
        asker_open(&r, &askers[i], REQUESTS);
    for (unsigned i = 0; i < ASKERS; i++)
        rig_until(&r, &askers[i].answered, REQUESTS);

    CHECK_EQ(r.served[0] + r.served[1], ASKERS * REQUESTS);
    CHECK_EQ(r.served[0], r.served[1]); /* each has half of them */
    for (unsigned i = 0; i < ASKERS; i++)
        asker_close(&r, &askers[i]);
    rig_stop_and_close(&r);
}

TEST(whoever_has_asked_is_answered_before_threads_stop)
{
    struct rig r;
    struct asker a;

    rig_open(&r);
    r.keeps_silent = true;
    asker_open(&r, &a, 1);
    rig_until(&r, &r.asked_count, 1);

    wires_stop(r.wires, false);
    answer(&r, r.asked[0], BYTES("/one"));
    rig_until(&r, &a.closed, 1);

    CHECK_EQ(a.answered, 1);
    CHECK_EQ(r.gone, 0);
    rig_stop_and_close(&r);
}

/* The core hears it of each call; what it says to them then goes nowhere. */
TEST(who_is_cut_off_is_gone_before_threads_are)
{
    enum { ASKERS = 8 };
    struct rig r;
    struct asker askers[ASKERS];

    rig_open(&r);
    r.keeps_silent = true;
    for (unsigned i = 0; i < ASKERS; i++)
        asker_open(&r, &askers[i], 1);
    rig_until(&r, &r.asked_count, ASKERS);

    wires_stop(r.wires, false);
    wires_cut(r.wires);
    while (!wires_are_gone(r.wires))
        rig_step(&r);
    CHECK_EQ(r.gone, ASKERS);
    for (unsigned n = 0; n < 2 * RPC_LINE_REPLIES_MAX; n++)
        answer(&r, r.asked[n % ASKERS], BYTES("late"));
    wires_flush(r.wires);
    CHECK(rpc_line_has_reply_budget(r.line));

    for (unsigned i = 0; i < ASKERS; i++)
        asker_close(&r, &askers[i]);
    rig_close(&r);
}

/* Nothing was accepted: there has been no turn. */
TEST(threads_of_a_boot_that_was_refused_end_at_once)
{
    struct rig r;

    rig_open(&r);
    rig_close(&r);
}

/* A member that is told to stop before it has heard anybody does not wait for being able to. */
TEST(threads_stop_also_if_nobody_hears_what_they_say)
{
    struct rig r;
    struct asker a;

    rig_open(&r);
    r.keeps_silent = true;
    asker_open(&r, &a, 1);
    rig_until(&r, &r.asked_count, 1);
    wires_stop(r.wires, true);
    wires_cut(r.wires);
    while (!wires_are_gone(r.wires))
        rig_step(&r);
    asker_close(&r, &a);
    rig_close(&r);
}

TEST(threads_with_connections_are_stopped_and_started_many_times)
{
    unsigned times = 50 * (unsigned)test_effort();

    for (unsigned i = 0; i < times; i++) {
        struct rig r;
        struct asker a, other;

        rig_open(&r);
        asker_open(&r, &a, 3);
        asker_open(&r, &other, 1 + i % 3);
        rig_until(&r, &a.answered, 1);
        wires_stop(r.wires, false); /* in the midst of it */
        if (i % 2 == 0)
            wires_cut(r.wires);
        rig_until(&r, &a.closed, 1);
        rig_until(&r, &other.closed, 1);
        rig_stop_and_close(&r);
    }
}
