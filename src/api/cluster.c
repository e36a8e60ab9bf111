/*
 * Cluster: who the members are. Changing that comes later.
 */
#include "api/api_int.h"

/* Of the headers of this service the revision is never set. */
static void answer_member_list(struct call *c)
{
    struct api *a = api_of(c);
    struct pb_response_header header = api_header_of(a, 0);
    struct pb_members_response response = {.header = &header};

    response.members.at = cluster_members(a->o.cluster, &response.members.count);
    api_call_respond(c, &pb_member_list_response_schema, &response);
}

static void run_member_list(struct call *c, const void *request)
{
    if (((const struct pb_member_list_request *)request)->linearizable)
        api_call_read_index(c);
    else
        answer_member_list(c);
}

const struct handler api_cluster_member_list = {
    .schema = &pb_member_list_request_schema,
    .run = run_member_list,
    .confirmed = answer_member_list,
};
