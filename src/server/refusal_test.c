/* A refused configuration, as the program tells it: one clear line on standard error, whatever the
 * flags say about the log, and its exit status. */
#include "base/mem.h"
#include "config/refusals_test.h"
#include "harness/peer_test.h"
#include "harness/test.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct refusal {
    const char *variables; /* of the environment, as a shell wants them */
    const char *flags;
    int status;
    const char *why; /* as it stands in the line: JSON has its quotes escaped */
};

/* Runs it; what it has printed is then in <dir>/out and <dir>/err. */
static int run(struct peer *p, const struct refusal *r)
{
    const char *status = peer_run(&p->arena,
                                  "program=$(realpath %s) && cd %s && "
                                  "env -i %s timeout 20 \"$program\" %s >out 2>err; echo $?",
                                  p->program, test_tmp_dir(), r->variables, r->flags);

    return (int)strtol(status, NULL, 10);
}

static const char *printed(struct peer *p, const char *file)
{
    return peer_run(&p->arena, "cat %s/%s", test_tmp_dir(), file);
}

static unsigned count_lines_with(const char *text, const char *what)
{
    unsigned count = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        count++;
    return count;
}

static void check_refusal(struct peer *p, const struct refusal *r)
{
    int status = run(p, r);
    const char *err = printed(p, "err");

    if (status != r->status || count_lines_with(err, r->why) != 1)
        test_fail(__FILE__, __LINE__, "%s %s: status %d, not %d; wanted once \"%s\", printed:\n%s",
                  r->variables, r->flags, status, r->status, r->why, err);
    if (strcmp(printed(p, "out"), "") != 0)
        test_fail(__FILE__, __LINE__, "%s: something on standard output: %s", r->flags,
                  printed(p, "out"));
}

static const struct refusal refusals[] = {
    {"", "--nope", 2, "flag provided but not defined: -nope"},
    {"", "--heartbeat-interval=x", 2,
     "invalid value \"x\" for flag -heartbeat-interval: parse error"},
    {"", "--name", 2, "flag needs an argument: -name"},
    {"", "--log-level=foo", 2, "unrecognized level: \"foo\""},
    {"", "--feature-gates=Foo=true", 2,
     "invalid value \"Foo=true\" for flag -feature-gates: unrecognized feature gate: Foo"},

    {"", "stray", 1, "\"error\":\"\\\"stray\\\" is not a valid flag\""},
    {"", "--pre-vote false", 1, "\"error\":\"\\\"false\\\" is not a valid flag\""},
    {"ETCD_HEARTBEAT_INTERVAL=x", "", 1,
     "\"error\":\"invalid value \\\"x\\\" for ETCD_HEARTBEAT_INTERVAL: parse error\""},
    {"ETCD_NAME=a", "--name=b", 1, "\"error\":\"conflicting environment variable is shadowed"},
    {"ETCD_ENABLE_PPROF=true", "", 1,
     "\"error\":\"flag --enable-pprof is not supported yet: there is no Go runtime to profile\""},

    {"", "--enable-pprof", 1,
     "\"error\":\"flag --enable-pprof is not supported yet: there is no Go runtime to profile\""},
    {"", "--config-file x", 1, "\"error\":\"open x: no such file or directory\""},
    {"", "--peer-cert-file /nowhere --peer-key-file /nowhere", 1,
     "open /nowhere: no such file or directory"},
    {"", "--feature-gates=PriorityRequest=true", 1,
     "\"error\":\"feature gate PriorityRequest is not supported yet\""},
    {"", "--auto-compaction-retention=1.h5", 1,
     "\"error\":\"error parsing CompactionRetention: time: missing unit in duration "
     "\\\"1.h5\\\"\""},
    {"", "--listen-metrics-urls=https://127.0.0.1:1", 1,
     "\"error\":\"client TLS key/cert (--cert-file, --key-file) must be provided for metrics "
     "secure url\""},

    {"", "--logger=capnslog", 1, "\"error\":\"--logger=capnslog is removed in v3.5\""},
    {"", "--log-format=x", 1,
     "\"error\":\"unknown log format: x, supported values json, console\""},
    {"", "--log-outputs=default,stderr", 1,
     "\"error\":\"multi logoutput for \\\"default\\\" is not supported yet\""},
    {"", "--listen-peer-urls=http://foo:1", 1,
     "\"error\":\"expected IP in URL for binding (http://foo:1)\""},
    {"", "--heartbeat-interval=0", 1, "\"error\":\"--heartbeat-interval must be >0 (set to 0ms)\""},
    {"", "--listen-client-urls=http://127.0.0.1:1", 1,
     "\"error\":\"--advertise-client-urls is required when --listen-client-urls is set"},
    {"", "--listen-client-urls=https://127.0.0.1:1 --advertise-client-urls=https://h:1", 1,
     "must be provided for client url https://127.0.0.1:1 with HTTPS scheme"},
    {"", "--max-request-bytes=536346625", 1, "\"error\":\"--max-request-bytes must be at most"},

    /* What the log was told not to show, or to show elsewhere, is shown here all the same. */
    {"", "--log-level=fatal --heartbeat-interval=0", 1,
     "--heartbeat-interval must be >0 (set to 0ms)"},
    {"", "--log-format=console --heartbeat-interval=0", 1,
     "--heartbeat-interval must be >0 (set to 0ms)"},
    {"", "--log-outputs=/dev/null --heartbeat-interval=0", 1,
     "--heartbeat-interval must be >0 (set to 0ms)"},
    {"", "--log-outputs=stderr,/no/such/folder/log --heartbeat-interval=0", 1,
     "--heartbeat-interval must be >0 (set to 0ms)"},
    {"", "--log-outputs=/no/such/folder/log", 1,
     "open sink \\\"/no/such/folder/log\\\": open /no/such/folder/log: No such file"},
    {"", "--log-outputs=1,2,3,4,5,6,7,8,9", 1, "\"error\":\"--log-outputs takes at most 8 outputs"},

    /* Found only at boot. */
    {"",
     "--initial-cluster=other=http://localhost:2380 --listen-client-urls=http://127.0.0.1:0 "
     "--advertise-client-urls=http://h:1 --listen-peer-urls=http://127.0.0.1:0",
     1, "couldn't find local name \\\"default\\\" in the initial cluster configuration"},
};

TEST(every_refusal_is_told_on_standard_error)
{
    struct peer p;
    peer_open_ours(&p, test_tmp_dir());

    for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
        check_refusal(&p, &refusals[i]);

    peer_close(&p);
}

/* As in etcd; where there is a journal it would start. */
TEST(a_journal_that_is_missing_is_refused)
{
    struct peer p;
    if (access("/run/systemd/journal/socket", F_OK) == 0)
        SKIP("there is a journal here");
    peer_open_ours(&p, test_tmp_dir());

    check_refusal(&p, &(struct refusal){"", "--log-outputs=systemd/journal", 1,
                                        "can't find journal (dial unixgram "
                                        "/run/systemd/journal/socket: connect: No such file"});
    peer_close(&p);
}

/* ---- All that the parser refuses ---- */

/* Runs it with exactly these words, which no shell has read; standard error goes to <dir>/err. */
static int run_words(const struct peer *p, const struct config_refusal *r)
{
    struct arena arena = {0};
    const char *argv[CONFIG_WORDS_MAX + 2] = {"etcd"}, *env[CONFIG_WORDS_MAX + 1] = {0};
    const char *err = arena_printf(&arena, "%s/err", test_tmp_dir());
    char program[PATH_MAX];
    int status;
    CHECK(realpath(p->program, program) != NULL);
    config_words(&arena, r->args, argv + 1);
    config_words(&arena, r->env, env);

    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(20);
        if (chdir(test_tmp_dir()) == 0 && freopen(err, "w", stderr))
            execve(program, (char *const *)argv, (char *const *)env);
        _exit(127);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    arena_free(&arena);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void append_line(void *context, struct bytes line)
{
    buf_append(context, line);
}

static int64_t no_clock(void *context)
{
    (void)context;
    return 0;
}

/* As the log has it: from the message on. */
static const char *as_logged(struct arena *arena, const char *why)
{
    struct buf line = {0};
    struct logger logger = {
        .level = LOG_INFO, .sink = append_line, .sink_context = &line, .clock = no_clock};

    log_write(&logger, LOG_WARN, LOG_CALLER, "failed to verify flags",
              (const struct log_field[]){LOG_STR("error", why)}, 1);
    const char *found = strstr(buf_str(&line), "\"msg\":");
    CHECK(found != NULL);
    const char *kept = arena_copy_str(arena, bytes_of(found, strcspn(found, "\n")));
    buf_free(&line);
    return kept;
}

TEST(the_program_prints_whatever_the_parser_refuses)
{
    struct peer p;
    peer_open_ours(&p, test_tmp_dir());

    for (size_t i = 0; i < config_refusal_count; i++) {
        const struct config_refusal *r = &config_refusals[i];
        bool is_flag = r->want == CONFIG_BAD_FLAG;
        const char *want = is_flag ? r->why : as_logged(&p.arena, r->why);
        int status = run_words(&p, r);
        const char *err = printed(&p, "err");
        if (status != (is_flag ? 2 : 1) || !strstr(err, want))
            test_fail(__FILE__, __LINE__, "%s %s: status %d, wanted \"%s\", printed:\n%s", r->args,
                      r->env, status, want, err);
    }

    peer_close(&p);
}

/* One line tells why; the notes that lead up to it are warnings of their own. */
TEST(a_refusal_is_also_in_the_log_file)
{
    struct peer p;
    peer_open_ours(&p, test_tmp_dir());

    check_refusal(&p, &(struct refusal){"", "--log-outputs=log,stderr --heartbeat-interval=0", 1,
                                        "must be >0 (set to 0ms)"});

    CHECK_EQ(count_lines_with(printed(&p, "log"), "must be >0 (set to 0ms)"), 1);
    CHECK_EQ(count_lines_with(printed(&p, "log"), "\"msg\":\"failed to verify flags\""), 1);
    peer_close(&p);
}

/* ---- An address that is taken ---- */

/* A listener of this process; its port. */
static unsigned listen_somewhere(int *fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(*fd >= 0);
    CHECK_EQ(bind(*fd, (struct sockaddr *)&a, size), 0);
    CHECK_EQ(listen(*fd, 1), 0);
    CHECK_EQ(getsockname(*fd, (struct sockaddr *)&a, &size), 0);
    return ntohs(a.sin_port);
}

/* The log has etcd's words; a line for people, whatever the log's shape, has the flag. */
TEST(a_taken_address_is_told_in_a_plain_line_with_its_flag)
{
    static const struct {
        const char *flag, *advised;
    } cases[] = {
        {"listen-peer-urls", "--listen-peer-urls"},
        {"listen-client-urls", "--listen-client-urls and --advertise-client-urls"},
        {"listen-client-http-urls", "--listen-client-http-urls"},
        {"listen-metrics-urls", "--listen-metrics-urls"},
    };
    struct peer p;
    int fd;
    peer_open_ours(&p, test_tmp_dir());
    unsigned port = listen_somewhere(&fd);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *flags = arena_printf(
            &p.arena,
            "--data-dir made --log-level fatal --listen-client-urls %s --listen-peer-urls %s "
            "--advertise-client-urls http://h:1 --%s http://127.0.0.1:%u",
            p.client_url, p.peer_url, cases[i].flag, port);
        const char *in_log = arena_printf(
            &p.arena,
            "\"msg\":\"failed to start\",\"error\":\"listen tcp 127.0.0.1:%u: bind: address "
            "already in use\"}\n",
            port);
        const char *plain = arena_printf(&p.arena,
                                         "\ncleat: 127.0.0.1:%u is in use by another process: stop "
                                         "it, or choose another address with %s\n",
                                         port, cases[i].advised);

        check_refusal(&p, &(struct refusal){"", flags, 1, in_log});
        const char *err = printed(&p, "err");
        CHECK_STR(strstr(arena_printf(&p.arena, "%s\n", err), plain), plain);
    }

    CHECK(access(arena_printf(&p.arena, "%s/made", test_tmp_dir()), F_OK) != 0);
    close(fd);
    peer_close(&p);
}
