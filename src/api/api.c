#include "api/api_int.h"
#include "snap/image.h"

/* --- life --- */

struct api *api_open(const struct api_options *options)
{
    struct api *a = mem_new(struct api);

    a->o = *options;
    a->facts = options->facts;
    if (a->o.request_bytes_max == 0)
        a->o.request_bytes_max = REQUEST_BYTES_DEFAULT;
    if (a->o.txn_ops_max == 0)
        a->o.txn_ops_max = API_TXN_OPS_DEFAULT;
    if (a->o.inner_calls_max == 0)
        a->o.inner_calls_max = API_INNER_CALLS_MAX;
    list_init(&a->calls);
    list_init(&a->streams);
    list_init(&a->needs);
    list_init(&a->busy);
    list_init(&a->paused);
    list_init(&a->waits);
    list_init(&a->bodies);
    list_init(&a->stalled);
    list_init(&a->spare);
    a->leaderless_since_ms = UINT64_MAX;
    api_inner_open(&a->inner);
    if (a->o.times_calls)
        a->stats.handling =
            mem_new_array((size_t)API_METHOD_COUNT * (API_HANDLING_BUCKETS + 1), uint64_t);
    struct rng rng;
    rng_seed(&rng, options->seed);
    a->next_lease = rng_next(&rng);
    return a;
}

/* Calls that the server was to forget; it is gone itself. */
static void free_forgotten(struct api *a)
{
    if (a->forgotten)
        api_call_free(a->forgotten);
    a->forgotten = NULL;
}

void api_close(struct api *a)
{
    if (!a)
        return;
    LIST_FOREACH (link, &a->calls) {
        struct call *c = container_of(link, struct call, link);
        assert((uint32_t)c->base.rpc & INNER_CALL); /* one that nobody waits for any more */
        api_call_end(c);
    }
    api_inner_close(&a->inner);
    for (size_t i = 0; i < a->slot_count; i++)
        api_body_drop(&a->slots[i]); /* of finished calls, whose end was never taken */
    free_forgotten(a);
    for (struct list *link; (link = list_pop_front(&a->needs));)
        api_call_destroy(container_of(link, struct call, need_link));
    for (struct list *link; (link = list_pop_front(&a->spare));)
        api_call_destroy(container_of(link, struct call, link));
    arena_free(&a->scratch);
    buf_free(&a->out);
    buf_pool_free(&a->bufs);
    mem_free(a->slots);
    mem_free(a->stats.handling);
    mem_free(a);
}

void api_abandon(struct api *a)
{
    if (!a)
        return;
    LIST_FOREACH (link, &a->calls)
        api_call_end(container_of(link, struct call, link));
    api_close(a);
}

/* --- events --- */

static struct call *begin_call(struct api *a, struct rpc_event *e)
{
    struct call *c = api_call_new(a, e);

    c->method = c->first.method;
    c->base.method = &api_methods[c->method];
    c->on = api_handler_of(c->method);
    return c;
}

static void take_unary(struct api *a, struct rpc_event *e)
{
    struct call *c = begin_call(a, e);

    if (c->on->schema)
        api_call_message(c, rpc_event_bytes(&c->first, c->first.message));
    else
        api_call_unsupported(c);
}

static void take_message(struct call *c, struct rpc_event *e)
{
    if (!c->on->schema) {
        api_call_unsupported(c);
        return;
    }
    if (!c->base.method->client_streams) { /* it is the only one, and stays */
        c->message = e->content;
        e->content = (struct buf){0};
        api_call_message(c, buf_bytes(&c->message));
        return;
    }
    api_call_message(c, rpc_event_bytes(e, e->message));
}

/* What is told of a call that is known here, or was. */
static void follow(struct api *a, struct api_slot *slot, struct rpc_event *e)
{
    struct call *c = slot->call;

    switch (e->kind) {
    case RPC_MESSAGE:
        if (c)
            take_message(c, e);
        return;
    case RPC_ENDED:
        if (c && c->base.method->client_streams && !c->has_heard_end) {
            c->has_heard_end = true; /* etcd asks for another message, and gets the end */
            api_count_received(c, 0);
        }
        if (c && c->awaits_token)
            c->ended_early = true;
        else if (c && c->on->ended)
            c->on->ended(c);
        return;
    case RPC_SENT:
        if (c && c->on->sent)
            c->on->sent(c, (size_t)e->bytes);
        return;
    case RPC_WANTED:
        api_body_wanted(a, slot, (size_t)e->bytes);
        return;
    case RPC_RESERVED:
        if (c)
            api_call_reserved(c);
        return;
    case RPC_GONE:
        if (c && c->is_counted && c->base.method->client_streams && !c->has_heard_end)
            api_count_received(c, 0);
        api_body_drop(slot);
        if (c)
            api_call_end(c);
        return;
    case RPC_OPENED:
    case RPC_HTTP:
        break;
    }
    unreachable();
}

void api_event(struct api *a, struct rpc_event *e)
{
    struct api_slot *slot = api_slot_of(a, e->call);

    if (e->kind == RPC_OPENED) {
        struct call *c = begin_call(a, e);
        c->credit = (int64_t)e->bytes;
        api_call_open_stream(c);
    } else if (e->kind == RPC_HTTP) {
        api_http_request(a, e);
    } else if (slot) {
        follow(a, slot, e);
    } else if (e->is_first) {
        take_unary(a, e);
    } /* else of a call that was finished meanwhile */
    buf_pool_give(&a->bufs, &e->content);
}

/* --- needs and what became of them --- */

bool api_take_need(struct api *a, struct api_need *out)
{
    free_forgotten(a);
    if (a->move_leader_to != 0) {
        *out = (struct api_need){.need = API_MOVE_LEADER, .member = a->move_leader_to};
        a->move_leader_to = 0;
        return true;
    }
    struct list *link = list_pop_front(&a->needs);
    if (!link)
        return false;
    struct call *c = container_of(link, struct call, need_link);
    *out = (struct api_need){.need = c->need,
                             .call = &c->base,
                             .identity = c->base.identity,
                             .decoded_bytes = c->arena.total_bytes};
    if (c->need == API_PROPOSE || c->need == API_RAISE_ALARM)
        out->request = c->proposal;
    if (c->need == API_RAISE_ALARM)
        out->identity = (struct identity){0}; /* the alarm is this member's, not the client's */
    if (c->need == API_CONFIGURE)
        out->change = &c->reconfiguration.change;
    if (c->need == API_FORWARD)
        out->forward = c->forward;
    if (c->need == API_PASSWORD)
        out->password = c->password;
    if (c->need == API_IMAGE)
        out->remote = rpc_event_bytes(&c->first, c->first.remote);
    c->base.is_waiting = c->need != API_FORGET;
    if (c->need == API_FORGET)
        a->forgotten = c;
    return true;
}

/*
 * The server speaks of the call for the last time. False if its client has gone meanwhile, and the
 * need that it be forgotten was not taken yet: then there is nobody to be told.
 */
static bool take_back(struct call *c)
{
    assert(c->base.is_waiting);

    c->base.is_waiting = false;
    if (c->base.rpc)
        return true;
    list_remove(&c->need_link);
    api_call_free(c);
    return false;
}

void api_applied(struct api *a, struct api_call *base, struct apply_effects *e)
{
    struct call *c = api_call_of(base);

    if (!take_back(c))
        return;
    if (c->raising_bytes > 0) {
        api_call_finish(c, RESULT_NO_SPACE);
        return;
    }
    if (e->quota_exceeded) {
        api_call_refuse_for_space(c);
        return;
    }
    if (c->on->applied) {
        c->on->applied(c, e);
        return;
    }
    if (e->result != RESULT_OK) {
        api_call_finish(c, e->result);
        return;
    }
    struct reply reply = {0};
    reply_move(&e->reply, &reply);
    api_call_respond_reply(c, &reply, e->revision ? e->revision : mvcc_revision(a->o.mvcc));
}

void api_read_index_done(struct api *a, struct api_call *base)
{
    struct call *c = api_call_of(base);

    assert(base->api == a);
    if (take_back(c))
        c->on->confirmed(c);
}

void api_forwarded(struct api *a, struct api_call *base, const struct api_forwarded *f)
{
    struct call *c = api_call_of(base);

    assert(base->api == a);
    if (take_back(c))
        c->on->forwarded(c, f);
}

void api_hashed(struct api *a, struct api_call *base, uint32_t hash)
{
    struct call *c = api_call_of(base);

    assert(base->api == a);
    if (take_back(c))
        c->on->hashed(c, hash);
}

void api_cut(struct api *a, struct api_call *base, struct image *image)
{
    struct call *c = api_call_of(base);

    assert(base->api == a);
    if (take_back(c))
        c->on->cut(c, image);
    else
        image_close(image);
}

void api_measured(struct api *a, struct api_call *base, struct bytes text)
{
    struct call *c = api_call_of(base);

    assert(base->api == a);
    if (take_back(c))
        c->on->measured(c, text);
}

void api_password_done(struct api *a, struct api_call *base, const struct api_password_result *r)
{
    struct call *c = api_call_of(base);

    assert(base->api == a);
    if (!take_back(c))
        return;
    if (r->is_refused)
        api_call_finish(c, RESULT_TOO_MANY_REQUESTS);
    else
        c->on->password_done(c, r);
}

void api_failed(struct api *a, struct api_call *base, enum result why)
{
    struct call *c = api_call_of(base);

    assert(base->api == a);
    assert(why != RESULT_OK);
    if (!take_back(c))
        return;
    if (c->raising_bytes > 0)
        api_call_finish(c, RESULT_NO_SPACE);
    else if (c->on->failed)
        c->on->failed(c, why);
    else
        api_call_finish(c, why);
}

/* --- work --- */

/* Those who asked for a leader do not stay where there is none for three election timeouts. */
static void cut_leaderless(struct api *a)
{
    const struct api_facts *facts = a->facts;

    if (facts->leader != 0) {
        a->leaderless_since_ms = UINT64_MAX;
        return;
    }
    if (a->leaderless_since_ms == UINT64_MAX)
        a->leaderless_since_ms = facts->now_ms;
    if (facts->now_ms - a->leaderless_since_ms < 3 * facts->election_ms)
        return;
    LIST_FOREACH (link, &a->streams) {
        struct call *c = container_of(link, struct call, stream_link);
        if (c->first.has_leader)
            api_call_finish(c, RESULT_NO_LEADER);
    }
}

static struct api_signs read_signs(const struct api *a)
{
    return (struct api_signs){.applied_index = a->facts->applied_index,
                              .tenths_of_seconds = a->facts->now_ms / 100,
                              .leader = a->facts->leader,
                              .compact_finished = mvcc_compact_finished(a->o.mvcc),
                              .is_compacting = mvcc_compact_pending(a->o.mvcc),
                              .is_leader = a->facts->is_leader,
                              .is_settling = mvcc_is_settling(a->o.mvcc),
                              .is_defragmenting = a->is_defragmenting};
}

static bool signs_equal(const struct api_signs *x, const struct api_signs *y)
{
    return x->applied_index == y->applied_index && x->tenths_of_seconds == y->tenths_of_seconds &&
           x->leader == y->leader && x->compact_finished == y->compact_finished &&
           x->is_compacting == y->is_compacting && x->is_leader == y->is_leader &&
           x->is_settling == y->is_settling && x->is_defragmenting == y->is_defragmenting;
}

/*
 * Looks at those who wait, if something has changed; at no more than so many of them in one go.
 * When it changes again amid that, everybody is to be looked at once more, beginning with those who
 * were not yet: the list is a ring, and nobody is left out however often it changes.
 */
static void look_at_waits(struct api *a, unsigned looks)
{
    struct api_signs now = read_signs(a);

    if (!signs_equal(&now, &a->signs))
        a->unchecked_waits = a->wait_count;
    a->signs = now;
    for (; a->unchecked_waits > 0 && looks > 0 && api_can_reply(a) && !list_empty(&a->waits);
         a->unchecked_waits--, looks--) {
        struct list *link = a->waits.next;
        struct call *c = container_of(link, struct call, work_link);
        list_remove(link);
        list_push_back(&a->waits, link); /* behind the others, unless it is ready */
        c->ready(c);
    }
    if (list_empty(&a->waits))
        a->unchecked_waits = 0;
}

static bool may_step(const struct api *a, unsigned steps, const struct list *calls)
{
    return steps > 0 && api_can_reply(a) && !list_empty(calls);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned cost(const struct mvcc_effort *e)
{
    return (unsigned)(1 + e->looks + e->ahead);
}

/* The first of these calls goes on. If it lacks a copy before it has looked at anything, it waits
 * among those that stay. What it has done is the result. */
static struct mvcc_effort step_first(struct api *a, struct list *calls, unsigned slice,
                                     struct list *stay)
{
    struct list *link = list_pop_front(calls);
    struct call *c = container_of(link, struct call, work_link);
    struct mvcc_effort before = mvcc_effort(a->o.mvcc);

    list_push_back(&a->busy, link);
    c->step(c, slice);
    struct mvcc_effort e = mvcc_effort(a->o.mvcc);
    e.looks -= before.looks;
    e.ahead -= before.ahead;
    e.misses -= before.misses;
    if (e.misses > 0 && a->busy.prev == link) { /* else the call may be gone */
        list_remove(link);
        list_push_back(e.looks > 0 ? &a->paused : stay, link);
    }
    return e;
}

/*
 * Reads of a cold store. In each turn the same ones are looked at, the oldest, until they have come
 * further: what workers have read for one of them is there in this turn, and may not be in the next
 * but one, when they have read for others. If all of them took turns, each could come when its copy
 * has just been pushed out. They find little to do each time, and cost that.
 */
static void go_on_with_paused(struct api *a, unsigned steps)
{
    struct list stay;

    list_init(&stay);
    for (unsigned looks = API_PAUSED_LOOKS; looks > 0 && may_step(a, steps, &a->paused); looks--) {
        struct mvcc_effort e = step_first(a, &a->paused, least(steps, API_FIRST_STEPS), &stay);
        steps = mvcc_has_time(a->o.mvcc) ? steps - least(steps, cost(&e)) : 0;
    }
    list_append_all(&stay, &a->paused);
    list_append_all(&a->paused, &stay);
}

static void go_on(struct api *a, unsigned steps)
{
    while (may_step(a, steps, &a->busy)) {
        unsigned slice = least(steps, API_READ_STEPS);
        struct mvcc_effort e = step_first(a, &a->busy, slice, &a->paused);
        steps -= e.misses > 0 ? least(slice, cost(&e)) : slice;
        if (e.misses > 0 && !mvcc_has_time(a->o.mvcc))
            steps = 0;
    }
}

bool api_work(struct api *a, unsigned steps)
{
    /*
     * Watchers are not made to wait for long reads, nor is who waits for a lock. And long reads are
     * not made to wait for those who wait for something else: with more of them than steps, and an
     * entry applied in each turn, all of it would go into looking at them.
     */
    unsigned messages = steps / 4 + 1, inner = steps / 4 + 1, looks = steps / 4 + 1;

    cut_leaderless(a);
    api_body_end_pins(a);
    look_at_waits(a, looks);
    go_on_with_paused(a, steps);
    go_on(a, steps);
    bool all_read = api_body_go_on(a);
    bool all_heard = api_inner_some(a, &inner);
    bool all_sent = api_watch_send_some(a, messages);
    return all_sent && all_heard && all_read && a->busy_count == 0 && a->unchecked_waits == 0 &&
           list_empty(&a->needs) && a->move_leader_to == 0;
}

void api_state_replaced(struct api *a, const struct api_state *state)
{
    api_hash_state_replaced(a, state->mvcc);
    a->o.apply = state->apply;
    a->o.auth = state->auth;
    a->o.mvcc = state->mvcc;
    a->o.leases = state->leases;
    a->o.cluster = state->cluster;
    a->o.backend = state->backend;
    a->has_old_bodies = !list_empty(&a->bodies);
    a->state++;
}

void api_stop(struct api *a, enum result why)
{
    LIST_FOREACH (link, &a->calls) {
        struct call *c = container_of(link, struct call, link);
        if (!c->base.method) /* of plain HTTP */
            c->on->failed(c, why);
        else
            api_call_finish(c, why);
    }
}

/* --- asking --- */

struct api_status api_status(const struct api *a)
{
    return (struct api_status){
        .calls = a->call_count, .reads = a->busy_count, .streams = a->stream_count};
}

const struct api_stats *api_stats(const struct api *a)
{
    return &a->stats;
}

bool api_is_defragmenting(const struct api *a)
{
    return a->is_defragmenting;
}

static size_t list_length(const struct list *head)
{
    size_t length = 0;

    LIST_FOREACH (link, head)
        length++;
    return length;
}

static void check_call(const struct api *a, const struct call *c)
{
    assert(c->base.api == a);
    assert(c->base.rpc);
    assert(a->slots[api_slot_index(c->base.rpc)].id == c->base.rpc);
    assert(a->slots[api_slot_index(c->base.rpc)].call == c);
    assert(c->on);
    assert(!(c->step && c->ready));

    /* It waits for one thing at a time, so that whatever ends it leaves nothing behind. */
    bool needs = c->need_link.next != &c->need_link;
    assert(needs + c->base.is_waiting + (c->step != NULL) + (c->ready != NULL) +
               (c->reserved != NULL) <=
           1);
    assert((c->step || c->ready) == (c->work_link.next != &c->work_link));
    assert(c->is_stream == (c->stream_link.next != &c->stream_link));
}

void api_check(const struct api *a)
{
    LIST_FOREACH (link, &a->calls)
        check_call(a, container_of(link, struct call, link));
    LIST_FOREACH (link, &a->needs) {
        const struct call *c = container_of(link, struct call, need_link);
        assert((c->need == API_FORGET) == !c->base.rpc);
        assert((c->need == API_FORGET) == c->base.is_waiting);
    }
    assert(list_length(&a->calls) == a->call_count);
    assert(list_length(&a->streams) == a->stream_count);
    assert(list_length(&a->busy) + list_length(&a->paused) == a->busy_count);
    assert(list_length(&a->waits) == a->wait_count);
    assert(list_length(&a->spare) == a->spare_count);
    assert(a->spare_count <= API_SPARE_CALLS_MAX);
    assert(a->is_defragmenting || !a->defrag_call);
    api_inner_check(a);
}
