/*
 * The administrator: adds and deletes users and roles, grants and revokes, switches auth on and
 * off, and now and then asks whether it is on. Mostly for what can be done, as far as anybody
 * knows; and now and then for what must be refused.
 */
#include "sim/actor_int.h"

#include "base/assert.h"

enum { TRIES = 12 /* to find something that can be done */ };

/* So often of all; who does little has little to lose. */
static const unsigned weights[RIGHTS_KINDS] = {
    [RIGHTS_ENABLE] = 5,      [RIGHTS_DISABLE] = 1,  [RIGHTS_USER_ADD] = 3,
    [RIGHTS_USER_DELETE] = 1, [RIGHTS_PASSWORD] = 2, [RIGHTS_ROLE_GRANT] = 6,
    [RIGHTS_ROLE_REVOKE] = 2, [RIGHTS_ROLE_ADD] = 3, [RIGHTS_ROLE_DELETE] = 1,
    [RIGHTS_PERMIT] = 8,      [RIGHTS_FORBID] = 4,
};

static enum rights_kind some_kind(struct rng *rng)
{
    unsigned all = 0, kind = 0;

    for (unsigned k = 0; k < RIGHTS_KINDS; k++)
        all += weights[k];
    uint64_t dice = rng_below(rng, all);
    while (dice >= weights[kind])
        dice -= weights[kind++];
    return (enum rights_kind)kind;
}

/* What is not used stays zero, so that equal ones are equal. */
static struct rights_change some_change(struct rng *rng)
{
    struct rights_change c = {.kind = some_kind(rng)};
    unsigned user = (unsigned)rng_between(rng, 1, RIGHTS_USERS - 1);
    unsigned role = (unsigned)rng_between(rng, 1, RIGHTS_ROLES - 1);
    bool is_roots = rng_chance(rng, 1, 10), is_root_role = rng_chance(rng, 1, 10);
    unsigned range = (unsigned)rng_below(rng, RIGHTS_RANGES);
    unsigned type = (unsigned)rng_between(rng, RIGHTS_READ, RIGHTS_BOTH);

    if (c.kind >= RIGHTS_USER_ADD && c.kind <= RIGHTS_ROLE_REVOKE)
        c.user = is_roots ? RIGHTS_ROOT : user;
    if (c.kind >= RIGHTS_ROLE_GRANT)
        c.role = is_root_role ? RIGHTS_ROOT : role;
    if (c.kind >= RIGHTS_PERMIT)
        c.range = range;
    if (c.kind == RIGHTS_PERMIT)
        c.type = (enum rights_type)type;
    return c;
}

static bool can_be_done(const struct rights *now, const struct rights_change *c)
{
    struct rights next = *now;

    return !rights_apply(&next, c) && !rights_are_equal(&next, now);
}

/* Without root and its role it is never enabled. */
static struct rights_change next_change(struct actor *a)
{
    const struct rights *now = permits_newest(a->o.permits);
    struct rights_change c = some_change(&a->rng);

    if (!now->users[RIGHTS_ROOT].is_there && rng_chance(&a->rng, 2, 3))
        return (struct rights_change){.kind = RIGHTS_USER_ADD};
    if (!rights_is_root(now, RIGHTS_ROOT) && rng_chance(&a->rng, 2, 3))
        return (struct rights_change){.kind = RIGHTS_ROLE_GRANT};
    if (rng_chance(&a->rng, 1, 10))
        return c;
    for (unsigned i = 0; i < TRIES && !can_be_done(now, &c); i++)
        c = some_change(&a->rng);
    return c;
}

/* --- asking --- */

#define ASK(a, method, name, ...)                                                                  \
    writer_ask((a), OP_OTHER, "/etcdserverpb.Auth/" method, &pb_auth_##name##_request_schema,      \
               &__VA_ARGS__)

static struct asked *ask_about_user(struct actor *a, const struct rights_change *c)
{
    struct bytes name = bytes_of_str(rights_user_name(c->user));
    struct bytes role = bytes_of_str(rights_role_name(c->role));

    switch (c->kind) {
    case RIGHTS_USER_ADD:
        return ASK(a, "UserAdd", user_add,
                   (struct pb_auth_user_add_request){.name = name, .password = name});
    case RIGHTS_USER_DELETE:
        return ASK(a, "UserDelete", user_delete, (struct pb_auth_name){.name = name});
    case RIGHTS_PASSWORD:
        return ASK(a, "UserChangePassword", user_change_password,
                   (struct pb_auth_user_change_password_request){.name = name, .password = name});
    case RIGHTS_ROLE_GRANT:
        return ASK(a, "UserGrantRole", user_grant_role,
                   (struct pb_auth_user_grant_role_request){.user = name, .role = role});
    default:
        return ASK(a, "UserRevokeRole", user_revoke_role,
                   (struct pb_auth_user_revoke_role_request){.name = name, .role = role});
    }
}

static struct asked *ask_about_role(struct actor *a, const struct rights_change *c)
{
    struct bytes name = bytes_of_str(rights_role_name(c->role));
    struct bytes key = rights_range_key(c->range), end = rights_range_end(c->range);
    static const int32_t types[] = {[RIGHTS_READ] = PB_PERMISSION_READ,
                                    [RIGHTS_WRITE] = PB_PERMISSION_WRITE,
                                    [RIGHTS_BOTH] = PB_PERMISSION_READWRITE};
    struct pb_permission permission = {.type = types[c->type], .key = key, .range_end = end};

    switch (c->kind) {
    case RIGHTS_ROLE_ADD:
        return ASK(a, "RoleAdd", role_add, (struct pb_auth_name){.name = name});
    case RIGHTS_ROLE_DELETE:
        return ASK(a, "RoleDelete", role_delete, (struct pb_auth_role_name){.role = name});
    case RIGHTS_PERMIT:
        return ASK(
            a, "RoleGrantPermission", role_grant_permission,
            (struct pb_auth_role_grant_permission_request){.name = name, .perm = &permission});
    default:
        return ASK(a, "RoleRevokePermission", role_revoke_permission,
                   (struct pb_auth_role_revoke_permission_request){
                       .role = name, .key = key, .range_end = end});
    }
}

static void ask_for_change(struct actor *a, const struct rights_change *c)
{
    size_t change = permits_asked(a->o.permits, c);
    struct asked *q;

    if (c->kind == RIGHTS_ENABLE)
        q = ASK(a, "AuthEnable", enable, (struct pb_empty){0});
    else if (c->kind == RIGHTS_DISABLE)
        q = ASK(a, "AuthDisable", disable, (struct pb_empty){0});
    else if (c->kind <= RIGHTS_ROLE_REVOKE)
        q = ask_about_user(a, c);
    else
        q = ask_about_role(a, c);
    q->change = change + 1;
    q->stale = a->o.server_count > 1; /* the header is of when it was applied */
}

void administrator_begin(struct actor *a)
{
    if (rng_chance(&a->rng, 1, 8)) {
        a->login.status_since = permits_count(a->o.permits);
        struct asked *q = ASK(a, "AuthStatus", status, (struct pb_empty){0});
        permits_is_anybodys(a->o.permits, q->op);
        q->is_status = true;
        q->stale = a->o.server_count > 1;
        return;
    }
    struct rights_change c = next_change(a);
    ask_for_change(a, &c);
}

/* --- hearing --- */

void administrator_answered(struct actor *a, const struct asked *q, struct bytes message)
{
    struct pb_auth_status_response r = {0};
    struct arena arena = {0};

    if (q->change > 0)
        permits_answered(a->o.permits, q->change - 1, (struct bytes){0}, true);
    if (q->is_status) {
        if (pb_decode(&pb_auth_status_response_schema, message, &arena, &r) != ERR_OK)
            history_fail(a->h, "a status of auth cannot be decoded");
        permits_status(a->o.permits, a->login.status_since, r.enabled, r.auth_revision);
    }
    const char *text = permits_problem(a->o.permits);
    if (text)
        history_fail(a->h, "%s", text);
    arena_free(&arena);
}

/* False: that is none that it may be given. */
bool administrator_hears_refusal(struct actor *a, const struct asked *q,
                                 const struct client_event *e)
{
    if (q->change == 0 || (e->code != RPC_INVALID_ARGUMENT && e->code != RPC_FAILED_PRECONDITION &&
                           e->code != RPC_UNAUTHENTICATED && e->code != RPC_PERMISSION_DENIED))
        return false;
    permits_answered(a->o.permits, q->change - 1, e->text, false);
    const char *text = permits_problem(a->o.permits);
    if (text)
        history_fail(a->h, "%s", text);
    return true;
}
