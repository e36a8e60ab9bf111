#include "io/clock.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/list.h"

static struct timer *timer_of(const struct heap_node *node)
{
    return container_of(node, struct timer, node);
}

static bool earlier(const struct heap_node *a, const struct heap_node *b)
{
    const struct timer *ta = timer_of(a);
    const struct timer *tb = timer_of(b);

    if (ta->deadline_ns != tb->deadline_ns)
        return ta->deadline_ns < tb->deadline_ns;
    return ta->number < tb->number;
}

/* An alarm that comes too early costs a wake-up; moving it for every timer would cost more. */
static void wake_for_first(struct clock *c)
{
    struct heap_node *first = heap_first(&c->timers);

    if (!first || c->due.queued || timer_of(first)->deadline_ns >= c->alarm_ns)
        return;
    c->alarm_ns = timer_of(first)->deadline_ns;
    c->ops->set_alarm(c, c->alarm_ns);
}

static void fire_due(struct event *e)
{
    struct clock *c = container_of(e, struct clock, due);
    uint64_t now_ns = clock_now_ns(c);
    struct heap_node *first = heap_first(&c->timers);

    for (unsigned fired = 0; first && timer_of(first)->deadline_ns <= now_ns; fired++) {
        /* So that a drain of the inbox that is bounded in events is bounded in work, too. */
        if (fired == CLOCK_FIRED_AT_ONCE_MAX) {
            inbox_put(c->inbox, &c->due);
            return;
        }
        heap_remove(&c->timers, first); /* before: on_time may start it again, or free it */
        timer_of(first)->on_time(timer_of(first));
        first = heap_first(&c->timers);
    }
    wake_for_first(c);
}

void clock_init(struct clock *c, const struct clock_ops *ops, struct inbox *inbox)
{
    *c = (struct clock){
        .ops = ops, .inbox = inbox, .alarm_ns = UINT64_MAX, .due = {.run = fire_due}};
    heap_init(&c->timers, earlier);
}

void clock_free(struct clock *c)
{
    assert(!heap_first(&c->timers));

    heap_free(&c->timers);
}

void clock_alarmed(struct clock *c)
{
    c->alarm_ns = UINT64_MAX;
    if (!c->due.queued)
        inbox_put(c->inbox, &c->due);
}

void timer_start_at(struct clock *c, struct timer *t, uint64_t deadline_ns)
{
    assert(t->on_time);

    t->deadline_ns = deadline_ns;
    t->number = c->started++;
    if (timer_is_set(t))
        heap_moved(&c->timers, &t->node);
    else
        heap_push(&c->timers, &t->node);
    wake_for_first(c);
}

void timer_start(struct clock *c, struct timer *t, uint64_t after_ns)
{
    uint64_t now_ns = clock_now_ns(c);

    timer_start_at(c, t, after_ns < UINT64_MAX - now_ns ? now_ns + after_ns : UINT64_MAX);
}

void timer_stop(struct clock *c, struct timer *t)
{
    if (timer_is_set(t))
        heap_remove(&c->timers, &t->node);
}
