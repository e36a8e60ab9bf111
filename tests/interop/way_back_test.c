/*
 * There and back: a member of etcd's becomes one of ours, and etcd's again, with all it had.
 *
 *     etcd writes, stops --> cleat starts on its directory, writes, stops --> cleatutl export -->
 *     etcd starts on it, writes, stops --> cleat starts again
 *
 * Members of the cluster, keys with their revisions, history and leases come along each time.
 */
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>

/* Everything that can be seen, but for what differs between runs: times left, terms and indexes. */
static const char *everything(struct peer *p)
{
    const char *keys = PEER_CTL(p, "get '' --prefix -w fields | grep -v RaftTerm");
    const char *old = PEER_CTL(p, "get '' --prefix --rev 3 -w fields | grep -v RaftTerm");
    const char *leases = PEER_CTL(p, "lease list | sort");
    const char *members = PEER_CTL(p, "member list -w fields | grep -v RaftTerm");

    return arena_printf(&p->arena, "%s\n%s\n%s\n%s", keys, old, leases, members);
}

static void write_some(struct peer *p, const char *who)
{
    PEER_CTL(p, "put by-%s one", who);
    PEER_CTL(p, "put by-%s two", who);
    PEER_CTL(p, "put gone-%s soon", who);
    PEER_CTL(p, "del gone-%s", who);
    PEER_CTL(p,
             "put leased-%s value --lease=$(" PEERS "etcdctl --endpoints %s lease grant 3600 | "
             "cut -d' ' -f2)",
             who, p->client_url);
}

/* The same directory, name and addresses, under the other's program. */
static void change_program(struct peer *p, const struct peer *other)
{
    p->program = other->program;
    p->is_ours = other->is_ours;
}

TEST(a_member_goes_to_us_and_back_to_etcd)
{
    struct peer p, etcd, cleat;
    char dir[200];
    snprintf(dir, sizeof(dir), "%s/member", test_tmp_dir());
    peer_open(&p, dir);
    peer_open(&etcd, dir);
    peer_open_ours(&cleat, dir);

    peer_start(&p, "--snapshot-count 10");
    write_some(&p, "etcd");
    const char *first = everything(&p);
    peer_stop(&p);

    change_program(&p, &cleat);
    peer_start(&p, "--snapshot-count 10");
    CHECK_STR(everything(&p), first);
    write_some(&p, "cleat");
    const char *second = everything(&p);
    peer_stop(&p);

    const char *said = peer_run(&p.arena, "%sutl export %s", cleat.program, dir);
    CHECK(strstr(said, "member/snap/db"));
    change_program(&p, &etcd);
    peer_start(&p, "--snapshot-count 10");
    CHECK_STR(everything(&p), second);
    write_some(&p, "etcd-again");
    const char *third = everything(&p);
    peer_stop(&p);

    change_program(&p, &cleat);
    peer_start(&p, "");
    CHECK_STR(everything(&p), third);
    peer_stop(&p);
    peer_close(&cleat);
    peer_close(&etcd);
    peer_close(&p);
}

TEST(a_member_that_runs_is_not_exported)
{
    struct peer p;
    struct arena arena = {0};
    peer_need();
    peer_open_ours(&p, arena_printf(&arena, "%s/member", test_tmp_dir()));

    const char *nothing = peer_run(&arena, "! %sutl export %s 2>&1", p.program, p.dir);
    CHECK(strstr(nothing, "not found"));
    peer_start(&p, "");
    PEER_CTL(&p, "put a key");
    const char *refused = peer_run(&arena, "! %sutl export %s 2>&1", p.program, p.dir);
    CHECK(*refused);
    CHECK_STR(PEER_CTL(&p, "get a --print-value-only"), "key");
    peer_stop(&p);
    peer_close(&p);
    arena_free(&arena);
}
