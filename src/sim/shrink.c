#include "sim/shrink.h"

#include "sim/climate.h"

#include <inttypes.h>

enum { STORM_MS_FIRST = 30000, STORM_MS_LEAST = 250 };

struct search {
    struct sim_options best;
    struct shrink *asked;
};

static bool is_over(const struct search *s)
{
    return s->asked->runs >= s->asked->runs_max;
}

static bool take_if_it_fails(struct search *s, const struct sim_options *smaller)
{
    if (is_over(s))
        return false;
    s->asked->runs++;
    if (!s->asked->fails(s->asked->context, smaller))
        return false;
    s->best = *smaller;
    return true;
}

static bool drop_faults(struct search *s)
{
    struct sim_options all = s->best;
    bool smaller = false;

    all.without = (1u << SIM_FAULTS) - 1;
    if (s->best.without != all.without && take_if_it_fails(s, &all))
        return true;
    for (unsigned f = 0; f < SIM_FAULTS; f++) {
        struct sim_options o = s->best;
        if ((o.without >> f & 1) != 0)
            continue;
        o.without |= 1u << f;
        smaller |= take_if_it_fails(s, &o);
    }
    return smaller;
}

static bool drop_members(struct search *s)
{
    for (unsigned members = 1; members < s->best.members; members++) {
        struct sim_options o = s->best;
        o.members = members;
        if (take_if_it_fails(s, &o))
            return true;
    }
    return false;
}

static bool drop_clients(struct search *s)
{
    struct sim_options o = s->best;

    if (o.writers == 1 && o.watchers == 1)
        return false;
    o.writers = o.watchers = 1;
    return take_if_it_fails(s, &o);
}

static bool end_earlier(struct search *s)
{
    bool smaller = false;

    while (s->best.storm_ms / 2 >= STORM_MS_LEAST) {
        struct sim_options o = s->best;
        o.storm_ms /= 2;
        if (!take_if_it_fails(s, &o))
            break;
        smaller = true;
    }
    return smaller;
}

struct sim_options shrink(struct shrink *asked)
{
    struct search s = {.best = *asked->failing, .asked = asked};
    bool smaller = true;

    s.best.members = asked->members;
    if (s.best.storm_ms == 0)
        s.best.storm_ms = STORM_MS_FIRST;
    while (smaller && !is_over(&s)) {
        smaller = drop_faults(&s);
        smaller |= drop_members(&s);
        smaller |= drop_clients(&s);
        smaller |= end_earlier(&s);
    }
    asked->is_least = !smaller && !is_over(&s);
    return s.best;
}

void shrink_arguments(const struct sim_options *o, struct buf *out)
{
    bool any = false;

    buf_printf(out, "--seed %" PRIu64, o->seed);
    if (o->members > 0)
        buf_printf(out, " --members %u", o->members);
    if (o->with_changes)
        buf_append_str(out, " --with-changes");
    if (o->stewards > 0)
        buf_printf(out, " --member-operators %u", o->stewards);
    if (o->with_auth)
        buf_append_str(out, " --with-auth");
    if (o->with_cold)
        buf_append_str(out, " --with-cold");
    if (o->writers > 0)
        buf_printf(out, " --writers %u", o->writers);
    if (o->watchers > 0)
        buf_printf(out, " --watchers %u", o->watchers);
    if (o->storm_ms > 0)
        buf_printf(out, " --storm-ms %" PRIu64, o->storm_ms);
    for (unsigned f = 0; f < SIM_FAULTS; f++) {
        if ((o->without >> f & 1) == 0)
            continue;
        buf_printf(out, "%s%s", any ? "," : " --without ", sim_fault_name(f));
        any = true;
    }
}
