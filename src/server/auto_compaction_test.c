#include "server/auto_compaction.h"

#include "base/logger.h"
#include "base/rng.h"
#include "harness/test.h"
#include "io/fake_world.h"
#include "server/cluster_rig_test.h"
#include "server/server_rig_test.h"

#include <inttypes.h>
#include <stdio.h>

#define SECOND_NS ((int64_t)NS_PER_S)
#define HOUR_NS   (3600 * SECOND_NS)
#define LIMIT_MS  7000

/* One of them, with a store that has a new revision every second. */
struct compaction_rig {
    struct fake_world *world;
    struct clock *clock;
    struct api_facts facts;
    struct logger logger;
    struct auto_compaction it;
    uint64_t began_ns;
    uint64_t proposals;
    bool is_lost; /* what is proposed is not applied */
};

static uint64_t rig_seconds(struct compaction_rig *r)
{
    return (clock_now_ns(r->clock) - r->began_ns) / NS_PER_S;
}

static int64_t rig_revision(struct compaction_rig *r)
{
    return 1 + (int64_t)rig_seconds(r);
}

static void rig_open(struct compaction_rig *r, bool counts_revisions, int64_t retention)
{
    *r = (struct compaction_rig){
        .world = fake_world_new(test_seed()),
        .facts = {.is_leader = true},
        .logger = {.level = LOG_FATAL, .sink = log_sink_none, .clock = log_clock_none}};
    r->clock = fake_world_io(r->world)->clock;
    r->began_ns = clock_now_ns(r->clock);
    auto_compaction_init(&r->it,
                         &(struct auto_compaction_options){.clock = r->clock,
                                                           .logger = &r->logger,
                                                           .facts = &r->facts,
                                                           .counts_revisions = counts_revisions,
                                                           .retention = retention,
                                                           .limit_ms = LIMIT_MS},
                         rig_revision(r));
}

static void rig_close(struct compaction_rig *r)
{
    auto_compaction_check(&r->it);
    auto_compaction_stop(&r->it);
    auto_compaction_free(&r->it);
    fake_world_free(r->world);
}

static void look_again(struct timer *t)
{
    (void)t;
}

/* So much time passes without a turn. */
static void rig_sleep(struct compaction_rig *r, uint64_t ns)
{
    struct timer heart = {.on_time = look_again};

    timer_start(r->clock, &heart, ns);
    while (timer_is_set(&heart))
        CHECK(fake_world_step(r->world));
}

/* A turn: the revision that is to be compacted at, or 0. */
static int64_t rig_turn(struct compaction_rig *r)
{
    struct pb_internal_raft_request request;

    auto_compaction_work(&r->it, rig_revision(r));
    auto_compaction_check(&r->it);
    if (!auto_compaction_take_proposal(&r->it, &request))
        return 0;
    int64_t revision = request.compaction->revision;
    CHECK(!request.compaction->physical);
    auto_compaction_proposed(&r->it, ++r->proposals);
    if (!r->is_lost)
        auto_compaction_applied(&r->it, r->proposals, RESULT_OK);
    return revision;
}

/* "at 10s 1, at 20s 10": what was compacted, and when. */
static const char *rig_story(struct compaction_rig *r, uint64_t seconds)
{
    static struct buf text;

    buf_clear(&text);
    while (rig_seconds(r) < seconds) {
        rig_sleep(r, NS_PER_S / 20);
        int64_t revision = rig_turn(r);
        if (revision > 0)
            buf_printf(&text, "%sat %" PRIu64 "s %" PRId64, text.len ? ", " : "", rig_seconds(r),
                       revision);
    }
    return buf_str(&text);
}

TEST(history_is_compacted_at_what_is_a_retention_old)
{
    struct compaction_rig r;
    rig_open(&r, false, 10 * SECOND_NS);

    const char *story = rig_story(&r, 45);

    CHECK_STR(story, "at 10s 1, at 20s 10, at 30s 20, at 40s 30");
    rig_close(&r);
}

/* But not before one retention is over. */
TEST(a_long_retention_is_compacted_every_hour)
{
    struct compaction_rig r;
    rig_open(&r, false, 3 * HOUR_NS);

    const char *story = rig_story(&r, 5 * 3600 + 1200);

    CHECK_STR(story, "at 10800s 1, at 14400s 3241, at 18000s 6841");
    rig_close(&r);
}

TEST(all_but_so_many_revisions_are_compacted_every_five_minutes)
{
    struct compaction_rig r;
    rig_open(&r, true, 400);

    const char *story = rig_story(&r, 1300);

    CHECK_STR(story, "at 600s 201, at 900s 501, at 1200s 801");
    rig_close(&r);
}

TEST(nothing_is_compacted_where_nothing_is_asked_for)
{
    struct compaction_rig r;
    rig_open(&r, false, 0);

    const char *story = rig_story(&r, 100);

    CHECK_STR(story, "");
    rig_close(&r);
}

/* A follower samples, too: it may lead one day. */
TEST(who_does_not_lead_compacts_nothing_but_knows_what_is_old)
{
    struct compaction_rig r;
    rig_open(&r, false, 10 * SECOND_NS);

    r.facts.is_leader = false;
    CHECK_STR(rig_story(&r, 60), "");
    r.facts.is_leader = true;

    CHECK_STR(rig_story(&r, 65), "at 61s 51");
    rig_close(&r);
}

TEST(a_compaction_that_is_lost_is_tried_again)
{
    struct compaction_rig r;
    rig_open(&r, false, 100 * SECOND_NS);

    r.is_lost = true;
    CHECK_STR(rig_story(&r, 119), "at 100s 1, at 117s 1");
    r.is_lost = false;

    CHECK_STR(rig_story(&r, 150), "at 134s 11");
    rig_close(&r);
}

TEST(somebody_elses_compaction_counts_as_done)
{
    struct compaction_rig r;
    struct pb_internal_raft_request request;
    rig_open(&r, true, 100);

    rig_sleep(&r, 300 * NS_PER_S + NS_PER_S / 2);
    auto_compaction_work(&r.it, 500);
    CHECK(auto_compaction_take_proposal(&r.it, &request));
    auto_compaction_proposed(&r.it, 7);
    auto_compaction_applied(&r.it, 6, RESULT_CORRUPT); /* somebody else's */
    auto_compaction_applied(&r.it, 7, RESULT_COMPACTED);
    auto_compaction_work(&r.it, 500);

    CHECK_EQ(r.it.compacted, 400);
    rig_sleep(&r, 300 * NS_PER_S + NS_PER_S / 2);
    auto_compaction_work(&r.it, 500);
    CHECK(!auto_compaction_take_proposal(&r.it, &request)); /* nothing was written since */
    rig_close(&r);
}

/* Promise 1, with a process that stands still now and then: its clock seems to jump. */
TEST(a_clock_that_jumps_compacts_nothing_that_is_young)
{
    struct compaction_rig r;
    struct rng rng;
    unsigned compactions = 0;
    const uint64_t seconds = 20;
    rng_seed(&rng, test_seed());
    rig_open(&r, false, (int64_t)seconds * SECOND_NS);

    while (rig_seconds(&r) < 3000) {
        bool stands = rng_chance(&rng, 1, 30);
        rig_sleep(&r, stands ? rng_between(&rng, 1, 60) * NS_PER_S : NS_PER_S / 20);
        r.facts.is_leader = !rng_chance(&rng, 1, 10);
        r.is_lost = rng_chance(&rng, 1, 10);
        int64_t revision = rig_turn(&r);
        if (revision == 0)
            continue;
        compactions++;
        CHECK((uint64_t)revision + seconds <= rig_seconds(&r) + 1);
    }

    CHECK(compactions > 20);
    rig_close(&r);
}

/* --- whole members --- */

TEST(a_member_compacts_its_history)
{
    struct server_rig r;
    server_rig_open(&r, (const char *const[]){"--auto-compaction-retention=10s", NULL});
    server_rig_start(&r);

    for (unsigned i = 0; i < 10; i++)
        server_rig_put(&r, "k", "v");
    server_rig_for_ms(&r, 9000);
    CHECK(!server_rig_logged(&r, "starting auto periodic compaction"));
    server_rig_for_ms(&r, 15000);

    CHECK(server_rig_logged(&r, "\"msg\":\"starting auto periodic compaction\",\"revision\":1,"
                                "\"compact-period\":\"10s\""));
    CHECK(server_rig_logged(&r, "\"msg\":\"completed auto periodic compaction\",\"revision\":11,"
                                "\"compact-period\":\"10s\",\"took\":"));
    CHECK(
        server_rig_logged(&r, "\"msg\":\"finished scheduled compaction\",\"compact-revision\":11"));
    server_rig_stop(&r);
    server_rig_close(&r);
}

/* A restart begins anew: nobody knows how old what it finds is. */
TEST(a_member_that_was_restarted_keeps_its_history_for_a_retention)
{
    struct server_rig r;
    server_rig_open(&r, (const char *const[]){"--auto-compaction-retention=10s", NULL});
    server_rig_start(&r);
    for (unsigned i = 0; i < 10; i++)
        server_rig_put(&r, "k", "v");

    for (unsigned i = 0; i < 4; i++) {
        server_rig_for_ms(&r, 9000);
        server_rig_crash(&r, FAKE_KILLED);
        server_rig_start(&r);
    }

    CHECK(!server_rig_logged(&r, "starting auto periodic compaction"));
    server_rig_stop(&r);
    server_rig_close(&r);
}

TEST(history_is_compacted_by_the_leader_alone)
{
    struct cluster_rig r;
    cluster_rig_open(&r, 3, (const char *const[]){"--auto-compaction-retention=5s", NULL});
    cluster_rig_start_all(&r);
    unsigned leader = cluster_rig_leader(&r);
    for (unsigned i = 0; i < 10; i++)
        cluster_rig_put(&r, leader, "k", "v");

    cluster_rig_for_ms(&r, 12000);

    for (unsigned n = 1; n <= 3; n++) {
        CHECK_EQ(cluster_rig_logged(&r, n, "completed auto periodic compaction"), n == leader);
        CHECK(cluster_rig_logged(&r, n, "finished scheduled compaction"));
    }
    cluster_rig_put(&r, leader, "k", "new");
    cluster_rig_crash(&r, leader);
    unsigned next = cluster_rig_leader(&r);
    cluster_rig_for_ms(&r, 8000);
    CHECK(cluster_rig_logged(&r, next, "completed auto periodic compaction"));
    cluster_rig_close(&r);
}
