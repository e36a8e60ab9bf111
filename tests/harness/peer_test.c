#include "harness/peer_test.h"

#include "base/buf.h"
#include "base/mem.h"
#include "harness/test.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void peer_need(void)
{
    const char *programs[] = {PEERS "etcd", PEERS "etcdctl", PEERS "etcdutl"};

    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        if (access(programs[i], X_OK) != 0)
            SKIP("NOT compared with real etcd: no %s, make peers builds it", programs[i]);
}

static unsigned free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&a, len), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    close(fd);
    return ntohs(a.sin_port);
}

void peer_open(struct peer *p, const char *dir)
{
    peer_need();
    *p = (struct peer){0};
    p->dir = arena_printf(&p->arena, "%s", dir);
    p->client_url = arena_printf(&p->arena, "http://127.0.0.1:%u", free_port());
    p->peer_url = arena_printf(&p->arena, "http://127.0.0.1:%u", free_port());
}

void peer_close(struct peer *p)
{
    CHECK_EQ(p->pid, 0);
    arena_free(&p->arena);
}

static void exec_etcd(const char *line)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/bin/sh", "sh", "-c", line, NULL);
    _exit(127);
}

void peer_start(struct peer *p, const char *flags)
{
    const char *line = arena_printf(
        &p->arena,
        "exec " PEERS "etcd --name m --data-dir %s --listen-client-urls %s "
        "--advertise-client-urls %s --listen-peer-urls %s --initial-advertise-peer-urls %s "
        "--initial-cluster m=%s %s >>%s.log 2>&1",
        p->dir, p->client_url, p->client_url, p->peer_url, p->peer_url, p->peer_url, flags, p->dir);

    CHECK_EQ(p->pid, 0);
    p->pid = fork();
    CHECK(p->pid >= 0);
    if (p->pid == 0)
        exec_etcd(line);
    PEER_CTL(p, "--command-timeout=60s --dial-timeout=60s endpoint health 2>&1");
}

void peer_stop(struct peer *p)
{
    int status;

    CHECK_EQ(kill(p->pid, SIGTERM), 0);
    CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
    p->pid = 0;
}

const char *peer_run(struct arena *arena, const char *format, ...)
{
    struct buf line = {0}, printed = {0};
    va_list args;

    va_start(args, format);
    buf_vprintf(&line, format, args);
    va_end(args);
    FILE *f = popen(buf_str(&line), "re"); /* NOLINT(bugprone-command-processor) */
    CHECK(f != NULL);
    while (!feof(f) && !ferror(f))
        printed.len += fread(buf_reserve(&printed, 4096), 1, 4096, f);
    int status = pclose(f);
    if (status != 0)
        test_fail(__FILE__, __LINE__, "status %d from: %s\n%s", status, buf_str(&line),
                  buf_str(&printed));
    if (printed.len > 0 && printed.at[printed.len - 1] == '\n')
        printed.len--;
    const char *text = arena_copy_str(arena, buf_bytes(&printed));
    buf_free(&line);
    buf_free(&printed);
    return text;
}
