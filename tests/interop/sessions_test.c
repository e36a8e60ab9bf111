/*
 * Clients in other languages: each has a scripted session with real etcd and with us, in plaintext
 * and with certificates of both sides, and sees no difference.
 *
 * A session is a program below sessions/, called
 *
 *     run URL [CA CERTIFICATE KEY]
 *
 * which prints a transcript without anything that may differ, and "done" in the end. A line of it
 * that begins with a colon is for us: at ":kill" its server is killed, at ":start" it is started
 * again, and when that is done the session is sent a line. `make clients` prepares the programs in
 * build/clients; a session that could not be prepared is skipped.
 */
#include "base/mem.h"
#include "harness/certs_test.h"
#include "harness/line_diff.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longer than sessions wait for anything, who can tell better what for. */
enum { SILENCE_MS_MAX = 50000 };

/* One server and the session with it. */
struct side {
    struct peer peer;
    const char *flags;
    unsigned starts;
    pid_t pid;
    int to, from;          /* to it and from it, ends of pipes */
    struct buf transcript; /* what it has printed */
    size_t obeyed;         /* of that, the lines that were looked at */
};

/* --- the server --- */

static void start(struct side *s)
{
    peer_launch(&s->peer, s->flags);
    peer_await_said(&s->peer, "ready to serve client requests", ++s->starts);
}

/* Passwords cost little here, and watchers hear of progress while one can wait for it. */
static void side_open(struct side *s, bool with_tls)
{
    const char *flags = "--bcrypt-cost 4 --watch-progress-notify-interval 300ms";

    s->flags = flags;
    if (with_tls) {
        s->peer.client_url =
            arena_printf(&s->peer.arena, "https%s", strchr(s->peer.client_url, ':'));
        s->flags =
            arena_printf(&s->peer.arena,
                         "%s --cert-file %s --key-file %s --trusted-ca-file %s --client-cert-auth",
                         flags, certs_file("server"), certs_key("server"), certs_file("ca"));
    }
    start(s);
}

static void side_close(struct side *s)
{
    close(s->to);
    close(s->from);
    buf_free(&s->transcript);
    peer_stop(&s->peer);
    peer_close(&s->peer);
}

/* --- the session --- */

static void session_begin(struct side *s, const char *program, const char *certificate)
{
    int to[2], from[2];
    const char *files = certificate ? arena_printf(&s->peer.arena, "%s %s %s", certs_file("ca"),
                                                   certs_file(certificate), certs_key(certificate))
                                    : "";
    const char *line = arena_printf(&s->peer.arena, "exec %s %s %s 2>%s.session.log", program,
                                    s->peer.client_url, files, s->peer.dir);

    CHECK_EQ(pipe2(to, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(from, O_CLOEXEC), 0);
    s->pid = fork();
    CHECK(s->pid >= 0);
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    s->to = to[1];
    s->from = from[0];
}

static void session_end(struct side *s)
{
    int status;

    CHECK_EQ(waitpid(s->pid, &status, 0), s->pid);
    s->pid = 0;
    if (status != 0)
        test_fail(__FILE__, __LINE__, "the session with %s ended with status %d:\n%s\n%s",
                  s->peer.program, status, buf_str(&s->transcript),
                  peer_run(&s->peer.arena, "tail -n 20 %s.session.log", s->peer.dir));
}

static void obey(struct side *s, struct bytes line)
{
    if (line.len == 0 || line.at[0] != ':')
        return;
    if (bytes_equal(line, BYTES(":kill")))
        peer_kill(&s->peer);
    else if (bytes_equal(line, BYTES(":start")))
        start(s);
    else
        test_fail(__FILE__, __LINE__, "what is \"%.*s\"?", (int)line.len, (const char *)line.at);
    CHECK_EQ(write(s->to, "\n", 1), 1);
}

/* Reads what there is and does what it asks; false when the session has ended. */
static bool session_go_on(struct side *s)
{
    ssize_t count = read(s->from, buf_reserve(&s->transcript, 4096), 4096);
    const uint8_t *end;

    CHECK(count >= 0);
    s->transcript.len += (size_t)count;
    while ((end = memchr(s->transcript.at + s->obeyed, '\n', s->transcript.len - s->obeyed))) {
        const uint8_t *line = s->transcript.at + s->obeyed;
        s->obeyed = (size_t)(end + 1 - s->transcript.at);
        obey(s, (struct bytes){line, (size_t)(end - line)});
    }
    return count > 0;
}

/* Both at once: most of a session is waiting. */
static void sessions_run(struct side *const sides[2], const char *program, const char *certificate)
{
    struct pollfd ready[2];
    unsigned running = 2;

    for (unsigned i = 0; i < 2; i++) {
        session_begin(sides[i], program, certificate);
        ready[i] = (struct pollfd){.fd = sides[i]->from, .events = POLLIN};
    }
    while (running > 0) {
        if (poll(ready, 2, SILENCE_MS_MAX) == 0)
            test_fail(__FILE__, __LINE__, "nothing more is said, after:\n%s\nand:\n%s",
                      buf_str(&sides[0]->transcript), buf_str(&sides[1]->transcript));
        for (unsigned i = 0; i < 2; i++)
            if (ready[i].revents && !session_go_on(sides[i])) {
                session_end(sides[i]);
                ready[i].fd = -1;
                running--;
            }
    }
}

/* With this certificate of the client; NULL: in plaintext. */
static void check_session(const char *client, const char *certificate)
{
    struct side etcd = {0}, ours = {0};
    struct arena arena = {0};
    struct buf diff = {0};
    const char *program = gate_program(GATE_CLIENTS, arena_printf(&arena, "%s/run", client));
    peer_open(&etcd.peer, arena_printf(&arena, "%s/etcd", test_tmp_dir()));
    peer_open_ours(&ours.peer, arena_printf(&arena, "%s/ours", test_tmp_dir()));
    certs_make("ca", &(struct cert){.cn = "a CA", .is_ca = true});
    certs_make("server", &(struct cert){.signer = "ca", .sans = "IP:127.0.0.1,DNS:localhost"});
    certs_make("alice", &(struct cert){.signer = "ca", .cn = "alice"});
    certs_make("nameless", &(struct cert){.signer = "ca", .sans = "DNS:a.example"});
    side_open(&etcd, certificate != NULL);
    side_open(&ours, certificate != NULL);

    sessions_run((struct side *const[2]){&etcd, &ours}, program, certificate);

    line_diff(&diff, buf_bytes(&etcd.transcript), buf_bytes(&ours.transcript));
    if (diff.len > 0)
        test_fail(__FILE__, __LINE__, "the transcripts differ:\n%s", buf_str(&diff));
    CHECK(strstr(buf_str(&ours.transcript), "\ndone\n"));
    buf_free(&diff);
    side_close(&etcd);
    side_close(&ours);
    arena_free(&arena);
}

/* The client with its concurrency package: sessions, locks, elections, transactional memory. */
TEST(a_go_session_sees_no_difference)
{
    check_session("go", NULL);
}

TEST(a_go_session_with_certificates_sees_no_difference)
{
    check_session("go", "alice");
}

/* python3-etcd3 */
TEST(a_python_session_sees_no_difference)
{
    check_session("python", NULL);
}

TEST(a_python_session_with_certificates_sees_no_difference)
{
    check_session("python", "alice");
}

/* npm's etcd3 */
TEST(a_node_session_sees_no_difference)
{
    check_session("node", NULL);
}

TEST(a_node_session_with_certificates_sees_no_difference)
{
    check_session("node", "alice");
}

/* The class by which it knows its cluster. The gateway takes nobody whose certificate has a name,
 * while there are users: he would be surprised not to be the one it names. */
TEST(a_patroni_session_sees_no_difference)
{
    check_session("patroni", NULL);
}

TEST(a_patroni_session_with_certificates_sees_no_difference)
{
    check_session("patroni", "nameless");
}

/* jetcd, whose locks and elections are the server's own */
TEST(a_java_session_sees_no_difference)
{
    check_session("java", NULL);
}

TEST(a_java_session_with_certificates_sees_no_difference)
{
    check_session("java", "alice");
}
