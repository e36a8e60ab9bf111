/*
 * The peer port. A connection's requests are one of these:
 *
 *     GET  /raft/stream/msgapp/<id>, /raft/stream/message/<id>    becomes an outgoing stream
 *     POST /raft                                                  a message
 *     POST /raft/snapshot                                         a message and an image
 *     GET  /raft/probing                                          answered here
 *     anything else                                               handed to the server
 *
 * Whoever is refused is refused by the head of his request, before a byte of a body is kept.
 *
 * A sender that is silent for PEER_PORT_SILENCE_MS is gone. One that says a little now and then has
 * PEER_PORT_PACE_MS from its request's first byte on; and again as long each time that it has sent
 * PEER_PORT_BYTES_PER_MS meanwhile. No link of a megabit per second is so slow. What came before
 * does not count: else half a gigabyte, sent fast, could be left in our memory for hours.
 *
 * When the places are taken (io/conn_limit.h) members keep theirs: by a certificate, or by what
 * only a known member asks for. Streams, requests that the server has, and snapshots keep a
 * connection busy.
 */
#include "base/assert.h"
#include "peer/peer_int.h"

#include <stdio.h>
#include <time.h>

enum port_state { PORT_OPEN, PORT_LINGERING, PORT_CLOSING };

/* What the request being read will become. */
enum port_use { USE_NONE, USE_MESSAGE, USE_SNAPSHOT, USE_REQUEST };

struct port_conn {
    struct peers *peers;
    struct list link; /* on peers->conns */
    struct conn *conn;
    char remote[NET_TEXT_MAX];
    struct wire wire;
    struct http_conn http;
    enum port_state state;
    enum port_use use;
    struct timer timer;
    uint64_t heard_ns; /* something came last */
    uint64_t began_ns; /* the request did, or the part of it that its pace is taken of; 0: none */
    uint64_t received; /* bytes since then */
    struct buf body;
    size_t body_at; /* where its content begins: of a message, behind what its blob needs itself */
    size_t body_max;
    uint64_t request;             /* that the server has; 0: none */
    struct snapshot_in *snapshot; /* USE_SNAPSHOT */
    struct out_stream *stream;
    bool is_last;  /* http has said that the connection is of no more use */
    bool has_left; /* the other end says no more, though its request has no response */
};

/* --- its place --- */

/* After any change of what is asked here. A connection that closes is nobody's any more. */
static void look_busy(struct port_conn *c)
{
    if (c->state == PORT_CLOSING || c->peers->is_abandoned)
        return;
    if (c->stream || c->snapshot || c->request > 0)
        conn_set_busy(c->conn);
    else
        conn_set_idle(c->conn, clock_now_ns(c->peers->clock));
}

static void count_as_member(struct port_conn *c)
{
    conn_prove(c->conn, 0);
}

/* --- the end --- */

static void drop_request(struct port_conn *c)
{
    if (c->request > 0)
        (void)map_remove_id(&c->peers->requests, c->request);
    c->request = 0;
    look_busy(c);
}

static size_t body_len(const struct port_conn *c)
{
    return c->body.len - c->body_at;
}

static void drop_body(struct port_conn *c)
{
    c->peers->receiving -= body_len(c);
    buf_free(&c->body);
    c->body_at = 0;
}

/* With the status of the response; 0: there was none. */
static void drop_snapshot(struct port_conn *c, unsigned status)
{
    if (!c->snapshot)
        return;
    drop_request(c);
    snapshot_in_free(c->snapshot, status);
    c->snapshot = NULL;
    look_busy(c);
}

static void end_use(struct port_conn *c)
{
    drop_snapshot(c, 0);
    drop_request(c);
    drop_body(c);
    http_close(&c->http);
    peer_timer_stop(c->peers, &c->timer);
}

void port_conn_cut(struct port_conn *c, enum err reason)
{
    if (c->state == PORT_CLOSING)
        return;
    c->state = PORT_CLOSING;
    end_use(c);
    wire_drop(&c->wire);
    if (!c->peers->is_abandoned)
        conn_close(c->conn, reason);
}

static void port_conn_free(struct port_conn *c)
{
    if (c->stream)
        outgoing_free(c->stream);
    list_remove(&c->link);
    c->peers->conn_count--;
    mem_free(c);
}

static void on_closed(struct conn *conn, enum err reason)
{
    struct port_conn *c = conn->context;

    if (reason == ERR_EVICTED)
        log_warn(c->peers->logger,
                 "closed a connection to the peer port because there are too many",
                 LOG_STR("remote-addr", c->remote));
    if (c->stream)
        outgoing_detach(c->stream, err_text(reason));
    if (c->state != PORT_CLOSING)
        end_use(c);
    wire_drop(&c->wire);
    port_conn_free(c);
}

void port_conn_abandon(struct port_conn *c)
{
    if (c->stream)
        c->stream->peer = NULL;
    end_use(c);
    wire_drop(&c->wire);
    port_conn_free(c);
}

/* Closing at once, with input unread, would make the kernel discard our last words. */
static void linger(struct port_conn *c)
{
    if (c->state != PORT_OPEN)
        return;
    assert(!c->stream || !c->stream->peer); /* nobody writes any more */
    wire_send(&c->wire);
    c->state = PORT_LINGERING;
    end_use(c);
    conn_shutdown(c->conn);
    conn_resume(c->conn);
    peer_timer_start(c->peers, &c->timer, PEER_LINGER_MS);
}

void port_conn_finish(struct port_conn *c)
{
    if (c->stream && c->stream->peer) {
        outgoing_finish(c->stream);
        outgoing_detach(c->stream, NULL);
    }
    linger(c);
}

/* --- responses --- */

struct response {
    unsigned status;
    const char *content_type, *allow;
    struct bytes body;
    bool with_cluster_id, with_version, is_error;
    bool is_last; /* the connection ends with it */
};

static void respond(struct port_conn *c, const struct response *a)
{
    const struct peers *p = c->peers;
    struct http1_field fields[6];
    size_t count = 0;

    if (a->content_type)
        fields[count++] =
            (struct http1_field){BYTES("Content-Type"), bytes_of_str(a->content_type)};
    if (a->is_error)
        fields[count++] = (struct http1_field){BYTES("X-Content-Type-Options"), BYTES("nosniff")};
    if (a->allow)
        fields[count++] = (struct http1_field){BYTES("Allow"), bytes_of_str(a->allow)};
    if (a->with_version)
        fields[count++] = (struct http1_field){BYTES("X-Server-Version"), bytes_of_str(p->version)};
    if (a->with_cluster_id)
        fields[count++] =
            (struct http1_field){BYTES("X-Etcd-Cluster-ID"), bytes_of_str(p->cluster_hex)};
    c->use = USE_NONE;
    http_respond(
        &c->http, a->status,
        &(struct http_message_options){
            .fields = fields, .field_count = count, .length = a->body.len, .close = a->is_last});
    http_send(&c->http, a->body);
    http_finish(&c->http);
}

/* As Go's http.Error: a line of text. */
static void refuse(struct port_conn *c, struct response a, const char *text)
{
    char line[128];
    int len = snprintf(line, sizeof(line), "%s\n", text);

    assert(len > 0 && (size_t)len < sizeof(line));
    a.content_type = "text/plain; charset=utf-8";
    a.is_error = true;
    a.body = bytes_of(line, (size_t)len);
    respond(c, &a);
}

static void refuse_message(struct port_conn *c, unsigned status, const char *text)
{
    refuse(c, (struct response){.status = status, .with_cluster_id = true}, text);
}

static void refuse_method(struct port_conn *c, const char *allow)
{
    refuse(c, (struct response){.status = 405, .allow = allow}, "Method Not Allowed");
}

static void respond_to_probe(struct port_conn *c)
{
    uint64_t wall_ns = clock_wall_ns(c->peers->clock);
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    unsigned nanos = (unsigned)(wall_ns % NS_PER_S);
    struct tm tm;
    struct buf body = {0};
    char fraction[16] = "";

    gmtime_r(&seconds, &tm);
    if (nanos > 0) {
        int len = snprintf(fraction, sizeof(fraction), ".%09u", nanos);
        while (len > 0 && fraction[len - 1] == '0')
            fraction[--len] = '\0';
    }
    buf_printf(&body, "{\"OK\":true,\"Now\":\"%04d-%02d-%02dT%02d:%02d:%02d%sZ\"}\n",
               tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
               fraction);
    respond(c, &(struct response){.status = 200,
                                  .content_type = "text/plain; charset=utf-8",
                                  .body = buf_bytes(&body)});
    buf_free(&body);
}

/* --- streams --- */

struct conn *port_conn_socket(struct port_conn *c)
{
    return c->conn;
}

void port_conn_set_stream(struct port_conn *c, struct out_stream *o)
{
    c->stream = o;
    look_busy(c);
}

static void refuse_stream(struct port_conn *c, unsigned status, const char *text)
{
    refuse(c, (struct response){.status = status, .with_cluster_id = true, .with_version = true},
           text);
}

static void open_stream(struct port_conn *c, struct peer *peer, enum stream_kind kind)
{
    const struct peers *p = c->peers;
    const struct http1_field fields[] = {
        {BYTES("X-Server-Version"), bytes_of_str(p->version)},
        {BYTES("X-Etcd-Cluster-ID"), bytes_of_str(p->cluster_hex)},
    };

    count_as_member(c);
    peer_timer_stop(c->peers, &c->timer);
    http_respond(&c->http, 200,
                 &(struct http_message_options){
                     .fields = fields, .field_count = ARRAY_LEN(fields), .length = HTTP_CHUNKED});
    wire_send(&c->wire); /* the other end waits for it; and what follows goes past the wire */
    outgoing_attach(peer, kind, c, !c->http.reader.is_1_0);
}

/* Somebody who is not known may have joined while we were away: then we can at least respond. */
static void refuse_stranger(struct port_conn *c, uint64_t from)
{
    struct peers *p = c->peers;
    struct bytes urls = field_of(&c->http.reader, "X-PeerURLs");

    if (urls.len > 0)
        peers_add_remote(p, from, urls);
    log_warn(p->logger, "failed to find remote peer in cluster",
             LOG_ID("local-member-id", p->options.self),
             LOG_ID("remote-peer-id-stream-handler", p->options.self),
             LOG_ID("remote-peer-id-from", from), LOG_ID("cluster-id", p->options.cluster_id));
    refuse_stream(c, 404, "error sender not found");
}

/* etcd would not answer yet: it does not listen before it knows. */
static bool refuse_early(struct port_conn *c)
{
    if (c->peers->options.self != RAFT_NONE)
        return false;
    refuse(c, (struct response){.status = 503}, "etcdserver: not started yet");
    return true;
}

static void stream_head(struct port_conn *c, struct bytes path)
{
    struct peers *p = c->peers;
    const struct http1_reader *r = &c->http.reader;
    uint64_t from = 0;

    if (!bytes_equal(r->verb, BYTES("GET"))) {
        refuse_method(c, "GET");
        return;
    }
    if (refuse_early(c))
        return;
    enum check check = check_request(p, r);
    if (check != CHECK_OK) {
        refuse_stream(c, 412,
                      check == CHECK_VERSION ? "incompatible version" : "cluster ID mismatch");
        return;
    }
    size_t cut = path.len;
    while (path.at[cut - 1] != '/')
        cut--;
    struct bytes dir = bytes_of(path.at, cut - 1);
    struct bytes name = bytes_of(path.at + cut, path.len - cut);
    bool is_app = bytes_equal(dir, BYTES("/raft/stream/msgapp"));
    if (!is_app && !bytes_equal(dir, BYTES("/raft/stream/message"))) {
        log_debug(p->logger, "ignored unexpected streaming request path",
                  LOG_ID("local-member-id", p->options.self), LOG_BYTES("path", path));
        refuse_stream(c, 404, "invalid path");
        return;
    }
    if (!check_id(name, &from)) {
        log_warn(p->logger, "failed to parse path into ID",
                 LOG_ID("local-member-id", p->options.self), LOG_BYTES("path", name));
        refuse_stream(c, 404, "invalid from");
        return;
    }
    if (peers_is_removed(p, from)) {
        log_warn(p->logger, "rejected stream from remote peer because it was removed",
                 LOG_ID("local-member-id", p->options.self), LOG_ID("remote-peer-id-from", from));
        refuse_stream(c, 410, "removed member");
        return;
    }
    struct peer *peer = peers_find(p, from);
    if (!peer) {
        refuse_stranger(c, from);
        return;
    }
    struct bytes to = field_of(r, "X-Raft-To");
    if (!bytes_equal(to, bytes_of_str(p->self_hex))) {
        log_warn(p->logger, "ignored streaming request; ID mismatch",
                 LOG_ID("local-member-id", p->options.self),
                 LOG_ID("remote-peer-id-stream-handler", p->options.self),
                 LOG_BYTES("remote-peer-id-header", to), LOG_ID("remote-peer-id-from", from),
                 LOG_ID("cluster-id", p->options.cluster_id));
        refuse_stream(c, 412, "to field mismatch");
        return;
    }
    open_stream(c, peer, is_app ? STREAM_APP : STREAM_MESSAGE);
}

/* --- messages --- */

/* False: it was refused. */
static bool check_post(struct port_conn *c)
{
    const struct http1_reader *r = &c->http.reader;

    if (!bytes_equal(r->verb, BYTES("POST"))) {
        refuse_method(c, "POST");
        return false;
    }
    if (refuse_early(c))
        return false;
    enum check check = check_request(c->peers, r);
    if (check == CHECK_OK)
        return true;
    refuse_message(c, 412, check == CHECK_VERSION ? "incompatible version" : "cluster ID mismatch");
    return false;
}

/* If it is nobody that we know, where it lives may be of use. */
static void hear_of_sender(struct port_conn *c)
{
    struct peers *p = c->peers;
    uint64_t from = 0;

    bool has_from = check_id(field_of(&c->http.reader, "X-Server-From"), &from);
    struct bytes urls = field_of(&c->http.reader, "X-PeerURLs");
    if (has_from && urls.len > 0)
        peers_add_remote(p, from, urls);
}

/* Who posts may send an append, be he a member or not: somebody who was started again before his
 * first entry was durable knows nobody, refuses all streams, and learns of the others by posts. */
static void message_head(struct port_conn *c)
{
    if (!check_post(c))
        return;
    hear_of_sender(c);
    c->use = USE_MESSAGE;
    c->body_at = blob_begin(&c->body);
    c->body_max = PEER_POST_BYTES_MAX;
}

static void take_message(struct port_conn *c, struct blob *frame)
{
    struct peers *p = c->peers;
    struct raft_message m;

    if (raft_message_decode(frame, blob_bytes(frame), &p->arena, &m) != ERR_OK) {
        log_warn(p->logger, "failed to unmarshal Raft message",
                 LOG_ID("local-member-id", p->options.self), LOG_STR("remote", c->remote));
        refuse_message(c, 400, "error unmarshalling raft message");
        return;
    }
    if (m.type == RAFT_MSG_SNAP) { /* the state that belongs to it is not here */
        refuse_message(c, 400, "wrong raft message type");
        return;
    }
    struct peer *peer = peers_find(p, m.from);
    size_t bytes = blob_bytes(frame).len;
    if (peer) {
        count_as_member(c);
        peer->status.received_bytes += bytes;
    }
    switch (peers_received(p, peer, &m, bytes)) {
    case RECEIVED:
    case RECEIPT_IGNORED:
        respond(c, &(struct response){.status = 204, .with_cluster_id = true});
        break;
    case RECEIPT_FULL:
    case RECEIPT_REMOVED:
    case RECEIPT_MISMATCH:
        /* etcd has a 403 in mind for the latter two, which a sender takes for "you were removed"
         * and ends; in 3.7 it never gets that far, and says this. Whoever was removed learns it
         * from a stream that is refused. */
        refuse(c, (struct response){.status = 500, .with_cluster_id = true, .is_last = true},
               "error processing raft message");
        break;
    }
}

static void message_end(struct port_conn *c)
{
    c->peers->receiving -= body_len(c);
    struct blob *frame = blob_end(&c->body);
    c->body_at = 0;
    take_message(c, frame);
    arena_reset(&c->peers->arena);
    blob_unref(frame);
}

/* --- snapshots --- */

/* Who sends one need not be a member that we know: we may be so far behind that we have not heard
 * of it, and nothing else would bring us there. So its message is held to no less than a member's.
 */
static void snapshot_head(struct port_conn *c)
{
    const struct http1_reader *r = &c->http.reader;

    if (!check_post(c))
        return;
    hear_of_sender(c);
    c->use = USE_SNAPSHOT;
    c->snapshot = snapshot_in_new(c->peers, c->remote,
                                  r->part == HTTP1_IN_CHUNK_SIZE ? HTTP_CHUNKED : r->length);
    look_busy(c);
    http_set_window(&c->http, 1); /* what there is no credit for is left in the socket */
}

static void refuse_snapshot(struct port_conn *c)
{
    unsigned status = c->snapshot->status;
    const char *why = c->snapshot->why;

    drop_snapshot(c, status);
    refuse_message(c, status, why);
}

static void snapshot_data(struct port_conn *c, struct bytes piece)
{
    http_consumed(&c->http, snapshot_in_data(c->snapshot, piece));
    if (c->snapshot->status > 0) {
        refuse_snapshot(c);
    } else if (c->snapshot->id > 0 && c->request == 0) {
        c->request = c->snapshot->id;
        (void)map_put_id(&c->peers->requests, c->request, c);
        if (peers_find(c->peers, c->snapshot->from))
            count_as_member(c);
    }
}

static void snapshot_end(struct port_conn *c)
{
    snapshot_in_end(c->snapshot);
    if (c->snapshot->status > 0)
        refuse_snapshot(c);
}

/* A sender that had no credit was not silent. */
static bool is_starved(const struct port_conn *c)
{
    return c->snapshot && c->snapshot->id > 0 && c->snapshot->credit == 0;
}

/* Or the rest of an image, whose sender had to wait for us. */
static void begin_request(struct port_conn *c, uint64_t now_ns)
{
    c->heard_ns = c->began_ns = now_ns;
    c->received = 0;
}

/* --- requests for the server --- */

static struct bytes copy_to(struct buf *text, struct bytes what)
{
    struct bytes copy = bytes_of(text->at + text->len, what.len);

    if (what.len > 0)
        memcpy(text->at + text->len, what.at, what.len);
    text->len += what.len;
    return copy;
}

static void request_end(struct port_conn *c)
{
    struct peers *p = c->peers;
    const struct http1_reader *r = &c->http.reader;
    struct bytes path = http_path(&c->http), body = buf_bytes(&c->body);
    struct bytes cluster = field_of(r, "X-Etcd-Cluster-ID");
    struct bytes authorization = field_of(r, "Authorization");

    struct told *t = told_new(PEER_REQUEST, RAFT_NONE);
    buf_reserve(&t->text, r->verb.len + path.len + body.len + cluster.len + authorization.len + 1);
    t->event.verb = copy_to(&t->text, r->verb);
    t->event.path = copy_to(&t->text, path);
    t->event.body = copy_to(&t->text, body);
    t->event.cluster_id = copy_to(&t->text, cluster);
    t->event.authorization = copy_to(&t->text, authorization);
    t->event.id = c->request = ++p->last_request;
    (void)map_put_id(&p->requests, c->request, c);
    look_busy(c);
    drop_body(c);
    peers_tell(p, t);
}

static void settle(struct port_conn *c);

void peers_respond(struct peers *p, uint64_t request, const struct peer_response *r)
{
    struct port_conn *c = map_get_id(&p->requests, request);

    if (!c)
        return; /* it has gone */
    drop_snapshot(c, r->status);
    drop_request(c);
    respond(c, &(struct response){.status = r->status,
                                  .content_type = r->content_type,
                                  .allow = r->allow,
                                  .body = r->body,
                                  .with_cluster_id = r->with_cluster_id,
                                  .is_error = r->status >= 400 && r->content_type &&
                                              strncmp(r->content_type, "text/plain", 10) == 0});
    settle(c);
}

bool peers_is_awaited(const struct peers *p, uint64_t request)
{
    return map_get_id(&p->requests, request) != NULL;
}

void peers_snapshot_grant(struct peers *p, uint64_t id, size_t bytes)
{
    struct port_conn *c = map_get_id(&p->requests, id);

    if (!c || !c->snapshot)
        return; /* it has gone */
    if (is_starved(c))
        begin_request(c, clock_now_ns(p->clock));
    http_consumed(&c->http, snapshot_in_grant(c->snapshot, bytes));
    settle(c);
    peers_wake(p); /* to take what was held */
}

/* --- http --- */

static struct port_conn *port_conn_of(struct http_conn *h)
{
    return h->context;
}

static void refuse_body(struct port_conn *c)
{
    drop_body(c);
    refuse(c, (struct response){.status = 413}, "http: request body too large");
}

static void on_head(struct http_conn *h)
{
    struct port_conn *c = port_conn_of(h);
    struct bytes path = http_path(h);

    c->use = USE_NONE;
    if (http_is_misdirected(h)) {
        http_redirect(h, NULL, 0);
    } else if (bytes_starts_with(path, BYTES("/raft/stream/"))) {
        stream_head(c, path);
    } else if (bytes_equal(path, BYTES("/raft"))) {
        message_head(c);
    } else if (bytes_equal(path, BYTES("/raft/snapshot"))) {
        snapshot_head(c);
    } else if (bytes_equal(path, BYTES("/raft/probing"))) {
        respond_to_probe(c);
    } else if (bytes_starts_with(path, BYTES("/raft/"))) {
        refuse(c, (struct response){.status = 404}, "404 page not found");
    } else {
        c->use = USE_REQUEST;
        c->body_max = PEER_REQUEST_BYTES_MAX;
    }
    bool is_bounded = c->use == USE_MESSAGE || c->use == USE_REQUEST;
    if (is_bounded && h->reader.has_length && h->reader.length > c->body_max)
        refuse_body(c);
}

static void on_body(struct http_conn *h, struct bytes piece)
{
    struct port_conn *c = port_conn_of(h);
    struct peers *p = c->peers;

    if (c->use == USE_SNAPSHOT) {
        snapshot_data(c, piece);
        return;
    }
    http_consumed(h, piece.len);
    if (c->use == USE_NONE)
        return;
    if (piece.len > c->body_max - body_len(c) ||
        piece.len > PEER_RECEIVING_BYTES_MAX - p->receiving) {
        refuse_body(c);
        return;
    }
    buf_append(&c->body, piece);
    p->receiving += piece.len;
}

static void on_end(struct http_conn *h)
{
    struct port_conn *c = port_conn_of(h);

    peer_timer_stop(c->peers, &c->timer);
    if (c->use == USE_MESSAGE)
        message_end(c);
    else if (c->use == USE_SNAPSHOT)
        snapshot_end(c);
    else if (c->use == USE_REQUEST)
        request_end(c);
}

static void on_credit(struct http_conn *h)
{
    (void)h;
}

static void watch_silence(struct port_conn *c)
{
    c->heard_ns = clock_now_ns(c->peers->clock);
    c->began_ns = 0;
    peer_timer_start(c->peers, &c->timer, PEER_PORT_SILENCE_MS);
}

static void on_over(struct http_conn *h, bool kept)
{
    struct port_conn *c = port_conn_of(h);

    assert(c->body.len == 0);
    assert(!c->snapshot);
    if (kept && !c->peers->is_stopping)
        watch_silence(c);
    else
        c->is_last = true;
}

static void on_broken(struct http_conn *h, const char *why)
{
    struct port_conn *c = port_conn_of(h);

    if (c->snapshot)
        c->snapshot->why = why;
    if (c->snapshot && c->snapshot->id > 0)
        ; /* the server is told why */
    else if (c->use == USE_MESSAGE || c->use == USE_SNAPSHOT)
        log_warn(c->peers->logger, "failed to read Raft message",
                 LOG_ID("local-member-id", c->peers->options.self), LOG_STR("remote", c->remote),
                 LOG_STR("error", why));
    else
        log_warn(c->peers->logger, "rejected a connection to the peer port",
                 LOG_STR("remote-addr", c->remote), LOG_STR("error", why));
    /* What is sent goes past http, and would be written behind the end that we are about to say. */
    if (c->stream)
        outgoing_detach(c->stream, why);
    c->is_last = true;
}

static const struct http_events http_events = {.on_head = on_head,
                                               .on_body = on_body,
                                               .on_end = on_end,
                                               .on_credit = on_credit,
                                               .on_over = on_over,
                                               .on_broken = on_broken};

/* Never from inside http's callbacks: it ends the http_conn. */
static void settle(struct port_conn *c)
{
    if (c->state != PORT_OPEN)
        return;
    wire_send(&c->wire);
    if (c->is_last)
        linger(c);
}

/* --- the socket --- */

static void on_data(struct conn *conn, struct bytes data)
{
    struct port_conn *c = conn->context;

    if (c->state != PORT_OPEN)
        return;
    c->heard_ns = clock_now_ns(c->peers->clock);
    if (c->began_ns == 0)
        begin_request(c, c->heard_ns);
    c->received += data.len;
    http_data(&c->http, data);
    settle(c);
}

static void on_socket_end(struct conn *conn)
{
    struct port_conn *c = conn->context;

    if (c->state == PORT_LINGERING) {
        port_conn_cut(c, ERR_OK);
        return;
    }
    if (c->state != PORT_OPEN)
        return;
    if (c->stream) { /* whoever asked for it has left */
        outgoing_detach(c->stream, "EOF");
        port_conn_cut(c, ERR_END);
        return;
    }
    http_ended(&c->http);
    settle(c);
    if (c->state == PORT_OPEN) { /* he may only have shut his side; more likely he is gone */
        c->has_left = true;
        peer_timer_start(c->peers, &c->timer, PEER_LINGER_MS);
    }
}

static void on_sent(struct wire *w, size_t bytes)
{
    struct port_conn *c = container_of(w, struct port_conn, wire);

    (void)bytes;
    if (c->state != PORT_OPEN)
        return;
    http_sent(&c->http);
    settle(c);
}

/* When the sender of a request has been silent, or slow, for too long. */
static uint64_t time_is_up_ns(struct port_conn *c)
{
    bool is_image = c->snapshot && c->snapshot->id > 0;
    uint64_t silence_ms = is_image ? PEER_SNAPSHOT_SILENCE_MS : PEER_PORT_SILENCE_MS;
    uint64_t silent_ns = c->heard_ns + silence_ms * NS_PER_MS;
    uint64_t slow_ns = c->began_ns + PEER_PORT_PACE_MS * NS_PER_MS;

    if (c->began_ns == 0)
        return silent_ns;
    if (is_image && peers_find(c->peers, c->snapshot->from))
        return silent_ns; /* a member's disk may be slow, and its image the only way on */
    if (clock_now_ns(c->peers->clock) >= slow_ns &&
        c->received >= (uint64_t)PEER_PORT_PACE_MS * PEER_PORT_BYTES_PER_MS) {
        c->began_ns = clock_now_ns(c->peers->clock);
        c->received = 0;
        return silent_ns;
    }
    return slow_ns < silent_ns ? slow_ns : silent_ns;
}

/* Go's server says nothing to somebody who did not finish his request. */
static void on_time(struct timer *t)
{
    struct port_conn *c = container_of(t, struct port_conn, timer);
    uint64_t due_ns = time_is_up_ns(c);

    if (c->snapshot)
        c->snapshot->why = "i/o timeout";
    if (c->state == PORT_OPEN && !c->has_left && is_starved(c))
        peer_timer_start(c->peers, t, PEER_SNAPSHOT_SILENCE_MS);
    else if (c->state == PORT_OPEN && !c->has_left && clock_now_ns(c->peers->clock) < due_ns)
        timer_start_at(c->peers->clock, t, due_ns);
    else
        port_conn_cut(c, ERR_TIMEOUT);
}

void peers_accept(struct peers *p, struct conn *conn)
{
    static const struct conn_handlers handlers = {
        .on_data = on_data, .on_end = on_socket_end, .on_closed = on_closed};
    static const char *const trees[] = {"/raft/stream/", "/members/promote/", NULL};
    static const struct http_paths paths = {.trees = trees};

    if (p->is_stopping || p->conn_count > PEER_CONNS_MAX) { /* one more comes before one goes */
        conn_close(conn, ERR_OK);
        return;
    }
    struct port_conn *c = mem_new(struct port_conn);
    *c = (struct port_conn){.peers = p, .conn = conn, .timer.on_time = on_time};
    memcpy(c->remote, conn_info(conn)->remote, sizeof(c->remote));
    c->wire = (struct wire){.pool = &p->pool, .conn = conn, .on_sent = on_sent};
    http_open(&c->http, &(struct http_conn_options){.reads = HTTP1_REQUEST,
                                                    .conn = conn,
                                                    .wire = &c->wire,
                                                    .clock = p->clock,
                                                    .on = &http_events,
                                                    .context = c,
                                                    .paths = &paths,
                                                    .heads = &p->heads});
    list_init(&c->link);
    list_push_back(&p->conns, &c->link);
    p->conn_count++;
    watch_silence(c);
    conn_accept(conn, &handlers, c);
}

/* The list links it by a member that only this file knows. */
struct port_conn *port_conn_of_link(struct list *link)
{
    return container_of(link, struct port_conn, link);
}

void port_conn_check(const struct port_conn *c, uint64_t *receiving)
{
    *receiving += body_len(c);
    if (c->snapshot) {
        *receiving += c->snapshot->message.len;
        snapshot_in_check(c->snapshot);
    }
    assert(!c->snapshot || c->use == USE_SNAPSHOT);
    http_check(&c->http);
    assert(body_len(c) <= PEER_POST_BYTES_MAX);
    assert(c->request == 0 || map_get_id(&c->peers->requests, c->request) == c);
    assert(!c->stream || c->stream->conn == c);
    assert(!c->stream || !c->stream->peer || c->stream->peer->out[c->stream->kind] == c->stream);
    assert(c->state != PORT_LINGERING || !c->stream || !c->stream->peer);
    assert(c->state != PORT_CLOSING || c->request == 0);
}
