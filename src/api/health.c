/*
 * grpc.health.v1: the server as a whole, under the empty name, is serving as long as it answers;
 * but while the store is defragmented it says otherwise, where it is told to
 * (StopGRPCServiceOnDefrag), so that clients turn to other members. It serves all the same.
 */
#include "api/api_int.h"
#include "base/logger.h"

static bool serves(const struct api *a)
{
    return !(a->o.stops_on_defrag && a->is_defragmenting);
}

static int32_t status_of(const struct api *a, struct bytes service)
{
    if (service.len > 0)
        return PB_HEALTH_SERVICE_UNKNOWN;
    return serves(a) ? PB_HEALTH_SERVING : PB_HEALTH_NOT_SERVING;
}

void api_health_tell(const struct api *a)
{
    if (serves(a))
        log_info(a->o.logger, "grpc service status changed", LOG_STR("service", ""),
                 LOG_STR("status", "SERVING"));
    else
        log_warn(a->o.logger, "grpc service status changed", LOG_STR("service", ""),
                 LOG_STR("status", "NOT_SERVING"), LOG_STR("reason", "defrag is active"));
}

static void run_check(struct call *c, const void *request)
{
    struct bytes service = ((const struct pb_health_check_request *)request)->service;
    struct pb_health_check_response response = {.status = status_of(api_of(c), service)};

    if (response.status != PB_HEALTH_SERVICE_UNKNOWN)
        api_call_respond(c, &pb_health_check_response_schema, &response);
    else
        api_call_finish_text(c, RPC_NOT_FOUND, "unknown service");
}

const struct handler api_health_check = {
    .schema = &pb_health_check_request_schema,
    .run = run_check,
};

static void run_list(struct call *c, const void *request)
{
    struct pb_health_check_response all = {.status = status_of(api_of(c), bytes_of(NULL, 0))};
    struct pb_health_list_entry entry = {.response = &all};
    struct pb_health_list_response response = {0};

    (void)request;
    response.statuses.at = &entry;
    response.statuses.count = 1;
    api_call_respond(c, &pb_health_list_response_schema, &response);
}

const struct handler api_health_list = {
    .schema = &pb_health_list_request_schema,
    .run = run_list,
};

static void send_status(struct call *c, int32_t status)
{
    c->health = status;
    api_call_send(c, &pb_health_check_response_schema,
                  &(struct pb_health_check_response){.status = status});
}

/* Never ready: it goes on until the client has heard enough. Who does not read hears the last. */
static bool status_changed(struct call *c)
{
    int32_t now = status_of(api_of(c), bytes_of(NULL, 0));

    if (now != c->health && c->credit > 0)
        send_status(c, now);
    return false;
}

/* Says how it is, and says when that changes. Only a defragmentation does so; what else would ends
 * the stream as well. */
static void run_watch(struct call *c, const void *request)
{
    struct bytes service = ((const struct pb_health_check_request *)request)->service;

    send_status(c, status_of(api_of(c), service));
    bool may_change = service.len == 0 && api_of(c)->o.stops_on_defrag;
    api_call_release_request(c, 0);
    if (may_change)
        api_call_wait(c, status_changed);
}

static void health_sent(struct call *c, size_t bytes)
{
    c->credit += (int64_t)bytes;
}

const struct handler api_health_watch = {
    .schema = &pb_health_check_request_schema,
    .run = run_watch,
    .sent = health_sent,
};
