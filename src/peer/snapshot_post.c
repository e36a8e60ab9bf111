/*
 * A snapshot that we send: one post, on a connection of its own, so that neither heartbeats nor
 * appends wait behind it.
 *
 *     begin --> dialled --> head, message, image as it is handed in --> whole --> the response
 *        \________________________ fails anywhere _________________________/
 *
 * The image is the server's, who reads it from its store; here is no more of it than one gathering,
 * and what the socket did not take of that. However fast the socket is, one turn hands in no more
 * than PEER_SNAPSHOT_TURN_BYTES, to all members together; then the turn is woken again, and hears
 * others first.
 *
 * etcd waits for ever for a receiver that stalls. Here an image may hold up a compaction, so there
 * are limits, long ones: while the socket takes nothing, and until there is a response.
 */
#include "base/assert.h"
#include "base/text.h"
#include "peer/peer_int.h"

struct snapshot_post {
    struct peer *peer;
    struct list link; /* on peers->snapshots */
    struct dial *dial;
    struct buf message; /* with its length in front, until it is sent */
    uint64_t index, bytes;
    uint64_t image_left; /* to be handed in */
    size_t gathered;     /* handed in, and not to the socket yet */
    size_t turn_left;
    bool is_open; /* the head is sent */
    uint64_t began_ns, moved_ns;
    struct timer timer;
    unsigned status;
    uint64_t result_cluster_id;
    struct buf result;
};

/* --- the end --- */

static void log_about(enum log_level level, const struct snapshot_post *s, const char *message,
                      const char *why)
{
    const struct logger *logger = s->peer->peers->logger;
    struct buf size = {0};

    if (!log_takes(logger, level, LOG_CALLER))
        return;
    text_append_size(&size, s->bytes);
    const struct log_field fields[] = {
        LOG_U64("snapshot-index", s->index),  LOG_ID("remote-peer-id", s->peer->id),
        LOG_U64("bytes", s->bytes),           LOG_BYTES("size", buf_bytes(&size)),
        LOG_STR("error", why ? why : "none"),
    };
    log_write(logger, level, LOG_CALLER, message, fields, ARRAY_LEN(fields) - (why ? 0 : 1));
    buf_free(&size);
}

static void free_post(struct snapshot_post *s)
{
    struct peer *peer = s->peer;

    assert(peer->snapshot == s);
    peer->snapshot = NULL;
    peer->status.snapshots_sending--;
    peer_timer_stop(peer->peers, &s->timer);
    dial_drop(s->dial);
    list_remove(&s->link);
    peer->peers->snapshot_count--;
    buf_free(&s->message);
    buf_free(&s->result);
    mem_free(s);
}

static void tell(struct peers *p, enum peer_event_kind kind, uint64_t member)
{
    peers_tell(p, told_new(kind, member));
    peers_wake(p);
}

static void failed(struct snapshot_post *s, const char *why)
{
    struct peer *peer = s->peer;
    struct peers *p = peer->peers;

    log_about(LOG_WARN, s, "failed to send database snapshot", why);
    if (s->dial)
        places_failed(&peer->places, s->dial->authority);
    peer->status.sent_failures++;
    peer->status.snapshot_send_failures++;
    peer_deactivate(peer, "post", "sendMsgSnap", why);
    free_post(s);
    peers_tell_unreachable(peer);
    tell(p, PEER_SNAPSHOT_FAILED, peer->id);
}

static void sent(struct snapshot_post *s)
{
    struct peer *peer = s->peer;

    log_about(LOG_INFO, s, "sent database snapshot", NULL);
    peer->status.sent_bytes += s->bytes;
    peer->status.snapshots_sent++;
    histogram_observe(&peer->status.snapshot_sends, HISTOGRAM_100MS_10,
                      clock_now_ns(peer->peers->clock) - s->began_ns);
    if (peer->status.streams > 0)
        peer_activate(peer);
    free_post(s);
    tell(peer->peers, PEER_SNAPSHOT_SENT, peer->id);
}

/* The member is going, so nothing is held against it. */
void snapshot_post_stop(struct peer *peer)
{
    struct snapshot_post *s = peer->snapshot;

    if (!s)
        return;
    log_about(LOG_WARN, s, "failed to send database snapshot", "stopped");
    free_post(s);
    peers_tell(peer->peers, told_new(PEER_SNAPSHOT_FAILED, peer->id));
}

/* --- time --- */

static const char *overdue(const struct snapshot_post *s, uint64_t quiet_ms)
{
    if (s->image_left == 0 && !wire_is_blocked(&s->dial->wire))
        return quiet_ms >= PEER_SNAPSHOT_RESULT_MS ? "no response" : NULL;
    if (!wire_is_blocked(&s->dial->wire))
        return NULL; /* the server is slow, not the other end */
    return quiet_ms >= PEER_SNAPSHOT_STALL_MS ? "i/o timeout" : NULL;
}

static void on_time(struct timer *t)
{
    struct snapshot_post *s = container_of(t, struct snapshot_post, timer);
    struct peers *p = s->peer->peers;
    const char *why = overdue(s, (clock_now_ns(p->clock) - s->moved_ns) / NS_PER_MS);

    if (why)
        failed(s, why);
    else
        peer_timer_start(p, t, PEER_SNAPSHOT_LOOK_MS);
}

static void moved(struct snapshot_post *s)
{
    s->moved_ns = clock_now_ns(s->peer->peers->clock);
}

/* --- the connection --- */

static struct snapshot_post *post_of(struct dial *d)
{
    return d->context;
}

static void send_gathered(struct snapshot_post *s)
{
    bool was_blocked = wire_is_blocked(&s->dial->wire);

    if (s->image_left == 0)
        http_finish(&s->dial->http);
    wire_send(&s->dial->wire);
    s->gathered = 0;
    if (!was_blocked)
        moved(s);
}

static void on_open(struct dial *d)
{
    struct snapshot_post *s = post_of(d);
    struct peers *p = s->peer->peers;
    struct http1_field fields[1 + REQUESTS_RAFT_FIELDS] = {
        {BYTES("Content-Type"), BYTES("application/octet-stream")}};
    size_t count = 1 + requests_raft_fields(p, fields + 1);

    dial_limit(d, 0);
    dial_begin(d, "POST", "/raft/snapshot", fields, count, s->message.len + s->image_left);
    http_send(&d->http, buf_bytes(&s->message));
    buf_free(&s->message);
    s->is_open = true;
    send_gathered(s);
    peer_timer_start(p, &s->timer, PEER_SNAPSHOT_LOOK_MS);
}

static void on_head(struct dial *d)
{
    struct snapshot_post *s = post_of(d);

    s->status = d->http.reader.status;
    if (!check_id(field_of(&d->http.reader, "X-Etcd-Cluster-ID"), &s->result_cluster_id))
        s->result_cluster_id = 0;
    dial_limit(d, PEER_SNAPSHOT_SILENCE_MS); /* the rest of it is a line */
}

static void on_body(struct dial *d, struct bytes piece)
{
    struct snapshot_post *s = post_of(d);

    if (piece.len <= PEER_REFUSAL_BYTES_MAX - s->result.len)
        buf_append(&s->result, piece);
}

/* A response may come before the image is whole: nobody wants the rest of it then. */
static void on_over(struct dial *d, bool kept)
{
    struct snapshot_post *s = post_of(d);
    const char *why =
        pipeline_check(s->peer, s->status, buf_bytes(&s->result), s->result_cluster_id);

    (void)kept;
    if (why)
        failed(s, why);
    else
        sent(s);
}

static void on_failed(struct dial *d, const char *why)
{
    failed(post_of(d), why);
}

static void on_sent(struct dial *d)
{
    moved(post_of(d));
}

static const struct dial_events dial_events = {.on_open = on_open,
                                               .on_head = on_head,
                                               .on_body = on_body,
                                               .on_over = on_over,
                                               .on_failed = on_failed,
                                               .on_sent = on_sent};

/* --- the server --- */

static struct snapshot_post *find(const struct peers *p, uint64_t member)
{
    const struct peer *peer = peers_find(p, member);

    return peer ? peer->snapshot : NULL;
}

static void put_message(struct buf *out, const struct raft_message *m)
{
    enum { LENGTH_BYTES = 8 };
    uint8_t *length = buf_extend(out, LENGTH_BYTES);

    memset(length, 0, LENGTH_BYTES);
    raft_message_encode(m, out);
    uint64_t bytes = out->len - LENGTH_BYTES;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        out->at[i] = (uint8_t)(bytes >> (8 * (LENGTH_BYTES - 1 - i)));
}

void peers_snapshot_begin(struct peers *p, const struct raft_message *m, uint64_t image_bytes)
{
    struct peer *peer = peers_find(p, m->to);

    assert(m->type == RAFT_MSG_SNAP);
    assert(m->snapshot && m->snapshot->index > 0);
    if (!peer || p->is_stopping) {
        tell(p, PEER_SNAPSHOT_FAILED, m->to);
        return;
    }
    assert(!peer->snapshot);
    struct snapshot_post *s = mem_new(struct snapshot_post);
    *s = (struct snapshot_post){.peer = peer,
                                .index = m->snapshot->index,
                                .image_left = image_bytes,
                                .turn_left = PEER_SNAPSHOT_TURN_BYTES,
                                .timer.on_time = on_time};
    list_init(&s->link);
    list_push_back(&p->snapshots, &s->link);
    p->snapshot_count++;
    peer->snapshot = s;
    peer->status.snapshots_sending++;
    s->began_ns = clock_now_ns(p->clock);
    put_message(&s->message, m);
    s->bytes = s->message.len + image_bytes;
    log_about(LOG_INFO, s, "sending database snapshot", NULL);
    const struct place *place = places_pick(&peer->places);
    if (!place) {
        failed(s, "no URL is known");
        return;
    }
    s->dial = dial_open(p, place, &dial_events, s);
    dial_limit(s->dial, PEER_DIAL_MS + p->options.election_ms);
}

static size_t credit_of(const struct snapshot_post *s)
{
    size_t credit = PEER_SNAPSHOT_CREDIT_BYTES - s->gathered;

    if (!s->is_open || wire_is_blocked(&s->dial->wire))
        return 0;
    if (credit > s->turn_left)
        credit = s->turn_left;
    return credit < s->image_left ? credit : (size_t)s->image_left;
}

size_t peers_snapshot_credit(const struct peers *p, uint64_t member)
{
    const struct snapshot_post *s = find(p, member);

    return s ? credit_of(s) : 0;
}

void peers_snapshot_write(struct peers *p, uint64_t member, struct bytes bytes)
{
    struct snapshot_post *s = find(p, member);

    assert(s);
    assert(bytes.len <= credit_of(s));
    http_send(&s->dial->http, bytes);
    s->gathered += bytes.len;
    s->turn_left -= bytes.len;
    s->image_left -= bytes.len;
    if (s->gathered == PEER_SNAPSHOT_CREDIT_BYTES)
        send_gathered(s);
}

void peers_snapshot_cancel(struct peers *p, uint64_t member)
{
    struct snapshot_post *s = find(p, member);

    if (s)
        failed(s, "the image cannot be read");
}

/* Who has used up his share of a turn is woken for another, if the socket would take more. */
void snapshot_post_flush_all(struct peers *p)
{
    size_t share = PEER_SNAPSHOT_TURN_BYTES / (p->snapshot_count > 0 ? p->snapshot_count : 1);

    LIST_FOREACH (link, &p->snapshots) {
        struct snapshot_post *s = container_of(link, struct snapshot_post, link);
        bool is_used_up = s->turn_left == 0;

        if (s->gathered > 0)
            send_gathered(s);
        s->turn_left = share;
        if (is_used_up && credit_of(s) > 0)
            peers_wake(p);
    }
}

void snapshot_post_check(const struct snapshot_post *s)
{
    assert(s->peer->snapshot == s);
    assert(s->dial);
    assert(s->gathered <= PEER_SNAPSHOT_CREDIT_BYTES);
    assert(s->turn_left <= PEER_SNAPSHOT_TURN_BYTES);
    assert(s->is_open == (s->message.len == 0));
    assert(s->is_open || s->gathered == 0);
    assert(s->image_left <= s->bytes);
}
