#include "backend/backend_rig_test.h"

#include "backend/lmdb_int.h"
#include "base/sanitized.h"
#include "harness/test.h"
#include "io/io.h"
#include "io/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void open_backend_rig(struct backend_rig *s)
{
    backend_rig_init(s, BACKEND_RIG_LMDB);
    CHECK_EQ(backend_rig_open(s), ERR_OK);
}

static const char *path_in(const struct backend_rig *s, const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", s->dir, name);
    return path;
}

static bool exists(const struct backend_rig *s, const char *name)
{
    return access(path_in(s, name), F_OK) == 0;
}

static off_t file_size(const struct backend_rig *s, const char *name)
{
    struct stat st;

    CHECK_EQ(stat(path_in(s, name), &st), 0);
    return st.st_size;
}

static void write_at(const struct backend_rig *s, const char *name, off_t offset,
                     struct bytes content)
{
    int fd = open(path_in(s, name), O_WRONLY | O_CREAT, 0600);

    CHECK(fd >= 0);
    CHECK_EQ(pwrite(fd, content.at, content.len, offset), (long long)content.len);
    close(fd);
}

/* Every place in the file that holds this; at least one. Replaces the first byte of each. */
static void spoil(const struct backend_rig *s, struct bytes content)
{
    struct buf file = {0};
    int found = 0;

    CHECK_EQ(disk_read_file(loop_io(s->loop)->disk, path_in(s, "store.mdb"), 64 * MIB, &file),
             ERR_OK);
    for (size_t i = 0; i + content.len <= file.len; i++)
        if (memcmp(file.at + i, content.at, content.len) == 0) {
            write_at(s, "store.mdb", (off_t)i, BYTES("?"));
            found++;
        }
    CHECK(found > 0);
    buf_free(&file);
}

/* --- damage ------------------------------------------------------------------------------- */

TEST(a_damaged_value_is_never_served)
{
    struct backend_rig s;
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value;

    open_backend_rig(&s);
    backend_put(s.b, BUCKET_LEASE, BYTES("one"), BYTES("the value that will change"));
    backend_put(s.b, BUCKET_LEASE, BYTES("two"), BYTES("its neighbour"));
    backend_rig_commit(&s);
    backend_rig_close(&s);
    spoil(&s, BYTES("value that will change"));
    CHECK_EQ(backend_rig_open(&s), ERR_OK);

    backend_view_open(s.b, &v);
    CHECK_EQ(backend_get(&v, BUCKET_LEASE, BYTES("two"), &value), ERR_OK);
    CHECK_EQ(backend_get(&v, BUCKET_LEASE, BYTES("one"), &value), ERR_CORRUPT);
    char want[320];
    snprintf(want, sizeof(want), "%s/store.mdb: bucket lease, key 6f6e65: checksum mismatch",
             s.dir);
    CHECK_STR(backend_view_damage(&v), want);
    backend_cursor_open(&v, BUCKET_LEASE, (struct bytes){0}, &c);
    CHECK_EQ(backend_cursor_next(&c, &key, &value), ERR_CORRUPT);
    CHECK_EQ(backend_cursor_next(&c, &key, &value), ERR_CORRUPT); /* and stays there */
    backend_cursor_close(&c);
    backend_view_close(&v);
    backend_rig_close(&s);
    backend_rig_free(&s);
}

/* The checksum covers the key: a value that turns up under another one is found out too. */
TEST(a_damaged_key_is_never_served)
{
    struct backend_rig s;
    struct backend_view v;
    struct bytes value;

    open_backend_rig(&s);
    backend_put(s.b, BUCKET_LEASE, BYTES("a key"), BYTES("value"));
    backend_rig_commit(&s);
    backend_rig_close(&s);
    spoil(&s, BYTES("a key"));
    CHECK_EQ(backend_rig_open(&s), ERR_OK);

    backend_view_open(s.b, &v);
    CHECK_EQ(backend_get(&v, BUCKET_LEASE, BYTES("? key"), &value), ERR_CORRUPT);
    backend_view_close(&v);
    backend_rig_close(&s);
    backend_rig_free(&s);
}

static void defrag_noted(struct backend_defrag *d, enum err e)
{
    (void)d;
    CHECK_EQ(e, ERR_CORRUPT);
}

TEST(a_defragmentation_does_not_carry_damage_over)
{
    struct backend_rig s;
    struct backend_defrag d = {.on_done = defrag_noted};

    open_backend_rig(&s);
    backend_put(s.b, BUCKET_LEASE, BYTES("one"), BYTES("the value that will change"));
    backend_rig_commit(&s);
    backend_rig_close(&s);
    spoil(&s, BYTES("value that will change"));
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    CHECK(backend_defrag_start(s.b, &d));
    backend_rig_settle(&s);

    CHECK(s.failed);
    CHECK(strstr(s.failure, "store.mdb: bucket lease, key 6f6e65: checksum mismatch"));
    CHECK(!exists(&s, "copy.mdb"));
    backend_rig_close(&s);
    backend_rig_free(&s);
}

static void fill(struct backend_rig *s, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        char key[16];
        snprintf(key, sizeof(key), "%08u", i);
        memset(backend_put_space(s->b, BUCKET_KEY, bytes_of_str(key), 1000), 'x', 1000);
    }
    backend_rig_commit(s);
}

static void walk(struct backend_rig *s)
{
    struct backend_view v;
    struct backend_cursor c;
    struct bytes key, value;

    backend_view_open(s->b, &v);
    backend_cursor_open(&v, BUCKET_KEY, (struct bytes){0}, &c);
    while (backend_cursor_next(&c, &key, &value) == ERR_OK)
        ;
    backend_cursor_close(&c);
    backend_view_close(&v);
}

static void open_and_walk(struct backend_rig *s)
{
    if (backend_rig_open(s) == ERR_OK)
        walk(s);
}

TEST(pages_that_are_gone_end_the_process_with_the_files_name)
{
    struct backend_rig s;
    char want[320];

    open_backend_rig(&s);
    fill(&s, 0, 2000);
    backend_rig_close(&s);
    CHECK_EQ(truncate(path_in(&s, "store.mdb"), file_size(&s, "store.mdb") / 2), 0);

    snprintf(want, sizeof(want), "cleat: fatal: the page store %s/store.mdb is damaged", s.dir);
    CHECK_DIES(open_and_walk(&s), want);
    CHECK_DIES(open_and_walk(&s), "(SIGBUS)");
    backend_rig_free(&s);
}

/* After a defragmentation it is the copy's map that can fault. */
static void cut_while_open(struct backend_rig *s)
{
    CHECK_EQ(backend_rig_open(s), ERR_OK);
    struct backend_defrag d = {.on_done = defrag_noted};
    CHECK(backend_defrag_start(s->b, &d));
    while (exists(s, "copy.mdb-lock") || !backend_is_idle(s->b)) {
        backend_rig_run(s);
        if (!exists(s, "copy.mdb-lock"))
            break;
        backend_rig_report(s);
    }
    CHECK_EQ(truncate(path_in(s, "store.mdb"), 8192), 0);
    walk(s);
}

TEST(a_file_cut_while_it_is_open_is_named_too)
{
    struct backend_rig s;
    char want[320];

    open_backend_rig(&s);
    fill(&s, 0, 2000);
    backend_rig_close(&s);

    snprintf(want, sizeof(want), "the page store %s/store.mdb is damaged", s.dir);
    CHECK_DIES(cut_while_open(&s), want);
    backend_rig_free(&s);
}

/* A fault elsewhere is not ours to explain. */
static void first_handler(int number)
{
    (void)number;
    if (write(STDERR_FILENO, "the first handler\n", 18) < 0)
        _exit(3);
    _exit(4);
}

static void fault_elsewhere(struct backend_rig *s)
{
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    signal(SIGSEGV, first_handler);
    CHECK_EQ(backend_rig_open(s), ERR_OK);
    *(volatile char *)page = 1;
}

static void signal_from_outside(struct backend_rig *s)
{
    signal(SIGSEGV, first_handler);
    CHECK_EQ(backend_rig_open(s), ERR_OK);
    raise(SIGSEGV);
}

TEST(other_faults_go_where_they_went_before)
{
    struct backend_rig s;

    backend_rig_init(&s, BACKEND_RIG_LMDB);
    CHECK_DIES(fault_elsewhere(&s), "the first handler");
    CHECK_DIES(signal_from_outside(&s), "the first handler");
    backend_rig_free(&s);
}

TEST(what_is_not_a_store_is_refused_with_a_reason)
{
    struct backend_rig s;
    struct buf why = {0};
    struct backend *b;

    backend_rig_init(&s, BACKEND_RIG_LMDB);
    CHECK_EQ(mkdir(s.dir, 0700), 0);
    for (int i = 0; i < 4; i++)
        write_at(&s, "store.mdb", i * 4096,
                 BYTES("this was never a page store, and it is long enough to tell"));
    write_at(&s, "store.mdb", 16384, BYTES("x"));
    CHECK_EQ(
        backend_open(
            &(struct backend_options){.disk = loop_io(s.loop)->disk, .dir = s.dir, .why = &why},
            &b),
        ERR_CORRUPT);

    CHECK(strstr(buf_str(&why), "store/store.mdb: cannot open: MDB_INVALID"));
    buf_free(&why);
    backend_rig_free(&s);
}

static void put_format(struct backend_rig *s, const char *format)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_val k = {5, "cleat"}, v = {strlen(format), (void *)format};

    CHECK_EQ(mdb_env_create(&env), 0);
    CHECK_EQ(mdb_env_open(env, path_in(s, "store.mdb"), MDB_NOSUBDIR, 0600), 0);
    CHECK_EQ(mdb_txn_begin(env, NULL, 0, &txn), 0);
    CHECK_EQ(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
    CHECK_EQ(*format ? mdb_put(txn, dbi, &k, &v, 0) : mdb_del(txn, dbi, &k, NULL), 0);
    CHECK_EQ(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

TEST(another_format_or_none_is_refused)
{
    struct backend_rig s;

    open_backend_rig(&s);
    backend_rig_close(&s);
    put_format(&s, "2");
    CHECK_EQ(backend_rig_open(&s), ERR_UNSUPPORTED);
    put_format(&s, "");
    CHECK_EQ(backend_rig_open(&s), ERR_CORRUPT);
    backend_rig_free(&s);
}

/* --- the folder --------------------------------------------------------------------------- */

TEST(one_process_at_a_time_has_the_store)
{
    struct backend_rig s, other;

    open_backend_rig(&s);
    backend_rig_init(&other, BACKEND_RIG_LMDB);
    CHECK_EQ(backend_rig_open(&other), ERR_BUSY);
    backend_rig_close(&s);
    CHECK_EQ(backend_rig_open(&other), ERR_OK);
    backend_rig_close(&other);
    backend_rig_free(&s);
    backend_rig_free(&other);
}

TEST(a_copy_left_over_is_removed_at_the_next_opening)
{
    struct backend_rig s;

    open_backend_rig(&s);
    fill(&s, 0, 10);
    backend_rig_close(&s);
    write_at(&s, "copy.mdb", 0, BYTES("half a copy"));
    write_at(&s, "copy.mdb-lock", 0, BYTES("and its lock"));
    CHECK_EQ(backend_rig_open(&s), ERR_OK);

    CHECK(!exists(&s, "copy.mdb"));
    CHECK(!exists(&s, "copy.mdb-lock"));
    backend_rig_close(&s);
    backend_rig_free(&s);
}

static rlim_t limit_addresses(rlim_t bytes)
{
    struct rlimit limit;

    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = bytes;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    return before;
}

TEST(where_addresses_are_scarce_the_map_is_smaller)
{
    struct backend_rig s;

    if (SANITIZED)
        SKIP("a sanitizer needs the addresses for itself");

    backend_rig_init(&s, BACKEND_RIG_LMDB);
    rlim_t before = limit_addresses((rlim_t)20 << 30);
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    fill(&s, 0, 100);
    backend_rig_close(&s);
    limit_addresses((rlim_t)600 << 20);
    CHECK_EQ(backend_rig_open(&s), ERR_IO);
    limit_addresses(before);
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    backend_rig_close(&s);
    backend_rig_free(&s);
}

/* --- defragmentation ---------------------------------------------------------------------- */

static int defrags;

static void defrag_done(struct backend_defrag *d, enum err e)
{
    (void)d;
    CHECK_EQ(e, ERR_OK);
    defrags++;
}

TEST(defragmenting_gives_the_holes_back)
{
    struct backend_rig s;
    struct backend_defrag d = {.on_done = defrag_done};

    open_backend_rig(&s);
    fill(&s, 0, 4000);
    for (unsigned i = 0; i < 4000; i++) {
        char key[16];
        snprintf(key, sizeof(key), "%08u", i);
        if (i % 4 != 0)
            backend_delete(s.b, BUCKET_KEY, bytes_of_str(key));
    }
    backend_rig_commit(&s);
    struct backend_sizes holed = backend_sizes(s.b);
    CHECK(holed.used_bytes < holed.file_bytes / 2);
    CHECK(backend_defrag_start(s.b, &d));
    backend_rig_settle(&s);

    struct backend_sizes after = backend_sizes(s.b);
    CHECK_EQ(defrags, 1);
    CHECK_EQ(d.before.file_bytes, holed.file_bytes);
    CHECK_EQ(d.after.file_bytes, after.file_bytes);
    CHECK(after.file_bytes < holed.file_bytes / 2);
    CHECK(after.used_bytes > after.file_bytes * 9 / 10);
    CHECK(file_size(&s, "store.mdb") <= (off_t)after.file_bytes);
    CHECK(!exists(&s, "copy.mdb"));
    CHECK(!exists(&s, "copy.mdb-lock"));
    CHECK(exists(&s, "store.mdb-lock"));
    struct backend_rig other;
    backend_rig_init(&other, BACKEND_RIG_LMDB);
    CHECK_EQ(backend_rig_open(&other), ERR_BUSY); /* the lock has stayed */
    backend_rig_free(&other);
    backend_rig_close(&s);
    CHECK_EQ(backend_rig_open(&s), ERR_OK);
    backend_rig_close(&s);
    backend_rig_free(&s);
}

/* --- long keys ---------------------------------------------------------------------------- */

TEST(a_malformed_group_is_noticed)
{
    struct buf group = {0}, changed = {0};
    struct bytes left, name, value = BYTES("v");
    char long_name[GROUP_KEY_BYTES];

    memset(long_name, 'n', sizeof(long_name));
    CHECK_EQ(lmdb_group_change((struct bytes){0}, bytes_of(long_name, sizeof(long_name)), &value,
                               &group),
             ERR_OK);
    for (size_t cut = 1; cut < group.len; cut++) {
        left = bytes_of(group.at, cut);
        CHECK(!lmdb_group_take(&left, &name, &value));
        CHECK_EQ(lmdb_group_get(bytes_of(group.at, cut), BYTES("x"), &value), ERR_CORRUPT);
        CHECK_EQ(lmdb_group_change(bytes_of(group.at, cut), bytes_of(long_name, sizeof(long_name)),
                                   NULL, &changed),
                 ERR_CORRUPT);
    }
    left = buf_bytes(&group);
    CHECK(lmdb_group_take(&left, &name, &value));
    CHECK_EQ(left.len, 0);
    group.at[0] = 3; /* shorter than a long name can be */
    left = buf_bytes(&group);
    CHECK(!lmdb_group_take(&left, &name, &value));
    buf_free(&group);
    buf_free(&changed);
}

/* --- threads ------------------------------------------------------------------------------ */

enum { PAIRS = 100, READERS = 3, ENTRIES = 600 };

struct reader_job {
    struct job job;
    struct backend *b;
    struct workers *workers;
    uint64_t views;
    bool stop, done;
};

struct threads {
    struct loop *loop;
    struct backend *b;
    struct reader_job readers[READERS];
};

static uint64_t number_at(struct backend_view *v, unsigned key)
{
    char text[16];
    struct bytes value;
    uint64_t number;

    snprintf(text, sizeof(text), "%08u", key);
    if (backend_get(v, BUCKET_KEY, bytes_of_str(text), &value) != ERR_OK)
        return 0;
    CHECK_EQ(value.len, sizeof(number));
    memcpy(&number, value.at, sizeof(number));
    return number;
}

/* Each entry writes its index to two keys far apart: a view that sees one sees the other. */
static void read_pairs(struct job *j)
{
    struct reader_job *r = container_of(j, struct reader_job, job);

    for (int round = 0; round < 3; round++) {
        struct backend_view v;
        struct backend_position p;
        backend_view_open_on_worker(r->b, &v);
        CHECK_EQ(backend_view_position(&v, &p), ERR_OK);
        uint64_t newest = 0;
        for (unsigned i = 0; i < PAIRS; i++) {
            uint64_t number = number_at(&v, i);
            CHECK_EQ(number_at(&v, i + 1000), number);
            newest = number > newest ? number : newest;
        }
        CHECK_EQ(newest, p.index);
        backend_view_close(&v);
        r->views++;
    }
}

static void read_again(struct job *j)
{
    struct reader_job *r = container_of(j, struct reader_job, job);

    r->done = r->stop;
    if (!r->stop)
        job_submit(r->workers, &r->job);
}

static void turn(void *context)
{
    const struct threads *t = context;

    inbox_drain(loop_io(t->loop)->inbox, SIZE_MAX);
}

static void write_pair(struct backend *b, uint64_t index)
{
    for (unsigned half = 0; half < 2; half++) {
        char text[16];
        snprintf(text, sizeof(text), "%08u", (unsigned)(index % PAIRS) + half * 1000);
        backend_put(b, BUCKET_KEY, bytes_of_str(text), bytes_of(&index, sizeof(index)));
    }
}

TEST(workers_look_while_the_core_writes_and_the_store_is_replaced)
{
    static struct threads t;
    struct backend_defrag d = {.on_done = defrag_done};
    char dir[160];

    snprintf(dir, sizeof(dir), "%s/store", test_tmp_dir());
    CHECK_EQ(loop_open(&(struct loop_options){.worker_threads = 4}, &t.loop), ERR_OK);
    struct workers *workers = loop_io(t.loop)->workers;
    CHECK_EQ(backend_open(&(struct backend_options){.disk = loop_io(t.loop)->disk,
                                                    .dir = dir,
                                                    .workers = workers,
                                                    .slice_bytes = 4000},
                          &t.b),
             ERR_OK);
    for (int i = 0; i < READERS; i++) {
        t.readers[i] = (struct reader_job){
            .job = {.run = read_pairs, .on_done = read_again}, .b = t.b, .workers = workers};
        job_submit(workers, &t.readers[i].job);
    }
    bool enough = false;
    for (uint64_t index = 1; !enough || !backend_is_idle(t.b); index++) {
        enough = index >= ENTRIES && backend_durable_batch(t.b) > 10; /* a slow disk takes longer */
        backend_entry_begin(t.b);
        write_pair(t.b, index);
        backend_entry_end(t.b, (struct backend_position){index, 1}, (struct bytes){0});
        if (!enough && backend_can_commit(t.b))
            backend_commit_start(t.b);
        if (!enough && index % 100 == 0)
            backend_defrag_start(t.b, &d);
        struct backend_view v;
        backend_view_open(t.b, &v);
        CHECK_EQ(number_at(&v, (unsigned)(index % PAIRS)), index);
        backend_view_close(&v);
        loop_run_once(t.loop, turn, &t);
    }
    for (int i = 0; i < READERS; i++) {
        t.readers[i].stop = true;
        while (!t.readers[i].done)
            loop_run_once(t.loop, turn, &t);
        CHECK(t.readers[i].views > 0);
    }

    CHECK(defrags > 0);
    backend_close(t.b);
    loop_close(t.loop);
}
