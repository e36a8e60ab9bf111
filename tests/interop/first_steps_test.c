/* The first minutes with the project, as README.md has them: what make run starts and prints, the
 * commands of the tour, and what a machine without the packages is told. */
#include "base/buf.h"
#include "base/mem.h"
#include "harness/peer_test.h"
#include "harness/port.h"
#include "harness/test.h"
#include "sim/climate.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void need_tools(void)
{
    if (system("command -v python3 etcdctl curl >/dev/null") != 0)
        SKIP("python3, etcdctl or curl is missing: scripts/setup build installs them");
}

static void open_at(struct peer *p, const char *name)
{
    char dir[4096];

    snprintf(dir, sizeof(dir), "%s/%s", test_tmp_dir(), name);
    peer_open_ours(p, dir);
}

/* As make run starts it: the script in the place of the server. */
static void launch(struct peer *p)
{
    const char *server = p->program;

    p->program = "scripts/run";
    peer_launch_as(p, arena_printf(&p->arena,
                                   "--server '%s' --data-dir '%s' --listen-client-urls %s "
                                   "--advertise-client-urls %s --listen-peer-urls %s",
                                   server, p->dir, p->client_url, p->client_url, p->peer_url));
    p->program = server;
}

static int ended_with(struct peer *p)
{
    int status;

    CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
    p->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *log_of(struct peer *p)
{
    return peer_run(&p->arena, "cat '%s.log'", p->dir);
}

/* Commands stand in lines that begin with four spaces. */
static const char *commands_in(struct peer *p, const char *file)
{
    return peer_run(&p->arena, "sed -n 's/^    //p' '%s'", file);
}

TEST(make_run_tells_where_the_member_serves_and_what_to_try)
{
    struct peer p, next;
    need_tools();
    open_at(&p, "data");

    launch(&p);
    peer_await_said(&p, "README.md has more.", 1);
    const char *log = log_of(&p);
    const char *serves =
        arena_printf(&p.arena, "cleat serves clients at %s. Its data is in %s. ^C stops it.\n",
                     p.client_url, p.dir);
    CHECK(strstr(log, serves) != NULL);
    CHECK_EQ(peer_said(&p, "\tinfo\t") + peer_said(&p, "\twarn\t"), 0);

    const char *printed =
        peer_run(&p.arena, "set -e\n%s", commands_in(&p, arena_printf(&p.arena, "%s.log", p.dir)));
    CHECK_STR(printed, "OK\ngreeting\nhello\n{\"health\":\"true\",\"reason\":\"\"}");

    CHECK_EQ(kill(p.pid, SIGINT), 0);
    CHECK_EQ(ended_with(&p), 0);
    CHECK(strstr(log_of(&p), "Traceback") == NULL);
    open_at(&next, "data"); /* nobody has it open any more */
    peer_start(&next, "");
    peer_stop(&next);
    peer_close(&next);
    peer_close(&p);
}

TEST(make_run_does_not_say_that_it_serves_where_it_does_not)
{
    struct peer p, other;
    need_tools();
    open_at(&other, "other");
    open_at(&p, "data");
    peer_start(&other, "");

    p.client_url = other.client_url;
    launch(&p);

    CHECK_EQ(ended_with(&p), 1);
    CHECK_EQ(peer_said(&p, "serves"), 0);
    CHECK_EQ(peer_said(&p, "is in use by another process"), 1);
    CHECK_EQ(peer_said(&p, "--listen-client-urls"), 1);
    CHECK_EQ(peer_said(&p, "The member did not start."), 1);
    peer_stop(&other);
    peer_close(&other);
    peer_close(&p);
}

/* ---- The tour ---- */

/* The text with every `what` replaced by `by`. */
static const char *replaced(struct arena *arena, const char *text, const char *what, const char *by)
{
    struct buf out = {0};

    for (const char *found; (found = strstr(text, what)) != NULL; text = found + strlen(what)) {
        buf_append(&out, bytes_of(text, (size_t)(found - text)));
        buf_append_str(&out, by);
    }
    buf_append_str(&out, text);
    const char *kept = arena_copy_str(arena, buf_bytes(&out));
    buf_free(&out);
    return kept;
}

/* The commands of README.md's tour, for this member, these programs and the test's directory. */
static const char *tour(struct peer *p)
{
    const char *section = peer_run(
        &p->arena, "sed -n '/^## A tour/,/^## State/s/^    //p' README.md; echo '# the end'");
    char *program = realpath(p->program, NULL);
    CHECK(program != NULL);
    const char *programs =
        arena_printf(&p->arena, "'%.*s'", (int)(strrchr(program, '/') + 1 - program), program);
    free(program);
    section = replaced(&p->arena, section, "http://127.0.0.1:2379", p->client_url);
    section = replaced(&p->arena, section, "default.etcd", p->dir);
    return replaced(&p->arena, section, "build/", programs);
}

/* As one script: its watch goes on in the background until the value has come that is put last. */
static const char *run_tour(struct peer *p)
{
    const char *path = arena_printf(&p->arena, "%s/tour", test_tmp_dir());
    FILE *script = fopen(path, "we");

    CHECK(script != NULL);
    fprintf(script,
            "set -eu\ncd '%s'\nexport ETCDCTL_ENDPOINTS=%s\ntrap 'kill $! 2>/dev/null' EXIT\n%s\n"
            "until grep -q '^hello again$' out; do sleep 0.01; done\n",
            test_tmp_dir(), p->client_url, tour(p));
    CHECK_EQ(fclose(script), 0);
    return peer_run(&p->arena,
                    "cd '%s' && { timeout 120 sh tour >out 2>err || { cat out err; exit 1; }; } && "
                    "cat out",
                    test_tmp_dir());
}

TEST(every_command_of_the_tour_works)
{
    static const char *const wanted[] = {
        "OK\ngreeting\nhello\n",                 /* put and get */
        "PUT\ngreeting\nhello\n",                /* the watch, from history */
        "PUT\ngreeting\nhello again\n",          /* and what came later */
        "SUCCESS\n",                             /* the transaction's comparison held */
        "answer\nyes\n",                         /* and it put that */
        "{\"health\":\"true\",\"reason\":\"\"}", /* curl */
        "\netcd_server_has_leader 1\n",          /* the metrics */
        "TOTAL KEYS",                            /* of the backup */
        "\nentries:\n",                          /* of the log */
        "\nseed 7 ok, hash ",                    /* the simulator */
    };
    struct peer p;
    need_tools();
    open_at(&p, "data");
    peer_start(&p, "");

    const char *out = run_tour(&p);

    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        if (!strstr(out, wanted[i]))
            test_fail(__FILE__, __LINE__, "the tour has not printed \"%s\" but:\n%s", wanted[i],
                      out);
    CHECK(access(arena_printf(&p.arena, "%s/world.html", test_tmp_dir()), R_OK) == 0);
    peer_stop(&p);
    peer_close(&p);
}

/* ---- Packages that are missing ---- */

TEST(a_build_without_its_packages_is_told_so_in_one_line)
{
    struct arena arena = {0};
    const char *nowhere = arena_printf(&arena, "gcc -nostdinc -isystem %s", test_tmp_dir());

    CHECK_STR(peer_run(&arena, "scripts/missing test gcc 2>&1"), "");
    CHECK_STR(peer_run(&arena, "scripts/missing test %s 2>&1; echo $?", nowhere),
              "missing packages: libc6-dev libuv1-dev liblmdb-dev libssl-dev libnghttp2-dev "
              "zlib1g-dev libjson-c-dev libyaml-dev nettle-dev libprotobuf-c-dev; scripts/setup "
              "test installs them\n1");
    CHECK_STR(peer_run(&arena, "scripts/missing build clang-1 2>&1; echo $?"),
              "missing packages: clang-1; scripts/setup build installs them\n1");
    /* Before anything is compiled. */
    const char *made = peer_run(
        &arena, "env -u MAKEFLAGS -u MAKELEVEL make -j2 BUILD='%s/b' CC='%s' all 2>&1; echo $?",
        test_tmp_dir(), nowhere);
    CHECK(bytes_starts_with(bytes_of_str(made), BYTES("missing packages: libc6-dev ")));
    CHECK(strstr(made + 1, "missing packages") == NULL);
    CHECK(strstr(made, "  cc ") == NULL);
    CHECK(strstr(made, "error:") == NULL);
    arena_free(&arena);
}

/* ---- The simulator and the benchmarks ---- */

static const char *run_program(struct peer *p, const char *name, const char *arguments)
{
    return peer_run(&p->arena, "'%.*s%s' %s 2>&1; echo status $?",
                    (int)(strrchr(p->program, '/') + 1 - p->program), p->program, name, arguments);
}

TEST(the_simulator_explains_its_flags_and_its_result)
{
    struct peer p;
    open_at(&p, "data");

    const char *help = run_program(&p, "cleat-sim", "--help");
    CHECK(strstr(help, "status 0") != NULL);
    for (unsigned f = 0; f < SIM_FAULTS; f++)
        if (!strstr(help, sim_fault_name((enum sim_fault)f)))
            test_fail(__FILE__, __LINE__, "no %s in %s", sim_fault_name((enum sim_fault)f), help);
    CHECK_STR(run_program(&p, "cleat-sim", "--sed 7"),
              "cleat-sim: not understood: --sed (cleat-sim --help explains the flags)\nstatus 2");
    CHECK_STR(run_program(&p, "cleat-sim", "--seed x"),
              "cleat-sim: not understood: --seed (cleat-sim --help explains the flags)\nstatus 2");

    const char *result = run_program(&p, "cleat-sim", "--seed 7 --members 1 --without all");
    CHECK(bytes_starts_with(bytes_of_str(result), BYTES("seed 7 ok, hash ")));
    CHECK(strstr(result, "\n  members         1\n  operations ") != NULL);
    CHECK(strstr(result, "\n  crashes         0\n") != NULL);
    CHECK(strstr(result, "\nstatus 0") != NULL);
    peer_close(&p);
}

TEST(the_benchmarks_show_their_progress)
{
    struct peer p;
    open_at(&p, "data");

    const char *printed = run_program(&p, "cleat-bench", "micro crc32c_4k");
    CHECK(strstr(printed, "[1/1] crc32c_4k\n") != NULL);
    CHECK(strstr(printed, "GB/s\nstatus 0") != NULL);
    printed = run_program(&p, "cleat-bench", "micro no_such_thing");
    CHECK(strstr(printed, "cleat-bench: no benchmark has a name like that\nstatus 1") != NULL);
    peer_close(&p);
}
