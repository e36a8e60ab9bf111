#include "sim/host.h"

#include "base/limits.h"

/* What a process has open that the fakes do not: its output, its loop, its page store. */
enum { OWN_FILES = 14 };

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
    size_t count = climate_flags(h->climate, 0, &h->rng, &h->flags, argv + 1);
    if (config_parse((int)count + 1, argv, env, &h->config, &why) != CONFIG_OK)
        fatal("the simulator's flags are wrong: %s", buf_str(&why));
    buf_free(&why);
}

/* It was busy, and now it is not: the next step sees that. */
static void wake(struct fake_task *t)
{
    (void)t;
}

struct sim_host *sim_host_new(struct fake_time *time, struct fake_wire *wire, const char *ip,
                              const struct climate *climate, const struct logger *logger)
{
    static const struct fake_delay disk_delay = {.min_ns = 20000, .max_ns = 3 * NS_PER_MS};
    struct sim_host *h = mem_new(struct sim_host);

    h->time = time;
    h->wake.run = wake;
    inbox_init(&h->inbox, NULL, NULL);
    fake_clock_init(&h->clock, time, &h->inbox);
    fake_entropy_init(&h->entropy, rng_next(&time->rng));
    fake_workers_init(&h->workers, time, &h->inbox);
    fake_workers_init(&h->store_worker, time, &h->inbox);
    fake_resolver_init(&h->resolver, time, &h->inbox);
    h->disk = fake_disk_new(
        time, &h->inbox,
        &(struct fake_disk_options){.delay = disk_delay, .write_back_percent = 10, .fds = &h->fds});
    h->memory = memory_disk_new(rng_next(&time->rng));
    h->io = (struct io){
        .inbox = &h->inbox,
        .clock = &h->clock.base,
        .entropy = &h->entropy.base,
        .disk = fake_disk_seam(h->disk),
        .net = fake_wire_add_host(wire, &h->inbox, ip),
        .resolver = &h->resolver.base,
        .workers = &h->workers.base,
        .store_worker = &h->store_worker.base,
    };
    h->climate = climate;
    rng_seed(&h->rng, rng_next(&time->rng));
    h->clock.look_ns = climate->look_ns;
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

    fake_time_cancel(h->time, &h->wake);
    config_free(&h->config);
    arena_free(&h->flags);
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
    configure(h);
    struct server_options options = {.io = &h->io,
                                     .config = &h->config,
                                     .logger = &h->logger,
                                     .memory = h->memory,
                                     .range_tombstone_keys_min =
                                         h->climate->range_tombstone_keys_min,
                                     .settle_steps = h->climate->settle_steps,
                                     .segment_bytes = h->climate->segment_bytes,
                                     .line_delay_turns_max = h->climate->line_delay_turns_max,
                                     .on_failed = on_failed,
                                     .context = h};
    if (server_open(&options, &h->why, &h->server) == ERR_OK)
        return true;
    h->server = NULL;
    return false;
}

bool sim_host_turn(struct sim_host *h)
{
    if (!h->server || h->failed || inbox_is_empty(&h->inbox) || fake_clock_is_busy(&h->clock))
        return false;
    server_turn(h->server);
    if (fake_clock_is_busy(&h->clock))
        fake_time_at(h->time, &h->wake, h->clock.busy_until_ns);
    return true;
}

/*
 * The page store's job is not forgotten but made to fail: its disk is dead, and the backend must
 * hear of the end to be closed. So what is in the inbox is run as well, which only means that the
 * end came a moment later. Everything else on the machine just stops.
 */
void sim_host_crash(struct sim_host *h, enum fake_crash how)
{
    memory_disk_crash(h->memory);
    do
        fake_workers_finish(&h->store_worker);
    while (inbox_drain(&h->inbox, SIZE_MAX) > 0);
    fake_workers_crash(&h->workers);
    fake_disk_crash(h->disk, how);
    fake_wire_crash(h->io.net);
    fake_clock_crash(&h->clock);
    inbox_init(&h->inbox, NULL, NULL);
    server_abandon(h->server);
    h->server = NULL;
    h->failed = false;
    memory_disk_restart(h->memory);
}

uint64_t sim_host_disk_calls(const struct sim_host *h)
{
    return fake_disk_calls(h->disk) + memory_disk_calls(h->memory);
}
