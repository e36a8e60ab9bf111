/* The server as a program: how it begins and how it ends. */
#include "base/sanitized.h"
#include "harness/peer_test.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "interop/raw_http_test.h"
#include "io/clock.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOP_NS_MAX (1500 * NS_PER_MS) /* what etcd's own tests allow */

struct process {
    struct peer peer;
    struct caller caller;
};

/* In this test's own folder; good until the next one. */
static const char *path_of(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s", test_tmp_dir(), name);
    return path;
}

static void open_process(struct process *p, const char *flags)
{
    peer_open_ours(&p->peer, path_of("data"));
    peer_start(&p->peer, flags);
    caller_open(&p->caller, &p->peer);
    caller_put(caller_connect(&p->caller), BYTES("begun"), BYTES("")); /* the port alone is early */
}

static void close_process(struct process *p)
{
    caller_close(&p->caller);
    peer_close(&p->peer);
}

static int wait_for(struct peer *p)
{
    int status;

    CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
    p->pid = 0;
    return status;
}

/* As etcd ends. One that is sanitized exits, for its leaks to be looked at. */
static bool ended_by(int status, int signal)
{
    if (WIFEXITED(status))
        return SANITIZED && WEXITSTATUS(status) == 0;
    return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

static bool log_has(struct peer *p, const char *text)
{
    const char *count = peer_run(&p->arena, "grep -c -F '%s' %s.log || true", text, p->dir);

    return strcmp(count, "0") != 0;
}

/* Launches a second one that must refuse to start, and say this. */
static void check_refused(struct peer *p, const char *flags, const char *why)
{
    peer_launch(p, flags);
    int status = wait_for(p);

    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 1);
    CHECK(log_has(p, "\"level\":\"fatal\""));
    if (!log_has(p, why))
        test_fail(__FILE__, __LINE__, "not \"%s\" but:\n%s", why,
                  peer_run(&p->arena, "tail -n 3 %s.log", p->dir));
}

/* --- beginning --- */

TEST(a_port_in_use_is_told_before_anything_is_written)
{
    struct process first;
    struct peer second;
    open_process(&first, "");
    peer_open_ours(&second, path_of("other"));

    second.client_url = first.peer.client_url;
    check_refused(&second, "", "choose another address with --listen-client-urls");
    CHECK(access(second.dir, F_OK) != 0);

    peer_close(&second);
    peer_open_ours(&second, path_of("another"));
    second.peer_url = second.advertised_url = first.peer.peer_url;
    check_refused(&second, "", "choose another address with --listen-peer-urls");
    CHECK(access(second.dir, F_OK) != 0);

    peer_close(&second);
    peer_stop(&first.peer);
    close_process(&first);
}

TEST(two_servers_do_not_share_a_directory)
{
    struct process first;
    struct peer second;
    open_process(&first, "");
    peer_open_ours(&second, path_of("data"));

    check_refused(&second, "", "in use");

    int64_t revision = caller_put(caller_connect(&first.caller), BYTES("k"), BYTES("v"));
    CHECK_EQ(revision, 3);
    peer_close(&second);
    peer_stop(&first.peer);
    close_process(&first);
}

TEST(the_directory_of_a_running_etcd_is_left_alone)
{
    struct peer etcd, ours;
    peer_open(&etcd, path_of("data"));
    peer_start(&etcd, "");
    peer_open_ours(&ours, path_of("data"));
    PEER_CTL(&etcd, "put k one");

    check_refused(&ours, "", "in use");

    PEER_CTL(&etcd, "put k two");
    CHECK_STR(PEER_CTL(&etcd, "get k --print-value-only"), "two");
    peer_close(&ours);
    peer_stop(&etcd);
    peer_close(&etcd);
}

TEST(a_store_of_etcds_without_its_log_is_not_taken_over)
{
    struct peer etcd, ours;
    peer_open(&etcd, path_of("data"));
    peer_start(&etcd, "");
    peer_stop(&etcd);
    peer_run(&etcd.arena, "rm -r %s/member/wal", etcd.dir);
    peer_open_ours(&ours, path_of("data"));

    check_refused(&ours, "", "there is no log in");

    peer_run(&etcd.arena, "test -f %s/member/snap/db && test ! -e %s/member/store", etcd.dir,
             etcd.dir);
    peer_close(&ours);
    peer_close(&etcd);
}

/* Nobody but root could be kept out by a mode, and tests may run as root: a file is in the way. */
TEST(a_directory_that_cannot_be_made_is_named)
{
    struct peer ours;
    peer_open_ours(&ours, path_of("data"));
    peer_run(&ours.arena, "touch %s", ours.dir);

    check_refused(&ours, "", ours.dir);
    peer_close(&ours);
}

/* Raft hands out a megabyte at a time. It once took a tick to go on with the next: with these flags
 * that is five seconds each. */
TEST(a_log_that_the_store_has_not_seen_is_applied_in_one_go)
{
    static uint8_t megabyte[1000000];
    const char *flags = "--backend-batch-interval 1h --heartbeat-interval 5000 "
                        "--election-timeout 50000";
    struct process p;
    open_process(&p, flags);
    struct line *line = caller_connect(&p.caller);
    for (unsigned i = 0; i < 7; i++)
        caller_put(line, BYTES("k"), bytes_of(megabyte, sizeof(megabyte)));
    peer_kill(&p.peer);

    uint64_t began = caller_now_ns(&p.caller);
    peer_start(&p.peer, flags);
    int64_t revision = caller_put(caller_connect(&p.caller), BYTES("k"), BYTES("v"));

    CHECK_EQ(revision, 10);
    CHECK(caller_now_ns(&p.caller) - began < 5 * NS_PER_S);
    peer_stop(&p.peer);
    close_process(&p);
}

struct flood {
    uint64_t sent, answered, wanted, slow_from;
};

/* A put; or one behind a compare of all keys there are, which is short in the log and long to
 * apply. */
static void flood_write(struct flood *f, struct ask *a)
{
    char key[24];
    snprintf(key, sizeof(key), "%llu", (unsigned long long)f->sent);
    struct pb_put_request put = {.key = bytes_of_str(key), .value = BYTES("v")};
    struct pb_request_op op = {.which = PB_OP_PUT, .put = &put};
    struct pb_compare all = {.key = BYTES("0"),
                             .range_end = BYTES("a"),
                             .result = PB_COMPARE_GREATER,
                             .target = PB_TARGET_VERSION,
                             .which = PB_OPERAND_VERSION};

    if (f->sent++ < f->slow_from)
        ask_start(a, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
    else
        ask_start(a, "/etcdserverpb.KV/Txn", &pb_txn_request_schema,
                  &(struct pb_txn_request){.compare = {&all, 1}, .success = {&op, 1}});
}

static void flood_goes_on(struct ask *a)
{
    struct flood *f = a->context;

    CHECK_EQ(a->code, RPC_OK);
    f->answered++;
    if (f->sent < f->wanted)
        flood_write(f, a);
}

/* Hundreds of writes are under way at any time. */
static void write_flood(struct caller *c, struct flood *f)
{
    static struct ask asks[500];
    struct line *line = caller_connect(c);

    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        asks[i] = (struct ask){.line = line, .on_over = flood_goes_on, .context = f};
        flood_write(f, &asks[i]);
    }
    while (f->answered < f->wanted)
        caller_turn(c, 1000);
    for (size_t i = 0; i < ARRAY_LEN(asks); i++)
        ask_free(&asks[i]);
}

/*
 * Raft hands out thousands of small entries at once to be applied; the store commits in the middle
 * of them, and by what it has then, snapshots of the log are cut and the log is released.
 */
TEST(the_log_is_released_while_a_long_tail_of_it_is_applied)
{
    struct process p;
    struct flood flood = {.slow_from = 5000, .wanted = 5400};
    /* A write waits for five seconds and two elections: long enough for a sanitizer. */
    open_process(&p, "--backend-batch-interval 1h --election-timeout 50000");
    write_flood(&p.caller, &flood);
    peer_kill(&p.peer);

    peer_start(&p.peer, "--backend-batch-interval 1ms --snapshot-count 1 "
                        "--snapshot-catchup-entries 1");
    int64_t revision = caller_put(caller_connect(&p.caller), BYTES("k"), BYTES("v"));

    CHECK_EQ(revision, 5403);
    peer_stop(&p.peer);
    close_process(&p);
}

/* --- ending --- */

static uint64_t stop_ns(struct process *p)
{
    uint64_t began = caller_now_ns(&p->caller);

    peer_stop(&p->peer);
    return caller_now_ns(&p->caller) - began;
}

TEST(a_watch_that_is_open_does_not_hold_up_the_end)
{
    struct process p;
    open_process(&p, "");
    struct ask watch = {.line = caller_connect(&p.caller)};
    struct pb_watch_create_request create = {.key = BYTES("k")};
    ask_stream(&watch, "/etcdserverpb.Watch/Watch");
    ask_say(&watch, &pb_watch_request_schema,
            &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    caller_put(watch.line, BYTES("k"), BYTES("v"));

    CHECK_EQ(kill(p.peer.pid, SIGTERM), 0);
    uint64_t began = caller_now_ns(&p.caller);
    ask_wait(&watch);
    int status = wait_for(&p.peer);

    CHECK_EQ(watch.code, RPC_UNAVAILABLE);
    CHECK(ended_by(status, SIGTERM));
    CHECK(caller_now_ns(&p.caller) - began < STOP_NS_MAX);
    ask_free(&watch);
    close_process(&p);
}

/* Asks for more than fits on the way, and does not read it. */
static void ask_too_much(struct process *p, struct ask *all)
{
    static uint8_t megabyte[1000000];

    *all = (struct ask){.line = caller_connect(&p->caller)};
    for (unsigned i = 0; i < 20; i++) {
        char key[8];
        snprintf(key, sizeof(key), "k%02u", i);
        caller_put(all->line, bytes_of_str(key), bytes_of(megabyte, sizeof(megabyte)));
    }
    ask_start(all, "/etcdserverpb.KV/Range", &pb_range_request_schema,
              &(struct pb_range_request){.key = BYTES("k"), .range_end = BYTES("l")});
    caller_turn(&p->caller, 1); /* it is on its way; from here on nothing is read */
}

TEST(a_client_that_does_not_read_is_cut_off_in_the_end)
{
    struct process p;
    open_process(&p, "");
    struct ask all;
    ask_too_much(&p, &all);

    CHECK(stop_ns(&p) < STOP_NS_MAX);

    ask_wait(&all);
    CHECK(all.code != RPC_OK);
    ask_free(&all);
    close_process(&p);
}

TEST(a_second_signal_of_either_kind_is_the_end_at_once)
{
    struct process p;
    open_process(&p, "");
    struct ask all;
    ask_too_much(&p, &all);

    CHECK_EQ(kill(p.peer.pid, SIGTERM), 0);
    while (!log_has(&p.peer, "closing etcd server"))
        ;
    CHECK_EQ(kill(p.peer.pid, SIGINT), 0);
    int status = wait_for(&p.peer);

    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    ask_wait(&all);
    ask_free(&all);
    close_process(&p);
}

/* --- other signals --- */

enum signal_effect { LIVES, STOPS, ENDS, LEFT_OUT };

/* What a signal does to etcd. Left out are those that end it in order, which have tests of their
 * own, those of faults, which end any program, and those of terminals, which stop a program only if
 * it has one; the C library keeps 32 and 33 for itself. */
static enum signal_effect effect_of(int signal)
{
    switch (signal) {
    case SIGKILL:
    case SIGINT:
    case SIGTERM:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGSTKFLT:
    case SIGSYS:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case 32:
    case 33:
        return LEFT_OUT;
    case SIGHUP:
    case SIGQUIT:
    case 34:
        return ENDS;
    case SIGSTOP:
        return STOPS;
    default:
        return LIVES;
    }
}

/* A process takes its signals before it does anything else: one that answers has outlived them. */
static void check_effect(struct peer *p, int signal, enum signal_effect want)
{
    int status;

    CHECK_EQ(kill(p->pid, signal), 0);
    if (want == STOPS) {
        CHECK_EQ(waitpid(p->pid, &status, WUNTRACED), p->pid);
        CHECK(WIFSTOPPED(status));
        CHECK_EQ(kill(p->pid, SIGCONT), 0);
    }
    if (want == ENDS) {
        status = wait_for(p);
        CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
        peer_start(p, "");
        return;
    }
    const char *answer =
        raw_http(&p->arena, peer_port(p), BYTES("GET /version HTTP/1.1\r\nHost: x\r\n\r\n"));
    if (strncmp(answer, "HTTP/1.1 200", 12) != 0)
        test_fail(__FILE__, __LINE__, "after signal %d it says: %s", signal, answer);
}

static void check_signals(struct peer *p)
{
    struct rlimit no_core = {0};

    CHECK_EQ(setrlimit(RLIMIT_CORE, &no_core), 0);
    peer_start(p, "");
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        enum signal_effect effect = effect_of(signal);
        if (effect != LEFT_OUT)
            check_effect(p, signal, effect);
    }
    peer_stop(p);
    peer_close(p);
}

/* Hooks that rotate logs, timers, terminals and limits send more signals than two. */
TEST(signals_that_etcd_outlives_are_outlived)
{
    struct peer ours;
    peer_open_ours(&ours, path_of("ours"));

    check_signals(&ours);
}

TEST(etcd_does_with_each_signal_what_this_table_says)
{
    struct peer etcd;
    peer_open(&etcd, path_of("etcd"));

    check_signals(&etcd);
}

/* --- the log --- */

TEST(every_line_of_the_log_is_json_and_tools_find_theirs)
{
    struct process p;
    open_process(&p, "--log-level debug --snapshot-count 5 --snapshot-catchup-entries 1000");
    struct line *line = caller_connect(&p.caller);

    for (unsigned i = 0; i < 20; i++)
        caller_put(line, BYTES("k"), BYTES("v"));
    while (!log_has(&p.peer, "saved snapshot to disk"))
        caller_turn(&p.caller, 10);
    peer_stop(&p.peer);

    CHECK(log_has(&p.peer, "\"snapshot-catchup-entries\":1000"));
    CHECK(log_has(&p.peer, "\"v2-deprecation\":\"write-only\""));
    CHECK(log_has(&p.peer, "ready to serve client requests"));
    CHECK(log_has(&p.peer, "serving client traffic"));
    CHECK(log_has(&p.peer, "set initial cluster version"));
    CHECK(log_has(&p.peer, "elected leader"));
    CHECK(!log_has(&p.peer, "\"level\":\"error\""));
    CHECK_STR(peer_run(&p.peer.arena,
                       "python3 -c 'import json, sys\n"
                       "for line in open(sys.argv[1]):\n"
                       "    d = json.loads(line)\n"
                       "    assert all(d[k] for k in (\"level\", \"ts\", \"caller\", \"msg\"))' "
                       "%s.log 2>&1",
                       p.peer.dir),
              "");
    close_process(&p);
}

/* --- what it tells --- */

TEST(systemd_is_told_when_it_serves)
{
    struct process p;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char got[64];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    snprintf(at.sun_path, sizeof(at.sun_path), "@cleat-notify-%d", (int)getpid());
    const char *name = at.sun_path;
    CHECK_EQ(setenv("NOTIFY_SOCKET", name, 1), 0);
    size_t len = strlen(name);
    at.sun_path[0] = 0; /* an abstract address: temporary folders may have long names */
    CHECK_EQ(bind(fd, (const struct sockaddr *)&at,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
             0);

    open_process(&p, "");

    CHECK_EQ(recv(fd, got, sizeof(got), 0), 7);
    CHECK_EQ(memcmp(got, "READY=1", 7), 0);
    CHECK(log_has(&p.peer, "successfully notified init daemon"));
    CHECK_EQ(unsetenv("NOTIFY_SOCKET"), 0);
    close(fd);
    CHECK(stop_ns(&p) < STOP_NS_MAX);
    close_process(&p);
}

TEST(calls_that_take_long_are_told_of_with_what_they_were)
{
    struct process p;
    open_process(&p, "--warning-unary-request-duration=1us");

    caller_put(caller_connect(&p.caller), BYTES("slowly"), BYTES("hidden"));

    CHECK(log_has(&p.peer, "\"msg\":\"request stats\""));
    CHECK(log_has(&p.peer, "\"response type\":\"/etcdserverpb.KV/Put\""));
    CHECK(log_has(&p.peer, "key:\\\"slowly\\\" value_size:6"));
    CHECK(!log_has(&p.peer, "hidden"));
    CHECK(stop_ns(&p) < STOP_NS_MAX);
    close_process(&p);
}
