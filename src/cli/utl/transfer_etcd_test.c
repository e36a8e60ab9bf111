/*
 * Real etcd's data directory, imported, exported, and given back to it. Here and not in snap,
 * because the log's part of the story takes the wal room too.
 */
#include "backend/backend.h"
#include "harness/peer_test.h"
#include "harness/test.h"
#include "io/loop.h"
#include "snap/bolt.h"
#include "snap/transfer_rig_test.h"
#include "wal/wal.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

/* ---- Our side ---- */

struct ours {
    struct arena arena;
    struct loop *loop;
    struct disk *disk;
    const char *dir, *db, *imported, *store, *wal;
    struct logger logger;
    struct wal_options wal_options;
    struct buf why;
    struct wal_place snapshot; /* the last valid one in the log */
    struct snap_copied copied;
};

static void ours_init(struct ours *o, const char *dir)
{
    *o = (struct ours){.dir = dir, .logger = {.level = LOG_FATAL}};
    o->db = arena_printf(&o->arena, "%s/member/snap/db", dir);
    o->imported = arena_printf(&o->arena, "%s.imported", o->db);
    o->store = arena_printf(&o->arena, "%s/member/" SNAP_STORE_NAME, dir);
    o->wal = arena_printf(&o->arena, "%s/member/wal", dir);
    o->wal_options = (struct wal_options){.dir = o->wal, .logger = &o->logger};
    CHECK_EQ(loop_open(&(struct loop_options){0}, &o->loop), ERR_OK);
    o->disk = loop_io(o->loop)->disk;
}

static void ours_free(struct ours *o)
{
    loop_close(o->loop);
    buf_free(&o->why);
    arena_free(&o->arena);
}

static void find_snapshot(struct ours *o)
{
    struct wal_snapshots all;

    CHECK_EQ(wal_snapshots(o->disk, &o->wal_options, &o->arena, &all), ERR_OK);
    CHECK(all.count > 0);
    o->snapshot = (struct wal_place){all.at[all.count - 1].index, all.at[all.count - 1].term};
}

typedef enum err transfer(struct disk *disk, const struct snap_place *place,
                          struct snap_copied *out);

static void run_transfer(struct ours *o, transfer *t)
{
    struct snap_place place = {.data_dir = o->dir, .wal_index = o->snapshot.index, .why = &o->why};
    enum err e = t(o->disk, &place, &o->copied);

    if (e != ERR_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", err_text(e), buf_str(&o->why));
}

/* ---- Key by key ---- */

static uint64_t compare_bucket(struct bolt *b, struct backend_view *v, enum bucket bucket)
{
    struct bolt_cursor *theirs;
    struct backend_cursor ours;
    struct bolt_entry entry;
    struct bytes key, value;
    struct buf want = {0};
    uint64_t count = 0;

    CHECK_EQ(bolt_cursor_open(b, bytes_of_str(bucket_name(bucket)), &theirs), ERR_OK);
    backend_cursor_open(v, bucket, (struct bytes){0}, &ours);
    while (bolt_cursor_next(theirs, &entry) == ERR_OK) {
        buf_clear(&want);
        CHECK_EQ(bolt_cursor_value(theirs, entry.value_bytes, &want), ERR_OK);
        CHECK_EQ(backend_cursor_next(&ours, &key, &value), ERR_OK);
        CHECK_BYTES(key, entry.key);
        CHECK_BYTES(value, buf_bytes(&want));
        count++;
    }
    CHECK_EQ(backend_cursor_next(&ours, &key, &value), ERR_END);
    backend_cursor_close(&ours);
    bolt_cursor_close(theirs);
    buf_free(&want);
    return count;
}

/* Our store is what the bolt reader finds in the file it was made from. */
static void compare_with_imported(struct ours *o)
{
    struct disk_file *file;
    struct bolt_file source;
    struct bolt_fault fault;
    struct bolt *b;
    struct backend *store;
    struct backend_view v;
    uint64_t count = 0;

    CHECK_EQ(disk_open(o->disk, o->imported, DISK_READ_ONLY, 0, &file), ERR_OK);
    CHECK_EQ(bolt_file_init(&source, o->disk, file), ERR_OK);
    CHECK_EQ(bolt_open(&source.source, BOLT_LIVE, &fault, &b), ERR_OK);
    CHECK_EQ(backend_open(&(struct backend_options){.disk = o->disk, .dir = o->store}, &store),
             ERR_OK);
    CHECK_EQ(backend_applied(store).index, o->copied.index);
    backend_view_open(store, &v);
    for (int i = 0; i < BUCKET_COUNT; i++)
        count += compare_bucket(b, &v, (enum bucket)i);
    CHECK_EQ(count, o->copied.entries);
    backend_view_close(&v);
    backend_close(store);
    bolt_close(b);
    CHECK_EQ(disk_close(o->disk, file), ERR_OK);
}

/* ---- Their side ---- */

static void open_peer(struct peer *p)
{
    char dir[256];

    snprintf(dir, sizeof(dir), "%s/data", test_tmp_dir());
    peer_open(p, dir);
}

/* As a power cut does it, but for what the kernel still writes. */
static void kill_peer(struct peer *p)
{
    int status;

    CHECK_EQ(kill(p->pid, SIGKILL), 0);
    CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
    p->pid = 0;
}

struct status {
    int64_t hash, revision, keys, hashkv;
};

/* On copies: the tools may write to what they open. */
static struct status status_of(struct ours *o, const char *db)
{
    struct status s;
    const char *copy = arena_printf(&o->arena, "%s/copy.db", test_tmp_dir());

    peer_run(&o->arena, "cp '%s' '%s'", db, copy);
    const char *json =
        peer_run(&o->arena, "$PEERS/etcdutl snapshot status '%s' -w json 2>/dev/null", copy);
    s.hash = peer_json_number(json, "hash");
    s.revision = peer_json_number(json, "revision");
    s.keys = peer_json_number(json, "totalKey");
    json = peer_run(&o->arena, "$PEERS/etcdutl hashkv '%s' -w json 2>/dev/null", copy);
    s.hashkv = peer_json_number(json, "hash");
    return s;
}

static void check_same_status(struct status got, struct status want)
{
    CHECK_EQ(got.hash, want.hash);
    CHECK_EQ(got.revision, want.revision);
    CHECK_EQ(got.keys, want.keys);
    CHECK_EQ(got.hashkv, want.hashkv);
}

/* The exported file is as good a start for a new cluster as one of etcd's own. A file that is not a
 * backup has no digest, hence the flag. */
static void check_restores(struct ours *o, struct status want)
{
    const char *dir = arena_printf(&o->arena, "%s/restored", test_tmp_dir());

    peer_run(&o->arena,
             "$PEERS/etcdutl snapshot restore '%s' --skip-hash-check --data-dir '%s' 2>&1", o->db,
             dir);
    struct status got = status_of(o, arena_printf(&o->arena, "%s/member/snap/db", dir));
    CHECK_EQ(got.revision, want.revision);
    CHECK_EQ(got.keys, want.keys);
    CHECK_EQ(got.hashkv, want.hashkv); /* the other hash covers the members, which are new */
}

/* Many puts in few calls: transactions, each as long as etcd allows by default. */
static void put_many(struct peer *p, const char *prefix, int count)
{
    enum { OPS_MAX = 120 };
    const char *path = arena_printf(&p->arena, "%s/txn", test_tmp_dir());

    for (int from = 0; from < count; from += OPS_MAX) {
        FILE *f = fopen(path, "we");
        CHECK(f != NULL);
        fprintf(f, "\n");
        for (int i = from; i < count && i < from + OPS_MAX; i++)
            fprintf(f, "put %s%d value-of-%s-%d\n", prefix, i, prefix, i);
        fprintf(f, "\n\n");
        CHECK_EQ(fclose(f), 0);
        PEER_CTL(p, "txn <'%s'", path);
    }
}

static void fill(struct peer *p)
{
    const char *big = arena_printf(&p->arena, "%s/big", test_tmp_dir());

    put_many(p, "k", 500);
    for (int i = 0; i < 30; i++)
        PEER_CTL(p, "put k%d again", i);
    PEER_CTL(p, "del k4 --prefix");
    PEER_CTL(p, "put k4 back");
    const char *grant = PEER_CTL(p, "lease grant 3600 -w json");
    PEER_CTL(p, "put leased value --lease=%" PRIx64, (uint64_t)peer_json_number(grant, "ID"));
    PEER_CTL(p, "role add reader");
    PEER_CTL(p, "user add alice:secret");
    PEER_CTL(p, "user grant-role alice reader");
    peer_run(&p->arena, "head -c 700000 /dev/zero | tr '\\0' x >'%s'", big);
    PEER_CTL(p, "put big <'%s'", big);
}

static const char *everything(struct peer *p)
{
    return PEER_CTL(p, "get '' --prefix");
}

TEST(etcds_directory_is_imported_exported_and_served_again)
{
    struct peer p;
    struct ours o;
    open_peer(&p);
    peer_start(&p, "--snapshot-count 20");
    fill(&p);
    const char *all = everything(&p);
    const char *leases = PEER_CTL(&p, "lease list");
    peer_stop(&p);
    ours_init(&o, p.dir);
    struct status before = status_of(&o, o.db);

    find_snapshot(&o);
    CHECK(o.snapshot.index > 0);
    run_transfer(&o, rig_import);
    CHECK(o.copied.index >= o.snapshot.index);
    CHECK(o.copied.entries > 500);
    compare_with_imported(&o);

    run_transfer(&o, snap_export);
    check_same_status(status_of(&o, o.db), before);
    check_restores(&o, before);
    ours_free(&o);

    peer_start(&p, "");
    CHECK_STR(everything(&p), all);
    CHECK_STR(PEER_CTL(&p, "lease list"), leases);
    CHECK(strstr(PEER_CTL(&p, "user get alice"), "reader") != NULL);
    PEER_CTL(&p, "put more after");
    CHECK_STR(PEER_CTL(&p, "get more --print-value-only"), "after");
    peer_stop(&p);
    peer_close(&p);
}

/* ---- The log's tail ---- */

struct tail {
    struct ours *ours;
    uint64_t behind; /* entries up to here are in the store */
    unsigned puts;
    bool seen[64];
};

static void see_entry(void *context, const struct raft_entry *e)
{
    struct tail *t = context;
    struct pb_internal_raft_request r;
    unsigned i = 0;

    if (e->index <= t->behind || e->type != RAFT_ENTRY_NORMAL || e->data.len == 0)
        return;
    CHECK_EQ(pb_decode_internal_raft_request(e->data, &t->ours->arena, &r), ERR_OK);
    if (!r.put)
        return;
    const char *key = arena_copy_str(&t->ours->arena, r.put->key);
    if (sscanf(key, "tail%u", &i) == 1 && i < ARRAY_LEN(t->seen)) {
        CHECK_BYTES(r.put->value, BYTES("in the log"));
        t->seen[i] = true;
        t->puts++;
    }
}

/* A server killed before its store caught up: store and tail together have what it acknowledged,
 * and the exported directory still has both. */
TEST(what_a_killed_etcd_had_only_in_its_log_is_found_behind_the_imported_store)
{
    enum { TAIL = 40 };
    struct peer p;
    struct ours o;
    struct wal_found found;
    open_peer(&p);
    peer_start(&p, "");
    put_many(&p, "k", 200);
    peer_stop(&p);
    peer_start(&p, "--backend-batch-interval 1h --backend-batch-limit 1000000");
    for (int i = 0; i < TAIL; i++)
        PEER_CTL(&p, "put tail%d 'in the log'", i);
    const char *all = everything(&p);
    kill_peer(&p);

    ours_init(&o, p.dir);
    find_snapshot(&o);
    run_transfer(&o, rig_import);
    compare_with_imported(&o);
    struct tail tail = {.ours = &o, .behind = o.copied.index};
    CHECK_EQ(wal_replay(o.disk, &o.wal_options, o.snapshot,
                        &(struct wal_visitor){.on_entry = see_entry, .context = &tail}, &found),
             ERR_OK);
    CHECK(found.last_index >= o.copied.index + TAIL);
    CHECK_EQ(tail.puts, TAIL);
    for (int i = 0; i < TAIL; i++)
        CHECK(tail.seen[i]);
    run_transfer(&o, snap_export);
    ours_free(&o);

    peer_start(&p, "");
    CHECK_STR(everything(&p), all);
    peer_stop(&p);
    peer_close(&p);
}

TEST(a_directory_that_etcd_is_using_is_not_imported)
{
    struct peer p;
    struct ours o;
    open_peer(&p);
    peer_start(&p, "");
    ours_init(&o, p.dir);

    enum err e =
        rig_import(o.disk, &(struct snap_place){.data_dir = o.dir, .why = &o.why}, &o.copied);
    CHECK_EQ(e, ERR_BUSY);
    PEER_CTL(&p, "put still alive");
    ours_free(&o);
    peer_stop(&p);
    peer_close(&p);
}
