/* Whose pages in a browser may ask, by plain HTTP, by which name of ours and for what, and who the
 * gateway. */
#include "base/assert.h"
#include "rpc/rpc_int.h"

static bool is_listed(const struct rpc_names *names, struct bytes name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (bytes_equal(names->at[i], name))
            return true;
    }
    return false;
}

static bool are_all_allowed(const struct rpc_names *names)
{
    return names->count == 0 || is_listed(names, BYTES("*"));
}

/* Without the port, if there is one, and then without brackets: as Go takes it apart. */
static struct bytes host_alone(struct bytes host)
{
    const uint8_t *colon = host.len > 0 ? memrchr(host.at, ':', host.len) : NULL;
    bool has_brackets = host.len > 0 && host.at[0] == '[';

    if (!colon)
        return host;
    size_t len = (size_t)(colon - host.at);
    if (has_brackets)
        return len > 1 && host.at[len - 1] == ']' ? bytes_of(host.at + 1, len - 2) : host;
    return memchr(host.at, ':', len) ? host : bytes_of(host.at, len);
}

/* A page that makes its own name lead here would otherwise read what this server says to it. With
 * TLS the name would have to be in our certificate. */
bool rpc_policy_allows_host(const struct rpc_conn *c, struct bytes host)
{
    const struct rpc_names *allowed = &c->rpc->options.hosts;

    if (c->info.tls || c->serves == RPC_SERVES_PROBES || are_all_allowed(allowed) ||
        is_listed(allowed, host_alone(host)))
        return true;
    log_warn(c->rpc->logger, "rejecting HTTP request to prevent DNS rebinding attacks",
             LOG_BYTES("host", host_alone(host)));
    return false;
}

bool rpc_policy_allows_gateway(const struct rpc_conn *c)
{
    const atomic_bool *names_are_users = c->rpc->options.names_are_users;

    return c->cn_len == 0 || !names_are_users ||
           !atomic_load_explicit(names_are_users, memory_order_relaxed);
}

size_t rpc_policy_fields(const struct rpc_conn *c, struct bytes origin,
                         struct http1_field out[static RPC_POLICY_FIELDS])
{
    const struct rpc_options *o = &c->rpc->options;
    size_t count = 0;

    if (!o->has_origins || c->serves == RPC_SERVES_PROBES)
        return 0;
    if (are_all_allowed(&o->origins))
        origin = BYTES("*");
    else if (!is_listed(&o->origins, origin))
        return 0;
    out[count++] = (struct http1_field){BYTES("Access-Control-Allow-Methods"),
                                        BYTES("POST, GET, OPTIONS, PUT, DELETE")};
    out[count++] = (struct http1_field){BYTES("Access-Control-Allow-Origin"), origin};
    out[count++] = (struct http1_field){BYTES("Access-Control-Allow-Headers"),
                                        BYTES("accept, content-type, authorization")};
    assert(count == RPC_POLICY_FIELDS);
    return count;
}

/* /v3beta/ is an old name of /v3/. */
const struct http_paths *rpc_policy_paths(const struct rpc_conn *c)
{
    static const char *const trees[] = {"/v3/", NULL};
    static const struct http_paths with_gateway = {
        .trees = trees, .alias = "/v3beta/", .meant = "/v3/"};
    static const struct http_paths without = {.alias = "/v3beta/", .meant = "/v3/"};

    if (c->serves == RPC_SERVES_PROBES)
        return NULL;
    return c->rpc->options.has_gateway ? &with_gateway : &without;
}
