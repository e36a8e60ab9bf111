/* Flags whose effect only a whole program shows. */
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *in_dir(struct arena *arena, const char *name)
{
    return arena_printf(arena, "%s/%s", test_tmp_dir(), name);
}

static bool log_has(struct peer *p, const char *what)
{
    return strcmp(peer_run(&p->arena, "grep -c '%s' %s.log || true", what, p->dir), "0") != 0;
}

/* The port is open before anybody is served; a call waits for that. */
static void serve(struct peer *p, const char *flags)
{
    peer_start(p, flags);
    PEER_CTL(p, "get nothing");
}

/* ---- --socket-reuse-port ---- */

TEST(two_members_share_a_port_if_both_want_to)
{
    struct arena arena = {0};
    struct peer one, other;
    peer_open_ours(&one, in_dir(&arena, "one"));
    peer_open_ours(&other, in_dir(&arena, "other"));
    other.client_url = one.client_url;

    peer_start(&one, "--socket-reuse-port");
    peer_start(&other, "--socket-reuse-port");
    peer_stop(&other);
    peer_stop(&one);

    peer_close(&other);
    peer_close(&one);
    arena_free(&arena);
}

/* ---- --initial-election-tick-advance ---- */

static int64_t start_ms(struct peer *p, const char *flags)
{
    struct timespec before, after;

    clock_gettime(CLOCK_MONOTONIC, &before);
    serve(p, flags);
    clock_gettime(CLOCK_MONOTONIC, &after);
    peer_stop(p);
    return (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
}

TEST(a_lone_member_can_be_told_to_wait_for_its_election)
{
    struct peer p;
    struct arena arena = {0};
    peer_need();
    peer_open_ours(&p, in_dir(&arena, "data"));

    CHECK(start_ms(&p, "--election-timeout=1500 --initial-election-tick-advance=false") >= 1400);

    peer_close(&p);
    arena_free(&arena);
}

/* ---- --bootstrap-defrag-threshold-megabytes ---- */

static void leave_holes(struct peer *p)
{
    peer_start(p, "");
    peer_run(&p->arena, "head -c 1000000 /dev/zero | tr '\\0' x >%s.value", p->dir);
    for (int i = 0; i < 8; i++)
        peer_run(&p->arena, "$PEERS/etcdctl --endpoints %s put k%d <%s.value", p->client_url, i,
                 p->dir);
    PEER_CTL(p, "del k --prefix");
    PEER_CTL(p, "compaction --physical 10");
    peer_stop(p);
}

TEST(a_store_with_holes_is_defragmented_at_the_start_if_asked_for)
{
    struct peer p;
    struct arena arena = {0};
    peer_need();
    peer_open_ours(&p, in_dir(&arena, "data"));
    leave_holes(&p);

    serve(&p, "--bootstrap-defrag-threshold-megabytes=100000");
    CHECK(log_has(&p, "Skipping defragmentation"));
    CHECK(!log_has(&p, "starting defragment"));
    peer_stop(&p);

    serve(&p, "--bootstrap-defrag-threshold-megabytes=1");
    CHECK(log_has(&p, "starting defragment"));
    PEER_CTL(&p, "defrag"); /* one of a client's comes after it */
    CHECK(log_has(&p, "finished defragment"));
    peer_stop(&p);

    peer_close(&p);
    arena_free(&arena);
}

/* ---- --enable-log-rotation ---- */

TEST(a_log_that_is_rotated_is_in_files)
{
    struct peer p;
    struct arena arena = {0};
    peer_need();
    peer_open_ours(&p, in_dir(&arena, "data"));
    const char *log = in_dir(&arena, "server.log");

    /* Almost full: the first lines find no space. */
    peer_run(&p.arena, "head -c 1048570 /dev/zero | tr '\\0' '\\n' >%s", log);
    serve(&p, arena_printf(&arena,
                           "--log-outputs=stderr,%s --enable-log-rotation "
                           "--log-rotation-config-json='{\"maxsize\":1}'",
                           log));
    peer_stop(&p);

    CHECK_STR(peer_run(&p.arena, "ls %s | grep -c '^server-20.*T.*[.]log$'", test_tmp_dir()), "1");
    CHECK_STR(peer_run(&p.arena, "grep -c 'ready to serve' %s", log), "1");
    peer_close(&p);
    arena_free(&arena);
}
