/*
 * grpc.health.v1: the server as a whole, under the empty name, is serving as long as it answers.
 */
#include "api/api_int.h"

static int32_t status_of(struct bytes service)
{
    return service.len == 0 ? PB_HEALTH_SERVING : PB_HEALTH_SERVICE_UNKNOWN;
}

static void run_check(struct call *c, const void *request)
{
    struct bytes service = ((const struct pb_health_check_request *)request)->service;
    struct pb_health_check_response response = {.status = status_of(service)};

    if (response.status == PB_HEALTH_SERVING)
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
    struct pb_health_check_response serving = {.status = PB_HEALTH_SERVING};
    struct pb_health_list_entry entry = {.response = &serving};
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

/* Says how it is, and would say when that changes; but what changes it ends the stream as well. */
static void run_watch(struct call *c, const void *request)
{
    struct bytes service = ((const struct pb_health_check_request *)request)->service;

    api_call_send(c, &pb_health_check_response_schema,
                  &(struct pb_health_check_response){.status = status_of(service)});
}

const struct handler api_health_watch = {
    .schema = &pb_health_check_request_schema,
    .run = run_watch,
};
