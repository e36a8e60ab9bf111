#include "sim/sickness.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum {
    WAIT_MS_MAX = 2500,     /* between two illnesses */
    OPERATION_MS_MAX = 500, /* of a slow disk */
    KILL_MS_MIN = 2000,     /* when somebody has had enough of a disk that hangs for ever */
    KILL_MS_MAX = 12000,
    CALLS_UNTIL_FAILURE = 30,        /* of the disk, */
    STORE_CALLS_UNTIL_FAILURE = 100, /* of the store's, most of them writes of a key */
};

static const enum sim_fault kinds[] = {
    FAULT_SLOW_DISK, FAULT_HANG, FAULT_HANG, FAULT_EIO,  FAULT_EIO,
    FAULT_FLIP,      FAULT_WIPE, FAULT_FULL, FAULT_FULL,
};

struct patient {
    struct sickness *sickness;
    struct sim_host *host;
    unsigned number;
    struct fake_task end; /* scheduled while an illness is on that passes by itself */
    enum sim_fault ill;   /* with this; SIM_FAULTS: it is not */
    bool hangs_for_ever;
    bool fails; /* a call of its disks was told to, in this life or before its start */
    bool flipped, wiped;
    bool store_flipped; /* a value of the store */
};

struct sickness {
    struct sickness_options o;
    struct rng rng;
    struct patient patients[CLIMATE_HOSTS_MAX];
    unsigned count;
    struct fake_task next;
    struct sickness_counts counts;
};

static bool is_lost(const struct patient *p)
{
    return p->flipped || p->wiped;
}

bool sickness_is_lost(const struct sickness *s, unsigned member)
{
    return is_lost(&s->patients[member]);
}

bool sickness_is_in_store(const struct sickness *s, unsigned member)
{
    return s->patients[member].store_flipped;
}

bool sickness_is_wiped(const struct sickness *s, unsigned member)
{
    return s->patients[member].wiped;
}

unsigned sickness_lost_count(const struct sickness *s)
{
    unsigned count = 0;

    for (unsigned i = 0; i < s->count; i++)
        count += is_lost(&s->patients[i]);
    return count;
}

struct sickness_counts sickness_counts(const struct sickness *s)
{
    return s->counts;
}

/* --- those that pass --- */

static void hang(struct patient *p, uint64_t until_ns, bool store_too)
{
    fake_disk_hang(p->host->disk, until_ns);
    if (store_too)
        fake_workers_hang(&p->host->store_worker, until_ns);
}

static void set_space(struct patient *p, uint64_t log_bytes, uint64_t store_bytes)
{
    fake_disk_set_space(p->host->disk, log_bytes);
    if (p->host->memory)
        memory_disk_set_space(p->host->memory, store_bytes);
}

static void cure(struct patient *p)
{
    if (p->ill == SIM_FAULTS)
        return;
    fake_time_cancel(p->sickness->o.time, &p->end);
    if (p->ill == FAULT_SLOW_DISK)
        fake_disk_set_delay(p->host->disk, sim_host_disk_delay(p->sickness->o.climate));
    if (p->ill == FAULT_HANG)
        hang(p, 0, true);
    if (p->ill == FAULT_FULL)
        set_space(p, FAKE_DISK_NOT_FULL, MEMORY_DISK_NOT_FULL);
    p->sickness->o.on->on_well(p->sickness->o.context, p->number, p->ill);
    p->ill = SIM_FAULTS;
}

static void illness_over(struct fake_task *t)
{
    struct patient *p = container_of(t, struct patient, end);
    struct sickness *s = p->sickness;

    if (p->hangs_for_ever)
        s->o.on->kill(s->o.context, p->number); /* which comes back as sickness_crashed */
    cure(p);
}

static void fall_ill(struct patient *p, enum sim_fault fault, uint64_t ms)
{
    struct sickness *s = p->sickness;

    assert(p->ill == SIM_FAULTS);
    p->ill = fault;
    fake_time_at(s->o.time, &p->end, s->o.time->now_ns + ms * NS_PER_MS);
    s->o.on->on_sick(s->o.context, p->number, fault, ms);
}

static void draw_slow(struct patient *p, struct rng *rng, bool allowed)
{
    uint64_t ms = rng_between(rng, 100, 5000);
    uint64_t operation_ms = rng_between(rng, 5, OPERATION_MS_MAX);

    if (!allowed || p->ill != SIM_FAULTS)
        return;
    p->sickness->counts.slow++;
    fake_disk_set_delay(p->host->disk,
                        (struct fake_delay){.min_ns = 20000, .max_ns = operation_ms * NS_PER_MS});
    fall_ill(p, FAULT_SLOW_DISK, ms);
}

/* Short or long, measured by what the others wait until they elect another. */
static void draw_hang(struct patient *p, struct rng *rng, bool allowed)
{
    const struct sickness *s = p->sickness;
    bool for_ever = rng_chance(rng, 1, 4), is_short = rng_chance(rng, 1, 3);
    uint64_t ms = for_ever
                      ? rng_between(rng, KILL_MS_MIN, KILL_MS_MAX)
                      : rng_between(rng, 10, (is_short ? 1 : 6) * s->o.climate->election_ms + 10);
    bool store_too = rng_chance(rng, 1, 2);

    if (!allowed || p->ill != SIM_FAULTS)
        return;
    p->sickness->counts.hung++;
    p->hangs_for_ever = for_ever;
    hang(p, for_ever ? FAKE_DISK_FOR_EVER : s->o.time->now_ns + ms * NS_PER_MS, store_too);
    fall_ill(p, FAULT_HANG, ms);
}

/* Half of them are met by a member that starts, since that reads everything it has. */
static void restart(struct patient *p)
{
    p->sickness->o.on->kill(p->sickness->o.context, p->number);
}

static void draw_failure(struct patient *p, struct rng *rng, bool allowed)
{
    static const enum disk_op_kind ops[] = {DISK_NONE,  DISK_NONE, DISK_READ,
                                            DISK_WRITE, DISK_SYNC, DISK_SYNC};
    struct fake_fault fault = {.kind = ops[rng_below(rng, ARRAY_LEN(ops))], .err = ERR_IO};
    fault.nth = rng_between(rng, 1, CALLS_UNTIL_FAILURE);
    fault.written = rng_chance(rng, 1, 2) ? (size_t)rng_below(rng, 2000) : 0;
    bool in_store = rng_chance(rng, 1, 3);
    uint64_t call = rng_between(rng, 1, STORE_CALLS_UNTIL_FAILURE);
    bool at_start = rng_chance(rng, 1, 2);

    if (!allowed)
        return;
    if (at_start)
        restart(p);
    p->sickness->counts.failing++;
    p->fails = true;
    if (in_store && p->host->memory)
        memory_disk_fail_at(p->host->memory, call);
    else
        fake_disk_fail(p->host->disk, fault);
    p->sickness->o.on->on_sick(p->sickness->o.context, p->number, FAULT_EIO, 0);
}

/* Of a log whose segments are large there is always enough. */
static void draw_full(struct patient *p, struct rng *rng, bool allowed)
{
    static const uint64_t most[] = {1, 1000, 20000, 200000};
    uint64_t ms = rng_between(rng, 100, 6000);
    uint64_t which = rng_below(rng, 3);
    uint64_t log_max = most[rng_below(rng, ARRAY_LEN(most))];
    uint64_t store_max = most[rng_below(rng, ARRAY_LEN(most))];
    uint64_t log_bytes = rng_below(rng, log_max);
    uint64_t store_bytes = rng_below(rng, store_max);
    bool at_start = rng_chance(rng, 1, 4);

    if (!allowed || p->ill != SIM_FAULTS)
        return;
    p->sickness->counts.full++;
    if (at_start)
        restart(p);
    set_space(p, which == 1 ? FAKE_DISK_NOT_FULL : log_bytes,
              which == 2 ? MEMORY_DISK_NOT_FULL : store_bytes);
    fall_ill(p, FAULT_FULL, ms);
}

/* --- those that do not --- */

static bool may_be_lost(const struct patient *p)
{
    const struct sickness *s = p->sickness;

    return !is_lost(p) && p->host->memory && sickness_lost_count(s) < (s->count - 1) / 2 &&
           s->o.on->has_run(s->o.context, p->number);
}

static void draw_flip(struct patient *p, struct rng *rng, bool allowed)
{
    static const char *const dirs[] = {"wal", "wal", "snap"};
    uint64_t where = rng_below(rng, ARRAY_LEN(dirs) + 1);
    struct rng coin;
    char dir[64];

    rng_seed(&coin, rng_next(rng));
    bool at_start = rng_chance(rng, 1, 2);
    if (!allowed || !may_be_lost(p))
        return;
    if (at_start)
        restart(p);
    if (where < ARRAY_LEN(dirs))
        snprintf(dir, sizeof(dir), "/data%u/member/%s", p->number + 1, dirs[where]);
    p->flipped = where < ARRAY_LEN(dirs) ? fake_disk_flip(p->host->disk, dir, &coin)
                                         : memory_disk_flip(p->host->memory, &coin);
    if (!p->flipped)
        return;
    p->store_flipped = where == ARRAY_LEN(dirs);
    p->sickness->counts.flipped++;
    p->sickness->o.on->on_sick(p->sickness->o.context, p->number, FAULT_FLIP, 0);
}

static void draw_wipe(struct patient *p, bool allowed)
{
    struct sickness *s = p->sickness;

    if (!allowed || !may_be_lost(p))
        return;
    s->counts.wiped++;
    s->o.on->take_away(s->o.context, p->number);
    fake_disk_wipe(p->host->disk);
    memory_disk_wipe(p->host->memory);
    p->wiped = true;
    s->o.on->on_sick(s->o.context, p->number, FAULT_WIPE, 0);
}

/* --- when --- */

static void draw_illness(struct sickness *s)
{
    struct rng rng;

    rng_seed(&rng, rng_next(&s->rng)); /* its own: what is left out takes nothing from the next */
    enum sim_fault kind = kinds[rng_below(&rng, ARRAY_LEN(kinds))];
    unsigned any = (unsigned)rng_below(&rng, s->count);
    bool leader = rng_chance(&rng, 1, 2);
    struct patient *p = &s->patients[leader ? s->o.on->leader(s->o.context) % s->count : any];
    bool allowed = climate_has(s->o.climate, kind);

    if (kind == FAULT_SLOW_DISK)
        draw_slow(p, &rng, allowed);
    if (kind == FAULT_HANG)
        draw_hang(p, &rng, allowed);
    if (kind == FAULT_EIO)
        draw_failure(p, &rng, allowed);
    if (kind == FAULT_FULL)
        draw_full(p, &rng, allowed);
    if (kind == FAULT_FLIP)
        draw_flip(p, &rng, allowed);
    if (kind == FAULT_WIPE)
        draw_wipe(p, allowed);
}

static void wait_for_next(struct sickness *s)
{
    uint64_t ms = rng_between(&s->rng, 1, WAIT_MS_MAX);

    fake_time_at(s->o.time, &s->next, s->o.time->now_ns + ms * NS_PER_MS);
}

static void on_time(struct fake_task *t)
{
    struct sickness *s = container_of(t, struct sickness, next);

    draw_illness(s);
    wait_for_next(s);
}

/* --- the life --- */

struct sickness *sickness_new(const struct sickness_options *options)
{
    struct sickness *s = mem_new(struct sickness);

    s->o = *options;
    rng_seed(&s->rng, options->seed);
    s->next.run = on_time;
    if (options->climate->faults & SIM_DISK_FAULTS)
        wait_for_next(s); /* else nothing is: a task more would change every other's number */
    return s;
}

void sickness_add(struct sickness *s, struct sim_host *host)
{
    struct patient *p = &s->patients[s->count];

    assert(s->count < CLIMATE_HOSTS_MAX);
    *p = (struct patient){.sickness = s,
                          .host = host,
                          .number = s->count,
                          .ill = SIM_FAULTS,
                          .end.run = illness_over};
    s->count++;
}

void sickness_calm(struct sickness *s)
{
    fake_time_cancel(s->o.time, &s->next);
    for (unsigned i = 0; i < s->count; i++) {
        struct patient *p = &s->patients[i];
        cure(p);
        fake_disk_fail(p->host->disk, (struct fake_fault){0});
        if (p->host->memory)
            memory_disk_fail_at(p->host->memory, 0);
    }
}

void sickness_hang(struct sickness *s, unsigned member)
{
    struct patient *p = &s->patients[member];

    cure(p);
    s->counts.hung++;
    p->hangs_for_ever = false;
    p->ill = FAULT_HANG;
    hang(p, FAKE_DISK_FOR_EVER, true);
    s->o.on->on_sick(s->o.context, member, FAULT_HANG, 0);
}

void sickness_free(struct sickness *s)
{
    if (!s)
        return;
    fake_time_cancel(s->o.time, &s->next);
    for (unsigned i = 0; i < s->count; i++)
        fake_time_cancel(s->o.time, &s->patients[i].end);
    mem_free(s);
}

/* A slow disk is so after a crash, too. */
void sickness_crashed(struct sickness *s, unsigned member)
{
    struct patient *p = &s->patients[member];

    p->fails = false;
    if (p->host->memory)
        memory_disk_fail_at(p->host->memory, 0);
    if (p->ill == FAULT_HANG)
        cure(p);
}

/* --- what a member may say --- */

/* The fakes' words for a call that was told to fail. */
static bool tells_of_failure(const char *why)
{
    return strstr(why, err_text(ERR_IO)) || strstr(why, err_text(ERR_SYNC)) ||
           strstr(why, "told to fail");
}

bool sickness_excuses(struct sickness *s, unsigned member, const char *why, bool while_starting)
{
    struct patient *p = &s->patients[member];

    if (p->wiped && strstr(why, "has already been bootstrapped")) {
        s->counts.refused_wiped++;
        return true;
    }
    if (!p->flipped && !(p->fails && tells_of_failure(why)))
        return false;
    s->counts.refused += while_starting;
    s->counts.gave_up += !while_starting;
    return true;
}
