/*
 * Where we can be reached.
 *
 * All places are taken before anything on disk is touched: a server that is started twice by
 * mistake says so and leaves nothing behind. Clients who come early are accepted, but not heard
 * before this member is known to its cluster (turn.c); to them it is a slow answer.
 */
#include "server/server_int.h"

static enum err failed(const struct net_address *wanted, const char *whom, enum err e,
                       struct buf *why)
{
    char text[NET_TEXT_MAX];

    buf_printf(why, "cannot listen on %s for %s: %s", net_address_text(wanted, text), whom,
               err_text(e));
    return e;
}

/* A member of another cluster, or one that will be of this: there is nothing to say to it yet. */
static void turn_away(struct listener *l, struct conn *c)
{
    (void)l;
    conn_close(c, ERR_UNSUPPORTED);
}

static enum err listen_to_peers(struct server *s, struct buf *why)
{
    const struct config_listens *places = &s->config->listen_peers;
    struct listener_options options = {.on_accept = turn_away};

    s->peer_listeners = mem_new_array(places->count, struct listener *);
    for (size_t i = 0; i < places->count; i++) {
        const struct net_address *wanted = &places->at[i].address;
        enum err e = net_listen(s->io->net, wanted, &options, &s->peer_listeners[i]);
        if (e != ERR_OK)
            return failed(wanted, "peers", e, why);
        s->peer_listener_count++;
    }
    return ERR_OK;
}

static enum err listen_to_clients(struct server *s, struct buf *why)
{
    const struct config_listens *places = &s->config->listen_clients;

    s->listening = mem_new_array(places->count, struct net_address);
    for (size_t i = 0; i < places->count; i++) {
        const struct net_address *wanted = &places->at[i].address;
        enum err e = rpc_listen(s->rpc, wanted, &s->listening[i]);
        if (e != ERR_OK)
            return failed(wanted, "clients", e, why);
        s->listening_count++;
    }
    return ERR_OK;
}

/*
 * Whoever connects and says nothing still has a descriptor of ours. What the log and the store need
 * is kept from clients, who wait in the kernel instead. etcd does not start with a limit of 150 or
 * less, and we need not be so strict: about 30 are enough for one member of one address.
 */
unsigned listen_conns_max(unsigned files_max)
{
    return files_max > 2 * FILES_RESERVED ? files_max - FILES_RESERVED : files_max / 2;
}

enum err listen_open(struct server *s, struct buf *why)
{
    unsigned files_max = s->io->files_max;

    if (files_max > 0 && files_max < FILES_MIN) {
        buf_printf(why,
                   "file descriptor limit of etcd process is too low; please set higher: it is %u, "
                   "and at least %u are needed",
                   files_max, (unsigned)FILES_MIN);
        return ERR_NO_FILES;
    }
    enum err e = listen_to_peers(s, why);

    return e == ERR_OK ? listen_to_clients(s, why) : e;
}

void listen_serve(struct server *s)
{
    char text[NET_TEXT_MAX];

    log_info(s->logger, "ready to serve client requests");
    for (size_t i = 0; i < s->listening_count; i++)
        log_info(s->logger, "serving client traffic insecurely; this is strongly discouraged!",
                 LOG_STR("traffic", "grpc+http"),
                 LOG_STR("address", net_address_text(&s->listening[i], text)));
    for (size_t i = 0; i < s->peer_listener_count; i++)
        log_warn(s->logger, "other members are turned away: a cluster of one is all there is yet",
                 LOG_STR("address", net_address_text(&s->peer_listeners[i]->address, text)));
}

void listen_stop(struct server *s)
{
    while (s->peer_listener_count > 0)
        listener_close(s->peer_listeners[--s->peer_listener_count]);
    if (s->rpc)
        rpc_stop(s->rpc);
}

void listen_free(struct server *s)
{
    mem_free(s->peer_listeners);
    mem_free(s->listening);
}
