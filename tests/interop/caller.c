#include "interop/caller.h"

#include "base/assert.h"
#include "base/mem.h"
#include "io/clock.h"

enum err caller_init(struct caller *c)
{
    *c = (struct caller){0};
    enum err e = loop_open(&(struct loop_options){0}, &c->loop);
    if (e == ERR_OK)
        c->io = loop_io(c->loop);
    return e;
}

void caller_close(struct caller *c)
{
    for (size_t i = 0; i < c->line_count; i++)
        line_close(c->lines[i]);
    caller_for_ms(c, 1); /* closed connections are heard of in a turn */
    for (size_t i = 0; i < c->line_count; i++)
        mem_free(c->lines[i]);
    loop_close(c->loop);
}

struct line *caller_connect_to(struct caller *c, const struct net_address *to)
{
    struct line *l = mem_new(struct line);

    assert(c->line_count < LINES_MAX);
    l->caller = c;
    c->lines[c->line_count++] = l;
    line_reconnect(l, to);
    return l;
}

void line_reconnect(struct line *l, const struct net_address *to)
{
    struct client_options options = {.io = l->caller->io, .net = l->caller->net, .address = *to};

    line_close(l);
    l->is_open = l->is_gone = false;
    l->client = client_open(&options);
}

void line_close(struct line *l)
{
    if (l->client)
        client_close(l->client);
    l->client = NULL;
}

/* --- turns --- */

static void over(struct ask *a, const struct client_event *e)
{
    a->call = NULL;
    a->code = e->code;
    a->took_ns = caller_now_ns(a->line->caller) - a->began_ns;
    buf_clear(&a->text);
    buf_append(&a->text, e->text);
    if (a->on_over)
        a->on_over(a);
}

static void message_came(struct ask *a, struct bytes message)
{
    if (a->on_message) {
        a->on_message(a, message);
        return;
    }
    buf_clear(&a->answer);
    buf_append(&a->answer, message);
}

static void hear(struct line *l)
{
    struct client_event e;

    while (l->client && client_take(l->client, &e)) {
        switch (e.kind) {
        case CLIENT_OPEN:
            l->is_open = true;
            break;
        case CLIENT_GONE:
            l->is_gone = true;
            break;
        case CLIENT_MESSAGE:
            message_came(e.call->context, e.message);
            break;
        case CLIENT_STATUS:
            over(e.call->context, &e);
            break;
        }
    }
}

static void flush(struct caller *c)
{
    for (size_t i = 0; i < c->line_count; i++)
        if (c->lines[i]->client)
            client_flush(c->lines[i]->client);
}

static void turn(void *context)
{
    struct caller *c = context;

    inbox_drain(c->io->inbox, 10000);
    for (size_t i = 0; i < c->line_count; i++)
        hear(c->lines[i]);
    flush(c);
}

static void on_time(struct timer *t)
{
    (void)t; /* it ended the waiting */
}

void caller_turn(struct caller *c, uint64_t at_most_ms)
{
    struct timer timer = {.on_time = on_time};

    flush(c);
    timer_start(c->io->clock, &timer, at_most_ms * NS_PER_MS);
    loop_run_once(c->loop, turn, c);
    timer_stop(c->io->clock, &timer);
}

void caller_for_ms(struct caller *c, uint64_t ms)
{
    struct timer timer = {.on_time = on_time};

    timer_start(c->io->clock, &timer, ms * NS_PER_MS);
    while (timer_is_set(&timer))
        caller_turn(c, ms);
}

uint64_t caller_now_ns(struct caller *c)
{
    return clock_now_ns(c->io->clock);
}

/* --- calls --- */

static struct bytes encode(const struct pb_schema *schema, const void *message, struct buf *out)
{
    pb_encode(schema, message, out);
    return buf_bytes(out);
}

void ask_stream(struct ask *a, const char *path)
{
    assert(ask_is_over(a));
    buf_clear(&a->answer);
    a->began_ns = caller_now_ns(a->line->caller);
    struct client_field token = {.name = "token", .value = bytes_of_str(a->token ? a->token : "")};
    a->call =
        client_start(a->line->client, &(struct client_request){.path = path,
                                                               .timeout_ns = a->timeout_ns,
                                                               .metadata = &token,
                                                               .metadata_count = a->token != NULL,
                                                               .context = a});
}

void ask_say(struct ask *a, const struct pb_schema *schema, const void *message)
{
    struct buf wire = {0};

    client_send(a->call, encode(schema, message, &wire));
    buf_free(&wire);
}

void ask_start(struct ask *a, const char *path, const struct pb_schema *schema, const void *message)
{
    ask_stream(a, path);
    ask_say(a, schema, message);
    client_end(a->call);
}

void ask_cancel(struct ask *a)
{
    if (a->call)
        client_cancel(a->call);
    a->call = NULL;
}

bool ask_is_over(const struct ask *a)
{
    return a->call == NULL;
}

void ask_wait(struct ask *a)
{
    while (!ask_is_over(a))
        caller_turn(a->line->caller, 1000);
}

void ask_free(struct ask *a)
{
    ask_cancel(a);
    buf_free(&a->answer);
    buf_free(&a->text);
}
