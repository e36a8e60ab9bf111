#include "harness/test.h"
#include "sim/permits.h"

#include <stdio.h>
#include <string.h>

enum { U1 = 1, R1 = 1, MEMBERS = 3 };

/* A cluster of which the test says what each member shows, and an administrator. */
struct permits_rig {
    struct permits *p;
    struct history h;
    struct rights now;
    uint64_t applied;
    int64_t revision; /* of the keys */
};

static void show(struct permits_rig *r, unsigned member)
{
    permits_shown(r->p, member, &r->now, r->applied, r->revision);
}

/* An entry that changes them, which was asked for, and is applied by member 0. */
static size_t change(struct permits_rig *r, struct rights_change c)
{
    size_t number = permits_asked(r->p, &c);

    CHECK(!rights_apply(&r->now, &c));
    r->applied++;
    show(r, 0);
    return number;
}

static void make(struct permits_rig *r, struct rights_change c)
{
    permits_answered(r->p, change(r, c), (struct bytes){0}, true);
}

/* Auth is enabled, and u1 may read and write k02 to k06. */
static void rig_open(struct permits_rig *r)
{
    *r = (struct permits_rig){
        .p = permits_new(MEMBERS, false), .now = rights_at_first(), .revision = 1};
    make(r, (struct rights_change){.kind = RIGHTS_USER_ADD});
    make(r, (struct rights_change){.kind = RIGHTS_ROLE_GRANT});
    make(r, (struct rights_change){.kind = RIGHTS_USER_ADD, .user = U1});
    make(r, (struct rights_change){.kind = RIGHTS_ROLE_ADD, .role = R1});
    make(r, (struct rights_change){.kind = RIGHTS_ROLE_GRANT, .user = U1, .role = R1});
    make(r, (struct rights_change){
                .kind = RIGHTS_PERMIT, .role = R1, .range = 2, .type = RIGHTS_BOTH});
    make(r, (struct rights_change){.kind = RIGHTS_ENABLE});
    for (unsigned i = 1; i < MEMBERS; i++)
        show(r, i);
}

static void rig_ends_with(struct permits_rig *r, const char *problem)
{
    permits_check(r->p, &r->h);
    const char *got = permits_problem(r->p);

    if (problem)
        CHECK(got && strstr(got, problem));
    else
        CHECK_STR(got ? got : "", "");
    permits_free(r->p);
    history_free(&r->h);
}

static unsigned log_in(struct permits_rig *r, unsigned user)
{
    struct permits_login l = permits_login(r->p, user, true);
    char token[40];

    r->applied++;
    show(r, 0);
    snprintf(token, sizeof(token), "abcdefghijklmnop.%llu", (unsigned long long)r->applied);
    return permits_logged_in(r->p, &l, bytes_of_str(token));
}

static uint64_t begin_put(struct permits_rig *r, const char *key, unsigned member, unsigned token)
{
    struct buf wire = {0};
    struct pb_put_request put = {.key = bytes_of_str(key)};

    pb_encode_put_request(&put, &wire);
    uint64_t op = history_begin(&r->h, OP_PUT, buf_bytes(&wire));
    buf_free(&wire);
    permits_sent(r->p, op, member, U1, token);
    return op;
}

/* It is applied, at a revision of its own, and answered. */
static void answer(struct permits_rig *r, uint64_t op)
{
    r->applied++;
    r->revision++;
    show(r, 0);
    history_done(&r->h, op, r->revision, (struct bytes){0}, false);
    history_op(&r->h, op)->seen = r->revision;
    permits_over(r->p, op);
}

static void refuse(struct permits_rig *r, uint64_t op, const char *text)
{
    CHECK(permits_refused(r->p, op, history_op(&r->h, op), bytes_of_str(text)));
    history_refused(&r->h, op);
}

static const struct rights_change forbid = {.kind = RIGHTS_FORBID, .role = R1, .range = 2};
static const struct rights_change password = {.kind = RIGHTS_PASSWORD, .user = U1};

TEST(permits_let_who_may)
{
    struct permits_rig r;
    rig_open(&r);
    unsigned token = log_in(&r, U1);

    answer(&r, begin_put(&r, "k03", 0, token));
    refuse(&r, begin_put(&r, "k07", 0, token), "etcdserver: permission denied");
    refuse(&r, begin_put(&r, "k03", 0, PERMITS_NO_TOKEN), "etcdserver: user name is empty");
    refuse(&r, begin_put(&r, "k03", 0, PERMITS_FORGED), "etcdserver: invalid auth token");

    rig_ends_with(&r, NULL);
}

TEST(permits_notice_who_may_not)
{
    static const struct {
        const char *key;
        bool with_token;
    } cases[] = {{"k06", true}, {"k03", false}};

    for (unsigned i = 0; i < 2; i++) {
        struct permits_rig r;
        rig_open(&r);
        unsigned token = log_in(&r, U1);

        answer(&r, begin_put(&r, cases[i].key, 0, cases[i].with_token ? token : PERMITS_NO_TOKEN));

        rig_ends_with(&r, "and was not permitted then");
    }
}

TEST(permits_notice_who_is_refused_without_a_reason)
{
    static const char *const texts[] = {
        "etcdserver: permission denied", "etcdserver: user name is empty",
        "etcdserver: invalid auth token", "etcdserver: revision of auth store is old"};

    for (unsigned i = 0; i < 4; i++) {
        struct permits_rig r;
        rig_open(&r);
        unsigned token = log_in(&r, U1);

        refuse(&r, begin_put(&r, "k03", 0, token), texts[i]);

        rig_ends_with(&r, "without a reason");
    }
}

/* While a permission is taken away both may be said; but not of a put that is seen behind it. */
TEST(permits_let_a_change_come_before_or_after_what_is_under_way)
{
    struct permits_rig r;
    rig_open(&r);
    unsigned token = log_in(&r, U1);
    uint64_t one = begin_put(&r, "k03", 0, token), two = begin_put(&r, "k04", 0, token);
    uint64_t three = begin_put(&r, "k04", 0, token), late = begin_put(&r, "k05", 0, token);

    answer(&r, one);
    make(&r, forbid);
    refuse(&r, two, "etcdserver: permission denied");
    refuse(&r, three, "etcdserver: revision of auth store is old");
    CHECK_STR(permits_problem(r.p) ? permits_problem(r.p) : "", "");
    answer(&r, late);

    rig_ends_with(&r, "operation 3 (put) of u1 has happened at revision 3");
}

/* Its answer never came, but everybody sees what it has done. */
TEST(permits_notice_what_was_done_in_silence)
{
    struct permits_rig r;
    rig_open(&r);
    unsigned token = log_in(&r, U1);
    uint64_t op = begin_put(&r, "k03", 1, token);

    make(&r, password);
    r.applied++;
    r.revision++;
    show(&r, 0);
    history_gave_up(&r.h, op);
    history_op(&r.h, op)->seen = r.revision;

    rig_ends_with(&r, "and was not permitted then");
}

TEST(permits_let_members_forget_tokens_and_no_others)
{
    for (unsigned i = 0; i < 4; i++) {
        struct permits_rig r;
        rig_open(&r);
        unsigned token = log_in(&r, U1);
        if (i == 1)
            permits_forgot(r.p, 2);
        if (i == 2)
            make(&r, password);
        if (i == 3) /* a member that is behind knows it as soon as it has come so far */
            show(&r, 1);

        refuse(&r, begin_put(&r, "k03", i == 3 ? 1 : 0, token), "etcdserver: invalid auth token");

        rig_ends_with(&r, i == 1 || i == 2 ? NULL : "without a reason");
    }
}

TEST(permits_know_every_change_by_its_cause)
{
    struct permits_rig r;
    rig_open(&r);

    CHECK(!rights_apply(&r.now, &forbid)); /* nobody has asked for it */
    r.applied++;
    show(&r, 0);

    rig_ends_with(&r, "that nobody has made");
}

TEST(permits_want_all_members_to_have_the_same)
{
    struct permits_rig r;
    rig_open(&r);
    struct rights other = r.now;

    make(&r, forbid);
    CHECK(!rights_apply(&other, &password));
    permits_shown(r.p, 1, &other, r.applied, r.revision);

    rig_ends_with(&r, "has other users and roles");
}

TEST(permits_want_a_change_that_was_answered_to_be_made_and_one_that_was_refused_not)
{
    for (unsigned i = 0; i < 3; i++) {
        struct permits_rig r;
        rig_open(&r);
        size_t number = i == 0 ? permits_asked(r.p, &forbid) : change(&r, forbid);

        if (i == 0)
            permits_answered(r.p, number, (struct bytes){0}, true);
        else
            permits_answered(r.p, number,
                             i == 1 ? BYTES("etcdserver: user name is empty")
                                    : BYTES("etcdserver: role name not found"),
                             false);

        rig_ends_with(&r, i == 0 ? "and is not made" : "and is made");
    }
}

/* One that was not answered is made later on, with the next; or its twin is, and is refused. */
TEST(permits_let_what_was_not_answered_happen_late)
{
    struct permits_rig r;
    rig_open(&r);
    (void)permits_asked(r.p, &forbid); /* nothing was heard of it */
    size_t next = permits_asked(r.p, &password);

    CHECK(!rights_apply(&r.now, &password));
    CHECK(!rights_apply(&r.now, &forbid));
    r.applied += 2;
    show(&r, 1);
    permits_answered(r.p, next, (struct bytes){0}, true);
    size_t twin = permits_asked(r.p, &forbid);
    permits_answered(r.p, twin, BYTES("etcdserver: permission is not granted to the role"), false);
    CHECK_EQ(permits_count(r.p), 9);

    rig_ends_with(&r, NULL);
}

/* As by a disk that hangs: more than can be tried in any order. */
TEST(permits_let_many_that_were_not_answered_happen_at_once_in_their_order)
{
    enum { ROUNDS = 6 };
    static const struct rights_change round[] = {
        {.kind = RIGHTS_FORBID, .role = R1, .range = 2},
        {.kind = RIGHTS_PERMIT, .role = R1, .range = 2, .type = RIGHTS_BOTH}};
    struct permits_rig r;
    rig_open(&r);
    for (unsigned i = 0; i < ROUNDS * ARRAY_LEN(round); i++) {
        const struct rights_change *c = &round[i % ARRAY_LEN(round)];
        (void)permits_asked(r.p, c);
        CHECK(!rights_apply(&r.now, c));
        r.applied++;
    }

    show(&r, 1);

    rig_ends_with(&r, NULL);
}

/* Two that show alike: whose it was is known when one of them is refused. */
TEST(permits_take_another_for_the_cause_if_one_is_refused)
{
    struct permits_rig r;
    rig_open(&r);
    struct rights_change root = {.kind = RIGHTS_PASSWORD, .user = 0};
    (void)permits_asked(r.p, &root); /* nothing was heard of it */
    size_t other = permits_asked(r.p, &password);

    CHECK(!rights_apply(&r.now, &root));
    r.applied++;
    show(&r, 1);
    permits_answered(r.p, other, BYTES("etcdserver: invalid auth token"), false);
    CHECK_EQ(permits_newest(r.p)->users[0].logouts, r.now.users[0].logouts);

    rig_ends_with(&r, NULL);
}

/* Nobody is told a password, but that it is another one shows. */
TEST(permits_see_whose_password_was_set)
{
    struct permits_rig r;
    rig_open(&r);
    struct rights_change root = {.kind = RIGHTS_PASSWORD, .user = 0};
    r.now.users[0].secret = 5;
    r.now.users[U1].secret = 7;
    permits_asked(r.p, &root);
    CHECK(!rights_apply(&r.now, &root));
    r.now.users[0].secret = 6;
    r.applied++;
    show(&r, 1);

    permits_asked(r.p, &password);
    permits_asked(r.p, &root);
    permits_asked(r.p, &password);
    CHECK(!rights_apply(&r.now, &root));
    r.now.users[0].secret = 8;
    r.applied++;
    show(&r, 1);

    CHECK_EQ(permits_newest(r.p)->users[0].logouts, r.now.users[0].logouts);
    CHECK_EQ(permits_newest(r.p)->users[U1].logouts, r.now.users[U1].logouts);
    rig_ends_with(&r, NULL);
}

/* A member that has gone on from one to the next shows which was first. */
TEST(permits_let_members_show_what_was_first)
{
    struct permits_rig r;
    rig_open(&r);
    struct rights_change disable = {.kind = RIGHTS_DISABLE};
    struct rights between = r.now;
    permits_asked(r.p, &disable);
    permits_asked(r.p, &password);

    CHECK(!rights_apply(&r.now, &disable)); /* both of them, in one turn */
    CHECK(!rights_apply(&r.now, &password));
    r.applied += 2;
    show(&r, 0);
    CHECK(!rights_apply(&between, &disable));
    permits_shown(r.p, 1, &between, r.applied - 1, r.revision);
    show(&r, 1);
    CHECK_EQ(permits_member(r.p, 1), permits_count(r.p));

    rig_ends_with(&r, NULL);
}

TEST(permits_notice_a_watch_that_may_not_be)
{
    for (unsigned i = 0; i < 4; i++) {
        struct permits_rig r;
        rig_open(&r);
        struct permits_watch w = {.user = U1,
                                  .token = log_in(&r, U1),
                                  .since = permits_member(r.p, 0),
                                  .applied = permits_applied(r.p, 0),
                                  .key = BYTES("k02"),
                                  .end = i % 2 == 0 ? BYTES("k06") : BYTES("k07")};
        if (i >= 2)
            w.text = BYTES("rpc error: code = PermissionDenied desc = etcdserver: permission "
                           "denied");

        CHECK(permits_watched(r.p, &w));

        rig_ends_with(&r, i == 1 ? "was not permitted" : i == 2 ? "without a reason" : NULL);
    }
}

TEST(permits_know_who_may_log_in)
{
    for (unsigned i = 0; i < 3; i++) {
        struct permits_rig r;
        rig_open(&r);
        struct permits_login l = permits_login(r.p, i == 2 ? 2 : U1, i != 1);

        if (i > 0) {
            r.applied++;
            show(&r, 0);
            permits_logged_in(r.p, &l, BYTES("abcdefghijklmnop.8"));
        } else
            CHECK(permits_login_refused(
                r.p, &l, BYTES("etcdserver: authentication failed, invalid user ID or password")));

        rig_ends_with(&r, i == 0   ? "was not let in"
                          : i == 1 ? "a password that is wrong"
                                   : "was not there");
    }
}
