/*
 * A run: the seed decides the climate, a thousand steps are taken, everything is brought to an end
 * and compared.
 */
#include "model/episode_int.h"

#include "base/map.h"
#include "base/mem.h"
#include "harness/seeds.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS_DEFAULT = 1000, COMPARE_EVERY = 50 };

void episode_broken(const struct episode *e, const char *rule, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "seed %" PRIu64 ", step %" PRIu64 ": %s broken: ", e->seed, e->step, rule);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void episode_say(const struct episode *e, const char *format, ...)
{
    va_list args;

    if (!e->verbose)
        return;
    printf("%6" PRIu64 "  rev %" PRId64 "  ", e->step, e->naive.revision);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void episode_trace(struct episode *e, uint64_t what)
{
    uint64_t both[2] = {e->trace, what};

    e->trace = map_hash(bytes_of(both, sizeof(both)), 1);
}

/* --- what chance decides ------------------------------------------------------------------ */

unsigned some_steps(struct episode *e)
{
    static const unsigned budgets[] = {1, 1, 2, 3, 7, 30, 1000};

    return budgets[pick(e, ARRAY_LEN(budgets))];
}

static struct bytes some_key(struct episode *e)
{
    return e->naive.keys[pick(e, e->naive.key_count)];
}

/* The end of all keys that begin so: the prefix with its last byte increased. */
static struct bytes prefix_end(struct episode *e, struct bytes prefix)
{
    uint8_t *end = arena_alloc(&e->arena, prefix.len);

    memcpy(end, prefix.at, prefix.len);
    for (size_t len = prefix.len; len > 0; len--)
        if (end[len - 1] < 0xff) {
            end[len - 1]++;
            return bytes_of(end, len);
        }
    return BYTES("\0");
}

void some_range(struct episode *e, struct bytes *key, struct bytes *end)
{
    *key = some_key(e);
    *end = (struct bytes){0};
    /* Where there are many keys, all of them at once is what matters. */
    switch (e->climate.many && chance(e, 1, 3) ? 2 : pick(e, 8)) {
    case 0:
        *end = some_key(e); /* perhaps nothing lies between them */
        break;
    case 1:
        *end = BYTES("\0");
        break;
    case 2:
        *key = BYTES("\0");
        *end = BYTES("\0");
        break;
    case 3:
        key->len = 1 + pick(e, key->len);
        *end = prefix_end(e, *key);
        break;
    default:
        break;
    }
}

/* Distinct keys in ascending order, of few letters, so that many are prefixes of others. */
static void make_keys(struct episode *e)
{
    unsigned wanted = e->climate.key_count, count = 0;
    struct bytes *keys = arena_new_array(&e->arena, wanted, struct bytes);

    while (count < wanted) {
        static const uint8_t letters[] = {0, 'a', 'b', 'c', 0xff};
        size_t len = 1 + pick(e, e->climate.many ? 10 : 4);
        uint8_t *at = arena_alloc(&e->arena, len);
        for (size_t i = 0; i < len; i++)
            at[i] = letters[pick(e, ARRAY_LEN(letters))];
        struct bytes key = bytes_of(at, len);
        unsigned low = 0, high = count;
        while (low < high) {
            unsigned middle = (low + high) / 2;
            if (bytes_compare(keys[middle], key) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < count && bytes_equal(keys[low], key))
            continue;
        memmove(&keys[low + 1], &keys[low], (count - low) * sizeof(*keys));
        keys[low] = key;
        count++;
    }
    naive_init(&e->naive, keys, count);
}

static void make_leases(struct episode *e)
{
    for (int i = 0; i < NAIVE_LEASES; i++) {
        uint64_t id = rng_next(&e->rng);
        e->naive.leases[i].id = id ? (int64_t)id : 1;
    }
}

static void choose_climate(struct episode *e, const struct episode_options *options)
{
    struct climate *c = &e->climate;

    c->lmdb = options->dir && chance(e, 1, 40);
    c->many = chance(e, 1, 12);
    c->key_count = 3 + (unsigned)pick(e, 30);
    /* Hundreds are enough for nodes that a range tombstone covers as a whole, and soon loaded. */
    if (c->many)
        c->key_count =
            chance(e, 1, 2) ? 300 + (unsigned)pick(e, 500) : 1500 + (unsigned)pick(e, 1500);
    c->value_bytes_max = chance(e, 1, 6) ? 3000 : 60;
    if (c->many)
        c->value_bytes_max = chance(e, 2, 3) ? 4000 : 200;
    c->checkpoint = chance(e, 1, 2);
    c->persist = chance(e, 1, 2);
    c->pending_bytes_max = chance(e, 1, 3) ? 4096 + pick(e, 60000) : 0;
    c->credit_bytes = 100 + pick(e, 8000);
    c->fragment_bytes = 100 + pick(e, 2000);
    c->crash_weight = (unsigned)pick(e, 8);
    c->read_weight = 1 + (unsigned)pick(e, 12);
    if (chance(e, 1, 2))
        c->range_tombstone_keys_min = 1 + (int64_t)pick(e, c->many ? c->key_count / 5 : 6);
}

/* --- steps -------------------------------------------------------------------------------- */

static void restart(struct episode *e)
{
    bool power = chance(e, 2, 3);

    episode_say(e, power ? "the power goes" : "restart");
    e->totals.restarts++;
    rooms_close(e, power);
    rooms_open(e);
}

static void write_some(struct episode *e)
{
    if (e->climate.many && chance(e, 1, 6))
        entries_propose_many(e);
    else
        entries_propose_write(e);
}

struct choice {
    unsigned weight;
    void (*step)(struct episode *e);
};

static void apply_some(struct episode *e)
{
    entries_apply_step(e, some_steps(e));
}

static void take_step(struct episode *e)
{
    const struct choice choices[] = {
        {14, write_some},
        {30, apply_some},
        {2, entries_propose_compaction},
        {10, rooms_compact_step},
        {6, rooms_settle_step},
        {8, rooms_commit_step},
        {14, readers_step},
        {e->climate.many ? 1 : 5, hashers_step},
        {10, clients_ask_step},
        {10, clients_take_step},
        {e->climate.read_weight, clients_read_step},
        {10, clients_work_step},
        {14, leaders_step},
    };
    unsigned total = 0;

    if (chance(e, e->climate.crash_weight, 1200)) {
        restart(e);
        return;
    }
    if (chance(e, 1, 500)) {
        rooms_replace_store(e);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(choices); i++)
        total += choices[i].weight;
    uint64_t drawn = pick(e, total);
    size_t i = 0;
    for (; drawn >= choices[i].weight; i++)
        drawn -= choices[i].weight;
    choices[i].step(e);
}

/* --- a run -------------------------------------------------------------------------------- */

static void commit_all(struct episode *e)
{
    for (int i = 0; i < 4 || e->job; i++)
        rooms_commit_step(e);
}

/* All that is under way comes to its end, and then everything is compared once more. */
static void finish(struct episode *e)
{
    e->climate.crash_weight = 0;
    readers_close(e);
    do
        commit_all(e);
    while (entries_apply_step(e, 1000));
    while (mvcc_is_settling(e->mvcc)) {
        commit_all(e);
        rooms_settle_step(e);
    }
    clients_finish(e);
    commit_all(e);
    while (!mvcc_compact_some(e->mvcc, 100) || mvcc_compact_pending(e->mvcc))
        commit_all(e);
    commit_all(e);
    rooms_compare(e);
    restart(e);
    clients_finish(e);
    rooms_check(e);
}

void episode_run(const struct episode_options *options, struct episode_result *out)
{
    struct episode *e = mem_new(struct episode);
    unsigned steps = options->steps ? options->steps : STEPS_DEFAULT;

    seeds_now_trying(options->seed);
    e->seed = options->seed;
    e->verbose = options->verbose;
    e->now_ms = 1000;
    e->through = -1;
    rng_seed(&e->rng, options->seed);
    choose_climate(e, options);
    make_keys(e);
    make_leases(e);
    clients_init(e);
    rooms_init(e, options);
    rooms_open(e);
    for (e->step = 1; e->step <= steps; e->step++) {
        take_step(e);
        clients_look(e);
        rooms_check(e);
        if (e->step % COMPARE_EVERY == 0)
            rooms_compare(e);
    }
    finish(e);
    rooms_close(e, false);
    clients_free(e);
    rooms_free(e);
    seeds_tried();

    e->totals.episodes = 1;
    e->totals.steps = steps;
    e->totals.revisions = (uint64_t)e->naive.revision;
    e->totals.on_lmdb = e->climate.lmdb;
    *out = (struct episode_result){.totals = e->totals, .trace = e->trace};
    naive_free(&e->naive);
    mem_free(e->log.entries);
    arena_free(&e->arena);
    mem_free(e);
}

void episode_totals_add(struct episode_totals *sum, const struct episode_totals *more)
{
    sum->episodes += more->episodes;
    sum->steps += more->steps;
    sum->revisions += more->revisions;
    sum->scans += more->scans;
    sum->hashes += more->hashes;
    sum->compactions += more->compactions;
    sum->settlings += more->settlings;
    sum->restarts += more->restarts;
    sum->replayed += more->replayed;
    sum->events += more->events;
    sum->resumed += more->resumed;
    sum->lagged += more->lagged;
    sum->fragments += more->fragments;
    sum->longs += more->longs;
    sum->progress += more->progress;
    sum->cut_off += more->cut_off;
    sum->kept += more->kept;
    sum->expired += more->expired;
    sum->on_lmdb += more->on_lmdb;
}
