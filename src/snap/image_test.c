/* Images of a store that is being written to, and of which much is to be compacted away. */
#include "snap/image.h"

#include "base/list.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness/peer_test.h"
#include "io/disk.h"
#include "io/io.h"
#include "mvcc/mvcc_rig_test.h"
#include "snap/bolt_rig_test.h"
#include "snap/transfer_rig_test.h"

#include <inttypes.h>
#include <stdio.h>

enum { IMAGES = 3 };

/* A store, and workers that the test works by hand. */
struct image_rig {
    struct mvcc_rig store;
    struct workers workers;
    struct job *jobs[IMAGES];
    size_t job_count;
    uint64_t now_ms, slices;
    struct rng rng;

    int64_t revision; /* of the last cut */
    uint32_t hash;
    struct raft_snapshot snapshot;
    unsigned closed, told;
};

static void submit(struct workers *w, struct job *j)
{
    struct image_rig *r = container_of(w, struct image_rig, workers);

    CHECK(r->job_count < IMAGES);
    r->jobs[r->job_count++] = j;
}

static void rig_open(struct image_rig *r, enum backend_rig_kind kind)
{
    *r = (struct image_rig){.workers = {.submit = submit}};
    mvcc_rig_init_settling(&r->store, kind, 20);
    rng_seed(&r->rng, test_seed());
}

static void rig_close(struct image_rig *r)
{
    CHECK_EQ(mvcc_status(r->store.m).image_pins, 0);
    mvcc_rig_commit(&r->store);
    mvcc_rig_free(&r->store);
}

/* One slice of one of the images, or none. */
static void rig_work(struct image_rig *r)
{
    if (r->job_count == 0)
        return;
    struct job *j = r->jobs[0];
    r->job_count--;
    memmove(r->jobs, r->jobs + 1, r->job_count * sizeof(struct job *));
    j->run(j);
    j->on_done(j);
    r->slices++;
}

static void closed(void *context)
{
    struct image_rig *r = context;

    mvcc_image_unpin(r->store.m);
    r->closed++;
}

static void told(void *context)
{
    struct image_rig *r = context;

    r->told++;
}

static void settle(struct image_rig *r)
{
    while (mvcc_is_settling(r->store.m)) {
        mvcc_settle_some(r->store.m, 1000);
        mvcc_rig_commit(&r->store);
    }
}

/* As the server does it. The commit is not over when it returns. */
static void cut(struct image_rig *r, struct image **out, size_t count)
{
    struct backend *b = r->store.backend_rig.b;
    uint64_t batch = 0;

    settle(r);
    r->hash = mvcc_rig_hash(&r->store, 0);
    backend_rig_settle(&r->store.backend_rig);
    if (backend_can_commit(b)) {
        batch = backend_open_batch(b);
        backend_commit_start(b);
    }
    r->revision = mvcc_revision(r->store.m);
    r->snapshot = (struct raft_snapshot){
        .index = backend_applied(b).index, .term = backend_applied(b).term, .data = BYTES("{}")};
    for (size_t i = 0; i < count; i++) {
        mvcc_image_pin(r->store.m);
        out[i] = image_cut(&(struct image_options){.backend = b,
                                                   .workers = &r->workers,
                                                   .snapshot = &r->snapshot,
                                                   .revision = r->revision,
                                                   .batch = batch,
                                                   .now_ms = r->now_ms,
                                                   .on_closed = closed,
                                                   .context = r});
        image_set_on_more(out[i], told, r);
    }
}

/* Takes what is there, at most so much. */
static void take(struct image *i, size_t most, struct buf *out)
{
    struct bytes some;

    if (!image_peek(i, &some))
        return;
    if (some.len > most)
        some.len = most;
    buf_append(out, some);
    image_consume(i, some.len);
    image_check(i);
}

static void read_all(struct image_rig *r, struct image *i, struct buf *out)
{
    backend_rig_settle(&r->store.backend_rig);
    while (!image_is_over(i)) {
        rig_work(r);
        image_some(i, r->now_ms);
        CHECK(image_state(i) != IMAGE_FAILED);
        take(i, SIZE_MAX, out);
    }
    CHECK_EQ(image_bytes(i), out->len);
}

/* --- what happens meanwhile --- */

static const char *some_key(struct image_rig *r)
{
    static char key[16];

    snprintf(key, sizeof(key), "k%03u", (unsigned)rng_below(&r->rng, 200));
    return key;
}

static void put_some(struct image_rig *r, size_t value_bytes)
{
    char *value = mem_alloc(value_bytes + 1);

    memset(value, 'a' + (int)rng_below(&r->rng, 26), value_bytes);
    value[value_bytes] = 0;
    mvcc_rig_put(&r->store, some_key(r), value);
    mem_free(value);
}

static void delete_some(struct image_rig *r, bool all)
{
    const char *from = all ? "k" : some_key(r);
    struct mvcc_delete_range d = {.range = key_range(bytes_of_str(from), BYTES("l"))};

    mvcc_rig_begin(&r->store);
    mvcc_delete_range_begin(r->store.m, &d);
    while (!mvcc_delete_range_some(r->store.m, &d, 100))
        ;
    mvcc_rig_end(&r->store);
}

/* One entry, and what belongs to none: compaction, settling, leases. */
static void operate(struct image_rig *r)
{
    unsigned die = (unsigned)rng_below(&r->rng, 100);

    if (die < 80)
        put_some(r, rng_chance(&r->rng, 1, 20) ? 30000 + rng_below(&r->rng, 600000)
                                               : rng_below(&r->rng, 400));
    else if (die < 90)
        mvcc_rig_delete(&r->store, some_key(r));
    else if (die < 92)
        delete_some(r, rng_chance(&r->rng, 1, 4));
    else if (die < 96 && mvcc_revision(r->store.m) > mvcc_compact_revision(r->store.m) + 160)
        mvcc_rig_compact(&r->store, mvcc_revision(r->store.m) - 150);
    else
        backend_put(r->store.backend_rig.b, BUCKET_LEASE, bytes_of_str(some_key(r)),
                    bytes_of_str(some_key(r)));
    (void)mvcc_settle_some(r->store.m, 7);
    (void)mvcc_compact_some(r->store.m, 7);
    if (rng_chance(&r->rng, 1, 4))
        mvcc_rig_commit(&r->store);
}

static void operate_many(struct image_rig *r, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        operate(r);
}

/* --- what is in an image --- */

static void must(enum err e, struct buf *why)
{
    if (e != ERR_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", err_text(e), buf_str(why));
}

/* A store is made of it, as when it is installed: what was hashed at the cut is there. */
static void check_content(struct image_rig *r, struct bytes image)
{
    static unsigned number;
    struct arena arena = {0};
    struct bolt_fault fault = {0};
    struct bolt_sum sum;
    struct buf why = {0};
    struct loop *loop;
    struct snap_copied copied;
    struct backend *b;
    struct mvcc *m;
    struct mvcc_hash h = {.revision = r->revision};

    CHECK_EQ(rig_read_all(image, BOLT_IMAGE, &fault, &sum), ERR_OK);
    const char *dir = arena_printf(&arena, "%s/image%u", test_tmp_dir(), number++);
    CHECK_EQ(loop_open(&(struct loop_options){0}, &loop), ERR_OK);
    struct disk *disk = loop_io(loop)->disk;
    CHECK_EQ(disk_make_dir(disk, arena_printf(&arena, "%s/member/snap", dir), 0700, DISK_PARENTS),
             ERR_OK);
    rig_write_file(arena_printf(&arena, "%s/member/snap/db", dir), image);
    must(rig_import(disk, &(struct snap_place){.data_dir = dir, .why = &why}, &copied), &why);
    CHECK_EQ(copied.index, r->snapshot.index);
    CHECK_EQ(copied.term, r->snapshot.term);
    char *store = snap_store_dir(dir);
    must(backend_open(&(struct backend_options){.disk = disk, .dir = store, .why = &why}, &b),
         &why);
    must(mvcc_open(&(struct mvcc_options){.backend = b}, &why, &m), &why);
    CHECK_EQ(mvcc_revision(m), r->revision);
    CHECK_EQ(mvcc_hash_open(m, &h), MVCC_OK);
    while (!mvcc_hash_some(m, &h, 100))
        ;
    CHECK_EQ(h.hash, r->hash);
    mvcc_hash_close(m, &h);
    mvcc_check_store(m);
    mvcc_close(m);
    backend_close(b);
    loop_close(loop);
    mem_free(store);
    buf_free(&why);
    arena_free(&arena);
}

/* --- tests --- */

static void read_under_load(enum backend_rig_kind kind)
{
    struct image_rig r;
    struct image *images[2];
    struct buf slow = {0}, fast = {0};
    rig_open(&r, kind);
    operate_many(&r, 400);

    cut(&r, images, 2);
    image_some(images[0], 0); /* nothing is planned before the commit is over */
    image_some(images[1], 0);
    while (!image_is_over(images[0])) {
        operate_many(&r, 3);
        rig_work(&r);
        image_some(images[0], 0);
        image_some(images[1], 0);
        CHECK(image_state(images[0]) != IMAGE_FAILED);
        take(images[0], 1 + rng_below(&r.rng, 2 * IMAGE_CHUNK_BYTES), &slow);
    }
    CHECK(mvcc_compact_pending(r.store.m) || mvcc_compact_revision(r.store.m) < r.revision);
    CHECK_EQ(image_bytes(images[0]), slow.len);
    read_all(&r, images[1], &fast);

    CHECK(bytes_equal(buf_bytes(&slow), buf_bytes(&fast)));
    CHECK(slow.len > 2 * IMAGE_CHUNK_BYTES);
    image_close(images[0]);
    image_close(images[1]);
    CHECK_EQ(r.closed, 2);
    check_content(&r, buf_bytes(&slow));
    settle(&r);
    mvcc_rig_settle(&r.store);
    buf_free(&slow);
    buf_free(&fast);
    rig_close(&r);
}

TEST(an_image_is_the_state_at_the_cut_whatever_is_written_meanwhile)
{
    read_under_load(BACKEND_RIG_MEMORY);
    read_under_load(BACKEND_RIG_LMDB);
}

/* A removal has come to its middle when the cut is made, and what it has removed is in no view any
 * more, or in all. */
TEST(an_image_of_a_store_that_is_being_compacted_is_whole)
{
    struct image_rig r;
    struct image *i;
    struct buf bytes = {0};
    rig_open(&r, BACKEND_RIG_LMDB);
    for (unsigned n = 0; n < 2000; n++)
        put_some(&r, 100);
    mvcc_rig_compact(&r.store, mvcc_revision(r.store.m));
    mvcc_rig_commit(&r.store);
    while (!backend_can_commit(r.store.backend_rig.b)) /* it hashes before it removes */
        CHECK(!mvcc_compact_some(r.store.m, 500));

    cut(&r, &i, 1); /* with those removals in its batch */
    rig_work(&r);
    image_some(i, 0);
    CHECK_EQ(r.job_count, 0);
    read_all(&r, i, &bytes);

    check_content(&r, buf_bytes(&bytes));
    image_close(i);
    mvcc_rig_settle(&r.store);
    buf_free(&bytes);
    rig_close(&r);
}

/* etcd itself reads it, and finds the hash that we have. */
TEST(etcd_accepts_an_image)
{
    struct image_rig r;
    struct image *i;
    struct buf bytes = {0};
    struct arena arena = {0};
    peer_need();
    rig_open(&r, BACKEND_RIG_LMDB);
    operate_many(&r, 600);

    cut(&r, &i, 1);
    operate_many(&r, 100);
    read_all(&r, i, &bytes);
    image_close(i);
    const char *db = arena_printf(&arena, "%s/image.db", test_tmp_dir());
    rig_write_file(db, buf_bytes(&bytes));

    const char *json =
        peer_run(&arena, "$PEERS/etcdutl snapshot status %s -w json 2>/dev/null", db);
    CHECK_EQ(peer_json_number(json, "revision"), r.revision);
    CHECK_EQ(peer_json_number(json, "totalSize"), bytes.len);
    json = peer_run(&arena, "$PEERS/etcdutl hashkv %s --rev %" PRId64 " -w json 2>/dev/null", db,
                    r.revision);
    CHECK_EQ(peer_json_number(json, "hash"), r.hash);
    arena_free(&arena);
    buf_free(&bytes);
    rig_close(&r);
}

/* A view that were open for as long as somebody reads would keep LMDB from using pages again. */
TEST(a_slow_reader_does_not_make_the_store_grow)
{
    enum { ROUNDS = 300, KEYS = 100 };
    struct image_rig r;
    struct image *i;
    struct buf bytes = {0};
    char value[4000] = {0};
    rig_open(&r, BACKEND_RIG_LMDB);
    struct backend *b = r.store.backend_rig.b;
    for (unsigned n = 0; n < 3000; n++)
        put_some(&r, 1000);
    mvcc_rig_commit(&r.store);
    for (unsigned round = 0; round < 10; round++) {
        backend_put(b, BUCKET_LEASE, BYTES("same"), bytes_of(value, sizeof(value)));
        mvcc_rig_commit(&r.store);
    }

    uint64_t before = backend_sizes(b).file_bytes;
    cut(&r, &i, 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned k = 0; k < KEYS; k++) {
            char key[8];
            snprintf(key, sizeof(key), "%u", k);
            backend_put(b, BUCKET_LEASE, bytes_of_str(key), bytes_of(value, sizeof(value)));
        }
        mvcc_rig_commit(&r.store);
        rig_work(&r);
        image_some(i, 0);
        take(i, 2000, &bytes);
    }

    CHECK(!image_is_over(i));
    uint64_t grown = backend_sizes(b).file_bytes - before;
    /* What is there now, and as much again while it is exchanged, and LMDB's lists. */
    CHECK(grown < 4 * KEYS * sizeof(value));
    read_all(&r, i, &bytes);
    check_content(&r, buf_bytes(&bytes));
    image_close(i);
    buf_free(&bytes);
    rig_close(&r);
}

TEST(slices_are_bounded)
{
    enum { LARGE = 40, LARGE_BYTES = 1000000, SMALL = 40000 };
    struct image_rig r;
    struct image *i;
    rig_open(&r, BACKEND_RIG_MEMORY);
    for (unsigned n = 0; n < LARGE; n++)
        put_some(&r, LARGE_BYTES);
    for (unsigned n = 0; n < SMALL; n++)
        mvcc_rig_put(&r.store, "s", "");

    cut(&r, &i, 1);
    backend_rig_settle(&r.store.backend_rig);
    while (image_state(i) == IMAGE_PLANNING) {
        rig_work(&r);
        image_some(i, 0);
    }

    /* A slice overshoots by one call of the writer, of 64 entries. */
    CHECK(r.slices >= 1 + SMALL / (IMAGE_SLICE_ENTRIES + 64));
    uint64_t planned = r.slices;
    struct buf bytes = {0};
    take(i, 1, &bytes);
    for (unsigned n = 0; n < 10; n++) {
        rig_work(&r);
        image_some(i, 0);
    }
    CHECK_EQ(r.slices, planned + 2); /* two chunks, and no more before one is read */
    take(i, SIZE_MAX, &bytes);
    CHECK_EQ(bytes.len, IMAGE_CHUNK_BYTES);
    rig_work(&r);
    CHECK_EQ(r.slices, planned + 3);
    image_close(i);
    CHECK_EQ(r.closed, 0); /* its last slice has not been looked at */
    image_some(i, 0);
    CHECK_EQ(r.closed, 1);
    buf_free(&bytes);
    rig_close(&r);
}

static void until_ready(struct image_rig *r, struct image *i)
{
    struct bytes some;

    backend_rig_settle(&r->store.backend_rig);
    while (!image_peek(i, &some)) {
        rig_work(r);
        image_some(i, r->now_ms);
    }
}

TEST(an_image_that_is_not_read_fails)
{
    struct image_rig r;
    struct image *i;
    struct buf bytes = {0};
    rig_open(&r, BACKEND_RIG_MEMORY);
    for (unsigned n = 0; n < 100; n++)
        put_some(&r, 10000);
    cut(&r, &i, 1);
    r.now_ms += 10 * IMAGE_STALLED_MS; /* as long as it is made, nobody is to blame */
    until_ready(&r, i);

    r.now_ms += IMAGE_STALLED_MS - 1;
    image_some(i, r.now_ms);
    take(i, 1, &bytes);
    r.now_ms += IMAGE_STALLED_MS - 1;
    image_some(i, r.now_ms);
    CHECK_EQ(image_state(i), IMAGE_READY);
    unsigned before = r.told;
    r.now_ms += 1;
    image_some(i, r.now_ms);

    CHECK_EQ(image_state(i), IMAGE_FAILED);
    CHECK_STR(image_failure(i), "it is not being read");
    CHECK_EQ(r.told, before + 1);
    struct bytes some;
    CHECK(!image_peek(i, &some));
    image_close(i);
    while (r.closed == 0) {
        rig_work(&r);
        image_some(i, r.now_ms);
    }
    buf_free(&bytes);
    rig_close(&r);
}

/* As in a crash, with a job that is never run, or with none. */
TEST(an_image_can_be_given_up_at_any_point)
{
    for (unsigned steps = 0; steps < 8; steps++) {
        struct image_rig r;
        struct image *i;
        rig_open(&r, BACKEND_RIG_MEMORY);
        for (unsigned n = 0; n < 100; n++)
            put_some(&r, 10000);
        cut(&r, &i, 1);
        backend_rig_settle(&r.store.backend_rig);
        for (unsigned n = 0; n < steps; n++) {
            if (n % 2)
                image_some(i, 0);
            else
                rig_work(&r);
        }

        image_abandon(i);

        CHECK_EQ(r.closed, 1);
        rig_close(&r);
    }
}
