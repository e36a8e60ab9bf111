/*
 * Clusters that are to be downgraded, with real etcd in them.
 *
 *     3.7 and ours     enabled and cancelled, whoever leads and whoever is asked
 *     ours to 3.6      all three of ours, one after the other, go to the etcd before, on their
 *                      directories, and come back
 */
#include "base/buf.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 3, WAIT_S = 60 };

struct trio {
    struct peer at[MEMBERS]; /* called m0, m1, m2 */
    const char *flags[MEMBERS];
};

static void trio_start(struct trio *x, const bool is_ours[MEMBERS])
{
    struct buf all = {0};

    for (unsigned n = 0; n < MEMBERS; n++) {
        char dir[256];
        snprintf(dir, sizeof(dir), "%s/m%u", test_tmp_dir(), n);
        if (is_ours[n])
            peer_open_ours(&x->at[n], dir);
        else
            peer_open(&x->at[n], dir);
        buf_printf(&all, "%sm%u=%s", n > 0 ? "," : "", n, x->at[n].peer_url);
    }
    for (unsigned n = 0; n < MEMBERS; n++) {
        x->flags[n] =
            arena_printf(&x->at[n].arena, "--name m%u --initial-cluster %s", n, buf_str(&all));
        peer_launch(&x->at[n], x->flags[n]);
    }
    for (unsigned n = 0; n < MEMBERS; n++)
        peer_await(&x->at[n]);
    buf_free(&all);
}

static void trio_stop(struct trio *x)
{
    for (unsigned n = 0; n < MEMBERS; n++)
        peer_stop(&x->at[n]);
    for (unsigned n = 0; n < MEMBERS; n++)
        peer_close(&x->at[n]);
}

/* The member's status has this text in it, soon. */
static void until_status(struct peer *p, const char *text)
{
    peer_run(&p->arena,
             "for i in $(seq %d); do $PEERS/etcdctl --endpoints %s endpoint status -w json "
             "2>/dev/null >%s.status; grep -qF '%s' %s.status && exit 0; sleep 0.1; done; "
             "echo not '%s' but $(cat %s.status) >&2; exit 1",
             10 * WAIT_S, p->client_url, p->dir, text, p->dir, text, p->dir);
}

static void until_all(struct trio *x, const char *text)
{
    for (unsigned n = 0; n < MEMBERS; n++)
        until_status(&x->at[n], text);
}

/* Succeeds at some time: leaders come and go. */
static void until_done(struct peer *p, const char *command)
{
    peer_run(&p->arena,
             "for i in $(seq %d); do $PEERS/etcdctl --endpoints %s %s 2>%s.said && exit 0; "
             "sleep 0.1; done; cat %s.said >&2; exit 1",
             10 * WAIT_S, p->client_url, command, p->dir, p->dir);
}

static void let_lead(struct trio *x, unsigned n)
{
    struct arena *arena = &x->at[n].arena;
    const char *all = arena_printf(arena, "%s,%s,%s", x->at[0].client_url, x->at[1].client_url,
                                   x->at[2].client_url);

    peer_run(
        arena,
        "id=$($PEERS/etcdctl --endpoints %s member list | grep ', m%u, ' | cut -d, -f1); "
        "for i in $(seq %d); do "
        "leader=$($PEERS/etcdctl --endpoints %s endpoint status | grep ', true, false, ' | "
        "cut -d, -f2 | tr -d ' '); [ \"$leader\" = $id ] && exit 0; "
        "$PEERS/etcdctl --endpoints %s move-leader $id >/dev/null 2>&1; sleep 0.2; done; exit 1",
        x->at[n].client_url, n, 5 * WAIT_S, all, all);
}

/* All have the same keys, with their histories. */
static void check_equal(struct trio *x)
{
    const char *first = NULL;

    for (unsigned n = 0; n < MEMBERS; n++) {
        PEER_CTL(&x->at[n], "get k"); /* it has caught up */
        const char *hash = PEER_CTL(&x->at[n], "endpoint hashkv | cut -d, -f2-");
        if (!first)
            first = hash;
        CHECK_STR(hash, first);
    }
}

TEST(a_downgrade_is_enabled_and_cancelled_in_clusters_of_both_kinds)
{
    struct trio x = {0};
    trio_start(&x, (bool[MEMBERS]){false, true, false});
    until_all(&x, "\"storageVersion\":\"3.7.0\"");

    for (unsigned leader = 0; leader < 2; leader++) {
        struct peer *asked = &x.at[1 - leader]; /* is of the other kind */
        let_lead(&x, leader);
        CHECK_STR(PEER_CTL(asked, "downgrade validate 3.6"),
                  "Downgrade validate success, cluster version 3.7");
        /* Either version: the leader may have lowered it before the response is made. */
        const char *enabled = PEER_CTL(asked, "downgrade enable 3.6");
        CHECK(strncmp(enabled, "Downgrade enable success, cluster version 3.", 44) == 0);
        until_all(&x, "\"storageVersion\":\"3.6.0\"");
        until_all(&x, "\"downgradeInfo\":{\"enabled\":true,\"targetVersion\":\"3.6.0\"}");
        for (unsigned n = 0; n < MEMBERS; n++)
            CHECK_STR(peer_run(&x.at[n].arena, "curl -s %s/downgrade/enabled", x.at[n].peer_url),
                      "true");
        PEER_CTL(asked, "put k %u", leader);
        check_equal(&x);
        CHECK_STR(PEER_CTL(asked, "downgrade cancel"),
                  "Downgrade cancel success, cluster version 3.6");
        until_all(&x, "\"storageVersion\":\"3.7.0\"");
        CHECK_STR(peer_run(&asked->arena, "curl -s %s/downgrade/enabled", asked->peer_url),
                  "false");
    }
    check_equal(&x);
    trio_stop(&x);
}

/* Its directory goes to another program. From ours it must be handed over first. */
static void change_program(struct trio *x, unsigned n, const char *program, bool is_ours)
{
    struct peer *p = &x->at[n];

    peer_stop(p);
    if (p->is_ours)
        peer_run(&p->arena, "%sutl export %s", p->program, p->dir);
    p->program = program;
    p->is_ours = is_ours;
    peer_launch(p, x->flags[n]);
    peer_await(p);
}

TEST(three_of_ours_are_downgraded_to_the_etcd_before_and_come_back)
{
    struct trio x = {0};
    gate_need(GATE_PEERS36);
    peer_need();
    trio_start(&x, (bool[MEMBERS]){true, true, true});
    const char *ours = arena_printf(&x.at[0].arena, "%s", x.at[0].program);
    until_all(&x, "\"storageVersion\":\"3.7.0\"");
    PEER_CTL(&x.at[0], "put k ours");
    PEER_CTL(&x.at[0],
             "put k=leased --lease=$($PEERS/etcdctl --endpoints %s lease grant 3600 | "
             "cut -d' ' -f2) value",
             x.at[0].client_url);

    PEER_CTL(&x.at[2], "downgrade enable 3.6");
    until_all(&x, "\"storageVersion\":\"3.6.0\"");
    for (unsigned n = 0; n < MEMBERS; n++) {
        change_program(&x, n, gate_program(GATE_PEERS36, "etcd"), false);
        until_done(&x.at[n], arena_printf(&x.at[n].arena, "put by-36 m%u", n));
        check_equal(&x);
    }
    until_all(&x, "\"downgradeInfo\":{}"); /* etcd has seen that it is over */
    until_all(&x, "\"storageVersion\":\"3.6.0\"");

    for (unsigned n = 0; n < MEMBERS; n++) {
        change_program(&x, n, ours, true);
        until_done(&x.at[n], arena_printf(&x.at[n].arena, "put by-37 m%u", n));
        check_equal(&x);
    }
    until_all(&x, "\"storageVersion\":\"3.7.0\"");
    trio_stop(&x);
}
