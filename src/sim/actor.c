#include "sim/actor.h"

#include "rpc/client.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    PAUSE_MS_MAX = 40,    /* before it does something at all */
    AWAY_MS_MAX = 400,    /* before connecting again */
    DOZE_MS_MAX = 3000,   /* a watcher that does not read */
    PATIENCE_MS_MAX = 15, /* of one that leaves before it is answered */
    VALUE_BYTES_MAX = 2000,
    LIVES_MAX = 64, /* watches one after the other */
    BRANCH_MAX = 4, /* operations of a transaction */
    HERD_BITE = 128,
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
    bool impatient, renews, stale, reads_old;
    bool reads_final, final_done;
    int64_t lease;
    struct arena arena; /* of the request in the making */

    /* a witness or watcher */
    struct client_call *stream;
    int64_t next_revision;
    bool created, dozing, in_fragments;
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
    for (size_t i = 0; i < a->life_count; i++) {
        buf_free(&a->lives[i].seen);
        buf_free(&a->lives[i].told);
    }
    arena_free(&a->arena);
    mem_free(a);
}

uint64_t actor_calls(const struct actor *a)
{
    return a->calls;
}

/* --- a writer's calls --- */

static void ask(struct actor *a, enum history_kind kind, const char *path,
                const struct pb_schema *schema, const void *msg)
{
    struct client_request request = {.path = path, .timeout_ns = CALL_TIMEOUT_NS};
    struct buf wire = {0};

    pb_encode(schema, msg, &wire);
    a->op = history_begin(a->h, kind, buf_bytes(&wire));
    a->path = path;
    a->renews = kind == OP_RENEW;
    a->stale = a->reads_old = false;
    a->calls++;
    if (a->renews) { /* a stream, of which we want one answer */
        a->call = client_start(a->client, &request);
        client_send(a->call, buf_bytes(&wire));
        client_end(a->call);
    } else
        a->call = client_ask(a->client, &request, buf_bytes(&wire));
    buf_free(&wire);
    arena_reset(&a->arena);
    a->impatient = !a->winding_down && rng_chance(&a->rng, 1, 30);
    if (a->impatient)
        wait_ms(a, PATIENCE_MS_MAX);
}

#define ASK(a, kind, path, name, ...)                                                              \
    ask((a), (kind), (path), &pb_##name##_schema, &(struct pb_##name){__VA_ARGS__})

static struct bytes name_of(struct actor *a, unsigned key)
{
    char text[HISTORY_KEY_BYTES];

    return arena_copy(&a->arena, bytes_of_str(history_key(key, text)));
}

/* The number of the operation about to begin, and something behind it so that values differ in
 * size. */
static struct bytes some_value(struct actor *a)
{
    uint64_t padding = rng_chance(&a->rng, 1, 10) ? rng_below(&a->rng, VALUE_BYTES_MAX) : 3;
    char *text = arena_alloc(&a->arena, 24 + padding);
    int len = snprintf(text, 24, "%zu ", a->h->op_count);

    memset(text + len, 'x', padding);
    return bytes_of(text, (size_t)len + padding);
}

static unsigned any_key(struct actor *a)
{
    return (unsigned)rng_below(&a->rng, HISTORY_KEYS);
}

/* One key, some that lie together, all of ours, or the herd. */
static void some_range(struct actor *a, struct bytes *key, struct bytes *end)
{
    uint64_t dice = rng_below(&a->rng, a->o.has_herd ? 10 : 8);

    *end = (struct bytes){0};
    if (dice < 4)
        *key = name_of(a, any_key(a));
    else if (dice < 6) {
        unsigned from = any_key(a);
        unsigned to = from + 1 + (unsigned)rng_below(&a->rng, 6);
        *key = name_of(a, from);
        *end = to < HISTORY_KEYS ? name_of(a, to) : BYTES("l");
    } else if (dice < 8) {
        *key = BYTES("k");
        *end = BYTES("l");
    } else {
        *key = BYTES("z");
        *end = BYTES("{");
    }
}

static struct pb_put_request some_put(struct actor *a, unsigned key)
{
    struct pb_put_request put = {.key = name_of(a, key), .value = some_value(a)};

    if (rng_chance(&a->rng, 1, 4))
        put.lease = a->lease;
    put.prev_kv = rng_chance(&a->rng, 1, 3);
    return put;
}

static struct pb_range_request some_read(struct actor *a)
{
    struct pb_range_request r = {.serializable = rng_chance(&a->rng, 1, 6)};

    some_range(a, &r.key, &r.range_end);
    if (rng_chance(&a->rng, 1, 4))
        r.limit = (int64_t)rng_between(&a->rng, 1, 5);
    r.keys_only = rng_chance(&a->rng, 1, 8);
    r.count_only = rng_chance(&a->rng, 1, 8);
    if (rng_chance(&a->rng, 1, 4) && a->h->seen > 1) {
        uint64_t newest = (uint64_t)a->h->seen;
        r.revision = (int64_t)rng_between(&a->rng, newest > 40 ? newest - 40 : 1, newest);
    }
    return r;
}

static void begin_put(struct actor *a)
{
    struct pb_put_request put = some_put(a, any_key(a));

    ask(a, OP_PUT, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
    history_op(a->h, a->op)->lease = put.lease;
}

static void begin_delete(struct actor *a)
{
    struct pb_delete_range_request d = {.prev_kv = rng_chance(&a->rng, 1, 3)};

    some_range(a, &d.key, &d.range_end);
    ask(a, OP_DELETE, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema, &d);
}

static void begin_read(struct actor *a)
{
    struct pb_range_request r = some_read(a);

    ask(a, OP_RANGE, "/etcdserverpb.KV/Range", &pb_range_request_schema, &r);
    a->stale = r.serializable;
    a->reads_old = r.revision > 0;
}

static void read_everything(struct actor *a)
{
    ASK(a, OP_RANGE, "/etcdserverpb.KV/Range", range_request, .key = BYTES("k"),
        .range_end = BYTES("{"));
}

/* --- transactions --- */

static struct pb_compare some_compare(struct actor *a)
{
    struct pb_compare c = {.key = name_of(a, any_key(a)), .result = (int32_t)rng_below(&a->rng, 4)};
    int64_t near = a->h->told - (int64_t)rng_below(&a->rng, 8) + 1;

    switch (rng_below(&a->rng, 4)) {
    case 0:
        c.target = PB_TARGET_VERSION;
        c.which = PB_OPERAND_VERSION;
        c.version = (int64_t)rng_below(&a->rng, 3);
        break;
    case 1:
        c.target = PB_TARGET_CREATE;
        c.which = PB_OPERAND_CREATE_REVISION;
        c.create_revision = rng_chance(&a->rng, 1, 2) ? 0 : near;
        break;
    case 2:
        c.target = PB_TARGET_LEASE;
        c.which = PB_OPERAND_LEASE;
        c.lease = rng_chance(&a->rng, 1, 2) ? 0 : a->lease;
        break;
    default:
        c.target = PB_TARGET_MOD;
        c.which = PB_OPERAND_MOD_REVISION;
        c.mod_revision = near;
        break;
    }
    return c;
}

static struct pb_txn_request some_txn(struct actor *a, unsigned *used, bool inner);

/* A key that this branch does not write yet. */
static unsigned unused_key(struct actor *a, unsigned *used)
{
    unsigned key = any_key(a);

    while (*used & 1u << key)
        key = (key + 1) % HISTORY_KEYS;
    *used |= 1u << key;
    return key;
}

/* NOLINTNEXTLINE(misc-no-recursion): two levels, see some_txn */
static struct pb_request_op some_op(struct actor *a, unsigned *used, bool inner)
{
    uint64_t dice = rng_below(&a->rng, inner ? 8 : 9);

    if (dice < 4) {
        struct pb_put_request *put = arena_new(&a->arena, struct pb_put_request);
        *put = some_put(a, unused_key(a, used));
        return (struct pb_request_op){.which = PB_OP_PUT, .put = put};
    }
    if (dice < 6) {
        struct pb_delete_range_request *d = arena_new(&a->arena, struct pb_delete_range_request);
        d->key = name_of(a, unused_key(a, used));
        d->prev_kv = rng_chance(&a->rng, 1, 2);
        return (struct pb_request_op){.which = PB_OP_DELETE_RANGE, .delete_range = d};
    }
    if (dice < 8) {
        struct pb_range_request *r = arena_new(&a->arena, struct pb_range_request);
        *r = some_read(a);
        r->revision = 0; /* compacted ones would fail the whole */
        return (struct pb_request_op){.which = PB_OP_RANGE, .range = r};
    }
    struct pb_txn_request *txn = arena_new(&a->arena, struct pb_txn_request);
    *txn = some_txn(a, used, true);
    return (struct pb_request_op){.which = PB_OP_TXN, .txn = txn};
}

/* NOLINTNEXTLINE(misc-no-recursion): an inner one has no inner one */
static struct pb_txn_request some_txn(struct actor *a, unsigned *used, bool inner)
{
    struct pb_txn_request txn = {0};
    struct pb_compare *compare = arena_alloc(&a->arena, 2 * sizeof(*compare));
    struct pb_request_op *ops[2];
    size_t counts[2];

    txn.compare.count = rng_below(&a->rng, 3);
    for (size_t i = 0; i < txn.compare.count; i++)
        compare[i] = some_compare(a);
    txn.compare.at = compare;
    for (unsigned branch = 0; branch < 2; branch++) {
        unsigned mine = *used; /* the other branch will not happen */
        ops[branch] = arena_alloc(&a->arena, BRANCH_MAX * sizeof(struct pb_request_op));
        counts[branch] = rng_below(&a->rng, inner ? 3 : BRANCH_MAX);
        for (size_t i = 0; i < counts[branch]; i++)
            ops[branch][i] = some_op(a, inner ? used : &mine, inner);
    }
    txn.success.at = ops[0];
    txn.success.count = counts[0];
    txn.failure.at = ops[1];
    txn.failure.count = counts[1];
    return txn;
}

static void begin_txn(struct actor *a)
{
    unsigned used = 0;
    struct pb_txn_request txn = some_txn(a, &used, false);

    ask(a, OP_TXN, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);
    history_op(a->h, a->op)->lease = a->lease; /* it may have named it */
}

/* As many at once as a transaction may have. */
static void begin_herding(struct actor *a)
{
    struct pb_put_request *puts = arena_alloc(&a->arena, HERD_BITE * sizeof(*puts));
    struct pb_request_op *ops = arena_alloc(&a->arena, HERD_BITE * sizeof(*ops));
    unsigned first = (unsigned)rng_below(&a->rng, HERD_KEYS / HERD_BITE) * HERD_BITE;
    int64_t lease = rng_chance(&a->rng, 1, 3) ? a->lease : 0;
    struct bytes value = some_value(a);

    for (unsigned i = 0; i < HERD_BITE; i++) {
        puts[i] = (struct pb_put_request){
            .key = name_of(a, HISTORY_KEYS + first + i), .value = value, .lease = lease};
        ops[i] = (struct pb_request_op){.which = PB_OP_PUT, .put = &puts[i]};
    }
    ASK(a, OP_TXN, "/etcdserverpb.KV/Txn", txn_request, .success = {ops, HERD_BITE});
    history_op(a->h, a->op)->lease = lease;
}

/* --- the rest of what it asks for --- */

/* What the witness has not seen must stay. */
static void begin_compaction(struct actor *a)
{
    int64_t revision = a->h->seen > 1 ? (int64_t)rng_between(&a->rng, 1, (uint64_t)a->h->seen) : 1;

    if (revision > a->h->compacted)
        a->h->compacted = revision;
    ASK(a, OP_OTHER, "/etcdserverpb.KV/Compact", compaction_request, .revision = revision,
        .physical = rng_chance(&a->rng, 1, 4));
}

static void begin_lease(struct actor *a)
{
    struct history_lease *l = history_lease(a->h, a->lease);
    uint64_t dice = rng_below(&a->rng, 6);

    if (a->lease == 0 || dice == 0)
        ASK(a, OP_GRANT, "/etcdserverpb.Lease/LeaseGrant", lease_grant_request,
            .ttl = (int64_t)rng_between(&a->rng, 1, 5));
    else if (dice == 1) {
        if (l)
            l->may_be_revoked = true;
        ask(a, OP_REVOKE, "/etcdserverpb.Lease/LeaseRevoke", &pb_lease_revoke_request_schema,
            &(struct pb_lease_id){.id = a->lease});
        history_op(a->h, a->op)->lease = a->lease;
        a->lease = 0;
    } else if (dice == 2) {
        ASK(a, OP_KEYS, "/etcdserverpb.Lease/LeaseTimeToLive", lease_time_to_live_request,
            .id = a->lease, .keys = true);
    } else {
        ask(a, OP_RENEW, "/etcdserverpb.Lease/LeaseKeepAlive", &pb_lease_keep_alive_request_schema,
            &(struct pb_lease_id){.id = a->lease});
        history_op(a->h, a->op)->lease = a->lease;
    }
}

static void begin_something(struct actor *a)
{
    uint64_t dice = rng_below(&a->rng, 100);

    if (a->o.has_herd && rng_chance(&a->rng, 1, 12))
        begin_herding(a);
    else if (dice < 35)
        begin_put(a);
    else if (dice < 45)
        begin_delete(a);
    else if (dice < 60)
        begin_txn(a);
    else if (dice < 88)
        begin_read(a);
    else if (dice < 91)
        begin_compaction(a);
    else
        begin_lease(a);
}

/* --- a writer's answers --- */

/* What leases are told beyond their header. */
static void hear_of_lease(struct actor *a, const struct history_op *o, struct bytes message,
                          struct arena *arena)
{
    struct pb_lease_grant_response granted = {0};
    struct pb_lease_keep_alive_response renewed = {0};

    if (o->kind == OP_GRANT) {
        if (pb_decode_lease_grant_response(message, arena, &granted) != ERR_OK)
            history_fail(a->h, "a grant cannot be decoded");
        history_granted(a->h, a->op, granted.id, granted.ttl);
        a->lease = granted.id;
    } else if (o->kind == OP_RENEW) {
        if (pb_decode_lease_keep_alive_response(message, arena, &renewed) != ERR_OK)
            history_fail(a->h, "a renewal cannot be decoded");
        history_renewed(a->h, a->op, o->lease, renewed.ttl);
        if (renewed.ttl <= 0)
            a->lease = 0;
    }
}

static void answered(struct actor *a, struct bytes message)
{
    struct pb_header_response any = {0}; /* the header is field 1 of all of them */
    struct arena arena = {0};
    enum err e = pb_decode(&pb_lease_revoke_response_schema, message, &arena, &any);

    if (e == ERR_OK && any.header) {
        hear_of_lease(a, history_op(a->h, a->op), message, &arena);
        history_done(a->h, a->op, any.header->revision, message, a->stale);
    } else
        history_fail(a->h, "an answer of %s cannot be decoded", a->path);
    a->final_done |= a->reads_final;
    arena_free(&arena);
}

/* Errors that a correct server may give here. */
static bool is_expected(struct actor *a, enum rpc_code code)
{
    const struct history_op *o = history_op(a->h, a->op);

    switch (code) {
    case RPC_UNAVAILABLE:
    case RPC_DEADLINE_EXCEEDED:
        return true;
    case RPC_OUT_OF_RANGE: /* compacted */
        return o->kind == OP_OTHER || (o->kind == OP_RANGE && a->reads_old);
    case RPC_NOT_FOUND: /* the lease has expired */
        return o->lease != 0;
    default:
        return false;
    }
}

static void call_failed(struct actor *a, const struct client_event *e)
{
    if (!is_expected(a, e->code))
        history_fail(a->h, "%s failed with %d: %.*s", a->path, e->code, (int)e->text.len,
                     e->text.at);
    if (e->code == RPC_UNAVAILABLE || e->code == RPC_DEADLINE_EXCEEDED) {
        history_gave_up(a->h, a->op);
        return;
    }
    history_refused(a->h, a->op);
    if (e->code == RPC_NOT_FOUND) {
        history_lease_is_gone(a->h, history_op(a->h, a->op)->lease);
        a->lease = 0;
    }
}

static void call_ended(struct actor *a, const struct client_event *e)
{
    if (e->code != RPC_OK)
        call_failed(a, e);
    a->call = NULL;
    wait_ms(a, a->o.pause_ms_max);
}

/* --- a watch --- */

static struct history_watch *life(struct actor *a)
{
    return &a->lives[a->life_count - 1];
}

static void say(struct actor *a, const struct pb_watch_request *request)
{
    struct buf wire = {0};

    pb_encode_watch_request(request, &wire);
    client_send(a->stream, buf_bytes(&wire));
    buf_free(&wire);
}

static struct history_watch some_watch(struct actor *a)
{
    struct history_watch w = {.to_key = HISTORY_ALL_KEYS};

    if (rng_chance(&a->rng, 1, 2)) {
        w.from_key = any_key(a);
        w.to_key = w.from_key + 1;
    }
    w.prev_kv = rng_chance(&a->rng, 1, 3);
    w.no_puts = rng_chance(&a->rng, 1, 8);
    w.no_deletes = !w.no_puts && rng_chance(&a->rng, 1, 8);
    if (rng_chance(&a->rng, 1, 2) && a->h->seen > 0)
        a->next_revision = (int64_t)rng_between(&a->rng, 1, (uint64_t)a->h->seen + 3);
    w.from = a->next_revision;
    return w;
}

static void begin_watch(struct actor *a)
{
    struct history_watch w = {.to_key = HISTORY_ALL_KEYS};
    int32_t filter;

    if (a->o.kind == ACTOR_WATCHER) {
        if (a->life_count == LIVES_MAX)
            return;
        a->lives[a->life_count++] = w = some_watch(a);
    }
    bool one = w.to_key == w.from_key + 1;
    filter = w.no_puts ? PB_WATCH_NO_PUT : PB_WATCH_NO_DELETE;
    struct pb_watch_create_request create = {
        .key = one ? name_of(a, w.from_key) : BYTES("k"),
        .range_end = one ? (struct bytes){0} : BYTES("{"),
        .start_revision = a->next_revision,
        .prev_kv = w.prev_kv,
        .fragment = rng_chance(&a->rng, 1, 3),
        .filters = {&filter, w.no_puts || w.no_deletes},
    };
    a->created = false;
    a->in_fragments = false;
    a->calls++;
    a->stream =
        client_start(a->client, &(struct client_request){.path = "/etcdserverpb.Watch/Watch"});
    say(a, &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    arena_reset(&a->arena);
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

static void saw(struct actor *a, const struct pb_event *e, bool joined)
{
    if (a->o.kind == ACTOR_WITNESS)
        history_witness(a->h, e);
    else if (!history_watch_saw(life(a), e, joined))
        history_fail(a->h, "a watcher saw a key nobody has");
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
    for (size_t i = 0; i < r.events.count; i++)
        saw(a, &r.events.at[i], i > 0 || a->in_fragments);
    a->in_fragments = r.fragment;
    if (r.events.count > 0 && !r.fragment)
        a->next_revision = r.events.at[r.events.count - 1].kv->mod_revision + 1;
    bool is_notice = a->created && r.events.count == 0 && !r.canceled && !r.fragment;
    if (is_notice && r.header && a->o.kind == ACTOR_WATCHER)
        history_watch_progress(life(a), r.header->revision);
    a->created |= r.created;
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

/* Leaves in the middle of a call: the call alone, or with the whole connection, or it is torn. */
static void lose_patience(struct actor *a)
{
    a->impatient = false;
    if (history_op(a->h, a->op)->done)
        return; /* only its end is missing */
    switch (rng_below(&a->rng, 3)) {
    case 0:
        client_cancel(a->call);
        history_gave_up(a->h, a->op);
        a->call = NULL;
        wait_ms(a, a->o.pause_ms_max);
        break;
    case 1:
        lost(a);
        break;
    default:
        if (client_conn(a->client))
            fake_wire_reset(client_conn(a->client));
        break;
    }
}

static void write_on(struct actor *a)
{
    if (a->call && a->impatient && a->timer_due)
        lose_patience(a);
    if (!a->is_open || a->call || !a->timer_due)
        return;
    if (!a->winding_down)
        begin_something(a);
    else if (a->reads_final && !a->final_done)
        read_everything(a);
}

/* Now and then a watcher asks how far it is, stops reading for a while, or begins anew. */
static void watch_on(struct actor *a)
{
    static const struct pb_empty nothing = {0};

    if (!a->stream)
        begin_watch(a);
    if (a->o.kind == ACTOR_WITNESS || !a->timer_due)
        return;
    if (a->stream && rng_chance(&a->rng, 1, 2))
        say(a, &(struct pb_watch_request){.which = PB_WATCH_PROGRESS, .progress = &nothing});
    a->dozing = !a->dozing && !a->winding_down && rng_chance(&a->rng, 2, 3);
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

bool actor_is_idle(const struct actor *a, int64_t revision)
{
    if (a->o.kind == ACTOR_WRITER)
        return !a->call && (!a->reads_final || a->final_done);
    if (a->o.kind == ACTOR_WITNESS)
        return a->h->seen >= revision;
    if (a->life_count == 0 || !a->stream)
        return a->life_count == LIVES_MAX;
    return history_watch_is_done(a->h, &a->lives[a->life_count - 1]);
}

void actor_check(struct actor *a)
{
    if (a->life_count > 0 && a->stream)
        life(a)->to_the_end = true;
    for (size_t i = 0; i < a->life_count; i++)
        history_check_watch(a->h, &a->lives[i]);
}
