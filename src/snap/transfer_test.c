/* Import and export: equal content, every state a crash can leave, and what is refused. */
#include "backend/backend.h"
#include "io/disk.h"
#include "io/loop.h"
#include "pb/codec.h"
#include "snap/bolt_rig_test.h"
#include "snap/transfer_rig_test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INDEX = 4711, TERM = 7 };

/* ---- A data directory and what should be in it ---- */

struct stage {
    struct arena arena;
    const char *dir, *db, *imported, *store, *note;
    struct rig_bucket buckets[BUCKET_COUNT];
    struct buf image;
    struct loop *loop;
    struct disk *disk;
    struct buf why;
    struct snap_copied copied;
};

static struct bytes be64(struct stage *s, uint64_t value)
{
    uint8_t *at = arena_alloc(&s->arena, 8);

    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (56 - 8 * i));
    return bytes_of(at, 8);
}

static void add(struct stage *s, enum bucket bucket, const char *key, struct bytes value)
{
    rig_add(&s->buckets[bucket], bytes_of_str(key), value);
}

static void add_revision(struct stage *s, uint64_t main, bool tombstone, size_t value_len)
{
    uint8_t *key = arena_alloc(&s->arena, 18);
    struct buf encoded = {0};
    uint8_t *value = arena_alloc(&s->arena, value_len); /* zeroes, which a value may end with */

    memcpy(key, be64(s, main).at, 8);
    key[8] = '_';
    key[17] = 't';
    struct pb_key_value kv = {.key = bytes_of_str(arena_printf(&s->arena, "k%" PRIu64, main % 97))};
    if (!tombstone) {
        kv.create_revision = 2;
        kv.mod_revision = (int64_t)main;
        kv.version = 1;
        kv.value = bytes_of(value, value_len);
    }
    pb_encode_key_value(&kv, &encoded);
    rig_add(&s->buckets[BUCKET_KEY], bytes_of(key, tombstone ? 18 : 17),
            arena_copy(&s->arena, buf_bytes(&encoded)));
    buf_free(&encoded);
}

/* Some names longer than LMDB's keys, with equal starts; in order. */
static void add_long_names(struct stage *s)
{
    for (int i = 0; i < 6; i++) {
        const char *name = arena_printf(&s->arena, "user%d%0*d", i / 3, 500 + 400 * (i % 3), 0);
        add(s, BUCKET_AUTH_USERS, name, bytes_of_str(arena_printf(&s->arena, "user number %d", i)));
    }
}

static void fill(struct stage *s, uint64_t revisions)
{
    add(s, BUCKET_ALARM, "\b\x01\x10\x01", BYTES(""));
    add(s, BUCKET_AUTH, "authEnabled", BYTES("\0"));
    add(s, BUCKET_AUTH, "authRevision", be64(s, 1));
    add(s, BUCKET_AUTH_ROLES, "root", BYTES("\n\4root"));
    add_long_names(s);
    add(s, BUCKET_CLUSTER, "clusterVersion", BYTES("3.7.0"));
    for (uint64_t i = 0; i < revisions; i++)
        add_revision(s, i + 2, i % 5 == 4, i % 41 == 0 ? 70000 : i % 60);
    add(s, BUCKET_LEASE, "leaseid8", BYTES("\b\1\x10\x3c"));
    add(s, BUCKET_MEMBERS, "8e9e05c52164694d", BYTES("{\"id\":10276657743932975437}"));
    add(s, BUCKET_MEMBERS_REMOVED, "8e9e05c52164694e", BYTES("removed"));
    add(s, BUCKET_META, "confState", BYTES("{\"voters\":[10276657743932975437]}"));
    add(s, BUCKET_META, "consistent_index", be64(s, INDEX));
    add(s, BUCKET_META, "storageVersion", BYTES("3.7.0"));
    add(s, BUCKET_META, "term", be64(s, TERM));
}

static void open_world(struct stage *s)
{
    CHECK_EQ(loop_open(&(struct loop_options){0}, &s->loop), ERR_OK);
    s->disk = loop_io(s->loop)->disk;
}

static void close_world(struct stage *s)
{
    loop_close(s->loop);
    s->loop = NULL;
}

static void name_files(struct stage *s, const char *name)
{
    s->dir = arena_printf(&s->arena, "%s/%s", test_tmp_dir(), name);
    s->db = arena_printf(&s->arena, "%s/member/snap/db", s->dir);
    s->imported = arena_printf(&s->arena, "%s.imported", s->db);
    s->store = arena_printf(&s->arena, "%s/member/store", s->dir);
    s->note = arena_printf(&s->arena, "%s/transfer", s->store);
}

static void make_dirs(struct stage *s)
{
    CHECK_EQ(disk_make_dir(s->disk, arena_printf(&s->arena, "%s/member/snap", s->dir), 0700,
                           DISK_PARENTS),
             ERR_OK);
}

/* An etcd's directory with this many revisions. */
static void stage_init(struct stage *s, uint64_t revisions)
{
    *s = (struct stage){0};
    for (int i = 0; i < BUCKET_COUNT; i++)
        s->buckets[i].name = bytes_of_str(bucket_name((enum bucket)i));
    fill(s, revisions);
    name_files(s, "data");
    open_world(s);
    make_dirs(s);
    rig_write(s->buckets, BUCKET_COUNT, NULL, &s->image);
    rig_write_file(s->db, buf_bytes(&s->image));
}

static void stage_free(struct stage *s)
{
    if (s->loop)
        loop_close(s->loop);
    rig_free(s->buckets, BUCKET_COUNT);
    buf_free(&s->image);
    buf_free(&s->why);
    arena_free(&s->arena);
}

static enum err try_import(struct stage *s, uint64_t wal_index)
{
    buf_clear(&s->why);
    return rig_import(
        s->disk, &(struct snap_place){.data_dir = s->dir, .wal_index = wal_index, .why = &s->why},
        &s->copied);
}

static enum err try_export(struct stage *s, uint64_t wal_index)
{
    buf_clear(&s->why);
    return snap_export(
        s->disk, &(struct snap_place){.data_dir = s->dir, .wal_index = wal_index, .why = &s->why},
        &s->copied);
}

static enum err try_truth(struct stage *s, uint64_t wal_index, struct snap_truth *out)
{
    buf_clear(&s->why);
    return snap_truth(
        s->disk, &(struct snap_place){.data_dir = s->dir, .wal_index = wal_index, .why = &s->why},
        out);
}

#define CHECK_WORKS(s, call)                                                                       \
    do {                                                                                           \
        enum err works_ = (call);                                                                  \
        if (works_ != ERR_OK)                                                                      \
            test_fail(__FILE__, __LINE__, "%s: %s (%s)", #call, err_text(works_),                  \
                      buf_str(&(s)->why));                                                         \
    } while (0)

#define CHECK_SAYS(s, text)                                                                        \
    do {                                                                                           \
        if (!strstr(buf_str(&(s)->why), (text)))                                                   \
            test_fail(__FILE__, __LINE__, "no \"%s\" in: %s", (text), buf_str(&(s)->why));         \
    } while (0)

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- Comparing ---- */

static void check_store_bucket(struct backend_view *v, enum bucket bucket,
                               const struct rig_bucket *want)
{
    struct backend_cursor c;
    struct bytes key, value;

    backend_cursor_open(v, bucket, (struct bytes){0}, &c);
    for (size_t i = 0; i < want->count; i++) {
        CHECK_EQ(backend_cursor_next(&c, &key, &value), ERR_OK);
        CHECK_BYTES(key, want->entries[i].key);
        CHECK_BYTES(value, want->entries[i].value);
    }
    CHECK_EQ(backend_cursor_next(&c, &key, &value), ERR_END);
    backend_cursor_close(&c);
}

static void check_store(struct stage *s)
{
    struct backend *b;
    struct backend_view v;

    CHECK_EQ(backend_open(&(struct backend_options){.disk = s->disk, .dir = s->store}, &b), ERR_OK);
    CHECK_EQ(backend_applied(b).index, INDEX);
    CHECK_EQ(backend_durable(b).term, TERM);
    backend_view_open(b, &v);
    for (int i = 0; i < BUCKET_COUNT; i++)
        check_store_bucket(&v, (enum bucket)i, &s->buckets[i]);
    backend_view_close(&v);
    backend_close(b);
}

static void check_db(struct stage *s, const char *path)
{
    struct buf file = {0};

    rig_read_file(path, &file);
    rig_check_content(buf_bytes(&file), BOLT_IMAGE, s->buckets, BUCKET_COUNT);
    buf_free(&file);
}

/* ---- There and back ---- */

TEST(what_is_imported_comes_back_from_export_and_can_be_imported_again)
{
    struct stage s;
    struct buf file = {0};
    enum snap_holds holds;
    uint64_t entries = 0;
    stage_init(&s, 3000);
    for (int i = 0; i < BUCKET_COUNT; i++)
        entries += s.buckets[i].count;

    CHECK_WORKS(&s, try_import(&s, INDEX));
    CHECK_EQ(s.copied.index, INDEX);
    CHECK_EQ(s.copied.term, TERM);
    CHECK_EQ(s.copied.entries, entries);
    CHECK(!there(s.db));
    CHECK(!there(s.note));
    check_db(&s, s.imported);
    check_store(&s);

    CHECK_WORKS(&s, try_export(&s, INDEX));
    CHECK_EQ(s.copied.index, INDEX);
    CHECK_EQ(s.copied.entries, entries);
    CHECK(!there(s.store));
    CHECK_EQ(snap_look(s.disk, s.dir, &holds), ERR_OK);
    CHECK_EQ(holds, SNAP_HOLDS_DB);
    check_db(&s, s.db);
    rig_read_file(s.db, &file);
    CHECK(bytes_equal(buf_bytes(&file), buf_bytes(&s.image))); /* the writer is one and the same */

    CHECK_WORKS(&s, try_import(&s, INDEX));
    check_store(&s);
    buf_free(&file);
    stage_free(&s);
}

/* Some hundred MiB would do, but so do values that fill a batch each. */
TEST(an_import_larger_than_a_batch_is_committed_in_several)
{
    struct stage s;
    struct buf image = {0};
    stage_init(&s, 0);
    rig_free(&s.buckets[BUCKET_KEY], 1);
    s.buckets[BUCKET_KEY] = (struct rig_bucket){.name = BYTES("key")};
    for (uint64_t i = 0; i < 5; i++)
        add_revision(&s, i + 2, false, SNAP_IMPORT_BATCH_BYTES / 3 * 2);
    rig_write(s.buckets, BUCKET_COUNT, NULL, &image);
    rig_write_file(s.db, buf_bytes(&image));

    CHECK_WORKS(&s, try_import(&s, 0));

    check_store(&s);
    CHECK_WORKS(&s, try_export(&s, 0));
    check_db(&s, s.db);
    buf_free(&image);
    stage_free(&s);
}

/* ---- What a crash leaves ---- */

static void write_note(struct stage *s, const char *text)
{
    rig_write_file(s->note, bytes_of_str(text));
}

/* Both stores with equal content, as in the middle of either way. */
static void stage_both(struct stage *s, const char *note)
{
    stage_init(s, 20);
    CHECK_WORKS(s, try_import(s, 0));
    CHECK_EQ(rename(s->imported, s->db), 0);
    if (note)
        write_note(s, note);
}

TEST(an_import_that_had_only_to_rename_the_db_is_finished)
{
    struct stage s;
    struct snap_truth truth;
    stage_both(&s, "import txid 2 index 4711\n");

    CHECK_WORKS(&s, try_truth(&s, INDEX, &truth));

    CHECK_EQ(truth.holds, SNAP_HOLDS_STORE);
    CHECK_EQ(truth.index, INDEX);
    CHECK_EQ(truth.term, TERM);
    CHECK(!there(s.db));
    CHECK(!there(s.note));
    check_db(&s, s.imported);
    check_store(&s);
    stage_free(&s);
}

TEST(an_export_that_had_only_to_remove_the_store_is_finished)
{
    struct stage s;
    struct snap_truth truth;
    stage_both(&s, "export index 4711\n");

    CHECK_WORKS(&s, try_truth(&s, INDEX, &truth));

    CHECK_EQ(truth.holds, SNAP_HOLDS_DB);
    CHECK_EQ(truth.index, INDEX);
    CHECK(!there(s.store));
    check_db(&s, s.db);
    stage_free(&s);
}

TEST(two_stores_without_a_note_that_fits_are_refused_and_both_indexes_named)
{
    const char *notes[] = {
        NULL,
        "import txid 3 index 4711\n", /* etcd has written since */
        "import txid 2 index 4710\n",
        "export index 4710\n", /* our store has moved since */
        "export index 4712\n",
    };

    for (size_t i = 0; i < ARRAY_LEN(notes); i++) {
        struct stage s;
        struct snap_truth truth;
        stage_both(&s, notes[i]);

        CHECK_EQ(try_truth(&s, 0, &truth), ERR_EXISTS);
        CHECK_SAYS(&s, "snap/db, with consistent index 4711");
        CHECK_SAYS(&s, "store, with consistent index 4711");
        CHECK_EQ(try_import(&s, 0), ERR_EXISTS);
        CHECK_EQ(try_export(&s, 0), ERR_EXISTS);
        CHECK(there(s.db));
        check_store(&s);
        CHECK_EQ(system(arena_printf(&s.arena, "rm -r '%s'", s.dir)), 0);
        stage_free(&s);
    }
}

/* Our store has applied the log up to here by now. */
static void move_store(struct stage *s, uint64_t index)
{
    struct backend *b;

    CHECK_EQ(backend_open(&(struct backend_options){.disk = s->disk, .dir = s->store}, &b), ERR_OK);
    backend_entry_begin(b);
    backend_entry_end(b, (struct backend_position){.index = index, .term = TERM},
                      (struct bytes){0});
    CHECK_EQ(backend_commit_now(b), ERR_OK);
    backend_close(b);
}

TEST(of_two_stores_the_newer_one_is_named)
{
    struct stage s;
    stage_both(&s, NULL);

    CHECK_EQ(try_export(&s, 0), ERR_EXISTS);
    CHECK_SAYS(&s, "are there: neither is newer; move one of them away");
    move_store(&s, INDEX + 1);
    CHECK_EQ(try_export(&s, 0), ERR_EXISTS);
    CHECK_SAYS(&s, "are there: store is newer; to keep it, move snap/db away and try again");
    stage_free(&s);
}

/* An image that a leader has sent, with these many entries applied; 0: it is not whole. */
static void add_image(struct stage *s, uint64_t index)
{
    struct backend *image;

    CHECK_EQ(
        backend_image_create(&(struct backend_options){.disk = s->disk, .dir = s->store}, &image),
        ERR_OK);
    backend_put(image, BUCKET_CLUSTER, BYTES("clusterVersion"), BYTES("3.7.0"));
    if (index > 0) {
        backend_put(image, BUCKET_META, BYTES("consistent_index"), be64(s, index));
        backend_put(image, BUCKET_META, BYTES("term"), be64(s, TERM));
    }
    CHECK_EQ(backend_commit_now(image), ERR_OK);
    if (index > 0)
        CHECK_EQ(backend_image_filled(image), ERR_OK);
    backend_close(image);
}

static enum err try_export_without_log(struct stage *s)
{
    buf_clear(&s->why);
    return snap_export(s->disk,
                       &(struct snap_place){.data_dir = s->dir, .lacks_log = true, .why = &s->why},
                       &s->copied);
}

TEST(an_image_that_was_being_installed_is_exported_by_the_log_and_not_without_it)
{
    struct stage s;
    stage_init(&s, 20);
    CHECK_WORKS(&s, try_import(&s, 0));
    add_image(&s, INDEX + 5);

    CHECK_EQ(try_export_without_log(&s), ERR_NOT_FOUND);
    CHECK_SAYS(&s, "a snapshot up to entry 4716 was being installed, and the store ends at 4711");
    CHECK_SAYS(&s, "--wal-dir");
    CHECK(there(s.store));
    CHECK(!there(s.db));
    check_store(&s);

    CHECK_WORKS(&s, try_export(&s, INDEX + 5));
    CHECK_EQ(s.copied.index, INDEX + 5);
    stage_free(&s);
}

/* What is not whole, or older than the store, nobody installs. */
TEST(an_image_that_cannot_count_is_no_obstacle_to_an_export_without_the_log)
{
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        struct stage s;
        stage_init(&s, 20);
        CHECK_WORKS(&s, try_import(&s, 0));
        add_image(&s, is_whole ? INDEX - 1 : 0);

        CHECK_WORKS(&s, try_export_without_log(&s));
        CHECK_EQ(s.copied.index, INDEX);
        check_db(&s, s.db);
        CHECK_EQ(system(arena_printf(&s.arena, "rm -r '%s'", s.dir)), 0);
        stage_free(&s);
    }
}

TEST(a_note_without_a_db_is_dropped_and_the_store_counts)
{
    const char *notes[] = {"import txid 2 index 4711\n", "export index 4711\n"};

    for (size_t i = 0; i < ARRAY_LEN(notes); i++) {
        struct stage s;
        struct snap_truth truth;
        stage_both(&s, notes[i]);
        CHECK_EQ(unlink(s.db), 0);

        CHECK_WORKS(&s, try_truth(&s, INDEX, &truth));

        CHECK_EQ(truth.holds, SNAP_HOLDS_STORE);
        CHECK(!there(s.note));
        check_store(&s);
        CHECK_EQ(system(arena_printf(&s.arena, "rm -r '%s'", s.dir)), 0);
        stage_free(&s);
    }
}

TEST(a_note_that_is_none_is_damage)
{
    struct stage s;
    struct snap_truth truth;
    stage_both(&s, "import txid 2 index 47");

    CHECK_EQ(try_truth(&s, 0, &truth), ERR_CORRUPT);
    CHECK_SAYS(&s, "store/transfer: offset 0");
    stage_free(&s);
}

TEST(what_was_being_made_is_thrown_away)
{
    struct stage s;
    struct snap_truth truth;
    stage_init(&s, 20);
    const char *store_tmp = arena_printf(&s.arena, "%s.tmp", s.store);
    const char *db_tmp = arena_printf(&s.arena, "%s.tmp", s.db);
    CHECK_EQ(mkdir(store_tmp, 0700), 0);
    rig_write_file(arena_printf(&s.arena, "%s/store.mdb", store_tmp), BYTES("half"));
    rig_write_file(db_tmp, BYTES("half"));

    CHECK_WORKS(&s, try_truth(&s, INDEX, &truth));

    CHECK_EQ(truth.holds, SNAP_HOLDS_DB);
    CHECK(!there(store_tmp));
    CHECK(!there(db_tmp));
    CHECK_WORKS(&s, try_import(&s, INDEX));
    check_store(&s);
    stage_free(&s);
}

TEST(a_directory_without_a_store_holds_nothing)
{
    struct stage s;
    struct snap_truth truth;
    stage_init(&s, 1);
    CHECK_EQ(unlink(s.db), 0);

    CHECK_WORKS(&s, try_truth(&s, 0, &truth));
    CHECK_EQ(truth.holds, SNAP_HOLDS_NOTHING);
    CHECK_EQ(try_import(&s, 0), ERR_NOT_FOUND);
    CHECK_EQ(try_export(&s, 0), ERR_NOT_FOUND);
    CHECK_EQ(try_truth(&s, 5, &truth), ERR_CORRUPT); /* a log with a snapshot, and no state */

    name_files(&s, "nowhere");
    CHECK_WORKS(&s, try_truth(&s, 0, &truth));
    CHECK_EQ(truth.holds, SNAP_HOLDS_NOTHING);
    CHECK_EQ(s.why.len, 0);
    CHECK_EQ(try_import(&s, 0), ERR_NOT_FOUND);
    stage_free(&s);
}

TEST(a_store_that_ends_before_the_log_begins_is_refused_and_both_indexes_named)
{
    struct stage s;
    struct snap_truth truth;
    stage_init(&s, 5);

    CHECK_EQ(try_truth(&s, INDEX + 1, &truth), ERR_CORRUPT);
    CHECK_SAYS(&s, "4711");
    CHECK_SAYS(&s, "4712");
    CHECK_EQ(try_import(&s, INDEX + 1), ERR_CORRUPT);
    CHECK(there(s.db));
    CHECK(!there(s.store));
    CHECK_WORKS(&s, try_import(&s, INDEX));
    CHECK_EQ(try_truth(&s, INDEX + 1, &truth), ERR_CORRUPT);
    CHECK_SAYS(&s, "its consistent index 4711 is below 4712");
    CHECK_EQ(try_export(&s, INDEX + 1), ERR_CORRUPT);
    check_store(&s);
    stage_free(&s);
}

/* A leader's snapshot that etcd had received and noted in its log, and not yet made its db. */
TEST(a_received_snapshot_takes_the_place_of_an_older_db)
{
    struct stage s;
    struct snap_truth truth;
    struct rig_bucket old = {.name = BYTES("key")};
    struct buf image = {0};
    stage_init(&s, 20);
    const char *received =
        arena_printf(&s.arena, "%s/member/snap/%016x.snap.db", s.dir, (unsigned)INDEX);
    CHECK_EQ(rename(s.db, received), 0);
    rig_write(&old, 1, NULL, &image);
    rig_write_file(s.db, buf_bytes(&image));

    CHECK_EQ(try_truth(&s, INDEX + 1, &truth), ERR_CORRUPT); /* it is none of that snapshot's */
    CHECK_WORKS(&s, try_truth(&s, INDEX, &truth));
    CHECK_EQ(truth.holds, SNAP_HOLDS_DB);
    CHECK_EQ(truth.index, INDEX);
    CHECK(there(received)); /* it is only looked at, */
    struct snap_place place = {.data_dir = s.dir, .wal_index = INDEX, .why = &s.why};
    struct snap_import *import;
    CHECK_WORKS(&s, snap_import_copy(s.disk, &place, &import, &s.copied));
    snap_import_drop(import);
    CHECK(there(received)); /* or copied, */
    CHECK_WORKS(&s, try_import(&s, INDEX));
    CHECK(!there(received)); /* until it is taken over */
    CHECK(!there(s.db));
    check_db(&s, s.imported);
    check_store(&s);
    buf_free(&image);
    stage_free(&s);
}

TEST(a_received_snapshot_that_is_not_whole_or_another_is_refused)
{
    struct stage s;
    struct snap_truth truth;
    stage_init(&s, 20);
    const char *received =
        arena_printf(&s.arena, "%s/member/snap/%016x.snap.db", s.dir, (unsigned)INDEX + 1);
    rig_write_file(received, buf_bytes(&s.image));

    CHECK_EQ(try_truth(&s, INDEX + 1, &truth), ERR_CORRUPT);
    CHECK_SAYS(&s, "its consistent index 4711 is not its snapshot's, 4712");
    rig_write_file(received, bytes_of(s.image.at, s.image.len / 2));
    CHECK_EQ(try_import(&s, INDEX + 1), ERR_CORRUPT);
    CHECK_SAYS(&s, ".snap.db: offset ");
    CHECK_WORKS(&s, try_truth(&s, INDEX, &truth)); /* and a newer db is kept */
    CHECK(there(received));
    stage_free(&s);
}

/* ---- Every step interrupted ---- */

/* The real disk, whose nth call that changes or syncs something fails, or is never made. */
struct faulty {
    struct disk disk;
    struct disk *real;
    int calls, fail_at;
    bool dies;
};

enum { DIED = 42 };

static void faulty_run(struct disk *d, struct disk_op *op)
{
    struct faulty *f = (struct faulty *)d;
    bool counts = op->kind != DISK_READ && op->kind != DISK_STAT && op->kind != DISK_CLOSE;

    if (counts && ++f->calls == f->fail_at) {
        if (f->dies)
            _exit(DIED);
        op->err = ERR_IO;
        return;
    }
    f->real->ops->run(f->real, op);
}

static const struct disk_ops faulty_ops = {.run = faulty_run};

/* In a process of its own: ERR_OK, another error, or how it ended. */
static int run_interrupted(struct stage *s, bool exports, int fail_at, bool dies)
{
    int status = 0;

    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        open_world(s);
        struct faulty f = {
            .disk = {.ops = &faulty_ops}, .real = s->disk, .fail_at = fail_at, .dies = dies};
        s->disk = &f.disk;
        enum err e = exports ? try_export(s, INDEX) : try_import(s, INDEX);
        if (e != ERR_OK && s->why.len == 0)
            _exit(99); /* an error without a reason */
        _exit((int)e);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Whatever has happened, one store holds everything, and the way can be gone to its end. */
static void check_recovers(struct stage *s, bool exports)
{
    struct snap_truth truth;

    open_world(s);
    CHECK_WORKS(s, try_truth(s, INDEX, &truth));
    CHECK(truth.holds == SNAP_HOLDS_DB || truth.holds == SNAP_HOLDS_STORE);
    CHECK_EQ(truth.index, INDEX);
    if (exports && truth.holds == SNAP_HOLDS_STORE)
        CHECK_WORKS(s, try_export(s, INDEX));
    if (!exports && truth.holds == SNAP_HOLDS_DB)
        CHECK_WORKS(s, try_import(s, INDEX));
    if (exports)
        check_db(s, s->db);
    else
        check_store(s);
    CHECK(!there(s->note));
    CHECK(!there(arena_printf(&s->arena, "%s.tmp", s->store)));
    close_world(s);
}

static void settle(bool exports, bool dies)
{
    struct stage s;
    int ended = -1;

    for (int n = 1; ended != ERR_OK; n++) {
        stage_init(&s, 10);
        if (exports)
            CHECK_WORKS(&s, try_import(&s, 0));
        close_world(&s);

        ended = run_interrupted(&s, exports, n, dies);
        if (dies)
            CHECK(ended == ERR_OK || ended == DIED);
        else
            CHECK(ended <= ERR_IO || ended == 2); /* 2: fatal, a sync behind a rename */
        check_recovers(&s, exports);

        CHECK_EQ(system(arena_printf(&s.arena, "rm -r '%s'", s.dir)), 0);
        stage_free(&s);
        CHECK(n > 10 || ended != ERR_OK);
        CHECK(n < 200);
    }
}

TEST(an_import_that_dies_before_any_call_to_the_disk_can_be_taken_up)
{
    settle(false, true);
}

TEST(an_import_that_fails_at_any_call_to_the_disk_can_be_taken_up)
{
    settle(false, false);
}

TEST(an_export_that_dies_before_any_call_to_the_disk_can_be_taken_up)
{
    settle(true, true);
}

TEST(an_export_that_fails_at_any_call_to_the_disk_can_be_taken_up)
{
    settle(true, false);
}

/* ---- A db that keeps its name ---- */

/* The real disk, on which one file cannot be renamed, as one that is immutable. */
struct stubborn {
    struct disk disk;
    struct disk *real;
    const char *path;
};

static void stubborn_run(struct disk *d, struct disk_op *op)
{
    struct stubborn *f = (struct stubborn *)d;

    if (op->kind == DISK_RENAME && strcmp(op->path, f->path) == 0)
        op->err = ERR_DENIED;
    else
        f->real->ops->run(f->real, op);
}

static const struct disk_ops stubborn_ops = {.run = stubborn_run};

TEST(a_db_that_cannot_be_put_aside_stays_alone)
{
    struct stage s;
    enum snap_holds holds;
    stage_init(&s, 5);
    struct stubborn f = {.disk = {.ops = &stubborn_ops}, .real = s.disk, .path = s.db};
    s.disk = &f.disk;

    CHECK_EQ(try_import(&s, 0), ERR_DENIED);
    CHECK_SAYS(&s, "snap/db: cannot rename: permission denied");
    CHECK_EQ(snap_look(s.disk, s.dir, &holds), ERR_OK);
    CHECK_EQ(holds, SNAP_HOLDS_DB);
    CHECK(!there(s.store));
    CHECK(!there(arena_printf(&s.arena, "%s.tmp", s.store)));
    check_db(&s, s.db);

    s.disk = f.real;
    CHECK_WORKS(&s, try_import(&s, 0));
    check_store(&s);
    stage_free(&s);
}

/* ---- What is durable before what ---- */

/* The real disk, with what happens to names written down. A power cut cannot be tried here, since
 * LMDB writes past the seam; the order of renames and syncs can be read. */
struct tracing {
    struct disk disk;
    struct disk *real;
    const char *dir;
    struct buf trace;
};

static const char *below(const struct tracing *t, const char *path)
{
    return path + strlen(t->dir) + strlen("/member");
}

static void tracing_run(struct disk *d, struct disk_op *op)
{
    struct tracing *t = (struct tracing *)d;

    if (op->kind == DISK_RENAME)
        buf_printf(&t->trace, "rename %s %s\n", below(t, op->path), below(t, op->path_to));
    if (op->kind == DISK_SYNC_DIR)
        buf_printf(&t->trace, "sync %s\n", below(t, op->path));
    if (op->kind == DISK_SYNC)
        buf_append_str(&t->trace, "sync a file\n");
    t->real->ops->run(t->real, op);
    if (op->kind == DISK_REMOVE && op->err == ERR_OK)
        buf_printf(&t->trace, "remove %s\n", below(t, op->path));
}

static const struct disk_ops tracing_ops = {.run = tracing_run};

TEST(every_step_is_durable_before_the_next_one)
{
    struct stage s;
    stage_init(&s, 5);
    struct tracing t = {.disk = {.ops = &tracing_ops}, .real = s.disk, .dir = s.dir};
    s.disk = &t.disk;

    CHECK_WORKS(&s, try_import(&s, 0));
    CHECK_STR(buf_str(&t.trace), "rename /store.tmp/copy.mdb /store.tmp/store.mdb\n"
                                 "rename /store.tmp/copy.mdb-lock /store.tmp/store.mdb-lock\n"
                                 "sync /store.tmp\n"
                                 "sync /store.tmp/..\n"
                                 "sync a file\n"
                                 "rename /store.tmp/transfer.tmp /store.tmp/transfer\n"
                                 "sync /store.tmp\n"
                                 "rename /store.tmp /store\n"
                                 "sync \n"
                                 "rename /snap/db /snap/db.imported\n"
                                 "sync /snap\n"
                                 "remove /store/transfer\n"
                                 "sync /store\n");

    buf_clear(&t.trace);
    CHECK_WORKS(&s, try_export(&s, 0));
    CHECK_STR(buf_str(&t.trace), "sync /store\n"
                                 "sync /store/..\n"
                                 "sync a file\n"
                                 "sync a file\n"
                                 "rename /store/transfer.tmp /store/transfer\n"
                                 "sync /store\n"
                                 "rename /snap/db.tmp /snap/db\n"
                                 "sync /snap\n"
                                 "sync \n"
                                 "rename /store /store.tmp\n"
                                 "sync \n"
                                 "remove /store.tmp/lock\n"
                                 "remove /store.tmp/store.mdb\n"
                                 "remove /store.tmp/store.mdb-lock\n"
                                 "remove /store.tmp/transfer\n"
                                 "remove /store.tmp\n");
    buf_free(&t.trace);
    stage_free(&s);
}

/* ---- What is refused ---- */

/* Writes the buckets as the db and tries to import that. */
static enum err import_buckets(struct stage *s, const struct rig_bucket *buckets, size_t count)
{
    struct buf image = {0};

    rig_write(buckets, count, NULL, &image);
    rig_write_file(s->db, buf_bytes(&image));
    buf_free(&image);
    return try_import(s, 0);
}

static void check_untouched(struct stage *s)
{
    CHECK(there(s->db));
    CHECK(!there(s->store));
    CHECK(!there(arena_printf(&s->arena, "%s.tmp", s->store)));
}

TEST(a_bucket_that_etcd_does_not_have_is_refused)
{
    struct stage s;
    struct rig_bucket buckets[] = {{.name = BYTES("key")}, {.name = BYTES("test")}};
    stage_init(&s, 0);

    CHECK_EQ(import_buckets(&s, buckets, 2), ERR_UNSUPPORTED);
    CHECK_SAYS(&s, "\"test\"");
    CHECK_SAYS(&s, "member/snap/db: offset ");
    check_untouched(&s);
    stage_free(&s);
}

TEST(entries_that_etcd_cannot_have_written_are_damage)
{
    static const struct {
        struct bytes bucket, key, value;
        const char *says;
    } cases[] = {
        {BYTES("key"), BYTES("\0\0\0\0\0\0\0\2_\0\0\0\0\0\0\0"), BYTES(""), "not a revision"},
        {BYTES("key"), BYTES("\0\0\0\0\0\0\0\2_\0\0\0\0\0\0\0\0x"), BYTES(""), "not a revision"},
        {BYTES("key"), BYTES("\0\0\0\0\0\0\0\2_\0\0\0\0\0\0\0\0"), BYTES("\n\1k\0"), "KeyValue"},
        {BYTES("meta"), BYTES("consistent_index"), BYTES("\0\0\0\0\0\0\1"), "8 bytes"},
        {BYTES("meta"), BYTES("term"), BYTES(""), "8 bytes"},
        {BYTES("meta"), BYTES("cleatPart"), BYTES("\5k"), "a running member"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct stage s;
        struct rig_bucket bucket = {.name = cases[i].bucket};
        stage_init(&s, 0);
        rig_add(&bucket, cases[i].key, cases[i].value);

        CHECK_EQ(import_buckets(&s, &bucket, 1), ERR_CORRUPT);
        CHECK_SAYS(&s, cases[i].says);
        CHECK_SAYS(&s, "member/snap/db: offset ");
        check_untouched(&s);
        rig_free(&bucket, 1);
        CHECK_EQ(system(arena_printf(&s.arena, "rm -r '%s'", s.dir)), 0);
        stage_free(&s);
    }
}

TEST(an_entry_without_a_value_as_a_bumped_revision_leaves_it_is_imported)
{
    struct stage s;
    struct rig_bucket bucket = {.name = BYTES("key")};
    stage_init(&s, 0);
    rig_add(&bucket, BYTES("\0\0\0\0\0\0\0\2_\0\0\0\0\0\0\0\0"), BYTES(""));

    CHECK_WORKS(&s, import_buckets(&s, &bucket, 1));
    CHECK_EQ(s.copied.entries, 1);
    CHECK_EQ(s.copied.index, 0);
    rig_free(&bucket, 1);
    stage_free(&s);
}

TEST(a_db_that_somebody_has_open_is_left_alone)
{
    struct stage s;
    stage_init(&s, 5);
    int fd = open(s.db, O_RDWR | O_CLOEXEC);
    CHECK_EQ(flock(fd, LOCK_EX | LOCK_NB), 0); /* as bbolt does */

    CHECK_EQ(try_import(&s, 0), ERR_BUSY);
    check_untouched(&s);
    close(fd);
    CHECK_WORKS(&s, try_import(&s, 0));
    stage_free(&s);
}

TEST(a_store_that_somebody_has_open_is_not_exported)
{
    struct stage s;
    struct backend *b;
    stage_init(&s, 5);
    CHECK_WORKS(&s, try_import(&s, 0));
    CHECK_EQ(backend_open(&(struct backend_options){.disk = s.disk, .dir = s.store}, &b), ERR_OK);

    CHECK_EQ(try_export(&s, 0), ERR_BUSY);
    CHECK(!there(s.db));
    backend_close(b);
    CHECK_WORKS(&s, try_export(&s, 0));
    stage_free(&s);
}

static void check_not_exported(struct stage *s)
{
    CHECK(there(s->store));
    CHECK(!there(s->db));
    CHECK(!there(arena_printf(&s->arena, "%s.tmp", s->db)));
    CHECK(!there(s->note));
}

/* We can hold a name as long as a request; bbolt cannot. */
TEST(a_key_that_bbolt_cannot_hold_is_not_exported)
{
    struct stage s;
    struct backend *b;
    stage_init(&s, 5);
    CHECK_WORKS(&s, try_import(&s, 0));
    CHECK_EQ(backend_open(&(struct backend_options){.disk = s.disk, .dir = s.store}, &b), ERR_OK);
    struct bytes name = {arena_alloc(&s.arena, BOLT_KEY_BYTES_MAX + 1), BOLT_KEY_BYTES_MAX + 1};
    backend_put(b, BUCKET_AUTH_USERS, name, BYTES("value"));
    CHECK_EQ(backend_commit_now(b), ERR_OK);
    backend_close(b);

    CHECK_EQ(try_export(&s, 0), ERR_TOO_LARGE);
    CHECK_SAYS(&s, "bucket authUsers");
    check_not_exported(&s);
    stage_free(&s);
}

TEST(a_damaged_store_of_ours_is_not_exported)
{
    struct stage s;
    struct buf file = {0};
    stage_init(&s, 5);
    CHECK_WORKS(&s, try_import(&s, 0));
    const char *path = arena_printf(&s.arena, "%s/store.mdb", s.store);
    rig_read_file(path, &file);
    uint8_t *at = memmem(file.at, file.len, "user number 4", 13);
    CHECK(at != NULL);
    *at ^= 1;
    rig_write_file(path, buf_bytes(&file));

    CHECK_EQ(try_export(&s, 0), ERR_CORRUPT);
    CHECK_SAYS(&s, "store.mdb");
    CHECK_SAYS(&s, "authUsers");
    check_not_exported(&s);
    buf_free(&file);
    stage_free(&s);
}

/* A byte changed anywhere is an error with file and offset, or makes no page graph wrong: then it
 * is one of the changes that bolt.h names, and something is imported. */
TEST(a_damaged_db_never_crashes_an_import)
{
    struct stage s;
    struct rng rng;
    unsigned refused = 0, rounds = 150 * (unsigned)test_effort();
    stage_init(&s, 60);
    rng_seed(&rng, test_seed());

    for (unsigned i = 0; i < rounds; i++) {
        size_t at = (size_t)rng_below(&rng, s.image.len);
        uint8_t was = s.image.at[at], bit = (uint8_t)(1u << rng_below(&rng, 8));
        size_t len = rng_chance(&rng, 1, 10) ? (size_t)rng_below(&rng, s.image.len) : s.image.len;
        s.image.at[at] ^= bit;
        rig_write_file(s.db, bytes_of(s.image.at, len));
        s.image.at[at] = was;

        enum err e = try_import(&s, 0);
        if (e == ERR_OK) {
            CHECK_EQ(system(arena_printf(&s.arena, "rm -r '%s'", s.store)), 0);
            continue;
        }
        refused++;
        CHECK(e == ERR_CORRUPT || e == ERR_UNSUPPORTED);
        CHECK_SAYS(&s, "member/snap/db: offset ");
        check_untouched(&s);
    }
    CHECK(refused > rounds / 10);
    stage_free(&s);
}
