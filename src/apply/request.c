#include "apply/apply_int.h"

#include "pb/wire.h"

enum request_kind request_kind(const struct pb_internal_raft_request *request)
{
#define REQUEST_TEST(kind, field)                                                                  \
    if (request->field)                                                                            \
        return REQUEST_##kind;
    REQUEST_LIST(REQUEST_TEST)
#undef REQUEST_TEST
    return REQUEST_COUNT;
}

const char *request_name(enum request_kind kind)
{
    static const char *const names[] = {
#define REQUEST_NAME(kind, field) [REQUEST_##kind] = #field,
        REQUEST_LIST(REQUEST_NAME)
#undef REQUEST_NAME
    };

    assert(kind < REQUEST_COUNT);
    return names[kind];
}

/* ---- May they? ---- */

/* No default: a request that is new does not compile before somebody has thought about who may make
 * it. */
static enum auth_rule rule_of(enum request_kind kind)
{
    switch (kind) {
    case REQUEST_CLUSTER_VERSION_SET: /* members among themselves, or what api lets only root say */
    case REQUEST_CLUSTER_MEMBER_ATTR_SET:
    case REQUEST_DOWNGRADE_INFO_SET:
    case REQUEST_DOWNGRADE_VERSION_TEST:
    case REQUEST_COMPACTION:
    case REQUEST_ALARM:
    case REQUEST_LEASE_GRANT: /* or any user */
    case REQUEST_LEASE_CHECKPOINT:
    case REQUEST_AUTHENTICATE:
    case REQUEST_AUTH_STATUS:
        return RULE_ANYBODY;
    case REQUEST_RANGE:
        return RULE_READ_RANGE;
    case REQUEST_PUT:
        return RULE_WRITE_KEY;
    case REQUEST_DELETE_RANGE:
        return RULE_WRITE_RANGE;
    case REQUEST_TXN:
        return RULE_TXN;
    case REQUEST_LEASE_REVOKE:
        return RULE_LEASE_KEYS;
    case REQUEST_AUTH_USER_GET:
        return RULE_ROOT_OR_SELF;
    case REQUEST_AUTH_ROLE_GET:
        return RULE_ROOT_OR_OWN_ROLE;
    case REQUEST_AUTH_ENABLE:
    case REQUEST_AUTH_DISABLE:
    case REQUEST_AUTH_USER_ADD:
    case REQUEST_AUTH_USER_DELETE:
    case REQUEST_AUTH_USER_CHANGE_PASSWORD:
    case REQUEST_AUTH_USER_GRANT_ROLE:
    case REQUEST_AUTH_USER_REVOKE_ROLE:
    case REQUEST_AUTH_ROLE_ADD:
    case REQUEST_AUTH_ROLE_GRANT_PERMISSION:
    case REQUEST_AUTH_ROLE_REVOKE_PERMISSION:
    case REQUEST_AUTH_ROLE_DELETE:
    case REQUEST_AUTH_USER_LIST:
    case REQUEST_AUTH_ROLE_LIST:
        return RULE_ROOT;
    case REQUEST_COUNT:
        break;
    }
    unreachable();
}

static const void *message_of(const struct pb_internal_raft_request *request,
                              enum request_kind kind)
{
    switch (kind) {
#define REQUEST_MESSAGE(kind, field)                                                               \
    case REQUEST_##kind:                                                                           \
        return request->field;
        REQUEST_LIST(REQUEST_MESSAGE)
#undef REQUEST_MESSAGE
    case REQUEST_COUNT:
        break;
    }
    unreachable();
}

enum result request_authorize(struct auth *auth, enum request_kind kind,
                              const struct pb_internal_raft_request *request)
{
    const struct pb_request_header *header = request->header;
    struct identity who = {0}; /* an entry without a header is nobody's */

    if (header)
        who = (struct identity){.user = header->username, .auth_revision = header->auth_revision};
    return result_of_auth(auth_decide(auth, &who, rule_of(kind), message_of(request, kind)));
}

/* ---- v2 ---- */

static bool is_v2_method(struct bytes text)
{
    static const char *const methods[] = {"PUT", "POST", "GET", "DELETE", "QGET", "SYNC"};

    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (bytes_equal(text, bytes_of_str(methods[i])))
            return true;
    return false;
}

bool request_is_v2(struct bytes data)
{
    struct pb_reader r = {.at = data.at, .end = data.at + data.len};

    while (r.at < r.end) {
        uint32_t tag = pb_take_tag(&r);
        if (tag == PB_TAG_BYTES(2))
            return is_v2_method(pb_take_bytes(&r));
        pb_skip_value(&r, tag);
    }
    return false;
}
