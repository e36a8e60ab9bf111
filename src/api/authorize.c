#include "api/authorize.h"

#include "base/assert.h"

#include <stddef.h>
#include <stdint.h>

#define METHOD_RULE(id, service, name, in, out, rule) [API_##id] = RULE_##rule,
static const uint8_t rules[API_METHOD_COUNT] = {API_METHOD_LIST(METHOD_RULE)};
#undef METHOD_RULE

enum authorize_rule authorize_rule(enum api_method method)
{
    assert(method < API_METHOD_COUNT);

    return rules[method];
}

/* No default: a rule without a case here is a warning, and warnings do not compile. */
enum result authorize(const struct authorize_question *q)
{
    assert(q->who);

    switch (authorize_rule(q->method)) {
    case RULE_ANYBODY:
    case RULE_ANY_USER:
    case RULE_ROOT:
    case RULE_ROOT_OR_SELF:
    case RULE_ROOT_OR_OWN_ROLE:
    case RULE_READ_RANGE:
    case RULE_WRITE_KEY:
    case RULE_WRITE_RANGE:
    case RULE_TXN:
    case RULE_WATCH:
    case RULE_READ_LEASE:
    case RULE_WRITE_LEASE:
    case RULE_READ_ALL_LEASES:
    case RULE_ALARM:
    case RULE_BY_INNER_CALLS:
        return RESULT_OK; /* authentication is disabled */
    case RULE_COUNT:
        break;
    }
    unreachable();
}
