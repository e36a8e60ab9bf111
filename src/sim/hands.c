/* What weather and sickness do to members. */
#include "sim/sim_int.h"

/* --- the weather's --- */

static void on_path(void *context, unsigned from, unsigned to, const struct fake_path *before,
                    const struct fake_path *after)
{
    if (before->cut != after->cut)
        sim_tell(context, after->cut ? STORY_CUT : STORY_MENDED, from, to, 0);
    if (before->clogged_until_ns != after->clogged_until_ns)
        sim_tell(context, after->clogged_until_ns > 0 ? STORY_CLOGGED : STORY_UNCLOGGED, from, to,
                 0);
    if (before->bytes_per_s != after->bytes_per_s)
        sim_tell(context, STORY_SLOWED, from, to, after->bytes_per_s);
}

static void on_pause(void *context, unsigned member, bool clock_stands)
{
    struct sim *s = context;

    if (!s->members[member].host->server)
        return;
    sim_note(s, 2000 + member);
    sim_host_pause(s->members[member].host, clock_stands);
    sim_tell(s, STORY_PAUSED, member, member, clock_stands);
}

static void on_resume(void *context, unsigned member)
{
    struct sim *s = context;

    if (!s->members[member].host->is_paused)
        return;
    sim_host_resume(s->members[member].host);
    sim_tell(s, STORY_RESUMED, member, member, 0);
}

static void on_jump(void *context, unsigned member, int64_t ms)
{
    struct sim *s = context;

    s->members[member].host->clock.wall_offset_ns += ms * (int64_t)NS_PER_MS;
    sim_tell(s, STORY_CLOCK_JUMPED, member, member, (uint64_t)ms);
}

unsigned sim_some_leader(void *context)
{
    const struct sim *s = context;

    for (unsigned i = 0; i < s->member_count; i++)
        if (s->members[i].host->server && s->members[i].leads)
            return i;
    return 0;
}

const struct weather_handlers sim_weather_handlers = {.on_path = on_path,
                                                      .on_pause = on_pause,
                                                      .on_resume = on_resume,
                                                      .on_jump = on_jump,
                                                      .leader = sim_some_leader};

/* --- the disks' --- */

static void on_sick(void *context, unsigned member, enum sim_fault fault, uint64_t ms)
{
    struct sim *s = context;

    sim_note(s, 3000 + member);
    sim_note(s, fault);
    sim_note(s, ms);
    bool passes = fault == FAULT_SLOW_DISK || fault == FAULT_HANG || fault == FAULT_FULL;
    sim_tell(s, passes ? STORY_DISK_SICK : STORY_DISK_SPOILED, member, member, fault);
}

static void on_well(void *context, unsigned member, enum sim_fault fault)
{
    sim_tell(context, STORY_DISK_WELL, member, member, fault);
}

static void kill_member(void *context, unsigned member)
{
    struct sim *s = context;

    if (s->members[member].host->server)
        sim_crash_member(s, &s->members[member], &s->disks);
}

static void take_away(void *context, unsigned member)
{
    struct sim *s = context;
    struct sim_member *m = &s->members[member];

    m->stays_down = true;
    fake_time_cancel(&s->time, &m->restart);
    if (m->host->server)
        sim_crash_member(s, m, &s->disks);
}

static bool all_know_member(void *context, unsigned member)
{
    const struct sim *s = context;
    uint64_t at = s->members[member].published_at;

    for (unsigned i = 0; i < s->member_count; i++)
        if (at == 0 || s->members[i].applied < at)
            return false;
    return true;
}

const struct sickness_handlers sim_sickness_handlers = {.on_sick = on_sick,
                                                        .on_well = on_well,
                                                        .kill = kill_member,
                                                        .take_away = take_away,
                                                        .has_run = all_know_member,
                                                        .leader = sim_some_leader};
