#include "server/server_rig_test.h"

#include <stdlib.h>

#define CLIENT_URL "http://10.0.0.1:2379"
#define PEER_URL   "http://10.0.0.1:2380"

static void keep_line(void *context, struct bytes line)
{
    struct server_rig *r = context;

    buf_append(&r->logged, line);
}

void server_rig_set_flags(struct server_rig *r, const char *const *flags)
{
    static const char *const places[] = {"server",
                                         "--name",
                                         "m",
                                         "--data-dir",
                                         "/data",
                                         "--listen-client-urls",
                                         CLIENT_URL,
                                         "--advertise-client-urls",
                                         CLIENT_URL,
                                         "--listen-peer-urls",
                                         PEER_URL,
                                         "--initial-advertise-peer-urls",
                                         PEER_URL,
                                         "--initial-cluster",
                                         "m=http://10.0.0.1:2380"};
    const char *argv[64], *env[] = {NULL};
    size_t count = 0;
    struct buf why = {0};

    CHECK(!r->server);
    for (; count < ARRAY_LEN(places); count++)
        argv[count] = places[count];
    for (; flags && *flags; flags++) {
        CHECK(count < ARRAY_LEN(argv));
        argv[count++] = *flags;
    }
    config_free(&r->config);
    if (config_parse((int)count, argv, env, &r->config, &why) != CONFIG_OK)
        test_fail(__FILE__, __LINE__, "the rig's flags are wrong: %s", buf_str(&why));
    buf_free(&why);
}

static void free_world(struct server_rig *r)
{
    fake_clock_free(&r->client_clock);
    fake_world_free(r->world);
}

void server_rig_new_world(struct server_rig *r)
{
    CHECK(!r->server);
    if (r->world)
        free_world(r);
    r->world = fake_world_new(test_seed());
    inbox_init(&r->client_inbox, NULL, NULL);
    fake_clock_init(&r->client_clock, &r->world->time, &r->client_inbox);
    r->client_io =
        (struct io){.inbox = &r->client_inbox,
                    .clock = &r->client_clock.base,
                    .net = fake_wire_add_host(r->world->wire, &r->client_inbox, "10.0.0.2")};
}

void server_rig_open(struct server_rig *r, const char *const *flags)
{
    *r = (struct server_rig){.memory = memory_disk_new(test_seed())};
    r->logger = (struct logger){
        .level = LOG_INFO, .sink = keep_line, .sink_context = r, .clock = log_clock_none};
    server_rig_new_world(r);
    server_rig_set_flags(r, flags);
}

void server_rig_close(struct server_rig *r)
{
    if (r->server)
        server_rig_stop(r);
    config_free(&r->config);
    memory_disk_free(r->memory);
    free_world(r);
    buf_free(&r->logged);
    buf_free(&r->why);
}

/* --- beginning --- */

static void on_failed(void *context, const char *text)
{
    struct server_rig *r = context;

    r->failed = true;
    buf_clear(&r->why);
    buf_append_str(&r->why, text);
}

static void on_ready(void *context)
{
    ((struct server_rig *)context)->ready = true;
}

/* Nobody is up: what is under way comes to its end. */
static void settle(struct server_rig *r)
{
    while (inbox_drain(&r->client_inbox, SIZE_MAX) > 0 || fake_world_step(r->world))
        ;
}

enum err server_rig_try(struct server_rig *r)
{
    struct server_options options = {.io = fake_world_io(r->world),
                                     .config = &r->config,
                                     .logger = &r->logger,
                                     .memory = r->memory,
                                     .segment_bytes = r->segment_bytes,
                                     .on_failed = on_failed,
                                     .on_ready = on_ready,
                                     .context = r};

    CHECK(!r->server);
    r->failed = r->ready = false;
    buf_clear(&r->why);
    enum err e = server_open(&options, &r->why, &r->server);
    if (e != ERR_OK) {
        r->server = NULL;
        settle(r); /* listeners are gone only then */
    }
    return e;
}

void server_rig_start(struct server_rig *r)
{
    struct client_options options = {.io = &r->client_io};
    enum err e = server_rig_try(r);

    if (e != ERR_OK)
        test_fail(__FILE__, __LINE__, "it does not start: %s", buf_str(&r->why));
    while (!r->ready)
        server_rig_step(r);
    CHECK_EQ(net_address_parse("10.0.0.1:2379", &options.address), ERR_OK);
    r->client = client_open(&options);
    r->other = client_open(&options);
}

void server_rig_refused(struct server_rig *r, enum err e, const char *why)
{
    enum err got = server_rig_try(r);

    if (got != e)
        test_fail(__FILE__, __LINE__, "%s, not %s: %s", err_text(got), err_text(e),
                  buf_str(&r->why));
    CHECK_STR(buf_str(&r->why), why);
}

/* --- ending --- */

static void drop_clients(struct server_rig *r)
{
    if (!r->client)
        return; /* it was never ready */
    client_close(r->client);
    client_close(r->other);
    r->client = r->other = NULL;
}

void server_rig_stop(struct server_rig *r)
{
    drop_clients(r);
    server_stop(r->server);
    while (!server_has_stopped(r->server))
        server_rig_step(r);
    server_close(r->server);
    r->server = NULL;
    settle(r);
}

/* As the simulator does it: the page store's job fails, everything else just stops. */
void server_rig_crash(struct server_rig *r, enum fake_crash how)
{
    struct fake_world *w = r->world;

    drop_clients(r);
    memory_disk_crash(r->memory);
    do
        fake_workers_finish(&w->store_worker);
    while (inbox_drain(&w->inbox, SIZE_MAX) > 0);
    fake_workers_crash(&w->workers);
    fake_disk_crash(w->disk, how);
    fake_wire_crash(w->io.net);
    fake_clock_crash(&w->clock);
    inbox_init(&w->inbox, NULL, NULL);
    server_abandon(r->server);
    r->server = NULL;
    memory_disk_restart(r->memory);
    settle(r);
}

/* --- working --- */

static void hear_clients(struct server_rig *r)
{
    if (!r->client)
        return;
    visit_hear(r->client);
    visit_hear(r->other);
}

void server_rig_step(struct server_rig *r)
{
    struct fake_world *w = r->world;

    if (r->failed)
        test_fail(__FILE__, __LINE__, "it gave up: %s", buf_str(&r->why));
    if (!inbox_is_empty(&w->inbox)) {
        server_turn(r->server);
        if (!r->failed)
            server_check(r->server);
    } else if (inbox_drain(&r->client_inbox, SIZE_MAX) > 0) {
        hear_clients(r);
    } else {
        CHECK(fake_time_step(&w->time)); /* or nothing will ever happen again */
    }
}

uint64_t server_rig_now_ms(struct server_rig *r)
{
    return clock_now_ns(fake_world_io(r->world)->clock) / NS_PER_MS;
}

void server_rig_for_ms(struct server_rig *r, uint64_t ms)
{
    uint64_t until_ms = server_rig_now_ms(r) + ms;

    while (server_rig_now_ms(r) < until_ms)
        server_rig_step(r); /* the tick makes time pass */
}

void server_rig_ask(struct client *c, struct visit *v, const char *path,
                    const struct pb_schema *schema, const void *message)
{
    struct buf wire = {0};

    *v = (struct visit){0};
    pb_encode(schema, message, &wire);
    v->call = client_ask(c, &(struct client_request){.path = path, .context = v}, buf_bytes(&wire));
    client_flush(c);
    buf_free(&wire);
}

void server_rig_until_over(struct server_rig *r, struct visit *v)
{
    while (!v->is_over)
        server_rig_step(r);
}

void server_rig_put(struct server_rig *r, const char *key, const char *value)
{
    struct visit v;
    struct pb_put_request put = {.key = bytes_of_str(key), .value = bytes_of_str(value)};

    server_rig_ask(r->client, &v, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
    server_rig_until_over(r, &v);
    CHECK_STR(buf_str(&v.text), "");
    CHECK_EQ(v.code, RPC_OK);
    visit_free(&v);
}

bool server_rig_logged(const struct server_rig *r, const char *text)
{
    return r->logged.len > 0 && memmem(r->logged.at, r->logged.len, text, strlen(text)) != NULL;
}

bool server_rig_why(const struct server_rig *r, const char *text)
{
    return r->why.len > 0 && memmem(r->why.at, r->why.len, text, strlen(text)) != NULL;
}
