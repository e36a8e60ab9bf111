/*
 * A directory of etcd's that we cannot serve is etcd's afterwards, byte for byte.
 *
 *     etcd makes a directory of some kind, and stops or dies
 *         --> cleat is started on it, and says why not
 *         --> every name and every byte is what it was
 *         --> etcd starts on it, where it would have started before
 */
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static void open_etcd(struct peer *p)
{
    char dir[256];

    snprintf(dir, sizeof(dir), "%s/data", test_tmp_dir());
    peer_open(p, dir);
}

/* All names, and what is in the files. */
static const char *fingerprint(struct peer *p)
{
    return peer_run(&p->arena,
                    "cd %s && find . | sort && find . -type f -exec sha256sum {} + | sort", p->dir);
}

/* Starts ours on the directory, with the same addresses and name; it ends with this reason. */
static void start_ours(struct peer *p, const char *why)
{
    struct peer ours;
    int status;

    peer_open_ours(&ours, p->dir);
    ours.client_url = p->client_url;
    ours.peer_url = ours.advertised_url = p->peer_url;
    peer_run(&p->arena, "rm -f %s.log", p->dir);
    peer_launch(&ours, "");
    CHECK_EQ(waitpid(ours.pid, &status, 0), ours.pid);
    ours.pid = 0;
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 1);
    const char *said = peer_run(&p->arena, "grep '\"level\":\"fatal\"' %s.log", p->dir);
    if (!strstr(said, why))
        test_fail(__FILE__, __LINE__, "not \"%s\" but: %s", why, said);
    peer_close(&ours);
}

static void check_left_alone(struct peer *p, const char *why)
{
    const char *before = fingerprint(p);

    for (int i = 0; i < 2; i++) { /* and so it is at the second attempt */
        start_ours(p, why);
        CHECK_STR(fingerprint(p), before);
    }
}

/* As a member that has nothing to complain of. */
static void check_serves(struct peer *p)
{
    peer_start(p, "");
    CHECK_STR(PEER_CTL(p, "get k --print-value-only"), "v");
    peer_stop(p);
}

/* ---- The store ---- */

/* Puts until a snapshot was taken right at the last entry: stopped now, the store is its state. */
static unsigned put_up_to_a_snapshot(struct peer *p)
{
    const char *index = peer_run(
        &p->arena,
        "C=\"$PEERS/etcdctl --endpoints %s\"; for i in $(seq 40); do $C put other $i >/dev/null; "
        "A=$($C endpoint status -w json | sed 's/.*\"raftAppliedIndex\":\\([0-9]*\\).*/\\1/'); "
        "for j in 1 2 3 4 5 6 7 8 9 10; do "
        "grep 'saved snapshot' %s.log | grep -q \"snapshot-index\\\":$A[,}]\" && echo $A && exit; "
        "sleep 0.02; done; done; exit 1",
        p->client_url, p->dir);
    unsigned found = 0;

    CHECK_EQ(sscanf(index, "%u", &found), 1);
    return found;
}

#define TOO_NEW "version \\\"3.9.0\\\" is not supported"

/* As after a leader's snapshot that was received and not yet installed: etcd renames the file at
 * its next start, and that must be etcd's own. */
TEST(a_received_snapshot_is_left_to_etcd)
{
    struct peer p;
    open_etcd(&p);
    peer_start(&p, "--snapshot-count 5");
    peer_stop(&p);
    peer_run(&p.arena, "cp %s/member/snap/db %s.old", p.dir, p.dir);
    peer_start(&p, "--snapshot-count 5");
    PEER_CTL(&p, "put k v");
    peer_await_storage_version(&p);
    unsigned index = put_up_to_a_snapshot(&p);
    peer_stop(&p);
    peer_run(&p.arena, "cd %s/member/snap && mv db %016x.snap.db && cp %s.old db", p.dir, index,
             p.dir);
    peer_run(&p.arena,
             "sed -i s/storageVersion3.7.0/storageVersion3.9.0/g %s/member/snap/*.snap.db", p.dir);

    check_left_alone(&p, TOO_NEW);

    peer_run(&p.arena,
             "sed -i s/storageVersion3.9.0/storageVersion3.7.0/g %s/member/snap/*.snap.db", p.dir);
    check_serves(&p);
    peer_close(&p);
}

/* bbolt has no checksums, and the other version is as long. */
TEST(a_store_of_a_later_version_is_left_alone)
{
    struct peer p;
    open_etcd(&p);
    peer_start(&p, "");
    peer_await_storage_version(&p);
    peer_stop(&p);
    peer_run(&p.arena, "sed -i s/storageVersion3.7.0/storageVersion3.9.0/g %s/member/snap/db",
             p.dir);

    check_left_alone(&p, TOO_NEW);
    peer_run(&p.arena,
             "! %s --name m --data-dir %s --listen-peer-urls %s --listen-client-urls %s "
             "--advertise-client-urls %s >%s.log 2>&1",
             p.program, p.dir, p.peer_url, p.client_url, p.client_url, p.dir);
    CHECK(*peer_run(&p.arena, "grep -F '" TOO_NEW "' %s.log", p.dir)); /* etcd's own words */

    peer_close(&p);
}

/* ---- Several members ---- */

struct pair {
    struct peer one, two;
    const char *joining; /* flags of the second, and later of both */
};

static void open_pair(struct pair *c)
{
    char dir[256];

    open_etcd(&c->one);
    snprintf(dir, sizeof(dir), "%s/second", test_tmp_dir());
    peer_open(&c->two, dir);
    peer_start(&c->one, "--strict-reconfig-check=false"); /* which wants five seconds of health */
    PEER_CTL(&c->one, "put k v");
    PEER_CTL(&c->one, "member add two --peer-urls %s", c->two.peer_url);
    c->joining = arena_printf(
        &c->one.arena, "--name two --initial-cluster m=%s,two=%s --initial-cluster-state existing",
        c->one.peer_url, c->two.peer_url);
    peer_start(&c->two, c->joining);
    PEER_CTL(&c->two, "put k v");
}

static void close_pair(struct pair *c)
{
    peer_close(&c->two);
    peer_close(&c->one);
}

/* etcd does not serve such a directory either; it is evidence all the same. */
TEST(a_store_of_a_member_that_was_removed_is_left_alone)
{
    struct pair c;
    int status;
    open_pair(&c);
    const char *id = PEER_CTL(&c.one, "member list | grep ', two,' | cut -d, -f1");
    PEER_CTL(&c.one, "member remove %s", id);
    CHECK_EQ(waitpid(c.two.pid, &status, 0), c.two.pid); /* it notices */
    c.two.pid = 0;
    peer_stop(&c.one);

    check_left_alone(&c.two, "the member has been permanently removed from the cluster");

    close_pair(&c);
}

/* ---- The log ---- */

/* ---- What does not fit together: no etcd starts on these, but they are evidence ---- */

TEST(a_log_that_ends_before_its_store_is_left_alone)
{
    struct peer p;
    open_etcd(&p);
    peer_start(&p, "");
    peer_stop(&p);
    peer_run(&p.arena, "cp -r %s/member/wal %s.wal", p.dir, p.dir);
    peer_start(&p, "");
    PEER_CTL(&p, "put k v");
    peer_stop(&p);
    peer_run(&p.arena, "rm -r %s/member/wal && mv %s.wal %s/member/wal", p.dir, p.dir, p.dir);

    check_left_alone(&p, "part of it is lost");

    peer_close(&p);
}

TEST(a_store_that_ends_before_its_log_is_left_alone)
{
    struct peer p;
    open_etcd(&p);
    peer_start(&p, "--snapshot-count 5");
    peer_stop(&p);
    peer_run(&p.arena, "cp %s/member/snap/db %s.old", p.dir, p.dir);
    peer_start(&p, "--snapshot-count 5");
    for (int i = 0; i < 12; i++)
        PEER_CTL(&p, "put k %d", i);
    peer_stop(&p);
    peer_run(&p.arena, "mv %s.old %s/member/snap/db", p.dir, p.dir);

    check_left_alone(&p, "the last snapshot's in the log");

    peer_close(&p);
}

/* Overwrites some bytes of a file with others. */
static void damage(struct peer *p, const char *file, unsigned offset)
{
    peer_run(&p->arena, "printf damaged | dd of=%s/member/%s bs=1 seek=%u conv=notrunc 2>/dev/null",
             p->dir, file, offset);
}

TEST(a_damaged_log_is_left_alone)
{
    struct peer p;
    open_etcd(&p);
    peer_start(&p, "");
    PEER_CTL(&p, "put k v");
    peer_stop(&p);
    damage(&p, "wal/0000000000000000-0000000000000000.wal", 200);

    check_left_alone(&p, "cannot read the log");

    peer_close(&p);
}

TEST(a_damaged_store_is_left_alone)
{
    struct peer p;
    open_etcd(&p);
    peer_start(&p, "");
    PEER_CTL(&p, "put k v");
    peer_stop(&p);
    for (unsigned page = 0; page < 2; page++) /* its two roots; any other may be an old one */
        damage(&p, "snap/db", page * 4096 + 16);

    check_left_alone(&p, "snap/db: offset ");

    peer_close(&p);
}

/* ---- And one that we can serve, after all that ---- */

/* The import was cut short before it was certain: what it has made is thrown away and made anew. */
TEST(a_copy_that_was_never_finished_is_made_anew)
{
    struct peer p, ours;
    open_etcd(&p);
    peer_start(&p, "");
    PEER_CTL(&p, "put k v");
    peer_stop(&p);
    peer_run(&p.arena,
             "mkdir %s/member/store.tmp && echo half >%s/member/store.tmp/store.mdb && "
             "echo import txid 1 index 1 >%s/member/store.tmp/transfer",
             p.dir, p.dir, p.dir);

    check_serves(&p); /* etcd does not mind it */
    peer_open_ours(&ours, p.dir);
    ours.peer_url = ours.advertised_url = p.peer_url;
    check_serves(&ours);
    peer_run(&p.arena, "test ! -e %s/member/store.tmp && test -e %s/member/snap/db.imported", p.dir,
             p.dir);
    peer_close(&ours);
    peer_close(&p);
}
