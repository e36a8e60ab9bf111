#include "cluster/failover.h"

#include "base/mem.h"
#include "cluster/load.h"
#include "io/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SHOTS = 2048,      /* puts under way at once */
    SHOT_EVERY_MS = 5, /* at each follower */
    SHOT_TIMEOUT_MS = 4000,
    WARM_UP_MS = 300,
    WELL_MS_MAX = 30000,
    RESUME_MS_MAX = 20000,
};

struct failover {
    const struct failover_options *o;
    struct failover_result *result;
    struct fleet fleet;
    struct load load;
    struct line *lines[FLEET_MAX];
    struct load_client shots[SHOTS];
    unsigned leader; /* it gets no puts */
    bool is_shooting;
    uint64_t next_ns;  /* the next shots are due */
    uint64_t term;     /* before the leader went */
    uint64_t last_ns;  /* the last response of that term */
    uint64_t first_ns; /* the first response of a later one; 0: none yet */
};

static uint64_t now_ns(struct failover *f)
{
    return caller_now_ns(&f->load.caller);
}

/* --- shooting --- */

static void note_response(struct failover *f, struct load_client *shot)
{
    uint64_t at = shot->ask.began_ns + shot->ask.took_ns;

    shot->put_done = false;
    if (f->first_ns != 0 || shot->term < f->term)
        return;
    if (f->term == 0 || shot->term == f->term) {
        f->term = shot->term;
        f->last_ns = at > f->last_ns ? at : f->last_ns;
    } else
        f->first_ns = at;
}

static void shoot(struct failover *f, unsigned member)
{
    for (unsigned i = 0; i < SHOTS; i++) {
        struct load_client *shot = &f->shots[i];
        if (shot->ask.line && !ask_is_over(&shot->ask))
            continue;
        ask_free(&shot->ask);
        load_client_init(&f->load, shot, f->lines[member]);
        load_put(shot, member, SHOT_TIMEOUT_MS);
        return;
    }
    record_fail(&f->load.record, "%d puts are under way, and no response", SHOTS);
}

static void on_turn(void *context)
{
    struct failover *f = context;

    for (unsigned i = 0; i < SHOTS; i++)
        if (f->shots[i].put_done)
            note_response(f, &f->shots[i]);
    if (!f->is_shooting || now_ns(f) < f->next_ns)
        return;
    f->next_ns = now_ns(f) + SHOT_EVERY_MS * NS_PER_MS;
    for (unsigned i = 0; i < f->fleet.count; i++)
        if (i != f->leader && f->lines[i]->is_open && !f->lines[i]->is_gone)
            shoot(f, i);
}

static void hold_fire(struct failover *f)
{
    f->is_shooting = false;
    for (unsigned i = 0; i < SHOTS; i++)
        if (f->shots[i].ask.line)
            ask_free(&f->shots[i].ask);
}

/* --- one leader goes --- */

static bool warm_up(struct failover *f)
{
    int leader = load_leader(&f->load);

    if (leader < 0)
        record_fail(&f->load.record, "all are well, and nobody knows the leader");
    f->leader = (unsigned)leader;
    f->term = f->last_ns = f->first_ns = 0;
    for (unsigned i = 0; i < f->fleet.count; i++)
        line_reconnect(f->lines[i], &f->fleet.members[i].address);
    f->is_shooting = true;
    if (!load_run_ms(&f->load, WARM_UP_MS))
        return false;
    if (f->term == 0 || f->first_ns != 0) {
        record_fail(&f->load.record, "the leader changed by itself, or no put succeeded");
        return false;
    }
    return true;
}

static bool await_new_leader(struct failover *f)
{
    uint64_t until = now_ns(f) + RESUME_MS_MAX * NS_PER_MS;

    while (f->first_ns == 0) {
        if (now_ns(f) > until)
            record_fail(&f->load.record, "no write has succeeded for %d ms", RESUME_MS_MAX);
        if (!load_run_ms(&f->load, 1))
            return false;
    }
    return true;
}

static bool bring_back(struct failover *f)
{
    while (f->fleet.members[f->leader].pid > 0)
        if (!load_run_ms(&f->load, 1))
            return false;
    return fleet_start(&f->fleet, f->leader) && load_settle(&f->load, WELL_MS_MAX) &&
           record_judge(&f->load.record);
}

static void note_time(struct failover_times *t, uint64_t from_ns, uint64_t to_ns)
{
    t->ms[t->count++] = ((double)to_ns - (double)from_ns) / (double)NS_PER_MS;
}

static bool kill_leader(struct failover *f)
{
    if (!warm_up(f))
        return false;
    uint64_t killed_ns = now_ns(f);
    fleet_kill(&f->fleet, f->leader);
    if (!await_new_leader(f))
        return false;
    note_time(&f->result->kills, killed_ns, f->first_ns);
    hold_fire(f);
    return bring_back(f);
}

static bool stop_leader(struct failover *f)
{
    if (!warm_up(f))
        return false;
    uint64_t told_ns = now_ns(f);
    fleet_stop(&f->fleet, f->leader);
    if (!await_new_leader(f))
        return false;
    note_time(&f->result->stops, f->last_ns, f->first_ns);
    note_time(&f->result->since_signal, told_ns, f->first_ns);
    hold_fire(f);
    return bring_back(f);
}

/* --- all of them --- */

static bool is_unwanted(const struct failover *f)
{
    return f->o->is_unwanted && *f->o->is_unwanted;
}

static bool run_all(struct failover *f)
{
    for (unsigned i = 0; i < f->fleet.count; i++)
        if (!fleet_start(&f->fleet, i))
            return false;
    if (!load_settle(&f->load, WELL_MS_MAX))
        return false;
    for (unsigned i = 0; i < f->o->kills && !is_unwanted(f); i++)
        if (!kill_leader(f))
            return false;
    for (unsigned i = 0; i < f->o->stops && !is_unwanted(f); i++)
        if (!stop_leader(f))
            return false;
    return true;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void sort(struct failover_times *t)
{
    qsort(t->ms, t->count, sizeof(t->ms[0]), compare);
}

static void run_with_load(struct failover *f)
{
    for (unsigned i = 0; i < f->fleet.count; i++)
        f->lines[i] = caller_connect_to(&f->load.caller, &f->fleet.members[i].address);
    f->load.on_turn = on_turn;
    f->load.context = f;
    bool ok = run_all(f);
    snprintf(f->result->problem, sizeof(f->result->problem), "%s",
             ok ? "" : load_problem(&f->load));
    hold_fire(f);
    sort(&f->result->kills);
    sort(&f->result->stops);
    sort(&f->result->since_signal);
}

bool failover_run(const struct failover_options *options, struct failover_result *out)
{
    struct failover *f = mem_new(struct failover);
    struct fleet_options fleet = {.program = options->program,
                                  .dir = options->dir,
                                  .flags = options->flags,
                                  .count = options->members ? options->members : 3,
                                  .election_ms =
                                      options->election_ms ? options->election_ms : 1000};

    assert(options->kills <= FAILOVERS_MAX);
    assert(options->stops <= FAILOVERS_MAX);
    *out = (struct failover_result){0};
    f->o = options;
    f->result = out;
    if (!fleet_open(&f->fleet, &fleet))
        snprintf(out->problem, sizeof(out->problem), "%s", f->fleet.problem);
    else if (load_open(&f->load, &(struct load_options){.fleet = &f->fleet}) != ERR_OK)
        snprintf(out->problem, sizeof(out->problem), "no loop could be had");
    else {
        run_with_load(f);
        load_close(&f->load);
    }
    fleet_close(&f->fleet);
    mem_free(f);
    return !out->problem[0];
}

double failover_percentile(const struct failover_times *t, unsigned percent)
{
    unsigned place = (t->count * percent + 99) / 100;

    return t->count == 0 ? 0 : t->ms[place > 0 ? place - 1 : 0];
}
