#include "auth/auth_int.h"
#include "backend/backend_rig_test.h"
#include "base/base64.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness/test.h"

#include <stdio.h>

/* ---- The rig: tables on a store of its own, and leases with a few keys ---- */

struct lease_key {
    int64_t lease;
    const char *key;
};

struct auth_rig {
    struct backend_rig store;
    struct auth *auth;
    struct lease_key keys[8]; /* in order of lease and key */
    size_t key_count;
};

static bool next_key(const void *leases, int64_t id, struct bytes from, struct bytes *key)
{
    const struct auth_rig *r = leases;

    for (size_t i = 0; i < r->key_count; i++)
        if (r->keys[i].lease == id && bytes_compare(bytes_of_str(r->keys[i].key), from) >= 0) {
            *key = bytes_of_str(r->keys[i].key);
            return true;
        }
    return false;
}

static void rig_open_tables(struct auth_rig *r)
{
    struct buf why = {0};

    CHECK_EQ(auth_open(r->store.b, &why, &r->auth), ERR_OK);
    auth_use_leases(r->auth, &(struct auth_leases){.next_key = next_key, .leases = r});
    buf_free(&why);
}

static void rig_open(struct auth_rig *r)
{
    *r = (struct auth_rig){0};
    backend_rig_init(&r->store, BACKEND_RIG_MEMORY);
    CHECK_EQ(backend_rig_open(&r->store), ERR_OK);
    rig_open_tables(r);
}

static void rig_reopen(struct auth_rig *r)
{
    auth_close(r->auth);
    rig_open_tables(r);
}

static void rig_close(struct auth_rig *r)
{
    auth_check(r->auth);
    auth_close(r->auth);
    backend_rig_close(&r->store);
    backend_rig_free(&r->store);
}

static enum auth_result add_user(struct auth_rig *r, const char *name)
{
    return auth_user_add(r->auth,
                         &(struct pb_auth_user_add_request){.name = bytes_of_str(name),
                                                            .hashed_password = BYTES("aGFzaA==")});
}

static enum auth_result grant_role(struct auth_rig *r, const char *user, const char *role)
{
    return auth_user_grant_role(r->auth, bytes_of_str(user), bytes_of_str(role));
}

static struct bytes end_of(const char *text)
{
    return strcmp(text, "*") == 0 ? BYTES("\0") : bytes_of_str(text);
}

static enum auth_result permit(struct auth_rig *r, const char *role, int32_t type, const char *key,
                               const char *end)
{
    struct pb_permission p = {.type = type, .key = bytes_of_str(key), .range_end = end_of(end)};

    return auth_role_grant_permission(r->auth, &(struct pb_auth_role_grant_permission_request){
                                                   .name = bytes_of_str(role), .perm = &p});
}

static void enable(struct auth_rig *r)
{
    CHECK_EQ(add_user(r, "root"), AUTH_OK);
    CHECK_EQ(grant_role(r, "root", "root"), AUTH_OK);
    CHECK_EQ(auth_enable(r->auth), AUTH_OK);
}

/* A user with one role of the same name. */
static void add_with_role(struct auth_rig *r, const char *name)
{
    CHECK_EQ(add_user(r, name), AUTH_OK);
    CHECK_EQ(auth_role_add(r->auth, bytes_of_str(name)), AUTH_OK);
    CHECK_EQ(grant_role(r, name, name), AUTH_OK);
}

static struct identity as(const struct auth_rig *r, const char *user)
{
    return (struct identity){
        .is_known = true, .user = bytes_of_str(user), .auth_revision = auth_revision(r->auth)};
}

static enum auth_result decide(struct auth_rig *r, const char *user, enum auth_rule rule,
                               const void *request)
{
    struct identity who = as(r, user);

    return auth_decide(r->auth, &who, rule, request);
}

static enum auth_result read_as(struct auth_rig *r, const char *user, const char *key,
                                const char *end)
{
    return decide(r, user, RULE_READ_RANGE,
                  &(struct pb_range_request){.key = bytes_of_str(key), .range_end = end_of(end)});
}

/* ---- Tables ---- */

TEST(changes_of_users_and_roles_are_refused_in_etcds_order)
{
    struct auth_rig r;
    rig_open(&r);

    CHECK_EQ(auth_enable(r.auth), AUTH_ROOT_USER_NOT_EXIST);
    CHECK_EQ(add_user(&r, ""), AUTH_USER_EMPTY);
    CHECK_EQ(add_user(&r, "root"), AUTH_OK);
    CHECK_EQ(add_user(&r, "root"), AUTH_USER_ALREADY_EXIST);
    CHECK_EQ(auth_enable(r.auth), AUTH_ROOT_ROLE_NOT_EXIST);
    CHECK_EQ(grant_role(&r, "nobody", "nothing"), AUTH_USER_NOT_FOUND);
    CHECK_EQ(grant_role(&r, "root", "nothing"), AUTH_ROLE_NOT_FOUND);
    CHECK_EQ(grant_role(&r, "root", "root"), AUTH_OK); /* which need not exist */
    CHECK_EQ(auth_revision(r.auth), 3);
    CHECK_EQ(grant_role(&r, "root", "root"), AUTH_OK);
    CHECK_EQ(auth_revision(r.auth), 3); /* nothing has changed */
    CHECK_EQ(auth_user_revoke_role(r.auth, BYTES("nobody"), BYTES("x")), AUTH_USER_NOT_FOUND);
    CHECK_EQ(auth_user_revoke_role(r.auth, BYTES("root"), BYTES("x")), AUTH_ROLE_NOT_GRANTED);

    CHECK_EQ(auth_role_add(r.auth, BYTES("")), AUTH_ROLE_EMPTY);
    CHECK_EQ(auth_role_add(r.auth, BYTES("r")), AUTH_OK);
    CHECK_EQ(auth_role_add(r.auth, BYTES("r")), AUTH_ROLE_ALREADY_EXIST);
    CHECK_EQ(auth_role_grant_permission(
                 r.auth, &(struct pb_auth_role_grant_permission_request){.name = BYTES("x")}),
             AUTH_PERMISSION_NOT_GIVEN);
    CHECK_EQ(permit(&r, "x", PB_PERMISSION_READ, "", ""), AUTH_INVALID_MANAGEMENT);
    CHECK_EQ(permit(&r, "x", PB_PERMISSION_READ, "b", "a"), AUTH_INVALID_MANAGEMENT);
    CHECK_EQ(permit(&r, "x", PB_PERMISSION_READ, "b", "b"), AUTH_INVALID_MANAGEMENT);
    CHECK_EQ(permit(&r, "x", PB_PERMISSION_READ, "b", "*"), AUTH_ROLE_NOT_FOUND);
    CHECK_EQ(permit(&r, "r", PB_PERMISSION_READ, "b", "*"), AUTH_OK);
    CHECK_EQ(auth_role_revoke_permission(
                 r.auth, &(struct pb_auth_role_revoke_permission_request){.role = BYTES("r"),
                                                                          .key = BYTES("b")}),
             AUTH_PERMISSION_NOT_GRANTED);
    CHECK_EQ(auth_role_revoke_permission(
                 r.auth, &(struct pb_auth_role_revoke_permission_request){.role = BYTES("x"),
                                                                          .key = BYTES("b")}),
             AUTH_ROLE_NOT_FOUND);

    CHECK_EQ(auth_revision(r.auth), 5);
    CHECK_EQ(auth_enable(r.auth), AUTH_OK);
    CHECK_EQ(auth_enable(r.auth), AUTH_OK);
    CHECK_EQ(auth_revision(r.auth), 5);
    auth_disable(r.auth);
    CHECK_EQ(auth_revision(r.auth), 6);
    auth_disable(r.auth);
    CHECK_EQ(auth_revision(r.auth), 6);

    rig_close(&r);
}

TEST(root_cannot_be_taken_away_while_auth_is_enabled)
{
    struct auth_rig r;
    rig_open(&r);
    CHECK_EQ(auth_role_add(r.auth, BYTES("root")), AUTH_OK);
    enable(&r);

    CHECK_EQ(auth_user_delete(r.auth, BYTES("root")), AUTH_INVALID_MANAGEMENT);
    CHECK_EQ(auth_role_delete(r.auth, BYTES("root")), AUTH_INVALID_MANAGEMENT);
    CHECK_EQ(auth_user_revoke_role(r.auth, BYTES("root"), BYTES("root")), AUTH_INVALID_MANAGEMENT);
    auth_disable(r.auth);
    CHECK_EQ(auth_role_delete(r.auth, BYTES("root")), AUTH_OK); /* from all users, too */
    CHECK_EQ(auth_user(r.auth, BYTES("root"))->roles.count, 0);
    CHECK_EQ(auth_user_delete(r.auth, BYTES("root")), AUTH_OK);
    CHECK_EQ(auth_user_delete(r.auth, BYTES("root")), AUTH_USER_NOT_FOUND);
    CHECK_EQ(auth_role_delete(r.auth, BYTES("root")), AUTH_ROLE_NOT_FOUND);

    rig_close(&r);
}

static void check_stored(struct auth_rig *r, enum bucket bucket, struct bytes key,
                         struct bytes expected)
{
    struct backend_view v;
    struct bytes value;

    backend_view_open(r->store.b, &v);
    CHECK_EQ(backend_get(&v, bucket, key, &value), ERR_OK);
    CHECK_BYTES(value, expected);
    backend_view_close(&v);
}

TEST(the_tables_lie_in_the_store_as_etcd_writes_them)
{
    struct auth_rig r;
    rig_open(&r);
    CHECK_EQ(add_user(&r, "alice"), AUTH_OK);
    CHECK_EQ(auth_role_add(r.auth, BYTES("w")), AUTH_OK);
    CHECK_EQ(auth_role_add(r.auth, BYTES("a")), AUTH_OK);
    CHECK_EQ(grant_role(&r, "alice", "w"), AUTH_OK);
    CHECK_EQ(grant_role(&r, "alice", "a"), AUTH_OK);
    CHECK_EQ(permit(&r, "w", PB_PERMISSION_READWRITE, "k", "l"), AUTH_OK);
    CHECK_EQ(permit(&r, "w", PB_PERMISSION_READ, "b", ""), AUTH_OK);
    enable(&r);

    check_stored(&r, BUCKET_AUTH, BYTES("authEnabled"), BYTES("\1"));
    check_stored(&r, BUCKET_AUTH, BYTES("authRevision"), BYTES("\0\0\0\0\0\0\0\012"));
    check_stored(&r, BUCKET_AUTH_USERS, BYTES("alice"),
                 BYTES("\n\5alice\022\4hash\032\1a\032\1w\"\0"));
    check_stored(&r, BUCKET_AUTH_ROLES, BYTES("w"),
                 BYTES("\n\1w\022\3\022\1b\022\010\010\2\022\1k\032\1l"));
    rig_reopen(&r);
    CHECK(auth_is_enabled(r.auth));
    CHECK_EQ(auth_revision(r.auth), 10);
    CHECK_EQ(read_as(&r, "alice", "kk", ""), AUTH_OK);
    CHECK_EQ(read_as(&r, "alice", "l", ""), AUTH_PERMISSION_DENIED);
    CHECK_BYTES(auth_nth_user(r.auth, 0)->name, BYTES("alice"));
    CHECK_BYTES(auth_nth_role(r.auth, 1)->name, BYTES("w"));
    CHECK(!auth_nth_user(r.auth, 2));

    rig_close(&r);
}

TEST(a_table_that_cannot_be_understood_is_corruption)
{
    struct auth_rig r;
    struct buf why = {0};
    struct auth *none;
    rig_open(&r);
    backend_put(r.store.b, BUCKET_AUTH_USERS, BYTES("x"), BYTES("\n\1y"));

    CHECK_EQ(auth_open(r.store.b, &why, &none), ERR_CORRUPT);
    CHECK_STR(buf_str(&why), "bucket authUsers: a record cannot be understood");

    buf_free(&why);
    rig_close(&r);
}

/* A hash that is none is etcd's error for another thing. */
TEST(a_password_is_kept_as_the_request_has_hashed_it)
{
    struct auth_rig r;
    struct pb_user_add_options no_password = {.no_password = true};
    struct pb_auth_user_add_request add = {.name = BYTES("a"), .hashed_password = BYTES("a")};
    rig_open(&r);

    CHECK_EQ(auth_user_add(r.auth, &add), AUTH_NO_PASSWORD_USER);
    CHECK_EQ(auth_revision(r.auth), 1);
    add.options = &no_password;
    CHECK_EQ(auth_user_add(r.auth, &add), AUTH_OK);
    CHECK_EQ(auth_may_log_in(r.auth, BYTES("a")), AUTH_NOT_ENABLED);
    enable(&r);
    CHECK_EQ(auth_may_log_in(r.auth, BYTES("a")), AUTH_NO_PASSWORD_USER);
    CHECK_EQ(auth_may_log_in(r.auth, BYTES("b")), AUTH_FAILED);
    CHECK_EQ(auth_may_log_in(r.auth, BYTES("root")), AUTH_OK);
    struct pb_auth_user_change_password_request change = {.name = BYTES("root"),
                                                          .hashed_password = BYTES("bmV3")};
    CHECK_EQ(auth_user_change_password(r.auth, &change), AUTH_OK);
    CHECK_BYTES(auth_user(r.auth, BYTES("root"))->password, BYTES("new"));
    CHECK_EQ(auth_user(r.auth, BYTES("root"))->roles.count, 1);
    change.name = BYTES("a");
    CHECK_EQ(auth_user_change_password(r.auth, &change), AUTH_OK);
    CHECK_EQ(auth_user(r.auth, BYTES("a"))->password.len, 0);

    rig_close(&r);
}

/* ---- Decisions ---- */

TEST(who_nobody_knows_who_is_outdated_and_who_is_gone_hear_it_in_this_order)
{
    struct auth_rig r;
    struct pb_range_request a = {.key = BYTES("a")};
    struct identity nobody = {0}, old, gone;
    rig_open(&r);
    add_with_role(&r, "alice");
    CHECK_EQ(auth_decide(r.auth, &nobody, RULE_READ_RANGE, &a), AUTH_OK); /* it is disabled */
    enable(&r);
    old = gone = as(&r, "alice");
    old.auth_revision--;
    gone.user = BYTES("gone");

    CHECK_EQ(auth_decide(r.auth, &nobody, RULE_READ_RANGE, &a), AUTH_USER_EMPTY);
    CHECK_EQ(auth_decide(r.auth, &old, RULE_READ_RANGE, &a), AUTH_OLD_REVISION);
    CHECK_EQ(auth_decide(r.auth, &gone, RULE_READ_RANGE, &a), AUTH_PERMISSION_DENIED);
    CHECK_EQ(read_as(&r, "alice", "a", ""), AUTH_PERMISSION_DENIED);
    CHECK_EQ(read_as(&r, "root", "a", "*"), AUTH_OK);
    old.user = BYTES("root");
    CHECK_EQ(auth_decide(r.auth, &old, RULE_READ_RANGE, &a), AUTH_OLD_REVISION);
    CHECK_EQ(auth_decide(r.auth, &old, RULE_ROOT, NULL), AUTH_OK); /* but not for this */
    CHECK_EQ(auth_decide(r.auth, &nobody, RULE_ROOT, NULL), AUTH_USER_EMPTY);
    CHECK_EQ(auth_decide(r.auth, &gone, RULE_ROOT, NULL), AUTH_USER_NOT_FOUND);
    CHECK_EQ(decide(&r, "alice", RULE_ROOT, NULL), AUTH_PERMISSION_DENIED);
    CHECK_EQ(auth_decide(r.auth, &nobody, RULE_ANY_USER, NULL), AUTH_USER_EMPTY);
    CHECK_EQ(auth_decide(r.auth, &gone, RULE_ANY_USER, NULL), AUTH_OK);
    CHECK_EQ(auth_decide(r.auth, &nobody, RULE_ANYBODY, NULL), AUTH_OK);
    CHECK(auth_is_outdated(r.auth, &old));
    CHECK(!auth_is_outdated(r.auth, &nobody));

    rig_close(&r);
}

TEST(ranges_of_several_roles_are_one)
{
    struct auth_rig r;
    rig_open(&r);
    add_with_role(&r, "u");
    CHECK_EQ(auth_role_add(r.auth, BYTES("v")), AUTH_OK);
    CHECK_EQ(grant_role(&r, "u", "v"), AUTH_OK);
    CHECK_EQ(permit(&r, "u", PB_PERMISSION_READ, "a", "c"), AUTH_OK);
    CHECK_EQ(permit(&r, "v", PB_PERMISSION_READWRITE, "c", ""), AUTH_OK);
    CHECK_EQ(permit(&r, "v", PB_PERMISSION_READ, "x", "*"), AUTH_OK);
    enable(&r);

    CHECK_EQ(read_as(&r, "u", "a", "c"), AUTH_OK);
    CHECK_EQ(read_as(&r, "u", "b", "c\1"), AUTH_PERMISSION_DENIED);
    struct pb_range_request to_c0 = {.key = BYTES("b"), .range_end = BYTES("c\0")};
    CHECK_EQ(decide(&r, "u", RULE_READ_RANGE, &to_c0), AUTH_OK);
    CHECK_EQ(read_as(&r, "u", "x", "*"), AUTH_OK);
    CHECK_EQ(read_as(&r, "u", "y", "z"), AUTH_OK);
    CHECK_EQ(read_as(&r, "u", "a", "*"), AUTH_PERMISSION_DENIED);
    CHECK_EQ(read_as(&r, "u", "z", "d"), AUTH_OK);                /* which is empty */
    CHECK_EQ(read_as(&r, "u", "z", "a"), AUTH_PERMISSION_DENIED); /* and so is this: tree.c */
    struct pb_put_request put = {.key = BYTES("c")};
    CHECK_EQ(decide(&r, "u", RULE_WRITE_KEY, &put), AUTH_OK);
    put.key = BYTES("b");
    CHECK_EQ(decide(&r, "u", RULE_WRITE_KEY, &put), AUTH_PERMISSION_DENIED);
    CHECK_EQ(auth_user_revoke_role(r.auth, BYTES("u"), BYTES("v")), AUTH_OK);
    CHECK_EQ(read_as(&r, "u", "x", ""), AUTH_PERMISSION_DENIED);

    rig_close(&r);
}

/* Whoever wants the previous value reads, whoever names a lease may
 * have its keys deleted. */
/* What was merged for a user looks into roles that are freed when they are changed. */
TEST(permissions_merged_before_a_change_are_not_looked_at_after_it)
{
    struct auth_rig r;
    rig_open(&r);
    enable(&r);
    add_with_role(&r, "a");
    for (char key[] = "k0"; key[1] <= '9'; key[1]++)
        CHECK_EQ(permit(&r, "a", PB_PERMISSION_READ, key, ""), AUTH_OK);

    CHECK_EQ(read_as(&r, "a", "k5", ""), AUTH_OK);
    CHECK_EQ(auth_role_revoke_permission(
                 r.auth, &(struct pb_auth_role_revoke_permission_request){.role = BYTES("a"),
                                                                          .key = BYTES("k5")}),
             AUTH_OK);

    auth_check(r.auth);
    CHECK_EQ(read_as(&r, "a", "k5", ""), AUTH_PERMISSION_DENIED);
    CHECK_EQ(read_as(&r, "a", "k6", ""), AUTH_OK);
    rig_close(&r);
}

TEST(options_that_reach_further_need_permission_for_it)
{
    struct auth_rig r;
    rig_open(&r);
    add_with_role(&r, "w");
    CHECK_EQ(permit(&r, "w", PB_PERMISSION_WRITE, "a", "c"), AUTH_OK);
    enable(&r);
    r.keys[0] = (struct lease_key){7, "a"};
    r.keys[1] = (struct lease_key){7, "b"};
    r.keys[2] = (struct lease_key){8, "a"};
    r.keys[3] = (struct lease_key){8, "x"};
    r.key_count = 4;

    struct pb_put_request put = {.key = BYTES("a"), .lease = 7};
    CHECK_EQ(decide(&r, "w", RULE_WRITE_KEY, &put), AUTH_OK);
    put.lease = 8;
    CHECK_EQ(decide(&r, "w", RULE_WRITE_KEY, &put), AUTH_PERMISSION_DENIED);
    put.lease = 9; /* which does not exist, and that is found out later */
    CHECK_EQ(decide(&r, "w", RULE_WRITE_KEY, &put), AUTH_OK);
    put.prev_kv = true;
    CHECK_EQ(decide(&r, "w", RULE_WRITE_KEY, &put), AUTH_PERMISSION_DENIED);
    struct pb_delete_range_request gone = {.key = BYTES("a"), .range_end = BYTES("c")};
    CHECK_EQ(decide(&r, "w", RULE_WRITE_RANGE, &gone), AUTH_OK);
    gone.prev_kv = true;
    CHECK_EQ(decide(&r, "w", RULE_WRITE_RANGE, &gone), AUTH_PERMISSION_DENIED);
    CHECK_EQ(decide(&r, "w", RULE_WRITE_LEASE, &(struct pb_lease_id){7}), AUTH_OK);
    CHECK_EQ(decide(&r, "w", RULE_WRITE_LEASE, &(struct pb_lease_id){8}), AUTH_PERMISSION_DENIED);
    CHECK_EQ(decide(&r, "w", RULE_LEASE_KEYS, &(struct pb_lease_id){8}), AUTH_PERMISSION_DENIED);
    struct pb_lease_time_to_live_request question = {.id = 7};
    CHECK_EQ(decide(&r, "w", RULE_READ_LEASE, &question), AUTH_OK);
    question.keys = true;
    CHECK_EQ(decide(&r, "w", RULE_READ_LEASE, &question), AUTH_PERMISSION_DENIED);
    CHECK_EQ(decide(&r, "root", RULE_READ_LEASE, &question), AUTH_OK);
    CHECK_EQ(permit(&r, "w", PB_PERMISSION_READ, "a", "*"), AUTH_OK);
    CHECK_EQ(decide(&r, "w", RULE_READ_LEASE, &question), AUTH_OK);
    struct identity nobody = {0};
    CHECK_EQ(auth_decide(r.auth, &nobody, RULE_LEASE_KEYS, &(struct pb_lease_id){8}),
             AUTH_USER_EMPTY);
    CHECK_EQ(auth_decide(r.auth, &nobody, RULE_LEASE_KEYS, &(struct pb_lease_id){9}), AUTH_OK);
    CHECK_EQ(auth_decide(r.auth, &nobody, RULE_READ_LEASE, &question), AUTH_USER_EMPTY);

    rig_close(&r);
}

/* In the compares, in either branch, at any depth. */
TEST(a_transaction_needs_permission_for_everything_in_it)
{
    struct auth_rig r;
    struct pb_put_request put_a = {.key = BYTES("a")}, put_x = {.key = BYTES("x")};
    struct pb_request_op good = {.which = PB_OP_PUT, .put = &put_a};
    struct pb_request_op bad = {.which = PB_OP_PUT, .put = &put_x};
    struct pb_compare compare = {.key = BYTES("x")};
    struct pb_txn_request empty = {0}, inner = {.failure = {.at = &bad, .count = 1}};
    struct pb_request_op nests = {.which = PB_OP_TXN, .txn = &inner};
    struct pb_request_op nothing = {.which = PB_OP_TXN, .txn = &empty};
    struct identity nobody = {0};
    rig_open(&r);
    add_with_role(&r, "u");
    CHECK_EQ(permit(&r, "u", PB_PERMISSION_READWRITE, "a", ""), AUTH_OK);
    enable(&r);

    struct pb_txn_request txn = {.success = {.at = &good, .count = 1}};
    CHECK_EQ(decide(&r, "u", RULE_TXN, &txn), AUTH_OK);
    txn.failure.at = &bad, txn.failure.count = 1;
    CHECK_EQ(decide(&r, "u", RULE_TXN, &txn), AUTH_PERMISSION_DENIED);
    txn.failure.at = &nests;
    CHECK_EQ(decide(&r, "u", RULE_TXN, &txn), AUTH_PERMISSION_DENIED);
    CHECK_EQ(decide(&r, "root", RULE_TXN, &txn), AUTH_OK);
    inner.failure.at = &good;
    CHECK_EQ(decide(&r, "u", RULE_TXN, &txn), AUTH_OK);
    inner.compare.at = &compare, inner.compare.count = 1;
    CHECK_EQ(decide(&r, "u", RULE_TXN, &txn), AUTH_PERMISSION_DENIED);
    txn = (struct pb_txn_request){.success = {.at = &nothing, .count = 1}};
    CHECK_EQ(auth_decide(r.auth, &nobody, RULE_TXN, &txn), AUTH_OK); /* it asks for nothing */
    empty.success.at = &good, empty.success.count = 1;
    CHECK_EQ(auth_decide(r.auth, &nobody, RULE_TXN, &txn), AUTH_USER_EMPTY);

    rig_close(&r);
}

TEST(a_user_may_ask_about_himself_and_his_roles)
{
    struct auth_rig r;
    struct pb_auth_name self = {BYTES("u")}, other = {BYTES("root")};
    struct pb_auth_role_name own = {BYTES("u")}, strange = {BYTES("root")};
    struct pb_alarm_request look = {.action = PB_ALARM_GET},
                            clear = {.action = PB_ALARM_DEACTIVATE};
    struct pb_watch_create_request all = {.range_end = BYTES("\0")};
    rig_open(&r);
    add_with_role(&r, "u");
    enable(&r);

    CHECK_EQ(decide(&r, "u", RULE_ROOT_OR_SELF, &self), AUTH_OK);
    CHECK_EQ(decide(&r, "u", RULE_ROOT_OR_SELF, &other), AUTH_PERMISSION_DENIED);
    CHECK_EQ(decide(&r, "root", RULE_ROOT_OR_SELF, &self), AUTH_OK);
    CHECK_EQ(decide(&r, "u", RULE_ROOT_OR_OWN_ROLE, &own), AUTH_OK);
    CHECK_EQ(decide(&r, "u", RULE_ROOT_OR_OWN_ROLE, &strange), AUTH_PERMISSION_DENIED);
    CHECK_EQ(decide(&r, "u", RULE_ALARM, &look), AUTH_OK);
    CHECK_EQ(decide(&r, "u", RULE_ALARM, &clear), AUTH_PERMISSION_DENIED);
    CHECK_EQ(decide(&r, "u", RULE_WATCH, &all), AUTH_PERMISSION_DENIED);
    CHECK_EQ(decide(&r, "u", RULE_WATCH, NULL), AUTH_OK);
    CHECK_EQ(decide(&r, "root", RULE_WATCH, &all), AUTH_OK);

    rig_close(&r);
}

/* ---- Ranges, against a model of 26 keys ---- */

static struct bytes letter(unsigned n, char out[2])
{
    out[0] = (char)('a' + n);
    out[1] = 0;
    return bytes_of(out, 1);
}

TEST(merged_ranges_cover_what_each_of_them_does)
{
    struct rng rng;
    unsigned rounds = 2000 * (unsigned)test_effort();

    rng_seed(&rng, test_seed());
    for (unsigned round = 0; round < rounds; round++) {
        struct auth_ranges ranges = {0};
        struct arena arena = {0};
        bool model[26] = {0};
        for (unsigned n = (unsigned)rng_below(&rng, 8); n > 0; n--) {
            unsigned from = (unsigned)rng_below(&rng, 26), to = (unsigned)rng_below(&rng, 28);
            char *texts = arena_alloc(&arena, 4);
            struct bytes end = to == 27   ? BYTES("\0")
                               : to == 26 ? BYTES("")
                                          : letter(to, texts + 2);
            auth_ranges_add(&ranges, auth_range_of(letter(from, texts), end, &arena));
            for (unsigned i = from; i < 26; i++)
                model[i] |= to == 27 || (to == 26 && i == from) || (to < 26 && i < to);
        }
        auth_ranges_merge(&ranges);
        auth_ranges_check(&ranges);
        for (unsigned i = 0; i < 26; i++) {
            char text[2];
            CHECK_EQ(auth_ranges_cover(&ranges, letter(i, text), BYTES("")), model[i]);
            CHECK_EQ(auth_ranges_find(&ranges, letter(i, text)) != NULL, model[i]);
        }
        auth_ranges_free(&ranges);
        arena_free(&arena);
    }
}

/* ---- Inverted ranges ---- */

/* "ag", "a-" or "a*": what the file of expectations has for a range. */
static struct auth_range range_in(const char *text, struct arena *arena)
{
    struct bytes end = text[1] == '-'   ? BYTES("")
                       : text[1] == '*' ? BYTES("\0")
                                        : bytes_of(text + 1, 1);
    return auth_range_of(bytes_of(text, 1), end, arena);
}

/* One line: does the tree say to the range behind the colon what etcd's does? */
static void check_line(const char *line, struct auth_tree *tree, struct arena *arena)
{
    const char *at = line;

    auth_tree_clear(tree);
    for (; *at != ':'; at += 3)
        auth_tree_add(tree, range_in(at, arena));
    auth_tree_finish(tree);
    CHECK(strlen(at) == strlen(": ba 0"));
    if (auth_tree_permits(tree, bytes_of(at + 2, 1), bytes_of(at + 3, 1)) != (at[5] == '1'))
        test_fail(__FILE__, __LINE__, "etcd says otherwise: %s", line);
}

TEST(an_inverted_range_is_permitted_where_etcds_tree_of_permissions_finds_it)
{
    struct auth_tree tree = {0};
    struct arena arena = {0};
    char line[128];
    unsigned lines = 0;
    FILE *file = fopen("src/auth/testdata/inverted_ranges.txt", "r");
    CHECK(file);

    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '#')
            continue;
        check_line(line, &tree, &arena);
        lines++;
    }

    CHECK(lines >= 200);
    fclose(file);
    auth_tree_free(&tree);
    arena_free(&arena);
}

/* As etcd's own tree: [a, c) is the root, and what begins at "a" or behind the end hides the rest.
 */
TEST(an_inverted_range_needs_more_than_permission_for_its_key)
{
    static const struct {
        const char *key, *end;
        enum auth_result result;
    } asked[] = {
        {"n", "b", AUTH_OK},  {"n", "a", AUTH_PERMISSION_DENIED}, {"b", "a", AUTH_OK},
        {"n", "n", AUTH_OK},  {"n", "A", AUTH_PERMISSION_DENIED}, {"b", "b", AUTH_OK},
        {"a", "A", AUTH_OK},  {"p", "n", AUTH_PERMISSION_DENIED}, {"n", "", AUTH_OK},
        {"n", "na", AUTH_OK},
    };
    struct auth_rig r;
    rig_open(&r);
    add_with_role(&r, "u");
    CHECK_EQ(permit(&r, "u", PB_PERMISSION_READWRITE, "a", "c"), AUTH_OK);
    CHECK_EQ(permit(&r, "u", PB_PERMISSION_READWRITE, "m", "p"), AUTH_OK);
    enable(&r);

    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        struct bytes key = bytes_of_str(asked[i].key), end = bytes_of_str(asked[i].end);
        struct pb_range_request range = {.key = key, .range_end = end};
        struct pb_delete_range_request deleted = {.key = key, .range_end = end};
        struct pb_compare compare = {.key = key, .range_end = end};
        struct pb_txn_request txn = {.compare = {.at = &compare, .count = 1}};
        CHECK_EQ(decide(&r, "u", RULE_READ_RANGE, &range), asked[i].result);
        CHECK_EQ(decide(&r, "u", RULE_WRITE_RANGE, &deleted), asked[i].result);
        CHECK_EQ(decide(&r, "u", RULE_TXN, &txn), asked[i].result);
    }

    /* Another tree after each change: below [a, c) even one that would do is not found. */
    struct pb_range_request range = {.key = BYTES("n"), .range_end = BYTES("a")};
    CHECK_EQ(permit(&r, "u", PB_PERMISSION_READWRITE, "A", "p"), AUTH_OK);
    CHECK_EQ(decide(&r, "u", RULE_READ_RANGE, &range), AUTH_PERMISSION_DENIED);
    CHECK_EQ(auth_role_revoke_permission(
                 r.auth, &(struct pb_auth_role_revoke_permission_request){.role = BYTES("u"),
                                                                          .key = BYTES("a"),
                                                                          .range_end = BYTES("c")}),
             AUTH_OK);
    CHECK_EQ(decide(&r, "u", RULE_READ_RANGE, &range), AUTH_OK);
    rig_close(&r);
}

/* No key is empty, so no permission begins at one: it would be one for all keys below its end. */
TEST(a_stored_permission_with_an_empty_key_permits_nothing)
{
    struct auth_ranges ranges = {0};
    struct arena arena = {0};

    auth_ranges_add(&ranges, auth_range_of(BYTES(""), BYTES("b"), &arena));
    auth_ranges_add(&ranges, auth_range_of(BYTES(""), BYTES("\0"), &arena));
    auth_ranges_merge(&ranges);
    CHECK(!auth_ranges_cover(&ranges, BYTES("a"), BYTES("")));
    CHECK(!auth_ranges_cover(&ranges, BYTES("a"), BYTES("b")));
    auth_ranges_free(&ranges);
    arena_free(&arena);
}

/* ---- base64 ---- */

static void check_base64(enum base64_kind kind, struct bytes raw, const char *text)
{
    struct buf out = {0};

    base64_encode(kind, raw, &out);
    CHECK_BYTES(buf_bytes(&out), bytes_of_str(text));
    buf_clear(&out);
    CHECK(base64_decode(kind, bytes_of_str(text), &out));
    CHECK_BYTES(buf_bytes(&out), raw);
    buf_free(&out);
}

static bool decodes(enum base64_kind kind, const char *text)
{
    struct buf out = {0};
    bool result = base64_decode(kind, bytes_of_str(text), &out);

    buf_free(&out);
    return result;
}

TEST(base64_is_read_and_written_as_go_does)
{
    check_base64(BASE64_PADDED, BYTES(""), "");
    check_base64(BASE64_PADDED, BYTES("f"), "Zg==");
    check_base64(BASE64_PADDED, BYTES("fo"), "Zm8=");
    check_base64(BASE64_PADDED, BYTES("foo"), "Zm9v");
    check_base64(BASE64_PADDED, BYTES("\xff\xfe\xfd?"), "//79Pw==");
    check_base64(BASE64_URL, BYTES("\xff\xfe\xfd?"), "__79Pw");
    CHECK(decodes(BASE64_PADDED, "Zm\n9v\r\n"));
    CHECK(!decodes(BASE64_PADDED, "Zg"));
    CHECK(!decodes(BASE64_PADDED, "Zg="));
    CHECK(!decodes(BASE64_PADDED, "Zg==="));
    CHECK(!decodes(BASE64_PADDED, "Zg==Zg=="));
    CHECK(!decodes(BASE64_PADDED, "Zm9v="));
    CHECK(!decodes(BASE64_PADDED, "Z"));
    CHECK(!decodes(BASE64_PADDED, "Zm9_"));
    CHECK(!decodes(BASE64_URL, "Zg=="));
    CHECK(!decodes(BASE64_URL, "Zm9v\n"));
    CHECK(decodes(BASE64_URL, "Zm9_"));
}
