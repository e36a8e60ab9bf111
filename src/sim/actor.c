#include "sim/actor.h"

#include "rpc/client.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    PAUSE_MS_MAX = 40,  /* before it does something at all */
    AWAY_MS_MAX = 400,  /* before connecting again */
    DOZE_MS_MAX = 3000, /* a watcher that does not read */
    VALUE_BYTES_MAX = 2000,
    LIVES_MAX = 64, /* watches one after the other */
};

#define CALL_TIMEOUT_NS (9 * NS_PER_S)

struct actor {
    struct actor_options o;
    struct history *h;
    struct rng rng;
    struct client *client;
    bool is_open, winding_down;
    struct timer timer;
    bool timer_due;
    uint64_t calls;

    /* a writer */
    struct client_call *call;
    const char *path;
    uint64_t op;
    bool reads_all, reads_final, final_done;
    int64_t reads_at; /* 0: the newest */
    int64_t lease;
    struct buf kept; /* reads, for the end */

    /* a witness or watcher */
    struct client_call *stream;
    int64_t next_revision;
    bool created, dozing;
    struct history_watch lives[LIVES_MAX];
    size_t life_count;
};

static void on_time(struct timer *t)
{
    container_of(t, struct actor, timer)->timer_due = true;
}

static void wait_ms(struct actor *a, uint64_t max)
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
    wait_ms(a, PAUSE_MS_MAX);
    return a;
}

void actor_free(struct actor *a)
{
    timer_stop(a->o.io->clock, &a->timer);
    if (a->client)
        client_close(a->client);
    for (size_t i = 0; i < a->life_count; i++)
        buf_free(&a->lives[i].seen);
    buf_free(&a->kept);
    mem_free(a);
}

uint64_t actor_calls(const struct actor *a)
{
    return a->calls;
}

/* --- a writer's calls --- */

static void ask(struct actor *a, const char *path, const struct pb_schema *schema, const void *msg)
{
    struct buf wire = {0};

    pb_encode(schema, msg, &wire);
    a->path = path;
    a->calls++;
    a->call =
        client_ask(a->client, &(struct client_request){.path = path, .timeout_ns = CALL_TIMEOUT_NS},
                   buf_bytes(&wire));
    buf_free(&wire);
}

#define ASK(a, path, name, ...)                                                                    \
    ask((a), (path), &pb_##name##_schema, &(struct pb_##name){__VA_ARGS__})

/* The operation's number, and something behind it so that values differ in size. */
static struct bytes value_of(struct actor *a, struct buf *out)
{
    buf_printf(out, "%" PRIu64 " ", a->op);
    uint64_t padding = rng_chance(&a->rng, 1, 10) ? rng_below(&a->rng, VALUE_BYTES_MAX) : 3;
    memset(buf_extend(out, padding), 'x', padding);
    return buf_bytes(out);
}

static unsigned any_key(struct actor *a)
{
    return (unsigned)rng_below(&a->rng, HISTORY_KEYS);
}

static void begin_put(struct actor *a)
{
    char key[HISTORY_KEY_BYTES];
    struct buf value = {0};
    unsigned which = any_key(a);
    int64_t lease = rng_chance(&a->rng, 1, 4) ? a->lease : 0;

    a->op = history_begin(a->h, OP_PUT, which);
    history_op(a->h, a->op)->lease = lease;
    ASK(a, "/etcdserverpb.KV/Put", put_request, .key = bytes_of_str(history_key(which, key)),
        .value = value_of(a, &value), .lease = lease, .prev_kv = rng_chance(&a->rng, 1, 3));
    buf_free(&value);
}

static void begin_delete(struct actor *a)
{
    char key[HISTORY_KEY_BYTES];
    bool all = rng_chance(&a->rng, 1, 4);
    unsigned which = all ? HISTORY_KEYS : any_key(a);

    a->op = history_begin(a->h, OP_DELETE, which);
    ASK(a, "/etcdserverpb.KV/DeleteRange", delete_range_request,
        .key = bytes_of_str(history_key(all ? 0 : which, key)),
        .range_end = all ? BYTES("l") : (struct bytes){0});
}

/* If the key has not changed since some revision, put; else read it. */
static void begin_swap(struct actor *a)
{
    char key[HISTORY_KEY_BYTES];
    struct buf value = {0};
    unsigned which = any_key(a);
    struct bytes name = bytes_of_str(history_key(which, key));

    a->op = history_begin(a->h, OP_SWAP, which);
    struct pb_compare compare = {.key = name,
                                 .target = PB_TARGET_MOD,
                                 .result = PB_COMPARE_LESS,
                                 .which = PB_OPERAND_MOD_REVISION,
                                 .mod_revision = a->h->told + (int64_t)rng_below(&a->rng, 2)};
    struct pb_put_request put = {.key = name, .value = value_of(a, &value)};
    struct pb_range_request range = {.key = name};
    struct pb_request_op success = {.which = PB_OP_PUT, .put = &put};
    struct pb_request_op failure = {.which = PB_OP_RANGE, .range = &range};
    ASK(a, "/etcdserverpb.KV/Txn", txn_request, .compare = {&compare, 1}, .success = {&success, 1},
        .failure = {&failure, 1});
    buf_free(&value);
}

static void begin_read(struct actor *a, bool all, int64_t at)
{
    char key[HISTORY_KEY_BYTES];
    unsigned which = all ? HISTORY_KEYS : any_key(a);

    a->op = history_begin(a->h, OP_READ, which);
    a->reads_all = all;
    a->reads_at = at;
    ASK(a, "/etcdserverpb.KV/Range", range_request,
        .key = bytes_of_str(history_key(all ? 0 : which, key)),
        .range_end = all ? BYTES("l") : (struct bytes){0}, .revision = at);
}

/* What the witness has not seen must stay. */
static void begin_compaction(struct actor *a)
{
    a->op = history_begin(a->h, OP_OTHER, 0);
    ASK(a, "/etcdserverpb.KV/Compact", compaction_request,
        .revision = a->h->seen > 1 ? (int64_t)rng_between(&a->rng, 1, (uint64_t)a->h->seen) : 1,
        .physical = rng_chance(&a->rng, 1, 4));
}

static void begin_lease(struct actor *a)
{
    a->op = history_begin(a->h, OP_OTHER, 0);
    if (a->lease != 0 && rng_chance(&a->rng, 1, 2)) {
        ask(a, "/etcdserverpb.Lease/LeaseRevoke", &pb_lease_revoke_request_schema,
            &(struct pb_lease_id){.id = a->lease});
        a->lease = 0;
    } else
        ASK(a, "/etcdserverpb.Lease/LeaseGrant", lease_grant_request,
            .ttl = (int64_t)rng_between(&a->rng, 1, 5));
}

static void begin_something(struct actor *a)
{
    uint64_t dice = rng_below(&a->rng, 100);

    if (dice < 45)
        begin_put(a);
    else if (dice < 55)
        begin_delete(a);
    else if (dice < 65)
        begin_swap(a);
    else if (dice < 88)
        begin_read(a, rng_chance(&a->rng, 1, 3), 0);
    else if (dice < 91)
        begin_read(a, true, a->h->seen);
    else if (dice < 94)
        begin_compaction(a);
    else
        begin_lease(a);
}

/* --- a writer's answers --- */

static int64_t revision_of(const struct pb_response_header *h)
{
    return h ? h->revision : 0;
}

static void read_done(struct actor *a, const struct pb_range_response *r)
{
    int64_t revision = revision_of(r->header);

    history_done(a->h, a->op, revision, false);
    if (a->reads_final) {
        history_check_final(a->h, r);
        a->final_done = true;
    } else
        history_read(a->h, r, history_op(a->h, a->op)->key, a->reads_at ? a->reads_at : revision,
                     &a->kept);
}

static bool is(const struct actor *a, const char *method)
{
    return strcmp(strrchr(a->path, '/') + 1, method) == 0;
}

#define DECODE(name)                                                                               \
    struct pb_##name r;                                                                            \
    if (pb_decode_##name(message, &arena, &r) != ERR_OK) {                                         \
        history_fail(a->h, "an answer of " #name " cannot be decoded");                            \
        arena_free(&arena);                                                                        \
        return;                                                                                    \
    }

static void answered(struct actor *a, struct bytes message)
{
    struct arena arena = {0};

    if (is(a, "Put")) {
        DECODE(put_response)
        history_done(a->h, a->op, revision_of(r.header), true);
    } else if (is(a, "DeleteRange")) {
        DECODE(delete_range_response)
        history_done(a->h, a->op, revision_of(r.header), r.deleted > 0);
    } else if (is(a, "Txn")) {
        DECODE(txn_response)
        history_done(a->h, a->op, revision_of(r.header), r.succeeded);
    } else if (is(a, "Range")) {
        DECODE(range_response)
        read_done(a, &r);
    } else if (is(a, "LeaseGrant")) {
        DECODE(lease_grant_response)
        history_done(a->h, a->op, revision_of(r.header), false);
        a->lease = r.id;
    } else
        history_done(a->h, a->op, history_op(a->h, a->op)->floor, false);
    arena_free(&arena);
}

/* Errors that a correct server may give here. */
static bool is_expected(const struct actor *a, enum rpc_code code)
{
    switch (code) {
    case RPC_UNAVAILABLE:
    case RPC_DEADLINE_EXCEEDED:
        return true;
    case RPC_OUT_OF_RANGE: /* compacted */
        return is(a, "Compact") || (is(a, "Range") && a->reads_at != 0);
    case RPC_NOT_FOUND: /* the lease has expired */
        return is(a, "Put") || is(a, "LeaseRevoke");
    default:
        return false;
    }
}

static void call_ended(struct actor *a, const struct client_event *e)
{
    if (e->code != RPC_OK) {
        history_gave_up(a->h, a->op);
        if (!is_expected(a, e->code))
            history_fail(a->h, "%s failed with %d: %.*s", a->path, e->code, (int)e->text.len,
                         e->text.at);
        if (is(a, "Put") && e->code == RPC_NOT_FOUND)
            a->lease = 0;
    }
    a->call = NULL;
    wait_ms(a, a->o.pause_ms_max);
}

/* --- a watch --- */

static struct history_watch *life(struct actor *a)
{
    return &a->lives[a->life_count - 1];
}

static void begin_watch(struct actor *a)
{
    struct buf wire = {0};
    char key[HISTORY_KEY_BYTES];
    unsigned which = HISTORY_KEYS;

    if (a->o.kind == ACTOR_WATCHER) {
        which = rng_chance(&a->rng, 1, 2) ? HISTORY_KEYS : any_key(a);
        if (a->life_count == LIVES_MAX)
            return;
        if (rng_chance(&a->rng, 1, 2) && a->h->seen > 0)
            a->next_revision = (int64_t)rng_between(&a->rng, 1, (uint64_t)a->h->seen + 3);
        a->lives[a->life_count++] = (struct history_watch){.key = which, .from = a->next_revision};
    }
    bool all = which == HISTORY_KEYS;
    struct pb_watch_create_request create = {
        .key = bytes_of_str(history_key(all ? 0 : which, key)),
        .range_end = all ? BYTES("l") : (struct bytes){0},
        .start_revision = a->next_revision,
        .prev_kv = rng_chance(&a->rng, 1, 3),
        .fragment = rng_chance(&a->rng, 1, 3),
    };
    struct pb_watch_request request = {.which = PB_WATCH_CREATE, .create = &create};
    pb_encode_watch_request(&request, &wire);
    a->created = false;
    a->calls++;
    a->stream =
        client_start(a->client, &(struct client_request){.path = "/etcdserverpb.Watch/Watch"});
    client_send(a->stream, buf_bytes(&wire));
    buf_free(&wire);
}

static void watch_canceled(struct actor *a, const struct pb_watch_response *r)
{
    if (r->compact_revision == 0 || a->o.kind == ACTOR_WITNESS) {
        history_fail(a->h, "a watch was canceled: %.*s", (int)r->cancel_reason.len,
                     r->cancel_reason.at);
        return;
    }
    if (a->next_revision >= r->compact_revision)
        history_fail(a->h, "a watch at %" PRId64 " was canceled by a compaction at %" PRId64,
                     a->next_revision, r->compact_revision);
    a->next_revision = r->compact_revision;
    client_cancel(a->stream);
    a->stream = NULL;
}

static void saw(struct actor *a, const struct pb_event *e)
{
    struct history_event event;

    if (a->o.kind == ACTOR_WITNESS) {
        history_witness(a->h, e);
        return;
    }
    if (!history_event_of(e, &event))
        history_fail(a->h, "a watcher saw a key nobody has");
    else
        buf_append(&life(a)->seen, bytes_of(&event, sizeof(event)));
}

static void watched(struct actor *a, struct bytes message)
{
    struct arena arena = {0};
    struct pb_watch_response r;

    if (pb_decode_watch_response(message, &arena, &r) != ERR_OK) {
        history_fail(a->h, "a watch response cannot be decoded");
        arena_free(&arena);
        return;
    }
    if (!a->created && !r.created)
        history_fail(a->h, "events before the watch was created");
    a->created |= r.created;
    for (size_t i = 0; i < r.events.count; i++)
        saw(a, &r.events.at[i]);
    if (r.events.count > 0 && !r.fragment)
        a->next_revision = r.events.at[r.events.count - 1].kv->mod_revision + 1;
    if (r.canceled)
        watch_canceled(a, &r);
    arena_free(&arena);
}

/* --- the turn --- */

static void lost(struct actor *a)
{
    client_close(a->client);
    a->client = NULL;
    a->is_open = false;
    if (a->call)
        history_gave_up(a->h, a->op);
    a->call = NULL;
    a->stream = NULL;
    wait_ms(a, AWAY_MS_MAX);
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
                watched(a, e.message);
            else
                answered(a, e.message);
            break;
        case CLIENT_STATUS:
            if (e.call == a->stream)
                a->stream = NULL;
            else
                call_ended(a, &e);
            break;
        case CLIENT_GONE:
            lost(a);
            break;
        }
    }
}

static void write_on(struct actor *a)
{
    if (a->call || !a->timer_due)
        return;
    if (!a->winding_down)
        begin_something(a);
    else if (a->reads_final && !a->final_done)
        begin_read(a, true, 0);
}

/* Now and then a watcher stops reading for a while, or begins anew. */
static void watch_on(struct actor *a)
{
    if (!a->stream)
        begin_watch(a);
    if (a->o.kind == ACTOR_WITNESS || !a->timer_due)
        return;
    a->dozing = !a->dozing && !a->winding_down;
    if (!a->dozing && !a->winding_down && a->stream && rng_chance(&a->rng, 1, 4)) {
        client_cancel(a->stream);
        a->stream = NULL;
    }
    wait_ms(a, DOZE_MS_MAX);
}

void actor_turn(struct actor *a)
{
    take(a);
    if (!a->client && a->timer_due) {
        a->client = client_open(&(struct client_options){.io = a->o.io, .address = a->o.server});
        wait_ms(a, PAUSE_MS_MAX);
    }
    if (a->is_open && a->o.kind == ACTOR_WRITER)
        write_on(a);
    else if (a->is_open)
        watch_on(a);
    if (a->client)
        client_flush(a->client);
}

void actor_wind_down(struct actor *a)
{
    a->winding_down = true;
    a->dozing = false;
    if (!timer_is_set(&a->timer))
        wait_ms(a, PAUSE_MS_MAX);
}

void actor_read_all(struct actor *a)
{
    a->reads_final = true;
    if (!timer_is_set(&a->timer))
        wait_ms(a, PAUSE_MS_MAX);
}

static bool has_seen(const struct actor *a, int64_t revision)
{
    if (a->o.kind == ACTOR_WITNESS)
        return a->h->seen >= revision;
    if (a->life_count == 0 || !a->stream)
        return a->life_count == LIVES_MAX;
    /* The last event that concerns it, or none at all. */
    const struct history_watch *w = &a->lives[a->life_count - 1];
    const struct history_event *seen = (const void *)w->seen.at;
    size_t count = w->seen.len / sizeof(*seen);
    int64_t last = count ? seen[count - 1].revision : w->from - 1;

    return last >= history_last_of(a->h, w->key) || w->from > revision;
}

bool actor_is_idle(const struct actor *a, int64_t revision)
{
    if (a->o.kind == ACTOR_WRITER)
        return !a->call && (!a->reads_final || a->final_done);
    return has_seen(a, revision);
}

void actor_check(struct actor *a)
{
    history_check_reads(a->h, buf_bytes(&a->kept));
    if (a->life_count > 0 && a->stream)
        life(a)->to_the_end = true;
    for (size_t i = 0; i < a->life_count; i++)
        history_check_watch(a->h, &a->lives[i]);
}
