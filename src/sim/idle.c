#include "sim/idle.h"

#include "base/assert.h"
#include "base/mem.h"
#include "io/clock.h"

enum { STAY_MS_MAX = 400, AWAY_MS_MAX = 1000 };

struct idle {
    struct idle_options o;
    struct conn *conns[IDLE_MAX]; /* NULL: not connected */
    struct timer timer;
    bool is_over;
};

static void on_data(struct conn *c, struct bytes data)
{
    (void)c;
    (void)data; /* HTTP/2 servers introduce themselves unasked */
}

static void on_end(struct conn *c)
{
    conn_close(c, ERR_OK);
}

static void on_closed(struct conn *c, enum err reason)
{
    struct idle *i = c->context;

    (void)reason;
    for (unsigned n = 0; n < i->o.count; n++)
        if (i->conns[n] == c)
            i->conns[n] = NULL;
}

static const struct conn_handlers handlers = {
    .on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static void come(struct idle *i)
{
    for (unsigned n = 0; n < i->o.count; n++)
        if (!i->conns[n])
            i->conns[n] = net_connect(i->o.io->net, &i->o.server, &handlers, i);
}

static void leave(struct idle *i, unsigned percent)
{
    for (unsigned n = 0; n < i->o.count; n++)
        if (i->conns[n] && rng_chance(&i->o.rng, percent, 100))
            conn_close(i->conns[n], ERR_OK);
}

static void wait_ms(struct idle *i, unsigned ms_max)
{
    timer_start(i->o.io->clock, &i->timer, rng_between(&i->o.rng, 1, ms_max) * NS_PER_MS);
}

static void on_time(struct timer *t)
{
    struct idle *i = container_of(t, struct idle, timer);

    if (rng_chance(&i->o.rng, 1, 2)) {
        come(i);
        wait_ms(i, STAY_MS_MAX);
    } else {
        leave(i, rng_chance(&i->o.rng, 1, 2) ? 100 : 30);
        wait_ms(i, AWAY_MS_MAX);
    }
}

struct idle *idle_new(const struct idle_options *options)
{
    struct idle *i = mem_new(struct idle);

    assert(options->count <= IDLE_MAX);
    i->o = *options;
    i->timer.on_time = on_time;
    wait_ms(i, STAY_MS_MAX);
    return i;
}

void idle_wind_down(struct idle *i)
{
    if (!i || i->is_over)
        return;
    i->is_over = true;
    timer_stop(i->o.io->clock, &i->timer);
    leave(i, 100);
}

void idle_free(struct idle *i)
{
    mem_free(i);
}
