/*
 * A backup restored, with and without a bumped revision, in etcd and in cleat: the same answers
 * from both, and the same hashes when ours goes back to etcd.
 *
 *     etcd writes, is backed up --> etcdutl restores it twice, with the same flags
 *         --> etcd on one, cleat on the other: read, watch, write, compact, delete
 *         --> both once more, and again after the restart
 *         --> cleatutl export: etcd on both: HashKV
 */
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>

struct twins {
    struct peer both[2]; /* etcd, cleat */
    const char *backup;
};

static const char *path_of(struct arena *a, const char *name)
{
    return arena_printf(a, "%s/%s", test_tmp_dir(), name);
}

static void restore(struct peer *p, const char *backup, const char *flags)
{
    peer_run(&p->arena,
             "$PEERS/etcdutl snapshot restore %s --data-dir %s --name m --initial-cluster m=%s "
             "--initial-advertise-peer-urls %s %s 2>&1",
             backup, p->dir, p->advertised_url, p->advertised_url, flags);
}

static void back_up(struct peer *p, const char *to)
{
    PEER_CTL(p, "snapshot save %s 2>&1", to);
}

/* Eight revisions: keys that live, one that is gone, one with a lease. */
static void twins_open(struct twins *t)
{
    struct peer first;
    struct arena a = {0};

    peer_open(&first, path_of(&a, "first"));
    peer_start(&first, "");
    PEER_CTL(&first, "put a 1");
    PEER_CTL(&first, "put a 2");
    PEER_CTL(&first, "put b 1");
    PEER_CTL(&first, "del b");
    PEER_CTL(&first,
             "put leased v --lease=$("
             "$PEERS/etcdctl --endpoints %s lease grant 36000 | cut -d' ' -f2)",
             first.client_url);
    PEER_CTL(&first, "put z last");
    peer_open(&t->both[0], path_of(&a, "etcd"));
    peer_open_ours(&t->both[1], path_of(&a, "cleat"));
    t->backup = path_of(&t->both[0].arena, "backup");
    back_up(&first, t->backup);
    peer_stop(&first);
    peer_close(&first);
    arena_free(&a);
}

static void twins_restore(struct twins *t, const char *flags)
{
    for (int i = 0; i < 2; i++) {
        peer_run(&t->both[i].arena, "rm -rf %s", t->both[i].dir);
        restore(&t->both[i], t->backup, flags);
    }
}

static void twins_start(struct twins *t)
{
    for (int i = 0; i < 2; i++)
        peer_start(&t->both[i], "");
}

static void twins_stop(struct twins *t)
{
    for (int i = 0; i < 2; i++)
        peer_stop(&t->both[i]);
}

/* Who they are differs, and the term; nothing else. Errors count as answers. */
static const char *ask(struct peer *p, const char *what)
{
    return PEER_CTL(p, "%s -w fields 2>&1 | grep -v -e RaftTerm -e ClusterID -e MemberID -e level",
                    what);
}

static void check_same(struct twins *t, const char *what)
{
    const char *theirs = ask(&t->both[0], what), *ours = ask(&t->both[1], what);

    if (strcmp(theirs, ours) != 0)
        test_fail(__FILE__, __LINE__, "%s\netcd: %s\ncleat: %s\n%s", what, theirs, ours,
                  peer_run(&t->both[1].arena, "tail -n 3 %s.log", t->both[1].dir));
}

/* Watches all keys from a revision on until this many lines of events are there. */
static const char *watch(struct peer *p, const char *revision, unsigned lines)
{
    const char *file = path_of(&p->arena, "events");

    return peer_run(&p->arena,
                    "rm -f %s; touch %s; "
                    "$PEERS/etcdctl --endpoints %s watch '' --prefix --rev %s >%s 2>&1 & W=$!; "
                    "until [ $(wc -l <%s) -ge %u ]; do kill -0 $W || break; sleep 0.02; done; "
                    "kill $W 2>/dev/null; cat %s",
                    file, file, p->client_url, revision, file, file, lines, file);
}

static void check_same_events(struct twins *t, const char *revision, unsigned lines)
{
    CHECK_STR(watch(&t->both[1], revision, lines), watch(&t->both[0], revision, lines));
}

static int64_t newest(struct peer *p)
{
    return peer_json_number(PEER_CTL(p, "get nothing -w json"), "revision");
}

static void compare(struct twins *t)
{
    check_same(t, "get '' --prefix");
    check_same(t, "get '' --from-key");
    check_same(t, "get '' --prefix --count-only");
    check_same(t, "get '' --prefix --limit 1 --sort-by MODIFY --order ASCEND");
    check_same(t, "get a --rev 2");
    check_same(t, "get a --rev 1006");
    check_same(t, "get a --rev 1007");
}

/* etcd's own word on either store, the keys in it counted. */
static const char *status_of(struct peer *p)
{
    const char *copy = path_of(&p->arena, "copy.db");
    const char *hash = peer_run(
        &p->arena, "cp %s/member/snap/db %s && $PEERS/etcdutl hashkv %s -w json 2>/dev/null",
        p->dir, copy, copy);
    const char *status =
        peer_run(&p->arena, "build/cleatutl db %s | grep -e 'name=key ' -e Revision", copy);

    return arena_printf(&p->arena, "%s\n%s", hash, status);
}

/* The directory that was ours is etcd's again. */
static void hand_back(struct twins *t)
{
    struct peer *ours = &t->both[1];

    peer_run(&ours->arena, "%sutl export %s", ours->program, ours->dir);
    CHECK_STR(status_of(ours), status_of(&t->both[0]));
    ours->program = t->both[0].program;
    ours->is_ours = false;
    twins_start(t);
    compare(t);
    check_same(t, "put after all");
    const char *hash =
        PEER_CTL(&t->both[0], "endpoint hashkv -w json 2>/dev/null | sed 's/.*\"hash\"//'");
    CHECK_STR(PEER_CTL(&t->both[1], "endpoint hashkv -w json 2>/dev/null | sed 's/.*\"hash\"//'"),
              hash);
    twins_stop(t);
}

static void twins_close(struct twins *t)
{
    peer_close(&t->both[0]);
    peer_close(&t->both[1]);
}

TEST(a_backup_restored_with_a_bumped_revision_is_served_as_etcd_serves_it)
{
    struct twins t;
    twins_open(&t);
    twins_restore(&t, "--bump-revision 1000 --mark-compacted");

    twins_start(&t);
    CHECK_EQ(newest(&t.both[0]), 1007);
    compare(&t);
    check_same(&t, "put a 3"); /* 1008 */
    check_same(&t, "compact 1007");
    check_same_events(&t, "1007", 3);
    check_same_events(&t, "1006", 1); /* compacted: that is all it is told */
    check_same(&t, "del z");
    check_same(&t, "compact 1008 --physical");
    compare(&t);
    twins_stop(&t);
    twins_start(&t);
    compare(&t);
    check_same(&t, "put c 1");
    check_same(&t, "del '' --prefix"); /* nothing is left but what nobody can name */
    check_same(&t, "compact 1011 --physical");
    compare(&t);
    twins_stop(&t);
    hand_back(&t);
    twins_close(&t);
}

/* The backup's own member is gone: its id is still in the store, where nothing may rely on it. */
TEST(a_backup_restored_for_another_member_is_served)
{
    struct twins t;
    twins_open(&t);
    twins_restore(&t, "");

    twins_start(&t);
    compare(&t);
    check_same(&t, "put a 3");
    twins_stop(&t);
    hand_back(&t);
    twins_close(&t);
}

/* A second bump takes the first one's place. */
TEST(a_backup_may_be_bumped_twice)
{
    struct twins t;
    twins_open(&t);
    twins_restore(&t, "--bump-revision 1000 --mark-compacted");
    peer_start(&t.both[0], "");
    PEER_CTL(&t.both[0], "put a 3");
    t.backup = path_of(&t.both[0].arena, "backup2");
    back_up(&t.both[0], t.backup);
    peer_stop(&t.both[0]);
    twins_restore(&t, "--bump-revision 7 --mark-compacted");

    twins_start(&t);
    CHECK_EQ(newest(&t.both[0]), 1015);
    compare(&t);
    check_same(&t, "put a 4");
    check_same(&t, "compact 1016 --physical");
    twins_stop(&t);
    hand_back(&t);
    twins_close(&t);
}

/* etcdutl takes both flags or neither: nobody has a store that is only one of the two. */
TEST(etcdutl_does_not_bump_without_marking_nor_mark_without_bumping)
{
    struct peer p;
    struct arena a = {0};
    peer_open(&p, path_of(&a, "data"));
    const char *alone[] = {"--bump-revision 1000", "--mark-compacted"};

    for (int i = 0; i < 2; i++) {
        const char *said = peer_run(&p.arena,
                                    "! $PEERS/etcdutl snapshot restore src/snap/testdata/"
                                    "bbolt-image.db --data-dir %s %s 2>&1",
                                    p.dir, alone[i]);
        CHECK(strstr(said, "--mark-compacted required if --revision-bump > 0"));
    }
    peer_close(&p);
    arena_free(&a);
}
