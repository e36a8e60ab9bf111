/* The program itself, run as a user runs it. */
#include "base/arena.h"
#include "base/err.h"
#include "harness/peer_test.h"
#include "harness/stream.h"
#include "harness/test.h"
#include "io/hash.h"
#include "io/loop.h"
#include "wal/wal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAL_FILE  "src/wal/testdata/etcd-3.7.1.wal"
#define WAL_NAME  "0000000000000000-0000000000000000.wal"
#define BOLT_FILE "src/snap/testdata/bbolt-image.db"

/* ---- Files ---- */

static void read_file(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rbe");

    if (!f)
        test_fail(__FILE__, __LINE__, "cannot open %s", path);
    CHECK(stream_read_all(f, out));
    fclose(f);
}

static void write_file(const char *path, struct bytes content)
{
    FILE *f = fopen(path, "wbe");

    CHECK(f != NULL);
    CHECK_EQ(fwrite(content.at, 1, content.len, f), content.len);
    CHECK_EQ(fclose(f), 0);
}

/* ---- Running ---- */

struct ran {
    struct arena arena;
    int status;
    const char *out, *err;
};

static const char *slurp(struct arena *arena, const char *path)
{
    struct buf text = {0};

    read_file(path, &text);
    const char *kept = arena_copy_str(arena, buf_bytes(&text));
    buf_free(&text);
    return kept;
}

static void redirect(const char *path, int to)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || dup2(fd, to) < 0)
        _exit(126);
}

static int wait_for(pid_t pid)
{
    int status = 0;

    CHECK_EQ(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status))
        test_fail(__FILE__, __LINE__, "ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* Runs it with up to three arguments, its output in `out_path`, or where it can be read back. */
static void run_to(struct ran *r, const char *out_path, const char *a, const char *b, const char *c)
{
    *r = (struct ran){0};
    const char *path = peer_own_program(&r->arena, "cleatutl");
    const char *out = arena_printf(&r->arena, "%s/out", test_tmp_dir());
    const char *err = arena_printf(&r->arena, "%s/err", test_tmp_dir());

    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        redirect(out_path ? out_path : out, STDOUT_FILENO);
        redirect(err, STDERR_FILENO);
        execl(path, "cleatutl", a, b, c, NULL);
        _exit(127);
    }
    r->status = wait_for(pid);
    r->out = out_path ? "" : slurp(&r->arena, out);
    r->err = slurp(&r->arena, err);
}

static void run(struct ran *r, const char *a, const char *b, const char *c)
{
    run_to(r, NULL, a, b, c);
}

#define CHECK_HAS(text, part)                                                                      \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            test_fail(__FILE__, __LINE__, "no \"%s\" in:\n%s", (part), (text));                    \
    } while (0)

static void ran_free(struct ran *r)
{
    arena_free(&r->arena);
}

/* ---- How it is called ---- */

TEST(cleatutl_says_how_it_is_used_and_refuses_what_it_does_not_know)
{
    static const struct {
        const char *words[3];
        int status;
        const char *out, *err;
    } calls[] = {
        {{"--help"}, 0, "Usage:", ""},
        {{"-h"}, 0, "cleatutl wal DIR", ""},
        {{"version"}, 0, "cleatutl version: 3.7.1\nAPI version: 3.7\n", ""},
        {{NULL}, 2, "", "no command"},
        {{"frobnicate"}, 2, "", "unknown command: frobnicate"},
        {{"wal"}, 2, "", "an argument is missing for: wal"},
        {{"db", "--yaml", "x"}, 2, "", "unknown flag: --yaml"},
        {{"db", "a", "b"}, 2, "", "one argument too many: b"},
        {{"wal", "/nonexistent/wal"}, 1, "", "/nonexistent/wal: "},
        {{"wal", "/"}, 1, "", "/: no log segments here, nor in //member/wal"},
        {{"wal", "/", "--wal-dir=/"}, 2, "", "--wal-dir does not go with: wal"},
        {{"export", "--wal-dir"}, 2, "", "a directory is missing for: --wal-dir"},
        {{"export", "/nonexistent", "--wal-dir=/"}, 1, "", "/: no log segments here"},
        {{"export", "/nonexistent"}, 1, "", "/nonexistent/member: cannot lock: not found"},
        {{"db", "/nonexistent/db"}, 1, "", "/nonexistent/db: not found"},
        {{"db", "/dev/null"}, 1, "", "/dev/null: offset "},
    };

    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        struct ran r;
        run(&r, calls[i].words[0], calls[i].words[1], calls[i].words[2]);

        CHECK_EQ(r.status, calls[i].status);
        CHECK_HAS(r.out, calls[i].out);
        CHECK_HAS(r.err, calls[i].err);
        if (calls[i].status == 0)
            CHECK_STR(r.err, "");
        ran_free(&r);
    }
}

TEST(cleatutl_fails_when_nobody_can_read_what_it_prints)
{
    struct ran r;
    int ends[2];

    run_to(&r, "/dev/full", "db", BOLT_FILE, NULL);
    CHECK_EQ(r.status, 1);
    CHECK_HAS(r.err, "cannot write to standard output");
    ran_free(&r);

    struct arena arena = {0};
    const char *path = peer_own_program(&arena, "cleatutl");
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        redirect("/dev/null", STDERR_FILENO);
        execl(path, "cleatutl", "db", BOLT_FILE, NULL);
        _exit(127);
    }
    CHECK_EQ(wait_for(pid), 1);
    close(ends[1]);
    arena_free(&arena);
}

/* ---- Logs ---- */

static const char *make_wal(struct arena *arena, struct bytes content)
{
    const char *dir = arena_printf(arena, "%s/wal", test_tmp_dir());

    mkdir(dir, 0700);
    write_file(arena_printf(arena, "%s/" WAL_NAME, dir), content);
    return dir;
}

TEST(cleatutl_wal_tells_what_a_log_of_etcds_holds)
{
    struct arena arena = {0};
    struct buf file = {0};
    struct ran r;
    read_file(WAL_FILE, &file);
    const char *dir = make_wal(&arena, buf_bytes(&file));

    run(&r, "wal", dir, NULL);
    CHECK_EQ(r.status, 0);
    CHECK_STR(r.err, "");
    CHECK_STR(r.out,
              arena_printf(&arena,
                           "dir: %s\n"
                           "metadata:\n"
                           "  nodeId: bdae9bbc11dd390d\n"
                           "  clusterId: d1cfaf999eb97a2a\n"
                           "segments:\n"
                           "  name=" WAL_NAME " bytes=1688 usedBytes=1688 records=38 entries=16\n"
                           "entries:\n"
                           "  count: 16\n"
                           "  replaced: 0\n"
                           "  firstIndex: 1\n"
                           "  lastIndex: 16\n"
                           "  firstTerm: 1\n"
                           "  lastTerm: 2\n"
                           "hardState:\n"
                           "  term: 2\n"
                           "  vote: bdae9bbc11dd390d\n"
                           "  commit: 16\n"
                           "snapshots:\n"
                           "  index=0 term=0 committed=true\n"
                           "  index=6 term=2 committed=true\n"
                           "  index=12 term=2 committed=true\n"
                           "opensAt:\n"
                           "  index: 12\n"
                           "  term: 2\n",
                           dir));
    ran_free(&r);

    run(&r, "--json", "wal", dir);
    CHECK_EQ(r.status, 0);
    CHECK_STR(
        r.out,
        arena_printf(
            &arena,
            "{\"dir\":\"%s\",\"metadata\":{\"nodeId\":\"bdae9bbc11dd390d\",\"clusterId\":"
            "\"d1cfaf999eb97a2a\"},\"segments\":[{\"name\":\"" WAL_NAME "\",\"bytes\":1688,"
            "\"usedBytes\":1688,\"records\":38,\"entries\":16}],\"entries\":{\"count\":16,"
            "\"replaced\":0,\"firstIndex\":1,\"lastIndex\":16,\"firstTerm\":1,\"lastTerm\":2},"
            "\"hardState\":{\"term\":2,\"vote\":\"bdae9bbc11dd390d\",\"commit\":16},"
            "\"snapshots\":[{\"index\":0,\"term\":0,\"committed\":true},{\"index\":6,\"term\":2,"
            "\"committed\":true},{\"index\":12,\"term\":2,\"committed\":true}],\"opensAt\":{"
            "\"index\":12,\"term\":2}}\n",
            dir));
    ran_free(&r);
    buf_free(&file);
    arena_free(&arena);
}

TEST(cleatutl_wal_finds_the_log_of_a_data_directory)
{
    struct arena arena = {0};
    struct buf file = {0};
    struct ran r;
    const char *member = arena_printf(&arena, "%s/member", test_tmp_dir());
    read_file(WAL_FILE, &file);
    const char *dir = make_wal(&arena, buf_bytes(&file));
    const char *below = arena_printf(&arena, "%s/wal", member);
    mkdir(member, 0700);
    CHECK_EQ(rename(dir, below), 0);

    run(&r, "wal", test_tmp_dir(), NULL);
    CHECK_EQ(r.status, 0);
    CHECK_STR(r.err, "");
    CHECK_HAS(r.out, arena_printf(&arena, "dir: %s\n", below));
    CHECK_HAS(r.out, "lastIndex: 16\n");

    ran_free(&r);
    buf_free(&file);
    arena_free(&arena);
}

TEST(cleatutl_wal_shows_a_torn_record_as_what_it_is)
{
    struct arena arena = {0};
    struct buf file = {0};
    struct ran r;
    read_file(WAL_FILE, &file);
    memset(file.at + 1536, 0, file.len - 1536); /* the last sector was not written */

    run(&r, "wal", make_wal(&arena, buf_bytes(&file)), NULL);

    CHECK_EQ(r.status, 0);
    CHECK_STR(r.err, "");
    CHECK_HAS(r.out, "torn:\n  file: " WAL_NAME "\n  offset: 15");
    ran_free(&r);
    buf_free(&file);
    arena_free(&arena);
}

/* Every damaged byte is found, or is one that wal.h says cannot be; none is a crash. */
TEST(cleatutl_wal_names_file_and_offset_of_damage)
{
    struct arena arena = {0};
    struct buf file = {0};
    unsigned found = 0;
    read_file(WAL_FILE, &file);

    for (size_t at = 5; at < file.len; at += 97) {
        struct ran r;
        file.at[at] ^= 0x40;
        const char *dir = make_wal(&arena, buf_bytes(&file));
        run(&r, "wal", dir, NULL);
        file.at[at] ^= 0x40;

        CHECK(r.status == 0 || r.status == 1);
        if (r.status == 1) {
            found++;
            CHECK_HAS(r.err, arena_printf(&arena, "cleatutl: %s/" WAL_NAME ": offset ", dir));
            CHECK_HAS(r.out, "damage:\n");
        }
        ran_free(&r);
    }
    CHECK_EQ(found, (file.len - 5 + 96) / 97);
    buf_free(&file);
    arena_free(&arena);
}

TEST(cleatutl_wal_misses_a_segment_that_is_not_there)
{
    struct arena arena = {0};
    struct buf file = {0};
    struct ran r;
    read_file(WAL_FILE, &file);
    const char *dir = make_wal(&arena, buf_bytes(&file));
    write_file(arena_printf(&arena, "%s/0000000000000002-0000000000000020.wal", dir),
               buf_bytes(&file));

    run(&r, "wal", dir, "--json");

    CHECK_EQ(r.status, 1);
    CHECK_HAS(r.err, "0000000000000002-0000000000000020.wal: offset 0: the segment before");
    CHECK_HAS(r.out, "\"damage\":{\"file\":\"0000000000000002-0000000000000020.wal\"");
    ran_free(&r);
    buf_free(&file);
    arena_free(&arena);
}

/* A log of our own, in small segments. */
struct writing {
    struct loop *loop;
    struct wal *wal;
};

static void turn(void *context)
{
    inbox_drain(loop_io(((struct writing *)context)->loop)->inbox, 100);
}

static void settle(struct writing *w)
{
    while (!wal_is_idle(w->wal))
        loop_run_once(w->loop, turn, w);
}

static void append(struct writing *w, uint64_t index, uint64_t term, uint64_t commit)
{
    struct raft_entry e = {.index = index, .term = term, .data = BYTES("some bytes of an entry")};

    wal_append(w->wal, &(struct wal_save){.entries = &e,
                                          .entry_count = 1,
                                          .state = {.term = term, .vote = 1, .commit = commit}});
    settle(w);
}

/* Forty entries, of which the last three are written again in a later term; the oldest segments
 * are given up and deleted. */
static void write_purged_log(const char *dir)
{
    struct logger quiet = {.level = LOG_FATAL};
    struct wal_options opt = {.dir = dir, .logger = &quiet, .segment_bytes = 512};
    struct pb_wal_metadata metadata = {.node_id = 0xabc, .cluster_id = 0xdef};
    struct writing w;

    CHECK_EQ(loop_open(&(struct loop_options){0}, &w.loop), ERR_OK);
    CHECK_EQ(wal_create(loop_io(w.loop)->disk, &opt, &metadata, &w.wal), ERR_OK);
    settle(&w);
    for (uint64_t i = 1; i <= 40; i++) {
        append(&w, i, 2, i < 37 ? i : 37);
        if (i == 30)
            wal_append_snapshot(
                w.wal, &(struct raft_snapshot){
                           .index = 30, .term = 2, .conf_state = {.voters = {1, {0xabc}}}});
    }
    for (uint64_t i = 38; i <= 41; i++)
        append(&w, i, 3, 37);
    wal_release(w.wal, 30);
    settle(&w);
    wal_purge(w.wal, 1);
    settle(&w);
    wal_close(w.wal);
    loop_close(w.loop);
}

TEST(cleatutl_wal_reads_a_log_whose_beginning_was_purged)
{
    struct arena arena = {0};
    const char *dir = arena_printf(&arena, "%s/purged", test_tmp_dir());
    struct ran r;
    write_purged_log(dir);

    run(&r, "wal", dir, "--json");

    CHECK_STR(r.err, "");
    CHECK_EQ(r.status, 0);
    CHECK(!strstr(r.out, WAL_NAME));
    CHECK_HAS(r.out, "\"nodeId\":\"abc\"");
    CHECK_HAS(r.out, "\"replaced\":3,");
    CHECK_HAS(r.out, "\"lastIndex\":41,\"firstTerm\":2,\"lastTerm\":3}");
    CHECK_HAS(r.out, "\"snapshots\":[{\"index\":30,\"term\":2,\"committed\":true}]");
    CHECK_HAS(r.out, "\"opensAt\":{\"index\":30,\"term\":2}");
    uint64_t count = 0, first = 0;
    CHECK_EQ(sscanf(strstr(r.out, "\"entries\":{"),
                    "\"entries\":{\"count\":%" SCNu64 ",\"replaced\":3,\"firstIndex\":%" SCNu64,
                    &count, &first),
             2);
    CHECK(first > 1 && first <= 30);
    CHECK_EQ(count, 41 - first + 1);
    ran_free(&r);
    arena_free(&arena);
}

/* ---- Stores ---- */

TEST(cleatutl_db_tells_what_a_file_of_bbolts_holds)
{
    struct ran r;

    run(&r, "db", BOLT_FILE, NULL);
    CHECK_EQ(r.status, 0);
    CHECK_STR(r.err, "");
    CHECK_STR(r.out, "file: " BOLT_FILE "\n"
                     "bytes: 11264\n"
                     "sha256: none\n"
                     "pageBytes: 1024\n"
                     "pages: 11\n"
                     "txid: 7\n"
                     "metaDamaged: false\n"
                     "buckets:\n"
                     "  name=empty keys=0 bytes=0\n"
                     "  name=inlined keys=2 bytes=4\n"
                     "  name=key keys=26 bytes=1375\n"
                     "  name=meta keys=1 bytes=24\n"
                     "consistentIndex: 3544952156018063160\n"
                     "firstRevision: 7738724769695019056\n"
                     "lastRevision: 7738724769695019056\n"
                     "hash: cba0b091\n"
                     "check: ok\n");
    ran_free(&r);

    run(&r, "db", "--json", BOLT_FILE);
    CHECK_EQ(r.status, 0);
    CHECK_HAS(r.out, "{\"name\":\"key\",\"keys\":26,\"bytes\":1375}");
    CHECK_HAS(r.out, "\"check\":\"ok\"}\n");
    ran_free(&r);
}

TEST(cleatutl_db_holds_a_backup_against_its_digest)
{
    struct arena arena = {0};
    struct buf file = {0};
    uint8_t digest[HASH_SHA256_BYTES];
    const char *path = arena_printf(&arena, "%s/backup", test_tmp_dir());
    struct ran r;
    read_file(BOLT_FILE, &file);
    hash_once(HASH_SHA256, buf_bytes(&file), digest);
    buf_append(&file, bytes_of(digest, sizeof(digest)));

    write_file(path, buf_bytes(&file));
    run(&r, "db", path, NULL);
    CHECK_EQ(r.status, 0);
    CHECK_HAS(r.out, "sha256: holds\n");
    CHECK_HAS(r.out, "check: ok\n");
    ran_free(&r);

    file.at[5000] ^= 1;
    write_file(path, buf_bytes(&file));
    run(&r, "db", path, NULL);
    CHECK_EQ(r.status, 1);
    CHECK_HAS(r.out, "sha256: does not hold\n");
    CHECK_HAS(r.err, arena_printf(&arena, "cleatutl: %s: offset 11264: not the SHA-256", path));
    ran_free(&r);
    buf_free(&file);
    arena_free(&arena);
}

TEST(cleatutl_db_names_file_and_offset_of_damage)
{
    struct arena arena = {0};
    struct buf file = {0};
    const char *path = arena_printf(&arena, "%s/db", test_tmp_dir());
    unsigned found = 0, tried = 0;
    read_file(BOLT_FILE, &file);

    for (size_t at = 0; at < file.len; at += 513, tried++) {
        struct ran r;
        file.at[at] ^= 0x21;
        bool cut = tried % 5 == 4;
        write_file(path, cut ? bytes_of(file.at, at) : buf_bytes(&file));
        run(&r, "db", path, NULL);
        file.at[at] ^= 0x21;

        CHECK(r.status == 0 || r.status == 1);
        if (r.status == 1) {
            found++;
            CHECK_HAS(r.err, arena_printf(&arena, "cleatutl: %s: offset ", path));
            CHECK_HAS(r.out, "damage:\n");
        }
        CHECK(r.status == 1 || !cut);
        ran_free(&r);
    }
    CHECK(found > tried / 4);
    buf_free(&file);
    arena_free(&arena);
}
