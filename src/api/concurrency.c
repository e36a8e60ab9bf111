#include "api/concurrency.h"

#include <inttypes.h>

enum { SESSION_TTL = 60 }; /* seconds, of a lease that the caller has not named: etcd's */

/* --- life --- */

enum result contender_check(struct call *c, const void *request)
{
    (void)request;
    return api_inner_may_begin(api_of(c)) ? RESULT_OK : RESULT_TOO_MANY_REQUESTS;
}

/* Where as many wait as may, somebody must be able to end it. */
enum result contender_check_letting_go(struct call *c, const void *request)
{
    (void)request;
    return api_inner_may_let_go(api_of(c)) ? RESULT_OK : RESULT_TOO_MANY_REQUESTS;
}

struct contender *contender_new(struct call *c, struct bytes name)
{
    struct contender *k = arena_new(&c->arena, struct contender);
    uint8_t *prefix = arena_alloc(&c->arena, name.len + 1);
    uint8_t *end = arena_alloc(&c->arena, name.len + 1);

    if (name.len > 0) {
        memcpy(prefix, name.at, name.len);
        memcpy(end, name.at, name.len);
    }
    prefix[name.len] = '/';
    end[name.len] = '/' + 1;
    k->prefix = bytes_of(prefix, name.len + 1);
    k->prefix_end = bytes_of(end, name.len + 1);
    k->code = RPC_UNKNOWN;
    c->contender = k;
    return k;
}

void contender_heard(struct call *c, const struct inner_result *r)
{
    struct contender *k = c->contender;

    assert(k->asked != 0);
    if (r->is_over)
        k->asked = 0;
    k->then(c, r);
}

void contender_released(struct call *c)
{
    struct contender *k = c->contender;

    if (!k)
        return; /* refused before it had begun */
    if (k->leaves)
        k->leaves(c);
    api_inner_end(api_of(c), k->asked);
    buf_free(&k->text);
    c->contender = NULL;
}

/* --- steps --- */

void contender_ask(struct call *c, enum api_method method, const struct pb_schema *schema,
                   const void *request, contender_then *then)
{
    struct contender *k = c->contender;

    assert(k->asked == 0);
    k->then = then;
    k->asked = api_inner_ask(c, method, schema, request);
}

void contender_watch(struct call *c, const struct pb_watch_create_request *create,
                     contender_then *then)
{
    struct contender *k = c->contender;

    assert(k->asked == 0);
    k->then = then;
    k->asked = api_inner_watch(c, create);
}

void contender_end_watch(struct call *c)
{
    struct contender *k = c->contender;

    api_inner_end(api_of(c), k->asked);
    k->asked = 0;
}

/* --- sessions --- */

/* As Go prints a signed number in hex. */
static void name_key(struct call *c)
{
    struct contender *k = c->contender;
    uint64_t size = k->lease < 0 ? 0 - (uint64_t)k->lease : (uint64_t)k->lease;
    struct buf name = {0};

    buf_append(&name, k->prefix);
    buf_printf(&name, "%s%" PRIx64, k->lease < 0 ? "-" : "", size);
    k->key = arena_copy(&c->arena, buf_bytes(&name));
    buf_free(&name);
}

static void session_is_there(struct call *c, int64_t lease)
{
    struct contender *k = c->contender;

    k->lease = lease;
    name_key(c);
    k->ready(c);
}

static void granted(struct call *c, const struct inner_result *r)
{
    struct arena arena = {0};
    struct pb_lease_grant_response response;

    if (!contender_is_good(c, r))
        return;
    contender_decode(r, &pb_lease_grant_response_schema, &arena, &response);
    int64_t id = response.id;
    arena_free(&arena);
    session_is_there(c, id);
}

/* etcd renews a lease that it was given as it begins, and gives that up at once: it comes to
 * nothing, mostly. A lease that is not there is found out by the put. */
void contender_begin_session(struct call *c, int64_t lease, void (*ready)(struct call *c))
{
    c->contender->ready = ready;
    if (lease != 0)
        session_is_there(c, lease);
    else
        contender_ask(c, API_LEASE_GRANT, &pb_lease_grant_request_schema,
                      &(struct pb_lease_grant_request){.ttl = SESSION_TTL}, granted);
}

/* --- waiting --- */

static void look_for_previous(struct call *c);

static bool has_delete(const struct pb_watch_response *response)
{
    for (size_t i = 0; i < response->events.count; i++)
        if (response->events.at[i].type == PB_EVENT_DELETE)
            return true;
    return false;
}

/* It is canceled by a compaction, if it lags: a client that does not read can hold it up, but not
 * here. So it is there for whatever else there may be. */
static void previous_changed(struct call *c, const struct inner_result *r)
{
    struct contender *k = c->contender;
    struct arena arena = {0};
    struct pb_watch_response response;

    if (r->is_over) {
        if (contender_is_good(c, r))
            contender_fail(c, BYTES("lost watcher waiting for delete"));
        return;
    }
    contender_decode(r, &pb_watch_response_schema, &arena, &response);
    bool is_gone = has_delete(&response);
    bool is_canceled = response.canceled;
    struct bytes why = response.compact_revision != 0
                           ? bytes_of_str(result_text(RESULT_COMPACTED))
                           : arena_copy(&c->arena, response.cancel_reason);
    arena_free(&arena);
    if (!is_gone && !is_canceled) {
        api_inner_go_on(api_of(c), k->asked);
        return;
    }
    contender_end_watch(c);
    if (is_gone)
        look_for_previous(c);
    else
        contender_fail(c, why);
}

static void previous_found(struct call *c, const struct inner_result *r)
{
    struct contender *k = c->contender;
    struct arena arena = {0};
    struct pb_range_response response;
    int32_t filter = PB_WATCH_NO_PUT;

    if (!contender_is_good(c, r))
        return;
    contender_decode(r, &pb_range_response_schema, &arena, &response);
    bool is_first = response.kvs.count == 0;
    if (!is_first)
        contender_watch(c,
                        &(struct pb_watch_create_request){
                            .key = response.kvs.at[0].key,
                            .start_revision = response.header->revision,
                            .filters = {&filter, 1},
                        },
                        previous_changed);
    arena_free(&arena);
    if (is_first)
        k->ready(c);
}

/* The youngest of those that are older. Its value is of no interest. */
static void look_for_previous(struct call *c)
{
    const struct contender *k = c->contender;

    contender_ask(c, API_KV_RANGE, &pb_range_request_schema,
                  &(struct pb_range_request){.key = k->prefix,
                                             .range_end = k->prefix_end,
                                             .limit = 1,
                                             .sort_order = PB_SORT_DESCEND,
                                             .sort_target = PB_SORT_BY_CREATE,
                                             .keys_only = true,
                                             .max_create_revision = k->revision - 1},
                  previous_found);
}

void contender_wait(struct call *c, void (*ready)(struct call *c))
{
    c->contender->ready = ready;
    look_for_previous(c);
}

/* --- requests --- */

struct pb_txn_request *contender_txn(struct call *c, struct bytes key, int64_t created)
{
    struct pb_txn_request *txn = arena_new(&c->arena, struct pb_txn_request);
    struct pb_compare *compare = arena_new(&c->arena, struct pb_compare);

    *compare = (struct pb_compare){.result = PB_COMPARE_EQUAL,
                                   .target = PB_TARGET_CREATE,
                                   .key = key,
                                   .which = PB_OPERAND_CREATE_REVISION,
                                   .create_revision = created};
    txn->compare.at = compare;
    txn->compare.count = 1;
    return txn;
}

struct pb_request_op contender_put(struct call *c, struct bytes key, struct bytes value,
                                   int64_t lease)
{
    struct pb_put_request *put = arena_new(&c->arena, struct pb_put_request);

    *put = (struct pb_put_request){.key = key, .value = value, .lease = lease};
    return (struct pb_request_op){.which = PB_OP_PUT, .put = put};
}

struct pb_request_op contender_get(struct call *c, struct bytes key, bool keys_only)
{
    struct pb_range_request *get = arena_new(&c->arena, struct pb_range_request);

    *get = (struct pb_range_request){.key = key, .keys_only = keys_only};
    return (struct pb_request_op){.which = PB_OP_RANGE, .range = get};
}

struct pb_request_op contender_delete(struct call *c, struct bytes key)
{
    struct pb_delete_range_request *r = arena_new(&c->arena, struct pb_delete_range_request);

    r->key = key;
    return (struct pb_request_op){.which = PB_OP_DELETE_RANGE, .delete_range = r};
}

struct pb_range_request contender_first(const struct contender *k)
{
    return (struct pb_range_request){.key = k->prefix,
                                     .range_end = k->prefix_end,
                                     .limit = 1,
                                     .sort_order = PB_SORT_ASCEND,
                                     .sort_target = PB_SORT_BY_CREATE};
}

/* --- the end --- */

/* It is over, so there is nothing to clear up any more. */
void contender_fail(struct call *c, struct bytes text)
{
    struct contender *k = c->contender;

    if (k->failed) {
        k->failed(c, text);
        return;
    }
    k->leaves = NULL;
    buf_clear(&k->text);
    buf_append(&k->text, text);
    api_call_finish_text(c, k->code, buf_str(&k->text));
}

bool contender_is_good(struct call *c, const struct inner_result *r)
{
    assert(r->is_over);
    if (r->code == RPC_OK)
        return true;
    c->contender->code = r->code == RPC_DEADLINE_EXCEEDED ? r->code : RPC_UNKNOWN;
    contender_fail(c, r->text);
    return false;
}

void contender_decode(const struct inner_result *r, const struct pb_schema *schema,
                      struct arena *arena, void *out)
{
    enum err e = pb_decode(schema, r->message, arena, out);

    assert(e == ERR_OK);
}
