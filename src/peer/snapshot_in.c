/*
 * A snapshot that is posted to us. The body is
 *
 *     length of the message u64be | message (MsgSnap) | image ...
 *
 * The message is gathered, since nothing can be said before it is whole, and looked at: whoever is
 * refused is refused before the image comes. Then the server is told, and gives credit as it writes
 * to its disk. What comes beyond that, one piece of the socket's, is held, and nothing more is read
 * until it is gone: so the sender stalls, and memory is what there was credit for.
 *
 * What was told and not taken grows instead of being told again. Else a sender of many small chunks
 * would cost an event for each byte.
 */
#include "base/assert.h"
#include "base/text.h"
#include "peer/peer_int.h"

enum { LENGTH_BYTES = 8 };

struct snapshot_in *snapshot_in_new(struct peers *p, const char *remote, uint64_t length)
{
    struct snapshot_in *in = mem_new(struct snapshot_in);

    *in = (struct snapshot_in){.peers = p, .remote = remote, .length = length};
    return in;
}

static void refuse(struct snapshot_in *in, unsigned status, const char *why)
{
    in->status = status;
    in->why = why;
}

static struct peer *sender(const struct snapshot_in *in)
{
    return peers_find(in->peers, in->from);
}

/* --- the message --- */

static void drop_message(struct snapshot_in *in)
{
    in->peers->receiving -= in->message.len;
    buf_free(&in->message);
}

static void refuse_message(struct snapshot_in *in, const char *error, const char *why)
{
    log_warn(in->peers->logger, "failed to decode Raft message",
             LOG_ID("local-member-id", in->peers->options.self), LOG_STR("remote", in->remote),
             LOG_STR("error", error));
    refuse(in, 400, why);
}

static uint64_t message_length(const struct snapshot_in *in)
{
    uint64_t length = 0;

    assert(in->message.len >= LENGTH_BYTES);
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        length = length << 8 | in->message.at[i];
    return length;
}

/* How much of the message is still to come, as far as that is known. */
static uint64_t message_missing(const struct snapshot_in *in)
{
    if (in->message.len < LENGTH_BYTES)
        return LENGTH_BYTES - in->message.len;
    return message_length(in) + LENGTH_BYTES - in->message.len;
}

/* Only what has arrived takes memory, whatever was announced. */
static struct bytes gather_message(struct snapshot_in *in, struct bytes piece)
{
    struct peers *p = in->peers;

    while (piece.len > 0 && in->status == 0 && message_missing(in) > 0) {
        uint64_t missing = message_missing(in);
        size_t now = missing < piece.len ? (size_t)missing : piece.len;

        if (now > PEER_RECEIVING_BYTES_MAX - p->receiving) {
            refuse(in, 413, "http: request body too large");
            break;
        }
        buf_append(&in->message, bytes_of(piece.at, now));
        p->receiving += now;
        piece = bytes_of(piece.at + now, piece.len - now);
        if (in->message.len == LENGTH_BYTES && message_length(in) > PEER_SNAPSHOT_MESSAGE_BYTES_MAX)
            refuse_message(in, "rafthttp: error limit exceeded",
                           "failed to decode raft message (rafthttp: error limit exceeded)");
    }
    return piece;
}

static bool is_message_whole(const struct snapshot_in *in)
{
    return in->status == 0 && in->message.len >= LENGTH_BYTES && message_missing(in) == 0;
}

/*
 * etcd looks at some of this when the image is on its disk; it is refused all the same, only
 * sooner. A message without a snapshot ends etcd's connection without a word, and one without
 * metadata is taken for a snapshot of nothing.
 */
static bool check_message(struct snapshot_in *in, const struct raft_message *m)
{
    struct peers *p = in->peers;

    if (m->type != RAFT_MSG_SNAP) {
        log_warn(p->logger, "unexpected Raft message type",
                 LOG_ID("local-member-id", p->options.self),
                 LOG_ID("remote-snapshot-sender-id", m->from),
                 LOG_STR("message-type", peers_message_type(m)));
        refuse(in, 400, "wrong raft message type");
    } else if (!m->snapshot || m->snapshot->index == 0) {
        refuse_message(in, "no snapshot in it",
                       "failed to decode raft message (no snapshot in it)");
    } else if (m->from == RAFT_NONE || m->from == p->options.self) {
        refuse_message(in, "from no other member",
                       "failed to decode raft message (from no other member)");
    } else if (peers_rejects_sender(p, m)) {
        refuse(in, 500,
               "failed to process raft message (cannot process message from removed member)");
    } else if (peers_rejects_target(p, m)) {
        refuse(in, 500,
               "failed to process raft message (cannot process message to mismatch member)");
    } else if (p->announced.count > 0 && p->announced.bytes + in->message.len > PEER_IN_BYTES_MAX) {
        refuse(in, 500, "failed to save KV snapshot (too many at once)");
    }
    return in->status == 0;
}

static void log_receiving(const struct snapshot_in *in, const struct raft_message *m)
{
    size_t bytes = in->message.len - LENGTH_BYTES;
    struct buf size = {0};

    text_append_size(&size, bytes);
    log_info(in->peers->logger, "receiving database snapshot",
             LOG_ID("local-member-id", in->peers->options.self),
             LOG_ID("remote-snapshot-sender-id", m->from),
             LOG_U64("incoming-snapshot-index", m->snapshot->index),
             LOG_U64("incoming-snapshot-message-size-bytes", bytes),
             LOG_BYTES("incoming-snapshot-message-size", buf_bytes(&size)));
    buf_free(&size);
}

static void announce(struct snapshot_in *in, const struct raft_message *m)
{
    struct peers *p = in->peers;
    struct peer *peer = sender(in);
    struct told *t = told_new(PEER_SNAPSHOT_BEGIN, m->from);

    in->id = ++p->last_request;
    in->state = SNAPSHOT_IN_IMAGE;
    t->message = raft_message_clone(m);
    t->event.message = t->message;
    t->event.id = in->id;
    t->event.image_bytes = in->length == HTTP_CHUNKED ? UINT64_MAX : in->length - in->message.len;
    t->inflow = &p->announced;
    t->bytes = in->message.len;
    p->announced.count++;
    p->announced.bytes += t->bytes;
    log_receiving(in, m);
    if (peer) {
        peer->status.received_bytes += in->message.len - LENGTH_BYTES;
        peer->status.snapshots_receiving++;
        in->began_ns = clock_now_ns(p->clock);
    }
    peers_tell(p, t);
}

static void message_whole(struct snapshot_in *in)
{
    struct peers *p = in->peers;
    struct bytes wire = bytes_of(in->message.at + LENGTH_BYTES, in->message.len - LENGTH_BYTES);
    struct blob *frame = blob_copy(wire);
    struct raft_message m;

    if (raft_message_decode(frame, blob_bytes(frame), &p->arena, &m) != ERR_OK) {
        refuse_message(in, "malformed",
                       "failed to decode raft message (proto: cannot parse invalid wire-format "
                       "data)");
    } else {
        in->from = m.from;
        if (check_message(in, &m))
            announce(in, &m);
    }
    if (in->status > 0 && sender(in))
        sender(in)->status.snapshot_receive_failures++;
    arena_reset(&p->arena);
    blob_unref(frame);
    drop_message(in);
}

/* --- the image --- */

static void tell_bytes(struct snapshot_in *in, struct bytes bytes)
{
    struct told *t = in->untaken;

    assert(bytes.len <= in->credit);
    if (bytes.len == 0)
        return;
    in->credit -= bytes.len;
    if (!t) {
        t = told_new(PEER_SNAPSHOT_BYTES, in->from);
        t->event.id = in->id;
        t->grows_for = in;
        in->untaken = t;
        peers_tell(in->peers, t);
    }
    buf_append(&t->text, bytes);
    t->event.body = buf_bytes(&t->text);
}

static void tell_end(struct snapshot_in *in)
{
    struct peer *peer = sender(in);
    struct told *t = told_new(PEER_SNAPSHOT_END, in->from);

    in->state = SNAPSHOT_IN_ENDED;
    t->event.id = in->id;
    if (peer)
        peer->status.received_bytes += in->image_bytes;
    peers_tell(in->peers, t);
}

size_t snapshot_in_data(struct snapshot_in *in, struct bytes piece)
{
    size_t dealt_with = piece.len;

    assert(in->status == 0);
    assert(in->held.len == 0);
    if (in->state == SNAPSHOT_IN_MESSAGE) {
        piece = gather_message(in, piece);
        if (is_message_whole(in))
            message_whole(in);
        if (in->state == SNAPSHOT_IN_MESSAGE)
            return dealt_with;
    }
    assert(in->state == SNAPSHOT_IN_IMAGE);
    size_t now = piece.len < in->credit ? piece.len : in->credit;
    in->image_bytes += piece.len;
    tell_bytes(in, bytes_of(piece.at, now));
    buf_append(&in->held, bytes_of(piece.at + now, piece.len - now));
    return dealt_with - in->held.len;
}

size_t snapshot_in_grant(struct snapshot_in *in, size_t bytes)
{
    assert(bytes <= SIZE_MAX - in->credit);
    in->credit += bytes;
    size_t now = in->held.len < in->credit ? in->held.len : in->credit;
    tell_bytes(in, bytes_of(in->held.at, now));
    buf_drop_front(&in->held, now);
    if (in->is_whole && in->held.len == 0 && in->state == SNAPSHOT_IN_IMAGE)
        tell_end(in);
    return now;
}

void snapshot_in_end(struct snapshot_in *in)
{
    assert(in->status == 0);
    switch (in->state) {
    case SNAPSHOT_IN_MESSAGE: /* as Go's readers tell nothing from too little */
        if (in->message.len == 0 || in->message.len == LENGTH_BYTES)
            refuse_message(in, "EOF", "failed to decode raft message (EOF)");
        else
            refuse_message(in, "unexpected EOF", "failed to decode raft message (unexpected EOF)");
        return;
    case SNAPSHOT_IN_IMAGE:
        in->is_whole = true;
        if (in->held.len == 0)
            tell_end(in);
        return;
    case SNAPSHOT_IN_ENDED:
        unreachable();
    }
}

/* --- the end --- */

/* Who responds wants to hear no more of it. */
static void drop_told(struct snapshot_in *in)
{
    struct peers *p = in->peers;

    LIST_FOREACH (link, &p->told) {
        struct told *t = container_of(link, struct told, link);
        if (t->event.id != in->id ||
            (t->event.kind != PEER_SNAPSHOT_BYTES && t->event.kind != PEER_SNAPSHOT_END))
            continue;
        list_remove(link);
        told_free(t);
    }
    in->untaken = NULL;
}

static void count_end(const struct snapshot_in *in, unsigned status)
{
    struct peer *peer = sender(in);

    if (!peer)
        return;
    if (peer->status.snapshots_receiving > 0) /* else it has been added since */
        peer->status.snapshots_receiving--;
    if (status == 204) {
        peer->status.snapshots_received++;
        histogram_observe(&peer->status.snapshot_receives, HISTOGRAM_100MS_10,
                          clock_now_ns(in->peers->clock) - in->began_ns);
    } else
        peer->status.snapshot_receive_failures++;
}

void snapshot_in_free(struct snapshot_in *in, unsigned status)
{
    if (in->id > 0) {
        count_end(in, status);
        if (status > 0) {
            drop_told(in);
        } else if (in->state == SNAPSHOT_IN_IMAGE) {
            struct told *t = told_new(PEER_SNAPSHOT_GONE, in->from);
            t->event.id = in->id;
            buf_append_str(&t->text, in->why ? in->why : "unexpected EOF");
            t->event.body = buf_bytes(&t->text);
            peers_tell(in->peers, t);
        }
    }
    if (in->untaken)
        in->untaken->grows_for = NULL;
    drop_message(in);
    buf_free(&in->held);
    mem_free(in);
}

void snapshot_in_check(const struct snapshot_in *in)
{
    assert(in->message.len <= PEER_SNAPSHOT_MESSAGE_BYTES_MAX + LENGTH_BYTES);
    assert(in->held.len == 0 || in->credit == 0);
    assert(in->held.len <= NET_READ_BYTES + HTTP_AHEAD_BYTES);
    assert((in->id > 0) == (in->state != SNAPSHOT_IN_MESSAGE));
    assert(in->state != SNAPSHOT_IN_ENDED || in->held.len == 0);
    assert(!in->untaken || in->untaken->grows_for == in);
    assert(in->status == 0); /* it is gone by then */
}
