#include "server/peering.h"

#include "base/assert.h"
#include "config/config.h"
#include "io/clock.h"
#include "io/io.h"
#include "raft/raft.h"
#include "server/listen_refusal.h"
#include "wal/wal.h"

#include <string.h>

/* Entries on their way from the log's files to a member that is behind. */
struct peering_fetch {
    struct wal_read read;
    struct raft *raft;
    uint64_t token;
    struct list link;
};

/* --- life --- */

static void accepted(struct listener *l, struct conn *c)
{
    struct peering *p = l->options.context;

    if (p->peers)
        peers_accept(p->peers, c);
    else
        conn_close(c, ERR_OK); /* a member that waits for space to start does not know who it is */
}

/* Without a certificate of our own others can be verified nevertheless. Who has https URLs only
 * after we have started is not reached before we start again. */
static bool needs_tls(const struct config *c)
{
    return tls_flags_are_given(&c->peer_tls) || c->peer_tls.trusted_ca_file[0] != 0 ||
           strstr(c->initial_cluster, "https://") || strstr(c->initial_cluster, "unixs://");
}

static enum err open_tls(struct peering *p, struct buf *why)
{
    const struct config *c = p->o.config;
    struct secure_options options = {.io = p->o.io,
                                     .logger = p->o.logger,
                                     .config = c,
                                     .flags = &c->peer_tls,
                                     .listens = &c->listen_peers,
                                     .listen_count = 1,
                                     .side = "peer",
                                     .rejected = "rejected connection on peer endpoint",
                                     .checks_address = !c->peer_tls.skips_san};

    if (!needs_tls(c))
        return ERR_OK;
    enum err e = secure_open(&p->secure, &options, why);
    if (e == ERR_OK && tls_flags_are_given(&c->peer_tls))
        secure_say(&p->secure, p->o.logger, c, &c->peer_tls, "starting with peer TLS");
    return e;
}

static enum err listen_at(struct peering *p, const struct config_listen *place, struct buf *why)
{
    bool is_secure = place->url.scheme == URL_HTTPS;
    struct listener_options listening = {.reuse_port = p->o.config->reuse_port,
                                         .on_accept = accepted,
                                         .limit = &p->limit,
                                         .context = p};
    struct net *net = is_secure ? tls_net(p->secure.tls) : p->o.io->net;

    enum err e = net_listen(net, &place->address, &listening, &p->listeners[p->listener_count]);
    if (e == ERR_OK)
        p->listener_count++;
    else
        listen_refusal(place, e, why);
    return e;
}

unsigned peering_conns_max(unsigned files_max)
{
    unsigned kept = files_max < 2 * FILES_RESERVED ? files_max / 2 : FILES_RESERVED;
    unsigned most = files_max / FILES_PER_PEER_CONN;

    most = most > kept / 2 ? most : kept / 2;
    return files_max == 0 || most > PEER_CONNS_MAX ? PEER_CONNS_MAX : most;
}

enum err peering_listen(struct peering *p, const struct peering_options *options, struct buf *why)
{
    const struct config_listens *places = &options->config->listen_peers;

    *p = (struct peering){.o = *options};
    list_init(&p->fetches);
    conn_limit_init(&p->limit, peering_conns_max(options->io->files_max));
    p->limit.reserved = p->limit.max / (PEER_CONNS_MAX / PEER_CONNS_RESERVED);
    enum err e = open_tls(p, why);
    p->listeners = mem_new_array(places->count, struct listener *);
    for (size_t i = 0; e == ERR_OK && i < places->count; i++)
        e = listen_at(p, &places->at[i], why);
    return e;
}

void peering_open(struct peering *p, uint64_t self, uint64_t cluster_id, uint64_t seed)
{
    const struct config *c = p->o.config;
    struct buf urls = {0};

    url_list_join(c->advertise_peers, &urls);
    p->self = self;
    p->peers = peers_open(&(struct peers_options){.io = p->o.io,
                                                  .logger = p->o.logger,
                                                  .tls = p->secure.tls,
                                                  .self = self,
                                                  .cluster_id = cluster_id,
                                                  .urls = buf_str(&urls),
                                                  .version = SERVER_VERSION,
                                                  .seed = seed,
                                                  .heartbeat_ms = c->heartbeat_ms,
                                                  .election_ms = c->election_ms});
    buf_free(&urls);
}

void peering_identify(struct peering *p, uint64_t self, uint64_t cluster_id)
{
    p->self = self;
    peers_identify(p->peers, self, cluster_id);
}

void peering_serve(const struct peering *p)
{
    char text[NET_TEXT_MAX];

    for (size_t i = 0; i < p->listener_count; i++)
        log_info(p->o.logger, "serving peer traffic",
                 LOG_STR("address", net_address_text(&p->listeners[i]->address, text)));
}

void peering_stop(struct peering *p)
{
    while (p->listener_count > 0)
        listener_close(p->listeners[--p->listener_count]);
    if (p->peers)
        peers_stop(p->peers);
}

bool peering_is_idle(const struct peering *p)
{
    return list_empty(&p->fetches) && (!p->peers || peers_is_idle(p->peers)) &&
           secure_is_idle(&p->secure);
}

static void free_all(struct peering *p)
{
    mem_free(p->listeners);
    conn_limit_free(&p->limit);
    if (!p->fetches.next)
        return;
    for (struct list *link; (link = list_pop_front(&p->fetches));)
        mem_free(container_of(link, struct peering_fetch, link));
}

void peering_close(struct peering *p)
{
    while (p->listener_count > 0) /* a boot that was refused */
        listener_close(p->listeners[--p->listener_count]);
    peers_close(p->peers);
    secure_close(&p->secure);
    free_all(p);
}

void peering_abandon(struct peering *p)
{
    assert(!p->secure.tls); /* only worlds that have none forget their connections */
    peers_abandon(p->peers);
    free_all(p);
}

/* --- members --- */

static bool is_known(const struct peering *p, uint64_t id)
{
    for (size_t i = 0; i < p->known_count; i++)
        if (p->known[i] == id)
            return true;
    return false;
}

static void add_member(struct peering *p, const struct pb_member *m)
{
    struct arena arena = {0};

    if (!is_known(p, m->id)) {
        assert(p->known_count < CLUSTER_MEMBERS_MAX);
        p->known[p->known_count++] = m->id;
    }
    const char **urls = arena_new_array(&arena, m->peer_urls.count, const char *);

    for (size_t i = 0; i < m->peer_urls.count; i++)
        urls[i] = arena_copy_str(&arena, m->peer_urls.at[i]);
    peers_add(p->peers, m->id, urls, m->peer_urls.count);
    arena_free(&arena);
}

static void forget_member(struct peering *p, uint64_t id)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->known_count; i++)
        if (p->known[i] != id)
            p->known[kept++] = p->known[i];
    p->known_count = kept;
}

static void remove_member(struct peering *p, uint64_t id)
{
    forget_member(p, id);
    peers_remove(p->peers, id);
}

static void drop_member(struct peering *p, uint64_t id)
{
    forget_member(p, id);
    peers_drop(p->peers, id);
}

static bool is_among(const struct pb_member *members, size_t count, uint64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (members[i].id == id)
            return true;
    return false;
}

void peering_set_members(struct peering *p, const struct pb_member *members, size_t count)
{
    for (size_t i = p->known_count; i-- > 0;)
        if (!is_among(members, count, p->known[i]))
            drop_member(p, p->known[i]);
    for (size_t i = 0; i < count; i++)
        if (members[i].id != p->self)
            add_member(p, &members[i]);
}

void peering_set_removed(struct peering *p, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] != p->self)
            remove_member(p, ids[i]);
}

static uint64_t now_ms(const struct peering *p)
{
    return clock_now_ns(p->o.io->clock) / NS_PER_MS;
}

static void remove_by_change(struct peering *p, uint64_t id, uint64_t leader)
{
    if (p->leaving == RAFT_NONE && id == leader) {
        p->leaving = id;
        p->leaving_until_ms = now_ms(p) + LEAVE_DELAY_MS / 2;
    } else {
        remove_member(p, id);
    }
}

/* In half of the time that it has before it stops, so that it is not told that it was removed. */
void peering_tick(struct peering *p, uint64_t leader)
{
    if (p->leaving == RAFT_NONE)
        return;
    if ((leader == RAFT_NONE || leader == p->leaving) && now_ms(p) < p->leaving_until_ms)
        return;
    remove_member(p, p->leaving);
    p->leaving = RAFT_NONE;
}

void peering_member_changed(struct peering *p, const struct raft_conf_change *change,
                            const struct cluster *cluster, uint64_t leader)
{
    const struct pb_member *m = cluster_find(cluster, change->node_id);
    struct peer_status status;

    if (change->node_id == RAFT_NONE || change->node_id == p->self)
        return; /* it was refused; or is about us */
    if (change->type == RAFT_REMOVE_NODE)
        remove_by_change(p, change->node_id, leader);
    else if (m && (change->type == RAFT_UPDATE_NODE || !peers_status(p->peers, m->id, &status)))
        add_member(p, m);
}

bool peering_is_connected_since(const struct peering *p, uint64_t id, uint64_t since_ms)
{
    struct peer_status status;

    return peers_status(p->peers, id, &status) && status.is_active &&
           status.active_since_ms < since_ms;
}

size_t peering_active_count(const struct peering *p, const struct raft_ids *ids)
{
    struct peer_status status;
    size_t count = 0;

    for (size_t i = 0; i < ids->count; i++)
        count += ids->at[i] != p->self && peers_status(p->peers, ids->at[i], &status) &&
                 status.is_active;
    return count;
}

/* --- fetches --- */

static void fetched(struct wal_read *r)
{
    struct peering_fetch *f = container_of(r, struct peering_fetch, read);

    raft_fetched(f->raft, f->token, r->entries, r->err == ERR_OK ? r->count : 0);
    list_remove(&f->link);
    mem_free(f);
}

/* What is not in the log any more cannot be had: raft asks again, or sends a snapshot instead. */
void peering_fetch(struct peering *p, struct wal *wal, struct raft *raft,
                   const struct raft_fetch *fetch)
{
    struct peering_fetch *f = mem_new(struct peering_fetch);

    *f = (struct peering_fetch){.raft = raft, .token = fetch->token};
    f->read = (struct wal_read){
        .low = fetch->low, .high = fetch->high, .max_bytes = fetch->max_bytes, .on_done = fetched};
    list_init(&f->link);
    if (wal_read(wal, &f->read) != ERR_OK) {
        raft_fetched(raft, fetch->token, NULL, 0);
        mem_free(f);
        return;
    }
    list_push_back(&p->fetches, &f->link);
}

/* --- versions --- */

/* Which member of which round a result is of is in its token. */
static uint64_t version_token(const struct peering *p, size_t nth)
{
    return (uint64_t)PEERING_TOKEN_VERSION << PEERING_TOKEN_SHIFT | p->versions.round << 8 | nth;
}

bool peering_is_asking_versions(const struct peering *p)
{
    return p->versions.is_under_way;
}

void peering_ask_versions(struct peering *p, const struct pb_member *members, size_t count)
{
    struct peering_versions *v = &p->versions;

    static_assert(CLUSTER_MEMBERS_MAX <= UINT8_MAX, "a token ends with a byte for the member");
    assert(!v->is_under_way);
    assert(count <= CLUSTER_MEMBERS_MAX);
    *v = (struct peering_versions){
        .round = (v->round + 1) & UINT32_MAX,
        .servers = {.lowest = version_of_server(), .highest = version_of_server()},
        .is_under_way = true};
    for (size_t i = 0; i < count; i++) {
        if (members[i].id == p->self)
            continue;
        v->waiting++;
        v->asked[i] = members[i].id;
        peers_ask(p->peers, &(struct peer_ask){.token = version_token(p, i),
                                               .member = members[i].id,
                                               .verb = "GET",
                                               .path = "/version",
                                               .timeout_ms = PEERING_VERSION_MS});
    }
    v->is_done = v->waiting == 0;
}

static bool read_version(const struct peer_event *e, struct version *out)
{
    struct member_versions told;
    struct arena arena = {0};

    bool ok = e->status == 200 && versions_json_read(e->body, &arena, &told) == ERR_OK &&
              version_parse(told.server, out);
    arena_free(&arena);
    return ok;
}

void peering_version(struct peering *p, const struct peer_event *e)
{
    struct peering_versions *v = &p->versions;
    struct version told;

    if (!v->is_under_way || (e->id >> 8 & UINT32_MAX) != v->round)
        return; /* of an earlier round */
    assert(v->waiting > 0);
    v->waiting--;
    v->is_done = v->waiting == 0;
    if (!read_version(e, &told)) {
        v->is_missing = true;
        log_warn(p->o.logger, "failed to get version",
                 LOG_ID("remote-member-id", v->asked[e->id & UINT8_MAX]),
                 LOG_U64("status", e->status));
    } else if (version_compare(told, v->servers.lowest) < 0) {
        v->servers.lowest = told;
    } else if (version_compare(told, v->servers.highest) > 0) {
        v->servers.highest = told;
    }
}

bool peering_take_versions(struct peering *p, struct version_range *out, bool *all)
{
    struct peering_versions *v = &p->versions;

    if (!v->is_done)
        return false;
    v->is_done = v->is_under_way = false;
    *out = v->servers;
    *all = !v->is_missing;
    return true;
}

/* --- checking --- */

void peering_check(const struct peering *p)
{
    if (p->peers)
        peers_check(p->peers);
    conn_limit_check(&p->limit);
    assert(p->known_count <= CLUSTER_MEMBERS_MAX);
    assert(!is_known(p, p->self));
    assert(p->versions.waiting == 0 || p->versions.is_under_way);
    assert(!p->versions.is_done || p->versions.waiting == 0);
}
