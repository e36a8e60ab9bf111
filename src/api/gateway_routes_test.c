/* The gateway below and the methods here are two tables of one thing. */
#include "api/api_int.h"
#include "api/api_rig_test.h"
#include "gateway/gateway.h"

#include <stdio.h>

static const struct rpc_method *method_of(const struct gateway_route *route)
{
    for (size_t i = 0; i < api_method_count; i++) {
        char path[96];
        snprintf(path, sizeof(path), "/%s/%s", api_methods[i].service, api_methods[i].name);
        if (strcmp(path, route->method) == 0)
            return &api_methods[i];
    }
    return NULL;
}

TEST(every_route_of_the_gateway_is_a_method_of_the_same_kind)
{
    for (size_t i = 0; i < gateway_route_count; i++) {
        const struct gateway_route *route = &gateway_routes[i];
        const struct rpc_method *m = method_of(route);
        if (!m) {
            test_fail(__FILE__, __LINE__, "%s leads to %s, which there is not", route->path,
                      route->method);
            continue;
        }
        CHECK_EQ(m->client_streams, route->kind == GATEWAY_BOTH_STREAM);
        CHECK_EQ(m->server_streams, route->kind != GATEWAY_UNARY);
        const struct pb_schema *schema = api_handler_of((enum api_method)m->id)->schema;
        CHECK(!schema || schema == route->request);
    }
}

/* But for a newer one, and the health of gRPC's own, which etcd has no routes for either. */
TEST(every_method_has_a_route_in_the_gateway)
{
    for (size_t i = 0; i < api_method_count; i++) {
        bool found = false;
        for (size_t k = 0; k < gateway_route_count; k++)
            found |= method_of(&gateway_routes[k]) == &api_methods[i];
        bool has_none = strcmp(api_methods[i].name, "RangeStream") == 0 ||
                        strcmp(api_methods[i].service, "grpc.health.v1.Health") == 0;
        if (found == has_none)
            test_fail(__FILE__, __LINE__, "%s/%s", api_methods[i].service, api_methods[i].name);
    }
}
