#include "sim/sim.h"

#include "sim/actor.h"
#include "sim/host.h"
#include "sim/idle.h"
#include "sim/member_view.h"

#include <stdio.h>

enum {
    ACTORS_MAX = 16,
    TURNS_AT_ONCE_MAX = 100000, /* without time passing: it will never pass */
    VIRTUAL_S_MAX = 600,        /* a run that takes longer is stuck */
    DOWN_MS_MAX = 500,
    CALLS_UNTIL_CRASH = 400,
    FOUNDING_CALLS = 40, /* of the disk, in which a member is founded */
    AHEAD_MAX = 12,      /* entries that an image may be ahead */
    STEPS_OF_INSTALL = 100,
};

struct sim {
    struct sim_options o;
    struct fake_time time;
    struct fake_wire *wire;
    struct sim_host *member;

    struct inbox inbox; /* the clients' */
    struct fake_clock clock;
    struct io io;
    struct actor *actors[ACTORS_MAX];
    size_t actor_count;
    struct idle *idle; /* or NULL */
    struct history history;
    struct cluster_check *cluster;

    struct rng fate, installs; /* the second for when images are installed */
    struct climate climate;
    unsigned crashes_left, crashes;
    uint64_t installed;     /* in the lives before this one */
    uint64_t crash_at;      /* in calls of the disks, */
    uint64_t crash_at_step; /* or in steps, whichever comes first */
    struct fake_task restart;
    uint64_t hash, steps, turns_at_once, last_ns;
};

/* An expired lease may wait for the look for it, and one lost revoke; and besides for a new
 * leader's extension. */
#define LEASE_LATE_NS (8 * NS_PER_S)

static const struct logger silence = {.level = LOG_FATAL};

static void note(struct sim *s, uint64_t what)
{
    s->hash = (s->hash ^ what) * 0x100000001b3ull;
    s->hash ^= s->hash >> 29;
}

/* --- fate --- */

static void plan_crash(struct sim *s)
{
    s->crash_at_step = UINT64_MAX;
    if (s->o.crash_at_call != 0)
        s->crash_at = s->crashes == 0 ? s->o.crash_at_call : UINT64_MAX;
    else if (s->crashes_left == 0)
        s->crash_at = UINT64_MAX;
    else {
        bool torn = s->climate.torn_founding && s->crashes < 2;
        s->crash_at = sim_host_disk_calls(s->member) +
                      rng_between(&s->fate, 1, torn ? FOUNDING_CALLS : CALLS_UNTIL_CRASH);
    }
}

static void start_member(struct fake_task *t);

static void crash(struct sim *s)
{
    enum fake_crash how = (enum fake_crash)rng_below(&s->fate, 3);

    note(s, 1000 + (uint64_t)how);
    s->crashes++;
    if (s->member->server)
        s->installed += server_installed(s->member->server);
    if (s->crashes_left > 0)
        s->crashes_left--;
    sim_host_crash(s->member, how);
    cluster_check_down(s->cluster, 0);
    plan_crash(s);
    s->restart.run = start_member;
    fake_time_at(&s->time, &s->restart,
                 s->time.now_ns + rng_between(&s->fate, 1, DOWN_MS_MAX) * NS_PER_MS);
}

/* Boot is one step, so fate can only reach into it by way of the disk itself. */
static void boot(struct sim *s)
{
    uint64_t calls = sim_host_disk_calls(s->member);

    if (s->crash_at > calls && s->crash_at != UINT64_MAX)
        fake_disk_die_at(s->member->disk, s->crash_at - calls);
    s->history.leader_began_ns = s->time.now_ns;
    bool ok = sim_host_start(s->member);
    if (fake_disk_is_dead(s->member->disk)) {
        crash(s);
        return;
    }
    fake_disk_die_at(s->member->disk, 0);
    if (!ok)
        history_fail(&s->history, "the member does not start: %s", buf_str(&s->member->why));
}

static void start_member(struct fake_task *t)
{
    boot(container_of(t, struct sim, restart));
}

/* --- opening and closing --- */

static void add_actors(struct sim *s, enum actor_kind kind, unsigned count)
{
    struct actor_options options = {
        .kind = kind,
        .io = &s->io,
        .server_count = 1,
        .history = &s->history,
        .pause_ms_max = s->climate.pause_ms_max,
        .has_herd = s->climate.has_herd,
        .has_quota = s->climate.quota_bytes > 0,
    };
    enum err e = net_address_parse("10.0.0.1:2379", &options.servers[0]);

    assert(e == ERR_OK);
    for (unsigned i = 0; i < count; i++) {
        assert(s->actor_count < ACTORS_MAX);
        rng_seed(&options.rng, rng_next(&s->fate));
        s->actors[s->actor_count++] = actor_new(&options);
    }
}

/* Few file descriptors, and clients who take all that they can get of them. */
static void let_files_run_out(struct sim *s)
{
    unsigned files = (unsigned)rng_between(&s->fate, 80, 110);
    struct idle_options options = {.io = &s->io, .count = files};
    enum err e = net_address_parse("10.0.0.1:2379", &options.server);

    assert(e == ERR_OK);
    rng_seed(&options.rng, rng_next(&s->fate));
    sim_host_limit_files(s->member, files);
    s->idle = idle_new(&options);
}

/* What was asked for takes the place of what the seed says. */
static void draw_climate(struct sim *s)
{
    struct climate *c = &s->climate;

    climate_draw(c, &s->fate, 1);
    if (s->o.calls > 0) { /* a short story */
        c->has_herd = false;
        c->herders = c->groups = 0;
    }
    if (s->o.writers > 0)
        c->writers = s->o.writers;
    if (s->o.watchers > 0)
        c->watchers = s->o.watchers;
    if (s->o.crashes_max == UINT32_MAX)
        c->crashes = 0;
    else if (s->o.crashes_max > 0)
        c->crashes %= s->o.crashes_max + 1;
    if (c->torn_founding && c->crashes > 0)
        c->crashes++;
    climate_draw_installs(c, &s->installs);
    if (s->o.install_turns > 0)
        c->install_turns = s->o.install_turns == UINT32_MAX ? 0 : s->o.install_turns;
    s->history.has_installs = c->install_turns > 0;
    s->crashes_left = c->crashes;
    s->history.lease_late_ns = LEASE_LATE_NS + 2 * c->election_ms * NS_PER_MS;
}

static void sim_open(struct sim *s, const struct sim_options *o)
{
    static const struct fake_delay wire_delay = {.min_ns = 10000, .max_ns = 2 * NS_PER_MS};

    *s = (struct sim){.o = *o, .hash = 0xcbf29ce484222325ull, .history.seen = 1};
    rng_seed(&s->fate, o->seed);
    rng_seed(&s->installs, ~o->seed);
    fake_time_init(&s->time, rng_next(&s->fate));
    draw_climate(s);
    s->wire = fake_wire_new(&s->time, &(struct fake_wire_options){.delay = wire_delay});
    s->member =
        sim_host_new(&s->time, s->wire, "10.0.0.1", &s->climate, o->logger ? o->logger : &silence);
    s->cluster = cluster_check_new(1, 1);
    inbox_init(&s->inbox, NULL, NULL);
    fake_clock_init(&s->clock, &s->time, &s->inbox);
    s->io = (struct io){.inbox = &s->inbox,
                        .clock = &s->clock.base,
                        .net = fake_wire_add_host(s->wire, &s->inbox, "10.0.0.2")};
    plan_crash(s);
    add_actors(s, ACTOR_WITNESS, 1);
    add_actors(s, ACTOR_WRITER, s->climate.writers);
    add_actors(s, ACTOR_HERDER, s->climate.herders);
    add_actors(s, ACTOR_CROWD, s->climate.groups);
    add_actors(s, ACTOR_READER, s->climate.readers);
    add_actors(s, ACTOR_LESSEE, s->climate.lessees);
    add_actors(s, ACTOR_WATCHER, s->climate.watchers);
    if (rng_chance(&s->fate, 1, 3))
        let_files_run_out(s);
}

/* A client that was closed is freed by the last word of its connection, which takes the wire a
 * moment. Nobody is left to begin anything. */
static void let_connections_end(struct sim *s)
{
    do
        inbox_drain(&s->inbox, SIZE_MAX);
    while (fake_time_step(&s->time));
    inbox_drain(&s->inbox, SIZE_MAX);
}

static void sim_close(struct sim *s)
{
    for (size_t i = 0; i < s->actor_count; i++)
        actor_free(s->actors[i]);
    idle_wind_down(s->idle);
    fake_time_cancel(&s->time, &s->restart);
    if (s->member->server)
        sim_host_crash(s->member, FAKE_KILLED);
    let_connections_end(s);
    fake_wire_crash(s->io.net);
    idle_free(s->idle);
    inbox_init(&s->inbox, NULL, NULL);
    fake_clock_crash(&s->clock);
    fake_clock_free(&s->clock);
    sim_host_free(s->member);
    fake_wire_free(s->wire);
    fake_time_free(&s->time);
    history_free(&s->history);
    cluster_check_free(s->cluster);
}

/* --- running --- */

static void watch_over_time(struct sim *s)
{
    if (s->time.now_ns != s->last_ns) {
        s->last_ns = s->time.now_ns;
        s->turns_at_once = 0;
    } else if (++s->turns_at_once > TURNS_AT_ONCE_MAX)
        history_fail(&s->history, "time stands still: somebody always has something to do");
    if (s->time.now_ns > VIRTUAL_S_MAX * NS_PER_S)
        history_fail(&s->history, "nothing comes to an end");
}

static void look_at_member(struct sim *s)
{
    struct sim_host *m = s->member;

    if (m->failed && !fake_disk_is_dead(m->disk)) {
        history_fail(&s->history, "the member gave up: %s", buf_str(&m->why));
        return;
    }
    /* A witness that is to connect again must find what it has not seen. */
    bool is_safe = s->history.seen >= s->history.compacted;
    bool is_time = sim_host_disk_calls(m) >= s->crash_at || s->steps >= s->crash_at_step;
    if (m->server && is_time && is_safe)
        crash(s);
}

/* Some of them are ahead of what is applied, as one from another member would be. */
static void install_now_and_then(struct sim *s)
{
    if (s->climate.install_turns == 0 || !rng_chance(&s->installs, 1, s->climate.install_turns))
        return;
    uint64_t ahead = rng_chance(&s->installs, 1, 2) ? rng_below(&s->installs, AHEAD_MAX) : 0;
    if (!server_install_own_image(s->member->server, ahead))
        return;
    /* To copy a store takes so many calls of the disks that hardly any crash would come after it,
     * where it counts: in the few steps from the log's record to the new name. */
    if (s->crashes_left > 0 && rng_chance(&s->installs, 1, 4))
        s->crash_at_step = s->steps + rng_below(&s->installs, STEPS_OF_INSTALL);
}

static void note_installs(struct sim *s, uint64_t count)
{
    if (count != s->history.installs)
        s->history.leader_began_ns = s->time.now_ns;
    s->history.installs = count;
}

static void check_cluster(struct sim *s)
{
    struct member_view now;

    member_view(s->member->server, &now);
    cluster_check_turned(s->cluster, 0, &now.view);
    const char *problem = cluster_check_problem(s->cluster);
    if (problem)
        history_fail(&s->history, "%s", problem);
}

static void member_turned(struct sim *s)
{
    struct sim_host *m = s->member;

    if (m->failed)
        return;
    server_check(m->server);
    check_cluster(s);
    struct server_status now = server_status(m->server);
    note(s, now.committed);
    note(s, now.applied);
    note(s, (uint64_t)now.revision);
    note(s, now.durable_store);
    s->history.server_revision[0] = now.revision;
    note_installs(s, s->installed + server_installed(m->server));
    install_now_and_then(s);
}

static void clients_turn(struct sim *s)
{
    inbox_drain(&s->inbox, SIZE_MAX);
    for (size_t i = 0; i < s->actor_count; i++)
        actor_turn(s->actors[i]);
    note(s, (uint64_t)s->history.told);
    note(s, s->history.event_count);
}

static void step(struct sim *s)
{
    s->steps++;
    note(s, s->time.now_ns);
    s->history.now_ns = s->time.now_ns;
    if (sim_host_turn(s->member))
        member_turned(s);
    else if (!inbox_is_empty(&s->inbox))
        clients_turn(s);
    else if (!fake_time_step(&s->time))
        history_fail(&s->history, "nothing will ever happen again");
    look_at_member(s);
    watch_over_time(s);
}

static uint64_t calls_made(const struct sim *s)
{
    uint64_t calls = 0;

    for (size_t i = 0; i < s->actor_count; i++)
        calls += actor_calls(s->actors[i]);
    return calls;
}

static bool everybody_is_idle(const struct sim *s)
{
    for (size_t i = 0; i < s->actor_count; i++)
        if (!actor_is_idle(s->actors[i], s->history.told))
            return false;
    return true;
}

static void run_until_idle(struct sim *s)
{
    while (!s->history.failed && !everybody_is_idle(s))
        step(s);
}

static void run(struct sim *s)
{
    uint64_t wanted = s->o.calls ? s->o.calls : 300;

    boot(s);
    while (!s->history.failed && calls_made(s) < wanted)
        step(s);
    s->crash_at = s->crash_at_step = UINT64_MAX;
    s->crashes_left = 0;
    for (size_t i = 0; i < s->actor_count; i++)
        actor_wind_down(s->actors[i]);
    idle_wind_down(s->idle);
    run_until_idle(s);
    actor_read_all(s->actors[1], 0); /* a writer; its answer names the last revision of all */
    run_until_idle(s);
    if (!s->history.failed)
        history_check(&s->history);
    for (size_t i = 0; i < s->actor_count && !s->history.failed; i++)
        actor_check(s->actors[i]);
}

/* Stops the member as an operator would. */
static void stop(struct sim *s)
{
    if (s->history.failed || !s->member->server)
        return;
    server_stop(s->member->server);
    while (!s->history.failed && !server_has_stopped(s->member->server))
        step(s);
    if (s->history.failed)
        return;
    s->installed += server_installed(s->member->server);
    server_close(s->member->server);
    s->member->server = NULL;
}

struct sim_result sim_run(const struct sim_options *options)
{
    struct sim s;
    struct sim_result r = {0};

    sim_open(&s, options);
    run(&s);
    stop(&s);
    r = (struct sim_result){
        .ok = !s.history.failed,
        .hash = s.hash,
        .disk_calls = sim_host_disk_calls(s.member),
        .steps = s.steps,
        .virtual_ms = s.time.now_ns / NS_PER_MS,
        .calls = calls_made(&s),
        .crashes = s.crashes,
        .installs = s.installed,
        .revision = s.history.told,
    };
    snprintf(r.problem, sizeof(r.problem), "%s", s.history.problem);
    sim_close(&s);
    return r;
}
