/* Our commands beside etcdutl's, on backups of real etcd. */
#include "base/mem.h"
#include "base/rng.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const formats[] = {"simple", "json", "fields", "table", "protobuf", "foo"};

/* Both programs, and a backup that has seen a bit of everything. */
struct pair {
    struct peer etcd;
    struct arena arena;
    const char *ours, *backup;
};

static void write_some(struct pair *p, unsigned count)
{
    struct rng rng;
    rng_seed(&rng, test_seed());

    for (unsigned i = 0; i < count; i++) {
        unsigned key = (unsigned)rng_below(&rng, 6);
        if (rng_chance(&rng, 1, 4))
            PEER_CTL(&p->etcd, "del k%u", key);
        else
            PEER_CTL(&p->etcd, "put k%u value%u", key, i);
    }
}

static void pair_open(struct pair *p)
{
    *p = (struct pair){0};
    peer_open(&p->etcd, arena_printf(&p->arena, "%s/data", test_tmp_dir()));
    p->ours = peer_own_program(&p->arena, "cleatutl");
    p->backup = arena_printf(&p->arena, "%s/backup.db", test_tmp_dir());
    peer_start(&p->etcd, "--unsafe-no-fsync");
    write_some(p, 12);
    PEER_CTL(&p->etcd, "put kept value");
    PEER_CTL(&p->etcd, "compaction --physical 6");
    write_some(p, 4);
    PEER_CTL(&p->etcd, "snapshot save %s 2>/dev/null", p->backup);
    peer_stop(&p->etcd);
}

static void pair_close(struct pair *p)
{
    peer_close(&p->etcd);
    arena_free(&p->arena);
}

/* What a program prints, on both streams, and its status. etcdutl writes to the files that it
 * hashes, so each call has a copy. */
static const char *run(struct pair *p, const char *program, const char *args)
{
    return peer_run(&p->arena,
                    "cp %s %s/copy.db && program=$(realpath %s) && cd %s && "
                    "timeout 20 \"$program\" %s 2>&1; echo \"status $?\"",
                    p->backup, test_tmp_dir(), program, test_tmp_dir(), args);
}

static void check_alike(struct pair *p, const char *args)
{
    const char *theirs = run(p, "$PEERS/etcdutl", args), *ours = run(p, p->ours, args);

    if (strcmp(theirs, ours) != 0)
        test_fail(__FILE__, __LINE__, "%s:\n%s\nours:\n%s", args, theirs, ours);
}

TEST(cleatutl_tells_of_a_backup_what_etcdutl_tells)
{
    struct pair p;
    pair_open(&p);

    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        check_alike(&p, arena_printf(&p.arena, "snapshot status copy.db -w %s", formats[i]));
        check_alike(&p, arena_printf(&p.arena, "hashkv --write-out=%s copy.db", formats[i]));
    }
    for (int revision = 4; revision < 24; revision += 2)
        check_alike(&p, arena_printf(&p.arena, "hashkv copy.db --rev %d", revision));
    check_alike(&p, "snapshot status no-file");
    check_alike(&p, "snapshot status");
    check_alike(&p, "hashkv no-file");
    pair_close(&p);
}

TEST(cleatutl_refuses_to_restore_as_etcdutl_does)
{
    struct pair p;
    pair_open(&p);
    peer_run(&p.arena, "mkdir %s/full && touch %s/full/file", test_tmp_dir(), test_tmp_dir());

    check_alike(&p, "snapshot restore copy.db --data-dir full");
    check_alike(&p, "snapshot restore copy.db --data-dir new --wal-dir full");
    check_alike(&p, "snapshot restore copy.db --data-dir new --name other");
    check_alike(&p, "snapshot restore copy.db --data-dir new --initial-cluster x");
    check_alike(&p, "snapshot restore copy.db --data-dir new --bump-revision 5");
    check_alike(&p, "snapshot restore copy.db --data-dir new --mark-compacted");
    check_alike(&p, "snapshot restore");
    CHECK(strstr(run(&p, p.ours,
                     "snapshot restore copy.db --data-dir new --mark-compacted --bump-revision "
                     "4611686018427387903"),
                 "Error: --bump-revision goes beyond the last revision there can be\nstatus 1"));
    CHECK(strstr(run(&p, p.ours, "snapshot restore data/member/snap/db --data-dir new"),
                 "Error: snapshot missing hash but --skip-hash-check=false\nstatus 1"));
    peer_run(&p.arena, "printf x | dd of=%s bs=1 seek=100 conv=notrunc 2>/dev/null", p.backup);
    CHECK(strstr(run(&p, p.ours, "snapshot restore copy.db --data-dir new"),
                 "not the SHA-256 of what is before it"));
    CHECK_STR(peer_run(&p.arena, "ls %s | grep new || true", test_tmp_dir()), "");
    pair_close(&p);
}

/* ---- Restored directories ---- */

/* The words that both understand, for a member at the addresses of `p`. */
static const char *restore_words(struct pair *p, const struct peer *member, const char *more)
{
    return arena_printf(&p->arena,
                        "snapshot restore copy.db --data-dir %s --name m --initial-cluster m=%s "
                        "--initial-advertise-peer-urls %s --initial-cluster-token again %s",
                        member->dir, member->peer_url, member->peer_url, more);
}

static void check_restored(struct pair *p, struct peer *member, const char *more)
{
    const char *said = run(p, p->ours, restore_words(p, member, more));

    if (!strstr(said, "restored snapshot") || !strstr(said, "added member") ||
        !strstr(said, "status 0"))
        test_fail(__FILE__, __LINE__, "%s", said);
    /* The same content as etcdutl's, which is told by a hash of everything. */
    struct peer twin = *member;
    twin.dir = arena_printf(&p->arena, "%s.twin", member->dir);
    run(p, "$PEERS/etcdutl", restore_words(p, &twin, more));
    const char *ours = peer_run(
        &p->arena, "$PEERS/etcdutl snapshot status %s/member/snap/db -w json", member->dir);
    const char *theirs =
        peer_run(&p->arena, "$PEERS/etcdutl snapshot status %s/member/snap/db -w json", twin.dir);
    CHECK_EQ(peer_json_number(ours, "hash"), peer_json_number(theirs, "hash"));

    peer_start(member, "--initial-cluster-token again");
    CHECK_STR(PEER_CTL(member, "get kept --print-value-only"), "value");
    PEER_CTL(member, "put kept other");
    peer_stop(member);
    peer_start(member, "--initial-cluster-token again");
    CHECK_STR(PEER_CTL(member, "get kept --print-value-only"), "other");
    CHECK(strstr(PEER_CTL(member, "member list"), ", m, "));
}

TEST(etcd_starts_from_what_cleatutl_restores)
{
    struct pair p;
    pair_open(&p);
    struct peer member;
    peer_open(&member, arena_printf(&p.arena, "%s/not/there/yet", test_tmp_dir()));

    check_restored(&p, &member, "");
    peer_stop(&member);

    peer_close(&member);
    pair_close(&p);
}

/* Watchers from before are told that they are too late. */
TEST(we_start_from_what_cleatutl_restores_and_bumps)
{
    struct pair p;
    pair_open(&p);
    struct peer member;
    peer_open_ours(&member, arena_printf(&p.arena, "%s/restored", test_tmp_dir()));

    check_restored(&p, &member, "--bump-revision 1000000 --mark-compacted");
    CHECK(peer_json_number(PEER_CTL(&member, "get kept -w json"), "mod_revision") > 1000000);
    const char *late = PEER_CTL(&member, "watch kept --rev 3 2>&1 || true");
    CHECK(strstr(late, "required revision has been compacted"));
    peer_stop(&member);

    peer_close(&member);
    pair_close(&p);
}

TEST(etcd_starts_from_what_cleatutl_defragments)
{
    struct pair p;
    pair_open(&p);

    const char *said = run(&p, p.ours, "defrag --data-dir data");
    CHECK(strstr(said, "finished defragmenting directory") && strstr(said, "status 0"));
    peer_start(&p.etcd, "");
    CHECK_STR(PEER_CTL(&p.etcd, "get kept --print-value-only"), "value");
    CHECK(strstr(run(&p, p.ours, "defrag --data-dir data"), "status 1")); /* somebody is there */
    peer_stop(&p.etcd);

    check_alike(&p, "defrag --data-dir no-dir");
    pair_close(&p);
}

/* What is told on the way has a time and a place in it: without them. */
static const char *storage_version(struct pair *p, const char *data_dir)
{
    return peer_run(&p->arena, "%s db %s/member/snap/db | grep storageVersion || true", p->ours,
                    data_dir);
}

TEST(cleatutl_migrates_as_etcdutl_does)
{
    struct pair p;
    pair_open(&p);
    const char *theirs = arena_printf(&p.arena, "%s/theirs", test_tmp_dir());
    const char *ours = arena_printf(&p.arena, "%s/data", test_tmp_dir());
    static const char *const steps[] = {"3.7", "3.6",         "3.5", "3.7",
                                        "3.8", "3.8 --force", "3.6", "3.7 --force"};
    peer_run(&p.arena, "cp -r %s %s", ours, theirs);

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        const char *one =
            run(&p, "$PEERS/etcdutl",
                arena_printf(&p.arena, "migrate --data-dir theirs --target-version %s", steps[i]));
        const char *other =
            run(&p, p.ours,
                arena_printf(&p.arena, "migrate --data-dir data --target-version %s", steps[i]));
        CHECK_STR(strstr(other, "status "), strstr(one, "status "));
        CHECK_STR(storage_version(&p, ours), storage_version(&p, theirs));
    }
    check_alike(&p, "migrate --data-dir no-dir --target-version 3.6");
    check_alike(&p, "migrate --data-dir data --target-version 3");
    check_alike(&p, "migrate --data-dir data --target-version 3.4");
    peer_start(&p.etcd, "");
    CHECK_STR(PEER_CTL(&p.etcd, "get kept --print-value-only"), "value");
    peer_stop(&p.etcd);
    pair_close(&p);
}

/* The output of a migration without times, places and stacks, and the store's version after it. */
static const char *migrated(struct pair *p, const char *program, const char *base, const char *args)
{
    /* The log is only read, and large. */
    peer_run(&p->arena,
             "cd %s && rm -rf migrated && cp -rl %s migrated && rm migrated/member/snap/db && "
             "cp %s/member/snap/db migrated/member/snap",
             test_tmp_dir(), base, base);
    const char *said = peer_run(
        &p->arena,
        "program=$(realpath %s) && cd %s && { timeout 20 $program migrate --data-dir migrated "
        "--target-version %s 2>&1; echo \"status $?\"; } | "
        "sed -En '/^(Error|status)/p; s/^[^\\t]*\\t(info|warn|error)\\t[^\\t]*\\t(.*storage "
        "version.*|normal migrate.*)/\\1 \\2/p'",
        program, test_tmp_dir(), args);

    return arena_printf(&p->arena, "%s\n%s", said,
                        storage_version(p, arena_printf(&p->arena, "%s/migrated", test_tmp_dir())));
}

TEST(cleatutl_takes_any_target_version_as_etcdutl_does)
{
    static const struct {
        const char *base, *target;
    } pairs[] = {
        {"3.7", "4.0"},  {"3.7", "4.0 --force"}, {"3.7", "5.5 --force"},  {"3.7", "100.6 --force"},
        {"3.7", "3.5"},  {"3.7", "3.9 --force"}, {"3.7", "2.5 --force"},  {"3.7", "3. --force"},
        {"3.7", ".5"},   {"3.7", "3.6-rc"},      {"3.7", "+3.6 --force"}, {"3.5", "3.7"},
        {"3.5", "3.12"}, {"3.10", "3.12"},       {"3.10", "3.6"},         {"3.10", "3.5 --force"},
        {"4.6", "4.4"},  {"4.6", "4.4 --force"}, {"4.6", "4.8"},          {"4.6", "3.5 --force"},
    };
    struct pair p;
    const char *base = "";
    pair_open(&p);

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        if (strcmp(base, pairs[i].base) != 0)
            run(&p, gate_program(GATE_PEERS, "etcdutl"),
                arena_printf(&p.arena, "migrate --data-dir data --target-version %s --force",
                             pairs[i].base));
        base = pairs[i].base;
        const char *theirs =
            migrated(&p, gate_program(GATE_PEERS, "etcdutl"), "data", pairs[i].target);
        const char *ours = migrated(&p, p.ours, "data", pairs[i].target);
        if (strcmp(theirs, ours) != 0)
            test_fail(__FILE__, __LINE__, "from %s to %s:\n%s\nours:\n%s", base, pairs[i].target,
                      theirs, ours);
    }
    CHECK(strstr(migrated(&p, p.ours, "data", "4.0 --force"),
                 "forcefully set storage version\t{\"storage-version\": \"4.0\"}"));
    pair_close(&p);
}
