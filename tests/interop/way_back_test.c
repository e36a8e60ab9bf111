/*
 * There and back: a member of etcd's becomes one of ours, and etcd's again, with all it had.
 *
 *     etcd writes, stops --> cleat starts on its directory, writes, stops --> cleatutl export -->
 *     etcd starts on it, writes, stops --> cleat starts again
 *
 * Members of the cluster, keys with their revisions, history and leases come along each time; users
 * and roles, too, with their passwords, and auth enabled. And so they do in a backup.
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
             "put leased-%s value --lease=$($PEERS/etcdctl --endpoints %s lease grant 3600 | "
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

/* etcd replays a log that is whole and goes on; ours has what was there before. */
TEST(of_a_directory_that_etcd_was_started_on_too_early_the_newer_store_is_named)
{
    struct peer p, etcd, cleat;
    char dir[200];
    snprintf(dir, sizeof(dir), "%s/member", test_tmp_dir());
    peer_open(&p, dir);
    peer_open(&etcd, dir);
    peer_open_ours(&cleat, dir);
    change_program(&p, &cleat);
    peer_start(&p, "");
    write_some(&p, "cleat");
    peer_stop(&p);
    change_program(&p, &etcd);
    peer_start(&p, "");
    PEER_CTL(&p, "put by-etcd kept");
    peer_stop(&p);

    const char *refused = peer_run(&p.arena, "! %sutl export %s 2>&1", cleat.program, dir);
    CHECK(strstr(refused, "snap/db is newer"));
    CHECK(strstr(refused, "move store away, and the directory is etcd's"));
    peer_run(&p.arena, "mv %s/member/store %s.store", dir, dir);
    peer_start(&p, "");
    CHECK_STR(PEER_CTL(&p, "get by-etcd --print-value-only"), "kept");
    peer_stop(&p);
    change_program(&p, &cleat);
    peer_start(&p, "");
    CHECK_STR(PEER_CTL(&p, "get by-etcd --print-value-only"), "kept");
    CHECK_STR(PEER_CTL(&p, "get by-cleat --print-value-only"), "two");
    peer_stop(&p);

    peer_close(&cleat);
    peer_close(&etcd);
    peer_close(&p);
}

/* The first segments of our log are gone: etcd makes an empty store, and ends. */
TEST(of_a_directory_that_etcd_could_not_start_on_ours_is_the_newer_store)
{
    struct peer p, etcd, cleat;
    char dir[200];
    snprintf(dir, sizeof(dir), "%s/member", test_tmp_dir());
    peer_open(&p, dir);
    peer_open(&etcd, dir);
    peer_open_ours(&cleat, dir);
    change_program(&p, &cleat);
    peer_start(&p, "--snapshot-count 5");
    for (int i = 0; i < 12; i++)
        PEER_CTL(&p, "put k %d", i);
    peer_await_said(&p, "saved snapshot to disk", 2);
    peer_stop(&p);
    peer_run(&p.arena,
             "! %s --name m --data-dir %s --listen-peer-urls %s --listen-client-urls %s "
             "--advertise-client-urls %s >>%s.log 2>&1",
             etcd.program, dir, p.peer_url, p.client_url, p.client_url, dir);

    const char *refused = peer_run(&p.arena, "! %sutl export %s 2>&1", cleat.program, dir);
    CHECK(strstr(refused, "store is newer; to keep it, move snap/db away and try again"));
    peer_run(&p.arena, "rm %s/member/snap/db && %sutl export %s", dir, cleat.program, dir);
    change_program(&p, &etcd);
    peer_start(&p, "");
    CHECK_STR(PEER_CTL(&p, "get k --print-value-only"), "11");
    peer_stop(&p);

    peer_close(&cleat);
    peer_close(&etcd);
    peer_close(&p);
}

TEST(a_member_whose_log_is_elsewhere_goes_back_to_etcd)
{
    struct peer p, etcd, cleat;
    char dir[200], flags[256];
    snprintf(dir, sizeof(dir), "%s/member", test_tmp_dir());
    snprintf(flags, sizeof(flags), "--snapshot-count 10 --wal-dir %s/log", test_tmp_dir());
    peer_open(&p, dir);
    peer_open(&etcd, dir);
    peer_open_ours(&cleat, dir);
    change_program(&p, &cleat);
    peer_start(&p, flags);
    write_some(&p, "cleat");
    const char *all = everything(&p);
    peer_stop(&p);

    const char *refused = peer_run(&p.arena, "! %sutl export %s --wal-dir %s 2>&1", cleat.program,
                                   dir, test_tmp_dir());
    CHECK(strstr(refused, "no log segments here"));
    peer_run(&p.arena, "%sutl export %s --wal-dir=%s/log", cleat.program, dir, test_tmp_dir());
    change_program(&p, &etcd);
    peer_start(&p, flags);
    CHECK_STR(everything(&p), all);
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

/* --- with users and roles --- */

#define FLAGS "--snapshot-count 10 --bcrypt-cost 4"

/* What everybody is told who logs in, and who does not. Errors come with a time of their own. */
static const char *about_users(struct peer *p)
{
    return peer_run(
        &p->arena,
        "c=\"$PEERS/etcdctl --endpoints %s\"; { $c --user root:r auth status; "
        "$c --user root:r user list; $c --user root:r role list; $c --user root:r role get some; "
        "for u in one:1 two:2 two:1 nopass:x; do echo $u; $c --user $u user get ${u%%:*}; "
        "$c --user $u get k; $c --user $u put k x; $c --user $u get z; done; $c get k; "
        "} 2>&1 | grep -v '\"level\"'",
        p->client_url);
}

static void set_up_users(struct peer *p)
{
    static const char *const lines[] = {"put k x",
                                        "put z last",
                                        "user add root:r",
                                        "user grant-role root root",
                                        "user add one:1",
                                        "user add two:2",
                                        "user add nopass --no-password",
                                        "role add some",
                                        "role grant-permission some read k",
                                        "role add more",
                                        "role grant-permission more readwrite k l",
                                        "role grant-permission more write z --from-key",
                                        "user grant-role one some",
                                        "user grant-role two some",
                                        "user grant-role two more",
                                        "auth enable"};

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        PEER_CTL(p, "%s", lines[i]);
}

static void start_with_users(struct peer *p)
{
    unsigned before = peer_said(p, "ready to serve client requests");

    peer_launch(p, FLAGS);
    peer_await_said(p, "ready to serve client requests", before + 1);
}

TEST(a_member_with_users_goes_to_us_and_back_to_etcd)
{
    struct peer p, etcd, cleat;
    char dir[200];
    snprintf(dir, sizeof(dir), "%s/member", test_tmp_dir());
    peer_open(&p, dir);
    peer_open(&etcd, dir);
    peer_open_ours(&cleat, dir);

    start_with_users(&p);
    set_up_users(&p);
    const char *first = about_users(&p);
    CHECK(strstr(first, "Authentication Status: true"));
    CHECK(strstr(first, "permission denied") && strstr(first, "user name is empty"));
    CHECK(strstr(first, "invalid user ID or password") && strstr(first, "OK"));
    peer_stop(&p);

    change_program(&p, &cleat);
    start_with_users(&p);
    CHECK_STR(about_users(&p), first);
    PEER_CTL(&p, "--user root:r user add by-us:3");
    PEER_CTL(&p, "--user root:r user grant-role by-us more");
    PEER_CTL(&p, "--user root:r role revoke-permission some k");
    const char *second = about_users(&p);
    CHECK(strcmp(first, second) != 0);
    peer_stop(&p);

    peer_run(&p.arena, "%sutl export %s", cleat.program, dir);
    change_program(&p, &etcd);
    start_with_users(&p);
    CHECK_STR(about_users(&p), second);
    CHECK_STR(PEER_CTL(&p, "--user by-us:3 put k by-us"), "OK");
    PEER_CTL(&p, "--user root:r auth disable");
    peer_stop(&p);

    change_program(&p, &cleat);
    start_with_users(&p);
    CHECK_STR(PEER_CTL(&p, "get k --print-value-only"), "by-us");
    peer_stop(&p);
    peer_close(&cleat);
    peer_close(&etcd);
    peer_close(&p);
}

/* By each of the two, restored for the other. */
TEST(a_backup_has_its_users)
{
    struct peer from, to;
    char dir[200], restored[200], file[200];
    peer_need();

    for (int is_ours = 0; is_ours < 2; is_ours++) {
        snprintf(dir, sizeof(dir), "%s/from%d", test_tmp_dir(), is_ours);
        snprintf(restored, sizeof(restored), "%s/to%d", test_tmp_dir(), is_ours);
        snprintf(file, sizeof(file), "%s/backup%d", test_tmp_dir(), is_ours);
        (is_ours ? peer_open_ours : peer_open)(&from, dir);
        (is_ours ? peer_open : peer_open_ours)(&to, restored);
        start_with_users(&from);
        set_up_users(&from);
        const char *before = about_users(&from);
        CHECK(strstr(PEER_CTL(&from, "--user one:1 snapshot save %s.denied 2>&1 || true", file),
                     "permission denied"));
        PEER_CTL(&from, "--user root:r snapshot save %s", file);
        peer_stop(&from);
        peer_run(&to.arena,
                 "$PEERS/etcdutl snapshot restore %s --data-dir %s --name m --initial-cluster "
                 "m=%s --initial-advertise-peer-urls %s",
                 file, restored, to.peer_url, to.peer_url);

        start_with_users(&to);
        CHECK_STR(about_users(&to), before);
        peer_stop(&to);
        peer_close(&to);
        peer_close(&from);
    }
}
