#include "base/assert.h"
#include "base/list.h"
#include "io/uv_int.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static uint64_t now_ns(struct clock *c)
{
    (void)c;
    return uv_hrtime();
}

static uint64_t busy_ns(struct clock *c)
{
    struct timespec busy;

    (void)c;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &busy);
    return (uint64_t)busy.tv_sec * NS_PER_S + (uint64_t)busy.tv_nsec;
}

uint64_t thread_faults(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_THREAD, &usage) != 0)
        fatal("getrusage: %s", strerror(errno));
    return (uint64_t)usage.ru_majflt;
}

static uint64_t wall_ns(struct clock *c)
{
    struct timespec now;

    (void)c;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        fatal("cannot read the wall clock");
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t faults(struct clock *c)
{
    (void)c;
    return thread_faults();
}

static void on_alarm(uv_timer_t *alarm)
{
    clock_alarmed(&container_of(alarm, struct real_clock, alarm)->base);
}

/* libuv counts in milliseconds of a time it reads once per round: if the alarm comes a little
 * early, the clock finds nothing due and sets it again. */
static void set_alarm(struct clock *base, uint64_t at_ns)
{
    struct real_clock *c = container_of(base, struct real_clock, base);
    uint64_t at_ms = at_ns / NS_PER_MS + (at_ns % NS_PER_MS != 0);

    uv_update_time(c->alarm.loop);
    uint64_t now_ms = uv_now(c->alarm.loop);
    int error = uv_timer_start(&c->alarm, on_alarm, at_ms > now_ms ? at_ms - now_ms : 0, 0);
    assert(error == 0);
}

void real_clock_open(struct real_clock *c, uv_loop_t *uv, struct inbox *inbox)
{
    static const struct clock_ops ops = {
        .now_ns = now_ns,
        .busy_ns = busy_ns,
        .wall_ns = wall_ns,
        .faults = faults,
        .set_alarm = set_alarm,
    };

    clock_init(&c->base, &ops, inbox);
    int error = uv_timer_init(uv, &c->alarm);
    assert(error == 0);
}

void real_clock_close(struct real_clock *c)
{
    clock_free(&c->base);
    uv_close((uv_handle_t *)&c->alarm, NULL);
}

static void fill(struct entropy *e, void *out, size_t len)
{
    (void)e;
    int error = uv_random(NULL, NULL, out, len, 0, NULL);
    if (error != 0)
        fatal("the system has no random bytes: %s", uv_strerror(error));
}

void real_entropy_open(struct entropy *e)
{
    e->fill = fill;
}
