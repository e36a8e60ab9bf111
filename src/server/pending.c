#include "server/pending.h"

#include "pb/codec.h"

/* On its way into raft. */
struct proposal {
    struct list link;
    struct blob *data;
    struct api_call *call; /* that waits for it; NULL: none does */
    uint64_t id;
    uint64_t queued_ms;
    bool is_leading;
};

void pending_init(struct pending *p, const struct pending_options *options)
{
    p->o = *options;
    map_init(&p->awaited, MAP_IDS, options->map_seed);
    list_init(&p->waiting);
    list_init(&p->queue);
    list_init(&p->reads_new);
    list_init(&p->reads_asked);
    list_init(&p->reads_confirmed);
    list_init(&p->changes);
    list_init(&p->changing);
    list_init(&p->failed);
    fair_init(&p->held, options->map_seed);
    p->id_prefix = options->facts->member_id << 48;
    p->id_count = options->salt;
    p->read_round = options->salt;
}

static void proposal_free(struct pending *p, struct proposal *o)
{
    p->queue_count--;
    p->leading_count -= o->is_leading;
    p->queue_bytes -= blob_bytes(o->data).len;
    if (o->call)
        o->call->queued = NULL;
    list_remove(&o->link);
    blob_unref(o->data);
    mem_free(o);
}

void pending_free(struct pending *p)
{
    if (!p->queue.next)
        return;
    LIST_FOREACH (link, &p->queue) {
        struct proposal *o = container_of(link, struct proposal, link);
        o->call = NULL; /* api may have ended it already */
        proposal_free(p, o);
    }
    fair_free(&p->held);
    map_free(&p->awaited);
    mem_free(p->runs);
}

/*
 * etcd's shape: the member in the upper 16 bits, then a counter. It starts anywhere, so that it
 * does not meet the ids of the life before, whose proposals may still be applied. etcd starts at
 * the time of day; a clock that is set back over a restart would give the same ids again, and
 * somebody would be told of what another had written.
 */
static uint64_t next_id(struct pending *p)
{
    p->id_count++;
    return p->id_prefix | (p->id_count & ((1ull << 48) - 1));
}

/* --- waiting, and no longer --- */

static void wait_on(struct pending *p, struct api_call *c, struct list *where)
{
    c->started_ms = p->o.facts->now_ms;
    c->started_ns = p->o.facts->now_ns;
    c->request = NULL;
    c->queued = NULL;
    c->is_held = false;
    c->kept_bytes = 0;
    list_init(&c->turn_link);
    list_init(&c->link);
    list_push_back(where, &c->link);
}

/*
 * What a request takes up on the wire is counted by its connection. Decoded it may be many times as
 * large: a transaction of a few bytes for each operation. Calls that may wait for as long as there
 * is no leader are refused where all of those together are too large; small ones never.
 */
static bool keep(struct pending *p, const struct api_need *w)
{
    size_t bytes = w->decoded_bytes > PENDING_KEPT_SMALL_BYTES ? w->decoded_bytes : 0;

    if (bytes > 0 && p->kept_bytes + bytes > PENDING_KEPT_BYTES_MAX)
        return false;
    w->call->kept_bytes = bytes;
    p->kept_bytes += bytes;
    return true;
}

static void let_go(struct pending *p, struct api_call *c)
{
    assert(c->kept_bytes <= p->kept_bytes);
    p->kept_bytes -= c->kept_bytes;
    c->kept_bytes = 0;
}

/*
 * From whichever list it is on. The id stays with a call that has ended, and a stream comes with
 * needs again and again: only the map tells whether the id is still this call's.
 *
 * A proposal that raft has not been given goes with its call. Without a leader the queue would fill
 * with the writes of clients that have given up, and a new leader would apply all of them.
 */
static void stop_waiting(struct pending *p, struct api_call *c)
{
    if (c->queued)
        proposal_free(p, c->queued);
    if (c->is_held)
        fair_remove(&p->held, c->conn, &c->turn_link);
    c->is_held = false;
    let_go(p, c);
    if (c->id != 0 && map_get_id(&p->awaited, c->id) == c)
        map_remove_id(&p->awaited, c->id);
    list_remove(&c->link);
}

/* Or would have one, if the queue had space. */
static bool has_proposal(const struct pending *p, const struct api_call *c)
{
    return c->is_held || (c->id != 0 && map_get_id(&p->awaited, c->id) == c);
}

/* It stays on a list until it is taken: its client may go before that, and then it is forgotten
 * like any other. */
static void fail(struct pending *p, struct api_call *c, enum result why)
{
    bool was_proposed = has_proposal(p, c);

    stop_waiting(p, c);
    p->stats.proposals_failed += was_proposed && why != RESULT_STOPPED;
    c->failure = why;
    list_push_back(&p->failed, &c->link);
}

struct api_call *pending_take_failed(struct pending *p, enum result *why)
{
    struct list *link = list_pop_front(&p->failed);

    if (!link)
        return NULL;
    struct api_call *c = container_of(link, struct api_call, link);
    *why = c->failure;
    return c;
}

/* --- proposals --- */

static struct pb_request_header header_of(uint64_t id, const struct identity *who)
{
    return (struct pb_request_header){
        .id = id, .username = who->user, .auth_revision = who->auth_revision};
}

static struct blob *encode(const struct pb_internal_raft_request *request, uint64_t id,
                           const struct identity *who)
{
    struct pb_internal_raft_request whole = *request;
    struct pb_request_header header = header_of(id, who);

    whole.header = &header;
    return pb_encode_blob(&pb_internal_raft_request_schema, &whole);
}

static struct proposal *enqueue(struct pending *p, struct blob *data, uint64_t id)
{
    struct proposal *o = mem_new(struct proposal);

    *o = (struct proposal){.data = data, .id = id, .queued_ms = p->o.facts->now_ms};
    list_init(&o->link);
    list_push_back(&p->queue, &o->link);
    p->queue_count++;
    p->queue_bytes += blob_bytes(data).len;
    return o;
}

static bool is_overloaded(const struct pending *p)
{
    return p->o.facts->committed_index > p->o.facts->applied_index + PENDING_GAP_MAX;
}

static bool has_space(const struct pending *p)
{
    return p->queue_bytes < PENDING_QUEUE_BYTES_MAX && p->queue_count < PENDING_QUEUE_MAX;
}

/* False: it is too large, and is not queued. */
static bool enqueue_call(struct pending *p, struct api_call *c, const struct identity *who)
{
    uint64_t id = next_id(p);
    struct blob *data = encode(c->request, id, who);

    if (blob_bytes(data).len > p->o.request_bytes_max) {
        blob_unref(data);
        return false;
    }
    c->id = id;
    map_put_id(&p->awaited, id, c);
    c->queued = enqueue(p, data, id);
    c->queued->call = c;
    return true;
}

/* One that is too large hears of it now. Its id will have the same length. */
static void hold(struct pending *p, const struct api_need *w)
{
    struct api_call *c = w->call;
    struct pb_internal_raft_request whole = *c->request;
    struct pb_request_header header = header_of(p->id_prefix | p->id_count, &c->identity);

    whole.header = &header;
    if (pb_encoded_size(&pb_internal_raft_request_schema, &whole) > p->o.request_bytes_max) {
        fail(p, c, RESULT_REQUEST_TOO_LARGE);
        return;
    }
    if (!keep(p, w)) {
        fail(p, c, RESULT_TOO_MANY_REQUESTS);
        return;
    }
    c->is_held = true;
    fair_add(&p->held, c->conn, &c->turn_link);
}

/* No more than raft is about to be given: to encode all that the queue has space for would take a
 * turn's whole time. */
static void queue_held(struct pending *p, size_t bytes, size_t max)
{
    while (p->held.count > 0 && has_space(p) && p->queue_count < max && p->queue_bytes < bytes) {
        struct api_call *c = container_of(fair_take(&p->held), struct api_call, turn_link);
        c->is_held = false;
        if (!enqueue_call(p, c, &c->identity))
            fail(p, c, RESULT_REQUEST_TOO_LARGE);
    }
}

static void propose(struct pending *p, const struct api_need *w)
{
    struct api_call *c = w->call;

    wait_on(p, c, &p->waiting);
    c->id = 0;
    c->request = w->request;
    if (p->o.facts->disk_is_full)
        fail(p, c, RESULT_NO_SPACE);
    else if (is_overloaded(p))
        fail(p, c, RESULT_TOO_MANY_REQUESTS);
    else if (w->need == API_PROPOSE && (p->held.count > 0 || !has_space(p)))
        hold(p, w);
    else if (!enqueue_call(p, c, &w->identity)) /* an alarm is small, and api bounds how many */
        fail(p, c, RESULT_REQUEST_TOO_LARGE);
}

static struct proposal *propose_own(struct pending *p,
                                    const struct pb_internal_raft_request *request)
{
    const struct pb_request_header *header = request->header;
    struct identity who = {0};
    uint64_t id = next_id(p);

    p->own[p->own_at++ % PENDING_OWN_TIMES] =
        (struct pending_own){.id = id, .began_ns = p->o.facts->now_ns};
    if (header)
        who = (struct identity){.user = header->username, .auth_revision = header->auth_revision};
    return enqueue(p, encode(request, id, &who), id);
}

uint64_t pending_own_began_ns(const struct pending *p, uint64_t id)
{
    for (size_t i = 0; i < PENDING_OWN_TIMES; i++)
        if (p->own[i].id == id)
            return p->own[i].began_ns;
    return 0;
}

uint64_t pending_propose_own(struct pending *p, const struct pb_internal_raft_request *request)
{
    return propose_own(p, request)->id;
}

uint64_t pending_propose_leading(struct pending *p, const struct pb_internal_raft_request *request)
{
    struct proposal *o = propose_own(p, request);

    o->is_leading = true;
    p->leading_count++;
    return o->id;
}

/*
 * A lease that has expired here may be alive again: a new leader gives every lease its whole time,
 * and clients renew it there. What waits for a stalled disk, or for somebody to lead, waits long
 * enough for that.
 */
void pending_not_leading(struct pending *p)
{
    assert(p->lent_count == 0);
    if (p->leading_count == 0)
        return;
    LIST_FOREACH (link, &p->queue) {
        struct proposal *o = container_of(link, struct proposal, link);
        if (o->is_leading)
            proposal_free(p, o);
    }
    assert(p->leading_count == 0);
}

/* Without a leader they wait for one, or for their time to be up. */
bool pending_has_proposals(const struct pending *p)
{
    return (p->queue_count > 0 || p->held.count > 0) && p->o.facts->leader != 0;
}

size_t pending_take_proposals(struct pending *p, size_t bytes, struct blob **out, size_t max)
{
    size_t count = 0, taken = 0;

    assert(p->lent_count == 0);
    if (!pending_has_proposals(p))
        return 0;
    queue_held(p, bytes > 0 ? bytes : 1, max);
    LIST_FOREACH (link, &p->queue) {
        if (count == max || (count > 0 && taken >= bytes))
            break;
        out[count] = container_of(link, struct proposal, link)->data;
        taken += blob_bytes(out[count]).len;
        count++;
    }
    p->lent_count = count;
    return count;
}

/* --- their places in the log --- */

static uint64_t run_last(const struct pending_run *run)
{
    return run->first_index + run->count - 1;
}

/*
 * What is applied has been answered. One more thing is let go of: a leader without followers goes
 * on taking proposals, and those that are too old to be remembered run into their time limit, as
 * they would have done anyway.
 */
static void drop_runs(struct pending *p)
{
    assert(p->runs);

    while (p->run_at < p->run_count &&
           (run_last(&p->runs[p->run_at]) <= p->o.facts->applied_index ||
            p->run_count - p->run_at >= PENDING_RUNS_MAX))
        p->run_at++;
    if (p->run_at < p->run_count && p->run_at < p->run_cap / 2)
        return;
    p->run_count -= p->run_at;
    memmove(p->runs, p->runs + p->run_at, p->run_count * sizeof(*p->runs));
    p->run_at = 0;
}

/* A run that goes on where the last one has ended is the same. */
static void note_run(struct pending *p, const struct pending_run *run)
{
    struct pending_run *last = p->run_count > p->run_at ? &p->runs[p->run_count - 1] : NULL;

    if (run->count == 0)
        return;
    if (last && run->first_id == last->first_id + last->count &&
        run->first_index == run_last(last) + 1) {
        last->count += run->count;
        return;
    }
    if (p->run_count > 0)
        drop_runs(p);
    if (p->run_count == p->run_cap) {
        p->run_cap = p->run_cap ? 2 * p->run_cap : 16;
        p->runs = (struct pending_run *)mem_resize(p->runs, p->run_cap, sizeof(*p->runs));
    }
    p->runs[p->run_count++] = *run;
}

/* Ids are given to read rounds and to what is refused, too, so a batch may have gaps. */
static void drop_lent(struct pending *p, uint64_t first_index)
{
    struct pending_run run = {.first_index = first_index};

    for (; p->lent_count > 0; p->lent_count--) {
        struct proposal *o = container_of(p->queue.next, struct proposal, link);
        if (o->id != run.first_id + run.count) {
            if (first_index != 0)
                note_run(p, &run);
            run = (struct pending_run){o->id, run.first_index + run.count, 0};
        }
        run.count++;
        p->proposed_id = o->id;
        proposal_free(p, o);
    }
    if (first_index != 0)
        note_run(p, &run);
}

static void fail_lent(struct pending *p)
{
    for (; p->lent_count > 0; p->lent_count--) {
        struct proposal *o = container_of(p->queue.next, struct proposal, link);
        if (o->call)
            fail(p, o->call, RESULT_PROPOSAL_DROPPED);
        else
            proposal_free(p, o);
    }
}

/* The server's own stay: nobody waits for them, and they are few. */
void pending_refuse(struct pending *p, enum result why)
{
    assert(p->lent_count == 0);

    LIST_FOREACH (link, &p->queue) {
        struct proposal *o = container_of(link, struct proposal, link);
        if (o->call)
            fail(p, o->call, why);
    }
    if (p->held.count == 0)
        return;
    LIST_FOREACH (link, &p->waiting) {
        struct api_call *c = container_of(link, struct api_call, link);
        if (c->is_held)
            fail(p, c, why);
    }
}

bool pending_is_under_way(const struct pending *p, uint64_t id)
{
    if (id > p->proposed_id)
        return p->queue_count > 0;
    for (size_t i = p->run_at; i < p->run_count; i++) {
        const struct pending_run *run = &p->runs[i];
        if (id >= run->first_id && id - run->first_id < run->count)
            return run->first_index + (id - run->first_id) > p->o.facts->applied_index;
    }
    return false;
}

void pending_proposed(struct pending *p, bool accepted, uint64_t first_index)
{
    assert(p->lent_count > 0);
    assert(p->lent_count <= p->queue_count);

    if (accepted)
        drop_lent(p, first_index);
    else
        fail_lent(p);
}

/* What is applied has been answered; a run may be long, and go on for as long as there is load.
 * Where another leader has put an entry of his in the place of ours, ours is lost, and whoever
 * waits for it may as well hear of it now. */
void pending_overtaken(struct pending *p, uint64_t index)
{
    uint64_t next = p->o.facts->applied_index + 1;

    for (size_t i = p->run_at; i < p->run_count; i++) {
        const struct pending_run *run = &p->runs[i];
        uint64_t n = next > run->first_index ? next - run->first_index : 0;
        for (; n < run->count && run->first_index + n <= index; n++) {
            struct api_call *c = map_get_id(&p->awaited, run->first_id + n);
            if (c)
                fail(p, c, RESULT_TIMEOUT);
        }
    }
}

struct api_call *pending_take_applied(struct pending *p, uint64_t id)
{
    struct api_call *c = id != 0 ? map_remove_id(&p->awaited, id) : NULL;

    if (!c)
        return NULL;
    list_remove(&c->link);
    let_go(p, c);
    return c;
}

/* --- conf changes --- */

static void configure(struct pending *p, const struct api_need *w)
{
    w->call->id = 0;
    w->call->change = &w->change->conf;
    wait_on(p, w->call, &p->changes);
}

bool pending_has_change(const struct pending *p)
{
    return !list_empty(&p->changes) && list_empty(&p->changing) && p->o.facts->leader != 0;
}

/* One whose call has gone meanwhile is not proposed any more. */
bool pending_take_change(struct pending *p, struct raft_conf_change *out)
{
    if (!pending_has_change(p))
        return false;
    struct api_call *c = container_of(list_pop_front(&p->changes), struct api_call, link);
    c->id = next_id(p);
    map_put_id(&p->awaited, c->id, c);
    list_push_back(&p->changing, &c->link);
    *out = *c->change;
    out->id = c->id;
    return true;
}

void pending_change_proposed(struct pending *p, bool accepted, uint64_t index)
{
    assert(!list_empty(&p->changing));
    struct api_call *c = container_of(p->changing.next, struct api_call, link);

    if (!accepted)
        fail(p, c, RESULT_PROPOSAL_DROPPED);
    else if (index != 0)
        note_run(p, &(struct pending_run){c->id, index, 1});
}

/* --- reads --- */

/* 64 random bits and a count: what a leader answers to the life before is none of ours. */
static struct blob *ask(struct pending *p)
{
    uint8_t context[8];

    p->read_asked_ms = p->o.facts->now_ms;
    for (unsigned i = 0; i < 8; i++)
        context[i] = (uint8_t)(p->read_round >> (56 - 8 * i));
    return blob_copy(bytes_of(context, sizeof(context)));
}

/*
 * One round at a time, for all that came before it. Those that come while it is under way must wait
 * for the next, even though its answer may be there in a moment: the leader may have fixed its
 * index before a write was acknowledged that such a read has to see.
 *
 * One that is asked again stays the same round: it is still for those alone who came before it was
 * asked at first, so the answer to either will do. With another number for each, nobody whose
 * answers take longer than the pause would ever read.
 */
struct blob *pending_take_round(struct pending *p)
{
    if (!list_empty(&p->reads_asked)) {
        bool retry = p->o.facts->now_ms - p->read_asked_ms >= PENDING_READ_RETRY_MS;
        p->stats.reads_slow += retry;
        return retry ? ask(p) : NULL;
    }
    if (list_empty(&p->reads_new) || p->o.facts->leader == 0)
        return NULL;
    list_append_all(&p->reads_asked, &p->reads_new);
    p->read_round++;
    p->read_began_ns = p->o.facts->now_ns;
    return ask(p);
}

static uint64_t round_of(struct bytes context)
{
    uint64_t id = 0;

    for (size_t i = 0; i < context.len && i < 8; i++)
        id = id << 8 | context.at[i];
    return id;
}

void pending_read_state(struct pending *p, struct bytes context, uint64_t index)
{
    if (round_of(context) != p->read_round)
        return; /* of an earlier round: somebody had asked for it again */
    LIST_FOREACH (link, &p->reads_asked) {
        struct api_call *c = container_of(link, struct api_call, link);
        c->started_index = index;
        c->round =
            (struct api_round){p->read_began_ns, p->o.facts->now_ns, p->o.facts->applied_index};
    }
    list_append_all(&p->reads_confirmed, &p->reads_asked);
}

/* Reads that are new have asked nobody yet, those that are confirmed have their answer. */
void pending_leader_lost(struct pending *p)
{
    LIST_FOREACH (link, &p->reads_asked) {
        p->stats.reads_failed++;
        fail(p, container_of(link, struct api_call, link), RESULT_LEADER_CHANGED);
    }
}

bool pending_has_confirmed(const struct pending *p)
{
    return !list_empty(&p->reads_confirmed) &&
           container_of(p->reads_confirmed.next, struct api_call, link)->started_index <=
               p->o.facts->applied_index;
}

struct api_call *pending_take_confirmed(struct pending *p)
{
    if (!pending_has_confirmed(p))
        return NULL;
    struct api_call *c = container_of(list_pop_front(&p->reads_confirmed), struct api_call, link);
    let_go(p, c);
    return c;
}

/* --- needs and time --- */

void pending_need(struct pending *p, const struct api_need *w)
{
    switch (w->need) {
    case API_PROPOSE:
    case API_RAISE_ALARM:
        propose(p, w);
        return;
    case API_CONFIGURE:
        configure(p, w);
        return;
    case API_READ_INDEX:
        w->call->id = 0;
        wait_on(p, w->call, &p->reads_new);
        if (p->o.facts->leader == 0 && !keep(p, w))
            fail(p, w->call, RESULT_TOO_MANY_REQUESTS);
        return;
    case API_FORGET:
        p->stats.proposals_failed += has_proposal(p, w->call);
        stop_waiting(p, w->call);
        return;
    case API_FORWARD: /* are not for here */
    case API_HASH:
    case API_IMAGE:
    case API_METRICS:
    case API_VARS:
    case API_PASSWORD:
    case API_MOVE_LEADER: /* is about no call */
        break;
    }
    unreachable();
}

/*
 * As in etcd: without a leader a write waits at raft's door, where only its deadline ends the wait,
 * and the client is told of that. One that raft has taken may still be applied.
 */
static enum result why_late(const struct pending *p, const struct api_call *c)
{
    return (c->queued || c->is_held) && p->o.facts->leader == 0 ? RESULT_CONTEXT_DEADLINE
                                                                : RESULT_TIMEOUT;
}

/* Returns how many there were. */
static size_t time_out_calls(struct pending *p, struct list *calls, uint64_t before_ms)
{
    size_t count = 0;

    for (; !list_empty(calls); count++) {
        struct api_call *c = container_of(calls->next, struct api_call, link);
        if (c->started_ms > before_ms)
            break;
        fail(p, c, why_late(p, c));
    }
    return count;
}

/* The server's own proposals, for which no call waits: one that has found no leader in all that
 * time must not keep out those that come now. */
static void time_out_queue(struct pending *p, uint64_t before_ms)
{
    while (!list_empty(&p->queue)) {
        struct proposal *o = container_of(p->queue.next, struct proposal, link);
        if (o->queued_ms > before_ms)
            return;
        proposal_free(p, o);
    }
}

void pending_tick(struct pending *p)
{
    uint64_t now_ms = p->o.facts->now_ms;

    assert(p->lent_count == 0);
    if (now_ms < p->o.limit_ms)
        return;
    uint64_t before_ms = now_ms - p->o.limit_ms;
    time_out_calls(p, &p->waiting, before_ms);
    time_out_calls(p, &p->changes, before_ms);
    time_out_calls(p, &p->changing, before_ms);
    p->stats.reads_failed += time_out_calls(p, &p->reads_new, before_ms);
    p->stats.reads_failed += time_out_calls(p, &p->reads_asked, before_ms);
    time_out_calls(p, &p->reads_confirmed, before_ms);
    time_out_queue(p, before_ms);
}

/* --- asking --- */

bool pending_is_awaited(const struct pending *p, uint64_t id)
{
    return id != 0 && map_get_id(&p->awaited, id) != NULL;
}

size_t pending_count(const struct pending *p)
{
    return p->awaited.count;
}

/* Oldest first, or time_out_calls would stop too early. Returns how many there are. */
static size_t check_calls(const struct pending *p, const struct list *calls, size_t *kept_bytes)
{
    uint64_t started_ms = 0;
    size_t count = 0;

    LIST_FOREACH (link, calls) {
        const struct api_call *c = container_of(link, struct api_call, link);
        assert(c->started_ms >= started_ms);
        assert(c->started_ms <= p->o.facts->now_ms);
        started_ms = c->started_ms;
        *kept_bytes += c->kept_bytes;
        count++;
    }
    return count;
}

static void check_queue(const struct pending *p)
{
    size_t count = 0, bytes = 0, leading = 0;
    uint64_t queued_ms = 0;

    LIST_FOREACH (link, &p->queue) {
        const struct proposal *o = container_of(link, struct proposal, link);
        assert(o->queued_ms >= queued_ms);
        assert(o->id != 0);
        queued_ms = o->queued_ms;
        bytes += blob_bytes(o->data).len;
        leading += o->is_leading;
        count++;
    }
    assert(count == p->queue_count);
    assert(leading == p->leading_count);
    assert(bytes == p->queue_bytes);
    assert(p->lent_count <= p->queue_count);
}

void pending_check(const struct pending *p)
{
    size_t kept_bytes = 0;

    check_queue(p);
    size_t changing = check_calls(p, &p->changing, &kept_bytes);
    assert(changing <= 1);
    assert(check_calls(p, &p->waiting, &kept_bytes) + changing == p->awaited.count + p->held.count);
    LIST_FOREACH (link, &p->waiting) {
        const struct api_call *c = container_of(link, struct api_call, link);
        assert(c->is_held == (map_get_id(&p->awaited, c->id) != c));
        assert(!c->queued || c->queued->call == c);
    }
    fair_check(&p->held);
    check_calls(p, &p->changes, &kept_bytes);
    check_calls(p, &p->reads_new, &kept_bytes);
    check_calls(p, &p->reads_confirmed, &kept_bytes);
    if (check_calls(p, &p->reads_asked, &kept_bytes) > 0)
        assert(p->read_round != 0);
    assert(kept_bytes == p->kept_bytes);
    assert(p->kept_bytes <= PENDING_KEPT_BYTES_MAX);
    assert(p->run_at <= p->run_count);
    assert(p->run_count <= p->run_cap);
    for (size_t i = p->run_at; i < p->run_count; i++) {
        assert(p->runs[i].count > 0);
        assert(p->runs[i].first_id + p->runs[i].count - 1 <= (p->id_prefix | p->id_count));
    }
    LIST_FOREACH (link, &p->failed) {
        const struct api_call *c = container_of(link, struct api_call, link);
        assert(c->failure != RESULT_OK);
        assert(map_get_id(&p->awaited, c->id) != c);
    }
}
