/*
 * The room as a whole: who the members are, what is told the server, which way a message takes, and
 * the end. Everything here is called in the turn; the connections are in the other files.
 */
#include "base/assert.h"
#include "cluster/urls.h"
#include "peer/peer_int.h"
#include "raft/describe.h"

#include <inttypes.h>
#include <stdio.h>

/* --- time --- */

void peer_timer_start(struct peers *p, struct timer *t, uint64_t after_ms)
{
    timer_start(p->clock, t, after_ms * NS_PER_MS);
}

/* After a crash the clock has forgotten all timers, and must not be told of any. */
void peer_timer_stop(struct peers *p, struct timer *t)
{
    if (!p->is_abandoned)
        timer_stop(p->clock, t);
}

/* One timer for the link heartbeats of all streams, and one for all probes. */
static void on_beat(struct timer *t)
{
    struct peers *p = container_of(t, struct peers, beat);

    outgoing_beat_all(p);
    peer_timer_start(p, t, PEER_LINK_HEARTBEAT_MS);
}

static void on_probe(struct timer *t)
{
    struct peers *p = container_of(t, struct peers, probe);

    probe_all(p);
    peer_timer_start(p, t, PEER_PROBE_INTERVAL_MS);
}

/* --- who there is --- */

static struct peer *find_any(const struct peers *p, uint64_t id)
{
    return map_get_id(&p->members, id);
}

struct peer *peers_find(const struct peers *p, uint64_t id)
{
    struct peer *peer = find_any(p, id);

    return peer && !peer->is_remote ? peer : NULL;
}

bool peers_is_removed(const struct peers *p, uint64_t id)
{
    return map_get_id(&p->removed, id) != NULL;
}

static struct peer *peer_new(struct peers *p, uint64_t id)
{
    struct peer *peer = mem_new(struct peer);

    peer->peers = p;
    peer->id = id;
    requests_init(&peer->posts, p, &peer->places, PEER_POST_CONNS_MAX);
    requests_init(&peer->asks, p, &peer->places, PEER_ASK_CONNS_MAX);
    requests_init(&peer->probes, p, &peer->places, 1);
    (void)map_put_id(&p->members, id, peer);
    return peer;
}

static void drop_untaken(struct list *told, const struct peer *peer)
{
    LIST_FOREACH (link, told) {
        struct told *t = container_of(link, struct told, link);
        if (t->inflow != &peer->appends && t->inflow != &peer->others)
            continue;
        list_remove(link);
        told_free(t);
    }
}

static void stop_streams(struct peer *peer)
{
    for (unsigned kind = 0; kind < STREAM_KINDS; kind++) {
        struct out_stream *o = peer->out[kind];
        if (o) {
            struct port_conn *conn = o->conn;
            outgoing_detach(o, NULL);
            port_conn_cut(conn, ERR_OK);
        }
        if (!peer->is_remote)
            incoming_stop(&peer->in[kind]);
    }
}

static void peer_free(struct peer *peer)
{
    struct peers *p = peer->peers;

    stop_streams(peer);
    snapshot_post_stop(peer);
    requests_end(&peer->posts, request_free);
    requests_end(&peer->probes, request_free);
    requests_end(&peer->asks, ask_dropped);
    drop_untaken(&p->told, peer);
    drop_untaken(&p->told_appends, peer);
    places_free(&peer->places);
    p->remote_count -= peer->is_remote;
    (void)map_remove_id(&p->members, peer->id);
    mem_free(peer);
}

static void log_urls(const struct peers *p, const char *message, const char *id_key, uint64_t id,
                     const char *urls_key, const struct places *places)
{
    struct buf urls = {0};

    for (size_t i = 0; i < places->count; i++)
        buf_printf(&urls, "%s%s", i > 0 ? "," : "", places->at[i].text);
    log_info(p->logger, message, LOG_ID("local-member-id", p->options.self), LOG_ID(id_key, id),
             LOG_BYTES(urls_key, buf_bytes(&urls)));
    buf_free(&urls);
}

void peers_add(struct peers *p, uint64_t id, const char *const *urls, size_t url_count)
{
    struct peer *peer = find_any(p, id);

    assert(id != p->options.self);
    assert(id != RAFT_NONE);
    if (p->is_stopping)
        return;
    if (peer && !peer->is_remote) {
        places_set(&peer->places, urls, url_count);
        for (unsigned kind = 0; kind < STREAM_KINDS; kind++)
            incoming_hurry(&peer->in[kind]);
        log_urls(p, "updated remote peer", "updated-remote-peer-id", id, "updated-remote-peer-urls",
                 &peer->places);
        return;
    }
    if (peer)
        peer_free(peer);
    log_info(p->logger, "starting remote peer", LOG_ID("remote-peer-id", id));
    peer = peer_new(p, id);
    places_set(&peer->places, urls, url_count);
    for (unsigned kind = 0; kind < STREAM_KINDS; kind++)
        incoming_start(&peer->in[kind], peer, kind);
    if (!timer_is_set(&p->beat)) {
        peer_timer_start(p, &p->beat, PEER_LINK_HEARTBEAT_MS);
        peer_timer_start(p, &p->probe, PEER_PROBE_INTERVAL_MS);
    }
    log_urls(p, "added remote peer", "remote-peer-id", id, "remote-peer-urls", &peer->places);
}

void peers_remove(struct peers *p, uint64_t id)
{
    struct peer *peer = find_any(p, id);

    (void)map_put_id(&p->removed, id, p);
    if (!peer) {
        log_warn(p->logger, "skipped removing already removed peer",
                 LOG_ID("local-member-id", p->options.self), LOG_ID("removed-remote-peer-id", id));
        return;
    }
    peer_free(peer);
    log_info(p->logger, "removed remote peer", LOG_ID("local-member-id", p->options.self),
             LOG_ID("removed-remote-peer-id", id));
}

void peers_drop(struct peers *p, uint64_t id)
{
    struct peer *peer = find_any(p, id);

    if (!peer)
        return;
    peer_free(peer);
    log_info(p->logger, "stopped remote peer", LOG_ID("remote-peer-id", id));
}

/*
 * A cluster may have grown while we were away. The new members write to us, and raft responds; so
 * where they live is remembered, though nothing more is done about them until the log says that
 * they are members. Who fills this up with inventions takes the place of at most a few of those.
 */
void peers_add_remote(struct peers *p, uint64_t id, struct bytes urls)
{
    struct arena arena = {0};
    struct buf why = {0};
    struct url_list list;
    const char *texts[PEER_URLS_MAX];
    size_t count = 0;

    if (id == RAFT_NONE || id == p->options.self || find_any(p, id) || peers_is_removed(p, id) ||
        p->remote_count >= PEER_REMOTES_MAX || p->is_stopping || urls.len > PEER_URLS_BYTES_MAX)
        return;
    if (url_list_parse(urls, &arena, &why, &list) && list.count <= PEER_URLS_MAX) {
        for (; count < list.count; count++)
            texts[count] = arena_copy_str(&arena, list.at[count]);
        struct peer *peer = peer_new(p, id);
        peer->is_remote = true;
        p->remote_count++;
        places_set(&peer->places, texts, count);
        log_info(p->logger, "added new remote peer", LOG_ID("local-member-id", p->options.self),
                 LOG_ID("remote-peer-id", id), LOG_BYTES("remote-peer-urls", urls));
    }
    buf_free(&why);
    arena_free(&arena);
}

void peer_activate(struct peer *peer)
{
    struct peer_status *s = &peer->status;

    assert(s->streams > 0);
    if (s->is_active)
        return;
    s->is_active = true;
    peer->active_since_ns = clock_now_ns(peer->peers->clock);
    s->active_since_ms = peer->active_since_ns / NS_PER_MS;
    log_info(peer->peers->logger, "peer became active", LOG_ID("peer-id", peer->id));
}

void peer_deactivate(struct peer *peer, const char *action, const char *source, const char *why)
{
    struct peers *p = peer->peers;
    struct peer_status *s = &peer->status;
    char error[256];
    int len = snprintf(error, sizeof(error), "failed to %s %" PRIx64 " on %s (%s)", action,
                       peer->id, source, why);

    (void)len; /* cut if it is long */
    if (s->is_active)
        log_warn(p->logger, "peer became inactive (message send to peer failed)",
                 LOG_ID("peer-id", peer->id), LOG_STR("error", error));
    else
        log_debug(p->logger, "peer deactivated again", LOG_ID("peer-id", peer->id),
                  LOG_STR("error", error));
    s->disconnects += s->is_active;
    s->is_active = false;
    s->active_since_ms = 0;
}

/* --- what is told the server --- */

struct told *told_new(enum peer_event_kind kind, uint64_t member)
{
    struct told *t = mem_new(struct told);

    list_init(&t->link);
    t->event = (struct peer_event){.kind = kind, .member = member, .owned = t};
    return t;
}

void told_free(struct told *t)
{
    raft_message_free(t->message);
    buf_free(&t->text);
    mem_free(t);
}

void peers_tell(struct peers *p, struct told *t)
{
    list_push_back(&p->told, &t->link);
}

static void on_wake(struct event *e)
{
    (void)e; /* that there is a turn is all */
}

void peers_wake(struct peers *p)
{
    if (!p->wake.queued && !p->is_abandoned)
        inbox_put(p->io->inbox, &p->wake);
}

/* Once is enough until it was heard. */
void peers_tell_unreachable(struct peer *peer)
{
    if (peer->is_unreachable_told)
        return;
    peer->is_unreachable_told = true;
    peers_tell(peer->peers, told_new(PEER_UNREACHABLE, peer->id));
}

void peers_tell_removed(struct peers *p)
{
    if (p->is_removed_told)
        return;
    p->is_removed_told = true;
    log_error(p->logger, "the member has been permanently removed from the cluster",
              LOG_ID("local-member-id", p->options.self));
    peers_tell(p, told_new(PEER_REMOVED, p->options.self));
}

static bool take_first(struct list *list, struct peer_event *out)
{
    struct list *link = list_pop_front(list);

    if (!link)
        return false;
    struct told *t = container_of(link, struct told, link);
    if (t->inflow) {
        t->inflow->count--;
        t->inflow->bytes -= t->bytes;
        t->inflow = NULL;
    }
    if (t->grows_for) {
        t->grows_for->untaken = NULL;
        t->grows_for = NULL;
    }
    *out = t->event;
    return true;
}

bool peers_take(struct peers *p, struct peer_event *out)
{
    if (!take_first(&p->told, out))
        return false;
    if (out->kind == PEER_UNREACHABLE) {
        struct peer *peer = find_any(p, out->member);
        if (peer)
            peer->is_unreachable_told = false;
    }
    return true;
}

bool peers_take_append(struct peers *p, struct peer_event *out)
{
    return take_first(&p->told_appends, out);
}

void peer_event_free(struct peer_event *e)
{
    if (e->owned)
        told_free(e->owned);
    *e = (struct peer_event){0};
}

/* --- messages in --- */

static bool is_append(const struct raft_message *m)
{
    return m->type == RAFT_MSG_APP || m->type == RAFT_MSG_PROP;
}

/* Some messages only a member itself may produce; some nobody has thought of yet. A snapshot is
 * nothing without the state that is posted with it. */
static bool is_for_raft(const struct raft_message *m)
{
    return (unsigned)m->type <= RAFT_MSG_FORGET_LEADER && !raft_message_is_local(m->type) &&
           m->type != RAFT_MSG_SNAP;
}

const char *peers_message_type(const struct raft_message *m)
{
    const char *text = raft_message_type_text(m->type);

    return text ? text : "unknown";
}

static void log_dropped(struct peers *p, struct peer *peer, const struct raft_message *m)
{
    if (peer && peer->was_full)
        return; /* a stalled log would fill the other */
    if (peer)
        peer->was_full = true;
    log_warn(p->logger,
             "dropped internal Raft message since receiving buffer is full (overloaded network)",
             LOG_STR("message-type", peers_message_type(m)),
             LOG_ID("local-member-id", p->options.self), LOG_ID("from", m->from),
             LOG_ID("remote-peer-id", m->to),
             LOG_BOOL("remote-peer-active", peer && peer->status.is_active));
}

bool peers_rejects_sender(struct peers *p, const struct raft_message *m)
{
    if (!peers_is_removed(p, m->from))
        return false;
    log_warn(p->logger, "rejected Raft message from removed member",
             LOG_ID("local-member-id", p->options.self), LOG_ID("removed-member-id", m->from));
    return true;
}

bool peers_rejects_target(struct peers *p, const struct raft_message *m)
{
    if (m->to == p->options.self)
        return false;
    log_warn(p->logger, "rejected Raft message to mismatch member",
             LOG_ID("local-member-id", p->options.self), LOG_ID("mismatch-member-id", m->to));
    return true;
}

enum receipt peers_received(struct peers *p, struct peer *peer, const struct raft_message *m,
                            size_t bytes)
{
    if (peers_rejects_sender(p, m))
        return RECEIPT_REMOVED;
    if (peers_rejects_target(p, m))
        return RECEIPT_MISMATCH;
    if (!is_for_raft(m))
        return RECEIPT_IGNORED;
    bytes += sizeof(struct told) + sizeof(*m) + m->entry_count * sizeof(struct raft_entry);
    struct inflow *f = !peer ? &p->strangers : is_append(m) ? &peer->appends : &peer->others;
    if (f->count >= PEER_IN_MESSAGES_MAX ||
        (f->count > 0 && f->bytes + bytes > PEER_IN_BYTES_MAX)) {
        if (peer) {
            peer->status.dropped_in++;
            peer->status.received_failures++;
        }
        log_dropped(p, peer, m);
        return RECEIPT_FULL;
    }
    if (peer)
        peer->was_full = false;
    struct told *t = told_new(PEER_MESSAGE, peer ? peer->id : m->from);
    t->message = raft_message_clone(m);
    t->event.message = t->message;
    t->inflow = f;
    t->bytes = bytes;
    f->count++;
    f->bytes += bytes;
    list_push_back(is_append(m) ? &p->told_appends : &p->told, &t->link);
    return RECEIVED;
}

/* --- messages out --- */

static bool send_to(struct peer *peer, const struct raft_message *m, const char **way)
{
    if (m->type == RAFT_MSG_APP && peer->out[STREAM_APP]) {
        *way = "streamMsgAppV2";
        return outgoing_put(peer->out[STREAM_APP], m);
    }
    if (peer->out[STREAM_MESSAGE]) {
        *way = "streamMsg";
        return outgoing_put(peer->out[STREAM_MESSAGE], m);
    }
    *way = "pipeline";
    return pipeline_post(peer, m);
}

void peers_send(struct peers *p, const struct raft_message *m)
{
    struct peer *peer = find_any(p, m->to);
    const char *way;

    if (m->to == RAFT_NONE || p->is_stopping)
        return; /* raft means it so */
    if (!peer) {
        log_debug(p->logger, "ignored message send request; unknown remote peer target",
                  LOG_STR("type", peers_message_type(m)), LOG_ID("unknown-target-peer-id", m->to));
        return;
    }
    if (m->type == RAFT_MSG_SNAP) { /* nothing without its image: peers_snapshot_begin */
        peers_tell(p, told_new(PEER_SNAPSHOT_FAILED, peer->id));
        return;
    }
    if (send_to(peer, m, &way))
        return;
    peer->status.dropped_out++;
    peer->status.sent_failures++;
    if (!peer->is_unreachable_told)
        log_warn(p->logger, "dropped internal Raft message since sending buffer is full",
                 LOG_STR("message-type", peers_message_type(m)),
                 LOG_ID("local-member-id", p->options.self), LOG_ID("from", m->from),
                 LOG_ID("remote-peer-id", peer->id), LOG_STR("remote-peer-name", way),
                 LOG_BOOL("remote-peer-active", peer->status.is_active));
    peers_tell_unreachable(peer);
}

void peers_flush(struct peers *p)
{
    for (struct list *link; (link = list_pop_front(&p->dirty));)
        outgoing_flush(container_of(link, struct out_stream, dirty_link));
    entry_cache_clear(&p->cache);
    snapshot_post_flush_all(p);
}

/* --- life --- */

static void set_identity(struct peers *p, uint64_t self, uint64_t cluster_id)
{
    p->options.self = self;
    p->options.cluster_id = cluster_id;
    int len = snprintf(p->self_hex, sizeof(p->self_hex), "%" PRIx64, self);
    assert(len > 0);
    len = snprintf(p->cluster_hex, sizeof(p->cluster_hex), "%" PRIx64, cluster_id);
    assert(len > 0);
}

void peers_identify(struct peers *p, uint64_t self, uint64_t cluster_id)
{
    assert(p->options.self == RAFT_NONE);
    assert(p->members.count == 0);
    set_identity(p, self, cluster_id);
}

struct peers *peers_open(const struct peers_options *options)
{
    struct peers *p = mem_new(struct peers);
    uint64_t map_seed;

    p->options = *options;
    p->io = options->io;
    p->clock = options->io->clock;
    p->logger = options->logger;
    p->urls = peer_copy_text(bytes_of_str(options->urls));
    p->version = peer_copy_text(bytes_of_str(options->version));
    set_identity(p, options->self, options->cluster_id);
    rng_seed(&p->rng, options->seed);
    map_seed = rng_next(&p->rng);
    wire_pool_init(&p->pool);
    map_init(&p->members, MAP_IDS, map_seed);
    map_init(&p->removed, MAP_IDS, map_seed);
    map_init(&p->requests, MAP_IDS, map_seed);
    map_init(&p->asks, MAP_IDS, map_seed);
    list_init(&p->dials);
    list_init(&p->conns);
    list_init(&p->dirty);
    list_init(&p->told);
    list_init(&p->told_appends);
    list_init(&p->guests);
    list_init(&p->snapshots);
    p->wake.run = on_wake;
    p->beat.on_time = on_beat;
    p->probe.on_time = on_probe;
    return p;
}

void peers_stop(struct peers *p)
{
    if (p->is_stopping)
        return;
    p->is_stopping = true;
    peer_timer_stop(p, &p->beat);
    peer_timer_stop(p, &p->probe);
    LIST_FOREACH (link, &p->conns)
        port_conn_finish(port_conn_of_link(link));
    MAP_FOREACH (entry, &p->members)
        peer_free(entry->value);
    ask_drop_guests(p);
}

bool peers_is_idle(const struct peers *p)
{
    return p->is_stopping && list_empty(&p->dials) && list_empty(&p->conns) && !p->wake.queued;
}

static void free_list(struct list *told)
{
    for (struct list *link; (link = list_pop_front(told));)
        told_free(container_of(link, struct told, link));
}

static void free_all(struct peers *p)
{
    assert(p->members.count == 0);
    assert(p->receiving == 0);
    assert(p->asks.count == 0);
    assert(list_empty(&p->snapshots));

    free_list(&p->told);
    free_list(&p->told_appends);
    map_free(&p->members);
    map_free(&p->removed);
    map_free(&p->requests);
    map_free(&p->asks);
    entry_cache_free(&p->cache);
    arena_free(&p->arena);
    wire_pool_free(&p->pool);
    mem_free(p->urls);
    mem_free(p->version);
    mem_free(p);
}

void peers_close(struct peers *p)
{
    if (!p)
        return;
    assert(peers_is_idle(p));
    free_all(p);
}

/* Whoever uses a socket first, and those that are left over after. */
void peers_abandon(struct peers *p)
{
    if (!p)
        return;
    p->is_abandoned = p->is_stopping = true;
    MAP_FOREACH (entry, &p->members)
        peer_free(entry->value);
    ask_drop_guests(p);
    LIST_FOREACH (link, &p->conns)
        port_conn_abandon(port_conn_of_link(link));
    LIST_FOREACH (link, &p->dials)
        dial_abandon(container_of(link, struct dial, link));
    free_all(p);
}

/* --- ask --- */

bool peers_status(const struct peers *p, uint64_t id, struct peer_status *out)
{
    const struct peer *peer = peers_find(p, id);

    if (!peer)
        return false;
    *out = peer->status;
    return true;
}

uint64_t peers_longest_connected(const struct peers *p, const uint64_t *of, size_t count)
{
    const struct peer *longest = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct peer *peer = peers_find(p, of[i]);
        if (peer && peer->status.is_active &&
            (!longest || peer->active_since_ns < longest->active_since_ns))
            longest = peer;
    }
    return longest ? longest->id : RAFT_NONE;
}

static void check_inflow(const struct peers *p, const struct inflow *f)
{
    size_t count = 0, bytes = 0;
    const struct list *both[] = {&p->told, &p->told_appends};

    for (size_t i = 0; i < ARRAY_LEN(both); i++)
        LIST_FOREACH (link, (struct list *)both[i]) {
            const struct told *t = container_of(link, struct told, link);
            count += t->inflow == f;
            bytes += t->inflow == f ? t->bytes : 0;
        }
    assert(count == f->count);
    assert(bytes == f->bytes);
    assert(count <= PEER_IN_MESSAGES_MAX);
    assert(count <= 1 || bytes <= PEER_IN_BYTES_MAX);
}

static void check_peer(const struct peers *p, const struct peer *peer, uint64_t *receiving)
{
    unsigned streams = 0;

    for (unsigned kind = 0; kind < STREAM_KINDS; kind++) {
        const struct out_stream *o = peer->out[kind];
        const struct incoming *in = &peer->in[kind];
        if (o) {
            assert(o->peer == peer);
            assert(o->message_count <= PEER_OUT_MESSAGES_MAX);
            assert(o->under.len > 0 || o->write_since_ns == 0);
        }
        assert(!in->is_open || in->dial);
        assert(peer->is_remote || in->dial || timer_is_set(&in->redial));
        streams += o != NULL;
        streams += in->is_open;
        *receiving += in->decoder.frame.len;
    }
    *receiving += requests_receiving(&peer->posts) + requests_receiving(&peer->asks) +
                  requests_receiving(&peer->probes);
    assert(streams == peer->status.streams);
    assert(!peer->is_remote || streams == 0);
    assert(!peer->status.is_active || streams > 0);
    assert(peer->posts.waiting_count <= PEER_POSTS_MAX + PEER_POST_CONNS_MAX);
    check_inflow(p, &peer->appends);
    check_inflow(p, &peer->others);
    assert(peer->status.snapshots_sending == (peer->snapshot != NULL));
    if (peer->snapshot)
        snapshot_post_check(peer->snapshot);
}

void peers_check(const struct peers *p)
{
    uint64_t receiving = ask_guests_receiving(p);
    size_t remotes = 0;

    MAP_FOREACH (entry, &p->members) {
        const struct peer *peer = entry->value;
        check_peer(p, peer, &receiving);
        remotes += peer->is_remote;
    }
    LIST_FOREACH (link, (struct list *)&p->conns)
        port_conn_check(port_conn_of_link(link), &receiving);
    size_t dials = 0;
    LIST_FOREACH (link, (struct list *)&p->dials)
        dials += container_of(link, struct dial, link)->peers == p;
    assert(dials == p->dial_count);
    assert(remotes == p->remote_count);
    assert(receiving == p->receiving);
    assert(p->receiving <= PEER_RECEIVING_BYTES_MAX);
    check_inflow(p, &p->strangers);
    check_inflow(p, &p->announced);
}
