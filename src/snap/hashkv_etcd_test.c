/*
 * The same random operations in etcd and in our mvcc: HashKV must be the same, at every revision,
 * before, after and between compactions; also when either store is handed to the other.
 */
#include "base/rng.h"
#include "harness/peer_test.h"
#include "io/disk.h"
#include "io/io.h"
#include "mvcc/mvcc_rig_test.h"
#include "snap/transfer_rig_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 12, HASHES = 4, COMPACTIONS_MAX = 8 };

struct twins {
    struct peer etcd;
    struct mvcc_rig ours;
    struct rng rng;
    int64_t lease;
    uint64_t number; /* of the last value */
    int64_t compacted[COMPACTIONS_MAX];
    size_t compacted_count;
};

static void twins_open(struct twins *t)
{
    char dir[256];

    t->compacted_count = 0;
    snprintf(dir, sizeof(dir), "%s/data", test_tmp_dir());
    peer_open(&t->etcd, dir);
    peer_start(&t->etcd, "--unsafe-no-fsync");
    mvcc_rig_init(&t->ours, BACKEND_RIG_LMDB);
    rng_seed(&t->rng, test_seed());
    const char *granted = PEER_CTL(&t->etcd, "lease grant 100000");
    CHECK_EQ(sscanf(granted, "lease %" SCNx64 " granted", (uint64_t *)&t->lease), 1);
}

/* --- operations --------------------------------------------------------------------------- */

static unsigned any_key(struct twins *t)
{
    return (unsigned)rng_below(&t->rng, KEYS);
}

static void put(struct twins *t)
{
    char key[8], value[24];
    bool leased = rng_chance(&t->rng, 1, 4);

    snprintf(key, sizeof(key), "k%02u", any_key(t));
    snprintf(value, sizeof(value), "value%" PRIu64, ++t->number);
    PEER_CTL(&t->etcd, "put %s %s --lease=%" PRIx64, key, value, leased ? (uint64_t)t->lease : 0);
    mvcc_rig_put_leased(&t->ours, key, value, leased ? t->lease : 0);
}

static void delete_range(struct twins *t)
{
    char key[8], end[8];
    unsigned from = any_key(t), to = from + 1 + (unsigned)rng_below(&t->rng, 3);

    snprintf(key, sizeof(key), "k%02u", from);
    snprintf(end, sizeof(end), "k%02u", to);
    PEER_CTL(&t->etcd, "del %s %s", key, end);
    struct mvcc_delete_range d = {.range = key_range(bytes_of_str(key), bytes_of_str(end))};
    mvcc_rig_begin(&t->ours);
    mvcc_delete_range_begin(t->ours.m, &d);
    while (!mvcc_delete_range_some(t->ours.m, &d, 2))
        ;
    mvcc_rig_end(&t->ours);
}

/* Puts and deletes of different keys in one transaction. */
static void txn(struct twins *t)
{
    struct buf ops = {0};
    unsigned key = any_key(t), changes = 2 + (unsigned)rng_below(&t->rng, 4);

    mvcc_rig_begin(&t->ours);
    for (unsigned i = 0; i < changes; i++) {
        char name[8], value[24];
        snprintf(name, sizeof(name), "k%02u", (key + i * 5) % KEYS);
        if (rng_chance(&t->rng, 1, 3)) {
            buf_printf(&ops, "del %s\\n", name);
            mvcc_delete(t->ours.m, bytes_of_str(name));
        } else {
            snprintf(value, sizeof(value), "value%" PRIu64, ++t->number);
            buf_printf(&ops, "put %s %s\\n", name, value);
            mvcc_put(t->ours.m, bytes_of_str(name), bytes_of_str(value), 0);
        }
    }
    mvcc_rig_end(&t->ours);
    peer_run(&t->etcd.arena, "printf '\\n%s\\n\\n' | $PEERS/etcdctl --endpoints %s txn",
             buf_str(&ops), t->etcd.client_url);
    buf_free(&ops);
}

static void operate(struct twins *t, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned die = (unsigned)rng_below(&t->rng, 10);
        if (die < 6)
            put(t);
        else if (die < 8)
            delete_range(t);
        else
            txn(t);
    }
}

static void delete_everything(struct twins *t)
{
    PEER_CTL(&t->etcd, "del '' --prefix");
    struct mvcc_delete_range d = {.range = key_range(BYTES("\0"), BYTES("\0"))};
    mvcc_rig_begin(&t->ours);
    mvcc_delete_range_begin(t->ours.m, &d);
    while (!mvcc_delete_range_some(t->ours.m, &d, 100))
        ;
    mvcc_rig_end(&t->ours);
}

static void compact(struct twins *t, int64_t revision, bool remove)
{
    PEER_CTL(&t->etcd, "compact %" PRId64 " --physical", revision);
    CHECK_EQ(mvcc_rig_compact(&t->ours, revision), MVCC_OK);
    if (!remove)
        return;
    mvcc_rig_settle(&t->ours);
    t->compacted[t->compacted_count++] = revision;
}

/* --- comparing ---------------------------------------------------------------------------- */

static void check_hash(struct twins *t, int64_t revision)
{
    struct mvcc_hash h = {.revision = revision};
    const char *json =
        PEER_CTL(&t->etcd, "endpoint hashkv --rev %" PRId64 " -w json 2>/dev/null", revision);

    CHECK_EQ(mvcc_hash_open(t->ours.m, &h), MVCC_OK);
    while (!mvcc_hash_some(t->ours.m, &h, 5))
        ;
    CHECK_EQ(h.hash, peer_json_number(json, "hash"));
    CHECK_EQ(h.compact_revision, peer_json_number(json, "compact_revision"));
    CHECK_EQ(h.revision, peer_json_number(json, "hash_revision"));
    CHECK_EQ(mvcc_revision(t->ours.m), peer_json_number(json, "revision"));
    mvcc_hash_close(t->ours.m, &h);
}

/* At the newest revision and at some above the last compaction. */
static void check_hashes(struct twins *t)
{
    int64_t newest = mvcc_revision(t->ours.m);
    int64_t low = mvcc_compact_revision(t->ours.m) + 1;

    check_hash(t, newest);
    for (int i = 0; i < HASHES; i++)
        check_hash(t, (int64_t)rng_between(&t->rng, low > 2 ? (uint64_t)low : 2, (uint64_t)newest));
    for (size_t i = 0; i < t->compacted_count; i++) /* both remember them */
        check_hash(t, t->compacted[i]);
}

/* What etcdutl makes of a db file of ours. */
static int64_t hash_of_file(struct twins *t, const char *db, int64_t revision)
{
    const char *json = peer_run(&t->etcd.arena,
                                "cp %s %s.copy && $PEERS/etcdutl hashkv %s.copy --rev %" PRId64
                                " -w json 2>/dev/null",
                                db, db, db, revision);

    return peer_json_number(json, "hash");
}

static void must(enum err e, struct buf *why)
{
    if (e != ERR_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", err_text(e), buf_str(why));
}

/* Our store becomes a db, and etcd finds the same hashes in it. */
static void check_export(struct twins *t)
{
    struct arena *a = &t->etcd.arena;
    struct loop *loop;
    struct buf why = {0};
    struct snap_copied copied;
    int64_t low = mvcc_compact_revision(t->ours.m) + 1, newest = mvcc_revision(t->ours.m);
    int64_t revisions[HASHES];
    uint32_t hashes[HASHES];

    for (int i = 0; i < HASHES; i++) {
        revisions[i] = i ? (int64_t)rng_between(&t->rng, (uint64_t)low, (uint64_t)newest) : newest;
        hashes[i] = mvcc_rig_hash(&t->ours, revisions[i]);
    }
    mvcc_rig_commit(&t->ours);
    const char *dir = arena_printf(a, "%s/exported", test_tmp_dir());
    const char *from = arena_printf(a, "%s", t->ours.backend_rig.dir);
    mvcc_rig_free(&t->ours);
    peer_run(a, "mkdir -p %s/member/snap && mv %s %s/member/" SNAP_STORE_NAME, dir, from, dir);

    CHECK_EQ(loop_open(&(struct loop_options){0}, &loop), ERR_OK);
    must(snap_export(loop_io(loop)->disk, &(struct snap_place){.data_dir = dir, .why = &why},
                     &copied),
         &why);
    loop_close(loop);
    for (int i = 0; i < HASHES; i++)
        CHECK_EQ(hashes[i],
                 hash_of_file(t, arena_printf(a, "%s/member/snap/db", dir), revisions[i]));
    buf_free(&why);
}

/* etcd's directory becomes a store of ours, and we find etcd's hashes in it. */
static void check_import(struct twins *t, int64_t revision, int64_t hash)
{
    struct loop *loop;
    struct buf why = {0};
    struct snap_copied copied;
    struct backend *b;
    struct mvcc_hash h = {.revision = revision};
    struct mvcc *m;

    CHECK_EQ(loop_open(&(struct loop_options){0}, &loop), ERR_OK);
    struct disk *disk = loop_io(loop)->disk;
    must(rig_import(disk, &(struct snap_place){.data_dir = t->etcd.dir, .why = &why}, &copied),
         &why);
    char *dir = snap_store_dir(t->etcd.dir);
    must(backend_open(&(struct backend_options){.disk = disk, .dir = dir, .why = &why}, &b), &why);
    must(mvcc_open(&(struct mvcc_options){.backend = b}, &why, &m), &why);
    CHECK_EQ(mvcc_hash_open(m, &h), MVCC_OK);
    while (!mvcc_hash_some(m, &h, 100))
        ;
    CHECK_EQ(h.hash, hash);
    mvcc_hash_close(m, &h);
    mvcc_check_store(m);
    mvcc_close(m);
    backend_close(b);
    mem_free(dir);
    loop_close(loop);
    buf_free(&why);
}

TEST(hashkv_equals_that_of_etcd)
{
    struct twins t;

    twins_open(&t);
    operate(&t, 25);
    check_hashes(&t);
    compact(&t, mvcc_revision(t.ours.m) / 2, true);
    check_hashes(&t);
    operate(&t, 25);
    check_hashes(&t);
    compact(&t, mvcc_revision(t.ours.m), true);
    operate(&t, 10);
    check_hashes(&t);
    delete_everything(&t); /* nothing would be kept, so what was kept before counts */
    check_hash(&t, mvcc_revision(t.ours.m));
    compact(&t, mvcc_revision(t.ours.m), true); /* which keeps tombstones, and does not hash them */
    check_hash(&t, mvcc_revision(t.ours.m));
    operate(&t, 10);
    check_hashes(&t);
    compact(&t, mvcc_revision(t.ours.m) - 5, false); /* ours has not removed anything yet */
    operate(&t, 5);
    check_hashes(&t);

    int64_t newest = mvcc_revision(t.ours.m);
    int64_t hash = mvcc_rig_hash(&t.ours, newest);
    peer_stop(&t.etcd);
    check_export(&t); /* with a compaction that etcd has to take up */
    check_import(&t, newest, hash);
    peer_close(&t.etcd);
}
