/* The phases of a run: storm, calm, and the end. (Settling between them: changes.c.) */
#include "sim/sim_int.h"

enum {
    START_MS_MAX = 200, /* between the first member and the last */
    STORM_MS = 30000,
    STORM_MS_MAX = 45000,
    OPERATIONS_MIN = 300,
    PROGRESS_MIN = 20,    /* operations, once all is calm */
    CALM_MS_MAX = 20000,  /* until then; and some election timeouts */
    KEEPALIVE_MS = 42000, /* until a connection that is half-open ends, at most */
};

static bool everybody_is_idle(const struct sim *s)
{
    for (unsigned i = 0; i < s->client_count; i++)
        if (s->clients[i].actor && !actor_is_idle(s->clients[i].actor, s->history.told))
            return false;
    return true;
}

static void run_until_idle(struct sim *s)
{
    while (!s->history.failed && !everybody_is_idle(s))
        sim_step(s);
}

static bool storm_is_over(struct sim *s)
{
    uint64_t now_ms = s->time.now_ns / NS_PER_MS;

    if (s->o.calls > 0)
        return sim_calls_made(s) >= s->o.calls;
    uint64_t storm_ms = s->o.storm_ms ? s->o.storm_ms : STORM_MS;
    return now_ms >= storm_ms && (now_ms >= STORM_MS_MAX || sim_operations(s) >= OPERATIONS_MIN);
}

void sim_storm(struct sim *s)
{
    sim_tell_text(s, STORY_PHASE, "storm");
    for (unsigned i = 0; i < s->climate.members; i++) {
        uint64_t after_ms = i == 0 ? 0 : rng_below(&s->fate, START_MS_MAX);
        fake_time_at(&s->time, &s->members[i].restart, s->time.now_ns + after_ms * NS_PER_MS);
        sim_plan_torn_founding(s, &s->members[i]);
    }
    sim_plan_crash(s);
    while (!s->history.failed && !storm_is_over(s))
        sim_step(s);
}

/* Connections that are half-open take descriptors, and keep those who wait on them. The end of one
 * is told once: where a path can be cut just then, any may become so. */
uint64_t sim_calm_bound_ns(const struct sim *s)
{
    static const enum sim_fault faults[] = {FAULT_HALF_OPEN, FAULT_POWER, FAULT_CUT, FAULT_ONE_WAY};
    uint64_t ms = CALM_MS_MAX + 10 * s->climate.election_ms;
    bool may_be_half_open = false;

    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        may_be_half_open = may_be_half_open || climate_has(&s->climate, faults[i]);
    if (may_be_half_open)
        ms += KEEPALIVE_MS;
    return ms * NS_PER_MS;
}

void sim_heal(struct sim *s)
{
    s->crashes_left = 0;
    sim_plan_no_crash(s);
    for (unsigned i = 0; i < s->member_count; i++)
        s->members[i].torn_call = UINT64_MAX;
    weather_calm(s->weather);
    sickness_calm(s->sickness);
}

/* --- calm --- */

/* So many members cannot be counted on in the calm: they are down, or their disks are not well. */
static unsigned absent_count(const struct sim *s)
{
    unsigned count = 0;

    for (unsigned i = 0; i < s->member_count; i++)
        count += s->members[i].stays_down || sickness_is_lost(s->sickness, i);
    return count;
}

/* A minority goes down, or is down, and stays so for now. */
static void keep_minority_down(struct sim *s)
{
    unsigned minority = sim_minority_count(s);
    unsigned count = (unsigned)rng_below(&s->fate, minority + 1);
    unsigned first = (unsigned)rng_below(&s->fate, s->member_count);

    if (s->o.calls > 0 || s->o.data_dir || !climate_has(&s->climate, FAULT_CRASH))
        return;
    for (unsigned i = 0; i < count && absent_count(s) < minority; i++) {
        struct sim_member *m = &s->members[(first + i) % s->member_count];
        if (sickness_is_lost(s->sickness, m->number) || m->is_out || !sim_is_voter(s, m->number))
            continue;
        m->stays_down = true;
        fake_time_cancel(&s->time, &m->restart);
        if (m->host->server)
            sim_crash_member(s, m, &s->fate);
    }
}

/* A leader whose disk does nothing any more hands over. The others could write without it, but
 * whoever speaks to the leader could not. */
static struct sim_member *hang_leader(struct sim *s)
{
    unsigned leader = sim_some_leader(s);
    struct sim_member *m = &s->members[leader];

    if (!climate_has(&s->climate, FAULT_HANG) || absent_count(s) >= sim_minority_count(s) ||
        !m->host->server || sickness_is_lost(s->sickness, leader))
        return NULL;
    sickness_hang(s->sickness, leader);
    return m;
}

/* Now that a majority is up and can speak, whoever has lost everything is known to them. */
static void start_wiped(struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++) {
        if (!sickness_is_wiped(s->sickness, i))
            continue;
        s->members[i].stays_down = false;
        fake_time_at(&s->time, &s->members[i].restart,
                     s->time.now_ns + 2 * s->climate.election_ms * NS_PER_MS);
    }
}

/* A majority is up and can speak: clients must get somewhere. */
void sim_calm(struct sim *s)
{
    sim_tell_text(s, STORY_PHASE, "calm");
    sim_heal(s);
    keep_minority_down(s);
    const struct sim_member *hung = hang_leader(s);
    start_wiped(s);
    uint64_t bound_ns = sim_calm_bound_ns(s), until_ns = s->time.now_ns + bound_ns;
    uint64_t wanted = s->o.calls > 0 ? 0 : sim_operations(s) + PROGRESS_MIN;

    s->history.healed_ns = s->time.now_ns;
    cluster_check_healed(s->cluster, s->time.now_ns, bound_ns);
    while (!s->history.failed && (sim_operations(s) < wanted || (hung && hung->leads))) {
        sim_step(s);
        if (s->time.now_ns > until_ns)
            history_fail(&s->history, "all is calm, and %s",
                         sim_operations(s) < wanted ? "clients get nowhere"
                                                    : "a member leads whose disk hangs");
    }
    while (!s->history.failed && s->o.calls == 0 && sim_operations(s) < OPERATIONS_MIN)
        sim_step(s);
    cluster_check_healed(s->cluster, s->time.now_ns, 0);
}

/* --- the end --- */

/* They have applied the same entries, and their states were held against each other. */
static bool all_members_agree(struct sim *s)
{
    uint64_t applied = 0;

    for (unsigned i = 0; i < s->member_count; i++) {
        if (s->members[i].is_out)
            continue;
        if (!s->members[i].host->server)
            return false;
        struct server_status now = server_status(s->members[i].host->server);
        if (now.applied != now.committed || (applied > 0 && now.applied != applied))
            return false;
        applied = now.applied;
    }
    for (unsigned i = 0; i < s->member_count; i++)
        if (!s->members[i].is_out && s->members[i].digested != applied &&
            !sim_take_digest(s, &s->members[i]))
            return false; /* a large delete is not settled yet */
    return true;
}

static bool all_wiped_are_refused(const struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++)
        if (sickness_is_wiped(s->sickness, i) && !s->members[i].is_out)
            return false;
    return true;
}

static void wait_for_refusals(struct sim *s)
{
    uint64_t until_ns = s->time.now_ns + sim_calm_bound_ns(s);

    while (!s->history.failed && !all_wiped_are_refused(s)) {
        sim_step(s);
        if (s->time.now_ns > until_ns)
            history_fail(&s->history, "a member came back with an empty disk, and nobody said no");
    }
}

/* Whoever has a flipped bit and has not read it is no witness. */
static void leave_lost_out(struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_member *m = &s->members[i];
        if (!sickness_is_lost(s->sickness, i) || m->is_out)
            continue;
        m->is_out = true;
        fake_time_cancel(&s->time, &m->restart);
        if (m->host->server)
            sim_crash_member(s, m, &s->disks);
    }
}

/* Nobody begins anything new, whoever was down is started, and all members have the same. */
static void come_to_rest(struct sim *s)
{
    wait_for_refusals(s);
    leave_lost_out(s);
    uint64_t until_ns = s->time.now_ns + sim_calm_bound_ns(s);
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_member *m = &s->members[i];
        if (m->stays_down && !m->is_out)
            fake_time_at(&s->time, &m->restart, s->time.now_ns);
        m->stays_down = false;
    }
    while (!s->history.failed && !all_members_agree(s)) {
        sim_step(s);
        if (s->time.now_ns > until_ns)
            history_fail(&s->history, "all is calm, and a member does not catch up");
    }
}

void sim_the_end(struct sim *s)
{
    sim_tell_text(s, STORY_PHASE, "the end");
    sickness_calm(s->sickness);
    for (unsigned i = 0; i < s->client_count; i++)
        if (s->clients[i].actor)
            actor_wind_down(s->clients[i].actor);
    idle_wind_down(s->idle);
    run_until_idle(s);
    come_to_rest(s);
    for (unsigned i = 0; i < s->member_count && !s->history.failed; i++) {
        if (s->members[i].is_out || !sim_is_voter(s, i))
            continue;
        actor_read_all(s->clients[1].actor, i); /* a writer: its result names the last revision */
        run_until_idle(s);
    }
    if (!s->history.failed)
        history_check(&s->history);
    if (!s->history.failed)
        sim_check_users(s);
    for (unsigned i = 0; i < s->client_count && !s->history.failed; i++)
        if (s->clients[i].actor)
            actor_check(s->clients[i].actor);
}

static bool all_have_stopped(const struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++)
        if (s->members[i].host->server && !server_has_stopped(s->members[i].host->server))
            return false;
    return true;
}

/* Stops the members as an operator would. */
void sim_stop(struct sim *s)
{
    s->is_stopping = true;
    for (unsigned i = 0; i < s->member_count && !s->history.failed; i++) {
        if (s->members[i].is_out)
            continue;
        sim_tell(s, STORY_STOPPED, i, i, 0);
        server_stop(s->members[i].host->server);
    }
    while (!s->history.failed && !all_have_stopped(s))
        sim_step(s);
    for (unsigned i = 0; i < s->member_count && !s->history.failed; i++) {
        if (s->members[i].is_out)
            continue;
        s->installed += server_installed(s->members[i].host->server);
        sim_host_close(s->members[i].host);
    }
}
