/* scripts/run-cluster, as docs/operations.md walks through it. */
#include "base/mem.h"
#include "harness/peer_test.h"
#include "harness/port.h"
#include "harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIES_MAX = 500 };

struct run {
    struct arena arena;
    const char *dir;
    pid_t pid;
};

static void run_start(struct run *r, const char *program)
{
    *r = (struct run){.dir = test_tmp_dir()};
    uint16_t p[6];
    for (size_t i = 0; i < ARRAY_LEN(p); i++)
        CHECK((p[i] = port_take()) != 0);
    const char *line = arena_printf(&r->arena,
                                    "exec scripts/run-cluster --server %s --dir %s "
                                    "--ports %u,%u,%u,%u,%u,%u >%s/log 2>&1",
                                    program, r->dir, p[0], p[1], p[2], p[3], p[4], p[5], r->dir);

    r->pid = fork();
    CHECK(r->pid >= 0);
    if (r->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
}

/* What it prints, whether it succeeds or not. */
static const char *ask(struct run *r, const char *what)
{
    return peer_run(&r->arena, "scripts/run-cluster --dir %s %s 2>&1 || true", r->dir, what);
}

static const char *ctl(struct run *r, const char *url, const char *what)
{
    return peer_run(&r->arena,
                    "$PEERS/etcdctl --command-timeout=3s --endpoints %s %s 2>/dev/null || true",
                    url, what);
}

static void a_moment_passes(void)
{
    const struct timespec a_moment = {.tv_nsec = 20000000};

    nanosleep(&a_moment, NULL);
}

/* Asks until the response has this in it. */
static const char *await(struct run *r, const char *what, const char *text)
{
    const char *said = "";

    for (unsigned i = 0; i < TRIES_MAX; i++) {
        said = ask(r, what);
        if (strstr(said, text))
            return said;
        a_moment_passes();
    }
    test_fail(__FILE__, __LINE__, "%s never said %s, but %s; its log:\n%s", what, text, said,
              peer_run(&r->arena, "tail -n 20 %s/log", r->dir));
}

/* The same of etcdctl: what reaches a leader that has just died is lost, and has to be tried again.
 */
static void await_ctl(struct run *r, const char *url, const char *what, const char *text)
{
    const char *said = "";

    for (unsigned i = 0; i < TRIES_MAX; i++) {
        said = ctl(r, url, what);
        if (strcmp(said, text) == 0)
            return;
        a_moment_passes();
    }
    test_fail(__FILE__, __LINE__, "%s at %s never printed %s, but %s", what, url, text, said);
}

/* The client URL of a member, from its line of the status. */
static const char *url_of(struct run *r, const char *status, const char *member)
{
    const char *at = strstr(strstr(status, member), "http://");

    return arena_copy_str(&r->arena, bytes_of(at, strcspn(at, " ")));
}

TEST(members_can_be_killed_and_revived_by_run_cluster)
{
    struct peer ours;
    struct run r;
    int status;
    peer_need(); /* for etcdctl */
    peer_open_ours(&ours, test_tmp_dir());
    run_start(&r, ours.program);
    const char *said = await(&r, "status", "m3");
    const char *first = url_of(&r, said, "m1"), *second = url_of(&r, said, "m2");
    await_ctl(&r, first, "put a 1", "OK");

    await(&r, "kill m1", "SIGKILL");
    await(&r, "status", "does not run");
    await_ctl(&r, second, "put a 2", "OK");
    await(&r, "start m1", "pid");
    await_ctl(&r, first, "get a --print-value-only", "2");
    await(&r, "pause m2", "SIGSTOP");
    CHECK(strstr(ask(&r, "status"), "paused"));
    await(&r, "resume m2", "SIGCONT");
    await_ctl(&r, second, "get a --print-value-only", "2");

    CHECK_EQ(kill(r.pid, SIGINT), 0);
    CHECK_EQ(waitpid(r.pid, &status, 0), r.pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_STR(peer_run(&r.arena, "pgrep -f -- '--data-dir %s/[m]' | wc -l", r.dir), "0");
    arena_free(&r.arena);
    peer_close(&ours);
}
