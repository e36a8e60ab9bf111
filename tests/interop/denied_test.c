/*
 * A directory of etcd's that we may read, and not write everywhere, is refused before anything in
 * it has changed.
 *
 *     a member of ours is exported: a directory of etcd's --> some of it is made read-only
 *         --> cleat is started on it, and says what it cannot write to
 *         --> every name and every byte is what it was, and the second attempt says the same
 *         --> when it may be written to, it is taken over
 *
 * Modes do not bind root. So where the tests are root, the member is root without the capability to
 * pass over them.
 */
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct place {
    struct peer p;
    const char *program; /* ours, as it is */
    const char *wal;     /* the log's directory */
};

/* ---- Somebody whom modes bind ---- */

#define WITHOUT_CAPABILITY "setpriv --bounding-set -dac_override,-dac_read_search -- "

static bool succeeds(struct arena *arena, const char *line)
{
    return strcmp(peer_run(arena, "%s >/dev/null 2>&1 && echo yes || echo no", line), "yes") == 0;
}

static const char *as_somebody(struct arena *arena)
{
    const char *dir = arena_printf(arena, "%s/sealed", test_tmp_dir());

    if (geteuid() != 0)
        return "";
    peer_run(arena, "mkdir -p -m 0500 %s", dir);
    if (!succeeds(arena, WITHOUT_CAPABILITY "true"))
        SKIP("NOT tried: this root cannot drop a capability (setpriv)");
    CHECK(!succeeds(arena, arena_printf(arena, WITHOUT_CAPABILITY "touch %s/x", dir)));
    return WITHOUT_CAPABILITY;
}

/* ---- The directory ---- */

static const char *flags(struct place *t)
{
    return arena_printf(&t->p.arena, "--wal-dir %s", t->wal);
}

static void start(struct place *t)
{
    peer_launch(&t->p, flags(t));
    peer_await(&t->p);
    peer_await_said(&t->p, "ready to serve client requests", 1);
}

/* wal_dir: NULL, or its name beside the data directory. */
static void place_open(struct place *t, const char *wal_dir)
{
    struct arena arena = {0};

    peer_open_ours(&t->p, arena_printf(&arena, "%s/data", test_tmp_dir()));
    arena_free(&arena);
    t->program = t->p.program;
    t->wal = wal_dir ? arena_printf(&t->p.arena, "%s/%s", test_tmp_dir(), wal_dir)
                     : arena_printf(&t->p.arena, "%s/member/wal", t->p.dir);
    start(t);
    peer_stop(&t->p);
    peer_run(&t->p.arena, "%sutl export %s", t->program, t->p.dir);
    t->p.program = arena_printf(&t->p.arena, "%s%s", as_somebody(&t->p.arena), t->program);
}

static void place_close(struct place *t)
{
    peer_close(&t->p);
}

/* All names, modes, and what is in the files. */
static const char *fingerprint(struct place *t)
{
    return peer_run(&t->p.arena,
                    "find %s %s -printf '%%p %%m\\n' | sort -u && "
                    "find %s %s -type f -exec sha256sum {} + | sort -u",
                    t->p.dir, t->wal, t->p.dir, t->wal);
}

static void check_refused(struct place *t, const char *why)
{
    int status;

    peer_run(&t->p.arena, "rm -f %s.log", t->p.dir);
    peer_launch(&t->p, flags(t));
    CHECK_EQ(waitpid(t->p.pid, &status, 0), t->p.pid);
    t->p.pid = 0;
    const char *said = peer_run(&t->p.arena, "grep '\"level\":\"fatal\"' %s.log", t->p.dir);
    if (!strstr(said, why))
        test_fail(__FILE__, __LINE__, "not \"%s\" but: %s", why, said);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 1);
}

static void check_left_alone(struct place *t, const char *why)
{
    const char *before = fingerprint(t);

    for (int i = 0; i < 2; i++) {
        check_refused(t, why);
        CHECK_STR(fingerprint(t), before);
    }
}

static void check_taken_over(struct place *t)
{
    peer_run(&t->p.arena, "rm -f %s.log", t->p.dir);
    start(t);
    CHECK_EQ(peer_said(&t->p, "imported etcd's store"), 1);
    peer_stop(&t->p);
}

/* ---- Modes ---- */

/* sealed: what loses its mode for this one, below the test's directory. */
static void check_sealed(const char *wal_dir, const char *sealed, const char *mode, const char *why)
{
    struct place t;
    place_open(&t, wal_dir);
    const char *path = arena_printf(&t.p.arena, "%s/%s", test_tmp_dir(), sealed);
    const char *old = peer_run(&t.p.arena, "stat -c %%a %s", path);
    peer_run(&t.p.arena, "chmod %s %s", mode, path);

    check_left_alone(&t, why);

    peer_run(&t.p.arena, "chmod %s %s", old, path);
    check_taken_over(&t);
    place_close(&t);
}

#define SEGMENT "0000000000000000-0000000000000000.wal"

TEST(a_data_directory_that_is_sealed_is_left_alone)
{
    check_sealed(NULL, "data", "0500", "/data: permission denied");
}

TEST(a_member_directory_that_is_sealed_is_left_alone)
{
    check_sealed(NULL, "data/member", "0500", "/data/member/store.tmp: ");
}

TEST(a_snap_directory_that_is_sealed_is_left_alone)
{
    check_sealed(NULL, "data/member/snap", "0500", "/data/member/snap: permission denied");
}

TEST(a_log_directory_that_is_sealed_is_left_alone)
{
    check_sealed(NULL, "data/member/wal", "0500", "/data/member/wal: permission denied");
}

TEST(a_log_directory_elsewhere_that_is_sealed_is_left_alone)
{
    check_sealed("elsewhere", "elsewhere", "0500", "/elsewhere: permission denied");
}

TEST(a_segment_of_the_log_that_is_sealed_is_left_alone)
{
    check_sealed(NULL, "data/member/wal/" SEGMENT, "0400",
                 "/member/wal: permission denied: " SEGMENT "\"");
}

/* What is above a log that is there need not be ours: etcd does not write to it either. */
TEST(a_log_below_a_sealed_directory_is_taken_over)
{
    struct place t;
    place_open(&t, "above/wal");
    peer_run(&t.p.arena, "chmod 0500 %s/above", test_tmp_dir());

    check_taken_over(&t);

    peer_run(&t.p.arena, "chmod 0700 %s/above", test_tmp_dir());
    place_close(&t);
}

/* ---- A mount ---- */

/* Where neither root nor a user may mount in a namespace of its own, there is nothing to try. */
static const char *in_namespace(struct arena *arena)
{
    const char *line = geteuid() == 0 ? "unshare -m --propagation private" : "unshare -r -m";

    if (!succeeds(arena, arena_printf(arena, "%s mount -t tmpfs none %s", line, test_tmp_dir())))
        SKIP("NOT tried: no mount in a namespace of one's own (unshare)");
    return line;
}

static void check_mounted(const char *wal_dir, const char *mounted, const char *why)
{
    struct place t;
    place_open(&t, wal_dir);
    const char *program = t.p.program;
    const char *script = arena_printf(&t.p.arena, "%s/mounted.sh", test_tmp_dir());
    peer_run(&t.p.arena,
             "echo 'mount --bind %s/%s %s/%s && mount -o remount,ro,bind %s/%s && exec \"$@\"' >%s",
             test_tmp_dir(), mounted, test_tmp_dir(), mounted, test_tmp_dir(), mounted, script);
    t.p.program =
        arena_printf(&t.p.arena, "%s sh %s %s", in_namespace(&t.p.arena), script, t.program);

    check_left_alone(&t, why);

    t.p.program = program;
    check_taken_over(&t);
    place_close(&t);
}

TEST(a_log_on_a_mount_that_is_read_only_is_left_alone)
{
    check_mounted("elsewhere", "elsewhere", "/elsewhere: permission denied");
}

TEST(a_data_directory_on_a_mount_that_is_read_only_is_left_alone)
{
    check_mounted("elsewhere", "data", "permission denied");
}
