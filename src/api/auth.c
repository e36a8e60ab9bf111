/*
 * Auth: users, roles, and logging in. All of it goes through the log, and apply decides who may.
 *
 * Passwords are hashed and compared by the server, away from this thread; what goes into the log
 * is a hash, or that somebody has logged in.
 *
 *     Authenticate --> a quorum is asked --> the password compared --> the log --> a token
 *                            ^                                          |
 *                            +--- users or roles have changed meanwhile-+
 *
 * A simple token is made of the entry, on all members. A JWT is signed by this one when the entry
 * was applied, and no other hears of it.
 */
#include "api/api_int.h"
#include "auth/jwt.h"
#include "auth/password.h"
#include "auth/tokens.h"
#include "base/base64.h"
#include "io/entropy.h"

#include <inttypes.h>

/* --- names --- */

/* A longer one does not fit into etcd's store: it would end those members, and no backup could be
 * made here. */
static enum result check_new_name(struct bytes name)
{
    return name.len <= AUTH_NAME_BYTES_MAX ? RESULT_OK : RESULT_REQUEST_TOO_LARGE;
}

static enum result check_user_add(struct call *c, const void *request)
{
    (void)c;
    return check_new_name(((const struct pb_auth_user_add_request *)request)->name);
}

static enum result check_role_add(struct call *c, const void *request)
{
    (void)c;
    return check_new_name(((const struct pb_auth_name *)request)->name);
}

/* --- what is put into the log as it is --- */

#define AUTH_PROPOSAL(method, checks)                                                              \
    static void run_##method(struct call *c, const void *request)                                  \
    {                                                                                              \
        api_call_proposal(c)->auth_##method = request;                                             \
        api_call_propose(c);                                                                       \
    }                                                                                              \
    const struct handler api_auth_##method = {                                                     \
        .schema = &pb_auth_##method##_request_schema, .check = (checks), .run = run_##method};

AUTH_PROPOSAL(enable, NULL)
AUTH_PROPOSAL(disable, NULL)
AUTH_PROPOSAL(status, NULL)
AUTH_PROPOSAL(user_get, NULL)
AUTH_PROPOSAL(user_list, NULL)
AUTH_PROPOSAL(user_delete, NULL)
AUTH_PROPOSAL(user_grant_role, NULL)
AUTH_PROPOSAL(user_revoke_role, NULL)
AUTH_PROPOSAL(role_add, check_role_add)
AUTH_PROPOSAL(role_get, NULL)
AUTH_PROPOSAL(role_list, NULL)
AUTH_PROPOSAL(role_delete, NULL)
AUTH_PROPOSAL(role_grant_permission, NULL)
AUTH_PROPOSAL(role_revoke_permission, NULL)

/* --- passwords that are set --- */

static void ask_for_password(struct call *c, struct bytes password, bool compares,
                             struct bytes hash)
{
    api_call_password(
        c, &(struct api_password){.compares = compares,
                                  .password = password,
                                  .hash = hash,
                                  .remote = rpc_event_bytes(&c->first, c->first.remote)});
}

static void hash_password(struct call *c, struct bytes password)
{
    if (password.len > PASSWORD_BYTES_MAX)
        api_call_finish(c, RESULT_AUTH_PASSWORD_TOO_LONG);
    else
        ask_for_password(c, password, false, bytes_of(NULL, 0));
}

/* It is not to be found in our memory later on. The bytes are the call's own. */
static void forget_password(struct bytes password)
{
    if (password.len > 0)
        explicit_bzero((void *)password.at, password.len);
}

static struct bytes in_base64(struct call *c, const struct api_password_result *r)
{
    struct buf text = {0};

    base64_encode(BASE64_PADDED, bytes_of(r->hash, r->hash_len), &text);
    struct bytes kept = arena_copy(&c->arena, buf_bytes(&text));
    buf_free(&text);
    return kept;
}

/* Nobody may read it in the log, nor in our memory. */
static struct pb_auth_user_add_request *user_to_add(struct call *c)
{
    struct pb_auth_user_add_request *add = arena_new(&c->arena, struct pb_auth_user_add_request);

    *add = *(const struct pb_auth_user_add_request *)c->request;
    add->password = bytes_of(NULL, 0);
    api_call_proposal(c)->auth_user_add = add;
    return add;
}

static void run_user_add(struct call *c, const void *request)
{
    const struct pb_auth_user_add_request *r = request;

    if (r->options && r->options->no_password) {
        user_to_add(c);
        api_call_propose(c);
    } else {
        hash_password(c, r->password);
    }
}

static void user_add_hashed(struct call *c, const struct api_password_result *r)
{
    forget_password(((const struct pb_auth_user_add_request *)c->request)->password);
    user_to_add(c)->hashed_password = in_base64(c, r);
    api_call_propose(c);
}

const struct handler api_auth_user_add = {
    .schema = &pb_auth_user_add_request_schema,
    .check = check_user_add,
    .run = run_user_add,
    .password_done = user_add_hashed,
};

/* Without a password the hash is taken as it was sent. */
static void run_user_change_password(struct call *c, const void *request)
{
    const struct pb_auth_user_change_password_request *r = request;

    if (r->password.len > 0) {
        hash_password(c, r->password);
        return;
    }
    api_call_proposal(c)->auth_user_change_password = r;
    api_call_propose(c);
}

static void user_change_password_hashed(struct call *c, const struct api_password_result *r)
{
    const struct pb_auth_user_change_password_request *request = c->request;
    struct pb_auth_user_change_password_request *change =
        arena_new(&c->arena, struct pb_auth_user_change_password_request);

    forget_password(request->password);
    change->name = request->name;
    change->hashed_password = in_base64(c, r);
    api_call_proposal(c)->auth_user_change_password = change;
    api_call_propose(c);
}

const struct handler api_auth_user_change_password = {
    .schema = &pb_auth_user_change_password_request_schema,
    .run = run_user_change_password,
    .password_done = user_change_password_hashed,
};

/* --- Authenticate --- */

static const struct pb_authenticate_request *login_of(const struct call *c)
{
    return c->request;
}

/* Also of a user who does not exist, or has none: so it takes as long as with one who does. */
static void compare_password(struct call *c)
{
    const struct auth *auth = api_of(c)->o.auth;
    const struct pb_user *u = auth_user(auth, login_of(c)->name);

    c->login.checked_revision = auth_revision(auth);
    c->login.result = result_of_auth(auth_may_log_in(auth, login_of(c)->name));
    if (c->login.result == RESULT_AUTH_NOT_ENABLED)
        api_call_finish(c, c->login.result);
    else
        ask_for_password(c, login_of(c)->password, true,
                         c->login.result == RESULT_OK
                             ? arena_copy(&c->arena, u->password) /* lent until the next change */
                             : bytes_of(NULL, 0));
}

static void run_authenticate(struct call *c, const void *request)
{
    (void)request;
    api_call_read_index(c);
}

static void draw_prefix(struct call *c)
{
    uint8_t random[64];

    do
        entropy_fill(api_of(c)->o.entropy, random, sizeof(random));
    while (!auth_token_prefix(bytes_of(random, sizeof(random)), c->login.prefix));
}

static void password_compared(struct call *c, const struct api_password_result *r)
{
    struct api *a = api_of(c);

    if (r->is_too_costly)
        log_warn(a->o.logger, "the cost of a user's password hash is too high to compare with it",
                 LOG_BYTES("user", login_of(c)->name));
    if (c->login.result == RESULT_OK && !r->matches)
        c->login.result = RESULT_AUTH_FAILED;
    if (c->login.result != RESULT_OK) {
        log_warn(a->o.logger, "invalid authentication was requested",
                 LOG_BYTES("user", login_of(c)->name),
                 LOG_STR("error", result_text(c->login.result)));
        forget_password(login_of(c)->password);
        api_call_finish(c, c->login.result);
        return;
    }
    struct pb_internal_authenticate_request *login =
        arena_new(&c->arena, struct pb_internal_authenticate_request);
    login->name = login_of(c)->name;
    if (a->o.tokens && !auth_tokens_jwt(a->o.tokens)) {
        draw_prefix(c);
        login->simple_token = bytes_of(c->login.prefix, AUTH_TOKEN_PREFIX_LEN);
    }
    api_call_proposal(c)->authenticate = login;
    api_call_propose(c);
}

static void respond_with(struct call *c, struct bytes token)
{
    struct pb_response_header header = api_header_of(api_of(c), mvcc_revision(api_of(c)->o.mvcc));

    forget_password(login_of(c)->password);
    api_call_respond(c, &pb_authenticate_response_schema,
                     &(struct pb_authenticate_response){.header = &header, .token = token});
}

static void respond_with_simple_token(struct call *c, uint64_t index)
{
    respond_with(c, bytes_of_str(arena_printf(&c->arena, "%.*s.%" PRIu64, AUTH_TOKEN_PREFIX_LEN,
                                              c->login.prefix, index)));
}

/*
 * Here in the turn, which it costs up to a millisecond with an RSA key of 2048 bits, and a tenth of
 * that with any other. Who comes here had a password compared before, by a worker that deals with
 * one at a time and takes, at the usual cost, 50 ms for it: so it is a fiftieth of the turn at
 * most.
 */
static void respond_with_jwt(struct call *c, const struct jwt *jwt)
{
    const struct api *a = api_of(c);
    struct buf token = {0};
    enum err e =
        jwt_sign(jwt, login_of(c)->name, c->login.checked_revision, a->facts->unix_seconds, &token);

    if (e == ERR_OK) {
        respond_with(c, buf_bytes(&token));
    } else {
        log_error(
            a->o.logger, "failed to sign a JWT token", LOG_BYTES("user-name", login_of(c)->name),
            LOG_STR("error", jwt_is_verify_only(jwt) ? "the key is a public one" : err_text(e)));
        forget_password(login_of(c)->password);
        if (jwt_is_verify_only(jwt))
            api_call_finish(c, RESULT_AUTH_VERIFY_ONLY);
        else
            api_call_finish_text(c, RPC_UNKNOWN, "auth: failed to sign a token");
    }
    buf_free(&token);
}

/* The password may have been changed after it was compared, by an entry before this one. */
static void logged_in(struct call *c, struct apply_effects *e)
{
    struct api *a = api_of(c);

    if (e->result != RESULT_OK)
        api_call_finish(c, e->result);
    else if (!a->o.tokens)
        api_call_finish(c, RESULT_AUTH_FAILED); /* as the server was told: none are given out */
    else if (c->login.checked_revision != auth_revision(a->o.auth))
        compare_password(c);
    else if (auth_tokens_jwt(a->o.tokens))
        respond_with_jwt(c, auth_tokens_jwt(a->o.tokens));
    else
        respond_with_simple_token(c, e->index);
}

const struct handler api_auth_authenticate = {
    .schema = &pb_authenticate_request_schema,
    .run = run_authenticate,
    .confirmed = compare_password,
    .password_done = password_compared,
    .applied = logged_in,
};
