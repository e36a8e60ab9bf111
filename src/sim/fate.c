/* When members crash, what becomes of it, and how they start. */
#include "sim/sim_int.h"

enum {
    DOWN_MS_MAX = 500,
    LONG_DOWN_MS_MAX = 6000,
    CALLS_UNTIL_CRASH = 400, /* of the disk */
    TURNS_UNTIL_CRASH = 3000,
    FOUNDING_CALLS = 40, /* of the disk, in which a member is founded */
    STEPS_OF_COMPACTION = 400,
};

void sim_plan_no_crash(struct sim *s)
{
    s->crash_call = s->crash_turn = s->crash_step = UINT64_MAX;
}

void sim_plan_crash(struct sim *s)
{
    sim_plan_no_crash(s);
    if (s->o.crash_at_call != 0) {
        s->crash_call = s->crashes == 0 ? s->o.crash_at_call : UINT64_MAX;
        return;
    }
    if (s->crashes_left == 0)
        return;
    s->crash_member = (unsigned)rng_below(&s->fate, s->member_count);
    s->crash_takes_all = rng_chance(&s->fate, 1, 6);
    bool at_turn = rng_chance(&s->fate, 1, 3);
    const struct sim_member *m = &s->members[s->crash_member];
    if (at_turn)
        s->crash_turn = m->turns + rng_between(&s->fate, 1, TURNS_UNTIL_CRASH);
    else
        s->crash_call = sim_host_disk_calls(m->host) + rng_between(&s->fate, 1, CALLS_UNTIL_CRASH);
}

/* Each member by itself: the others found theirs meanwhile, or are torn as well. */
void sim_plan_torn_founding(struct sim *s, struct sim_member *m)
{
    m->torn_call = UINT64_MAX;
    if (s->climate.torn_founding && rng_chance(&s->fate, 1, 2))
        m->torn_call = sim_host_disk_calls(m->host) + rng_between(&s->fate, 1, FOUNDING_CALLS);
}

void sim_crash_member(struct sim *s, struct sim_member *m, struct rng *rng)
{
    uint64_t draw = rng_below(rng, 3);
    bool power_may_go = climate_has(&s->climate, FAULT_POWER) || s->o.crash_at_call != 0;
    enum fake_crash how = power_may_go ? (enum fake_crash)draw : FAKE_KILLED;
    bool is_long = rng_chance(rng, 1, 5);
    uint64_t down_ms = rng_between(rng, 1, is_long ? LONG_DOWN_MS_MAX : DOWN_MS_MAX);

    sim_note(s, 1000 + (uint64_t)how);
    sim_tell(s, STORY_CRASHED, m->number, m->number, how);
    s->crashes++;
    if (m->host->server) {
        s->installed += server_installed(m->host->server);
        sim_take_digest(s, m); /* to be found again when it has replayed its log */
    }
    sim_host_crash(m->host, how);
    sim_tokens_are_lost(s, m);
    sickness_crashed(s->sickness, m->number);
    cluster_check_down(s->cluster, m->number);
    s->history.witness_is_live = false; /* it may not know it yet */
    m->leads = false;
    m->leader = 0;
    if (!m->stays_down && !m->is_out)
        fake_time_at(&s->time, &m->restart, s->time.now_ns + down_ms * NS_PER_MS);
}

/* The next one is planned before a member starts again, which is when it may crash already. */
static void crash(struct sim *s)
{
    bool all = s->crash_takes_all;
    unsigned first = s->crash_member;

    if (s->crashes_left > 0)
        s->crashes_left--;
    sim_crash_member(s, &s->members[first], &s->fate);
    for (unsigned i = 0; i < s->member_count && all; i++)
        if (i != first && s->members[i].host->server)
            sim_crash_member(s, &s->members[i], &s->fate);
    sim_plan_crash(s);
}

/* What is founded again may be torn again. */
static void tear_founding(struct sim *s, struct sim_member *m)
{
    if (m->host->joins) {
        sim_crash_member(s, m, &s->changes);
        sim_plan_torn_joining(s, m);
        return;
    }
    sim_crash_member(s, m, &s->fate);
    sim_plan_torn_founding(s, m);
}

/* Its machine is not needed any more. */
void sim_retire(struct sim *s, struct sim_member *m)
{
    m->is_out = true;
    fake_time_cancel(&s->time, &m->restart);
}

/* It ended by itself, or did not start, which is right if its disk is sick. Only one that has lost
 * what it had is of no use any more. */
void sim_gave_up(struct sim *s, struct sim_member *m, bool while_starting)
{
    const char *why = buf_str(&m->host->why);

    if (sim_members_change(s) && sim_gave_up_rightly(s, m, why))
        return;
    if (!sickness_excuses(s->sickness, m->number, why, while_starting)) {
        history_fail(&s->history, "member m%u %s: %s", m->number + 1,
                     while_starting ? "does not start" : "gave up", why);
        return;
    }
    sim_trace(s, "m%u %s, as it should: %s\n", m->number + 1,
              while_starting ? "does not start" : "gave up", why);
    m->is_out = sickness_is_lost(s->sickness, m->number);
    sim_crash_member(s, m, &s->disks);
}

/* Boot is one step, so fate can only reach into it by way of the disk itself. */
static void boot(struct sim *s, struct sim_member *m)
{
    uint64_t calls = sim_host_disk_calls(m->host);
    uint64_t planned = m->number == s->crash_member ? s->crash_call : UINT64_MAX;
    bool is_torn = m->torn_call < planned;
    uint64_t call = is_torn ? m->torn_call : planned;

    if (call != UINT64_MAX && call > calls)
        fake_disk_die_at(m->host->disk, call - calls);
    if (s->member_count == 1)
        s->history.leader_began_ns = s->time.now_ns;
    m->starts++;
    m->digested = 0;
    m->installs = 0;
    sim_tell(s, STORY_STARTED, m->number, m->number, m->starts);
    bool ok = sim_host_start(m->host);
    if (fake_disk_is_dead(m->host->disk)) {
        if (is_torn)
            tear_founding(s, m);
        else
            crash(s);
        return;
    }
    fake_disk_die_at(m->host->disk, 0);
    if (!ok)
        sim_gave_up(s, m, true);
}

void sim_start_member(struct fake_task *t)
{
    struct sim_member *m = container_of(t, struct sim_member, restart);

    boot(m->sim, m);
}

/* --- looking for the moment --- */

static void look_for_torn_founding(struct sim *s)
{
    for (unsigned i = 0; i < s->member_count; i++) {
        struct sim_member *m = &s->members[i];
        if (m->host->server && sim_host_disk_calls(m->host) >= m->torn_call)
            tear_founding(s, m);
    }
}

/* A compaction is over soon, and one that is planned by calls of the disks would hardly ever come
 * in its midst. */
static void plan_crash_in_compaction(struct sim *s)
{
    bool is_new = s->history.compacted > s->compacted;

    s->compacted = s->history.compacted;
    if (is_new && s->crashes_left > 0 && s->o.crash_at_call == 0 &&
        rng_chance(&s->compactions, 1, 6))
        s->crash_step = s->steps + rng_below(&s->compactions, STEPS_OF_COMPACTION);
}

void sim_look_for_crash(struct sim *s)
{
    const struct sim_member *m = &s->members[s->crash_member];
    /* A witness that is to connect again must find what it has not seen. */
    bool is_safe = s->history.seen >= s->history.compacted;

    plan_crash_in_compaction(s);
    if (!is_safe)
        return;
    look_for_torn_founding(s);
    if (m->is_out || sickness_is_wiped(s->sickness, m->number))
        sim_plan_crash(s); /* it cannot be this one any more */
    if (!m->host->server)
        return;
    if (sim_host_disk_calls(m->host) >= s->crash_call || m->turns >= s->crash_turn ||
        s->steps >= s->crash_step)
        crash(s);
}
