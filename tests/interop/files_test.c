/*
 * A member that may open few files.
 *
 * Whoever connects and says nothing takes a descriptor. There must always be some left for the log:
 * clients wait until others leave, and what is promised goes on being written.
 */
#include "base/mem.h"
#include "harness/test.h"
#include "interop/caller_test.h"
#include "io/clock.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IDLE_MAX = 512, WRITERS = 32 };

struct guard {
    struct peer peer;
    struct caller caller;
    struct line *line;
    int idle[IDLE_MAX];
    unsigned idle_count;
};

static void open_guard(struct guard *g, unsigned files_max, const char *flags)
{
    char dir[4096];

    *g = (struct guard){0};
    snprintf(dir, sizeof(dir), "%s/ours", test_tmp_dir());
    peer_open_ours(&g->peer, dir);
    g->peer.files_max = files_max;
    peer_start(&g->peer, flags);
    caller_open(&g->caller, &g->peer);
    g->line = caller_connect(&g->caller);
    caller_put(g->line, BYTES("begun"), BYTES(""));
}

static void close_guard(struct guard *g)
{
    caller_close(&g->caller);
    peer_stop(&g->peer);
    peer_close(&g->peer);
}

/* Sockets that nothing is ever sent on. */
static void connect_idle_to(struct guard *g, uint16_t port, unsigned count)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};

    CHECK(g->idle_count + count <= IDLE_MAX);
    for (unsigned i = 0; i < count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
        g->idle[g->idle_count++] = fd;
    }
}

static void connect_idle(struct guard *g, unsigned count)
{
    connect_idle_to(g, g->caller.address.port, count);
}

static void disconnect_idle(struct guard *g)
{
    while (g->idle_count > 0)
        close(g->idle[--g->idle_count]);
}

struct writing {
    struct guard *guard;
    struct ask asks[WRITERS];
    struct bytes value;
    unsigned sent, answered, wanted;
    bool refused;
};

static void write_one(struct writing *w, struct ask *a)
{
    char key[24];
    struct pb_put_request put = {.value = w->value};

    snprintf(key, sizeof(key), "many/%06u", w->sent++);
    put.key = bytes_of_str(key);
    ask_start(a, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
}

static void one_written(struct ask *a)
{
    struct writing *w = a->context;

    w->refused |= a->code != RPC_OK;
    w->answered++;
    if (w->sent < w->wanted && !w->refused)
        write_one(w, a);
}

/* More than so many segments of the log take, so that it has to make others. */
static void begin_writing(struct writing *w, struct guard *g, unsigned segments)
{
    enum { VALUE_BYTES = 64 * KIB, PUTS_PER_SEGMENT = 1000 };

    *w = (struct writing){.guard = g, .wanted = segments * PUTS_PER_SEGMENT};
    w->value = bytes_of(mem_alloc(VALUE_BYTES), VALUE_BYTES);
    for (unsigned i = 0; i < WRITERS; i++) {
        w->asks[i] = (struct ask){.line = g->line, .on_over = one_written, .context = w};
        write_one(w, &w->asks[i]);
    }
}

static void write_on(struct writing *w)
{
    struct guard *g = w->guard;

    caller_turn(&g->caller, 100);
    if (w->refused)
        test_fail(__FILE__, __LINE__, "put %u was not answered; the log ends with:\n%s",
                  w->answered, peer_run(&g->peer.arena, "tail -n 1 %s.log", g->peer.dir));
}

/* Until there was no answer for a while. */
static void write_until_quiet(struct writing *w)
{
    struct caller *c = &w->guard->caller;
    uint64_t last_ns = caller_now_ns(c);

    for (unsigned answered = w->answered; caller_now_ns(c) - last_ns < NS_PER_S;) {
        write_on(w);
        if (w->answered > answered)
            last_ns = caller_now_ns(c);
        answered = w->answered;
    }
}

static void end_writing(struct writing *w)
{
    while (w->answered < w->wanted)
        write_on(w);
    for (unsigned i = 0; i < WRITERS; i++)
        ask_free(&w->asks[i]);
    mem_free((void *)w->value.at);
}

static void write_segments(struct guard *g, unsigned segments)
{
    struct writing w;

    begin_writing(&w, g, segments);
    end_writing(&w);
}

static unsigned files_open(struct guard *g)
{
    const char *count = peer_run(&g->peer.arena, "ls /proc/%d/fd | wc -l", (int)g->peer.pid);

    return (unsigned)strtoul(count, NULL, 10);
}

/* Once the descriptors were gone, the next segment's name could not be made durable: the end. */
TEST(idle_connections_do_not_take_the_files_of_the_log)
{
    struct guard g;
    open_guard(&g, 100, "");

    connect_idle(&g, 150);
    write_segments(&g, 2);
    CHECK(files_open(&g) < 100);
    caller_put(caller_connect(&g.caller), BYTES("late"), BYTES("served in an idle one's place"));
    caller_put(g.line, BYTES("begun"), BYTES("and this one has its own still"));

    disconnect_idle(&g);
    close_guard(&g);
}

TEST(strangers_at_the_peer_port_do_not_take_the_files_of_the_log)
{
    enum { FILES = 400 };
    struct guard g;
    open_guard(&g, FILES, "");

    connect_idle_to(&g, (uint16_t)atoi(strrchr(g.peer.peer_url, ':') + 1), FILES);
    for (unsigned i = 0; i < 100; i++) {
        caller_put(g.line, BYTES("meanwhile"), BYTES("clients are served"));
        CHECK(files_open(&g) < FILES / 2);
    }
    write_segments(&g, 2);

    disconnect_idle(&g);
    close_guard(&g);
}

/* etcd's: 150 are kept from clients. Those that wait for something keep their places. */
TEST(clients_beyond_the_limit_wait_until_one_leaves)
{
    enum { FILES = 400, CLIENTS = FILES - 150 };
    static struct ask watches[CLIENTS];
    struct guard g;
    struct pb_watch_create_request create = {.key = BYTES("k")};
    struct pb_put_request put = {.key = BYTES("late"), .value = BYTES("but served")};
    open_guard(&g, FILES, "");

    for (unsigned i = 0; i < CLIENTS; i++) {
        watches[i] = (struct ask){.line = i == 0 ? g.line : caller_connect(&g.caller)};
        ask_stream(&watches[i], "/etcdserverpb.Watch/Watch");
        ask_say(&watches[i], &pb_watch_request_schema,
                &(struct pb_watch_request){.which = PB_WATCH_CREATE, .create = &create});
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        while (watches[i].answer.len == 0)
            caller_turn(&g.caller, 1000);
    struct ask late = {.line = caller_connect(&g.caller)};
    ask_start(&late, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
    caller_for_ms(&g.caller, 2 * NET_PATIENCE_MS);
    CHECK(!ask_is_over(&late));
    ask_cancel(&watches[CLIENTS - 1]);
    line_close(watches[CLIENTS - 1].line);
    ask_wait(&late);

    CHECK_EQ(late.code, RPC_OK);
    ask_free(&late);
    for (unsigned i = 0; i < CLIENTS; i++) {
        CHECK(i == CLIENTS - 1 || !ask_is_over(&watches[i]));
        if (!ask_is_over(&watches[i]))
            ask_cancel(&watches[i]);
        ask_free(&watches[i]);
    }
    close_guard(&g);
}

TEST(the_limit_of_open_files_is_raised_as_far_as_it_goes)
{
    struct guard g;
    struct rlimit files;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max <= 100)
        SKIP("only %llu files may be open", (unsigned long long)files.rlim_max);
    files.rlim_cur = 100;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    open_guard(&g, 0, "");

    const char *limits =
        peer_run(&g.peer.arena, "awk '/Max open files/ {print ($4 == $5)}' /proc/%d/limits",
                 (int)g.peer.pid);

    CHECK_STR(limits, "1");
    close_guard(&g);
}

TEST(too_few_files_to_serve_are_refused_with_the_reason)
{
    struct peer p;
    char dir[4096];
    int status;
    snprintf(dir, sizeof(dir), "%s/ours", test_tmp_dir());
    peer_open_ours(&p, dir);
    p.files_max = 50;

    peer_launch(&p, "");
    CHECK_EQ(waitpid(p.pid, &status, 0), p.pid);
    p.pid = 0;

    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 1);
    peer_run(&p.arena, "grep 'file descriptor limit of etcd process is too low' %s.log", dir);
    CHECK(access(dir, F_OK) != 0);
    peer_close(&p);
}

/* From now on it can open nothing: the system gives out the lowest number that is free, and that
 * must be below the limit. Returns the limit there was. */
static struct rlimit allow_nothing_more(struct guard *g)
{
    struct rlimit before, none;
    char path[64];
    unsigned lowest = 0;

    do
        snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)g->peer.pid, lowest);
    while (access(path, F_OK) == 0 && ++lowest < 1000);
    CHECK_EQ(prlimit(g->peer.pid, RLIMIT_NOFILE, NULL, &before), 0);
    none = (struct rlimit){.rlim_cur = lowest, .rlim_max = before.rlim_max};
    CHECK_EQ(prlimit(g->peer.pid, RLIMIT_NOFILE, &none, NULL), 0);
    return before;
}

static void await_line(struct guard *g, const char *text)
{
    while (strcmp(peer_run(&g->peer.arena, "grep -c '%s' %s.log || true", text, g->peer.dir),
                  "0") == 0)
        caller_for_ms(&g->caller, 10);
}

/* As when the system itself has no descriptors left: nothing fails, all wait, and all goes on. */
TEST(without_any_descriptor_the_log_goes_on_and_then_waits)
{
    struct guard g;
    struct writing w;
    struct pb_put_request put = {.key = BYTES("late"), .value = BYTES("but served")};
    open_guard(&g, 0, "");
    struct rlimit before = allow_nothing_more(&g);

    struct ask late = {.line = caller_connect(&g.caller)};
    ask_start(&late, "/etcdserverpb.KV/Put", &pb_put_request_schema, &put);
    await_line(&g, "failed to accept connections; they wait");
    CHECK(!ask_is_over(&late));
    begin_writing(&w, &g, 3);
    write_until_quiet(&w);
    await_line(&g, "failed to reserve the next WAL segment; it will be tried again");
    CHECK(w.answered > 1000); /* more than a segment */
    CHECK(w.answered < w.wanted);
    CHECK_EQ(prlimit(g.peer.pid, RLIMIT_NOFILE, &before, NULL), 0);
    end_writing(&w);
    ask_wait(&late);

    CHECK_EQ(late.code, RPC_OK);
    ask_free(&late);
    close_guard(&g);
}
