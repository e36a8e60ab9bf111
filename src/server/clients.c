#include "server/clients.h"

#include "api/api.h"
#include "config/config.h"
#include "io/clock.h"
#include "io/either.h"
#include "io/io.h"
#include "io/net.h"
#include "rpc/rpc.h"
#include "server/listen_refusal.h"
#include "server/peering.h"
#include "server/state.h"
#include "server/wires.h"
#include "watch/watch.h"

/* Where it is listened. */
struct clients_place {
    const struct config_listen *listen;
    enum rpc_serves serves;
    bool is_secure;
    bool is_shared; /* the same address is there by TLS, too, or without */
    struct net_address bound;
};

/* --- listening --- */

/* With places for HTTP alone, the others are for gRPC alone. */
static void add_places(struct clients *c, const struct config_listens *listens,
                       enum rpc_serves serves)
{
    for (size_t i = 0; i < listens->count; i++) {
        enum url_scheme scheme = listens->at[i].url.scheme;
        bool is_secure =
            serves == RPC_SERVES_PROBES ? scheme == URL_HTTPS : url_scheme_is_secure(scheme);
        c->places[c->place_count++] = (struct clients_place){
            .listen = &listens->at[i], .serves = serves, .is_secure = is_secure};
    }
}

static void find_places(struct clients *c)
{
    const struct config *config = c->config;
    size_t count =
        config->listen_clients.count + config->listen_http.count + config->listen_metrics.count;

    c->places = mem_new_array(count, struct clients_place);
    add_places(c, &config->listen_clients,
               config->listen_http.count > 0 ? RPC_SERVES_GRPC : RPC_SERVES_ALL);
    add_places(c, &config->listen_http, RPC_SERVES_HTTP);
    add_places(c, &config->listen_metrics, RPC_SERVES_PROBES);
}

/* Port 0 is another address each time. */
static bool are_one_address(const struct clients_place *a, const struct clients_place *b)
{
    const struct net_address *address = &a->listen->address;

    return a->serves == b->serves && a->is_secure != b->is_secure &&
           (address->port != 0 || address->family == NET_UNIX) &&
           net_address_equal(address, &b->listen->address);
}

/* What is at an address both by TLS and without is told apart by its first byte. */
static void find_shared_places(struct clients *c)
{
    for (size_t i = 0; i < c->place_count; i++) {
        for (size_t k = 0; k < c->place_count; k++)
            c->places[i].is_shared |= are_one_address(&c->places[i], &c->places[k]);
        if (c->places[i].is_shared && !c->either)
            c->either = either_open(c->io);
    }
}

static bool needs_tls(const struct clients *c)
{
    for (size_t i = 0; i < c->place_count; i++) {
        if (c->places[i].is_secure)
            return true;
    }
    return false;
}

static enum err open_tls(struct clients *c, struct buf *why)
{
    const struct config_listens hosts[] = {c->config->listen_clients, c->config->listen_http};
    struct secure_options options = {.io = c->either ? either_secure_io(c->either) : c->io,
                                     .logger = c->logger,
                                     .config = c->config,
                                     .flags = &c->config->client_tls,
                                     .listens = hosts,
                                     .listen_count = ARRAY_LEN(hosts),
                                     .side = "client",
                                     .rejected = "rejected connection on client endpoint",
                                     .offers_h2 = true};

    if (!needs_tls(c))
        return ERR_OK;
    if (!c->wires)
        return secure_open(&c->secure, &options, why);
    enum err e = secure_find_files(&c->secure, &options, why);
    return e == ERR_OK ? wires_open_tls(c->wires, &c->secure, &options, why) : e;
}

static enum err listen_at(struct clients *c, struct clients_place *p, struct buf *why)
{
    struct rpc_place place = {.address = p->listen->address, .serves = p->serves};

    if (p->is_secure && !c->wires)
        place.net = tls_net(c->secure.tls);
    else if (p->is_shared)
        place.net = either_plain(c->either);
    enum err e = c->wires ? wires_listen(c->wires, &place, p->is_secure, &p->bound)
                          : rpc_listen(c->rpc, &place, &p->bound);
    if (e != ERR_OK)
        listen_refusal(p->listen, e, why);
    return e;
}

static enum err listen_to_clients(struct clients *c, struct buf *why)
{
    enum err e = open_tls(c, why);
    for (size_t i = 0; e == ERR_OK && i < c->place_count; i++)
        e = listen_at(c, &c->places[i], why);
    if (e != ERR_OK || !c->wires)
        return e;
    e = wires_start(c->wires);
    if (e != ERR_OK)
        buf_printf(why, "cannot start a thread for clients: %s", err_text(e));
    return e;
}

/*
 * Whoever connects and says nothing still has a descriptor of ours. What the log and the store need
 * is kept from clients, who wait in the kernel instead. etcd does not start with a limit of 150 or
 * less, and we need not be so strict: about 30 are enough for one member of one address. No limit
 * of files is none of clients. Half of what is kept may go to those who connect to the peer port;
 * where many may be open that gets more, and clients are kept from that, too.
 */
static unsigned conns_max(unsigned files_max)
{
    unsigned most = files_max > 2 * FILES_RESERVED ? files_max - FILES_RESERVED : files_max / 2;
    unsigned half = (files_max - most) / 2, peers = peering_conns_max(files_max);

    return files_max > 0 && peers > half ? most - (peers - half) : most;
}

/* Every other address in --initial-cluster is counted as a member. */
static unsigned files_needed(const struct config *config)
{
    unsigned needed = FILES_MIN;

    for (const char *at = config->initial_cluster; at && (at = strchr(at, ',')); at++)
        needed += FILES_FOR_PEER;
    return needed;
}

static enum err check_files(unsigned files_max, const struct config *config, struct buf *why)
{
    unsigned needed = files_needed(config);

    if (files_max == 0 || files_max >= needed)
        return ERR_OK;
    buf_printf(why,
               "file descriptor limit of etcd process is too low; please set higher: it is %u, "
               "and at least %u are needed",
               files_max, needed);
    return ERR_NO_FILES;
}

/* Each thread would have to look at the first byte of connections that are dealt to all of them:
 * where one address is there by TLS and without, the core carries its clients itself. */
static unsigned threads_for(const struct clients *c)
{
    if (c->either && c->io->thread_count > 0)
        log_warn(c->logger, "an address is there by TLS and without; --io-threads has no effect");
    return c->either ? 0 : c->io->thread_count;
}

enum err clients_listen(struct clients *c, const struct io *io, const struct config *config,
                        const struct logger *logger, uint64_t map_seed,
                        unsigned line_delay_turns_max, struct buf *why)
{
    *c = (struct clients){.io = io, .config = config, .logger = logger};
    find_places(c);
    find_shared_places(c);
    unsigned threads = threads_for(c);
    c->line = rpc_line_open(&(struct rpc_line_options){
        .delay_turns_max = line_delay_turns_max,
        .seed = map_seed,
        .end = threads > 0 ? RPC_LINE_OF_CORE : RPC_LINE_WHOLE,
        .rpcs = threads,
    });
    struct rpc_options rpc = {
        .io = io,
        .line = c->line,
        .logger = logger,
        .methods = api_methods,
        .method_count = api_method_count,
        .message_bytes_max = config->max_request_bytes + GRPC_OVERHEAD_BYTES,
        .concurrent_streams_max = config->max_concurrent_streams,
        .keepalive_min_ms = (uint64_t)config->grpc_keepalive_min_time_ns / NS_PER_MS,
        .keepalive_interval_ms = (uint64_t)config->grpc_keepalive_interval_ns / NS_PER_MS,
        .keepalive_timeout_ms = (uint64_t)config->grpc_keepalive_timeout_ns / NS_PER_MS,
        .has_gateway = config->enable_grpc_gateway,
        .has_origins = true,
        .origins = {config->cors.at, config->cors.count},
        .hosts = {config->host_whitelist.at, config->host_whitelist.count},
        .names_are_users = &c->names_are_users,
        .conns_max = conns_max(io->files_max),
        .seed = map_seed,
        .reuse_port = config->reuse_port,
        .shows_fields = config->shows_fields,
    };
    if (threads > 0)
        c->wires = wires_open(io, &rpc, c->line);
    else
        c->rpc = rpc_open(&rpc);
    enum err e = check_files(io->files_max, config, why);
    return e == ERR_OK ? listen_to_clients(c, why) : e;
}

static const char *traffic_of(enum rpc_serves serves)
{
    return serves == RPC_SERVES_ALL ? "grpc+http" : serves == RPC_SERVES_GRPC ? "grpc" : "http";
}

void clients_serve(const struct clients *c)
{
    char text[NET_TEXT_MAX];

    if (needs_tls(c))
        secure_say(&c->secure, c->logger, c->config, &c->config->client_tls,
                   "starting with client TLS");
    log_info(c->logger, "ready to serve client requests");
    api_health_tell(c->api);
    for (size_t i = 0; i < c->place_count; i++) {
        const struct clients_place *p = &c->places[i];
        const char *address = net_address_text(&p->bound, text);
        if (p->serves == RPC_SERVES_PROBES)
            continue;
        log_info(c->logger,
                 p->is_secure ? "serving client traffic securely"
                              : "serving client traffic insecurely; this is strongly discouraged!",
                 LOG_STR("traffic", traffic_of(p->serves)), LOG_STR("address", address));
    }
}

uint16_t clients_port(const struct clients *c, size_t nth)
{
    return nth < c->place_count ? c->places[nth].bound.port : 0;
}

void clients_deliver(struct clients *c)
{
    if (c->rpc)
        rpc_deliver(c->rpc);
}

void clients_flush(struct clients *c)
{
    if (c->rpc)
        rpc_flush(c->rpc);
    else
        wires_flush(c->wires);
}

bool clients_can_be_answered(const struct clients *c)
{
    return rpc_line_has_reply_budget(c->line);
}

bool clients_have_events(const struct clients *c)
{
    return c->rpc && rpc_has_events(c->rpc);
}

bool clients_are_idle(const struct clients *c)
{
    return c->rpc ? rpc_is_idle(c->rpc) : wires_are_gone(c->wires);
}

bool clients_are_gone(const struct clients *c)
{
    return clients_are_idle(c) && secure_is_idle(&c->secure) &&
           (!c->either || either_is_idle(c->either));
}

void clients_stop(struct clients *c)
{
    if (c->rpc)
        rpc_stop(c->rpc);
    if (c->wires)
        wires_stop(c->wires, !c->api);
}

void clients_cut(struct clients *c)
{
    if (c->rpc)
        rpc_cut(c->rpc);
    if (c->wires)
        wires_cut(c->wires);
}

/* --- the rooms --- */

static void say_probes(const struct clients *c)
{
    for (size_t i = 0; i < c->place_count; i++) {
        if (c->places[i].serves == RPC_SERVES_PROBES)
            log_info(c->logger, "serving metrics",
                     LOG_BYTES("address", c->places[i].listen->url.text));
    }
}

void clients_open(struct clients *c, const struct state *state, struct entropy *entropy,
                  const struct api_facts *facts, uint64_t map_seed, uint64_t watch_seed)
{
    const struct config *config = c->config;

    say_probes(c);
    c->watch = watch_open(&(struct watch_options){
        .mvcc = state->mvcc,
        .fragment_bytes = config->max_request_bytes + GRPC_OVERHEAD_BYTES,
        .progress_interval_ms = (uint64_t)config->watch_progress_notify_ns / NS_PER_MS,
        .seed = watch_seed,
    });
    c->api = api_open(&(struct api_options){
        .line = c->line,
        .apply = state->apply,
        .auth = state->auth,
        .tokens = state->o.tokens,
        .entropy = entropy,
        .client_cert_auth = config->client_tls.client_cert_auth,
        .stops_on_defrag = gates_stop_grpc_service_on_defrag(config->gates),
        .mvcc = state->mvcc,
        .watch = c->watch,
        .leases = state->leases,
        .cluster = state->cluster,
        .backend = state->backend,
        .facts = facts,
        .logger = c->logger,
        .seed = map_seed,
        .request_bytes_max = config->max_request_bytes,
        .txn_ops_max = (unsigned)config->max_txn_ops,
        .warning_unary_ns = config->warning_unary_ns,
        .warning_apply_ns = config->warning_apply_ns,
        .times_calls = config->extensive_metrics,
    });
}

void clients_close(struct clients *c)
{
    if (c->rpc)
        rpc_stop(c->rpc); /* a boot that was refused has only listeners */
    api_close(c->api);
    rpc_close(c->rpc);
    wires_close(c->wires);
    secure_close(&c->secure);
    either_close(c->either);
    rpc_line_close(c->line);
    watch_close(c->watch);
    mem_free(c->places);
}

void clients_abandon(struct clients *c)
{
    assert(!c->secure.tls && !c->wires); /* only worlds that have none forget their connections */
    rpc_abandon(c->rpc);
    api_abandon(c->api);
    rpc_line_close(c->line);
    watch_close(c->watch);
    mem_free(c->places);
}

void clients_check(const struct clients *c)
{
    watch_check(c->watch);
    if (c->rpc)
        rpc_check(c->rpc);
    api_check(c->api);
}
