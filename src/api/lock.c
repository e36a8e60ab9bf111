/*
 * Lock: whoever has the oldest key under a name. Nothing is kept here: the lock is the key, and it
 * goes with its lease.
 */
#include "api/concurrency.h"

/* --- giving up --- */

static struct pb_delete_range_request own_key(const struct contender *k)
{
    return (struct pb_delete_range_request){.key = k->key};
}

/* The caller has gone while he was waiting: others are not to wait for him. */
static void leave_queue(struct call *c)
{
    struct pb_delete_range_request request = own_key(c->contender);

    api_inner_leave_behind(api_of(c), API_KV_DELETE_RANGE, &pb_delete_range_request_schema,
                           &request);
}

/* Whether or not it is gone now: the caller hears why he was not given the lock. */
static void has_left(struct call *c, const struct inner_result *r)
{
    (void)r;
    c->contender->leaves = NULL;
    api_call_finish_text(c, c->contender->code, buf_str(&c->contender->text));
}

static void leave_and_fail(struct call *c, struct bytes text)
{
    struct contender *k = c->contender;
    struct pb_delete_range_request request = own_key(k);

    k->failed = NULL;
    k->leaves = NULL; /* it is on its way */
    buf_append(&k->text, text);
    contender_ask(c, API_KV_DELETE_RANGE, &pb_delete_range_request_schema, &request, has_left);
}

/* --- Lock --- */

static void lock_owned(struct call *c, const struct pb_response_header *header)
{
    struct contender *k = c->contender;
    struct bytes key = k->key;

    k->leaves = NULL;
    api_call_respond(c, &pb_lock_response_schema,
                     &(struct pb_lock_response){.header = header, .key = key});
}

static void own_key_read(struct call *c, const struct inner_result *r)
{
    struct contender *k = c->contender;
    struct arena arena = {0};
    struct pb_range_response response;

    if (!contender_is_good(c, r))
        return;
    contender_decode(r, &pb_range_response_schema, &arena, &response);
    if (response.kvs.count > 0) {
        lock_owned(c, response.header);
    } else {
        k->failed = NULL;
        k->leaves = NULL;
        contender_fail(c, BYTES("mutex: session is expired"));
    }
    arena_free(&arena);
}

/* The own lease may have ended while others had the lock. */
static void all_before_have_gone(struct call *c)
{
    contender_ask(c, API_KV_RANGE, &pb_range_request_schema,
                  &(struct pb_range_request){.key = c->contender->key, .keys_only = true},
                  own_key_read);
}

static void key_is_put(struct call *c, const struct inner_result *r)
{
    struct contender *k = c->contender;
    struct arena arena = {0};
    struct pb_txn_response response;

    if (!contender_is_good(c, r))
        return;
    contender_decode(r, &pb_txn_response_schema, &arena, &response);
    k->revision = response.succeeded ? response.header->revision
                                     : response.responses.at[0].range->kvs.at[0].create_revision;
    const struct pb_range_response *owner = response.responses.at[1].range;
    bool is_owner = owner->kvs.count == 0 || owner->kvs.at[0].create_revision == k->revision;
    if (is_owner)
        lock_owned(c, response.header);
    arena_free(&arena);
    if (is_owner)
        return;
    k->failed = leave_and_fail;
    k->leaves = leave_queue;
    contender_wait(c, all_before_have_gone);
}

/* One who has the lock already gets it again: his key is there. */
static void put_key(struct call *c)
{
    struct contender *k = c->contender;
    struct pb_txn_request *txn = contender_txn(c, k->key, 0);
    struct pb_request_op *ops = arena_new_array(&c->arena, 4, struct pb_request_op);
    struct pb_range_request *first = arena_new(&c->arena, struct pb_range_request);

    *first = contender_first(k);
    first->keys_only = true;
    ops[0] = contender_put(c, k->key, (struct bytes){0}, k->lease);
    ops[1] = ops[3] = (struct pb_request_op){.which = PB_OP_RANGE, .range = first};
    ops[2] = contender_get(c, k->key, true);
    txn->success.at = ops;
    txn->failure.at = ops + 2;
    txn->success.count = txn->failure.count = 2;
    contender_ask(c, API_KV_TXN, &pb_txn_request_schema, txn, key_is_put);
}

static void run_lock(struct call *c, const void *request)
{
    const struct pb_lock_request *r = request;
    int64_t lease = r->lease;

    contender_new(c, r->name);
    api_call_release_request(c, c->arena.total_bytes);
    contender_begin_session(c, lease, put_key);
}

const struct handler api_lock_lock = {
    .schema = &pb_lock_request_schema,
    .check = contender_check,
    .run = run_lock,
    .inner = contender_heard,
    .released = contender_released,
};

/* --- Unlock --- */

static void unlocked(struct call *c, const struct inner_result *r)
{
    struct arena arena = {0};
    struct pb_delete_range_response response;

    if (!contender_is_good(c, r))
        return;
    contender_decode(r, &pb_delete_range_response_schema, &arena, &response);
    api_call_respond(c, &pb_unlock_response_schema,
                     &(struct pb_header_response){.header = response.header});
    arena_free(&arena);
}

/* Whoever's it is, and whether or not it is there. */
static void run_unlock(struct call *c, const void *request)
{
    const struct pb_unlock_request *r = request;

    contender_new(c, (struct bytes){0});
    contender_ask(c, API_KV_DELETE_RANGE, &pb_delete_range_request_schema,
                  &(struct pb_delete_range_request){.key = r->key}, unlocked);
}

const struct handler api_lock_unlock = {
    .schema = &pb_unlock_request_schema,
    .check = contender_check_letting_go,
    .run = run_unlock,
    .inner = contender_heard,
    .released = contender_released,
};
