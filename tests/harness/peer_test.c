#include "harness/peer_test.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/sanitized.h"
#include "harness/port.h"
#include "harness/test.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void peer_need(void)
{
    gate_need(GATE_PEERS);
}

static unsigned free_port(void)
{
    unsigned port = port_take();

    CHECK(port != 0);
    return port;
}

static void open_peer(struct peer *p, const char *dir)
{
    *p = (struct peer){0};
    p->dir = arena_printf(&p->arena, "%s", dir);
    p->client_url = arena_printf(&p->arena, "http://127.0.0.1:%u", free_port());
    p->peer_url = arena_printf(&p->arena, "http://127.0.0.1:%u", free_port());
    p->advertised_url = p->peer_url;
}

void peer_open(struct peer *p, const char *dir)
{
    peer_need();
    open_peer(p, dir);
    p->program = gate_program(GATE_PEERS, "etcd");
}

const char *peer_own_program(struct arena *arena, const char *name)
{
    char self[4096], here[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self));

    CHECK(len > 0 && len < (ssize_t)sizeof(self));
    self[len] = 0;
    CHECK(getcwd(here, sizeof(here)) != NULL);
    size_t above = strlen(here);
    bool is_below = strncmp(self, here, above) == 0 && self[above] == '/';
    const char *from = is_below ? self + above + 1 : self, *base = strrchr(self, '/') + 1;
    const char *path =
        arena_printf(arena, "%s%.*s%s", base == from ? "./" : "", (int)(base - from), from, name);
    if (access(path, X_OK) != 0)
        test_fail(__FILE__, __LINE__, "there is no %s: build all, not only the tests", path);
    return path;
}

void peer_open_ours(struct peer *p, const char *dir)
{
    open_peer(p, dir);
    p->is_ours = true;
    p->program = peer_own_program(&p->arena, "cleat");
}

void peer_close(struct peer *p)
{
    CHECK_EQ(p->pid, 0);
    arena_free(&p->arena);
}

static void exec_line(const char *line)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/bin/sh", "sh", "-c", line, NULL);
    _exit(127);
}

void peer_launch(struct peer *p, const char *flags)
{
    peer_launch_as(p, arena_printf(&p->arena,
                                   "--name m --data-dir %s --listen-client-urls %s "
                                   "--advertise-client-urls %s --listen-peer-urls %s "
                                   "--initial-advertise-peer-urls %s --initial-cluster m=%s %s",
                                   p->dir, p->client_url, p->client_url, p->peer_url,
                                   p->advertised_url, p->advertised_url, flags));
}

void peer_launch_as(struct peer *p, const char *flags)
{
    const char *limit =
        p->files_max ? arena_printf(&p->arena, "ulimit -n %u && ", p->files_max) : "";
    const char *line =
        arena_printf(&p->arena, "%sexec %s %s >>%s.log 2>&1", limit, p->program, flags, p->dir);

    gate_check_line(line);
    CHECK_EQ(p->pid, 0);
    p->pid = fork();
    CHECK(p->pid >= 0);
    if (p->pid == 0)
        exec_line(line);
}

uint16_t peer_port(const struct peer *p)
{
    const char *digits = strrchr(p->client_url, ':') + 1;
    char *end;
    unsigned long port = strtoul(digits, &end, 10);

    CHECK(*end == 0 && port > 0 && port <= UINT16_MAX);
    return (uint16_t)port;
}

static bool try_to_connect(const struct peer *p, int *fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(peer_port(p)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(*fd >= 0);
    return connect(*fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

int peer_connect(const struct peer *p)
{
    int fd;

    CHECK(try_to_connect(p, &fd));
    return fd;
}

static bool can_connect(const struct peer *p)
{
    int fd;
    bool can = try_to_connect(p, &fd);

    close(fd);
    return can;
}

/* The port is open long before anybody is served. Calls wait for that; so with us there is nothing
 * more to do, and of etcd we want to know that it is well. */
void peer_await(struct peer *p)
{
    const struct timespec a_moment = {.tv_nsec = 1000000};
    int status;

    while (!can_connect(p)) {
        if (waitpid(p->pid, &status, WNOHANG) == p->pid)
            test_fail(__FILE__, __LINE__, "%s ended with status %d; its log:\n%s", p->program,
                      status, peer_run(&p->arena, "tail -n 20 %s.log", p->dir));
        nanosleep(&a_moment, NULL);
    }
    if (!p->is_ours)
        PEER_CTL(p, "--command-timeout=60s --dial-timeout=60s endpoint health 2>&1");
}

unsigned peer_said(struct peer *p, const char *text)
{
    FILE *log = fopen(arena_printf(&p->arena, "%s.log", p->dir), "re");
    char *line = NULL;
    size_t cap = 0;
    unsigned count = 0;

    while (log && getline(&line, &cap, log) > 0)
        count += strstr(line, text) != NULL;
    free(line);
    if (log)
        fclose(log);
    return count;
}

/* Looked at again and again: nobody else tells when a process has written. */
void peer_await_said(struct peer *p, const char *text, unsigned count)
{
    enum { SAID_MS_MAX = 20000, STEP_MS = 10 };
    const struct timespec a_moment = {.tv_nsec = STEP_MS * 1000000};

    for (unsigned ms = 0; peer_said(p, text) < count; ms += STEP_MS) {
        if (ms > SAID_MS_MAX)
            test_fail(__FILE__, __LINE__, "%s has not said %u times \"%s\" but:\n%s", p->program,
                      count, text, peer_run(&p->arena, "tail -n 5 %s.log", p->dir));
        nanosleep(&a_moment, NULL);
    }
}

void peer_start(struct peer *p, const char *flags)
{
    peer_launch(p, flags);
    peer_await(p);
}

static int end(struct peer *p, int signal_number)
{
    int status;

    CHECK(p->pid > 0);
    CHECK_EQ(kill(p->pid, signal_number), 0);
    CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
    p->pid = 0;
    return status;
}

/* Real etcd, as grown-up daemons do, dies of the signal in the end: that is its good end. */
void peer_stop(struct peer *p)
{
    int status = end(p, SIGTERM);
    bool good = WIFSIGNALED(status) ? WTERMSIG(status) == SIGTERM : WEXITSTATUS(status) == 0;

    if (!good)
        test_fail(__FILE__, __LINE__, "%s ended badly, status %d; its log:\n%s", p->program, status,
                  peer_run(&p->arena, "tail -n 20 %s.log", p->dir));
}

void peer_kill(struct peer *p)
{
    int status = end(p, SIGKILL);

    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        test_fail(__FILE__, __LINE__, "%s had ended by itself, status %d; its log:\n%s", p->program,
                  status, peer_run(&p->arena, "tail -n 20 %s.log", p->dir));
}

static size_t status_bytes(const struct peer *p, const char *name)
{
    char path[64], line[256];
    size_t kilobytes = 0, len = strlen(name);

    snprintf(path, sizeof(path), "/proc/%d/status", (int)p->pid);
    FILE *f = fopen(path, "re");
    CHECK(f != NULL);
    while (kilobytes == 0 && fgets(line, sizeof(line), f))
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            kilobytes = strtoul(line + len + 1, NULL, 10);
    fclose(f);
    CHECK(kilobytes > 0);
    return kilobytes * 1024;
}

bool peer_memory_counts(void)
{
    return !SANITIZED;
}

size_t peer_memory_bytes(const struct peer *p)
{
    return status_bytes(p, "RssAnon");
}

size_t peer_resident_bytes(const struct peer *p)
{
    return status_bytes(p, "VmRSS");
}

/* The first thread's time on a processor, and the time that it waited for one. */
static void read_times(const struct peer *p, uint64_t *ran_ns, uint64_t *waited_ns)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)p->pid, (int)p->pid);
    FILE *f = fopen(path, "re");
    if (!f)
        SKIP("no schedstat of threads here");
    CHECK_EQ(fscanf(f, "%" SCNu64 "%" SCNu64, ran_ns, waited_ns), 2);
    fclose(f);
}

uint64_t peer_core_ns(const struct peer *p)
{
    uint64_t ran_ns = 0, waited_ns = 0;

    read_times(p, &ran_ns, &waited_ns);
    return ran_ns;
}

uint64_t peer_core_waited_ns(const struct peer *p)
{
    uint64_t ran_ns = 0, waited_ns = 0;

    read_times(p, &ran_ns, &waited_ns);
    return waited_ns;
}

const char *peer_run(struct arena *arena, const char *format, ...)
{
    struct buf line = {0}, printed = {0};
    va_list args;

    va_start(args, format);
    buf_vprintf(&line, format, args);
    va_end(args);
    gate_check_line(buf_str(&line));
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

int64_t peer_json_number(const char *json, const char *name)
{
    struct buf quoted = {0};

    buf_printf(&quoted, "\"%s\":", name);
    const char *at = strstr(json, buf_str(&quoted));
    if (!at)
        test_fail(__FILE__, __LINE__, "no %s in %s", name, json);
    at += quoted.len;
    buf_free(&quoted);
    return *at == '-' ? strtoll(at, NULL, 10) : (int64_t)strtoull(at, NULL, 10); /* ids are large */
}

void peer_allow_files(unsigned count)
{
    struct rlimit files;

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < count)
        SKIP("only %llu files may be open", (unsigned long long)files.rlim_max);
    files.rlim_cur = files.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

void peer_await_storage_version(struct peer *p)
{
    peer_run(&p->arena,
             "until $PEERS/etcdctl --endpoints %s endpoint status -w json | "
             "grep -q 'storageVersion\":\"3.7.0'; do sleep 0.1; done",
             p->client_url);
}
