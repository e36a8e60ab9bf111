#include "harness/test.h"
#include "sim/rights.h"

enum { U1 = 1, R1 = 1, R2 = 2 };

static void make(struct rights *r, struct rights_change c)
{
    const char *text = rights_apply(r, &c);

    CHECK_STR(text ? text : "", "");
}

/* root is there and auth enabled; u1 has both roles, which are permitted nothing. */
static struct rights some_rights(void)
{
    struct rights r = rights_at_first();

    make(&r, (struct rights_change){.kind = RIGHTS_USER_ADD, .user = RIGHTS_ROOT});
    make(&r, (struct rights_change){.kind = RIGHTS_ROLE_GRANT, .user = RIGHTS_ROOT});
    make(&r, (struct rights_change){.kind = RIGHTS_USER_ADD, .user = U1});
    for (unsigned role = R1; role <= R2; role++) {
        make(&r, (struct rights_change){.kind = RIGHTS_ROLE_ADD, .role = role});
        make(&r, (struct rights_change){.kind = RIGHTS_ROLE_GRANT, .user = U1, .role = role});
    }
    make(&r, (struct rights_change){.kind = RIGHTS_ENABLE});
    return r;
}

static void permit(struct rights *r, unsigned role, unsigned range, enum rights_type type)
{
    make(r,
         (struct rights_change){.kind = RIGHTS_PERMIT, .role = role, .range = range, .type = type});
}

static bool may_read(const struct rights *r, const char *key, const char *end)
{
    return rights_may_read(r, U1, bytes_of_str(key), bytes_of_str(end));
}

/* Range 2 is k02 to k06, 3 is k06 to k09, 4 is k08 and all behind it. */
TEST(rights_of_several_roles_are_one)
{
    struct rights r = some_rights();

    CHECK(!may_read(&r, "k03", ""));
    permit(&r, R1, 2, RIGHTS_READ);
    CHECK(may_read(&r, "k02", ""));
    CHECK(may_read(&r, "k02", "k06"));
    CHECK(!may_read(&r, "k06", ""));
    CHECK(!may_read(&r, "k02", "k07"));
    permit(&r, R2, 3, RIGHTS_BOTH);
    CHECK(may_read(&r, "k02", "k09"));
    CHECK(!may_read(&r, "k02", "k090"));
    permit(&r, R2, 4, RIGHTS_WRITE);
    CHECK(!may_read(&r, "k02", "z"));
    permit(&r, R2, 4, RIGHTS_READ);
    CHECK(may_read(&r, "k02", "z"));
    CHECK(rights_may_read(&r, U1, BYTES("k02"), BYTES("\0")));
    CHECK(!may_read(&r, "k01", "z"));
}

TEST(rights_of_a_role_that_is_gone_are_nobodys)
{
    struct rights r = some_rights();
    permit(&r, R1, 2, RIGHTS_READ);

    make(&r, (struct rights_change){.kind = RIGHTS_ROLE_DELETE, .role = R1});
    make(&r, (struct rights_change){.kind = RIGHTS_ROLE_ADD, .role = R1});
    CHECK(!may_read(&r, "k03", ""));
    make(&r, (struct rights_change){.kind = RIGHTS_ROLE_GRANT, .user = U1, .role = R1});
    CHECK(!may_read(&r, "k03", ""));
}

TEST(rights_count_their_changes_as_auth_does)
{
    struct rights r = some_rights();
    uint64_t revision = r.revision;

    make(&r, (struct rights_change){.kind = RIGHTS_ROLE_GRANT, .user = U1, .role = R1});
    make(&r, (struct rights_change){.kind = RIGHTS_ENABLE});
    CHECK_EQ(r.revision, revision);
    make(&r, (struct rights_change){.kind = RIGHTS_DISABLE});
    CHECK_EQ(r.revision, revision + 1);
    CHECK_EQ(r.users[U1].logouts, 1);
    make(&r, (struct rights_change){.kind = RIGHTS_ENABLE});
    CHECK_EQ(r.revision, revision + 1);
    make(&r, (struct rights_change){.kind = RIGHTS_PASSWORD, .user = U1});
    CHECK_EQ(r.revision, revision + 2);
    CHECK_EQ(r.users[U1].logouts, 2);
}

TEST(rights_of_root_stay_while_auth_is_enabled)
{
    struct rights r = some_rights();
    const struct rights_change changes[] = {
        {.kind = RIGHTS_USER_DELETE}, {.kind = RIGHTS_ROLE_REVOKE}, {.kind = RIGHTS_ROLE_DELETE}};

    for (unsigned i = 0; i < 3; i++) {
        struct rights before = r;
        CHECK_STR(rights_apply(&r, &changes[i]), "etcdserver: invalid auth management");
        CHECK(rights_are_equal(&r, &before));
    }
}
