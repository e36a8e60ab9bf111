#include "server/state.h"

#include "apply/apply.h"
#include "auth/auth.h"
#include "backend/backend.h"
#include "base/mem.h"
#include "cluster/cluster.h"
#include "lease/lease.h"
#include "mvcc/mvcc.h"
#include "server/storage_version.h"

struct state_links {
    struct lease_set *leases;
    const struct logger *logger;
    void (*on_failed)(void *context, const char *text);
    void *context;
};

static void leased_key(void *context, struct bytes key, int64_t lease)
{
    struct state_links *links = context;

    if (lease_attach(links->leases, lease, key) != LEASE_OK)
        log_warn(links->logger, "a key names a lease that does not exist", LOG_BYTES("key", key),
                 LOG_ID("lease", (uint64_t)lease));
}

static void settled_key(void *context, struct bytes key)
{
    struct state_links *links = context;

    lease_detach(links->leases, key);
}

static void fail(const struct state_links *links, const char *what, const char *text)
{
    struct buf whole = {0};

    buf_printf(&whole, "%s: %s", what, text);
    links->on_failed(links->context, buf_str(&whole));
    buf_free(&whole);
}

static void damaged(void *context, const char *text)
{
    fail(context, "the store contradicts itself", text);
}

static void refused(void *context, const char *text)
{
    fail(context, "cannot apply the log any further", text);
}

/* Leases before keys: mvcc names those that have one while it reads the store. */
enum err state_open(struct state *state, const struct state_options *o, struct buf *why)
{
    int64_t min_ttl = (int64_t)((3 * o->election_ms / 2 + 999) / 1000);
    struct backend *b = state->backend;

    state->o = *o;
    state->links = mem_new(struct state_links);
    state->links->logger = o->logger;
    state_fails_to(state, o->on_failed, o->context);
    enum err e = storage_version_read(b, state->storage_version, why);
    if (e == ERR_OK)
        e = lease_open(&(struct lease_options){.backend = b,
                                               .min_ttl = min_ttl,
                                               .checkpoint = o->lease_checkpoint,
                                               .checkpoint_persist = o->lease_checkpoint_persist,
                                               .hash_seed = o->map_seed},
                       why, &state->leases);
    state->links->leases = state->leases;
    if (e == ERR_OK)
        e = mvcc_open(
            &(struct mvcc_options){.backend = b,
                                   .on_leased_key = leased_key,
                                   .on_settled_key = settled_key,
                                   .range_tombstone_keys_min = o->range_tombstone_keys_min,
                                   .on_damage = damaged,
                                   .context = state->links},
            why, &state->mvcc);
    if (e == ERR_OK)
        e = cluster_open(&(struct cluster_options){.backend = b,
                                                   .cluster_id = o->cluster_id,
                                                   .own_id = o->member_id,
                                                   .max_learners = o->max_learners},
                         why, &state->cluster);
    if (e == ERR_OK)
        e = auth_open(b, why, &state->auth);
    if (e != ERR_OK)
        return e;
    return apply_open(&(struct apply_options){.backend = b,
                                              .mvcc = state->mvcc,
                                              .leases = state->leases,
                                              .cluster = state->cluster,
                                              .auth = state->auth,
                                              .tokens = o->tokens,
                                              .own_id = o->member_id,
                                              .quota_bytes = o->quota_bytes,
                                              .checkpoint_persist = o->lease_checkpoint_persist,
                                              .on_refused = refused,
                                              .context = state->links},
                      why, &state->apply);
}

void state_close(struct state *state)
{
    apply_close(state->apply);
    auth_close(state->auth);
    cluster_close(state->cluster);
    mvcc_close(state->mvcc);
    lease_close(state->leases);
    mem_free(state->links);
}

void state_fails_to(struct state *state, void (*on_failed)(void *context, const char *text),
                    void *context)
{
    state->links->on_failed = state->o.on_failed = on_failed;
    state->links->context = state->o.context = context;
}

void state_gives_out(struct state *state, struct auth_tokens *tokens)
{
    state->o.tokens = tokens;
    apply_use_tokens(state->apply, tokens);
}

struct snapfile_membership state_membership(const struct state *state)
{
    struct snapfile_membership m = {.cluster_version = cluster_version(state->cluster)};

    m.members = cluster_members(state->cluster, &m.member_count);
    m.removed = cluster_removed(state->cluster, &m.removed_count);
    return m;
}

void state_continue_stats(struct state *state, const struct state *before)
{
    *apply_stats(state->apply) = *apply_stats(before->apply);
    *mvcc_stats(state->mvcc) = *mvcc_stats(before->mvcc);
    *lease_stats(state->leases) = *lease_stats(before->leases);
    *backend_stats(state->backend) = *backend_stats(before->backend);
}

bool state_is_unused(const struct state *state)
{
    struct mvcc_status mvcc = mvcc_status(state->mvcc);

    return mvcc.pins == 0 && mvcc.image_pins == 0 && mvcc.warmups == 0 &&
           !apply_is_reading(state->apply) && backend_is_idle(state->backend);
}

void state_check(const struct state *state)
{
    backend_check(state->backend);
    mvcc_check(state->mvcc);
    lease_check(state->leases);
    cluster_check(state->cluster);
    auth_check(state->auth);
    apply_check(state->apply);
    assert(backend_durable(state->backend).index <= backend_applied(state->backend).index);
}
