#include "server/cluster_rig_test.h"

#include <stdio.h>
#include <stdlib.h>

static void keep_line(void *context, struct bytes line)
{
    struct cluster_rig_host *h = context;

    buf_append(&h->logged, line);
    if (getenv("CLUSTER_RIG_LOG"))
        fprintf(stderr, "%u %.*s", h->number, (int)line.len, (const char *)line.at);
}

static void on_failed(void *context, const char *text)
{
    struct cluster_rig_host *h = context;

    h->failed = true;
    buf_clear(&h->why);
    buf_append_str(&h->why, text);
}

static void on_ready(void *context)
{
    ((struct cluster_rig_host *)context)->ready = true;
}

/* --- machines --- */

static const char *initial_cluster(const struct cluster_rig *r, struct arena *arena)
{
    struct buf text = {0};

    for (unsigned n = 1; n <= r->count; n++)
        if (!r->at[n] || !r->at[n]->is_out)
            buf_printf(&text, "%sm%u=http://10.0.0.%u:2380", text.len > 0 ? "," : "", n, n);
    const char *kept = arena_copy_str(arena, buf_bytes(&text));
    buf_free(&text);
    return kept;
}

void cluster_rig_set_flags(struct cluster_rig *r, unsigned n, const char *const *flags)
{
    struct cluster_rig_host *h = r->at[n];
    struct arena *a = &h->flags;
    const char *argv[64] = {"server",
                            "--name",
                            arena_printf(a, "m%u", n),
                            "--data-dir",
                            "/data",
                            "--listen-client-urls",
                            arena_printf(a, "http://10.0.0.%u:2379", n),
                            "--advertise-client-urls",
                            arena_printf(a, "http://10.0.0.%u:2379", n),
                            "--listen-peer-urls",
                            arena_printf(a, "http://10.0.0.%u:2380", n),
                            "--initial-advertise-peer-urls",
                            arena_printf(a, "http://10.0.0.%u:2380", n),
                            "--initial-cluster",
                            initial_cluster(r, a)};
    const char *env[] = {NULL};
    size_t count = 15;
    struct buf why = {0};

    CHECK(!h->server);
    for (; flags && *flags; flags++)
        argv[count++] = *flags;
    config_free(&h->config);
    if (config_parse((int)count, argv, env, &h->config, &why) != CONFIG_OK)
        test_fail(__FILE__, __LINE__, "the rig's flags are wrong: %s", buf_str(&why));
    buf_free(&why);
}

static void open_disks(struct cluster_rig *r, struct cluster_rig_host *h)
{
    static const struct fake_delay delay = {.min_ns = 20000, .max_ns = 2 * NS_PER_MS};

    h->disk = fake_disk_new(
        &r->time, &h->inbox,
        &(struct fake_disk_options){.delay = delay, .write_back_percent = 10, .fds = &h->fds});
    h->memory = memory_disk_new(rng_next(&r->time.rng));
    h->io.disk = fake_disk_seam(h->disk);
}

static void close_disks(struct cluster_rig_host *h)
{
    memory_disk_free(h->memory);
    fake_disk_free(h->disk);
}

static struct cluster_rig_host *host_new(struct cluster_rig *r, unsigned n)
{
    struct cluster_rig_host *h = mem_new(struct cluster_rig_host);
    char ip[16];

    snprintf(ip, sizeof(ip), "10.0.0.%u", n);
    h->rig = r;
    h->number = n;
    inbox_init(&h->inbox, NULL, NULL);
    fake_clock_init(&h->clock, &r->time, &h->inbox);
    fake_entropy_init(&h->entropy, rng_next(&r->time.rng));
    fake_workers_init(&h->workers, &r->time, &h->inbox);
    fake_workers_init(&h->store_worker, &r->time, &h->inbox);
    fake_resolver_init(&h->resolver, &r->time, &h->inbox);
    h->io = (struct io){.inbox = &h->inbox,
                        .clock = &h->clock.base,
                        .entropy = &h->entropy.base,
                        .net = fake_wire_add_host(r->wire, &h->inbox, ip),
                        .resolver = &h->resolver.base,
                        .workers = &h->workers.base,
                        .store_worker = &h->store_worker.base,
                        .store_readers = &h->workers.base};
    open_disks(r, h);
    h->logger = (struct logger){
        .level = LOG_INFO, .sink = keep_line, .sink_context = h, .clock = log_clock_none};
    return h;
}

void cluster_rig_open(struct cluster_rig *r, unsigned members, const char *const *flags)
{
    cluster_rig_open_seeded(r, members, flags, test_seed());
}

static void beat(struct timer *t)
{
    struct cluster_rig *r = container_of(t, struct cluster_rig, heart);

    timer_start(&r->client_clock.base, t, 100 * NS_PER_MS);
}

void cluster_rig_open_seeded(struct cluster_rig *r, unsigned members, const char *const *flags,
                             uint64_t seed)
{
    static const struct fake_delay delay = {.min_ns = 100000, .max_ns = 2 * NS_PER_MS};

    CHECK(members <= CLUSTER_RIG_MAX);
    *r = (struct cluster_rig){.count = members};
    fake_time_init(&r->time, seed);
    r->wire = fake_wire_new(&r->time, &(struct fake_wire_options){.delay = delay});
    inbox_init(&r->client_inbox, NULL, NULL);
    fake_clock_init(&r->client_clock, &r->time, &r->client_inbox);
    r->client_io = (struct io){.inbox = &r->client_inbox,
                               .clock = &r->client_clock.base,
                               .net = fake_wire_add_host(r->wire, &r->client_inbox, "10.0.1.1")};
    r->heart.on_time = beat;
    beat(&r->heart);
    for (unsigned n = 1; n <= members; n++) {
        r->at[n] = host_new(r, n);
        cluster_rig_set_flags(r, n, flags);
    }
}

unsigned cluster_rig_add_host(struct cluster_rig *r, const char *const *flags)
{
    unsigned n = ++r->count;
    const char *all[32] = {"--initial-cluster-state", "existing"};
    size_t count = 2;

    CHECK(n <= CLUSTER_RIG_MAX);
    for (; flags && *flags; flags++)
        all[count++] = *flags;
    r->at[n] = host_new(r, n);
    cluster_rig_set_flags(r, n, all);
    return n;
}

static void host_free(struct cluster_rig_host *h)
{
    config_free(&h->config);
    arena_free(&h->flags);
    close_disks(h);
    fake_clock_free(&h->clock);
    buf_free(&h->logged);
    buf_free(&h->why);
    mem_free(h);
}

/* Nobody is up: what is under way comes to its end. */
static void settle(struct cluster_rig *r)
{
    bool more = true;

    while (more) {
        more = inbox_drain(&r->client_inbox, SIZE_MAX) > 0;
        for (unsigned n = 1; n <= r->count; n++)
            more = inbox_drain(&r->at[n]->inbox, SIZE_MAX) > 0 || more;
        more = more || fake_time_step(&r->time);
    }
}

void cluster_rig_close(struct cluster_rig *r)
{
    for (unsigned n = 1; n <= r->count; n++)
        if (r->at[n]->server)
            cluster_rig_stop(r, n);
    timer_stop(&r->client_clock.base, &r->heart);
    settle(r);
    fake_wire_free(r->wire);
    for (unsigned n = 1; n <= r->count; n++)
        host_free(r->at[n]);
    fake_clock_free(&r->client_clock);
    fake_time_free(&r->time);
}

/* --- members --- */

struct client *cluster_rig_new_client(struct cluster_rig *r, unsigned n)
{
    struct client_options client = {.io = &r->client_io};
    char address[32];

    snprintf(address, sizeof(address), "10.0.0.%u:2379", n);
    CHECK_EQ(net_address_parse(address, &client.address), ERR_OK);
    return client_open(&client);
}

enum err cluster_rig_try_start(struct cluster_rig *r, unsigned n)
{
    struct cluster_rig_host *h = r->at[n];
    struct server_options options = {.io = &h->io,
                                     .config = &h->config,
                                     .logger = &h->logger,
                                     .memory = h->memory,
                                     .segment_bytes = r->segment_bytes,
                                     .on_failed = on_failed,
                                     .on_ready = on_ready,
                                     .context = h};

    CHECK(!h->server);
    h->failed = h->ready = h->is_paused = false;
    buf_clear(&h->why);
    enum err e = server_open(&options, &h->why, &h->server);
    if (e != ERR_OK)
        return e;
    h->client = cluster_rig_new_client(h->rig, h->number);
    return ERR_OK;
}

void cluster_rig_start(struct cluster_rig *r, unsigned n)
{
    if (cluster_rig_try_start(r, n) != ERR_OK)
        test_fail(__FILE__, __LINE__, "m%u does not start: %s", n, buf_str(&r->at[n]->why));
}

void cluster_rig_until_ready(struct cluster_rig *r, unsigned n)
{
    while (!r->at[n]->ready)
        cluster_rig_step(r);
}

void cluster_rig_start_all(struct cluster_rig *r)
{
    for (unsigned n = 1; n <= r->count; n++)
        cluster_rig_start(r, n);
    for (unsigned n = 1; n <= r->count; n++)
        cluster_rig_until_ready(r, n);
}

static void drop_client(struct cluster_rig_host *h)
{
    if (h->client) /* or a test has closed it already */
        client_close(h->client);
    h->client = NULL;
}

void cluster_rig_stop(struct cluster_rig *r, unsigned n)
{
    struct cluster_rig_host *h = r->at[n];

    h->is_paused = false;
    drop_client(h);
    server_stop(h->server);
    cluster_rig_until_stopped(r, n);
}

void cluster_rig_expel(struct cluster_rig *r, unsigned n)
{
    r->at[n]->is_out = true;
    drop_client(r->at[n]);
}

void cluster_rig_readmit(struct cluster_rig *r, unsigned n)
{
    r->at[n]->is_out = false;
    if (r->at[n]->server)
        r->at[n]->client = cluster_rig_new_client(r, n);
}

void cluster_rig_until_stopped(struct cluster_rig *r, unsigned n)
{
    struct cluster_rig_host *h = r->at[n];

    while (!server_has_stopped(h->server))
        cluster_rig_step(r);
    server_close(h->server);
    h->server = NULL;
    while (inbox_drain(&h->inbox, SIZE_MAX) > 0)
        continue;
}

/* As the simulator does it: the page store's job fails, everything else just stops. */
void cluster_rig_crash(struct cluster_rig *r, unsigned n)
{
    struct cluster_rig_host *h = r->at[n];

    drop_client(h);
    memory_disk_crash(h->memory);
    do
        fake_workers_finish(&h->store_worker);
    while (inbox_drain(&h->inbox, SIZE_MAX) > 0);
    fake_workers_crash(&h->workers);
    fake_disk_crash(h->disk, FAKE_TORN);
    fake_wire_crash(h->io.net);
    fake_clock_crash(&h->clock);
    fake_resolver_crash(&h->resolver);
    inbox_init(&h->inbox, NULL, NULL);
    server_abandon(h->server);
    h->server = NULL;
    h->failed = h->ready = h->is_paused = false;
    memory_disk_restart(h->memory);
}

void cluster_rig_lose_disks(struct cluster_rig *r, unsigned n)
{
    if (r->at[n]->server)
        cluster_rig_crash(r, n);
    close_disks(r->at[n]);
    open_disks(r, r->at[n]);
}

void cluster_rig_cut(struct cluster_rig *r, unsigned n, bool cut)
{
    fake_wire_cut(r->at[n]->io.net, cut);
}

void cluster_rig_pause(struct cluster_rig *r, unsigned n, bool pause)
{
    r->at[n]->is_paused = pause;
}

void cluster_rig_freeze(struct cluster_rig *r, unsigned n, bool freeze)
{
    cluster_rig_pause(r, n, freeze);
    fake_clock_set_rate(&r->at[n]->clock, freeze ? 0 : FAKE_CLOCK_RATE);
}

/* --- working --- */

static bool turn(struct cluster_rig_host *h)
{
    if (!h->server || h->failed || h->is_paused || inbox_is_empty(&h->inbox))
        return false;
    server_turn(h->server);
    if (h->failed && h->may_fail)
        return true;
    if (h->failed)
        test_fail(__FILE__, __LINE__, "m%u gave up: %s", h->number, buf_str(&h->why));
    server_check(h->server);
    return true;
}

static bool hear_clients(struct cluster_rig *r)
{
    if (inbox_drain(&r->client_inbox, SIZE_MAX) == 0)
        return false;
    for (unsigned n = 1; n <= r->count; n++)
        if (r->at[n]->client)
            visit_hear(r->at[n]->client);
    return true;
}

void cluster_rig_step(struct cluster_rig *r)
{
    bool any = hear_clients(r);

    for (unsigned n = 1; n <= r->count; n++)
        any = turn(r->at[n]) || any;
    if (!any)
        CHECK(fake_time_step(&r->time)); /* or nothing will ever happen again */
}

uint64_t cluster_rig_now_ms(struct cluster_rig *r)
{
    return clock_now_ns(&r->client_clock.base) / NS_PER_MS;
}

void cluster_rig_for_ms(struct cluster_rig *r, uint64_t ms)
{
    uint64_t until_ms = cluster_rig_now_ms(r) + ms;

    while (cluster_rig_now_ms(r) < until_ms)
        cluster_rig_step(r);
}

static unsigned number_of(const struct cluster_rig *r, uint64_t id)
{
    for (unsigned n = 1; n <= r->count; n++)
        if (r->at[n]->server && server_status(r->at[n]->server).member_id == id)
            return n;
    return 0;
}

static bool is_listened_to(const struct cluster_rig_host *h)
{
    return h->server && !h->is_paused && !h->is_out;
}

static unsigned count_members(const struct cluster_rig *r)
{
    unsigned count = 0;

    for (unsigned n = 1; n <= r->count; n++)
        count += !r->at[n]->is_out;
    return count;
}

/* The leader that most of all members believe in, itself among them; 0: none. */
static unsigned find_leader(const struct cluster_rig *r)
{
    for (unsigned n = 1; n <= r->count; n++) {
        struct cluster_rig_host *h = r->at[n];
        size_t count = 0;
        if (!is_listened_to(h))
            continue;
        uint64_t leader = server_status(h->server).leader;
        for (unsigned other = 1; other <= r->count && leader != 0; other++)
            count += is_listened_to(r->at[other]) &&
                     server_status(r->at[other]->server).leader == leader;
        unsigned number = count > count_members(r) / 2 ? number_of(r, leader) : 0;
        if (number != 0 && !r->at[number]->is_paused)
            return number;
    }
    return 0;
}

unsigned cluster_rig_leader(struct cluster_rig *r)
{
    unsigned leader;

    while ((leader = find_leader(r)) == 0)
        cluster_rig_step(r);
    return leader;
}

unsigned cluster_rig_follower(struct cluster_rig *r)
{
    unsigned leader = cluster_rig_leader(r);

    for (unsigned n = 1; n <= r->count; n++)
        if (n != leader && is_listened_to(r->at[n]))
            return n;
    test_fail(__FILE__, __LINE__, "nobody follows");
}

void cluster_rig_until_equal(struct cluster_rig *r, unsigned n)
{
    uint64_t applied = server_status(r->at[n]->server).applied;

    for (unsigned other = 1; other <= r->count; other++)
        while (is_listened_to(r->at[other]) &&
               server_status(r->at[other]->server).applied < applied)
            cluster_rig_step(r);
}

void cluster_rig_ask(struct cluster_rig *r, unsigned n, struct visit *v, const char *path,
                     const struct pb_schema *schema, const void *message)
{
    struct buf wire = {0};
    struct client *c = r->at[n]->client;

    *v = (struct visit){0};
    pb_encode(schema, message, &wire);
    v->call = client_ask(c, &(struct client_request){.path = path, .context = v}, buf_bytes(&wire));
    client_flush(c);
    buf_free(&wire);
}

void cluster_rig_until_over(struct cluster_rig *r, struct visit *v)
{
    while (!v->is_over)
        cluster_rig_step(r);
}

void cluster_rig_put(struct cluster_rig *r, unsigned n, const char *key, const char *value)
{
    struct visit v;

    cluster_rig_ask(
        r, n, &v, "/etcdserverpb.KV/Put", &pb_put_request_schema,
        &(struct pb_put_request){.key = bytes_of_str(key), .value = bytes_of_str(value)});
    cluster_rig_until_over(r, &v);
    CHECK_STR(buf_str(&v.text), "");
    CHECK_EQ(v.code, RPC_OK);
    visit_free(&v);
}

const char *cluster_rig_get(struct cluster_rig *r, unsigned n, const char *key, bool serializable)
{
    static char value[256];
    struct visit v;
    struct arena arena = {0};
    struct pb_range_response response;

    cluster_rig_ask(
        r, n, &v, "/etcdserverpb.KV/Range", &pb_range_request_schema,
        &(struct pb_range_request){.key = bytes_of_str(key), .serializable = serializable});
    cluster_rig_until_over(r, &v);
    CHECK_STR(buf_str(&v.text), "");
    CHECK_EQ(v.message_count, 1);
    CHECK_EQ(pb_decode(&pb_range_response_schema, buf_bytes(&v.messages[0]), &arena, &response),
             ERR_OK);
    snprintf(value, sizeof(value), "%.*s",
             response.kvs.count > 0 ? (int)response.kvs.at[0].value.len : 0,
             response.kvs.count > 0 ? (const char *)response.kvs.at[0].value.at : "");
    arena_free(&arena);
    visit_free(&v);
    return value;
}

bool cluster_rig_logged(const struct cluster_rig *r, unsigned n, const char *text)
{
    const struct buf *l = &r->at[n]->logged;

    return l->len > 0 && memmem(l->at, l->len, text, strlen(text)) != NULL;
}
