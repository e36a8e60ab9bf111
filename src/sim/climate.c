#include "sim/climate.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/limits.h"

#include <inttypes.h>
#include <string.h>

enum {
    ELECTION_MS_MAX = 2000,
    LONG_RETENTION_MS = 55000, /* a storm, and ten seconds more */
};

static_assert(ELECTION_MS_MAX >= 5 * 300, "of any heartbeat interval");

static const char *const fault_names[SIM_FAULTS] = {
    [FAULT_CRASH] = "crash",         [FAULT_POWER] = "power",         [FAULT_CUT] = "cut",
    [FAULT_ONE_WAY] = "one-way",     [FAULT_CLOG] = "clog",           [FAULT_LOSS] = "loss",
    [FAULT_LATENCY] = "latency",     [FAULT_BANDWIDTH] = "bandwidth", [FAULT_RESET] = "reset",
    [FAULT_HALF_OPEN] = "half-open", [FAULT_REPEAT] = "repeat",       [FAULT_PAUSE] = "pause",
    [FAULT_DRIFT] = "drift",         [FAULT_JUMP] = "jump",           [FAULT_FILES] = "files",
    [FAULT_SLOW_DISK] = "slow-disk", [FAULT_HANG] = "hang",           [FAULT_EIO] = "eio",
    [FAULT_FLIP] = "flip",           [FAULT_WIPE] = "wipe",           [FAULT_FULL] = "full",
    [FAULT_MEMBERS] = "members",     [FAULT_AUTH] = "auth",           [FAULT_COLD] = "cold",
};

const char *sim_fault_name(enum sim_fault fault)
{
    return fault_names[fault];
}

enum sim_fault sim_fault_named(const char *name)
{
    enum sim_fault f = 0;

    while (f < SIM_FAULTS && strcmp(fault_names[f], name) != 0)
        f++;
    return f;
}

static uint64_t one_of(struct rng *rng, const uint64_t *values, size_t count)
{
    return values[rng_below(rng, count)];
}

#define ONE_OF(rng, ...)                                                                           \
    one_of((rng), (const uint64_t[]){__VA_ARGS__},                                                 \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void draw_clients(struct climate *c, struct rng *rng)
{
    c->writers = (unsigned)rng_between(rng, 1, 3);
    c->herders = rng_chance(rng, 1, 4);
    c->groups = rng_chance(rng, 1, 4);
    c->readers = rng_chance(rng, 1, 2);
    c->lessees = rng_chance(rng, 1, 3);
    c->pollers = rng_chance(rng, 1, 2) ? (unsigned)rng_between(rng, 1, 3) : 0;
    c->keepers = rng_chance(rng, 3, 4) ? (unsigned)rng_between(rng, 1, 3) : 0;
    c->watchers = (unsigned)rng_between(rng, 1, 3);
    c->pause_ms_max = rng_chance(rng, 1, 3) ? 400 : 40;
    c->has_herd = c->herders > 0 || rng_chance(rng, 1, 10); /* it writes a lot */
}

/* On half of the machines work takes no time; on the others a turn is over before all is done. */
static void draw_machine(struct climate *c, struct rng *rng)
{
    c->look_ns = rng_chance(rng, 1, 2) ? rng_between(rng, 1, 200000) : 0;
    c->segment_bytes = rng_chance(rng, 1, 2) ? rng_between(rng, 4 * KIB, 256 * KIB) : 0;
    c->range_tombstone_keys_min = (int64_t)rng_between(rng, 1, 6);
    c->settle_steps = (unsigned)rng_between(rng, 1, 3);
    c->crashes = (unsigned)rng_below(rng, 5);
    c->torn_founding = rng_chance(rng, 1, 4);
}

/*
 * A lease's ttl is at least one and a half election timeouts, when it is granted and again when it
 * is read from the store: that flag stays, or leases would change under their owners.
 */
static void draw_lasting_flags(struct climate *c, struct rng *rng)
{
    c->heartbeat_ms = ONE_OF(rng, 10, 50, 100, 100, 100, 300);
    c->election_ms = c->heartbeat_ms * rng_between(rng, 5, 20);
    if (c->election_ms > ELECTION_MS_MAX)
        c->election_ms = ELECTION_MS_MAX;
    c->quota_bytes = rng_chance(rng, 1, 8) ? rng_between(rng, 32 * KIB, 512 * KIB) : 0;
    c->notify_ms = ONE_OF(rng, 0, 100, 700, 3000);
    c->pre_vote = rng_chance(rng, 1, 2);
}

/* On half of the machines what passes between rpc and the rest is held back. */
static void draw_line(struct climate *c, struct rng *rng)
{
    c->line_delay_turns_max = rng_chance(rng, 1, 2) ? (unsigned)rng_between(rng, 1, 8) : 0;
}

/* Those that need no other machine. */
enum {
    OWN_FAULTS =
        1 << FAULT_CRASH | 1 << FAULT_POWER | 1 << FAULT_DRIFT | 1 << FAULT_JUMP | 1 << FAULT_FILES
};

/* One world in eight has none of them, one all. */
static void draw_faults(struct climate *c, struct rng *rng)
{
    uint64_t kind = rng_below(rng, 8);

    for (unsigned f = 0; f < FAULT_SLOW_DISK; f++) {
        bool on = rng_chance(rng, 1, 2);
        if (kind == 1 || (kind > 1 && on))
            c->faults |= 1u << f;
    }
    bool is_quiet = rng_chance(rng, 1, 2);
    if (c->members == 1 && is_quiet) /* what its own machine does to it is most of its trouble */
        c->faults &= OWN_FAULTS;
    c->weather_ms_max = ONE_OF(rng, 100, 300, 1000, 2000);
    c->wire_ns_max = ONE_OF(rng, 200000, 2000000, 2000000, 5000000);
}

void climate_draw(struct climate *c, struct rng *rng, unsigned members)
{
    *c = (struct climate){0};
    c->members = (unsigned)ONE_OF(rng, 1, 1, 1, 3, 3, 3, 3, 3, 5, 5, 2, 4, 7);
    if (members > 0)
        c->members = members;
    c->hosts = c->members;
    draw_clients(c, rng);
    draw_machine(c, rng);
    draw_lasting_flags(c, rng);
    draw_line(c, rng);
    draw_faults(c, rng);
    assert(c->members <= CLIMATE_MEMBERS_MAX);
}

void climate_draw_installs(struct climate *c, struct rng *rng)
{
    if (rng_chance(rng, 1, 2))
        c->install_turns = (unsigned)ONE_OF(rng, 3, 10, 30, 100, 300);
}

/* etcd keeps a log for half a minute for whoever was sent a snapshot, which is a whole run. */
void climate_draw_logs(struct climate *c, struct rng *rng)
{
    c->short_logs = rng_chance(rng, 1, 2);
    c->sending_log_ms = ONE_OF(rng, 1, 100, 1000, 5000);
}

/* What is lost for good needs others who have it. */
void climate_draw_disks(struct climate *c, struct rng *rng)
{
    bool is_sick = rng_chance(rng, 1, 2);

    for (unsigned f = FAULT_SLOW_DISK; f <= FAULT_FULL; f++) {
        bool on = rng_chance(rng, 1, 2);
        bool is_for_good = f == FAULT_FLIP || f == FAULT_WIPE;
        if (is_sick && on && (c->members >= 3 || !is_for_good))
            c->faults |= 1u << f;
    }
}

void climate_draw_operators(struct climate *c, struct rng *rng)
{
    c->operators = rng_chance(rng, 1, 2) ? (unsigned)rng_between(rng, 1, 2) : 0;
}

void climate_draw_members(struct climate *c, struct rng *rng, bool must)
{
    bool on = rng_chance(rng, 1, 3);
    unsigned more = (unsigned)rng_between(rng, 2, 6);
    bool is_lax = rng_chance(rng, 1, 3);

    if (!on && !must)
        return;
    c->lax_changes = is_lax;
    c->hosts = c->members + more < CLIMATE_HOSTS_MAX ? c->members + more : CLIMATE_HOSTS_MAX;
    c->faults |= 1u << FAULT_MEMBERS;
    c->faults &= ~(1u << FAULT_FLIP | 1u << FAULT_WIPE | 1u << FAULT_FILES);
}

void climate_draw_stewards(struct climate *c, struct rng *rng, unsigned stewards)
{
    enum {
        KEEPERS = 8,
        SYNC_MS_MAX = 1500, /* a leader that writes nothing for an election timeout hands over */
        KEPT = 1 << FAULT_MEMBERS | 1 << FAULT_DRIFT | 1 << FAULT_JUMP | 1 << FAULT_RESET |
               1 << FAULT_LATENCY
    };
    unsigned count = (unsigned)ONE_OF(rng, 1, 1, 2, 3);
    bool meet = rng_chance(rng, 1, 2);
    uint64_t sync_ms = rng_between(rng, 200, SYNC_MS_MAX);

    if (!climate_has(c, FAULT_MEMBERS))
        return;
    c->stewards = stewards > 0 ? stewards : count;
    if (!meet || c->stewards == 1 || c->members < 3)
        return;
    c->faults &= (uint32_t)KEPT;
    c->crashes = 0;
    c->torn_founding = false;
    c->herders = c->groups = c->readers = c->pollers = 0;
    c->has_herd = false;
    c->keepers = KEEPERS;
    c->late_renewals = true;
    c->election_ms = ELECTION_MS_MAX;
    c->sync_ms_max = sync_ms;
}

/* A token that is forgotten within a second is one that few calls are made with. */
void climate_draw_auth(struct climate *c, struct rng *rng, bool must)
{
    bool on = rng_chance(rng, 1, 3);
    unsigned pause_ms = (unsigned)ONE_OF(rng, 40, 300, 300, 1500);
    uint64_t ttl_s = ONE_OF(rng, 2, 300, 300, 300);

    if ((!on && !must) || climate_has(c, FAULT_MEMBERS))
        return;
    c->faults |= 1u << FAULT_AUTH;
    c->admin_pause_ms_max = pause_ms;
    c->token_ttl_s = ttl_s;
}

void climate_draw_standstills(struct climate *c, struct rng *rng)
{
    enum {
        LEAST_MS = 700,
        KEEPERS = 3,
        WEATHER_MS_MAX = 8000,
        KEPT = 1 << FAULT_PAUSE | 1 << FAULT_DRIFT | 1 << FAULT_JUMP | 1 << FAULT_AUTH
    };
    bool on = rng_chance(rng, 1, 2);

    if (!on || c->members < 3 || !climate_has(c, FAULT_PAUSE) || climate_has(c, FAULT_MEMBERS))
        return;
    c->faults &= (uint32_t)KEPT;
    c->crashes = 0;
    c->torn_founding = false;
    c->weather_ms_max = WEATHER_MS_MAX;
    c->standstill_ms = c->election_ms > LEAST_MS ? c->election_ms : LEAST_MS;
    c->keepers = KEEPERS;
}

/* Mostly one turn is enough for a whole compaction: then no batch of the store ever has a part of
 * it alone, and no crash comes in its midst. */
void climate_draw_compactions(struct climate *c, struct rng *rng)
{
    if (rng_chance(rng, 1, 2))
        c->compact_steps = (unsigned)ONE_OF(rng, 1, 3, 10, 40);
}

/* In bad weather the witness may be away until the storm ends, 45 seconds at most; the clock that a
 * leader compacts by may be a tenth faster. */
void climate_draw_retention(struct climate *c, struct rng *rng)
{
    bool is_on = rng_chance(rng, 1, 2);
    uint64_t short_ms = ONE_OF(rng, 2000, 4000, 8000);

    if (is_on && (c->faults & ~(uint32_t)OWN_FAULTS) == 0)
        c->retention_ms = short_ms;
    else if (is_on && !climate_has(c, FAULT_HALF_OPEN) && !climate_has(c, FAULT_AUTH))
        c->retention_ms = LONG_RETENTION_MS;
}

/* Events of a cold store come late. The witness connects again then, and may find no place while
 * another client holds all connections. */
void climate_chill(struct climate *c)
{
    c->faults |= 1u << FAULT_COLD;
    if (c->retention_ms > 0 && climate_has(c, FAULT_FILES))
        c->retention_ms = LONG_RETENTION_MS;
}

/* Nothing changes a store behind its member's back where members come and go: there whoever is
 * named is named wrongly, and writes are refused that must not be. */
void climate_draw_checks(struct climate *c, struct rng *rng)
{
    bool is_on = rng_chance(rng, 1, 2);

    c->checks_corruption = is_on && climate_has(c, FAULT_MEMBERS);
}

/* --- flags --- */

struct line {
    struct arena *arena;
    const char **at;
    size_t count;
};

static void add(struct line *l, const char *flag)
{
    assert(l->count < CLIMATE_FLAGS_MAX);
    l->at[l->count++] = flag;
}

static void add_number(struct line *l, const char *flag, uint64_t number, const char *unit)
{
    add(l, arena_printf(l->arena, "--%s=%" PRIu64 "%s", flag, number, unit));
}

/*
 * A restless member commits, cuts snapshots and releases its log all the time; a lazy one leaves
 * everything in the log, and has much to apply at once after a restart; others do some of each.
 */
static void add_pace(struct line *l, const struct climate *c, struct rng *rng)
{
    uint64_t pace = rng_below(rng, 3);
    uint64_t count = ONE_OF(rng, 1, 3, 20, 100, 400, 10000);
    uint64_t catch_up = ONE_OF(rng, 0, 1, 10, 100, 5000);
    uint64_t interval_ms = ONE_OF(rng, 1, 5, 100, 100, 1000, 20000);

    if (pace == 0) {
        count = 1 + count % 20;
        catch_up = 1;
        interval_ms = 1 + interval_ms % 5;
    } else if (pace == 1) {
        count = 10000;
        interval_ms = 20000;
    }
    if (c->hosts > 1 && count < 20)
        count = 20; /* each makes a file, and a busy cluster has tens of thousands of entries */
    if (c->hosts > 1 && !c->short_logs)
        count = catch_up = 1000000; /* nobody ever needs what its leader has released */
    add_number(l, "snapshot-count", count, "");
    add_number(l, "snapshot-catchup-entries", catch_up, "");
    add_number(l, "backend-batch-interval", interval_ms, "ms");
}

/* Where peer URLs change, a member listens at both of those that it may have. */
static void add_urls(struct line *l, const struct climate *c, unsigned member, const char *joins)
{
    struct buf all = {0};
    unsigned n = member + 1;

    for (unsigned i = 1; i <= c->members; i++)
        buf_printf(&all, "%sm%u=http://10.0.0.%u:2380", i == 1 ? "" : ",", i, i);
    add(l, arena_printf(l->arena, "--name=m%u", n));
    add(l, arena_printf(l->arena, "--data-dir=%s%u", c->data_dir ? c->data_dir : "/data", n));
    add(l, arena_printf(l->arena, "--listen-client-urls=http://10.0.0.%u:2379", n));
    add(l, arena_printf(l->arena, "--advertise-client-urls=http://10.0.0.%u:2379", n));
    if (climate_has(c, FAULT_MEMBERS))
        add(l,
            arena_printf(l->arena, "--listen-peer-urls=http://10.0.0.%u:2380,http://10.0.0.%u:2381",
                         n, n));
    else
        add(l, arena_printf(l->arena, "--listen-peer-urls=http://10.0.0.%u:2380", n));
    add(l, arena_printf(l->arena, "--initial-advertise-peer-urls=http://10.0.0.%u:2380", n));
    add(l, arena_printf(l->arena, "--initial-cluster=%s", joins ? joins : buf_str(&all)));
    if (joins)
        add(l, "--initial-cluster-state=existing");
    if (c->lax_changes)
        add(l, "--strict-reconfig-check=false");
    buf_free(&all);
}

size_t climate_flags(const struct climate *c, unsigned member, const char *joins, struct rng *rng,
                     struct arena *arena, const char *out[static CLIMATE_FLAGS_MAX])
{
    struct line l = {.arena = arena, .at = out};

    add_urls(&l, c, member, joins);
    add(&l, c->pre_vote ? "--pre-vote=true" : "--pre-vote=false");
    add_number(&l, "heartbeat-interval", c->heartbeat_ms, "");
    add_number(&l, "election-timeout", c->election_ms, "");
    add_number(&l, "quota-backend-bytes", c->quota_bytes, "");
    add_number(&l, "watch-progress-notify-interval", c->notify_ms, "ms");
    add_number(&l, "auto-compaction-retention", c->retention_ms, "ms");
    if (climate_has(c, FAULT_AUTH)) {
        add_number(&l, "bcrypt-cost", 4, ""); /* the least there is */
        add_number(&l, "auth-token-ttl", c->token_ttl_s, "");
    }
    if (c->checks_corruption) {
        add(&l, "--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true");
        add(&l, "--corrupt-check-time=700ms");
        add(&l, "--compact-hash-check-time=900ms");
    }
    add_pace(&l, c, rng);
    add_number(&l, "max-wals", rng_below(rng, 4), "");
    add_number(&l, "max-snapshots", rng_below(rng, 4), "");
    add_number(&l, "warning-apply-duration", ONE_OF(rng, 1, 100), "ms");
    return l.count;
}
