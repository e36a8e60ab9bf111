#include "sim/actor_int.h"

enum { AWAY_MS_MAX = 400 /* before connecting again */ };

#define CALL_TIMEOUT_NS (9 * NS_PER_S)

static void on_time(struct timer *t)
{
    container_of(t, struct actor, timer)->timer_due = true;
}

static void on_limit(struct timer *t)
{
    container_of(t, struct actor, limit)->limit_due = true;
}

/* Does it wait for whoever stands still? */
static bool is_patient(const struct actor *a)
{
    return a->o.kind == ACTOR_KEEPER && a->o.standstill_ms > 0;
}

void actor_limit(struct actor *a)
{
    uint64_t min = LIMIT_MS_MIN, max = LIMIT_MS_MAX;

    if (is_patient(a) && a->is_open) {
        min = 4 * a->o.standstill_ms;
        max = 8 * a->o.standstill_ms;
    }
    a->limit_due = false;
    timer_start(a->o.io->clock, &a->limit, rng_between(&a->rng, min, max) * NS_PER_MS);
}

struct client_request actor_request(struct actor *a, const char *path)
{
    static const struct client_field require = {"hasleader", {(const uint8_t *)"true", 4}};
    size_t count = a->requires_leader;

    a->fields[0] = require;
    count += login_fields(a, &a->fields[count]);
    return (struct client_request){.path = path, .metadata = a->fields, .metadata_count = count};
}

/* Any but this one, if there is another. */
static void choose_endpoint(struct actor *a)
{
    bool looks = rng_chance(&a->rng, 1, 4);
    size_t first = a->server + 1 + rng_below(&a->rng, a->o.server_count);

    if ((a->follows || looks || a->winding_down) && *a->o.endpoints != 0)
        a->endpoints = *a->o.endpoints;
    for (size_t i = 0; i < a->o.server_count; i++) {
        size_t server = (first + i) % a->o.server_count;
        if ((a->endpoints >> server & 1) != 0 && server != a->server) {
            a->server = server;
            return;
        }
    }
}

static void choose_server(struct actor *a)
{
    size_t others = a->o.server_count - 1;

    if (a->o.endpoints && !a->reads_final) {
        choose_endpoint(a);
        return;
    }
    if (others > 0 && !a->reads_final) /* that is to be done at this one */
        a->server = (a->server + 1 + rng_below(&a->rng, others)) % a->o.server_count;
}

void actor_wait_between_ms(struct actor *a, uint64_t min, uint64_t max)
{
    a->timer_due = false;
    timer_start(a->o.io->clock, &a->timer, rng_between(&a->rng, min * NS_PER_MS, max * NS_PER_MS));
}

void actor_wait_ms(struct actor *a, uint64_t max)
{
    actor_wait_between_ms(a, 0, max);
}

struct actor *actor_new(const struct actor_options *options)
{
    struct actor *a = mem_new(struct actor);

    a->o = *options;
    a->h = options->history;
    a->rng = a->past = options->rng;
    rng_seed(&a->past, ~rng_next(&a->past));
    login_init(a);
    a->timer.on_time = on_time;
    a->limit.on_time = on_limit;
    a->next_revision = 1;
    assert(options->server_count > 0);
    assert(options->server_count <= ACTOR_SERVERS_MAX);
    a->server = rng_below(&a->rng, options->server_count);
    if (options->endpoints) {
        a->follows = rng_chance(&a->rng, 2, 3);
        a->endpoints = *options->endpoints;
        choose_endpoint(a);
    }
    a->requires_leader = rng_chance(&a->rng, 1, 3);
    a->call_timeout_ns = CALL_TIMEOUT_NS;
    if (rng_chance(&a->rng, 2, 3)) /* one that is not as patient as the server */
        a->call_timeout_ns = rng_between(&a->rng, NS_PER_S / 4, 4 * NS_PER_S);
    if (is_patient(a))
        a->call_timeout_ns = CALL_TIMEOUT_NS;
    a->asked_max = options->kind == ACTOR_CROWD    ? CROWD_MAX
                   : options->kind == ACTOR_POLLER ? POLLS_MAX
                                                   : 1;
    a->asked = mem_new_array(a->asked_max, struct asked);
    actor_wait_ms(a, PAUSE_MS_MAX);
    return a;
}

void actor_free(struct actor *a)
{
    timer_stop(a->o.io->clock, &a->timer);
    timer_stop(a->o.io->clock, &a->limit);
    if (a->client)
        client_close(a->client);
    for (size_t i = 0; i < a->life_count; i++) {
        buf_free(&a->lives[i].seen);
        buf_free(&a->lives[i].told);
    }
    for (size_t i = 0; i < a->asked_max; i++)
        buf_free(&a->asked[i].wire);
    buf_free(&a->backup);
    login_free(a);
    mem_free(a->asked);
    arena_free(&a->arena);
    mem_free(a);
}

uint64_t actor_calls(const struct actor *a)
{
    return a->calls;
}

/* --- the turn --- */

void actor_lost(struct actor *a)
{
    client_close(a->client);
    a->client = NULL;
    a->is_open = false;
    a->conn_told = 0; /* the next member may be behind this one, or this one behind itself */
    writer_lost(a);
    watcher_lost(a);
    choose_server(a);
    timer_stop(a->o.io->clock, &a->limit);
    a->limit_due = false;
    actor_wait_ms(a, AWAY_MS_MAX);
}

static void opened(struct actor *a)
{
    a->is_open = true;
    if (actor_is_writer(a)) {
        timer_stop(a->o.io->clock, &a->limit);
        a->limit_due = false;
    } else
        actor_limit(a);
}

/* The connection did not come about, a watch is silent, a renewal was not answered. */
static void limit_reached(struct actor *a)
{
    a->limit_due = false;
    if (!a->client)
        return;
    if (a->is_open && actor_is_writer(a))
        writer_limit_reached(a);
    else if (a->dozing || (a->o.kind == ACTOR_WITNESS && a->h->seen < a->h->compacted))
        actor_limit(a); /* what the witness has not seen, nobody else could show it */
    else
        actor_lost(a);
}

static void take(struct actor *a)
{
    struct client_event e;

    while (a->client && !a->dozing && client_take(a->client, &e)) {
        switch (e.kind) {
        case CLIENT_OPEN:
            opened(a);
            break;
        case CLIENT_MESSAGE:
            if (e.call == a->stream)
                watcher_heard(a, e.message);
            else
                writer_answered(a, e.call->context, e.message);
            break;
        case CLIENT_STATUS:
            if (e.call == a->stream)
                watcher_lost(a);
            else
                writer_call_ended(a, e.call->context, &e);
            break;
        case CLIENT_GONE:
            actor_lost(a);
            break;
        }
    }
}

void actor_turn(struct actor *a)
{
    if (actor_is_writer(a) && a->timer_due)
        a->dozing = false; /* one that reads slowly reads on */
    take(a);
    if (a->limit_due)
        limit_reached(a);
    if (!a->client && a->timer_due) {
        a->client = client_open(
            &(struct client_options){.io = a->o.io, .address = a->o.servers[a->server]});
        actor_limit(a);
        actor_wait_ms(a, PAUSE_MS_MAX);
    }
    if (a->is_open && actor_is_writer(a))
        writer_turn(a);
    else if (a->is_open)
        watcher_turn(a);
    if (a->client)
        client_flush(a->client);
}

void actor_wind_down(struct actor *a)
{
    a->winding_down = true;
    a->dozing = false;
    if (!timer_is_set(&a->timer))
        actor_wait_ms(a, PAUSE_MS_MAX);
}

void actor_read_all(struct actor *a, size_t server)
{
    assert(server < a->o.server_count);
    a->reads_final = true;
    a->final_done = false;
    if (a->client && a->server != server)
        actor_lost(a);
    a->server = server;
    if (!timer_is_set(&a->timer))
        actor_wait_ms(a, PAUSE_MS_MAX);
}

bool actor_is_idle(const struct actor *a, int64_t revision)
{
    if (actor_is_writer(a))
        return a->asked_count == 0 && (!a->reads_final || a->final_done);
    if (a->o.kind == ACTOR_WITNESS)
        return a->h->seen >= revision;
    if (a->login.is_denied && !a->stream)
        return true;
    if (a->life_count == 0 || !a->stream)
        return a->life_count == LIVES_MAX;
    return history_watch_is_done(a->h, &a->lives[a->life_count - 1]);
}

void actor_check(struct actor *a)
{
    if (a->life_count > 0 && a->stream)
        a->lives[a->life_count - 1].to_the_end = true;
    for (size_t i = 0; i < a->life_count; i++)
        history_check_watch(a->h, &a->lives[i]);
}
