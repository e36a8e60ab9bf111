/*
 * A stream that a peer has dialled, to hear us. The messages of a turn gather and leave in one
 * write, as one chunk of the response that never ends:
 *
 *     00000a3c CR LF | message | message | ... | CR LF
 *
 * While the socket has not taken all of it the next ones gather behind, up to the bounds. Whoever
 * does not take a slice of it in five seconds is cut off, as etcd does it: the messages are old by
 * then.
 */
#include "base/assert.h"
#include "peer/peer_int.h"

#include <stdio.h>

enum { CHUNK_HEAD_BYTES = 10 }; /* eight digits: leading zeros mean nothing */

static_assert(PEER_OUT_BYTES_MAX + PEER_OUT_RESERVE_BYTES < UINT32_MAX - PEER_FRAME_BYTES_MAX,
              "the size of any chunk has eight digits");

size_t outgoing_queued(const struct out_stream *o)
{
    return o->next.len + o->under.len;
}

/* --- writing --- */

static void begin_chunk(struct out_stream *o)
{
    if (o->next.len == 0 && o->is_chunked)
        gather_add(&o->next, BYTES("00000000\r\n"));
}

static void end_chunk(struct out_stream *o)
{
    char head[CHUNK_HEAD_BYTES + 1];

    if (!o->is_chunked)
        return;
    int len = snprintf(head, sizeof(head), "%08x\r\n", (unsigned)(o->next.len - CHUNK_HEAD_BYTES));
    assert(len == CHUNK_HEAD_BYTES);
    memcpy(o->next.bytes.at, head, CHUNK_HEAD_BYTES);
    gather_add(&o->next, BYTES("\r\n"));
}

static void write_slice(struct out_stream *o);

static void on_done(struct conn_write *w, enum err e)
{
    struct out_stream *o = container_of(w, struct out_stream, write);

    if (o->peer && e == ERR_OK && o->piece < o->piece_count) {
        write_slice(o);
        return;
    }
    if (o->peer && e == ERR_OK) {
        o->peer->status.sent_bytes += o->under.len;
    } else if (o->peer) {
        o->peer->status.sent_failures++;
        peers_tell_unreachable(o->peer);
    }
    o->write_since_ns = 0;
    o->message_count -= o->under_count;
    o->under_count = 0;
    gather_clear(&o->under);
    if (o->peer && e == ERR_OK)
        outgoing_flush(o);
}

/* The socket tells when it has taken a slice, so that slow can be told from dead. */
static void write_slice(struct out_stream *o)
{
    size_t count = 0, bytes = 0;

    while (o->piece < o->piece_count && count < PEER_OUT_SLICE_PIECES &&
           bytes < PEER_OUT_SLICE_BYTES) {
        struct bytes piece = o->pieces[o->piece];
        size_t left = piece.len - o->piece_sent;
        size_t now = left < PEER_OUT_SLICE_BYTES - bytes ? left : PEER_OUT_SLICE_BYTES - bytes;

        o->slice[count++] = bytes_of(piece.at + o->piece_sent, now);
        bytes += now;
        o->piece_sent += now;
        if (now == left) {
            o->piece++;
            o->piece_sent = 0;
        }
    }
    o->write = (struct conn_write){.pieces = o->slice, .piece_count = count, .on_done = on_done};
    o->write_since_ns = clock_now_ns(o->peer->peers->clock);
    conn_write(port_conn_socket(o->conn), &o->write);
}

/* What is left waits for the socket, from where it is. `skip` of it has gone already. */
static void write_rest(struct out_stream *o, size_t skip)
{
    struct gather spare = o->under;

    o->under = o->next;
    o->next = spare;
    o->under_count = o->message_count;
    size_t most = 2 * o->under.share_count + 1;
    if (most > o->piece_cap) {
        o->pieces = mem_resize(o->pieces, most, sizeof(*o->pieces));
        o->piece_cap = most;
    }
    o->piece_count = gather_pieces(&o->under, o->pieces);
    assert(skip == 0 || o->piece_count == 1);
    o->piece = 0;
    o->piece_sent = skip;
    write_slice(o);
}

void outgoing_flush(struct out_stream *o)
{
    size_t taken = 0;

    if (o->write_since_ns > 0 || o->next.len == 0)
        return;
    end_chunk(o);
    if (o->next.share_count == 0) {
        taken = conn_try_write(port_conn_socket(o->conn), buf_bytes(&o->next.bytes));
        if (taken == o->next.len) {
            o->peer->status.sent_bytes += taken;
            o->message_count = 0;
            gather_clear(&o->next);
            return;
        }
    }
    write_rest(o, taken);
}

static void make_dirty(struct out_stream *o)
{
    if (list_empty(&o->dirty_link))
        list_push_back(&o->peer->peers->dirty, &o->dirty_link);
}

static bool has_credit(const struct out_stream *o, const struct raft_message *m)
{
    size_t most = PEER_OUT_BYTES_MAX;

    if (m->entry_count == 0)
        most += PEER_OUT_RESERVE_BYTES;
    else if (m->type == RAFT_MSG_APP && o->kind == STREAM_MESSAGE)
        most = PEER_DETOUR_BYTES_MAX;
    return o->message_count < PEER_OUT_MESSAGES_MAX && outgoing_queued(o) < most;
}

/* A turn that has more to say than may wait says it in two writes, if the socket is free. */
bool outgoing_put(struct out_stream *o, const struct raft_message *m)
{
    if (!has_credit(o, m))
        outgoing_flush(o);
    if (!has_credit(o, m))
        return false;
    begin_chunk(o);
    if (o->kind == STREAM_APP)
        stream_put_append(&o->next, &o->app, &o->peer->peers->cache, m);
    else
        stream_put_message(&o->next, m);
    o->message_count++;
    make_dirty(o);
    return true;
}

/* --- time --- */

/* It may be slow, as long as it reads. */
static bool is_stalled(const struct out_stream *o, uint64_t now_ns)
{
    return o->write_since_ns > 0 &&
           now_ns - o->write_since_ns >= PEER_STREAM_SILENCE_MS * NS_PER_MS;
}

static void beat(struct out_stream *o, uint64_t now_ns)
{
    struct port_conn *conn = o->conn;

    if (is_stalled(o, now_ns)) {
        outgoing_detach(o, "i/o timeout");
        port_conn_cut(conn, ERR_TIMEOUT);
        return;
    }
    if (o->write_since_ns > 0)
        return; /* enough is on its way */
    begin_chunk(o);
    stream_put_heartbeat(&o->next, o->kind);
    outgoing_flush(o);
}

void outgoing_beat_all(struct peers *p)
{
    uint64_t now_ns = clock_now_ns(p->clock);

    MAP_FOREACH (entry, &p->members) {
        struct peer *peer = entry->value;
        for (unsigned kind = 0; kind < STREAM_KINDS; kind++)
            if (peer->out[kind])
                beat(peer->out[kind], now_ns);
    }
}

/* --- life --- */

void outgoing_attach(struct peer *peer, enum stream_kind kind, struct port_conn *conn,
                     bool is_chunked)
{
    struct peers *p = peer->peers;
    struct out_stream *old = peer->out[kind];
    struct out_stream *o = mem_new(struct out_stream);

    if (old) {
        struct port_conn *old_conn = old->conn;
        log_warn(p->logger, "closed TCP streaming connection with remote peer",
                 LOG_STR("stream-writer-type", stream_kind_name(kind)),
                 LOG_ID("local-member-id", p->options.self), LOG_ID("remote-peer-id", peer->id));
        outgoing_detach(old, NULL);
        port_conn_cut(old_conn, ERR_OK);
    }
    *o = (struct out_stream){.peer = peer, .conn = conn, .kind = kind, .is_chunked = is_chunked};
    list_init(&o->dirty_link);
    peer->out[kind] = o;
    port_conn_set_stream(conn, o);
    peer->status.streams++;
    peer_activate(peer);
    log_info(p->logger, "established TCP streaming connection with remote peer",
             LOG_STR("stream-writer-type", stream_kind_name(kind)),
             LOG_ID("local-member-id", p->options.self), LOG_ID("remote-peer-id", peer->id));
    for (unsigned i = 0; i < STREAM_KINDS; i++)
        incoming_hurry(&peer->in[i]);
}

void outgoing_detach(struct out_stream *o, const char *why)
{
    struct peer *peer = o->peer;

    if (!peer)
        return;
    struct peers *p = peer->peers;
    assert(peer->out[o->kind] == o);
    peer->out[o->kind] = NULL;
    peer->status.streams--;
    list_remove(&o->dirty_link);
    if (o->message_count > 0) {
        peer->status.sent_failures++;
        peers_tell_unreachable(peer);
    }
    o->peer = NULL;
    if (!why)
        return;
    log_warn(p->logger, "lost TCP streaming connection with remote peer",
             LOG_STR("stream-writer-type", stream_kind_name(o->kind)),
             LOG_ID("local-member-id", p->options.self), LOG_ID("remote-peer-id", peer->id),
             LOG_STR("error", why));
    peer_deactivate(peer, "write", stream_kind_name(o->kind), why);
}

/* A last word, if the socket takes it: the reader sees an end in good order. */
void outgoing_finish(struct out_stream *o)
{
    outgoing_flush(o);
    if (o->write_since_ns == 0 && o->is_chunked)
        (void)conn_try_write(port_conn_socket(o->conn), BYTES("0\r\n\r\n"));
}

void outgoing_free(struct out_stream *o)
{
    assert(!o->peer);
    gather_free(&o->next);
    gather_free(&o->under);
    mem_free(o->pieces);
    mem_free(o);
}
