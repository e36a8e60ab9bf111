#include "sim/climate.h"

#include "base/assert.h"
#include "base/limits.h"

#include <inttypes.h>

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
    c->torn_founding = rng_chance(rng, 1, 6);
}

/*
 * A lease's ttl is at least one and a half election timeouts, when it is granted and again when it
 * is read from the store: that flag stays, or leases would change under their owners.
 */
static void draw_lasting_flags(struct climate *c, struct rng *rng)
{
    c->heartbeat_ms = ONE_OF(rng, 10, 50, 100, 100, 100, 300);
    c->election_ms = c->heartbeat_ms * rng_between(rng, 5, 20);
    if (c->election_ms > 2000)
        c->election_ms = 2000;
    c->quota_bytes = rng_chance(rng, 1, 8) ? rng_between(rng, 32 * KIB, 512 * KIB) : 0;
    c->notify_ms = ONE_OF(rng, 0, 100, 700, 3000);
    c->pre_vote = rng_chance(rng, 1, 2);
}

/* On half of the machines what passes between rpc and the rest is held back. */
static void draw_line(struct climate *c, struct rng *rng)
{
    c->line_delay_turns_max = rng_chance(rng, 1, 2) ? (unsigned)rng_between(rng, 1, 8) : 0;
}

void climate_draw(struct climate *c, struct rng *rng)
{
    *c = (struct climate){0};
    draw_clients(c, rng);
    draw_machine(c, rng);
    draw_lasting_flags(c, rng);
    draw_line(c, rng);
}

void climate_draw_installs(struct climate *c, struct rng *rng)
{
    if (rng_chance(rng, 1, 3))
        c->install_turns = (unsigned)ONE_OF(rng, 3, 10, 30, 100, 300);
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
static void add_pace(struct line *l, struct rng *rng)
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
    add_number(l, "snapshot-count", count, "");
    add_number(l, "snapshot-catchup-entries", catch_up, "");
    add_number(l, "backend-batch-interval", interval_ms, "ms");
}

size_t climate_flags(const struct climate *c, struct rng *rng, struct arena *arena,
                     const char *out[static CLIMATE_FLAGS_MAX])
{
    struct line l = {.arena = arena, .at = out};

    add(&l, "--name=m");
    add(&l, "--data-dir=/data");
    add(&l, "--listen-client-urls=http://10.0.0.1:2379");
    add(&l, "--advertise-client-urls=http://10.0.0.1:2379");
    add(&l, "--listen-peer-urls=http://10.0.0.1:2380");
    add(&l, "--initial-advertise-peer-urls=http://10.0.0.1:2380");
    add(&l, "--initial-cluster=m=http://10.0.0.1:2380");
    add(&l, c->pre_vote ? "--pre-vote=true" : "--pre-vote=false");
    add_number(&l, "heartbeat-interval", c->heartbeat_ms, "");
    add_number(&l, "election-timeout", c->election_ms, "");
    add_number(&l, "quota-backend-bytes", c->quota_bytes, "");
    add_number(&l, "watch-progress-notify-interval", c->notify_ms, "ms");
    add_pace(&l, rng);
    add_number(&l, "max-wals", rng_below(rng, 4), "");
    add_number(&l, "max-snapshots", rng_below(rng, 4), "");
    add_number(&l, "warning-apply-duration", ONE_OF(rng, 1, 100), "ms");
    return l.count;
}
