#include "base/list.h"
#include "base/mem.h"
#include "harness/test.h"
#include "io/fake_world.h"

/* Two hosts on one wire: one that will die, one that hears of it. */
struct scene {
    struct fake_time time;
    struct fake_wire *wire;
    struct inbox inboxes[2];
    struct net *hosts[2];
    struct listener *listener;
    struct conn *accepted, *client;
    unsigned opened, closed;
    enum err reason;
};

static void client_opened(struct conn *c)
{
    ((struct scene *)c->context)->opened++;
}

static void client_data(struct conn *c, struct bytes data)
{
    (void)c;
    (void)data;
}

static void client_closed(struct conn *c, enum err reason)
{
    struct scene *s = c->context;

    s->closed++;
    s->reason = reason;
}

static const struct conn_handlers client_handlers = {
    .on_open = client_opened, .on_data = client_data, .on_closed = client_closed};

static void server_closed(struct conn *c, enum err reason)
{
    (void)c;
    (void)reason;
    test_fail(__FILE__, __LINE__, "a dead process was called");
}

static const struct conn_handlers server_handlers = {.on_data = client_data,
                                                     .on_closed = server_closed};

static void accept_one(struct listener *l, struct conn *c)
{
    struct scene *s = l->options.context;

    s->accepted = c;
    conn_accept(c, &server_handlers, s);
}

static void listen_again(struct scene *s)
{
    struct net_address a;
    enum err e = net_address_parse("10.0.0.1:2379", &a);

    CHECK_EQ(e, ERR_OK);
    e = net_listen(s->hosts[0], &a,
                   &(struct listener_options){.on_accept = accept_one, .context = s}, &s->listener);
    CHECK_EQ(e, ERR_OK);
}

static void connect_once(struct scene *s)
{
    struct net_address a;
    enum err e = net_address_parse("10.0.0.1:2379", &a);

    CHECK_EQ(e, ERR_OK);
    s->client = net_connect(s->hosts[1], &a, &client_handlers, s);
}

static void scene_open(struct scene *s)
{
    *s = (struct scene){0};
    fake_time_init(&s->time, test_seed());
    s->wire = fake_wire_new(&s->time, &(struct fake_wire_options){.delay = {1000, 100000}});
    for (unsigned i = 0; i < 2; i++) {
        inbox_init(&s->inboxes[i], NULL, NULL);
        s->hosts[i] = fake_wire_add_host(s->wire, &s->inboxes[i], i == 0 ? "10.0.0.1" : "10.0.0.2");
    }
}

static void run(struct scene *s)
{
    do {
        inbox_drain(&s->inboxes[0], SIZE_MAX);
        inbox_drain(&s->inboxes[1], SIZE_MAX);
    } while (fake_time_step(&s->time));
}

static void crash(struct scene *s)
{
    fake_wire_crash(s->hosts[0]);
    inbox_init(&s->inboxes[0], NULL, NULL);
}

static void scene_close(struct scene *s)
{
    fake_wire_free(s->wire);
    fake_time_free(&s->time);
}

TEST(whoever_was_connected_to_a_process_that_died_is_told_of_a_reset)
{
    struct scene s;
    scene_open(&s);
    listen_again(&s);
    connect_once(&s);
    run(&s);
    CHECK(s.accepted);

    crash(&s);
    run(&s);

    CHECK_EQ(s.closed, 1);
    CHECK_EQ(s.reason, ERR_RESET);
    scene_close(&s);
}

TEST(a_process_that_died_no_longer_listens_until_it_is_started_again)
{
    struct scene s;
    scene_open(&s);
    listen_again(&s);
    crash(&s);

    connect_once(&s);
    run(&s);
    CHECK_EQ(s.reason, ERR_REFUSED);

    listen_again(&s);
    connect_once(&s);
    run(&s);
    CHECK_EQ(s.opened, 1);
    conn_close(s.client, ERR_OK);
    crash(&s);
    run(&s);
    scene_close(&s);
}

/* A connection that nobody has accepted, and one whose listener has closed, go too. */
TEST(a_crash_leaves_nothing_behind_at_any_point_of_connecting)
{
    for (unsigned steps = 0; steps < 12; steps++) {
        struct scene s;
        scene_open(&s);
        listen_again(&s);
        connect_once(&s);
        for (unsigned i = 0; i < steps; i++)
            if (inbox_drain(&s.inboxes[i % 2], 1) == 0)
                fake_time_step(&s.time);
        if (steps % 3 == 0)
            listener_close(s.listener);

        crash(&s);
        run(&s);

        CHECK_EQ(s.closed, 1);
        scene_close(&s);
    }
}

static unsigned jobs_run, jobs_reported, timers_fired;

static void count_run(struct job *j)
{
    (void)j;
    jobs_run++;
}

static void count_report(struct job *j)
{
    (void)j;
    jobs_reported++;
}

static void count_timer(struct timer *t)
{
    (void)t;
    timers_fired++;
}

TEST(jobs_and_timers_of_a_dead_process_are_never_heard_of)
{
    struct fake_world *w = fake_world_new(test_seed());
    struct job *j = mem_new(struct job);
    struct timer *t = mem_new(struct timer);
    *j = (struct job){.run = count_run, .on_done = count_report};
    *t = (struct timer){.on_time = count_timer};
    job_submit(w->io.workers, j);
    timer_start(w->io.clock, t, NS_PER_MS);

    fake_workers_crash(&w->workers);
    fake_clock_crash(&w->clock);
    mem_free(j);
    mem_free(t);
    while (fake_world_step(w))
        ;

    CHECK_EQ(jobs_run, 0);
    CHECK_EQ(timers_fired, 0);
    fake_world_free(w);
}

TEST(jobs_can_be_finished_at_once)
{
    struct fake_world *w = fake_world_new(test_seed());
    struct job j = {.run = count_run, .on_done = count_report};
    job_submit(w->io.store_worker, &j);

    fake_workers_finish(&w->store_worker);

    CHECK_EQ(jobs_run, 1);
    CHECK_EQ(jobs_reported, 0);
    while (fake_world_step(w))
        ;
    CHECK_EQ(jobs_reported, 1);
    fake_world_free(w);
}
