#include "harness/gate_test.h"

#include "base/mem.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gated {
    const char *variable, *folder;
    const char *command; /* that builds them */
    const char *programs[4];
};

static const struct gated gated[] = {
    [GATE_PEERS] = {"PEERS", "peers", "make peers", {"etcd", "etcdctl", "etcdutl", "benchmark"}},
    [GATE_PEERS36] = {"PEERS36", "peers36", "make peers", {"etcd", "etcdctl"}},
    [GATE_H2SPEC] = {"H2SPEC", "h2spec", "make peers", {"h2spec"}},
    [GATE_CLIENTS] = {"CLIENTS", "clients", "make clients", {NULL}}, /* each for itself */
};

static bool is_open[ARRAY_LEN(gated)];
static char found[4096];

/* Variables of the caller's own must not stand in for a gate. */
__attribute__((constructor)) static void close_gates(void)
{
    for (size_t i = 0; i < ARRAY_LEN(gated); i++)
        unsetenv(gated[i].variable);
}

static void name_path(enum gate g, const char *name)
{
    const char *root = getenv("TEST_PEERS");

    snprintf(found, sizeof(found), "%s/%s%s%s", root && *root ? root : "build", gated[g].folder,
             *name ? "/" : "", name);
}

static void need_program(enum gate g, const char *name)
{
    name_path(g, name);
    if (access(found, X_OK) != 0)
        test_lacks(gated[g].command, "there is no %s", found);
}

static void open_gate(enum gate g)
{
    is_open[g] = true;
    name_path(g, "");
    CHECK_EQ(setenv(gated[g].variable, found, 1), 0);
}

void gate_need(enum gate g)
{
    CHECK(gated[g].programs[0] != NULL);
    for (size_t i = 0; i < ARRAY_LEN(gated[g].programs) && gated[g].programs[i]; i++)
        need_program(g, gated[g].programs[i]);
    open_gate(g);
}

const char *gate_program(enum gate g, const char *name)
{
    static struct arena paths; /* of the test's process */

    need_program(g, name);
    const char *path = arena_printf(&paths, "%s", found);
    open_gate(g);
    return path;
}

static bool names(const char *line, const char *before, const char *name, const char *after)
{
    char text[128];

    snprintf(text, sizeof(text), "%s%s%s", before, name, after);
    return strstr(line, text) != NULL;
}

void gate_check_line(const char *line)
{
    for (size_t i = 0; i < ARRAY_LEN(gated); i++)
        if (!is_open[i] &&
            (names(line, "$", gated[i].variable, "/") || names(line, "${", gated[i].variable, "") ||
             names(line, "build/", gated[i].folder, "/")))
            test_fail(__FILE__, __LINE__, "the test has not passed the gate of $%s (gate_need): %s",
                      gated[i].variable, line);
}

/* ---- Tests of the gate and of the runner's closing line ---- */

TEST(a_command_line_that_has_not_passed_its_gate_fails_the_test)
{
    CHECK_DIES(gate_check_line("until $PEERS/etcdctl get k; do sleep 1; done"),
               "has not passed the gate of $PEERS (gate_need): until $PEERS/etcdctl");
    CHECK_DIES(gate_check_line("exec build/peers36/etcd --name m"), "the gate of $PEERS36");
    CHECK_DIES(gate_check_line("(cd / && \"${H2SPEC}\"/h2spec)"), "the gate of $H2SPEC");
    gate_check_line("exec build/cleat --data-dir /tmp/peers/data; echo $PEERS36X");
}

TEST(a_gate_once_passed_lets_the_shell_find_its_programs)
{
    struct arena arena = {0};
    CHECK_EQ(setenv("TEST_PEERS", test_tmp_dir(), 1), 0);
    peer_run(&arena, "cd %s && mkdir h2spec && ln -s /bin/echo h2spec/h2spec", test_tmp_dir());

    gate_need(GATE_H2SPEC);

    CHECK_STR(peer_run(&arena, "$H2SPEC/h2spec here"), "here");
    arena_free(&arena);
}

/* What the runner prints about these tests, without its CPU time. */
static const char *run_the_runner(struct arena *arena, const char *args)
{
    return peer_run(arena, "{ TEST_PEERS=%s %s %s; } | sed 's/, [0-9]* s of CPU$//'",
                    test_tmp_dir(), peer_own_program(arena, "cleat-test"), args);
}

TEST(tests_skipped_at_a_gate_are_summed_up_in_one_line_and_can_be_run_later)
{
    static const char sum[] = "3 tests were skipped: they need programs that are not built here. "
                              "`make peers` adds 1, `make clients` adds 2.\n"
                              "0 passed, 0 failed, 3 skipped";
    struct arena arena = {0};
    const char *dir = test_tmp_dir();

    const char *first = run_the_runner(
        &arena, arena_printf(&arena, "-j 1 -o %s/names h2spec_test a_go_session", dir));
    const char *names = peer_run(&arena, "cat %s/names", dir);
    const char *again =
        run_the_runner(&arena, arena_printf(&arena, "-j 1 -o %s/names @%s/names", dir, dir));
    const char *names_again = peer_run(&arena, "cat %s/names; : >%s/names", dir, dir);
    const char *none = run_the_runner(&arena, arena_printf(&arena, "@%s/names && echo good", dir));

    CHECK_STR(first, sum);
    CHECK_STR(names,
              "tests/interop/h2spec_test.c/h2spec_finds_what_is_named_and_nothing_else\n"
              "tests/interop/sessions_test.c/a_go_session_sees_no_difference\n"
              "tests/interop/sessions_test.c/a_go_session_with_certificates_sees_no_difference");
    CHECK_STR(again, sum);
    CHECK_STR(names_again, names);
    CHECK_STR(none, "0 passed, 0 failed, 0 skipped\ngood");
    arena_free(&arena);
}

/* A script that goes on after make peers must not take a machine without Go for one with peers. */
TEST(make_peers_without_go_fails_and_says_why)
{
    struct arena arena = {0};
    const char *dir = test_tmp_dir();
    peer_run(&arena, "mkdir %s/bin && ln -s $(command -v mkdir) $(command -v dirname) %s/bin", dir,
             dir);

    const char *said = peer_run(&arena,
                                "PATH=%s/bin /bin/sh scripts/peers tests/peers %s/peers 2>&1; "
                                "echo status $?",
                                dir, dir);

    CHECK_STR(said, arena_printf(&arena,
                                 "make peers: NOT built: %s/peers, there is no Go on this machine "
                                 "(1.26 or newer is needed)\nstatus 1",
                                 dir));
    arena_free(&arena);
}

/* A space in the path of the checkout is then none of the command lines' business. */
TEST(a_program_of_ours_is_named_from_the_working_directory)
{
    struct arena arena = {0};

    const char *path = peer_own_program(&arena, "cleat");

    CHECK(path[0] != '/');
    peer_run(&arena, "%s --version", path);
    arena_free(&arena);
}
