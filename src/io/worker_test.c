#include "io/io_rig_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

enum { JOBS = 50 };

struct sum {
    struct job job;
    uint64_t up_to, result;
    pthread_t core, worker;
};

static unsigned done;
static _Atomic int running, most_running;

static void add_up(struct job *j)
{
    struct sum *s = container_of(j, struct sum, job);
    int now = atomic_fetch_add(&running, 1) + 1;
    int most = atomic_load(&most_running);

    while (now > most && !atomic_compare_exchange_weak(&most_running, &most, now))
        ;
    s->worker = pthread_self();
    for (uint64_t i = 1; i <= s->up_to; i++)
        s->result += i;
    atomic_fetch_sub(&running, 1);
}

static void check_sum(struct job *j)
{
    struct sum *s = container_of(j, struct sum, job);

    CHECK(pthread_equal(pthread_self(), s->core));
    CHECK_EQ(s->result, s->up_to * (s->up_to + 1) / 2);
    done++;
}

CONTRACT(jobs_run_and_report_in_the_turn)
{
    struct sum sums[JOBS];

    for (unsigned i = 0; i < JOBS; i++) {
        sums[i] = (struct sum){.job = {.run = add_up, .on_done = check_sum},
                               .up_to = i * 1000,
                               .core = pthread_self()};
        job_submit(rig->io->workers, &sums[i].job);
    }
    CHECK_EQ(done, 0);
    rig_until(rig, &done, JOBS);

    CHECK(most_running >= 1);
    CHECK(most_running <= 2); /* the rig has two workers */
    if (rig->loop)
        CHECK(!pthread_equal(sums[0].worker, pthread_self()));
}

struct look {
    struct job job;
    int nice;
};

static void look_at_nice(struct job *j)
{
    container_of(j, struct look, job)->nice = getpriority(PRIO_PROCESS, 0); /* the thread's */
}

static void looked(struct job *j)
{
    (void)j;
    done++;
}

/* A thousand who shake hands at once, or log in, must not take the processors from the turn and the
 * log. */
TEST(handshakes_and_workers_let_the_turn_go_first)
{
    struct rig rig;
    struct look hands = {.job = {.run = look_at_nice, .on_done = looked}}, work = hands;
    rig_open_real(&rig);

    job_submit(rig.io->handshakes, &hands.job);
    job_submit(rig.io->workers, &work.job);
    rig_until(&rig, &done, 2);

    int own = getpriority(PRIO_PROCESS, 0);
    CHECK(work.nice > own || own == 19); /* nobody is further back than that */
    CHECK(hands.nice > work.nice || work.nice == 19);
    rig_close(&rig);
}

struct chain {
    struct job job;
    struct workers *workers;
    unsigned left;
};

static void nothing(struct job *j)
{
    (void)j;
}

static void submit_again(struct job *j)
{
    struct chain *c = container_of(j, struct chain, job);

    done++;
    if (--c->left > 0)
        job_submit(c->workers, j);
}

CONTRACT(a_job_may_be_submitted_again_when_it_is_done)
{
    struct chain c = {
        .job = {.run = nothing, .on_done = submit_again}, .workers = rig->io->workers, .left = 9};

    job_submit(rig->io->workers, &c.job);

    rig_until(rig, &done, 9);
}

static void count_lookup(struct lookup *l)
{
    (void)l;
    done++;
}

CONTRACT(names_and_numbers_resolve_to_addresses)
{
    struct lookup name = {.host = "localhost", .port = 2379, .on_done = count_lookup};
    struct lookup number = {.host = "10.1.2.3", .port = 80, .on_done = count_lookup};
    char text[NET_TEXT_MAX];

    lookup_start(rig->io->resolver, &name);
    lookup_start(rig->io->resolver, &number);
    rig_until(rig, &done, 2);

    if (access("/etc/hosts", F_OK) == 0) { /* a bare container may not know localhost at all */
        CHECK_EQ(name.err, ERR_OK);
        CHECK(name.count >= 1);
        CHECK_EQ(name.found[0].port, 2379);
    }
    CHECK_EQ(number.err, ERR_OK);
    CHECK_EQ(number.count, 1);
    CHECK_STR(net_address_text(&number.found[0], text), "10.1.2.3:80");
}

CONTRACT(what_cannot_be_a_name_is_not_found)
{
    char host[400];
    memset(host, 'x', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    struct lookup l = {.host = host, .on_done = count_lookup};

    lookup_start(rig->io->resolver, &l);
    CHECK_EQ(done, 0);
    rig_until(rig, &done, 1);

    CHECK_EQ(l.err, ERR_NOT_FOUND);
    CHECK_EQ(l.count, 0);
}

TEST(the_fake_resolver_knows_what_it_was_told)
{
    struct rig rig;
    rig_open_fake(&rig);
    fake_resolver_add(&rig.fake->resolver, "infra0", "10.0.0.7");
    fake_resolver_add(&rig.fake->resolver, "infra0", "fd00::7");
    struct lookup l = {.host = "infra0", .port = 1, .on_done = count_lookup};
    char text[NET_TEXT_MAX];

    lookup_start(rig.io->resolver, &l);
    rig_until(&rig, &done, 1);

    CHECK_EQ(l.count, 2);
    CHECK_STR(net_address_text(&l.found[1], text), "[fd00::7]:1");
    rig_close(&rig);
}

CONTRACT(numbers_have_names)
{
    struct lookup number = {.host = "127.0.0.1", .on_done = count_lookup, .wants_names = true};
    struct lookup name = {.host = "localhost", .on_done = count_lookup, .wants_names = true};
    bool has_localhost = false;

    lookup_start(rig->io->resolver, &number);
    lookup_start(rig->io->resolver, &name);
    CHECK_EQ(done, 0);
    rig_until(rig, &done, 2);

    for (size_t i = 0; i < number.count; i++)
        has_localhost |= strcmp(number.names[i], "localhost") == 0;
    if (access("/etc/hosts", F_OK) == 0)
        CHECK(has_localhost);
    CHECK_EQ(name.err, ERR_NOT_FOUND); /* it is no number */
    CHECK_EQ(name.count, 0);
}

struct stopper {
    struct loop *loop;
    struct event event;
    struct loop_signal signal;
    unsigned turns, left;
};

static void stop_when_none_left(struct event *e)
{
    struct stopper *s = container_of(e, struct stopper, event);

    if (--s->left == 0)
        loop_stop(s->loop);
    else
        inbox_put(loop_io(s->loop)->inbox, e);
}

static void count_turn(void *context)
{
    struct stopper *s = context;

    s->turns++;
    inbox_drain(loop_io(s->loop)->inbox, 1);
}

TEST(work_left_over_brings_another_turn_until_the_loop_is_stopped)
{
    struct stopper s = {.event.run = stop_when_none_left, .left = 5};
    CHECK_EQ(loop_open(&(struct loop_options){0}, &s.loop), ERR_OK);
    inbox_put(loop_io(s.loop)->inbox, &s.event);

    loop_run(s.loop, count_turn, &s);

    CHECK_EQ(s.turns, 5);
    loop_close(s.loop);
}

static void stop_on_signal(struct loop_signal *signal)
{
    loop_stop(container_of(signal, struct stopper, signal)->loop);
}

TEST(a_signal_arrives_in_the_turn)
{
    struct stopper s = {.signal = {.number = SIGUSR1, .on_signal = stop_on_signal}};
    CHECK_EQ(loop_open(&(struct loop_options){0}, &s.loop), ERR_OK);
    CHECK_EQ(loop_watch_signal(s.loop, &s.signal), ERR_OK);

    raise(SIGUSR1);
    loop_run(s.loop, count_turn, &s);

    CHECK(s.turns >= 1);
    loop_close(s.loop);
}

static void never(struct timer *t)
{
    (void)t;
    CHECK(false);
}

TEST(closing_a_loop_with_a_timer_set_is_a_bug)
{
    struct rig rig;
    rig_open_real(&rig);
    struct timer t = {.on_time = never};
    timer_start(rig.io->clock, &t, NS_PER_S);

    CHECK_DIES(loop_close(rig.loop), "heap_first(&l->clock.base.timers)");
    timer_stop(rig.io->clock, &t);
    rig_close(&rig);
}
