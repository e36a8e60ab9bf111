/*
 * Downgrade: the cluster is about to run the version below, or is not after all.
 *
 *     VALIDATE   could it be?                             a linearizable read
 *     ENABLE     let it be: the leader lowers the         the same, then through the log
 *                cluster's version, the stores follow
 *     CANCEL     back to what the servers are             likewise
 *
 * Any member is asked, as in etcd. What is known here may be old, hence the reads. To cancel always
 * succeeds, whether or not anything came of it: an etcd operator learns the reason from the log.
 */
#include "api/api_int.h"

static int32_t action_of(const struct call *c)
{
    return ((const struct pb_downgrade_request *)c->request)->action;
}

static void respond_with_version(struct call *c)
{
    struct api *a = api_of(c);
    struct pb_response_header header = api_header_of(a, mvcc_revision(a->o.mvcc));
    struct version v;
    char text[VERSION_TEXT_MAX];

    if (!version_parse(cluster_version(a->o.cluster), &v)) {
        api_call_finish(c, RESULT_CLUSTER_VERSION_UNAVAILABLE); /* etcd panics */
        return;
    }
    struct pb_downgrade_response response = {.header = &header,
                                             .version = bytes_of_str(version_minor_text(v, text))};
    api_call_respond(c, &pb_downgrade_response_schema, &response);
}

static void refuse_downgrade(struct call *c, enum result why)
{
    struct api *a = api_of(c);

    if (action_of(c) == PB_DOWNGRADE_CANCEL) {
        log_warn(a->o.logger, "failed to cancel downgrade", LOG_STR("error", result_text(why)));
        respond_with_version(c);
        return;
    }
    if (action_of(c) == PB_DOWNGRADE_ENABLE)
        log_warn(a->o.logger, "reject downgrade request", LOG_STR("error", result_text(why)));
    api_call_finish(c, why);
}

/* With or without a patch level, which does not count: "3.6", "3.6.4". */
static bool read_target(struct call *c, struct bytes text, struct version *out)
{
    if (!version_parse(text, out)) {
        const char *whole = arena_printf(&c->arena, "%.*s.0", (int)text.len, (const char *)text.at);
        if (!version_parse(bytes_of_str(whole), out))
            return false;
    }
    out->patch = 0;
    return true;
}

/* Permission comes before the arguments, as in etcd, so there is no `check` of them. */
static void run_downgrade(struct call *c, const void *request)
{
    const struct pb_downgrade_request *r = request;

    switch (r->action) {
    case PB_DOWNGRADE_VALIDATE:
    case PB_DOWNGRADE_ENABLE:
        if (!read_target(c, r->version, &c->downgrade_target))
            refuse_downgrade(c, RESULT_WRONG_DOWNGRADE_VERSION_FORMAT);
        else if (cluster_version(api_of(c)->o.cluster).len == 0)
            refuse_downgrade(c, RESULT_CLUSTER_VERSION_UNAVAILABLE);
        else
            api_call_read_index(c);
        break;
    case PB_DOWNGRADE_CANCEL:
        api_call_read_index(c);
        break;
    default:
        api_call_finish(c, RESULT_UNKNOWN_METHOD);
    }
}

static void propose_downgrade(struct call *c, bool enabled)
{
    struct pb_downgrade_info_set_request *set =
        arena_new(&c->arena, struct pb_downgrade_info_set_request);

    set->enabled = enabled;
    if (enabled) {
        char text[VERSION_TEXT_MAX];
        set->ver = arena_copy(&c->arena, bytes_of_str(version_text(c->downgrade_target, text)));
    }
    api_call_proposal(c)->downgrade_info_set = set;
    api_call_propose(c);
}

static enum result validate(struct call *c)
{
    const struct cluster *cluster = api_of(c)->o.cluster;

    if (!cluster_may_downgrade_to(cluster, c->downgrade_target))
        return RESULT_INVALID_DOWNGRADE_TARGET_VERSION;
    return cluster_downgrade(cluster).enabled ? RESULT_DOWNGRADE_IN_PROCESS : RESULT_OK;
}

static void downgrade_confirmed(struct call *c)
{
    bool cancels = action_of(c) == PB_DOWNGRADE_CANCEL;
    enum result result = RESULT_OK;

    if (!cancels)
        result = validate(c);
    else if (!cluster_downgrade(api_of(c)->o.cluster).enabled)
        result = RESULT_NO_INFLIGHT_DOWNGRADE;

    if (result != RESULT_OK)
        refuse_downgrade(c, result);
    else if (action_of(c) == PB_DOWNGRADE_VALIDATE)
        respond_with_version(c);
    else
        propose_downgrade(c, !cancels);
}

static void downgrade_applied(struct call *c, struct apply_effects *e)
{
    if (e->result == RESULT_OK)
        respond_with_version(c);
    else
        refuse_downgrade(c, e->result);
}

const struct handler api_maintenance_downgrade = {
    .schema = &pb_downgrade_request_schema,
    .run = run_downgrade,
    .confirmed = downgrade_confirmed,
    .applied = downgrade_applied,
    .failed = refuse_downgrade,
};
