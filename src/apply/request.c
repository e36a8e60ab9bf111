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

/*
 * The one rule for now: auth is disabled, so everybody may. apply_open takes no store in which it
 * is enabled, and no entry enables it. The list is here so that a request that is new does not
 * compile before somebody has thought about who may make it.
 */
enum result request_authorize(enum request_kind kind)
{
    switch (kind) {
    case REQUEST_CLUSTER_VERSION_SET: /* members among themselves, or what api lets only root say */
    case REQUEST_CLUSTER_MEMBER_ATTR_SET:
    case REQUEST_DOWNGRADE_INFO_SET:
    case REQUEST_DOWNGRADE_VERSION_TEST:
    case REQUEST_COMPACTION:
    case REQUEST_LEASE_GRANT:
    case REQUEST_LEASE_CHECKPOINT:
    case REQUEST_ALARM:
    case REQUEST_AUTHENTICATE: /* everybody */
    case REQUEST_AUTH_STATUS:
    case REQUEST_RANGE: /* who may read or write the keys it names, or those of the lease */
    case REQUEST_PUT:
    case REQUEST_DELETE_RANGE:
    case REQUEST_TXN:
    case REQUEST_LEASE_REVOKE:
    case REQUEST_AUTH_USER_GET: /* users for themselves, else as below */
    case REQUEST_AUTH_ROLE_GET:
    case REQUEST_AUTH_ENABLE: /* who has the root role */
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
        return RESULT_OK;
    case REQUEST_COUNT:
        break;
    }
    unreachable();
}

bool request_is_supported(enum request_kind kind)
{
    switch (kind) {
    case REQUEST_CLUSTER_VERSION_SET:
    case REQUEST_CLUSTER_MEMBER_ATTR_SET:
    case REQUEST_DOWNGRADE_INFO_SET:
    case REQUEST_DOWNGRADE_VERSION_TEST:
    case REQUEST_RANGE:
    case REQUEST_PUT:
    case REQUEST_DELETE_RANGE:
    case REQUEST_TXN:
    case REQUEST_COMPACTION:
    case REQUEST_LEASE_GRANT:
    case REQUEST_LEASE_REVOKE:
    case REQUEST_LEASE_CHECKPOINT:
    case REQUEST_ALARM:
    case REQUEST_AUTH_STATUS:
    case REQUEST_AUTH_USER_GET: /* another member's client asks, and it is answered there */
    case REQUEST_AUTH_ROLE_GET:
    case REQUEST_AUTH_USER_LIST:
    case REQUEST_AUTH_ROLE_LIST:
        return true;
    case REQUEST_AUTHENTICATE:
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
        return false;
    case REQUEST_COUNT:
        break;
    }
    unreachable();
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
