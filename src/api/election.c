/*
 * Election: whoever has the oldest key under a name leads, and the key's value is what he has to
 * say. Nothing is kept here: he leads for as long as the key is there.
 */
#include "api/concurrency.h"

static const char no_leader_key[] = "\"leader\" field must be provided";
static const char not_leader[] = "election: not leader";

/* --- Resign and Proclaim: the key, if it is still the one that was put then --- */

/* The last step of some call: what its transaction has to say is the response. */
static bool decode_txn(struct call *c, const struct inner_result *r, struct arena *arena,
                       struct pb_txn_response *out)
{
    if (!contender_is_good(c, r))
        return false;
    contender_decode(r, &pb_txn_response_schema, arena, out);
    return true;
}

static struct pb_txn_request *resign_txn(struct call *c)
{
    const struct contender *k = c->contender;
    struct pb_txn_request *txn = contender_txn(c, k->key, k->revision);
    struct pb_request_op *op = arena_new(&c->arena, struct pb_request_op);

    *op = contender_delete(c, k->key);
    txn->success.at = op;
    txn->success.count = 1;
    return txn;
}

static void ask_to_proclaim(struct call *c, struct bytes value, contender_then *then)
{
    const struct contender *k = c->contender;
    struct pb_txn_request *txn = contender_txn(c, k->key, k->revision);
    struct pb_request_op *op = arena_new(&c->arena, struct pb_request_op);

    *op = contender_put(c, k->key, value, k->lease);
    txn->success.at = op;
    txn->success.count = 1;
    contender_ask(c, API_KV_TXN, &pb_txn_request_schema, txn, then);
}

static void resigned(struct call *c, const struct inner_result *r)
{
    struct arena arena = {0};
    struct pb_txn_response response;

    if (!decode_txn(c, r, &arena, &response))
        return;
    api_call_respond(c, &pb_resign_response_schema,
                     &(struct pb_header_response){.header = response.header});
    arena_free(&arena);
}

static void resume_as(struct call *c, const struct pb_leader_key *leader)
{
    struct contender *k = c->contender;

    k->key = leader->key;
    k->revision = leader->rev;
}

static void resign(struct call *c)
{
    const struct pb_resign_request *r = c->request;

    resume_as(c, r->leader);
    contender_ask(c, API_KV_TXN, &pb_txn_request_schema, resign_txn(c), resigned);
}

/* As in etcd a lease that is not named is made, though nobody needs it to resign. */
static void run_resign(struct call *c, const void *request)
{
    const struct pb_resign_request *r = request;

    if (!r->leader) {
        api_call_finish_text(c, RPC_UNKNOWN, no_leader_key);
        return;
    }
    contender_new(c, r->leader->name);
    contender_begin_session(c, r->leader->lease, resign);
}

const struct handler api_election_resign = {
    .schema = &pb_resign_request_schema,
    .check = contender_check_letting_go,
    .run = run_resign,
    .inner = contender_heard,
    .released = contender_released,
};

static void proclaimed(struct call *c, const struct inner_result *r)
{
    struct arena arena = {0};
    struct pb_txn_response response;

    if (!decode_txn(c, r, &arena, &response))
        return;
    if (response.succeeded)
        api_call_respond(c, &pb_proclaim_response_schema,
                         &(struct pb_header_response){.header = response.header});
    else
        contender_fail(c, bytes_of_str(not_leader));
    arena_free(&arena);
}

static void proclaim(struct call *c)
{
    const struct pb_proclaim_request *r = c->request;

    resume_as(c, r->leader);
    ask_to_proclaim(c, r->value, proclaimed);
}

static void run_proclaim(struct call *c, const void *request)
{
    const struct pb_proclaim_request *r = request;

    if (!r->leader) {
        api_call_finish_text(c, RPC_UNKNOWN, no_leader_key);
        return;
    }
    contender_new(c, r->leader->name);
    contender_begin_session(c, r->leader->lease, proclaim);
}

const struct handler api_election_proclaim = {
    .schema = &pb_proclaim_request_schema,
    .check = contender_check,
    .run = run_proclaim,
    .inner = contender_heard,
    .released = contender_released,
};

/* --- Campaign --- */

/* The caller has gone while he was waiting. */
static void withdraw(struct call *c)
{
    api_inner_leave_behind(api_of(c), API_KV_TXN, &pb_txn_request_schema, resign_txn(c));
}

static void withdrawn(struct call *c, const struct inner_result *r)
{
    (void)r; /* whatever has come of it */
    api_call_finish_text(c, c->contender->code, buf_str(&c->contender->text));
}

static void withdraw_and_fail(struct call *c, struct bytes text)
{
    struct contender *k = c->contender;

    k->failed = NULL;
    buf_append(&k->text, text);
    contender_ask(c, API_KV_TXN, &pb_txn_request_schema, resign_txn(c), withdrawn);
}

static void elected(struct call *c)
{
    struct contender *k = c->contender;
    struct pb_response_header header = k->header;
    struct pb_leader_key leader = {
        .name = contender_name(k), .key = k->key, .rev = k->revision, .lease = k->lease};

    k->leaves = NULL;
    api_call_respond(c, &pb_campaign_response_schema,
                     &(struct pb_campaign_response){.header = &header, .leader = &leader});
}

/* An error while waiting leaves the key where it is, as in etcd: it goes with its lease. The value
 * is in the store by now. */
static void wait_for_election(struct call *c)
{
    api_call_release_request(c, c->arena.total_bytes);
    c->contender->leaves = withdraw;
    contender_wait(c, elected);
}

/* His key was there, with something else to say. */
static void said_anew(struct call *c, const struct inner_result *r)
{
    struct arena arena = {0};
    struct pb_txn_response response;

    if (!decode_txn(c, r, &arena, &response))
        return;
    bool is_said = response.succeeded;
    arena_free(&arena);
    c->contender->failed = NULL;
    if (is_said)
        wait_for_election(c);
    else
        contender_fail(c, bytes_of_str(not_leader));
}

static void candidate_is_put(struct call *c, const struct inner_result *r)
{
    const struct pb_campaign_request *request = c->request;
    struct contender *k = c->contender;
    struct arena arena = {0};
    struct pb_txn_response response;
    bool is_said = true;

    if (!decode_txn(c, r, &arena, &response))
        return;
    k->header = *response.header;
    k->revision = response.header->revision;
    if (!response.succeeded) {
        const struct pb_key_value *kv = &response.responses.at[0].range->kvs.at[0];
        k->revision = kv->create_revision;
        is_said = bytes_equal(kv->value, request->value);
    }
    arena_free(&arena);
    if (is_said) {
        wait_for_election(c);
        return;
    }
    k->failed = withdraw_and_fail;
    ask_to_proclaim(c, request->value, said_anew);
}

static void put_candidate(struct call *c)
{
    const struct pb_campaign_request *r = c->request;
    struct contender *k = c->contender;
    struct pb_txn_request *txn = contender_txn(c, k->key, 0);
    struct pb_request_op *ops = arena_new_array(&c->arena, 2, struct pb_request_op);

    ops[0] = contender_put(c, k->key, r->value, k->lease);
    ops[1] = contender_get(c, k->key, false);
    txn->success.at = ops;
    txn->failure.at = ops + 1;
    txn->success.count = txn->failure.count = 1;
    contender_ask(c, API_KV_TXN, &pb_txn_request_schema, txn, candidate_is_put);
}

static void run_campaign(struct call *c, const void *request)
{
    const struct pb_campaign_request *r = request;

    contender_new(c, r->name);
    contender_begin_session(c, r->lease, put_candidate);
}

const struct handler api_election_campaign = {
    .schema = &pb_campaign_request_schema,
    .check = contender_check,
    .run = run_campaign,
    .inner = contender_heard,
    .released = contender_released,
};

/* --- Leader --- */

static void leader_found(struct call *c, const struct inner_result *r)
{
    struct arena arena = {0};
    struct pb_range_response response;

    if (!contender_is_good(c, r))
        return;
    contender_decode(r, &pb_range_response_schema, &arena, &response);
    if (response.kvs.count == 0)
        contender_fail(c, BYTES("election: no leader"));
    else
        api_call_respond(
            c, &pb_leader_response_schema,
            &(struct pb_leader_response){.header = response.header, .kv = &response.kvs.at[0]});
    arena_free(&arena);
}

static void look_for_leader(struct call *c, contender_then *then)
{
    struct pb_range_request first = contender_first(c->contender);

    contender_ask(c, API_KV_RANGE, &pb_range_request_schema, &first, then);
}

static void run_leader(struct call *c, const void *request)
{
    contender_new(c, ((const struct pb_leader_request *)request)->name);
    look_for_leader(c, leader_found);
}

const struct handler api_election_leader = {
    .schema = &pb_leader_request_schema,
    .check = contender_check,
    .run = run_leader,
    .inner = contender_heard,
    .released = contender_released,
};

/* --- Observe --- */

/*
 *     range: the oldest key --none--> watch the prefix until something is put there
 *                |                       |
 *                v                       v
 *            told; watch that key: each put is told, until it is deleted, and all begins anew
 *
 * Whatever ends one of these ends the stream, without an error: so it is in etcd.
 */
static void observe_anew(struct call *c);

static void tell_leader(struct call *c, const struct pb_response_header *header,
                        const struct pb_key_value *kv)
{
    api_call_send(c, &pb_leader_response_schema,
                  &(struct pb_leader_response){.header = header, .kv = kv});
}

/* What was told is taken when the client has credit for more. */
static void go_on_if_credit(struct call *c)
{
    if (c->credit > 0)
        api_inner_go_on(api_of(c), c->contender->asked);
}

static void leader_changed(struct call *c, const struct inner_result *r)
{
    struct arena arena = {0};
    struct pb_watch_response response;
    bool is_deleted = false;

    if (r->is_over) {
        api_call_finish(c, RESULT_OK);
        return;
    }
    contender_decode(r, &pb_watch_response_schema, &arena, &response);
    for (size_t i = 0; i < response.events.count && !is_deleted; i++) {
        const struct pb_event *e = &response.events.at[i];
        is_deleted = e->type == PB_EVENT_DELETE;
        if (!is_deleted)
            tell_leader(c, response.header, e->kv);
    }
    bool is_canceled = response.canceled;
    arena_free(&arena);
    if (is_canceled) {
        api_call_finish(c, RESULT_OK);
    } else if (is_deleted) {
        contender_end_watch(c);
        observe_anew(c);
    } else
        go_on_if_credit(c);
}

static void follow_leader(struct call *c, const struct pb_response_header *header,
                          const struct pb_key_value *kv)
{
    tell_leader(c, header, kv);
    contender_watch(
        c,
        &(struct pb_watch_create_request){.key = kv->key, .start_revision = header->revision + 1},
        leader_changed);
}

static void somebody_is_put(struct call *c, const struct inner_result *r)
{
    struct arena arena = {0};
    struct pb_watch_response response;
    const struct pb_key_value *kv = NULL;

    if (r->is_over) {
        api_call_finish(c, RESULT_OK);
        return;
    }
    contender_decode(r, &pb_watch_response_schema, &arena, &response);
    for (size_t i = 0; i < response.events.count && !kv; i++)
        if (response.events.at[i].type == PB_EVENT_PUT)
            kv = response.events.at[i].kv;
    if (kv) {
        struct pb_response_header header = *response.header;
        header.revision = kv->mod_revision;
        contender_end_watch(c);
        follow_leader(c, &header, kv);
    } else if (response.canceled)
        api_call_finish(c, RESULT_OK);
    else
        api_inner_go_on(api_of(c), c->contender->asked);
    arena_free(&arena);
}

/* Deletes are not asked for: the one that has left nothing here may have ended millions of keys in
 * its revision, and all of that would be held as one message. */
static void first_is_known(struct call *c, const struct inner_result *r)
{
    const struct contender *k = c->contender;
    struct arena arena = {0};
    struct pb_range_response response;
    int32_t filter = PB_WATCH_NO_DELETE;

    if (r->code != RPC_OK) {
        api_call_finish(c, RESULT_OK);
        return;
    }
    contender_decode(r, &pb_range_response_schema, &arena, &response);
    if (response.kvs.count > 0)
        follow_leader(c, response.header, &response.kvs.at[0]);
    else
        contender_watch(
            c,
            &(struct pb_watch_create_request){.key = k->prefix,
                                              .range_end = k->prefix_end,
                                              .start_revision = response.header->revision,
                                              .filters = {&filter, 1}},
            somebody_is_put);
    arena_free(&arena);
}

/* Without credit not before there is some: leaders may come and go all the time, and each one would
 * be told to somebody who does not read. */
static void observe_anew(struct call *c)
{
    if (c->credit > 0)
        look_for_leader(c, first_is_known);
}

static void run_observe(struct call *c, const void *request)
{
    contender_new(c, ((const struct pb_leader_request *)request)->name);
    api_call_release_request(c, c->arena.total_bytes);
    observe_anew(c);
}

static void observer_sent(struct call *c, size_t bytes)
{
    c->credit += (int64_t)bytes;
    if (!c->contender)
        return;
    if (c->contender->asked != 0)
        go_on_if_credit(c);
    else
        observe_anew(c); /* it has waited for this */
}

const struct handler api_election_observe = {
    .schema = &pb_leader_request_schema,
    .check = contender_check,
    .run = run_observe,
    .sent = observer_sent,
    .inner = contender_heard,
    .released = contender_released,
};
