/* Who waits for what: a place in the log, a read that is not stale, and for how long. */
#include "server/server_int.h"

#include "pb/codec.h"

/* What is queued for raft may grow to this; then clients are not listened to for a while. */
#define QUEUE_BYTES_MAX ((size_t)16 * MIB)

void pending_init(struct server *s)
{
    uint64_t wall_ms = clock_wall_ns(s->io->clock) / NS_PER_MS;

    map_init(&s->awaited, MAP_IDS, s->map_seed);
    list_init(&s->waiting);
    list_init(&s->queue);
    list_init(&s->reads_new);
    list_init(&s->reads_asked);
    list_init(&s->reads_confirmed);
    s->id_prefix = s->facts.member_id << 48;
    s->id_count = (wall_ms & ((1ull << 40) - 1)) << 8;
}

static void proposal_free(struct server *s, struct proposal *p)
{
    s->queue_count--;
    s->queue_bytes -= blob_bytes(p->data).len;
    list_remove(&p->link);
    blob_unref(p->data);
    mem_free(p);
}

void pending_free(struct server *s)
{
    LIST_FOREACH (link, &s->queue)
        proposal_free(s, container_of(link, struct proposal, link));
    map_free(&s->awaited);
}

/* etcd's: the member in the upper 16 bits, then a counter that starts at the time of day, so that
 * it does not meet the ids of the life before. */
uint64_t pending_next_id(struct server *s)
{
    s->id_count++;
    return s->id_prefix | (s->id_count & ((1ull << 48) - 1));
}

bool pending_is_awaited(const struct server *s, uint64_t id)
{
    return map_get_id(&s->awaited, id) != NULL;
}

bool pending_has_budget(const struct server *s)
{
    return s->queue_bytes < QUEUE_BYTES_MAX && s->queue_count < 4 * (size_t)TURN_PROPOSALS_MAX;
}

size_t pending_count(const struct server *s)
{
    return s->awaited.count;
}

/* --- proposals --- */

static struct blob *encode(const struct pb_internal_raft_request *request, uint64_t id,
                           const struct identity *who)
{
    struct pb_internal_raft_request whole = *request;
    struct pb_request_header header = {
        .id = id, .username = who->user, .auth_revision = who->auth_revision};

    whole.header = &header;
    return pb_encode_blob(&pb_internal_raft_request_schema, &whole);
}

static void enqueue(struct server *s, struct blob *data, uint64_t id)
{
    struct proposal *p = mem_new(struct proposal);

    *p = (struct proposal){.data = data, .id = id, .queued_ms = s->facts.now_ms};
    list_init(&p->link);
    list_push_back(&s->queue, &p->link);
    s->queue_count++;
    s->queue_bytes += blob_bytes(data).len;
}

static bool is_overloaded(const struct server *s)
{
    return s->facts.committed_index > s->facts.applied_index + GAP_MAX;
}

static void wait_for(struct server *s, struct api_call *c, struct list *where)
{
    c->started_ms = s->facts.now_ms;
    list_init(&c->link);
    list_push_back(where, &c->link);
}

static void propose(struct server *s, const struct api_need *w)
{
    if (is_overloaded(s)) {
        api_failed(s->api, w->call, RESULT_TOO_MANY_REQUESTS);
        return;
    }
    uint64_t id = pending_next_id(s);
    struct blob *data = encode(w->request, id, &w->identity);
    if (blob_bytes(data).len > s->config->max_request_bytes) {
        blob_unref(data);
        api_failed(s->api, w->call, RESULT_REQUEST_TOO_LARGE);
        return;
    }
    w->call->id = id;
    wait_for(s, w->call, &s->waiting);
    map_put_id(&s->awaited, id, w->call);
    enqueue(s, data, id);
}

uint64_t pending_propose_own(struct server *s, struct pb_internal_raft_request *request)
{
    uint64_t id = pending_next_id(s);

    enqueue(s, encode(request, id, &(struct identity){0}), id);
    return id;
}

/* The waiter leaves; NULL if nobody waits (any more). */
static struct api_call *stop_waiting(struct server *s, uint64_t id)
{
    struct api_call *c = map_remove_id(&s->awaited, id);

    if (c)
        list_remove(&c->link);
    return c;
}

static void forget(struct server *s, struct api_call *c)
{
    if (c->id != 0 && map_get_id(&s->awaited, c->id) == c)
        map_remove_id(&s->awaited, c->id);
    list_remove(&c->link);
}

bool pending_can_propose(const struct server *s)
{
    return !list_empty(&s->queue) && s->facts.leader != 0 &&
           wal_pending_bytes(s->wal) < WAL_PENDING_BYTES_MAX / 2;
}

/* All waiting proposals of this turn are one append: one write, one sync. Without a leader they
 * wait for one, or for their time to be up. */
void pending_propose_some(struct server *s)
{
    struct blob *data[256];
    struct proposal *batch[ARRAY_LEN(data)];
    unsigned total = 0;

    while (total < TURN_PROPOSALS_MAX && pending_can_propose(s)) {
        size_t count = 0;
        LIST_FOREACH (link, &s->queue) {
            if (count == ARRAY_LEN(data))
                break;
            batch[count] = container_of(link, struct proposal, link);
            data[count] = batch[count]->data;
            count++;
        }
        enum raft_result result = raft_propose_batch(s->raft, data, count);
        for (size_t i = 0; i < count; i++) {
            if (result != RAFT_OK) {
                struct api_call *c = stop_waiting(s, batch[i]->id);
                if (c)
                    api_failed(s->api, c, RESULT_PROPOSAL_DROPPED);
            }
            proposal_free(s, batch[i]);
        }
        total += (unsigned)count;
    }
}

void pending_applied(struct server *s, struct apply_effects *e)
{
    struct api_call *c = e->id != 0 ? stop_waiting(s, e->id) : NULL;

    if (c)
        api_applied(s->api, c, e);
    else
        reply_free(&e->reply);
    keep_publish_applied(s, e->id);
}

/* --- reads: those that arrive during a turn share one round --- */

static void ask(struct server *s)
{
    uint8_t context[8];

    s->read_round = pending_next_id(s);
    s->read_asked_ms = s->facts.now_ms;
    for (unsigned i = 0; i < 8; i++)
        context[i] = (uint8_t)(s->read_round >> (56 - 8 * i));
    struct blob *blob = blob_copy(bytes_of(context, sizeof(context)));
    raft_read_index(s->raft, blob);
    blob_unref(blob);
}

void pending_read_some(struct server *s)
{
    bool outstanding = !list_empty(&s->reads_asked);

    if (outstanding && s->facts.now_ms - s->read_asked_ms >= READ_RETRY_MS)
        ask(s);
    if (outstanding || list_empty(&s->reads_new) || s->facts.leader == 0)
        return;
    list_append_all(&s->reads_asked, &s->reads_new);
    ask(s);
}

static uint64_t round_of(struct bytes context)
{
    uint64_t id = 0;

    for (size_t i = 0; i < context.len && i < 8; i++)
        id = id << 8 | context.at[i];
    return id;
}

void pending_read_states(struct server *s, const struct raft_read_state *states, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (round_of(states[i].context) != s->read_round)
            continue; /* an earlier round, asked again since */
        LIST_FOREACH (link, &s->reads_asked)
            container_of(link, struct api_call, link)->started_index = states[i].index;
        list_append_all(&s->reads_confirmed, &s->reads_asked);
    }
}

/* A read that was asked of the old leader gets no answer any more: its client may ask again. */
void pending_leader_changed(struct server *s)
{
    if (s->facts.leader == 0)
        return; /* there was none to be asked */
    for (struct list *link; (link = list_pop_front(&s->reads_asked));) {
        struct api_call *c = container_of(link, struct api_call, link);
        api_failed(s->api, c, RESULT_LEADER_CHANGED);
    }
}

void pending_reads_due(struct server *s)
{
    while (!list_empty(&s->reads_confirmed)) {
        struct api_call *c = container_of(s->reads_confirmed.next, struct api_call, link);
        if (c->started_index > s->facts.applied_index)
            return;
        list_remove(&c->link);
        api_read_index_done(s->api, c);
    }
}

/* --- needs and time --- */

void pending_need(struct server *s, const struct api_need *w)
{
    switch (w->need) {
    case API_PROPOSE:
        propose(s, w);
        break;
    case API_READ_INDEX:
        w->call->id = 0;
        wait_for(s, w->call, &s->reads_new);
        break;
    case API_FORGET:
        forget(s, w->call);
        break;
    case API_QUOTA_EXCEEDED:
        keep_quota_exceeded(s);
        break;
    }
}

static void time_out_list(struct server *s, struct list *calls, uint64_t before_ms)
{
    while (!list_empty(calls)) {
        struct api_call *c = container_of(calls->next, struct api_call, link);
        if (c->started_ms > before_ms)
            return;
        forget(s, c);
        api_failed(s->api, c, RESULT_TIMEOUT);
    }
}

/* Nobody waits any more for what has found no leader in all that time; and it must not keep those
 * out who come now. */
static void time_out_queue(struct server *s, uint64_t before_ms)
{
    while (!list_empty(&s->queue)) {
        struct proposal *p = container_of(s->queue.next, struct proposal, link);
        if (p->queued_ms > before_ms)
            return;
        proposal_free(s, p);
    }
}

uint64_t pending_limit_ms(const struct server *s)
{
    return 5000 + 2 * s->config->election_ms;
}

void pending_time_out(struct server *s)
{
    uint64_t limit_ms = pending_limit_ms(s);

    if (s->facts.now_ms < limit_ms)
        return;
    uint64_t before_ms = s->facts.now_ms - limit_ms;
    time_out_list(s, &s->waiting, before_ms);
    time_out_list(s, &s->reads_new, before_ms);
    time_out_list(s, &s->reads_asked, before_ms);
    time_out_list(s, &s->reads_confirmed, before_ms);
    time_out_queue(s, before_ms);
}
