#include "cluster/load.h"

#include "cluster/caller_tls.h"
#include "io/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    TURN_MS = 5,
    TIMEOUT_MS_MIN = 300, /* of its calls */
    TIMEOUT_MS_MAX = 2500,
    NUDGE_MS = 1000, /* between two puts by way of somebody else than who is waited for */
    CONNECT_MS_MAX = 1000,
    RECONNECT_MS = 50,
    STATUS_TIMEOUT_MS = 500,
    VALUE_BYTES = 64,               /* mostly */
    LARGE_VALUE_BYTES_MAX = 100000, /* so that messages between members come in pieces */
    COMPACT_BEHIND = 200,           /* revisions that all watchers have seen */
};

static uint64_t now_ns(struct load *l)
{
    return caller_now_ns(&l->caller);
}

const char *load_problem(const struct load *l)
{
    return l->record.problem[0] ? l->record.problem : l->fleet->problem;
}

/* --- what a client asks --- */

static struct bytes key_text(struct load *l, unsigned key)
{
    char text[RECORD_KEY_BYTES];

    return arena_copy(&l->arena, bytes_of_str(record_key(key, text)));
}

static struct bytes value_text(struct load *l, size_t op)
{
    size_t size = VALUE_BYTES;

    if (rng_chance(&l->rng, 1, 50))
        size += rng_below(&l->rng, LARGE_VALUE_BYTES_MAX);
    char *text = arena_alloc(&l->arena, size);
    int len = snprintf(text, size, "%zu ", op);
    memset(text + len, 'x', size - (size_t)len);
    return bytes_of(text, size);
}

static void begin_put(struct load_client *c, unsigned key)
{
    struct load *l = c->load;

    c->op = record_begin(&l->record, &(struct record_op){.kind = RECORD_PUT, .key = key});
    struct pb_put_request put = {.key = key_text(l, key), .value = value_text(l, c->op)};
    ask_start(&c->ask, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
}

static void begin_delete(struct load_client *c, unsigned key)
{
    struct load *l = c->load;
    struct pb_delete_range_request request = {.key = key_text(l, key)};

    c->op = record_begin(&l->record, &(struct record_op){.kind = RECORD_DELETE, .key = key});
    ask_start(&c->ask, "/etcdserverpb.KV/DeleteRange", &pb_delete_range_request_schema, &request);
}

/* Mostly with what the key was when it was last seen by anybody: some hold and some do not. */
static int64_t some_comparison(struct load *l, unsigned key)
{
    const struct record_list *events = &l->record.of_key[key];
    const struct record_event *last =
        events->count ? &l->record.events[events->at[events->count - 1]] : NULL;

    return last && !last->deleted ? last->kv.mod : 0;
}

static void begin_swap(struct load_client *c, unsigned key)
{
    struct load *l = c->load;
    unsigned other = (key + 1 + (unsigned)rng_below(&l->rng, RECORD_KEYS - 1)) % RECORD_KEYS;
    int64_t compared = some_comparison(l, key);

    c->op = record_begin(
        &l->record,
        &(struct record_op){.kind = RECORD_SWAP, .key = key, .other = other, .compared = compared});
    struct bytes value = value_text(l, c->op);
    struct pb_put_request puts[2] = {{.key = key_text(l, key), .value = value},
                                     {.key = key_text(l, other), .value = value}};
    struct pb_range_request range = {.key = puts[0].key};
    struct pb_request_op success[2] = {{.which = PB_OP_PUT, .put = &puts[0]},
                                       {.which = PB_OP_PUT, .put = &puts[1]}};
    struct pb_request_op failure = {.which = PB_OP_RANGE, .range = &range};
    struct pb_compare compare = {.target = PB_TARGET_MOD,
                                 .key = puts[0].key,
                                 .which = PB_OPERAND_MOD_REVISION,
                                 .mod_revision = compared};
    struct pb_txn_request txn = {
        .compare = {&compare, 1}, .success = {success, 2}, .failure = {&failure, 1}};
    ask_start(&c->ask, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);
}

static void begin_read(struct load_client *c, unsigned key, bool is_local, bool reads_all)
{
    struct load *l = c->load;
    struct pb_range_request request = {.key = reads_all ? BYTES("r/") : key_text(l, key),
                                       .range_end = reads_all ? BYTES("r0") : (struct bytes){0},
                                       .serializable = is_local || l->reads_stale};

    c->op = record_begin(&l->record,
                         &(struct record_op){.kind = is_local ? RECORD_READ_LOCAL : RECORD_READ,
                                             .key = key,
                                             .reads_all = reads_all,
                                             .floor = c->told});
    ask_start(&c->ask, "/etcdserverpb.KV/Range", &pb_range_request_schema, &request);
}

static void begin_reader(struct load_client *c)
{
    struct load *l = c->load;
    unsigned key = (unsigned)rng_below(&l->rng, RECORD_KEYS);

    c->ask.timeout_ns = TIMEOUT_MS_MIN * NS_PER_MS;
    begin_read(c, key, false, false);
    arena_reset(&l->arena);
}

static void begin_something(struct load_client *c)
{
    struct load *l = c->load;
    unsigned key = (unsigned)rng_below(&l->rng, RECORD_KEYS);
    uint64_t dice = rng_below(&l->rng, 20);
    bool is_local = rng_chance(&l->rng, 1, 4);
    bool reads_all = rng_chance(&l->rng, 1, 3);

    c->ask.timeout_ns = rng_between(&l->rng, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX) * NS_PER_MS;
    if (dice < 7)
        begin_put(c, key);
    else if (dice < 9)
        begin_delete(c, key);
    else if (dice < 12)
        begin_swap(c, key);
    else
        begin_read(c, key, is_local, reads_all);
    arena_reset(&l->arena);
}

/* --- what it is told --- */

static void show_all(struct load *l, size_t op, const struct pb_range_response *response)
{
    for (size_t i = 0; i < response->kvs.count; i++)
        record_shown(&l->record, op, &response->kvs.at[i]);
}

/* The header's revision, or 0 if it cannot be decoded. */
static int64_t hear_delete(struct load *l, size_t op, struct bytes wire, struct arena *arena)
{
    struct pb_delete_range_response response = {0};

    if (pb_decode_delete_range_response(wire, arena, &response) != ERR_OK || !response.header)
        return 0;
    record_write_done(&l->record, op, response.header->revision, response.deleted > 0);
    return response.header->revision;
}

static int64_t hear_swap(struct load *l, size_t op, struct bytes wire, struct arena *arena)
{
    struct pb_txn_response response = {0};

    if (pb_decode_txn_response(wire, arena, &response) != ERR_OK || !response.header)
        return 0;
    if (!response.succeeded && response.responses.count == 1 &&
        response.responses.at[0].which == PB_OP_RANGE)
        show_all(l, op, response.responses.at[0].range);
    record_write_done(&l->record, op, response.header->revision, response.succeeded);
    return response.header->revision;
}

static int64_t hear_read(struct load *l, size_t op, struct bytes wire, struct arena *arena)
{
    struct pb_range_response response = {0};

    if (pb_decode_range_response(wire, arena, &response) != ERR_OK || !response.header)
        return 0;
    show_all(l, op, &response);
    record_read_done(&l->record, op, response.header->revision);
    l->reads++;
    return response.header->revision;
}

static int64_t hear_put(struct load_client *c, struct bytes wire, struct arena *arena)
{
    struct pb_put_response response = {0};

    if (pb_decode_put_response(wire, arena, &response) != ERR_OK || !response.header)
        return 0;
    record_write_done(&c->load->record, c->op, response.header->revision, true);
    c->put_done = true;
    c->term = response.header->raft_term;
    return response.header->revision;
}

static int64_t hear(struct load_client *c, struct bytes wire, struct arena *arena)
{
    struct load *l = c->load;
    size_t op = c->op;

    switch (l->record.ops[op].kind) {
    case RECORD_PUT:
        return hear_put(c, wire, arena);
    case RECORD_DELETE:
        return hear_delete(l, op, wire, arena);
    case RECORD_SWAP:
        return hear_swap(l, op, wire, arena);
    default:
        return hear_read(l, op, wire, arena);
    }
}

/*
 * Errors that say: try again, perhaps elsewhere. Any other is not for what happens here. A server
 * of Go's resets a call whose time is up, sometimes before we find so ourselves; a leader that is
 * handing over drops proposals in these words, and one of Go's that was removed, and ends, says the
 * third. Who asks while users and roles are changed may be known by the old ones.
 */
static bool may_fail_so(struct ask *a)
{
    switch (a->code) {
    case RPC_UNAVAILABLE:
    case RPC_DEADLINE_EXCEEDED:
    case RPC_RESOURCE_EXHAUSTED:
    case RPC_CANCELED:
        return true;
    case RPC_UNKNOWN:
        return strcmp(buf_str(&a->text), "raft proposal dropped") == 0 ||
               strcmp(buf_str(&a->text), "etcdserver: too many requests") == 0 ||
               strcmp(buf_str(&a->text), "raft: stopped") == 0;
    case RPC_INVALID_ARGUMENT:
        return strcmp(buf_str(&a->text), "etcdserver: revision of auth store is old") == 0;
    case RPC_FAILED_PRECONDITION: /* it has just joined, and is told of before it is promoted */
        return strcmp(buf_str(&a->text), "etcdserver: rpc not supported for learner") == 0;
    default:
        return false;
    }
}

static void client_done(struct ask *a)
{
    struct load_client *c = a->context;
    struct load *l = c->load;
    struct arena arena = {0};

    c->next_ns = now_ns(l) + rng_below(&l->rng, l->pause_ms_max + 1) * NS_PER_MS;
    if (a->code == RPC_OK) {
        int64_t revision = hear(c, buf_bytes(&a->answer), &arena);
        if (revision == 0)
            record_fail(&l->record, "the response of operation %zu cannot be decoded", c->op);
        if (revision > c->told)
            c->told = revision;
        l->succeeded++;
        arena_free(&arena);
        return;
    }
    if (!may_fail_so(a))
        record_fail(&l->record, "operation %zu failed with %d: %s", c->op, (int)a->code,
                    buf_str(&a->text));
    l->failed++;
    c->is_lost = true;
    c->next_ns += RECONNECT_MS * NS_PER_MS;
}

/* --- clients --- */

static void client_connect(struct load_client *c)
{
    struct load *l = c->load;

    if (c->may_go)
        c->member = (unsigned)rng_below(&l->rng, l->fleet->count);
    line_reconnect(c->ask.line, &l->fleet->members[c->member].address);
    c->since_ns = now_ns(l);
    c->told = 0;
    c->is_lost = false;
}

/* Can a call begin? If not, it is being taken care of. */
static bool client_is_ready(struct load_client *c)
{
    struct load *l = c->load;
    uint64_t now = now_ns(l);
    const struct line *line = c->ask.line;

    if (!ask_is_over(&c->ask) || now < c->next_ns)
        return false;
    bool gives_up = !line->is_open && now > c->since_ns + CONNECT_MS_MAX * NS_PER_MS;
    if (!line->is_gone && !c->is_lost && !gives_up)
        return line->is_open;
    client_connect(c);
    c->next_ns = now + RECONNECT_MS * NS_PER_MS;
    return false;
}

void load_client_init(struct load *l, struct load_client *c, struct line *line)
{
    *c = (struct load_client){.load = l};
    c->ask = (struct ask){.line = line, .on_over = client_done, .context = c};
}

void load_put(struct load_client *c, unsigned key, uint64_t timeout_ms)
{
    c->put_done = false;
    c->ask.timeout_ns = timeout_ms * NS_PER_MS;
    begin_put(c, key);
    arena_reset(&c->load->arena);
}

static void client_open_for(struct load *l, struct load_client *c, unsigned member, bool may_go)
{
    load_client_init(l, c, caller_connect_to(&l->caller, &l->fleet->members[member].address));
    c->member = member;
    c->may_go = may_go;
    c->since_ns = now_ns(l);
}

/* --- watchers --- */

static void watcher_begin(struct load_watcher *w)
{
    struct pb_watch_create_request create = {
        .key = BYTES("r/"), .range_end = BYTES("r0"), .start_revision = w->last + 1};

    ask_stream(&w->ask, "/etcdserverpb.Watch/Watch");
    ask_say(&w->ask, &pb_watch_request_schema,
            &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
}

static void watcher_told(struct load_watcher *w, const struct pb_watch_response *response)
{
    struct record *r = &w->load->record;

    if (response->events.count > 0 && response->events.at[0].kv &&
        response->events.at[0].kv->mod_revision <= w->last)
        record_fail(r,
                    "the watcher of member %u was shown revision %" PRId64 " after all of %" PRId64,
                    w->member + 1, response->events.at[0].kv->mod_revision, w->last);
    for (size_t i = 0; i < response->events.count; i++)
        record_saw(r, w->member, &response->events.at[i]);
    if (response->events.count > 0)
        w->last = record_watched(r, w->member);
    if (response->canceled) /* no reason is a good one: compactions stay behind all watchers */
        record_fail(r,
                    "the watcher of member %u at %" PRId64 " was cancelled, compaction %" PRId64
                    ": %.*s",
                    w->member + 1, w->last + 1, response->compact_revision,
                    (int)response->cancel_reason.len, (const char *)response->cancel_reason.at);
}

static void watcher_heard(struct ask *a, struct bytes message)
{
    struct load_watcher *w = a->context;
    struct pb_watch_response response = {0};
    struct arena arena = {0};

    if (pb_decode_watch_response(message, &arena, &response) == ERR_OK)
        watcher_told(w, &response);
    else
        record_fail(&w->load->record, "a watch response of member %u cannot be decoded",
                    w->member + 1);
    arena_free(&arena);
}

static void watcher_turn(struct load_watcher *w)
{
    struct load *l = w->load;

    if (!ask_is_over(&w->ask) || now_ns(l) < w->next_ns)
        return;
    w->next_ns = now_ns(l) + RECONNECT_MS * NS_PER_MS;
    if (!w->ask.line->is_open || w->ask.line->is_gone) {
        line_reconnect(w->ask.line, &l->fleet->members[w->member].address);
        return;
    }
    watcher_begin(w);
    w->begun++;
    l->watches++;
}

static void watcher_open(struct load *l, unsigned member)
{
    struct load_watcher *w = &l->watchers[member];

    *w = (struct load_watcher){.load = l, .member = member, .last = 1};
    w->ask = (struct ask){.on_message = watcher_heard, .context = w};
    w->ask.line = caller_connect_to(&l->caller, &l->fleet->members[member].address);
}

/* --- compactions: behind what all watchers have seen, or they could not go on --- */

static void compact_some(struct load *l)
{
    unsigned member = (unsigned)rng_below(&l->rng, l->fleet->count);
    struct line *line = l->probes[member].ask.line;
    int64_t revision = INT64_MAX;

    for (unsigned i = 0; i < l->fleet->count; i++)
        if (l->watchers[i].last < revision)
            revision = l->watchers[i].last;
    revision -= COMPACT_BEHIND;
    if (!ask_is_over(&l->compaction) || revision <= l->compacted || !line->is_open || line->is_gone)
        return;
    l->compacted = revision;
    l->compaction.line = line;
    ask_start(&l->compaction, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema,
              &(struct pb_compaction_request){.revision = revision});
}

void load_ballast(struct load *l, unsigned member, size_t bytes)
{
    struct line *line = l->probes[member].ask.line;

    if (!ask_is_over(&l->ballast) || !line->is_open || line->is_gone)
        return;
    l->ballast.line = line;
    struct pb_put_request put = {.key = BYTES("ballast"),
                                 .value = bytes_of(arena_alloc(&l->arena, bytes), bytes)};
    struct pb_request_op success = {.which = PB_OP_PUT, .put = &put};
    struct pb_compare never = {.target = PB_TARGET_MOD,
                               .key = put.key,
                               .which = PB_OPERAND_MOD_REVISION,
                               .mod_revision = INT64_MAX};
    struct pb_txn_request txn = {.compare = {&never, 1}, .success = {&success, 1}};
    ask_start(&l->ballast, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);
    arena_reset(&l->arena);
}

/* --- all of it --- */

static enum err open_tls(struct load *l)
{
    struct buf why = {0};

    if (!l->fleet->certs)
        return ERR_OK;
    enum err e = caller_tls_open(&l->caller, l->fleet->certs, &l->fleet->arena, &why, &l->tls);
    if (e != ERR_OK)
        record_fail(&l->record, "%s", buf_str(&why));
    buf_free(&why);
    return e;
}

enum err load_open(struct load *l, const struct load_options *o)
{
    *l = (struct load){
        .fleet = o->fleet, .client_count = o->clients, .pause_ms_max = o->pause_ms_max};
    assert(o->clients <= LOAD_CLIENTS_MAX);
    enum err e = caller_init(&l->caller);
    if (e == ERR_OK)
        e = open_tls(l);
    if (e != ERR_OK)
        return e;
    rng_seed(&l->rng, o->seed);
    for (unsigned i = 0; i < l->client_count; i++)
        client_open_for(l, &l->clients[i], i % l->fleet->count, true);
    for (unsigned i = 0; i < l->fleet->count * LOAD_READERS; i++)
        client_open_for(l, &l->readers[i], i % l->fleet->count, false);
    for (unsigned i = 0; i < l->fleet->count; i++) {
        client_open_for(l, &l->probes[i], i, false);
        watcher_open(l, i);
    }
    l->compaction.timeout_ns = l->ballast.timeout_ns = STATUS_TIMEOUT_MS * NS_PER_MS;
    return ERR_OK;
}

void load_close(struct load *l)
{
    for (unsigned i = 0; i < l->client_count; i++)
        ask_free(&l->clients[i].ask);
    for (unsigned i = 0; i < l->fleet->count * LOAD_READERS; i++)
        ask_free(&l->readers[i].ask);
    for (unsigned i = 0; i < l->fleet->count; i++) {
        ask_free(&l->probes[i].ask);
        ask_free(&l->watchers[i].ask);
    }
    ask_free(&l->compaction);
    ask_free(&l->ballast);
    caller_tls_close(&l->caller, l->tls);
    caller_close(&l->caller);
    record_free(&l->record);
    arena_free(&l->arena);
}

/* A probe whose connection is being made anew takes the compaction's call with it. */
static bool probe_is_ready(struct load *l, struct load_client *c)
{
    bool is_lost = c->ask.line->is_gone || c->is_lost;

    if (is_lost && l->compaction.line == c->ask.line)
        ask_cancel(&l->compaction);
    if (is_lost && l->ballast.line == c->ask.line)
        ask_cancel(&l->ballast);
    return client_is_ready(c);
}

static bool load_turn(struct load *l)
{
    for (unsigned i = 0; i < l->client_count; i++)
        if (l->is_on && client_is_ready(&l->clients[i]))
            begin_something(&l->clients[i]);
    for (unsigned i = 0; i < l->fleet->count * LOAD_READERS; i++)
        if (l->is_on && client_is_ready(&l->readers[i]))
            begin_reader(&l->readers[i]);
    for (unsigned i = 0; i < l->fleet->count; i++)
        watcher_turn(&l->watchers[i]);
    if (l->is_on && rng_chance(&l->rng, 1, 100))
        compact_some(l);
    caller_turn(&l->caller, TURN_MS);
    if (l->on_turn)
        l->on_turn(l->context);
    return fleet_look(l->fleet) && !l->record.problem[0];
}

bool load_run_ms(struct load *l, uint64_t ms)
{
    uint64_t until = now_ns(l) + ms * NS_PER_MS;

    while (now_ns(l) < until)
        if (!load_turn(l))
            return false;
    return true;
}

/* --- settling --- */

static bool calls_are_over(const struct load *l)
{
    for (unsigned i = 0; i < l->client_count; i++)
        if (!ask_is_over(&l->clients[i].ask))
            return false;
    for (unsigned i = 0; i < l->fleet->count * LOAD_READERS; i++)
        if (!ask_is_over(&l->readers[i].ask))
            return false;
    return true;
}

void load_probe_begin(struct load *l, unsigned member)
{
    l->probes[member].put_done = false;
}

bool load_probe(struct load *l, unsigned member)
{
    struct load_client *c = &l->probes[member];

    if (!c->put_done && probe_is_ready(l, c))
        load_put(c, member, TIMEOUT_MS_MAX);
    return c->put_done;
}

/* A put by way of each member, until one has succeeded. */
static bool probes_are_through(struct load *l)
{
    bool all = true;

    for (unsigned i = 0; i < l->fleet->count; i++)
        all &= load_probe(l, i);
    return all;
}

/* Of the last revision all events, too: the order knows how many it has. */
static bool watcher_is_done(const struct load *l, unsigned member)
{
    return l->watchers[member].last >= l->record.told &&
           l->record.watched[member] == l->record.event_count;
}

static bool watchers_are_done(const struct load *l)
{
    for (unsigned i = 0; i < l->fleet->count; i++)
        if (!watcher_is_done(l, i))
            return false;
    return true;
}

static const char *what_is_missing(struct load *l)
{
    if (!calls_are_over(l))
        return arena_printf(&l->arena, "calls are still under way");
    for (unsigned i = 0; i < l->fleet->count; i++) {
        if (!l->probes[i].put_done)
            return arena_printf(&l->arena, "no put by way of m%u has succeeded: %d %s", i + 1,
                                (int)l->probes[i].ask.code, buf_str(&l->probes[i].ask.text));
        if (!watcher_is_done(l, i))
            return arena_printf(
                &l->arena,
                "the watcher of m%u has seen %" PRId64 " of %" PRId64 ", %zu events of %zu", i + 1,
                l->watchers[i].last, l->record.told, l->record.watched[i], l->record.event_count);
    }
    return "nothing";
}

/*
 * Real etcd counts a snapshot's entries as applied only with the next one behind it. If there are
 * more than 5000, it refuses whatever it is asked for until somebody writes by way of another
 * member; so while one is waited for, another goes on.
 */
static void nudge(struct load *l)
{
    bool is_any_missing = false;

    for (unsigned i = 0; i < l->fleet->count; i++)
        is_any_missing |= !l->probes[i].put_done;
    for (unsigned i = 0; i < l->fleet->count && is_any_missing; i++)
        if (l->probes[i].put_done) {
            load_probe_begin(l, i);
            return;
        }
}

bool load_settle(struct load *l, uint64_t at_most_ms)
{
    uint64_t until = now_ns(l) + at_most_ms * NS_PER_MS, nudge_ns = 0;

    l->is_on = false;
    for (unsigned i = 0; i < l->fleet->count; i++)
        load_probe_begin(l, i);
    while (!calls_are_over(l) || !probes_are_through(l) || !watchers_are_done(l)) {
        if (now_ns(l) > nudge_ns) {
            nudge(l);
            nudge_ns = now_ns(l) + NUDGE_MS * NS_PER_MS;
        }
        if (now_ns(l) > until)
            record_fail(&l->record, "%" PRIu64 " ms after everything was healed: %s", at_most_ms,
                        what_is_missing(l));
        if (!load_turn(l))
            return false;
    }
    return true;
}

/* --- asking a member about itself --- */

/* One call to one member; true if it succeeded. */
static bool probe(struct load *l, unsigned member, const char *path, const struct pb_schema *schema,
                  const void *request, struct ask *out)
{
    struct line *line = l->probes[member].ask.line;

    *out = (struct ask){.line = line, .timeout_ns = STATUS_TIMEOUT_MS * NS_PER_MS};
    if (!line->is_open || line->is_gone)
        return false;
    ask_start(out, path, schema, request);
    while (!ask_is_over(out))
        if (!load_turn(l))
            return false;
    return out->code == RPC_OK;
}

/* False also if it has none to tell; that it fails otherwise is a problem. */
static bool hash_of(struct load *l, unsigned member, struct pb_hash_kv_response *out)
{
    struct pb_hash_kv_request request = {.revision = l->record.told};
    struct arena arena = {0};
    struct ask a;
    bool known =
        probe(l, member, "/etcdserverpb.Maintenance/HashKV", &pb_hash_kv_request_schema, &request,
              &a) &&
        pb_decode(&pb_hash_kv_response_schema, buf_bytes(&a.answer), &arena, out) == ERR_OK;

    if (!known && a.code != RPC_UNIMPLEMENTED)
        record_fail(&l->record, "m%u does not say its hash: %d %s", member + 1, (int)a.code,
                    buf_str(&a.text));
    ask_free(&a);
    arena_free(&arena); /* of the header, which is not looked at */
    return known;
}

/* A member that has compacted further than the others has another hash, and is not compared. */
static void compare_hashes(struct load *l)
{
    struct pb_hash_kv_response first = {0}, next = {0};
    unsigned alike = 0;

    for (unsigned i = 0; i < l->fleet->count; i++) {
        if (!hash_of(l, i, &next))
            return;
        if (i == 0)
            first = next;
        bool is_comparable = next.compact_revision == first.compact_revision;
        if (is_comparable && next.hash != first.hash)
            record_fail(&l->record, "m1 has hash %u at revision %" PRId64 ", m%u has %u",
                        first.hash, l->record.told, i + 1, next.hash);
        alike += is_comparable;
    }
    l->hashes += alike == l->fleet->count;
}

bool load_compare_stores(struct load *l)
{
    for (unsigned i = 0; i < l->fleet->count; i++) {
        struct load_client *c = &l->probes[i];
        c->told = l->record.told; /* it has shown all of that to its watcher */
        c->ask.timeout_ns = TIMEOUT_MS_MAX * NS_PER_MS;
        begin_read(c, 0, true, true);
        arena_reset(&l->arena);
        while (!ask_is_over(&c->ask))
            if (!load_turn(l))
                return false;
        if (c->ask.code != RPC_OK)
            record_fail(&l->record, "m%u does not show its keys: %d %s", i + 1, (int)c->ask.code,
                        buf_str(&c->ask.text));
    }
    compare_hashes(l);
    return !l->record.problem[0];
}

/* What it calls itself, and whom it calls the leader; 0 if it does not say. */
static void look_at(struct load *l, unsigned member, uint64_t *id, uint64_t *leader)
{
    struct pb_status_response status = {0};
    struct arena arena = {0};
    struct ask a;

    *id = *leader = 0;
    if (probe(l, member, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema,
              &(struct pb_empty){0}, &a) &&
        pb_decode(&pb_status_response_schema, buf_bytes(&a.answer), &arena, &status) == ERR_OK &&
        status.header) {
        *id = status.header->member_id;
        *leader = status.leader;
    }
    ask_free(&a);
    arena_free(&arena);
}

int load_leader(struct load *l)
{
    uint64_t ids[FLEET_MAX], leader = 0, its_leader;

    for (unsigned i = 0; i < l->fleet->count; i++) {
        look_at(l, i, &ids[i], &its_leader);
        leader = its_leader ? its_leader : leader;
    }
    for (unsigned i = 0; i < l->fleet->count; i++)
        if (leader != 0 && ids[i] == leader)
            return (int)i;
    return -1;
}
