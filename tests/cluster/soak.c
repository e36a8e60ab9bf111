#include "cluster/soak.h"

#include "base/mem.h"
#include "cluster/load.h"
#include "io/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    WELL_MS_MAX = 60000,
    FULL_SPEED_MS = 10000,
    LOOK_MS = 1000,
    DOWN_MS = 2000, /* so long is a member away */
    PAUSE_MS_MAX = 10000,
};

struct soak {
    const struct soak_options *o;
    struct soak_result *r;
    struct fleet fleet;
    struct load load;
    uint64_t started_ns[FLEET_MAX];
    double resident, files; /* the sums of this minute's looks */
    unsigned looks;
};

static uint64_t now_ns(struct soak *s)
{
    return caller_now_ns(&s->load.caller);
}

static unsigned minute_s(const struct soak *s)
{
    return s->o->minute_s ? s->o->minute_s : 60;
}

static bool is_unwanted(const struct soak *s)
{
    return s->o->is_unwanted && *s->o->is_unwanted;
}

/* --- what members need --- */

/* In a hurry, everybody counts. */
static bool is_settled(struct soak *s, unsigned member)
{
    uint64_t settled_ns = s->o->minute_s ? 0 : (uint64_t)SOAK_SETTLED_S * NS_PER_S;

    return s->fleet.members[member].pid > 0 && now_ns(s) - s->started_ns[member] >= settled_ns;
}

static void look(struct soak *s)
{
    for (unsigned i = 0; i < s->fleet.count; i++) {
        if (!is_settled(s, i))
            continue;
        s->resident += (double)fleet_resident_bytes(&s->fleet, i);
        s->files += (double)fleet_open_files(&s->fleet, i);
        s->looks++;
    }
}

double soak_slope(const double *values, unsigned from, unsigned count)
{
    double n = 0, x_sum = 0, y_sum = 0, xx = 0, xy = 0;

    for (unsigned i = from; i < count; i++) {
        double x = i / 60.0;
        n += 1;
        x_sum += x;
        y_sum += values[i];
        xx += x * x;
        xy += x * values[i];
    }
    double spread = n * xx - x_sum * x_sum;
    if (n < 2 || spread == 0 || y_sum == 0)
        return 0;
    return (n * xy - x_sum * y_sum) / spread / (y_sum / n);
}

/* --- the story --- */

static bool run_looking_ms(struct soak *s, uint64_t ms)
{
    uint64_t until = now_ns(s) + ms * NS_PER_MS;

    while (now_ns(s) < until && !is_unwanted(s)) {
        uint64_t left_ms = (until - now_ns(s)) / NS_PER_MS + 1;
        look(s);
        if (!load_run_ms(&s->load, left_ms < LOOK_MS ? left_ms : LOOK_MS))
            return false;
    }
    return true;
}

static bool start(struct soak *s, unsigned member)
{
    s->started_ns[member] = now_ns(s);
    return fleet_start(&s->fleet, member);
}

static void end_minute(struct soak *s, unsigned calls_before)
{
    struct soak_result *r = s->r;
    double looks = s->looks ? s->looks : 1;
    struct soak_minute *m = &r->minutes[r->count++];

    *m = (struct soak_minute){.resident = s->resident / looks,
                              .files = s->files / looks,
                              .calls = s->load.succeeded - calls_before};
    s->resident = s->files = 0;
    s->looks = 0;
    if (!s->o->verbose)
        return;
    printf("minute %u: %.2f MB, %.1f files, %u calls\n", r->count, m->resident / 1e6, m->files,
           m->calls);
    fflush(stdout);
}

/* There is judging only while no call is under way. */
static bool settle_and_judge(struct soak *s)
{
    bool ok = load_settle(&s->load, WELL_MS_MAX) && record_judge(&s->load.record);

    s->load.is_on = true;
    return ok;
}

static bool minute(struct soak *s, unsigned victim)
{
    uint64_t half_ms = (uint64_t)minute_s(s) * 1000 / 2;
    unsigned calls = s->load.succeeded;

    if (!run_looking_ms(s, half_ms))
        return false;
    fleet_kill(&s->fleet, victim);
    s->r->kills++;
    uint64_t down_ms = half_ms < DOWN_MS ? half_ms : DOWN_MS;
    if (!run_looking_ms(s, down_ms) || !start(s, victim) || !run_looking_ms(s, half_ms - down_ms))
        return false;
    end_minute(s, calls);
    return settle_and_judge(s);
}

/* A client pauses for half of the most on average, so its calls take that much longer. */
static bool find_half_speed(struct soak *s)
{
    uint64_t ms = FULL_SPEED_MS * minute_s(s) / 60, began = now_ns(s);
    unsigned before = s->load.succeeded;

    s->load.is_on = true;
    if (!load_run_ms(&s->load, ms))
        return false;
    double seconds = (double)(now_ns(s) - began) / (double)NS_PER_S;
    unsigned calls = s->load.succeeded - before;
    if (calls == 0) {
        record_fail(&s->load.record, "no call has succeeded");
        return false;
    }
    double call_ms = 1000 * seconds * s->load.client_count / calls;
    s->r->full_per_s = calls / seconds;
    double pause_ms = call_ms * 2 + 1;
    s->load.pause_ms_max = pause_ms < (double)PAUSE_MS_MAX ? (unsigned)pause_ms : PAUSE_MS_MAX;
    return true;
}

static bool run_all(struct soak *s)
{
    for (unsigned i = 0; i < s->fleet.count; i++)
        if (!start(s, i))
            return false;
    if (!load_settle(&s->load, WELL_MS_MAX) || !find_half_speed(s))
        return false;
    uint64_t began = now_ns(s);
    unsigned before = s->load.succeeded;
    for (unsigned i = 0; i < s->o->minutes && !is_unwanted(s); i++)
        if (!minute(s, i % s->fleet.count))
            return false;
    s->r->half_per_s =
        (s->load.succeeded - before) / ((double)(now_ns(s) - began) / (double)NS_PER_S);
    return load_settle(&s->load, WELL_MS_MAX) && record_judge(&s->load.record) &&
           load_compare_stores(&s->load);
}

static void note_result(struct soak *s, bool ok)
{
    struct soak_result *r = s->r;
    double *values = mem_new_array(SOAK_MINUTES_MAX, double);

    r->operations = s->load.succeeded;
    r->failed = s->load.failed;
    for (unsigned i = 0; i < r->count; i++)
        values[i] = r->minutes[i].resident;
    r->resident_slope = soak_slope(values, SOAK_WARM_UP_MINUTES, r->count);
    for (unsigned i = 0; i < r->count; i++)
        values[i] = r->minutes[i].files;
    r->files_slope = soak_slope(values, SOAK_WARM_UP_MINUTES, r->count);
    mem_free(values);
    if (!ok)
        snprintf(r->problem, sizeof(r->problem), "%s", load_problem(&s->load));
}

bool soak_run(const struct soak_options *options, struct soak_result *out)
{
    struct soak *s = mem_new(struct soak);
    struct fleet_options fleet = {.program = options->program,
                                  .dir = options->dir,
                                  .flags = options->flags,
                                  .count = options->members ? options->members : 3,
                                  .election_ms =
                                      options->election_ms ? options->election_ms : 1000};

    assert(options->minutes <= SOAK_MINUTES_MAX);
    *out = (struct soak_result){0};
    s->o = options;
    s->r = out;
    if (!fleet_open(&s->fleet, &fleet))
        snprintf(out->problem, sizeof(out->problem), "%s", s->fleet.problem);
    else if (load_open(&s->load,
                       &(struct load_options){.fleet = &s->fleet,
                                              .seed = options->seed,
                                              .clients = options->clients ? options->clients
                                                                          : 48}) != ERR_OK)
        snprintf(out->problem, sizeof(out->problem), "no loop could be had");
    else {
        bool ok = run_all(s);
        note_result(s, ok);
        load_close(&s->load);
    }
    fleet_close(&s->fleet);
    mem_free(s);
    return !out->problem[0];
}
