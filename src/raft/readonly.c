/*
 * Linearizable reads without writing to the log (thesis 6.4).
 *
 * The answer to "from which index on is it safe to read?" is the leader's commit index, if it is
 * still the leader. To find out, it numbers the requests and sends the newest number along with
 * its heartbeats; a quorum that echoes a number confirms every request up to it. So any number of
 * reads ride on one round. A new leader does not know how much is committed until it has committed
 * something itself: until then, requests are postponed.
 */
#include "raft/raft_int.h"

/* --- the queue --- */

static void queue_push(struct raft *r, struct read_queue *q, const struct read_request *request)
{
    if (q->count == RAFT_READS_MAX) {
        SAY_WARN(r, ID " too many reads wait for a quorum; dropping one from " ID, r->id,
                 request->from);
        return;
    }
    if (q->head > 0 && q->head + q->count == q->cap) {
        memmove(q->at, q->at + q->head, q->count * sizeof(*q->at));
        q->head = 0;
    }
    q->at = raft_grow(q->at, q->head + q->count, &q->cap, sizeof(*q->at));
    struct read_request *own = &q->at[q->head + q->count++];
    *own = *request;
    own->entry = raft_entry_share(&request->entry);
}

/* The reference to its context goes over to the outbox, as it is about to be in a message. */
static struct read_request queue_pop(struct raft *r, struct read_queue *q)
{
    assert(q->count > 0);
    struct read_request request = q->at[q->head++];

    q->count--;
    if (q->count == 0)
        q->head = 0;
    blob_pile_add(&r->boxes[r->filling].blobs, request.entry.blob);
    return request;
}

static void queue_clear(struct raft *r, struct read_queue *q)
{
    while (q->count > 0)
        queue_pop(r, q);
}

/* Those that are postponed stay: whenever this member has committed something as a leader they are
 * confirmed anew, at an index that is only higher. */
void raft_reads_reset(struct raft *r)
{
    queue_clear(r, &r->unconfirmed);
    r->confirmed_reads = 0;
}

void raft_reads_free(struct raft *r)
{
    queue_clear(r, &r->unconfirmed);
    queue_clear(r, &r->postponed);
    mem_free(r->unconfirmed.at);
    mem_free(r->postponed.at);
}

/* --- answering --- */

static void reply_to(struct raft *r, const struct read_request *request)
{
    if (request->from == RAFT_NONE || request->from == r->id) {
        raft_output_read_state(r, request->index, &request->entry);
        return;
    }
    raft_send(r, (struct raft_message){.to = request->from,
                                       .type = RAFT_MSG_READ_INDEX_RESP,
                                       .index = request->index,
                                       .entries = raft_output_entries(r, &request->entry, 1),
                                       .entry_count = 1});
}

static uint64_t newest_read(const struct raft *r)
{
    return r->confirmed_reads + r->unconfirmed.count;
}

/* A quorum has confirmed that we led when its newest number was given out. */
static void reply_to_confirmed(struct raft *r)
{
    uint64_t confirmed = tracker_reads_confirmed(&r->tracker);

    if (confirmed > newest_read(r))
        return; /* there are no voters at all */
    while (r->confirmed_reads < confirmed) {
        r->confirmed_reads++;
        struct read_request request = queue_pop(r, &r->unconfirmed);
        reply_to(r, &request);
    }
}

/* The contexts are little-endian numbers, as in etcd 3.7; followers echo them unread. */
struct bytes raft_reads_heartbeat_context(struct raft *r)
{
    uint8_t number[8];
    uint64_t newest = newest_read(r);

    if (r->unconfirmed.count == 0)
        return bytes_of(NULL, 0);
    for (size_t i = 0; i < sizeof(number); i++)
        number[i] = (uint8_t)(newest >> (8 * i));
    return raft_output_bytes(r, bytes_of(number, sizeof(number)));
}

static void record_ack(struct raft *r, struct raft_progress *p, uint64_t number)
{
    if (number > newest_read(r)) {
        SAY_WARN(r, ID " dropped a read confirmation from " ID ": " NUM " was never asked", r->id,
                 p->id, number);
        return;
    }
    if (number > p->read_ack)
        p->read_ack = number;
}

void raft_reads_acked(struct raft *r, struct raft_progress *p, struct bytes context)
{
    uint64_t number = 0;

    if (r->config.read_mode != RAFT_READ_SAFE || context.len < sizeof(number))
        return;
    for (size_t i = 0; i < sizeof(number); i++)
        number |= (uint64_t)context.at[i] << (8 * i);
    record_ack(r, p, number);
    reply_to_confirmed(r);
}

/* --- asking --- */

/* There is nobody else to ask. A leader that was removed or demoted may see a single voter who is
 * not itself, and that one must be asked: it may lead by now. (etcd does not.) */
static bool is_only_voter(const struct raft *r)
{
    return tracker_is_singleton(&r->tracker) && tracker_is_voter(&r->tracker, r->id);
}

static void start_read(struct raft *r, const struct read_request *request)
{
    if (r->config.read_mode == RAFT_READ_LEASE || is_only_voter(r)) {
        reply_to(r, request);
        return;
    }
    queue_push(r, &r->unconfirmed, request);
    /* For ourselves we need not wait: nothing here rests on our disk. */
    struct raft_progress *own = tracker_find(&r->tracker, r->id);
    if (own)
        record_ack(r, own, newest_read(r));
    raft_broadcast_heartbeat(r);
}

static bool committed_in_own_term(const struct raft *r)
{
    return raft_log_matches(&r->log, r->log.committed, r->term);
}

/*
 * Here we are stricter than etcd, where a single voter answers at once. The commit index on disk
 * may lag behind what was acknowledged before a restart, so even a cluster of one has to commit
 * something first to know where it stands.
 */
void raft_handle_read_index(struct raft *r, const struct raft_message *m)
{
    /* The commit index of this moment covers all that was acknowledged before the question came. A
     * later one would be right, too, but make the reader wait for more to be applied. */
    struct read_request request = {
        .from = m->from, .index = r->log.committed, .entry = m->entries[0]};

    if (!committed_in_own_term(r))
        queue_push(r, &r->postponed, &request);
    else
        start_read(r, &request);
}

void raft_reads_release_postponed(struct raft *r)
{
    size_t count = r->postponed.count;

    if (count == 0)
        return;
    assert(committed_in_own_term(r));
    for (size_t i = 0; i < count; i++) {
        struct read_request request = queue_pop(r, &r->postponed);
        request.index = r->log.committed;
        start_read(r, &request);
    }
}
