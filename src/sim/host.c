#include "sim/host.h"

#include "base/limits.h"

#include <stdio.h>

/* What a process has open that the fakes do not: its output, its loop, its page store. */
enum {
    OWN_FILES = 14,
    TURNS_UNTIL_COLD = 400, /* on average; then the store is cold for a second and more */
};

static int64_t log_time(void *context)
{
    struct sim_host *h = context;

    return (int64_t)clock_wall_ns(&h->clock.base);
}

static void configure(struct sim_host *h)
{
    const char *argv[1 + CLIMATE_FLAGS_MAX] = {"cleat"};
    const char *env[] = {NULL};
    struct buf why = {0};

    config_free(&h->config);
    arena_reset(&h->flags);
    size_t count = climate_flags(h->climate, h->number, h->joins, &h->rng, &h->flags, argv + 1);
    if (config_parse((int)count + 1, argv, env, &h->config, &why) != CONFIG_OK)
        fatal("the simulator's flags are wrong: %s", buf_str(&why));
    buf_free(&why);
}

/* It was busy, and now it is not: the next step sees that. */
static void wake(struct fake_task *t)
{
    (void)t;
}

/* Machines were started at different times, and some clocks are off. */
static void set_clock(struct sim_host *h)
{
    uint64_t started_s = rng_below(&h->rng, 100000);
    uint64_t off = rng_below(&h->rng, 2 * SIM_CLOCK_RATE_OFF_MAX + 1);

    h->clock_rate = FAKE_CLOCK_RATE;
    if (climate_has(h->climate, FAULT_DRIFT))
        h->clock_rate += off - SIM_CLOCK_RATE_OFF_MAX;
    h->clock.look_ns = h->climate->look_ns;
    fake_clock_restart(&h->clock, 1 + started_s * NS_PER_S);
    fake_clock_set_rate(&h->clock, h->clock_rate);
}

struct sim_host *sim_host_new(struct fake_time *time, struct fake_wire *wire, unsigned number,
                              const struct climate *climate, const struct logger *logger)
{
    struct sim_host *h = mem_new(struct sim_host);
    char ip[32];

    snprintf(ip, sizeof(ip), "10.0.0.%u", number + 1);
    h->number = number;
    h->time = time;
    h->wake.run = wake;
    inbox_init(&h->inbox, NULL, NULL);
    fake_clock_init(&h->clock, time, &h->inbox);
    fake_entropy_init(&h->entropy, rng_next(&time->rng));
    fake_workers_init(&h->workers, time, &h->inbox);
    fake_workers_init(&h->store_worker, time, &h->inbox);
    fake_resolver_init(&h->resolver, time, &h->inbox);
    h->disk = fake_disk_new(time, &h->inbox,
                            &(struct fake_disk_options){.delay = sim_host_disk_delay(climate),
                                                        .write_back_percent = 10,
                                                        .fds = &h->fds});
    uint64_t memory_seed = rng_next(&time->rng);
    h->memory = climate->data_dir ? NULL : memory_disk_new(memory_seed);
    h->io = (struct io){
        .inbox = &h->inbox,
        .clock = &h->clock.base,
        .entropy = &h->entropy.base,
        .disk = fake_disk_seam(h->disk),
        .net = fake_wire_add_host(wire, &h->inbox, ip),
        .resolver = &h->resolver.base,
        .workers = &h->workers.base,
        .store_worker = &h->store_worker.base,
        .store_readers = &h->workers.base,
    };
    if (!h->memory) {
        store_disk_open(&h->store_disk, h->io.disk);
        h->io.disk = &h->store_disk.base;
    }
    h->climate = climate;
    rng_seed(&h->rng, rng_next(&time->rng));
    if (climate_has(climate, FAULT_COLD))
        rng_seed(&h->cold_rng, rng_next(&time->rng));
    set_clock(h);
    fake_wire_limit(h->io.net, &h->fds);
    h->logger = *logger;
    h->logger.clock = log_time;
    h->logger.clock_context = h;
    return h;
}

void sim_host_limit_files(struct sim_host *h, unsigned max)
{
    assert(!h->server);
    assert(max > OWN_FILES);

    h->fds = (struct fake_fds){.max = max, .open = OWN_FILES};
    h->io.files_max = max;
}

void sim_host_free(struct sim_host *h)
{
    assert(!h->server);

    fake_wire_crash(h->io.net); /* requests that come twice have connections of their own */
    fake_time_cancel(h->time, &h->wake);
    config_free(&h->config);
    arena_free(&h->flags);
    if (!h->memory)
        store_disk_close(&h->store_disk);
    memory_disk_free(h->memory);
    fake_disk_free(h->disk);
    fake_clock_free(&h->clock);
    buf_free(&h->why);
    mem_free(h);
}

static void on_failed(void *context, const char *text)
{
    struct sim_host *h = context;

    h->failed = true;
    buf_clear(&h->why);
    buf_append_str(&h->why, text);
}

bool sim_host_start(struct sim_host *h)
{
    assert(!h->server);

    h->failed = false;
    buf_clear(&h->why);
    fake_wire_power_on(h->io.net);
    configure(h);
    struct server_options options = {.io = &h->io,
                                     .config = &h->config,
                                     .logger = &h->logger,
                                     .memory = h->memory,
                                     .range_tombstone_keys_min =
                                         h->climate->range_tombstone_keys_min,
                                     .settle_steps = h->climate->settle_steps,
                                     .compact_steps = h->climate->compact_steps,
                                     .segment_bytes = h->climate->segment_bytes,
                                     .sending_log_ms = h->climate->sending_log_ms,
                                     .line_delay_turns_max = h->climate->line_delay_turns_max,
                                     .on_failed = on_failed,
                                     .context = h};
    if (server_open(&options, &h->why, &h->server) == ERR_OK)
        return true;
    h->server = NULL;
    return false;
}

void sim_host_pause(struct sim_host *h, bool clock_stands)
{
    h->is_paused = true;
    if (clock_stands)
        fake_clock_set_rate(&h->clock, 0);
}

void sim_host_resume(struct sim_host *h)
{
    h->is_paused = false;
    fake_clock_set_rate(&h->clock, h->clock_rate);
}

bool sim_host_turn(struct sim_host *h)
{
    if (!h->server || h->failed || h->is_paused)
        return false;
    if (inbox_is_empty(&h->inbox) || fake_clock_is_busy(&h->clock))
        return false;
    uint64_t warmups = server_warmups(h->server);
    if (climate_has(h->climate, FAULT_COLD) && rng_below(&h->cold_rng, TURNS_UNTIL_COLD) == 0)
        server_store_is_cold(h->server);
    server_turn(h->server);
    h->warmups += server_warmups(h->server) - warmups;
    if (fake_clock_is_busy(&h->clock))
        fake_time_at(h->time, &h->wake, h->clock.busy_until_ns);
    return true;
}

/* Where a lone member's clients are always told, the witness knows when it has lost what was on its
 * way, and history may be cut above what it has seen (history_may_cut). */
static bool goes_silently(const struct sim_host *h)
{
    return h->climate->hosts > 1 || climate_has(h->climate, FAULT_HALF_OPEN);
}

/*
 * The page store's job is not forgotten but made to fail: its disk is dead, and the backend must
 * hear of the end to be closed. So what is in the inbox is run as well, which only means that the
 * end came a moment later. Everything else on the machine just stops.
 */
void sim_host_crash(struct sim_host *h, enum fake_crash how)
{
    if (h->memory)
        memory_disk_crash(h->memory);
    do
        fake_workers_finish(&h->store_worker);
    while (inbox_drain(&h->inbox, SIZE_MAX) > 0);
    fake_workers_crash(&h->workers);
    fake_resolver_crash(&h->resolver);
    fake_disk_crash(h->disk, how);
    if (how != FAKE_KILLED && goes_silently(h))
        fake_wire_power_off(h->io.net);
    else
        fake_wire_crash(h->io.net);
    sim_host_resume(h);
    fake_clock_crash(&h->clock);
    if (how != FAKE_KILLED)
        fake_clock_restart(&h->clock, 1);
    inbox_init(&h->inbox, NULL, NULL);
    server_abandon(h->server);
    h->server = NULL;
    h->failed = false;
    if (h->memory)
        memory_disk_restart(h->memory);
}

void sim_host_close(struct sim_host *h)
{
    server_close(h->server);
    h->server = NULL;
    sim_host_resume(h);
    while (inbox_drain(&h->inbox, SIZE_MAX) > 0)
        continue;
}

uint64_t sim_host_disk_calls(const struct sim_host *h)
{
    return fake_disk_calls(h->disk) + (h->memory ? memory_disk_calls(h->memory) : 0);
}
