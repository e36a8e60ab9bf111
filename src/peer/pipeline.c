/* Messages as single posts: before a stream is there, and to members that we do not know yet. */
#include "peer/peer_int.h"

/*
 * etcd takes any 403 for "you were removed" and ends for good. It also says 403 to a message that
 * is for somebody else, which is what we get when a member has moved and another one lives at its
 * old address now: no reason to end.
 */
const char *pipeline_check(struct peer *peer, unsigned status, struct bytes body,
                           uint64_t result_cluster_id)
{
    struct peers *p = peer->peers;
    struct bytes text = body;

    if (text.len > 0 && text.at[text.len - 1] == '\n')
        text.len--;
    switch (status) {
    case 204:
        return NULL;
    case 403:
        if (body.len == 0 || !memmem(body.at, body.len, "removed", strlen("removed")))
            return "the message was for somebody else";
        peers_tell_removed(p);
        return "the member has been permanently removed from the cluster";
    case 412:
        if (bytes_equal(text, BYTES("incompatible version"))) {
            log_error(p->logger, "request sent was ignored by peer",
                      LOG_ID("remote-peer-id", peer->id));
            return "incompatible version";
        }
        if (bytes_equal(text, BYTES("cluster ID mismatch"))) {
            log_error(p->logger, "request sent was ignored due to cluster ID mismatch",
                      LOG_ID("remote-peer-id", peer->id),
                      LOG_ID("remote-peer-cluster-id", result_cluster_id),
                      LOG_ID("local-member-cluster-id", p->options.cluster_id));
            return "cluster ID mismatch";
        }
        return "unhandled error when precondition failed";
    default:
        return "unexpected http status while posting";
    }
}

static void on_done(struct request *r, unsigned status, struct bytes body, const char *why)
{
    struct peer *peer = r->context;

    if (status > 0)
        why = pipeline_check(peer, status, body, r->result_cluster_id);
    if (why) {
        if (status > 0 && peer->places.count > 0)
            places_failed(&peer->places, places_pick(&peer->places)->authority);
        peer->status.sent_failures++;
        peer_deactivate(peer, "write", "pipeline", why);
        peers_tell_unreachable(peer);
    } else {
        peer->status.sent_bytes += r->body.len;
    }
    request_free(r);
}

/* A slow link needs time for what is on its way already, and for this, of which the other
 * connections may take their share. Who gave up after a fixed time would send the same append again
 * and again, and never get it through. */
static uint64_t time_for(const struct requests *q, size_t bytes)
{
    size_t ahead = q->busy_bytes + q->waiting_bytes;
    uint64_t ms =
        PEER_POST_TIMEOUT_MS + (ahead + PEER_POST_CONNS_MAX * bytes) / PEER_POST_BYTES_PER_MS;

    return ms < PEER_POST_LONGEST_MS ? ms : PEER_POST_LONGEST_MS;
}

bool pipeline_post(struct peer *peer, const struct raft_message *m)
{
    struct requests *q = &peer->posts;

    if (q->waiting_count >= PEER_POSTS_MAX ||
        (m->entry_count > 0 && q->waiting_bytes >= PEER_OUT_BYTES_MAX))
        return false;
    struct request *r = mem_new(struct request);
    *r = (struct request){
        .verb = "POST",
        .path = peer_copy_text(BYTES("/raft")),
        .content_type = "application/protobuf",
        .as_raft = true,
        .context = peer,
        .on_done = on_done,
    };
    raft_message_encode(m, &r->body);
    r->timeout_ms = time_for(q, r->body.len);
    requests_submit(q, r);
    return true;
}
