/*
 * Hash and HashKV: whether two members have the same, in one number.
 *
 * HashKV is of keys and history up to a revision, and is walked here, in slices. Hash is of the
 * whole store as it is at one moment; that takes a look at it that nobody but the server can hold
 * still, so it is a need.
 */
#include "api/api_int.h"

/* --- HashKV --- */

static enum result hash_result(enum mvcc_result result)
{
    switch (result) {
    case MVCC_OK:
        return RESULT_OK;
    case MVCC_COMPACTED:
        return RESULT_COMPACTED;
    case MVCC_FUTURE:
        return RESULT_FUTURE_REV;
    }
    unreachable();
}

static void respond_hash_kv(struct call *c)
{
    struct api *a = api_of(c);
    struct pb_response_header header = api_header_of(a, mvcc_revision(a->o.mvcc));

    histogram_observe(&api_of(c)->stats.hash_kv, HISTOGRAM_10MS_15,
                      api_since_ns(api_of(c), c->started_ns));
    api_call_respond(c, &pb_hash_kv_response_schema,
                     &(struct pb_hash_kv_response){.header = &header,
                                                   .hash = c->hash->hash,
                                                   .compact_revision = c->hash->compact_revision,
                                                   .hash_revision = c->hash->revision});
}

static bool hash_step(struct call *c, unsigned steps);

/* History that is not settled is waited for here: it goes on by the server's work, not by ours. */
static bool hash_may_go_on(struct call *c)
{
    if (!mvcc_is_settled(api_of(c)->o.mvcc, c->hash->revision))
        return false;
    api_call_step_later(c, hash_step);
    return true;
}

static bool hash_step(struct call *c, unsigned steps)
{
    struct mvcc *m = api_of(c)->o.mvcc;

    if (mvcc_hash_some(m, c->hash, steps)) {
        respond_hash_kv(c);
        return true;
    }
    if (!mvcc_is_settled(m, c->hash->revision))
        api_call_wait(c, hash_may_go_on);
    return false;
}

/* False: it has ended, with the reason. */
static bool open_hash(struct call *c, struct mvcc *m, int64_t revision)
{
    *c->hash = (struct mvcc_hash){.revision = revision};
    enum result result = hash_result(mvcc_hash_open(m, c->hash));
    if (result != RESULT_OK)
        api_call_finish(c, result);
    return result == RESULT_OK;
}

static void run_hash_kv(struct call *c, const void *request)
{
    int64_t revision = ((const struct pb_hash_kv_request *)request)->revision;

    c->hash = arena_new(&c->arena, struct mvcc_hash);
    if (open_hash(c, api_of(c)->o.mvcc, revision))
        api_call_step_later(c, hash_step);
}

static void released(struct call *c)
{
    if (c->hash)
        mvcc_hash_close(api_of(c)->o.mvcc, c->hash);
}

/* The call begins again with the revision that the client has asked for. The newest one is that of
 * the new state, which may have compacted the one before; a revision that the new state has not, or
 * no longer, is refused as it would be to a new call. */
void api_hash_state_replaced(struct api *a, struct mvcc *mvcc)
{
    LIST_FOREACH (link, &a->calls) {
        struct call *c = container_of(link, struct call, link);
        if (c->on != &api_maintenance_hash_kv || !c->hash || !c->hash->open)
            continue;
        const struct pb_hash_kv_request *request = c->request;
        mvcc_hash_close(a->o.mvcc, c->hash);
        (void)open_hash(c, mvcc, request->revision);
    }
}

const struct handler api_maintenance_hash_kv = {
    .schema = &pb_hash_kv_request_schema,
    .run = run_hash_kv,
    .released = released,
};

/* --- Hash --- */

static void run_hash(struct call *c, const void *request)
{
    (void)request;
    api_call_hash(c);
}

static void respond_hash(struct call *c, uint32_t hash)
{
    struct api *a = api_of(c);
    struct pb_response_header header = api_header_of(a, mvcc_revision(a->o.mvcc));

    histogram_observe(&a->stats.hash, HISTOGRAM_10MS_15, api_since_ns(a, c->started_ns));
    api_call_respond(c, &pb_hash_response_schema,
                     &(struct pb_hash_response){.header = &header, .hash = hash});
}

const struct handler api_maintenance_hash = {
    .schema = &pb_hash_request_schema,
    .run = run_hash,
    .hashed = respond_hash,
};
