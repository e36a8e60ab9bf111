/* scripts/run-cluster, as docs/operations.md walks through it. */
#include "harness/peer_test.h"
#include "harness/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 60000 };

struct run {
    struct arena arena;
    const char *dir;
    pid_t pid;
};

static void run_start(struct run *r, const char *program)
{
    *r = (struct run){.dir = test_tmp_dir()};
    const char *line = arena_printf(&r->arena,
                                    "exec scripts/run-cluster --server %s --dir %s --free-ports "
                                    ">%s/log 2>&1",
                                    program, r->dir, r->dir);

    r->pid = fork();
    CHECK(r->pid >= 0);
    if (r->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
}

static const char *ask(struct run *r, const char *what)
{
    return peer_run(&r->arena, "scripts/run-cluster --dir %s %s 2>&1 || true", r->dir, what);
}

/* Asks until the answer has this in it. */
static const char *await(struct run *r, const char *what, const char *text)
{
    const struct timespec a_moment = {.tv_nsec = 20000000};
    const char *said = "";

    for (unsigned ms = 0; ms < WAIT_MS_MAX; ms += 20) {
        said = ask(r, what);
        if (strstr(said, text))
            return said;
        nanosleep(&a_moment, NULL);
    }
    test_fail(__FILE__, __LINE__, "%s never said %s, but %s; its log:\n%s", what, text, said,
              peer_run(&r->arena, "tail -n 20 %s/log", r->dir));
}

/* The client URL of a member, from its line of the status. */
static const char *url_of(struct run *r, const char *status, const char *member)
{
    const char *at = strstr(strstr(status, member), "http://");

    return arena_copy_str(&r->arena, bytes_of(at, strcspn(at, " ")));
}

static const char *ctl(struct run *r, const char *url, const char *what)
{
    return peer_run(&r->arena, PEERS "etcdctl --command-timeout=60s --endpoints %s %s", url, what);
}

static void check_walk(const char *program)
{
    struct run r;
    int status;
    run_start(&r, program);
    const char *said = await(&r, "status", "m3");
    const char *first = url_of(&r, said, "m1"), *second = url_of(&r, said, "m2");
    CHECK_STR(ctl(&r, first, "put a 1"), "OK");

    await(&r, "kill m1", "SIGKILL");
    await(&r, "status", "does not run");
    CHECK_STR(ctl(&r, second, "put a 2"), "OK");
    await(&r, "start m1", "pid");
    CHECK_STR(ctl(&r, first, "get a --print-value-only"), "2");
    await(&r, "pause m2", "SIGSTOP");
    CHECK(strstr(ask(&r, "status"), "paused"));
    await(&r, "resume m2", "SIGCONT");
    CHECK_STR(ctl(&r, second, "get a --print-value-only"), "2");

    CHECK_EQ(kill(r.pid, SIGINT), 0);
    CHECK_EQ(waitpid(r.pid, &status, 0), r.pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_STR(peer_run(&r.arena, "pgrep -f -- '--data-dir %s/[m]' | wc -l", r.dir), "0");
    arena_free(&r.arena);
}

TEST(real_etcd_can_be_killed_and_revived_by_run_cluster)
{
    peer_need();
    check_walk(PEERS "etcd");
}
