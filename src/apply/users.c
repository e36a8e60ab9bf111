#include "apply/apply_int.h"
#include "auth/tokens.h"

/* ---- Leases, as auth sees them ---- */

/*
 * A key that a large delete has ended hangs on its lease until that is settled, sooner on one
 * member than on another. It is none of the lease's keys, for all of them alike. A million of them
 * are passed over in one step: whoever asks does so for each put of a transaction.
 */
static bool next_key(const void *context, int64_t id, struct bytes from, struct bytes *key)
{
    const struct apply *a = context;
    struct keyindex_found found;

    if (!lease_living_key(a->o.leases, id, from, key))
        return false;
    assert(
        mvcc_find(a->o.mvcc, *key, mvcc_working(a->o.mvcc), &found)); /* both say that it lives */
    return true;
}

struct auth_leases users_leases(struct apply *a)
{
    return (struct auth_leases){.next_key = next_key, .leases = a};
}

/* ---- Logging in ---- */

/* Whether the password was right was found out before the entry was proposed. */
static enum auth_result log_in(struct apply *a)
{
    const struct pb_internal_authenticate_request *r = a->request.authenticate;
    enum auth_result result = auth_may_log_in(a->o.auth, r->name);

    if (result == AUTH_NO_PASSWORD_USER)
        return AUTH_FAILED; /* here etcd does not say why */
    if (result == AUTH_OK && a->o.tokens)
        auth_tokens_add(a->o.tokens, r->simple_token, a->effects.index, r->name, a->now_ms);
    return result;
}

static enum auth_result log_out(struct apply *a, enum auth_result result, struct bytes user)
{
    if (result == AUTH_OK && a->o.tokens)
        auth_tokens_drop_user(a->o.tokens, user);
    return result;
}

static enum auth_result disable(struct apply *a)
{
    auth_disable(a->o.auth);
    if (a->o.tokens)
        auth_tokens_drop_all(a->o.tokens);
    return AUTH_OK;
}

/* ---- Questions ---- */

/* All but the header, if somebody waits for it. */
static void respond(struct apply *a, const struct pb_schema *schema, const void *response)
{
    if (!a->awaited)
        return;
    pb_encode(schema, response, reply_text(&a->effects.reply));
    reply_added(&a->effects.reply);
}

static enum auth_result show_status(struct apply *a)
{
    respond(a, &pb_auth_status_response_schema,
            &(struct pb_auth_status_response){.enabled = auth_is_enabled(a->o.auth),
                                              .auth_revision = auth_revision(a->o.auth)});
    return AUTH_OK;
}

static enum auth_result show_user(struct apply *a)
{
    const struct pb_user *u = auth_user(a->o.auth, a->request.auth_user_get->name);
    struct pb_roles_response response = {0};

    if (!u)
        return AUTH_USER_NOT_FOUND;
    response.roles.at = u->roles.at;
    response.roles.count = u->roles.count;
    respond(a, &pb_auth_user_get_response_schema, &response);
    return AUTH_OK;
}

/* Root's permission is not among those that are stored. */
static enum auth_result show_role(struct apply *a)
{
    const struct pb_role *role = auth_role(a->o.auth, a->request.auth_role_get->role);
    const struct pb_permission everything = {.type = PB_PERMISSION_READWRITE,
                                             .range_end = BYTES("\0")};
    struct pb_auth_role_get_response response = {0};

    if (!role)
        return AUTH_ROLE_NOT_FOUND;
    response.perm.at = role->key_permission.at;
    response.perm.count = role->key_permission.count;
    if (bytes_equal(role->name, BYTES("root"))) {
        response.perm.at = &everything;
        response.perm.count = 1;
    }
    respond(a, &pb_auth_role_get_response_schema, &response);
    return AUTH_OK;
}

static enum auth_result list_users(struct apply *a)
{
    struct pb_auth_user_list_response response = {0};
    size_t count = 0;

    while (auth_nth_user(a->o.auth, count))
        count++;
    struct bytes *names = arena_new_array(&a->arena, count, struct bytes);
    for (size_t i = 0; i < count; i++)
        names[i] = auth_nth_user(a->o.auth, i)->name;
    response.users.at = names;
    response.users.count = count;
    respond(a, &pb_auth_user_list_response_schema, &response);
    return AUTH_OK;
}

static enum auth_result list_roles(struct apply *a)
{
    struct pb_roles_response response = {0};
    size_t count = 0;

    while (auth_nth_role(a->o.auth, count))
        count++;
    struct bytes *names = arena_new_array(&a->arena, count, struct bytes);
    for (size_t i = 0; i < count; i++)
        names[i] = auth_nth_role(a->o.auth, i)->name;
    response.roles.at = names;
    response.roles.count = count;
    respond(a, &pb_auth_role_list_response_schema, &response);
    return AUTH_OK;
}

/* ---- All of them ---- */

/* Before etcd 3.5 each member made a hash of its own. */
static bool has_clear_password(const struct apply *a)
{
    const struct pb_auth_user_add_request *add = a->request.auth_user_add;
    const struct pb_auth_user_change_password_request *change =
        a->request.auth_user_change_password;

    if (a->kind == REQUEST_AUTH_USER_ADD)
        return add->password.len > 0 && add->hashed_password.len == 0 &&
               !(add->options && add->options->no_password);
    return a->kind == REQUEST_AUTH_USER_CHANGE_PASSWORD && change->password.len > 0 &&
           change->hashed_password.len == 0;
}

static enum auth_result execute(struct apply *a)
{
    const struct pb_internal_raft_request *r = &a->request;
    struct auth *auth = a->o.auth;

    switch (a->kind) {
    case REQUEST_AUTHENTICATE:
        return log_in(a);
    case REQUEST_AUTH_ENABLE:
        return auth_enable(auth);
    case REQUEST_AUTH_DISABLE:
        return disable(a);
    case REQUEST_AUTH_STATUS:
        return show_status(a);
    case REQUEST_AUTH_USER_ADD:
        return auth_user_add(auth, r->auth_user_add);
    case REQUEST_AUTH_USER_DELETE:
        return log_out(a, auth_user_delete(auth, r->auth_user_delete->name),
                       r->auth_user_delete->name);
    case REQUEST_AUTH_USER_CHANGE_PASSWORD:
        return log_out(a, auth_user_change_password(auth, r->auth_user_change_password),
                       r->auth_user_change_password->name);
    case REQUEST_AUTH_USER_GRANT_ROLE:
        return auth_user_grant_role(auth, r->auth_user_grant_role->user,
                                    r->auth_user_grant_role->role);
    case REQUEST_AUTH_USER_REVOKE_ROLE:
        return auth_user_revoke_role(auth, r->auth_user_revoke_role->name,
                                     r->auth_user_revoke_role->role);
    case REQUEST_AUTH_USER_GET:
        return show_user(a);
    case REQUEST_AUTH_USER_LIST:
        return list_users(a);
    case REQUEST_AUTH_ROLE_ADD:
        return auth_role_add(auth, r->auth_role_add->name);
    case REQUEST_AUTH_ROLE_GRANT_PERMISSION:
        return auth_role_grant_permission(auth, r->auth_role_grant_permission);
    case REQUEST_AUTH_ROLE_REVOKE_PERMISSION:
        return auth_role_revoke_permission(auth, r->auth_role_revoke_permission);
    case REQUEST_AUTH_ROLE_DELETE:
        return auth_role_delete(auth, r->auth_role_delete->role);
    case REQUEST_AUTH_ROLE_GET:
        return show_role(a);
    case REQUEST_AUTH_ROLE_LIST:
        return list_roles(a);
    default:
        unreachable();
    }
}

void users_execute(struct apply *a)
{
    if (has_clear_password(a))
        apply_refuse(a, "it has a password in clear, as etcd wrote them before version 3.5");
    else
        a->effects.result = result_of_auth(execute(a));
}
