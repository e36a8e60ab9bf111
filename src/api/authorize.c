#include "api/authorize.h"

#include "base/assert.h"

#include <stddef.h>
#include <stdint.h>

#define METHOD_RULE(id, service, name, in, out, rule, reply) [API_##id] = RULE_##rule,
static const uint8_t rules[API_METHOD_COUNT] = {API_METHOD_LIST(METHOD_RULE)};
#undef METHOD_RULE

enum auth_rule authorize_rule(enum api_method method)
{
    assert(method < API_METHOD_COUNT);

    return rules[method];
}

/* One that is not listed is decided here: so what is new is too. */
bool authorize_later(enum api_method method)
{
    switch (method) {
    case API_KV_RANGE:
    case API_KV_RANGE_STREAM:
    case API_KV_PUT:
    case API_KV_DELETE_RANGE:
    case API_KV_TXN:
    case API_AUTH_ENABLE:
    case API_AUTH_DISABLE:
    case API_AUTH_USER_ADD:
    case API_AUTH_USER_GET:
    case API_AUTH_USER_LIST:
    case API_AUTH_USER_DELETE:
    case API_AUTH_USER_CHANGE_PASSWORD:
    case API_AUTH_USER_GRANT_ROLE:
    case API_AUTH_USER_REVOKE_ROLE:
    case API_AUTH_ROLE_ADD:
    case API_AUTH_ROLE_GET:
    case API_AUTH_ROLE_LIST:
    case API_AUTH_ROLE_DELETE:
    case API_AUTH_ROLE_GRANT_PERMISSION:
    case API_AUTH_ROLE_REVOKE_PERMISSION:
        return true;
    default:
        return false;
    }
}

enum result authorize(const struct authorize_question *q)
{
    enum auth_rule rule = authorize_rule(q->method);

    assert(q->who);
    if (authorize_later(q->method))
        return RESULT_OK;
    if (q->method == API_LEASE_REVOKE)
        rule = RULE_ANY_USER; /* its keys are looked at in the log */
    return result_of_auth(auth_decide(q->auth, q->who, rule, q->request));
}
