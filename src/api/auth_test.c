/*
 * Users and roles through the counter: logging in, tokens, and what each way to a key asks for.
 */
#include "api/api_int.h"
#include "api/api_rig_test.h"
#include "auth/jwt.h"
#include "harness/jwt_keys_test.h"

#include <stdio.h>

/* ---- Users ---- */

struct auth_counter {
    struct api_rig k;
    struct arena arena;
    const char *token; /* sent with what is asked; NULL: none */
    uint64_t certificate_calls;
};

static void ask(struct auth_counter *t, struct visit *v, const char *path,
                const struct pb_schema *schema, const void *message)
{
    struct client_field field = {.name = "token",
                                 .value = t->token ? bytes_of_str(t->token) : bytes_of(NULL, 0)};

    api_rig_ask_with(&t->k, v,
                     &(struct client_request){
                         .path = path, .metadata = &field, .metadata_count = t->token != NULL},
                     schema, message);
}

static void expect(struct auth_counter *t, const char *path, const struct pb_schema *schema,
                   const void *message, enum rpc_code code, const char *text)
{
    struct visit v;

    ask(t, &v, path, schema, message);
    api_rig_expect(&t->k, &v, code, text);
    visit_free(&v);
}

static void do_it(struct auth_counter *t, const char *path, const struct pb_schema *schema,
                  const void *message)
{
    expect(t, path, schema, message, RPC_OK, "");
}

static void add_user(struct auth_counter *t, const char *name, const char *password)
{
    do_it(t, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema,
          &(struct pb_auth_user_add_request){.name = bytes_of_str(name),
                                             .password = bytes_of_str(password)});
}

static void grant_role(struct auth_counter *t, const char *user, const char *role)
{
    do_it(t, "/etcdserverpb.Auth/UserGrantRole", &pb_auth_user_grant_role_request_schema,
          &(struct pb_auth_user_grant_role_request){.user = bytes_of_str(user),
                                                    .role = bytes_of_str(role)});
}

static void permit(struct auth_counter *t, const char *role, int32_t type, const char *key,
                   struct bytes end)
{
    struct pb_permission p = {.type = type, .key = bytes_of_str(key), .range_end = end};

    do_it(t, "/etcdserverpb.Auth/RoleGrantPermission",
          &pb_auth_role_grant_permission_request_schema,
          &(struct pb_auth_role_grant_permission_request){.name = bytes_of_str(role), .perm = &p});
}

static const char *log_in(struct auth_counter *t, const char *name, const char *password)
{
    struct pb_authenticate_response response;
    const char *before = t->token;

    t->token = NULL;
    api_rig_get(&t->k, "/etcdserverpb.Auth/Authenticate", &pb_authenticate_request_schema,
                &(struct pb_authenticate_request){.name = bytes_of_str(name),
                                                  .password = bytes_of_str(password)},
                &pb_authenticate_response_schema, &t->arena, &response);
    t->token = before;
    return arena_copy_str(&t->arena, response.token);
}

/* root, and "r" who may read a, "w" who may write a, and "n" without any role; all know "pw". */
static void counter_open(struct auth_counter *t)
{
    *t = (struct auth_counter){0};
    api_rig_open(&t->k);
    api_rig_put(&t->k, "a", "one");
    api_rig_put(&t->k, "b", "secret");
    add_user(t, "root", "pw");
    grant_role(t, "root", "root");
    const char *const names[] = {"r", "w"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        add_user(t, names[i], "pw");
        do_it(t, "/etcdserverpb.Auth/RoleAdd", &pb_auth_role_add_request_schema,
              &(struct pb_auth_name){.name = bytes_of_str(names[i])});
        grant_role(t, names[i], names[i]);
    }
    add_user(t, "n", "pw");
    permit(t, "r", PB_PERMISSION_READ, "a", bytes_of(NULL, 0));
    permit(t, "w", PB_PERMISSION_WRITE, "a", bytes_of(NULL, 0));
    do_it(t, "/etcdserverpb.Auth/AuthEnable", &pb_auth_enable_request_schema,
          &(struct pb_empty){0});
}

static void counter_close(struct auth_counter *t)
{
    arena_free(&t->arena);
    api_rig_close(&t->k);
}

static const char denied[] = "etcdserver: permission denied";

static void read_key(struct auth_counter *t, const char *key, enum rpc_code code, const char *text)
{
    struct pb_range_request fresh = {.key = bytes_of_str(key)};
    struct pb_range_request stale = {.key = bytes_of_str(key), .serializable = true};

    expect(t, "/etcdserverpb.KV/Range", &pb_range_request_schema, &fresh, code, text);
    expect(t, "/etcdserverpb.KV/Range", &pb_range_request_schema, &stale, code, text);
    expect(t, "/etcdserverpb.KV/RangeStream", &pb_range_request_schema, &fresh, code, text);
}

/* ---- Logging in ---- */

TEST(who_logs_in_is_known_by_his_token)
{
    struct auth_counter t;
    counter_open(&t);

    t.token = log_in(&t, "r", "pw");
    uint64_t index;
    CHECK(auth_token_index(bytes_of_str(t.token), &index));
    CHECK_EQ(strlen(t.token), 16 + 1 + 2);
    CHECK_EQ(index, t.k.facts.applied_index);
    read_key(&t, "a", RPC_OK, "");
    read_key(&t, "b", RPC_PERMISSION_DENIED, denied);
    t.token = log_in(&t, "root", "pw");
    read_key(&t, "b", RPC_OK, "");
    t.token = "abcdefghijklmnop.1";
    read_key(&t, "a", RPC_UNAUTHENTICATED, "etcdserver: invalid auth token");
    t.token = "nonsense";
    read_key(&t, "a", RPC_UNAUTHENTICATED, "etcdserver: invalid auth token");
    expect(&t, "/etcdserverpb.Auth/AuthStatus", &pb_auth_status_request_schema,
           &(struct pb_empty){0}, RPC_UNAUTHENTICATED, "etcdserver: invalid auth token");
    t.token = NULL;
    read_key(&t, "a", RPC_INVALID_ARGUMENT, "etcdserver: user name is empty");
    do_it(&t, "/etcdserverpb.Auth/AuthStatus", &pb_auth_status_request_schema,
          &(struct pb_empty){0});

    counter_close(&t);
}

/* Also as `authorization`, with and without the word in front. */
TEST(a_token_may_come_as_authorization)
{
    struct auth_counter t;
    struct pb_range_request range = {.key = BYTES("a")};
    counter_open(&t);
    const char *token = log_in(&t, "r", "pw");
    const char *texts[] = {token, arena_printf(&t.arena, "Bearer %s", token)};

    for (size_t i = 0; i < 2; i++) {
        struct client_field field = {.name = "authorization", .value = bytes_of_str(texts[i])};
        struct visit v;
        api_rig_ask_with(&t.k, &v,
                         &(struct client_request){.path = "/etcdserverpb.KV/Range",
                                                  .metadata = &field,
                                                  .metadata_count = 1},
                         &pb_range_request_schema, &range);
        api_rig_expect(&t.k, &v, RPC_OK, "");
        visit_free(&v);
    }

    counter_close(&t);
}

/* Whose token is empty has shown one that is nobody's; and `token` counts before the other. */
TEST(an_empty_token_is_an_invalid_one)
{
    static const char invalid[] = "etcdserver: invalid auth token";
    struct auth_counter t;
    struct pb_range_request range = {.key = BYTES("a")};
    counter_open(&t);
    struct bytes token = bytes_of_str(log_in(&t, "r", "pw"));
    const struct {
        struct client_field fields[2];
        size_t count;
        enum rpc_code code;
        const char *text;
    } asked[] = {
        {{{"token", BYTES("")}}, 1, RPC_UNAUTHENTICATED, invalid},
        {{{"authorization", BYTES("")}}, 1, RPC_UNAUTHENTICATED, invalid},
        {{{"authorization", BYTES("Bearer ")}}, 1, RPC_UNAUTHENTICATED, invalid},
        {{{"token", BYTES("")}, {"authorization", token}}, 2, RPC_UNAUTHENTICATED, invalid},
        {{{"authorization", BYTES("")}, {"token", token}}, 2, RPC_OK, ""},
        {{{"other", BYTES("")}}, 1, RPC_INVALID_ARGUMENT, "etcdserver: user name is empty"},
    };

    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        struct visit v;
        api_rig_ask_with(&t.k, &v,
                         &(struct client_request){.path = "/etcdserverpb.KV/Range",
                                                  .metadata = asked[i].fields,
                                                  .metadata_count = asked[i].count},
                         &pb_range_request_schema, &range);
        api_rig_expect(&t.k, &v, asked[i].code, asked[i].text);
        visit_free(&v);
    }

    counter_close(&t);
}

static void fail_to_log_in(struct auth_counter *t, const char *name, struct bytes password,
                           enum rpc_code code, const char *text)
{
    expect(t, "/etcdserverpb.Auth/Authenticate", &pb_authenticate_request_schema,
           &(struct pb_authenticate_request){.name = bytes_of_str(name), .password = password},
           code, text);
}

/* Whether there is such a user is told neither by the text nor by what is computed. */
TEST(a_wrong_password_and_a_user_who_does_not_exist_look_the_same)
{
    struct auth_counter t;
    const char *text = "etcdserver: authentication failed, invalid user ID or password";
    struct pb_user_add_options no_password = {.no_password = true};
    counter_open(&t);
    unsigned before = t.k.passwords;

    fail_to_log_in(&t, "r", BYTES("wrong"), RPC_INVALID_ARGUMENT, text);
    fail_to_log_in(&t, "r", BYTES(""), RPC_INVALID_ARGUMENT, text);
    fail_to_log_in(&t, "r", BYTES("pw\0more"), RPC_INVALID_ARGUMENT, text);
    fail_to_log_in(&t, "nobody", BYTES("pw"), RPC_INVALID_ARGUMENT, text);
    fail_to_log_in(&t, "", BYTES("pw"), RPC_INVALID_ARGUMENT, text);
    CHECK_EQ(t.k.passwords, before + 5);
    t.token = log_in(&t, "root", "pw");
    do_it(&t, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema,
          &(struct pb_auth_user_add_request){.name = BYTES("cert"), .options = &no_password});
    fail_to_log_in(&t, "cert", BYTES("pw"), RPC_UNKNOWN,
                   "auth: authentication failed, password was given for no password user");
    do_it(&t, "/etcdserverpb.Auth/AuthDisable", &pb_auth_disable_request_schema,
          &(struct pb_empty){0});
    fail_to_log_in(&t, "r", BYTES("pw"), RPC_FAILED_PRECONDITION,
                   "etcdserver: authentication is not enabled");

    counter_close(&t);
}

TEST(a_token_ends_with_its_time_its_password_and_its_user)
{
    struct auth_counter t;
    struct pb_auth_user_change_password_request change = {.name = BYTES("r"),
                                                          .password = BYTES("new")};
    const char *invalid = "etcdserver: invalid auth token";
    counter_open(&t);
    const char *root = log_in(&t, "root", "pw"), *r = log_in(&t, "r", "pw");

    api_rig_for_ms(&t.k, API_RIG_TOKEN_MS / 2);
    t.token = r;
    read_key(&t, "a", RPC_OK, ""); /* and its time begins anew */
    api_rig_for_ms(&t.k, API_RIG_TOKEN_MS / 2 + 1000);
    read_key(&t, "a", RPC_OK, "");
    t.token = root;
    read_key(&t, "a", RPC_UNAUTHENTICATED, invalid);
    t.token = root = log_in(&t, "root", "pw");
    do_it(&t, "/etcdserverpb.Auth/UserChangePassword", &pb_auth_user_change_password_request_schema,
          &change);
    t.token = r;
    read_key(&t, "a", RPC_UNAUTHENTICATED, invalid);
    fail_to_log_in(&t, "r", BYTES("pw"), RPC_INVALID_ARGUMENT,
                   "etcdserver: authentication failed, invalid user ID or password");
    r = log_in(&t, "r", "new");
    t.token = root;
    do_it(&t, "/etcdserverpb.Auth/UserDelete", &pb_auth_user_delete_request_schema,
          &(struct pb_auth_name){.name = BYTES("r")});
    t.token = r;
    read_key(&t, "a", RPC_UNAUTHENTICATED, invalid);
    t.token = root;
    do_it(&t, "/etcdserverpb.Auth/AuthDisable", &pb_auth_disable_request_schema,
          &(struct pb_empty){0});
    read_key(&t, "a", RPC_OK, ""); /* whatever is sent */
    CHECK_EQ(auth_tokens_count(t.k.apply_rig.tokens), 0);

    counter_close(&t);
}

/* ---- JWTs ---- */

enum { JWT_NOW_S = 1700000000, JWT_TTL_S = 60 };

static struct jwt *open_jwt(enum jwt_method method, struct bytes public_key,
                            struct bytes private_key)
{
    struct buf why = {0};
    struct jwt *j = NULL;

    CHECK_EQ(jwt_open(&(struct jwt_options){.method = method,
                                            .public_key = public_key,
                                            .private_key = private_key,
                                            .ttl_s = JWT_TTL_S},
                      &why, &j),
             ERR_OK);
    buf_free(&why);
    return j;
}

static const char *sign_as(struct auth_counter *t, struct jwt *j, const char *user,
                           uint64_t revision)
{
    struct buf token = {0};

    CHECK_EQ(jwt_sign(j, bytes_of_str(user), revision, JWT_NOW_S, &token), ERR_OK);
    const char *kept = arena_copy_str(&t->arena, buf_bytes(&token));
    buf_free(&token);
    return kept;
}

TEST(a_jwt_is_good_for_its_time_and_until_users_or_roles_change)
{
    struct auth_counter t;
    const char *invalid = "etcdserver: invalid auth token";
    const char *old = "etcdserver: revision of auth store is old";
    api_rig_jwt = open_jwt(JWT_HS256, bytes_of(NULL, 0), BYTES("secret"));
    counter_open(&t);
    t.k.facts.unix_seconds = JWT_NOW_S;

    const char *r = t.token = log_in(&t, "r", "pw");
    CHECK(strncmp(r, "eyJ", 3) == 0);
    read_key(&t, "a", RPC_OK, "");
    read_key(&t, "b", RPC_PERMISSION_DENIED, denied);
    t.k.facts.unix_seconds += JWT_TTL_S - 1;
    read_key(&t, "a", RPC_OK, "");
    t.k.facts.unix_seconds++;
    read_key(&t, "a", RPC_UNAUTHENTICATED, invalid);
    t.k.facts.unix_seconds = JWT_NOW_S;
    t.token = "abcdefghijklmnop.99999"; /* nobody waits for an entry that a JWT would not name */
    read_key(&t, "a", RPC_UNAUTHENTICATED, invalid);
    CHECK_EQ(auth_tokens_count(t.k.apply_rig.tokens), 0); /* the first is forgotten */

    t.token = log_in(&t, "root", "pw");
    do_it(&t, "/etcdserverpb.Auth/RoleAdd", &pb_auth_role_add_request_schema,
          &(struct pb_auth_name){.name = BYTES("other")});
    t.token = r;
    read_key(&t, "a", RPC_INVALID_ARGUMENT, old);
    t.token = log_in(&t, "r", "pw");
    read_key(&t, "a", RPC_OK, "");

    counter_close(&t);
}

/* Whoever has the secret says what he likes; what the tables say counts all the same. */
TEST(what_a_jwt_claims_is_compared_with_the_tables)
{
    struct auth_counter t;
    struct jwt *secret = open_jwt(JWT_HS256, bytes_of(NULL, 0), BYTES("secret"));
    struct jwt *other = open_jwt(JWT_HS256, bytes_of(NULL, 0), BYTES("another"));
    api_rig_jwt = open_jwt(JWT_HS256, bytes_of(NULL, 0), BYTES("secret"));
    counter_open(&t);
    t.k.facts.unix_seconds = JWT_NOW_S;
    uint64_t now = auth_revision(t.k.apply_rig.auth);

    t.token = sign_as(&t, secret, "r", now);
    read_key(&t, "a", RPC_OK, "");
    t.token = sign_as(&t, secret, "r", now - 1);
    read_key(&t, "a", RPC_INVALID_ARGUMENT, "etcdserver: revision of auth store is old");
    t.token = sign_as(&t, secret, "nobody", now);
    read_key(&t, "a", RPC_PERMISSION_DENIED, denied);
    t.token = sign_as(&t, other, "root", now);
    read_key(&t, "a", RPC_UNAUTHENTICATED, "etcdserver: invalid auth token");

    jwt_close(other);
    jwt_close(secret);
    counter_close(&t);
}

TEST(with_a_public_key_alone_jwts_are_verified_and_none_is_given_out)
{
    struct auth_counter t;
    struct jwt_keys keys;
    jwt_keys_make(JWT_ES256, &keys);
    struct jwt *elsewhere = open_jwt(JWT_ES256, bytes_of(NULL, 0), buf_bytes(&keys.private_key));
    api_rig_jwt = open_jwt(JWT_ES256, buf_bytes(&keys.public_key), bytes_of(NULL, 0));
    counter_open(&t);
    t.k.facts.unix_seconds = JWT_NOW_S;

    fail_to_log_in(&t, "r", BYTES("pw"), RPC_UNKNOWN,
                   "auth: token signing attempted with verify-only key");
    fail_to_log_in(&t, "r", BYTES("wrong"), RPC_INVALID_ARGUMENT,
                   "etcdserver: authentication failed, invalid user ID or password");
    t.token = sign_as(&t, elsewhere, "r", auth_revision(t.k.apply_rig.auth));
    read_key(&t, "a", RPC_OK, "");

    jwt_close(elsewhere);
    jwt_keys_free(&keys);
    counter_close(&t);
}

/* What a token's holder may do is looked up each time. */
TEST(a_change_of_roles_counts_at_once_and_keeps_the_token)
{
    struct auth_counter t;
    counter_open(&t);
    const char *root = log_in(&t, "root", "pw"), *n = log_in(&t, "n", "pw");

    t.token = n;
    read_key(&t, "a", RPC_PERMISSION_DENIED, denied);
    t.token = root;
    grant_role(&t, "n", "r");
    t.token = n;
    read_key(&t, "a", RPC_OK, "");
    t.token = root;
    do_it(&t, "/etcdserverpb.Auth/RoleDelete", &pb_auth_role_delete_request_schema,
          &(struct pb_auth_role_name){.role = BYTES("r")});
    t.token = n;
    read_key(&t, "a", RPC_PERMISSION_DENIED, denied);

    counter_close(&t);
}

/* A member that lags cannot know it yet. */
TEST(a_token_of_an_entry_that_is_to_come_is_waited_for)
{
    struct auth_counter t;
    struct visit v;
    struct pb_range_request range = {.key = BYTES("a"), .serializable = true};
    counter_open(&t);
    t.token = arena_printf(&t.arena, "abcdefghijklmnop.%llu",
                           (unsigned long long)t.k.facts.applied_index + 1);
    struct pb_internal_authenticate_request login = {.name = BYTES("r"),
                                                     .simple_token = BYTES("abcdefghijklmnop")};

    ask(&t, &v, "/etcdserverpb.KV/Range", &pb_range_request_schema, &range);
    api_rig_for_ms(&t.k, 1000);
    CHECK(!v.is_over);
    api_rig_apply(&t.k, &(struct pb_internal_raft_request){.authenticate = &login});
    api_rig_expect(&t.k, &v, RPC_OK, "");
    visit_free(&v);

    t.token = "abcdefghijklmnop.99999999";
    ask(&t, &v, "/etcdserverpb.KV/Range", &pb_range_request_schema, &range);
    api_rig_for_ms(&t.k, API_TOKEN_WAIT_MS + 500);
    CHECK(v.is_over);
    api_rig_expect(&t.k, &v, RPC_UNAUTHENTICATED, "etcdserver: invalid auth token");
    visit_free(&v);

    counter_close(&t);
}

TEST(passwords_that_are_too_long_are_refused_and_others_count_whole)
{
    struct auth_counter t;
    struct pb_auth_user_add_request add = {.name = BYTES("x")};
    uint8_t *long_one;
    counter_open(&t);
    t.token = log_in(&t, "root", "pw");
    long_one = arena_alloc(&t.arena, 100000);
    memset(long_one, 'x', 100000);

    add.password = bytes_of(long_one, 73);
    expect(&t, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema, &add, RPC_UNKNOWN,
           "bcrypt: password length exceeds 72 bytes");
    add.password = bytes_of(long_one, 100000);
    expect(&t, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema, &add, RPC_UNKNOWN,
           "bcrypt: password length exceeds 72 bytes");
    add.password = bytes_of(long_one, 72);
    do_it(&t, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema, &add);
    CHECK(log_in(&t, "x", arena_copy_str(&t.arena, bytes_of(long_one, 72))) != NULL);
    CHECK(log_in(&t, "x", arena_copy_str(&t.arena, bytes_of(long_one, 99999))) != NULL); /* as Go */
    add = (struct pb_auth_user_add_request){.name = BYTES("z"), .password = BYTES("pw\0x")};
    do_it(&t, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema, &add);
    fail_to_log_in(&t, "z", BYTES("pw"), RPC_INVALID_ARGUMENT,
                   "etcdserver: authentication failed, invalid user ID or password");
    do_it(&t, "/etcdserverpb.Auth/Authenticate", &pb_authenticate_request_schema,
          &(struct pb_authenticate_request){.name = BYTES("z"), .password = add.password});

    counter_close(&t);
}

/* What a call has found out about its token is not looked up again for a while, unless a token was
 * forgotten since. */
TEST(a_token_that_is_forgotten_while_a_read_is_confirmed_is_good_no_more)
{
    struct auth_counter t;
    struct pb_range_request range = {.key = BYTES("a")};
    struct visit v;
    counter_open(&t);
    t.token = log_in(&t, "r", "pw");

    for (int is_changed = 0; is_changed < 2; is_changed++) {
        t.k.is_slow = true;
        ask(&t, &v, "/etcdserverpb.KV/Range", &pb_range_request_schema, &range);
        api_rig_for_ms(&t.k, 10);
        CHECK(t.k.held_needs != NULL);
        t.k.is_slow = false;
        if (is_changed) /* an empty hash is nobody's password, but a change */
            api_rig_apply(
                &t.k, &(struct pb_internal_raft_request){
                          .auth_user_change_password =
                              &(struct pb_auth_user_change_password_request){.name = BYTES("r")}});
        api_rig_fulfil(&t.k);
        api_rig_expect(&t.k, &v, is_changed ? RPC_UNAUTHENTICATED : RPC_OK,
                       is_changed ? "etcdserver: invalid auth token" : "");
        visit_free(&v);
    }

    counter_close(&t);
}

/* The entries of a turn are applied one after the other, and what they bring about is taken then.
 */
TEST(a_user_may_change_while_his_password_is_about_to_be_compared_again)
{
    struct auth_counter t;
    struct visit v;
    struct pb_auth_user_grant_role_request grant = {.user = BYTES("r"), .role = BYTES("w")};
    struct pb_auth_user_revoke_role_request revoke = {.name = BYTES("r"), .role = BYTES("w")};
    counter_open(&t);

    t.k.is_slow = true;
    ask(&t, &v, "/etcdserverpb.Auth/Authenticate", &pb_authenticate_request_schema,
        &(struct pb_authenticate_request){.name = BYTES("r"), .password = BYTES("pw")});
    for (unsigned i = 0; i < 2; i++) { /* a quorum has said so, and the password is right */
        api_rig_for_ms(&t.k, 10);
        CHECK(t.k.held_needs != NULL);
        api_rig_fulfil(&t.k);
    }
    api_rig_for_ms(&t.k, 10);
    api_rig_apply(&t.k, &(struct pb_internal_raft_request){.auth_user_grant_role = &grant});
    api_rig_fulfil(&t.k); /* he has logged in; but users have changed */
    api_rig_apply(&t.k, &(struct pb_internal_raft_request){.auth_user_revoke_role = &revoke});
    t.k.is_slow = false;
    api_rig_expect(&t.k, &v, RPC_OK, "");

    visit_free(&v);
    counter_close(&t);
}

/* ---- Users and roles ---- */

TEST(only_root_changes_users_and_roles_and_others_see_themselves)
{
    struct auth_counter t;
    struct pb_roles_response roles;
    struct visit v;
    counter_open(&t);
    t.token = log_in(&t, "r", "pw");

    expect(&t, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema,
           &(struct pb_auth_user_add_request){.name = BYTES("x")}, RPC_PERMISSION_DENIED, denied);
    expect(&t, "/etcdserverpb.Auth/UserGrantRole", &pb_auth_user_grant_role_request_schema,
           &(struct pb_auth_user_grant_role_request){.user = BYTES("r"), .role = BYTES("root")},
           RPC_PERMISSION_DENIED, denied);
    expect(
        &t, "/etcdserverpb.Auth/UserChangePassword", &pb_auth_user_change_password_request_schema,
        &(struct pb_auth_user_change_password_request){.name = BYTES("r"), .password = BYTES("x")},
        RPC_PERMISSION_DENIED, denied);
    expect(&t, "/etcdserverpb.Auth/UserList", &pb_auth_user_list_request_schema,
           &(struct pb_empty){0}, RPC_PERMISSION_DENIED, denied);
    expect(&t, "/etcdserverpb.Auth/AuthDisable", &pb_auth_disable_request_schema,
           &(struct pb_empty){0}, RPC_PERMISSION_DENIED, denied);
    expect(&t, "/etcdserverpb.Auth/UserGet", &pb_auth_user_get_request_schema,
           &(struct pb_auth_name){.name = BYTES("root")}, RPC_PERMISSION_DENIED, denied);
    ask(&t, &v, "/etcdserverpb.Auth/UserGet", &pb_auth_user_get_request_schema,
        &(struct pb_auth_name){.name = BYTES("r")});
    api_rig_expect(&t.k, &v, RPC_OK, "");
    visit_decode(&v, 0, &pb_auth_user_get_response_schema, &t.arena, &roles);
    CHECK_EQ(roles.roles.count, 1);
    CHECK_BYTES(roles.roles.at[0], BYTES("r"));
    visit_free(&v);
    do_it(&t, "/etcdserverpb.Auth/RoleGet", &pb_auth_role_get_request_schema,
          &(struct pb_auth_role_name){.role = BYTES("r")});
    expect(&t, "/etcdserverpb.Auth/RoleGet", &pb_auth_role_get_request_schema,
           &(struct pb_auth_role_name){.role = BYTES("w")}, RPC_PERMISSION_DENIED, denied);

    counter_close(&t);
}

/*
 * ---- Published advisories of etcd ----
 *
 * All of those about auth, from 2018 on:
 *
 *     CVE-2018-16886                       a_certificate_names_its_user_but_not_through_the_gateway
 *     CVE-2020-15115  GHSA-4993-m7g5-r9hh  short_passwords_are_taken_and_compared_whole
 *                     GHSA-528j-9r78-wffx  no_password_goes_into_the_log
 *     GO-2024-2530                         who_has_no_password_is_refused_in_words_of_their_own
 *     CVE-2021-28235                       tests/interop/permission_test.c: check_secrets_are_kept
 *     CVE-2023-32082  GHSA-3p4g-rcw5-8298  members_alarms_leases_and_compactions_are_not_everybodys
 *     CVE-2026-33343  GHSA-rfx7-8w68-q57q  a_nested_transaction_reaches_no_further
 *     CVE-2026-33413  GHSA-q8m4-xhhv-38mg  members_alarms_leases_and_compactions_are_not_everybodys
 *     CVE-2026-44283  GHSA-x35m-3gp4-4fh5  a_put_in_a_transaction_reads_and_leases_no_more_...
 *     CVE-2026-73499  GHSA-xg4h-6gfc-h4m8  a_watcher_with_an_open_end_needs_all_of_it
 *
 * CVE-2020-15136, GHSA-h8g9-6gvh-5mrc and GHSA-j86v-2vjr-fg8f are about `etcd gateway`, a proxy
 * that is not here.
 */

/* GHSA-rfx7-8w68-q57q: nested transactions passed by every check of keys. */
TEST(a_nested_transaction_reaches_no_further)
{
    struct auth_counter t;
    struct pb_range_request range = {.key = BYTES("b")};
    struct pb_request_op get = {.which = PB_OP_RANGE, .range = &range};
    struct pb_txn_request inner = {.success = {.at = &get, .count = 1}};
    struct pb_request_op nest = {.which = PB_OP_TXN, .txn = &inner};
    struct pb_txn_request txn = {.success = {.at = &nest, .count = 1}};
    counter_open(&t);
    t.token = log_in(&t, "r", "pw");

    expect(&t, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn, RPC_PERMISSION_DENIED, denied);

    counter_close(&t);
}

/* GHSA-x35m-3gp4-4fh5, CVE-2026-44283: a put in a transaction that wants the previous value, or
 * that names a lease. */
TEST(a_put_in_a_transaction_reads_and_leases_no_more_than_one_outside)
{
    struct auth_counter t;
    struct pb_put_request put = {.key = BYTES("a"), .prev_kv = true};
    struct pb_request_op op = {.which = PB_OP_PUT, .put = &put};
    struct pb_txn_request txn = {.success = {.at = &op, .count = 1}};
    struct pb_lease_grant_request lease = {.id = 5, .ttl = 100};
    struct pb_put_request leased = {.key = BYTES("b"), .lease = 5};
    counter_open(&t);
    api_rig_apply(&t.k, &(struct pb_internal_raft_request){.lease_grant = &lease});
    api_rig_apply(&t.k, &(struct pb_internal_raft_request){.put = &leased});
    t.token = log_in(&t, "w", "pw");

    expect(&t, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put, RPC_PERMISSION_DENIED, denied);
    expect(&t, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn, RPC_PERMISSION_DENIED, denied);
    put = (struct pb_put_request){.key = BYTES("a"), .lease = 5};
    expect(&t, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put, RPC_PERMISSION_DENIED, denied);
    expect(&t, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn, RPC_PERMISSION_DENIED, denied);
    put.lease = 0;
    do_it(&t, "/etcdserverpb.KV/Txn", &pb_txn_request_schema, &txn);
    expect(&t, "/etcdserverpb.Lease/LeaseRevoke", &pb_lease_revoke_request_schema,
           &(struct pb_lease_id){5}, RPC_PERMISSION_DENIED, denied);
    expect(&t, "/etcdserverpb.Lease/LeaseKeepAlive", &pb_lease_keep_alive_request_schema,
           &(struct pb_lease_id){5}, RPC_PERMISSION_DENIED, denied);

    counter_close(&t);
}

static void watch_is_refused(struct auth_counter *t, const struct pb_watch_create_request *create,
                             const char *reason)
{
    struct pb_watch_request watch = {.which = PB_WATCH_CREATE, .create = create};
    struct pb_watch_response response;
    struct visit v;

    ask(t, &v, "/etcdserverpb.Watch/Watch", &pb_watch_request_schema, &watch);
    api_rig_until_messages(&t->k, &v, 1);
    visit_decode(&v, 0, &pb_watch_response_schema, &t->arena, &response);
    CHECK(response.created);
    CHECK_EQ(response.canceled, reason != NULL);
    CHECK_BYTES(response.cancel_reason, reason ? bytes_of_str(reason) : BYTES(""));
    visit_free(&v);
}

/* GHSA-xg4h-6gfc-h4m8: a watcher of everything from a key on, by who may read that key alone. */
TEST(a_watcher_with_an_open_end_needs_all_of_it)
{
    struct auth_counter t;
    const char *reason = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
    counter_open(&t);
    t.token = log_in(&t, "r", "pw");

    watch_is_refused(&t, &(struct pb_watch_create_request){.key = BYTES("a")}, NULL);
    watch_is_refused(
        &t, &(struct pb_watch_create_request){.key = BYTES("a"), .range_end = BYTES("\0")}, reason);
    watch_is_refused(
        &t, &(struct pb_watch_create_request){.key = BYTES("a"), .range_end = BYTES("b")}, reason);
    watch_is_refused(&t, &(struct pb_watch_create_request){.range_end = BYTES("\0")}, reason);
    t.token = "abcdefghijklmnop.1";
    watch_is_refused(&t, &(struct pb_watch_create_request){.key = BYTES("a")},
                     "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token");

    counter_close(&t);
}

/* GHSA-q8m4-xhhv-38mg: MemberList, Alarm, leases and compaction by nobody in particular; and
 * CVE-2023-32082, the keys of a lease by who may not read them. */
TEST(members_alarms_leases_and_compactions_are_not_everybodys)
{
    struct auth_counter t;
    const char *empty = "etcdserver: user name is empty";
    struct pb_lease_grant_request grant = {.id = 7, .ttl = 100}, lease = {.id = 5, .ttl = 100};
    struct pb_put_request leased = {.key = BYTES("b"), .lease = 5};
    struct pb_alarm_request look = {.action = PB_ALARM_GET};
    struct pb_alarm_request raise = {.action = PB_ALARM_ACTIVATE, .alarm = PB_ALARM_NOSPACE};
    struct pb_compaction_request compact = {.revision = 2};
    struct pb_lease_time_to_live_request time = {.id = 5}, keys = {.id = 5, .keys = true};
    counter_open(&t);
    api_rig_apply(&t.k, &(struct pb_internal_raft_request){.lease_grant = &lease});
    api_rig_apply(&t.k, &(struct pb_internal_raft_request){.put = &leased});

    for (int round = 0; round < 2; round++) {
        enum rpc_code code = round == 0 ? RPC_INVALID_ARGUMENT : RPC_OK;
        const char *text = round == 0 ? empty : "";
        enum rpc_code root_code = round == 0 ? RPC_INVALID_ARGUMENT : RPC_PERMISSION_DENIED;
        const char *root_text = round == 0 ? empty : denied;
        expect(&t, "/etcdserverpb.Cluster/MemberList", &pb_member_list_request_schema,
               &(struct pb_member_list_request){0}, code, text);
        expect(&t, "/etcdserverpb.Maintenance/Status", &pb_status_request_schema,
               &(struct pb_empty){0}, code, text);
        expect(&t, "/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema, &look, code, text);
        expect(&t, "/etcdserverpb.Maintenance/Alarm", &pb_alarm_request_schema, &raise, root_code,
               root_text);
        expect(&t, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema, &compact, root_code,
               root_text);
        expect(&t, "/etcdserverpb.Lease/LeaseGrant", &pb_lease_grant_request_schema, &grant, code,
               text);
        expect(&t, "/etcdserverpb.Lease/LeaseTimeToLive", &pb_lease_time_to_live_request_schema,
               &time, code, text);
        expect(&t, "/etcdserverpb.Lease/LeaseTimeToLive", &pb_lease_time_to_live_request_schema,
               &keys, root_code, root_text);
        expect(&t, "/etcdserverpb.Lease/LeaseLeases", &pb_lease_leases_request_schema,
               &(struct pb_empty){0}, root_code, root_text);
        expect(&t, "/etcdserverpb.Lease/LeaseRevoke", &pb_lease_revoke_request_schema,
               &(struct pb_lease_id){5}, root_code, root_text);
        t.token = log_in(&t, "r", "pw");
    }
    t.token = log_in(&t, "root", "pw");
    do_it(&t, "/etcdserverpb.Lease/LeaseTimeToLive", &pb_lease_time_to_live_request_schema, &keys);
    do_it(&t, "/etcdserverpb.Lease/LeaseLeases", &pb_lease_leases_request_schema,
          &(struct pb_empty){0});
    do_it(&t, "/etcdserverpb.Lease/LeaseRevoke", &pb_lease_revoke_request_schema,
          &(struct pb_lease_id){5});
    do_it(&t, "/etcdserverpb.KV/Compact", &pb_compaction_request_schema, &compact);

    counter_close(&t);
}

/* CVE-2020-15115, GHSA-4993-m7g5-r9hh: there is no shortest password. etcd has left it to whoever
 * sets them, and so do we; what counts is that a short one is compared whole. */
TEST(short_passwords_are_taken_and_compared_whole)
{
    struct auth_counter t;
    const char *text = "etcdserver: authentication failed, invalid user ID or password";
    counter_open(&t);
    t.token = log_in(&t, "root", "pw");
    add_user(&t, "x", "1");
    add_user(&t, "y", "");

    CHECK(log_in(&t, "x", "1") != NULL);
    fail_to_log_in(&t, "x", BYTES(""), RPC_INVALID_ARGUMENT, text);
    fail_to_log_in(&t, "x", BYTES("11"), RPC_INVALID_ARGUMENT, text);
    CHECK(log_in(&t, "y", "") != NULL);
    fail_to_log_in(&t, "y", BYTES("1"), RPC_INVALID_ARGUMENT, text);

    counter_close(&t);
}

static void keep_log_line(void *context, struct bytes line)
{
    buf_append(context, line);
}

/* GO-2024-2530: it was not to be seen in the log why those who have a certificate alone failed. */
TEST(who_has_no_password_is_refused_in_words_of_their_own)
{
    struct auth_counter t;
    struct pb_user_add_options no_password = {.no_password = true};
    counter_open(&t);
    t.token = log_in(&t, "root", "pw");
    do_it(&t, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema,
          &(struct pb_auth_user_add_request){.name = BYTES("cert"), .options = &no_password});
    static const char *const passwords[] = {"", "pw"};
    struct buf logged = {0};
    t.k.logger.level = LOG_WARN;
    t.k.logger.sink = keep_log_line;
    t.k.logger.sink_context = &logged;

    for (size_t i = 0; i < ARRAY_LEN(passwords); i++) {
        buf_clear(&logged);
        fail_to_log_in(&t, "cert", bytes_of_str(passwords[i]), RPC_UNKNOWN,
                       "auth: authentication failed, password was given for no password user");
        CHECK(strstr(buf_str(&logged), "password was given for no password user"));
        CHECK(strstr(buf_str(&logged), "\"cert\""));
    }

    buf_free(&logged);
    counter_close(&t);
}

/* GHSA-528j-9r78-wffx: passwords were in the log that is replicated, and on disk. */
TEST(no_password_goes_into_the_log)
{
    struct auth_counter t;
    struct apply_rig *rig = &t.k.apply_rig;
    counter_open(&t);
    t.token = log_in(&t, "root", "pw");
    add_user(&t, "x", "correct horse");
    do_it(&t, "/etcdserverpb.Auth/UserChangePassword", &pb_auth_user_change_password_request_schema,
          &(struct pb_auth_user_change_password_request){.name = BYTES("x"),
                                                         .password = BYTES("battery staple")});
    (void)log_in(&t, "x", "battery staple");

    for (size_t i = 0; i < rig->log_count; i++) {
        struct bytes data = rig->log[i].data;
        CHECK(!memmem(data.at, data.len, "horse", 5));
        CHECK(!memmem(data.at, data.len, "staple", 6));
    }

    counter_close(&t);
}

/* ---- Certificates ---- */

/* A serializable read of "a", as rpc would hand it on from a connection with this certificate. */
static enum rpc_code read_by_certificate(struct auth_counter *t, const char *name,
                                         bool through_gateway, struct buf *text)
{
    struct pb_range_request range = {.key = BYTES("a"), .serializable = true};
    struct rpc_event e = {.kind = RPC_MESSAGE,
                          .is_first = true,
                          .call = ++t->certificate_calls << 32 | 900,
                          .method = API_KV_RANGE,
                          .client_api_version_is_utf8 = true,
                          .has_certificate = name != NULL,
                          .through_gateway = through_gateway};
    struct rpc_event gone = {.kind = RPC_GONE, .call = e.call};
    struct rpc_reply reply;

    pb_encode_range_request(&range, &e.content);
    e.message.len = (uint32_t)e.content.len;
    if (name) {
        e.cn = (struct rpc_span){e.message.len, (uint32_t)strlen(name)};
        buf_append_str(&e.content, name);
    }
    api_event(t->k.api, &e);
    api_work(t->k.api, 1000);
    CHECK(rpc_line_take_reply(t->k.line, &reply));
    buf_clear(text);
    enum rpc_code code = RPC_OK;
    if (reply.kind == RPC_REPLY_FINISH) {
        code = (enum rpc_code)reply.code;
        buf_append(text, buf_bytes(&reply.content));
    }
    buf_free(&reply.content);
    api_event(t->k.api, &gone);
    return code;
}

/* CVE-2018-16886: the gateway shows the server's own certificate, and whoever came through it was
 * the user that this one names. */
TEST(a_certificate_names_its_user_but_not_through_the_gateway)
{
    struct auth_counter t;
    struct buf text = {0};
    api_rig_options.client_cert_auth = true;
    counter_open(&t);

    CHECK_EQ(read_by_certificate(&t, "r", false, &text), RPC_OK);
    CHECK_EQ(read_by_certificate(&t, "w", false, &text), RPC_PERMISSION_DENIED);
    CHECK_EQ(read_by_certificate(&t, "nobody", false, &text), RPC_PERMISSION_DENIED);
    CHECK_EQ(read_by_certificate(&t, "", false, &text), RPC_PERMISSION_DENIED);
    CHECK_EQ(read_by_certificate(&t, "root", true, &text), RPC_INVALID_ARGUMENT);
    CHECK_STR(buf_str(&text), "etcdserver: user name is empty");
    CHECK_EQ(read_by_certificate(&t, NULL, false, &text), RPC_INVALID_ARGUMENT);

    buf_free(&text);
    counter_close(&t);
    api_rig_options.client_cert_auth = false;
}

/* What is put into the log must be understood by everybody who reads it. */
TEST(a_name_that_is_no_text_does_not_get_into_the_log)
{
    struct auth_counter t;
    struct pb_put_request put = {.key = BYTES("a"), .value = BYTES("x")};
    struct bytes name = BYTES("M\xfcller");
    api_rig_options.client_cert_auth = true;
    counter_open(&t);
    struct rpc_event e = {.kind = RPC_MESSAGE,
                          .is_first = true,
                          .call = 1ull << 32 | 900,
                          .method = API_KV_PUT,
                          .client_api_version_is_utf8 = true,
                          .has_certificate = true};
    struct rpc_event gone = {.kind = RPC_GONE, .call = e.call};

    pb_encode_put_request(&put, &e.content);
    e.message.len = (uint32_t)e.content.len;
    e.cn = (struct rpc_span){e.message.len, (uint32_t)name.len};
    buf_append(&e.content, name);
    api_event(t.k.api, &e);
    api_rig_for_ms(&t.k, 100);

    api_event(t.k.api, &gone);
    counter_close(&t);
    api_rig_options.client_cert_auth = false;
}

/* A follower may not know yet which keys its leader tells of. */
TEST(keys_of_a_lease_that_the_leader_tells_are_for_who_may_read_them)
{
    struct auth_counter t;
    struct bytes keys[] = {BYTES("a"), BYTES("b")};
    struct pb_lease_time_to_live_response told = {.id = 7, .ttl = 40, .keys = {keys, 2}};
    counter_open(&t);
    t.token = log_in(&t, "r", "pw"); /* who may read a, and not b */
    t.k.facts.is_leader = false;
    t.k.facts.leader = 0x99;
    lease_demote(t.k.apply_rig.leases);

    t.k.leader_says = &(struct api_forwarded){.response = &told};
    expect(&t, "/etcdserverpb.Lease/LeaseTimeToLive", &pb_lease_time_to_live_request_schema,
           &(struct pb_lease_time_to_live_request){.id = 7, .keys = true}, RPC_PERMISSION_DENIED,
           denied);

    counter_close(&t);
}

/* It would end members that run etcd, and could not be exported. */
TEST(names_of_new_users_and_roles_are_bounded)
{
    struct auth_counter t;
    static uint8_t name[AUTH_NAME_BYTES_MAX + 1];
    struct bytes longest = bytes_of(name, AUTH_NAME_BYTES_MAX);
    struct bytes too_long = bytes_of(name, sizeof(name));
    memset(name, 'n', sizeof(name));
    counter_open(&t);
    t.token = log_in(&t, "root", "pw");

    do_it(&t, "/etcdserverpb.Auth/RoleAdd", &pb_auth_role_add_request_schema,
          &(struct pb_auth_name){.name = longest});
    expect(&t, "/etcdserverpb.Auth/RoleAdd", &pb_auth_role_add_request_schema,
           &(struct pb_auth_name){.name = too_long}, RPC_INVALID_ARGUMENT,
           "etcdserver: request is too large");
    expect(&t, "/etcdserverpb.Auth/UserAdd", &pb_auth_user_add_request_schema,
           &(struct pb_auth_user_add_request){.name = too_long, .password = BYTES("pw")},
           RPC_INVALID_ARGUMENT, "etcdserver: request is too large");

    counter_close(&t);
}

TEST(without_client_cert_auth_a_certificate_is_nobodys)
{
    struct auth_counter t;
    struct buf text = {0};
    counter_open(&t);

    CHECK_EQ(read_by_certificate(&t, "root", false, &text), RPC_INVALID_ARGUMENT);

    buf_free(&text);
    counter_close(&t);
}
