/*
 * Members of both kinds in one cluster, and etcdctl's words about them.
 *
 *     the same commands to real etcd and to us     print the same, ids of new members too
 *     one of ours joins two of etcd's              and serves; and the other way round
 *     what we cannot execute                       stops ours with a line that says so, and nobody
 * else
 *
 * Under load, with all that can happen to such a cluster: cluster/mixed.h, make interop.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OLD_CTL "/usr/bin/etcdctl"

enum { ADDS_MAX = 4 };

/* --- the same words --- */

/* Ports are either side's own. Ids are compared: they are made of URLs and of the second. */
static void normalize(const char *text, struct buf *out)
{
    while (*text) {
        if (strncmp(text, "127.0.0.1:", 10) != 0) {
            buf_append_byte(out, (uint8_t)*text++);
            continue;
        }
        buf_append_str(out, "HOST");
        text += 10;
        while (isdigit((unsigned char)*text))
            text++;
    }
}

/* $L is the last member that was added, $M the first one. Both sides are asked at once; to add one,
 * when a second has just begun, and the same one for both: two that waited, each for itself, would
 * begin to do so in different seconds now and then. */
static void ask_both(struct peer *etcd, struct peer *ours, const char *ctl, const char *command)
{
    peer_run(&etcd->arena,
             "first() { %s --endpoints $1 member list | grep ', m, ' | cut -d, -f1; }; "
             "last() { %s --endpoints $1 member list | grep -v ', m, ' | cut -d, -f1 | grep . || "
             "echo 7; }; "
             "ask() { CTL=\"%s --endpoints $1\"; M=$2; L=$3; "
             "{ $CTL %s; echo \"status $?\"; } 2>&1 | sed /retry_interceptor/d; }; "
             "A=%s; B=%s; MA=$(first $A); MB=$(first $B); LA=$(last $A); LB=$(last $B); "
             "S=$(date +%%s); while %s [ $(date +%%s) = $S ]; do sleep 0.02; done; "
             "ask $A $MA $LA >%s.said & ask $B $MB $LB >%s.said; wait",
             ctl, ctl, ctl, command, etcd->client_url, ours->client_url,
             strstr(command, " add ") ? "" : "false &&", etcd->dir, ours->dir);
}

static bool say_the_same(struct peer *etcd, struct peer *ours, struct buf *want, struct buf *got)
{
    buf_clear(want);
    buf_clear(got);
    normalize(peer_run(&etcd->arena, "cat %s.said", etcd->dir), want);
    normalize(peer_run(&ours->arena, "cat %s.said", ours->dir), got);
    return bytes_equal(buf_bytes(want), buf_bytes(got));
}

static bool has_added(const char *command, struct buf *said)
{
    return strstr(command, " add ") && strstr(buf_str(said), "status 0\n");
}

/* On a busy machine one of two may be a second late, and its member has another id: that one is
 * removed on both sides, and added again. */
static void compare(struct peer *etcd, struct peer *ours, const char *ctl, const char *command)
{
    struct buf want = {0}, got = {0};

    ask_both(etcd, ours, ctl, command);
    bool same = say_the_same(etcd, ours, &want, &got);
    for (unsigned i = 1;
         i < ADDS_MAX && !same && has_added(command, &want) && has_added(command, &got); i++) {
        ask_both(etcd, ours, ctl, "member remove $L");
        ask_both(etcd, ours, ctl, command);
        same = say_the_same(etcd, ours, &want, &got);
    }
    if (!same)
        test_fail(__FILE__, __LINE__, "%s %s: etcd says\n%s\nwe say\n%s", ctl, command,
                  buf_str(&want), buf_str(&got));
    buf_free(&want);
    buf_free(&got);
}

/* The page stores differ in size. */
#define WITHOUT_SIZES                                                                              \
    " | sed -E 's/(\"dbSize[A-Za-z]*\":)[0-9]+/\\1SIZE/g; s/, [0-9.]+ [kM]?B/, SIZE/g; s/, "       \
    "[0-9]+%/, PERCENT/'"

/* Of whichever version. */
static void compare_all(const char *ctl)
{
    static const char *const commands[] = {
        "member list",
        "member list -w table",
        "member list --consistency=s",
        "member add two",
        "member add two --peer-urls http://10.9.9.9",
        "member add two --peer-urls ''",
        "member promote $M",
        "member promote 7",
        "member remove 7",
        "member remove $M",
        "member update 7 --peer-urls http://10.9.9.9:1",
        "member add two --peer-urls http://10.9.9.9:1 --learner",
        "member list",
        ("endpoint status" WITHOUT_SIZES),
        ("endpoint status -w json" WITHOUT_SIZES),
        "member list -w json | sed 's/\"raft_term\":[0-9]*//'",
        "member list -w fields",
        "member add two --peer-urls http://10.9.9.9:1",
        "member add two --peer-urls http://10.9.9.8:1 --learner",
        "member promote $L",
        "member update $M --peer-urls http://10.9.9.9:1",
        "member update $L --peer-urls http://10.9.9.7:1,http://10.9.9.6:1",
        "member list",
        "member remove $L",
        "member list",
        "member add two --peer-urls http://10.9.9.9:1 --learner -w json",
        "member update $L --peer-urls http://10.9.9.7:1 -w json",
        "member remove $L -w json",
        "member add two --peer-urls http://10.9.9.9:1 --learner -w fields",
        "member remove $L -w fields",
    };
    struct peer etcd, ours;
    char dir[256];

    snprintf(dir, sizeof(dir), "%s/etcd", test_tmp_dir());
    peer_open(&etcd, dir);
    snprintf(dir, sizeof(dir), "%s/ours", test_tmp_dir());
    peer_open_ours(&ours, dir);
    ours.advertised_url = etcd.advertised_url;
    peer_start(&etcd, "");
    peer_start(&ours, "");
    PEER_CTL(&ours, "endpoint health 2>&1"); /* as etcd was asked: it leaves an entry */

    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        compare(&etcd, &ours, ctl, commands[i]);

    peer_stop(&etcd);
    peer_stop(&ours);
    peer_close(&etcd);
    peer_close(&ours);
}

TEST(etcdctl_prints_the_same_about_members)
{
    compare_all("$PEERS/etcdctl");
}

/* Debian's, 3.4. */
TEST(old_etcdctl_prints_the_same_about_members)
{
    if (access(OLD_CTL, X_OK) != 0)
        SKIP("NOT compared: no %s", OLD_CTL);
    compare_all(OLD_CTL);
}

/* --- one cluster of both --- */

enum { MEMBERS_MAX = 4 };

struct mixed {
    struct peer at[MEMBERS_MAX]; /* called m0, m1, ... */
    unsigned count;
    const char *flags; /* further ones, of all; NULL: none */
};

/* Five seconds of health before each change would be long; the checks have tests of their own. */
#define LAX "--strict-reconfig-check=false"

/* One more, which joins all before it; the first founds. */
static struct peer *mixed_join(struct mixed *x, bool is_ours, bool is_learner)
{
    unsigned n = x->count++;
    struct peer *p = &x->at[n];
    char dir[256];
    struct buf flags = {0};

    snprintf(dir, sizeof(dir), "%s/m%u", test_tmp_dir(), n);
    if (is_ours)
        peer_open_ours(p, dir);
    else
        peer_open(p, dir);
    buf_printf(&flags, LAX " %s --name m%u --initial-cluster-state %s --initial-cluster ",
               x->flags ? x->flags : "", n, n == 0 ? "new" : "existing");
    for (unsigned i = 0; i <= n; i++)
        buf_printf(&flags, "%sm%u=%s", i > 0 ? "," : "", i, x->at[i].peer_url);
    if (n > 0)
        PEER_CTL(&x->at[0], "member add m%u --peer-urls %s %s", n, p->peer_url,
                 is_learner ? "--learner" : "");
    peer_launch(p, buf_str(&flags));
    buf_free(&flags);
    peer_run(&p->arena,
             "until $PEERS/etcdctl --endpoints %s member list 2>/dev/null | "
             "grep -q ' started, m%u, '; do sleep 0.1; done",
             x->at[0].client_url, n);
    return p;
}

static void mixed_close(struct mixed *x)
{
    for (unsigned i = 0; i < x->count; i++) {
        if (x->at[i].pid != 0)
            peer_kill(&x->at[i]);
        peer_close(&x->at[i]);
    }
}

static const char *id_of(struct mixed *x, unsigned by, unsigned n)
{
    return PEER_CTL(&x->at[by], "member list | grep ', m%u, ' | cut -d, -f1", n);
}

/* All that run say so of each other, and have the same. */
static void check_equal(struct mixed *x, const char *value)
{
    struct buf want = {0};

    for (unsigned i = 0; i < x->count; i++) {
        if (x->at[i].pid == 0)
            continue;
        CHECK_STR(PEER_CTL(&x->at[i], "get k --print-value-only"), value);
        const char *list = PEER_CTL(&x->at[i], "member list");
        if (want.len == 0)
            buf_append_str(&want, list);
        CHECK_STR(list, buf_str(&want));
    }
    buf_free(&want);
}

TEST(one_of_ours_joins_two_of_etcds_and_serves)
{
    struct mixed x = {0};
    mixed_join(&x, false, false);
    PEER_CTL(&x.at[0], "put k before");
    mixed_join(&x, false, false);

    struct peer *ours = mixed_join(&x, true, false);
    check_equal(&x, "before");
    PEER_CTL(ours, "put k ours");
    check_equal(&x, "ours");

    /* and is asked for everything: a learner of etcd's kind, its promotion, a removal */
    mixed_join(&x, false, true);
    PEER_CTL(ours, "member promote %s", id_of(&x, 2, 3));
    check_equal(&x, "ours");
    PEER_CTL(ours, "member remove %s", id_of(&x, 2, 1));
    int status;
    CHECK_EQ(waitpid(x.at[1].pid, &status, 0), x.at[1].pid); /* it notices */
    x.at[1].pid = 0;
    PEER_CTL(&x.at[3], "put k after");
    check_equal(&x, "after");
    mixed_close(&x);
}

/* And the leader, which is ours for once, goes: it hands over, etcd's lead, and take it back. */
TEST(two_of_etcds_join_one_of_ours_and_outlive_it)
{
    struct mixed x = {0};
    int status;
    peer_need();
    struct peer *ours = mixed_join(&x, true, false);
    PEER_CTL(ours, "put k before");
    mixed_join(&x, false, true);
    PEER_CTL(ours, "member promote %s", id_of(&x, 0, 1));
    mixed_join(&x, false, false);
    check_equal(&x, "before");

    PEER_CTL(&x.at[1], "member remove %s", id_of(&x, 1, 0));
    CHECK_EQ(waitpid(ours->pid, &status, 0), ours->pid);
    ours->pid = 0;
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    /* what etcd's has sent to a leader that was removed is lost */
    peer_run(&x.at[2].arena,
             "until $PEERS/etcdctl --endpoints %s put k after 2>/dev/null; do sleep 0.1; done",
             x.at[2].client_url);
    check_equal(&x, "after");
    mixed_close(&x);
}

/* --- directories --- */

/* The same member, from now on of the other kind. */
static void change_kind(struct mixed *x, unsigned n, const char *flags)
{
    struct peer *p = &x->at[n], as_ours;

    peer_stop(p);
    peer_open_ours(&as_ours, p->dir);
    p->program = arena_printf(&p->arena, "%s", as_ours.program);
    p->is_ours = true;
    peer_close(&as_ours);
    peer_launch(p, flags);
    peer_run(&p->arena, "until $PEERS/etcdctl --endpoints %s get k 2>/dev/null; do sleep 0.1; done",
             p->client_url);
}

/* One after the other, while the others serve; a learner that is not there yet comes along. */
TEST(directories_of_three_members_are_taken_over_one_after_the_other)
{
    struct mixed x = {0};
    char value[8];
    for (unsigned n = 0; n < 3; n++)
        mixed_join(&x, false, false);
    PEER_CTL(&x.at[0], "put k v");
    PEER_CTL(&x.at[0], "member add --learner x --peer-urls http://127.0.0.1:1");

    for (unsigned n = 0; n < 3; n++) {
        change_kind(&x, n, arena_printf(&x.at[n].arena, "--name m%u", n));
        snprintf(value, sizeof(value), "v%u", n);
        peer_run(&x.at[n].arena,
                 "until $PEERS/etcdctl --endpoints %s put k %s 2>/dev/null; do sleep 0.1; done",
                 x.at[n].client_url, value);
        check_equal(&x, value);
    }
    CHECK_STR(PEER_CTL(&x.at[1], "member list | grep -c ', true$'"), "1");
    mixed_close(&x);
}

/* --- users and roles --- */

/* Whoever changes them: all members have the same, and etcd goes on with ours. */
TEST(users_and_roles_that_etcd_has_made_are_ours_too)
{
    struct mixed x = {0};
    mixed_join(&x, false, false);
    mixed_join(&x, false, false);
    struct peer *ours = mixed_join(&x, true, false);
    PEER_CTL(ours, "put k before");

    PEER_CTL(&x.at[0], "user add u:p");
    PEER_CTL(&x.at[0], "role add r");
    PEER_CTL(&x.at[0], "role grant-permission r readwrite k");
    PEER_CTL(&x.at[0], "user grant-role u r");
    PEER_CTL(&x.at[1], "put k after");
    check_equal(&x, "after");
    peer_stop(ours);

    peer_run(&ours->arena, "%sutl export %s", ours->program, ours->dir);
    ours->program = x.at[0].program;
    ours->is_ours = false;
    peer_launch(ours, "--name m2");
    peer_await(ours);
    check_equal(&x, "after");
    CHECK_STR(PEER_CTL(ours, "user get u"), "User: u\nRoles: r");
    CHECK_STR(PEER_CTL(ours, "role get r"), "Role r\nKV Read:\n\tk\nKV Write:\n\tk");
    mixed_close(&x);
}

/* It comes as a snapshot, after ours was away for long; and whoever logs in there is known here. */
TEST(a_snapshot_with_auth_enabled_is_served_with_its_users)
{
    struct mixed x = {.flags = "--snapshot-count 50 --snapshot-catchup-entries 10 --bcrypt-cost 4"};
    mixed_join(&x, false, false);
    mixed_join(&x, false, false);
    struct peer *ours = mixed_join(&x, true, false);
    PEER_CTL(ours, "put k before");
    peer_kill(ours);

    PEER_CTL(&x.at[0], "user add root:p");
    PEER_CTL(&x.at[0], "user add u:p");
    PEER_CTL(&x.at[0], "role add r");
    PEER_CTL(&x.at[0], "role grant-permission r read k");
    PEER_CTL(&x.at[0], "user grant-role u r");
    PEER_CTL(&x.at[0], "auth enable");
    peer_run(&x.at[0].arena, "$PEERS/benchmark --endpoints %s --user root:p put --total 500",
             x.at[0].client_url);

    peer_launch(ours, "--name m2 --bcrypt-cost 4");
    peer_run(&ours->arena,
             "until $PEERS/etcdctl --endpoints %s --user u:p get k 2>/dev/null; do sleep 0.1; "
             "done",
             ours->client_url);
    CHECK_STR(PEER_CTL(ours, "--user u:p get k --print-value-only"), "before");
    CHECK_STR(PEER_CTL(ours, "--user u:p put k x 2>&1 | grep -c 'permission denied'"), "2");
    CHECK_STR(PEER_CTL(ours, "get k 2>&1 | grep -c 'user name is empty'"), "2");
    PEER_CTL(ours, "--user root:p user grant-role u root");
    PEER_CTL(&x.at[1], "--user u:p put k after");
    CHECK_STR(PEER_CTL(ours, "--user u:p get k --print-value-only"), "after");
    mixed_close(&x);
}
