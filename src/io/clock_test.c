#include "io/io_rig_test.h"

#include "io/entropy.h"

#include <time.h>

struct alarm {
    struct timer timer;
    struct clock *clock;
    unsigned id;
    unsigned again;     /* how often it starts itself anew */
    struct alarm *stop; /* stops this one */
};

static unsigned fired;
static unsigned order[512];

static void note(struct timer *t)
{
    struct alarm *a = container_of(t, struct alarm, timer);

    CHECK(clock_now_ns(a->clock) >= t->deadline_ns);
    CHECK(!timer_is_set(t));
    order[fired++] = a->id;
    if (a->again > 0) {
        a->again--;
        timer_start(a->clock, t, NS_PER_MS);
    }
    if (a->stop)
        timer_stop(a->clock, &a->stop->timer);
}

static struct alarm alarm_of(struct rig *rig, unsigned id)
{
    return (struct alarm){.timer.on_time = note, .clock = rig->io->clock, .id = id};
}

CONTRACT(timers_fire_in_order_of_deadline_and_never_early)
{
    struct alarm a = alarm_of(rig, 1), b = alarm_of(rig, 2), c = alarm_of(rig, 3);
    uint64_t now_ns = clock_now_ns(rig->io->clock);

    timer_start_at(rig->io->clock, &c.timer, now_ns + 3 * NS_PER_MS + 7);
    timer_start_at(rig->io->clock, &a.timer, now_ns + NS_PER_MS / 2);
    timer_start_at(rig->io->clock, &b.timer, now_ns + 2 * NS_PER_MS);
    rig_until(rig, &fired, 3);

    CHECK_EQ(order[0], 1);
    CHECK_EQ(order[1], 2);
    CHECK_EQ(order[2], 3);
}

CONTRACT(equal_deadlines_fire_as_started_even_when_many)
{
    enum { MANY = 200 };
    struct alarm alarms[MANY];
    uint64_t deadline_ns = clock_now_ns(rig->io->clock) + NS_PER_MS;

    for (unsigned i = 0; i < MANY; i++) {
        alarms[i] = alarm_of(rig, i);
        timer_start_at(rig->io->clock, &alarms[i].timer, deadline_ns);
    }
    rig_until(rig, &fired, MANY);

    for (unsigned i = 0; i < MANY; i++)
        CHECK_EQ(order[i], i);
}

/* libuv fires it before it polls, and must not then wait for a socket nobody writes to. */
CONTRACT(a_deadline_in_the_past_fires_at_once)
{
    struct alarm a = alarm_of(rig, 1);
    uint64_t began_ns = clock_now_ns(rig->io->clock);

    for (unsigned i = 1; i <= 20; i++) {
        timer_start_at(rig->io->clock, &a.timer, 0);
        rig_until(rig, &fired, i);
    }

    CHECK(clock_now_ns(rig->io->clock) - began_ns < 10 * NS_PER_S);
}

CONTRACT(a_stopped_timer_does_not_fire)
{
    struct alarm a = alarm_of(rig, 1), b = alarm_of(rig, 2);
    timer_start(rig->io->clock, &a.timer, NS_PER_MS);
    timer_start(rig->io->clock, &b.timer, 2 * NS_PER_MS);

    CHECK(timer_is_set(&a.timer));
    timer_stop(rig->io->clock, &a.timer);
    timer_stop(rig->io->clock, &a.timer);
    rig_until(rig, &fired, 1);

    CHECK_EQ(order[0], 2);
    CHECK(!timer_is_set(&a.timer));
}

/* Both are due in the same pass: the first must still be able to take the second back. */
CONTRACT(a_timer_stopped_by_another_in_the_same_turn_does_not_fire)
{
    struct alarm a = alarm_of(rig, 1), b = alarm_of(rig, 2);
    uint64_t now_ns = clock_now_ns(rig->io->clock);
    a.stop = &b;

    timer_start_at(rig->io->clock, &a.timer, now_ns);
    timer_start_at(rig->io->clock, &b.timer, now_ns);
    rig_for_ms(rig, 3);

    CHECK_EQ(fired, 1);
    CHECK_EQ(order[0], 1);
}

CONTRACT(a_timer_can_be_moved_and_can_start_itself_again)
{
    struct alarm a = alarm_of(rig, 1), b = alarm_of(rig, 2);
    a.again = 3;

    timer_start(rig->io->clock, &b.timer, 3600 * NS_PER_S);
    timer_start(rig->io->clock, &a.timer, UINT64_MAX);
    timer_start(rig->io->clock, &a.timer, NS_PER_MS);
    rig_until(rig, &fired, 4);

    CHECK(timer_is_set(&b.timer));
    timer_stop(rig->io->clock, &b.timer);
}

TEST(the_real_wall_clock_tells_the_time_of_day)
{
    struct rig rig;
    rig_open_real(&rig);
    uint64_t before_s = (uint64_t)time(NULL);

    uint64_t wall_ns = clock_wall_ns(rig.io->clock);

    CHECK(wall_ns / NS_PER_S + 1 >= before_s);
    CHECK(wall_ns / NS_PER_S <= (uint64_t)time(NULL) + 1);
    rig_close(&rig);
}

TEST(virtual_time_moves_to_the_next_thing_and_the_wall_clock_can_jump)
{
    struct rig rig;
    rig_open_fake(&rig);
    uint64_t before_ns = clock_now_ns(rig.io->clock);
    uint64_t wall_before_ns = clock_wall_ns(rig.io->clock);

    rig_for_ms(&rig, 86400 * 1000);
    CHECK_EQ(clock_now_ns(rig.io->clock) - before_ns, 86400 * NS_PER_S);
    rig.fake->clock.wall_offset_ns = -(int64_t)(86400 * NS_PER_S);

    CHECK_EQ(clock_wall_ns(rig.io->clock), wall_before_ns);
    rig_close(&rig);
}

TEST(a_clock_that_is_off_fires_its_timers_by_its_own_time)
{
    static const uint64_t rates[] = {900000, 1000000, 1100000};

    for (unsigned i = 0; i < 3; i++) {
        struct rig rig;
        rig_open_fake(&rig);
        uint64_t world_ns = rig.fake->time.now_ns;

        fake_clock_set_rate(&rig.fake->clock, rates[i]);
        rig_for_ms(&rig, 9900);

        uint64_t took_ms = (rig.fake->time.now_ns - world_ns) / NS_PER_MS;
        CHECK_EQ(took_ms, 9900 * 1000000ull / rates[i]);
        rig_close(&rig);
    }
}

static void count_up(struct timer *t)
{
    (void)t;
    fired++;
}

TEST(a_clock_that_stands_still_goes_on_where_it_was)
{
    struct rig rig;
    struct timer timer = {.on_time = count_up};
    rig_open_fake(&rig);
    fired = 0;
    uint64_t before_ns = clock_now_ns(rig.io->clock);
    timer_start(rig.io->clock, &timer, 5 * NS_PER_MS);

    fake_clock_set_rate(&rig.fake->clock, 0);
    CHECK(!fake_time_step(&rig.fake->time)); /* nothing will ever happen */
    rig.fake->time.now_ns += 60 * NS_PER_S;
    CHECK_EQ(clock_now_ns(rig.io->clock), before_ns);
    fake_clock_set_rate(&rig.fake->clock, FAKE_CLOCK_RATE);
    rig_until(&rig, &fired, 1);

    CHECK_EQ(clock_now_ns(rig.io->clock), before_ns + 5 * NS_PER_MS);
    rig_close(&rig);
}

TEST(whoever_looks_at_a_slow_clock_is_busy_until_the_world_is_there)
{
    struct rig rig;
    rig_open_fake(&rig);
    struct fake_clock *c = &rig.fake->clock;
    uint64_t world_ns = rig.fake->time.now_ns, before_ns = clock_now_ns(rig.io->clock);

    c->look_ns = NS_PER_MS;
    for (unsigned i = 1; i <= 3; i++)
        CHECK_EQ(clock_now_ns(rig.io->clock), before_ns + i * NS_PER_MS);
    CHECK(fake_clock_is_busy(c));
    CHECK_EQ(rig.fake->time.now_ns, world_ns); /* which does not wait for it */
    fake_clock_set_rate(c, 500000);
    c->look_ns = 0;
    CHECK_EQ(clock_now_ns(rig.io->clock), before_ns + 3 * NS_PER_MS); /* never back */
    rig.fake->time.now_ns += 5 * NS_PER_MS;

    CHECK(!fake_clock_is_busy(c));
    CHECK_EQ(clock_now_ns(rig.io->clock), before_ns + 4 * NS_PER_MS);
    rig_close(&rig);
}

TEST(a_machine_that_starts_again_has_another_monotonic_time_and_the_same_wall_time)
{
    struct rig rig;
    rig_open_fake(&rig);
    rig_for_ms(&rig, 5000);
    uint64_t wall_ns = clock_wall_ns(rig.io->clock);

    fake_clock_crash(&rig.fake->clock);
    fake_clock_restart(&rig.fake->clock, 1000);

    CHECK_EQ(clock_now_ns(rig.io->clock), 1000);
    CHECK_EQ(clock_wall_ns(rig.io->clock), wall_ns);
    rig_close(&rig);
}

CONTRACT(entropy_does_not_repeat_itself)
{
    uint8_t a[300] = {0}, b[300] = {0};

    entropy_fill(rig->io->entropy, a, sizeof(a));
    entropy_fill(rig->io->entropy, b, sizeof(b));

    CHECK(memcmp(a, b, sizeof(a)) != 0);
    CHECK(memcmp(a, a + 150, 150) != 0);
}

TEST(fake_entropy_is_its_seed)
{
    struct fake_entropy a, b, c;
    uint8_t from_a[64], from_b[64], from_c[64];
    fake_entropy_init(&a, 7);
    fake_entropy_init(&b, 7);
    fake_entropy_init(&c, 8);

    entropy_fill(&a.base, from_a, sizeof(from_a));
    entropy_fill(&b.base, from_b, sizeof(from_b));
    entropy_fill(&c.base, from_c, sizeof(from_c));

    CHECK(memcmp(from_a, from_b, sizeof(from_a)) == 0);
    CHECK(memcmp(from_a, from_c, sizeof(from_a)) != 0);
}
