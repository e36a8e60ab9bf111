#include "io/inbox.h"

#include "base/list.h"
#include "harness/test.h"

#include <pthread.h>
#include <stdatomic.h>

struct note {
    struct event event;
    unsigned producer, number;
};

static unsigned ran;
static unsigned last_number[4];
static struct inbox *again_into;

static void check_order(struct event *e)
{
    struct note *n = container_of(e, struct note, event);

    CHECK_EQ(n->number, last_number[n->producer] + 1);
    last_number[n->producer] = n->number;
    ran++;
}

TEST(events_run_in_the_order_of_their_producer)
{
    struct note notes[6];
    struct inbox in;
    inbox_init(&in, NULL, NULL);
    for (unsigned i = 0; i < 6; i++)
        notes[i] = (struct note){.event.run = check_order, .producer = i % 2, .number = i / 2 + 1};

    for (unsigned i = 0; i < 6; i++)
        (i % 2 ? inbox_post : inbox_put)(&in, &notes[i].event);

    CHECK_EQ(inbox_drain(&in, 100), 6);
    CHECK_EQ(ran, 6);
    CHECK(inbox_is_empty(&in));
}

TEST(a_drain_stops_at_its_bound_and_the_next_goes_on)
{
    struct note notes[10];
    struct inbox in;
    inbox_init(&in, NULL, NULL);
    for (unsigned i = 0; i < 10; i++) {
        notes[i] = (struct note){.event.run = check_order, .number = i + 1};
        inbox_post(&in, &notes[i].event);
    }

    CHECK_EQ(inbox_drain(&in, 3), 3);
    CHECK_EQ(inbox_drain(&in, 0), 0);
    CHECK(!inbox_is_empty(&in));
    CHECK_EQ(inbox_drain(&in, 100), 7);
    CHECK(inbox_is_empty(&in));
}

static void run_again(struct event *e)
{
    if (++ran < 5)
        inbox_put(again_into, e);
}

TEST(an_event_may_post_itself_and_the_bound_holds)
{
    struct event e = {.run = run_again};
    struct inbox in;
    inbox_init(&in, NULL, NULL);
    again_into = &in;
    inbox_put(&in, &e);

    CHECK_EQ(inbox_drain(&in, 2), 2);
    CHECK_EQ(inbox_drain(&in, 100), 3);

    CHECK_EQ(ran, 5);
}

static void count_wake(void *context)
{
    ++*(unsigned *)context;
}

TEST(only_the_first_post_since_a_drain_wakes)
{
    struct note notes[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    unsigned wakes = 0;
    struct inbox in;
    inbox_init(&in, count_wake, &wakes);
    for (unsigned i = 0; i < 3; i++)
        notes[i].event.run = check_order;

    inbox_post(&in, &notes[0].event);
    inbox_post(&in, &notes[1].event);
    CHECK_EQ(wakes, 1);
    inbox_drain(&in, 10);
    inbox_post(&in, &notes[2].event);

    CHECK_EQ(wakes, 2);
    CHECK_EQ(inbox_drain(&in, 10), 1);
}

TEST(posting_an_event_that_waits_already_is_a_bug)
{
    struct event e = {.run = run_again};
    struct inbox in;
    inbox_init(&in, NULL, NULL);
    inbox_put(&in, &e);

    CHECK_DIES(inbox_put(&in, &e), "!e->queued");
    CHECK_DIES(inbox_post(&in, &e), "!e->queued");
}

enum { PRODUCERS = 4, NOTES_EACH = 5000 };

static struct inbox shared;
static struct note many[PRODUCERS][NOTES_EACH];

static void *produce(void *context)
{
    struct note *notes = context;

    for (unsigned i = 0; i < NOTES_EACH; i++)
        inbox_post(&shared, &notes[i].event);
    return NULL;
}

TEST(four_threads_post_and_one_drains_in_their_orders)
{
    pthread_t threads[PRODUCERS];
    inbox_init(&shared, NULL, NULL);

    for (unsigned p = 0; p < PRODUCERS; p++) {
        for (unsigned i = 0; i < NOTES_EACH; i++)
            many[p][i] = (struct note){.event.run = check_order, .producer = p, .number = i + 1};
        CHECK_EQ(pthread_create(&threads[p], NULL, produce, many[p]), 0);
    }
    while (ran < PRODUCERS * NOTES_EACH)
        inbox_drain(&shared, 64);

    for (unsigned p = 0; p < PRODUCERS; p++) {
        CHECK_EQ(pthread_join(threads[p], NULL), 0);
        CHECK_EQ(last_number[p], NOTES_EACH);
    }
}
