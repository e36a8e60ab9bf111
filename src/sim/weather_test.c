/* What the weather does to the paths of a world in which nothing else happens. */
#include "harness/test.h"
#include "io/clock.h"
#include "sim/weather.h"

#include <stdio.h>
#include <string.h>

enum { MEMBERS = 5, HOSTS = 8 };

struct sky {
    struct fake_time time;
    struct fake_wire *wire;
    struct climate climate;
    struct inbox inbox;
    struct net *hosts[HOSTS];
    struct weather *weather;
    unsigned cuts, one_way_cuts, clogs, slow, lossy, pauses, jumps;
    bool paused[MEMBERS];
};

static bool is_cut(struct sky *s, unsigned from, unsigned to)
{
    return fake_wire_path(s->hosts[from], s->hosts[to])->cut;
}

static void on_path(void *context, unsigned from, unsigned to, const struct fake_path *before,
                    const struct fake_path *after)
{
    struct sky *s = context;

    CHECK(from != to);
    s->cuts += after->cut && !before->cut;
    s->clogs += after->clogged_until_ns > before->clogged_until_ns;
    s->slow += after->bytes_per_s != before->bytes_per_s || after->delay.max_ns > 0;
    CHECK(after->loss_percent <= 30);
    s->lossy += after->loss_percent > 0;
}

static void on_pause(void *context, unsigned member, bool clock_stands)
{
    struct sky *s = context;

    (void)clock_stands;
    CHECK(member < MEMBERS);
    CHECK(!s->paused[member]);
    s->paused[member] = true;
    s->pauses++;
}

static void on_resume(void *context, unsigned member)
{
    struct sky *s = context;

    CHECK(s->paused[member]);
    s->paused[member] = false;
}

static void on_jump(void *context, unsigned member, int64_t ms)
{
    struct sky *s = context;

    CHECK(member < MEMBERS);
    CHECK(ms != 0);
    s->jumps++;
}

static unsigned leader(void *context)
{
    (void)context;
    return 2;
}

static const struct weather_handlers handlers = {.on_path = on_path,
                                                 .on_pause = on_pause,
                                                 .on_resume = on_resume,
                                                 .on_jump = on_jump,
                                                 .leader = leader};

static void sky_open(struct sky *s, uint32_t faults)
{
    char ip[32];

    *s = (struct sky){
        .climate = {.members = MEMBERS, .hosts = MEMBERS, .faults = faults, .weather_ms_max = 300}};
    fake_time_init(&s->time, test_seed());
    s->wire = fake_wire_new(&s->time, &(struct fake_wire_options){0});
    inbox_init(&s->inbox, NULL, NULL);
    for (unsigned i = 0; i < HOSTS; i++) {
        snprintf(ip, sizeof(ip), "10.0.0.%u", i + 1);
        s->hosts[i] = fake_wire_add_host(s->wire, &s->inbox, ip);
    }
    s->weather = weather_new(&(struct weather_options){.time = &s->time,
                                                       .climate = &s->climate,
                                                       .hosts = s->hosts,
                                                       .host_count = HOSTS,
                                                       .seed = test_seed(),
                                                       .on = &handlers,
                                                       .context = s});
}

/* Looks, now and then, whether only one of the ways is cut. */
static void sky_watch(struct sky *s, uint64_t seconds)
{
    uint64_t end_ns = s->time.now_ns + seconds * NS_PER_S;

    while (s->time.now_ns < end_ns && fake_time_step(&s->time))
        for (unsigned a = 0; a < HOSTS; a++)
            for (unsigned b = 0; b < a; b++)
                s->one_way_cuts += is_cut(s, a, b) != is_cut(s, b, a);
}

static void sky_close(struct sky *s)
{
    weather_free(s->weather);
    fake_wire_free(s->wire);
    fake_time_free(&s->time);
}

TEST(every_kind_of_weather_comes_and_goes)
{
    struct sky s;
    sky_open(&s, UINT32_MAX);

    sky_watch(&s, 120);
    CHECK(s.cuts > 100);
    CHECK(s.one_way_cuts > 10);
    CHECK(s.clogs > 10);
    CHECK(s.slow > 10);
    CHECK(s.lossy > 10);
    CHECK(s.pauses > 10);
    CHECK(s.jumps > 10);
    weather_calm(s.weather);

    for (unsigned a = 0; a < HOSTS; a++) {
        CHECK(a >= MEMBERS || !s.paused[a]);
        for (unsigned b = 0; b < HOSTS; b++) {
            const struct fake_path *p = fake_wire_path(s.hosts[a], s.hosts[b]);
            CHECK(!p->cut);
            CHECK_EQ(p->delay.min_ns + p->delay.max_ns + p->bytes_per_s + p->clogged_until_ns, 0);
            CHECK_EQ(p->tail_percent + p->loss_percent, 0);
            CHECK_EQ(p->silent_percent + p->repeat_percent, 0);
        }
    }
    CHECK(!fake_time_step(&s.time)); /* and nothing more will come */
    sky_close(&s);
}

TEST(what_may_not_happen_does_not)
{
    struct sky s;
    sky_open(&s, 1u << FAULT_CUT);

    sky_watch(&s, 60);

    CHECK(s.cuts > 50);
    CHECK_EQ(s.one_way_cuts + s.clogs + s.slow + s.lossy + s.pauses + s.jumps, 0);
    sky_close(&s);
}

/* Over time there are majorities that see each other, leaders that are alone, bridges and rings:
 * what can be told from how many others each member sees. */
TEST(partitions_have_many_shapes)
{
    struct sky s;
    bool seen[MEMBERS][MEMBERS] = {0}; /* [member][how many others it sees] */
    unsigned lone_leader = 0, lopsided = 0;
    sky_open(&s, 1u << FAULT_CUT);

    for (unsigned i = 0; i < 3000; i++) {
        unsigned most = 0, least = MEMBERS;
        fake_time_step(&s.time);
        for (unsigned a = 0; a < MEMBERS; a++) {
            unsigned others = 0;
            for (unsigned b = 0; b < MEMBERS; b++)
                others += a != b && !is_cut(&s, a, b);
            seen[a][others] = true;
            most = others > most ? others : most;
            least = others < least ? others : least;
            lone_leader += a == 2 && others == 0;
        }
        lopsided += most == MEMBERS - 1 && least < MEMBERS - 1; /* one sees all, others do not */
    }

    for (unsigned a = 0; a < MEMBERS; a++)
        for (unsigned others = 0; others < MEMBERS; others++)
            CHECK(seen[a][others]);
    CHECK(lone_leader > 50);
    CHECK(lopsided > 50);
    sky_close(&s);
}

/* The other members do not see it, nor for a while after that; clients do all the time. */
TEST(a_leader_that_stands_still_is_seen_by_clients_alone)
{
    struct sky s;
    uint64_t paused_ns = 0, unseen_ns = 0;
    sky_open(&s, 0);
    weather_free(s.weather);
    s.climate.standstill_ms = 700;
    s.weather = weather_new(&(struct weather_options){.time = &s.time,
                                                      .climate = &s.climate,
                                                      .hosts = s.hosts,
                                                      .host_count = HOSTS,
                                                      .seed = 1,
                                                      .standstill_seed = test_seed(),
                                                      .on = &handlers,
                                                      .context = &s});

    while (s.time.now_ns < 60 * NS_PER_S) {
        uint64_t before_ns = s.time.now_ns;
        bool is_paused = s.paused[2], is_unseen = is_cut(&s, 0, 2);
        CHECK(!is_paused || is_unseen);
        CHECK(!is_cut(&s, 0, 1));
        CHECK(!is_cut(&s, 2, MEMBERS));
        CHECK(!is_cut(&s, MEMBERS, 2));
        fake_time_step(&s.time);
        paused_ns += is_paused ? s.time.now_ns - before_ns : 0;
        unseen_ns += is_unseen ? s.time.now_ns - before_ns : 0;
    }

    CHECK(s.pauses >= 3);
    CHECK(paused_ns >= s.pauses * 3 * 700 * NS_PER_MS - 6 * 700 * NS_PER_MS);
    CHECK(unseen_ns > paused_ns);
    sky_close(&s);
}
