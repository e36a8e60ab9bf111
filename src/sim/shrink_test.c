#include "harness/test.h"
#include "sim/climate.h"
#include "sim/shrink.h"

struct bug {
    uint32_t needs; /* these faults */
    unsigned members;
    uint64_t storm_ms;
    unsigned asked;
};

static bool fails(void *context, const struct sim_options *o)
{
    struct bug *b = context;

    b->asked++;
    return (o->without & b->needs) == 0 && o->members >= b->members && o->storm_ms >= b->storm_ms;
}

TEST(what_a_failure_does_not_need_is_taken_away)
{
    struct bug bug = {.needs = 1u << FAULT_CUT | 1u << FAULT_PAUSE, .members = 3, .storm_ms = 4000};
    struct buf text = {0};

    struct shrink s = {.failing = &(struct sim_options){.seed = 7},
                       .members = 7,
                       .fails = fails,
                       .context = &bug,
                       .runs_max = 100};
    struct sim_options o = shrink(&s);
    shrink_arguments(&o, &text);

    CHECK_EQ(~o.without & ((1u << SIM_FAULTS) - 1), bug.needs);
    CHECK_STR(buf_str(&text),
              "--seed 7 --members 3 --writers 1 --watchers 1 --storm-ms 7500 "
              "--without crash,power,one-way,clog,loss,latency,bandwidth,reset,"
              "half-open,repeat,drift,jump,files,slow-disk,hang,eio,flip,wipe,full,members,auth,"
              "cold");
    CHECK(s.is_least);
    CHECK_EQ(s.runs, bug.asked);
    CHECK(bug.asked < 100);
    buf_free(&text);
}

TEST(a_failure_that_needs_no_fault_is_found_in_the_smallest_world)
{
    struct bug bug = {0};

    struct shrink s = {.failing = &(struct sim_options){.seed = 7},
                       .members = 5,
                       .fails = fails,
                       .context = &bug,
                       .runs_max = 100};
    struct sim_options o = shrink(&s);

    CHECK_EQ(o.without, (1u << SIM_FAULTS) - 1);
    CHECK_EQ(o.members, 1);
    CHECK_EQ(o.storm_ms, 468);
}

TEST(a_search_for_a_smaller_failure_ends)
{
    struct bug bug = {.needs = 1u << FAULT_CUT, .members = 3};
    struct shrink s = {.failing = &(struct sim_options){.seed = 7},
                       .members = 7,
                       .fails = fails,
                       .context = &bug,
                       .runs_max = 5};

    struct sim_options o = shrink(&s);
    CHECK_EQ(bug.asked, 5);
    CHECK_EQ(s.runs, 5);
    CHECK(!s.is_least);
    CHECK_EQ(o.without, 1u << FAULT_CRASH | 1u << FAULT_POWER | 1u << FAULT_ONE_WAY);
}
