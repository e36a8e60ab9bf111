#include "rpc/rpc.h"

#include "base/assert.h"
#include "rpc/rpc_int.h"

#include <stdio.h>

/* --- methods --- */

static char *path_of(const struct rpc_method *m)
{
    size_t size = strlen(m->service) + strlen(m->name) + 3;
    char *path = mem_alloc(size);

    snprintf(path, size, "/%s/%s", m->service, m->name);
    return path;
}

static void learn_methods(struct rpc *r)
{
    size_t count = r->options.method_count;

    map_init(&r->methods, MAP_BYTES, r->options.seed);
    r->known = mem_new_array(count, struct known_method);
    for (size_t i = 0; i < count; i++) {
        struct known_method *k = &r->known[i];
        k->method = &r->options.methods[i];
        k->path = path_of(k->method);
        k->path_len = strlen(k->path);
        void *twice = map_put(&r->methods, bytes_of_str(k->path), k);
        assert(!twice);
    }
}

/* Calls of one kind come in flocks: mostly it is the same as the last time. */
const struct rpc_method *rpc_method_find(struct rpc *r, struct bytes path)
{
    const struct known_method *k = r->found_last;

    if (!k || !bytes_equal(bytes_of(k->path, k->path_len), path))
        k = map_get(&r->methods, path);
    if (!k)
        return NULL;
    r->found_last = k;
    return k->method;
}

bool rpc_service_is_known(const struct rpc *r, struct bytes service)
{
    for (size_t i = 0; i < r->options.method_count; i++)
        if (bytes_equal(bytes_of_str(r->options.methods[i].service), service))
            return true;
    return false;
}

/* --- life --- */

/* Each of them once: one that stops again is for the next turn. */
static void read_on(struct rpc *r)
{
    struct list now;

    list_init(&now);
    list_append_all(&now, &r->behind);
    for (struct list *link; (link = list_pop_front(&now));)
        rpc_conn_go_on(container_of(link, struct rpc_conn, behind_link));
}

/* Those that had to wait come first, in the order in which they began to. */
static void begin_turn(struct event *e)
{
    struct rpc *r = container_of(e, struct rpc, next_turn);

    for (struct list *link; (link = list_pop_front(&r->again));)
        rpc_conn_touch(container_of(link, struct rpc_conn, again_link));
    read_on(r);
}

void rpc_next_turn(struct rpc *r)
{
    if (!r->next_turn.queued && !r->is_abandoned)
        inbox_put(r->options.io->inbox, &r->next_turn);
}

void rpc_flush_again(struct rpc_conn *c)
{
    struct rpc *r = c->rpc;

    if (list_empty(&c->again_link))
        list_push_back(&r->again, &c->again_link);
    rpc_next_turn(r);
}

/* As much as a turn may do is to be had again. */
static void begin_work(struct rpc *r)
{
    r->fields_left = r->turn.fields;
    r->unpacking_left = r->turn.unpacked;
    r->reading_left = r->turn.read;
}

static void fill_in_defaults(struct rpc_options *o)
{
    if (o->message_bytes_max == 0)
        o->message_bytes_max = RPC_MESSAGE_BYTES_DEFAULT;
    if (o->keepalive_min_ms == 0)
        o->keepalive_min_ms = RPC_PING_MIN_MS;
    if (o->keepalive_interval_ms == 0 || o->keepalive_timeout_ms == 0) {
        o->keepalive_interval_ms = RPC_KEEPALIVE_MS;
        o->keepalive_timeout_ms = RPC_PONG_MS;
    }
}

struct rpc *rpc_open(const struct rpc_options *options)
{
    struct rpc *r = mem_new(struct rpc);

    r->options = *options;
    fill_in_defaults(&r->options);
    r->line = options->line;
    r->logger = options->logger;
    r->clock = options->io->clock;
    r->id_bits = rpc_line_bits(options->rpcs);
    assert(options->nth == 0 || options->nth < options->rpcs);
    conn_limit_init(&r->conn_limit, options->conns_max);
    conn_limit_init(&r->probe_limit, RPC_PROBE_CONNS_MAX);
    r->probe_limit.patience_ms = RPC_PROBE_PATIENCE_MS;
    r->next_turn.run = begin_turn;
    r->patience.on_time = rpc_budget_on_patience;
    r->unpack_patience.on_time = rpc_unpack_on_patience;
    r->callbacks = rpc_conn_callbacks_new();
    r->h2_options = h2_options_new();
    /* nghttp2 would reset streams for what gRPC servers let pass: etcdctl 3.4 sends its whole
     * endpoint, "http://10.0.0.1:2379", as :authority. The other rules are looked after in
     * fields.c. */
    nghttp2_option_set_no_http_messaging(r->h2_options, 1);
    wire_pool_init(&r->pool);
    list_init(&r->conns);
    list_init(&r->dirty);
    list_init(&r->again);
    list_init(&r->behind);
    list_init(&r->packed);
    list_init(&r->sharing);
    list_init(&r->reading);
    r->turn = (struct turn_work){.fields = RPC_TURN_FIELD_BYTES,
                                 .conn_fields_most = RPC_TURN_CONN_FIELD_BYTES,
                                 .conn_fields_least = RPC_TURN_FIELD_BYTES_LEAST,
                                 .unpacked = RPC_TURN_UNPACKED_BYTES,
                                 .read = GATEWAY_TURN_BYTES};
    begin_work(r);
    list_init(&r->ready);
    list_init(&r->probing);
    list_init(&r->flowing);
    for (size_t i = 0; i < ARRAY_LEN(r->spare); i++)
        list_init(&r->spare[i].calls);
    list_init(&r->waiting);
    list_init(&r->starved);
    learn_methods(r);
    return r;
}

static void on_accept(struct listener *l, struct conn *c)
{
    const struct door *door = l->options.context;

    rpc_conn_accepted(door->rpc, c, door->serves);
}

static void on_accept_failed(struct listener *l, enum err e)
{
    const struct door *door = l->options.context;

    log_warn(door->rpc->logger, "failed to accept connections; they wait",
             LOG_STR("error", err_text(e)));
}

enum err rpc_listen(struct rpc *r, const struct rpc_place *place, struct net_address *bound)
{
    struct net *net = place->net ? place->net : r->options.io->net;
    bool is_probe = place->serves == RPC_SERVES_PROBES;
    struct door *door = &r->doors[r->door_count];
    struct listener_options options = {.limit = is_probe ? &r->probe_limit : &r->conn_limit,
                                       .reuse_port = r->options.reuse_port,
                                       .on_accept = on_accept,
                                       .on_failed = on_accept_failed,
                                       .context = door};

    assert(!r->stopping);
    if (r->door_count == RPC_LISTENERS_MAX)
        return ERR_TOO_LARGE;
    *door = (struct door){.rpc = r, .serves = place->serves};
    enum err e = net_listen(net, &place->address, &options, &door->listener);
    if (e != ERR_OK)
        return e;
    r->door_count++;
    *bound = door->listener->address;
    return ERR_OK;
}

static void stop_listening(struct rpc *r)
{
    while (r->door_count > 0)
        listener_close(r->doors[--r->door_count].listener);
}

void rpc_stop(struct rpc *r)
{
    r->stopping = true;
    stop_listening(r);
    LIST_FOREACH (link, &r->conns)
        rpc_conn_stop(container_of(link, struct rpc_conn, link));
}

bool rpc_is_idle(const struct rpc *r)
{
    return r->door_count == 0 && r->conn_count == 0 && !r->next_turn.queued;
}

void rpc_cut(struct rpc *r)
{
    r->stopping = true;
    stop_listening(r);
    LIST_FOREACH (link, &r->conns)
        rpc_conn_cut(container_of(link, struct rpc_conn, link), ERR_CANCELED);
}

/* The core hears no more of it. */
static void tell_gone(struct call *c)
{
    assert(c->life == LIFE_GONE);
    c->life = LIFE_OVER;
    if (c->out == OUT_CLOSED)
        rpc_call_free(c);
}

static void free_all(struct rpc *r)
{
    assert(rpc_is_idle(r));
    for (struct list *link; (link = list_pop_front(&r->ready));)
        tell_gone(container_of(link, struct call, ready_link));
    for (struct list *link; (link = list_pop_front(&r->probing));)
        tell_gone(container_of(link, struct call, ready_link));
    assert(r->call_count == 0);
    assert(r->kept == 0);
    assert(r->unpacked == 0);
    assert(list_empty(&r->sharing));
    assert(!r->unpacking);
    assert(r->owed == 0);
    assert(r->granted == 0);
    assert(r->beyond == 0);
    assert(r->waiting_count == 0);

    for (size_t i = 0; i < ARRAY_LEN(r->spare); i++)
        for (struct list *link; (link = list_pop_front(&r->spare[i].calls));)
            rpc_call_destroy(r, &r->spare[i], container_of(link, struct call, link));
    mem_free(r->slots);
    for (size_t i = 0; i < r->options.method_count; i++)
        mem_free(r->known[i].path);
    mem_free(r->known);
    map_free(&r->methods);
    nghttp2_session_callbacks_del(r->callbacks);
    nghttp2_option_del(r->h2_options);
    wire_pool_free(&r->pool);
    gzip_free(r->gzip);
    buf_free(&r->scratch);
    message_pool_free(&r->spares);
    conn_limit_free(&r->conn_limit);
    conn_limit_free(&r->probe_limit);
    mem_free(r);
}

void rpc_close(struct rpc *r)
{
    if (!r)
        return;
    assert(list_empty(&r->pool.sent));
    timer_stop(r->clock, &r->patience);
    free_all(r);
}

void rpc_abandon(struct rpc *r)
{
    if (!r)
        return;
    r->door_count = 0;
    r->next_turn.queued = false;
    r->is_abandoned = true;
    r->patience = (struct timer){.on_time = rpc_budget_on_patience};
    r->unpack_patience = (struct timer){.on_time = rpc_unpack_on_patience};
    LIST_FOREACH (link, &r->conns)
        rpc_conn_abandon(container_of(link, struct rpc_conn, link));
    free_all(r);
}

/* --- events --- */

void rpc_event_add(struct call *c, uint8_t pending)
{
    struct rpc *r = c->conn->rpc;

    assert(c->life != LIFE_OVER);
    assert(c->life != LIFE_GONE || pending == PENDING_GONE); /* nothing after that */

    c->pending |= pending;
    if ((pending & PENDING_FLOW) && list_empty(&c->flow_link))
        list_push_back(&r->flowing, &c->flow_link);
    if ((c->pending & ~PENDING_FLOW) && list_empty(&c->ready_link) &&
        (c->life != LIFE_UNTOLD || rpc_budget_lets_in(c)))
        list_push_back(c->conn->serves == RPC_SERVES_PROBES ? &r->probing : &r->ready,
                       &c->ready_link);
}

void rpc_event_drop(struct call *c, uint8_t pending)
{
    if ((c->pending & pending) == 0)
        return;
    c->pending &= (uint8_t)~pending;
    if ((c->pending & ~PENDING_FLOW) == 0)
        list_remove(&c->ready_link);
    if ((c->pending & PENDING_FLOW) == 0)
        list_remove(&c->flow_link);
}

static void fill_in(struct call *c, struct rpc_event *out)
{
    switch (out->kind) {
    case RPC_OPENED:
        out->bytes = c->granted;
        rpc_call_show(c, out);
        break;
    case RPC_MESSAGE:
        out->content = c->reader.content;
        out->message.len = (uint32_t)out->content.len;
        c->reader.content = (struct buf){0};
        c->in = IN_LENT;
        if (c->life == LIFE_UNTOLD)
            rpc_call_show(c, out);
        break;
    case RPC_SENT:
        out->bytes = c->queue.left_cost;
        c->queue.left_cost = 0;
        break;
    case RPC_WANTED:
        out->bytes = c->wanted;
        break;
    case RPC_HTTP:
        rpc_plain_show(c, out);
        break;
    case RPC_ENDED:
    case RPC_GONE:
    case RPC_RESERVED:
        break;
    }
}

/* The next of a call's events that go this way. */
static void deliver(struct call *c, enum rpc_lane lane, unsigned pending)
{
    static const enum rpc_event_kind kinds[] = {RPC_OPENED, RPC_MESSAGE, RPC_ENDED, RPC_SENT,
                                                RPC_WANTED, RPC_HTTP,    RPC_GONE,  RPC_RESERVED};
    unsigned bit = (unsigned)__builtin_ctz(pending);

    assert(bit < ARRAY_LEN(kinds));
    c->pending &= (uint8_t)~(1u << bit);
    if (pending == 1u << bit)
        list_remove(lane == RPC_LANE_FLOW ? &c->flow_link : &c->ready_link);
    struct rpc_event e = {.kind = kinds[bit],
                          .call = c->id,
                          .conn = c->conn->number,
                          .is_probe = lane == RPC_LANE_PROBES};
    fill_in(c, &e);
    if (c->life == LIFE_UNTOLD)
        c->life = LIFE_TOLD;
    rpc_line_put_event(c->conn->rpc->line, lane, &e);
    if (e.kind == RPC_GONE)
        tell_gone(c);
}

/* Some of them are refused. An io thread has flushed this turn's replies by now, and may sleep
 * until a client says something: so there is another turn. */
static void read_long_messages(struct rpc *r)
{
    rpc_unpack_some(r);
    rpc_gateway_read_some(r);
    if (!list_empty(&r->dirty))
        rpc_next_turn(r);
}

void rpc_deliver(struct rpc *r)
{
    if (!list_empty(&r->packed) || !list_empty(&r->reading))
        read_long_messages(r);
    while (!list_empty(&r->ready) && rpc_line_has_budget(r->line, RPC_LANE_CALLS)) {
        struct call *c = container_of(r->ready.next, struct call, ready_link);
        deliver(c, RPC_LANE_CALLS, c->pending & ~(unsigned)PENDING_FLOW);
    }
    while (!list_empty(&r->probing) && rpc_line_has_budget(r->line, RPC_LANE_PROBES)) {
        struct call *c = container_of(r->probing.next, struct call, ready_link);
        deliver(c, RPC_LANE_PROBES, c->pending & ~(unsigned)PENDING_FLOW);
    }
    while (!list_empty(&r->flowing) && rpc_line_has_budget(r->line, RPC_LANE_FLOW)) {
        struct call *c = container_of(r->flowing.next, struct call, flow_link);
        deliver(c, RPC_LANE_FLOW, c->pending & PENDING_FLOW);
    }
}

bool rpc_has_events(const struct rpc *r)
{
    return (!list_empty(&r->ready) && rpc_line_has_budget(r->line, RPC_LANE_CALLS)) ||
           (!list_empty(&r->probing) && rpc_line_has_budget(r->line, RPC_LANE_PROBES)) ||
           (!list_empty(&r->flowing) && rpc_line_has_budget(r->line, RPC_LANE_FLOW));
}

void rpc_flush(struct rpc *r)
{
    for (struct rpc_reply v; rpc_line_take_reply(r->line, &v);)
        rpc_call_reply(r, &v);
    r->bulk_left = RPC_FLUSH_BULK_BYTES;
    r->extra_left = RPC_FLUSH_EXTRA_BYTES;
    begin_work(r);
    for (unsigned i = 0; i < RPC_FLUSH_CONNS_MAX && !list_empty(&r->dirty); i++)
        rpc_conn_flush(container_of(list_pop_front(&r->dirty), struct rpc_conn, dirty_link));
    if (!list_empty(&r->dirty))
        rpc_next_turn(r); /* in the order in which they came */
    if (!rpc_budget_look_again(r))
        rpc_next_turn(r);
}

struct gzip *rpc_gzip(struct rpc *r)
{
    if (!r->gzip)
        r->gzip = gzip_new();
    return r->gzip;
}

/* --- looking at it --- */

struct rpc_status rpc_status(const struct rpc *r)
{
    return (struct rpc_status){.conns = r->conn_count,
                               .calls = r->call_count,
                               .received_bytes = r->received_bytes,
                               .sent_bytes = r->sent_bytes,
                               .owed_bytes = r->owed,
                               .waiting_conns = r->waiting_count};
}

void rpc_check(const struct rpc *r)
{
    size_t conns = 0;

    conn_limit_check(&r->conn_limit);
    conn_limit_check(&r->probe_limit);
    LIST_FOREACH (link, &r->conns) {
        rpc_conn_check(container_of(link, struct rpc_conn, link));
        conns++;
    }
    assert(conns == r->conn_count);
    LIST_FOREACH (link, &r->ready)
        assert((container_of(link, struct call, ready_link)->pending & ~PENDING_FLOW) != 0);
    LIST_FOREACH (link, &r->flowing)
        assert((container_of(link, struct call, flow_link)->pending & PENDING_FLOW) != 0);
    for (size_t i = 0; i < ARRAY_LEN(r->spare); i++)
        assert(r->spare[i].count <= RPC_SPARE_CALLS_MAX);
    assert(r->unpacking || r->unpacked_part.len == 0);
    rpc_budget_check(r);
}
