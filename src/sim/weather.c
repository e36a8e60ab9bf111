#include "sim/weather.h"

#include "base/assert.h"
#include "base/mem.h"
#include "io/clock.h"

#include <string.h>

enum { SPELLS_MAX = 8 };

/* Those that come and go. The others are of the whole run, or not of the weather. */
static const enum sim_fault kinds[] = {
    FAULT_CUT,       FAULT_CUT,   FAULT_ONE_WAY, FAULT_CLOG,  FAULT_LOSS, FAULT_LATENCY,
    FAULT_BANDWIDTH, FAULT_RESET, FAULT_PAUSE,   FAULT_PAUSE, FAULT_JUMP,
};

/* Ordered pairs of hosts: to[a] has bit b for the path from a to b. */
struct pairs {
    uint32_t to[FAKE_WIRE_HOSTS_MAX];
};

struct spell {
    struct weather *weather;
    struct fake_task end; /* scheduled while it is on */
    enum sim_fault kind;
    struct pairs pairs;
    struct fake_path effect;
    unsigned member;  /* FAULT_PAUSE */
    uint64_t then_ms; /* and for so long the other members do not see it afterwards */
};

struct weather {
    struct weather_options o;
    unsigned members;
    struct rng rng;
    struct fake_path good; /* what all paths are like before any spell */
    struct spell spells[SPELLS_MAX];
    struct fake_task next;
    struct rng standstills;
    struct fake_task standstill; /* the next */
};

/* --- paths --- */

static bool is_on(const struct spell *s)
{
    return heap_has(&s->end.node);
}

static void add_effect(struct fake_path *p, const struct fake_path *e)
{
    p->cut |= e->cut;
    if (e->loss_percent > p->loss_percent)
        p->loss_percent = e->loss_percent;
    if (e->tail_percent > p->tail_percent)
        p->tail_percent = e->tail_percent;
    if (e->delay.max_ns > p->delay.max_ns)
        p->delay = e->delay;
    if (e->bytes_per_s > 0 && (p->bytes_per_s == 0 || e->bytes_per_s < p->bytes_per_s))
        p->bytes_per_s = e->bytes_per_s;
    if (e->clogged_until_ns > p->clogged_until_ns)
        p->clogged_until_ns = e->clogged_until_ns;
}

static void set_path(struct weather *w, unsigned from, unsigned to)
{
    struct fake_path *path = fake_wire_path(w->o.hosts[from], w->o.hosts[to]);
    struct fake_path before = *path, now = w->good;

    for (unsigned i = 0; i < SPELLS_MAX; i++)
        if (is_on(&w->spells[i]) && (w->spells[i].pairs.to[from] >> to & 1) != 0)
            add_effect(&now, &w->spells[i].effect);
    now.busy_until_ns = before.busy_until_ns;
    *path = now;
    w->o.on->on_path(w->o.context, from, to, &before, &now);
}

static void set_paths(struct weather *w)
{
    for (unsigned from = 0; from < w->o.host_count; from++)
        for (unsigned to = 0; to < w->o.host_count; to++)
            if (from != to)
                set_path(w, from, to);
}

/* --- which of them --- */

static void add_pair(struct pairs *p, unsigned from, unsigned to)
{
    p->to[from] |= 1u << to;
}

static void add_both_ways(struct pairs *p, unsigned a, unsigned b)
{
    add_pair(p, a, b);
    add_pair(p, b, a);
}

static unsigned draw_member(struct weather *w, struct rng *rng)
{
    unsigned any = (unsigned)rng_below(rng, w->members);
    bool leader = rng_chance(rng, 1, 2);

    return leader ? w->o.on->leader(w->o.context) % w->members : any;
}

/* Some of all paths: all of them, or those to, from, or to and from a member, or a single one. */
static void draw_pairs(struct weather *w, struct rng *rng, struct pairs *out)
{
    unsigned which = (unsigned)rng_below(rng, 5);
    unsigned member = draw_member(w, rng);
    unsigned other = (unsigned)rng_below(rng, w->o.host_count);

    for (unsigned from = 0; from < w->o.host_count; from++) {
        for (unsigned to = 0; to < w->o.host_count; to++) {
            bool is_there = which == 0 || (which == 1 && from == member) ||
                            (which == 2 && to == member) ||
                            (which == 3 && (from == member || to == member)) ||
                            (which == 4 && from == member && to == other);
            if (is_there && from != to)
                add_pair(out, from, to);
        }
    }
}

/* --- partitions --- */

enum shape { ALONE, SPLIT, BRIDGE, RING, SCATTERED, NO_CLIENTS, SHAPES };

struct cut {
    enum shape shape;
    bool one_way, upward; /* only from lower places to higher ones, or the other way */
    unsigned members, first_side;
    unsigned alone; /* the member that has place 0 */
    unsigned place[CLIMATE_HOSTS_MAX];
};

/* Places in an order of their own, but for whoever is alone or a bridge. */
static void draw_places(struct rng *rng, struct cut *c)
{
    for (unsigned i = 0; i < CLIMATE_HOSTS_MAX; i++)
        c->place[i] = i;
    for (unsigned i = c->members; i > 1; i--) {
        unsigned j = (unsigned)rng_below(rng, i), kept = c->place[j];
        c->place[j] = c->place[i - 1];
        c->place[i - 1] = kept;
    }
    for (unsigned i = 0; i < c->members; i++)
        if (c->place[i] == 0)
            c->place[i] = c->place[c->alone];
    c->place[c->alone] = 0;
}

/* Do the two members see each other? */
static bool are_together(const struct cut *c, unsigned member, unsigned other)
{
    unsigned a = c->place[member], b = c->place[other];
    unsigned apart = a > b ? a - b : b - a;

    switch (c->shape) {
    case ALONE:
        return a != 0 && b != 0;
    case SPLIT:
        return (a < c->first_side) == (b < c->first_side);
    case BRIDGE:
        return a == 0 || b == 0 || (a <= c->first_side) == (b <= c->first_side);
    case RING:
        return apart == 1 || apart == c->members - 1;
    case SCATTERED:
        return false;
    case NO_CLIENTS:
    case SHAPES:
        break;
    }
    return true;
}

static void cut_apart(const struct cut *c, unsigned lower, unsigned higher, struct pairs *out)
{
    if (!c->one_way || c->upward)
        add_pair(out, lower, higher);
    if (!c->one_way || !c->upward)
        add_pair(out, higher, lower);
}

static void cut_members(const struct cut *c, struct pairs *out)
{
    for (unsigned a = 0; a < c->members; a++)
        for (unsigned b = 0; b < c->members; b++)
            if (c->place[a] < c->place[b] && !are_together(c, a, b))
                cut_apart(c, a, b, out);
}

/* It goes with a member and sees whom that one sees, or it is left alone. */
static void cut_client(const struct cut *c, struct rng *rng, unsigned client, struct pairs *out)
{
    unsigned side = (unsigned)rng_below(rng, c->members);
    bool sees_all = rng_chance(rng, 1, 2);

    for (unsigned m = 0; m < c->members; m++) {
        bool sees = sees_all || m == side || are_together(c, m, side);
        if (c->shape == NO_CLIENTS)
            sees = m != c->alone;
        if (!sees)
            cut_apart(c, client, m, out);
    }
}

static void draw_cut(struct weather *w, struct rng *rng, bool one_way, struct pairs *out)
{
    struct cut c = {.one_way = one_way, .members = w->members};

    c.shape = (enum shape)rng_below(rng, SHAPES);
    c.upward = rng_chance(rng, 1, 2);
    c.first_side = 1 + (unsigned)rng_below(rng, w->members);
    c.alone = draw_member(w, rng);
    draw_places(rng, &c);
    cut_members(&c, out);
    for (unsigned client = w->members; client < w->o.host_count; client++)
        cut_client(&c, rng, client, out);
}

/* --- spells --- */

/* Most are short; some are longer than anybody's timeouts. */
static uint64_t draw_ms(struct rng *rng, uint64_t min_ms, uint64_t max_ms)
{
    uint64_t part = rng_below(rng, 4);
    uint64_t top_ms = part == 0 ? max_ms : min_ms + (max_ms - min_ms) / (4 * part);

    return rng_between(rng, min_ms, top_ms);
}

/* It goes on, and nobody has told it yet what the others have decided without it. */
static void stay_cut_off(struct spell *s)
{
    struct weather *w = s->weather;

    s->kind = FAULT_CUT;
    fake_time_at(w->o.time, &s->end, w->o.time->now_ns + s->then_ms * NS_PER_MS);
    s->then_ms = 0;
}

static void spell_over(struct fake_task *t)
{
    struct spell *s = container_of(t, struct spell, end);
    struct weather *w = s->weather;

    if (s->kind == FAULT_PAUSE)
        w->o.on->on_resume(w->o.context, s->member);
    if (s->then_ms > 0)
        stay_cut_off(s);
    set_paths(w);
}

static bool is_paused(const struct weather *w, unsigned member)
{
    for (unsigned i = 0; i < SPELLS_MAX; i++)
        if (is_on(&w->spells[i]) && w->spells[i].kind == FAULT_PAUSE &&
            w->spells[i].member == member)
            return true;
    return false;
}

/*
 * A machine that stands still is off the wire as well; the kernel of a stopped process is not, and
 * has what others said meanwhile ready for it: its clients, and the other members, too, or these
 * are cut off. Then it may go on for a while before it hears what they have decided without it.
 */
static uint64_t draw_pause(struct weather *w, struct rng *rng, struct spell *s, bool allowed)
{
    uint64_t kind = rng_below(rng, 3);
    bool whole_machine = kind == 0, without_members = kind == 1;

    s->member = draw_member(w, rng);
    if (allowed && is_paused(w, s->member))
        return 0;
    for (unsigned h = 0; h < w->o.host_count; h++)
        if (h != s->member && (whole_machine || (without_members && h < w->members)))
            add_both_ways(&s->pairs, h, s->member);
    s->effect.cut = whole_machine || without_members;
    if (allowed)
        w->o.on->on_pause(w->o.context, s->member, whole_machine);
    /* Half of them are long enough for another to be elected, and to lead for a while. */
    bool is_long = rng_chance(rng, 1, 2);
    return is_long ? rng_between(rng, 2000, 6000) : draw_ms(rng, 10, 6000);
}

static void draw_reset(struct weather *w, struct rng *rng, bool allowed)
{
    unsigned member = draw_member(w, rng);
    unsigned other = (unsigned)rng_below(rng, w->o.host_count);

    if (allowed && other != member)
        fake_wire_reset_between(w->o.hosts[member], w->o.hosts[other]);
}

static void draw_jump(struct weather *w, struct rng *rng, bool allowed)
{
    unsigned member = draw_member(w, rng);
    int64_t ms = (int64_t)(1ull << rng_below(rng, 27));
    bool back = rng_chance(rng, 1, 2);

    if (allowed)
        w->o.on->on_jump(w->o.context, member, back ? -ms : ms);
}

/* Draws everything about it, whether it is allowed or not. Returns how long it lasts; 0: it is over
 * already. */
static uint64_t draw_spell(struct weather *w, struct rng *rng, struct spell *s, bool allowed)
{
    uint64_t ms = 0;

    switch (s->kind) {
    case FAULT_CUT:
    case FAULT_ONE_WAY:
        draw_cut(w, rng, s->kind == FAULT_ONE_WAY, &s->pairs);
        s->effect.cut = true;
        return draw_ms(rng, 50, 8000);
    case FAULT_PAUSE:
        return draw_pause(w, rng, s, allowed);
    case FAULT_RESET:
        draw_reset(w, rng, allowed);
        return 0;
    case FAULT_JUMP:
        draw_jump(w, rng, allowed);
        return 0;
    default:
        break;
    }
    draw_pairs(w, rng, &s->pairs);
    ms = draw_ms(rng, 50, 5000);
    if (s->kind == FAULT_CLOG)
        s->effect.clogged_until_ns = w->o.time->now_ns + ms * NS_PER_MS;
    if (s->kind == FAULT_LOSS)
        s->effect.loss_percent = (unsigned)rng_between(rng, 1, 30);
    if (s->kind == FAULT_BANDWIDTH)
        s->effect.bytes_per_s = 1000 * rng_between(rng, 5, 500);
    if (s->kind == FAULT_LATENCY) {
        s->effect.delay.max_ns = rng_between(rng, 1, 100) * NS_PER_MS;
        s->effect.delay.min_ns = s->effect.delay.max_ns / rng_between(rng, 1, 10);
        s->effect.tail_percent = (unsigned)rng_below(rng, 40);
    }
    return ms;
}

static struct spell *free_spell(struct weather *w)
{
    for (unsigned i = 0; i < SPELLS_MAX; i++)
        if (!is_on(&w->spells[i]))
            return &w->spells[i];
    return NULL;
}

static void begin_spell(struct weather *w)
{
    struct rng rng;
    struct spell unwanted = {0};

    rng_seed(&rng, rng_next(&w->rng)); /* its own: what is left out takes nothing from the next */
    enum sim_fault kind = kinds[rng_below(&rng, ARRAY_LEN(kinds))];
    struct spell *s = free_spell(w);
    bool allowed = s && climate_has(w->o.climate, kind);
    if (!allowed)
        s = &unwanted;
    *s = (struct spell){.weather = w, .kind = kind, .end.run = spell_over};
    uint64_t ms = draw_spell(w, &rng, s, allowed);
    if (!allowed || ms == 0)
        return;
    fake_time_at(w->o.time, &s->end, w->o.time->now_ns + ms * NS_PER_MS);
    set_paths(w);
}

void weather_isolate(struct weather *w, unsigned member, uint64_t ms)
{
    struct spell *s = free_spell(w);

    if (!s || !climate_has(w->o.climate, FAULT_CUT))
        return;
    *s = (struct spell){.weather = w, .kind = FAULT_CUT, .end.run = spell_over, .effect.cut = true};
    for (unsigned h = 0; h < w->o.host_count; h++)
        if (h != member)
            add_both_ways(&s->pairs, h, member);
    fake_time_at(w->o.time, &s->end, w->o.time->now_ns + ms * NS_PER_MS);
    set_paths(w);
}

/* --- standstills --- */

/* A stopped process; or a virtual machine, whose clock stands, too, while its host keeps what
 * clients send. */
static void stand_still(struct weather *w, uint64_t ms, uint64_t then_ms, bool clock_stands)
{
    struct spell *s = free_spell(w);
    unsigned member = w->o.on->leader(w->o.context) % w->members;

    if (!s || is_paused(w, member))
        return;
    *s = (struct spell){.weather = w,
                        .kind = FAULT_PAUSE,
                        .end.run = spell_over,
                        .effect.cut = true,
                        .member = member,
                        .then_ms = then_ms};
    for (unsigned h = 0; h < w->members; h++)
        if (h != member)
            add_both_ways(&s->pairs, h, member);
    w->o.on->on_pause(w->o.context, member, clock_stands);
    fake_time_at(w->o.time, &s->end, w->o.time->now_ns + ms * NS_PER_MS);
    set_paths(w);
}

/* So long after the last that leases can end meanwhile: whoever is elected gives them time. */
static void wait_for_standstill(struct weather *w, uint64_t after_ms)
{
    uint64_t unit_ms = w->o.climate->standstill_ms;
    uint64_t ms = after_ms + rng_between(&w->standstills, 4 * unit_ms, 12 * unit_ms);

    fake_time_at(w->o.time, &w->standstill, w->o.time->now_ns + ms * NS_PER_MS);
}

static void on_standstill(struct fake_task *t)
{
    struct weather *w = container_of(t, struct weather, standstill);
    uint64_t unit_ms = w->o.climate->standstill_ms;
    uint64_t ms = rng_between(&w->standstills, 3 * unit_ms, 6 * unit_ms);
    uint64_t then_ms = rng_between(&w->standstills, 1, unit_ms);
    bool clock_stands =
        rng_chance(&w->standstills, 7, 8); /* or leases have ended when it goes on */

    stand_still(w, ms, then_ms, clock_stands);
    wait_for_standstill(w, ms);
}

/* --- the next spell --- */

static void wait_for_next(struct weather *w)
{
    uint64_t ms = rng_between(&w->rng, 1, w->o.climate->weather_ms_max);

    fake_time_at(w->o.time, &w->next, w->o.time->now_ns + ms * NS_PER_MS);
}

static void on_time(struct fake_task *t)
{
    struct weather *w = container_of(t, struct weather, next);

    begin_spell(w);
    wait_for_next(w);
}

/* --- the life --- */

struct weather *weather_new(const struct weather_options *options)
{
    struct weather *w = mem_new(struct weather);

    assert(options->host_count <= FAKE_WIRE_HOSTS_MAX);
    assert(options->climate->hosts <= options->host_count);
    w->o = *options;
    w->members = options->climate->hosts;
    rng_seed(&w->rng, options->seed);
    unsigned silent = (unsigned)rng_below(&w->rng, 51);
    unsigned repeat = (unsigned)rng_below(&w->rng, 51);
    w->good.silent_percent = climate_has(options->climate, FAULT_HALF_OPEN) ? silent : 0;
    w->good.repeat_percent = climate_has(options->climate, FAULT_REPEAT) ? repeat : 0;
    w->next.run = on_time;
    set_paths(w);
    wait_for_next(w);
    rng_seed(&w->standstills, options->standstill_seed);
    w->standstill.run = on_standstill;
    if (options->climate->standstill_ms > 0)
        wait_for_standstill(w, 0);
    return w;
}

void weather_calm(struct weather *w)
{
    fake_time_cancel(w->o.time, &w->next);
    fake_time_cancel(w->o.time, &w->standstill);
    w->good = (struct fake_path){0};
    for (unsigned i = 0; i < SPELLS_MAX; i++) {
        struct spell *s = &w->spells[i];
        if (!is_on(s))
            continue;
        fake_time_cancel(w->o.time, &s->end);
        if (s->kind == FAULT_PAUSE)
            w->o.on->on_resume(w->o.context, s->member);
    }
    set_paths(w);
}

void weather_free(struct weather *w)
{
    if (!w)
        return;
    fake_time_cancel(w->o.time, &w->next);
    fake_time_cancel(w->o.time, &w->standstill);
    for (unsigned i = 0; i < SPELLS_MAX; i++)
        fake_time_cancel(w->o.time, &w->spells[i].end);
    mem_free(w);
}
