#include "sim/actor_int.h"

enum { AWAY_MS_MAX = 400 /* before connecting again */ };

static void on_time(struct timer *t)
{
    container_of(t, struct actor, timer)->timer_due = true;
}

void actor_wait_ms(struct actor *a, uint64_t max)
{
    a->timer_due = false;
    timer_start(a->o.io->clock, &a->timer, rng_between(&a->rng, 0, max * NS_PER_MS));
}

struct actor *actor_new(const struct actor_options *options)
{
    struct actor *a = mem_new(struct actor);

    a->o = *options;
    a->h = options->history;
    a->rng = options->rng;
    a->timer.on_time = on_time;
    a->next_revision = 1;
    a->asked_max = options->kind == ACTOR_CROWD ? CROWD_MAX : 1;
    a->asked = mem_new_array(a->asked_max, struct asked);
    actor_wait_ms(a, PAUSE_MS_MAX);
    return a;
}

void actor_free(struct actor *a)
{
    timer_stop(a->o.io->clock, &a->timer);
    if (a->client)
        client_close(a->client);
    for (size_t i = 0; i < a->life_count; i++) {
        buf_free(&a->lives[i].seen);
        buf_free(&a->lives[i].told);
    }
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
    writer_lost(a);
    watcher_lost(a);
    actor_wait_ms(a, AWAY_MS_MAX);
}

static void take(struct actor *a)
{
    struct client_event e;

    while (a->client && !a->dozing && client_take(a->client, &e)) {
        switch (e.kind) {
        case CLIENT_OPEN:
            a->is_open = true;
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
    take(a);
    if (!a->client && a->timer_due) {
        a->client = client_open(&(struct client_options){.io = a->o.io, .address = a->o.server});
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

void actor_read_all(struct actor *a)
{
    a->reads_final = true;
    if (!timer_is_set(&a->timer))
        actor_wait_ms(a, PAUSE_MS_MAX);
}

bool actor_is_idle(const struct actor *a, int64_t revision)
{
    if (actor_is_writer(a))
        return a->asked_count == 0 && (!a->reads_final || a->final_done);
    if (a->o.kind == ACTOR_WITNESS)
        return a->h->seen >= revision;
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
