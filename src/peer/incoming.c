/*
 * A stream that we dial, to hear what a peer says. It is dialled again for ever: at once if it was
 * open for a while, else after a pause that grows, so that a member which is down for a day costs
 * about a connection attempt a second. When that member dials us the pause is over: it is up again,
 * and a vote should not wait.
 */
#include "base/assert.h"
#include "peer/peer_int.h"

#include <stdio.h>

static void dial_now(struct incoming *in);

static uint64_t pause_ms(struct incoming *in)
{
    unsigned doublings = in->failures < 8 ? in->failures : 8;
    uint64_t pause = (uint64_t)PEER_REDIAL_MIN_MS << doublings;

    if (in->failures == 0)
        return PEER_REDIAL_MIN_MS;
    if (pause > PEER_REDIAL_MAX_MS)
        pause = PEER_REDIAL_MAX_MS;
    return rng_between(&in->peer->peers->rng, pause / 2, pause);
}

static void schedule(struct incoming *in)
{
    struct peers *p = in->peer->peers;

    if (p->is_stopping)
        return;
    timer_start_at(p->clock, &in->redial, in->dialled_ns + pause_ms(in) * NS_PER_MS);
}

static void on_redial(struct timer *t)
{
    dial_now(container_of(t, struct incoming, redial));
}

/* There is no dial any more. A stream that is ended in good order, as when another takes its place,
 * says nothing of the peer's health. */
static void lost(struct incoming *in, const char *why, bool is_end)
{
    struct peer *peer = in->peer;
    struct peers *p = peer->peers;
    bool was_open = in->is_open;

    in->dial = NULL;
    in->is_open = false;
    in->refused = 0;
    buf_free(&in->refusal);
    stream_decoder_free(&in->decoder);
    in->decoder = (struct stream_decoder){0};
    if (was_open) {
        in->failures = 0;
        peer->status.streams--;
        log_warn(p->logger, "lost TCP streaming connection with remote peer",
                 LOG_STR("stream-reader-type", stream_kind_name(in->kind)),
                 LOG_ID("local-member-id", p->options.self), LOG_ID("remote-peer-id", peer->id),
                 LOG_STR("error", why));
        if (!is_end || peer->status.streams == 0)
            peer_deactivate(peer, "read", stream_kind_name(in->kind), why);
    } else {
        in->failures++;
        peer_deactivate(peer, "dial", stream_kind_name(in->kind), why);
    }
    schedule(in);
}

/* --- responses --- */

static struct incoming *incoming_of(struct dial *d)
{
    return d->context;
}

static void on_open(struct dial *d)
{
    struct incoming *in = incoming_of(d);
    const struct peers *p = in->peer->peers;
    char target[64], to[24];
    int len = snprintf(target, sizeof(target), "/raft/stream/%s/%s",
                       in->kind == STREAM_APP ? "msgapp" : "message", p->self_hex);

    assert(len > 0 && (size_t)len < sizeof(target));
    len = snprintf(to, sizeof(to), "%llx", (unsigned long long)in->peer->id);
    assert(len > 0 && (size_t)len < sizeof(to));
    const struct http1_field fields[] = {
        {BYTES("X-Server-From"), bytes_of_str(p->self_hex)},
        {BYTES("X-Server-Version"), bytes_of_str(p->version)},
        {BYTES("X-Min-Cluster-Version"), BYTES("3.0.0")},
        {BYTES("X-Etcd-Cluster-ID"), bytes_of_str(p->cluster_hex)},
        {BYTES("X-Raft-To"), bytes_of_str(to)},
        {BYTES("X-PeerURLs"), bytes_of_str(p->urls)},
    };
    dial_limit(d, PEER_STREAM_SILENCE_MS);
    dial_request(d, "GET", target, fields, ARRAY_LEN(fields), NULL);
}

/* Ends a dial of our own accord. */
static void give_up(struct incoming *in, const char *why)
{
    struct dial *d = in->dial;

    if (!in->is_open)
        places_failed(&in->peer->places, d->authority);
    dial_drop(d);
    lost(in, why, false);
}

static void opened(struct incoming *in)
{
    struct peer *peer = in->peer;
    struct peers *p = peer->peers;

    in->is_open = true;
    in->decoder = (struct stream_decoder){.kind = in->kind,
                                          .self = p->options.self,
                                          .peer = peer->id,
                                          .frame_bytes_max = PEER_FRAME_BYTES_MAX,
                                          .receiving = &p->receiving,
                                          .receiving_max = PEER_RECEIVING_BYTES_MAX};
    peer->status.streams++;
    peer_activate(peer);
    log_info(p->logger, "established TCP streaming connection with remote peer",
             LOG_STR("stream-reader-type", stream_kind_name(in->kind)),
             LOG_ID("local-member-id", p->options.self), LOG_ID("remote-peer-id", peer->id));
}

static void on_head(struct dial *d)
{
    struct incoming *in = incoming_of(d);

    if (!check_stream_version(in->peer->peers, &d->http.reader)) {
        give_up(in, "unsupported stream type");
        return;
    }
    if (d->http.reader.status == 200)
        opened(in);
    else
        in->refused = d->http.reader.status;
}

/*
 * False: the stream was given up. Whoever speaks is active: a post that was sent before the stream
 * was there may fail long after, and would be the last word about a peer whose streams then stay
 * open for ever. Nobody would hand leadership to it, nor count it when members are changed.
 */
static bool decode(struct incoming *in, struct bytes piece)
{
    struct peer *peer = in->peer;
    struct peers *p = peer->peers;

    for (;;) {
        struct blob *frame = NULL;
        struct raft_message m;
        size_t before = piece.len + in->decoder.frame.len;
        enum stream_found found = stream_decode(&in->decoder, &piece, &p->arena, &frame, &m);

        switch (found) {
        case STREAM_MORE:
            return true;
        case STREAM_HEARTBEAT:
            peer_activate(peer);
            break;
        case STREAM_FOUND:
            peer_activate(peer);
            (void)peers_received(p, peer, &m, before - piece.len);
            blob_unref(frame);
            arena_reset(&p->arena);
            break;
        case STREAM_BAD:
            arena_reset(&p->arena);
            peer->status.received_failures++;
            give_up(in, in->decoder.why);
            return false;
        }
    }
}

static void on_body(struct dial *d, struct bytes piece)
{
    struct incoming *in = incoming_of(d);

    if (in->is_open) {
        in->peer->status.received_bytes += piece.len;
        (void)decode(in, piece);
    } else if (piece.len <= PEER_REFUSAL_BYTES_MAX - in->refusal.len) {
        buf_append(&in->refusal, piece);
    }
}

/* What a refusal means, and what an operator is told of it. */
static const char *refusal_text(struct incoming *in, const struct dial *d)
{
    struct peer *peer = in->peer;
    struct peers *p = peer->peers;
    struct bytes text = buf_bytes(&in->refusal);

    if (text.len > 0 && text.at[text.len - 1] == '\n')
        text.len--;
    switch (in->refused) {
    case 410:
        peers_tell_removed(p);
        return "the member has been permanently removed from the cluster";
    case 404:
        return "the peer failed to find the local member";
    case 412:
        if (bytes_equal(text, BYTES("incompatible version"))) {
            log_warn(
                p->logger,
                "request sent was ignored by remote peer due to server version incompatibility",
                LOG_ID("local-member-id", p->options.self), LOG_ID("remote-peer-id", peer->id),
                LOG_STR("error", "incompatible version"));
            return "incompatible version";
        }
        if (bytes_equal(text, BYTES("cluster ID mismatch"))) {
            log_warn(
                p->logger, "request sent was ignored by remote peer due to cluster ID mismatch",
                LOG_ID("remote-peer-id", peer->id),
                LOG_BYTES("remote-peer-cluster-id", field_of(&d->http.reader, "X-Etcd-Cluster-ID")),
                LOG_ID("local-member-id", p->options.self),
                LOG_ID("local-member-cluster-id", p->options.cluster_id),
                LOG_STR("error", "cluster ID mismatch"));
            return "cluster ID mismatch";
        }
        return "unhandled error when precondition failed";
    default:
        return "unhandled http status";
    }
}

/* A stream that ends in good order, or a refusal that is whole. */
static void on_over(struct dial *d, bool kept)
{
    struct incoming *in = incoming_of(d);

    (void)kept;
    if (in->is_open) {
        dial_drop(d);
        lost(in, "EOF", true);
        return;
    }
    const char *why = refusal_text(in, d);
    places_failed(&in->peer->places, d->authority);
    dial_drop(d);
    lost(in, why, false);
}

static void on_failed(struct dial *d, const char *why)
{
    struct incoming *in = incoming_of(d);

    if (!in->is_open)
        places_failed(&in->peer->places, d->authority);
    lost(in, why, false);
}

static const struct dial_events dial_events = {.on_open = on_open,
                                               .on_head = on_head,
                                               .on_body = on_body,
                                               .on_over = on_over,
                                               .on_failed = on_failed};

/* --- life --- */

static void dial_now(struct incoming *in)
{
    struct peers *p = in->peer->peers;
    const struct place *place = places_pick(&in->peer->places);

    assert(!in->dial);
    in->dialled_ns = clock_now_ns(p->clock);
    if (!place) {
        in->failures++;
        schedule(in);
        return;
    }
    log_debug(p->logger, "dial stream reader", LOG_ID("from", p->options.self),
              LOG_ID("to", in->peer->id), LOG_STR("address", place->text));
    in->dial = dial_open(p, place, &dial_events, in);
    dial_limit(in->dial, PEER_DIAL_MS + p->options.election_ms);
}

void incoming_start(struct incoming *in, struct peer *peer, enum stream_kind kind)
{
    struct peers *p = peer->peers;

    *in = (struct incoming){.peer = peer, .kind = kind, .redial.on_time = on_redial};
    log_info(p->logger, "started stream reader with remote peer",
             LOG_STR("stream-reader-type", stream_kind_name(kind)),
             LOG_ID("local-member-id", p->options.self), LOG_ID("remote-peer-id", peer->id));
    if (!p->is_stopping)
        dial_now(in);
}

void incoming_hurry(struct incoming *in)
{
    if (in->dial || in->failures == 0)
        return;
    in->failures = 0;
    schedule(in);
}

void incoming_stop(struct incoming *in)
{
    struct peers *p = in->peer->peers;

    peer_timer_stop(p, &in->redial);
    dial_drop(in->dial);
    if (in->is_open)
        in->peer->status.streams--;
    in->is_open = false;
    in->dial = NULL;
    buf_free(&in->refusal);
    stream_decoder_free(&in->decoder);
    in->decoder = (struct stream_decoder){0};
    log_info(p->logger, "stopped stream reader with remote peer",
             LOG_STR("stream-reader-type", stream_kind_name(in->kind)),
             LOG_ID("local-member-id", p->options.self), LOG_ID("remote-peer-id", in->peer->id));
}
